r"""Which encoding is this table? Its formula and parameters, proved by building the table again.

Conventions
-----------
Columns are read as :math:`A \sin(\omega (s + o))` or the cosine, s the row: scale A, offset o.
Frequencies must then be :math:`\mathrm{step} \cdot \rho^{-i/D}` (D = d/2, or d/2 - 1, …) or those
of the real DFT. An answer is given only where the table built from it differs from the one read by
rounding alone: of the stored numbers, and of phases computed in float32 or better.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from pefourier.encodings.columns import orders
from pefourier.encodings.encoding import FLOAT64_EPS
from pefourier.geometry.waves import Turning, align, recurrence, turning_pairs

FLOAT32_EPS = 2.0**-23
SAMPLE = 2**11  # rows from which parameters are read
BLOCK = 2**22  # numbers of a table compared at a time


@dataclass(frozen=True, eq=False)
class Waves:
    """A table whose column j is amplitude_j sin(omega_j (s + offset) + quarter_j), s the row."""

    encoding: str
    params: dict
    amplitude: np.ndarray  # (d,) signed, 0 for a column of zeros
    omega: np.ndarray  # (d,) radians per row
    quarter: np.ndarray  # (d,) pi / 2 for a cosine
    offset: float

    def compare(self, s: np.ndarray, codes: np.ndarray, eps: float) -> tuple[np.ndarray, ...]:
        """Differences (len(s), d) from the codes of rows s, and how much rounding explains.

        Stored numbers are rounded to `eps`. A phase errs by its own rounding and by that of its
        frequency, whose exponent is rounded too, in float32 where the numbers are no finer.
        """
        phase = np.multiply.outer(s + self.offset, self.omega)
        codes = np.abs(codes - self.amplitude * np.sin(phase + self.quarter))
        relative = min(eps, FLOAT32_EPS) * frequency_rounding(self.omega)
        return codes, np.abs(self.amplitude).max() * (3 * eps + np.abs(phase) * relative)


def frequency_rounding(omega: np.ndarray) -> np.ndarray:
    """Relative error of an angular frequency exp(…), in units of the format's resolution."""
    return 3 + np.abs(np.log(np.maximum(omega, 1e-300)))


def identify(table: np.ndarray, eps: float = FLOAT64_EPS) -> dict | None:
    """What a table turns out to be, or None.

    Parameters
    ----------
    table : np.ndarray, shape (n, d)
        Codes, one row a position.
    eps : float
        Resolution of the stored numbers. Codes computed in float32 are recognised as well.

    Returns
    -------
    dict or None
        `encoding`; its `params`; `max_difference`, the largest between the table and its formula.
        For sinusoidal: rho, layout, divisor, offset and scale, first (sin or cos), and where they
        apply step (of positions), odd, zero_columns, zero_rows, columns (of the interleaved layout,
        in the table's order) and negative (columns with the other sign).

    Notes
    -----
    Cosines before sines at rho^(-2i/d) are called rope; flipped timestep embeddings (diffusers)
    with downscale_freq_shift 0 are the same numbers. Not recognised: fewer than 4 rows or columns,
    frequencies above pi, several sinusoids in a column.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> identify(load("sinusoidal:rho=500,layout=halves,offset=2", 40, 16).table())["params"]
    {'rho': 500.0, 'layout': 'halves', 'divisor': 'd', 'offset': 2, 'scale': 1.0, 'first': 'sin'}
    """
    for level in levels(eps):
        found = constant(table, level) or one_hot(table, level) or ramp(table, level)
        if found:
            return found
        guess = guessed(table, level)
        if guess:
            difference, astray = differences(guess, table, level)
            if not len(astray):
                return answer(guess.encoding, guess.params, difference)
    return None


def levels(eps: float) -> list[float]:
    """Resolutions to try: the stored one, and float32's where that is coarser."""
    return [eps] if eps >= FLOAT32_EPS else [eps, FLOAT32_EPS]


def answer(encoding: str, params: dict, difference: float) -> dict:
    """The contract's form of what was identified."""
    return {"encoding": encoding, "params": params, "max_difference": float(difference)}


def constant(table: np.ndarray, eps: float) -> dict | None:
    """All codes zero: none. All codes equal: constant, which is no encoding of position."""
    if len(table) < 2 or not (table[0] == table[-1]).all() or not (table == table[0]).all():
        return None
    return answer("constant" if table[0].any() else "none", {}, 0.0)


def one_hot(table: np.ndarray, eps: float) -> dict | None:
    """One entry a row, of equal size, one column further in each row."""
    n, d = table.shape
    start, scale = int(np.argmax(table[0] != 0)), float(table[0].max())
    if np.count_nonzero(table[0]) != 1 or d < 2 or n < 2:
        return None
    column = (start + np.arange(n)) % d
    if np.count_nonzero(table) != n or not (table[np.arange(n), column] == scale).all():
        return None
    return answer("onehot", {"offset": start, "scale": scale}, 0.0)


def ramp(table: np.ndarray, eps: float) -> dict | None:
    """The same straight line in every column: scale · (s + offset) / (n - 1)."""
    n = len(table)
    line = np.asarray(table[:, 0], dtype=float)
    size = np.abs(line).max()
    if n < 4 or (np.abs(table[:SAMPLE] - line[:SAMPLE, None]) > 4 * eps * size).any():
        return None
    s = np.arange(n)
    slope, start = np.polyfit(s - s.mean(), line, 1)
    straight = start + slope * (s - s.mean())
    difference = max(np.abs(rows - straight[a:b, None]).max() for a, b, rows in blocks(table))
    if difference > 8 * eps * size:
        return None
    first = (start - slope * s.mean()) / slope
    offset = 0.0 if abs(first) < 8 * eps * n else float(first)
    return answer("ramp", {"offset": offset, "scale": shortest(slope * (n - 1), eps)}, difference)


def blocks(table: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Runs of rows in float64 with their bounds."""
    step = max(1, BLOCK // table.shape[1])
    for start in range(0, len(table), step):
        rows = np.asarray(table[start : start + step], dtype=float)
        yield start, start + len(rows), rows


def differences(waves: Waves, table: np.ndarray, eps: float) -> tuple[float, np.ndarray]:
    """Largest difference of rows that are not zero, and the rows that rounding does not explain.

    A table that goes astray in more than half of a block is not read to its end.
    """
    largest, astray = 0.0, []
    for start, stop, rows in blocks(table):
        live = rows.any(axis=1)
        difference, allowed = waves.compare(np.arange(start, stop)[live], rows[live], eps)
        bad = (difference > allowed).any(axis=1)
        largest = max(largest, float(difference.max(initial=0.0)))
        astray.append(start + np.flatnonzero(live)[bad])
        if bad.sum() > len(bad) / 2:
            break
    return largest, np.concatenate(astray)


def guessed(table: np.ndarray, eps: float, usable: np.ndarray | None = None) -> Waves | None:
    """The formula that fits a run of usable rows (default: those that are not zero), unproved."""
    n, d = table.shape
    live = np.concatenate([rows.any(axis=1) for _, _, rows in blocks(table)])
    start, stop = longest_run(live if usable is None else live & usable)
    rows = np.asarray(table[start : min(stop, start + SAMPLE)], dtype=float)
    if len(rows) < 4 or (~live).sum() > n // 4:
        return None
    used = d - int(np.argmax(rows.any(axis=0)[::-1]))
    rows = rows[:, :used]
    turning = turning_pairs(rows, eps)
    found = paired(rows, turning, eps, start) if turning else repeated(rows, eps, start)
    if found is None:
        return None
    encoding, params = called_by_name(found.encoding, found.params | zero_columns(d, used))
    fields = (np.pad(field, (0, d - used)) for field in found.columns)
    waves = Waves(encoding, params, *fields, found.offset)
    zero = np.flatnonzero(~live)
    difference, allowed = waves.compare(zero, np.zeros((len(zero), d)), eps)
    padding = zero[(difference > allowed).any(axis=1)].tolist()
    return replace(waves, params=params | {"zero_rows": padding}) if padding else waves


def zero_columns(d: int, used: int) -> dict:
    """How columns of zeros at the end are said in parameters."""
    if d == used:
        return {}
    return {"odd": "zero"} if d % 2 and d - used == 1 else {"zero_columns": d - used}


def longest_run(usable: np.ndarray) -> tuple[int, int]:
    """Bounds of the longest run of True.

    >>> longest_run(np.array([True, False, True, True]))
    (2, 4)
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], usable, [False]]).astype(int)))
    if len(edges) == 0:
        return 0, 0
    k = np.argmax(edges[1::2] - edges[::2])
    return int(edges[2 * k]), int(edges[2 * k + 1])


def called_by_name(encoding: str, params: dict) -> tuple[str, dict]:
    """Rotary codes have their own name: cosines first, nothing moved, scaled or left out."""
    plain = {"divisor": "d", "offset": 0, "scale": 1.0, "first": "cos"}
    if encoding == "sinusoidal" and params["layout"] in ("interleaved", "halves"):
        if params == {"rho": params["rho"], "layout": params["layout"], **plain}:
            return "rope", {"rho": params["rho"], "layout": params["layout"]}
    return encoding, params


@dataclass(frozen=True, eq=False)
class Found:
    """A formula for the columns read: amplitude, omega and quarter as in `Waves`, each (d,)."""

    encoding: str
    params: dict
    columns: np.ndarray  # (3, d)
    offset: float


def paired(rows: np.ndarray, turning: Turning, eps: float, start: int) -> Found | None:
    """The formula of columns that turn in pairs; `start` is the position of the first row."""
    n, d = rows.shape
    slack = spread(turning.omega, eps, n)
    if (np.diff(turning.omega) > 2 * slack[1:]).any():
        order = np.argsort(-turning.omega, kind="stable")
        turning = Turning(*(field[order] for field in vars(turning).values()))
        slack = slack[order]
    grid = dft_grid(turning.omega, slack, d) or geometric_grid(turning.omega, slack, d)
    aligned = align(turning, slack, n, eps)
    left = np.setdiff1d(np.arange(d), np.concatenate([turning.sines, turning.cosines]))
    if grid is None or aligned is None or len(left) != len(grid.single):
        return None
    turning, sign, offset = aligned
    scale = familiar(float(turning.amplitude.mean()) / grid.size, d, eps)
    size = scale * grid.size
    columns, place = np.zeros((3, d)), np.zeros(d, dtype=int)
    for k, (at, quarter) in enumerate([(turning.sines, 0.0), (turning.cosines, np.pi / 2)]):
        columns[0, at], columns[1, at], columns[2, at] = sign[k] * size, grid.omega, quarter
        place[at] = grid.places[k]
    for column, single in match_single(rows[:, left], grid.single, offset):
        at = left[column]
        columns[:, at], place[at] = single.wave * (size, 1, 1), single.place
    return described(grid, columns, place, grid.position(offset - start, eps), scale)


def match_single(
    columns: np.ndarray, singles: list["Single"], offset: float
) -> Iterator[tuple[int, "Single"]]:
    """Pairs (column index, single wave with the sign it has there), each column used once."""
    s = np.arange(len(columns)) + offset
    for single in singles:
        share, omega, quarter = single.wave
        value = np.sin(omega * s + quarter) @ columns
        k = int(np.argmax(np.abs(value)))
        yield k, Single(np.array([np.copysign(share, value[k]), omega, quarter]), single.place)


def familiar(scale: float, d: int, eps: float) -> float:
    """The scale, or one that is in use and within rounding of it: 1, sqrt d, 1 / sqrt d …"""
    for usual in (1.0, d**0.5, d**-0.5, (2 / d) ** 0.5):
        if abs(scale - usual) <= 4 * eps * usual:
            return usual
    return shortest(scale, eps / 4)


def described(
    grid: "Grid", columns: np.ndarray, place: np.ndarray, offset: float, scale: float
) -> Found:
    """A formula with its parameters in words."""
    params = {"offset": offset, "scale": scale}
    if grid.encoding == "dft":
        order = ("dft", "") if (place == np.arange(len(place))).all() else None
    else:
        order = named_order(place)
        layout = {"rho": grid.params["rho"], "layout": order[0] if order else "permuted"}
        params = layout | {"divisor": grid.params["divisor"]} | params
        params |= ({"first": order[1]} if order else {}) | grid.params
    if order is None:
        params["columns"] = place.tolist()
    if (columns[0] < 0).any():
        params["negative"] = np.flatnonzero(columns[0] < 0).tolist()
    return Found(grid.encoding, params, columns, offset)


def spread(omega: np.ndarray, eps: float, n: int) -> np.ndarray:
    """How far a frequency read from n rows may be from its formula.

    Rounding of stored numbers averages out along the rows, but for pairs that hardly turn, whose
    cosine is rounded the same way in each row.
    """
    stored = eps * (4 / n**1.5 + omega / (1 + (omega * n) ** 2))
    return stored + omega * min(eps, FLOAT32_EPS) * frequency_rounding(omega)


def neat(value: float, eps: float) -> int | float:
    """The whole number within 0.01, or the value in as few digits as it is known to."""
    whole = round(value)
    return whole if abs(value - whole) <= 0.01 else shortest(value, 8 * eps)


def shortest(value: float, slack: float) -> float:
    """The number of fewest digits within a relative `slack`.

    >>> shortest(9999.9999997, 1e-9), shortest(0.08838834764, 1e-3)
    (10000.0, 0.0884)
    """
    for digits in range(16):
        short = float(f"{value:.{digits}e}")
        if abs(short - value) <= slack * abs(value):
            return short
    return float(value)


@dataclass(frozen=True, eq=False)
class Single:
    """A column without partner: share of the amplitude, omega, quarter; its place in the layout."""

    wave: np.ndarray  # (3,)
    place: int


@dataclass(frozen=True, eq=False)
class Grid:
    """Frequencies by a formula, largest first, and the places of their columns in the layout."""

    encoding: str
    params: dict
    omega: np.ndarray  # (m,)
    places: np.ndarray  # (2, m) of sines and cosines
    single: list[Single]
    size: float  # amplitude at scale 1
    period: int | None = None

    def position(self, offset: float, eps: float) -> int | float:
        """An offset as the formula has it: whole where it nearly is, within a period if any."""
        whole = neat(offset, eps)
        return whole % self.period if self.period else whole


def dft_grid(omega: np.ndarray, slack: np.ndarray, d: int) -> Grid | None:
    """The frequencies 2 pi k / d."""
    k = np.arange((d - 1) // 2, 0, -1)
    exact = 2 * np.pi * k / d
    if len(omega) != len(k) or (np.abs(exact - omega) > slack).any():
        return None
    alone = ((0.0, 0), (np.pi, d - 1))[: 2 - d % 2]
    single = [Single(np.array([np.sqrt(0.5), w, np.pi / 2]), place) for w, place in alone]
    return Grid("dft", {}, exact, np.array([k + len(k), k]), single, np.sqrt(2 / d), d)


def geometric_grid(omega: np.ndarray, slack: np.ndarray, d: int) -> Grid | None:
    """The frequencies step · rho^(-i/D): the shortest rho, and the usual D, within the slack."""
    m = len(omega)
    if m < 2 or omega.min() <= 0:
        return None
    i, weight = np.arange(m), (omega / slack) ** 2
    step = exp(intercept(i, np.log(omega), weight))
    step = 1.0 if abs(step - 1) <= 4 * slack[0] else shortest(step, slack[0])
    if m == 2 and step != 1.0:
        return None  # any two frequencies are a geometric grid
    rate = float((weight * i) @ (log(step) - np.log(omega)) / ((weight * i) @ i))
    for rho, half, params in bases(rate, d):
        exact = step * rho ** (-i / half)
        if (np.abs(exact - omega) <= 2 * slack).all():
            params = {"rho": rho} | params | ({"step": step} if step != 1.0 else {})
            last = Single(np.array([1.0, step * rho ** (-m / half), 0.0]), d - 1)
            places = np.array([2 * i, 2 * i + 1])
            return Grid("sinusoidal", params, exact, places, [last] if d % 2 else [], 1.0)
    return None


def intercept(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """The a of weighted least squares y = a + b x."""
    mean = weight @ x / weight.sum(), weight @ y / weight.sum()
    away = x - mean[0]
    return float(mean[1] - mean[0] * ((weight * away) @ y) / ((weight * away) @ away))


def bases(rate: float, d: int) -> Iterator[tuple[float, float, dict]]:
    """Candidates for rho and D with rho^(-1/D) = exp(-rate), the most usual first."""
    kinds = [(d / 2, {"divisor": "d"}), (d // 2 - 1.0, {"divisor": "d/2-1"})]
    if d % 2:
        odd = [(half, kind | {"odd": "sine"}) for half, kind in kinds]
        more = [(half, kind | {"odd": "d+1"}) for half, kind in kinds]
        kinds = [odd[0], (more[0][0] + 0.5, more[0][1]), odd[1], (more[1][0] + 1, more[1][1])]
    kinds = [(half, kind) for half, kind in kinds if half > 0 and abs(rate) * half < 700]
    for digits in (1, 2, 3):
        for half, kind in kinds:
            if digits == 1 or kind["divisor"] == "d":
                yield rounded(exp(rate * half), digits), half, kind
    if rate > 0:
        shift = round(2 * (d / 2 - log(1e4) / rate)) / 2
        if 0 < abs(shift) < d / 4:
            yield 1e4, d / 2 - shift, {"divisor": f"d/2-{shift:g}".replace("--", "+")}
    for half, kind in kinds[:1]:
        for digits in range(4, 18):
            yield rounded(exp(rate * half), digits), half, kind


def rounded(value: float, digits: int) -> float:
    """A number to so many significant digits."""
    return float(f"{value:.{digits - 1}e}")


def named_order(place: np.ndarray) -> tuple[str, str] | None:
    """Layout and first wave, if columns with these places in the interleaved layout have a name.

    >>> named_order(np.array([1, 3, 0, 2]))
    ('halves', 'cos')
    """
    known = orders(len(place)).items()
    return next((name for name, order in known if (order == place).all()), None)


def repeated(rows: np.ndarray, eps: float, start: int) -> Found | None:
    """Cosines alone, or sines alone, each column twice: one of the two tables of rotary models."""
    twice = each_twice(rows)
    if twice is None or start > 1:
        return None
    layout, columns_of = twice
    x = rows[:, columns_of[0]]
    omega, slack = single_frequencies(x, eps)
    grid = geometric_grid(omega, slack, rows.shape[1])
    if grid is None:
        return None
    k = int(np.argmax(np.sin(omega)))
    ahead = (x[1:, k] - np.cos(omega[k]) * x[:-1, k]) / np.sin(omega[k])  # size · cos(phase)
    size = familiar(float(np.sqrt((x[:-1, k] ** 2 + ahead**2).mean())), rows.shape[1], 2 * eps)
    part = "sin" if abs(np.sin(omega[k] * start) * size - x[0, k]) < 1e-2 * size else "cos"
    columns = np.zeros((3, rows.shape[1]))
    for at in columns_of:
        columns[0, at], columns[1, at] = size, grid.omega
    columns[2] = 0.0 if part == "sin" else np.pi / 2
    params = {"rho": grid.params["rho"], "layout": layout, "part": part, "scale": size}
    return Found("rope", params | grid.params, columns, 0)


def each_twice(rows: np.ndarray) -> tuple[str, tuple[slice, slice]] | None:
    """Layout, and the two sets of columns that are the same."""
    d = rows.shape[1]
    if d % 2:
        return None
    halves, turns = (slice(d // 2), slice(d // 2, d)), (slice(0, d, 2), slice(1, d, 2))
    for layout, (first, second) in (("halves", halves), ("interleaved", turns)):
        if (rows[:, first] == rows[:, second]).all():
            return layout, (first, second)
    return None


def single_frequencies(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Frequency of each column that is one sinusoid, with its slack."""
    cosine, _ = recurrence(x, 1)
    omega, error = np.maximum(np.arccos(cosine), 1e-12), 8 * eps
    away = error / np.maximum(np.sin(omega), np.sqrt(error))
    return omega, spread(omega, eps, len(x)) + away

r"""Which encoding is this table? Its formula and parameters, proved by building the table again.

Conventions
-----------
Columns are read as :math:`A \sin(\omega (s + o))` or the cosine, s the row: scale A, offset o.
Frequencies must then be :math:`\mathrm{step} \cdot \rho^{-i/D}` (D = d/2, or d/2 - 1, …) or those
of the real DFT. An answer is given only where the table built from it differs from the one read by
rounding alone: of the stored numbers, and of phases computed in float32 or better.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log, log10
from typing import Any, get_args

import numpy as np

from pefourier.encodings.columns import Layout, orders, pair_columns
from pefourier.encodings.encoding import BLOCK, FLOAT64_EPS, row_blocks
from pefourier.encodings.families.rotary import SCALINGS, Head
from pefourier.geometry import precision
from pefourier.geometry.waves import Turning, align, recurrence, turning_pairs

SAMPLE = 2**11  # rows from which parameters are read
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)  # of scalings, in tables too short to tell
SHORT = ("bfloat16", "float16")
KNOWN = 8  # a frequency of so many times its slack is known; one of less may be rounding alone
UNUSUAL = 1e9  # a base that nobody chooses, but is made by mistakes in exponents
FIRSTS = 64  # positions that the first row of one wave alone may have
CHANCE = 0.05  # of a number that fits a table and was not chosen
RISES = 128  # a line that rises by so many times its rounding is no constant


@dataclass(frozen=True, eq=False)
class Formula:
    """A table whose column j is amplitude_j sin(omega_j (s + offset) + quarter_j), s the row."""

    encoding: str
    params: dict
    columns: np.ndarray  # (3, d): amplitude (signed), omega (radians per row), quarter (pi/2: cos)
    offset: float
    top: float = 0.0  # largest number of the rows that it was read from

    def differences(self, s: np.ndarray, codes: np.ndarray, eps: float) -> tuple[np.ndarray, ...]:
        """Differences (len(s), d) from the codes of rows s, and how much rounding explains.

        Stored numbers are rounded to `eps`, phases as `phase_rounding` says.
        """
        amplitude, omega, quarter = self.columns
        s = s + self.offset
        phase = np.multiply.outer(s, omega)
        difference = np.abs(codes - amplitude * np.sin(phase + quarter))
        largest = np.abs(amplitude).max()
        stored = min(largest, max(self.top, np.abs(codes).max(initial=0.0)))
        return difference, 3 * eps * stored + largest * precision.phase_errors(s, omega, eps)


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
        apply scaling with its own (of a rotation), step (of positions), odd,
        zero_columns, zero_rows, columns (of the interleaved layout,
        in the table's order), negative (columns with the other sign) and backwards (row s is the
        code of position offset - s).

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
    once = each_wave_once(table)
    if once is not None:
        found = identify(once, eps)
        return found and {**found, "params": found["params"] | {"times": 2}}
    for level in resolutions(eps):
        found = identify_constant(table) or identify_onehot(table) or identify_ramp(table, level)
        if found:
            return found
        guess = guess_formula(table, level)
        if guess:
            difference, astray = check_formula(guess, table, level)
            if not len(astray):
                return identification(guess.encoding, guess.params, difference)
        found = identify_phases(table, level)
        if found:
            return found
    return None


def each_wave_once(table: np.ndarray) -> np.ndarray | None:
    """Cosines and sines once, where a rotation's table has each twice: cat(cos, cos, sin, sin)."""
    n, d = table.shape
    part = d // 4
    if d % 4 or d < 8 or n < 4:
        return None
    first, second = (slice(2 * k * part, (2 * k + 1) * part) for k in (0, 1))
    for some in (slice(2), slice(None)):  # two rows rule out most tables
        rows = table[some]
        for at in (first, second):
            if not (rows[:, at] == rows[:, at.stop : at.stop + part]).all():
                return None
    if (table[:, first] == table[:, second]).all():
        return None
    return np.hstack([table[:, first], table[:, second]])


def resolutions(eps: float) -> list[float]:
    """Resolutions to try: the stored one, and float32's where that is coarser."""
    return [eps] if eps >= precision.FLOAT32_EPS else [eps, precision.FLOAT32_EPS]


def identification(encoding: str, params: dict, difference: float) -> dict:
    """What `identify` answers about a table that it recognises."""
    return {"encoding": encoding, "params": params, "max_difference": float(difference)}


def identify_constant(table: np.ndarray) -> dict | None:
    """All codes zero: none. All codes equal: constant, which encodes no position."""
    if len(table) < 2 or not (table[0] == table[-1]).all() or not (table == table[0]).all():
        return None
    return identification("constant" if table[0].any() else "none", {}, 0.0)


def identify_onehot(table: np.ndarray) -> dict | None:
    """One entry a row, of equal size, one column further in each row."""
    n, d = table.shape
    start, scale = int(np.argmax(table[0] != 0)), float(table[0].max())
    if np.count_nonzero(table[0]) != 1 or d < 2 or n < 2:
        return None
    column = (start + np.arange(n)) % d
    if np.count_nonzero(table) != n or not (table[np.arange(n), column] == scale).all():
        return None
    return identification("onehot", {"offset": start, "scale": scale}, 0.0)


def identify_ramp(table: np.ndarray, eps: float) -> dict | None:
    """The same straight line in every column: scale · (s + offset) / (n - 1)."""
    n = len(table)
    line = np.asarray(table[:, 0], dtype=float)
    size = np.abs(line).max()
    if n < 4 or (np.abs(table[:SAMPLE] - line[:SAMPLE, None]) > 4 * eps * size).any():
        return None
    if np.abs(np.diff(line[:SAMPLE], 2)).max() > 40 * eps * size:  # 32 of 8 from a line
        return None
    s = np.arange(n)
    from_middle = s - s.mean()
    slope = float(from_middle @ line / (from_middle @ from_middle))  # of least squares
    start = float(line.mean())
    straight = start + slope * from_middle
    difference = max(
        np.abs(codes - straight[rows, None]).max() for rows, codes in float_blocks(table)
    )
    if difference > 8 * eps * size or abs(slope) * (n - 1) < RISES * eps * size:
        return None
    first = (start - slope * s.mean()) / slope
    offset = 0.0 if abs(first) < 8 * eps * n else float(first)
    params = {"offset": offset, "scale": shortest(slope * (n - 1), eps)}
    return identification("ramp", params, difference)


def identify_phases(table: np.ndarray, eps: float) -> dict | None:
    """Phases position · frequency of a rotation, each frequency once or twice."""
    n, d = table.shape
    rows = np.asarray(table[:SAMPLE], dtype=float)
    if n < 4 or d < 2 or rows[0].any() or not (rows[1] > 0).all():
        return None
    omega = np.asarray(table[n - 1], dtype=float) / (n - 1)
    layout, places = twin_columns(rows)
    slow = omega[places[0]]
    grid = rotary_grid(slow, 4 * eps * slow)
    if grid is None:
        return None
    exact = np.zeros(d)
    for at in places:
        exact[at] = grid.omega
    largest = 0.0
    for at, codes in float_blocks(table):
        phases = np.multiply.outer(np.arange(n)[at], exact)
        apart = np.abs(codes - phases)
        if (apart > 8 * eps * phases).any():
            return None
        largest = max(largest, float(apart.max()))
    params = {"rho": grid.params["rho"], **once_or_twice(layout), "part": "phases", **grid.params}
    return identification("rope", params, largest)


def float_blocks(table: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The rows of a table in float64, in blocks."""
    for rows in row_blocks(len(table), BLOCK, table.shape[1]):
        yield rows, np.asarray(table[rows], dtype=float)


def check_formula(formula: Formula, table: np.ndarray, eps: float) -> tuple[float, np.ndarray]:
    """Largest difference of rows that are not zero, and the rows that rounding does not explain.

    A table of which more than half of a block does not follow the formula is not read to its end.
    """
    largest, astray = 0.0, []
    for rows, codes in float_blocks(table):
        live = np.flatnonzero(codes.any(axis=1))
        difference, allowed = formula.differences(rows.start + live, codes[live], eps)
        bad = (difference > allowed).any(axis=1)
        largest = max(largest, float(difference.max(initial=0.0)))
        astray.append(rows.start + live[bad])
        if bad.sum() > len(bad) / 2:
            break
    return largest, np.concatenate(astray)


def guess_formula(
    table: np.ndarray, eps: float, usable: np.ndarray | None = None
) -> Formula | None:
    """The formula that fits a run of usable rows (default: those that are not zero), unproved."""
    n, d = table.shape
    live = np.concatenate([codes.any(axis=1) for _, codes in float_blocks(table)])
    start, stop = longest_run(live if usable is None else live & usable)
    rows = np.asarray(table[start : min(stop, start + SAMPLE)], dtype=float)
    if len(rows) < 4 or (~live).sum() > n // 4:
        return None
    used = d - int(np.argmax(rows.any(axis=0)[::-1]))
    rows = rows[:, :used]
    turning = turning_pairs(rows, eps)
    found = fit_pairs(rows, turning, eps, start) if turning else fit_one_wave(rows, eps, start)
    if found is None:
        return None
    encoding, params = usual_name(found.encoding, found.params | say_zero_columns(d, used))
    columns = np.pad(found.columns, ((0, 0), (0, d - used)))
    top = float(np.abs(rows).max())
    formula = replace(found, encoding=encoding, params=params, columns=columns, top=top)
    formula = refine_base(formula, np.pad(rows, ((0, 0), (0, d - used))), start)
    zero = np.flatnonzero(~live)
    difference, allowed = formula.differences(zero, np.zeros((len(zero), d)), eps)
    padding = zero[(difference > allowed).any(axis=1)].tolist()
    return replace(formula, params=params | {"zero_rows": padding}) if padding else formula


def chosen_digits(eps: float) -> int:
    r"""Digits of a number that fits a table, up to which it was chosen and is no error of reading.

    A number of k digits fits by chance once in :math:`10^{-k} / \epsilon`, the resolution of the
    table's numbers, of phases in float32 at best: where that is rare, or with two digits.

    >>> [chosen_digits(2.0**-digits) for digits in (11, 24, 53)]
    [2, 5, 5]
    """
    return max(2, int(log10(CHANCE / max(eps, precision.FLOAT32_EPS))))


def refine_base(formula: Formula, rows: np.ndarray, start: int) -> Formula:
    r"""A formula whose base, unless few digits say that it was chosen, is of least squares.

    One step of Gauss and Newton in :math:`\ln\rho`, by which :math:`\omega` changes as
    :math:`\omega \ln(\omega / \mathrm{step}) / \ln\rho`; errors of a column go together.
    """
    rho, step = formula.params.get("rho", 1.0), formula.params.get("step", 1.0)
    chosen = rho < UNUSUAL and to_digits(rho, chosen_digits(precision.FLOAT32_EPS)) == rho
    if chosen or "scaling" in formula.params:
        return formula
    amplitude, omega, quarter = formula.columns
    turns = np.log(np.where(omega > 0, omega, step) / step) / log(rho)
    s = start + np.arange(len(rows)) + formula.offset
    phase = np.multiply.outer(s, omega)
    unit = -np.frexp(formula.top)[1]  # squares of codes in it are no larger than 1
    height, seen = np.ldexp(amplitude, unit), np.ldexp(rows, unit)
    slope = height * np.cos(phase + quarter) * phase * turns
    each = (slope * (seen - height * np.sin(phase + quarter))).sum(axis=0)
    size = (slope**2).sum()
    change = each.sum() / size if size else 0.0
    error = 3 * np.linalg.norm(each - change * (slope**2).sum(axis=0)) / max(size, 1e-300)
    if abs(change) <= error + FLOAT64_EPS:
        return formula
    near = shortest(rho * exp(change), error)
    columns = np.stack([amplitude, omega * (near / rho) ** turns, quarter])
    return replace(formula, params=formula.params | {"rho": near}, columns=columns)


def say_zero_columns(d: int, used: int) -> dict:
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


def usual_name(encoding: str, params: dict) -> tuple[str, dict]:
    """Rotary codes have their own name: cosines first, nothing moved or left out."""
    plain = {"divisor": "d", "offset": 0, "first": "cos"}
    scaled = ("scaling", "factor", "original", "truncate")
    own = {key: params[key] for key in ("rho", "layout", "scale", *scaled) if key in params}
    if encoding == "sinusoidal" and params == own | plain and own["layout"] != "permuted":
        return "rope", {key: value for key, value in own.items() if key != "scale" or value != 1.0}
    return encoding, params


def fit_pairs(rows: np.ndarray, turning: Turning, eps: float, start: int) -> Formula | None:
    """The formula of columns that turn in pairs; `start` is the position of the first row."""
    n, d = rows.shape
    slack = frequency_slack(turning.omega, eps, n)
    if (np.diff(turning.omega) > 2 * slack[1:]).any():
        order = np.argsort(-turning.omega, kind="stable")
        turning = Turning(*(field[order] for field in vars(turning).values()))
        slack = slack[order]
    makers = (dft_grid, geometric_grid, scaled_grid)
    grid = next(filter(None, (make(turning.omega, slack, d) for make in makers)), None)
    aligned = align(turning, slack, n, eps)
    left = np.setdiff1d(np.arange(d), np.concatenate([turning.sines, turning.cosines]))
    if grid is None or aligned is None or len(left) != len(grid.single):
        return None
    turning, sign, offset = aligned
    if not abs(offset) < 2**53:
        return None
    scale = usual_scale(float(turning.amplitude.mean()) / grid.size, d, eps)
    size = scale * grid.size
    columns, place = np.zeros((3, d)), np.zeros(d, dtype=int)
    for k, (at, quarter) in enumerate([(turning.sines, 0.0), (turning.cosines, np.pi / 2)]):
        columns[0, at], columns[1, at], columns[2, at] = sign[k] * size, grid.omega, quarter
        place[at] = grid.places[k]
    for column, single in match_singles(rows[:, left], grid.single, offset):
        at = left[column]
        columns[:, at], place[at] = single.wave * (size, 1, 1), single.place
    return state_formula(grid, columns, place, grid.position(offset - start, eps), scale)


def match_singles(
    columns: np.ndarray, singles: list["Single"], offset: float
) -> Iterator[tuple[int, "Single"]]:
    """Pairs (column index, single wave with the sign it has there), each column used once."""
    s = np.arange(len(columns)) + offset
    for single in singles:
        share, omega, quarter = single.wave
        value = np.sin(omega * s + quarter) @ columns
        k = int(np.argmax(np.abs(value)))
        yield k, Single(np.array([np.copysign(share, value[k]), omega, quarter]), single.place)


def usual_scale(scale: float, d: int, eps: float) -> float:
    """The scale, or a usual one that is and within rounding of it: 1, sqrt d, 1 / sqrt d …"""
    for usual in (1.0, d**0.5, d**-0.5, (2 / d) ** 0.5):
        if abs(scale - usual) <= 4 * eps * usual:
            return usual
    return shortest(scale, eps / 4)


def state_formula(
    grid: "Grid", columns: np.ndarray, place: np.ndarray, offset: float, scale: float
) -> Formula:
    """The formula of columns at known places of a grid, with its parameters by name."""
    params = {"offset": offset, "scale": scale}
    if grid.encoding == "dft":
        order = ("dft", "") if (place == np.arange(len(place))).all() else None
    else:
        order = order_name(place)
        layout = {"rho": grid.params["rho"], "layout": order[0] if order else "permuted"}
        params = layout | {"divisor": grid.params["divisor"]} | params
        params |= ({"first": order[1]} if order else {}) | grid.params
    if order is None:
        params["columns"] = place.tolist()
    negative, moving = columns[0] < 0, columns[1] > 0
    if negative.any() and (negative == ((columns[2] == 0) & moving)).all():  # all sines
        at = -offset if grid.period is None else -offset % grid.period
        params |= {"offset": at, "backwards": True}
    elif negative.any():
        params["negative"] = np.flatnonzero(negative).tolist()
    return Formula(grid.encoding, params, columns, offset)


def frequency_slack(omega: np.ndarray, eps: float, n: int) -> np.ndarray:
    """How far a frequency read from n rows may be from its formula.

    Rounding of stored numbers averages out along the rows, but for pairs that hardly turn, whose
    cosine is rounded the same way in each row.
    """
    stored = eps * (4 / n**1.5 + omega / (1 + (omega * n) ** 2))
    return stored + precision.phase_rounding(omega, eps)


def whole_or_shortest(value: float, eps: float) -> int | float:
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
        whole = whole_or_shortest(offset, eps)
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
    if omega.min(initial=1.0) <= 0 or np.count_nonzero(omega > KNOWN * slack) < 2:
        return None
    i, weight = np.arange(m), (omega / slack) ** 2
    first = intercept(i, np.log(omega), weight)
    if not abs(first) < 700:  # as good as no number
        return None
    step = exp(first)
    step = 1.0 if abs(step - 1) <= 4 * slack[0] else short_step(step, slack[0] / max(step, 1.0))
    if m == 2 and step != 1.0:
        return None  # any two frequencies are a geometric grid
    rate = float((weight * i) @ (log(step) - np.log(omega)) / ((weight * i) @ i))
    for share in (1, 2):  # of the slack: a base of more digits, before one that hardly fits
        for rho, half, params in candidate_bases(rate, d):
            exact = step * rho ** (-i / half)
            if (np.abs(exact - omega) <= share * slack).all():
                params = {"rho": rho} | params | ({"step": step} if step != 1.0 else {})
                last = Single(np.array([1.0, step * rho ** (-m / half), 0.0]), d - 1)
                places = np.array([2 * i, 2 * i + 1])
                return Grid("sinusoidal", params, exact, places, [last] if d % 2 else [], 1.0)
    return None


def short_step(step: float, slack: float) -> float:
    """A simple multiple of pi, or the number of fewest digits, within a relative slack.

    >>> short_step(3.1415926, 1e-7) == np.pi, short_step(0.25, 1e-7)
    (True, 0.25)
    """
    of_pi = to_digits(step / np.pi, 1) * np.pi
    return of_pi if abs(of_pi - step) <= min(slack, 1e-4) * step else shortest(step, slack)


def scaled_grid(omega: np.ndarray, slack: np.ndarray, d: int) -> Grid | None:
    """The frequencies of a rotation scaled by llama3 or yarn, with usual lengths of training."""
    m, i = len(omega), np.arange(len(omega))
    kept = max(m // 8, 2)
    if d != 2 * m or m < 8 or omega.min() <= 0 or abs(omega[0] - 1) > 2 * slack[0]:
        return None
    rate = -log(omega[kept]) / kept
    rhos = (to_digits(exp(rate * m), digits) for digits in range(1, 7)) if rate * m < 700 else ()
    near = (2 * slack)[: kept + 1]
    rho = next((r for r in rhos if (abs(r ** (-i / m) - omega)[: kept + 1] <= near).all()), None)
    if rho is None or rho <= 1:
        return None
    known = slack[-1] < 1e-3 * omega[-1]
    factors = (to_digits(rho ** (-(m - 1) / m) / omega[-1], 3),) if known else FACTORS
    for scaling, own in usual_scalings(factor for factor in factors if factor > 1):
        exact, _ = SCALINGS[scaling](Head(d, rho, 1.0, 1), **own)
        if (np.abs(exact - omega) <= 2 * slack).all():
            params = {"rho": rho, "divisor": "d", "scaling": scaling, **own}
            return Grid("sinusoidal", params, exact, np.array([2 * i, 2 * i + 1]), [], 1.0)
    return None


def usual_scalings(factors: Iterable[float]) -> Iterator[tuple[str, dict]]:
    """Scalings by some factors, with the lengths of training that models have."""
    for factor, k in product(factors, range(11, 18)):
        own = {"factor": factor, "original": 2**k}
        yield "llama3", own
        yield "yarn", own
        yield "yarn", own | {"truncate": False}


def coarse_grid(omega: np.ndarray, slack: np.ndarray, d: int) -> tuple[str, float, str] | None:
    """Frequencies of a geometric grid rounded to 16 bits: the format, the base and the divisor.

    Only where frequencies are known far better than such a format would hold them: else any grid
    fits, rounded or not.
    """
    i = np.arange(len(omega))
    if len(omega) < 4 or omega.min() <= 0:
        return None
    of_form = {name: known_beyond(precision.FORMATS[name].digits, omega, slack) for name in SHORT}
    rate = float(-(i @ np.log(omega)) / (i @ i))
    for digits in range(1, 7):
        for half, divisor in ((d / 2, "d"), (d / 2 - 1, "d/2-1")):
            rho = to_digits(exp(rate * half), digits) if abs(rate * half) < 700 else 1.0
            exact = rho ** (-i / half)
            for name, known in of_form.items():
                near = precision.rounded(exact, precision.FORMATS[name])
                moved = known & (np.abs(near - exact) > 2 * slack)
                if known.sum() >= 4 and (np.abs(near - omega) <= 2 * slack).all():
                    return (name, rho, divisor) if moved.sum() >= 3 else None
    return None


def known_beyond(digits: int, omega: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Which frequencies are known to a sixteenth of the last of so many binary digits.

    >>> known_beyond(8, np.array([0.5, 0.5]), np.array([1e-5, 1e-3])).tolist()
    [True, False]
    """
    last = 2.0 ** (np.floor(np.log2(omega)) + 1 - digits)
    return 2 * slack < last / 16


def intercept(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """The a of weighted least squares y = a + b x."""
    mean = weight @ x / weight.sum(), weight @ y / weight.sum()
    away = x - mean[0]
    return float(mean[1] - mean[0] * ((weight * away) @ y) / ((weight * away) @ away))


def candidate_bases(rate: float, d: int) -> Iterator[tuple[float, float, dict]]:
    """Candidates for rho and D with rho^(-1/D) = exp(-rate), the most usual first."""
    kinds = [(d / 2, {"divisor": "d"}), (d // 2 - 1.0, {"divisor": "d/2-1"})]
    if d % 2:
        odd = [(half, kind | {"odd": "sine"}) for half, kind in kinds]
        more = [(half, kind | {"odd": "d+1"}) for half, kind in kinds]
        kinds = [odd[0], (more[0][0] + 0.5, more[0][1]), odd[1], (more[1][0] + 1, more[1][1])]
    kinds = [(half, kind) for half, kind in kinds if half > 0 and abs(rate) * half < 700]
    yield from ((1e4, half, kind) for half, kind in kinds)  # in few columns one grid is another's
    for digits in (1, 2, 3):
        for half, kind in kinds:
            if digits == 1 or kind["divisor"] == "d":
                yield to_digits(exp(rate * half), digits), half, kind
    if rate * d > log(1e4):
        shift = round(2 * (d / 2 - log(1e4) / rate)) / 2
        if 0 < abs(shift) < d / 4:
            yield 1e4, d / 2 - shift, {"divisor": f"d/2-{shift:g}".replace("--", "+")}
    for half, kind in kinds[:1]:
        for digits in range(4, 18):
            yield to_digits(exp(rate * half), digits), half, kind


def to_digits(value: float, digits: int) -> float:
    """A number to so many significant digits."""
    return float(f"{value:.{digits - 1}e}")


def order_name(place: np.ndarray) -> tuple[str, str] | None:
    """Layout and first wave, if columns with these places in the interleaved layout have a name.

    >>> order_name(np.array([1, 3, 0, 2]))
    ('halves', 'cos')
    """
    known = orders(len(place)).items()
    return next((name for name, order in known if (order == place).all()), None)


@dataclass(frozen=True, eq=False)
class OneWave:
    """Columns that are all cosines, or all sines."""

    part: str  # cos or sin
    layout: str | None  # in which each column stands twice; None: once
    places: tuple[slice, ...]  # the columns of each time
    omega: np.ndarray  # (m,) radians per row
    slack: np.ndarray
    size: float
    first: int  # position of the first row


def read_one_wave(rows: np.ndarray, eps: float, start: int) -> OneWave | None:
    """Cosines alone, or sines alone: one of the two tables of a rotation; None where it is not."""
    if start > 1 or len(rows) < 4:
        return None
    layout, places = twin_columns(rows)
    x = rows[:, places[0]]
    omega, slack = single_frequencies(x, eps)
    k = int(np.argmax(np.sin(omega)))
    if np.sin(omega[k]) < 1e-3:
        return None
    ahead = (x[1:, k] - np.cos(omega[k]) * x[:-1, k]) / np.sin(omega[k])  # size · cos(phase)
    size = float(np.sqrt((x[:-1, k] ** 2 + ahead**2).mean()))
    waves, given = {"sin": np.sin, "cos": np.cos}, x[0] / (size or np.nan)
    at = np.arange(start, FIRSTS)
    near = [np.abs(wave(omega[k] * at) - given[k]) <= 2e-2 for wave in waves.values()]
    for first, part in product(at[np.any(near, axis=0)].tolist(), waves):  # the fastest wave's
        moved = np.minimum((first - start) * slack, 1e-2)  # a phase that is not known tells none
        if (np.abs(waves[part](omega * first) - given) <= 1e-2 + moved).all():
            last = len(x) - 1 + first
            omega, slack = by_last_row(part, x[-1] / size, last, omega, slack, eps)
            return OneWave(part, layout, places, omega, slack, size, first)
    return None


def by_last_row(
    part: str, last: np.ndarray, at: int, omega: np.ndarray, slack: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies with those that turn less than a radian read from the last row, at a position."""
    slow = (omega * at < 1) & (slack * at < 0.5)
    inverse = np.arccos if part == "cos" else np.arcsin
    near = np.maximum(inverse(np.clip(last, -1, 1)) / at, 1e-12)
    steep = np.sqrt(np.maximum(1 - last**2, 8 * eps)) if part == "cos" else 0.5
    error = 8 * eps / (steep * at) + precision.phase_rounding(near, eps)
    return np.where(slow, near, omega), np.where(slow, error, slack)


def fit_one_wave(rows: np.ndarray, eps: float, start: int) -> Formula | None:
    """The formula of cosines alone, or of sines alone, each column once or twice."""
    found = read_one_wave(rows, eps, start)
    if found is None:
        return None
    d = rows.shape[1]
    grid = rotary_grid(found.omega, found.slack)
    if grid is None:
        return None
    size = usual_scale(found.size, d, 2 * eps)
    columns = np.zeros((3, d))
    for at in found.places:
        columns[0, at], columns[1, at] = size, grid.omega
    columns[2] = 0.0 if found.part == "sin" else np.pi / 2
    own = {**once_or_twice(found.layout), "part": found.part, "scale": size}
    own |= {"offset": found.first - start} if found.first > start else {}
    params = {"rho": grid.params["rho"], **own}
    return Formula("rope", params | grid.params, columns, found.first - start)


def rotary_grid(omega: np.ndarray, slack: np.ndarray) -> Grid | None:
    """The grid of a rotation's frequencies, scaled or not."""
    d = 2 * len(omega)
    return geometric_grid(omega, slack, d) or scaled_grid(omega, slack, d)


def once_or_twice(layout: str | None) -> dict[str, Any]:
    """How a table of one wave of a rotation says where it has each frequency, once or twice."""
    return {"layout": layout} if layout else {"times": 1}


def twin_columns(rows: np.ndarray) -> tuple[str | None, tuple[slice, ...]]:
    """Layout, and the two sets of columns that are the same; None, and all columns."""
    d = rows.shape[1]
    for layout in get_args(Layout) if d % 2 == 0 else ():
        places = pair_columns(layout, d // 2)
        if (rows[:, places[0]] == rows[:, places[1]]).all():
            return layout, places
    return None, (slice(d),)


def single_frequencies(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Frequency of each column that is one sinusoid, with its slack."""
    cosine, _ = recurrence(x, 1)
    omega, error = np.maximum(np.arccos(cosine), 1e-12), 8 * eps
    away = error / np.maximum(np.sin(omega), np.sqrt(error))
    return omega, frequency_slack(omega, eps, len(x)) + away

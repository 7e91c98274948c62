r"""Which encoding is this table? A formula is proposed, built again, and compared to rounding.

Conventions
-----------
Closed forms give names and parameters: columns are :math:`A \sin(\omega (s + o))` or the cosine, s
the row, with scale A and offset o; frequencies are :math:`\mathrm{step} \cdot \rho^{-i/D}`
(D = d/2, or d/2 - 1, …), those of a scaled rotation or of the real DFT. `rebuild` makes codes of
name and parameters alone, by the registry's formulas. They are an answer only where the table
differs from them by rounding: of stored numbers, and of phases computed in float32 or better.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log, log10
from typing import Any, get_args

import numpy as np

from pefourier.encodings.columns import Layout, orders, pair_columns
from pefourier.encodings.encoding import BLOCK, FLOAT64_EPS, row_blocks
from pefourier.encodings.families.rotary import SCALINGS, Head
from pefourier.encodings.registry import build
from pefourier.geometry import precision
from pefourier.geometry.waves import SinusoidPairs, align, fit_sinusoid_pairs, recurrence

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
    """A proposal: what a table may be, its codes of rows s (n,), and what rounding explains."""

    encoding: str
    params: dict
    codes: Callable[[np.ndarray], np.ndarray]  # (n, d) of rows s
    tolerance: Callable[[np.ndarray, np.ndarray, float], Any]  # of rows s, codes, resolution

    def residual(
        self, s: np.ndarray, codes: np.ndarray, eps: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Differences (n, d) of the codes of rows s, and of each row whether rounding explains it.

        Rows of zeros that the formula leaves out differ by nothing.
        """
        difference = np.abs(codes - self.codes(s))
        if "zero_rows" in self.params:
            difference[np.isin(s, self.params["zero_rows"]) & ~codes.any(axis=1)] = 0.0
        return difference, (difference <= self.tolerance(s, codes, eps)).all(axis=1)

    def compare(self, table: np.ndarray, eps: float) -> tuple[float, np.ndarray]:
        """The largest difference of a table, and the rows that rounding does not explain.

        A table of which more than half of a block does not follow is not read to its end.
        """
        largest, stray = 0.0, []
        for rows, codes in float_blocks(table):
            s = np.arange(rows.start, rows.stop)
            difference, explained = self.residual(s, codes, eps)
            largest = max(largest, float(difference.max(initial=0.0)))
            stray.append(s[~explained])
            if len(stray[-1]) > len(s) / 2:
                break
        return largest, np.concatenate(stray)


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
    half = drop_twins(table)
    if half is not None:
        identified = identify(half, eps)
        return identified and {**identified, "params": identified["params"] | {"times": 2}}
    for level in resolutions(eps):
        for propose in (propose_still, propose_onehot, propose_ramp, propose_waves, propose_phases):
            formula = propose(table, level)
            difference, stray = formula.compare(table, level) if formula else (0.0, ())
            if formula and not len(stray):
                return identification(formula.encoding, formula.params, difference)
    return None


def identification(encoding: str, params: dict, difference: float) -> dict:
    """What `identify` answers about a table that it recognises."""
    return {"encoding": encoding, "params": params, "max_difference": float(difference)}


def resolutions(eps: float) -> list[float]:
    """Resolutions to try: the stored one, and float32's where that is coarser."""
    return [eps] if eps >= precision.FLOAT32_EPS else [eps, precision.FLOAT32_EPS]


def float_blocks(table: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The rows of a table in float64, in blocks."""
    for rows in row_blocks(len(table), BLOCK, table.shape[1]):
        yield rows, np.asarray(table[rows], dtype=float)


def drop_twins(table: np.ndarray) -> np.ndarray | None:
    """Cosines and sines once, where a rotation's table has each twice: cat(cos, cos, sin, sin)."""
    n, d = table.shape
    if d % 4 or d < 8 or n < 4:
        return None
    for rows in (table[:2], table):  # two rows rule out most tables
        cosines, cosines_again, sines, sines_again = np.split(rows, 4, axis=1)
        if not ((cosines == cosines_again).all() and (sines == sines_again).all()):
            return None
    return None if (cosines == sines).all() else np.hstack([cosines, sines])


def propose_still(table: np.ndarray, eps: float) -> Formula | None:
    """All codes zero: none. All codes equal: constant, which encodes no position."""
    code = np.asarray(table[0], dtype=float)
    if len(table) < 2 or not (table[0] == table[-1]).all():
        return None
    name = "constant" if code.any() else "none"
    return Formula(name, {}, lambda s: np.tile(code, (len(s), 1)), lambda *_: 0.0)


def propose_onehot(table: np.ndarray, eps: float) -> Formula | None:
    """One entry a row, of equal size, one column further in each row."""
    n, d = table.shape
    start, scale = int(np.argmax(table[0] != 0)), float(table[0].max())
    if np.count_nonzero(table[0]) != 1 or scale <= 0 or min(n, d) < 2:
        return None
    enc = build("onehot", length=n, d=d)
    params = {"offset": start, "scale": scale}
    return Formula("onehot", params, lambda s: scale * enc.codes(s + start), lambda *_: 0.0)


def propose_ramp(table: np.ndarray, eps: float) -> Formula | None:
    """The same straight line in every column, of least squares: scale · (s + offset) / (n - 1)."""
    n, d = table.shape
    line = np.asarray(table[:, 0], dtype=float)
    size = np.abs(line).max()
    if n < 4 or (np.abs(table[:SAMPLE] - line[:SAMPLE, None]) > 4 * eps * size).any():
        return None
    from_middle = np.arange(n) - (n - 1) / 2
    slope = float(from_middle @ line / (from_middle @ from_middle))
    middle = float(line.mean())
    if abs(slope) * (n - 1) < RISES * eps * size:
        return None
    first = middle / slope - (n - 1) / 2
    offset = 0.0 if abs(first) < 8 * eps * n else float(first)
    params = {"offset": offset, "scale": shortest(slope * (n - 1), eps)}

    def codes(s: np.ndarray) -> np.ndarray:
        return np.repeat((middle + slope * (s - (n - 1) / 2))[:, None], d, axis=1)

    return Formula("ramp", params, codes, lambda *_: 8 * eps * size)


def propose_phases(table: np.ndarray, eps: float) -> Formula | None:
    """Phases position · frequency of a rotation, each frequency once or twice."""
    n, d = table.shape
    rows = np.asarray(table[:SAMPLE], dtype=float)
    if n < 4 or d < 2 or rows[0].any() or not (rows[1] > 0).all():
        return None
    layout, places = twin_columns(rows)
    slow = (np.asarray(table[n - 1], dtype=float) / (n - 1))[places[0]]
    grid = rotary_grid(slow, 4 * eps * slow)
    if grid is None:
        return None
    rho, scaled = split_base(grid)
    params = {"rho": rho, **once_or_twice(layout), "part": "phases", **scaled}
    omega = reference_waves("rope", params, d)[1]
    return Formula(
        "rope",
        params,
        lambda s: np.multiply.outer(s, omega),
        lambda s, codes, eps: 8 * eps * np.multiply.outer(s, omega),
    )


def propose_waves(
    table: np.ndarray, eps: float, usable: np.ndarray | None = None
) -> Formula | None:
    """Sinusoids that fit a run of usable rows (default: those that are not zero)."""
    n, d = table.shape
    live = np.concatenate([codes.any(axis=1) for _, codes in float_blocks(table)])
    start, stop = longest_run(live if usable is None else live & usable)
    rows = np.asarray(table[start : min(stop, start + SAMPLE)], dtype=float)
    if len(rows) < 4 or (~live).sum() > n // 4:
        return None
    used = d - int(np.argmax(rows.any(axis=0)[::-1]))
    pairs = fit_sinusoid_pairs(rows[:, :used], eps)
    fit = fit_pairs if pairs else fit_one_wave
    proposal = fit(rows[:, :used], pairs, eps, start)
    if proposal is None:
        return None
    encoding, params = usual_name(proposal[0], proposal[1] | zero_columns(d, used))
    params = refine_base(encoding, params, rows, start)
    formula = rebuild(encoding, params, d, float(np.abs(rows).max()))
    zero = np.flatnonzero(~live)
    padding = zero[~formula.residual(zero, np.zeros((len(zero), d)), eps)[1]].tolist()
    return replace(formula, params=params | {"zero_rows": padding}) if padding else formula


def rebuild(encoding: str, params: dict, d: int, top: float = np.inf) -> Formula:
    """Sinusoids by name and parameters alone; `top` is the largest number that was seen.

    >>> rebuild("rope", {"rho": 100.0, "layout": "halves"}, 4).codes(np.array([1])).round(3)
    array([[0.54 , 0.995, 0.841, 0.1  ]])
    """
    amplitude, omega, phase = table_waves(encoding, params, d)
    offset = params.get("offset", 0) * (-1 if params.get("backwards") else 1)
    largest = np.abs(amplitude).max()

    def codes(s: np.ndarray) -> np.ndarray:
        return amplitude * np.sin(np.multiply.outer(s + offset, omega) + phase)

    def tolerance(s: np.ndarray, codes: np.ndarray, eps: float) -> np.ndarray:
        stored = min(largest, max(top, np.abs(codes).max(initial=0.0)))
        return 3 * eps * stored + largest * precision.phase_errors(s + offset, omega, eps)

    return Formula(encoding, params, codes, tolerance)


def table_waves(encoding: str, params: dict, d: int) -> np.ndarray:
    """Signed amplitude, frequency and phase of each column, (3, d), in the table's order."""
    used = d - params.get("zero_columns", int(params.get("odd") == "zero"))
    waves = reference_waves(encoding, params, used)
    if "columns" in params:
        waves = waves[:, params["columns"]]
    elif encoding != "dft" and "part" not in params:
        first = params.get("first", "cos" if encoding == "rope" else "sin")
        waves = waves[:, orders(used)[params["layout"], first]]
    waves[0] *= params.get("scale", 1.0)
    if params.get("backwards"):
        waves[0, (waves[2] == 0) & (waves[1] > 0)] *= -1
    waves[0, params.get("negative", [])] *= -1
    return np.pad(waves, ((0, 0), (0, d - used)))


def reference_waves(encoding: str, params: dict, d: int) -> np.ndarray:
    """Amplitude, frequency and phase of each column in the order of reference, (3, d)."""
    waves = np.ones((3, d))
    if encoding == "dft":
        measure, paired = build("dft", length=1, d=d).measure, (d + 1) // 2
        k = np.concatenate([np.arange(paired), np.arange(1, paired), np.arange(paired, d // 2 + 1)])
        waves = np.stack([measure.amplitudes[k], measure.frequencies[k], np.full(d, np.pi / 2)])
        waves[2, paired : 2 * paired - 1] = 0.0
        return waves
    if "part" in params:
        layout = params.get("layout")
        omega = frequencies(params, 2 * d if layout is None else d)
        for place in pair_columns(layout, d // 2) if layout else (slice(d),):
            waves[1, place] = omega
        waves[2] = np.pi / 2 * (params["part"] == "cos")
        return waves
    waves[1] = np.repeat(frequencies(params, d), 2)[:d]
    waves[2] = np.pi / 2 * (np.arange(d) % 2)
    return waves


def frequencies(params: dict, d: int) -> np.ndarray:
    """Radians a row of the pairs of d columns, ((d + 1) // 2,)."""
    i, rho = np.arange((d + 1) // 2), params["rho"]
    if "scaling" in params:
        scaled = {key: params[key] for key in ("factor", "original", "truncate") if key in params}
        return SCALINGS[params["scaling"]](Head(d, rho, 1.0, 1), **scaled)[0]
    return params.get("step", 1.0) * rho ** (-i / exponent_divisor(params, d))


def exponent_divisor(params: dict, d: int) -> float:
    """The D of rho^(-i/D), of d columns.

    >>> [exponent_divisor({"divisor": name}, 7) for name in ("d", "d/2-1", "d/2+0.5")]
    [3.5, 2.0, 4.0]
    """
    divisor, longer = params.get("divisor", "d"), params.get("odd") == "d+1"
    if divisor == "d/2-1":
        return d // 2 - 1.0 + longer
    return d / 2 + float(divisor[3:] or 0.0) + 0.5 * longer


def refine_base(encoding: str, params: dict, rows: np.ndarray, start: int) -> dict:
    r"""Parameters whose base, unless few digits say that it was chosen, is of least squares.

    One step of Gauss and Newton in :math:`\ln\rho`, by which :math:`\omega` changes as
    :math:`\omega \ln(\omega / \mathrm{step}) / \ln\rho`; errors of a column go together.
    """
    rho, step = params.get("rho", 1.0), params.get("step", 1.0)
    chosen = rho < UNUSUAL and to_digits(rho, chosen_digits(precision.FLOAT32_EPS)) == rho
    if chosen or "scaling" in params:
        return params
    amplitude, omega, phase = table_waves(encoding, params, rows.shape[1])
    turns = np.log(np.where(omega > 0, omega, step) / step) / log(rho)
    offset = params.get("offset", 0) * (-1 if params.get("backwards") else 1)
    angles = np.multiply.outer(start + np.arange(len(rows)) + offset, omega)
    unit = -np.frexp(np.abs(rows).max())[1]  # squares of codes in it are no larger than 1
    height, codes = np.ldexp(amplitude, unit), np.ldexp(rows, unit)
    slope = height * np.cos(angles + phase) * angles * turns
    products = (slope * (codes - height * np.sin(angles + phase))).sum(axis=0)
    size = (slope**2).sum()
    change = products.sum() / size if size else 0.0
    error = 3 * np.linalg.norm(products - change * (slope**2).sum(axis=0)) / max(size, 1e-300)
    if abs(change) <= error + FLOAT64_EPS:
        return params
    return params | {"rho": shortest(rho * exp(change), error)}


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


def usual_name(encoding: str, params: dict) -> tuple[str, dict]:
    """Rotary codes have their own name: cosines first, nothing moved or left out."""
    plain = {"divisor": "d", "offset": 0, "first": "cos"}
    names = ("rho", "layout", "scale", "scaling", "factor", "original", "truncate")
    rotary = {key: params[key] for key in names if key in params}
    if encoding == "sinusoidal" and params == rotary | plain and params["layout"] != "permuted":
        return "rope", {k: v for k, v in rotary.items() if k != "scale" or v != 1.0}
    return encoding, params


def fit_pairs(
    rows: np.ndarray, pairs: SinusoidPairs, eps: float, start: int
) -> tuple[str, dict] | None:
    """Name and parameters of columns that turn in pairs; `start` is the first row's position."""
    n, d = rows.shape
    slack = frequency_slack(pairs.omega, eps, n)
    if (np.diff(pairs.omega) > 2 * slack[1:]).any():
        order = np.argsort(-pairs.omega, kind="stable")
        pairs, slack = (
            SinusoidPairs(*(field[order] for field in vars(pairs).values())),
            slack[order],
        )
    grid, aligned = propose_grid(pairs.omega, slack, d), align(pairs, slack, n, eps)
    if grid is None or aligned is None or not abs(aligned[2]) < 2**53:
        return None
    encoding, shape = grid
    pairs, sign, offset = aligned
    place, negative = np.full(d, -1), np.zeros(d, dtype=bool)
    place[[pairs.sines, pairs.cosines]] = pair_places(encoding, len(pairs.omega))
    negative[[pairs.sines, pairs.cosines]] = sign < 0
    reference, columns = reference_waves(encoding, shape, d), np.flatnonzero(place < 0)
    singles = np.setdiff1d(np.arange(d), place)
    if len(columns) != len(singles):
        return None
    for single in singles:
        _, omega, phase = reference[:, single]
        products = np.sin(omega * (np.arange(n) + offset) + phase) @ rows[:, columns]
        k = int(np.argmax(np.abs(products)))
        place[columns[k]], negative[columns[k]] = single, products[k] < 0
    unit = np.sqrt(2 / d) if encoding == "dft" else 1.0
    scale = usual_scale(float(pairs.amplitude.mean()) / unit, d, eps)
    offset = whole_or_shortest(offset - start, eps)
    return encoding, name_order(encoding, shape, offset, scale, place) | name_signs(
        negative, reference[:, place], offset, d if encoding == "dft" else None
    )


def pair_places(encoding: str, m: int) -> np.ndarray:
    """Columns of reference of the sines and the cosines of m pairs, the fastest first, (2, m)."""
    if encoding == "dft":
        return np.add([[m], [0]], np.arange(m, 0, -1))
    return np.add([[0], [1]], 2 * np.arange(m))


def name_order(encoding: str, shape: dict, offset: float, scale: float, place: np.ndarray) -> dict:
    """Parameters of columns at known places of reference, but for their signs."""
    if encoding == "dft":
        plain = {"offset": offset % len(place), "scale": scale}
        moved = (place != np.arange(len(place))).any()
        return plain | ({"columns": place.tolist()} if moved else {})
    order = order_name(place)
    layout = {"rho": shape["rho"], "layout": order[0] if order else "permuted"}
    params = layout | {"divisor": shape["divisor"], "offset": offset, "scale": scale}
    params |= ({"first": order[1]} if order else {}) | shape
    return params if order else params | {"columns": place.tolist()}


def name_signs(negative: np.ndarray, waves: np.ndarray, offset: float, period: int | None) -> dict:
    """The parameter that says which columns have the other sign: all sines, of rows that run back.

    `waves` are those of the columns, (3, d).
    """
    if not negative.any():
        return {}
    if (negative == ((waves[2] == 0) & (waves[1] > 0))).all():
        return {"offset": -offset % period if period else -offset, "backwards": True}
    return {"negative": np.flatnonzero(negative).tolist()}


def usual_scale(scale: float, d: int, eps: float) -> float:
    """The scale, or a usual one that is and within rounding of it: 1, sqrt d, 1 / sqrt d …"""
    for usual in (1.0, d**0.5, d**-0.5, (2 / d) ** 0.5):
        if abs(scale - usual) <= 4 * eps * usual:
            return usual
    return shortest(scale, eps / 4)


def frequency_slack(omega: np.ndarray, eps: float, n: int) -> np.ndarray:
    """How far a frequency read from n rows may be from its formula.

    Rounding of stored numbers averages out along the rows, but for pairs that hardly turn, whose
    cosine is rounded the same way in each row.
    """
    stored = eps * (4 / n**1.5 + omega / (1 + (omega * n) ** 2))
    return stored + precision.phase_rounding(omega, eps)


def whole_or_shortest(value: float, eps: float) -> int | float:
    """The whole number within 0.01, or the value in as few digits as it is known to."""
    integer = round(value)
    return integer if abs(value - integer) <= 0.01 else shortest(value, 8 * eps)


def shortest(value: float, slack: float) -> float:
    """The number of fewest digits within a relative `slack`.

    >>> shortest(9999.9999997, 1e-9), shortest(0.08838834764, 1e-3)
    (10000.0, 0.0884)
    """
    short = (float(f"{value:.{digits}e}") for digits in range(16))
    return next((x for x in short if abs(x - value) <= slack * abs(value)), float(value))


def to_digits(value: float, digits: int) -> float:
    """A number to so many significant digits."""
    return float(f"{value:.{digits - 1}e}")


def chosen_digits(eps: float) -> int:
    r"""Digits of a number that fits a table, up to which it was chosen and is no error of reading.

    A number of k digits fits by chance once in :math:`10^{-k} / \epsilon`, the resolution of the
    table's numbers, of phases in float32 at best: where that is rare, or with two digits.

    >>> [chosen_digits(2.0**-digits) for digits in (11, 24, 53)]
    [2, 5, 5]
    """
    return max(2, int(log10(CHANCE / max(eps, precision.FLOAT32_EPS))))


def order_name(place: np.ndarray) -> tuple[str, str] | None:
    """Layout and first wave, if columns with these places in the interleaved layout have a name.

    >>> order_name(np.array([1, 3, 0, 2]))
    ('halves', 'cos')
    """
    names = orders(len(place)).items()
    return next((name for name, order in names if (order == place).all()), None)


def propose_grid(omega: np.ndarray, slack: np.ndarray, d: int) -> tuple[str, dict] | None:
    """Name and parameters of a grid that frequencies are within their slack, largest first."""
    k = np.arange((d - 1) // 2, 0, -1)
    if len(omega) == len(k) and (np.abs(2 * np.pi * k / d - omega) <= slack).all():
        return "dft", {}
    params = geometric_grid(omega, slack, d) or scaled_grid(omega, slack, d)
    return params and ("sinusoidal", params)


def geometric_grid(omega: np.ndarray, slack: np.ndarray, d: int) -> dict | None:
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
    for share, params in product((1, 2), list(candidate_bases(rate, d))):  # more digits, then slack
        proposal = params | ({"step": step} if step != 1.0 else {})
        if (np.abs(frequencies(proposal, d)[:m] - omega) <= share * slack).all():
            return proposal
    return None


def short_step(step: float, slack: float) -> float:
    """A simple multiple of pi, or the number of fewest digits, within a relative slack.

    >>> short_step(3.1415926, 1e-7) == np.pi, short_step(0.25, 1e-7)
    (True, 0.25)
    """
    of_pi = to_digits(step / np.pi, 1) * np.pi
    return of_pi if abs(of_pi - step) <= min(slack, 1e-4) * step else shortest(step, slack)


def intercept(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """The a of weighted least squares y = a + b x."""
    mean = weight @ x / weight.sum(), weight @ y / weight.sum()
    away = x - mean[0]
    return float(mean[1] - mean[0] * ((weight * away) @ y) / ((weight * away) @ away))


def candidate_bases(rate: float, d: int) -> Iterator[dict]:
    """Parameters rho and divisor with rho^(-1/D) = exp(-rate), the most usual first."""
    kinds = [{"divisor": name} for name in ("d", "d/2-1")]
    if d % 2:
        kinds = [kind | {"odd": odd} for kind in kinds for odd in ("sine", "d+1")]
    halves = [exponent_divisor(kind, d) for kind in kinds]
    kinds = [
        k for k, half in zip(kinds, halves, strict=True) if half > 0 and abs(rate) * half < 700
    ]
    short = [{"divisor": "d/2+0.5"}] if d % 2 == 0 and kinds else []  # of d + 1, a column short
    yield from ({"rho": 1e4} | kind for kind in kinds)  # in few columns one grid is another's

    def to(digits: int, kind: dict) -> dict:
        return {"rho": to_digits(exp(rate * exponent_divisor(kind, d)), digits)} | kind

    yield from (to(1, kind) for kind in kinds)
    yield from (to(digits, k) for digits in (2, 3) for k in kinds if k["divisor"] == "d")
    yield from (to(1, kind) for kind in short)
    if rate * d > log(1e4):
        shift = round(2 * (d / 2 - log(1e4) / rate)) / 2
        if 0 < abs(shift) < d / 4:
            yield {"rho": 1e4, "divisor": f"d/2{-shift:+g}"}
    yield from (to(digits, kind) for kind in kinds[:1] for digits in range(4, 18))


def scaled_grid(omega: np.ndarray, slack: np.ndarray, d: int) -> dict | None:
    """The frequencies of a rotation scaled by llama3 or yarn, with usual lengths of training."""
    m, i = len(omega), np.arange(len(omega))
    first = slice(max(m // 8, 2) + 1)  # pairs that no scaling changes
    if d != 2 * m or m < 8 or omega.min() <= 0 or abs(omega[0] - 1) > 2 * slack[0]:
        return None
    rate = -log(omega[first.stop - 1]) / (first.stop - 1)
    bases = (to_digits(exp(rate * m), digits) for digits in range(1, 7)) if rate * m < 700 else ()
    allowed = 2 * slack
    fits = (rho for rho in bases if (abs(rho ** (-i / m) - omega) <= allowed)[first].all())
    rho = next(fits, 0.0)
    if rho <= 1:
        return None
    sharp = slack[-1] < 1e-3 * omega[-1]
    factors = (to_digits(rho ** (-(m - 1) / m) / omega[-1], 3),) if sharp else FACTORS
    for scaling in usual_scalings(factor for factor in factors if factor > 1):
        params = {"rho": rho, "divisor": "d"} | scaling
        if (np.abs(frequencies(params, d) - omega) <= allowed).all():
            return params
    return None


def usual_scalings(factors: Iterable[float]) -> Iterator[dict]:
    """Scalings by some factors, with the lengths of training that models have."""
    for factor, k in product(factors, range(11, 18)):
        lengths = {"factor": factor, "original": 2**k}
        yield {"scaling": "llama3"} | lengths
        yield {"scaling": "yarn"} | lengths
        yield {"scaling": "yarn"} | lengths | {"truncate": False}


@dataclass(frozen=True, eq=False)
class OneWave:
    """Columns that are all cosines, or all sines."""

    part: str  # cos or sin
    layout: str | None  # in which each column stands twice; None: once
    places: Sequence[slice]  # the columns of each time
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
    waves, start_codes = {"sin": np.sin, "cos": np.cos}, x[0] / (size or np.nan)
    positions = np.arange(start, FIRSTS)
    close = [np.abs(wave(omega[k] * positions) - start_codes[k]) <= 2e-2 for wave in waves.values()]
    for first, part in product(positions[np.any(close, axis=0)].tolist(), waves):  # the fastest's
        moved = np.minimum((first - start) * slack, 1e-2)  # a phase that is not known tells none
        if (np.abs(waves[part](omega * first) - start_codes) <= 1e-2 + moved).all():
            last = len(x) - 1 + first
            omega, slack = by_last_row(part, x[-1] / size, last, omega, slack, eps)
            return OneWave(part, layout, places, omega, slack, size, first)
    return None


def by_last_row(
    part: str, last: np.ndarray, position: int, omega: np.ndarray, slack: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies with those that turn less than a radian read from the last row, at a position."""
    slow = (omega * position < 1) & (slack * position < 0.5)
    inverse = np.arccos if part == "cos" else np.arcsin
    slow_omega = np.maximum(inverse(np.clip(last, -1, 1)) / position, 1e-12)
    steep = np.sqrt(np.maximum(1 - last**2, 8 * eps)) if part == "cos" else 0.5
    error = 8 * eps / (steep * position) + precision.phase_rounding(slow_omega, eps)
    return np.where(slow, slow_omega, omega), np.where(slow, error, slack)


def fit_one_wave(rows: np.ndarray, pairs: None, eps: float, start: int) -> tuple[str, dict] | None:
    """Parameters of a rotation's cosines alone, or sines alone, each column once or twice."""
    wave = read_one_wave(rows, eps, start)
    grid = wave and rotary_grid(wave.omega, wave.slack)
    if not grid:
        return None
    rho, scaled = split_base(grid)
    size = usual_scale(wave.size, rows.shape[1], 2 * eps)
    params = {"rho": rho, **once_or_twice(wave.layout), "part": wave.part, "scale": size}
    params |= {"offset": wave.first - start} if wave.first > start else {}
    return "rope", params | scaled


def rotary_grid(omega: np.ndarray, slack: np.ndarray) -> dict | None:
    """The grid of a rotation's frequencies, scaled or not."""
    d = 2 * len(omega)
    return geometric_grid(omega, slack, d) or scaled_grid(omega, slack, d)


def split_base(grid: dict) -> tuple[float, dict]:
    """The base of a grid, and its other parameters."""
    return grid["rho"], {key: value for key, value in grid.items() if key != "rho"}


def once_or_twice(layout: str | None) -> dict[str, Any]:
    """How a table of one wave of a rotation says where it has each frequency, once or twice."""
    return {"layout": layout} if layout else {"times": 1}


def twin_columns(rows: np.ndarray) -> tuple[str | None, Sequence[slice]]:
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

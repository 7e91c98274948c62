r"""Identify the encoding of a table: propose a formula, rebuild it and compare within rounding.

Conventions
-----------
Closed forms give the name and parameters. Columns are :math:`A \sin(\omega (s + o) + \varphi)` or
the cosine, with row s, scale A and offset o. Frequencies are
:math:`\mathrm{step} \cdot \rho^{-i/D}` (D = d/2, d/2 - 1, …), or those of a scaled rotation or of
the real DFT. `Formula` computes the vectors from name and parameters alone, by the formulas of the
registry. A formula is accepted only if the table differs from it by rounding alone: rounding of the
stored numbers, and of phases computed in float32 or better.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import exp, log, log10
from typing import Any

import numpy as np

from pefourier.construction.rope import usual_scalings
from pefourier.construction.tables import shortest, true_runs
from pefourier.construction.waves import Waves, align, copies_of, fit, fit_columns
from pefourier.encodings.encoding import (
    FLOAT64_EPS,
    orders,
)
from pefourier.encodings.families.rotary import rotation_of
from pefourier.geometry import precision
from pefourier.types import Array, Bools, Fields, Floats, Indices, Table, frozen_arrays

Params = dict[str, Any]  # of a formula, by their names in a SPEC
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)  # tried if a table is too short for a fit
CERTAIN = 8  # least ratio of a frequency to its slack; below it, rounding dominates
LEAST = 1e-30  # radians per row of a scaled rotation
CHANCE = 0.05  # probability that a short number fits a table by chance
SAMPLE = 2**11  # rows to which parameters are fitted
NAMES = ("rho", "layout", "divisor", "offset", "scale", "first")  # in the order of the answer
SHORT = ("bfloat16", "float16")


def geometric_grid(omega: Floats, slack: Floats, d: int) -> Params | None:
    """Fit step · rho^(-i/D) to frequencies within their slack: shortest rho, usual D first."""
    m = len(omega)
    if omega.min(initial=1.0) <= 0 or np.count_nonzero(omega > CERTAIN * slack) < 2:
        return None
    i, weight = np.arange(m), (omega / slack) ** 2
    first = np.polyfit(i, np.log(omega), 1, w=omega / slack)[1]
    if not abs(first) < 700:  # exp would overflow or underflow
        return None
    step = exp(first)
    if abs(step - 1) > 4 * slack[0]:
        step = shortest(step, slack[0] / max(step, 1.0))
    else:
        step = 1.0
    if m == 2 and step != 1.0:
        return None  # two frequencies always form a geometric grid
    rate = (weight * i) @ (log(step) - np.log(omega)) / ((weight * i) @ i)
    for share, params in product((1, 2), list(candidate_bases(rate, d))):  # then slack
        proposal = params | ({"step": step} if step != 1.0 else {})
        if (np.abs(frequencies(proposal, d)[:m] - omega) <= share * slack).all():
            return proposal
    return None


def candidate_bases(rate: float, d: int) -> Iterator[Params]:
    """Yield parameters rho and divisor with rho^(-1/D) = exp(-rate), the most usual first."""
    kinds: list[Params] = [{"divisor": name} for name in ("d", "d/2-1")]
    if d % 2:
        kinds = [kind | {"odd": odd} for kind in kinds for odd in ("sine", "d+1")]
    kinds = [k for k in kinds if 0 < (half := exponent_divisor(k, d)) and abs(rate) * half < 700]
    yield from ({"rho": 1e4} | kind for kind in kinds)  # with few columns, several grids fit
    for count in (1, 2, 3, 4, 5, *range(8, 18)):  # few, as people choose them, or those of the fit
        for kind in kinds:
            if count == 1 or kind["divisor"] == "d":
                rho = exp(rate * exponent_divisor(kind, d))
                yield {"rho": float(f"{rho:.{count}g}")} | kind


def scaled_grid(omega: Floats, slack: Floats, d: int) -> Params | None:
    """Fit the frequencies of a rotation scaled by llama3 or yarn, with usual trained lengths."""
    m, k = len(omega), max(len(omega) // 8, 2)  # pairs up to k are unchanged by scaling
    if d != 2 * m or m < 8 or omega.min() <= LEAST or abs(omega[0] - 1) > 2 * slack[0]:
        return None
    for rho in (float(f"{omega[k] ** (-m / k):.{digits}g}") for digits in range(1, 7)):
        plain = rho ** (-np.arange(m) / m)
        if rho <= 1 or (abs(plain - omega) > 2 * slack)[: k + 1].any():
            continue
        sharp = slack[-1] < 1e-3 * omega[-1]
        factors = (float(f"{plain[-1] / omega[-1]:.3g}"),) if sharp else FACTORS
        for scaling in usual_scalings(factor for factor in factors if factor > 1):
            params = {"rho": rho, "divisor": "d"} | scaling
            if (np.abs(frequencies(params, d) - omega) <= 2 * slack).all():
                return params
    return None


def frequencies(params: Params, d: int) -> Floats:
    """Return the radians per row of the pairs of d columns, ((d + 1) // 2,)."""
    if "scaling" in params:
        return rotation_of({"d": d, "partial": 1.0} | params, 1)[0]
    exponents = np.arange((d + 1) // 2) / exponent_divisor(params, d)
    omega: Floats = params.get("step", 1.0) * params["rho"] ** -exponents
    return omega


def exponent_divisor(params: Params, d: int) -> float:
    """Return the D of rho^(-i/D) for d columns.

    >>> [exponent_divisor({"divisor": name}, 7) for name in ("d", "d/2-1")]
    [3.5, 2.0]
    """
    divisor, longer = params.get("divisor", "d"), params.get("odd") == "d+1"
    if divisor == "d/2-1":
        return d // 2 - 1.0 + longer
    return d / 2 + 0.5 * longer


def frequency_slack(omega: Floats, eps: float, n: int) -> Floats:
    """Return error bounds of frequencies fitted to n rows.

    Rounding of stored numbers averages out along the rows, except for pairs that hardly rotate:
    their cosine is rounded the same way in each row.
    """
    stored: Floats = eps * (4 / n**1.5 + omega / (1 + (omega * n) ** 2))
    return stored + precision.phase_rounding(omega, eps)


def chosen_digits(eps: float) -> int:
    r"""Return the number of digits up to which a fitted number counts as chosen by a person.

    A number of k digits fits by chance once in :math:`10^{-k} / \epsilon` cases, with the
    resolution of the table's numbers, at best that of float32 phases. Numbers with so few digits
    that this is rare, or with two digits, count as chosen.

    >>> [chosen_digits(2.0**-digits) for digits in (11, 24, 53)]
    [2, 5, 5]
    """
    return max(2, int(log10(CHANCE / max(eps, precision.FLOAT32_EPS))))


@frozen_arrays
class Formula:
    """A proposed formula of the d columns of a table: sinusoids by name and parameters.

    >>> formula = Formula("rope", {"rho": 100.0, "layout": "halves"}, 4)
    >>> formula.vectors(np.array([1])).round(3)
    array([[0.54 , 0.995, 0.841, 0.1  ]])
    """

    encoding: str
    params: Params
    d: int
    top: float = np.inf  # largest number of the table

    @cached_property
    def waves(self) -> Floats:
        """Signed amplitude, frequency and phase of each column, (3, d)."""
        return table_waves(self.encoding, self.params, self.d)

    @cached_property
    def offset(self) -> Any:
        """Position of row 0, where positions run forwards."""
        return self.params.get("offset", 0) * (-1 if self.params.get("backwards") else 1)

    def vectors(self, s: Array) -> Floats:
        """Return the vectors (n, d) of rows s (n,)."""
        amplitude, omega, phase = self.waves
        waves: Floats = amplitude * np.sin(np.multiply.outer(s + self.offset, omega) + phase)
        return waves

    def residual(self, s: Array, vectors: Floats, eps: float) -> tuple[Floats, Bools]:
        """Return differences (n, d) at rows s, and whether rounding explains each row.

        Zero rows that the formula lists do not differ.
        """
        difference, largest = np.abs(vectors - self.vectors(s)), np.abs(self.waves[0]).max()
        if "zero_rows" in self.params:
            difference[np.isin(s, self.params["zero_rows"]) & ~vectors.any(axis=1)] = 0.0
        stored = min(largest, max(self.top, np.abs(vectors).max(initial=0.0)))
        phases = precision.phase_errors(s + self.offset, self.waves[1], eps)
        return difference, (difference <= 3 * eps * stored + largest * phases).all(axis=1)

    def compare(self, table: Table, eps: float) -> tuple[float, Indices]:
        """Return the largest difference of a table, and the rows that rounding does not explain.

        Reading stops after a block in which more than half of the rows do not follow the formula.
        """
        largest, stray = 0.0, []
        for rows, vectors in precision.float_blocks(table):
            s = np.arange(rows.start, rows.stop)
            difference, explained = self.residual(s, vectors, eps)
            largest = max(largest, difference.max(initial=0.0))
            stray.append(s[~explained])
            if len(stray[-1]) > len(s) / 2:
                break
        return largest, np.concatenate(stray)


def table_waves(encoding: str, params: Params, d: int) -> Floats:
    """Return signed amplitude, frequency and phase of each column, (3, d), in table order."""
    used = d - int(params.get("odd") == "zero")
    waves, paired, quarter = np.ones((3, used)), (used + 1) // 2, np.pi / 2
    if encoding == "dft":
        k = np.r_[:paired, 1:paired, paired : used // 2 + 1]
        waves[:2] = np.sqrt(np.where(2 * k % used, 2, 1) / used), 2 * np.pi * k / used
        waves[2], waves[2, paired : 2 * paired - 1] = quarter, 0.0
    elif "part" in params:
        copies = params.get("layout", "")
        omega = frequencies(params, used if copies else 2 * used)
        twice = {"halves": np.tile(omega, 2), "interleaved": np.repeat(omega, 2)}
        waves[1], waves[2] = twice.get(copies, omega), quarter * (params["part"] == "cos")
    else:
        first = params.get("first", "cos" if encoding == "rope" else "sin")
        order = orders(used)[params["layout"], first]
        waves[1:] = frequencies(params, used)[order // 2], quarter * (order % 2)
    waves[0] *= params.get("scale", 1.0)
    if params.get("backwards"):
        waves[0, (waves[2] == 0) & (waves[1] > 0)] *= -1
    return np.pad(waves, ((0, 0), (0, d - used)))


def identify(table: Table, eps: float = FLOAT64_EPS) -> Fields | None:
    """Identify the encoding of a table; None if no formula fits.

    Parameters
    ----------
    table : np.ndarray, shape (n, d)
        One row per position.
    eps : float
        Resolution of the stored numbers. Tables computed in float32 are recognised as well.

    Returns
    -------
    dict or None
        `encoding`, its `params`, and `max_difference`, the largest difference from the formula.
        Parameters of sinusoidal: rho, layout, divisor, offset, scale and first (sin or cos). If
        they apply, also scaling with its own parameters (of a rotation), step (of positions), odd,
        zero_rows, and backwards (row s is the vector of position offset - s).

    Notes
    -----
    Cosines before sines at rho^(-2i/d) are called rope; flipped timestep embeddings (diffusers)
    with downscale_freq_shift 0 are the same numbers. Not recognised: fewer than 4 rows or columns,
    frequencies above pi, several sinusoids in a column, and unknown orders of columns.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> identify(load("sinusoidal:rho=500,layout=halves,offset=2", 40, 16).table())["params"]
    {'rho': 500.0, 'layout': 'halves', 'divisor': 'd', 'offset': 2, 'scale': 1.0, 'first': 'sin'}
    """
    half = drop_twins(table)
    if half is not None and (identified := identify(half, eps)):
        identified["params"]["times"] = 2
        return identified
    for level in dict.fromkeys((eps, max(eps, precision.FLOAT32_EPS))):
        if formula := propose_waves(table, level):
            difference, stray = formula.compare(table, level)
            if not len(stray):
                return identification(formula.encoding, formula.params, difference)
    n, d = table.shape
    if n > 1 and (table[0] == table[-1]).all() and (table == table[0]).all():
        return identification("constant" if table[0].any() else "none", {}, 0.0)
    if np.count_nonzero(table[0]) == 1 < d:
        start = int(np.argmax(table[0]))
        params = {"offset": start, "scale": float(table[0, start])}
        if (table == params["scale"] * np.eye(d)[(np.arange(n) + start) % d]).all():
            return identification("onehot", params, 0.0)
    return None


def identification(encoding: str, params: Params, difference: float) -> Fields:
    """Return the result of `identify` for a recognised table."""
    return {"encoding": encoding, "params": params, "max_difference": float(difference)}


def drop_twins(table: Table) -> Table | None:
    """Drop duplicate columns of a rotation's table cat(cos, cos, sin, sin); None otherwise."""
    if table.shape[1] % 4 or min(2 * len(table), table.shape[1]) < 8:
        return None
    cosines, sines = np.split(table, 2, axis=1)
    if not copies_of(cosines) == copies_of(sines) == "halves" or (cosines == sines).all():
        return None
    return np.hstack([np.split(half, 2, axis=1)[0] for half in (cosines, sines)])


def propose_waves(table: Table, eps: float, usable: Bools | None = None) -> Formula | None:
    """Propose sinusoids that fit a run of usable rows (by default, nonzero rows)."""
    n, d = table.shape
    live = np.concatenate([vectors.any(axis=1) for _, vectors in precision.float_blocks(table)])
    runs = true_runs(live if usable is None else live & usable)
    start, last = max(runs, key=lambda run: run[1] - run[0], default=(0, -1))
    rows = table[start : min(last + 1, start + SAMPLE)].astype(float)
    if len(rows) < 4 or (~live).sum() > n // 4:
        return None
    used = d - int(d % 2 and not rows[:, -1].any())
    pairs = fit_columns(rows[:, :used], eps)
    if pairs:
        proposal = fit_pairs(rows[:, :used], pairs, eps, start)
    else:
        proposal = fit_one_wave(table[: start + len(rows)], eps) if start < 2 else None
    if not proposal:
        return None
    encoding, params = usual_name(*proposal)
    params |= {"odd": "zero"} if used < d else {}
    formula = Formula(encoding, params, d, np.abs(rows).max())
    zero = np.flatnonzero(~live)
    padding = zero[~formula.residual(zero, np.zeros((len(zero), d)), eps)[1]].tolist()
    return replace(formula, params=params | {"zero_rows": padding}) if padding else formula


def usual_name(encoding: str, params: Params) -> tuple[str, Params]:
    """Rename sinusoids to rope: cosines first, no offset, and the usual divisor."""
    plain = {"divisor": "d", "offset": 0, "first": "cos"}
    names = "rho", "layout", "scale", "scaling", "factor", "original", "truncate"
    rotary = {key: params[key] for key in names if key in params}
    if encoding == "sinusoidal" and params == rotary | plain:
        if rotary["scale"] == 1.0:
            del rotary["scale"]
        return "rope", rotary
    return encoding, params


def fit_pairs(rows: Floats, pairs: Waves, eps: float, start: int) -> tuple[str, Params] | None:
    """Return name and parameters of rotating pairs; `start` is the position of the first row."""
    n, d = rows.shape
    slack = frequency_slack(pairs.frequency, eps, n)
    if (np.diff(pairs.frequency) > 2 * slack[1:]).any():
        order = np.argsort(-pairs.frequency, kind="stable")
        pairs = pairs.of_pairs(order)
        slack = slack[order]
    fitted, k = (pairs.frequency, slack, d), np.arange((d - 1) // 2, 0, -1)
    is_dft = len(k) == len(pairs) and (np.abs(2 * np.pi * k / d - pairs.frequency) <= slack).all()
    encoding, shape = "dft" if is_dft else "sinusoidal", Params()
    if not is_dft:
        shape = geometric_grid(*fitted) or scaled_grid(*fitted) or shape
    aligned = align(pairs, slack, n, eps)
    if not (shape or is_dft) or not aligned or not abs(aligned[2]) < 2**53:
        return None
    pairs, (cosines, sines), offset = aligned
    columns = order_of_pairs(encoding, pairs, d)
    backwards = sines.max() < 0  # reversed rows change the sign of all sines
    if columns is None or cosines.min() < 0 or sines.min() != sines.max():
        return None
    unit = np.sqrt(2 / d) if encoding == "dft" else 1.0
    offset -= start
    whole = abs(offset - round(offset)) <= 0.01
    offset = (round(offset) if whole else shortest(offset, 8 * eps)) * (-1 if backwards else 1)
    params = shape | columns | {"offset": offset % d if encoding == "dft" else offset}
    params["scale"] = usual_scale(float(pairs.amplitude.mean()) / unit, d, eps)
    in_order = {key: params[key] for key in NAMES if key in params}
    return encoding, in_order | shape | ({"backwards": True} if backwards else {})


def order_of_pairs(encoding: str, pairs: Waves, d: int) -> Params | None:
    """Return the layout and first wave of pairs by descending frequency; None if unknown."""
    m, place = len(pairs.frequency), np.full(d, -1)
    if encoding == "dft":
        place[pairs.columns] = np.add([[0], [m]], np.arange(m, 0, -1))
        return {} if (place == np.arange(d))[place >= 0].all() else None
    place[pairs.columns] = np.add([[1], [0]], 2 * np.arange(m))
    for (layout, first), order in orders(d).items():
        if (place == order)[place >= 0].all():
            return {"layout": layout, "first": first}
    return None


def usual_scale(scale: float, d: int, eps: float) -> float:
    """Return the usual scale (1, sqrt d, 1 / sqrt d, …) within rounding, or the shortest number."""
    for usual in (1.0, d**0.5, d**-0.5, (2 / d) ** 0.5):
        if abs(scale - usual) <= 4 * eps * usual:
            return usual
    return shortest(scale, eps / 4)


def fit_one_wave(rows: Table, eps: float) -> tuple[str, Params] | None:
    """Return parameters of a rotation's cosines alone or sines alone, each column once or twice.

    A cosine that hardly rotates is flat: a small rounding error shifts its frequency far.
    """
    waves = fit(rows, eps) if len(rows) > 3 else None
    form = waves.form if waves and waves.repeats == 1 else None
    if not waves or not form or form.part not in ("cos", "sin"):
        return None
    n, omega = len(rows), np.maximum(np.abs(waves.frequency), 1e-12)
    wave = np.sin if form.part == "cos" else np.cos
    steep = np.where(omega * n < 1, wave(omega * n), 1.0)
    slack = frequency_slack(omega, eps, n) + 8 * eps / (n * np.maximum(steep, np.sqrt(8 * eps)))
    fitted = omega, slack, 2 * len(omega)
    grid = geometric_grid(*fitted) or scaled_grid(*fitted)
    if not grid:
        return None
    times: Params = {"layout": form.copies} if form.copies else {"times": 1}
    size = usual_scale(waves.factor, rows.shape[1], 2 * eps)
    return "rope", {"rho": grid["rho"], **times, "part": form.part, "scale": size} | grid

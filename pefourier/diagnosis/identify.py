r"""Identify the encoding of a table: propose a formula, rebuild it and compare within rounding.

Conventions
-----------
Closed forms give the name and parameters. Columns are :math:`A \sin(\omega (s + o))` or the cosine,
with row s, scale A and offset o. Frequencies are :math:`\mathrm{step} \cdot \rho^{-i/D}`
(D = d/2, d/2 - 1, …), or those of a scaled rotation or of the real DFT. `rebuild` computes the
vectors from name and parameters alone, by the formulas of the registry. A formula is accepted only
if the table differs from it by rounding alone: rounding of the stored numbers, and of phases
computed in float32 or better.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.diagnosis.wave_formulas import (
    Formula,
    Params,
    fit_single_waves,
    float_blocks,
    frequency_slack,
    geometric_grid,
    propose_grid,
    rebuild,
    refine_base,
    scaled_grid,
    shortest,
    whole_or_shortest,
)
from pefourier.encodings.columns import orders
from pefourier.encodings.encoding import FLOAT64_EPS, Floats
from pefourier.encodings.registry import build
from pefourier.geometry import precision
from pefourier.geometry.precision import Table
from pefourier.geometry.waves import Waves, align, fit_columns

SAMPLE = 2**11  # rows to which parameters are fitted
NAMES = ("rho", "layout", "divisor", "offset", "scale", "first")  # in the order of the answer
SHORT = ("bfloat16", "float16")


def identify(table: Table, eps: float = FLOAT64_EPS) -> dict[str, Any] | None:
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
    if half is not None:
        identified = identify(half, eps)
        if identified is not None:
            identified["params"]["times"] = 2
        return identified
    for level in resolutions(eps):
        for propose in (propose_still, propose_onehot, propose_waves):
            formula = propose(table, level)
            if formula is not None:
                difference, stray = formula.compare(table, level)
                if not len(stray):
                    return identification(formula.encoding, formula.params, difference)
    return None


def identification(encoding: str, params: Params, difference: float) -> dict[str, Any]:
    """Return the result of `identify` for a recognised table."""
    return {"encoding": encoding, "params": params, "max_difference": float(difference)}


def resolutions(eps: float) -> list[float]:
    """Return the resolutions to try: that of the stored numbers, then float32 if coarser."""
    return [eps] if eps >= precision.FLOAT32_EPS else [eps, precision.FLOAT32_EPS]


def drop_twins(table: Table) -> Table | None:
    """Drop duplicate columns of a rotation's table cat(cos, cos, sin, sin); None otherwise."""
    n, d = table.shape
    if d % 4 or d < 8 or n < 4:
        return None
    cosines, cosines_again, sines, sines_again = np.split(table, 4, axis=1)
    twins = np.array_equal(cosines, cosines_again) and np.array_equal(sines, sines_again)
    return np.hstack([cosines, sines]) if twins and (cosines != sines).any() else None


def propose_still(table: Table, _: float) -> Formula | None:
    """Propose none for zero rows, or constant for equal rows, which encode no position."""
    vector = np.asarray(table[0], dtype=float)
    if len(table) < 2 or not (table[0] == table[-1]).all():
        return None
    name = "constant" if vector.any() else "none"
    return Formula(name, {}, lambda s: np.tile(vector, (len(s), 1)), lambda *_: 0.0)


def propose_onehot(table: Table, _: float) -> Formula | None:
    """Propose one-hot: one entry per row, of equal size, one column further in each row."""
    n, d = table.shape
    start, scale = int(np.argmax(table[0] != 0)), float(table[0].max())
    if np.count_nonzero(table[0]) != 1 or scale <= 0 or min(n, d) < 2:
        return None
    enc = build("onehot", length=n, d=d)
    params = {"offset": start, "scale": scale}

    def vectors(s: NDArray[Any]) -> Floats:
        return np.asarray(scale * enc.vectors(s + start), dtype=float)

    return Formula("onehot", params, vectors, lambda *_: 0.0)


def propose_waves(
    table: Table, eps: float, usable: NDArray[np.bool_] | None = None
) -> Formula | None:
    """Propose sinusoids that fit a run of usable rows (by default, nonzero rows)."""
    n, d = table.shape
    live = np.concatenate([vectors.any(axis=1) for _, vectors in float_blocks(table)])
    start, stop = longest_run(live if usable is None else live & usable)
    rows = np.asarray(table[start : min(stop, start + SAMPLE)], dtype=float)
    if len(rows) < 4 or (~live).sum() > n // 4:
        return None
    used = d - int(d % 2 and not rows[:, -1].any())
    pairs = fit_columns(rows[:, :used], eps)
    if pairs:
        proposal = fit_pairs(rows[:, :used], pairs, eps, start)
    else:
        proposal = fit_one_wave(np.asarray(table[: start + len(rows)]), eps) if start < 2 else None
    if proposal is None:
        return None
    encoding, params = usual_name(*proposal)
    params |= {"odd": "zero"} if used < d else {}
    params = refine_base(encoding, params, rows, start)
    formula = rebuild(encoding, params, d, float(np.abs(rows).max()))
    zero = np.flatnonzero(~live)
    padding = zero[~formula.residual(zero, np.zeros((len(zero), d)), eps)[1]].tolist()
    return replace(formula, params=params | {"zero_rows": padding}) if padding else formula


def longest_run(usable: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the bounds of the longest run of True.

    >>> longest_run(np.array([True, False, True, True]))
    (2, 4)
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], usable, [False]]).astype(int)))
    if len(edges) == 0:
        return 0, 0
    k = np.argmax(edges[1::2] - edges[::2])
    return int(edges[2 * k]), int(edges[2 * k + 1])


def usual_name(encoding: str, params: Params) -> tuple[str, Params]:
    """Rename sinusoids to rope: cosines first, no offset, and the usual divisor."""
    plain = {"divisor": "d", "offset": 0, "first": "cos"}
    names = ("rho", "layout", "scale", "scaling", "factor", "original", "truncate")
    rotary = {key: params[key] for key in names if key in params}
    if encoding == "sinusoidal" and params == rotary | plain:
        return "rope", {k: v for k, v in rotary.items() if k != "scale" or v != 1.0}
    return encoding, params


def fit_pairs(rows: Floats, pairs: Waves, eps: float, start: int) -> tuple[str, Params] | None:
    """Return name and parameters of rotating pairs; `start` is the position of the first row."""
    n, d = rows.shape
    slack = frequency_slack(pairs.frequency, eps, n)
    if (np.diff(pairs.frequency) > 2 * slack[1:]).any():
        order = np.argsort(-pairs.frequency, kind="stable")
        pairs = pairs.of_pairs(order)
        slack = slack[order]
    grid, aligned = propose_grid(pairs.frequency, slack, d), align(pairs, slack, n, eps)
    if grid is None or aligned is None or not abs(aligned[2]) < 2**53:
        return None
    encoding, shape = grid
    pairs, (cosines, sines), offset = aligned
    columns = order_of_pairs(encoding, pairs, d)
    backwards = sines.max() < 0  # reversed rows change the sign of all sines
    if columns is None or cosines.min() < 0 or sines.min() != sines.max():
        return None
    unit = np.sqrt(2 / d) if encoding == "dft" else 1.0
    offset = whole_or_shortest(offset - start, eps) * (-1 if backwards else 1)
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
    """Return parameters of a rotation's cosines alone or sines alone, each column once or twice."""
    waves = fit_single_waves(rows, eps)
    if waves is None:
        return None
    fitted = waves.omega, waves.slack, 2 * len(waves.slack)
    grid = geometric_grid(*fitted) or scaled_grid(*fitted)
    if grid is None:
        return None
    times: Params = {"layout": waves.copies} if waves.copies else {"times": 1}
    size = usual_scale(waves.factor, rows.shape[1], 2 * eps)
    return "rope", {"rho": grid["rho"], **times, "part": waves.part, "scale": size} | grid

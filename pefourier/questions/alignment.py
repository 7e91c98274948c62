"""How does one table lead to another? Order, signs and scale of columns, an offset in rows.

Conventions
-----------
Tables are (n, d), `allowed` the differences that rounding explains, shape (n, d) or (n, 1). Column
j of b is `scale` · signs[j] · column columns[j] of a, `offset` rows further on in a, or has a scale
of its own (`scales`) and a constant added (`offset_row`). Rows in any order are matched, too, but
not together with columns. The weakest relation is a rotation, by which all inner products are kept.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.diagnosis.pairs import Bools, Places, fit_pair_waves, frequencies_apart
from pefourier.encodings.columns import changes_by_name
from pefourier.encodings.encoding import (
    BLOCK,
    Floats,
    largest_number,
    row_blocks,
    unit_of,
)
from pefourier.encodings.findings import finding
from pefourier.geometry.tolerance import stored_tolerance
from pefourier.questions.moved_rows import is_matched, match_rows
from pefourier.questions.operators import has_operator, rotates
from pefourier.questions.outcome import Outcome, Two

FEWEST = 4  # rows in which a scale and a constant for each column are looked for
CORRELATED = 0.9  # columns that are one another's but for sign, scale and constant are more so
NEAR = 1e-6  # of 1, by which correlations of near columns are less
FEW = 64  # rows in which a match of columns is looked for first
PROBES = 8  # random directions in which inner products are compared
SUMS_EPS = 8 * 2.0**-52  # to which sums of squares in float64 are known
EXPLAINED = 0.1  # of the differences of entries: more is left, and a rotation explains nothing
SQUARES_EPS = 1e-12  # of those sums, by which small differences are told


def align_tables(outcome: Outcome, encodings: Two) -> Outcome:
    """Tables that differ as they stand, and follow from one another by an order or a scale."""
    first, second = encodings
    injections = {first.injection, second.injection}
    both_rotate = has_operator(first) and has_operator(second)
    if both_rotate or outcome.unit == "factors" or "bias" in injections:
        return outcome
    x = slice(outcome.length)
    a, b = (np.asarray(enc.table(enc.domain.x[x]), dtype=float) for enc in encodings)
    allowed, eps = stored_tolerance(a, b, first, second)
    transform, difference = find_transformation(a, b, allowed, eps)
    on_grid = any(len(enc.domain.sides) > 1 for enc in encodings)
    is_reversed = transform == {"rows": "reversed"}  # which rows in any order are, too
    if transform is None or is_reversed or (on_grid and "offset" in transform):
        return outcome if outcome.cause else match_rows(outcome, a, b, allowed)
    if {"rotation", "scales", "offset_row"} & transform.keys():
        waves = fit_pair_waves(a, first.eps), fit_pair_waves(b, second.eps)
        if waves[0] and waves[1] and frequencies_apart(waves[0], waves[1]):
            return outcome
    is_rotated = transform.pop("rotation", False)
    aligned = replace(outcome, transform=transform, max_difference=difference, pairs=(), cause=None)
    if is_rotated:
        return replace(aligned, verdict="same geometry")
    if outcome.pairs and "rotate" in injections and transform.keys() <= {"scale"}:
        return outcome
    if "rows" in transform:
        note = finding("rows-reordered", table="second", moves="reversed")
        return outcome.with_findings(note, transform=transform)
    turns = rotates(first) or rotates(second)
    if turns and {"scale", "scales", "offset_row"} & transform.keys():
        return replace(outcome, transform=transform)
    return replace(aligned, verdict="equivalent")


def find_transformation(
    a: Floats, b: Floats, allowed: Floats, eps: float
) -> tuple[dict[str, Any] | None, float]:
    """What leads from a to b, or None, and the largest difference left."""
    if not a.any() or not b.any():
        return None, 0.0
    for offset in candidate_offsets(a, b, allowed.max() / largest_number(a)):
        rows = np.maximum(*overlap(allowed, allowed, offset))
        unknown = b[: max(-offset, 0)]  # zeros need no explanation
        if (abs(offset) if unknown.any() or offset > 0 else 0) > max(1, len(a) // 4):
            continue
        change, residual = find_columns(*overlap(a, b, offset), rows, eps)
        if change is not None:
            change |= {"offset": offset} if offset else {}
            change |= {"zero_rows": len(unknown)} if len(unknown) and not unknown.any() else {}
            return change, residual
    change, residual = find_columns(a[::-1], b, np.maximum(allowed, allowed[::-1]), eps)
    if change is not None:
        return {"rows": "reversed"} | change, residual
    change, residual = find_affine_columns(a, b, allowed, eps)
    return (change, residual) if change is not None else find_rotation(a, b, allowed, eps)


def find_columns(
    x: Floats, y: Floats, allowed: Floats, eps: float
) -> tuple[dict[str, Any] | None, float]:
    """The order of columns, signs and scale that lead from x to y, and what they leave.

    A scale of six digits was chosen, if rounding to `eps` explains what it has beyond them.
    """
    scale = np.sqrt((y**2).sum() / ((x**2).sum() or np.inf))  # pairwise sums, to a few eps
    if scale == 0:
        return None, 0.0
    short = 1.0 if abs(scale - 1) <= eps else float(f"{scale:.6g}")
    scale = short if abs(scale - short) <= max(eps, SUMS_EPS) * scale else float(scale)
    rows = allowed * scale
    for columns, signs in column_maps(x, y, rows, scale):
        residual = largest_left(x, y, rows, columns, signs * scale)
        if residual is not None:
            return describe_transformation(columns, signs, scale), residual
    return None, 0.0


def find_affine_columns(
    a: Floats, b: Floats, allowed: Floats, eps: float
) -> tuple[dict[str, Any] | None, float]:
    """Columns that follow from one another by a sign, a scale and an added constant of their own.

    Without their means and of one length columns are one another's up to order and sign: the order
    is the one in which all of them together correlate most.
    """
    if len(a) < FEWEST or not is_matched(a):  # of few rows any column is another's
        return None, 0.0
    parts, limit = [x - x.mean(axis=0) for x in (a, b)], float(allowed.max())
    sizes = [np.sqrt((x**2).sum(axis=0)) for x in parts]
    rounding = [16 * eps * largest_number(x) * np.sqrt(len(x)) for x in (a, b)]
    constant = [sizes[k] <= rounding[k] for k in (0, 1)]
    units = [x / np.where(c, np.inf, n) for x, c, n in zip(parts, constant, sizes, strict=True)]
    correlation = units[0].T @ units[1]
    if (np.abs(correlation).max(axis=0)[sizes[1] > FEW * rounding[1]] < CORRELATED).any():
        return None, 0.0
    columns = nearest_columns(units[0], units[1], correlation)
    signs = np.where(correlation[columns, np.arange(a.shape[1])] < 0, -1.0, 1.0)
    del units
    own_part, turned = parts[0][:, columns], a[:, columns] * signs
    del parts
    varying = ~constant[0][columns] & ~constant[1]
    scales = np.where(varying, sizes[1] / np.where(varying, sizes[0][columns], 1.0), 1.0)
    unexplained = b - turned * scales  # small, so that what is left of the scale is exact
    squares = np.where(varying, (own_part**2).sum(axis=0), np.inf)
    scales += signs * (own_part * (unexplained - unexplained.mean(axis=0))).sum(axis=0) / squares
    middle = fewest_digits(float(np.median(scales[varying])), max(eps, SUMS_EPS))
    if (np.abs(scales - middle)[varying] * sizes[0][columns][varying] <= 4 * limit).all():
        scales[:] = middle
    del own_part
    unexplained = b - turned * scales
    added = (unexplained.max(axis=0) + unexplained.min(axis=0)) / 2
    del unexplained, turned
    limits = np.empty(a.shape)
    limits[:, columns] = np.broadcast_to(allowed, a.shape)[:, columns] * np.maximum(1.0, scales)
    limits += eps * np.abs(b).max(axis=1, keepdims=True)
    residual = largest_left(a, b - added, limits, columns, signs * scales)
    if residual is None:
        return None, 0.0
    return describe_affine(columns, signs, scales, added, float(limits.max())), residual


def describe_affine(
    columns: Places, signs: Floats, scales: Floats, added: Floats, slack: float
) -> dict[str, Any]:
    """A transformation with the scale and constant of all columns, or of each."""
    is_one = not np.ptp(scales)
    change = describe_transformation(columns, signs, float(scales[0]) if is_one else 1.0)
    change |= {} if is_one else {"scales": scales.tolist()}
    if (np.abs(added) > slack).any():
        middle = fewest_digits(float(np.median(added)), slack)
        change["offset_row"] = middle if np.ptp(added) <= slack else added.tolist()
    return change


def nearest_columns(x: Floats, y: Floats, correlation: Floats) -> Places:
    """The column of x for each of y by which all are nearest, up to sign; all of length 1.

    Correlations know half of the digits of a distance: of near columns it is taken itself.
    """
    from scipy.optimize import linear_sum_assignment  # which few comparisons need

    squares = 1 - np.abs(correlation)
    for j in range(y.shape[1]):
        close = np.flatnonzero(squares[:, j] < NEAR)
        signs = np.sign(correlation[close, j])
        squares[close, j] = ((x[:, close] * signs - y[:, [j]]) ** 2).sum(axis=0)
    cost = np.log(np.maximum(squares, 0.0) + SQUARES_EPS**3)  # distances of all sizes count
    columns: Places = linear_sum_assignment(cost.T)[1]
    return columns


def fewest_digits(value: float, slack: float) -> float:
    """The number of fewest digits near a value, to a relative slack.

    >>> fewest_digits(2.5000000001, 1e-9), fewest_digits(0.0, 1e-9)
    (2.5, 0.0)
    """
    texts = (float(f"{value:.{digits}g}") for digits in range(1, 17))
    return next((x for x in texts if abs(x - value) <= slack * max(abs(value), 1.0)), value)


def largest_left(
    x: Floats, y: Floats, allowed: Floats, columns: Places, factors: Floats
) -> float | None:
    """The largest difference of y and columns of x times factors; None where one is too large."""
    worst = 0.0
    for rows in (slice(FEW), *row_blocks(len(x), BLOCK, x.shape[1])):  # few rows rule most out
        limits = allowed[rows] if allowed.shape[1] == 1 else allowed[rows][:, columns]
        residual = np.abs(x[rows][:, columns] * factors - y[rows])
        if not (residual <= limits).all():
            return None
        worst = max(worst, float(residual.max()))
    return worst


def overlap(a: Floats, b: Floats, offset: int) -> tuple[Floats, Floats]:
    """Rows of a and b that belong together when b[s] comes from a[s + offset]."""
    n = len(a)
    return (a[offset:], b[: n - offset]) if offset >= 0 else (a[: n + offset], b[-offset:])


def candidate_offsets(a: Floats, b: Floats, allowed: float) -> Iterator[int]:
    """Offsets at which a first row of one table is one of the other, up to order and signs.

    `allowed` are differences that rounding explains, as a share of the largest number.
    """
    yield 0
    for rows, reference, sign in ((a, b, 1), (b, a, -1)):
        distances = np.abs(signature(rows) - signature(reference[:1])).max(axis=1)
        length = np.linalg.norm(reference[0])
        tolerance = 1e-6 + (4 * allowed * largest_number(reference) / length if length else 0.0)
        matches = [
            int(s) for s in np.argsort(distances, kind="stable")[:4] if distances[s] <= tolerance
        ]
        yield from (sign * s for s in matches if 0 < s <= len(a) // 2)


def signature(rows: Floats) -> Floats:
    """What order, signs and scale of the columns leave of each row: sorted sizes, length 1."""
    sizes = np.sort(np.abs(rows), axis=1)
    length = np.linalg.norm(sizes, axis=1, keepdims=True)
    shares: Floats = sizes / np.where(length > 0, length, 1.0)
    return shares


def column_maps(
    a: Floats, b: Floats, allowed: Floats, scale: float
) -> Iterator[tuple[Places, Floats]]:
    """Candidates (columns, signs) with b = scale · a[:, columns] · signs.

    Columns that fit where they stand stay. Where some do not, orders that have a name come first:
    of many slow columns several may suit a place. Others are matched by their products with random
    weights in order of size; few rows serve first, where phases are hardly rounded.
    """
    n, d = a.shape
    columns, signs = np.arange(d), np.ones(d)
    fitting = fitting_columns(a, b, allowed, scale)
    turned = fitting_columns(a, b, allowed, -scale) & ~fitting
    signs[turned] = -1.0
    unmatched = np.flatnonzero(~(fitting | turned))
    if len(unmatched) == 0:
        yield columns, signs
        return
    samples = [x[:FEW] for x in (a, b, allowed)]
    for order in changes_by_name(d).values():
        if largest_left(samples[0], samples[1], samples[2], order, np.full(d, scale)) is not None:
            yield order, np.ones(d)
    for count in sorted({min(FEW, n), min(512, n), n}):
        weights = np.random.default_rng(count).standard_normal(count)
        p, q = ((weights @ x[:count])[unmatched] for x in (a, b))
        columns[unmatched[np.argsort(np.abs(q))]] = unmatched[np.argsort(np.abs(p))]
        products = sum(
            np.einsum("ij,ij->j", a[rows][:, columns[unmatched]], b[rows][:, unmatched])
            for rows in row_blocks(count, BLOCK, d)
        )
        signs[unmatched] = np.where(products < 0, -1.0, 1.0)
        yield columns.copy(), signs.copy()


def fitting_columns(a: Floats, b: Floats, allowed: Floats, factor: float) -> Bools:
    """Whether each column of b is that of a times a factor."""
    fits = np.ones(a.shape[1], bool)
    for rows in row_blocks(len(a), BLOCK, a.shape[1]):
        fits &= (np.abs(factor * a[rows] - b[rows]) <= allowed[rows]).all(axis=0)
        if not fits.any():
            break
    return fits


def describe_transformation(columns: Places, signs: Floats, scale: float) -> dict[str, Any]:
    """A transformation in words: only what differs from nothing done."""
    change, d = {}, len(columns)
    place = np.arange(d)
    if (columns != place).any():
        change["columns"] = columns.tolist()
        layouts = [name for name, order in changes_by_name(d).items() if (order == columns).all()]
        change |= {"layout": layouts[0]} if layouts else {}
    if (signs < 0).any():
        change["signs"] = signs.astype(int).tolist()
    if scale != 1.0:
        change["scale"] = scale
    return change


def products_with_probes(a: Floats, b: Floats, allowed: Floats) -> tuple[Floats, Floats, Floats]:
    """Inner products of rows of two tables, times random vectors, and what rounding explains."""
    probes = np.random.default_rng(0).standard_normal((len(a), PROBES))
    rounding = np.linalg.norm(allowed, axis=1)
    lengths = np.linalg.norm(a, axis=1)
    limit = rounding * np.linalg.norm(a) + lengths * np.linalg.norm(rounding)
    return a @ (a.T @ probes), b @ (b.T @ probes), limit


def find_rotation(
    a: Floats, b: Floats, allowed: Floats, eps: float
) -> tuple[dict[str, Any] | None, float]:
    """Whether all inner products agree up to one scale, and the largest relative difference seen.

    Products with random vectors differ, where the inner products do, with probability one. Codes
    are then one another's images under a rotation or reflection of the columns, which moves them
    all: where half of them stand still, no rotation is looked for. Limits of products are those of
    rounding at its worst, which noise may pass: so the best rotation (Schönemann, 1966) has to
    leave a small part of what differs as it is.
    """
    moved = (np.abs(a - b) > allowed).any(axis=1)
    if 2 * moved.sum() < len(a):
        return None, 0.0
    units = unit_of(a), unit_of(b)  # products of products are taken near 1
    a, b, allowed = a * units[0], b * units[1], np.broadcast_to(allowed * units[0], a.shape)
    scale = float(np.linalg.norm(b)) / float(np.linalg.norm(a))
    for rows in (slice(FEW), slice(None)):  # phases of the first rows are hardly rounded
        x, y, limit = products_with_probes(a[rows], b[rows] / scale, allowed[rows])
        if (np.abs(x - y).max(axis=1) > 2 * limit).any():
            return None, 0.0
    share = 1 / (float(np.linalg.norm(a)) * float(np.linalg.norm(b)))
    unrotated = 1 - share * float(np.vdot(a, b))  # squares that are left where nothing is turned
    turned = 1 - share * float(np.linalg.svd(a.T @ b, compute_uv=False).sum())  # and at the best
    if turned > EXPLAINED**2 * unrotated - SQUARES_EPS:
        return None, 0.0
    short = float(f"{scale * units[0] / units[1]:.6g}")
    change = {"rotation": True} | ({"scale": short} if abs(short - 1) > eps else {})
    return change, float(np.abs(x - y).max() / np.abs(x).max())

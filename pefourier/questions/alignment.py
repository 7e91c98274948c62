"""Relations between two tables: order, signs and scale of columns, and an offset in rows.

Conventions
-----------
Tables are (n, d), of any floating-point type, and read in blocks. `allowed` returns the differences
(k, d) that rounding explains in the given rows. Column j of b is `scale` · signs[j] · column
columns[j] of a, `offset` rows later in a, plus an `offset_row`. The weakest relation is a rotation,
which preserves all inner products.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from pefourier.causes.pairs import frequencies_apart
from pefourier.causes.rows import explain_rows
from pefourier.construction.tables import (
    Numbers,
    Ordered,
    Scaled,
    agree,
    are_equivalent,
    explain_tables,
)
from pefourier.encodings.encoding import changes_by_name
from pefourier.geometry.precision import first_duplicate, float_blocks
from pefourier.geometry.tolerance import Allowed, stored_tolerance
from pefourier.geometry.waves import fit
from pefourier.questions.operators import has_operator, rotates
from pefourier.questions.outcome import Outcome, Two
from pefourier.questions.rotation_pairs import is_matched, with_rows
from pefourier.types import Bools, Fields, Floats, Indices, Places, Table

NEAR = 1e-6  # correlations this close to 1 are recomputed as distances
FEW = 64  # rows on which candidate matches of columns are tested first
PROBES = 8  # random directions in which rows are matched
SUMS_EPS = 8 * 2.0**-52  # relative error of sums of squares in float64
EXPLAINED = 0.1  # largest share of the differences that a rotation may leave unexplained
SUMMED = 4  # factor on the tolerance of rotated numbers, for rounding of the rotation
ROTATED = 2.0**-25  # of the largest singular value; smaller parts have no rotation from squares
SQUARES_EPS = 1e-12  # relative resolution of sums of squares


def align_tables(outcome: Outcome, encodings: Two) -> Outcome:
    """Relate two tables that differ by an order of columns or rows, or by a scale."""
    first, second = encodings
    injections = {first.injection, second.injection}
    both_rotate = has_operator(first) and has_operator(second)
    if both_rotate or outcome.unit == "factors" or "bias" in injections:
        return outcome
    if first.dim != second.dim:
        return outcome
    x = slice(outcome.length)
    a, b = (enc.table(enc.domain.x[x]) for enc in encodings)
    allowed, eps = stored_tolerance(a, b, first, second)
    ways = (way(a, b, allowed, eps) for way in (find_columns, find_rotation))
    found = next(filter(None, ways), None) if a.any() and b.any() else None
    if not found:
        return outcome if outcome.cause else match_rows(outcome, encodings)
    transform, difference = found
    if not transform:  # rounding explains every number, a given tolerance does not
        return outcome
    is_rotated, keys = transform.pop("rotation", False), transform.keys()
    if is_rotated:
        waves = fit(a, first.eps), fit(b, second.eps)
        if waves[0] and waves[1] and frequencies_apart(waves[0], waves[1]):
            return outcome
    related = replace(outcome, transform=transform)
    if is_rotated:
        return replace(related, verdict="same geometry", pairs=(), cause=None)
    if outcome.pairs and "rotate" in injections and keys <= {"scale"}:
        return outcome
    if (rotates(first) or rotates(second)) and "scale" in keys:
        return related
    order, signs = np.arange(first.dim), np.ones(first.dim)
    order, signs = (
        np.array(transform.get(k, x)) for k, x in (("columns", order), ("signs", signs))
    )
    causes: list[Any] = [Ordered(order, signs)] if {"columns", "signs"} & keys else []
    if "scale" in keys:
        causes.append(Scaled(transform["scale"]))
    facts: Fields = {"pairs": (), "cause": None, "causes": tuple(causes), "explained": 1.0}
    facts["max_difference"] = difference  # after the transformation
    return replace(related.without_numbers(), verdict="equivalent", **facts)


def explain_numbers(outcome: Outcome, encodings: Two) -> Outcome:
    """Add the steps, at most two, that lead from the numbers of one table to those of the other."""
    first, second = encodings
    rows = slice(None) if len(first) == second.dim else slice(outcome.length)
    a, b = (np.asarray(enc.table(enc.domain.x[rows])) for enc in encodings)
    if any(map(rotates, encodings)) or not (is_matched(a) and is_matched(b)):
        return outcome
    allowed, eps = stored_tolerance(a, a if a.shape != b.shape else b, first, second)
    expected = Numbers(a.astype(float), allowed(np.arange(len(a))) + np.zeros(a.shape))
    observed = Numbers(b.astype(float), eps * np.abs(b.astype(float)))
    explanation = explain_tables(expected, observed)
    if not explanation.causes:
        return outcome
    causes, differing = explanation.causes, ~agree(expected, observed)
    facts: Fields = {"causes": causes, "explained": 1.0, "pairs": (), "cause": None, "tried": None}
    if not are_equivalent(causes):
        counts = int(differing.any(axis=0).sum()), b.shape[1]
        return outcome.with_differences("columns", *counts, **facts)
    transform: Fields = {}
    for cause in causes:
        transform |= transform_of(cause)
    return replace(outcome.without_numbers(), verdict="equivalent", transform=transform, **facts)


def transform_of(cause: Any) -> Fields:
    """Return a cause as a transformation from the first table to the second."""
    if cause.code == "scaled":
        return {"scale": cause.by}
    if cause.code == "padding":
        return {"padding": cause.columns}
    if cause.code == "offset-row":
        row = cause.row
        return {"offset_row": float(row[0]) if np.ptp(row) <= NEAR * abs(row[0]) else row.tolist()}
    return describe_transformation(cause.order, cause.signs, 1.0)


def match_rows(outcome: Outcome, encodings: Two) -> Outcome:
    """Match each row of the shorter table to a row of the longer one, if most rows match."""
    is_swapped = len(encodings[1]) > len(encodings[0])
    whole, part = encodings[::-1] if is_swapped else encodings
    a, b = whole.table(), part.table()
    if a.shape[1] != b.shape[1] or not is_matched(a):
        return outcome
    allowed, _ = stored_tolerance(a, b, whole, part)
    rows, fits = nearest_rows(a.astype(float), b.astype(float), allowed)
    index = np.arange(len(b))
    moved = fits & (rows != index)
    if fits.mean() <= 0.5 or not moved.any():
        differing = int((~fits | moved).sum())
        tried = {"rows": differing, "n": len(b), "shift": max(1, len(b) // 4)}
        return replace(outcome, tried=tried)
    shift = rows[fits] - index[fits]
    is_inside = (index + shift[0] >= 0) & (index + shift[0] < len(a))
    absent, are_zeros = int((~fits).sum()), not b[~fits].any()
    is_near = are_zeros or absent <= max(1, len(b) // 4)
    is_line = len(part.domain.sides) == 1 and is_near and (fits == is_inside).all()
    if is_line and (shift == shift[0]).all():  # the other rows are not in the table
        transform = {"offset": int(shift[0]) * (-1 if is_swapped else 1)}
        transform |= {"zero_rows": absent} if absent and are_zeros else {}
        return replace(outcome, verdict="equivalent", transform=transform)
    matched = with_rows(outcome, "first" if is_swapped else "second", rows, fits, noun="row(s)")
    if not fits.all():
        return matched
    explanation = explain_rows(np.arange(len(a)), rows)
    return replace(
        matched,
        expected="second" if is_swapped else "first",
        causes=explanation.causes,
        explained=explanation.share,
    )


def nearest_rows(a: Floats, b: Floats, allowed: Allowed) -> tuple[Places, Bools]:
    """Return the nearest row of a for each row of b, and whether rounding explains all numbers.

    The nearest rows are found by projection on a few random directions, which separate different
    rows, and are then compared in full. Of equal rows, the one with the index of the row counts,
    and repeated rows are matched one to one.
    """
    from scipy.spatial import KDTree  # slow import, rarely needed

    index = np.arange(len(b))
    directions = np.random.default_rng(0).standard_normal((a.shape[1], PROBES))
    rows = KDTree(a @ directions).query(b @ directions)[1]
    rows[np.all(np.abs(a[: len(b)] - b) <= allowed(index), axis=1)] = -1
    rows = np.where(rows < 0, index, rows)
    fits = np.all(np.abs(a[rows] - b) <= allowed(rows), axis=1)
    if fits.all() and len(a) == len(b):
        leaders = first_duplicate(a)
        orders = [np.argsort(x, kind="stable") for x in (leaders, leaders[rows])]
        if (leaders[orders[0]] == leaders[rows][orders[1]]).all():
            rows[orders[1]] = orders[0]
    return rows, fits


Found = tuple[Fields, float] | None  # a transformation, and the largest remaining difference


def find_columns(x: Table, y: Table, allowed: Allowed, eps: float) -> Found:
    """Find the order of columns, signs and scale that lead from x to y, and the residual.

    The scale is reported with six digits if rounding to `eps` explains the rest.
    """
    scale = norm_of(y) / (norm_of(x) or np.inf)
    if scale == 0:
        return None
    short = 1.0 if abs(scale - 1) <= eps else float(f"{scale:.6g}")
    if abs(scale - short) <= max(eps, SUMS_EPS) * scale:
        scale = short

    def limits(rows: Indices) -> Floats:
        return allowed(rows) * scale

    for columns, signs in column_maps(x, y, limits, scale):
        residual = largest_left(x, y, limits, columns, signs * scale)
        if residual is not None:
            return describe_transformation(columns, signs, scale), residual
    return None


def norm_of(table: Table) -> float:
    """Frobenius norm of a table, accurate to a few eps."""
    return float(np.sqrt(sum((rows**2).sum() for _, rows in float_blocks(table))))


def largest_left(
    x: Table, y: Table, allowed: Allowed, columns: Places, factors: Floats
) -> float | None:
    """Largest difference of y from the scaled columns of x; None if one exceeds its limit."""
    worst, index = 0.0, np.arange(len(x))
    for rows, numbers in chain(float_blocks(x[:FEW]), float_blocks(x)):  # few rows exclude most
        residual = np.abs(numbers[:, columns] * factors - y[rows])
        if not (residual <= allowed(index[rows])[:, columns]).all():
            return None
        worst = max(worst, float(residual.max()))
    return worst


def column_maps(
    a: Table, b: Table, allowed: Allowed, scale: float
) -> Iterator[tuple[Places, Floats]]:
    """Yield candidates (columns, signs) with b = scale · a[:, columns] · signs.

    Columns that already fit keep their place. For the rest, named orders come first, because
    several low-frequency columns may fit one place. Other columns are matched by the size of their
    products with random weights. The first rows come first: their phases have little rounding.
    """
    n, d = a.shape
    columns, signs = np.arange(d), np.ones(d)
    fitting = fitting_columns(a, b, allowed, scale)
    signed = fitting_columns(a, b, allowed, -scale) & ~fitting
    signs[signed] = -1.0
    unmatched = np.flatnonzero(~(fitting | signed))
    if len(unmatched) == 0:
        yield columns, signs
        return
    for order in changes_by_name(d).values():
        if largest_left(a[:FEW], b[:FEW], allowed, order, np.full(d, scale)) is not None:
            yield order, np.ones(d)
    for count in sorted({min(FEW, n), min(512, n), n}):
        weights = np.random.default_rng(count).standard_normal(count)
        sums = (sum(weights[k] @ rows for k, rows in float_blocks(x[:count])) for x in (a, b))
        p, q = (x[unmatched] for x in sums)
        columns[unmatched[np.argsort(np.abs(q))]] = unmatched[np.argsort(np.abs(p))]
        products = sum(
            np.einsum("ij,ij->j", numbers[:, columns[unmatched]], b[rows][:, unmatched])
            for rows, numbers in float_blocks(a[:count])
        )
        signs[unmatched] = np.where(products < 0, -1.0, 1.0)
        yield columns.copy(), signs.copy()


def fitting_columns(a: Table, b: Table, allowed: Allowed, factor: float) -> Bools:
    """Whether each column of b equals the same column of a times a factor."""
    fits, index = np.ones(a.shape[1], bool), np.arange(len(a))
    for rows, numbers in float_blocks(a):
        fits &= (np.abs(factor * numbers - b[rows]) <= allowed(index[rows])).all(axis=0)
        if not fits.any():
            break
    return fits


def describe_transformation(columns: Places, signs: Floats, scale: float) -> Fields:
    """Describe a transformation by its parts that differ from the identity."""
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


def find_rotation(a: Table, b: Table, allowed: Allowed, eps: float) -> Found:
    """Find the best rotation (Schönemann, 1966) and a scale; return the largest difference.

    A rotation preserves all inner products. It must explain most of the difference, and give every
    number within the sum of the tolerances that it adds up: no small column hides behind larger
    ones.
    """
    norms = norm_of(a), norm_of(b)
    scale, index, worst = norms[1] / norms[0], np.arange(len(a)), 0.0
    products = sum(numbers.T @ b[rows].astype(float) for rows, numbers in float_blocks(a))
    unrotated = 1 - np.trace(products) / (norms[0] * norms[1])  # without a rotation
    left, sums, right = np.linalg.svd(products)
    signed = 1 - sums.sum() / (norms[0] * norms[1])  # squares left by the best rotation
    if signed > EXPLAINED**2 * unrotated - SQUARES_EPS:
        return None
    rotation, sharpest = scale * left @ right, ROTATED * np.sqrt(scale * sums[0])
    for rows, numbers in float_blocks(a):
        residual = np.abs(numbers @ rotation - b[rows])
        limits = allowed(index[rows]) @ np.abs(rotation) + eps * np.abs(b[rows])
        if (residual > SUMMED * limits + sharpest).any():
            return None
        worst = max(worst, float(residual.max()))
    short = float(f"{scale:.6g}")
    change = {"rotation": True} | ({"scale": short} if abs(short - 1) > eps else {})
    return change, worst

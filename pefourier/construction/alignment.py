"""Relations between two tables: order, signs and scale of columns, and an offset in rows.

Conventions
-----------
Tables are (n, d), of any floating-point type, and read in blocks. `allowed` returns the differences
(k, d) that rounding explains in the given rows. Column j of b is `scale` · signs[j] · column
columns[j] of a, `offset` rows later in a, plus an `offset_row`. The weakest relation is a rotation,
which preserves all inner products.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.construction.operators import has_operator, rotates
from pefourier.construction.outcome import Outcome, Two
from pefourier.construction.pairs import frequencies_apart
from pefourier.construction.rotation_pairs import is_matched, with_rows
from pefourier.construction.rows import explain_rows
from pefourier.construction.tables import (
    FEW,
    Ordered,
    Scaled,
    TableNumbers,
    agree,
    are_equivalent,
    column_maps,
    compare_columns,
    explain_tables,
    nearest,
)
from pefourier.construction.waves import fit
from pefourier.geometry.precision import first_duplicate, float_blocks
from pefourier.geometry.tolerance import Allowed, stored_tolerance
from pefourier.types import Bools, Fields, Floats, Indices, Places, Table

NEAR = 1e-6  # correlations this close to 1 are recomputed as distances
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
    are_any = a.any() and b.any()
    if are_any and (found := find_columns(a, b, allowed, eps)):
        causes, difference = found
        transform = transform_of(causes)
        is_factor = outcome.pairs and "rotate" in injections and transform.keys() <= {"scale"}
        if not causes or is_factor:  # rounding explains all numbers, a given tolerance does not
            return outcome
        related = replace(outcome, transform=transform)
        if "scale" in transform and any(map(rotates, encodings)):
            return related
        facts: Fields = {"pairs": (), "cause": None, "causes": causes, "explained": 1.0}
        facts["max_difference"] = difference  # after the transformation
        return replace(related.without_numbers(), verdict="equivalent", **facts)
    if are_any and (scale := find_rotation(a, b, allowed, eps)):
        waves = fit(a, first.eps), fit(b, second.eps)
        if waves[0] and waves[1] and frequencies_apart(waves[0], waves[1]):
            return outcome
        transform = {"scale": scale} if scale != 1 else {}
        facts = {"verdict": "same geometry", "pairs": (), "cause": None}
        return replace(outcome, transform=transform, **facts)
    return outcome if outcome.cause else match_rows(outcome, encodings)


def explain_numbers(outcome: Outcome, encodings: Two) -> Outcome:
    """Add the steps, at most two, that lead from the numbers of one table to those of the other."""
    first, second = encodings
    rows = slice(None) if len(first) == second.dim else slice(outcome.length)
    a, b = (np.asarray(enc.table(enc.domain.x[rows])) for enc in encodings)
    if any(map(rotates, encodings)) or not (is_matched(a) and is_matched(b)):
        return outcome
    allowed, eps = stored_tolerance(a, a if a.shape != b.shape else b, first, second)
    expected = TableNumbers(a.astype(float), allowed(np.arange(len(a))) + np.zeros(a.shape))
    observed = TableNumbers(b.astype(float), eps * np.abs(b.astype(float)))
    explanation = explain_tables(expected, observed)
    if not explanation.causes:
        return outcome
    causes, differing = explanation.causes, ~agree(expected, observed)
    facts: Fields = {"causes": causes, "explained": 1.0, "pairs": (), "cause": None, "tried": None}
    if outcome.unit == "rows before the grid":
        return replace(outcome, **facts)
    if not are_equivalent(causes):
        counts = int(differing.any(axis=0).sum()), b.shape[1]
        return outcome.with_differences("columns", *counts, **facts)
    facts |= {"verdict": "equivalent", "transform": transform_of(causes)}
    return replace(outcome.without_numbers(), **facts)


def transform_of(causes: Sequence[Any]) -> Fields:
    """Return causes as a transformation from the first table to the second."""
    transform: Fields = {}
    for cause in causes:
        if cause.code == "scaled":
            transform["scale"] = cause.by
        elif cause.code == "padding":
            transform["padding"] = cause.columns
        elif cause.code == "offset-row":
            row, is_constant = cause.row, np.ptp(cause.row) <= NEAR * abs(cause.row[0])
            transform["offset_row"] = float(row[0]) if is_constant else row.tolist()
        else:
            if cause.moved.any():
                transform["columns"] = cause.order.tolist()
                if cause.layout:
                    transform["layout"] = cause.layout
            if (cause.signs < 0).any():
                transform["signs"] = cause.signs.astype(int).tolist()
    return transform


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
    is_line = part.domain.is_line and is_near and (fits == is_inside).all()
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

    Of equal rows, the one with the index of the row counts, and repeated rows are matched one to
    one.
    """
    in_place = np.all(np.abs(a[: len(b)] - b) <= allowed(np.arange(len(b))), axis=1)
    rows = nearest(a, b, in_place)
    fits = np.all(np.abs(a[rows] - b) <= allowed(rows), axis=1)
    if fits.all() and len(a) == len(b):
        leaders = first_duplicate(a)
        orders = [np.argsort(x, kind="stable") for x in (leaders, leaders[rows])]
        if (leaders[orders[0]] == leaders[rows][orders[1]]).all():
            rows[orders[1]] = orders[0]
    return rows, fits


def find_columns(
    x: Table, y: Table, allowed: Allowed, eps: float
) -> tuple[tuple[Any, ...], float] | None:
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
        factors = signs * scale
        if not compare_columns(x[:FEW], y[:FEW], limits, columns, factors)[0].all():
            continue  # few rows exclude most
        fits, residual = compare_columns(x, y, limits, columns, factors)
        if fits.all():
            causes: list[Any] = [ordered] if (ordered := Ordered(columns, signs)).words else []
            if scale != 1:
                causes.append(Scaled(scale))
            return tuple(causes), residual
    return None


def norm_of(table: Table) -> float:
    """Frobenius norm of a table, accurate to a few eps."""
    return float(np.sqrt(sum((rows**2).sum() for _, rows in float_blocks(table))))


def find_rotation(a: Table, b: Table, allowed: Allowed, eps: float) -> float | None:
    """Find the best rotation (Schönemann, 1966) and a scale; return the scale.

    A rotation preserves all inner products. It must explain most of the difference, and give every
    number within the sum of the tolerances that it adds up: no small column hides behind larger
    ones.
    """
    norms = norm_of(a), norm_of(b)
    scale, index = norms[1] / norms[0], np.arange(len(a))
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
    short = float(f"{scale:.6g}")
    return short if abs(short - 1) > eps else 1.0

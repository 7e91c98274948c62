"""Relations between two tables: order, signs and scale of columns, and an offset in rows.

Conventions
-----------
Tables are (n, d), of any floating-point type, and read in blocks. `allowed` returns the differences
(k, d) that rounding explains in the given rows. Column j of b is `scale` · signs[j] · column
columns[j] of a, `offset` rows later in a, plus an `offset_row`. The weakest relation is a rotation,
which preserves all inner products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.construction.explain import Named
from pefourier.construction.identify import Formula, identify
from pefourier.construction.operators import has_operator, rotates
from pefourier.construction.outcome import SIDES, Outcome, Two
from pefourier.construction.pairs import frequencies_apart
from pefourier.construction.rotation_pairs import is_matched, with_rows
from pefourier.construction.rows import Shifted, explain_rows
from pefourier.construction.tables import (
    FEW,
    ColumnsRepeated,
    Ordered,
    Scaled,
    TableNumbers,
    agree,
    are_equivalent,
    column_maps,
    compare_columns,
    explain_tables,
    nearest_rows,
)
from pefourier.construction.waves import fit
from pefourier.geometry.precision import FLOAT32_EPS, float_blocks
from pefourier.geometry.tolerance import Allowed, stored_tolerance
from pefourier.types import Fields, Table, frozen, hidden

NEAR = 1e-6  # correlations this close to 1 are recomputed as distances
SUMS_EPS = 8 * 2.0**-52  # relative error of sums of squares in float64
EXPLAINED = 0.1  # largest share of the differences that a rotation may leave unexplained
SUMMED = 4  # factor on the tolerance of rotated numbers, for rounding of the rotation
ROTATED = 2.0**-25  # of the largest singular value; smaller parts have no rotation from squares
SQUARES_EPS = 1e-12  # relative resolution of sums of squares


def align_tables(outcome: Outcome, encodings: Two) -> Outcome:
    """Relate two tables that differ by an order of columns or rows, or by a scale."""
    first, second = encodings
    are_biases = "bias" in (first.injection, second.injection)
    if are_biases or all(map(has_operator, encodings)) or outcome.unit == "factors":
        return outcome
    if first.dim != second.dim:
        return outcome
    a, b = (enc.table(enc.domain.x[: outcome.length]) for enc in encodings)
    if not a.any() or not b.any():
        return match_rows(outcome, encodings)
    found = find_columns(a, b, *stored_tolerance(a, b, first, second))
    if not found:
        return outcome if outcome.cause else match_rows(outcome, encodings)
    causes, difference = found
    transform = transform_of(causes)
    if "scale" in transform and any(map(rotates, encodings)):
        is_factor = outcome.pairs and len(transform) == 1
        return outcome if is_factor else replace(outcome, transform=transform)
    if not causes:  # rounding explains all numbers, a given tolerance does not
        return outcome
    return replace(with_causes(outcome, causes), max_difference=difference)


def with_causes(outcome: Outcome, causes: tuple[Any, ...]) -> Outcome:
    """Add causes that give every number of the second table."""
    facts: Fields = {"causes": causes, "explained": 1.0, "pairs": (), "cause": None, "tried": None}
    if outcome.unit == "rows before the grid" or not are_equivalent(causes):
        return replace(outcome, **facts)
    facts |= {"verdict": "equivalent", "transform": transform_of(causes)}
    return replace(outcome.without_numbers(), **facts)


def explain_numbers(outcome: Outcome, encodings: Two) -> Outcome:
    """Add the steps, at most two, that lead from one table to the other, or else a rotation."""
    first, second = encodings
    rows = slice(None) if len(first) == second.dim else slice(outcome.length)
    a, b = (np.asarray(enc.table(enc.domain.x[rows])) for enc in encodings)
    allowed, eps = stored_tolerance(a, b, first, second)
    if not any(map(rotates, encodings)) and is_matched(a) and is_matched(b):
        expected, observed = with_errors(a, b, allowed, eps)
        if causes := explain_tables(
            expected, observed, (ColumnsRepeated, ExponentsOfColumns)
        ).causes:
            if outcome.unit not in ("rows", "rows before the grid"):
                differing = int((~agree(expected, observed)).any(axis=0).sum())
                outcome = outcome.with_differences("columns", differing, b.shape[1])
            return with_causes(outcome, causes)
    is_turned = a.shape == b.shape and a.any() and b.any() and not outcome.positions
    if not is_turned or all(map(has_operator, encodings)):
        return outcome
    waves = fit(a, first.eps), fit(b, second.eps)
    if waves[0] and waves[1] and frequencies_apart(waves[0], waves[1]):
        return outcome
    if scale := find_rotation(a, b, allowed, eps):
        transform = {"scale": scale} if scale != 1 else {}
        return replace(outcome, verdict="same geometry", pairs=(), transform=transform)
    return outcome


@frozen
class ExponentsOfColumns(Named):
    """Each column of a sinusoid has its own exponent, not one for both columns of a pair."""

    times: int
    formula: Formula = hidden()  # of the expected table
    name = "mismatched-pairs"
    changed = "frequencies"
    says = "the exponent {c.times} * column / d in place of one exponent for each pair"

    @classmethod
    def propose(
        cls, expected: TableNumbers, observed: TableNumbers
    ) -> Iterator[ExponentsOfColumns]:
        """Yield exponents that grow by 1 / d or 2 / d from column to column."""
        found = expected.values.shape == observed.values.shape and identify(expected.values)
        if found and {"rho", "layout"} <= found["params"].keys():
            formula = Formula(found["encoding"], found["params"], expected.values.shape[1])
            yield from (cls(times, formula) for times in (1, 2))

    def apply(self, expected: TableNumbers) -> TableNumbers:
        """Compute the table with these exponents."""
        own, d = self.formula, expected.values.shape[1]
        amplitude, _, phase = own.waves
        omega = own.params.get("step", 1.0) * own.params["rho"] ** (-self.times * np.arange(d) / d)
        s = np.arange(len(expected.values)) + own.offset
        angles = np.multiply.outer(s, omega)
        numbers = amplitude * np.sin(angles + phase)
        unit = expected.error.max() / np.abs(expected.values).max()  # of rounding
        return TableNumbers(numbers, unit * np.abs(numbers) + FLOAT32_EPS * (angles + 1))


def with_errors(
    a: Table, b: Table, allowed: Allowed, eps: float
) -> tuple[TableNumbers, TableNumbers]:
    """Return the numbers of two tables with the errors that rounding explains."""
    limits = np.broadcast_to(allowed(np.arange(len(a))), a.shape)
    numbers = b.astype(float)
    return TableNumbers(a.astype(float), limits), TableNumbers(numbers, eps * np.abs(numbers))


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
    if not is_matched(a):
        return outcome
    expected, observed = with_errors(a, b, stored_tolerance(a, b, whole, part)[0], 0.0)
    rows, fits = nearest_rows(expected, observed)
    index, farthest = np.arange(len(b)), max(1, len(b) // 4)
    shift = rows - index
    moved = fits & (shift != 0)
    if fits.mean() <= 0.5 or not moved.any():
        differing = int((~fits | moved).sum())
        return replace(outcome, tried={"rows": differing, "n": len(b), "shift": farthest})
    absent, by = int((~fits).sum()), int(shift[fits][0])
    is_inside = (index + by >= 0) & (index + by < len(a))
    are_zeros = not b[~fits].any()
    is_near = part.domain.is_line and (are_zeros or absent <= farthest)
    if is_near and (fits == is_inside).all() and (shift[fits] == by).all():
        by = -by if is_swapped else by
        transform = {"offset": by} | ({"zero_rows": absent} if absent and are_zeros else {})
        facts: Fields = {"explained": float(fits.mean()), "steps": ("positions",)}
        if fits.all():
            facts = {"explained": 1.0, "causes": (Shifted(by),)}
        return replace(outcome, verdict="equivalent", transform=transform, **facts)
    matched = with_rows(outcome, SIDES[not is_swapped], rows, fits, noun="row(s)")
    if not fits.all():
        return matched
    found = explain_rows(np.arange(len(a)), rows)
    facts = {"expected": SIDES[is_swapped], "causes": found.causes, "explained": found.share}
    return replace(matched, **facts)


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

    for columns, signs in column_maps(x, y, lambda rows: allowed(rows) * scale, scale):
        maps = lambda rows: allowed(rows) * scale, columns, signs * scale
        if not compare_columns(x[:FEW], y[:FEW], *maps)[0].all():
            continue  # few rows exclude most
        fits, residual = compare_columns(x, y, *maps)
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

"""Comparison of tables on grids up to the order of points, a crop, or coordinates.

Conventions
-----------
Rows are compared by their numbers. If one is a rotation, or a table that repeats its cosines and
sines, rows are compared by their pairs in any order of columns. A cause is reported only if it
maps the first table to the second within rounding at every common point.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, permutations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.causes.mistakes import Cause
from pefourier.causes.pairs import PairDifference
from pefourier.diagnosis.grid_formulas import (
    SAME,
    Changes,
    GridWaves,
    fit_change,
    fit_grid_waves,
)
from pefourier.encodings.domain import Bools, Places
from pefourier.encodings.encoding import (
    BLOCK,
    FLOAT32_EPS,
    Encoding,
    Floats,
    row_blocks,
    without_prefix,
)
from pefourier.encodings.families.axes import axis_letters, rows_of_blocks
from pefourier.encodings.findings import finding
from pefourier.encodings.places import WORDS
from pefourier.geometry.tolerance import stored_tolerance
from pefourier.geometry.waves import apart
from pefourier.questions.alignment import align_tables
from pefourier.questions.moved_rows import FACTOR, with_factors
from pefourier.questions.operators import rotates
from pefourier.questions.outcome import Outcome, Two

LARGEST = 2**25  # largest number of entries of a table whose frequencies are fitted
SAMPLE = 64  # points on which an order is tested first
CAUSES = {"rho": "base", "axes": "axes"}  # codes of settings; all others: coordinates
EXCHANGE = str.maketrans("xy", "yx")
Sides = tuple[int, ...]


def compare_on_grids(outcome: Outcome, encodings: Two) -> Outcome:
    """Find what leads from one table to the other, or how they differ."""
    first, second = (without_prefix(enc) for enc in encodings)
    sides = first.domain.sides, second.domain.sides
    has_shape = sides[0] == sides[1] and first.dim == second.dim
    are_formulas = has_shape and all(enc.origin == "formula" for enc in encodings)
    if has_shape and (outcome.verdict != "different" or (are_formulas and outcome.operator)):
        return outcome
    a, b = np.asarray(first.table(), dtype=float), np.asarray(second.table(), dtype=float)
    pairs, waves = (waves_of(first, a), waves_of(second, b)), None
    if pairs[0] and pairs[1] and len(pairs[0].start) == len(pairs[1].start):
        waves = pairs[0], pairs[1]
        if any(map(rotates, encodings)) or any(w.copies for w in waves):
            return compare_rotations_on_grids(outcome, encodings, *waves)
    aligned = align_tables(outcome, encodings) if has_shape else outcome
    is_open = aligned.verdict == "equivalent" or not are_formulas  # a better explanation may exist
    if not is_open or first.dim != second.dim or prefix_rows_apart(encodings, ..., ...):
        return aligned
    changes = (fit_change(*waves) if waves else None) or {}
    axes = changes.get("axes", ("", ""))
    exchange = {"axes": "y and x exchanged"} if axes[0].translate(EXCHANGE) == axes[1] != "" else {}
    if aligned.verdict == "equivalent":
        return replace(aligned, transform=aligned.transform | exchange)
    allowed, _ = stored_tolerance(a, b, first, second)
    found = match_points((a, b), float(allowed(np.arange(len(a))).max()), sides)
    if found is not None:
        return with_points(outcome, *found)
    if waves and changes and np.array_equal(waves[0].columns, waves[1].columns):
        if exchange and len(changes) == 1:
            return replace(outcome, verdict="equivalent", transform=exchange)
        return with_changes(with_pairs(outcome, *waves), changes)
    return replace(aligned, tried=aligned.tried and aligned.tried | {"axes": len(sides[0])})


def waves_of(enc: Encoding, table: Floats) -> GridWaves | None:
    """Fit the pairs of a table, with declared frequencies if it has any."""
    waves = fit_grid_waves(table, enc.domain.sides, enc.eps) if table.size <= LARGEST else None
    if waves is not None and enc.measure is not None and enc.measure.frequencies.ndim == 2:
        for omega in (enc.measure.frequencies, -enc.measure.frequencies):  # or exchanged
            if np.allclose(np.exp(1j * omega), np.exp(1j * waves.omega), atol=1e-6):
                offset = float(np.abs(enc.measure.offset).max())
                return replace(waves, omega=omega, offset=offset)
    return waves


def compare_rotations_on_grids(
    outcome: Outcome, encodings: Two, first: GridWaves, second: GridWaves
) -> Outcome:
    """Compare rotations, or tables of their cosines and sines, pair by pair."""
    both, m = (first, second), len(first.start)
    outcome = replace(outcome, first_difference=None, largest_difference=None)
    outcome = replace(outcome, pair_counts=(m, m), compared=("rotations", "factors"))
    outcome = with_pairs(outcome, first, second)
    columns = [waves.columns.ravel() for waves in both]
    if not outcome.pairs and first.sides == second.sides:
        if apart_before := prefix_rows_apart(encodings, *columns):
            before = encodings[0].domain.prefix
            return outcome.with_differences("rows before the grid", apart_before, before)
        if abs(second.factor / first.factor - 1) > max(FACTOR, first.eps, second.eps):
            return with_factors(outcome, first.factor, second.factor)
        layouts = {enc.params.get("layout") for enc in encodings if enc.origin == "formula"}
        notes = [finding("pairing-unsaid")] * (not layouts & {first.copies, second.copies})
        has_sines_first = [bool(places[0] > places[m]) for places in columns]
        if sum(has_sines_first) == 1:
            table = ("first", "second")[has_sines_first.index(True)]
            notes.append(finding("sines-first", table=table))
        return outcome.with_findings(*notes, verdict="the same", transform={})
    tables, limit = (first.waves, second.waves), outcome.tolerance or 0.0
    found = match_points(tables, limit, (first.sides, second.sides))
    if found is not None:
        return with_points(outcome, *found)
    changes = fit_change(first, second)
    return with_changes(outcome, changes) if changes else outcome


def match_points(
    tables: tuple[NDArray[Any], NDArray[Any]], limit: float, sides: tuple[Sides, Sides]
) -> tuple[str, Places] | None:
    """Find the points of the first table that match rows of the second, and the name of the order.

    Tables with equal numbers of rows may differ in order; a smaller table, first or second, may be
    a crop of the grid. None if no order or crop matches.
    """
    (x, y), (whole, part) = tables, sides

    def fits(points: Places) -> bool:
        sample = np.linspace(0, len(y) - 1, min(SAMPLE, len(y))).astype(int)
        parts: list[Any] = [sample, *row_blocks(len(y), BLOCK, y.shape[1])]
        return all((np.abs(x[points[rows]] - y[rows]) <= limit).all() for rows in parts)

    if len(x) == len(y):
        return next((order for order in orders_of_points(*sides) if fits(order[1])), None)
    if len(x) < len(y):
        found = match_points((y, x), limit, (part, whole))
        return found and (found[0].replace("first", "second"), found[1])
    index, room = np.arange(len(x)).reshape(whole), np.subtract(whole, part)
    begins = np.flatnonzero(np.abs(x[:, 0] - y[0, 0]) <= limit)
    begins = begins[(np.abs(x[begins] - y[0]) <= limit).all(axis=1)]
    for corner in np.transpose(np.unravel_index(begins, whole)):
        spans = [range(c, c + n) for c, n in zip(corner.tolist(), part, strict=True)]
        if (corner <= room).all() and fits(index[np.ix_(*spans)].ravel()):
            names = zip(axis_letters(len(spans)), spans, strict=True)
            texts = [f"{WORDS.get(axis, axis)} {span[0]} to {span[-1]}" for axis, span in names]
            return f"{', '.join(texts)} of the first", index[np.ix_(*spans)].ravel()
    return None


def orders_of_points(sides: Sides, other: Sides) -> Iterator[tuple[str, Places]]:
    """Yield named orders of the points of a grid, except its own order.

    >>> [name for name, _ in orders_of_points((2, 3), (2, 3))]
    ['y and x exchanged', 'y reversed', 'x reversed', 'y and x reversed']
    """
    index, letters = np.arange(prod(sides)).reshape(sides), axis_letters(len(sides))
    axes, orders = range(len(sides)), []
    for order in permutations(axes):
        moved = [letters[k] for k in axes if order[k] != k]
        name = f"axes in the order {', '.join(letters[k] for k in order)}"
        name = " and ".join(moved) + " exchanged" if len(moved) == 2 else name
        orders.append((name, index.transpose(order)))
    for flipped in chain(*(combinations(axes, k + 1) for k in axes)):
        name = " and ".join(letters[k] for k in flipped) + " reversed"
        orders.append((name, np.flip(index, flipped)))
    if not (sides[-2] % 2 or sides[-1] % 2):
        blocks = rows_of_blocks(sides)
        orders.append(("blocks of 2 x 2 points", blocks))
        orders.append(("raster order, blocks of 2 x 2 in the first", np.argsort(blocks)))
    for name, points in orders:
        if sides != other or (points.ravel() != index.ravel()).any():
            yield name, points.ravel()


def with_points(outcome: Outcome, name: str, points: Places) -> Outcome:
    """Build the outcome for reordered rows, or for a grid that is a crop of the other."""
    outcome = replace(outcome, pairs=(), max_difference=None, first_difference=None)
    if name.endswith(("of the first", "of the second")):
        return replace(outcome, verdict="equivalent", transform={"crop": name})
    moved = int(np.count_nonzero(points != np.arange(len(points))))
    note = finding("rows-reordered", table="second", moves=name)
    facts = {"transform": {"rows": name}}
    return outcome.with_findings(note).with_differences("points", moved, len(points), **facts)


def with_changes(outcome: Outcome, changes: Changes) -> Outcome:
    """Build the outcome for sinusoids with a different base, axes or coordinates."""
    if changes.keys() == {"offset"}:
        offset = {"offset": " to ".join(changes["offset"])}
        return replace(outcome, verdict="equivalent", transform=offset, pairs=())
    codes = dict.fromkeys(CAUSES.get(key, "coordinates") for key in changes)
    return replace(outcome, cause=Cause("both", (*codes,), changes, {}))


def with_pairs(outcome: Outcome, first: GridWaves, second: GridWaves) -> Outcome:
    """Add the pairs that differ, with their frequencies along their axis."""
    both, letters, worst = (first, second), axis_letters(len(first.sides)), None
    fastest = np.maximum(*(np.abs(waves.omega) for waves in both))
    limit = first.limit(fastest, max(first.eps, second.eps))
    differs: Bools = np.any(np.abs(first.omega - second.omega) > SAME, axis=1)
    if first.sides == second.sides:
        residual = apart(first.waves, second.waves)
        differs, worst = np.any(residual > limit, axis=0), float(residual.max())
    are_known = all(w.is_explained and (w.omega != 0).sum(axis=1).max() == 1 for w in both)
    pairs = []
    for i in np.flatnonzero(differs).tolist():
        axis = "/".join(dict.fromkeys(letters[np.abs(w.omega[i]).argmax()] for w in both))
        one, two = (float(w.omega[i].sum()) if are_known else None for w in both)
        ratio = two / one if one and two else None
        pairs.append(PairDifference(i, axis if are_known else None, one, two, ratio))
    facts = {"pairs": tuple(pairs), "max_difference": worst, "tolerance": float(limit.max())}
    return outcome.with_differences("pairs", len(pairs), len(differs), **facts)


def prefix_rows_apart(encodings: Two, *columns: Any) -> int:
    """Number of rows before the grids that differ in the given columns."""
    first, second = (
        np.asarray(enc.table()[: enc.domain.prefix], dtype=float)[:, places]
        for enc, places in zip(encodings, columns, strict=True)
    )
    if first.shape != second.shape:
        return 0
    limit = 8 * max(FLOAT32_EPS, *(enc.eps for enc in encodings)) * np.abs(first).max(initial=0.0)
    return int(np.count_nonzero(np.any(np.abs(first - second) > limit, axis=1)))

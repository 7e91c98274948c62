"""Rules for tables of grid points: mistakes known from public source code.

Conventions
-----------
Rows are the points of a lattice in raster order, the first axis slowest, without prefix rows.
Inner products of a correct table depend on the displacement alone. T, the relative distance of all
products from such a function (`geometry.products`), reveals rows in a wrong place. If each column
depends on one axis, the columns of each axis are identified as a separate formula.
"""

from collections.abc import Iterator

import numpy as np

from pefourier.construction.grid_conventions import GridFacts
from pefourier.construction.wave_rules import SEARCHED
from pefourier.encodings.encoding import (
    WORDS,
    Encoding,
    Finding,
    axis_letters,
    finding,
)
from pefourier.encodings.families.axial import rows_of_blocks
from pefourier.encodings.grids import size_of
from pefourier.encodings.registry import fact_of_convention
from pefourier.geometry.closest import largest_zero, squared_distances
from pefourier.geometry.products import better_reading, toeplitz_residual_of_rows
from pefourier.types import Counts, Indices
from pefourier.writing.text import agreeing

CERTAIN = 4.0  # least ratio of the given residual to that of the right order
SHIFTS = (1, -1, 2, -2, 3, -3, 4, -4, 5, -5)
ORTHOGONAL = 1e-6  # relative inner product of neighbours that counts as 0


def order_of_rows(facts: GridFacts) -> Iterator[Finding]:
    """Find rows that fit the grid in another order: columns first, 2 x 2 blocks, or shifted."""
    table, given, index = facts.table, facts.sides, np.arange(len(facts.table))

    def residual_of(sides: Counts, points: Indices) -> float:
        """Return T of the rows placed at the given points of a grid, without rows outside it."""
        inside = (points >= 0) & (points < len(index))
        return toeplitz_residual_of_rows(table[inside], sides, points[inside])

    if table.size > SEARCHED or (present := residual_of(given, index)) <= CERTAIN * facts.rounding:
        return
    *frames, height, width = given
    exchanged = (*frames, width, height)
    orders = [("grid-transposed", exchanged, index, 0)] if 1 not in (height, width) else []
    if width % 2 == height % 2 == 0:
        orders.append(("row-order", given, rows_of_blocks(given), 0))
    orders += [("prefix-shift", given, index - k, -k) for k in SHIFTS if abs(k) < len(index)]
    residuals = [residual_of(*order[1:3]) for order in orders]
    residual, (code, sides, _, shift) = min(zip(residuals, orders, strict=True), key=lambda x: x[0])
    if residual <= max(present / CERTAIN, facts.rounding):
        sizes = {"grid": size_of(sides), "sides": size_of(given), "shift": f"{shift:+d}"}
        yield finding(code, residual=residual, present=present, **sizes)


def neighbours_of_another_grid(facts: GridFacts) -> Iterator[Finding]:
    """Find vectors whose neighbours are similar only on another grid or from another row on."""
    readings = None if facts.columns else better_reading(facts.table, facts.sides)
    if not readings or any(order_of_rows(facts)) or any(flat_vectors(facts)):
        return
    better, given = readings
    grid, sides, row = size_of(better.grid), size_of(facts.sides), facts.prefix + better.start
    shape = "axes" if sorted(better.grid) == sorted(given.grid) else "shape"
    slots = {"grid": grid, "sides": sides, "row": row, "better": better, "given": given}
    yield finding("neighbours-elsewhere", "shifted" if better.start else shape, **slots)


def axes_without_effect(facts: GridFacts) -> Iterator[Finding]:
    """Find axes along which no vector changes, and halves that encode the same axis twice."""
    if not facts.columns:
        return
    changing = np.sort(np.concatenate(facts.columns))
    halves = np.split(facts.table[:, changing[: len(changing) // 2 * 2]], 2, axis=1)
    effects = dict(zip(facts.names, map(len, facts.columns), strict=True))
    effective = [name for name, count in effects.items() if count]
    for name, side in zip(facts.names, facts.sides, strict=True):
        if effects[name] or side == 1:
            continue
        if len(effective) == 1 and halves[0].size and (halves[0] == halves[1]).all():
            word = WORDS.get(effective[0], "points").removesuffix("s")
            yield finding("axis-duplicated", other=effective[0], name=name, word=word)
        else:
            yield finding("axis-missing", name=name, others="/".join(effective), side=side)


def flat_vectors(facts: GridFacts) -> Iterator[Finding]:
    """Find encodings of the flat row index: inner products depend on the difference of indices."""
    n = len(facts.table)
    if min(facts.sides) == 1 or facts.columns or facts.table.size > SEARCHED:
        return
    flat = toeplitz_residual_of_rows(facts.table, (n,), np.arange(n))
    products = facts.table[: facts.sides[-1] + 1].astype(float) @ facts.table[0]
    if flat > facts.rounding or np.abs(products[1:]).max() <= ORTHOGONAL * abs(products[0]):
        return
    yield finding("flat-index", side=facts.sides[-1])


def ends_that_meet(facts: GridFacts) -> Iterator[Finding]:
    """Find axes whose first and last point share a vector: -1 to 1 spans whole wavelengths."""
    first = facts.closest.first
    if first is None:
        return
    first = first.reshape(facts.sides)
    for axis, (name, side) in enumerate(zip(facts.names, facts.sides, strict=True)):
        start, end = np.take(first, 0, axis), np.take(first, side - 1, axis)
        if side < 3 or np.array_equal(start, np.take(first, 1, axis)):
            continue
        if side > 3 and np.array_equal(first, np.flip(first, axis)):
            yield finding("lone-cosines", "even", name=name)
        elif np.array_equal(start, end):
            yield finding("ends-coincide", name=name)


def rows_that_repeat(facts: GridFacts) -> Iterator[Finding]:
    """Find points that share a vector for no reason found above."""
    n, pair = len(facts.table), facts.closest.pair
    count = n - facts.closest.distinct
    explained = any(f for rule in (axes_without_effect, ends_that_meet) for f in rule(facts))
    if not pair or not count or explained:
        return
    a, b = (tuple(map(int, np.unravel_index(i, facts.sides))) for i in pair)
    repeat = f"{count} of {n} points {agreeing(count, 'repeats', 'repeat')}"
    yield finding("points-repeat", repeat=repeat, a=a, b=b)


GRID_RULES = (
    order_of_rows,
    neighbours_of_another_grid,
    axes_without_effect,
    flat_vectors,
    ends_that_meet,
    rows_that_repeat,
)


def remarks_on_formula(enc: Encoding) -> Iterator[Finding]:
    """Yield notes on the convention of a declared measure on a grid."""
    domain = enc.domain
    if len(domain.sides) < 2 or not enc.is_stationary:
        return
    names = axis_letters(len(domain.sides))
    for axis, (name, side) in enumerate(zip(names, domain.sides, strict=True)):
        lags = np.outer([side - 1, 1], np.eye(len(names), dtype=int)[axis])
        meets, unrotated = squared_distances(enc.measure, lags) <= largest_zero(enc.measure, lags)
        if side > 2 and meets and not unrotated:
            yield finding("ends-coincide", name=name)
    if fact_of_convention(enc.name, enc.params.get("convention", ""), "text") == "origin":
        yield finding("text-collides-with-patch", point=",".join("0" for _ in domain.sides))

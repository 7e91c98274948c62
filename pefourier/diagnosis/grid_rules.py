r"""Rules for tables of grid points: mistakes known from public source code.

Conventions
-----------
Rows are the points of a lattice in raster order, the first axis slowest, without prefix rows.
Inner products of a correct table depend on the displacement alone. T, the relative distance of all
products from such a function (`geometry.products`), reveals rows in a wrong place. If each column
depends on one axis, the columns of each axis are identified as a separate formula.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from pefourier.diagnosis.identify import identify
from pefourier.diagnosis.wave_rules import SEARCHED
from pefourier.encodings.encoding import Encoding, Finding, is_stationary
from pefourier.encodings.families.axes import axis_letters, rows_of_blocks
from pefourier.encodings.findings import finding
from pefourier.encodings.grids import size_of
from pefourier.encodings.places import axis_columns, axis_lines
from pefourier.encodings.registry import fact_of_convention
from pefourier.geometry.closest import ClosestPair, largest_zero, squared_distances
from pefourier.geometry.grid_readings import better_reading
from pefourier.geometry.precision import Indices, Table
from pefourier.geometry.products import toeplitz_residual_of_rows
from pefourier.writing.text import agreeing

WORDS = {"t": "frame", "y": "row", "x": "column"}
CERTAIN = 4.0  # least ratio of the given residual to that of the right order
SHIFTS = (1, -1, 2, -2, 3, -3, 4, -4, 5, -5)
NEARLY = 1e-3  # relative tolerance on steps of coordinates, as in float32
ORTHOGONAL = 1e-6  # relative inner product of neighbours that counts as 0


@dataclass(frozen=True, eq=False)
class GridFacts:
    """A table of the points of a grid, with facts that rules use."""

    table: Table  # (n, d)
    sides: tuple[int, ...]
    eps: float
    closest: ClosestPair
    paired: bool = False  # whether columns are cosines and sines in no particular order
    prefix: int = 0  # rows before the grid

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes, the slowest first."""
        return tuple(axis_letters(len(self.sides)))

    @cached_property
    def places(self) -> Indices:
        """Coordinates of the points, (n, axes)."""
        return np.stack(np.unravel_index(np.arange(len(self.table)), self.sides), axis=-1)

    @cached_property
    def columns(self) -> list[NDArray[np.int64]] | None:
        """Columns that change along each axis alone; None if some change along several axes."""
        return axis_columns(self.table.reshape(*self.sides, -1))

    @cached_property
    def residual(self) -> float:
        """T of the rows in the given order."""
        return self.residual_of(self.sides, np.arange(len(self.table)))

    @property
    def rounding(self) -> float:
        """Largest residual that rounding of the stored numbers may cause."""
        return max(1e-6, 8 * self.eps)

    def residual_of(self, sides: Sequence[int], points: Indices) -> float:
        """Return T of the rows placed at the given points of a grid, without rows outside it."""
        inside = (points >= 0) & (points < prod(sides))
        return toeplitz_residual_of_rows(self.table[inside], tuple(sides), points[inside])

    @property
    def is_disordered(self) -> bool:
        """Whether products depend on more than the displacement, and other orders can be tried."""
        return self.residual > CERTAIN * self.rounding and self.table.size <= SEARCHED


def order_of_rows(facts: GridFacts) -> Iterator[Finding]:
    """Find rows that fit the grid in another order: columns first, 2 x 2 blocks, or shifted."""
    if not facts.is_disordered:
        return
    index, (*frames, height, width) = np.arange(len(facts.table)), facts.sides
    exchanged = (*frames, width, height)
    shifts = {-k: index - k for k in SHIFTS if abs(k) < len(facts.table)}
    orders = [("grid-transposed", exchanged, index, 0)] if 1 not in (height, width) else []
    if width % 2 == height % 2 == 0:
        orders.append(("row-order", facts.sides, rows_of_blocks(facts.sides), 0))
    orders += [("prefix-shift", facts.sides, points, shift) for shift, points in shifts.items()]
    residuals = [facts.residual_of(sides, points) for _, sides, points, _ in orders]
    residual, (code, sides, _, shift) = min(zip(residuals, orders, strict=True), key=lambda x: x[0])
    if residual <= max(facts.residual / CERTAIN, facts.rounding):
        grid, given, present = size_of(sides), size_of(facts.sides), facts.residual
        where = f"{shift:+d}"
        yield finding(code, grid=grid, residual=residual, present=present, sides=given, shift=where)


def neighbours_of_another_grid(facts: GridFacts) -> Iterator[Finding]:
    """Find vectors whose neighbours are similar only on another grid or from another row on."""
    readings = None if facts.columns is not None else better_reading(facts.table, facts.sides)
    if readings is None or any(order_of_rows(facts)) or any(flat_vectors(facts)):
        return
    better, given = readings
    grid, sides, row = size_of(better.grid), size_of(facts.sides), facts.prefix + better.start
    shape = "axes" if sorted(better.grid) == sorted(given.grid) else "shape"
    slots = {"grid": grid, "sides": sides, "row": row, "better": better, "given": given}
    yield finding("neighbours-elsewhere", "shifted" if better.start else shape, **slots)


def axes_without_effect(facts: GridFacts) -> Iterator[Finding]:
    """Find axes along which no vector changes, and halves that encode the same axis twice."""
    if facts.columns is None:
        return
    changing = np.sort(np.concatenate(facts.columns))
    halves = np.split(facts.table[:, changing[: len(changing) // 2 * 2]], 2, axis=1)
    effects = dict(zip(facts.names, map(len, facts.columns), strict=True))
    effective = [name for name, count in effects.items() if count]
    for name, side in zip(facts.names, facts.sides, strict=True):
        if effects[name] or side == 1:
            continue
        if len(effective) == 1 and halves[0].size and (halves[0] == halves[1]).all():
            word = WORDS.get(effective[0], "point")
            yield finding("axis-duplicated", other=effective[0], name=name, word=word)
        else:
            yield finding("axis-missing", name=name, others="/".join(effective), side=side)


def formulas_of_axes(facts: GridFacts) -> Iterator[Finding]:
    """Find axes with one formula each whose steps or column layouts do not match."""
    if facts.columns is None or not all(map(len, facts.columns)):
        return
    lines = axis_lines(facts.table.reshape(*facts.sides, -1))
    tables = [line[:, columns] for line, columns in zip(lines, facts.columns, strict=True)]
    formulas = [identify(np.asarray(table, dtype=float), facts.eps) for table in tables]
    params = [{"step": 1.0, **formula["params"]} for formula in formulas if formula is not None]
    if len(params) < len(formulas):
        return
    orders = [f"{p.get('layout')}, {p.get('first', 'cos')} first" for p in params]
    if len(set(orders)) > 1:
        parts = "; ".join(map(": ".join, zip(facts.names, orders, strict=True)))
        yield finding("layouts-mixed", parts=parts)
    steps, sides = [p["step"] for p in params], facts.sides
    crossed = len(sides) == 2 and abs(steps[0] * sides[1] / (steps[1] * sides[0]) - 1) < NEARLY
    if crossed and sides[0] != sides[1]:
        yield finding("normalised-by-other-side", steps=steps, sides=sides)


def flat_vectors(facts: GridFacts) -> Iterator[Finding]:
    """Find encodings of the flat row index: inner products depend on the difference of indices."""
    n = len(facts.table)
    if min(facts.sides) == 1 or facts.columns is not None or facts.table.size > SEARCHED:
        return
    flat = toeplitz_residual_of_rows(facts.table, (n,), np.arange(n))
    products = np.asarray(facts.table[: facts.sides[-1] + 1], dtype=float) @ facts.table[0]
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
    if pair is None or not count or explained:
        return
    a, b = (tuple(facts.places[i].tolist()) for i in pair)
    repeat = f"{count} of {n} points {agreeing(count, 'repeats', 'repeat')}"
    yield finding("points-repeat", repeat=repeat, a=a, b=b)


GRID_RULES = (
    order_of_rows,
    neighbours_of_another_grid,
    axes_without_effect,
    formulas_of_axes,
    flat_vectors,
    ends_that_meet,
    rows_that_repeat,
)


def remarks_on_formula(enc: Encoding) -> Iterator[Finding]:
    """Yield notes on the convention of a declared measure on a grid."""
    domain = enc.domain
    if len(domain.sides) < 2 or not is_stationary(enc):
        return
    names = axis_letters(len(domain.sides))
    for axis, (name, side) in enumerate(zip(names, domain.sides, strict=True)):
        lags = np.outer([side - 1, 1], np.eye(len(names), dtype=int)[axis])
        meets, unrotated = squared_distances(enc.measure, lags) <= largest_zero(enc.measure, lags)
        if side > 2 and meets and not unrotated:
            yield finding("ends-coincide", name=name)
    if fact_of_convention(enc.name, enc.params.get("convention", ""), "text") == "origin":
        yield finding("text-collides-with-patch", point=",".join("0" for _ in domain.sides))

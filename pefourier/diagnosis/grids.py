r"""Is a flat table that of points on a grid, and of which, behind how many other rows?

Inner products of codes on a grid are functions of the displacement (dy, dx). `residual_on_grid`
measures by how much those of a table are not,
:math:`T_2 = \lVert G - \mathrm{mean}(G)\rVert / \lVert G\rVert` with :math:`G = E E^T` and the mean
over pairs of points with one displacement; `find_grid` looks for the sides with the least.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, unit_of
from pefourier.encodings.grids import on_grid, typed_sides
from pefourier.geometry.products import (
    diagonal_means_on_grid,
    pairs_at,
    sum_of_squared_products,
)

MOST_PREFIX = 8  # rows before a grid that are looked for
SCREENED = 2**12  # rows in which neighbours are looked at
MEASURED = 2**10  # points of which all inner products are looked at
FINALISTS = 8  # grids of which they are
LARGEST_RESIDUAL = 0.2  # of a table that is called one on a grid
RATIO = 0.6  # residuals of all other grids are larger: found over next
LEAST_POINTS, LEAST_SIDE = 48, 4  # of a table that is taken as one on a grid without being asked
SURE_RESIDUAL = 0.05
RESOLVED = 1e-6  # residuals below are rounding


@dataclass(frozen=True)
class FoundGrid:
    """The grid of a table, with how well it and the next best suit."""

    grid: tuple[int, int]  # rows and columns
    prefix: int  # rows before the grid
    residual: float  # T2 of the grid
    next_residual: float  # least T2 of any other grid, or of the rows on one axis


@dataclass(frozen=True, eq=False)
class FlatTable:
    """A table whose rows may be points of a grid behind `prefix` others."""

    table: np.ndarray

    @cached_property
    def head(self) -> np.ndarray:
        """The rows in which neighbours are looked at, in a unit that sums of squares can bear."""
        first = np.asarray(self.table[:SCREENED], dtype=float)
        return first * unit_of(first)

    @cached_property
    def neighbours(self) -> dict[int, np.ndarray]:
        """Inner products of each row with that one and two further on."""
        return {step: self.products(step) for step in (1, 2)}

    def products(self, step: int) -> np.ndarray:
        """Inner products of each row with that `step` further on."""
        return np.einsum("sj,sj->s", self.head[:-step], self.head[step:])

    def screen(self, width: int, prefix: int) -> float:
        """Share of neighbours' inner products that is not a function of the displacement."""
        apart = total = 0.0
        for step, products in {**self.neighbours, width: self.products(width)}.items():
            column = (np.arange(len(products)) - prefix) % width
            inside = (np.arange(len(products)) >= prefix) & (
                (column + step < width) | (step == width)
            )
            own = products[inside]
            if len(own):
                apart += float(((own - own.mean()) ** 2).sum())
                total += float((own**2).sum())
        return apart / total if total else np.inf

    def residual(self, width: int, prefix: int) -> float:
        """T2 of the first rows of the grid."""
        height = min((len(self.table) - prefix) // width, max(2, MEASURED // width))
        points = slice(prefix, prefix + height * width)
        return residual_on_grid(np.asarray(self.table[points], dtype=float), (height, width))


def residual_on_grid(table: np.ndarray, sides: tuple[int, ...]) -> float:
    """T2 of a table on a grid, from 0 to 1; rounding leaves about 1e-8.

    >>> from pefourier.encodings import build
    >>> table = build("axial", d=16, grid=(5, 7)).table()
    >>> residual_on_grid(table, (5, 7)) < 1e-6 < residual_on_grid(table, (7, 5))
    True
    """
    unit = unit_of(table) ** 2
    counts = pairs_at([np.arange(1 - n, n) for n in sides], sides)
    total = sum_of_squared_products(table, unit)
    shared = ((diagonal_means_on_grid(table, sides) * unit) ** 2 * counts).sum()
    return float(np.sqrt(max(total - shared, 0.0) / total)) if total else 0.0


def find_grid(table: np.ndarray) -> FoundGrid | None:
    """The sides and prefix of a table's grid; None where its inner products do not decide.

    The smallest prefix and the least T2 win. A table of one axis has the least T2 on any grid, and
    a table of free numbers about the same on all: both have none.

    >>> from pefourier.encodings import build
    >>> found = find_grid(build("axial", d=32, grid=(7, 11), prefix=1).table())
    >>> found.grid, found.prefix
    ((7, 11), 1)
    """
    rows = FlatTable(table)
    screened = sorted((rows.screen(w, k), k, w) for k, w in possible_grids(len(table)))
    measured = [(rows.residual(w, k), k, w) for _, k, w in screened[:FINALISTS]]
    if not measured:
        return None
    least = min(residual for residual, _, _ in measured)
    near = [one for one in measured if one[0] <= max(1.1 * least, RESOLVED)]
    residual, prefix, width = min(near, key=lambda one: one[1])
    points = len(table) - prefix
    others = [r for r, k, w in measured if w != width or (k - prefix) % width]
    flat = rows.residual(points, prefix) if points <= MEASURED else rows.residual(MEASURED, prefix)
    beyond = min([flat, *others])
    if residual > LARGEST_RESIDUAL or max(residual, RESOLVED) > RATIO * beyond:
        return None
    return FoundGrid((points // width, width), prefix, residual, beyond)


def on_found_grid(enc: Encoding) -> Encoding:
    """A table of rows as points of the grid that it turns out to have, which a note says.

    A formula's grid is part of it, and is not looked for; nor is that of biases and rotations.
    """
    if enc.origin == "formula" or enc.domain.kind != "position" or enc.domain.grid:
        return enc
    found = find_grid(enc.table()) if enc.act == "add" and len(enc) >= LEAST_POINTS else None
    if found is None or min(found.grid) < LEAST_SIDE or found.residual > SURE_RESIDUAL:
        return enc
    asked = f"--grid {typed_sides(found.grid)}"
    asked += f" --prefix {found.prefix}" if found.prefix else ""
    message = (
        f"rows were taken as points of a grid, {asked}: of all grids their inner products suit "
        f"this one best (residual {found.residual:.2g}, the next {found.next_residual:.2g}); "
        "another can be given"
    )
    note = Finding("grid-found", "note", message)
    return replace(on_grid(enc, found.grid, found.prefix), findings=(*enc.findings, note))


def possible_grids(count: int) -> list[tuple[int, int]]:
    """Prefixes and widths of the grids that so many rows may be, each side of two points or more.

    >>> possible_grids(9)[:4]
    [(0, 3), (1, 4), (1, 2), (3, 3)]
    """
    found = []
    for prefix in range(min(MOST_PREFIX, count - 4) + 1):
        points = count - prefix
        heights = [h for h in range(2, isqrt(points) + 1) if points % h == 0]
        found += [(prefix, w) for h in heights for w in dict.fromkeys((points // h, h))]
    return found

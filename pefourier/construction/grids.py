"""Causes of differences between tables on grids: points placed elsewhere.

Conventions
-----------
A table on a grid has its points as rows in raster order, the last axis fastest. The observed points
are those of the expected table at start + step x index along each axis, where axes may be
exchanged. This covers crops, reversed axes and every k-th point.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import prod

import numpy as np

from pefourier.construction.explain import Named
from pefourier.construction.tables import TableNumbers
from pefourier.encodings.encoding import FLOAT32_EPS, WORDS, axis_letters
from pefourier.encodings.families.axial import rows_of_blocks
from pefourier.geometry.interpolation import WEIGHTS, resize_lattice, why_not
from pefourier.types import Array, Bools, Counts, Places, frozen, frozen_arrays, hidden

SAMPLE = 64  # points compared before all of them
STARTS = 8  # points that may be the first of another table
ROUNDED = 32  # rounding errors of resized numbers, in units of float32
NEXT = 4  # points that may be the second along an axis


@frozen_arrays
class Points(TableNumbers):
    """The numbers (n, d) of the points of a grid, real or complex; errors (n, d), or (n, 1)."""

    sides: Counts

    def placed(self, points: Places, sides: Counts) -> Points:
        """Return some of the points as another grid."""
        return Points(self.values[points], self.error[points], sides)


def agree(applied: Points, observed: Points) -> Bools:
    """Return which numbers of points agree; none do where a few of them differ."""
    a, b = applied.values, observed.values
    is_near, few = np.zeros(b.shape, bool), np.linspace(0, len(b) - 1, SAMPLE).astype(int)
    if a.shape != b.shape:
        return is_near
    for rows in (few, slice(None)):
        is_near[rows] = np.abs(a[rows] - b[rows]) <= applied.error[rows]
        if not is_near[few].all():
            break
    return is_near


@frozen
class Placed(Named):
    """Axis k of the observed grid runs along axes[k] of the expected one, in equal steps."""

    name = "placed"
    axes: Counts
    start: Counts  # by axis of the observed grid
    every: Counts
    expected: Counts = hidden()  # sides of both grids
    observed: Counts = hidden()

    @property
    def points(self) -> Places:
        """Row of the expected table for each row of the observed one."""
        index = np.indices(self.observed).reshape(len(self.axes), -1)
        places = np.empty_like(index)
        lines = zip(index, self.axes, self.start, self.every, strict=True)
        for line, axis, first, step in lines:
            places[axis] = first + step * line
        return np.asarray(np.ravel_multi_index(tuple(places), self.expected))

    @property
    def is_crop(self) -> bool:
        """Whether the points are neighbours in the same order."""
        return self.axes == tuple(sorted(self.axes)) and set(self.every) <= {1}

    @property
    def words(self) -> str:
        """The change of points: a crop, every k-th point, and axes exchanged or reversed."""
        letters = axis_letters(len(self.axes))
        moved = [letters[k] for k, axis in enumerate(self.axes) if axis != k]
        texts = []
        if len(moved) == 2:
            texts.append(" and ".join(moved) + " exchanged")
        elif moved:
            texts.append(f"axes in the order {', '.join(letters[k] for k in self.axes)}")
        if flipped := [letters[k] for k in range(len(self.axes)) if self.every[k] < 0]:
            texts.append(" and ".join(flipped) + " reversed")
        for k, letter in enumerate(letters):
            if abs(self.every[k]) > 1 < self.observed[k]:
                texts.append(f"one point in {abs(self.every[k])} along {letter}")
        return ", ".join(texts) or self.spans

    @property
    def spans(self) -> str:
        """First and last point along each axis of the expected grid."""
        texts = []
        for k, letter in enumerate(axis_letters(len(self.axes))):
            last = self.start[k] + self.every[k] * (self.observed[k] - 1)
            texts.append(f"{WORDS.get(letter, letter)} {self.start[k]} to {last}")
        return ", ".join(texts)

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Placed]:
        """Find the first point and the next one along each axis in the expected table."""
        x, y, own = expected.values, observed.values, observed.sides
        if x.shape[1] != y.shape[1] or len(expected.sides) != len(own) or len(x) < len(y):
            return
        grid, starts = np.array(expected.sides), equal_rows(x, y[0])[:STARTS].tolist()
        for sides in dict.fromkeys((own, *permutations(own))):  # sides may be exchanged, too
            lines = [
                equal_rows(x, y[prod(sides[k + 1 :])])[:NEXT].tolist() if side > 1 else [None]
                for k, side in enumerate(sides)
            ]
            for start, ends in product(starts, product(*lines)):
                points = [start if end is None else end for end in ends]
                corner = np.array(np.unravel_index(start, expected.sides))
                steps = np.array(np.unravel_index(points, expected.sides)).T - corner
                moves = len(sides) - ends.count(None)  # an axis with a single point may be any
                for axes in permutations(range(len(sides))):
                    along = steps[range(len(sides)), axes]
                    if not np.count_nonzero(along) == np.count_nonzero(steps) == moves:
                        continue
                    first, step = corner[[*axes]], np.where(along, along, 1)
                    last = first + step * (np.array(sides) - 1)
                    if ((last >= 0) & (last < grid[[*axes]])).all():
                        at = tuple(first.tolist()), tuple(step.tolist())
                        yield cls(axes, *at, expected.sides, sides)
                        break

    def apply(self, expected: Points) -> Points:
        """Return the points of the placement."""
        if expected.sides != self.expected:
            return expected
        return expected.placed(self.points, self.observed)


@frozen
class Blocked(Named):
    """Points are in the order of blocks of 2 x 2 points, or blocks are put in raster order."""

    name = "blocked"
    undone: bool

    @property
    def words(self) -> str:
        """The order of points."""
        return "raster order, blocks of 2 x 2 in the first" if self.undone else BLOCKS

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Blocked]:
        """Propose both orders on grids of even height and width."""
        height, width = expected.sides[-2:]
        if expected.sides == observed.sides and not (height % 2 or width % 2):
            yield from map(cls, (False, True))

    def apply(self, expected: Points) -> Points:
        """Reorder the points."""
        blocks = rows_of_blocks(expected.sides)
        return expected.placed(np.argsort(blocks) if self.undone else blocks, expected.sides)


@frozen
class Snaked(Named):
    """Every second line of points runs backwards."""

    name = "boustrophedon"
    says = "every second line of points reversed"

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Snaked]:
        """Propose it on equal grids."""
        if expected.sides == observed.sides:
            yield cls()

    def apply(self, expected: Points) -> Points:
        """Reverse lines."""
        lines = np.arange(prod(expected.sides)).reshape(-1, expected.sides[-1])
        lines[1::2] = lines[1::2, ::-1]
        return expected.placed(lines.ravel(), expected.sides)


@frozen
class Rolled(Named):
    """Points are rolled along an axis: those that leave at its end come in at its start."""

    name = "rolled"
    axis: int
    by: int
    axes: int = hidden()

    @property
    def words(self) -> str:
        """The axis, and by how many points."""
        letter = axis_letters(self.axes)[self.axis]
        return f"points rolled by {self.by} along {WORDS.get(letter, letter)}"

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Rolled]:
        """Read the shift from the place of the first observed point on each axis."""
        x, y, sides = expected.values, observed.values, expected.sides
        if x.shape != y.shape or sides != observed.sides:
            return
        for start in equal_rows(x, y[0])[:STARTS].tolist():
            for axis, place in enumerate(np.unravel_index(start, sides)):
                if place:
                    yield cls(axis, sides[axis] - int(place), len(sides))

    def apply(self, expected: Points) -> Points:
        """Roll the points."""
        index = np.arange(prod(expected.sides)).reshape(expected.sides)
        rows = np.roll(index, self.by, axis=self.axis).ravel()
        return expected.placed(rows, expected.sides)


@frozen
class Resized(Named):
    """The table was resized to the observed sides."""

    name = "resized"
    method: str
    observed: Counts = hidden()

    @property
    def words(self) -> str:
        """The method, by its name in `resize --method`, and the coefficient of a cubic kernel."""
        cubic = ", a = -0.75" if self.method == "bicubic" else ""
        return f"its grid resized (method {self.method}{cubic})"

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Resized]:
        """Propose each method that can make the observed sides."""
        old, new = expected.sides, observed.sides
        if old != new and len(old) == len(new) and not np.iscomplexobj(observed.values):
            yield from (cls(name, new) for name in WEIGHTS if not why_not(name, old, new))

    def apply(self, expected: Points) -> Points:
        """Resize the numbers; each is a weighted sum, which libraries compute in float32."""
        numbers = resize_lattice(expected.values, expected.sides, self.observed, self.method)
        size = np.abs(expected.values).max(axis=0, initial=0.0)
        largest = expected.error.max(axis=0, initial=0.0) + ROUNDED * FLOAT32_EPS * size
        return Points(numbers, np.tile(largest, (len(numbers), 1)), self.observed)


BLOCKS = "blocks of 2 x 2 points"
PLACEMENTS = (Placed, Blocked, Snaked, Rolled, Resized)


def equal_rows(table: Array, row: Array) -> Places:
    """Return the rows of a table nearest to a row, the nearest first.

    >>> equal_rows(np.array([[0.0], [2.0], [1.0], [1.0]]), np.array([1.0]))
    array([2, 3])
    """
    distance = np.abs(table - row).max(axis=1)
    return np.flatnonzero(distance <= distance.min() + NEARLY * np.abs(row).max())


NEARLY = 1e-6  # of the largest number: rows this close may be equal

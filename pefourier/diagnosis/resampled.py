r"""Is a table of a grid another one resized, or are two the same one resized in two ways?

Conventions
-----------
Tables lie on a grid: theirs, or a square behind a few rows that are kept. One that was made larger
has all its columns, along each axis, in the space of its method's weights for the side that it had
(`geometry.interpolation`), so that the table that it was made from comes back. Of one that was made
smaller too little is left for that; beside the table that it was made from its method shows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt, prod

import numpy as np

from pefourier.diagnosis.causes import Cause, holds_numbers
from pefourier.encodings.encoding import Encoding, largest_number
from pefourier.encodings.grids import size_of
from pefourier.geometry.interpolation import LIBRARY, METHODS, resize_lattice

Grid = tuple[int, tuple[int, ...]]  # rows before it, and its sides
KEPT = range(9)  # rows before a square whose sides nobody gave
SHORTEST, LONGEST = 3, 64  # sides of a square, of which no table is read as another's
FEW = 16  # columns in which a space is looked for
SLACK = 64  # roundings of the largest number, by which a library's sums of products differ


@dataclass(frozen=True)
class Resized:
    """How one of two tables was made from the other."""

    of: str  # a or b, which was made
    old: tuple[int, ...]
    new: tuple[int, ...]
    method: str
    left: float  # largest difference
    allowed: float


def read_resizing(one: Encoding, two: Encoding, unpermuted: bool = False) -> Resized | None:
    """How one of two tables was made from the other, of another grid; None where neither was.

    `unpermuted` numbers were taken as planes (d, rows, columns) as they lie in memory.
    """
    if not (holds_numbers(one) and holds_numbers(two) and one.dim == two.dim):
        return None
    for of, source, made in (("b", one, two), ("a", two, one)):
        rows, wanted = (np.asarray(enc.table(), dtype=float) for enc in (source, made))
        allowed = rounding_of(source, made)
        for kept, old in grids(source):
            lattice = as_planes(rows[kept:]) if unpermuted else rows[kept:]
            for same, new in grids(made):
                if kept != same or old == new or len(old) != len(new):
                    continue
                if np.abs(rows[:kept] - wanted[:kept]).max(initial=0.0) > allowed:
                    continue
                for method in LIBRARY:
                    tried = resize_lattice(lattice, old, new, method)
                    back = [tried.T.reshape(tried.shape)] if unpermuted else []
                    left = min(float(np.abs(t - wanted[kept:]).max()) for t in (tried, *back))
                    if left <= allowed:
                        return Resized(of, old, new, method, left, allowed)
    return None


def as_planes(rows: np.ndarray) -> np.ndarray:
    """Rows (n, d) whose numbers were taken as d planes of n points, without being transposed."""
    return rows.reshape(rows.shape[::-1]).T


def read_unpermuted(one: Encoding, two: Encoding) -> Cause | None:
    """The slip by which a resized table has rows and columns of another in disorder."""
    found = read_resizing(one, two, unpermuted=True) if len(one) != len(two) else None
    if found is None:
        return None
    changes = {"method": (None, found.method)}
    return Cause("ab".replace(found.of, ""), ("unpermuted",), changes, found.left, {})


def two_resizings(one: Encoding, two: Encoding) -> Cause | None:
    """The methods by which two tables of one grid were made from one smaller table."""
    if not (holds_numbers(one) and holds_numbers(two)) or one.dim != two.dim:
        return None
    a, b = (np.asarray(enc.table(), dtype=float) for enc in (one, two))
    allowed = rounding_of(one, two)
    for kept, new in grids(one) if len(a) == len(b) else ():
        if np.abs(a[:kept] - b[:kept]).max(initial=0.0) > allowed:
            continue
        for method, old in ways_up(a[kept:], new, allowed):
            source = resize_back(a[kept:], old, new, method)
            if np.abs(resize_lattice(source, old, new, method) - a[kept:]).max() > allowed:
                continue
            for other in (method, *METHODS):
                left = float(np.abs(resize_lattice(source, old, new, other) - b[kept:]).max())
                if left <= allowed:
                    changes = {"method": (method, other), "resized": (size_of(old), size_of(new))}
                    return Cause("both", ("resized",), changes, left, {})
    return None


def grids(enc: Encoding) -> Iterator[Grid]:
    """The grid of a table, or the squares that its rows may be."""
    if enc.domain.grid:
        yield enc.domain.prefix, enc.domain.sides
        return
    for kept in KEPT:
        side = isqrt(max(len(enc) - kept, 0))
        if SHORTEST <= side <= LONGEST and side**2 == len(enc) - kept:
            yield kept, (side, side)


def rounding_of(one: Encoding, two: Encoding) -> float:
    """How far sums of a library are from exact ones."""
    largest = max(largest_number(np.asarray(enc.table())) for enc in (one, two))
    return SLACK * max(one.eps, two.eps) * largest


def ways_up(
    rows: np.ndarray, new: tuple[int, ...], allowed: float
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Methods and smaller sides from which each axis of a table may come."""
    values = rows[:, : min(FEW, rows.shape[1])].reshape(*new, -1)
    for method in METHODS:
        sides = []
        for axis, m in enumerate(new):
            lines = np.moveaxis(values, axis, 0).reshape(m, -1)
            sides.append(next(sides_before(lines, method, allowed), None))
        if None not in sides:
            yield method, tuple(sides)


def sides_before(lines: np.ndarray, method: str, allowed: float) -> Iterator[int]:
    """Sides, the shortest first, whose weights to that of some lines have them in their space."""
    m = len(lines)
    for n in range(2, m):
        space = np.linalg.qr(METHODS[method](n, m))[0]
        if np.abs(lines - space @ (space.T @ lines)).max() <= allowed:
            yield n


def resize_back(
    rows: np.ndarray, old: tuple[int, ...], new: tuple[int, ...], method: str
) -> np.ndarray:
    """The table of a smaller grid from which a method makes one, as nearly as it can."""
    values = rows.reshape(*new, -1)
    for axis, (n, m) in enumerate(zip(old, new, strict=True)):
        back = np.linalg.pinv(METHODS[method](n, m))
        values = np.moveaxis(np.tensordot(back, values, (1, axis)), 0, axis)
    return values.reshape(prod(old), -1)

"""What may lead from one table of the points of a grid to another, beside the order of columns?

Conventions
-----------
Rows run down the columns, or through blocks of 2 x 2, in place of along the rows (`rows`), or
coordinates are others: a point i of an axis has the phase omega s (i + o) where the first table has
omega i, s and o for each axis (`coordinates`, `offset`). Each candidate comes with the first table
as it would then be; whether it is the second is for the caller to see. Waves at other coordinates
come in an order of their own, below them as they are at the first table's.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from pefourier.encodings.axis_parts import axis_columns
from pefourier.encodings.columns import changes_by_name
from pefourier.encodings.encoding import Encoding, Measure, without_prefix
from pefourier.encodings.families.axes import LINES, axis_letters, rows_of_blocks

OFFSETS = (0.0, 0.5, 1.0)
RULES = {"index": lambda n: (1.0, 0.0), **LINES}  # slope and start, of a side
BACK = {"transposed": "transposed", "blocks": "out of blocks"}  # said of the way back
Candidate = tuple[dict[str, Any], np.ndarray]


def on_one_grid(a: Encoding, b: Encoding) -> bool:
    """Whether both are tables of the points of one grid with several axes."""
    one, two = ((enc.domain.grid, enc.domain.prefix) for enc in (a, b))
    return len(a.domain.sides) > 1 and one == two


def rows_in_other_order(table: np.ndarray, sides: tuple[int, ...]) -> Iterator[Candidate]:
    """A table whose rows run down the columns or through blocks of 2 x 2, and back."""
    height, width = sides[-2:]
    index = np.arange(prod(sides))
    orders = {}
    if min(height, width) > 1:
        orders["transposed"] = index.reshape(-1, height, width).swapaxes(1, 2).ravel()
    if height % 2 == width % 2 == 0:
        orders["blocks"] = rows_of_blocks(sides)
    for rows, order in orders.items():
        yield {"rows": rows}, table[order]
        back = np.argsort(order)
        if (back != order).any():
            yield {"rows": BACK[rows]}, table[back]


def changes_of_coordinates(a: Encoding, b: Encoding) -> Iterator[Candidate]:
    """Waves of a's frequencies at other coordinates, those of b where it declares its own."""
    measure, sides = a.measure, a.domain.sides
    if not a.stationary or (measure.frequencies != 0).sum(axis=1).max(initial=0) > 1:
        return
    own = np.broadcast_to(measure.offset, len(sides))
    for slopes, offsets in candidate_lines(a, b):
        moved = offsets - own
        if np.allclose(slopes, 1, atol=1e-12) and np.allclose(moved, 0, atol=1e-12):
            continue
        said: dict[str, Any] = {}
        if not np.allclose(slopes, 1, atol=1e-12):
            said["coordinates"] = slopes.tolist()
        if not np.allclose(moved, 0, atol=1e-12):
            said["offset"] = moved.tolist()
        points = a.domain.coordinates(without_prefix(a).domain.x)
        yield said, waves_at(measure, np.vstack([points + own, (points + offsets) * slopes]))


def candidate_lines(a: Encoding, b: Encoding) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Slopes against a's, and offsets in points, that the coordinates of b may have."""
    sides = a.domain.sides
    if b.stationary:
        slopes = [
            ratio(*pair)
            for pair in zip(a.measure.frequencies.T, b.measure.frequencies.T, strict=True)
        ]
        if None not in slopes:
            yield np.array(slopes), np.broadcast_to(b.measure.offset, len(sides))
        return
    own = RULES.get(a.params.get("coordinates", "index"), RULES["index"])
    for rule, offset in product(RULES.values(), OFFSETS):
        slopes, starts = np.array([rule(n) for n in sides]).T
        yield slopes / [own(n)[0] for n in sides], starts / slopes + offset


def ratio(a: np.ndarray, b: np.ndarray) -> float | None:
    """The one factor from an axis' frequencies to another's; None where there is none."""
    a, b = (np.sort(np.abs(omega[omega != 0])) for omega in (a, b))
    if len(a) != len(b):
        return None
    if len(a) == 0:
        return 1.0
    factor = float(b[-1] / a[-1])
    return factor if np.allclose(a * factor, b, rtol=1e-9, atol=0) else None


def waves_at(measure: Measure, points: np.ndarray) -> np.ndarray:
    """Sines and cosines of a measure's frequencies at any points (n, axes)."""
    angles = points @ measure.frequencies.T
    return np.hstack([np.sin(angles), np.cos(angles)]) * np.tile(measure.amplitudes, 2)


def inverse_change(said: Mapping[str, Any]) -> dict[str, Any]:
    """A change of coordinates from the second table to the first, as one from first to second."""
    found = dict(said)
    if "coordinates" in said:
        found["coordinates"] = [1 / slope for slope in said["coordinates"]]
    if "offset" in said:
        found["offset"] = [0.0 - moved for moved in said["offset"]]  # no -0.0
    return found


def layout_within_axes(
    a: np.ndarray, b: np.ndarray, sides: tuple[int, ...], order: list[int]
) -> str | None:
    """The name of the one change of order that the columns of every axis undergo, if it has one.

    >>> from pefourier.encodings import build
    >>> a = build("axial", d=8, grid=(3, 3)).table()
    >>> layout_within_axes(a, a[:, [4, 6, 5, 7, 0, 2, 1, 3]], (3, 3), [4, 6, 5, 7, 0, 2, 1, 3])
    'interleaved to halves'
    """
    own, other = (axis_columns(table.reshape(*sides, -1)) for table in (a, b))
    if own is None or other is None:
        return None
    names = []
    for mine, theirs in zip(own, other, strict=True):
        if len(mine) != len(theirs):
            return None
        moved = np.searchsorted(mine, np.array(order)[theirs])
        known = changes_by_name(len(mine)).items()
        names.append([name for name, change in known if np.array_equal(change, moved)])
    return next((name for name in names[0] if all(name in one for one in names)), None)


def order_of_axes(table: np.ndarray, sides: tuple[int, ...]) -> str | None:
    """Letters of the axes as they come in the columns; None where columns mix them.

    >>> order_of_axes(np.array([[0, 0], [1, 0], [0, 1], [1, 1]]), (2, 2))
    'xy'
    """
    columns = axis_columns(table.reshape(*sides, -1))
    if columns is None or not all(map(len, columns)):
        return None
    letters = axis_letters(len(sides))
    return "".join(letters[a] for a in np.argsort([own[0] for own in columns]))

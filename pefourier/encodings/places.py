"""Names of points and axes in answers, and encodings of single axes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import (
    NO_WAVES,
    Encoding,
    Measure,
    from_table,
    without_prefix,
)
from pefourier.encodings.families.axial import axis_letters
from pefourier.types import Bools, Places, Strings, Table
from pefourier.writing.text import number

Number = TypeVar("Number", bound=np.number)
SAME = 1e-9  # relative tolerance within which two numbers are equal
POINTS = {"position": "positions", "lag": "lags", "time": "times", "tree": "nodes"}
POINTS |= {"graph": "nodes", "place": "places"}
STEPS = {"position": "positions", "lag": "lags", "time": "time steps", "tree": "edges"}
STEPS |= {"graph": "edges", "place": "places"}
WORDS = {"t": "frames", "y": "rows", "x": "columns"}


def axis_names(count: int) -> list[str]:
    """Names of axes, the slowest first.

    >>> axis_names(2), axis_names(4)
    (['y', 'x'], ['a', 'b', 'c', 'd'])
    """
    return list(axis_letters(count))


def point_of(place: Iterable[int]) -> str:
    """Format a point as typed after --pos, in brackets.

    >>> point_of((3, 4))
    '(3,4)'
    """
    return f"({','.join(str(int(x)) for x in place)})"


def by_axis(values: Sequence[Any] | None, digits: int = 3) -> str | None:
    """Format a number for each axis, with the names of the axes if there are several.

    >>> by_axis([0.911, None]), by_axis([0.25])
    ('y 0.911, x –', '0.25')
    """
    if values is None:
        return None
    if len(values) == 1:
        return number(values[0], digits)
    return by_name(axis_names(len(values)), values, digits)


def by_name(names: Strings, values: Sequence[Any], digits: int = 3) -> str:
    """Format a number for each named axis.

    >>> by_name("yx", [0.911, 0.25])
    'y 0.911, x 0.25'
    """
    return ", ".join(f"{k} {number(v, digits)}" for k, v in zip(names, values, strict=True))


def unit_of_waves(enc: Encoding) -> tuple[float, str]:
    """Return the length of a step in the unit of wavelengths, and the name of the unit."""
    if enc.domain.irregular:
        return enc.domain.spacing, "units of time"
    step = number(enc.domain.spacing, 4)
    return 1.0, STEPS[enc.domain.kind] + ("" if step == "1" else f" of {step}")


def points_in_words(enc: Encoding) -> str:
    """Name what the rows of a table represent, in the plural."""
    if not enc.domain.grid:
        return POINTS[enc.domain.kind]
    return "displacements" if enc.domain.kind == "lag" else "points"


def is_separable(enc: Encoding) -> bool:
    """Return whether an encoding is on a grid and each column depends on one axis.

    >>> from pefourier.encodings import build
    >>> [is_separable(build(k, d=4, grid=(2, 3))) for k in ("axial", "mixed-rope")]
    [True, False]
    """
    enc = without_prefix(enc)
    if len(enc.domain.sides) == 1 or enc.domain.kind != "position":
        return False
    if enc.is_stationary:
        return bool((enc.measure.frequencies != 0).sum(axis=1).max() <= 1)
    return axis_columns(enc.table().reshape(*enc.domain.sides, -1)) is not None


def axis_encodings(enc: Encoding) -> list[Encoding] | None:
    """Split columns by axis into encodings of its points; None if a column depends on two axes.

    Squared distances and inner products are sums over axes. Constant columns go to the first axis.

    >>> from pefourier.encodings import build
    >>> [len(line) for line in axis_encodings(build("axial", d=8, grid=(2, 3)))]
    [2, 3]
    """
    enc = without_prefix(enc)
    if not is_separable(enc):
        return None
    sides = enc.domain.sides
    steps = [math.prod(sides[axis + 1 :]) for axis in range(len(sides))]
    lines = [
        enc.vectors(enc.domain.x[: step * side : step])
        for step, side in zip(steps, sides, strict=True)
    ]
    changes = np.array([(line != line[:1]).any(axis=0) for line in lines])
    changes[0] |= ~changes.any(axis=0)
    tables = (
        line[:, is_own] if is_own.any() else np.zeros((len(line), 1))
        for line, is_own in zip(lines, changes, strict=True)
    )
    return [
        replace(
            from_table(table, enc.name, eps=enc.eps),
            measure=axis_measure(enc.measure, axis) if enc.is_stationary else NO_WAVES,
        )
        for axis, table in enumerate(tables)
    ]


def axis_measure(measure: Measure, axis: int) -> Measure:
    """Frequencies along one axis; zero frequencies belong to the first axis."""
    is_own = np.argmax(measure.frequencies != 0, axis=1) == axis
    offset = np.broadcast_to(measure.offset, measure.frequencies.shape[1])[axis]
    frequencies, weights = measure.frequencies[is_own, axis], measure.weights[is_own]
    return Measure(frequencies, weights, period=measure.period, offset=offset)


def axis_lines(grid: NDArray[Number]) -> list[NDArray[Number]]:
    """Vectors along each axis, with the other axes at their first point."""
    axes = range(grid.ndim - 1)
    return [grid[tuple(slice(None) if b == a else 0 for b in axes)] for a in axes]


def axis_columns(grid: Table) -> list[Places] | None:
    """Columns (last index) that change along each axis only; None if one changes along several."""
    moves = np.array([changing_columns(grid, a) for a in range(grid.ndim - 1)])
    if (moves.sum(axis=0) > 1).any():
        return None
    return [np.flatnonzero(along) for along in moves]


def changing_columns(grid: Table, axis: int) -> Bools:
    """Return a mask of the columns (last index) that change along an axis."""
    lines = np.moveaxis(grid, axis, 0)
    changes = np.zeros(grid.shape[-1], dtype=bool)
    for line in lines[1:]:
        changes |= (line != lines[0]).reshape(-1, len(changes)).any(axis=0)
    return changes

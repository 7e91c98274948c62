r"""Codes whose columns each depend on one axis of a grid: one table an axis, side by side.

Conventions
-----------
A code is then :math:`(E_1(x_1), E_2(x_2), \dots)`, so that squared distances and inner products are
sums over axes.
"""

import numpy as np

from pefourier.encodings.encoding import Encoding, without_prefix


def is_separable(enc: Encoding) -> bool:
    """Whether codes are on a grid and each column depends on one axis.

    >>> from pefourier.encodings import build
    >>> [is_separable(build(k, d=4, grid=(2, 3))) for k in ("axial", "mixed-rope")]
    [True, False]
    """
    enc = without_prefix(enc)
    if len(enc.domain.sides) == 1 or enc.domain.kind != "position":
        return False
    if enc.stationary:
        return bool((enc.measure.frequencies != 0).sum(axis=1).max() <= 1)
    return axis_columns(enc.table().reshape(*enc.domain.sides, -1)) is not None


def axis_tables(enc: Encoding) -> list[np.ndarray] | None:
    """Of a table on a grid the columns that change along each axis; constant ones are the first's.

    None where some column depends on several axes.
    """
    grid = enc.table().reshape(*enc.domain.sides, -1)
    columns_of = axis_columns(grid)
    if columns_of is None:
        return None
    columns_of[0] = np.setdiff1d(np.arange(enc.dim), np.concatenate([[], *columns_of[1:]]))
    return [line[:, columns] for line, columns in zip(axis_lines(grid), columns_of, strict=True)]


def axis_lines(grid: np.ndarray) -> list[np.ndarray]:
    """The codes along each axis, the others at their first point."""
    axes = range(grid.ndim - 1)
    return [grid[tuple(slice(None) if b == a else 0 for b in axes)] for a in axes]


def axis_columns(grid: np.ndarray) -> list[np.ndarray] | None:
    """Columns (the last index) that change along each axis alone; None: some along several."""
    moves = np.array([changing_columns(grid, a) for a in range(grid.ndim - 1)])
    if (moves.sum(axis=0) > 1).any():
        return None
    return [np.flatnonzero(along) for along in moves]


def changing_columns(grid: np.ndarray, axis: int) -> np.ndarray:
    """Which columns (the last index) differ anywhere along an axis."""
    lines = np.moveaxis(grid, axis, 0)
    changes = np.zeros(grid.shape[-1], dtype=bool)
    for line in lines[1:]:
        changes |= (line != lines[0]).reshape(-1, len(changes)).any(axis=0)
    return changes

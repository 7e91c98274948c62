r"""Codes whose columns each depend on one axis of a grid: one table an axis, side by side.

Conventions
-----------
A code is then :math:`(E_1(x_1), E_2(x_2), \dots)`, so that squared distances and inner products are
sums over axes and every question about n points is answered on the :math:`\sum_a N_a` points of the
axes. An axis' part is an encoding of positions 0 … N_a - 1.
"""

from dataclasses import replace

import numpy as np

from pefourier.encodings.domain import positions
from pefourier.encodings.encoding import Encoding, Measure, from_table, without_prefix


def axis_parts(enc: Encoding) -> list[Encoding] | None:
    """The encodings of the axes, or None where some column depends on several, or none is a grid.

    >>> from dataclasses import replace
    >>> from pefourier.encodings.domain import lattice
    >>> table = np.array([[1.0, 5.0], [1.0, 6.0], [2.0, 5.0], [2.0, 6.0]])
    >>> grid = replace(from_table(table), domain=lattice((2, 2)))
    >>> [part.table().ravel().tolist() for part in axis_parts(grid)]
    [[1.0, 2.0], [5.0, 6.0]]
    """
    enc = without_prefix(enc)
    if len(enc.domain.sides) == 1 or enc.domain.kind != "position":
        return None
    return parts_of_measure(enc) if enc.stationary else parts_of_table(enc)


def parts_of_measure(enc: Encoding) -> list[Encoding] | None:
    """Parts by the axis that each declared frequency runs along; constants belong to the first."""
    measure, sides = enc.measure, enc.domain.sides
    along = measure.frequencies != 0
    if (along.sum(axis=1) > 1).any():
        return None
    axis = np.argmax(along, axis=1)
    offset = np.broadcast_to(measure.offset, len(sides))
    return [
        part_of_measure(enc, a, axis == a, float(offset[a]), side) for a, side in enumerate(sides)
    ]


def part_of_measure(enc: Encoding, a: int, along: np.ndarray, offset: float, side: int) -> Encoding:
    """One axis' frequencies as an encoding of its positions; without any its codes are zero."""
    spectrum, share = enc.measure, float(enc.measure.weights[along].sum())
    measure = Measure(
        frequencies=spectrum.frequencies[along, a] if share else np.zeros(1),
        weights=spectrum.weights[along] / share if share else np.ones(1),
        squared_length=spectrum.squared_length * share,
        period=spectrum.period,
        offset=int(offset) if offset.is_integer() else offset,
    )

    def codes(x: np.ndarray) -> np.ndarray:
        angles = measure.phases(x)
        return np.hstack([np.cos(angles), np.sin(angles)]) * np.tile(measure.amplitudes, 2)

    pairs = len(measure.frequencies)
    return replace(enc, domain=positions(side), dim=2 * pairs, codes=codes, measure=measure)


def parts_of_table(enc: Encoding) -> list[Encoding] | None:
    """Parts by the axis along which each column changes; constant columns belong to the first."""
    sides, table = enc.domain.sides, enc.table()
    grid = table.reshape(*sides, enc.dim)
    columns_of = axis_columns(grid)
    if columns_of is None:
        return None
    constant = np.setdiff1d(np.arange(enc.dim), np.concatenate(columns_of))
    facts = {"act": enc.act, "eps": enc.eps, "origin": enc.origin}
    parts = []
    for a, (side, line) in enumerate(zip(sides, axis_lines(grid), strict=True)):
        indices = np.union1d(columns_of[a], constant) if a == 0 else columns_of[a]
        columns = line[:, indices] if len(indices) else np.zeros((side, 1))
        parts.append(from_table(columns, enc.name, **facts))
    return parts


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

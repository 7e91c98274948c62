"""Inner products of the codes of a grid, gathered by displacement.

A displacement is (dy, dx), key - query, of both signs; codes are rows of a table in raster order.
"""

from functools import reduce
from math import prod

import numpy as np

from pefourier.encodings.encoding import BLOCK, row_blocks


def diagonal_means_on_grid(table: np.ndarray, sides: tuple[int, ...]) -> np.ndarray:
    """Mean of the inner products of codes at each displacement, (2 N_1 - 1, …)."""
    doubled, axes = tuple(2 * n for n in sides), tuple(range(len(sides)))
    total = 0.0
    for columns in row_blocks(table.shape[1], BLOCK, prod(doubled)):
        codes = np.asarray(table[:, columns], dtype=float).reshape(*sides, -1)
        spectrum = np.fft.rfftn(codes, doubled, axes)
        total = total + (spectrum.real**2 + spectrum.imag**2).sum(axis=-1)
    sums = np.fft.irfftn(total, doubled, axes)
    lags = [np.arange(1 - n, n) for n in sides]
    return sums[np.ix_(*lags)] / pairs_at(lags, sides)


def pairs_at(lags: list[np.ndarray], sides: tuple[int, ...]) -> np.ndarray:
    """How many pairs of points of a grid are each displacement apart.

    >>> pairs_at([np.array([0, 1]), np.array([-1, 0])], (3, 4)).tolist()
    [[9, 12], [6, 8]]
    """
    counts = [n - np.abs(lag) for n, lag in zip(sides, lags, strict=True)]
    return reduce(np.multiply.outer, counts)


def sum_of_squared_products(table: np.ndarray, unit: float) -> float:
    """Sum of the squares of the inner products of all codes, each times `unit`."""
    n, d = table.shape
    gram = np.zeros((d, d))  # of the columns, whose squares have the same sum
    for rows in row_blocks(n, BLOCK, d):
        codes = np.asarray(table[rows], dtype=float)
        gram += codes.T @ codes
    return float(((gram * unit) ** 2).sum())

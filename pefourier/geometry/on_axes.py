r"""Singular values of codes on a grid that are made of one part an axis.

Conventions
-----------
Codes are :math:`(E_1(x_1), E_2(x_2), \dots)`. Position functions that they can give back by a
linear map are sums :math:`\sum_a f_a(x_a)`, which fill :math:`1 + \sum_a (N_a - 1)` dimensions:
no table of parts has a higher rank, and it has the singular values of a matrix of so many rows.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from pefourier.geometry.matrices import Part, factor


def separable_rank(sides: Sequence[int]) -> int:
    """Dimensions of the functions that are a sum of one function an axis.

    >>> separable_rank((14, 14))
    27
    """
    return 1 + sum(n - 1 for n in sides)


def factor_on_axes(tables: Sequence[np.ndarray]) -> Part:
    """The table (n, d) with one part (N_a, d_a) for each axis, decomposed.

    In the basis of the constant and of functions of one axis that sum to zero, orthonormal, it has
    a row for the means of all parts and rows for each axis that only its part has.
    """
    sides = [len(table) for table in tables]
    n, bases = prod(sides), [zero_sums(side) for side in sides]
    means = np.hstack([np.sqrt(n) * table.mean(axis=0) for table in tables])
    small = np.zeros((separable_rank(sides), len(means)))
    small[0] = means
    row, column = 1, 0
    for table, basis, side in zip(tables, bases, sides, strict=True):
        block = np.sqrt(n / side) * (basis.T @ table)
        small[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    small_part = factor(lambda rows, columns: small[rows, columns], *small.shape, None)
    left_vectors = small_part.vectors(slice(None), slice(None))

    def rows_of(rows: slice, columns: slice) -> np.ndarray:
        return separable_basis(sides, rows, bases) @ left_vectors[:, columns]

    return Part(small_part.sigma, rows_of)


def zero_sums(n: int) -> np.ndarray:
    """An orthonormal basis (n, n - 1) of the functions of n points that sum to zero (Helmert).

    >>> zero_sums(2).round(4).tolist()
    [[0.7071], [-0.7071]]
    """
    k = np.arange(1, n)
    upper = np.arange(n)[:, None] < k
    basis = np.where(upper, 1.0, 0.0)
    basis[k, k - 1] = -k
    return basis / np.sqrt(k * (k + 1.0))


def separable_basis(
    sides: Sequence[int], rows: slice, bases: Sequence[np.ndarray] | None = None
) -> np.ndarray:
    """Some rows of an orthonormal basis of all sums of one function an axis, the constant first.

    >>> basis = separable_basis((3, 4), slice(0, 12))
    >>> bool(np.allclose(basis.T @ basis, np.eye(6)))
    True
    """
    n = prod(sides)
    places = np.unravel_index(np.arange(*rows.indices(n)), sides)
    bases = bases or [zero_sums(side) for side in sides]
    parts = [
        basis[place] * np.sqrt(side / n)
        for basis, place, side in zip(bases, places, sides, strict=True)
    ]
    return np.hstack([np.full((len(places[0]), 1), 1 / np.sqrt(n)), *parts])

"""Inner products of codes at each lag, and how far they are from depending on it alone.

Conventions
-----------
G = E E' holds the inner products of all codes of a table E (n, d). On a grid a lag is a
displacement, a vector with a number for each axis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from pefourier.encodings.domain import lattice_points
from pefourier.encodings.encoding import BLOCK, FLOAT64_EPS, Encoding, row_blocks, unit_of
from pefourier.geometry import Progress
from pefourier.geometry.threads import map_ahead

DIRECT = 2**31  # n^2 d up to which inner products are walked for the Toeplitz residual
RESOLVED = 1e-7  # residual that a difference of squares can tell from 0


def toeplitz_residual(enc: Encoding) -> float | None:
    r"""Relative distance of the inner products to a function of the lag.

    :math:`\lVert G - \mathrm{Toep}(G)\rVert_F / \lVert G\rVert_F` with :math:`G = E E^T` and Toep
    the mean along diagonals (Wang et al., 2021). 0 where the encoding declares such inner products.
    On a grid the lag is the displacement; nodes of a tree have none, and times
    at uneven steps hardly one twice.
    """
    n, d, sides = len(enc), enc.dim, enc.domain.sides
    if enc.is_shift_invariant:
        return 0.0
    if not enc.domain.has_lags:
        return None
    table = enc.table()
    if n > d and n * n * d > DIRECT:
        return toeplitz_residual_of_rows(table, sides)
    table, squared, total = np.asarray(table, dtype=float) * unit_of(table), 0.0, 0.0
    means, places = mean_products(table, sides), lattice_points([np.arange(m) for m in sides])
    for rows in row_blocks(n, BLOCK, n):
        products = table[rows] @ table.T
        lag = places - places[rows, None] + np.array(sides) - 1
        squared += float(((products - means[tuple(np.moveaxis(lag, -1, 0))]) ** 2).sum())
        total += float((products**2).sum())
    return float(np.sqrt(squared / total)) if total else 0.0


def toeplitz_residual_of_rows(
    table: np.ndarray, sides: tuple[int, ...], placed: np.ndarray | None = None
) -> float:
    r"""The same of rows (k, d) that stand on some points of a grid, by default on all.

    By :math:`\lVert G\rVert^2 - \lVert\mathrm{Toep}(G)\rVert^2`, which resolves 1e-7: less is 0.

    >>> codes = np.eye(2)[[0, 1, 0, 1, 0, 1]]
    >>> toeplitz_residual_of_rows(codes[:5], (3, 2), np.arange(5))
    0.0
    """
    unit, (n, d) = unit_of(table), table.shape
    sums = products_at_lags(table, sides, placed, unit)
    counts = np.rint(products_at_lags(np.ones((n, 1)), sides, placed))
    gram = np.zeros((d, d))  # of the columns, whose squares have the same sum
    for rows in row_blocks(n, BLOCK, d):
        codes = np.asarray(table[rows], dtype=float) * unit
        gram += codes.T @ codes
    total = float((gram**2).sum())
    share = 1 - float((sums**2 / np.maximum(counts, 1)).sum()) / total if total else 0.0
    return float(np.sqrt(share)) if share > RESOLVED**2 else 0.0


def mean_products(table: np.ndarray, sides: tuple[int, ...]) -> np.ndarray:
    """Mean of the inner products of codes at each displacement, (2 N_1 - 1, …)."""
    counts = [n - np.abs(np.arange(1 - n, n)) for n in sides]
    return products_at_lags(table, sides) / reduce(np.multiply.outer, counts)


def products_at_lags(
    table: np.ndarray, sides: tuple[int, ...], placed: np.ndarray | None = None, unit: float = 1.0
) -> np.ndarray:
    """Sums of inner products of rows, times `unit`, at each displacement, by zero-padded FFT.

    >>> products_at_lags(np.ones((4, 1)), (4,)).round(9)
    array([1., 2., 3., 4., 3., 2., 1.])
    """
    sizes, axes, total = [smooth_size(2 * n) for n in sides], range(len(sides)), 0.0
    for columns in row_blocks(table.shape[1], BLOCK, prod(sizes)):
        codes = np.ascontiguousarray(table[:, columns].T, dtype=float) * unit
        if placed is not None:
            rows, codes = codes, np.zeros((len(codes), prod(sides)))
            codes[:, placed] = rows
        spectrum = np.fft.rfftn(codes.reshape(-1, *sides), sizes, [axis + 1 for axis in axes])
        total = total + (spectrum.real**2 + spectrum.imag**2).sum(axis=0)
    sums = np.fft.irfftn(total, sizes, axes)
    return sums[np.ix_(*(np.arange(1 - n, n) for n in sides))]


def smooth_size(count: int) -> int:
    """A size at or above a count with no large factor, which would take ten times as long.

    >>> smooth_size(200001)
    204800
    """
    unit = 2 ** max(0, count.bit_length() - 5)
    return -(-count // unit) * unit


SQUARE_BLOCK = 2**20  # numbers of a block: 8 MiB
SETTLED = 1e-10  # how far balanced columns may be from orthonormal for their lengths to be values
Entries = Callable[[slice, slice], np.ndarray]  # (rows, columns) -> float64 block of a matrix
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Part:
    """A matrix by its singular values and, on demand, rows of its left singular vectors."""

    sigma: np.ndarray  # descending
    vectors: Callable[[slice, slice], np.ndarray]  # (rows, columns) -> those of the vectors


def part_of(sigma: np.ndarray, vectors: np.ndarray) -> Part:
    """A part whose left singular vectors are at hand."""
    return Part(sigma, lambda rows, columns: vectors[rows, columns])


def project(sigma: np.ndarray, right: np.ndarray, entries: Entries) -> Part:
    """A part whose left singular vectors are made of rows of the matrix and the right ones."""

    def left(rows: slice, columns: slice) -> np.ndarray:
        return entries(rows, ALL) @ (right[:, columns] / sigma[columns])

    return Part(sigma, left)


def factor(entries: Entries, n: int, m: int, progress: Progress | None) -> Part:
    """Singular values and left singular vectors of an (n, m) matrix."""
    if n * m <= SQUARE_BLOCK:
        left_vectors, sigma, _ = np.linalg.svd(entries(ALL, ALL), full_matrices=False)
        return part_of(sigma, left_vectors)
    if n <= m:
        return part_of(*long_svd(lambda block: entries(ALL, block).T, m, n, progress))
    return project(*long_svd(lambda block: entries(block, ALL), n, m, progress), entries)


def long_svd(
    rows: Callable[[slice], np.ndarray], n: int, m: int, progress: Progress | None
) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and right singular vectors (columns) of a tall (n, m) matrix.

    With G = A'A = V s^2 V', the matrix B = A V / max(s, 3e-8 s_1) has columns of about equal length
    and its Gram matrix resolves, relative to each of them, what G lost. The error of a singular
    value is a few eps times the largest, as that of a decomposition of A itself.
    """
    blocks = row_blocks(n, max(m * m, SQUARE_BLOCK), m)  # at least square: efficient products

    def total(balance: np.ndarray | None) -> np.ndarray:
        products = np.zeros((m, m))
        for done, product in enumerate(map_ahead(lambda b: gram(rows(b), balance), blocks), 1):
            products += product
            if progress is not None:
                progress(done, len(blocks))
        return products

    eigenvalues, vectors = np.linalg.eigh(total(None))
    lengths = balanced_lengths(eigenvalues, eigenvalues[-1])
    if not lengths[-1] > 0:
        return np.zeros(m), vectors
    balanced = total(vectors / lengths)
    if np.linalg.norm(balanced - np.eye(m)) <= SETTLED:  # a third decomposition would change less
        sigma = lengths * np.sqrt(balanced.diagonal())
        order = np.argsort(-sigma, kind="stable")
        return sigma[order], vectors[:, order]
    small = triangular_root(balanced) @ (lengths[:, None] * vectors.T)
    _, sigma, right = np.linalg.svd(small)
    return sigma, right.T


def gram(block: np.ndarray, balance: np.ndarray | None) -> np.ndarray:
    """Inner products of the columns, of the block or of its product with a matrix."""
    block = block if balance is None else block @ balance
    return block.T @ block


def balanced_lengths(eigenvalues: np.ndarray, largest: float) -> np.ndarray:
    """Lengths to divide columns by: their own, but for those that rounding may have made."""
    return np.sqrt(np.maximum(eigenvalues, 1e-15 * largest))


def triangular_root(balanced: np.ndarray) -> np.ndarray:
    """R with R'R = G; a G that rounding has made indefinite is lifted by that much."""
    try:
        return np.linalg.cholesky(balanced).T
    except np.linalg.LinAlgError:
        m = len(balanced)
        lift = m * FLOAT64_EPS * balanced.diagonal().max()
        return np.linalg.cholesky(balanced + lift * np.eye(m)).T

"""Singular values and left singular vectors of a matrix that is given by its blocks.

A large matrix is walked in blocks, twice, and no square array of its longer side is made: a Gram
matrix has half of the digits, so its eigenvectors are used to balance the columns, and the Gram
matrix of the balanced ones gives the other half.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pefourier.encodings.encoding import FLOAT64_EPS, row_blocks
from pefourier.geometry import Progress
from pefourier.geometry.threads import map_ahead

BLOCK = 2**20  # numbers of a block: 8 MiB
SETTLED = 1e-10  # how far balanced columns may be from orthonormal for their lengths to be values
PLAIN = 1e-6  # share of the largest from which on an eigenvalue of a Gram matrix has ten digits
KEPT = 2**25  # numbers of a matrix up to which its blocks are made once and kept
Entries = Callable[[slice, slice], np.ndarray]  # (rows, columns) -> float64 block of a matrix
Eigen = tuple[np.ndarray, np.ndarray]  # eigenvalues, ascending, and eigenvectors, in columns
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Part:
    """A matrix by its singular values and, on demand, rows of its left singular vectors."""

    sigma: np.ndarray  # descending
    vectors: Callable[[slice, slice], np.ndarray]  # (rows, columns) -> those of the vectors


def held(sigma: np.ndarray, vectors: np.ndarray) -> Part:
    """A part whose left singular vectors are at hand."""
    return Part(sigma, lambda rows, columns: vectors[rows, columns])


def project(sigma: np.ndarray, right: np.ndarray, entries: Entries) -> Part:
    """A part whose left singular vectors are made of rows of the matrix and the right ones."""

    def left(rows: slice, columns: slice) -> np.ndarray:
        return entries(rows, ALL) @ (right[:, columns] / sigma[columns])

    return Part(sigma, left)


def factor(
    entries: Entries, n: int, m: int, progress: Progress | None, eps: float | None = None
) -> Part:
    """Singular values and left singular vectors of an (n, m) matrix.

    `eps` is the rounding of its numbers, where values within it count as zero. Of a wide matrix
    without such values any orthonormal vectors span the columns: those of the axes are taken.
    """
    if n * m <= BLOCK:
        left_vectors, sigma, _ = np.linalg.svd(entries(ALL, ALL), full_matrices=False)
        return held(sigma, left_vectors)
    if n <= m:
        spread = None if eps is None else eps**2 * (n**-0.5 + m**-0.5) ** 2
        return held(*long_svd(lambda block: entries(ALL, block).T, m, n, progress, None, spread))
    return project(*long_svd(lambda block: entries(block, ALL), n, m, progress), entries)


def long_svd(
    rows: Callable[[slice], np.ndarray],
    n: int,
    m: int,
    progress: Progress | None,
    first: Eigen | None = None,
    spread: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and right singular vectors (columns) of a tall (n, m) matrix.

    With G = A'A = V s^2 V', the matrix B = A V / max(s, 3e-8 s_1) has columns of about equal length
    and its Gram matrix resolves, relative to each of them, what G lost. The error of a singular
    value is a few eps times the largest, as that of a decomposition of A itself. `first` is V with
    the eigenvalues of G, where these are known without a walk. `spread` is the share of the sum of
    squared singular values at or below which one is rounding: where all are beyond doubt above it,
    and above 1e-3 of the largest, G alone gives their values, and V is the identity instead.
    """
    square = m * m  # a block is at least square, which keeps the products efficient
    blocks = row_blocks(n, max(square, BLOCK), m)
    keep = first is None and n * m <= KEPT
    matrix = assemble(map_ahead(rows, blocks), n, m) if keep else None
    walk = row_blocks(n, max(square, 2 * BLOCK), m) if keep else blocks

    def total(balance: np.ndarray | None) -> np.ndarray:
        products = np.zeros((m, m))
        take = matrix.__getitem__ if keep else rows
        for done, product in enumerate(map_ahead(lambda b: gram(take(b), balance), walk), 1):
            products += product
            if progress is not None:
                progress(done, len(walk))
        return products

    if first is None:
        products = total(None)
        if spread is not None and independent(products, spread):
            return np.sqrt(np.linalg.eigvalsh(products)[::-1]), np.eye(m)
        first = np.linalg.eigh(products)
    eigenvalues, vectors = first
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


def independent(products: np.ndarray, spread: float) -> bool:
    """Whether all eigenvalues exceed a share of their sum, and of their largest: see `long_svd`."""
    threshold = max(1.001 * spread * products.trace(), PLAIN * float(np.linalg.norm(products)))
    try:
        np.linalg.cholesky(products - threshold * np.eye(len(products)))
    except np.linalg.LinAlgError:
        return False
    return True


def assemble(blocks: Iterator[np.ndarray], n: int, m: int) -> np.ndarray:
    """The matrix (n, m) that blocks of rows make up, in the order in memory that they have."""
    matrix = np.empty((m, n)).T
    start = 0
    for block in blocks:
        if start == 0 and block.flags.c_contiguous:
            matrix = np.empty((n, m))
        matrix[start : start + len(block)] = block
        start += len(block)
    return matrix


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

"""Singular values and left singular vectors of a matrix that is given by its blocks.

A large matrix is walked in blocks, twice, and no square array of its longer side is made: a Gram
matrix has half of the digits, so its eigenvectors are used to balance the columns, and the Gram
matrix of the balanced ones gives the other half.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pefourier.encodings.encoding import FLOAT64_EPS, row_blocks
from pefourier.geometry import Progress
from pefourier.geometry.threads import map_ahead

BLOCK = 2**20  # numbers of a block: 8 MiB
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
    if n * m <= BLOCK:
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
    blocks = row_blocks(n, max(m * m, BLOCK), m)  # at least square: efficient products

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

"""Which rows of a table are equal, number by number? By a hash of each row."""

from hashlib import shake_128

import numpy as np

from pefourier.encodings.encoding import row_blocks

NUMBERS_AT_ONCE = 2**20  # of a table, where its rows are read in float64


def first_duplicate(table: np.ndarray) -> np.ndarray:
    """Index of the first row equal to each row, shape (n,).

    >>> first_duplicate(np.array([[1.0], [0.0], [1.0], [-0.0]]))
    array([0, 1, 0, 1])
    """
    hashes = row_hashes(table)
    order = np.lexsort(hashes.T)  # stable: rows of one hash stay in the order of their index
    ranked = hashes[order]
    is_new = np.append(True, (ranked[1:] != ranked[:-1]).any(axis=1))
    first = np.empty(len(table), dtype=int)
    first[order] = order[is_new][np.cumsum(is_new) - 1]
    return first


def row_hashes(table: np.ndarray) -> np.ndarray:
    """Two 64-bit numbers for each row, the same for equal rows, as good as surely for no others.

    Of a billion pairs of unlike rows about one in 10^17 would share both.
    """
    n, d = table.shape
    random = np.frombuffer(shake_128(b"rows").digest(16 * d), np.uint64)
    factors = random.reshape(d, 2) | np.uint64(1)
    hashes = np.empty((n, 2), dtype=np.uint64)
    for rows in row_blocks(n, NUMBERS_AT_ONCE, d):
        bits = (np.asarray(table[rows], dtype=float) + 0.0).view(np.uint64)
        bits ^= bits >> np.uint64(32)  # short fractions such as 1.0 have no low bits of their own
        hashes[rows] = bits @ factors
    return hashes

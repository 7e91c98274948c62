"""Which rows of a table are equal, number by number? By a hash of each row."""

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
    factors = odd_numbers(2 * d).reshape(d, 2)
    hashes = np.empty((n, 2), dtype=np.uint64)
    for rows in row_blocks(n, NUMBERS_AT_ONCE, d):
        bits = (np.asarray(table[rows], dtype=float) + 0.0).view(np.uint64)
        bits ^= bits >> np.uint64(32)  # short fractions such as 1.0 have no low bits of their own
        hashes[rows] = bits @ factors
    return hashes


def odd_numbers(count: int) -> np.ndarray:
    """Odd numbers of 64 bits that have nothing in common (SplitMix64), shape (count,).

    numpy's generators would take longer to import than small tables take to hash.
    """
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x ^ (x >> np.uint64(31))) | np.uint64(1)

"""Which rows of a table are equal, number by number? By a hash of each row."""

import numpy as np

from pefourier.encodings.encoding import row_blocks

NUMBERS_AT_ONCE = 2**20  # of a table, where its rows are read in float64


def first_duplicate(table: np.ndarray) -> np.ndarray:
    """Index of the first row equal to each row, shape (n,).

    >>> first_duplicate(np.array([[1.0], [0.0], [1.0], [-0.0]]))
    array([0, 1, 0, 1])
    """
    first = np.arange(len(table))
    index_bits = np.uint64(len(table).bit_length())
    keys = row_hashes(table)
    keys >>= index_bits
    keys <<= index_bits
    keys |= first.view(np.uint64)
    keys.sort()  # by hash and, in rows that share one, by index: soonest as numbers
    marks = keys >> index_bits
    if (marks[1:] != marks[:-1]).all():
        return first
    keys &= (np.uint64(1) << index_bits) - np.uint64(1)
    rows = keys.view(np.int64)
    while len(rows):
        starts = np.flatnonzero(np.append(True, marks[1:] != marks[:-1]))
        leader = np.repeat(rows[starts], np.diff(starts, append=len(rows)))
        first[rows] = leader
        differs = np.zeros(len(table), dtype=bool)
        differs[rows] = leader != rows
        differs[differs] = is_unlike(table, np.flatnonzero(differs), first)
        again = differs[rows]  # rows that share a hash with a row that they are not equal to
        rows, marks = rows[again], marks[again]
    return first


def is_unlike(table: np.ndarray, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Is each of some rows, in order, unlike the row that `first` (of all rows) names for it?"""
    unlike = np.empty(len(rows), dtype=bool)
    for block in row_blocks(len(rows), NUMBERS_AT_ONCE, table.shape[1]):
        unlike[block] = (table[rows[block]] != table[first[rows[block]]]).any(axis=1)
    return unlike


def row_hashes(table: np.ndarray) -> np.ndarray:
    """A 64-bit number for each row, the same for equal rows and rarely for others, shape (n,)."""
    n, d = table.shape
    factors = odd_numbers(d)
    marks = np.empty(n, dtype=np.uint64)
    for rows in row_blocks(n, NUMBERS_AT_ONCE, d):
        bits = (np.asarray(table[rows], dtype=float) + 0.0).view(np.uint64)
        bits ^= bits >> np.uint64(32)  # short fractions such as 1.0 have no low bits of their own
        marks[rows] = bits @ factors
    return marks


def odd_numbers(count: int) -> np.ndarray:
    """Odd numbers of 64 bits that have nothing in common (SplitMix64), shape (count,).

    numpy's generators would take longer to import than small tables take to hash.
    """
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x ^ (x >> np.uint64(31))) | np.uint64(1)

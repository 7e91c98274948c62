"""Which two rows of a table are nearest, and which are equal? By blocks, with proven bounds.

Conventions
-----------
Matrix products with a proven bound on their rounding rule pairs of rows out, and the few left are
computed again from differences in float64. No array has one entry a pair. Distances that agree to
one part in 10^9 count as tied, and of tied pairs the first in lexicographic order is named.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

TIE = 2e-9  # relative, of squared distances: one part in 10^9 of distances
FINE = 2e-10  # a pair later in order has to be nearer by this share to be looked at again
ELEMENTS_AT_ONCE = 2**20  # of the table, where it is read in pieces of float64
BLOCK_ROWS = 2**11
STRIP_ROWS = 2**8  # of a block of products, where pairs are listed
MANY_PAIRS = 2**14  # computing more from differences costs as much as a product in float64
CACHE_BYTES = 2**28
SAMPLE_ROWS = 2**10
Progress = Callable[[int, int], object]


def nearest_rows(table: np.ndarray, report: Progress) -> tuple[float, tuple[int, int]]:
    """Distance and indices i < j of the nearest two rows of a table without equal rows."""
    n = len(table)
    rows = centred(table)
    best = Nearest(rows)
    for start, stop in pieces(n - 1, table.shape[1]):
        best.meet(np.arange(start, stop), np.arange(start, stop) + 1)
    blocks = list(compact_blocks(rows, np.arange(n)))
    search(rows, blocks, best, report)
    if best.unsettled:
        search(rows, blocks, best, report)
    return best.distance(), best.pair


def pieces(n: int, d: int) -> Iterator[tuple[int, int]]:
    """Bounds of runs of n rows of d columns that are small enough for float64 copies."""
    step = max(1, ELEMENTS_AT_ONCE // d)
    return ((start, min(start + step, n)) for start in range(0, n, step))


def first_equal(table: np.ndarray) -> np.ndarray:
    """Index of the first row equal to each row, shape (n,)."""
    marks = hashes(table)
    first = np.arange(len(table))
    left = np.argsort(marks, kind="stable")
    while len(left):
        starts = np.append(True, marks[left[1:]] != marks[left[:-1]])
        leader = left[starts][np.cumsum(starts) - 1]
        same = leader == left
        follow = np.flatnonzero(~same)
        for start, stop in pieces(len(follow), table.shape[1]):
            k = follow[start:stop]
            same[k] = (table[left[k]] == table[leader[k]]).all(axis=1)
        first[left[same]] = leader[same]
        left = left[~same]  # rows that share a hash with another row and are not equal to it
    return first


def hashes(table: np.ndarray) -> np.ndarray:
    """A 64-bit number for each row, the same for equal rows and rarely for others, shape (n,)."""
    n, d = table.shape
    factors = np.random.default_rng(0).integers(2**64, size=d, dtype=np.uint64) | np.uint64(1)
    marks = np.empty(n, dtype=np.uint64)
    for start, stop in pieces(n, d):
        bits = (np.asarray(table[start:stop], dtype=float) + 0.0).view(np.uint64)
        bits ^= bits >> np.uint64(32)  # short fractions such as 1.0 have no low bits of their own
        marks[start:stop] = bits @ factors
    return marks


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table in float64, moved and scaled so that no entry exceeds 1 in magnitude.

    The move takes out a common offset, which products of rows would drown in; the scale is a power
    of two, exact, and keeps squares of very small and very large codes inside float32.
    """

    table: np.ndarray
    centre: np.ndarray
    scale: float

    def __call__(self, index: np.ndarray) -> np.ndarray:
        return (np.asarray(self.table[index], dtype=float) - self.centre) * self.scale

    def differences(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Differences of rows, rounded once."""
        minuend = np.asarray(self.table[i], dtype=float)
        return (minuend - np.asarray(self.table[j], dtype=float)) * self.scale


def centred(table: np.ndarray) -> Rows:
    """The rows of a table about the middle of their range in each column."""
    n, d = table.shape
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    total = np.zeros(d)
    for start, stop in pieces(n, d):
        part = np.asarray(table[start:stop], dtype=float)
        low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
        total += part.sum(axis=0)
    exponent = np.frexp((high - low).max())[1]
    return Rows(table, total / n, float(np.ldexp(1.0, min(-exponent, 1000))))


class Nearest:
    """The nearest pair of rows met so far; of tied ones the first in lexicographic order."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.smallest = np.inf  # squared distance
        self.squared = np.inf  # that of the pair: equal to the smallest up to a tie
        self.pair = (len(rows.table), len(rows.table))
        self.unsettled = False

    @property
    def limit(self) -> float:
        """The squared distance up to which a pair is of interest."""
        return self.smallest * (1 + TIE)

    def distance(self) -> float:
        """Distance of the pair, also where its square is too small for a float."""
        i, j = self.pair
        difference = self.rows.differences(np.array([i]), np.array([j]))[0]
        largest = np.abs(difference).max()
        return float(np.linalg.norm(difference / largest) * largest / self.rows.scale)

    def meet(self, i: np.ndarray, j: np.ndarray) -> None:
        """Take in pairs (i, j), i < j, computed from differences."""
        for start, stop in pieces(len(i), len(self.rows.centre)):
            difference = self.rows.differences(i[start:stop], j[start:stop])
            squared = np.einsum("ij,ij->i", difference, difference)
            self._take(i[start:stop], j[start:stop], squared)

    def _take(self, i: np.ndarray, j: np.ndarray, squared: np.ndarray) -> None:
        before, self.smallest = self.smallest, min(self.smallest, float(squared.min()))
        if self.squared > self.limit:
            # the pair gives way; one passed over in its favour may tie with the new smallest
            self.unsettled = before <= self.limit
            self.squared, self.pair = np.inf, (len(self.rows.table),) * 2
        tied = np.flatnonzero(squared <= self.limit)
        if len(tied):
            k = tied[np.lexsort((j[tied], i[tied]))[0]]
            pair = (int(i[k]), int(j[k]))
            if pair < self.pair:
                self.squared, self.pair = float(squared[k]), pair


def compact_blocks(rows: Rows, index: np.ndarray) -> Iterator[np.ndarray]:
    """Rows in blocks, halved by order or along a direction, whichever parts the means further."""
    if len(index) <= BLOCK_ROWS:
        yield index
        return
    half = len(index) // 2
    sample = rows(index[:: -(-len(index) // SAMPLE_ROWS)])
    direction = leading_direction(sample)
    by_direction = np.argsort(sample @ direction, kind="stable")
    if parted(sample[by_direction]) > parted(sample):
        along = [rows(index[a:b]) @ direction for a, b in pieces(len(index), len(direction))]
        order = np.argpartition(np.concatenate(along), half)
        index = np.concatenate([np.sort(index[order[:half]]), np.sort(index[order[half:]])])
    yield from compact_blocks(rows, index[:half])
    yield from compact_blocks(rows, index[half:])


def leading_direction(sample: np.ndarray) -> np.ndarray:
    """Unit vector near the leading principal direction of some rows, by power iteration."""
    sample = sample - sample.mean(axis=0)
    direction = sample[np.abs(sample).max(axis=1).argmax()]
    for _ in range(8):
        length = np.linalg.norm(direction)
        if length == 0:
            break
        direction = (sample @ (direction / length)) @ sample
    return direction / (np.linalg.norm(direction) or 1.0)


def parted(rows: np.ndarray) -> float:
    """Squared distance between the means of the first and the second half of some rows."""
    half = len(rows) // 2
    return float(((rows[:half].mean(axis=0) - rows[half:].mean(axis=0)) ** 2).sum())


@dataclass(frozen=True, eq=False)
class Block:
    """Rows z about a centre near them, with two more columns, -|z|²/2 and 1: see `halves`."""

    index: np.ndarray
    augmented: np.ndarray  # (b, d + 2)
    longest: float  # largest squared length of a row

    @property
    def codes(self) -> np.ndarray:
        """The rows without the two columns."""
        return self.augmented[:, :-2]

    def where(self, keep: np.ndarray) -> "Block":
        """The block of some of the rows."""
        if keep.all():
            return self
        return Block(self.index[keep], self.augmented[keep], self.longest)


def block(index: np.ndarray, codes: np.ndarray, dtype: type) -> Block:
    """Rows rounded to a floating-point type, with their lengths from before."""
    lengths = np.einsum("ij,ij->i", codes, codes)
    augmented = np.empty((len(codes), codes.shape[1] + 2), dtype)
    augmented[:, :-2], augmented[:, -2], augmented[:, -1] = codes, -lengths / 2, 1.0
    return Block(index, augmented, float(lengths.max(initial=0.0)))


def halves(one: Block, two: Block, apart: np.ndarray) -> np.ndarray:
    """Minus half the squared distances of two blocks, the second moved by `apart`.

    They are products of (z, -|z|²/2, 1) and (w, 1, -|w|²/2). Within a block only pairs i < j count.
    """
    moved = two.augmented.copy()
    codes = moved[:, :-2]
    codes += apart.astype(codes.dtype)
    moved[:, -2], moved[:, -1] = 1.0, np.einsum("ij,ij->i", codes, codes) / -2
    product = one.augmented @ moved.T
    if one is two:
        product[np.tri(len(product), dtype=bool)] = -np.inf
    return product


def rounding(one: Block, two: Block, apart: np.ndarray) -> float:
    """Largest error of a squared distance from `halves`.

    Sums of k = d + 2 products err by at most k u / (1 - k u) times the sum of magnitudes, in any
    order (Higham, 2002, section 3.1), u half the machine epsilon; magnitudes sum to |z|² + |w|² at
    most, and |w|² is such a sum itself. Entries of z, w and `apart` were rounded before, which
    moves a squared distance by 16 u of the same at most. The last term is for underflow.
    """
    k = one.augmented.shape[1]
    info = np.finfo(one.augmented.dtype)
    longest = one.longest + (two.longest**0.5 + np.linalg.norm(apart)) ** 2 + two.longest
    return 1.01 * (3 * k + 16) * info.eps / 2 * longest + 8 * k * float(info.tiny)


def search(rows: Rows, blocks: list[np.ndarray], best: Nearest, report: Progress) -> None:
    """Compare all blocks: first each with itself, then pairs of them from near to far."""
    means = np.array([rows(index).mean(axis=0) for index in blocks])
    first, second = np.triu_indices(len(blocks))
    apart = ((means[first] - means[second]) ** 2).sum(axis=1) if len(blocks) > 1 else first
    kept = max(2, CACHE_BYTES // (4 * BLOCK_ROWS * (len(rows.centre) + 2)))
    load = lru_cache(kept)(lambda k: block(blocks[k], rows(blocks[k]) - means[k], np.float32))
    for done, k in enumerate(np.argsort(apart, kind="stable"), 1):
        a, b = first[k], second[k]
        compare(rows, load(a), load(b), means[b] - means[a], best)
        report(done, len(first))


def compare(rows: Rows, one: Block, two: Block, apart: np.ndarray, best: Nearest) -> None:
    """Look for a nearer pair with a row in each of two blocks, in float32 where this can tell."""
    if one is not two:
        one, two = facing(one, two, apart, best)
    if not len(one.index) or not len(two.index):
        return
    product, error = halves(one, two, apart), rounding(one, two, apart)
    least = -(best.limit + error) / 2
    if product.max() < least:
        return
    if np.count_nonzero(product >= least) > MANY_PAIRS:
        one, two = in_float64(rows, one, two)
        product, error = halves(one, two, 0 * apart), rounding(one, two, 0 * apart)
    for start in range(0, len(product), STRIP_ROWS):
        strip = slice(start, start + STRIP_ROWS)
        best.meet(*worthwhile(-2 * product[strip] - error, one.index[strip], two.index, best))


def facing(one: Block, two: Block, apart: np.ndarray, best: Nearest) -> tuple[Block, Block]:
    """The rows of each block that, along the line of the means, are near enough to the other."""
    length = np.linalg.norm(apart)
    direction = (apart / (length or 1.0)).astype(np.float32)
    p, q = one.codes @ direction, two.codes @ direction + np.float32(apart @ direction)
    longest = one.longest**0.5 + two.longest**0.5 + length
    error = 2 * (len(apart) + 8) * 2.0**-24 * longest + 1e-36
    reach = 1.00001 * np.sqrt(best.limit) + error
    return one.where(p >= q.min() - reach), two.where(q <= p.max() + reach)


def in_float64(rows: Rows, one: Block, two: Block) -> tuple[Block, Block]:
    """Two blocks in float64 about the mean of the first, where rounding is smaller still."""
    codes = rows(one.index)
    mean = codes.mean(axis=0)
    first = block(one.index, codes - mean, np.float64)
    return first, first if one is two else block(two.index, rows(two.index) - mean, np.float64)


def worthwhile(
    lower: np.ndarray, first: np.ndarray, second: np.ndarray, best: Nearest
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (i, j) that lower bounds of squared distances leave nearer, or tied and earlier."""
    a, b = np.nonzero(lower <= best.limit)
    i, j = np.minimum(first[a], second[b]), np.maximum(first[a], second[b])
    earlier = (i < best.pair[0]) | ((i == best.pair[0]) & (j < best.pair[1]))
    keep = earlier | (lower[a, b] < best.smallest * (1 - FINE))
    return i[keep], j[keep]

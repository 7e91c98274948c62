"""Which two rows of a table are closest? By blocks, with proven bounds.

Conventions
-----------
Matrix products with a proven bound on their rounding rule pairs of rows out, and the few left are
computed again from differences in float64. No array has one entry a pair. Distances that agree to
one part in 10^9 count as tied, and of tied pairs the first in lexicographic order is named.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import Floats, row_blocks
from pefourier.geometry import THREADS, Progress
from pefourier.geometry.precision import NUMBERS_AT_ONCE, Indices, Table

TIE = 2e-9  # relative, of squared distances: one part in 10^9 of distances
FINE = 2e-10  # a pair later in order has to be closer by this share to be looked at again
BLOCK_ROWS = 2**11
STRIP_ROWS = 2**8  # of a block of products, where pairs are listed
MANY_PAIRS = 2**14  # computing more from differences costs as much as a product in float64
CACHE_BYTES = 2**28
SAMPLE_ROWS = 2**10
FEW_ROWS = 2**13  # up to which all pairs are looked at
FEW_COLUMNS = 8  # up to which a tree finds the nearest row sooner than products do


def closest_rows(table: Table, report: Progress) -> tuple[float, tuple[int, int]]:
    """Distance and indices i < j of the closest two rows of a table without equal rows."""
    n, d = table.shape
    rows = scale_rows(table)
    best = BestPair(rows)
    best.consider(np.arange(n - 1), np.arange(1, n))
    if n > FEW_ROWS and d <= FEW_COLUMNS:
        search_tree(rows, best)
        report(n, n)
    else:
        search_blocks(rows, np.array_split(np.arange(n), -(-n // BLOCK_ROWS)), best, report)
    return best.distance(), best.pair


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table in float64, and a scale by which none of their entries exceeds 1 by much.

    The scale is a power of two, exact, and keeps squares of very small and very large codes inside
    float32.
    """

    table: Table
    scale: float

    def rows(self, index: Indices) -> Floats:
        """Some rows in float64."""
        return np.asarray(self.table[index], dtype=float)

    def from_centre(self, centre: Floats, index: Indices) -> Floats:
        """Rows from a centre, in which products would drown: rounded once."""
        return (self.rows(index) - centre) * self.scale

    def centre(self) -> Floats:
        """The median of each column in a sample: many small rows outvote a long one."""
        sample = self.rows(sample_rows(np.arange(len(self.table))))
        sample.partition(len(sample) // 2, axis=0)
        return np.asarray(sample[len(sample) // 2])

    def differences(self, i: Indices, j: Indices) -> Floats:
        """Differences of rows, rounded once."""
        return self.from_centre(self.rows(j), i)


def sample_rows(index: Indices) -> Indices:
    """A sample of rows at equal steps."""
    return index[:: -(-len(index) // SAMPLE_ROWS)]


def scale_rows(table: Table) -> Rows:
    """The rows of a table, scaled by the range of its columns."""
    n, d = table.shape
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    for rows in row_blocks(n, NUMBERS_AT_ONCE, d):
        part = np.asarray(table[rows], dtype=float)
        low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
    exponent = np.frexp((high - low).max())[1]
    return Rows(table, float(np.ldexp(1.0, min(-exponent, 1000))))


class BestPair:
    """The first in lexicographic order of the pairs considered so far that tie with the closest."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.smallest = np.inf  # squared distance
        self.squared = np.inf  # that of the pair
        self.pair = (len(rows.table),) * 2

    @property
    def limit(self) -> float:
        """The squared distance up to which a pair is of interest."""
        return self.smallest * (1 + TIE)

    def distance(self) -> float:
        """Distance of the pair, also where its square is too small for a float."""
        i, j = np.reshape(self.pair, (2, 1))
        return float(np.hypot.reduce(self.rows.differences(i, j)[0]) / self.rows.scale)

    def order(self, i: Indices, j: Indices) -> Indices:
        """Numbers of pairs in lexicographic order."""
        return i * len(self.rows.table) + j

    @property
    def place(self) -> int:
        """The number of the pair in lexicographic order."""
        return self.pair[0] * len(self.rows.table) + self.pair[1]

    def may_follow(self, i: Indices, j: Indices, squared: Floats) -> NDArray[np.bool_]:
        """Whether pairs i < j of at least some squared distances may take the pair's place."""
        earlier = self.order(i, j) < self.place
        limits = np.where(earlier, self.limit, self.smallest * (1 - FINE))
        return squared <= limits

    def consider(self, i: Indices, j: Indices) -> None:
        """Keep the best of some pairs, by distances computed from differences."""
        pairs = np.sort([i, j], axis=0)
        for block in row_blocks(len(i), NUMBERS_AT_ONCE, self.rows.table.shape[1]):
            i, j = pairs[:, block]
            difference = self.rows.differences(i, j)
            squared = np.einsum("ij,ij->i", difference, difference)
            self.smallest = min(self.smallest, float(squared.min()))
            tied = np.flatnonzero(squared <= self.limit)
            if not len(tied):
                continue
            places = self.order(i[tied], j[tied])
            first = tied[places.argmin()]
            if self.squared > self.limit or places.min() < self.place:
                self.squared, self.pair = float(squared[first]), (int(i[first]), int(j[first]))


@dataclass(frozen=True, eq=False)
class Block:
    """Rows z about a centre, with the columns -|z|²/2 and 1 of `minus_half_squares`."""

    index: Indices
    augmented: NDArray[np.floating]  # (b, d + 2)

    @property
    def codes(self) -> NDArray[np.floating]:
        """The rows without the two columns."""
        return self.augmented[:, :-2]

    @property
    def lengths(self) -> Floats:
        """Squared length of each row, in float64."""
        return -2.0 * self.augmented[:, -2].astype(float)

    def where(self, keep: NDArray[np.bool_]) -> "Block":
        """The block of some of the rows."""
        return self if keep.all() else Block(self.index[keep], self.augmented[keep])


def make_block(rows: Rows, index: Indices, centre: Floats, dtype: type[np.floating]) -> Block:
    """Rows rounded to a floating-point type, with their lengths from before."""
    codes = rows.from_centre(centre, index)
    augmented = np.empty((len(codes), codes.shape[1] + 2), dtype)
    augmented[:, :-2], augmented[:, -1] = codes, 1.0
    augmented[:, -2] = np.einsum("ij,ij->i", codes, codes) / -2
    return Block(index, augmented)


def minus_half_squares(a: Block, b: Block) -> NDArray[np.floating]:
    """Minus half the squared distances of two blocks; within one only pairs i < j count.

    They are products of (z, -|z|²/2, 1) and (w, 1, -|w|²/2).
    """
    partner = b.augmented.copy()
    partner[:, -2:] = b.augmented[:, :-3:-1]
    product: NDArray[np.floating] = a.augmented @ partner.T
    if a is b:
        product[np.tri(len(product), dtype=bool)] = -np.inf
    return product


def rounding_bound(block: Block) -> Floats:
    """What each row of a block adds to the error of squared distances, at most.

    Sums of k = d + 2 products err by at most k u / (1 - k u) times the sum of magnitudes, in any
    order (Higham, 2002, section 3.1), u half the machine epsilon; magnitudes sum to |z|² + |w|² at
    most. Entries of z and w were rounded before, which moves a squared distance by 16 u of the same
    at most. Underflow takes a few of the smallest numbers.
    """
    k, form = block.augmented.shape[1], np.finfo(block.augmented.dtype)
    bound: Floats = 1.01 * (2 * k + 16) * float(form.eps) / 2 * block.lengths
    bound += 4 * k * float(form.tiny)
    return bound


def search_blocks(rows: Rows, blocks: list[Indices], best: BestPair, report: Progress) -> None:
    """Compare all blocks: first each with itself, then pairs of them from near to far."""
    centre = rows.centre()
    cached = max(2, CACHE_BYTES // (4 * BLOCK_ROWS * (len(centre) + 2)))

    @lru_cache(cached)
    def load(k: int) -> Block:
        return make_block(rows, blocks[k], centre, np.float32)

    means = np.array([load(k).codes.mean(axis=0, dtype=float) for k in range(len(blocks))])
    first, second = np.triu_indices(len(blocks))
    apart_squared = ((means[first] - means[second]) ** 2).sum(axis=1)
    failed = 0  # comparisons in float32 that left too many pairs: of ties, most do
    for done, k in enumerate(np.argsort(apart_squared, kind="stable"), 1):
        a, b = load(first[k]), load(second[k])
        if a is not b:
            a, b = facing_rows(a, b, means[second[k]] - means[first[k]], best)
        if len(a.index) and len(b.index):
            promising = 2 * failed <= done + 2
            if not (promising and compare_blocks(a, b, best, MANY_PAIRS)):
                failed += 1
                fine = make_block(rows, a.index, centre, np.float64)
                fine_b = fine if a is b else make_block(rows, b.index, centre, np.float64)
                compare_blocks(fine, fine_b, best, len(a.index) * len(b.index))
        report(done, len(first))


def compare_blocks(a: Block, b: Block, best: BestPair, most_pairs: int) -> bool:
    """Look for a closer pair with a row in each of two blocks; False where too many remain."""
    product, error_a, error_b = minus_half_squares(a, b), rounding_bound(a), rounding_bound(b)
    threshold = -(best.limit + error_a.max() + error_b.max()) / 2
    if np.count_nonzero(product >= threshold) > most_pairs:
        return False
    for strip in row_blocks(len(product), STRIP_ROWS):
        if product[strip].max() >= threshold:
            lower = -2 * product[strip] - error_b - error_a[strip, None]
            x, y = np.nonzero(lower <= best.limit)
            i, j = np.sort([a.index[strip][x], b.index[y]], axis=0)
            closer = best.may_follow(i, j, lower[x, y])
            best.consider(i[closer], j[closer])
    return True


def facing_rows(a: Block, b: Block, direction: Floats, best: BestPair) -> tuple[Block, Block]:
    """The rows of each block that, along the line of their means, may be near the other."""
    unit = (direction / (np.linalg.norm(direction) or 1.0)).astype(np.float32)
    p, q = a.codes @ unit, b.codes @ unit
    longest = np.sqrt(a.lengths.max()) + np.sqrt(b.lengths.max())
    error = 2 * (len(unit) + 8) * 2.0**-24 * longest + 1e-36
    reach = 1.00001 * np.sqrt(best.limit) + error
    return a.where(p >= q.min() - reach), b.where(q <= p.max() + reach)


def search_tree(rows: Rows, best: BestPair) -> None:
    """The closest rows of a few columns: the nearest of each, no further than the best so far."""
    from scipy.spatial import KDTree

    index = np.arange(len(rows.table))
    places = np.asarray(rows.table, dtype=float) * rows.scale
    tree = KDTree(places)
    for sample in (sample_rows(index), index):  # a few make the bound short
        reach = np.sqrt(best.limit) * (1 + TIE)
        query = partial(tree.query, distance_upper_bound=reach, workers=THREADS)
        nearest = query(places[sample], 2)[1]
        partner = np.where(nearest[:, 0] == sample, nearest[:, 1], nearest[:, 0])
        within = partner < len(index)
        best.consider(sample[within], partner[within])
    first, reach = best.pair[0], np.sqrt(best.limit) * (1 + TIE)
    neighbours = np.setdiff1d(tree.query_ball_point(places[first], reach), first)
    best.consider(np.full(len(neighbours), first), neighbours)

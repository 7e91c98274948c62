"""Search for the closest two rows of a table, in blocks and with proven bounds.

Conventions
-----------
Matrix products with a proven bound on their rounding rule out most pairs of rows; the remaining
distances are recomputed from differences in float64. No array has one entry per pair of rows.
Distances that agree to one part in 10^9 are tied, and the first tied pair in lexicographic order
is returned.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import Floats, row_blocks
from pefourier.geometry import THREADS, Progress
from pefourier.geometry.precision import NUMBERS_AT_ONCE, Indices, Table

TIE = 2e-9  # relative, of squared distances: one part in 10^9 of distances
FINE = 2e-10  # a later pair is recomputed only if it is closer by this share
BLOCK_ROWS = 2**11
STRIP_ROWS = 2**8  # of a block of products, read at a time to list pairs
MANY_PAIRS = 2**14  # more differences cost as much as a product in float64
CACHE_BYTES = 2**28
SAMPLE_ROWS = 2**10
FEW_ROWS = 2**13  # up to which all pairs are compared
FEW_COLUMNS = 8  # up to which a tree is faster than matrix products


def closest_rows(table: Table, report: Progress) -> tuple[float, tuple[int, int]]:
    """Return distance and indices i < j of the closest two rows of a table without equal rows."""
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
    """The rows of a table in float64, and a scale that brings their entries to about 1 at most.

    The scale is a power of two, and therefore exact. It keeps squares of very small and very large
    numbers within the range of float32.
    """

    table: Table
    scale: float

    def rows(self, index: Indices) -> Floats:
        """Return some rows in float64."""
        return np.asarray(self.table[index], dtype=float)

    def from_centre(self, centre: Floats, index: Indices) -> Floats:
        """Subtract a centre, whose products would swamp those of rows; rounded once."""
        return (self.rows(index) - centre) * self.scale

    def centre(self) -> Floats:
        """Return the median of each column in a sample, robust to a few long rows."""
        sample = self.rows(sample_rows(np.arange(len(self.table))))
        sample.partition(len(sample) // 2, axis=0)
        return np.asarray(sample[len(sample) // 2])

    def differences(self, i: Indices, j: Indices) -> Floats:
        """Return differences of rows, rounded once."""
        return self.from_centre(self.rows(j), i)


def sample_rows(index: Indices) -> Indices:
    """Return a sample of rows at equal steps."""
    return index[:: -(-len(index) // SAMPLE_ROWS)]


def scale_rows(table: Table) -> Rows:
    """Scale the rows of a table by the range of its columns."""
    n, d = table.shape
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    for rows in row_blocks(n, NUMBERS_AT_ONCE, d):
        part = np.asarray(table[rows], dtype=float)
        low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
    exponent = np.frexp((high - low).max())[1]
    return Rows(table, float(np.ldexp(1.0, min(-exponent, 1000))))


class BestPair:
    """The first pair in lexicographic order that ties with the closest pair considered so far."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.smallest = np.inf  # squared distance
        self.squared = np.inf  # squared distance of `pair`
        self.pair = (len(rows.table),) * 2

    @property
    def limit(self) -> float:
        """The squared distance up to which a pair ties with the closest."""
        return self.smallest * (1 + TIE)

    def distance(self) -> float:
        """Return the distance of the pair, even if its square underflows."""
        i, j = np.reshape(self.pair, (2, 1))
        return float(np.hypot.reduce(self.rows.differences(i, j)[0]) / self.rows.scale)

    def order(self, i: Indices, j: Indices) -> Indices:
        """Return the numbers of pairs in lexicographic order."""
        return i * len(self.rows.table) + j

    @property
    def place(self) -> int:
        """The number of the pair in lexicographic order."""
        return self.pair[0] * len(self.rows.table) + self.pair[1]

    def may_follow(self, i: Indices, j: Indices, squared: Floats) -> NDArray[np.bool_]:
        """Whether pairs i < j, given lower bounds on squared distances, may replace the pair."""
        earlier = self.order(i, j) < self.place
        limits = np.where(earlier, self.limit, self.smallest * (1 - FINE))
        return squared <= limits

    def consider(self, i: Indices, j: Indices) -> None:
        """Keep the best pair, by distances computed from differences."""
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
    """Rows z minus a centre, with the columns -|z|²/2 and 1 for `minus_half_squares`."""

    index: Indices
    augmented: NDArray[np.floating]  # (b, d + 2)

    @property
    def vectors(self) -> NDArray[np.floating]:
        """The rows without the two added columns."""
        return self.augmented[:, :-2]

    @property
    def lengths(self) -> Floats:
        """Squared length of each row, in float64."""
        return -2.0 * self.augmented[:, -2].astype(float)

    def where(self, keep: NDArray[np.bool_]) -> "Block":
        """Return the block of the rows to keep."""
        return self if keep.all() else Block(self.index[keep], self.augmented[keep])


def make_block(rows: Rows, index: Indices, centre: Floats, dtype: type[np.floating]) -> Block:
    """Round rows to a floating-point type, with their lengths before rounding."""
    z = rows.from_centre(centre, index)
    augmented = np.empty((len(z), z.shape[1] + 2), dtype)
    augmented[:, :-2], augmented[:, -1] = z, 1.0
    augmented[:, -2] = np.einsum("ij,ij->i", z, z) / -2
    return Block(index, augmented)


def minus_half_squares(a: Block, b: Block) -> NDArray[np.floating]:
    """Return minus half the squared distances of two blocks; within a block, of pairs i < j only.

    These are products of (z, -|z|²/2, 1) and (w, 1, -|w|²/2).
    """
    partner = b.augmented.copy()
    partner[:, -2:] = b.augmented[:, :-3:-1]
    product: NDArray[np.floating] = a.augmented @ partner.T
    if a is b:
        product[np.tri(len(product), dtype=bool)] = -np.inf
    return product


def rounding_bound(block: Block) -> Floats:
    """Return a bound on each row's contribution to the error of squared distances.

    Sums of k = d + 2 products err by at most k u / (1 - k u) times the sum of magnitudes, in any
    order (Higham, 2002, section 3.1), with u half the machine epsilon. Magnitudes sum to at most
    |z|² + |w|². The earlier rounding of z and w moves a squared distance by at most 16 u times
    this sum, and underflow by a few of the smallest numbers.
    """
    k, form = block.augmented.shape[1], np.finfo(block.augmented.dtype)
    bound: Floats = 1.01 * (2 * k + 16) * float(form.eps) / 2 * block.lengths
    bound += 4 * k * float(form.tiny)
    return bound


def search_blocks(rows: Rows, blocks: list[Indices], best: BestPair, report: Progress) -> None:
    """Compare all blocks: first each with itself, then pairs of blocks from near to far."""
    centre = rows.centre()
    cached = max(2, CACHE_BYTES // (4 * BLOCK_ROWS * (len(centre) + 2)))

    @lru_cache(cached)
    def load(k: int) -> Block:
        return make_block(rows, blocks[k], centre, np.float32)

    means = np.array([load(k).vectors.mean(axis=0, dtype=float) for k in range(len(blocks))])
    first, second = np.triu_indices(len(blocks))
    apart_squared = ((means[first] - means[second]) ** 2).sum(axis=1)
    failed = 0  # float32 comparisons that left too many pairs, as ties do
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
    """Look for a closer pair with a row in each of two blocks; False if too many remain."""
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
    """Return the rows of each block that, along the line of means, may be near the other block."""
    unit = (direction / (np.linalg.norm(direction) or 1.0)).astype(np.float32)
    p, q = a.vectors @ unit, b.vectors @ unit
    longest = np.sqrt(a.lengths.max()) + np.sqrt(b.lengths.max())
    error = 2 * (len(unit) + 8) * 2.0**-24 * longest + 1e-36
    reach = 1.00001 * np.sqrt(best.limit) + error
    return a.where(p >= q.min() - reach), b.where(q <= p.max() + reach)


def search_tree(rows: Rows, best: BestPair) -> None:
    """Search a table of few columns: the nearest row of each row, within the best distance."""
    from scipy.spatial import KDTree

    index = np.arange(len(rows.table))
    places = np.asarray(rows.table, dtype=float) * rows.scale
    tree = KDTree(places)
    for sample in (sample_rows(index), index):  # a sample tightens the bound first
        reach = np.sqrt(best.limit) * (1 + TIE)
        query = partial(tree.query, distance_upper_bound=reach, workers=THREADS)
        nearest = query(places[sample], 2)[1]
        partner = np.where(nearest[:, 0] == sample, nearest[:, 1], nearest[:, 0])
        within = partner < len(index)
        best.consider(sample[within], partner[within])
    first, reach = best.pair[0], np.sqrt(best.limit) * (1 + TIE)
    neighbours = np.setdiff1d(tree.query_ball_point(places[first], reach), first)
    best.consider(np.full(len(neighbours), first), neighbours)

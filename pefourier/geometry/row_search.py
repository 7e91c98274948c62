"""Which two rows of a table are closest, and which are equal? By blocks, with proven bounds.

Conventions
-----------
Matrix products with a proven bound on their rounding rule pairs of rows out, and the few left are
computed again from differences in float64. No array has one entry a pair. Distances that agree to
one part in 10^9 count as tied, and of tied pairs the first in lexicographic order is named.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations_with_replacement

import numpy as np

from pefourier.encodings.encoding import row_blocks
from pefourier.geometry import Progress
from pefourier.geometry.threads import THREADS, map_ahead

TIE = 2e-9  # relative, of squared distances: one part in 10^9 of distances
FINE = 2e-10  # a pair later in order has to be closer by this share to be looked at again
NUMBERS_AT_ONCE = 2**20  # of a table, where its rows are read in float64
BLOCK_ROWS = 2**11
STRIP_ROWS = 2**8  # of a block of products, where pairs are listed
MANY_PAIRS = 2**14  # computing more from differences costs as much as a product in float64
CACHE_BYTES = 2**28
SAMPLE_ROWS = 2**10
FEW_ROWS = 2**13  # up to which all pairs are looked at
FEW_COLUMNS = 8  # up to which a tree finds the nearest row sooner than products do
FINEST = 1e-150  # of the range of a column: a distance whose square is a float
PAIRS_AT_ONCE = 2**20
BITS_AT_ONCE = 2**17  # words of pairs of rows
FINE_STEPS = 16  # squared steps a column between neighbours from which on steps are no help
GROUP = 64  # rows whose pairs are products
NARROW = 1e-4  # share of squared distances from a centre below which float32 can't tell rows apart


def closest_rows(table: np.ndarray, report: Progress) -> tuple[float, tuple[int, int]]:
    """Distance and indices i < j of the closest two rows of a table without equal rows."""
    n = len(table)
    rows = scale_rows(table)
    best = BestPair(rows)
    for block in row_blocks(n - 1, NUMBERS_AT_ONCE, table.shape[1]):
        i = np.arange(block.start, block.stop)
        best.consider(i, i + 1)
    if table.shape[1] == 1:
        search_line(rows, best)
        return best.distance(), best.pair
    few = table.shape[1] <= FEW_COLUMNS
    if n > FEW_ROWS and (search_tree(rows, best, report) if few else search_steps(rows, best)):
        return best.distance(), best.pair
    blocks = list(compact_blocks(rows, np.arange(n)))
    search_blocks(rows, blocks, best, report)
    if best.unsettled:
        search_blocks(rows, blocks, best, report)
    return best.distance(), best.pair


def first_equal(table: np.ndarray) -> np.ndarray:
    """Index of the first row equal to each row, shape (n,)."""
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
    left = keys.view(np.int64)
    while len(left):
        starts = np.flatnonzero(np.append(True, marks[1:] != marks[:-1]))
        leader = np.repeat(left[starts], np.diff(starts, append=len(left)))
        first[left] = leader
        other = np.zeros(len(table), dtype=bool)
        other[left] = leader != left
        other[other] = differ(table, np.flatnonzero(other), first)
        again = other[left]  # rows that share a hash with another row and are not equal to it
        left, marks = left[again], marks[again]
    return first


def differ(table: np.ndarray, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Is each of some rows, in order, unlike the row that `others` (of all rows) names for it?"""
    found = np.empty(len(rows), dtype=bool)
    for block in row_blocks(len(rows), NUMBERS_AT_ONCE, table.shape[1]):
        here = rows[block]
        found[block] = (table[here] != table[others[here]]).any(axis=1)
    return found


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


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table in float64, and a scale by which none of their entries exceeds 1 by much.

    The scale is a power of two, exact, and keeps squares of very small and very large codes inside
    float32.
    """

    table: np.ndarray
    scale: float

    def about(self, centre: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Rows from a centre near them, in which products would drown: rounded once."""
        return (np.asarray(self.table[index], dtype=float) - centre) * self.scale

    def centre(self, index: np.ndarray) -> np.ndarray:
        """The middle one of each column's numbers, of a sample: many small rows outvote a long."""
        sample = np.asarray(self.table[sample_rows(index)], dtype=float)
        middle = len(sample) // 2
        return np.partition(sample, middle, axis=0)[middle]

    def differences(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Differences of rows, rounded once."""
        minuend = np.asarray(self.table[i], dtype=float)
        return (minuend - np.asarray(self.table[j], dtype=float)) * self.scale


def sample_rows(index: np.ndarray) -> np.ndarray:
    """A sample of rows at equal steps."""
    return index[:: -(-len(index) // SAMPLE_ROWS)]


def scale_rows(table: np.ndarray) -> Rows:
    """The rows of a table, scaled by the range of its columns."""
    n, d = table.shape
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    for rows in row_blocks(n, NUMBERS_AT_ONCE, d):
        part = np.asarray(table[rows], dtype=float)
        low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
    exponent = np.frexp((high - low).max())[1]
    return Rows(table, float(np.ldexp(1.0, min(-exponent, 1000))))


class BestPair:
    """The closest pair of rows considered so far; of tied ones the first in lexicographic order."""

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

    def consider(self, i: np.ndarray, j: np.ndarray) -> None:
        """Keep the best of the pairs (i, j), i < j, by distances computed from differences."""
        for block in row_blocks(len(i), NUMBERS_AT_ONCE, self.rows.table.shape[1]):
            difference = self.rows.differences(i[block], j[block])
            squared = np.einsum("ij,ij->i", difference, difference)
            self._keep_best(i[block], j[block], squared)

    def _keep_best(self, i: np.ndarray, j: np.ndarray, squared: np.ndarray) -> None:
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
    """Rows in blocks, halved by order, along a direction or, of many sizes, by distance."""
    if len(index) <= BLOCK_ROWS:
        yield index
        return
    half = len(index) // 2
    places = places_along(rows, index)
    if places is not None:
        order = np.argpartition(places, half)
        index = np.concatenate([np.sort(index[order[:half]]), np.sort(index[order[half:]])])
    yield from compact_blocks(rows, index[:half])
    yield from compact_blocks(rows, index[half:])


def places_along(rows: Rows, index: np.ndarray) -> np.ndarray | None:
    """By what to halve some rows, a number each; None for their order.

    Where half of them lie close about their centre it is the distance from it; else the place
    along a direction, if that parts the means further than the order does.
    """
    centre = rows.centre(index)
    sample = rows.about(centre, sample_rows(index))
    middle, far = np.quantile(np.einsum("ij,ij->i", sample, sample), [0.5, 0.9])
    if middle < NARROW * far:
        return np.concatenate([np.einsum("ij,ij->i", z, z) for z in parts(rows, index, centre)])
    direction = leading_direction(sample)
    along = sample[np.argsort(sample @ direction, kind="stable")]
    if distance_of_halves(along) <= distance_of_halves(sample):
        return None
    return np.concatenate([z @ direction for z in parts(rows, index, centre)])


def parts(rows: Rows, index: np.ndarray, centre: np.ndarray) -> Iterator[np.ndarray]:
    """Rows from a centre, some at a time."""
    for block in row_blocks(len(index), NUMBERS_AT_ONCE, len(centre)):
        yield rows.about(centre, index[block])


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


def distance_of_halves(rows: np.ndarray) -> float:
    """Squared distance between the means of the first and the second half of some rows."""
    half = len(rows) // 2
    return float(((rows[:half].mean(axis=0) - rows[half:].mean(axis=0)) ** 2).sum())


@dataclass(frozen=True, eq=False)
class Block:
    """Rows z about a centre near them, with the columns -|z|²/2 and 1 of `minus_half_squares`."""

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


def make_block(index: np.ndarray, codes: np.ndarray, dtype: type) -> Block:
    """Rows rounded to a floating-point type, with their lengths from before."""
    lengths = np.einsum("ij,ij->i", codes, codes)
    augmented = np.empty((len(codes), codes.shape[1] + 2), dtype)
    augmented[:, :-2], augmented[:, -2], augmented[:, -1] = codes, -lengths / 2, 1.0
    return Block(index, augmented, float(lengths.max(initial=0.0)))


def minus_half_squares(one: Block, two: Block, apart: np.ndarray) -> np.ndarray:
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


def relative_bound(block: Block) -> float:
    """Bound on the error of a squared distance, as a share of |z|² + |w|².

    Sums of k = d + 2 products err by at most k u / (1 - k u) times the sum of magnitudes, in any
    order (Higham, 2002, section 3.1), u half the machine epsilon; magnitudes sum to |z|² + |w|² at
    most, and |w|² is such a sum itself. Entries of z and w were rounded before, which moves a
    squared distance by 16 u of the same at most.
    """
    k = block.augmented.shape[1]
    return 1.01 * (3 * k + 16) * float(np.finfo(block.augmented.dtype).eps) / 2


def underflow_bound(block: Block) -> float:
    """Bound on what underflow takes from a squared distance."""
    return 8 * block.augmented.shape[1] * float(np.finfo(block.augmented.dtype).tiny)


def rounding_bound(one: Block, two: Block, apart: np.ndarray) -> float:
    """Bound on the error of all squared distances from `minus_half_squares`."""
    longest = one.longest + (two.longest**0.5 + np.linalg.norm(apart)) ** 2 + two.longest
    return relative_bound(one) * longest + underflow_bound(one)


def search_blocks(rows: Rows, blocks: list[np.ndarray], best: BestPair, report: Progress) -> None:
    """Compare all blocks: first each with itself, then pairs of them from near to far."""
    centres = [rows.centre(index) for index in blocks]
    means = np.array([rows.about(centres[0], index).mean(axis=0) for index in blocks])
    first, second = np.triu_indices(len(blocks))
    apart = ((means[first] - means[second]) ** 2).sum(axis=1) if len(blocks) > 1 else first
    kept = max(2, CACHE_BYTES // (4 * BLOCK_ROWS * (len(centres[0]) + 2)))

    @lru_cache(kept)
    def load(k: int) -> Block:
        return make_block(blocks[k], rows.about(centres[k], blocks[k]), np.float32)

    tried = failed = 0  # comparisons in float32, and those of them that left too much to do
    for done, k in enumerate(np.argsort(apart, kind="stable"), 1):
        a, b = first[k], second[k]
        one, two = load(a), load(b)
        moved = (centres[b] - centres[a]) * rows.scale
        if a != b:
            one, two = facing_rows(one, two, moved, best)
        settled = False
        if 2 * failed <= tried + 2:
            settled = compare_in_float32(one, two, moved, best)
            tried, failed = tried + 1, failed + (not settled)
        if not settled:
            compare_in_float64(rows, centres[a], one, two, best)
        report(done, len(first))


def compare_in_float32(one: Block, two: Block, apart: np.ndarray, best: BestPair) -> bool:
    """Look for a closer pair with a row in each of two blocks; False where too many are left."""
    if not len(one.index) or not len(two.index):
        return True
    product, error = minus_half_squares(one, two, apart), rounding_bound(one, two, apart)
    least = -(best.limit + error) / 2
    if product.max() < least:
        return True
    if np.count_nonzero(product >= least) > MANY_PAIRS:
        return False
    for strip in row_blocks(len(product), STRIP_ROWS):
        lower = -2 * product[strip] - error
        best.consider(*worthwhile_pairs(lower, one.index[strip], two.index, best))
    return True


def compare_in_float64(
    rows: Rows, centre: np.ndarray, one: Block, two: Block, best: BestPair
) -> None:
    """The same about the centre of the first block, with a bound on rounding for each pair."""
    if not len(one.index) or not len(two.index):
        return
    z = make_block(one.index, rows.about(centre, one.index), np.float64)
    w = z if one is two else make_block(two.index, rows.about(centre, two.index), np.float64)
    product = minus_half_squares(z, w, np.zeros(len(centre)))
    error_of_z, error_of_w = (-2 * relative_bound(b) * b.augmented[:, -2] for b in (z, w))
    error_of_w += underflow_bound(z)
    for strip in row_blocks(len(product), STRIP_ROWS):
        lower = -2 * product[strip] - error_of_w - error_of_z[strip, None]
        best.consider(*worthwhile_pairs(lower, one.index[strip], two.index, best))


def facing_rows(one: Block, two: Block, apart: np.ndarray, best: BestPair) -> tuple[Block, Block]:
    """The rows of each block that, along the line of the centres, are near enough to the other."""
    length = np.linalg.norm(apart)
    direction = (apart / (length or 1.0)).astype(np.float32)
    p, q = one.codes @ direction, two.codes @ direction + np.float32(apart @ direction)
    longest = one.longest**0.5 + two.longest**0.5 + length
    error = 2 * (len(apart) + 8) * 2.0**-24 * longest + 1e-36
    reach = 1.00001 * np.sqrt(best.limit) + error
    return one.where(p >= q.min() - reach), two.where(q <= p.max() + reach)


def worthwhile_pairs(
    lower: np.ndarray, first: np.ndarray, second: np.ndarray, best: BestPair
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (i, j) that lower bounds of squared distances leave closer, or tied and earlier."""
    a, b = np.nonzero(lower <= best.limit)
    i, j = np.minimum(first[a], second[b]), np.maximum(first[a], second[b])
    earlier = (i < best.pair[0]) | ((i == best.pair[0]) & (j < best.pair[1]))
    keep = earlier | (lower[a, b] < best.smallest * (1 - FINE))
    return i[keep], j[keep]


def search_line(rows: Rows, best: BestPair) -> None:
    """The closest rows of one column: neighbours in its order, since no two rows are equal."""
    order = np.argsort(rows.table[:, 0], kind="stable")
    for _ in range(2):
        blocks = row_blocks(len(order) - 1, PAIRS_AT_ONCE)
        look_at(((order[k], order[k.start + 1 : k.stop + 1]) for k in blocks), best)
        if not best.unsettled:
            break


def search_tree(rows: Rows, best: BestPair, report: Progress) -> bool:
    """The closest rows of a few columns: the nearest of each, no further than the best so far.

    False: they are too close for the tree, which squares distances.
    """
    from scipy.spatial import KDTree

    n = len(rows.table)
    places = np.asarray(rows.table, dtype=float) * rows.scale
    tree, nearest, partner = KDTree(places), np.full(n, np.inf), np.zeros(n, dtype=np.intp)
    start, size = 0, SAMPLE_ROWS
    while start < n:
        part = slice(start, start + size)
        query = partial(tree.query, k=2, distance_upper_bound=reach(best))
        found = map_ahead(query, np.array_split(places[part], THREADS))
        apart, near = (np.concatenate(of) for of in zip(*found, strict=True))
        near = np.where(near[:, 0] == np.arange(n)[part], near[:, 1], near[:, 0])
        found = np.flatnonzero(near < n)
        nearest[part], partner[part] = apart[:, 1], near
        look_at([(found + start, near[found])], best)
        start, size = part.stop, min(2 * size, PAIRS_AT_ONCE)
        report(min(start, n), n)
    if reach(best) < FINEST:
        return False
    tied = np.flatnonzero(nearest < reach(best))
    look_at([(tied, partner[tied])], best)
    first = best.pair[0]
    others = np.setdiff1d(tree.query_ball_point(places[first], reach(best)), first)
    look_at([(np.full(len(others), first), others)], best)
    return True


def reach(best: BestPair) -> float:
    """The distance up to which a pair is of interest, and what rounding may add to it."""
    return float(np.sqrt(best.limit)) * (1 + TIE)


def pairs_alike(marks: np.ndarray) -> int:
    """How many pairs share a mark."""
    counts = np.unique(marks, return_counts=True)[1]
    return int((counts * (counts - 1)).sum()) // 2


def pairs_in(marks: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rows that share a mark, each once, some at a time."""
    order = np.argsort(marks, kind="stable")
    ranked = marks[order]
    first = np.arange(1, len(ranked) + 1)
    count = np.searchsorted(ranked, ranked, "right") - first
    ends = np.cumsum(count)
    start = 0
    while start < len(ranked):
        done = ends[start] - count[start]
        stop = max(start + 1, int(np.searchsorted(ends, done + PAIRS_AT_ONCE)))
        own = count[start:stop]
        i = np.repeat(np.arange(start, stop), own)
        j = first[i] + np.arange(len(i)) - (ends[i] - count[i] - done)
        yield order[i], order[j]
        start = stop


def look_at(pairs: Iterable[tuple[np.ndarray, np.ndarray]], best: BestPair) -> None:
    """Consider pairs of rows in any order."""
    for i, j in pairs:
        if len(i):
            best.consider(np.minimum(i, j), np.maximum(i, j))


def search_steps(rows: Rows, best: BestPair) -> bool:
    """The closest rows of a table of whole steps, such as codes of bits; False: not found so.

    Rows whose squared distance is L squared steps differ in L columns at most: of any L + 1 parts
    of the columns they share one (multi-index hashing, Norouzi et al., 2012).
    """
    (n, d), step = rows.table.shape, step_of(rows.table)
    unit = (step * rows.scale) ** 2
    if not step or best.limit > FINE_STEPS * d * unit:  # far apart: few share a part
        return False
    parts, needed = max(1, d // n.bit_length()), d
    words = packed_bits(rows.table)
    while needed:
        for columns in np.array_split(np.arange(d), parts):
            marks = row_hashes(rows.table[:, columns])
            if pairs_alike(marks) * parts > n * n / 4:
                return False
            look_at_groups(rows, marks, best, words, unit)
        needed = int(best.limit / unit + 0.5) + 1
        if needed > d:
            return False
        parts, needed = max(parts, needed), needed > parts or best.unsettled
        best.unsettled = False
    return True


def look_at_groups(
    rows: Rows, marks: np.ndarray, best: BestPair, words: np.ndarray | None, unit: float
) -> None:
    """Consider all pairs of rows that share a mark: of many by their bits, or by products."""
    order = np.argsort(marks, kind="stable")
    starts = np.flatnonzero(np.diff(marks[order], prepend=~marks[order[:1]]))
    sizes = np.diff(starts, append=len(order))
    few = order[np.repeat(sizes < GROUP, sizes)]
    look_at(((few[i], few[j]) for i, j in pairs_in(marks[few])), best)
    for start, size in zip(starts[sizes >= GROUP], sizes[sizes >= GROUP], strict=True):
        group = order[start : start + size]
        if words is not None:
            look_at(pairs_by_bits(group, words, unit, best), best)
            continue
        centre = rows.centre(group)
        parts = (group[part] for part in row_blocks(len(group), BLOCK_ROWS))
        blocks = [make_block(part, rows.about(centre, part), np.float32) for part in parts]
        for one, two in combinations_with_replacement(blocks, 2):
            if not compare_in_float32(one, two, 0 * centre, best):
                compare_in_float64(rows, centre, one, two, best)


def packed_bits(table: np.ndarray) -> np.ndarray | None:
    """Codes of two numbers, the same in each column, as words of 64 bits, (n, words); else None.

    >>> packed_bits(np.array([[-1, 1, 1], [1, -1, 1]])).shape, packed_bits(np.eye(3) * [1, 2, 3])
    ((2, 1), None)
    """
    high, low = table.max(), table.min()
    words = np.zeros((len(table), -(-table.shape[1] // 64) * 8), dtype=np.uint8)
    for rows in row_blocks(len(table), NUMBERS_AT_ONCE, table.shape[1]):
        ones = table[rows] == high
        if not (ones | (table[rows] == low)).all():
            return None
        words[rows, : -(-table.shape[1] // 8)] = np.packbits(ones, axis=1)
    return words.view(np.uint64)


def pairs_by_bits(
    group: np.ndarray, words: np.ndarray, unit: float, best: BestPair
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of some rows that differ in as few bits, each `unit` squared, as the closest so far."""
    own = words[group]
    for strip in row_blocks(len(group), BITS_AT_ONCE, len(group)):
        later = own[strip.start :]
        apart = np.zeros((strip.stop - strip.start, len(later)), dtype=np.uint16)
        for one, two in zip(own[strip].T, later.T, strict=True):
            apart += np.bitwise_count(one[:, None] ^ two)
        i, j = np.divmod(np.flatnonzero(apart <= best.limit / unit + 0.5), len(later))
        i, j = i[i < j] + strip.start, j[i < j] + strip.start
        yield group[i], group[j]


def step_of(table: np.ndarray) -> float:
    """The step of which all numbers of a table are multiples, from the first row on; 0: none is.

    >>> step_of(np.array([[-1, 3], [3, 1]])), step_of(np.array([[0, 0.3], [0.1, 0]]))
    (2.0, 0.0)
    """
    start = np.asarray(table[0], dtype=float)
    sizes = np.abs(np.asarray(table[:SAMPLE_ROWS], dtype=float) - start)
    step = float(sizes.min(initial=np.inf, where=sizes > 0))
    for rows in row_blocks(len(table), NUMBERS_AT_ONCE, len(start)):
        steps = (np.asarray(table[rows], dtype=float) - start) / step
        if not (steps == np.rint(steps)).all():
            return 0.0
    return step if np.isfinite(step) else 0.0

"""Exact search for the closest two vectors and the number of distinct vectors, at any length.

Conventions
-----------
Distances are Euclidean, between rows of the table. If an encoding declares its inner products
(`is_stationary`), distances depend on the lag alone, and the search runs over lags instead of
pairs. `closest_rows` searches any other table. Distances that agree to one part in 10^9 are tied,
and the first tied pair in lexicographic order is returned: otherwise rounding would choose among
the n - 1 equally close neighbours of a shift-invariant table. On a grid, lags are displacements
with one entry per axis.

Rows count as equal if they are equal to the bit, or if only rounding separates them: rounding of
the stored numbers, or of the phases they were computed from, which grows with the position. This
must be beyond doubt: rows of a group agree within rounding, and different groups are at least ten
times further apart. Rows that approach each other gradually, such as a low-frequency sinusoid in
16 bits, stay distinct. A period is tested first, since only a period distinguishes rounding of
phases from a true distance.

In a table, matrix products with a proven bound on their rounding rule out most pairs of rows; the
remaining distances are recomputed from differences in float64. No array has one entry per pair of
rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import islice
from math import prod

import numpy as np

from pefourier.construction.waves import recurrence
from pefourier.encodings.attention_decay import lag_sums
from pefourier.encodings.encoding import (
    FLOAT64_EPS,
    Encoding,
    Measure,
    axis_columns,
    axis_lines,
    products,
    row_blocks,
    steps_ahead,
    unit_of,
)
from pefourier.geometry import Progress
from pefourier.geometry.precision import (
    NUMBERS_AT_ONCE,
    first_duplicate,
    float_blocks,
    least_of_runs,
    phase_errors,
    stored_resolution,
)
from pefourier.geometry.singular_values import kernel_of_period
from pefourier.types import Bools, Counts, Floats, Indices, Table, frozen, frozen_arrays

TIE = 2e-9  # relative, of squared distances: one part in 10^9 of distances
FINE = 2e-10  # a later pair is recomputed only if it is closer by this share
BLOCK_ROWS = 2**11
SMALL_ROWS, MOST_BLOCKS = 2**8, 2**9  # of blocks that are tried first
FEW_NEAR = 1 / 16  # largest share of pairs of small blocks that may have near rows
MANY_PAIRS = 2**14  # more differences cost as much as a product in float64
CACHE_BYTES = 2**28
SAMPLE_ROWS = 2**10
FEW_COLUMNS = 8  # up to which rows are sorted by a column: most blocks then lie far apart


def closest_rows(table: Table, report: Progress) -> tuple[float, tuple[int, int]]:
    """Return distance and indices i < j of the closest two rows of a table without equal rows.

    Blocks of rows are compared from near to far, in float32; in float64 if that leaves too many
    pairs, as ties do. Rows are taken from the median of a sample of them, which would swamp their
    products, and are scaled by a power of two, which is exact and keeps squares of very small and
    very large numbers within the range of float32.
    """
    n, d = table.shape
    order = np.arange(n)
    if d <= FEW_COLUMNS:
        order = table[:, np.ptp(table, axis=0).argmax()].argsort(kind="stable")
    span = max(np.abs(rows - table[0]).max() for _, rows in float_blocks(table))
    scale = float(np.ldexp(1.0, min(-np.frexp(span)[1], 1000)))
    best = nearer(Nearest(place=n * n), table, scale, order[:-1], order[1:], np.zeros(n - 1))
    for size in (max(SMALL_ROWS, n // MOST_BLOCKS), BLOCK_ROWS):
        blocks = np.array_split(order, -(-n // size))
        first, second = np.triu_indices(len(blocks))
        near = box_distances(table, blocks, scale)[first, second] * (1 - FINE) <= best.limit
        if near.mean() <= FEW_NEAR:
            break
    first, second = first[near], second[near]
    centre = np.median(table[:: -(-n // SAMPLE_ROWS)].astype(float), axis=0)

    def centred(k: int, dtype: type[np.floating]) -> CentredRows:
        z = (table[blocks[k]].astype(float) - centre) * scale
        squares = np.einsum("ij,ij->i", z, z)
        rows = np.column_stack([z, squares / -2, np.ones(len(z))])
        return CentredRows(blocks[k], rows.astype(dtype), squares)

    load = lru_cache(max(2, CACHE_BYTES // (4 * size * d)))(centred)
    means = [load(k, np.float32).rows[:, :-2].mean(axis=0, dtype=float) for k in range(len(blocks))]
    apart = [((means[i] - means[j]) ** 2).sum() for i, j in zip(first, second, strict=True)]
    for done, k in enumerate(np.argsort(apart, kind="stable"), 1):
        i, j = first[k], second[k]
        for dtype, most in ((np.float32, MANY_PAIRS), (np.float64, BLOCK_ROWS**2)):
            a, b = facing_rows(load(i, dtype), load(j, dtype), means[j] - means[i], best.limit)
            pairs = near_pairs(a, b, best.limit)
            if len(pairs[0]) <= most:
                break
        best = nearer(best, table, scale, *pairs)
        report(done, len(first))
    pair = divmod(best.place, n)
    difference = (table[pair[0]].astype(float) - table[pair[1]]) * scale
    return float(np.hypot.reduce(difference) / scale), pair  # also if the square underflows


def box_distances(table: Table, blocks: Sequence[Indices], scale: float) -> Floats:
    """Return squared distances between the boxes of blocks of rows, at most those of their rows.

    >>> box_distances(np.array([[0.0], [1.0], [3.0]]), [np.arange(2), np.array([2])], 1.0)
    array([[0., 4.],
           [4., 0.]])
    """
    ends = [(table[rows].min(axis=0), table[rows].max(axis=0)) for rows in blocks]
    squares = np.zeros((len(blocks), len(blocks)))
    for low, high in scale * np.array(ends, dtype=float).transpose(2, 1, 0):
        gaps = np.maximum(low - high[:, None], low[:, None] - high)
        squares += np.maximum(gaps, 0.0) ** 2
    return squares


@frozen
class Nearest:
    """The first pair in lexicographic order that ties with the closest pair considered so far."""

    smallest: float = np.inf  # squared distance
    squared: float = np.inf  # squared distance of the pair
    place: int = 0  # number of the pair i, j in lexicographic order: n i + j

    @property
    def limit(self) -> float:
        """The squared distance up to which a pair ties with the closest."""
        return self.smallest * (1 + TIE)


def nearer(
    best: Nearest, table: Table, scale: float, i: Indices, j: Indices, lower: Floats
) -> Nearest:
    """Return the best of some pairs and of those before, by distances computed from differences.

    Lower bounds on squared distances rule out most pairs.
    """
    n, d = table.shape
    i, j = np.sort([i, j], axis=0)
    limits = np.where(n * i + j < best.place, best.limit, best.smallest * (1 - FINE))
    i, j = i[lower <= limits], j[lower <= limits]
    for block in row_blocks(len(i), NUMBERS_AT_ONCE, d):
        rows = difference(table, i[block], j[block]) * scale
        squared = np.append(np.einsum("ij,ij->i", rows, rows), best.squared)
        smallest = min(best.smallest, squared.min())
        places = np.append(n * i[block] + j[block], best.place)
        first = np.where(squared <= smallest * (1 + TIE), places, n * n).argmin()
        best = Nearest(smallest, squared[first], int(places[first]))
    return best


@frozen_arrays
class CentredRows:
    """Rows (z, -|z|²/2, 1) of vectors z minus a centre, rounded, and |z|² before rounding."""

    index: Indices
    rows: Table  # (b, d + 2)
    squares: Floats  # (b,)

    def where(self, keep: Bools) -> "CentredRows":
        """Return the rows to keep."""
        return CentredRows(self.index[keep], self.rows[keep], self.squares[keep])


def rounding_bound(block: CentredRows) -> Floats:
    """Return a bound on each row's contribution to the error of squared distances.

    Sums of k = d + 2 products err by at most k u / (1 - k u) times the sum of magnitudes, in any
    order (Higham, 2002, section 3.1), with u half the machine epsilon. Magnitudes sum to at most
    |z|² + |w|². The earlier rounding of z and w moves a squared distance by at most 16 u times
    this sum, and underflow by a few of the smallest numbers.
    """
    k, form = block.rows.shape[1], np.finfo(block.rows.dtype)
    bound: Floats = 1.01 * (2 * k + 16) * form.eps / 2 * block.squares
    bound += 4 * k * form.tiny
    return bound


def near_pairs(a: CentredRows, b: CentredRows, limit: float) -> tuple[Indices, Indices, Floats]:
    """Return the pairs i, j of a row in each of two blocks that may be within a squared distance.

    Each has a lower bound on its squared distance.
    """
    partner = np.hstack([b.rows[:, :-2], b.rows[:, :-3:-1]])  # (w, 1, -|w|²/2)
    minus_half = a.rows @ partner.T  # minus half the squared distances
    error_a, error_b = rounding_bound(a), rounding_bound(b)
    near = minus_half >= -(limit + error_a.max(initial=0.0) + error_b.max(initial=0.0)) / 2
    if np.array_equal(a.index, b.index):  # pairs i < j
        near = np.triu(near, 1)
    x, y = np.divmod(np.flatnonzero(near), max(len(b.index), 1))
    return a.index[x], b.index[y], -2 * minus_half[x, y] - error_a[x] - error_b[y]


def facing_rows(
    a: CentredRows, b: CentredRows, direction: Floats, limit: float
) -> tuple[CentredRows, CentredRows]:
    """Return the rows of each block that, along the line of means, may be near the other block."""
    unit = (direction / (np.linalg.norm(direction) or 1.0)).astype(np.float32)
    p, q = (block.rows[:, :-2] @ unit for block in (a, b))
    longest = np.sqrt(a.squares.max()) + np.sqrt(b.squares.max())
    error = 2 * (len(unit) + 8) * 2.0**-24 * longest + 1e-36
    reach = 1.00001 * np.sqrt(limit) + error
    return a.where(p >= q.min() - reach), b.where(q <= p.max() + reach)


SAMPLE = 2**9  # rows from which sizes and frequencies are measured
STILL = 1e-9  # of a grid's largest number: an axis that changes less has no effect
MANY = 8  # points that an axis needs to measure its size and period
APART = 10.0  # least ratio of the distance between groups to that within a group
CHANCE = 1e-2  # expected number of chance periods from which a period is rejected
TRIED = 4  # candidates for a period
CLOSE = 1e-13  # accuracy of one Fourier transform
DIRECTIONS = 4  # along which rows are sorted
STRIDES = 8  # most columns between a frequency and its double: two per axis, up to four axes
DOUBLED = 1e-2  # tolerance on the squares of columns that double a frequency
FIRST_COLUMNS = 8  # enough to distinguish most rows


def first_equal(table: Table, eps: float, *, in_order: bool = True) -> Indices:
    """Return the index of the first row that counts as equal to each row, shape (n,).

    Parameters
    ----------
    table : np.ndarray, shape (n, d)
        One vector per row.
    eps : float
        Resolution of the stored format.
    in_order : bool
        Whether rows are evenly spaced positions, which may have a period.

    Examples
    --------
    >>> hour = 2 * np.pi * np.arange(72) / 24
    >>> table = np.column_stack([np.sin(hour), np.cos(hour)])
    >>> len(np.unique(first_equal(table, FLOAT64_EPS)))
    24
    """
    first, n = first_duplicate(table), len(table)
    leading = first == np.arange(n)
    leaders = np.flatnonzero(leading)
    if n < 3 or len(leaders) == 1:
        return first
    sample = table[:SAMPLE].astype(float)
    eps, step = stored_resolution(sample, eps)
    start, blocks = table[0].astype(float), float_blocks(table)
    if all((np.abs(rows - start) <= 2 * eps * np.abs(start)).all() for _, rows in blocks):
        return np.zeros(n, dtype=first.dtype)
    size = spread(sample).max()
    tolerance = 4 * eps * size + step
    inner = between_zeros(table)
    if in_order and row_period(first[inner] - inner.start) is None:
        periodic = first_of_period(table[inner], eps, tolerance, size)
        if periodic is not None:
            first[inner] = first[inner][periodic]
            return first
    group = groups_within(table if len(leaders) == n else table[leaders], tolerance / 2)
    if (group == np.arange(len(group))).all():
        return first
    place = np.cumsum(leading) - 1  # index of a row among the leaders
    firsts: Indices = leaders[group][place[first]]
    return firsts


def first_on_grid(table: Table, eps: float, sides: Counts, *, in_order: bool) -> Indices:
    """Return `first_equal` for points of a grid, axis by axis if each column depends on one axis.

    >>> y = np.sin([[0.0, 1.0], [2.0, 3.0], [0.0, 1.0]])
    >>> first_on_grid(np.repeat(y, 2, axis=0), FLOAT64_EPS, (3, 2), in_order=True).tolist()
    [0, 0, 2, 2, 0, 0]
    """
    grid = table.reshape(*sides, -1)
    columns = axis_columns(grid) if len(sides) > 1 and in_order else None
    if columns is None:
        return first_equal(table, eps, in_order=in_order and len(sides) == 1)
    slack = max(STILL, 8 * eps) * np.abs(table).max()
    lines = (line[:, part] for line, part in zip(axis_lines(grid), columns, strict=True))
    first = [first_on_line(line, eps, slack) for line in lines]
    return np.ravel_multi_index(np.meshgrid(*first, indexing="ij"), sides).ravel()


def first_on_line(line: Table, eps: float, slack: float) -> Indices:
    """Return `first_equal` for the columns of one axis; differences up to `slack` are ignored."""
    if np.abs(line - line[:1]).max(initial=0.0) <= slack:
        return np.zeros(len(line), dtype=int)
    return first_equal(line, eps) if len(line) >= MANY else groups_within(line, slack)


def row_period(first: Indices) -> int | None:
    """Return the period with which rows repeat from the first on, or None.

    Equal rows within a period, such as those on both sides of a cosine's maximum, must repeat too.

    >>> row_period(np.array([0, 1, 1, 0, 1, 1, 0])), row_period(np.array([0, 1, 0, 3]))
    (3, None)
    """
    tried: list[int] = (np.flatnonzero(first[1:] == first[:1])[:SAMPLE] + 1).tolist()
    for p in (p for p in tried if p > 1):
        later, earlier = first[p:], first[:-p]
        again = (later[:SAMPLE] == earlier[:SAMPLE]).all() and (later == earlier).all()
        if again and (len(first) >= 2 * p or (first[:p] == np.arange(p)).all()):
            return p
    return None


def between_zeros(table: Table) -> slice:
    """Return the rows from the first to the last nonzero row: zeros outside them are padding.

    >>> between_zeros(np.array([[0.0], [1.0], [0.0], [2.0], [0.0]]))
    slice(1, 4, None)
    """
    nonzero = np.flatnonzero(table.any(axis=1)).tolist()
    return slice(nonzero[0], nonzero[-1] + 1) if nonzero else slice(0, 0)


def spread(rows: Floats) -> Floats:
    """Return the median distance of each column from its first number, robust to a few rows."""
    return np.asarray(np.median(np.abs(rows - rows[0]), axis=0))


def first_of_period(table: Table, eps: float, tolerance: float, size: float) -> Indices | None:
    """Return the first equal row of each row if the table repeats with a period, otherwise None.

    Phases may have been computed in float64 and cast, or in the format of the table. A period that
    arises by chance (`CHANCE`), as among many rows of two coarse columns, does not count.
    """
    n, sample = len(table), table[:SAMPLE].astype(float)
    omega, far = angular_steps(sample), spread(sample)
    for of_phases in dict.fromkeys((FLOAT64_EPS, eps)):

        def allowed(
            s: Indices, columns: slice = slice(None), of_phases: float = of_phases
        ) -> Floats:
            """Return the limits for rows s against earlier equal rows, (len(s), columns)."""
            return tolerance + size * phase_errors(s, omega[columns], of_phases)

        like_first = (s for _, rows in agreeing(table, 2, 1, allowed) for s in rows.tolist())
        for period in islice(like_first, TRIED):
            limits = allowed(np.array([period]))[0]
            share = limits / np.maximum(np.maximum(far, limits), 1e-300)
            by_chance = period * np.exp(np.log(np.maximum(share, 1e-300)).sum() / 2)
            again = agreeing(table, period, period, allowed)
            if by_chance < CHANCE and all(len(rows) == count for count, rows in again):
                first = groups_within(table[:period], limits.max())
                first = np.resize(first, n)
                if stand_apart(table, first):
                    return first
    return None


def angular_steps(rows: Floats) -> Floats:
    r"""Return the angular frequency of each column, radians per row, shape (d,).

    A single column cannot show more than :math:`\pi` per row, because of aliasing. If frequencies
    double from column to column, as NeRF's :math:`\sin 2^k\pi x`, they are doubled from the lowest:
    :math:`\cos^2 2\theta = (2\cos^2\theta - 1)^2` and
    :math:`\sin^2 2\theta = 1 - (1 - 2\sin^2\theta)^2`.

    >>> x = np.linspace(-1, 1, 9)[:, None] * np.pi * 2.0 ** np.arange(5)
    >>> (angular_steps(np.hstack([np.sin(x), np.cos(x)])) / np.pi).round(6)
    array([0.25, 0.5 , 1.  , 2.  , 4.  , 0.25, 0.5 , 1.  , 2.  , 4.  ])
    """
    omega, square = np.arccos(recurrence(rows, 1)[0]), np.minimum(rows**2, 2.0)  # <= 1 if sine
    twice = (2 * square - 1) ** 2
    for stride in range(1, min(STRIDES, rows.shape[1] - 1) + 1):
        doubled, later = twice[:, :-stride], square[:, stride:]
        distance = np.minimum(*(np.abs(q - later).max(axis=0) for q in (doubled, 1 - doubled)))
        depth = np.zeros(rows.shape[1])
        for j in np.flatnonzero(distance < DOUBLED):
            depth[stride + j] = depth[j] + 1
        if np.count_nonzero(depth) >= len(depth) - 2 * stride:
            root = np.arange(len(depth)) - (depth * stride).astype(int)
            omega = omega[root] * 2.0**depth
            break
    return omega


def agreeing(
    table: Table, start: int, period: int, allowed: Callable[..., Floats]
) -> Iterator[tuple[int, Indices]]:
    """Yield, in blocks, the number of rows and the rows s that agree with row s mod period.

    The first columns rule out most rows.
    """
    for part in row_blocks(len(table) - start, NUMBERS_AT_ONCE, table.shape[1]):
        rows = np.arange(start + part.start, start + part.stop)
        for columns in (slice(FIRST_COLUMNS), slice(FIRST_COLUMNS, None)):
            distance = np.abs(difference(table, rows, rows % period, columns))
            rows = rows[(distance <= allowed(rows, columns)).all(axis=1)]
        yield part.stop - part.start, rows


def difference(
    table: Table, rows: Indices, subtrahends: Indices, columns: slice = slice(None)
) -> Floats:
    """Subtract rows from others, in float64."""
    return table[rows, columns].astype(float) - table[subtrahends, columns]


def groups_within(table: Table, tolerance: float) -> Indices:
    """Return the first row of each row's group; without clear groups, each row is its own group.

    Rows of a group are close along any direction: sorted along a few directions, groups are runs
    without gaps.
    """
    n, d = table.shape
    index = np.arange(n)
    directions = np.random.default_rng(0).standard_normal((d, DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    unit = unit_of(table)
    places = np.concatenate([unit * rows @ directions for _, rows in float_blocks(table)])
    reach = np.sqrt(d) * (tolerance * unit + d * FLOAT64_EPS)
    candidates, label = index, np.zeros(n, dtype=int)
    for place in places.T[: DIRECTIONS if d > 1 else 1]:
        along = place[candidates]
        order = np.lexsort((along, label)) if label.any() else along.argsort()
        ranked, candidates = label[order], candidates[order]
        new = np.append(True, (np.diff(ranked) > 0) | (np.diff(along[order]) > reach))
        shared = ~new | ~np.append(new[1:], True)  # with a neighbouring row
        candidates, label = candidates[shared], np.cumsum(new)[shared]
        if not len(candidates):
            return index
    first = index.copy()
    first[candidates] = least_of_runs(candidates, np.diff(label, prepend=0) != 0)
    return first if stand_apart(table, first, tolerance) else index


def stand_apart(table: Table, first: Indices, tolerance: float = np.inf) -> bool:
    """Whether groups are much further apart than their rows, whose numbers agree to a tolerance."""
    is_first = first == np.arange(len(first))
    leaders, again = np.flatnonzero(is_first), np.flatnonzero(~is_first)
    widest = 0.0
    for part in row_blocks(len(again), NUMBERS_AT_ONCE, table.shape[1]):
        differences = difference(table, again[part], first[again[part]])
        if np.abs(differences).max() > tolerance:
            return False
        widest = max(widest, np.linalg.norm(differences, axis=1).max())
    if len(leaders) < 2:
        return False
    closest, _ = closest_rows(table[leaders], lambda *_: None)
    return closest > APART * widest


PHASES_AT_ONCE = 2**20


@frozen
class ClosestPair:
    """The closest two of n vectors and the number of distinct vectors.

    With one point, `pair` is None and `distance` is infinite.
    """

    distance: float
    pair: tuple[int, int] | None  # i < j, indices into the points
    distinct: int
    first: Indices | None = field(default=None, repr=False, compare=False)
    """Index of the first equal row of each row, (n,), if rows of a table repeat."""


def closest_pair(
    enc: Encoding, progress: Progress | None = None, *, measured: bool = True
) -> ClosestPair:
    r"""Find the closest two vectors, their distance, and the number of distinct vectors.

    With declared squared length c, frequencies :math:`\omega_j` and weights :math:`w_j`, vectors L
    positions apart have the squared distance

    .. math:: D^2(L) = 4 c \sum_j w_j \sin^2(\omega_j L / 2) .

    If :math:`L_0` is the smallest lag at which it is zero, :math:`\min(n, L_0)` vectors are
    distinct. If the measure has a period, zero is exact; otherwise zero means below the resolution
    of float64 phases, :math:`D(L) \le 2 \varepsilon L (c \sum_j w_j \omega_j^2)^{1/2}`.

    Parameters
    ----------
    enc : Encoding
        Vectors (n, d), from a declared measure or a table of any floating-point type.
    progress : callable, optional
        Called as ``progress(done, total)`` after each block of work.
    measured : bool
        Whether to search the distance of distinct rows of a table, which takes most of the time;
        otherwise it is NaN.

    Returns
    -------
    ClosestPair
        Equal vectors have distance zero, and so do rows of a table that only rounding separates
        (`first_equal`); -0.0 equals 0.0. Distances within one part in 10^9 are tied, and the first
        tied pair in lexicographic order is returned.

    Examples
    --------
    >>> from pefourier.encodings.encoding import from_table
    >>> closest_pair(from_table(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]])))
    ClosestPair(distance=1.0, pair=(1, 2), distinct=3)
    >>> closest_pair(from_table(np.array([[1.0], [0.0], [-0.0]])))
    ClosestPair(distance=0.0, pair=(1, 2), distinct=2)
    """
    report = progress or (lambda *_: None)
    n, sides = len(enc), enc.domain.sides
    if n == 1:
        return ClosestPair(np.inf, None, 1)
    if enc.is_stationary:
        lags, distance = closest_lags(enc.measure, sides)
        distinct = prod(sides) if distance else distinct_on_grid(lags, sides)
        return ClosestPair(distance, first_pair(lags, sides), distinct)
    table, in_order = enc.table(), enc.domain.kind == "position"
    sides = sides if prod(sides) == n else (n,)  # a class token is not on the grid
    first = first_on_grid(table, enc.eps, sides, in_order=in_order)
    repeats = np.flatnonzero(first != np.arange(n))
    if not len(repeats):
        distance, pair = closest_rows(table, report) if measured else (np.nan, None)
        return ClosestPair(distance, pair, n)
    i = first[repeats].min()
    return ClosestPair(0.0, (int(i), int(repeats[first[repeats] == i][0])), n - len(repeats), first)


def closest_lags(measure: Measure, sides: Counts) -> tuple[Indices, float]:
    """Return the lags (k, axes) of the smallest distance, up to ties, and that distance.

    Sums of cosines, each within an error, leave few lags; on a line, none beyond the first that
    ties without doubt.

    >>> rope = Measure(np.array([1.0, 0.1]), np.full(2, 0.5), squared_length=2.0)
    >>> closest_lags(rope, (100,))[0]
    array([[63]])
    """
    period, is_line = measure.period, len(sides) == 1
    lags = np.arange(1, sides[0])[:, None] if is_line else steps_ahead(sides)
    if period and is_line:
        lags, error = lags[:period], CLOSE
        sums = kernel_of_period(measure)[lags[:, 0] % period]
    else:
        omega = np.abs(measure.frequencies).reshape(len(measure), -1)
        error = 16 * FLOAT64_EPS * (1 + omega.max(axis=0) @ sides)
        sums = sums_of_cosines(measure, sides)[-len(lags) :]
    apart = 1 - sums
    least = apart.min()
    near = apart <= least * (1 + 2 * TIE) + error
    if is_line and least * TIE > 4 * error:
        near[(apart <= least * (1 + TIE / 2)).argmax() + 1 :] = False
    lags = lags[near]
    squared = np.concatenate(
        [
            squared_distances(measure, lags[rows, 0] if is_line else lags[rows])
            for rows in row_blocks(len(lags), PHASES_AT_ONCE, len(measure))
        ]
    )
    tied = squared <= squared.min() * (1 + TIE)
    return lags[tied], float(np.sqrt(squared[tied][0]))


def sums_of_cosines(measure: Measure, sides: Counts) -> Floats:
    """Return weighted sums of cosines at all displacements of a grid, or at lags from 0 on."""
    if len(sides) == 1:
        blocks = lag_sums(measure.frequencies, *sides, measure.weights)
        return np.concatenate([sums for _, sums in blocks])
    total = np.zeros(())
    for part in row_blocks(len(measure), PHASES_AT_ONCE, prod(2 * n for n in sides[:-1])):
        axes = zip(measure.frequencies[part].T, sides, strict=True)
        *waves, last = (np.exp(1j * np.outer(omega, np.arange(1 - n, n))) for omega, n in axes)
        before = measure.weights[part, None]
        for wave in waves:
            before = (before[:, :, None] * wave[:, None, :]).reshape(len(wave), -1)
        total = total + (before.T @ last).real
    return total.ravel()


def squared_distances(measure: Measure, lags: Indices) -> Floats:
    """Return squared distances of vectors `lags` apart; 0 if float64 does not resolve them from it.

    A frequency is known to one unit in the last place, its product with the lag to half a unit.
    The phase errs by less than 2 eps omega lag, and the vectors, to first order, by the amplitude
    times this error. No error exceeds twice the amplitude.
    """
    sines = np.sin(measure.angles(lags) / 2)
    squared: Floats = 4 * measure.squared_length * (sines * sines @ measure.weights)
    if not measure.period:
        omega = np.minimum(np.abs(measure.frequencies), 1 / FLOAT64_EPS)
        errors = np.minimum(2 * FLOAT64_EPS * products(np.abs(lags), omega), 2.0)
        squared[squared <= measure.squared_length * (errors**2 @ measure.weights)] = 0.0
    return squared


def first_pair(lags: Indices, sides: Counts) -> tuple[int, int]:
    """Return the indices of the first two raster points that differ by one of the displacements."""
    low = np.maximum(-lags, 0)
    ends = (np.ravel_multi_index(tuple(corner.T), sides) for corner in (low, low + lags))
    return min(zip(*(end.tolist() for end in ends), strict=True))


def distinct_on_grid(zeros: Indices, sides: Counts) -> int:
    """Count the distinct vectors if points that differ by some displacements have equal vectors."""
    again = np.zeros(sides, dtype=bool)
    for lag in zeros:
        again[tuple(slice(max(k, 0), n + min(k, 0)) for k, n in zip(lag, sides, strict=True))] = 1
    return prod(sides) - int(again.sum())

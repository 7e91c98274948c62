r"""Which rows of a table are one code? Equal to the bit, or apart by rounding alone.

Conventions
-----------
Rounding is that of the numbers as they are stored, and of the phases that they were computed from,
which grows with the position. It makes rows one only where that is beyond doubt: the rows fall
apart into groups, those of a group within rounding and all others ten times further apart than any
two of a group. Rows that come ever closer, as those of a slow wave in 16 bits, stay what they are.
A period is looked for before anything else, since it alone tells the rounding of phases from a
distance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from pefourier.encodings.encoding import FLOAT64_EPS, row_blocks, unit_of
from pefourier.geometry.closest_rows import closest_rows
from pefourier.geometry.duplicates import NUMBERS_AT_ONCE, first_duplicate
from pefourier.geometry.precision import phase_errors, stored_resolution
from pefourier.geometry.waves import recurrence

SAMPLE = 2**9  # rows from which sizes and frequencies are read
APART = 10.0  # times further than those of a group are rows of two groups
CHANCE = 1e-2  # expected periods by chance from which on a period is none
TRIED = 4  # candidates for a period
DIRECTIONS = 4  # along which rows are sorted
STRIDES = 8  # columns from one to that of twice its frequency: two of each axis, up to four axes
DOUBLED = 1e-2  # to which the squares of columns agree that do
FIRST_COLUMNS = 8  # by which most rows are told apart


def first_alike(table: np.ndarray, eps: float, in_order: bool = True) -> np.ndarray:
    """Index of the first row that is the same code as each row, shape (n,).

    Parameters
    ----------
    table : np.ndarray, shape (n, d)
        Codes, one a row.
    eps : float
        Resolution of the format in which they are stored.
    in_order : bool
        Whether rows are steps of equal size, so that they may have a period.

    Examples
    --------
    >>> hour = 2 * np.pi * np.arange(72) / 24
    >>> table = np.column_stack([np.sin(hour), np.cos(hour)])
    >>> len(np.unique(first_alike(table, FLOAT64_EPS)))
    24
    """
    first, n = first_duplicate(table), len(table)
    leading = first == np.arange(n)
    leaders = np.flatnonzero(leading)
    if n < 3 or len(leaders) == 1:
        return first
    sample = np.asarray(table[:SAMPLE], dtype=float)
    eps, step = stored_resolution(sample, eps)
    if nearly_constant(table, eps):
        return np.zeros(n, dtype=first.dtype)
    size = float(spread(sample).max())
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
    place = np.cumsum(leading) - 1  # of a leader among them
    return leaders[group][place[first]]


def row_period(first: np.ndarray) -> int | None:
    """The period with which rows repeat from the first on, or None.

    Rows that are alike within it, such as those of a cosine on both sides of its top, must come
    again with it.

    >>> row_period(np.array([0, 1, 1, 0, 1, 1, 0])), row_period(np.array([0, 1, 0, 3]))
    (3, None)
    """
    tried = np.flatnonzero(first[1:] == first[:1])[:SAMPLE] + 1
    for p in tried[tried > 1].tolist():
        later, earlier = first[p:], first[:-p]
        again = (later[:SAMPLE] == earlier[:SAMPLE]).all() and (later == earlier).all()
        if again and (len(first) >= 2 * p or (first[:p] == np.arange(p)).all()):
            return p
    return None


def between_zeros(table: np.ndarray) -> slice:
    """The rows from the first to the last that is not zero: zeros before and behind are padding.

    >>> between_zeros(np.array([[0.0], [1.0], [0.0], [2.0], [0.0]]))
    slice(1, 4, None)
    """
    n = len(table)
    start = next((s for s in range(n) if table[s].any()), n)
    stop = next((s for s in range(n, start, -1) if table[s - 1].any()), start)
    return slice(start, stop)


def spread(rows: np.ndarray) -> np.ndarray:
    """How far each column goes from where it starts, whatever a few rows do: a median."""
    return np.median(np.abs(rows - rows[0]), axis=0)


def nearly_constant(table: np.ndarray, eps: float) -> bool:
    """Whether each column is one number, rounded differently."""
    start = np.asarray(table[0], dtype=float)
    rows = row_blocks(len(table), NUMBERS_AT_ONCE, table.shape[1])
    return all((np.abs(table[part] - start) <= 2 * eps * np.abs(start)).all() for part in rows)


def first_of_period(
    table: np.ndarray, eps: float, tolerance: float, size: float
) -> np.ndarray | None:
    """The first row alike of each row of a table that repeats with a period; None: it does not.

    Phases may have been computed in float64 and cast, or in the format of the table. A period that
    `CHANCE` would bring about, as among many rows of two coarse columns, is none.
    """
    n, sample = len(table), np.asarray(table[:SAMPLE], dtype=float)
    omega, far = angular_steps(sample), np.maximum(spread(sample), 1e-300)
    for of_phases in dict.fromkeys((FLOAT64_EPS, eps)):
        slack = Slack(tolerance, size, omega, of_phases)
        like_first = (s for _, agree in slack.agreeing(table, 2, 1) for s in agree.tolist())
        for period in islice(like_first, TRIED):
            allowed = slack.allowed(np.array([period]))[0]
            by_chance = period * np.exp(np.log(np.clip(allowed / far, 1e-300, 1.0)).sum() / 2)
            again = slack.agreeing(table, period, period)
            if by_chance < CHANCE and all(len(agree) == count for count, agree in again):
                first = groups_within(table[:period], float(allowed.max()))[np.arange(n) % period]
                if stand_apart(table, first):
                    return first
    return None


def angular_steps(rows: np.ndarray) -> np.ndarray:
    r"""Radians a row by which each column turns, shape (d,).

    More than :math:`\pi` a row looks like less, and can't be read from one column. Of columns that
    double from one to the next, as NeRF's :math:`\sin 2^k\pi x`, it is the doubled step:
    :math:`\cos^2 2\theta = (2\cos^2\theta - 1)^2` and
    :math:`\sin^2 2\theta = 1 - (1 - 2\sin^2\theta)^2`.

    >>> x = np.linspace(-1, 1, 9)[:, None] * np.pi * 2.0 ** np.arange(5)
    >>> (angular_steps(np.hstack([np.sin(x), np.cos(x)])) / np.pi).round(6)
    array([0.25, 0.5 , 1.  , 2.  , 4.  , 0.25, 0.5 , 1.  , 2.  , 4.  ])
    """
    omega, square = np.arccos(recurrence(rows, 1)[0]), np.minimum(rows**2, 2.0)  # of waves: 1
    twice = (2 * square - 1) ** 2
    for stride in range(1, min(STRIDES, rows.shape[1] - 1) + 1):
        doubled, later = twice[:, :-stride], square[:, stride:]
        distance = np.minimum(*(np.abs(q - later).max(axis=0) for q in (doubled, 1 - doubled)))
        depth = np.zeros(rows.shape[1])
        for j in np.flatnonzero(distance < DOUBLED):
            depth[stride + j] = depth[j] + 1
        if np.count_nonzero(depth) >= len(depth) - 2 * stride:
            root = np.arange(len(depth)) - (depth * stride).astype(int)
            return omega[root] * 2.0**depth
    return omega


@dataclass(frozen=True, eq=False)
class Slack:
    """How far the numbers of two rows may be apart by rounding: of them, and of their phases."""

    tolerance: float
    size: float  # of the waves
    omega: np.ndarray  # (d,) radians a row
    eps: float  # in which phases were computed

    def allowed(self, s: np.ndarray, columns: slice = slice(None)) -> np.ndarray:
        """Of rows s from the first row that is alike, (len(s), columns)."""
        return self.tolerance + self.size * phase_errors(s, self.omega[columns], self.eps)

    def agreeing(
        self, table: np.ndarray, start: int, period: int
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Rows s from a start on that agree with row s mod period, and among how many, in blocks.

        A few columns tell most of them apart.
        """
        for part in row_blocks(len(table) - start, NUMBERS_AT_ONCE, table.shape[1]):
            candidates = np.arange(start + part.start, start + part.stop)
            for columns in (slice(FIRST_COLUMNS), slice(FIRST_COLUMNS, None)):
                distance = np.abs(difference(table, candidates, candidates % period, columns))
                candidates = candidates[(distance <= self.allowed(candidates, columns)).all(axis=1)]
            yield part.stop - part.start, candidates


def difference(
    table: np.ndarray, rows: np.ndarray, subtrahends: np.ndarray, columns: slice = slice(None)
) -> np.ndarray:
    """Rows less others, in float64."""
    return np.asarray(table[rows, columns], dtype=float) - table[subtrahends, columns]


def groups_within(table: np.ndarray, tolerance: float) -> np.ndarray:
    """Index of the first row of each row's group; each its own where rows fall into no groups.

    Rows of a group lie close along any direction: sorted along a few, groups are runs without gap.
    """
    n, d = table.shape
    index = np.arange(n)
    directions = np.random.default_rng(0).standard_normal((d, DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    unit = unit_of(table)
    blocks = row_blocks(n, NUMBERS_AT_ONCE, d)
    places = np.concatenate(
        [unit * np.asarray(table[rows], dtype=float) @ directions for rows in blocks]
    )
    reach = np.sqrt(d) * (tolerance * unit + d * FLOAT64_EPS)
    candidates, label = index, np.zeros(n, dtype=int)
    for place in places.T[: DIRECTIONS if d > 1 else 1]:
        along = place[candidates]
        order = np.lexsort((along, label)) if label.any() else along.argsort()
        ranked, candidates = label[order], candidates[order]
        new = np.append(True, (np.diff(ranked) > 0) | (np.diff(along[order]) > reach))
        shared = ~new | ~np.append(new[1:], True)  # with a row before or behind
        candidates, label = candidates[shared], np.cumsum(new)[shared]
        if not len(candidates):
            return index
    starts = np.flatnonzero(np.diff(label, prepend=0))
    first = index.copy()
    first[candidates] = np.repeat(
        np.minimum.reduceat(candidates, starts), np.diff(starts, append=len(candidates))
    )
    again = np.flatnonzero(first != index)
    for part in row_blocks(len(again), NUMBERS_AT_ONCE, d):
        if np.abs(difference(table, again[part], first[again[part]])).max() > tolerance:
            return index
    return first if stand_apart(table, first) else index


def stand_apart(table: np.ndarray, first: np.ndarray) -> bool:
    """Whether rows that are not alike are further apart than those that are, by far."""
    is_first = first == np.arange(len(first))
    leaders, again = np.flatnonzero(is_first), np.flatnonzero(~is_first)
    widest = 0.0
    for part in row_blocks(len(again), NUMBERS_AT_ONCE, table.shape[1]):
        differences = difference(table, again[part], first[again[part]])
        widest = max(widest, float(np.linalg.norm(differences, axis=1).max()))
    if len(leaders) < 2:
        return False
    closest, _ = closest_rows(table[leaders], lambda done, total: None)
    return closest > APART * widest

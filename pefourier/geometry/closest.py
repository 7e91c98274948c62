"""Which two codes are closest, and how many codes are distinct? Exactly, at any length.

Conventions
-----------
Distances are Euclidean, between rows of the table. Where an encoding declares its inner products
(`Encoding.stationary`), distances depend on the lag alone, and lags are searched in place of pairs;
any other table is searched by `closest_rows`. Distances that agree to one part in 10^9 count as
tied, and of tied pairs the first in lexicographic order is named: otherwise rounding alone would
pick one of the n - 1 equal neighbours of a shift-invariant table. On a grid lags are displacements,
vectors of its axes.
"""

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from pefourier.encodings.domain import steps_ahead
from pefourier.encodings.encoding import FLOAT64_EPS, Encoding, Measure, row_blocks
from pefourier.geometry import Progress
from pefourier.geometry.closest_rows import TIE, closest_rows
from pefourier.geometry.equal_rows import first_alike

LAGS_AT_ONCE = 2**12
FREQUENCIES_AT_ONCE = 8  # by the first of which most lags are ruled out
PHASES_AT_ONCE = 2**20
MOST_PARTS = 64


@dataclass(frozen=True)
class ClosestPair:
    """The closest two of n codes and the number of distinct codes.

    With one point there is no pair: `pair` is None, and `distance` is infinite.
    """

    distance: float
    pair: tuple[int, int] | None  # i < j, indices into the points
    distinct: int
    first: np.ndarray | None = field(default=None, repr=False, compare=False)
    """Of rows of a table that repeat: index of the first row alike of each, (n,)."""


def closest_pair(enc: Encoding, progress: Progress | None = None) -> ClosestPair:
    r"""The smallest distance between two codes, the pair that has it, and the distinct codes.

    With squared length c, frequencies :math:`\omega_j` and weights :math:`w_j` declared, codes L
    positions apart are at the squared distance

    .. math:: D^2(L) = 4 c \sum_j w_j \sin^2(\omega_j L / 2) ,

    and with :math:`L_0` the smallest lag at which it is zero there are :math:`\min(n, L_0)` codes.
    Where the measure has a period, zero is exact; elsewhere it is whatever phases in float64 cannot
    tell from zero, :math:`D(L) \le 2 \varepsilon L (c \sum_j w_j \omega_j^2)^{1/2}`.

    Parameters
    ----------
    enc : Encoding
        Codes of shape (n, d), from a declared measure or a table of any floating-point type.
    progress : callable, optional
        Called as ``progress(done, total)`` after each block of work.

    Returns
    -------
    ClosestPair
        Equal codes are at distance zero, codes of a table also where rounding alone tells them
        apart (`equal_rows`); -0.0 equals 0.0. Distances within one part in 10^9 are tied, and the
        lexicographically first of tied pairs is named.

    Examples
    --------
    >>> from pefourier.encodings.encoding import from_table
    >>> closest_pair(from_table(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]])))
    ClosestPair(distance=1.0, pair=(1, 2), distinct=3)
    >>> closest_pair(from_table(np.array([[1.0], [0.0], [-0.0]])))
    ClosestPair(distance=0.0, pair=(1, 2), distinct=2)
    """
    report = progress or (lambda done, total: None)
    n, sides = len(enc), enc.domain.sides
    if n == 1:
        return ClosestPair(np.inf, None, 1)
    if enc.stationary and len(sides) > 1:
        ahead = steps_ahead(sides)
        tied, distance = closest_lags(enc.measure, ahead, 2 * sides[-1], report)
        distinct = prod(sides) if distance else distinct_on_grid(tied, sides)
        return ClosestPair(distance, first_pair(tied, sides), distinct)
    if enc.stationary:
        lags = np.arange(1, min(n - 1, enc.measure.period or n - 1) + 1)
        tied, distance = closest_lags(by_weight(enc.measure), lags, 2, report)
        lag = int(tied[0])
        return ClosestPair(distance, (0, lag), n if distance else lag)
    table, in_order = enc.table(), enc.domain.kind == "position" and len(sides) == 1
    return search_rows(table, report, first_alike(table, enc.eps, in_order))


def by_weight(measure: Measure) -> Measure:
    """The same waves, the strongest first."""
    order = np.lexsort((-measure.frequencies, -measure.weights))
    return replace(measure, frequencies=measure.frequencies[order], weights=measure.weights[order])


def closest_lags(
    measure: Measure, lags: np.ndarray, first: int, report: Progress
) -> tuple[np.ndarray, float]:
    """The lags (k,) or (k, axes) of the smallest distance, up to ties, and that of their first.

    So many of the `first` lags make the bound that others have to come under. Where distances
    are zero, some lags of the line are enough.
    """
    best = squared_distances(measure, lags[:first]).min()
    blocks, candidates = row_blocks(len(lags), LAGS_AT_ONCE), []
    for done, block in enumerate(blocks, 1):
        promising, squared = promising_lags(measure, lags[block], best)
        squared[squared <= largest_zero(measure, promising)] = 0.0
        best = squared.min(initial=best)
        candidates.append((promising, squared))
        if best == 0 and lags.ndim == 1:
            break
        report(done, len(blocks))
    lags, squared = (np.concatenate(parts) for parts in zip(*candidates, strict=True))
    tied = squared <= best * (1 + TIE)
    return lags[tied], float(np.sqrt(squared[tied][0]))


def squared_distances(
    measure: Measure, lags: np.ndarray, columns: slice = slice(None)
) -> np.ndarray:
    """Squared distance of codes `lags` apart, or the part that some of the frequencies give."""
    sines = np.sin(measure.angles(lags, columns) / 2)
    return 4 * measure.squared_length * (sines * sines @ measure.weights[columns])


def largest_zero(measure: Measure, lags: np.ndarray) -> np.ndarray:
    """Largest squared distance that phases in float64 cannot tell from zero at each lag.

    A frequency is known to one unit in the last place and its product with the lag to a half: the
    phase errs by less than 2 eps omega lag, and to first order the codes by that times amplitude;
    by more than twice the amplitude no code can err.
    """
    if measure.period is not None:
        return np.zeros(len(lags))
    m = len(measure.weights)
    omega = np.minimum(np.abs(measure.frequencies), 1 / FLOAT64_EPS).reshape(m, -1)
    steps = 2 * FLOAT64_EPS * np.abs(lags).reshape(-1, omega.shape[1])
    if steps.max(initial=0.0) * omega.max() * omega.shape[1] <= 1:
        speeds = (omega.T * measure.weights) @ omega
        return measure.squared_length * np.einsum("ia,ab,ib->i", steps, speeds, steps)
    squared = np.zeros(len(lags))  # phases of few digits, or none
    for columns in row_blocks(m, PHASES_AT_ONCE, len(lags)):
        squared += np.minimum(steps @ omega[columns].T, 2.0) ** 2 @ measure.weights[columns]
    return measure.squared_length * squared


def promising_lags(
    measure: Measure, lags: np.ndarray, best: float
) -> tuple[np.ndarray, np.ndarray]:
    """The lags whose squared distance may be the smallest, and these squared distances.

    Every frequency adds to the sum: a lag is out once some of them exceed the best so far.
    """
    zero, m = largest_zero(measure, lags), len(measure.weights)
    squared = np.zeros(len(lags))
    wide = min(m // MOST_PARTS, PHASES_AT_ONCE // len(lags))  # of a long sum few parts are made
    for columns in row_blocks(m, max(FREQUENCIES_AT_ONCE, wide)):
        squared += squared_distances(measure, lags, columns)
        if columns.start == 0:
            promising = lags[[squared.argmin()]]
            best = min(best, squared_distances(measure, promising)[0])
        keep = squared <= np.maximum(best * (1 + TIE), zero)
        lags, squared, zero = lags[keep], squared[keep], zero[keep]
    return lags, squared


def first_pair(lags: np.ndarray, sides: tuple[int, ...]) -> tuple[int, int]:
    """The first two points of a raster, by their indices, that some displacement leads between."""
    low = np.maximum(-lags, 0)
    ends = (np.ravel_multi_index(tuple(corner.T), sides) for corner in (low, low + lags))
    return min(zip(*(end.tolist() for end in ends), strict=True))


def distinct_on_grid(zeros: np.ndarray, sides: tuple[int, ...]) -> int:
    """How many codes are left where those that some displacements lead between are equal."""
    again = np.zeros(sides, dtype=bool)
    for lag in zeros:
        again[tuple(slice(max(k, 0), n + min(k, 0)) for k, n in zip(lag, sides, strict=True))] = 1
    return prod(sides) - int(again.sum())


def search_rows(table: np.ndarray, report: Progress, first: np.ndarray) -> ClosestPair:
    """The closest two rows of a table, of which the first alike of each row is known."""
    n = len(table)
    repeats = np.flatnonzero(first != np.arange(n))
    if len(repeats):
        i = first[repeats].min()
        j = repeats[first[repeats] == i][0]
        return ClosestPair(0.0, (int(i), int(j)), n - len(repeats), first)
    distance, pair = closest_rows(table, report)
    return ClosestPair(distance, pair, n)

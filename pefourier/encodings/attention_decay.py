r"""Attention lost when software reads the frequencies of a rotation differently from its model.

Conventions
-----------
At position p, pair i of a head is rotated by the angle :math:`p\,\omega_i`; :math:`\omega_i` is in
radians per position. Both readings give vectors of the same norm. The cosine between them at p is
the mean over pairs of :math:`\cos p(\omega_i - \omega'_i)`. Every position is searched.
"""

from collections.abc import Iterator, Sequence
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import row_blocks
from pefourier.types import Floats, Places

FARTHEST = 2**20  # lags and positions that are searched
STEP = 2**7  # lags in each row of a matrix product
FIRST_STARTS, STARTS = 2**4, 2**11  # rows of the first product, which often suffices; most rows
PAIRS = 2**10  # pairs in memory at a time
LEVELS = (0.99, 0.9, 0.5)


def lag_sums(
    frequencies: Floats, farthest: int = FARTHEST, weights: Floats | None = None
) -> Iterator[tuple[int, Floats]]:
    r"""Yield blocks of :math:`\sum_i w_i \cos m\omega_i` with their first lag m below `farthest`.

    Weights are 1 by default.

    By the addition theorem, a block is a product of two small matrices. A million lags of 64 pairs
    take a tenth of a second.

    >>> first, sums = next(lag_sums(np.array([1.0, 0.01]), 3))
    >>> sums.round(4)
    array([2.    , 1.5403, 0.5837])
    """
    weights = np.ones(len(frequencies)) if weights is None else weights
    first, count = 0, STEP * FIRST_STARTS
    while first < farthest:
        rows = -(-(min(first + count, farthest) - first) // STEP)
        sums = np.zeros(rows * STEP)
        for pairs in row_blocks(len(frequencies), PAIRS):
            part = frequencies[pairs]
            inner, outer = powers_of_waves(STEP, part), powers_of_waves(rows, STEP * part)
            outer = outer * (weights[pairs] * np.exp(1j * first * part))
            sums += (outer.real @ inner.real.T - outer.imag @ inner.imag.T).ravel()
        yield first, sums[: farthest - first]
        first, count = first + count, min(2 * count, STEP * STARTS)


def powers_of_waves(count: int, frequencies: Floats) -> NDArray[np.complex128]:
    r"""Return :math:`e^{i k \omega}` for k below `count`, shape (count, pairs).

    Products of about 2 sqrt(count) exponentials cost less than computing each exponential.

    >>> powers_of_waves(7, np.array([0.5]))[6].round(9) == np.exp(3j).round(9)
    array([ True])
    """
    run = isqrt(count - 1) + 1
    fine, coarse = (
        np.exp(1j * np.multiply.outer(np.arange(0, end, step), frequencies))
        for end, step in ((run, 1), (count, run))
    )
    return np.reshape(coarse[:, None] * fine, (-1, len(frequencies)))[:count]


def firsts_below(
    frequencies: Floats, levels: Sequence[float], farthest: int = FARTHEST
) -> list[int | None]:
    """Return the first lag at which the sum of cosines is below each level, or None."""
    firsts: list[int | None] = [None] * len(levels)
    for first, sums in lag_sums(frequencies, farthest):
        for i in (i for i, lag in enumerate(firsts) if lag is None):
            below = np.flatnonzero(sums < levels[i])
            firsts[i] = first + int(below[0]) if len(below) else None
        if None not in firsts:
            break
    return firsts


def reading_cosine(frequencies: Floats, second: Floats, positions: Floats | Places) -> Floats:
    r"""Cosine between the vectors of two readings of a rotation.

    This is the mean over pairs of :math:`\cos p(w_i - w'_i)`; it is 1 where both readings rotate by
    the same angles.

    >>> one, two = 5e5 ** (-np.arange(64) / 64), 1e4 ** (-np.arange(64) / 64)
    >>> reading_cosine(one, two, np.array([128, 1024])).round(3)
    array([0.386, 0.25 ])
    """
    differences = readings_apart(frequencies, second)
    phases = np.multiply.outer(np.asarray(positions, dtype=float), differences)
    return np.asarray(np.cos(phases).mean(axis=1))


def readings_apart(frequencies: Floats, second: Floats) -> Floats:
    """Differences of two readings' frequencies, over the pairs that both rotate.

    If the shared frequencies are equal and one reading rotates more pairs, the other reading has
    frequency 0 for the additional pairs.
    """
    shared = min(len(frequencies), len(second))
    if shared and not np.array_equal(frequencies[:shared], second[:shared]):
        return frequencies[:shared] - second[:shared]
    pairs = max(len(frequencies), len(second))
    a, b = (np.pad(w, (0, pairs - len(w))) for w in (frequencies, second))
    return a - b


def positions_below(
    frequencies: Floats, second: Floats, farthest: int = FARTHEST
) -> dict[str, int | None]:
    """First positions at which `reading_cosine` falls below 0.99, 0.9 and 0.5; None: never.

    >>> one, two = 5e5 ** (-np.arange(64) / 64), 1e4 ** (-np.arange(64) / 64)
    >>> positions_below(one, two)
    {'.99': 3, '.9': 9, '.5': 27}
    """
    return levels_below(readings_apart(frequencies, second), farthest)


def levels_below(differences: Floats, farthest: int = FARTHEST) -> dict[str, int | None]:
    """First position at which the mean of cos(p · differences) is below each level."""
    firsts = firsts_below(differences, [level * len(differences) for level in LEVELS], farthest)
    return {f"{level:g}"[1:]: first for level, first in zip(LEVELS, firsts, strict=True)}


def layouts_apart(frequencies: Floats, second: Floats) -> Floats:
    """Differences of the columns' frequencies between the layouts halves and interleaved.

    Column j rotates with pair j mod m in halves, and with pair j // 2 in interleaved. `second` are
    the frequencies of the interleaved layout.
    """
    pairs = len(frequencies)
    padded = np.pad(second, (0, max(pairs - len(second), 0)))[:pairs]
    return np.tile(frequencies, 2) - np.repeat(padded, 2)

r"""Bases whose sum of cosines is never negative below a length.

Conventions
-----------
A base :math:`\rho` passes for `d` dimensions and a length if :math:`B(m) = \sum_i \cos m
\rho^{-2i/d} \ge 0` at every lag m below the length (Men et al., 2024). The bases that pass do not
form an interval: larger bases may fail again.

The smallest passing base with seven digits is found by bisection. Around a base that fails at a
lag, B(m) stays negative between two nearby bases at which it is below minus :math:`h^2 M / 8`. Here
h is their distance and M a bound on the second derivative, both in log base; all bases between are
excluded. Lags are searched in blocks. The sum over pairs that hardly rotate within a block is
nearly constant there. If that sum exceeds the number of the other pairs, no lag of the block fails.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, floor, log, pi

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.attention_decay import powers_of_waves
from pefourier.encodings.encoding import Floats, row_blocks

LARGEST_BASE = 1e300  # beyond this base, the smallest frequency is subnormal in float64
PER_DECADE, GRID_DIGITS = 400, 4  # grid of the bases tried above the smallest
FEWEST_DIGITS = 7  # digits of a printed base, at least
IN_DECADE: int = 9 * 10 ** (FEWEST_DIGITS - 1)  # bases with this many digits in a decade
MARGIN = 10  # all bases tried up to this multiple must pass
BLOCK, BLOCKS_IN_ROW = 2**5, 2**7  # lags of a block
FIRST_BLOCKS, BLOCKS_AT_ONCE = 2**6, 2**12  # searched first, and at a time
LIKELY_DIP = 3  # standard deviations of the sum over fast pairs, used to rank blocks
LAGS_KEPT = 8  # failing lags kept to exclude neighbouring bases
CELLS, WIDEST = 16, 0.25  # on each side of a base, and the widest span in log base
CURVATURE = 1.0  # largest change by curvature over a cell
COARSE, ROUNDING = 0.1, 1e-4  # a depth that float32 resolves, and a bound on its error


@dataclass(frozen=True)
class BoundedBases:
    """Bases that pass for a length."""

    smallest: float | None  # with seven digits; None if none up to `LARGEST_BASE`
    steady: float | None  # smallest base from which all tried up to ten times it pass
    tried: int  # number of bases tried in that decade
    failing: float | None  # smallest base tried between the two that fails


@cache
def bounded_bases(d: int, length: int) -> BoundedBases:
    """Find the smallest base that passes, and the smallest from which a whole decade passes.

    >>> bounded_bases(128, 1024).steady
    6026.0
    """
    smallest = smallest_bounded_base(d, length)
    passing: list[float] = []
    failing: float | None = None
    base = smallest
    while base is not None and base <= LARGEST_BASE:
        if not passes(base, d, length):
            passing, failing = [], failing or base
        else:
            passing.append(base)
            if base >= MARGIN * passing[0]:
                return BoundedBases(smallest, passing[0], len(passing), failing)
        base = next_base(base)
    return BoundedBases(smallest, None, 0, None)


def next_base(base: float) -> float:
    """Return the next larger base of the geometric grid.

    >>> next_base(1000.0), next_base(1006.0)
    (1006.0, 1012.0)
    """
    index = int(np.log10(base) * PER_DECADE)
    points = (10 ** ((index + i) / PER_DECADE) for i in range(4))
    return next(p for p in (float(f"{p:.{GRID_DIGITS}g}") for p in points) if p > base)


def smallest_bounded_base(d: int, length: int) -> float | None:
    """Smallest base with seven digits that passes; None if none up to `LARGEST_BASE`.

    >>> smallest_bounded_base(128, 1024), smallest_bounded_base(6, 80)
    (4293.438, 105031.3)
    """
    found = first_passing(1, round(log(LARGEST_BASE, 10)) * IN_DECADE, d, length)
    return None if found is None else base_at(found)


def first_passing(low: int, high: int, d: int, length: int) -> int | None:
    """Index of the first base that passes, from index `low` to below `high`."""
    if low >= high:
        return None
    middle = (low + high) // 2
    lags = negative_lags(base_at(middle) ** exponents_of(d), length)
    if not len(lags):
        before = first_passing(low, middle, d, length)
        return middle if before is None else before
    first, last = failing_range(middle, lags, d)
    before = first_passing(low, first, d, length)
    return first_passing(last + 1, high, d, length) if before is None else before


def base_at(index: int) -> float:
    """Return the base with seven digits at an index; index 0 is base 1.

    >>> base_at(1), base_at(4 * IN_DECADE)
    (1.000001, 10000.0)
    """
    decade, step = divmod(index, IN_DECADE)
    return float(f"{IN_DECADE // 9 + step}e{decade - FEWEST_DIGITS + 1}")


def index_of(log_base: float, whole: Callable[[float], int]) -> int:
    """Index of the neighbouring base with seven digits, on the side to which `whole` rounds.

    >>> index_of(np.log(2.5), floor), index_of(np.log(2.0000005), ceil)
    (1500000, 1000001)
    """
    decade = floor(log_base / log(10))
    size = IN_DECADE // 9
    return decade * IN_DECADE + whole(exp(log_base - decade * log(10)) * size) - size


def failing_range(index: int, lags: Floats, d: int) -> tuple[int, int]:
    """First and last index of the bases around a failing base that are proved to fail too.

    The base fails at `lags`. Cells on both sides of it are tested: a cell is excluded if the sum at
    one of these lags is negative in the whole cell.
    """
    base, exponents = base_at(index), exponents_of(d)
    depth = -np.cos(np.multiply.outer(lags, base**exponents)).sum(axis=1).min()
    largest = (base * exp(-WIDEST)) ** exponents
    curvature = np.square(np.multiply.outer(lags, exponents * largest)).sum(axis=1)
    curvature += lags * (exponents**2 @ largest)
    width = min(WIDEST / CELLS, np.sqrt(min(CURVATURE, 2 * depth) / curvature.max()))
    logs = log(base) + width * np.arange(-CELLS, CELLS + 1)
    rotations = np.multiply.outer(lags / (2 * pi), np.exp(np.multiply.outer(logs, exponents)))
    rotations -= np.rint(rotations)
    kind, rounding = (np.float32, ROUNDING) if depth > COARSE else (np.float64, 0.0)
    sums = np.cos(kind(2 * pi) * rotations.astype(kind)).sum(axis=-1)
    negative = sums < -(curvature[:, None] * width**2 / 8 + rounding)
    cells = (negative[:, 1:] & negative[:, :-1]).any(axis=0)
    left = int(np.append(cells[CELLS - 1 :: -1], False).argmin())
    right = int(np.append(cells[CELLS:], False).argmin())
    first = index_of(logs[CELLS - left], ceil) if left else index
    last = index_of(logs[CELLS + right], floor) if right else index
    return min(index, first), max(index, last)


def passes(base: float, d: int, length: int) -> bool:
    """Whether the sum of cosines of a base is never negative below a length.

    >>> passes(4.3e3, 128, 1024), passes(4.34e3, 128, 1024)
    (True, False)
    """
    return not len(negative_lags(base ** exponents_of(d), length))


def exponents_of(d: int) -> Floats:
    """Exponents of the base in its frequencies."""
    return -2.0 * np.arange(d // 2) / d


def negative_lags(frequencies: Floats, length: int) -> Floats:
    """Some lags below a length with a negative sum of cosines; empty if no lag has one.

    The frequencies descend. The search covers blocks of lags in which the sum may be negative.
    Blocks where it is probably negative over a wide range of bases come first.
    """
    pairs, count = len(frequencies), -(-length // BLOCK)
    rows = -(-count // BLOCKS_IN_ROW)
    steps = np.multiply.outer([1, BLOCK, BLOCK * BLOCKS_IN_ROW], frequencies)
    waves = powers_of_waves(max(BLOCKS_IN_ROW, rows), steps.ravel()).reshape(-1, 3, pairs)
    within, between_blocks, row_starts = waves[:BLOCK, 0], waves[:BLOCKS_IN_ROW, 1], waves[:rows, 2]
    fast = int((frequencies * BLOCK > 1).sum())
    middles = columns_of((row_starts * within[BLOCK // 2])[:, fast:].conj())
    slow_sums = (middles @ columns_of(between_blocks[:, fast:]).T).ravel()[:count]
    slack = pairs * (pairs + 8) * 2.0**-22  # exceeds the sum of all rounding errors in float32
    most = fast + BLOCK / 2 * frequencies[fast:].sum() + 2 * slack
    blocks = np.flatnonzero(slow_sums < most)
    score = (slow_sums[blocks] - LIKELY_DIP * np.sqrt(fast)) / (blocks + 1)
    if len(blocks) > FIRST_BLOCKS:
        blocks = blocks[np.argpartition(score, FIRST_BLOCKS)]
    inner = columns_of(within).T
    for part in (slice(FIRST_BLOCKS), *row_blocks(len(blocks), BLOCKS_AT_ONCE)):
        row, column = np.divmod(blocks[part], BLOCKS_IN_ROW)
        sums = columns_of((row_starts[row] * between_blocks[column]).conj()) @ inner
        block, step = np.nonzero(sums < slack)
        lags = blocks[part][block] * BLOCK + step
        sums, lags = sums[block, step][lags < length], lags[lags < length]
        certain = sums < -slack
        if certain.sum() > LAGS_KEPT:
            widest = np.argpartition((sums / (lags + 1))[certain], LAGS_KEPT)[:LAGS_KEPT]
            lags = lags[certain][widest]
        exact = np.cos(np.multiply.outer(lags.astype(float), frequencies)).sum(axis=1)
        if exact.min(initial=0.0) < 0:
            return np.asarray(lags[exact < 0], dtype=float)
    return np.empty(0)


def columns_of(waves: NDArray[np.complex128]) -> NDArray[np.float32]:
    """Real and imaginary parts of complex exponentials in adjacent blocks, in float32."""
    return np.concatenate([waves.real, waves.imag], axis=1).astype(np.float32)

r"""Bases whose sum of cosines is never negative below a length.

Conventions
-----------
A base :math:`\rho` passes for `d` dimensions and a length if :math:`B(m) = \sum_i \cos m
\rho^{-2i/d} \ge 0` at every lag m below the length (Men et al., 2024). All lags are looked at. The
bases that pass are no interval: larger ones may fail again, and only bases that were tried are
known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.attention_decay import FIRST_STARTS, STARTS, STEP, powers_of_waves
from pefourier.encodings.encoding import Floats, row_blocks

FIRST_BASE = 1000  # lengths: where the search for the smallest base begins
LARGEST_BASE = 1e300  # with larger ones the smallest frequency is no normal float64 number
DIGITS = 5  # of the search for the smallest base
PER_DECADE, GRID_DIGITS = 400, 4  # of the bases that are tried above it
BASES_AT_ONCE = 2**8
FEWEST_DIGITS = 7  # of a base that is printed
LATEST = 8  # lags at which bases failed last
MARGIN = 10  # times a base, up to which all bases tried must pass


@dataclass(frozen=True)
class BoundedBases:
    """Bases that pass for a length."""

    smallest: float | None  # that was tried; None: none up to `LARGEST_BASE`
    steady: float | None  # the smallest from which all tried up to ten times of it pass
    tried: int  # how many those are
    failing: float | None  # the smallest that was tried and fails between the two


@cache
def bounded_bases(d: int, length: int) -> BoundedBases:
    """The smallest base that passes, and the smallest from which all tried pass for a decade.

    >>> bounded_bases(128, 1024).steady
    6026.0
    """
    smallest = smallest_bounded_base(d, length)
    if smallest is not None:
        smallest = typed_back(smallest, partial(passes, d=d, length=length))
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


def typed_back(base: float, holds: Callable[[float], bool]) -> float:
    """A base in the fewest digits, of those from 7 on, with which a condition holds.

    >>> typed_back(18.3127850, lambda base: base <= 18.3127850)
    18.312785
    """
    rounded = (float(f"{base:.{digits}g}") for digits in range(FEWEST_DIGITS, 18))
    return next(filter(holds, rounded), base)


def next_base(base: float) -> float:
    """The next larger base of the geometric grid.

    >>> next_base(1000.0), next_base(1006.0)
    (1006.0, 1012.0)
    """
    index = int(np.log10(base) * PER_DECADE)
    points = (10 ** ((index + i) / PER_DECADE) for i in range(4))
    return next(p for p in (float(f"{p:.{GRID_DIGITS}g}") for p in points) if p > base)


def smallest_bounded_base(d: int, length: int) -> float | None:
    """The smallest base that passes, to five digits, of those that Su's search tries.

    Of [0, 1000 L] cut into 10^k points, k = 1 … 5, the smallest that passes is the end of the
    next interval. Where none of 10^4 points passes, the interval is made 1000 times as long.

    >>> round(smallest_bounded_base(128, 1024)), round(smallest_bounded_base(6, 80))
    (4293, 105032)
    """
    widest = float(FIRST_BASE * length)
    while widest <= LARGEST_BASE:
        end, smallest = widest, None
        lags: list[int] = []
        for step in range(1, DIGITS + 1):
            if step == DIGITS and smallest is None:
                break
            points = end * np.arange(1, 10**step + 1) / 10**step
            smallest = find_first_base(points[points > 1], d, length, lags)
            end = smallest or end
        if smallest is not None:
            return smallest
        widest *= FIRST_BASE
    return None


def find_first_base(bases: Floats, d: int, length: int, lags: list[int]) -> float | None:
    """The first of ascending bases that passes.

    `lags` are those at which bases were seen to fail, and grow. Neighbours fail at the same lags,
    so that most bases are rejected by looking at the latest of them.
    """
    for part in row_blocks(len(bases), BASES_AT_ONCE):
        remaining = bases[part, None] ** np.array([1.0, *exponents_of(d)])  # base, frequencies
        for lag in lags[-LATEST:]:
            remaining = passing_at(lag, remaining)
        while len(remaining):
            failing = failing_lag(remaining[0, 1:], length)
            if failing is None:
                return float(remaining[0, 0])
            lags.append(failing)
            remaining = passing_at(failing, remaining[1:])
    return None


def passing_at(lag: int, bases: Floats) -> Floats:
    """Those of some bases, each with its frequencies, whose sum at a lag is not negative."""
    return bases.compress(np.cos(lag * bases[:, 1:]).sum(axis=1) >= 0, axis=0)


def passes(base: float, d: int, length: int) -> bool:
    """Whether the sum of cosines of a base is nowhere negative below a length.

    >>> passes(4.3e3, 128, 1024), passes(4.34e3, 128, 1024)
    (True, False)
    """
    return failing_lag(base ** exponents_of(d), length) is None


def exponents_of(d: int) -> Floats:
    """The powers of a base that are its frequencies."""
    return -2.0 * np.arange(d // 2) / d


def failing_lag(frequencies: Floats, length: int) -> int | None:
    """A lag below a length with a negative sum of cosines; None where there is none.

    Sums are formed in float32, the largest lags first, where sums are smallest; those that its
    rounding may have taken across 0 are formed again in float64.
    """
    pairs = len(frequencies)
    slack = pairs * (pairs + 8) * 2.0**-22  # above the sum of all roundings
    inner = columns_of(powers_of_waves(STEP, frequencies))
    end, rows = -(-length // STEP), FIRST_STARTS
    while end > 0:
        start = max(end - rows, 0)
        waves = powers_of_waves(end - start, STEP * frequencies)
        outer = columns_of((waves * np.exp(1j * start * STEP * frequencies)).conj())
        sums = (outer @ inner.T).ravel()[: length - start * STEP]
        lags = start * STEP + np.flatnonzero(sums < slack)
        exact = np.cos(np.multiply.outer(lags.astype(float), frequencies)).sum(axis=1)
        if exact.min(initial=0.0) < 0:
            return int(lags[exact.argmin()])
        end, rows = start, min(4 * rows, STARTS)
    return None


def columns_of(waves: NDArray[np.complex128]) -> NDArray[np.float32]:
    """The real and imaginary parts of waves side by side, in float32."""
    return np.concatenate([waves.real, waves.imag], axis=1).astype(np.float32)

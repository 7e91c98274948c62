r"""Numbers of about 32 digits: unevaluated sums of two float64, in whole arrays.

Conventions
-----------
A pair (high, low) stands for the number high + low, with low below half a unit in the last place of
high. The algorithms are those of Dekker (1971) and Knuth, without fused multiplication, and for the
matrix product Ozaki et al. (2012): matrices are cut into slices of few bits, whose products float64
holds exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pefourier.encodings.encoding import row_blocks

Pair = tuple[np.ndarray, np.ndarray]
DIGITS = 53  # of float64, in bits
UNIT = 2.0**-103  # bound on the relative error of one operation on pairs
CUT = 2.0**27 + 1
SLICES = 3
AT_ONCE = 2**17  # numbers of a product: 1 MiB


@dataclass(frozen=True, eq=False)
class Split:
    """A pair whose high part is also there in two halves of 26 bits, for exact products."""

    high: np.ndarray
    low: np.ndarray
    top: np.ndarray
    tail: np.ndarray

    def __getitem__(self, index) -> "Split":
        return Split(self.high[index], self.low[index], self.top[index], self.tail[index])


def split(high: np.ndarray, low: np.ndarray | None = None) -> Split:
    """A pair, or a float64, with the halves of its high part, which may be up to 1e290 in size."""
    shifted = CUT * high
    top = shifted - (shifted - high)
    return Split(high, np.zeros_like(high) if low is None else low, top, high - top)


def two_sum(a: np.ndarray, b: np.ndarray) -> Pair:
    """a + b exactly.

    >>> two_sum(np.array([1.0]), np.array([2.0**-60]))[1] == 2.0**-60
    array([ True])
    """
    total = a + b
    rounded_b = total - a
    return total, (a - (total - rounded_b)) + (b - rounded_b)


def product(a: Split, b: Split) -> Pair:
    """a b, the low part not yet below half a unit of the high one."""
    high = a.high * b.high
    low = ((a.top * b.top - high) + a.top * b.tail + a.tail * b.top) + a.tail * b.tail
    low += a.high * b.low
    low += a.low * b.high
    return high, low


def add(a: Pair, b: Pair) -> Pair:
    """a + b."""
    high, low = two_sum(a[0], b[0])
    low += a[1]
    low += b[1]
    return two_sum(high, low)


def quotient(a: Pair, b: Pair) -> Pair:
    """a / b, by one step of long division."""
    first = a[0] / b[0]
    high, low = product(split(first), split(*b))
    return two_sum(first, (((a[0] - high) - low) + a[1]) / b[0])


def matrix_product(a: Pair, b: np.ndarray) -> np.ndarray:
    """a b, (n, m) by (m, k), rounded once even where the terms of a sum cancel to their last digit.

    Its error is about 2^-100 times the largest entries of a and b.
    """
    bits = (DIGITS - int(np.ceil(np.log2(len(b) + 1)))) // 2
    *columns, beyond = slices(b, bits)
    remainders = [sum(columns[SLICES - i :], beyond) for i in range(SLICES + 1)]
    result = np.empty((len(a[0]), b.shape[1]))
    for rows in row_blocks(len(result), AT_ONCE, b.shape[1]):
        *parts, tail = slices(a[0][rows], bits)
        high = low = np.zeros_like(result[rows])
        for i, part in enumerate([*parts, tail + a[1][rows]]):
            for column in columns[: SLICES - i]:  # float64 holds these products exactly
                high, error = two_sum(high, part @ column)
                low = low + error
            if remainders[i].any():
                low = low + part @ remainders[i]
        result[rows] = high + low
    return result


def slices(a: np.ndarray, bits: int) -> Iterator[np.ndarray]:
    """Slices of so many bits each, from the largest entry's first bit on, and what they leave."""
    unit = 2.0 ** (np.frexp(np.abs(a).max())[1] - bits)
    for _ in range(SLICES):
        shift = 0.75 * 2.0**DIGITS * unit  # adding it rounds to multiples of the unit
        yield (part := (a + shift) - shift)
        a = a - part
        unit *= 2.0**-bits
    yield a

r"""Inner products of sampled cosines, and of sines, in closed form.

Conventions
-----------
The n positions t are counted from their middle, so that cosines are even and sines odd. With the
Dirichlet kernel

.. math:: D(x) = \sum_t \cos x t = \frac{\sin(n x / 2)}{\sin(x / 2)}

inner products of cosines are :math:`\sum_t \cos(\omega_i t) \cos(\omega_j t) =
(D(\omega_i - \omega_j) + D(\omega_i + \omega_j)) / 2`, those of sines the same with a minus.
Angles are reduced exactly, in integers, and the kernels come from sines and cosines of
:math:`\omega_j / 2` and :math:`n \omega_j / 2` by the addition theorem, in about 32 digits: what
float64 alone makes of inner products hides singular values below 1e-8 of the largest.

Numbers of 32 digits are pairs (high, low) of float64 that stand for high + low, with low below half
a unit in the last place of high. The algorithms are those of Dekker (1971) and Knuth, without fused
multiplication, and for the matrix product Ozaki et al. (2012): matrices are cut into slices of few
bits, whose products float64 holds exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import frexp, ldexp
from typing import Literal

import numpy as np

from pefourier.encodings.encoding import Measure, row_blocks

Pair = tuple[np.ndarray, np.ndarray]
DIGITS = 53  # of float64, in bits
UNIT = 2.0**-103  # bound on the relative error of one operation on pairs
CUT = 2.0**27 + 1
SLICES = 3
PRODUCT_AT_ONCE = 2**17  # numbers of a product: 1 MiB


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
    for rows in row_blocks(len(result), PRODUCT_AT_ONCE, b.shape[1]):
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


ANGLE_BITS = 320  # of an angle in fixed point, before it is reduced
SINE_BITS = 192  # of a sine
# pi times 2^ANGLE_BITS
PI = 0x3243F6A8885A308D313198A2E03707344A4093822_299F31D0082EFA98EC4E6C89452821E638D01377
AT_ONCE = 2**15  # kernels: arrays of 256 KiB stay in the cache
NEAR = 2.0**-50  # of 1 / n: half a turn's distance below which a kernel is n to all its digits
Wave = Literal["cosines", "sines"]


@dataclass(frozen=True, eq=False)
class Products:
    """Inner products of cosines or of sines, (m, m), to about 32 digits."""

    values: Pair
    error: float  # bound on the Frobenius norm of what is wrong with them


def sine_and_cosine(angle: int) -> tuple[int, int]:
    """Sine and cosine, times 2^SINE_BITS, of an angle times 2^ANGLE_BITS.

    >>> [value / 2**SINE_BITS for value in sine_and_cosine(2**ANGLE_BITS)]
    [0.8414709848078965, 0.5403023058681398]
    """
    quarter = PI >> 1
    turns, angle_left = divmod(angle + (quarter >> 1), quarter)
    x = (angle_left - (quarter >> 1)) >> (ANGLE_BITS - SINE_BITS)
    cosine_and_sine, term, k = [0, 0], 1 << SINE_BITS, 0
    while term not in (0, -1):
        cosine_and_sine[k % 2] += term if k % 4 < 2 else -term
        k += 1
        term = (term * x >> SINE_BITS) // k
    cosine, sine = cosine_and_sine
    return [(sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine)][turns % 4]


def in_fixed_point(number: float) -> int:
    """A number times 2^ANGLE_BITS, exactly from 2^-267 on."""
    fraction, exponent = frexp(number)
    mantissa, shift = int(ldexp(fraction, 53)), ANGLE_BITS - 53 + exponent
    return mantissa << shift if shift >= 0 else mantissa >> -shift


def as_pair(numbers: list[int]) -> Pair:
    """Integers over 2^SINE_BITS."""
    high = [float(number) for number in numbers]
    low = [float(number - int(h)) for number, h in zip(numbers, high, strict=True)]
    return np.ldexp(high, -SINE_BITS), np.ldexp(low, -SINE_BITS)


@dataclass(frozen=True, eq=False)
class Waves:
    """What the kernels of differences and sums of frequencies are made of, (m,) each."""

    n: int
    amplitudes: Split
    top: tuple[Split, Split]  # sines and cosines of n omega / 2, times amplitudes
    bottom: tuple[Split, Split]  # of omega / 2


def waves_of(measure: Measure, n: int) -> Waves:
    """Sines and cosines of a measure's half angles, and of n times these."""
    if measure.period is None:
        halves = [in_fixed_point(omega) >> 1 for omega in measure.frequencies.tolist()]
        turned = [n * half for half in halves]
    else:
        period, index = measure.period, measure.index(measure.period).tolist()
        halves = [PI * (k % (2 * period)) // period for k in index]
        turned = [PI * (n * k % (2 * period)) // period for k in index]
    amplitudes = split(measure.amplitudes)
    top, bottom = ([*map(sine_and_cosine, angles)] for angles in (turned, halves))
    top = tuple(split(*product(split(*as_pair(w)), amplitudes)) for w in zip(*top, strict=True))
    return Waves(n, amplitudes, top, tuple(split(*as_pair(w)) for w in zip(*bottom, strict=True)))


def dirichlet_gram(measure: Measure, n: int, wave: Wave) -> Products:
    """Inner products over n positions about their middle.

    Digits are lost where frequencies nearly agree, or nearly add up to a whole turn: the error
    says how many.
    """
    waves, m = waves_of(measure, n), len(measure.frequencies)
    result, squared = (np.empty((m, m)), np.empty((m, m))), 0.0
    for rows in row_blocks(m, AT_ONCE, m):
        columns = slice(rows.start, m)
        differences, lost = kernels(waves, rows, columns, -1)
        (high, low), lost_too = kernels(waves, rows, columns, 1)
        halves = add(differences, (high, low) if wave == "cosines" else (-high, -low))
        for matrix, half in zip(result, halves, strict=True):
            matrix[rows, columns] = half / 2
            matrix[columns, rows] = matrix[rows, columns].T
        squared += ((lost + lost_too) ** 2).sum() / 2
    return Products(result, float(np.sqrt(squared)))


def kernels(
    waves: Waves, rows: slice, columns: slice, sign: Literal[-1, 1]
) -> tuple[Pair, np.ndarray]:
    """D of omega_i plus or minus omega_j for some i and j, times both amplitudes, and its error.

    Where that is a whole number of turns, to 2^-50 / n, it is n or -n.
    """
    top, above = sines_of_sums(waves.top, rows, columns, sign)
    bottom, below = sines_of_sums(waves.bottom, rows, columns, sign)
    weights = waves.amplitudes.high[rows, None] * waves.amplitudes.high[columns]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = quotient(top, bottom)
        size = np.maximum(np.abs(values[0]), weights)
        wrong = 2 * UNIT * (above + size * below) + 2.0 ** (4 - SINE_BITS) * size
        lost = wrong / np.abs(bottom[0])
    i, j = np.nonzero(np.abs(bottom[0]) <= NEAR / waves.n)
    i, j, small = i + rows.start, j + columns.start, (i, j)
    signs = np.sign(
        cosine_of_sums(waves.top, i, j, sign) * cosine_of_sums(waves.bottom, i, j, sign)
    )
    exact = product(waves.amplitudes[i], waves.amplitudes[j])
    high, low = add(product(split(*exact), split(signs * waves.n)), (0.0, 0.0))
    values[0][small], values[1][small], lost[small] = high, low, UNIT * waves.n * exact[0]
    return values, lost


def sines_of_sums(
    waves: tuple[Split, Split], rows: slice, columns: slice, sign: Literal[-1, 1]
) -> tuple[Pair, np.ndarray]:
    """Sine of a plus or minus b for some angles a and b, and the size of its two terms."""
    sines, cosines = waves
    first = product(sines[rows, None], cosines[columns])
    high, low = product(cosines[rows, None], sines[columns])
    return add(first, (sign * high, sign * low)), np.abs(first[0]) + np.abs(high)


def cosine_of_sums(
    waves: tuple[Split, Split], i: np.ndarray, j: np.ndarray, sign: Literal[-1, 1]
) -> np.ndarray:
    """Cosine of a plus or minus b, in float64."""
    sines, cosines = (wave.high for wave in waves)
    return cosines[i] * cosines[j] - sign * sines[i] * sines[j]

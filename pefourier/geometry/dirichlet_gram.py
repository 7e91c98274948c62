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
"""

from dataclasses import dataclass
from functools import cache
from math import frexp, ldexp
from typing import Literal

import numpy as np

from pefourier.encodings.encoding import Measure, row_blocks
from pefourier.geometry.double_double import UNIT, Pair, Split, add, product, quotient, split

ANGLE_BITS = 320  # of an angle in fixed point, before it is reduced
SINE_BITS = 192  # of a sine
AT_ONCE = 2**15  # kernels: arrays of 256 KiB stay in the cache
LOST = 2.0**-92  # share of n from which the error of a kernel is too large
Wave = Literal["cosines", "sines"]
FEW = 2**12  # kernels, and 16 a frequency, that are computed one by one where it is


@dataclass(frozen=True, eq=False)
class Products:
    """Inner products of cosines or of sines, (m, m), to about 32 digits."""

    values: Pair
    error: float  # bound on the Frobenius norm of what is wrong with them


@cache
def pi_in_fixed_point() -> int:
    """Pi times 2^ANGLE_BITS, by Machin's formula.

    >>> pi_in_fixed_point() / 2**ANGLE_BITS
    3.141592653589793
    """

    def arctan_of_inverse(k: int) -> int:
        total, term, odd = 0, (1 << ANGLE_BITS + 16) // k, 1
        while term:
            total += term // odd
            term //= -k * k
            term += term < 0  # towards zero, so that it ends
            odd += 2
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)) >> 16


def sine_and_cosine(angle: int) -> tuple[int, int]:
    """Sine and cosine, times 2^SINE_BITS, of an angle times 2^ANGLE_BITS.

    >>> [value / 2**SINE_BITS for value in sine_and_cosine(2**ANGLE_BITS)]
    [0.8414709848078965, 0.5403023058681398]
    """
    quarter = pi_in_fixed_point() >> 1
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
class Angles:
    """The frequencies of a measure as integers, exactly."""

    exact: list[int]  # in fixed point, or the integers k where there is a period
    period: int | None

    def half(self, exact: int) -> int:
        """Half of the angle that an integer stands for, in fixed point."""
        if self.period is None:
            return exact >> 1
        return pi_in_fixed_point() * (exact % (2 * self.period)) // self.period

    def waves(self, times: int) -> tuple[Pair, Pair]:
        """Sines and cosines of half of so many times each frequency."""
        pairs = [sine_and_cosine(self.half(k * times)) for k in self.exact]
        return as_pair([sine for sine, _ in pairs]), as_pair([cosine for _, cosine in pairs])

    def kernel(self, n: int, i: int, j: int, sign: int) -> int:
        """D of a difference or sum of two frequencies, times 2^SINE_BITS, with all its digits."""
        pi = pi_in_fixed_point()
        turns, remainder = divmod(self.half(self.exact[i] + sign * self.exact[j]) + (pi >> 1), pi)
        x = remainder - (pi >> 1)
        if abs(n * x) >> (ANGLE_BITS - 40):
            top, bottom = (sine_and_cosine(angle)[0] for angle in (n * x, x))
            value = (top << SINE_BITS) // bottom
        else:  # n (1 - (n^2 - 1) x^2 / 6)
            square = x * x >> (2 * ANGLE_BITS - SINE_BITS)
            value = (n << SINE_BITS) - n * (n * n - 1) * square // 6
        return -value if turns * (n - 1) % 2 else value


@dataclass(frozen=True, eq=False)
class Waves:
    """What the kernels of differences and sums of frequencies are made of, (m,) each."""

    n: int
    angles: Angles
    amplitudes: Split
    top: tuple[Split, Split]  # sines and cosines of n omega / 2, times amplitudes
    bottom: tuple[Split, Split]  # of omega / 2


def waves_of(measure: Measure, n: int) -> Waves:
    """Sines and cosines of a measure's half angles, and of n times these."""
    if measure.period is None:
        exact = [in_fixed_point(omega) for omega in measure.frequencies.tolist()]
    else:
        exact = measure.index.tolist()
    angles, amplitudes = Angles(exact, measure.period), split(measure.amplitudes)
    sines, cosines = (split(*product(split(*w), amplitudes)) for w in angles.waves(n))
    bottom = tuple(split(*w) for w in angles.waves(1))
    return Waves(n, angles, amplitudes, (sines, cosines), bottom)


def dirichlet_gram(measure: Measure, n: int, wave: Wave) -> Products:
    """Inner products over n positions about their middle.

    Digits are lost where frequencies nearly agree, or nearly add up to a whole turn. A limited
    number of such kernels is computed one by one; the error says what is lost with the others.
    """
    waves = waves_of(measure, n)
    m = len(measure.frequencies)
    result = np.empty((m, m)), np.empty((m, m))
    squared, budget = 0.0, FEW + 16 * m
    for rows in row_blocks(m, AT_ONCE, m):
        columns = slice(rows.start, m)
        differences, sums = (kernels(waves, rows, columns, sign) for sign in (-1, 1))
        for sign, part in ((-1, differences), (1, sums)):
            if len(part.poor) <= budget:
                refine(waves, rows, part, sign)
                budget -= len(part.poor)
        high, low = sums.values
        halves = add(differences.values, (high, low) if wave == "cosines" else (-high, -low))
        for matrix, half in zip(result, halves, strict=True):
            matrix[rows, columns] = half / 2
            matrix[columns, rows] = matrix[rows, columns].T
        squared += ((differences.lost + sums.lost) ** 2).sum() / 2
    return Products(result, float(np.sqrt(squared)))


@dataclass(frozen=True, eq=False)
class Kernels:
    """D of differences or sums of some frequencies, times both amplitudes."""

    values: Pair
    lost: np.ndarray  # bound on the error of each
    poor: np.ndarray  # indices of those whose error is too large


def kernels(waves: Waves, rows: slice, columns: slice, sign: Literal[-1, 1]) -> Kernels:
    """D of omega_i plus or minus omega_j for some i and j."""
    top, above = sines_of_sums(waves.top, rows, columns, sign)
    bottom, below = sines_of_sums(waves.bottom, rows, columns, sign)
    weights = waves.amplitudes.high[rows, None] * waves.amplitudes.high[columns]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = quotient(top, bottom)
        size = np.maximum(np.abs(values[0]), weights)
        wrong = 2 * UNIT * (above + size * below) + 2.0 ** (4 - SINE_BITS) * size
        lost = wrong / np.abs(bottom[0])
        poor = np.argwhere(~(lost <= LOST * waves.n * weights))
    return Kernels(values, lost, poor)


def sines_of_sums(
    waves: tuple[Split, Split], rows: slice, columns: slice, sign: Literal[-1, 1]
) -> tuple[Pair, np.ndarray]:
    """Sine of a plus or minus b for some angles a and b, and the size of its two terms."""
    sines, cosines = waves
    first = product(sines[rows, None], cosines[columns])
    high, low = product(cosines[rows, None], sines[columns])
    return add(first, (sign * high, sign * low)), np.abs(first[0]) + np.abs(high)


def refine(waves: Waves, rows: slice, kernels: Kernels, sign: Literal[-1, 1]) -> None:
    """Compute the poor ones of some kernels one by one, in place."""
    if not len(kernels.poor):
        return
    n, angles = waves.n, waves.angles
    i, j = kernels.poor.T + rows.start
    one_by_one = [
        angles.kernel(n, *pair, sign) for pair in zip(i.tolist(), j.tolist(), strict=True)
    ]
    weights = split(*product(waves.amplitudes[i], waves.amplitudes[j]))
    high, low = add(product(split(*as_pair(one_by_one)), weights), (0.0, 0.0))
    places = tuple(kernels.poor.T)
    kernels.values[0][places], kernels.values[1][places] = high, low
    kernels.lost[places] = UNIT * np.abs(high)

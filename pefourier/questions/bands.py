"""How much energy has each decade of frequency?

A lattice has its points at equal steps, so that slow waves, decades of them in a rotation, share
its first one. Here frequencies stand by their logarithm, as a share of energy for each factor of
ten. Those above pi fold back, but for times at uneven steps.
"""

from dataclasses import dataclass

import numpy as np

from pefourier.encodings.encoding import BLOCK, Encoding, as_encoding, row_blocks, without_prefix
from pefourier.questions.density import choose_method, frequencies_and_weights, visible_frequencies

SMEAR = 0.1  # decades: the width of the Gaussian around each frequency
POINTS = 50  # of the density, in a decade
FIRST = 1 / 16  # of the frequency axis
NEGLIGIBLE = 1e-12  # of the energy: what a transform leaves of nothing


@dataclass(frozen=True)
class DecadeDensity:
    """Energy over the logarithm of frequency."""

    omega: np.ndarray  # (K,) radians per position, at equal steps of the logarithm
    density: np.ndarray  # (K,) share of energy per decade
    at_zero: float  # share at frequency 0, which has no logarithm


def density_by_decade(encoding: Encoding | np.ndarray, method: str = "auto") -> DecadeDensity:
    r"""Share of energy per decade of frequency.

    .. math:: p(\log_{10}\omega) = \sum_{\omega_j > 0} w_j\,
              \mathcal{N}(\log_{10}\omega;\, \log_{10}\omega_j,\, 0.1^2)

    as Eq. 15 smears frequencies over the lattice. Its integral is 1 less the share at frequency 0.
    A table of zeros gives NaN; one with no energy beside frequency 0 an empty density.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> rope = density_by_decade(load("rope", d=256))  # base 10 000: four decades
    >>> float(rope.density[len(rope.density) // 2].round(3))
    0.25
    """
    waves = single_waves(encoding, method)
    if not len(waves.omega):
        return waves
    logs, heights, at_zero = np.log10(waves.omega), waves.density, waves.at_zero
    low, high = logs.min() - 3 * SMEAR, logs.max() + 3 * SMEAR
    exponents = np.linspace(low, high, int(np.ceil((high - low) * POINTS)) + 1)
    density = np.zeros(len(exponents))
    for part in row_blocks(len(logs), BLOCK, len(exponents)):
        offsets = (exponents - logs[part, None]) / SMEAR
        density += heights[part] @ np.exp(-0.5 * offsets**2)
    return DecadeDensity(10.0**exponents, density / (SMEAR * np.sqrt(2 * np.pi)), at_zero)


def single_waves(encoding: Encoding | np.ndarray, method: str = "auto") -> DecadeDensity:
    """Each frequency above 0 that has energy with its share of it, nothing smeared.

    >>> from pefourier.encodings import load
    >>> single_waves(load("rope", d=4)).density.tolist()
    [0.5, 0.5]
    """
    enc = without_prefix(as_encoding(encoding))
    frequencies, weights = frequencies_and_weights(enc, choose_method(enc, method))
    frequencies = visible_frequencies(enc, frequencies)
    moving = (frequencies > 0) & ~(weights <= NEGLIGIBLE)  # NaN stays
    at_zero = float(weights[frequencies == 0].sum())
    return DecadeDensity(frequencies[moving], weights[moving], at_zero)


def is_slow(encoding: Encoding | np.ndarray, method: str = "auto") -> bool:
    """Whether most energy beside frequency 0 is in the first sixteenth of the frequency axis.

    >>> from pefourier.encodings import load
    >>> [is_slow(load(name, d=128)) for name in ("rope", "dft", "none")]
    [True, False, False]
    """
    waves = single_waves(encoding, method)
    moving = float(waves.density.sum())
    slow = float(waves.density[waves.omega <= np.pi * FIRST].sum())
    return moving > NEGLIGIBLE and slow > moving / 2

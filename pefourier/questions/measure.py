"""Which frequencies has an encoding, by declaration or by measurement, and how are they seen?"""

from math import pi

import numpy as np

from pefourier.encodings.domain import periodogram
from pefourier.encodings.encoding import Encoding
from pefourier.errors import PefourierError, unknown

METHODS = ("auto", "declared", "periodogram")


def choose_method(enc: Encoding, method: str) -> str:
    """The method that "auto" stands for; any other as given, where the encoding allows it."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if method == "declared" and enc.measure is None:
        less = " less its mean is a table and" if enc.params.get("demean") else ""
        raise PefourierError(
            f"{enc.name}{less} declares no spectral measure; use --method periodogram or auto"
        )
    if method == "auto":
        return "declared" if enc.measure else "periodogram"
    return method


def frequencies_and_weights(enc: Encoding, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (m,) in radians per position and weights (m,) that sum to one (NaN if all 0)."""
    if method == "declared":
        return enc.measure.frequencies, enc.measure.weights
    frequencies, energy = periodogram(enc.domain, enc.table())
    total = energy.sum()
    return frequencies, energy / total if total else np.full(len(energy), np.nan)


def visible_frequencies(enc: Encoding, frequencies: np.ndarray) -> np.ndarray:
    """Frequencies as the points of one axis show them: folded, but for times at uneven steps."""
    return np.abs(frequencies) if enc.domain.irregular else alias(frequencies)


def alias_on_axes(frequencies: np.ndarray) -> np.ndarray:
    """Frequencies in [-pi, pi] that whole points cannot tell from the given ones.

    >>> alias_on_axes(np.array([-0.5, 2 * pi - 0.5, pi])).round(2)
    array([-0.5 , -0.5 ,  3.14])
    """
    inside = np.abs(frequencies) <= pi
    return np.where(inside, frequencies, (frequencies + pi) % (2 * pi) - pi)


def alias(frequencies: np.ndarray) -> np.ndarray:
    """Frequencies in [0, pi] that integer positions cannot tell from the given ones (aliasing).

    >>> alias(np.array([0.5, 2 * pi - 0.5, 2 * pi + 0.5])).round(12)
    array([0.5, 0.5, 0.5])
    """
    inside = (frequencies >= 0) & (frequencies <= pi)
    if inside.all():
        return frequencies
    return np.where(inside, frequencies, np.abs((frequencies + pi) % (2 * pi) - pi))

"""A density of frequencies in single numbers.

Conventions
-----------
Frequencies are in radians per position; of several axes they are ordered by their length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, pi

import numpy as np

from pefourier.encodings.domain import lattice_points
from pefourier.encodings.encoding import Encoding
from pefourier.geometry.torus import multiplicity


@dataclass(frozen=True)
class DensitySummary:
    """Single numbers of a spectrum; frequencies in radians per position."""

    lowest_bin_index: float | None  # root of Eq. 16, where the geometric grid enters the lowest bin
    below_first_bin: int | None  # declared frequencies strictly below 2 pi / N
    frequencies_total: int | None
    lowest_bin_share: float  # density at k = 0
    centroid: float  # mean frequency
    cutoff95: float  # smallest frequency holding 95 % of the density below or at it
    flatness: float  # exp(entropy) / K, 1 = flat
    mean_share: float | None = None  # of a table's energy what is the same in all rows
    effective: float | None = None  # exp(entropy) of the density, smeared if it is
    effective_unsmeared: float | None = None  # exp(entropy) of the weights of single frequencies


def summarize_density(
    enc: Encoding,
    omega: np.ndarray | list[np.ndarray],
    g: np.ndarray,
    sides: Sequence[int],
    frequencies: np.ndarray | None,
) -> DensitySummary:
    """The single numbers of a density, of which some points stand for two frequencies."""
    on_line = len(sides) == 1
    length = omega if on_line else np.linalg.norm(lattice_points(omega), axis=1)
    times = np.ones(g.shape) if on_line else np.broadcast_to(multiplicity(sides), g.shape)
    shares, per_point = g.ravel(), (g / times).ravel()
    order = np.argsort(length, kind="stable")
    positive = per_point > 0
    entropy = -(shares[positive] * np.log(per_point[positive])).sum()
    slow = root = None
    if frequencies is not None:
        vectors = np.abs(frequencies.reshape(len(frequencies), -1))
        slow = int((vectors < 2 * pi / np.array(sides)).all(axis=1).sum())
        root = lowest_bin_index(enc, frequencies) if on_line else None
    return DensitySummary(
        lowest_bin_index=root,
        below_first_bin=slow,
        frequencies_total=None if frequencies is None else len(frequencies),
        lowest_bin_share=float(per_point[0]),
        centroid=float(length @ shares),
        cutoff95=first_holding(length[order], shares[order]),
        flatness=float(np.exp(entropy) / times.sum()) if positive.any() else np.nan,
    )


def first_holding(ascending: np.ndarray, shares: np.ndarray, part: float = 0.95) -> float:
    """The first frequency that with those before it holds a part of the energy."""
    reached = np.cumsum(shares) >= part - 1e-12
    return float(ascending[np.argmax(reached)]) if reached.any() else np.nan


def lowest_bin_index(enc: Encoding, frequencies: np.ndarray) -> float | None:
    """The root d ln(d / 2 pi) / ln rho of Eq. 16, where frequencies are rho^(-l/d), l = 0, 2, …"""
    rho, d = enc.params.get("rho"), enc.dim
    if rho is None or rho <= 0 or rho == 1:
        return None
    with np.errstate(over="ignore"):  # an infinite grid is not that of the frequencies
        grid = rho ** (-2.0 * np.arange(len(frequencies)) / d)
    geometric = np.allclose(frequencies, grid, rtol=1e-9, atol=0)
    return d * log(d / (2 * pi)) / log(rho) if geometric else None


def counts(
    summary: DensitySummary, points: int, frequencies: np.ndarray, weights: np.ndarray
) -> dict[str, float | None]:
    """How many frequencies the energy is spread over: on the lattice, and by themselves.

    >>> from pefourier.questions.spectrum import density
    >>> from pefourier.encodings import load
    >>> found = density(load("sinusoidal", d=256)).summary
    >>> round(found.effective, 1), round(found.effective_unsmeared, 1)
    (22.1, 128.0)
    """
    if np.isnan(weights).any():
        return {}
    order = np.round(frequencies.reshape(len(weights), -1), 12)
    _, group = np.unique(order, axis=0, return_inverse=True)
    shares = np.bincount(group.ravel(), weights=weights)
    shares = shares[shares > 0]
    effective = float(np.exp(-(shares * np.log(shares)).sum()))
    return {"effective": summary.flatness * points, "effective_unsmeared": effective}


def mean_share(
    enc: Encoding, method: str, frequencies: np.ndarray, weights: np.ndarray
) -> float | None:
    """The share of a table's energy that is the same in all rows; None where none was looked at.

    It is that of frequency 0 of a lattice's periodogram: n times the mean row's squared length.
    """
    if method == "declared" or enc.domain.basis is not None or np.isnan(weights).any():
        return None
    if enc.params.get("demean"):
        return 0.0
    still = (frequencies.reshape(len(weights), -1) == 0).all(axis=1)
    return float(weights[still].sum())

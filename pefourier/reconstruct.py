"""What is left of a position after its frequencies are weighted? The paper's Algorithm 1.

Conventions
-----------
A position function delta_s is 1 at s and 0 elsewhere on the lattice 0 … N - 1, which is circular.
Its real-DFT coefficients are multiplied by the density g, the l2 norm is restored, and the inverse
transform gives the rebuilt function. Widths are in positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pefourier.encodings.checks import check_size
from pefourier.encodings.encoding import Encoding, as_encoding
from pefourier.errors import PefourierError
from pefourier.result import Result
from pefourier.spectrum import density

if TYPE_CHECKING:  # what is imported when it is used, not when a page names a result's type
    from pefourier.geometry.singular_values import Factors


USUAL, USUAL_LENGTH = (5, 40, 75), 80  # positions of Fig. 2, of how many


@dataclass(frozen=True)
class Reconstruction:
    """One rebuilt position function."""

    position: int
    values: np.ndarray  # (N,)
    peak: float  # largest value
    width: float  # full width at half height, positions, linear interpolation
    half_max_count: int  # samples at or above half the peak
    side_lobe: float  # largest |value| outside the peak's monotone flanks
    error: float  # l2 distance to delta
    inverse_error: float | None  # by the linear inverse of the codes; None beyond their length


@dataclass(frozen=True, repr=False)
class Reconstructions(Result):
    """Position functions rebuilt on one lattice."""

    lattice: int
    sigma: float
    reconstructions: list[Reconstruction]
    inverse_error: float  # the largest over all positions of the encoding


def position_functions(
    encoding: Encoding | np.ndarray,
    positions: Sequence[int] | None = None,
    lattice: int | None = None,
    sigma: float | None = None,
    method: str = "auto",
) -> Reconstructions:
    r"""Rebuild position functions by Algorithm 1, and by the codes' own linear inverse.

    With g the density of Eq. 15,
    :math:`h(t) = \mathrm{irfft}(g)(t) / \lVert \mathrm{irfft}(g) \rVert` and the function rebuilt
    at s is h(t - s): the same shape everywhere, with its peak at the right place for any encoding.
    What differs is its width, its side lobes and its distance to delta.

    `inverse_error` is Theorem 1's: :math:`\max_t |(E E^+ - I)_{st}|` with :math:`E^+` the
    pseudoinverse of the table at the tolerance of its numerical rank; 0 where the codes have an
    inverse.

    Parameters
    ----------
    encoding : Encoding or np.ndarray, shape (n, d)
        An encoding, or a table with one row a position.
    positions : sequence of int, optional
        Where to put deltas, 0 … N - 1; by default as `usual_positions` says.
    lattice, sigma, method
        As in `pefourier.spectrum.density`.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> result = position_functions(load("sinusoidal", d=256), [40])
    >>> round(result.reconstructions[0].peak, 4)
    0.3403
    """
    from pefourier.geometry.singular_values import check_products, decompose

    enc = as_encoding(encoding)
    if positions is None:
        positions = usual_positions(lattice or enc.dim)
    check_size("a lattice for each position", len(positions), lattice or enc.dim)
    check_products(enc)
    spectrum = density(enc, lattice, sigma, method)
    n = spectrum.lattice
    for s in positions:
        if not 0 <= s < n:
            raise PefourierError(
                f"position {s} is outside the lattice 0 … {n - 1}; choose another or set --lattice"
            )
    h = np.fft.irfft(spectrum.density, n)
    h /= np.linalg.norm(h)
    peak, width, count, lobe = describe_peak(h)
    error = float(np.sqrt((h[0] - 1) ** 2 + (h[1:] ** 2).sum()))
    factors = decompose(enc)
    rebuilt = [
        Reconstruction(
            position=s,
            values=np.roll(h, s),
            peak=peak,
            width=width,
            half_max_count=count,
            side_lobe=lobe,
            error=error,
            inverse_error=inverse_error_at(factors, s),
        )
        for s in positions
    ]
    return Reconstructions(n, spectrum.sigma, rebuilt, factors.inverse_error(), about=(enc,))


def usual_positions(n: int) -> tuple[int, ...]:
    """The paper's positions 5, 40 and 75 of 80, or as far along a lattice that ends before.

    >>> usual_positions(256), usual_positions(64), usual_positions(2)
    ((5, 40, 75), (4, 32, 60), (0, 1))
    """
    if n > max(USUAL):
        return USUAL
    return tuple(sorted({s * n // USUAL_LENGTH for s in USUAL}))


def inverse_error_at(factors: Factors, s: int) -> float | None:
    """Error of the linear inverse at s, None where the encoding has no code."""
    return factors.inverse_error(s) if s < factors.n else None


def describe_peak(h: np.ndarray) -> tuple[float, float, int, float]:
    """Peak, width at half height, samples at or above it, and side lobe of a circular function.

    The peak is at index 0, and h(t) = h(-t): Algorithm 1's weights are real.

    >>> describe_peak(np.array([1.0, 0.75, 0.25, 0.0, 0.25, 0.75]))
    (1.0, 3.0, 3, 0.0)
    """
    if np.isnan(h).any():
        return np.nan, np.nan, 0, np.nan
    half, right = h[0] / 2, h[: len(h) // 2 + 1]
    above = right >= half
    if above.all():
        width = float(len(h))
    else:
        t = int(np.argmin(above))  # the first sample below half height
        width = 2 * (t - 1 + (right[t - 1] - half) / (right[t - 1] - right[t]))
    rises = np.flatnonzero(np.diff(right) > 0)
    lobe = np.abs(right[rises[0] + 1 :]).max() if len(rises) else 0.0
    return float(h[0]), float(width), int((h >= half).sum()), float(lobe)

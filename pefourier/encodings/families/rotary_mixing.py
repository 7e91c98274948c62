"""Rotations by sums of frequencies (FoPE) and by the exponential of a generator (LieRE)."""

from dataclasses import replace
from math import pi, sqrt

import numpy as np

from pefourier.encodings.encoding import Encoding, Measure
from pefourier.encodings.families.absolute import stream
from pefourier.encodings.families.rotary import check_head, rope
from pefourier.encodings.registry import encoding
from pefourier.errors import check_count, check_size
from pefourier.types import Array, Floats


@encoding("fope", "Hua et al., 2024, arXiv 2412.17739", declared=True)
def fope(
    length: int,
    d: int,
    *,
    rho: float = 10000.0,
    original: int = 512,
    gain: float = 0.3,
    seed: int = 0,
) -> Encoding:
    """Fourier position embedding (FoPE): each pair of rope becomes a sum of all frequencies.

    Frequencies ω_k = ρ^(−2k/d) below 2π/L are set to 0. The cosine of pair m is Σ_k C_km cos ω_k s,
    its sine Σ_k S_km sin ω_k s. C and S are the identity plus random numbers, Xavier normal with
    `gain`. These sums are not rotations: norms of queries and keys change, and scores depend on
    more than the lag. With gain=0, fope is rope:scaling=cut.

    Parameters
    ----------
    rho : float
        Base of the frequencies; a larger base lowers the lowest frequency.
    original : int
        L, the context length in training: 512 or 1024 in the authors' configs.
    gain : float
        Gain of the random numbers: 0.3, 0.4 and 0.6 in the authors' models of 60 million, 180
        million and 1.2 billion parameters. Here their standard deviation is gain/√m for m pairs.
        The authors' listing draws (heads, in, out) numbers at once, of standard deviation
        gain·√(2/((in + heads)·out)), keeps min(in, d/4) of the sums, divides them by the sums of
        their columns, and fills the other cosines and sines with 1.
    seed : int
        Seed of the random numbers; the same seed gives the same vectors on every machine.

    Examples
    --------
    >>> fope(2, 64, gain=0.0).measure.frequencies[15:17].round(8)
    array([0.01333521, 0.        ])
    """
    plain = rope(length, d, rho=rho, scaling="cut", original=original)
    settings = {**plain.params, "partial": 1.0, "layout": "halves"}
    plain = replace(plain, name="fope", params=settings)
    if gain == 0:
        return replace(plain, params={**settings, "scaling": "cut"})
    check_size("fope", 2, d // 2, d // 2)
    c, s = sums_of_frequencies(d // 2, gain, seed)

    def vectors(x: Array) -> Floats:
        cosines, sines = np.split(plain.vectors(x), 2, axis=1)
        return np.hstack([cosines @ c, sines @ s])

    omega, energy = plain.measure.frequencies, (c**2 + s**2).sum(axis=1)
    constant = c[omega == 0]  # cosines of frequency 0 add up before they are squared
    energy[omega == 0] = 2 * (constant.sum(axis=0) ** 2).sum() / max(len(constant), 1)
    return replace(plain, vectors=vectors, measure=Measure(omega, energy / energy.sum()))


def sums_of_frequencies(pairs: int, gain: float, seed: int) -> Floats:
    """Matrices C and S of FoPE, shape (2, frequencies, pairs).

    >>> sums_of_frequencies(2, 0.5, 0).round(3)[0]
    array([[1.624, 0.141],
           [0.346, 1.792]])
    """
    return np.eye(pairs) + gain / sqrt(pairs) * stream(seed).normal(size=(2, pairs, pairs))


@encoding("liere", "Ostmeier et al., 2024 (before training)", declared=True, untrained=True)
def liere(length: int, d: int, *, seed: int = 0) -> Encoding:
    """LieRE (arXiv 2406.10322) on one axis: rotation by the exponential of a skew-symmetric matrix.

    The matrix R(s) = exp(s S) rotates planes of a head by s ω_i, with ω_i the imaginary parts of
    the eigenvalues of S. Columns are cos ω_i s and sin ω_i s in these planes, highest frequency
    first; the weights of queries and keys can contain the change of basis. On several axes, the
    matrices S do not commute and define no frequencies: pass py:module:function for the rotation.

    Parameters
    ----------
    seed : int
        Seed of the numbers above the diagonal of S, uniform on [0, 2π); the same seed gives the
        same vectors on every machine.

    Examples
    --------
    >>> liere(2, 4).measure.frequencies.round(3)
    array([9.806, 0.319])
    """
    check_head("liere", d, 1.0)
    check_count("d of liere", d, maximum=2**11)  # eigenvalues of larger matrices take a minute
    omega = planes_of_generator(2 * pi * stream(seed).uniform(size=(d, d)))
    return replace(rope(length, d, inv_freq=omega), name="liere", params={})


def planes_of_generator(numbers: Floats) -> Floats:
    """Frequencies of the skew matrix with these numbers above its diagonal, descending.

    >>> planes_of_generator(np.ones((4, 4))).round(6)
    array([2.414214, 0.414214])
    """
    upper = np.triu(numbers, 1)
    return np.asarray(np.linalg.eigvalsh(1j * (upper - upper.T))[: -len(numbers) // 2 - 1 : -1])

"""Weighted frequencies of an encoding, and its density over a lattice: Eq. 15.

Conventions
-----------
Frequencies are in lattice steps of 2 pi / N radians; points 0, 1 … cover half the circle.
"""

from functools import cached_property
from math import ceil, log, pi, sqrt
from typing import Literal

import numpy as np

from pefourier.encodings.encoding import (
    BLOCK,
    FLOAT32_EPS,
    Encoding,
    axis_encodings,
    half_plane,
    lattice_points,
    periodogram,
    row_blocks,
)
from pefourier.errors import PefourierError, check_count, check_size, unknown
from pefourier.geometry.torus import (
    aliased_shares,
    idle_shares,
    isotropy,
    multiplicity,
    torus_density,
)
from pefourier.types import Bools, Counts, Fields, Floats, frozen, frozen_arrays

DEFAULT_SIGMA = 4.0  # lattice steps
DEFAULT_GRID_SIGMA = 1.0  # for several axes, which have short sides
LEAST_SIGMA = 0.02  # exp(-x^2/2) does not underflow half a step away
AT_ONCE = 2**15  # frequencies smoothed at a time
SMALL = 2**25  # most frequency-lattice pairs for which tails are kept
LATTICE = 2**24  # most points of a lattice: more would take over 1 GiB or 10 seconds
METHODS = ("auto", "declared", "periodogram")
SMEAR = 0.1  # decades: the width of the Gaussian around each frequency
POINTS = 50  # points of the density per decade
FIRST = 1 / 16  # low part of the frequency axis
NEGLIGIBLE = 1e-12  # share of the energy that counts as rounding
LOW = pi / 2 * (1 + 1e-9)  # frequencies up to here have wavelengths of four steps or longer
MOST = 0.95  # of the energy
Method = Literal["auto", "declared", "periodogram"]


@frozen
class DecadeDensity:
    """Energy density over the logarithm of frequency."""

    omega: Floats  # (K,) radians per position, at equal steps of the logarithm
    density: Floats  # (K,) share of energy per decade
    at_zero: float  # share at frequency 0, which has no logarithm


@frozen_arrays
class WeightedFrequencies:
    """Spectral measure of an encoding: declared, or from the periodogram of its table."""

    method: Method  # declared or periodogram
    frequencies: Floats  # (m,) radians per position; on a grid (m, axes)
    weights: Floats  # (m,) shares of the energy; NaN if all vectors are zero
    visible: Floats  # frequencies after aliasing

    @property
    def declared(self) -> Floats | None:
        """The declared frequencies of a formula, or None."""
        return self.frequencies if self.method == "declared" else None

    @cached_property
    def sizes(self) -> Floats:
        """The size (m,) of each visible frequency, in any direction."""
        return norms(self.visible)

    def share(self, chosen: Bools) -> float:
        """The share of energy at some of the frequencies."""
        return float(self.weights[chosen].sum())

    @cached_property
    def at_zero(self) -> float:
        """The share of energy at frequency 0."""
        return self.share(self.sizes == 0)

    @cached_property
    def low(self) -> float:
        """The share of energy at wavelengths of four steps or longer, without frequency 0."""
        return self.share((self.sizes > 0) & (self.sizes <= LOW))

    @cached_property
    def high(self) -> float:
        """The share of energy at wavelengths shorter than four steps."""
        return self.share(self.sizes > LOW)

    @cached_property
    def centroid(self) -> float:
        """The mean frequency."""
        return float(self.sizes @ self.weights)

    @cached_property
    def cutoff95(self) -> float:
        """The frequency below or at which 95% of the energy lies."""
        return frequency_holding(MOST, self.sizes, self.weights)

    @cached_property
    def up_to_cutoff(self) -> float:
        """The share of energy at or below `cutoff95`, at least 95%."""
        return self.share(self.sizes <= self.cutoff95)

    @cached_property
    def unevenness(self) -> float:
        """Largest distance of the energy up to a frequency from an even spread over 0 … pi."""
        order = np.argsort(self.sizes, kind="stable")
        weights = self.weights[order]
        excess = np.cumsum(weights) - np.minimum(self.sizes[order] / pi, 1.0)
        return float(np.maximum(excess, weights - excess).max())

    @cached_property
    def waves(self) -> DecadeDensity:
        """Each frequency above 0 on one axis with its share of the energy, without smoothing."""
        moving = (self.visible > 0) & ~(self.weights <= NEGLIGIBLE)  # NaN stays
        return DecadeDensity(self.visible[moving], self.weights[moving], self.at_zero)

    @property
    def is_slow(self) -> bool:
        """Whether most energy above frequency 0 is in the first sixteenth of the frequency axis."""
        moving = self.waves.density.sum()
        slow = self.waves.density[self.waves.omega <= pi * FIRST].sum()
        return bool(NEGLIGIBLE < moving < 2 * slow)

    @property
    def by_decade(self) -> DecadeDensity:
        r"""Share of energy per decade of frequency.

        .. math:: p(\log_{10}\omega) = \sum_{\omega_j > 0} w_j\,
                  \mathcal{N}(\log_{10}\omega;\, \log_{10}\omega_j,\, 0.1^2)

        Frequencies are smoothed as in Eq. 15. The integral is 1 minus the share at frequency 0. A
        table of zeros gives NaN; a table with energy only at frequency 0 gives an empty density.

        >>> from pefourier.encodings import load
        >>> rope = weighted_frequencies(load("rope", d=256)).by_decade  # base 10 000: four decades
        >>> float(rope.density[len(rope.density) // 2].round(3))
        0.25
        """
        waves = self.waves
        if not len(waves.omega):
            return waves
        logs = np.log10(waves.omega)
        low, high = logs.min() - 3 * SMEAR, logs.max() + 3 * SMEAR
        exponents = np.linspace(low, high, int(np.ceil((high - low) * POINTS)) + 1)
        density = np.zeros(len(exponents))
        for part in row_blocks(len(logs), BLOCK, len(exponents)):
            offsets = (exponents - logs[part, None]) / SMEAR
            density += waves.density[part] @ np.exp(-0.5 * offsets**2)
        return DecadeDensity(10.0**exponents, density / SMEAR / sqrt(2 * pi), waves.at_zero)


def weighted_frequencies(enc: Encoding, method: Method = "auto") -> WeightedFrequencies:
    """Compute the spectral measure by a method; auto uses the declared measure if any."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    used: Method = "declared"
    if enc.measure and method != "periodogram":
        frequencies, weights = enc.measure.frequencies, enc.measure.weights
    elif method == "declared":
        raise PefourierError(
            f"the table of {enc.name} declares no spectral measure; use --method periodogram or "
            "auto"
        )
    else:
        used = "periodogram"
        frequencies, energy = periodogram(enc.domain, enc.table())
        total = energy.sum()
        weights = energy / total if total else np.full(len(energy), np.nan)
    visible = frequencies if enc.domain.irregular else alias(frequencies)
    visible = np.abs(visible) if frequencies.ndim == 1 else visible  # one axis has no sign
    return WeightedFrequencies(used, frequencies, weights, visible)


def alias(frequencies: Floats) -> Floats:
    """Fold frequencies into [-pi, pi], where integer positions show them (aliasing).

    >>> alias(np.array([-0.5, 2 * pi - 0.5, pi])).round(2)
    array([-0.5 , -0.5 ,  3.14])
    """
    inside = np.abs(frequencies) <= pi
    return np.where(inside, frequencies, (frequencies + pi) % (2 * pi) - pi)


def norms(frequencies: Floats) -> Floats:
    """Absolute values of frequencies (m,), or norms of frequency vectors (m, axes)."""
    return np.asarray(np.linalg.norm(frequencies.reshape(len(frequencies), -1), axis=1))


def frequency_holding(part: float, sizes: Floats, shares: Floats) -> float:
    """Return the lowest frequency at or below which a part of the energy lies."""
    order = np.argsort(sizes, kind="stable")
    reached = np.cumsum(shares[order]) >= part - 1e-12
    return float(sizes[order][np.argmax(reached)]) if reached.any() else np.nan


@frozen_arrays
class SpectralEstimate:
    """A spectral measure and its density over a lattice, with axes in row-major order."""

    measure: WeightedFrequencies
    sides: Counts  # points of the lattice along each axis
    sigma: float  # bandwidth in lattice steps, 0 = not smoothed
    omega: list[Floats]  # (K_a,) of each axis, radians per position
    raw: Floats  # (K_1, …) weights at their nearest points; sums to one
    smoothed: Floats  # Eq. 15; `raw` where sigma is 0

    @cached_property
    def is_blurred(self) -> bool:
        """Whether a smoothed lattice is so short that everything looks flat."""
        return len(self.sides) == 1 and 8 * self.sigma > len(self.smoothed)


def estimate_spectrum(
    enc: Encoding, lattice: int | None = None, sigma: float | None = None, method: Method = "auto"
) -> SpectralEstimate:
    """Estimate the density of an encoding without prefix; parameters as in `questions.spectrum`.

    With several axes, each point represents several frequencies.
    """
    sides = lattice_sides(enc, lattice)
    smallest = round(LEAST_SIGMA * sqrt(len(sides)), 3)
    if sigma and not smallest <= sigma < np.inf:
        raise PefourierError(
            f"sigma must be 0 (no smoothing) or a finite number of at least {smallest} lattice "
            f"steps, to reach the nearest point; got {sigma}"
        )
    measure = weighted_frequencies(enc, method)
    steps = measure.visible * (np.array(sides) / (2 * pi))
    if sigma is None:
        is_on_lattice = np.abs(steps - np.rint(steps)).max() < 1e-9
        sigma = DEFAULT_SIGMA if len(sides) == 1 else DEFAULT_GRID_SIGMA
        sigma = 0.0 if measure.method == "declared" and is_on_lattice else sigma
    if len(sides) > 1:
        weighted, count = (measure.visible, measure.weights, sides), multiplicity(sides)
        raw = torus_density(*weighted, 0.0) * count
        smoothed = torus_density(*weighted, sigma) * count if sigma else raw
        return SpectralEstimate(measure, sides, sigma, half_plane(sides), raw, smoothed)
    points = sides[0] // 2 + 1
    if enc.domain.irregular:  # without aliases
        points = max(points, ceil(steps.max() + 3 * sigma) + 1)
    check_count(f"lattice points up to the highest frequency of {enc.name}", points, 2, LATTICE)
    raw = at_nearest_points(steps, measure.weights, points)
    smoothed = smear(steps, measure.weights, points, sigma) if sigma else raw
    omega = 2 * pi * np.arange(points) / sides[0]
    return SpectralEstimate(measure, sides, sigma, [omega], raw, smoothed)


def lattice_sides(enc: Encoding, lattice: int | None) -> Counts:
    """Points of the lattice along each axis: as given, or the default of the encoding."""
    axes = len(enc.domain.sides)
    if axes == 1 or lattice is not None:
        n = (enc.lattice or enc.dim) if lattice is None else lattice
        check_count("lattice", n, 2, LATTICE)
        sides = (n,) * axes
    else:
        sides = enc.domain.sides
    check_size("a lattice", *sides, limit=LATTICE)
    return sides


def at_nearest_points(steps: Floats, weights: Floats, points: int) -> Floats:
    """Add each weight to its nearest lattice point, split between two at equal distance."""
    edges = np.array([np.ceil(steps - 0.5 - 1e-9), np.floor(steps + 0.5 + 1e-9)]).astype(int)
    nearest = np.clip(edges, 0, points - 1).ravel()
    return np.asarray(np.bincount(nearest, np.tile(weights / 2, 2), points), dtype=float)


def smear(steps: Floats, weights: Floats, points: int, sigma: float) -> Floats:
    """Eq. 15: a Gaussian of width sigma around every frequency, normalized over the lattice.

    The loop runs over the distance r from the nearest lattice point of each frequency. This costs
    (frequencies x reach), not (frequencies x points), and memory only for frequencies and points.
    """
    # Beyond 39 sigma a term underflows to zero; beyond 10.3 sigma it is under 1e-22 of the peak.
    tails = 39.0 if len(steps) * 78 * sigma <= SMALL else 10.3
    reach = min(int(np.ceil(tails * min(sigma, points))), points)
    nearest = np.clip(np.rint(steps).astype(int), 0, points - 1)
    order = np.argsort(nearest, kind="stable")  # sorted, so each block covers a short stretch
    nearest, offsets, weights = nearest[order], (nearest - steps)[order], weights[order]
    g = np.zeros(points + 2 * reach)
    for part in row_blocks(len(nearest), AT_ONCE):
        first, places = nearest[part][0], nearest[part] - nearest[part][0]
        for r in range(-reach, reach + 1):
            height = weights[part] * np.exp(-0.5 * ((offsets[part] + r) / sigma) ** 2)
            start = first + r + reach
            g[start : start + places[-1] + 1] += np.bincount(places, weights=height)
    density = g[reach : reach + points]
    return np.asarray(density / density.sum())


@frozen
class DensitySummary:
    """Single numbers of a spectrum; frequencies in radians per position."""

    lowest_bin_index: float | None  # root of Eq. 16, where frequencies enter the lowest bin
    below_first_bin: int | None  # declared frequencies strictly below 2 pi / N
    frequencies_total: int | None
    lowest_bin_share: float  # density at k = 0
    centroid: float  # mean frequency
    cutoff95: float  # smallest frequency with 95% of the density at or below it
    flatness: float  # exp(entropy) / K, 1 = flat
    mean_share: float | None = None  # share of a table's energy in the mean row


def summarize_density(enc: Encoding, estimate: SpectralEstimate) -> DensitySummary:
    """Summarize a density; some points represent two frequencies."""
    sides, density, declared = estimate.sides, estimate.smoothed, estimate.measure.declared
    on_line = len(sides) == 1
    sizes, shares = norms(lattice_points(estimate.omega)), density.ravel()
    times = np.broadcast_to(1.0 if on_line else multiplicity(sides), density.shape)
    per_point = (density / times).ravel()
    positive = per_point > 0
    entropy = -(shares[positive] * np.log(per_point[positive])).sum()
    slow = root = total = None
    if declared is not None:
        total = len(declared)
        vectors = np.abs(declared.reshape(total, -1))
        slow = int((vectors < 2 * pi / np.array(sides)).all(axis=1).sum())
        root = lowest_bin_index(enc, declared) if on_line else None
    return DensitySummary(
        lowest_bin_index=root,
        below_first_bin=slow,
        frequencies_total=total,
        lowest_bin_share=float(per_point[0]),
        centroid=float(sizes @ shares),
        cutoff95=frequency_holding(MOST, sizes, shares),
        flatness=float(np.exp(entropy) / times.sum()) if positive.any() else np.nan,
        mean_share=mean_share(enc, estimate.measure),
    )


def lowest_bin_index(enc: Encoding, frequencies: Floats) -> float | None:
    """The root d ln(d / 2 pi) / ln rho of Eq. 16, where frequencies are rho^(-l/d), l = 0, 2, …"""
    rho, d = enc.params.get("rho"), enc.dim
    if rho is None or rho <= 0 or rho == 1:
        return None
    with np.errstate(over="ignore"):  # an infinite grid does not match the frequencies
        grid = rho ** (-2.0 * np.arange(len(frequencies)) / d)
    geometric = np.allclose(frequencies, grid, rtol=1e-9, atol=0)
    return d * log(d / (2 * pi)) / log(rho) if geometric else None


def mean_share(enc: Encoding, measure: WeightedFrequencies) -> float | None:
    """Share of a table's energy in its mean row; None if no table was analyzed.

    It equals the energy at frequency 0 of the periodogram: n times the squared mean row.
    """
    no_table = measure.declared is not None or not enc.domain.has_lags
    if no_table or np.isnan(measure.weights).any():
        return None
    return 0.0 if enc.params.get("demean") else measure.at_zero


def share_of_mean_row(enc: Encoding) -> float:
    """Share of the energy of all vectors in their mean row.

    For a sinusoid at n even steps, it is the squared Dirichlet kernel (sin(nω/2) / n sin(ω/2))²;
    other vectors are summed.

    >>> from pefourier.encodings import load
    >>> rope = load("rope", length=2, d=2)  # vectors 1 rad apart: cos(1/2)²
    >>> round(share_of_mean_row(rope), 4)
    0.7702
    """
    if enc.is_stationary:
        weights = enc.measure.weights
        rotations = alias(enc.measure.frequencies.reshape(len(weights), -1)) / (2 * pi)
        kernels = np.sinc(rotations * enc.domain.sides) / np.sinc(rotations)
        return float(weights @ kernels.prod(axis=1) ** 2)
    blocks = [(rows.sum(axis=0), (rows**2).sum()) for _, rows in enc.blocks()]
    total, energy = (np.sum(part, axis=0) for part in zip(*blocks, strict=True))
    return float((total**2).sum() / (len(enc) * energy)) if energy else np.nan


def sampled_density(kernel: Floats) -> Floats:
    r"""Energy of n samples at 0, 1 … n // 2 cycles, given their kernel at the lags below n.

    The lags m and n - m have the same wave at the n frequencies, so the energy is the transform of
    :math:`(n - m) K(m) + m K(n - m)`. Both directions are summed; if K(0) is 1, so is the sum.

    >>> sampled_density(np.cos(np.arange(4) * pi / 4)).round(4)  # half a cycle
    array([0.4268, 0.5   , 0.0732])
    """
    n, lags = len(kernel), np.arange(len(kernel))
    wrapped = (n - lags) * kernel + lags * np.roll(kernel[::-1], 1)
    return np.fft.rfft(wrapped).real / n**2 * multiplicity((n,))


def axis_shares(enc: Encoding, measure: WeightedFrequencies) -> Fields:
    """Orientation of a spectral measure relative to the axes.

    `isotropy` has A2 and A4. `idle` and `aliased` are shares for each axis: of wavelengths above
    the side, and of frequencies above pi. Aliased shares need declared frequencies. Idle shares can
    also use frequencies fitted to sinusoidal columns.
    """
    frequencies, weights = measure.frequencies.reshape(len(measure.weights), -1), measure.weights
    is_declared = measure.declared is not None
    waves = (frequencies, weights) if is_declared else frequencies_read(enc)
    return {
        "isotropy": isotropy(alias(frequencies), weights),
        "idle": None if waves is None else idle_shares(*waves, enc.domain.sides),
        "aliased": aliased_shares(frequencies, weights) if is_declared else None,
    }


def frequencies_read(enc: Encoding) -> tuple[Floats, Floats] | None:
    """Fit frequencies (m, axes) and weights to a table on a grid if all columns are sinusoids."""
    from pefourier.construction.waves import fit_columns  # tables on grids only

    lines = axis_encodings(enc)
    if lines is None or any(len(line) < 3 or not line.table().any() for line in lines):
        return None
    omega, energies = [], []
    for line, axis in zip(lines, np.eye(len(lines)), strict=True):
        pairs = fit_columns(line.float_table(), max(enc.eps, FLOAT32_EPS))
        if pairs is None:
            return None
        omega.append(np.outer(pairs.frequency * (pairs.frequency > NEGLIGIBLE), axis))
        energies.append(pairs.amplitude**2)
    weights = np.concatenate(energies)
    return np.concatenate(omega), weights / weights.sum()


FEW = 6  # most frequencies of a table that are named
SAME = 1e-5  # relative difference of fitted frequencies that counts as rounding
PURE = 1 - 1e-6  # least cosine of the errors of phases
LARGEST = 2**22  # most numbers of a table whose frequencies are named


def few_frequencies(enc: Encoding) -> Floats:
    """Return the frequencies, from low to high, if columns are pairs of sinusoids of at most `FEW`.

    >>> from pefourier.encodings.encoding import from_table
    >>> angles = np.outer(np.arange(40), [0.5, 1, 0.5])
    >>> few_frequencies(from_table(np.hstack([np.cos(angles), np.sin(angles)]))).round(9)
    array([0.5, 1. ])
    """
    from pefourier.construction.waves import fit_columns  # tables only

    is_read = enc.domain.is_line and enc.domain.kind == "position" and len(enc) * enc.dim <= LARGEST
    pairs = fit_columns(enc.float_table(), max(enc.eps, FLOAT32_EPS)) if is_read else None
    if pairs is None or pairs.columns.size < enc.dim or pairs.frequency.min() <= NEGLIGIBLE:
        return np.zeros(0)
    steps, lines = np.arange(len(enc)), np.sort(pairs.frequency)
    phases = np.angle(pairs.numbers(steps)) - pairs.phase - np.outer(steps, pairs.frequency)
    lines = lines[np.append(True, np.diff(lines) > SAME * lines[1:])]
    is_pure = np.cos(phases).min() > PURE and len(lines) <= FEW
    return np.asarray(lines if is_pure else [])

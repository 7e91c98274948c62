"""Frequency density of an encoding: Eq. 15 of the paper.

Conventions
-----------
The lattice of N points has angular frequencies omega_k = 2 pi k / N, k = 0 … N // 2, radians per
position, or per mean step of times. An encoding's spectral measure (frequencies, weights) is
declared by those made of sinusoids and estimated by the periodogram of the table otherwise.
Frequencies above pi fold back, but for times at uneven steps: there none looks like another, and
the lattice goes on to the fastest declared one.
A lattice of several axes is a torus (`geometry.torus`) with half of its frequencies, as
``numpy.rfftn`` has them. Verdicts are read from the measure, never from the lattice it is drawn on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import pi
from typing import Any, ClassVar

import numpy as np

from pefourier.encodings.domain import half_plane
from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    as_encoding,
    without_mean,
    without_prefix,
)
from pefourier.encodings.findings import finding
from pefourier.encodings.places import axis_names, unit_of_waves
from pefourier.geometry.torus import (
    least_sigma,
    multiplicity,
    torus_density,
)
from pefourier.questions.result import BESIDE, ON_GRIDS, Result
from pefourier.questions.spectral_density import (
    NEGLIGIBLE,
    DensitySummary,
    at_nearest_points,
    check_sigma,
    choose_method,
    declared_mean_share,
    describe_on_grid,
    first_holding,
    frequencies_and_weights,
    lattice_sides,
    mean_share,
    points_of_line,
    smoothed,
    summarize_density,
    usual_sigma,
    visible_frequencies,
)
from pefourier.writing.text import percent

LEAST_SIGMA = 0.02  # half a step away, exp(-x^2/2) is still a number
LOW = pi / 2 * (1 + 1e-9)  # frequencies up to here have wavelengths of four steps or longer
MOST, MANY, SOME = 0.95, 0.75, 0.05  # shares of the energy
EVEN = 0.15  # largest distance of the cumulative energy from that of an even spread
PEAKS, PEAK = 4, 0.05  # waves of a table that are listed, and the least share of its energy
ONE_SIDED, ROUND = 0.99, 0.15  # of A2 and A4: one or two directions, and none
MOST_WAVES = 0.5  # share of frequencies that is worth saying


@dataclass(frozen=True)
class Peak:
    """A wave of a measured table that holds more of its energy than those next to it."""

    period: float  # in positions, or the unit of irregular times
    share: float  # of the energy


@dataclass(frozen=True, repr=False)
class Spectrum(Result):
    """A density over the lattice, which may have several axes, the slowest first."""

    shown: ClassVar[dict[str, str]] = {
        "lattice points N": "lattice",
        "bandwidth (lattice steps)": "sigma",
        "source of frequencies": "method",
        "frequencies": "summary.frequencies_total",
        "below the first bin (2π/N)": "summary.below_first_bin",
        "first index in the lowest bin (Eq. 16)": "summary.lowest_bin_index",
        "energy at frequency 0": "at_zero",
        "mean frequency (rad)": "centroid",
        "95% of energy at or below (rad)": "cutoff95",
        "flatness (1 = flat)": "summary.flatness",
        "energy in the mean row": "summary.mean_share",
        "A2 (1 = aligned with one axis)": "isotropy.A2",
        "A4 (1 = aligned with two axes)": "isotropy.A4",
        "share of idle frequencies": "idle",
        "share of aliased frequencies": "aliased",
        "largest step (rad)": "largest_step",
    }
    listed: ClassVar[dict[str, dict[str, str]]] = {
        "peaks": {"wavelength": "period", "share of energy": "share"},
    }

    lattice: int | tuple[int, ...]
    sigma: float  # bandwidth in lattice steps, 0 = not smoothed
    method: str
    omega: np.ndarray | list[np.ndarray]  # (K,) radians per position; on a grid of each axis
    density: np.ndarray  # (K,) sums to one; on a grid (K_1, …) over numpy.rfftn's half plane
    marginals: list[np.ndarray] | None = field(**ON_GRIDS)  # (K_a,): sums over the other axes
    radial: dict[str, np.ndarray] | None = field(**ON_GRIDS)  # omega (R,) lengths, density (R,)
    angular: dict[str, np.ndarray] | None = field(**ON_GRIDS)  # angle (12,) 0 … pi, density (12,)
    isotropy: dict[str, float] | None = field(**ON_GRIDS)  # A2, A4
    aliased: list[float] | None = field(**ON_GRIDS)  # of each axis' declared ones, those above pi
    idle: list[float] | None = field(**ON_GRIDS)  # of each axis, waves longer than the side
    largest_step: float | None = field(**ON_GRIDS)  # largest declared one, radians per point
    frequencies: np.ndarray | None  # (m,) declared, radians per position; on a grid (m, axes)
    summary: DensitySummary
    plain: np.ndarray | None = field(**BESIDE)  # the density before it was smoothed
    measure: tuple[np.ndarray, np.ndarray] | None = field(**BESIDE)  # as points show it

    @cached_property
    def lengths(self) -> np.ndarray:
        """The size (m,) of each frequency of the measure, in any direction."""
        return np.linalg.norm(self.measure[0].reshape(len(self.measure[1]), -1), axis=1)

    @property
    def verdict(self) -> str:
        """Where the measure has its energy; on a grid which directions the frequencies have."""
        if np.isnan(self.summary.lowest_bin_share):
            return "zero codes"
        if self.in_mean_row >= MOST - NEGLIGIBLE:
            return "constant"
        return verdict_by_direction(self) if self.on_grid else verdict_by_energy(self)

    @cached_property
    def in_mean_row(self) -> float:
        """The share of energy that is the same in all rows."""
        if self.frequencies is None:
            return self.at_zero
        return declared_mean_share(self.encodings[0], self.frequencies, self.measure[1])

    @cached_property
    def demean_helps(self) -> bool:
        """Whether the verdict is another without the mean row."""
        enc = self.encodings[0]
        if 1 - self.in_mean_row <= NEGLIGIBLE or not enc.fits:
            return False
        return density(without_mean(enc)).verdict != self.verdict

    @property
    def at_zero(self) -> float:
        """The share of energy that is exactly at frequency 0."""
        return self.share_of(self.lengths == 0)

    @property
    def low(self) -> float:
        """The share of energy at wavelengths of four steps or longer, without frequency 0."""
        return self.share_of((self.lengths > 0) & (self.lengths <= LOW))

    @property
    def high(self) -> float:
        """The share of energy at wavelengths shorter than four steps."""
        return self.share_of(self.lengths > LOW)

    @property
    def centroid(self) -> float:
        """The mean frequency of the measure."""
        return float(self.lengths @ self.measure[1])

    @property
    def cutoff95(self) -> float:
        """The frequency of the measure that with lower ones holds 95% of the energy."""
        return self.frequency_holding(MOST)

    @property
    def up_to_cutoff(self) -> float:
        """The share of energy at the frequencies up to that one, at least 95%."""
        return self.share_of(self.lengths <= self.cutoff95)

    @property
    def unevenness(self) -> float:
        """Largest distance of the energy up to a frequency from an even spread over 0 … pi."""
        order = np.argsort(self.lengths, kind="stable")
        weights = self.measure[1][order]
        excess = np.cumsum(weights) - np.minimum(self.lengths[order] / pi, 1.0)
        return float(np.maximum(excess, weights - excess).max())

    @property
    def unit(self) -> str:
        """What lengths of waves are counted in."""
        return unit_of_waves(self.encodings[0])[1]

    @property
    def cutoff_wave(self) -> float:
        """The shortest of the waves that, the longest first, hold 95% of the energy."""
        return self.period_of(self.cutoff95)

    def period_of(self, omega: float) -> float:
        """The length of the wave of a frequency, infinite of 0."""
        step = unit_of_waves(self.encodings[0])[0]
        return 2 * pi * step / omega if omega else np.inf

    def share_of(self, chosen: np.ndarray) -> float:
        """The share of energy at some frequencies of the measure."""
        return float(self.measure[1][chosen].sum())

    @property
    def peaks(self) -> list[Peak]:
        """The strongest waves of a measured table, of those that its points tell apart."""
        domain = self.encodings[0].domain
        if self.on_grid or self.frequencies is not None or domain.kind == "tree":
            return []
        omega, share = self.measure
        around = np.pad(share, 1)
        is_peak = (share >= PEAK) & (share > around[:-2]) & (share >= around[2:]) & (omega > 0)
        strongest = sorted(np.flatnonzero(is_peak), key=lambda i: -share[i])[:PEAKS]
        return [Peak(self.period_of(omega[i]), float(share[i])) for i in strongest]

    @property
    def findings(self) -> list[Finding]:
        """What is known of the encoding, and notes on what is beside the verdict."""
        zero = np.isnan(self.summary.lowest_bin_share)
        return [*self.encodings[0].findings, *(() if zero else notes_on_spectrum(self))]

    def series(self) -> tuple[list[str], Iterator[list[Any]]]:
        """Names of the columns of CSV, and a row for each frequency of the lattice."""
        omega = self.omega if self.on_grid else [self.omega]
        axes = [f"_{name}" for name in axis_names(len(omega))] if self.on_grid else [""]
        names = [*(f"k{axis}" for axis in axes), *(f"omega{axis}" for axis in axes), "density"]
        return names, (
            [*k, *(line[i] for line, i in zip(omega, k, strict=True)), share]
            for k, share in np.ndenumerate(self.density)
        )

    def frequency_holding(self, part: float) -> float:
        """The first frequency of the measure itself that with slower ones holds so much energy."""
        order = np.argsort(self.lengths, kind="stable")
        return first_holding(self.lengths[order], self.measure[1][order], part)


def verdict_by_energy(r: Spectrum) -> str:
    """Whether energy is at one frequency, spread evenly, at low frequencies or at high ones."""
    waves = r.lengths[r.measure[1] > NEGLIGIBLE]
    if waves.max() - waves.min() <= 1e-9 * waves.max():
        return "one frequency"
    if r.unevenness <= EVEN:
        return "even"
    if r.high <= 1 - MOST + NEGLIGIBLE:
        return "mostly slow"
    if r.high >= MANY - NEGLIGIBLE:
        return "mostly fast"
    return "slow and fast" if r.low >= SOME - NEGLIGIBLE else "constant and fast"


def verdict_by_direction(r: Spectrum) -> str:
    """Which directions the frequencies have."""
    along = np.abs(r.measure[0]) > NEGLIGIBLE
    if r.share_of(along.sum(axis=1) > 1) <= NEGLIGIBLE:
        axes = sum(r.share_of(on_axis) > NEGLIGIBLE for on_axis in along.T)
        return "along one axis" if axes == 1 else "along the axes"
    a2, a4 = r.isotropy["A2"], r.isotropy["A4"]
    if a4 >= ONE_SIDED:
        return "one direction" if a2 >= ONE_SIDED else "two directions"
    return "all directions" if max(a2, a4) <= ROUND else "uneven directions"


def is_blurred(r: Spectrum) -> bool:
    """Whether a smoothed lattice is so short that everything looks flat."""
    return not r.on_grid and 8 * r.sigma > len(r.omega)


def notes_on_spectrum(r: Spectrum) -> Iterator[Finding]:
    """What smoothing hides, what is the same in all rows, what whole positions alias."""
    enc = r.encodings[0]
    if is_blurred(r):
        yield finding("coarse-lattice", sigma=r.sigma)
    share = r.summary.mean_share
    if not r.on_grid and share is not None and share >= SOME:
        yield finding("common-part", share=percent(share))
    if r.frequencies is not None and not enc.domain.irregular:
        fast = np.abs(r.frequencies).reshape(len(r.frequencies), -1).max(axis=1) > pi
        if fast.any():
            yield finding("aliased-frequencies", count=int(fast.sum()), total=len(fast))
    idle = [share for share in r.idle or () if not np.isnan(share)]
    if r.on_grid and max(idle, default=0.0) >= MOST_WAVES:
        yield finding("idle-waves", share=percent(max(idle)))
    if enc.untrained:
        yield finding("before-training")


def density(
    encoding: Encoding | np.ndarray,
    lattice: int | None = None,
    sigma: float | None = None,
    method: str = "auto",
) -> Spectrum:
    r"""The kernel-density frequency distribution of Eq. 15.

    .. math:: g_k \propto \sum_j w_j \exp\left(-\frac{(k - N\omega_j/2\pi)^2}{2\sigma^2}\right),
              \qquad \sum_k g_k = 1.

    Parameters
    ----------
    encoding : Encoding or np.ndarray, shape (n, d)
        An encoding, or a table with one row a position.
    lattice : int, optional
        N, by default the dimension d, or the length where a longer one was asked for, or a model's
        config sets it.
    sigma : float, optional
        Bandwidth in lattice steps, default 4; 0 gives each frequency's weight to its nearest
        lattice point (halves to two equally near). Left out, a declared measure that lies wholly on
        the lattice is not smoothed: Eq. 22.
    method : str
        "declared", "periodogram", or "auto": declared where there is one.

    Returns
    -------
    Spectrum
        Of an encoding with several axes on a lattice of as many: there N defaults to the sides, a
        given one is that of every axis, sigma defaults to 1, and rows before the lattice are left
        out. Its density is `torus_density` times the frequencies that each point stands for.

    Notes
    -----
    What a kernel holds outside 0 … pi is left out, as in the paper, and the rest is scaled to 1: of
    a wave near 0 that is half, so that smearing moves the mean up; `before_smearing` has the
    measure's own numbers. Each wave has one weight: at odd d the sinusoidal encoding's lone last
    sine has half of a pair's (the paper has even d alone). A table of zeros has no spectrum: its
    density is NaN. Up to 2^25 frequency-lattice pairs the sum is complete; beyond, terms under
    1e-22 of a peak's are left out.

    References
    ----------
    .. [1] T. Idé, J. Labaien, P.-Y. Chen, "Improving Transformers using Faithful Positional
       Encoding", arXiv:2405.09061.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> density(load("dft", d=8)).density
    array([0.125, 0.25 , 0.25 , 0.25 , 0.125])
    """
    enc = without_prefix(as_encoding(encoding))
    axes = len(enc.domain.sides)
    sides = lattice_sides(enc, lattice)
    check_sigma(sigma, round(least_sigma(axes, LEAST_SIGMA), 3))
    used = choose_method(enc, method)
    frequencies, weights = frequencies_and_weights(enc, used)
    inside = visible_frequencies(enc, frequencies)
    steps = inside * (np.array(sides) / (2 * pi))
    sigma = usual_sigma(steps, used, axes) if sigma is None else sigma
    declared = frequencies if used == "declared" else None
    omega, g, plain = densities(enc, sides, inside, weights, sigma)
    summary = summarize_density(enc, omega, g, sides, declared)
    share = mean_share(enc, used, frequencies, weights)
    return Spectrum(
        lattice=sides[0] if axes == 1 else sides,
        sigma=sigma,
        method=used,
        omega=omega,
        density=g,
        frequencies=declared,
        summary=replace(summary, mean_share=share),
        plain=plain,
        measure=(inside, weights),
        encodings=(enc,),
        **(describe_on_grid(enc, g, sides, used, declared) if axes > 1 else {}),
    )


def densities(
    enc: Encoding,
    sides: tuple[int, ...],
    frequencies: np.ndarray,
    weights: np.ndarray,
    sigma: float,
) -> tuple[np.ndarray | list[np.ndarray], np.ndarray, np.ndarray]:
    """Frequencies of a lattice, the density at each, and that before it was smoothed.

    Points of several axes stand for several frequencies each.
    """
    if len(sides) > 1:
        count = multiplicity(sides)
        g = torus_density(frequencies, weights, sides, sigma) * count
        plain = torus_density(frequencies, weights, sides, 0.0) * count if sigma else g
        return half_plane(sides), g, plain
    steps = frequencies * (sides[0] / (2 * pi))
    points = points_of_line(enc, sides[0], steps, sigma)
    plain = at_nearest_points(steps, weights, points)
    g = smoothed(steps, weights, points, sigma) if sigma else plain
    return 2 * pi * np.arange(points) / sides[0], g, plain

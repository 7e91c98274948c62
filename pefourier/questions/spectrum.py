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
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import pi
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    Floats,
    as_encoding,
    without_mean,
    without_prefix,
)
from pefourier.encodings.findings import finding
from pefourier.encodings.places import axis_names, unit_of_waves
from pefourier.geometry.torus import directions_of
from pefourier.questions.result import HIDDEN, Result
from pefourier.questions.spectral_density import (
    MOST,
    NEGLIGIBLE,
    DensitySummary,
    Method,
    SpectralEstimate,
    WeightedFrequencies,
    axis_shares,
    declared_mean_share,
    estimate_spectrum,
    summarize_density,
)
from pefourier.writing.text import percent

MANY, SOME = 0.75, 0.05  # shares of the energy
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
    """A density over a lattice: a `LineSpectrum` or, over several axes, a `GridSpectrum`."""

    shown: ClassVar[dict[str, str]] = {
        "lattice points N": "lattice",
        "bandwidth (lattice steps)": "sigma",
        "source of frequencies": "method",
        "frequencies": "summary.frequencies_total",
        "below the first bin (2π/N)": "summary.below_first_bin",
        "first index in the lowest bin (Eq. 16)": "summary.lowest_bin_index",
        "energy at frequency 0": "measure.at_zero",
        "mean frequency (rad)": "measure.centroid",
        "95% of energy at or below (rad)": "measure.cutoff95",
        "flatness (1 = flat)": "summary.flatness",
        "energy in the mean row": "summary.mean_share",
        "A2 (1 = aligned with one axis)": "isotropy.A2",
        "A4 (1 = aligned with two axes)": "isotropy.A4",
        "share without a full rotation": "idle",
        "share of aliased frequencies": "aliased",
        "largest step (rad)": "largest_step",
    }

    lattice: int | tuple[int, ...]
    sigma: float  # bandwidth in lattice steps, 0 = not smoothed
    method: str
    omega: Floats | list[Floats]  # radians per position; of each axis
    density: Floats  # sums to one
    frequencies: Floats | None  # (m,) declared, radians per position
    summary: DensitySummary
    estimate: SpectralEstimate = field(compare=False, metadata=HIDDEN)

    @property
    def measure(self) -> WeightedFrequencies:
        """The frequencies as points show them, with their weights."""
        return self.estimate.measure

    @property
    def verdict(self) -> str:
        """Where the measure has its energy; on a grid which directions the frequencies have."""
        if np.isnan(self.summary.lowest_bin_share):
            return "zero codes"
        if self.in_mean_row >= MOST - NEGLIGIBLE:
            return "constant"
        if isinstance(self, GridSpectrum):
            return verdict_by_direction(self)
        return verdict_by_energy(self.measure)

    @cached_property
    def in_mean_row(self) -> float:
        """The share of energy that is the same in all rows."""
        enc = self.encodings[0]
        if enc.measure is None or self.measure.declared is None:
            return self.measure.at_zero
        return declared_mean_share(enc, enc.measure)

    @cached_property
    def demean_helps(self) -> bool:
        """Whether the verdict is another without the mean row."""
        enc = self.encodings[0]
        if 1 - self.in_mean_row <= NEGLIGIBLE or not enc.fits:
            return False
        return spectrum(without_mean(enc)).verdict != self.verdict

    @property
    def findings(self) -> list[Finding]:
        """What is known of the encoding, and notes on what is beside the verdict."""
        zero = np.isnan(self.summary.lowest_bin_share)
        return [*self.encodings[0].findings, *(() if zero else notes_on_spectrum(self))]


@dataclass(frozen=True, repr=False)
class LineSpectrum(Spectrum):
    """A density over the N // 2 + 1 = K points of a lattice of one axis."""

    listed: ClassVar[dict[str, dict[str, str]]] = {
        "peaks": {"wavelength": "period", "share of energy": "share"}
    }

    lattice: int
    omega: Floats  # (K,), as is the density

    @property
    def unit(self) -> str:
        """What lengths of waves are counted in."""
        return unit_of_waves(self.encodings[0])[1]

    @property
    def cutoff_wave(self) -> float:
        """The shortest of the waves that, the longest first, hold 95% of the energy."""
        return self.period_of(self.measure.cutoff95)

    def period_of(self, omega: float) -> float:
        """The length of the wave of a frequency, infinite of 0."""
        step = unit_of_waves(self.encodings[0])[0]
        return 2 * pi * step / omega if omega else np.inf

    @property
    def peaks(self) -> list[Peak]:
        """The strongest waves of a measured table, of those that its points tell apart."""
        if self.measure.declared is not None or self.encodings[0].domain.kind == "tree":
            return []
        omega, share = self.measure.visible, self.measure.weights
        around = np.pad(share, 1)
        is_peak = (share >= PEAK) & (share > around[:-2]) & (share >= around[2:]) & (omega > 0)
        strongest = sorted(np.flatnonzero(is_peak), key=lambda i: -share[i])[:PEAKS]
        return [Peak(self.period_of(omega[i]), float(share[i])) for i in strongest]

    def series(self) -> tuple[list[str], Iterator[list[Any]]]:
        """Names of the columns of CSV, and a row for each frequency of the lattice."""
        rows = ([k, omega, self.density[k]] for k, omega in enumerate(self.omega))
        return ["k", "omega", "density"], rows


@dataclass(frozen=True, repr=False)
class GridSpectrum(Spectrum):
    """A density (K_1, …) over numpy.rfftn's half plane, the slowest axis first."""

    on_grid: ClassVar[bool] = True

    lattice: tuple[int, ...]
    omega: list[Floats]  # (K_a,) of each axis
    marginals: list[Floats]  # (K_a,): sums over the other axes
    radial: dict[str, Floats]  # omega (R,) lengths, density (R,)
    angular: dict[str, Floats]  # angle (12,) 0 … pi, density (12,)
    isotropy: dict[str, float]  # A2, A4
    aliased: list[float] | None  # of each axis' declared ones, those above pi
    idle: list[float] | None  # of each axis, waves longer than the side
    largest_step: float | None  # largest declared one, radians per point

    def series(self) -> tuple[list[str], Iterator[list[Any]]]:
        """Names of the columns of CSV, and a row for each frequency of the lattice."""
        axes = axis_names(len(self.omega))
        names = [*(f"k_{axis}" for axis in axes), *(f"omega_{axis}" for axis in axes), "density"]
        return names, (
            [*k, *(line[i] for line, i in zip(self.omega, k, strict=True)), share]
            for k, share in np.ndenumerate(self.density)
        )


def verdict_by_energy(measure: WeightedFrequencies) -> str:
    """Whether energy is at one frequency, spread evenly, at low frequencies or at high ones."""
    waves = measure.sizes[measure.weights > NEGLIGIBLE]
    if waves.max() - waves.min() <= 1e-9 * waves.max():
        return "one frequency"
    if measure.unevenness <= EVEN:
        return "even"
    if measure.high <= 1 - MOST + NEGLIGIBLE:
        return "mostly slow"
    if measure.high >= MANY - NEGLIGIBLE:
        return "mostly fast"
    return "slow and fast" if measure.low >= SOME - NEGLIGIBLE else "constant and fast"


def verdict_by_direction(r: GridSpectrum) -> str:
    """Which directions the frequencies have."""
    along = np.abs(r.measure.visible) > NEGLIGIBLE
    if r.measure.share(along.sum(axis=1) > 1) <= NEGLIGIBLE:
        axes = sum(r.measure.share(on_axis) > NEGLIGIBLE for on_axis in along.T)
        return "along one axis" if axes == 1 else "along the axes"
    a2, a4 = r.isotropy["A2"], r.isotropy["A4"]
    if a4 >= ONE_SIDED:
        return "one direction" if a2 >= ONE_SIDED else "two directions"
    return "all directions" if max(a2, a4) <= ROUND else "uneven directions"


def notes_on_spectrum(r: Spectrum) -> Iterator[Finding]:
    """What smoothing hides, what is the same in all rows, what whole positions alias."""
    enc, share = r.encodings[0], r.summary.mean_share
    if enc.injection == "rotate":
        yield finding("rotation-spectrum")
    if r.estimate.is_blurred:
        yield finding("coarse-lattice", sigma=r.sigma)
    if isinstance(r, LineSpectrum) and share is not None and share >= SOME:
        yield finding("common-part", share=percent(share))
    if r.frequencies is not None and not enc.domain.irregular:
        fast = np.abs(r.frequencies).reshape(len(r.frequencies), -1).max(axis=1) > pi
        if fast.any():
            yield finding("aliased-frequencies", count=int(fast.sum()), total=len(fast))
    if isinstance(r, GridSpectrum):
        idle = max((share for share in r.idle or () if not np.isnan(share)), default=0.0)
        if idle >= MOST_WAVES:
            yield finding("idle-waves", share=percent(idle))
    if enc.untrained:
        yield finding("before-training")


def spectrum(
    encoding: Encoding | ArrayLike,
    lattice: int | None = None,
    sigma: float | None = None,
    method: Method = "auto",
) -> LineSpectrum | GridSpectrum:
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
    LineSpectrum or GridSpectrum
        The second of an encoding with several axes: there N defaults to the sides, a given one is
        that of every axis, sigma defaults to 1, and rows before the lattice are left out. Its
        density is `torus_density` times the frequencies that each point stands for.

    Notes
    -----
    What a kernel holds outside 0 … pi is left out, as in the paper, and the rest is scaled to 1: of
    a wave near 0 that is half, so that smearing moves the mean up; `measure` has the
    numbers before smearing. Each wave has one weight: at odd d the sinusoidal encoding's lone last
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
    >>> spectrum(load("dft", d=8)).density
    array([0.125, 0.25 , 0.25 , 0.25 , 0.125])
    """
    enc = without_prefix(as_encoding(encoding))
    estimate = estimate_spectrum(enc, lattice, sigma, method)
    kind: partial[LineSpectrum] | partial[GridSpectrum]
    if len(estimate.sides) == 1:
        kind = partial(LineSpectrum, lattice=estimate.sides[0], omega=estimate.omega[0])
    else:
        kind = on_grid(enc, estimate)
    return kind(
        sigma=estimate.sigma,
        method=estimate.measure.method,
        density=estimate.smoothed,
        frequencies=estimate.measure.declared,
        summary=summarize_density(enc, estimate),
        estimate=estimate,
        encodings=(enc,),
    )


def on_grid(enc: Encoding, estimate: SpectralEstimate) -> partial[GridSpectrum]:
    """An answer with what only a density over several axes has."""
    sides, density, declared = estimate.sides, estimate.smoothed, estimate.measure.declared
    rings, axes = directions_of(density, sides), range(len(sides))
    return partial(
        GridSpectrum,
        lattice=sides,
        omega=estimate.omega,
        marginals=[density.sum(axis=tuple(b for b in axes if b != a)) for a in axes],
        radial={"omega": rings.lengths, "density": rings.radial},
        angular={"angle": rings.angles, "density": rings.angular},
        **axis_shares(enc, estimate.measure),
        largest_step=None if declared is None else float(np.abs(declared).max()),
    )

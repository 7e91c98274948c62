"""Frequency density of an encoding: Eq. 15 of the paper.

Conventions
-----------
The lattice of N points has angular frequencies omega_k = 2 pi k / N, k = 0 … N // 2, radians per
position, or per mean step of times. Sinusoidal encodings declare their spectral measure
(frequencies, weights); for other encodings, the periodogram of the table estimates it. Frequencies
above pi fold back, except for times at uneven steps: these have no aliases, and the lattice extends
to the highest declared frequency. A lattice of several axes is a torus (`geometry.torus`) with the
half plane of frequencies of ``numpy.rfftn``. Verdicts use the measure, not the smoothed density.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from math import pi
from typing import Any

import numpy as np

from pefourier.encodings.encoding import (
    Finding,
    axis_letters,
    finding,
    unit_of_waves,
    without_mean,
    without_prefix,
)
from pefourier.encodings.loader import Count, Source, load, whole_numbers
from pefourier.geometry.torus import directions_of
from pefourier.questions.result import Result
from pefourier.questions.spectral_density import (
    MOST,
    NEGLIGIBLE,
    DensitySummary,
    Method,
    SpectralEstimate,
    WeightedFrequencies,
    axis_shares,
    estimate_spectrum,
    few_frequencies,
    mean_share,
    share_of_mean_row,
    summarize_density,
)
from pefourier.types import Counts, CsvTable, Fields, Floats, frozen, hidden, later
from pefourier.writing.text import Verdict, join, number, percent

MANY, SOME = 0.75, 0.05  # shares of the energy
EVEN = 0.15  # largest distance of the cumulative energy from an even spread
PEAKS, PEAK = 4, 0.05  # most peaks of a table that are listed, and their least share of energy
ONE_SIDED, ROUND = 0.99, 0.15  # limits of A2 and A4 for one or two directions, and for none
MOST_WAVES = 0.5  # share of idle frequencies that is reported


@frozen
class Spectrum(Result):
    """A density over a lattice: a `LineSpectrum` or, over several axes, a `GridSpectrum`."""

    command = "spectrum"
    figure = "spectrum"
    curves = "spectrum_chart"
    verdicts = {
        "zero codes": Verdict(
            "All vectors are zero, so there is no spectrum.",
            "Check the table or its source code.",
            title="zero vectors",
        ),
        "constant": Verdict(
            "The mean row has {r.in_mean_row:3%} of the energy: vectors are nearly the same at "
            "every position.",
            "{r.demean_helps:?Use --demean to remove the mean row.}",
        ),
        "one frequency": Verdict(
            "All energy is at one frequency, a wavelength of {r.cutoff_wave:4} {r.unit}.",
        ),
        "few frequencies": Verdict("Wavelengths of {r.few_waves} {r.unit} carry all energy."),
        "even": Verdict(
            "The energy is spread evenly over the frequency axis: the share below a frequency "
            "differs from an even spread by at most {r.measure.unevenness:2%}.",
        ),
        "mostly slow": Verdict(
            "Wavelengths of {r.cutoff_wave:3-} {r.unit} or longer carry "
            "{r.measure.up_to_cutoff:3%} of the energy. Long wavelengths separate distant "
            "positions; short ones separate neighbours.",
            title="mostly low frequencies",
        ),
        "mostly fast": Verdict(
            "Wavelengths below four steps carry {r.measure.high:3%} of the energy. Short "
            "wavelengths separate neighbours; long ones separate distant positions.",
            title="mostly high frequencies",
        ),
        "slow and fast": Verdict(
            "Wavelengths of four steps or longer carry {r.measure.low:3%} of the energy, shorter "
            "ones {r.measure.high:3%}; the zero frequency has {r.measure.at_zero:3%}.",
            title="low and high frequencies",
        ),
        "constant and fast": Verdict(
            "The zero frequency has {r.measure.at_zero:3%} of the energy, wavelengths shorter than "
            "four steps {r.measure.high:3%} and longer ones {r.measure.low:3%}.",
            title="constant and high frequencies",
        ),
        "along one axis": Verdict(
            "Every frequency runs along one axis; the mean frequency is {r.measure.centroid:3} rad "
            "per point.",
        ),
        "along the axes": Verdict(
            "Every frequency runs along an axis, none diagonally; the mean frequency is "
            "{r.measure.centroid:3} rad per point.",
        ),
        "one direction": Verdict(
            "The frequencies run in one diagonal direction (A2 {r.isotropy[A2]:3}; 1 if exactly); "
            "the mean frequency is {r.measure.centroid:3} rad per point.",
        ),
        "two directions": Verdict(
            "The frequencies run in two directions at right angles (A4 {r.isotropy[A4]:3}; 1 if "
            "exactly); the mean frequency is {r.measure.centroid:3} rad per point.",
        ),
        "all directions": Verdict(
            "The frequencies favour no direction and no right-angled pair of directions (A2 "
            "{r.isotropy[A2]:2}, A4 {r.isotropy[A4]:2}; 0 without any preference); the mean "
            "frequency is {r.measure.centroid:3} rad per point.",
        ),
        "uneven directions": Verdict(
            "The frequencies favour some directions (A2 {r.isotropy[A2]:2}, A4 {r.isotropy[A4]:2}; "
            "0 if none); the mean frequency is {r.measure.centroid:3} rad per point.",
        ),
    }
    shown = {
        "lattice points N": "lattice",
        "bandwidth (lattice steps)": "sigma",
        "source of frequencies": "method",
        "frequencies": "count",
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
    short = {
        "shown": (
            "source of frequencies",
            "frequencies",
            "energy at frequency 0",
            "mean frequency (rad)",
            "95% of energy at or below (rad)",
            "A2 (1 = aligned with one axis)",
            "A4 (1 = aligned with two axes)",
        ),
    }

    lattice: int | Counts
    sigma: float  # bandwidth in lattice steps, 0 = not smoothed
    method: str
    omega: Floats | list[Floats]  # radians per position; of each axis
    density: Floats  # sums to one
    frequencies: Floats | None  # (m,) declared, radians per position
    summary: DensitySummary
    estimate: SpectralEstimate = hidden(compare=False)

    @cached_property
    def measure(self) -> WeightedFrequencies:
        """The frequencies and weights of the encoding."""
        return self.estimate.measure

    @property
    def is_zero(self) -> bool:
        """Whether all vectors are zero."""
        return bool(np.isnan(self.measure.weights).any())

    @property
    def count(self) -> int | None:
        """Number of declared frequencies."""
        return None if self.frequencies is None else len(self.frequencies)

    @cached_property
    def verdict(self) -> str:
        """Location of the energy in frequency; on a grid, the directions of frequencies."""
        if self.is_zero:
            return "zero codes"
        if self.in_mean_row >= MOST - NEGLIGIBLE:
            return "constant"
        return self.place_of_energy

    @cached_property
    def few(self) -> Floats:
        """The few frequencies that make up a table, if it has no others."""
        return few_frequencies(self.encoding) if self.measure.declared is None else np.zeros(0)

    @property
    def place_of_energy(self) -> str:
        """Verdict: energy at few frequencies, spread evenly, or at low or high frequencies."""
        measure = self.measure
        waves = measure.sizes[measure.weights > NEGLIGIBLE]
        if len(self.few) == 1 or waves.max() - waves.min() <= 1e-9 * waves.max():
            return "one frequency"
        if len(self.few):
            return "few frequencies"
        if measure.unevenness <= EVEN:
            return "even"
        if measure.high <= 1 - MOST + NEGLIGIBLE and measure.cutoff95 > 0:
            return "mostly slow"
        if measure.high >= MANY - NEGLIGIBLE:
            return "mostly fast"
        return "slow and fast" if measure.low >= SOME - NEGLIGIBLE else "constant and fast"

    @cached_property
    def in_mean_row(self) -> float:
        """The share of energy in the mean row."""
        enc = self.encoding
        is_measured = not enc.measure or self.measure.declared is None
        if is_measured and enc.domain.kind != "graph":  # its frequency 0 is the root of the degree
            return self.measure.at_zero
        return share_of_mean_row(enc)

    @cached_property
    def demean_helps(self) -> bool:
        """Whether removing the mean row changes the verdict."""
        enc = self.encoding
        if 1 - self.in_mean_row <= NEGLIGIBLE or not enc.fits:
            return False
        return spectrum(without_mean(enc)).verdict != self.verdict

    @cached_property
    def findings(self) -> list[Finding]:
        """Findings of the encoding, and notes on the spectrum."""
        return [*self.encoding.findings, *(() if self.is_zero else notes_on_spectrum(self))]


@frozen
class LineSpectrum(Spectrum):
    """A density over the N // 2 + 1 = K points of a lattice of one axis."""

    listed = {"peaks": {"wavelength": "period", "share of energy": "share"}}

    lattice: int
    omega: Floats  # (K,), like the density

    @property
    def unit(self) -> str:
        """Unit of wavelengths."""
        return unit_of_waves(self.encoding)[1]

    @cached_property
    def cutoff_wave(self) -> float:
        """Wavelength at or above which 95% of the energy lies, or the longest of a few."""
        return self.period_of(np.append(self.few, self.measure.cutoff95)[0])

    @property
    def few_waves(self) -> str:
        """The wavelengths of the few frequencies, from short to long."""
        return join(number(self.period_of(omega)) for omega in self.few[::-1])

    def period_of(self, omega: float) -> float:
        """Return the wavelength of a frequency, infinite for 0."""
        return 2 * pi * unit_of_waves(self.encoding)[0] / omega if omega else np.inf

    @property
    def peaks(self) -> list[Fields]:
        """The strongest peaks in the spectrum of a measured table."""
        if self.measure.declared is not None or self.encoding.domain.kind in ("tree", "graph"):
            return []
        omega, share = self.measure.visible, self.measure.weights
        around = np.pad(share, 1)
        is_peak = (share >= PEAK) & (share > around[:-2]) & (share >= around[2:]) & (omega > 0)
        strongest = sorted(np.flatnonzero(is_peak), key=lambda i: -share[i])[:PEAKS]
        return [{"period": self.period_of(omega[i]), "share": float(share[i])} for i in strongest]

    def series(self) -> CsvTable:
        """Names of the columns of CSV, and a row for each frequency of the lattice."""
        rows = ([k, omega, self.sigma, self.density[k]] for k, omega in enumerate(self.omega))
        return ["k", "omega", "sigma", "density"], rows


@frozen
class GridSpectrum(Spectrum):
    """A density (K_1, …) over the half plane of numpy.rfftn, with axes in row-major order."""

    on_grid = True

    lattice: Counts
    omega: list[Floats]  # (K_a,) for each axis
    marginals: list[Floats]  # (K_a,): sums over the other axes
    radial: dict[str, Floats]  # omega (R,) lengths, density (R,)
    angular: dict[str, Floats]  # angle (12,) 0 … pi, density (12,)
    isotropy: dict[str, float]  # A2, A4
    aliased: list[float] | None  # for each axis, share of declared frequencies above pi
    idle: list[float] | None  # for each axis, share with wavelengths above the side
    largest_step: float | None  # largest declared frequency, radians per point

    @property
    def place_of_energy(self) -> str:
        """Verdict on the directions of frequencies."""
        along = np.abs(self.measure.visible) > NEGLIGIBLE
        if self.measure.share(along.sum(axis=1) > 1) <= NEGLIGIBLE:
            axes = sum(self.measure.share(on_axis) > NEGLIGIBLE for on_axis in along.T)
            return "along one axis" if axes == 1 else "along the axes"
        a2, a4 = self.isotropy["A2"], self.isotropy["A4"]
        if a4 >= ONE_SIDED:
            return "one direction" if a2 >= ONE_SIDED else "two directions"
        return "all directions" if max(a2, a4) <= ROUND else "uneven directions"

    def series(self) -> CsvTable:
        """Names of the columns of CSV, and a row for each frequency of the lattice."""
        axes = axis_letters(len(self.omega))
        names = [f"{of}_{axis}" for of in ("k", "omega") for axis in axes]
        return [*names, "sigma", "density"], (
            [*k, *(line[i] for line, i in zip(self.omega, k, strict=True)), self.sigma, share]
            for k, share in np.ndenumerate(self.density)
        )


def notes_on_spectrum(r: Spectrum) -> Iterator[Finding]:
    """Notes on smoothing, a common row, aliased and idle frequencies."""
    enc, share = r.encodings[0], mean_share(r.encodings[0], r.measure)
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
    encoding: Source,
    lattice: Count | None = None,
    sigma: float | None = None,
    method: Method = "auto",
    **params: Any,
) -> LineSpectrum | GridSpectrum:
    r"""Estimate the frequency density of Eq. 15.

    .. math:: g_k \propto \sum_j w_j \exp\left(-\frac{(k - N\omega_j/2\pi)^2}{2\sigma^2}\right),
              \qquad \sum_k g_k = 1.

    Parameters
    ----------
    encoding : str, path, Encoding, array or tensor (n, d), torch module, or function (length, d)
        The encoding to analyze.
    lattice : int, optional
        N, by default the dimension d, or the length if a longer length was requested or a model's
        config sets the length.
    sigma : float, optional
        Bandwidth in lattice steps; 0 adds the weight of each frequency to its nearest lattice point
        (split between two at equal distance). The default is 4, or 0 if a declared measure lies
        entirely on the lattice: Eq. 22.
    method : str
        "declared", "periodogram", or "auto": declared if available.
    **params
        `length`, `d` and the other keywords in the docstring of `pefourier.api`; ``demean=True``
        removes the mean row of the table.

    Returns
    -------
    LineSpectrum or GridSpectrum
        A `GridSpectrum` for an encoding with several axes. Then N defaults to the sides, a given N
        applies to every axis, sigma defaults to 1, and rows before the lattice are left out. The
        density is `torus_density` times the number of frequencies that each point represents.

    Notes
    -----
    As in the paper, the part of a kernel outside 0 … pi is cut off and the rest is normalized to 1.
    Near frequency 0, half of a kernel is cut off, so smoothing raises the mean frequency; `measure`
    holds the values before smoothing. At odd d, the last sine of the sinusoidal encoding has no
    cosine and has half the weight of a pair (the paper covers even d only). A table of zeros has no
    spectrum: its density is NaN. Up to 2^25 frequency-lattice pairs, the sum is complete; beyond,
    terms below 1e-22 of a peak are left out.

    References
    ----------
    .. [1] T. Idé, J. Labaien, P.-Y. Chen, "Improving Transformers using Faithful Positional
       Encoding", arXiv:2405.09061.

    Examples
    --------
    >>> spectrum("rope:rho=5e5", d=128).summary.below_first_bin
    49
    >>> spectrum("dft", d=8).density
    array([0.125, 0.25 , 0.25 , 0.25 , 0.125])
    """
    (lattice,) = whole_numbers(lattice=lattice)
    enc = without_prefix(load(encoding, **params))
    estimate = estimate_spectrum(enc, lattice, sigma, method)
    common: Fields = {
        "sigma": estimate.sigma,
        "method": estimate.measure.method,
        "density": later(getattr, estimate, "smoothed"),
        "frequencies": estimate.measure.declared,
        "summary": later(summarize_density, enc, estimate),
        "estimate": estimate,
        "encodings": (enc,),
    }
    sides, declared = estimate.sides, estimate.measure.declared
    if len(sides) == 1:
        return LineSpectrum(lattice=sides[0], omega=estimate.omega[0], **common)
    rings, axes = cache(lambda: directions_of(estimate.smoothed, sides)), range(len(sides))
    return GridSpectrum(
        lattice=sides,
        omega=estimate.omega,
        marginals=later(
            lambda: [estimate.smoothed.sum(axis=tuple(b for b in axes if b != a)) for a in axes]
        ),
        radial=later(lambda: rings()[0]),
        angular=later(lambda: rings()[1]),
        largest_step=None if declared is None else float(np.abs(declared).max()),
        **axis_shares(enc, estimate.measure),
        **common,
    )

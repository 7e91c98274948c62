"""Position functions reconstructed from weighted frequencies: Algorithm 1 of the paper.

Conventions
-----------
A position function delta_s is 1 at s and 0 elsewhere on the lattice 0 … N - 1, which is circular.
Its real-DFT coefficients are multiplied by the density g, the l2 norm is restored, and the inverse
transform gives the rebuilt function. Widths are in positions. On a lattice of several axes, a
torus, every frequency is weighted by its density, so flat weights reproduce the delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from math import prod
from operator import lt
from typing import Any, ClassVar

import numpy as np

from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    axis_letters,
    finding,
    points_in_words,
    without_prefix,
)
from pefourier.encodings.loader import Count, Source, load, whole_numbers
from pefourier.errors import PefourierError, check_size, check_whole
from pefourier.geometry.torus import multiplicity
from pefourier.questions.result import Result
from pefourier.questions.spectral_density import (
    Method,
    SpectralEstimate,
    estimate_spectrum,
    lattice_sides,
)
from pefourier.types import Counts, CsvTable, Fields, Floats, Ints, frozen, hidden, later
from pefourier.writing.text import Verdict, agreeing, join, ranges

USUAL, USUAL_LENGTH = (5, 40, 75), 80  # positions of Fig. 2, and their length
USUAL_MOST = 1024  # most points of a lattice on which these are distinguishable
EXACT = 1e-6  # l2 distance to a delta that counts as rounding
SHARP = 1.5  # positions: a rebuilt peak of this width is one sample
HALF = 0.5 - 1e-12  # of a peak, minus rounding: a cosine of 60° counts as half
VALUES, BESIDES = 2**26, 5  # numbers of position functions, and additional arrays: 512 MiB
Distances = list[tuple[int, int]]  # to the top of a peak, and to its last point


@frozen
class Reconstruction:
    """One rebuilt position function, on a line or a grid."""

    position: int | Counts
    values: Floats
    peak: float  # largest value
    side_lobe: float  # largest |value| outside the flanks of the peak, on a grid beyond one step
    error: float  # l2 distance to delta
    inverse_error: float | None  # of the linear inverse; None beyond the points of the encoding

    @property
    def point(self) -> str:
        """The position, or the point, as written for --pos."""
        return ",".join(map(str, np.atleast_1d(self.position)))

    @property
    def half_max(self) -> int:
        """Positions or points at or above half of the peak."""
        return int((self.values >= HALF * self.peak).sum())


@frozen
class LineReconstruction(Reconstruction):
    """One rebuilt function (N,) of a position."""

    position: int
    width: float  # full width at half height, linear interpolation
    half_max_count: int  # samples at or above half the peak

    @property
    def reach(self) -> int:
        """Distance to the last sample of the peak at or above half of it."""
        return int(self.width / 2 + EXACT)

    @property
    def confused(self) -> str | None:
        """Other positions of the lattice at or above half of the peak."""
        high = np.flatnonzero(self.values >= HALF * self.peak)
        return ranges(high[high != self.position].tolist(), limit=3) or None


@frozen
class GridReconstruction(Reconstruction):
    """One rebuilt function (N_1, …) of a point, with axes in row-major order."""

    position: Counts
    half_max_area: int  # points at or above half the peak
    cross: float  # energy on points that share a coordinate with the position

    @property
    def reach(self) -> int:
        """Largest number of steps along an axis to a point at or above half of the peak."""
        high = np.argwhere(self.values >= HALF * self.peak) - np.array(self.position)
        steps = np.abs(high) % np.array(self.values.shape)
        return int(np.minimum(steps, self.values.shape - steps).max())


@frozen
class Vectors:
    """Number of distinct vectors within a lattice, and two rows that share one, if any do."""

    rows: int
    distinct: int
    pair: Counts


@frozen
class Reconstructions(Result):
    """Position functions rebuilt on a lattice of one or several axes."""

    command = "reconstruct"
    figure = "reconstruct"
    curves = "reconstruct_chart"
    verdicts = {
        "zero codes": Verdict(
            "All vectors are zero, so no position can be reconstructed.",
            "Check the table or its source code.",
            title="zero vectors",
        ),
        "lost": Verdict(
            "Reconstructed from the frequencies alone, the position disappears: all {r.points} "
            "points reach half of the peak ({r.first.peak:2}), so none can be told apart.",
        ),
        "repeated": Verdict(
            "Reconstructed from the frequencies alone, a position appears in several places and "
            "cannot be told apart from these: other peaks reach half of the main one"
            "{r.is_hidden:? before smoothing, which hides them below}, the farthest "
            "{r.farthest_repeat:,} positions away.",
            "{r.is_hidden:?Pass --sigma 0 to turn smoothing off in the table and the picture.}",
        ),
        "shared vectors": Verdict(
            "Not every position can be reconstructed, because some share a vector (such as "
            "{r.equal_rows}). Distinct vectors among {r.vectors.rows} {r.rows}: "
            "{r.vectors.distinct}.",
        ),
        "smoothing alone": Verdict(
            "Smoothing alone makes the peak: {r.first.half_max} of {r.points} points reach half of "
            "it, but {r.plain_half_max} without smoothing.",
            "Pass --sigma 0 to turn smoothing off in the table and the picture.",
        ),
        "sharp": Verdict(
            "Reconstructed from the frequencies alone, a position is a single sample "
            "{r.first.peak:3} high (exact would be 1), told apart from all others{r.echo:?; "
            "lattice points farther away than any position also reach half of it}.",
        ),
        "blurred": Verdict(
            "Reconstructed from the frequencies alone, a position spreads into a peak "
            "{r.first.width:2} positions wide and {r.first.peak:3} high (exact would be 1), "
            "{r.confusion}.",
        ),
        "exact": Verdict(
            "Reconstructed from the frequencies alone, a point comes back exactly.",
        ),
        "sharp point": Verdict(
            "Reconstructed from the frequencies alone, a point is a peak {r.first.peak:3} high "
            "(exact would be 1), and no other point reaches half of it.",
        ),
        "blurred point": Verdict(
            "Reconstructed from the frequencies alone, a point is a peak {r.first.peak:3} high "
            "(exact would be 1), and {r.first.half_max_area} of {r.points} points reach half of "
            "it, {r.confusion}.",
        ),
    }
    shown: ClassVar[dict[str, str]] = {}
    listed = {
        "reconstructions": {
            "position": "point",
            "peak": "peak",
            "width": "width",
            "points at half height or more": "half_max",
            "not told apart from": "confused",
            "energy on row and column": "cross",
            "side lobe": "side_lobe",
            "error": "error",
            "linear inverse error": "inverse_error",
        }
    }
    short = {
        "reconstructions": (
            "position",
            "peak",
            "width",
            "points at half height or more",
            "not told apart from",
            "error",
        ),
    }

    lattice: int | Counts
    sigma: float
    reconstructions: Sequence[LineReconstruction] | Sequence[GridReconstruction]
    inverse_error: float  # largest over all positions of the encoding
    estimate: SpectralEstimate = hidden(compare=False)  # of the weights
    vectors: Vectors = hidden(compare=False)

    @property
    def first(self) -> LineReconstruction | GridReconstruction:
        """The first rebuilt position; all have the same shape."""
        return self.reconstructions[0]

    @property
    def sides(self) -> Counts:
        """Points of the lattice along each axis."""
        return self.estimate.sides

    @property
    def points(self) -> int:
        """Number of points of the lattice."""
        return prod(self.sides)

    @property
    def rows(self) -> str:
        """What the rows of the table represent."""
        return points_in_words(self.encoding)

    @property
    def equal_rows(self) -> str:
        """Two rows that share a vector."""
        domain = self.encoding.domain
        x = domain.x[list(self.vectors.pair)]
        places = domain.coordinates(x) if self.on_grid else x[:, None]
        return join(",".join(map(str, place)) for place in places.tolist())

    @cached_property
    def plain_half_max(self) -> int:
        """Points at or above half of the peak without smoothing."""
        values = position_function(self.estimate.raw, self.sides)
        return int((values >= HALF * values.flat[0]).sum())

    @property
    def is_smoothed_alone(self) -> bool:
        """Whether smoothing alone creates the peak, or reduces it to a single point.

        Without smoothing, all points reach half of the peak, or more than one.
        """
        coarse = self.first.half_max == 1 and (self.on_grid or self.estimate.is_blurred)
        limit = 1 if coarse else self.points - 1
        return bool(self.sigma and self.plain_half_max > limit)

    @property
    def confusion(self) -> str:
        """From how far points cannot be told apart, in words."""
        reach = self.first.reach
        if self.on_grid:
            steps = agreeing(reach, "step", "steps")
            return f"up to {reach} {steps} away: these cannot be told apart"
        if not reach:
            return "and no other position reaches half of it"
        return f"so it cannot be told apart from positions up to {reach} away"

    @property
    def shape(self) -> str:
        """How sharply frequencies alone rebuild a point."""
        if self.first.half_max == self.points:
            return "lost"
        if self.first.error <= EXACT:
            return "exact"
        return "sharp point" if self.first.half_max == 1 else "blurred point"

    @property
    def verdict(self) -> str:
        """How well a position or point is rebuilt, judged by its peak and width."""
        if np.isnan(self.first.peak):
            return "zero codes"
        shape = self.shape
        if shape in ("lost", "repeated"):
            return shape
        if self.vectors.distinct < self.vectors.rows:
            return "shared vectors"
        return "smoothing alone" if self.is_smoothed_alone else shape

    @property
    def findings(self) -> list[Finding]:
        """Positions without a vector, and limits of what the shape of a peak shows."""
        enc = self.encoding
        notes = list(enc.findings)
        if self.first.peak > 0 and self.estimate.is_blurred:
            notes.append(finding("coarse-lattice", sigma=self.sigma))
        if enc.injection == "rotate":
            notes.append(finding("rotation-rebuilt"))
        places, sides = [np.atleast_1d(r.position) for r in self.reconstructions], enc.domain.sides
        beyond = sum(bool((place >= sides).any()) for place in places)
        if beyond:
            notes.append(finding("beyond-codes", count=beyond, length=len(enc)))
        return notes

    def series(self) -> CsvTable:
        """Column names for CSV, and one row for each position and lattice point."""
        axes = axis_letters(len(self.sides)) if self.on_grid else []
        names = [*(f"position_{axis}" for axis in axes), *axes] or ["position", "t"]
        return [*names, "value"], (
            [*np.atleast_1d(r.position).tolist(), *place, value]
            for r in self.reconstructions
            for place, value in np.ndenumerate(r.values)
        )


@frozen
class LineReconstructions(Reconstructions):
    """Position functions on a lattice of one axis."""

    lattice: int
    reconstructions: Sequence[LineReconstruction]

    @property
    def shape(self) -> str:
        """How sharply frequencies alone rebuild a position."""
        width = self.reconstructions[0].width
        if width >= self.lattice:
            return "lost"
        if any(self.repeats):
            return "repeated"
        return "sharp" if width <= SHARP else "blurred"

    @property
    def echo(self) -> bool:
        """Whether points beyond the positions also reach half of a sharp peak."""
        return self.first.half_max > 1

    @cached_property
    def repeats(self) -> tuple[Distances, Distances]:
        """Other peaks within the positions, as rebuilt and without smoothing."""
        first, farthest = self.reconstructions[0], int(np.abs(self.encoding.domain.x).max())
        rebuilt = np.roll(first.values, -first.position)
        plain = position_function(self.estimate.raw, self.sides) if self.sigma else rebuilt
        return repeats(rebuilt, farthest), repeats(plain, farthest)

    @property
    def is_hidden(self) -> bool:
        """Whether smoothing hides the farthest of the other peaks."""
        return max(self.repeats[0], default=(0, 0)) < max(self.repeats[1], default=(0, 0))

    @property
    def farthest_repeat(self) -> int:
        """Distance to the farthest point that reaches half of the peak, in another peak."""
        return max(self.repeats[self.is_hidden])[1]


@frozen
class GridReconstructions(Reconstructions):
    """Functions of points on a lattice of several axes."""

    on_grid = True

    lattice: Counts
    reconstructions: Sequence[GridReconstruction]


def repeats(h: Floats, farthest: int) -> Distances:
    """Other peaks of at least half the first value, at most `farthest` from it.

    Each has the distance to its top and to its last point. The function is symmetric,
    h(t) = h(-t).

    >>> repeats(np.array([9.0, 5.0, 0.0, 8.0, 6.0, 8.0, 0.0, 5.0]), 7)
    [(3, 4)]
    """
    half = h[: len(h) // 2 + 1]
    high = np.append(half >= HALF * h[0], False)
    ends = np.flatnonzero(high[1:] != high[:-1]) + 1
    runs = zip(ends[1::2], ends[2::2], strict=True)
    peaks = ((int(start + np.argmax(half[start:end])), int(end) - 1) for start, end in runs)
    return [peak for peak in peaks if peak[0] <= farthest]


def position_functions(
    encoding: Source,
    positions: Ints | Sequence[Ints] | None = None,
    lattice: Count | None = None,
    sigma: float | None = None,
    method: Method = "auto",
    **params: Any,
) -> LineReconstructions | GridReconstructions:
    r"""Rebuild position functions by Algorithm 1, and by the linear inverse of the vectors.

    With g the density of Eq. 15,
    :math:`h(t) = \mathrm{irfft}(g)(t) / \lVert \mathrm{irfft}(g) \rVert` and the function rebuilt
    at s is h(t - s): the same shape everywhere, with its peak at the right place for any encoding.
    Encodings differ in its width, its side lobes and its distance to delta.

    `inverse_error` is Theorem 1's: :math:`\max_t |(E E^+ - I)_{st}|` with :math:`E^+` the
    pseudoinverse of the table at the tolerance of its numerical rank; 0 if the vectors have an
    inverse.

    Parameters
    ----------
    positions : sequence of int, or of points, optional
        Positions of the deltas, 0 … N - 1; the default is 5, 40 and 75, scaled for short or long
        lattices. On a lattice with several axes, points such as (3, 4); the default is the middle.
    encoding, lattice, sigma, method, **params
        As in `pefourier.spectrum`.

    Examples
    --------
    >>> round(position_functions("sinusoidal", [40], d=256).reconstructions[0].peak, 4)
    0.3403
    """
    from pefourier.geometry.singular_values import check_products, decompose

    (lattice,) = whole_numbers(lattice=lattice)
    points = as_points(positions)
    farthest = max([79, *(x for point in points for x in point)])
    enc = without_prefix(load(encoding, min_length=farthest + 1, **params))
    sides, places = where_to_rebuild(enc, lattice, points)
    check_products(enc)
    estimate = estimate_spectrum(enc, lattice, sigma, method)
    h, factors = position_function(estimate.smoothed, sides), decompose(enc)
    is_line, peak, delta = len(sides) == 1, float(h.flat[0]), np.zeros(h.shape)
    delta.flat[0] = 1.0
    own: Any = LineReconstruction if is_line else GridReconstruction
    known = enc.domain.sides  # points with a vector
    measured = (describe_peak if is_line else describe_grid_peak)(h)
    within = [place for place in places if all(map(lt, place, known))]
    rows = [int(np.ravel_multi_index(place, known)) for place in within]
    errors = cache(lambda: dict(zip(within, factors.inverse_errors(rows), strict=True)))
    reconstructions = [
        own(
            position=place[0] if is_line else place,
            values=np.roll(h, place, range(len(sides))),
            peak=peak,
            error=float(np.linalg.norm(h - delta)),
            inverse_error=later(lambda place=place: errors()[place]) if place in within else None,
            **measured,
        )
        for place in places
    ]
    common: Fields = {
        "sigma": estimate.sigma,
        "reconstructions": reconstructions,
        "inverse_error": later(factors.inverse_error),
        "estimate": estimate,
        "vectors": distinct_vectors(enc, sides),
        "encodings": (enc,),
    }
    if is_line:
        return LineReconstructions(lattice=sides[0], **common)
    return GridReconstructions(lattice=sides, **common)


def position_function(density: Floats, sides: Counts) -> Floats:
    """Rebuild the function at the first point, with norm 1: Algorithm 1."""
    axes = len(sides)
    weights = density if axes == 1 else density / multiplicity(sides)
    h = np.fft.irfftn(weights, sides, range(axes))  # inverse of numpy.rfftn
    return h / np.linalg.norm(h)


def distinct_vectors(enc: Encoding, sides: Counts) -> Vectors:
    """Count the distinct vectors of the rows within a lattice."""
    from pefourier.geometry.closest import closest_pair

    lags = enc.domain.kind == "lag"  # a lattice of positions does not limit lags
    within = enc.domain.sides if lags else tuple(map(min, enc.domain.sides, sides))
    rows = np.arange(len(enc)).reshape(enc.domain.sides)[tuple(map(slice, within))].ravel()
    domain = replace(enc.domain, x=enc.domain.x[rows], grid=within)
    closest = closest_pair(replace(enc, domain=domain), measured=False)
    return Vectors(len(rows), closest.distinct, tuple(rows[list(closest.pair or ())].tolist()))


def where_to_rebuild(
    enc: Encoding, lattice: int | None, points: Sequence[Counts]
) -> tuple[Counts, Sequence[Counts]]:
    """Sides of the lattice, and the points at which deltas are placed."""
    if enc.domain.irregular or enc.domain.kind == "graph":
        raise PefourierError(
            f"reconstruction needs points at even steps, unlike the {points_in_words(enc)} of "
            f"{enc.name}; use 'pefourier check-faithful' for the linear inverse"
        )
    sides = lattice_sides(enc, lattice)
    if len(sides) == 1:
        points = [(x,) for point in points or [usual_positions(sides[0])] for x in point]
    points = points or [tuple(n // 2 for n in sides)]
    check_size("the functions of positions", prod(sides), len(points) + BESIDES, limit=VALUES)
    for point in points:
        check_point(point, sides)
    return sides, points


def usual_positions(n: int) -> Counts:
    """Positions 5, 40 and 75 of 80 as in the paper, scaled for shorter or long lattices.

    >>> usual_positions(256), usual_positions(64), usual_positions(2), usual_positions(8192)
    ((5, 40, 75), (4, 32, 60), (0, 1), (512, 4096, 7680))
    """
    if max(USUAL) < n <= USUAL_MOST:
        return USUAL
    return tuple(sorted({s * n // USUAL_LENGTH for s in USUAL}))


def check_point(point: Ints, sides: Counts) -> None:
    """Raise an error for a point outside a lattice, or with other axes."""
    if len(point) != len(sides) or not all(0 <= x < n for x, n in zip(point, sides, strict=True)):
        typed, first, last = (
            ",".join(map(str, numbers))
            for numbers in (point, [0] * len(sides), np.array(sides) - 1)
        )
        raise PefourierError(
            f"position {typed} is outside the lattice {first} … {last}; use another or set "
            "--lattice"
        )


def as_points(positions: Ints | Sequence[Ints] | None) -> list[Counts]:
    """Return positions as points: tuples of one or more coordinates.

    >>> as_points([(3, 4), 5])
    [(3, 4), (5,)]
    """
    points = np.atleast_1d(positions) if np.isscalar(positions) else positions or ()
    points = [np.atleast_1d(point).tolist() for point in points]
    for x in (x for point in points for x in point):
        check_whole("a position", x)
    return [tuple(map(int, point)) for point in points]


def describe_grid_peak(h: Floats) -> dict[str, float]:
    """Measure a rebuilt function on a torus with its peak at the first point.

    >>> describe_grid_peak(np.array([[0.8, 0.4, 0.0, 0.4], [0.2, 0.0, 0.0, 0.0]]))["half_max_area"]
    3
    """
    places = np.ogrid[tuple(map(slice, h.shape))]
    off = prod(place > 0 for place in places) > 0
    far = sum(np.minimum(x, n - x) > 1 for x, n in zip(places, h.shape, strict=True)) > 0
    return {
        "half_max_area": int((h >= HALF * h.flat[0]).sum()),
        "cross": float(1 - (h[off] ** 2).sum() / (h**2).sum()),
        "side_lobe": float(np.abs(h[far]).max(initial=0.0)),
    }


def describe_peak(h: Floats) -> dict[str, float]:
    """Measure a rebuilt function on a circle with its peak at index 0.

    It is symmetric, h(t) = h(-t), because the weights of Algorithm 1 are real.

    >>> describe_peak(np.array([1.0, 0.75, 0.25, 0.0, 0.25, 0.75]))["width"]
    3.0
    """
    half, right = h[0] / 2, h[: len(h) // 2 + 1]
    above = right >= HALF * h[0]
    if above.all():
        width = len(h)
    else:
        t = int(np.argmin(above))  # the first sample below half height
        width = 2 * (t - 1 + (right[t - 1] - half) / (right[t - 1] - right[t]))
    rises = np.flatnonzero(np.diff(right) > 0)
    lobe = np.abs(right[rises[0] + 1 :]).max() if len(rises) else 0.0 * h[0]  # NaN for zeros
    count = int((h >= HALF * h[0]).sum())
    return {"width": float(width), "half_max_count": count, "side_lobe": float(lobe)}

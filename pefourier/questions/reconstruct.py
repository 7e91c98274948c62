"""Position functions reconstructed from weighted frequencies: Algorithm 1 of the paper.

Conventions
-----------
A position function delta_s is 1 at s and 0 elsewhere on the lattice 0 … N - 1, which is circular.
Its real-DFT coefficients are multiplied by the density g, the l2 norm is restored, and the inverse
transform gives the rebuilt function. Widths are in positions. On a lattice of several axes, a
torus, every frequency is weighted by its own density, so that flat weights give the delta back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pefourier.encodings.domain import lattice as lattice_of
from pefourier.encodings.encoding import Encoding, Finding, as_encoding, without_prefix
from pefourier.encodings.findings import finding
from pefourier.encodings.places import axis_names, points_in_words
from pefourier.encodings.registry import BUILDERS, build, canonical_spec
from pefourier.errors import PefourierError
from pefourier.geometry.torus import multiplicity
from pefourier.questions.result import BESIDE, ON_GRIDS, ON_LINES, Result
from pefourier.questions.spectral_density import lattice_sides
from pefourier.questions.spectrum import Spectrum, density, is_blurred
from pefourier.writing.text import number

if TYPE_CHECKING:  # what is imported when it is used, not when a page names a result's type
    from pefourier.geometry.singular_values import Factors


USUAL, USUAL_LENGTH = (5, 40, 75), 80  # positions of Fig. 2, of how many
USUAL_MOST = 1024  # points of a lattice on which these are told apart
EXACT = 1e-6  # l2 distance to a delta that is rounding
SHARP = 1.5  # positions: a rebuilt peak of this width is one sample
HALF = 0.5 - 1e-12  # of a peak, less rounding: a cosine of 60° reaches half
VALUES, BESIDES = 2**26, 5  # numbers of position functions, and of as many beside them: 512 MiB
BASES = (10, 100, 1000)  # by which a base is divided in search of a sharper peak
TRIED = 2**12  # points of a lattice up to which other bases are tried
SHARPER = 0.8  # of a width or an area: what is worth another base
NO_PEAK = ("lost", "repeated", "shared vectors", "smoothing alone")
OWN_BASE = re.compile(r"[:,](rho|base|theta)=")


@dataclass(frozen=True)
class Reconstruction:
    """One rebuilt position function."""

    position: int | tuple[int, ...]  # on a grid a point, the slowest axis first
    values: np.ndarray  # (N,), on a grid (N_1, …)
    peak: float  # largest value
    width: float | None = field(**ON_LINES)  # full width at half height, linear interpolation
    half_max_count: int | None = field(**ON_LINES)  # samples at or above half the peak
    half_max_area: int | None = field(**ON_GRIDS)  # points at or above half the peak
    cross: float | None = field(**ON_GRIDS)  # energy on points that share a coordinate with it
    side_lobe: float  # largest |value| outside the peak's flanks, on a grid a step from it
    error: float  # l2 distance to delta
    inverse_error: float | None  # by the linear inverse of the codes; None beyond their points

    @property
    def on_grid(self) -> bool:
        """Whether it is of a point."""
        return isinstance(self.position, tuple)

    @property
    def point(self) -> str:
        """The position, or the point, as --pos takes it."""
        return ",".join(map(str, np.atleast_1d(self.position)))

    @property
    def half_max(self) -> int:
        """Positions or points at or above half the peak."""
        return self.half_max_area if self.on_grid else self.half_max_count


@dataclass(frozen=True)
class Vectors:
    """How many vectors the rows within a lattice have, and the first two rows that share one."""

    rows: int
    distinct: int
    pair: tuple[int, int] | None


@dataclass(frozen=True, repr=False)
class Reconstructions(Result):
    """Position functions rebuilt on one lattice, which may have several axes."""

    shown: ClassVar[dict[str, str]] = {}
    listed: ClassVar[dict[str, dict[str, str]]] = {
        "reconstructions": {
            "position": "point",
            "peak": "peak",
            "width": "width",
            "points at half height or more": "half_max",
            "energy on row and column": "cross",
            "side lobe": "side_lobe",
            "error": "error",
            "linear inverse error": "inverse_error",
        },
    }

    lattice: int | tuple[int, ...]
    sigma: float
    reconstructions: list[Reconstruction]
    inverse_error: float  # the largest over all positions of the encoding
    spectrum: Spectrum | None = field(**BESIDE)  # of the weights
    vectors: Vectors | None = field(**BESIDE)

    @property
    def first(self) -> Reconstruction:
        """The first rebuilt position: all have one shape."""
        return self.reconstructions[0]

    @property
    def points(self) -> int:
        """How many points a lattice has."""
        return prod(self.sides)

    @property
    def farthest_repeat(self) -> int:
        """How far from the peak the farthest point stands that reaches half of it."""
        return other_peaks(np.roll(self.first.values, -self.first.position))[1]

    @property
    def rows(self) -> str:
        """What the rows of a table stand for."""
        return points_in_words(self.encodings[0])

    @property
    def alike(self) -> str:
        """Two rows that share a vector."""
        domain = self.encodings[0].domain
        x = domain.x[list(self.vectors.pair or ())]
        places = domain.coordinates(x) if self.on_grid else x[:, None]
        return " and ".join(",".join(map(str, place)) for place in places.tolist())

    @cached_property
    def plain_half_max(self) -> int:
        """Points at or above half of the peak where nothing is smoothed."""
        values = position_function(self.spectrum.plain, self.sides)
        return int((values >= HALF * values.flat[0]).sum())

    @property
    def is_smoothed_alone(self) -> bool:
        """Whether the lattice is so coarse that a peak, or its being a single point, is smoothing.

        Without it all points reach half of the peak, or more than one.
        """
        coarse = self.first.half_max == 1 and (self.on_grid or is_blurred(self.spectrum))
        limit = 1 if coarse else self.points - 1
        return bool(self.sigma and self.plain_half_max > limit)

    @property
    def sides(self) -> tuple[int, ...]:
        """Points of the lattice along each axis."""
        return tuple(np.atleast_1d(self.lattice).tolist())

    @cached_property
    def sharper(self) -> tuple[float, float] | None:
        """A smaller base that makes the peak narrower, and its width, on a grid its area."""
        base = self.encodings[0].params.get("rho") if self.points <= TRIED else None
        start = float(f"{base or 0:.2g}")
        lattice = self.sides[0] if len(set(self.sides)) == 1 else None
        for rho in (start / divisor for divisor in BASES if start > divisor):
            with suppress(PefourierError):  # a scaling may refuse a base
                enc = rebase(self.encodings[0], rho)
                if enc is None:
                    return None
                settings = lattice, self.sigma, self.spectrum.method
                rebased = position_functions(enc, None, *settings)
                if rebased.extent <= SHARPER * self.extent and rebased.verdict not in NO_PEAK:
                    return rho, rebased.extent
        return None

    @property
    def extent(self) -> float:
        """Width of the peak, on a grid its area."""
        return self.first.half_max_area if self.on_grid else self.first.width

    @property
    def smaller_base(self) -> str:
        """That base as it is typed; nothing where none was found."""
        in_spec = OWN_BASE.search(self.encodings[0].spec)
        option = f"{in_spec[1]}=" if in_spec else "--rho "
        return f"{option}{number(self.sharper[0])}" if self.sharper else ""

    @property
    def sharpened(self) -> str:
        """How large it makes the peak."""
        unit = "points large" if self.on_grid else "positions wide"
        return f"{number(self.sharper[1], 2)} {unit}" if self.sharper else ""

    @property
    def verdict(self) -> str:
        """What is left of a position, or of a point, by its peak and its width."""
        if np.isnan(self.first.peak):
            return "zero codes"
        shape = verdict_by_shape(self) if self.on_grid else verdict_by_width(self)
        if shape in ("lost", "repeated"):
            return shape
        if self.vectors.distinct < self.vectors.rows:
            return "shared vectors"
        return "smoothing alone" if self.is_smoothed_alone else shape

    @property
    def findings(self) -> list[Finding]:
        """Positions without a code, and what the shape of a peak does not show."""
        notes = list(self.encodings[0].findings)
        if self.first.peak > 0 and is_blurred(self.spectrum):
            notes.append(finding("coarse-lattice", sigma=self.sigma))
        if self.encodings[0].injection == "rotate":
            notes.append(finding("rotation-rebuilt"))
        beyond = sum(r.inverse_error is None for r in self.reconstructions)
        if beyond:
            notes.append(finding("beyond-codes", count=beyond, length=len(self.encodings[0])))
        return notes

    def series(self) -> tuple[list[str], Any]:
        """Names of the columns of CSV, and a row for each position and lattice point."""
        axes = axis_names(len(self.lattice)) if self.on_grid else None
        names = [*(f"position_{a}" for a in axes), *axes] if axes else ["position", "t"]
        return [*names, "value"], (
            [*np.atleast_1d(r.position).tolist(), *place, value]
            for r in self.reconstructions
            for place, value in np.ndenumerate(r.values)
        )


def verdict_by_width(r: Reconstructions) -> str:
    """How sharp a position comes back from the frequencies alone."""
    if r.first.width >= r.lattice:
        return "lost"
    if other_peaks(np.roll(r.first.values, -r.first.position))[0]:
        return "repeated"
    return "sharp" if r.first.width <= SHARP else "blurred"


def verdict_by_shape(r: Reconstructions) -> str:
    """How sharp a point comes back from the frequencies alone, and in which shape."""
    if r.first.half_max_area == r.points:
        return "lost"
    if r.first.error <= EXACT:
        return "exact"
    return "sharp point" if r.first.half_max_area == 1 else "blurred point"


def other_peaks(values: np.ndarray) -> tuple[int, int]:
    """How many runs of half of the first value or more there are besides its own, in a circle.

    And how far from it the farthest of them ends.

    >>> other_peaks(np.array([9.0, 5.0, 0.0, 6.0, 1.0, 8.0]))
    (1, 3)
    """
    high = values >= HALF * values[0]
    indices = np.flatnonzero(high)
    far = np.minimum(indices, len(values) - indices).max(initial=0)
    return max(0, int((high & ~np.roll(high, 1)).sum()) - 1), int(far)


def position_functions(
    encoding: Encoding | np.ndarray,
    positions: Sequence[int] | Sequence[Sequence[int]] | None = None,
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
        Where to put deltas, 0 … N - 1; by default as `usual_positions` says. On a lattice with
        several axes points, such as (3, 4); by default the middle.
    lattice, sigma, method
        As in `pefourier.questions.spectrum.density`.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> result = position_functions(load("sinusoidal", d=256), [40])
    >>> round(result.reconstructions[0].peak, 4)
    0.3403
    """
    from pefourier.geometry.singular_values import check_products, decompose

    enc = without_prefix(as_encoding(encoding))
    axes = len(enc.domain.sides)
    sides, points = where_to_rebuild(enc, lattice, positions)
    check_products(enc)
    spectrum = density(enc, lattice, sigma, method)
    places = [check_point(point, sides) for point in points]
    h = position_function(spectrum.density, sides)
    facts = peak_facts(h)
    factors = decompose(enc)
    rebuilt = [
        Reconstruction(
            position=place if axes > 1 else place[0],
            values=np.roll(h, place, range(axes)),
            inverse_error=inverse_error_at(factors, place, enc.domain.sides),
            **facts,
        )
        for place in places
    ]
    return Reconstructions(
        lattice=spectrum.lattice,
        sigma=spectrum.sigma,
        reconstructions=rebuilt,
        inverse_error=max(0.0, factors.inverse_error()),  # rounding may make it less than it is
        spectrum=spectrum,
        vectors=distinct_vectors(enc, sides),
        encodings=(enc,),
    )


def position_function(density: np.ndarray, sides: tuple[int, ...]) -> np.ndarray:
    """The function rebuilt at the first point, of norm 1: Algorithm 1."""
    axes = len(sides)
    weights = density if axes == 1 else density / multiplicity(sides)
    h = np.fft.irfftn(weights, sides, range(axes))  # weights over numpy.rfftn's half plane, back
    return h / np.linalg.norm(h)


def distinct_vectors(enc: Encoding, sides: tuple[int, ...]) -> Vectors:
    """How many vectors the rows within a lattice have."""
    from pefourier.geometry.closest import closest_pair, first_alike

    lags = enc.domain.kind == "lag"  # which no lattice of positions cuts off
    within = enc.domain.sides if lags else tuple(map(min, enc.domain.sides, sides))
    corner = tuple(map(slice, within))
    rows = np.arange(len(enc)).reshape(enc.domain.sides)[corner].ravel()
    if enc.stationary:
        closest = closest_pair(replace(enc, domain=lattice_of(within)))
        pair, distinct = closest.pair, closest.distinct
    else:
        in_order = enc.domain.kind == "position" and len(sides) == 1
        first = first_alike(enc.table()[rows], enc.eps, in_order=in_order)
        again = np.flatnonzero(first != np.arange(len(first)))
        pair = (first[again[0]], again[0]) if len(again) else None
        distinct = len(rows) - len(again)
    shared = pair is not None and distinct < len(rows)
    return Vectors(len(rows), distinct, tuple(rows[list(pair)].tolist()) if shared else None)


def rebase(enc: Encoding, rho: float) -> Encoding | None:
    """A named encoding with another base; None where it has no base."""
    params, builder = enc.params, BUILDERS.get(enc.name)
    is_named = builder and canonical_spec(enc.spec).partition(":")[0] == enc.name
    if not is_named or "rho" not in builder.parameters or params.get("demean"):
        return None
    settings = {key: params[key] for key in builder.parameters if key in params} | {"rho": rho}
    rebased = build(enc.name, length=params["length"], d=params["d"], spec=enc.spec, **settings)
    rebased = without_prefix(rebased)
    if (rebased.dim, rebased.domain.sides) != (enc.dim, enc.domain.sides):
        return None  # its d was not the one that is asked for, or its grid is given beside
    return replace(rebased, lattice=enc.lattice)


def where_to_rebuild(
    enc: Encoding, lattice: int | None, positions: Sequence[int] | Sequence[Sequence[int]] | None
) -> tuple[tuple[int, ...], Sequence[int] | Sequence[Sequence[int]]]:
    """The sides of the lattice, and the points of it at which deltas are put."""
    if enc.domain.irregular:
        raise PefourierError(
            f"positions are rebuilt on a lattice of even steps, and the times of {enc.name} are at "
            "uneven ones; 'pefourier relations' has inner products by lag, 'pefourier "
            "check-faithful' the linear inverse"
        )
    sides = lattice_sides(enc, lattice)
    if positions is None:
        is_line = len(sides) == 1
        positions = usual_positions(sides[0]) if is_line else [tuple(n // 2 for n in sides)]
    if prod(sides) * (len(positions) + BESIDES) > VALUES:
        raise PefourierError(
            f"{len(positions)} positions on a lattice of {prod(sides)} points take over the limit "
            "of 1 GiB; set a smaller --lattice"
        )
    return sides, positions


def usual_positions(n: int) -> tuple[int, ...]:
    """The paper's positions 5, 40 and 75 of 80, or as far along a shorter or a long lattice.

    >>> usual_positions(256), usual_positions(64), usual_positions(2), usual_positions(8192)
    ((5, 40, 75), (4, 32, 60), (0, 1), (512, 4096, 7680))
    """
    if max(USUAL) < n <= USUAL_MOST:
        return USUAL
    return tuple(sorted({s * n // USUAL_LENGTH for s in USUAL}))


def check_point(point: int | Sequence[int], sides: tuple[int, ...]) -> tuple[int, ...]:
    """A point of a lattice; one with other axes or beyond a side is refused."""
    place = tuple(int(x) for x in np.atleast_1d(point))
    if len(place) != len(sides) or not all(0 <= x < n for x, n in zip(place, sides, strict=False)):
        typed, first, last = (
            ",".join(map(str, numbers))
            for numbers in (place, [0] * len(sides), np.array(sides) - 1)
        )
        raise PefourierError(
            f"position {typed} is outside the lattice {first} … {last}; choose another or set "
            "--lattice"
        )
    return place


def inverse_error_at(
    factors: Factors, point: tuple[int, ...], sides: tuple[int, ...]
) -> float | None:
    """Error of the linear inverse at a point, None where the encoding has no code."""
    if any(x >= n for x, n in zip(point, sides, strict=True)):
        return None
    return factors.inverse_error(int(np.ravel_multi_index(point, sides)))


def peak_facts(h: np.ndarray) -> dict[str, float]:
    """The facts of a rebuilt function whose peak is at the first point."""
    return describe_peak(h) if h.ndim == 1 else describe_grid_peak(h)


def describe_grid_peak(h: np.ndarray) -> dict[str, float]:
    """Peak, area at half height, cross, side lobe and distance to delta on a torus.

    The peak is at the first point.

    >>> describe_grid_peak(np.array([[0.8, 0.4, 0.0, 0.4], [0.2, 0.0, 0.0, 0.0]]))["half_max_area"]
    3
    """
    off, far = np.ones(h.shape, dtype=bool), np.zeros(h.shape, dtype=bool)
    for a, n in enumerate(h.shape):
        place = np.arange(n).reshape([-1 if a == b else 1 for b in range(h.ndim)])
        off &= place > 0
        far |= np.minimum(place, n - place) > 1
    peak, delta = float(h.flat[0]), np.zeros(h.shape)
    delta.flat[0] = 1.0
    return {
        "peak": peak,
        "half_max_area": int((h >= HALF * peak).sum()),
        "cross": float(1 - (h[off] ** 2).sum() / (h**2).sum()),
        "side_lobe": float(np.abs(h[far]).max(initial=0.0)),
        "error": float(np.linalg.norm(h - delta)),
    }


def describe_peak(h: np.ndarray) -> dict[str, float]:
    """Peak, width and samples at half height, side lobe and distance to delta, on a circle.

    The peak is at index 0, and h(t) = h(-t): Algorithm 1's weights are real.

    >>> describe_peak(np.array([1.0, 0.75, 0.25, 0.0, 0.25, 0.75]))["width"]
    3.0
    """
    half, right = h[0] / 2, h[: len(h) // 2 + 1]
    above = right >= HALF * h[0]
    if above.all():
        width = float(len(h))
    else:
        t = int(np.argmin(above))  # the first sample below half height
        width = 2 * (t - 1 + (right[t - 1] - half) / (right[t - 1] - right[t]))
    rises = np.flatnonzero(np.diff(right) > 0)
    lobe = np.abs(right[rises[0] + 1 :]).max() if len(rises) else 0.0 * h[0]  # NaN of zeros
    return {
        "peak": float(h[0]),
        "width": float(width),
        "half_max_count": int((h >= HALF * h[0]).sum()),
        "side_lobe": float(lobe),
        "error": float(np.sqrt((h[0] - 1) ** 2 + (h[1:] ** 2).sum())),
    }

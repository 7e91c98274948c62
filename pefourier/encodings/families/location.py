"""Encodings of places: space2vec on a plane, sphere2vec and spherical harmonics on the globe.

On the command line, ``--places FILE`` sets the places, one a row: x and y on a plane, longitude and
latitude in degrees on the globe. Distances on the globe are great-circle distances in km on a
sphere of the Earth's mean radius.
"""

from collections.abc import Callable
from dataclasses import field
from math import inf, isqrt, pi, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pefourier.encodings.encoding import Domain, Encoding, within
from pefourier.encodings.registry import encoding
from pefourier.errors import PefourierError
from pefourier.types import Array, Floats, frozen_arrays

EARTH = 6371.0088  # mean radius in km (IUGG)
LAGS = 100  # steps up to the largest distance
Vectors = Callable[[Floats], Floats]  # places (m, 2) to vectors (m, d)


@frozen_arrays
class PlaceDomain(Domain):
    """Domain of places in the order of their file; points x are row numbers."""

    at: Floats = field(kw_only=True)  # (n, 2) longitude and latitude, or x and y
    unit: str = field(kw_only=True)  # of distances: km on the globe, empty on a plane

    @property
    def spacing(self) -> float:
        """A hundredth of the largest distance between at most 256 places."""
        rows = self.x[:: -(-len(self) // 256)]
        return float(self.distances(rows[:, None], rows).max()) / LAGS or 1.0

    def points(self, at: Floats) -> Floats:
        """Cartesian coordinates (…, 2) on a plane, or (…, 3) in km from the centre of the globe."""
        if not self.unit:
            return at
        lon, lat = np.moveaxis(np.radians(at), -1, 0)
        return EARTH * np.stack(
            (np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)), axis=-1
        )

    def places(self, x: Array) -> Floats:
        """Cartesian coordinates of points x."""
        return self.points(self.at[x])

    def along_surface(self, straight: Floats) -> Floats:
        """Distances along the surface from straight ones: great-circle distances on the globe."""
        sine = np.minimum(straight / (2 * EARTH), 1.0)
        return 2 * EARTH * np.arcsin(sine) if self.unit else straight

    def distances(self, a: Array, b: Array) -> Floats:
        """Distances of points a and b, in km on the globe.

        >>> capitals = place_domain([[-0.1278, 51.5074], [2.3522, 48.8566]], "km")
        >>> capitals.distances(np.array([0]), np.array([1])).round(1)  # London and Paris
        array([343.6])
        """
        return self.along_surface(np.linalg.norm(self.places(a) - self.places(b), axis=-1))

    def check_distinct(self) -> None:
        """Refuse a place that occurs twice, to micrometres on the globe."""
        keys = (self.points(self.at) / EARTH).round(12) + 0.0 if self.unit else self.at
        again = np.setdiff1d(self.x, np.unique(keys, axis=0, return_index=True)[1])
        if len(again):
            count, first = len(again), again[0]
            raise PefourierError(f"remove duplicate places: {count}, the first in row {first}")

    def beyond(self, distance: float, bearing: float, at: Floats) -> Floats:
        """Places at a distance from places (m, 2), in the direction of a bearing in radians."""
        if not self.unit:
            return at + distance * np.array([np.sin(bearing), np.cos(bearing)])
        arc, east = distance / EARTH, self.points(np.add(at * [1.0, 0.0], [90.0, 0.0]))
        north = self.points(np.add(at, [0.0, 90.0]))
        heading = north * np.cos(bearing) + east * np.sin(bearing)
        x, y, z = (self.points(at) * np.cos(arc) + heading * np.sin(arc)).T
        return np.stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))], axis=-1) * (180 / pi)


def place_domain(places: ArrayLike, unit: str) -> PlaceDomain:
    """Domain of places (n, 2); refuse places off the globe."""
    at = np.atleast_2d(np.asarray(places, dtype=float))  # a file of one place has one axis
    names = "longitude (-180 … 360) and latitude (-90 … 90 degrees)" if unit else "x and y"
    if at.ndim != 2 or at.shape[1] != 2:
        raise PefourierError(f"places must be two columns, {names}; got shape {at.shape}")
    middle, reach = ([90.0, 0.0], [270.0, 90.0]) if unit else (0.0, 1e100)
    wrong = np.flatnonzero(~(np.abs(at - middle) <= reach).all(axis=1))
    if len(wrong):
        raise PefourierError(f"a place must be {names}; row {wrong[0]} is {at[wrong[0]].tolist()}")
    return PlaceDomain("place", np.arange(len(at)), at=at, unit=unit)


def placed(name: str, d: int, vectors: Vectors, length: int, places: Floats | None) -> Encoding:
    """Return the encoding of places; by default, those of a Fibonacci lattice on the globe.

    Its vectors are those of row numbers x (n,), or of any places x (n, 2).
    """
    i = np.arange(length)
    angles = [pi * (i * (sqrt(5) - 1) % 2 - 1), np.arcsin((2 * i + 1) / length - 1)]
    at = np.degrees(angles).T if places is None else places
    domain = place_domain(at, "" if name == "space2vec" else "km")
    stated = {} if places is None else {"places": tuple(map(tuple, domain.at.tolist()))}

    def vectors_at(x: Array) -> Floats:
        return vectors(domain.at[within(x, len(domain), name)] if x.ndim == 1 else x)

    return Encoding(name, domain, d, vectors_at, params={"length": len(domain), **stated})


def scales(d: int, columns: int, r_min: float, r_max: float) -> Floats:
    """Geometric frequencies from 1 / r_min down to 1 / r_max, one for each block of columns."""
    if d < columns or not 0 < r_min <= r_max < inf:
        rule = f"d of at least {columns}, and finite radii 0 < r_min <= r_max"
        raise PefourierError(f"scales need {rule}; got d={d}, r_min={r_min:g}, r_max={r_max:g}")
    exponents = np.arange(d // columns) / max(1, d // columns - 1)
    return 1 / (r_min * (r_max / r_min) ** exponents)


def padded(parts: list[Floats], d: int) -> Floats:
    """Join parts (n, …) of vectors along their last axis and fill d columns with zeros."""
    table = np.stack(parts, axis=-1).reshape(len(parts[0]), -1)
    return np.pad(table, ((0, 0), (0, d - table.shape[1])))


@encoding("space2vec", "Mai et al., 2020, arXiv 2003.00824", domain="place")
def space2vec(
    length: int,
    d: int,
    *,
    kind: Literal["grid", "theory"] = "grid",
    r_min: float = 0.0,
    r_max: float = 10000.0,
    places: Floats | None = None,
) -> Encoding:
    """Sines and cosines of places on a plane at geometric scales (Space2Vec).

    The frequencies f_k go from 1/r_min down to 1/r_max. kind=grid has sin(x f_k), cos(x f_k) for
    all k, then the same of y; kind=theory has, for each k, sin and cos of f_k a·(x, y) for unit
    vectors a at 0, 120 and 240 degrees. Columns beyond the last complete scale are zero.

    Parameters
    ----------
    kind : str
        grid: x and y separately, 4 columns per scale; theory: three directions, 6 columns.
    r_min : float
        Smallest radius, in the unit of x and y; 0 means 10 for grid and 1000 for theory.
    r_max : float
        Largest radius, in the unit of x and y.
    places : array
        x and y of each place, from --places FILE; by default longitudes and latitudes of an
        even spread on the globe.

    Examples
    --------
    >>> space2vec(1, 4, r_min=1, r_max=2, places=np.array([[0.5, 0]])).table().round(3)
    array([[0.479, 0.878, 0.   , 1.   ]])
    """
    angles = np.radians([0, 90] if kind == "grid" else [0, 120, 240])
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1).round(15)
    f = scales(d, 2 * len(angles), r_min or (10.0 if kind == "grid" else 1000.0), r_max)

    def vectors(at: Floats) -> Floats:
        phases = np.multiply.outer(at @ directions.T, f)  # (places, directions, scales)
        phases = phases if kind == "grid" else phases.transpose(0, 2, 1)
        return padded([np.sin(phases), np.cos(phases)], d)

    return placed("space2vec", d, vectors, length, places)


@encoding("sphere2vec", "Mai et al., 2022, arXiv 2201.10489 (sphereC)", domain="place")
def sphere2vec(
    length: int, d: int, *, r_min: float = 0.001, r_max: float = 1.0, places: Floats | None = None
) -> Encoding:
    """Sphere2Vec (sphereC): unit vectors of latitude and longitude times each of several scales.

    Columns are sin(f_k lat), cos(f_k lat) cos(f_k lon), cos(f_k lat) sin(f_k lon) for each f_k from
    1/r_min down to 1/r_max. At f_k = 1 (r_max=1, radians), inner products are the cosine of the
    great-circle distance. At other scales, inner products depend on more than the distance, and
    vectors jump at the date line unless f_k is an integer. Columns beyond the last complete scale
    are zero.

    Parameters
    ----------
    r_min : float
        Smallest radius in radians; the authors' scripts set 0.001 and 0.0001.
    r_max : float
        Largest radius in radians. SatCLIP's copy uses degrees for angles and radii.
    places : array
        Longitude and latitude in degrees, from --places FILE; by default even over the globe.

    Examples
    --------
    >>> sphere2vec(1, 3, r_min=0.5, places=np.array([[30.0, 0.0]])).table().round(3)
    array([[0.   , 0.5  , 0.866]])
    """
    f = scales(d, 3, r_min, r_max)

    def vectors(at: Floats) -> Floats:
        lon, lat = np.multiply.outer(np.radians(at), f).swapaxes(0, 1)
        return padded([np.sin(lat), np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon)], d)

    return placed("sphere2vec", d, vectors, length, places)


@encoding("spherical-harmonics", "Rußwurm et al., 2024, arXiv 2310.06743", domain="place")
def spherical_harmonics(length: int, d: int, *, places: Floats | None = None) -> Encoding:
    """Real spherical harmonics Y_lm of all degrees l below √d.

    Columns are ordered by l and m = -l … l, orthonormal on the sphere, with the Condon-Shortley
    sign: √2 N_lm P_l^|m|(cos θ) times sin(|m| φ) for m < 0 and cos(m φ) for m > 0, at
    φ = longitude + 180 and θ = latitude + 90 degrees as in SatCLIP. Inner products depend only on
    the great-circle distance γ: Σ (2l + 1) P_l(cos γ) / 4π.

    Parameters
    ----------
    places : array
        Longitude and latitude in degrees, from --places FILE; by default even over the globe.

    Examples
    --------
    >>> spherical_harmonics(1, 4, places=np.array([[10.0, 45.0]])).table().round(4)
    array([[ 0.2821,  0.06  , -0.3455,  0.3402]])
    """
    degrees = isqrt(d)
    if degrees**2 != d:
        raise PefourierError(f"spherical-harmonics needs a square d; got {d=}; use d={degrees**2}")

    def vectors(at: Floats) -> Floats:
        phi, theta = np.radians(np.add(at, [180.0, 90.0])).T
        table, edge = np.empty((len(at), d)), np.full(len(at), 1 / sqrt(4 * pi))
        for m in range(degrees):
            below, legendre, size = 0 * edge, edge, sqrt(2) if m else 1.0
            for n in range(m, degrees):  # if m is 0, the cosine replaces the sine
                table[:, n * n + n - m] = size * np.sin(m * phi) * legendre
                table[:, n * n + n + m] = size * np.cos(m * phi) * legendre
                a, b = (max(4 * k * k - 1, 1) / max(k * k - m * m, 1) for k in (n + 1, n))
                below, legendre = legendre, sqrt(a) * (np.cos(theta) * legendre - below / sqrt(b))
            edge = -sqrt((2 * m + 3) / (2 * m + 2)) * np.sin(theta) * edge
        return table

    return placed("spherical-harmonics", d, vectors, length, places)

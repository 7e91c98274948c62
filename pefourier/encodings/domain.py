"""Domains of encodings: points, and the energy of a table at each frequency of its domain.

Conventions
-----------
A domain has n points with coordinates ``x``. Angular frequencies ``omega`` lie in [0, pi], in
radians per position, lag, mean spacing of times, or edge of a tree. On regular points (positions,
lags, times at even steps) the Fourier transform is the real FFT. Irregular times and trees use a
small dense orthonormal basis, with columns by ascending omega.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pefourier.encodings.checks import LARGEST, check_count
from pefourier.errors import PefourierError
from pefourier.types import Array, Counts, Fields, Floats, Ints, Places, Table

EVEN = 1e-3  # largest deviation of evenly spaced times, in steps
LARGEST_BASIS = 8192  # points of an irregular domain: the basis then takes 512 MiB
COLUMNS_AT_ONCE = 64  # columns transformed together: bounds the memory for a long table


@dataclass(frozen=True, eq=False)
class Domain:
    """Domain of n points; without a basis, the FFT applies."""

    kind: Literal["position", "lag", "time", "tree", "graph", "place"]
    x: Array  # (n,) coordinate of each point
    grid: Counts = ()  # points along each axis, the slowest first; () for a single axis
    prefix: int = 0  # rows before the lattice, without coordinates

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def sides(self) -> Counts:
        """Points along each axis of the lattice, the slowest first; their product is n - prefix."""
        return self.grid or (len(self),)

    @property
    def has_lags(self) -> bool:
        """Whether steps are even: several pairs of points then have the same lag."""
        return not isinstance(self, BasisDomain)

    @cached_property
    def irregular(self) -> bool:
        """Whether points are times at uneven steps: nothing aliases, and most lags are unique."""
        return self.kind == "time" and not self.has_lags

    @property
    def spacing(self) -> float:
        """Mean step of times in their unit; 1 for a single time and for all other points.

        >>> instants([3.0, 3.5, 5.0]).spacing
        1.0
        """
        if self.kind != "time" or len(self) == 1:
            return 1.0
        return float(self.x[-1] - self.x[0]) / (len(self) - 1)

    def coordinates(self, x: Places) -> Places:
        """Integer coordinates of each point x on the lattice, shape (len(x), axes).

        Lags on a grid are displacements key - query, of both signs.

        >>> lattice((2, 3), prefix=1).coordinates(np.array([1, 6]))
        array([[0, 0],
               [1, 2]])
        >>> lags_on((2, 3)).coordinates(np.array([0, 14]))
        array([[-1, -2],
               [ 1,  2]])
        """
        place = np.stack(np.unravel_index(np.asarray(x) - self.prefix, self.sides), axis=-1)
        return place - np.array(self.sides) // 2 if self.kind == "lag" else place

    def without_prefix(self) -> Domain:
        """Return the domain without the rows before the lattice.

        >>> lattice((2, 2), prefix=1).without_prefix().x
        array([1, 2, 3, 4])
        """
        behind = len(self) - math.prod(self.sides)
        return replace(self, x=self.x[behind:]) if self.prefix and behind else self

    def places(self, x: Array) -> Array:
        """Return points as input of a `Measure`: coordinates on several axes, otherwise numbers.

        >>> positions(9).places(np.array([7]))
        array([7])
        """
        if len(self.sides) > 1:
            return self.coordinates(x)
        return self.coordinates(x)[:, 0] if self.grid else np.asarray(x)


@dataclass(frozen=True, eq=False)
class BasisDomain(Domain):
    """Domain of n points with explicit frequencies and an orthonormal basis."""

    omega: Floats = field(kw_only=True)  # (n,) radians per unit of x, one per column
    basis: Floats = field(kw_only=True)  # (n, n) orthonormal columns


def positions(length: int) -> Domain:
    """Positions 0 … length - 1 of a sequence."""
    return Domain("position", np.arange(length))


def lattice(sides: Ints, prefix: int = 0) -> Domain:
    """Points of a lattice in raster order, the first axis slowest, after `prefix` other rows.

    >>> len(lattice((14, 14), prefix=1))
    197
    """
    for side in sides:
        check_count("a side of a grid", side)
    check_count("prefix", prefix, 0)
    count = prefix + math.prod(sides)
    check_count("points of a grid", count, maximum=LARGEST)
    return Domain("position", np.arange(count), grid=tuple(sides), prefix=prefix)


def lags_between(length: int, *, causal: bool = False) -> Domain:
    """Lags key - query between `length` positions: both signs, or only lags up to 0 if causal."""
    return Domain("lag", np.arange(1 - length, 1 if causal else length))


def lags_on(sides: Ints, prefix: int = 0) -> Domain:
    """Displacements key - query between points of a grid: 2 H - 1 by 2 W - 1, in raster order.

    >>> len(lags_on((7, 7), prefix=3))
    172
    """
    lags = lattice([2 * side - 1 for side in sides], prefix)
    return replace(lags, kind="lag")


def instants(t: ArrayLike) -> Domain:
    """Strictly increasing times; for uneven steps, the basis is a QR of sampled cosines and sines.

    Frequencies are 2 pi k / n per mean spacing, as for positions.

    >>> instants([0.0, 0.9, 2.2]).irregular, instants([0.0, 0.9, 1.8]).irregular
    (True, False)
    """
    x = np.asarray(t, dtype=float)
    check_times(x)
    n, domain = len(x), Domain("time", x)
    steps = (x - x[0]) / domain.spacing
    if np.abs(steps - np.arange(n)).max() <= EVEN:
        return domain
    check_basis(n, "times")
    k = (np.arange(n) + 1) // 2  # 0, 1, 1, 2, 2, …: a cosine and a sine for each frequency
    phase = 2 * np.pi / n * np.outer(steps, k)
    waves = np.where(np.arange(n) % 2, np.cos(phase), np.where(k, np.sin(phase), 1.0))
    return BasisDomain("time", x, omega=2 * np.pi * k / n, basis=np.linalg.qr(waves)[0])


def time_axis(length: int, times: ArrayLike | None) -> tuple[Domain, Fields]:
    """Domain of `times`, or of positions if None, and the parameters that follow from it."""
    if times is None:
        return positions(length), {}
    domain = instants(times)
    return domain, {"length": len(domain), "times": tuple(domain.x.tolist())}


def check_times(x: Floats) -> None:
    """Refuse times that are not one increasing column, and report the first fault."""
    if x.ndim != 1 or len(x) == 0:
        raise PefourierError(f"times must be one column of numbers; got shape {x.shape}")
    if not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x))[0])
        raise PefourierError(f"times must be finite; number {row + 1} is {x[row]}")
    falls = np.flatnonzero(np.diff(x) <= 0)
    if len(falls):
        row = int(falls[0])
        fault = "equal" if x[row] == x[row + 1] else "not in order"
        raise PefourierError(
            f"times must increase; numbers {row + 1} and {row + 2}, {x[row]:.10g} and "
            f"{x[row + 1]:.10g}, are {fault}: sort the times and remove duplicates"
        )


def nodes(parents: ArrayLike) -> BasisDomain:
    """Nodes of a rooted tree; the basis is that of the graph Laplacian.

    An eigenvalue λ gives the angular frequency 2 arcsin sqrt(λ / 2Δ) in [0, pi], where Δ is the
    largest degree. On a path, these are the frequencies pi k / n of the DCT-II.

    >>> nodes([-1, 0, 1]).omega / np.pi
    array([0. , 0.33333333, 0.66666667])
    """
    parent = np.asarray(parents, dtype=int)
    n = len(parent)
    check_basis(n, "nodes of a tree")
    child = np.arange(1, n)
    if n == 0 or parent[0] != -1 or (parent[1:] < 0).any() or (parent[1:] >= child).any():
        raise PefourierError("parents must start with -1, and each parent must precede its node")
    laplacian = np.zeros((n, n))
    laplacian[child, parent[1:]] = laplacian[parent[1:], child] = -1.0
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    values, basis = np.linalg.eigh(laplacian)
    bound = 2 * max(laplacian.diagonal().max(), 2.0)
    share = np.clip(values / bound, 0.0, 1.0).round(12)  # equal eigenvalues are stored equal
    return BasisDomain("tree", np.arange(n), omega=2 * np.arcsin(np.sqrt(share)), basis=basis)


def check_basis(n: int, noun: str) -> None:
    """Refuse more points than a dense basis (n, n) allows."""
    if n > LARGEST_BASIS:
        raise PefourierError(f"{n} {noun} are too many for an (n, n) basis; limit {LARGEST_BASIS}")


def periodogram(domain: Domain, table: Table) -> tuple[Floats, Floats]:
    r"""Energy of a table at each frequency of its domain, summed over columns.

    On n regular points with :math:`X = \mathrm{rfft}(T)`: :math:`|X_0|^2/n` at the constant,
    :math:`2|X_k|^2/n` at :math:`2\pi k/n`, and :math:`|X_{n/2}|^2/n` at Nyquist if n is even. The
    energies sum to the squared Frobenius norm of the table (Parseval). On a lattice of several axes
    with :math:`X = \mathrm{rfftn}(T)`, in numpy's order: :math:`|X_k|^2/n` at the first frequency
    of the last axis and, if its side is even, at the last; :math:`2|X_k|^2/n` at the frequencies
    between.

    Parameters
    ----------
    domain : Domain
        n points without a prefix.
    table : array, shape (n, d)
        One row per point.

    Returns
    -------
    omega : array, shape (K,)
        Distinct angular frequencies, ascending; K = n // 2 + 1 on regular points. On a lattice of
        several axes, (K, axes).
    energy : array, shape (K,)
        Squared norms.

    Examples
    --------
    >>> periodogram(positions(4), np.eye(4))[1]
    array([1., 2., 1.])
    """
    n = len(domain)
    if isinstance(domain, BasisDomain):
        squares = ((domain.basis.T @ np.asarray(table, dtype=float)) ** 2).sum(axis=1)
        omega, column = np.unique(domain.omega, return_inverse=True)
        return omega, np.bincount(column, weights=squares).astype(float, copy=False)
    sides = domain.sides
    last = sides[-1]
    energy = np.zeros((*sides[:-1], last // 2 + 1))
    for start in range(0, table.shape[1], COLUMNS_AT_ONCE):
        columns = np.asarray(table[:, start : start + COLUMNS_AT_ONCE], dtype=float)
        columns = columns.reshape(*sides, columns.shape[1])
        coefficients = np.fft.rfftn(columns, axes=range(len(sides)))
        energy += (coefficients.real**2 + coefficients.imag**2).sum(axis=-1)
    energy[..., 1 : (last + 1) // 2] *= 2
    axes = half_plane(sides)
    return (axes[0] if len(axes) == 1 else lattice_points(axes)), energy.ravel() / n


def distinct(numbers: Places) -> Places:
    """Return whole numbers in order, each once; plain `np.unique` imports numpy.ma (6 ms)."""
    return np.unique(numbers, return_index=True)[0]


def half_plane(sides: Ints) -> list[Floats]:
    """Frequencies of a lattice along each axis, radians per point; 0 … pi for the last axis.

    Real vectors have the same energy at opposite frequencies, and half of the frequencies suffice.
    The order is that of ``numpy.fft.rfftn``.

    >>> [axis.round(2).tolist() for axis in half_plane((3, 4))]
    [[0.0, 2.09, -2.09], [0.0, 1.57, 3.14]]
    """
    *leading, last = sides
    signed = [2 * np.pi * np.asarray(np.fft.fftfreq(n), dtype=float) for n in leading]
    return [*signed, 2 * np.pi * np.arange(last // 2 + 1, dtype=float) / last]


def lattice_points(axes: Sequence[Array]) -> Array:
    """All combinations of coordinates, one per row, the first axis slowest.

    >>> lattice_points([np.array([0, 1]), np.array([5, 6])]).tolist()
    [[0, 5], [0, 6], [1, 5], [1, 6]]
    """
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def steps_ahead(sides: Ints) -> Places:
    """Displacements of a grid without their opposites: the first nonzero coordinate is positive.

    >>> steps_ahead((1, 3)).tolist(), len(steps_ahead((2, 3)))
    ([[0, 1], [0, 2]], 7)
    """
    displacements = lattice_points([np.arange(1 - n, n) for n in sides])
    return displacements[len(displacements) // 2 + 1 :]


def displacement_of_each_pair(domain: Domain, length: int, spec: str) -> Places:
    """Row of the displacement of each pair of query and key on a grid, shape (length^2,).

    >>> displacement_of_each_pair(lags_on((1, 2)), 2, "swin")
    array([1, 2, 0, 1])
    """
    sides = tuple((side + 1) // 2 for side in domain.grid)
    if math.prod(sides) != length:
        raise PefourierError(f"{spec} has lags of {math.prod(sides)} points, not {length} tokens")
    places = np.stack(np.unravel_index(np.arange(length), sides), axis=-1)
    lag = places - places[:, None] + np.array(sides) - 1  # key - query, from 0
    rows = np.ravel_multi_index(tuple(np.moveaxis(lag, -1, 0)), domain.grid)
    return np.asarray(domain.prefix + rows.ravel())

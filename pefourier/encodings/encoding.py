"""Encodings: a function from the points of a domain to vectors, with the known properties.

Conventions
-----------
A table has one row per point: shape (n, d) for n points and d dimensions. `Measure` is the spectral
measure (Eq. 15 of the paper): frequencies with weights. Angular frequencies are in radians per
position, lag, mean spacing of times, or edge of a tree; those of a periodogram lie in [0, pi]. On
regular points (positions, lags, times at even steps) the Fourier transform is the real FFT.
Irregular times and trees use a small dense orthonormal basis, with columns by ascending omega.

findings.toml lists the messages of findings by code and severity. An error is certainly a mistake,
a warning probably is, and a note states a convention. A code with several messages lists each under
the name of its variant.

A pair is a sine and a cosine of the same phase in two columns. Interleaved: the two columns of a
pair are adjacent. Halves: the first columns of all pairs precede the second columns. Either the
sines or the cosines come first. The analysis does not depend on the order; rotations do. The
reference order is interleaved, sines first, pairs in the order of their phases.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pefourier.errors import (
    COMPUTED,
    LARGEST,
    NUMBERS,
    PefourierError,
    channel_sides,
    check_count,
    check_magnitude,
    check_size,
    image_sides,
    reshaping,
    shown,
    table_axes,
)
from pefourier.types import (
    Array,
    Bools,
    Counts,
    Fields,
    Floats,
    Ints,
    Places,
    Strings,
    Table,
    Values,
    frozen,
    frozen_arrays,
)
from pefourier.writing.files import read_section
from pefourier.writing.text import agree, number, printable

EVEN = 1e-3  # largest deviation of evenly spaced times, in steps
LARGEST_BASIS = 8192  # points of an irregular domain: the basis then takes 512 MiB
COLUMNS_AT_ONCE = 64  # columns transformed together: bounds the memory for a long table


@frozen_arrays
class Domain:
    """Domain of n points; without a basis, the FFT applies."""

    kind: Literal["position", "lag", "time", "tree", "graph"]
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
    def is_line(self) -> bool:
        """Whether points have one axis."""
        return len(self.sides) == 1

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

        >>> time_axis(0, [3.0, 3.5, 5.0])[0].spacing
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
        if not self.is_line:
            return self.coordinates(x)
        return self.coordinates(x)[:, 0] if self.grid else np.asarray(x)


@frozen_arrays
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
    return replace(lattice([2 * side - 1 for side in sides], prefix), kind="lag")


def time_axis(length: int, times: ArrayLike | None) -> tuple[Domain, Fields]:
    """Domain of `times`, or of positions if None, and the parameters that follow from it.

    Times must increase. For uneven steps, the basis is a QR of sampled cosines and sines, with
    frequencies 2 pi k / n per mean spacing, as for positions.

    >>> [time_axis(0, times)[0].irregular for times in ([0.0, 0.9, 2.2], [0.0, 0.9, 1.8])]
    [True, False]
    """
    if times is None:
        return positions(length), {}
    x = np.asarray(times, dtype=float)
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
    n, domain = len(x), Domain("time", x)
    noted = {"length": n, "times": tuple(x.tolist())}
    steps = (x - x[0]) / domain.spacing
    if np.abs(steps - np.arange(n)).max() <= EVEN:
        return domain, noted
    check_basis(n, "times")
    k = (np.arange(n) + 1) // 2  # 0, 1, 1, 2, 2, …: a cosine and a sine for each frequency
    phase = 2 * np.pi / n * np.outer(steps, k)
    waves = np.where(np.arange(n) % 2, np.cos(phase), np.where(k, np.sin(phase), 1.0))
    basis = np.linalg.qr(waves)[0]
    return BasisDomain("time", x, omega=2 * np.pi * k / n, basis=basis), noted


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
    points = np.unravel_index(np.arange(length), sides)
    rows = np.asarray(np.ravel_multi_index(points, domain.grid))  # a lag is a difference of rows
    return domain.prefix + math.prod(domain.grid) // 2 + (rows - rows[:, None]).ravel()


FLOAT64_EPS, FLOAT32_EPS = (float(np.finfo(kind).eps) for kind in (np.float64, np.float32))
BLOCK = 2**22  # numbers of a table that are read at a time: 32 MiB
ON_CIRCLE = 0.02  # tolerance relative to the radius: bfloat16 has eight bits
COPIED = 2**26  # bytes of rows of a mapped file that are copied


VectorsAt = Callable[[NDArray[Any]], NDArray[np.floating]]  # points (n,) to vectors (n, d)
Operator = Callable[  # R(p) of queries, of keys
    [NDArray[np.int64]], tuple[Floats, Floats]
]
Between = Callable[[Places, Places], Floats]  # queries (q,), keys (k,) to biases (heads, q, k)


@frozen_arrays
class Measure:
    r"""The spectral measure an encoding declares: frequencies and weights.

    If `period` is p, every frequency is 2 pi k / p for an integer k, and phases are exact at every
    position. On several axes, frequencies are vectors (m, axes), and so are positions and lags
    (…, axes): the inner product :math:`\omega_j \cdot (s - t)` replaces the product
    (`Domain.places`).

    With `squared_length` c, inner products depend only on the lag: they are exactly
    :math:`c \sum_j w_j \cos(\omega_j (s - t))`. If it is 0, weights describe only the spectrum.
    """

    frequencies: Floats  # (m,) radians per position, not folded into [0, pi]
    weights: Floats  # (m,) summing to one
    squared_length: float = field(default=0.0, kw_only=True)  # of each vector, or 0
    period: int | None = None
    offset: float | Floats = 0  # phases of position x are omega_j (x + offset)

    def __len__(self) -> int:
        return len(self.weights)

    def phases(self, x: Array, columns: slice = slice(None)) -> Floats:
        """Phases at positions x, shape (len(x), m)."""
        return self.angles(np.asarray(x) + self.offset, columns)

    def angles(self, lags: Array, columns: slice = slice(None), per: int = 1) -> Floats:
        """Angles omega_j lag / per; with a `period`, reduced exactly to at most pi in size.

        >>> Measure(np.eye(2), np.full(2, 0.5)).angles(np.array([[3, 5]]))  # 3 rows, 5 columns
        array([[3., 5.]])
        """
        if self.period is None:
            return products(np.asarray(lags, dtype=float), self.frequencies[columns] / per)
        modulus, index = self.period * per, self.index(self.period)[columns]
        steps: Places = products(np.asarray(lags) % modulus, index) % modulus
        steps -= modulus * (2 * steps > modulus)
        return np.asarray(steps * (2 * np.pi / modulus), dtype=float)

    def index(self, period: int) -> Places:
        """Integers k of the frequencies 2 pi k / period."""
        return np.rint(self.frequencies * (period / (2 * np.pi))).astype(np.int64)

    @cached_property
    def amplitudes(self) -> Floats:
        """Amplitude of the cosine and sine at each frequency."""
        return np.sqrt(self.squared_length * self.weights)

    def kernel(self, lags: Array) -> Floats:
        """Inner product of vectors `lags` apart, relative to their squared norm, in blocks."""
        blocks = row_blocks(len(lags), BLOCK, len(self)) or [slice(0)]
        return np.concatenate([np.cos(self.angles(lags[rows])) @ self.weights for rows in blocks])


NO_WAVES = Measure(np.zeros(0), np.zeros(0))  # no declared frequencies; false in a condition


def equal_pairs(
    frequencies: Floats, *, amplitude: float = 1.0, offset: float | Floats = 0
) -> Measure:
    """Return the measure of a sine and a cosine of equal amplitude at each of m frequencies."""
    m = len(frequencies)
    squared_length = m * amplitude * amplitude
    return Measure(frequencies, np.full(m, 1 / m), squared_length=squared_length, offset=offset)


def products(lags: Array, frequencies: Array) -> Array:
    """Products of lags (…) and frequencies (m,), or (…, axes) and (m, axes); shape (…, m)."""
    if frequencies.ndim == 1:
        return np.multiply.outer(lags, frequencies)
    return lags @ frequencies.T


@frozen
class Finding:
    """A finding about an encoding, with a code, a severity and a message."""

    code: str
    severity: Literal["error", "warning", "note"]  # certain bug, likely bug, convention
    message: str


@frozen_arrays
class Encoding:
    """An encoding: `vectors(x)` returns the vectors of points x, shape (len(x), d)."""

    name: str
    domain: Domain
    dim: int
    vectors: VectorsAt
    injection: Literal["add", "rotate", "bias", "key", "key-query"] = "add"  # use by attention
    params: Values = field(default_factory=dict)
    spec: str = ""  # the request as typed
    typed: Values | None = None  # options with it; None if they cannot be typed
    eps: float = FLOAT64_EPS  # resolution of the stored numbers: float32 files are coarser
    findings: Findings = ()  # found while loading or building
    origin: Literal["formula", "weights", "file", "code"] = "formula"
    untrained: bool = False  # the table has initial values, from before training
    lattice: int | None = None  # points of the frequency axis if the length was set; None: d
    paired: bool = False  # columns come from an array (n, m, 2) or from complex numbers
    rebuild_at: Callable[[Counts], Encoding] | None = None  # rebuild for another window
    kernel: Measure = NO_WAVES  # of inner products on a line, without frequencies
    file: Any = None  # the opened config (`ModelFile`) or .gguf file (`GgufFile`) it comes from
    measure: Measure = NO_WAVES  # declared frequencies
    operator: Operator | None = None  # of user code that rotates queries and keys
    between: Between | None = None  # a bias for each query and key
    by_lag: bool = True  # whether the bias depends on the lag alone: vectors are those of lags

    def __len__(self) -> int:
        return len(self.domain)

    @property
    def inverse_keys(self) -> bool:
        """Whether keys are scaled by the inverse factors; the vectors are those of queries."""
        return self.name == "xpos"

    @property
    def table_limit(self) -> int:
        """Largest number of entries in a table; smaller for tables computed by a formula."""
        return COMPUTED if self.origin == "formula" else NUMBERS

    @property
    def fits(self) -> bool:
        """Whether points have vectors, and their table is within `table_limit`."""
        return self.by_lag and len(self) * self.dim <= self.table_limit

    @property
    def is_stationary(self) -> bool:
        """Whether inner products depend only on the lag and lags are whole steps.

        The lags can then be searched instead of all pairs of points.
        """
        return self.measure.squared_length > 0 and self.domain.kind != "time"

    @cached_property
    def label(self) -> str:
        """The request as displayed."""
        return printable(self.spec)

    def table(self, x: Array | None = None) -> Table:
        """Return the table (n, d) of all points, or of points x, in the stored type of a file."""
        x = self.domain.x if x is None else x
        check_size(f"a table of {shown(self.spec)}", len(x), self.dim, limit=self.table_limit)
        vectors = self.vectors(x)
        if not self.fits:  # otherwise `build` has checked the vectors
            check_magnitude(self.spec, largest_number(vectors))
        return vectors

    def float_table(self, x: Array | None = None) -> Floats:
        """Return the table of all points, or of points x, in float64."""
        return np.asarray(self.table(x), dtype=float)

    def blocks(self, rows: int | None = None) -> Iterator[tuple[int, Floats]]:
        """Yield the table in blocks of float64 rows, each with the index of its first row."""
        for block in row_blocks(len(self), rows or max(1, BLOCK // self.dim)):
            yield block.start, np.asarray(self.vectors(self.domain.x[block]), dtype=float)

    @property
    def tokens(self) -> int:
        """Number of queries, and of keys, of a bias."""
        return 1 - int(self.domain.x[0])

    @cached_property
    def bias(self) -> Floats:
        """Biases (heads, n, n) of all pairs of positions; -inf where a key is masked."""
        assert self.between
        x = np.arange(self.tokens)
        check_size(self.name, self.dim, len(x), len(x), limit=self.table_limit)
        return np.stack([self.between(x[i : i + 1], x)[:, 0] for i in x], axis=1)

    def hardest_query(self) -> tuple[Encoding, int]:
        """Return the biases of one query, by lag, and the query: most of its keys share biases.

        Of several such queries, and if no query has keys that share biases, it is the last.
        """
        n, is_causal = self.tokens, self.domain.x[-1] <= 0
        rows = [self.bias[:, i, : i + 1 if is_causal else n].T for i in range(n)]
        if not all(np.isfinite(row).all() for row in rows):
            raise PefourierError(f"{self.name} holds -inf, a mask; `pefourier compare` reads masks")
        query = max(range(n), key=lambda i: (len(rows[i]) - len(np.unique(rows[i], axis=0)), i))
        row = rows[query]
        enc = replace(
            self,
            domain=replace(self.domain, x=np.arange(len(row)) - query),
            vectors=lambda lag: row[np.asarray(lag) + query],
            between=None,
            by_lag=True,
        )
        return enc, query

    def table_of_pairs(self) -> Floats:
        """Biases (n n, heads) of all pairs, one query after the other; refuse masked keys."""
        if not np.isfinite(self.bias).all():
            raise PefourierError(f"{self.name} masks keys (-inf); all keys need a finite bias")
        return self.bias.reshape(self.dim, -1).T


def row_blocks(n: int, numbers: int, width: int = 1) -> list[slice]:
    """Split rows 0 … n - 1 of `width` numbers into blocks of at most `numbers` numbers.

    A longer row is a block by itself.

    >>> row_blocks(5, 7, width=3)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, numbers // width)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def largest_number(table: Array) -> float:
    """Largest absolute value in a table; NaN if the table contains NaN.

    >>> largest_number(np.array([[1.0, -3.0]]))
    3.0
    """
    parts = (table[rows] for rows in row_blocks(len(table), 2**12))
    return float(np.max([(float(part.max()), -float(part.min())) for part in parts]))


def unit_of(table: Array) -> float:
    """Power of two that scales a table's largest absolute value into [1/2, 1); 1 for zeros.

    Scaling by a power of two is exact, and sums of powers of the scaled numbers do not overflow.

    >>> unit_of(np.array([[0.75, -3.0]]))
    0.25
    """
    exponent = int(np.frexp(largest_number(table))[1])
    return float(np.ldexp(1.0, min(-exponent, 1023)))


def from_table(table: Array, name: str = "table", **facts: Any) -> Encoding:
    """Return the encoding of a table (n, d): row s is the vector of position s.

    >>> from_table(np.eye(3)).dim
    3
    """
    if table.ndim != 2 or 0 in table.shape:
        shape = f"{name} has shape {table.shape}{reshaping(table.shape)}"
        raise PefourierError(f"a table must have two axes, (positions, dimensions); {shape}")
    top = largest_number(table)
    if not np.isfinite(top):
        if len(table) == table.shape[1] > 2 and (np.isfinite(table) | np.isneginf(table)).all():
            return from_bias(np.asarray(table)[None], name, **facts)  # a mask of queries and keys
        row, column = np.unravel_index(np.argmin(np.isfinite(table)), table.shape)
        where = f"row {row}, column {column}; all numbers must be finite"
        if table.dtype == np.float16:
            where += ", and float16 overflows beyond 65504: compute the table in float32"
        raise PefourierError(f"{name} holds {table[row, column]} at {where}")
    check_magnitude(name, top)
    facts = {"origin": "code", "lattice": max(table.shape), **facts}
    n, d = table.shape
    return Encoding(name, positions(n), d, lambda x: rows_of(table, within(x, n, name)), **facts)


def is_bias(shape: Counts) -> bool:
    """Return whether an array is a bias (heads, n, n) or (1, heads, n, n).

    >>> is_bias((4, 40, 40)), is_bias((1, 4, 40, 40)), is_bias((1, 40, 40)), is_bias((40, 2, 2))
    (True, True, False, False)
    """
    has_heads = len(shape) in (3, 4) and shape[:-3] in ((), (1,)) and shape[-3] > 1
    return has_heads and shape[-2] == shape[-1] > 2


def from_bias(array: Array, name: str = "bias", **facts: Any) -> Encoding:
    """Return the encoding of a bias (heads, n, n) for each query and key, with vectors of lags.

    If all keys after the query are masked by -inf, their lags are left out. `vectors` refuses other
    masks and biases that depend on more than the lag (`bias_of_pairs`); `compare` accepts all.

    >>> from_bias(np.zeros((2, 3, 3))).table().shape
    (5, 2)
    """
    heads, n = array.shape[-3:-1]
    bias = np.asarray(array, dtype=float).reshape(heads, n, n)
    if np.isnan(bias).any():
        raise PefourierError(f"{name} holds NaN; biases must be numbers, or -inf where masked")

    def between(queries: Places, keys: Places) -> Floats:
        return bias[:, queries[:, None], keys]

    facts = {"origin": "code", "lattice": n, **facts}
    if not np.array_equal(bias[:, 1:, 1:], bias[:, :-1, :-1]):
        is_causal = bool(np.isneginf(bias[:, ~np.tri(n, dtype=bool)]).all())
        return bias_of_pairs(name, between, lags_between(n, causal=is_causal), heads, **facts)
    profile = np.hstack([bias[:, -1], bias[:, 0, 1:]]).T  # of lags 1 - n … n - 1
    causal = bool(np.isneginf(profile[n:]).all() and profile[:n].any())
    profile = profile[:n] if causal else profile

    def vectors(x: Array) -> Floats:
        if not np.isfinite(profile).all():
            lag = int(np.flatnonzero(~np.isfinite(profile).all(axis=1))[0]) + 1 - n
            way_out = "use `pefourier compare`, which reads masks, or replace -inf by a number"
            raise PefourierError(f"{name} holds -inf, a mask, at lag {lag}: {way_out}")
        return np.asarray(profile[np.asarray(x) + n - 1])

    facts |= {"injection": "bias", "between": between}
    return Encoding(name, lags_between(n, causal=causal), heads, vectors, **facts)


def bias_of_pairs(name: str, between: Between, lags: Domain, d: int, **facts: Any) -> Encoding:
    """Return the encoding of biases of query and key, in which lags have no vectors.

    check-faithful, compare, context and train read the biases of all pairs.
    """
    n = 1 - int(lags.x[0])
    hint = reshaping((d, n, n)) if "origin" in facts else ""

    def vectors(_: Array) -> Floats:
        shape = f"biases (heads, queries, keys) = ({d}, {n}, {n})"
        way_out = f"use check-faithful, compare (without --plot), context or train{hint}"
        raise PefourierError(f"{name}: {shape} depend on more than the lag: {way_out}")

    facts = {"injection": "bias", "between": between, "by_lag": False, **facts}
    return Encoding(name, lags, d, vectors, **facts)


def rows_up_to(table: Array, length: int | None, label: str) -> Array:
    """Return the first `length` rows of a table, by default all."""
    if length is not None and length > len(table):
        raise PefourierError(f"{label} has {len(table)} positions, fewer than --length {length}")
    return table[:length]


def rows_of(table: Array, rows: Places | slice) -> Array:
    """Return rows of a table; copy them from a mapped file, with a check of its size around it.

    Reading a page that the file lost, because it was truncated, would kill the process.
    """
    if not isinstance(table, np.memmap):
        return table[rows]
    check_length(table)
    part = table[rows]
    part = np.array(part) if part.nbytes <= COPIED else part
    check_length(table)
    return part


def check_length(table: np.memmap[Any, Any]) -> None:
    """Refuse a mapped file that became shorter than its table."""
    path = Path(str(table.filename))
    if path.stat().st_size < table.offset + table.nbytes:
        raise PefourierError(f"{shown(str(path))} became shorter while it was read; write it again")


def within(x: Array, length: int, name: str) -> Places | slice:
    """Row indices for points of a table of `length` rows; consecutive rows as a slice (no copy)."""
    check_inside(x, length, "position", f"the positions of {name}")
    if len(x) and x[-1] - x[0] + 1 == len(x) and (np.diff(x) == 1).all():
        return slice(int(x[0]), int(x[0]) + len(x))
    return np.asarray(x, dtype=np.int64)


def check_inside(x: Array, count: int, noun: str, limits: str) -> None:
    """Refuse points beyond 0 … count - 1."""
    if len(x) and not (0 <= np.min(x) and np.max(x) < count):
        worst = int(np.min(x) if np.min(x) < 0 else np.max(x))
        raise PefourierError(f"{noun} {worst} is outside 0 … {count - 1}, {limits}")


def without_prefix(enc: Encoding) -> Encoding:
    """Return an encoding without the rows before its lattice.

    A lattice with one axis becomes a sequence of positions from 0.
    """
    domain, behind = enc.domain.without_prefix(), enc.domain.prefix
    if len(domain.grid) != 1 or domain.kind == "lag":
        return enc if domain is enc.domain else replace(enc, domain=domain)
    line = replace(
        enc,
        domain=positions(len(domain)),
        vectors=lambda x: enc.vectors(np.asarray(x) + behind),
    )
    if not line.measure:
        return line
    frequencies = line.measure.frequencies.reshape(len(line.measure), -1)[:, 0]
    offset = np.ravel(line.measure.offset)[0].item()
    return replace(line, measure=replace(line.measure, frequencies=frequencies, offset=offset))


def without_mean(enc: Encoding) -> Encoding:
    """Subtract the mean vector over all points, which attention can absorb.

    The result declares no frequencies: they are estimated from the table.

    >>> without_mean(from_table(np.array([[1.0], [2.0], [6.0]]))).table().ravel()
    array([-2., -1.,  3.])
    """
    enc = without_prefix(enc)
    mean: Floats = sum(block.sum(axis=0) for _, block in enc.blocks()) / len(enc)
    return replace(
        enc,
        vectors=lambda x: np.asarray(enc.vectors(x), dtype=float) - mean,
        params={**enc.params, "demean": True},
        measure=NO_WAVES,
    )


def as_encoding(encoding: Any) -> Encoding:
    """Return an encoding unchanged, and an array or tensor (n, d) as the encoding of a table.

    An array (1, rows, columns, d) is placed on that grid. The axes follow the rules for files, see
    `in_rows`.
    """
    if isinstance(encoding, Encoding):
        return encoding
    array, eps = numbers(encoding)
    table, paired = in_rows(array)
    if is_bias(table.shape):
        return from_bias(array, eps=eps)
    paired |= "complex" in str(getattr(encoding, "dtype", ""))
    sides = image_sides(array.shape) or channel_sides(array.shape)
    enc = from_table(table, eps=eps, paired=paired)
    if not sides:
        return enc
    return replace(enc, domain=lattice(sides), params={"grid": sides, "prefix": 0})


def in_rows(array: Array) -> tuple[Array, bool]:
    """Return an array without axes of size 1, and whether it held pairs.

    If a last axis of 2 holds cosines and sines (points on a circle), the columns of a pair become
    adjacent. Dimensions before rows and columns become the last axis, except in biases that depend
    on the lag or contain -inf.

    >>> in_rows(np.ones((3, 4, 2)))[0].shape, in_rows(np.eye(12).reshape(6, 12, 2))[1]
    ((3, 8), False)
    """
    if channel_sides(array.shape):
        shifted = array[..., 1:, 1:] == array[..., :-1, :-1]
        if not is_bias(array.shape) or not (shifted.all() or np.isneginf(array).any()):
            return array.reshape(array.shape[1], -1).T, False
    shape = table_axes(array.shape)
    paired = len(shape) == 3 and shape[2] == 2
    if paired:
        with np.errstate(all="ignore"):  # invalid numbers are refused later
            sizes = np.hypot(*np.moveaxis(array, -1, 0))
            paired = bool(np.ptp(sizes) < ON_CIRCLE * sizes.max())
    return array.reshape((shape[0], 2 * shape[1]) if paired else shape), paired


def numbers(answer: Any) -> tuple[Array, float]:
    """Return an array or torch tensor in float64, and the resolution of its original type.

    Complex numbers, as in source code that rotates, become pairs of adjacent columns: the real and
    the imaginary part.

    >>> numbers(np.ones(2, dtype=np.float32))[1]
    1.1920928955078125e-07
    >>> numbers([[1 + 2j, 3 - 4j]])[0]
    array([[ 1.,  2.,  3., -4.]])
    """
    if np.ma.is_masked(answer):
        raise PefourierError("the array has masked numbers; pass array.filled(x)")
    eps, torch = FLOAT64_EPS, sys.modules.get("torch")  # a caller with a tensor has imported it
    try:
        if torch is not None and isinstance(answer, torch.Tensor):
            tensor = answer.detach().cpu()
            if tensor.is_complex():
                tensor = torch.view_as_real(tensor.resolve_conj()).reshape(*tensor.shape[:-1], -1)
            if tensor.dtype.is_floating_point:
                eps = float(torch.finfo(tensor.dtype).eps)
            array = tensor.double().resolve_neg().numpy()
        else:
            array = np.asarray(answer)
            if array.dtype.kind in "fc":
                eps = float(np.finfo(array.dtype).eps)
    except (ValueError, TypeError, RuntimeError) as error:  # sparse, on meta, ragged
        kind = type(answer).__name__
        raise PefourierError(
            f"expected rows of numbers (length, d); got {kind}: {shown(str(error))}"
        ) from error
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1).reshape(*array.shape[:-1], -1)
    if array.dtype.kind not in "fiub":
        raise PefourierError(f"expected an array of numbers; got type {shown(str(array.dtype))}")
    return (array if isinstance(array, np.memmap) else array.astype(float, copy=False)), eps


FINDINGS = Path(__file__).with_name("findings.toml")
SEVERITIES: tuple[Literal["error", "warning", "note"], ...] = ("error", "warning", "note")


Findings = tuple[Finding, ...]


def finding(code: str, variant: str = "", /, **values: Any) -> Finding:
    """Return the finding of a code, with `values` filled into the slots of its message.

    >>> finding("padding-row", "usual", rows="row 1").severity
    'note'
    """
    row = read_section(FINDINGS, code)
    severity = next(level for level in SEVERITIES if variant in row.get(level, ()))
    text = row[severity][variant] if variant else row[severity]
    return Finding(code, severity, agree((row.get("opening", "") + text).format(**values)))


Layout = Literal["interleaved", "halves"]
Wave = Literal["sin", "cos"]
Interleaving = bool | Literal["rows"]  # of the axes' pairs: cyclic, or only those of y and x
Order = tuple[Layout, Wave]
Columns = tuple[NDArray[np.int64], NDArray[np.int64]]  # first and second column of each pair


def columns_of_blocks(layout: str, sizes: Ints) -> Columns:
    """First and second columns of the pairs, for blocks of `sizes` pairs.

    The layouts interleaved and halves ignore blocks; all other layouts use halves in each block.

    >>> columns_of_blocks("axis-halves", (1, 2))
    (array([0, 2, 3]), array([1, 4, 5]))
    """
    counts = np.array([sum(sizes)] if layout == "halves" else sizes)
    pair = np.arange(counts.sum())
    if layout == "interleaved":
        return 2 * pair, 2 * pair + 1
    begin = np.repeat(np.cumsum(counts) - counts, counts)  # first pair of each pair's block
    return begin + pair, begin + pair + np.repeat(counts, counts)


def rotated_columns(enc: Encoding) -> Columns:
    """First and second columns of the pairs of a rotation, in the order of its phases."""
    layout, sizes = enc.params.get("layout", "halves"), [enc.dim // 2]
    if layout == "axis-halves" and not enc.domain.is_line:
        axis = np.argmax(enc.measure.frequencies != 0, axis=1)
        sizes = np.diff(np.flatnonzero(np.diff(axis, prepend=-1, append=-1))).tolist()
    return columns_of_blocks(layout, sizes)


WAVES = {"sin": (np.sin, np.cos), "cos": (np.cos, np.sin)}  # by the function of first columns


def waves(phases: Floats, layout: Layout, first: Wave = "sin", d: int | None = None) -> Floats:
    """Sines and cosines of (n, m) phases in d columns, by default 2m.

    If d = 2m - 1, the last pair has no second column; columns beyond 2m are zero.

    >>> waves(np.zeros((1, 2)), "halves", first="cos", d=5)
    array([[1., 1., 0., 0., 0.]])
    """
    n, pairs = phases.shape
    table = np.zeros((n, max(2 * pairs, d or 0)))
    for columns, function in zip(
        split_pairs(table[:, : 2 * pairs], layout), WAVES[first], strict=True
    ):
        columns[:] = function(phases)
    return table[:, :d]


def split_pairs(table: Array, layout: Layout) -> tuple[Array, Array]:
    """Split a table (n, d) into the first and second columns of its pairs, views (n, d // 2)."""
    pairs = table.shape[1] // 2
    if layout == "interleaved":
        return table[:, : 2 * pairs : 2], table[:, 1::2]
    return table[:, :pairs], table[:, pairs : 2 * pairs]


def exchanged(table: Array, layout: Layout) -> Array:
    """Return a copy of the table with the two columns of each pair swapped.

    >>> exchanged(np.array([[1, 2, 3, 4, 0]]), "halves")
    array([[3, 4, 1, 2, 0]])
    """
    result = table.copy()
    first, second = split_pairs(result, layout)
    second[:], first[:] = split_pairs(table, layout)
    return result


def orders(d: int) -> dict[Order, Places]:
    """Map layout and first function to the reference column of each of d columns.

    If d is odd, the last sine has no cosine; the interleaved order with cosines first is left out.

    >>> orders(5)["halves", "cos"]
    array([1, 3, 0, 2, 4])
    """
    j = np.arange(d)
    sines, cosines = j[::2], j[1::2]
    return {
        ("interleaved", "sin"): j,
        **({} if d % 2 else {("interleaved", "cos"): j ^ 1}),
        ("halves", "sin"): np.concatenate([sines, cosines]),
        ("halves", "cos"): np.concatenate([cosines, sines]),
    }


CHANGES: dict[str, tuple[Order, Order]] = {  # from one order to another
    "interleaved to halves": (("interleaved", "sin"), ("halves", "sin")),
    "halves to interleaved": (("halves", "sin"), ("interleaved", "sin")),
    "halves exchanged": (("halves", "cos"), ("halves", "sin")),
    "neighbours exchanged": (("interleaved", "sin"), ("interleaved", "cos")),
}


def changes_by_name(d: int) -> dict[str, Places]:
    """Map named changes of the order of d columns to the old column of each new column.

    >>> changes_by_name(4)["halves exchanged"]
    array([2, 3, 0, 1])
    """
    column_orders = orders(d)
    return {
        name: np.argsort(column_orders[old])[column_orders[new]]
        for name, (old, new) in CHANGES.items()
        if old in column_orders and new in column_orders
    }


AXES = "tyx"


def describe_axes(axis: Places) -> str:
    """Describe which axis rotates each pair, with runs and repeated cycles of axes merged.

    >>> describe_axes(np.repeat([0, 1, 2], [16, 24, 24])), describe_axes(np.arange(64) % 3)
    ('16 t + 24 y + 24 x', '21 × (t, y, x) + 1 t')
    """
    letters = "".join((AXES + "e")[i] for i in axis)
    runs = re.finditer(r"(.{1,3}?)\1+|(.)", letters)
    parts = ((run[1] or run[2], len(run[0])) for run in runs)
    counts = [(n // len(unit), ", ".join(unit)) for unit, n in parts]
    return " + ".join(f"{n} × ({axes})" if "," in axes else f"{n} {axes}" for n, axes in counts)


def axes_of_sections(sections: Counts, interleaved: Interleaving, pairs: int) -> Places:
    """Index of the axis (t, y, x) that rotates each pair: in blocks, cyclic, or as in Ernie 4.5.

    The sections of Ernie 4.5 count pairs of rows, columns and frames. Rows and columns alternate,
    and the pairs of frames follow.

    >>> axes_of_sections((2, 1, 1), interleaved=True, pairs=4)
    array([0, 1, 2, 0])
    >>> axes_of_sections((2, 2, 1), interleaved="rows", pairs=5)
    array([1, 2, 1, 2, 0])
    """
    fits = sum(sections) <= pairs if interleaved is True else sum(sections) == pairs
    if len(sections) != 3 or not fits or (interleaved == "rows" and sections[0] != sections[1]):
        condition = ", the first two equal" if interleaved == "rows" else ""
        raise PefourierError(
            f"mrope_section must be three numbers with sum {pairs}{condition}; got {list(sections)}"
        )
    if interleaved == "rows":
        return np.array([1, 2] * sections[0] + [0] * sections[2])
    if not interleaved:
        return np.repeat(np.arange(3), sections)
    cycle = np.arange(pairs) % 3  # t rotates the pairs beyond a section, as in transformers
    return np.where(np.arange(pairs) < 3 * np.array(sections)[cycle], cycle, 0)


def axis_letters(count: int) -> str:
    """Names of the axes of a grid, slowest first.

    >>> axis_letters(2), axis_letters(4)
    ('yx', 'abcd')
    """
    return "tyx"[-count:] if count <= 3 else ascii_lowercase[:count]


Number = TypeVar("Number", bound=np.number)
SAME = 1e-9  # relative tolerance within which two numbers are equal
POINTS = {"position": "positions", "lag": "lags", "time": "times"} | dict.fromkeys(
    ("tree", "graph"), "nodes"
)
STEPS = {**POINTS, "time": "time steps", "tree": "edges", "graph": "edges"}
WORDS = {"t": "frames", "y": "rows", "x": "columns"}


def point_of(place: Iterable[int]) -> str:
    """Format a point as typed after --pos, in brackets.

    >>> point_of((3, 4))
    '(3,4)'
    """
    return f"({','.join(str(int(x)) for x in place)})"


def by_axis(values: Sequence[Any] | None, digits: int = 3) -> str | None:
    """Format a number for each axis, with the names of the axes if there are several.

    >>> by_axis([0.911, None]), by_axis([0.25])
    ('y 0.911, x –', '0.25')
    """
    if values is None:
        return None
    if len(values) == 1:
        return number(values[0], digits)
    return by_name(axis_letters(len(values)), values, digits)


def by_name(names: Strings, values: Sequence[Any], digits: int = 3) -> str:
    """Format a number for each named axis.

    >>> by_name("yx", [0.911, 0.25])
    'y 0.911, x 0.25'
    """
    return ", ".join(f"{k} {number(v, digits)}" for k, v in zip(names, values, strict=True))


def unit_of_waves(enc: Encoding) -> tuple[float, str]:
    """Return the length of a step in the unit of wavelengths, and the name of the unit."""
    if enc.domain.irregular:
        return enc.domain.spacing, "units of time"
    step = number(enc.domain.spacing, 4)
    return 1.0, STEPS[enc.domain.kind] + ("" if step == "1" else f" of {step}")


def points_in_words(enc: Encoding) -> str:
    """Name what the rows of a table represent, in the plural."""
    if not enc.domain.grid:
        return POINTS[enc.domain.kind]
    return "displacements" if enc.domain.kind == "lag" else "points"


def is_separable(enc: Encoding) -> bool:
    """Return whether an encoding is on a grid and each column depends on one axis.

    >>> from pefourier.encodings import build
    >>> [is_separable(build(k, d=4, grid=(2, 3))) for k in ("axial", "mixed-rope")]
    [True, False]
    """
    enc = without_prefix(enc)
    if enc.domain.is_line or enc.domain.kind != "position":
        return False
    if enc.is_stationary:
        return bool((enc.measure.frequencies != 0).sum(axis=1).max() <= 1)
    return axis_columns(enc.table().reshape(*enc.domain.sides, -1)) is not None


def axis_encodings(enc: Encoding) -> list[Encoding] | None:
    """Split columns by axis into encodings of its points; None if a column depends on two axes.

    Squared distances and inner products are sums over axes. Constant columns go to the first axis.

    >>> from pefourier.encodings import build
    >>> [len(line) for line in axis_encodings(build("axial", d=8, grid=(2, 3)))]
    [2, 3]
    """
    enc = without_prefix(enc)
    if not is_separable(enc):
        return None
    sides = enc.domain.sides
    steps = [math.prod(sides[axis + 1 :]) for axis in range(len(sides))]
    lines = [
        enc.vectors(enc.domain.x[: step * side : step])
        for step, side in zip(steps, sides, strict=True)
    ]
    changes = np.array([(line != line[:1]).any(axis=0) for line in lines])
    changes[0] |= ~changes.any(axis=0)
    tables = (
        line[:, is_own] if is_own.any() else np.zeros((len(line), 1))
        for line, is_own in zip(lines, changes, strict=True)
    )
    encodings = []
    for axis, table in enumerate(tables):
        along, measure = NO_WAVES, enc.measure
        if enc.is_stationary:  # zero frequencies belong to the first axis
            is_own = np.argmax(measure.frequencies != 0, axis=1) == axis
            offset = np.broadcast_to(measure.offset, len(sides))[axis]
            frequencies, weights = measure.frequencies[is_own, axis], measure.weights[is_own]
            along = Measure(frequencies, weights, period=measure.period, offset=offset)
        encodings.append(from_table(table, enc.name, eps=enc.eps, measure=along))
    return encodings


def axis_lines(grid: NDArray[Number]) -> list[NDArray[Number]]:
    """Vectors along each axis, with the other axes at their first point."""
    axes = range(grid.ndim - 1)
    return [grid[tuple(slice(None) if b == a else 0 for b in axes)] for a in axes]


def axis_columns(grid: Table) -> list[Places] | None:
    """Columns (last index) that change along each axis only; None if one changes along several."""
    moves = np.array([changing_columns(grid, a) for a in range(grid.ndim - 1)])
    if (moves.sum(axis=0) > 1).any():
        return None
    return [np.flatnonzero(along) for along in moves]


def changing_columns(grid: Table, axis: int) -> Bools:
    """Return a mask of the columns (last index) that change along an axis."""
    lines = np.moveaxis(grid, axis, 0)
    changes = np.zeros(grid.shape[-1], dtype=bool)
    for line in lines[1:]:
        changes |= (line != lines[0]).reshape(-1, len(changes)).any(axis=0)
        if changes.all():
            break
    return changes

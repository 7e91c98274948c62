r"""How does the code of one position relate to that of another?

Conventions
-----------
Rows of a table (n, d) are codes; a lag is a difference of positions, or of times in their unit. At
uneven times hardly any lag occurs twice: there all is as declared, or not known. Sines and cosines
of one frequency are moved by a rotation, so that one matrix T(k) leads from every code to the one k
positions on (Denk, 2019): PE(t + k) = T(k) PE(t). Inner products then depend on the lag alone, and
their mean at each lag, over that at lag 0, is the `kernel`. Frequencies are radians per position.
On a grid lags are displacements (dy, dx), and there is a T for a step along each axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pefourier.encodings.columns import Layout, split_pairs
from pefourier.encodings.domain import lattice_points, steps_ahead
from pefourier.encodings.encoding import (
    BLOCK,
    Encoding,
    Finding,
    Measure,
    as_encoding,
    row_blocks,
    unit_of,
    without_prefix,
)
from pefourier.encodings.findings import finding
from pefourier.geometry.products import mean_products, toeplitz_residual
from pefourier.geometry.randomness import numbers_look_random
from pefourier.result import ON_GRIDS, Result

EXACT = 1e-6  # a residual that is rounding
ALIKE = 0.1  # of the fall of inner products, within which two directions are treated alike
LAGS_AT_ONCE = 2**12
MOST_LAGS = 2**16  # of times at uneven steps
LAGS_A_WAVE = 16  # of these, in the shortest
FITTED = 2**11  # positions from which a shift is fitted
SHORTEST = 3  # points along an axis, as far as which diagonals are compared with it
LARGEST_SHIFT = FITTED // 2  # dimensions up to which one is
SAMPLE = 2**10  # positions, evenly spaced, among which distances are correlated


@dataclass(frozen=True)
class Diagonals:
    """Inner products over that at lag 0, as far along the last two axes as on the diagonals."""

    straight: int  # points along one axis
    diagonal: int  # points along both, at the nearest such distance
    on_axes: list[float]  # of the last two axes
    on_diagonals: float  # mean of the two diagonals
    alike: bool  # whether the three differ by less than a tenth of how far they fell


@dataclass(frozen=True, repr=False)
class Relations(Result):
    """What codes say about the distance and the order of positions; None where undefined.

    On a grid `kernel` has the shape (2 N_1 - 1, …), lag 0 in the middle; `shift_residual` and
    `first_rise` are lists with a number for each axis.
    """

    shown: ClassVar[dict[str, str]] = {
        "positions": "length",
        "dimensions": "dimension",
        "Toeplitz residual": "toeplitz_residual",
        "first below half at lag": "first_low_lag",
        "last above half at lag": "last_high_lag",
        "inner products rise first at lag": "first_rise",
        "residual of T(1) (Denk)": "shift_residual",
        "asymmetry of lags": "asymmetry",
        "correlation of distances": "distance_preservation",
        "correlation of neighbours": "neighbours_alike",
        "as far along the axes": "diagonals.on_axes",
        "as far on the diagonals": "diagonals.on_diagonals",
        "away from a rotation": "rotation_residual",
    }

    length: int
    dimension: int
    shift_residual: (
        float | list[float | None] | None
    )  # of the best T(1), over the norm of the codes it should give
    toeplitz_residual: float | None  # 0: inner products depend on the lag only
    kernel: np.ndarray | None  # (K,) inner product at each lag over that at lag 0
    lags: np.ndarray | None  # (K,) these lags, of times in their unit; None: 0, 1, … positions
    first_rise: float | list[int | None] | None  # first lag whose kernel exceeds the one before
    asymmetry: float | None  # 0: what a lag gives, its opposite gives too
    distance_preservation: float | None  # correlation of code distance with position distance
    grid: tuple[int, ...] | None = field(**ON_GRIDS)  # points along each axis, the slowest first
    prefix: int | None = field(**ON_GRIDS)  # rows before the grid that have no place
    rotation_residual: float | None = field(**ON_GRIDS)  # of rotations, the largest |M' M - I|
    diagonals: Diagonals | None = field(**ON_GRIDS)  # None where a side is too short

    @property
    def verdict(self) -> str:
        """What inner products, or biases, depend on."""
        enc = self.about[0]
        if self.on_grid:
            return verdict_by_displacement(self)
        if not (enc.domain.has_lags or enc.is_shift_invariant):
            return "no lags"
        if enc.domain.kind == "lag":
            if self.asymmetry is None:
                return "one direction"
            return "distance only" if self.asymmetry <= EXACT else "direction told"
        if self.kernel is None:
            return "zero codes"
        return "depends on position" if self.toeplitz_residual > EXACT else "depends on lag alone"

    @property
    def neighbours_alike(self) -> float | None:
        """How much codes of neighbours are alike, where distances can be compared."""
        if self.distance_preservation is None:
            return None
        return neighbour_likeness(without_prefix(self.about[0]))

    @property
    def first_low_lag(self) -> float | None:
        """The first lag whose inner product is below half of that at lag 0; None where none is."""
        return self.lag_where(0, self.kernel_along < 0.5) if self.has_kernel else None

    @property
    def last_high_lag(self) -> float | None:
        """The last lag whose inner product is half of that at lag 0 or more."""
        return self.lag_where(-1, self.kernel_along >= 0.5) if self.has_kernel else None

    @property
    def has_kernel(self) -> bool:
        """Whether there is an inner product for each lag of one axis."""
        return self.kernel is not None and np.ndim(self.kernel) == 1

    @property
    def kernel_along(self) -> np.ndarray:
        """The inner products by lag, from lag 0 on."""
        return np.asarray(self.kernel)

    def lag_where(self, position: int, holds: np.ndarray) -> float | None:
        """The first (0) or last (-1) lag where something holds."""
        index = np.flatnonzero(holds)
        if not len(index):
            return None
        lags = np.arange(len(holds)) if self.lags is None else self.lags
        return lags[index[position]].item()

    @property
    def findings(self) -> list[Finding]:
        """Numbers that look random, and what turns codes and is no rotation."""
        enc, notes = self.about[0], list(self.about[0].findings)
        table = enc.measure is None and enc.domain.kind == "position" and self.toeplitz_residual
        if table and numbers_look_random(enc.table()):
            notes.append(finding("random-codes"))
        if (self.rotation_residual or 0.0) > EXACT:
            notes.append(finding("no-rotation", percent=100 * self.rotation_residual))
        return notes

    def series(self) -> tuple[list[str], Iterator[list[Any]]]:
        """Names of the columns of CSV, and the inner product at each lag."""
        return ["lag", "inner_product"], kernel_rows(self)


def kernel_rows(r: Relations) -> Iterator[list[Any]]:
    """Each lag with its inner product, of grids a displacement with × between its lags."""
    if r.kernel is None:
        return
    middle = [n // 2 if r.kernel.ndim > 1 else 0 for n in r.kernel.shape]
    for index in np.ndindex(r.kernel.shape):
        lag = "×".join(str(i - m) for i, m in zip(index, middle, strict=True))
        yield [lag if r.lags is None else r.lags[index], r.kernel[index]]


def verdict_by_displacement(r: Relations) -> str:
    """What inner products on a grid depend on."""
    if r.kernel is None:
        return "biases" if r.about[0].domain.kind == "lag" else "zero codes"
    by_displacement = r.toeplitz_residual <= EXACT
    return "depends on displacement alone" if by_displacement else "depends on place"


def relate(
    encoding: Encoding | np.ndarray, fitted: float | list[float | None] | None = None
) -> Relations:
    """How the codes of positions, or of lags, relate to one another.

    Parameters
    ----------
    encoding : Encoding or np.ndarray, shape (n, d)
        An encoding, or a table with one row a position.
    fitted : float or list of float, optional
        The residual of T(1) where it is known of the same codes: it is not fitted again.

    Notes
    -----
    Biases of lags are compared themselves: their kernel is the mean of exp(bias) over heads at keys
    before the query, the one answer that depends on their unit, as the softmax does. Vectors of
    lags and nodes of a tree have no kernel here.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> relate(load("sinusoidal", length=512, d=64)).first_rise
    6
    >>> relate(load("alibi", length=9, d=4)).asymmetry
    0.0
    """
    source = as_encoding(encoding)
    enc = without_prefix(source)
    k = kernel(enc)
    sequence = enc.domain.kind in ("position", "time")
    on_grid: dict[str, Any] = {}
    if len(enc.domain.sides) > 1:
        on_grid = {"grid": enc.domain.sides, "prefix": enc.domain.prefix}
        on_grid["rotation_residual"] = rotation_residual(enc)
        on_grid["diagonals"] = None if k is None else compare_diagonals(k)
    timed = k is not None and enc.domain.kind == "time"
    return Relations(
        length=len(enc),
        dimension=enc.dim,
        shift_residual=shift_residual(enc) if sequence and fitted is None else fitted,
        toeplitz_residual=toeplitz_residual(enc),
        kernel=k,
        lags=in_units(enc, np.arange(len(k))) if timed else None,
        first_rise=rising_lags(enc, k),
        asymmetry=asymmetry(enc),
        distance_preservation=distance_preservation(enc) if sequence else None,
        **on_grid,
        about=(source,),
    )


def compare_diagonals(k: np.ndarray) -> Diagonals | None:
    """Whether a kernel (…, 2 H - 1, 2 W - 1) falls along diagonals as along rows and columns.

    At half of the shorter side or nearer, where a diagonal comes nearest to the distance.

    >>> y, x = np.indices((27, 27)) - 13
    >>> found = compare_diagonals(np.exp(-(y**2 + x**2) / 50))
    >>> found.straight, found.diagonal, found.alike
    (7, 5, True)
    >>> compare_diagonals(np.exp(-abs(y) / 5) + np.exp(-abs(x) / 5)).alike
    False
    """
    plane = k[tuple(n // 2 for n in k.shape[:-2])]
    middle = y, x = tuple(n // 2 for n in plane.shape)
    if min(middle) < SHORTEST:
        return None
    lags = np.arange(2, max((min(middle) + 1) // 2, SHORTEST) + 1)
    steps = np.maximum(np.rint(lags / np.sqrt(2)).astype(int), 1)
    nearest = int(np.argmin(np.abs(steps * np.sqrt(2) / lags - 1)))
    straight, diagonal = int(lags[nearest]), int(steps[nearest])
    on_axes = [float(plane[y + straight, x]), float(plane[y, x + straight])]
    diagonals = plane[y + diagonal, [x - diagonal, x + diagonal]]
    values = [*on_axes, float(diagonals.mean())]
    is_round = max(values) - min(values) <= ALIKE * (plane[middle] - min(values))
    return Diagonals(straight, diagonal, on_axes, values[-1], bool(is_round))


def rotations(measure: Measure, k: int) -> np.ndarray:
    r"""Denk's blocks (m, 2, 2): what T(k) does to (sin, cos) at each declared frequency.

    :math:`\begin{pmatrix} \cos\omega k & \sin\omega k \\ -\sin\omega k & \cos\omega k
    \end{pmatrix}`.

    >>> rotations(Measure(np.array([1.0]), np.array([1.0])), 2).round(4)
    array([[[-0.4161,  0.9093],
            [-0.9093, -0.4161]]])
    """
    angle = measure.angles(np.array([k]))[0]
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.moveaxis(np.array([[cosine, sine], [-sine, cosine]]), 2, 0)


def rotation_residual(enc: Encoding) -> float | None:
    """How far what turns the numbers of a head is from a rotation; None where nothing is turned.

    A table laid out in one way and turned in another (`layout=mismatched`, V-JEPA 2) turns a pair
    by two angles.
    """
    if enc.act != "rotate" or enc.measure is None:
        return None
    points = np.unique(np.linspace(0, len(enc) - 1, min(len(enc), SAMPLE)).astype(int))
    phases = enc.measure.phases(enc.domain.places(enc.domain.x[points]))
    turned = np.repeat(phases, 2, axis=1)
    if enc.params.get("layout") == "mismatched":
        axis = np.argmax(enc.measure.frequencies != 0, axis=1)
        edges = np.flatnonzero(np.diff(axis)) + 1
        turned = np.hstack([np.tile(block, 2) for block in np.split(phases, edges, axis=1)])
    return rotation_defect(np.cos(turned), np.sin(turned), "interleaved")


def rotation_defect(cosines: np.ndarray, sines: np.ndarray, layout: Layout) -> float:
    r"""Largest :math:`|M^\top M - I|` of what a model does with its tables (n, d).

    It makes of each pair (u, v) :math:`(u \cos\alpha - v \sin\alpha, v \cos\beta + u
    \sin\beta)` with the numbers that stand in the columns of u and of v: a rotation where
    :math:`\alpha = \beta`.

    >>> angle = np.array([[2.0, 0.02, 2.0, 0.02]])  # in halves
    >>> round(rotation_defect(np.cos(angle), np.sin(angle), "halves"), 12)
    0.0
    >>> round(rotation_defect(np.cos(angle), np.sin(angle), "interleaved"), 4)  # as neighbours
    0.8264
    """
    (c, other_c), (s, other_s) = (split_pairs(table, layout) for table in (cosines, sines))
    lengths = np.maximum(np.abs(c**2 + other_s**2 - 1), np.abs(s**2 + other_c**2 - 1))
    return float(max(lengths.max(), np.abs(other_s * other_c - c * s).max()))


def shift_residual(enc: Encoding, k: int = 1) -> float | list[float | None] | None:
    """Norm of T(k) PE(t) - PE(t + k) over that of PE(t + k); 0 where products are declared.

    Of a table at most the first 2048 positions are fitted. None where they are linearly
    independent, since some T then fits any table, for d over 1024, where it would take long, and
    for times at uneven steps. On a grid one number for a shift along each axis.
    """
    if len(enc.domain.sides) > 1:
        return [shift_along(enc, axis, k) for axis in range(len(enc.domain.sides))]
    if enc.is_shift_invariant:
        return 0.0
    return shift_along(enc, 0, k) if enc.domain.has_lags else None


def fit_shift(before: np.ndarray, after: np.ndarray) -> float | None:
    """Relative norm of T times codes (n, d) minus those they should give; None: any T would do.

    In a unit of their own: LAPACK rounds very small and very large numbers in other ways.
    """
    before, after = before * unit_of(before), after * unit_of(after)
    shift, _, rank, _ = np.linalg.lstsq(before, after)
    size = np.linalg.norm(after)
    if rank == len(before):
        return None
    return float(np.linalg.norm(before @ shift - after) / size) if size else 0.0


def shift_along(enc: Encoding, axis: int, k: int = 1) -> float | None:
    """The residual of a shift by k points along one axis of a grid, fitted to a corner of it."""
    sides = enc.domain.sides
    if enc.stationary and k < sides[axis]:
        return 0.0
    side = max(2, int(FITTED ** (1 / len(sides))))
    corner = [np.arange(min(n, side)) for n in sides]
    if not k < len(corner[axis]) or enc.dim > LARGEST_SHIFT:
        return None
    places = lattice_points(corner)
    starts = places[places[:, axis] < len(corner[axis]) - k]
    ends = [starts, starts + k * (np.arange(len(sides)) == axis)]
    rows = [enc.domain.x[np.ravel_multi_index(tuple(end.T), sides)] for end in ends]
    return fit_shift(*(np.asarray(enc.table(x), dtype=float) for x in rows))


def kernel(enc: Encoding) -> np.ndarray | None:
    r"""Mean inner product of codes at each lag over that at lag 0, shape (n,); see `lag_axis`.

    On a grid at each displacement, shape (2 N_1 - 1, …), with lag 0 in the middle.

    :math:`k(r)/k(0)` with :math:`k(r) = \frac{1}{n - r}\sum_t \mathrm{PE}(t)\cdot
    \mathrm{PE}(t + r)`, or :math:`\sum_j w_j \cos\omega_j r` as declared.
    """
    if enc.act == "key" or not (enc.domain.has_lags or enc.is_shift_invariant):
        return None
    if enc.domain.kind == "lag" and enc.domain.grid:
        return None  # displacements have no order
    if enc.domain.kind == "lag":
        return kernel_of_biases(enc.table(enc.domain.x[enc.domain.x <= 0])[::-1])
    if len(enc.domain.sides) > 1:
        return kernel_on_grid(enc)
    if enc.is_shift_invariant:
        return np.concatenate(list(kernel_blocks(enc)))
    means = mean_products(enc.table(), enc.domain.sides)[len(enc) - 1 :]
    return means / means[0] if means[0] else None


def kernel_on_grid(enc: Encoding) -> np.ndarray | None:
    """The kernel of a grid at all displacements, from one half of them."""
    sides = enc.domain.sides
    if not enc.stationary:
        means = mean_products(enc.table(), sides)
        size = means[tuple(n - 1 for n in sides)]
        return means / size if size else None
    ahead = steps_ahead(sides)
    m = len(enc.measure.frequencies)
    half = [enc.measure.kernel(ahead[rows]) for rows in row_blocks(len(ahead), BLOCK, m)]
    half = np.concatenate([np.zeros(0), *half])
    return np.concatenate([half[::-1], [1.0], half]).reshape([2 * n - 1 for n in sides])


def lag_axis(enc: Encoding) -> tuple[int, int]:
    """At how many lags a kernel is told, and how many of them are in a step between points.

    One is, at even steps. At uneven ones as many as show the shortest declared wave, over the span
    of the times, or its first 65,536 where these are more.

    >>> from pefourier.encodings import load
    >>> [lag_axis(load("mtan-fixed", d=4, times=[0.0, t, 2.0])) for t in (1.0, 1.5)]
    [(3, 1), (125, 62)]
    """
    if enc.domain.has_lags:
        return len(enc), 1
    fastest = float(np.abs(enc.measure.frequencies).max())
    finer = max(1, int(np.ceil(fastest * LAGS_A_WAVE / (2 * np.pi))))
    return min((len(enc) - 1) * finer + 1, MOST_LAGS), finer


def in_units(enc: Encoding, lag: Any) -> Any:
    """Lags by their numbers on the axis, those of times in their unit."""
    if lag is None or enc.domain.kind != "time":
        return lag
    return lag * enc.domain.spacing / lag_axis(enc)[1]


def rising_lags(enc: Encoding, k: np.ndarray | None) -> float | list[int | None] | None:
    """The first lag at which the kernel rises; on a grid that along each axis."""
    if k is None:
        return None
    rises = [first_rise(line, enc.eps) for line in kernel_lines(k)]
    return rises if k.ndim > 1 else in_units(enc, rises[0])


def kernel_lines(k: np.ndarray) -> list[np.ndarray]:
    """The kernel along each axis of a grid, from lag 0 on; of a line itself.

    >>> [line.tolist() for line in kernel_lines(np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]]))]
    [[4, 7], [4, 5]]
    """
    if k.ndim == 1:
        return [k]
    middle = [n // 2 for n in k.shape]
    places = [
        [slice(m, None) if a == b else m for b, m in enumerate(middle)] for a in range(k.ndim)
    ]
    return [k[tuple(place)] for place in places]


def kernel_of_biases(biases: np.ndarray) -> np.ndarray:
    """Mean of exp(bias) over heads at each lag (n, d) over that at lag 0; beyond range infinite.

    >>> kernel_of_biases(np.array([[-1e9], [-2e9], [1e9]]))
    array([ 1.,  0., inf])
    """
    largest = biases.max(axis=1)
    means = np.exp(biases - largest[:, None]).mean(axis=1)
    with np.errstate(over="ignore"):
        return np.exp(largest - largest[0]) * (means / means[0])


def kernel_blocks(enc: Encoding) -> Iterator[np.ndarray]:
    """The kernel of declared products in blocks of lags."""
    m, (count, finer) = len(enc.measure.frequencies), lag_axis(enc)
    for block in row_blocks(count, min(LAGS_AT_ONCE * m, BLOCK), m):
        lags = np.arange(block.start, block.stop)
        yield enc.measure.kernel(lags if finer == 1 else lags / finer)


def first_rising_lag(enc: Encoding) -> float | list[int | None] | None:
    """The first lag at which the kernel rises; of declared products no more lags are looked at.

    On a grid that along each axis; of declared products only lags along axes are looked at.
    """
    sides = enc.domain.sides
    if not enc.is_shift_invariant:
        return rising_lags(enc, kernel(enc))
    if len(sides) > 1:
        lines = map(np.multiply.outer, map(np.arange, sides), np.eye(len(sides)))
        return [first_rise(enc.measure.kernel(line), enc.eps) for line in lines]
    offset, last = 0, np.zeros(0)
    for block in kernel_blocks(enc):
        lag = first_rise(np.concatenate([last, block]), enc.eps)
        if lag is not None:
            return in_units(enc, lag + offset - len(last))
        offset, last = offset + len(block), block[-1:]
    return None


def first_rise(kernel: np.ndarray, eps: float = 0.0) -> int | None:
    """The first lag whose kernel exceeds, beyond rounding, the one before; None: it never rises.

    >>> first_rise(np.array([1.0, 0.5, 0.2, 0.3]))
    3
    """
    rises = np.flatnonzero(kernel[1:] > kernel[:-1] + max(1e-12, eps))
    return int(rises[0]) + 1 if len(rises) else None


def asymmetry(enc: Encoding) -> float | None:
    """Norm of the codes of lags minus those of opposite lags, over twice the norm of all.

    Inner products of codes of positions are symmetric: 0. None for causal lags, which have no
    opposites, and for positions whose code is a row of biases.
    """
    if enc.domain.kind != "lag":
        return None if enc.act == "bias" else 0.0
    if not enc.domain.grid and enc.domain.x[-1] != -enc.domain.x[0]:
        return None
    table = enc.table()  # of a window displacements, the last opposite the first
    size = 2 * np.linalg.norm(table)
    return float(np.linalg.norm(table - table[::-1]) / size) if size else 0.0


def distance_preservation(enc: Encoding) -> float | None:
    """Correlation of code distance with position distance over pairs (Zheng et al., 2021).

    Of more than 1024 positions so many are taken, evenly spaced. None where distances are equal.
    """
    points = np.unique(np.linspace(0, len(enc) - 1, min(len(enc), SAMPLE)).astype(int))
    upper = np.triu_indices(len(points), 1)
    squared, between = (of_pairs[upper] for of_pairs in both_distances(enc, points))
    distances = np.sqrt(squared)
    if len(distances) < 2 or np.ptp(distances) <= 1e-7 * distances.max():
        return None
    return float(np.corrcoef(distances, between)[0, 1])


def both_distances(enc: Encoding, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances of the codes of points by their numbers, and distances of these."""
    x = enc.domain.x[points]
    table = np.asarray(enc.table(x), dtype=float)
    table = table - table.mean(axis=0)  # a common offset would drown the differences
    squared = (table**2).sum(axis=1)
    code_distances = np.maximum(squared[:, None] + squared - 2 * table @ table.T, 0.0)
    places = enc.domain.places(x).reshape(len(x), -1).astype(float)
    between = (places**2).sum(axis=1)
    between = np.maximum(between[:, None] + between - 2 * places @ places.T, 0.0)
    return code_distances, np.sqrt(between)


def neighbour_likeness(enc: Encoding) -> float | None:
    """Correlation of the codes of neighbours: 0 where they are as far apart as any two are.

    1 minus the mean squared distance to the nearest points over that of all pairs, of the middle
    1024 points where there are more. None where codes are all the same.

    >>> from pefourier.encodings import load
    >>> round(neighbour_likeness(load("sinusoidal", length=512, d=64)), 2)
    0.94
    >>> abs(neighbour_likeness(load("learned", length=512, d=64))) < 0.05
    True
    """
    distances, nearest, pairs = pairs_of_neighbours(enc)
    size = distances[pairs].mean() if pairs.any() else 0.0
    return float(1 - distances[nearest].mean() / size) if size else None


def pairs_of_neighbours(enc: Encoding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Squared distances of codes, which of them are of nearest points, and which of any two."""
    enc = without_prefix(enc)
    first = max(len(enc) - SAMPLE, 0) // 2
    distances, between = both_distances(enc, np.arange(first, min(len(enc), first + SAMPLE)))
    between[between <= 1e-7 * between.max()] = np.inf  # itself, or one at the same place
    pairs = np.isfinite(between)
    return distances, pairs & (between <= 1.001 * between.min(axis=1, keepdims=True)), pairs

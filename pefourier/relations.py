r"""How does the code of one position relate to that of another?

Conventions
-----------
Rows of a table (n, d) are codes; a lag is a difference of positions. Sines and cosines of one
frequency are moved by a rotation, so that one matrix T(k) leads from every code to the one k
positions on (Denk, 2019): PE(t + k) = T(k) PE(t). Inner products then depend on the lag alone, and
their mean at each lag, over that at lag 0, is the `kernel`. Frequencies are radians per position.
On a grid lags are displacements (dy, dx), and there is a T for a step along each axis.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from pefourier.encodings.axis_parts import axis_parts
from pefourier.encodings.domain import displacements, lattice_points
from pefourier.encodings.encoding import (
    BLOCK,
    Encoding,
    Measure,
    as_encoding,
    placed,
    row_blocks,
    unit_of,
)
from pefourier.result import Result

DIRECT = 2**31  # n^2 d up to which inner products are walked for the Toeplitz residual
LAGS_AT_ONCE = 2**12
FITTED = 2**11  # positions from which a shift is fitted
LARGEST_SHIFT = FITTED // 2  # dimensions up to which one is
SAMPLE = 2**10  # positions, evenly spaced, among which distances are correlated


@dataclass(frozen=True, repr=False)
class Relations(Result):
    """What codes say about the distance and the order of positions; None where undefined."""

    length: int
    dimension: int
    # of the best T(1), over the norm of the codes it should give; of each axis of a grid
    shift_residual: float | list[float | None] | None
    toeplitz_residual: float  # 0: inner products depend on the lag only
    # (n,) inner product at each lag over that at lag 0; on a grid (2 N_1 - 1, …) around lag 0
    kernel: np.ndarray | None
    first_rise: int | list[int | None] | None  # first lag whose kernel exceeds the one before
    asymmetry: float | None  # 0: what a lag gives, its opposite gives too
    distance_preservation: float | None  # correlation of code distance with position distance


def relate(encoding: Encoding | np.ndarray) -> Relations:
    """How the codes of positions, or of lags, relate to one another.

    Parameters
    ----------
    encoding : Encoding or np.ndarray, shape (n, d)
        An encoding, or a table with one row a position.

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
    enc = placed(as_encoding(encoding))
    k = kernel(enc)
    sequence = enc.domain.kind in ("position", "time")
    return Relations(
        length=len(enc),
        dimension=enc.dim,
        shift_residual=shift_residual(enc) if sequence else None,
        toeplitz_residual=toeplitz_residual(enc),
        kernel=k,
        first_rise=rising_lags(k, enc.domain.sides, enc.eps),
        asymmetry=asymmetry(enc),
        distance_preservation=distance_preservation(enc) if sequence else None,
        about=(enc,),
    )


def shift_map(table: np.ndarray, k: int = 1) -> np.ndarray:
    r"""The matrix T (d, d) that best leads from each code to the one k positions on.

    :math:`T = \arg\min \sum_t \lVert T\,\mathrm{PE}(t) - \mathrm{PE}(t + k) \rVert^2`, of
    several the one of least norm.

    >>> table = np.stack([np.sin(np.arange(9.0)), np.cos(np.arange(9.0))], axis=1)
    >>> shift_map(table, k=2).round(4)
    array([[-0.4161,  0.9093],
           [-0.9093, -0.4161]])
    """
    table = np.asarray(table, dtype=float)
    return np.linalg.lstsq(table[:-k], table[k:])[0].T


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


def shift_residual(enc: Encoding, k: int = 1) -> float | list[float | None] | None:
    """Norm of T(k) PE(t) - PE(t + k) over that of PE(t + k); 0 where products are declared.

    Of a table at most the first 2048 positions are fitted. None where they are linearly
    independent, since some T then fits any table, and for d over 1024, where it would take long.
    On a grid one number for a shift along each axis.
    """
    if len(enc.domain.sides) > 1:
        return [shift_along(enc, axis, k) for axis in range(len(enc.domain.sides))]
    if enc.stationary:
        return 0.0
    table = np.asarray(enc.codes(enc.domain.x[:FITTED]), dtype=float)
    if not k < len(table) or enc.dim > LARGEST_SHIFT:
        return None
    return fit_shift(table[:-k], table[k:])


def fit_shift(before: np.ndarray, after: np.ndarray) -> float | None:
    """Relative norm of T times codes (n, d) minus those they should give; None: any T would do."""
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
    most = max(2, int(FITTED ** (1 / len(sides))))
    corner = [np.arange(min(n, most)) for n in sides]
    if not k < len(corner[axis]) or enc.dim > LARGEST_SHIFT:
        return None
    places = lattice_points(corner)
    near = places[places[:, axis] < len(corner[axis]) - k]
    ends = [near, near + k * (np.arange(len(sides)) == axis)]
    rows = [enc.domain.x[np.ravel_multi_index(tuple(end.T), sides)] for end in ends]
    return fit_shift(*(np.asarray(enc.codes(x), dtype=float) for x in rows))


def kernel(enc: Encoding) -> np.ndarray | None:
    r"""Mean inner product of codes at each lag over that at lag 0, shape (n,).

    On a grid at each displacement, shape (2 N_1 - 1, …), with lag 0 in the middle.

    :math:`k(r)/k(0)` with :math:`k(r) = \frac{1}{n - r}\sum_t \mathrm{PE}(t)\cdot
    \mathrm{PE}(t + r)`, or :math:`\sum_j w_j \cos\omega_j r` as declared.
    """
    if enc.domain.kind == "tree" or enc.act == "key":
        return None
    if enc.domain.kind == "lag":
        return kernel_of_biases(enc.codes(enc.domain.x[enc.domain.x <= 0])[::-1])
    if len(enc.domain.sides) > 1:
        return kernel_on_grid(enc)
    if enc.stationary:
        return np.concatenate(list(kernel_blocks(enc)))
    means = diagonal_means(enc.table())
    return means / means[0] if means[0] else None


def kernel_on_grid(enc: Encoding) -> np.ndarray | None:
    """The kernel of a grid at all displacements, from one half of them."""
    sides = enc.domain.sides
    if not enc.stationary:
        means = diagonal_means_on_grid(enc.table(), sides)
        size = means[tuple(n - 1 for n in sides)]
        return means / size if size else None
    ahead = displacements(sides)
    m = len(enc.measure.frequencies)
    half = [enc.measure.kernel(ahead[rows]) for rows in row_blocks(len(ahead), BLOCK, m)]
    half = np.concatenate([np.zeros(0), *half])
    return np.concatenate([half[::-1], [1.0], half]).reshape([2 * n - 1 for n in sides])


def diagonal_means_on_grid(table: np.ndarray, sides: tuple[int, ...]) -> np.ndarray:
    """Mean of the inner products of codes at each displacement, (2 N_1 - 1, …)."""
    doubled, axes = tuple(2 * n for n in sides), tuple(range(len(sides)))
    total = 0.0
    for columns in row_blocks(table.shape[1], BLOCK, prod(doubled)):
        codes = np.asarray(table[:, columns], dtype=float).reshape(*sides, -1)
        spectrum = np.fft.rfftn(codes, doubled, axes)
        total = total + (spectrum.real**2 + spectrum.imag**2).sum(axis=-1)
    sums = np.fft.irfftn(total, doubled, axes)
    lags = [np.arange(1 - n, n) for n in sides]
    return sums[np.ix_(*lags)] / pairs_at(lags, sides)


def pairs_at(lags: list[np.ndarray], sides: tuple[int, ...]) -> np.ndarray:
    """How many pairs of points of a grid are each displacement apart.

    >>> pairs_at([np.array([0, 1]), np.array([-1, 0])], (3, 4)).tolist()
    [[9, 12], [6, 8]]
    """
    counts = [n - np.abs(lag) for n, lag in zip(sides, lags, strict=True)]
    return reduce(np.multiply.outer, counts)


def rising_lags(
    k: np.ndarray | None, sides: tuple[int, ...], eps: float
) -> int | list[int | None] | None:
    """The first lag at which the kernel rises; on a grid that along each axis."""
    if k is None or len(sides) == 1:
        return None if k is None else first_rise(k, eps)
    middle = [n - 1 for n in sides]
    along = [
        k[tuple(slice(m, None) if a == b else m for b, m in enumerate(middle))]
        for a in range(len(sides))
    ]
    return [first_rise(line, eps) for line in along]


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
    m = len(enc.measure.frequencies)
    for lags in row_blocks(len(enc), min(LAGS_AT_ONCE * m, BLOCK), m):
        yield enc.measure.kernel(np.arange(lags.start, lags.stop))


def first_rising_lag(enc: Encoding) -> int | list[int | None] | None:
    """The first lag at which the kernel rises; of declared products no more lags are looked at.

    On a grid that along each axis.
    """
    if len(enc.domain.sides) > 1:
        return rising_lags_on_axes(enc)
    if not enc.stationary:
        k = kernel(enc)
        return None if k is None else first_rise(k, enc.eps)
    seen, last = 0, np.zeros(0)
    for block in kernel_blocks(enc):
        lag = first_rise(np.concatenate([last, block]), enc.eps)
        if lag is not None:
            return lag + seen - len(last)
        seen, last = seen + len(block), block[-1:]
    return None


def rising_lags_on_axes(enc: Encoding) -> list[int | None] | None:
    """The first rise along each axis; of declared products only lags along axes are looked at."""
    sides = enc.domain.sides
    if not enc.stationary:
        k = kernel(enc)
        return None if k is None else rising_lags(k, sides, enc.eps)
    lines = [
        np.multiply.outer(np.arange(n), step)
        for n, step in zip(sides, np.eye(len(sides)), strict=True)
    ]
    return [first_rise(enc.measure.kernel(line), enc.eps) for line in lines]


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
    if enc.domain.x[-1] != -enc.domain.x[0]:
        return None
    table = enc.table()
    size = 2 * np.linalg.norm(table)
    return float(np.linalg.norm(table - table[::-1]) / size) if size else 0.0


def distance_preservation(enc: Encoding) -> float | None:
    """Correlation of code distance with position distance over pairs (Zheng et al., 2021).

    Of more than 1024 positions so many are taken, evenly spaced. None where distances are equal.
    """
    points = np.unique(np.linspace(0, len(enc) - 1, min(len(enc), SAMPLE)).astype(int))
    x = enc.domain.x[points]
    table = np.asarray(enc.codes(x), dtype=float)
    table = table - table.mean(axis=0)  # a common offset would drown the differences
    i, j = np.triu_indices(len(x), 1)
    squared = (table**2).sum(axis=1)
    apart = np.sqrt(np.maximum(squared[i] + squared[j] - 2 * (table @ table.T)[i, j], 0.0))
    at = enc.domain.places(x).reshape(len(x), -1)
    between = np.linalg.norm(at[i] - at[j], axis=1)
    if len(i) < 2 or np.ptp(apart) <= 1e-7 * apart.max():
        return None
    return float(np.corrcoef(apart, between)[0, 1])


def diagonal_means(table: np.ndarray) -> np.ndarray:
    """Mean of the inner products of codes at each lag 0 … n - 1."""
    return autocorrelation(table) / np.arange(len(table), 0, -1)


def toeplitz_residual(enc: Encoding) -> float:
    r"""Relative distance of the inner products to a function of the lag.

    :math:`\lVert G - \mathrm{Toep}(G)\rVert_F / \lVert G\rVert_F` with :math:`G = E E^T` and Toep
    the mean along diagonals (Wang et al., 2021). 0 where the encoding declares such inner products.
    Long tables use :math:`\lVert G\rVert^2 - \lVert\mathrm{Toep}(G)\rVert^2`, which resolves 1e-8.
    On a grid the lag is the displacement.
    """
    n, d = len(enc), enc.dim
    if enc.stationary:
        return 0.0
    if len(enc.domain.sides) > 1:
        return toeplitz_residual_on_grid(enc)
    table = enc.table()
    unit = unit_of(table) ** 2  # of products, whose squares would leave the range of numbers
    means = diagonal_means(table) * unit
    if n > d and n * n * d > DIRECT:
        total = sum_of_squared_products(table, unit)
        shared = means[0] ** 2 * n + 2 * (means[1:] ** 2 * np.arange(n - 1, 0, -1)).sum()
        return float(np.sqrt(max(total - shared, 0.0) / total)) if total else 0.0
    table, squared, total = np.asarray(table, dtype=float), 0.0, 0.0
    for rows in row_blocks(n, BLOCK, n):
        products = (table[rows] @ table.T) * unit
        lag = np.abs(np.arange(rows.start, rows.stop)[:, None] - np.arange(n))
        squared += float(((products - means[lag]) ** 2).sum())
        total += float((products**2).sum())
    return float(np.sqrt(squared / total)) if total else 0.0


def toeplitz_residual_on_grid(enc: Encoding) -> float:
    """Relative distance of the inner products to a function of the displacement."""
    parts = axis_parts(enc)
    if parts is not None:
        return toeplitz_residual_of_parts(parts)
    n, sides, table = len(enc), enc.domain.sides, enc.table()
    unit = unit_of(table) ** 2
    means = diagonal_means_on_grid(table, sides) * unit
    if n > enc.dim and n * n * enc.dim > DIRECT:
        counts = pairs_at([np.arange(1 - m, m) for m in sides], sides)
        total, shared = sum_of_squared_products(table, unit), (means**2 * counts).sum()
        return float(np.sqrt(max(total - shared, 0.0) / total)) if total else 0.0
    table, squared, total = np.asarray(table, dtype=float), 0.0, 0.0
    places = lattice_points([np.arange(m) for m in sides])
    for rows in row_blocks(n, BLOCK, n):
        products = (table[rows] @ table.T) * unit
        lag = places - places[rows, None] + np.array(sides) - 1
        squared += float(((products - means[tuple(np.moveaxis(lag, -1, 0))]) ** 2).sum())
        total += float((products**2).sum())
    return float(np.sqrt(squared / total)) if total else 0.0


def toeplitz_residual_of_parts(parts: list[Encoding]) -> float:
    r"""The same of codes with one part an axis, from the products of each part.

    Residuals of two parts sum to zero over each diagonal, so that squares add up:
    :math:`\sum_a (n/N_a)^2 \lVert R_a \rVert^2`.
    """
    tables = [np.asarray(part.table(), dtype=float) for part in parts]
    unit = unit_of(np.array([np.abs(table).max() for table in tables]))
    n, squared, total, sums = prod(len(t) for t in tables), 0.0, 0.0, []
    for table in tables:
        side, table = len(table), table * unit
        products = table @ table.T
        lag = np.abs(np.arange(side)[:, None] - np.arange(side))
        rest = products - diagonal_means(table)[lag]
        squared += (n / side) ** 2 * float((rest**2).sum())
        total += (n / side) ** 2 * float((products**2).sum())
        sums.append(float(products.sum()) * (n / side) ** 2 / n)
    total += sum(sums) ** 2 - sum(x * x for x in sums)
    return float(np.sqrt(squared / total)) if total else 0.0


def sum_of_squared_products(table: np.ndarray, unit: float) -> float:
    """Sum of the squares of the inner products of all codes, each times `unit`."""
    n, d = table.shape
    gram = np.zeros((d, d))  # of the columns, whose squares have the same sum
    for rows in row_blocks(n, BLOCK, d):
        codes = np.asarray(table[rows], dtype=float)
        gram += codes.T @ codes
    return float(((gram * unit) ** 2).sum())


def autocorrelation(table: np.ndarray) -> np.ndarray:
    """Sums of the inner products of rows at each lag 0 … n - 1, by zero-padded FFT."""
    n, total = len(table), 0.0
    for start in range(0, table.shape[1], 64):
        columns = np.asarray(table[:, start : start + 64], dtype=float)
        spectrum = np.fft.rfft(columns, 2 * n, axis=0)
        total = total + (spectrum.real**2 + spectrum.imag**2).sum(axis=1)
    return np.fft.irfft(total, 2 * n)[:n]

r"""Inner products of codes at each lag, and how far they are from depending on it alone.

Conventions
-----------
G = E E' holds the inner products of all codes of a table E (n, d). On a grid a lag is a
displacement, a vector with a number for each axis.
"""

from functools import reduce
from math import prod
from weakref import WeakKeyDictionary

import numpy as np

from pefourier.encodings.domain import lattice_points
from pefourier.encodings.encoding import BLOCK, Encoding, row_blocks, unit_of

DIRECT = 2**31  # n^2 d up to which inner products are walked for the Toeplitz residual
MEANS: WeakKeyDictionary[Encoding, np.ndarray] = WeakKeyDictionary()


def toeplitz_residual(enc: Encoding) -> float | None:
    r"""Relative distance of the inner products to a function of the lag.

    :math:`\lVert G - \mathrm{Toep}(G)\rVert_F / \lVert G\rVert_F` with :math:`G = E E^T` and Toep
    the mean along diagonals (Wang et al., 2021). 0 where the encoding declares such inner products.
    Long tables use :math:`\lVert G\rVert^2 - \lVert\mathrm{Toep}(G)\rVert^2`, which resolves 1e-8.
    On a grid the lag is the displacement; nodes of a tree and scattered points have none, and times
    at uneven steps hardly one twice.
    """
    n, d, sides = len(enc), enc.dim, enc.domain.sides
    if enc.is_shift_invariant:
        return 0.0
    if not enc.domain.has_lags:
        return None
    table = enc.table()
    unit = unit_of(table) ** 2  # of products, whose squares would leave the range of numbers
    means = unit * (diagonal_means_on_grid(table, sides) if len(sides) > 1 else both_signs(enc))
    if n > d and n * n * d > DIRECT:
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


def both_signs(enc: Encoding) -> np.ndarray:
    """Mean of the inner products of codes at each lag 1 - n … n - 1."""
    means = diagonal_means(enc)
    return np.append(means[:0:-1], means)


def diagonal_means(enc: Encoding) -> np.ndarray:
    """Mean of the inner products of codes at each lag 0 … n - 1; kept as long as the encoding."""
    if enc not in MEANS:
        MEANS[enc] = lag_means(enc.table())
        MEANS[enc].flags.writeable = False
    return MEANS[enc]


def lag_means(table: np.ndarray) -> np.ndarray:
    """Mean of the inner products of rows at each lag 0 … n - 1, by zero-padded FFT."""
    n, total = len(table), None
    unit = 2 ** max(0, (2 * n).bit_length() - 5)
    size = -(-2 * n // unit) * unit  # has no large factor, which would take ten times as long
    for columns in row_blocks(table.shape[1], BLOCK, size):
        spectrum = np.fft.rfft(np.ascontiguousarray(table[:, columns].T, dtype=float), size)
        parts = spectrum.view(float)  # real and imaginary, in turn
        part = np.einsum("ij,ij->j", parts, parts)
        total = part if total is None else np.add(total, part, out=total)
        del spectrum, parts, part  # a long table's are large
    power = total.view(complex)
    power.real += power.imag
    power.imag = 0.0
    return np.fft.irfft(power, size)[:n] / np.arange(n, 0, -1)


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


def sum_of_squared_products(table: np.ndarray, unit: float) -> float:
    """Sum of the squares of the inner products of all codes, each times `unit`."""
    n, d = table.shape
    gram = np.zeros((d, d))  # of the columns, whose squares have the same sum
    for rows in row_blocks(n, BLOCK, d):
        codes = np.asarray(table[rows], dtype=float)
        gram += codes.T @ codes
    return float(((gram * unit) ** 2).sum())


def toeplitz_residual_of_rows(
    table: np.ndarray, sides: tuple[int, ...], placed: np.ndarray
) -> float:
    """The same of rows (k, d) that stand on some points of a grid, given by their index in it.

    Resolves 1e-7; 0 where fewer than two rows are given.

    >>> codes = np.eye(2)[[0, 1, 0, 1, 0, 1]]
    >>> toeplitz_residual_of_rows(codes[:5], (3, 2), np.arange(5))
    0.0
    """
    unit = unit_of(table)
    doubled, axes = tuple(2 * n for n in sides), tuple(range(len(sides)))

    def spread(values: np.ndarray) -> np.ndarray:
        lattice = np.zeros((prod(sides), values.shape[1]))
        lattice[placed] = values
        spectrum = np.fft.rfftn(lattice.reshape(*sides, -1), doubled, axes)
        return np.fft.irfftn((spectrum.real**2 + spectrum.imag**2).sum(axis=-1), doubled, axes)

    blocks = row_blocks(table.shape[1], BLOCK, prod(doubled))
    sums = sum(spread(np.asarray(table[:, block], dtype=float) * unit) for block in blocks)
    counts = np.rint(spread(np.ones((len(placed), 1))))
    gram = sum_of_squared_products(table, unit**2)
    shared = float((sums**2 / np.maximum(counts, 1)).sum())
    share = (gram - shared) / gram if gram else 0.0
    return float(np.sqrt(share)) if share > 1e-14 else 0.0

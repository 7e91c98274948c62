r"""Inner products of vectors at each lag, and their distance to a function of the lag alone.

Conventions
-----------
G = E E' holds the inner products of all rows of a table E (n, d). On a grid, a lag is a
displacement: a vector with one entry per axis.
"""

from dataclasses import replace
from functools import reduce
from math import prod

import numpy as np

from pefourier.encodings.encoding import (
    BLOCK,
    Encoding,
    lattice_points,
    row_blocks,
    unit_of,
)
from pefourier.encodings.families.location import LAGS, PlaceDomain
from pefourier.types import Counts, Floats, Indices, Table

DIRECT = 2**31  # n^2 d up to which the Toeplitz residual reads every inner product
RESOLVED = 1e-7  # smallest residual that a difference of squares resolves from 0


def by_inner_products(enc: Encoding) -> Encoding:
    """Return an encoding that declares its inner products as one with their measure."""
    is_line = enc.kernel and len(enc.domain.sides) == 1
    return replace(enc, measure=enc.kernel) if is_line else enc


def toeplitz_residual(enc: Encoding) -> float | None:
    r"""Return the relative distance of the inner products to a function of the lag.

    :math:`\lVert G - \mathrm{Toep}(G)\rVert_F / \lVert G\rVert_F` with :math:`G = E E^T` and Toep
    the mean along diagonals (Wang et al., 2021). The residual is 0 if the encoding declares
    shift-invariant inner products. On a grid, the lag is the displacement. The residual is None
    for nodes of a tree, which have no lags, and for uneven times, where a lag rarely recurs. For
    places, see `products_by_distance`: the lag is the distance, and on a plane the displacement.
    """
    n, d, sides = len(enc), enc.dim, enc.domain.sides
    if enc.measure.squared_length:
        return 0.0
    if isinstance(enc.domain, PlaceDomain):
        products = products_by_distance(enc, enc.domain)
        means = products.mean(axis=(1, 2) if enc.domain.unit else 2, keepdims=True)
        return float(np.linalg.norm(products - means) / (np.linalg.norm(products) or 1.0))
    if not enc.domain.has_lags:
        return None
    table = enc.table()
    if n > d and n * n * d > DIRECT:
        return toeplitz_residual_of_rows(table, sides)
    table, squared, total = np.asarray(table, dtype=float) * unit_of(table), 0.0, 0.0
    means, places = mean_products(table, sides), lattice_points([np.arange(m) for m in sides])
    for rows in row_blocks(n, BLOCK, n):
        products = table[rows] @ table.T
        lag = places - places[rows, None] + np.array(sides) - 1
        squared += float(((products - means[tuple(np.moveaxis(lag, -1, 0))]) ** 2).sum())
        total += float((products**2).sum())
    return float(np.sqrt(squared / total)) if total else 0.0


def products_by_distance(enc: Encoding, domain: PlaceDomain) -> Floats:
    """Inner products (`LAGS` + 1, directions, places) of places and places at each distance.

    Distances are 0, 1, … `LAGS` times `domain.spacing`, in eight directions from up to 64 places.
    The unit of vectors is `unit_of` those of the places.
    """
    starts, angles = domain.at[:: -(-len(domain) // 64)], np.arange(8) * np.pi / 4
    table, lags = enc.vectors(starts), domain.spacing * np.arange(LAGS + 1)
    ends = [np.concatenate([domain.beyond(r, angle, starts) for angle in angles]) for r in lags]
    rows, unit = (enc.vectors(at).reshape(8, *table.shape) for at in ends), unit_of(table)
    return np.array([(vectors * unit * (table * unit)).sum(axis=-1) for vectors in rows])


def toeplitz_residual_of_rows(table: Table, sides: Counts, placed: Indices | None = None) -> float:
    r"""Return the Toeplitz residual of rows (k, d) at some points of a grid, by default at all.

    Computed from :math:`\lVert G\rVert^2 - \lVert\mathrm{Toep}(G)\rVert^2`, which resolves 1e-7;
    a smaller residual is reported as 0.

    >>> rows = np.eye(2)[[0, 1, 0, 1, 0, 1]]
    >>> toeplitz_residual_of_rows(rows[:5], (3, 2), np.arange(5))
    0.0
    """
    unit, (n, d) = unit_of(table), table.shape
    sums = products_at_lags(table, sides, placed, unit)
    counts = np.rint(products_at_lags(np.ones((n, 1)), sides, placed))
    gram = np.zeros((d, d))  # of the columns: the sum of its squares equals that of the rows
    for rows in row_blocks(n, BLOCK, d):
        vectors = np.asarray(table[rows], dtype=float) * unit
        gram += vectors.T @ vectors
    total = float((gram**2).sum())
    share = 1 - float((sums**2 / np.maximum(counts, 1)).sum()) / total if total else 0.0
    return float(np.sqrt(share)) if share > RESOLVED**2 else 0.0


def mean_products(table: Table, sides: Counts) -> Floats:
    """Return the mean inner product of rows at each displacement, (2 N_1 - 1, …)."""
    counts = [n - np.abs(np.arange(1 - n, n)) for n in sides]
    means: Floats = products_at_lags(table, sides) / reduce(np.multiply.outer, counts)
    return means


def products_at_lags(
    table: Table,
    sides: Counts,
    placed: Indices | None = None,
    unit: float = 1.0,
) -> Floats:
    """Sum the inner products of rows, times `unit`, at each displacement, by zero-padded FFT.

    >>> products_at_lags(np.ones((4, 1)), (4,)).round(9)
    array([1., 2., 3., 4., 3., 2., 1.])
    """
    sizes, axes, total = [smooth_size(2 * n) for n in sides], range(len(sides)), 0.0
    for columns in row_blocks(table.shape[1], BLOCK, prod(sizes)):
        values = np.ascontiguousarray(table[:, columns].T, dtype=float) * unit
        if placed is not None:
            rows, values = values, np.zeros((len(values), prod(sides)))
            values[:, placed] = rows
        spectrum = np.fft.rfftn(values.reshape(-1, *sides), sizes, [axis + 1 for axis in axes])
        total = total + (spectrum.real**2 + spectrum.imag**2).sum(axis=0)
    lags = np.ix_(*(np.arange(1 - n, n) for n in sides))
    sums: Floats = np.fft.irfftn(total, sizes, axes)[lags]
    return sums


def smooth_size(count: int) -> int:
    """Return a size of at least `count` without large prime factors, which slow an FFT tenfold.

    >>> smooth_size(200001)
    204800
    """
    unit = 1 << max(0, count.bit_length() - 5)
    return -(-count // unit) * unit

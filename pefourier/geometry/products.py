r"""Inner products of vectors at each lag, and their distance to a function of the lag alone.

Conventions
-----------
G = E E' holds the inner products of all rows of a table E (n, d). On a grid, a lag is a
displacement: a vector with one entry per axis.

Test whether rows fit a grid of other sides, or a grid that begins at another row.

Conventions
-----------
On the grid of a trained table, neighbouring lines (rows, columns, frames) are similar. The end of a
line is dissimilar to the start of the next. The *least* mean cosine of two neighbouring lines thus
exceeds the mean cosine of the *ends*. If rows are read on a wrong grid, or one row late, some lines
cross these ends. Cosines are computed after subtracting the mean row. A grid begins at row `start`,
which is negative if its first rows are missing.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, reduce
from itertools import product
from math import prod

import numpy as np

from pefourier.encodings.encoding import (
    BLOCK,
    Encoding,
    row_blocks,
    unit_of,
)
from pefourier.geometry.precision import NUMBERS_AT_ONCE
from pefourier.types import Counts, Floats, Indices, Ints, Table, frozen

RESOLVED = 1e-7  # smallest residual that a difference of squares resolves from 0
LEAST_COSINES = (
    0.1,
    0.3,
)  # bounds on the least mean cosine that a fit requires; CHANCE sets it between
CHANCE = 3.0  # standard deviations of the mean cosine of unrelated vectors
BETTER = 0.4  # required gain in contrast over the given grid
LEFT_OUT = 5  # most rows to leave out of the grid
SHARE = 16  # at most one row in this many may be left out


def by_inner_products(enc: Encoding) -> Encoding:
    """Return an encoding that declares its inner products as one with their measure."""
    is_line = enc.kernel and enc.domain.is_line
    return replace(enc, measure=enc.kernel) if is_line else enc


def toeplitz_residual(enc: Encoding) -> float | None:
    r"""Return the relative distance of the inner products to a function of the lag.

    :math:`\lVert G - \mathrm{Toep}(G)\rVert_F / \lVert G\rVert_F` with :math:`G = E E^T` and Toep
    the mean along diagonals (Wang et al., 2021). The residual is 0 if the encoding declares
    shift-invariant inner products. On a grid, the lag is the displacement. The residual is None
    for nodes of a tree, which have no lags, and for uneven times, where a lag rarely recurs.
    """
    if enc.measure.squared_length:
        return 0.0
    if not enc.domain.has_lags:
        return None
    return toeplitz_residual_of_rows(enc.table(), enc.domain.sides)


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
    size = min(n, d)
    gram = np.zeros((size, size))  # of rows, or of columns: their squares have the same sum
    for part in row_blocks(max(n, d), BLOCK, size):
        vectors = (table[part].T if n > d else table[:, part]).astype(float) * unit
        gram += vectors @ vectors.T
    total = (gram**2).sum()
    share = 1 - (sums**2 / np.maximum(counts, 1)).sum() / total if total else 0.0
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


@frozen
class Reading:
    """Rows read as a grid."""

    start: int
    grid: Counts
    least: float
    ends: float

    @property
    def contrast(self) -> float:
        """Excess similarity of neighbouring lines over ends."""
        return self.least - self.ends


def better_reading(table: Table, sides: Ints) -> tuple[Reading, Reading] | None:
    """Return a grid that the rows fit much better, and the given one; None if no grid is better.

    Among grids that leave out the fewest rows, the grid with the highest contrast is returned.

    >>> y, x = np.indices((5, 8)).reshape(2, -1)
    >>> rows = np.stack([np.cos(y / 2), np.sin(y / 2), np.cos(x / 2), np.sin(x / 2)], axis=1)
    >>> better_reading(rows, (8, 5))[0].grid, better_reading(rows, (5, 8))
    ((5, 8), None)
    """
    grid, n = tuple(side for side in sides if side > 1), len(table)
    if len(grid) < 2:
        return None
    unit = unit_rows(table)
    line_means = means_of_lines(unit)

    def read(start: int, grid: Counts, apart: float) -> Reading:
        """Read rows as a grid, the fastest axis first, up to the first axis that does not fit."""
        reading = Reading(start, grid, 1.0, -1.0)
        for axis in reversed(range(len(grid))):
            step, stop = prod(grid[axis + 1 :]), start + prod(grid)
            *lines, ends = line_means(step, grid[axis], start, stop)
            ends = ends if step == 1 else reading.ends
            reading = Reading(start, grid, min(reading.least, *lines), ends)
            if not fits(reading, apart):
                break
        return reading

    def fits(reading: Reading, apart: float) -> bool:
        """Whether lines are more similar than by chance, and than ends by at least `apart`."""
        least_cosine = np.clip(CHANCE / np.sqrt(unit.size / max(reading.grid)), *LEAST_COSINES)
        return apart == -np.inf or (reading.least >= least_cosine and reading.contrast >= apart)

    given = read(0, grid, -np.inf)
    apart = max(0.0, given.contrast + BETTER)
    for left_out in range(min(LEFT_OUT, n // SHARE) + 1 if given.contrast < 1 - BETTER else 0):
        grids = [*product(range(left_out + 1), grids_of(n - left_out, len(grid)))]
        grids += [(left_out, grid), (-left_out, grid)]
        readings = [read(*place, apart) for place in grids]
        if fitting := [reading for reading in readings if fits(reading, apart)]:
            return max(fitting, key=lambda reading: reading.contrast), given
    return None


def unit_rows(table: Table) -> Table:
    """Return the rows minus their mean, scaled to length 1; large tables use some columns only."""
    rows = np.asarray(table[:, :: -(-table.size // NUMBERS_AT_ONCE)], dtype=np.float32)
    rows = rows - rows.mean(axis=0)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1))


def means_of_lines(unit: Table) -> Callable[[int, int, int, int], list[float]]:
    """Return a function for the mean cosine of each line of an axis with the next line.

    Rows of neighbouring lines are `step` apart. An axis has `side` lines among the rows from
    `start` to `stop`. The last mean compares the last line with the first line that follows.
    """

    @cache
    def cosines(step: int) -> Floats:
        return np.asarray(np.einsum("nd,nd->n", unit[step:], unit[: len(unit) - step]))

    @cache
    def means(step: int, side: int, start: int, stop: int) -> list[float]:
        k = np.arange(max(start, 0), min(stop, len(unit)) - step)
        line = (k - start) // step % side
        sums, counts = np.bincount(line, cosines(step)[k], side), np.bincount(line, None, side)
        return list((sums / np.maximum(counts, 1)).tolist())

    return means


def grids_of(count: int, axes: int) -> list[Counts]:
    """Return all grids of `count` points with `axes` sides of at least 2.

    >>> grids_of(12, 2), grids_of(8, 3)
    ([(2, 6), (3, 4), (4, 3), (6, 2)], [(2, 2, 2)])
    """
    if axes == 1:
        return [(count,)] if count > 1 else []
    divisors = [side for side in range(2, count // 2 + 1) if count % side == 0]
    return [(side, *rest) for side in divisors for rest in grids_of(count // side, axes - 1)]

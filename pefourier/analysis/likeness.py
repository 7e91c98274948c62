r"""How alike are two tables that are not the same? Two runs of training, a table before and after.

Conventions
-----------
Training may turn a table as it likes without changing what attention can do with it, so that single
numbers of two runs say nothing. Inner products do: `products` is the linear centred kernel
alignment (Kornblith et al., 2019, arXiv 1905.00414) with the unbiased estimate of Song et al.
(2012), by which tables of free numbers have 0 in the mean at any size. Spectra are periodograms
that nothing smears: the Gaussian of Eq. 15 is wider than what training moves in a short table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pefourier.encodings.encoding import Encoding, from_table, unit_of, without_prefix
from pefourier.encodings.grids import on_grid

LEAST = 4  # rows from which the estimate is defined
MOST_WORK = 2**37  # products of numbers


@dataclass(frozen=True)
class Likeness:
    """What two tables share beside single numbers; None where it is not defined."""

    products: float | None  # alignment of inner products: 1 up to a rotation and scale, 0 unrelated
    energy_moved: float | None  # share of the energy that lies at other frequencies
    mean_frequencies: tuple[float, float] | None  # of the two, radians per position
    moved: float | None = None  # length of the difference over that of the first, as it stands
    cosine: float | None = None  # of the two, all numbers of each in one vector


def measure_likeness(one: Encoding, two: Encoding) -> Likeness:
    """The likeness of the codes of common positions.

    >>> from pefourier.encodings import load
    >>> found = measure_likeness(load("dft", 32, 32), load("sinusoidal", 32, 32))
    >>> round(found.energy_moved, 2), [round(x, 2) for x in found.mean_frequencies]
    (0.72, [1.57, 0.16])
    """
    one, two = without_prefix(one), without_prefix(two)
    n = min(len(one), len(two))
    if n < LEAST or n * max(one.dim, two.dim) ** 2 > MOST_WORK:
        return Likeness(None, None, None)
    tables = [np.asarray(enc.table(enc.domain.x[:n]), dtype=float) for enc in (one, two)]
    change = measure_change(*tables)
    tables = [table * unit_of(table) for table in tables]
    products = align_products(*tables)
    sides = one.domain.sides
    same_place = sides == two.domain.sides or len(sides) == len(two.domain.sides) == 1
    if not same_place or not all(enc.domain.kind == "position" for enc in (one, two)):
        return Likeness(products, None, None, *change)
    moved, means = spectra_apart(tables, sides if len(sides) > 1 else ())
    return Likeness(products, moved, means, *change)


def measure_change(a: np.ndarray, b: np.ndarray) -> tuple[float, float] | tuple[None, None]:
    """How far b is from a, over the length of a, and their cosine; None where none is defined.

    >>> measure_change(np.array([[3.0, 0.0]]), np.array([[0.0, 4.0]]))
    (1.6666666666666667, 0.0)
    """
    if a.shape != b.shape:
        return None, None
    sizes = [float(np.linalg.norm(x)) for x in (a, b, b - a)]
    if not all(sizes[:2]):
        return None, None
    return sizes[2] / sizes[0], float(np.vdot(a, b)) / (sizes[0] * sizes[1])


def align_products(a: np.ndarray, b: np.ndarray) -> float | None:
    """Unbiased linear CKA of tables (n, p) and (n, q); None where one has equal rows.

    Without an (n, n) array: sums over pairs of different rows from sums over all.
    """
    between, own = sum_over_pairs(a, b), sum_over_pairs(a, a) * sum_over_pairs(b, b)
    return float(np.clip(between / np.sqrt(own), -1.0, 1.0)) if own > 0 else None


def sum_over_pairs(a: np.ndarray, b: np.ndarray) -> float:
    """The unbiased HSIC of two linear kernels, but for a factor of n."""
    n = len(a)
    a, b = (table - table.mean(axis=0) for table in (a, b))
    squares = [np.einsum("sj,sj->s", table, table) for table in (a, b)]
    # with rows that sum to 0 the kernels' rows without their diagonal sum to minus the squares
    trace = (np.matmul(a.T, b) ** 2).sum() - squares[0] @ squares[1]
    totals = squares[0].sum() * squares[1].sum() / ((n - 1) * (n - 2))
    crossed = 2.0 / (n - 2) * (squares[0] @ squares[1])
    return float(trace + totals - crossed)


def spectra_apart(
    tables: list[np.ndarray], grid: tuple[int, ...]
) -> tuple[float | None, tuple[float, float] | None]:
    """Half the sum of differences of two densities over one lattice, and their mean frequencies."""
    from pefourier.analysis.spectrum import density

    encodings = [from_table(table) for table in tables]
    if grid:
        encodings = [on_grid(enc, grid, 0) for enc in encodings]
    lattice = None if grid else len(tables[0])
    spectra = [density(enc, lattice, 0.0, "periodogram") for enc in encodings]
    one, two = (np.ravel(each.density) for each in spectra)
    if np.isnan(one).any() or np.isnan(two).any():
        return None, None
    first, second = (float(each.summary.centroid) for each in spectra)
    return float(np.abs(one - two).sum() / 2), (first, second)

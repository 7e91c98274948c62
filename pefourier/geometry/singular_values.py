"""Singular values and rank of a table: whether a linear map recovers every position.

Conventions
-----------
E is the table, n positions by d dimensions. Its linear inverse is the pseudoinverse E+, which sets
singular values at or below the tolerance to zero. E E+ is the orthogonal projection onto the column
space, and positions are recovered exactly if it is the identity.

No (n, n) array is made for n > d. An encoding that declares its inner products is split into an
even and an odd part about the middle position (`even_odd_svd`); any other table is one matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from pefourier.encodings.checks import NUMBERS, check_cost, check_size
from pefourier.encodings.encoding import FLOAT64_EPS, Encoding, Floats, is_stationary, row_blocks
from pefourier.encodings.places import axis_encodings, is_separable
from pefourier.errors import PefourierError, shown
from pefourier.geometry import Progress, keep_last
from pefourier.geometry.even_odd_svd import ALL, Part, even_odd_svd, factor, is_solved, min_leverage
from pefourier.geometry.precision import stored_resolution

AT_ONCE = 2**20  # numbers of left singular vectors at a time: 8 MiB
SAMPLE = 2**9  # rows from which the resolution of a table is measured
UNSEEN = 1e-7  # sine that a float64 cosine cannot distinguish from 0


@dataclass(frozen=True, eq=False)
class Factors:
    """Singular values of a table and its projection on the column space."""

    n: int
    d: int
    sigma: Floats  # (min(n, d),) descending
    tolerance: float
    parts: tuple[Part, ...]  # one for the whole table, or the even and the odd part
    is_separable: bool = False  # each column depends on one axis of a grid

    @property
    def rank(self) -> int:
        """Number of singular values above the tolerance."""
        return int((self.sigma > self.tolerance).sum())

    @property
    def condition_number(self) -> float | None:
        """Largest over smallest singular value; None if the rank is deficient."""
        full = self.rank == min(self.n, self.d)
        return float(self.sigma[0] / self.sigma[-1]) if full else None

    @property
    def stable_rank(self) -> float:
        """Squared Frobenius norm over squared spectral norm; NaN for a table of zeros."""
        return float((self.sigma**2).sum() / self.sigma[0] ** 2) if self.sigma[0] else np.nan

    def left(self, rows: slice) -> list[Floats]:
        """Return the left singular vectors of each part at some of its rows, up to the rank."""
        ranks = [int((part.sigma > self.tolerance).sum()) for part in self.parts]
        return [part.vectors(rows, slice(k)) for part, k in zip(self.parts, ranks, strict=True)]

    def row_blocks(self) -> list[slice]:
        """Split the rows of a part into blocks."""
        rows = self.n if len(self.parts) == 1 else (self.n + 1) // 2
        return row_blocks(rows, AT_ONCE, max(len(part.sigma) for part in self.parts))

    def inverse_error(self, s: int | None = None) -> float:
        """Return the largest |E E+ - I|, of row s or of all rows.

        Over all rows, I - E E+ is a projection, and its largest entry lies on its diagonal.
        """
        if s is None:
            least = min_leverage(self.parts, self.n, self.tolerance)
            if least is None:
                least = min(float(self.leverage(r).min()) for r in self.row_blocks())
            return max(0.0, 1 - least)
        return max(self.row_error(rows, s) for rows in self.row_blocks())

    def leverage(self, rows: slice) -> Floats:
        """Return the diagonal of E E+ at rows of the parts (two parts: from the middle out)."""
        leverage = self.share(rows) ** 2
        leverage *= np.sum([(u**2).sum(axis=1) for u in self.left(rows)], axis=0)
        return leverage

    def share(self, rows: slice) -> Floats:
        """Return the weight of a part's row in a table row: 1/sqrt 2 for two mirror positions."""
        share = np.full(rows.stop - rows.start, 1.0 if len(self.parts) == 1 else np.sqrt(0.5))
        if self.n % 2 and rows.start == 0:
            share[0] = 1.0  # the middle position is its own mirror image
        return share

    def separable_error(self, sides: Sequence[int]) -> float:
        """Return the largest error of recovering a sum of one function per axis.

        This is the sine of the largest angle between such functions and the column space: 0 if a
        linear map recovers every function, 1 if some function is lost entirely.
        """
        if self.rank < separable_rank(sides):
            return 1.0
        if self.is_separable or len(sides) == 1:  # with one axis, every function is separable
            return 0.0
        products: list[Floats] = []
        for rows in row_blocks(self.n, AT_ONCE, separable_rank(sides) + self.d):
            basis = separable_basis(sides, rows)
            parts = [basis.T @ vectors for vectors in self.left(rows)]
            products = [a + b for a, b in zip(products, parts, strict=True)] if products else parts
        cosines = np.linalg.svd(np.hstack(products), compute_uv=False)
        sine = float(np.sqrt(max(0.0, 1 - cosines[-1] ** 2)))
        return sine if sine > UNSEEN else 0.0

    def row_error(self, rows: slice, s: int) -> float:
        """Return the largest |E E+ - I| between position s and some rows of the parts."""
        row = s if len(self.parts) == 1 else abs(2 * s - (self.n - 1)) // 2
        single = slice(row, row + 1)
        share = self.share(rows) * self.share(single)
        inner = [
            share * (u @ v[0]) for u, v in zip(self.left(rows), self.left(single), strict=True)
        ]
        is_row = np.arange(rows.start, rows.stop) == row
        if len(inner) == 1:
            return float(np.abs(inner[0] - is_row).max())
        mirror = is_row & (2 * s == self.n - 1)
        even, odd = inner
        ends = (np.abs(even + odd - is_row).max(), np.abs(even - odd - mirror).max())
        return float(max(ends))


@keep_last
def decompose(enc: Encoding, progress: Progress | None = None) -> Factors:
    r"""Return the singular values of the table, with the tolerance of its rank.

    The tolerance is sigma_1 max(n, d) eps, with the eps of float64. Rounding to a coarser format
    has rms size r eps, with r the rms entry, and a spectral norm of about r eps (sqrt n + sqrt d).
    The tolerance is at least this norm if the table was stored in or rounded to such a format.
    `progress`, if given, is called as progress(done, total) on each pass over a long table.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> decompose(load("dft", length=8, d=8)).condition_number.__round__(12)
    1.0
    """
    n, d, eps = len(enc), enc.dim, enc.eps
    lines = axis_encodings(enc)
    if lines is not None:
        parts = factor_on_axes([np.asarray(line.table(), dtype=float) for line in lines])
    elif is_stationary(enc) and len(enc.domain.sides) == 1:
        parts = even_odd_svd(enc.measure, n, progress)
    else:
        table = enc.table()
        parts = (factor(lambda rows, cols: table[rows, cols].astype(float), n, d, progress),)
    if not is_stationary(enc):
        eps, _ = stored_resolution(np.asarray(enc.vectors(enc.domain.x[:SAMPLE]), dtype=float), eps)
    sigma = np.sort(np.concatenate([part.sigma for part in parts]))[::-1][: min(n, d)]
    sigma = np.pad(sigma, (0, max(0, min(n, d) - len(sigma))))
    tolerance = sigma[0] * max(n, d) * FLOAT64_EPS
    if eps > FLOAT64_EPS:
        rms = np.sqrt((sigma**2).sum() / (n * d))
        tolerance = max(tolerance, rms * eps * (np.sqrt(n) + np.sqrt(d)))
    return Factors(n, d, sigma, float(tolerance), parts, lines is not None)


def factor_on_axes(tables: Sequence[Floats]) -> tuple[Part, ...]:
    """Decompose a table on a grid from the columns (side, d_a) that depend on each axis.

    The table is written in an orthonormal basis of all sums of one function per axis. It then has
    one row for the constant and side - 1 rows per axis, nonzero only in the columns of that axis.
    """
    sides = [len(table) for table in tables]
    n, bases = prod(sides), [zero_sums(side) * np.sqrt(side / prod(sides)) for side in sides]
    rows = [np.sqrt(n) * np.hstack([table.mean(axis=0) for table in tables])]
    start = 0
    for basis, table in zip(bases, tables, strict=True):
        block = np.zeros((basis.shape[1], rows[0].size))
        block[:, start : start + table.shape[1]] = n / len(table) * (basis.T @ table)
        rows, start = [*rows, block], start + table.shape[1]
    small = np.vstack(rows)
    part = factor(lambda rows, columns: small[rows, columns], len(small), small.shape[1])
    mean, *blocks = np.split(part.vectors(ALL, ALL), np.cumsum([1, *(side - 1 for side in sides)]))
    lines = [basis @ block for basis, block in zip(bases, blocks, strict=False)]
    lines[0] = lines[0] + mean / np.sqrt(n)

    def vectors(rows: slice, columns: slice) -> Floats:
        places = np.unravel_index(np.arange(*rows.indices(n)), sides)
        parts = [line[place, columns] for line, place in zip(lines, places, strict=True)]
        total: Floats = sum(parts[1:], parts[0])
        return total

    return (Part(part.sigma, vectors),)


def zero_sums(n: int) -> Floats:
    """Return an orthonormal basis (n, n - 1) of the functions on n points with sum 0 (Helmert).

    >>> zero_sums(2).round(4).tolist()
    [[0.7071], [-0.7071]]
    """
    k = np.arange(1, n)
    basis = (np.arange(n)[:, None] < k).astype(float)
    basis[k, k - 1] = -k
    basis /= np.sqrt(k * (k + 1.0))
    return basis


def separable_rank(sides: Sequence[int]) -> int:
    """Return the dimension of the space of sums of one function per axis.

    >>> separable_rank((14, 14))
    27
    """
    return 1 + sum(n - 1 for n in sides)


def separable_basis(sides: Sequence[int], rows: slice) -> Floats:
    """Return rows of an orthonormal basis of sums of one function per axis, the constant first.

    >>> basis = separable_basis((3, 4), slice(0, 12))
    >>> bool(np.allclose(basis.T @ basis, np.eye(6)))
    True
    """
    n = prod(sides)
    places = np.unravel_index(np.arange(*rows.indices(n)), sides)
    parts = [
        zero_sums(side)[place] * np.sqrt(side / n)
        for place, side in zip(places, sides, strict=True)
    ]
    return np.hstack([np.full((len(places[0]), 1), 1 / np.sqrt(n)), *parts])


def check_products(enc: Encoding) -> None:
    """Refuse encodings whose inner products do not fit in memory, before other work is done."""
    n, d = len(enc), enc.dim
    if is_stationary(enc) and len(enc.domain.sides) == 1:
        n, d = (n + 1) // 2, len(enc.measure.frequencies)
    elif is_stationary(enc) and is_separable(enc):
        n = separable_rank(enc.domain.sides)
    else:
        check_size(f"a table of {shown(enc.spec)}", n, d, limit=enc.table_limit)
    try:
        check_size(f"the inner products of {shown(enc.spec)}", min(n, d), min(n, d), limit=NUMBERS)
        check_cost(shown(enc.spec), "products of a decomposition", min(n, d) ** 2 * max(n, d))
    except PefourierError:
        if (
            len(enc.domain.sides) > 1
            or not is_stationary(enc)
            or not is_solved(enc.measure, len(enc))
        ):
            raise

r"""Singular values and rank of a table: whether a linear map recovers every position.

Conventions
-----------
E is the table, n positions by d dimensions. Its linear inverse is the pseudoinverse E+, which sets
singular values at or below the tolerance to zero. E E+ is the orthogonal projection onto the column
space, and positions are recovered exactly if it is the identity.

No (n, n) array is made for n > d. An encoding that declares its inner products is split into an
even and an odd part about the middle position (`even_odd_svd`); any other table is one matrix.

RoPE at the context lengths of language models needs these parts: 131,072 positions by 128
dimensions take 0.1 seconds and no table, while ``numpy.linalg.svd`` takes 4 seconds and 134 MB.

Vectors with inner products :math:`c \sum_j w_j \cos(\omega_j (s - t))` are split about the middle
of n positions into cosines (even) and sines (odd). This gives two problems of half the size, since
rotating each pair of columns changes no inner product. Rows are the positions from the middle on;
mirror positions share a row. Inner products of columns have a closed form, `dirichlet_products`.

A large matrix is read in blocks, without a square array of its longer side. The eigenvalues of its
Gram matrix are the squared singular values, which are accurate above `SHARP` times the largest. If
others are smaller, the eigenvectors balance the columns, and the Gram matrix of the balanced
columns restores the digits lost by squaring.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from pefourier.encodings.encoding import (
    FLOAT64_EPS,
    Encoding,
    Measure,
    Wave,
    axis_encodings,
    is_separable,
    row_blocks,
)
from pefourier.errors import NUMBERS, PefourierError, check_cost, check_size, shown
from pefourier.geometry import Progress, keep_last, map_ahead
from pefourier.geometry.precision import stored_resolution
from pefourier.types import Floats, Indices, Ints, frozen_arrays

BLOCK = 2**20  # numbers of a block: 8 MiB
SHARP = 2.0**-9  # of the largest singular value: above it, squares keep enough digits
Entries = Callable[[Any, slice], Floats]  # (rows, columns) -> float64 block of a matrix
ALL = slice(None)


@frozen_arrays
class MatrixPart:
    """Singular values of a matrix and, on demand, rows of its left singular vectors."""

    sigma: Floats  # descending
    vectors: Callable[[Any, slice], Floats]  # (rows, columns) -> block of left vectors


def part_of(sigma: Floats, vectors: Floats) -> MatrixPart:
    """Return a part with its left singular vectors in memory."""
    return MatrixPart(sigma, lambda rows, columns: vectors[rows, columns])


def factor(
    entries: Entries,
    n: int,
    m: int,
    progress: Progress | None = None,
    products: Callable[[], Floats] | None = None,
) -> MatrixPart:
    """Return singular values and left singular vectors of an (n, m) matrix.

    `products` computes the inner products (m, m) of its columns, if they have a formula.
    """
    if n * m <= BLOCK:
        left_vectors, sigma, _ = np.linalg.svd(entries(ALL, ALL), full_matrices=False)
        return part_of(sigma, left_vectors)
    if n <= m:
        return part_of(*long_svd(lambda block: entries(ALL, block).T, m, n, progress))
    sigma, right = long_svd(lambda block: entries(block, ALL), n, m, progress, products)
    return MatrixPart(sigma, lambda rows, k: entries(rows, ALL) @ (right[:, k] / sigma[k]))


def long_svd(
    rows: Callable[[slice], Floats],
    n: int,
    m: int,
    progress: Progress | None,
    products: Callable[[], Floats] | None = None,
) -> tuple[Floats, Floats]:
    """Return singular values and right singular vectors (columns) of a tall (n, m) matrix.

    With G = A'A = V s^2 V', the columns of B = A V / max(s, 3e-8 s_1) have about equal length. The
    Gram matrix of B resolves each column to full relative precision, which G does not. The error
    of a singular value is a few eps times the largest, as in a direct decomposition of A.
    """
    blocks = row_blocks(n, max(m * m, BLOCK), m)  # at least square: efficient products

    def total(balance: Floats | None) -> Floats:
        result = np.zeros((m, m))
        for done, part in enumerate(map_ahead(lambda b: gram(rows(b), balance), blocks), 1):
            result += part
            if progress:
                progress(done, len(blocks))
        return result

    ascending = np.linalg.eigh(products() if products else total(None))
    eigenvalues, vectors = (x[..., ::-1] for x in ascending)  # LAPACK's SVD fails on some ascending
    largest = eigenvalues[0]
    if not largest > 0:
        return np.zeros(m), vectors
    if eigenvalues[-1] > SHARP**2 * largest:
        return np.sqrt(eigenvalues), vectors
    lengths = np.sqrt(np.maximum(eigenvalues, 1e-15 * largest))  # rounding may give smaller values
    squares, rotation = np.linalg.eigh(total(vectors / lengths))
    root = np.sqrt(np.maximum(squares, 0.0))[:, None] * rotation.T
    _, sigma, right = np.linalg.svd(root * lengths)
    return sigma, vectors @ right.T


def gram(block: Floats, balance: Floats | None) -> Floats:
    """Return inner products of the columns of a block, or of its product with a matrix."""
    block = block if balance is None else block @ balance
    return block.T @ block


FEW_PRODUCTS = 2**30  # n m^2 up to which direct products are faster than Fourier transforms
MOST_WAVES = 2**13  # frequencies up to which inner products are decomposed: more take minutes
SLOW = np.pi / 2  # radians per position: sums of two frequencies stay below half a rotation
ORTHOGONAL = 64 * FLOAT64_EPS  # inner product, as a share, that counts as 0: rounding only
WAVES: tuple[Wave, Wave] = ("cos", "sin")


def even_odd_svd(measure: Measure, n: int, progress: Progress | None) -> tuple[MatrixPart, ...]:
    """Return the even and the odd part of an encoding that declares its inner products."""
    half, m = (n + 1) // 2, len(measure)
    parts = []
    for wave in WAVES:
        entries, products = mirror_waves(measure, n, wave), None
        if has_closed_products(measure):
            products = partial(dirichlet_products, measure, n, wave)
        parts.append(factor(entries, half, m, progress, products))
    return tuple(parts)


def has_closed_products(measure: Measure) -> bool:
    """Whether inner products of columns have a formula and are few enough to decompose."""
    is_few = not measure.period and len(measure) <= MOST_WAVES
    return is_few and bool(np.abs(measure.frequencies).max() <= SLOW)


def is_solved(measure: Measure, n: int) -> bool:
    """Whether formulas give accurate singular values of many rows without reading any row."""
    if has_orthogonal_rows(measure, n):
        return True
    if n * len(measure) ** 2 <= FEW_PRODUCTS or not has_closed_products(measure):
        return False
    values = (np.linalg.eigvalsh(dirichlet_products(measure, n, wave)) for wave in WAVES)
    return all(v[0] > SHARP**2 * v[-1] for v in values)


def dirichlet_products(measure: Measure, n: int, wave: Wave) -> Floats:
    r"""Return inner products (m, m) of sampled cosines, or of sines, at low frequencies.

    With the Dirichlet kernel :math:`D(x) = \sum_t \cos x t = \sin(n x / 2) / \sin(x / 2)`, they are
    :math:`(D(\omega_i - \omega_j) \pm D(\omega_i + \omega_j)) / 2` times both amplitudes.

    >>> waves = Measure(np.array([0.0, 0.1]), np.full(2, 0.5), squared_length=2.0)
    >>> dirichlet_products(waves, 3, "cos").round(4)
    array([[3.    , 2.99  ],
           [2.99  , 2.9801]])
    """
    omega, amplitudes = measure.frequencies, measure.amplitudes

    def kernel(x: Floats) -> Floats:
        sine = np.sin(x / 2)
        is_zero = sine == 0
        return np.where(is_zero, n, np.sin(n * x / 2) / np.where(is_zero, 1.0, sine))

    sums = kernel(np.add.outer(omega, omega)) * (1 if wave == "cos" else -1)
    halves = (kernel(np.subtract.outer(omega, omega)) + sums) / 2
    return np.multiply.outer(amplitudes, amplitudes) * halves


def has_orthogonal_rows(measure: Measure, n: int) -> bool:
    """Whether frequencies lie on a lattice that makes all n vectors orthogonal.

    >>> from pefourier.encodings import build
    >>> [has_orthogonal_rows(build("dft", length=2, d=d).measure, 8) for d in (8, 7)]
    [True, False]
    """
    period = measure.period
    if period is None or n > period:
        return False
    return bool(np.abs(kernel_of_period(measure)[1:n]).max(initial=0.0) <= ORTHOGONAL)


def kernel_of_period(measure: Measure) -> Floats:
    """Return inner products at all lags of a period, as a share of the squared length."""
    period = measure.period or 1
    shares = np.bincount(measure.index(period) % period, measure.weights, minlength=period)
    return np.fft.fft(shares).real


def mirror_waves(measure: Measure, n: int, wave: Wave) -> Entries:
    """Return cosines or sines at the positions from the middle on; mirror positions share a row.

    Rows are computed in groups: by the addition theorem, about 2 sqrt r rows give r rows.
    """
    doubled = np.arange((n + 1) % 2, n, 2)  # twice the distance from the middle position

    def entries(rows: slice, columns: slice) -> Floats:
        distances = doubled[rows]
        group = int(np.sqrt(len(distances))) + 1
        first = measure.angles(distances[::group], columns, per=2)[:, None]
        steps = measure.angles(2 * np.arange(group), columns, per=2)
        if wave == "cos":
            sums = np.cos(first) * np.cos(steps)
            sums -= np.sin(first) * np.sin(steps)
        else:
            sums = np.sin(first) * np.cos(steps)
            sums += np.cos(first) * np.sin(steps)
        waves: Floats = sums.reshape(-1, steps.shape[1])[: len(distances)]
        waves *= np.where(distances == 0, 1.0, np.sqrt(2.0))[:, None]
        waves *= measure.amplitudes[columns]
        return waves

    return entries


AT_ONCE = 2**20  # numbers of left singular vectors at a time: 8 MiB
SAMPLE = 2**9  # rows from which the resolution of a table is measured
UNSEEN = 1e-7  # sine that a float64 cosine cannot distinguish from 0


@frozen_arrays
class Factors:
    """Singular values of a table and its projection on the column space."""

    n: int
    d: int
    sigma: Floats  # (min(n, d),) descending
    tolerance: float
    parts: tuple[
        MatrixPart, ...
    ]  # the whole table, or its even and odd part; none if rows are orthogonal
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

    def left(self, positions: Indices) -> Floats:
        """Return left singular vectors up to the rank at some positions.

        Two parts begin at the middle position. Mirror positions share a row of each, with the
        opposite sign in the odd part.
        """
        ranks = [int((part.sigma > self.tolerance).sum()) for part in self.parts]
        if len(self.parts) == 1:
            return self.parts[0].vectors(positions, slice(ranks[0]))
        doubled = 2 * positions - (self.n - 1)  # twice the distance from the middle
        rows, parts = np.abs(doubled) // 2, zip(self.parts, ranks, strict=True)
        block = slice(rows.min(), rows.max() + 1)
        even, odd = (part.vectors(block, slice(r))[rows - block.start] for part, r in parts)
        share = np.where(doubled == 0, 1.0, np.sqrt(0.5))[:, None]
        return np.hstack([share * even, share * np.sign(doubled)[:, None] * odd])

    def blocks(self, start: int = 0) -> Iterator[tuple[Indices, Floats]]:
        """Yield positions from `start` on, and their left singular vectors, in blocks."""
        width = max(len(part.sigma) for part in self.parts)
        for rows in row_blocks(self.n - start, AT_ONCE, width):
            positions = np.arange(start + rows.start, start + rows.stop)
            yield positions, self.left(positions)

    def inverse_error(self) -> float:
        """Return the largest |E E+ - I|.

        I - E E+ is a projection, and its largest entry lies on its diagonal.
        """
        blocks = self.blocks(self.n // 2 * (len(self.parts) - 1)) if self.parts else ()
        missing = (1 - (left**2).sum(axis=1).min() for _, left in blocks)
        return max([0.0, *map(float, missing)])

    def inverse_errors(self, positions: Ints) -> list[float]:
        """Return the largest |E E+ - I| in the row of each of some positions."""
        if not self.parts:
            return [0.0] * len(positions)
        rows = np.concatenate([self.left(np.array([s])) for s in positions])
        errors = [
            np.abs(left @ rows.T - np.equal.outer(block, positions)).max(axis=0)
            for block, left in self.blocks()
        ]
        largest: list[float] = np.max(errors, axis=0).tolist()
        return largest

    def separable_error(self, sides: Ints) -> float:
        """Return the largest error of recovering a sum of one function per axis.

        This is the sine of the largest angle between such functions and the column space: 0 if a
        linear map recovers every function, 1 if some function is lost entirely.
        """
        if self.rank < separable_rank(sides):
            return 1.0
        if self.is_separable or len(sides) == 1:  # with one axis, every function is separable
            return 0.0
        sums = [np.zeros((side, self.rank)) for side in sides]
        for block, left in self.blocks():
            for total, place in zip(sums, np.unravel_index(block, sides), strict=True):
                np.add.at(total, place, left)
        means = [total * len(total) / self.n for total in sums]
        projected = by_axes(means[0].mean(axis=0), means)
        cosine = np.linalg.svd(projected, compute_uv=False)[separable_rank(sides) - 1]
        sine = float(np.sqrt(max(0.0, 1 - cosine**2)))
        return sine if sine > UNSEEN else 0.0


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
    parts: tuple[MatrixPart, ...] = ()
    measure = enc.measure if enc.is_stationary and enc.domain.is_line else None
    if lines is not None:
        parts = factor_on_axes([line.float_table() for line in lines])
    elif measure and not has_orthogonal_rows(measure, n):
        parts = even_odd_svd(measure, n, progress)
    elif not measure:
        table = enc.table()
        parts = (factor(lambda rows, cols: table[rows, cols].astype(float), n, d, progress),)
    if not enc.is_stationary:
        eps, _ = stored_resolution(np.asarray(enc.vectors(enc.domain.x[:SAMPLE]), dtype=float), eps)
    of_parts = [part.sigma for part in parts] or [np.full(n, np.sqrt(enc.measure.squared_length))]
    sigma = np.sort(np.concatenate(of_parts))[::-1][: min(n, d)]
    sigma = np.pad(sigma, (0, max(0, min(n, d) - len(sigma))))
    tolerance = sigma[0] * max(n, d) * FLOAT64_EPS
    if eps > FLOAT64_EPS:
        rms = np.sqrt((sigma**2).sum() / (n * d))
        tolerance = max(tolerance, rms * eps * (np.sqrt(n) + np.sqrt(d)))
    return Factors(n, d, sigma, float(tolerance), parts, lines is not None)


def factor_on_axes(tables: Sequence[Floats]) -> tuple[MatrixPart, ...]:
    """Decompose a table on a grid from the columns (side, d_a) that depend on each axis."""
    sides, widths = ([table.shape[k] for table in tables] for k in (0, 1))
    ends = np.cumsum(widths)
    lines = [
        np.pad(table, [(0, 0), (end - table.shape[1], ends[-1] - end)])
        for table, end in zip(tables, ends, strict=True)
    ]
    small = by_axes(np.hstack([table.mean(axis=0) for table in tables]), lines)
    part = factor(lambda rows, columns: small[rows, columns], *small.shape)
    mean, *lines = np.split(part.vectors(ALL, ALL), np.cumsum([1, *sides[:-1]]))
    centred = (line - line.mean(axis=0) for line in lines)  # without rounding of small values
    lines = [line * np.sqrt(len(line) / prod(sides)) for line in centred]
    lines[0] = lines[0] + mean / np.sqrt(prod(sides))

    def vectors(rows: Indices, columns: slice) -> Floats:
        places = zip(lines, np.unravel_index(rows, sides), strict=True)
        return np.asarray(sum(line[place, columns] for line, place in places))

    return (MatrixPart(part.sigma, vectors),)


def by_axes(mean: Floats, lines: Sequence[Floats]) -> Floats:
    """Return a table with the inner products of columns (n, d) on a grid: a mean plus lines.

    Column values are the mean (d,) plus, for each axis, a line (side, d), whose own mean does not
    count. There is one row for the mean and one for each point of each axis.

    >>> by_axes(np.array([2.0]), [np.array([[1.0], [3.0]]), np.zeros((2, 1))]).ravel().round(4)
    array([ 4.    , -1.4142,  1.4142,  0.    ,  0.    ])
    """
    n = prod(map(len, lines))
    centred = (np.sqrt(n / len(line)) * (line - line.mean(axis=0)) for line in lines)
    return np.vstack([np.sqrt(n) * mean, *centred])


def separable_rank(sides: Ints) -> int:
    """Return the dimension of the space of sums of one function per axis.

    >>> separable_rank((14, 14))
    27
    """
    return 1 + sum(n - 1 for n in sides)


def check_products(enc: Encoding) -> None:
    """Refuse encodings whose inner products do not fit in memory, before other work is done."""
    n, d = len(enc), enc.dim
    if enc.is_stationary and enc.domain.is_line:
        n, d = (n + 1) // 2, len(enc.measure)
    elif enc.is_stationary and is_separable(enc):
        n = separable_rank(enc.domain.sides)
    else:
        check_size(f"a table of {shown(enc.spec)}", n, d, limit=enc.table_limit)
    try:
        check_size(f"the inner products of {shown(enc.spec)}", min(n, d), min(n, d), limit=NUMBERS)
        check_cost(shown(enc.spec), "products of a decomposition", min(n, d) ** 2 * max(n, d))
    except PefourierError:
        if not enc.domain.is_line or not enc.is_stationary or not is_solved(enc.measure, len(enc)):
            raise

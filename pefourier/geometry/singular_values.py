"""Can position functions be recovered from the codes by a linear map? Singular values and rank.

Conventions
-----------
E is the table, n positions by d dimensions. Its linear inverse is the pseudoinverse E+ with
singular values at or below the tolerance taken as zero; E E+ is the orthogonal projection on the
column space, and the position functions are recovered exactly when it is the identity.

A large matrix is walked in blocks, twice, and no (n, n) array is made for n > d: a Gram matrix has
half of the digits, so its eigenvectors are used to balance the columns, and the Gram matrix of the
balanced ones gives the other half. Codes that declare the inner product
c sum_j w_j cos(omega_j (s - t)) are split, about the middle position, into cosines (even) and sines
(odd): two problems of half the size, since a turn of each pair of columns changes no inner product.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from operator import itemgetter
from typing import Literal

import numpy as np

from pefourier.encodings.checks import check_size
from pefourier.encodings.encoding import FLOAT64_EPS, Encoding, Measure, row_blocks
from pefourier.errors import shown
from pefourier.geometry import Progress
from pefourier.geometry.cosine_sums import ERROR, cosine_sums
from pefourier.geometry.double_double import Pair, matrix_product
from pefourier.geometry.wave_products import Products, wave_products

BLOCK = 2**20  # numbers of a block: 8 MiB
KEPT = 2**25  # numbers of a matrix up to which its blocks are made once and kept
THREADS = 2  # blocks made at a time
LONGEST = 2**22  # positions of which bounds are transformed: 0.3 GiB
SMALL = 2.0**-12  # of the largest eigenvalue: below, float64 products have too few digits
Entries = Callable[[slice, slice], np.ndarray]  # (rows, columns) -> float64 block of a matrix
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Part:
    """A matrix by its singular values and, on demand, rows of its left singular vectors."""

    sigma: np.ndarray  # descending
    left: Callable[[slice, int], np.ndarray]  # (rows, rank) -> (rows, rank)


@dataclass(frozen=True, eq=False)
class Factors:
    """Singular values of a table and its projection on the column space."""

    n: int
    d: int
    sigma: np.ndarray  # (min(n, d),) descending
    tolerance: float
    parts: tuple[Part, ...]  # the table's own, or the even and the odd one
    lower: Callable[[], np.ndarray] | None = None  # bounds of the leverage, from the middle on

    @property
    def rank(self) -> int:
        """Number of singular values above the tolerance."""
        return int((self.sigma > self.tolerance).sum())

    @property
    def condition_number(self) -> float | None:
        """Largest over smallest singular value; None where the rank is deficient."""
        full = self.rank == min(self.n, self.d)
        return float(self.sigma[0] / self.sigma[-1]) if full else None

    @property
    def stable_rank(self) -> float:
        """Squared Frobenius norm over squared spectral norm; NaN for a table of zeros."""
        return float((self.sigma**2).sum() / self.sigma[0] ** 2) if self.sigma[0] else np.nan

    def left(self, rows: slice) -> list[np.ndarray]:
        """Left singular vectors of each part at some of its rows, within the rank."""
        return [part.left(rows, int((part.sigma > self.tolerance).sum())) for part in self.parts]

    def row_blocks(self) -> list[slice]:
        """Rows of a part, in blocks."""
        rows = self.n if len(self.parts) == 1 else (self.n + 1) // 2
        return row_blocks(rows, BLOCK, max(len(part.sigma) for part in self.parts))

    def inverse_error(self, s: int | None = None) -> float:
        """Largest |E E+ - I|, of row s or of all: a projection is largest on its diagonal."""
        if s is None:
            return 1 - self.least_leverage()
        return float(max(self.row_error(rows, s) for rows in self.row_blocks()))

    def least_leverage(self) -> float:
        """The smallest diagonal entry of E E+, to 1e-10 where bounds say which rows to look at."""
        blocks, least = self.row_blocks(), np.inf
        if self.lower is None:
            return float(min(self.leverage(rows).min() for rows in blocks))
        bounds = self.lower()
        for bound, rows in sorted(((bounds[b].min(), b) for b in blocks), key=itemgetter(0)):
            if bound > least - 1e-10:
                break
            least = min(least, float(self.leverage(rows).min()))
        return least

    def leverage(self, rows: slice) -> np.ndarray:
        """Diagonal of E E+ at some rows of the parts (from the middle outwards for two)."""
        squared = sum((u**2).sum(axis=1) for u in self.left(rows))
        return squared * self.share(rows) ** 2

    def share(self, rows: slice) -> np.ndarray:
        """Weight of a part's row in one of the table: 1/sqrt 2 where mirror positions share it."""
        share = np.full(rows.stop - rows.start, 1.0 if len(self.parts) == 1 else np.sqrt(0.5))
        if self.n % 2 and rows.start == 0:
            share[0] = 1.0  # the middle position is its own mirror image
        return share

    def row_error(self, rows: slice, s: int) -> float:
        """Largest |E E+ - I| between position s and the positions at some rows of the parts."""
        row = s if len(self.parts) == 1 else abs(2 * s - (self.n - 1)) // 2
        at = slice(row, row + 1)
        share = self.share(rows) * self.share(at)
        inner = [share * (u @ v[0]) for u, v in zip(self.left(rows), self.left(at), strict=True)]
        same = np.arange(rows.start, rows.stop) == row
        if len(inner) == 1:
            return np.abs(inner[0] - same).max()
        mirror = same & (2 * s == self.n - 1)
        even, odd = inner
        return max(np.abs(even + odd - same).max(), np.abs(even - odd - mirror).max())


def decompose(enc: Encoding, progress: Progress | None = None) -> Factors:
    r"""Singular values of the table, with the tolerance of its rank.

    The tolerance is sigma_1 max(n, d) eps with the eps of float64; where the codes were stored more
    coarsely, their rounding, of rms size r eps with r the rms entry, has a spectral norm of about
    r eps (sqrt n + sqrt d), which is then the tolerance if larger. `progress`, if given, is called
    as progress(done, total) on each walk through a long table.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> decompose(load("dft", length=8, d=8)).condition_number.__round__(12)
    1.0
    """
    n, d = len(enc), enc.dim
    lower = None
    if enc.stationary:
        parts, lower = wave_parts(enc.measure, n, progress)
    else:
        table = enc.table()
        parts = (factor(lambda rows, columns: table[rows, columns].astype(float), n, d, progress),)
    sigma = np.sort(np.concatenate([part.sigma for part in parts]))[::-1][: min(n, d)]
    tolerance = sigma[0] * max(n, d) * FLOAT64_EPS
    if enc.eps > FLOAT64_EPS:
        rms = np.sqrt((sigma**2).sum() / (n * d))
        tolerance = max(tolerance, rms * enc.eps * (np.sqrt(n) + np.sqrt(d)))
    return Factors(n, d, sigma, float(tolerance), parts, lower)


def wave_parts(
    measure: Measure, n: int, progress: Progress | None
) -> tuple[tuple[Part, ...], Callable[[], np.ndarray] | None]:
    """The even and the odd part of declared codes, and bounds of their leverage if these pay."""
    half, m = (n + 1) // 2, len(measure.frequencies)
    waves = [mirrored_waves(measure, n, wave) for wave in ("cosines", "sines")]
    if half * m <= BLOCK:
        return tuple(factor(entries, half, m, progress) for entries in waves), None
    if half <= m:
        grams = mirrored_products(kernel_at_lags(measure, n))
        return tuple(
            wide_part(gram, entries, m, progress)
            for gram, entries in zip(grams, waves, strict=True)
        ), None
    products = wave_products(replace(measure, squared_length=1.0), n)
    if not products.error <= (n * FLOAT64_EPS / 8) ** 2 * largest_eigenvalue(products):
        return tuple(factor(entries, half, m, progress) for entries in waves), None
    unit = np.sqrt(measure.squared_length)
    bases = [
        (unit * sigma, right)
        for sigma, right in in_turn(factor_products, (products.cosines, products.sines))
    ]
    parts = tuple(
        Part(sigma, projection(entries, sigma, right))
        for entries, (sigma, right) in zip(waves, bases, strict=True)
    )
    pays = half >= 4 * m and n <= LONGEST
    return parts, partial(leverage_bounds, measure, n, bases) if pays else None


def kernel_at_lags(measure: Measure, n: int) -> np.ndarray:
    """Inner products of codes 0 … n - 1 apart, by the addition theorem from 2 sqrt n waves each."""
    group = isqrt(n - 1) + 1

    def block(columns: slice) -> np.ndarray:
        step, leap = np.exp(1j * measure.angles(np.array([1, group]), columns))
        weights = measure.squared_length * measure.weights[columns]
        return (powers(leap, group) * weights @ powers(step, group).T).real

    blocks = row_blocks(len(measure.frequencies), BLOCK, 4 * group)
    return sum(map_ahead(block, blocks)).ravel()[:n]


def powers(z: np.ndarray, count: int) -> np.ndarray:
    """z^0, z^1 … of each number: (count, len(z))."""
    found = np.ones((count, len(z)), dtype=complex)
    for k in range(1, count):
        np.multiply(found[k - 1], z, out=found[k])
    return found


def mirrored_products(kernel: np.ndarray) -> Iterator[np.ndarray]:
    """Inner products of the rows of the even and of the odd part of codes with that kernel."""
    doubled = np.arange((len(kernel) + 1) % 2, len(kernel), 2)
    share = np.where(doubled == 0, np.sqrt(0.5), 1.0)
    apart = kernel[np.abs(doubled[:, None] - doubled) // 2]
    together = kernel[(doubled[:, None] + doubled) // 2]
    for products in (apart + together, apart - together):
        yield products * np.multiply.outer(share, share)


def wide_part(gram: np.ndarray, entries: Entries, m: int, progress: Progress | None) -> Part:
    """A matrix with more columns than rows, by the Gram matrix of its rows."""
    n = len(gram)
    live = np.flatnonzero(gram.diagonal())  # all but the sines of the middle position
    eigenvalues, vectors = np.linalg.eigh(gram[np.ix_(live, live)])
    if eigenvalues[0] > SMALL * eigenvalues[-1]:
        left = np.zeros((n, len(live)))
        left[live] = vectors[:, ::-1]
        return Part(np.sqrt(eigenvalues[::-1]), lambda rows, rank: left[rows, :rank])
    sigma, left = long_svd(
        lambda block: entries(ALL, block).T, m, n, progress, np.linalg.eigh(gram)
    )
    return Part(sigma, lambda rows, rank: left[rows, :rank])


def largest_eigenvalue(products: Products) -> float:
    """At least this: the sum of squared eigenvalues over their sum."""
    grams = products.cosines[0], products.sines[0]
    return max(float((gram**2).sum() / (np.trace(gram) or 1.0)) for gram in grams)


def leverage_bounds(
    measure: Measure, n: int, bases: list[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """What the leverage of each row of the parts is at least: the share of large singular values.

    It is a quadratic form of cosines or sines, thus a sum of cosines of sums and differences of
    frequencies, known at all positions by one Fourier transform.
    """
    forms = []
    for sigma, right in bases:
        large = sigma > np.sqrt(SMALL) * sigma[0]
        inverse = measure.amplitudes[:, None] * right[:, large] / sigma[large]
        forms.append(inverse @ inverse.T / 2)
    even, odd = forms
    size = np.abs(even + odd).sum() + np.abs(even - odd).sum()
    omega = measure.frequencies / 2
    slack = size * (ERROR + n * FLOAT64_EPS * np.abs(omega).max())

    def terms() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows in row_blocks(len(omega), BLOCK // 16, len(omega)):
            rest = slice(rows.start, None)
            twice = 2.0 - (np.arange(rows.start, len(omega)) < rows.stop)
            for sign, form in ((-1, even + odd), (1, even - odd)):
                yield omega[rows, None] + sign * omega[rest], twice * form[rows, rest]

    return cosine_sums(terms(), n)[(n + 1) % 2 :: 2] - slack


def in_turn(function: Callable, arguments: Sequence) -> list:
    """Results for some arguments, in threads of their own."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, arguments))


def projection(
    entries: Entries, sigma: np.ndarray, right: np.ndarray
) -> Callable[[slice, int], np.ndarray]:
    """Rows of the left singular vectors of a matrix."""

    def project(rows: slice, rank: int) -> np.ndarray:
        return entries(rows, ALL) @ (right[:, :rank] / sigma[:rank])

    return project


def factor_products(gram: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and right singular vectors of a matrix, by the Gram matrix of its columns."""
    values, vectors = np.linalg.eigh(gram[0])
    if not values[-1] > 0:
        return np.zeros(len(values)), vectors
    k = int((values <= SMALL * values[-1]).sum())
    sigma, right = np.sqrt(values[k:])[::-1], vectors[:, k:][:, ::-1]
    if k:
        low, rest = settle(gram, values, vectors, k)
        sigma, right = np.concatenate([sigma, low]), np.hstack([right, rest])
    order = np.argsort(-sigma, kind="stable")
    return sigma[order], right[:, order]


def settle(gram, values, vectors, k):
    base, others = np.rint(vectors[:, :k] * 2.0**60) / 2.0**60, vectors[:, k:]
    images = matrix_product(gram, base)
    coupling = others.T @ images
    mixed = coupling / values[k:, None]
    inner = base.T @ images - coupling.T @ mixed
    lengths = np.sqrt(np.maximum(values[:k], 1e-15 * values[-1]))
    small = triangular_root(inner / np.multiply.outer(lengths, lengths)) * lengths
    _, sigma, right = np.linalg.svd(small)
    return sigma, (base - others @ mixed) @ right.T


def check_products(enc: Encoding) -> None:
    """Refuse codes whose inner products `decompose` could not hold, before other work is done."""
    n, d = len(enc), enc.dim
    if enc.stationary:
        n, d = (n + 1) // 2, len(enc.measure.frequencies)
    else:
        check_size(f"a table of {shown(enc.spec)}", n, d)
    check_size(f"the inner products of {shown(enc.spec)}", min(n, d), min(n, d))


def mirrored_waves(measure: Measure, n: int, wave: Literal["cosines", "sines"]) -> Entries:
    """Cosines or sines at the positions from the middle on; mirror positions share a row.

    Rows come in groups: the addition theorem gives r rows from about 2 sqrt r sines and cosines.
    """
    doubled = np.arange((n + 1) % 2, n, 2)  # twice the distance from the middle position

    def entries(rows: slice, columns: slice) -> np.ndarray:
        at = doubled[rows]
        group = int(np.sqrt(len(at))) + 1
        first = measure.angles(at[::group], columns, per=2)[:, None]
        steps = measure.angles(2 * np.arange(group), columns, per=2)
        if wave == "cosines":
            waves = np.cos(first) * np.cos(steps)
            waves -= np.sin(first) * np.sin(steps)
        else:
            waves = np.sin(first) * np.cos(steps)
            waves += np.cos(first) * np.sin(steps)
        waves = waves.reshape(-1, steps.shape[1])[: len(at)]
        waves *= np.where(at == 0, 1.0, np.sqrt(2.0))[:, None]
        waves *= measure.amplitudes[columns]
        return waves

    return entries


def factor(entries: Entries, n: int, m: int, progress: Progress | None) -> Part:
    """Singular values and left singular vectors of an (n, m) matrix given by its blocks."""
    if n * m <= BLOCK:
        left, sigma, _ = np.linalg.svd(entries(ALL, ALL), full_matrices=False)
        return Part(sigma, lambda rows, rank: left[rows, :rank])
    if n <= m:
        sigma, left = long_svd(lambda block: entries(ALL, block).T, m, n, progress)
        return Part(sigma, lambda rows, rank: left[rows, :rank])
    sigma, right = long_svd(lambda block: entries(block, ALL), n, m, progress)
    return Part(sigma, projection(entries, sigma, right))


def long_svd(
    rows: Callable[[slice], np.ndarray],
    n: int,
    m: int,
    progress: Progress | None,
    look: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and right singular vectors (columns) of a tall (n, m) matrix.

    With G = A'A = V s^2 V', the matrix B = A V / max(s, 3e-8 s_1) has columns of about equal length
    and its Gram matrix resolves, relative to each of them, what G lost. The error of a singular
    value is a few eps times the largest, as that of a decomposition of A itself.
    """
    square = m * m  # a block is at least square, which keeps the products efficient
    blocks = row_blocks(n, max(square, BLOCK), m)
    kept = assemble(map_ahead(rows, blocks), n, m) if n * m <= KEPT and look is None else None
    walk = blocks if kept is None else row_blocks(n, max(square, 2 * BLOCK), m)

    def total(balance: np.ndarray | None) -> np.ndarray:
        products = np.zeros((m, m))
        take = rows if kept is None else kept.__getitem__
        for done, product in enumerate(map_ahead(lambda b: gram(take(b), balance), walk), 1):
            products += product
            if progress is not None:
                progress(done, len(walk))
        return products

    eigenvalues, vectors = look or np.linalg.eigh(total(None))
    lengths = np.sqrt(np.maximum(eigenvalues, 1e-15 * eigenvalues[-1]))
    if not lengths[-1] > 0:
        return np.zeros(m), vectors
    small = triangular_root(total(vectors / lengths)) @ (lengths[:, None] * vectors.T)
    _, sigma, right = np.linalg.svd(small)
    return sigma, right.T


def assemble(blocks: Iterator[np.ndarray], n: int, m: int) -> np.ndarray:
    """The matrix (n, m) that blocks of rows make up, in the order in memory that they have."""
    matrix = np.empty((m, n)).T
    start = 0
    for block in blocks:
        if start == 0 and block.flags.c_contiguous:
            matrix = np.empty((n, m))
        matrix[start : start + len(block)] = block
        start += len(block)
    return matrix


def triangular_root(balanced: np.ndarray) -> np.ndarray:
    """R with R'R = G; a G that rounding has made indefinite is lifted by that much."""
    try:
        return np.linalg.cholesky(balanced).T
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(balanced)
        return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def map_ahead(function: Callable[[slice], np.ndarray], blocks: list[slice]) -> Iterator[np.ndarray]:
    """Results for blocks, in order, two computed at a time: numpy lets other threads run."""
    from concurrent.futures import ThreadPoolExecutor

    def start(block: slice) -> Callable[[], np.ndarray]:
        try:
            return pool.submit(function, block).result
        except RuntimeError:  # the system starts no more threads
            return partial(function, block)

    with ThreadPoolExecutor(THREADS) as pool:
        ahead = deque()
        for block in blocks:
            ahead.append(start(block))
            if len(ahead) > THREADS:
                yield ahead.popleft()()
        yield from (result() for result in ahead)


def gram(block: np.ndarray, balance: np.ndarray | None) -> np.ndarray:
    """Inner products of the columns, of the block or of its product with a matrix."""
    block = block if balance is None else block @ balance
    return block.T @ block

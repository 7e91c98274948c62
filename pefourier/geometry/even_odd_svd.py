r"""Singular values of a matrix by its blocks, and of declared codes by an even and an odd part.

Conventions
-----------
Codes with inner products :math:`c \sum_j w_j \cos(\omega_j (s - t))` are split, about the middle of
n positions, into cosines (even) and sines (odd): two problems of half the size, since a turn of
each pair of columns changes no inner product. Rows are the positions from the middle on; mirror
positions share one. Inner products of columns have a closed form, the Dirichlet kernels of
`dirichlet_gram`: of many positions no matrix of waves is made but where it has too few digits.

A large matrix is walked in blocks, twice, and no square array of its longer side is made: a Gram
matrix has half of the digits, so its eigenvectors are used to balance the columns, and the Gram
matrix of the balanced ones gives the other half.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pefourier.encodings.encoding import FLOAT64_EPS, Measure, row_blocks
from pefourier.geometry import Progress, map_ahead
from pefourier.geometry.dirichlet_gram import Pair, Wave, dirichlet_gram, matrix_product

BLOCK = 2**20  # numbers of a block: 8 MiB
SETTLED = 1e-10  # how far balanced columns may be from orthonormal for their lengths to be values
Entries = Callable[[slice, slice], np.ndarray]  # (rows, columns) -> float64 block of a matrix
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Part:
    """A matrix by its singular values and, on demand, rows of its left singular vectors."""

    sigma: np.ndarray  # descending
    vectors: Callable[[slice, slice], np.ndarray]  # (rows, columns) -> those of the vectors


def part_of(sigma: np.ndarray, vectors: np.ndarray) -> Part:
    """A part whose left singular vectors are at hand."""
    return Part(sigma, lambda rows, columns: vectors[rows, columns])


def project(sigma: np.ndarray, right: np.ndarray, entries: Entries) -> Part:
    """A part whose left singular vectors are made of rows of the matrix and the right ones."""

    def left(rows: slice, columns: slice) -> np.ndarray:
        return entries(rows, ALL) @ (right[:, columns] / sigma[columns])

    return Part(sigma, left)


def factor(entries: Entries, n: int, m: int, progress: Progress | None) -> Part:
    """Singular values and left singular vectors of an (n, m) matrix."""
    if n * m <= BLOCK:
        left_vectors, sigma, _ = np.linalg.svd(entries(ALL, ALL), full_matrices=False)
        return part_of(sigma, left_vectors)
    if n <= m:
        return part_of(*long_svd(lambda block: entries(ALL, block).T, m, n, progress))
    return project(*long_svd(lambda block: entries(block, ALL), n, m, progress), entries)


def long_svd(
    rows: Callable[[slice], np.ndarray], n: int, m: int, progress: Progress | None
) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and right singular vectors (columns) of a tall (n, m) matrix.

    With G = A'A = V s^2 V', the matrix B = A V / max(s, 3e-8 s_1) has columns of about equal length
    and its Gram matrix resolves, relative to each of them, what G lost. The error of a singular
    value is a few eps times the largest, as that of a decomposition of A itself.
    """
    blocks = row_blocks(n, max(m * m, BLOCK), m)  # at least square: efficient products

    def total(balance: np.ndarray | None) -> np.ndarray:
        products = np.zeros((m, m))
        for done, product in enumerate(map_ahead(lambda b: gram(rows(b), balance), blocks), 1):
            products += product
            if progress is not None:
                progress(done, len(blocks))
        return products

    eigenvalues, vectors = np.linalg.eigh(total(None))
    lengths = balanced_lengths(eigenvalues, eigenvalues[-1])
    if not lengths[-1] > 0:
        return np.zeros(m), vectors
    balanced = total(vectors / lengths)
    if np.linalg.norm(balanced - np.eye(m)) <= SETTLED:  # a third decomposition would change less
        sigma = lengths * np.sqrt(balanced.diagonal())
        order = np.argsort(-sigma, kind="stable")
        return sigma[order], vectors[:, order]
    return svd_of_balanced(balanced, lengths, vectors)


def gram(block: np.ndarray, balance: np.ndarray | None) -> np.ndarray:
    """Inner products of the columns, of the block or of its product with a matrix."""
    block = block if balance is None else block @ balance
    return block.T @ block


def balanced_lengths(eigenvalues: np.ndarray, largest: float) -> np.ndarray:
    """Lengths to divide columns by: their own, but for those that rounding may have made."""
    return np.sqrt(np.maximum(eigenvalues, 1e-15 * largest))


def svd_of_balanced(
    balanced: np.ndarray, lengths: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Singular values and right singular vectors of B diag(lengths) V', by B'B and V."""
    squares, turns = np.linalg.eigh(balanced)
    root = np.sqrt(np.maximum(squares, 0.0))[:, None] * turns.T
    _, sigma, right = np.linalg.svd(root * lengths)
    return sigma, vectors @ right.T


REACH = 13  # grid points that an angle is spread over to each side
ERROR = 1e-11  # bound on that of a sum, relative to the sum of the sizes of its weights


def cosine_sums(terms: Iterable[tuple[np.ndarray, np.ndarray]], n: int) -> np.ndarray:
    r"""Sums :math:`\sum_q w_q \cos(k \theta_q)` for k = 0 … n - 1.

    Parameters
    ----------
    terms : iterable of pairs of np.ndarray
        Angles and weights, of one shape in each pair.

    Notes
    -----
    Where the angles are exact, the error is below 1e-11 times the sum of :math:`|w_q|`.

    Examples
    --------
    >>> cosine_sums([(np.array([0.0, np.pi / 3]), np.array([1.0, 2.0]))], 4).round(6)
    array([ 3.,  2.,  0., -1.])
    """
    points = 4 * 2 ** int(np.ceil(np.log2(max(n, REACH))))
    spread = sum(gaussians(angles.ravel(), weights.ravel(), points) for angles, weights in terms)
    k = np.arange(n)
    variance = narrow_enough(points)
    scale = np.sqrt(2 * np.pi / variance) / points
    return np.fft.rfft(spread)[:n].real * np.exp(k * k * (variance / 2)) * scale


def narrow_enough(points: int) -> float:
    """Variance of a Gaussian that has ended at REACH and whose transform has at half the grid."""
    return 8 * np.pi * REACH / (3 * points**2)


def gaussians(angles: np.ndarray, weights: np.ndarray, points: int) -> np.ndarray:
    """Weights at the nearest grid points to their angles: exp(-(distance)^2 / 2 variance) each."""
    step, variance = 2 * np.pi / points, narrow_enough(points)
    nearest = np.floor(angles / step)
    beyond = angles - nearest * step
    height = weights * np.exp(-0.5 * beyond**2 / variance)
    ratio = np.exp(beyond * (step / variance))
    height *= ratio ** (1 - REACH)
    reach = np.arange(1 - REACH, REACH + 1)
    heights = np.empty((len(reach), len(angles)))
    for row, share in zip(heights, np.exp(-0.5 * (reach * step) ** 2 / variance), strict=True):
        np.multiply(height, share, out=row)
        height *= ratio
    points_near = (nearest.astype(np.int64) + reach[:, None]) % points
    return np.bincount(points_near.ravel(), heights.ravel(), minlength=points)


LARGE = 2.0**-6  # of the largest singular value: below, float64 has too few digits of its square
SMALL = LARGE**2  # the same of eigenvalues
DIRECT = 2**20  # numbers of a part up to which it is made whole
AT_ONCE = 2**16  # sums and differences of frequencies
LONGEST = 2**22  # positions whose bounds are transformed: 0.3 GiB
BOTH = 2**26  # inner products up to which both parts are decomposed at a time
FASTEST = 64.0  # radians per position: beyond, rounded phases outweigh the tolerance of the rank
ORTHOGONAL = 64 * FLOAT64_EPS  # a cosine that is 0 but for rounding, over frequencies on a lattice
WAVES: tuple[Wave, Wave] = ("cosines", "sines")
Bounds = Callable[[], np.ndarray]


@dataclass(frozen=True, eq=False)
class Basis:
    """A matrix by its singular values, descending, and its right singular vectors, in columns."""

    sigma: np.ndarray
    right: np.ndarray


def even_odd_svd(
    measure: Measure, n: int, progress: Progress | None
) -> tuple[tuple[Part, ...], Bounds | None]:
    """The even and the odd part, and lower bounds of their leverage where these are worth it."""
    half, m = (n + 1) // 2, len(measure.frequencies)
    if has_orthogonal_rows(measure, n):
        return orthogonal_parts(measure, n), partial(np.ones, half)
    waves = [mirror_waves(measure, n, wave) for wave in WAVES]
    has_digits = measure.period is not None or np.abs(measure.frequencies).max() <= FASTEST
    if half > m and half * m > DIRECT and has_digits:  # closed forms agree with rows in float64
        take = map_ahead if m * m <= BOTH else map
        bases = list(take(partial(wave_basis, measure, n), WAVES))
        if all(basis is not None for basis in bases):
            pairs = zip(bases, waves, strict=True)
            parts = tuple(project(b.sigma, b.right, entries) for b, entries in pairs)
            worth = half >= 4 * m and n <= LONGEST
            return parts, partial(leverage_bounds, measure, n, bases) if worth else None
    return tuple(factor(entries, half, m, progress) for entries in waves), None


def has_orthogonal_rows(measure: Measure, n: int) -> bool:
    """Whether frequencies lie on a lattice on which inner products of n codes are 0 at each lag.

    >>> from pefourier.encodings import build
    >>> [has_orthogonal_rows(build("dft", length=2, d=d).measure, 8) for d in (8, 7)]
    [True, False]
    """
    period = measure.period
    if period is None or n > period:
        return False
    shares = np.bincount(measure.index(period) % period, measure.weights, minlength=period)
    return bool(np.abs(np.fft.fft(shares).real[1:n]).max(initial=0.0) <= ORTHOGONAL)


def orthogonal_parts(measure: Measure, n: int) -> tuple[Part, Part]:
    """The even and the odd part where rows are orthogonal: of rows of one length, unit vectors."""
    index, length = np.arange((n + 1) // 2), np.sqrt(measure.squared_length)

    def part(row_of: np.ndarray) -> Part:
        def vectors(rows: slice, columns: slice) -> np.ndarray:
            return np.equal.outer(index[rows], row_of[columns]).astype(float)

        return Part(np.full(len(row_of), length), vectors)

    return part(index), part(index[n % 2 :])


def mirror_waves(measure: Measure, n: int, wave: Wave) -> Entries:
    """Cosines or sines at the positions from the middle on; mirror positions share a row.

    Rows come in groups: the addition theorem gives r rows from about 2 sqrt r sines and cosines.
    """
    doubled = np.arange((n + 1) % 2, n, 2)  # twice the distance from the middle position

    def entries(rows: slice, columns: slice) -> np.ndarray:
        distances = doubled[rows]
        group = int(np.sqrt(len(distances))) + 1
        first = measure.angles(distances[::group], columns, per=2)[:, None]
        steps = measure.angles(2 * np.arange(group), columns, per=2)
        if wave == "cosines":
            waves = np.cos(first) * np.cos(steps)
            waves -= np.sin(first) * np.sin(steps)
        else:
            waves = np.sin(first) * np.cos(steps)
            waves += np.cos(first) * np.sin(steps)
        waves = waves.reshape(-1, steps.shape[1])[: len(distances)]
        waves *= np.where(distances == 0, 1.0, np.sqrt(2.0))[:, None]
        waves *= measure.amplitudes[columns]
        return waves

    return entries


def wave_basis(measure: Measure, n: int, wave: Wave) -> Basis | None:
    """A part with more rows than columns; None where closed forms lose too many digits.

    An error of inner products moves no squared singular value by more than its norm. It has to be
    small for singular values down to n eps of the largest, whose square is at least n / 2m, and the
    sum of all fourth powers over that of the squares.
    """
    products = dirichlet_gram(replace(measure, squared_length=1.0), n, wave)
    gram = products.values[0]
    trace = float(np.trace(gram))
    largest = max(n / (2 * len(gram)), float((gram**2).sum()) / trace if trace > 0 else 0.0)
    if not products.error <= (n * FLOAT64_EPS / 8) ** 2 * largest:
        return None
    basis = singular_basis(products.values)
    return Basis(np.sqrt(measure.squared_length) * basis.sigma, basis.right)


def singular_basis(products: Pair) -> Basis:
    """Singular values and right singular vectors of a matrix by its columns' inner products."""
    eigenvalues, vectors = np.linalg.eigh(products[0])
    if not eigenvalues[-1] > 0:
        return Basis(np.zeros(len(eigenvalues)), vectors)
    small_count = int((eigenvalues <= SMALL * eigenvalues[-1]).sum())
    if small_count == 0:
        return Basis(np.sqrt(eigenvalues[::-1]), vectors[:, ::-1])
    low = resolve_small(products, eigenvalues, vectors, small_count)
    sigma = np.concatenate([np.sqrt(eigenvalues[small_count:]), low.sigma])
    right = np.hstack([vectors[:, small_count:], low.right])
    order = np.argsort(-sigma, kind="stable")
    return Basis(sigma[order], right[:, order])


def resolve_small(
    products: Pair, eigenvalues: np.ndarray, vectors: np.ndarray, count: int
) -> Basis:
    r"""The `count` smallest singular values, of which float64 products hold no digits.

    With S the eigenvectors of these and L the others, G S is computed in twice the digits. What
    rounding has left between both is taken out, :math:`Z = S - L \Lambda^{-1} L'GS`, and Z'GZ,
    balanced to equal lengths, gives its singular values relative to each.
    """
    small = np.rint(vectors[:, :count] * 2.0**60) / 2.0**60  # whose products need fewer slices
    large = vectors[:, count:]
    images = matrix_product(products, small)
    mixed = large.T @ images
    correction = mixed / eigenvalues[count:, None]
    inner = small.T @ images - mixed.T @ correction
    lengths = balanced_lengths(eigenvalues[:count], eigenvalues[-1])
    balanced = inner / np.multiply.outer(lengths, lengths)
    return Basis(*svd_of_balanced(balanced, lengths, small - large @ correction))


def leverage_bounds(measure: Measure, n: int, bases: list[Basis]) -> np.ndarray:
    """What the leverage of each row of the parts is at least: the share of large singular values.

    It is a quadratic form of cosines and one of sines, thus a sum of cosines of all sums and
    differences of frequencies, known at all positions by one Fourier transform.
    """
    forms = []
    for basis in bases:
        large = basis.sigma > LARGE * basis.sigma[0]
        inverse = measure.amplitudes[:, None] * basis.right[:, large] / basis.sigma[large]
        forms.append(inverse @ inverse.T / 2)
    weights = {-1: forms[0] + forms[1], 1: forms[0] - forms[1]}
    omega = measure.frequencies / 2  # as positions are counted in halves

    def terms() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows in row_blocks(len(omega), AT_ONCE, len(omega)):
            columns = slice(rows.start, len(omega))
            times = np.where(np.arange(columns.start, columns.stop) < rows.stop, 1.0, 2.0)
            for sign, form in weights.items():
                yield omega[rows, None] + sign * omega[columns], times * form[rows, columns]

    size = sum(np.abs(form).sum() for form in weights.values())
    slack = size * (ERROR + n * FLOAT64_EPS * np.abs(omega).max())
    return cosine_sums(terms(), n)[(n + 1) % 2 :: 2] - slack

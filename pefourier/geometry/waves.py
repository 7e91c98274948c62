r"""Fit sines and cosines to the columns of a table, and test whether its rows are random.

Conventions
-----------
Rows (n, d) are the vectors of consecutive positions. A pair of columns that rotates about the
origin is a sine and a cosine of one angular frequency, in radians per row.

The real Fourier coefficients of independent normal rows with equal variance, except the mean and
the alternating coefficient, are m independent normal rows again. Three statistics have known
values, and are given as deviations z of about unit variance. The mean of d cos² between two rows is
1: a low rank, as of sinusoids in any order, changes it. The variance of the rows' energies relative
to the mean is 2/d: sinusoids and trends change it. The mean of cos ω weighted by energy, a
correlation of neighbours, is 0: similar neighbours change it. Orthogonal rows are too regular to
pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pefourier.encodings.domain import Indices, Table
from pefourier.encodings.encoding import Floats, unit_of


@dataclass(frozen=True, eq=False)
class SinusoidPairs:
    """Pairs of columns that rotate about the origin: m circles.

    Column `sines` is amplitude · sin(omega t + phase), column `cosines` the same with cosine; t is
    0 at the first row read, and omega is in (0, pi].
    """

    sines: Indices  # (m,) column of each sine
    cosines: Indices
    omega: Floats  # (m,) radians per row
    phase: Floats  # (m,) radians
    amplitude: Floats  # (m,)


def fit_sinusoid_pairs(rows: Floats, eps: float) -> SinusoidPairs | None:
    """Fit the columns of consecutive rows (n, d) as sines and cosines; up to two may be left over.

    A pairing fits if the squares of both columns of each pair sum to a constant within rounding to
    `eps`. Two rows are required, since any pairing fits one row. Pairings tried: neighbours,
    halves, the order of the real DFT, and columns matched by their values.
    """
    if len(rows) < 2:
        return None
    unit = unit_of(rows)
    rows = rows * unit
    for first, second in pairings(rows):
        if on_circles(rows[:16], first, second, eps) and on_circles(rows, first, second, eps):
            pairs = measure_pairs(rows, first, second)
            return replace(pairs, amplitude=pairs.amplitude / unit)
    return None


def on_circles(rows: Floats, first: Indices, second: Indices, eps: float) -> bool:
    """Whether the squares of both columns of each pair sum to a constant above zero."""
    squared = rows[:, first] ** 2 + rows[:, second] ** 2
    mean = squared.mean(axis=0)
    return len(first) > 0 and mean.min() > 0 and bool((abs(squared - mean) <= 6 * eps * mean).all())


def pairings(rows: Floats) -> Iterator[tuple[Indices, Indices]]:
    """Yield ways to pair columns, each as two index arrays (m,)."""
    d = rows.shape[1]
    m, column = d // 2, np.arange(d)
    yield column[0 : 2 * m : 2], column[1::2]
    yield column[:m], column[d - m :]
    p = (d + 1) // 2
    yield column[1:p], column[p : 2 * p - 1]
    if len(rows) > 2:
        yield from matchings(rows)


def matchings(rows: Floats) -> Iterator[tuple[Indices, Indices]]:
    """Yield columns matched by squares and by products with the next row.

    Both :math:`u_t^2 + v_t^2` and :math:`u_t u_{t+1} + v_t v_{t+1}` are constant on a circle.
    Weights that sum to zero therefore give opposite numbers for the two columns of a pair. Columns
    that are constant or alternate (the DFT's first and last) are left out if the others pair up.
    """
    rows = rows[:128]
    n = len(rows)
    weights = np.random.default_rng(0).standard_normal((2, n - 1))
    weights -= weights.mean(axis=1, keepdims=True)
    mark = weights[0] @ rows[:-1] ** 2 + weights[1] @ (rows[:-1] * rows[1:])
    order = np.argsort(mark, kind="stable")
    is_still = np.ptp(np.abs(rows), axis=0) <= 1e-6 * np.abs(rows).max()
    for columns in (order[~is_still[order]], order):
        half = len(columns) // 2
        if half and len(columns) % 2 == 0:
            yield columns[half:], columns[:half][::-1]


def measure_pairs(rows: Floats, first: Indices, second: Indices) -> SinusoidPairs:
    """Measure frequency, phase and amplitude of each pair; swap columns that rotate backwards."""
    z = rows[:, second] + 1j * rows[:, first]
    t = np.arange(len(z))
    omega = np.angle((z[1:] * z[:-1].conj()).sum(axis=0))
    unrotated = z * np.exp(-1j * np.multiply.outer(t, omega))
    phase = np.angle(unrotated.sum(axis=0))
    residual = np.angle(unrotated * np.exp(-1j * phase))
    middle = t - t.mean()
    drift = middle @ residual / (middle @ middle)
    omega, phase = omega + drift, phase + residual.mean(axis=0) - drift * t.mean()
    back = omega < 0
    return SinusoidPairs(
        np.where(back, second, first),
        np.where(back, first, second),
        np.abs(omega),
        np.where(back, np.pi / 2 - phase, phase),
        np.sqrt((np.abs(z) ** 2).mean(axis=0)),
    )


QUARTERS = (  # quarter rotations to which a phase is ambiguous, and that all phases are shifted by
    (4, 0),  # full rotations: no sign changes, at any offset
    (4, 1),  # rows in reverse order swap sines and cosines of all pairs
    (4, 2),
    (4, 3),
    (1, 0),
)


def align(
    pairs: SinusoidPairs, slack: Floats, n: int, eps: float
) -> tuple[SinusoidPairs, Indices, float] | None:
    """Rotate pairs by quarters until all phases are omega times one common offset.

    Return the rotated pairs, the signs (2, m) of their sines and cosines, and the offset in rows.
    """
    alignments = []
    for order, (quarters, shift) in enumerate(QUARTERS):
        shifted = replace(pairs, phase=pairs.phase - shift * np.pi / 2)
        offset, k = common_offset(shifted, quarters)
        k = (k + shift) % 4
        residual = wrapped(pairs.phase - k * np.pi / 2 - pairs.omega * offset, 2 * np.pi)
        excess = np.abs(residual) - 8 * eps - slack * n
        if (excess <= 0.05).all():  # with few pairs, some offset fits this well by chance
            alignments.append(((excess > 1e-3).any(), order, offset, k))
    if not alignments:
        return None
    *_, offset, k = min(alignments, key=lambda alignment: alignment[:2])
    s, c = pairs.sines, pairs.cosines
    swap = k % 2 == 1  # a quarter on, the sine is minus the fitted cosine
    sign = np.array([np.choose(k, [1, -1, -1, 1]), np.choose(k, [1, 1, -1, -1])])
    moved = (np.where(swap, c, s), np.where(swap, s, c), pairs.omega, pairs.phase)
    return SinusoidPairs(*moved, pairs.amplitude), sign, offset


def common_offset(pairs: SinusoidPairs, quarters: int) -> tuple[float, Indices]:
    """Return the offset in rows and the quarter rotations of each pair, by ascending frequency.

    The lowest frequency gives an unambiguous offset; each higher frequency refines it.
    """
    offset, weight = 0.0, 0.0
    k = np.zeros(len(pairs.omega), dtype=int)
    for i in np.argsort(pairs.omega, kind="stable"):
        omega = pairs.omega[i]
        residual = float(wrapped(pairs.phase[i] - omega * offset, quarters * np.pi / 2))
        k[i] = round((pairs.phase[i] - omega * offset - residual) / (np.pi / 2)) % 4
        weight += omega**2
        offset += residual * omega / weight if weight else 0.0
    return offset, k


def wrapped(angle: Floats, period: float) -> Floats:
    """Reduce angles by full rotations, to within half a rotation of zero."""
    return angle - period * np.rint(angle / period)


def recurrence(rows: Floats, lag: int) -> tuple[Floats, float]:
    r"""Return the cosine of each column's rotation over `lag` rows, and the residual of the fit.

    Every sampled sinusoid has :math:`x_{t+l} + x_{t-l} = 2 \cos(\omega l)\, x_t`.
    """
    rows = rows * unit_of(rows)
    middle, around = rows[lag:-lag], rows[2 * lag :] + rows[: -2 * lag]
    energy = (middle**2).sum(axis=0)
    cosine = (middle * around).sum(axis=0) / np.where(energy > 0, 2 * energy, 1.0)
    residual = np.linalg.norm(around - 2 * cosine * middle) / (np.linalg.norm(rows) or 1.0)
    return np.clip(cosine, -1, 1), float(residual)


FEWEST = (16, 8)  # rows and columns that a test needs
ENOUGH = 400  # numbers that a test needs to detect a correlation of neighbours above 1/4
ENDS = 2**9  # rows tested at each end of a table
BEYOND = 4.5  # deviation that about one random normal table in a thousand exceeds


def deviations(rows: Floats) -> Floats:
    """Return the deviations of directions, energies and neighbours from random rows, shape (3,).

    Examples
    --------
    >>> bool(np.abs(deviations(np.random.default_rng(0).normal(size=(64, 32)))).max() < 3)
    True
    >>> bool(np.abs(deviations(np.eye(64))).max() > 30)
    True
    """
    n, d = rows.shape
    waves = np.fft.rfft(rows / (np.abs(rows).max() or 1.0), axis=0)[1 : (n + 1) // 2]
    cosine = np.tile(np.cos(2 * np.pi * np.arange(1, len(waves) + 1) / n), 2)
    products = np.vstack([waves.real, waves.imag])
    products = products @ products.T
    energy = products.diagonal()
    if not energy.min() > 0:
        return np.full(3, np.inf)
    m, relative = len(energy), energy / energy.mean()
    pairs = m * (m - 1) / 2
    excess = d * ((products**2 / np.outer(energy, energy)).sum() - m) / 2 / pairs - 1
    spread = ((relative - 1) ** 2).mean() * d / 2 - 1
    return np.array(
        [
            excess / np.sqrt(2 * (d - 1) / (d + 2) / pairs),
            spread * np.sqrt(m / 2),
            (relative @ cosine) / np.sqrt(2 * (cosine @ cosine) / d),
        ]
    )


def look_random(rows: Floats) -> bool:
    """Whether rows are consistent with independent normal numbers, and enough rows to test it."""
    n, d = rows.shape
    if n < FEWEST[0] or d < FEWEST[1] or n * d < ENOUGH:
        return False
    return bool(np.abs(deviations(rows)).max() <= BEYOND)


def numbers_look_random(table: Table) -> bool:
    """Whether the rows at both ends of a table look random, without an order of positions."""
    ends = (table[:ENDS], table[-ENDS:])
    return all(look_random(np.asarray(rows, dtype=float)) for rows in ends)

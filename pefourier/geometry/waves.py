r"""Which columns of a table are sines and cosines, or is it random?

Conventions
-----------
Rows (n, d) are codes of consecutive positions. A pair of columns that turns about the origin is a
sine and a cosine of one angular frequency, radians per row.

Coefficients of the real Fourier basis, without the mean and the alternating one, of independent
normal rows of one variance are such rows again: m of them. Three numbers of theirs are known, and
told as deviations z of about unit variance: the mean of d cos² between two of them, which is 1; the
variance of their energies, 2/d relative to the mean; and the correlation of neighbours, the mean of
cos ω over energies, which is 0. Few directions, as of waves in any order, change the first; waves
and trends the second; codes alike nearby the third. Orthogonal rows are far too regular for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pefourier.encodings.encoding import Floats, unit_of
from pefourier.geometry.precision import Indices, Table


@dataclass(frozen=True, eq=False)
class SinusoidPairs:
    """Pairs of columns that turn about the origin, column by column of T: m circles.

    Column `sines` is amplitude · sin(omega t + phase) and `cosines` the cosine, t = 0 at the first
    row read; omega is in (0, pi].
    """

    sines: Indices  # (m,) column of each sine
    cosines: Indices
    omega: Floats  # (m,) radians per row
    phase: Floats  # (m,) radians
    amplitude: Floats  # (m,)


def fit_sinusoid_pairs(rows: Floats, eps: float) -> SinusoidPairs | None:
    """Columns of consecutive codes (n, d) as sines and cosines; at most two may be left over.

    A pairing fits when squares of both columns of each pair sum to a constant within rounding to
    `eps`; of one row any would. Tried are neighbours, halves, the real DFT's order, and columns
    matched by their values.
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
    """Ways to pair columns: two index arrays (m,) each."""
    d = rows.shape[1]
    m, column = d // 2, np.arange(d)
    yield column[0 : 2 * m : 2], column[1::2]
    yield column[:m], column[d - m :]
    p = (d + 1) // 2
    yield column[1:p], column[p : 2 * p - 1]
    if len(rows) > 2:
        yield from matchings(rows)


def matchings(rows: Floats) -> Iterator[tuple[Indices, Indices]]:
    """Columns matched by squares and products with the next row: equal but for sign in a pair.

    Both :math:`u_t^2 + v_t^2` and :math:`u_t u_{t+1} + v_t v_{t+1}` are constant on a circle, so
    that any weights which sum to zero give two opposite numbers. Columns that are constant or
    alternate (the DFT's first and last) are left out if the others pair up.
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
    """Frequency, phase and amplitude of each pair; the two are exchanged where they turn back."""
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


TURNS = (  # quarters that a pair may be counted in, and quarters that all pairs are turned by
    (4, 0),  # whole turns: no sign changes, whatever the offset
    (4, 1),  # rows that run backwards exchange sines and cosines of all pairs
    (4, 2),
    (4, 3),
    (1, 0),
)


def align(
    pairs: SinusoidPairs, slack: Floats, n: int, eps: float
) -> tuple[SinusoidPairs, Indices, float] | None:
    """Turn each pair by quarters so that all phases are omega · offset, one offset for all.

    Returns the turned pairs, the signs (2, m) of their sines and cosines, and the offset in rows.
    """
    alignments = []
    for order, (quarters, shift) in enumerate(TURNS):
        shifted = replace(pairs, phase=pairs.phase - shift * np.pi / 2)
        offset, k = common_offset(shifted, quarters)
        k = (k + shift) % 4
        residual = wrapped(pairs.phase - k * np.pi / 2 - pairs.omega * offset, 2 * np.pi)
        excess = np.abs(residual) - 8 * eps - slack * n
        if (excess <= 0.05).all():  # of few pairs some offset comes near by chance
            alignments.append(((excess > 1e-3).any(), order, offset, k))
    if not alignments:
        return None
    *_, offset, k = min(alignments, key=lambda alignment: alignment[:2])
    s, c = pairs.sines, pairs.cosines
    swap = k % 2 == 1  # a quarter on: the sine is minus the cosine found, the cosine its sine
    sign = np.array([np.choose(k, [1, -1, -1, 1]), np.choose(k, [1, 1, -1, -1])])
    moved = (np.where(swap, c, s), np.where(swap, s, c), pairs.omega, pairs.phase)
    return SinusoidPairs(*moved, pairs.amplitude), sign, offset


def common_offset(pairs: SinusoidPairs, quarters: int) -> tuple[float, Indices]:
    """Offset in rows and quarter turns of each pair, read from slow pairs to fast ones.

    The slowest pair gives an offset without counting turns; each faster one sharpens it.
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


def wrapped(angle: Floats, turn: float) -> Floats:
    """Angles less whole turns, within half a turn of zero."""
    return angle - turn * np.rint(angle / turn)


def recurrence(rows: Floats, lag: int) -> tuple[Floats, float]:
    r"""Cosine of each column's turn over `lag` rows, and how far columns are from one sinusoid.

    Every sampled sinusoid has :math:`x_{t+l} + x_{t-l} = 2 \cos(\omega l)\, x_t`.
    """
    rows = rows * unit_of(rows)
    middle, around = rows[lag:-lag], rows[2 * lag :] + rows[: -2 * lag]
    energy = (middle**2).sum(axis=0)
    cosine = (middle * around).sum(axis=0) / np.where(energy > 0, 2 * energy, 1.0)
    residual = np.linalg.norm(around - 2 * cosine * middle) / (np.linalg.norm(rows) or 1.0)
    return np.clip(cosine, -1, 1), float(residual)


FEWEST = (16, 8)  # rows and columns, of which something can be said
ENOUGH = 400  # numbers: a correlation of neighbours above 1/4 is then seen
ENDS = 2**9  # rows at each end of a table that are looked at
BEYOND = 4.5  # of normal tables about one in a thousand is further from what is expected


def deviations(rows: Floats) -> Floats:
    """How far directions, energies and neighbours are from those of random rows, shape (3,).

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
    """Whether rows are as independent normal numbers could be, and enough of them to say so."""
    n, d = rows.shape
    if n < FEWEST[0] or d < FEWEST[1] or n * d < ENOUGH:
        return False
    return bool(np.abs(deviations(rows)).max() <= BEYOND)


def numbers_look_random(table: Table) -> bool:
    """Whether the rows at either end of a table look random: no order of positions."""
    ends = (table[:ENDS], table[-ENDS:])
    return all(look_random(np.asarray(rows, dtype=float)) for rows in ends)

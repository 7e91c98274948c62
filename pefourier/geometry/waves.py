r"""Which columns of a table are sines and cosines, which few waves is it, or is it random?

Conventions
-----------
Rows (n, d) are codes of consecutive positions. A pair of columns that turns about the origin is a
sine and a cosine of one angular frequency, radians per row.

Any table is a constant row and :math:`\sum_j \cos(\omega_j t) a_j + \sin(\omega_j t) b_j` with
rows a, b, plus a rest. For given frequencies the rows are least squares; frequencies move by
Gauss-Newton on what is then left, all at once (variable projection; Kaufman, 1975), and a wave is
added at the highest peak of the rest until none is worth it. Waves closer than a bin are not
orthogonal: one by one, their energies would be told twice.

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

from pefourier.encodings.domain import Domain, periodogram
from pefourier.encodings.encoding import unit_of


@dataclass(frozen=True, eq=False)
class SinusoidPairs:
    """Pairs of columns that turn about the origin, column by column of T: m circles.

    Column `sines` is amplitude · sin(omega t + phase) and `cosines` the cosine, t = 0 at the first
    row read; omega is in (0, pi].
    """

    sines: np.ndarray  # (m,) column of each sine
    cosines: np.ndarray
    omega: np.ndarray  # (m,) radians per row
    phase: np.ndarray  # (m,) radians
    amplitude: np.ndarray  # (m,)


def fit_sinusoid_pairs(rows: np.ndarray, eps: float) -> SinusoidPairs | None:
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


def on_circles(rows: np.ndarray, first: np.ndarray, second: np.ndarray, eps: float) -> bool:
    """Whether the squares of both columns of each pair sum to a constant above zero."""
    squared = rows[:, first] ** 2 + rows[:, second] ** 2
    mean = squared.mean(axis=0)
    return len(first) > 0 and mean.min() > 0 and bool((abs(squared - mean) <= 6 * eps * mean).all())


def pairings(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Ways to pair columns: two index arrays (m,) each."""
    d = rows.shape[1]
    m, column = d // 2, np.arange(d)
    yield column[0 : 2 * m : 2], column[1::2]
    yield column[:m], column[d - m :]
    p = (d + 1) // 2
    yield column[1:p], column[p : 2 * p - 1]
    if len(rows) > 2:
        yield from matchings(rows)


def matchings(rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
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


def measure_pairs(rows: np.ndarray, first: np.ndarray, second: np.ndarray) -> SinusoidPairs:
    """Frequency, phase and amplitude of each pair; the two are exchanged where they turn back."""
    z = rows[:, second] + 1j * rows[:, first]
    t = np.arange(len(z))
    omega = np.angle((z[1:] * z[:-1].conj()).sum(axis=0))
    still = z * np.exp(-1j * np.multiply.outer(t, omega))
    phase = np.angle(still.sum(axis=0))
    residual = np.angle(still * np.exp(-1j * phase))
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
    pairs: SinusoidPairs, slack: np.ndarray, n: int, eps: float
) -> tuple[SinusoidPairs, np.ndarray, float] | None:
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


def common_offset(pairs: SinusoidPairs, quarters: int) -> tuple[float, np.ndarray]:
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


def wrapped(angle: np.ndarray, turn: float) -> np.ndarray:
    """Angles less whole turns, within half a turn of zero."""
    return angle - turn * np.rint(angle / turn)


def recurrence(rows: np.ndarray, lag: int) -> tuple[np.ndarray, float]:
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


def deviations(rows: np.ndarray) -> np.ndarray:
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


def look_random(rows: np.ndarray) -> bool:
    """Whether rows are as independent normal numbers could be, and enough of them to say so."""
    n, d = rows.shape
    if n < FEWEST[0] or d < FEWEST[1] or n * d < ENOUGH:
        return False
    return bool(np.abs(deviations(rows)).max() <= BEYOND)


def numbers_look_random(table: np.ndarray) -> bool:
    """Whether the rows at either end of a table look random: no order of positions."""
    ends = (table[:ENDS], table[-ENDS:])
    return all(look_random(np.asarray(rows, dtype=float)) for rows in ends)


MOST, LEAST = 8, 1e-7  # waves that are fitted, and the share below which a peak is left in the rest
STEPS, SMALLEST, GAIN = 40, 1e-10, 1e-2  # of Gauss-Newton; a step, in bins, and what is worth one
DIRECTIONS = 24  # of the table that are looked at: those with the most energy
FEW, REST = 4, 0.1  # more waves that leave more are no few waves
NOISE, SMALL = 8, 0.01  # times the mean, and share: a peak of both or less may be noise
NYQUIST = 0.02  # bins: a wave so near to half a turn is one


@dataclass(frozen=True)
class JointWaves:
    """Waves that were fitted together, by what they share of the energy, largest first."""

    omega: np.ndarray  # (k,) radians a step
    share: np.ndarray  # (k,) of the table's energy; they sum to what all of them explain
    single_share: np.ndarray  # (k,) energy of each by itself: not its share where waves overlap
    error: np.ndarray  # (k,) how far what is left could have moved each, radians a step


@dataclass(frozen=True)
class Fit:
    """Least squares of rows on given frequencies; `parts` are what each wave adds, (k, n, r)."""

    parts: np.ndarray
    residual: np.ndarray
    slopes: np.ndarray  # (k, n, r): how the fit changes with each frequency


def fit_rows(t: np.ndarray, rows: np.ndarray, omega: np.ndarray) -> Fit:
    """The rows of cosine and sine of each wave, and what is left."""
    angles = np.multiply.outer(omega, t)
    waves, turned = np.exp(1j * angles), 1j * t * np.exp(1j * angles)
    waves, turned = (two_columns(wave) for wave in (waves, turned))
    basis, sigma, right = np.linalg.svd(
        waves.transpose(1, 0, 2).reshape(len(t), -1), full_matrices=False
    )
    is_regular = sigma > 1e-10 * sigma.max(initial=0.0)
    q = basis[:, is_regular]
    inside = q.T @ rows
    ab = ((right[is_regular].T / sigma[is_regular]) @ inside).reshape(len(omega), 2, rows.shape[1])
    slopes = turned @ ab
    return Fit(waves @ ab, rows - q @ inside, slopes - q @ (q.T @ slopes))


def two_columns(wave: np.ndarray) -> np.ndarray:
    """Real and imaginary part of each row as columns (k, n, 2), less their means."""
    columns = np.stack([wave.real, wave.imag], axis=2)
    return columns - columns.mean(axis=1, keepdims=True)


def fit_frequencies(
    t: np.ndarray, rows: np.ndarray, omega: np.ndarray, bin_: float, last: float
) -> tuple[np.ndarray, Fit]:
    """Frequencies moved together to where least is left, and the fit there."""
    fit, damping = fit_rows(t, rows, omega), 1e-3
    for _ in range(STEPS):
        flat = fit.slopes.reshape(len(omega), fit.residual.size)
        products = flat @ flat.T
        steps = np.diag(products).max() * damping * 1e-3 + np.diag(products) * damping
        move = np.linalg.solve(products + np.diag(steps + 1e-300), flat @ fit.residual.ravel())
        if not np.isfinite(move).all() or np.abs(move).max() < SMALLEST * bin_:
            break
        tried = np.clip(omega + np.clip(move, -bin_ / 2, bin_ / 2), bin_ / 20, last)
        moved = fit_rows(t, rows, tried)
        after, before = (moved.residual**2).sum(), (fit.residual**2).sum()
        if after < before:
            omega, fit, damping = tried, moved, damping / 10
            if after > before * (1 - GAIN):
                break
        elif damping > 1e6:
            break
        else:
            damping *= 10
    return omega, fit


def joint_waves(domain: Domain, table: np.ndarray) -> JointWaves:
    """Up to eight waves of a table of positions or times, fitted together.

    >>> from pefourier.encodings.domain import positions
    >>> t = np.arange(60)[:, None]
    >>> found = joint_waves(positions(60), np.hstack([np.cos(t / 5), 0.5 * np.sin(t / 4)]))
    >>> found.omega.round(9), float(found.share.sum().round(3))
    (array([0.2 , 0.25]), 0.992)
    """
    if len(domain) == 1:  # which has no frequency but 0
        return JointWaves(*np.empty((4, 0)))
    t = np.asarray(domain.x, dtype=float)
    t = (t - t.mean()) / domain.spacing
    bin_, last = 2 * np.pi / len(t), np.inf if domain.irregular else np.pi
    table = np.asarray(table, dtype=float)
    total, rows = (table**2).sum(), strongest(table - table.mean(axis=0))
    omega, fit = np.empty(0), fit_rows(t, rows, np.empty(0))
    while True:
        places, energy = periodogram(domain, fit.residual)
        peak = 1 + int(np.argmax(energy[1:]))
        noise = min(NOISE * energy[1:].mean(), SMALL * total)
        is_enough = len(omega) == MOST or (
            len(omega) > FEW and (fit.residual**2).sum() > REST * total
        )
        if is_enough or energy[peak] <= max(LEAST * total, noise):
            break
        omega, fit = fit_frequencies(t, rows, np.append(omega, places[peak]), bin_, last)
    return describe_fit(omega, fit, rows, total, energy[peak], last - NYQUIST * bin_)


def strongest(rows: np.ndarray) -> np.ndarray:
    """Rows in the directions that hold most of their energy."""
    if rows.shape[1] <= DIRECTIONS:
        return rows
    return rows @ np.linalg.eigh(rows.T @ rows)[1][:, -DIRECTIONS:]


def describe_fit(
    omega: np.ndarray, fit: Fit, rows: np.ndarray, total: float, peak: float, last: float
) -> JointWaves:
    """What each wave of a fit holds, and how far a wave as large as the peak left could move it."""
    flat, error = fit.slopes.reshape(len(omega), fit.residual.size), np.zeros(len(omega))
    inside = omega < last  # at half a turn there is no slope
    products = flat[inside] @ flat[inside].T
    error[inside] = np.sqrt(peak * np.abs(np.diag(np.linalg.pinv(products, 1e-14))))
    share = np.einsum("ktr,tr->k", fit.parts, rows) / total
    single_share = (fit.parts**2).sum(axis=(1, 2)) / total
    order = np.argsort(-share, kind="stable")
    omega = np.where(inside, omega, np.pi)
    return JointWaves(omega[order], share[order], single_share[order], error[order])

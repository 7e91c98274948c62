r"""Which few waves is a table made of? One fit of all of them together, with the constant.

Conventions
-----------
A table is a constant row and :math:`\sum_j \cos(\omega_j t) a_j + \sin(\omega_j t) b_j` with rows
a, b, plus a rest. For given frequencies the rows are least squares; frequencies move by
Gauss-Newton on what is then left, all at once (variable projection; Kaufman, 1975), and a wave is
added at the highest peak of the rest until none is worth it. Waves closer than a bin are not
orthogonal: one by one, their energies would be told twice.
"""

from dataclasses import dataclass

import numpy as np

from pefourier.encodings.domain import Domain, periodogram

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

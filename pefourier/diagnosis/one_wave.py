"""Tables of cosines alone, or of sines alone: one of the two that turn a rotation's pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import get_args

import numpy as np

from pefourier.diagnosis.frequency_grids import frequency_slack
from pefourier.encodings.columns import Layout, pair_columns
from pefourier.geometry import precision
from pefourier.geometry.waves import recurrence

FIRSTS = 64  # positions that the first row of one wave alone may have


@dataclass(frozen=True, eq=False)
class OneWave:
    """Columns that are all cosines, or all sines."""

    part: str  # cos or sin
    layout: str | None  # in which each column stands twice; None: once
    places: Sequence[slice]  # the columns of each time
    omega: np.ndarray  # (m,) radians per row
    slack: np.ndarray
    size: float
    first: int  # position of the first row


def read_one_wave(rows: np.ndarray, eps: float, start: int) -> OneWave | None:
    """Cosines alone, or sines alone: one of the two tables of a rotation; None where it is not."""
    if start > 1 or len(rows) < 4:
        return None
    layout, places = twin_columns(rows)
    x = rows[:, places[0]]
    omega, slack = single_frequencies(x, eps)
    k = int(np.argmax(np.sin(omega)))
    if np.sin(omega[k]) < 1e-3:
        return None
    ahead = (x[1:, k] - np.cos(omega[k]) * x[:-1, k]) / np.sin(omega[k])  # size · cos(phase)
    size = float(np.sqrt((x[:-1, k] ** 2 + ahead**2).mean()))
    waves, start_codes = {"sin": np.sin, "cos": np.cos}, x[0] / (size or np.nan)
    positions = np.arange(start, FIRSTS)
    close = [np.abs(wave(omega[k] * positions) - start_codes[k]) <= 2e-2 for wave in waves.values()]
    for first, part in product(positions[np.any(close, axis=0)].tolist(), waves):  # the fastest's
        moved = np.minimum((first - start) * slack, 1e-2)  # a phase that is not known tells none
        if (np.abs(waves[part](omega * first) - start_codes) <= 1e-2 + moved).all():
            last = len(x) - 1 + first
            omega, slack = by_last_row(part, x[-1] / size, last, omega, slack, eps)
            return OneWave(part, layout, places, omega, slack, size, first)
    return None


def by_last_row(
    part: str, last: np.ndarray, position: int, omega: np.ndarray, slack: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies with those that turn less than a radian read from the last row, at a position."""
    slow = (omega * position < 1) & (slack * position < 0.5)
    inverse = np.arccos if part == "cos" else np.arcsin
    slow_omega = np.maximum(inverse(np.clip(last, -1, 1)) / position, 1e-12)
    steep = np.sqrt(np.maximum(1 - last**2, 8 * eps)) if part == "cos" else 0.5
    error = 8 * eps / (steep * position) + precision.phase_rounding(slow_omega, eps)
    return np.where(slow, slow_omega, omega), np.where(slow, error, slack)


def twin_columns(rows: np.ndarray) -> tuple[str | None, Sequence[slice]]:
    """Layout, and the two sets of columns that are the same; None, and all columns."""
    d = rows.shape[1]
    for layout in get_args(Layout) if d % 2 == 0 else ():
        places = pair_columns(layout, d // 2)
        if (rows[:, places[0]] == rows[:, places[1]]).all():
            return layout, places
    return None, (slice(d),)


def single_frequencies(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Frequency of each column that is one sinusoid, with its slack."""
    cosine, _ = recurrence(x, 1)
    omega, error = np.maximum(np.arccos(cosine), 1e-12), 8 * eps
    away = error / np.maximum(np.sin(omega), np.sqrt(error))
    return omega, frequency_slack(omega, eps, len(x)) + away

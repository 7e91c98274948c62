"""Tables of cosines alone, or of sines alone: one of the two that turn a rotation's pairs."""

from dataclasses import replace

import numpy as np

from pefourier.diagnosis.frequency_grids import frequency_slack
from pefourier.diagnosis.pairs import PairWaves, copies_of, fit_pair_waves
from pefourier.encodings.columns import split_pairs


def fit_single_wave(rows: np.ndarray, eps: float) -> tuple[PairWaves, np.ndarray] | None:
    """Cosines alone, or sines alone, from position 0 on, and the slack of each frequency.

    A cosine that hardly turns is flat: what rounding takes from it moves its frequency far.
    """
    waves = fit_pair_waves(rows, eps) if len(rows) > 3 else None
    if waves is None or waves.repeats > 1 or waves.form.part not in ("cos", "sin"):
        return None
    n, omega = len(rows), np.maximum(np.abs(waves.omega), 1e-12)
    wave = np.sin if waves.form.part == "cos" else np.cos
    steep = np.where(omega * n < 1, wave(omega * n), 1.0)
    slack = frequency_slack(omega, eps, n) + 8 * eps / (n * np.maximum(steep, np.sqrt(8 * eps)))
    return replace(waves, omega=omega), slack


def drop_copies(rows: np.ndarray) -> np.ndarray:
    """Each column once, where a table holds each twice."""
    layout = copies_of(rows)
    return rows if layout is None else split_pairs(rows, layout)[0]

"""How do frequencies lie to the axes of a grid?"""

from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.places import axis_tables, is_separable
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.geometry.torus import aliased_shares, directions_of, idle_shares, isotropy
from pefourier.geometry.waves import fit_sinusoid_pairs
from pefourier.questions.density import alias_on_axes, choose_method, frequencies_and_weights


def describe_on_grid(
    enc: Encoding, g: np.ndarray, sides: tuple[int, ...], method: str, declared: np.ndarray | None
) -> dict[str, Any]:
    """What a density on a torus says of axes and directions."""
    along, axes = directions_of(g, sides), range(len(sides))
    return {
        "marginals": [g.sum(axis=tuple(b for b in axes if b != a)) for a in axes],
        "radial": {"omega": along.lengths, "density": along.radial},
        "angular": {"angle": along.angles, "density": along.angular},
        **axis_shares(enc, method),
        "largest_step": None if declared is None else float(np.abs(declared).max()),
    }


def axis_shares(enc: Encoding, method: str = "auto") -> dict[str, Any]:
    """How a measure lies to the axes.

    What is aliased is known of declared frequencies, what is idle also of those that are read from
    columns that turn.
    """
    used = choose_method(enc, method)
    frequencies, weights = frequencies_and_weights(enc, used)
    frequencies = frequencies.reshape(len(weights), -1)
    is_declared = used == "declared"
    measured = (frequencies, weights) if is_declared else frequencies_read(enc)
    return {
        "isotropy": isotropy(alias_on_axes(frequencies), weights),
        "idle": None if measured is None else idle_shares(*measured, enc.domain.sides),
        "aliased": aliased_shares(frequencies, weights) if is_declared else None,
    }


def frequencies_read(enc: Encoding) -> tuple[np.ndarray, np.ndarray] | None:
    """Frequencies (m, axes) and weights of the columns of a table on a grid, where all turn."""

    tables = axis_tables(enc) if is_separable(enc) else None
    if tables is None or any(len(table) < 3 or 0 in table.shape for table in tables):
        return None
    eps = max(enc.eps, FLOAT32_EPS)
    fits = [fit_sinusoid_pairs(np.asarray(table, dtype=float), eps) for table in tables]
    if None in fits:
        return None
    axes = np.eye(len(fits))
    omega = [np.multiply.outer(pairs.omega, axis) for pairs, axis in zip(fits, axes, strict=True)]
    weights = np.concatenate([pairs.amplitude**2 for pairs in fits])
    return np.concatenate(omega), weights / weights.sum()

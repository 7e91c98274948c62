"""By how much do two tables differ, number by number, or cosine by cosine where columns differ?"""

from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.diagnosis.pairs import PairWaves, apart, pair_tolerance
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.geometry.tolerance import stored_tolerance

MOST_ROWS = 4096  # of long tables of waves that are compared number by number
Pairs = tuple[PairWaves | None, PairWaves | None]


def compare_numbers(result: Any, limit: int | None) -> Any:
    """Two tables number by number, as far as both go; of long ones of waves at most some rows."""
    first, second = result.encodings
    if first.dim != second.dim:
        return result
    n = min(result.length, limit or result.length)
    a, b = (np.asarray(enc.table(enc.domain.x[:n]), dtype=float) for enc in result.encodings)
    tolerance, _ = stored_tolerance(a, b, first, second)
    residual = np.abs(a - b)
    beyond = residual > tolerance
    row, column = np.unravel_index(residual.argmax(), residual.shape)
    return replace(
        result,
        verdict="different" if beyond.any() else "the same",
        differing=int(beyond.any(axis=0).sum()),
        bitwise=not residual.any(),
        tolerance=float(tolerance.max()),
        max_difference=float(residual.max()),
        first_difference=first_place(beyond),
        largest_difference=(int(row), int(column)) if residual[row, column] else None,
    )


def compare_waves(result: Any, pairs: Pairs) -> Any:
    """The largest difference of cosines and sines in tables whose columns are not the same."""
    a, b = pairs
    if a is None or b is None or len(a.omega) != len(b.omega) or a.has_angles or b.has_angles:
        return result
    if a.rows is not None or b.rows is not None:
        return result
    rows = np.arange(min(result.length, MOST_ROWS))
    limit = pair_tolerance(rows, a.omega, a.factor, max(FLOAT32_EPS, a.eps, b.eps))
    worst = float(apart(a.waves(rows), b.waves(rows)).max())
    return replace(result, max_difference=worst, tolerance=float(limit.max()))


def first_place(beyond: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first difference beyond rounding.

    >>> first_place(np.array([[False, False], [False, True]]))
    (1, 1)
    """
    row, column = np.unravel_index(beyond.argmax(), beyond.shape)
    return (int(row), int(column)) if beyond[row, column] else None

r"""Positions of the rows of a table, read from its sinusoids.

Conventions
-----------
Row s holds :math:`e^{i \omega_k p_s}`, with omega in radians per position and p_s a whole number.
The lowest frequency bounds p_s, each higher frequency narrows the bounds, and all pairs together
confirm p_s to rounding. No position is tried that a lower frequency excludes. If pairs belong to
several axes, each axis is read from its own pairs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pefourier.construction.explain import Cause
from pefourier.construction.rows import explain_rows
from pefourier.construction.waves import (
    BLOCK,
    apart,
    wave_tolerance,
)
from pefourier.encodings.encoding import row_blocks
from pefourier.geometry.precision import FLOAT32_EPS, phase_rounding
from pefourier.types import Array, Bools, Floats, Indices, frozen, frozen_arrays

NARROWER = 2.0  # ratio of successive frequencies used to narrow a position


SHOWN = 4  # runs that a sentence lists


@frozen_arrays
class RowPositions:
    """The position of each row of a table."""

    positions: Indices  # (n,) whole numbers
    explained: Bools  # (n,) whether all pairs of a row match, to rounding
    uncertainty: Floats  # (n,) positions by which it may be wrong; 0: no other position fits


@frozen
class PositionRun:
    """Consecutive rows whose positions increase by a constant step."""

    first_row: int
    last_row: int
    first: int  # position
    last: int
    axis: str | None = None  # t, y or x, if pairs belong to several axes
    reading: str | None = None  # list of factors that gives the frequencies of the rows

    @property
    def rows(self) -> str:
        """The rows, first and last."""
        return first_to_last(self.first_row, self.last_row)

    @property
    def places(self) -> str:
        """The positions: first and last, or the first two and the last if the step is not 1.

        >>> PositionRun(0, 15, 1, 61).places, PositionRun(3, 9, 4, 4).places
        ('1, 5 … 61', '4')
        """
        steps = self.last_row - self.first_row
        if not steps or self.last - self.first in (0, steps):
            return first_to_last(self.first, self.last)
        return f"{self.first}, {self.first + (self.last - self.first) // steps} … {self.last}"


def first_to_last(first: int, last: int) -> str:
    """Format a run of whole numbers.

    >>> first_to_last(0, 7), first_to_last(4, 4), first_to_last(-3, 1)
    ('0-7', '4', '-3 to 1')
    """
    return str(first) if first == last else f"{first}{'-' if first >= 0 else ' to '}{last}"


def recover_positions(
    omega: Floats, waves: Array, eps: float, lowest: int, highest: int
) -> RowPositions:
    """Return the positions, from `lowest` to `highest`, of unit sinusoids (n, m) stored to `eps`.

    If several positions explain a row, the position nearest to its row number is returned.

    >>> omega, places = 1e4 ** (-np.arange(8) / 8), np.array([0, 3, 131071, -5])
    >>> waves = np.exp(1j * np.outer(places, omega))
    >>> recover_positions(omega, waves, 2.0**-52, -100, 2**17).positions
    array([     0,      3, 131071,     -5])
    """
    rotating = np.flatnonzero(omega)
    order = rotating[np.argsort(np.abs(omega[rotating]))]
    positions = np.zeros(len(waves), dtype=np.int64)
    explained = np.zeros(len(waves), dtype=bool)
    uncertainty = np.zeros(len(waves))
    for part in row_blocks(len(waves), BLOCK // 4, max(waves.shape[1], 1)) if len(order) else ():
        rows = waves[part]
        index, places, slack = candidates(omega, rows, order, eps, (lowest, highest))
        places = np.rint(places)
        distance = apart(rows[index], np.exp(1j * np.multiply.outer(places, omega)))
        fits = np.all(distance <= 2 * wave_tolerance(places, omega, 1.0, eps), axis=1)
        order_of_rows = np.lexsort((np.abs(places - index - part.start), index))
        chosen = order_of_rows[fits[order_of_rows]]  # of each row, the nearest first
        index, places, slack = index[chosen], places[chosen], slack[chosen]
        hits, first, count = np.unique(index, return_index=True, return_counts=True)
        row, spread = part.start + hits, np.abs(places[first + count - 1] - places[first])
        positions[row], explained[row] = places[first], True
        uncertainty[row] = np.maximum(spread, np.where(slack[first] > 0.5, slack[first], 0.0))
    return RowPositions(positions, explained, uncertainty)


def candidates(
    omega: Floats,
    waves: Array,
    order: Indices,
    eps: float,
    limits: tuple[int, int],
) -> tuple[Indices, Floats, Floats]:
    """Return rows, positions that no pair excludes, and the uncertainty of each position."""
    index = np.arange(len(waves))
    places = np.full(len(waves), sum(limits) / 2)
    slack = np.full(len(waves), (limits[1] - limits[0]) / 2 + 1.0)
    stored = 12 * min(eps, FLOAT32_EPS) + (3 * eps if eps > FLOAT32_EPS else 0.0)
    fast = 0.0
    for k in order:
        speed = abs(float(omega[k]))
        if speed < NARROWER * fast and k != order[-1]:
            continue
        fast, rounding = speed, 2 * float(phase_rounding(np.array([speed]), eps)[0])
        residual = np.angle(waves[index, k] * np.exp(-1j * omega[k] * places))
        reach = speed * slack + stored + rounding * (np.abs(places) + slack)
        first, last = np.ceil((-reach - residual) / (2 * np.pi)), (reach - residual) / (2 * np.pi)
        count = np.maximum(np.floor(last) - first + 1, 0).astype(np.int64)
        ordinal = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        angles = np.repeat(residual + 2 * np.pi * first, count) + 2 * np.pi * ordinal
        index, places = np.repeat(index, count), np.repeat(places, count) + angles / omega[k]
        slack = (stored + rounding * np.abs(places)) / speed
    inside = (places > limits[0] - slack - 0.5) & (places < limits[1] + slack + 0.5)
    return index[inside], places[inside], slack[inside]


def runs_of(
    rows: Indices, positions: Indices, axis: str | None = None, reading: str | None = None
) -> tuple[PositionRun, ...]:
    """Split rows into runs with a constant step of positions; runs of two have step 0 or 1.

    >>> runs = runs_of(np.arange(8), np.array([0, 0, 0, 1, 2, 3, 9, 10]))
    >>> [(run.rows, run.places) for run in runs]
    [('0-2', '0'), ('3-5', '1-3'), ('6-7', '9-10')]
    """
    steps = np.where(np.diff(rows) == 1, np.diff(positions).astype(float), np.nan)
    row, place, step = rows.tolist(), positions.tolist(), [*steps.tolist(), np.nan]
    runs, start = [], 0
    while start < len(row):
        end = start
        while step[end] == step[start]:  # NaN, which ends a run, equals nothing
            end += 1
        end = start if end == start + 1 and step[start] not in (0, 1) else end
        runs.append(PositionRun(row[start], row[end], place[start], place[end], axis, reading))
        start = end + 1
    return tuple(runs)


def describe_runs(runs: Sequence[PositionRun], noun: str = "position(s)") -> str:
    """Describe the first few runs in words.

    >>> describe_runs(runs_of(np.arange(5), np.array([0, 1, 2, 4, 5])))
    'row(s) 0-2 equal position(s) 0-2, row(s) 3-4 equal position(s) 4-5'
    """
    texts = []
    for run in runs[:SHOWN]:
        factors = f" with the {run.reading} factors" if run.reading else ""
        texts.append(f"row(s) {run.rows} equal {noun} {run.places}{factors}")
    if len(runs) > SHOWN:
        texts.append(f"and {len(runs) - SHOWN} more runs")
    return ", ".join(texts)


def causes_of(positions: Indices) -> tuple[Cause[Any], ...]:
    """Return the causes that give all positions of rows that should count from 0.

    A table that was cut may have been longer.

    >>> [cause.code for cause in causes_of(np.array([0, 0, 0, 1, 2]))]
    ['repeated']
    >>> [cause.code for cause in causes_of(np.arange(4999, 4879, -1))]
    ['reversed']
    """
    numbers = positions.astype(np.int64)
    counts = [n for n in (len(positions), int(positions.max()) + 1) if n >= len(positions)]
    found = [explain_rows(np.arange(n), numbers).causes for n in counts]
    return min(filter(None, found), key=len, default=())

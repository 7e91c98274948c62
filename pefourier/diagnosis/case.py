"""A table with what is known of it, for the rules that look for mistakes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pefourier.diagnosis.identify import OneWave, float_blocks, read_one_wave, resolutions
from pefourier.geometry.closest import ClosestPair
from pefourier.geometry.equal_rows import between_zeros, row_period
from pefourier.geometry.waves import Turning, recurrence, turning_pairs

SAMPLE = 2**9  # rows whose columns are looked at one by one
CYCLIC = 0.05  # share of a wave that rounding to two decimals may take


@dataclass(frozen=True, eq=False)
class Case:
    """A table with what is known of it."""

    table: np.ndarray
    eps: float
    identified: dict | None
    closest: ClosestPair
    rank: int
    stored: float = 0.0  # resolution of the type it is stored in, finer than eps where it was wider

    @property
    def params(self) -> dict:
        """Parameters of what was identified."""
        return self.identified["params"] if self.identified else {}

    @cached_property
    def norms(self) -> np.ndarray:
        """Length of each code, shape (n,)."""
        return np.concatenate([row_lengths(codes) for _, codes in float_blocks(self.table)])

    @cached_property
    def first(self) -> np.ndarray:
        """Index of the first row alike of each row, shape (n,)."""
        known = self.closest.first
        return np.arange(len(self.table)) if known is None else known

    @cached_property
    def lag_zero(self) -> int | None:
        """The row of lag 0, where rows are those of lags; None: they are not.

        Both sides of it are the same and each column falls or rises all the way out, as in ALiBi,
        or rows come in runs that grow to both ends, as the buckets of T5 and the clip of Shaw do;
        at least two in five stand alone.
        """
        n, first = len(self.table), self.first
        at, again = np.arange(n), np.flatnonzero(first != np.arange(n))
        if len(again) == 0 or n < 5:
            return None
        middle = int(again[0] + first[again[0]]) // 2
        folded = len(again) == min(middle, n - 1 - middle)  # one side of the middle on the other
        if 1 < middle < n - 2 and folded and (first[again] == 2 * middle - again).all():
            far = self.table[middle:] if n > 2 * middle else self.table[middle::-1]
            steps = np.diff(np.asarray(far, dtype=float), axis=0)
            return middle if ((steps <= 0).all(axis=0) | (steps >= 0).all(axis=0)).all() else None
        sizes = np.diff(np.flatnonzero(first == at), append=n)
        if len(sizes) < 3:
            return None
        outwards = sizes[len(sizes) // 2 : -1]  # the last may be cut off
        in_runs = (np.diff(first) >= 0).all() and (sizes == sizes[::-1]).all() and len(sizes) % 2
        grows = outwards[:1] == 1 and (np.diff(outwards) >= -1).all() and (sizes == 1).mean() >= 0.4
        return n // 2 if in_runs and grows else None

    @cached_property
    def steps(self) -> int | None:
        """The number of rows that are one code each time, but for the ends; None: it varies."""
        n = len(self.table)
        sizes = np.diff(np.flatnonzero(self.first == np.arange(n)), append=n)
        if len(sizes) < 5 or (np.diff(self.first) < 0).any() or np.ptp(sizes[1:-1]):
            return None
        return int(sizes[1]) if sizes[1] > 1 and sizes.max() == sizes[1] else None

    @cached_property
    def inner(self) -> slice:
        """Rows between those of zeros at both ends."""
        return between_zeros(self.table)

    @cached_property
    def period(self) -> int | None:
        """The period with which rows repeat, but for rows of zeros before and behind them."""
        inner = self.first[self.inner] - self.inner.start
        return row_period(inner) if len(inner) else None

    @cached_property
    def is_calendar(self) -> bool:
        """Whether rows repeat with a period, each column a wave or a mark that is 0 or 1."""
        if self.period is None:
            return False
        rows = np.asarray(self.table[self.inner][:SAMPLE], dtype=float)
        rows = rows[:, ~np.isin(rows, (0.0, 1.0)).all(axis=0)]
        return rows.shape[1] == 0 or recurrence(rows, 1)[1] < CYCLIC

    @cached_property
    def of_phases(self) -> bool:
        """Whether columns are lines through 0 of different slopes."""
        rows = self.sample
        if len(rows) < 4 or rows.shape[1] < 2 or rows[0].any() or np.ptp(rows[1]) == 0:
            return False
        lines = np.arange(len(rows))[:, None] * rows[-1] / (len(rows) - 1)
        level = resolutions(self.eps)[-1]
        return bool((rows[1] > 0).all() and (abs(rows - lines) <= 8 * level * lines).all())

    @cached_property
    def sample(self) -> np.ndarray:
        """Some rows from the start, without columns of zeros at the end."""
        rows = np.asarray(self.table[:SAMPLE], dtype=float)
        used = np.flatnonzero(rows.any(axis=0))
        return rows[:, : used[-1] + 1] if len(used) else rows[:, :0]

    @cached_property
    def one_wave(self) -> OneWave | None:
        """Cosines alone, or sines alone, each column once or twice, that turn."""
        if self.sample.shape[1] < 4 or self.turning is not None:
            return None
        _, rest = recurrence(self.sample, 1) if len(self.sample) > 3 else (None, 1.0)
        level = resolutions(self.eps)[-1]
        return read_one_wave(self.sample, level, 0) if rest < 1e-3 + 4 * level else None

    @cached_property
    def turning(self) -> Turning | None:
        """Pairs of columns that turn by equal steps, with rounding as in float32 allowed for."""
        found = self.circles
        if found is None:
            return None
        _, rest = recurrence(self.sample[:, np.append(found.sines, found.cosines)], 1)
        return found if rest < 1e-3 + 4 * self.eps else None

    @cached_property
    def circles(self) -> Turning | None:
        """Pairs of columns of constant length, whatever their steps."""
        rows = self.sample if len(self.sample) > 2 else self.sample[:, :0]
        return turning_pairs(rows, resolutions(self.eps)[-1]) if rows.shape[1] > 3 else None


def row_lengths(codes: np.ndarray) -> np.ndarray:
    """Length of each row, above zero wherever a number is.

    >>> row_lengths(np.array([[3e-200, 4e-200], [0.0, 0.0]]))
    array([5.e-200, 0.e+000])
    """
    lengths = np.linalg.norm(codes, axis=1)
    tiny = np.flatnonzero((lengths < 1e-150) & codes.any(axis=1))  # squares that are no numbers
    top = np.abs(codes[tiny]).max(axis=1, initial=0.0)
    lengths[tiny] = top * np.linalg.norm(codes[tiny] / top[:, None], axis=1)
    return lengths

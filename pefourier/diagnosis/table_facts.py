"""A table with what rules ask about it: which rows repeat, and which waves its columns are.

Conventions
-----------
Rows (n, d) are codes of consecutive positions. Facts are made when a rule first asks for them.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from pefourier.diagnosis.identify import resolutions
from pefourier.diagnosis.pairs import PairWaves
from pefourier.diagnosis.wave_formulas import fit_single_wave, float_blocks
from pefourier.geometry.closest import ClosestPair
from pefourier.geometry.equal_rows import between_zeros, row_period
from pefourier.geometry.waves import SinusoidPairs, fit_sinusoid_pairs, recurrence

SAMPLE = 2**9  # rows whose columns are looked at one by one
CYCLIC = 0.05  # share of a wave that rounding to two decimals may take
CONSTANT = 1e-6  # of its norm, by which no code of a constant table differs from the first
SHARE = 1e-3  # of a table that its sinusoids may leave, beside rounding
SEARCHED = 2**21  # numbers of a table up to which other orders of its numbers are tried


@dataclass(frozen=True, eq=False)
class TableFacts:
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

    @property
    def level(self) -> float:
        """Resolution of codes that were computed in float32 at best."""
        return resolutions(self.eps)[-1]

    @cached_property
    def norms(self) -> np.ndarray:
        """Length of each code, shape (n,)."""
        return np.concatenate([row_norms(codes) for _, codes in float_blocks(self.table)])

    @cached_property
    def first(self) -> np.ndarray:
        """Index of the first row that is the same code as each row, shape (n,)."""
        first = self.closest.first
        return np.arange(len(self.table)) if first is None else first

    @cached_property
    def runs(self) -> np.ndarray:
        """Sizes of the runs of rows, each of which starts with a new code."""
        n = len(self.table)
        return np.diff(np.flatnonzero(self.first == np.arange(n)), append=n)

    @cached_property
    def lag_zero(self) -> int | None:
        """The row of lag 0, where rows are those of lags; None: they are not.

        Both sides of it are the same and each column falls or rises all the way out, as in ALiBi,
        or rows come in runs that grow to both ends, as the buckets of T5 and the clip of Shaw do;
        at least two in five stand alone.
        """
        n, first, sizes = len(self.table), self.first, self.runs
        again = np.flatnonzero(first != np.arange(n))
        if len(again) == 0 or n < 5:
            return None
        middle = int(again[0] + first[again[0]]) // 2
        folded = len(again) == min(middle, n - 1 - middle)  # one side of the middle on the other
        if 1 < middle < n - 2 and folded and (first[again] == 2 * middle - again).all():
            far = self.table[middle:] if n > 2 * middle else self.table[middle::-1]
            steps = np.diff(np.asarray(far, dtype=float), axis=0)
            return middle if ((steps <= 0).all(axis=0) | (steps >= 0).all(axis=0)).all() else None
        if len(sizes) < 3:
            return None
        outwards = sizes[len(sizes) // 2 : -1]  # the last may be cut off
        in_runs = (np.diff(first) >= 0).all() and (sizes == sizes[::-1]).all() and len(sizes) % 2
        grows = outwards[:1] == 1 and (np.diff(outwards) >= -1).all() and (sizes == 1).mean() >= 0.4
        return n // 2 if in_runs and grows else None

    @cached_property
    def divisor(self) -> int | None:
        """The number of rows that share a code each time, but for the ends; None: it varies."""
        sizes = self.runs
        if len(sizes) < 4 or (np.diff(self.first) < 0).any() or np.ptp(sizes[1:-1]):
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
        return self.are_waves(rows[:, ~np.isin(rows, (0.0, 1.0)).all(axis=0)], CYCLIC)

    def are_waves(self, rows: np.ndarray, share: float = SHARE) -> bool:
        """Whether each column of some rows is one sinusoid."""
        return rows.shape[1] == 0 or recurrence(rows, 1)[1] < share + 4 * self.eps * (share < 0.01)

    @cached_property
    def of_phases(self) -> bool:
        """Whether columns are lines through 0 of different slopes."""
        rows = self.sample
        if len(rows) < 4 or rows.shape[1] < 2 or rows[0].any() or np.ptp(rows[1]) == 0:
            return False
        lines = np.arange(len(rows))[:, None] * rows[-1] / (len(rows) - 1)
        return bool((rows[1] > 0).all() and (abs(rows - lines) <= 8 * self.level * lines).all())

    @cached_property
    def sample(self) -> np.ndarray:
        """Some rows from the start, without columns of zeros at the end."""
        rows = np.asarray(self.table[:SAMPLE], dtype=float)
        used = np.flatnonzero(rows.any(axis=0))
        return rows[:, : used[-1] + 1] if len(used) else rows[:, :0]

    @cached_property
    def one_wave(self) -> tuple[PairWaves, np.ndarray] | None:
        """Cosines alone, or sines alone, each column once or twice, that turn; and their slack."""
        if min(self.sample.shape) < 4 or self.pairs is not None:
            return None
        return fit_single_wave(self.sample, self.level) if self.are_waves(self.sample) else None

    @cached_property
    def pairs(self) -> SinusoidPairs | None:
        """Pairs of columns that turn by equal steps, with rounding as in float32 allowed for."""
        if len(self.sample) < 3 or self.sample.shape[1] < 4:
            return None
        pairs = fit_sinusoid_pairs(self.sample, self.level)
        turn = pairs and self.are_waves(self.sample[:, np.append(pairs.sines, pairs.cosines)])
        return pairs if turn else None


def row_norms(codes: np.ndarray) -> np.ndarray:
    """Length of each row, above zero wherever a number is.

    >>> row_norms(np.array([[3e-200, 4e-200], [0.0, 0.0]]))
    array([5.e-200, 0.e+000])
    """
    norms = np.linalg.norm(codes, axis=1)
    tiny = np.flatnonzero((norms < 1e-150) & codes.any(axis=1))  # squares that are no numbers
    top = np.abs(codes[tiny]).max(axis=1, initial=0.0)
    norms[tiny] = top * np.linalg.norm(codes[tiny] / top[:, None], axis=1)
    return norms


def is_constant(table: np.ndarray) -> bool:
    """Whether all rows are alike to 1e-6 of their norm: the output does not depend on position.

    >>> noise = 1e-7 * np.random.default_rng(0).normal(size=(9, 4))
    >>> is_constant(np.ones((9, 4)) + noise), is_constant(np.ones((9, 4)) + 1e3 * noise)
    (True, False)
    """
    start = np.asarray(table[0], dtype=float)
    reach = CONSTANT * row_norms(start[None])
    blocks = (codes for _, codes in float_blocks(table))
    last = np.asarray(table[-1:], dtype=float)  # tells most tables
    return len(table) > 1 and all(
        (row_norms(x - start) <= reach).all() for x in chain([last], blocks)
    )

"""What is wrong with this table? Mistakes known from public code, each with a way out.

A rule is a function that yields its findings about a `TableFacts`; `RULES` lists all,
encodings/findings.toml says each in words, with its severity. Tables of files and of user code are
looked at: by their rows (repeated, zero, of unusual length), by the frequencies of their columns,
and by the formula that all of their rows follow, or most of them (`identify`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import get_args

import numpy as np

from pefourier.diagnosis.identify import (
    SHORT,
    OneWave,
    chosen_digits,
    float_blocks,
    frequencies,
    frequency_slack,
    geometric_grid,
    identify,
    propose_waves,
    read_one_wave,
    resolutions,
    single_frequencies,
    to_digits,
    twin_columns,
)
from pefourier.encodings.columns import Layout, pair_columns
from pefourier.encodings.encoding import Finding, largest_number
from pefourier.encodings.findings import finding
from pefourier.encodings.readings import positions_below
from pefourier.files import read_toml
from pefourier.geometry.closest import ClosestPair
from pefourier.geometry.equal_rows import between_zeros, row_period
from pefourier.geometry.precision import FLOAT32_EPS, FORMATS, phase_rounding, rounded
from pefourier.geometry.randomness import numbers_look_random
from pefourier.geometry.singular_values import Factors
from pefourier.geometry.waves import SinusoidPairs, fit_sinusoid_pairs, recurrence
from pefourier.writing.text import first_few, joined_runs

BASES = Path(__file__).with_name("bases.toml")
SAMPLE = 2**9  # rows whose columns are looked at one by one
CYCLIC = 0.05  # share of a wave that rounding to two decimals may take
CONSTANT = 1e-6  # of its norm, by which no code of a constant table differs from the first
SHORT_EPS = 2.0**-10  # resolution of float16; bfloat16's is coarser
STILL = 1e-3  # radians over a table below which a pair does not turn
WAVES = 1e-3  # share of a table that its sinusoids may leave, beside rounding
SEARCHED = 2**21  # numbers of a table up to which other orders of its numbers are tried
WINDOWS = (64, 16)  # rows in which no row is wrong, where only some are
TILES = 8  # windows of each size that are looked at
TURNS = 5  # a row, up to which the second slowest wave of a ladder is tried
FAST_ROWS = 32  # rows from which fast waves are read: phases in float32 have digits there


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

    def are_waves(self, rows: np.ndarray, share: float = WAVES) -> bool:
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
    def one_wave(self) -> OneWave | None:
        """Cosines alone, or sines alone, each column once or twice, that turn."""
        if min(self.sample.shape) < 4 or self.pairs is not None:
            return None
        residual = recurrence(self.sample, 1)[1]
        wave = residual < WAVES + 4 * self.level
        return read_one_wave(self.sample, self.level, 0) if wave else None

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


def constant_codes(table: np.ndarray) -> Finding:
    """One code for all positions, or none."""
    return finding("constant-codes" if table[0].any() else "zero-codes")


def counted_rows(facts: TableFacts) -> Iterator[Finding]:
    """A first column that numbers the rows, from 0 or 1 on, beside much smaller numbers."""
    (n, d), count = facts.table.shape, facts.table[:, 0]
    if n < 8 or d < 2 or count[0] not in (0, 1) or facts.identified is not None:
        return
    if (count - count[0] == np.arange(n)).all() and largest_number(facts.table[:, 1:]) < n / 4:
        yield finding("counted-rows")


def repeating_codes(facts: TableFacts) -> Iterator[Finding]:
    """Positions that share a code: from some row on, with a period, in steps, or here and there."""
    n, first = len(facts.table), facts.first
    again = np.flatnonzero((first != np.arange(n)) & (facts.norms > 0))
    if len(again) == 0:
        return
    start, period = int(first[-1]), facts.period
    design = facts.identified is not None or facts.is_calendar
    if n - start > 2 and (first[start:] == start).all() and len(again) == n - 1 - start:
        yield finding("clipped-index", start=start, n=n)
    elif period == n - 1 and facts.identified is None and facts.is_calendar:
        yield finding("ends-coincide", name="the table")
    elif period is not None and facts.lag_zero is None and (len(again) > 1 or design):
        distinct = len(np.unique(first[facts.inner]))
        variant = "design" if design else "table"
        yield finding("repeating-codes", variant, period=period, distinct=distinct)
    elif facts.lag_zero is not None:
        yield finding("rows-of-lags", middle=facts.lag_zero, last=n - 1 - facts.lag_zero)
    elif facts.divisor is not None:
        distinct = np.flatnonzero(first == np.arange(n))[:SAMPLE]
        waves = facts.are_waves(np.asarray(facts.table[distinct], dtype=float))
        values = {"divisor": facts.divisor, "distinct": facts.closest.distinct}
        yield finding("positions-divided", "waves" if waves else "steps", **values)
    else:
        yield duplicate_rows(facts, again)


def duplicate_rows(facts: TableFacts, again: np.ndarray) -> Finding:
    """Single rows that repeat earlier ones, as positions or waves in 16 bits do, or for no reason.

    Positions of a format are one where rows are: all of those, two at least, and no row before.
    """
    first, positions = facts.first, np.arange(len(facts.table))
    rows = first_few([f"{j} = {first[j]}" for j in again[:5]])
    values = {"again": len(again), "n": len(positions), "rows": rows}
    for name in SHORT:
        exact, cast = 2 ** FORMATS[name].digits, rounded(positions, FORMATS[name])
        as_cast = np.searchsorted(cast, cast)
        if (first[:exact] == positions[:exact]).all() and (as_cast != positions).sum() > 1:
            if (first == first[as_cast]).all():
                return finding("duplicate-rows", "positions", form=name, most=exact, **values)
    in_step = facts.eps >= SHORT_EPS and follow_waves(facts, np.union1d(again, first[again]))
    return finding("duplicate-rows", "waves" if in_step else "plain", **values)


def follow_waves(facts: TableFacts, rows: np.ndarray) -> bool:
    """Whether rows are what the waves around make of them: x(s+1) + x(s-1) = 2 cos ω x(s)."""
    omega = np.full(facts.sample.shape[1], np.nan)
    if facts.pairs is not None:
        omega[facts.pairs.sines] = omega[facts.pairs.cosines] = facts.pairs.omega
    elif facts.one_wave is not None:
        for place in facts.one_wave.places:
            omega[place] = facts.one_wave.omega
    waves = np.flatnonzero(~np.isnan(omega))
    inner = rows[(rows > 0) & (rows < len(facts.table) - 1)]
    before, here, after = (
        np.asarray(facts.table[inner + k], dtype=float)[:, waves] for k in (-1, 0, 1)
    )
    distance = np.abs(before + after - 2 * np.cos(omega[waves]) * here)
    return len(waves) > 0 and bool((distance <= 8 * facts.eps * np.abs(facts.sample).max()).all())


def phases_alone(facts: TableFacts) -> Iterator[Finding]:
    """Columns in straight lines from 0: phases whose sines and cosines were not taken."""
    if facts.of_phases:
        omega = facts.sample[1]
        yield finding("phases", most=omega.max(), least=omega.min())


def zero_rows(facts: TableFacts) -> Iterator[Finding]:
    """Rows of zeros that are not part of a formula: padding, or rows that were never used."""
    n = len(facts.table)
    zero = np.array(facts.params.get("zero_rows", np.flatnonzero(facts.norms == 0)), dtype=int)
    explained = facts.identified is not None and "zero_rows" not in facts.params
    if facts.is_calendar:  # whose marks may all be 0
        zero = zero[(zero < facts.inner.start) | (zero >= facts.inner.stop)]
    strange = facts.lag_zero is not None or any(alternating_rows(facts))
    if len(zero) == 0 or explained or strange:
        return
    if len(zero) > 1 and zero[0] == n - len(zero):
        yield finding("unused-tail", "zeros", first=zero[0], last=n - 1)
        return
    zero = zero[~ordinary_zeros(facts, zero)]
    if len(zero):
        usual = set(zero.tolist()) <= {0, 1}
        yield finding("padding-row", "usual" if usual else "unusual", rows=row_names(zero))


def ordinary_zeros(facts: TableFacts, zero: np.ndarray) -> np.ndarray:
    """Which rows of zeros are codes like others: of sines at 0, of marks, or next to short ones."""
    if facts.identified is not None:
        return np.zeros(len(zero), dtype=bool)
    live = np.flatnonzero(facts.norms)
    codes = facts.sample[facts.norms[: len(facts.sample)] > 0]
    if np.count_nonzero(codes) <= 0.75 * codes.size:
        return np.ones(len(zero), dtype=bool)
    place = np.searchsorted(live, zero)
    shorter = np.minimum(*(facts.norms[live[np.clip(place - k, 0, len(live) - 1)]] for k in (0, 1)))
    sines = facts.one_wave is not None and facts.one_wave.part == "sin"
    return (shorter <= np.median(facts.norms[live]) / 2) | (sines & (zero == 0))


def unused_tail(facts: TableFacts) -> Iterator[Finding]:
    """Rows at the end that are all less than half as long as all rows before."""
    norms = facts.norms
    if len(norms) < 4 or facts.identified is not None or not norms[-1]:
        return
    shortest = np.minimum.accumulate(np.where(norms > 0, norms, np.inf))[:-1]
    longest = np.maximum.accumulate(norms[::-1])[::-1][1:]
    drop = np.flatnonzero(longest < shortest / 2) + 1
    drop = drop[(drop > 1) & (drop < len(norms) - 1) & np.isfinite(shortest[drop - 1])]
    if len(drop):
        yield finding("unused-tail", "short", first=drop[0], last=len(norms) - 1)


def unusual_lengths(facts: TableFacts) -> Iterator[Finding]:
    """A few rows of quite another length than the others."""
    live = np.flatnonzero(facts.norms)
    if len(live) < 8 or facts.identified is not None:
        return
    norms = facts.norms[live]
    median = np.median(norms)
    away = np.abs(norms - median)
    spread = max(np.median(away), 1e-9 * median)
    far = (away > 10 * spread) & ((norms > 2 * median) | (norms < median / 2))
    if 0 < far.sum() <= max(1, len(norms) // 50):
        rows = first_few([f"{s} ({facts.norms[s] / median:.2g})" for s in live[far][:5]])
        yield finding("norm-outliers", rows=rows)


def alternating_rows(facts: TableFacts) -> Iterator[Finding]:
    """Sines in even rows, cosines in odd ones: x(t+2) + x(t-2) = 2 cos(2w) x(t) holds, not so
    x(t+1) + x(t-1) = 2 cos(w) x(t)."""
    mostly_distinct = facts.closest.distinct > 0.75 * len(facts.table)
    if facts.pairs or len(facts.sample) < 8 or facts.identified or not mostly_distinct:
        return
    (_, next_row), (_, row_after) = recurrence(facts.sample, 1), recurrence(facts.sample, 2)
    if next_row > 0.05 and row_after < WAVES + 4 * facts.eps:
        yield finding("alternating-rows")


def mismatched_pairs(facts: TableFacts) -> Iterator[Finding]:
    """A sine and the cosine of its pair at different frequencies, whichever comes first."""
    rows = facts.sample
    n, d = rows.shape
    if d < 4 or d % 2 or n < 8 or not rows[1:-1].any(axis=0).all():
        return
    start = np.abs(rows[0]) > 0.5 * np.abs(rows).max()
    cosine, residual = recurrence(rows, 1)
    if residual >= WAVES + 4 * facts.eps:
        return
    turns = np.arccos(cosine)
    noise = (2 * facts.eps + n * phase_rounding(turns, FLOAT32_EPS)) / n**0.5 + facts.eps**2
    noise += max(residual - 4 * facts.eps, 0)  # of decay: xpos
    noise *= np.abs(rows).max() / np.sqrt((rows**2).mean(axis=0))  # of sines at pi nothing is left
    error = noise / np.maximum(np.sin(turns), np.sqrt(noise))  # the cosine is flat at 0 and pi
    for layout in get_args(Layout):
        places = pair_columns(layout, d // 2)
        kinds = {tuple(set(start[place])) for place in places}  # sines start at 0, cosines not
        omega, slack = (np.stack([x[place] for place in places], axis=1) for x in (turns, error))
        fast = omega.min(axis=1) > 3 / n
        differ = np.abs(omega[:, 0] - omega[:, 1]) > 1e-3 * omega[:, 0] + slack.max(axis=1)
        differ &= fast
        if kinds == {(True,), (False,)} and (differ.sum() > min(fast.sum() / 2, 2)):
            k = int(np.argmax(differ))
            columns = tuple(np.arange(d)[place][k] for place in places)
            base = (omega[k, 1] / omega[k, 0]) ** -d
            yield finding("mismatched-pairs", turns=omega[k], d=d, columns=columns, base=base)
            return


def useless_frequencies(facts: TableFacts) -> Iterator[Finding]:
    """Pairs that hardly turn, and pairs that all turn alike."""
    if facts.pairs is None:
        return
    omega = facts.pairs.omega
    moving = omega[omega > 0]
    span = max(len(facts.table), 128)
    still = moving[moving * span < STILL]
    steps = -np.diff(np.log(np.sort(moving)[::-1][:3]))
    if len(still) > len(omega) / 2:
        values = {"still": len(still), "pairs": len(omega), "least": STILL, "span": span}
        yield finding("dead-pairs", "still", **values)
    elif len(steps) == 2 and (np.abs(steps - 2) < 1e-3 + 4 * facts.eps).all():
        yield finding("dead-pairs", "exponent")
    if len(moving) > 2 and np.ptp(moving) < 0.01 * moving.max() and len(moving) > len(omega) / 2:
        values = {"moving": len(moving), "pairs": len(omega), "turn": np.median(moving)}
        yield finding("single-frequency", **values)


def aliased_waves(facts: TableFacts) -> Iterator[Finding]:
    """Waves of a geometric grid, some of which turn by more than half a turn from row to row."""
    rows = facts.sample[:FAST_ROWS]
    n, d = rows.shape
    if n < 8 or d < 4 or facts.identified is not None:
        return
    pairs = fit_sinusoid_pairs(rows, facts.level)
    if pairs is None and not facts.are_waves(rows):
        return
    omega = pairs.omega if pairs else single_frequencies(rows[:, twin_columns(rows)[1][0]], 0.0)[0]
    pi, m = np.pi, len(omega)
    for step, turns in product(
        (1, -1), range(-TURNS, TURNS + 1) if m > 3 else ()
    ):  # the slowest first, or last
        second = 2 * pi * abs(turns) + (-1) ** (turns < 0) * omega[::step][1]
        ladder = unfold(omega[::step], second)
        slack = frequency_slack(ladder, facts.level, n)
        sharp = int(np.argmin(np.append(slack < pi / 8, False)))  # phases beyond have no digits
        grid = (
            sharp > 3
            and ladder[:sharp].max() > pi
            and geometric_grid(ladder[:sharp][::step], slack[:sharp][::step], 2 * m)
        )
        if grid:
            exact = frequencies(grid, 2 * m)
            exact *= exact[0] / exact[m - sharp if step < 0 else 0]
            values = {"top": exact.max(), "count": int((exact > pi).sum()), "of": m}
            variant = "divided" if step > 0 and "step" not in grid else "fast"
            yield finding("aliased-waves", variant, rho=1 / grid["rho"], **values)
            return


def unfold(omega: np.ndarray, second: float) -> np.ndarray:
    """Frequencies that grow by one ratio, of which those above half a turn look like slower ones.

    >>> fast = 10.0 ** np.arange(-1, 3)
    >>> np.allclose(unfold(np.abs((fast + np.pi) % (2 * np.pi) - np.pi), 1.0), fast)
    True
    """
    ladder = np.append(omega[:1], np.full(len(omega) - 1, second))
    for k in range(2, len(ladder)):
        if not 0 < ladder[k - 2] < ladder[k - 1] < 1e12:
            return omega
        expected = ladder[k - 1] ** 2 / ladder[k - 2]
        turns = 2 * np.pi * (expected // (2 * np.pi) + np.arange(2))
        aliases = np.concatenate([turns + omega[k], turns - omega[k]])
        ladder[k] = aliases[np.abs(aliases - expected).argmin()]
    return ladder


def unusual_base(facts: TableFacts) -> Iterator[Finding]:
    """A base other than 10000; a power of ten next to it may be a slip."""
    rho, slips = facts.params["rho"], read_toml(BASES)
    rotary = facts.identified["encoding"] == "rope"  # whose bases are many
    known_slips = slips["lost"] + ([] if rotary else slips["near"])
    slip = next((s["why"] for s in known_slips if abs(rho / s["base"] - 1) <= s["within"]), "")
    if rho != 1e4 and (slip or not rotary) and not any(useless_frequencies(facts)):
        yield finding("base", "slip" if slip else "other", rho=rho, slip=slip)


def unusual_conventions(facts: TableFacts) -> Iterator[Finding]:
    """Parameters of a sinusoidal, rotary or DFT table that differ from the papers'."""
    name, p, n = (facts.identified or {}).get("encoding"), facts.params, len(facts.table)
    backwards = "backwards" in p
    if name in ("sinusoidal", "rope"):
        yield from unusual_base(facts)
        if p.get("offset", 0) != 0 and not backwards:
            yield finding("offset", offset=p["offset"])
        if p.get("divisor") == "d/2+0.5":
            yield finding(
                "column-missing", d=facts.table.shape[1], formula=facts.table.shape[1] + 1
            )
        elif p.get("divisor", "d") != "d":
            yield finding("divisor", divisor=p["divisor"])
        if p.get("scale", 1.0) != 1.0:
            yield finding("scale", scale=p["scale"])
        if "step" in p:
            yield finding("step", step=p["step"])
    if backwards and (p["offset"] == n - 1 or (name == "dft" and p["offset"])):
        yield finding("reversed-positions", first=p["offset"])
    elif backwards:
        yield finding("negative-positions", first=p["offset"])
    if name == "rope" and "part" not in p:
        yield finding("cosines-first")


def without_rounding(
    factors: Factors, identified: dict | None, eps: float = FLOAT32_EPS
) -> tuple[Factors, list[Finding]]:
    """Singular values counted above those of a table's differences from its formula, and a note.

    The largest difference is taken as three times their rms. A formula of which a number was read
    from the table differs from it by errors of reading, too, which say nothing of its rank; those
    of the scale are no more than a factor.
    """
    n, d = factors.n, factors.d
    worst = identified["max_difference"] if identified else 0.0
    rms = 0.0 if identified and numbers_read(identified, eps) else worst / 3
    counted = replace(factors, tolerance=max(factors.tolerance, rms * (n**0.5 + d**0.5)))
    if counted.rank == factors.rank:
        return factors, []
    values = {"rank": factors.rank, "left": counted.rank, "worst": worst}
    return counted, [finding("rank-of-rounding", extra=factors.rank - counted.rank, **values)]


def numbers_read(identified: dict, eps: float = FLOAT32_EPS) -> list[str]:
    """Parameters but the scale whose digits may be errors of reading, which a base's are not.

    >>> numbers_read({"params": {"rho": 40889.8, "step": [0.5, 1.234567], "scale": 0.123}})
    ['step']
    """
    digits = chosen_digits(eps)
    return [
        name
        for name, value in identified["params"].items()
        if name not in ("scale", "rho")
        and any(
            isinstance(x, float) and to_digits(x, digits) != x for x in np.ravel(value).tolist()
        )
    ]


def rounded_phases(facts: TableFacts) -> Iterator[Finding]:
    """Codes that follow a formula only as far as phases in float32 let them."""
    worst = facts.identified["max_difference"] if facts.identified else 0.0
    if worst > max(1e-4, 8 * facts.eps) * np.abs(facts.sample).max(initial=0.0):
        yield finding("rounded-phases", worst=worst)


def stored_wider(facts: TableFacts) -> Iterator[Finding]:
    """Numbers with the digits of a format of 16 bits, in a wider one."""
    if facts.eps > facts.stored > 0:
        digits = 1 - int(np.log2(facts.eps))
        yield finding("stored-wider", form={FORMATS[n].digits: n for n in SHORT}[digits])


def dead_columns(facts: TableFacts) -> Iterator[Finding]:
    """Columns that are the same in all rows, where the others are not.

    A cosine too slow to turn stays at the height of the others, and so does a pair of it.
    """
    rows = facts.sample
    if facts.identified is not None or len(rows) < 4 or rows.shape[1] < 4:
        return
    still, slack = np.ptp(rows, axis=0) == 0, 1e-3 + 4 * facts.eps
    if facts.pairs is not None:
        height = facts.pairs.amplitude
        turning = np.abs(height - np.median(height)) <= 10 * slack * height
        still[np.append(facts.pairs.sines[turning], facts.pairs.cosines[turning])] = False
    else:
        top = np.abs(rows[:, ~still]).max(initial=0.0)
        still &= np.abs(np.abs(rows[0]) - top) > slack * top
    if still.sum() in (0, len(still)):
        return
    waves = facts.are_waves(rows[:, ~still]) and still.sum() <= max(1, rows.shape[1] // 8)
    waves &= not facts.is_calendar  # half a period at each step is a sine of zeros
    names = first_few([f"{j} ({rows[0, j]:.3g})" for j in np.flatnonzero(still)])
    values = {"still": still.sum(), "columns": rows.shape[1], "named": names}
    yield finding("dead-columns", "waves" if waves else "others", **values)


def almost_a_formula(facts: TableFacts) -> Iterator[Finding]:
    """A formula that most rows follow and some do not, or that no row follows closely."""
    if facts.identified is not None or any(useless_frequencies(facts)):
        return
    if row_period(facts.first[:-1]) is not None:  # positions start anew, if more than once
        return
    n = len(facts.table)
    for rows in runs_of_rows(facts):
        formula = propose_waves(facts.table, facts.level, rows)
        if formula is None:
            continue
        worst, stray = formula.compare(facts.table, facts.level)
        if len(stray) == 0:  # within rounding, though not proved by `identify`
            return
        if len(stray) <= n / 2:
            repeated = facts.closest.distinct < n  # a finding of `repeating_codes`
            in_front = len(stray) <= n / 8 and stray[-1] == len(stray) - 1
            variant = "known" if repeated else "tokens" if in_front else "alone"
            name = formula_name(formula.encoding, formula.params)
            yield finding("stray-rows", variant, rows=row_names(stray), formula=name, worst=worst)
            return
    yield from transposed(facts) or coarse_frequencies(facts)


def runs_of_rows(facts: TableFacts) -> Iterator[np.ndarray]:
    """Rows of which none may be wrong: those that are distinct, a half of them, some windows."""
    n = len(facts.table)
    s, distinct = np.arange(n), facts.first == np.arange(n)
    yield from (distinct, distinct & (s < n // 2), distinct & (s >= n // 2))
    for size in WINDOWS if n >= 2 * WINDOWS[-1] and facts.table.size <= SEARCHED else ():
        for start in np.linspace(0, n - size, TILES).astype(int) if size <= n else ():
            yield (s >= start) & (s < start + size)


def transposed(facts: TableFacts) -> list[Finding]:
    """A table (d, length), which is a formula's once it is transposed."""
    if facts.table.size > SEARCHED:
        return []
    identified = identify(facts.table.T, facts.eps)
    if identified is None or identified["encoding"] not in ("sinusoidal", "rope", "dft"):
        return []
    d, n = facts.table.shape
    formula = formula_name(identified["encoding"], identified["params"])
    return [finding("transposed", formula=formula, n=n, d=d)]


def coarse_frequencies(facts: TableFacts) -> list[Finding]:
    """Frequencies of a usual grid, rounded to 16 bits before they met the positions."""
    if facts.pairs is not None:
        omega = np.sort(facts.pairs.omega)[::-1]
        slack = frequency_slack(omega, facts.level, len(facts.sample))
    elif facts.one_wave is not None:
        omega, slack = facts.one_wave.omega, facts.one_wave.slack
    else:
        return []
    grid = coarse_grid(omega, slack)
    if grid is None:
        return []
    form, rho, exact = grid
    below = positions_below(exact, rounded(exact, FORMATS[form]))
    return [finding("coarse-frequencies", rho=rho, form=form, below=tuple(below.values()))]


def coarse_grid(omega: np.ndarray, slack: np.ndarray) -> tuple[str, float, np.ndarray] | None:
    """A geometric grid that was rounded to 16 bits: the format, the base, and what it was before.

    Only where frequencies are known far better than such a format would hold them: else any grid
    fits, rounded or not.
    """
    m, i = len(omega), np.arange(len(omega))
    if m < 4 or omega.min() <= 0:
        return None
    rate = float(-(i @ np.log(omega)) / (i @ i))
    last = 2.0 ** (np.floor(np.log2(omega)) + 1)  # digit of a frequency, but for those of a format
    for digits in range(1, 7):
        for half in (m, m - 1):
            rho = to_digits(np.exp(rate * half), digits) if abs(rate * half) < 700 else 1.0
            exact = rho ** (-i / half)
            for name in SHORT:
                cast = rounded(exact, FORMATS[name])
                sharp = 32 * slack < last * 2.0 ** -FORMATS[name].digits
                moved = sharp & (np.abs(cast - exact) > 2 * slack)
                if sharp.sum() >= 4 and (np.abs(cast - omega) <= 2 * slack).all():
                    return (name, rho, exact) if moved.sum() >= 3 else None
    return None


def formula_name(encoding: str, params: dict) -> str:
    """A formula by its name, with its parameters."""
    return f"{encoding} ({', '.join(f'{k}={v}' for k, v in params.items())})"


def row_names(rows: np.ndarray) -> str:
    """Row numbers with runs joined.

    >>> row_names(np.array([3, 5, 6, 7]))
    'rows 3, 5 … 7'
    """
    words = first_few(joined_runs(rows.tolist(), " … "))
    return f"rows {words}" if len(rows) > 1 else f"row {words}"


def near_codes(facts: TableFacts) -> Iterator[Finding]:
    """Codes that are distinct by rounding alone, or that lie in a space of few dimensions.

    Two that are distinct in bfloat16 are no such codes, however near.
    """
    n, d = facts.table.shape
    if facts.identified is not None or n < 2:
        return
    rms, (i, j) = np.sqrt((facts.norms**2).mean()), facts.closest.pair
    if 0 < facts.closest.distance <= max(1e-6, 4 * facts.eps) * rms:
        first, second = rounded(facts.table[[i, j]], FORMATS["bfloat16"])
        if (first == second).all():
            stored = facts.eps >= SHORT_EPS and follow_waves(facts, np.array([i, j]))
            values = {"i": i, "j": j, "apart": facts.closest.distance, "rms": rms}
            yield finding("near-duplicates", "stored" if stored else "free", **values)
    if 0 < facts.rank <= min(facts.closest.distinct, d) // 16 and not facts.of_phases:
        yield finding("low-rank", d=d, rank=facts.rank)


def random_codes(facts: TableFacts) -> Iterator[Finding]:
    """Numbers as they are drawn: no order of positions, and no frequency that stands out."""
    if facts.identified is None and facts.closest.distinct == len(facts.table):
        if numbers_look_random(facts.table):
            yield finding("random-codes")


RULES = (
    counted_rows,
    repeating_codes,
    phases_alone,
    zero_rows,
    unused_tail,
    unusual_lengths,
    alternating_rows,
    mismatched_pairs,
    useless_frequencies,
    aliased_waves,
    unusual_conventions,
    rounded_phases,
    stored_wider,
    dead_columns,
    almost_a_formula,
    near_codes,
    random_codes,
)
RULES_OF_POINTS = (unusual_lengths, random_codes)  # of a grid

r"""Pairs of sinusoids: in which two sides differ, their frequencies, and the position of each row.

Conventions
-----------
Two pairs are equal if their sinusoids agree to rounding. A table determines a frequency up to full
rotations per row. If its first row is not at phase 0, the order of cosines and sines is open, too.
An ambiguity that one table resolves is resolved for both; otherwise the frequency is NaN.

Row s holds :math:`e^{i \omega_k p_s}`, with omega in radians per position and p_s a whole number.
The lowest frequency bounds p_s, each higher frequency narrows the bounds, and all pairs together
confirm p_s to rounding. No position is tried that a lower frequency excludes. If pairs belong to
several axes, each axis is read from its own pairs.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from pefourier.construction.explain import Difference
from pefourier.construction.waves import (
    BLOCK,
    NEAR,
    Complex,
    NumbersAt,
    Waves,
    apart,
    evaluate,
    position_offset,
    unfolded,
    wave_tolerance,
    wrapped,
)
from pefourier.encodings.encoding import FLOAT64_EPS, Wave, row_blocks
from pefourier.geometry.precision import FLOAT32_EPS, phase_rounding
from pefourier.types import Array, Bools, Floats, Indices, Places, frozen, frozen_arrays

COMMON = 1e-3  # radians per row to which a frequency equals another plus full rotations
OTHER: dict[Wave, Wave] = {"cos": "sin", "sin": "cos"}
FITTED = 4  # units of rounding: fitted frequencies are rounded, too
AT_ZERO = 0.01  # of the factor: 16-bit numbers at phase 0 are closer to 0
NARROWER = 2.0  # ratio of successive frequencies used to narrow a position
SHOWN = 4  # runs that a sentence lists


@frozen
class PairDifference:
    """A pair whose rotation differs between two encodings."""

    index: int
    axis: str | None  # of the first and the second, if known: t, or t/y
    first: float | None  # radians per position
    second: float | None
    ratio: float | None  # second over first


def units_apart(a: Waves, b: Waves, waves: NumbersAt, rows: Places) -> Floats:
    """Return the differences (n, m) of b from `waves`, made from a, in units of rounding."""
    eps = max(FLOAT64_EPS if a.is_declared and b.is_declared else FLOAT32_EPS, a.eps, b.eps)
    omega, observed = np.maximum(np.abs(a.frequency), np.abs(b.frequency)), b.numbers(rows)
    limit = wave_tolerance(rows, omega, max(a.factor, b.factor), min(eps, FLOAT32_EPS))
    units = np.zeros(observed.shape)
    with np.errstate(invalid="ignore"):  # NaN: not in the table
        expected, stored = waves(rows), eps if eps > FLOAT32_EPS or b.has_angles else 0.0
        for x, y in ((expected.real, observed.real), (expected.imag, observed.imag)):
            units = np.fmax(units, np.abs(x - y) / (limit + stored * np.abs(y)))
    return units


def excess(a: Waves, b: Waves, waves: NumbersAt, *, stop: bool = False) -> tuple[Floats, Bools]:
    """Return the largest of `units_apart` of each pair (m,), and the rows above 1.

    With `stop`, the comparison ends at the first row above 1.
    """
    n = min(a.length, b.length)
    largest, beyond = np.zeros(len(b)), np.zeros(n, bool)
    blocks = row_blocks(n, BLOCK, len(b))
    parts = chain([np.arange(min(8, n))], (np.arange(k.start, k.stop) for k in blocks))
    chosen = [pairs.rows for pairs in (a, b) if pairs.rows is not None]
    for positions in [chosen[0][chosen[0] < n]] if chosen else parts:
        units = units_apart(a, b, waves, positions)
        largest = np.maximum(largest, units.max(axis=0))
        beyond[positions] = (units > 1).any(axis=1)
        if stop and (largest > 1).any():
            break
    return largest, beyond


def pairs_apart(a: Waves, b: Waves) -> tuple[Bools, Bools]:
    """Return which pairs (m,) differ, or exist in only one, and in which rows any does."""
    if a.has_angles and not b.has_angles:
        return pairs_apart(b, a)
    longer = max(a, b, key=len)
    common = min(len(a), len(b))
    differs = np.abs(longer.frequency) * longer.length > NEAR  # a pair at rest may be missing
    first, second = (pairs.of_pairs(slice(common)) for pairs in (a, b))
    beyond = np.ones(1, bool)  # unknown
    if a.is_declared and b.is_declared:
        omega = np.array([first.frequency, second.frequency])
        slack = 8 * max(a.eps, b.eps) * np.abs(omega).max(axis=0)
        differs[:common] = np.abs(omega[0] - omega[1]) > slack
    else:
        unit = a.factor / b.factor if a.factor and b.factor and not b.has_angles else 1.0
        scaled = replace(second, numbers=lambda p: unit * second.numbers(p), amplitude=a.amplitude)
        scaled = second if abs(unit - 1) < NEAR / 10 else scaled
        expected = offset_waves(first, scaled)
        largest, beyond = excess(first, scaled, expected)
        differs[:common] = largest > 1
    return differs, beyond


def shift_between(a: Waves, b: Waves) -> int | None:
    """Return how many rows later in a the sinusoids of b begin, up to their factor.

    Fitted frequencies must be equal, and hold in all rows of both, within rounding.
    """
    if len(a) != len(b) or a.repeats != b.repeats or a.has_angles or b.has_angles:
        return None
    eps, begins = max(FLOAT32_EPS, a.eps, b.eps), wrapped(b.phase - a.phase, 2 * np.pi)
    slack = slack_of(a.frequency, eps, min(a.length, b.length))
    by = position_offset(begins, a.frequency, eps)
    left = np.array([a.frequency - b.frequency, begins - a.frequency * by])
    limits = slack, 16 * eps + abs(by) * slack
    is_shift = by and (np.abs(wrapped(left, 2 * np.pi)) <= limits).all()  # not if NaN
    return int(by) if is_shift and all(explained_pairs(waves).all() for waves in (a, b)) else None


def slack_of(omega: Floats, eps: float, n: int) -> Floats:
    """Return error bounds of frequencies fitted to some of n rows."""
    return 64 * eps / n + 4 * phase_rounding(np.abs(omega), eps)


def first_difference(a: Waves, b: Waves) -> Difference | None:
    """Return the first row and pair that differ by more than rounding, and both numbers.

    The numbers are the cosines or the sines, whichever differ more.
    """
    first, second = (x.of_pairs(slice(min(len(a), len(b)))) for x in (a, b))
    expected = offset_waves(first, second)
    rows = np.flatnonzero(excess(first, second, expected, stop=True)[1])[:1]
    if not len(rows):
        return None
    pair = int((units_apart(first, second, expected, rows)[0] > 1).argmax())
    x, y = (waves(rows)[:, pair].view(float) for waves in (expected, second.numbers))
    part = np.nan_to_num(np.abs(x - y)).argmax()  # the cosine or the sine
    return Difference((int(rows[0]), pair), float(x[part]), float(y[part]))


def frequencies_apart(a: Waves, b: Waves) -> bool:
    """Whether fitted frequencies differ by more than rounding, whatever the first phases.

    The order of pairs and the direction of rotation are ignored.
    """
    if len(a) != len(b):
        return True
    first, second = (np.sort(np.abs(wrapped(x.frequency, 2 * np.pi))) for x in (a, b))
    slack = slack_of(first, max(a.eps, b.eps), min(a.length, b.length))
    return bool((np.abs(first - second) > slack).any())


def offset_waves(a: Waves, b: Waves) -> NumbersAt:
    """Return the sinusoids of a from the start of b, if both starts are known, or angles like b."""
    is_moved = a.is_declared and b.offset != a.offset and np.isfinite(b.offset - a.offset)
    if not is_moved and (a.has_angles or not b.has_angles):
        return a.numbers
    begin = b.offset if np.isfinite(b.offset) else 0.0
    return lambda rows: evaluate(np.multiply.outer(rows + begin, a.frequency), a.factor, b.form)


def in_one_order(a: Waves, b: Waves) -> tuple[Waves, Waves]:
    """Bring cosines and sines of two sets of pairs into one order if first rows leave it open."""
    begins = [pairs.is_declared or begins_at_zero(pairs) for pairs in (a, b)]
    if len(a) != len(b) or all(begins) or np.sign(a.frequency * b.frequency).sum() >= 0:
        return a, b
    return (a, exchanged_waves(b)) if begins[0] or not begins[1] else (exchanged_waves(a), b)


def begins_at_zero(pairs: Waves) -> bool:
    """Whether every pair has a multiple of 90 degrees as its first phase, to 16 bits."""
    waves = pairs.numbers(np.zeros(1, dtype=int))[0]
    sizes = np.fmin(np.abs(waves.real), np.abs(waves.imag))
    return bool((sizes <= AT_ZERO * pairs.factor).all()) or np.isnan(waves).any()


def exchanged_waves(pairs: Waves) -> Waves:
    """Exchange cosines and sines, which reverses the direction of rotation."""
    if not pairs.form or pairs.form.part != "both":
        return pairs
    turned, form = mirrored(pairs, 1j), replace(pairs.form, first=OTHER[pairs.form.first])
    offset = position_offset(turned.phase, turned.frequency, pairs.eps)
    return replace(turned, form=form, offset=offset)


def mirrored(pairs: Waves, unit: complex = 1.0) -> Waves:
    """Reverse the direction of rotation: conjugate sinusoids, times a complex unit."""
    numbers, phase = pairs.numbers, np.angle(unit * np.exp(-1j * pairs.phase))
    return replace(
        pairs,
        frequency=-pairs.frequency,
        phase=phase,
        numbers=lambda rows: unit * numbers(rows).conj(),
    )


def list_differences(a: Waves, b: Waves, differs: Bools) -> tuple[PairDifference, ...]:
    """List the pairs that differ, with frequencies if these explain all rows."""
    omega = np.full((2, len(differs)), np.nan)
    for own, pairs in zip(omega, (a, b), strict=True):
        is_explained = explained_pairs(pairs)  # a few low frequencies are uncertain
        if is_explained.mean() >= 0.5:
            known = np.where(is_explained, certain_frequencies(pairs), np.nan)
            own[: len(pairs)] = known / pairs.repeats
    differences = []
    for i in np.flatnonzero(differs).tolist():
        first, second = (None if np.isnan(w) else float(w) for w in omega[:, i])
        ratio = second / first if first and second is not None else None
        letters = [pairs.axis[i] for pairs in (a, b) if i < len(pairs.axis)]
        axis = "/".join(dict.fromkeys(letters)) or None
        differences.append(PairDifference(i, axis, first, second, ratio))
    return tuple(differences)


def certain_frequencies(pairs: Waves) -> Floats:
    """Return frequencies (m,), of a geometric series beyond pi per row too; NaN if ambiguous.

    Fitted frequencies grow in one direction from the lowest. Where this order reverses, higher
    frequencies may exceed pi per row and appear lower.
    """
    omega = pairs.frequency
    if pairs.is_declared or pairs.has_angles or not (omega > 0).any() or not (omega < 0).any():
        return omega
    series = unfolded(omega)
    if (np.abs(wrapped(series - omega, 2 * np.pi)) <= COMMON).all() and not np.ptp(np.sign(series)):
        return series
    up, down = (
        np.cumprod(np.append(slow[0] != 0, np.diff(slow * np.sign(slow[0])) > 0)) == 1
        for slow in (omega, omega[::-1])
    )
    return np.where(max(up, down[::-1], key=np.count_nonzero), omega, np.nan)


def explained_pairs(pairs: Waves) -> Bools:
    """Return which pairs (m,) follow their frequency in every row that is known, up to rounding."""
    if pairs.rows is not None:  # of a function, without its first phases
        waves = evaluate(np.multiply.outer(pairs.rows, pairs.frequency), pairs.factor)
        limit = FITTED * wave_tolerance(pairs.rows, pairs.frequency, pairs.factor, pairs.eps)
        return np.asarray((apart(pairs.numbers(pairs.rows), waves) <= limit).all(axis=0))
    if pairs.residual is None:
        return np.ones(len(pairs), bool)

    def fitted(rows: Places) -> Complex:
        phases = np.multiply.outer(rows // pairs.repeats, pairs.frequency) + pairs.phase
        return evaluate(phases, pairs.factor, pairs.form)

    return pairs.even & (excess(pairs, pairs, fitted)[0] <= FITTED)


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

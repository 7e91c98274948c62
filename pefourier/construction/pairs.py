"""Pairs in which two tables or rotations differ, and their frequencies as far as rows show them.

Conventions
-----------
Two pairs are equal if their sinusoids agree to rounding. A table determines a frequency up to full
rotations per row. If its first row is not at phase 0, the order of cosines and sines is open, too.
An ambiguity that one table resolves is resolved for both; otherwise the frequency is NaN.
"""

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
    evaluate,
    position_offset,
    wave_tolerance,
    wrapped,
)
from pefourier.encodings.encoding import FLOAT64_EPS, Wave, row_blocks
from pefourier.geometry.precision import FLOAT32_EPS, phase_rounding
from pefourier.types import Bools, Floats, Places, frozen

COMMON = 1e-3  # relative tolerance for equal ratios of frequencies
OTHER: dict[Wave, Wave] = {"cos": "sin", "sin": "cos"}
FITTED = 4  # units of rounding: fitted frequencies are rounded, too
AT_ZERO = 0.01  # of the factor: 16-bit numbers at phase 0 are closer to 0


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
    eps, n = max(FLOAT32_EPS, a.eps, b.eps), min(a.length, b.length)
    slack = 64 * eps / n + 4 * phase_rounding(np.abs(a.frequency), eps)
    if (np.abs(wrapped(a.frequency - b.frequency, 2 * np.pi)) > slack).any():
        return None
    begins = wrapped(b.phase - a.phase, 2 * np.pi)
    by = position_offset(begins, a.frequency, eps)
    if not by or not np.isfinite(by):
        return None
    left = np.abs(wrapped(begins - a.frequency * by, 2 * np.pi))
    is_shift = (left <= 16 * eps + abs(by) * slack).all()
    return int(by) if is_shift and all(explained_pairs(waves).all() for waves in (a, b)) else None


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
    x, y = expected(rows)[0, pair], second.numbers(rows)[0, pair]
    parts = ((float(x.real), float(y.real)), (float(x.imag), float(y.imag)))
    numbers = max(parts, key=lambda part: np.nan_to_num(abs(part[0] - part[1])))
    return Difference((int(rows[0]), pair), *numbers)


def frequencies_apart(a: Waves, b: Waves) -> bool:
    """Whether fitted frequencies differ by more than rounding, whatever the first phases.

    The order of pairs and the direction of rotation are ignored.
    """
    if len(a) != len(b):
        return True
    eps = max(a.eps, b.eps)
    first, second = (np.sort(np.abs(wrapped(x.frequency, 2 * np.pi))) for x in (a, b))
    slack = 64 * eps / min(a.length, b.length) + 4 * phase_rounding(first, eps)
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
    waves, form = pairs.numbers, replace(pairs.form, first=OTHER[pairs.form.first])
    start = np.angle(1j * waves(np.zeros(1, dtype=int))[0].conj())
    return replace(
        pairs,
        frequency=-pairs.frequency,
        phase=start,
        form=form,
        numbers=lambda rows: 1j * waves(rows).conj(),
        offset=position_offset(start, -pairs.frequency, pairs.eps),
    )


def list_differences(a: Waves, b: Waves, differs: Bools) -> tuple[PairDifference, ...]:
    """List the pairs that differ, with frequencies if these explain all rows."""
    omega = np.full((2, len(differs)), np.nan)
    common = min(len(a), len(b))
    omega[:, :common] = unfolded(*(pairs.of_pairs(slice(common)) for pairs in (a, b)))
    for own, pairs in zip(omega, (a, b), strict=True):
        own[common : len(pairs)] = pairs.frequency[common:]
        is_explained = explained_pairs(pairs)  # a few low frequencies are uncertain
        own[: len(pairs)][~is_explained | (is_explained.mean() < 0.5)] = np.nan
        own[:] = own / pairs.repeats
    differences = []
    for i in np.flatnonzero(differs).tolist():
        first, second = (None if np.isnan(w) else float(w) for w in omega[:, i])
        ratio = second / first if first and second is not None else None
        letters = [pairs.axis[i] for pairs in (a, b) if i < len(pairs.axis)]
        axis = "/".join(dict.fromkeys(letters)) or None
        differences.append(PairDifference(i, axis, first, second, ratio))
    return tuple(differences)


def unfolded(a: Waves, b: Waves) -> Floats:
    """Return frequencies (2, m), aliased ones resolved by the other set; NaN if unknown."""
    is_certain = np.array([certain_pairs(pairs) for pairs in (a, b)])
    omega = np.array([a.frequency, b.frequency], dtype=float)
    shared = is_certain.all(axis=0) & (omega != 0).all(axis=0)
    ratios = omega[1, shared] / omega[0, shared]
    middle = float(np.sort(ratios)[len(ratios) // 2]) if len(ratios) > 1 else np.nan
    ratio = middle if len(ratios) > 1 and np.ptp(ratios) <= COMMON * abs(middle) else np.nan
    expected = np.array([omega[1] / ratio, omega[0] * ratio])
    fits = is_certain[::-1] & (np.abs(wrapped(omega - expected, 2 * np.pi)) <= COMMON)
    return np.where(is_certain, omega, np.where(fits, expected, np.nan))


def certain_pairs(pairs: Waves) -> Bools:
    """Return which frequencies (m,) are unambiguous: declared, or fitted without aliasing.

    Frequencies grow in one direction from the lowest. Where this order reverses, higher
    frequencies may exceed pi per row and appear lower.
    """
    omega = pairs.frequency
    if pairs.is_declared or pairs.has_angles or not (omega > 0).any() or not (omega < 0).any():
        return np.ones(len(omega), bool)
    up, down = (
        np.cumprod(np.append(slow[0] != 0, np.diff(slow * np.sign(slow[0])) > 0)) == 1
        for slow in (omega, omega[::-1])
    )
    return np.asarray(max(up, down[::-1], key=np.count_nonzero))


def explained_pairs(pairs: Waves) -> Bools:
    """Return which pairs (m,) follow their frequency in every row of a table, up to rounding."""
    if pairs.residual is None or pairs.rows is not None:
        return np.ones(len(pairs), bool)

    def fitted(rows: Places) -> Complex:
        phases = np.multiply.outer(rows // pairs.repeats, pairs.frequency) + pairs.phase
        return evaluate(phases, pairs.factor, pairs.form)

    return pairs.even & (excess(pairs, pairs, fitted)[0] <= FITTED)

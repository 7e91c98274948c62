r"""Frequencies of the pairs of a rotation, or of a table of its cosines and sines.

Conventions
-----------
Pair i has the sinusoids :math:`a \cos \omega_i (p + o)` and :math:`a \sin \omega_i (p + o)` at
position p. Here omega is in radians per position, signed, o is the offset and a the factor.
Tables hold cosines, sines or both, each once or twice, or the angles themselves. Frequencies of
tables are fitted to increasingly distant rows. Two pairs are equal if their sinusoids agree to
rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.columns import Layout, split_pairs
from pefourier.encodings.domain import Bools as Bools
from pefourier.encodings.domain import Places as Places
from pefourier.encodings.domain import distinct
from pefourier.encodings.encoding import (
    FLOAT64_EPS,
    Encoding,
    Floats,
    ShiftInvariantEncoding,
    row_blocks,
)
from pefourier.geometry.precision import (
    FLOAT32_EPS,
    phase_errors,
    phase_rounding,
    stored_resolution,
)

BLOCK = 2**20  # numbers compared at a time
SAMPLE = 512  # rows that determine the form of a table
NEAR = 1e-3  # of the factor: relative tolerance on amplitudes and slow rotation
Part = Literal["both", "cos", "sin", "angles"]
Complex = NDArray[np.complex128]
Waves = Callable[[Places], Complex]  # positions (n,) -> sinusoids (n, m)


@dataclass(frozen=True)
class PairForm:
    """Columns in which a table holds the cosines and sines of its pairs."""

    part: Part
    layout: Layout = "halves"  # of the cosine and the sine of a pair
    copies: Layout | None = None  # of equal columns, if each column occurs twice
    first: Literal["cos", "sin"] = "cos"

    def waves(self, table: NDArray[Any]) -> Complex:
        """Return cosines and sines (n, m) of the rows of a table (n, d); NaN for missing ones."""
        table = np.asarray(table, dtype=float)
        parts = [*split_pairs(table, self.layout)] if self.part == "both" else [table]
        if self.copies is not None:
            parts = [split_pairs(part, self.copies)[0] for part in parts]
        waves = np.full(parts[0].shape, np.nan + 1j * np.nan)
        if self.part == "both":
            waves.real, waves.imag = parts if self.first == "cos" else parts[::-1]
        elif self.part == "sin":
            waves.imag = parts[0]
        else:
            waves.real = parts[0]
        return waves


@dataclass(frozen=True, eq=False)
class PairWaves:
    """Pairs of a rotation, of an additive encoding of sinusoids, or of a table."""

    omega: Floats  # (m,) radians per position
    factor: float
    waves: Waves
    length: int
    eps: float  # of stored numbers; phases have float32 precision or better
    offset: float = 0.0
    form: PairForm | None = None  # of a table
    axis: tuple[str, ...] = ()  # that rotates each pair, if there are several axes
    repeats: int = 1  # consecutive rows of a table that share an angle
    even: Bools | None = None  # (m,) whether a table's rows have equal steps; None: all
    rows: Places | None = None  # positions to compare; None: all
    moved: float = 0.0  # position of the first row of source code, where phases start

    @property
    def is_declared(self) -> bool:
        """Whether frequencies are declared, not fitted."""
        return self.form is None

    @property
    def has_sines_first(self) -> bool:
        """Whether a table has sines and cosines, in that order."""
        return self.form is not None and self.form.part == "both" and self.form.first == "sin"

    @cached_property
    def odd_rows(self) -> Places:
        """The row whose amplitudes are furthest from the factor: it rules out most readings."""
        blocks = row_blocks(self.length, BLOCK, len(self.omega))
        sizes = (np.abs(self.waves(np.arange(rows.start, rows.stop))) for rows in blocks)
        furthest = [np.abs(size - self.factor).max(axis=1) for size in sizes]
        return np.array([np.concatenate(furthest).argmax()])

    @property
    def has_angles(self) -> bool:
        """Whether a table holds angles instead of cosines and sines."""
        return self.form is not None and self.form.part == "angles"


@dataclass(frozen=True)
class PairDifference:
    """A pair whose rotation differs between two encodings."""

    index: int
    axis: str | None  # of the first and the second, if known: t, or t/y
    first: float | None  # radians per position
    second: float | None
    ratio: float | None  # second over first


def declared_pairs(enc: Encoding, axis: tuple[str, ...] = ()) -> PairWaves | None:
    """Return the pairs of an encoding with declared frequencies on one axis, otherwise None."""
    if not isinstance(enc, ShiftInvariantEncoding) or enc.measure.frequencies.ndim != 1:
        return None
    measure = enc.measure
    if enc.origin != "formula" or len(enc.domain.sides) > 1 or enc.domain.kind == "lag":
        return None
    omega = measure.frequencies * (-1.0 if enc.params.get("backwards") else 1.0)
    if enc.injection == "rotate":
        factor = float(enc.params.get("attention_factor", 1.0))
    else:
        amplitudes = measure.amplitudes
        if np.ptp(amplitudes) > NEAR * amplitudes.max():
            return None
        factor = float(amplitudes[0])
    offset = float(np.max(measure.offset))

    def waves(positions: Places) -> Complex:
        return waves_of_phases(np.multiply.outer(positions + offset, omega), factor)

    return PairWaves(omega, factor, waves, len(enc), enc.eps, offset, axis=axis)


def fit_pair_waves(table: NDArray[Any], eps: float) -> PairWaves | None:
    """Fit the pairs of a table (n, d); None if its columns are not sinusoids.

    >>> omega = 100.0 ** (-np.arange(4) / 4)
    >>> angles = np.outer(np.arange(40), 2 * omega)
    >>> fit_pair_waves(np.hstack([np.cos(angles), np.sin(angles)]), 1e-16).omega / omega
    array([2., 2., 2., 2.])
    """
    if len(table) < 3 or not np.any(table[:SAMPLE]):
        return None
    repeats = count_repeats(table)
    steps = table[::repeats]
    if len(steps) < 3:
        return None
    stored = max(eps, FLOAT32_EPS, stored_resolution(np.asarray(table[:SAMPLE], float), eps)[0])
    for form in table_forms(np.asarray(steps[:SAMPLE], float), stored):
        pairs = fit_in_form(steps, form, stored)
        if pairs is not None:
            return replace(
                pairs, repeats=repeats, length=len(table), waves=waves_of_rows(table, form)
            )
    return None


def waves_of_rows(table: NDArray[Any], form: PairForm) -> Waves:
    """Return a function for the cosines and sines of a table, by position."""
    return lambda positions: form.waves(table[positions])


def count_repeats(table: NDArray[Any]) -> int:
    """Return how often each row is repeated consecutively; 1 for most tables.

    >>> count_repeats(np.repeat(np.eye(4), 2, axis=0)), count_repeats(np.eye(4))
    (2, 1)
    """
    changes = np.flatnonzero((table[1:SAMPLE] != table[0]).any(axis=1))
    repeats = int(changes[0]) + 1 if len(changes) else 1
    rows = table[: len(table) // repeats * repeats].reshape(-1, repeats, table.shape[1])
    return repeats if repeats > 1 and (rows == rows[:, :1]).all() else 1


def table_forms(rows: Floats, eps: float) -> list[PairForm]:
    """Return the forms that fit the first rows of a table."""
    forms, tolerance = [], 8 * eps * np.abs(rows).max()
    for layout in LAYOUTS if rows.shape[1] % 2 == 0 else ():
        front, back = split_pairs(rows, layout)
        if not (np.ptp(front**2 + back**2, axis=0) > 3 * tolerance * np.abs(rows).max()).any():
            copies = copies_of(front) and copies_of(back)
            forms.append(PairForm("both", layout, copies, first_wave(front[0], back[0])))
    copies = copies_of(rows)
    return forms + [PairForm(part, copies=copies) for part in wave_parts_of(rows)]


LAYOUTS: tuple[Layout, ...] = ("halves", "interleaved")


def copies_of(rows: NDArray[Any]) -> Layout | None:
    """Return the layout of duplicate columns, if every column occurs twice.

    >>> copies_of(np.array([[1, 2, 1, 2]])), copies_of(np.array([[1, 1, 2, 2]]))
    ('halves', 'interleaved')
    """
    layouts = LAYOUTS if rows.shape[1] % 2 == 0 else ()
    return next((k for k in layouts if np.array_equal(*split_pairs(rows, k))), None)


def first_wave(front: Floats, back: Floats) -> Literal["cos", "sin"]:
    """Return whether cosines or sines come first, since low frequencies start near phase 0.

    >>> first_wave(np.array([0.5, 1.0, 1.0]), np.array([0.8, 0.1, 0.0]))
    'cos'
    """
    return "cos" if np.median(np.abs(front) - np.abs(back)) >= 0 else "sin"


def wave_parts_of(rows: Floats) -> list[Part]:
    """Return the single part (cos, sin or angles) that the columns of a table may hold."""
    if (rows[0] == rows[0, 0]).all() and rows[0, 0] > 0:
        return ["cos"]
    if rows[0].any():
        return []
    line = np.multiply.outer(np.arange(len(rows)), rows[1])
    straight = np.abs(rows - line).max() <= NEAR * np.abs(rows).max()
    return ["angles"] if straight and np.abs(rows).max() > 1.5 else ["sin"]


def fit_in_form(steps: Floats, form: PairForm, eps: float) -> PairWaves | None:
    """Fit the frequencies of a table in a given form; None if the rows contradict the form."""
    n = len(steps)
    rows = distinct(np.concatenate([[0, 1], 2 ** np.arange(1, 40), [n - 1]]))
    rows = rows[rows < n]
    waves = form.waves(steps[rows])
    factor, start = 1.0, np.zeros(waves.shape[1])
    if form.part == "angles":
        omega = (waves.real[-1] - waves.real[0]) / rows[-1]
    elif form.part == "both":
        sizes = np.abs(waves)
        factor = float(np.median(sizes[0]))
        if not factor or (np.ptp(sizes) > 8 * max(eps, NEAR) * factor):
            return None
        start = np.angle(waves[0])
        omega = follow_phases(rows, np.angle(waves / waves[0]))
    elif form.part == "cos":
        factor = float(waves.real[0, 0])
        phases = np.arccos(np.clip(waves.real / factor, -1, 1))
        omega = np.abs(follow_phases(rows, phases, -phases))
    else:
        factor = sine_factor(waves.imag, eps)
        if not factor:  # the first rows are zeros
            return None
        phases = np.arcsin(np.clip(waves.imag / factor, -1, 1))
        falls = np.sign(waves.imag[1]) * waves.imag[2] < 0  # the phase is between pi / 2 and pi
        phases[1] = np.where(falls, np.pi * np.sign(phases[1]) - phases[1], phases[1])
        omega = follow_phases(rows, phases, np.pi - phases)
    sample = distinct(np.linspace(0, n - 1, SAMPLE).astype(int))
    observed = form.waves(steps[sample])
    omega, factor = refine_frequencies(sample, observed, omega, start, factor, form)
    expected = waves_of_phases(np.multiply.outer(sample, omega) + start, factor, form)
    limit = 4 * pair_tolerance(sample, omega, factor, eps)
    limit += np.abs(steps[-1]).max() * eps if form.part == "angles" else 0.0
    even = np.all(apart(observed, expected) <= limit, axis=0)
    if form.part != "both" and not even.any():
        return None
    offset = position_offset(start, omega, eps)
    return PairWaves(omega, factor, waves_of_rows(steps, form), n, eps, offset, form, even=even)


def waves_of_phases(phases: Floats, factor: float, form: PairForm | None = None) -> Complex:
    """Return complex sinusoids (n, m) of phases, or the phases themselves for a table of angles."""
    if form is not None and form.part == "angles":
        return phases.astype(complex)
    waves: Complex = factor * np.exp(1j * phases)
    return waves


def sine_factor(sines: Floats, eps: float) -> float:
    """Return the amplitude of sines (rows, m) from rows 0, 1 and 2 of the highest frequency.

    An amplitude within rounding of 1 is returned as 1.

    >>> sine_factor(3 * np.sin([[0.0], [0.5], [1.0]]), 1e-16).__round__(9)
    3.0
    """
    k = int(np.abs(sines[1]).argmax())
    cosine = np.clip(sines[2, k] / (2 * sines[1, k] or 1.0), -1, 1)
    factor = float(abs(sines[1, k]) / (np.sqrt(1 - cosine**2) or 1.0))
    return 1.0 if abs(factor - 1) < max(NEAR / 10, 4 * eps) else factor


def refine_frequencies(
    positions: Places,
    waves: Complex,
    omega: Floats,
    start: Floats,
    factor: float,
    form: PairForm,
) -> tuple[Floats, float]:
    """Refine frequencies (m,), and the amplitude of sines, by least squares."""
    if form.part == "angles":
        return omega, factor
    for _ in range(4 if form.part == "sin" and factor != 1 else 2):
        expected = waves_of_phases(np.multiply.outer(positions, omega) + start, factor, form)
        slopes, residual = 1j * positions[:, None] * expected, waves - expected
        products = squares = 0.0
        for slope, error in ((slopes.real, residual.real), (slopes.imag, residual.imag)):
            products = products + np.nansum(slope * error, axis=0)  # NaN: not in the table
            squares = squares + (slope**2 * ~np.isnan(error)).sum(axis=0)
        step = products / np.maximum(squares, 1e-300)
        omega = omega + np.where(np.abs(step) * positions[-1] < 1, step, 0.0)
        if form.part == "sin" and factor != 1:
            sines = np.sin(np.multiply.outer(positions, omega))
            factor = float(np.vdot(sines, waves.imag) / np.vdot(sines, sines))
    return omega, factor


def follow_phases(rows: Places, phases: Floats, mirrored: Floats | None = None) -> Floats:
    """Return frequencies (m,) of phases (rows, m); row numbers start 0, 1 and at most double.

    A cosine alone also allows the opposite phase, and a sine alone pi minus the phase. From row 2
    on, the nearer of the two is used.
    """
    omega: Floats = phases[1] / rows[1]
    for k in range(2, len(rows)):
        steps = [np.angle(np.exp(1j * (phases[k] - rows[k] * omega)))]
        if mirrored is not None:
            steps.append(np.angle(np.exp(1j * (mirrored[k] - rows[k] * omega))))
        is_nearer = np.abs(steps[0]) <= np.abs(steps[-1])
        omega = omega + np.where(is_nearer, steps[0], steps[-1]) / rows[k]
    return omega


def position_offset(start: Floats, omega: Floats, eps: float) -> float:
    """Return the position offset that explains the first phase of all pairs; NaN without one.

    >>> position_offset(np.array([3.0, 0.3]) - [2 * np.pi, 0], np.array([3.0, 0.3]), 1e-9)
    1.0
    """
    moved = np.abs(start) > 16 * eps
    if not moved.any():
        return 0.0
    slow = np.where(moved & (omega != 0), np.abs(omega), np.inf).argmin()
    offset = float(start[slow] / omega[slow]) if omega[slow] else np.nan
    steps = float(np.rint(offset)) if np.isfinite(offset) else np.nan
    residual = np.angle(np.exp(1j * (start - omega * steps)))
    return steps if (np.abs(residual) < 1e-2).all() else np.nan


def pair_tolerance(positions: NDArray[Any], omega: Floats, factor: float, eps: float) -> Floats:
    """Return error bounds of sinusoids (n, m) stored to `eps`, with float32 phases or better."""
    phases = phase_errors(positions, np.abs(omega), min(eps, FLOAT32_EPS))
    return abs(factor) * (4 * min(eps, FLOAT32_EPS) + (eps if eps > FLOAT32_EPS else 0) + phases)


def apart(first: Complex, second: Complex) -> Floats:
    """Return the larger difference (n, m) of cosines and sines, ignoring missing parts."""
    real, imag = np.abs(first.real - second.real), np.abs(first.imag - second.imag)
    largest: Floats = np.fmax(np.nan_to_num(real), np.nan_to_num(imag))
    return largest


def waves_differ(a: PairWaves, b: PairWaves, waves: Waves, *, stop: bool = False) -> Bools:
    """Return which pairs (m,) of b differ from `waves` at some position by more than rounding.

    `a` is the source of `waves`; with `stop`, the comparison ends at the first difference.
    """
    n = min(a.length, b.length)
    eps = max(FLOAT64_EPS if a.is_declared and b.is_declared else FLOAT32_EPS, a.eps, b.eps)
    differs = np.zeros(len(b.omega), bool)
    omega = np.maximum(np.abs(a.omega), np.abs(b.omega))
    factor = max(a.factor, b.factor)
    blocks = row_blocks(n, BLOCK, len(omega))
    odd = (b.odd_rows[b.odd_rows < n] for _ in range(stop))  # skipped if the first rows differ
    parts = chain([np.arange(min(8, n))], odd, (np.arange(k.start, k.stop) for k in blocks))
    chosen = [pairs.rows for pairs in (a, b) if pairs.rows is not None]
    for positions in [chosen[0][chosen[0] < n]] if chosen else parts:
        residual = apart(waves(positions), b.waves(positions))
        limit = pair_tolerance(positions, omega, factor, eps)
        limit = limit + (np.abs(b.waves(positions).real) * eps if b.has_angles else 0.0)
        differs |= (residual > limit).any(axis=0)
        if stop and differs.any():
            break
    return differs


def pairs_apart(a: PairWaves, b: PairWaves) -> Bools:
    """Return which pairs (m,) rotate differently in b than in a, or exist in only one of both."""
    if a.has_angles and not b.has_angles:
        return pairs_apart(b, a)
    longer = max(a, b, key=lambda pairs: len(pairs.omega))
    common = min(len(a.omega), len(b.omega))
    differs = np.abs(longer.omega) * longer.length > NEAR  # a pair at rest may be missing
    first, second = (shortened(pairs, common) for pairs in (a, b))
    if a.is_declared and b.is_declared:
        slack = 8 * max(a.eps, b.eps) * np.maximum(np.abs(first.omega), np.abs(second.omega))
        differs[:common] = np.abs(first.omega - second.omega) > slack
    else:
        unit = a.factor / b.factor if a.factor and b.factor and not b.has_angles else 1.0
        scaled = replace(second, waves=lambda p: unit * second.waves(p), factor=a.factor)
        scaled = second if abs(unit - 1) < NEAR / 10 else scaled
        expected = offset_waves(first, scaled)
        differs[:common] = waves_differ(first, scaled, expected)
    if a.axis and b.axis:
        differs[:common] |= np.array(a.axis[:common]) != np.array(b.axis[:common])
    return differs


def frequencies_apart(a: PairWaves, b: PairWaves) -> bool:
    """Whether fitted frequencies differ by more than rounding, whatever the first phases.

    The order of pairs and the direction of rotation are ignored.
    """
    if a.omega.shape != b.omega.shape:
        return True
    eps = max(a.eps, b.eps)
    first, second = (np.sort(np.abs(np.angle(np.exp(1j * pairs.omega)))) for pairs in (a, b))
    slack = 64 * eps / min(a.length, b.length) + 4 * phase_rounding(first, eps)
    return bool((np.abs(first - second) > slack).any())


def offset_waves(a: PairWaves, b: PairWaves) -> Waves:
    """Return the sinusoids of a from the start of b, if both starts are known, or angles like b."""
    shift = b.offset - a.offset
    needs_angles = b.has_angles and not a.has_angles
    if needs_angles or (a.is_declared and np.isfinite(shift) and shift):
        return shifted_waves(a, a.omega, b)
    return a.waves


def shifted_waves(a: PairWaves, omega: Floats, b: PairWaves, divisor: int = 1) -> Waves:
    """Return sinusoids of other frequencies, with the factor of a and the start of b."""
    begin = b.offset if np.isfinite(b.offset) else 0.0

    def waves(positions: Places) -> Complex:
        phases = np.multiply.outer(positions // divisor + begin, omega)
        return waves_of_phases(phases, a.factor, b.form)

    return waves


def shortened(pairs: PairWaves, count: int) -> PairWaves:
    """Return the first `count` pairs."""
    if len(pairs.omega) == count:
        return pairs
    waves = pairs.waves
    return replace(pairs, omega=pairs.omega[:count], waves=lambda p: waves(p)[:, :count])

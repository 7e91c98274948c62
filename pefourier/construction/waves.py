r"""Sinusoids: the pairs of a rotation, an encoding or a table, with frequency, phase and amplitude.

Conventions
-----------
Pair i has :math:`a_i \cos(\omega_i p + \varphi_i)` and :math:`a_i \sin(\omega_i p + \varphi_i)` at
row p of a table, or at place p of a grid, where omega has one component for each axis. Frequencies
are in radians per step, signed. `declared` reads them from a formula, `fit` from a table that holds
cosines, sines or both, each once or twice, or the angles themselves, and `fit_columns` from columns
in any order. Frequencies of tables are fitted to increasingly distant rows.

The real Fourier coefficients of independent normal rows with equal variance, except the mean and
the alternating coefficient, are m independent normal rows again. Three statistics have known
values, and are given as deviations z of about unit variance. The mean of d cos² between two rows is
1: a low rank, as of sinusoids in any order, changes it. The variance of the rows' energies relative
to the mean is 2/d: sinusoids and trends change it. The mean of cos ω weighted by energy, a
correlation of neighbours, is 0: similar neighbours change it. Orthogonal rows are too regular to
pass.
"""

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.encoding import (
    Encoding,
    Layout,
    Wave,
    axis_columns,
    columns_of_blocks,
    distinct,
    split_pairs,
    unit_of,
)
from pefourier.encodings.model_positions import axes_of
from pefourier.geometry.precision import (
    FLOAT32_EPS,
    phase_errors,
    stored_resolution,
)
from pefourier.types import (
    Array,
    Bools,
    Counts,
    Floats,
    Indices,
    Ints,
    Places,
    Table,
    Texts,
    frozen,
    frozen_arrays,
)

BLOCK = 2**20  # numbers compared at a time
SAMPLE = 512  # rows that determine the form of a table
NEAR = 1e-3  # of the factor: relative tolerance on amplitudes and slow rotation
STILL = 8  # units of rounding over a side of a grid, up to which a frequency counts as 0
BENT = 1e-2  # radians per step: largest deviation from a geometric series
LAYOUTS: tuple[Layout, ...] = ("halves", "interleaved")
StoredPart = Literal["both", "cos", "sin", "angles"]
Complex = NDArray[np.complex128]
NumbersAt = Callable[[Any], Complex]  # rows (n,) -> sinusoids (n, m)
QUARTERS = (  # quarter rotations to which a phase is ambiguous, and that all phases are shifted by
    (4, 0),  # full rotations: no sign changes, at any offset
    (4, 1),  # rows in reverse order swap sines and cosines of all pairs
    (4, 2),
    (4, 3),
    (1, 0),
)
SLOWEST = 1e-12  # radians per row from which a period is a possible offset
FEWEST = (16, 8)  # rows and columns that a test needs
ENOUGH = 400  # numbers that a test needs to detect a correlation of neighbours above 1/4
ENDS = 2**9  # rows tested at each end of a table
BEYOND = 4.5  # deviation that about one random normal table in a thousand exceeds


@frozen
class Form:
    """Columns in which a table holds the cosines and sines of its pairs."""

    part: StoredPart
    layout: Layout = "halves"  # of the cosine and the sine of a pair
    copies: Layout | None = None  # of equal columns, if each column occurs twice
    first: Wave = "cos"

    def numbers(self, table: Array) -> Complex:
        """Return cosines and sines (n, m) of the rows of a table (n, d); NaN for missing ones."""
        table = table.astype(float)
        parts = [*split_pairs(table, self.layout)] if self.part == "both" else [table]
        if self.copies:
            parts = [split_pairs(part, self.copies)[0] for part in parts]
        waves = np.full(parts[0].shape, np.nan + 1j * np.nan)
        if self.part == "both":
            waves.real, waves.imag = parts if self.first == "cos" else parts[::-1]
        elif self.part == "sin":
            waves.imag = parts[0]
        else:
            waves.real = parts[0]
        return waves


@frozen_arrays
class Waves:
    """Pairs of sinusoids, declared by a formula or fitted to a table."""

    frequency: Floats  # (m,) radians per step, or (m, axes)
    phase: Floats  # (m,) radians at the first row
    amplitude: Floats  # (m,)
    numbers: NumbersAt  # cosines and sines as stored, by row
    length: int
    eps: float  # of stored numbers; phases have float32 precision or better
    offset: float = 0.0  # in steps, of all phases; NaN: none in common
    form: Form | None = None  # of a table
    columns: Indices = field(default_factory=lambda: np.zeros((2, 0), int))  # cosines and sines of
    # a table on a grid, or with pairs in any order, (2, m)
    residual: Floats | None = None  # (m,) of rows, in units of rounding; None: not a table
    axis: Texts = ()  # that rotates each pair, if there are several axes
    repeats: int = 1  # consecutive rows of a table that share an angle
    rows: Places | None = None  # rows to compare; None: all
    moved: float = 0.0  # position of the first row of source code, where phases start
    sides: Counts = ()  # of the grid of a table

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.frequency)

    @property
    def is_declared(self) -> bool:
        """Whether frequencies are declared, not fitted."""
        return self.form is None

    @cached_property
    def factor(self) -> float:
        """The common amplitude."""
        return float(np.median(self.amplitude))

    @cached_property
    def even(self) -> Bools:
        """Which pairs (m,) have equal steps from row to row, to rounding."""
        return np.ones(len(self), bool) if self.residual is None else self.residual <= 1

    @property
    def has_sines_first(self) -> bool:
        """Whether a table has sines and cosines, in that order."""
        return self.form is not None and self.form.part == "both" and self.form.first == "sin"

    @property
    def has_angles(self) -> bool:
        """Whether a table holds angles instead of cosines and sines."""
        return self.form is not None and self.form.part == "angles"

    def of_pairs(self, pairs: Indices | slice) -> "Waves":
        """Return some of the pairs, or all in another order."""
        numbers, residual, columns = self.numbers, self.residual, self.columns
        return replace(
            self,
            frequency=self.frequency[pairs],
            phase=self.phase[pairs],
            amplitude=self.amplitude[pairs],
            numbers=lambda p: numbers(p)[:, pairs],
            columns=columns[:, pairs] if columns.size else columns,
            residual=None if residual is None else residual[pairs],
        )


def declared(enc: Encoding) -> Waves | None:
    """Return the pairs of an encoding with declared frequencies on one axis, otherwise None."""
    measure, domain = enc.measure, enc.domain
    is_of_rows = enc.origin == "formula" and domain.is_line and domain.kind != "lag"
    if not is_of_rows or not measure.squared_length or measure.frequencies.ndim != 1:
        return None
    omega = measure.frequencies * (-1.0 if enc.params.get("backwards") else 1.0)
    amplitude = np.broadcast_to(measure.amplitudes, omega.shape)
    if enc.injection == "rotate":
        amplitude = np.full(omega.shape, float(enc.params.get("attention_factor", 1.0)))
    elif np.ptp(amplitude) > NEAR * amplitude.max():
        return None
    offset = float(np.max(measure.offset))
    return of_frequencies(omega, float(amplitude[0]), len(enc), enc.eps, offset, axis=axes_of(enc))


def of_frequencies(
    omega: Floats, factor: float, length: int, eps: float, offset: float = 0.0, **facts: Any
) -> Waves:
    """Return the sinusoids of frequencies (m,) from an offset on, with one amplitude."""

    def numbers(positions: Places) -> Complex:
        return evaluate(np.multiply.outer(positions + offset, omega), factor)

    amplitude = np.full(len(omega), factor)
    return Waves(omega, omega * offset, amplitude, numbers, length, eps, offset, **facts)


def evaluate(phases: Floats, factor: float, form: Form | None = None) -> Complex:
    """Return complex sinusoids (n, m) of phases, or the phases themselves for a table of angles."""
    if form is not None and form.part == "angles":
        return phases.astype(complex)
    waves: Complex = factor * np.exp(1j * phases)
    return waves


def fit(table: Array, eps: float, sides: Ints = ()) -> Waves | None:
    """Fit the pairs of a table (n, d), of a line or of a grid; None if columns are not sinusoids.

    >>> omega = 100.0 ** (-np.arange(4) / 4)
    >>> angles = np.outer(np.arange(40), 2 * omega)
    >>> fit(np.hstack([np.cos(angles), np.sin(angles)]), 1e-16).frequency / omega
    array([2., 2., 2., 2.])
    >>> angles = np.arange(12)[:, None] // 4 * np.array([1.0, 0.1])
    >>> found = fit(np.hstack([np.cos(angles), np.sin(angles)]), 1e-16, (3, 4))
    >>> found.frequency.round(9).tolist(), found.columns.tolist()
    ([[1.0, 0.0], [0.1, 0.0]], [[0, 1], [2, 3]])
    """
    if len(sides) > 1:
        return fit_grid(table.astype(float), tuple(sides), max(eps, FLOAT32_EPS))
    if len(table) < 3 or not np.any(table[:SAMPLE]):
        return None
    repeats = count_repeats(table)
    steps = table[::repeats]
    if len(steps) < 3:
        return None
    stored = max(eps, FLOAT32_EPS, stored_resolution(table[:SAMPLE].astype(float), eps)[0])
    for form in table_forms(steps[:SAMPLE].astype(float), stored):
        parts = split_pairs(table, form.layout) if form.part == "both" else [table]
        if form.copies and not all(map(copies_of, parts)):
            continue
        if waves := fit_line(table, repeats, form, stored):
            return waves
    return None


def count_repeats(table: Array) -> int:
    """Return how often each row is repeated consecutively; 1 for most tables.

    >>> count_repeats(np.repeat(np.eye(4), 2, axis=0)), count_repeats(np.eye(4))
    (2, 1)
    """
    changes = np.flatnonzero((table[1:SAMPLE] != table[0]).any(axis=1))
    repeats = int(changes[0]) + 1 if len(changes) else 1
    rows = table[: len(table) // repeats * repeats].reshape(-1, repeats, table.shape[1])
    return repeats if repeats > 1 and (rows == rows[:, :1]).all() else 1


def table_forms(rows: Floats, eps: float) -> list[Form]:
    """Return the forms that fit the first rows of a table."""
    forms, largest = [], np.abs(rows).max()
    for layout in LAYOUTS if rows.shape[1] % 2 == 0 else ():
        front, back = split_pairs(rows, layout)
        if not (np.ptp(front**2 + back**2, axis=0) > 24 * eps * largest**2).any():
            copies = copies_of(front) and copies_of(back)
            if front.shape[1] > 2 and not np.ptp(front, axis=1).any():  # of one frequency
                copies = None
            # low frequencies start near phase 0
            is_cosine = np.median(np.abs(front[0]) - np.abs(back[0])) >= 0
            forms.append(Form("both", layout, copies, "cos" if is_cosine else "sin"))
    copies = copies_of(rows)
    if (rows[0] == rows[0, 0]).all() and rows[0, 0] > 0:
        return [*forms, Form("cos", copies=copies)]
    if rows[0].any():
        return forms
    line = np.multiply.outer(np.arange(len(rows)), rows[1])
    are_angles = largest > 1.5 and np.abs(rows - line).max() <= NEAR * largest
    return [*forms, Form("angles" if are_angles else "sin", copies=copies)]


def copies_of(rows: Array) -> Layout | None:
    """Return the layout of duplicate columns, if every column occurs twice.

    >>> copies_of(np.array([[1, 2, 1, 2]])), copies_of(np.array([[1, 1, 2, 2]]))
    ('halves', 'interleaved')
    """
    layouts = LAYOUTS if rows.shape[1] % 2 == 0 else ()
    return next((k for k in layouts if np.array_equal(*split_pairs(rows, k))), None)


def fit_line(table: Array, repeats: int, form: Form, eps: float) -> Waves | None:
    """Fit the frequencies of a table in a given form; None if the rows contradict the form."""
    steps = table[::repeats]
    n = len(steps)
    rows = np.unique([0, *2 ** np.arange(int(n - 1).bit_length()), n - 1])
    waves = form.numbers(steps[rows])
    factor, start = 1.0, np.zeros(waves.shape[1])
    if form.part == "angles":
        omega = (waves.real[-1] - waves.real[0]) / rows[-1]
    elif form.part == "both":
        sizes = np.abs(waves)
        factor = np.median(sizes[0])
        if not factor or (np.ptp(sizes) > 8 * max(eps, NEAR) * factor):
            return None
        start = np.angle(waves[0])
        omega = follow_phases(rows, np.angle(waves / waves[0]))
    elif form.part == "cos":
        factor = waves.real[0, 0]
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
    observed = form.numbers(steps[sample])
    omega, factor = refine_frequencies(sample, observed, omega, start, factor, form)
    expected = evaluate(np.multiply.outer(sample, omega) + start, factor, form)
    limit = 4 * wave_tolerance(sample, omega, factor, eps)
    limit += np.abs(steps[-1]).max() * eps if form.part == "angles" else 0.0
    residual = (apart(observed, expected) / limit).max(axis=0)
    is_scaled = form.part == "sin" and factor != 1  # by a number that was fitted, too
    if form.part != "both" and (np.median(residual) if is_scaled else residual.min()) > 1:
        return None
    return Waves(
        omega,
        start,
        np.full(len(omega), factor),
        lambda rows: form.numbers(table[rows]),
        len(table),
        eps,
        position_offset(start, omega, eps),
        form,
        residual=residual,
        repeats=repeats,
    )


def sine_factor(sines: Floats, eps: float) -> float:
    """Return the amplitude of sines (rows, m) from rows 0, 1 and 2 of the highest frequency.

    An amplitude within rounding of 1 is returned as 1.

    >>> sine_factor(3 * np.sin([[0.0], [0.5], [1.0]]), 1e-16).__round__(9)
    3.0
    """
    k = np.abs(sines[1]).argmax()
    cosine = np.clip(sines[2, k] / (2 * sines[1, k] or 1.0), -1, 1)
    factor = abs(sines[1, k]) / (np.sqrt(1 - cosine**2) or 1.0)
    return 1.0 if abs(factor - 1) < max(NEAR / 10, 4 * eps) else float(factor)


def refine_frequencies(
    positions: Places,
    waves: Complex,
    omega: Floats,
    start: Floats,
    factor: float,
    form: Form,
) -> tuple[Floats, float]:
    """Refine frequencies (m,), and the amplitude of sines, by least squares."""
    if form.part == "angles":
        return omega, factor
    for _ in range(4 if form.part == "sin" and factor != 1 else 2):
        expected = evaluate(np.multiply.outer(positions, omega) + start, factor, form)
        slope, error = (
            np.vstack([z.real, z.imag])
            for z in (1j * positions[:, None] * expected, waves - expected)
        )
        squares = (slope**2 * ~np.isnan(error)).sum(axis=0)  # NaN: not in the table
        step = np.nansum(slope * error, axis=0) / np.maximum(squares, 1e-300)
        omega = omega + np.where(np.abs(step) * positions[-1] < 1, step, 0.0)
        if form.part == "sin" and factor != 1:
            sines = np.sin(np.multiply.outer(positions, omega))
            factor = np.vdot(sines, waves.imag) / np.vdot(sines, sines)
    return omega, factor


def follow_phases(rows: Places, *ways: Floats) -> Floats:
    """Return frequencies (m,) of phases (rows, m); row numbers start 0, 1 and at most double.

    A cosine alone also allows the opposite phase, and a sine alone pi minus the phase. From row 2
    on, the nearer of the two is used.
    """
    omega: Floats = ways[0][1] / rows[1]
    for k in range(2, len(rows)):
        steps = wrapped(np.array([phases[k] for phases in ways]) - rows[k] * omega, 2 * np.pi)
        nearest = np.abs(steps).argmin(axis=0)
        omega = omega + steps[nearest, np.arange(len(omega))] / rows[k]
    return omega


def position_offset(start: Floats, omega: Floats, eps: float) -> float:
    """Return the position offset that explains the first phase of all pairs; NaN without one.

    >>> position_offset(np.array([3.0, 0.3]) - [2 * np.pi, 0], np.array([3.0, 0.3]), 1e-9)
    1.0
    """
    if (np.abs(start) <= 16 * eps).all():
        return 0.0
    steps = float(np.rint(common_offset(np.abs(omega), start * np.sign(omega), 4)[0]))
    residual = wrapped(start - omega * steps, 2 * np.pi)
    return steps if (np.abs(residual) < 1e-2).all() else np.nan


def wave_tolerance(positions: Array, omega: Floats, factor: float, eps: float) -> Floats:
    """Return error bounds of sinusoids (n, m) stored to `eps`, with float32 phases or better."""
    phases = phase_errors(positions, np.abs(omega), min(eps, FLOAT32_EPS))
    return abs(factor) * (4 * min(eps, FLOAT32_EPS) + (eps if eps > FLOAT32_EPS else 0) + phases)


def apart(first: Complex, second: Complex) -> Floats:
    """Return the larger difference (n, m) of cosines and sines, ignoring missing parts."""
    difference = first - second
    largest: Floats = np.fmax(np.abs(difference.real), np.abs(difference.imag))
    return np.nan_to_num(largest)


def fit_grid(table: Floats, sides: Counts, eps: float) -> Waves | None:
    """Fit the pairs of a table (n, d) on a grid; None if its columns do not pair up."""
    pairs = (p for p in columns_on_grid(table, sides) if on_circles(table, p[0], p[1], eps))
    if (columns := next(pairs, None)) is None:
        return None
    waves: Complex = table[:, columns[0]] + 1j * table[:, columns[1]]
    factor = np.abs(waves[0]).mean()
    if np.ptp(np.abs(waves[0])) > max(2 * eps, NEAR) * factor:
        return None
    if copies := copies_of(waves):
        waves, columns = split_pairs(waves, copies)[0], split_pairs(columns, copies)[0]
    omega, start = fit_phases(waves / factor, sides)
    omega[np.abs(omega) * np.array(sides) <= STILL * eps] = 0.0
    for column in omega.T:
        column[column != 0] = unfolded(column[column != 0])
    speed = np.abs(omega).max(axis=1)
    slow = waves[:, np.where(speed > 0, speed, np.inf).argmin()]
    if np.abs(slow.real).sum() < np.abs(slow.imag).sum():  # slow phases are near 0
        waves, columns = 1j * waves.conj(), columns[::-1]
        omega, start = -omega, np.pi / 2 - start
    amplitude, form = np.full(len(omega), factor), Form("both", copies=copies)
    return Waves(
        omega,
        start,
        amplitude,
        lambda rows: waves[rows],
        len(table),
        eps,
        form=form,
        columns=columns,
        sides=sides,
    )


def columns_on_grid(table: Floats, sides: Counts) -> Iterator[Indices]:
    """Yield candidate columns of cosines and sines, (2, m): halves, interleaved, halves of axes."""
    m = table.shape[1] // 2
    axes = axis_columns(table.reshape(*sides, -1)) or []
    begins = sorted(columns[0] for columns in axes if len(columns))
    blocks = (np.diff([0, *begins[1:], 2 * m]) // 2).tolist()
    for layout, sizes in (("halves", [m]), ("interleaved", [m]), ("axis-halves", blocks)):
        if 2 * sum(sizes) == table.shape[1]:
            yield np.array(columns_of_blocks(layout, sizes))


def fit_phases(waves: Complex, sides: Ints) -> tuple[Floats, Floats]:
    """Fit frequencies (m, axes) and first phases (m,) to sinusoids (n, m), by least squares."""
    grid, places = waves.reshape(*sides, -1), np.indices(sides).reshape(len(sides), -1).T
    lines = [np.moveaxis(grid, axis, 0) for axis in range(len(sides))]
    steps = [(line[1:] * line[:-1].conj()).reshape(-1, waves.shape[1]) for line in lines]
    omega = np.angle([step.sum(axis=0) for step in steps]).T
    left = waves * np.exp(-1j * (places @ omega.T))
    start = np.angle(left.sum(axis=0))
    residual = np.angle(left * np.exp(-1j * start))
    drift = np.linalg.pinv(np.hstack([places, np.ones((len(places), 1))])) @ residual
    return omega + drift[:-1].T, start + drift[-1]


def unfolded(omega: Floats) -> Floats:
    """Unfold frequencies above pi per step, if the lower frequencies of an axis are geometric.

    Other frequencies are returned unchanged.

    >>> unfolded(np.array([8 - 4 * np.pi, 4 - 2 * np.pi, 2, 1, 0.5])).round(9)
    array([8. , 4. , 2. , 1. , 0.5])
    """
    for slow in (omega, omega[::-1]) if len(omega) > 2 else ():
        ladder: Floats = unfold(np.abs(slow), abs(slow[1])) * np.sign(slow[0])
        bends = np.abs(ladder[2:] - ladder[1:-1] ** 2 / ladder[:-2])
        if abs(ladder[0]) < abs(ladder[-1]) and (bends <= BENT).all():
            return ladder if slow is omega else ladder[::-1]
    return omega


def unfold(omega: Floats, second: float) -> Floats:
    """Unfold aliased frequencies that grow by a constant ratio.

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


def fit_columns(rows: Floats, eps: float) -> Waves | None:
    """Fit the columns of consecutive rows (n, d) as sines and cosines; up to two may be left over.

    A pairing fits if the squares of both columns of each pair sum to a constant within rounding to
    `eps`. Two rows are required, since any pairing fits one row. Pairings tried: neighbours,
    halves, the order of the real DFT, and columns matched by their values. Frequencies are in
    (0, pi].
    """
    if len(rows) < 2:
        return None
    unit = unit_of(rows)
    rows = rows * unit
    for first, second in pairings(rows):
        if on_circles(rows[:16], first, second, eps) and on_circles(rows, first, second, eps):
            return measure_pairs(rows, first, second, eps, unit)
    return None


def on_circles(rows: Floats, first: Indices, second: Indices, eps: float) -> bool:
    """Whether the squares of both columns of each pair sum to a constant above zero."""
    squared = rows[:, first] ** 2 + rows[:, second] ** 2
    mean = squared.mean(axis=0)
    return len(first) > 0 and mean.min() > 0 and bool((abs(squared - mean) <= 6 * eps * mean).all())


def pairings(rows: Floats) -> Iterator[tuple[Indices, Indices]]:
    """Yield ways to pair columns, each as two index arrays (m,)."""
    d = rows.shape[1]
    m, column = d // 2, np.arange(d)
    yield column[0 : 2 * m : 2], column[1::2]
    yield column[:m], column[d - m :]
    p = (d + 1) // 2
    yield column[1:p], column[p : 2 * p - 1]
    if len(rows) > 2:
        yield from matchings(rows)


def matchings(rows: Floats) -> Iterator[tuple[Indices, Indices]]:
    """Yield columns matched by squares and by products with the next row.

    Both :math:`u_t^2 + v_t^2` and :math:`u_t u_{t+1} + v_t v_{t+1}` are constant on a circle.
    Weights that sum to zero therefore give opposite numbers for the two columns of a pair. Columns
    that are constant or alternate (the DFT's first and last) are left out if the others pair up.
    """
    rows = rows[:128]
    n = len(rows)
    weights = np.random.default_rng(0).standard_normal((2, n - 1))
    weights -= weights.mean(axis=1, keepdims=True)
    mark = weights[0] @ rows[:-1] ** 2 + weights[1] @ (rows[:-1] * rows[1:])
    order = np.argsort(mark, kind="stable")
    is_still = np.ptp(np.abs(rows), axis=0) <= 1e-6 * np.abs(rows).max()
    for columns in (order[~is_still[order]], order):
        half = len(columns) // 2
        if half and len(columns) % 2 == 0:
            yield columns[half:], columns[:half][::-1]


def measure_pairs(rows: Floats, first: Indices, second: Indices, eps: float, unit: float) -> Waves:
    """Measure frequency, phase and amplitude of each pair; swap columns that rotate backwards.

    Rows are in a `unit`, amplitudes are not.
    """
    z = rows[:, second] + 1j * rows[:, first]
    turns, phase = fit_phases(z, z.shape[:1])
    omega = turns[:, 0]
    back = omega < 0
    return Waves(
        np.abs(omega),
        np.where(back, np.pi / 2 - phase, phase),
        np.sqrt((np.abs(z) ** 2).mean(axis=0)) / unit,
        lambda p: np.where(back, 1j * z[p].conj(), z[p]),
        len(z),
        eps,
        form=Form("both"),
        columns=np.where(back, [first, second], [second, first]),
    )


def align(waves: Waves, slack: Floats, n: int, eps: float) -> tuple[Waves, Indices, float] | None:
    """Rotate pairs by quarters until all phases are omega times one common offset.

    Return the rotated pairs, the signs (2, m) of their cosines and sines, and the offset in rows.
    """
    alignments = []
    omega, phase = waves.frequency, waves.phase
    for order, (quarters, shift) in enumerate(QUARTERS):
        offset, k = common_offset(omega, phase - shift * np.pi / 2, quarters)
        k = (k + shift) % 4
        residual = wrapped(phase - k * np.pi / 2 - omega * offset, 2 * np.pi)
        excess = np.abs(residual) - 8 * eps - slack * n
        if (excess <= 0.05).all():  # with few pairs, some offset fits this well by chance
            alignments.append(((excess > 1e-3).any(), order, offset, k))
    if not alignments:
        return None
    *_, offset, k = min(alignments, key=lambda alignment: alignment[:2])
    # a quarter on, the sine is minus the fitted cosine
    columns = np.where(k % 2 == 1, waves.columns[::-1], waves.columns)
    sign = np.array([np.choose(k, [1, 1, -1, -1]), np.choose(k, [1, -1, -1, 1])])
    return replace(waves, columns=columns), sign, offset


def common_offset(omega: Floats, phase: Floats, quarters: int) -> tuple[float, Indices]:
    """Return the offset in rows and the quarter rotations of each pair, by ascending frequency.

    The lowest frequency gives an offset up to its period; each higher frequency refines it. Of the
    offsets one period apart, that with the smallest residual is returned.
    """
    period = quarters * np.pi / 2

    def refined(start: float) -> tuple[float, float, Indices]:
        offset, weight, apart, k = start, 0.0, 0.0, np.zeros(len(omega), dtype=int)
        for i in np.argsort(omega, kind="stable"):
            residual = float(wrapped(phase[i] - omega[i] * offset, period))
            k[i] = round((phase[i] - omega[i] * offset - residual) / (np.pi / 2)) % 4
            weight += omega[i] ** 2
            apart += residual**2 if weight > omega[i] ** 2 else 0.0
            offset += residual * omega[i] / weight if weight else 0.0
        return apart, offset, k

    slowest = omega[omega > SLOWEST].min(initial=np.inf)
    starts = 0.0, period / slowest, -period / slowest
    _, offset, k = min(map(refined, starts), key=lambda found: round(found[0], 6))
    return offset, k


def wrapped(angle: Floats, period: float) -> Floats:
    """Reduce angles by full rotations, to within half a rotation of zero."""
    return angle - period * np.rint(angle / period)


def recurrence(rows: Floats, lag: int) -> tuple[Floats, float, Floats]:
    r"""Return the cosine of each column's rotation over `lag` rows, and residuals of the fit.

    Residuals are relative to the norm, of all columns and of each. Every sampled sinusoid has
    :math:`x_{t+l} + x_{t-l} = 2 \cos(\omega l)\, x_t`.
    """
    rows = rows * unit_of(rows)
    middle, around = rows[lag:-lag], rows[2 * lag :] + rows[: -2 * lag]
    energy = (middle**2).sum(axis=0)
    cosine = (middle * around).sum(axis=0) / np.where(energy > 0, 2 * energy, 1.0)
    left, norms = around - 2 * cosine * middle, np.linalg.norm(rows, axis=0)
    residual = np.linalg.norm(left) / (np.linalg.norm(norms) or 1.0)
    each = np.linalg.norm(left, axis=0) / np.where(norms > 0, norms, 1.0)
    return np.clip(cosine, -1, 1), float(residual), each


def deviations(rows: Floats) -> Floats:
    """Return the deviations of directions, energies and neighbours from random rows, shape (3,).

    Examples
    --------
    >>> bool(np.abs(deviations(np.random.default_rng(0).normal(size=(64, 32)))).max() < 3)
    True
    >>> bool(np.abs(deviations(np.eye(64))).max() > 30)
    True
    """
    n, d = rows.shape
    waves = np.fft.rfft(rows / (np.abs(rows).max() or 1.0), axis=0)[1 : (n + 1) // 2]
    cosine = np.tile(np.cos(2 * np.pi * np.arange(1, len(waves) + 1) / n), 2)
    products = np.vstack([waves.real, waves.imag])
    products = products @ products.T
    energy = products.diagonal()
    if not energy.min() > 0:
        return np.full(3, np.inf)
    m, relative = len(energy), energy / energy.mean()
    pairs = m * (m - 1) / 2
    excess = d * ((products**2 / np.outer(energy, energy)).sum() - m) / 2 / pairs - 1
    spread = ((relative - 1) ** 2).mean() * d / 2 - 1
    return np.array(
        [
            excess / np.sqrt(2 * (d - 1) / (d + 2) / pairs),
            spread * np.sqrt(m / 2),
            (relative @ cosine) / np.sqrt(2 * (cosine @ cosine) / d),
        ]
    )


def numbers_look_random(table: Table) -> bool:
    """Whether both ends of a table look like independent normal numbers, if long enough to test."""
    ends = table[:ENDS], table[-ENDS:]
    n, d = ends[0].shape
    if n < FEWEST[0] or d < FEWEST[1] or n * d < ENOUGH:
        return False
    return all(np.abs(deviations(rows.astype(float))).max() <= BEYOND for rows in ends)

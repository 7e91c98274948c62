"""Which differences of two tables does rounding explain?

Conventions
-----------
Rounding is half a unit of each table's format at each number, and, for columns that are known to
turn, that of phases: in float32 where a table is no finer, or shows that its own are. It grows with
positions, on a grid with the places along its axes, not with the rows.
"""

from collections.abc import Callable
from math import prod

import numpy as np

from pefourier.encodings.encoding import FLOAT64_EPS, Encoding, Floats, largest_number
from pefourier.encodings.places import axis_lines
from pefourier.geometry.precision import (
    FLOAT32_EPS,
    FORMATS,
    Indices,
    Table,
    has_format,
    phase_errors,
    rounded,
    stored_resolution,
)
from pefourier.geometry.waves import fit_sinusoid_pairs

READ = 2**9  # rows from which frequencies are read
STEEP = 0.8  # a sine beyond which does not tell its phase
TOLD = 2.0**-8  # of a unit of float32, to which a phase has to be known
Allowed = Callable[[Indices], Floats]  # rows (k,) to differences (k, d) that rounding explains


def stored_tolerance(
    a: Table, b: Table, encoding_a: Encoding, encoding_b: Encoding
) -> tuple[Allowed, float]:
    """Differences that rounding explains, by rows, and the coarser eps of what is stored.

    All was computed in float32 or better, and each number then rounded to its table's format, by
    half a unit at most: so were numbers of 16 bits that lie in a wider format.
    """
    stored = [
        enc.eps if enc.origin == "formula" else stored_resolution(t, enc.eps)[0]
        for t, enc in ((a, encoding_a), (b, encoding_b))
    ]
    coarser = max(stored)
    phases = FLOAT32_EPS if has_float32_phases(a) or has_float32_phases(b) else coarser
    computed = rounding_tolerance(a, encoding_a, coarser, phases)
    halves = sum(eps / 2 for eps in stored if eps > FLOAT32_EPS)

    def allowed(rows: Indices) -> Floats:
        limits = computed(rows)
        return limits + halves * (np.abs(a[rows]) + limits) + half_of_least(coarser)

    return allowed, coarser


def half_of_least(eps: float) -> float:
    """Half of the smallest number of a format of 16 bits, by its resolution; 0 of finer formats.

    >>> half_of_least(2.0**-10) * 2**25
    1.0
    """
    coarse = (form for form in FORMATS.values() if form.digits < FORMATS["float32"].digits)
    return next((2.0 ** (f.lowest - f.digits) for f in coarse if 2.0 ** (1 - f.digits) == eps), 0.0)


def has_float32_phases(table: Table) -> bool:
    """Whether waves of a table, maybe finer, have phases in float32, as frequencies then are.

    A column that is 0 or largest in the first row, at phase 0, is a sine or a cosine of one step
    where it first is not, and that phase is a number of float32: of others one in 10^8 is. Cosines
    of short steps do not tell.

    >>> omega = np.float32(1e4) ** -np.linspace(0, 1, 8, dtype=np.float32)
    >>> phases = np.outer(np.arange(4), omega.astype(float))
    >>> has_float32_phases(np.sin(phases)), has_float32_phases(np.cos(phases * (1 + 1e-9)))
    (True, False)
    """
    top = float(np.abs(table[0]).max()) or 1.0
    if (table[:READ] != table[0]).any(axis=0).all():
        table = np.asarray(table[:READ], dtype=float)
    moved = (table != table[0]).argmax(axis=0)
    step = table[moved, np.arange(table.shape[1])].astype(float) / top
    sines = (table[0] == 0) & (moved > 0) & (np.abs(step) < STEEP)
    cosines = (table[0] == top) & (moved > 0) & (np.abs(step) < 1)
    phases = np.abs(np.concatenate([np.arcsin(step[sines]), np.arccos(step[cosines])]))
    slack = 4 * FLOAT64_EPS * np.concatenate([phases[: sines.sum()], 1 / phases[sines.sum() :]])
    is_sharp = slack < TOLD * FLOAT32_EPS * phases
    nearest = rounded(phases[is_sharp], FORMATS["float32"])
    fits = bool((np.abs(nearest - phases[is_sharp]) <= slack[is_sharp]).all())
    return fits and len(nearest) > 0 and has_format(nearest, FORMATS["float32"])


def rounding_tolerance(table: Table, enc: Encoding, eps: float, phases_eps: float) -> Allowed:
    """Differences that computing explains, by rows, of numbers then stored to `eps`.

    Numbers are off by a few units of the largest, in float32 or finer, and phases of columns that
    turn, to `phases_eps`, as `phase_rounding` says.
    """
    size = largest_number(table) + 0.0
    omega = np.zeros(table.shape[1])
    if enc.measure is not None:
        omega += np.abs(enc.measure.frequencies).max()
    steps, lines = steps_and_lines(table, enc)
    samples = (np.asarray(line[:READ], dtype=float) for line in lines)
    fits = (fit_sinusoid_pairs(line, max(eps, FLOAT32_EPS)) for line in samples)
    turning = [pairs for pairs in fits if pairs is not None]
    if turning and len(turning) == len(lines):
        of_pairs = [np.append(pairs.sines, pairs.cosines) for pairs in turning]
        omega[np.concatenate(of_pairs)] = 0.0
        for columns, pairs in zip(of_pairs, turning, strict=True):
            omega[columns] = np.maximum(omega[columns], np.tile(pairs.omega, 2))
    numbers = 4 * min(eps, FLOAT32_EPS)
    return lambda rows: size * (numbers + phase_errors(steps[rows], omega, phases_eps))


def steps_and_lines(table: Table, enc: Encoding) -> tuple[Floats, list[Table]]:
    """By how many steps phases of each row are off those of 0 at most, and rows that turn evenly.

    On a whole grid a line along each axis; of columns that do not turn at all there are none.
    """
    n, sides = len(table), enc.domain.sides
    origin = 0 if enc.measure is None else np.abs(enc.measure.offset).max()
    if len(sides) == 1 or n < prod(sides):
        return np.arange(n) + origin, [table] if n > 2 and table.shape[1] > 1 else []
    lines = axis_lines(table[n - prod(sides) :].reshape(*sides, -1))
    return np.full(n, sum(sides) + origin), [line for line in lines if len(line) > 1]

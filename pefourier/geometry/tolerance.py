"""Differences of two tables that rounding explains.

Conventions
-----------
Each number is rounded by up to half a unit of its table's format. Phases of sinusoidal columns are
rounded too: in float32 if a table is no finer or its phases prove to be float32 numbers. Phase
rounding grows with the position, and on a grid with the coordinates along its axes.
"""

from collections.abc import Callable
from math import prod

import numpy as np

from pefourier.construction.waves import fit_columns
from pefourier.encodings.encoding import FLOAT64_EPS, Encoding, axis_lines
from pefourier.geometry.precision import (
    FLOAT32_EPS,
    FORMATS,
    float_blocks,
    has_format,
    phase_errors,
    rounded,
    stored_resolution,
)
from pefourier.types import Floats, Indices, Table

READ = 2**9  # rows from which frequencies are fitted
STEEP = 0.8  # sine above which the phase cannot be recovered from it
SHARP = 2.0**-8  # required accuracy of a phase, as a share of a float32 unit
Allowed = Callable[[Indices], Floats]  # rows (k,) -> differences (k, d) that rounding explains


def stored_tolerance(
    a: Table, b: Table, encoding_a: Encoding, encoding_b: Encoding
) -> tuple[Allowed, float]:
    """Return the differences that rounding explains, by row, and the coarser stored eps.

    Both tables are assumed to be computed in float32 or better; each number was then rounded to
    its table's format by at most half a unit. This includes 16-bit numbers in a wider format.
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
    """Return half of the smallest number of a format with this resolution; 0 for another.

    >>> half_of_least(2.0**-10) * 2**25
    1.0
    """
    halves = {
        2.0 ** (1 - form.digits): 2.0 ** (form.lowest - form.digits) for form in FORMATS.values()
    }
    return halves.get(eps, 0.0)


def has_float32_phases(table: Table) -> bool:
    """Whether phases of a table's sinusoids are float32 numbers; its own format may be finer.

    A column that is 0 or largest in the first row starts at phase 0. In the first row that differs,
    its number gives the phase of one step. By chance, a phase is a float32 number once in 10^8.
    Cosines of short steps are too imprecise to decide.

    >>> omega = np.float32(1e4) ** -np.linspace(0, 1, 8, dtype=np.float32)
    >>> phases = np.outer(np.arange(4), omega.astype(float))
    >>> has_float32_phases(np.sin(phases)), has_float32_phases(np.cos(phases * (1 + 1e-9)))
    (True, False)
    """
    top = np.abs(table[0]).max() or 1.0
    if (table[:READ] != table[0]).any(axis=0).all():
        table = table[:READ].astype(float)
    moved = (table != table[0]).argmax(axis=0)
    start, step = (table[k, np.arange(table.shape[1])].astype(float) / top for k in (0, moved))
    is_steep = np.abs(step) >= np.where(start == 0, STEEP, 1.0)
    usable = (moved > 0) & ~is_steep & ((start == 0) | (start == 1))
    is_sine, step = start[usable] == 0, step[usable]
    phases = np.abs(np.where(is_sine, np.arcsin(step), np.arccos(step)))
    slack = 4 * FLOAT64_EPS * np.where(is_sine, phases, 1 / phases)
    is_sharp = slack < SHARP * FLOAT32_EPS * phases
    nearest = rounded(phases[is_sharp], FORMATS["float32"])
    fits = bool((np.abs(nearest - phases[is_sharp]) <= slack[is_sharp]).all())
    return fits and len(nearest) > 0 and has_format(nearest, FORMATS["float32"])


def rounding_tolerance(table: Table, enc: Encoding, eps: float, phases_eps: float) -> Allowed:
    """Return the differences that computing explains, by row, of numbers then stored to `eps`.

    Numbers err by a few units of the largest of their column, in float32 or finer. Phases of
    sinusoidal columns err to `phases_eps` (see `phase_rounding`).
    """
    sizes = [np.abs(rows).max(axis=0) for _, rows in float_blocks(table)]
    size = np.max(sizes, axis=0, initial=0.0)
    omega = np.zeros(table.shape[1])
    if enc.measure:
        omega += np.abs(enc.measure.frequencies).max()
    steps, lines = steps_and_lines(table, enc)
    samples = (line[:READ].astype(float) for line in lines)
    fits = (fit_columns(line, max(eps, FLOAT32_EPS)) for line in samples)
    rotating = [pairs for pairs in fits if pairs is not None]
    if rotating and len(rotating) == len(lines):
        of_pairs = [pairs.columns.ravel() for pairs in rotating]
        omega[np.concatenate(of_pairs)] = 0.0
        for columns, pairs in zip(of_pairs, rotating, strict=True):
            omega[columns] = np.maximum(omega[columns], np.tile(pairs.frequency, 2))
    size[omega > 0] = size.max()  # a slow sine is small, its phase errs as that of others
    numbers = 4 * min(eps, FLOAT32_EPS)
    return lambda rows: size * (numbers + phase_errors(steps[rows], omega, phases_eps))


def steps_and_lines(table: Table, enc: Encoding) -> tuple[Floats, list[Table]]:
    """Return how many steps each row is from phase 0 at most, and the lines of evenly spaced rows.

    A complete grid has one line along each axis; axes of a single point have no line.
    """
    n, sides = len(table), enc.domain.sides
    origin = 0 if not enc.measure else np.abs(enc.measure.offset).max()
    if len(sides) == 1 or n < prod(sides):
        return np.arange(n) + origin, [table] if n > 2 and table.shape[1] > 1 else []
    lines = axis_lines(table[n - prod(sides) :].reshape(*sides, -1))
    return np.full(n, sum(sides) + origin), [line for line in lines if len(line) > 1]

r"""Sinusoids on the points of a grid: the columns of pairs, frequencies and coordinates of axes.

Conventions
-----------
Rows are the points of a grid in raster order. Pair i has the columns :math:`a \cos \theta_i` and
:math:`a \sin \theta_i`, each once or twice in the table. If axis k alone sets the phase,
:math:`\theta_i = \sigma_k \rho^{-e_i} (p_k + o_k)`, with scale :math:`\sigma_k` (the frequency of
the axis' first pair), base :math:`\rho`, exponent :math:`e_i` and offset :math:`o_k` in points.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pefourier.diagnosis.wave_formulas import geometric_grid, shortest
from pefourier.encodings.columns import AXES, Layout, describe_axes
from pefourier.encodings.domain import Indices, Places
from pefourier.encodings.encoding import Floats
from pefourier.encodings.places import by_axis
from pefourier.geometry.waves import Complex, apart, common_offset, fit, wave_tolerance

LIMIT = 4  # largest residual of a fitted formula, in units of rounding
SLACKS = (1e-2, 1e-4, 1e-6, 1e-9)  # relative tolerances for shortening fitted bases
ROUNDED = 1e-6  # relative error of fitted scales
STEEP = 0.05  # least power between the frequencies of two bases
FARTHEST = 1e-2  # of the amplitude: largest difference that rounding may explain
SAME = 1e-4  # relative tolerance for equal powers and scales
Changes = dict[str, tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class GridWaves:
    """The pairs of a table on a grid."""

    waves: Complex  # (n, m), of absolute value 1
    sides: tuple[int, ...]
    columns: Indices  # of cosines and of sines, (2, m)
    copies: Layout | None  # if each column occurs twice
    factor: float
    eps: float
    omega: Floats  # (m, axes) radians per step
    start: Floats  # (m,) phase at the first point
    offset: float = 0.0  # largest declared offset of coordinates

    @property
    def is_explained(self) -> bool:
        """Whether the frequencies hold at all points."""
        residual = apart(self.formula(self.omega, self.start), self.waves)
        return bool((residual <= LIMIT * self.limit(self.omega, self.eps)).all())

    def limit(self, omega: Floats, eps: float, offset: float = 0.0) -> Floats:
        """Return the differences that rounding explains, (1, m), for frequencies (m, axes)."""
        steps = np.array([sum(self.sides) + max(self.offset, offset)])
        limit = wave_tolerance(steps, np.abs(omega).max(axis=1), 1.0, eps)
        return np.minimum(limit, FARTHEST)

    def formula(self, omega: Floats, start: Floats) -> Complex:
        """Return sinusoids of other frequencies and first phases on the same grid."""
        places = np.indices(self.sides).reshape(len(self.sides), -1).T
        waves: Complex = np.exp(1j * (places @ omega.T + start))
        return waves


def fit_grid_waves(table: Floats, sides: tuple[int, ...], eps: float) -> GridWaves | None:
    """Fit the pairs of a table (n, d) on a grid; None if its columns do not pair up."""
    waves = fit(table, eps, sides)
    if waves is None or waves.form is None:
        return None
    unit, copies = waves.numbers(np.arange(len(table))) / waves.factor, waves.form.copies
    facts = (copies, waves.factor, waves.eps, waves.frequency, waves.phase)
    return GridWaves(unit, sides, waves.columns, *facts)


def changed_bases(speeds: Floats, pairs: int) -> Iterator[tuple[float, float]]:
    """Yield the base of the frequencies of one axis in two tables (2, m), or 1 if it stays.

    Exponents count the pairs of the axis, or those of all axes.

    >>> next(changed_bases(np.array([[100.0], [1000.0]]) ** (-np.arange(8) / 8), 16))
    (100.0, 1000.0)
    """
    (omega, _), logs, power = speeds, np.log(speeds), 1.0
    if np.ptp(logs[0]) > SAME:
        power = float(np.polyfit(logs[0], logs[1], 1, w=speeds.min(axis=0))[0])
    if abs(power - 1) <= SAME or not STEEP < abs(power) < 1 / STEEP:
        yield 1.0, 1.0
        return
    grids = (geometric_grid(omega, SAME * omega, 2 * count) for count in (len(omega), pairs))
    for base in sorted((grid["rho"] for grid in grids if grid), key=lambda x: len(f"{x:g}"))[:1]:
        yield from dict.fromkeys((base, shortest(base**power, slack)) for slack in SLACKS)


def fit_change(first: GridWaves, second: GridWaves) -> Changes | None:
    """Fit the settings that turn the first into the second: axes, base, and each scale and offset.

    The result is compared with the second to rounding; None if they differ.
    """
    if first.omega.shape != second.omega.shape or len(first.sides) > len(AXES):
        return None
    moves = np.array([waves.omega != 0 for waves in (first, second)])
    axes = np.where(moves.any(axis=2), moves.argmax(axis=2), len(AXES))
    both = np.flatnonzero((moves.sum(axis=2) == 1).all(axis=0))
    if len(both) < 2:
        return None
    speeds = np.array([np.abs(waves.omega).max(axis=1) for waves in (first, second)])
    main = both[axes[1, both] == np.bincount(axes[1, both]).argmax()]
    for base, rho in changed_bases(speeds[:, main], len(both)):
        power = float(np.log(rho) / np.log(base)) if base != 1 else 1.0
        omega, start = np.zeros_like(first.omega), first.start.copy()
        lines = np.tile([[[1.0], [0.0]]], (len(first.sides), 1, 2))  # per axis: scales, offsets
        for k in set(axes[1, both].tolist()):
            mine = both[axes[1, both] == k]
            lines[k], omega[mine, k] = fit_line(first, second, mine, k, power)
            start[mine] = omega[mine, k] * lines[k, 1, 1]
        limit = second.limit(omega, max(first.eps, second.eps), np.abs(lines[:, 1]).max())
        if (apart(second.formula(omega, start), second.waves) <= LIMIT * limit).all():
            shift = len(AXES) - len(first.sides)
            names = [describe_axes(np.minimum(a + shift, len(AXES))) for a in axes]
            is_moved = (axes[0] != axes[1])[both].any()
            changes: Changes = {"axes": (names[0], names[1])} if is_moved else {}
            changes |= {"rho": (base, rho)} if power != 1 else {}
            return changes | changed_lines(lines, first.sides, second.sides)
    return None


def fit_line(
    first: GridWaves, second: GridWaves, mine: Places, axis: int, power: float
) -> tuple[Floats, Floats]:
    """Return scales and offsets of an axis in two tables, ((first, second), …), and frequencies.

    The frequencies of the first, to a power, are in the ratios of those of the second.
    """
    omega, goal = (np.abs(waves.omega[mine]).max(axis=1) for waves in (first, second))
    unit = omega[0]
    if power != 1 and abs(np.log(goal[0]) - power * np.log(unit)) < SAME:
        unit = 1.0  # the exponent of the first pair is not 0
    logs = np.log(goal) - power * np.log(omega / unit)
    scale = float(np.exp(np.average(logs, weights=goal**2)))
    size = np.rint(scale * second.sides[axis]) / second.sides[axis]
    near = ((unit, SAME), (size, ROUNDED))
    scale = next((x for x, slack in near if abs(scale - x) < slack * scale), scale)
    expected = scale * (omega / unit) ** power
    offsets = [
        common_offset(speed, phase, 4)[0]
        for speed, phase in ((omega, first.start[mine]), (expected, second.start[mine]))
    ]
    offset = next((x for x in (offsets[0], 0.0) if abs(offsets[1] - x) < SAME), offsets[1])
    return np.array([[unit, scale], [offsets[0], offset]]), expected


def changed_lines(lines: Floats, *sides: tuple[int, ...]) -> Changes:
    """Return scales (or reference sizes, if scales are shares of sides) and offsets that differ."""
    changes: Changes = {}
    scales, offsets = lines[:, 0].T, np.round(lines[:, 1].T, 4) + 0.0
    sizes = scales * np.array(sides)
    if (scales[0] != scales[1]).any():
        is_size = np.allclose(sizes, np.rint(sizes), rtol=0, atol=SAME)
        key, (a, b) = ("reference", np.rint(sizes)) if is_size else ("scale", scales)
        changes[key] = by_axis(a, 6), by_axis(b, 6)
    if (offsets[0] != offsets[1]).any():
        changes["offset"] = by_axis(offsets[0], 6), by_axis(offsets[1], 6)
    return changes

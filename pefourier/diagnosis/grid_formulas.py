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

from pefourier.diagnosis.frequency_rules import unfold
from pefourier.diagnosis.pairs import NEAR, Complex, Places, apart, copies_of, pair_tolerance
from pefourier.diagnosis.wave_formulas import geometric_grid, shortest
from pefourier.encodings.columns import AXES, Layout, columns_of_blocks, describe_axes, split_pairs
from pefourier.encodings.encoding import Floats
from pefourier.encodings.places import axis_columns, by_axis
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.geometry.waves import SinusoidPairs, common_offset, on_circles

LIMIT = 4  # largest residual of a fitted formula, in units of rounding
STILL = 8  # units of rounding over a side, up to which a frequency counts as 0
SLACKS = (1e-2, 1e-4, 1e-6, 1e-9)  # relative tolerances for shortening fitted bases
ROUNDED = 1e-6  # relative error of fitted scales
STEEP = 0.05  # least power between the frequencies of two bases
BENT = 1e-2  # radians per step: largest deviation from a geometric grid
FARTHEST = 1e-2  # of the amplitude: largest difference that rounding may explain
SAME = 1e-4  # relative tolerance for equal powers and scales
Changes = dict[str, tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class GridWaves:
    """The pairs of a table on a grid."""

    waves: Complex  # (n, m), of absolute value 1
    sides: tuple[int, ...]
    columns: Places  # of cosines and of sines, (2, m)
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
        limit = pair_tolerance(steps, np.abs(omega).max(axis=1), 1.0, eps)
        return np.minimum(limit, FARTHEST)

    def formula(self, omega: Floats, start: Floats) -> Complex:
        """Return sinusoids of other frequencies and first phases on the same grid."""
        places = np.indices(self.sides).reshape(len(self.sides), -1).T
        waves: Complex = np.exp(1j * (places @ omega.T + start))
        return waves


def fit_grid_waves(table: Floats, sides: tuple[int, ...], eps: float) -> GridWaves | None:
    """Fit the pairs of a table (n, d) on a grid; None if its columns do not pair up.

    >>> angles = np.arange(12)[:, None] // 4 * np.array([1.0, 0.1])
    >>> found = fit_grid_waves(np.hstack([np.cos(angles), np.sin(angles)]), (3, 4), 1e-16)
    >>> found.omega.round(9).tolist(), found.columns.tolist()
    ([[1.0, 0.0], [0.1, 0.0]], [[0, 1], [2, 3]])
    """
    eps = max(eps, FLOAT32_EPS)
    pairs = (p for p in column_pairs(table, sides) if on_circles(table, p[0], p[1], eps))
    if (columns := next(pairs, None)) is None:
        return None
    waves: Complex = table[:, columns[0]] + 1j * table[:, columns[1]]
    factor = float(np.abs(waves[0]).mean())
    if np.ptp(np.abs(waves[0])) > NEAR * factor:
        return None
    if copies := copies_of(waves):
        waves, columns = split_pairs(waves, copies)[0], split_pairs(columns, copies)[0]
    omega, start = fit_frequencies(waves / factor, sides, eps)
    speed = np.abs(omega).max(axis=1)
    slow = waves[:, np.where(speed > 0, speed, np.inf).argmin()]
    if np.abs(slow.real).sum() < np.abs(slow.imag).sum():  # slow phases are near 0
        waves, columns = 1j * waves.conj(), columns[::-1]
        omega, start = -omega, np.pi / 2 - start
    return GridWaves(waves / factor, sides, columns, copies, factor, eps, omega, start)


def column_pairs(table: Floats, sides: tuple[int, ...]) -> Iterator[Places]:
    """Yield candidate columns of cosines and sines, (2, m): halves, interleaved, halves of axes."""
    m = table.shape[1] // 2
    axes = axis_columns(table.reshape(*sides, -1)) or []
    begins = sorted(int(columns[0]) for columns in axes if len(columns))
    blocks = (np.diff([0, *begins[1:], 2 * m]) // 2).tolist()
    for layout, sizes in (("halves", [m]), ("interleaved", [m]), ("axis-halves", blocks)):
        if 2 * sum(sizes) == table.shape[1]:
            yield np.array(columns_of_blocks(layout, sizes))


def fit_frequencies(waves: Complex, sides: tuple[int, ...], eps: float) -> tuple[Floats, Floats]:
    """Fit frequencies (m, axes) and first phases (m,) to sinusoids (n, m), by least squares."""
    grid, places = waves.reshape(*sides, -1), np.indices(sides).reshape(len(sides), -1).T
    lines = [np.moveaxis(grid, axis, 0) for axis in range(len(sides))]
    steps = [(line[1:] * line[:-1].conj()).reshape(-1, waves.shape[1]) for line in lines]
    omega = np.angle([step.sum(axis=0) for step in steps]).T
    left = waves * np.exp(-1j * (places @ omega.T))
    start = np.angle(left.sum(axis=0))
    residual = np.angle(left * np.exp(-1j * start))
    drift = np.linalg.pinv(np.hstack([places, np.ones((len(places), 1))])) @ residual
    omega += drift[:-1].T
    omega[np.abs(omega) * np.array(sides) <= STILL * eps] = 0.0
    for column in omega.T:
        column[column != 0] = unfolded(column[column != 0])
    return omega, start + drift[-1]


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
        common_offset(SinusoidPairs(mine, mine, speed, phase, speed), 4)[0]
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

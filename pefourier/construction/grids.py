r"""Comparison of tables on grids: their points, and the sinusoids and coordinates of their axes.

Conventions
-----------
Rows are the points of a grid in raster order, and are compared by their numbers. If one side is a
rotation, or a table that repeats its cosines and sines, rows are compared by their pairs in any
order of columns. Pair i has the columns :math:`a \cos \theta_i` and :math:`a \sin \theta_i`, each
once or twice in the table. If axis k alone sets the phase,
:math:`\theta_i = \sigma_k \rho^{-e_i} (p_k + o_k)`, with scale :math:`\sigma_k` (the frequency of
the axis' first pair), base :math:`\rho`, exponent :math:`e_i` and offset :math:`o_k` in points. A
cause is reported only if it maps the first table to the second within rounding at every common
point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from math import prod
from typing import Any

import numpy as np

from pefourier.construction.alignment import align_tables
from pefourier.construction.explain import Named, Within, explain
from pefourier.construction.identify import geometric_grid
from pefourier.construction.mistakes import LikelyMistake, step_of
from pefourier.construction.operators import rotates
from pefourier.construction.outcome import SIDES, Outcome, Two
from pefourier.construction.pairs import list_differences
from pefourier.construction.rotation_pairs import unsaid_pairing, with_factors
from pefourier.construction.steps import StepChanged, is_scaled
from pefourier.construction.tables import Scaled, TableNumbers, shortest
from pefourier.construction.waves import Waves, apart, common_offset, evaluate, fit, wave_tolerance
from pefourier.encodings.encoding import (
    AXES,
    FLOAT32_EPS,
    WORDS,
    Encoding,
    axis_letters,
    by_axis,
    describe_axes,
    finding,
    lattice_points,
    without_prefix,
)
from pefourier.encodings.families.axial import rows_of_blocks
from pefourier.encodings.grids import size_of
from pefourier.geometry.interpolation import (
    WEIGHTS,
    recovered_sides,
    resize_lattice,
    why_not,
)
from pefourier.geometry.precision import stored_resolution
from pefourier.geometry.tolerance import stored_tolerance
from pefourier.types import (
    Array,
    Bools,
    Counts,
    Fields,
    Floats,
    Places,
    frozen,
    frozen_arrays,
    hidden,
)

LIMIT = 4  # largest residual of a fitted formula, in units of rounding
SLACKS = (1e-2, 1e-4, 1e-6, 1e-9)  # relative tolerances for shortening fitted bases
FITTED = 1e-6  # relative error of fitted scales
STEEP = 0.05  # least power between the frequencies of two bases
FARTHEST = 1e-2  # of the amplitude: largest difference that rounding may explain
SAME = 1e-4  # relative tolerance for equal powers and scales
ALL = slice(None)
GridChanges = dict[str, tuple[Any, Any]]
Law = tuple[tuple[float, float] | None, float]  # bases of both tables, and the power
Line = tuple[tuple[float, float], tuple[float, float]]  # scales and offsets of both tables
UNCHANGED: Law = (None, 1.0)
PAIRED = 2**21  # most numbers of tables for which two causes are tried
LARGEST = 2**25  # largest number of entries of a table whose frequencies are fitted
# codes of settings; all others: coordinates
CAUSES = {"rho": "base", "axes": "axes", "amplitude": "scaled", "sine": "reversed"}
EXCHANGE = str.maketrans("xy", "yx")
SAMPLE = 64  # points compared before all of them
STARTS = 8  # points that may be the first of another table
ROUNDED = 32  # rounding errors of resized numbers, in units of float32
NEXT = 4  # points that may be the second along an axis
NEARLY = 1e-6  # of the largest number: rows this close may be equal
BLOCKS = "blocks of 2 x 2 points"


@frozen_arrays
class Points(TableNumbers):
    """The numbers (n, d) of the points of a grid, real or complex; errors (n, d), or (n, 1)."""

    sides: Counts

    def placed(self, points: Places, sides: Counts) -> Points:
        """Return some of the points as another grid."""
        return Points(self.values[points], self.error[points], sides)


def agree(applied: Points, observed: Points) -> Bools:
    """Return which numbers of points agree; none do where a few of them differ."""
    a, b = applied.values, observed.values
    is_near, few = np.zeros(b.shape, bool), np.linspace(0, len(b) - 1, SAMPLE).astype(int)
    if a.shape != b.shape:
        return is_near
    for rows in (few, slice(None)):
        is_near[rows] = np.abs(a[rows] - b[rows]) <= applied.error[rows]
        if not is_near[few].all():
            break
    return is_near


@frozen
class Placed(Named):
    """Axis k of the observed grid runs along axes[k] of the expected one, in equal steps."""

    name = "placed"
    axes: Counts
    start: Counts  # by axis of the observed grid
    every: Counts
    expected: Counts = hidden()  # sides of both grids
    observed: Counts = hidden()

    @property
    def points(self) -> Places:
        """Row of the expected table for each row of the observed one."""
        index = np.indices(self.observed).reshape(len(self.axes), -1)
        places = np.empty_like(index)
        lines = zip(index, self.axes, self.start, self.every, strict=True)
        for line, axis, first, step in lines:
            places[axis] = first + step * line
        return np.asarray(np.ravel_multi_index(tuple(places), self.expected))

    @property
    def is_crop(self) -> bool:
        """Whether the points are neighbours in the same order."""
        return self.axes == tuple(sorted(self.axes)) and set(self.every) <= {1}

    @property
    def words(self) -> str:
        """The change of points: a crop, every k-th point, and axes exchanged or reversed."""
        letters = axis_letters(len(self.axes))
        moved = [letters[k] for k, axis in enumerate(self.axes) if axis != k]
        texts = []
        if len(moved) == 2:
            texts.append(" and ".join(moved) + " exchanged")
        elif moved:
            texts.append(f"axes in the order {', '.join(letters[k] for k in self.axes)}")
        if flipped := [letters[k] for k in range(len(self.axes)) if self.every[k] < 0]:
            texts.append(" and ".join(flipped) + " reversed")
        for k, letter in enumerate(letters):
            if abs(self.every[k]) > 1 < self.observed[k]:
                texts.append(f"one point in {abs(self.every[k])} along {letter}")
        return ", ".join(texts) or self.spans

    @property
    def spans(self) -> str:
        """First and last point along each axis of the expected grid."""
        texts = []
        for k, letter in enumerate(axis_letters(len(self.axes))):
            last = self.start[k] + self.every[k] * (self.observed[k] - 1)
            texts.append(f"{WORDS.get(letter, letter)} {self.start[k]} to {last}")
        return ", ".join(texts)

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Placed]:
        """Find the first point and the next one along each axis in the expected table."""
        x, y, own = expected.values, observed.values, observed.sides
        if x.shape[1] != y.shape[1] or len(expected.sides) != len(own) or len(x) < len(y):
            return
        grid, starts = np.array(expected.sides), equal_rows(x, y[0])[:STARTS].tolist()
        for sides in dict.fromkeys((own, *permutations(own))):  # sides may be exchanged, too
            lines = [
                equal_rows(x, y[prod(sides[k + 1 :])])[:NEXT].tolist() if side > 1 else [None]
                for k, side in enumerate(sides)
            ]
            for start, ends in product(starts, product(*lines)):
                points = [start if end is None else end for end in ends]
                corner = np.array(np.unravel_index(start, expected.sides))
                steps = np.array(np.unravel_index(points, expected.sides)).T - corner
                moves = len(sides) - ends.count(None)  # an axis with a single point may be any
                for axes in permutations(range(len(sides))):
                    along = steps[range(len(sides)), axes]
                    if not np.count_nonzero(along) == np.count_nonzero(steps) == moves:
                        continue
                    first, step = corner[[*axes]], np.where(along, along, 1)
                    last = first + step * (np.array(sides) - 1)
                    if ((last >= 0) & (last < grid[[*axes]])).all():
                        at = tuple(first.tolist()), tuple(step.tolist())
                        yield cls(axes, *at, expected.sides, sides)
                        break

    def apply(self, expected: Points) -> Points:
        """Return the points of the placement."""
        if expected.sides != self.expected:
            return expected
        return expected.placed(self.points, self.observed)


@frozen
class Blocked(Named):
    """Points are in the order of blocks of 2 x 2 points, or blocks are put in raster order."""

    name = "blocked"
    undone: bool

    @property
    def words(self) -> str:
        """The order of points."""
        return "raster order, blocks of 2 x 2 in the first" if self.undone else BLOCKS

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Blocked]:
        """Propose both orders on grids of even height and width."""
        height, width = expected.sides[-2:]
        if expected.sides == observed.sides and not (height % 2 or width % 2):
            yield from map(cls, (False, True))

    def apply(self, expected: Points) -> Points:
        """Reorder the points."""
        blocks = rows_of_blocks(expected.sides)
        return expected.placed(np.argsort(blocks) if self.undone else blocks, expected.sides)


@frozen
class Snaked(Named):
    """Every second line of points runs backwards."""

    name = "boustrophedon"
    says = "every second line of points reversed"

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Snaked]:
        """Propose it on equal grids."""
        if expected.sides == observed.sides:
            yield cls()

    def apply(self, expected: Points) -> Points:
        """Reverse lines."""
        lines = np.arange(prod(expected.sides)).reshape(-1, expected.sides[-1])
        lines[1::2] = lines[1::2, ::-1]
        return expected.placed(lines.ravel(), expected.sides)


@frozen
class Rolled(Named):
    """Points are rolled along an axis: those that leave at its end come in at its start."""

    name = "rolled"
    axis: int
    by: int
    axes: int = hidden()

    @property
    def words(self) -> str:
        """The axis, and by how many points."""
        letter = axis_letters(self.axes)[self.axis]
        return f"points rolled by {self.by} along {WORDS.get(letter, letter)}"

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Rolled]:
        """Read the shift from the place of the first observed point on each axis."""
        x, y, sides = expected.values, observed.values, expected.sides
        if x.shape != y.shape or sides != observed.sides:
            return
        for start in equal_rows(x, y[0])[:STARTS].tolist():
            for axis, place in enumerate(np.unravel_index(start, sides)):
                if place:
                    yield cls(axis, sides[axis] - int(place), len(sides))

    def apply(self, expected: Points) -> Points:
        """Roll the points."""
        index = np.arange(prod(expected.sides)).reshape(expected.sides)
        rows = np.roll(index, self.by, axis=self.axis).ravel()
        return expected.placed(rows, expected.sides)


@frozen
class Resized(Named):
    """The table was resized to the observed sides."""

    name = "resized"
    method: str
    observed: Counts = hidden()

    @property
    def words(self) -> str:
        """The method, by its name in `resize --method`, and the coefficient of a cubic kernel."""
        cubic = ", a = -0.75" if self.method == "bicubic" else ""
        return f"its grid resized (method {self.method}{cubic})"

    @classmethod
    def propose(cls, expected: Points, observed: Points) -> Iterator[Resized]:
        """Propose each method that can make the observed sides."""
        old, new = expected.sides, observed.sides
        if old != new and len(old) == len(new) and not np.iscomplexobj(observed.values):
            yield from (cls(name, new) for name in WEIGHTS if not why_not(name, old, new))

    def apply(self, expected: Points) -> Points:
        """Resize the numbers; each is a weighted sum, which libraries compute in float32."""
        numbers = resize_lattice(expected.values, expected.sides, self.observed, self.method)
        size = np.abs(expected.values).max(axis=0, initial=0.0)
        largest = expected.error.max(axis=0, initial=0.0) + ROUNDED * FLOAT32_EPS * size
        return Points(numbers, np.tile(largest, (len(numbers), 1)), self.observed)


def equal_rows(table: Array, row: Array) -> Places:
    """Return the rows of a table nearest to a row, the nearest first.

    >>> equal_rows(np.array([[0.0], [2.0], [1.0], [1.0]]), np.array([1.0]))
    array([2, 3])
    """
    distance = np.abs(table - row).max(axis=1)
    return np.flatnonzero(distance <= distance.min() + NEARLY * np.abs(row).max())


PLACEMENTS = (Placed, Blocked, Snaked, Rolled, Resized)


def limit_of(waves: Waves, omega: Floats, eps: float, offset: float = 0.0) -> Floats:
    """Return the differences that rounding explains, (1, m), for frequencies (m, axes)."""
    steps = np.array([sum(waves.sides) + max(waves.offset, offset)])
    return np.minimum(wave_tolerance(steps, np.abs(omega).max(axis=1), 1.0, eps), FARTHEST)


def follow(waves: Waves, omega: Floats, start: Floats, eps: float, offset: float = 0.0) -> bool:
    """Whether all pairs are sinusoids of these frequencies and first phases, to rounding."""
    places = lattice_points([np.arange(side) for side in waves.sides])
    residual = apart(evaluate(places @ omega.T + start, 1.0), waves.numbers(ALL))
    limit = np.minimum(LIMIT * limit_of(waves, omega, eps, offset), FARTHEST)
    return bool((residual <= limit).all())


def laws(speeds: Floats, total: int) -> Iterator[Law]:
    """Yield what may turn the frequencies of an axis in one table into those in another (2, m).

    This is a power of the frequencies, as of another base. Exponents of a base count the pairs of
    the axis, or the `total` of all axes.

    >>> next(laws(np.array([[100.0], [1000.0]]) ** (-np.arange(8) / 8), 8))[0]
    (100.0, 1000.0)
    """
    logs, power = np.log(speeds), 1.0
    if np.ptp(logs[0]) > SAME:
        power = np.polyfit(logs[0], logs[1], 1, w=speeds.min(axis=0))[0]
    if abs(power - 1) <= SAME:
        yield UNCHANGED
    elif STEEP < abs(power) < 1 / STEEP:
        omega = speeds[0]
        grids = (geometric_grid(omega, SAME * omega, 2 * m) for m in (len(omega), total))
        bases = [grid["rho"] for grid in grids if grid]
        if bases:
            base = min(bases, key=lambda rho: len(f"{rho:g}"))
            for rho in dict.fromkeys(shortest(base**power, slack) for slack in SLACKS):
                yield (base, rho), float(np.log(rho) / np.log(base))


def fit_change(first: Waves, second: Waves) -> GridChanges | None:
    """Fit the settings that turn the first into the second: axes, bases and lines.

    The result is compared with the second to rounding; None if they differ.
    """
    omegas, count = (first.frequency, second.frequency), len(first.sides)
    if omegas[0].shape != omegas[1].shape or count > len(AXES):
        return None
    moves = np.array(omegas) != 0
    axes = np.where(moves.any(axis=2), moves.argmax(axis=2), len(AXES))
    is_used = (moves.sum(axis=2) == 1).all(axis=0)
    still, eps = np.flatnonzero(~is_used), max(first.eps, second.eps)
    silent = np.zeros((len(still), count))
    if is_used.sum() < 2 or not follow(second.of_pairs(still), silent, first.phase[still], eps):
        return None
    speeds, letters = np.abs(omegas).max(axis=2), axis_letters(count)
    places = {k: np.flatnonzero(is_used & (axes[1] == k)) for k in range(count)}
    chosen, lines = dict[int, Law](), [((1.0, 1.0), (0.0, 0.0))] * count
    for k in sorted(places, key=lambda k: -len(places[k])):
        mine = places[k]
        if len(mine):
            options = *chosen.values(), UNCHANGED, *laws(speeds[:, mine], is_used.sum())
            both = first.of_pairs(mine), second.of_pairs(mine)
            fits = ((law, line) for law in options if (line := fit_line(*both, k, law[1])))
            if not (found := next(fits, None)):
                return None
            chosen[k], lines[k] = found
    changes = GridChanges()
    if (axes[0] != axes[1])[is_used].any():
        shift = len(AXES) - count
        names = [describe_axes(np.minimum(a + shift, len(AXES))) for a in axes]
        changes["axes"] = names[0], names[1]
    for k, (bases, _) in sorted(chosen.items()):
        if bases:
            changes["rho" if len({*chosen.values()}) == 1 else f"rho along {letters[k]}"] = bases
    changes |= changed_lines(np.array(lines), first.sides, second.sides)
    if is_scaled(first.factor, second.factor, first, second):
        changes["amplitude"] = first.factor, second.factor
    return changes


def fit_line(first: Waves, second: Waves, axis: int, power: float) -> Line | None:
    """Return scales and offsets of an axis in two tables, ((first, second), …).

    The frequencies of the first, to a power, must be in the ratios of those of the second.
    """
    both = (first, second)
    signed = [waves.frequency.sum(axis=1) for waves in both]
    signs, (omega, goal) = [float(np.sign(x[0])) for x in signed], np.abs(signed)
    unit = omega[0]
    is_shifted = power != 1 and abs(np.log(goal[0]) - power * np.log(unit)) < SAME
    if is_shifted or abs(unit - 1) < FITTED:  # the exponent of the first pair is not 0, or is
        unit = 1.0
    ratios = (omega / unit) ** power
    scale = np.exp(np.average(np.log(goal / ratios), weights=goal**2))
    size = np.rint(scale * second.sides[axis]) / second.sides[axis]
    near = ((unit, SAME), (size, FITTED))
    scale = next((x for x, slack in near if abs(scale - x) < slack * scale), scale)
    offsets = [
        common_offset(speed, sign * waves.phase, 4)[0]
        for speed, sign, waves in zip((omega, scale * ratios), signs, both, strict=True)
    ]
    offset = next((x for x in (offsets[0], 0.0) if abs(offsets[1] - x) < SAME), offsets[1])
    found = np.zeros_like(second.frequency)
    found[:, axis] = signs[1] * scale * ratios
    eps, farthest = max(first.eps, second.eps), max(offsets[0], offset)
    if not follow(second, found, found[:, axis] * offset, eps, farthest):
        return None
    return (signs[0] * unit, signs[1] * scale), (offsets[0], offset)


def changed_lines(lines: Floats, *sides: Counts) -> GridChanges:
    """Return directions, scales (or reference sizes, if scales are shares of sides) and offsets."""
    changes, letters = GridChanges(), axis_letters(len(lines))
    scales, offsets = np.abs(lines[:, 0].T), np.round(lines[:, 1].T, 4) + 0.0
    turned = np.flatnonzero(lines[:, 0].prod(axis=1) < 0).tolist()
    for key in (
        ["sine"] if len(turned) == len(lines) else [f"sine along {letters[k]}" for k in turned]
    ):
        changes[key] = "sin w p", "-sin w p"
    sizes = scales * np.array(sides)
    if (scales[0] != scales[1]).any():
        is_size = np.allclose(sizes, np.rint(sizes), rtol=0, atol=SAME)
        key, (a, b) = ("reference", np.rint(sizes)) if is_size else ("scale", scales)
        changes[key] = by_axis(a, 6), by_axis(b, 6)
        for k in (0, 1):
            if is_size and (scales[k] == 1).all() and (np.rint(sizes[1 - k]) == 1).all():
                points = ["in points", "divided by height and width"]
                changes["coordinates"] = points[k], points[1 - k]
                del changes[key]
    if (offsets[0] != offsets[1]).any():
        changes["offset"] = by_axis(offsets[0], 6), by_axis(offsets[1], 6)
    return changes


def compare_on_grids(outcome: Outcome, encodings: Two) -> Outcome:
    """Find what leads from one table to the other, or how they differ.

    Rotations, and tables of their cosines and sines, are compared pair by pair.
    """
    both = first, second = [without_prefix(enc) for enc in encodings]
    sides = first.domain.sides, second.domain.sides
    has_shape = sides[0] == sides[1] and first.dim == second.dim
    are_formulas = has_shape and all(enc.origin == "formula" for enc in encodings)
    if has_shape and (outcome.verdict != "different" or (are_formulas and outcome.operator)):
        return outcome
    tables: list[Any] = [enc.float_table() for enc in both]
    x, y = map(waves_of, both, tables)
    waves = (x, y) if x and y and len(x) == len(y) else None
    if waves and (any(map(rotates, encodings)) or any(w.form and w.form.copies for w in waves)):
        facts: Fields = {"compared": ("rotations", "factors")}
        aligned = outcome = with_pairs(replace(outcome.without_numbers(), **facts), *waves)
        if not outcome.pairs and sides[0] == sides[1]:
            return compare_equal_pairs(outcome, encodings, *waves)
        tables, is_rotation = [w.numbers(ALL) for w in waves], True
        error = np.full((max(map(len, tables)), 1), outcome.tolerance or 0.0)
    else:
        aligned, is_rotation = align_tables(outcome, encodings) if has_shape else outcome, False
        is_open = aligned.verdict == "equivalent" or not are_formulas  # better explanations
        if not is_open or first.dim != second.dim or prefix_rows_apart(encodings, ..., ...):
            return aligned
        order = -1 if len(second) > len(first) else 1
        allowed, _ = stored_tolerance(*tables[::order], *both[::order])
        error = allowed(np.arange(max(map(len, tables))))
    if aligned.verdict == "equivalent":
        axes = ((waves and fit_change(*waves)) or {}).get("axes", ("", ""))
        is_exchanged = axes[0].translate(EXCHANGE) == axes[1] != ""
        exchange = {"axes": "y and x exchanged"} if is_exchanged else {}
        return replace(aligned, transform=aligned.transform | exchange)
    points = [Points(table, error, own) for table, own in zip(tables, sides, strict=True)]
    if sides[0] != sides[1] and agree(*points).all():
        return with_changes(outcome, {"sides": (size_of(sides[0]), size_of(sides[1]))}, sides[0])
    if placed := match_points(outcome, *points):
        return placed
    is_known = is_rotation or (waves and np.array_equal(waves[0].columns, waves[1].columns))
    if waves and is_known and (changes := fit_change(*waves)):
        return with_changes(
            outcome if is_rotation else with_pairs(outcome, *waves), changes, sides[0]
        )
    if (
        has_shape
        and len(sides[0]) == 2
        and not (is_rotation or aligned.causes or aligned.positions)
    ):
        own = recovered_sides(tables[1])
        if own == sides[1][::-1] != sides[1] and recovered_sides(tables[0]) == sides[0]:
            note = finding("grid-recovered", sides=size_of(own), stated=size_of(sides[1]))
            aligned = aligned.with_findings(note)
    return replace(aligned, tried=aligned.tried and aligned.tried | {"axes": len(sides[0])})


def follows_grid(waves: Waves | None) -> bool:
    """Whether all pairs of a table are sinusoids of its grid, to rounding."""
    return waves is not None and follow(waves, waves.frequency, waves.phase, waves.eps)


def in_raster_order(enc: Encoding, model: Encoding) -> Encoding:
    """Put rows of a table that run through blocks, as a model's tokens do, in raster order.

    A finding says so. Rows are in this order if they are sinusoids of the grid in it alone.
    """
    side, sides = model.params.get("merged", 1), enc.domain.sides
    is_like = sides == model.domain.sides and not enc.domain.prefix
    if side < 2 or enc.origin == "formula" or not is_like:
        return enc
    table = enc.float_table()
    rows = table[np.argsort(rows_of_blocks(sides, side))]
    if follows_grid(waves_of(enc, table)) or not follows_grid(waves_of(enc, rows)):
        return enc
    note = finding("rows-in-blocks", side=side)
    return replace(enc, vectors=lambda x: rows[x], findings=(*enc.findings, note))


def waves_of(enc: Encoding, table: Floats) -> Waves | None:
    """Fit the pairs of a table, of absolute value 1, with declared frequencies if it has any."""
    eps = stored_resolution(table, enc.eps)[0]  # of 16-bit numbers in a wider format, too
    waves = fit(table, eps, enc.domain.sides) if table.size <= LARGEST else None
    if not waves:
        return None
    unit = waves.numbers(ALL) / waves.factor
    waves = replace(waves, numbers=lambda rows: unit[rows])
    if enc.measure and enc.measure.frequencies.ndim == 2:
        for omega in (enc.measure.frequencies, -enc.measure.frequencies):  # or exchanged
            if np.allclose(np.exp(1j * omega), np.exp(1j * waves.frequency), atol=1e-6):
                offset = float(np.abs(enc.measure.offset).max())
                return replace(waves, frequency=omega, offset=offset)
    return waves


def compare_equal_pairs(outcome: Outcome, encodings: Two, first: Waves, second: Waves) -> Outcome:
    """Compare the rows before the grids, the factors and the columns of equal rotations."""
    columns = [waves.columns.ravel() for waves in (first, second)]
    if apart_before := prefix_rows_apart(encodings, *columns):
        before = encodings[0].domain.prefix
        return outcome.with_differences("rows before the grid", apart_before, before)
    if is_scaled(first.factor, second.factor, first, second):
        change = {"attention_factor": (first.factor, second.factor)}
        return with_factors(outcome, [StepChanged("mscale", "waves", change)])
    notes = unsaid_pairing(encodings, first, second)
    has_sines_first = [bool(places[0] > places[len(first)]) for places in columns]
    if sum(has_sines_first) == 1:
        table = ("first", "second")[has_sines_first.index(True)]
        notes.append(finding("sines-first", table=table))
    return outcome.with_findings(*notes, verdict="the same", transform={})


def match_points(outcome: Outcome, first: Points, second: Points) -> Outcome | None:
    """Return the outcome of points that are placed elsewhere; None without such a placement.

    The first table is the expected one, if its points give the second's.
    """
    kinds: tuple[Any, ...] = PLACEMENTS if np.iscomplexobj(first.values) else (*PLACEMENTS, Scaled)
    for order in (1, -1):
        (whole, part), expected = (first, second)[::order], SIDES[::order][0]
        found = explain(whole, part, kinds, agree, lambda *_: first.values.size <= PAIRED)
        if found.causes:
            break
    else:
        return None
    total = len(part.values)
    outcome = replace(outcome, pairs=(), max_difference=None, first_difference=None, explained=1.0)
    cause = found.causes[0]
    if len(found.causes) == 1 and isinstance(cause, Placed) and cause.is_crop:
        crop = {"crop": f"{cause.spans} of the {expected}"}
        return replace(outcome, verdict="equivalent", transform=crop, explained=None)
    facts: Fields = {"expected": expected, "causes": found.causes}
    if any(isinstance(cause, Resized) for cause in found.causes):
        return outcome.with_differences("points", total, total, **facts)
    moved = total
    if whole.values.shape == part.values.shape:
        differs = np.abs(whole.values - part.values) > whole.error
        moved = int(differs.any(axis=1).sum())
    moves = [cause.words for cause in found.causes if not isinstance(cause, Scaled)]
    facts["transform"] = {"rows": ", ".join(moves)}
    return outcome.with_differences("points", moved, total, **facts)


def with_changes(outcome: Outcome, changes: GridChanges, sides: Counts) -> Outcome:
    """Build the outcome for sinusoids with a different base, axes or coordinates."""
    if changes.keys() == {"offset"}:
        offset = {"offset": " to ".join(changes["offset"])}
        return replace(outcome, verdict="equivalent", transform=offset, pairs=())
    causes = list[Any]()
    for key, pair in changes.items():
        name, _, letter = key.partition(" along ")
        code = CAUSES.get(name, "coordinates")
        change: Any = StepChanged(code, step_of(code), {name: pair})
        axis: Any = Axis(axis_letters(len(sides)).find(letter), letter)
        causes.append(Within(axis, change) if letter else change)
    cause = LikelyMistake("both", (*dict.fromkeys(c.code for c in causes),), changes, {})
    return replace(outcome, cause=cause, causes=tuple(causes), explained=1.0)


@frozen
class Axis:
    """An axis of a grid."""

    axis: int
    letter: str

    @property
    def within(self) -> Fields:
        """The axis for JSON."""
        return {"axis": self.axis}

    @property
    def words(self) -> str:
        """The axis."""
        return f"along {WORDS.get(self.letter, self.letter)}"


def with_pairs(outcome: Outcome, first: Waves, second: Waves) -> Outcome:
    """Add the pairs that differ, with their frequencies along their axis."""
    omegas, worst = np.array([first.frequency, second.frequency]), None
    limit = limit_of(first, np.abs(omegas).max(axis=0), max(first.eps, second.eps))
    differs: Bools = np.any(np.abs(omegas[0] - omegas[1]) > SAME, axis=1)
    if first.sides == second.sides:
        residual = apart(first.numbers(ALL), second.numbers(ALL))
        differs, worst = np.any(residual > limit, axis=0), float(residual.max())
    pairs = list_differences(along_axes(first), along_axes(second), differs)
    facts: Fields = {"pairs": pairs, "pair_counts": (len(first), len(second))}
    facts |= {"max_difference": worst, "tolerance": float(limit.max())}
    return outcome.with_differences("pairs", len(pairs), len(differs), **facts)


def along_axes(waves: Waves) -> Waves:
    """Return pairs with their frequency along their axis; NaN if they have several or none fits."""
    omega, letters = waves.frequency, axis_letters(len(waves.sides))
    is_known = (omega != 0).sum(axis=1).max() == 1 and follows_grid(waves)
    axis = [letters[k] for k in np.abs(omega).argmax(axis=1) if is_known]
    speeds = omega.sum(axis=1) if is_known else np.full(len(omega), np.nan)
    return replace(waves, frequency=speeds, axis=tuple(axis))


def prefix_rows_apart(encodings: Two, *columns: Any) -> int:
    """Number of rows before the grids that differ in the given columns."""
    first, second = (
        np.asarray(enc.table()[: enc.domain.prefix], dtype=float)[:, places]
        for enc, places in zip(encodings, columns, strict=True)
    )
    if first.shape != second.shape:
        return 0
    limit = 8 * max(FLOAT32_EPS, *(enc.eps for enc in encodings)) * np.abs(first).max(initial=0.0)
    return int(np.count_nonzero(np.any(np.abs(first - second) > limit, axis=1)))

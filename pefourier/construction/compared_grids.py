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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.construction.alignment import align_tables
from pefourier.construction.explain import Within, explain
from pefourier.construction.grids import KINDS, Placed, Points, Resized, agree
from pefourier.construction.identify import geometric_grid, shortest
from pefourier.construction.mistakes import LikelyMistake, step_of
from pefourier.construction.operators import rotates
from pefourier.construction.outcome import SIDES, Outcome, Two
from pefourier.construction.pairs import PairDifference
from pefourier.construction.rotation_pairs import unsaid_pairing, with_factors
from pefourier.construction.steps import StepChanged, is_scaled
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
from pefourier.encodings.grids import size_of
from pefourier.geometry.interpolation import recovered_sides
from pefourier.geometry.tolerance import stored_tolerance
from pefourier.types import Bools, Counts, Fields, Floats, Places, frozen

LIMIT = 4  # largest residual of a fitted formula, in units of rounding
SLACKS = (1e-2, 1e-4, 1e-6, 1e-9)  # relative tolerances for shortening fitted bases
ROUNDED = 1e-6  # relative error of fitted scales
STEEP = 0.05  # least power between the frequencies of two bases
FARTHEST = 1e-2  # of the amplitude: largest difference that rounding may explain
SAME = 1e-4  # relative tolerance for equal powers and scales
ALL = slice(None)
GridChanges = dict[str, tuple[Any, Any]]
LARGEST = 2**25  # largest number of entries of a table whose frequencies are fitted
# codes of settings; all others: coordinates
CAUSES = {"rho": "base", "axes": "axes", "amplitude": "scaled"}
EXCHANGE = str.maketrans("xy", "yx")


def limit_of(waves: Waves, omega: Floats, eps: float, offset: float = 0.0) -> Floats:
    """Return the differences that rounding explains, (1, m), for frequencies (m, axes)."""
    steps = np.array([sum(waves.sides) + max(waves.offset, offset)])
    return np.minimum(wave_tolerance(steps, np.abs(omega).max(axis=1), 1.0, eps), FARTHEST)


def follow(waves: Waves, omega: Floats, start: Floats, eps: float, offset: float = 0.0) -> bool:
    """Whether all pairs are sinusoids of these frequencies and first phases, to rounding."""
    places = lattice_points([np.arange(side) for side in waves.sides])
    residual = apart(evaluate(places @ omega.T + start, 1.0), waves.numbers(ALL))
    return bool((residual <= LIMIT * limit_of(waves, omega, eps, offset)).all())


def laws(speeds: Sequence[Floats]) -> Iterator[tuple[GridChanges, float]]:
    """Yield what may turn the frequencies of each axis in one table into those in another (2, m).

    This is a power of the frequencies, as of another base. Exponents of a base count the pairs of
    the axis, or those of all axes.

    >>> next(laws([np.array([[100.0], [1000.0]]) ** (-np.arange(8) / 8)]))[0]
    {'rho': (100.0, 1000.0)}
    """
    longest, power = max(speeds, key=np.size), 1.0
    omega, logs = longest[0], np.log(longest)
    if np.ptp(logs[0]) > SAME:
        power = np.polyfit(logs[0], logs[1], 1, w=longest.min(axis=0))[0]
    if abs(power - 1) <= SAME:
        yield {}, 1.0
    elif STEEP < abs(power) < 1 / STEEP:
        counts = len(omega), sum(len(own[0]) for own in speeds)
        grids = (geometric_grid(omega, SAME * omega, 2 * count) for count in counts)
        bases = [grid["rho"] for grid in grids if grid]
        if bases:
            base = min(bases, key=lambda rho: len(f"{rho:g}"))
            for rho in dict.fromkeys(shortest(base**power, slack) for slack in SLACKS):
                yield {"rho": (base, rho)}, float(np.log(rho) / np.log(base))


def fit_change(first: Waves, second: Waves) -> GridChanges | None:
    """Fit the settings that turn the first into the second: axes, base and lines.

    The result is compared with the second to rounding; None if they differ.
    """
    sides, omegas = (first.sides, second.sides), (first.frequency, second.frequency)
    if omegas[0].shape != omegas[1].shape or len(first.sides) > len(AXES):
        return None
    moves = np.array(omegas) != 0
    axes = np.where(moves.any(axis=2), moves.argmax(axis=2), len(AXES))
    both = np.flatnonzero((moves.sum(axis=2) == 1).all(axis=0))
    if len(both) < 2:
        return None
    places = {k: both[axes[1, both] == k] for k in set(axes[1, both].tolist())}
    speeds = np.abs(omegas).max(axis=2)
    every = [*places]
    found = [(every, *law) for law in laws([speeds[:, mine] for mine in places.values()])]
    if len(every) > 1:  # one axis alone
        own = ((k, law) for k, mine in places.items() for law in laws([speeds[:, mine]]))
        found += [([k], *law) for k, law in own if "rho" in law[0]]
    for along, changes, power in found:
        omega, start = np.zeros_like(omegas[0]), first.phase.copy()
        lines = np.tile([[[1.0], [0.0]]], (len(first.sides), 1, 2))  # per axis: scales, offsets
        for k, mine in places.items():
            lines[k], omega[mine, k] = fit_line(
                first, second, mine, k, power if k in along else 1.0
            )
            start[mine] = omega[mine, k] * lines[k, 1, 1]
        farthest = float(np.abs(lines[:, 1]).max())
        if follow(second, omega, start, max(first.eps, second.eps), farthest):
            shift = len(AXES) - len(first.sides)
            names = [describe_axes(np.minimum(a + shift, len(AXES))) for a in axes]
            is_moved = (axes[0] != axes[1])[both].any()
            moved: GridChanges = {"axes": (names[0], names[1])} if is_moved else {}
            settings = changes
            if along != every:
                letter = axis_letters(len(first.sides))[along[0]]
                settings = {f"rho along {letter}": pair for pair in changes.values()}
            scaled: GridChanges = {}
            if is_scaled(first.factor, second.factor, first, second):
                scaled = {"amplitude": (first.factor, second.factor)}
            return moved | settings | changed_lines(lines, *sides) | scaled
    return None


def fit_line(
    first: Waves, second: Waves, mine: Places, axis: int, power: float
) -> tuple[Floats, Floats]:
    """Return scales and offsets of an axis in two tables, ((first, second), …), and frequencies.

    The frequencies of the first, to a power, are in the ratios of those of the second.
    """
    omega, goal = (np.abs(waves.frequency[mine]).max(axis=1) for waves in (first, second))
    unit = omega[0]
    if power != 1 and abs(np.log(goal[0]) - power * np.log(unit)) < SAME:
        unit = 1.0  # the exponent of the first pair is not 0
    ratios = (omega / unit) ** power
    scale = np.exp(np.average(np.log(goal / ratios), weights=goal**2))
    size = np.rint(scale * second.sides[axis]) / second.sides[axis]
    near = ((unit, SAME), (size, ROUNDED))
    scale = next((x for x, slack in near if abs(scale - x) < slack * scale), scale)
    offsets = [
        common_offset(speed, phase, 4)[0]
        for speed, phase in ((omega, first.phase[mine]), (scale * ratios, second.phase[mine]))
    ]
    offset = next((x for x in (offsets[0], 0.0) if abs(offsets[1] - x) < SAME), offsets[1])
    return np.array([[unit, scale], [offsets[0], offset]]), scale * ratios


def changed_lines(lines: Floats, *sides: Counts) -> GridChanges:
    """Return scales (or reference sizes, if scales are shares of sides) and offsets that differ."""
    changes: GridChanges = {}
    scales, offsets = lines[:, 0].T, np.round(lines[:, 1].T, 4) + 0.0
    sizes = scales * np.array(sides)
    if (scales[0] != scales[1]).any():
        is_size = np.allclose(sizes, np.rint(sizes), rtol=0, atol=SAME)
        key, (a, b) = ("reference", np.rint(sizes)) if is_size else ("scale", scales)
        changes[key] = by_axis(a, 6), by_axis(b, 6)
        for k in (0, 1):
            if is_size and (scales[k] == 1).all() and (np.rint(sizes[1 - k]) == 1).all():
                points = ["in points", "divided by height and width"]
                changes = {"coordinates": (points[k], points[1 - k])}
    if (offsets[0] != offsets[1]).any():
        changes["offset"] = by_axis(offsets[0], 6), by_axis(offsets[1], 6)
    return changes


def compare_on_grids(outcome: Outcome, encodings: Two) -> Outcome:
    """Find what leads from one table to the other, or how they differ."""
    first, second = (without_prefix(enc) for enc in encodings)
    sides = first.domain.sides, second.domain.sides
    has_shape = sides[0] == sides[1] and first.dim == second.dim
    are_formulas = has_shape and all(enc.origin == "formula" for enc in encodings)
    if has_shape and (outcome.verdict != "different" or (are_formulas and outcome.operator)):
        return outcome
    a, b = first.float_table(), second.float_table()
    x, y = waves_of(first, a), waves_of(second, b)
    waves = (x, y) if x and y and len(x) == len(y) else None
    if waves and (any(map(rotates, encodings)) or any(w.form and w.form.copies for w in waves)):
        return compare_rotations_on_grids(outcome, encodings, *waves)
    aligned = align_tables(outcome, encodings) if has_shape else outcome
    is_open = aligned.verdict == "equivalent" or not are_formulas  # a better explanation may exist
    if not is_open or first.dim != second.dim or prefix_rows_apart(encodings, ..., ...):
        return aligned
    changes = (waves and fit_change(*waves)) or {}
    axes = changes.get("axes", ("", ""))
    exchange = {"axes": "y and x exchanged"} if axes[0].translate(EXCHANGE) == axes[1] != "" else {}
    if aligned.verdict == "equivalent":
        return replace(aligned, transform=aligned.transform | exchange)
    allowed, _ = stored_tolerance(a, b, first, second)
    if len(b) > len(a):
        allowed, _ = stored_tolerance(b, a, second, first)
    tolerance = allowed(np.arange(max(len(a), len(b))))
    placed = match_points(outcome, Points(a, sides[0], tolerance), Points(b, sides[1], tolerance))
    if placed is not None:
        return placed
    if waves and changes and np.array_equal(waves[0].columns, waves[1].columns):
        return with_changes(with_pairs(outcome, *waves), changes, sides[0])
    if has_shape and len(sides[0]) == 2 and not aligned.causes:
        own = recovered_sides(b)
        if own != sides[1] and recovered_sides(a) == sides[0]:
            note = finding("grid-recovered", sides=size_of(own), stated=size_of(sides[1]))
            aligned = aligned.with_findings(note)
    return replace(aligned, tried=aligned.tried and aligned.tried | {"axes": len(sides[0])})


def waves_of(enc: Encoding, table: Floats) -> Waves | None:
    """Fit the pairs of a table, of absolute value 1, with declared frequencies if it has any."""
    waves = fit(table, enc.eps, enc.domain.sides) if table.size <= LARGEST else None
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


def compare_rotations_on_grids(
    outcome: Outcome, encodings: Two, first: Waves, second: Waves
) -> Outcome:
    """Compare rotations, or tables of their cosines and sines, pair by pair."""
    both, m = (first, second), len(first)
    facts: Fields = {"pair_counts": (m, m), "compared": ("rotations", "factors")}
    outcome = with_pairs(replace(outcome.without_numbers(), **facts), first, second)
    columns = [waves.columns.ravel() for waves in both]
    if not outcome.pairs and first.sides == second.sides:
        if apart_before := prefix_rows_apart(encodings, *columns):
            before = encodings[0].domain.prefix
            return outcome.with_differences("rows before the grid", apart_before, before)
        if is_scaled(first.factor, second.factor, first, second):
            change = {"attention_factor": (first.factor, second.factor)}
            return with_factors(outcome, [StepChanged("mscale", "waves", change)])
        notes = unsaid_pairing(encodings, first, second)
        has_sines_first = [bool(places[0] > places[m]) for places in columns]
        if sum(has_sines_first) == 1:
            table = ("first", "second")[has_sines_first.index(True)]
            notes.append(finding("sines-first", table=table))
        return outcome.with_findings(*notes, verdict="the same", transform={})
    tolerance = np.full((max(first.length, second.length), 1), outcome.tolerance or 0.0)
    placed = match_points(
        outcome, *(Points(waves.numbers(ALL), waves.sides, tolerance) for waves in both)
    )
    changes = None if placed else fit_change(first, second)
    return placed or (with_changes(outcome, changes, first.sides) if changes else outcome)


def match_points(outcome: Outcome, first: Points, second: Points) -> Outcome | None:
    """Return the outcome of points that are placed elsewhere; None without such a placement.

    The first table is the expected one, if its points give the second's.
    """
    for order in (1, -1):
        (whole, part), (expected, observed) = (first, second)[::order], SIDES[::order]
        found = explain(whole, part, KINDS, agree)
        if found.causes:
            break
    else:
        return None
    total = len(part.numbers)
    outcome = replace(outcome, pairs=(), max_difference=None, first_difference=None)
    cause = found.causes[0]
    if len(found.causes) == 1 and isinstance(cause, Placed) and cause.is_crop:
        return replace(
            outcome, verdict="equivalent", transform={"crop": f"{cause.spans} of the {expected}"}
        )
    facts: Fields = {"expected": expected, "causes": found.causes}
    if any(isinstance(cause, Resized) for cause in found.causes):
        outcome = replace(outcome, explained=1.0)
        return outcome.with_differences("points", total, total, **facts)
    index = replace(whole, numbers=np.arange(len(whole.numbers))[:, None])
    for cause in found.causes:
        index = cause.apply(index)
    name = ", ".join(cause.words for cause in found.causes)
    note = finding("rows-reordered", table=observed, moves=name)
    moved = int(np.count_nonzero(index.numbers[:, 0] != np.arange(total)))
    facts["transform"] = {"rows": name}
    outcome = outcome.with_findings(note, explained=1.0)
    return outcome.with_differences("points", moved, total, **facts)


def with_changes(outcome: Outcome, changes: GridChanges, sides: Counts) -> Outcome:
    """Build the outcome for sinusoids with a different base, axes or coordinates."""
    if changes.keys() == {"offset"}:
        offset = {"offset": " to ".join(changes["offset"])}
        return replace(outcome, verdict="equivalent", transform=offset, pairs=())
    causes = list[Any]()
    for key, pair in changes.items():
        name, _, axis = key.partition(" along ")
        code = CAUSES.get(name, "coordinates")
        change: Any = StepChanged(code, step_of(code), {name: pair})
        if axis:
            part: Any = Axis(axis_letters(len(sides)).index(axis), axis)
            causes.append(Within(part, change))
        else:
            causes.append(change)
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
    both, letters, worst = (first, second), axis_letters(len(first.sides)), None
    omegas = np.array([waves.frequency for waves in both])
    limit = limit_of(first, np.abs(omegas).max(axis=0), max(first.eps, second.eps))
    differs: Bools = np.any(np.abs(omegas[0] - omegas[1]) > SAME, axis=1)
    if first.sides == second.sides:
        residual = apart(first.numbers(ALL), second.numbers(ALL))
        differs, worst = np.any(residual > limit, axis=0), float(residual.max())
    are_known = (omegas != 0).sum(axis=2).max() == 1 and all(
        follow(w, w.frequency, w.phase, w.eps) for w in both
    )
    pairs = []
    for i in np.flatnonzero(differs).tolist():
        axis = "/".join(dict.fromkeys(letters[k] for k in np.abs(omegas[:, i]).argmax(axis=1)))
        one, two = omegas[:, i].sum(axis=1).tolist() if are_known else (None, None)
        ratio = two / one if one and two else None
        pairs.append(PairDifference(i, axis if are_known else None, one, two, ratio))
    facts = {"pairs": tuple(pairs), "max_difference": worst, "tolerance": float(limit.max())}
    return outcome.with_differences("pairs", len(pairs), len(differs), **facts)


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

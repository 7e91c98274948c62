r"""Tables of grid points: the convention that they follow, and mistakes known from public code.

Conventions
-----------
Rows are the points of a lattice in raster order, the first axis slowest, without prefix rows.
Inner products of a correct table depend on the displacement alone. T, the relative distance of all
products from such a function (`geometry.products`), reveals rows in a wrong place. If each column
depends on one axis, the columns of each axis are identified as a separate formula.

A convention assigns each pair i to an axis, with a frequency :math:`\omega_i` that contains the
factor :math:`\rho^{-e_i}` of the base. Another base and another slope of coordinates change the
frequency to :math:`s\, \omega_i q^{-e_i}`. These numbers are fitted from low to high frequencies,
since high frequencies may be aliased. Settings are returned only if the table rebuilt from them
differs by rounding alone.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cached_property
from itertools import product
from typing import Any, get_args

import numpy as np

from pefourier.construction.identify import frequencies, identification, identify
from pefourier.construction.tables import shortest
from pefourier.construction.wave_rules import SEARCHED, ladder_of
from pefourier.construction.waves import LAYOUTS, Complex, Form, apart, copies_of
from pefourier.encodings.encoding import (
    WORDS,
    Encoding,
    Finding,
    Wave,
    axis_columns,
    axis_letters,
    axis_lines,
    columns_of_blocks,
    finding,
    split_pairs,
)
from pefourier.encodings.families.axial import LINES, Axes, pairs_of_axes, rows_of_blocks
from pefourier.encodings.grids import size_of
from pefourier.encodings.registry import build, fact_of_convention, read_conventions
from pefourier.errors import PefourierError
from pefourier.geometry.closest import ClosestPair, squared_distances
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.geometry.products import better_reading, toeplitz_residual_of_rows
from pefourier.types import Counts, Fields, Indices, Places, Table, Texts, frozen_arrays
from pefourier.writing.text import agreeing

CERTAIN = 4.0  # least ratio of the given residual to that of the right order
SHIFTS = (1, -1, 2, -2, 3, -3, 4, -4, 5, -5)
NEARLY = 1e-3  # relative tolerance on steps of coordinates, as in float32
ORTHOGONAL = 1e-6  # relative inner product of neighbours that counts as 0
FIRST_ROWS, AT_ONCE = 16, 256  # rows of a table that are compared
NAMED = ("convention", "order", "rho", "layout", "divisor")  # parameters that identify a table
ROUNDED = 1e-6  # relative error of fitted slopes
Slopes = dict[str, float]  # slope of each axis' coordinate, relative to a convention
GridSettings = tuple[tuple[Any, ...], dict[str, Any]]  # order of preference, changed settings
Match = tuple[*GridSettings, Encoding, Form | None, float]  # with the largest difference


@frozen_arrays
class GridFacts:
    """A table of the points of a grid, with facts that rules use."""

    table: Table  # (n, d)
    sides: Counts
    eps: float
    closest: ClosestPair
    paired: bool = False  # whether columns are cosines and sines in no particular order
    prefix: int = 0  # rows before the grid

    @property
    def names(self) -> Texts:
        """Names of the axes, the slowest first."""
        return tuple(axis_letters(len(self.sides)))

    @cached_property
    def columns(self) -> list[Places] | None:
        """Columns that change along each axis alone; None if some change along several axes."""
        return axis_columns(self.table.reshape(*self.sides, -1))

    @property
    def rounding(self) -> float:
        """Largest residual that rounding of the stored numbers may cause."""
        return max(1e-6, 8 * self.eps)


def order_of_rows(facts: GridFacts) -> Iterator[Finding]:
    """Find rows that fit the grid in another order: columns first, 2 x 2 blocks, or shifted."""
    table, given, index = facts.table, facts.sides, np.arange(len(facts.table))

    def residual_of(sides: Counts, points: Indices) -> float:
        """Return T of the rows placed at the given points of a grid, without rows outside it."""
        inside = (points >= 0) & (points < len(index))
        return toeplitz_residual_of_rows(table[inside], sides, points[inside])

    if table.size > SEARCHED or (present := residual_of(given, index)) <= CERTAIN * facts.rounding:
        return
    *frames, height, width = given
    exchanged = *frames, width, height
    orders = [("grid-transposed", exchanged, index, 0)] if 1 not in (height, width) else []
    if width % 2 == height % 2 == 0:
        orders.append(("row-order", given, rows_of_blocks(given), 0))
    orders += [("prefix-shift", given, index - k, -k) for k in SHIFTS if abs(k) < len(index)]
    residuals = [residual_of(*order[1:3]) for order in orders]
    residual, (code, sides, _, shift) = min(zip(residuals, orders, strict=True), key=lambda x: x[0])
    if residual <= max(present / CERTAIN, facts.rounding):
        sizes = {"grid": size_of(sides), "sides": size_of(given), "shift": f"{shift:+d}"}
        yield finding(code, residual=residual, present=present, **sizes)


def neighbours_of_another_grid(facts: GridFacts) -> Iterator[Finding]:
    """Find vectors whose neighbours are similar only on another grid or from another row on."""
    readings = None if facts.columns else better_reading(facts.table, facts.sides)
    if not readings or any(order_of_rows(facts)) or any(flat_vectors(facts)):
        return
    better, given = readings
    grid, sides, row = size_of(better.grid), size_of(facts.sides), facts.prefix + better.start
    shape = "axes" if sorted(better.grid) == sorted(given.grid) else "shape"
    slots = {"grid": grid, "sides": sides, "row": row, "better": better, "given": given}
    yield finding("neighbours-elsewhere", "shifted" if better.start else shape, **slots)


def axes_without_effect(facts: GridFacts) -> Iterator[Finding]:
    """Find axes along which no vector changes, and halves that encode the same axis twice."""
    if not facts.columns:
        return
    changing = np.sort(np.concatenate(facts.columns))
    halves = np.split(facts.table[:, changing[: len(changing) // 2 * 2]], 2, axis=1)
    effects = dict(zip(facts.names, map(len, facts.columns), strict=True))
    effective = [name for name, count in effects.items() if count]
    for name, side in zip(facts.names, facts.sides, strict=True):
        if effects[name] or side == 1:
            continue
        if len(effective) == 1 and halves[0].size and (halves[0] == halves[1]).all():
            word = WORDS.get(effective[0], "points").removesuffix("s")
            yield finding("axis-duplicated", other=effective[0], name=name, word=word)
        else:
            yield finding("axis-missing", name=name, others="/".join(effective), side=side)


def flat_vectors(facts: GridFacts) -> Iterator[Finding]:
    """Find encodings of the flat row index: inner products depend on the difference of indices."""
    n = len(facts.table)
    if min(facts.sides) == 1 or facts.columns or facts.table.size > SEARCHED:
        return
    flat = toeplitz_residual_of_rows(facts.table, (n,), np.arange(n))
    products = facts.table[: facts.sides[-1] + 1].astype(float) @ facts.table[0]
    if flat > facts.rounding or np.abs(products[1:]).max() <= ORTHOGONAL * abs(products[0]):
        return
    yield finding("flat-index", side=facts.sides[-1])


def ends_that_meet(facts: GridFacts) -> Iterator[Finding]:
    """Find axes whose first and last point share a vector: -1 to 1 spans whole wavelengths."""
    first = facts.closest.first
    if first is None:
        return
    first = first.reshape(facts.sides)
    for axis, (name, side) in enumerate(zip(facts.names, facts.sides, strict=True)):
        start, end = np.take(first, 0, axis), np.take(first, side - 1, axis)
        if side < 3 or np.array_equal(start, np.take(first, 1, axis)):
            continue
        if side > 3 and np.array_equal(first, np.flip(first, axis)):
            yield finding("lone-cosines", "even", name=name)
        elif np.array_equal(start, end):
            yield finding("ends-coincide", name=name)


def rows_that_repeat(facts: GridFacts) -> Iterator[Finding]:
    """Find points that share a vector for no reason found above."""
    n, pair = len(facts.table), facts.closest.pair
    count = n - facts.closest.distinct
    explained = any(f for rule in (axes_without_effect, ends_that_meet) for f in rule(facts))
    if not pair or not count or explained:
        return
    a, b = (tuple(map(int, np.unravel_index(i, facts.sides))) for i in pair)
    repeat = f"{count} of {n} points {agreeing(count, 'repeats', 'repeat')}"
    yield finding("points-repeat", repeat=repeat, a=a, b=b)


GRID_RULES = (
    order_of_rows,
    neighbours_of_another_grid,
    axes_without_effect,
    flat_vectors,
    ends_that_meet,
    rows_that_repeat,
)


def remarks_on_formula(enc: Encoding) -> Iterator[Finding]:
    """Yield notes on the convention of a declared measure on a grid."""
    domain = enc.domain
    if len(domain.sides) < 2 or not enc.is_stationary:
        return
    names = axis_letters(len(domain.sides))
    for axis, (name, side) in enumerate(zip(names, domain.sides, strict=True)):
        lags = np.outer([side - 1, 1], np.eye(len(names), dtype=int)[axis])
        meets, unrotated = squared_distances(enc.measure, lags) == 0
        if side > 2 and meets and not unrotated:
            yield finding("ends-coincide", name=name)
    if fact_of_convention(enc.name, enc.params.get("convention", ""), "text") == "origin":
        yield finding("text-collides-with-patch", point=",".join("0" for _ in domain.sides))


def identify_on_grid(facts: GridFacts) -> tuple[Fields | None, list[Finding]]:
    """Return the conventions that a table follows, with settings, and findings about them."""
    attempts = product((False, True)[: 1 + (facts.columns is not None)], forms_of(facts))
    found = ([*follow_conventions(facts, form, fitted=fitted)] for fitted, form in attempts)
    matches = sorted(next(filter(None, found), []), key=lambda match: match[0])
    if not matches:
        return None, []
    _, changes, enc, form, difference = matches[0]
    names = [m[2].params["convention"] for m in matches if (m[1], m[2].name) == (changes, enc.name)]
    params = {key: enc.params[key] for key in NAMED if key in enc.params} | changes
    params |= {"part": form.part, "times": 2 if form.copies else 1} if form else {}
    spec = ",".join([f"{enc.name}:convention={names[0]}", *map(assignment, changes.items())])
    findings = [*unusual_coordinates(enc)]
    if form and form.part == "cos" and facts.closest.distinct == len(facts.table):
        findings.append(finding("lone-cosines", "named", spec=spec))
    named = {"spec": spec, "conventions": names, "changes": changes}
    return identification(enc.name, params, difference) | named, findings


def unusual_coordinates(enc: Encoding) -> Iterator[Finding]:
    """Find coordinates from 0 to 1, or in pixels, with frequencies for indices."""
    if not enc.is_stationary or enc.params.get("frequencies") != "own" or len(enc.domain.grid) < 2:
        return
    fastest, scale = np.abs(enc.measure.frequencies).max(axis=0), enc.params["scale"]
    lines = zip(axis_letters(len(fastest)), fastest, enc.domain.sides, strict=True)
    slow = [name for name, w, n in lines if n > 2 and 0 < w * (n - 1) <= np.pi / 3 + 1e-9]
    if slow:
        yield finding("coordinates-unscaled", names=" and ".join(slow))
    if enc.params["coordinates"] == "index" and 2 <= scale == round(scale) and max(fastest) > np.pi:
        yield finding("pixel-coordinates", factor=scale, fastest=fastest.max())


def assignment(item: tuple[str, Any]) -> str:
    """Format a parameter for a SPEC.

    >>> assignment(("reference", (64.0, 64.0))), assignment(("coordinates", "unit"))
    ('reference=64;64', 'coordinates=unit')
    """
    values = item[1] if isinstance(item[1], tuple) else (item[1],)
    return f"{item[0]}={';'.join(x if isinstance(x, str) else f'{x:.12g}' for x in values)}"


def follow_conventions(facts: GridFacts, form: Form | None, *, fitted: bool) -> Iterator[Match]:
    """Yield the conventions that a table follows to rounding, with fitted settings if `fitted`.

    Several conventions may match: they differ on other grids, or in ways a table does not show.
    """
    waves, fewest = 1 if form is None or form.part == "both" else 2, np.inf
    d = facts.table.shape[1] * waves // (2 if form and form.copies else 1)
    for name, convention in ((k, c) for k, table in read_conventions().items() for c in table):
        spec = {"d": d, "grid": facts.sides, "convention": convention}
        enc = build_if_any(name, **spec)
        if enc is None or (form and form.part == "both" and name == "axial"):
            continue
        is_other = form and (name == "axial", form.copies != enc.params["layout"])
        for order, changes in settings_read(facts, enc, form) if fitted else [((0.0,), {})]:
            other = build_if_any(name, **spec, **changes) if order[0] <= fewest else None
            difference = largest_difference(facts, other, form) if other else None
            if other and difference is not None:
                fewest = order[0]
                yield (fewest, *(is_other or ()), *order[1:]), changes, other, form, difference
                break


def build_if_any(name: str, **settings: Any) -> Encoding | None:
    """Build an encoding; None if it does not allow these axes or dimensions."""
    try:
        return build(name, **settings)
    except PefourierError:
        return None


def forms_of(facts: GridFacts) -> list[Form | None]:
    """Return the column forms to try: a convention's own, cosines with sines, or one alone."""
    rows = facts.table[np.concatenate(rows_of_axes(facts))].astype(float)
    both = [
        Form("both", layout, copies_of(front) and copies_of(back), first)
        for layout, first in product(LAYOUTS, get_args(Wave))
        for front, back in [split_pairs(rows, layout)]
        if np.abs(front**2 + back**2 - 1).max(initial=0.0) <= 2 * facts.rounding
    ]
    lone = [Form(x, copies=copies_of(rows)) for x in get_args(Wave) if 0.9 < rows.max() < 1.1]
    return [None, *both, *lone][facts.paired :]


def rows_of_axes(facts: GridFacts) -> list[Indices]:
    """Return the rows along each axis, with all other axes at their first point."""
    return [line[:, 0] for line in axis_lines(np.arange(len(facts.table)).reshape(*facts.sides, 1))]


def axes_of(enc: Encoding) -> Axes:
    """Return the settings of an encoding on axes."""
    return Axes(**{field.name: enc.params[field.name] for field in fields(Axes)})


def waves_of(vectors: Table, enc: Encoding, form: Form | None = None) -> Complex:
    """Return cosines and sines (n, m) by an encoding's columns or by a form; NaN if missing."""
    if form is None:
        blocks = pairs_of_axes(enc.name, axes_of(enc), enc.dim).blocks
        vectors = vectors[:, np.concatenate(columns_of_blocks(enc.params["layout"], blocks))]
        form = Form("both", first="sin" if enc.name == "axial" else "cos")
    return form.numbers(vectors)


def largest_difference(facts: GridFacts, enc: Encoding, form: Form | None) -> float | None:
    """Return the largest difference of a table from an encoding; None if rounding is exceeded.

    If each column depends on one axis, comparing the rows along the axes is enough.
    """
    rows, largest = np.arange(len(facts.table)), 0.0
    if facts.columns and enc.params["rows"] == "raster":
        rows = np.concatenate(rows_of_axes(facts))
    rows = np.random.default_rng(0).permutation(rows)
    for part in np.split(rows, range(FIRST_ROWS, len(rows), AT_ONCE)):
        places = enc.domain.x[part]
        size = apart(waves_of(enc.vectors(places), enc), waves_of(facts.table[part], enc, form))
        phases = enc.measure.phases(enc.domain.places(places)) if enc.is_stationary else 0.0
        if (size > facts.rounding + 8 * FLOAT32_EPS * np.abs(phases)).any():
            return None
        largest = max(largest, size.max())
    return largest


def settings_read(facts: GridFacts, enc: Encoding, form: Form | None) -> list[GridSettings]:
    """Return settings with which a convention may match a table, the fewest changes first."""
    if not enc.is_stationary:
        return []
    axes, slopes, rho = axes_of(enc), Slopes(), 0.0
    base = pairs_of_axes(enc.name, replace(axes, stretch=(), scale=1.0), enc.dim).omega
    lines = zip(facts.names, enc.measure.frequencies.T, rows_of_axes(facts), strict=True)
    for letter, omega, rows in lines:
        use = np.argsort(-omega)[: np.count_nonzero(omega)]
        waves = waves_of(facts.table[rows], enc, form)[:, use]
        if len(use) < 3 or np.abs(np.abs(waves) - 1).max() > 0.1:  # two always fit some base
            continue
        table = np.hstack([part for part in (waves.real, waves.imag) if not np.isnan(part).any()])
        params = (identify(table, facts.eps) or {"params": {}})["params"]
        is_known = "rho" in params
        read = frequencies(params, 2 * len(use)) if is_known else ladder_of(table, facts.eps)
        if len(read) == len(use):
            exponent = -np.log(base[use]) / np.log(axes.rho)
            change, ratio = np.polyfit(exponent, np.log(np.sort(read)[::-1] / omega[use]), 1)
            rho = rho or shortest(axes.rho * np.exp(np.clip(-change, -30, 30)), ROUNDED)
            slopes[letter] = np.exp(ratio)
    return coordinate_settings(facts, axes, slopes, rho) if slopes else []


def coordinate_settings(
    facts: GridFacts, axes: Axes, slopes: Slopes, rho: float
) -> list[GridSettings]:
    """Return settings that explain the slopes of coordinates and the base, the fewest first.

    A whole factor is a scale, unless the convention has a reference.
    """
    sides, read = dict(zip(facts.names, facts.sides, strict=True)), list[GridSettings]()
    points = {k: float(sides.get(k, 1)) for k in axes.order}
    points |= dict(zip(axes.order, axes.reference, strict=False))
    start, across = (np.array([x[k] for k in slopes]) for x in (points, sides))
    rates = {kind: np.array([line(x)[0] for x in start]) for kind, line in LINES.items()}
    rates = {axes.coordinates: start / across, "index": start / across} | rates
    for kind, offset in product(rates, {axes.offset, 0.0, 0.5, 1.0}):
        away = rates[axes.coordinates] * [*slopes.values()] / rates[kind]
        factor, one = shortest(away.mean(), ROUNDED), kind == "closed"
        sizes = start * away if kind == "index" else (start - one) / away + one
        reference = points | {k: shortest(x, ROUNDED) for k, x in zip(slopes, sizes, strict=True)}
        ways = [dict[str, Any](scale=axes.scale * factor), {"reference": (*reference.values(),)}]
        ways = [{}] if np.abs(away - 1).max() < NEARLY else ways[:: -1 if axes.reference else 1]
        for nth, way in enumerate(ways, len(ways)):
            other = {"rho": rho, "coordinates": kind, "offset": offset, **way}
            new = {k: x for k, x in other.items() if x != getattr(axes, k)}
            read.append(((len(new), np.any(np.hstack([[rho], *way.values()]) % 1), nth), new))
    return sorted(read, key=lambda settings: settings[0])

r"""Which published convention does a table of the points of a grid follow, and with which settings?

Conventions
-----------
A convention says which axis each pair i belongs to, and its frequency :math:`\omega_i`. With
another base, and coordinates with another slope, it is :math:`s\, \omega_i q^{-e_i}`, where the
base gives a frequency the factor :math:`\rho^{-e_i}`. These numbers are read from slow pairs to
fast ones, which may be aliased. Settings are answered only where the table that is built from them
differs by rounding.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np

from pefourier.diagnosis.frequency_rules import ladder_of
from pefourier.diagnosis.grid_rules import GridFacts
from pefourier.diagnosis.identify import identification, identify
from pefourier.diagnosis.pairs import LAYOUTS, Complex, PairForm, copies_of
from pefourier.diagnosis.wave_formulas import frequencies, shortest
from pefourier.encodings.columns import Wave, columns_of_blocks, split_pairs
from pefourier.encodings.encoding import Encoding, Floats, is_stationary
from pefourier.encodings.families.axes import LINES, Axes, axis_letters, coordinate, pairs_of_axes
from pefourier.encodings.places import axis_lines
from pefourier.encodings.registry import build, fact_of_convention, read_conventions
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FLOAT32_EPS, Indices

AT_ONCE = 256  # rows of a table that are compared
NAMED = ("convention", "order", "rho", "layout", "divisor")  # parameters that identify a table
FEWEST = 3  # pairs along an axis: any two frequencies have a base
NEARLY = 1e-3  # relative, within which a slope is a convention's, and a number whole
ROUNDED = 1e-6  # relative, as slopes are read
MOST_CHANGES = 3  # settings that a table has otherwise than a convention
FIRST: tuple[Wave, ...] = ("cos", "sin")
Order = tuple[int, ...]  # of preference, the least first
Match = tuple[Order, Encoding, PairForm | None, dict[str, Any], float]  # with settings, difference


def identify_on_grid(facts: GridFacts, *, paired: bool = False) -> dict[str, Any] | None:
    """What a table is: the published conventions that it follows, or the nearest, with settings."""
    matches = [*follow_conventions(facts, paired=paired)]
    matches = matches or [*follow_conventions(facts, paired=paired, fitted=True)]
    if not matches:
        return None
    _, enc, form, changes, difference = min(matches, key=itemgetter(0))
    same = (m[1] for m in matches if (m[1].name, m[2], m[3]) == (enc.name, form, changes))
    names = [other.params["convention"] for other in same]
    params = {key: enc.params[key] for key in NAMED if key in enc.params} | changes
    params |= {"part": form.part, "times": 2 if form.copies else 1} if form else {}
    spec = ",".join([f"{enc.name}:convention={names[0]}", *map(assignment, changes.items())])
    more = {"spec": spec, "conventions": names, **({"changes": changes} if changes else {})}
    return identification(enc.name, params, difference) | more


def assignment(item: tuple[str, Any]) -> str:
    """A parameter as it is typed.

    >>> assignment(("reference", (64.0, 64.0))), assignment(("coordinates", "unit"))
    ('reference=64;64', 'coordinates=unit')
    """
    values = item[1] if isinstance(item[1], tuple) else (item[1],)
    return f"{item[0]}={';'.join(x if isinstance(x, str) else f'{x:.12g}' for x in values)}"


def follow_conventions(facts: GridFacts, *, paired: bool, fitted: bool = False) -> Iterator[Match]:
    """The conventions that a table follows to rounding; fitted: with settings of its own.

    Several may: they differ on other grids, or in nothing that a table shows.
    """
    rows = facts.table[np.concatenate(rows_of_axes(facts))].astype(float)
    conventions = [(name, key) for name, known in read_conventions().items() for key in known]
    forms = forms_of(rows, facts.rounding, paired=paired)
    for form, (name, convention) in product(forms, conventions):
        kind = 0 if form is None else 1 + (form.part != "both")
        d = rows.shape[1] * max(kind, 1) // (2 if form and form.copies else 1)
        spec = {"d": d, "grid": facts.sides, "convention": convention}
        enc = build_if_any(name, **spec)
        if enc is None or (kind == 1 and name == "axial"):
            continue
        order = kind, int(form is not None and form.copies != enc.params["layout"])
        for cost, changes in settings_read(facts, enc, form) if fitted else [((0,), {})]:
            other = build_if_any(name, **spec, **changes)
            difference = other and largest_difference(facts, other, form)
            if other is not None and difference is not None:
                yield (cost[0], *order, *cost[1:]), other, form, changes, difference
                break


def build_if_any(name: str, **settings: Any) -> Encoding | None:
    """An encoding; None where it is not of this many axes or dimensions."""
    try:
        return build(name, **settings)
    except PefourierError:
        return None


def forms_of(rows: Floats, rounding: float, *, paired: bool) -> list[PairForm | None]:
    """Columns of a convention, cosines beside sines, each maybe twice, or one of them alone."""
    layouts = [("interleaved", "cos")] if paired else product(LAYOUTS, FIRST)
    both = [
        PairForm("both", layout, copies_of(front) and copies_of(back), first)
        for layout, first in layouts
        for front, back in [split_pairs(rows, layout)]
        if np.abs(front**2 + back**2 - 1).max(initial=0.0) <= 2 * rounding
    ]
    lone = [PairForm(part, copies=copies_of(rows)) for part in FIRST]
    return [*both] if paired else [None, *both, *lone]


def rows_of_axes(facts: GridFacts) -> list[Indices]:
    """Rows of the points along each axis, the others at their first point."""
    index = np.arange(len(facts.table)).reshape(*facts.sides, 1)
    return [line[:, 0] for line in axis_lines(index)]


def axes_of(enc: Encoding) -> Axes:
    """The settings of an encoding on axes."""
    return Axes(**{field.name: enc.params[field.name] for field in fields(Axes)})


def waves_of(codes: Floats, enc: Encoding, form: PairForm | None = None) -> Complex:
    """Cosines and sines (n, m) in the columns of an encoding, or in a form; NaN: not there."""
    if form is not None:
        return form.waves(codes)
    blocks = pairs_of_axes(enc.name, axes_of(enc), enc.dim).blocks
    columns = columns_of_blocks(enc.params["layout"], blocks)
    first, second = (codes[:, where] for where in columns)
    return second + 1j * first if enc.name == "axial" else first + 1j * second


def largest_difference(facts: GridFacts, enc: Encoding, form: PairForm | None) -> float | None:
    """The largest difference of a table from an encoding; None where it is more than rounding.

    Rows along the axes say all where each column depends on one axis.
    """
    rows, largest = np.random.default_rng(0).permutation(len(facts.table)), 0.0
    if facts.columns is not None and enc.params["rows"] == "raster":
        rows = np.concatenate(rows_of_axes(facts))
    for part in np.array_split(rows, -(-len(rows) // AT_ONCE)):
        table, places = np.asarray(facts.table[part], dtype=float), enc.domain.x[part]
        apart = waves_of(enc.codes(places), enc) - waves_of(table, enc, form)
        size, allowed = np.fmax(np.abs(apart.real), np.abs(apart.imag)), facts.rounding
        if is_stationary(enc):  # phases in float32
            phases = np.abs(enc.measure.phases(enc.domain.places(places)))
            allowed = allowed + 8 * FLOAT32_EPS * phases
        if (size > allowed).any():
            return None
        largest = max(largest, float(size.max()))
    return largest


def frequencies_along(waves: Complex, eps: float) -> Floats:
    """The frequencies of pairs (N, k) along an axis, the fastest first; none of other columns."""
    parts = [part for part in (waves.real, waves.imag) if not np.isnan(part).any()]
    found = identify(np.hstack(parts), eps)
    if found and "rho" in found["params"]:
        return frequencies(found["params"], 2 * waves.shape[1])
    return np.sort(ladder_of(np.hstack(parts), eps))[::-1]


def settings_read(
    facts: GridFacts, enc: Encoding, form: PairForm | None
) -> list[tuple[Order, dict[str, Any]]]:
    """Settings with which a convention may be a table, the fewest first."""
    if facts.columns is None or not is_stationary(enc):
        return []
    axes, slopes, rho = axes_of(enc), dict[str, float](), 0.0
    base = pairs_of_axes(enc.name, replace(axes, stretch=(), scale=1.0), enc.dim).omega
    exponent = -np.log(np.where(base > 0, base, 1.0)) / np.log(axes.rho)
    lines = zip(sides_of(enc), enc.measure.frequencies.T, rows_of_axes(facts), strict=True)
    for letter, omega, rows in lines:
        use = np.argsort(-omega)[: np.count_nonzero(omega)]
        if min(len(rows) - 1, len(use)) < FEWEST:
            continue
        read = frequencies_along(waves_of(facts.table[rows], enc, form)[:, use], facts.eps)
        if len(read) < len(use):
            return []
        change, ratio = np.polyfit(exponent[use], np.log(read / omega[use]), 1)
        rho = rho or shortest(axes.rho * float(np.exp(np.clip(-change, -30, 30))), ROUNDED)
        slopes[letter] = float(np.exp(ratio))
    return sorted(coordinate_settings(enc, rho, slopes) if slopes else (), key=itemgetter(0))


def coordinate_settings(
    enc: Encoding, rho: float, slopes: dict[str, float]
) -> Iterator[tuple[Order, dict[str, Any]]]:
    """Settings that change the slopes of coordinates by factors, with their count and preference.

    A whole factor is a scale, unless the convention's source code has a reference.
    """
    axes, sides = axes_of(enc), sides_of(enc)
    has_reference = bool(axes.reference or fact_of_convention(enc.name, axes.convention, "kept"))
    usual = axes.reference or [float(sides.get(k, 1)) for k in axes.order]
    kinds = dict.fromkeys([axes.coordinates, "index", *LINES])
    for place, (kind, offset) in enumerate(product(kinds, {axes.offset, 0.0, 0.5, 1.0})):
        trial = replace(axes, coordinates=kind, offset=offset, rho=rho)
        away = {k: x * slope(axes, k, sides) / slope(trial, k, sides) for k, x in slopes.items()}
        factor, one = whole(float(np.mean([*away.values()]))), float(kind == "closed")
        sizes = dict(zip(axes.order, usual, strict=True))
        for k, x in away.items():
            sizes[k] = whole((sizes[k] - one) * (x if kind == "index" else 1 / x) + one)
        scaled = replace(trial, scale=axes.scale * factor), [factor]
        referred = replace(trial, reference=(*sizes.values(),)), sizes.values()
        is_same = max(abs(x - 1) for x in away.values()) < NEARLY
        for settings, numbers in [(trial, [])] if is_same else [scaled, referred]:
            changes = {k: x for k, x in vars(settings).items() if x != getattr(axes, k)}
            count = len(changes) + any(x % 1 for x in numbers)
            rank = 0 if is_same else 1 + (("scale" in changes) == has_reference)
            if count <= MOST_CHANGES:
                yield (count, rank, place), changes


def sides_of(enc: Encoding) -> dict[str, int]:
    """The side of each axis, by its letter."""
    return dict(zip(axis_letters(len(enc.domain.sides)), enc.domain.sides, strict=True))


def slope(axes: Axes, letter: str, sides: dict[str, int]) -> float:
    """Radians per point of the first pair of an axis."""
    across = [sides[k] for k in "yx" if k in sides]
    return axes.scale * coordinate(axes, axes.order.index(letter), sides[letter], across)[0]


def whole(value: float) -> float:
    """The whole number nearby, or the value to few digits.

    >>> whole(16.0001), whole(0.33333334)
    (16.0, 0.333333)
    """
    near = abs(value - round(value)) < NEARLY and round(value) != 0
    return float(round(value)) if near else shortest(value, ROUNDED)

"""Are two implementations the same encoding? Equal, equivalent, or different, and where.

Conventions
-----------
Tables are (n, d); of different lengths the common positions are compared, to rounding as
`geometry.tolerance` knows it. Equivalent tables follow from one another by an order of
columns, signs, a scale and an offset in positions, have their rows in another order, or one row
added to all, as `by` says; the weakest equivalence is a rotation, by which all inner products are
kept. On a grid rows that are moved are no such thing: each point has the code of another. The
factor before the waves of rotary positions is no such scale: it is part of what attention computes,
and another one is a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.analysis.likeness import Likeness, measure_likeness
from pefourier.analysis.operators import (
    OperatorComparison,
    columns_that_turn,
    compare_rotations,
    turns_by_formula,
)
from pefourier.encodings.columns import changes_by_name
from pefourier.encodings.encoding import (
    BLOCK,
    Encoding,
    Finding,
    as_encoding,
    largest_number,
    row_blocks,
    unit_of,
    without_prefix,
)
from pefourier.geometry.duplicates import first_duplicate
from pefourier.geometry.tolerance import READ, has_float32_phases, stored_tolerance
from pefourier.result import Result

if TYPE_CHECKING:  # imported where two encodings differ: pages of other answers name this type
    from pefourier.diagnosis.causes import Cause, WaveTable

FEW = 64  # rows in which a match of columns is looked for first
MOST_LEVELS, FEWEST_LEVELS = 2**16, 12  # of numbers that were rounded to whole steps
OF_SCALE = 0.05  # of a step by which a fitted scale moves the largest number
NEARLY = 0.02  # of the largest number: bfloat16 has eight bits
MULTIPLE = 1e-3  # of a step by which float32 moves a multiple of it
PROBES = 8  # random directions in which inner products are compared
SUMS_EPS = 8 * 2.0**-52  # to which sums of squares in float64 are known
EXPLAINED = 0.1  # of the differences of entries: more is left, and a rotation explains nothing
SQUARES_EPS = 1e-12  # of those sums, by which small differences are told
DOUBLED = {"part": "both", "times": 2}  # `by` of what code multiplies both of a pair with
SAME_WAVES = 1e-12  # to which a formula's codes are the waves of its frequencies
MOST_FINDING = 2**31  # products of numbers for which both tables are looked at on their own


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """What two tables have in common; b is what a becomes."""

    verdict: str  # "equal", "equivalent" or "different"
    bitwise: bool  # every number the same
    by: dict  # what leads from a to b: columns, layout, signs, scale, offset, or rotation
    length: int  # positions compared
    lengths: tuple[int, int]
    dimensions: tuple[int, int]
    tolerance: float  # largest difference that rounding explains at any position and column
    max_difference: float | None  # after `by`; of a rotation, of products, relative
    first_difference: tuple[int, int] | None  # position and column, of the tables as they are
    largest_difference: tuple[int, int] | None
    cause: Cause | None = None  # what explains a difference, where something known does
    likeness: Likeness | None = None  # of tables that differ
    operator: OperatorComparison | None = None  # of two rotations, one of them maybe a table
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)  # a's, b's alone
    given_tolerance: float | None = None  # largest difference of numbers that is to count as none
    float32_phases: tuple[str, ...] = ()  # a, b: of float64, computed from phases in float32

    @property
    def same(self) -> bool:
        """Whether a model with trained weights finds in one what it finds in the other.

        Another order of columns, a sign or a scale is made up for by a training that starts anew,
        not by weights that are there. Of two rotations the operators count; where one is a table
        its numbers do, as it is they that are asked about: a program's dump can only be equal, or
        hold each wave once for either dimension of a pair.
        """
        if self.operator and self.operator.relation != "unknown":
            return self.operator.relation == "same" or self.converted
        return self.verdict == "equal" or self.by == DOUBLED

    @property
    def converted(self) -> bool:
        """Whether rows differ from a config's as llama.cpp's converter has put those of weights.

        A GGUF file of an architecture that turns neighbours holds weights in that order.
        """
        paths = [str(enc.params.get("path", "")) for enc in self.about]
        ggufs = [path.lower().endswith(".gguf") for path in paths]
        names = ("neighbours-to-halves", "halves-to-neighbours")  # of a file that is first, second
        beside = all(paths) and sum(ggufs) == 1 and self.operator.relation == "permuted"
        return beside and self.operator.name == names[ggufs[1]]


def compare(
    a: Encoding | np.ndarray, b: Encoding | np.ndarray, tolerance: float | None = None
) -> Comparison:
    """Compare two encodings, or tables with one row a position.

    `by` reads: column j of b is `scale` · signs[j] · column columns[j] of a, `offset` rows further
    on in a; or one of the two holds a `part` of the other's waves, each so many `times`. `cause` is
    the misreading of a rotation, or the parameters of tables, that explain a difference. With a
    `tolerance` tables are equal whose numbers, as they are, differ by no more than that.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> one, two = load("sinusoidal", 40, 8), load("sinusoidal:layout=halves,offset=2", 40, 8)
    >>> c = compare(one, two)
    >>> c.verdict, c.by["layout"], c.by["offset"]
    ('equivalent', 'interleaved to halves', 2)
    """
    from pefourier.diagnosis.causes import find_cause

    one, two = as_encoding(a), as_encoding(b)
    if len(one.domain.sides) > 1 and one.domain.sides == two.domain.sides and len(one) != len(two):
        return compare_behind(one, two, tolerance)
    one, two = in_layout_of(two, one), in_layout_of(one, two)
    found = replace(compare_codes(one, two), given_tolerance=tolerance)
    if tolerance is not None and found.largest_difference:
        largest = largest_as_they_are(one, two, found)
        if largest <= tolerance or found.verdict == "equal":
            verdict = "equal" if largest <= tolerance else "different"
            return replace(found, verdict=verdict, by={}, max_difference=largest)
    if len(one.domain.sides) > 1:
        found = compare_on_grid(one, two, found)
    if found.verdict == "different":
        found = compare_forms(one, two, found)
    if found.verdict == "different":
        found = compare_sizes(one, two, found)
    found, cause = with_cause(one, two, found)
    if found.verdict == "different":
        found = replace(found, likeness=measure_likeness(one, two))
        if one.dim == two.dim and (cause is None or cause.of == "both"):
            found = replace(found, findings=findings_apart(one, two))
    alike = found.verdict != "different"
    operator = None if "rounded" in found.by else compare_rotations(one, two, alike)
    if operator and operator.relation == "different":
        found = replace(found, verdict="different")
        cause = cause or find_cause(one, two)
    return replace(found, cause=cause, operator=operator)


def with_cause(one: Encoding, two: Encoding, found: Comparison) -> tuple[Comparison, Cause | None]:
    """What explains a difference, and the comparison where that leaves none."""
    from pefourier.diagnosis.causes import find_cause
    from pefourier.diagnosis.resampled import read_unpermuted, rounding_of, two_resizings

    cause = find_cause(one, two) if found.verdict == "different" or "scale" in found.by else None
    if found.verdict == "different" and cause is None:
        cause = two_resizings(one, two)
        if cause and len({*cause.changes["method"]}) == 1:  # each is near what that method makes
            near = {"tolerance": 2 * rounding_of(one, two), "first_difference": None}
            found, cause = replace(found, verdict="equal", by={}, **near), None
        elif cause is None:
            cause = read_unpermuted(one, two)
    multiplied = cause and (cause.of != "both" or "attention_factor" in cause.changes)
    if multiplied and found.verdict == "equivalent":
        found = unscaled(one, two, found)
    return found, cause


def compare_behind(one: Encoding, two: Encoding, tolerance: float | None) -> Comparison:
    """The points of one grid, before which one table has rows that the other lacks."""

    def bare(enc: Encoding) -> Encoding:
        start = enc.domain.prefix
        domain = replace(enc.domain, x=enc.domain.x[start:] - start, prefix=0)
        return replace(enc, domain=domain, codes=lambda x: enc.codes(np.asarray(x) + start))

    found = compare(bare(one), bare(two), tolerance)
    found = replace(found, lengths=(len(one), len(two)))
    if found.verdict == "different":
        return found
    before = [one.domain.prefix, two.domain.prefix]
    return replace(found, verdict="equivalent", bitwise=False, by={**found.by, "prefix": before})


def in_layout_of(meant: Encoding, enc: Encoding) -> Encoding:
    """Cosines and sines of complex numbers in the columns of a rotation; all else as it is."""
    if not enc.paired or meant.params.get("layout") != "halves":
        return enc
    order = changes_by_name(enc.dim)["interleaved to halves"]
    return replace(enc, codes=lambda x: np.asarray(enc.codes(x))[:, order])


def findings_apart(one: Encoding, two: Encoding) -> dict[str, tuple[Finding, ...]]:
    """What is surely or probably wrong with one table alone, as `check-faithful` finds it."""
    from pefourier.diagnosis import diagnose
    from pefourier.geometry.closest import closest_pair
    from pefourier.geometry.singular_values import decompose

    if max(len(enc) * enc.dim**2 for enc in (one, two)) > MOST_FINDING:
        return {}
    found = {}
    for name, enc in (("a", one), ("b", two)):
        bare = without_prefix(enc)
        findings = diagnose(enc, closest_pair(bare), decompose(bare).rank)[1]
        found[name] = {f.code: f for f in findings if f.severity != "note"}
    return {
        name: tuple(f for code, f in own.items() if code not in found["ab".replace(name, "")])
        for name, own in found.items()
    }


def unscaled(one: Encoding, two: Encoding, found: Comparison) -> Comparison:
    """A comparison of rotations that are one another's multiples: the codes as they are."""
    return replace(
        found,
        verdict="different",
        by={},
        tolerance=found.tolerance / found.by["scale"],
        max_difference=largest_as_they_are(one, two, found),
    )


def largest_as_they_are(one: Encoding, two: Encoding, found: Comparison) -> float:
    """The largest difference of two tables' numbers, before what leads from one to the other."""
    s, j = found.largest_difference
    a, b = (float(np.asarray(enc.codes(enc.domain.x[s : s + 1]))[0, j]) for enc in (one, two))
    return abs(a - b)


def compare_codes(one: Encoding, two: Encoding) -> Comparison:
    """Two encodings as tables: what stands in their columns."""
    n = min(len(one), len(two))
    facts = {
        "length": n,
        "lengths": (len(one), len(two)),
        "dimensions": (one.dim, two.dim),
        "about": (one, two),
    }
    if one.dim != two.dim:
        unknown = dict.fromkeys(("max_difference", "first_difference", "largest_difference"))
        return Comparison("different", False, {}, tolerance=0.0, **unknown, **facts)
    first, second = (np.asarray(enc.table(enc.domain.x[:n]), dtype=float) for enc in (one, two))
    allowed, eps = stored_tolerance(first, second, one, two)
    plain = np.abs(first - second)
    facts |= {"tolerance": float(allowed.max()), **locate_differences(plain, allowed)}
    coarse = [has_float32_phases(table) for table in (first, second)]
    facts["float32_phases"] = tuple(name for name, own in zip("ab", coarse, strict=True) if own)
    if (plain <= allowed).all():
        bitwise = bool((plain == 0).all())
        return Comparison("equal", bitwise, {}, max_difference=float(plain.max()), **facts)
    by, difference = find_transformation(first, second, allowed, eps)
    if by is None:
        by, difference, step = find_rounding(first, second, allowed)
        facts["tolerance"] += step / 2
    if by is None:
        by, difference = find_shift(first, second, allowed, eps)
    if by is None:
        by, difference = find_row_order(first, second, allowed)
    moved = len(one.domain.sides) > 1 and "offset" in (by or {})
    verdict = "different" if by is None or moved else "equivalent"
    worst = float(plain.max()) if verdict == "different" else difference
    facts["tolerance"] *= (by or {}).get("scale", 1.0)
    return Comparison(verdict, False, by or {}, max_difference=worst, **facts)


def compare_on_grid(one: Encoding, two: Encoding, found: Comparison) -> Comparison:
    """What only tables of one grid can have in common: rows in another order, other coordinates."""
    from pefourier.diagnosis import grid_changes

    if one.dim != two.dim or not grid_changes.on_one_grid(one, two):
        return found
    sides = one.domain.sides
    a, b = (np.asarray(without_prefix(enc).table(), dtype=float) for enc in (one, two))
    unnamed = "rotation" in found.by or found.by.get("rows") == "permuted"
    if found.verdict == "equal" or (found.verdict == "equivalent" and not unnamed):
        return replace(found, by=named_columns(found.by, a, b, sides))
    allowed, eps = stored_tolerance(a, b, without_prefix(one), two)
    allowed = np.full((len(a), 1), 2 * allowed.max())
    for said, table, other in (
        *((said, table, b) for said, table in grid_changes.rows_in_other_order(a, sides)),
        *at_other_coordinates(one, two, a, b),
    ):
        by, left = find_transformation(table, other, allowed, eps)
        if by is not None and not {"rotation", "offset"} & by.keys():
            told = by if "rows" in said else named_columns(by, a, b, sides)
            explained = float(allowed.max()) * by.get("scale", 1.0)
            found = replace(found, max_difference=left, tolerance=explained)
            return replace(found, verdict="equivalent", by=said | told)
    return found


def at_other_coordinates(
    one: Encoding, two: Encoding, a: np.ndarray, b: np.ndarray
) -> Iterator[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    """Changes of coordinates that may lead from a to b, and both tables, one of them changed.

    Columns keep their order. Where neither is given by a formula, what they are identified as is.
    """
    from pefourier.diagnosis.grid_changes import changes_of_coordinates, inverse_change
    from pefourier.diagnosis.grid_rules import identified_formula

    if not (one.stationary or two.stationary):
        one, two = (identified_formula(enc) or enc for enc in (one, two))

    def in_its_order(enc: Encoding, waves: np.ndarray) -> np.ndarray | None:
        before, after = np.split(waves, 2)
        own, limit = np.asarray(without_prefix(enc).table()), np.full((len(after), 1), SAME_WAVES)
        by, _ = find_columns(before, own, limit, 0.0) if before.shape == own.shape else (None, 0)
        if by is None:
            return None
        return after[:, by.get("columns", slice(None))] * np.array(by.get("signs", 1.0))

    for said, waves in changes_of_coordinates(one, two):
        if (table := in_its_order(one, waves)) is not None:
            yield said, table, b
    if one.stationary:
        return
    for said, waves in changes_of_coordinates(two, one):
        if (table := in_its_order(two, waves)) is not None:
            yield inverse_change(said), a, table


def named_columns(
    by: dict[str, Any], a: np.ndarray, b: np.ndarray, sides: tuple[int, ...]
) -> dict[str, Any]:
    """What leads from a to b, with the names of the order of axes and of columns within them."""
    from pefourier.diagnosis.grid_changes import layout_within_axes, order_of_axes

    orders = [order_of_axes(table, sides) for table in (a, b)]
    if None in orders or "offset" in by or "columns" not in by:
        return by
    named = {"order": " to ".join(orders)} if orders[0] != orders[1] else {}
    if "layout" not in by:
        within = layout_within_axes(a, b, sides, by["columns"])
        named |= {"layout": f"{within}, within each axis"} if within else {}
    return named | by


def compare_forms(one: Encoding, two: Encoding, found: Comparison) -> Comparison:
    """A table may hold one wave of a rotation alone, or each frequency twice."""
    for meant, other in ((one, two), (two, one)):
        for form, first, left, allowed in forms_held(meant, other):
            by = {"part": form.part, "times": form.times}
            own = meant.params.get("layout", "halves")
            layouts = (own, form.layout_read(own))
            if layouts[0] != layouts[1]:
                by["layout"] = " to ".join(layouts if meant is one else layouts[::-1])
            by |= {"first": form.first} if (form.times, form.first) == (2, "sin") else {}
            by |= {"offset": first * (1 if meant is one else -1)} if first else {}
            found = replace(found, max_difference=left, tolerance=allowed)
            return replace(found, verdict="equivalent", by=by)
    return found


def forms_held(meant: Encoding, other: Encoding) -> Iterator[tuple[WaveTable, int, float, float]]:
    """Forms in which a table holds a rotation as it is meant, and the position of its first row.

    Last, the largest difference that is left, and the largest that rounding explains.
    """
    from pefourier.diagnosis.causes import forms, holds_numbers
    from pefourier.diagnosis.identify import FIRSTS

    one_place = len({(e.domain.kind, e.domain.grid, e.domain.prefix) for e in (meant, other)}) == 1
    if not (holds_numbers(other) and turns_by_formula(meant) and one_place):
        return
    own, table = columns_that_turn(meant), np.asarray(other.table(), dtype=float)
    for form in forms(len(own[0]), other.dim, {meant.params.get("layout", "halves"): own}):
        starts = in_form(form, own, meant.codes(np.arange(1 if meant.domain.grid else FIRSTS)))
        first = int(np.abs(starts - table[0]).max(axis=1).argmin())
        near = np.abs(starts[first] - table[0]).max() <= NEARLY * largest_number(starts)
        if not near or (form.part, form.times) == ("both", 1):  # as a rotation holds them anyway
            continue
        codes = np.asarray(meant.codes(other.domain.x + first))
        allowed, _ = stored_tolerance(codes, table, moved(meant, first), other)
        left, limit = np.abs(in_form(form, own, codes) - table), in_form(form, own, allowed)
        if (left <= limit).all():
            yield form, first, float(left.max()), float(limit.max())


def moved(enc: Encoding, first: int) -> Encoding:
    """An encoding of positions whose first is another, for what is said of its phases."""
    if not first:
        return enc
    return replace(enc, measure=replace(enc.measure, offset=enc.measure.offset + first))


def in_form(form: WaveTable, own: tuple[np.ndarray, np.ndarray], table: np.ndarray) -> np.ndarray:
    """A table of both waves of pairs, at their `own` columns, in another form."""
    return form.table(*(np.asarray(table)[:, part] for part in own))


def compare_sizes(one: Encoding, two: Encoding, found: Comparison) -> Comparison:
    """One table may be the other, resized for another grid."""
    from pefourier.diagnosis.resampled import read_resizing

    known = read_resizing(one, two) if len(one) != len(two) else None
    if known is None:
        return found
    by = {"resized": known.of, "from": list(known.old), "to": list(known.new)}
    by |= {"method": known.method}
    left = {"max_difference": known.left, "tolerance": known.allowed}
    return replace(found, verdict="equivalent", by=by, **left)


def locate_differences(
    difference: np.ndarray, allowed: np.ndarray
) -> dict[str, tuple[int, int] | None]:
    """Position and column of the first difference beyond rounding, and of the largest of all."""

    def first_of(where: np.ndarray) -> tuple[int, int] | None:
        found = np.unravel_index(where.argmax(), where.shape)
        return (int(found[0]), int(found[1])) if where[found] else None

    return {
        "first_difference": first_of(difference > allowed),
        "largest_difference": first_of(difference),
    }


def find_transformation(
    a: np.ndarray, b: np.ndarray, allowed: np.ndarray, eps: float
) -> tuple[dict | None, float]:
    """What leads from a to b, or None, and the largest difference left."""
    if not a.any() or not b.any():
        return None, 0.0
    for offset in candidate_offsets(a, b, allowed.max() / largest_number(a)):
        rows = np.maximum(*overlap(allowed, allowed, offset))
        unknown = b[: max(-offset, 0)]  # zeros need no explanation
        if (abs(offset) if unknown.any() or offset > 0 else 0) > max(1, len(a) // 4):
            continue
        by, left = find_columns(*overlap(a, b, offset), rows, eps)
        if by is not None:
            by |= {"offset": offset} if offset else {}
            by |= {"zero_rows": len(unknown)} if len(unknown) and not unknown.any() else {}
            return by, left
    by, left = find_columns(a[::-1], b, np.maximum(allowed, allowed[::-1]), eps)
    if by is not None:
        return {"rows": "reversed"} | by, left
    return find_rotation(a, b, allowed, eps)


def find_shift(
    a: np.ndarray, b: np.ndarray, allowed: np.ndarray, eps: float
) -> tuple[dict | None, float]:
    """The one row that is added to all codes, and the largest difference it leaves."""
    shift = (b - a).mean(axis=0)
    allowed = allowed + eps * np.abs(shift)  # which is rounded with what it is added to
    left = np.abs(a + shift - b)
    varied = len(a) > 2 and (np.abs(a - a.mean(axis=0)) > 4 * allowed).any()
    if not varied or not (left <= allowed + SUMS_EPS * np.abs(shift)).all():
        return None, 0.0
    return {"shift": shift.tolist()}, float(left.max())


def find_row_order(a: np.ndarray, b: np.ndarray, allowed: np.ndarray) -> tuple[dict | None, float]:
    """Whether the rows of a, all distinct, are those of b in another order, and what is left."""
    weights = np.random.default_rng(0).standard_normal(a.shape[1])
    own, other = np.argsort(a @ weights, kind="stable"), np.argsort(b @ weights, kind="stable")
    limit = np.broadcast_to(allowed, a.shape)
    left = np.abs(a[own] - b[other])
    distinct = len(np.unique(first_duplicate(a))) == len(a)
    if not distinct or not (left <= np.maximum(limit[own], limit[other])).all():
        return None, 0.0
    return {"rows": "permuted"}, float(left.max())


def find_columns(
    x: np.ndarray, y: np.ndarray, allowed: np.ndarray, eps: float, digits: int = 6
) -> tuple[dict | None, float]:
    """The order of columns, signs and scale that lead from x to y, and what they leave.

    A scale of so many digits was chosen, if rounding to `eps` explains what it has beyond them.
    """
    scale = np.sqrt((y**2).sum() / ((x**2).sum() or np.inf))  # pairwise sums, to a few eps
    if scale == 0:
        return None, 0.0
    short = 1.0 if abs(scale - 1) <= eps else float(f"{scale:.{digits}g}")
    scale = short if abs(scale - short) <= max(eps, SUMS_EPS) * scale else float(scale)
    rows = allowed * scale
    for columns, signs in column_maps(x, y, rows, scale):
        left = largest_left(x, y, rows, columns, signs * scale)
        if left is not None:
            return describe_transformation(columns, signs, scale), left
    return None, 0.0


def largest_left(
    x: np.ndarray, y: np.ndarray, allowed: np.ndarray, columns: np.ndarray, factors: np.ndarray
) -> float | None:
    """The largest difference of y and columns of x times factors; None where one is too large."""
    worst, limits = 0.0, allowed if allowed.shape[1] == 1 else allowed[:, columns]
    for rows in row_blocks(len(x), BLOCK, x.shape[1]):
        left = np.abs(x[rows][:, columns] * factors - y[rows])
        if not (left <= limits[rows]).all():
            return None
        worst = max(worst, float(left.max()))
    return worst


def find_rounding(
    a: np.ndarray, b: np.ndarray, allowed: np.ndarray
) -> tuple[dict | None, float, float]:
    """Whether one of two is the other rounded to multiples of a step, what is left, and the step.

    So are codes that are kept in 8 bits or 4; the step is one of a's numbers.
    """
    scale = float(np.linalg.norm(b) / (np.linalg.norm(a) or np.inf)) or 1.0
    own, other = step_of_rounding(a), step_of_rounding(b)
    for digits in (1, 3):
        chosen = float(f"{scale:.{digits}g}")
        for step in {own, other / chosen} - {0.0}:
            of_norms = step / largest_number(a)  # by which rounding changes a scale at most
            by, left = find_columns(a, b, allowed + step * (0.5 + MULTIPLE), of_norms, digits)
            if by is not None and by.get("scale", 1.0) == chosen:
                return by | {"rounded": float(f"{step:.6g}")}, left, step
    together = float(np.vdot(a, b))
    rounded = [(own, np.vdot(b, b) / (together or np.inf))]  # what is rounded depends on the other
    rounded += [(other and other / scale, together / (np.vdot(a, a) or np.inf))]
    for step, fitted in rounded:
        if step and fitted > 0:
            limit = fitted * (allowed + step * (0.5 + OF_SCALE))
            left = largest_left(a, b, limit, np.arange(a.shape[1]), np.full(a.shape[1], fitted))
            if left is not None:
                by = {"scale": float(f"{fitted:.6g}"), "rounded": float(f"{step:.6g}")}
                return by, left, step * (1 + 2 * OF_SCALE)
    return None, 0.0, 0.0


def step_of_rounding(table: np.ndarray) -> float:
    """The step of which all numbers are multiples, as far as float32 tells; 0: there is none.

    >>> round(float(step_of_rounding(np.round(np.sin(np.arange(99.0)) * 127) / 127)), 6)
    0.007874
    """
    values = np.unique(table[:READ])
    span = float(values[-1] - values[0])
    gaps = np.diff(values)
    gaps = gaps[gaps > MULTIPLE * MULTIPLE * span]
    if len(values) > MOST_LEVELS or len(gaps) < FEWEST_LEVELS:
        return 0.0
    step = span / np.rint(span / gaps.min())
    multiples = values / step
    return step if np.abs(multiples - np.rint(multiples)).max() < MULTIPLE else 0.0


def overlap(a: np.ndarray, b: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a and b that belong together when b[s] comes from a[s + offset]."""
    n = len(a)
    return (a[offset:], b[: n - offset]) if offset >= 0 else (a[: n + offset], b[-offset:])


def candidate_offsets(a: np.ndarray, b: np.ndarray, allowed: float) -> Iterator[int]:
    """Offsets at which a first row of one table is one of the other, up to order and signs.

    `allowed` are differences that rounding explains, as a share of the largest number.
    """
    yield 0
    for rows, other, sign in ((a, b, 1), (b, a, -1)):
        apart = np.abs(signature(rows) - signature(other[:1])).max(axis=1)
        length = np.linalg.norm(other[0])
        near = 1e-6 + (4 * allowed * largest_number(other) / length if length else 0.0)
        found = [int(s) for s in np.argsort(apart, kind="stable")[:4] if apart[s] <= near]
        yield from (sign * s for s in found if 0 < s <= len(a) // 2)


def signature(rows: np.ndarray) -> np.ndarray:
    """What order, signs and scale of the columns leave of each row: sorted sizes, length 1."""
    sizes = np.sort(np.abs(rows), axis=1)
    length = np.linalg.norm(sizes, axis=1, keepdims=True)
    return sizes / np.where(length > 0, length, 1.0)


def column_maps(
    a: np.ndarray, b: np.ndarray, allowed: np.ndarray, scale: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Candidates (columns, signs) with b = scale · a[:, columns] · signs.

    Columns that fit where they stand stay. Where some do not, orders that have a name come first:
    of many slow columns several may suit a place. Others are matched by their products with random
    weights in order of size; few rows serve first, where phases are hardly rounded.
    """
    n, d = a.shape
    columns, signs = np.arange(d), np.ones(d)
    same = fitting_columns(a, b, allowed, scale)
    turned = fitting_columns(a, b, allowed, -scale) & ~same
    signs[turned] = -1.0
    rest = np.flatnonzero(~(same | turned))
    if len(rest) == 0:
        yield columns, signs
        return
    few = [x[:FEW] for x in (a, b, allowed)]
    for order in changes_by_name(d).values():
        if largest_left(*few, order, np.full(d, scale)) is not None:
            yield order, np.ones(d)
    for count in sorted({min(FEW, n), min(512, n), n}):
        weights = np.random.default_rng(count).standard_normal(count)
        p, q = ((weights @ x[:count])[rest] for x in (a, b))
        columns[rest[np.argsort(np.abs(q))]] = rest[np.argsort(np.abs(p))]
        own = sum(
            np.einsum("ij,ij->j", a[rows][:, columns[rest]], b[rows][:, rest])
            for rows in row_blocks(count, BLOCK, d)
        )
        signs[rest] = np.where(own < 0, -1.0, 1.0)
        yield columns.copy(), signs.copy()


def fitting_columns(a: np.ndarray, b: np.ndarray, allowed: np.ndarray, factor: float) -> np.ndarray:
    """Whether each column of b is that of a times a factor."""
    fits = np.ones(a.shape[1], bool)
    for rows in row_blocks(len(a), BLOCK, a.shape[1]):
        fits &= (np.abs(factor * a[rows] - b[rows]) <= allowed[rows]).all(axis=0)
        if not fits.any():
            break
    return fits


def describe_transformation(columns: np.ndarray, signs: np.ndarray, scale: float) -> dict:
    """A transformation in words: only what differs from nothing done."""
    by, d = {}, len(columns)
    place = np.arange(d)
    if (columns != place).any():
        by["columns"] = columns.tolist()
        found = [name for name, order in changes_by_name(d).items() if (order == columns).all()]
        by |= {"layout": found[0]} if found else {}
    if (signs < 0).any():
        by["signs"] = signs.astype(int).tolist()
    if scale != 1.0:
        by["scale"] = scale
    return by


def products_with_probes(
    a: np.ndarray, b: np.ndarray, allowed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inner products of rows of two tables, times random vectors, and what rounding explains."""
    probes = np.random.default_rng(0).standard_normal((len(a), PROBES))
    rounding = np.linalg.norm(allowed, axis=1)
    lengths = np.linalg.norm(a, axis=1)
    limit = rounding * np.linalg.norm(a) + lengths * np.linalg.norm(rounding)
    return a @ (a.T @ probes), b @ (b.T @ probes), limit


def find_rotation(
    a: np.ndarray, b: np.ndarray, allowed: np.ndarray, eps: float
) -> tuple[dict | None, float]:
    """Whether all inner products agree up to one scale, and the largest relative difference seen.

    Products with random vectors differ, where the inner products do, with probability one. Codes
    are then one another's images under a rotation or reflection of the columns, which moves them
    all: where half of them stand still, no rotation is looked for. Limits of products are those of
    rounding at its worst, which noise may pass: so the best rotation (Schönemann, 1966) has to
    leave a small part of what differs as it is.
    """
    moved = (np.abs(a - b) > allowed).any(axis=1)
    if 2 * moved.sum() < len(a):
        return None, 0.0
    units = unit_of(a), unit_of(b)  # products of products are taken near 1
    a, b, allowed = a * units[0], b * units[1], np.broadcast_to(allowed * units[0], a.shape)
    scale = float(np.linalg.norm(b)) / float(np.linalg.norm(a))
    for rows in (slice(FEW), slice(None)):  # phases of the first rows are hardly rounded
        x, y, limit = products_with_probes(a[rows], b[rows] / scale, allowed[rows])
        if (np.abs(x - y).max(axis=1) > 2 * limit).any():
            return None, 0.0
    share = 1 / (float(np.linalg.norm(a)) * float(np.linalg.norm(b)))
    still = 1 - share * float(np.vdot(a, b))  # squares that are left where nothing is turned
    turned = 1 - share * float(np.linalg.svd(a.T @ b, compute_uv=False).sum())  # and at the best
    if turned > EXPLAINED**2 * still - SQUARES_EPS:
        return None, 0.0
    short = float(f"{scale * units[0] / units[1]:.6g}")
    by = {"rotation": True} | ({"scale": short} if abs(short - 1) > eps else {})
    return by, float(np.abs(x - y).max() / np.abs(x).max())

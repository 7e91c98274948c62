"""Comparison of two rotations, or tables of their cosines and sines, pair by pair.

Conventions
-----------
Rotations with known R(p) are compared by the scores of queries and keys, then by their pairs. If
one is a table, only its fitted pairs are compared. For rotations, a factor is not a free scale,
because it changes attention.

Positions of the rows of a table refer to the reference, counted from its row 0. The reference is a
rotation, or a table whose fitted frequencies explain all rows. For longrope, both lists of factors
are tried for each row. If positions explain the rows, no difference in frequency is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.construction.explain import Within
from pefourier.construction.mistakes import (
    Misreading,
    cause_of,
    find_mistakes,
    geometric_rotation,
    settings_cause,
)
from pefourier.construction.operators import (
    OperatorComparison,
    compare_operators,
    explain_scores,
    head_size,
    outputs_apart,
    probe,
    rotates,
)
from pefourier.construction.outcome import SIDES, Outcome, Two
from pefourier.construction.pairs import (
    PositionRun,
    RowPositions,
    describe_runs,
    exchanged_waves,
    first_difference,
    frequencies_apart,
    in_one_order,
    list_differences,
    pairs_apart,
    recover_positions,
    runs_of,
    shift_between,
)
from pefourier.construction.rope import Rope, base_of_grid, is_rotation, list_at
from pefourier.construction.rows import Shifted, explain_rows
from pefourier.construction.steps import (
    StepChanged,
    changed_steps,
    form_of,
    is_scaled,
    name_of_order,
)
from pefourier.construction.tables import TablePart, Zeroed, true_runs
from pefourier.construction.waves import Waves, declared, fit
from pefourier.encodings import load
from pefourier.encodings.encoding import (
    AXES,
    Encoding,
    Finding,
    changes_by_name,
    describe_axes,
    finding,
)
from pefourier.encodings.families.rotary import rotation_of
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.types import Array, Bools, Fields, Floats, Indices, Places, Texts
from pefourier.writing.text import ranges

LARGEST, WIDEST = 2**23, 2**10  # most numbers and columns of tables that are matched
SAMPLE = 64  # rows tested before all rows are matched
FARTHEST = 2**17  # positions of a rotation that are searched, at least
PARTS = {"cos": "cosines", "sin": "sines"}
TwoWaves = tuple[Waves, Waves]


def length_note(enc: Encoding) -> Finding:
    """Report which frequencies a length-dependent rotation has at its length."""
    facts: Fields = {"base": base_of_grid(enc.measure.frequencies)}
    if (scaling := enc.params["scaling"]) == "longrope":
        facts = {"factors": list_at(enc.params, len(enc))}
    return finding("read-at-length", *facts, scaling=scaling, rows=len(enc), **facts)


def compare_rows(
    outcome: Outcome,
    encodings: Two,
    pairs: TwoWaves,
    *,
    few: bool = False,
) -> Outcome | None:
    """Add the position of each row of a table; None if positions do not explain the rows.

    Both orders of cosines and sines are tried, because the first row may not distinguish them.
    `few` states that most rows have their own position.
    """
    for k in (0, 1):
        enc, reference, table = encodings[k], pairs[k], pairs[1 - k]
        is_table = table.form and table.form.part == "both" and table.rows is None
        if not is_table or len(reference) != len(table) or not explains_rows(reference):
            continue
        ordered = enc, encodings[1 - k]
        orders = [
            (waves, [*changed_steps(reference, waves, ordered)])
            for waves in (table, exchanged_waves(table))
        ]
        for waves, steps in sorted(orders, key=lambda order: len(order[1])):
            if found := positions_in(enc, reference, waves):
                later = [step for step in steps if step.code != "shifted"]
                return describe_rows(
                    outcome, k, ordered, (reference, waves), later, *found, few=few
                )
    return None


def explains_rows(reference: Waves) -> bool:
    """Whether the frequencies of the reference hold in all rows."""
    is_even = reference.repeats == 1 and bool(reference.even.all())
    return reference.is_declared or (reference.rows is None and is_even)


def positions_in(
    enc: Encoding, reference: Waves, table: Waves
) -> tuple[RowPositions, NDArray[np.str_]] | None:
    """Find the positions of the rows of a table, and the list of longrope factors of each row.

    None if the reference does not explain the rows.
    """
    n, settings = table.length, enc.params
    eps = max(FLOAT32_EPS, reference.eps, table.eps)
    ways = {"": reference.frequency}
    if reference.is_declared and settings.get("scaling") == "longrope":
        lengths = {list_at(settings, length): length for length in (1, settings["original"] + 1)}
        ways = {name: rotation_of(settings, length)[0] for name, length in lengths.items()}
    start = reference.numbers(np.zeros(1, dtype=int)).conj() / reference.factor
    highest = max(8 * n, FARTHEST if reference.is_declared else 0, len(enc))
    sample = np.unique(np.linspace(0, n - 1, SAMPLE).astype(int))

    def recovered(rows: Places) -> list[RowPositions]:
        waves = table.numbers(rows) * start / table.factor
        return [recover_positions(w, waves, eps, -n - SAMPLE, highest) for w in ways.values()]

    if np.any([rows.explained for rows in recovered(sample)], axis=0).mean() < 0.5:
        return None
    by_way = recovered(np.arange(n))
    label = labels_of(np.array([rows.explained for rows in by_way]))
    fields = zip(*(vars(rows).values() for rows in by_way), strict=True)
    return RowPositions(*(np.choose(label, values) for values in fields)), np.array([*ways])[label]


def labels_of(explained: Bools) -> Places:
    """Choose one of two ways (2, n) for each row; ambiguous rows follow the row after them.

    >>> labels_of(np.array([[True, True, False], [True, False, True]]))
    array([0, 0, 1])
    """
    label: Places = explained.argmax(axis=0)
    for i in np.flatnonzero(explained.sum(axis=0) > 1)[::-1]:
        label[i] = label[min(i + 1, len(label) - 1)]
    return label


def describe_rows(
    outcome: Outcome,
    k: int,
    encodings: Two,
    waves: TwoWaves,
    later: Sequence[StepChanged | Shifted],
    rows: RowPositions,
    readings: NDArray[np.str_],
    *,
    few: bool,
) -> Outcome | None:
    """Report what the positions of rows show; None if they show nothing.

    `encodings` are those of the reference and of the table, `later` the steps after the positions.
    Rows on a line, such as reversed or divided positions, are left to other explanations.
    """
    s, (reference, table) = np.arange(len(rows.positions)), waves
    is_known, moved = rows.explained, rows.positions != s
    is_whole = is_known.all() and (readings == readings[0]).all()
    is_frequency = not few and table.even.all()
    if (
        (is_frequency and not is_known.all())
        or (table.repeats > 1 or np.array_equal(rows.positions, -s))  # on a line
        or (is_whole and not moved.any())
        or (is_known & moved & (rows.uncertainty > 0)).any()
        or is_known.mean() <= 0.5
    ):
        return None
    outcome = replace(outcome, compared=without_vectors(outcome.compared))
    reading = with_rows(outcome, SIDES[1 - k], rows.positions, is_known, readings)
    (first, step), omega = rows.positions[:2].tolist(), reference.frequency
    if is_whole and (rows.positions == first + s).all() and not later:
        offset: Fields = {"offset": -first if k else first}
        moved = replace(outcome, transform=offset, positions=reading.positions)
        return with_causes(moved, (Shifted(first),), k, cause=None, verdict="equivalent")
    if is_whole and step > 1 and (rows.positions == step * s).all():
        stepped = Misreading(
            "step", {"positions": ("p", f"{step} p")}, step * omega, step="positions"
        )
        return with_causes(reading, (stepped, *later), k, reference)
    if is_whole and first < 0 and (rows.positions == first - s).all():
        change = {"sine": ("sin w p", "-sin w p")}
        turned = Misreading("reversed", change, -omega, step="waves")
        return with_causes(reading, (Shifted(-first), turned, *later), k, reference)
    expected = np.arange(max(len(s), reference.length))  # a table may be cut
    if is_whole and (found := explain_rows(expected, rows.positions.astype(np.int64)).causes):
        return with_causes(reading, (*found, *later), k, cause=None)
    if not (is_known.all() or later or (is_known & moved).any()):
        if within := explain_stray_rows(encodings, reference, table, is_known):
            return with_causes(reading, within, k, cause=None)
    steps = ("positions", *dict.fromkeys(change.step for change in later))
    share = 0.0 if later else float((is_known & ~moved).mean())
    return replace(reading, explained=share, steps=steps, expected=SIDES[k])


def explain_stray_rows(
    encodings: Two, reference: Waves, table: Waves, is_known: Bools
) -> tuple[Within[Any], ...]:
    """Return what explains one run of rows that have no position: zeros, or other frequencies.

    `encodings` are those of the reference and of the table.
    """
    (first, last), *others = true_runs(~is_known)
    rows, part = encodings[1].table()[first : last + 1], TablePart("rows", first, last)
    if others or not rows.any():
        return () if others else (Within(part, Zeroed()),)
    rotation = encodings[0] if reference.is_declared else geometric_rotation(reference)
    meant, stray = rotation and declared(rotation), fit(rows, table.eps)
    if not (rotation and meant and stray) or len(stray) != len(meant):
        return ()
    steps = [*changed_steps(table, stray, (encodings[1], encodings[1]))]
    if steps != [Shifted(first)]:
        return ()
    causes: tuple[Any, ...] = find_mistakes(rotation, meant, stray)
    return tuple(Within(part, cause) for cause in causes)


def with_rows(
    outcome: Outcome,
    table: str,
    positions: Indices,
    is_known: Bools,
    readings: NDArray[np.str_] | None = None,
    noun: str = "position(s)",
) -> Outcome:
    """Build the outcome of rows with different positions, some possibly unknown."""
    s = np.arange(len(positions))
    readings, placed = np.full(len(s), "") if readings is None else readings, s[is_known]
    cuts = np.flatnonzero(readings[placed][1:] != readings[placed][:-1]) + 1
    runs = list[PositionRun]()
    for part in np.split(placed, cuts):
        name = str(readings[part[0]]) if cuts.size else None
        runs += runs_of(part, positions[part], reading=name)
    kind = "parts" if cuts.size else "plain" if is_known.all() else "stray"
    differing = (positions != s) | ~is_known | (readings != readings[-1])
    facts = {"moves": describe_runs(runs, noun), "table": table, "rows": ranges(s[~is_known])}
    transform: Fields = {}
    code = "rows-moved", kind
    if kind == "plain" and np.array_equal(np.sort(positions), s):
        is_reversed = np.array_equal(positions, s[::-1])
        transform = {"rows": "reversed" if is_reversed else "in another order"}
        code = "rows-reordered", ""
    moved: Fields = {"positions": tuple(runs), "transform": transform, "pairs": (), "cause": None}
    outcome = outcome.with_findings(finding(*code, **facts))
    return outcome.with_differences("rows", int(differing.sum()), len(s), **moved)


def is_matched(table: Array) -> bool:
    """Whether a table is small enough to match rows and columns."""
    return table.size <= LARGEST and table.shape[1] <= WIDEST


def without_vectors(compared: Texts) -> Texts:
    """Names of what was compared if rows are moved: the rotation, not the vectors."""
    names = [name for name in compared if name not in ("codes", "rotations", "factors")]
    return ("rotations", "factors", *names)


def compare_axes_of_rows(outcome: Outcome, first: Waves, second: Waves) -> Outcome | None:
    """Compare a table of tokens with a config that rotates pairs by image axes (t, y, x).

    None if neither the axes that the rows show, nor those as meant, explain all rows. Positions
    show the kinds of tokens; a config does not show whether these are correct.
    """
    meant, table = (first, second) if first.axis else (second, first)
    is_whole = table.form and table.form.part == "both" and len(meant) == len(table)
    if (
        not (meant.axis and is_whole)
        or table.rows is not None
        or is_scaled(meant.factor, table.factor, meant, table)
    ):
        return None
    waves = table.numbers(np.arange(table.length)) / table.factor
    limits = max(FLOAT32_EPS, meant.eps, table.eps), -len(waves) - SAMPLE, FARTHEST
    axis, omega = assign_axes(meant.frequency, waves[:4096]) or meant.axis, meant.frequency
    names, index, letters = dict.fromkeys(axis), np.arange(table.length), np.array(axis)
    lines = [
        recover_positions(omega[letters == name], waves[:, letters == name], *limits)
        for name in names
    ]
    if not all(line.explained.all() for line in lines):
        return None
    runs = [runs_of(index, *own) for own in zip((x.positions for x in lines), names, strict=True)]
    moves = [f"{own[0].axis}: {describe_runs(own)}" for own in runs]
    if unsure := max(line.uncertainty.max() for line in lines):
        moves.append(f"exact to {unsure:.0f} positions")
    kind = kind_of_tokens(np.array([line.positions for line in lines]))
    is_plain = kind == "text" and (lines[0].positions == index).all()
    outcome = outcome.with_findings(
        finding("axis-positions", "plain" if is_plain else kind, moves="; ".join(moves)),
        verdict="the same" if kind == "images" or is_plain else "used differently",
        compared=without_vectors(outcome.compared),
        positions=tuple(chain(*runs)),
    )
    fitted = replace(table, axis=axis, frequency=omega, residual=None)
    return compare_axes(outcome, *((meant, fitted) if meant is first else (fitted, meant)))


def kind_of_tokens(positions: Places) -> str:
    """Classify positions (axes, n): text only, text and images in order, or going back.

    >>> kind_of_tokens(np.array([[0, 1, 1], [0, 1, 1], [0, 1, 2]]))
    'images'
    """
    if (positions == positions[0]).all():
        return "text"
    steps = np.diff(positions, axis=1)
    leading = np.take_along_axis(steps, (steps != 0).argmax(axis=0)[None], axis=0)
    return "images" if (leading > 0).all() else "back"


def with_causes(
    outcome: Outcome,
    causes: Sequence[Any],
    k: int | None = None,
    meant: Waves | None = None,
    **facts: Any,
) -> Outcome:
    """Add steps that turn side k into the other, or in which both differ, as causes."""
    cause, side = cause_of(causes, meant, "both" if k is None else "b" if k else "a"), SIDES[k or 0]
    facts = {"causes": tuple(causes), "expected": side, "explained": 1.0, "cause": cause} | facts
    return replace(outcome, **facts)


def with_factors(outcome: Outcome, changes: Sequence[StepChanged | Shifted]) -> Outcome:
    """Build the outcome of rotations that differ by the factor on cosines and sines."""
    return with_causes(outcome.with_differences("factors", 1, 1), changes)


def read_pairs(first: Encoding, second: Encoding) -> TwoWaves | None:
    """Read the pairs of two encodings in one order of cosines and sines; None if one has none."""
    a, b = pairs_of(first, second), pairs_of(second, first)
    return in_one_order(a, b) if a and b else None


def pairs_of(enc: Encoding, counterpart: Encoding) -> Waves | None:
    """Pairs of an encoding: declared, measured from its source code, or fitted to its table."""
    known = declared(enc)
    if known and enc.name != "rope++":  # its table is that of queries, a quarter rotation behind
        return known
    if not enc.domain.is_line or enc.domain.kind != "position":
        return None
    if enc.operator:
        return probe(enc, counterpart)
    is_table = enc.origin != "formula" and enc.injection != "bias"
    return fit(enc.table(), enc.eps) if is_table else None


def compare_rotations(numbers: Outcome, encodings: Two, pairs: TwoWaves | None) -> Outcome | None:
    """Compare rotations by their effect, and rotations or tables by pairs; None if not possible.

    `numbers` is the outcome of comparing their tables, which pairs may explain.
    """
    operator = compare_operators(*encodings)
    if not operator:
        return compare_pairs(numbers, encodings, pairs) if pairs else None
    outcome = replace(numbers.comparing("rotations"), operator=operator)
    offset = int(pairs[1].moved - pairs[0].moved) if pairs else 0
    are_source = all(enc.operator for enc in encodings)
    if are_source and not (operator.relation == "same" and offset):
        outcome = compare_outputs(outcome, operator, encodings)
    if operator.relation == "permuted" and operator.name != "reversed":
        return replace(outcome, verdict="permuted")
    if operator.relation == "same":
        return compare_same_scores(outcome, encodings, pairs, offset)
    is_code = operator.relation != "unknown" and any(enc.operator for enc in encodings)
    sizes = head_size(encodings[0]), head_size(encodings[1])
    if is_code and sizes[0] == sizes[1]:  # pairs at rest are not measured
        outcome = replace(outcome, dimensions=sizes)
    if operator.relation != "unknown":
        differing = outcome.length - (operator.first_position or 0)
        outcome = outcome.with_differences("positions", differing, outcome.length)
        if is_code or operator.name == "reversed":
            outcome = with_cause_of_scores(outcome, encodings)
    if not pairs or outcome.causes or operator.name == "reversed":
        return outcome
    compared = compare_pairs(outcome, encodings, pairs)
    # the causes of pairs are those of queries alone
    return replace(compared, causes=(), cause=None, explained=None) if is_code else compared


def with_cause_of_scores(outcome: Outcome, encodings: Two) -> Outcome:
    """Add all steps in which a function differs from the other side, a formula."""
    if all(enc.origin != "formula" for enc in encodings):
        if not (rotation := formula_of(encodings[0])):
            return outcome
        encodings = rotation, encodings[1]
    is_swapped = encodings[1].origin == "formula" != encodings[0].origin
    causes = explain_scores(*(encodings[::-1] if is_swapped else encodings))
    if not causes:
        return outcome
    worst = outcome.max_difference or None  # of queries alone
    named = all(isinstance(cause, StepChanged | Misreading) for cause in causes)
    facts: Fields = {} if named else {"cause": None}
    return with_causes(outcome, causes, int(is_swapped), max_difference=worst, **facts)


def formula_of(enc: Encoding) -> Encoding | None:
    """Return the unscaled rotation with the scores of a function, or None."""
    measured = probe(enc, enc)
    rotation = geometric_rotation(measured) if measured else None
    if not rotation:
        return None
    neighbours = load(f"{rotation.spec},layout=interleaved", len(rotation))
    for formula in (rotation, neighbours):
        found = compare_operators(formula, enc)
        if found and found.relation == "same":
            return formula
    return None


def compare_outputs(outcome: Outcome, operator: OperatorComparison, encodings: Two) -> Outcome:
    """Compare the outputs of two functions, which may differ although scores agree."""
    outcome = outcome.comparing("outputs")
    if operator.relation == "permuted":  # outputs are permuted with the inputs
        return outcome
    largest, order = outputs_apart(*encodings)
    if not largest:
        return outcome
    note = finding("outputs-differ", "other" if order is None else "order", residual=largest)
    outcome = outcome.with_findings(note, bitwise=False, max_difference=largest)
    if operator.relation != "same":
        return outcome
    outputs = "that begin elsewhere" if order is None else list(order)
    return replace(outcome, verdict="equivalent", transform={"outputs": outputs})


def compare_same_scores(
    outcome: Outcome, encodings: Two, pairs: TwoWaves | None, offset: int
) -> Outcome:
    """Compare the numbers, the shared offset and the axes of rotations with equal scores."""
    first, second = encodings
    by_numbers = first.origin == second.origin == "formula" and first.dim == second.dim
    if not (outcome.transform or by_numbers):
        outcome = replace(outcome, verdict="the same")
    if not pairs:
        return outcome
    if offset and outcome.verdict == "the same":
        compared = tuple(name for name in outcome.compared if name != "codes")
        facts: Fields = {"offset": offset}
        note = finding("offset-shared", **facts)
        return outcome.with_findings(note, transform=facts, compared=compared)
    return compare_axes(outcome, *pairs)


def compare_pairs(outcome: Outcome, encodings: Two, pairs: TwoWaves) -> Outcome:
    """Compare two sets of pairs: which differ, and by which mistake."""
    a, b = pairs
    outcome = replace(outcome, pair_counts=(len(a), len(b)))
    if images := compare_axes_of_rows(outcome, a, b):
        return images
    if shifted := compare_shifted(outcome, encodings, pairs):
        return shifted
    differs, beyond = pairs_apart(a, b)
    if not differs.any() and a.axis and b.axis and a.axis != b.axis:
        return compare_axes(outcome, a, b)
    outcome = outcome.comparing("rotations", "factors")
    if not differs.any():
        return compare_equal_pairs(outcome, encodings, a, b)
    is_few = beyond.mean() < 0.5 and not frequencies_apart(a, b)
    if is_few and (moved := compare_rows(outcome, encodings, pairs, few=True)):
        return moved
    listed = list_differences(a, b, differs)
    paired = outcome.with_differences("pairs", int(differs.sum()), len(differs), pairs=listed)
    if (explained := with_cause(paired, encodings, pairs, plain=True)).cause:
        return explained
    if moved := compare_rows(outcome, encodings, pairs):
        return moved
    if (explained := with_cause(paired, encodings, pairs)).cause:
        return explained
    for table in (a, b):
        if (a.axis or b.axis) and table.form and table.form.part in PARTS:
            raise PefourierError(
                f"{PARTS[table.form.part]} alone do not show ids of several axes; compare cosines "
                "and sines"
            )
    return replace(paired, first=first_difference(a, b), explained=1 - float(differs.mean()))


def compare_shifted(outcome: Outcome, encodings: Two, pairs: TwoWaves) -> Outcome | None:
    """Report additive sinusoids that begin elsewhere, with all other steps; None for all others."""
    if any(map(rotates, encodings)) or outcome.verdict == "the same":
        return None
    for b in (pairs[1], exchanged_waves(pairs[1])):
        by, forms = shift_between(pairs[0], b), [*map(form_of, encodings, (pairs[0], b))]
        causes = tuple(changed_steps(pairs[0], b, encodings))
        name = name_of_order(forms[0], forms[1]) if forms[0] and forms[1] else None
        codes = {change.code for change in causes}
        if not by or "copies" in codes or ({"layout", "order"} & codes and not name):
            continue
        transform: Fields = {"offset": by}
        if "scaled" in codes:
            transform["scale"] = b.factor / pairs[0].factor
        if name:
            columns = changes_by_name(encodings[0].dim)[name].tolist()
            transform |= {"columns": columns, "layout": name}
        facts: Fields = {"transform": transform, "causes": causes, "explained": 1.0}
        return replace(outcome.without_numbers(), verdict="equivalent", **facts)
    return None


def compare_equal_pairs(outcome: Outcome, encodings: Two, first: Waves, second: Waves) -> Outcome:
    """Compare the factor and offset of equal pairs, and note what a table does not show."""
    if not any(map(rotates, encodings)):
        return outcome  # the numbers show a scale or an order of columns
    are_declared = first.is_declared and second.is_declared
    unsaid = outcome.with_findings(*unsaid_pairing(encodings, first, second))
    if outcome.verdict == "the same":  # in every number
        return outcome if are_declared else unsaid
    scores_differ = outcome.operator and outcome.operator.relation == "different"
    changes = [*changed_steps(first, second, encodings)]
    if any(change.code in ("mscale", "scaled") for change in changes):
        return with_factors(outcome, changes)
    if are_declared or scores_differ:
        cause = settings_cause(*encodings) if are_known(*encodings) else None
        return replace(outcome, cause=cause)  # the numbers or scores already show the difference
    for table, form in zip(SIDES, (first.form, second.form), strict=True):
        if form and form.part in PARTS:
            waves = PARTS[form.part]
            note = finding("part-alone", table=table, waves=waves)
            return outcome.with_findings(note, verdict="the same", compared=(waves,))
    transform: Fields = {}
    unsaid = with_causes(unsaid, changes, cause=None)
    offset = second.offset - first.offset
    if offset and np.isfinite(offset):
        start, last = int(offset), outcome.length - 1
        run = PositionRun(0, last, start, start + last)
        unsaid = replace(unsaid, compared=without_vectors(outcome.compared), positions=(run,))
        transform["offset"] = start
    if first.has_sines_first != second.has_sines_first:
        transform["order"] = "sines before cosines"
    return replace(unsaid, verdict="equivalent" if transform else "the same", transform=transform)


def unsaid_pairing(encodings: Two, *pairs: Waves) -> list[Finding]:
    """Return a finding unless repeated columns of a table show the pairing of a formula."""
    layouts = {enc.params.get("layout") for enc in encodings if enc.origin == "formula"}
    copies = {waves.form.copies for waves in pairs if waves.form}
    return [] if layouts & copies else [finding("pairing-unsaid")]


def are_known(*encodings: Encoding) -> bool:
    """Whether all are rotations defined by settings."""
    return all(is_rotation(enc) and Rope.of(enc) for enc in encodings)


def with_cause(
    outcome: Outcome, encodings: Two, pairs: TwoWaves, *, plain: bool = False
) -> Outcome:
    """Add all steps that differ, if they give all rows, or the settings that differ.

    A config or a SPEC is the expected side; of two tables, the first.
    """
    if are_known(*encodings):
        return replace(outcome, cause=settings_cause(*encodings))
    known = [k for k in (0, 1) if pairs[k].is_declared]
    for k in known or range(2):
        expected, observed = pairs[k], pairs[1 - k]
        rotation = encodings[k] if known else geometric_rotation(expected)
        meant = declared(rotation) if rotation else None
        if not rotation or not meant:
            continue
        found = find_mistakes(rotation, meant, observed, plain=plain)
        if not found:
            continue
        ordered = encodings[k], encodings[1 - k]
        causes = *found, *changed_steps(expected, observed, ordered)
        explained, implied = with_causes(outcome, causes, k, meant), found[-1].factor
        is_kept = (
            implied and rotates(encodings[k]) and is_scaled(implied, observed.factor, observed)
        )
        cause, listed = explained.cause, outcome.pairs
        if cause and is_kept and "mscale" not in cause.misreadings:
            cause = replace(cause, kept=expected.factor)
        if found[-1].angles:  # rounded angles have no frequency
            unknown: Fields = {SIDES[1 - k]: None, "ratio": None}
            listed = tuple(replace(pair, **unknown) for pair in listed)
        return replace(explained, cause=cause, pairs=listed)
    return outcome


def compare_axes(outcome: Outcome, first: Waves, second: Waves) -> Outcome:
    """Compare rotations that agree on text but use different axes for images."""
    if not first.axis or not second.axis or first.axis == second.axis:
        return outcome
    letters = [*zip(first.axis, second.axis, strict=False)]
    differs = np.array([a != b for a, b in letters])
    count, order = int(differs.sum()), f"{AXES}e"
    a, b = (describe_axes(np.array([*map(order.index, x.axis)])) for x in (first, second))
    is_order = Counter(first.axis) == Counter(second.axis) and len({*letters}) > len({*first.axis})
    code = "sections" if is_order and count > 1 else "axes"
    listed = list_differences(first, second, differs)
    outcome = outcome.with_differences("pairs", count, len(first.axis), pairs=listed)
    return with_causes(outcome, [StepChanged(code, "positions", {"axes": (a, b)})])


def assign_axes(omega: Floats, waves: Array) -> Texts | None:
    """Axis of each pair of a table of tokens, from its integer positions; None for text.

    Low-frequency pairs reveal three rows of ids: column ids change most often, frame ids least.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ids = np.angle(waves) / omega
    slow = (np.abs(ids - np.rint(ids)) < 0.02).all(axis=0) & (omega < 0.5)
    walks = np.unique(np.rint(ids[:, slow]), axis=1).T
    if len(walks) != 3:
        return None
    walks = walks[np.count_nonzero(np.diff(walks), axis=1).argsort()]
    walk_waves = np.exp(1j * np.multiply.outer(walks, omega))  # (3, n, m)
    residual = np.abs(walk_waves - waves).max(axis=1)
    nearest = residual.argmin(axis=0)
    if residual.min(axis=0).max() > 1e-3:
        return None
    return tuple(AXES[i] for i in nearest)

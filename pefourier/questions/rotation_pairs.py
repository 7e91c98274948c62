"""Comparison of two rotations, or tables of their cosines and sines, pair by pair.

Conventions
-----------
Rotations with known R(p) are compared by the scores of queries and keys, then by their pairs. If
one is a table, only its fitted pairs are compared. For rotations, a factor is not a free scale,
because it changes attention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pefourier.causes.mistakes import Cause, cause_of, find_mistakes, geometric_rotation
from pefourier.causes.pairs import (
    exchanged_waves,
    first_difference,
    frequencies_apart,
    in_one_order,
    list_differences,
    pairs_apart,
    shift_between,
)
from pefourier.causes.rope import Rope, is_rotation
from pefourier.causes.row_positions import PositionRun
from pefourier.causes.rows import Shifted
from pefourier.causes.settings import settings_cause
from pefourier.encodings.columns import AXES, CHANGES, changes_by_name, describe_axes
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.findings import finding
from pefourier.encodings.model_positions import axis_in
from pefourier.errors import PefourierError
from pefourier.geometry.waves import LAYOUTS, Form, Waves, declared, fit
from pefourier.questions.model_layers import has_layers
from pefourier.questions.moved_rows import (
    FACTOR,
    compare_axes_of_rows,
    compare_rows,
    with_factors,
    without_vectors,
)
from pefourier.questions.operators import (
    OperatorComparison,
    compare_operators,
    explain_scores,
    outputs_apart,
    probe,
    rotates,
)
from pefourier.questions.outcome import Outcome, Two

PARTS = {"cos": "cosines", "sin": "sines"}
FEW = 64  # rows that show the columns of a table
SIDES = {"a": "second", "b": "first"}  # what was observed
Pairs = tuple[Waves, Waves]


def read_pairs(first: Encoding, second: Encoding) -> Pairs | None:
    """Read the pairs of two encodings in one order of cosines and sines; None if one has none."""
    a, b = pairs_of(first, second), pairs_of(second, first)
    return None if a is None or b is None else in_one_order(a, b)


def pairs_of(enc: Encoding, counterpart: Encoding) -> Waves | None:
    """Pairs of an encoding: declared, measured from its source code, or fitted to its table."""
    if (known := declared(enc, axes_of(enc))) is not None:
        return known
    if len(enc.domain.sides) > 1 or enc.domain.kind != "position":
        return None
    if enc.operator is not None:
        return probe(enc, counterpart)
    is_table = enc.origin != "formula" and enc.injection != "bias"
    return fit(enc.table(), enc.eps) if is_table else None


def axes_of(enc: Encoding) -> tuple[str, ...]:
    """Image axis that rotates each pair, if the config states it; else empty."""
    if not has_layers(enc) or not is_rotation(enc):
        return ()
    try:
        axis = axis_in(enc)
    except PefourierError:  # sections do not fit the pairs, which a finding reports
        return ()
    return () if axis is None else tuple((*AXES, "e")[i] for i in axis)


def compare_rotations(numbers: Outcome, encodings: Two, pairs: Pairs | None) -> Outcome | None:
    """Compare rotations by their effect, and rotations or tables by pairs; None if not possible.

    `numbers` is the outcome of comparing their tables, which pairs may explain.
    """
    operator = compare_operators(*encodings)
    if operator is None:
        return None if pairs is None else compare_pairs(numbers, encodings, pairs)
    outcome = replace(numbers, operator=operator, compared=(*numbers.compared, "rotations"))
    offset = 0 if pairs is None else int(pairs[1].moved - pairs[0].moved)
    are_source = all(enc.operator is not None for enc in encodings)
    if are_source and not (operator.relation == "same" and offset):
        outcome = compare_outputs(outcome, operator, encodings)
    if operator.relation == "permuted":
        return replace(outcome, verdict="permuted")
    if operator.relation == "same":
        return compare_same_scores(outcome, encodings, pairs, offset)
    if operator.relation == "different":
        start = operator.first_position or 0
        outcome = outcome.with_differences("positions", outcome.length - start, outcome.length)
        if are_source or any(enc.operator is not None for enc in encodings):
            outcome = with_cause_of_scores(outcome, encodings)
    return outcome if pairs is None or outcome.causes else compare_pairs(outcome, encodings, pairs)


def with_cause_of_scores(outcome: Outcome, encodings: Two) -> Outcome:
    """Add what one function does to queries and keys that the other, the formula, does not."""
    is_swapped = encodings[1].origin == "formula" and encodings[0].origin != "formula"
    found = explain_scores(*(encodings[::-1] if is_swapped else encodings))
    if not found.causes:
        return outcome
    return replace(
        outcome,
        causes=found.causes,
        explained=found.share,
        expected="second" if is_swapped else "first",
        max_difference=outcome.max_difference or None,  # of queries alone
    )


def compare_outputs(outcome: Outcome, operator: OperatorComparison, encodings: Two) -> Outcome:
    """Compare the outputs of two functions, which may differ although scores agree."""
    outcome = replace(outcome, compared=(*outcome.compared, "outputs"))
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
    outcome: Outcome, encodings: Two, pairs: Pairs | None, offset: int
) -> Outcome:
    """Compare the numbers, the shared offset and the axes of rotations with equal scores."""
    first, second = encodings
    by_numbers = first.origin == second.origin == "formula" and first.dim == second.dim
    if not (outcome.transform or by_numbers):
        outcome = replace(outcome, verdict="the same")
    if pairs is None:
        return outcome
    if offset and outcome.verdict == "the same":
        compared = tuple(name for name in outcome.compared if name != "codes")
        note = finding("offset-shared", offset=offset)
        return outcome.with_findings(note, transform={"offset": offset}, compared=compared)
    return compare_axes(outcome, *pairs)


def compare_pairs(outcome: Outcome, encodings: Two, pairs: Pairs) -> Outcome:
    """Compare two sets of pairs: which differ, and by which mistake."""
    a, b = pairs
    outcome = replace(outcome, pair_counts=(len(a), len(b)))
    images = axes_in_table(outcome, a, b)
    if images is None or images.verdict != "different":
        images = compare_axes_of_rows(outcome, a, b) or images
    if images is not None:
        return images
    if (shifted := compare_shifted(outcome, encodings, pairs)) is not None:
        return shifted
    differs, beyond = pairs_apart(replace(a, axis=()), replace(b, axis=()))
    if not differs.any() and a.axis and b.axis and a.axis != b.axis:
        return compare_axes(outcome, a, b)
    compared = tuple(dict.fromkeys((*outcome.compared, "rotations", "factors")))
    outcome = replace(outcome, compared=compared)
    if not differs.any():
        return compare_equal_pairs(outcome, encodings, a, b)
    is_few = beyond.mean() < 0.5 and not frequencies_apart(a, b)
    if is_few and (moved := compare_rows(outcome, encodings, pairs, beyond)) is not None:
        return moved
    listed = list_differences(a, b, differs)
    paired = outcome.with_differences("pairs", int(differs.sum()), len(differs), pairs=listed)
    if (explained := with_cause(paired, encodings, pairs, plain=True)).cause is not None:
        return explained
    if (moved := compare_rows(outcome, encodings, pairs)) is not None:
        return moved
    if (explained := with_cause(paired, encodings, pairs)).cause is not None:
        return explained
    return replace(paired, first=first_difference(a, b), explained=1 - float(differs.mean()))


def compare_shifted(outcome: Outcome, encodings: Two, pairs: Pairs) -> Outcome | None:
    """Report additive sinusoids that differ by an offset in positions; None for all others."""
    a, forms = pairs[0], [form_of(*side) for side in zip(encodings, pairs, strict=True)]
    if any(map(rotates, encodings)) or outcome.verdict == "the same" or None in forms:
        return None
    for b in (pairs[1], exchanged_waves(pairs[1])):
        both = [x for x in (forms[0], b.form or forms[1]) if x is not None]
        orders = tuple((form.layout, form.first) for form in both)
        names = [name for name, change in CHANGES.items() if change == orders]
        is_known = both[0] == both[1] or (names and not any(form.copies for form in both))
        if is_known and (by := shift_between(a, b)):
            transform: dict[str, Any] = {"offset": by}
            for name in names:
                columns = changes_by_name(encodings[0].dim)[name].tolist()
                transform |= {"columns": columns, "layout": name}
            return replace(
                outcome,
                max_difference=None,
                first_difference=None,
                largest_difference=None,
                verdict="equivalent",
                transform=transform,
                causes=() if names else (Shifted(by),),
                explained=1.0,
            )
    return None


def form_of(enc: Encoding, waves: Waves) -> Form | None:
    """Return the columns that hold the cosines and sines of an encoding."""
    if waves.form is not None:
        return waves.form
    rows = np.arange(min(len(enc), FEW))
    table, seen = enc.table(enc.domain.x[rows]), waves.numbers(rows)
    forms = [Form("both", layout, None, first) for layout in LAYOUTS for first in ("cos", "sin")]
    known = (form for form in forms if enc.dim == 2 * len(waves))
    return next((form for form in known if np.allclose(form.numbers(table), seen)), None)


def compare_equal_pairs(outcome: Outcome, encodings: Two, first: Waves, second: Waves) -> Outcome:
    """Compare the factor and offset of equal pairs, and note what a table does not show."""
    is_rotary = any(map(rotates, encodings))
    are_declared = first.is_declared and second.is_declared
    layouts = {enc.params.get("layout") for enc in encodings if enc.origin == "formula"}
    copies = {pairs.form.copies for pairs in (first, second) if pairs.form}
    is_unsaid = is_rotary and not layouts & copies  # repeated columns show the pairing
    unsaid = outcome.with_findings(*(finding("pairing-unsaid"),) * is_unsaid)
    if outcome.verdict == "the same":  # in every number
        return outcome if are_declared else unsaid
    scores_differ = outcome.operator is not None and outcome.operator.relation == "different"
    ratio = second.factor / first.factor
    if abs(ratio - 1) <= FACTOR and (are_declared or scores_differ):
        cause = settings_cause(*encodings) if are_known(*encodings) else None
        return replace(outcome, cause=cause)  # the numbers or scores already show the difference
    part = next((p.form.part for p in (first, second) if p.form and p.form.part != "both"), "both")
    if abs(ratio - 1) > max(FACTOR, first.eps, second.eps) and part not in ("sin", "angles"):
        if is_rotary:
            return with_factors(outcome, first.factor, second.factor)
        if outcome.max_difference is not None:
            return outcome  # the numbers already show it, whatever the column order
        return replace(outcome, verdict="equivalent", transform={"scale": ratio})
    if part in PARTS and is_rotary:
        index = 1 if second.form and second.form.part == part else 0
        note = finding("part-alone", table=("first", "second")[index], waves=PARTS[part])
        return outcome.with_findings(note, verdict="the same", compared=(PARTS[part],))
    if not is_rotary and outcome.verdict == "different":
        return outcome  # columns are reordered, which the numbers show
    if offset := second.offset - first.offset:
        start, last = int(np.nan_to_num(offset)), outcome.length - 1
        run = PositionRun(0, last, start, start + last)
        unsaid = replace(unsaid, compared=without_vectors(outcome.compared), positions=(run,))
    transform = transform_of_pairs(first, second, part, is_rotary=is_rotary)
    return replace(unsaid, verdict="equivalent" if transform else "the same", transform=transform)


def transform_of_pairs(
    first: Waves, second: Waves, part: str, *, is_rotary: bool
) -> dict[str, Any]:
    """Describe the change between equal pairs: an offset, a part, or another order."""
    transform: dict[str, Any] = {}
    if offset := second.offset - first.offset:
        transform["offset"] = int(offset) if np.isfinite(offset) else "none in common"
    if part in PARTS:
        transform["part"] = part
    if is_rotary and first.has_sines_first != second.has_sines_first:
        transform["order"] = "sines before cosines"
    return transform


def are_known(first: Encoding, second: Encoding) -> bool:
    """Whether both are rotations defined by settings."""
    return all(is_rotation(enc) and Rope.of(enc) for enc in (first, second))


def with_cause(outcome: Outcome, encodings: Two, pairs: Pairs, *, plain: bool = False) -> Outcome:
    """Add the mistake that explains all rows, the settings that differ, or the first difference.

    A config or a SPEC is the expected side; of two tables, the first.
    """
    if are_known(*encodings):
        return replace(outcome, cause=settings_cause(*encodings))
    sides: list[tuple[Literal["a", "b"], Encoding, Waves, Waves]] = [
        ("a", encodings[0], *pairs),
        ("b", encodings[1], *pairs[::-1]),
    ]
    known = [side for side in sides if side[2].is_declared]
    for of, enc, waves, counterpart in known or sides:
        rotation = enc if waves.is_declared else geometric_rotation(waves)
        meant = None if rotation is None else declared(rotation)
        if rotation is None or meant is None:
            continue
        if found := find_mistakes(rotation, meant, counterpart, plain=plain):
            expected: Literal["first", "second"] = "first" if of == "a" else "second"
            facts: dict[str, Any] = {"causes": found, "explained": 1.0, "expected": expected}
            if found[-1].angles is not None:  # rounded angles have no frequency
                unknown: dict[str, Any] = {SIDES[of]: None, "ratio": None}
                facts["pairs"] = tuple(replace(pair, **unknown) for pair in outcome.pairs)
            return replace(outcome, cause=cause_of(found, meant, of), **facts)
    return outcome


def compare_axes(outcome: Outcome, first: Waves, second: Waves) -> Outcome:
    """Compare rotations that agree on text but use different axes for images."""
    m = min(len(first.axis), len(second.axis))
    if not m or first.axis == second.axis:
        return outcome
    differs = np.array([a != b for a, b in zip(first.axis, second.axis, strict=False)])
    order = "".join((*AXES, "e"))
    names = [
        describe_axes(np.array([order.index(letter) for letter in pairs.axis]))
        for pairs in (first, second)
    ]
    renamed = len({*zip(first.axis, second.axis, strict=False)}) == len({*first.axis})
    code = "axes" if renamed or differs.sum() == 1 else "sections"
    return outcome.with_differences(
        "pairs",
        int(differs.sum()),
        len(first.axis),
        pairs=list_differences(first, second, differs),
        cause=Cause("both", (code,), {"axes": (names[0], names[1])}, {}),
    )


def axes_in_table(outcome: Outcome, *pairs: Waves) -> Outcome | None:
    """Compare a table of image tokens with a config that rotates pairs by image axes."""
    meant, table = pairs if pairs[0].axis else pairs[::-1]
    if not meant.axis or table.form is None or len(meant) != len(table):
        return None
    if table.residual is None or table.even.all():
        return None  # text
    axis = assign_axes(meant, table)
    if axis is None:
        return None
    fitted = replace(table, axis=axis, frequency=meant.frequency, residual=None)
    ordered = (meant, fitted) if meant is pairs[0] else (fitted, meant)
    compared = compare_axes(outcome, *ordered)
    if compared is not outcome:
        return compared
    return outcome.with_findings(finding("pairing-unsaid"), verdict="the same")


def assign_axes(meant: Waves, table: Waves) -> tuple[str, ...] | None:
    """Axis of each pair of a table of tokens, from its integer positions; None for text.

    Low-frequency pairs reveal three rows of ids: column ids change most often, frame ids least.
    """
    rows = np.arange(min(table.length, 4096))
    waves = table.numbers(rows)
    if np.isnan(waves).any():
        return None
    angles = np.angle(waves)
    with np.errstate(divide="ignore", invalid="ignore"):
        ids = angles / meant.frequency
    slow = np.flatnonzero((np.abs(ids - np.rint(ids)) < 0.02).all(axis=0) & (meant.frequency < 0.5))
    columns = {tuple(np.rint(ids[:, k]).astype(int).tolist()) for k in slow}
    walks = sorted(columns, key=lambda walk: np.count_nonzero(np.diff(walk)))
    if len(walks) != 3:
        return None
    walk_waves = np.exp(1j * np.multiply.outer(np.array(walks), meant.frequency))  # (3, n, m)
    residual = np.abs(walk_waves - waves / table.factor).max(axis=1)
    nearest = residual.argmin(axis=0)
    if residual.min(axis=0).max() > 1e-3:
        return None
    return tuple(AXES[i] for i in nearest)

"""Comparison of two rotations, or tables of their cosines and sines, pair by pair.

Conventions
-----------
Rotations with known R(p) are compared by the scores of queries and keys, then by their pairs. If
one is a table, only its fitted pairs are compared. For rotations, a factor is not a free scale,
because it changes attention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from pefourier.causes.pairs import PositionRun, in_one_order, list_differences, pairs_apart
from pefourier.causes.rope import Rope, is_rotation
from pefourier.diagnosis.config_errors import (
    Cause,
    find_misreading,
    geometric_rotation,
)
from pefourier.diagnosis.settings import settings_cause
from pefourier.encodings.columns import AXES, describe_axes
from pefourier.encodings.encoding import Encoding, OperatorEncoding
from pefourier.encodings.findings import finding
from pefourier.encodings.model_positions import axis_in
from pefourier.errors import PefourierError
from pefourier.geometry.waves import Waves, declared, fit
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
    largest_output_difference,
    output_order,
    probe,
    rotates,
)
from pefourier.questions.outcome import Outcome, Two
from pefourier.types import Fields, Texts

PARTS = {"cos": "cosines", "sin": "sines"}
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
    if isinstance(enc, OperatorEncoding):
        return probe(enc, counterpart)
    is_table = enc.origin != "formula" and enc.injection != "bias"
    return fit(enc.table(), enc.eps) if is_table else None


def axes_of(enc: Encoding) -> Texts:
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
    are_source = all(isinstance(enc, OperatorEncoding) for enc in encodings)
    if are_source and not (operator.relation == "same" and offset):
        outcome = compare_outputs(outcome, operator, encodings)
    if operator.relation == "permuted":
        return replace(outcome, verdict="permuted")
    if operator.relation == "same":
        return compare_same_scores(outcome, encodings, pairs, offset)
    if operator.relation == "different":
        start = operator.first_position or 0
        outcome = outcome.with_differences("positions", outcome.length - start, outcome.length)
    return outcome if pairs is None else compare_pairs(outcome, encodings, pairs)


def compare_outputs(outcome: Outcome, operator: OperatorComparison, encodings: Two) -> Outcome:
    """Compare the outputs of two functions, which may differ although scores agree."""
    outcome = replace(outcome, compared=(*outcome.compared, "outputs"))
    if operator.relation == "permuted":  # outputs are permuted with the inputs
        return outcome
    largest = largest_output_difference(*encodings)
    if not largest:
        return outcome
    order = output_order(*encodings)
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
    differs = pairs_apart(replace(a, axis=()), replace(b, axis=()))
    if not differs.any() and a.axis and b.axis and a.axis != b.axis:
        return compare_axes(outcome, a, b)
    compared = tuple(dict.fromkeys((*outcome.compared, "rotations", "factors")))
    outcome = replace(outcome, compared=compared)
    if not differs.any():
        return compare_equal_pairs(outcome, encodings, a, b)
    if (moved := compare_rows(outcome, encodings, pairs)) is not None:
        return moved
    return outcome.with_differences(
        "pairs",
        int(differs.sum()),
        len(differs),
        pairs=list_differences(a, b, differs),
        cause=cause_of(encodings, pairs),
    )


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


def transform_of_pairs(first: Waves, second: Waves, part: str, *, is_rotary: bool) -> Fields:
    """Describe the change between equal pairs: an offset, a part, or another order."""
    transform: Fields = {}
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


def cause_of(encodings: Two, pairs: Pairs) -> Cause | None:
    """Find a single mistake that explains the difference, or the settings that differ."""
    if are_known(*encodings):
        return settings_cause(*encodings)
    sides: tuple[tuple[Literal["a", "b"], Encoding, Waves, Waves], ...] = (
        ("a", encodings[0], pairs[0], pairs[1]),
        ("b", encodings[1], pairs[1], pairs[0]),
    )
    for of, enc, waves, counterpart in sides:
        rotation = enc if waves.is_declared else geometric_rotation(waves)
        pairs_meant = rotation and declared(rotation)
        if (
            rotation
            and pairs_meant
            and (cause := find_misreading(rotation, pairs_meant, counterpart))
        ):
            return replace(cause, of=of)
    return None


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


def assign_axes(meant: Waves, table: Waves) -> Texts | None:
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

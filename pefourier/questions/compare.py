"""Are two implementations the same encoding? What was compared, where they differ, and by what.

Conventions
-----------
Tables are (n, d); of different lengths the common positions are compared, to rounding as
`geometry.tolerance` knows it. Rotations and tables of their cosines and sines are compared pair by
pair (`diagnosis.pairs`), biases head by head (`questions.biases`), models layer by layer
(`questions.layer_schedules`). Tables are equivalent where one follows from the other by an order of
columns, signs, a scale or an offset in positions, as `transform` says; equal inner products alone
are equal geometry. Of rotations a factor is no scale: it is part of what attention computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pefourier.diagnosis.misreadings import (
    Cause,
    find_misreading,
    geometric_rotation,
    has_settings,
    is_rotation,
    settings_cause,
)
from pefourier.diagnosis.pairs import (
    PairDifference,
    PairWaves,
    declared_pairs,
    fit_pair_waves,
    frequencies_apart,
    list_differences,
    pairs_apart,
)
from pefourier.encodings.encoding import Encoding, Finding, as_encoding
from pefourier.encodings.findings import finding
from pefourier.encodings.model_positions import axis_in
from pefourier.encodings.sections import AXES
from pefourier.errors import PefourierError
from pefourier.geometry.tolerance import stored_tolerance
from pefourier.questions.alignment import find_row_order, find_transformation
from pefourier.questions.axes_of_images import axes_in_table, compare_axes
from pefourier.questions.biases import HeadDifference, compare_biases, read_bias
from pefourier.questions.comparison_findings import difference_findings
from pefourier.questions.layer_schedules import (
    LayerDifference,
    compare_layers,
    has_layers,
    model_runs,
    unread_keys,
)
from pefourier.questions.operators import (
    OperatorComparison,
    compare_rotations,
    has_operator,
    largest_output_difference,
    output_order,
    pairs_of_code,
)
from pefourier.result import Result

FACTOR = 1e-3  # relative, to which factors before waves of tables are one
SIZES = {"length", "path", "model_type", "array", "spans", "position_ids"}  # no parameters
LARGE = 2**20  # numbers of tables of waves, whose pairs tell of all positions
MOST_ROWS = 4096  # of these that are compared number by number
SHOWN = 8  # pairs, heads or layers that text lists


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """What two encodings have in common; b is what a becomes by `transform`."""

    shown: ClassVar[dict[str, str]] = {
        "compared": "compared_names",
        "positions compared": "length",
        "lengths": "lengths_apart",
        "largest difference": "max_difference",
        "rounding explains": "tolerance",
        "first difference": "first_place",
        "transform": "transform_names",
        "rotations": "relation",
        "order of rows": "operator.name",
        "first scores that differ": "operator.first_position",
        "cause": "cause_codes",
        "cosine below .9 from": "costly_from",
    }
    listed: ClassVar[dict[str, dict[str, str]]] = {
        "first_pairs": {
            "pair": "index",
            "axis": "axis",
            "first": "first",
            "second": "second",
            "ratio": "ratio",
        },
        "first_heads": {
            "head": "index",
            "first slope": "first",
            "second slope": "second",
            "ratio": "ratio",
            "largest difference": "max_difference",
        },
        "layers": {"layers": "places", "differ in": "what", "first": "first", "second": "second"},
    }

    same: bool
    verdict: str
    compared: tuple[str, ...]  # codes, outputs, rotations, layers, windows, factors
    differing: int  # of `counted` units, such as pairs
    counted: int
    unit: str
    bitwise: bool
    transform: dict  # columns, layout, signs, scale, offset, part; rows or outputs in other order
    length: int  # positions compared
    lengths: tuple[int, int]
    dimensions: tuple[int, int]
    tolerance: float  # largest difference that rounding explains
    given_tolerance: float | None
    max_difference: float | None
    first_difference: tuple[int, int] | None  # position and column; of biases lag and head
    largest_difference: tuple[int, int] | None
    pairs: tuple[PairDifference, ...] = ()  # that differ
    heads: tuple[HeadDifference, ...] = ()  # that differ
    layers: tuple[LayerDifference, ...] = ()  # that differ
    cause: Cause | None = None
    operator: OperatorComparison | None = None  # of two rotations
    unread: tuple[str, ...] = ()  # keys about positions that a config has and nobody reads
    findings: tuple[Finding, ...] = ()

    @property
    def compared_names(self) -> str:
        """What was compared."""
        return ", ".join(self.compared)

    @property
    def transform_names(self) -> str | None:
        """What leads from the first to the second, by name and, of one number, by that."""
        names = (
            f"{key} {value:.7g}"
            if isinstance(value, int | float)
            else f"{key} {value}"
            if isinstance(value, str)
            else key
            for key, value in self.transform.items()
        )
        return ", ".join(names) or None

    @property
    def lengths_apart(self) -> str | None:
        """Positions of each, where they are not as many."""
        first, second = self.lengths
        return None if first == second else f"{first} and {second}"

    @property
    def first_place(self) -> str | None:
        """Position and column of the first difference."""
        if self.first_difference is None or self.heads:
            return None
        return "position {}, column {}".format(*self.first_difference)

    @property
    def relation(self) -> str | None:
        """Whether two rotations do the same, where that is known."""
        is_known = self.operator and self.operator.relation != "unknown"
        return self.operator.relation if is_known else None

    @property
    def order_name(self) -> str:
        """The name of the order of rows of two rotations."""
        return (self.operator and self.operator.name) or "an order without a name"

    @property
    def cause_codes(self) -> str | None:
        """Codes of the slip, or of the settings that differ."""
        return ", ".join(self.cause.misreadings) if self.cause else None

    @property
    def costly_from(self) -> int | None:
        """The first position at which the cosine of codes is below .9."""
        return self.cause.below.get(".9") if self.cause else None

    @property
    def first_pairs(self) -> tuple[PairDifference, ...]:
        """The first pairs that differ."""
        return self.pairs[:SHOWN]

    @property
    def first_heads(self) -> tuple[HeadDifference, ...]:
        """The first heads that differ."""
        return self.heads[:SHOWN]

    @property
    def use(self) -> str:
        """How attention receives the codes of each, or what nobody reads."""
        acts = dict.fromkeys(enc.act for enc in self.about)
        return "unread keys" if self.unread and len(acts) == 1 else " and ".join(acts)


def compare(
    a: Encoding | np.ndarray, b: Encoding | np.ndarray, tolerance: float | None = None
) -> Comparison:
    """Compare two encodings, or tables with one row a position.

    `transform` reads: column j of b is `scale` · signs[j] · column columns[j] of a, `offset` rows
    further on in a; or b holds a `part` of a's waves. `pairs`, `heads` and `layers` are those that
    differ, `cause` the one slip that explains all of them. With a `tolerance` tables are the same
    whose numbers, as they are, differ by no more than that.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> c = compare(load("sinusoidal", 40, 8), load("sinusoidal:layout=halves,offset=2", 40, 8))
    >>> c.verdict, c.transform["layout"], c.transform["offset"]
    ('equivalent', 'interleaved to halves', 2)
    """
    first, second = as_encoding(a), as_encoding(b)
    biases = compare_as_biases(first, second)
    if biases is not None:
        return biases
    lengths = (len(first), len(second))
    if lengths[0] != lengths[1] and first.domain.sides == second.domain.sides:
        first, second = (bare_of_prefix(enc) for enc in (first, second))
    pairs = read_pairs(first, second), read_pairs(second, first)
    long = None not in pairs and len(first) * first.dim > LARGE and tolerance is None
    result = compare_numbers(first, second, MOST_ROWS if long else None)
    result = replace(result, lengths=lengths, given_tolerance=tolerance)
    if tolerance is not None and result.max_difference is not None:
        if result.max_difference <= tolerance:
            return judged(replace(result, verdict="the same"))
    result = compare_in_pairs(first, second, pairs, result)
    result = align_tables(first, second, result)
    result = compare_models(first, second, result)
    if tolerance is not None and result.verdict == "the same":
        result = replace(result, verdict="different", unit="columns")
    return judged(result)


def bare_of_prefix(enc: Encoding) -> Encoding:
    """The points of a grid without the rows before it, counted from 0."""
    start = enc.domain.prefix
    if not start:
        return enc
    domain = replace(enc.domain, x=enc.domain.x[start:] - start, prefix=0)
    return replace(enc, domain=domain, codes=lambda x: enc.codes(np.asarray(x) + start))


def differing_in_size(
    first: Encoding, second: Encoding, unit: str, sizes: tuple[int, int]
) -> Comparison:
    """Two of which nothing was compared yet, of so many columns or heads."""
    n = min(len(first), len(second))
    nothing = dict.fromkeys(("max_difference", "first_difference", "largest_difference"))
    return Comparison(
        same=False,
        verdict="different",
        compared=("codes",),
        differing=max(sizes) if unit == "heads" else abs(sizes[0] - sizes[1]),
        counted=max(sizes),
        unit=unit,
        bitwise=False,
        transform={},
        length=n,
        lengths=(len(first), len(second)),
        dimensions=sizes,
        tolerance=0.0,
        given_tolerance=None,
        about=(first, second),
        **nothing,
    )


def compare_numbers(first: Encoding, second: Encoding, limit: int | None) -> Comparison:
    """Two tables number by number, as far as both go; of long ones of waves at most some rows."""
    result = differing_in_size(first, second, "columns", (first.dim, second.dim))
    if first.dim != second.dim:
        return result
    x = first.domain.x[: min(result.length, limit or result.length)]
    a, b = (np.asarray(enc.table(enc.domain.x[: len(x)]), dtype=float) for enc in (first, second))
    allowed, _ = stored_tolerance(a, b, first, second)
    residual = np.abs(a - b)
    beyond = residual > allowed
    row, column = np.unravel_index(residual.argmax(), residual.shape)
    return replace(
        result,
        verdict="different" if beyond.any() else "the same",
        differing=int(beyond.any(axis=0).sum()),
        bitwise=not residual.any(),
        tolerance=float(allowed.max()),
        max_difference=float(residual.max()),
        first_difference=first_place(beyond),
        largest_difference=(int(row), int(column)) if residual[row, column] else None,
    )


def first_place(beyond: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first difference beyond rounding.

    >>> first_place(np.array([[False, False], [False, True]]))
    (1, 1)
    """
    row, column = np.unravel_index(beyond.argmax(), beyond.shape)
    return (int(row), int(column)) if beyond[row, column] else None


def read_pairs(enc: Encoding, counterpart: Encoding) -> PairWaves | None:
    """The pairs of an encoding: declared, as its code turns vectors, or fitted to its table."""
    axis = axes_of(enc)
    if (declared := declared_pairs(enc, axis)) is not None:
        return declared
    if len(enc.domain.sides) > 1 or enc.domain.kind != "position":
        return None
    if enc.operator is not None:
        return pairs_of_code(enc, counterpart)
    if enc.origin == "formula" or enc.act == "bias":
        return None
    return fit_pair_waves(enc.table(), enc.eps)


def axes_of(enc: Encoding) -> tuple[str, ...]:
    """The axis of images that turns each pair of a rotation whose config tells it."""
    if not has_layers(enc) or not is_rotation(enc):
        return ()
    try:
        axis = axis_in(enc.spec, enc)
    except PefourierError:  # sections that do not fit the pairs, of which there is a finding
        return ()
    return () if axis is None else tuple((*AXES, "e")[i] for i in axis)


def compare_in_pairs(
    first: Encoding,
    second: Encoding,
    pairs: tuple[PairWaves | None, PairWaves | None],
    result: Comparison,
) -> Comparison:
    """Rotations by what they do, and rotations and tables of waves pair by pair."""
    operator = compare_rotations(first, second)
    outputs: Mapping[str, Any] = {}
    if operator is not None:
        result = replace(result, operator=operator, compared=(*result.compared, "rotations"))
        if first.operator is not None and second.operator is not None:
            outputs = compare_outputs(first, second, result)
            result = replace(result, **outputs)
    operator_relation = operator.relation if operator else "unknown"
    if operator_relation in ("same", "permuted"):
        relation = {"same": "the same", "permuted": "permuted"}[operator_relation]
        formulas = first.origin == second.origin == "formula" and operator_relation == "same"
        settled = result.transform or (formulas and first.dim == second.dim)  # by their numbers
        result = result if settled else replace(result, verdict=relation)
        if None in pairs or operator_relation == "permuted":
            return result
        moved = pairs[1].moved - pairs[0].moved
        if moved and result.verdict == "the same":
            return replace(result, verdict="equivalent", transform={"offset": int(moved)})
        return compare_axes(result, *pairs)
    if operator_relation == "different":
        n = result.length
        start = operator.first_position or 0
        result = replace(
            result, verdict="different", differing=n - start, counted=n, unit="positions"
        )
    if None in pairs or pairs[0] is None or pairs[1] is None:
        return result
    return judge_pairs(first, second, pairs, result)


def compare_outputs(first: Encoding, second: Encoding, result: Comparison) -> dict[str, Any]:
    """What two functions return, where it differs though scores are the same."""
    compared = (*result.compared, "outputs")
    permuted = result.operator.relation == "permuted"  # and outputs with what goes in
    residual = 0.0 if permuted else largest_output_difference(first, second)
    if not residual:
        return {"compared": compared}
    order = output_order(first, second)
    message = finding("outputs-differ", "other" if order is None else "order", residual=residual)
    facts = {"compared": compared, "findings": (*result.findings, message), "bitwise": False}
    if result.operator.relation == "same":
        outputs = "that begin elsewhere" if order is None else list(order)
        facts |= {"verdict": "equivalent", "transform": {"outputs": outputs}}
    return facts | {"max_difference": residual}


def judge_pairs(
    first: Encoding,
    second: Encoding,
    pairs: tuple[PairWaves, PairWaves],
    result: Comparison,
) -> Comparison:
    """What two sets of pairs say: which differ, and by which slip."""
    pairs_a, pairs_b = pairs
    if (images := axes_in_table(pairs, result)) is not None:
        return images
    differs = pairs_apart(*(replace(pair_waves, axis=()) for pair_waves in pairs))
    if not differs.any() and pairs_a.axis != pairs_b.axis and pairs_a.axis and pairs_b.axis:
        return compare_axes(result, pairs_a, pairs_b)
    compared = tuple(dict.fromkeys((*result.compared, "rotations", "factors")))
    result = replace(result, compared=compared)
    if differs.any():
        cause = cause_of(first, second, pairs)
        return replace(
            result,
            verdict="different",
            pairs=list_differences(pairs_a, pairs_b, differs),
            cause=cause,
            differing=int(differs.sum()),
            counted=len(differs),
            unit="pairs",
        )
    return judge_equal_pairs(first, second, pairs, result)


def judge_equal_pairs(
    first: Encoding,
    second: Encoding,
    pairs: tuple[PairWaves, PairWaves],
    result: Comparison,
) -> Comparison:
    """Pairs that turn alike: their factor, where they begin, and what a table leaves open."""
    pairs_a, pairs_b = pairs
    rotary = turns_vectors(first) or turns_vectors(second)
    unsaid = replace(result, findings=(*result.findings, *(finding("pairing-unsaid"),) * rotary))
    if result.verdict == "the same":  # to every number
        return result if pairs_a.is_declared and pairs_b.is_declared else unsaid
    ratio = pairs_b.factor / pairs_a.factor
    declared = pairs_a.is_declared and pairs_b.is_declared
    if abs(ratio - 1) <= FACTOR and (declared or known_apart(result)):
        cause = settings_cause(first, second) if both_known(first, second) else None
        return replace(result, cause=cause)  # their numbers say it, or their scores
    part = next((p.form.part for p in pairs if p.form and p.form.part != "both"), "both")
    if abs(ratio - 1) > max(FACTOR, pairs_a.eps, pairs_b.eps) and part not in ("sin", "angles"):
        return with_factor(result, (pairs_a.factor, pairs_b.factor), rotary)
    transform: dict[str, Any] = {}
    offset = pairs_b.offset - pairs_a.offset
    if offset:
        transform["offset"] = int(offset) if np.isfinite(offset) else "none in common"
    if part in ("cos", "sin"):
        transform["part"] = part
    if rotary and pairs_a.has_sines_first != pairs_b.has_sines_first:
        transform["order"] = "sines before cosines"
    if not rotary and result.verdict == "different":
        return result  # columns in another order: their numbers say it
    return replace(unsaid, verdict="equivalent" if transform else "the same", transform=transform)


def with_factor(result: Comparison, factors: tuple[float, float], rotary: bool) -> Comparison:
    """Equal pairs with another factor before their waves, which is a scale where none turn."""
    cause = Cause("both", ("mscale",), {"attention_factor": factors}, {})
    fields = {"differing": 1, "counted": 1, "unit": "factors", "cause": cause}
    if rotary:
        return replace(result, verdict="different", **fields)
    scale = factors[1] / factors[0]
    return replace(result, verdict="equivalent", transform={"scale": scale})


def turns_vectors(enc: Encoding) -> bool:
    """Whether an encoding is a rotation, by a formula or by code."""
    return enc.act == "rotate" or enc.operator is not None


def known_apart(result: Comparison) -> bool:
    """Whether two rotations do other things to queries and keys."""
    return result.operator is not None and result.operator.relation == "different"


def both_known(first: Encoding, second: Encoding) -> bool:
    """Whether both are rotations by settings."""
    return all(is_rotation(enc) and has_settings(enc) for enc in (first, second))


def cause_of(first: Encoding, second: Encoding, pairs: tuple[PairWaves, PairWaves]) -> Cause | None:
    """The one slip that makes one of two the other, or the settings in which both differ."""
    if both_known(first, second):
        return settings_cause(first, second)
    for of, enc, pair_waves, counterpart in (("a", first, *pairs), ("b", second, *pairs[::-1])):
        rotation = enc if pair_waves.is_declared else geometric_rotation(pair_waves)
        declared = rotation and declared_pairs(rotation)
        if declared is None:
            continue
        cause = find_misreading(rotation, declared, counterpart)
        if cause is not None:
            return replace(cause, of=of)
    return None


def align_tables(first: Encoding, second: Encoding, result: Comparison) -> Comparison:
    """Tables that differ as they stand, and follow from one another by an order or a scale."""
    rotary = [has_operator(enc) for enc in (first, second)]
    if result.verdict != "different" or first.dim != second.dim or all(rotary):
        return result
    if result.unit == "factors" or "bias" in (first.act, second.act):
        return result
    a, b = (
        np.asarray(enc.table(enc.domain.x[: result.length]), dtype=float) for enc in (first, second)
    )
    allowed, eps = stored_tolerance(a, b, first, second)
    transform, difference = find_transformation(a, b, allowed, eps)
    on_grid = len(first.domain.sides) > 1 or len(second.domain.sides) > 1
    if transform is None:
        transform, difference = find_row_order(a, b, allowed)
    if transform is None or (on_grid and "offset" in transform):
        return result
    geometry = transform.pop("rotation", False)
    if geometry:
        fitted = [fit_pair_waves(x, e.eps) for x, e in ((a, first), (b, second))]
        residual = None not in fitted and frequencies_apart(*fitted)
        fields = {"verdict": "same geometry", "pairs": (), "cause": None}
        settled = replace(result, transform=transform, max_difference=difference, **fields)
        return result if residual else settled
    if result.pairs and "rotate" in (first.act, second.act) and transform.keys() <= {"scale"}:
        return result
    verdict = "different" if "rows" in transform else "equivalent"
    if (turns_vectors(first) or turns_vectors(second)) and "scale" in transform:
        verdict = "different"
    fields: dict[str, Any] = {"transform": transform, "verdict": verdict}
    if verdict == "equivalent":
        fields |= {"max_difference": difference, "pairs": (), "cause": None}
    return replace(result, **fields)


def compare_as_biases(first: Encoding, second: Encoding) -> Comparison | None:
    """Two biases, head by head; None where neither is one."""
    bias_a, bias_b = read_bias(first), read_bias(second)
    if bias_a is None and bias_b is None:
        return None
    bias_a, bias_b = bias_a or read_bias(first, bias_b), bias_b or read_bias(second, bias_a)
    pair = list(zip((first, second), (bias_a, bias_b), strict=True))
    sizes = tuple(len(rows.numbers) if rows else enc.dim for enc, rows in pair)
    lengths = tuple(rows.numbers.shape[2] if rows else len(enc) for enc, rows in pair)
    result = differing_in_size(first, second, "heads", sizes)
    result = replace(result, lengths=lengths, length=min(lengths))
    if bias_a is None or bias_b is None or sizes[0] != sizes[1]:
        return judged(result)
    biases = compare_biases(bias_a, bias_b)
    notes = (finding("constant-for-each-query"),) * biases.constant
    notes += (finding("keys-behind"),) * biases.one_sided
    return judged(
        replace(
            result,
            verdict="different" if biases.heads else "the same",
            differing=len(biases.heads),
            bitwise=biases.max_difference == 0 and not biases.constant,
            tolerance=biases.tolerance,
            max_difference=biases.max_difference,
            first_difference=biases.first_difference,
            heads=biases.heads,
            cause=next(
                (Cause("both", (code,), changes, {}) for code, changes in biases.causes), None
            ),
            findings=notes,
        )
    )


def compare_models(first: Encoding, second: Encoding, result: Comparison) -> Comparison:
    """The layers, windows and factors of two models, and the keys of theirs that nobody reads."""
    models = [has_layers(enc) for enc in (first, second)]
    keys = [
        key
        for enc, model in zip((first, second), models, strict=True)
        if model
        for key in unread_keys(enc)
    ]
    result = replace(result, unread=tuple(dict.fromkeys(keys)))
    if not all(models):
        return result
    layers = tuple(compare_layers(first, second))
    compared = dict.fromkeys((*result.compared, "layers", "windows", "factors"))
    result = replace(result, layers=layers, compared=tuple(compared))
    if layers and result.verdict in ("the same", "permuted", "equivalent"):
        index = sorted({i for layer in layers for i in layer.index})
        total = sum(len(run.index) for run in model_runs(first))
        cause = Cause("both", tuple(dict.fromkeys(layer.what for layer in layers)), {}, {})
        result = replace(
            result,
            verdict="different",
            differing=len(index) or len(layers),
            counted=max(total, *(i + 1 for i in index), len(layers)),
            unit="layers",
            cause=result.cause or cause,
        )
    return result


def judged(result: Comparison) -> Comparison:
    """A comparison with its verdict settled and what is to be said of it."""
    if result.verdict == "different" and result.cause is None:
        result = replace(result, cause=parameters_cause(*result.about))
    verdict = result.verdict
    acts = {enc.act for enc in result.about if enc.origin == "formula" or enc.act != "add"}
    if verdict in ("the same", "equivalent") and (len(acts) > 1 or result.unread):
        verdict = "used differently"
    notes: list[Finding] = []
    if verdict == "permuted" and is_converted(result):
        verdict = "the same"
        notes.append(finding("rows-as-converted"))
    if (
        verdict == "the same"
        and result.bitwise
        and all(enc.origin == "file" for enc in result.about)
    ):
        notes.append(finding("numbers-unchanged"))
    result = replace(result, verdict=verdict, same=verdict == "the same")
    if result.same:
        result = replace(result, differing=0)
    if result.same and result.first_difference:  # the same angles in other columns
        places = dict.fromkeys(("max_difference", "first_difference", "largest_difference"))
        result = replace(result, **places)
    return replace(result, findings=(*difference_findings(result), *result.findings, *notes))


def parameters_cause(first: Encoding, second: Encoding) -> Cause | None:
    """The parameters in which two encodings of one name differ."""
    if first.name != second.name or not first.origin == second.origin == "formula":
        return None
    keys = dict.fromkeys((*first.params, *second.params)).keys() - SIZES
    pairs = {key: (first.params.get(key), second.params.get(key)) for key in keys}
    changes = {
        key: pair for key, pair in sorted(pairs.items()) if not np.array_equal(*map(str, pair))
    }
    return Cause("both", ("parameters",), changes, {}) if changes else None


def is_converted(result: Comparison) -> bool:
    """Whether rows differ from a config's as llama.cpp's converter has put those of weights.

    A GGUF file of an architecture that turns neighbours holds weights in that order.
    """
    paths = [str(enc.params.get("path", "")) for enc in result.about]
    ggufs = [path.lower().endswith(".gguf") for path in paths]
    names = ("neighbours-to-halves", "halves-to-neighbours")  # of a file that is first, second
    return all(paths) and sum(ggufs) == 1 and result.operator.name == names[ggufs[1]]

"""Are two implementations the same encoding? What was compared, where they differ, and by what.

Conventions
-----------
Tables are (n, d); of different lengths the common positions are compared, to rounding as
`geometry.tolerance` knows it. Rotations and tables of their cosines and sines are compared pair by
pair (`diagnosis.pairs`), biases head by head (`questions.biases`), models layer by layer
(`questions.model_layers`). Tables are equivalent where one follows from the other by an order of
columns, signs, a scale or an offset in positions, as `transform` says; equal inner products alone
are equal geometry. Of rotations a factor is no scale: it is part of what attention computes.

Each stage takes a `Comparison`, which is about both encodings, and gives it back with what it adds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from pefourier.diagnosis.config_errors import (
    Cause,
    find_misreading,
    geometric_rotation,
    has_settings,
    is_rotation,
)
from pefourier.diagnosis.pair_differences import in_one_order, list_differences
from pefourier.diagnosis.pairs import (
    PairDifference,
    PairWaves,
    declared_pairs,
    fit_pair_waves,
    pairs_apart,
)
from pefourier.diagnosis.row_positions import PositionRun
from pefourier.diagnosis.settings import lengths_apart, parameters_cause, settings_cause
from pefourier.encodings.columns import AXES
from pefourier.encodings.encoding import Encoding, Finding, as_encoding
from pefourier.encodings.findings import finding
from pefourier.encodings.model_positions import axis_in
from pefourier.errors import PefourierError
from pefourier.questions.alignment import align_tables
from pefourier.questions.biases import HeadDifference, compare_as_biases
from pefourier.questions.model_layers import (
    LayerDifference,
    axes_in_table,
    compare_axes,
    compare_layers,
    has_layers,
    model_runs,
    unread_keys,
)
from pefourier.questions.moved_rows import (
    BY_LENGTH,
    FACTOR,
    at_rows_of,
    compare_axes_of_rows,
    compare_rows,
    length_note,
    with_factors,
    without_codes,
)
from pefourier.questions.number_differences import MOST_ROWS, Pairs, compare_numbers, compare_waves
from pefourier.questions.operators import (
    OperatorComparison,
    compare_operators,
    difference_findings,
    is_converted,
    largest_output_difference,
    output_order,
    pairs_of_code,
)
from pefourier.questions.result import Result
from pefourier.writing.text import agreeing, number

LARGE = 2**20  # numbers of tables of waves, whose pairs tell of all positions
AGREEING = ("the same", "permuted", "equivalent")
PARTS = {"cos": "cosines", "sin": "sines"}
SHOWN = 8  # pairs, heads or layers that text lists


@dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(Result):
    """What two encodings have in common; b is what a becomes by `transform`."""

    shown: ClassVar[dict[str, str]] = {
        "compared": "compared_names",
        "positions compared": "length",
        "largest difference": "max_difference",
        "tolerance (rounding)": "tolerance",
        "first difference at": "first_place",
        "transform": "transform_names",
        "permutation of rows": "operator.name",
        "scores differ from position": "operator.first_position",
        "likely mistake": "cause_codes",
        "cosine below 0.9 from position": "costly_from",
    }
    listed: ClassVar[dict[str, dict[str, str]]] = {
        "first_pairs": {
            "pair": "index",
            "axis": "axis",
            "first": "first",
            "second": "second",
            "ratio": "ratio",
        },
        "first_positions": {
            "axis": "axis",
            "rows": "rows",
            "positions": "places",
            "factors": "reading",
        },
        "first_heads": {
            "head": "index",
            "first slope": "first",
            "second slope": "second",
            "ratio": "ratio",
            "largest difference": "max_difference",
        },
        "layers": {"layers": "places", "differs": "what", "first": "first", "second": "second"},
    }

    same: bool = False
    verdict: str = "different"
    compared: tuple[str, ...] = ("codes",)  # outputs, rotations, layers, windows, factors
    differing: int  # of `counted` units, such as pairs
    counted: int
    unit: str
    bitwise: bool = False
    transform: dict = field(default_factory=dict)  # columns, layout, signs, scale, offset, part …
    length: int  # positions compared
    lengths: tuple[int, int]
    dimensions: tuple[int, int]
    tolerance: float | None = None  # largest difference that rounding explains
    given_tolerance: float | None = None
    max_difference: float | None = None
    first_difference: tuple[int, int] | None = None  # position and column; of biases lag and head
    largest_difference: tuple[int, int] | None = None
    pair_counts: tuple[int, int] | None = None  # of each, where both have pairs
    pairs: tuple[PairDifference, ...] = ()  # that differ
    positions: tuple[PositionRun, ...] = ()  # of rows of a table, where row s is not position s
    heads: tuple[HeadDifference, ...] = ()  # that differ
    layers: tuple[LayerDifference, ...] = ()  # that differ
    cause: Cause | None = None
    tried: dict | None = None  # what was tried to explain a difference, with its numbers
    operator: OperatorComparison | None = None  # of two rotations
    unread: tuple[str, ...] = ()  # keys about positions that a config has and nobody reads
    findings: tuple[Finding, ...] = ()

    @property
    def compared_names(self) -> str:
        """What was compared."""
        return ", ".join(self.compared)

    @property
    def transform_names(self) -> str | None:
        """What leads from the first to the second, with its value where that is one."""
        values = {k: number(v, 7) for k, v in self.transform.items() if not isinstance(v, list)}
        texts = (f"{key} {values.get(key, '')}".strip() for key in self.transform)
        return ", ".join(texts).replace("_", " ") or None

    @property
    def first_place(self) -> str | None:
        """Position and column of the first difference."""
        if self.first_difference is None or self.heads:
            return None
        return "position {}, column {}".format(*self.first_difference)

    @property
    def order_name(self) -> str:
        """The name of the order of rows of two rotations."""
        return (self.operator and self.operator.name) or "an order without a name"

    @property
    def differences(self) -> str:
        """How many units differ, or are missing, or have other positions."""
        if self.unit == "factors":
            return "The attention factor differs"
        if self.counted == 1:
            return f"The only {self.unit.removesuffix('s')} differs"
        verb = agreeing(self.differing, "differs", "differ")
        if self.unit == "rows" and not self.positions:
            longer = "first" if self.lengths[0] > self.lengths[1] else "second"
            verb = f"{agreeing(self.differing, 'is', 'are')} in the {longer} only"
        return f"{self.differing} of {self.counted} {self.unit} {verb}"

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
    def first_positions(self) -> tuple[PositionRun, ...]:
        """The first runs of rows, of each axis."""
        runs: dict[str | None, list[PositionRun]] = {}
        for run in self.positions:
            runs.setdefault(run.axis, []).append(run)
        return tuple(run for of_axis in runs.values() for run in of_axis[:SHOWN])

    @property
    def caution(self) -> str:
        """What to do before weights of one are used with the other."""
        if self.positions:
            return "Compare the positions listed with those that the model should have."
        return "Do not assume that weights trained with one fit the other."

    @property
    def consequence(self) -> str:
        """What an equivalence means for trained weights."""
        rotates = any(
            enc.injection == "rotate" or enc.operator is not None for enc in self.encodings
        )
        if rotates and self.transform.keys() == {"offset"}:
            return (
                "No attention score changes if queries and keys share this offset, cached keys "
                "included; scores change if only some of them have it."
            )
        return "A model trained from scratch adapts to this; trained weights do not."

    @property
    def first_heads(self) -> tuple[HeadDifference, ...]:
        """The first heads that differ."""
        return self.heads[:SHOWN]

    @property
    def use(self) -> str:
        """How attention receives the vectors of each, or what is not known about them."""
        acts = dict.fromkeys(enc.injection for enc in self.encodings)
        if self.positions and not self.unread:
            return "whether these are the right positions is not known"
        unknown = "keys about positions were not compared"
        is_unread = self.unread and len(acts) == 1
        return unknown if is_unread else f"they are used differently: {' and '.join(acts)}"

    def with_differences(self, unit: str, differing: int, counted: int, **facts: Any) -> Comparison:
        """The same with so many of some units that differ."""
        counts = {"unit": unit, "differing": differing, "counted": counted}
        return replace(self, verdict="different", **counts, **facts)


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
    biases = compare_as_biases(uncompared(first, second))
    if biases is not None:
        return judged(biases)
    first, second = at_rows_of(first, second), at_rows_of(second, first)
    lengths = (len(first), len(second))
    if lengths[0] != lengths[1] and first.domain.sides == second.domain.sides:
        first, second = (bare_of_prefix(enc) for enc in (first, second))
    pairs = read_pairs(first, second), read_pairs(second, first)
    pairs = pairs if None in pairs else in_one_order(*pairs)
    long = None not in pairs and len(first) * first.dim > LARGE and tolerance is None
    result = compare_numbers(uncompared(first, second), MOST_ROWS if long else None)
    result = replace(result, lengths=lengths, given_tolerance=tolerance)
    result = compare_waves(result, pairs) if result.max_difference is None else result
    if None not in (tolerance, result.max_difference) and result.max_difference <= tolerance:
        return judged(replace(result, verdict="the same"))
    result = compare_in_pairs(result, pairs)
    is_explained = result.positions or (long and result.cause)
    if result.verdict == "different" and first.dim == second.dim and not is_explained:
        result = align_tables(result)
    result = compare_lengths(compare_models(result))
    if tolerance is not None and result.verdict == "the same":
        result = replace(result, verdict="different", unit="columns")
    notes = [length_note(enc) for enc in (first, second) if enc.params.get("scaling") in BY_LENGTH]
    if any(enc.origin != "formula" for enc in (first, second)):
        result = replace(result, findings=(*result.findings, *notes))
    return judged(result)


def bare_of_prefix(enc: Encoding) -> Encoding:
    """The points of a grid without the rows before it, counted from 0."""
    start = enc.domain.prefix
    if not start:
        return enc
    domain = replace(enc.domain, x=enc.domain.x[start:] - start, prefix=0)
    return replace(enc, domain=domain, codes=lambda x: enc.codes(np.asarray(x) + start))


def uncompared(first: Encoding, second: Encoding) -> Comparison:
    """Two of which nothing was compared yet but how many columns they have."""
    sizes, lengths = (first.dim, second.dim), (len(first), len(second))
    return Comparison(
        differing=abs(sizes[0] - sizes[1]),
        counted=max(sizes),
        unit="columns",
        length=min(lengths),
        lengths=lengths,
        dimensions=sizes,
        encodings=(first, second),
    )


def read_pairs(enc: Encoding, counterpart: Encoding) -> PairWaves | None:
    """The pairs of an encoding: declared, as its code turns vectors, or fitted to its table."""
    axis = axes_of(enc)
    if (declared := declared_pairs(enc, axis)) is not None:
        return declared
    if len(enc.domain.sides) > 1 or enc.domain.kind != "position":
        return None
    if enc.operator is not None:
        return pairs_of_code(enc, counterpart)
    is_table = enc.origin != "formula" and enc.injection != "bias"
    return fit_pair_waves(enc.table(), enc.eps) if is_table else None


def axes_of(enc: Encoding) -> tuple[str, ...]:
    """The axis of images that turns each pair of a rotation whose config tells it."""
    if not has_layers(enc) or not is_rotation(enc):
        return ()
    try:
        axis = axis_in(enc)
    except PefourierError:  # sections that do not fit the pairs, of which there is a finding
        return ()
    return () if axis is None else tuple((*AXES, "e")[i] for i in axis)


def compare_in_pairs(result: Comparison, pairs: Pairs) -> Comparison:
    """Rotations by what they do, and rotations and tables of waves pair by pair."""
    operator = compare_operators(*result.encodings)
    if operator is not None:
        result = replace(result, operator=operator, compared=(*result.compared, "rotations"))
        is_moved = operator.relation == "same" and offset_of(pairs) != 0
        if all(enc.operator is not None for enc in result.encodings) and not is_moved:
            result = compare_outputs(result)
        if operator.relation in ("same", "permuted"):
            return judge_operators(result, pairs)
        if operator.relation == "different":
            n, start = result.length, operator.first_position or 0
            result = result.with_differences("positions", n - start, n)
    return result if None in pairs else judge_pairs(result, pairs)


def offset_of(pairs: Pairs) -> int:
    """How many positions the second of two rotations is ahead; 0 where that is not known."""
    return 0 if None in pairs else int(pairs[1].moved - pairs[0].moved)


def compare_outputs(result: Comparison) -> Comparison:
    """What two functions return, where it differs though scores are the same."""
    relation = result.operator.relation
    result = replace(result, compared=(*result.compared, "outputs"))
    if relation == "permuted":  # and outputs with what goes in
        return result
    largest = largest_output_difference(*result.encodings)
    if not largest:
        return result
    order = output_order(*result.encodings)
    note = finding("outputs-differ", "other" if order is None else "order", residual=largest)
    if relation == "same":
        outputs = "that begin elsewhere" if order is None else list(order)
        result = replace(result, verdict="equivalent", transform={"outputs": outputs})
    return replace(result, findings=(*result.findings, note), bitwise=False, max_difference=largest)


def judge_operators(result: Comparison, pairs: Pairs) -> Comparison:
    """Two rotations with the same scores, maybe of rows in another order."""
    first, second = result.encodings
    is_same = result.operator.relation == "same"
    by_numbers = first.origin == second.origin == "formula" and first.dim == second.dim
    if not (result.transform or (by_numbers and is_same)):
        result = replace(result, verdict="the same" if is_same else "permuted")
    if None in pairs or not is_same:
        return result
    if (offset := offset_of(pairs)) and result.verdict == "the same":
        notes = (*result.findings, finding("offset-shared", offset=offset))
        compared = tuple(name for name in result.compared if name != "codes")
        return replace(result, transform={"offset": offset}, compared=compared, findings=notes)
    return compare_axes(result, *pairs)


def judge_pairs(result: Comparison, pairs: tuple[PairWaves, PairWaves]) -> Comparison:
    """What two sets of pairs say: which differ, and by which slip."""
    counts = (len(pairs[0].omega), len(pairs[1].omega))
    result = replace(result, pair_counts=counts)
    images = axes_in_table(result, *pairs)
    if images is None or images.verdict != "different":
        images = compare_axes_of_rows(result, *pairs) or images
    if images is not None:
        return images
    axes = [pair_waves.axis for pair_waves in pairs]
    differs = pairs_apart(*(replace(pair_waves, axis=()) for pair_waves in pairs))
    if not differs.any() and all(axes) and axes[0] != axes[1]:
        return compare_axes(result, *pairs)
    compared = tuple(dict.fromkeys((*result.compared, "rotations", "factors")))
    result = replace(result, compared=compared)
    if differs.any():
        if (moved := compare_rows(result, pairs)) is not None:
            return moved
        facts = {"pairs": list_differences(*pairs, differs), "cause": cause_of(result, pairs)}
        return result.with_differences("pairs", int(differs.sum()), len(differs), **facts)
    return judge_equal_pairs(result, *pairs)


def judge_equal_pairs(result: Comparison, first: PairWaves, second: PairWaves) -> Comparison:
    """Pairs that turn alike: their factor, where they begin, and what a table leaves open."""
    is_rotary = any(
        enc.injection == "rotate" or enc.operator is not None for enc in result.encodings
    )
    layouts = {enc.params.get("layout") for enc in result.encodings if enc.origin == "formula"}
    copies = {pairs.form.copies for pairs in (first, second) if pairs.form}
    is_unsaid = is_rotary and not (layouts & copies)  # columns that stand twice show the pairs
    are_declared = first.is_declared and second.is_declared
    unsaid = replace(result, findings=(*result.findings, *(finding("pairing-unsaid"),) * is_unsaid))
    if result.verdict == "the same":  # to every number
        return result if are_declared else unsaid
    scores_differ = result.operator is not None and result.operator.relation == "different"
    ratio = second.factor / first.factor
    if abs(ratio - 1) <= FACTOR and (are_declared or scores_differ):
        cause = settings_cause(*result.encodings) if are_known(*result.encodings) else None
        return replace(result, cause=cause)  # their numbers say it, or their scores
    part = next((p.form.part for p in (first, second) if p.form and p.form.part != "both"), "both")
    if abs(ratio - 1) > max(FACTOR, first.eps, second.eps) and part not in ("sin", "angles"):
        if not is_rotary and result.max_difference is not None:
            return result  # their numbers say it, whatever the order of columns
        if not is_rotary:
            return replace(result, verdict="equivalent", transform={"scale": ratio})
        return with_factors(result, first, second)
    if part in ("cos", "sin") and is_rotary:
        index = 1 if second.form and second.form.part == part else 0
        facts = {"table": ("first", "second")[index], "waves": PARTS[part]}
        notes = (*result.findings, finding("part-alone", **facts))
        return replace(result, verdict="the same", compared=(PARTS[part],), findings=notes)
    transform: dict[str, Any] = {}
    if offset := second.offset - first.offset:
        transform["offset"] = int(offset) if np.isfinite(offset) else "none in common"
        run = PositionRun(
            0,
            result.length - 1,
            *(int(np.nan_to_num(offset)) + np.array([0, result.length - 1])).tolist(),
        )
        unsaid = replace(unsaid, compared=without_codes(result), positions=(run,))
    if part in ("cos", "sin"):
        transform["part"] = part
    if is_rotary and first.has_sines_first != second.has_sines_first:
        transform["order"] = "sines before cosines"
    if not is_rotary and result.verdict == "different":
        return result  # columns in another order: their numbers say it
    return replace(unsaid, verdict="equivalent" if transform else "the same", transform=transform)


def are_known(first: Encoding, second: Encoding) -> bool:
    """Whether both are rotations by settings."""
    return all(is_rotation(enc) and has_settings(enc) for enc in (first, second))


def cause_of(result: Comparison, pairs: tuple[PairWaves, PairWaves]) -> Cause | None:
    """The one slip that makes one of two the other, or the settings in which both differ."""
    first, second = result.encodings
    if are_known(first, second):
        return settings_cause(first, second)
    for of, enc, pair_waves, counterpart in (("a", first, *pairs), ("b", second, *pairs[::-1])):
        rotation = enc if pair_waves.is_declared else geometric_rotation(pair_waves)
        declared = rotation and declared_pairs(rotation)
        cause = declared and find_misreading(rotation, declared, counterpart)
        if cause:
            return replace(cause, of=of)
    return None


def compare_models(result: Comparison) -> Comparison:
    """The layers, windows and factors of two models, and the keys of theirs that nobody reads."""
    models = [enc for enc in result.encodings if has_layers(enc)]
    keys = dict.fromkeys(key for enc in models for key in unread_keys(enc))
    result = replace(result, unread=tuple(keys))
    if len(models) < 2:
        return result
    layers = tuple(compare_layers(*models))
    compared = dict.fromkeys((*result.compared, "layers", "windows", "factors"))
    result = replace(result, layers=layers, compared=tuple(compared))
    if not layers or result.verdict not in AGREEING:
        return result
    index = {i for layer in layers for i in layer.index}
    total = sum(len(run.index) for run in model_runs(models[0]))
    cause = Cause("both", tuple(dict.fromkeys(layer.what for layer in layers)), {}, {})
    counted = max(total, *(i + 1 for i in index), len(layers))
    return result.with_differences(
        "layers", len(index) or len(layers), counted, cause=result.cause or cause
    )


def compare_lengths(result: Comparison) -> Comparison:
    """Rotations that agree over the positions compared, and not at other lengths of the sequence.

    Two models that do are different, two SPECs the same over these positions.
    """
    found_apart = lengths_apart(*result.encodings) if result.verdict in AGREEING else None
    if found_apart is None:
        return result
    side, facts = found_apart
    result = replace(
        result, findings=(*result.findings, finding("length-dependent", side, **facts))
    )
    if not all(map(has_layers, result.encodings)):
        return result
    cause = settings_cause(*result.encodings)
    unit = f"pairs at {facts['at']} positions"
    return result.with_differences(unit, facts["count"], facts["of"], cause=cause)


def judged(result: Comparison) -> Comparison:
    """A comparison with its verdict settled and what is to be said of it."""
    if result.verdict == "different" and result.cause is None:
        result = replace(result, cause=parameters_cause(*result.encodings))
    verdict = result.verdict
    acts = {
        enc.injection
        for enc in result.encodings
        if enc.origin == "formula" or enc.injection != "add"
    }
    if verdict in ("the same", "equivalent") and (len(acts) > 1 or result.unread):
        verdict = "used differently"
    notes: list[Finding] = []
    if verdict == "permuted" and is_converted(*result.encodings, result.order_name):
        verdict = "the same"
        notes.append(finding("rows-as-converted"))
    are_files = all(enc.origin == "file" for enc in result.encodings)
    are_tables = all(enc.origin != "formula" for enc in result.encodings)
    if verdict == "the same" and result.lengths[0] != result.lengths[1] and are_tables:
        missing = abs(result.lengths[0] - result.lengths[1])
        result, verdict = result.with_differences("rows", missing, max(result.lengths)), "different"
    if verdict == "the same" and result.bitwise and are_files:
        notes.append(finding("numbers-unchanged"))
    result = replace(result, verdict=verdict, same=verdict == "the same")
    if result.same:
        result = replace(result, differing=0)
        if result.first_difference or result.positions:  # in other columns, or at other places
            places = ("max_difference", "first_difference", "largest_difference")
            result = replace(result, **dict.fromkeys(places))
    return replace(result, findings=(*difference_findings(result), *result.findings, *notes))

"""Are two implementations the same encoding? What was compared, where they differ, and by what.

Conventions
-----------
Tables are (n, d); of different lengths the common positions are compared, to rounding as
`geometry.tolerance` knows it. Rotations and tables of their cosines and sines are compared pair by
pair (`diagnosis.pairs`), biases head by head (`analysis.biases`), models layer by layer
(`analysis.layer_schedules`). Tables are equivalent where one follows from the other by an order of
columns, signs, a scale or an offset in positions, as `transform` says; equal inner products alone
are equal geometry. Of rotations a factor is no scale: it is part of what attention computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pefourier.analysis.alignment import find_row_order, find_transformation
from pefourier.analysis.biases import HeadDifference, compare_biases, read_bias
from pefourier.analysis.layer_schedules import (
    LayerDifference,
    compare_layers,
    has_layers,
    model_runs,
    unread_keys,
)
from pefourier.analysis.operators import (
    OperatorComparison,
    compare_rotations,
    has_operator,
    largest_output_difference,
    output_order,
    pairs_of_code,
)
from pefourier.diagnosis.misreadings import (
    SLIPS,
    Cause,
    SlipReading,
    chosen_changes,
    describe_changes,
    find_misreading,
    geometric_rotation,
    has_settings,
    is_rotation,
    meant_settings,
    reading_with,
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
from pefourier.encodings.sections import AXES, describe_axes
from pefourier.errors import PefourierError
from pefourier.files import read_toml
from pefourier.geometry.tolerance import stored_tolerance
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
        told = (
            f"{key} {value:.7g}"
            if isinstance(value, int | float)
            else f"{key} {value}"
            if isinstance(value, str)
            else key
            for key, value in self.transform.items()
        )
        return ", ".join(told) or None

    @property
    def lengths_apart(self) -> str | None:
        """Positions of each, where they are not as many."""
        one, two = self.lengths
        return None if one == two else f"{one} and {two}"

    @property
    def first_place(self) -> str | None:
        """Position and column of the first difference."""
        if self.first_difference is None or self.heads:
            return None
        return "position {}, column {}".format(*self.first_difference)

    @property
    def relation(self) -> str | None:
        """Whether two rotations do the same, where that is known."""
        known = self.operator and self.operator.relation != "unknown"
        return self.operator.relation if known else None

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
    found = compare_numbers(first, second, MOST_ROWS if long else None)
    found = replace(found, lengths=lengths, given_tolerance=tolerance)
    if tolerance is not None and found.max_difference is not None:
        if found.max_difference <= tolerance:
            return judged(replace(found, verdict="the same"))
    found = compare_in_pairs(first, second, pairs, found)
    found = align_tables(first, second, found)
    found = compare_models(first, second, found)
    if tolerance is not None and found.verdict == "the same":
        found = replace(found, verdict="different", unit="columns")
    return judged(found)


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


def compare_numbers(first: Encoding, second: Encoding, most: int | None) -> Comparison:
    """Two tables number by number, as far as both go; of long ones of waves at most some rows."""
    found = differing_in_size(first, second, "columns", (first.dim, second.dim))
    if first.dim != second.dim:
        return found
    x = first.domain.x[: min(found.length, most or found.length)]
    a, b = (np.asarray(enc.table(enc.domain.x[: len(x)]), dtype=float) for enc in (first, second))
    allowed, _ = stored_tolerance(a, b, first, second)
    apart = np.abs(a - b)
    beyond = apart > allowed
    row, column = np.unravel_index(apart.argmax(), apart.shape)
    return replace(
        found,
        verdict="different" if beyond.any() else "the same",
        differing=int(beyond.any(axis=0).sum()),
        bitwise=not apart.any(),
        tolerance=float(allowed.max()),
        max_difference=float(apart.max()),
        first_difference=first_place(beyond),
        largest_difference=(int(row), int(column)) if apart[row, column] else None,
    )


def first_place(beyond: np.ndarray) -> tuple[int, int] | None:
    """Row and column of the first difference beyond rounding.

    >>> first_place(np.array([[False, False], [False, True]]))
    (1, 1)
    """
    row, column = np.unravel_index(beyond.argmax(), beyond.shape)
    return (int(row), int(column)) if beyond[row, column] else None


def read_pairs(enc: Encoding, other: Encoding) -> PairWaves | None:
    """The pairs of an encoding: declared, as its code turns vectors, or fitted to its table."""
    axis = axes_of(enc)
    if (declared := declared_pairs(enc, axis)) is not None:
        return declared
    if len(enc.domain.sides) > 1 or enc.domain.kind != "position":
        return None
    if enc.operator is not None:
        return pairs_of_code(enc, other)
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
    found: Comparison,
) -> Comparison:
    """Rotations by what they do, and rotations and tables of waves pair by pair."""
    operator = compare_rotations(first, second)
    outputs: Mapping[str, Any] = {}
    if operator is not None:
        found = replace(found, operator=operator, compared=(*found.compared, "rotations"))
        if first.operator is not None and second.operator is not None:
            outputs = compare_outputs(first, second, found)
            found = replace(found, **outputs)
    known = operator.relation if operator else "unknown"
    if known in ("same", "permuted"):
        relation = {"same": "the same", "permuted": "permuted"}[known]
        formulas = first.origin == second.origin == "formula" and known == "same"
        settled = found.transform or (formulas and first.dim == second.dim)  # by their numbers
        found = found if settled else replace(found, verdict=relation)
        if None in pairs or known == "permuted":
            return found
        moved = pairs[1].moved - pairs[0].moved
        if moved and found.verdict == "the same":
            return replace(found, verdict="equivalent", transform={"offset": int(moved)})
        return compare_axes(found, *pairs)
    if known == "different":
        n = found.length
        start = operator.first_position or 0
        found = replace(
            found, verdict="different", differing=n - start, counted=n, unit="positions"
        )
    if None in pairs or pairs[0] is None or pairs[1] is None:
        return found
    return judge_pairs(first, second, pairs, found)


def compare_outputs(first: Encoding, second: Encoding, found: Comparison) -> dict[str, Any]:
    """What two functions return, where it differs though scores are the same."""
    compared = (*found.compared, "outputs")
    permuted = found.operator.relation == "permuted"  # and outputs with what goes in
    apart = 0.0 if permuted else largest_output_difference(first, second)
    if not apart:
        return {"compared": compared}
    order = output_order(first, second)
    told = finding("outputs-differ", "other" if order is None else "order", apart=apart)
    facts = {"compared": compared, "findings": (*found.findings, told), "bitwise": False}
    if found.operator.relation == "same":
        outputs = "that begin elsewhere" if order is None else list(order)
        facts |= {"verdict": "equivalent", "transform": {"outputs": outputs}}
    return facts | {"max_difference": apart}


def compare_axes(found: Comparison, first: PairWaves, second: PairWaves) -> Comparison:
    """Rotations that turn text alike, and images by other axes."""
    m = min(len(first.axis), len(second.axis))
    if not m or first.axis == second.axis:
        return found
    differs = np.array([one != two for one, two in zip(first.axis, second.axis, strict=False)])
    order = "".join((*AXES, "e"))
    changes = {
        "axes": tuple(
            describe_axes(np.array([order.index(letter) for letter in pairs.axis]))
            for pairs in (first, second)
        )
    }
    renamed = len({*zip(first.axis, second.axis, strict=False)}) == len({*first.axis})
    code = "axes" if renamed or differs.sum() == 1 else "sections"
    return replace(
        found,
        verdict="different",
        pairs=list_differences(first, second, differs),
        cause=Cause("both", (code,), changes, {}),
        differing=int(differs.sum()),
        counted=len(first.axis),
        unit="pairs",
    )


def judge_pairs(
    first: Encoding,
    second: Encoding,
    pairs: tuple[PairWaves, PairWaves],
    found: Comparison,
) -> Comparison:
    """What two sets of pairs say: which differ, by which slip, and what a table leaves open."""
    one, two = pairs
    if (images := axes_in_table(first, second, pairs, found)) is not None:
        return images
    differs = pairs_apart(*(replace(own, axis=()) for own in pairs))
    if not differs.any() and one.axis != two.axis and one.axis and two.axis:
        return compare_axes(found, one, two)
    compared = tuple(dict.fromkeys((*found.compared, "rotations", "factors")))
    found = replace(found, compared=compared)
    if differs.any():
        cause = cause_of(first, second, pairs)
        return replace(
            found,
            verdict="different",
            pairs=list_differences(one, two, differs),
            cause=cause,
            differing=int(differs.sum()),
            counted=len(differs),
            unit="pairs",
        )
    rotary = turns_vectors(first) or turns_vectors(second)
    unsaid = replace(found, findings=(*found.findings, *(finding("pairing-unsaid"),) * rotary))
    if found.verdict == "the same":  # to every number
        return found if one.is_declared and two.is_declared else unsaid
    ratio = two.factor / one.factor
    declared = one.is_declared and two.is_declared
    if abs(ratio - 1) <= FACTOR and (declared or known_apart(found)):
        cause = settings_cause(first, second) if both_known(first, second) else None
        return replace(found, cause=cause)  # their numbers say it, or their scores
    part = next((p.form.part for p in pairs if p.form and p.form.part != "both"), "both")
    if abs(ratio - 1) > max(FACTOR, one.eps, two.eps) and part not in ("sin", "angles"):
        cause = Cause("both", ("mscale",), {"factor": (one.factor, two.factor)}, {})
        rest = {"differing": 1, "counted": 1, "unit": "factors", "cause": cause}
        scaled = {"verdict": "equivalent", "transform": {"scale": ratio}}
        return replace(found, **(rest | {"verdict": "different"} if rotary else scaled))
    transform: dict[str, Any] = {}
    offset = two.offset - one.offset
    if offset:
        transform["offset"] = int(offset) if np.isfinite(offset) else "none in common"
    if part in ("cos", "sin"):
        transform["part"] = part
    if not rotary and found.verdict == "different":
        return found  # columns in another order: their numbers say it
    return replace(unsaid, verdict="equivalent" if transform else "the same", transform=transform)


def turns_vectors(enc: Encoding) -> bool:
    """Whether an encoding is a rotation, by a formula or by code."""
    return enc.act == "rotate" or enc.operator is not None


def known_apart(found: Comparison) -> bool:
    """Whether two rotations do other things to queries and keys."""
    return found.operator is not None and found.operator.relation == "different"


def both_known(first: Encoding, second: Encoding) -> bool:
    """Whether both are rotations by settings."""
    return all(is_rotation(enc) and has_settings(enc) for enc in (first, second))


def cause_of(first: Encoding, second: Encoding, pairs: tuple[PairWaves, PairWaves]) -> Cause | None:
    """The one slip that makes one of two the other, or the settings in which both differ."""
    if both_known(first, second):
        return settings_cause(first, second)
    for of, enc, own, other in (("a", first, *pairs), ("b", second, *pairs[::-1])):
        meant = enc if own.is_declared else geometric_rotation(own)
        declared = meant and declared_pairs(meant)
        if declared is None:
            continue
        cause = find_misreading(meant, declared, other)
        if cause is not None:
            return replace(cause, of=of)
    return None


def axes_in_table(
    first: Encoding,
    second: Encoding,
    pairs: tuple[PairWaves, PairWaves],
    found: Comparison,
) -> Comparison | None:
    """A table of an image's tokens beside a config whose pairs turn by frames, rows and columns."""
    one, two = pairs
    known, table = (one, two) if one.axis else (two, one)
    if not known.axis or table.form is None or len(known.omega) != len(table.omega):
        return None
    if table.even is None or table.even.all():
        return None  # text
    axis, cause = assign_axes(known, table), None
    for reading in readings_of(first, second, known) if axis is None else ():
        axis = assign_axes(replace(known, omega=reading.omega), table)
        if axis is not None:
            cause = Cause("b" if known is two else "a", (reading.code,), reading.changes, {})
            break
    if axis is None:
        return None
    seen = replace(table, axis=axis, omega=known.omega, even=None)
    ordered = (known, seen) if known is one else (seen, known)
    named = compare_axes(found, *ordered)
    note = (finding("pairing-unsaid"),)
    if cause is not None:
        m = len(known.omega)
        sizes = {"differing": m, "counted": m, "unit": "pairs"}
        return replace(found, verdict="different", cause=cause, **sizes)
    if named is found:
        return replace(found, verdict="the same", findings=(*found.findings, *note))
    return named


def readings_of(first: Encoding, second: Encoding, known: PairWaves) -> list[SlipReading]:
    """The usual readings of a config whose pairs turn by several axes."""
    meant = first if first.act == "rotate" else second
    if not has_settings(meant):
        return []
    settings = meant_settings(meant)
    changes = chosen_changes(meant, settings, known)
    read = (reading_with(settings, len(meant), known, *change) for change in changes)
    return [one for one in read if one is not None and len(one.omega) == len(known.omega)]


def assign_axes(known: PairWaves, table: PairWaves) -> tuple[str, ...] | None:
    """The axis of each pair of a table of tokens, by the whole numbers it turns by; None: text.

    Slow pairs show three rows of ids: those of columns change most often, those of frames least.
    """
    rows = np.arange(min(table.length, 4096))
    waves = table.waves(rows)
    if np.isnan(waves).any():
        return None
    angles = np.angle(waves)
    with np.errstate(divide="ignore", invalid="ignore"):
        ids = angles / known.omega
    slow = np.flatnonzero((np.abs(ids - np.rint(ids)) < 0.02).all(axis=0) & (known.omega < 0.5))
    columns = {tuple(np.rint(ids[:, k]).astype(int).tolist()) for k in slow}
    walks = sorted(columns, key=lambda walk: np.count_nonzero(np.diff(walk)))
    if len(walks) != 3:
        return None
    made = np.exp(1j * np.multiply.outer(np.array(walks), known.omega))  # (3, n, m)
    residual = np.abs(made - waves / table.factor).max(axis=1)
    best = residual.argmin(axis=0)
    if residual.min(axis=0).max() > 1e-3:
        return None
    return tuple(AXES[i] for i in best)


def align_tables(first: Encoding, second: Encoding, found: Comparison) -> Comparison:
    """Tables that differ as they stand, and follow from one another by an order or a scale."""
    rotary = [has_operator(enc) for enc in (first, second)]
    if found.verdict != "different" or first.dim != second.dim or all(rotary):
        return found
    if found.unit == "factors" or "bias" in (first.act, second.act):
        return found
    a, b = (
        np.asarray(enc.table(enc.domain.x[: found.length]), dtype=float) for enc in (first, second)
    )
    allowed, eps = stored_tolerance(a, b, first, second)
    transform, difference = find_transformation(a, b, allowed, eps)
    on_grid = len(first.domain.sides) > 1 or len(second.domain.sides) > 1
    if transform is None:
        transform, difference = find_row_order(a, b, allowed)
    if transform is None or (on_grid and "offset" in transform):
        return found
    geometry = transform.pop("rotation", False)
    if geometry:
        fitted = [fit_pair_waves(x, e.eps) for x, e in ((a, first), (b, second))]
        apart = None not in fitted and frequencies_apart(*fitted)
        rest = {"verdict": "same geometry", "pairs": (), "cause": None}
        settled = replace(found, transform=transform, max_difference=difference, **rest)
        return found if apart else settled
    if found.pairs and "rotate" in (first.act, second.act) and transform.keys() <= {"scale"}:
        return found
    verdict = "different" if "rows" in transform else "equivalent"
    if (turns_vectors(first) or turns_vectors(second)) and "scale" in transform:
        verdict = "different"
    rest: dict[str, Any] = {"transform": transform, "verdict": verdict}
    if verdict == "equivalent":
        rest |= {"max_difference": difference, "pairs": (), "cause": None}
    return replace(found, **rest)


def compare_as_biases(first: Encoding, second: Encoding) -> Comparison | None:
    """Two biases, head by head; None where neither is one."""
    one, two = read_bias(first), read_bias(second)
    if one is None and two is None:
        return None
    one, two = one or read_bias(first, two), two or read_bias(second, one)
    pair = list(zip((first, second), (one, two), strict=True))
    sizes = tuple(len(rows.numbers) if rows else enc.dim for enc, rows in pair)
    lengths = tuple(rows.numbers.shape[2] if rows else len(enc) for enc, rows in pair)
    found = differing_in_size(first, second, "heads", sizes)
    found = replace(found, lengths=lengths, length=min(lengths))
    if one is None or two is None or sizes[0] != sizes[1]:
        return judged(found)
    biases = compare_biases(one, two)
    notes = (finding("constant-for-each-query"),) * biases.constant
    notes += (finding("keys-behind"),) * biases.one_sided
    return judged(
        replace(
            found,
            verdict="different" if biases.heads else "the same",
            differing=len(biases.heads),
            bitwise=biases.max_difference == 0 and not biases.constant,
            tolerance=biases.tolerance,
            max_difference=biases.max_difference,
            first_difference=biases.first_difference,
            heads=biases.heads,
            cause=next((Cause("both", (code,), own, {}) for code, own in biases.causes), None),
            findings=notes,
        )
    )


def compare_models(first: Encoding, second: Encoding, found: Comparison) -> Comparison:
    """The layers, windows and factors of two models, and the keys of theirs that nobody reads."""
    models = [has_layers(enc) for enc in (first, second)]
    keys = [
        key
        for enc, model in zip((first, second), models, strict=True)
        if model
        for key in unread_keys(enc)
    ]
    found = replace(found, unread=tuple(dict.fromkeys(keys)))
    if not all(models):
        return found
    layers = tuple(compare_layers(first, second))
    compared = dict.fromkeys((*found.compared, "layers", "windows", "factors"))
    found = replace(found, layers=layers, compared=tuple(compared))
    if layers and found.verdict in ("the same", "permuted", "equivalent"):
        index = sorted({i for one in layers for i in one.index})
        total = sum(len(run.index) for run in model_runs(first))
        cause = Cause("both", tuple(dict.fromkeys(one.what for one in layers)), {}, {})
        found = replace(
            found,
            verdict="different",
            differing=len(index) or len(layers),
            counted=max(total, *(i + 1 for i in index), len(layers)),
            unit="layers",
            cause=found.cause or cause,
        )
    return found


def judged(found: Comparison) -> Comparison:
    """A comparison with its verdict settled and what is to be said of it."""
    if found.verdict == "different" and found.cause is None:
        found = replace(found, cause=parameters_cause(*found.about))
    verdict = found.verdict
    acts = {enc.act for enc in found.about if enc.origin == "formula" or enc.act != "add"}
    if verdict in ("the same", "equivalent") and (len(acts) > 1 or found.unread):
        verdict = "used differently"
    notes: list[Finding] = []
    if verdict == "permuted" and is_converted(found):
        verdict = "the same"
        notes.append(finding("rows-as-converted"))
    if verdict == "the same" and found.bitwise and all(enc.origin == "file" for enc in found.about):
        notes.append(finding("numbers-unchanged"))
    found = replace(found, verdict=verdict, same=verdict == "the same")
    if found.same:
        found = replace(found, differing=0)
    if found.same and found.first_difference:  # the same angles in other columns
        places = dict.fromkeys(("max_difference", "first_difference", "largest_difference"))
        found = replace(found, **places)
    return replace(found, findings=(*difference_findings(found), *found.findings, *notes))


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


def is_converted(found: Comparison) -> bool:
    """Whether rows differ from a config's as llama.cpp's converter has put those of weights.

    A GGUF file of an architecture that turns neighbours holds weights in that order.
    """
    paths = [str(enc.params.get("path", "")) for enc in found.about]
    ggufs = [path.lower().endswith(".gguf") for path in paths]
    names = ("neighbours-to-halves", "halves-to-neighbours")  # of a file that is first, second
    return all(paths) and sum(ggufs) == 1 and found.operator.name == names[ggufs[1]]


def difference_findings(found: Comparison) -> list[Finding]:
    """What differs, worst first, then the slip that explains it and what it costs."""
    told = []
    if found.unread:
        told.append(finding("comparison-unread", keys="; ".join(found.unread)))
    if found.verdict in ("the same", "equivalent", "same geometry", "permuted"):
        return told + lengths_of(found)
    told += list(map(layer_finding, found.layers))
    if any(turns_otherwise(pair) for pair in found.pairs):
        told.append(pairs_finding(found))
    elif found.heads:
        ratios = ratios_told([head.ratio for head in found.heads if head.ratio is not None])
        index = ", ".join(str(head.index) for head in found.heads[:SHOWN])
        worst = found.max_difference
        told.append(finding("heads-differ", index=index, ratios=ratios, worst=worst))
    elif found.dimensions[0] != found.dimensions[1] and found.unit in ("columns", "heads"):
        first, second = found.dimensions
        told.append(finding("sizes-differ", first=first, second=second, unit=found.unit))
    elif found.first_place and found.unit in ("columns", "pairs") and not found.transform:
        told.append(finding("numbers-differ", place=found.first_place, worst=found.max_difference))
    if "rows" in found.transform:
        told.append(finding("rows-reordered", rows=found.transform["rows"]))
    if found.cause and not found.layers:
        told.append(cause_finding(found))
    faults = {f.message: f for enc in found.about for f in enc.findings if f.severity == "error"}
    return [*faults.values(), *told, *lengths_of(found)]


def lengths_of(found: Comparison) -> list[Finding]:
    """That one of two is longer than what was compared."""
    one, two = found.lengths
    facts = {"first": one, "second": two, "common": found.length}
    return [] if one == two else [finding("lengths-differ", **facts)]


def layer_finding(layers: LayerDifference) -> Finding:
    """Layers that differ in one way."""
    facts = {name: getattr(layers, name) for name in ("places", "what", "first", "second")}
    return finding("layers-differ", **facts)


def pairs_finding(found: Comparison) -> Finding:
    """Which pairs differ, from the first to the last, and by what ratio."""
    index = [pair.index for pair in found.pairs]
    ratios = [pair.ratio for pair in found.pairs if pair.ratio is not None]
    which = f"pair {index[0]}" if len(index) == 1 else f"pairs {index[0]} to {index[-1]}"
    axes = [pair.axis for pair in found.pairs if pair.axis and "/" in pair.axis]
    if axes and all(abs(ratio - 1) < 1e-6 for ratio in ratios):
        return finding("pairs-differ", "axes", places=which, axes=axes[0])
    return finding("pairs-differ", "frequencies", places=which, ratios=ratios_told(ratios))


def turns_otherwise(pair: PairDifference) -> bool:
    """Whether a pair that differs does so at all positions, and not by single numbers."""
    one_axis = pair.axis is None or "/" not in pair.axis
    return not (one_axis and (pair.ratio is None or abs(pair.ratio - 1) < 1e-6))


def ratios_told(ratios: list[float]) -> str:
    """The ratio of the second to the first, or the least and the largest.

    >>> ratios_told([0.5, 0.5]), ratios_told([0.125, 0.9]), ratios_told([])
    ('0.5', '0.125 to 0.9', 'none')
    """
    if not ratios:
        return "none"
    low, high = (f"{value:.6g}" for value in (min(ratios), max(ratios)))
    return low if low == high else f"{low} to {high}"


def cause_finding(found: Comparison) -> Finding:
    """The slip that explains a difference."""
    cause = found.cause
    slips = read_toml(SLIPS)
    what = " and ".join(slips[code]["message"] for code in cause.misreadings if code in slips)
    changes = describe_changes(cause.changes)
    if cause.of == "b":
        changes = describe_changes({key: pair[::-1] for key, pair in cause.changes.items()})
    changes = f" ({changes})" if changes else ""
    return finding("misread", cause.of, what=what, changes=changes)

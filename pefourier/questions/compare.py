"""Comparison of two encodings: how both are loaded, what was compared, and where they differ.

Conventions
-----------
Two sources get matching sizes and grids: a named encoding those of the file, config or user's
source code; source code the dimension of the file or config, and its length if it can return as
many rows. If there is a named encoding, parameters apply to it.

Tables are (n, d). If lengths differ, the common positions are compared, within the rounding of
`geometry.tolerance`. There are three strategies: biases head by head (`construction.biases`);
rotations and tables of their cosines and sines pair by pair (`construction.rotation_pairs`); other
tables number by number (`construction.outcome`, `construction.alignment`). Models are also compared
layer by layer (`construction.outcome`). Tables are equivalent if one follows from the other by an
order of columns, signs, a scale or an offset in positions (`transform`). If only the inner products
agree, the tables have the same geometry.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pefourier.construction.mistakes import (
    LikelyMistake,
    Misreading,
    lengths_apart,
    parameters_cause,
    settings_cause,
)
from pefourier.construction.operators import OperatorComparison, head_size, rotates
from pefourier.construction.outcome import (
    MOST_ROWS,
    SIDES,
    HeadDifference,
    Outcome,
    Similarity,
    Two,
    compare_layers,
    compare_numbers,
    compare_waves,
    similarity_of,
    uncompared,
)
from pefourier.construction.pairs import PairDifference, frequencies_apart
from pefourier.construction.rope import BY_LENGTH, known_mistakes
from pefourier.construction.rotation_pairs import (
    compare_rotations,
    explains_rows,
    is_matched,
    length_note,
    read_pairs,
)
from pefourier.construction.rows import Shifted, explain_rows
from pefourier.construction.steps import StepChanged, describe_changes
from pefourier.construction.waves import LAYOUTS, copies_of
from pefourier.encodings.encoding import (
    Domain,
    Encoding,
    Finding,
    as_encoding,
    finding,
    largest_number,
    positions,
    split_pairs,
    without_prefix,
)
from pefourier.encodings.grids import on_common_grid, rows_before
from pefourier.encodings.loader import (
    Count,
    Source,
    SpecWithDefaults,
    load,
    source_of,
    specs_of_rotations,
)
from pefourier.encodings.model_positions import at_rows_of, refuse_random, temperature_of
from pefourier.errors import OtherGrid, PefourierError
from pefourier.geometry.interpolation import recovered_sides
from pefourier.geometry.precision import FLOAT32_EPS, first_duplicate
from pefourier.questions.result import Result
from pefourier.types import Array, Fields, Texts, Values, frozen
from pefourier.writing.text import Verdict, agreeing, first_few, joined_runs, number

LARGE = 2**20  # numbers in a table of cosines and sines, above which only pairs are compared
ASPECTS = {"layers": "kind", "rotations": "rotation", "windows": "window", "factors": "factor"}
AGREEING = ("the same", "permuted", "equivalent")
SHOWN = 8  # runs of indices that a sentence lists
LARGEST_SOURCE = 2**25  # most numbers requested from source code if no size was given
PLACES = {"grid", "prefix"}  # parameters of all encodings that place their rows
MODELS = {"config", "gguf"}
UNREAD = ("unread-key", "gguf-unread")
INTERPOLATED = 20 * FLOAT32_EPS  # of the largest number: difference of two float32 resizes


@frozen
class Comparison(Outcome, Result):
    """Result of comparing encodings a and b; `transform` maps a to b."""

    __repr__ = Result.__repr__

    command = "compare"
    figure = "compare"
    verdicts = {
        "the same": Verdict(
            "Everything that was compared agrees over {r.length:,} positions: {r.compared_names}.",
        ),
        "permuted": Verdict(
            "The rotations are identical up to a permutation of the rows of queries and keys: "
            "{r.order_name}.",
            "To use weights of the first with the second, permute the rows of W_q and W_k; "
            "--permutation FILE writes the order.",
        ),
        "equivalent": Verdict("One follows from the other by {r.transform_names}. {r.consequence}"),
        "same geometry": Verdict(
            "All inner products agree, but the numbers differ: one is a rotation of the other's "
            "columns.",
            "To use weights trained with one for the other, rotate them likewise.",
        ),
        "used differently": Verdict("The numbers agree, but {r.use}.", "{r.caution}"),
        "different": Verdict("{r.differences}."),
    }
    shown = {
        "compared": "compared_names",
        "positions compared": "length",
        "largest difference": "max_difference",
        "tolerance (rounding)": "rounding_tolerance",
        "tolerance (given)": "given_tolerance",
        "first difference at": "first_place",
        "transform": "transform_names",
        "permutation of rows": "operator.name",
        "scores differ from position": "operator.first_position",
        "rows sampled for similarity": "moved.sampled",
        "mean cosine of rows": "moved.mean_cosine",
        "linear CKA": "moved.cka",
        "likely mistake": "cause_codes",
        "cosine below 0.9 from position": "costly_from",
    }
    listed = {
        "pairs": {
            "pair": "index",
            "axis": "axis",
            "first": "first",
            "second": "second",
            "ratio": "ratio",
        },
        "positions": {
            "axis": "axis",
            "rows": "rows",
            "positions": "places",
            "factors": "reading",
        },
        "heads": {
            "head": "index",
            "first slope": "first",
            "second slope": "second",
            "ratio": "ratio",
            "largest difference": "max_difference",
        },
        "layers": {"layers": "places", "differs": "what", "first": "first", "second": "second"},
    }
    short = {"shown": shown}

    same: bool
    given_tolerance: float | None = None

    @property
    def compared_names(self) -> str:
        """Compared properties, separated by commas."""
        return ", ".join(self.compared).replace("codes", "vectors")

    @property
    def transform_names(self) -> str | None:
        """The transformation from the first to the second, with values that are single numbers."""
        values = {k: number(v, 7) for k, v in self.transform.items() if not isinstance(v, list)}
        texts = (f"{key} {values.get(key, '')}".strip() for key in self.transform)
        return ", ".join(texts).replace("_", " ").replace("columns", "order of columns") or None

    @property
    def rounding_tolerance(self) -> float | None:
        """Largest difference that rounding explains, if no tolerance was given."""
        return self.tolerance if self.given_tolerance is None else None

    @property
    def order_name(self) -> str:
        """Name of the permutation of rows between two rotations."""
        return (self.operator and self.operator.name) or "an order without a name"

    @property
    def differences(self) -> str:
        """The start of a sentence on how many units differ or are missing."""
        if self.unit in ("factors", "grids"):
            return f"The {'attention factor differs' if self.unit == 'factors' else 'grids differ'}"
        if self.unit.endswith("is a bias"):
            return f"Only the {self.unit}"
        if self.counted == 1:
            return f"The only {self.unit.removesuffix('s')} differs"
        verb = agreeing(self.differing, "differs", "differ")
        if self.unit == "rows" and not self.positions:
            longer = "first" if self.lengths[0] > self.lengths[1] else "second"
            verb = f"{agreeing(self.differing, 'is', 'are')} in the {longer} only"
        return f"{self.differing} of {self.counted} {self.unit} {verb}"

    @property
    def moved(self) -> Similarity | None:
        """The similarity of tables that differ."""
        return None if self.same else self.similarity

    @property
    def first_place(self) -> str | None:
        """Position and column of the first difference."""
        if not self.first_difference or self.heads:
            return None
        return "position {}, column {}".format(*self.first_difference)

    @property
    def cause_codes(self) -> str | None:
        """Codes of the mistake, or of the settings that differ."""
        return ", ".join(self.cause.misreadings) if self.cause else None

    @property
    def costly_from(self) -> int | None:
        """The first position at which the cosine of the vectors is below 0.9."""
        return self.cause.below.get(".9") if self.cause else None

    @property
    def caution(self) -> str:
        """Advice before weights of one are used with the other."""
        if self.positions:
            return "Compare the positions listed with those that the model should have."
        return "Do not assume that weights trained with one fit the other."

    @property
    def consequence(self) -> str:
        """The consequence of an equivalence for trained weights."""
        if "crop" in self.transform:
            return "Points that both grids have share their vectors."
        if any(map(rotates, self.encodings)) and self.transform.keys() == {"offset"}:
            return (
                "No attention score changes if queries and keys share this offset, cached keys "
                "included; scores change if only some have it."
            )
        return "A model trained from scratch adapts to this; trained weights do not."

    @property
    def use(self) -> str:
        """How attention receives the vectors of each encoding, or what is unknown."""
        acts = dict.fromkeys(enc.injection for enc in self.encodings)
        if self.positions and not self.unread:
            return "whether these are the right positions is not known"
        if self.unread and len(acts) == 1:
            return "keys about positions were not compared"
        return f"they are used differently: {' and '.join(acts)}"


def compare(a: Encoding | Array, b: Encoding | Array, tolerance: float | None = None) -> Comparison:
    """Compare two encodings, or tables with one row for each position.

    `transform` means: column j of b is `scale` · signs[j] · column columns[j] of a, `offset` rows
    later in a; or b holds a `part` of a, its cosines or sines. `pairs`, `heads` and `layers` list
    what differs; `cause` is a single mistake that explains every difference. With a `tolerance`,
    tables are the same if no numbers differ by more, before any transformation.

    Examples
    --------
    >>> from pefourier.encodings import load
    >>> c = compare(load("sinusoidal", 40, 8), load("sinusoidal:layout=halves,offset=2", 40, 8))
    >>> c.verdict, c.transform["layout"], c.transform["offset"]
    ('equivalent', 'interleaved to halves', 2)
    """
    return conclude(*relate(a, b, tolerance), tolerance)


def relate(
    one: Encoding | Array, two: Encoding | Array, tolerance: float | None
) -> tuple[Outcome, Two]:
    """Find the strongest relation of two encodings; return it, and the two as compared."""
    a, b = as_encoding(one), as_encoding(two)
    refuse_random(a, b)
    if any(e.injection == "bias" or e.origin != "formula" for e in (a, b)):
        from pefourier.construction.biases import compare_biases

        if outcome := compare_biases(a, b, tolerance):
            return outcome, (a, b)
    first, second = at_rows_of(a, b), at_rows_of(b, a)
    lengths = len(first), len(second)
    if lengths[0] != lengths[1] and first.domain.sides == second.domain.sides:
        first, second = without_prefix(first), without_prefix(second)
    if on_grids := are_on_grids(first, second):
        from pefourier.construction.grids import in_raster_order

        first, second = in_raster_order(first, second), in_raster_order(second, first)
    encodings = first, second
    has_table = any(enc.origin != "formula" for enc in encodings)
    numbers = uncompared("grids", lengths, (first.dim, second.dim))
    if on_grids and first.domain.sides != second.domain.sides:
        return compare_tables(numbers, encodings), encodings
    pairs = read_pairs(first, second)
    is_long = pairs and len(first) * first.dim > LARGE and tolerance is None
    numbers = compare_numbers(first, second, MOST_ROWS if is_long else None, tolerance)
    if pairs and any(map(rotates, encodings)):
        numbers = compare_waves(numbers, *pairs)
    numbers = replace(numbers, lengths=lengths)
    if tolerance is not None and numbers.verdict == "the same":
        return numbers, encodings
    outcome = compare_rotations(numbers, encodings, pairs) or numbers
    if (shown := outcome.first) and numbers.verdict == "the same" and numbers.tolerance:
        if abs(shown.expected - shown.observed) > numbers.tolerance:
            outcome = numbers  # the numbers are not those of the pairs that were declared
    is_open = outcome.verdict == "different" and not (outcome.causes or outcome.cause)
    is_open &= has_table and not outcome.positions
    reordered = compare_reordered(outcome, encodings) if is_open else None
    outcome = reordered or outcome
    is_apart = is_long and pairs and all(map(explains_rows, pairs)) and frequencies_apart(*pairs)
    are_rows = outcome.positions and (outcome.causes or any(map(rotates, encodings)))
    is_explained = (
        reordered or are_rows or is_apart or (is_long and (outcome.cause or outcome.positions))
    )
    if on_grids or (outcome.verdict == "different" and not is_explained):
        outcome = compare_tables(outcome, encodings)
    if has_table and are_one_resize(outcome, encodings):
        outcome = replace(outcome, verdict="the same", findings=(), positions=(), transform={})
    outcome = compare_lengths(compare_models(outcome, encodings), encodings)
    if tolerance is not None and outcome.verdict == "the same":
        outcome = replace(outcome, verdict="different", unit="columns")
    if has_table:
        rotations = (enc for enc in encodings if enc.params.get("scaling") in BY_LENGTH)
        notes = (f for enc in encodings for f in enc.findings if f.code.endswith("in-blocks"))
        outcome = outcome.with_findings(*map(length_note, rotations), *notes)
    return outcome, encodings


def compare_reordered(outcome: Outcome, encodings: Two) -> Outcome | None:
    """Add causes besides rows of a table in reverse order, or rows that repeat others.

    None if the rows in order have no cause that holds at any row. Rows that repeat others are left
    out.
    """
    for k in (1, 0):
        enc = encodings[k]
        is_table = enc.origin != "formula" and enc.domain.kind == "position" and not enc.operator
        if not is_table or not enc.domain.is_line or not is_matched(table := enc.table()):
            continue
        index = np.arange(len(table))
        leaders, ids = np.unique(first_duplicate(table), return_inverse=True)
        for rows, places in ((leaders, ids), (index[::-1], index[::-1])):
            if np.array_equal(places, index):
                continue
            vectors = table[rows].__getitem__
            in_order = replace(enc, domain=positions(len(rows)), vectors=vectors)
            both = (encodings[0], in_order) if k else (in_order, encodings[1])
            pairs = read_pairs(*both)
            found = pairs and compare_rotations(compare_numbers(*both), both, pairs)
            moved = explain_rows(index, places).causes
            is_whole = found and found.causes and found.expected == SIDES[1 - k]
            if found and is_whole and moved and all(map(acts_by_position, found.causes)):
                fields = ("compared", "pairs", "pair_counts", "unit", "differing", "counted")
                facts = {name: getattr(found, name) for name in (*fields, "expected", "findings")}
                return replace(outcome, **facts, causes=(*moved, *found.causes), explained=1.0)
    return None


def acts_by_position(cause: Any) -> bool:
    """Whether a cause changes a row by its position alone, not by its index in the table."""
    return isinstance(cause, Misreading | StepChanged | Shifted)


def are_on_grids(*encodings: Encoding) -> bool:
    """Whether all are tables on grids with the same number of axes."""
    tables = [e for e in encodings if e.domain.kind == "position" and not e.operator]
    axes = {len(enc.domain.sides) for enc in tables}
    return len(tables) == 2 and len(axes) == 1 and axes.pop() > 1


def are_one_resize(outcome: Outcome, encodings: Two) -> bool:
    """Whether two learned float32 tables differ no more than two interpolations of one table.

    A difference that a scale explains to within one unit of the largest number counts as a scale.
    """
    worst = outcome.max_difference
    are_stored = all(enc.origin != "formula" for enc in encodings)
    is_apart = outcome.verdict in ("different", "equivalent")
    if worst is None or not (
        is_apart and are_stored and outcome.transform.keys() <= {"rows", "scale"}
    ):
        return False
    size = largest_number(encodings[0].float_table())
    change = size * abs(outcome.transform.get("scale", 1.0) - 1)
    is_learned = outcome.tolerance == size * 4 * FLOAT32_EPS  # of tables without sinusoids
    is_scaled = bool(change) and worst <= size * FLOAT32_EPS
    return is_learned and not is_scaled and worst + change <= size * INTERPOLATED


def compare_tables(outcome: Outcome, encodings: Two) -> Outcome:
    """Find what leads from one table to the other, which takes modules of its own."""
    from pefourier.construction.alignment import align_tables, explain_numbers

    if are_on_grids(*encodings):
        from pefourier.construction.grids import compare_on_grids

        related = compare_on_grids(outcome, encodings)
    else:
        related = outcome if outcome.positions else align_tables(outcome, encodings)
    is_open = related.verdict == "different" and not (related.causes or related.cause)
    return explain_numbers(related, encodings) if is_open else related


def has_layers(enc: Encoding) -> bool:
    """Whether an encoding belongs to a model whose file describes its layers."""
    return enc.origin == "formula" and bool(enc.spec) and source_of(enc.spec) in MODELS


def unread_keys(enc: Encoding) -> Texts:
    """Keys about positions that the file sets and its reader ignores, or the findings about keys.

    The keys come from `params` if set there, otherwise from the findings.
    """
    keys = enc.params.get("unread") or ()
    return tuple(keys) or tuple(f.message for f in enc.findings if f.code in UNREAD)


def compare_models(outcome: Outcome, encodings: Two) -> Outcome:
    """Add the layers, windows and factors of two models, and the keys that are ignored."""
    models = [enc for enc in encodings if has_layers(enc)]
    keys = dict.fromkeys(key for enc in models for key in unread_keys(enc))
    outcome = replace(outcome, unread=tuple(keys))
    if len(models) < 2:
        return compare_temperatures(outcome, encodings)
    layers = tuple(compare_layers(*encodings))
    outcome = replace(outcome.comparing("layers", "windows", "factors"), layers=layers)
    if not layers or outcome.verdict not in AGREEING:
        return outcome
    index = {i for layer in layers for i in layer.index}
    cause = LikelyMistake("both", tuple(dict.fromkeys(layer.what for layer in layers)), {}, {})
    total = max(layers[0].count, len(layers), *(i + 1 for i in index))
    differing = len(index) or len(layers)
    return outcome.with_differences("layers", differing, total, cause=outcome.cause or cause)


def compare_temperatures(outcome: Outcome, encodings: Two) -> Outcome:
    """Compare the factors of queries, unless a file or user code does not state them."""
    if any(enc.origin != "formula" or source_of(enc.spec) == "gguf" for enc in encodings):
        return outcome
    length = min(outcome.lengths)
    a, b = (temperature_of(enc, length) for enc in encodings)
    if a == b or outcome.verdict not in AGREEING:
        return outcome
    outcome, first, second = outcome.comparing("factors"), str(a or 1), str(b or 1)
    one, two = (t.at(np.arange(length)) if t else np.ones(length) for t in (a, b))
    if np.allclose(one, two, rtol=1e-6, atol=0):
        return outcome.with_findings(
            finding("temperature-beyond", length=length, first=first, second=second)
        )
    cause = LikelyMistake("both", ("parameters",), {"temperature": (first, second)}, {})
    return outcome.with_differences("query factors", 1, 1, cause=cause)


def compare_lengths(outcome: Outcome, encodings: Two) -> Outcome:
    """Report rotations that agree over the compared positions but differ at other sequence lengths.

    Two such models are different. Two such SPECs are the same over these positions.
    """
    found_apart = lengths_apart(*encodings) if outcome.verdict in AGREEING else None
    if not found_apart:
        return outcome
    side, facts = found_apart
    outcome = outcome.with_findings(finding("length-dependent", side, **facts))
    if not all(map(has_layers, encodings)):
        return outcome
    units = f"pairs at {facts['at']} positions", facts["count"], facts["of"]
    return outcome.with_differences(*units, cause=settings_cause(*encodings))


def conclude(outcome: Outcome, encodings: Two, tolerance: float | None) -> Comparison:
    """Build the comparison with its final verdict and findings."""
    if outcome.verdict == "different" and not outcome.cause:
        outcome = replace(outcome, cause=parameters_cause(*encodings))
    verdict, notes = outcome.verdict, list(outcome.findings)
    acts = {e.injection for e in encodings if e.origin == "formula" or e.injection != "add"}
    if verdict in ("the same", "equivalent") and (len(acts) > 1 or outcome.unread):
        verdict = "used differently"
    if verdict == "permuted" and is_converted(*encodings, outcome.operator):
        verdict = "the same"
        notes.append(finding("rows-as-converted"))
    missing = abs(outcome.lengths[0] - outcome.lengths[1])
    longer = encodings[outcome.lengths[1] > outcome.lengths[0]]
    is_whole = all(enc.origin != "formula" for enc in encodings)
    has_rows_before = longer.injection == "add" and not longer.domain.is_line
    is_whole |= longer.origin == "formula" and has_rows_before
    if verdict == "the same" and missing and is_whole:
        outcome = outcome.with_differences("rows", missing, max(outcome.lengths))
        verdict = "different"
    if verdict == "the same" and outcome.bitwise and all(e.origin == "file" for e in encodings):
        notes.append(finding("numbers-unchanged"))
    is_other = outcome.positions and (verdict == "the same" or not outcome.first_difference)
    if is_other or (  # of rows that their positions explain, or another fact differs,
        not outcome.max_difference
        if verdict == "different"
        else verdict in ("the same", "equivalent") and outcome.first_difference
    ):  # or numbers before the transformation
        outcome = outcome.without_numbers()
    are_tables = not any(rotates(e) or e.injection == "bias" for e in encodings)
    are_rows = outcome.unit not in ("grids", "heads") and not outcome.unit.endswith("bias")
    facts: Fields = {"verdict": verdict, "same": verdict == "the same"}
    if are_rows and are_tables and not missing:
        facts["similarity"] = similarity_of(*encodings)
    if verdict == "the same":
        facts["differing"] = 0
    if outcome.first_difference:
        facts["tolerance"] = outcome.first_tolerance or outcome.tolerance
    facts |= {"encodings": encodings, "given_tolerance": tolerance}
    result = Comparison(**vars(outcome) | facts)
    return replace(result, findings=(*difference_findings(result), *notes))


def is_converted(first: Encoding, second: Encoding, operator: OperatorComparison | None) -> bool:
    """Whether rows differ from a config's as llama.cpp's converter reorders the rows of weights.

    A GGUF file of an architecture that rotates neighbouring rows holds weights in that order.
    """
    if not operator:
        return False
    sources = tuple(
        source_of(enc.spec) if enc.spec and enc.origin == "formula" else ""
        for enc in (first, second)
    )
    orders = {"neighbours-to-halves": sources, "halves-to-neighbours": sources[::-1]}
    return orders.get(operator.name or "") == ("gguf", "config")


def difference_findings(result: Comparison) -> list[Finding]:
    """List what differs, most important first, then the mistake that explains it."""
    notes = length_findings(result)
    messages = []
    if result.unread:
        messages.append(finding("comparison-unread", keys="; ".join(result.unread)))
    if result.verdict in (*AGREEING, "same geometry"):
        return messages + notes
    for layer in result.layers:
        kind, what = "rotations" if layer.words else "others", ASPECTS[layer.what]
        facts = vars(layer) | {"what": what, "places": layer.places}
        messages.append(finding("layers-differ", kind, **facts))
    messages += differing_units(result)
    if result.causes and not result.cause:
        words = ", and ".join(cause.words for cause in result.causes)
        messages.append(finding("explained", result.expected, words=words))
    if result.cause and not result.layers:
        moved = [cause.words for cause in result.causes if cause.code == "shifted"]
        messages.append(cause_finding(result.cause, moved))
    errors = (f for enc in result.encodings for f in enc.findings if f.severity == "error")
    return [*{error.message: error for error in errors}.values(), *messages, *notes]


def length_findings(result: Comparison) -> list[Finding]:
    """Report different lengths, unless a table is compared to its last row."""
    first, second = result.lengths
    is_table = [enc.origin != "formula" for enc in result.encodings]
    is_partial = is_table[second > first] or is_table[0] == is_table[1]
    is_partial |= any(enc.origin == "code" for enc in result.encodings)
    if first == second or result.unit == "rows" or not is_partial:
        return []
    return [finding("lengths-differ", first=first, second=second, common=result.length)]


def differing_units(result: Comparison) -> Iterator[Finding]:
    """Yield the pairs or heads that differ and their ratios; else the numbers, and what was tried.

    Pairs that only one encoding has are counted, not listed.
    """
    sizes, worst = sizes_findings(result), result.max_difference
    yield from sizes
    common = min(result.pair_counts or (len(result.pairs),))
    units: Sequence[PairDifference | HeadDifference] = result.heads
    units = [pair for pair in result.pairs if pair.index < common] or units
    ratios = {unit.index: unit.ratio for unit in units if unit.ratio is not None}
    limits = [f(ratios.values()) for f in (min, max)] if ratios else []
    extremes = " to ".join(dict.fromkeys(number(ratio, 6) for ratio in limits)) or "none"
    is_one = all(abs(ratio - 1) < 1e-6 for ratio in limits)
    places = first_few(joined_runs([u.index for u in units] if is_one else ratios, " to "), SHOWN)
    facts: Fields = {"ratios": extremes, "worst": worst, "places": places}
    axes = [pair.axis for pair in result.pairs if pair.axis and "/" in pair.axis]
    is_plain = result.unit in ("columns", "pairs") and not result.transform and not sizes
    if result.heads and worst:
        from pefourier.construction.biases import in_words

        heads = in_words([head.index for head in result.heads])
        kind = "slopes" if ratios and not result.causes else "plain"
        yield finding("heads-differ", kind, **facts, heads=heads)
    elif axes or not is_one:
        kind = "axes" if is_one else "frequencies"
        yield finding("pairs-differ", kind, axes=(*axes, "")[0], **facts)
    elif result.first_place and is_plain:
        kind = "grid" if "axes" in (tried := result.tried or {}) else "tried" if tried else "plain"
        yield finding("numbers-differ", kind, place=result.first_place, worst=worst, **tried)
    elif result.pairs and units and worst is not None:
        yield finding("pairs-differ", "unknown", **facts)


def sizes_findings(result: Comparison) -> list[Finding]:
    """Report different numbers of pairs, columns or rows."""
    counts = result.pair_counts or result.dimensions
    unit = "pairs" if result.pair_counts else "heads" if result.unit == "heads" else "columns"
    common, is_equal = min(counts), False
    if result.unit == "rows" and not result.positions:
        counts, unit, is_equal = result.lengths, "rows", True
    elif unit == "pairs":
        is_equal = all(pair.index >= common for pair in result.pairs)
    if counts[0] == counts[1]:
        return []
    kind, (first, second) = "equal" if is_equal else "plain", counts
    sizes = {"first": first, "second": second, "unit": unit, "common": common}
    return [finding("sizes-differ", kind, **sizes)]


def cause_finding(cause: LikelyMistake, more: Sequence[str]) -> Finding:
    """Report the mistakes that explain a difference, or the settings that differ."""
    errors, order = known_mistakes(), -1 if cause.of == "b" else 1
    changes = describe_changes({key: pair[::order] for key, pair in cause.changes.items()})
    causes = [errors[code] for code in cause.misreadings if code in errors]
    what = " and ".join(mistake["message"] for mistake in causes)
    is_plain = all({"key", "set", "plain"} & mistake.keys() for mistake in causes)
    if cause.of == "both" and changes and is_plain:
        what, changes = changes, ""
    if cause.kept:
        changes = f"{changes}; attention factor {number(cause.kept, 8)} in both"
    for other in cause.others:
        values = describe_changes({key: pair[::order] for key, pair in other.changes.items()})
        same = f"the same as {errors[other.code]['message']}" + (f": {values}" if values else "")
        changes = f"{changes}; {same}" if changes else same
    changes = f" ({changes})" if changes else ""
    return finding("misread", cause.of, what=what, changes=" and ".join((changes, *more)))


def load_matching_pair(
    a: Source | SpecWithDefaults,
    b: Source | SpecWithDefaults,
    length: Count | None = None,
    d: Count | None = None,
    params: Values | None = None,
) -> tuple[Encoding, Encoding]:
    """Load two encodings for comparison; the sides of a second grid are recovered."""
    kinds, params = (source_of(a), source_of(b)), params or {}
    if kinds[0] == "code" and kinds[1] != "code":  # it gets the size of the other
        second, first = load_matching_pair(b, a, length, d, params)
        return first, second
    are_models, placing = MODELS.issuperset(kinds), {k: params[k] for k in PLACES & params.keys()}
    size = {key: value for key, value in {"length": length, "d": d}.items() if value}
    load_as = partial(load_first if are_models else load, length=length, d=d)
    load_a, load_b = (
        partial(load_as, source, **(params if kind == "name" or "name" not in kinds else placing))
        for source, kind in zip((a, b), kinds, strict=True)
    )
    first = load_a()
    try:
        second = load_b()
    except PefourierError as error:  # source code of another size, or a table of another grid
        if kinds[1] == "code" and not d:
            second = load_b(d=head_size(first))
        elif isinstance(error, OtherGrid) and len(first.domain.sides) == 2:
            plain, sides = getattr(b, "spec", b), first.domain.sides
            rows, grid = load(plain).float_table(), first.float_table()
            if (before := rows_before(len(rows), first.domain)) is None:
                before = first.domain.prefix
                sides = recovered_sides(rows[before:], (grid[before:], sides))
            if min(sides) < 2:
                raise
            second = load(plain, grid=sides, prefix=before)
        else:
            raise
    by_length = any(enc.params.get("scaling") in BY_LENGTH for enc in (first, second))
    if are_models and by_length:  # both use the frequencies of one length
        shortest = min(len(first), len(second))
        first, second = load_a(length=shortest), load_b(length=shortest)
    if kinds[0] == "name" and kinds[1] != "name":
        first = load_a(**size_and_place(second, first.domain) | size)
    if kinds[1] == "name" and kinds[0] != "name":
        second = load_b(**size_and_place(first, second.domain) | size)
    if kinds[1] == "code" and kinds[0] != "code":
        is_fixed = kinds[0] == "name" or length is not None or bool(placing)
        second = resized_to_partner(first, second, load_b, d, is_fixed=is_fixed)
    return on_common_grid(first, second)


def load_first(source: Any, **size: Any) -> Encoding:
    """Load the first rotation of a model under the SPEC of the whole model."""
    spec = os.fspath(getattr(source, "spec", source))
    first = specs_of_rotations(spec)[0]
    return load(source, **size) if first == spec else replace(load(first, **size), spec=spec)


def resized_to_partner(
    reference: Encoding,
    code: Encoding,
    load_source: Callable[..., Encoding],
    d: Count | None,
    *,
    is_fixed: bool,
) -> Encoding:
    """Reload user's source code in the size of its counterpart, if allowed and possible."""
    is_operator = code.operator
    width, own = (head_size(x) if is_operator else x.dim for x in (reference, code))
    if d is None and own != width:
        with suppress(PefourierError):  # source code of one size only is compared as is
            code = load_source(d=width, **({"length": len(reference)} if is_fixed else {}))
    length = min(len(reference), max(LARGEST_SOURCE // code.dim, len(code)))
    dimension = d or code.params.get("d", code.dim)
    while not is_fixed and reference.domain.is_line and len(code) < length:
        try:
            code = load_source(length=length, d=dimension)
        except PefourierError:  # source code with fewer rows: try half
            length //= 2
    return code


def size_and_place(reference: Encoding, domain: Domain) -> Fields:
    """Length and dimension of an encoding, and its grid if the other has none."""
    if domain.kind == "lag":
        return size_of_lags(reference)
    is_operator = reference.operator
    d = head_size(reference) if is_operator else reference.dim
    if reference.domain.grid and not is_operator:
        d = width_of_waves(reference)
        if domain.grid and domain.grid != reference.domain.grid:
            return {"d": d}
    size: Fields = {"length": len(reference), "d": d}
    if domain.grid and domain.grid == reference.domain.grid:
        return size | {"prefix": reference.domain.prefix}
    if domain.grid and rows_before(len(reference), domain) is not None:
        return {"d": d}
    if domain.kind != "position" or domain.grid:
        return size
    return size | {"grid": reference.domain.grid, "prefix": reference.domain.prefix}


def width_of_waves(enc: Encoding) -> int:
    """Number of columns of a table, halved if its cosines and sines are repeated."""
    table = enc.table()
    pairs = [split_pairs(table, layout) for layout in LAYOUTS] if enc.dim % 4 == 0 else []
    return enc.dim // (2 if any(copies_of(a) and copies_of(b) for a, b in pairs) else 1)


def size_of_lags(reference: Encoding) -> Fields:
    """Positions and heads of a table of biases: (heads, n, n), (n, n) or one row per lag."""
    if reference.between:
        return {"length": reference.tokens, "d": reference.dim}
    rows, columns = len(reference), reference.dim
    if reference.domain.kind == "lag" or rows > columns:
        return {"length": (rows + 1) // 2 if rows % 2 else rows, "d": columns}
    return {"length": columns, "d": 1 if rows == columns else rows}

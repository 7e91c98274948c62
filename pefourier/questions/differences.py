"""What differs between two encodings, and by which mistake: findings, the worst first."""

from __future__ import annotations

from collections.abc import Sequence

from pefourier.diagnosis.config_errors import SLIPS, Cause
from pefourier.diagnosis.pairs import PairDifference
from pefourier.diagnosis.settings import describe_changes
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.findings import finding
from pefourier.questions.model_layers import LayerDifference
from pefourier.questions.outcome import HeadDifference, Outcome
from pefourier.writing.files import read_toml
from pefourier.writing.text import first_few, joined_runs, number

ASPECTS = {"layers": "kind", "rotations": "rotation", "windows": "window", "factors": "factor"}
LISTED = 8  # runs of pairs or heads that are listed by number
SETTLED = ("the same", "equivalent", "same geometry", "permuted")


def difference_findings(
    found: Outcome,
    encodings: tuple[Encoding, Encoding],
    layers: Sequence[LayerDifference],
    unread: Sequence[str],
) -> list[Finding]:
    """What differs, worst first, then the slip that explains it and what it costs."""
    notes = length_findings(found, encodings)
    messages = [finding("comparison-unread", keys="; ".join(unread))] if unread else []
    if found.verdict in SETTLED:
        return messages + notes
    for layer in layers:
        kind = "rotations" if layer.words else "others"
        facts = {name: getattr(layer, name) for name in ("places", "words", "first", "second")}
        messages.append(finding("layers-differ", kind, what=ASPECTS[layer.what], **facts))
    messages += differing_units(found)
    if found.cause and not layers:
        messages.append(cause_finding(found.cause))
    faults = {f.message: f for enc in encodings for f in enc.findings if f.severity == "error"}
    return [*faults.values(), *messages, *notes]


def length_findings(found: Outcome, encodings: tuple[Encoding, Encoding]) -> list[Finding]:
    """That lengths differ, but for a table that is compared to its last row."""
    first, second = found.lengths
    is_table = [enc.origin != "formula" for enc in encodings]
    is_partial = is_table[second > first] or is_table[0] == is_table[1]
    is_code = any(enc.origin == "code" for enc in encodings)
    if first == second or found.unit == "rows" or not (is_partial or is_code):
        return []
    return [finding("lengths-differ", first=first, second=second, common=found.length)]


def differing_units(found: Outcome) -> list[Finding]:
    """Which pairs or heads differ, by number, and by what ratio; else numbers, and what was tried.

    Pairs that only one of the two has are named by their count.
    """
    notes = sizes_findings(found)
    common = min(found.pair_counts or (len(found.pairs),))
    units = [pair for pair in found.pairs if pair.index < common] or found.heads
    rated = [unit for unit in units if unit.ratio is not None]
    ratios = [unit.ratio for unit in rated]
    limits = (min(ratios), max(ratios)) if ratios else ()
    extremes = " to ".join(dict.fromkeys(number(ratio, 6) for ratio in limits)) or "none"
    axes = [pair.axis for pair in found.pairs if pair.axis and "/" in pair.axis]
    places = places_of(units)
    if axes and all(abs(ratio - 1) < 1e-6 for ratio in ratios):
        return [*notes, finding("pairs-differ", "axes", places=places, axes=axes[0])]
    if found.heads and found.max_difference:
        facts = {"index": places, "ratios": extremes, "worst": found.max_difference}
        return [*notes, finding("heads-differ", "slopes" if ratios else "plain", **facts)]
    if any(abs(ratio - 1) >= 1e-6 for ratio in ratios):
        places = places_of(rated)
        return [*notes, finding("pairs-differ", "frequencies", places=places, ratios=extremes)]
    is_plain = found.unit in ("columns", "pairs") and not found.transform and not notes
    if found.first_place and is_plain:
        facts = {
            "place": found.first_place,
            "worst": found.max_difference,
            **(found.tried or {}),
        }
        return [finding("numbers-differ", "tried" if found.tried else "plain", **facts)]
    if found.pairs and units and found.max_difference is not None:
        facts = {"places": places, "worst": found.max_difference}
        return [*notes, finding("pairs-differ", "unknown", **facts)]
    return notes


def places_of(units: Sequence[PairDifference | HeadDifference]) -> str:
    """Pairs or heads by number, the first few runs."""
    return first_few(joined_runs((unit.index for unit in units), " to "), LISTED)


def sizes_findings(found: Outcome) -> list[Finding]:
    """How many pairs, columns or rows each of two has, where these are not as many."""
    counts = found.pair_counts or found.dimensions
    unit = "pairs" if found.pair_counts else "heads" if found.unit == "heads" else "columns"
    notes = []
    if counts[0] != counts[1]:
        common = min(counts)
        is_equal = unit == "pairs" and all(pair.index >= common for pair in found.pairs)
        sizes = {"first": counts[0], "second": counts[1], "unit": unit, "common": common}
        notes.append(finding("sizes-differ", "equal" if is_equal else "plain", **sizes))
    if found.unit == "rows" and not found.positions:
        lengths = {"first": found.lengths[0], "second": found.lengths[1], "unit": "rows"}
        notes.append(finding("sizes-differ", "equal", **lengths))
    return notes


def cause_finding(cause: Cause) -> Finding:
    """The slip that explains a difference, or the settings that differ."""
    slips = read_toml(SLIPS)
    order = -1 if cause.of == "b" else 1
    changes = describe_changes({key: pair[::order] for key, pair in cause.changes.items()})
    causes = [slips[code] for code in cause.misreadings if code in slips]
    if (
        cause.of == "both"
        and changes
        and all({"key", "set", "plain"} & slip.keys() for slip in causes)
    ):
        return finding("misread", "both", what=changes, changes="")
    messages = " and ".join(slip["message"] for slip in causes)
    return finding("misread", cause.of, what=messages, changes=f" ({changes})" if changes else "")

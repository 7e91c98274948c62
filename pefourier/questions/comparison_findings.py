"""What is said of a comparison: what differs, the slip that explains it, what was not compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pefourier.diagnosis.misreadings import SLIPS, Cause, describe_changes
from pefourier.encodings.encoding import Finding
from pefourier.encodings.findings import finding
from pefourier.files import read_toml

LISTED = 8  # runs of pairs or heads that are listed by number


def difference_findings(result: Any) -> list[Finding]:
    """What differs, worst first, then the slip that explains it and what it costs."""
    lengths = dict(zip(("first", "second"), result.lengths, strict=True))
    notes = [finding("lengths-differ", **lengths, common=result.length)]
    notes = notes if len({*result.lengths}) > 1 else []
    messages = []
    if result.unread:
        messages.append(finding("comparison-unread", keys="; ".join(result.unread)))
    if result.verdict in ("the same", "equivalent", "same geometry", "permuted"):
        return messages + notes
    for layer in result.layers:
        facts = {name: getattr(layer, name) for name in ("places", "what", "first", "second")}
        messages.append(finding("layers-differ", **facts))
    messages += differing_units(result)
    if "rows" in result.transform:
        messages.append(finding("rows-reordered", rows=result.transform["rows"]))
    if result.cause and not result.layers:
        messages.append(cause_finding(result.cause))
    faults = {f.message: f for enc in result.about for f in enc.findings if f.severity == "error"}
    return [*faults.values(), *messages, *notes]


def differing_units(result: Any) -> list[Finding]:
    """Which pairs or heads differ, by number, and by what ratio; else sizes, or a number."""
    places = number_ranges([unit.index for unit in result.pairs or result.heads])
    ratios = [unit.ratio for unit in result.pairs or result.heads if unit.ratio is not None]
    axes = [pair.axis for pair in result.pairs if pair.axis and "/" in pair.axis]
    turns = all(abs(ratio - 1) < 1e-6 for ratio in ratios)
    if axes and turns:
        return [finding("pairs-differ", "axes", places=places, axes=axes[0])]
    if any(pair.ratio is not None and abs(pair.ratio - 1) >= 1e-6 for pair in result.pairs):
        return [finding("pairs-differ", "frequencies", places=places, ratios=extremes(ratios))]
    if result.heads:
        facts = {"index": places, "ratios": extremes(ratios), "worst": result.max_difference}
        return [finding("heads-differ", **facts)]
    first, second = result.dimensions
    if first != second and result.unit in ("columns", "heads"):
        return [finding("sizes-differ", first=first, second=second, unit=result.unit)]
    if result.first_place and result.unit in ("columns", "pairs") and not result.transform:
        place, worst = result.first_place, result.max_difference
        return [finding("numbers-differ", place=place, worst=worst)]
    return []


def number_ranges(index: Sequence[int]) -> str:
    """Rising numbers, those in a row as first and last; of many runs the first few.

    >>> number_ranges([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7 to 8'
    """
    numbers = np.asarray(index)
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    ranges = [" to ".join(dict.fromkeys(map(str, (*run[:1], *run[-1:])))) for run in runs]
    return ", ".join(ranges[:LISTED]) + ", …" * (len(ranges) > LISTED)


def extremes(ratios: list[float]) -> str:
    """The ratio of the second to the first, or the least and the largest.

    >>> extremes([0.5, 0.5]), extremes([0.125, 0.9]), extremes([])
    ('0.5', '0.125 to 0.9', 'none')
    """
    limits = (min(ratios), max(ratios)) if ratios else ()
    return " to ".join(dict.fromkeys(f"{ratio:.6g}" for ratio in limits)) or "none"


def cause_finding(cause: Cause) -> Finding:
    """The slip that explains a difference."""
    slips = read_toml(SLIPS)
    messages = " and ".join(slips[code]["message"] for code in cause.misreadings if code in slips)
    order = -1 if cause.of == "b" else 1
    changes = describe_changes({key: pair[::order] for key, pair in cause.changes.items()})
    return finding("misread", cause.of, what=messages, changes=f" ({changes})" if changes else "")

"""What is said of a comparison: what differs, the slip that explains it, what was not compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pefourier.diagnosis.misreadings import SLIPS, describe_changes
from pefourier.diagnosis.pairs import PairDifference
from pefourier.encodings.encoding import Finding
from pefourier.encodings.findings import finding
from pefourier.files import read_toml
from pefourier.questions.layer_schedules import LayerDifference

LISTED = 8  # runs of pairs or heads that are listed by number


def difference_findings(result: Any) -> list[Finding]:
    """What differs, worst first, then the slip that explains it and what it costs."""
    messages = []
    if result.unread:
        messages.append(finding("comparison-unread", keys="; ".join(result.unread)))
    if result.verdict in ("the same", "equivalent", "same geometry", "permuted"):
        return messages + lengths_of(result)
    messages += list(map(layer_finding, result.layers))
    if any(turns_otherwise(pair) for pair in result.pairs):
        messages.append(pairs_finding(result))
    elif result.heads:
        ratios = ratios_told([head.ratio for head in result.heads if head.ratio is not None])
        index = number_ranges([head.index for head in result.heads])
        worst = result.max_difference
        messages.append(finding("heads-differ", index=index, ratios=ratios, worst=worst))
    elif result.dimensions[0] != result.dimensions[1] and result.unit in (
        "columns",
        "heads",
    ):
        first, second = result.dimensions
        messages.append(finding("sizes-differ", first=first, second=second, unit=result.unit))
    elif result.first_place and result.unit in ("columns", "pairs") and not result.transform:
        messages.append(
            finding("numbers-differ", place=result.first_place, worst=result.max_difference)
        )
    if "rows" in result.transform:
        messages.append(finding("rows-reordered", rows=result.transform["rows"]))
    if result.cause and not result.layers:
        messages.append(cause_finding(result))
    faults = {f.message: f for enc in result.about for f in enc.findings if f.severity == "error"}
    return [*faults.values(), *messages, *lengths_of(result)]


def lengths_of(result: Any) -> list[Finding]:
    """That one of two is longer than what was compared."""
    first_length, second_length = result.lengths
    facts = {"first": first_length, "second": second_length, "common": result.length}
    return [] if first_length == second_length else [finding("lengths-differ", **facts)]


def layer_finding(layers: LayerDifference) -> Finding:
    """Layers that differ in one way."""
    facts = {name: getattr(layers, name) for name in ("places", "what", "first", "second")}
    return finding("layers-differ", **facts)


def pairs_finding(result: Any) -> Finding:
    """Which pairs differ, by number, and by what ratio."""
    index = [pair.index for pair in result.pairs]
    ratios = [pair.ratio for pair in result.pairs if pair.ratio is not None]
    span = f"pair {index[0]}" if len(index) == 1 else f"pairs {number_ranges(index)}"
    axes = [pair.axis for pair in result.pairs if pair.axis and "/" in pair.axis]
    if axes and all(abs(ratio - 1) < 1e-6 for ratio in ratios):
        return finding("pairs-differ", "axes", places=span, axes=axes[0])
    return finding("pairs-differ", "frequencies", places=span, ratios=ratios_told(ratios))


def number_ranges(index: Sequence[int]) -> str:
    """Rising numbers, those in a row as first and last; of many runs the first few.

    >>> number_ranges([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7 to 8'
    """
    numbers = np.asarray(index)
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    ranges = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return ", ".join(ranges[:LISTED]) + ", …" * (len(ranges) > LISTED)


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


def cause_finding(result: Any) -> Finding:
    """The slip that explains a difference."""
    cause = result.cause
    slips = read_toml(SLIPS)
    messages = " and ".join(slips[code]["message"] for code in cause.misreadings if code in slips)
    changes = describe_changes(cause.changes)
    if cause.of == "b":
        changes = describe_changes({key: pair[::-1] for key, pair in cause.changes.items()})
    changes = f" ({changes})" if changes else ""
    return finding("misread", cause.of, what=messages, changes=changes)

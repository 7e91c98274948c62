"""Figures of training: scores and longer windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.report.plot import Look, brief, make_panels
from pefourier.types import Strings, Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTIONS = {  # by the name of the file
    "comparison": "F1 of every run (dots), and means (diamonds), with intervals.",
    "lengths": "Accuracy on test windows of other lengths, with 95% intervals over runs.",
}


def pictures(summary: Any) -> dict[str, Callable[[Any, Look], Figure]]:
    """Return the functions that draw the available figures, by file name."""
    longer = any(data.lengths for data in summary.datasets)
    return {"comparison": comparison} | ({"lengths": score_by_length} if longer else {})


def score_by_length(summary: Any, look: Look) -> Figure:
    """Draw accuracy over the length of test windows, with a 95% interval per encoding."""
    shown = [dataset for dataset in summary.datasets if dataset.lengths]
    figure, panels = make_panels(look, 0.6 + 2.6 * len(shown), len(shown))
    for panel, dataset in zip(panels, shown, strict=True):
        for name, entries in dataset.lengths.items():
            points = {dataset.length: dataset.scores[name]["accuracy"]}
            points |= {e.length: e.accuracy for e in entries if e.accuracy is not None}
            ordered = sorted(points.items())
            x, y, low, high = np.array([(n, m.mean, m.low, m.high) for n, m in ordered]).T
            (line,) = panel.plot(x, y, marker="o", label=brief(name, 28))
            panel.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        panel.axvline(dataset.length, color="0.7", linewidth=0.8, linestyle="-")
        panel.set_xscale("log", base=2)
        panel.set(xlabel="rows of a test window; line: trained length", ylabel="accuracy")
        panel.set_title(brief(dataset.dataset, 40))
    return figure


def comparison(summary: Any, look: Look) -> Figure:
    """Draw F1 of every run with means, next to paired differences; one row per dataset."""
    panels = len(summary.datasets)
    count = max(len(dataset.scores) for dataset in summary.datasets)
    columns = 2 if any(dataset.differences for dataset in summary.datasets) else 1
    height = 0.8 + panels * (0.5 + 0.28 * count)
    figure, axes = make_panels(look, height, panels, columns)
    for row, dataset in zip(axes, summary.datasets, strict=True):
        draw_scores(row[0], dataset, summary.runs)
        if columns == 2:
            draw_differences(row[1], dataset)
        leaky = ", leaky split" if dataset.leaky else ""
        title = f"{brief(dataset.dataset, 40)}, {dataset.inputs}{leaky}"
        row[-1].set_title(title, loc="right")  # leaves room for a long title
    return figure


def draw_scores(panel: Any, dataset: Any, runs: Sequence[Values]) -> None:
    """Draw F1 of every run of a dataset as a point, and means with intervals."""
    for row, (encoding, scores) in enumerate(dataset.scores.items()):
        key = (dataset.dataset, encoding)
        f1 = [run["f1"] for run in runs if (run["dataset"], run["encoding"]) == key]
        spread = np.linspace(-0.1, 0.35, len(f1)) if len(f1) > 1 else np.zeros(1)
        panel.plot(f1, row + spread, "o", color="0.6", markersize=2.5)
        mean, above = scores["f1"], row - 0.3  # where no point is hidden
        draw_interval(panel, mean, above, "C0", "C0")
    name_rows(panel, [brief(name, 28) for name in dataset.scores])
    panel.margins(x=0.08)
    panel.set_xlabel("F1 of each (seed, fold); diamond: mean with 95% interval")


def draw_differences(panel: Any, dataset: Any) -> None:
    """Draw differences from the reference with intervals; hollow and grey if undecided."""
    panel.axvline(0, color="0.7", linewidth=0.8, linestyle="-")
    differences = dataset.differences.values()
    references = {d.reference for d in differences}
    less = references.pop() if len(references) == 1 else "its reference"
    over = next((d.over for d in differences), "runs")
    for row, encoding in enumerate(dataset.scores):
        if encoding in dataset.differences:
            is_judged = dataset.verdicts[encoding] in ("better", "worse", "not shown")
            colours = ("C0", "C0") if is_judged else ("0.6", "none")
            draw_interval(panel, dataset.differences[encoding], row, *colours)
    panel.yaxis.tick_right()
    name_rows(panel, [dataset.verdicts.get(encoding, "") for encoding in dataset.scores])
    panel.set_xlabel(f"F1 minus {brief(less, 20)}, 95% interval over {over}; hollow: undecided")


def draw_interval(panel: Any, mean: Any, height: float, colour: str, face: str) -> None:
    """Draw a diamond at the mean, on a line along the interval."""
    panel.plot([mean.low, mean.high], [height, height], color=colour, linestyle="-")
    panel.plot(mean.mean, height, "D", color=colour, markerfacecolor=face, markersize=4)


def name_rows(panel: Any, names: Strings) -> None:
    """Label rows from top to bottom."""
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.4, -0.6)

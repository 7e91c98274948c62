"""Figures of training: scores, ranks, longer windows, and how runs learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pefourier.report import plot

CURVES = ("training loss", "score on validation", "loss on validation")
MARKERS = "o^sDv"  # one for every so many curves of all colours


def score_by_length(summary: Any, look: plot.Look = plot.USUAL) -> plot.Figure:
    """Accuracy against the length of what is tested, a line with its 95 % interval an encoding."""
    shown = [dataset for dataset in summary.datasets if dataset.lengths]
    figure, axes = plot.make_panels(len(shown), 1, (plot.WIDTH, 0.6 + 2.6 * len(shown)), look)
    for panel, dataset in zip(axes[:, 0], shown, strict=True):
        for number, (name, entries) in enumerate(dataset.lengths.items()):
            accuracies = {e.length: e.accuracy for e in entries if e.accuracy is not None}
            accuracies = {dataset.length: dataset.scores[name]["accuracy"], **accuracies}
            points = sorted(accuracies.items())
            x, means = zip(*points, strict=True)
            marker = MARKERS[number // plot.MANY % len(MARKERS)]
            (line,) = panel.plot(x, [m.mean for m in means], marker=marker, markersize=4)
            line.set_label(plot.brief(name, 28))
            low, high = [m.low for m in means], [m.high for m in means]
            panel.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        panel.axvline(dataset.length, color="0.7", linewidth=0.8, linestyle="-")
        measured = (e.length for entries in dataset.lengths.values() for e in entries)
        lengths = sorted({dataset.length, *measured})
        panel.set_xscale("log", base=2)
        panel.set_xticks(lengths, [str(n) for n in lengths])
        panel.minorticks_off()
        panel.set(xlabel="rows of a test window; line: those of training", ylabel="accuracy")
        panel.set_title(plot.brief(dataset.dataset, 40), loc="right", fontsize=9)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def learning_curves(
    runs: Sequence[tuple[Mapping[str, Any], np.ndarray]], look: plot.Look = plot.USUAL
) -> plot.Figure:
    """Means over runs of training loss, and of score and loss on validation, look by look.

    A run that is done keeps its last values. `runs` are rows, each with its curve (looks, 3).
    """
    datasets = list(dict.fromkeys(row["dataset"] for row, _ in runs))
    size = (plot.WIDTH, 0.8 + 2.0 * len(datasets))
    figure, axes = plot.make_panels(len(datasets), len(CURVES), size, look)
    for panels, dataset in zip(axes, datasets, strict=True):
        curves = [(row["encoding"], curve) for row, curve in runs if row["dataset"] == dataset]
        longest = max(len(curve) for _, curve in curves)
        for number, encoding in enumerate(dict.fromkeys(name for name, _ in curves)):
            mean = np.mean(
                [to_length(c, longest) for name, c in curves if name == encoding], axis=0
            )
            for panel, values in zip(panels, mean.T, strict=True):
                (line,) = panel.plot(np.arange(longest) + 1, values, linewidth=1)
                line.set(label=plot.brief(encoding, 28), alpha=1.0 if number < plot.MANY else 0.6)
        for panel, caption in zip(panels, CURVES, strict=True):
            panel.set(xlabel="look at validation", ylabel=caption)
        panels[0].set_title(plot.brief(dataset, 40), loc="left", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def to_length(curve: np.ndarray, epochs: int) -> np.ndarray:
    """A curve whose last values go on.

    >>> to_length(np.array([[1.0], [0.5]]), 3).ravel()
    array([1. , 0.5, 0.5])
    """
    return curve[np.minimum(np.arange(epochs), len(curve) - 1)]


def comparison(summary, look: plot.Look = plot.USUAL) -> plot.Figure:
    """Every run's F1 with means, and beside it paired differences; a row of panels a dataset."""
    panels = len(summary.datasets)
    count = max(len(dataset.scores) for dataset in summary.datasets)
    columns = 2 if any(dataset.differences for dataset in summary.datasets) else 1
    size = (plot.WIDTH, 0.8 + panels * (0.5 + 0.28 * count))
    figure, axes = plot.make_panels(panels, columns, size, look)
    for row, dataset in zip(axes, summary.datasets, strict=True):
        draw_scores(row[0], dataset, summary.runs)
        if columns == 2:
            draw_differences(row[1], dataset)
        leaky = ", leaky split" if dataset.leaky else ""
        title = f"{plot.brief(dataset.dataset, 40)}, {dataset.inputs}{leaky}"
        row[-1].set_title(title, loc="right", fontsize=9)  # a long one has room at its left
    return figure


def draw_scores(panel: Any, dataset: Any, runs: Sequence[Mapping[str, Any]]) -> None:
    """F1 of every run of a dataset as a point, means with their intervals."""
    for row, (encoding, scores) in enumerate(dataset.scores.items()):
        key = (dataset.dataset, encoding)
        f1 = [run["f1"] for run in runs if (run["dataset"], run["encoding"]) == key]
        spread = np.linspace(-0.1, 0.35, len(f1)) if len(f1) > 1 else np.zeros(1)
        panel.plot(f1, row + spread, "o", color="0.6", markersize=2.5, linestyle="none")
        mean, above = scores["f1"], row - 0.3  # where it hides no point
        panel.plot([mean.low, mean.high], [above, above], color="C0", linestyle="-")
        panel.plot(mean.mean, above, "D", color="C0", markersize=4)
    panel.set_yticks(range(len(dataset.scores)), [plot.brief(name, 28) for name in dataset.scores])
    panel.set_ylim(len(dataset.scores) - 0.4, -0.6)
    panel.margins(x=0.08)
    ends = " or ".join(dict.fromkeys(map(dataset.interval, dataset.scores))).replace(
        "%", "% interval"
    )
    panel.set_xlabel(f"F1 of each (seed, fold); diamond: mean with {ends}")


def draw_differences(panel: Any, dataset: Any) -> None:
    """Differences from the reference with their intervals; hollow and grey without a verdict."""
    panel.axvline(0, color="0.7", linewidth=0.8, linestyle="-")
    for row, encoding in enumerate(dataset.scores):
        difference = dataset.differences.get(encoding)
        if difference is None:
            continue
        verdict = dataset.verdicts[encoding]
        is_judged = verdict in ("better", "worse", "not shown")
        color, face = ("C0", "C0") if is_judged else ("0.6", "none")
        ends = [difference.low, difference.high]
        panel.plot(ends, [row, row], color=color, linestyle="-")
        panel.plot(difference.mean, row, "D", color=color, markerfacecolor=face, markersize=4)
    names = [dataset.verdicts.get(encoding, "") for encoding in dataset.scores]
    panel.yaxis.tick_right()
    panel.set_yticks(range(len(dataset.scores)), names)
    panel.set_ylim(len(dataset.scores) - 0.4, -0.6)
    over = next((difference.over for difference in dataset.differences.values()), "runs")
    panel.set_xlabel(f"difference in F1 with 95 % interval over {over}")


def critical_difference(summary, look: plot.Look = plot.USUAL) -> plot.Figure:
    """Average ranks over datasets, the best at the left; bars join those not told apart."""
    names = sorted(summary.ranks, key=lambda name: summary.ranks[name])
    ranks = [summary.ranks[name] for name in names]
    half, bars = (len(names) + 1) // 2, len(summary.cliques)
    figure, ((axes,),) = plot.make_panels(1, 1, (plot.WIDTH, 0.7 + 0.12 * bars + 0.22 * half), look)
    span = max(len(names) - 1, 1)
    axes.set(xlim=(1 - 0.45 * span, len(names) + 0.45 * span), ylim=(-0.5 * bars - half - 0.5, 0))
    for i, name in enumerate(names):
        is_left = i < half
        level = -0.5 * bars - 1 - (i if is_left else len(names) - 1 - i)
        edge = 1 - 0.05 * span if is_left else len(names) + 0.05 * span
        axes.plot(
            [ranks[i], ranks[i], edge], [0, level, level], color="0.4", linewidth=0.8, linestyle="-"
        )
        short = plot.brief(name, 20)
        label = f"{short}  {ranks[i]:.2f}" if is_left else f"{ranks[i]:.2f}  {short}"
        style = "italic" if name in summary.others else "normal"
        side = "right" if is_left else "left"
        axes.text(edge, level, f" {label} ", ha=side, va="center", style=style)
    for i, group in enumerate(summary.cliques):
        ends = [summary.ranks[group[0]] - 0.02 * span, summary.ranks[group[-1]] + 0.02 * span]
        axes.plot(ends, [-0.4 - 0.5 * i] * 2, "-", color="C0", linewidth=3)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set(visible=True, bounds=(1, len(names)))
    axes.xaxis.tick_top()
    crowd = int(len(names) * plot.WIDTH / figure.get_figwidth())
    axes.set_xticks(range(1, len(names) + 1, 1 + crowd // 12))
    axes.set_yticks([])
    reach = f"\n{summary.out_of_reach}" if summary.out_of_reach else ""
    note = "\nitalic: other models" if summary.others else ""
    axes.set_title(f"average rank by F1 {summary.over}{reach}{note}", fontsize=9)
    return figure

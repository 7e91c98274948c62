"""Figures of training itself: scores on longer windows, and how runs learned."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers.plot import MANY, USUAL, WIDTH, Look, brief, make_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pefourier.train.causal import CausalSummary
    from pefourier.train.summary import Summary

CURVES = (
    ("training loss", "linear"),
    ("score on validation", "linear"),
    ("loss on validation", "linear"),
)
MARKERS = "o^sDv"  # one for every so many curves of all colours


ROWS = ("rows of a test window; line: those of training", "accuracy")
EXACT = ("length of the problem; line: the longest of training", "exact match")


def score_by_length(
    summary: "Summary | CausalSummary", look: Look = USUAL, labels: tuple[str, str] = ROWS
) -> "Figure":
    """Accuracy against the length of what is tested, a line with its 95 % interval an encoding."""
    shown = [one for one in summary.datasets if one.lengths]
    figure, axes = make_panels(len(shown), 1, (WIDTH, 0.6 + 2.6 * len(shown)), look)
    for panel, one in zip(axes[:, 0], shown, strict=True):
        for number, (name, every) in enumerate(one.lengths.items()):
            known = {at.length: at.accuracy for at in every if at.accuracy is not None}
            points = sorted({one.length: one.scores[name]["accuracy"], **known}.items())
            at, means = zip(*points, strict=True)
            marker = MARKERS[number // MANY % len(MARKERS)]
            (line,) = panel.plot(at, [m.mean for m in means], marker=marker, markersize=4)
            line.set_label(brief(name, 28))
            low, high = [m.low for m in means], [m.high for m in means]
            panel.fill_between(at, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        panel.axvline(one.length, color="0.7", linewidth=0.8, linestyle="-")
        lengths = sorted({one.length, *(at.length for own in one.lengths.values() for at in own)})
        panel.set_xscale("log", base=2)
        panel.set_xticks(lengths, [str(n) for n in lengths])
        panel.minorticks_off()
        panel.set(xlabel=labels[0], ylabel=labels[1])
        panel.set_title(brief(one.dataset, 40), loc="right", fontsize=9)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def exact_by_length(summary: "CausalSummary", look: Look = USUAL) -> "Figure":
    """Exact matches of causal models against the length of problems."""
    return score_by_length(summary, look, EXACT)


def learning_curves(
    runs: Sequence[tuple[Mapping[str, Any], np.ndarray]], look: Look = USUAL
) -> "Figure":
    """Means over runs of training loss, and of score and loss on validation, epoch by epoch.

    A run that is done keeps its last values. `runs` are rows, each with its curve (epochs, 3).
    """
    datasets = list(dict.fromkeys(row["dataset"] for row, _ in runs))
    size = (WIDTH, 0.8 + 2.0 * len(datasets))
    figure, axes = make_panels(len(datasets), len(CURVES), size, look)
    for panels, dataset in zip(axes, datasets, strict=True):
        own = [(row["encoding"], curve) for row, curve in runs if row["dataset"] == dataset]
        longest = max(len(curve) for _, curve in own)
        for number, encoding in enumerate(dict.fromkeys(name for name, _ in own)):
            mean = np.mean([to_length(c, longest) for name, c in own if name == encoding], axis=0)
            for panel, values in zip(panels, mean.T, strict=True):
                (line,) = panel.plot(np.arange(longest) + 1, values, linewidth=1)
                line.set(label=brief(encoding, 28), alpha=1.0 if number < MANY else 0.6)
        for panel, (caption, scale) in zip(panels, CURVES, strict=True):
            panel.set(xlabel="epoch", ylabel=caption, yscale=scale)
        panels[0].set_title(brief(dataset, 40), loc="left", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def to_length(curve: np.ndarray, epochs: int) -> np.ndarray:
    """A curve whose last values go on.

    >>> to_length(np.array([[1.0], [0.5]]), 3).ravel()
    array([1. , 0.5, 0.5])
    """
    return curve[np.minimum(np.arange(epochs), len(curve) - 1)]

"""Figures of training itself: scores on longer windows, and how runs learned."""

from typing import TYPE_CHECKING

from pefourier.answers.plot import MANY, WIDTH, brief, make_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pefourier.train.summary import Summary

MARKERS = "o^sDv"  # one for every so many curves of all colours


def score_by_length(summary: "Summary") -> "Figure":
    """Accuracy against the length of test windows, a line with its 95 % interval an encoding."""
    shown = [one for one in summary.datasets if one.lengths]
    figure, axes = make_panels(len(shown), 1, (WIDTH, 0.6 + 2.6 * len(shown)))
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
        panel.set(xlabel="rows of a test window; line: those of training", ylabel="accuracy")
        panel.set_title(brief(one.dataset, 40), loc="right", fontsize=9)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure

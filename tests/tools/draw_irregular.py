"""What the task `irregular` is, and who solves it: `make -C figures irregular.png`.

A window of each class, over rows and over time; accuracies of encodings of rows and of times.
"""

import sys

import numpy as np

from pefourier.report import plot
from pefourier.train.data.synthetic import draw_examples
from pefourier.train.options import Options
from pefourier.train.run import run_comparison

ENCODINGS = ("none", "sinusoidal", "rope", "mtan")
POSITIONS = {"index": "row numbers", "time": "times"}


def accuracies():
    """Mean accuracy of each encoding, by what is encoded."""
    found = {}
    for positions in ("index", "time"):
        options = Options(
            dataset=("irregular",), encoding=ENCODINGS, seeds=4, positions=positions, folds=1
        )
        summary = run_comparison(options)
        assert summary is not None
        scores = summary.datasets[0].scores
        found[positions] = [scores[encoding]["accuracy"] for encoding in ENCODINGS]
    return found


def draw(found, look=plot.USUAL):
    """Two windows with events the same number of rows apart, and accuracies."""
    x, y, classes, times = draw_examples("irregular")
    events = np.sort(np.argsort(x[:, :, 0], axis=1)[:, -2:], axis=1)
    pair = [np.flatnonzero((y == label) & (np.diff(events)[:, 0] == 4))[0] for label in (0, 1)]
    figure, ((rows, clock, panel),) = plot.make_panels(1, 3, (1.5 * plot.WIDTH, 2.6), look)
    for axes, label in ((rows, "row"), (clock, "time, as a share of the window's")):
        for number, one in enumerate(pair):
            at = times[one] if axes is clock else np.arange(x.shape[1])
            axes.plot(at, x[one, :, 0] - 1.6 * number, marker=".", label=classes[number])
        axes.set(xlabel=label, yticks=[])
    rows.legend(loc="upper center", bbox_to_anchor=(1.1, 1.2), ncols=2).set_in_layout(False)
    for number, (positions, means) in enumerate(found.items()):
        at = np.arange(len(means)) + 0.2 * (2 * number - 1)
        mean, *ends = np.transpose([(m.mean, m.low, m.high) for m in means])
        panel.errorbar(
            at,
            mean,
            np.abs(mean - ends),
            fmt="oD"[number],
            linestyle="none",
            label=POSITIONS[positions],
        )
    panel.axhline(0.5, color="0.7", linewidth=0.8, linestyle="-")
    panel.set_xticks(range(len(ENCODINGS)), ENCODINGS)
    panel.set(ylabel="accuracy; line: chance", ylim=(0.4, 1.05))
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, 1.22), ncols=2)
    return figure


if __name__ == "__main__":
    plot.save(sys.argv[1], draw, accuracies())

"""Figures of a training comparison."""

import numpy as np
from training import SMALL, of_datasets, result

from pefourier.report import plot
from pefourier.report.training_figures import comparison, critical_difference
from pefourier.train import summary
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def test_every_run_is_a_point_in_the_figure():
    found = run_comparison(Options(**SMALL))
    figure = comparison(found)
    points = [line.get_xdata() for line in figure.axes[0].lines if line.get_marker() == "o"]
    np.testing.assert_array_equal(
        np.concatenate(points),
        [r["f1"] for e in found.datasets[0].scores for r in found.runs if r["encoding"] == e],
    )


def test_differences_stand_beside_scores_and_doubtful_ones_are_hollow():
    scores = {"sinusoidal": 0.5, "dft": 0.7, "rope": 0.5}
    rng = np.random.default_rng(0)
    rows = [
        result(e, float(rng.normal(mean, 0.01)), seed=seed, fold=fold)
        | {"step": 90 if e == "rope" else 1, "budget": {"steps": 90}}
        for e, mean in scores.items()
        for seed in range(4)
        for fold in range(5)
    ]
    found = summary.summarize_runs(rows)
    (one,) = found.datasets
    assert one.verdicts == {"dft": "better", "rope": "cut short"}
    _, panel = comparison(found).axes
    marks = {line.get_ydata()[0]: line for line in panel.lines if line.get_marker() == "D"}
    assert {at: line.get_xdata()[0] for at, line in marks.items()} == {
        1: one.differences["dft"].mean,
        2: one.differences["rope"].mean,
    }
    assert [marks[at].get_markerfacecolor() for at in (1, 2)] == ["C0", "none"]
    ends = [line.get_xdata() for line in panel.lines if len(line.get_xdata()) == 2]
    assert [one.differences["dft"].low, one.differences["dft"].high] in [list(x) for x in ends]
    assert [text.get_text() for text in panel.get_yticklabels()] == ["", "better", "cut short"]


def two_datasets(ranks, cliques):
    """A summary of two datasets with the given ranks."""
    datasets = summary.summarize_runs(of_datasets(2, {"sinusoidal": 0.5})).datasets
    return summary.Summary("sinusoidal", datasets, ranks, cliques, ())


def test_bars_of_the_diagram_join_the_cliques():
    ranks = {"none": 4.0, "dft": 1.25, "rope": 1.75, "sinusoidal": 3.0}
    cliques = (("dft", "rope"), ("rope", "sinusoidal"))
    figure = critical_difference(two_datasets(ranks, cliques))
    with plot.figure_style():  # the scale of ranks is above
        assert critical_difference(two_datasets(ranks, cliques)).axes[0].spines["top"].get_visible()
    (axes,) = figure.axes
    bars = [line.get_xdata() for line in axes.lines if line.get_linewidth() == 3]
    np.testing.assert_allclose(bars, [[1.19, 1.81], [1.69, 3.06]])
    heights = {
        text.get_text().split()[-1 if i > 1 else 0]: text.get_position()[1]
        for i, text in enumerate(axes.texts)
    }
    for line in axes.lines:
        if line.get_linewidth() < 3:  # a leader ends at the height of its name
            (name,) = [name for name, rank in ranks.items() if rank == line.get_xdata()[0]]
            assert line.get_ydata()[-1] == heights[name]
    sides = [text.get_ha() for text in axes.texts]  # away from the diagram
    assert sides == ["right", "right", "left", "left"]
    feet = sorted(line.get_xdata()[0] for line in axes.lines if line.get_linewidth() < 3)
    assert feet == sorted(ranks.values())
    assert {text.get_text().strip() for text in axes.texts} == {
        "dft  1.25",
        "rope  1.75",
        "4.00  none",
        "3.00  sinusoidal",
    }
    assert axes.get_title().endswith("with 2 datasets for 4 encodings .05 is out of reach")

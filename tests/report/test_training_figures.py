"""Figures of a training comparison."""

import numpy as np
from training import result

from pefourier.report.plot import USUAL
from pefourier.report.training_figures import comparison
from pefourier.train import statistics


def test_runs_are_points_differences_stand_beside_them_and_doubtful_ones_are_hollow(rng):
    scores = {"sinusoidal": 0.5, "dft": 0.7, "rope": 0.5}
    rows = [
        result(e, float(rng.normal(mean, 0.01)), seed=seed, fold=fold)
        | {"step": 90 if e == "rope" else 1, "budget": {"steps": 90}}
        for e, mean in scores.items()
        for seed in range(4)
        for fold in range(5)
    ]
    found = statistics.summarize_runs(rows)
    (data,) = found.datasets
    assert data.verdicts == {"dft": "better", "rope": "cut short"}
    left, right = comparison(found, USUAL).axes
    points = [line.get_xdata() for line in left.lines if line.get_marker() == "o"]
    np.testing.assert_array_equal(np.concatenate(points), [row["f1"] for row in rows])
    marks = {line.get_ydata()[0]: line for line in right.lines if line.get_marker() == "D"}
    means = {row: data.differences[e].mean for row, e in ((1, "dft"), (2, "rope"))}
    assert {row: line.get_xdata()[0] for row, line in marks.items()} == means
    assert [marks[row].get_markerfacecolor() for row in (1, 2)] == ["C0", "none"]

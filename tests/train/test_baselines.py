"""Other methods are trained and tested on the same parts as the encodings."""

import numpy as np
import pytest
from refusals import refusal
from training import SMALL, lines, numbers, small

from pefourier.train import baselines
from pefourier.train.data import load
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def test_trees_stand_beside_the_encodings_on_the_same_parts(tmp_path, rng):
    x, y = rng.normal(size=(150, 6, 2)), np.arange(150) % 3 == 0
    x[y, 2, 0] += 6  # one high value, visible in the maximum of its channel
    np.savez(tmp_path / "x.npz", X=x, y=y.astype(int))
    given = {**SMALL, "dataset": (str(tmp_path / "x.npz"),), "encoding": ("none", "order-free")}
    out, models = tmp_path / "out", tmp_path / "models"
    requested = {**given, "folds": 2, "seeds": 2, "out": str(out), "save_models": str(models)}
    found = run_comparison(Options(**requested, beside=("trees",)))
    (one,) = found.datasets
    assert list(one.scores) == ["none", "order-free", "trees"]
    assert one.scores["trees"]["f1"].mean > 0.9
    rows = {(row["encoding"], row["seed"], row["fold"]): row for row in lines(out)}
    assert len(rows) == 2 * 2 * 2 + 2
    for fold in (0, 1):
        for key in ("windows", "trained"):
            assert rows["none", 0, fold][key] == rows["trees", 0, fold][key]
    assert len(list(models.iterdir())) == 8  # no models of trees
    again = run_comparison(Options(**requested, beside=("trees",), resume=True))
    assert numbers(again.runs) == numbers(found.runs)


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # warnings of aeon and its imports
def test_minirocket_sees_where_things_are():
    pytest.importorskip("aeon", reason="needs the package aeon")
    task = load.load_task("order:count=200,length=12")
    valid, test, *_ = baselines.fit_method("minirocket", task, 0)
    fold = task.folds[0]
    assert (valid.shape, test.shape) == ((len(fold.valid), 2), (len(fold.test), 2))
    assert (test.argmax(axis=1) == task.labels[fold.test]).mean() > 0.8


def test_methods_that_cannot_be_requested_are_refused(monkeypatch):
    for given, named in (
        ({"beside": ("tree",)}, "Did you mean 'trees'?"),
        ({"beside": ("minirocket",)}, "needs 9 rows"),
        ({"encoding": ("trees@rms=0.5",)}, "'trees@rms=0.5'"),
    ):
        with refusal(named):
            run_comparison(small(**given))
    monkeypatch.setattr(baselines, "find_spec", lambda _: None)
    with refusal("needs aeon"):
        run_comparison(small(beside=("minirocket",)))

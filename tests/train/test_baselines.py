"""Other methods are trained and tested on the same parts as the encodings."""

import numpy as np
import pytest
from refusals import refusal
from training import small

from pefourier.train import baselines
from pefourier.train.data import load
from pefourier.train.run import run_comparison


def test_trees_stand_beside_the_encodings_on_the_same_parts(tmp_path, rng):
    x, y = rng.normal(size=(150, 6, 2)), np.arange(150) % 3 == 0
    x[y, 2, 0] += 6  # one high value, visible in the maximum of its channel
    np.savez(tmp_path / "x.npz", X=x, y=y.astype(int))
    own = {"dataset": (str(tmp_path / "x.npz"),), "encoding": ("none", "order-free")}
    own |= {"folds": 2, "save_models": str(tmp_path / "models")}
    (one,) = run_comparison(small(**own, beside=("trees",))).datasets
    assert list(one.scores) == ["none", "order-free", "trees"]
    assert one.scores["trees"]["f1"].mean > 0.9
    assert len(list((tmp_path / "models").iterdir())) == 8  # no models of trees


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

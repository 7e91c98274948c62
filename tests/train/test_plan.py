"""What training would do is what it then does, and its refusals are the same."""

import json
from dataclasses import replace

import numpy as np
import pytest
from training import SMALL, lines

from pefourier.cli.main import main
from pefourier.errors import PefourierError
from pefourier.train import search
from pefourier.train.options import Options
from pefourier.train.plan import plan_training
from pefourier.train.run import run_comparison
from pefourier.train.store import Store


@pytest.fixture
def folds(tmp_path, rng):
    """A set of examples that is cut into folds, of three classes of different size."""
    path = tmp_path / "own.npz"
    labels = np.repeat([0, 1, 2], (30, 20, 50))
    np.savez(path, X=rng.normal(size=(100, 5, 2)), y=labels, groups=np.arange(100) // 2)
    return str(path)


def test_what_is_planned_is_what_is_trained(tmp_path, folds, monkeypatch):
    out = tmp_path / "a" / "out"
    options = Options(
        **{**SMALL, "dataset": (folds,), "encoding": ("none", "dft"), "seeds": 2},
        beside=("trees",),
        out=str(out),
        save_tables=str(tmp_path / "tables"),
    )
    with monkeypatch.context() as patched:
        patched.setattr(search, "fit", lambda *a: pytest.fail("trained"))
        (plan,) = plan_training(options)
    assert {one.name for one in tmp_path.iterdir()} == {"own.npz"}
    run_comparison(options)
    rows, config = lines(out), json.loads((out / "config.json").read_text())
    assert (plan.runs, plan.finished) == (len(rows), 0)
    for row in rows:
        fold = plan.folds[row["fold"]]
        assert (sum(fold.train), sum(fold.test)) == (row["trained"], row["windows"])
        assert list(fold.test) == [sum(said) for said in row["confusion"]]
        assert row["budget"] == plan.budget
    every = [sum(counts) for counts in zip(*(f.test for f in plan.folds), strict=True)]
    assert every == config["windows"][folds] == [30, 20, 50]
    files = sorted(out.rglob("*"))
    (again,) = plan_training(replace(options, resume=True))
    assert (again.runs, again.finished) == (0, len(rows))
    assert sorted(out.rglob("*")) == files


@pytest.mark.parametrize(
    "change",
    [
        {"encoding": ("nothing",)},
        {"heads": 3},
        {"save_models": "/dev/full"},
        {"out": "held", "resume": True, "epochs": 1},
        {"processes": 10**6},
    ],
)
def test_refusals_are_those_of_training(tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    run_comparison(Options(**{**SMALL, "encoding": ("none",)}, out="held"))
    options = replace(Options(**SMALL), **change)
    said = []
    for ask in (plan_training, run_comparison):
        with pytest.raises(PefourierError) as refused:
            ask(options)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_a_folder_that_another_run_holds_is_refused(tmp_path):
    with Store(tmp_path).lock():
        with pytest.raises(PefourierError, match="another run writes to"):
            plan_training(Options(**SMALL, out=str(tmp_path)))


def test_what_is_dropped_is_planned_and_noted(tmp_path):
    path, notes = tmp_path / "x.csv", []
    lines = ["id,time,label,v"]
    lines += [f"{i:02d},{t},{int(16 < t < 20)},{t % 7}" for i in range(12) for t in range(23)]
    path.write_text("\n".join([*lines, "99,0,0,1"]))
    (plan,) = plan_training(Options(dataset=(str(path),), window=4), notes.append)
    known = {one.reason: one.count for one in plan.dropped}
    assert known == {"short": 1, "end": 36}
    assert sum("are dropped" in line or "and dropped" in line for line in notes) == 2


def test_the_plan_is_told_in_words_and_as_records(run):
    given = ["train", "--plan", "--dataset", "order:count=40,length=4", "-e", "none", "-e", "dft"]
    told = run(*given, "--seeds", 2, "--beside", "trees")
    assert told.out.startswith("NOTHING TRAINED. Runs that would be trained: 5.")
    assert "\n0     24 (12 / 12)  8 (4 / 4)  8 (4 / 4)\n" in told.out
    (record,) = run(*given, "--seeds", 2, "--json", "--quiet").results
    assert record["folds"] == [{"fold": 0, "train": [12, 12], "valid": [4, 4], "test": [4, 4]}]
    assert record["encodings"] == ["none", "dft"]
    assert main([*map(str, given), "--csv", "--quiet"]) == 0

"""What training would do is what it then does, and its refusals are the same."""

import json
from dataclasses import replace

import numpy as np
import pytest
from training import SMALL, lines

from pefourier.cli.main import main
from pefourier.errors import PefourierError
from pefourier.train import loop
from pefourier.train.causal import run_causal
from pefourier.train.options import Options
from pefourier.train.plan import conclude_plan, plan_training
from pefourier.train.run import run_comparison
from pefourier.train.store import Store

CAUSAL = Options(
    causal=True,
    dataset=("copy:length=4,count=40",),
    encoding=("none", "rope"),
    seeds=2,
    epochs=1,
    d=8,
    heads=2,
)


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
        out=str(out),
        save_tables=str(tmp_path / "tables"),
    )
    with monkeypatch.context() as patched:
        patched.setattr(loop, "fit", lambda *a: pytest.fail("trained"))
        (plan,) = plan_training(options)
    assert {one.name for one in tmp_path.iterdir()} == {"own.npz"}
    run_comparison(options)
    rows, config = lines(out), json.loads((out / "config.json").read_text())
    assert (plan.runs, plan.finished) == (len(rows), 0)
    assert plan.seconds > 0
    for row in rows:
        fold = plan.folds[row["fold"]]
        assert (sum(fold.train), sum(fold.test)) == (row["trained"], row["windows"])
        assert list(fold.test) == [sum(said) for said in row["confusion"]]
        assert row["budget"] == plan.budget
    every = [sum(counts) for counts in zip(*(f.test for f in plan.folds), strict=True)]
    assert every == config["windows"][folds] == [30, 20, 50]
    files = sorted(out.rglob("*"))
    (again,) = plan_training(replace(options, resume=True))
    assert (again.runs, again.finished, again.seconds) == (0, len(rows), 0)
    assert again.conclusion.startswith(f"{folds}: nothing is left to train. {len(rows)} runs are")
    (more,) = plan_training(replace(options, resume=True, seeds=3))
    assert (more.runs, more.finished) == (len(rows) // 2, len(rows))
    assert sorted(out.rglob("*")) == files


def test_other_methods_are_counted_and_said_to_take_a_time_of_their_own(tmp_path, folds):
    out, told = tmp_path / "out", []
    given = {**SMALL, "dataset": (folds,), "encoding": ("none", "dft"), "beside": ("trees",)}
    options = Options(**given, out=str(out))
    (plan,) = plan_training(options)
    run_comparison(options, note=told.append)
    trees = sum(row["encoding"] == "trees" for row in lines(out))
    assert plan.runs == len(lines(out)) > trees > 1
    assert plan.seconds > 0
    unknown = f"; {trees} runs of trees take a time that is not foretold"
    assert f"{len(lines(out)) - trees} runs of at most" in plan.conclusion
    assert unknown in plan.conclusion
    assert any(unknown in line for line in told)
    assert "in all if no run stops early, without trees, whose time" in conclude_plan([plan])[0]
    alone = replace(options, encoding=("trees",), beside=(), out=None)
    (plan,) = plan_training(alone)
    assert (plan.runs, plan.seconds) == (trees, None)


@pytest.mark.parametrize(
    "change",
    [
        {"encoding": ("nothing",)},
        {"heads": 3},
        {"save_models": "/dev/full"},
        {"out": "held"},
        {"out": "held", "resume": True, "epochs": 1},
        {"resume": True},
        {"processes": 10**6},
        {"causal": True},
    ],
)
def test_refusals_are_those_of_training(tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    run_comparison(Options(**{**SMALL, "encoding": ("none",)}, out="held"))
    options = replace(Options(**SMALL), **change)
    said = []
    for ask in (plan_training, run_causal if options.causal else run_comparison):
        with pytest.raises(PefourierError) as refused:
            ask(options)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_a_folder_that_another_run_holds_is_refused(tmp_path):
    with Store(tmp_path).lock():
        with pytest.raises(PefourierError, match="another run writes to"):
            plan_training(Options(**SMALL, out=str(tmp_path)))


def test_a_causal_plan_is_what_is_trained(tmp_path):
    options = replace(CAUSAL, out=str(tmp_path / "out"))
    (plan,) = plan_training(options)
    assert not (tmp_path / "out").exists()
    assert (plan.runs, plan.folds[0].train) == (4, (40,))
    assert "tested on 4, 8, 16. With so few seeds p cannot fall below .05." in plan.conclusion
    (enough,) = plan_training(replace(options, seeds=6))  # 2^-5 for one comparison with none
    assert "so few seeds" not in enough.conclusion
    run_causal(options)
    (again,) = plan_training(replace(options, resume=True, seeds=3))
    assert (again.runs, again.finished) == (2, 4)


def test_the_plan_is_told_in_words_and_as_records(run):
    given = ["train", "--plan", "--dataset", "order:count=40,length=4", "-e", "none", "-e", "dft"]
    told = run(*given, "--seeds", 2, "--beside", "trees")
    assert told.out.startswith("NOTHING TRAINED. There would be 5 runs, about ")
    assert "\n0     24 (12 / 12)  8 (4 / 4)  8 (4 / 4)\n" in told.out
    few = "2 runs of each encoding show no difference (from 7 on p can fall below .05: --seeds 7)"
    assert few in " ".join(told.out.split())  # 2^-6 for each of two differences, of dft and trees
    enough = run(*given, "--seeds", 7, "--beside", "trees").out.split()
    assert "7 runs of each encoding show differences in F1 from" in " ".join(enough)
    (record,) = run(*given, "--seeds", 2, "--json", "--quiet").results
    assert record["folds"] == [{"fold": 0, "train": [12, 12], "valid": [4, 4], "test": [4, 4]}]
    assert record["encodings"] == ["none", "dft"]
    assert main([*map(str, given), "--csv", "--quiet"]) == 0

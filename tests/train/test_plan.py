"""A plan equals the training that follows; arms, runs and stacks."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from refusals import refusal
from training import SMALL, lines, numbers, small

from pefourier.train import ensembles
from pefourier.train.ensembles import plan_training, resolve
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def test_what_is_planned_is_what_is_trained(tmp_path, rng, monkeypatch):
    path, labels = str(tmp_path / "own.npz"), np.repeat([0, 1, 2], (30, 20, 50))
    np.savez(path, X=rng.normal(size=(100, 5, 2)), y=labels, groups=np.arange(100) // 2)
    out = tmp_path / "a" / "out"
    folders = {"out": str(out), "save_models": str(tmp_path / "models")}
    own = {**SMALL, "dataset": (path,), "encoding": ("none", "dft"), "seeds": 2, **folders}
    options = Options(**own, beside=("trees",))
    with monkeypatch.context() as patched:
        patched.setattr(ensembles, "fit", lambda *_: pytest.fail("trained"))
        (planned,) = plan_training(options)
    assert {file.name for file in tmp_path.iterdir()} == {"own.npz"}
    run_comparison(options)
    rows, config = lines(out), json.loads((out / "config.json").read_text())
    assert (planned.runs, planned.finished) == (len(rows), 0)
    for row in rows:
        fold = planned.folds[row["fold"]]
        assert (sum(fold["train"]), sum(fold["test"])) == (row["trained"], row["windows"])
        assert fold["test"] == [sum(counts) for counts in row["confusion"]]
        assert row["budget"] == planned.budget
    tested = [sum(counts) for counts in zip(*(f["test"] for f in planned.folds), strict=True)]
    assert tested == config["windows"][path] == [30, 20, 50]
    files = sorted(out.rglob("*"))
    (again,) = plan_training(replace(options, resume=True))
    assert (again.runs, again.finished) == (0, len(rows))
    assert sorted(out.rglob("*")) == files


def test_refusals_are_those_of_training(trained):
    resumed = {"out": str(trained), "resume": True, "steps": 4}
    for change in ({"encoding": ("nothing",)}, {"heads": 3}, resumed):
        messages = set()
        for ask in (plan_training, run_comparison):
            with refusal() as refused:
                ask(replace(small(), **change))
            messages.add(str(refused.value))
        assert len(messages) == 1


def test_minutes_choose_runs_and_steps_as_the_plan_says(tmp_path, monkeypatch):
    """A step of one seed takes a tenth of a second: 6 minutes are 3240 steps."""
    monkeypatch.setattr(ensembles, "seconds_of_steps", lambda of, *_: 0.1 * len(of.runs) / 2)
    given = {**SMALL, "steps": None, "seeds": 8, "encoding": ("none", "dft")}
    experiment = resolve(Options(**given), 0.0, print)  # a single fold
    for minutes, expected in ((6, (4, 810)), (60, (32, 1012)), (1e4, (64, 4000)), (0.1, (4, 13))):
        assert ensembles.divide_time(60 * minutes, 0.1, experiment) == expected
    requested = Options(**given, minutes=0.1)
    with refusal(r"--minutes 0.1 is too short: .* allow"):
        run_comparison(requested)
    out = tmp_path / "out"
    monkeypatch.setattr(ensembles, "seconds_of_steps", lambda of, *_: 0.01 * len(of.runs) / 2)
    run_comparison(replace(requested, minutes=0.25, out=str(out)))
    config = json.loads((out / "config.json").read_text())
    assert (config["seeds"], config["minutes"], config["patience_steps"]) == (4, None, 0)
    rows = lines(out)
    assert {row["budget"]["steps"] for row in rows} == {config["steps"]}
    again = Options(**{**given, "seeds": 4, "steps": config["steps"]}, patience_steps=0)
    assert numbers(run_comparison(again).runs) == numbers(rows)
    for own in ({"seeds": 4}, {"steps": 9}, {"minutes": 0}):
        with refusal("--minutes"):
            run_comparison(replace(requested, **own))


def test_what_may_be_too_few_is_stated_before_training(tmp_path, rng):
    path, notes = str(tmp_path / "own.npz"), []
    np.savez(path, X=rng.normal(size=(30, 5, 2)), y=np.arange(30) % 2)
    options = small(dataset=(path,), encoding=("none", "dft"))
    (planned,) = plan_training(options, notes.append)
    assert planned.detectable > 0.1
    assert not any("detect" in line for line in notes)  # stated once, in the answer
    for find in (0.02, planned.detectable - 0.01):
        with refusal(rf"not of {find:g}; use --find {planned.detectable}"):
            plan_training(replace(options, find=find))
    assert plan_training(replace(options, find=planned.detectable))
    one_fold = small(dataset=("order:count=2000,length=4",), seeds=4)
    with refusal(r"4 runs .* not of 0.1; .* or --seeds \d+$") as why:
        plan_training(replace(one_fold, find=0.1))
    seeds = int(re.findall(r"--seeds (\d+)", str(why.value))[0])
    (planned,) = plan_training(replace(one_fold, find=0.1, seeds=seeds))
    assert planned.detectable == 0.1
    with refusal(r"2 runs .* not of 0.01; use --seeds \d+ --find 0.1$"):  # no seeds find 0.01
        plan_training(replace(one_fold, find=0.01, seeds=2))


def test_vectors_that_do_not_vary_have_no_size_to_match(tmp_path):
    own = str(tmp_path / "own.npy")
    np.save(own, np.full((6, 8), 0.3) + np.arange(8))

    for spec in (f"{own}@rms=0.5", "rope@rms=1"):
        with refusal("@rms cannot scale"):
            run_comparison(small(encoding=(spec,)))

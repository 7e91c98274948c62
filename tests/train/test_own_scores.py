"""Scores of a user's runs are compared like the runs of training."""

import csv
import json
import re

import pytest
from training import SMALL

from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def written(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def test_own_scores_have_the_intervals_and_verdicts_of_training(tmp_path, run):
    """Scores of trained runs, as f1 of a dataset, give the same means, differences and p values.

    Training knows its test windows and adds their noise, so its intervals are no narrower.
    """
    options = Options(**{**SMALL, "seeds": 5, "encoding": ("none", "sinusoidal", "dft")})
    (data,) = run_comparison(options).datasets
    runs = run_comparison(options).runs
    names = ("dataset", "encoding", "seed", "f1")
    rows = [{name: row[name] for name in names} | {"note": "x"} for row in runs]
    found = run("train", "--scores", written(tmp_path / "scores.csv", rows), "--json").results
    assert [record["encoding"] for record in found] == list(data.scores)
    for record in found:
        assert record["score"]["mean"] == pytest.approx(data.scores[record["spec"]]["f1"].mean)
        assert record["score"]["low"] == pytest.approx(data.scores[record["spec"]]["f1"].low)
        if record["difference"]:
            d, own = data.differences[record["spec"]], record["difference"]
            assert (own["mean"], own["better"]) == pytest.approx((d.mean, d.better))
            assert own["low"] >= d.low - 1e-12
            assert (own["units"], own["over"]) == (5, "runs")


def test_pairs_are_those_of_seeds_and_folds_and_others_are_named(tmp_path, run):
    rows = [
        {"encoding": e, "seed": f"s{s}", "fold": f, "score": 0.5 + 0.1 * (e == "b") + 0.01 * s}
        for e in "ab"
        for s in range(2)
        for f in range(4)
    ]
    answer = run("train", "--scores", written(tmp_path / "all.csv", rows[::-1]), "--json").results
    (record,) = [r for r in answer if r["difference"]]
    d = record["difference"]
    assert (abs(d["mean"]), d["units"], d["over"]) == (pytest.approx(0.1), 4, "folds")
    fewer = written(tmp_path / "fewer.csv", [row for row in rows if row != rows[3]])
    answer = json.loads(run("train", "--scores", fewer, "--json").out)
    (remark,) = answer["remarks"]
    assert (remark["spec"], "line 12" in remark["message"]) == ("b", True)
    bare = written(tmp_path / "bare.csv", [{k: r[k] for k in ("encoding", "score")} for r in rows])
    found = run("train", "--scores", bare, "--json").results  # paired in order
    assert found[1]["difference"]["units"] == 8


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("encoding,value\na,1\n", "column score"),
        ("score,seed\n1,1\n", "column encoding"),
        ("encoding,score\n", "no line"),
        ("encoding,score\na,81\n", "line 2: .* divide by 100"),
        ("encoding,score\na,x\n", "line 2: .* 'x'"),
        ("encoding,score,seed\na,1,1\na,1,1\n", "line 3 repeats .* line 2"),
        ("encoding,score,seed\na,1,\n", "line 2: .* no empty cell"),
        ("encoding,score,seed\na,1,1\nb,1,2\n", "no run has the same seed"),
    ],
)
def test_files_that_are_no_scores_are_refused_in_a_line(tmp_path, run, text, named):
    file = tmp_path / "scores.csv"
    file.write_text(text)
    done = run("train", "--scores", file)
    assert done.status == 2
    assert re.search(named, done.err)
    assert len(done.err.splitlines()) == 1

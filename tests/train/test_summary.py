"""Verdicts of planted runs and of scores of a user, and the files that state them."""

import csv
import json
import re
from itertools import product

import numpy as np
import pytest
from training import of_datasets, result, small

from pefourier.train import report, statistics
from pefourier.train import run_artifacts as metrics
from pefourier.train.run import run_comparison, write_summary
from pefourier.train.statistics import TEST_TO_TRAIN, Chance
from pefourier.train.store import Store

BUDGET = {"steps": 90, "patience": 30, "every": 10}


def of_folds(f1, spread=0.01, **facts):
    """Return runs in five folds with these means of F1 and noise, none ending at the last step."""
    rng = np.random.default_rng(0)
    return [
        result(e, float(np.clip(rng.normal(mean, spread), 0, 1)), seed=s, fold=fold)
        | {"step": 40, "budget": BUDGET, "windows": 1200, "trained": 3600}
        | {key: value(e) if callable(value) else value for key, value in facts.items()}
        for e, mean in f1.items()
        for s in range(8)
        for fold in range(5)
    ]


def cut(*names):
    """Return a function of the step of each encoding, the last step for some."""
    return lambda encoding: 90 if encoding in names else 40


ARMS = {"sinusoidal": 0.5, "dft": 0.7, "rope": 0.3, "t5": 0.502}
ALIKE = dict.fromkeys(ARMS, 0.5)
ALL = {code: ("/".join([code] * 3), code) for code in ("too few", "leaky")}
CUT = "cut short/cut short/cut short"
CASES = {  # the verdicts of dft, rope and t5, and that of the dataset
    "apart": (of_folds(ARMS), "better/worse/not shown", "best"),
    "two apart": (of_folds({**ARMS, "t5": 0.7}), "better/worse/better", "tied"),
    "one worse": (of_folds({**ARMS, "dft": 0.5}), "not shown/worse/not shown", "tied"),
    "alike": (of_folds(ALIKE), "not shown/not shown/not shown", "no difference"),
    "loud": (of_folds(ALIKE, spread=0.3), *ALL["too few"]),
    "few folds": ([row for row in of_folds(ARMS) if row["fold"] < 3], *ALL["too few"]),
    "leaky": (of_folds(ARMS, leaky=True, split="random"), *ALL["leaky"]),
    "cut short": (of_folds(ARMS, step=cut("dft")), "cut short/worse/not shown", "tied"),
    "reference cut short": (of_folds(ARMS, step=cut("sinusoidal")), CUT, "best"),
    "all cut short": (of_folds(ARMS, step=cut(*[*ARMS][:3])), CUT, "cut short"),
}


@pytest.mark.parametrize("case", CASES)
def test_verdicts_of_planted_runs_are_stated_in_files(case, tmp_path):
    rows, vectors, of_all = CASES[case]
    expected = dict(zip(("dft", "rope", "t5"), vectors.split("/"), strict=True))
    found = statistics.summarize_runs(rows)
    (one,) = found.datasets
    assert (one.verdicts, found.verdict) == (expected, of_all)
    write_summary(Store(tmp_path), found)
    (saved,) = json.loads((tmp_path / "summary.json").read_text())["datasets"]
    assert (saved["verdicts"], saved["verdict"]) == (expected, of_all)
    assert saved["best"] == list(one.best)
    assert not re.search(r"nan|None|[{}]", " ".join(report.sentences(found)))
    for d in one.differences.values():  # one test: before Holm, 0 is outside the interval
        assert (d.p < 0.05) == (d.low > 0 or d.high < 0)


def test_a_scaled_encoding_is_compared_at_its_size():
    scores = {"sinusoidal": 0.5, "dft@rms=1": 0.6, "sinusoidal@rms=1": 0.1}
    rows = [result(e, v, seed=seed) for e, v in scores.items() for seed in range(2)]
    apart = statistics.summarize_runs(rows).datasets[0].differences
    assert apart["dft@rms=1"].mean == pytest.approx(0.5)
    assert apart["sinusoidal@rms=1"].mean == pytest.approx(-0.4)


def test_average_ranks_over_datasets_and_who_is_not_distinguished():
    scores = (("sinusoidal", 0.5, 0.2), ("dft", 0.5, 0.6), ("none", 0.4, None))
    rows = [result(e, v, dataset=d) for e, *own in scores for d, v in zip("ab", own, strict=True)]
    rows = [row for row in rows if row["f1"] is not None]
    found = statistics.summarize_runs(rows)  # ties, and encodings of all datasets
    assert found.ranks == {"sinusoidal": 1.75, "dft": 1.25}
    assert found.cliques == (("dft", "sinusoidal"),)
    assert not statistics.summarize_runs([r for r in rows if r["dataset"] == "a"]).ranked
    for arms, apart in ((2, True), (5, False)):
        found = statistics.summarize_runs(
            of_datasets(8, dict(zip("abcde"[:arms], (0.5, 0.6, 0.1, 0.2, 0.3), strict=False)))
        )
        assert (found.out_of_reach == "") == apart


def test_runs_that_diverge_are_scored_and_counted():
    found = run_comparison(small(encoding=("none", "sinusoidal"), rate=1e30))
    assert found.datasets[0].diverged == {"none": 2, "sinusoidal": 2}
    assert [record["diverged"] for record in report.json_records(found)] == [2, 2]


def test_a_method_fitted_once_a_fold_counts_its_folds(rng):
    """A method trained once for each fold is compared with an encoding's mean in each fold."""
    f1 = {e: rng.uniform(0.4, 0.9, (4, 5)) for e in ("sinusoidal", "dft")}
    f1["trees"] = np.tile(rng.uniform(0.8, 0.9, 5), (4, 1))
    rows = [
        result(e, f1[e][seed, fold], seed=seed, fold=fold)
        | {"windows": 120, "trained": 360, "confusion": [[60, 0], [0, 60]]}
        for e, seed, fold in product(f1, range(4), range(5))
    ]
    (one,) = statistics.summarize_runs(rows).datasets
    apart = f1["trees"][0] - f1["sinusoidal"].mean(axis=0)
    found = one.differences["trees"]
    assert one.scores["trees"]["f1"] == statistics.interval(f1["trees"][0])
    assert (found.mean, found.units, found.over) == (pytest.approx(apart.mean()), 5, "folds")
    chance = Chance(np.arange(5), TEST_TO_TRAIN, windows=600)
    assert found.p == pytest.approx(statistics.t_test(apart, chance)[0])
    once = [row for row in rows if row["encoding"] != "trees" or row["seed"] == 0]
    assert statistics.summarize_runs(once).datasets[0].differences == one.differences


@pytest.mark.parametrize("count", [19, 21])
def test_more_than_a_fifth_of_runs_that_keep_their_last_weights_are_too_many(count):
    steps = [90] * count + [40] * (100 - count)
    rows = [result("dft", 0.5, seed=i, step=n, budget=BUDGET) for i, n in enumerate(steps)]
    (one,) = statistics.summarize_runs(rows).datasets
    assert one.last_kept == {"dft": count}
    assert one.cut_short == (("dft",) if count > 20 else ())
    assert one.longer == "--steps, such as 180"
    trees = [row | {"encoding": "trees", "step": 90} for row in rows]
    assert statistics.summarize_runs(trees).datasets[0].cut_short == ()


@pytest.mark.parametrize(("classes", "positive"), [(2, "b"), (2, None), (3, None), (5, None)])
def test_chance_is_what_naming_one_class_always_scores(rng, classes, positive):
    labels = np.append(rng.choice(classes, 60, p=rng.dirichlet(np.ones(classes))), range(classes))
    macro = positive is None
    named = np.bincount(labels).argmax() if macro else 1
    logits = np.eye(classes)[np.full(len(labels), named)]
    table = metrics.count_confusions(logits.argmax(axis=1), labels, classes)
    row = result("none", 0.5, confusion=table.tolist(), positive=positive)
    chance = statistics.summarize_runs([row]).datasets[0].chance
    stated = metrics.decide(logits, None if macro else 0.5)
    share, scores = labels.mean(), metrics.score(stated, logits, labels, macro=macro)
    expected = {k: scores[k] for k in ("precision", "recall", "f1", "accuracy")}
    expected = expected if macro else {"f1": 2 * share / (1 + share), "auprc": share}
    assert {k: chance[k] for k in expected} == pytest.approx(expected)


def written(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


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
def test_files_that_are_no_scores_are_refused_in_a_line(tmp_path, refused, text, named):
    file = tmp_path / "scores.csv"
    file.write_text(text)
    assert re.search(named, refused("train", "--scores", file))

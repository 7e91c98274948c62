"""Verdicts are decided once: headline, tables, records and files say the same."""

import json
import re
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from training import SMALL, of_datasets, result

from pefourier.files import read_toml
from pefourier.report.forms import as_json
from pefourier.report.training_figures import comparison, critical_difference
from pefourier.train import metrics, report, statistics, summary
from pefourier.train.options import Options
from pefourier.train.run import run_comparison, write_summary
from pefourier.train.store import NOT_NUMBERS, Store, read_rows
from pefourier.writing.page import plain

BUDGET = {"steps": 90, "patience": 30, "every": 10}


def of_folds(f1, seeds=8, spread=0.01, seed=0, **facts):
    """Runs in five folds with these means of F1, and noise of a deviation; never the last step."""
    rng = np.random.default_rng(seed)
    return [
        result(e, float(np.clip(rng.normal(mean, spread), 0, 1)), seed=s, fold=fold)
        | {"step": 40, "budget": BUDGET, "windows": 1200, "trained": 3600}
        | {key: value(e) if callable(value) else value for key, value in facts.items()}
        for e, mean in f1.items()
        for s in range(seeds)
        for fold in range(5)
    ]


def cut(*names):
    """The step of each encoding, the last one there is for some."""
    return lambda encoding: 90 if encoding in names else 40


ARMS = {"sinusoidal": 0.5, "dft": 0.7, "rope": 0.3, "t5": 0.502}
CASES = {  # the verdicts of dft, rope and t5, and the one on all
    "apart": (of_folds(ARMS), "better worse not_shown", "better and worse"),
    "one better": (of_folds({**ARMS, "rope": 0.5}), "better not_shown not_shown", "better"),
    "one worse": (of_folds({**ARMS, "dft": 0.5}), "not_shown worse not_shown", "worse"),
    "alike": (of_folds(dict.fromkeys(ARMS, 0.5)), "not_shown not_shown not_shown", "not shown"),
    "loud": (of_folds(dict.fromkeys(ARMS, 0.5), spread=0.3), "too_few too_few too_few", "too few"),
    "few folds": (
        [row for row in of_folds(ARMS) if row["fold"] < 3],
        "too_few too_few too_few",
        "too few",
    ),
    "leaky": (of_folds(ARMS, leaky=True, split="random"), "leaky leaky leaky", "leaky"),
    "cut short": (of_folds(ARMS, step=cut("dft")), "cut_short worse not_shown", "worse"),
    "reference cut short": (
        of_folds(ARMS, step=cut("sinusoidal")),
        "cut_short cut_short cut_short",
        "cut short",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_verdict_is_the_same_in_headline_table_records_and_files(case, tmp_path):
    rows, codes, of_all = CASES[case]
    wanted = dict(zip(("dft", "rope", "t5"), codes.split(), strict=True))
    wanted = {name: code.replace("_", " ") for name, code in wanted.items()}
    found = summary.summarize_runs(rows)
    (one,) = found.datasets
    assert (one.verdicts, found.verdict) == (wanted, of_all)
    headline = report.conclude_datasets(found)[0]
    assert headline.startswith(f"{of_all.upper()}. ")
    for code in summary.VERDICTS:
        names = re.search(rf"[:;] {code}: ([^;]*)", headline.partition(" Highest")[0])
        told = [part.split()[0].strip(".,") for part in names[1].split(", ")] if names else []
        assert told == [name for name, other in wanted.items() if other == code]
    assert "no difference" not in headline.lower()
    (_, (head, *body)) = report.answer_table(found)
    assert {row[0]: row[head.index("verdict")] for row in body[1:]} == wanted
    records = {r["spec"]: r for r in report.json_records(found)}
    assert {name: records[name]["verdict"] for name in wanted} == wanted
    assert records["sinusoidal"]["verdict"] == "reference"
    for name, code in wanted.items():
        assert records[name]["conclusion"].startswith(f"{code.upper()}. ")
    write_summary(Store(tmp_path), found)
    (saved,) = json.loads((tmp_path / "summary.json").read_text())["datasets"]
    assert saved["verdicts"] == wanted
    text = (tmp_path / "summary.md").read_text()
    assert headline in text.replace("\\", "")
    for name, code in wanted.items():
        assert f"\n| {name} | {code} | " in text


def test_every_word_is_filled_and_short():
    for case, (rows, _, _) in CASES.items():
        found = summary.summarize_runs(rows)
        lines = [*report.said_first(found), *report.sentences(found)]
        lines += [r["conclusion"] for r in report.json_records(found)]
        for line in lines:
            assert not re.search(r"nan|None|[{}]", line), (case, line)
        printed = report.conclude_all(found) + report.summary_page(found).words().split("\n\n")[0]
        assert len(report.conclude_all(found).split()) <= 120, printed
    known = read_toml(report.WORDS)
    assert {*known["verdicts"]} == {*summary.VERDICTS, "reference", "alone"}
    reached = {summary.summarize_runs(rows).verdict for rows, _, _ in CASES.values()} | {"alone"}
    assert {*known["all"]} == reached


def test_a_difference_is_judged_by_the_interval_that_is_shown():
    """By one test: significant where, before Holm, 0 is outside."""
    for rows, _, _ in CASES.values():
        for d in summary.summarize_runs(rows).datasets[0].differences.values():
            assert (d.p < 0.05) == (d.low > 0 or d.high < 0)


def test_too_few_says_what_it_takes_as_it_is_typed():
    rows = [{**row, "fold": 0} for row in of_folds(dict.fromkeys(ARMS, 0.5), 30, 0.1)]
    few = [row for i, row in enumerate(rows) if i % 5 == 0 and row["seed"] < 5]
    found = summary.summarize_runs(few)
    needed = {d.needed for d in found.datasets[0].differences.values()}
    (seeds,) = re.findall(r"Give --seeds (\d+) or more", report.conclude_datasets(found)[0])
    assert int(seeds) == max(needed)
    assert {d.over for d in found.datasets[0].differences.values()} == {"runs"}
    assert any("one fold" in line for line in report.sentences(found))


def test_the_best_is_named_with_those_that_are_not_told_apart_from_it():
    found = summary.summarize_runs(of_folds({**ARMS, "xpos": 0.699}))
    assert set(found.datasets[0].best) == {"dft", "xpos"}
    assert "not told apart from it" in report.conclude_datasets(found)[0]
    found = summary.summarize_runs(of_folds({**ARMS, "order-free": 0.9}))
    assert found.datasets[0].best == ("dft",)  # another model is no encoding
    found = summary.summarize_runs(of_folds(ARMS, step=cut("dft")))
    assert set(found.datasets[0].best) == {"sinusoidal", "t5"}


@pytest.mark.parametrize("case", CASES)
def test_what_a_verdict_tells_from_the_best_is_not_said_to_be_alike(case):
    (one,) = summary.summarize_runs(CASES[case][0]).datasets
    if one.best:
        first, *alike = one.best
        for name in alike:
            pair = {first, name}
            judged = {e for e, d in one.differences.items() if {e, d.reference} == pair}
            assert not judged or one.verdicts[judged.pop()] not in ("better", "worse")


def test_one_encoding_alone_has_scores_and_no_differences():
    found = summary.summarize_runs(of_folds({"dft": 0.5}))
    assert (found.verdict, found.datasets[0].differences) == ("alone", {})
    assert report.json_records(found)[0]["verdict"] == "alone"
    assert "less dft" not in report.as_markdown(found)


def test_few_runs_have_but_their_range():
    for n in (2, 3, 4):
        rows = [result("dft", seed / 10, seed=seed) for seed in range(n)]
        found = summary.summarize_runs(rows)
        mean = found.datasets[0].scores["dft"]["f1"]
        assert (mean.low, mean.high) == pytest.approx((0, (n - 1) / 10), abs=0.03)
        assert report.words("notes", "range", n=n) in report.sentences(found)
        assert f"mean [range] over {n} seeds" in report.scores_title(found.datasets[0])
        drawn = comparison(found).axes[0].get_xlabel()
        assert drawn.replace("\n", " ").endswith("mean with range")


def test_one_run_has_no_interval_and_no_test():
    found = summary.summarize_runs(of_datasets(1, {"sinusoidal": 0.5, "dft": 0.6}))
    (one,) = found.datasets
    assert one.verdicts == {"dft": "too few"}
    (_, record) = json.loads(as_json(report.summary_page(found)))["results"]
    assert record["f1"] == {"mean": 0.6, "low": None, "high": None}
    assert (record["difference"]["p"], record["difference"]["p_holm"]) == (None, None)


def test_a_scaled_encoding_is_compared_at_its_size():
    scores = {"sinusoidal": 0.5, "dft@rms=1": 0.6, "sinusoidal@rms=1": 0.1}
    rows = [result(e, v, seed=seed) for e, v in scores.items() for seed in range(2)]
    found = summary.summarize_runs(rows)
    apart = found.datasets[0].differences
    assert apart["dft@rms=1"].mean == pytest.approx(0.5)
    assert apart["sinusoidal@rms=1"].mean == pytest.approx(-0.4)
    assert "difference from sinusoidal at the same rms" in report.as_markdown(found)


def test_average_ranks_over_datasets_and_who_is_not_told_apart(tmp_path):
    rows = [
        result(e, v, dataset=name, seed=seed, split="random", leaky=True)
        for name in ("one", "two")
        for e, v in (("sinusoidal", 0.5), ("dft", 0.6), ("none", 0.1))
        for seed in range(2)
    ]
    found = summary.summarize_runs(rows)
    assert found.ranks == {"sinusoidal": 2.0, "dft": 1.0, "none": 3.0}
    assert found.cliques == (("dft", "sinusoidal", "none"),)
    title = critical_difference(found).axes[0].get_title()
    assert title.startswith("average rank by F1 over 2 datasets, leaky split\n")
    eight = summary.summarize_runs(of_datasets(8, {"sinusoidal": 0.5, "dft": 0.6}))
    assert eight.cliques == ()
    write_summary(Store(tmp_path), eight)
    assert (tmp_path / "critical-difference.png").is_file()
    five = {"sinusoidal": 0.5, "dft": 0.6, "none": 0.1, "rope": 0.2, "t5": 0.3}
    assert "5 encodings .05" in summary.summarize_runs(of_datasets(8, five)).out_of_reach


def test_encodings_that_not_all_datasets_have_get_no_rank_and_ties_share_theirs():
    one, two = {"sinusoidal": 0.5, "dft": 0.5, "rope": 0.4}, {"dft": 0.6, "sinusoidal": 0.2}
    rows = [result(e, v, dataset=d) for d, own in (("a", one), ("b", two)) for e, v in own.items()]
    found = summary.summarize_runs(rows)
    assert found.ranks == {"sinusoidal": 1.75, "dft": 1.25}
    assert not summary.summarize_runs([r for r in rows if r["dataset"] == "a"]).ranked


def test_runs_that_diverge_are_scored_and_said():
    found = run_comparison(Options(**{**SMALL, "encoding": ("none", "sinusoidal"), "rate": 1e30}))
    assert found.datasets[0].diverged == {"none": 2, "sinusoidal": 2}
    assert sum("diverged" in line for line in report.sentences(found)) == 2
    assert [record["diverged"] for record in report.json_records(found)] == [2, 2]


def test_records_hold_each_encodings_scores_and_its_difference():
    found = report.json_records(run_comparison(Options(**{**SMALL, "match_rms": (0.5,)})))
    assert [(r["encoding"], r["spec"]) for r in found] == [
        ("none", "none"),
        ("sinusoidal", "sinusoidal"),
        ("t5", "t5"),
        ("sinusoidal", "sinusoidal@rms=0.5"),
        ("order-free", "order-free"),
    ]
    t5 = {"length": 6, "d": 2, "seed": 0, "buckets": 32}
    assert t5.items() <= found[2]["params"].items()
    assert found[3]["params"] == {"rms": 0.5, **found[1]["params"]}
    assert found[4]["params"] == {}
    assert {"epochs": 2, "batch_size": 8, "inject": "add"}.items() <= found[0]["training"].items()
    assert not found[0]["training"].keys() & {*NOT_NUMBERS, "dataset", "encoding", "seeds"}
    assert found[1]["difference"] is None
    for record in found[2:]:  # of one look
        assert record["verdict"] == "cut short"
        assert record["cut_short"] == (record["last_kept"] * 5 > 2)
    assert found[2]["difference"]["mean"] == pytest.approx(
        found[2]["f1"]["mean"] - found[1]["f1"]["mean"]
    )


def test_a_method_fitted_once_a_fold_counts_its_folds(rng):
    """It is compared with the mean of an encoding's runs in each fold."""
    f1 = {e: rng.uniform(0.4, 0.9, (4, 5)) for e in ("sinusoidal", "dft")}
    f1["trees"] = np.tile(rng.uniform(0.8, 0.9, 5), (4, 1))
    rows = [
        result(e, f1[e][seed, fold], seed=seed, fold=fold)
        for e, seed, fold in product(f1, range(4), range(5))
    ]
    (one,) = summary.summarize_runs(rows).datasets
    apart = f1["trees"][0] - f1["sinusoidal"].mean(axis=0)
    found = one.differences["trees"]
    assert one.scores["trees"]["f1"] == statistics.interval(f1["trees"][0])
    assert (found.mean, found.units, found.over) == (pytest.approx(apart.mean()), 5, "folds")
    assert found.p == pytest.approx(statistics.t_test(apart, statistics.TEST_TO_TRAIN, 60)[0])
    once = [row for row in rows if row["encoding"] != "trees" or row["seed"] == 0]
    assert summary.summarize_runs(once).datasets[0].differences == one.differences


@pytest.mark.parametrize("share", [0.19, 0.21])
def test_more_than_a_fifth_of_runs_that_keep_their_last_weights_are_too_many(share):
    rows = [
        result("dft", 0.5, seed=seed, step=90 if seed < 100 * share else 40, budget=BUDGET)
        for seed in range(100)
    ]
    (one,) = summary.summarize_runs(rows).datasets
    assert one.last_kept == {"dft": round(100 * share)}
    assert one.cut_short == (("dft",) if share > 0.2 else ())
    assert one.longer == "--steps, such as 180"
    trees = [row | {"encoding": "trees", "step": 90} for row in rows]
    assert summary.summarize_runs(trees).datasets[0].cut_short == ()


FIGURES = Path(__file__).parents[2] / "figures"
COMMITTED = sorted(str(path.parent.relative_to(FIGURES)) for path in FIGURES.rglob("results.jsonl"))


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_summaries_follow_from_their_rows(name):
    folder = FIGURES / name
    saved = json.loads((folder / "summary.json").read_text())
    params = {one["dataset"]: one["params"] for one in saved["datasets"]}
    classes = {
        one["dataset"]: [row["class"] for row in next(iter(one["per_class"].values()))]
        for one in saved["datasets"]
    }
    rows = read_rows(folder / "results.jsonl")
    found = summary.summarize_runs(rows, params, saved["training"], classes)
    whole = plain({key: value for key, value in asdict(found).items() if key != "runs"})
    counts = ("runs", "diverged", "last_kept", "cut_short", "verdicts", "best")
    for old, new in zip(saved["datasets"], whole["datasets"], strict=True):
        assert {key: old[key] for key in counts} == {key: new[key] for key in counts}
    assert (folder / "summary.md").read_text() == report.as_markdown(found)


def test_what_is_classified_has_its_name():
    (one,) = summary.summarize_runs([result("none", 0.5)]).datasets
    assert one.inputs == "windows of 9 rows"
    assert replace(one, dataset="digits").inputs == "pictures of 8x8 points"
    assert replace(one, dataset="grid:width=9").inputs == "pictures of 5x9 points"
    assert replace(one, shortest=3).inputs == "series of 3 to 9 rows"


@pytest.mark.parametrize(("classes", "positive"), [(2, "b"), (2, None), (3, None), (5, None)])
def test_chance_is_what_naming_one_class_always_scores(rng, classes, positive):
    labels = np.append(rng.choice(classes, 60, p=rng.dirichlet(np.ones(classes))), range(classes))
    macro = positive is None
    named = np.bincount(labels).argmax() if macro else 1
    constant = np.eye(classes)[np.full(len(labels), named)]
    table = metrics.count_confusions(constant.argmax(axis=1), labels, classes)
    row = result("none", 0.5, confusion=table.tolist(), positive=positive)
    (one,) = summary.summarize_runs([row]).datasets
    found, kept = report.chance_scores(one), np.zeros((len(labels), classes))
    scores = metrics.score(kept, labels, constant, labels, macro)
    if macro:
        assert {k: v for k, v in found.items() if k != "auprc"} == pytest.approx(
            {k: v for k, v in asdict(scores).items() if k != "auprc"}
        )
    else:
        share = labels.mean()
        assert found["f1"] == pytest.approx(2 * share / (1 + share))

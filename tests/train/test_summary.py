"""The answer in words, tables and records."""

import json
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from training import SMALL, in_lines, of_datasets, result

from pefourier.answers.forms import as_json
from pefourier.answers.training_figures import comparison, critical_difference
from pefourier.train import metrics, power, report, statistics, summary
from pefourier.train.conclusion import conclude_training, verdict_on
from pefourier.train.options import Options
from pefourier.train.run import run_comparison, write_summary
from pefourier.train.schema import NOT_NUMBERS
from pefourier.train.store import Store, read_rows
from pefourier.writing.page import plain


def of_folds(f1, auprc):
    """Eight seeds with the F1 and AUPRC given for each of five folds, beside .5 of sinusoidal."""
    return [
        result(e, a, auprc=b, seed=seed, fold=fold)
        for e, each in (("sinusoidal", [(0.5, 0.5)] * 5), ("dft", zip(f1, auprc, strict=True)))
        for fold, (a, b) in enumerate(each)
        for seed in range(8)
    ]


def test_what_one_fold_denies_is_said_of_these_windows():
    same, one_off = [0.6, 0.61, 0.62, 0.61, 0.6], [0.6, 0.61, 0.45, 0.61, 0.62]
    found = summary.summarize_runs(of_folds(same, [0.5] * 5))
    assert verdict_on(found.datasets[0], "dft") == (
        "That is better than sinusoidal (difference +0.108, Holm p 1e-05)."
    )
    found = summary.summarize_runs(of_folds(one_off, same))
    said = "That is better than sinusoidal on these windows; others may differ (difference +0.078,"
    assert verdict_on(found.datasets[0], "dft").startswith(said)
    assert "over folds: 95 % interval by Student's t" in in_lines(found)
    title, (head, row) = report.tables(found)[2]
    assert title == "one, difference from sinusoidal"
    assert (head[-2:], row[0]) == (["AUPRC", "Holm p"], "dft")
    (one,) = found.datasets
    f1, ap = one.differences["dft"], one.auprc_differences["dft"]
    assert row[1:7] == [
        "better here",
        f"+0.078 [{f1.low:+.3f}, {f1.high:+.3f}]",
        "[-0.068, +0.224]",
        f"{f1.p:.3g}",
        f"{f1.p_holm:.3g}",
        "0.80",
    ]
    assert row[7:] == [f"+0.108 [{ap.low:+.3f}, {ap.high:+.3f}]", f"{ap.p_holm:.3g}"]
    found = summary.summarize_runs(of_folds([0.5] * 5, one_off))
    said = "; by AUPRC it is better (+0.078, Holm p 1e-05)."
    assert verdict_on(found.datasets[0], "dft").endswith(said)
    (_, (_, row)) = report.tables(found)[2]
    assert (row[1], row[5], row[8]) == (
        "better by AUPRC",
        "1",
        "1e-05",
    )  # Holm p of F1 and of AUPRC
    (record,) = [r for r in report.json_records(found) if r["encoding"] == "dft"]
    assert record["difference"]["mean"] == 0
    assert record["auprc_difference"]["mean"] == pytest.approx(0.078)


def test_what_times_and_lengths_are_for_is_in_the_summary():
    runs = of_folds([0.6] * 5, [0.5] * 5)
    found = summary.summarize_runs([one | {"shortest": 3, "uneven": True} for one in runs])
    assert f"one, series of 3 to {runs[0]['length']} rows: mean" in in_lines(found)
    said = "one: times order the rows; models see their order alone, not how far apart they are"
    assert said in report.sentences(found)
    plain = summary.summarize_runs(runs)
    assert not [one for one in report.sentences(plain) if "times order" in one]
    assert plain.datasets[0].inputs == f"windows of {runs[0]['length']} rows"


def kept(epochs, **last):
    """Ten runs in five folds of each encoding, .2 above sinusoidal, so many of the last epoch."""
    return [
        result(
            e,
            0.5 if e == "sinusoidal" else 0.7,
            seed=i // 5,
            fold=i % 5,
            epoch=epochs if i < last.get(e, 0) else 3,
        )
        for e in ("sinusoidal", "dft", "rope")
        for i in range(10)
    ]


def test_where_training_was_cut_short_that_comes_first_and_there_is_no_verdict(tmp_path):
    found = summary.summarize_runs(kept(9, dft=3, rope=2), training={"epochs": 9})
    said = (
        "Training was cut short on one: dft (3 of 10 runs). They kept the last of 9 epochs and may "
        "not have converged, so there is no verdict on them; give more --epochs.\n"
    )
    verdict = "BETTER. Compared with sinusoidal by F1, better: rope (+0.200)."
    told = " ".join(report.conclude_all(found).split())
    assert told.startswith(verdict)
    assert told.endswith(said.strip())
    text = report.as_markdown(found)
    assert text.startswith(f"# Encodings compared\n\n{verdict} Take it for data like these.\n")
    assert f"\n\n{said}\n| P / R / F1 |" in text
    assert "\n| dft | cut short | +0.200" in text
    assert "\n| rope | better | +0.200" in text
    _, dft, rope = report.json_records(found)
    assert (dft["cut_short"], dft["last_kept"], rope["cut_short"]) == (True, 3, False)
    assert dft["verdict"].startswith("Its training was cut short, so there is no verdict on it")
    assert rope["last_kept"] == 2
    write_summary(Store(tmp_path), found)
    (saved,) = json.loads((tmp_path / "summary.json").read_text())["datasets"]
    assert (saved["cut_short"], saved["last_kept"]) == (["dft"], {"dft": 3, "rope": 2})
    assert saved["runs"] == {"sinusoidal": 10, "dft": 10, "rope": 10}
    found = summary.summarize_runs(kept(9, sinusoidal=3), training={"epochs": 9})
    for name in ("dft", "rope"):
        words = verdict_on(found.datasets[0], name)
        assert words == (
            "There is no verdict, because sinusoidal, with which it is compared, was trained too "
            "briefly: give more --epochs."
        )
    title = report.tables(found)[1][0]
    assert title.endswith("over 2 seeds × 5 folds; cut short, without a verdict: sinusoidal")
    for epochs, said in ((None, "--steps, such as 1000"), (9, "--epochs, such as 250")):
        rows = [
            {**row, "budget": {"epochs": 9, "patience": 0, "steps": 4}} for row in kept(9, dft=9)
        ]
        (said_of_all,) = report.remarks_on_cuts(
            summary.summarize_runs(rows, training={"epochs": epochs})
        )
        assert said_of_all.endswith(f"give more {said}.")
    for training in ({}, {"epochs": 12}):
        rows = [row | {"falling": False} for row in kept(9, dft=10)]
        found = summary.summarize_runs(rows, training=training)
        assert "cut short" not in report.conclude_all(found) + in_lines(found)
    twice = [{**row, "dataset": name} for name in ("a", "b") for row in kept(9, dft=3)]
    (said,) = report.remarks_on_cuts(summary.summarize_runs(twice, training={"epochs": 9}))
    assert said.startswith("Training was cut short on a: dft (3 of 10 runs); b: dft (3 of 10 runs)")


def test_an_arm_that_lost_patience_while_it_still_learned_was_cut_short_too():
    budget = {"epochs": 40, "patience": 5, "steps": 3}
    rows = [{**row, "budget": budget, "falling": False} for row in kept(9)]
    for row in rows:
        row["falling"] = row["encoding"] == "rope" and row["seed"] == 0
    found = summary.summarize_runs(rows)
    assert found.datasets[0].cut_short == ("rope",)
    assert report.remarks_on_cuts(found) == [
        "Training was cut short on one: rope (5 of 10 runs). They stopped while the loss was still "
        "falling and may not have converged, so there is no verdict on them; give more "
        "--patience-steps."
    ]
    told = verdict_on(found.datasets[0], "rope")
    assert "Its training was cut short, so there is no verdict on it; give more --patience" in told
    text = in_lines(found)
    assert (
        "one: a run lasts at most 40 epochs (120 steps) and stops after 5 epochs (15 steps) without"
        in text
    )
    (record,) = [r for r in report.json_records(found) if r["spec"] == "rope"]
    assert (record["falling"], record["budget"], record["cut_short"]) == (5, budget, True)


@pytest.mark.parametrize("lacking", [["dft"], ["sinusoidal", "dft"], ["rope"]])
def test_arms_of_two_versions_are_judged_cut_short_by_one_rule(lacking):
    """Rope lost patience too soon, and nobody knows whether those that record nothing did."""
    rows = [row | {"falling": row["encoding"] == "rope"} for row in kept(9, dft=3)]
    for row in rows:
        if row["encoding"] in lacking:
            del row["falling"]
    found = summary.summarize_runs(rows, training={"epochs": 9})
    assert found.datasets[0].cut_short == ("dft",)
    known = lacking != ["rope"]
    assert found.datasets[0].falling == ({"rope": 10} if known else {})
    told = in_lines(found)
    assert report.LAST_EPOCH_ALONE in told
    assert ("rope (10 of 10 runs) stopped while it fell" in told) == known


def test_other_methods_have_no_patience_to_record():
    rows = [row | {"falling": row["encoding"] == "rope"} for row in kept(9)]
    rows += [row | {"encoding": "trees"} for row in kept(9) if row["encoding"] == "dft"]
    found = summary.summarize_runs(rows)
    assert found.datasets[0].cut_short == ("rope",)
    assert report.LAST_EPOCH_ALONE not in in_lines(found)


def test_arms_that_were_cut_short_are_in_no_clique():
    rows = [{**row, "dataset": name} for name in ("one", "two") for row in kept(9, dft=3)]
    text = in_lines(summary.summarize_runs(rows, training={"epochs": 9}))
    assert "correction, no significant difference among rope, sinusoidal (with 2 datasets" in text


def test_with_one_fold_the_words_are_the_weakest():
    rows = [{**row, "seed": row["seed"] * 5 + row["fold"], "fold": 0} for row in kept(9)]
    found = summary.summarize_runs(rows)
    text = in_lines(found)
    assert "better than sinusoidal on these windows; others" in verdict_on(found.datasets[0], "dft")
    assert "with one fold a difference is known on these test windows only" in text
    assert "with one fold" not in in_lines(summary.summarize_runs(kept(9)))


def test_one_encoding_alone_has_scores_and_no_differences():
    rows = [row for row in of_folds([0.5] * 5, [0.5] * 5) if row["encoding"] == "dft"]
    text = in_lines(summary.summarize_runs(rows))
    assert "over 8 seeds × 5 folds" in text
    assert "over folds" not in text
    assert "less dft" not in text


def test_few_runs_have_but_their_range():
    rows = [row for row in of_folds([0.6] * 5, [0.6] * 5) if row["fold"] == 0]
    for n, share in ((2, 50), (3, 75), (4, 88)):
        few = [{**row, "f1": row["seed"] / 10} for row in rows if row["seed"] < n]
        found = summary.summarize_runs(few)
        mean = found.datasets[0].scores["dft"]["f1"]
        assert (mean.low, mean.high) == pytest.approx((0, (n - 1) / 10), abs=0.03)
        said = f"with {n} runs an interval is just their range, which contains the true mean "
        said += f"{share} % of the time"
        assert said in in_lines(found)
        assert f"mean [range] over {n} seeds × 1 fold" in in_lines(found)
        assert "95 %" not in in_lines(found)
        assert "(range 0" in conclude_training(found.datasets[0], "dft")
        drawn = comparison(found).axes[0].get_xlabel()
        assert drawn.replace("\n", " ").endswith("mean with range")
    assert "just their range" not in in_lines(summary.summarize_runs(rows))
    assert "mean [95 %] over 8 seeds" in in_lines(summary.summarize_runs(rows))


def test_one_run_has_no_interval():
    found = summary.summarize_runs(of_datasets(1, {"sinusoidal": 0.5, "dft": 0.6}))
    assert verdict_on(found.datasets[0], "dft") == (
        "With so few runs no difference from sinusoidal can be significant (difference +0.100, "
        "Holm p 1); give --seeds 6 or more, or --resamples of data with a test part."
    )
    assert json.loads(as_json(report.summary_page(found)))["results"][0]["f1"] == {
        "mean": 0.5,
        "low": None,
        "high": None,
    }


def test_all_told_apart_is_an_answer_too(tmp_path):
    found = summary.summarize_runs(of_datasets(8, {"sinusoidal": 0.5, "dft": 0.6}))
    assert found.cliques == ()
    text = in_lines(found)
    assert "average ranks by F1 over 8 datasets" in text
    assert "Holm's correction, all differ significantly\n" in text
    write_summary(Store(tmp_path), found)
    assert (tmp_path / "critical-difference.png").is_file()


def test_whether_cliques_could_be_told_apart_counts_all_pairs():
    five = {"sinusoidal": 0.5, "dft": 0.6, "none": 0.1, "rope": 0.2, "t5": 0.3}
    assert "5 encodings .05 is out of reach" in in_lines(
        summary.summarize_runs(of_datasets(8, five))
    )


def test_a_scaled_encoding_is_compared_at_its_size():
    rows = [
        result(e, v, seed=seed)
        for e, v in (("sinusoidal", 0.5), ("dft@rms=1", 0.6), ("sinusoidal@rms=1", 0.1))
        for seed in range(2)
    ]
    apart = summary.summarize_runs(rows).datasets[0].differences
    assert apart["dft@rms=1"].mean == pytest.approx(0.5)
    assert apart["sinusoidal@rms=1"].mean == pytest.approx(-0.4)
    text = in_lines(summary.summarize_runs(rows))
    told = verdict_on(summary.summarize_runs(rows).datasets[0], "dft@rms=1")
    assert "from sinusoidal@rms=1 can be significant (difference +0.500" in told
    assert "one, difference from sinusoidal at the same rms\n" in text


def test_average_ranks_over_datasets_and_who_is_not_told_apart():
    rows = [
        result(e, v, dataset=name, seed=seed, split="random", leaky=True)
        for name in ("one", "two")
        for e, v in (("sinusoidal", 0.5), ("dft", 0.6), ("none", 0.1))
        for seed in range(2)
    ]
    found = summary.summarize_runs(rows)
    assert found.ranks == {"sinusoidal": 2.0, "dft": 1.0, "none": 3.0}
    assert found.cliques == (("dft", "sinusoidal", "none"),)
    text = in_lines(found)
    assert "one, leaky split" in text
    assert "average ranks by F1 over 2 datasets, leaky split" in text
    assert "average ranks over 2 datasets, leaky split: rank 1 has the highest mean F1" in text
    figure = critical_difference(found)
    title = figure.axes[0].get_title()
    assert title.startswith("average rank by F1 over 2 datasets, leaky split\n")
    assert "do not carry over to new data" in text
    assert "no significant difference among dft, sinusoidal, none (with 2 datasets for 3" in text
    assert "encodings .05" in text


def test_encodings_that_not_all_datasets_have_get_no_rank_and_ties_share_theirs():
    one, two = {"sinusoidal": 0.5, "dft": 0.5, "rope": 0.4}, {"dft": 0.6, "sinusoidal": 0.2}
    rows = [result(e, v, dataset=d) for d, own in (("a", one), ("b", two)) for e, v in own.items()]
    found = summary.summarize_runs(rows)
    assert found.ranks == {"sinusoidal": 1.75, "dft": 1.25}
    text = in_lines(found)
    assert "equal means share the mean of their ranks" in text
    alone = summary.summarize_runs([row for row in rows if row["dataset"] == "a"])
    assert "rank" not in in_lines(alone)


def test_runs_that_diverge_are_scored_and_said():
    found = run_comparison(Options(**{**SMALL, "encoding": ("none", "sinusoidal"), "rate": 1e30}))
    said = ", none: 2 runs diverged at once; these scores are of untrained weights; a smaller"
    assert said in in_lines(found)
    assert [record["diverged"] for record in report.json_records(found)] == [2, 2]
    fine = run_comparison(Options(**{**SMALL, "encoding": ("none",)}))
    assert "diverged" not in in_lines(fine)
    assert report.json_records(fine)[0]["diverged"] == 0


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
    assert found[0]["training"] == {
        "epochs": 2,
        **dict.fromkeys(("steps", "patience_steps", "patience", "resamples")),
        "batch_size": 8,
        "rate": 3e-3,
        "code_rate": None,
        "warmup": 0,
        "weight_decay": 0.0,
        "dropout": 0.0,
        "search": (),
        "d": 8,
        "heads": 2,
        "layers": 1,
        "ffn": None,
        "pool": "mean",
        "patch": 1,
        "patch_stride": None,
        "tokens": None,
        "learn": False,
        "refit": False,
        "spread": 0.064,
        "find": None,
        "test_length": None,
        "choice": "highest score on validation (average precision; of more than two classes macro "
        "F1), then least loss",
        "size": "@rms: of codes less their mean over positions",
        "codes": "learn ten times as fast as the rest, unless --code-rate says otherwise",
    }
    assert found[1]["difference"] is None
    assert found[2]["difference"]["p_floor"] == 0.5
    assert found[1]["verdict"] is None
    assert found[1]["power"] is None
    could = found[2]["power"]
    assert (could["runs"], could["claimed"]) == (2, 0.01)
    assert could["foretold"] == pytest.approx(power.detectable_difference(0.064, 2))
    for record in found[2:]:  # of two epochs
        assert ("no verdict" in record["verdict"]) >= record["cut_short"]
        assert record["cut_short"] == ((record["last_kept"] + record["falling"]) * 5 > 2)
    assert found[2]["difference"]["mean"] == pytest.approx(
        found[2]["f1"]["mean"] - found[1]["f1"]["mean"]
    )


def test_a_method_fitted_once_a_fold_counts_its_folds(rng):
    """Twenty runs of five scores each told four times are five."""
    f1 = {e: rng.uniform(0.4, 0.9, (4, 5)) for e in ("sinusoidal", "dft")} | {
        "trees": np.tile(rng.uniform(0.8, 0.9, 5), (4, 1))
    }
    rows = [
        result(e, f1[e][seed, fold], seed=seed, fold=fold)
        for e, seed, fold in product(f1, range(4), range(5))
    ]
    (one,) = summary.summarize_runs(rows).datasets
    apart = f1["trees"][0] - f1["sinusoidal"].mean(axis=0)
    found, could = one.differences["trees"], one.power["trees"]
    assert one.scores["trees"]["f1"] == statistics.interval(f1["trees"][0])
    assert (found.mean, found.p_floor) == (pytest.approx(apart.mean()), 2**-4)
    assert (found.p, found.better) == (statistics.sign_flip(apart), (apart > 0).mean())
    assert (could.runs, could.claimed_runs) == (5, None)
    assert could.spread == pytest.approx(apart.std(ddof=1))
    assert one.differences["dft"].p_floor == 1 / 100_001
    once = [row for row in rows if row["encoding"] != "trees" or row["seed"] == 0]
    assert summary.summarize_runs(once).datasets[0].differences == one.differences
    said = conclude_training(one, "trees")
    assert "over 5 runs. With one run in each of 5 folds no difference from sinusoidal can" in said


FIGURES = Path(__file__).parents[2] / "figures"


@pytest.mark.parametrize("name", ["window-100", "leaky-100", "nested/window-100"])
def test_committed_summaries_are_of_their_settings(name):
    saved = json.loads((FIGURES / name / "summary.json").read_text())
    config = json.loads((FIGURES / name / "config.json").read_text())
    kept = {key: value for key, value in saved["training"].items() if key not in NOT_NUMBERS}
    assert kept | config == config


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
    counts = ("runs", "diverged", "last_kept", "falling", "cut_short")
    for old, new in zip(saved["datasets"], whole["datasets"], strict=True):
        assert {key: old[key] for key in counts} == {key: new[key] for key in counts}
    text = (folder / "summary.md").read_text()
    assert text == report.as_markdown(found)
    first = text[text.index("| P / R / F1") : text.index("\n## ")]
    assert first.count("†") == sum(len(one.cut_short) for one in found.datasets)


def test_what_is_classified_has_its_name():
    (one,) = summary.summarize_runs([result("none", 0.5)]).datasets
    assert one.inputs == "windows of 9 rows"
    assert replace(one, dataset="digits").inputs == "pictures of 8x8 points"
    assert replace(one, dataset="grid:width=9").inputs == "pictures of 5x9 points"


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_chance_is_what_naming_one_class_always_scores(rng, classes):
    labels = np.append(rng.choice(classes, 60, p=rng.dirichlet(np.ones(classes))), range(classes))
    named = 1 if classes == 2 else np.bincount(labels).argmax()
    constant = np.eye(classes)[np.full(len(labels), named)]
    table = metrics.count_confusions(constant.argmax(axis=1), labels, classes)
    answer = summary.summarize_runs([result("none", 0.5, confusion=table.tolist())])
    found = report.chance_scores(answer.datasets[0])
    each = [(named == c, labels == c) for c in range(classes)][1 if classes == 2 else 0 :]
    by_class = [metrics.precision_recall_f1(np.full(len(labels), said), own) for said, own in each]
    for name, value in zip(("precision", "recall", "f1"), np.mean(by_class, axis=0), strict=True):
        assert found[name] == pytest.approx(value)
    assert found["accuracy"] == pytest.approx((labels == named).mean())
    areas = [metrics.average_precision(np.zeros(len(labels)), own) for _, own in each]
    assert found["auprc"] == pytest.approx(np.mean(areas))
    assert report.tables(answer)[1][1][-1][0] == (
        "(always positive)" if classes == 2 else "(always the commonest)"
    )


@pytest.mark.parametrize(("seconds", "told"), [(0.2, "1 second"), (89, "89 s"), (125, "2 minutes")])
def test_time_is_told_in_a_fitting_unit_and_of_a_step(seconds, told):
    rows = [
        result("none", 0.5, seconds=seconds, step_seconds=0.002),
        result("rope", 0.5, seconds=0),
    ]
    (line,) = report.remarks_on_time(summary.summarize_runs(rows))
    assert line.startswith(f"all runs together took, on one {told}")
    assert line.endswith(" (a step of one of them 2 ms)")

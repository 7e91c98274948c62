"""The best encoding is decided once, and no statement contradicts the decision."""

import re

import numpy as np
import pytest
from scipy import stats
from training import of_datasets, result

from pefourier.report.forms import as_json
from pefourier.train import report, statistics
from pefourier.train.statistics import Chance

ARMS = ("none", "sinusoidal", "dft", "rope", "t5", "learned")
OTHERS = ("dft@rms=0.5", "sinusoidal@rms=0.5", "order-free", "trees")
SIDES = {"better", "worse"}


def drawn_rows(rng):
    """Draw runs of some encodings on one to three datasets, with any spread, split and end."""
    names = [str(e) for e in rng.permutation(ARMS)[: rng.integers(1, 7)]]
    names += [e for e in OTHERS if rng.random() < 0.3]
    rows = []
    for dataset in "abc"[: rng.choice((1, 1, 1, 2, 3))]:
        folds, seeds = rng.choice(((1, 6), (5, 2), (10, 1), (3, 2)))
        windows, trained = rng.choice(((40, 120), (600, 60), (400, 1200)))
        level = {e: rng.choice((0.5, 0.7, 0.72, 0.9)) for e in names}
        spread, leaky = rng.choice((0.003, 0.02, 0.1)), bool(rng.random() < 0.05)
        cut = {e: rng.random() < 0.1 for e in names}
        rare = rng.choice((2, 100, 100))
        for e in names:
            for seed in range(1 if e == "trees" else seeds):
                for fold in range(folds):
                    f1 = float(np.clip(rng.normal(level[e], spread), 0, 1))
                    right = round(windows * f1 / 2)
                    table = [[right, windows // 2 - right], [rare // 2, rare - rare // 2]]
                    rows.append(
                        result(e, f1, dataset=dataset, seed=seed, fold=fold, leaky=leaky)
                        | {"confusion": table, "windows": int(windows), "trained": int(trained)}
                        | {"step": 90 if cut[e] else 40, "budget": {"steps": 90}}
                    )
    return rows


def check_dataset(found, data):
    """The headline of a dataset agrees with each cell, difference and score."""
    text = report.conclude_dataset(found, data)
    f1 = {e: scores["f1"].mean for e, scores in data.scores.items()}
    assert text.startswith(f"{data.verdict.upper()}. ")
    assert data.verdict in statistics.SENTENCES["ON_SEVERAL"]
    assert not re.search(r"nan|None|[{}]", text)
    if data.leaky:
        assert (data.verdict, data.best) == ("leaky", ())
        assert {*data.verdicts.values()} <= {"leaky"}
        return
    judged = [*data.best, *data.worse]
    if data.verdict == "cut short":
        assert "cut short" in data.left_out.values()
        assert len(data.best) < 2
    else:
        assert sorted([*judged, *data.left_out]) == sorted(f1)
    assert set(data.cut_short) <= set(data.left_out)
    if len(judged) < 2:
        assert data.verdict in ("alone", "cut short")
        return
    top = data.best[0]
    assert f1[top] == max(f1[e] for e in judged)
    assert f"{report.named(top)} has the highest mean F1, {f1[top]:.3f}" in text
    sides = {"best": (1, True), "tied": (2, True)}.get(data.verdict)
    assert sides is None or (min(len(data.best), 2), bool(data.worse)) == sides
    assert sides is not None or not data.worse
    vectors = {
        e: data.verdicts[e] for e, d in data.differences.items() if {e, d.reference} <= {*judged}
    }
    if data.verdict == "no difference":
        assert set(vectors.values()) <= {"not shown"}
    if data.verdict == "too few":
        assert not set(vectors.values()) & SIDES
        short = data.shortage
        assert short.needed is None or short.units < max(short.needed, statistics.LEAST_UNITS)
    for e, code in vectors.items():
        pair = {e, data.differences[e].reference}
        if top in pair:  # the other of the pair is worse or tied
            (other,) = pair - {top}
            assert (other in data.worse) == (code in SIDES)
            assert code != ("worse" if e == top else "better")


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_is_stated_of_drawn_runs_contradicts(seed, monkeypatch):
    monkeypatch.setattr(
        statistics, "interval", lambda x: statistics.Mean(*map(float, (x.mean(), x.min(), x.max())))
    )
    rng, verdicts = np.random.default_rng(seed), set()
    for _ in range(50):
        found = statistics.summarize_runs(drawn_rows(rng))
        headline = report.conclude_all(found)
        assert headline.startswith(f"{found.verdict.upper()}. ")
        assert " ".join(report.summary_page(found).conclusion().split()) == headline
        for data in found.datasets:
            check_dataset(found, data)
        if len(found.datasets) == 1:
            (data,) = found.datasets
            several = len({d.reference for d in data.differences.values()}) > 1
            for row in report.answer_table(found)[1][1:]:
                d = data.differences.get(row[0])
                assert row[-1] == data.verdicts.get(row[0], "–")
                assert d is None or float(row[-3].split()[0]) == pytest.approx(d.mean, abs=6e-4)
                assert not several or row[-4] == (d.reference if d else "–")
            assert headline.startswith(report.conclude_dataset(found, data))
            assert (found.verdict, found.best, found.worse) == (data.verdict, data.best, data.worse)
        elif not found.best:
            assert set(found.verdict.split(" and ")) == {data.verdict for data in found.datasets}
        by_name = {data.dataset: data for data in found.datasets}
        for record in report.json_records(found):
            data = by_name[record["dataset"]]
            assert record["verdict"] == data.verdicts.get(record["spec"], record["verdict"])
            assert (record["dataset_verdict"], record["best"]) == (data.verdict, list(data.best))
            assert record["left_out"] == data.left_out.get(record["spec"])
        verdicts |= {data.verdict for data in found.datasets}
    assert {"best", "tied", "too few"} <= verdicts


@pytest.mark.parametrize(
    ("names", "judged"),
    [
        (("none", "dft", "dft@rms=1", "order-free", "trees"), {"none", "dft"}),
        (("dft", "rope@rms=1", "order-free"), {"dft", "rope@rms=1"}),
        (("dft@rms=1", "rope@rms=1", "trees"), {"dft@rms=1", "rope@rms=1"}),
        (("dft", "trees"), {"dft", "trees"}),  # nothing else to compare
    ],
)
def test_what_is_left_out_has_its_reason(names, judged):
    found, left_out = statistics.compared(names, {})
    assert (set(found), set(left_out)) == (judged, {*names} - judged)
    assert set(left_out.values()) <= set(statistics.KINDS)


def arms(rng, means):
    """Runs whose means are as said."""
    drawn = {e: rng.normal(0, 0.02, 8) for e in means}
    return {e: mean + drawn[e] - drawn[e].mean() for e, mean in means.items()}


def worse_of(runs):
    """What is worse by all pairs, differences from the first, and unlimited windows."""
    chance, others = Chance(np.zeros(8)), "bcd"
    found = statistics.compare_pairs(runs, [(e, "a") for e in others], chance)
    return set(
        statistics.decide(runs, dict(zip(others, found, strict=True)), chance, 0.1, {}).worse
    )


def test_what_is_worse_than_the_best_is_what_each_step_says(rng):
    """Steps as SciPy has them: of the table, of all other pairs, of the mean of the others."""
    verdicts = []
    for _ in range(60):
        means = {e: 0.8 + rng.choice((0, 0.02, 0.04)) + rng.normal(0, 0.003) for e in "abcd"}
        runs, top = arms(rng, means), max(means, key=means.get)
        p = {e: stats.ttest_rel(runs[e], runs["a"]).pvalue for e in "bcd"}
        step = dict(zip("bcd", statistics.holm([p[e] for e in "bcd"]), strict=True))
        expected = {e if means[e] < means["a"] else "a" for e in "bcd" if step[e] < 0.05}
        number = 1
        while True:
            left, new = [e for e in "abcd" if e not in expected], set()
            if "a" not in left:
                pairs = [(e, f) for e in left for f in left if means[e] < means[f]]
                level, number = 0.05 / max(len(pairs), 1), 2
                new = {e for e, f in pairs if stats.ttest_rel(runs[e], runs[f]).pvalue < level}
            elif top != "a":
                number = 3
                for e in {*left} - {"a"}:
                    rest = np.mean([runs[f] for f in left if f != e], axis=0)
                    less = stats.ttest_rel(runs[e], rest, alternative="less").pvalue
                    new |= {e} if less < 0.05 * statistics.SHARED / (len(left) - 1) else set()
            if not new:
                break
            verdicts.append(number)
            expected |= new
        assert worse_of(runs) == expected
    assert {2, 3} <= {*verdicts}


def test_ranks_decide_over_datasets_where_they_report_something():
    scores = {"sinusoidal": 0.9, "dft": 0.5, "order-free": 0.95}
    rows = of_datasets(9, scores)
    found = statistics.summarize_runs(rows)
    assert (found.verdict, found.best) == ("best", ("sinusoidal",))
    assert found.left_out == {"order-free": "baseline"}
    rows += [
        r | {"encoding": "rope"} for r in rows if r["encoding"] == "dft" and r["dataset"] != "set 0"
    ]
    found = statistics.summarize_runs(rows)
    assert found.left_out["rope"] == "not on all"
    records = [r for r in report.json_records(found) if r["spec"] == "sinusoidal"]
    assert {r["average_rank"] for r in records} == {2.0}
    assert as_json(report.summary_page(found))


def test_an_encoding_whose_vectors_collide_is_not_compared():
    """The encoding is marked, left out by name, and never the best."""
    rows = [
        result(e, score, seed=seed)
        for seed in range(6)
        for e, score in (("dft", 0.9 + seed / 100), ("rope", 0.8 + seed / 90), ("none", 0.4))
    ]
    params = {"one": {"dft": {"collides": True}}}
    free, marked = (statistics.summarize_runs(rows, p, {}) for p in ({}, params))
    assert (free.best[0], marked.best[0]) == ("dft", "rope")
    assert marked.left_out == {"dft": "vectors collide"}
    assert marked.datasets[0].excluded == marked.left_out
    assert [report.triple_cell(d.datasets[0], "dft")[-1] for d in (free, marked)] == ["5", "‡"]


def test_positions_that_do_not_help_are_stated_only_where_intervals_are_narrow():
    swing = np.array([0.01, -0.01, 0.01, -0.01, 0.01])
    for gain, spread, expected in ((0.01, 1, True), (0.2, 1, False), (0.01, 20, False)):
        runs = {"none": 0.7 - swing, "dft": 0.7 + gain + spread * swing}
        chance = Chance(np.zeros(5), windows=5000)
        assert statistics.decide(runs, {}, chance, 0.1, {}).no_gain == expected
    beaten = {"none": 0.7 + 0 * swing, "dft": 0.75 + swing / 10}  # a small but significant gain
    assert not statistics.decide(beaten, {}, Chance(np.zeros(5), windows=10**6), 0.1, {}).no_gain

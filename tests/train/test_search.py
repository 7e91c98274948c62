"""Nested choice of settings: by validation alone, each run for itself, the same budget for each."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from training import SMALL, in_lines, injection, lines, numbers, result

from pefourier.errors import PefourierError
from pefourier.train import beside, loop, metrics, report, run, search, summary
from pefourier.train.asked import list_candidates
from pefourier.train.data.load import load_task
from pefourier.train.model import OrderFree, Transformer
from pefourier.train.options import Options

ASKED = {
    **SMALL,
    "dataset": ("order:count=100,length=6",),
    "encoding": ("none", "dft", "rope", "order-free"),
    "epochs": 4,
    "search": ("rate=1e-3,1e-2 dropout=0,.3", "pool=mean,mean+max"),
}


def scores(rows):
    return [(*numbers([one])[0], tuple(one["chosen"].items())) for one in rows]


def test_a_run_is_the_one_of_the_settings_it_chose():
    found = run.run_comparison(Options(**ASKED))
    candidates = list_candidates(Options(**ASKED))
    assert len(candidates) == 8
    alone = {}
    for one in candidates:
        given = {**ASKED, "search": (), **one.values}
        for row in run.run_comparison(Options(**given)).runs:
            alone.setdefault((row["encoding"], row["seed"]), []).append((one.values, row))
    for row in found.runs:
        key = row["encoding"], row["seed"]
        chosen = row["chosen"].items()
        same, *twins = [other for values, other in alone[key] if values.items() >= chosen]
        assert len(twins) == (1 if row["encoding"] == "order-free" else 0)  # has no pool
        np.testing.assert_allclose(numbers([row])[0][4:], numbers([same])[0][4:], atol=1e-3)
    assert len({tuple(row["chosen"].items()) for row in found.runs}) > 1


def test_width_and_tokens_are_searched_with_the_codes_of_each():
    sizes = ("d=8,16 tokens=3,6 code-rate=1e-3,1e-2",)
    asked = {**ASKED, "encoding": ("learned", "t5", "dft@rms=0.5"), "seeds": 1, "search": sizes}
    found = run.run_comparison(Options(**asked))
    for row in found.runs:
        alone = run.run_comparison(Options(**{**asked, "search": (), **row["chosen"]})).runs
        (same,) = [one for one in alone if one["encoding"] == row["encoding"]]
        np.testing.assert_allclose(numbers([row])[0][4:], numbers([same])[0][4:], atol=1e-3)
    assert len(found.datasets[0].chosen["learned"]) == 3


def test_a_refit_learns_from_validation_windows_for_the_steps_that_validation_kept():
    """Beside epochs trained by hand."""
    asked = {**SMALL, "encoding": ("rope", "learned", "order-free"), "seeds": 2, "epochs": 4}
    asked |= {"patience": 0, "search": ("rate=1e-2,3e-2 pool=mean,max",)}
    first, again = (run.run_comparison(Options(**asked, refit=refit)) for refit in (False, True))
    assert [r["epoch"] for r in first.runs] == [r["epoch"] for r in again.runs]
    assert [r["chosen"] for r in first.runs] == [r["chosen"] for r in again.runs]
    assert any(a["auprc"] != b["auprc"] for a, b in zip(first.runs, again.runs, strict=True))
    assert "was trained once more on its training and validation windows" in in_lines(again)
    assert "once more" not in in_lines(first)
    task = load_task(SMALL["dataset"][0])
    (fold,) = task.folds
    both = replace(fold, train=np.concatenate([fold.train, fold.valid]))
    held = loop.put_on_device(replace(task, folds=(both,)), torch.device("cpu"))
    steps, more = (len(f.train) // SMALL["batch_size"] for f in (fold, both))
    (row,) = [r for r in again.runs if (r["encoding"], r["seed"]) == ("rope", 1)]
    sizes = {k: SMALL[k] for k in ("d", "heads")}
    shape = Transformer(task.length, task.rows.shape[1], 2, **sizes, pool=row["chosen"]["pool"])
    member = loop.Member("rope", injection("rope", 1, sizes=shape), 1, 0)
    schedule = loop.Schedule(9, SMALL["batch_size"], row["chosen"]["rate"])
    program = loop.Program(held, shape, [member], schedule)
    for epoch in range(max(1, round(row["epoch"] * steps / more))):
        program.train_epoch(epoch)
    (by_hand,) = program.evaluate("test")
    labels = task.labels[fold.test]
    assert row["auprc"] == pytest.approx(metrics.score(by_hand, labels, by_hand, labels).auprc)


def test_trees_that_are_refit_learn_from_validation_windows_too():
    task = load_task("order:count=100,length=6")
    (fold,) = task.folds
    plain, again = (beside.fit_method("trees", task, 0, refit) for refit in (False, True))
    np.testing.assert_array_equal(plain[0], again[0])
    both = replace(fold, train=np.concatenate([fold.train, fold.valid]))
    by_hand = beside.fit_method("trees", replace(task, folds=(both,)), 0)
    np.testing.assert_allclose(again[1], by_hand[1])


def test_a_value_at_the_edge_of_what_was_searched_is_said():
    rows = [
        result(e, 0.5, seed=s, chosen={"rate": r, "dropout": 0.0, "pool": "max"})
        for e, r in (("dft", 0.1), ("none", 0.01), ("rope", 0.001))
        for s in range(3)
    ]
    searched = {"search": ("rate=.1,.01,.001 dropout=0,.2", "pool=max,mean")}
    text = in_lines(summary.summarize_runs(rows, training=searched))
    for which in ("dft chose rate 0.1, the largest", "rope chose rate 0.001, the least"):
        assert f"one: most runs of {which} that was searched; widen --search there" in text
    assert text.count("widen") == 2  # 0.01 lies within, dropout ends at 0, pools have no order


def test_what_is_tested_has_no_say(monkeypatch):
    """With labels of test windows permuted, every choice and every epoch stays."""
    task = load_task("order:count=100,length=6")
    mixed = task.labels.copy()
    tested = task.folds[0].test
    mixed[tested] = 1 - mixed[tested]
    found = []
    for own in (task, replace(task, labels=mixed)):
        monkeypatch.setattr(run, "load_task", lambda *_, own=own: own)
        found.append(run.run_comparison(Options(**ASKED)))
    plain, permuted = (
        [(r["encoding"], r["seed"], r["epoch"], r["chosen"]) for r in one.runs] for one in found
    )
    assert plain == permuted
    assert [r["f1"] for r in found[0].runs] != [r["f1"] for r in found[1].runs]


def test_the_best_on_validation_is_kept_then_the_least_loss_then_the_first(monkeypatch):
    standings = iter([(0.5, -1.0), (0.9, -2.0), (0.9, -1.0), (0.9, -1.0)])
    monkeypatch.setattr(search, "standing", lambda task, outcome: next(standings))
    assert search.best_on_validation(None, range(4)) == 2


def test_shapes_have_stacks_of_their_own_and_order_free_none():
    candidates = list_candidates(Options(**ASKED))
    model = Transformer(6, 2, 2, d=8, heads=2)
    shapes = search.list_shapes(model, candidates)
    assert [(m.pool, len(own)) for m, own in shapes] == [("mean", 4), ("mean+max", 4)]
    ((_, own),) = search.list_shapes(OrderFree(6, 2, 2, 8), candidates)
    assert [one.values["pool"] for one in own] == ["mean"] * 4


def test_choices_are_told_and_resumed(tmp_path):
    out = tmp_path / "out"
    whole = run.run_comparison(Options(**ASKED, out=str(out)))
    text = (out / "summary.md").read_text()
    assert "chosen on validation: runs" in text
    assert "| encoding | rate | dropout | pool |" in text
    assert (
        "from rate=1e-3,1e-2 dropout=0,.3 pool=mean,mean+max; test windows played no part" in text
    )
    (record,) = [r for r in report.json_records(whole) if r["spec"] == "dft"]
    for setting in ("rate", "dropout", "pool"):
        own = [one for one in record["chosen"] if one["setting"] == setting]
        assert sum(one["runs"] for one in own) == 2
    file = out / "results.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    again = run.run_comparison(Options(**ASKED, out=str(out), resume=True))
    assert scores(again.runs) == scores(whole.runs)
    with pytest.raises(PefourierError, match=r"config\.json has search "):
        run.run_comparison(Options(**{**ASKED, "search": ()}, out=str(out), resume=True))
    bad = lines(out)
    bad[0]["chosen"] = {"rate": [1]}
    file.write_text("".join(json.dumps(row) + "\n" for row in bad))
    with pytest.raises(PefourierError, match="line 1, was not written by pefourier train: chosen"):
        run.run_comparison(Options(**ASKED, out=str(out), resume=True))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("rat=1", "unknown setting of --search 'rat'. Did you mean 'rate'?"),
        ("rate", "--search 'rate' lacks a value; give rate=A,B"),
        ("rate=1,,2", "--search 'rate=1,,2' lacks a value"),
        ("rate=x", "--search rate"),
        ("rate=1,2 rate=3", "--search: rate is given twice"),
        ("rate=1,1.0", "has a value twice"),
        ("rate=0", "--rate must be a finite number above 0; got 0.0"),
        ("pool=min", "--search: pool must be one of mean, max, mean+max, first; got 'min'"),
        ("tokens=1", "--search: tokens must be 2 or more; got 1"),
        ("d=9", "--d must be an even multiple of --heads 2"),
        ("ffn=0", "--ffn must be a whole number from 1 on; got 0"),
        ("rate=" + ",".join(map(str, range(1, 66))), "--search has 65 combinations; at most 64"),
    ],
)
def test_searches_that_cannot_be_are_refused(given, message):
    with pytest.raises(PefourierError) as caught:
        run.run_comparison(Options(**{**ASKED, "search": (given,)}))
    assert message in str(caught.value)

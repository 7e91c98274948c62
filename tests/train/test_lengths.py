"""Tested on longer windows: what goes on there, what cannot and says why."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from training import SMALL, injection, lines

from pefourier.errors import PefourierError
from pefourier.report.training_figures import score_by_length
from pefourier.train import apply, fit, lengths, model, report, resident
from pefourier.train.data.load import load_task
from pefourier.train.data.synthetic import with_length
from pefourier.train.injection import scale_to_rms
from pefourier.train.options import Options
from pefourier.train.request import parse_arm
from pefourier.train.run import run_comparison
from pefourier.train.stacks import ResolvedTask, Run, Stack

TASK = "order:count=60,length=8"
SIZES = model.Transformer(8, 2, 2, d=16, heads=2)
LONG = replace(SIZES, length=24)
ASKED = {**SMALL, "dataset": (TASK,), "d": 16, "test_length": "8,16,24"}


def outcome(spec, rms=None, learn=False):
    """A member trained for an epoch, and its task."""
    task, one = load_task(TASK), injection(spec, learn=learn, sizes=SIZES)
    one = one if rms is None else scale_to_rms(one, rms)
    members = [fit.Member(spec, injection("t5", sizes=SIZES), 1, 0), fit.Member(spec, one, 0, 0)]
    held = resident.put_on_device(task, torch.device("cpu"))
    found = fit.fit(held, SIZES, members, fit.Schedule(4, 8, 1e-2, every=4))
    return next(o for o in found if o.member.injection is one), task


@pytest.mark.parametrize("spec", ["dft", "learned", "rope", "t5", "shaw"])
def test_a_trained_classifier_applied_gives_the_logits_of_training(spec):
    """Codes that were trained are taken over place by place."""
    found, task = outcome(spec)
    fold = task.folds[0]
    x = (task.rows.reshape(-1, 8, 2)[fold.test] - fold.mean) / fold.scale
    own = lengths.lengthen(found, injection(spec, sizes=SIZES), 8)
    logits = apply.apply_classifier(SIZES, found.parameters, own, x)
    np.testing.assert_allclose(logits, found.test, atol=2e-5)


def test_codes_of_lags_go_on_where_all_were_trained():
    found, _ = outcome("shaw:clip=3")
    longer = lengths.lengthen(found, injection("shaw:clip=3", sizes=LONG), 24)
    before, after = found.codes, longer.table()
    for lag in range(-23, 24):
        near = max(-7, min(7, lag))
        np.testing.assert_array_equal(after[lag + 23], before[near + 7])
    assert (longer.codes != injection("shaw:clip=3", sizes=LONG).codes).any()


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("learned", "16 of its 24 codes for 24 tokens were never trained"),
        ("dft", "it has 16 codes for 24 tokens, so that some share one"),
        ("t5", "8 of its 23 codes for 24 tokens were never trained"),
    ],
)
def test_what_cannot_go_on_says_why(spec, reason):
    found, _ = outcome(spec)
    with pytest.raises(PefourierError, match=f"{reason}$"):
        lengths.lengthen(found, injection(spec, sizes=LONG), 24)


def test_a_scaled_arm_is_tested_on_longer_windows_as_it_was_scaled(monkeypatch):
    seen, whole = {}, lengths.lengthen

    def noted(outcome, longer, tokens):
        seen[tokens] = longer.table()
        return whole(outcome, longer, tokens)

    monkeypatch.setattr(lengths, "lengthen", noted)
    asked = {**ASKED, "encoding": ("none", "sinusoidal@rms=0.25"), "seeds": 1, "epochs": 1}
    run_comparison(Options(**asked))
    short = injection("sinusoidal", sizes=SIZES)
    for tokens in (16, 24):
        longer = injection("sinusoidal", sizes=replace(SIZES, length=tokens))
        wanted = scale_to_rms(longer, 0.25, reference=short).table()
        np.testing.assert_allclose(seen[tokens], wanted, rtol=1e-12)
        assert not np.allclose(wanted, longer.table())


def test_a_scaled_encoding_keeps_its_scale_on_longer_windows():
    short, longer = injection("sinusoidal", sizes=SIZES), injection("sinusoidal", sizes=LONG)
    before = scale_to_rms(short, 0.5).table()
    np.testing.assert_allclose(scale_to_rms(longer, 0.5, reference=short).table()[:8], before)


def test_every_run_has_its_scores_at_each_length(tmp_path):
    said, out = [], tmp_path / "out"
    given = {**ASKED, "encoding": ("none", "dft", "tape", "dft@rms=0.5", "order-free")}
    found = run_comparison(Options(**given, out=str(out)), note=said.append)
    for row in lines(out):
        assert [one["length"] for one in row["tested"]] == [8, 16, 24]
        stuck = row["encoding"].startswith("dft")
        assert [bool(one["reason"]) for one in row["tested"]] == [False, False, stuck]
        for one in row["tested"][:2]:
            assert 0 <= one["accuracy"] <= 1
            p, r = one["precision"], one["recall"]
            assert one["f1"] == pytest.approx(2 * p * r / (p + r) if p + r else 0)
    assert (out / "lengths.png").is_file()
    (one,) = found.datasets
    assert one.lengths["dft"][2].f1 is None
    mean = np.mean([r["tested"][1]["accuracy"] for r in lines(out) if r["encoding"] == "tape"])
    assert one.lengths["tape"][1].accuracy.mean == pytest.approx(mean)
    titles = [title for title, _ in report.tables(found)]
    assert f"{TASK}, trained on windows of 8 rows: F1 / accuracy by length" in titles
    assert (
        f"{TASK}: dft cannot be tested on windows of 24 rows: it has 16 codes for 24 tokens, so "
        "that some share one"
    ) in report.sentences(found)
    assert (
        "tape: in windows of 24 rows its codes of the first 8 tokens are others than training met"
    ) in said
    assert not any(line.startswith("dft") for line in said)
    panel = score_by_length(found).axes[0]
    shown = {line.get_label(): list(line.get_xdata()) for line in panel.lines}
    assert shown["none"] == [8, 16, 24]
    assert shown["dft"] == [8, 16]
    (record,) = [r for r in report.json_records(found) if r["spec"] == "dft"]
    assert [at["length"] for at in record["lengths"]] == [8, 16, 24]
    assert record["lengths"][2]["f1"] is None
    again = run_comparison(Options(**given, out=str(out), resume=True))
    assert again.datasets[0].lengths == one.lengths


def test_longer_windows_are_drawn_anew():
    assert with_length("order", 24) == "order:length=24,seed=1"
    assert with_length(TASK, 24) == "order:count=60,length=24,seed=1"
    (longer,) = lengths.draw_longer(TASK, (24,))
    assert (longer.length, len(longer.starts)) == (24, 60)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"test_length": "24,x"}, "--test-length must be whole numbers with commas"),
        ({"test_length": ""}, "--test-length must be whole numbers with commas"),
        ({"test_length": "24,24"}, "--test-length must be different lengths of 4 to"),
        ({"test_length": "3"}, "--test-length must be different lengths of 4 to 67108864; got '3'"),
        (
            {"dataset": ("grid",)},
            "needs a built-in task (lags, order); 'grid' is as long as",
        ),
        ({"dataset": ("own.npz",)}, "needs a built-in task (lags, order); 'own.npz' is as"),
    ],
)
def test_lengths_that_cannot_be_are_refused(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("own.npz", X=np.zeros((20, 4, 1)), y=np.arange(20) % 2)
    with pytest.raises(PefourierError) as caught:
        run_comparison(Options(**ASKED | given))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row["confusion"][0].append(1), "confusion must be a square table"),
        (lambda row: row["confusion"].pop(), "confusion must be a square table"),
        (lambda row: row.update(confusion=[[12]]), "whose confusion is of 1 classes where"),
        (lambda row: row["tested"][0].pop("f1"), "tested must have a length, five measures and"),
        (lambda row: row.pop("accuracy"), "a line lacks .*'accuracy'"),
        (lambda row: row.update(trained=7), "whose trained is 7 where the data have 36"),
        (lambda row: row["tested"][0].update(f1=None), "f1 must be a finite number; got None"),
        (lambda row: row["tested"][0].update(f1=2), "f1 must be from 0 to 1; got 2"),
    ],
)
def test_rows_that_were_edited_are_refused(tmp_path, change, message):
    out = tmp_path / "out"
    given = Options(**{**ASKED, "encoding": ("none",), "seeds": 1}, out=str(out))
    run_comparison(given)
    (row,) = lines(out)
    change(row)
    (out / "results.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(PefourierError, match=message):
        run_comparison(replace(given, resume=True))


def test_windows_of_another_length_are_scaled_and_judged_as_those_of_training(monkeypatch):
    """At the length of training a run meets its own logits; validation gives the threshold."""
    task = load_task("order:count=60,length=8")
    (fold,) = task.folds
    fold = replace(fold, mean=fold.mean + 0.5, scale=3 * fold.scale)
    task = replace(task, folds=(fold,))
    member = fit.Member("sinusoidal", injection("sinusoidal", sizes=SIZES), 0, 0)
    held = resident.put_on_device(task, torch.device("cpu"))
    (found,) = fit.fit(held, SIZES, [member], fit.Schedule(4, 8, 1e-2, every=4))
    resolved = ResolvedTask(task, SIZES, (), {}, None)
    stack = Stack(resolved, SIZES, [Run(parse_arm("sinusoidal"), 0, 0)])
    given, score = [], lengths.score
    monkeypatch.setattr(lengths, "score", lambda *a: [given.append(a), score(*a)][1])
    lengths.Longer([task], False).test(stack, found, SIZES)
    ((valid, of_valid, logits, labels, _),) = given
    np.testing.assert_allclose(logits[fold.test], found.test, atol=2e-5)
    np.testing.assert_array_equal(valid, found.valid)
    np.testing.assert_array_equal(of_valid, task.labels[fold.valid])
    np.testing.assert_array_equal(labels, task.labels)

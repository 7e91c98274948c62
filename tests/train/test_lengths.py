"""Tests on longer windows: which encodings extend, and why others do not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training import injection, lines

from pefourier.errors import PefourierError
from pefourier.pages.training import read_train_folder
from pefourier.report.plot import USUAL
from pefourier.report.training_figures import score_by_length
from pefourier.train import model, program, report
from pefourier.train import program as fit
from pefourier.train import saved_models as lengths
from pefourier.train.data.load import load_task
from pefourier.train.ensembles import load_for
from pefourier.train.model import scale_to_rms
from pefourier.train.request import parse_arm
from pefourier.train.run import run_comparison

TASK = "order:count=60,length=8"
SIZES = model.Transformer(8, 2, 2, d=16, heads=2)
LONG = replace(SIZES, length=24)


def outcome(name, *, learn=False, task=None):
    """Train a member for an epoch, and return it with its task."""
    arm = parse_arm(name)
    task, one = task or load_task(TASK), injection(arm.spec, learn=learn, sizes=SIZES)
    one = one if arm.rms is None else scale_to_rms(one, arm.rms)
    members = [fit.Replica(name, injection("t5", sizes=SIZES), 1, 0), fit.Replica(name, one, 0, 0)]
    held = program.Resident(task, torch.device("cpu"))
    found = fit.fit(held, SIZES, members, fit.Schedule(steps=4, batch_size=8, rate=1e-2, every=4))
    return next(o for o in found if o.member.injection is one), task


def test_vectors_of_lags_go_on_where_all_were_trained():
    found, _ = outcome("shaw:clip=3")
    longer = lengths.lengthen(found, injection("shaw:clip=3", sizes=LONG), 24)
    before, after = found.injection.vectors, longer.table()
    for lag in range(-23, 24):
        near = max(-7, min(7, lag))
        np.testing.assert_array_equal(after[lag + 23], before[near + 7])
    assert (longer.vectors != injection("shaw:clip=3", sizes=LONG).vectors).any()


@pytest.mark.parametrize(
    ("spec", "lacking"), [("learned", "16 of its 24"), ("dft", "16 distinct"), ("t5", "8 of its")]
)
def test_encodings_that_do_not_extend_have_a_reason(spec, lacking):
    found, _ = outcome(spec)
    with pytest.raises(PefourierError, match=lacking):
        lengths.lengthen(found, injection(spec, sizes=LONG), 24)


def test_every_run_has_its_scores_at_each_length(trained, options):
    rows = lines(trained)
    for row in rows:
        assert [scores["length"] for scores in row["tested"]] == [6, 12]
        lacks_vectors = row["encoding"] in ("learned", "t5", "shaw", "dft@rms=0.5")
        assert [bool(scores["reason"]) for scores in row["tested"]] == [False, lacks_vectors]
        for scores in row["tested"][: 2 - lacks_vectors]:
            p, r = scores["precision"], scores["recall"]
            assert scores["f1"] == pytest.approx(2 * p * r / (p + r) if p + r else 0)
    found = read_train_folder(str(trained)).summary
    (data,) = found.datasets
    assert data.lengths["learned"][1].f1 is None
    mean = np.mean([row["tested"][1]["accuracy"] for row in rows if row["encoding"] == "rope"])
    assert data.lengths["rope"][1].accuracy.mean == pytest.approx(mean)
    panel = score_by_length(found, USUAL).axes[0]
    drawn = {line.get_label(): list(line.get_xdata()) for line in panel.lines}
    assert (drawn["none"], drawn["learned"]) == ([6, 12], [6])
    (table,) = [rows for title, rows in report.tables(found) if "by length" in title]
    cells = {row[0]: row[3] for row in table}
    assert (cells["learned"], f"{mean:.3f}"[1:] in cells["rope"]) == ("–", True)
    again = run_comparison(replace(options, save_models=None, resume=True))
    assert again.datasets[0].lengths == data.lengths


def test_a_scaled_arm_is_tested_on_longer_windows_as_it_was_scaled():
    short, longer = (injection("sinusoidal", sizes=sizes) for sizes in (SIZES, LONG))
    found, task = outcome("sinusoidal@rms=0.25")
    injected = lengths.injection_at(task, found, LONG, task, load_for).table()
    np.testing.assert_allclose(injected, scale_to_rms(longer, 0.25, reference=short).table())
    np.testing.assert_allclose(injected[:8], scale_to_rms(short, 0.25).table())
    assert not np.allclose(injected, longer.table())


def test_windows_of_another_length_are_scaled_and_judged_as_those_of_training(monkeypatch):
    """At the trained length the logits are those of the run, and validation gives the threshold."""
    task = load_task(TASK)
    (fold,) = task.folds
    task = replace(task, folds=(replace(fold, mean=fold.mean + 0.5, scale=3 * fold.scale),))
    found, _ = outcome("sinusoidal", task=task)
    given, decide = [], lengths.decide
    monkeypatch.setattr(lengths, "decide", lambda *a: [given.append(a), decide(*a)][1])
    (row,) = lengths.score_lengths(task, SIZES, found, [task], load_for)
    ((logits, threshold),) = given
    np.testing.assert_allclose(logits[fold.test], found.test, atol=2e-5)
    assert threshold == program.threshold_of(task, found)
    assert row["accuracy"] == np.mean(decide(logits, threshold) == task.labels)

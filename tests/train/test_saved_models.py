"""Saved classifiers give the same logits when loaded, on new data and longer windows."""

import csv
import json
import os
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas import read_csv
from refusals import refusal
from safetensors.numpy import load_file, save_file
from sklearn.metrics import confusion_matrix
from training import CPU, SIZES, injection, lines, small

from pefourier.pages.training import read_train_folder
from pefourier.report.plot import USUAL
from pefourier.report.training_figures import score_by_length
from pefourier.train import program, saved_models
from pefourier.train.data.load import load_task
from pefourier.train.ensembles import load_for
from pefourier.train.model import scale_to_rms
from pefourier.train.options import Options
from pefourier.train.request import parse_arm
from pefourier.train.run import run_comparison
from pefourier.train.run_artifacts import (
    class_probabilities,
    file_of_model,
    file_of_run,
    name_of_run,
)
from pefourier.train.saved_models import load_classifier, load_models, predict_windows, save_model
from pefourier.train.store import key_of


def test_each_run_is_read_back_and_says_what_it_stated(trained, options):
    (name,) = options.dataset
    task = load_task(name)
    fold, (length, channels) = task.folds[0], (task.length, task.rows.shape[1])
    raw, labels = task.rows.reshape(-1, length, channels)[fold.test], task.labels[fold.test]
    rows = lines(trained)
    assert len(rows) == len(list((trained / "models").iterdir())) == 16
    for row in rows:
        (path,) = (trained / "models").glob(f"{name_of_run(key_of(row))}.safetensors")
        model = load_classifier(path)
        assert (model.encoding, model.classes) == (row["encoding"], ("A first", "B first"))
        with np.load(file_of_run(trained, (name, row["encoding"], row["seed"], 0))) as file:
            trace = dict(file)
        assert_allclose(model.logits(raw), trace["test"], atol=2e-5)
        assert model.threshold == trace["threshold"]
        assert_array_equal(trace["test_rows"], task.starts[fold.test])
        assert_array_equal(trace["test_labels"], labels)
        p = trace["test_probabilities"]
        assert_allclose(p, class_probabilities(trace["test"], trace["threshold"]), atol=1e-6)
        assert_array_equal(p.argmax(axis=1), predicted := model.predict(raw))
        assert confusion_matrix(labels, predicted).tolist() == row["confusion"]
        assert row["accuracy"] == pytest.approx(np.mean(predicted == labels))
    with refusal(r"\(n, 6, 2\), got \(6, 2\)"):
        model.logits(raw[0])


def test_files_that_are_no_classifiers_are_refused(trained, tmp_path, rng):
    file = next((trained / "models").glob("*dft*"))
    whole, tensors, changed = file.read_bytes(), load_file(file), tmp_path / "x.safetensors"
    settings = json.loads(tensors["settings"].tobytes())
    sizes = [{**settings["sizes"], "d": 16}, {**settings["sizes"], "inject": "min"}, [1, 2]]
    spoiled = [{"kind": "gru"}, {"act": "codes"}, {"act": "bias"}, {"threshold": "x"}]
    spoiled += [{"classes": 3}, *({"sizes": wrong} for wrong in sizes)]
    made = [np.frombuffer(json.dumps(settings | own).encode(), np.uint8) for own in spoiled]
    files = [{**tensors, "settings": one} for one in made]
    names = ("settings", "codes", "mean", "model.head.w")
    files += [{k: v for k, v in tensors.items() if k != name} for name in names]
    files += [{**tensors, name: tensors[name][:1].repeat(9)} for name in ("mean", "scale")]
    for content in (*files, *(whole[:stop] for stop in rng.integers(0, len(whole), 50))):
        if isinstance(content, bytes):
            changed.write_bytes(content)
        else:
            save_file(content, changed)
        with refusal():
            load_classifier(changed)


def test_names_of_runs_report_them_apart(tmp_path):
    one, other = (file_of_run(tmp_path, (name, "é" * 300, 0, 0)) for name in ("a/b", "a_b"))
    assert one != other
    assert len(one.name) < 200


@pytest.mark.parametrize("last", [1, 5])
def test_on_resume_a_run_with_a_row_gets_its_model_whenever_training_ended(
    last, tmp_path, monkeypatch
):
    out, models, count = tmp_path / "out", tmp_path / "models", []
    options = small(out=str(out), save_models=str(models))

    def save_some(*arguments):
        count.append(1)
        if len(count) > last:
            raise KeyboardInterrupt
        save_model(*arguments)

    monkeypatch.setattr(saved_models, "save_model", save_some)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(options)
    before = lines(out)
    for folder, (name, moment) in product((out, out / "scores", models), ((0, 1e9), (1, 4e9))):
        (draft := folder / f".pefourier-{name}").touch()
        os.utime(draft, (moment, moment))  # 1: a file that another process is writing
    monkeypatch.undo()
    run_comparison(replace(options, resume=True))
    rows = lines(out)
    assert rows[: len(before)] == before
    assert len(rows) == len(list(models.glob("*.safetensors"))) == 8
    assert {path.name for path in tmp_path.rglob(".pefourier*")} == {".pefourier-1"}
    kept = (file := file_of_model(models, key_of(rows[3]))).read_bytes()
    file.unlink()
    run_comparison(replace(options, resume=True))
    assert (file.read_bytes(), lines(out)) == (kept, rows)


def written(path, rng, kind):
    """Write series of two classes, and a copy without labels."""
    x, y = rng.normal(size=(30, 8)) + np.arange(30)[:, None] % 2, np.arange(30) % 2
    if kind == "npz":
        np.savez(path.with_suffix(".npz"), X=x[..., None], y=y)
        np.savez(path.with_name("new.npz"), X=x[..., None])
        return path.with_suffix(".npz"), path.with_name("new.npz")
    labelled = [["series", "label", "time", "v"]]
    long = kind == "recordings"  # 3 recordings of 80 rows
    for i, row in enumerate(x):
        for t, v in enumerate(row):
            name = f"s{i // 10:02d}" if long else f"s{i:02d}"
            labelled.append([name, "ab"[y[i]], t + 8 * (i % 10) * long, repr(float(v))])
    files = path.with_suffix(".csv"), path.with_name("new.csv")
    for file, rows in zip(files, (labelled, [r[:1] + r[2:] for r in labelled]), strict=True):
        with file.open("w", newline="") as stream:
            csv.writer(stream).writerows(rows)
    return files


@pytest.mark.parametrize("kind", ["npz", "long", "recordings", "time"])
def test_predictions_are_the_scores_of_training(tmp_path, rng, run, kind):
    """The file has a line for each window, with the label and probability of training."""
    labelled, new = written(tmp_path / "own", rng, kind)
    models, out, file = tmp_path / "models", tmp_path / "out", tmp_path / "p.csv"
    own = {"window": 8} if kind == "recordings" else {}
    positions = "time" if kind == "time" else "index"
    encodings = ("mtan" if kind == "time" else "sinusoidal", "none")
    own |= {"dataset": (str(labelled),), "encoding": encodings, "positions": positions}
    run_comparison(small(**own, seeds=1, out=str(out), save_models=str(models)))
    words = ["train", new, "--out", file, "--json", "--positions", positions, "--predict"]
    for row in lines(out):
        answer = run(*words, file_of_model(models, key_of(row))).results
        table, names = read_csv(file, dtype={"label": str}), [one["label"] for one in answer]
        assert [one["windows"] for one in answer] == [(table.label == c).sum() for c in names]
        with np.load(file_of_run(out, key_of(row))) as trace:
            at, p = trace["test_rows"] // 8, trace["test_probabilities"]
        assert_array_equal(table.label[at], np.array(names)[p.argmax(axis=1)])
        assert_allclose(table.probability[at], p.max(axis=1), atol=3e-6)
    assert len(table) == 30
    asked = Options(predict=str(models), positions=positions)
    task, several = load_task(str(new), asked), load_models(str(models), ("none",))
    each = [predict_windows(task, [model])[2] for model in several]
    assert_allclose(predict_windows(task, several)[2], np.mean(each, axis=0))
    wrong = {"9 rows": (4, 9, 1), "2 channels": (4, 8, 2)} if kind == "npz" else {}
    for named, shape in wrong.items():
        np.savez(tmp_path / "wrong.npz", X=rng.normal(size=shape))
        with refusal(named):
            predict_windows(load_task(str(tmp_path / "wrong.npz"), asked), several)
    refused = [(models, None, " and "), (tmp_path, None, "holds no models")]
    if kind == "recordings":
        assert table.series[::10].tolist() == ["s00", "s01", "s02"]
        assert table.window[:3].tolist() == [0, 8, 16]
        other = new.read_text().replace("time,v", "time,w")
        refused.append((file_of_model(models, key_of(row)), other, "channels w, the models v; use"))
        short = "series,time,v\na,0,1\na,1,2\n"
        refused.append((file_of_model(models, key_of(row)), short, "2 of 8 rows"))
    for place, text, named in refused:
        if text is not None:
            new.write_text(text)
        done = run(*words, place)
        assert (done.status, named in done.err) == (2, True), done.err


TASK = "order:count=60,length=8"
LONG = replace(SIZES, length=24)


def outcome(name, *, learn=False, task=None):
    """Train a member for an epoch, and return it with its task."""
    arm = parse_arm(name)
    task, one = task or load_task(TASK), injection(arm.spec, learn=learn)
    one = one if arm.rms is None else scale_to_rms(one, arm.rms)
    members = [program.Replica(name, injection("t5"), 1, 0), program.Replica(name, one, 0, 0)]
    held = program.Resident(task, CPU)
    found = program.fit(
        held, SIZES, members, program.Schedule(steps=4, batch_size=8, rate=1e-2, every=4)
    )
    return next(o for o in found if o.member.injection is one), task


def test_vectors_of_lags_go_on_where_all_were_trained():
    found, _ = outcome("shaw:clip=3")
    longer = saved_models.lengthen(found, injection("shaw:clip=3", sizes=LONG), 24)
    before, after = found.injection.vectors, longer.table()
    for lag in range(-23, 24):
        near = max(-7, min(7, lag))
        assert_array_equal(after[lag + 23], before[near + 7])
    assert (longer.vectors != injection("shaw:clip=3", sizes=LONG).vectors).any()


@pytest.mark.parametrize(
    ("spec", "lacking"), [("learned", "16 of its 24"), ("dft", "16 distinct"), ("t5", "8 of its")]
)
def test_encodings_that_do_not_extend_have_a_reason(spec, lacking):
    found, _ = outcome(spec)
    with refusal(lacking):
        saved_models.lengthen(found, injection(spec, sizes=LONG), 24)


def test_every_run_has_its_scores_at_each_length(trained, options):
    rows = lines(trained)
    for row in rows:
        assert [scores["length"] for scores in row["tested"]] == [6, 12]
        lacks_vectors = row["encoding"] in ("learned", "t5", "shaw", "dft@rms=0.5")
        assert [bool(scores["reason"]) for scores in row["tested"]] == [False, lacks_vectors]
    found = read_train_folder(str(trained)).summary
    (data,) = found.datasets
    assert data.lengths["learned"][1].f1 is None
    mean = np.mean([row["tested"][1]["accuracy"] for row in rows if row["encoding"] == "rope"])
    assert data.lengths["rope"][1].accuracy.mean == pytest.approx(mean)
    panel = score_by_length(found, USUAL).axes[0]
    drawn = {line.get_label(): list(line.get_xdata()) for line in panel.lines}
    assert (drawn["none"], drawn["learned"]) == ([6, 12], [6])
    again = run_comparison(replace(options, save_models=None, resume=True))
    assert again.datasets[0].lengths == data.lengths


def test_a_scaled_arm_is_tested_on_longer_windows_as_it_was_scaled():
    short, longer = (injection("sinusoidal", sizes=sizes) for sizes in (SIZES, LONG))
    found, task = outcome("sinusoidal@rms=0.25")
    injected = saved_models.injection_at(task, found, LONG, task, load_for).table()
    assert_allclose(injected, scale_to_rms(longer, 0.25, reference=short).table())
    assert_allclose(injected[:8], scale_to_rms(short, 0.25).table())
    assert not np.allclose(injected, longer.table())


def test_windows_of_another_length_are_scaled_and_judged_as_those_of_training(monkeypatch):
    """At the trained length the logits are those of the run, and validation gives the threshold."""
    task = load_task(TASK)
    (fold,) = task.folds
    task = replace(task, folds=(replace(fold, mean=fold.mean + 0.5, scale=3 * fold.scale),))
    found, _ = outcome("sinusoidal", task=task)
    given, decide = [], saved_models.decide
    monkeypatch.setattr(saved_models, "decide", lambda *a: [given.append(a), decide(*a)][1])
    (row,) = saved_models.score_lengths(task, SIZES, found, [task], load_for)
    ((logits, threshold),) = given
    assert_allclose(logits[fold.test], found.test, atol=2e-5)
    assert threshold == program.threshold_of(task, found)
    assert row["accuracy"] == np.mean(decide(logits, threshold) == task.labels)

"""Saved classifiers give the same logits when they are loaded."""

import json
import os
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from training import SMALL, lines

from pefourier.errors import PefourierError
from pefourier.train import saved_models
from pefourier.train.data.load import load_task
from pefourier.train.options import Options
from pefourier.train.run import run_comparison
from pefourier.train.run_artifacts import file_of_model, file_of_run, name_of_run
from pefourier.train.saved_models import load_classifier, save_model
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
        trace = np.load(file_of_run(trained, (name, row["encoding"], row["seed"], 0)))
        np.testing.assert_allclose(model.logits(raw), trace["test"], atol=2e-5)
        assert model.threshold == trace["threshold"]
        np.testing.assert_array_equal(trace["test_rows"], task.starts[fold.test])
        np.testing.assert_array_equal(trace["test_labels"], labels)
        assert (str(trace["dataset"]), str(trace["encoding"])) == (name, row["encoding"])
        assert trace["classes"].tolist() == ["A first", "B first"]
        assert trace["valid"].shape == (len(trace["valid_labels"]), 2)
        assert trace["curve"].shape[1] == 3
        p = trace["test_probabilities"]
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
        odds = trace["test"][:, 1] - trace["test"][:, 0] - trace["threshold"]
        np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-odds)), atol=1e-6)
        np.testing.assert_array_equal(p.argmax(axis=1), model.predict(raw))
        predicted = model.predict(raw)
        counts = [[int(((predicted == b) & (labels == a)).sum()) for b in (0, 1)] for a in (0, 1)]
        assert counts == row["confusion"]
        assert row["accuracy"] == pytest.approx(np.mean(predicted == labels))
    with pytest.raises(PefourierError, match=r"\(n, 6, 2\), got \(6, 2\)"):
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
        with pytest.raises(PefourierError):
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
    options = Options(**SMALL, out=str(out), save_models=str(models))

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

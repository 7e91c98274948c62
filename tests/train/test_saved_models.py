"""Trained classifiers in files: read back they say what they said."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from training import SMALL, lines

from pefourier.errors import PefourierError
from pefourier.train.data.load import load_task
from pefourier.train.options import Options
from pefourier.train.run import run_comparison
from pefourier.train.saved_models import load_classifier
from pefourier.train.traces import file_of_run

TASK = "order:count=80,length=6"
ASKED = {**SMALL, "dataset": (TASK,), "seeds": 1}
ASKED |= {"encoding": ("none", "dft@rms=0.5", "rope", "t5", "learned", "shaw", "order-free")}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder of results, with their classifiers in models/."""
    out = tmp_path_factory.mktemp("out")
    models = str(out / "models")
    search = ("dropout=0,.2",)
    run_comparison(Options(**ASKED, out=str(out), save_models=models, search=search))
    return out


def test_each_run_is_read_back_and_says_what_it_said(kept):
    task = load_task(TASK)
    fold = task.folds[0]
    raw = task.rows.reshape(-1, 6, 2)[fold.test]
    rows = lines(kept)
    assert len(rows) == len(list((kept / "models").iterdir())) == 7
    for row in rows:
        name = f"order_count=80_length=6-{row['encoding'].replace('-', '_')}-seed0-fold0"
        one = load_classifier(kept / "models" / f"{name}.safetensors")
        assert (one.encoding, one.classes) == (row["encoding"], ("A first", "B first"))
        trace = np.load(file_of_run(kept, (TASK, row["encoding"], 0, 0)))
        np.testing.assert_allclose(one.logits(raw), trace["test"], atol=2e-5)
        assert one.threshold == trace["threshold"]
        np.testing.assert_array_equal(trace["test_rows"], task.starts[fold.test])
        said = one.predict(raw)
        np.testing.assert_array_equal(trace["test_labels"], task.labels[fold.test])
        found = [
            [int(((said == b) & (task.labels[fold.test] == a)).sum()) for b in (0, 1)]
            for a in (0, 1)
        ]
        assert found == row["confusion"]
        assert row["accuracy"] == pytest.approx(np.mean(said == task.labels[fold.test]))
    with pytest.raises(
        PefourierError, match=r"expected windows of shape \(n, 6, 2\); got \(6, 2\)"
    ):
        one.logits(raw[0])


def test_the_library_reads_what_is_written(kept):
    (file,) = (kept / "models").glob("*learned*")
    tensors = load_file(file)
    settings = json.loads(tensors["settings"].tobytes())
    assert settings["sizes"]["d"] == SMALL["d"]
    assert tensors["codes"].shape == (6, 8)
    assert tensors["model.0.qkv.w"].shape == (8, 24)


def test_files_that_are_no_classifiers_are_refused(kept, tmp_path, rng):
    (file,) = (kept / "models").glob("*dft*")
    whole, tensors = file.read_bytes(), load_file(file)
    changed = tmp_path / "changed.safetensors"
    settings = json.loads(tensors["settings"].tobytes())
    for own in (
        {"kind": "gru"},
        {"act": "codes"},
        {"act": "bias"},
        {"threshold": "x"},
        {"sizes": {**settings["sizes"], "d": 16}},
        {"sizes": {**settings["sizes"], "pool": "min"}},
        {"sizes": [1, 2]},
        {"classes": 3},
    ):
        text = json.dumps(settings | own).encode()
        save_file({**tensors, "settings": np.frombuffer(text, np.uint8)}, changed)
        with pytest.raises(PefourierError, match=r"changed|must be|--"):
            load_classifier(changed)
    for name in ("settings", "codes", "mean", "model.head.w"):
        save_file({k: v for k, v in tensors.items() if k != name}, changed)
        with pytest.raises(PefourierError, match="is not a classifier of pefourier train"):
            load_classifier(changed)
    for name in ("mean", "scale"):
        save_file({**tensors, name: tensors[name][:1].repeat(9)}, changed)
        with pytest.raises(PefourierError, match="mean and scale are not those of its channels"):
            load_classifier(changed)
    for _ in range(100):
        at = int(rng.integers(len(whole)))
        changed.write_bytes(whole[:at])
        with pytest.raises(PefourierError):
            load_classifier(changed)


def test_traces_and_curves_are_those_of_the_runs(kept):
    for row in lines(kept):
        trace = np.load(file_of_run(kept, (TASK, row["encoding"], 0, 0)))
        assert trace["valid"].shape == (len(trace["valid_labels"]), 2)
        assert trace["curve"].shape == (1, 3)
        assert np.isfinite(trace["curve"]).all()
        assert (str(trace["dataset"]), str(trace["encoding"])) == (TASK, row["encoding"])
        assert trace["classes"].tolist() == ["A first", "B first"]
    assert (kept / "curves.png").is_file()
    summary = json.loads((kept / "summary.json").read_text())["datasets"][0]
    for row in lines(kept):
        assert summary["confusion"][row["encoding"]] == row["confusion"]
        both = summary["per_class"][row["encoding"]]
        assert [one["class"] for one in both] == ["A first", "B first"]
        assert both[1]["f1"] == pytest.approx(row["f1"])
        assert sum(one["windows"] for one in both) == row["windows"]


def test_names_of_runs_tell_them_apart(tmp_path):
    one, other = (file_of_run(tmp_path, (name, "é" * 300, 0, 0)) for name in ("a/b", "a_b"))
    assert one != other
    assert len(one.name) < 200

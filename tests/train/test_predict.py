"""Classes of new data are those that saved models gave their test windows."""

import csv

import numpy as np
import pytest
from training import SMALL, lines

from pefourier.errors import PefourierError
from pefourier.train.data.load import load_task
from pefourier.train.options import Options
from pefourier.train.run import run_comparison
from pefourier.train.run_artifacts import file_of_model, file_of_run
from pefourier.train.saved_models import load_models, predict_windows
from pefourier.train.store import key_of


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
def test_predictions_are_the_scores_of_training(tmp_path, rng, kind):
    labelled, new = written(tmp_path / "own", rng, kind)
    models, out = tmp_path / "models", tmp_path / "out"
    own = {"window": 8} if kind == "recordings" else {}
    own |= {"positions": "time"} if kind == "time" else {}
    encodings = ("mtan" if kind == "time" else "sinusoidal", "none")
    own |= {"dataset": (str(labelled),), "encoding": encodings, "seeds": 1}
    options = Options(**{**SMALL, **own}, out=str(out), save_models=str(models))
    run_comparison(options)
    asked = Options(
        dataset=(str(new),), predict=str(models), positions=options.positions, out=str(out)
    )
    task = load_task(str(new), asked)
    for row in lines(out):
        one = load_models(str(file_of_model(models, key_of(row))), asked.encoding)
        _, _, p = predict_windows(task, one)
        with np.load(file_of_run(out, key_of(row))) as trace:
            at = trace["test_rows"] // 8
            np.testing.assert_allclose(p[at], trace["test_probabilities"], atol=2e-6)
    assert len(p) == 30
    with pytest.raises(PefourierError, match=" and "):
        load_models(str(models), asked.encoding)
    several = load_models(str(models), ("none",))
    each = [predict_windows(task, [model])[2] for model in several]
    np.testing.assert_allclose(predict_windows(task, several)[2], np.mean(each, axis=0))
    for shape in ((4, 9, 1), (4, 8, 2)) if kind == "npz" else ():
        np.savez(new, X=rng.normal(size=shape))
        with pytest.raises(PefourierError, match=r"9 rows|2 channels"):
            predict_windows(load_task(str(new), asked), several)


def test_the_file_has_a_line_for_each_window(tmp_path, rng, run):
    labelled, new = written(tmp_path / "own", rng, "recordings")
    models, out = tmp_path / "models", tmp_path / "p.csv"
    own = {"dataset": (str(labelled),), "encoding": ("dft",), "seeds": 1, "window": 8}
    run_comparison(Options(**{**SMALL, **own}, save_models=str(models)))
    answer = run("train", "--predict", models, new, "--out", out, "--json")
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["series"] for row in rows[::10]] == ["s00", "s01", "s02"]
    assert [row["window"] for row in rows[:3]] == ["0", "8", "16"]
    counts = {record["label"]: record["windows"] for record in answer.results}
    assert counts == {c: sum(row["label"] == c for row in rows) for c in counts}
    assert {*counts} == {"a", "b"}
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)
    text = new.read_text()
    for change, named in (
        (text.replace("time,v", "time,w"), "channels w, the models v; use --channels v"),
        ("series,time,v\na,0,1\na,1,2\n", "2 of 8 rows"),
    ):
        new.write_text(change)
        done = run("train", "--predict", models, new, "--out", out)
        assert (done.status, named in done.err) == (2, True), done.err
    assert run("train", "--predict", models, new).status == 2
    assert run("train", "--predict", tmp_path, new, "--out", out).status == 2

"""The page about a folder of training: its numbers, and refusals of what training did not write."""

import json
import re
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from pages import Page

from pefourier.pages.training import read_train_folder
from pefourier.train.report import all_words
from pefourier.train.store import KEY
from pefourier.train.traces import file_of_run
from pefourier.writing.text import parts_of_words

FIGURES = Path(__file__).parents[2] / "figures"
HOSTILE = '<script>alert("1")</script>'
pytestmark = pytest.mark.usefixtures("undrawn")


@cache
def summary_of(name):
    """Of a committed comparison."""
    return read_train_folder(str(FIGURES / name)).summary


def tables_of(summary):
    return [
        part for part in parts_of_words(partial(all_words, summary)) if not isinstance(part, str)
    ]


@pytest.fixture(scope="module")
def leaky():
    """The committed comparison of one seed, its configuration and its runs."""
    folder = FIGURES / "leaky-100"
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return json.loads((folder / "config.json").read_text()), rows


@pytest.fixture
def folder(tmp_path):
    """folder(config, rows) writes what training leaves."""

    def write(config, rows):
        path = tmp_path / "runs"
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        (path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@pytest.fixture
def page(run, tmp_path):
    def make(path, *more):
        done = run("report", path, "--out", tmp_path / "page.html", *more)
        assert done.status == 0, done.err
        assert len(done.out.split()) < 20
        return Page(tmp_path / "page.html")

    return make


def test_scores_are_those_that_training_wrote():
    for name in ("window-100", "leaky-100"):
        known = json.loads((FIGURES / name / "summary.json").read_text())["datasets"]
        found = summary_of(name).datasets
        for one, other in zip(found, known, strict=True):
            assert (one.dataset, one.seeds, one.folds) == (
                other["dataset"],
                other["seeds"],
                other["folds"],
            )
            means = {e: s["f1"]["mean"] for e, s in other["scores"].items()}
            assert {e: s["f1"].mean for e, s in one.scores.items()} == pytest.approx(means)
            assert {e: d.p_holm for e, d in one.differences.items()} == pytest.approx(
                {e: d["p_holm"] for e, d in other["differences"].items()}
            )


def test_the_page_says_it_all(page):
    found = page(FIGURES / "leaky-100")
    assert found.faults == []
    assert found.text["h2"] == [
        "Conclusions",
        "Every run, and means",
        "Scores and differences",
        "How these numbers were made",
    ]
    assert "" not in found.text["p"]
    (line,) = [c for c in found.text["code"] if c.startswith("pefourier train")]
    for option in ("--split random", "-e none", "--dataset msl", "--seeds 1", "--rate 0.001"):
        assert option in line
    printed = found.text["td"] + found.text["th"]
    (head, *rows), *_ = tables_of(summary_of("leaky-100"))
    assert {cell for row in [head, *rows] for cell in row} <= {*printed, ""}
    assert "2.13.0+cpu" in printed


def test_the_answer_in_json_is_that_of_training(run, tmp_path):
    done = run("report", FIGURES / "leaky-100", "--out", tmp_path / "a.html", "--json")
    first = done.results[0]
    assert first["out"] == str(tmp_path / "a.html")
    assert (first["dataset"], first["spec"]) == ("smd", "none")
    assert first["conclusion"]


def test_names_of_datasets_and_encodings_are_text(page, folder, leaky):
    config, rows = leaky
    renamed = {"smd": HOSTILE, "dft": f"a{HOSTILE}.npy"}
    text = json.dumps([config, rows])
    for old, new in renamed.items():
        text = text.replace(json.dumps(old), json.dumps(new))
    config, rows = json.loads(text)
    found = page(folder(config, rows), "--title", HOSTILE)
    assert found.faults == []
    assert "script" not in {name for name, _ in found.elements}
    assert found.text["h1"] == [HOSTILE]


def test_only_what_was_asked_last_is_told(folder, leaky):
    config, rows = leaky
    less = {**config, "encoding": ["none", "sinusoidal"], "dataset": ["msl"]}
    found = read_train_folder(str(folder(less, rows))).summary
    assert [(one.dataset, list(one.scores)) for one in found.datasets] == [
        ("msl", ["none", "sinusoidal"])
    ]


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (lambda row: False, "has no finished run; go on training with --resume"),
        (
            lambda row: row["fold"] == (1 if row["encoding"] == "dft" else 0),
            "no seed and fold of 'smd' is finished for every encoding yet",
        ),
    ],
)
def test_a_folder_without_common_runs_is_refused(run, folder, leaky, tmp_path, keep, message):
    config, rows = leaky
    config = {**config, "dataset": ["smd"]}
    path = folder(config, [row for row in rows if keep(row)])
    done = run("report", path, "--out", tmp_path / "a.html")
    assert (done.status, done.out) == (2, "")
    assert re.search(message, done.err)
    assert not (tmp_path / "a.html").exists()


def test_a_folder_that_was_edited_is_refused(run, folder, leaky, tmp_path):
    config, rows = leaky
    path = folder({**config, "seeds": "many"}, rows)
    done = run("report", path, "--out", tmp_path / "a.html")
    assert done.status == 2
    assert "was not written by pefourier train" in done.err


def test_a_folder_is_on_a_page_of_its_own(run, tmp_path):
    words = ("report", FIGURES / "leaky-100", FIGURES / "window-100", "--out")
    assert run(*words, tmp_path / "a.html").status == 2


def test_curves_that_are_stored_are_drawn(page, folder, leaky):
    config, rows = leaky
    path = folder({**config, "dataset": ["msl"]}, rows)
    assert "How training went" not in page(path).text["h2"]
    own = [row for row in rows if row["dataset"] == "msl"]
    (path / "scores").mkdir()
    for row in own[1:]:
        key = tuple(row[name] for name in KEY)
        np.savez(file_of_run(path, key), curve=np.linspace(0, 1, 12).reshape(4, 3))
    found = page(path)
    assert found.faults == []
    (picture,) = [told for told in found.values("img", "alt") if "look by look" in told]
    assert f"the {len(own) - 1} runs" in picture


def test_a_page_about_training_needs_no_torch(tmp_path):
    code = (
        "import sys; from pefourier.cli.main import main; "
        f"main(['report', {str(FIGURES / 'leaky-100')!r}, '--out', 'a.html', '-q']); "
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "False"


def test_the_command_is_as_it_was_typed(page, folder, leaky):
    """Other methods are named by their own option, and options that are not stored are told."""
    config, rows = leaky
    beside = [{**row, "encoding": "trees"} for row in rows if row["encoding"] == "none"]
    config = {**config, "encoding": [*config["encoding"], "trees"]}
    found = page(folder(config, [*rows, *beside]))
    (line,) = [c for c in found.text["code"] if c.startswith("pefourier train")]
    assert "--beside trees" in line
    assert "-e trees" not in line

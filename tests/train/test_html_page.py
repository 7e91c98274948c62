"""The page about a folder of training: its numbers, and refusals of what training did not write."""

import json
import shutil
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from pages import Page
from training import lines

from pefourier.pages.training import read_train_folder
from pefourier.train.report import all_words
from pefourier.writing.text import parts_of_words

HOSTILE = '<script>alert("1")</script>'
pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def folder(trained, tmp_path):
    """folder(change) writes the folder with its configuration and rows changed."""

    def write(change):
        path = tmp_path / "runs"
        shutil.copytree(trained / "scores", path / "scores")
        config, rows = json.loads((trained / "config.json").read_text()), lines(trained)
        config, rows = change(config, rows)
        (path / "config.json").write_text(json.dumps(config))
        (path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@pytest.fixture
def page(run, tmp_path):
    def make(path, *specs):
        done = run("report", path, "--out", tmp_path / "page.html", *specs)
        assert done.status == 0, done.err
        return Page(tmp_path / "page.html")

    return make


def test_scores_are_those_that_training_wrote(trained):
    (known,) = json.loads((trained / "summary.json").read_text())["datasets"]
    (found,) = read_train_folder(str(trained)).summary.datasets
    assert (found.seeds, found.folds, found.verdicts) == (2, 1, known["verdicts"])
    for name, scores in found.scores.items():
        assert scores["f1"].mean == known["scores"][name]["f1"]["mean"]
    for name, d in found.differences.items():
        assert d.p_holm == known["differences"][name]["p_holm"]


def test_the_page_says_it_all(page, trained):
    found = page(trained)
    assert found.faults == []
    assert "" not in found.text["p"]
    assert [c for c in found.text["code"] if c.startswith("pefourier report")]
    (line,) = [c for c in found.text["code"] if c.startswith("pefourier train")]
    for typed in ("--seeds 2", "-e none", "-e order-free", "--d 8", "--search", "--test-length"):
        assert typed in line
    assert "--save-models" not in found.text["code"]
    printed = {*found.text["td"], *found.text["th"], ""}
    told = partial(all_words, read_train_folder(str(trained)).summary)
    for part in parts_of_words(told):
        assert isinstance(part, str) or {cell for row in part for cell in row} <= printed
    assert {"numpy", np.__version__, "match_rms"} <= printed
    captions = " ".join(found.values("img", "alt"))
    assert "look by look" in captions
    assert "other lengths" in captions
    assert "Average ranks" not in captions  # of one dataset


def test_names_are_text_whatever_they_are(page, folder):
    def rename(config, rows):
        text = json.dumps([config, rows])
        for old, new in (("learned", f"a{HOSTILE}.npy"), (config["dataset"][0], HOSTILE)):
            text = text.replace(json.dumps(old), json.dumps(new))
        return json.loads(text)

    found = page(folder(rename), "--title", HOSTILE)
    assert found.faults == []
    assert "script" not in {name for name, _ in found.elements}
    assert found.text["h1"] == [HOSTILE]


def test_other_methods_are_named_by_their_own_option(page, folder):
    def beside(config, rows):
        trees = [{**row, "encoding": "trees"} for row in rows if row["encoding"] == "none"]
        return {**config, "encoding": [*config["encoding"], "trees"]}, [*rows, *trees]

    found = page(folder(beside))
    (line,) = [c for c in found.text["code"] if c.startswith("pefourier train")]
    assert "--beside trees" in line
    assert "-e trees" not in line


def without(encoding):
    """Rows of which that encoding has the second seed, and the others the first."""
    return lambda config, rows: (
        config,
        [row for row in rows if row["seed"] == (row["encoding"] == encoding)],
    )


REFUSED = {  # how a folder is changed, and what is named
    "no run": (lambda config, rows: (config, []), "--resume"),
    "no common run": (without("rope"), "--resume"),
    "options": (lambda config, rows: ({**config, "seeds": "many"}, rows), "seeds"),
    "classes": (lambda config, rows: ({**config, "windows": {}}, rows), "confusion"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_folder_that_says_nothing_is_refused(run, folder, tmp_path, name):
    change, named = REFUSED[name]
    done = run("report", folder(change), "--out", tmp_path / "a.html")
    assert (done.status, done.out, named in done.err) == (2, "", True), done.err
    assert not (tmp_path / "a.html").exists()


def test_what_says_nothing_about_a_folder_is_refused(run, trained, tmp_path):
    for extra in ([trained], ["--d", "8"]):
        done = run("report", trained, *extra, "--out", tmp_path / "a.html")
        assert (done.status, done.err.count("\n")) == (2, 1)


def test_a_page_about_training_needs_no_torch(trained, tmp_path):
    code = (
        "import sys; from pefourier.cli.main import main; "
        f"main(['report', {str(trained)!r}, '--out', 'a.html', '-q']); "
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "False"

"""The page about a folder of training: its numbers, and errors about other folders."""

import json
import shutil
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
    """Return a function that writes the folder with its configuration and rows changed."""

    def write(change):
        path = tmp_path / "runs"
        shutil.copytree(trained / "scores", path / "scores")
        config, rows = json.loads((trained / "config.json").read_text()), lines(trained)
        config, rows = change(config, rows)
        (path / "config.json").write_text(json.dumps(config))
        (path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def made_page(run, path, *specs):
    done = run("report", path, "--out", path.parent / "page.html", *specs)
    assert done.status == 0, done.err
    found = Page(path.parent / "page.html")
    (line,) = [c for c in found.text["code"] if c.startswith("pefourier train")]
    assert found.faults == []
    return found, line


def test_the_page_says_it_all(run, folder):
    path = folder(lambda *both: both)
    found, line = made_page(run, path)
    for typed in ("--seeds 2", "-e none", "-e order-free", "--d 8", "--test-length"):
        assert typed in line
    printed = {*found.text["td"], *found.text["th"], ""}
    for part in parts_of_words(partial(all_words, read_train_folder(str(path)).summary)):
        assert isinstance(part, str) or {cell for row in part for cell in row} <= printed
    assert {"numpy", np.__version__} <= printed
    captions = " ".join(found.values("alt"))
    assert ("other lengths" in captions, "Average ranks" in captions) == (True, False)


def test_names_are_text_whatever_they_are(run, folder):
    def rename(config, rows):
        trees = [{**row, "encoding": "trees"} for row in rows if row["encoding"] == "none"]
        config["encoding"] += ["trees"]
        text = json.dumps([config, [*rows, *trees]])
        for old, new in (("learned", f"a{HOSTILE}.npy"), (config["dataset"][0], HOSTILE)):
            text = text.replace(json.dumps(old), json.dumps(new))
        return json.loads(text)

    found, line = made_page(run, folder(rename), "--title", HOSTILE)
    assert "script" not in {name for name, _ in found.elements}
    assert found.text["h1"] == [HOSTILE]
    assert ("--beside trees" in line, "-e trees" in line) == (True, False)


REFUSED = {  # change of a folder, further arguments, and part of the error
    "no run": (lambda config, _: (config, []), (), "--resume"),
    "no common run": (
        lambda config, rows: (
            config,
            [row for row in rows if row["seed"] == (row["encoding"] == "rope")],
        ),
        (),
        "--resume",
    ),
    "options": (lambda config, rows: ({**config, "seeds": "many"}, rows), (), "seeds"),
    "sizes": (lambda *both: both, ("--d", "8"), "options"),
    "another": (lambda *both: both, ("dft",), "dft"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_folders_are_refused(refused, folder, tmp_path, name):
    change, more, named = REFUSED[name]
    assert named in refused("report", folder(change), *more, "--out", tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()

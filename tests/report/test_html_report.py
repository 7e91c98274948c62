"""The HTML report: its numbers equal those of its commands, and names never change the markup."""

import contextlib
import html
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pages import Page

from pefourier.cli.main import main
from pefourier.pages.document import HEADINGS, OPTIONS

ALL = [question for question in HEADINGS if question not in OPTIONS]  # questions on the first page
HOSTILE = '</title></style><script>alert(1)</script><img src=x onerror="alert(2)"> & $x_1$ \u202e'
HERE = "data:image/svg+xml;base64,"


@pytest.fixture
def page(run, tmp_path):
    """Return a function that writes a small report and parses it: page("dft", "--d", 8)."""

    def make(*arguments, status=0):
        path = tmp_path / "report.html"
        done = run("report", *arguments, "--out", path, "-q")
        assert done.status == status, done.err
        return Page(path)

    return make


without_pictures = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A page about a rotation, a table with faults, zeros and an unknown SPEC."""
    specs = ["rope:d=16", "dft", "none", "ones.npy", "nothing-of-the-kind"]
    folder = tmp_path_factory.mktemp("mixed")
    np.save(folder / "ones.npy", np.ones((20, 4)))
    with contextlib.chdir(folder):
        assert main(["report", *specs, "--d", "16", "--length", "20", "-q"]) == 2
    return Page(folder / "report.html")


def test_the_markup_is_whole(mixed):
    assert mixed.faults == []
    ids = mixed.values("id")
    assert len(ids) == len(set(ids)) == len(mixed.text["h2"])
    assert [href.removeprefix("#") for href in mixed.values("href")] == ids
    assert [name for name, _ in mixed.elements].count("h1") == 1
    assert {HEADINGS[question] for question in ALL} <= set(mixed.text["h2"])


def test_verdicts_come_first_and_are_those_of_the_commands(mixed, run, monkeypatch):
    monkeypatch.chdir(mixed.folder)
    given = ["rope:d=16", "dft", "none", "ones.npy", "--d", "16", "--length", "20", "--json"]
    answers = [[r["conclusion"].partition(". ")[0] for r in run(q, *given).results] for q in ALL]
    (size, *_), *_ = columns = [mixed.text["td"][k : 20 + k : 5] for k in range(5)]
    assert columns[1:] == answers
    assert size == "20 × 16"


def test_each_question_has_its_conclusions_pictures_and_command(mixed, run, monkeypatch):
    """Each number in a table is printed by the command next to the table."""
    monkeypatch.chdir(mixed.folder)
    seen = 0
    for chapter in mixed.source.split("<section>")[1:]:
        (line, *_) = re.findall(r"<pre><code>pefourier (.*?)</code>", chapter) or [""]
        if not line or line.startswith("report"):
            continue
        arguments = shlex.split(html.unescape(line))
        done = run(*arguments)
        assert done.status == 0, done.err
        printed = re.findall(r'<td class="number">(.*?)</td>', chapter)
        assert [x for x in printed if x not in done.out.split()] == []
        seen += len(printed)
        stated = html.unescape(chapter)
        for record in run(*arguments, "--json").results:
            title = record["conclusion"].partition(". ")[0]
            assert f"<strong>{record['spec']}: {title}.</strong>" in stated
            assert record["meaning"] in stated
        assert "<figure>" in chapter
    assert seen > 60


def test_nothing_is_requested_and_nothing_runs(mixed):
    names = {name for name, _ in mixed.elements}
    assert not names & {"script", "link", "iframe", "object", "svg"}
    assert all(source.startswith(HERE) for source in mixed.values("src"))
    assert all(href.startswith("#") for href in mixed.values("href"))
    assert re.findall(r"url\(|@import", mixed.source) == []
    (policy,) = [a["content"] for _, a in mixed.elements if "http-equiv" in a]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


@without_pictures
@pytest.mark.usefixtures("folder")
def test_no_name_is_more_than_text(page):
    name = HOSTILE.replace("/", "∕") + ".npz"
    with Path(name).open("wb") as stream:
        np.savez(stream, **{"a<b>\"'": np.eye(4)})
    found = page(f"{name}#a<b>\"'", "<i>nothing</i>", "--title", HOSTILE, status=2)
    assert found.faults == []
    assert "script" not in {e for e, _ in found.elements}
    assert [key for _, a in found.elements for key in a if key.startswith("on")] == []
    assert all(source.startswith(HERE) for source in found.values("src"))
    shown = HOSTILE.replace("\u202e", "\\u202e")
    assert found.text["title"] == found.text["h1"] == [shown]
    assert "<i>nothing</i>: no answer." in found.text["strong"]
    assert "\u202e" not in found.source


def test_the_same_input_gives_the_same_bytes(run, folder):
    """The bytes are equal in a process with other hashes and another time zone."""
    arguments = ["report", "rope", "--d", "8", "-S", "9", "-q", "--out"]
    env = {**os.environ, "PYTHONHASHSEED": "1", "TZ": "UTC1"}
    command = [sys.executable, "-m", "pefourier", *arguments, "1.html"]
    subprocess.run(command, env=env, check=True, capture_output=True)
    assert run(*arguments, "2.html").status == 0
    assert (folder / "1.html").read_bytes() == (folder / "2.html").read_bytes()


@without_pictures
@pytest.mark.parametrize(
    ("spec", "answered"),
    [
        ("mtan", {"check-faithful", "relations", "spectrum"}),
        ("laplacian", {"check-faithful", "relations", "spectrum"}),
        ("fire:threshold=5", {"check-faithful"}),
    ],
)
def test_questions_that_do_not_apply_are_left_out(page, folder, spec, answered):
    (folder / "times.csv").write_text("0\n.5\n2\n3.7\n")
    size = ("--times", "times.csv") if spec == "mtan" else ("--length", 20)
    shown = set(page(spec, "--d", 4, *size).text["h2"])
    assert {question for question in ALL if HEADINGS[question] in shown} == answered

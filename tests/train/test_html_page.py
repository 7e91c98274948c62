"""The page about a folder of training: its numbers, and refusals of what training did not write."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from pages import Page
from scipy.stats import rankdata

from pefourier.pages.document import Words, value_cell
from pefourier.pages.training import rank_matrix, read_train_folder, steps_table
from pefourier.train.options import Options, flag_of, help_of
from pefourier.train.report import three_decimals
from pefourier.train.store import KEY, NOT_NUMBERS
from pefourier.train.traces import file_of_run

FIGURES = Path(__file__).parents[2] / "figures"
HOSTILE = '<script>alert("1")</script>'
pytestmark = pytest.mark.usefixtures("undrawn")


@cache
def summary_of(name):
    """Of a committed comparison."""
    return read_train_folder(str(FIGURES / name)).summary


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
        assert len(done.out.split()) < 20  # where the page is
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
        "Scores and differences",
        "How training went",
        "How these numbers were made",
        "What the words mean",
    ]
    assert "" not in found.text["p"]
    ids = found.all_values("id")
    assert len(ids) == len(set(ids))
    assert {*found.all_values("popovertarget"), *found.all_values("aria-labelledby")} <= set(ids)
    lines = [c for c in found.text["code"] if c.startswith("pefourier train")]
    assert len(lines) == 1
    for option in ("--split random", "-e none", "--dataset msl", "--seeds 1", "--rate 0.001"):
        assert option in lines[0]
    assert any(said.startswith("smd: windows were shuffled") for said in found.text["li"])
    cells = " ".join(found.text["td"])
    assert "highest score on validation" in cells
    assert "2.13.0+cpu" in cells


def test_a_dataset_is_summed_up_before_its_encodings(page):
    said = page(FIGURES / "nested" / "window-100").text["p"]
    alike = (f"{name}: F1 against sinusoidal: too few: " for name in ("smd", "msl"))
    assert all(any(paragraph.startswith(one) for paragraph in said) for one in alike)


@pytest.mark.parametrize("name", ["window-100", pytest.param("bundled", marks=pytest.mark.long)])
def test_the_colours_of_a_matrix_are_ranks(name):
    summary = summary_of(name)
    cells = str(rank_matrix(summary, Words([])))
    shaded = re.findall(r'class="rank-(\d)" data-head="([\w:]+)"><span>(.*?)</span></td>', cells)
    names = re.findall(r'<th scope="row">(.*?)</th>', cells)
    assert len(shaded) == len(summary.datasets) * len(names)
    for one in summary.datasets:
        called = one.dataset.removeprefix("uea:")  # which all of them have
        own = [(int(shade), inside) for shade, name, inside in shaded if name == called]
        f1 = [one.scores[name.replace("<wbr>", "")]["f1"].mean for name in names]
        ranks = rankdata([-mean for mean in f1])
        shades = [int(4 * (rank - 1) / (len(names) - 1)) for rank in ranks]
        assert shades == [shade for shade, _ in own]
        for mean, rank, (_, inside) in zip(f1, ranks, own, strict=True):
            assert inside.endswith(f">{three_decimals(mean)}</data><small> {rank:g}</small>")
        told = {name for name, (_, inside) in zip(names, own, strict=True) if "▲" in inside}
        assert told == {name for name, code in one.verdicts.items() if code == "better"}
    assert name == "window-100" or any("▲" in inside for _, _, inside in shaded)
    average = [float(text) for text in re.findall(r'"mean rank">(.*?)</td>', cells)]
    assert average == sorted(average)


def test_a_source_that_all_datasets_have_stands_only_where_all_are_named(page):
    said = page(FIGURES / "bundled").text
    assert said["h1"] == ["Which encoding classifies better: 8 datasets"]
    first, *rest = said["p"]
    assert first.count("uea:") == 8
    assert not [text for text in (*rest, *said["summary"]) if "uea:" in text]


def test_first_comes_the_matrix_and_the_rest_is_folded(page):
    """Everything else but a sentence a dataset is folded, and nothing of it is in the terminal."""
    found = page(FIGURES / "leaky-100")
    order = [name for name, _ in found.elements if name in ("table", "details")]
    assert order[:2] == ["table", "details"]
    holders = re.findall(r"<details([^>]*)>(?:(?!<details).)*?<svg", found.source, re.DOTALL)
    assert holders == [' open=""'] * len(holders) != []  # pictures are seen and printed


def test_a_folder_and_encodings_are_on_one_page(run, tmp_path):
    given = "report", FIGURES / "leaky-100", "rope", "dft", "--d", "8"
    assert "rope: " in run(*given, "--out", tmp_path / "page.html").out
    said = Page(tmp_path / "page.html").source
    assert "<h1>Which encoding classifies better" in said
    for heading in ("Scores and differences", "Encodings: at a glance", "Encodings: findings"):
        assert f"{heading}</h2>" in said
    names = re.findall(r'\bid="([^"]*)"', said)
    assert len(names) == len(set(names))
    assert said.count("This page comes from") == 1
    command = f"pefourier report {FIGURES / 'leaky-100'} rope dft --d 8"
    assert command in re.sub("<.*?>", "", said)
    done = run("report", FIGURES / "leaky-100", "dft", "--out", tmp_path / "a.html", "--json")
    alone = run("report", FIGURES / "leaky-100", "--out", tmp_path / "b.html", "--json").results
    assert [one["spec"] for one in done.results] == [*(one["spec"] for one in alone), "dft"]


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
    assert any(said.startswith(HOSTILE) for said in found.text["summary"])
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


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([FIGURES / "window-100"], "report takes one folder; got "),
        (["--d", "8"], "--d say nothing about a folder of pefourier train; leave them out"),
    ],
)
def test_what_says_nothing_about_a_folder_is_refused(run, tmp_path, more, message):
    done = run("report", FIGURES / "leaky-100", *more, "--out", tmp_path / "a.html")
    assert done.status == 2
    assert message in done.err


def test_curves_that_are_stored_are_drawn(page, folder, leaky):
    config, rows = leaky
    path = folder({**config, "dataset": ["msl"]}, rows)
    assert any("Losses are not in" in said for said in page(path).text["p"])
    own = [row for row in rows if row["dataset"] == "msl"]
    (path / "scores").mkdir()
    for row in own[1:]:
        key = tuple(row[name] for name in KEY)
        np.savez(file_of_run(path, key), curve=np.linspace(0, 1, 12).reshape(4, 3))
    found = page(path)
    assert found.faults == []
    (picture,) = [a["aria-label"] for n, a in found.elements if "look by look" in str(a)][:1]
    assert picture.startswith("Means over runs, look by look: training loss")
    assert f"1 of {len(own)} runs has no stored curve." in found.text["p"]


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
    (said,) = [p for p in found.text["p"] if p.startswith("Not recorded")]
    typed = {*re.findall("--[a-z-]+", said), *re.findall("--?[a-z-]+", line)}
    lasting = {*Options.__dataclass_fields__} - {"device", "plot"}
    assert {flag_of(name) for name in NOT_NUMBERS & lasting} <= typed
    assert "Picture of every run" not in found.text["summary"]  # two datasets have ranks


@pytest.mark.long
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser")
def test_tables_have_the_width_of_a_screen(page, folder, tmp_path):
    """A narrow table does not squeeze its caption, and a wide one is not cut."""
    whole = FIGURES / "window-100"
    config = {**json.loads((whole / "config.json").read_text()), "dataset": ["smd"]}
    rows = map(json.loads, (whole / "results.jsonl").read_text().splitlines())
    own = folder(config, [row for row in rows if row["dataset"] == "smd"])
    found = page(own)
    assert "Picture of every run" in found.text["summary"]
    told = """<script>onload = () => {
        for (const one of document.querySelectorAll("details")) one.open = true;
        document.title = JSON.stringify([
            document.querySelector(".matrix caption > span").offsetWidth,
            Math.max(...[...document.querySelectorAll(".stacked .scroll")].map(
                one => one.scrollWidth - one.clientWidth))])}</script>"""
    measured = re.sub("<meta [^>]*Policy[^>]*>", "", found.source) + told  # which allows no script
    (tmp_path / "measured.html").write_text(measured)
    how = ["--headless", "--no-sandbox", "--window-size=1400,900", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *how, str(tmp_path / "measured.html")],
        **{"capture_output": True, "text": True, "check": True, "timeout": 120},
    )
    caption, cut = json.loads(re.search("<title>(.*?)</title>", done.stdout)[1])
    assert caption > 600
    assert cut <= 0


def test_every_setting_is_told_with_its_meaning(page):
    found = page(FIGURES / "leaky-100")
    config = json.loads((FIGURES / "leaky-100" / "config.json").read_text())
    options = {one.name: help_of(one.name)["help"] for one in fields(Options)}
    told = dict(zip(found.text["button"], found.values("button", "title"), strict=True))
    assert isinstance(config["data"], dict)  # sums of numbers, not what --data was
    assert "data" not in told
    for name in set(options) & set(config) - {"dataset", "encoding", "data"}:
        assert told[name].startswith(options[name])


def test_seconds_are_those_of_one_run():
    summary = summary_of("window-100")
    cells = str(steps_table(summary, Mock(term=lambda name, _: name)))
    for one in summary.datasets:
        for name in one.scores:
            asked = (one.dataset, name)
            took = [r["seconds"] for r in summary.runs if (r["dataset"], r["encoding"]) == asked]
            assert len(took) > 1
            assert str(value_cell(sum(took) / len(took))) in cells

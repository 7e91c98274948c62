"""The page of a report: numbers of the commands it names, and markup that no name changes."""

import contextlib
import html
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from pages import Page

from pefourier.analysis.faithful import assess
from pefourier.answers.terms import read_terms
from pefourier.cli.main import main
from pefourier.encodings import load
from pefourier.pages.cards import card as card_of
from pefourier.pages.cards import formats_in_words
from pefourier.pages.document import STYLE_SHEET, Markup, Words, element, table, value_cell
from pefourier.pages.encodings import parameters_in_words
from pefourier.pages.inline_svg import CURVES, GREYS, INK, inline_svg
from pefourier.pages.reach import find_reach
from pefourier.writing.text import number

HOSTILE = '</title></style><script>alert(1)</script><img src=x onerror="alert(2)"> & $x_1$ \u202e'


@pytest.fixture
def page(run, tmp_path):
    """page("dft", "--d", 8) -> the page of a report of a few seconds."""

    def make(*arguments, status=0):
        path = tmp_path / "report.html"
        done = run("report", *arguments, "--out", path, "-q")
        assert done.status == status, done.err
        return Page(path)

    return make


without_pictures = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("mixed")
    np.save(path / "ones.npy", np.ones((20, 4)))
    return path


@pytest.fixture(scope="module")
def mixed(folder):
    """A page about a rotation, a table with faults, zeros and a SPEC that is not known."""
    specs = ["rope:d=16", "dft", "none", "ones.npy", "nothing-of-the-kind"]
    with contextlib.chdir(folder):
        assert main(["report", *specs, "--d", "16", "--length", "20", "-q"]) == 2
    return Page(folder / "report.html")


def test_the_markup_is_whole(mixed):
    assert mixed.faults == []
    ids = mixed.all_values("id")
    assert len(ids) == len(set(ids)) > 100
    links = [href.removeprefix("#") for href in mixed.all_values("href") if href[0] == "#"]
    targets = mixed.all_values("popovertarget") + mixed.all_values("aria-labelledby")
    assert len(targets) > 40
    assert {*links, *targets} <= set(ids)


def test_headings_come_in_order_and_conclusions_first(mixed):
    levels = [int(name[1]) for name, _ in mixed.elements if re.fullmatch("h[1-6]", name)]
    assert levels[:2] == [1, 2]
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert levels.count(1) == 1
    assert mixed.text["h2"] == [
        "At a glance",
        "How far do rotations reach?",
        "Findings",
        "Can positions be told apart and recovered?",
        "Which frequencies are there?",
        "What is left of a position?",
        "How do positions relate to one another?",
        "How these numbers were made",
        "What the words mean",
    ]


def test_a_card_says_first_what_matters(mixed, run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    *cards, refused = mixed.text["article"]
    line = "check-faithful rope:d=16 dft none ones.npy --d 16 --length 20 --json"
    results = run(*line.split()).results
    rungs = re.findall(r'aria-current="true">.*?>(\w+)<', mixed.source)
    assert rungs == [r["verdict"] for r in results]
    for card, r in zip(cards, results, strict=True):
        assert card.startswith(r["spec"])
        assert f"rank{r['rank']} of {r['dimension']}" in card
        assert r["conclusion"].split(". ")[1].removesuffix(".") in card
        found = [f["severity"] for f in r["findings"]]
        told = card.partition("findings")[2]
        assert told.startswith(f"{found.count(found[0])} {found[0]}" if found else "none")
    assert "base 10,000" in cards[0]
    assert "precisionall 20 codes in float32, float16 and bfloat16" in cards[0]
    assert "precisionall 16 codes in float32" in cards[1]
    assert "precisionnothing to keep apart" in cards[2]
    assert "reachtraining length unknown (asked 20)" in cards[0]
    assert "TRAINING LENGTH UNKNOWN. Nothing says" in cards[0]
    assert "Not answered:" in refused


def test_a_card_leads_with_a_reach_that_is_no_good(folder, monkeypatch):
    """Unseen angles stood under a green rung beside "findings none"."""
    monkeypatch.chdir(folder)
    config = {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 1}
    config |= {"max_position_embeddings": 64, "rope_theta": 100.0}
    Path("long.json").write_text(json.dumps(config))
    enc, r = load("long.json", 256), assess(load("long.json", 256))
    (reach,), _ = find_reach([enc], {"length": 256})
    said = str(card_of(enc, r, reach, Words(read_terms())))
    verdict, first, then = (said.find(x) for x in ("UNSEEN ANGLES", "compares scalings", "ladder"))
    assert -1 < verdict < first < then
    assert '<strong class="warning">UNSEEN ANGLES.</strong>' in said
    assert '<span class="warning">unseen angles (trained 64, asked 256)</span>' in said


def test_what_is_long_is_folded(mixed):
    """Tables are in details, which need no script; paper has only those that were opened."""
    assert "script" not in mixed.text
    outside = re.sub(r"<details>.*?</details>", "", mixed.source, flags=re.DOTALL)
    assert "<table>" in mixed.source
    assert "<table>" not in outside
    assert "details:not([open], .printed) { display: none; }" in STYLE_SHEET.read_text()


def test_numbers_are_written_for_people_and_stand_to_the_right():
    cells = table("t", ["of", "n"], [["a", value_cell(131072)], ["b", value_cell(2e7)]])
    assert re.findall(r'<t[hd][^>]*class="short number">(.*?)</td>', cells) == [
        '<data value="131072">131,072</data>',
        '<data value="20000000.0">2.0e7</data>',
    ]
    assert '<th scope="col" class="number">n</th>' in cells


def test_tables_and_pictures_can_be_read_aloud(mixed):
    scopes = [a.get("scope") for name, a in mixed.elements if name == "th"]
    assert set(scopes) == {"col", "row"}
    tables = [name for name, _ in mixed.elements].count("table")
    assert len(mixed.text["caption"]) == tables
    assert all(mixed.text["caption"])
    boxes = [a for name, a in mixed.elements if a.get("class") == "scroll"]
    assert len(boxes) == tables
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in boxes)
    pictures = [a for name, a in mixed.elements if name == "svg"]
    assert len(pictures) == 4 + 5 + 1  # tables one by one, pictures of all, bands of the rotation
    assert all(a["role"] == "img" and a["aria-label"] for a in pictures)
    assert sum("rope:d=16" in a["aria-label"] for a in pictures) == 6
    assert mixed.values("html", "lang") == ["en"]


def test_nothing_is_requested_and_nothing_runs(mixed):
    assert [name for name, _ in mixed.elements if name in ("script", "link", "img", "iframe")] == []
    assert {v.partition(",")[0] for v in mixed.all_values("href") if v[0] != "#"} == {
        "data:image/png;base64"
    }
    assert mixed.all_values("src") == []
    assert re.findall(r"url\((?!#)[^)]*\)|@import", mixed.source) == []
    (policy,) = [a["content"] for _, a in mixed.elements if "http-equiv" in a]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


def test_a_spec_that_cannot_be_read_is_said_beside_the_others(mixed):
    assert "Not answered:" in mixed.text["strong"]
    assert any("unknown encoding 'nothing-of-the-kind'" in said for said in mixed.text["p"])
    asked = ["rope:d=16", "dft", "none", "ones.npy", "nothing-of-the-kind"]
    assert mixed.text["h3"] == [*asked, "Which of them?"]


def test_a_finding_is_explained(mixed):
    (item,) = [item for item in mixed.text["li"] if "[constant-codes]" in item]
    (meaning,) = [t.meaning for t in read_terms() if t.term == "constant-codes"]
    assert item.startswith("error ones.npy: ")
    assert meaning in item


def test_a_word_has_its_explanation(mixed):
    heads = dict(zip(mixed.values("button", "title"), mixed.text["button"], strict=True))
    (meaning,) = [t.meaning for t in read_terms() if (t.term, t.group) == ("gap", "check-faithful")]
    assert heads[meaning] == "over rms code length (gap)"
    assert any(said.startswith(f"gap (check-faithful): {meaning}") for said in mixed.text["p"])


def numbers_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in numbers_in(item)]
    return [value] if isinstance(value, int | float) else []


def test_every_number_is_that_of_the_command_beside_it(mixed, run, folder, monkeypatch):
    """Each chapter's numbers are, as its command tells them, among those of its answer in JSON."""
    monkeypatch.chdir(folder)
    chapters = mixed.source.split("<section ")[1:]
    seen = 0
    for chapter in chapters:
        lines = re.findall(r"<pre><code>pefourier (.*?)</code>", chapter)
        given = [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in lines]
        printed = re.findall(r'<data value="([^"]*)">', chapter)
        if not given or given[0].startswith("report"):
            continue
        done = run(*shlex.split(given[0]), "--json")
        assert done.status == 0, done.err
        known = {float(number(float(x))) for x in numbers_in(json.loads(done.out))}
        own = [x for x in printed if float(x) not in known]
        seen += len(printed) - len(own)
        told = run(*shlex.split(given[0])).out
        assert [x for x in own if number(float(x)) not in told.split()] == []
    assert seen > 100


def test_options_and_percentages_stay_on_one_line(mixed):
    spans = [a for name, a in mixed.elements if name == "span" and a.get("class") == "whole"]
    assert len(spans) > 20
    for line in re.findall(r"<pre><code>(.*?)</code>", mixed.source):
        loose = re.sub(r'<span class="whole">[^<]*</span>', "", line)
        assert [word for word in re.sub(r"<[^>]*>", " ", loose).split() if "-" in word] == []
    said = "".join(re.findall(r"<p>.*?</p>", mixed.source))
    assert re.findall(r"(?<!>)(?<![\w-])--?[A-Za-z][\w-]*|\d %(?!</span>)", said) == []
    assert "--trained" in said
    assert " %" in said


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("as -q; not a-b or -1", 'as <span class="whole">-q</span>; not a-b or -1'),
        (
            "5.5 % '-q'",
            '<span class="whole">5.5 %</span> &#x27;<span class="whole">-q</span>&#x27;',
        ),
        ("rope:factor=4,a=<1>", "rope:factor=4,a=&lt;1&gt;"),
        ("rope:rho=5e5,scaling=yarn,a=<1>", "rope:rho=5e5,<wbr>scaling=yarn,<wbr>a=&lt;1&gt;"),
        (
            "/a/rather/long_long/path#array",
            "/<wbr>a/<wbr>rather/<wbr>long_long/<wbr>path#<wbr>array",
        ),
    ],
)
def test_lines_break_where_people_would(text, markup):
    assert element("p", text) == f"<p>{markup}</p>"
    assert element("title", text).count("<") == 2


def test_only_a_long_word_of_a_head_may_break_anywhere():
    words = ["encoding", "rope:rho=5e5,scaling=yarn,factor=4", 30 * "x", Markup(30 * "x")]
    heads = re.findall(r"<th ([^>]*)>", table("t", words, []))
    assert ["long" in head for head in heads] == [False, False, True, False]


def test_no_name_is_more_than_text(page, mixed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = HOSTILE.replace("/", "∕") + ".npz"
    with open(name, "wb") as stream:
        np.savez(stream, **{"a<b>\"'": np.eye(4)})
    found = page(f"{name}#a<b>\"'", "<i>nothing</i>", "--title", HOSTILE, status=2)
    assert found.faults == []
    assert {e for e, _ in found.elements} <= {e for e, _ in mixed.elements} | {"wbr"}
    assert [key for _, a in found.elements for key in a if key.startswith("on")] == []
    shown = HOSTILE.replace("\u202e", "\\u202e")
    assert found.text["title"][:1] == found.text["h1"] == [shown]
    assert found.text["h3"][0].startswith(shown.replace("/", "∕"))
    assert found.text["h3"][1] == "<i>nothing</i>"
    assert "\u202e" not in found.source


def test_the_same_input_gives_the_same_bytes(run, tmp_path, monkeypatch):
    """In a process with other hashes, in another place, too."""
    monkeypatch.chdir(tmp_path)
    arguments = ["report", "rope", "--d", "8", "-S", "9", "-q", "--out"]
    subprocess.run(
        [sys.executable, "-m", "pefourier", *arguments, "1.html"],
        env={**os.environ, "PYTHONHASHSEED": "1", "TZ": "UTC1"},
        check=True,
        capture_output=True,
    )
    assert run(*arguments, "2.html").status == 0
    pages = [(tmp_path / f"{seed}.html").read_bytes() for seed in (1, 2)]
    assert pages[0].replace(b"--out 1.html", b"") == pages[1].replace(b"--out 2.html", b"")


@without_pictures
def test_the_answer_says_where_the_page_is(run, tmp_path):
    out = tmp_path / "a.html"
    done = run("report", "dft", "nothing-such", "--d", 8, "-S", 4, "--out", out, "--json")
    assert done.status == 2
    first, second = done.results
    assert (first["spec"], first["out"], first["encoding"]) == ("dft", str(out), "dft")
    assert first["conclusion"].startswith("ISOMETRIC. All 4 positions have different codes")
    assert second["spec"] == "nothing-such"
    told = " ".join(run("report", "dft", "--d", 8, "-S", 4, "--out", out).out.split())
    assert told.startswith("The page is in ")


@pytest.mark.parametrize(
    ("out", "message"),
    [("a.pdf", "unknown suffix '.pdf'"), ("no/such/a.html", "make the folder")],
)
def test_a_page_that_cannot_be_written_is_refused_at_once(run, tmp_path, out, message):
    done = run("report", "dft", "--out", tmp_path / out)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


@without_pictures
def test_many_encodings_share_several_pictures(page):
    specs = [f"rope:rho={n}" for n in range(2, 11)]
    found = page(*specs, "--d", 4, "-S", 4)
    assert len(found.values("svg", "role")) == 9 + 10 + 1  # of seven at a time
    assert found.faults == []
    ids = found.all_values("id")
    assert len(ids) == len(set(ids))


def tokens(scheme):
    """The colours of the style sheet in a scheme."""
    light, _, dark = STYLE_SHEET.read_text().partition("@media screen and (prefers-color-scheme")
    part = light if scheme == "light" else dark.partition("\n}")[0]
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", part))


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_told_from_what_is_behind(scheme):
    """WCAG 2.2, AA: 4.5 for text, 3 for lines."""
    colours = tokens(scheme)
    assert set(tokens("light")) == set(tokens("dark"))

    def contrast(a, b):
        low, high = sorted((luminance(colours[a]), luminance(colours[b])))
        return (high + 0.05) / (low + 0.05)

    for text in ("ink", "quiet", "accent", "bad", "warn"):
        assert min(contrast(text, "paper"), contrast(text, "box")) >= 4.5
    assert [n for n in range(7) if contrast(f"curve-{n}", "paper") < 3] == []


def test_every_colour_of_a_page_is_one_of_the_style_sheet(mixed):
    text = mixed.source
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", text))
    assert used <= set(tokens("light"))
    assert {"ink", "quiet", "curve-0", "curve-3"} <= used
    drawings = text[text.index("<svg") :]
    assert re.findall(r"(?:fill|stroke): #[0-9a-f]+", drawings) == []


def test_what_is_not_markup_is_escaped():
    assert (
        element("p", '<a href="x">', title='"&')
        == '<p title="&quot;&amp;">&lt;a href=&quot;x&quot;&gt;</p>'
    )
    assert element("p", [Markup("<b>"), ["<", None, ""]], 0) == "<p><b>&lt;0</p>"
    assert "&lt;i&gt;" in table("<i>", ["<i>"], [["<i>", "<i>"]])
    assert Words(read_terms()).term("<i> is not a term") == "<i> is not a term"


def test_a_picture_keeps_its_text_and_gives_up_its_colours():
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'viewBox="0 0 1 1" width="1pt"><metadata>2026</metadata><defs><style>*{}</style></defs>'
        f'<path id="p" style="fill: {INK}; stroke: {CURVES[2]}" clip-path="url(#c)"/>'
        f'<use xlink:href="#p" style="stroke: {GREYS[0]}"/>'
        '<text style="font: 9px \'DejaVu Sans\', sans-serif; text-anchor: middle">id="p" &lt;b&gt;'
        "</text></svg>"
    )
    assert inline_svg(drawing.encode(), "f1", "A <curve>") == (
        '<svg viewBox="0 0 1 1" role="img" aria-label="A &lt;curve&gt;"><defs />'
        '<path id="f1-p" style="fill: var(--ink); stroke: var(--curve-2)" clip-path="url(#f1-c)" />'
        '<use href="#f1-p" style="stroke: var(--quiet)" />'
        '<text style="font-size: 9px; text-anchor: middle">id="p" &lt;b&gt;</text></svg>'
    )


def test_grids_and_sequences_stand_side_by_side(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("flat.npy", np.random.default_rng(0).normal(size=(12, 8)))
    found = page("axial", "axial-rope", "--grid", "3x4", "--d", 16)
    assert found.faults == []
    told = [a["aria-label"] for name, a in found.elements if name == "svg"]
    assert [label.split(" of ")[0] for label in told].count("Share") == 2
    assert len(told) == 8
    pictures = [v for v in found.values("image", "href")]
    assert pictures
    assert all(v.startswith("data:image/png;base64,") for v in pictures)
    assert any("meets a phase again" in said for said in found.text["p"])  # as context says
    assert "check-faithful in numbers" in found.text["caption"]
    assert "pefourier spectrum axial axial-rope --d 16 --grid 3x4" in found.text["code"]


@without_pictures
def test_relations_of_points_are_on_the_page(page, run):
    found = page("axial", "--grid", "6x6", "--d", 16)
    (line,) = [line for line in found.text["code"] if "relations" in line]
    assert line == "pefourier relations axial --d 16 --grid 6x6"
    (record,) = run(*shlex.split(line)[1:], "--json").results
    assert "DEPENDS ON DISPLACEMENT ALONE. " in record["conclusion"]
    assert any(record["conclusion"] in said for said in found.text["p"])
    assert "as far on the diagonals" in found.text["button"]


@without_pictures
def test_options_are_part_of_the_commands(page):
    found = page("dft", "--d", 8, "--lattice", 32, "--sigma", 1, "--seed", 3)
    lines = [line for line in found.text["code"] if line.startswith("pefourier")]
    both = "dft --d 8 --seed 3 --lattice 32 --sigma 1.0"
    plain = "dft --d 8 --seed 3"
    named = dict.fromkeys(("spectrum", "reconstruct", "report"), both)
    named |= {"check-faithful": plain, "relations": plain}
    assert set(lines) == {f"pefourier {command} {rest}" for command, rest in named.items()}


@without_pictures
def test_rotations_have_what_context_says(page, run):
    found = page("rope:scaling=yarn,factor=4,original=16", "dft", "rope", "--d", 16, "-S", 64)
    (line,) = [line for line in found.text["code"] if "context" in line]
    assert line.startswith("pefourier context rope:scaling=yarn,factor=4,original=16 rope --d 16 ")
    results = run(*shlex.split(line)[1:], "--json").results
    for result in results:
        assert any(result["conclusion"] in said for said in found.text["p"])
    (bands,) = [r["rotations"][0]["bands"] for r in results[:1]]
    values = {number(float(v)) for v in found.values("data", "value")}
    told = {band["turns"] for band in bands} | {results[0]["rotations"][0]["base"]}
    assert set(map(number, told)) <= values


@without_pictures
def test_a_base_that_context_cannot_be_told_leaves_its_part_out(page):
    assert "How far do rotations reach?" not in page("rope", "--rho", 500, "--d", 8).text["h2"]


@without_pictures
def test_several_encodings_have_what_speaks_for_which(page):
    found = page("dft", "tape", "learned", "--d", 16, "-S", 16)
    at = found.text["h3"].index("Which of them?")
    assert found.text["h3"][:at] == ["dft", "tape", "learned"]
    (said,) = [p for p in found.text["p"] if "the highest verdict" in p]
    assert said.startswith("All 3 give all 16 positions different codes. dft is isometric")
    assert "Which of them?" not in page("dft", "--d", 16, "-S", 16).text["h3"]


def test_a_card_tells_codes_stored_from_codes_computed():
    """One number for both contradicted the sentence below it."""
    r = assess(load("rope", 20, 8))
    two = "all 20 codes in float32 and float16"
    for cast, phase, told in (
        (5, 9, [f"{two}; bfloat16 5"]),
        (9, 5, [f"if cast: {two}; bfloat16 9", f"if computed: {two}; bfloat16 5"]),
        (20, 5, ["if cast: all 20 codes in float32, float16 and bfloat16"]),
        (7, None, [f"{two}; bfloat16 7"]),
    ):
        loss = replace(r.precision["bfloat16"], distinct_cast=cast, distinct_phase=phase)
        lines = formats_in_words(replace(r, precision=r.precision | {"bfloat16": loss}))
        assert lines[: len(told)] == [f"<div>{one}</div>" for one in told]


def test_only_the_bands_of_a_rotation_are_wider_than_the_text(mixed):
    wide = [a["aria-label"] for _, a in mixed.elements if a.get("class") == "scroll wide"]
    assert len(wide) == 1
    assert "wavelength" in wide[0].lower()


def test_parameters_are_told_as_they_are_typed():
    assert "rho=500000" in parameters_in_words(load("rope:rho=5e5", 8, 4)).split(", ")

"""Names of files are plain text in every form of every answer."""

import csv
import html
import re
from pathlib import Path

import numpy as np
import pytest
from stored import safetensors

from pefourier.cli.options import OutputOptions
from pefourier.writing.escapes import (
    in_csv,
    in_html,
    in_latex,
    in_markdown,
    in_workflow_command,
    in_workflow_property,
)
from pefourier.writing.page import Page
from pefourier.writing.text import printable

ESCAPES = {
    "text": printable,
    "lint": printable,
    "github": in_workflow_command,
    "md": in_markdown,
    "latex": in_latex,
    "csv": in_csv,
    "html": in_html,
}


CONTROLS = [*map(chr, [*range(1, 32), *range(127, 160), *range(0x202A, 0x202F)])]
CONTROLS += [*map(chr, [*range(0x2066, 0x206A), 0x2028, 0x2029, 0xFEFF])]
NAMES = ["".join(c for c in CONTROLS if c not in "\n\r"), *"a\nb|a\r\nb|##[error]evil".split("|")]
NAMES += ["\x1b[2J\x1b]0;title\x07", "::error file=x::evil", "a ::stop-commands::x"]
NAMES += ["a,title=b:c%0Ad", "<script>alert(1)<!--", '"><img src=x onerror=alert(1)>&lt;']
NAMES += ["[a](javascript:alert(1))", "![1](evil) [2]: evil", "`a` *b* _c_ ~d~ $e$ | f \\| g"]
NAMES += ["# head", "> said", "- item", "1. item", "+ item", "&lt;b&gt;", "[1pt]", "*", "=1+1"]
NAMES += ["\\input{x} $a$ #1 50% ^ ~ {", "+1+1", "-1+1", "@SUM(1)", " =1", "\t=1", "\r=1"]
NAMES += ["＝1", "'=1"]
FILES = [f"{name.replace('/', '-')}.npy" for name in NAMES]
COMMANDS = ("check-faithful", "spectrum", "relations", "compare")
FORMS = {"text": [], "csv": ["--csv"], "json": ["--json"]}
FORMS |= {name: ["--format", name] for name in ("github", "lint", "md", "latex", "sarif")}


def plain_lines(text):
    return all(line.isprintable() for line in text.removesuffix("\n").split("\n"))


def inline_markup(text):
    """Return Markdown without escaped characters and the program's code spans."""
    return re.sub(r"\\[!-/:-@\[-`{-~]", "", text)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ESCAPES)
def test_an_escaped_name_is_text_in_one_line(form, name):
    reported = ESCAPES[form](name)
    assert reported.isprintable()
    if form in ("text", "lint", "md", "latex", "csv"):
        assert not re.search(r"(^|\s)::|##\[", reported)
    if form == "md":
        left = inline_markup(reported)
        assert not re.search(r"[`*$|~]|<[a-z!]|\]\(|\]:|&\w+;|\b_|_\b", left)
        assert not re.match(r"[#>=]|[-+] |\d+\. ", left)
    if form == "latex":
        left = re.sub(r"\\(text\w+\{\}|ldots\{\}|[&%$#_{}])", "", reported)
        assert not re.search(r"[%&#^~_\\]", left)
        assert not re.match(r"[\[*]", reported)
        assert left.count("{") == left.count("}")
    if form == "csv":
        assert not re.match(r"[\s]*[=+\-@＝]", reported)
    if form == "html":
        assert not re.search("[<>\"']", reported)
        assert html.unescape(reported).isprintable()
    if form == "github":
        assert not re.search(r"%(?!25|0A|0D)", reported)
        assert not re.search(r"[:,]", in_workflow_property(name))


def test_what_is_harmless_stays_as_it_is():
    for name in ("wpe.npy", "a b/c-d.npy#h.0.attn", "rope_rho", "é", "模型", "[0.1, 0.2]", "x < 3"):
        plain = [
            escaped(name) for form, escaped in ESCAPES.items() if form not in ("latex", "html")
        ]
        assert {*plain} == {name}
    numbers = ["-0.5", "+1e3", "-", "-inf"]
    assert [ESCAPES["csv"](text) for text in numbers] == numbers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a table of repeated rows, which has a finding, under each allowed file name."""
    folder = tmp_path_factory.mktemp("names")
    for name in FILES:
        np.save(folder / name, np.tile(np.random.default_rng(0).normal(size=(1, 4)), (8, 1)))
    return folder


def reported_in(form, out):
    """Return the parts of an output in which a file name is more than text."""
    if form == "csv":
        cells = [cell for row in csv.reader(out.splitlines()) for cell in row]
        return [c for c in cells if re.match(r"\s*[=+\-@＝]", c) and not number(c)]
    if form == "md":
        marks = r"<[a-z!]\w*|\]\(|&\w+;|^[#>] .*|^[-+] .*|^1\. .*"
        return re.findall(marks, inline_markup(out), re.M)
    if form == "github":
        return [line for line in out.splitlines() if not re.match(r"::\w+ [^\n]*title=", line)]
    if form == "latex":
        body = [line for line in out.splitlines() if not line.startswith(("%", "\\"))]
        return [line for line in body if re.search(r"(?<!\\)[%#]|\\input|^\[|^\*", line)]
    return [line for line in out.splitlines() if re.search(r"^\s*::|##\[", line)]


def number(cell):
    try:
        return float(cell) is not None
    except ValueError:
        return False


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", COMMANDS)
def test_names_of_files_are_text_in_each_form_of_a_command(run, folder, monkeypatch, command, form):
    monkeypatch.chdir(folder)
    for name in FILES:
        more = ["dft"] if command == "compare" else []
        options = [*FORMS[form], "--quiet", *more, "--paths", "--"]
        done = run(command, *options, name)
        assert done.status in (0, 1, 2), name
        if form not in ("json", "sarif"):
            assert reported_in(form, done.out) == [], name
        refused = run(command, *options, f"no {name}")
        for text in (done.out, done.err, refused.out, refused.err):
            assert plain_lines(text), (name, text)


@pytest.mark.usefixtures("undrawn")
def test_a_page_and_files_that_are_written_hold_names_as_text(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in FILES:
        assert run("report --out page.html --paths --", name).status == 0
        page = Path("page.html").read_text()
        assert plain_lines(page.replace("\t", " "))
        assert not re.search('<script|<img(?! src="data:)|alert\\(1\\)>', page)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_any_slot_is_text(name, capsys):
    page = Page("list", lambda: f"  {name}\n{name}\n", list, conclusion=lambda: f"x\n{name}: A.\n")
    OutputOptions().print(page)
    out = capsys.readouterr().out
    assert plain_lines(out)
    assert not re.search(r"(^|\s)::|##\[", out, re.M)


@pytest.mark.parametrize("name", ["x\x1b[31mPWNED\x07", "x\n::error file=README.md::pwned y"])
def test_the_name_of_a_tensor_is_text(name, tmp_path, written, run):
    config = {"model_type": "whisper", "d_model": 8, "max_source_positions": 30}
    written(config)
    tensor = {f"{name}.embed_positions.weight": np.eye(30, 8)}
    safetensors(tmp_path / "model.safetensors", tensor)
    for command in COMMANDS[:3]:
        out = run(command, str(tmp_path), "--length", "4").out
        assert "embed_positions" in out or command != "check-faithful"
        assert plain_lines(out)
        assert "::error" not in out.replace(r"\n::error", "")

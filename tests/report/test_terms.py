"""The registry of terms: every word of an answer is in it, and `explain` tells it."""

import re
from pathlib import Path

import pytest
import typer

import pefourier
from pefourier.cli.main import program
from pefourier.cli.page_commands import command_terms
from pefourier.cli.registry import options_of
from pefourier.report.catalogue import read_catalogue
from pefourier.report.terms import (
    find_terms,
    read_terms,
)

PACKAGE = Path(pefourier.__file__).parent
TERMS = read_terms()
PROGRAM = typer.main.get_command(program())
EVERY = [*TERMS, *command_terms(PROGRAM)]
GROUPS = {term.group for term in TERMS}


def names_of(group):
    return {name for t in EVERY if t.group == group for name in (t.term, *t.also)}


def test_every_finding_has_a_term_and_every_term_a_finding():
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    codes = {t.term for t in TERMS if t.group == "findings"}
    assert set(re.findall(r'(?:inding|says)\(\s*"([a-z0-9-]+)"', sources)) <= codes
    assert [code for code in codes if f'"{code}"' not in sources] == []
    assert re.findall(r'\bFinding\(\s*"', sources) == []  # the registry has the words of all


def test_every_encoding_parameter_and_option_has_a_term():
    records = read_catalogue()
    assert {r["encoding"] for r in records} == names_of("encodings")
    conventions = {one["convention"] for r in records for one in r.get("conventions", ())}
    assert conventions == names_of("conventions")
    parameters = {key for r in records for key in r["meanings"]}
    assert parameters == names_of("parameters")
    options = {name for _, option in options_of(PROGRAM) for name in option.opts}
    assert options == names_of("options")
    assert all(t.meaning.strip() for t in EVERY)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("GAP", [("gap", "check-faithful")]),
        ("gap,", [("gap", "check-faithful")]),
        ("toeplitz-residual", [("toeplitz_residual", "check-faithful")]),
        ("smallest distance", [("min_distance", "check-faithful")]),
        ("precision", [("precision", "check-faithful"), ("precision", "train")]),
        ("-S", [("--length", "options")] * 5),
        ("m-rope", [("axes", "context")]),
    ],
)
def test_a_term_is_found_as_people_spell_it(wanted, found):
    assert [(t.term, t.group) for t in find_terms(wanted, EVERY)] == found


def test_explain_answers_in_every_form(run):
    assert [
        word for word in ("p-RoPE", "nope", "gguf", "LOST") if not find_terms(word, EVERY)
    ] == []
    (record,) = run("explain", "gap", "--json").results
    header, row = run("explain", "gap", "--csv").out.splitlines()
    assert header == "term,group,meaning,formula,unit,range,good,source,also"
    assert row.startswith(f"gap,check-faithful,{record['meaning'].split(',')[0]}")
    both = run("explain", "rank, isometric", "--json").results
    assert [t["term"] for t in both] == ["rank", "--rank", "isometric"]
    assert run("explain", "--lattice").out.startswith("--lattice (options): ")
    assert len(run("explain", "--json").results) == len(EVERY)


def test_a_word_that_is_no_term_is_refused(run):
    for words in (["rank", "blah", "compare"], ["blah"]):
        done = run("explain", *words)
        assert (done.status, done.out, "'blah'" in done.err) == (2, "", True)

"""The registry of terms: every word of an answer is in it, and `explain` tells it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import pefourier
from pefourier.cli.options import options_of
from pefourier.cli.program import command_terms, option_terms, program
from pefourier.files import read_toml
from pefourier.report.catalogue import read_catalogue
from pefourier.report.terms import (
    WORDS,
    find_terms,
    read_terms,
)

PACKAGE = Path(pefourier.__file__).parent
TERMS = read_terms()
EVERY = [*TERMS, *command_terms(), *option_terms()]
GROUPS = {term.group for term in TERMS}


def names_of(*groups):
    return {name for t in EVERY if t.group in groups for name in (t.term, *t.also)}


def test_every_finding_has_a_term_and_every_term_a_finding():
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    codes = {t.term for t in TERMS if t.group == "findings"}
    assert set(re.findall(r'(?:inding|says)\(\s*"([a-z0-9-]+)"', sources)) <= codes
    assert [code for code in codes if f'"{code}"' not in sources] == []
    assert re.findall(r'\bFinding\(\s*"', sources) == []  # the registry has the words of all


def test_every_verdict_of_a_conclusion_and_words_of_users_are_found():
    names = {name for verdicts in read_toml(WORDS).values() for name in verdicts}
    for word in (*names, "p-RoPE", "NoPE", "gguf", "interleaved", "minirocket"):
        assert find_terms(word, EVERY), word
        assert find_terms(word.lower(), EVERY), word


def test_every_encoding_parameter_and_option_has_a_term():
    records = read_catalogue()
    assert {r["encoding"] for r in records} == names_of("encodings")
    conventions = {one["convention"] for r in records for one in r.get("conventions", ())}
    assert conventions == names_of("conventions")
    parameters = {key for r in records for key in r["meanings"]}
    assert parameters == names_of("parameters")
    every = typer.main.get_command(program())
    options = {name for _, option in options_of(every) for name in option.opts}
    assert options == names_of("options")
    assert all(t.meaning.strip() for t in EVERY)


def test_terms_are_sentences_told_once():
    assert len({(t.term, t.group, t.meaning) for t in EVERY}) == len(EVERY)
    assert [t.term for t in TERMS if t.meaning[-1] != "." or t.meaning.count("`") % 2] == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("gap", [("gap", "check-faithful")]),
        ("GAP", [("gap", "check-faithful")]),
        ("Toeplitz residual", [("toeplitz_residual", "check-faithful")]),
        ("toeplitz-residual", [("toeplitz_residual", "check-faithful")]),
        ("smallest distance", [("min_distance", "check-faithful")]),
        ("precision", [("precision", "check-faithful"), ("precision", "train")]),
        ("isometric", [("isometric", "verdicts")]),
        ("batch-axis", [("batch-axis", "findings")]),
        ("dft", [("dft", "encodings")]),
        ("--require-dtype", [("--require-dtype", "options")]),
        ("-S", [("--length", "options")] * 4),
        ("clip", [("clip", "parameters")]),
        ("dinov3", [("dinov3", "conventions")]),
        ("gap,", [("gap", "check-faithful")]),
        (
            "safe length",
            [
                ("safe_cast", "check-faithful"),
                ("safe_phase", "check-faithful"),
                ("safe length, phases in bfloat16", "context"),
                ("safe length, computed in bfloat16", "context"),
            ],
        ),
        ("toeplitz", [("toeplitz_residual", "check-faithful")]),
        ("m-rope", [("axes", "context")]),
        ("head size", [("dimension", "check-faithful")]),
        ("sum of cosines", [("bound", "context")]),
        ("position interpolation", [("linear", "words")]),
        ("cls token", [("class token", "words")]),
        ("sliding window", [("window", "context")]),
        ("attention sink", [("attention sink", "words")]),
        ("length generalization", [("extrapolation", "words")]),
        ("half width", [("width", "reconstruct")]),
    ],
)
def test_a_term_is_found_as_people_spell_it(wanted, found):
    assert [(t.term, t.group) for t in find_terms(wanted, EVERY)] == found


def test_explain_answers_in_every_form(run):
    (record,) = run("explain", "gap", "--json").results
    assert list(record)[:8] == "term group meaning formula unit range good source".split()
    assert record["conclusion"] == f"gap: {record['meaning']}"
    header, row = run("explain", "gap", "--csv").out.splitlines()
    assert header == "term,group,meaning,formula,unit,range,good,source,also"
    assert row.startswith("gap,check-faithful,The smallest distance")
    assert [t["term"] for t in run("explain", "rank, isometric", "--json").results] == [
        "rank",
        "isometric",
    ]
    assert run("explain", "--lattice").out.startswith("--lattice (options): Points N of the ")
    assert len(run("explain", "--json").results) == len(EVERY)


def test_a_word_that_is_no_term_is_refused_beside_those_that_are(run):
    done = run("explain", "rank", "blah", "compare")
    assert done.status == 2
    assert done.out.startswith("rank (")
    assert "compare (commands): Are two implementations the same encoding?" in done.out
    assert done.err.startswith("pefourier: unknown term 'blah'.")
    assert run("explain", "blah", "blub").out == ""


def test_explain_all_lists_all(run):
    listed = " ".join(run("explain", "all").out.split())
    assert [t.term for t in EVERY if t.term not in listed] == []
    assert {f"{group}:" for group in GROUPS} - {word for word in listed.split()} <= {
        "every answer:"
    }


def test_explain_starts_without_numpy():
    code = (
        "import sys; from pefourier.cli.main import main; main(['explain', 'gap']); "
        "print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"

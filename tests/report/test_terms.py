"""The registry of terms has every word of an answer, and `explain` prints it."""

import re
from pathlib import Path

import pytest
import typer

import pefourier
from pefourier.cli.main import program
from pefourier.cli.model_commands import command_terms
from pefourier.cli.options import options_of
from pefourier.questions.result import Result
from pefourier.report.catalogue import read_catalogue
from pefourier.report.terms import (
    explanation,
    find_terms,
    overview,
    read_terms,
    spelling,
    verdicts_by_command,
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
    vectors = {t.term for t in TERMS if t.group == "findings"}
    assert set(re.findall(r'(?:inding|says)\(\s*"([a-z0-9-]+)"', sources)) <= vectors
    assert [code for code in vectors if f'"{code}"' not in sources] == []
    assert re.findall(r'\bFinding\(\s*"', sources) == []  # the registry has all messages


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
        ("gap (relative to RMS norm)", [("gap", "check-faithful")]),
        ("safe_phase", [("safe_cast", "check-faithful")]),
        ("A4 (1 = aligned with two axes)", [("isotropy", "spectrum")]),
        ("NOT SHOWN", [("NO DIFFERENCE", "conclusions")]),
        ("precision", [("precision", "check-faithful"), ("precision", "train")]),
        ("-S", [("--length", "options")] * 5),
        ("m-rope", [("axes", "context")]),
    ],
)
def test_a_term_is_found_as_people_spell_it(wanted, found):
    assert [(t.term, t.group) for t in find_terms(wanted, EVERY)] == found


OF_ENGINES = {  # a term, and its spelling by engineers of language models
    "kv cache": ["kv cache", "kv-cache", "KV cache", "kv_cache", "past_key_values"],
    "quantise": ["quantise", "quantize", "quantization", "quantisation"],
    "inv_freq": ["inv_freq", "inv freq", "inverse frequencies"],
    "rotate_half": ["rotate_half", "rotate half", "rotate_every_two"],
    "attention_factor": ["attention_factor", "attention factor", "attention_scaling"],
    "position ids": ["position ids", "position_ids", "position id", "input_pos"],
    "base": ["rope_theta", "rope-theta", "theta"],
    "mrope_section": ["mrope_section", "mrope sections"],
    "cos_sin_cache": ["cos_sin_cache", "cos sin cache", "cos_cached"],
    "freqs_cis": ["freqs_cis", "freqs-cis", "freqs_ci"],
    "window": ["sliding_window", "sliding window"],
}


@pytest.mark.parametrize("term", OF_ENGINES)
def test_words_of_engines_have_a_formula_a_place_and_a_command(term, run):
    commands = PROGRAM.commands
    for name in OF_ENGINES[term]:
        first = run("explain", name, "--json").results[0]
        assert (first["term"], first["group"] in ("words", "context")) == (term, True)
        assert min(map(len, (first["formula"], first["source"]))) > 8
        named = re.findall(r"pefourier ([a-z-]+)", first["good"])
        assert named
        assert set(named) <= set(commands)


def kinds_of(kind):
    return [kind, *(k for part in kind.__subclasses__() for k in kinds_of(part))]


def test_every_header_of_every_table_is_explained_under_its_own_command():
    """Or under the command with the same field, or by a term of every answer."""
    terms = [({*map(spelling, t.names)}, t) for t in TERMS]
    tables = [(k.command, k.listed.values()) for k in kinds_of(Result)[1:]]
    columns = {(name, *c) for name, of in tables for table in of for c in table.items()}
    assert len(columns) > 100
    lost = [
        (command, header)
        for command, header, path in columns
        if not any(
            t.group in (command, "every answer", "words") or path.rpartition(".")[2] in t.names
            for names, t in terms
            if spelling(header) in names
        )
    ]
    assert lost == []


def test_every_title_of_a_verdict_is_found_without_slots():
    titles = {v.name(code) for _, words in verdicts_by_command() for code, v in words.items()}
    assert [title for title in titles if not find_terms(title, EVERY)] == []
    of_verdicts = [t for t in TERMS if t.group == "conclusions"]
    assert [t.term for t in of_verdicts if "{" in t.meaning + t.good or "}" in t.meaning] == []
    assert any(t.good for t in of_verdicts)


@pytest.mark.parametrize("columns", [80, 50])
def test_explanations_fit_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    texts = [explanation(t) for t in EVERY if t.group != "findings"] + [overview(EVERY)]
    lines = [line for text in texts for line in text.splitlines() if " " in line.strip()]
    assert max(map(len, lines)) <= columns  # a single name can be longer


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
    assert run("explain", "safe_phase").out.startswith("safe_phase (check-faithful): ")
    assert len(run("explain", "--json").results) == len(EVERY)

"""The registry of terms: every word of an answer is in it, and `explain` tells it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import typer
from tiny_models import write_model

import pefourier
from pefourier.cli.options import options_of
from pefourier.cli.program import command_terms, option_terms, program
from pefourier.diagnosis import SEVERITIES
from pefourier.encodings.findings import FINDINGS
from pefourier.errors import PefourierError
from pefourier.files import read_toml
from pefourier.geometry.precision import FORMATS
from pefourier.questions.faithful import LADDER
from pefourier.report.catalogue import read_catalogue
from pefourier.report.terms import (
    BEGINNINGS,
    SAID,
    WORDS,
    explanation,
    find_terms,
    read_terms,
)
from pefourier.reproduce import Verdict

PACKAGE = Path(pefourier.__file__).parent
TERMS = read_terms()
EVERY = [*TERMS, *command_terms(), *option_terms()]
GROUPS = {term.group for term in TERMS}


def names_of(*groups):
    return {name for t in EVERY if t.group in groups for name in (t.term, *t.also)}


def keys_of(value):
    """Names of fields at any depth of a JSON answer."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_of(inner)
    elif isinstance(value, list):
        for item in value:
            yield from keys_of(item)


@pytest.mark.parametrize(
    ("words", "term"),
    [
        ("phases never seen", "unseen"),
        ("figure 1", "figure1"),
        ("participation", "effective dimension"),
    ],
)
def test_words_of_readers_are_found(words, term):
    assert [t.term for t in find_terms(words, TERMS)] == [term]


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    angle = np.outer(np.arange(40), 1e4 ** (-np.arange(8) / 8))
    codes = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    np.save("a.npy", codes)
    np.save("b.npy", -2 * codes[2:])
    np.save("bad.npy", np.ones((6, 4)))
    grid = np.hstack([np.repeat(codes[:5], 8, axis=0), np.tile(codes[:8] + 1, (5, 1))])
    np.save("grid.npy", grid)
    np.save("odd.npy", np.roll(np.where(np.arange(40)[:, None] > 0, 3 * codes, 0), 5, axis=1))
    np.save("half.npy", np.tile(np.cos(angle), (1, 2)))
    write_model(Path("model"))
    config = {"model_type": "llama", "num_hidden_layers": 2, "max_position_embeddings": 256}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "fator": 3}
    config |= {"hidden_size": 64, "num_attention_heads": 4, "rope_scaling": yarn}
    Path("config.json").write_text(json.dumps(config))
    Path("lost.json").write_text(json.dumps({**config, "rope_scaling": None}))


@pytest.mark.usefixtures("tables", "sketched", "undrawn")
@pytest.mark.parametrize(
    "arguments",
    [
        ["spectrum", "dft", "learned", "nothing"],
        ["reconstruct", "dft", "--pos", "3"],
        ["check-faithful", "a.npy", "bad.npy", "odd.npy", "half.npy", "rope", "tupe:d=8", "alibi"],
        ["compare", "a.npy", "b.npy"],
        ["compare", "a.npy", "bad.npy"],
        ["compare", "config.json", "lost.json"],
        ["compare", "half.npy", "rope:d=16"],
        ["spectrum", "a.npy", "axial", "--grid", "5x8", "--d", "16"],
        ["reconstruct", "a.npy", "--grid", "5x8", "--pos", "3,4"],
        ["check-faithful", "grid.npy", "axial", "--grid", "5x8", "--d", "16"],
        ["resize", "axial", "--d", "8", "--from", "4x4", "--to", "6x5"],
        ["encode", "dft", "--out", "o.npy"],
        ["list"],
        ["explain", "gap"],
        ["context", "config.json", "rope:d=16", "alibi", "--against", "base=500"],
        ["context", "config.json", "nothing", "--against", "scaling-ignored"],
        ["design", "--length", "80", "--d", "8", "--dtype", "bf16"],
        ["report", "dft", "nothing", "--d", "4", "-S", "4", "--out", "o.html"],
        ["reproduce", "--out", "paper"],
        ["relations", "dft", "alibi", "learned"],
        ["usage", "model", "--all", "--length", "1k", "--against", "model"],
        ["train", "--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "1", "-q"],
    ],
    ids=" ".join,
)
def test_every_field_of_json_has_a_term(run, arguments):
    """A field belongs to the command, to what it rests on, or is an option or a parameter."""
    done = run(*arguments, "--json")
    own = {arguments[0], "every answer", "verdicts", "options", "parameters", "explain"}
    own |= {"spectrum"} if arguments[0] == "reconstruct" else set()
    own |= {"reconstruct"} if arguments[0] == "check-faithful" else set()  # inverse_error
    own |= {"check-faithful"} if arguments[0] in ("compare", "relations") else set()
    own |= {"check-faithful"} if arguments[0] == "usage" else set()  # its findings
    if arguments[0] in ("context", "design"):  # whose precision, rank and findings are the same
        own |= {"check-faithful", "context"}
    known = names_of(*own) | {name.removeprefix("--").replace("-", "_") for name in names_of(*own)}
    assert set(keys_of(json.loads(done.out))) - known == set()


def test_every_finding_has_a_term_and_every_term_a_finding():
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    codes = {t.term for t in TERMS if t.group == "findings"}
    assert set(re.findall(r'(?:inding|says)\(\s*"([a-z0-9-]+)"', sources)) <= codes
    assert [code for code in codes if f'"{code}"' not in sources] == []
    assert re.findall(r'\bFinding\(\s*"', sources) == []  # the registry has the words of all


def test_sentences_of_a_finding_go_by_the_names_of_its_severities():
    for code, row in read_toml(FINDINGS).items():
        named = [row[key].keys() for key in SAID if isinstance(row[key], dict)]
        assert all(names == named[0] and len(names) > 1 for names in named), code
        severities = row["severity"] if isinstance(row["severity"], dict) else {"": row["severity"]}
        assert {*severities.values()} <= {*SEVERITIES}, code


def test_every_verdict_of_a_conclusion_and_words_of_users_are_found():
    names = {name for verdicts in read_toml(WORDS).values() for name in verdicts}
    for word in (*names, "p-RoPE", "NoPE", "gguf", "interleaved", "minirocket"):
        assert find_terms(word, EVERY), word
        assert find_terms(word.lower(), EVERY), word


def test_every_verdict_and_format_has_a_term():
    verdicts = {*LADDER, "equal", "equivalent", "different", "error", "warning", "note"}
    verdicts |= {*get_args(Verdict)}
    assert verdicts == {t.term for t in TERMS if t.group == "verdicts"}
    assert FORMATS.keys() <= names_of("check-faithful")


def test_every_row_and_column_of_text_has_a_term():
    columns = ["encoding", "family", "domain", "measure", "used by", "source"]
    assert set(columns) <= names_of("list", "every answer")
    claims = ["where", "the paper says", "printed", "computed", "verdict", "why"]
    assert set(claims) <= names_of("reproduce")
    assert {"P / R / F1", "folds needed", "p", "Holm p", "P(A > B)"} <= names_of("train")


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


def test_no_space_is_lost_where_a_line_of_a_table_of_words_goes_on():
    """TOML drops the spaces that begin a line behind a backslash."""
    files = [*PACKAGE.rglob("*.toml")]
    assert WORDS in files
    assert [f.name for f in files if "\\\n " in f.read_text(encoding="utf-8")] == []


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
        ("effective dimensions", [("effective dimension", "words")]),
        ("half width", [("width", "reconstruct")]),
    ],
)
def test_a_term_is_found_as_people_spell_it(wanted, found):
    assert [(t.term, t.group) for t in find_terms(wanted, EVERY)] == found


def test_an_unknown_term_gets_the_nearest_name():
    message = "unknown term 'toeplitz resdual'. Did you mean 'Toeplitz residual'? "
    with pytest.raises(
        PefourierError, match=f"^{re.escape(message)}'pefourier explain all' lists all.$"
    ):
        find_terms("toeplitz resdual", EVERY)


def test_explain_tells_one_term(run):
    done = run("explain", "toeplitz", "residual")
    assert (done.status, done.err) == (0, "")
    assert (
        done.out
        == """\
toeplitz_residual (check-faithful): How far inner products of codes are from depending on the
  lag alone; null for nodes of a tree, which have none, and for measured codes of times at
  uneven steps.
  formula  ‖G − Toep(G)‖ / ‖G‖, G = E Eᵀ
  range    0 … 1
  good     0: the same lag looks the same everywhere.
  source   Wang et al., 2021
  also     Toeplitz residual, Toeplitz
"""
    )


def test_words_that_begin_a_term_are_taken_together(run):
    told = run("explain", "safe", "length").out
    assert re.findall(r"(?m)^(\S+) \(check", told) == ["safe_cast", "safe_phase"]


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


def test_explain_alone_lists_what_to_begin_with(run):
    """It printed all names, a thousand words."""
    said = run("explain").out
    assert len(said.split()) < 80
    lines = BEGINNINGS.split("\n\n")[1].splitlines()
    for name, first in (re.split(" {2,}", line) for line in lines):
        for term in first.split(", "):
            assert {t.group for t in find_terms(term, EVERY)} & {name, "verdicts"}


def test_explain_all_lists_all(run):
    listed = " ".join(run("explain", "all").out.split())
    assert [t.term for t in EVERY if t.term not in listed] == []
    assert {f"{group}:" for group in GROUPS} - {word for word in listed.split()} <= {
        "every answer:"
    }


def test_unknown_words_are_refused(run):
    done = run("explain", "nonsense", "words")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("pefourier: unknown term 'nonsense'.")


def test_a_term_is_told_without_empty_lines():
    for term in EVERY:
        assert "\n\n" not in explanation(term)


def test_explain_starts_without_numpy():
    code = (
        "import sys; from pefourier.cli.main import main; main(['explain', 'gap']); "
        "print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"


@pytest.mark.parametrize(("word", "term"), [("T(1)", "shift_residual"), ("rotary pair", "pair")])
def test_words_of_answers_are_terms(word, term):
    assert term in {one.term for one in find_terms(word, read_terms())}

"""The registry of terms has every word of an answer, and `explain` prints it."""

import re
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

import pefourier
from pefourier.cli.main import program
from pefourier.cli.model_commands import command_terms
from pefourier.errors import PefourierError
from pefourier.geometry import interpolation
from pefourier.questions import spectral_density
from pefourier.questions.result import Result
from pefourier.report.catalogue import read_catalogue
from pefourier.report.terms import (
    MISTAKES,
    explanation,
    find_terms,
    overview,
    read_terms,
    verdicts_by_command,
)
from pefourier.train.report import CAPTIONS, DIFFERENCES, NAMED

PACKAGE = Path(pefourier.__file__).parent
HOOKS = PACKAGE.parent / ".pre-commit-hooks.yaml"
TERMS = read_terms()
PROGRAM = typer.main.get_command(program())
EVERY = [*TERMS, *command_terms(PROGRAM)]


def names_of(group):
    return {name for t in EVERY if t.group == group for name in (t.term, *t.also)}


def test_every_finding_has_a_term_and_every_term_a_finding():
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    vectors = {t.term for t in TERMS if t.group == "findings"}
    assert set(re.findall(r'(?:inding|says)\(\s*"([a-z0-9-]+)"', sources)) <= vectors
    of_masks = {f"ids-mask-{fault}" for fault in ("transposed", "inverted", "diagonal")}
    assert [code for code in vectors - of_masks if f'"{code}"' not in sources] == []
    assert re.findall(r'\bFinding\(\s*"', sources) == []  # the registry has all messages


def test_every_encoding_and_parameter_has_a_term():
    records = read_catalogue()
    assert {r["encoding"] for r in records} == names_of("encodings")
    conventions = {one["convention"] for r in records for one in r.get("conventions", ())}
    assert conventions == names_of("conventions")
    parameters = {key for r in records for key in r["meanings"]}
    assert parameters == names_of("parameters")
    assert all(t.meaning.strip() for t in EVERY)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("GAP", [("gap", "check-faithful")]),
        ("Gaps", [("gaps", "words")]),
        ("toeplitz-residual", [("Toeplitz residual", "check-faithful")]),
        ("A4 (1 = aligned with two axes)", [("A2", "spectrum")]),
        ("NOT SHOWN", [("NO DIFFERENCE", "conclusions")]),
        ("m-rope", [("image axis of pairs", "context")]),
        ("inverse error", [("linear inverse error", "reconstruct")]),
        ("vit", [("2d", "words")]),
    ],
)
def test_a_term_is_found_as_people_spell_it(wanted, found):
    assert [(t.term, t.group) for t in find_terms(wanted, EVERY)] == found


def kinds_of(kind):
    return [kind, *(k for part in kind.__subclasses__() for k in kinds_of(part))]


def printed_words():
    """Yield words of answers: heads of tables, verdicts, methods, encodings, permutations."""
    for _, verdicts in verdicts_by_command():  # imports all questions
        yield from (v.name(code) for code, v in verdicts.items())
    for kind in kinds_of(Result)[1:]:
        tables = (kind.shown, *kind.listed.values(), *kind.short.values())
        yield from (label for table in tables for label in table)
    yield from (*DIFFERENCES, *CAPTIONS.values(), *NAMED)
    yield from (*interpolation.METHODS, *spectral_density.METHODS[1:])
    yield from (code for code in tomllib.loads(MISTAKES.read_text()))
    yield from WORDS
    yield from ("inverse frequencies", "sliding window", "one-step map", "full rotation")


WORDS = """
halves-to-neighbours neighbours-to-halves reversed axes-exchanged partial columns signs layout scale
offset order part axes outputs rows turns bound rank kept blended stretched same rotary learned
alibi t5 none kv-cache past_key_values quantization rotate_every_two attention_scaling position_ids
input_pos rope-theta mrope_section cos_cached freqs_cis cite safe pre-commit warning logit
""".split()
GONE = {
    "triangle",
    "crop",
    "error of scores, keys in",
    "rounded before rotation",
    "rounded after rotation",
}


PLAIN = """
CSV GitHub HTML JSON NAME PATH PE SmolLM2-135M TERM V2 X_test X_train above after among anomaly
answer answers append argument arithmetic arrays averaged batches begin blurs built caches
called cause changed chooses claim classifiers classifies close command commands commas
completes complex compute conclusions could cover define describe detect detected
distillation draft draws dropped dumped during encoded enters equation examine exceeds
explanations extension fastest figure figures files float64 folder formula frames fully
functions github given identifies implementations inches inputs instead known large larger latex
latitude leave limit longitude looks lower meaning means measured measurements middle minutes
mirror mirrored mistakes module named names narrower never norms others otherwise paths predict
print prints processes progress published range rarer receive relate requires restart results
sarif scanning scripts self-contained separate setting shows sides similar slowest spread
standard states status stays stderr store sub-layers synthetic takes tasks terms texts their
these those three torch torchrun torchtune twice under unexpected unless varies vector weight
whatever whether which whole whose would write writes y_test y_train years
""".split()


def words_of_help():
    """Yield the words of help texts that have a capital, a hyphen or five letters."""
    for command in PROGRAM.commands.values():
        for text in (command.help, *(p.help for p in command.params if hasattr(p, "help"))):
            plain = re.sub(r"--[\w-]+|`[^`]*`|\w*\.\w+", " ", text or "")
            yield from re.findall(r"\b[a-z]{5,}\b|\b[A-Za-z]\w*(?:[A-Z0-9_-]\w*)+", plain)


def test_every_word_of_a_help_text_is_explained_or_plain_english():
    words = {*words_of_help()}
    assert len(words) > 300
    assert [word for word in sorted(words - {*PLAIN}) if not explained(word)] == []
    assert {*PLAIN} <= words


def test_every_word_of_an_answer_is_explained_in_any_case_and_number():
    words = {*printed_words()} - GONE
    assert len(words) > 250
    assert [word for word in words if not explained(word)] == []
    assert [word for word in words if not explained(word.upper())] == []
    plain = [word for word in words if word.isalpha() and not word.lower().endswith("s")]
    assert [word for word in plain if not explained(f"{word}s")] == []


def explained(word):
    try:
        return find_terms(word, EVERY)
    except PefourierError:
        return []


@pytest.mark.parametrize("word", ["min_distance", "--require", "lowest_bin_share"])
def test_options_and_fields_are_no_terms(word):
    assert explained(word) == []


def test_terms_of_verdicts_have_no_slots():
    of_verdicts = [t for t in TERMS if t.group == "conclusions"]
    assert [t.term for t in of_verdicts if "{" in t.meaning + t.good or "}" in t.meaning] == []
    assert any(t.good for t in of_verdicts)


@pytest.mark.parametrize("columns", [80, 50])
def test_explanations_fit_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    texts = [explanation(t) for t in EVERY if t.group != "findings" and "\n" not in t.good]
    texts += [overview(EVERY, is_all=is_all) for is_all in (False, True)]
    lines = [line for text in texts for line in text.splitlines() if " " in line.strip()]
    assert max(map(len, lines)) <= columns  # a single name can be longer


def test_explain_answers_in_every_form(run, ask):
    assert [
        word for word in ("p-RoPE", "nope", "gguf", "LOST") if not find_terms(word, EVERY)
    ] == []
    assert run("explain").out.count("\n") <= 40
    assert len(run("explain all").out) > 5000
    record = ask("explain gap")
    header, row = run("explain gap --csv").out.splitlines()
    assert header == "term,group,meaning,formula,unit,range,good,source,also"
    assert row.startswith(f"gap,check-faithful,{record['meaning'].split(',')[0]}")
    both = run("explain", "rank, isometric", "--json").results
    assert [t["term"] for t in both] == ["rank", "rank", "isometric"]
    assert run("explain Safe").out.startswith("safe (check-faithful): ")
    assert len(run("explain --json").results) == len(EVERY)


def test_the_yaml_of_the_hooks_is_that_of_the_package(run):
    lines = run("explain pre-commit").out.splitlines()
    pasted = "\n".join(line for line in lines if line.startswith("    "))
    ((repository,), hooks) = yaml.safe_load(pasted), yaml.safe_load(HOOKS.read_text())
    assert (repository["repo"], len(repository["hooks"])) == ("local", len(hooks))
    for pasted, hook in zip(repository["hooks"], hooks, strict=True):
        assert pasted["language"] == "system"
        assert {**hook, **pasted} == {**hook, "language": "system"}

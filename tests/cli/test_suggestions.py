"""Commands that the program suggests can be typed as they are printed."""

import ast
import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from published_configs import PUBLISHED

import pefourier
from pefourier.cli.main import program

PACKAGE = Path(pefourier.__file__).parent
COMMANDS = typer.main.get_command(program()).commands
EVIL = "a b;$(touch hacked)'s"
QUOTED = re.compile(r"`([^`]+)`")
OURS = re.compile(r"[`']pefourier ([^`']+)[`']")
STARTS = "pefourier [a-z]+|curl|hf|python -c|pip install"
LONG = {"reproduce", "train"}  # take minutes, and have tests of their own
LONG |= {"compare", "context", "positions", "resize", "usage", "encode", "design"}  # need inputs
KNOWN = {"name", "command"}  # slots with a name that the program chose


def slots_of(node):
    return {ast.unparse(v.value) for v in node.values if isinstance(v, ast.FormattedValue)}


def suggestions(text):
    """Return the commands between backticks, as a shell splits them."""
    commands = map(shlex.split, QUOTED.findall(" ".join(text.split())))
    return [words for words in commands if words[0] in ("pefourier", "curl", "hf", "python")]


def test_no_text_inserts_a_value_into_a_command_without_quoting_it():
    """Only `errors.command_line`, which quotes, puts values into commands."""
    inserted = [
        (path.name, node.lineno)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr)
        and re.search(rf"\b({STARTS}) [^`']*\{{", ast.unparse(node))
        and not slots_of(node) <= KNOWN
    ]
    findings = (PACKAGE / "encodings/findings.toml").read_text(encoding="utf-8")
    assert (inserted, re.findall(r"pefourier [^`'\"]*\{", findings)) == ([], [])


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("spectrum", f"https://a.b/{EVIL}.npy"),
        ("train --dataset", f"https://a.b/{EVIL}.csv"),
        ("train --dataset", f"{EVIL}.xlsx"),
        ("context --length 128k", f"{EVIL}.json"),
        ("context --length 128k --trained 100", f"{EVIL}/config.json"),
    ],
)
def test_a_suggested_command_has_the_value_as_one_word(run, folder, command, value):
    path = folder / value
    if "://" not in value:
        path.parent.mkdir(exist_ok=True)
        config = PUBLISHED["meta-llama/Llama-3.1-8B"] | {"max_position_embeddings": 8192}
        path.write_text(json.dumps(config))
    done = run(command, value)
    found = suggestions(done.out + done.err)
    assert found
    for words in found:
        assert any(value in word for word in words)
        if words[0] == "pefourier":
            assert run(*words[1:]).status == 0
    assert not (folder / "hacked").exists()


@pytest.mark.usefixtures("folder", "undrawn")
def test_every_command_that_a_text_names_exists_and_whole_ones_run(run):
    paths = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.toml")]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    named = {line for text in texts for line in OURS.findall(text) if "{" not in line}
    assert {line.split()[0] for line in named} <= {*COMMANDS}
    whole = [line for line in named if not re.search(r"[A-Z….]|--", line)]
    planned = [line + " --plan" * line.startswith("train ") for line in whole if line not in LONG]
    failed = [line for line in planned if run(line).status]
    assert (failed, len(planned) > 5) == ([], True)

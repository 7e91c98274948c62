"""Apply the worked examples of .github/CONTRIBUTING.md to a copy of the package, and run it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pefourier

ROOT = Path(pefourier.__file__).parents[1]
PAGE = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^\*\*(An? [\w ]+)\*\* \(\w+ files?\)(.*?)(?=^\*\*A|\Z)", re.S | re.M)
BLOCK = re.compile(r"`([\w/.]+)`:\n\n```(\w+)\n(.*?)```\n", re.S)
EXAMPLES = {name: BLOCK.findall(text) for name, text in EXAMPLE.findall(PAGE)}


def copy_with(folder, examples):
    """Copy the package with its tests, and apply the blocks of some examples."""
    for part in ("pefourier", "tests"):
        ignored = shutil.ignore_patterns("*.pyc")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, kind, block in (block for example in examples for block in EXAMPLES[example]):
        path = folder / ("" if name.startswith("tests/") else "pefourier") / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if kind == "diff":
            old, new = ("".join(re.findall(rf"^[{s} ](.*\n)", block, re.M))[:-1] for s in "-+")
            assert text.count(old) == 1, f"{name} has no {old!r}"
            path.write_text(text.replace(old, new), encoding="utf-8")
        else:
            path.write_text("\n\n".join(filter(None, [text, block])), encoding="utf-8")
    code = (
        "import json; from pefourier.encodings.loader import records; print(json.dumps(records()))"
    )
    (folder / "pefourier/report/catalogue.json").write_text(output_of(folder, "-c", code))
    return folder


def answers_of(folder, *commands):
    """Run commands in one process of the copy; return status, stdout and stderr of each."""
    code = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from pefourier.cli.main import main
answers = []
for words in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = main(words)
    answers.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""
    given = json.dumps([command.split() for command in commands])
    return json.loads(output_of(folder, "-c", code, given))


def output_of(folder, *arguments):
    """Run Python in the copy and return stdout; the package that it imports is the copy."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@pytest.fixture(scope="module")
def required(tmp_path_factory):
    """A copy with only the required blocks of an encoding, a finding, a question and a reader."""
    names = ("An encoding", "A finding", "A question", "A dataset reader")
    return copy_with(tmp_path_factory.mktemp("required"), names)


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    return copy_with(tmp_path_factory.mktemp("complete"), EXAMPLES)


LAW = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
ANSWERED = [  # command, status, and what its answer or its refusal has
    ("list sawtooth", 0, "The position divided by 1 … d, modulo a period."),
    ("list sawtooth", 0, "Positions after which the first column repeats."),
    ("explain sawtooth", 0, "The position divided by 1 … d, modulo a period."),
    ("explain period", 0, "Positions after which the first column repeats."),
    ("size sawtooth:period=2 --d 1 -S 4", 0, "mean length  0.5"),
    ("size dft --plot f.svg", 2, "pefourier: size has no figure; leave --plot out\n"),
    ("explain size", 0, "Report the mean length of the vectors."),
]


def test_an_encoding_and_a_question_are_listed_explained_and_answered(required):
    commands, statuses, parts = zip(*ANSWERED, strict=True)
    answers = answers_of(required, *commands)
    assert tuple(status for status, *_ in answers) == statuses
    said = ["".join(texts) for _, *texts in answers]
    assert [text.count(part) for text, part in zip(said, parts, strict=True)] == [1] * len(parts)
    assert not (required / "f.svg").exists()


def test_an_encoding_obeys_the_laws(required):
    laws = output_of(required, *LAW, "tests/encodings/test_laws.py", "-k", "sawtooth")
    assert "14 passed" in laws


def test_a_finding_is_reported(required):
    (required / "ids.csv").write_text("3,4\n0,1\n5,9\n")
    ((status, out, _),) = answers_of(required, "check-faithful ids.csv")
    assert status == 0
    assert "all numbers of 3 rows are integers, like indices" in " ".join(out.split()).lower()
    law = "tests/construction/test_every_finding.py"
    assert "4 passed" in output_of(required, *LAW, law, "-k", "whole or catalogue")


def test_a_dataset_reader_reads(required):
    lines = [{"x": [[i % 2], [0.5], [i / 40]], "y": f"class {i % 2}"} for i in range(40)]
    (required / "mine.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    planned, refused = answers_of(
        required, "train --dataset mine.jsonl --plan --json", "train --dataset mine.json"
    )
    (plan,) = json.loads(planned[1])["results"]
    assert (plan["classes"], plan["length"]) == (["class 0", "class 1"], 3)
    assert "mine.jsonl" in refused[2]


def test_a_picture_a_term_and_a_form_are_there(complete):
    drawn, explained, verdict = answers_of(
        complete, "size dft --plot f.svg", "explain average", "size dft --d 8 --format verdicts"
    )
    assert (drawn[0], drawn[2]) == (0, "")
    assert (complete / "f.svg").stat().st_size > 1000
    assert "Mean length of a vector." in explained[1]
    assert verdict[1] == "dft: ONE SIZE\n"


def test_a_dataset_is_drawn(complete):
    code = """
from pefourier.train.data.load import load_task
task = load_task("halves:length=8,count=40,noise=0")
late = task.rows.reshape(40, 8).argmax(axis=1) >= 4  # where the event is
print(*task.classes, task.labels.sum(), (task.labels == late).all(), sep=", ")
"""
    assert output_of(complete, "-c", code) == "first half, second half, 20, True\n"

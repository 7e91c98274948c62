"""What .github/CONTRIBUTING.md adds as examples works, in a copy of the package."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pefourier

PACKAGE = Path(pefourier.__file__).parent
PAGE = (PACKAGE.parent / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"`([\w/.]+)`:\n\n```(\w+)\n(.*?)```\n", re.S)
LINES = """
import io, json, sys
from contextlib import redirect_stdout

def told(*words):
    from pefourier.cli.main import main
    with redirect_stdout(io.StringIO()) as out:
        status = main(list(words))
    return [status, out.getvalue()]

from pefourier.report.catalogue import FILE
from pefourier.encodings.loader import records
FILE.write_text(json.dumps(records()))
forms = "text json csv github sarif lint md latex verdicts".split()
found = {form: told("size", "dft", "rope", "--d", "8", "--format", form) for form in forms}
found["plot"] = told("size", "dft", "--plot", "f.svg")
found["explain"] = told("explain", "average")
found["encoding"] = told("list", "sawtooth")
found["codes"] = told("size", "sawtooth:period=2", "--d", "1", "-S", "4")
with open("ids.csv", "w") as file:
    file.write("3,4\\n0,1\\n5,9\\n")
found["finding"] = told("check-faithful", "ids.csv")
from pefourier.questions.size import size
from pefourier.encodings import load
found["python"] = [0, repr(size(load("dft", 8, 8)))]
from pefourier.train.data.load import load_task
task = load_task("halves:length=8,count=40,noise=0")
late = task.rows.reshape(40, 8).argmax(axis=1) >= 4  # where the event is
told_right = (task.labels == late).all().item()
found["dataset"] = [0, [*task.classes, task.labels.sum().item(), told_right]]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a copy of the package answers to which each block of the page was added.

    A block of `diff` is what it changes in a file; any other is the end of its file.
    """
    folder = tmp_path_factory.mktemp("copy")
    add_blocks(folder, BLOCK.findall(PAGE))
    code = f"import sys; sys.path.insert(0, {str(folder)!r}){LINES}"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.stderr == ""
    assert (folder / "f.svg").stat().st_size > 1000
    return json.loads(done.stdout)


def add_blocks(folder, blocks):
    """Add blocks of the page to a copy of the package."""
    shutil.copytree(PACKAGE, folder / "pefourier", ignore=shutil.ignore_patterns("*.pyc"))
    for name, kind, block in blocks:
        path = folder / "pefourier" / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if kind == "diff":
            old, new = ("".join(re.findall(rf"^[{s} ](.*\n)", block, re.M))[:-1] for s in "-+")
            assert text.count(old) == 1, f"{name} has no {old!r}"
            path.write_text(text.replace(old, new), encoding="utf-8")
        else:
            path.write_text("\n\n".join(filter(None, [text, block])), encoding="utf-8")


def test_three_files_make_a_question(tmp_path):
    three = ("questions/size.py", "words.toml", "cli/commands.py")
    blocks = [block for block in BLOCK.findall(PAGE) if block[0] in three and "ize" in block[2]]
    assert [name for name, _, _ in blocks] == [*three]
    add_blocks(tmp_path, blocks)
    command = [sys.executable, "-m", "pefourier", "size", "dft", "--d", "8"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr, bool(done.stdout)) == (0, "", True)
    command += ["--plot", "size.svg"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    line = "pefourier: size has no picture; leave --plot out\n"
    assert (done.returncode, done.stderr, done.stdout) == (2, line, "")
    assert not (tmp_path / "size.svg").exists()


def test_a_question_is_answered_in_every_form(told):
    assert {form for form, (status, _) in told.items() if status} == set()
    for form in ("text", "md", "github", "python"):
        assert "A code is 1 long on average." in told[form][1]
    assert [one["average"] for one in json.loads(told["json"][1])["results"]] == [1.0, 2.0]
    rows = csv.DictReader(told["csv"][1].splitlines())
    assert [(row["spec"], row["average"]) for row in rows] == [("dft", "1.0"), ("rope", "2.0")]
    assert "average length & 1 & 2" in told["latex"][1]
    assert "Mean length of a code." in told["explain"][1]


def test_an_encoding_a_finding_a_form_and_a_dataset_are_there(told):
    assert "period" in told["encoding"][1]
    assert "average length  0.5" in told["codes"][1]
    assert "all numbers of 3 rows are whole: these may be" in told["finding"][1]
    assert told["verdicts"][1] == "dft: ONE SIZE\n"
    assert told["dataset"][1] == ["first half", "second half", 20, True]

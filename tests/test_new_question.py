"""A question is added in four files, and answered in every form: tried in a copy of the package."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pefourier

ANALYSIS = '''"""How large are codes on average?"""

from dataclasses import dataclass

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.result import Result


@dataclass(frozen=True, repr=False)
class Size(Result):
    """Lengths of codes."""

    average: float


def size(encoding: Encoding) -> Size:
    """The mean length of a code."""
    lengths = np.linalg.norm(encoding.table(), axis=1)
    return Size(average=float(lengths.mean()), about=(encoding,))
'''
ANSWERS = '''"""How is it told how large codes are?"""

from pefourier.answers.plot import make_panels
from pefourier.answers.telling import Fact, Said, Telling, side_by_side

FACTS = [Fact("average length", lambda r: r.average)]


def rows(answers):
    yield "spec", "average"
    for a in answers:
        yield a.encoding.spec, a.result.average


def draw(answers, look):
    figure, ((axes,),) = make_panels(1, 1, (3.0, 3.0), look)
    axes.plot([a.result.average for a in answers])
    return figure


TOLD = Telling(
    "size",
    conclude=lambda enc, r: Said("ONE SIZE", f"A code is {r.average:.3f} long on average."),
    words=lambda answers: side_by_side(FACTS, answers),
    rows=rows,
    figure=draw,
)
'''
COMMAND = '''

@app.command()
@request.asking
def size(question: request.Question, form: request.Form, drawing: request.Drawing) -> None:
    """How large are codes on average?"""
    from pefourier.analysis.size import size as ask
    from pefourier.answers.size import TOLD
    from pefourier.questions import encoding_of

    asked = request.ask_each(question, lambda *given, **sizes: ask(encoding_of(*given, **sizes)))
    drawing.draw("size", asked.answers)
    form.deliver(TOLD.page(asked.each))
    asked.finish([], question.quiet)
'''
TERMS = """
[size.average]
meaning = "Mean length of a code."
also = ["average length"]
"""
LINES = """
import io, json, sys
from contextlib import redirect_stdout
from pefourier.cli.main import main

told = {}
for form in (*"text json csv github sarif lint md latex".split(), "plot"):
    line = ["--plot", "f.svg"] if form == "plot" else ["--format", form]
    with redirect_stdout(io.StringIO()) as out:
        status = main(["size", "dft", "rope", "--d", "8", *line])
    told[form] = [status, out.getvalue()]
with redirect_stdout(io.StringIO()) as out:
    told["explain"] = [main(["explain", "average"]), out.getvalue()]
from pefourier.analysis.size import size
from pefourier.encodings import load
found = size(load("dft", 8, 8))
found.plot()
told["python"] = [0, repr(found)]
print(json.dumps(told))
"""


def test_a_question_takes_four_files_and_is_answered_in_every_form(tmp_path):
    copy = tmp_path / "pefourier"
    shutil.copytree(Path(pefourier.__file__).parent, copy, ignore=shutil.ignore_patterns("*.pyc"))
    for name, text in {
        "analysis/size.py": ANALYSIS,
        "answers/size.py": ANSWERS,
        "cli/commands.py": COMMAND,
        "answers/terms.toml": TERMS,
    }.items():
        with (copy / name).open("a", encoding="utf-8") as file:
            file.write(text)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}){LINES}"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert {form for form, (status, _) in told.items() if status} == set()
    for form in ("text", "md", "github", "python"):
        assert "A code is 1.000 long on average." in told[form][1]
    assert [one["average"] for one in json.loads(told["json"][1])["results"]] == [1.0, 2.0]
    assert told["csv"][1] == "spec,average\ndft,1.0\nrope,2.0\n"
    assert "average length & 1 & 2" in told["latex"][1]
    assert "Mean length of a code." in told["explain"][1]
    assert (tmp_path / "f.svg").stat().st_size > 1000

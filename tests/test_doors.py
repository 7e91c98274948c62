"""The shell and Python give one answer in every form and refuse with one sentence.

Each command runs with words, JSON, CSV and a figure, and its question runs in Python. The records
are equal, the numbers of the CSV are those of the record, and a refusal has one sentence.
"""

import csv
import io
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from published_configs import sized
from refusals import refusal

import pefourier
from pefourier.encodings import load
from pefourier.errors import PefourierError

SIZES = {"length": 20, "d": 8}
LLAMA = sized("llama", 64, 8, 64, rope_theta=500.0)
CODE = """import numpy as np
def codes(n, d):
    return np.cos(np.outer(np.arange(n), 1 / np.arange(1, d + 1)))
"""


@dataclass(frozen=True)
class Case:
    """A SPEC and the Python keywords that are also options of the shell."""

    spec: str
    keywords: dict = field(default_factory=dict)

    @property
    def options(self):
        for key, value in self.keywords.items():
            text = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
            yield from ([f"--{key}"] if value is True else [f"--{key}", text])


ANY = [
    Case("rope", SIZES),
    Case("sinusoidal:rho=100", SIZES),
    Case("learned", SIZES | {"seed": 3}),
    Case("alibi", {"length": 9, "d": 4}),
    Case("axial", {"grid": (3, 4), "d": 8}),
    Case("mtan-fixed", {"times": "times.npy", "d": 8}),
    Case("c.json#rotary", SIZES),  # a key that the file lacks
    Case("c.json"),
    Case("t.npy"),
    Case("g.npy"),
    Case("g.npy", {"grid": (127,)}),
    Case("f.npy", {"length": 9}),
    Case("py:door_codes:codes", SIZES),
    Case("z.npy"),
    Case("missing.npy"),
    Case("dtf"),
    Case("rope", {"length": 0}),
    Case("rope", {"rho": -1.0}),
    Case("t.npy", {"length": 99}),
    Case("t.npy", {"grid": (3, 5)}),
]
FEW = [ANY[0], ANY[9], ANY[10]]
QUESTIONS = {"spectrum": pefourier.spectrum, "reconstruct": pefourier.reconstruct}
QUESTIONS |= {"check-faithful": pefourier.check, "relations": pefourier.relations}
ONE = [(name, case) for name in QUESTIONS for case in ANY]
QUESTIONS |= {name: getattr(pefourier, name) for name in ("compare", "context", "resize")}
ONE += [("spectrum", Case(c.spec, c.keywords | {"demean": True})) for c in FEW]
ONE += [("spectrum", Case("t.npy", {"sigma": -1.0}))]
ONE += [("reconstruct", Case(c.spec, c.keywords | {"demean": True, "lattice": 24})) for c in FEW]
PAIRS = ["rope c.json", "c.json rope", "f.npy sinusoidal", "axial g.npy", "g.npy t.npy"]
PAIRS += ["py:door_codes:codes t.npy", "rope missing.npy", "t.npy z.npy", "alibi alibi"]
ONE += [("compare", Case(pair)) for pair in PAIRS]
OF_MODELS = [
    Case("c.json", {"length": 128, "against": "base=10000"}),
    Case("rope", {"length": 128, "trained": 32, "d": 16}),
    Case("alibi"),
    Case("t.npy"),
    Case("missing.json"),
    Case("c.json", {"against": "nonsense"}),
]
ONE += [("context", case) for case in OF_MODELS]
RESIZED = [
    Case("axial", {"to": (6, 7), "grid": (3, 4), "d": 8}),
    Case("g.npy", {"to": (4, 5)}),
    Case("t.npy", {"to": (4, 5)}),
    Case("t.npy", {"to": (6, 6), "grid": (4, 5), "method": "antialias"}),
    Case("rope", {"to": (4, 4), "d": 8}),
    Case("g.npy", {"to": (4, 5), "prefix": 2}),
    Case("missing.npy", {"to": (4, 5)}),
]
ONE += [("resize", case) for case in RESIZED]
FIGURES = {"rope", "g.npy", "dtf"}  # SPECs that also get a figure


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("doors"))
        patch.syspath_prepend(".")
        np.save("t.npy", np.random.default_rng(3).normal(size=(20, 8)))
        np.save("g.npy", load("axial", d=32, grid=(9, 14), prefix=1).table())
        np.save("f.npy", load("sinusoidal", 24, 8).table().astype(np.float32))
        np.save("z.npy", np.zeros((6, 4)))
        np.save("times.npy", np.array([0, 0.5, 3, 3.5, 9]))
        Path("c.json").write_text(json.dumps(LLAMA))
        Path("door_codes.py").write_text(CODE)
        yield


def call_python(ask, *given, **keywords):
    """Return the record of a call in Python, or the sentence of its refusal."""
    try:
        return json.loads(json.dumps(ask(*given, **keywords).to_dict()))
    except PefourierError as error:
        return str(error)


def call_shell(run, *line):
    """Return the JSON record of a command, or the sentence of its refusal.

    Words, CSV and JSON must have the same status.
    """
    reported = run(*line, "--json")
    words, rows = run(*line), run(*line, "--csv")
    assert reported.status == words.status == rows.status
    if reported.status == 2:
        assert reported.out == words.out == rows.out == ""
        assert reported.err == words.err == rows.err
        stated = reported.err.splitlines()[-1].removeprefix("pefourier: ")
        return str(PefourierError(stated))  # as Python words it, with keywords for options
    (record,) = reported.results
    stated = " ".join(words.out.split())
    assert " ".join(record["conclusion"].split()) in stated
    numbers = {x for x in numbers_in(record)}
    for row in csv.reader(io.StringIO(rows.out)):
        for cell in filter(is_fraction, row):
            assert float(cell) in numbers, f"{cell} of the CSV is no number of the record"
    return record


def numbers_in(record):
    if isinstance(record, dict):
        record = list(record.values())
    if isinstance(record, list):
        for one in record:
            yield from numbers_in(one)
    elif isinstance(record, float):
        yield record


def is_fraction(cell):
    return cell.count(".") == 1 and cell.strip("-").replace(".", "").isdigit()


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize(
    ("name", "case"), ONE, ids=[f"{n} {c.spec} {' '.join(c.options)}" for n, c in ONE]
)
def test_a_command_and_its_question_answer_and_refuse_equal(run, name, case):
    reported = call_python(QUESTIONS[name], *case.spec.split(), **case.keywords)
    options = [w.replace("--grid", "--from") if name == "resize" else w for w in case.options]
    line = [name, *case.spec.split(), *options]
    assert call_shell(run, *line) == reported
    if case.spec in FIGURES:
        drawn = run(*line, "--plot", "f.svg", "--json")
        assert drawn.status == (2 if isinstance(reported, str) else 0)
        assert drawn.status == 2 or drawn.results == [reported]


def test_bases_and_scalings_are_designed_equal(run):
    bases = {"criteria": ["turns", "rank"], "bases": [3.0, 10.0]}
    words = ["--for", "turns", "--for", "rank", "--rho", 3, "--rho", 10, "--json"]
    for length, options in [(64, ["-S", 64]), ((4, 6), ["--grid", "4x6"])]:
        reported = pefourier.design(length, 16, **bases)
        found = [reported.to_dict()] if length == 64 else [one.to_dict() for one in reported]
        assert run("design", *options, "--d", 16, *words).results == found
    for to in (0, 20):
        refused = run("design --extend-from missing.json --to", to)
        with refusal() as reported:
            pefourier.extend("missing.json", to)
        assert (refused.status, refused.err) == (2, f"pefourier: {reported.value}\n")

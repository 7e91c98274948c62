"""What any result can do: laws over every kind of result."""

import ast
import dataclasses
import html
import importlib
import inspect
import json
import pickle
import re
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from json_schema import term_of_field
from tiny_models import write_model

import pefourier
from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.questions.encode import Written
from pefourier.result import Result

RESULTS = {
    "spectrum": lambda: pefourier.spectrum("sinusoidal", d=16),
    "spectrum of nothing": lambda: pefourier.spectrum("none", d=16),
    "reconstruct": lambda: pefourier.reconstruct("dft", [3], d=16),
    "check": lambda: pefourier.check("learned", length=12, d=16),
    "check <b>": lambda: pefourier.check(np.eye(3)),
    "spectrum of a grid": lambda: pefourier.spectrum("axial:grid=3x4", d=16),
    "reconstruct on a grid": lambda: pefourier.reconstruct("axial:grid=3x4", [(1, 2)], d=16),
    "check of a grid": lambda: pefourier.check("axial:grid=3x4", d=16),
    "compare": lambda: pefourier.compare("sinusoidal", "sinusoidal:layout=halves", length=9, d=8),
    "check on a grid": lambda: pefourier.check("axial", d=8, grid=(3, 4), prefix=1),
    "relations": lambda: pefourier.relations("rope", length=12, d=16),
    "relations of a window": lambda: pefourier.relations("swin:grid=3x4", d=4),
    "check of a window": lambda: pefourier.check("beit:grid=3x4", d=4),
    "relations of lags": lambda: pefourier.relations("shaw", length=12, d=16),
    "context": lambda: pefourier.context(
        "rope:scaling=yarn,factor=4,original=32", length=128, d=16
    ),
    "extend": lambda: pefourier.extend("rope", 64, trained=16, d=8),
    "design": lambda: pefourier.design(40, 16),
    "check an array on a grid": lambda: pefourier.check(np.eye(13), grid=(3, 4), prefix=1),
    "relations on a grid": lambda: pefourier.relations("axial-rope", grid=(3, 4), d=16),
    "usage": lambda: pefourier.usage(write_model(Path(mkdtemp()))),
    "resize": lambda: pefourier.resize("axial", (5, 6), grid=(3, 4), d=16),
    "encode": lambda: Written("a.npy", (9, 4), np.arange(9), about=(load("dft", 9, 4),)),
}


@pytest.fixture(params=RESULTS, ids=str)
def result(request):
    return RESULTS[request.param]()


def test_every_kind_of_result_is_here():
    kinds = {type(make()) for make in RESULTS.values()}
    assert kinds == kinds_below(Result)


def kinds_below(kind):
    return {one for below in kind.__subclasses__() for one in (below, *kinds_below(below))}


def test_a_result_is_frozen(result):
    assert dataclasses.is_dataclass(result)
    name = dataclasses.fields(result)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, name, None)


def test_a_result_speaks(result):
    record = result.to_dict()
    assert list(record)[:3] == ["encoding", "spec", "params"]
    assert record["conclusion"] == result.conclusion
    assert result.conclusion.endswith(".")
    assert "about" not in record
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_a_result_is_shown_in_a_line(result):
    line = repr(result)
    assert line.startswith(f"<{type(result).__name__}")
    assert len(line) < 400
    assert "\n" not in line
    assert result.conclusion[:40] in line


def test_a_notebook_shows_what_the_command_prints(result):
    told = html.unescape(result._repr_html_())
    assert told.startswith("<pre>")
    assert result.conclusion in " ".join(told.split())


def test_nothing_that_a_result_holds_becomes_markup():
    result = pefourier.check("dft", length=4, d=4)
    enc = dataclasses.replace(result.about[0], spec="<script>alert(1)</script>&\"'")
    told = dataclasses.replace(result, about=(enc,))._repr_html_()
    assert "<script" not in told
    assert "&lt;script&gt;" in told


def test_a_result_is_drawn_without_pyplot(result):
    figure = result.plot()
    assert type(figure).__module__ == "matplotlib.figure"
    assert figure.axes
    figure.draw_without_rendering()
    other = result.plot(width=3.5, title="A <title>", dark=True)
    assert other.get_figwidth() == 3.5
    assert other.get_suptitle() == "A <title>"
    assert other.get_facecolor() != figure.get_facecolor()


def test_a_result_goes_to_another_process_and_keeps_its_words(result):
    again = pickle.loads(pickle.dumps(result))
    assert again.to_dict() == result.to_dict()
    assert repr(again) == repr(result)
    if result.about[0].codes:
        with pytest.raises(PefourierError, match="has no codes"):
            again.about[0].codes(np.arange(2))


PACKAGE = Path(pefourier.__file__).parent
ANSWERS = {  # what else is found by asking: of design --extend-from, train, reproduce
    "Extensions",
    "Summary",
    "CausalSummary",
    "Claim",
    "Written",
}


def dataclasses_of_the_package():
    """The module of each dataclass; names are defined once in the package."""
    places = {}
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and "dataclass" in map(called, node.decorator_list):
                places[node.name] = module
    return places


def called(decorator):
    return ast.unparse(getattr(decorator, "func", decorator))


def kinds_reached():
    """Dataclasses in the answers of the questions, and in the told fields of these, all the way."""
    places = dataclasses_of_the_package()
    asked = (inspect.signature(getattr(pefourier, name)) for name in pefourier.QUESTIONS)
    words = [*ANSWERS, *(str(one.return_annotation) for one in asked)]
    reached = {}
    while words:
        for name in re.findall(r"\w+", words.pop()):
            if name in places and name not in reached:
                kind = getattr(importlib.import_module(places[name]), name)
                reached[name] = kind
                words += [str(f.type) for f in dataclasses.fields(kind) if f.name != "about"]
                words += [below.__name__ for below in kind.__subclasses__()]
    return reached


REACHED = kinds_reached()
EXPLAINED = sorted({*REACHED.values()} - {Result}, key=str)


def test_all_that_a_question_finds_is_walked():
    assert len(REACHED) > 35
    assert {kind.__name__ for kind in kinds_below(Result)} <= REACHED.keys()
    assert {"Band", "Cause", "Finding", "FormatLoss", "Mean"} <= REACHED.keys()


@pytest.mark.parametrize("kind", EXPLAINED, ids=lambda kind: kind.__name__)
def test_every_field_has_a_term(kind):
    told = [one.name for one in dataclasses.fields(kind) if one.metadata.get("told", True)]
    assert [name for name in told if term_of_field(kind, name) is None] == []

"""Laws that hold for every kind of result."""

import html
import json
import pickle
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from refusals import refusal
from tiny_models import write_model

import pefourier
from pefourier.encodings import load
from pefourier.questions.encode import Written
from pefourier.questions.result import Result

RESULTS = {
    "spectrum": lambda: pefourier.spectrum("sinusoidal", d=16),
    "spectrum of nothing": lambda: pefourier.spectrum("none", d=16),
    "reconstruct": lambda: pefourier.reconstruct("dft", [3], d=16),
    "check": lambda: pefourier.check("learned", length=12, d=16),
    "spectrum of a grid": lambda: pefourier.spectrum("axial:grid=3x4", d=16),
    "reconstruct on a grid": lambda: pefourier.reconstruct("axial:grid=3x4", [(1, 2)], d=16),
    "check of a grid": lambda: pefourier.check("axial:grid=3x4", d=16),
    "compare": lambda: pefourier.compare("sinusoidal", "sinusoidal:layout=halves", length=9, d=8),
    "relations": lambda: pefourier.relations("rope", length=12, d=16),
    "relations of a window": lambda: pefourier.relations("swin:grid=3x4", d=4),
    "context": lambda: pefourier.context(
        "rope:scaling=yarn,factor=4,original=32", length=128, d=16
    ),
    "extend": lambda: pefourier.extend("rope", 64, trained=16, d=8),
    "design": lambda: pefourier.design(40, 16),
    "relations on a grid": lambda: pefourier.relations("axial-rope", grid=(3, 4), d=16),
    "usage": lambda: pefourier.usage(write_model(Path(mkdtemp()))),
    "positions": lambda: pefourier.positions([[0, 1, 3]], attention_mask=[[1, 1, 1]]),
    "resize": lambda: pefourier.resize("axial", (5, 6), grid=(3, 4), d=16),
    "encode": lambda: Written("a.npy", (9, 4), np.arange(9), encodings=(load("dft", 9, 4),)),
}


@pytest.fixture(params=RESULTS, ids=str)
def result(request):
    return RESULTS[request.param]()


def test_every_kind_of_result_is_here():
    kinds = {type(make()) for make in RESULTS.values()}
    assert kinds >= kinds_below(Result)


def kinds_below(kind):
    """Return the kinds of results without subclasses."""
    below = kind.__subclasses__()
    return set().union(*map(kinds_below, below)) if below else {kind}


def test_a_result_has_a_conclusion_and_forms(result):
    record = result.to_dict()
    assert list(record)[:3] == ["encoding", "spec", "params"]
    assert record["conclusion"] == result.conclusion
    assert "encodings" not in record
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert len(repr(result)) < 400
    assert result.conclusion in " ".join(html.unescape(result._repr_html_()).split())


def test_a_result_is_drawn_without_pyplot(result):
    if not result.figure:
        pytest.skip("no figure")
    figure = result.plot()
    assert type(figure).__module__ == "matplotlib.figure"
    assert figure.axes
    figure.draw_without_rendering()
    other = result.plot(width=3.5, title="A <title>")
    assert other.get_figwidth() == 3.5
    assert other.get_suptitle() == "A <title>"


def test_a_result_goes_to_another_process_and_keeps_its_words(result):
    again = pickle.loads(pickle.dumps(result))
    assert again.to_dict() == result.to_dict()
    assert repr(again) == repr(result)
    if result.encodings[0].vectors:
        with refusal("has no vectors"):
            again.encodings[0].vectors(np.arange(2))


def test_what_is_about_no_encoding_is_on_no_grid():
    assert not Result().on_grid

"""What the figures of contexts, designs and extensions show: the data handed to their axes."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from published_configs import PUBLISHED

from pefourier.analysis.context import describe_context, read_against
from pefourier.analysis.design import design_base
from pefourier.analysis.extend import extend
from pefourier.answers import context, design, plot
from pefourier.answers.extend import extension
from pefourier.answers.telling import Answer, answer_of


@pytest.fixture
def llama(tmp_path):
    path = tmp_path / "llama.json"
    path.write_text(json.dumps(PUBLISHED["meta-llama/Llama-3.1-8B"]))
    return str(path)


def answer(spec, against=None, **sizes):
    own, found = describe_context(spec, **sizes)
    reading = read_against(own, against, found.length) if against else None
    return Answer(own[0], replace(found, against=reading))


def ticks(axes):
    return [np.array(c.get_segments())[:, 0, 0] for c in axes.collections]


def test_wavelengths_of_each_band_stand_where_they_are(llama):
    a = answer(llama, "scaling-ignored")
    with plot.figure_style():
        figure = context.wavelengths([a])
    top, low = figure.axes
    plain, *bands = ticks(top)
    (r,) = a.result.rotations
    np.testing.assert_allclose(plain, 2 * np.pi / r.trained_frequencies)
    assert [len(band) for band in bands] == [29, 6, 29]
    np.testing.assert_allclose(np.concatenate(bands), 2 * np.pi / r.frequencies)
    assert [line.get_xdata()[0] for line in top.lines] == [8192, 131072]
    assert [text.get_text() for text in top.texts] == [" trained 8192 ", " asked 131072 "]
    assert [text.get_text() for text in low.texts] == ["512", "1724", "60725"]
    curve = low.lines[0]
    assert curve.get_ydata()[list(curve.get_xdata()).index(512)] < 0.99
    assert (top.get_xscale(), low.get_xscale()) == ("log", "log")


def test_rotations_and_readings_have_panels_of_their_own():
    answers = [answer("rope:rho=5e5", "base=10000", length=4096, d=d) for d in (64, 128)]
    with plot.figure_style():
        *tops, low = context.wavelengths(answers).axes
    assert [len(ticks(axes)[0]) for axes in tops] == [32, 64]
    assert len(low.get_legend().get_texts()) == 2


def test_positions_that_do_not_turn_have_an_empty_figure():
    with plot.figure_style():
        figure = context.wavelengths([answer("alibi", length=100)])
    (axes,) = figure.axes
    assert axes.texts[0].get_text() == "nothing here turns queries and keys"


def test_each_criterion_has_its_optimum_marked():
    found = design_base(100, 32, bases=(3.0, 5.0, 100.0, 1e4))
    with plot.figure_style():
        panels = design.criteria([answer_of(found)]).axes
    assert len(panels) == 6
    labels = [axes.get_title(loc="right") for axes in panels]
    assert labels[1] == "rank: 3"
    assert labels[3] == "condition: 5"
    assert labels[4] == f"turns: {found.best['turns']:.4g}"
    curve, line, mark = panels[3].lines
    known = [c for c in found.candidates if c.condition_number is not None]
    assert curve.get_xdata().tolist() == [c.rho for c in known]
    assert curve.get_ydata().tolist() == [c.condition_number for c in known]
    assert line.get_xdata()[0] == mark.get_xdata()[0] == 5.0


def test_an_extension_shows_wavelengths_and_cosines():
    found = extend("rope:rho=1e6", 131072, trained=32768, d=128)
    with plot.figure_style():
        top, low = extension([answer_of(found)]).axes
    assert [len(row) for row in ticks(top)] == [64] * 5
    linear = ticks(top)[1]
    np.testing.assert_allclose(linear, 4 * ticks(top)[0])
    names = [text.get_text() for text in low.get_legend().get_texts()]
    assert names == ["linear", "ntk", "yarn", "llama3"]
    assert low.lines[2].get_ydata()[0] > 0.999


@pytest.mark.parametrize("kind", ["context", "design"])
def test_nothing_is_cut_or_covered_at_the_width_of_a_column(kind):
    spec = "rope:rho=5e5,scaling=llama3,factor=8,original=8192,d=64"
    if kind == "context":
        (enc, *_), found = describe_context(spec, 131072)
        draw, answer = context.wavelengths, Answer(enc, found)
    else:
        draw, answer = design.criteria, answer_of(design_base(80, 32))
    with plot.figure_style():
        figure = draw([answer], plot.Look(width=3.4))
        FigureCanvasAgg(figure).draw()  # warns, which is an error here, where there is no room
        texts = [one for axes in figure.axes for one in (axes.title, axes._left_title)]
        texts += [one for axes in figure.axes for one in (axes.xaxis.label, axes.yaxis.label)]
        boxes = [one.get_window_extent() for one in texts if one.get_text()]
        labels = [axes.yaxis.label.get_window_extent() for axes in figure.axes]
    whole = figure.bbox.padded(1)
    assert all(whole.contains(*at) for box in boxes for at in (box.min, box.max))
    assert not any(a.overlaps(b) for a, b in pairwise(labels) if a.height and b.height)

"""Figures of contexts, designs and extensions: the data on their axes."""

import numpy as np
from numpy.testing import assert_allclose
from published_configs import PUBLISHED
from refusals import refusal

from pefourier.questions.context import describe_context
from pefourier.questions.extend import extend
from pefourier.report import plot
from pefourier.report.figures import extension, wavelengths
from pefourier.report.render import Answer, answer_of


def answer(spec, **sizes):
    own, found = describe_context(spec, **sizes)
    return Answer(own[0], found)


def ticks(axes):
    return [np.array(c.get_segments())[:, 0, 0] for c in axes.collections]


def test_wavelengths_of_each_band_stand_where_they_are(written):
    path = written(PUBLISHED["meta-llama/Llama-3.1-8B"])
    answers = [answer(path), answer("rope:rho=5e5", length=4096, d=64)]
    with plot.figure_style():
        top, low = wavelengths(answers, plot.USUAL).axes
    plain, *treated = ticks(top)
    (r,) = answers[0].result.rotations
    assert_allclose(plain, 2 * np.pi / r.trained_frequencies)
    assert [len(band) for band in treated] == [29, 6, 29]
    assert_allclose(np.concatenate(treated), 2 * np.pi / r.frequencies)
    assert [line.get_xdata()[0] for line in top.lines] == [8192, 131072]
    assert (low.get_xscale(), len(ticks(low)[0])) == ("log", 32)


def test_positions_that_do_not_turn_have_no_figure():
    with plot.figure_style(), refusal():
        wavelengths([answer("alibi", length=100)], plot.USUAL)


def test_an_extension_shows_wavelengths_and_cosines():
    found = extend("rope:rho=1e6", 131072, trained=32768, d=128)
    with plot.figure_style():
        top, low = extension([answer_of(found)], plot.USUAL).axes
    assert [len(row) for row in ticks(top)] == [64] * 5
    assert_allclose(ticks(top)[1], 4 * ticks(top)[0])
    assert low.lines[2].get_ydata()[0] > 0.999

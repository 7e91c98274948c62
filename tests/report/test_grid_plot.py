"""Figures of grids: the density of the whole plane, and reconstructed points."""

import numpy as np
import pytest
from grids import waves_on

from pefourier.encodings import load
from pefourier.questions.check_faithful import Faithfulness, check_faithful
from pefourier.questions.reconstruct import Reconstructions, position_functions
from pefourier.questions.spectrum import Spectrum
from pefourier.questions.spectrum import spectrum as spectrum_of
from pefourier.report import plot
from pefourier.report.figures import whole_plane
from pefourier.report.render import Answer


@pytest.mark.parametrize("sides", [(5, 8), (4, 7), (3, 4, 6)], ids=str)
def test_the_plane_is_whole_and_the_same_at_opposite_frequencies(sides, rng):
    frequencies = rng.normal(size=(6, len(sides)))
    s = spectrum_of(waves_on(sides, frequencies))
    plane = whole_plane(s.density, sides)
    assert plane.shape == sides[-2:]
    assert plane.sum() == pytest.approx(1)
    centre = np.fft.ifftshift(plane)
    opposite = np.roll(centre[::-1, ::-1], (1, 1), (0, 1))
    np.testing.assert_allclose(centre, opposite, atol=1e-15)
    if len(sides) == 2:
        assert centre[0, 0] == s.density[0, 0]


@pytest.fixture
def answers():
    encodings = [load("axial", None, 8, grid=(3, 5)), load("sinusoidal", 12, 8)]
    encodings += [waves_on((2, 3, 4), np.eye(3)), load("mixed-rope", None, 16, grid=(4, 5))]
    return lambda find: [Answer(enc, find(enc)) for enc in encodings]


@pytest.mark.parametrize(
    ("kind", "find", "panels"),
    [
        (Spectrum, spectrum_of, 8),
        (Reconstructions, position_functions, 4),
        (Faithfulness, check_faithful, 2),
    ],
)
def test_grids_and_sequences_are_drawn_in_one_figure(answers, kind, find, panels):
    with plot.figure_style():
        figure = kind.draw(answers(find), plot.USUAL)
    assert [one.get_label() == "<colorbar>" for one in figure.axes].count(False) == panels


def test_a_title_fits_its_half_of_a_narrow_figure():
    enc = load("axial:order=xy,rho=500,scale=2.5", None, 8, grid=(3, 5))
    with plot.figure_style():
        axes, *_ = Spectrum.draw([Answer(enc, spectrum_of(enc))], plot.Look(3.4)).axes
    assert 10 < len(axes.get_title(loc="left")) <= 20

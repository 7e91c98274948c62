"""Figures of grids: the density of the whole plane, and reconstructed points."""

import numpy as np
import pytest
from grids import waves_on

from pefourier.questions.spectrum import spectrum as spectrum_of
from pefourier.report.figures import whole_plane


@pytest.mark.parametrize("sides", [(5, 8), (4, 7), (3, 4, 6)], ids=str)
def test_the_plane_is_whole_and_the_same_at_opposite_frequencies(sides):
    frequencies = np.random.default_rng(0).normal(size=(6, len(sides)))
    s = spectrum_of(waves_on(sides, frequencies))
    plane = whole_plane(s.density, sides)
    assert plane.shape == sides[-2:]
    assert plane.sum() == pytest.approx(1)
    centre = np.fft.ifftshift(plane)
    opposite = np.roll(centre[::-1, ::-1], (1, 1), (0, 1))
    np.testing.assert_allclose(centre, opposite, atol=1e-15)
    if len(sides) == 2:
        assert centre[0, 0] == s.density[0, 0]

"""Spectral measures: what they declare of codes on one axis and on several."""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.domain import lattice
from pefourier.encodings.encoding import Measure, without_prefix


def waves(angles):
    return np.hstack([np.cos(angles), np.sin(angles)])


def test_the_kernel_on_a_grid_is_the_inner_product_of_codes():
    frequencies = np.random.default_rng(3).normal(size=(5, 2))
    measure = Measure(frequencies, np.full(5, 0.2), 5.0, offset=np.array([0.5, -1.0]))
    grid = lattice((3, 4))
    places = grid.places(grid.x)
    codes = waves(measure.phases(places))
    lags = places[:, None] - places
    np.testing.assert_allclose(measure.squared_length * measure.kernel(lags), codes @ codes.T)
    by_hand = [frequencies[2] @ (place + measure.offset) for place in places]
    np.testing.assert_allclose(measure.phases(places)[:, 2], by_hand)


@pytest.mark.parametrize("spec", ["sinusoidal", "sinusoidal:offset=2", "dft", "axial"])
@pytest.mark.parametrize("own", [{"prefix": 3}, {"grid": (9,), "prefix": 3}, {"grid": (9,)}])
def test_phases_on_one_axis_are_those_of_its_codes(spec, own):
    """Behind rows without a place, and where these are left out."""
    whole = load(spec, d=8, length=9 + own.get("prefix", 0), **own)
    enc = without_prefix(whole)
    points = whole.domain.x[whole.domain.prefix :]
    table = whole.codes(points)
    for phases in (
        whole.measure.phases(whole.domain.places(points)),
        enc.measure.phases(enc.domain.places(enc.domain.x)),
    ):
        rest = table - waves(phases) @ np.linalg.lstsq(waves(phases), table, rcond=None)[0]
        assert np.abs(rest).max() < 1e-12
        if spec != "dft":
            np.testing.assert_allclose(
                np.sin(phases), table[:, :4] if spec == "axial" else table[:, ::2]
            )


@pytest.mark.parametrize("axes", [(), (1,)])
def test_one_axis_may_be_written_as_a_vector(axes):
    frequencies = np.array([1.0, 0.1])
    one = Measure(frequencies.reshape(2, *axes), np.full(2, 0.5))
    lags = np.arange(7).reshape(7, *axes)
    np.testing.assert_array_equal(one.angles(lags), np.multiply.outer(np.arange(7), frequencies))


def test_phases_of_a_period_are_exact_on_several_axes():
    frequencies = 2 * np.pi / 8 * np.array([[8.0, 1.0], [24.0, 3.0]])  # of the index 8 y + x
    measure = Measure(frequencies, np.full(2, 0.5), period=8)
    far = np.array([[10**12 + 1, 8 * 10**11 + 3]])
    near = np.array([[0, 3]])
    np.testing.assert_array_equal(measure.angles(far), measure.angles(near))

"""Resizing beside scipy's waves, and the published values of a ramp; test_resize has torch's."""

import numpy as np
import pytest
from scipy.fft import dct, idct

from pefourier.geometry.interpolation import METHODS, resize_lattice

RAMP = {  # 0 1 2 3 to six points, and to three
    "bicubic": ([-0.0868, 0.4063, 1.2130, 1.7870, 2.5938, 3.0868], [0.1262, 1.5, 2.8738]),
    "antialias": ([-0.0658, 0.4118, 1.1667, 1.8333, 2.5882, 3.0658], [0.1899, 1.5, 2.8101]),
}


@pytest.mark.parametrize("method", RAMP)
def test_published_values_of_a_ramp(method):
    ramp = np.repeat(np.arange(4.0), 4)[:, None]
    for values in filter(None, RAMP[method]):
        columns = resize_lattice(ramp, (4, 4), (len(values), 1), method)
        np.testing.assert_allclose(columns.ravel(), values, atol=6e-5)


@pytest.mark.parametrize(("n", "m"), [(4, 6), (9, 4), (14, 24), (5, 5)])
def test_fourier_is_scipys_spectrum_with_zeros_added(n, m):
    line = np.random.default_rng(n).normal(size=n)
    waves = np.zeros(m)
    waves[: min(n, m)] = dct(line, norm="ortho")[:m]
    expected = idct(waves, norm="ortho") * np.sqrt(m / n)
    np.testing.assert_allclose(METHODS["fourier"](n, m) @ line, expected, atol=1e-13)
    if m > n:  # nothing is lost
        np.testing.assert_allclose(METHODS["fourier"](m, n) @ expected, line, atol=1e-13)


def test_axes_of_any_number_are_resized_one_by_one():
    video = np.random.default_rng(1).normal(size=(2 * 3 * 4, 2))
    whole = resize_lattice(video, (2, 3, 4), (5, 3, 6), "bicubic")
    step = resize_lattice(video, (2, 3, 4), (2, 3, 6), "bicubic")
    np.testing.assert_allclose(whole, resize_lattice(step, (2, 3, 6), (5, 3, 6), "bicubic"))

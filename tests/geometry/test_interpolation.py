"""Resizing equals scipy's interpolation axis by axis; test_resize has the values of torch."""

import numpy as np
import pytest
from scipy.fft import dct, idct

from pefourier.geometry.interpolation import WEIGHTS, resize_lattice


@pytest.mark.parametrize(("n", "m"), [(4, 6), (9, 4), (14, 24), (5, 5)])
def test_fourier_is_scipys_spectrum_with_zeros_added(n, m):
    line = np.random.default_rng(n).normal(size=n)
    waves = np.zeros(m)
    waves[: min(n, m)] = dct(line, norm="ortho")[:m]
    expected = idct(waves, norm="ortho") * np.sqrt(m / n)
    np.testing.assert_allclose(WEIGHTS["fourier"](n, m) @ line, expected, atol=1e-13)
    if m > n:  # the new grid loses no frequency
        np.testing.assert_allclose(WEIGHTS["fourier"](m, n) @ expected, line, atol=1e-13)


def test_axes_of_any_number_are_resized_one_by_one():
    video = np.random.default_rng(1).normal(size=(2 * 3 * 4, 2))
    whole = resize_lattice(video, (2, 3, 4), (5, 3, 6), "bicubic")
    step = resize_lattice(video, (2, 3, 4), (2, 3, 6), "bicubic")
    np.testing.assert_allclose(whole, resize_lattice(step, (2, 3, 6), (5, 3, 6), "bicubic"))

"""Resizing beside torch's own, and the published values of a ramp."""

import numpy as np
import pytest
import torch
from scipy.fft import dct, idct

from pefourier.geometry.interpolation import METHODS, resize_lattice

TORCH = {
    "bicubic": {"mode": "bicubic"},
    "antialias": {"mode": "bicubic", "antialias": True},
    "bilinear": {"mode": "bilinear"},
}


@pytest.mark.parametrize("method", TORCH)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((14, 14), (24, 37)),
        ((16, 9), (5, 20)),
        ((5, 6), (5, 6)),
    ],
)
def test_each_method_is_torchs(method, old, new):
    table = np.random.default_rng(0).normal(size=(old[0] * old[1], 3))
    size = {"size": new}
    planes = torch.tensor(table.T.reshape(1, 3, *old))
    theirs = torch.nn.functional.interpolate(planes, **size, **TORCH[method])[0].numpy()
    ours = resize_lattice(table, old, new, method)
    np.testing.assert_allclose(ours, theirs.reshape(3, -1).T, atol=2e-14)


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

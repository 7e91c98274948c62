"""Resizing equals written-out sums axis by axis; test_resize has the values of torch."""

import numpy as np
import pytest

from pefourier.geometry.interpolation import METHODS, resize_lattice, why_not


@pytest.mark.parametrize(("n", "m"), [(4, 6), (9, 4), (14, 24), (1, 5)])
def test_fourier_is_the_written_out_sum_of_cosines(n, m):
    line = np.random.default_rng(n).normal(size=(n, 2))
    k = np.arange(min(n, m))
    old, new = (np.cos(np.pi * np.outer(np.arange(size) + 0.5, k) / size) for size in (n, m))
    expected = new @ ((old * np.where(k, 2 / n, 1 / n)).T @ line)
    made = resize_lattice(line, (n,), (m,), "fourier")
    np.testing.assert_allclose(made, expected, atol=1e-13)
    if m > n:  # the new grid loses no frequency
        again = resize_lattice(made, (m,), (n,), "fourier")
        np.testing.assert_allclose(again, line, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "m"), [(7, 9), (9, 5), (1, 3), (65, 3)])
def test_constant_columns_stay_exact(method, n, m):
    if why_not(method, (n,), (m,)):
        return
    made = resize_lattice(np.full((n, 1), 1 / 3), (n,), (m,), method)
    assert (made == 1 / 3).all()


def test_axes_of_any_number_are_resized_one_by_one():
    video = np.random.default_rng(1).normal(size=(2 * 3 * 4, 2))
    whole = resize_lattice(video, (2, 3, 4), (5, 3, 6), "bicubic")
    step = resize_lattice(video, (2, 3, 4), (2, 3, 6), "bicubic")
    np.testing.assert_allclose(whole, resize_lattice(step, (2, 3, 6), (5, 3, 6), "bicubic"))

"""Resizing equals written-out sums axis by axis; test_resize has the values of torch."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pefourier.geometry.interpolation import resize_lattice


@pytest.mark.parametrize(("n", "m"), [(4, 6), (9, 4), (14, 24), (1, 5)])
def test_fourier_is_the_written_out_sum_of_cosines(n, m):
    line = np.random.default_rng(n).normal(size=(n, 2))
    k = np.arange(min(n, m))
    old, new = (np.cos(np.pi * np.outer(np.arange(size) + 0.5, k) / size) for size in (n, m))
    expected = new @ ((old * np.where(k, 2 / n, 1 / n)).T @ line)
    made = resize_lattice(line, (n,), (m,), "fourier")
    assert_allclose(made, expected, atol=1e-13)
    if m > n:  # the new grid loses no frequency
        again = resize_lattice(made, (m,), (n,), "fourier")
        assert_allclose(again, line, atol=1e-13)

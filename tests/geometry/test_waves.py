"""Pairs of columns that turn, found wherever they stand."""

import numpy as np
import pytest

from pefourier.geometry.waves import fit_sinusoid_pairs


@pytest.mark.parametrize("n", [4, 60])
def test_sinusoid_pairs_are_found_in_any_order(rng, n):
    omega = np.array([1.0, 0.3, 2.5, 0.01])
    phase = np.multiply.outer(np.arange(n) + 3, omega)
    table = 2 * np.hstack([np.sin(phase), np.cos(phase)])
    found = fit_sinusoid_pairs(table[:, rng.permutation(8)], 2.0**-52)
    order = np.argsort(found.omega)
    np.testing.assert_allclose(found.omega[order], np.sort(omega), rtol=1e-12)
    np.testing.assert_allclose(found.amplitude, 2)
    assert fit_sinusoid_pairs(rng.standard_normal((n, 8)), 2.0**-52) is None

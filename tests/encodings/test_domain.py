"""Domains and measures: bases of paths, spectra of lags, phases on axes, orders of columns."""

import numpy as np
from numpy.testing import assert_allclose

from pefourier.encodings import load
from pefourier.encodings.encoding import (
    nodes,
    periodogram,
)


def test_the_basis_of_a_path_is_the_dct():
    n, parents = 9, range(-1, 8)
    path, enc = nodes(parents), load(f"tree:parents={';'.join(map(str, parents))}", d=12)
    k, i = np.meshgrid(np.arange(n), np.arange(n))
    dct = np.cos(np.pi * k * (i + 0.5) / n) * np.sqrt(np.where(k == 0, 1, 2) / n)
    assert_allclose(np.abs(path.basis.T @ dct), np.eye(n), atol=1e-12)
    omega, energy = periodogram(enc.domain, enc.table())
    assert_allclose(omega, np.pi * np.arange(n) / n, atol=1e-9)
    assert_allclose(energy, ((dct.T @ enc.table()) ** 2).sum(axis=1), atol=1e-12)

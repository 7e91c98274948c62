"""Domains and measures: bases of paths, spectra of lags, phases on axes, orders of columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pefourier.encodings import load
from pefourier.encodings.encoding import (
    nodes,
    periodogram,
    without_prefix,
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


@pytest.mark.parametrize("spec", ["sinusoidal", "sinusoidal:offset=2", "axial"])
@pytest.mark.parametrize("own", [{"prefix": 3}, {"grid": (9,), "prefix": 3}, {"grid": (9,)}])
def test_phases_on_one_axis_are_those_of_its_vectors(spec, own):
    """Phases equal those of the vectors, with prefix rows and without them."""
    whole = load(spec, d=8, length=9 + own.get("prefix", 0), **own)
    enc, points = without_prefix(whole), whole.domain.x[whole.domain.prefix :]
    table = whole.vectors(points)
    assert_array_equal(enc.table(), table)
    sines = table[:, :4] if spec == "axial" else table[:, ::2]
    for one, x in ((whole, points), (enc, enc.domain.x)):
        assert_allclose(np.sin(one.measure.phases(one.domain.places(x))), sines)

"""Domains and measures: bases of paths, spectra of lags, phases on axes, orders of columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

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


def test_the_spectrum_of_a_bias_is_over_its_lags():
    enc = load("alibi:causal=true", length=16, d=2)
    omega, energy = periodogram(enc.domain, enc.table())
    direct = [
        np.abs(np.exp(-1j * w * enc.domain.x) @ enc.table()) ** 2 @ [1, 1] / 16 for w in omega
    ]
    assert_allclose(energy, np.array(direct) * [1, *[2] * 7, 1], rtol=1e-12)


def cosines_and_sines(angles):
    return np.hstack([np.cos(angles), np.sin(angles)])


@pytest.mark.parametrize("spec", ["sinusoidal", "sinusoidal:offset=2", "dft", "axial"])
@pytest.mark.parametrize("own", [{"prefix": 3}, {"grid": (9,), "prefix": 3}, {"grid": (9,)}])
def test_phases_on_one_axis_are_those_of_its_vectors(spec, own):
    """Phases equal those of the vectors, with prefix rows and without them."""
    whole = load(spec, d=8, length=9 + own.get("prefix", 0), **own)
    enc = without_prefix(whole)
    points = whole.domain.x[whole.domain.prefix :]
    table = whole.vectors(points)
    for phases in (
        whole.measure.phases(whole.domain.places(points)),
        enc.measure.phases(enc.domain.places(enc.domain.x)),
    ):
        rest = (
            table
            - cosines_and_sines(phases)
            @ np.linalg.lstsq(cosines_and_sines(phases), table, rcond=None)[0]
        )
        assert np.abs(rest).max() < 1e-12
        if spec != "dft":
            sines = table[:, :4] if spec == "axial" else table[:, ::2]
            assert_allclose(np.sin(phases), sines)

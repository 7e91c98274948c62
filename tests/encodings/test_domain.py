"""Domains: bases of paths and trees, the spectrum of lags, and how large a basis may be."""

import numpy as np
import pytest

from pefourier.encodings import domain, load
from pefourier.encodings.domain import nodes, periodogram
from pefourier.errors import PefourierError


def test_the_basis_of_a_path_is_the_dct():
    n = 9
    path = nodes(range(-1, n - 1))
    k, i = np.meshgrid(np.arange(n), np.arange(n))
    dct = np.cos(np.pi * k * (i + 0.5) / n) * np.sqrt(np.where(k == 0, 1, 2) / n)
    assert np.abs(path.omega - np.pi * np.arange(n) / n).max() < 1e-9
    assert np.abs(np.abs(path.basis.T @ dct) - np.eye(n)).max() < 1e-12


def test_the_spectrum_of_a_path_is_by_the_dct():
    n = 6
    enc = load("tree:parents=-1;0;1;2;3;4", d=12)
    k, i = np.meshgrid(np.arange(n), np.arange(n))
    dct = np.cos(np.pi * k * (i + 0.5) / n) * np.sqrt(np.where(k == 0, 1, 2) / n)
    omega, energy = periodogram(enc.domain, enc.table())
    assert np.allclose(omega, np.pi * np.arange(n) / n, atol=1e-9)
    assert np.allclose(energy, ((dct.T @ enc.table()) ** 2).sum(axis=1), rtol=1e-9)


def test_the_spectrum_of_a_bias_is_over_its_lags():
    enc = load("alibi:causal=true", length=16, d=2)
    omega, energy = periodogram(enc.domain, enc.table())
    direct = [
        np.abs(np.exp(-1j * w * enc.domain.x) @ enc.table()) ** 2 @ [1, 1] / 16 for w in omega
    ]
    assert np.allclose(energy, np.array(direct) * [1, *[2] * 7, 1], rtol=1e-12)


@pytest.mark.parametrize(
    "make",
    [lambda n: domain.instants([*range(n - 1), n]), lambda n: domain.nodes([-1, *[0] * (n - 1)])],
)
def test_a_dense_basis_has_a_limit(monkeypatch, make):
    monkeypatch.setattr("pefourier.encodings.domain.LARGEST_BASIS", 8)
    assert len(make(8)) == 8
    with pytest.raises(
        PefourierError,
        match=r"^9 .* are too many for an \(n, n\) basis, up to 8$",
    ):
        make(9)


def test_points_of_a_lattice_are_in_raster_order_behind_the_prefix():
    places = domain.lattice((2, 3, 4), prefix=2)
    whole = [(t, y, x) for t in range(2) for y in range(3) for x in range(4)]
    assert places.sides == (2, 3, 4)
    assert len(places) == 26
    np.testing.assert_array_equal(places.coordinates(places.x[2:]), whole)
    np.testing.assert_array_equal(domain.positions(5).coordinates(np.arange(5)), np.c_[:5])


@pytest.mark.parametrize(
    ("sides", "prefix"), [((0, 3), 0), ((3, -1), 0), ((3, 3), -1), ((2**20,) * 2, 0)]
)
def test_sides_that_make_no_lattice_are_refused(sides, prefix):
    with pytest.raises(PefourierError, match="must be a whole number"):
        domain.lattice(sides, prefix)


@pytest.mark.parametrize("shape", [(0, 2), (3, 0), (3,)])
def test_points_that_are_none_are_refused(shape):
    with pytest.raises(PefourierError, match="points are a table, a row each, a column an axis"):
        domain.scattered(np.zeros(shape))


def test_the_first_coordinate_that_is_none_is_named():
    with pytest.raises(PefourierError, match=r"row 1, column 2 is nan$"):
        domain.scattered(np.array([[1.0, np.nan], [np.inf, 2.0]]))

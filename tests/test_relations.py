"""Relations of codes to one another: published numbers, closed forms and slow twins."""

import sys
from dataclasses import replace

import numpy as np
import pytest

import pefourier.encodings  # noqa: F401 (fills the registry)
from pefourier.encodings.domain import lattice
from pefourier.encodings.encoding import as_encoding
from pefourier.encodings.registry import BUILDERS, build
from pefourier.geometry import products as geometry
from pefourier.geometry.products import mean_products
from pefourier.questions.relations import (
    compare_diagonals,
    first_rise,
    kernel,
    neighbour_likeness,
    relate,
    rotations,
    shift_residual,
    toeplitz_residual,
)

ROOM = sys.modules["pefourier.questions.relations"]  # the package gives the question of that name
KERNELS = {  # k(lag)/k(0) at lags 1, 2, 10, 50, 100, 511, and the first lag at which it rises
    16: (None, 4),
    64: ((0.966151, 0.884496, 0.657863, 0.489806, 0.558583, 0.200753), 6),
    128: ((0.970214, 0.896592, 0.669063, 0.546172, 0.477241, 0.211428), 12),
    512: ((0.973055, 0.905209, 0.678866, 0.512073, 0.437306, 0.264394), 44),
    768: ((0.97336, 0.906143, 0.680028, 0.512001, 0.436889, 0.246429), 44),
}


@pytest.mark.parametrize("d", KERNELS)
def test_kernel_of_the_sinusoidal_encoding(d):
    values, rise = KERNELS[d]
    declared = kernel(build("sinusoidal", length=512, d=d))
    if values:
        assert declared[[1, 2, 10, 50, 100, 511]] == pytest.approx(values, abs=5e-7)
    assert first_rise(declared) == rise


@pytest.mark.parametrize(("n", "d", "rise"), [(100, 16, 23), (512, 64, 41), (1024, 128, 46)])
def test_tape_falls_for_longer(n, d, rise):
    assert relate(build("tape", length=n, d=d)).first_rise == rise


@pytest.mark.parametrize("name", ["sinusoidal", "dft", "rope", "learnable-sinusoidal"])
def test_declared_and_measured_kernels_agree(name, monkeypatch):
    monkeypatch.setattr(ROOM, "LAGS_AT_ONCE", 7)
    enc = build(name, length=40, d=16)
    measured = kernel(as_encoding(enc.table()))
    np.testing.assert_allclose(kernel(enc), measured, atol=1e-12)


def test_means_of_lags_are_those_along_diagonals(rng):
    table = rng.standard_normal((9, 70))
    products = table @ table.T
    means = [np.trace(products, lag) / (9 - lag) for lag in range(9)]
    np.testing.assert_allclose(mean_products(table, (9,))[8:], means, atol=1e-12)


@pytest.mark.parametrize("direct", [2**31, 0])
def test_toeplitz_residual_by_its_definition(rng, monkeypatch, direct):
    monkeypatch.setattr(geometry, "DIRECT", direct)
    table = rng.standard_normal((30, 5))
    products = table @ table.T
    mean = np.array([np.trace(products, lag) / (30 - lag) for lag in range(30)])
    away = products - mean[np.abs(np.subtract.outer(range(30), range(30)))]
    expected = np.linalg.norm(away) / np.linalg.norm(products)
    assert toeplitz_residual(as_encoding(table)) == pytest.approx(expected, rel=1e-12)


def test_rounding_is_no_rise():
    assert relate(build("dft", length=40, d=64).table()).first_rise is None
    assert relate(build("dft", length=65, d=64).table()).first_rise == 64


def test_a_table_of_zeros():
    r = relate(np.zeros((6, 3)))
    assert (r.shift_residual, r.toeplitz_residual, r.kernel) == (0.0, 0.0, None)
    assert (r.first_rise, r.distance_preservation) == (None, None)


@pytest.mark.parametrize("k", [1, 5])
def test_rotations_lead_from_code_to_code(k):
    enc = build("sinusoidal", length=50, d=8)
    blocks = rotations(enc.measure, k)
    pairs = enc.table().reshape(50, 4, 2)
    np.testing.assert_allclose(np.einsum("jab,tjb->tja", blocks, pairs[:-k]), pairs[k:], atol=1e-13)
    table = enc.table()
    found = np.linalg.lstsq(table[:-k], table[k:])[0].T  # the T(k) of least norm
    whole = np.zeros((8, 8))
    for j, block in enumerate(blocks):
        whole[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = block
    np.testing.assert_allclose(found, whole, atol=1e-9)


def test_shift_residual_tells_sinusoids_from_learned_codes():
    assert shift_residual(build("sinusoidal", length=128, d=64)) == 0.0
    assert shift_residual(as_encoding(build("sinusoidal", length=128, d=64).table())) < 1e-11
    assert shift_residual(build("learned", length=128, d=64)) > 0.5
    assert shift_residual(build("learned", length=64, d=64)) is None  # some T fits any such table
    assert shift_residual(as_encoding(np.ones((1, 4)))) is None


def test_distances_of_a_ramp_are_those_of_positions():
    assert relate(build("ramp", length=40, d=3)).distance_preservation == pytest.approx(1)
    assert relate(build("dft", length=40, d=64)).distance_preservation is None  # all equal
    assert abs(relate(build("learned", length=80, d=64)).distance_preservation) < 0.1


def test_distance_preservation_of_a_sample(monkeypatch):
    enc = build("sinusoidal", length=300, d=16)
    whole = relate(enc).distance_preservation
    monkeypatch.setattr(ROOM, "SAMPLE", 100)
    assert relate(enc).distance_preservation == pytest.approx(whole, abs=0.01)


@pytest.mark.parametrize("sides", [(30,), (5, 6)])
def test_neighbours_are_alike_where_nearer_codes_are_of_the_nearest_points(rng, sides):
    places = np.stack(np.unravel_index(np.arange(30), sides), axis=-1)
    table = rng.normal(size=(30, 8)) + np.cos(places @ rng.normal(size=(len(sides), 8)))
    table = np.vstack([np.full((1, 8), 99.0), table])  # a row in front, which has no place
    steps, pairs = [], []
    for i in range(30):
        for j in range(30):
            apart = ((table[i + 1] - table[j + 1]) ** 2).sum()
            pairs += [apart] * (i != j)
            steps += [apart] * int(abs(places[i] - places[j]).sum() == 1)
    enc = replace(as_encoding(table), domain=lattice(sides, prefix=1))
    assert neighbour_likeness(enc) == pytest.approx(1 - np.mean(steps) / np.mean(pairs))


def test_codes_that_only_nearby_tell_distance_have_neighbours_alike():
    result = relate(build("fourier-features", length=1000, d=64, scale=10))
    assert result.neighbours_alike == pytest.approx(1, abs=0.01)
    assert result.distance_preservation < 0.5


def test_biases_of_lags():
    alibi = relate(build("alibi", length=9, d=4))
    assert alibi.asymmetry == 0.0
    assert alibi.first_rise is None
    assert alibi.kernel[1] == pytest.approx(np.exp(-(2.0 ** -np.arange(2, 9, 2))).mean())
    t5 = relate(build("t5", length=80, d=4))
    assert (t5.kernel[0], t5.asymmetry > 0.1) == (1.0, True)
    assert relate(build("alibi", length=9, d=4, causal=True)).asymmetry is None
    window = build("beit", length=9, d=4)  # on a line, behind 3 rows; once of one direction
    table = window.table()[3:]
    told = np.linalg.norm(table - table[::-1]) / (2 * np.linalg.norm(table))
    assert relate(window).asymmetry == pytest.approx(told)
    shaw = relate(build("shaw", length=9, d=4))
    assert (shaw.kernel, shaw.shift_residual, shaw.distance_preservation) == (None, None, None)


@pytest.mark.parametrize("name", sorted(BUILDERS))
@pytest.mark.parametrize("length", [1, 2, 17])
def test_relations_of_every_encoding_are_numbers(name, length):
    r = relate(build(name, length=length, d=8))
    for value in (r.shift_residual, r.toeplitz_residual, r.asymmetry, r.distance_preservation):
        assert value is None or np.isfinite(value)
    assert r.kernel is None or np.isfinite(r.kernel).all()


@pytest.mark.parametrize(("sides", "straight", "diagonal"), [((14, 14), 7, 5), ((5, 9), 3, 2)])
def test_diagonals_are_compared_at_the_nearest_distance(sides, straight, diagonal):
    table = np.random.default_rng(0).normal(size=(np.prod(sides), 6))
    enc = replace(as_encoding(table), domain=lattice(sides))
    found = relate(enc).diagonals
    assert (found.straight, found.diagonal) == (straight, diagonal)
    points = {place: row for place, row in zip(np.ndindex(sides), table, strict=True)}

    def mean(dy, dx):
        pairs = [
            codes @ points[y + dy, x + dx]
            for (y, x), codes in points.items()
            if (y + dy, x + dx) in points
        ]
        return np.mean(pairs)

    along = [mean(straight, 0) / mean(0, 0), mean(0, straight) / mean(0, 0)]
    assert found.on_axes == pytest.approx(along)
    both = (mean(diagonal, diagonal) + mean(diagonal, -diagonal)) / 2 / mean(0, 0)
    assert found.on_diagonals == pytest.approx(both)


@pytest.mark.parametrize("name", ["learned", "axial", "alibi", "tree"])
def test_what_was_fitted_is_not_fitted_again(name, monkeypatch):
    enc = build(name, length=20, d=8)
    fitted = relate(enc).shift_residual
    monkeypatch.setattr(ROOM, "shift_residual", None)
    if fitted is not None:
        assert relate(enc, fitted).shift_residual == fitted


def test_whether_directions_are_alike():
    """Round kernels are; sums of a function an axis are not, nor rows that differ from columns."""
    y, x = np.indices((27, 27)) - 13
    assert compare_diagonals(np.exp(-(y**2 + x**2) / 50.0)).alike
    assert not compare_diagonals(np.exp(-(y**2 + 4 * x**2) / 50.0)).alike
    assert not compare_diagonals((np.exp(-(y**2) / 50.0) + np.exp(-(x**2) / 50.0)) / 2).alike
    assert compare_diagonals(np.ones((5, 9))) is None
    frames = np.exp(-((np.indices((3, 27, 27))[0] - 1.0) ** 2)) * np.exp(-(y**2 + x**2) / 50.0)
    assert compare_diagonals(frames) == compare_diagonals(np.exp(-(y**2 + x**2) / 50.0))


def test_diagonals_are_answered_with_their_numbers(run):
    (record,) = run("relations", "axial", "--grid", "14x14", "--d", 64, "--json").results
    assert record["diagonals"]["on_axes"] == pytest.approx([0.857, 0.857], abs=5e-4)
    assert record["diagonals"]["on_diagonals"] == pytest.approx(0.736, abs=5e-4)
    assert record["diagonals"]["alike"] is False
    assert "as far on the diagonals" in run("relations", "axial", "--grid", "14x14").out

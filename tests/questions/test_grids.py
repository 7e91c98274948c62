"""Questions about grids: published numbers, slow references, and properties of several axes."""

import numpy as np
import pytest
from findings import codes
from grids import residual_of_products, table_on

import pefourier
from pefourier.encodings import load
from pefourier.encodings.encoding import from_table
from pefourier.geometry.products import toeplitz_residual
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import relate
from pefourier.questions.spectrum import spectrum


def named(spec, sides, d=64, prefix=0):
    return load(spec, None, d, grid=sides, prefix=prefix)


def test_mixed_frequencies_are_rounder_than_axes():
    enc = named("mixed-rope:heads=12,seed=3", (16, 16))
    found = position_functions(enc, [(8, 8)]).reconstructions[0]
    assert check_faithful(enc).isotropy["A4"] < 0.5
    assert 0.27 < found.peak < 0.32  # 12 heads with random angles; 0.294 published


@pytest.mark.parametrize("sides", [(28,), (4, 7), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("unit", [1.0, 1e-90, 1e90])
def test_the_toeplitz_residual_is_that_of_all_products(sides, unit, rng):
    table = rng.normal(size=(np.prod(sides), 5))
    expected = residual_of_products(table, sides)
    enc = from_table(unit * table) if len(sides) == 1 else table_on(sides, unit * table)
    assert toeplitz_residual(enc) == pytest.approx(expected, rel=1e-10)


def test_rows_before_a_grid_are_left_out():
    table = named("axial:convention=mae", (3, 5), 16, prefix=2).table()
    r = check_faithful(table_on((3, 5), table, prefix=2))
    assert (r.length, r.prefix, r.grid, r.distinct) == (15, 2, (3, 5), 15)
    assert (r.closest_pair, r.displacement, r.prefix_zeros) == ((2, 3), (0, 1), 2)
    assert check_faithful(from_table(table)).verdict == "collides"
    plain, grid = load("sinusoidal", 20, 8), named("sinusoidal", (20,), 8)
    np.testing.assert_array_equal(spectrum(plain).density, spectrum(grid).density)


def test_biases_of_displacements_have_answers_too(tmp_path, rng):
    enc = load("beit", None, 4, grid=(3, 4))
    r = check_faithful(enc)
    assert (r.grid, r.length) == ((5, 7), 35)
    biases = relate(enc)
    assert (biases.by_lag.shape, biases.length, r.points) == ((5, 7), 12, "displacements")
    np.testing.assert_allclose(biases.by_lag.ravel(), enc.table()[3:].mean(axis=1))
    stored = rng.normal(size=(13 * 13 + 3, 4))
    np.save(tmp_path / "beit.npy", stored)
    for sides in ((7, 7), (13, 13)):
        enc = load(str(tmp_path / "beit.npy"), grid=sides)
        assert (enc.table()[3:] == stored[171 - np.arange(3, 172)]).all()
        assert (enc.table()[:3] == stored[169:]).all()
        assert "grid-convention" in codes(enc)


@pytest.mark.parametrize("sides", [(1, 1), (1, 6), (6, 1), (2, 2, 2, 2)], ids=str)
def test_grids_of_few_points_and_of_zeros_are_no_error(sides):
    enc = named("axial", sides, 16)
    middle = [tuple(n // 2 for n in sides)]
    for found in (check_faithful(enc), spectrum(enc), relate(enc), position_functions(enc, middle)):
        assert found.conclusion.endswith(".")
    zeros = table_on(sides, np.zeros((np.prod(sides), 4)))
    assert check_faithful(zeros).rank == 0
    assert np.isnan(spectrum(zeros).summary.lowest_bin_share)


def test_waves_as_long_as_the_side_are_not_idle_in_float32():
    """Hours by days of a week complete whole rotations, so float32 frequencies are not idle."""
    t = np.arange(168)
    phases = 2 * np.pi * np.column_stack([t % 24 / 24, t // 24 / 7])
    week = np.hstack([np.sin(phases), np.cos(phases)]).astype(np.float32)
    assert pefourier.spectrum(week, grid=(7, 24)).idle == [0.0, 0.0]

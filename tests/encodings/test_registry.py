"""Laws of the encodings beyond the paper's own, and what their builders refuse."""

import numpy as np
import pytest
from refusal import refused

from pefourier.encodings import load
from pefourier.encodings.registry import BUILDERS
from pefourier.faithful import assess
from pefourier.geometry.singular_values import decompose
from pefourier.reconstruct import position_functions
from pefourier.spectrum import density

FAMILIES = {"fourier", "irregular", "recurrent", "tree", "relative"}
NAMES = sorted(name for name, builder in BUILDERS.items() if builder.family in FAMILIES)
SEEDED = [name for name in NAMES if "seed" in BUILDERS[name].parameters]
DECLARED = [name for name in NAMES if BUILDERS[name].declared]


def test_the_families_are_all_here():
    relative = {"shaw", "t5", "alibi", "tupe", "kerple", "erpe"}
    additive = {"learnable-sinusoidal", "fourier-features", "tape", "recurrent", "tree"}
    assert set(NAMES) == relative | additive | {"time2vec", "mtan", "mtan-fixed"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("length", "d"), [(1, 8), (7, 16), (12, 8)])
def test_codes_are_float64_and_the_same_in_pieces(name, length, d):
    enc = load(name, length=length, d=d)
    table = enc.table()
    assert table.dtype == np.float64
    assert np.isfinite(table).all()
    assert table.shape == (len(enc), enc.dim)
    assert enc.params["length"] == length
    assert enc.params["d"] == enc.dim
    pieces = np.vstack([rows for _, rows in enc.blocks(3)])
    assert np.abs(pieces - table).max() < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_every_question_is_answered(name):
    enc = load(name, length=24, d=16)
    assert abs(density(enc, lattice=16).density.sum() - 1) < 1e-12
    assert len(position_functions(enc, [5], lattice=16).reconstructions) == 1
    assert assess(enc).rank <= min(len(enc), enc.dim)


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_names_one_table(name):
    table = load(name, length=9, d=8, seed=3).table()
    assert np.array_equal(table, load(f"{name}:seed=3", length=9, d=8).table())
    assert not np.array_equal(table, load(name, length=9, d=8, seed=4).table())


@pytest.mark.parametrize("name", DECLARED)
def test_inner_products_are_what_the_measure_declares(name):
    enc = load(name, length=20, d=12)
    table, lag = enc.table(), np.subtract.outer(np.arange(20), np.arange(20))
    declared = enc.measure.squared_length * enc.measure.kernel(lag.ravel()).reshape(20, 20)
    assert np.abs(table @ table.T - declared).max() < 1e-12
    svd = np.linalg.svd(table, compute_uv=False)
    assert np.abs(decompose(enc).sigma - svd).max() < 1e-12


@pytest.mark.parametrize("name", DECLARED)
def test_an_odd_d_is_refused(name):
    refused(f"{name} pairs each sine with a cosine and needs an even d; got d=7", name, d=7)


@pytest.mark.parametrize("name", ["fourier-features", "t5", "erpe", "tupe"])
def test_a_scale_of_nothing_is_refused(name):
    refused("scale must be a finite number above 0; got 0.0", f"{name}:scale=0")

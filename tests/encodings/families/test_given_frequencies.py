"""``rope:inv_freq=FILE[#ARRAY]``: a vector of frequencies as models and engines keep them."""

import numpy as np
import pytest
from refusal import refused

from pefourier.encodings import load
from pefourier.encodings.families.rotary import base_of
from pefourier.encodings.registry import build

GRID = 5e5 ** (-np.arange(8) / 8)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_grid_is_the_rotation_of_its_base():
    np.save("f.npy", GRID)
    enc, known = load("rope:inv_freq=f.npy", 40), load("rope:rho=5e5", 40, 16)
    np.testing.assert_array_equal(enc.table(), known.table())
    assert (enc.dim, enc.params["d"], enc.params["rho"]) == (16, 16, 5e5)
    assert enc.params["inv_freq"] == tuple(GRID.tolist())


def test_codes_are_cosines_and_sines_of_any_vector(rng):
    vector = rng.uniform(-3, 3, 5)
    enc = build("rope", length=7, inv_freq=vector, layout="interleaved")
    phase = np.outer(np.arange(7), vector)
    np.testing.assert_allclose(enc.table()[:, 0::2], np.cos(phase), atol=1e-14)
    np.testing.assert_allclose(enc.table()[:, 1::2], np.sin(phase), atol=1e-14)
    assert enc.params["rho"] is None


def test_one_array_of_several_and_a_share_of_the_head():
    np.savez("some.npz", a=GRID, b=np.eye(2))
    enc = load("rope:inv_freq=some.npz#a,partial=0.25", 10, 128)
    assert (enc.dim, enc.params["d"], len(enc.measure.frequencies)) == (16, 64, 8)


@pytest.mark.parametrize("rho", [1e4, 5e5, 1e6, 12340.0, 150000.0, 2.5])
def test_the_base_of_a_grid_in_single_precision(rho):
    steps = np.arange(32, dtype=np.float32) / 32
    assert base_of(1.0 / np.float32(rho) ** steps) == rho


def test_scaled_or_coarse_frequencies_have_no_base():
    scaled = load("rope:rho=5e5,scaling=llama3,factor=8,original=8192", 4, 128)
    assert base_of(scaled.measure.frequencies) is None
    assert base_of(np.array([1.0, 0.0])) is None
    assert base_of(GRID[:1]) is None
    assert base_of(GRID * 1.001) is None


def test_frequencies_stored_in_single_precision_are_known_to_it():
    exact, coarse = (build("rope", length=4, inv_freq=GRID.astype(t)) for t in ("f8", "f4"))
    assert (exact.eps, coarse.eps) == (2.0**-52, 2.0**-23)


def test_what_is_no_vector_is_refused():
    np.save("f.npy", GRID)
    np.save("nan.npy", [1.0, np.nan])
    np.savez("some.npz", a=GRID, b=np.eye(2))
    stands = "inv_freq stands for base and scaling; leave out rho and scaling"
    refused(stands, "rope:inv_freq=f.npy,rho=500")
    refused(stands, "rope:inv_freq=f.npy", rho=500.0)
    refused(
        "inv_freq holds nan; frequencies are finite numbers of radians per position",
        "rope:inv_freq=nan.npy",
    )
    refused(
        "unknown array of 'some.npz' 'c'. It holds 'a' (8,), 'b' (2, 2).",
        "rope:inv_freq=some.npz#c",
    )
    shape = "inv_freq is a vector of frequencies, one per pair of dimensions; got an array of shape"
    refused(f"{shape} (2, 2)", "rope:inv_freq=some.npz#b")

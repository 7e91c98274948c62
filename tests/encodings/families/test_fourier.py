"""Sinusoids off the geometric grid: formulas, published values, grids and times."""

import numpy as np
import pytest
import torch
from findings import codes
from numpy.testing import assert_allclose
from refusals import refusal

import pefourier
from pefourier.encodings import build, load
from pefourier.encodings.registry import BUILDERS
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.spectrum import spectrum

GRID = (3, 5)
ROWS, COLUMNS = np.indices(GRID).reshape(2, -1)


def features(mapping, **own):
    return build("fourier-features", d=20, grid=GRID, mapping=mapping, **own)


@pytest.mark.parametrize("coordinates", ["unit", "position", "centred", "closed"])
def test_gaussian_features_are_those_of_the_paper(coordinates):
    """The features are cosines, then sines, of 2 pi b v, with the signs of b kept in the sines."""
    b = np.random.RandomState(0).normal(0.0, 2.0, (10, 2))
    assert b[:, 0].min() < 0 < b[:, 0].max()
    u = np.stack([ROWS, COLUMNS], axis=1).astype(float)
    places = {
        "unit": u / GRID,
        "position": u,
        "centred": 2 * (u + 0.5) / GRID - 1,
        "closed": 2 * u / (np.array(GRID) - 1) - 1,
    }
    phases = 2 * np.pi * places[coordinates] @ b.T
    by_hand = np.hstack([np.cos(phases), np.sin(phases)])
    made = features("gaussian", coordinates=coordinates, scale=2.0)
    assert_allclose(made.table(), by_hand, atol=1e-12)


def test_sams_features_are_those_of_transformers():
    sam = pytest.importorskip("transformers.models.sam.modeling_sam")
    module = sam.SamPositionalEmbedding(sam.SamVisionConfig(num_pos_feats=10))
    matrix = np.random.RandomState(0).normal(0.0, 1.0, (2, 10))
    with torch.no_grad():
        module.positional_embedding.copy_(torch.tensor(matrix))
        centres = torch.tensor(np.stack([(COLUMNS + 0.5) / 5, (ROWS + 0.5) / 3], axis=1)).float()
        made = module(centres[None, None])[0, 0].numpy()
    assert_allclose(features("sam", scale=1.0).table(), made, atol=5e-6)


def test_perceivers_features_are_those_of_transformers():
    perceiver = pytest.importorskip("transformers.models.perceiver.modeling_perceiver")
    pos = perceiver.build_linear_positions(GRID).reshape(1, -1, 2)
    made = perceiver.generate_fourier_features(pos, 5, GRID, concat_pos=False)
    assert_allclose(features("perceiver").table(), made, atol=5e-6)


def test_nerfs_features_are_its_formula_whose_ends_coincide():
    u = [np.linspace(-1, 1, 3)[ROWS], np.linspace(-1, 1, 5)[COLUMNS]]
    by_hand = [
        wave(2.0**k * np.pi * axis) for axis in u for k in range(5) for wave in (np.sin, np.cos)
    ]
    assert_allclose(features("nerf").table(), np.transpose(by_hand), atol=1e-12)
    found = check_faithful(features("nerf")).findings
    assert "ends-coincide" in [one.code for one in found]


TIMED = [name for name in sorted(BUILDERS) if "times" in BUILDERS[name].parameters]
DECLARED = [name for name in TIMED if build(name, length=4, d=4).measure]
IRREGULAR = np.array([0.0, 0.4, 1.7, 2.0, 3.1, 5.9, 6.0, 8.2])


@pytest.mark.parametrize("name", TIMED)
def test_regular_times_are_positions(name):
    even = load(name, d=6, times=np.arange(9.0))
    counted = load(name, length=9, d=6)
    assert np.abs(even.table() - counted.table()).max() < 1e-15
    for method in ("auto", "periodogram"):
        one, other = (spectrum(enc, lattice=12, method=method).density for enc in (even, counted))
        assert np.abs(one - other).max() < 1e-12


@pytest.mark.parametrize("name", DECLARED)
def test_declared_vectors_depend_on_differences_of_times_alone(name):
    """Uneven times have no list of lags; each inner product depends on a difference alone."""
    found = pefourier.relations(name, d=6, times=IRREGULAR)
    assert (found.toeplitz_residual, found.shift_residual, found.kernel) == (0, 0, None)
    assert found.verdict == "depends on lag alone"
    moved = (pefourier.encode(name, d=6, times=np.add(IRREGULAR, by)) for by in (0, 3.3))
    first, second = (table @ table.T for table in moved)
    assert_allclose(first, second, atol=1e-9)
    per = 1 if name == "sinusoidal" else 4  # wavelengths in the unit of the times
    even = pefourier.relations(name, d=6, times=np.arange(9) / per + 7)
    rows = pefourier.relations(name, length=9, d=6)
    assert even.lags.tolist() == (np.arange(9) / per).tolist()
    assert np.abs(even.kernel - rows.kernel).max() < 1e-9
    assert even.first_rise == rows.first_rise / per


def test_nothing_folds_at_irregular_times_and_even_ones_do():
    """Irregular times have no aliasing; regular times with frequencies beyond pi a step do."""
    enc = load("mtan-fixed", d=6, times=IRREGULAR)
    waves = 2 * np.pi * 8.2 / (48 / 10.0 ** (2 * np.arange(3) / 6))
    found = pefourier.spectrum("mtan-fixed", d=6, times=IRREGULAR, lattice=64, sigma=0)
    at = np.flatnonzero(found.density)
    assert found.density[at].tolist() == pytest.approx([1 / 3] * 3)
    assert np.abs(at - enc.domain.spacing / waves[::-1] * 64).max() <= 0.5
    assert (found.findings, found.unit) == ([], "units of time")
    assert found.cutoff_wave == pytest.approx(waves[0])
    even = pefourier.spectrum("mtan-fixed", d=6, times=np.arange(9) * 0.1 + 5)
    assert "aliased-frequencies" in codes(even)
    assert even.omega[-1] <= np.pi
    with refusal("lattice"):
        pefourier.spectrum("mtan-fixed:scale=1e10", d=6, times=IRREGULAR)
    with refusal("even steps"):
        pefourier.reconstruct("mtan-fixed", d=6, times=IRREGULAR)


@pytest.mark.parametrize("d", [4, 5])
def test_sinusoidal_counts_times_in_the_unit_of_its_positions(d):
    enc = load(f"sinusoidal:rho=100,offset=2,layout=halves,d={d}", times=IRREGULAR)
    omega = 100.0 ** (-2 * np.arange((d + 1) // 2) / d)
    phases = np.outer(IRREGULAR + 2, omega)
    expected = np.hstack([np.sin(phases), np.cos(phases[:, : d // 2])])
    assert np.abs(enc.table() - expected).max() < 1e-14
    assert enc.measure.frequencies == pytest.approx(omega * 8.2 / 7)
    assert_allclose(enc.measure.phases(enc.domain.x / enc.domain.spacing), phases, atol=1e-12)

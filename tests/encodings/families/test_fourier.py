"""Sinusoids off the geometric grid: formulas, published values, and features on grids."""

import math

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.questions.check_faithful import check_faithful

GRID = (3, 5)
ROWS, COLUMNS = np.indices(GRID).reshape(2, -1)


def test_tape_is_the_formula_of_convtran():
    length, d = 100, 16
    omega = np.exp(np.arange(0, d, 2) * -math.log(10000.0) / d) * (d / length)
    phases = np.outer(np.arange(length), omega)
    waves = np.stack([np.sin(phases), np.cos(phases)], axis=2).reshape(length, d)
    np.testing.assert_allclose(load("tape", length=length, d=d).table(), waves, atol=1e-12)


def features(mapping, d=20, **own):
    return build("fourier-features", d=d, grid=GRID, mapping=mapping, **own)


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
    np.testing.assert_allclose(made.table(), by_hand, atol=1e-12)


def test_sams_features_are_those_of_transformers():
    torch = pytest.importorskip("torch")
    sam = pytest.importorskip("transformers.models.sam.modeling_sam")
    module = sam.SamPositionalEmbedding(sam.SamVisionConfig(num_pos_feats=10))
    matrix = np.random.RandomState(0).normal(0.0, 1.0, (2, 10))
    with torch.no_grad():
        module.positional_embedding.copy_(torch.tensor(matrix))
        centres = torch.tensor(np.stack([(COLUMNS + 0.5) / 5, (ROWS + 0.5) / 3], axis=1)).float()
        made = module(centres[None, None])[0, 0].numpy()
    np.testing.assert_allclose(features("sam", scale=1.0).table(), made, atol=5e-6)


def test_perceivers_features_are_those_of_transformers():
    perceiver = pytest.importorskip("transformers.models.perceiver.modeling_perceiver")
    pos = perceiver.build_linear_positions(GRID).reshape(1, -1, 2)
    made = perceiver.generate_fourier_features(pos, 5, GRID, concat_pos=False)
    np.testing.assert_allclose(features("perceiver").table(), made, atol=5e-6)


def test_nerfs_features_are_its_formula_whose_ends_coincide():
    u = [np.linspace(-1, 1, 3)[ROWS], np.linspace(-1, 1, 5)[COLUMNS]]
    by_hand = [
        wave(2.0**k * np.pi * axis) for axis in u for k in range(5) for wave in (np.sin, np.cos)
    ]
    np.testing.assert_allclose(features("nerf").table(), np.transpose(by_hand), atol=1e-12)
    for coordinates, collides in (("own", True), ("centred", False)):
        found = check_faithful(
            build("fourier-features", d=40, grid=(16, 16), mapping="nerf", coordinates=coordinates)
        )
        assert (found.verdict == "collides") == collides

"""Fourier features of points on grids: the mappings of Tancik et al., SAM, NeRF and Perceiver."""

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.errors import PefourierError
from pefourier.questions.faithful import assess

GRID = (3, 5)
ROWS, COLUMNS = np.indices(GRID).reshape(2, -1)


def features(mapping, d=20, **own):
    return build("fourier-features", d=d, grid=GRID, mapping=mapping, **own)


def test_gaussian_features_are_those_of_the_paper():
    b = np.random.RandomState(0).normal(0.0, 10.0, (10, 2))
    v = np.stack([ROWS / 3, COLUMNS / 5], axis=1)
    by_hand = np.hstack([np.cos(2 * np.pi * v @ b.T), np.sin(2 * np.pi * v @ b.T)])
    np.testing.assert_allclose(features("gaussian").table(), by_hand, atol=1e-12)


def test_sams_features_are_those_of_transformers():
    torch = pytest.importorskip("torch")
    sam = pytest.importorskip("transformers.models.sam.modeling_sam")
    enc = features("sam", scale=1.0)
    module = sam.SamPositionalEmbedding(sam.SamVisionConfig(num_pos_feats=10))
    matrix = np.random.RandomState(0).normal(0.0, 1.0, (2, 10))
    with torch.no_grad():
        module.positional_embedding.copy_(torch.tensor(matrix))
        centres = torch.tensor(np.stack([(COLUMNS + 0.5) / 5, (ROWS + 0.5) / 3], axis=1)).float()
        made = module(centres[None, None])[0, 0].numpy()
    np.testing.assert_allclose(enc.table(), made, atol=5e-6)


def test_perceivers_features_are_those_of_transformers():
    perceiver = pytest.importorskip("transformers.models.perceiver.modeling_perceiver")
    pos = perceiver.build_linear_positions(GRID).reshape(1, -1, 2)
    made = perceiver.generate_fourier_features(pos, 5, GRID, concat_pos=False)
    np.testing.assert_allclose(features("perceiver").table(), made, atol=5e-6)


def test_nerfs_features_are_its_formula():
    u = [np.linspace(-1, 1, 3)[ROWS], np.linspace(-1, 1, 5)[COLUMNS]]
    by_hand = [
        wave(2.0**k * np.pi * axis) for axis in u for k in range(5) for wave in (np.sin, np.cos)
    ]
    np.testing.assert_allclose(features("nerf").table(), np.transpose(by_hand), atol=1e-12)


def test_nerfs_ends_coincide_unless_the_interval_is_open():
    """sin and cos of 2^k pi are the same at -1 and 1: published of 16 x 16 points, gap 0."""
    closed = assess(build("fourier-features", d=40, grid=(16, 16), mapping="nerf"))
    assert closed.verdict == "collides"
    opened = build("fourier-features", d=40, grid=(16, 16), mapping="nerf", coordinates="centred")
    assert assess(opened).verdict != "collides"


@pytest.mark.parametrize("mapping", ["gaussian", "sam", "nerf", "perceiver"])
def test_inner_products_are_the_kernel_declared(mapping):
    enc = features(mapping, prefix=1)
    table, places = enc.table(), np.stack([ROWS, COLUMNS], axis=1)
    assert not table[0].any()
    inner = 10 * enc.measure.kernel(places[:, None] - places)
    np.testing.assert_allclose(table[1:] @ table[1:].T, inner, atol=1e-11)


@pytest.mark.parametrize("mapping", ["gaussian", "sam", "nerf", "perceiver"])
def test_one_axis_is_a_grid_of_one_side(mapping):
    flat = build("fourier-features", d=8, length=7, mapping=mapping)
    row = build("fourier-features", d=8, grid=(7,), mapping=mapping)
    np.testing.assert_array_equal(flat.table(), row.table())
    assert flat.measure.frequencies.shape == (4,)


def test_shares_past_nyquist_are_those_published():
    """On 16 x 16 points bands of NeRF (L 10) and Perceiver (16) step by more than half a turn."""
    nerf = build("fourier-features", d=40, grid=(16, 16), mapping="nerf").measure.frequencies
    perceiver = build("fourier-features", d=64, grid=(16, 16), mapping="perceiver").measure
    assert np.abs(nerf).max() == pytest.approx(214, abs=0.5)
    assert (np.abs(nerf).max(axis=1) > np.pi).mean() == pytest.approx(0.7)
    assert np.abs(perceiver.frequencies).max() == pytest.approx(3.35, abs=0.005)
    past = (np.abs(perceiver.frequencies).max(axis=1) > np.pi).mean()
    assert past == pytest.approx(0.12, abs=0.006)


def test_what_a_mapping_does_not_use_is_refused():
    with pytest.raises(PefourierError, match="mapping=nerf draws nothing; leave out scale=3"):
        features("nerf", scale=3.0)
    with pytest.raises(PefourierError, match="needs a multiple of 4; d=16 or d=20 would fit"):
        features("perceiver", d=18)
    with pytest.raises(PefourierError, match="unknown fourier-features:mapping value 'sirn'"):
        load("fourier-features:mapping=sirn", grid=GRID)

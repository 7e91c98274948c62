"""Biases of displacements in windows equal the transformers modules with the same weights."""

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.encoding import lags_on
from pefourier.encodings.families.relative import log_spaced, swin2_bias

GRID, HEADS = (3, 4), 5
torch = pytest.importorskip("torch")


def pairwise(enc, rows=0):
    """Return the biases of all queries and keys, (n, n, heads), from rows of displacements."""
    places = np.indices(GRID).reshape(2, -1).T
    lags = places[None] - places[:, None]  # key - query
    x = enc.domain.x[rows:]
    row_of = dict(zip(map(tuple, enc.domain.coordinates(x)), x, strict=True))
    table = enc.table()
    return np.array([[table[row_of[tuple(lag)]] for lag in row] for row in lags])


def authors_table(enc, rows=0):
    """Return the biases in the order of the authors' tables, displacements query - key."""
    return enc.table()[rows:][::-1]


def test_swin_is_the_module_of_transformers():
    swin = pytest.importorskip("transformers.models.swin.modeling_swin")
    enc = build("swin", d=HEADS, grid=GRID, seed=3)
    module = swin.SwinRelativePositionBias(HEADS, GRID)
    with torch.no_grad():
        module.relative_position_bias_table.copy_(torch.tensor(authors_table(enc).copy()))
        made = module()[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(pairwise(enc), made, atol=1e-8)


def test_beit_is_the_module_of_transformers():
    beit = pytest.importorskip("transformers.models.beit.modeling_beit")
    enc = build("beit", d=HEADS, grid=GRID, seed=3)
    config = beit.BeitConfig(image_size=GRID, patch_size=1, num_attention_heads=HEADS)
    module = beit.BeitRelativePositionBias(config)
    rows = np.vstack([authors_table(enc, 3), enc.table()[:3]])
    made = torch.tensor(rows)[module.generate_relative_position_index(GRID)].numpy()
    np.testing.assert_array_equal(pairwise(enc, 3), made[1:, 1:])
    np.testing.assert_array_equal(enc.table()[:3], [made[0, 1], made[1, 0], made[0, 0]])
    enc = load("beit", d=2, grid=GRID)
    assert (len(enc), enc.domain.grid, enc.domain.prefix) == (38, (5, 7), 3)


@pytest.mark.parametrize("pretrained", [(0, 0), (5, 7)])
def test_swin2_is_the_module_of_transformers(pretrained):
    swin2 = pytest.importorskip("transformers.models.swinv2.modeling_swinv2")
    torch.manual_seed(0)
    module = swin2.Swinv2SelfAttention(swin2.Swinv2Config(), 4 * HEADS, HEADS, GRID, pretrained)
    first, _, second = module.continuous_position_bias_mlp
    with torch.no_grad():
        weights = [p.numpy().T.astype(float) for p in (first.weight, first.bias, second.weight)]
        raw = module.continuous_position_bias_mlp(module.relative_coords_table)
        made = (16 * torch.sigmoid(raw)).reshape(-1, HEADS).numpy()
    lags = -lags_on(GRID).coordinates(np.arange(35))
    sides = pretrained if any(pretrained) else GRID
    np.testing.assert_allclose(swin2_bias(log_spaced(lags, sides), *weights)[::-1], made, atol=1e-5)


@pytest.mark.parametrize("pretrained", [(), (5, 7)])
def test_swin2_starts_from_its_formula(pretrained):
    enc = build("swin2", d=2, grid=GRID, seed=1, pretrained=pretrained)
    draw = np.random.RandomState(1).normal
    weights, heads = draw(0, 0.02, (2, 512)), draw(0, 0.02, (512, 2))
    lag, sides = np.array([-1, 2]), np.array(pretrained or GRID)  # query - key
    hidden = np.maximum(np.sign(lag) * np.log2(1 + 8 * abs(lag) / (sides - 1)) / 3 @ weights, 0)
    at = (1 + 2) * 7 - 2 + 3
    by_hand = 16 / (1 + np.exp(-hidden @ heads))
    np.testing.assert_allclose(enc.vectors(np.array([at]))[0], by_hand, rtol=1e-12)

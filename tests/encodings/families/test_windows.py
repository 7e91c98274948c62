"""Biases of displacements in windows: equal to the modules of transformers, given their weights."""

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.domain import lags_on
from pefourier.encodings.families.windows import log_spaced, swin2_bias
from pefourier.errors import PefourierError

GRID, HEADS = (3, 4), 5


def pairwise(enc, rows=0):
    """Biases of all queries and keys, (n, n, heads), out of codes of displacements."""
    places = np.indices(GRID).reshape(2, -1).T
    lags = places[None] - places[:, None]  # key - query
    x = enc.domain.x[rows:]
    known = dict(zip(map(tuple, enc.domain.coordinates(x)), x, strict=True))
    table = enc.table()
    return np.array([[table[known[tuple(lag)]] for lag in row] for row in lags])


def authors_table(enc, rows=0):
    """The same biases in the order of the authors' tables: displacements query - key."""
    return enc.table()[rows:][::-1]


def test_swin_is_the_module_of_transformers():
    torch = pytest.importorskip("torch")
    swin = pytest.importorskip("transformers.models.swin.modeling_swin")
    enc = build("swin", d=HEADS, grid=GRID, seed=3)
    module = swin.SwinRelativePositionBias(HEADS, GRID)
    with torch.no_grad():
        module.relative_position_bias_table.copy_(torch.tensor(authors_table(enc).copy()))
        made = module()[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(pairwise(enc), made, atol=1e-8)


def test_beit_is_the_module_of_transformers():
    torch = pytest.importorskip("torch")
    beit = pytest.importorskip("transformers.models.beit.modeling_beit")
    enc = build("beit", d=HEADS, grid=GRID, seed=3)
    config = beit.BeitConfig(image_size=GRID, patch_size=1, num_attention_heads=HEADS)
    module = beit.BeitRelativePositionBias(config)
    rows = np.vstack([authors_table(enc, 3), enc.table()[:3]])
    index = module.generate_relative_position_index(GRID)
    made = torch.tensor(rows)[index].numpy()
    np.testing.assert_array_equal(pairwise(enc, 3), made[1:, 1:])
    np.testing.assert_array_equal(enc.table()[:3], [made[0, 1], made[1, 0], made[0, 0]])


@pytest.mark.parametrize("pretrained", [(0, 0), (5, 7)])
def test_swin2_is_the_module_of_transformers(pretrained):
    torch = pytest.importorskip("torch")
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


def test_swin2_starts_from_its_formula():
    enc = build("swin2", d=2, grid=GRID, seed=1)
    draw = np.random.RandomState(1).normal
    weights, heads = draw(0, 0.02, (2, 512)), draw(0, 0.02, (512, 2))
    dy, dx = 1, -2  # key - query
    c = [-np.log2(1 + 8 * 1 / 2) / 3, np.log2(1 + 8 * 2 / 3) / 3]
    hidden = [max(0.0, c[0] * a + c[1] * b) for a, b in weights.T]
    by_hand = [16 / (1 + np.exp(-np.dot(hidden, head))) for head in heads.T]
    at = (dy + 2) * 7 + dx + 3
    np.testing.assert_allclose(enc.codes(np.array([at]))[0], by_hand, rtol=1e-12)


def test_the_first_row_of_the_index_of_a_window():
    """Displacements from query (0, 0) to all keys, where a square window would hide a transpose."""
    enc = build("swin", d=1, grid=GRID)
    bias = authors_table(enc)[:, 0]
    table, coordinates = enc.table()[:, 0], enc.domain.coordinates(enc.domain.x)
    seen = [table[(coordinates == lag).all(axis=1)][0] for lag in np.ndindex(GRID)]
    places = [int(np.flatnonzero(bias == value)[0]) for value in seen]
    assert places == [17, 16, 15, 14, 10, 9, 8, 7, 3, 2, 1, 0]


def test_log_spaced_displacements_end_where_the_paper_says():
    assert log_spaced(np.array([7]), np.array([8]))[0] == pytest.approx(1.0566421, abs=1e-6)


@pytest.mark.parametrize("name", ["swin", "swin2", "beit"])
def test_windows_are_refused_that_do_not_fit(name):
    with pytest.raises(PefourierError, match="13 rows do not fit a grid of 3x4"):
        build(name, length=13, d=2, grid=GRID)
    with pytest.raises(PefourierError, match="point -1 is outside"):
        build(name, d=2, grid=GRID).codes(np.array([-1]))


def test_swin2_needs_a_pretraining_window_of_as_many_axes():
    with pytest.raises(PefourierError, match="a side for each of the 2 axes; got 1"):
        build("swin2", d=2, grid=GRID, pretrained=(8,))


def test_swin2_divides_by_the_window_of_pretraining():
    one = build("swin2", d=2, grid=GRID, pretrained=(5, 7)).table()
    assert (one != build("swin2", d=2, grid=GRID).table()).any()


def test_windows_are_asked_for_by_the_option():
    enc = load("beit", d=2, grid=GRID)
    assert (len(enc), enc.domain.grid, enc.domain.prefix) == (38, (5, 7), 3)

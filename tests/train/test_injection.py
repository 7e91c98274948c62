"""Injected vectors of each position, and the parameters that are trained."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training import SIZES, injection

from pefourier.encodings import build
from pefourier.errors import PefourierError
from pefourier.train.model import (
    OTHERWISE,
    bias_of_lag_keys,
    load_injection,
    scale_to_rms,
)

GRID, N = (3, 4), 12
PLACES = np.indices(GRID).reshape(2, -1).T


def inject(spec, d=16, heads=2, grid=GRID, length=N):
    return load_injection(spec, length, d, heads, seed=0, grid=grid)


@pytest.mark.parametrize("name", ["t5", "shaw", "erpe", "shaw:values=true", "xl", "deberta"])
def test_a_place_has_the_code_of_its_lag(name):
    """The lag is key - query."""
    one = injection(name)
    enc = build(name.partition(":")[0], length=8, d=2 if one.act == "bias" else 8)
    table = one.table()
    if one.act.startswith("key"):
        np.testing.assert_array_equal(table[:, :8], enc.table())
        assert table.shape[1] == 8 * (1 + ("values" in name))
        assert (table[:, :8] != table[:, -8:]).any() == ("values" in name)
        return
    for query, key in ((0, 7), (5, 2), (3, 3)):
        (code,) = enc.vectors(np.array([key - query]))
        np.testing.assert_array_equal(table[8 * query + key], code)


def test_what_is_before_training_is_trained():
    trained = {"learned": True, "mixed-rope": True, "rope": False, "sinusoidal": False}
    assert {name: injection(name).learn for name in trained} == trained
    assert injection("rope", learn=True).learn


@pytest.mark.parametrize(("name", "length"), [("dft", 24), ("sinusoidal", 8), ("ramp", 8)])
def test_what_varies_of_matched_vectors_has_the_root_mean_square_requested(name, length):
    """The deviation from the mean over positions has the requested size, with equal vectors too."""
    own = injection(name, sizes=replace(SIZES, length=length))
    table, own = scale_to_rms(own, 0.25).table(), own.table()
    assert np.sqrt((table**2).mean()) == pytest.approx(0.25)
    np.testing.assert_allclose(table.mean(axis=0), 0, atol=1e-12)
    centred = own - own.mean(axis=0)
    np.testing.assert_allclose(table * centred.max(), centred * table.max(), atol=1e-12)


@pytest.mark.parametrize(
    ("spec", "own", "named"),
    [
        ("t5:causal=true", {}, "causal=true"),
        *((name, {}, "rotates both equally") for name in OTHERWISE),
        ("rope:d=32", {}, "32 dimensions for 8 points"),
        ("alibi:d=3", {}, "needs 2 dimensions for 8 tokens"),
        ("axial", {"grid": GRID, "length": 6}, "--patch and --tokens"),
        ("axial-rope:layout=axis-halves", {"grid": GRID, "length": 12}, "layout=halves"),
    ],
)
def test_encodings_that_do_not_fit_are_refused(spec, own, named):
    with pytest.raises(PefourierError, match=named):
        load_injection(spec, **{"length": 8, **own}, d=16, heads=2, seed=0)


def test_positions_of_a_config_are_injected_as_they_are(tmp_path):
    file = tmp_path / "config.json"
    text = '{"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4'
    file.write_text(text + ', "max_position_embeddings": 64, "rope_theta": 500.0}')
    own, named = (
        load_injection(spec, 12, 32, 4, 0).table() for spec in (str(file), "rope:rho=500")
    )
    np.testing.assert_allclose(own, named, atol=1e-12)
    with pytest.raises(PefourierError, match="head_dim"):
        load_injection(str(file), 12, 64, 4, 0)
    file.write_text('{"model_type": "bloom", "hidden_size": 32, "n_head": 4}')
    with pytest.raises(PefourierError, match="no vectors for later keys"):
        load_injection(str(file), 12, 32, 4, 0)


def test_vectors_added_are_those_of_the_grid_or_of_one_axis():
    own = build("axial", d=16, grid=GRID).table()
    np.testing.assert_array_equal(inject("axial").table(), own)
    for spec in ("axial", "sinusoidal", "alibi"):  # two without a form on a grid
        one, flat = (inject(spec, grid=grid).table() for grid in (GRID, ()))
        assert np.array_equal(one, flat) == (spec != "axial")
    one = injection("tupe")  # one row for each query
    tupe = build("tupe", length=8, d=16, heads=2).table()
    by_query = one.table().reshape(8, 8, 2).transpose(0, 2, 1).reshape(8, 16)
    np.testing.assert_allclose(by_query, tupe)


def test_biases_of_pairs_are_injected_pair_by_pair(tmp_path):
    one, enc = injection("fire:threshold=3"), build("fire", length=8, d=2, threshold=3.0)
    np.testing.assert_array_equal(one.table().reshape(8, 8, 2), np.moveaxis(enc.bias, 0, -1))
    assert one.learn
    assert len(one.vectors) < 64  # equal biases stay equal in training
    np.save(tmp_path / "b.npy", enc.bias)
    stored = injection(str(tmp_path / "b.npy"))
    np.testing.assert_array_equal(stored.table(), one.table())
    masked = ("fire:threshold=3,causal=true", "causal=true|masks"), ("alibi:causal=true", "later")
    for spec, named in masked:
        with pytest.raises(PefourierError, match=named):
            injection(spec)


@pytest.mark.parametrize("spec", ["swin", "swin2", "beit"])
def test_biases_are_those_of_displacements(spec):
    one, enc = inject(spec), build(spec, d=2, grid=GRID)
    vectors = enc.table()[enc.domain.prefix :].reshape(5, 7, 2)
    lag = PLACES - PLACES[:, None] + [2, 3]
    np.testing.assert_array_equal(one.table().reshape(N, N, 2), vectors[lag[..., 0], lag[..., 1]])
    assert one.learn


def test_the_terms_of_lags_are_those_of_debertas_attention(rng):
    """The terms c2p and p2c equal DeBERTa's attention with the identity for W_k and W_q."""
    from rotary_modules import config_class, quiet
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    sizes = {"hidden_size": 4, "num_attention_heads": 1, "position_buckets": 4}
    with quiet():
        own = config_class("deberta-v2")(
            **sizes, relative_attention=True, pos_att_type="c2p|p2c", max_position_embeddings=9
        )
        attention = DisentangledSelfAttention(own).double().eval()
    for projection in (attention.pos_key_proj, attention.pos_query_proj):
        projection.weight.data, projection.bias.data = (
            torch.eye(4).double(),
            torch.zeros(4).double(),
        )
    q, k = (torch.tensor(rng.normal(size=(1, 7, 4))) for _ in range(2))
    enc = build("deberta", length=7, d=4, buckets=4, max_distance=9)
    rows = torch.tensor(np.random.RandomState(0).normal(0, 0.02, (8, 4)))
    expected = attention.disentangled_attention_bias(q, k, None, rows, 3)[0].detach()
    table = torch.tensor(enc.table())[None]
    scores = bias_of_lag_keys(q[None, :, :, None], table)
    scores = scores + bias_of_lag_keys(k[None, :, :, None], table.flip(1)).transpose(3, 4)
    np.testing.assert_allclose(scores[0, 0, 0] / 3**0.5, expected, atol=1e-12)

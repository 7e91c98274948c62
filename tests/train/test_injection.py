"""Injected vectors of each position, and their training, which equals an eager reference."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose, assert_array_equal
from published_configs import sized
from refusals import refusal
from training import SIZES, epochs, injection

import pefourier
from pefourier.encodings import build, load
from pefourier.train import program as fit
from pefourier.train import saved_models
from pefourier.train.model import (
    OTHERWISE,
    Transformer,
    bias_of_lag_keys,
    load_injection,
    scale_to_rms,
    waves_of_rotation,
)
from pefourier.train.saved_models import lengthen

GRID, N = (3, 4), 12
PLACES = np.indices(GRID).reshape(2, -1).T


def inject(spec, grid=GRID):
    return load_injection(spec, N, 16, 2, seed=0, grid=grid)


@pytest.mark.parametrize("name", ["t5", "shaw", "erpe", "shaw:values=true", "xl", "deberta"])
def test_a_place_has_the_code_of_its_lag(name):
    """The lag is key - query."""
    one = injection(name)
    enc = build(name.partition(":")[0], length=8, d=2 if one.act == "bias" else 8)
    table = one.table()
    if one.act.startswith("key"):
        assert_array_equal(table[:, :8], enc.table())
        assert table.shape[1] == 8 * (1 + ("values" in name))
        assert (table[:, :8] != table[:, -8:]).any() == ("values" in name)
        return
    for query, key in ((0, 7), (5, 2), (3, 3)):
        (code,) = enc.vectors(np.array([key - query]))
        assert_array_equal(table[8 * query + key], code)


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
    assert_allclose(table.mean(axis=0), 0, atol=1e-12)
    centred = own - own.mean(axis=0)
    assert_allclose(table * centred.max(), centred * table.max(), atol=1e-12)


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
    with refusal(named):
        load_injection(spec, **{"length": 8, **own}, d=16, heads=2, seed=0)


def test_positions_of_a_config_are_injected_as_they_are(written):
    file = written(sized("llama", 32, 4, 64, rope_theta=500.0))
    own, named = (load_injection(spec, 12, 32, 4, 0).table() for spec in (file, "rope:rho=500"))
    assert_allclose(own, named, atol=1e-12)
    with refusal("head_dim"):
        load_injection(file, 12, 64, 4, 0)
    file = written({"model_type": "bloom", "hidden_size": 32, "n_head": 4})
    with refusal("no vectors for later keys"):
        load_injection(file, 12, 32, 4, 0)


def test_vectors_added_are_those_of_the_grid_or_of_one_axis():
    own = build("axial", d=16, grid=GRID).table()
    assert_array_equal(inject("axial").table(), own)
    for spec in ("axial", "sinusoidal", "alibi"):  # two without a form on a grid
        one, flat = (inject(spec, grid=grid).table() for grid in (GRID, ()))
        assert np.array_equal(one, flat) == (spec != "axial")
    one = injection("tupe")  # one row for each query
    tupe = build("tupe", length=8, d=16, heads=2).table()
    by_query = one.table().reshape(8, 8, 2).transpose(0, 2, 1).reshape(8, 16)
    assert_allclose(by_query, tupe)


def test_biases_of_pairs_are_injected_pair_by_pair(tmp_path):
    one, enc = injection("fire:threshold=3"), build("fire", length=8, d=2, threshold=3.0)
    assert_array_equal(one.table().reshape(8, 8, 2), np.moveaxis(enc.bias, 0, -1))
    assert one.learn
    assert len(one.vectors) < 64  # equal biases stay equal in training
    np.save(tmp_path / "b.npy", enc.bias)
    stored = injection(str(tmp_path / "b.npy"))
    assert_array_equal(stored.table(), one.table())
    masked = ("fire:threshold=3,causal=true", "causal=true|masks"), ("alibi:causal=true", "later")
    for spec, named in masked:
        with refusal(named):
            injection(spec)


@pytest.mark.parametrize("spec", ["swin", "swin2", "beit"])
def test_biases_are_those_of_displacements(spec):
    one, enc = inject(spec), build(spec, d=2, grid=GRID)
    vectors = enc.table()[enc.domain.prefix :].reshape(5, 7, 2)
    lag = PLACES - PLACES[:, None] + [2, 3]
    assert_array_equal(one.table().reshape(N, N, 2), vectors[lag[..., 0], lag[..., 1]])
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
    assert_allclose(scores[0, 0, 0] / 3**0.5, expected, atol=1e-12)


SPECS = dict.fromkeys(("axial-rope", "axial-rope:convention=rope-vit", "mixed-rope"), (2, 4))
SPECS |= dict.fromkeys(("rope", "rope:partial=0.5,layout=interleaved", "xpos"), ())
KEYS = ("shaw", "shaw:values=true", "shaw:clip=2,values=true")
BOTH = ("deberta", "deberta:buckets=4,max=9")  # vectors on keys and queries


def rotation(spec, length=8):
    sizes = replace(SIZES, length=length)
    return injection(spec, learn=True, sizes=sizes, grid=SPECS.get(spec, ()))


def members(specs):
    return [fit.Replica(spec, rotation(spec), 0, 0) for spec in specs]


def rotated(one, trained):
    """Return attention whose queries and keys (B, T, H, c) are rotated as complex numbers."""
    length = torch.as_tensor(np.hypot(*np.split(one.vectors, 2, axis=1)))  # length: xpos, yarn
    angle = torch.as_tensor(one.places) @ trained
    for_query = torch.polar(length, angle)[:, None]
    for_key = torch.polar(length[:1] ** 2 / length, angle)[:, None]

    def mix(q, k, v):
        q, k = (torch.complex(*z.chunk(2, dim=3)) for z in (q, k))
        scores = torch.einsum("bqhc,bkhc->bhqk", q * for_query, (k * for_key).conj()).real
        return torch.einsum("bhqk,bkhc->bqhc", (scores / 8**0.5).softmax(3), v)

    return mix


def with_lags(one, trained):
    """Return attention with vectors of the lag added to each key, and to each value or query."""
    lags = torch.arange(8) - torch.arange(8)[:, None] + 7
    keys, *values = trained[torch.as_tensor(one.index)][lags].split(8, dim=2)
    on_queries = keys if one.act == "key-query" else torch.zeros_like(keys)

    def mix(q, k, v):
        scores = torch.einsum("bqhc,bqkhc->bhqk", q, k[:, None] + keys[:, :, None])
        scores = scores + torch.einsum("qkc,bkhc->bhqk", on_queries, k)
        v = v[:, None] + (values[0][:, :, None] if values else 0)
        v = v.expand(len(q), 8, 8, 2, 8)
        return torch.einsum("bhqk,bqkhc->bqhc", (scores / 8**0.5).softmax(3), v)

    return mix


def logits_with(mix, p, x, monkeypatch):
    """Return the logits of one member whose attention is written out."""

    def attention(_, p, _layer, h, *_rest):
        mixed = mix(*(h[0] @ p["0.qkv.w"][0]).unflatten(2, (3, 2, 8)).unbind(2)).flatten(2)
        return (mixed @ p["0.out.w"][0] + p["0.out.b"][0])[None]

    with monkeypatch.context() as patched:
        patched.setattr(Transformer, "attention", attention)
        return SIZES.logits(p, {}, x)[0]


@pytest.mark.parametrize("act", ["rotate", "key", "key-query"])
def test_gradients_of_vectors_are_those_of_an_eager_twin(held, act, monkeypatch):
    every = members({"rotate": SPECS, "key": KEYS, "key-query": BOTH}[act])
    running = fit.Program(held, SIZES, every, epochs(1, 1e-3))
    p, trained = running.parameters, running.parameters[f"codes.{act}"]
    for step in range(3):  # the first step is at the formula
        index = torch.as_tensor(held.task.folds[0].train[4 * step :][:4]).expand(len(every), 4)
        running.index.copy_(index)
        before, y = trained.detach().clone(), held.labels[index]
        x = held.windows(index, running.mean, running.scale)
        trained.grad = None
        running.loss(index).mean(1).sum().backward()
        for i, one in enumerate(member.injection for member in every):
            start = one.frequencies if act == "rotate" else one.vectors
            rows, columns = map(slice, start.shape)
            own = before[i, rows, columns].clone().requires_grad_()
            mix = (rotated if act == "rotate" else with_lags)(one, own)
            alone = {name: value[i : i + 1] for name, value in p.items()}
            logits = logits_with(mix, alone, x[i : i + 1], monkeypatch)
            loss = F.cross_entropy(logits, y[i], running.weights[i], reduction="none").mean()
            (expected,) = torch.autograd.grad(loss, own)
            if act == "rotate":
                expected = expected * torch.as_tensor(start != 0)
            assert (trained.grad[i, rows, columns] - expected).abs().max() < 1e-12, i
            assert expected.abs().max() > 1e-6, i
        running.step()
    assert (trained != running.injected[act].start).flatten(1).any(dim=1).all()


def test_only_rotations_that_say_their_frequencies_are_trained():
    own = load("rope", 8, 8)
    for measure in (None, load("rope", 8, 8, rho=500.0).measure):
        assert waves_of_rotation(replace(own, measure=measure), own.table()) == {}


def test_other_commands_report_trained_vectors(held, tmp_path):
    trained = fit.fit(held, SIZES, members(["learned", "rope", "xpos"]), epochs(3, 0.02))
    added, found, _ = trained
    for outcome in (added, found):
        saved_models.save_model(str(tmp_path), held.task, outcome, SIZES)
    path, rotated = (str(*tmp_path.glob(f"*{name}-*")) for name in ("learned", "rope"))
    assert_allclose(load(f"{path}#codes").table(), added.injection.vectors, atol=1e-6)
    saved, sizes = f"rope:inv_freq={rotated}#frequencies", {"d": 8, "length": 8}
    omega = pefourier.spectrum(saved, sigma=0, **sizes).frequencies
    assert_allclose(omega, found.injection.frequencies.ravel(), rtol=1e-6)
    start = pefourier.spectrum("rope", sigma=0, **sizes).frequencies
    assert np.abs(np.asarray(start) - omega).max() > 1e-3
    for outcome in trained[1:]:
        one = rotation(outcome.member.encoding, length=20)
        angle = np.arange(20)[:, None] * outcome.injection.frequencies
        size = np.tile(np.hypot(*np.split(one.vectors, 2, axis=1)), 2)  # of xpos
        expected = size * np.hstack([np.cos(angle), np.sin(angle)])
        assert_allclose(lengthen(outcome, one, 20).vectors, expected, atol=1e-12)

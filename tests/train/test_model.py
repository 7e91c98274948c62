"""The classifier and its attention: slow references, dependence on order, padding."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from training import CPU, SIZES, injection, small

from pefourier.encodings import build
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.train import model
from pefourier.train.ensembles import most_members
from pefourier.train.run import run_comparison
from pefourier.train.saved_models import load_classifier


def drawn(sizes, seed=0):
    return {k: v[None] for k, v in model.draw_parameters(sizes.shapes(), seed).items()}


class Changed(torch.nn.Module):
    def forward(self, x):
        return 2 * x - 1


@pytest.mark.parametrize(
    ("patch", "stride", "ffn"), [(1, None, None), (4, 2, 48), (2, 1, None), (8, None, 7)]
)
def test_it_is_torchs_transformer_encoder(rng, patch, stride, ffn):
    sizes = model.Transformer(8, 2, 3, d=16, heads=2, layers=2, patch=patch, stride=stride, ffn=ffn)
    p = drawn(sizes, 5)
    for key in p:
        if "norm" in key or key.endswith(".b"):
            p[key] = p[key] + torch.as_tensor(rng.normal(size=p[key].shape))
    x = torch.as_tensor(rng.normal(size=(1, 4, 8, 2)))
    vectors = torch.as_tensor(build("dft", length=sizes.tokens, d=16).table())
    injected = model.stack_vectors([injection("dft", sizes=sizes)], CPU, torch.float64)
    starts = range(0, 9 - patch, stride or patch)
    cut = torch.stack([x[0, :, s : s + patch].flatten(1) for s in starts], dim=1)
    h = cut @ p["project.w"][0] + p["project.b"][0] + vectors
    for drop in (None, Changed()):
        g = h if drop is None else drop(h)
        for i in range(2):
            layer = twin(p, i).double()
            if drop is not None:
                layer.dropout = layer.dropout1 = layer.dropout2 = drop
            g = layer(g)
        expected = g.mean(1) @ p["head.w"][0] + p["head.b"][0]
        assert (sizes.logits(p, injected, x, drop)[0] - expected).abs().max() < 1e-5


def twin(p, i):
    wide = p[f"{i}.wide.w"].shape[2]
    layer = torch.nn.TransformerEncoderLayer(16, 2, wide, dropout=0.0, batch_first=True)
    pairs = {"self_attn.in_proj_weight": p[f"{i}.qkv.w"][0].T}
    pairs["self_attn.in_proj_bias"] = torch.zeros(48)
    for name, own in (("self_attn.out_proj", "out"), ("linear1", "wide"), ("linear2", "narrow")):
        pairs[f"{name}.weight"] = p[f"{i}.{own}.w"][0].T
        pairs[f"{name}.bias"] = p[f"{i}.{own}.b"][0, 0]
    for n in (1, 2):
        pairs[f"norm{n}.weight"] = p[f"{i}.norm{n}.gain"][0, 0, 0]
        pairs[f"norm{n}.bias"] = p[f"{i}.norm{n}.shift"][0, 0, 0]
    layer.load_state_dict(pairs)
    return layer


@pytest.mark.parametrize(
    ("options", "named"),
    [
        *(({"d": 10, "heads": 4}, "--heads 4"), ({"d": 12, "heads": 4}, "--heads 4")),
        *(({"layers": 0}, "--layers"), ({"ffn": 0}, "--ffn")),
        ({"patch": 3}, "--patch 3"),
        *(({"patch": 9, "stride": 1}, "--patch 9"), ({"patch": 4, "stride": 0}, "--stride")),
        *(({"patch": patch, "stride": 3}, "starting every 3") for patch in (2, 4)),
    ],
)
def test_sizes_that_cannot_be_are_refused(options, named):
    with refusal(named):
        model.Transformer(8, 2, 2, **options)


def test_the_order_free_model_is_its_definition_and_drops_before_its_head(rng):
    sizes = model.OrderFree(8, 2, 2, 4)
    p = drawn(sizes, 0)
    x = torch.as_tensor(rng.normal(size=(1, 3, 8, 2)))
    x0 = x[0].numpy()
    facts = np.hstack([x0.mean(1), x0.std(1), x0.min(1), x0.max(1)])
    w = {k: v[0].numpy() for k, v in p.items()}
    h = 2 * np.maximum(facts @ w["project.w"] + w["project.b"], 0) - 1
    expected = h @ w["head.w"] + w["head.b"]
    assert (sizes.logits(p, {}, x) - sizes.logits(p, {}, x.flip(2))).abs().max() < 1e-12
    assert_allclose(sizes.logits(p, {}, x, Changed())[0], expected, atol=1e-12)


LENGTHS = (3, model.FEW_TOKENS["cpu"] + 1)  # written out, and by torch's kernel


def summed(q, k, v, bias, hidden, keys, values):
    """Return z_i = sum_j alpha_ij (x_j W_V + a^V_{j-i}), written out.

    The scores are q_i (k_j + a^K_{j-i}) / sqrt(c) + b_ij.
    """
    length = q.shape[2]
    lags = torch.arange(length) - torch.arange(length)[:, None] + length - 1
    scores = torch.einsum("mbihc,mbjhc->mbhij", q, k)
    if keys is not None:
        scores = scores + torch.einsum("mbihc,mijc->mbhij", q, keys[:, lags])
    scores = scores / q.shape[4] ** 0.5 + (0 if bias is None else bias)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = scores.softmax(-1)
    out = torch.einsum("mbhij,mbjhc->mbihc", weights, v)
    if values is not None:
        out = out + torch.einsum("mbhij,mijc->mbihc", weights, values[:, lags])
    return out.flatten(3)


def attended(q, k, v, bias, hidden, keys, values):
    if keys is not None:
        lags = model.bias_of_lag_keys(q, keys)
        bias = lags if bias is None else bias + lags
    return model.attend(q, k, v, bias, hidden, values)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("acts", ["", "bias", "key", "key bias", "value", "key value bias"])
def test_attention_and_its_gradients_are_those_of_the_sums(rng, length, padded, acts):
    m, batch, heads, size = 2, 3, 2, 4
    shapes = {"bias": (m, length**2, heads)}
    shapes |= dict.fromkeys(("key", "value"), (m, 2 * length - 1, size))
    drawn = {name: rng.normal(size=(m, batch, length, heads, size)) for name in "qkv"}
    drawn |= {act: rng.normal(size=shapes[act]) for act in acts.split()}
    back = torch.as_tensor(rng.normal(size=(m, batch, length, heads * size)))
    hidden = torch.zeros(m, batch, 1, 1, length, dtype=torch.bool)
    hidden[1, 2, ..., 1:] = hidden[0, 1, ..., -1:] = True
    found = []
    for act in (attended, summed):
        p = {name: torch.tensor(x, requires_grad=True) for name, x in drawn.items()}
        bias = p["bias"].unflatten(1, (length, length))[:, None] if "bias" in p else None
        bias = None if bias is None else bias.permute(0, 1, 4, 2, 3)
        own = (bias, hidden if padded else None, p.get("key"), p.get("value"))
        out = act(p["q"], p["k"], p["v"], *own)
        (out * back).sum().backward()
        found.append([out.detach(), *(part.grad for part in p.values())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


def test_a_gpus_stack_stays_within_what_its_attention_can_index(monkeypatch):
    monkeypatch.setattr("pefourier.train.ensembles.device_memory", lambda _: 80 * 2**30)
    gpu = torch.device("cuda")
    wide = model.Transformer(1024, 2, 2, d=512, heads=16)
    for sizes, batch, device, count in (
        (SIZES, 1024, gpu, (2**16 - 1) // 1024),
        (SIZES, 1, gpu, 256),
        (wide, 1, gpu, 4096 // 64),  # windows at once in evaluation
        (wide, 8192, gpu, 1),
        (SIZES, 1024, CPU, 16),
    ):
        assert most_members(sizes, batch, device) == count


def injectable():
    """Yield every registered encoding that the small classifier supports."""
    for name in (*sorted(BUILDERS), "shaw:values=true"):
        try:
            yield name, injection(name)
        except PefourierError:
            continue


def shortened(one, tokens):
    """Return an injection limited to the first tokens."""
    n = SIZES.tokens
    if one.act == "bias":
        index = one.index.reshape(n, n)[:tokens, :tokens].ravel()
    elif one.act in ("key", "key-query"):
        index = one.index[n - tokens : n + tokens - 1]
    else:
        index = one.index[:tokens]
    return replace(one, index=index)


@pytest.mark.parametrize("few", [32, 0])  # tokens up to which attention is written out
def test_padding_changes_no_logit_with_any_encoding(rng, monkeypatch, few):
    monkeypatch.setitem(model.FEW_TOKENS, "cpu", few)
    x = torch.as_tensor(rng.normal(size=(1, 3, 8, 2)))
    other = x.clone()
    other[:, 0, 5:], other[:, 1, 2:] = 9.0, -3.0
    lengths, acts = torch.tensor([[5, 2, 8]]), set()
    for name, one in injectable():
        p, vectors = drawn(SIZES), model.stack_vectors([one], CPU, torch.float64)
        got = SIZES.logits(p, vectors, x, None, lengths)
        assert (got - SIZES.logits(p, vectors, other, None, lengths)).abs().max() < 1e-12, name
        for i, n in enumerate(lengths[0].tolist()):
            alone = model.stack_vectors([shortened(one, n)], CPU, torch.float64)
            own = replace(SIZES, length=n).logits(p, alone, x[:, i : i + 1, :n])
            assert (got[:, i] - own[:, 0]).abs().max() < 1e-12, (name, n)
        acts.add(one.act)
    assert acts == {"add", "rotate", "bias", "key", "key-query"}


def test_padding_changes_no_logit_with_any_patch(rng):
    sizes = model.Transformer(12, 2, 3, d=8, heads=2, patch=4, stride=2)
    short, p = replace(sizes, length=8), drawn(sizes)
    x = torch.as_tensor(rng.normal(size=(1, 4, 12, 2)))
    x[:, :, 8:] = 7.0
    vectors = [
        model.stack_vectors([injection("none", sizes=s)], CPU, x.dtype) for s in (sizes, short)
    ]
    got = sizes.logits(p, vectors[0], x, None, torch.full((1, 4), 8))
    assert (got - short.logits(p, vectors[1], x[:, :, :8])).abs().max() < 1e-12
    blind = model.OrderFree(12, 2, 3, 4)
    p = drawn(blind)
    got = blind.logits(p, {}, x, None, torch.full((1, 4), 8))
    assert (got - replace(blind, length=8).logits(p, {}, x[:, :, :8])).abs().max() < 1e-12


def test_what_padding_holds_changes_no_score(tmp_path, rng):
    x, y, lengths = rng.normal(size=(60, 6, 2)), np.arange(60) % 3 == 0, rng.integers(2, 7, 60)
    x[:, 0, 0] += 2 * y
    path, models, found = str(tmp_path / "x.npz"), tmp_path / "m", []
    own = {"dataset": (path,), "seeds": 1, "folds": 1, "save_models": str(models)}
    for fill in (0.0, 99.0):
        x[np.arange(6) >= lengths[:, None]] = fill
        np.savez(path, X=x, y=y.astype(int), lengths=lengths)
        (one,) = run_comparison(small(**own)).datasets
        found.append(one.scores)
    assert repr(found[0]) == repr(found[1])  # intervals of one run are NaN, unequal to itself
    saved = load_classifier(next(models.glob("*none*")))
    other = np.where((np.arange(6) < lengths[:, None])[..., None], x, -5.0)
    assert_array_equal(saved.logits(x, lengths), saved.logits(other, lengths))

"""Attention with injected vectors equals sums written out."""

import pytest
import torch
from training import CPU, SIZES

from pefourier.train import model
from pefourier.train.ensembles import most_members

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
    assert model.most_windows(1, 64, 8) == 2**16 - 1
    elements = model.most_windows(8, 300, 64) * 8 * 384 * 64
    assert 2**31 - 8 * 384 * 64 < elements <= 2**31
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

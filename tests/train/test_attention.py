"""How attention receives codes, beside the sums written out."""

import numpy as np
import pytest
import torch
from training import SIZES

from pefourier.train import attention, model
from pefourier.train.injection import load_injection
from pefourier.train.stacks import most_members

CPU = torch.device("cpu")


def slow_attention(act, q, k, v, table):
    """The sums written out for one member and head: q, k, v (T, c)."""
    length, size = q.shape
    out = np.zeros_like(v)
    for i in range(length):
        logits = np.zeros(length)
        for j in range(length):
            key = k[j] + table[j - i + length - 1] if act == "key" else k[j]
            logits[j] = q[i] @ key / np.sqrt(size)
            if act == "bias":
                logits[j] += table[i * length + j, 0]
        weights = np.exp(logits - logits.max())
        out[i] = weights / weights.sum() @ v
    return out


@pytest.mark.parametrize("act", ["add", "bias", "key"])
def test_attention_is_its_definition(rng, act):
    length, size = 5, 4
    q, k, v = rng.normal(size=(3, length, size))
    table = rng.normal(size={"add": (5, 4), "bias": (25, 1), "key": (9, 4)}[act])
    parts = [torch.as_tensor(x)[None, None, :, None] for x in (q, k, v)]
    codes = torch.as_tensor(table)[None]
    bias = {
        "add": lambda: None,
        "bias": lambda: attention.bias_of_pairs(codes, length),
        "key": lambda: attention.bias_of_lag_keys(parts[0], codes),
    }[act]()
    got = attention.attend(*parts, bias, None)[0, 0]
    np.testing.assert_allclose(got, slow_attention(act, q, k, v, table), atol=1e-12)


@pytest.mark.parametrize("length", [3, attention.FEW_TOKENS + 1])
def test_attention_of_few_tokens_is_that_of_many_and_so_is_its_gradient(rng, length):
    """It is written out for few tokens; torch's own kernel is the reference."""
    drawn = rng.normal(size=(3, 2, 2, length, 2, 4))  # q, k, v of (m, B, T, H, c)
    back = torch.as_tensor(rng.normal(size=(2, 2, length, 8)))
    found = []
    for act in (lambda *rows: attention.attend(*rows, None, None), fused):
        parts = [torch.tensor(x, requires_grad=True) for x in drawn]
        out = act(*parts)
        (out * back).sum().backward()
        found.append([out.detach(), *(part.grad for part in parts)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def fused(q, k, v):
    rows = (x.transpose(2, 3) for x in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(*rows)
    return out.transpose(2, 3).flatten(3)


@pytest.mark.parametrize("length", [3, attention.FEW_TOKENS + 1])
@pytest.mark.parametrize("windows", [None, 1, 3])
def test_hidden_keys_get_no_attention_whatever_the_bias(rng, length, windows):
    q, k, v = (torch.as_tensor(x) for x in rng.normal(size=(3, 2, 3, length, 2, 4)))
    bias = (
        None
        if windows is None
        else torch.as_tensor(rng.normal(size=(2, windows, 2, length, length)))
    )
    hidden = torch.zeros(2, 3, length, dtype=torch.bool)
    hidden[1, 2, 1:] = hidden[0, 1, -1:] = True
    got = attention.attend(q, k, v, bias, hidden[:, :, None, None])
    scores = torch.einsum("mbihc,mbjhc->mbhij", q, k) / 2 + (0 if bias is None else bias)
    scores = scores.masked_fill(hidden[:, :, None, None], -torch.inf)
    wanted = torch.einsum("mbhij,mbjhc->mbihc", scores.softmax(-1), v).flatten(3)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "spec", ["rope", "rope:layout=interleaved", "xpos:span=4", "rope:partial=0.5"]
)
def test_rotated_logits_depend_on_the_lag_alone(rng, spec):
    one = load_injection(spec, 7, 8, 1, 0)
    table = torch.as_tensor(one.table())[None]
    cosine, sine = table.chunk(2, dim=2)
    square = cosine**2 + sine**2
    inverse = square[:, :1] / square
    q, k = (torch.as_tensor(x).expand(7, 8)[None, None, :, None] for x in rng.normal(size=(2, 8)))
    cosine, sine, inverse = (x[:, None, :, None] for x in (cosine, sine, inverse))
    turned = attention.turn(q, cosine, sine), attention.turn(k, cosine * inverse, sine * inverse)
    logits = np.einsum("ic,jc->ij", *(x[0, 0, :, 0].numpy() for x in turned))
    for lag in range(-6, 7):
        assert np.ptp(np.diagonal(logits, lag)) < 1e-10
    assert abs(logits[0, 0] - float((q[0, 0, 0, 0] * k[0, 0, 0, 0]).sum())) < 1e-12
    assert len(set(logits[0].round(9))) == 7


def test_xpos_is_turned_as_its_definition_says(rng):
    """zeta^(s - t) before the rotation of pair i, Sun et al., 2022, Eq. 12, by complex numbers."""
    d, span = 4, 4.0
    one = load_injection(f"xpos:span={span}", 6, d, 1, 0)
    q, k = rng.normal(size=(2, d))
    v = torch.eye(6, dtype=torch.float64)[None, None, :, None]
    parts = [torch.as_tensor(x).expand(6, d)[None, None, :, None] for x in (q, k)]
    turned = attention.turn_by_positions(*parts, torch.as_tensor(one.table())[None])
    got = attention.attend(*turned, v, None, None)[0, 0]
    theta, zeta = 10000.0 ** (-2 * np.arange(2) / d), (2 * np.arange(2) / d + 0.4) / 1.4
    pair = (q[:2] + 1j * q[2:]) * np.conj(k[:2] + 1j * k[2:])
    lag = np.arange(6)[:, None] - np.arange(6)
    logits = sum(
        (pair[i] * np.exp(1j * theta[i] * lag)).real * zeta[i] ** (lag / span) for i in (0, 1)
    ) / np.sqrt(d)
    weights = np.exp(logits)
    np.testing.assert_allclose(got, weights / weights.sum(1, keepdims=True), atol=1e-10)


def test_a_gpus_stack_stays_within_what_its_attention_can_index():
    assert attention.most_windows(1, 64, 8) == 2**16 - 1
    elements = attention.most_windows(8, 300, 64) * 8 * 384 * 64
    assert 2**31 - 8 * 384 * 64 < elements <= 2**31
    gpu = torch.device("cuda")
    assert most_members(SIZES, 1024, gpu) == (2**16 - 1) // 1024
    assert most_members(SIZES, 1, gpu) == 256
    wide = model.Transformer(1024, 2, 2, d=512, heads=16)
    assert most_members(wide, 1, gpu) == 4096 // 64  # windows at once in evaluation
    assert most_members(wide, 8192, gpu) == 1
    assert most_members(SIZES, 1024, CPU) == 16


def with_bias(q, k, v, table):
    return attention.attend(q, k, v, attention.bias_of_pairs(table, q.shape[2]), None)


def summed(q, k, v, table):
    """Attention with biases as its sums, whose gradient is torch's own."""
    length = q.shape[2]
    bias = table.unflatten(1, (length, length)).permute(0, 3, 1, 2)[:, None]
    logits = torch.einsum("mbihc,mbjhc->mbhij", q, k) / q.shape[4] ** 0.5 + bias
    return torch.einsum("mbhij,mbjhc->mbihc", logits.softmax(-1), v).flatten(3)


@pytest.mark.parametrize("length", [3, attention.FEW_TOKENS + 1])
def test_biases_and_their_gradient_are_those_of_the_sums(rng, length):
    drawn = [*rng.normal(size=(3, 2, 3, length, 2, 4)), rng.normal(size=(2, length**2, 2))]
    back = torch.as_tensor(rng.normal(size=(2, 3, length, 8)))
    found = []
    for act in (with_bias, summed):
        parts = [torch.tensor(x, requires_grad=True) for x in drawn]
        out = act(*parts)
        (out * back).sum().backward()
        found.append([out.detach(), *(part.grad for part in parts)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)

"""Lags: formulas of the authors, biases of queries and keys, windows, and published modules."""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal

from pefourier.encodings import build, load
from pefourier.encodings.encoding import lags_on
from pefourier.encodings.families.relative import (
    deberta_buckets,
    log_spaced,
    swin2_bias,
    t5_buckets,
)
from pefourier.questions.compare import compare
from pefourier.questions.spectrum import spectrum


@pytest.mark.parametrize(("buckets", "longest"), [(4, 3), (16, 64), (64, 1000)])
def test_t5_buckets_agree_with_whole_numbers(buckets, longest):
    side, exact = buckets // 2, buckets // 4
    for r in range(exact, 2 * longest):
        steps = 0  # largest k with exact (longest / exact)^(k / (side - exact)) <= r
        while steps + exact < side - 1 and exact ** (side - exact - steps - 1) * longest ** (
            steps + 1
        ) <= r ** (side - exact):
            steps += 1
        assert t5_buckets(np.array([-r]), buckets, longest)[0] == exact + steps


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple_is_the_formula_of_its_authors(kernel):
    table = load(f"kerple:kernel={kernel}", length=5, d=400).table()
    stream = np.random.RandomState(0)
    p, a = stream.uniform(0, 2, 400), stream.uniform(0, 1, 400)
    assert p.min() < 0.01 > a.min()  # the range in which the authors clip
    p, a, lag = np.maximum(p, 0.01), np.maximum(a, 0.01), np.abs(np.arange(-4, 5))[:, None]
    expected = -p * np.log(1 + a * lag) if kernel == "log" else -a * lag**p
    assert_allclose(table, expected, atol=1e-14)


def test_tupe_adds_untied_positions_and_buckets():
    length, d, heads = 5, 4, 2
    table = load("tupe:heads=2,scale=0.5", length=length, d=d).table()
    stream = np.random.RandomState(0)
    p, u, v = (stream.normal(0, 0.5, size) for size in ((length, d), (d, d), (d, d)))
    bias = stream.normal(0, 0.5, (32, heads))
    p = [(row - row.mean()) / math.sqrt(row.var() + 1e-5) for row in p]
    for i, head, j in np.ndindex(length, heads, length):
        own = slice(2 * head, 2 * head + 2)
        logit = (p[i] @ u)[own] @ (p[j] @ v)[own] / math.sqrt(2 * 2)
        logit += bias[t5_buckets(np.array([j - i]))[0], head]
        assert table[i, head * length + j] == pytest.approx(logit, abs=1e-14)


def test_fire_is_a_bias_of_lags_up_to_its_threshold():
    at, beyond = (load("fire:threshold=5", n, 3) for n in (6, 7))
    assert (not at.by_lag, not beyond.by_lag) == (False, True)
    lag = np.arange(6) - np.arange(6)[:, None]
    of_lags = np.moveaxis(at.table()[lag + 5], -1, 0)
    assert_allclose(beyond.bias[:, :6, :6], of_lags, atol=1e-14)
    with refusal("depend on more than the lag"):
        beyond.table()
    pairs = beyond.table_of_pairs()
    assert_array_equal(pairs[7 * 2 + 5], beyond.bias[:, 2, 5])


def test_fire_is_the_public_source_code_with_its_weights():
    """The matrix equals DAPE's FIRE with threshold L, computed by torch's functions."""
    n, heads, c, threshold = 30, 3, 0.1, 12.0
    draw, shapes = np.random.RandomState(1).uniform, [(1.0, (1, 32)), (32**-0.5, (32, heads))]
    layers = [(draw(-b, b, shape), draw(-b, b, shape[1])) for b, shape in shapes]
    linear = [torch.nn.Linear(*w.shape, dtype=torch.float64) for w, _ in layers]
    for module, (weights, shifts) in zip(linear, layers, strict=True):
        module.weight.data, module.bias.data = torch.tensor(weights.T), torch.tensor(shifts)
    position = torch.arange(n, dtype=torch.float64)
    distance = torch.tril(position[:, None] - position)
    divisor = torch.maximum(distance.max(dim=-1)[0], torch.tensor(threshold))[:, None]
    share = torch.log(torch.abs(c * distance) + 1) / (torch.log(torch.abs(c * divisor) + 1) + 1e-6)
    mlp = torch.nn.Sequential(linear[0], torch.nn.ReLU(), linear[1])
    expected = mlp(share[..., None]).permute(2, 0, 1).detach().numpy()
    bias = load("fire:threshold=12,seed=1,causal=true", n, heads).bias
    lower = np.tri(n, dtype=bool)
    assert_allclose(bias[:, lower], expected[:, lower], atol=1e-13)
    assert np.isneginf(bias[:, ~lower]).all()


@pytest.mark.parametrize(("attention", "causal"), [("bi", False), ("uni", True)])
@pytest.mark.parametrize("clamp", [0, 4])
def test_xlnets_rows_are_those_of_xl(attention, causal, clamp):
    from transformers.models.xlnet.modeling_xlnet import XLNetModel

    settings = {"d_model": 8, "attn_type": attention, "bi_data": False, "clamp_len": clamp or -1}
    model = SimpleNamespace(**settings, positional_embedding=XLNetModel.positional_embedding)
    rows = XLNetModel.relative_positional_encoding(model, 9, 9)[1:, 0]  # the first row is cut off
    table = build("xl", length=9, d=8, clamp=clamp, causal=causal).table()
    assert_allclose(table, rows.numpy(), atol=1e-6)


def test_xlnets_attention_looks_up_query_minus_key(rng):
    from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention

    enc, q = build("xl", length=5, d=4), rng.normal(size=(5, 4))
    rows = np.vstack([np.zeros(4), enc.table()])  # R of lag 5, which no query uses
    shifted = XLNetRelativeAttention.rel_shift_bnij(torch.tensor(q @ rows.T)[None, None], 5)
    for i, j in np.ndindex(5, 5):
        assert float(shifted[0, 0, i, j]) == pytest.approx(q[i] @ enc.vectors(np.array([j - i]))[0])


def test_clamped_sinusoids_declare_no_frequencies():
    assert build("xl", length=9, d=8, clamp=8).measure
    clamped = build("xl", length=9, d=8, clamp=7)
    assert not clamped.measure
    assert spectrum(clamped).method == "periodogram"
    assert_array_equal(*clamped.vectors(np.array([-7, -8])))


@pytest.mark.parametrize("sizes", [(256, 512), (32, 64), (8, 100), (7, 31)])
def test_buckets_are_those_of_debertas_code(sizes):
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    distance = np.arange(-sizes[1] + 1, sizes[1])
    rows = make_log_bucket_position(torch.tensor(distance), *sizes).long().numpy()
    assert_array_equal(deberta_buckets(distance, *sizes), rows)
    assert all(a <= b for a, b in pairwise(rows))


def test_terms_of_scores_are_a_difference_of_use():
    found = compare(load("deberta", 12, 4), load("deberta:p2c=false", 12, 4))
    assert found.verdict == "used differently"
    assert compare(load("deberta", 12, 4), load("deberta", 12, 4)).verdict == "the same"


GRID, HEADS = (3, 4), 5


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
    assert_allclose(swin2_bias(log_spaced(lags, sides), *weights)[::-1], made, atol=1e-5)

"""Lags: formulas of the authors, biases of queries and keys, windows, and published modules."""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.encoding import lags_on
from pefourier.encodings.families.relative import (
    alibi_slopes,
    deberta_buckets,
    log_spaced,
    swin2_bias,
    t5_buckets,
)
from pefourier.errors import PefourierError
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.compare import compare
from pefourier.questions.context import describe_context
from pefourier.questions.spectrum import spectrum

torch = pytest.importorskip("torch")

EIGHT = [2.0**-i for i in range(1, 9)]
BETWEEN = [2.0 ** -(i + 0.5) for i in range(4)]


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [(1, [2.0**-8]), (6, [*EIGHT[1::2], 0.5, 0.125]), (8, EIGHT), (12, [*EIGHT, *BETWEEN])],
)
def test_alibi_slopes_are_those_of_bloom(heads, slopes):
    np.testing.assert_allclose(alibi_slopes(heads), slopes, rtol=1e-14)
    table = load("alibi", length=5, d=heads).table()
    np.testing.assert_allclose(table, -np.outer(np.abs(np.arange(-4, 5)), slopes), rtol=1e-14)


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


TOLD_APART = [
    ("shaw:clip=5", 6, "injective", 11),  # every lag has a distinct vector
    ("shaw:clip=4", 6, "collides", 9),
    ("alibi", 6, "symmetric in the lag", 6),  # lags to the left and right share a vector
    ("kerple:kernel=power,causal=true", 6, "distinct lags", 6),
    ("t5", 9, "distinct lags", 17),  # distances 0 … 8 have one bucket each
    ("t5", 10, "collides", 17),
    ("t5:causal=true", 18, "collides", 17),
    ("t5:causal=true", 200, "collides", 32),
    ("erpe", 6, "distinct lags", 11),
    ("tupe:heads=2", 6, "invertible", 6),
]


@pytest.mark.parametrize(("spec", "length", "verdict", "distinct"), TOLD_APART)
def test_which_lags_can_be_distinguished(spec, length, verdict, distinct):
    enc = load(spec, length=length, d=4)
    found = check_faithful(enc)
    assert (found.verdict, found.distinct) == (verdict, distinct)
    assert enc.injection == ("key" if spec.startswith("shaw") else "bias")


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple_is_the_formula_of_its_authors(kernel):
    table = load(f"kerple:kernel={kernel}", length=5, d=400).table()
    stream = np.random.RandomState(0)
    p, a = stream.uniform(0, 2, 400), stream.uniform(0, 1, 400)
    assert p.min() < 0.01 > a.min()  # the range in which the authors clip
    p, a, lag = np.maximum(p, 0.01), np.maximum(a, 0.01), np.abs(np.arange(-4, 5))[:, None]
    expected = -p * np.log(1 + a * lag) if kernel == "log" else -a * lag**p
    np.testing.assert_allclose(table, expected, atol=1e-14)


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
    np.testing.assert_allclose(beyond.bias[:, :6, :6], of_lags, atol=1e-14)
    with pytest.raises(PefourierError, match="depend on more than the lag"):
        beyond.table()
    pairs = beyond.table_of_pairs()
    np.testing.assert_array_equal(pairs[7 * 2 + 5], beyond.bias[:, 2, 5])


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
    np.testing.assert_allclose(bias[:, lower], expected[:, lower], atol=1e-13)
    assert np.isneginf(bias[:, ~lower]).all()


@pytest.mark.parametrize(("attention", "causal"), [("bi", False), ("uni", True)])
@pytest.mark.parametrize("clamp", [0, 4])
def test_xlnets_rows_are_those_of_xl(attention, causal, clamp):
    from transformers.models.xlnet.modeling_xlnet import XLNetModel

    settings = {"d_model": 8, "attn_type": attention, "bi_data": False, "clamp_len": clamp or -1}
    model = SimpleNamespace(**settings, positional_embedding=XLNetModel.positional_embedding)
    rows = XLNetModel.relative_positional_encoding(model, 9, 9)[1:, 0]  # the first row is cut off
    table = build("xl", length=9, d=8, clamp=clamp, causal=causal).table()
    np.testing.assert_allclose(table, rows.numpy(), atol=1e-6)


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
    np.testing.assert_array_equal(*clamped.vectors(np.array([-7, -8])))


def test_context_of_relative_sinusoids():
    assert describe_context("xl", 300, d=8)[1].verdict == "any length"
    clamped = describe_context("Transformer-XL:clamp=12", 300, d=8)[1]
    assert (clamped.verdict, clamped.far) == ("limited distance", 12)


@pytest.mark.parametrize("sizes", [(256, 512), (32, 64), (8, 100), (7, 31)])
def test_buckets_are_those_of_debertas_code(sizes):
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    distance = np.arange(-sizes[1] + 1, sizes[1])
    rows = make_log_bucket_position(torch.tensor(distance), *sizes).long().numpy()
    np.testing.assert_array_equal(deberta_buckets(distance, *sizes), rows)
    assert all(a <= b for a, b in pairwise(rows))


def test_the_row_of_a_lag_is_that_of_query_minus_key():
    enc = load("deberta:buckets=4,max=8,scale=1", 20, 3)
    vectors = np.random.RandomState(0).normal(size=(8, 3))  # rows of buckets -4 … 3
    # a key 1 before the query: bucket 1; 5 before: 2 + ceil(ln(5/2) / ln(7/2)) = 3
    expected = vectors[[4 + 1, 4 + 3, 4 - 1, 4 - 3, 4, 7, 0]]
    np.testing.assert_array_equal(enc.vectors(np.array([-1, -5, 1, 5, 0, -19, 19])), expected)
    assert len(np.unique(load("deberta:buckets=0,max=6", 20, 3).table(), axis=0)) == 12


def test_terms_of_scores_are_a_difference_of_use():
    found = compare(load("deberta", 12, 4), load("deberta:p2c=false", 12, 4))
    assert found.verdict == "used differently"
    assert compare(load("deberta", 12, 4), load("deberta", 12, 4)).verdict == "the same"


LAGS_REFUSED = [
    ("xl", 7, "even d"),
    ("xl:divisor=d/2-1", 2, "at least 4"),
    ("deberta:buckets=1", 8, "max_distance above 1; got 1 and 512"),
    ("deberta:buckets=256,max=129", 8, "max_distance above 129; got 256 and 129"),
    ("deberta:buckets=4000000000", 8, "numbers"),
]


@pytest.mark.parametrize(("spec", "d", "words"), LAGS_REFUSED)
def test_parameters_out_of_range_are_refused_in_a_line(spec, d, words):
    with pytest.raises(PefourierError) as error:
        load(spec, 8, d)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


GRID, HEADS = (3, 4), 5


def biases_by_pairs(enc, rows=0):
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
    np.testing.assert_allclose(biases_by_pairs(enc), made, atol=1e-8)


def test_beit_is_the_module_of_transformers():
    beit = pytest.importorskip("transformers.models.beit.modeling_beit")
    enc = build("beit", d=HEADS, grid=GRID, seed=3)
    config = beit.BeitConfig(image_size=GRID, patch_size=1, num_attention_heads=HEADS)
    module = beit.BeitRelativePositionBias(config)
    rows = np.vstack([authors_table(enc, 3), enc.table()[:3]])
    made = torch.tensor(rows)[module.generate_relative_position_index(GRID)].numpy()
    np.testing.assert_array_equal(biases_by_pairs(enc, 3), made[1:, 1:])
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

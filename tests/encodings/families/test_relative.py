"""Codes of lags: published slopes and buckets, formulas of the authors, and which lags are one."""

import math

import numpy as np
import pytest
from refusal import refused

from pefourier.encodings import load
from pefourier.encodings.families.relative import alibi_slopes, t5_buckets
from pefourier.questions.faithful import assess


def test_alibi_slopes_are_those_of_bloom():
    eight = [2.0**-i for i in range(1, 9)]
    assert np.array_equal(alibi_slopes(8), eight)
    assert np.array_equal(alibi_slopes(6), [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125])
    twelve = [*eight, 0.707107, 0.353553, 0.176777, 0.088388]
    assert np.abs(alibi_slopes(12) - twelve).max() < 5e-7
    assert np.abs(alibi_slopes(40)[:4] - [0.840896, 0.707107, 0.594604, 0.5]).max() < 5e-7
    assert len(alibi_slopes(40)) == 40
    assert np.array_equal(alibi_slopes(1), [2.0**-8])


TWO_SIDED = [*range(9), 12, 16, 23, 32, 46, 64, 91]  # distance at which buckets 0 … 15 start
CAUSAL = [*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]


def test_t5_buckets_start_where_transformers_has_them():
    lag = np.arange(-3000, 3001)
    two_sided = np.searchsorted(TWO_SIDED, np.abs(lag), side="right") - 1
    assert np.array_equal(t5_buckets(lag), two_sided + 16 * (lag > 0))
    causal = np.searchsorted(CAUSAL, np.maximum(-lag, 0), side="right") - 1
    assert np.array_equal(t5_buckets(lag, causal=True), causal)


@pytest.mark.parametrize(("buckets", "longest"), [(4, 3), (16, 64), (32, 128), (64, 1000)])
def test_t5_buckets_agree_with_whole_numbers(buckets, longest):
    side, exact = buckets // 2, buckets // 4
    for r in range(exact, 2 * longest):
        steps = 0  # largest k with exact (longest / exact)^(k / (side - exact)) <= r
        while steps + exact < side - 1 and exact ** (side - exact - steps - 1) * longest ** (
            steps + 1
        ) <= r ** (side - exact):
            steps += 1
        assert t5_buckets(np.array([-r]), buckets, longest)[0] == exact + steps


def test_t5_numbers_that_cannot_be_are_refused():
    rule = "buckets must be an even number from 4 on, or 2 or more if causal; got"
    refused(f"{rule} 7", "t5:buckets=7")
    refused(f"{rule} 2", "tupe:buckets=2")
    refused(
        "max_distance must be above 8, the distances that have a bucket of their own; got 8",
        "t5:max_distance=8",
    )


@pytest.mark.parametrize(
    ("spec", "length", "verdict", "distinct"),
    [
        ("shaw:clip=5", 6, "injective", 11),  # every lag has its vector
        ("shaw:clip=4", 6, "collides", 9),
        ("shaw:clip=4,causal=true", 6, "collides", 5),
        ("alibi", 6, "collides", 6),  # left and right are one
        ("alibi:causal=true", 6, "injective", 6),
        ("kerple", 6, "collides", 6),
        ("kerple:kernel=power,causal=true", 6, "injective", 6),
        ("t5", 9, "injective", 17),  # distances 0 … 8 have a bucket each
        ("t5", 10, "collides", 17),
        ("t5", 200, "collides", 31),
        ("t5:causal=true", 18, "collides", 17),
        ("t5:causal=true", 200, "collides", 32),
        ("erpe", 6, "injective", 11),
        ("tupe:heads=2", 6, "invertible", 6),
    ],
)
def test_which_lags_can_be_told_apart(spec, length, verdict, distinct):
    found = assess(load(spec, length=length, d=4))
    assert (found.verdict, found.distinct) == (verdict, distinct)


def test_shaw_clips_the_lag_of_the_key():
    table = load("shaw:clip=2", length=5, d=3).table()  # lags -4 … 4
    vectors = np.random.RandomState(0).uniform(-np.sqrt(0.75), np.sqrt(0.75), (5, 3))
    assert np.array_equal(table, vectors[[0, 0, 0, 1, 2, 3, 4, 4, 4]])
    assert load("shaw").act == "key"
    refused("clip must be a whole number from 0 on; got -1", "shaw:clip=-1")
    assert load("t5").act == load("tupe").act == "bias"


def test_alibi_is_a_low_pass_filter_of_the_width_of_its_slope():
    enc = load("alibi", length=4096, d=8)
    weights = np.exp(enc.table()[:, 0])  # slope 1/2: the factor on attention before softmax
    omega, a = 0.7, math.exp(-0.5)
    closed = (1 - a**2) / (1 - 2 * a * math.cos(omega) + a**2)
    assert abs(closed - 1.436379841675) < 1e-12
    assert abs(weights @ np.cos(omega * enc.domain.x) - closed) < 1e-12


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_kerple_is_the_formula_of_its_authors(kernel):
    table = load(f"kerple:kernel={kernel}", length=5, d=400).table()
    stream = np.random.RandomState(0)
    p, a = stream.uniform(0, 2, 400), stream.uniform(0, 1, 400)
    assert p.min() < 0.01 > a.min()  # where the authors clip
    for row, lag in zip(table, range(-4, 5), strict=True):
        for j in range(400):
            slope, exponent = max(a[j], 0.01), max(p[j], 0.01)
            log = -exponent * math.log(1 + slope * abs(lag))
            expected = log if kernel == "log" else -slope * abs(lag) ** exponent
            assert abs(row[j] - expected) < 1e-14


def test_tupe_adds_untied_positions_and_buckets():
    length, d, heads = 5, 4, 2
    table = load("tupe:heads=2,scale=0.5", length=length, d=d).table()
    stream = np.random.RandomState(0)
    p, u, v = (stream.normal(0, 0.5, size) for size in ((length, d), (d, d), (d, d)))
    bias = stream.normal(0, 0.5, (32, heads))
    p = [(row - row.mean()) / math.sqrt(row.var() + 1e-5) for row in p]
    for i in range(length):
        for head in range(heads):
            own = slice(2 * head, 2 * head + 2)
            for j in range(length):
                logit = (p[i] @ u)[own] @ (p[j] @ v)[own] / math.sqrt(2 * 2)
                logit += bias[t5_buckets(np.array([j - i]))[0], head]
                assert abs(table[i, head * length + j] - logit) < 1e-14


def test_tupe_gives_a_classification_token_its_own_biases():
    plain = load("tupe:heads=2", length=4, d=4).table().reshape(4, 2, 4)
    untied = load("tupe:heads=2,cls=true", length=4, d=4).table().reshape(4, 2, 4)
    assert np.array_equal(untied[1:, :, 1:], plain[1:, :, 1:])
    for head in range(2):
        assert len(np.unique(untied[0, head])) == 1
        assert len(np.unique(untied[1:, head, 0])) == 1
    assert untied[0, 0, 0] != untied[1, 0, 0]


def test_tupe_needs_a_whole_head():
    refused("tupe cuts d into heads and needs a multiple of heads=3; got d=8", "tupe:heads=3", d=8)

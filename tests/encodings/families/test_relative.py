"""Vectors of lags: published slopes and buckets, authors' formulas, and equal lags."""

import math

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.families.relative import alibi_slopes, t5_buckets
from pefourier.questions.check_faithful import check_faithful

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

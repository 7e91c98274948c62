"""Attention biases by head: matrices, lags, slopes and buckets from arrays, files and functions."""

from dataclasses import replace

import numpy as np
import pytest

import pefourier
from pefourier.encodings import load
from pefourier.encodings.encoding import as_encoding, from_bias
from pefourier.encodings.families.relative import alibi_slopes
from pefourier.questions.compare import compare

N = 40
LAG = np.arange(N) - np.arange(N)[:, None]


def matrix(slopes, n=N):
    lag = np.arange(n) - np.arange(n)[:, None]
    return np.asarray(slopes)[:, None, None] * np.minimum(lag, 0).astype(np.float32)


def codes_of(found):
    return [one.code for one in found.findings]


FORMS = ["matrix", "masked", "lags", "rows", "distances", "function"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heads", [6, 12])
@pytest.mark.parametrize("rule", [alibi_slopes, lambda h: 2.0 ** (-8 * np.arange(1, h + 1) / h)])
def test_slopes_are_compared_head_by_head(rule, heads, form):
    right, slopes = alibi_slopes(heads), rule(heads)
    bias = matrix(slopes)
    table = {
        "matrix": bias,
        "masked": np.where(LAG > 0, -np.inf, bias),
        "lags": bias[:, -1],
        "rows": bias[:, -1].T,
        "distances": bias[:, -1, ::-1],
        "function": lambda _length, _d: bias,
    }[form]
    size = {"length": N, "d": heads} if form == "function" else {}  # otherwise that of the table
    found = pefourier.compare("alibi:causal=true", table, **size)
    differs = np.flatnonzero(~np.isclose(slopes, right, rtol=1e-4))
    assert [head.index for head in found.heads] == differs.tolist()
    assert found.verdict == ("different" if len(differs) else "the same")
    for head in found.heads:
        one, two = right[head.index], slopes[head.index]
        reported = (head.first, head.second, head.ratio)
        assert reported == pytest.approx((one, two, two / one), rel=1e-4)
    assert [one.code for one in found.causes] == ["slopes"] * bool(len(differs))


def test_only_constants_of_queries_are_ignored():
    bias, rng = matrix(alibi_slopes(4)), np.random.default_rng(0)
    row = alibi_slopes(4)[:, None, None] * np.arange(1 - N, 1)  # equal for all queries
    for other in (np.broadcast_to(row, bias.shape), bias + rng.normal(size=(4, N, 1))):
        masked = [np.where(LAG > 0, -np.inf, x) for x in (bias, other)]
        found = compare(*masked)
        assert (found.same, codes_of(found)) == (True, ["constant-for-each-query"])
    two_sided = -alibi_slopes(4)[:, None, None] * -LAG
    assert compare(two_sided, np.broadcast_to(row, bias.shape)).same


@pytest.mark.parametrize("name", ["alibi", "kerple"])
@pytest.mark.parametrize("factor", [1e3, 1e6, 1e30])
def test_steep_biases_are_not_read_as_masks(name, factor):
    """A bias times 1e6 was equal to the bias, since its numbers hid all keys but one."""
    enc = load(name, 40, 4)
    steep = replace(enc, vectors=lambda x: factor * enc.vectors(x))
    found = compare(enc, steep)
    assert found.verdict == "different"
    assert found.max_difference == pytest.approx((factor - 1) * np.abs(enc.table()).max(), rel=1e-6)


@pytest.mark.parametrize("mask", [-np.inf, -1e9])
def test_keys_before_the_query_that_one_bias_hides_are_a_difference(mask):
    matrix = -np.abs(np.subtract.outer(np.arange(12), np.arange(12)))[None].astype(float)
    window = np.where(matrix < -4, mask, matrix)
    assert compare(from_bias(matrix), from_bias(window)).verdict == "different"
    future = np.where(np.tri(12, dtype=bool), matrix, mask)
    assert compare(from_bias(matrix), from_bias(future)).verdict == "the same"


@pytest.mark.parametrize("clips", [(8, 4), (20, 10), (16, 15), (1, 30)])
def test_the_clip_of_shaw_is_reported(clips):
    values = np.random.default_rng(2).normal(size=(2 * 30 + 1, 3))
    one, two = (np.moveaxis(values[np.clip(LAG, -c, c) + 30], -1, 0) for c in clips)
    (cause,) = compare(one, two).causes
    assert (cause.rule.clip, cause.instead_of.clip) == ((clips[1],) * 2, (clips[0],) * 2)


def test_square_matrices_of_one_head_are_biases():
    found = compare(matrix([0.5])[0], matrix([0.25])[0])
    assert (found.unit, found.heads[0].ratio) == ("heads", pytest.approx(0.5))
    for name in ("onehot", "dft", "learned"):
        assert compare(load(name, 16, 16), load(name, 16, 16).table()).unit == "columns"
    found = compare(as_encoding(matrix([0.5])[0]), as_encoding(matrix(alibi_slopes(4))))
    assert (found.verdict, found.unit, found.dimensions) == ("different", "heads", (1, 4))


@pytest.mark.parametrize(("tolerance", "verdict"), [(0.02, "the same"), (0.005, "different")])
def test_a_given_tolerance_holds_for_biases(tolerance, verdict):
    bias = matrix(alibi_slopes(4))
    other = bias.copy()
    other[0, 5, 3] += 0.01
    assert compare(bias, other, tolerance=tolerance).verdict == verdict

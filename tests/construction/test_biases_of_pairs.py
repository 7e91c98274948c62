"""Answers of check-faithful and context about biases that depend on the query."""

import math

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.encoding import from_bias
from pefourier.errors import PefourierError
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.context import describe_context
from pefourier.questions.relations import relate
from pefourier.questions.spectrum import spectrum

N = 24
TRI = np.tri(N, dtype=bool)


def free(seed=0, heads=3):
    return np.random.default_rng(seed).normal(size=(heads, N, N))


def test_the_query_described_has_the_most_keys_that_share_biases():
    bias = free()
    bias[:, 7, 3:6] = bias[:, 7, 2:3]  # four keys of query 7 share one bias
    bias[:, 15, 3] = bias[:, 15, 2]
    answer = check_faithful(from_bias(bias))
    assert (answer.query, answer.distinct, answer.length) == (7, N - 3, N)
    assert (answer.verdict, answer.faithful, answer.advice) == ("collides", False, "")
    assert answer.closest_pair is not None
    assert set(answer.closest_pair) <= {-5, -4, -3, -2}  # lags of keys 2 … 5
    assert "bias-of-pairs" in [note.code for note in answer.findings]


@pytest.mark.parametrize("causal", [False, True])
def test_distances_are_those_of_the_last_query_where_all_keys_are_distinct(causal):
    bias = np.where(TRI, free(), -np.inf) if causal else free()
    answer = check_faithful(from_bias(bias))
    keys = bias[:, -1].T
    nearest = min(math.dist(keys[i], keys[j]) for i in range(N) for j in range(i))
    assert (answer.query, answer.verdict, answer.distinct) == (N - 1, "distinct lags", N)
    assert answer.min_distance == pytest.approx(nearest)
    assert answer.rank == np.linalg.matrix_rank(keys)


@pytest.mark.parametrize("n", [N, N + 1])
def test_symmetric_biases_of_pairs_are_symmetric(n):
    answer = check_faithful(load("fire:threshold=5", n, 4))
    assert (answer.verdict, answer.query) == ("symmetric in the lag", n // 2)
    assert answer.distinct == n // 2 + 1
    one_sided = check_faithful(load("fire:threshold=5,causal=true", n, 4))
    assert (one_sided.verdict, one_sided.query, one_sided.distinct) == ("distinct lags", n - 1, n)
    assert check_faithful(load("fire", n, 4)).query is None


def test_masks_other_than_causal_are_refused():
    window = np.abs(np.arange(N) - np.arange(N)[:, None]) < 5
    with pytest.raises(PefourierError, match="holds -inf, a mask"):
        check_faithful(from_bias(np.where(window, free(), -np.inf)))


@pytest.mark.parametrize("question", [spectrum, relate, lambda enc: enc.table()])
@pytest.mark.parametrize("source", ["file", "fire:threshold=5"])
def test_questions_about_lags_refuse_biases_of_pairs(question, source):
    enc = from_bias(free()) if source == "file" else load(source, N, 4)
    with pytest.raises(PefourierError, match="depend on more than the lag: use check-faithful"):
        question(enc)


@pytest.mark.parametrize("spec", ["sandwich", "kerple", "fire"])
def test_formulas_of_biases_reach_any_length(spec):
    _, found = describe_context(spec, 131072, d=4)
    assert (found.verdict, found.length) == ("any length", 131072)
    expected = ["distances-interpolated"] if spec == "fire" else []
    assert [f.code for f in found.findings] == expected

"""No two messages of one answer contradict each other."""

import numpy as np
import pytest
from claims import draws, faithful, findings

EXCLUSIVE = [  # sets of finding codes of which an answer has at most one
    {"grid-transposed", "row-order", "prefix-shift", "neighbours-elsewhere", "flat-index"},
    {"zero-codes", "constant-codes", "dead-columns", "random-codes"},
    {"clipped-index", "duplicate-rows", "repeating-codes", "positions-divided", "rows-of-lags"},
    {"reversed-positions", "negative-positions"},
    {"axis-missing", "axis-duplicated", "points-repeat"},
    {"random-codes", "low-rank"},
    {"divisor", "irregular-frequencies"},
]
SHARED = {  # finding codes about equal rows
    *("clipped-index", "duplicate-rows", "repeating-codes", "positions-divided", "rows-of-lags"),
    *("zero-codes", "constant-codes", "ends-coincide", "axis-missing", "axis-duplicated"),
    "points-repeat",
}
APART = {"near-duplicates", "random-codes"}  # finding codes about distinct rows


@pytest.mark.parametrize("question", [faithful, findings])
def test_no_two_messages_contradict_each_other(question):
    for label, answer, _ in draws(question, np.random.default_rng(5), 90):
        vectors = {finding.code for finding in answer.findings}
        assert all(len(vectors & exclusive) <= 1 for exclusive in EXCLUSIVE), (label, vectors)
        collides = answer.verdict in ("collides", "constant", "symmetric in the lag")
        assert not vectors & (APART if collides else SHARED), (label, answer.verdict, vectors)

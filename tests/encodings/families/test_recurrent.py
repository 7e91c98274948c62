"""Recurrent states: the equations of a gated recurrent unit, and where they arrive."""

import math

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.questions.faithful import assess


def test_recurrent_states_are_those_of_a_gru():
    d, bound = 3, 3**-0.5
    stream = np.random.RandomState(1)
    w, u = stream.uniform(-bound, bound, (3, d)), stream.uniform(-bound, bound, (3, d, d))
    b, c = stream.uniform(-bound, bound, (3, d)), stream.uniform(-bound, bound, (3, d))
    h = [0.0] * d
    for row in load("recurrent", length=6, d=d, seed=1).table():
        recalled = [
            [sum(u[g, i, j] * h[j] for j in range(d)) + c[g, i] for i in range(d)] for g in range(3)
        ]
        new = []
        for i in range(d):
            r, z = (1 / (1 + math.exp(-(w[g, i] + b[g, i] + recalled[g][i]))) for g in (0, 1))
            n = math.tanh(w[2, i] + b[2, i] + r * recalled[2][i])
            new.append((1 - z) * n + z * h[i])
        h = new
        assert np.abs(row - h).max() < 1e-14


@pytest.mark.parametrize(("length", "verdict"), [(30, "injective"), (300, "collides")])
def test_a_recurrent_state_forgets_the_position_when_it_has_arrived(length, verdict):
    found = assess(load("recurrent", length=length, d=64))
    assert found.verdict == verdict
    table = load("recurrent", length=300, d=64).table()
    assert 60 < len(np.unique(table, axis=0)) < 80
    assert 0 < np.abs(table[-1] - table[50]).max() < 1e-9

"""Vectors of trees (branches from a node to the root) and states of a recurrent unit."""

import math

import numpy as np
import pytest

from pefourier.encodings import load


def test_tree_vectors_are_the_branches_to_the_root():
    # root with children 1, 2; node 1 with 3, 4; node 4 with 5 (microsoft/icecaps, util/trees.py)
    table = load("tree:parents=-1;0;0;1;1;4,p=0.5", d=6).table()
    left, right, none = [1, 0], [0, 1], [0, 0]
    paths = [
        [none, none, none],
        [left, none, none],
        [right, none, none],
        [left, left, none],
        [right, left, none],
        [left, right, left],
    ]
    weights = math.sqrt((1 - 0.25) * 6 / 2) * np.array([1, 0.5, 0.25])[:, None]
    expected = [(np.array(path) * weights).ravel() for path in paths]
    np.testing.assert_allclose(table, expected, atol=1e-15)


def test_several_decays_stand_side_by_side():
    table = load("tree:parents=-1;0;1,p=0.5;-0.6", d=9).table()  # two steps of 2 x 2, one left
    first, second = math.sqrt(0.75 * 4.5), math.sqrt(0.64 * 4.5)
    expected = [first, second, 0, 0, 0.5 * first, -0.6 * second, 0, 0, 0]
    np.testing.assert_allclose(table[2], expected, atol=1e-15)


def test_recurrent_states_are_those_of_torch():
    torch = pytest.importorskip("torch")
    d, bound = 3, 3**-0.5
    stream = np.random.RandomState(1)
    w, u = stream.uniform(-bound, bound, 3 * d), stream.uniform(-bound, bound, (3 * d, d))
    b, c = stream.uniform(-bound, bound, (2, 3 * d))
    unit = torch.nn.GRU(1, d, dtype=torch.float64)
    for own, numbers in zip(unit.parameters(), (w[:, None], u, b, c), strict=True):
        own.data = torch.from_numpy(numbers)
    states = unit(torch.ones(6, 1, dtype=torch.float64))[0].detach().numpy()
    np.testing.assert_allclose(load("recurrent", length=6, d=d, seed=1).table(), states, atol=1e-14)

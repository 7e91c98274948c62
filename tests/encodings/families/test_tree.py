"""Codes of trees: the branches from a node to the root."""

import math

import numpy as np
import pytest
from refusal import refused

from pefourier.encodings import load
from pefourier.questions.faithful import assess


def test_tree_codes_are_the_branches_to_the_root():
    # root with children 1, 2; node 1 with 3, 4; node 4 with 5 (microsoft/icecaps, util/trees.py)
    table = load("tree:parents=-1;0;0;1;1;4,p=0.5", d=6).table()
    unit = math.sqrt((1 - 0.25) * 6 / 2)
    left, right, none = [1, 0], [0, 1], [0, 0]
    paths = [
        [none, none, none],
        [left, none, none],
        [right, none, none],
        [left, left, none],
        [right, left, none],
        [left, right, left],
    ]
    weights = unit * np.array([1, 0.5, 0.25])[:, None]
    assert np.allclose(table, [(np.array(path) * weights).ravel() for path in paths], atol=1e-15)


def test_several_decays_stand_side_by_side():
    table = load(
        "tree:parents=-1;0;1,p=0.5;-0.6", d=9
    ).table()  # two steps of 2 x 2, one column over
    first, second = math.sqrt(0.75 * 4.5), math.sqrt(0.64 * 4.5)
    expected = [first, second, 0, 0, 0.5 * first, -0.6 * second, 0, 0, 0]
    assert np.allclose(table[2], expected, atol=1e-15)


def test_without_parents_the_tree_is_complete():
    complete = load("tree", length=7, d=8)
    given = load("tree:parents=-1;0;0;1;1;2;2", length=80, d=8)
    assert np.array_equal(complete.table(), given.table())
    assert given.params["length"] == 7
    assert np.array_equal(complete.domain.omega, given.domain.omega)


@pytest.mark.parametrize(("d", "verdict"), [(4, "collides"), (8, "injective")])
def test_steps_beyond_the_columns_are_forgotten(d, verdict):
    assert assess(load("tree", length=15, d=d)).verdict == verdict


def test_a_tree_that_cannot_be_is_refused():
    refused("node 0 has 3 children and width is 2; set width=3", "tree:parents=-1;0;0;0")
    refused(
        "one step of a tree of width 4 with 2 p takes 8 columns; got d=6",
        "tree:width=4,p=0.5;0.6",
        d=6,
    )
    refused("p must be one or more numbers between -1 and 1; got (1.0,)", "tree:p=1")
    refused("width must be a whole number from 1 on; got 0", "tree:width=0")

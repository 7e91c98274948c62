"""Orders of columns: names, tables and permutations agree."""

import itertools

import numpy as np
import pytest

from pefourier.encodings.encoding import (
    CHANGES,
    changes_by_name,
    exchanged,
    orders,
    split_pairs,
    waves,
)

ORDERS = list(itertools.product(("interleaved", "halves"), ("sin", "cos")))


@pytest.fixture
def phases(rng):
    return rng.normal(size=(5, 4))


def reference(phases, d):
    """Return interleaved columns, sines first, written number by number."""
    table = np.zeros((len(phases), d))
    for s, j in np.ndindex(len(phases), min(d, 2 * phases.shape[1])):
        table[s, j] = (np.sin, np.cos)[j % 2](phases[s, j // 2])
    return table


@pytest.mark.parametrize("d", [7, 8, 9])
@pytest.mark.parametrize(("layout", "first"), ORDERS)
def test_waves_stand_as_their_order_says(phases, layout, first, d):
    """An odd number of columns ends in a sine; columns after the pairs are zero."""
    if d == 7 and first == "cos":
        return
    order = [*orders(min(d, 8))[layout, first], *range(8, d)]
    table = waves(phases, layout, first, d=d)
    np.testing.assert_array_equal(table, reference(phases, d)[:, order])
    if d != 7:
        other = "cos" if first == "sin" else "sin"
        np.testing.assert_array_equal(exchanged(table, layout), waves(phases, layout, other, d=d))
        parts = [np.sin(phases), np.cos(phases)][:: 1 if first == "sin" else -1]
        np.testing.assert_array_equal(split_pairs(table, layout), parts)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_leads_from_one_order_to_the_other(phases, name):
    old, new = (waves(phases, *order) for order in CHANGES[name])
    np.testing.assert_array_equal(old[:, changes_by_name(8)[name]], new)

"""Orders of columns: names, tables and the ways between them say the same."""

import itertools

import numpy as np
import pytest

from pefourier.encodings.columns import (
    CHANGES,
    changes_by_name,
    exchanged,
    orders,
    pair_columns,
    split_pairs,
    waves,
)

ORDERS = list(itertools.product(("interleaved", "halves"), ("sin", "cos")))


@pytest.fixture
def phases(rng):
    return rng.normal(size=(5, 4))


def reference(phases, d=8):
    """Interleaved, sines first, written number by number."""
    table = np.zeros((len(phases), d))
    for s, j in np.ndindex(table.shape):
        table[s, j] = (np.sin, np.cos)[j % 2](phases[s, j // 2])
    return table


@pytest.mark.parametrize(("layout", "first"), ORDERS)
def test_waves_stand_as_their_order_says(phases, layout, first):
    order = orders(8)[layout, first]
    np.testing.assert_array_equal(waves(phases, layout, first), reference(phases)[:, order])


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_the_last_sine_of_an_odd_number_of_columns_has_no_cosine(phases, layout):
    order = orders(7)[layout, "sin"]
    np.testing.assert_array_equal(waves(phases, layout, d=7), reference(phases, 7)[:, order])


@pytest.mark.parametrize(("layout", "first"), ORDERS)
def test_columns_beyond_the_pairs_are_zero(phases, layout, first):
    table = waves(phases, layout, first, d=9)
    np.testing.assert_array_equal(table[:, :8], waves(phases, layout, first))
    assert not table[:, 8].any()


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_pairs_are_parted_and_exchanged(phases, layout):
    table = waves(phases, layout)
    sines, cosines = split_pairs(table, layout)
    np.testing.assert_array_equal(sines, np.sin(phases))
    np.testing.assert_array_equal(cosines, np.cos(phases))
    np.testing.assert_array_equal(exchanged(table, layout), waves(phases, layout, "cos"))
    np.testing.assert_array_equal(
        exchanged(waves(phases, layout, d=9), layout), waves(phases, layout, "cos", d=9)
    )
    first, second = pair_columns(layout, 4)
    assert sorted([*range(8)[first], *range(8)[second]]) == list(range(8))


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_leads_from_one_order_to_the_other(phases, name):
    old, new = (waves(phases, *order) for order in CHANGES[name])
    np.testing.assert_array_equal(old[:, changes_by_name(8)[name]], new)


@pytest.mark.parametrize("d", [1, 2, 5, 6])
def test_every_order_and_change_is_a_permutation(d):
    for columns in [*orders(d).values(), *changes_by_name(d).values()]:
        assert sorted(columns) == list(range(d))
    assert (("interleaved", "cos") in orders(d)) == (d % 2 == 0)

"""Generated tasks: their content, and how their classes depend on positions."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pefourier.train.data import synthetic
from pefourier.train.data.load import load_task
from pefourier.train.options import SYNTHETIC


@pytest.mark.parametrize("name", [*SYNTHETIC, "order:noise=0.5,length=9,count=40"])
def test_synthetic_classes_hold_the_same_rows_in_another_order(name):
    x, y, classes, *_ = synthetic.draw_examples(name)
    quiet = synthetic.draw_examples(name.split(":")[0] + ":noise=0")
    sums = [quiet[0][quiet[1] == c].sum(axis=(1, 2)) for c in (0, 1)]
    assert {2.0} == set(sums[0]) == set(sums[1])
    assert abs(int((y == 0).sum()) - int((y == 1).sum())) <= 1
    assert (len(classes), x.ndim) == (2, 3)
    if "noise" in name:
        assert np.std(x[x < 0.1]) > 0.2


def places(name, sides):
    """Return the places (n, axes) of the marks in channels 0 and 1, and the classes."""
    x, y, _ = synthetic.draw_examples(name)
    marks = (x[:, :, channel].argmax(axis=1) for channel in (0, 1))
    return *(np.stack(np.unravel_index(mark, sides), 1) for mark in marks), y


def test_the_class_is_which_event_is_first_or_how_far_two_are_apart_on_a_ring():
    first, second, y = places("order:noise=0,length=9", (9,))
    assert_array_equal(y, first[:, 0] > second[:, 0])
    assert min(np.bincount(first[:, 0], minlength=9)) > 60
    x, y, _ = synthetic.draw_examples("lags:noise=0,length=10,short=2,long=5")
    events = np.array([np.flatnonzero(row) for row in x[:, :, 0]])
    lag = np.diff(events)[:, 0]
    assert_array_equal(np.minimum(lag, 10 - lag), np.where(y, 5, 2))
    assert min(np.bincount(events.ravel(), minlength=10)) > 150


@pytest.mark.parametrize(
    ("name", "sides", "gap"),
    [("grid:noise=0", (5, 7), 1), ("grid:noise=0,height=3,width=9,gap=4,seed=5", (3, 9), 4)],
)
def test_the_class_of_a_grid_is_which_mark_is_left(name, sides, gap):
    a, b, y = places(f"{name},count=20000", sides)
    assert_array_equal(y, a[:, 1] > b[:, 1])
    assert np.abs(a[:, 1] - b[:, 1]).min() == gap
    assert abs(((a[:, 0] < b[:, 0]) == y).mean() - 0.5) < 0.2  # rows do not determine the class
    for mark in (a, b):
        rows = np.bincount(mark[:, 0], minlength=sides[0])
        assert rows.min() > 0.9 * rows.mean()
    task = load_task(name)
    assert (task.grid, task.length) == (sides, sides[0] * sides[1])
    assert load_task("order:count=40").grid == ()

"""The task on a grid and the digits: what they hold, and what they ask of positions."""

import sys

import numpy as np
import pytest

from pefourier.errors import PefourierError
from pefourier.train.data.load import load_task
from pefourier.train.data.synthetic import draw_examples, sides_of_task


def marks(name):
    """Rows and columns (n, 2) of mark A and of mark B, and the class of each example."""
    x, y, _ = draw_examples(name)
    sides = sides_of_task(name)
    places = [np.stack(np.unravel_index(x[:, :, c].argmax(axis=1), sides), 1) for c in (0, 1)]
    return *places, y


@pytest.mark.parametrize("name", ["grid:noise=0", "grid:noise=0,height=3,width=9,gap=4,seed=5"])
def test_the_class_is_which_mark_is_left(name):
    a, b, y = marks(name)
    np.testing.assert_array_equal(y, a[:, 1] > b[:, 1])
    gap = 4 if "gap" in name else 1
    assert np.abs(a[:, 1] - b[:, 1]).min() == gap
    assert abs(y.mean() - 0.5) < 0.01


def test_rows_and_the_place_in_the_sequence_do_not_tell():
    a, b, y = marks("grid:noise=0,count=20000")
    above = (a[:, 0] < b[:, 0]) == y
    assert abs(above.mean() - 0.5) < 0.1
    first = (a @ [7, 1] > b @ [7, 1]) == y
    assert 0.5 < first.mean() < 0.7  # only where both are in one row


def test_each_class_has_its_marks_everywhere():
    a, b, _ = marks("grid:noise=0,count=20000")
    for mark in (a, b):
        rows = np.bincount(mark[:, 0], minlength=5)
        assert rows.min() > 0.9 * rows.mean()


def test_tasks_say_their_grid():
    task = load_task("grid:count=40,height=3,width=4")
    assert (task.grid, task.length) == ((3, 4), 12)
    assert load_task("order:count=40").grid == ()


@pytest.mark.parametrize(
    "text", ["gap=7", "gap=0", "height=0", "width=1", "count=999999,height=99"]
)
def test_a_grid_that_is_none_is_refused(text):
    with pytest.raises(PefourierError, match="grid needs height of at least 1, 0 < gap < width"):
        draw_examples(f"grid:{text}")


def test_digits_are_eight_by_eight():
    pytest.importorskip("sklearn")
    task = load_task("digits")
    assert (task.grid, task.length, len(task.starts)) == ((8, 8), 64, 1797)
    assert task.classes == tuple("0123456789")
    assert (task.rows.min(), task.rows.max()) == (0, 1)


def test_digits_want_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(PefourierError, match=r"pip install 'pefourier\[digits\]'"):
        load_task("digits")

"""Tasks that are made up."""

import pytest

from pefourier.train.data import SYNTHETIC, synthetic


@pytest.mark.parametrize("name", [*SYNTHETIC, "order:noise=0.5,length=9,count=40"])
def test_synthetic_classes_hold_the_same_rows_in_another_order(name):
    x, y, classes = synthetic.draw_examples(name)
    quiet = synthetic.draw_examples(name.split(":")[0] + ":noise=0")
    sums = [quiet[0][quiet[1] == c].sum(axis=(1, 2)) for c in (0, 1)]
    assert {2.0} == set(sums[0]) == set(sums[1])
    assert abs(int((y == 0).sum()) - int((y == 1).sum())) <= 1
    assert len(classes) == 2
    assert x.ndim == 3

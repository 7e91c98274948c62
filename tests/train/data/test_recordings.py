"""Rows and labels of recordings."""

import numpy as np
import pytest

from pefourier.errors import PefourierError
from pefourier.train.data import recordings


def test_labels_of_rows_are_numbers(rng):
    with pytest.raises(PefourierError, match="label of a row must be 0 or 1; got 'a'"):
        recordings.truth_values("x", rng.normal(size=(4, 1)), np.array(["a", "b", "a", "b"]))

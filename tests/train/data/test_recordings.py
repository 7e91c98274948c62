"""Rows and labels of recordings."""

import numpy as np
import pytest

from pefourier.errors import PefourierError
from pefourier.train.data import recordings


def test_labels_of_rows_are_numbers(rng):
    with pytest.raises(PefourierError, match="label of a row must be 0 or 1; got 'a'"):
        recordings.truth_values("x", rng.normal(size=(4, 1)), np.array(["a", "b", "a", "b"]))


@pytest.mark.parametrize("kind", ["f2", ">f2", "f4", "f8", "g", "i1", "u8", "?"])
def test_rows_of_every_type_of_numbers_are_looked_at(kind):
    recordings.check_rows("x", np.array([[1, 0], [0, 1]], kind))
    if np.dtype(kind).kind == "f":
        for value in (np.nan, np.inf, -np.inf):
            with pytest.raises(PefourierError, match=f"^x: row 1, column 0 is {value}; fill missi"):
                recordings.check_rows("x", np.array([[1, 0], [value, 1]], kind))


def test_recordings_are_scaled_in_blocks_as_they_are_at_once(rng, monkeypatch):
    train, test = rng.normal(size=(50, 3)) * 9, rng.normal(size=(1000, 3)).astype(np.float32)
    label = np.zeros(1000)
    whole = recordings.scale_recording("x", (train, test, label), 0.01, "x", "x")
    monkeypatch.setattr(recordings, "BLOCK", 100)
    parts = recordings.scale_recording("x", (train, test, label), 0.01, "x", "x")
    np.testing.assert_array_equal(whole.rows, parts.rows)
    expected = (test - train.mean(axis=0)) / train.std(axis=0)
    np.testing.assert_array_equal(whole.rows, expected.astype(np.float32))

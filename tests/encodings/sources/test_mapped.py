"""A table in a large file is looked at without being read; one that shrinks is said."""

import os

import numpy as np
import pytest
import torch

from pefourier.encodings import encoding, load
from pefourier.encodings.sources import formats
from pefourier.encodings.sources.tables import read_table
from pefourier.errors import PefourierError

LARGE = np.random.default_rng(1).normal(size=(4000, 33)).astype(np.float32)
SHORTER = "became shorter while it was read; write it again$"


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(formats, "SUSPECT", 0)


@pytest.mark.parametrize("copied", [0, 2**26])
def test_rows_of_a_mapped_file_are_those_of_its_table(copied, monkeypatch):
    monkeypatch.setattr(encoding, "COPIED", copied)
    np.save("x.npy", LARGE)
    enc = load("x.npy")
    for x in ([5, 2, 2, 3999], [7, 8, 9], [0], range(4000)):
        found = enc.codes(np.array(x))
        np.testing.assert_array_equal(found, LARGE[list(x)])


def test_a_file_that_becomes_shorter_is_said(monkeypatch):
    np.save("x.npy", LARGE)
    enc = load("x.npy")
    os.truncate("x.npy", 999)
    for ask in (enc.table, lambda: list(enc.blocks()), lambda: enc.codes(np.array([3]))):
        with pytest.raises(PefourierError, match=SHORTER):
            ask()
    np.save("x.npy", LARGE)
    enc = load("x.npy")
    monkeypatch.setattr(np, "array", lambda part: os.truncate("x.npy", 999))  # meanwhile
    with pytest.raises(PefourierError, match=SHORTER):
        enc.table()


def test_tensors_of_a_mapped_file_are_copied():
    torch.save({"a": torch.from_numpy(LARGE)}, "x.pt")
    table, _ = read_table("x.pt")
    os.truncate("x.pt", 0)
    np.testing.assert_array_equal(table, LARGE)

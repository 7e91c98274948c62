"""A table in a large file is looked at without being read, and a file that shrinks kills nobody."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from stored import TABLE

from pefourier.encodings import load
from pefourier.encodings.sources import arrays, formats, mapped
from pefourier.encodings.sources.mapped import MappedTable
from pefourier.encodings.sources.tables import read_table
from pefourier.errors import PefourierError

LARGE = np.random.default_rng(1).normal(size=(4000, 33)).astype(np.float32)
SHORTER = "became shorter while it was read; write it again"


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch):
    monkeypatch.setattr(arrays, "SUSPECT", 0)
    monkeypatch.setattr(formats, "SUSPECT", 0)


@pytest.fixture
def table():
    np.save("x.npy", LARGE)
    return read_table("x.npy")[0]


INDICES = [
    3,
    -1,
    slice(None),
    slice(5, 9),
    slice(9, 5),
    slice(-3, None),
    slice(0, 4000, 7),
    slice(None, None, -1),
    (slice(2, 5), 3),
    (slice(None), slice(4, 9)),
    (7, 8),
    np.array([5, 2, 2, 3999]),
    np.array([5, -1]),
    np.array([], dtype=int),
    np.array([3, 1], dtype=np.uint8),
    np.array([[1, 2], [3, 4]]),
    np.arange(4000) % 5 == 0,
    [4, 2],
    ...,
    None,
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_whatever_is_taken_is_what_numpy_takes(table, index):
    assert isinstance(table, MappedTable)
    np.testing.assert_array_equal(table[index], LARGE[index])
    part = table[100:3000]
    np.testing.assert_array_equal(part[5:9], LARGE[105:109])


def test_views_of_views_lie_where_they_lie(table, monkeypatch):
    monkeypatch.setattr(mapped, "COPIED", 33 * 4 * 10)  # ten rows
    part = table[100:3000][50:]
    assert isinstance(part, MappedTable)
    np.testing.assert_array_equal(part[5:9], LARGE[155:159])
    np.testing.assert_array_equal(part[np.array([0, 7])], LARGE[[150, 157]])
    assert type(part[5:9]) is np.ndarray  # few enough to be copied
    columns = table[:, 3:8]
    np.testing.assert_array_equal(columns[5:9], LARGE[5:9, 3:8])
    np.testing.assert_array_equal(table[None][0, 5:9], LARGE[5:9])


def test_what_is_made_of_a_mapped_table_is_an_array_like_any_other(table):
    for made in (table + 1, table.max(axis=0), np.asarray(table, dtype=float), np.sqrt(table**2)):
        assert type(made) is np.ndarray
    assert isinstance(table.max(), np.float32)
    copy = table.astype(np.float64)
    np.testing.assert_array_equal(copy[5:9], LARGE[5:9])
    np.testing.assert_array_equal(np.empty_like(table)[:0], LARGE[:0])


@pytest.mark.parametrize(("dtype", "order"), [("<f8", "C"), ("<f2", "C"), ("<f4", "F")])
def test_types_and_orders(dtype, order):
    np.save("x.npy", np.array(LARGE, dtype, order=order))
    found, _ = read_table("x.npy")
    assert isinstance(found, MappedTable)
    np.testing.assert_array_equal(found[7:99], LARGE[7:99].astype(dtype))


@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize("suffix", ["npy", "pt"])
def test_a_file_that_becomes_shorter_is_said(index, suffix):
    if suffix == "npy":
        np.save("x.npy", LARGE)
    else:
        torch.save(torch.from_numpy(LARGE), "x.pt")
    path = f"x.{suffix}"
    table, _ = read_table(path)
    os.truncate(path, os.path.getsize(path) // 2)
    with pytest.raises(PefourierError, match=f"^'{path}' {SHORTER}$"):
        table[index]


def test_a_file_that_becomes_shorter_within_a_block_is_said(table, monkeypatch):
    """Between the look at its length and the reading of the rows."""
    monkeypatch.setattr(mapped.MappedFile, "check_length", lambda file: os.truncate("x.npy", 999))
    with pytest.raises(PefourierError, match=f"^'x.npy' {SHORTER}$"):
        table[1000:2000]


def test_a_file_that_becomes_shorter_is_said_by_an_encoding(table, monkeypatch):
    monkeypatch.setattr(mapped, "COPIED", 1000)
    enc = load("x.npy")
    os.truncate("x.npy", 999)
    with pytest.raises(PefourierError, match=f"^'x.npy' {SHORTER}$"):
        enc.table()
    with pytest.raises(PefourierError, match=f"^'x.npy' {SHORTER}$"):
        list(enc.blocks())


@pytest.mark.parametrize("size", [10**4, 10**8], ids=["read", "mapped"])
def test_a_process_is_not_killed(size):
    code = (
        "import os, numpy as np; from pefourier.encodings.sources.tables import *\n"
        f"np.lib.format.open_memmap('x.npy', 'w+', np.float32, ({size}, 1)).flush()\n"
        "table = read_table('x.npy')[0]\n"
        "os.truncate('x.npy', 0)\n"
        "starts = range(0, len(table), 1000)\n"
        "try: print(sum(table[start : start + 1000].sum() for start in starts))\n"
        "except PefourierError as error: print(error)"
    )
    root = str(Path(mapped.__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={"PYTHONPATH": root}
    )
    said = "0.0" if size == 10**4 else f"'x.npy' {SHORTER}"
    assert (done.returncode, done.stdout.decode().strip(), done.stderr) == (0, said, b"")


def test_small_tables_are_not_mapped(monkeypatch):
    monkeypatch.setattr(arrays, "SUSPECT", 2**28)
    np.save("x.npy", TABLE)
    table, _ = read_table("x.npy")
    assert type(table) is np.ndarray
    os.truncate("x.npy", 9)
    np.testing.assert_array_equal(table, TABLE)

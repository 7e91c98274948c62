"""--grid and --prefix assign rows to grid points; sizes that do not fit are refused."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def files(folder):
    """Write a table of 13 rows (3 x 4 points after one prefix row) and a Python file."""
    np.save("13.npy", np.random.default_rng(0).normal(size=(13, 6)))
    (folder / "mine.py").write_text("import numpy\ndef codes(n, d): return numpy.eye(n, d)\n")
    return folder


@pytest.mark.parametrize(
    ("words", "grid", "prefix", "length"),
    [
        ("13.npy --grid 3x4 --prefix 1", [3, 4], 1, None),
        ("py:mine:codes --grid 2x3x4 --prefix 2 --d 30", [2, 3, 4], 2, 26),
        ("axial:grid=3x4 --d 8", [3, 4], 0, None),
        ("axial:grid=3×4 --d 8", [3, 4], 0, None),
        ("axial --grid 3x4 --d 8", [3, 4], 0, None),
        ("sinusoidal --grid 3x4 --d 8", [3, 4], 0, 12),
    ],
)
def test_vectors_have_the_grid_that_is_requested(run, words, grid, prefix, length):
    (result,) = run("check-faithful", *words.split(), "--json").results
    assert (result["grid"], result["prefix"]) == (grid, prefix)
    assert length in (None, result["params"].get("length"))


@pytest.mark.parametrize("extra", [[], ["--prefix", "2"]], ids=str)
def test_a_comma_pair_on_a_grid_is_a_point_of_it(run, extra):
    words = ["encode", "axial", "--grid", "5x7", "--d", 8, *extra, "--out", "codes.npy"]
    run(*words)
    whole = np.load("codes.npy")
    prefix = len(whole) - 35
    (record,) = run(*words, "--pos", "3,4", "1,6", 0, "--json").results
    rows = [prefix + 25, prefix + 13, 0]
    assert record["positions"] == rows
    np.testing.assert_array_equal(np.load("codes.npy"), whole[rows])
    for pos in ("5,4", "3,4,1"):
        done = run(*words, "--pos", pos)
        assert (done.status, done.out, pos in done.err) == (2, "", True)

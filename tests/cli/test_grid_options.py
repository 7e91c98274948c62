"""--grid and --prefix assign rows to grid points; sizes that do not fit are refused."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def files(folder):
    """Write tables of 13 rows (3 x 4 points after one prefix row) and others, and a Python file."""
    random = np.random.default_rng(0)
    for rows in (13, 77, 78, 161, 197):
        np.save(f"{rows}.npy", random.normal(size=(rows, 6)))
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


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("13.npy --grid 3x4", "--prefix 1 would fit"),
        ("13.npy --grid 5x4 --prefix 1", "--grid 3x4 --prefix 1 would fit"),
        ("13.npy --prefix 13", "13 rows"),
        ("13.npy --grid 0x4", "'0x4'"),
        ("13.npy --grid=-3x4", "'-3x4'"),
        ("13.npy --grid 3xfour", "'3xfour'"),
        ("13.npy --grid 3x4 --prefix -1", "got -1"),
        ("13.npy --grid 3x4 --length 13", "--length 13"),
        ("13.npy --grid 3000x4000x5000", "60000000000 points"),
        ("197.npy --grid 24x24", "--grid 14x14 --prefix 1 would fit"),
        ("161.npy --grid 14x14", "--grid 10x16 --prefix 1 would fit"),
        ("78.npy --grid 5x5", "--grid 7x11 --prefix 1 would fit"),
        ("alibi --grid 3x4", "'alibi'"),
        ("tree --grid 3x4", "'tree'"),
        ("axial:grid=3x4 --grid 4x3 --d 8", "3x4"),
        ("swin:grid=3x4 --prefix 1 --d 4", "3x4"),
        ("swin:grid=3x0", "got 0"),
        ("axial-rope:convention=qwen2-vl,rows=blocks --grid 5x7 --d 32", "such as 6x8"),
        ("axial --grid 100000x100000", "67108864"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_line(run, words, part):
    done = run("check-faithful", *words.split())
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert part in done.err


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

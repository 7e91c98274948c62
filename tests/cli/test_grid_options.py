"""--grid and --prefix: whose points rows are, and what is said where they do not fit."""

import re

import numpy as np
import pytest

from pefourier.api import check
from pefourier.errors import PefourierError


@pytest.fixture
def table(tmp_path):
    """13 rows of 3 x 4 points behind one, as a file."""
    random = np.random.default_rng(0)
    np.save(tmp_path / "codes.npy", random.normal(size=(13, 6)))
    return tmp_path / "codes.npy"


def test_a_file_has_the_grid_that_is_asked_for(run, table):
    (result,) = run("check-faithful", table, "--grid", "3x4", "--prefix", 1, "--json").results
    assert (result["grid"], result["prefix"]) == ([3, 4], 1)
    assert result["length"] == 12


def test_users_code_is_called_for_all_rows(run, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import numpy\ndef codes(n, d): return numpy.eye(n, d)\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["py:mine:codes", "--grid", "2x3x4", "--prefix", 2, "--d", 30, "--json"]
    (result,) = run("check-faithful", *arguments).results
    assert (result["grid"], result["prefix"], result["params"]["length"]) == ([2, 3, 4], 2, 26)


@pytest.mark.parametrize("spec", ["axial:grid=3x4", "axial:grid=3×4", "axial:grid=3;4"])
def test_a_grid_is_a_parameter_too(run, spec):
    typed = run("check-faithful", spec, "--d", 8, "--json").results
    asked = run("check-faithful", "axial", "--grid", "3x4", "--d", 8, "--json").results
    assert typed[0] | {"spec": ""} == asked[0] | {"spec": ""}


def test_a_grid_suits_what_is_on_one_axis(run):
    """Positions in raster order: the same codes, told apart by rows and columns."""
    (result,) = run("check-faithful", "sinusoidal", "--grid", "3x4", "--d", 8, "--json").results
    assert (result["grid"], result["params"]["length"]) == ([3, 4], 12)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--grid", "3x4"], "13 rows do not fit a grid of 3x4, 12 points; --prefix 1 would fit"),
        (
            ["--grid", "5x4", "--prefix", "1"],
            "13 rows do not fit a grid of 5x4 behind 1 rows, 21 points; --grid 3x4 would fit",
        ),
        (["--prefix", "13"], "--prefix 13 leaves none of 13 rows; take less"),
        (["--grid", "0x4"], "'0x4' is not a grid; write sides of at least 1, such as 14x14"),
        (["--grid=-3x4"], "'-3x4' is not a grid; write sides of at least 1, such as 14x14"),
        (["--grid", "3xfour"], "'3xfour' is not a grid"),
        (["--grid", "3x4", "--prefix", "-1"], "prefix must be a whole number from 0 on; got -1"),
        (
            ["--grid", "3x4", "--length", "13"],
            "with --length 13: 13 rows do not fit a grid of 3x4, 12 points; --prefix 1 would fit",
        ),
        (["--grid", "3000x4000x5000"], "60000000000 points; --grid 3x4 --prefix 1 would fit"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_what_does_not_fit_a_file_is_one_line(run, table, arguments, said):
    done = run("check-faithful", table, *arguments)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["alibi", "--grid", "3x4"], "'alibi' has codes of a lag, not of positions: --grid suits"),
        (["tree", "--grid", "3x4"], "'tree' has codes of a tree, not of positions"),
        (
            ["axial:grid=3x4", "--grid", "4x3", "--d", "8"],
            "is on a grid of 3x4 with prefix 0; leave out --grid and --prefix",
        ),
        (["swin:grid=3x0"], "a side of --grid must be a whole number from 1 on; got 0"),
        (["axial", "--grid", "100000x100000"], "must be a whole number up to 67108864"),
    ],
    ids=str,
)
def test_what_does_not_fit_an_encoding_is_one_line(run, arguments, said):
    done = run("check-faithful", *arguments)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_list_shows_the_conventions(run):
    done = run("list", "axial-rope", "--json")
    (record,) = done.results
    conventions = {one["convention"]: one for one in record["conventions"]}
    assert conventions["rope-vit"]["params"] == {
        "order": "xy",
        "layout": "interleaved",
        "rho": 100.0,
    }
    assert all(one["source"] for one in conventions.values())
    line = "    convention=rope-vit: order=xy, layout=interleaved, rho=100.0. "
    assert line in run("list", "axial-rope").out


@pytest.mark.parametrize("extra", [[], ["--prefix", "2"]], ids=str)
def test_a_comma_pair_on_a_grid_is_a_point_of_it(run, tmp_path, extra):
    out = tmp_path / "codes.npy"
    arguments = ["encode", "axial", "--grid", "5x7", "--d", 8, *extra]
    run(*arguments, "--out", out)
    whole = np.load(out)
    prefix = len(whole) - 35
    (record,) = run(*arguments, "--pos", "3,4", "1,6", 0, "--out", out, "--json").results
    rows = [prefix + 25, prefix + 13, 0]
    assert record["positions"] == rows
    np.testing.assert_array_equal(np.load(out), whole[rows])


def test_points_beyond_a_grid_are_not_written(run, tmp_path):
    arguments = ["encode", "axial", "--grid", "5x7", "--d", 8, "--out", tmp_path / "codes.npy"]
    for pos in ("5,4", "3,4,1"):
        done = run(*arguments, "--pos", pos)
        assert (done.status, done.out) == (2, "")
        assert f"{pos} is outside the lattice 0,0 … 4,6" in done.err


@pytest.mark.parametrize(
    ("rows", "asked", "said"),
    [
        (197, "24x24", "576 points; --grid 14x14 --prefix 1 would fit"),
        (197, "10x16", "160 points; --grid 14x14 --prefix 1 would fit"),
        (161, "14x14", "196 points; --grid 10x16 --prefix 1 would fit"),
        (77, "8x8", "64 points; --prefix 13 would fit"),
        (78, "5x5", "25 points; --grid 7x11 --prefix 1 would fit"),
    ],
)
def test_the_grid_that_is_proposed_is_a_usual_one(run, tmp_path, rows, asked, said):
    np.save(tmp_path / "t.npy", np.random.default_rng(1).normal(size=(rows, 6)))
    assert said in run("check-faithful", tmp_path / "t.npy", "--grid", asked).err
    if rows in (197, 161):
        way = said.split("; --grid ")[1].removesuffix(" would fit")
        done = run("resize", tmp_path / "t.npy", "--to", "9x9")
        assert f"give its sides, as --from {way}" in done.err


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((14, 14, 24), "; of an image write t.reshape(196, 24) and give --grid 14x14"),
        ((1, 24, 14, 14), "; of an image write t.reshape(24, 196).T and give --grid 14x14"),
        (
            (10, 16, 24),
            "t.reshape(160, 24) and give --grid 10x16, or, where its first axis has the "
            "dimensions, t.reshape(10, 384).T and give --grid 16x24",
        ),
    ],
)
def test_an_array_of_an_image_is_told_how_it_becomes_a_table(run, tmp_path, shape, said):
    array = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "t.npy", array)
    done = run("check-faithful", tmp_path / "t.npy")
    assert (done.status, done.out) == (2, "")
    assert done.err.endswith(f"{said}\n")
    with pytest.raises(PefourierError, match=re.escape(said)):
        check(array)


@pytest.mark.parametrize(
    ("command", "option", "way"),
    [
        ("context", "--length", "'pefourier resize CONFIG --from"),
        ("context", "--trained", "'pefourier resize CONFIG --from"),
        ("check-faithful", "--length", "give it as --grid"),
    ],
)
def test_a_size_of_images_is_no_length(run, command, option, way):
    """What is advised instead is what the command takes."""
    done = run(command, "rope", option, "48x48")
    assert done.status == 2
    assert f"'48x48' is a size of images, not a number of positions; {way}" in done.err

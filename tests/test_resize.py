"""What resizing does to tables, and to formulas."""

import json

import numpy as np
import pytest
from grids import table_on

from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.resize import resize_table, similarities


def both(spec, old, new, d=64, **facts):
    one, other = (load(spec, None, d, grid=grid) for grid in (old, new))
    return resize_table(one, new, formula=other, **facts)


def test_rows_before_the_grid_are_kept():
    table = np.random.default_rng(0).normal(size=(2 + 12, 5))
    r = resize_table(table_on((3, 4), table, prefix=2), (6, 5), "timm")
    assert (r.table.shape, r.prefix, r.old, r.new) == ((32, 5), 2, (3, 4), (6, 5))
    np.testing.assert_array_equal(r.table[:2], table[:2])


def test_methods_are_compared_with_the_one_asked_for():
    table = np.random.default_rng(0).normal(size=(12, 5))
    r = resize_table(table_on((3, 4), table), (6, 5), "timm")
    found = {one.method: one for one in r.methods}
    assert found["timm"].largest_difference == found["antialias"].largest_difference == 0
    assert r.largest_difference >= max(one.largest_difference for one in r.methods)
    one, two = (resize_table(table_on((3, 4), table), (6, 5), name).table for name in r.between)
    apart = np.abs(one - two).reshape(6, 5, 5)
    assert apart[r.at].max() == apart.max() == r.largest_difference
    ratio = np.linalg.norm(r.table) / np.sqrt(30) / (np.linalg.norm(table) / np.sqrt(12))
    assert found["timm"].norm_ratio == pytest.approx(ratio)


def test_neighbours_are_those_of_each_axis():
    table = np.random.default_rng(0).normal(size=(12, 5))
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    grid = unit.reshape(3, 4, 5)
    down = [grid[y, x] @ grid[y + 1, x] for y in range(2) for x in range(4)]
    right = [grid[y, x] @ grid[y, x + 1] for y in range(3) for x in range(3)]
    assert similarities(table, (3, 4)) == pytest.approx([np.mean(down), np.mean(right)])
    assert np.isnan(similarities(table, (12, 1))[1])


def test_waves_keep_their_cycles_an_image():
    x = np.indices((16, 16))[1].ravel() / 16
    table = np.stack([np.sin(2 * np.pi * 3 * x), np.cos(2 * np.pi * 3 * x)], axis=1)
    r = resize_table(table_on((16, 16), table), (32, 40), "bicubic")
    assert r.before.cycles == pytest.approx(3)
    assert r.after.cycles == pytest.approx(3, abs=0.1)
    assert r.before.constant == pytest.approx(0, abs=1e-12)


def test_indices_meet_unseen_phases_and_normalised_coordinates_do_not():
    y, x = both("axial:convention=mae", (14, 10), (24, 10)).unseen
    assert (y.axis, y.pairs, y.step_ratio) == ("y", 16, 1.0)
    omega = 1e4 ** (-np.arange(16) / 16)
    assert y.unseen == (omega * 13 < 2 * np.pi).sum()
    assert x.unseen == 0
    for detr in both("axial:convention=detr", (14, 10), (24, 20)).unseen:
        assert (detr.unseen, detr.step_ratio) == (0, pytest.approx(0.5, abs=0.1))
    assert both("axial:convention=mae", (14, 10), (7, 5)).unseen[0].unseen == 0
    assert resize_table(load("axial", None, 8, grid=(4, 4)), (5, 5)).unseen is None


def test_what_does_not_fit_is_refused(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("t.npy", np.random.default_rng(0).normal(size=(13, 4)))
    enc = load("axial", None, 8, grid=(4, 4))
    with pytest.raises(PefourierError, match="--to 5 is of 1 axes, the table's grid 4x4 of 2"):
        resize_table(enc, (5,))
    with pytest.raises(PefourierError, match="unknown method 'cubic'"):
        resize_table(enc, (5, 5), "cubic")
    done = run("resize", "t.npy", "--from", "3x4", "--to", "6x6")
    assert (done.status, done.out) == (2, "")
    assert "--prefix 1 would fit" in done.err


def test_the_command_answers_and_writes(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("t.npy", np.random.default_rng(0).normal(size=(13, 4)))
    sides = ["--from", "3x4", "--to", "6x5", "--prefix", "1"]
    done = run("resize", "t.npy", *sides, "--out", "new.npy", "--json")
    (record,) = json.loads(done.out)["results"]
    assert (record["from"], record["to"], record["prefix"]) == ([3, 4], [6, 5], 1)
    assert record["methods"][0]["method"] == "bicubic"
    assert record["unseen"] is None
    assert np.load("new.npy").shape == (31, 4)
    text = run("resize", "axial", "--d", "8", *sides).out
    assert "phases never seen" in text
    assert "cosine of neighbours" in text
    assert run("resize", "t.npy", *sides, "--csv").out.startswith("method,norm_ratio,neighbours_0")

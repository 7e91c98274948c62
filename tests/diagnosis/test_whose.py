"""Tables on grids are told by the model that has them."""

import numpy as np
import pytest

from pefourier.diagnosis.whose import matching_conventions
from pefourier.encodings import build
from pefourier.encodings.conventions import read_conventions

AXIAL = sorted(set(read_conventions()["axial"]) - {"cogvideox"})  # which has three axes


@pytest.mark.parametrize("name", AXIAL)
def test_a_convention_is_known_by_its_table(name):
    table = build("axial", d=48, grid=(5, 7), convention=name).table()
    found = [one for _, one, _ in matching_conventions(table.astype(np.float32), (5, 7), 2**-23)]
    assert name in found
    assert len(found) <= 3


def test_no_convention_is_seen_where_there_is_none():
    table = build("axial", d=48, grid=(5, 7), rho=500.0).table()
    assert list(matching_conventions(table, (5, 7), 1e-15)) == []
    assert list(matching_conventions(0 * table, (5, 7), 1e-15)) == []


def test_a_table_of_a_model_is_told_on_its_grid(run, tmp_path):
    table = build("axial", d=64, grid=(14, 14), convention="mae", prefix=1).table()
    np.save(tmp_path / "vit.npy", table[None].astype(np.float32))
    grid = ("--grid", "14x14", "--prefix", 1)
    done = run("check-faithful", tmp_path / "vit.npy", *grid, "--plot", tmp_path / "vit.png")
    assert done.status == 0, done.err
    said = " ".join(done.out.split())
    assert "the convention of mae, dit" in said
    assert "All 196 points" in said
    done = run("report", tmp_path / "vit.npy", *grid, "--out", tmp_path / "vit.html")
    assert done.status == 0, done.err

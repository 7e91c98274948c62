"""How relations are told: a table with a reason for what is missing, a row a lag, a figure."""

import csv

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.questions.relations import kernel


@pytest.mark.parametrize("spec", ["sinusoidal", "alibi:causal=true"])
def test_csv_has_a_row_for_each_lag(run, spec):
    text = run("relations", spec, "-S", 12, "--d", 8, "--csv").out
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["lag"] for row in rows] == [str(lag) for lag in range(12)]
    found = [float(row["inner_product"]) for row in rows]
    assert found == kernel(load(spec, 12, 8)).tolist()


def test_csv_of_a_grid_has_a_row_for_each_displacement(run):
    text = run("relations", "axial", "--grid", "2x3", "--d", 8, "--csv").out
    found = {row["lag"]: float(row["inner_product"]) for row in csv.DictReader(text.splitlines())}
    assert list(found)[:2] == ["-1×-2", "-1×-1"]
    assert len(found) == 3 * 5
    assert found["0×0"] == 1.0
    table = load("axial", None, 8, grid=(2, 3)).table()  # rows 0 and 4 are (0, 0) and (1, 1)
    assert found["1×1"] == pytest.approx(table[0] @ table[4] / (table[0] @ table[0]))


def test_a_figure_is_drawn(run, tmp_path):
    path = tmp_path / "k.png"
    done = run("relations", "learned", "shaw", "axial", "-S", 12, "--d", 8, "--plot", path, "-q")
    assert done.status == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_json_has_the_kernel(run):
    (record,) = run("relations", "dft", "-S", 8, "--d", 8, "--json").results
    assert np.allclose(record["kernel"], np.eye(8)[0], atol=1e-15)

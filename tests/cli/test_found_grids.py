"""A table without --grid: every question is asked on the grid that its rows turn out to have."""

import numpy as np
import pytest

from pefourier.encodings import build

H, W, D = 7, 11, 64
SAID = "rows were taken as points of a grid, --grid 7x11 --prefix 1"
MAE = np.vstack([np.zeros(D), build("axial", d=D, grid=(H, W), convention="mae").table()])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("mae.npy", MAE)
    np.save("exchanged.npy", np.roll(MAE, D // 2, axis=1))
    np.save("lines.npy", build("sinusoidal", length=H * W, d=D).table())
    (tmp_path / "ported_table.py").write_text(
        "import numpy\ndef codes(n, d): return numpy.load('mae.npy')\n"
    )
    return tmp_path


@pytest.mark.parametrize("spec", ["mae.npy", "py:ported_table:codes"])
@pytest.mark.parametrize(
    "command", [["spectrum"], ["reconstruct"], ["check-faithful"], ["relations"]], ids=str
)
def test_every_question_finds_the_grid_and_says_it(run, folder, command, spec):
    size = ["--d", D, "--length", H * W + 1] if spec.startswith("py:") else []
    (asked,) = run(*command, spec, "--grid", "7x11", "--prefix", 1, "--d", D, "--json").results
    done = run(*command, spec, *size, "--json")
    (found,) = done.results
    assert SAID in done.err
    assert found["params"].pop("grid_found") is True
    assert found["params"]["grid"] == [H, W]
    found.pop("findings", None), asked.pop("findings", None)
    assert found == asked
    assert run(*command, spec, *size).out.startswith(f"{spec}: ")
    assert run(*command, spec, *size, "--quiet").err == ""


@pytest.mark.parametrize("command", ["spectrum", "reconstruct", "check-faithful", "relations"])
@pytest.mark.parametrize("arguments", [["lines.npy"], ["mae.npy", "--grid", H * W + 1]], ids=str)
def test_one_axis_stays_one_axis(run, folder, command, arguments):
    done = run(command, *arguments, "--json")
    (record,) = done.results
    assert "points of a grid" not in done.err
    assert "grid_found" not in record["params"]
    assert np.ndim(record.get("density", [0])) == 1
    assert record.get("grid") in (None, [H * W + 1])


def test_positions_on_one_axis_ask_for_one_axis(run, folder):
    (flat,) = run("reconstruct", "mae.npy", "--pos", 5, 40, "--json").results
    assert [one["position"] for one in flat["reconstructions"]] == [5, 40]
    (grid,) = run("reconstruct", "mae.npy", "--pos", "3,4", "--json").results
    assert [one["position"] for one in grid["reconstructions"]] == [[3, 4]]


@pytest.mark.parametrize(
    ("pair", "status", "by"),
    [
        (["mae.npy", "axial:convention=mae"], 0, None),
        (["axial:convention=mae", "exchanged.npy"], 0, {"order": "xy to yx"}),
        (["mae.npy", "exchanged.npy"], 0, {"order": "xy to yx"}),
        (["mae.npy", "alibi"], 1, None),
    ],
    ids=str,
)
def test_a_pair_is_compared_on_the_grid_of_either(run, folder, pair, status, by):
    done = run("compare", *pair, "--json")
    assert done.status == status
    (record,) = done.results
    for key, value in (by or {}).items():
        assert record["by"][key] == value
    assert (SAID in done.err) == (status == 0)


def test_resizing_finds_the_grid_too(run, folder):
    done = run("resize", "mae.npy", "--to", "9x14", "--json")
    (found,) = done.results
    (asked,) = run(
        "resize", "mae.npy", "--from", "7x11", "--prefix", 1, "--to", "9x14", "--json"
    ).results
    assert SAID in done.err
    assert found["params"].pop("grid_found") is True
    assert found == asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lines.npy"], "77 rows do not show one; give its sides, as --from 7x11"),
        (["axial", "--d", 8], "'axial' is on no known grid"),
        (["mae.npy", "--prefix", 2], "behind 1 rows, not 2; give --from too"),
    ],
    ids=str,
)
def test_what_has_no_grid_is_not_resized(run, folder, arguments, said):
    done = run("resize", *arguments, "--to", "9x14")
    assert (done.status, done.out) == (2, "")
    assert said in done.err


def test_the_figure_of_resizing_is_written(run, folder):
    assert run("resize", "mae.npy", "--to", "9x14", "--plot", "r.svg").status == 0
    text = (folder / "r.svg").read_text()
    assert "cycles an image along y" in text
    assert "7x11 before" in text

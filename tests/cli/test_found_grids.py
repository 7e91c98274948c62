"""A table without --grid: every question is asked on the grid that its rows turn out to have."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import pefourier
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


@pytest.mark.parametrize("behind", [[], ["--prefix", 1]], ids=str)
@pytest.mark.parametrize("spec", ["mae.npy", "py:ported_table:codes"])
@pytest.mark.parametrize(
    "command", [["spectrum"], ["reconstruct"], ["check-faithful"], ["relations"]], ids=str
)
def test_every_question_finds_the_grid_and_says_it(run, folder, command, spec, behind):
    command = [*command, *behind]
    size = ["--d", D, "--length", H * W + 1] if spec.startswith("py:") else []
    on_grid = ["--grid", "7x11", "--prefix", 1]
    (asked,) = run(command[0], spec, *on_grid, "--d", D, "--json").results
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


def test_a_prefix_that_contradicts_the_grid_found_is_refused(run, folder):
    done = run("check-faithful", "mae.npy", "--prefix", 2)
    assert (done.status, done.out) == (2, "")
    assert "is on a grid of 7x11 behind 1 rows, not 2; give its grid too" in done.err


def test_positions_on_one_axis_ask_for_one_axis(run, folder):
    (flat,) = run("reconstruct", "mae.npy", "--pos", 5, 40, "--json").results
    assert [one["position"] for one in flat["reconstructions"]] == [5, 40]
    (grid,) = run("reconstruct", "mae.npy", "--pos", "3,4", "--json").results
    assert [one["position"] for one in grid["reconstructions"]] == [[3, 4]]


@pytest.mark.parametrize(
    ("pair", "status", "by"),
    [
        (["mae.npy", "axial:convention=mae"], 0, None),
        (["axial:convention=mae", "exchanged.npy"], 1, {"order": "xy to yx"}),
        (["mae.npy", "exchanged.npy"], 1, {"order": "xy to yx"}),
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
    assert (SAID in done.err) == (pair[1] != "alibi")


def test_resizing_finds_the_grid_too(run, folder):
    done = run("resize", "mae.npy", "--to", "9x14", "--json")
    (found,) = done.results
    (asked,) = run(
        "resize", "mae.npy", "--from", "7x11", "--prefix", 1, "--to", "9x14", "--json"
    ).results
    assert SAID in done.err
    assert found["params"].pop("grid_found") is True
    assert [entry["code"] for entry in found.pop("findings")] == ["grid-found"]
    assert asked.pop("findings") == []
    assert found == asked


@pytest.mark.parametrize(
    "arguments", [["lines.npy"], ["axial", "--d", 8], ["mae.npy", "--prefix", 2]], ids=str
)
def test_what_has_no_grid_is_not_resized(run, folder, arguments):
    done = run("resize", *arguments, "--to", "9x14")
    assert (done.status, done.out) == (2, "")


def test_the_figure_of_resizing_is_written(run, folder):
    assert run("resize", "mae.npy", "--to", "9x14", "--plot", "r.svg").status == 0
    text = (folder / "r.svg").read_text()
    assert "cycles along y" in text
    assert "7x11 before" in text


def smooth_table(height, width, d):
    """Free codes that are alike where points are near."""
    places = np.indices((height, width)).reshape(2, -1).T
    apart = ((places[:, None] - places) ** 2).sum(axis=-1)
    root = np.linalg.cholesky(np.exp(-apart / 8) + 1e-8 * np.eye(len(places)))
    rng = np.random.default_rng(2)
    return root @ rng.normal(size=(len(places), d)) + 0.1 * rng.normal(size=(len(places), d))


@pytest.fixture
def others(folder):
    """Tables of 9 x 12 points with other rows: zeros or free ones behind, free ones before."""
    learned, free = smooth_table(9, 12, 96), np.random.default_rng(4).normal(size=(3, 96))
    np.save("zeros_behind.npy", np.vstack([learned, np.zeros((1, 96))]))
    np.save("three_behind.npy", np.vstack([learned, free]))
    np.save("before.npy", np.vstack([free[:1], learned]))
    np.save("cut.npy", np.vstack([free[:1], learned[:-1]]))
    return folder


def test_smooth_free_codes_show_their_grid(run, others):
    done = run("check-faithful", "before.npy", "--json")
    assert "--grid 9x12 --prefix 1: similarity to the next row drops every 12 rows" in done.err
    assert (done.results[0]["grid"], done.results[0]["prefix"]) == ([9, 12], 1)


ONE = "9x12 points and 1 more behind them; the last row is all zeros: cut it (t[:-1])"
THREE = "9x12 points and 3 more behind them; the last 3 rows are none of its points: cut them"


@pytest.mark.parametrize(("file", "said"), [("zeros_behind", ONE), ("three_behind", THREE)])
@pytest.mark.parametrize("command", ["spectrum", "reconstruct", "check-faithful", "relations"])
def test_rows_behind_a_grid_are_said(run, others, command, file, said):
    done = run(command, f"{file}.npy", "--json")
    assert "not every row is a position of one sequence: 1" in done.err
    assert said in done.err
    assert run(command, f"{file}.npy", "--quiet").err == ""
    given = run(command, f"{file}.npy", "--grid", "9x12")
    assert (given.status, given.out) == (2, "")
    assert said in given.err
    assert "would fit" not in given.err


def test_rows_behind_a_grid_are_a_finding(run, others):
    (found,) = run("check-faithful", "zeros_behind.npy", "--json").results
    said = next(f for f in found["findings"] if f["code"] == "rows-behind-grid")
    assert said["severity"] == "warning"
    assert "grid" not in found


def test_advice_on_shifted_rows_does_not_go_in_a_circle(run, others):
    arguments = ["--grid", "9x12", "--prefix", 1, "--json"]
    (found,) = run("check-faithful", "zeros_behind.npy", *arguments).results
    (shift,) = (f for f in found["findings"] if f["code"] == "prefix-shift")
    assert "begins at row 0, not 1; the last row is all zeros: cut it" in shift["message"]
    np.save("right.npy", np.load("zeros_behind.npy")[:-1])
    (right,) = run("check-faithful", "right.npy", "--grid", "9x12", "--json").results
    assert "prefix-shift" not in [f["code"] for f in right["findings"]]
    (found,) = run("check-faithful", "cut.npy", "--grid", "9x12", "--json").results
    (shift,) = (f for f in found["findings"] if f["code"] == "prefix-shift")
    assert "begins at row 1, not 0; the last point is missing" in shift["message"]


@pytest.mark.parametrize("asked", ["", "--from 9x12", "--from 9x12 --prefix 1"])
def test_shifted_rows_are_not_resized(run, others, asked):
    done = run("resize", "zeros_behind.npy", *asked.split(), "--to", "12x16", "--out", "n.npy")
    assert (done.status, done.out) == (2, "")
    assert "the last row is all zeros: cut it (t[:-1])" in done.err
    assert done.err.count("\n") == 1
    assert not (others / "n.npy").exists()


@pytest.fixture
def doubtful(folder):
    """Tables of a square's rows that show no grid."""
    rng = np.random.default_rng(8)
    np.save("free.npy", rng.normal(size=(197, 32)))
    np.save("rough.npy", smooth_table(14, 14, 48) + 1.2 * rng.normal(size=(196, 48)))
    np.savez("named.npz", **{"vision_model.position": rng.normal(size=(196, 32))})
    np.save("text.npy", rng.normal(size=(1024, 32)))
    np.save("walk.npy", rng.normal(size=(197, 32)).cumsum(axis=0))
    np.save("sines.npy", build("sinusoidal", length=1024, d=D).table())
    np.save("shifted.npy", np.vstack([np.zeros(D), build("sinusoidal", length=196, d=D).table()]))
    np.save("bart.npy", rng.normal(size=(1026, 32)))
    np.save("round.npy", rng.normal(size=(200, 32)))
    return folder


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        ("free.npy", "14x14 points behind 1 more (class, register tokens), which they do not "),
        (
            "rough.npy",
            "14x14 points, which they do not show: say so by --grid 14x14, or --grid 196",
        ),
        ("named.npz#vision_model.position", "say so by --grid 14x14, or --grid 196 for one line"),
    ],
)
@pytest.mark.parametrize("command", ["spectrum", "reconstruct", "check-faithful", "relations"])
def test_rows_that_may_be_a_square_are_noted(run, doubtful, command, spec, way):
    done = run(command, spec, "--json")
    assert way in done.err
    assert done.err.count("one sequence of positions") == 1
    assert "grid" not in done.results[0]["params"]
    assert "one sequence" not in run(command, spec, "--grid", 197 if "free" in spec else 196).err
    assert run(command, spec, "--quiet").err == ""


@pytest.mark.parametrize("name", ["text", "walk", "sines", "shifted", "bart", "round"])
def test_rows_that_are_as_many_by_chance_are_not_noted(run, doubtful, name):
    done = run("relations", f"{name}.npy")
    assert (done.status, done.err) == (0, "")


def test_points_of_a_found_grid_are_written(run, folder):
    done = run("encode", "mae.npy", "--pos", "3,4", "--out", "one.npy", "--json")
    assert SAID in done.err
    np.testing.assert_array_equal(np.load("one.npy"), MAE[[1 + 3 * W + 4]])
    (record,) = run("encode", "mae.npy", "--pos", "3,4,5", "--out", "rows.npy", "--json").results
    assert record["positions"] == [3, 4, 5]
    (record,) = run("encode", "lines.npy", "--pos", "3,4", "--out", "rows.npy", "--json").results
    assert record["positions"] == [3, 4]


def test_a_row_of_a_table_with_a_grid_is_said_to_be_one(run, folder):
    done = run("reconstruct", "mae.npy", "--pos", 5, "--json")
    assert [one["position"] for one in done.results[0]["reconstructions"]] == [5]
    assert "named as --pos 3,5" in done.err
    assert run("reconstruct", "lines.npy", "--pos", 5).err == ""
    assert run("reconstruct", "mae.npy", "--pos", 5, "--quiet").err == ""


def test_a_grid_that_does_not_fit_is_answered_by_the_one_that_rows_show(run, others):
    said = run("check-faithful", "before.npy", "--grid", "24x24").err
    assert "109 rows do not fit a grid of 24x24, 576 points; its rows show --grid 9x12" in said
    assert "--prefix 1" in said
    assert ONE in run("check-faithful", "zeros_behind.npy", "--grid", "24x24").err


@pytest.mark.parametrize("behind", [0, 3])
def test_a_bare_table_of_biases_is_resized_as_that_of_a_folder(run, tmp_path, rng, behind):
    """27x27 rows and 3 of a class token were refused, or those 3 put before the others."""
    table = rng.normal(0, 0.02, (27**2 + behind, 12)).astype("f4")
    bare, of_folder = tmp_path / "biases.npy", tmp_path / "beit"
    np.save(bare, table)
    of_folder.mkdir()
    name = "encoder.layer.0.attention.relative_position_bias_table"
    save_file({name: table}, of_folder / "model.safetensors")
    kind = {"model_type": "beit" if behind else "swin", "image_size": 224, "patch_size": 16}
    kind |= {
        "window_size": 14,
        "num_heads": [12],
        "embed_dim": 96,
        "use_relative_position_bias": True,
    }
    (of_folder / "config.json").write_text(json.dumps(kind))
    ways = [("7", f"{of_folder}#{name}", "14x14", "20x20"), ("8", bare, "14x14", "20x20")]
    ways += [("9", bare, "27x27", "39x39")] * (behind > 0)
    for out, spec, old, new in ways:
        done = run("resize", spec, "--from", old, "--to", new, "--out", tmp_path / f"{out}.npy")
        assert (done.status, done.err) == (0, "")
    found = [np.load(tmp_path / f"{out}.npy") for out, *_ in ways]
    assert {one.dtype.name for one in found} == {"float32"}  # of a folder float64, once
    assert len(found[0]) == 39**2 + behind
    assert (found[0][39**2 :] == table[27**2 :]).all()
    assert all(np.abs(one - found[0]).max() < 1e-8 for one in found)
    if behind:
        even = run("resize", bare, "--from", "27x27", "--to", "20x20")
        assert even.status == 2
        assert "a window of 20x20 has 39x39" in even.err
        assert "as --from 14x14\n" in run("resize", bare, "--to", "20x20").err
    else:
        said = run("resize", bare, "--to", "20x20").err
        assert said.endswith(
            "as --from 27x27; of biases of attention those of their window, --from 14x14\n"
        )
    save_file({name: table}, tmp_path / "named.safetensors")  # refused, once, or read as codes
    named = run(
        "resize", tmp_path / "named.safetensors", "--to", "20x20", "--out", tmp_path / "n.npy"
    )
    assert (named.status, named.err) == (0, "")
    assert "read as positions" not in named.out
    assert np.abs(np.load(tmp_path / "n.npy") - found[0]).max() < 1e-8


def test_biases_of_a_window_are_suspected_by_their_size_alone(run, tmp_path, rng):
    """(2w - 1)^2 rows, a column a head; the way that is told reads them as displacements."""
    name = "layers.0.blocks.0.attn.relative_position_bias_table"
    table = rng.normal(0, 0.02, (169, 4)).astype("f4")
    np.save(tmp_path / "swin.npy", table)
    save_file({name: table}, tmp_path / "model.safetensors")
    config = {"model_type": "swin", "window_size": 7, "num_heads": [4], "embed_dim": 96}
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = "13x13 rows of 4 numbers may be no codes but biases of attention in a 7x7 window"
    assert "[window-biases]" in run("check-faithful", tmp_path / "swin.npy").out
    for command in ("spectrum", "resize --from 13x13 --to 23x23"):
        first, *rest = command.split()
        done = run(first, tmp_path / "swin.npy", *rest)
        assert done.status == 0
        assert (said in done.err) == (first == "spectrum")  # a grid that was given is no doubt
    assert "All 169 displacements" in run("check-faithful", f"{tmp_path}#{name}").out
    assert run("resize", f"{tmp_path}#{name}", "--from", "7x7", "--to", "12x12").status == 0
    bare = run("resize", tmp_path / "swin.npy", "--from", "13x13", "--to", "12x12")
    assert "then give the window's sides, 7x7, in place of 13x13" in bare.err
    for shape in ((196, 4), (169, 64)):
        np.save(tmp_path / "codes.npy", rng.normal(size=shape))
        assert "may be no codes" not in run("check-faithful", tmp_path / "codes.npy").out


@pytest.mark.parametrize("shape", [(1, 6, 6, 16), (1, 6, 9, 16)], ids=str)
def test_an_array_of_an_image_is_on_the_grid_of_its_axes(run, tmp_path, rng, shape):
    """(1, H, W, d), as SAM keeps it, was refused; (1, n, d) has rows, and is no grid."""
    table, sides = rng.normal(size=shape).astype("f4"), shape[1:3]
    np.save(tmp_path / "image.npy", table)
    np.save(tmp_path / "rows.npy", table.reshape(1, -1, 16))
    grid = f"{sides[0]}x{sides[1]}"
    records = [
        run("check-faithful", tmp_path / name, *options, "--json").results[0]
        for name, options in (("image.npy", []), ("image.npy", ["--grid", grid]), ("rows.npy", []))
    ]
    assert [one.get("grid") for one in records] == [list(sides)] * 2 + [None]
    assert records[0]["min_distance"] == records[2]["min_distance"]
    assert pefourier.check(table).grid == sides
    done = run("resize", tmp_path / "image.npy", "--to", "12x12", "--out", tmp_path / "new.npy")
    assert done.status == 0
    assert np.load(tmp_path / "new.npy").shape == (1, 12, 12, 16)

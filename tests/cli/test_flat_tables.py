"""A flat table is read as rows; a note names the grid that its row count and values suggest."""

import json

import numpy as np
import pytest
from grids import smooth_table
from safetensors.numpy import save_file

import pefourier
from pefourier.encodings import build
from pefourier.encodings.encoding import from_table
from pefourier.encodings.grids import (
    with_grid_note,
)

H, W, D = 7, 11, 64
MAE = np.vstack([np.zeros(D), build("axial", d=D, grid=(H, W), convention="mae").table()])
SQUARE = build("axial", d=D, grid=(14, 14), convention="mae").table()
SINES = build("sinusoidal", length=196, d=D).table()
RNG = np.random.default_rng(8)
FREE = RNG.normal(size=(200, D))


def smooth(height, width, d):
    return smooth_table(np.random.default_rng(2), (height, width), d, reach=2, noise=0.1)


@pytest.fixture
def folder(folder):
    np.save("mae.npy", MAE)
    np.save("exchanged.npy", np.roll(MAE, D // 2, axis=1))
    np.save("square.npy", SQUARE)
    np.save("learned.npy", np.vstack([FREE[:1], smooth(14, 14, D)]))
    np.savez("named.npz", **{"vision_model.position": FREE[:196], "text": FREE[:100]})
    np.save("windows.npy", smooth(13, 13, 4))
    (folder / "port.py").write_text(
        "import numpy\ndef codes(n, d): return numpy.load('learned.npy')[:, :d]\n"
    )
    return folder


NOTED = {
    "learned.npy": "--grid 14x14 --prefix 1",
    "py:port:codes": "--grid 14x14 --prefix 1",
    "named.npz#vision_model.position": "--grid 14x14",
    "windows.npy": "--grid 13x13",
    "square.npy": "--grid 14x14",
    "mae.npy": "",  # 7 x 11 is not a square
}


@pytest.mark.parametrize("spec", NOTED)
@pytest.mark.usefixtures("folder")
def test_rows_stay_rows_and_a_note_names_the_grid(ask, spec):
    size = ["--length", 197, "--d", D] if spec.startswith("py:") else []
    record = ask("check-faithful", spec, *size)
    vectors = {f["code"]: f["message"] for f in record["findings"]}
    assert "grid" not in record["params"]
    assert ("grid-unknown" in vectors) == bool(NOTED[spec])
    assert ("window-biases" in vectors) == (spec == "windows.npy")
    assert NOTED[spec] + "," in vectors.get("grid-unknown", ",")
    record = ask("check-faithful", spec, *size, *NOTED[spec].split())
    assert "grid-unknown" not in [f["code"] for f in record["findings"]]


NO_SQUARES = {
    "sines": SINES,
    "sines in float32": build("sinusoidal", length=1024, d=D).table().astype("f4"),
    "sines behind a row": np.vstack([np.zeros(D), SINES]),
    "ramp": build("ramp", length=196, d=16).table(),
    "free": FREE[:197],
    "walk": RNG.normal(size=(197, 32)).cumsum(axis=0),
    "units": np.eye(64),
    "ones": np.ones((64, 4)),
    "no square": smooth(9, 12, D),
}


@pytest.mark.parametrize("name", NO_SQUARES)
def test_tables_without_a_square_get_no_note(name):
    assert with_grid_note(from_table(NO_SQUARES[name])).findings == ()


@pytest.mark.parametrize(
    ("side", "prefix", "dtype"),
    [(7, 0, "f8"), (14, 1, "f4"), (24, 2, "f2"), (40, 4, "f4"), (14, 5, "f8")],
)
def test_squares_are_noted_behind_usual_tokens(side, prefix, dtype):
    points = build("axial", d=D, grid=(side, side)).table()
    for before in (FREE[:prefix], 0 * FREE[:prefix]):
        rows = np.vstack([before, points]).astype(dtype)
        (note,) = with_grid_note(from_table(rows)).findings
        assert note.code == "grid-unknown"
        assert f"--grid {side}x{side}" + f" --prefix {prefix}" * (prefix > 0) + "," in note.message


@pytest.mark.usefixtures("folder")
def test_two_tables_are_compared_on_the_grid_of_one(run):
    axial, exchanged = "axial:convention=mae,grid=7x11,prefix=1", (1, "halves exchanged")
    pairs = {("mae.npy", axial): (0, None), (axial, "exchanged.npy"): exchanged}
    for pair, reported in (pairs | {("mae.npy", "alibi"): (1, None)}).items():
        done = run("compare", *pair, "--json")
        assert (done.status, done.results[0]["transform"].get("layout")) == reported


@pytest.mark.usefixtures("folder")
def test_only_a_square_is_resized_without_from(run):
    for spec, prefix in (("square.npy", 0), ("learned.npy", 1)):
        options = ["--prefix", prefix, "--to", "20x20", "--json"]
        placed = run("resize", spec, "--from", "14x14", *options)
        assert run("resize", spec, *options).results == placed.results


@pytest.mark.parametrize("behind", [0, 3])
def test_a_bare_table_of_biases_is_resized_as_that_of_a_folder(run, tmp_path, rng, behind):
    """A table of 27 x 27 biases plus three class-token rows is resized with those rows last."""
    table = rng.normal(0, 0.02, (27**2 + behind, 12)).astype("f4")
    bare, of_folder = tmp_path / "biases.npy", tmp_path / "beit"
    np.save(bare, table)
    of_folder.mkdir()
    name = "encoder.layer.0.attention.relative_position_bias_table"
    save_file({name: table}, of_folder / "model.safetensors")
    kind = {"model_type": "beit" if behind else "swin", "image_size": 224, "patch_size": 16}
    kind |= {"window_size": 14, "num_heads": [12], "embed_dim": 96}
    kind |= {"use_relative_position_bias": True}
    (of_folder / "config.json").write_text(json.dumps(kind))
    found, to = [], ["--to", "20x20"]
    for spec in (f"{of_folder}/model.safetensors#{name}", bare):
        done = run("resize", spec, "--from", "14x14", *to, "--out", tmp_path / "new.npy")
        assert (done.status, done.err) == (0, "")
        found.append(np.load(tmp_path / "new.npy"))
        assert (found[-1].dtype, len(found[-1])) == (np.float32, 39**2 + behind)
        assert (found[-1][39**2 :] == table[27**2 :]).all()
        assert np.abs(found[-1] - found[0]).max() < 1e-8
    assert run("resize", bare, *to).status == 2
    assert run("resize", bare, *to, "--from", "27x27").status == (2 if behind else 0)


@pytest.mark.parametrize("shape", [(1, 6, 6, 16), (1, 6, 9, 16)], ids=str)
def test_an_array_of_an_image_is_on_the_grid_of_its_axes(run, tmp_path, rng, shape):
    """A table of shape (1, H, W, d) is on a grid; a table of shape (1, n, d) is not."""
    table, sides = rng.normal(size=shape).astype("f4"), shape[1:3]
    np.save(tmp_path / "image.npy", table)
    np.save(tmp_path / "rows.npy", table.reshape(1, -1, 16))
    paths = (tmp_path / "image.npy", tmp_path / "rows.npy")
    image, rows = run("check-faithful", *paths, "--json").results
    assert (image["grid"], rows.get("grid")) == (list(sides), None)
    assert image["min_distance"] == rows["min_distance"]
    assert pefourier.check(table).grid == sides
    done = run("resize", tmp_path / "image.npy", "--to", "12x12", "--out", tmp_path / "new.npy")
    assert (done.status, np.load(tmp_path / "new.npy").shape) == (0, (1, 12, 12, 16))

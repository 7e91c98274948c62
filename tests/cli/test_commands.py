"""Commands run as typed: their JSON fields, their CSV rows and --require."""

import csv

import numpy as np
import pytest


@pytest.mark.parametrize("sigma", ["1e308", "0.02"])
def test_extreme_bandwidths_give_a_density(ask, sigma):
    """The largest sigma gives a flat density, and the smallest gives the nearest lattice points."""
    result = ask("spectrum dft --d 8 --sigma", sigma)
    expected = np.full(5, 0.2) if sigma == "1e308" else np.array([1, 2, 2, 2, 1]) / 8
    np.testing.assert_allclose(result["density"], expected, rtol=1e-15)


PLACED = [("dft", "3", {"position": "t"})]
PLACED += [("axial:grid=2x3", "1,2", {"position_y": "y", "position_x": "x"})]


@pytest.mark.parametrize(("spec", "at", "heads"), PLACED)
def test_csv_of_a_rebuilt_position_reads_back_by_its_axes(run, spec, at, heads):
    words = f"reconstruct {spec} --d 8 --pos {at}"
    (rebuilt,) = run(words, "--json").results[0]["reconstructions"]
    values = np.full(np.shape(rebuilt["values"]), np.nan)
    for row in csv.DictReader(run(words, "--csv").out.splitlines()):
        assert ",".join(row[head] for head in heads) == at
        values[tuple(int(row[axis]) for axis in heads.values())] = float(row["value"])
    assert values.tolist() == rebuilt["values"]


REQUIRED = [  # value of --require for sinusoidal (injective), exit status, part of stderr
    (["--require", "collides"], 0, ""),
    (["--require", "injective"], 0, ""),
    (["--require", "invertible"], 1, "invertible"),
    (["--require", "isometric"], 1, "isometric"),
    (["--require-dtype", "bfloat16"], 0, ""),
    (["-S", 512, "--require-dtype", "bfloat16"], 0, ""),
    (["-S", 512, "--require-dtype", "bfloat16:computed"], 1, "385 of 512"),
    (["-S", 512, "--require-dtype", "bf16:computed"], 1, "257 positions"),
    (["-S", 3000, "--require-dtype", "fp16:computed"], 1, "float16"),
    (["-S", 3000, "--require-dtype", "float8_e4m3:computed"], 1, "float8_e4m3"),
    (["-S", 3000, "--require-dtype", "float32:computed"], 0, ""),
    (["--strict"], 0, ""),
    (["ones.npy"], 0, ""),
    (["ones.npy", "--strict"], 1, "ones.npy"),
]


@pytest.mark.parametrize(("options", "status", "part"), REQUIRED, ids=str)
@pytest.mark.usefixtures("folder")
def test_a_requirement_that_is_not_met_exits_1(run, options, status, part):
    np.save("ones.npy", np.ones((8, 4)))
    done = run("check-faithful sinusoidal", *options)
    assert (done.status, done.err.count("\n")) == (status, status)
    assert part in done.err
    assert "INJECTIVE" in done.out


def test_encode_then_check(run, ask, tmp_path):
    out, typed = tmp_path / "codes.npy", "0,5,1000000005"
    written = ask("encode dft --d 16 --pos", typed, "--out", out)
    assert (written["shape"], written["positions"]) == ([3, 16], [0, 5, 1000000005])
    vectors = np.load(out)
    np.testing.assert_array_equal(vectors[1], vectors[2])  # 1000000005 = 5 mod 16, exactly
    assert run("check-faithful", out, "--json").results[0]["closest_pair"] == [1, 2]


def test_an_order_of_rows_is_written_where_there_is_one(run, refused, tmp_path):
    words = "compare rope:layout=interleaved rope --d 8 --permutation"
    assert run(words, tmp_path / "order.npy").status == 1
    assert np.load(tmp_path / "order.npy").tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    for a, b in (("rope", "rope:rho=9"), ("dft", "sinusoidal"), ("rope", "rope")):
        figure = ["--plot", tmp_path / "none.svg"]
        refused("compare", a, b, "--permutation", tmp_path / "none.npy", *figure)
        assert not list(tmp_path.glob("none.*"))


@pytest.mark.parametrize("command", ["spectrum", "check-faithful", "relations", "context"])
def test_no_figure_is_written_where_a_spec_is_refused(command, run, tmp_path):
    """A refused SPEC leaves no figure behind, and no option is reported as having no effect."""
    specs = ["rope", "sinusoidal:rho=0"] if command == "context" else ["dft", "sinusoidal"]
    options = [] if command == "context" else ["--rho", 0]
    done = run(command, *specs, *options, "--plot", tmp_path / "a.svg")
    assert (done.status, list(tmp_path.iterdir())) == (2, [])
    assert done.out
    assert "effect" not in done.err
    assert "a.svg' was not written" in done.err
    baseline = ["--baseline", tmp_path / "gone.json"]
    if command in ("check-faithful", "context"):
        assert run(command, specs[0], *baseline, "--plot", tmp_path / "a.svg").status == 2
        assert list(tmp_path.iterdir()) == []


TINY = np.arange(1, 61)[:, None] * np.full(2, 5e-324)


@pytest.mark.parametrize(
    "table",
    [np.vstack([np.eye(2), TINY]), np.diag([1e100, 5e-324, 1]), np.diag([1, 4e99, -1e100]), TINY],
)
@pytest.mark.parametrize("command", ["check-faithful", "spectrum", "relations", "reconstruct"])
def test_numbers_of_any_size_are_answered_without_a_warning(command, table, run, tmp_path):
    np.save(tmp_path / "t.npy", table)
    done = run(command, tmp_path / "t.npy")
    assert done.status in (0, 2)
    assert "Warning" not in done.err
    assert len(done.err.splitlines()) == done.status / 2


def test_a_grid_has_a_base_for_each_axis(run):
    """With base 11.1 the longest wavelength of FLUX's heads is the side of its 64 x 64 grid."""
    rows, columns = run("design --grid 64x64 --d 112 --for turns --rho 1e4 --json").results
    assert (rows["axis"], columns["axis"]) == ("y", "x")
    assert round(rows["best"]["turns"], 1) == 11.1
    assert [c["idle"] for c in rows["candidates"] if c["rho"] == 1e4] == [20]  # of 28

"""What resizing does to tables, and to formulas."""

import json
from dataclasses import replace

import numpy as np
import pytest
from grids import table_on

import pefourier
from pefourier.encodings import load
from pefourier.encodings.domain import lags_on
from pefourier.encodings.encoding import from_table
from pefourier.encodings.sources.tables import array_names, read_table
from pefourier.errors import PefourierError
from pefourier.questions.resize import by_cycles, resize_table, similarities


def both(spec, old, new, d=64, **facts):
    one, other = (load(spec, None, d, grid=grid) for grid in (old, new))
    return resize_table(one, new, formula=other, **facts)


def test_rows_before_the_grid_are_kept():
    table = np.random.default_rng(0).normal(size=(2 + 12, 5))
    r = resize_table(table_on((3, 4), table, prefix=2), (6, 5), "antialias")
    assert (r.table.shape, r.prefix, r.old, r.new) == ((32, 5), 2, (3, 4), (6, 5))
    np.testing.assert_array_equal(r.table[:2], table[:2])


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


def folded_by_hand(table, sides):
    """Energy by |k| along each axis, from all coefficients of the multi-dimensional DFT."""
    power = (np.abs(np.fft.fftn(table.reshape(*sides, -1), axes=range(len(sides)))) ** 2).sum(-1)
    found = np.zeros([n // 2 + 1 for n in sides])
    for place in np.ndindex(*sides):
        found[tuple(min(k, n - k) for k, n in zip(place, sides, strict=True))] += power[place]
    return found / power.sum()


@pytest.mark.parametrize(("old", "new"), [((7,), (9,)), ((5, 8), (8, 6)), ((2, 3, 4), (4, 5, 3))])
def test_spectra_before_and_after_are_those_of_the_tables(old, new):
    table = np.random.default_rng(0).normal(size=(np.prod(old), 5))
    r = resize_table(table_on(old, table), new, "bilinear")
    folded = [folded_by_hand(table, old), folded_by_hand(r.table, new)]
    for one, found in zip((r.before, r.after), folded, strict=True):
        np.testing.assert_allclose(by_cycles(one), found, atol=1e-14)
        assert one.density.sum() == pytest.approx(1.0)
    apart = {}
    for sign, found in zip((1, -1), folded, strict=True):
        for place in np.ndindex(found.shape):
            apart[place] = apart.get(place, 0.0) + sign * found[place]
    assert r.moved == pytest.approx(sum(map(abs, apart.values())) / 2)


def test_biases_are_resized_from_window_to_window():
    """10 dy + dx of a window of 3 x 3, with 5 x 5 displacements: published for one of 4 x 4."""
    dy, dx = np.indices((5, 5)).reshape(2, -1) - 2
    table = np.vstack([[[7.0]], (10.0 * dy + dx)[:, None]])
    biases = from_table(table)
    r = resize_table(replace(biases, domain=lags_on((3, 3), prefix=1)), (4, 4))
    assert (r.old, r.new, r.before.grid, r.after.grid) == ((3, 3), (4, 4), (5, 5), (7, 7))
    middle = r.table[1:, 0].reshape(7, 7)[3]
    np.testing.assert_allclose(middle[:4], [-2.0787, -1.5248, -0.6706, 0.0], atol=5e-5)
    assert r.table[0] == 7.0


def test_spectra_and_codes_that_stay_are_said_to(run):
    plain = resize_table(load("axial", None, 16, grid=(5, 6)), (5, 6))
    assert plain.moved == pytest.approx(0, abs=1e-12)
    assert (plain.before.distinct, plain.after.nearest) == (30, pytest.approx(plain.before.nearest))
    crowded = table_on((2, 2), np.array([[0.0, 1], [1, 0], [1, 0], [0, 1]]))
    r = resize_table(crowded, (3, 3), "bilinear")
    assert (r.before.distinct, r.after.distinct, r.after.nearest) == (2, 3, 0.0)
    assert r.verdict == "not distinct"


def test_pairs_that_meet_unseen_phases_are_named(run):
    y, _ = both("axial:convention=mae", (14, 10), (24, 10)).unseen
    omega = 1e4 ** (-np.arange(16) / 16)
    assert y.which == np.flatnonzero(omega * 13 < 2 * np.pi).tolist()
    arguments = ["axial:convention=mae", "--d", 64, "--from", "14x10", "--to", "24x10"]
    (record,) = run("resize", *arguments, "--json").results
    assert [f["code"] for f in record["findings"]] == ["unseen-phases"]
    assert record["unseen"][0]["which"] == y.which


def test_a_config_is_a_formula_too(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {"model_type": "dinov3_vit", "hidden_size": 128, "num_attention_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(config | {"image_size": 96, "patch_size": 16}))
    (record,) = run("resize", "config.json", "--to", "8x9", "--json").results
    assert (record["from"], record["to"]) == ([6, 6], [8, 9])
    assert [one["unseen"] for one in record["unseen"]] == [0, 0]


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


def test_rotations_are_told_as_they_are_computed():
    r = both("axial-rope:convention=dinov3", (6, 6), (9, 8))
    new = load("axial-rope:convention=dinov3", None, 64, grid=(9, 8)).table()
    apart = np.linalg.norm(new[:, None] - new, axis=-1)[~np.eye(72, dtype=bool)].min()
    assert r.after.nearest == pytest.approx(apart / np.linalg.norm(new, axis=1).max())
    assert (r.verdict, r.method, r.methods) == ("computed anew", "anew", [])
    added = both("axial:convention=detr", (6, 6), (9, 8))
    assert (added.verdict, added.method) == ("still distinct", "bicubic")


def test_biases_of_a_network_are_computed_anew(run, tmp_path):
    """Displacements stay divided by the window of pretraining, with or without its parameter."""
    for spec, first in (("swin2", (8, 8)), ("swin2:pretrained=5x5", (5, 5))):
        r = pefourier.resize(spec, (16, 16), grid=(8, 8), d=3)
        wanted = load("swin2", None, 3, grid=(16, 16), pretrained=first).table()
        np.testing.assert_array_equal(r.table, wanted)
        assert (r.verdict, r.after.distinct) == ("computed anew", 961)
    by_name = ["resize", "swin2", "--from", "8x8", "--to", "16x16", "--d", 3]
    run(*by_name, "--method", "antialias", "--out", tmp_path / "anti.npy")
    asked = pefourier.resize("swin2", (16, 16), grid=(8, 8), d=3, method="antialias")
    np.testing.assert_array_equal(np.load(tmp_path / "anti.npy"), asked.table)
    assert np.abs(asked.table - wanted).max() > 1e-4
    assert run(*by_name, "--json").results[0]["method"] == "anew"


@pytest.mark.parametrize("name", ["axial", "axial-rope"])
def test_a_grid_within_a_spec_is_that_from_which(name):
    written = pefourier.resize(f"{name}:grid=3x4,rho=100", (6, 5), d=16)
    asked = pefourier.resize(f"{name}:rho=100", (6, 5), d=16, grid=(3, 4))
    assert (written.old, written.unseen) == ((3, 4), asked.unseen)
    np.testing.assert_array_equal(written.table, asked.table)


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
    assert "[unseen-phases]" in text
    assert "cosine of neighbours" in text
    assert run("resize", "t.npy", *sides, "--csv").out.startswith(
        "encoding,spec,method,norm_ratio,neigh"
    )


@pytest.mark.parametrize(
    ("name", "key", "kind"),
    [("t.npy", "", "float16"), ("t.npz", "#pe", "float32"), ("t.safetensors", "#pe", "bfloat16")],
)
def test_what_is_written_has_the_type_and_the_axes_of_what_was_read(
    name, key, kind, run, tmp_path, monkeypatch
):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    monkeypatch.chdir(tmp_path)
    table = torch.randn(1, 13, 4, generator=torch.Generator().manual_seed(0))
    table = table.to(getattr(torch, kind))
    if kind == "bfloat16":
        save_file({"pe": table}, name)
    else:
        array = table.numpy()
        np.save(name, array) if name == "t.npy" else np.savez(name, pe=array)
    sides = ["--from", "3x4", "--to", "6x5", "--prefix", "1"]
    made = pefourier.resize(f"{name}{key}", (6, 5), grid=(3, 4), prefix=1).table
    called = "codes" if name == "t.npy" else "pe"
    for out in ("o.npy", "o.npz", "o.safetensors", "o.csv"):
        assert run("resize", f"{name}{key}", *sides, "--out", out).status == 0
        read, _ = read_table(out)
        assert array_names(out) == [called if out in ("o.npz", "o.safetensors") else ""]
        wide = {"o.csv": "float64"}.get(out, kind).replace("bfloat16", "float32")
        assert read.dtype == wide
        own = made.astype(kind.replace("bfloat16", "float32"))
        assert np.array_equal(read, own)
    assert np.load("o.npy").shape == (1, 31, 4)


def test_a_single_row_of_points_is_resized_by_the_command_too(run, tmp_path):
    np.save(tmp_path / "row.npy", load("axial", None, 16, grid=(1, 14)).table())
    done = run("resize", tmp_path / "row.npy", "--from", "1x14", "--to", "2x20", "--json")
    assert (done.status, done.err.count("Traceback")) == (0, 0), done.err
    made = resize_table(table_on((1, 14), np.load(tmp_path / "row.npy")), (2, 20))
    assert (made.old, made.new, made.table.shape) == ((1, 14), (2, 20), (40, 16))
    assert made.verdict == "no longer distinct"


def test_the_function_compares_with_the_formula_on_the_new_grid():
    found = pefourier.resize("axial", (6, 5), grid=(4, 3), d=16)
    expected = both("axial", (4, 3), (6, 5), d=16)
    assert found.unseen == expected.unseen
    table = load("axial", None, 16, grid=(4, 3)).table()
    assert pefourier.resize(table, (6, 5), grid=(4, 3)).unseen is None


@pytest.mark.parametrize("to", [(24, 24), (21, 13)])
def test_rounding_makes_no_codes_differ(to):
    """Codes of rows alone stay those of rows; once rounding of the sums made all 576 differ."""
    rows = load("sinusoidal", 14, 32).table()
    found = pefourier.resize(np.repeat(rows, 14, axis=0), to, grid=(14, 14))
    assert (found.before.distinct, found.after.distinct) == (14, to[0])


def test_a_table_on_no_grid_is_a_line_where_one_side_is_asked_for(rng):
    table = rng.normal(size=(100, 8))
    asked = pefourier.resize(table, (150,)).table
    np.testing.assert_array_equal(asked, pefourier.resize(table, (150,), grid=(100,)).table)
    with pytest.raises(PefourierError, match="give its sides, as --from 7x14"):
        pefourier.resize(table[:98], (15, 10))


@pytest.mark.parametrize(
    ("name", "to", "rows"),
    [
        ("rel_pos_h", (8, 12), 15),
        ("rel_pos_w", (8, 12), 23),
        ("rel_pos_t", (4, 8, 12), 7),
        ("rel_pos_h", (15,), 15),
        ("rel_pos_h", (8,), "--to 15 "),
        ("rel_pos_t", (8, 8), "no grid is known"),
    ],
)
def test_lags_of_an_axis_are_resized_for_the_sides_of_a_map(name, to, rows, tmp_path):
    table = np.random.default_rng(0).normal(size=(27, 8))
    np.savez(tmp_path / "sam.npz", **{name: table})
    if isinstance(rows, str):
        with pytest.raises(PefourierError, match=rows):
            pefourier.resize(f"{tmp_path}/sam.npz", to)
    else:
        made = pefourier.resize(f"{tmp_path}/sam.npz", to, method="bilinear").table
        at = np.clip((np.arange(rows) + 0.5) * 27 / rows - 0.5, 0, 26)
        expected = [np.interp(at, np.arange(27), column) for column in table.T]
        np.testing.assert_allclose(made, np.transpose(expected), atol=1e-12)


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "antialias"])
@pytest.mark.parametrize("prefix", [0, 2])
@pytest.mark.parametrize(
    ("old", "new"), [((4, 4), (6, 6)), ((5, 7), (9, 4)), ((6, 6), (3, 3)), ((1, 9), (2, 20))]
)
def test_a_grid_is_resized_as_torch_does(old, new, prefix, method):
    torch = pytest.importorskip("torch")
    table = np.random.default_rng(0).normal(size=(prefix + np.prod(old), 5))
    planes = torch.tensor(table[prefix:]).reshape(1, *old, 5).permute(0, 3, 1, 2)
    mode = "bilinear" if method == "bilinear" else "bicubic"
    expected = torch.nn.functional.interpolate(
        planes, new, mode=mode, align_corners=False, antialias=method == "antialias"
    )
    expected = expected.permute(0, 2, 3, 1).reshape(-1, 5).numpy()
    found = pefourier.resize(table, new, grid=old, prefix=prefix, method=method)
    np.testing.assert_allclose(found.table[prefix:], expected, atol=1e-12)
    np.testing.assert_array_equal(found.table[:prefix], table[:prefix])
    (own,) = (m for m in found.methods if m.method == method)
    assert own.largest_difference == 0
    for other in found.methods:
        made = pefourier.resize(table, new, grid=old, prefix=prefix, method=other.method).table
        assert other.largest_difference == pytest.approx(np.abs(made - found.table).max())


def test_the_four_methods_are_compared(run, tmp_path):
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(12, 5)))
    sides = ["--from", "3x4", "--to", "6x5"]
    (record,) = run("resize", tmp_path / "t.npy", *sides, "--json").results
    names = ["bicubic", "bilinear", "antialias", "fourier"]
    assert [one["method"] for one in record["methods"]] == names
    assert run("resize", tmp_path / "t.npy", *sides, "--method", "dinov2").status == 2


@pytest.mark.parametrize(("old", "new"), [((16,), (40,)), ((3, 4), (3, 4)), ((5, 5), (9, 12))])
def test_waves_added_with_zeros_come_back(old, new):
    """By fourier a table that was made larger and then as small as it was is itself."""
    table = np.random.default_rng(0).normal(size=(int(np.prod(old)), 3))
    larger = pefourier.resize(table, new, grid=old, method="fourier").table
    again = pefourier.resize(larger, old, grid=new, method="fourier").table
    np.testing.assert_allclose(again, table, atol=1e-12)


@pytest.mark.parametrize("name", ["t.npy", "./t.npy"])
def test_an_input_is_never_replaced(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    table = np.random.default_rng(0).normal(size=(16, 4))
    np.save("t.npy", table)
    done = run("resize", "t.npy", "--from", "4x4", "--to", "5x5", "--out", name)
    assert (done.status, done.out) == (2, "")
    np.testing.assert_array_equal(np.load("t.npy"), table)

"""What resizing does to tables, and to formulas."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from grids import table_on

import pefourier
from pefourier.analysis.resize import by_cycles, resize_table, similarities
from pefourier.encodings import load
from pefourier.encodings.domain import lags_on
from pefourier.encodings.encoding import from_table
from pefourier.encodings.sources.tables import array_names, read_table
from pefourier.errors import PefourierError


def both(spec, old, new, d=64, **facts):
    one, other = (load(spec, None, d, grid=grid) for grid in (old, new))
    return resize_table(one, new, formula=other, **facts)


def test_rows_before_the_grid_are_kept():
    table = np.random.default_rng(0).normal(size=(2 + 12, 5))
    r = resize_table(table_on((3, 4), table, prefix=2), (6, 5), "timm")
    assert (r.table.shape, r.prefix, r.old, r.new) == ((32, 5), 2, (3, 4), (6, 5))
    np.testing.assert_array_equal(r.table[:2], table[:2])


def test_the_fourier_method_is_compared_where_it_is_asked_for():
    enc = table_on((3, 4), np.random.default_rng(0).normal(size=(12, 5)))
    named = {
        method: {one.method for one in resize_table(enc, (6, 5), method).methods}
        for method in ("bicubic", "fourier")
    }
    assert named["fourier"] - named["bicubic"] == {"fourier"}


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
        assert [len(omega) for omega in one.omega] == list(one.density.shape)
        assert [m.sum() for m in one.marginals] == pytest.approx([1.0] * len(old))
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
    both = r.table[1:, 0].reshape(7, 7)[1:6, 1:6]  # displacements -2 … 2
    assert r.logits == [np.abs(both - table[1:, 0].reshape(5, 5)).max()]
    assert "From a window of 3x3 to one of 4x4 the biases are stretched 1.4 times" in r.conclusion
    assert f"a logit changes by up to {r.logits[0]:.3g} (by head" in r.conclusion
    assert "code" not in r.conclusion.replace("own code", "")


def test_spectra_and_codes_that_stay_are_said_to(run):
    plain = resize_table(load("axial", None, 16, grid=(5, 6)), (5, 6))
    assert plain.moved == pytest.approx(0, abs=1e-12)
    assert (plain.before.distinct, plain.after.nearest) == (30, pytest.approx(plain.before.nearest))
    crowded = table_on((2, 2), np.array([[0.0, 1], [1, 0], [1, 0], [0, 1]]))
    r = resize_table(crowded, (3, 3), "bilinear")
    assert (r.before.distinct, r.after.distinct, r.after.nearest) == (2, 3, 0.0)
    assert "only 3 of 9 codes differ" in r.conclusion


def test_pairs_that_meet_unseen_phases_are_named(run):
    y, _ = both("axial:convention=mae", (14, 10), (24, 10)).unseen
    omega = 1e4 ** (-np.arange(16) / 16)
    assert y.which == np.flatnonzero(omega * 13 < 2 * np.pi).tolist()
    arguments = ["axial:convention=mae", "--d", 64, "--from", "14x10", "--to", "24x10"]
    assert f"never seen, counted from 0: y {y.which[0]} to 15" in " ".join(
        run("resize", *arguments).out.split()
    )


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


def test_how_far_a_formula_goes_beyond_training_is_told(run):
    y, x = both("axial-rope:convention=dinov3", (14, 10), (48, 10)).unseen
    assert (y.reach_ratio, y.reach_limit) == (pytest.approx(47 / 48 * 14 / 13), approx_limit(14))
    assert (x.reach_ratio, x.reach_limit) == (pytest.approx(1), approx_limit(10))
    counted, _ = both("axial", (14, 10), (24, 10)).unseen
    assert (counted.reach_ratio, counted.reach_limit) == (pytest.approx(23 / 13), None)
    arguments = ["axial-rope:convention=dinov3", "--d", 64, "--from", "14x14", "--to", "48x48"]
    said = " ".join(run("resize", *arguments).out.split())
    assert "turn further than on 14x14 by 5.45 %, and by at most 7.69 % however large" in said
    arguments[-1] = "7x7"
    assert "No pair turns further than on 14x14" in " ".join(run("resize", *arguments).out.split())


def approx_limit(side):
    return pytest.approx(side / (side - 1))


def test_rotations_are_told_as_they_are_computed():
    r = both("axial-rope:convention=dinov3", (6, 6), (9, 8))
    new = load("axial-rope:convention=dinov3", None, 64, grid=(9, 8)).table()
    apart = np.linalg.norm(new[:, None] - new, axis=-1)[~np.eye(72, dtype=bool)].min()
    assert r.anew.nearest == pytest.approx(apart / np.linalg.norm(new, axis=1).max())
    assert r.conclusion.startswith("STILL DISTINCT. Computed anew on 9x8, all 72 codes differ")
    assert r.conclusion.endswith("interpolation is for tables.")
    assert (r.method, r.methods, r.after.nearest) == ("anew", [], r.anew.nearest)
    added = both("axial:convention=detr", (6, 6), (9, 8)).conclusion
    assert "from 6x6 to 9x8 they differ" in added
    assert "Computed anew on 9x8, all 72 codes differ" in added


def test_biases_of_a_network_are_computed_anew(run, tmp_path):
    """Displacements stay divided by the window of pretraining, with or without its parameter."""
    for spec, first in (("swin2", (8, 8)), ("swin2:pretrained=5x5", (5, 5))):
        r = pefourier.resize(spec, (16, 16), grid=(8, 8), d=3)
        wanted = load("swin2", None, 3, grid=(16, 16), pretrained=first).table()
        np.testing.assert_array_equal(r.table, wanted)
        assert r.conclusion.startswith("STILL DISTINCT. Computed anew on 16x16, all 961 codes")
        assert f"divided by the pretrained window, {first[0]}x{first[0]} less 1" in r.conclusion
        assert r.conclusion.endswith("interpolation does not apply.")
        assert "Take the method" not in r.conclusion
    by_name = ["resize", "swin2", "--from", "8x8", "--to", "16x16", "--d", 3]
    run(*by_name, "--method", "timm", "--out", tmp_path / "timm.npy")
    asked = pefourier.resize("swin2", (16, 16), grid=(8, 8), d=3, method="timm")
    np.testing.assert_array_equal(np.load(tmp_path / "timm.npy"), asked.table)
    assert np.abs(asked.table - wanted).max() > 1e-4
    assert run(*by_name, "--json").results[0]["method"] == "anew"


@pytest.mark.parametrize("name", ["axial", "axial-rope"])
def test_a_grid_within_a_spec_is_that_from_which(name):
    written = pefourier.resize(f"{name}:grid=3x4,rho=100", (6, 5), d=16)
    asked = pefourier.resize(f"{name}:rho=100", (6, 5), d=16, grid=(3, 4))
    assert (written.old, written.anew.nearest) == ((3, 4), asked.anew.nearest)
    np.testing.assert_array_equal(written.table, asked.table)


def test_code_that_keeps_phases_by_a_reference_is_named(run):
    """EVA-02's phases were said to be new; asked as the sentence says, they stay within a step."""
    line = ["--from", "16x16", "--to", "32x32", "--d", 64, "--json"]
    (found,) = run("resize", "axial-rope:convention=eva02", *line).results
    assert found["unseen"][0]["unseen"] > 0
    asked = found["conclusion"].partition("ask '")[2].partition("'")[0]
    (kept,) = run("resize", asked, *line).results
    assert [one["unseen"] for one in kept["unseen"]] == [0, 0]
    (counted,) = run("resize", "axial-rope:convention=rope-vit", *line).results
    assert "unless coordinates" not in counted["conclusion"]


def test_a_line_of_positions_is_told_in_words_of_positions(run, tmp_path, rng):
    np.save(tmp_path / "wpe.npy", rng.normal(size=(16, 8)))
    said = " ".join(run("resize", tmp_path / "wpe.npy", "--to", 40).out.split())
    assert "The code of position p moves to about 2.5 p: fine-tune with the new table" in said
    assert "keep the 16 rows and train new ones behind them" in said
    assert "bilinear (linear)" in said
    assert not any(word in said for word in ("A4 (", "weights were trained with", " x 0."))
    r = pefourier.resize(str(tmp_path / "wpe.npy"), to=(40,))
    codes = r.table / np.sqrt((r.table**2).sum(axis=1).mean())
    apart = np.linalg.norm(codes[:, None] - codes, axis=2) + 9 * np.eye(40)
    assert r.after.closest in ([[0], [1]], [[38], [39]])  # beyond the first row or the last
    assert r.after.nearest == pytest.approx(apart.min())
    assert r.after.inside == pytest.approx(apart[1:-1, 1:-1].min())  # 0 and 39 are beyond
    assert f"(at the edge; farther in {r.after.inside:.3g})" in said


def test_a_table_that_is_drawn_is_not_computed_anew(run):
    (record,) = run("resize", "learned", "--d", 8, "--from", "4x4", "--to", "5x5", "--json").results
    assert record["anew"] is None
    drawn = ["mixed-rope", "--d", 8, "--from", "4x4", "--to", "5x5", "--json"]
    assert run("resize", *drawn).results[0]["anew"]["distinct"] == 25


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
    assert "phases never seen" in " ".join(text.split())
    assert "cosine of neighbours" in text
    assert re.search(r"different codes +12 +30\b", text)
    assert run("resize", "t.npy", *sides, "--csv").out.startswith("method,norm_ratio,neighbours_0")


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
    assert "from 1x14 to 2x20 they differ" in made.conclusion


def test_the_function_compares_with_the_formula_on_the_new_grid():
    found = pefourier.resize("axial", (6, 5), grid=(4, 3), d=16)
    expected = both("axial", (4, 3), (6, 5), d=16)
    assert found.anew is not None
    assert (found.anew.nearest, found.anew.cycles) == (expected.anew.nearest, expected.anew.cycles)
    assert found.unseen == expected.unseen
    assert (
        pefourier.resize(load("axial", None, 16, grid=(4, 3)).table(), (6, 5), grid=(4, 3)).anew
        is None
    )


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

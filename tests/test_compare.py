"""Equal, equivalent or different: transformations put on and found again, small and large."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import pefourier
from pefourier.analysis.compare import compare
from pefourier.analysis.faithful import assess
from pefourier.answers.compare import (
    conclude_comparison,
    settings_apart,
    value_of_setting,
)
from pefourier.encodings import load
from pefourier.encodings.domain import lattice
from pefourier.encodings.encoding import as_encoding, from_table
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FORMATS, rounded

SIZES = [(40, 16), (300, 64), (9, 32)]


def stored(table, dtype=np.float32):
    return from_table(table.astype(dtype), eps=float(np.finfo(dtype).eps))


@pytest.mark.parametrize("spec", ["sinusoidal", "dft", "learned", "none", "onehot"])
def test_equal_to_the_bit(spec):
    c = compare(load(spec, 20, 8), load(spec, 20, 8).table())
    assert (c.verdict, c.bitwise, c.by, c.max_difference) == ("equal", True, {}, 0.0)
    assert (c.first_difference, c.largest_difference) == (None, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("spec", ["sinusoidal", "dft", "learned"])
def test_equal_within_storage(spec, dtype):
    table = load(spec, 60, 16).table()
    c = compare(table, stored(table, dtype))
    assert (c.verdict, c.bitwise) == ("equal", False)
    assert 0 < c.max_difference <= np.finfo(dtype).eps * np.abs(table).max()
    assert (c.first_difference, c.largest_difference is None) == (None, False)
    assert c.max_difference <= c.tolerance


def test_equal_within_phases_in_float32_but_not_beyond():
    exact = load("sinusoidal", 4096, 64)
    frequencies = exact.measure.frequencies.astype(np.float32)
    phase = np.arange(4096, dtype=np.float32)[:, None] * frequencies
    table = np.stack([np.sin(phase), np.cos(phase)], axis=-1).reshape(4096, 64)
    c = compare(exact, stored(table))
    assert c.verdict == "equal"
    assert 1e-4 < c.max_difference < c.tolerance < 2e-3
    assert compare(exact.table(), stored(table)).verdict == "equal"
    table[10, 3] += 1e-4  # early phases are hardly rounded
    c = compare(exact, stored(table))
    assert (c.verdict, c.first_difference) == ("different", (10, 3))


@pytest.mark.parametrize("kept", ["float16", "bfloat16", "in float32", "both"])
@pytest.mark.parametrize("way", ["pow", "exp", "exact"])
@pytest.mark.parametrize(
    ("length", "d", "rho"), [(300, 32, 1e4), pytest.param(2048, 64, 5e5, marks=pytest.mark.long)]
)
def test_dumps_of_16_bits_agree_to_half_a_unit_and_noise_is_found(length, d, rho, way, kept, rng):
    """As models make them, or cast from the formula; noise of a unit in late rows is found."""
    exact = load(f"rope:layout=halves,rho={rho}", length, d)
    steps, places = torch.arange(0, d, 2).float(), torch.arange(length).float()
    inv = {"pow": 1 / rho ** (steps / d), "exp": torch.exp(steps * (-np.log(rho) / d))}.get(way)
    form = torch.float16 if kept == "float16" else torch.bfloat16

    def dump(noise):
        phases = None if inv is None else torch.outer(places, inv)
        table = torch.from_numpy(exact.table())
        if inv is not None:
            table = torch.cat([phases.cos(), phases.sin()], -1)
        made = (table + torch.from_numpy(noise)).to(form)
        return as_encoding(made.float() if kept == "in float32" else made)

    late = rng.normal(size=(length, d)) * (np.arange(length) > 0.7 * length)[:, None]
    one = as_encoding(torch.from_numpy(exact.table()).half()) if kept == "both" else exact
    sound = compare(one, dump(np.zeros((length, d))))
    assert (sound.verdict, sound.by, sound.same) == ("equal", {}, True)
    noisy = compare(one, dump(late * torch.finfo(form).eps))
    assert (noisy.verdict, noisy.same) == ("different", False)
    assert noisy.first_difference[0] > 0.7 * length
    assert "in different ways" not in noisy.conclusion
    allowed = compare(one, dump(late * torch.finfo(form).eps), tolerance=noisy.max_difference)
    assert "but not what they differ by" in allowed.conclusion


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("spec", ["sinusoidal", "dft", "learned"])
def test_order_signs_and_scale_are_found(spec, size, dtype, rng):
    enc = load(spec, *size)
    order, signs = rng.permutation(size[1]), rng.choice([-1, 1], size[1])
    c = compare(enc, stored(2.5 * enc.table()[:, order] * signs, dtype))
    assert c.verdict == "equivalent"
    assert c.by == {"columns": order.tolist(), "signs": signs.tolist(), "scale": 2.5}
    assert c.max_difference <= c.tolerance


@pytest.mark.parametrize("scale", [1.1386294361, 1.0000005])
def test_a_scale_of_many_digits_leaves_what_rounding_explains(scale):
    """Told in six digits, it left more than that, and columns were said to be rotated."""
    table = 1.1386294361 * load("sinusoidal", 300, 64).table()
    found = compare(stored(table), stored(scale * table))
    assert (found.verdict, list(found.by)) == ("equivalent", ["scale"])
    assert found.by["scale"] == pytest.approx(scale, rel=2e-7)


@pytest.mark.parametrize("offset", [1, 2, -3, 7])
@pytest.mark.parametrize("spec", ["sinusoidal:layout=halves", "learned"])
def test_offsets_are_found(spec, offset):
    table = load(spec, 60, 16).table()
    first, second = (table, table[offset:]) if offset > 0 else (table[-offset:], table)
    c = compare(first, second)
    assert (c.verdict, c.by) == ("equivalent", {"offset": offset})
    assert c.max_difference == 0
    assert c.lengths == (len(first), len(second))
    assert c.length == 60 - abs(offset)


@pytest.mark.parametrize("spec", ["sinusoidal", "learned"])
def test_reversed_rows_are_no_rotation_of_the_columns(spec):
    """Inner products are the same, and every position has another's code."""
    table = load(spec, 60, 16).table()
    found = compare(table, table[::-1])
    assert (found.verdict, found.by) == ("equivalent", {"rows": "reversed"})
    assert not found.same
    assert "read the other backwards" in found.conclusion


def test_rows_of_a_grid_that_are_moved_are_a_difference():
    """A zero row in front and the last point lost were one encoding, moved by -1 positions."""
    table = on_grid("mae", (6, 8)).table()
    late = np.vstack([np.zeros((1, 64)), table[:-1]])
    found = compare(*(replace(from_table(t), domain=lattice((6, 8))) for t in (table, late)))
    assert (found.verdict, found.same) == ("different", False)
    assert found.max_difference == np.abs(table - late).max()
    assert "row s of the second is row s - 1 of the first" in found.conclusion
    in_line = compare(table, late)
    assert in_line.by == {"offset": -1, "zero_rows": 1}


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("sinusoidal", "sinusoidal", True),
        ("sinusoidal", "sinusoidal:layout=halves", False),
        ("sinusoidal", "sinusoidal:offset=2", False),
        ("rope", "rope:layout=interleaved", False),
    ],
)
def test_what_trained_weights_find_the_same(one, two, same):
    assert compare(load(one, 40, 8), load(two, 40, 8)).same == same


LAYOUTS = [
    ("sinusoidal", "sinusoidal:layout=halves", "interleaved to halves"),
    ("sinusoidal:layout=halves", "sinusoidal", "halves to interleaved"),
    ("rope", "sinusoidal:layout=halves", "halves exchanged"),
    ("rope:layout=interleaved", "sinusoidal", "neighbours exchanged"),
]


@pytest.mark.parametrize(("one", "two", "layout"), LAYOUTS, ids=str)
def test_layouts_have_names(one, two, layout):
    a, b = load(one, 50, 12), load(two, 50, 12)
    c = compare(a, b)
    assert (c.verdict, c.by["layout"]) == ("equivalent", layout)
    np.testing.assert_allclose(a.table()[:, c.by["columns"]], b.table(), atol=1e-14)


@pytest.mark.parametrize("spec", ["sinusoidal", "learned"])
def test_the_weakest_equivalence_is_a_rotation(spec, rng):
    enc = load(spec, 80, 16)
    turn = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    c = compare(enc, 3 * enc.table() @ turn)
    assert (c.verdict, c.by) == ("equivalent", {"rotation": True, "scale": 3.0})
    assert c.max_difference < 1e-13
    other = enc.table() @ turn
    other[33] *= 1 + 1e-6
    assert compare(enc, other).verdict == "different"


def test_shifted_sinusoids_of_any_offset_are_a_rotation():
    one = load("sinusoidal", 60, 16)
    phase = np.multiply.outer(np.arange(60) + 0.5, one.measure.frequencies)
    c = compare(one, np.hstack([np.sin(phase), np.cos(phase)]))
    assert c.by == {"rotation": True}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("sinusoidal", "sinusoidal:divisor=d/2-1"),
        ("sinusoidal", "sinusoidal:rho=1000"),
        ("sinusoidal", "dft"),
        ("learned", "learned:seed=1"),
        ("none", "sinusoidal"),
        ("sinusoidal", "none"),
    ],
)
def test_different(one, two):
    a, b = load(one, 50, 16), load(two, 50, 16)
    c = compare(a, b)
    difference = np.abs(a.table() - b.table())
    assert (c.verdict, c.bitwise, c.by) == ("different", False, {})
    assert c.max_difference == difference.max()
    assert difference[c.largest_difference] == difference.max()
    first = np.argwhere(difference > 1e-9)[0]
    assert c.first_difference == tuple(first)


@pytest.mark.parametrize("late", [False, True])
def test_tables_are_compared_in_blocks_as_whole(monkeypatch, rng, late):
    """Columns that stay, turn, and move; and one number of the last block that none explains."""
    a = rng.normal(size=(70, 6))
    b = 3.0 * a[:, [0, 1, 3, 2, 4, 5]] * [1, -1, 1, -1, 1, 1]
    b[69, 4] += late
    whole = compare(from_table(a), from_table(b))
    monkeypatch.setattr("pefourier.analysis.compare.BLOCK", 50)
    parts = compare(from_table(a), from_table(b))
    assert parts.to_dict() == whole.to_dict()
    assert (parts.verdict, parts.by.get("columns")) == (
        ("different", None) if late else ("equivalent", [0, 1, 3, 2, 4, 5])
    )


def test_one_number_is_told_with_its_place():
    table = load("sinusoidal", 80, 16).table()
    other = table.copy()
    other[50, 3] += 1e-3
    c = compare(table, other)
    assert (c.verdict, c.first_difference, c.largest_difference) == ("different", (50, 3), (50, 3))
    assert c.max_difference == pytest.approx(1e-3)


def test_other_dimensions_are_different():
    c = compare(load("sinusoidal", 8, 4), load("sinusoidal", 9, 6))
    assert (c.verdict, c.dimensions, c.max_difference) == ("different", (4, 6), None)


def test_large_tables(rng):
    enc = load("sinusoidal", 2048, 512)
    order = rng.permutation(512)
    assert compare(enc, enc.table()[:, order]).by == {"columns": order.tolist()}
    shifted = load("sinusoidal:offset=2,layout=halves", 2048, 512)
    assert compare(enc, shifted).by["offset"] == 2


def on_grid(convention, sides=(7, 11), d=64):
    return load(f"axial:convention={convention}", None, d, grid=sides)


TURNS = [2 * np.pi / 7, 2 * np.pi / 11]
WITHIN = "halves to interleaved, within each axis"
BACK = "interleaved to halves, within each axis"
EXCHANGED = {"order": "xy to yx", "layout": WITHIN}
ON_GRIDS = [  # what leads from the first to the second
    ("mae", "transformers", {"order": "xy to yx", "layout": "halves exchanged"}),
    ("mae", "timm", {"order": "xy to yx"}),
    ("transformers", "detr", {"coordinates": TURNS, "offset": [1.0, 1.0], "layout": WITHIN}),
    ("transformers", "mae", {"order": "yx to xy", "layout": "halves exchanged"}),
    ("mae", "rt-detr", {"rows": "transposed"}),
    ("detr", "deformable-detr", {"offset": [-0.5, -0.5]}),
    ("mae", "detr", EXCHANGED | {"coordinates": TURNS, "offset": [1.0, 1.0]}),
    (
        "detr",
        "mae",
        {"coordinates": [7 / 2 / np.pi, 11 / 2 / np.pi], "offset": [-1.0, -1.0]}
        | {"order": "yx to xy", "layout": BACK},
    ),
    ("mae", "mae,coordinates=closed", {"coordinates": [2 / 6, 2 / 10], "offset": [-3.0, -5.0]}),
    ("mae", "mae,coordinates=centred", {"coordinates": [2 / 7, 2 / 11], "offset": [-3.5, -5.5]}),
]


BLOCKS = [("mae", "mae,rows=blocks", "blocks"), ("mae,rows=blocks", "mae", "out of blocks")]


@pytest.mark.parametrize(("one", "other", "rows"), BLOCKS)
def test_blocks_of_points_are_named(one, other, rows):
    found = compare(*(on_grid(convention, (6, 10)) for convention in (one, other)))
    assert (found.verdict, found.by) == ("equivalent", {"rows": rows})
    assert "2 x 2 points" in found.conclusion


@pytest.mark.parametrize(("one", "other", "by"), ON_GRIDS)
@pytest.mark.parametrize("tables", ["neither", "first", "second", "both"])
def test_what_leads_from_one_convention_to_another_is_named(one, other, by, tables):
    a, b = on_grid(one), on_grid(other)
    if tables in ("first", "both"):
        a = replace(from_table(a.table()), domain=a.domain)
    if tables in ("second", "both"):
        b = replace(from_table(b.table()), domain=b.domain)
    found = compare(a, b)
    assert found.verdict == "equivalent"
    told = {k: v for k, v in found.by.items() if k != "columns"}
    assert told.keys() == by.keys()
    for key, value in by.items():
        assert told[key] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-6))
    if "coordinates" in by:  # once THE SAME, SHIFTED
        assert found.conclusion.startswith("RESCALED. One formula at other coordinates, ")
        advice = "and reorder its columns" if "layout" in by else "for weights trained"
        assert f"rescale one's coordinates {advice}" in found.conclusion
        assert not found.same
        tables_by_formula(on_grid(one), on_grid(other), found.by)


def tables_by_formula(a, b, by):
    """All that is named leads from the first table to the second: its phases, then its columns."""
    pairs, axes = np.array(a.measure.frequencies), a.domain.coordinates(a.domain.x)
    points = (axes + a.measure.offset + by["offset"]) * by["coordinates"]
    sines, cosines = (wave(points @ pairs.T) for wave in (np.sin, np.cos))
    first = np.hstack([sines, cosines])
    plain = (axes + a.measure.offset) @ pairs.T
    waves = np.hstack([np.sin(plain), np.cos(plain)])
    places = [int(np.abs(waves - c[:, None]).sum(axis=0).argmin()) for c in a.table().T]
    moved = first[:, places][:, by.get("columns", slice(None))]
    assert np.abs(moved - b.table()).max() < 1e-9


def test_exchanged_axes_of_a_wide_table_are_named():
    """Of 768 columns on 14 x 14 points many are alike; a square grid has two words for it."""
    table = load("axial:convention=mae", None, 768, grid=(14, 14)).table().astype(np.float32)
    one, two = (from_table(t, eps=1.2e-7) for t in (table, np.roll(table, 384, axis=1)))
    found = compare(*(replace(enc, domain=lattice((14, 14))) for enc in (one, two)))
    told = {k: v for k, v in found.by.items() if k != "columns"}
    assert told == {"order": "xy to yx", "layout": "halves exchanged"}
    behind = np.vstack([table[:1] * 0, table])  # a port that dropped MAE's class token
    for place in ({"grid": "14x14"}, {"grid": (14, 14), "prefix": 1}):
        found = pefourier.compare(behind, np.roll(table, 384, axis=1), **place)
        told = {k: v for k, v in found.by.items() if k != "columns"}
        assert told == {"order": "xy to yx", "layout": "halves exchanged", "prefix": [1, 0]}
        assert found.lengths == (197, 196)
        assert not found.same
        assert found.conclusion.startswith("AXES EXCHANGED. ")
    assert pefourier.compare(behind, "axial:convention=mae", grid=(14, 14)).same
    with pytest.raises(PefourierError, match="197 rows do not fit a grid of 14x13"):
        pefourier.compare(behind, table, grid="14x13")
    assert "before them (class, register tokens) the first has 1 row, the second 0." in (
        found.conclusion
    )


def said_of(one, other, sides):
    return compare(on_grid(one, sides), on_grid(other, sides)).conclusion


def test_what_exchanged_axes_mean_is_said():
    """For trained weights columns are exchanged; a model that learns them anew reads either."""
    exchanged = "x and y are exchanged: weights trained with one read the other's rows as columns. "
    anew = "; where training starts anew, it makes no difference."
    halves = said_of("mae", "transformers", (6, 8))
    assert exchanged + "For trained weights swap the halves of the columns" + anew in halves
    ordered = said_of("mae", "timm", (6, 8))
    assert exchanged + "For trained weights put the columns into the other's order" in ordered
    assert halves.startswith("AXES EXCHANGED. ")
    three = (load(f"axial:order={order},grid=2x3x4", None, 24) for order in ("txy", "xyt"))
    assert "t, x and y change places: weights trained with one read" in compare(*three).conclusion
    assert "starts anew, the order of columns alone makes no difference." in (
        said_of("mae", "detr", (6, 8))
    )
    assert "exchanged" not in said_of("detr", "deformable-detr", (6, 8))


def test_transposed_points_are_a_bug_where_the_grid_is_not_square():
    """In the words of check-faithful, which finds which of the two it is."""
    table = from_table(on_grid("rt-detr").table())
    table = replace(table, domain=on_grid("rt-detr").domain)
    told = compare(on_grid("mae"), table).conclusion
    assert told.startswith(
        "THE SAME, REORDERED. The same codes in another order of points: rows run"
    )
    assert "surely a bug in one of the two; check-faithful --grid 7x11 says in which" in told
    findings = assess(table).findings
    assert [f.code for f in findings if f.severity == "error"] == ["grid-transposed"]
    assert "surely" not in said_of("mae", "rt-detr", (6, 6))
    blocks = said_of("mae", "mae,rows=blocks", (6, 10))
    assert "Codes must stand in the order of the tokens" in blocks


@pytest.mark.parametrize("frames", [(), (2,)])
def test_a_transposed_square_is_exchanged_axes(frames):
    on = lattice((*frames, 6, 6))
    table = np.random.default_rng(0).normal(size=(len(on), 5))
    turned = table.reshape(*frames, 6, 6, 5).swapaxes(-3, -2).reshape(-1, 5)
    told = compare(*(replace(from_table(one), domain=on) for one in (table, turned))).conclusion
    assert told.startswith("AXES EXCHANGED. ")
    assert "For trained weights transpose the grid of one table" in told


def test_a_name_alone_is_not_the_convention_of_its_papers():
    bare = load("axial", None, 64, grid=(7, 11))
    equal, mae = (
        replace(from_table(enc.table()), domain=enc.domain) for enc in (bare, on_grid("mae"))
    )
    told = "axial by itself has another convention than MAE and DETR: write axial:convention=mae"
    assert told in compare(equal, bare).conclusion
    assert told in compare(bare, mae).conclusion
    assert "by itself" not in compare(equal, on_grid("transformers")).conclusion
    assert "by itself" not in compare(bare, on_grid("mae")).conclusion


def test_other_grids_and_bases_are_different():
    assert compare(on_grid("mae"), on_grid("dino")).verdict == "different"
    assert compare(on_grid("mae"), on_grid("simple-vit")).verdict == "different"
    assert compare(on_grid("mae"), on_grid("mae", (11, 7))).verdict == "different"


def test_a_square_grid_does_not_hide_transposed_rows():
    square = compare(on_grid("mae", (6, 6)), on_grid("rt-detr", (6, 6)))
    assert square.verdict == "equivalent"
    assert square.by in (
        {"rows": "transposed"},
        compare(on_grid("mae"), on_grid("transformers")).by,
    )


@pytest.mark.parametrize(("levels", "factor"), [(127, 1 / 127), (127, 1), (7, 1 / 7)])
def test_codes_kept_in_few_bits_are_told_by_their_step(levels, factor):
    """Once 8 bits were called a rotation of the columns: phases far out are hardly known."""
    one = load("rope", 32768, 32)
    kept = np.rint(one.table() * levels) * factor
    found = compare(one, kept.astype(np.float32))
    assert (found.verdict, set(found.by) - {"scale"}) == ("equivalent", {"rounded"})
    assert found.by["rounded"] == pytest.approx(1 / levels, rel=1e-3)
    assert found.max_difference <= found.tolerance
    assert "rounded to multiples of" in conclude_comparison(found).text


def waves(n=128, d=64):
    return load("sinusoidal", n, d).table().astype(np.float32).astype(float)


@pytest.mark.parametrize("size", [1e-6, 1e-5])
def test_noise_that_products_hardly_show_is_no_rotation(size, rng):
    """Limits of products are for rounding at its worst; noise beyond that of entries passed."""
    a = waves(64, 16)
    b = a + size * rng.normal(size=a.shape)
    found = compare(stored(a), stored(b))
    assert (found.verdict, found.by) == ("different", {})
    assert found.max_difference == pytest.approx(np.abs(a - b).max(), rel=0.1)
    assert f"They differ by up to {found.max_difference:.3g}" in found.conclusion
    a = np.hstack([a, np.zeros((64, 1))])  # of a column of zeros products show squares alone
    b = a + 1e-4 * rng.normal(size=a.shape) * (a == 0)
    assert compare(stored(a), stored(b)).verdict == "different"


@pytest.mark.parametrize("form", ["bfloat16", "float16"])
@pytest.mark.parametrize("spec", ["sinusoidal", "learned"])
def test_rounding_to_16_bits_counts_in_a_wider_format(spec, form):
    a = load(spec, 128, 64).table()
    kept = rounded(a, FORMATS[form])
    found = compare(stored(a), stored(kept))
    assert (found.verdict, found.by) == ("equal", {})
    assert found.max_difference <= found.tolerance
    moved = compare(stored(np.roll(a, 1, axis=0)), stored(np.roll(kept, -1, axis=1)))
    assert "scale" not in moved.by
    s, j = np.unravel_index(np.abs(a[:9]).argmin(), (9, 64))  # whose rounding is the finest
    kept[s, j] += 0.25 * 2.0 ** -FORMATS[form].digits * np.abs(a).max()
    assert compare(stored(a), stored(kept)).verdict == "different"


@pytest.mark.parametrize("levels", [127, 7])
@pytest.mark.parametrize("turn", [1, -1])
def test_codes_of_8_bits_have_a_scale_of_any_number(levels, turn, rng):
    table = np.cumsum(0.02 * rng.normal(size=(128, 64)), axis=0)
    scale = levels / np.abs(table).max()
    one, two = [stored(table), stored(np.rint(table * scale))][::turn]
    found = compare(one, two)
    assert (found.verdict, set(found.by)) == ("equivalent", {"scale", "rounded"})
    assert found.by["scale"] == pytest.approx(scale**turn, rel=0.1 / levels)
    assert found.max_difference <= found.tolerance


def test_a_rotation_in_its_own_layout_is_not_rewritten():
    """Cosines and sines, each frequency once, are what it has anyway."""
    rope = load("rope", 512, 64)
    found = compare(rope, stored(rounded(rope.table(), FORMATS["bfloat16"])))
    assert (found.verdict, found.by) == ("equal", {})
    noisy = rope.table() + 3e-3 * np.random.default_rng(0).normal(size=(512, 64))
    found = compare(rope, stored(rounded(noisy, FORMATS["bfloat16"])))
    assert not {"part", "times"} & found.by.keys()


@pytest.mark.parametrize("row", ["mean", 0.1])
def test_a_constant_added_to_all_codes_is_named(row):
    a = waves()
    shift = -a.mean(axis=0) if row == "mean" else np.full(64, row)
    found = compare(stored(a), stored(a + shift))
    assert (found.verdict, list(found.by), found.same) == ("equivalent", ["shift"], False)
    assert found.by["shift"] == pytest.approx(shift, abs=1e-6)
    assert "the same constant added to all codes" in found.conclusion
    assert "attention may or may not absorb" in found.conclusion


def test_likeness_is_told_as_it_is_measured():
    told = compare(load("learned", 50, 16), load("learned:seed=1", 50, 16)).conclusion
    assert "inner products without the mean code" in told


def test_a_shift_that_leaves_half_of_the_rows_out_is_none(rng):
    a = rng.normal(size=(40, 16))
    for moved, verdict in ((20, "different"), (5, "equivalent")):
        b = np.vstack([a[moved:], rng.normal(size=(moved, 16))])
        found = compare(stored(a), stored(b))
        assert found.verdict == verdict
    assert "over 35 of 40 positions" in found.conclusion


@pytest.mark.parametrize("spec", ["sinusoidal", "learned"])
def test_rows_in_another_order_are_found(spec, rng):
    table = load(spec, 128, 64).table()
    order = rng.permutation(128)
    found = compare(stored(table), stored(table[order]))
    assert (found.verdict, found.by) == ("equivalent", {"rows": "permuted"})
    assert "THE SAME, REORDERED" in found.conclusion
    other = table[order].copy()
    other[5] = other[6]
    assert compare(stored(table), stored(other)).verdict == "different"


def test_codes_of_8_bits_in_any_scale_are_those_to_half_a_step(rng):
    walk = np.cumsum(rng.normal(size=(100, 48)), axis=0)
    kept = np.rint(walk / np.abs(walk).max() * 127)
    assert compare(walk, kept).verdict == "equivalent"
    kept[50, 7] += 1
    assert compare(walk, kept).verdict == "different"


def test_a_setting_of_one_alone_is_told_without_the_other():
    assert settings_apart({"window": (None, 4.0)}) == "window of the second alone (4)"
    assert settings_apart({"window": (4.0, None)}) == "window of the first alone (4)"


def test_a_few_numbers_of_a_setting_are_told_one_by_one():
    assert value_of_setting((1.0,) * 4) == "(1.0, 1.0, 1.0, 1.0)"
    assert value_of_setting((1.0,) * 5) == "5 numbers"


@pytest.mark.parametrize("size", [1e-2, 1e-3, 1e-6, 1e-17])
@pytest.mark.parametrize("spec", ["sinusoidal", "rope"])
def test_a_tolerance_that_is_given_decides(spec, size, rng):
    """Beyond rounding, or below what rounding explains; a bit more and a bit less than it is."""
    enc = load(spec, 40, 16)
    table = enc.table()
    other = table + size * rng.uniform(-1, 1, table.shape)
    largest = np.abs(table - other).max()
    wide, narrow = (compare(enc, stored(other, np.float64), x * largest) for x in (1.01, 0.99))
    assert (wide.verdict, wide.same, wide.max_difference) == ("equal", True, largest)
    assert (narrow.verdict, narrow.same) == ("different", not largest)
    assert "tolerance you gave" in wide.conclusion
    assert narrow.same or "more than the tolerance you gave" in narrow.conclusion
    assert narrow.same or ("rounding explains" in narrow.conclusion) == (size < narrow.tolerance)
    assert compare(enc, table, 0.0).same


@pytest.mark.parametrize("convention", ["mae", "diffusers"])
def test_a_table_in_float32_is_compared_with_a_formula_of_another_layout(convention):
    """Once an internal error: coordinates were changed for a table whose columns stay in place."""
    table = load(f"axial:convention={convention}", d=32, grid=(4, 5)).table().astype(np.float32)
    r = pefourier.compare(table, "axial:layout=halves", grid=(4, 5))
    assert r.verdict == ("equivalent" if convention == "mae" else "different")


@pytest.mark.parametrize("one", ["rope:rho=5e5", "rope:rho=1e6"])
@pytest.mark.parametrize(
    "other",
    ["llama3,factor=8,original=8192", "linear,factor=4", "yarn,factor=4,original=32"],
)
def test_a_scaling_of_one_table_alone_is_told_in_either_order(one, other):
    """Of tables that nobody declares, as they come out of models."""
    tables = [stored(load(spec, 64, 64).table()) for spec in (one, f"{one},scaling={other}")]
    for a, b in (tables, tables[::-1]):
        c = compare(a, b)
        assert c.verdict == "different"
        assert c.conclusion.startswith("DIFFERENT")


@pytest.mark.parametrize("pair", [(None, "llama3"), ("llama3", None)])
def test_a_scaling_of_one_alone_stands_with_its_settings(pair):
    own = {"factor": tuple(8.0 if name else None for name in pair)}
    which = "second" if pair[1] else "first"
    told = f"scaling of the {which} alone (llama3 (factor 8))"
    assert settings_apart({"scaling": pair, **own}) == told

"""Codes on several axes: equal to public implementations, and to one another where these are."""

import json
from pathlib import Path

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.conventions import read_conventions
from pefourier.errors import PefourierError

FLOAT32 = float(np.finfo(np.float32).eps)


def on(spec, grid, d, **own):
    return load(spec, d=d, grid=grid, **own)


def tolerance(enc):
    """What rounding of float32 phases leaves of sines and cosines."""
    if enc.measure is None:  # rows in another order: phases are below 2 x side
        return 2 * FLOAT32 * (1 + 2 * max(enc.domain.sides))
    phases = enc.measure.phases(enc.domain.places(enc.domain.x[enc.domain.prefix :]))
    return 2 * FLOAT32 * (1 + np.abs(phases).max())


@pytest.fixture(scope="module")
def public():
    return pytest.importorskip("public_axes")


@pytest.mark.parametrize(
    "name", "diffusers transformers cogvideox detr sam2-sine deformable-detr dino".split()
)
def test_a_table_is_that_of_its_public_implementation(public, name):
    grid, d, make = public.TABLES[name]
    enc = on(f"axial:convention={name}", grid, d)
    np.testing.assert_allclose(enc.table(), make(grid, d), atol=tolerance(enc), rtol=0)


@pytest.mark.parametrize(
    "name",
    "dinov3 pixtral qwen2-vl qwen2-vl,rows=blocks qwen2-vl-text qwen3-vl-text,rho=1e6 llama4 "
    "hunyuan-dit lumina cogvideox flux flux2 lumina2 z-image qwen-image hunyuan-video wan ltx "
    "cosmos".split(),
)
def test_a_rotation_is_that_of_its_public_implementation(public, name):
    grid, d, make = public.ROTATIONS[name]
    enc = on(f"axial-rope:convention={name}", grid, d)
    cos, sin = (np.asarray(part, dtype=float) for part in make(grid, d))
    one, two = cos_and_sin(enc)
    np.testing.assert_allclose(one, cos, atol=tolerance(enc), rtol=0)
    np.testing.assert_allclose(two, sin, atol=tolerance(enc), rtol=0)


def cos_and_sin(enc):
    table, pairs = enc.table(), enc.dim // 2
    if enc.params["layout"] == "halves":
        return table[:, :pairs], table[:, pairs:]
    return table[:, ::2], table[:, 1::2]


RECORDED = json.loads((Path(__file__).parents[2] / "recorded_axes.json").read_text())


@pytest.mark.parametrize("name", [key for key in RECORDED if key.startswith("axial ")])
def test_a_table_is_the_one_recorded(name):
    enc = on(name.replace(" ", ":convention="), (3, 4), 16)
    atol = 2 * FLOAT32 * 5
    np.testing.assert_allclose(enc.table(), RECORDED[name], atol=atol, rtol=0)


@pytest.mark.parametrize("name", [key for key in RECORDED if key.startswith("axial-rope ")])
def test_a_rotation_is_the_one_recorded(name):
    enc = on(name.replace(" ", ":convention="), (3, 4), 16)
    codes = np.hstack(cos_and_sin(enc))
    np.testing.assert_allclose(codes, RECORDED[name], atol=tolerance(enc), rtol=0)


def test_every_convention_is_compared_with_its_source(public):
    """Run, or recorded from a named version; a new one without either is found here."""
    named = [f"axial {name}" for name in public.TABLES]
    named += [f"axial-rope {name}" for name in public.ROTATIONS]
    named += [*RECORDED, "axial-rope vjepa2", "axial-rope videorope"]  # with tests of their own
    compared = {name.partition(",")[0] for name in named}
    known = {f"{family} {name}" for family, rows in read_conventions().items() for name in rows}
    assert known - compared == set()


def test_mixed_rotations_are_those_of_their_frequencies(tmp_path):
    np.save(tmp_path / "freqs.npy", np.array(RECORDED["mixed frequencies"], dtype=np.float32))
    enc = build("mixed-rope", d=16, grid=(3, 4), heads=2, frequencies=str(tmp_path / "freqs.npy"))
    phases = np.array(RECORDED["mixed phases"])
    assert enc.params["d"] == enc.dim == 32
    assert (enc.origin, enc.untrained) == ("weights", False)
    np.testing.assert_allclose(enc.table()[:, ::2], np.cos(phases), atol=tolerance(enc), rtol=0)
    np.testing.assert_allclose(enc.table()[:, 1::2], np.sin(phases), atol=tolerance(enc), rtol=0)


def test_mixed_frequencies_start_as_recorded():
    """The second half of a head is the first one turned by 90 degrees; all have their lengths."""
    recorded = np.array(RECORDED["mixed frequencies"])
    own = build("mixed-rope", d=16, grid=(3, 4), heads=2).measure.frequencies[:, ::-1].T
    for frequencies in (recorded, own):
        x, y = frequencies.reshape(2, 2, 2, 4)  # head, half, pair
        np.testing.assert_allclose(
            np.hypot(x, y), np.broadcast_to(10 ** (-np.arange(4) / 4), x.shape), rtol=1e-6
        )
        np.testing.assert_allclose([x[:, 1], y[:, 1]], [-y[:, 0], x[:, 0]], atol=1e-6)
    angles = np.arctan2(own[1], own[0]).reshape(2, 8)[:, 0] % (2 * np.pi)
    np.testing.assert_allclose(angles, 2 * np.pi * np.random.RandomState(0).uniform(size=2))


TOKEN_1_2 = {  # of 3 x 4 points, d 16: field values worked out by hand and by running the originals
    "mae": "0.9092974 0.1986693 0.0199987 0.002 -0.4161468 0.9800666 0.9998 0.999998 "
    "0.841471 0.0998334 0.0099998 0.001 0.5403023 0.9950042 0.99995 0.9999995",
    "detr": "-0.8660247 -0.5000011 0.4067365 0.9135455 0.0418756 0.9991228 0.0041888 0.9999912 "
    "-1 -9e-7 0.4539904 0.8910066 0.0471064 0.9988899 0.0047124 0.9999889",
    "deformable-detr": "9e-7 -1 0.3090169 0.9510565 0.0314108 0.9995065 0.0031416 0.9999951 "
    "-0.7071064 -0.7071072 0.3826834 0.9238796 0.0392598 0.999229 0.003927 0.9999923",
    "dino": "-0.8660247 -0.5000011 0.9171369 -0.3985723 0.8055728 0.5924968 0.4285709 0.9035081 "
    "-1 -9e-7 0.7914894 -0.6111829 0.8692692 0.494339 0.4779104 0.8784086",
}


@pytest.mark.parametrize("name", TOKEN_1_2)
def test_the_code_of_row_1_and_column_2(name):
    code = on(f"axial:convention={name}", (3, 4), 16).codes(np.array([1 * 4 + 2]))[0]
    np.testing.assert_allclose(code, np.array(TOKEN_1_2[name].split(), float), atol=4e-7)


def columns(spec):
    """The columns over the points of a grid, in an order that does not count."""
    return np.array(sorted(on(spec, (3, 4), 16).table().round(9).T.tolist()))


SAME_COLUMNS = [
    [
        "axial:convention=mae",
        "axial:convention=transformers",
        "axial:convention=timm",
        "axial:convention=timm-interleaved",
        "axial:convention=positional-encodings",
        "axial:convention=dit",
    ],
    ["axial:convention=detr", "axial:convention=sam2-sine"],
    ["axial:convention=rt-detr", "axial:convention=timm-reverse"],
    ["axial:convention=simple-vit"],
    ["axial:convention=deformable-detr"],
    ["axial:convention=dino"],
    [
        "axial-rope:convention=eva02",
        "axial-rope:convention=sam2",
        "axial-rope:convention=qwen2-vl",
        "axial-rope:convention=hunyuan-dit",
        "axial-rope:convention=lumina",
    ],
    ["axial-rope:convention=pixtral", "axial-rope:convention=pixtral-reference"],
    ["axial-rope:convention=rope-vit"],
    ["axial-rope:convention=dinov3"],
    ["axial-rope:convention=llama4"],
    ["axial-rope:convention=timm"],
]


def test_conventions_with_the_same_columns_are_those_known():
    """Sets of columns; the tables of SAME_COLUMNS differ in the order of columns alone."""
    for same in SAME_COLUMNS:
        for other in same[1:]:
            np.testing.assert_array_equal(columns(same[0]), columns(other))
    for family in ("axial:", "axial-rope:"):  # of which mae and eva02 have the same
        first = [columns(same[0]) for same in SAME_COLUMNS if same[0].startswith(family)]
        for i, one in enumerate(first):
            assert not any(np.allclose(one, other, atol=1e-6) for other in first[:i])


def test_halves_of_mae_are_those_of_transformers_exchanged():
    mae, other = (on(f"axial:convention={n}", (3, 5), 32).table() for n in ("mae", "transformers"))
    np.testing.assert_array_equal(np.roll(mae, 16, axis=1), other)
    assert np.abs(mae - other).max() > 1.4


def test_transposed_rows_are_those_of_the_other_grid():
    rt_detr = on("axial:convention=rt-detr", (3, 5), 32).table()
    other = on("axial:convention=mae,order=yx", (5, 3), 32).table()
    np.testing.assert_array_equal(rt_detr, other)


@pytest.mark.parametrize("spec", ["axial", "axial-rope", "mixed-rope"])
def test_one_row_of_points_is_one_axis(spec):
    """A lattice with one axis is not another thing than a grid of one row."""
    flat = load(f"{spec}:order=x" if spec != "mixed-rope" else spec, 7, 16)
    row = on(f"{spec}:order=x" if spec != "mixed-rope" else spec, (7,), 16)
    np.testing.assert_array_equal(flat.table(), row.table())
    np.testing.assert_array_equal(flat.measure.frequencies, row.measure.frequencies)


@pytest.mark.parametrize(
    "spec", ["axial", "axial:convention=detr", "axial-rope:convention=wan", "mixed-rope"]
)
def test_inner_products_are_the_kernel_declared(spec):
    grid = (2, 3, 5) if "wan" in spec else (3, 5)
    enc = on(spec, grid, 32, prefix=2)
    table = enc.table()[2:]
    places = enc.domain.places(enc.domain.x[2:])
    inner = enc.measure.squared_length * enc.measure.kernel(places[:, None] - places)
    np.testing.assert_allclose(table @ table.T, inner, atol=1e-12)


def test_rows_before_the_grid():
    assert not on("axial", (3, 5), 8, prefix=2).table()[:2].any()
    turned = on("axial-rope", (3, 5), 8, prefix=1).table()
    np.testing.assert_array_equal(turned[0], [1, 1, 1, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(turned[1:], on("axial-rope", (3, 5), 8).table())


def test_vjepa2_is_said_not_to_rotate():
    (finding,) = on("axial-rope:convention=vjepa2", (2, 3, 4), 64).findings
    assert (finding.code, finding.severity) == ("not-a-rotation", "error")


def test_vjepa2_turns_its_neighbours_so(public):
    """The numbers are those it multiplies with: q * cos + turned(q) * sin, cosines in halves."""
    grid, d = (2, 3, 4), 32
    made = public.vjepa2_of_ones(grid, d)
    enc = on("axial-rope:convention=vjepa2", grid, d)
    halves = np.split(enc.table()[:, :30], 6, axis=1)  # cos, sin of t, of y, of x
    tiled = [np.tile(half, 2) for half in halves]
    sign = np.tile([-1.0, 1.0], 5)
    blocks = [cos + sign * sin for cos, sin in zip(tiled[::2], tiled[1::2], strict=True)]
    np.testing.assert_allclose(np.hstack([*blocks, np.ones((24, 2))]), made, atol=tolerance(enc))


REFUSED = {
    ("axial", (3, 4), 18): "d=18 among the axes y, x in pairs and needs a multiple of 4; d=16 or "
    "d=20 would fit",
    ("axial-rope:convention=flux", (3, 4), 100): "needs a multiple of 32; d=96 or d=128 would fit",
    ("axial-rope", (2, 3, 4), 128): "d=126 or d=132 would fit; d=128 does with rest=slowest, or "
    "'share=44;42;42', as convention=wan has it",
    ("axial-rope:convention=wan", (2, 3, 4), 25): "needs a multiple of 2; d=24 or d=26 would fit",
    ("axial:order=tx", (3, 4), 8): "order=tx must name each of the axes y, x of 3×4 points once; "
    "write order=yx",
    ("axial:share=1;2;3", (3, 4), 8): "share needs a number for each of the axes y, x; got 1;2;3",
    ("axial:convention=flux", (3, 4), 8): "axial-rope:convention=flux has it.",
    ("axial-rope:convention=wann", (3, 4), 8): "Did you mean 'wan'?",
    ("axial-rope:convention=ltx", (3, 4), 24): "the axis t of order=tyx has a coordinate of -1 "
    "where the grid has no such axis; write --grid with 3 sides",
    ("axial:normalise=max", (3, 4), 8): "normalise=max has no effect on coordinates=index",
    ("axial:arrange=alternate", (3, 4), 8): "arrange=alternate leaves no block of columns",
    ("axial:coordinates=signed,reference=4;4", (3, 4), 8): "reference has no effect",
    ("axial:frequencies=dealt,stretch=2;2", (3, 4), 8): "stretch belongs to frequencies=own",
    ("axial-rope:stretch_by=yarn", (3, 4), 8): "needs a factor for each axis; write stretch=…",
    ("axial-rope:stretch=2;2,stretch_by=yarn", (3, 4), 8): "the side of each axis in training",
    ("axial-rope:stretch=2;2,trained=2;2", (3, 4), 8): "trained, beta_fast and beta_slow belong to",
    (
        *("axial-rope:stretch=2;2,stretch_by=yarn,trained=2;2,coordinates=unit", (3, 4), 8),
    ): "stretch_by=yarn counts turns",
    ("axial:divisor=n-1", (3, 4), 4): "divisor=n-1 needs at least two pairs an axis",
    ("axial:rho=-1", (3, 4), 8): "rho must be a finite number above 0; got -1.0",
    ("axial:rows=blocks", (3, 4), 8): "even numbers of rows and columns; got 3x4; 4x4 would fit",
    ("mixed-rope", (3, 4), 17): "needs an even d; got d=17; write d=16 or d=18",
    ("mixed-rope", (2, 3, 4), 16): "mixed-rope has frequencies on two axes; got a grid of 2x3x4",
}


@pytest.mark.parametrize(("case", "said"), REFUSED.items(), ids=lambda x: str(x)[:40])
def test_what_does_not_fit_is_refused_in_a_line(case, said):
    spec, grid, d = case
    with pytest.raises(PefourierError) as caught:
        on(spec, grid, d)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_points_beyond_a_grid_are_refused():
    with pytest.raises(PefourierError, match="point 12 is outside 0 … 11"):
        on("axial", (3, 4), 8).codes(np.array([12]))


def test_yarn_of_each_axis_is_that_of_one_axis():
    spec = "axial-rope:rho=100,stretch=2;3,stretch_by=yarn,trained=64;32,beta_fast=8"
    own = on(spec, (128, 96), 32).measure.frequencies
    for axis, (factor, trained) in enumerate(((2, 64), (3, 32))):
        line = f"rope:rho=100,scaling=yarn,factor={factor},original={trained},beta_fast=8"
        expected = load(line, 128, 16).measure.frequencies
        np.testing.assert_allclose(own[own[:, axis] != 0, axis], expected, rtol=1e-12)


def test_an_axis_that_is_interpolated_has_all_frequencies_over_the_factor():
    plain = on("axial-rope", (6, 4), 16).measure.frequencies
    own = on("axial-rope:stretch=3;1,stretch_by=linear", (6, 4), 16).measure.frequencies
    np.testing.assert_allclose(own * [3, 1], plain)


def test_videorope_gives_time_the_slowest_pairs_and_lets_the_others_go_along():
    """The loops of its authors' code: h and w in turns over the first 48 pairs, t over the last."""
    sides, pairs = (3, 4, 5), 64
    enc = on("axial-rope:convention=videorope", sides, 2 * pairs)
    grid = 1e6 ** -(np.arange(pairs) / pairs)
    for row, (t, h, w) in enumerate(np.ndindex(sides)):
        time = 2.0 * t
        ids = [time, h - (sides[1] - 1) // 2 + time, w - (sides[2] - 1) // 2 + time]
        axis = [1 if j % 2 == 0 else 2 for j in range(48)] + [0] * 16
        phase = np.array([ids[a] for a in axis]) * grid
        expected = np.concatenate([np.cos(phase), np.sin(phase)])
        np.testing.assert_allclose(enc.table()[row], expected, atol=1e-12)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_axes_by_head_are_rope_of_one_axis_in_each_head(layout):
    from pefourier.questions.operators import operator_at

    sides, d, share = (2, 3, 4), 6, (2, 3, 3)
    own = f"share=2;3;3,layout={layout}"
    query, _ = operator_at(on(f"mhrope:{own}", sides, d), np.arange(24))
    rope, _ = operator_at(load(f"rope:layout={layout}", 4, d), np.arange(4))
    for row, place in enumerate(np.ndindex(sides)):
        for head, axis in enumerate(np.repeat(range(3), share)):
            rows = slice(head * d, (head + 1) * d)
            np.testing.assert_allclose(query[row, rows, rows], rope[place[axis]], atol=1e-12)
    for wrong in ("2;3", "2;0;3"):
        with pytest.raises(PefourierError, match="share needs a number of heads, 1 or more, for e"):
            on(f"mhrope:share={wrong}", sides, d)

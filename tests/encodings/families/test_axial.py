"""Vectors on several axes equal public implementations and recorded tables."""

import json
from pathlib import Path

import numpy as np
import public_axes as public
import pytest
from grids import table_on
from numpy.testing import assert_allclose, assert_array_equal

from pefourier.encodings import load
from pefourier.encodings.registry import read_conventions
from pefourier.questions.compare import compare

FLOAT32 = float(np.finfo(np.float32).eps)
RECORDED = json.loads((Path(__file__).parents[2] / "helpers/recorded_axes.json").read_text())


def on(spec, grid, d, **own):
    return load(spec, None, d, grid=grid, **own)


def tolerance(enc):
    """Return the error that rounding float32 phases causes in sines and cosines."""
    if not enc.measure:  # rows in another order: phases are below 2 x side
        return 2 * FLOAT32 * (1 + 2 * max(enc.domain.sides))
    phases = enc.measure.phases(enc.domain.places(enc.domain.x[enc.domain.prefix :]))
    return 2 * FLOAT32 * (1 + np.abs(phases).max())


PUBLIC = {"axial": public.TABLES, "axial-rope": public.ROTATIONS}


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family in PUBLIC for name in PUBLIC[family]]
)
def test_vectors_are_those_of_the_public_implementation(family, name):
    grid, d, make = PUBLIC[family][name]
    enc, made = on(f"{family}:convention={name}", grid, d), make(grid, d)
    made = made if family == "axial" else np.hstack([np.asarray(part, float) for part in made])
    assert_allclose(cos_and_sin(enc), made, atol=tolerance(enc), rtol=0)


def cos_and_sin(enc):
    """Return the added vectors, or a rotation's cosines followed by its sines."""
    table, mixed = enc.table(), enc.injection == "rotate" and enc.params["layout"] != "halves"
    return np.hstack([table[:, ::2], table[:, 1::2]]) if mixed else table


@pytest.mark.parametrize("name", [key for key in RECORDED if key.startswith("axial")])
def test_a_table_is_the_one_recorded(name):
    enc = on(name.replace(" ", ":convention="), (3, 4), 16)
    assert_allclose(cos_and_sin(enc), RECORDED[name], atol=tolerance(enc), rtol=0)


def test_every_convention_is_compared_with_its_source():
    """Every convention is compared with a public implementation or a recorded table."""
    named = [f"{family} {name}" for family in PUBLIC for name in PUBLIC[family]]
    named += [*RECORDED, "axial-rope vjepa2", "axial-rope videorope"]  # have separate tests
    compared = {name.partition(",")[0] for name in named}
    known = {f"{family} {name}" for family, rows in read_conventions().items() for name in rows}
    assert known - compared == set()


def videorope_twin(grid, d, sections, delta, rho):
    """Cosines and sines as m_modify_forward deals positions, by loops over tokens and pairs."""
    rows = []
    for t, h, w in np.ndindex(grid):
        frame = delta * t
        place = (frame, frame + h - (grid[1] - 1) // 2, frame + w - (grid[2] - 1) // 2)
        of_rows = d // 2 - sections
        axes = [1 + k % 2 if k < of_rows else 0 for k in range(d // 2)]
        phases = np.array([place[a] * rho ** (-2 * k / d) for k, a in enumerate(axes)])
        rows.append(np.hstack([np.cos(phases), np.sin(phases)]))
    return np.array(rows)


@pytest.mark.parametrize(
    ("grid", "d", "own"),
    [
        ((3, 4, 5), 128, {}),
        ((2, 3, 4), 16, {"share": (2.0, 3.0, 3.0), "stretch": (1.0, 1.0, 1.0)}),
        ((4, 2, 2), 8, {"share": (2.0, 1.0, 1.0), "rho": 100.0}),
    ],
)
def test_videorope_deals_rows_first_on_a_diagonal(grid, d, own):
    enc = on("axial-rope:convention=videorope", grid, d, **own)
    of_frames = round(d / 2 * (own["share"][0] / sum(own["share"]) if own else 0.25))
    twin = videorope_twin(grid, d, of_frames, 1 / own.get("stretch", (2,))[0], own.get("rho", 1e6))
    assert_allclose(enc.table(), twin, atol=1e-13)
    assert compare(enc, table_on(grid, twin)).same


KERNELS = ["axial", "axial:convention=detr", "axial-rope:convention=wan", "mixed-rope"]
KERNELS += ["axial-rope:convention=videorope"]
FEATURES = [f"fourier-features:mapping={m}" for m in ("gaussian", "sam", "nerf", "perceiver")]


@pytest.mark.parametrize("spec", KERNELS + FEATURES)
def test_inner_products_are_the_kernel_declared(spec):
    """Prefix rows are zero if vectors are added, and not rotated if pairs rotate."""
    enc = on(spec, (2, 3, 5) if "rope:" in spec else (3, 5), 32, prefix=2)
    table = enc.table()[2:]
    places = enc.domain.places(enc.domain.x[2:])
    inner = enc.measure.squared_length * enc.measure.kernel(places[:, None] - places)
    assert_allclose(table @ table.T, inner, atol=1e-11)
    blank = np.repeat([float(enc.injection == "rotate"), 0.0], 16)
    assert_array_equal(cos_and_sin(enc)[:2], [blank, blank])


def test_vjepa2_rotates_its_neighbours_by_cosines_in_halves():
    """The rows are the numbers by which V-JEPA 2 multiplies: q * cos + rotate_half(q) * sin."""
    grid, d = (2, 3, 4), 32
    made = public.vjepa2_of_ones(grid, d)
    enc = on("axial-rope:convention=vjepa2", grid, d)
    halves = np.split(enc.table()[:, :30], 6, axis=1)  # cos, sin of t, of y, of x
    tiled = [np.tile(half, 2) for half in halves]
    sign = np.tile([-1.0, 1.0], 5)
    blocks = [cos + sign * sin for cos, sin in zip(tiled[::2], tiled[1::2], strict=True)]
    assert_allclose(np.hstack([*blocks, np.ones((24, 2))]), made, atol=tolerance(enc))
    assert [f"{f.code} {f.severity}" for f in enc.findings] == ["not-a-rotation error"]


def test_an_axis_is_extended_as_a_line_is():
    plain = on("axial-rope", (6, 4), 16).measure.frequencies
    own = on("axial-rope:stretch=3;1,stretch_by=linear", (6, 4), 16).measure.frequencies
    assert_allclose(own * [3, 1], plain)
    for way in ("ntk", "yarn"):
        trained = ",trained=64;32" if way == "yarn" else ""
        spec = f"axial-rope:rho=100,stretch=2;3,stretch_by={way}{trained}"
        own = on(spec, (128, 96), 32).measure.frequencies
        for axis, (factor, side) in enumerate(((2, 64), (3, 32))):
            original = f",original={side}" if way == "yarn" else ""
            line = load(f"rope:rho=100,scaling={way},factor={factor}{original}", 128, 16)
            along = own[own[:, axis] != 0, axis]
            assert_allclose(along, line.measure.frequencies, rtol=1e-12)

"""Grid tables are recognised by convention and settings, and planted mistakes are found."""

import numpy as np
import pytest
from grids import table_on
from planted import PLANTS

from pefourier.encodings import load
from pefourier.questions.check_faithful import check_faithful

CONFIG_ERRORS = ("base", "reference", "normalised", "pixels", "cosines")
SPECIAL = {"pixel-coordinates", "coordinates-unscaled", "lone-cosines", "ends-coincide"}
FINDING = {
    "normalised": "coordinates-unscaled",
    "pixels": "pixel-coordinates",
    "cosines": "lone-cosines",
}
EPS = 2.0**-23


def timm(phases):  # build_sincos2d_pos_embed
    return np.hstack([f(p) for f in (np.sin, np.cos) for p in phases])


def mae(phases):  # x first, sines before cosines in each half
    return np.hstack([f(p) for p in phases[::-1] for f in (np.sin, np.cos)])


def doubled(phases):  # cos and sin of transformers: all pairs, then all pairs again
    return np.hstack([f(np.hstack(phases + phases)) for f in (np.cos, np.sin)])


def repeated(phases):  # timm's RotaryEmbeddingCat: sines, then cosines, each column twice
    return np.hstack([f(np.repeat(np.hstack(phases), 2, axis=1)) for f in (np.sin, np.cos)])


ORDERS = {"timm": timm, "mae": mae, "qwen2-vl": doubled, "eva02": repeated}


def drawn(seed, mistake):
    """Draw a table of a known convention, with at most one mistake.

    Return its name, its sides and the changed setting.
    """
    rng = np.random.default_rng([seed, CONFIG_ERRORS.index(mistake) if mistake else 9])
    sides = tuple(int(n) for n in rng.integers(7, 33, size=2))
    name, pairs = list(ORDERS)[rng.integers(4)], int(rng.integers(6, 33))
    base, changes = 1e4, {}
    points = [c.astype(float) for c in np.indices(sides).reshape(2, -1)]
    if mistake == "base":
        base = float(rng.choice([50, 100, 123, 500, 1000, 2500, 2e4, 1e5]))
        changes = {"rho": base}
    elif mistake == "reference":
        sizes = sides + rng.integers(1, 6, size=2)
        points = [i * r / n for i, r, n in zip(points, sizes, sides, strict=True)]
        changes = {"reference": tuple(map(float, sizes[:: -1 if name == "mae" else 1]))}
    elif mistake == "normalised":
        points = [i / n for i, n in zip(points, sides, strict=True)]
        changes = {"coordinates": "unit"}
    elif mistake == "pixels":
        size = float(rng.choice([8, 14, 16, 32]))
        points, changes = [i * size for i in points], {"scale": size}
    phases = [np.outer(u, base ** (-np.arange(pairs) / pairs)) for u in points]
    if mistake == "cosines":
        return np.cos(np.hstack(phases * int(rng.integers(1, 3)))), "qwen2-vl", sides, changes
    return ORDERS[name](phases), name, sides, changes


def answer(sides, table, eps=EPS):
    return check_faithful(table_on(sides, table.astype(np.float32), eps=eps))


def check_drawn(seed, mistake):
    table, name, sides, changes = drawn(seed, mistake)
    r = answer(sides, table)
    assert name in r.identified["conventions"]
    assert r.identified["changes"] == changes
    expected = {FINDING[mistake]} if mistake in FINDING else set()
    assert SPECIAL & {f.code for f in r.findings} == expected
    if name in ("timm", "mae"):
        again = load(r.identified["spec"], None, table.shape[1], grid=sides).table()
        np.testing.assert_allclose(again, table, atol=1e-6)


@pytest.mark.parametrize("draws", [2, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("mistake", [*CONFIG_ERRORS, None])
def test_mistakes_are_named_and_right_tables_are_not_blamed(mistake, draws):
    for seed in range(draws):
        check_drawn(seed, mistake)


SETTINGS = {  # SPEC of a table, and the settings that identify it
    "axial-rope:convention=dinov3,coordinates=index": {"coordinates": "index"},
    "axial-rope:convention=dinov3,normalise=max": {"reference": (24.0, 24.0)},
    "axial-rope:convention=dinov3,rho=50,offset=0": {"rho": 50.0, "offset": 0.0},
    "axial-rope:convention=pixtral,rho=1e6": {"rho": 1e6},
    "axial:convention=simple-vit,rho=1000": {"rho": 1000.0},
    "axial:convention=diffusers,reference=64;64": {"reference": (64.0, 64.0)},
    "axial:convention=mae,coordinates=closed": {"coordinates": "closed"},
    "axial-rope:convention=eva02,rho=40889.8": {"rho": 40889.8},
}


@pytest.mark.parametrize("spec", SETTINGS)
def test_the_nearest_convention_is_named_with_what_differs(spec):
    sides, name = (16, 24), spec.partition("=")[2].partition(",")[0]
    r = answer(sides, load(spec, None, 96, grid=sides).table()).identified
    assert (r["conventions"][0], r["changes"]) == (name, SETTINGS[spec])
    assert r["max_difference"] < 1e-6


@pytest.mark.parametrize("changes", [{}, {"rho": 1000.0}])
def test_a_table_with_one_different_row_has_no_convention(changes):
    table = load("axial:convention=timm", None, 64, grid=(16, 24), **changes).table()
    assert answer((16, 24), table).identified["changes"] == changes
    table[137, 5] += 1e-3
    assert answer((16, 24), table).identified is None


def test_cosines_of_symmetric_coordinates_are_even():
    r = answer((14, 14), PLANTS["lone-cosines"].make(np.float64))
    assert [f.code for f in r.findings] == ["lone-cosines"] * 2
    assert (r.distinct, r.identified["conventions"]) == (49, ["dinov3"])
    assert (r.identified["params"]["part"], r.identified["params"]["times"]) == ("cos", 2)
    assert "cosines alone, each column twice" in r.identified_as


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("axial:coordinates=unit", "coordinates-unscaled"),
        ("axial-rope:reference=1;1", "coordinates-unscaled"),
        ("axial:scale=16", "pixel-coordinates"),
        ("axial:scale=3", None),  # 3 radians a point are below pi
        ("axial-rope:convention=timm", None),
        ("axial-rope:convention=dinov3", None),
        ("axial-rope:convention=pixtral", None),
    ],
)
def test_coordinates_of_a_spec_are_looked_at_as_those_of_its_table(spec, code):
    enc = load(spec, None, 64, grid=(14, 16))
    for r in (check_faithful(enc), answer((14, 16), enc.table())):
        assert SPECIAL & {f.code for f in r.findings} == ({code} if code else set())


def test_points_that_bfloat16_makes_one_are_stated():
    grid = (300, 300)
    r = check_faithful(load("axial-rope", None, 16, grid=grid))
    distinct = len(np.unique(np.arange(300).astype(np.float32).view(np.uint32) + 0x8000 >> 16))
    assert distinct == 279  # integers below 300 rounded to 8 bits, ties to even
    (note,) = [f for f in r.findings if f.code == "bfloat16-positions"]
    assert f"{distinct**2:,} of 90,000" in note.message
    assert not check_faithful(load("axial-rope", None, 16, grid=(64, 64))).findings


def test_a_constant_part_is_no_idle_wave_of_another_axis():
    sides = (24, 24)
    enc = load("axial-rope:convention=flux", None, 128, grid=sides)
    slow = np.sum(1e4 ** (-np.arange(28) / 28) * 24 < 2 * np.pi) / 28
    for r in (check_faithful(enc), answer(sides, enc.table())):
        assert r.idle == pytest.approx([slow, slow])


def test_mixed_waves_are_idle_by_the_length_of_their_vectors():
    enc = load("mixed-rope", None, 64, grid=(14, 14))
    lengths = np.repeat(10.0 ** (-4 * np.arange(16) / 64), 2)
    share = np.mean(lengths * 14 < 2 * np.pi)
    assert share == 0.625
    assert check_faithful(enc).idle == pytest.approx([share, share])

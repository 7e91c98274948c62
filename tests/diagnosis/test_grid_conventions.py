"""Tables of grids are named by convention and settings; slips planted in them are found."""

import numpy as np
import pytest
from grids import table_on

from pefourier.encodings import load
from pefourier.questions.check_faithful import check_faithful

SLIPS = ("base", "reference", "normalised", "pixels", "cosines")
ROUNDING = 2.0**-23


def phases_of(coordinates, pairs, base):
    """Phases (n, m) of each axis: u rho^(-i/m)."""
    return [np.outer(u, base ** (-np.arange(pairs) / pairs)) for u in coordinates]


def timm(phases):  # build_sincos2d_pos_embed
    return np.hstack([f(p) for f in (np.sin, np.cos) for p in phases])


def mae(phases):  # x first, sines before cosines in each half
    return np.hstack([f(p) for p in phases[::-1] for f in (np.sin, np.cos)])


def doubled(phases):  # cos and sin arrays of transformers: each half twice
    return np.hstack([f(np.hstack(phases + phases)) for f in (np.cos, np.sin)])


def repeated(phases):  # of timm's RotaryEmbeddingCat: sines, then cosines, each column twice
    return np.hstack([f(np.repeat(np.hstack(phases), 2, axis=1)) for f in (np.sin, np.cos)])


ORDERS = {"timm": timm, "mae": mae, "qwen2-vl": doubled, "eva02": repeated}


def drawn(seed, slip):
    """A table of a known convention with one slip, its name and sides, and the setting."""
    rng = np.random.default_rng([seed, SLIPS.index(slip) if slip else 9])
    sides = tuple(int(n) for n in rng.integers(7, 33, size=2))
    name, pairs = list(ORDERS)[rng.integers(4)], int(rng.integers(6, 33))
    base, value = 1e4, None
    index = [c.astype(float) for c in np.indices(sides).reshape(2, -1)]
    if slip == "base":
        base = value = float(rng.choice([50, 100, 500, 1000, 2500, 2e4, 1e5, 123.0]))
    elif slip == "reference":
        value = tuple(float(n) for n in sides + rng.integers(1, 6, size=2))
        index = [i * r / n for i, r, n in zip(index, value, sides, strict=True)]
    elif slip == "normalised":
        index = [i / n for i, n in zip(index, sides, strict=True)]
    elif slip == "pixels":
        value = float(rng.choice([8, 14, 16, 32]))
        index = [i * value for i in index]
    phases = phases_of(index, pairs, base)
    if slip == "cosines":
        name = "qwen2-vl"
        return np.cos(np.hstack(phases * int(rng.integers(1, 3)))), name, sides, value
    return ORDERS[name](phases), name, sides, value


def answer_of(table, sides):
    return check_faithful(table_on(sides, table.astype(np.float32), eps=ROUNDING))


def check_drawn(seed, slip):
    table, name, sides, value = drawn(seed, slip)
    r = answer_of(table, sides)
    codes = {f.code for f in r.findings}
    special = codes & {"pixel-coordinates", "coordinates-unscaled", "lone-cosines"}
    assert name in r.identified["conventions"]
    changes = r.identified.get("changes", {})
    if slip == "base":
        assert changes == {"rho": value}
    elif slip == "reference":
        order = value if name != "mae" else value[::-1]
        assert changes == {"reference": order}
    elif slip == "normalised":
        assert changes == {"coordinates": "unit"}
    elif slip == "pixels":
        assert changes == {"scale": value}
    else:
        assert changes == {}
    expected = {"normalised": "coordinates-unscaled", "pixels": "pixel-coordinates"}
    expected |= {"cosines": "lone-cosines"}
    assert special == ({expected[slip]} if slip in expected else set())
    again = load(r.identified["spec"], None, 2 * 2 * phases_width(table, name), grid=sides)
    assert np.abs(again.table()).max() <= 1


def phases_width(table, name):
    """Pairs along an axis."""
    return table.shape[1] // (4 if name in ("timm", "mae") else 8)


@pytest.mark.parametrize("slip", [*SLIPS, None])
def test_slips_are_named_and_right_tables_are_not_blamed(slip):
    for seed in range(2):
        check_drawn(seed, slip)


@pytest.mark.long
@pytest.mark.parametrize("slip", [*SLIPS, None])
def test_slips_are_named_in_all_of_100_draws(slip):
    for seed in range(100):
        check_drawn(seed, slip)

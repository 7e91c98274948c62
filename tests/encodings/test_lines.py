"""Rows of a table that come in lines, as the points of an image do, and those around them."""

import numpy as np
import pytest

from pefourier.encodings import build
from pefourier.encodings.lines import find_lines, find_start, rows_behind

H, W, D = 9, 12, 96
RNG = np.random.default_rng(3)


def smooth(height, width, d=D, noise=0.1, reach=2.0):
    """Free codes that are alike where points are near: samples of a Gaussian process."""
    places = np.indices((height, width)).reshape(2, -1).T
    apart = ((places[:, None] - places) ** 2).sum(axis=-1)
    root = np.linalg.cholesky(np.exp(-apart / (2 * reach**2)) + 1e-8 * np.eye(len(places)))
    rng = np.random.default_rng(7)
    return root @ rng.normal(size=(len(places), d)) + noise * rng.normal(size=(len(places), d))


LEARNED = smooth(H, W)
FREE = RNG.normal(size=(8, D))
SINES = build("sinusoidal", length=196, d=D).table()
LINE = RNG.normal(size=(64, D)).cumsum(axis=0)


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (5, 0), (0, 1), (0, 3), (1, 2)])
@pytest.mark.parametrize("factor", [1.0, 1e-90, 1e90])
def test_lines_are_found_between_other_rows(before, after, factor):
    table = factor * np.vstack([FREE[:before], LEARNED, FREE[3 : 3 + after]])
    found = find_lines(table)
    assert (found.grid, found.prefix, found.after) == ((H, W), before, after)
    assert found.share > 0.9
    assert found.next_share < 0.6 * found.share


@pytest.mark.parametrize("grid", [(16, 4), (4, 16)])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (4, 2)])
def test_a_narrow_grid_has_all_of_its_lines(grid, before, after):
    """A line fewer, among the other rows, would explain as much."""
    found = find_lines(np.vstack([FREE[:before], smooth(*grid), FREE[4 : 4 + after]]))
    assert (found.grid, found.prefix, found.after) == (grid, before, after)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_lines_are_found_in_any_format(dtype):
    assert find_lines(LEARNED.astype(dtype)).grid == (H, W)


def test_lines_of_formulas_are_found():
    table = build("axial", d=D, grid=(H, W), convention="mae").table()
    assert find_lines(np.vstack([table, np.zeros((1, D))])).after == 1
    assert find_lines(np.vstack([np.zeros((1, D)), table])).prefix == 1


def in_blocks(table):
    """Rows of a grid of 8 x 12 in blocks of 2 x 2."""
    order = np.arange(96).reshape(4, 2, 6, 2).transpose(0, 2, 1, 3).ravel()
    return table[order]


@pytest.mark.parametrize(
    "table",
    {
        "sines": SINES,
        "noisy sines": SINES + 0.3 * RNG.normal(size=SINES.shape),
        "text of 1024": build("sinusoidal", length=1024, d=64).table() + 0.1,
        "ramp": build("ramp", length=196, d=16).table(),
        "free": RNG.normal(size=(197, 32)),
        "walk": RNG.normal(size=(1024, 32)).cumsum(axis=0),
        "one line copied": np.tile(LINE, (8, 1)),
        "copies trained on": np.tile(LINE, (8, 1)) + RNG.normal(size=(512, D)),
        "segments": RNG.normal(size=(8, 64, D)).cumsum(axis=1).reshape(-1, D),
        "digits": (np.arange(256)[:, None] >> np.arange(8) & 1) * 2.0 - 1,
        "blocks of 2 x 2": in_blocks(build("axial", d=D, grid=(8, 12)).table()),
        "too few": LEARNED[: 3 * W],
        "zeros": np.zeros((64, 4)),
        "ones": np.ones((64, 4)),
    }.values(),
    ids=lambda table: str(table.shape),
)
def test_what_has_no_lines_shows_none(table):
    assert find_lines(table) is None


@pytest.mark.parametrize("start", [0, 1, 4])
def test_lines_of_a_known_grid_tell_where_it_begins(start):
    table = np.vstack([FREE[:start], LEARNED, FREE[5:7]])
    assert find_start(table, (H, W)) == start
    assert find_start(table, (3, 3, W)) == start
    assert find_start(table, (W, H)) is None
    assert find_start(table, (H * W,)) is None
    assert find_start(RNG.normal(size=table.shape), (H, W)) is None


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (np.zeros((1, D)), "the last row is all zeros: cut it (t[:-1])"),
        (np.zeros((3, D)), "the last 3 rows are all zeros: cut them (t[:-3])"),
        (FREE[:1], "the last row is none of its points: cut it (t[:-1])"),
        (
            LEARNED[-W:][:2],
            "the last 2 rows begin another line, which is not complete: cut them (t[:-2])",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_last_rows_are_described(last, said):
    assert rows_behind(np.vstack([LEARNED, last]), len(last), W) == said

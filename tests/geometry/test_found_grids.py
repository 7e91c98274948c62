"""The grid and the prefix of a flat table, found from its inner products."""

import numpy as np
import pytest

from pefourier.encodings import build
from pefourier.encodings.encoding import from_table
from pefourier.encodings.grids import on_grid
from pefourier.geometry.found_grids import (
    WIDEST,
    find_grid,
    on_common_grid,
    possible_grids,
    residual_of_products,
)
from pefourier.questions import check

H, W, D = 7, 11, 64
MAE = build("axial", d=D, grid=(H, W), convention="mae").table()
FREE = np.random.default_rng(5).normal(size=(200, 16))


def residual_on_grid(table, sides):
    return residual_of_products(table @ table.T, sides)


def slow_residual(table, sides):
    """T2 written out: each inner product against the mean of those of its displacement."""
    places = np.stack(np.unravel_index(np.arange(len(table)), sides), axis=1)
    gram, classes = table @ table.T, {}
    for i, j in np.ndindex(gram.shape):
        classes.setdefault(tuple(places[j] - places[i]), []).append(gram[i, j])
    apart = sum(((np.array(own) - np.mean(own)) ** 2).sum() for own in classes.values())
    return np.sqrt(apart / (gram**2).sum())


@pytest.mark.parametrize("sides", [(4, 6), (6, 4), (2, 3, 4), (24,)])
def test_the_residual_is_the_one_written_out(sides):
    table = FREE[:24]
    assert residual_on_grid(table, sides) == pytest.approx(slow_residual(table, sides), rel=1e-9)


def with_noise(share):
    noise = np.random.default_rng(1).normal(size=MAE.shape)
    return MAE + share * np.sqrt((MAE**2).mean()) * noise


TABLES = {  # of 7 x 11 points, and how many rows come before
    "as it is": (MAE, 0),
    "a class row": (np.vstack([np.zeros(D), MAE]), 1),
    "five rows": (np.vstack([FREE[:5].repeat(4, axis=1), MAE]), 5),
    "noise": (with_noise(0.1), 0),
    "float32": (MAE.astype(np.float32), 0),
    "scaled": (1e-90 * MAE, 0),
    "DINOv3": (build("axial-rope", d=D, grid=(H, W), convention="dinov3").table(), 0),
    "mixed": (build("mixed-rope", d=D, grid=(H, W)).table(), 0),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_grid_is_found(name):
    table, prefix = TABLES[name]
    found = find_grid(table)
    assert (found.grid, found.prefix) == ((H, W), prefix)
    assert found.residual < 0.6 * found.next_residual


def test_a_table_is_assessed_on_the_grid_it_has():
    result = check(np.vstack([np.zeros(D), MAE]))
    assert (result.grid, result.prefix, result.length) == ((H, W), 1, H * W)
    assert result.toeplitz_residual < 1e-6
    (note,) = (f for f in result.findings if f.code == "grid-found")
    assert "--grid 7x11 --prefix 1" in note.message
    assert check(FREE).grid is None
    assert check(np.vstack([np.zeros(D), MAE]), grid=(H * W + 1,)).grid == (H * W + 1,)


def test_tables_of_as_many_rows_are_placed_alike():
    """The first one's grid counts: a transposed one would have another."""
    transposed = build("axial", d=D, grid=(H, W), convention="rt-detr").table()
    one, two = on_common_grid(from_table(MAE), from_table(transposed))
    assert (one.domain.grid, two.domain.grid) == ((H, W), (H, W))
    one, two = on_common_grid(from_table(FREE[:77]), from_table(MAE))
    assert (one.domain.grid, two.domain.grid) == ((H, W), (H, W))
    one, two = on_common_grid(from_table(FREE[:76]), from_table(MAE))
    assert (one.domain.grid, two.domain.grid) == ((), ())
    behind = on_grid(from_table(np.vstack([FREE[:1], FREE[:77]])), (), 1)  # --prefix 1 alone
    one, two = on_common_grid(on_grid(from_table(np.vstack([MAE[:1], MAE])), (H, W), 1), behind)
    assert (one.domain.grid, two.domain.grid) == ((H, W), (H, W))


@pytest.mark.parametrize("factor", [2.0**-332, 1e-99, 1e99, 2.0**332])
def test_the_grid_is_the_same_in_any_unit(factor):
    found, scaled = find_grid(MAE), find_grid(factor * MAE)
    assert (scaled.grid, scaled.prefix) == (found.grid, found.prefix)


def test_transposed_rows_are_on_the_other_grid():
    table = build("axial", d=D, grid=(H, W), convention="rt-detr").table()
    assert find_grid(table).grid == (W, H)
    assert residual_on_grid(table, (H, W)) == pytest.approx(0.0329, abs=5e-5)  # as published


def test_rows_shifted_by_one_are_seen():
    assert residual_on_grid(np.roll(MAE, 1, axis=0), (H, W)) == pytest.approx(0.04, abs=5e-5)


@pytest.mark.parametrize(
    "table",
    [
        build("sinusoidal", length=196, d=64).table(),
        build("dft", length=64, d=64).table(),
        np.vstack([np.zeros(64), build("sinusoidal", length=196, d=64).table()]),
        FREE,
        FREE.repeat(2, axis=0),
        np.ones((64, 4)),
        np.zeros((64, 4)),
        np.eye(64),
        FREE[:1],
        FREE[:3],
        build("learned", length=197, d=768).table(),
    ],
    ids=str,
)
def test_what_is_on_no_grid_has_none(table):
    assert find_grid(table) is None


@pytest.mark.parametrize(
    ("grid", "prefix"), [((14, 14), 1), ((16, 16), 5), ((24, 32), 0), ((64, 96), 1)]
)
def test_usual_grids_are_found(grid, prefix):
    table = build("axial", d=32, grid=grid, prefix=prefix).table()
    found = find_grid(table)
    assert (found.grid, found.prefix) == (grid, prefix)


def test_possible_grids_are_all():
    widths = [(k, w) for k in range(9) for w in range(2, 30) if (30 - k) % w == 0]
    assert set(possible_grids(30)) == {(k, w) for k, w in widths if w < 30 - k}
    assert (0, 2 * WIDEST) not in possible_grids(4 * WIDEST)
    assert (0, WIDEST) in possible_grids(4 * WIDEST)

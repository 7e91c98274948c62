"""Tables read on a wrong grid: each mistake is found with the right grid.

Tables are drawn like trained tables: Gaussian processes that vary slowly along each axis, with
noise up to 0.7 of their size, in 32 to 384 dimensions. Cosines of neighbours are then 0.5 to 0.95.
Tables on the right grid have no finding.
"""

import numpy as np
import pytest
from grids import smooth_table, table_on

from pefourier.encodings.grids import size_of
from pefourier.geometry.products import better_reading
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.resize import resize

IMAGES = [(14, 14), (12, 27), (16, 16), (10, 24), (15, 17), (7, 7), (14, 20), (24, 24)]
VIDEOS = [(8, 14, 14), (4, 7, 7), (16, 8, 12), (6, 10, 8)]
MISREAD = {"neighbours-elsewhere", "grid-transposed", "row-order", "prefix-shift", "flat-index"}


def drawn(rng, sides, widths=(64, 128, 384)):
    """Draw a trained table, and the row of a class token."""
    d = int(rng.choice(widths)) // (len(sides) - 1)
    table = smooth_table(rng, sides, d, reach=rng.uniform(1.2, 4), noise=rng.uniform(0.05, 0.7))
    return table + 0.5 * rng.normal(size=d), rng.normal(size=(1, d))


def errors_of(rng, sides, widths=(64, 128, 384)):
    """Yield rows with a stated grid, the right grid and the row where it begins."""
    table, token = drawn(rng, sides, widths)
    n = len(table)
    yield np.vstack([table, token])[1:], sides, sides, -1
    yield np.vstack([token, table])[:-1], sides, sides, 1
    yield np.roll(table, 1, axis=0), sides, sides, 1
    yield np.roll(table, -1, axis=0), sides, sides, -1
    if len(sides) == 3:
        last = np.moveaxis(table.reshape(*sides, -1), 0, 2)
        yield last.reshape(table.shape), sides, (*sides[1:], sides[0]), 0
        yield table, (*sides[1:], sides[0]), sides, 0
        return
    if sides[0] != sides[1]:
        yield table, sides[::-1], sides, 0
    if others := [h for h in range(4, n // 4 + 1) if n % h == 0 and h not in sides]:
        height = int(rng.choice(others))
        yield table, (height, n // height), sides, 0
    if sides == (15, 17):
        yield np.vstack([token, table]), (16, 16), sides, 1


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(n, marks=LONG) for n in range(100, 200))]
)
def test_mistakes_are_found_and_right_tables_have_none(seed):
    rng = np.random.default_rng(seed)
    for sides in (IMAGES[seed % len(IMAGES)], VIDEOS[seed % len(VIDEOS)]):
        for table, reported, grid, row in errors_of(rng, sides):
            better, given = better_reading(table, reported)
            assert (better.grid, better.start, given.grid) == (grid, row, reported)
        assert better_reading(drawn(rng, sides)[0], sides) is None


def misread(table, sides):
    """Return findings about a wrong grid, which check-faithful and resize must share."""
    placed = table_on(sides, np.vstack([table[:1], table]), prefix=1)
    found = [f for f in check_faithful(placed).findings if f.code in MISREAD]
    assert [f for f in resize(placed, sides).findings if f.code in MISREAD] == found
    return found


MANY = [(7, 7), (5, 9), (4, 5, 6), *(pytest.param(n, marks=LONG) for n in (*IMAGES[:7], *VIDEOS))]


@pytest.mark.parametrize("sides", MANY)
def test_check_faithful_and_resize_warn_equal(sides, rng):
    """Both commands warn about each mistake after a row that is declared as a prefix."""
    for table, reported, grid, row in errors_of(rng, sides, (64,)):
        (warning,) = misread(table, reported)
        expected = f"a {size_of(grid)} grid from row {row + 1} on"
        assert (warning.code, warning.severity) == ("neighbours-elsewhere", "warning")
        assert expected in warning.message
        assert ("transposed" in warning.message) == (sorted(reported) == sorted(grid) and not row)
    assert misread(drawn(rng, sides, (64,))[0], sides) == []


RIGHT = [  # unusual tables on their right grids
    ("a sequence", (196,), (14, 14)),
    ("rows apart", (14,), (14, 14)),
    ("frames apart", (7, 7), (8, 7, 7)),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "drawn_on", "reported"), RIGHT)
def test_tables_without_neighbours_are_no_other_grids(name, drawn_on, reported, seed):
    rng = np.random.default_rng(seed)
    parts = np.prod(reported) // np.prod(drawn_on)
    table = [smooth_table(rng, drawn_on, 32, 3.0, 0.1) for _ in range(parts)]
    assert better_reading(np.vstack(table), reported) is None, name


def test_noise_is_on_no_grid(rng):
    for sides in ((3, 3), (14, 14), (4, 5, 6)):
        assert better_reading(rng.normal(size=(np.prod(sides), 8)), sides) is None
    assert better_reading(np.zeros((12, 4)), (3, 4)) is None
    assert better_reading(rng.normal(size=(12, 8)), (1, 12)) is None

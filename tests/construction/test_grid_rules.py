"""Each mistake of a collection on grids is found and named; no correct convention is."""

import numpy as np
import pytest
from grids import smooth_table, table_on, waves_on
from planted import SIDES, D, X, Y, both

from pefourier.encodings import load
from pefourier.encodings.registry import read_conventions
from pefourier.errors import PefourierError
from pefourier.questions.check_faithful import check_faithful


def codes_of(sides, table, **facts):
    return [f.code for f in check_faithful(table_on(sides, table, **facts)).findings]


RIGHT = both(float, Y, X)
MISTAKEN = {  # beside those that are planted for each finding
    "grid-transposed": load("axial:convention=rt-detr", None, D, grid=SIDES).table(),
    "axis-missing": both(float, Y, 0 * X),
    "coordinates-unscaled": both(float, Y / 6, X / 10),
}
FINE = {
    "DETR": both(float, 2 * np.pi * Y / 7, 2 * np.pi * X / 11),
    "middles": both(float, Y + 0.5, X + 0.5),
    "steps": both(float, Y / 3, X / 3),
}


@pytest.mark.parametrize("name", FINE)
def test_axes_that_fit_together_are_not_blamed(name):
    assert codes_of(SIDES, FINE[name]) == []


@pytest.mark.parametrize("code", MISTAKEN)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_each_mistake_is_named(code, dtype):
    table = MISTAKEN[code].astype(dtype)
    assert codes_of(SIDES, table, eps=float(np.finfo(dtype).eps)) == [code]


def test_frequencies_above_nyquist_are_counted_on_each_axis():
    nerf = waves_on((16, 16), np.kron(np.eye(2), 2 * np.pi / 15 * 2.0 ** np.arange(10)[:, None]))
    assert check_faithful(nerf).aliased == pytest.approx([0.7, 0.7])


def test_learned_tables_are_not_blamed_and_have_no_convention(rng):
    noise = rng.normal(size=RIGHT.shape)
    free = np.hstack([rng.normal(size=(7, 5))[Y], rng.normal(size=(11, 5))[X]])
    right = RIGHT + 0.07 * noise, RIGHT + 1e-3, free, free.astype(np.float16), np.eye(77), noise
    for table in right:
        r = check_faithful(table_on(SIDES, table, eps=float(np.finfo(table.dtype).eps)))
        assert r.identified is None
        assert [f.code for f in r.findings] == ["random-codes"] * (table is noise)


CONVENTIONS = [
    f"{e}:convention={name}" for e, names in read_conventions().items() for name in names
]


@pytest.mark.parametrize("spec", CONVENTIONS)
def test_a_table_of_any_convention_is_known_and_not_blamed(spec):
    for sides in ((6, 8), (3, 6, 8)):
        try:
            table = load(spec, None, 96, grid=sides).table()
        except PefourierError:  # an encoding that needs frames, or a table of another kind
            continue
        r = check_faithful(table_on(sides, table.astype(np.float32), eps=2.0**-23))
        assert spec.partition("=")[2] in r.identified["conventions"]
        again = load(r.identified["spec"], None, 96, grid=sides).table()
        np.testing.assert_allclose(again, table, atol=1e-5)
        columns_first = "rt-detr" in spec or "timm-reverse" in spec
        vectors = [f.code for f in r.findings if f.code != "aliased-frequencies"]
        assert vectors == ["grid-transposed"] * columns_first
        return


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("sides", [(2, 8), (4, 9), (6, 24), (8, 2), (12, 12)])
def test_vectors_that_were_never_resized_follow_their_old_grid(sides, seed):
    table = smooth_table(np.random.default_rng(seed), sides)
    assert codes_of(sides, table) == []
    height = next(h for h in range(2, len(table)) if len(table) % h == 0 and h not in sides)
    (warning,) = check_faithful(table_on((height, len(table) // height), table)).findings
    assert (warning.code, warning.severity) == ("neighbours-elsewhere", "warning")
    assert "x".join(map(str, sides)) in warning.message
    free = np.random.default_rng(seed).normal(size=table.shape)
    assert "neighbours-elsewhere" not in codes_of(sides, free)


@pytest.mark.parametrize("sides", [(8, 8), (3, 5), (2, 6)])
def test_points_within_rounding_are_one_for_verdict_and_finding(sides):
    lines = [np.pi * (2 * k / (n - 1) - 1) for k, n in zip(np.indices(sides), sides, strict=True)]
    phases = [np.outer(axis, 2.0 ** np.arange(4)) for axis in lines]
    table = np.hstack([f(p) for p in phases for f in (np.sin, np.cos)])
    r = check_faithful(table_on(sides, table))
    assert (r.verdict, r.distinct) == ("collides", (sides[0] - 1) * (sides[1] - 1))
    assert r.displacement == (0, sides[1] - 1)
    assert (r.min_distance, "ends-coincide" in [f.code for f in r.findings]) == (0, True)

"""The zoo of mistakes on a grid: each is found and named, and no correct convention is."""

import numpy as np
import pytest
from grids import table_on, waves_on

from pefourier.encodings import load
from pefourier.encodings.conventions import read_conventions
from pefourier.errors import PefourierError
from pefourier.questions.faithful import assess

SIDES, D = (7, 11), 64
Y, X = np.indices(SIDES).reshape(2, -1)


def part(coordinate, layout="halves", base=1e4):
    """Half of the columns: sines and cosines of a coordinate at D/4 frequencies."""
    phases = np.outer(coordinate, base ** (-np.arange(D // 4) / (D // 4)))
    waves = np.stack([np.sin(phases), np.cos(phases)], axis=1)
    return (waves if layout == "halves" else waves.swapaxes(1, 2)).reshape(len(phases), -1)


def both(y, x, **of_y):
    return np.hstack([part(x), part(y, **of_y)])


def axial(spec, sides=SIDES, prefix=0):
    return load(spec, None, D, grid=sides, prefix=prefix).table()


def blocks_of_four(table):
    order = np.arange(6 * 8).reshape(3, 2, 4, 2).transpose(0, 2, 1, 3).ravel()
    return table[order]


RIGHT = both(Y, X)
ZOO = {  # table, sides, distinct, smallest distance, Toeplitz residual, finding
    "columns first": (axial("axial:convention=rt-detr"), 77, 1.1716, 0.0329, "grid-transposed"),
    "timm reversed": (
        axial("axial:convention=timm-reverse"),
        77,
        1.1716,
        0.0329,
        "grid-transposed",
    ),
    "both x": (both(X, X), 11, 0, 0, "axis-duplicated"),
    "y zeroed": (both(0 * Y, X), 11, 0, 0, "axis-missing"),
    "x zeroed": (both(Y, 0 * X), 7, 0, 0, "axis-missing"),
    "one axis": (load("sinusoidal", 77, D).table(), 77, 1.4718, 0, "flat-index"),
    "shifted": (np.roll(RIGHT, 1, axis=0), 77, 1.1716, 0.0400, "prefix-shift"),
    "from 0 to 1": (both(Y / 7, X / 11), 77, 0.1099, 0, "coordinates-unscaled"),
    "layouts": (both(Y, X, layout="interleaved"), 77, 1.1716, 0, "layouts-mixed"),
    "other side": (
        both(2 * np.pi * Y / 11, 2 * np.pi * X / 7),
        *(77, 0.6837, 0, "normalised-by-other-side"),
    ),
    "middle of patches": (both(Y + 0.5, X + 0.5), 77, 1.1716, 0, "half-offset"),
}


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_each_mistake_is_named(name, dtype):
    table, distinct, least, residual, code = ZOO[name]
    enc = table_on(SIDES, table.astype(dtype), eps=float(np.finfo(dtype).eps))
    r = assess(enc)
    assert [f.code for f in r.findings] == [code]
    assert r.distinct == distinct
    assert r.min_distance == pytest.approx(least, abs=6e-5)
    assert r.toeplitz_residual == pytest.approx(residual, abs=6e-5)


def test_blocks_of_merged_patches_are_named():
    table = blocks_of_four(axial("axial", (6, 8)))
    assert [f.code for f in assess(table_on((6, 8), table)).findings] == ["row-order"]


def test_ends_that_coincide_are_named():
    coordinate = 2 * np.arange(16) / 15 - 1
    phases = np.outer(coordinate, np.pi * 2.0 ** np.arange(5))
    line = np.hstack([np.sin(phases), np.cos(phases)])
    table = np.hstack([np.repeat(line[:9], 16, axis=0), np.tile(line, (9, 1))])
    found = assess(table_on((9, 16), table))
    assert [f.code for f in found.findings] == ["ends-coincide"]
    nerf = waves_on((16, 16), np.kron(np.eye(2), 2 * np.pi / 15 * 2.0 ** np.arange(10)[:, None]))
    r = assess(nerf)  # origin: formula
    codes = [f.code for f in r.findings]
    assert codes == ["ends-coincide", "ends-coincide", "aliased-coordinates"]
    assert (r.verdict, r.displacement, r.aliased) == (
        "collides",
        (0, 15),
        pytest.approx([0.7, 0.7]),
    )


def test_text_that_shares_the_code_of_a_patch_is_noted():
    flux = load("axial-rope:convention=flux", None, 128, grid=(4, 6), prefix=3)
    (note,) = assess(flux).findings
    assert (note.code, note.severity) == ("text-collides-with-patch", "note")
    (said,) = assess(load("axial-rope:convention=flux", None, 128, grid=(4, 6))).findings
    assert said.code == note.code
    assert "text tokens all have the code of point (0,0)" in said.message
    assert assess(load("axial-rope:convention=qwen-image", None, 128, grid=(4, 6))).findings == []
    table = np.vstack([RIGHT[:1], RIGHT])
    found = assess(table_on(SIDES, table, prefix=1)).findings
    assert [f.code for f in found] == ["text-collides-with-patch"]
    assert assess(table_on(SIDES, np.vstack([0 * RIGHT[:1], RIGHT]), prefix=1)).findings == []


@pytest.mark.parametrize("name", ["grid", "random", "noisy", "eye"])
def test_learned_tables_are_not_blamed(name):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=RIGHT.shape)
    tables = {
        "grid": np.hstack([rng.normal(size=(7, 5))[Y], rng.normal(size=(11, 5))[X]]),
        "random": noise,
        "noisy": RIGHT + 0.07 * noise,
        "eye": np.eye(77),
    }
    found = [finding.code for finding in assess(table_on(SIDES, tables[name])).findings]
    assert found == ["random-codes"] * (name == "random")


CONVENTIONS = [
    f"{name}:convention={one}"
    for name in ("axial", "axial-rope")
    for one in read_conventions()[name]
    if one not in ("rt-detr", "timm-reverse")
]


@pytest.mark.parametrize("spec", CONVENTIONS)
def test_a_correct_table_of_any_convention_is_not_blamed(spec):
    try:
        table = load(spec, None, 96, grid=(6, 8)).table()
    except PefourierError:  # needs frames
        table = load(spec, None, 96, grid=(3, 6, 8)).table()
    sides = (6, 8) if len(table) == 48 else (3, 6, 8)
    codes = [f.code for f in assess(table_on(sides, table)).findings]
    assert codes == (["half-offset"] if "deformable" in spec else [])


def test_what_a_table_on_a_grid_is():
    r = assess(table_on(SIDES, axial("axial:convention=deformable-detr")))
    assert r.identified["encoding"] == "axial"
    params = r.identified["params"]
    assert (params["order"], params["rho"], params["offset"]) == ("yx", 1e4, 0.5)
    assert params["step"] == pytest.approx([2 * np.pi / 7, 2 * np.pi / 11], rel=1e-6)
    pixtral = axial("axial-rope:convention=pixtral")
    found = assess(table_on(SIDES, pixtral)).identified
    assert found["encoding"] == "axial-rope"
    assert found["params"]["step"] == pytest.approx([1.0, 1e4 ** (-2 / 64)], rel=1e-9)
    assert assess(table_on(SIDES, RIGHT + 1e-3)).identified is None
    two_bases = np.hstack([part(X), part(Y, base=500)])
    assert "spec" not in assess(table_on(SIDES, two_bases)).identified


@pytest.mark.parametrize(
    "spec",
    ["axial:convention=mae", "axial:order=xy,rho=500", "axial-rope:rho=100,divisor=n-1", "axial"],
)
def test_what_is_printed_of_a_known_table_can_be_typed_back(spec):
    table = axial(spec)
    np.testing.assert_allclose(
        axial(assess(table_on(SIDES, table)).identified["spec"]), table, atol=1e-12
    )


def test_points_that_repeat_are_named_on_the_grid():
    table = axial("axial")
    table[5 * 11 + 4] = table[2 * 11 + 3]
    said = " ".join(f.message for f in assess(table_on(SIDES, table)).findings)
    assert "(2,3)" in said.replace(" ", "") or "(5,4)" in said.replace(" ", "")


def smooth_codes(sides, d=24, seed=0):
    """Free codes that change slowly along both axes of a grid, as trained ones do."""
    rng = np.random.default_rng(seed)
    lines = [np.arange(side)[:, None] - np.arange(side) for side in sides]
    kernels = [np.linalg.cholesky(np.exp(-((k / 2) ** 2)) + 1e-9 * np.eye(len(k))) for k in lines]
    free = rng.normal(size=(*sides, d))
    return np.einsum("ai,bj,ijd->abd", *kernels, free).reshape(-1, d)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sides", [(2, 8), (4, 9), (6, 24), (8, 2), (7, 14), (12, 12)])
def test_codes_that_were_never_resized_follow_their_old_grid(sides, seed):
    table = smooth_codes(sides, seed=seed)
    assert assess(table_on(sides, table)).findings == []
    height = next(h for h in range(2, len(table)) if len(table) % h == 0 and h not in sides)
    (warning,) = assess(table_on((height, len(table) // height), table)).findings
    assert (warning.code, warning.severity) == ("neighbours-elsewhere", "warning")
    assert "x".join(map(str, sides)) in warning.message


@pytest.mark.parametrize("sides", [(4, 4), (6, 10)])
def test_codes_without_neighbours_follow_no_grid(rng, sides):
    table = rng.normal(size=(np.prod(sides), 24))
    assert "neighbours-elsewhere" not in [f.code for f in assess(table_on(sides, table)).findings]

"""Tables on grids: equal in any storage, and planted mistakes are found."""

import json
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from grids import table_on

from pefourier.construction.grids import PLACEMENTS, Points
from pefourier.construction.tables import Scaled
from pefourier.encodings import load
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.geometry.interpolation import resize_lattice
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.questions.compare import compare, load_matching_pair

SEED = int(np.random.SeedSequence().entropy % 2**32)  # other faults in each run
DRAWS, GRID_CAUSES = 2, (*PLACEMENTS, Scaled)
EPS = float(np.finfo(np.float32).eps)
RECORDED = json.loads((Path(__file__).parents[1] / "helpers/recorded_axes.json").read_text())


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


def geometric(count, base):
    return base ** (-np.arange(count) / count)


def places(sides):
    return list(np.indices(sides).reshape(len(sides), -1).astype(float))


def normalised(sides):
    """Return the coordinates of DINOv3: centres of patches from -1 to 1, times 2 pi."""
    return [2 * np.pi * (2 * (x + 0.5) / n - 1) for x, n in zip(places(sides), sides, strict=True)]


def scaled(sides, size):
    return [x * size / n for x, n in zip(places(sides), sides, strict=True)]


def places_in(name, sides):
    """Return the coordinates of a convention; those of timm are of ref_feat_shape 16."""
    if name == "dinov3":
        return normalised(sides)
    return scaled(sides, 16) if name == "timm" else places(sides)


BASES = {"dinov3": 100.0}


def angles_of(name, sides, d, base=None, coordinates=None):
    """Return the phases (n, m) of the pairs of all axes, from one coordinate array (n,) by axis."""
    sixth = d // 6
    pairs = [d // 2 - 2 * sixth, sixth, sixth] if name == "wan" else [d // 4] * 2
    lines = zip(coordinates or places_in(name, sides), pairs, strict=True)
    return np.hstack([np.outer(x, geometric(m, base or BASES.get(name, 1e4))) for x, m in lines])


ROTATIONS = {  # equivalent SPEC
    "dinov3": "axial-rope:convention=dinov3",
    "qwen2-vl": "axial-rope:convention=qwen2-vl",
    "timm": "axial-rope:convention=eva02,reference=16;16",
    "wan": "axial-rope:convention=wan",
    "added": "axial:convention=timm",
}


def stored(angles, form):
    """Return cosines and sines in float32, as libraries store them."""
    return in_form(np.cos(angles), np.sin(angles), form)


def in_form(cos, sin, form):
    if form == "halves":
        cos, sin = (np.hstack([x, x]) for x in (cos, sin))
    elif form in ("doubled", "sines first"):
        cos, sin = (np.repeat(x, 2, axis=1) for x in (cos, sin))
    parts = [sin, cos] if form in ("sines first", "added") else [cos, sin]
    return np.hstack(parts).astype(np.float32)


FORMS = ("halves", "doubled", "single", "sines first")
ADDED = ("added",)  # columns of sinusoids that are added keep their order


def drawn(rng, name):
    """Draw a dimension and sides, at least 4 along an axis and all different."""
    sides = rng.permutation(np.arange(5, 17))[:2] if name != "wan" else rng.permutation(8)[:3] + 3
    return tuple((2 * sides if name == "qwen2-vl" else sides).tolist()), int(
        rng.choice([32, 64, 96, 128])
    )


def compared(sides, first, second, other=None):
    a = table_on(sides, first, eps=EPS)
    return compare(a, table_on(other or sides, second, eps=EPS))


@pytest.mark.parametrize("name", ROTATIONS)
def test_one_rotation_is_the_same_however_it_is_stored(name, rng):
    for _ in range(DRAWS):
        sides, d = drawn(rng, name)
        forms = ADDED if name == "added" else FORMS
        for form in forms:
            numbers = stored(angles_of(name, sides, d), form)
            coarse = table_on(sides, rounded(numbers, FORMATS["bfloat16"]), eps=EPS)
            table, case = table_on(sides, numbers, eps=EPS), (SEED, sides, d, form)
            for one in (coarse, table):
                found = compare(load(ROTATIONS[name], None, d, grid=sides), one)
                assert (found.verdict, found.transform, found.pairs) == ("the same", {}, ()), case
            assert ("sines-first" in [f.code for f in found.findings]) == (form == "sines first")
        other = stored(angles_of(name, sides, d), rng.choice(forms))
        assert compared(sides, table.table(), other).same


def planted(rng, name, sides, d):
    """Yield one mistake of each kind: the setting, its reported value, and the changed phases."""
    base, own, axes = BASES.get(name, 1e4), places_in(name, sides), len(sides)
    other = float(rng.choice([b for b in (100.0, 256.0, 1e3, 1e4, 5e5) if b != base]))
    yield "rho", f"{other:.8g}", angles_of(name, sides, d, other)
    if name in ("timm", "qwen2-vl", "added"):
        size = int(rng.choice([8, 12, 20, 24]))
        yield (
            "reference",
            f"y {size}, x {size}",
            angles_of(name, sides, d, base, scaled(sides, size)),
        )
    if name == "qwen2-vl":
        yield "axes", None, np.roll(angles_of(name, sides, d), d // 4, axis=1)
    factors = rng.choice([0.31, 0.4437, 0.557, 0.713], axes)
    points = [x * f for x, f in zip(own, factors, strict=True)]
    yield "scale", None, angles_of(name, sides, d, base, points)
    moved = [x + s for x, s in zip(own, rng.choice([0.5, 1.0, 3.0, -2.5], axes), strict=True)]
    yield "offset", None, angles_of(name, sides, d, base, moved)
    if name == "added":
        moved = [x * f for x, f in zip(moved, factors, strict=True)]
        yield "rho scale offset", None, angles_of(name, sides, d, other, moved)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["eva02", "eva02,reference=6;6", "timm", "dinov3"])
def test_rotations_of_timm_as_recorded_are_the_same(name, form):
    cos, sin = np.split(np.array(RECORDED[f"axial-rope {name}"]), 2, axis=1)
    table = table_on((3, 4), in_form(cos, sin, form), eps=EPS)
    assert compare(load(f"axial-rope:convention={name}", None, 16, grid=(3, 4)), table).same


@pytest.mark.parametrize("name", ROTATIONS)
def test_another_base_reference_scale_or_offset_is_found(name, rng):
    for _ in range(DRAWS):
        sides, d = drawn(rng, name)
        forms = ADDED if name == "added" else FORMS
        right = table_on(sides, stored(angles_of(name, sides, d), forms[0]), eps=EPS)
        for key, value, angles in planted(rng, name, sides, d):
            second = table_on(sides, stored(angles, rng.choice(forms)), eps=EPS)
            for enc in (load(ROTATIONS[name], None, d, grid=sides), right):
                found = compare(enc, second)
                case = (name, sides, d, key, value, found.cause, found.transform, found.verdict)
                is_same = key == "offset"
                changed = found.transform if is_same else found.cause and found.cause.changes
                assert found.verdict == ("equivalent" if is_same else "different"), case
                assert set(changed or ()) == set(key.split()), case
                shown = changed[key][1] if value else None
                assert value in (None, f"{shown:.8g}" if key == "rho" else shown), case


FAULTS = {  # changes of a rotation on axes, and the settings of `rotation_with` that give them
    "rho": {"t": 100.0, "y": 100.0, "x": 100.0},
    "rho along x": {"x": 500.0},
    "rho along y": {"y": 2e3},
    "scale": {"scale": 0.4437},
    "offset": {"offset": 3.0},
    "sine": {"sign": -1.0},
    "amplitude": {"factor": 1.5},
}
PAIRS = [(a, b) for a, b in combinations(FAULTS, 2) if not FAULTS[a].keys() & FAULTS[b].keys()]


def rotation_with(sides, t=1e4, y=1e4, x=1e4, scale=1.0, sign=1.0, offset=0.0, factor=1.0):
    lines = zip(places(sides), (t, y, x)[-len(sides) :], strict=True)
    angles = [np.outer(sign * scale * (p + offset), geometric(8, base)) for p, base in lines]
    return factor * stored(np.hstack(angles), "halves")


@pytest.mark.parametrize("faults", PAIRS, ids=" and ".join)
@pytest.mark.parametrize("axes", [2, 3])
def test_of_two_faults_on_axes_both_are_named_or_none(axes, faults, rng):
    sides = tuple(rng.permutation(np.arange(4, 13))[:axes].tolist())
    settings = FAULTS[faults[0]] | FAULTS[faults[1]]
    found = compared(sides, rotation_with(sides), rotation_with(sides, **settings))
    named = set(found.cause.changes) if found.cause else set()
    assert named == set(faults) or not (named or found.causes or axes == 3), (SEED, sides, named)


def is_on_grids(name):
    try:
        return load(name, None, 32, grid=(4, 6)).injection != "bias"
    except PefourierError:
        return False


@pytest.mark.parametrize("spec", [*filter(is_on_grids, BUILDERS)])
def test_moved_points_of_registered_encodings_are_named_alone_and_in_pairs(spec, rng):
    sides = random_sides(rng, 4, 12)
    enc, index = load(spec, None, 32, grid=sides), np.arange(np.prod(sides)).reshape(sides)
    table, snake = enc.table().astype(np.float32), index.copy()
    snake[1::2] = snake[1::2, ::-1]
    orders = [np.roll(index, int(rng.integers(1, 4)), axis) for axis in (0, 1)]
    orders += [index[::-1], index[:, ::-1], snake]
    for steps in [*product(range(5)), *rng.integers(5, size=(4, 2)).tolist()]:
        other, case = table, (SEED, spec, sides, steps)
        for step in steps:
            other = other[orders[step].ravel()]
        if len(steps) > 1 and enc.injection != "rotate":
            other = other * np.float32(rng.choice([1.0, 2.5]))
        found = compared(sides, table, other)
        given, goal = (table, other)[:: -1 if found.expected == "second" else 1]
        points = Points(given.astype(float), np.zeros((len(table), 1)), sides)
        if found.causes and all(isinstance(cause, GRID_CAUSES) for cause in found.causes):
            for cause in found.causes:
                points = cause.apply(points)
            assert found.verdict == "equivalent" or np.allclose(points.values, goal, atol=1e-4), (
                case
            )
        assert not found.same or (table == other).all(), case
        assert found.causes or found.verdict in ("the same", "equivalent") or len(steps) > 1, case


def sincos(sides, d):
    """Return the table of timm: sines of y and x, then cosines."""
    return stored(angles_of("added", sides, d), "added")


def random_sides(rng, low=4, high=20):
    return tuple(rng.permutation(np.arange(low, high))[:2].tolist())


@pytest.mark.parametrize("d", [32, 64])
def test_sinusoids_of_exchanged_axes_are_equivalent(d, rng):
    sides = random_sides(rng, 5)
    swapped = sincos(sides, d).reshape(-1, 2, 2, d // 4)[:, :, ::-1].reshape(-1, d)
    spec = load("axial:convention=timm", None, d, grid=sides)
    found = compare(spec, table_on(sides, swapped, eps=EPS))
    assert (found.verdict, found.transform["axes"]) == ("equivalent", "y and x exchanged")


def orders(sides):
    """Yield named orders of a table's rows: (name, rows, sides of the second table)."""
    index = np.arange(np.prod(sides)).reshape(sides)
    if len(sides) == 3:
        yield "axes in the order y, x, t", index.transpose(1, 2, 0), (*sides[1:], sides[0])
        yield "t reversed", index[::-1], sides
        yield "y and x exchanged", index.swapaxes(1, 2), (sides[0], sides[2], sides[1])
        return
    yield "y and x exchanged", index.T, sides[::-1]
    yield "y and x exchanged", index.T, sides
    yield "x reversed", index[:, ::-1], sides
    if not (sides[0] % 2 or sides[1] % 2):
        height, width = sides
        blocks = index.reshape(height // 2, 2, width // 2, 2).swapaxes(1, 2)
        yield "blocks of 2 x 2 points", blocks, sides


@pytest.mark.parametrize("kind", ["learned", "sincos", "rotation", "video"])
def test_points_in_another_order_and_crops_are_found(kind, rng):
    for _ in range(DRAWS):
        sides, d = random_sides(rng), 32
        sides = tuple(n + n % 2 for n in sides) if rng.random() < 0.5 else sides
        if sides[0] == sides[1]:
            sides = (sides[0], sides[0] + 2)
        if kind == "video":
            sides = (int(rng.integers(2, 4)), *sides)
        size = int(np.prod(sides))
        table = rng.standard_normal((size, 12)).astype(np.float32)
        if kind == "sincos":
            table = sincos(sides, d)
        elif kind == "rotation":
            table = stored(angles_of("qwen2-vl", sides, d), FORMS[rng.integers(3)])
        for name, rows, other in orders(sides):
            found = compared(sides, table, table[rows.ravel()], other)
            assert (found.verdict, found.transform) == ("different", {"rows": name}), (sides, found)
            moved = int((rows.ravel() != np.arange(size)).sum())
            assert (found.differing, found.counted) == (moved, size)
        part = tuple(int(rng.integers(2, n + 1)) for n in sides)
        if part == sides:
            continue
        corner = [int(rng.integers(0, n - p + 1)) for n, p in zip(sides, part, strict=True)]
        spans = [slice(c, c + p) for c, p in zip(corner, part, strict=True)]
        crop = table.reshape(*sides, -1)[tuple(spans)].reshape(-1, table.shape[1])
        names = zip(("frames", "rows", "columns")[-len(sides) :], spans, strict=True)
        text = ", ".join(f"{name} {s.start} to {s.stop - 1}" for name, s in names)
        found = compared(sides, table, crop, part)
        assert (found.verdict, found.transform) == ("equivalent", {"crop": f"{text} of the first"})
        found = compare(table_on(part, crop, eps=EPS), table_on(sides, table, eps=EPS))
        assert found.transform == {"crop": f"{text} of the second"}


def test_waves_of_any_frequencies_differ_where_they_differ(rng):
    """Unrelated tables, learned frequencies and permuted rows differ, whatever the fit."""
    for _ in range(DRAWS):
        sides, m = random_sides(rng), 8
        tables = rng.standard_normal((2, np.prod(sides), 32)).astype(np.float32)
        found = compared(sides, *tables)
        assert (found.verdict, found.transform, found.cause) == ("different", {}, None)
        omega = rng.uniform(0, np.pi, (2, m)) * rng.integers(0, 2, (2, m))
        angles = np.stack(places(sides), axis=1) @ omega
        rows = rng.permutation(len(angles))
        for phases in (angles, angles[rows], angles_of("wan", (*sides, 2), 48)[: len(angles)]):
            right = table_on(sides, stored(phases, "halves"), eps=EPS)
            noise = 1e-3 * rng.standard_normal(phases.shape)
            found = compare(right, table_on(sides, stored(phases + noise, "doubled"), eps=EPS))
            assert (found.verdict, found.transform, found.cause) == ("different", {}, None)
            assert found.tolerance < 1e-3
            assert compared(sides, right.table(), stored(phases, "single")).same


def test_rotations_differ_by_their_factor_and_rows_before_the_grid():
    sides, first = (5, 6), stored(angles_of("qwen2-vl", (5, 6), 32), "halves")
    found = compared(sides, first, 1.25 * first)
    assert (found.verdict, found.cause.misreadings) == ("different", ("mscale",))
    before = np.repeat([[1.0, 0.0]], 32, axis=1).astype(np.float32)
    tables = [np.vstack([x, first]) for x in (before, -before)]
    pair = [table_on(sides, table, 1, eps=EPS) for table in tables]
    found = compare(*pair)
    assert (found.differing, found.counted, found.unit) == (1, 1, "rows before the grid")
    assert compare(pair[0], pair[0]).same


@pytest.mark.parametrize("method", ["bicubic", "bilinear", "antialias"])
def test_resizes_in_float32_are_one(method, rng):
    """Resizes of torch in float32 and float64 agree; a table with a larger difference does not."""
    options = {"mode": method.replace("antialias", "bicubic"), "antialias": method == "antialias"}
    for _ in range(DRAWS):
        side, size = (int(n) for n in rng.permutation(np.arange(5, 16))[:2])
        table = torch.from_numpy(rng.standard_normal((1, 24, side, side))).float()
        resized = [
            torch.nn.functional.interpolate(x, (size, size), **options)[0].flatten(1).T.float()
            for x in (table, table.double())
        ]
        first, second = (table_on((size, size), np.asarray(x), eps=EPS) for x in resized)
        assert compare(first, second).same
        moved = second.table().copy()
        moved[1, 2] += 5e-6 * np.abs(moved).max()
        assert not compare(first, table_on((size, size), moved, eps=EPS)).same


@pytest.mark.parametrize("real", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize(("old", "new"), [((8, 12), (5, 9)), ((6, 6), (9, 13))])
def test_a_resized_grid_is_named_by_its_method_in_all_its_columns(old, new, real, rng, tmp_path):
    sizes = np.repeat([100.0, 0.01], 4)  # no column hides behind larger ones
    table = (sizes * rng.normal(size=(np.prod(old), 8))).astype(real)
    np.save(first := tmp_path / "old.npy", table)
    for method in ("bilinear", "align-corners", "bicubic", "antialias", "fourier"):
        made = resize_lattice(table, old, new, method).astype(real)
        damaged = made.copy()
        damaged[3, 4:] *= 2
        for rows, causes in ((made, [("resized", method)]), (damaged, [])):
            np.save(second := tmp_path / "new.npy", rows)
            found = compare(*load_matching_pair(first, second, params={"grid": old}))
            assert found.verdict == "different"
            assert [(cause.code, cause.method) for cause in found.causes] == causes


@pytest.mark.parametrize("end", [0, 96])
def test_a_row_beside_a_grid_is_found(end, rng, tmp_path):
    table = rng.normal(size=(96, 8))
    np.save(first := tmp_path / "a.npy", table)
    np.save(second := tmp_path / "b.npy", np.insert(table, end, rng.normal(size=8), axis=0))
    for params in ({"grid": (8, 12)}, None):
        assert not compare(*load_matching_pair(first, second, params=params)).same


@pytest.mark.parametrize(("before", "rows"), [(0, 1), (1, 0), (0, 4), (4, 1)])
def test_rows_before_a_grid_that_a_table_lacks_are_different(tmp_path, before, rows):
    spec = f"axial:grid=6x8,prefix={before}"
    points = load(spec, d=32).table()[before:]
    np.save(path := tmp_path / "x.npy", np.vstack([np.zeros((rows, 32)), points]))
    found = compare(*load_matching_pair(spec, path, d=32))
    assert (found.same, found.lengths) == (rows > before, (48 + before, 48 + rows))
    assert found.same or (found.unit, found.differing) == ("rows", before - rows)

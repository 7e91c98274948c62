"""Effects of resizing on tables and formulas."""

import pickle

import numpy as np
import pytest
import torch
from findings import codes
from grids import table_on
from numpy.testing import assert_allclose, assert_array_equal
from published_configs import sized
from refusals import refusal
from safetensors.torch import save_file
from torch.nn.functional import interpolate

import pefourier
from pefourier.encodings import load
from pefourier.encodings.sources.tables import array_names, read_table
from pefourier.questions.resize import (
    picture,
    resize,
)


def both(spec, old, new, **facts):
    return resize(spec, new, grid=old, d=64, **facts)


SIDES = "--from 3x4 --to 6x5 --prefix 1"


def test_methods_compared_in_parts_are_those_of_whole_tables(monkeypatch, rng):
    monkeypatch.setattr("pefourier.questions.resize.NUMBERS_AT_ONCE", 60)  # two columns of five
    table = rng.normal(size=(12, 5))
    table[:, 2] = 3.0  # a constant column
    r = resize(table_on((3, 4), table), (6, 5), "fourier")
    for row in r.methods:
        new = resize(table_on((3, 4), table), (6, 5), row.method).table
        assert (new[:, 2] == 3.0).all()
        assert row.largest_difference == pytest.approx(np.abs(new - r.table).max(), rel=1e-12)
        norms = [np.sqrt((x**2).sum(axis=1).mean()) for x in (new, table)]
        assert row.norm_ratio == pytest.approx(norms[0] / norms[1], rel=1e-12)
        unit = (new / np.linalg.norm(new, axis=1, keepdims=True)).reshape(6, 5, 5)
        down, right = (unit[:-1] * unit[1:]).sum(-1), (unit[:, :-1] * unit[:, 1:]).sum(-1)
        assert row.neighbours == pytest.approx([down.mean(), right.mean()], rel=1e-12)


def folded_by_hand(table, sides):
    """Return the energy by |k| along each axis, from all coefficients of the DFT."""
    power = (np.abs(np.fft.fftn(table.reshape(*sides, -1), axes=range(len(sides)))) ** 2).sum(-1)
    folded = np.zeros([n // 2 + 1 for n in sides])
    for place in np.ndindex(*sides):
        folded[tuple(min(k, n - k) for k, n in zip(place, sides, strict=True))] += power[place]
    return folded / power.sum()


@pytest.mark.parametrize(("old", "new"), [((7,), (9,)), ((5, 8), (8, 6)), ((2, 3, 4), (4, 5, 3))])
def test_spectra_before_and_after_are_those_of_the_tables(old, new, rng):
    table = rng.normal(size=(np.prod(old), 5))
    r = resize(table_on(old, table), new, "bilinear")
    folded = [folded_by_hand(table, old), folded_by_hand(r.table, new)]
    for state, expected in zip((r.before, r.after), folded, strict=True):
        for axis in range(len(old)):
            others = tuple({*range(len(old))} - {axis})
            assert_allclose(state.along(axis), expected.sum(axis=others), atol=1e-14)
        assert state.waves.density.sum() == pytest.approx(1.0)


PHASES = [  # indices reach new phases, but normalised coordinates do not
    ("axial:convention=mae", (14, 10), (24, 10), (14, 0)),
    ("axial:convention=mae", (14, 10), (7, 5), (0, 0)),
    ("axial:convention=detr", (14, 10), (24, 20), (0, 0)),
    ("axial-rope:convention=dinov3", (6, 6), (9, 8), (0, 0)),
]


@pytest.mark.parametrize(("spec", "old", "new", "unseen"), PHASES)
def test_pairs_that_meet_unseen_phases_are_named(spec, old, new, unseen):
    r = both(spec, old, new)
    assert [(axis.axis, axis.unseen) for axis in r.unseen] == [*zip("yx", unseen, strict=True)]
    assert codes(r) == ["unseen-phases"] * sum(n > 0 for n in unseen)
    if unseen[0]:
        omega = 1e4 ** (-np.arange(16) / 16)
        assert r.unseen[0].which == np.flatnonzero(omega * 13 < 2 * np.pi).tolist()
        assert r.unseen[0].pairs == 16
    assert resize(load(spec, None, 8, grid=(4, 4)), (5, 5)).unseen == []


def test_rotations_are_reported_as_they_are_computed():
    r = both("axial-rope:convention=dinov3", (6, 6), (9, 8))
    new = load("axial-rope:convention=dinov3", None, 64, grid=(9, 8)).table()
    nearest = np.linalg.norm(new[:, None] - new, axis=-1)[~np.eye(72, dtype=bool)].min()
    assert r.after.waves.nearest == pytest.approx(nearest / np.linalg.norm(new, axis=1).max())
    assert (r.verdict, r.method, r.methods) == ("computed anew", "anew", [])


LLAMA3 = "rope:rho=5e5,scaling=llama3,factor=8,original=2048"
SEQUENCES = [
    (LLAMA3, 8192, 64),
    ("rope:scaling=yarn,factor=4,original=64", 255, 16),
    ("rope:rho=100,partial=.5", 81, 12),
    ("rope++", 33, 8),
    ("rope", 2, 2),
    ("rope", 1, 4),
    ("rope:inv_freq=day.npy", 72, 8),
]


@pytest.mark.parametrize(("spec", "length", "d"), SEQUENCES)
def test_a_rotation_of_a_sequence_is_described_as_its_table_is(spec, length, d, folder):
    """Closed forms equal the table: closest rows by search, and the FFT of columns."""
    np.save(folder / "day.npy", 2 * np.pi * np.array([1, 3, 12, 20]) / 24)
    enc = load(spec, length, d)
    table = np.asarray(enc.table(), float)
    closed, slow = (picture("", enc, (length,), given) for given in (None, table))
    assert closed.grid == (length,)
    assert (closed.distinct, closed.equal) == (slow.distinct, slow.equal)
    assert closed.norm == pytest.approx(slow.norm, rel=1e-9)
    closed, slow = closed.waves, slow.waves
    for name in ("neighbours", "cycles", "constant", "density"):
        expected = np.array(getattr(slow, name))
        assert_allclose(getattr(closed, name), expected, rtol=1e-9, atol=1e-13)
    if length == 1:
        assert closed.nearest is None
    else:
        assert closed.nearest == pytest.approx(slow.nearest, rel=1e-9, abs=1e-12)


DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
KEPT = [
    (None, 200, 96),
    (None, 40, 40),
    (DYNAMIC, 200, 1),
]


@pytest.mark.parametrize(("scaling", "new", "kept"), KEPT)
def test_rows_that_a_new_length_leaves_as_they_are_are_counted(scaling, new, kept, written):
    path = written(sized("llama", 64, 4, 96, rope_scaling=scaling))
    made = pefourier.resize(path, (new,))
    tables = [load(path, n).table()[: min(96, new)] for n in (96, new)]
    assert made.unchanged == (tables[0] == tables[1]).all(axis=1).sum() == kept
    assert_array_equal(made.table, load(path, new).table())
    if kept > 1:
        assert f"The first {kept} rows are unchanged" in made.conclusion
    again = pickle.loads(pickle.dumps(made))
    assert_array_equal(again.table, made.table)


def test_a_config_of_a_long_context_is_resized_without_its_table(written):
    """A config of 262144 positions is resized without its table."""
    made = pefourier.resize(
        written({"model_type": "llama", "max_position_embeddings": 2**17}), "256k"
    )
    assert (made.unchanged, made.after.distinct) == (2**17, 2**18)
    assert "table" not in vars(made)


def test_biases_of_a_network_are_computed_again():
    """Biases of a network are recomputed with coordinates divided by the pretrained window."""
    for spec, first in (("swin2", (8, 8)), ("swin2:pretrained=5x5", (5, 5))):
        r = pefourier.resize(spec, (16, 16), grid=(8, 8), d=3)
        expected = load("swin2", None, 3, grid=(16, 16), pretrained=first).table()
        assert_array_equal(r.table, expected)
        assert (r.verdict, r.after.distinct) == ("computed anew", 961)
    requested = pefourier.resize("swin2", (16, 16), grid=(8, 8), d=3, method="antialias")
    assert requested.findings == list(requested.encodings[0].findings)
    assert np.abs(requested.table - expected).max() > 1e-4


@pytest.mark.parametrize(
    ("name", "key", "kind", "axes"),
    [
        ("t.npy", "", "float16", (1, 13, 4)),
        ("t.npz", "#pe", "float32", (13, 1, 4)),
        ("t.npz", "#pe", "float32", (1, 1, 13, 4)),
        ("t.safetensors", "#pe", "bfloat16", (13, 4)),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_written_has_the_type_and_the_axes_of_what_was_read(name, key, kind, axes, run):
    table = torch.randn(axes, generator=torch.Generator().manual_seed(0))
    table = table.to(getattr(torch, kind))
    if kind == "bfloat16":
        save_file({"pe": table}, name)
    else:
        np.savez(name, pe=table.numpy()) if key else np.save(name, table.numpy())
    made = pefourier.resize(f"{name}{key}", (6, 5), grid=(3, 4), prefix=1).table
    for out in ("o.npy", "o.npz", "o.safetensors", "o.csv"):
        assert run("resize", f"{name}{key}", *SIDES.split(), "--out", out).status == 0
        named = (key[1:] or "codes") if out in ("o.npz", "o.safetensors") else ""
        assert array_names(out) == [named]
        read, wide = read_table(out)[0], kind.replace("bfloat16", "float32")
        assert read.dtype == ("float64" if out == "o.csv" else wide)
        assert np.array_equal(read, made.astype(wide))
    assert np.load("o.npy").shape == tuple(31 if n == 13 else n for n in axes)


def test_a_table_on_no_grid_is_a_line_where_one_side_is_requested(rng):
    table = rng.normal(size=(100, 64))
    requested = pefourier.resize(table, (150,)).table
    assert_array_equal(requested, pefourier.resize(table, (150,), grid=(100,)).table)
    assert pefourier.resize(table, (15, 10)).old == (10, 10)
    assert pefourier.resize(table[:50, :8], (9, 9), prefix=1).old == (7, 7)
    with refusal("grid 7x7"):  # 49 rows may be biases of a window
        pefourier.resize(table[:49, :8], (9, 9))


@pytest.mark.parametrize("method", ["bilinear", "align-corners", "bicubic", "antialias"])
@pytest.mark.parametrize(
    ("old", "new"), [((14, 14), (24, 37)), ((16, 9), (5, 20)), ((6, 6), (3, 3)), ((1, 9), (2, 20))]
)
def test_a_grid_is_resized_as_torch_does(old, new, method, rng):
    table = rng.normal(size=(2 + np.prod(old), 5))
    planes = torch.tensor(table[2:]).reshape(1, *old, 5).permute(0, 3, 1, 2)
    how = {"align-corners": {"mode": "bilinear", "align_corners": True}}
    how |= {"antialias": {"mode": "bicubic", "antialias": True}}
    expected = interpolate(planes, new, **how.get(method, {"mode": method}))
    expected = expected.permute(0, 2, 3, 1).reshape(-1, 5).numpy()
    r = pefourier.resize(table, new, grid=old, prefix=2, method=method)
    assert (r.prefix, r.old, r.new) == (2, old, new)
    assert_allclose(r.table[2:], expected, atol=1e-12)
    assert_array_equal(r.table[:2], table[:2])

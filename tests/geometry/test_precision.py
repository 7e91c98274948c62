"""Rounding against torch's own formats; counts of distinct codes against published ones."""

import numpy as np
import pytest
import torch

from pefourier.encodings import build, load
from pefourier.encodings.encoding import from_table
from pefourier.geometry.precision import (
    FORMATS,
    count_distinct,
    precision,
    rounded,
    rounding_of_codes,
    stored_resolution,
)
from pefourier.questions.faithful import assess

TORCH = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3": torch.float8_e4m3fn,
}


@pytest.mark.parametrize("name", FORMATS)
def test_rounding_is_that_of_torch(name, rng):
    x = np.concatenate([rng.normal(size=2000) * 2.0 ** rng.integers(-30, 30, 2000), [0.0, -0.0]])
    x = np.concatenate([x, np.arange(-600.0, 600.0, 0.5)])
    x = x[np.abs(x) <= 464] if name == "float8_e4m3" else x  # beyond, torch 2.6 gives NaN
    wide = torch.tensor(x).to(torch.float32)  # torch would go through float32
    expected = wide.to(TORCH[name]).double().numpy()
    np.testing.assert_array_equal(rounded(wide.double().numpy(), FORMATS[name]), expected)


def test_values_beyond_the_range_saturate_or_become_infinite():
    huge = np.array([465.0, -1e6, 1e300])
    assert rounded(huge, FORMATS["float8_e4m3"]).tolist() == [448, -448, 448]
    assert rounded(huge, FORMATS["float16"]).tolist() == [465, -np.inf, np.inf]


@pytest.mark.parametrize(
    ("length", "bfloat16", "float16"), [(512, 385, 512), (4096, 769, 3073), (32768, 1153, 6145)]
)
def test_distinct_codes_with_phases_in_low_precision(length, bfloat16, float16):
    kept = precision(build("rope", length=length, d=64))
    assert kept["bfloat16"].distinct_phase == bfloat16
    assert kept["float16"].distinct_phase == float16
    assert kept["float32"].distinct_phase == length
    assert kept["bfloat16"].distinct_cast == length


def test_largest_phase_errors():
    """|phase in the format - exact phase| over all positions and frequencies, written out."""
    enc = build("rope", length=700, d=32)
    x, w = np.arange(700.0), enc.measure.frequencies
    for name, form in FORMATS.items():
        phases = rounded(np.outer(rounded(x, form), rounded(w, form)), form)
        expected = np.abs(phases - np.outer(x, w)).max()
        np.testing.assert_allclose(precision(enc)[name].max_phase_error, expected)
    far = precision(build("rope", length=131072, d=128))
    assert far["float32"].max_phase_error == pytest.approx(0.0078, abs=5e-5)
    assert far["float8_e4m3"].max_phase_error == 131071 - 448
    assert np.isnan(far["float16"].max_phase_error)


def test_frequencies_computed_in_float32_err_more_than_those_rounded_once():
    """What the field's documentation says; numpy's own float32 powers depend on the processor."""
    once = 5e5 ** (-np.arange(64) / 64)
    power = np.float32(5e5 ** np.float64(np.arange(0, 128, 2, dtype=np.float32) / np.float32(128)))
    at, slow = np.arange(131072, 200000), slice(0, 8)  # the fast pairs err most, at the end
    errors = [
        np.abs(np.float32(at)[:, None] * own[slow] - at[:, None] * once[slow]).max()
        for own in (once.astype(np.float32), np.float32(1) / power)
    ]
    assert errors == pytest.approx([0.0114, 0.0161], abs=5e-5)
    told = precision(build("rope", length=200000, d=128, rho=5e5))["float32"].max_phase_error
    assert told == pytest.approx(errors[0], rel=1e-9)


def test_offset_moves_the_phases():
    near = precision(build("sinusoidal", length=256, d=32))["bfloat16"]
    far = precision(build("sinusoidal", length=256, d=32, offset=256))["bfloat16"]
    assert near.distinct_phase == 256
    assert far.distinct_phase == 129  # 256, 258 … 510, and 511 becomes 512


def test_tables_have_no_phases():
    loss = precision(from_table(np.eye(3)))["float16"]
    assert (loss.distinct_cast, loss.distinct_phase, loss.max_phase_error) == (3, None, None)


def test_casting_merges_codes_nearer_than_the_format():
    table = np.array([[1.0, 0.0], [1.0 + 2.0**-9, 0.0], [1.0 + 2.0**-12, 0.0], [-0.0, 1.0]])
    kept = precision(from_table(table))
    assert [kept[name].distinct_cast for name in FORMATS] == [4, 3, 2, 2]


def test_a_code_that_overflows_is_lost():
    kept = precision(from_table(np.array([[1.0, 0.0], [2.0, -7e4], [3.0, 7e4], [4.0, 0.0]])))
    assert [kept[name].distinct_cast for name in FORMATS] == [4, 2, 4, 4]
    assert (kept["float16"].safe_cast, kept["float32"].safe_cast) == (1, 4)
    lost = precision(from_table(np.array([[1e5, 0.0], [2e5, 0.0]])))["float16"]
    assert (lost.distinct_cast, lost.safe_cast) == (0, 0)


def test_long_declared_codes_are_cast_without_their_table(monkeypatch):
    enc = build("dft", length=300, d=64)
    whole = [loss.distinct_cast for loss in precision(enc).values()]
    assert whole[0] == 64
    monkeypatch.setattr("pefourier.geometry.precision.WHOLE", 0)
    assert [loss.distinct_cast for loss in precision(enc).values()][:3] == whole[:3]


@pytest.mark.parametrize("order", ["tail", "middle", "none"])
def test_rows_that_repeat_are_rounded_once(rng, order):
    """By the definition: each row rounded, and the first that is one before it."""
    own = rng.normal(size=(40, 2)).round(2)
    own = own[np.sort(np.unique(own, axis=0, return_index=True)[1])]
    again = {"tail": [3, 3, 8], "middle": [5, 2], "none": []}[order]
    table = np.concatenate([own, own[again], rng.normal(size=(5 * (order == "middle"), 2))])
    first = np.array([np.flatnonzero((table == row).all(axis=1))[0] for row in table])
    found = precision(from_table(table), len(np.unique(first)), first)
    for name, form in FORMATS.items():
        rows = [tuple(row) for row in rounded(table, form).tolist()]
        repeats = [i for i, row in enumerate(rows) if row in rows[:i]]
        assert found[name].distinct_cast == len(set(rows))
        assert found[name].safe_cast == min([*repeats, len(set(rows))])


def test_distinct_rows_are_counted_as_by_numpy(rng):
    table = rng.integers(0, 3, size=(500, 6)).astype(float)
    table[rng.random(table.shape) < 0.1] = np.nan
    seen = {tuple("nan" if np.isnan(v) else v for v in row) for row in table.tolist()}
    assert count_distinct(lambda rows, j: table[rows, j].copy(), 500, 6).count == len(seen)


def test_codes_whose_first_columns_tell_them_apart_are_not_computed_to_their_end():
    """At 2^20 positions their table would not fit."""
    looked = []

    def columns(rows, part):
        looked.append(len(rows) * (part.stop - part.start))
        return np.repeat(rows[:, None].astype(float), part.stop - part.start, axis=1)

    assert count_distinct(columns, 2**10, 2**14).count == 2**10
    assert sum(looked) <= 2**20


@pytest.mark.parametrize(
    ("spec", "length", "safe"),
    [  # whole numbers up to 2^digits are themselves; 257 becomes 256
        ("rope", 1000, {"bfloat16": 257, "float16": 1000, "float32": 1000}),
        ("rope", 5000, {"bfloat16": 257, "float16": 2049, "float32": 5000}),
        ("sinusoidal:offset=256", 300, {"bfloat16": 1, "float16": 300}),
        ("dft", 300, {"bfloat16": 64, "float32": 64}),  # its codes repeat after 64, exactly
    ],
)
def test_safe_lengths_are_where_the_first_position_is_lost(spec, length, safe):
    name, _, own = spec.partition(":")
    offset = {"offset": int(own.removeprefix("offset="))} if own else {}
    kept = precision(build(name, length=length, d=64, **offset))
    assert {form: kept[form].safe_phase for form in safe} == safe


@pytest.mark.parametrize("spec", ["dft", "rope", "sinusoidal", "tape", "fourier-features"])
@pytest.mark.parametrize("length", [40, 600])
def test_no_format_tells_more_codes_apart_than_there_are(spec, length):
    """DFT codes of s and s + 64 are one; rounded phases, which differ, are not counted as two."""
    result = assess(build(spec, length=length, d=64))
    for loss in result.precision.values():
        assert max(loss.distinct_cast, loss.distinct_phase, loss.safe_phase) <= result.distinct


@pytest.mark.parametrize("form", FORMATS)
def test_safe_lengths_are_those_of_a_walk(form):
    """Position after position, until one has a code that was seen before."""
    enc = build("rope", length=700, d=8, rho=100.0)
    x, w = np.arange(700.0), enc.measure.frequencies
    near = rounded(np.outer(rounded(x, FORMATS[form]), rounded(w, FORMATS[form])), FORMATS[form])
    tables = {
        "safe_cast": rounded(enc.table(), FORMATS[form]),
        "safe_phase": rounded(np.hstack([np.cos(near), np.sin(near)]), FORMATS[form]),
    }
    for field, table in tables.items():
        seen = set()
        for row in (table + 0.0).tolist():
            if tuple(row) in seen:
                break
            seen.add(tuple(row))
        assert getattr(precision(enc)[form], field) == len(seen)


def test_codes_with_a_period_are_safe_within_it():
    kept = precision(build("dft", length=300, d=64))
    assert [kept[form].safe_cast for form in ("float32", "bfloat16")] == [64, 64]


def test_lags_have_no_safe_length():
    loss = precision(build("alibi", length=20, d=4))["bfloat16"]
    assert (loss.safe_cast, loss.safe_phase) == (None, None)


@pytest.mark.parametrize("spec", ["rope:rho=5e5", "sinusoidal:rho=1e9", "dft", "scaled"])
def test_codes_further_apart_than_rounding_moves_them_are_not_counted(spec):
    """The smallest distance says what counting says, and rounding moves no code as far as that."""
    scaled = "rope:scaling=yarn,factor=4,original=64,attention_factor=3e-4"
    enc = load(scaled if spec == "scaled" else spec, 500, 32)
    nearest = assess(enc).min_distance
    counted, told = precision(enc), precision(enc, gap=nearest)
    assert {k: v.distinct_cast for k, v in told.items()} == {
        k: v.distinct_cast for k, v in counted.items()
    }
    for form in FORMATS.values():
        moved = np.linalg.norm(rounded(enc.table(), form) - enc.table(), axis=1).max()
        assert 0 < moved <= rounding_of_codes(enc, form)


def test_no_format_tells_more_apart_than_there_is():
    """The outermost points of each axis share a code, up to rounding in float64."""
    found = assess(load("fourier-features:mapping=nerf", d=40, grid=(5, 7)))
    assert found.distinct == 24
    for loss in found.precision.values():
        assert max(loss.distinct_cast, loss.distinct_phase) <= 24


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("factor", [1.0, 2.0**-100, 2.0**100])
def test_the_format_of_numbers_does_not_depend_on_their_unit(name, factor, rng):
    stored = rounded(rng.normal(size=(40, 16)), FORMATS[name])
    eps = 2.0 ** (1 - FORMATS[name].digits)
    assert stored_resolution(factor * stored, 2.0**-52) == (eps, 0.0)
    for counted in (np.eye(40), np.arange(300.0), np.arange(-128.0, 128.0)):
        assert stored_resolution(factor * counted, 2.0**-52)[0] == 2.0**-52


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_of_any_size_are_rounded_as_by_scaling(name):
    """By steps of a power of two, written out: normal and subnormal, ties, overflow, no numbers."""
    form, rng = FORMATS[name], np.random.default_rng(0)
    ties = rng.integers(-(2 ** (form.digits + 2)), 2 ** (form.digits + 2), 2000)
    odd = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        5e-324,
        1e308,
        form.largest,
        2.0**form.lowest,
    ]
    x = np.concatenate([np.ldexp(ties, rng.integers(form.lowest - form.digits - 3, 16, 2000)), odd])
    step = np.maximum(np.frexp(x)[1] - 1, form.lowest) - (form.digits - 1)
    near = np.ldexp(np.rint(np.ldexp(x, -step)), step)
    near = np.where(np.abs(near) > form.largest, np.copysign(form.beyond, near), near)
    np.testing.assert_array_equal(rounded(x, form), near)
    np.testing.assert_array_equal(np.signbit(rounded(x, form)), np.signbit(near))

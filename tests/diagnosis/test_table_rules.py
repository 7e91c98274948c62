"""Mistakes of public code as functions, and both sides of every finding.

The zoo has 128 positions and 64 columns; its numbers are Toeplitz residual, residual of the best
shift and stable rank, as measured by a separate program.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sinusoids import DIM, GRID, NORMAL, I, S, changed, waves

from pefourier.diagnosis import is_constant, table_rules, wave_rules
from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding, Finding, as_encoding, from_table
from pefourier.encodings.findings import FINDINGS
from pefourier.encodings.registry import BUILDERS, build
from pefourier.files import read_toml
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.geometry.singular_values import decompose
from pefourier.questions.faithful import assess
from pefourier.questions.relations import shift_residual


def by_row():
    phase = S * np.repeat(GRID, 2)
    return np.where(S % 2 == 0, np.sin(phase), np.cos(phase))


ZOO = {  # Toeplitz residual, shift residual, stable rank; findings; table
    "correct": (0, 0, 1.7901, [], waves(GRID)),
    "halves": (0, 0, 1.7901, [], np.hstack([np.sin(S * GRID), np.cos(S * GRID)])),
    "divisor": (0, 0, 1.7481, ["divisor note"], waves(1e4 ** (-I / 31))),
    "offset": (0, 0, 1.7901, ["offset note"], waves(GRID, offset=2)),
    "one row for all": (0, 0, 1.0, ["constant-codes error"], np.repeat(waves(GRID)[5:6], 128, 0)),
    "rows alternate": (0.609, 0.52, 1.970, ["alternating-rows error"], by_row()),
    "exponent 2 x column": (
        0.0500,
        0.155,
        1.2786,
        ["mismatched-pairs error"],
        waves(1e4 ** (-4 * I / DIM), 1e4 ** (-(4 * I + 2) / DIM)),
    ),
    "exponent = column": (
        0.0853,
        0.184,
        1.7513,
        ["mismatched-pairs error"],
        waves(GRID, 1e4 ** (-(2 * I + 1) / DIM)),
    ),
    "cosine exponent from 1": (
        0.118,
        0.194,
        2.3306,
        ["mismatched-pairs error"],
        waves(1e3 ** (-2 * I / DIM), 1e3 ** (-(2 * I + 1) / DIM)),
    ),
    "-log(1e4)/d//2": (0, 0, 1.0805, ["dead-pairs error"], waves(np.exp(-2.0 * I))),
    "x ** 1e-4": (0, 0, 2.0506, ["single-frequency error"], waves((I / 32) ** 1e-4)),
    "integer division": (0, 0, 1.9867, ["single-frequency error"], waves(np.ones(32))),
    "padding row": (0.113, 0.089, 1.7876, ["padding-row note"], changed(1, 0.0)),
    "a row of zeros": (0.128, 0.118, 1.7913, ["padding-row warning"], changed(64, 0.0)),
    "index clipped": (
        0.130,
        0.0023,
        1.7006,
        ["clipped-index error", "stray-rows note"],
        changed(slice(100, None), waves(GRID)[99]),
    ),
    "two rows equal": (
        0.0068,
        0.030,
        1.7903,
        ["duplicate-rows error", "stray-rows note"],
        changed(1, waves(GRID)[0]),
    ),
    "base 1000": (0, 0, 2.3934, ["base warning"], waves(1e3 ** (-2 * I / DIM))),
}


def codes_found(enc):
    return [f"{f.code} {f.severity}" for f in assess(enc).findings]


@pytest.mark.parametrize("name", ZOO)
def test_zoo(name):
    toeplitz, shift, stable_rank, findings, table = ZOO[name]
    result = assess(table)
    assert [f"{f.code} {f.severity}" for f in result.findings] == findings
    assert result.toeplitz_residual == pytest.approx(toeplitz, rel=0.01, abs=1e-14)
    assert shift_residual(as_encoding(table)) == pytest.approx(shift, rel=0.05, abs=1e-12)
    assert result.stable_rank == pytest.approx(stable_rank, abs=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", sorted(set(ZOO) - {"-log(1e4)/d//2"}))
def test_zoo_in_low_precision(name, dtype):
    enc = from_table(ZOO[name][-1].astype(dtype), eps=float(np.finfo(dtype).eps))
    assert codes_found(enc) == ZOO[name][3]


def test_dead_pairs_in_float32():
    enc = from_table(ZOO["-log(1e4)/d//2"][-1].astype(np.float32), eps=2.0**-23)
    assert codes_found(enc) == ["dead-pairs error"]


def pairs(phases):
    return np.hstack([np.sin(phases), np.cos(phases)])


def whisper(length, d):
    """Sinusoids as they are stored in Whisper's checkpoints: all in float32."""
    omega = np.exp(np.float32(-np.log(1e4) / (d // 2 - 1)) * np.arange(d // 2, dtype=np.float32))
    return pairs(np.arange(length, dtype=np.float32)[:, None] * omega)


OCTAVES = np.pi / 128 * 2.0 ** np.arange(8)
PERIOD = np.tile(NORMAL[:32], (4, 1))
OTHER = {
    "periodic": (PERIOD, ["repeating-codes warning"]),
    "zero tail": (np.vstack([NORMAL[:100], np.zeros((28, 64))]), ["unused-tail warning"]),
    "short tail": (np.vstack([NORMAL[:100], 0.02 * NORMAL[100:]]), ["unused-tail warning"]),
    "long first row": (np.vstack([9 * NORMAL[:1], NORMAL[1:]]), ["norm-outliers note"]),
    "near rows": (
        np.vstack([NORMAL[:127], NORMAL[60:61] + 1e-9]),
        ["random-codes note", "near-duplicates warning"],
    ),
    "rank 3": (NORMAL[:, :3] @ NORMAL[:3], ["low-rank note"]),
    "one row wrong": (changed(40, NORMAL[0]), ["stray-rows error"]),
    "zeros": (np.zeros((9, 4)), ["zero-codes note"]),
    "scaled": (64**0.5 * waves(GRID), ["scale note"]),
    "steps": (waves(GRID / 4), ["step note"]),
    "base": (waves(500.0 ** (-2 * I / DIM)), ["base note"]),
    "cosines first": (np.hstack([np.cos(S * GRID), np.sin(S * GRID)]), ["cosines-first note"]),
    "random angles": (pairs(9 * NORMAL[:, :32]), ["random-codes note"]),
    "a grid read as a line": (np.hstack([pairs(S // 16 * GRID), pairs(S % 16 * GRID)]), []),
    "three rows": (waves(GRID)[5:8], []),
    "a base beyond float16": (waves(1e30 ** (-2 * I / DIM)).astype(np.float16), []),
    "zero columns": (np.insert(waves(GRID), [20, 20, 20, 20], 0.0, axis=1), ["dead-columns error"]),
    "transposed": (waves(GRID).T, ["transposed error"]),
    "transposed halves": (pairs(S * GRID).T, ["transposed error"]),
    "backwards": (waves(GRID)[::-1], ["reversed-positions warning"]),
    "below zero": (waves(GRID, offset=-127)[::-1], ["negative-positions note"]),
    "base 100": (waves(1e2 ** (-2 * I / DIM)), ["base warning"]),
    "base e": (waves(np.exp(-2 * I / DIM)), ["base warning"]),
    "exp of log10": (waves(np.exp(-4 * 2 * I / DIM)), ["base warning"]),
    "exp of log2": (waves(np.exp(-np.log2(1e4) * 2 * I / DIM)), ["base warning"]),
    "a power of 2 with log": (waves(2 ** (-np.log(1e4) * 2 * I / DIM)), ["base warning"]),
    "a power of 10 with log": (waves(10 ** (-np.log(1e4) * 2 * I / DIM)), ["base warning"]),
    "base 16": (waves(16.0 ** (-2 * I / DIM)), ["base note"]),
    "cosines first, exp of log10": (
        np.hstack([np.cos(S * np.exp(-8 * I / DIM)), np.sin(S * np.exp(-8 * I / DIM))]),
        ["base warning", "cosines-first note"],
    ),
    "whisper's, phases in float32": (
        whisper(512, 320),
        ["divisor note", "rank-of-rounding note"],
    ),
    "base 40889.8": (waves(40889.8 ** (-2 * I / DIM)), ["base note"]),
    "dead column": (np.where(np.arange(64) == 40, 0.0, waves(GRID)), ["dead-columns error"]),
    "dead column of noise": (
        np.where(np.arange(64) == 7, 0.5, NORMAL),
        ["random-codes note", "dead-columns note"],
    ),
    "octaves up to a sign a row": (waves(OCTAVES), []),
    "octaves on four axes": (waves(np.tile(OCTAVES, 4)), []),
    "two heads": (np.hstack([waves(GRID[::2])] * 2), []),
    "powers of time": ((S / 128) ** [1, 2], []),
    "decay to zeros": (
        np.exp(-S[:64] / 3) * (S[:64] < 40) * NORMAL[0],
        ["unused-tail warning", "low-rank note"],
    ),
    "binary": ((S >> np.arange(7)) & 1, []),
    "gray": ((S ^ S >> 1) >> np.arange(7) & 1, []),
    "distances from row 80": (np.abs(S - 80) * -(0.5 ** np.arange(8)), ["rows-of-lags note"]),
    "thermometer": (np.tril(np.ones((28, 28))).repeat(6, axis=0), ["positions-divided note"]),
    "NeRF": (
        pairs(np.linspace(-np.pi, np.pi, 128)[:, None] * 2 ** I[:10]),
        ["ends-coincide warning", "aliased-waves note"],
    ),
    "two rows exchanged": (changed([3, 4], waves(GRID)[[4, 3]]), ["stray-rows error"]),
    "rows wrong in each half": (changed([3, 50, 99], 1 + waves(GRID)[:3]), ["stray-rows error"]),
    "a class token": (
        np.vstack([NORMAL[:1] / 50, waves(GRID)]),
        ["norm-outliers note", "stray-rows note"],
    ),
    "phases": (S * GRID, ["phases note"]),
    "an index of rows": (np.hstack([S, waves(GRID)]), ["counted-rows warning"]),
    "an index of rows from 1 on": (np.hstack([S + 1, waves(GRID)]), ["counted-rows warning"]),
    "phases twice": (np.hstack([S * GRID] * 2), ["phases note"]),
    "noise": (NORMAL, ["random-codes note"]),
    "uniform": (np.random.default_rng(4).uniform(size=(128, 64)), ["random-codes note"]),
    "positions times 1000": (waves(1000 * GRID), ["aliased-waves note"]),
    "one position": (NORMAL[:1], []),
    "one column": (NORMAL[:, :1], []),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_findings(name):
    table, findings = OTHER[name]
    assert codes_found(as_encoding(table)) == findings


def test_the_rank_counts_no_rounding():
    table = whisper(512, 320)
    omega = 1e4 ** (-np.arange(160) / 159)
    formula = np.linalg.svd(pairs(np.arange(512.0)[:, None] * omega), compute_uv=False)
    exact = int((formula > 1e-12 * formula[0]).sum())
    assert np.linalg.matrix_rank(table.astype(float), tol=3e-6) > exact + 20
    assert exact - 20 < assess(table).rank <= exact


def test_the_rank_of_numbers_of_16_bits_in_wider_formats_is_the_same():
    near = rounded(waves(GRID), FORMATS["bfloat16"])
    ranks = {decompose(from_table(near.astype(t), eps=eps)).rank for t, eps in STORED}
    assert len(ranks) == 1
    assert ranks.pop() < 40


STORED = ((float, 2.0**-52), (np.float32, 2.0**-23), (float, 2.0**-7))


@pytest.mark.parametrize("d", [4, 6, 7, 8, 10, 12])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("padding", [False, True])
def test_short_grids_of_tensor2tensor_and_fairseq_are_no_wrong_base(d, dtype, padding):
    """At d = 4 their base 10000 over d/2 - 1 is also 10^8 over d/2: the usual one is meant."""
    half = d // 2
    phase = np.arange(200)[:, None] * 1e4 ** (-np.arange(half) / (half - 1))
    table = np.pad(np.hstack([np.sin(phase), np.cos(phase)]), ((0, 0), (0, d % 2)))
    table[1] *= not padding
    found = assess(from_table(table.astype(dtype), eps=float(np.finfo(dtype).eps)))
    assert found.identified["params"]["rho"] == 1e4
    assert found.identified["params"]["divisor"] == "d/2-1"
    assert {f.severity for f in found.findings} == {"note"}
    assert "base" not in {f.code for f in found.findings}


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tables_rounded_to_16_bits_and_stored_wider(name, dtype):
    for table, others in (
        (waves(GRID), []),
        (NORMAL, ["random-codes note"]),
        (waves(GRID, offset=2), ["offset note"]),
    ):
        near = rounded(table, FORMATS[name]).astype(dtype)
        enc = from_table(near, eps=float(np.finfo(dtype).eps))
        assert sorted(codes_found(enc)) == sorted([*others, "stored-wider note"])
        assert (assess(enc).identified is None) == (table is NORMAL)
    exact = from_table(waves(GRID).astype(dtype), eps=float(np.finfo(dtype).eps))
    assert codes_found(exact) == []
    assert codes_found(from_table(np.eye(80).astype(dtype))) == []  # few digits say nothing
    whole = np.add.outer(np.arange(200.0), np.arange(8.0)).astype(dtype)
    assert "stored-wider note" not in codes_found(from_table(whole))


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("form", ["cos and sin", "cos twice", "sin once"])
def test_frequencies_rounded_to_16_bits(name, form):
    phase = S * rounded(GRID, FORMATS[name])
    table = {
        "cos and sin": np.hstack([np.cos(phase), np.sin(phase)]),
        "cos twice": np.hstack([np.cos(phase)] * 2),
        "sin once": np.sin(phase),
    }[form]
    enc = from_table(table.astype(np.float32), eps=2.0**-23)
    found = {f.code: f for f in assess(enc).findings}
    assert found["coarse-frequencies"].severity == "warning"
    assert f"of base 10000 were rounded to {name}" in found["coarse-frequencies"].message


@pytest.mark.parametrize(("name", "eps"), [("bfloat16", 2.0**-7), ("float16", 2.0**-10)])
@pytest.mark.parametrize("d", [10, 12, 64])
@pytest.mark.parametrize("length", [50, 128])
def test_right_tables_stored_in_16_bits_have_no_coarse_frequencies(name, eps, d, length):
    """Of cosines alone it said 'base 1e+10 rounded to bfloat16'; the base was 10000, and exact."""
    phase = np.outer(np.arange(length), 1e4 ** (-np.arange(0, d, 2) / d))
    for table in (np.cos(phase), np.hstack([np.sin(phase)] * 2)):
        found = assess(from_table(rounded(table, FORMATS[name]), eps=eps)).findings
        assert [f.code for f in found if f.severity != "note"] == []


@pytest.mark.parametrize("length", [50, 512, 5000])
def test_codes_that_storage_makes_one_are_no_mistake(length):
    """Four columns in bfloat16; a row that is a copy of another is a mistake still."""
    phase = np.outer(np.arange(length), [1.0, 1e-2])
    table = rounded(np.hstack([np.sin(phase)] * 2), FORMATS["bfloat16"])
    found = assess(from_table(table, eps=2.0**-7)).findings
    assert {f.severity for f in found} <= {"note"}
    assert ("duplicate-rows" in {f.code for f in found}) == (length == 5000)
    table[30] = table[10]
    found = assess(from_table(table, eps=2.0**-7)).findings
    assert "error" in [f.severity for f in found if f.code == "duplicate-rows"]


@pytest.mark.parametrize("d", [6, 10, 12, 64, 768])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_an_exponent_of_minus_one_is_found_at_any_size(d, dtype):
    """-log(1e4) / d // 2: of few columns it was told as a base of 22026.5, of 768 as free."""
    phase = np.outer(np.arange(100), np.exp(np.arange(0, d, 2) * (-np.log(1e4) / d // 2)))
    table = np.hstack([np.sin(phase), np.cos(phase)]).astype(dtype)
    found = assess(from_table(table.astype(float), eps=float(np.finfo(dtype).eps))).findings
    assert [f.code for f in found if f.severity == "error"] == ["dead-pairs"]
    assert "base" not in [f.code for f in found]


@pytest.mark.parametrize("d", [6, 8, 10, 64])
@pytest.mark.parametrize("length", [50, 128, 512])
def test_reversed_rows_are_known_in_few_columns(d, length):
    """In six columns some offset of 662.6 came near, and the rows were said to be close to it."""
    phase = np.outer(np.arange(length), 1e4 ** (-np.arange(0, d, 2) / d))
    table = np.stack([np.sin(phase), np.cos(phase)], axis=-1).reshape(length, d)
    codes = [f.code for f in assess(from_table(table[::-1])).findings]
    assert "reversed-positions" in codes
    assert "uneven-positions" not in codes
    negative = table * np.tile([-1.0, 1.0], d // 2)
    assert "negative-positions" in [f.code for f in assess(from_table(negative)).findings]


@pytest.mark.parametrize(("d", "name"), [(64, "bfloat16"), (768, "bfloat16"), (768, "float16")])
@pytest.mark.parametrize("twice", [1, 2])
@pytest.mark.parametrize("first", ["sin", "cos"])
def test_mismatched_pairs_are_found_in_16_bits(d, name, twice, first):
    """What separates them is small where columns are many; right tables have no such finding."""
    even, odd = (np.sin, np.cos) if first == "sin" else (np.cos, np.sin)
    column = np.arange(d)
    wrong = np.outer(np.arange(128), 1e4 ** (-twice * column / d))
    right = np.outer(np.arange(128), 1e4 ** (-2 * (column // 2) / d))
    codes = []
    for phase in (wrong, right):
        table = rounded(np.where(column % 2 == 0, even(phase), odd(phase)), FORMATS[name])
        found = assess(from_table(table, eps=2.0 ** (1 - FORMATS[name].digits))).findings
        codes.append([f.code for f in found if f.severity != "note"])
    assert codes == [["mismatched-pairs"], []]


def test_what_coarse_frequencies_cost():
    """By a walk over positions."""
    near = rounded(GRID, FORMATS["bfloat16"])
    cosine = np.cos(np.outer(np.arange(8000), near - GRID)).mean(axis=1)
    first = [int(np.argmax(cosine < level)) for level in (0.99, 0.9)]
    phase = S * near
    (said,) = (f.message for f in assess(np.hstack([np.sin(phase), np.cos(phase)])).findings)
    assert f"below .99 at position {first[0]}, .9 at {first[1]}" in said


def test_every_finding_is_expected_here():
    files = (table_rules.__file__, wave_rules.__file__, __file__)
    *sources, here = (Path(file).read_text() for file in files)
    source = "".join(sources)
    codes = [code for code in read_toml(FINDINGS) if f'"{code}"' in source]
    assert len(codes) > 20
    assert [code for code in codes if not re.search(rf'"{code}[ "]', here)] == []


def test_positions_in_bfloat16():
    near = rounded(np.arange(512.0), FORMATS["bfloat16"])[:, None] * GRID
    table = np.hstack([np.sin(near), np.cos(near)])
    assert codes_found(as_encoding(table))[0] == "duplicate-rows error"
    half = np.vstack([table[:256], table[256::2] + 1e-3 * NORMAL])
    assert codes_found(as_encoding(half)) == ["stray-rows error"]


@pytest.mark.parametrize("rho", [589902.4, 123456.7, 40889.8, 4088.98, 54.598])
def test_the_rank_of_any_base_is_that_of_exact_phases(rho):
    """To within what differs at the threshold; phases in float32 add a hundred to rank 50."""
    omega = rho ** (-2 * np.arange(64) / 128)
    found = []
    for dtype in (np.float64, np.float32):
        phase = np.arange(1024, dtype=dtype)[:, None] * omega.astype(dtype)
        found.append(assess(from_table(waves_of(phase).astype(np.float32), eps=2.0**-23)))
    exact, noisy = found
    assert exact.identified["params"]["rho"] == rho
    assert abs(exact.rank - noisy.rank) <= 4
    assert "rank-of-rounding" in [f.code for f in noisy.findings]


def waves_of(phase):
    """Sines, then cosines."""
    return np.hstack([np.sin(phase), np.cos(phase)])


def test_phases_in_float32_are_a_note():
    phase = (np.arange(4096, dtype=np.float32)[:, None] * GRID.astype(np.float32)).astype(float)
    enc = from_table(np.hstack([np.sin(phase), np.cos(phase)]).astype(np.float32), eps=2.0**-23)
    assert codes_found(enc) == ["rounded-phases note", "rank-of-rounding note"]
    assert 1e-4 < assess(enc).identified["max_difference"] < 2.0**-23 * 4096


def message(table):
    return assess(table).findings[0].message


@pytest.mark.parametrize("name", sorted(BUILDERS))
@pytest.mark.parametrize("size", [(80, 256), (17, 8), (1, 2)], ids=str)
def test_encodings_built_by_name_have_no_findings(name, size):
    result = assess(build(name, length=size[0], d=size[1]))
    beyond_its_period = name == "dft" and size[0] > size[1]
    assert (result.identified, bool(result.findings)) == (None, beyond_its_period)


def test_dft_beyond_its_period_says_so():
    (found,) = assess(load("dft", 200, 64)).findings
    assert (found.code, found.severity) == ("repeating-codes", "note")
    assert "period 64: " in found.message
    assert assess(load("dft", 64, 64)).findings == []


SATURATES = {"recurrent"}  # its states repeat once they have arrived


@pytest.mark.parametrize("name", sorted(set(BUILDERS) - SATURATES))
def test_their_tables_have_notes_at_most(name):
    for size in [(80, 256), (128, 64), (17, 8), (8, 32), (3, 4)]:
        for dtype in (np.float64, np.float32):
            table = build(name, length=size[0], d=size[1]).table().astype(dtype)
            found = assess(from_table(table, eps=float(np.finfo(dtype).eps))).findings
            assert [f for f in found if f.severity != "note"] == [], (size, dtype)


@pytest.mark.parametrize("spec", ["alibi", "kerple", "t5", "shaw", "shaw:clip=3"])
def test_rows_of_lags_are_told_from_positions(spec):
    table = load(spec, 40, 6).table()
    (found,) = assess(from_table(table)).findings
    assert (found.code, found.severity) == ("rows-of-lags", "note")
    assert "row 39 as those of lags -39 … 39 " in found.message
    for broken in (np.vstack([table[1:], table[:1]]), np.repeat(table, 2, axis=0)):
        codes = [f.code for f in assess(from_table(broken)).findings]
        assert "rows-of-lags" not in codes
        assert codes


@pytest.mark.parametrize(
    "rows",
    [
        [0, 0, 0, 1, 1, 1, 1],
        [0, 1, 2, 1, 0],
        [0, 3, 1, 2, 1, 3, 0],
        [0, 0, 1, 1, 1, 2, 2],
        [0, 0, 1, 1, 2, 2, 3, 3, 3],
    ],
)
def test_rows_that_repeat_otherwise_are_errors(rng, rows):
    table = rng.normal(size=(4, 6))[rows]
    codes = [f.code for f in assess(from_table(table)).findings if f.severity == "error"]
    assert codes == ["duplicate-rows"]


def test_findings_of_the_loader_are_kept():
    seen = Finding("batch-axis", "error", "seen")
    table = waves(GRID, offset=2)
    assert codes_found(from_table(table, findings=(seen,))) == ["batch-axis error", "offset note"]
    convention = Finding("axis", "note", "seen")
    worst_first = from_table(ZOO["two rows equal"][-1], findings=(convention,))
    assert codes_found(worst_first)[0] == "duplicate-rows error"
    named = build("sinusoidal", length=8, d=4)
    kept = Encoding(named.name, named.domain, 4, named.codes, findings=(seen,))
    assert assess(kept).findings == [seen]


@pytest.mark.parametrize(
    ("code", "severity", "name"),
    [
        ("queries-keys-differ", "error", None),
        ("lost-minus", "error", None),
        ("not-a-rotation", "error", None),
        ("queries-keys-differ", "warning", "rope"),  # by the same angles, from another position on
        ("turns-its-input", "note", "rope"),
    ],
)
def test_a_function_that_is_no_rotation_is_not_said_to_be_rope(code, severity, name):
    seen = Finding(code, severity, "seen")
    table = np.hstack([np.cos(S * GRID), np.sin(S * GRID)])
    result = assess(from_table(table, findings=(seen,)))
    assert (result.identified or {"encoding": None})["encoding"] == name
    assert [f.code for f in result.findings] == [code, "cosines-first"][: 2 if name else 1]


def test_a_doubled_exponent_is_a_warning():
    """p / 10000^(2i/d) with i = 0, 2, 4 … for both waves: a base of 10^8."""
    i = np.arange(0, 64, 2)
    phase = np.arange(128)[:, None] / 10000.0 ** (2 * i / 64)
    table = np.stack([np.sin(phase), np.cos(phase)], axis=2).reshape(128, 64)
    found = {f.code: f for f in assess(table).findings}
    assert found["base"].severity == "warning"
    assert "the base is 1e+08 " in found["base"].message


@pytest.mark.parametrize(("name", "last"), [("bfloat16", 256), ("float16", 2048)])
@pytest.mark.parametrize("products", ["in float32", "in 16 bits"])
def test_rows_that_repeat_as_positions_in_16_bits_do_are_said_to(name, last, products):
    form, n = FORMATS[name], 4 * last
    near, grid = rounded(np.arange(n), form), rounded(GRID, form)
    phases = (
        np.outer(near, GRID) if products == "in float32" else rounded(np.outer(near, grid), form)
    )
    table = np.hstack([np.cos(phases), np.sin(phases)]).astype(np.float32)
    again = n - len(np.unique(near))
    assert f"{again} of {n} rows repeat" in message(table)
    assert f"so do positions rounded to {name}, which has no odd number above {last}" in message(
        table
    )
    table[last + 40] = table[last + 90]  # no rounding explains that
    assert f"{again} of {n} rows repeat" in message(table)
    assert "rounded" not in message(table)


@pytest.mark.parametrize("rows", [258, 300])
def test_rows_that_repeat_are_those_of_positions_in_16_bits_only_where_most_of_them_are(rows):
    table = np.random.default_rng(0).normal(size=(rows, 8))
    table[257] = table[256]
    assert message(table) == f"1 of {rows} rows repeat an earlier one: 257 = 256"


@pytest.mark.parametrize("period", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("d", [2, 16, 64])
@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_any_rows_that_come_again_are_said_to_repeat_and_nothing_else(rng, period, d, dtype):
    """Two rows by turns were 'sines in even rows, cosines in odd ones'."""
    table = np.tile(rng.normal(size=(period, d)), (80 // period, 1)).astype(dtype)
    enc = from_table(table, eps=float(np.finfo(dtype).eps))
    assert codes_found(enc) == ["repeating-codes warning"]


@pytest.mark.parametrize("divisor", [2, 3, 4, 7])
@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_positions_that_were_divided_by_a_whole_number(divisor, shift, dtype, layout):
    positions = (np.arange(80) + shift) // divisor
    table = build("sinusoidal", length=80, d=64, layout=layout).table()[positions].astype(dtype)
    enc = from_table(table, eps=float(np.finfo(dtype).eps))
    assert codes_found(enc) == ["positions-divided warning"]
    assert f"divided by {divisor}: " in assess(enc).findings[0].message


@pytest.mark.parametrize("values", [[1.05], [0.95], [3.0, -2.0], [1.05, 0.95, 3.0], [-2.0] * 3])
@pytest.mark.parametrize("first", [30, 60, 61])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_constant_columns_among_waves_are_dead_at_any_height(values, first, dtype):
    table = build("sinusoidal", length=200, d=96).table()
    table[:, first : first + len(values)] = values
    enc = from_table(table.astype(dtype), eps=float(np.finfo(dtype).eps))
    assert "dead-columns error" in codes_found(enc)


@pytest.mark.parametrize("size", [(9, 4), (300, 64)], ids=str)
@pytest.mark.parametrize("noise", [0.0, 1e-15, 1e-7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_alike_but_for_rounding_have_one_finding(rng, size, noise, dtype):
    table = rng.normal(size=size[1]) + noise * rng.uniform(-1, 1, size)
    table = table.astype(dtype)
    enc = from_table(table, eps=float(np.finfo(dtype).eps))
    assert is_constant(table)
    assert codes_found(enc) == ["constant-codes error"]
    table[size[0] // 2] *= 1 + 1e-5
    assert not is_constant(table)
    assert not is_constant(table[:1])
    assert "constant-codes error" not in codes_found(from_table(table))


@pytest.mark.parametrize("slope", [0.25, 0.5, 0.5 ** np.arange(24)])
def test_counts_of_a_power_of_two_were_rounded_by_no_format(slope):
    """-|p - q| / 4, 250 x 24: 'rounded to bfloat16 once', beside 'different in bfloat16'."""
    table = -slope * np.abs(np.subtract.outer(np.arange(250.0), np.arange(24.0)))
    codes = [f.code for f in assess(table).findings]
    assert not {"near-duplicates", "stored-wider"} & set(codes)
    assert "stored-wider" in [
        f.code for f in assess(rounded(table + 0.1, FORMATS["bfloat16"])).findings
    ]


def test_what_is_distinct_in_bfloat16_is_no_near_duplicate():
    for near in (
        rounded(NORMAL, FORMATS["bfloat16"]),
        rounded(waves(GRID[::8]), FORMATS["bfloat16"]),
    ):
        enc = from_table(np.vstack([near, near[60:61] * (1 + 2.0**-7)]), eps=2.0**-7)
        result = assess(enc)
        assert result.precision["bfloat16"].distinct_cast == len(enc)
        assert "near-duplicates" not in [f.code for f in result.findings]


@pytest.mark.parametrize("d", [8, 16, 128])
@pytest.mark.parametrize("rho", [1e4, 5e5])
@pytest.mark.parametrize("kind", ["neighbours", "halves", "cosines", "in float32"])
def test_positions_divided_by_frequencies(d, rho, kind):
    """Each wave but the first turns by more than a radian a position, most by more than pi."""
    dtype = np.float32 if kind == "in float32" else np.float64
    omega = (rho ** (-np.arange(d // 2) / (d // 2))).astype(dtype)
    phases = np.arange(512, dtype=dtype)[:, None] / omega
    table = pairs(phases)
    if kind == "neighbours":
        table = np.stack([np.sin(phases), np.cos(phases)], axis=2).reshape(512, d)
    elif kind == "cosines":
        table = np.cos(phases)
    enc = from_table(table.astype(np.float32), eps=2.0**-23)
    (found,) = (f for f in assess(enc).findings if f.severity != "note")
    assert (found.code, found.severity) == ("aliased-waves", "error")
    assert f"{np.count_nonzero(omega < 1 / np.pi)} of {d // 2} " in found.message
    assert f"base {rho:.7g};" in found.message


@pytest.mark.parametrize("d", [9, 33, 63])
@pytest.mark.parametrize("rho", [1e4, 500.0])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tables_a_column_short_of_an_odd_dimension(d, rho, layout, dtype):
    phases = np.arange(100)[:, None] * rho ** (-2.0 * np.arange(d // 2) / d)
    table = pairs(phases)
    if layout == "interleaved":
        table = np.stack([np.sin(phases), np.cos(phases)], axis=2).reshape(100, d - 1)
    enc = from_table(table.astype(dtype), eps=float(np.finfo(dtype).eps))
    codes = codes_found(enc)
    assert "column-missing warning" in codes
    assert not [code for code in codes if code.startswith("divisor")]
    assert ("base note" in codes) == (rho == 500)


@pytest.mark.parametrize("config", [{"model_type": "t5"}, {"model_type": "swin", "num_heads": [4]}])
def test_configs_of_biases_that_are_trained_say_so_first(tmp_path, config):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert codes_found(load(str(tmp_path / "config.json")))[0] == "untrained note"

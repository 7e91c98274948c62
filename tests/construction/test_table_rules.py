"""Tables of every finding and of its absence; mistakes of public code as functions.

The tables of `ZOO` have 128 positions and 64 columns. Their numbers are the Toeplitz residual, the
residual of the best shift and the stable rank, as measured by a separate program.
"""

import re

import numpy as np
import pytest
from planted import PLANTS
from sinusoids import DIM, GRID, NORMAL, I, S, changed, pairs, stored, waves

import pefourier
from pefourier.encodings import load
from pefourier.encodings.encoding import Finding, as_encoding, from_table
from pefourier.encodings.registry import BUILDERS, build
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.geometry.singular_values import decompose
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.relations import shift_residual


def codes_of(enc, least="note"):
    wanted = ("error", "warning", "note")[: ("error", "warning", "note").index(least) + 1]
    return [f"{f.code} {f.severity}" for f in check_faithful(enc).findings if f.severity in wanted]


CLIPPED = ["clipped-index error", "stray-rows note"]
EQUAL_ROWS = ["duplicate-rows error", "stray-rows note"]
ZOO = {  # Toeplitz residual, shift residual, stable rank; findings; table
    "correct": (0, 0, 1.7901, [], waves(GRID)),
    "halves": (0, 0, 1.7901, [], pairs(S * GRID)),
    "exponent 2 x column": (
        *(0.0500, 0.155, 1.2786, ["mismatched-pairs error"]),
        waves(GRID**2, 1e4 ** (-(4 * I + 2) / DIM)),
    ),
    "x ** 1e-4": (0, 0, 2.0506, ["single-frequency error"], waves((I / 32) ** 1e-4)),
    "a row of zeros": (0.128, 0.118, 1.7913, ["padding-row warning"], changed(64, 0.0)),
    "index clipped": (0.130, 0.0023, 1.7006, CLIPPED, changed(slice(100, None), waves(GRID)[99])),
    "two rows equal": (0.0068, 0.030, 1.7903, EQUAL_ROWS, changed(1, waves(GRID)[0])),
}
PLANTED = {  # Toeplitz residual, shift residual, stable rank; severity
    "divisor": (0, 0, 1.7481, "note"),
    "offset": (0, 0, 1.7901, "note"),
    "constant-codes": (0, 0, 1.0, "error"),
    "alternating-rows": (0.609, 0.52, 1.970, "error"),
    "mismatched-pairs": (0.0853, 0.184, 1.7513, "error"),
    "dead-pairs": (0, 0, 1.0805, "error"),
    "padding-row": (0.113, 0.089, 1.7876, "note"),
    "base": (0, 0, 2.3934, "warning"),
}
for code, (*numbers, severity) in PLANTED.items():
    ZOO[code] = *numbers, [f"{code} {severity}"], PLANTS[code].make(np.float64)


@pytest.mark.parametrize("name", ZOO)
def test_zoo(name):
    toeplitz, shift, stable_rank, findings, table = ZOO[name]
    result = check_faithful(table)
    assert [f"{f.code} {f.severity}" for f in result.findings] == findings
    assert result.toeplitz_residual == pytest.approx(toeplitz, rel=0.01, abs=1e-14)
    assert shift_residual(as_encoding(table)) == pytest.approx(shift, rel=0.05, abs=1e-12)
    assert result.stable_rank == pytest.approx(stable_rank, abs=1e-4)
    for dtype in (np.float32, np.float16)[: 1 if name == "dead-pairs" else 2]:
        assert codes_of(stored(table, dtype)) == findings


OCTAVES = np.pi / 128 * 2.0 ** np.arange(8)
NEAR_POSITIONS = rounded(np.arange(512.0), FORMATS["bfloat16"])[:, None] * GRID
COUNTS = -0.25 * np.abs(np.subtract.outer(np.arange(250.0), np.arange(24.0)))
ROUNDED_APART = np.vstack([NORMAL[:127], NORMAL[:1]])
ROUNDED_APART[[0, 127], 0] = 1 + 2**-8 + np.array([-1e-9, 1e-9])  # bfloat16 has 1 and 1 + 2**-7
OTHER = {
    "near rows that bfloat16 rounds apart": (ROUNDED_APART, ["random-codes note"]),
    "a grid read as a line": (np.hstack([pairs(S // 16 * GRID), pairs(S % 16 * GRID)]), []),
    "three rows": (waves(GRID)[5:8], []),
    "a base beyond float16": (waves(1e30 ** (-2 * I / DIM)).astype(np.float16), []),
    "zero columns": (np.insert(waves(GRID), [20, 20, 20, 20], 0.0, axis=1), ["dead-columns error"]),
    "dead column of noise": (
        np.where(np.arange(64) == 7, 0.5, NORMAL),
        ["random-codes note", "dead-columns note"],
    ),
    "octaves up to a sign a row": (waves(OCTAVES), []),
    "octaves on four axes": (waves(np.tile(OCTAVES, 4)), []),
    "two heads": (np.hstack([waves(GRID[::2])] * 2), []),
    "powers of time": ((S / 128) ** [1, 2], []),
    "binary": ((S >> np.arange(7)) & 1, []),
    "gray": ((S ^ S >> 1) >> np.arange(7) & 1, []),
    "thermometer": (np.tril(np.ones((28, 28))).repeat(6, axis=0), ["positions-divided note"]),
    "NeRF": (
        pairs(np.linspace(-np.pi, np.pi, 128)[:, None] * 2 ** I[:10]),
        ["ends-coincide warning", "aliased-frequencies note"],
    ),
    "two rows exchanged": (changed([3, 4], waves(GRID)[[4, 3]]), ["stray-rows error"]),
    "rows wrong in each half": (changed([3, 50, 99], 1 + waves(GRID)[:3]), ["stray-rows error"]),
    "a class token": (np.vstack([NORMAL[:1] / 50, waves(GRID)]), ["stray-rows note"]),
    "positions in bfloat16, then exact": (
        np.vstack([pairs(NEAR_POSITIONS)[:256], pairs(NEAR_POSITIONS)[256::2] + 1e-3 * NORMAL]),
        ["stray-rows error"],
    ),
    "uniform": (np.random.default_rng(4).uniform(size=(128, 64)), ["random-codes note"]),
    "one position": (NORMAL[:1], []),
    "one column": (NORMAL[:, :1], []),
    "base e": (waves(np.e ** (-2 * I / DIM)), ["base warning"]),
    "a power of 2 with log": (waves(2 ** (-2 * I / DIM * np.log(1e4))), ["base warning"]),
    "base 500": (waves(500.0 ** (-2 * I / DIM)), ["base note"]),
    "few whole numbers in bfloat16": (COUNTS, []),
    "a count among numbers as large": (np.hstack([S, 200 * NORMAL[:, :3]]), []),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_findings(name):
    table, findings = OTHER[name]
    assert codes_of(as_encoding(table)) == findings


def test_the_rank_counts_no_rounding():
    table = PLANTS["rank-of-rounding"].make(np.float32)  # Whisper's
    omega = 1e4 ** (-np.arange(160) / 159)
    formula = np.linalg.svd(pairs(np.arange(512.0)[:, None] * omega), compute_uv=False)
    exact = int((formula > 1e-12 * formula[0]).sum())
    assert np.linalg.matrix_rank(table.astype(float), tol=3e-6) > exact + 20
    assert exact - 20 < check_faithful(table).rank <= exact
    near = rounded(waves(GRID), FORMATS["bfloat16"])
    kinds = ((float, 2.0**-52), (np.float32, 2.0**-23), (float, 2.0**-7))
    (rank,) = {decompose(from_table(near.astype(t), eps=eps)).rank for t, eps in kinds}
    assert rank < 40


@pytest.mark.parametrize("d", [4, 6, 7, 12])
@pytest.mark.parametrize("padding", [False, True])
def test_short_grids_of_tensor2tensor_and_fairseq_are_no_wrong_base(d, padding):
    phase = np.arange(200)[:, None] * 1e4 ** (-np.arange(d // 2) / (d // 2 - 1))
    table = np.pad(pairs(phase), ((0, 0), (0, d % 2)))
    table[1] *= not padding
    for dtype in (np.float64, np.float32, np.float16):
        found = check_faithful(stored(table, dtype))
        assert found.identified["params"].items() >= {"rho": 1e4, "divisor": "d/2-1"}.items()
        assert "base" not in {f.code for f in found.findings}
        assert {f.severity for f in found.findings} == {"note"}


@pytest.mark.parametrize("length", [50, 5000])
def test_vectors_that_storage_makes_one_are_no_mistake(length):
    """Rows of four columns that coincide in bfloat16 give a note; a copied row gives an error."""
    phase = np.outer(np.arange(length), [1.0, 1e-2])
    table = rounded(np.hstack([np.sin(phase)] * 2), FORMATS["bfloat16"])
    found = codes_of(from_table(table, eps=2.0**-7))
    assert ("duplicate-rows note" in found) == (length == 5000)
    assert [x for x in found if not x.endswith("note")] == []
    table[30] = table[10]
    assert "duplicate-rows error" in codes_of(from_table(table, eps=2.0**-7))


LAGS = [load(spec, 40, 6).table() for spec in ("alibi", "kerple", "t5", "shaw", "shaw:clip=3")]


REPEATED = [[0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 1, 0], [0, 3, 1, 2, 1, 3, 0], [0, 0, 1, 1, 1, 2, 2]]
SWEPT = [
    *(("positions-divided", pairs((S[:80] + k) // by * GRID)) for by in (2, 3, 7) for k in (0, 1)),
    *(("repeating-codes", np.tile(NORMAL[:k, :d], (80 // k, 1))) for k, d in ((2, 2), (8, 64))),
    *(("duplicate-rows", NORMAL[rows, :6]) for rows in REPEATED),
    ("mismatched-pairs", rounded(PLANTS["mismatched-pairs"].make(float), FORMATS["bfloat16"])),
]


@pytest.mark.parametrize(("code", "table"), SWEPT)
def test_mistakes_have_one_finding_whatever_their_pattern_and_width(code, table):
    found = check_faithful(stored(table, np.float32)).findings
    assert [f.code for f in found if f.severity != "note"] == [code]


@pytest.mark.parametrize("table", LAGS)
def test_rows_of_lags_are_reported_from_positions(table):
    assert codes_of(from_table(table)) == ["rows-of-lags note"]
    for broken in (np.vstack([table[1:], table[:1]]), np.repeat(table, 2, axis=0)):
        assert "rows-of-lags note" not in codes_of(from_table(broken)) != []


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_encodings_by_name_have_no_findings_and_their_tables_notes_at_most(name):
    for size in [(80, 256), (128, 64), (17, 8), (3, 4), (1, 2)]:
        enc = build(name, length=size[0], d=size[1])
        result = check_faithful(enc)
        beyond_its_period = name == "dft" and size[0] > size[1]
        fast = enc.measure and np.abs(enc.measure.frequencies).max() > np.pi
        vectors = ["repeating-codes"] * beyond_its_period + ["aliased-frequencies"] * bool(fast)
        vectors += ["eigenvector-signs"] if name == "laplacian" else []
        assert (result.identified, [f.code for f in result.findings]) == (None, vectors)
        if name not in ("recurrent", "random-walk", "fire", "sandwich"):  # equal rows
            for dtype in (np.float64, np.float32):
                expected = ["zero-codes warning"] * (name == "none" and size[0] > 1)
                assert codes_of(stored(enc.table(), dtype), "warning") == expected, (size, dtype)


def test_findings_of_the_loader_are_kept_and_the_worst_is_first():
    seen = Finding("axis", "note", "seen")
    found = codes_of(from_table(ZOO["two rows equal"][-1], findings=(seen,)))
    assert (found[0], "axis note" in found) == ("duplicate-rows error", True)


@pytest.mark.parametrize("size", [(9, 4), (300, 64)], ids=str)
@pytest.mark.parametrize("noise", [0.0, 1e-15, 1e-7])
def test_rows_equal_but_for_rounding_have_one_finding(rng, size, noise):
    table = rng.normal(size=size[1]) + noise * rng.uniform(-1, 1, size)
    for dtype in (np.float64, np.float32):
        assert codes_of(stored(table, dtype)) == ["constant-codes error"]
    table[size[0] // 2] *= 1 + 1e-5
    assert "constant-codes error" not in codes_of(from_table(table))


def test_a_sine_at_0_is_no_padding():
    for omega in (0.37, np.array([0.37, 0.11])):
        assert codes_of(from_table(np.sin(np.arange(128.0)[:, None] * omega))) == []
    padded = np.sin(np.arange(128.0)[:, None] * np.array([0.37, 0.11]))
    padded[64] = 0
    assert codes_of(from_table(padded)) == ["padding-row warning"]


@pytest.mark.parametrize("real", ["float64", "float32", "float16"])
@pytest.mark.parametrize(("at", "by"), [(60, 1), (3, 5), (100, 2)])
def test_rows_after_missing_ones_are_named_by_their_positions(at, by, real):
    table = load("sinusoidal", 128 + by, 32).table()
    rows = np.delete(table, np.s_[at : at + by], axis=0)
    (found,) = pefourier.check(rows.astype(real)).findings
    assert found.code == "stray-rows"
    numbers = set(re.findall(r"[+]?\d+", found.message))
    assert {f"+{by}", str(at), str(at + by), str(at - 1), str(127 + by)} <= numbers

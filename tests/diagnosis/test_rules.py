"""Mistakes of public code as functions, both sides of every finding, and who wrote which table.

The zoo has 128 positions and 64 columns; its numbers are Toeplitz residual, residual of the best
shift and stable rank, as measured by a separate program.
"""

import numpy as np
import pytest

from pefourier.diagnosis.identify import identify
from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding, Finding, as_encoding, from_table
from pefourier.encodings.registry import BUILDERS, build
from pefourier.faithful import assess
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.relations import shift_residual

LENGTH, DIM = 128, 64
S = np.arange(LENGTH)[:, None]
I = np.arange(DIM // 2)  # noqa: E741 (pairs, as in the papers)
GRID = 1e4 ** (-2 * I / DIM)


def waves(sine, cosine=None, offset=0):
    """Sines and cosines by turns at the given frequencies."""
    cosine = sine if cosine is None else cosine
    table = np.empty((LENGTH, 2 * len(sine)))
    table[:, ::2], table[:, 1::2] = np.sin((S + offset) * sine), np.cos((S + offset) * cosine)
    return table


def changed(rows, values):
    table = waves(GRID)
    table[rows] = values
    return table


def by_row():
    phase = S * np.repeat(GRID, 2)
    return np.where(S % 2 == 0, np.sin(phase), np.cos(phase))


NORMAL = np.random.default_rng(3).standard_normal((LENGTH, DIM))
ZOO = {  # Toeplitz residual, shift residual, stable rank; findings; table
    "correct": (0, 0, 1.7901, [], waves(GRID)),
    "halves": (0, 0, 1.7901, [], np.hstack([np.sin(S * GRID), np.cos(S * GRID)])),
    "divisor": (0, 0, 1.7481, ["divisor note"], waves(1e4 ** (-I / 31))),
    "offset": (0, 0, 1.7901, ["offset note"], waves(GRID, offset=2)),
    "one row for all": (0, 0, 1.0, ["constant-codes error"], np.repeat(waves(GRID)[5:6], 128, 0)),
    "rows alternate": (0.609, 0.52, 1.970, ["alternating-rows error"], by_row()),
    "exponent 2 x column": (
        *(0.0500, 0.155, 1.2786, ["mismatched-pairs error"]),
        waves(1e4 ** (-4 * I / DIM), 1e4 ** (-(4 * I + 2) / DIM)),
    ),
    "exponent = column": (
        *(0.0853, 0.184, 1.7513, ["mismatched-pairs error"]),
        waves(GRID, 1e4 ** (-(2 * I + 1) / DIM)),
    ),
    "cosine exponent from 1": (
        *(0.118, 0.194, 2.3306, ["mismatched-pairs error"]),
        waves(1e3 ** (-2 * I / DIM), 1e3 ** (-(2 * I + 1) / DIM)),
    ),
    "-log(1e4)/d//2": (0, 0, 1.0805, ["dead-pairs error"], waves(np.exp(-2.0 * I))),
    "x ** 1e-4": (0, 0, 2.0506, ["single-frequency error"], waves((I / 32) ** 1e-4)),
    "integer division": (0, 0, 1.9867, ["single-frequency error"], waves(np.ones(32))),
    "padding row": (0.113, 0.089, 1.7876, ["padding-row note"], changed(1, 0.0)),
    "a row of zeros": (0.128, 0.118, 1.7913, ["padding-row warning"], changed(64, 0.0)),
    "index clipped": (
        *(0.130, 0.0023, 1.7006, ["clipped-index error", "stray-rows note"]),
        changed(slice(100, None), waves(GRID)[99]),
    ),
    "two rows equal": (
        *(0.0068, 0.030, 1.7903, ["duplicate-rows error", "stray-rows note"]),
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
@pytest.mark.parametrize("name", set(ZOO) - {"-log(1e4)/d//2"})
def test_zoo_in_low_precision(name, dtype):
    enc = from_table(ZOO[name][-1].astype(dtype), eps=float(np.finfo(dtype).eps))
    assert codes_found(enc) == ZOO[name][3]


def test_dead_pairs_in_float32():
    enc = from_table(ZOO["-log(1e4)/d//2"][-1].astype(np.float32), eps=2.0**-23)
    assert codes_found(enc) == ["dead-pairs error"]


PERIOD = np.tile(NORMAL[:32], (4, 1))
OTHER = {
    "periodic": (PERIOD, ["repeating-codes error"]),
    "zero tail": (np.vstack([NORMAL[:100], np.zeros((28, 64))]), ["unused-tail warning"]),
    "short tail": (np.vstack([NORMAL[:100], 0.02 * NORMAL[100:]]), ["unused-tail warning"]),
    "long first row": (np.vstack([9 * NORMAL[:1], NORMAL[1:]]), ["norm-outliers note"]),
    "near rows": (
        np.vstack([NORMAL[:127], NORMAL[60:61] + 1e-9]),
        ["near-duplicates warning"],
    ),
    "rank 3": (NORMAL[:, :3] @ NORMAL[:3], ["low-rank note"]),
    "one row wrong": (changed(40, NORMAL[0]), ["stray-rows error"]),
    "zeros": (np.zeros((9, 4)), ["zero-codes note"]),
    "scaled": (64**0.5 * waves(GRID), ["scale note"]),
    "steps": (waves(GRID / 4), ["step note"]),
    "base": (waves(500.0 ** (-2 * I / DIM)), ["base note"]),
    "cosines first": (np.hstack([np.cos(S * GRID), np.sin(S * GRID)]), ["cosines-first note"]),
    "free": (waves(np.linspace(0.1, 3, 32)), ["free-frequencies note"]),
    "noise": (NORMAL, []),
    "one position": (NORMAL[:1], []),
    "one column": (NORMAL[:, :1], []),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_findings(name):
    table, findings = OTHER[name]
    assert codes_found(as_encoding(table)) == findings


def test_positions_in_bfloat16():
    near = rounded(np.arange(512.0), FORMATS["bfloat16"])[:, None] * GRID
    table = np.hstack([np.sin(near), np.cos(near)])
    assert codes_found(as_encoding(table))[0] == "duplicate-rows error"
    half = np.vstack([table[:256], table[256::2] + 1e-3 * NORMAL])
    assert codes_found(as_encoding(half)) == ["stray-rows error"]


def test_phases_in_float32_are_a_note():
    phase = (np.arange(4096, dtype=np.float32)[:, None] * GRID.astype(np.float32)).astype(float)
    enc = from_table(np.hstack([np.sin(phase), np.cos(phase)]).astype(np.float32), eps=2.0**-23)
    assert codes_found(enc) == ["rounded-phases note"]
    assert 1e-4 < assess(enc).identified["max_difference"] < 2.0**-23 * 4096


def message(table):
    return assess(table).findings[0].message


def test_messages_say_what_to_do():
    assert message(ZOO["exponent = column"][-1]) == (
        "sine and cosine of a pair turn at different frequencies: columns 0 and 1 by 1 and 0.866 "
        "radians a position; the exponent runs with the column (a base of 10000 over 64 columns) "
        "where it must be the same for both: 2 * (column // 2) / d"
    )
    assert message(ZOO["index clipped"][-1]) == (
        "all rows from 99 on are equal: the index is clipped at 99; make the table as long as the "
        "positions, 128"
    )
    assert message(ZOO["-log(1e4)/d//2"][-1]) == (
        "26 of 32 pairs turn less than 0.001 radians over 128 positions and tell nothing: look at "
        "the exponent (-log(1e4) / d // 2 is -1, -log(1e4) / (d // 2) was meant)"
    )
    assert message(ZOO["two rows equal"][-1]) == "1 of 128 rows repeat an earlier one: 1 = 0"
    assert message(ZOO["padding row"][-1]) == (
        "row 1 of zeros: a padding index, which no position may use"
    )
    assert message(OTHER["one row wrong"][0]).startswith(
        "but for row 40 this is sinusoidal (rho=10000.0, layout=interleaved"
    )


@pytest.mark.parametrize("name", sorted(BUILDERS))
@pytest.mark.parametrize("size", [(80, 256), (17, 8), (1, 2)], ids=str)
def test_encodings_built_by_name_have_no_findings(name, size):
    result = assess(build(name, length=size[0], d=size[1]))
    assert (result.identified, result.findings) == (None, [])


SATURATES = {"recurrent"}  # its states repeat once they have arrived


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(set(BUILDERS) - SATURATES))
@pytest.mark.parametrize("size", [(80, 256), (128, 64), (17, 8), (8, 32), (3, 4)], ids=str)
def test_their_tables_have_notes_at_most(name, size, dtype):
    table = build(name, length=size[0], d=size[1]).table().astype(dtype)
    found = assess(from_table(table, eps=float(np.finfo(dtype).eps))).findings
    assert [f for f in found if f.severity != "note"] == []


@pytest.mark.parametrize("spec", ["alibi", "kerple", "t5", "shaw", "shaw:clip=3"])
def test_rows_of_lags_are_told_from_positions(spec):
    table = load(spec, 40, 6).table()
    (found,) = assess(from_table(table)).findings
    assert (found.code, found.severity) == ("rows-of-lags", "note")
    assert found.message.startswith("rows repeat around row 39 as those of lags -39 … 39 do")
    for broken in (table[:-1], np.vstack([table[1:], table[:1]]), np.repeat(table, 2, axis=0)):
        codes = [f.code for f in assess(from_table(broken)).findings]
        assert "rows-of-lags" not in codes
        assert codes


@pytest.mark.parametrize(
    "rows",
    [[0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 1, 0], [0, 3, 1, 2, 1, 3, 0], [0, 0, 1, 1, 1, 2, 2]],
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


# -- who wrote this table? --------------------------------------------------------------------


def positions(n, start=0):
    return np.arange(start, start + n, dtype=np.float32)[:, None]


def tensor2tensor(n, d, start=0):
    half = d // 2
    step = np.float32(np.log(1e4) / (half - 1))
    phase = positions(n, start) * np.exp(-step * np.arange(half, dtype=np.float32))
    return np.pad(np.hstack([np.sin(phase), np.cos(phase)]), ((0, 0), (0, d % 2)))


def fairseq(n, d, padding=1):
    table = tensor2tensor(n, d)
    table[padding] = 0
    return table


def marian(n, d):
    j = np.arange(d)
    phase = np.arange(n)[:, None] / np.power(10000, 2 * (j // 2) / d)
    return np.hstack([np.sin(phase[:, 0::2]), np.cos(phase[:, 1::2])]).astype(np.float32)


def musicgen(n, d):
    table = tensor2tensor(n, d)
    return np.hstack([table[:, d // 2 :], table[:, : d // 2]])


def diffusers(n, d, flip=False, shift=1.0, scale=1.0):
    half = d // 2
    exponent = np.float32(-np.log(10000)) * np.arange(half, dtype=np.float32) / (half - shift)
    phase = np.float32(scale) * positions(n) * np.exp(exponent).astype(np.float32)
    order = (np.cos, np.sin) if flip else (np.sin, np.cos)
    return np.pad(np.hstack([wave(phase) for wave in order]), ((0, 0), (0, d % 2)))


def keras_hub(n, d):
    j = np.arange(d)
    phase = positions(n) * np.power(np.float32(1e-4), (2 * (j // 2) / d).astype(np.float32))
    return (np.sin(phase) * (j % 2 == 0) + np.cos(phase) * (j % 2)).astype(np.float32)


def x_transformers(n, d):
    phase = positions(n) * np.float32(10000) ** -(np.arange(d // 2, dtype=np.float32) / (d // 2))
    return (np.hstack([np.sin(phase), np.cos(phase)]) * d**-0.5).astype(np.float32)


def positional_encodings(n, d):
    channels = d + d % 2
    phase = positions(n) / (10000 ** (np.arange(0, channels, 2, dtype=np.float32) / channels))
    return np.stack([np.sin(phase), np.cos(phase)], axis=-1).reshape(n, channels)[:, :d]


def mlx(n, d):
    share = 1 - np.arange(d // 2) / (d // 2 - 1)
    phase = np.arange(n)[:, None] * np.exp(np.log(1e-4) * (1 - share))
    return (np.sqrt(2 / d) * np.hstack([np.sin(phase), np.cos(phase)])).astype(np.float32)


PLAIN = {"rho": 10000.0, "divisor": "d", "offset": 0, "scale": 1.0, "first": "sin"}
BY_TURNS, HALVES = PLAIN | {"layout": "interleaved"}, PLAIN | {"layout": "halves"}
T2T = HALVES | {"divisor": "d/2-1"}
PRODUCERS = {
    "tensor2tensor": (tensor2tensor(512, 512), T2T),
    "tensor2tensor, odd d": (tensor2tensor(100, 63), T2T | {"odd": "zero"}),
    "tensor2tensor from 1": (tensor2tensor(100, 64, 1), T2T | {"offset": 1}),
    "whisper": (tensor2tensor(1500, 384), T2T),
    "fairseq": (fairseq(514, 64), T2T | {"zero_rows": [1]}),
    "fairseq, odd d": (fairseq(60, 65, 0), T2T | {"zero_rows": [0], "odd": "zero"}),
    "marian": (marian(512, 512), HALVES),
    "musicgen": (musicgen(2048, 128), T2T | {"first": "cos"}),
    "diffusers": (diffusers(1000, 320), T2T),
    "diffusers, flipped": (diffusers(1000, 320, True), T2T | {"first": "cos"}),
    "diffusers, shift 0": (diffusers(1000, 128, shift=0), HALVES),
    "diffusers, shift 2": (diffusers(1000, 128, shift=2), HALVES | {"divisor": "d/2-2"}),
    "diffusers, half scale": (diffusers(300, 128, scale=0.5), T2T | {"step": 0.5}),
    "diffusers, odd d": (diffusers(99, 129, True), T2T | {"first": "cos", "odd": "zero"}),
    "keras-hub": (keras_hub(512, 256), BY_TURNS),
    "x-transformers": (x_transformers(1024, 512), HALVES | {"scale": 512**-0.5}),
    "positional-encodings": (positional_encodings(64, 64), BY_TURNS),
    "positional-encodings, odd d": (positional_encodings(64, 63), BY_TURNS | {"odd": "d+1"}),
    "mlx": (mlx(200, 64), T2T | {"scale": (2 / 64) ** 0.5}),
}


@pytest.mark.parametrize("name", PRODUCERS)
def test_producers_are_recognised(name):
    table, params = PRODUCERS[name]
    found = identify(table.astype(np.float32), 2.0**-23)
    assert found["encoding"] == "sinusoidal"
    assert found["params"] == params
    assert found["max_difference"] < 2e-7 * len(table)


@pytest.mark.parametrize("name", set(PRODUCERS) - {"fairseq, odd d"})
def test_producers_are_recognised_in_bfloat16_and_in_short(name):
    table, params = PRODUCERS[name]
    coarse = identify(rounded(table, FORMATS["bfloat16"]), 2.0**-7)
    assert coarse["params"] == params
    short = identify(table[:12].astype(np.float32), 2.0**-23)
    assert short["params"] == params


def hugging_face(name):
    if name == "whisper":
        from transformers.models.whisper.modeling_whisper import sinusoids

        return sinusoids(300, 64), T2T
    if name == "marian":
        from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

        return MarianSinusoidalPositionalEmbedding(300, 64).create_weight(), HALVES
    if name == "musicgen":
        from transformers.models.musicgen import modeling_musicgen as module

        made = module.MusicgenSinusoidalPositionalEmbedding(300, 64)
        return made.get_embedding(300, 64), T2T | {"first": "cos"}
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

    made = M2M100SinusoidalPositionalEmbedding(300, 64, padding_idx=1)
    return made.get_embedding(300, 64, 1), T2T | {"zero_rows": [1]}


@pytest.mark.parametrize("name", ["whisper", "marian", "musicgen", "m2m_100"])
@pytest.mark.filterwarnings("ignore")
def test_transformers_classes_are_recognised(name):
    pytest.importorskip("transformers")
    table, params = hugging_face(name)
    assert identify(table.detach().numpy(), 2.0**-23)["params"] == params


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize(("part", "wave"), [("cos", np.cos), ("sin", np.sin)])
def test_rotary_tables_of_one_wave(part, wave, layout):
    half = 1.5 * wave(S * GRID)
    table = np.hstack([half, half]) if layout == "halves" else np.repeat(half, 2, axis=1)
    found = identify(table.astype(np.float32), 2.0**-23)
    expected = {"rho": 10000.0, "layout": layout, "part": part, "scale": 1.5, "divisor": "d"}
    assert (found["encoding"], found["params"]) == ("rope", expected)


ROUND_TRIPS = [
    ("sinusoidal", {}),
    ("sinusoidal", {"rho": 500.0, "layout": "halves", "offset": 7}),
    ("sinusoidal", {"rho": 12345.678, "divisor": "d"}),
    ("sinusoidal", {"divisor": "d/2-1", "offset": 1}),
    ("rope", {}),
    ("rope", {"rho": 500000.0, "layout": "interleaved"}),
    ("dft", {}),
    ("onehot", {}),
    ("ramp", {}),
    ("none", {}),
]


@pytest.mark.parametrize("size", [(8, 16), (80, 64), (33, 31), (3000, 12)], ids=str)
@pytest.mark.parametrize(("name", "own"), ROUND_TRIPS, ids=str)
def test_what_is_identified_can_be_built_again(name, own, size):
    n, d = size
    if name == "rope" and d % 2:
        pytest.skip("rotary codes have even dimensions")
    table = build(name, length=n, d=d, **own).table()
    found = identify(table)
    assert found["encoding"] == name
    known = {k: v for k, v in found["params"].items() if k in BUILDERS[name].parameters}
    assert known.items() >= own.items()
    again = build(name, length=n, d=d, **known).table()
    np.testing.assert_allclose(again, table, atol=1e-12 * n)


@pytest.mark.parametrize("name", ["sinusoidal", "dft"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_order_and_signs_of_columns(name, dtype, rng):
    enc = build(name, length=50, d=32)
    order, signs = rng.permutation(32), rng.choice([-1, 1], 32)
    found = identify((enc.table()[:, order] * signs).astype(dtype), float(np.finfo(dtype).eps))
    assert found["params"]["columns"] == order.tolist()
    assert found["params"]["negative"] == np.flatnonzero(signs < 0).tolist()


def almost(kind):
    table = waves(GRID)
    if kind == "entry":
        table[77, 30] += 1e-4
    elif kind == "frequency":
        table[:, 20] = np.sin(S[:, 0] * GRID[10] * 1.001)
    elif kind == "row":
        table[100] = table[99]
    elif kind == "noise":
        table += 1e-5 * NORMAL
    return table


@pytest.mark.parametrize("kind", ["entry", "frequency", "row", "noise"])
def test_what_is_only_almost_sinusoidal_is_not_identified(kind):
    assert identify(almost(kind)) is None
    assert identify(almost(kind).astype(np.float32), 2.0**-23) is None


def test_computed_in_float32_and_stored_in_float64():
    table = tensor2tensor(512, 64).astype(float)
    found = identify(table)
    assert found["params"] == T2T
    assert 1e-6 < found["max_difference"] < 1e-4


@pytest.mark.parametrize("offset", [0.5, -40, 2.25])
def test_offsets_of_any_kind(offset):
    assert identify(waves(GRID, offset=offset))["params"] == BY_TURNS | {"offset": offset}


def test_an_unusual_base_in_low_precision():
    table = build("sinusoidal", length=200, d=64, rho=12345.678).table()
    for name, eps in (("float16", 2.0**-10), ("bfloat16", 2.0**-7)):
        params = identify(rounded(table, FORMATS[name]), eps)["params"]
        assert (params["divisor"], params["rho"]) == ("d", pytest.approx(12345.678, rel=1e-3))


@pytest.mark.parametrize(("start", "offset"), [(5, 5), (40, 40), (64, 0)])
def test_dft_codes_from_a_later_position(start, offset):
    table = build("dft", length=150, d=64).table()[start:]
    assert identify(table)["params"] == {"offset": offset, "scale": 1.0}
    coarse = identify(rounded(table, FORMATS["bfloat16"]), 2.0**-7)
    assert coarse["params"] == {"offset": offset, "scale": 1.0}


def test_a_table_that_is_mostly_padding_is_not_identified():
    assert identify(changed(slice(60, None), 0.0)) is None


def test_two_frequencies_are_no_grid():
    table = build("learnable-sinusoidal", length=40, d=4).table()
    assert identify(table) is None


def test_what_cannot_be_told():
    assert identify(np.ones((3, 8)) * np.arange(3)[:, None]) is None
    assert identify(waves(GRID)[:, :2]) is None
    assert identify(waves(GRID)[:3]) is None
    assert identify(NORMAL) is None


def test_a_large_table_takes_seconds_at_most():
    """Timed as work: (4096, 1024) is read in rows of the sample and compared once."""
    phase = np.multiply.outer(np.arange(4096), 1e4 ** (-np.arange(512) / 512))
    table = np.hstack([np.sin(phase), np.cos(phase)])
    found = identify(table)
    assert found["params"] == HALVES
    assert found["max_difference"] < 1e-11


def test_a_doubled_exponent_is_a_warning():
    """p / 10000^(2i/d) with i = 0, 2, 4 … for both waves: a base of 10^8."""
    i = np.arange(0, 64, 2)
    phase = np.arange(128)[:, None] / 10000.0 ** (2 * i / 64)
    table = np.stack([np.sin(phase), np.cos(phase)], axis=2).reshape(128, 64)
    found = {f.code: f for f in assess(table).findings}
    assert found["base"].severity == "warning"
    assert found["base"].message == (
        "the base is 1e+08 and not 10000: the exponent counts twice, as 2i / d does with "
        "i = 0, 2, 4 …"
    )

"""Tables of public implementations are recognised by formula; similar tables are not."""

import numpy as np
import pytest
from sinusoids import GRID, NORMAL, S, changed, waves

from pefourier.construction.identify import identify
from pefourier.encodings import load
from pefourier.encodings.registry import BUILDERS, build
from pefourier.geometry.precision import FORMATS, rounded


def made(n, d, shift=1, step=1.0, start=0, *, flip=False):
    """Return sines and cosines in halves as float32 code computes them, zeros in an odd column."""
    half, f = d // 2, np.float32
    exponent = np.arange(half, dtype=f) / f(half - shift)
    phase = (
        f(step) * np.arange(start, start + n, dtype=f)[:, None] * np.exp(-f(np.log(1e4)) * exponent)
    )
    order = (np.cos, np.sin) if flip else (np.sin, np.cos)
    return np.pad(np.hstack([wave(phase) for wave in order]), ((0, 0), (0, d % 2)))


def fairseq(n, d, padding=1):
    table = made(n, d)
    table[padding] = 0
    return table


PLAIN = {"rho": 10000.0, "divisor": "d", "offset": 0, "scale": 1.0, "first": "sin"}
INTERLEAVED, HALVES = PLAIN | {"layout": "interleaved"}, PLAIN | {"layout": "halves"}
T2T = HALVES | {"divisor": "d/2-1"}
PRODUCERS = {
    "tensor2tensor": (made(512, 512), T2T),
    "tensor2tensor, odd d": (made(100, 63), T2T | {"odd": "zero"}),
    "tensor2tensor from 1": (made(100, 64, start=1), T2T | {"offset": 1}),
    "fairseq": (fairseq(514, 64), T2T | {"zero_rows": [1]}),
    "fairseq, odd d": (fairseq(60, 65, 0), T2T | {"zero_rows": [0], "odd": "zero"}),
    "marian": (made(512, 512, 0), HALVES),
    "musicgen and diffusers, flipped": (made(2048, 128, flip=True), T2T | {"first": "cos"}),
    "diffusers, half scale": (made(300, 128, step=0.5), T2T | {"step": 0.5}),
    "x-transformers": (made(1024, 512, 0) * 512**-0.5, HALVES | {"scale": 512**-0.5}),
}


@pytest.mark.parametrize("name", PRODUCERS)
def test_producers_are_recognised(name):
    """A producer is recognised in full, from few rows, and in bfloat16."""
    table, params = PRODUCERS[name]
    found = identify(table.astype(np.float32), 2.0**-23)
    assert (found["encoding"], found["params"]) == ("sinusoidal", params)
    assert found["max_difference"] < 2e-7 * len(table)
    if name != "fairseq, odd d":
        assert identify(rounded(table, FORMATS["bfloat16"]), 2.0**-7)["params"] == params
        assert identify(table[:12].astype(np.float32), 2.0**-23)["params"] == params


ROTATIONS = [
    "rope:rho=5e5,d=64",
    "rope:rho=5e5,scaling=llama3,factor=8,original=8192,d=64",
    "rope:rho=5e5,scaling=llama3,factor=8,original=2048,d=16",
    "rope:rho=1e6,scaling=yarn,factor=4,original=32768,d=64",
    "rope:rho=150000,scaling=yarn,factor=32,original=4096,truncate=false,d=64",
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("spec", ROTATIONS)
def test_tables_of_rotations(spec, dtype):
    """Rotations, scaled or not, are recognised in all forms in which engines cache them."""
    enc = load(spec, 400)
    phases = np.outer(np.arange(400), enc.measure.frequencies)
    scaling = ("scaling", "factor", "original") if "scaling" in spec else ()
    own = {key: enc.params[key] for key in ("rho", *scaling)}
    factor = enc.params["attention_factor"] if scaling else 1.5
    cos, sin = factor * np.cos(phases), factor * np.sin(phases)
    forms = [({}, np.hstack([cos, sin])), ({}, np.hstack([cos, cos, sin, sin]))]
    for part, wave in (("cos", cos), ("sin", sin)):
        alone = {"part": part}
        forms += [
            (alone | {"layout": "halves"}, np.hstack([wave, wave])),
            (alone | {"layout": "interleaved"}, np.repeat(wave, 2, axis=1)),
            (alone | {"times": 1}, wave),
        ]
    for facts, table in forms:
        found = identify(table.astype(dtype), float(np.finfo(dtype).eps))["params"]
        assert found.items() >= (own | facts).items()
        assert found.get("scale", 1.0) == pytest.approx(factor, rel=1e-6)


ROUND_TRIPS = [
    ("sinusoidal", {}),
    ("sinusoidal", {"rho": 500.0, "layout": "halves", "offset": 7}),
    ("sinusoidal", {"rho": 12345.678, "divisor": "d"}),
    ("sinusoidal", {"rho": 40889.8}),
    ("sinusoidal", {"divisor": "d/2-1", "offset": 1}),
    ("rope", {}),
    ("rope", {"rho": 500000.0, "layout": "interleaved"}),
    ("dft", {}),
    ("none", {}),
    ("onehot", {}),
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


@pytest.mark.parametrize("name", ["sinusoidal", "dft", "rope"])
def test_columns_in_an_order_without_a_name_are_not_identified(name, rng):
    table = build(name, length=50, d=32).table()
    assert identify(table)["encoding"] == name
    assert identify(table[:, rng.permutation(32)]) is None
    assert identify(table * np.where(np.arange(32) == 5, -1, 1)) is None


@pytest.mark.parametrize(
    "table",
    [
        waves(GRID) + 1e-4 * ((S == 77) & (np.arange(64) == 30)),
        waves(GRID) + 1e-5 * NORMAL,
        changed(100, waves(GRID)[99]),
        np.where(np.arange(64) == 20, np.sin(S * GRID[10] * 1.001), waves(GRID)),
    ],
    ids=["entry", "noise", "row", "frequency"],
)
def test_what_is_only_almost_sinusoidal_is_not_identified(table):
    assert identify(table) is None
    assert identify(table.astype(np.float32), 2.0**-23) is None


@pytest.mark.parametrize(("start", "offset"), [(5, 5), (40, 40), (64, 0)])
def test_dft_vectors_from_a_later_position_and_backwards(start, offset):
    table = build("dft", length=150, d=64).table()
    coarse = identify(rounded(table[start:], FORMATS["bfloat16"]), 2.0**-7)
    for found in (identify(table[start:]), coarse):
        assert found["params"] == {"offset": offset, "scale": 1.0}
    found = identify(table[:64][::-1])
    assert found["params"] == {"offset": 63, "scale": 1.0, "backwards": True}


REFUSED = {
    "mostly padding": changed(slice(60, None), 0.0),
    "two frequencies": build("learnable-sinusoidal", length=40, d=4).table(),
    "three rows": np.ones((3, 8)) * np.arange(3)[:, None],
    "two columns": waves(GRID)[:, :2],
    "three rows of waves": waves(GRID)[:3],
    "noise": NORMAL,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_reported(name):
    assert identify(REFUSED[name]) is None

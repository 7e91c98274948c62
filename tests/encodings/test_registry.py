"""One function adds an encoding; invalid names and parameters are refused in one line."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal

from pefourier.encodings import build, load
from pefourier.encodings.encoding import from_table, lattice
from pefourier.encodings.grids import on_grid
from pefourier.encodings.loader import source_of
from pefourier.encodings.registry import ABOVE_ZERO, BUILDERS, LEAST
from pefourier.train.options import Options

MEANT = {"rotary:rho=5e5": "rope:rho=5e5", "NoPE": "none", "one-hot": "onehot"}
MEANT |= {"yarn:factor=4,original=64": "rope:scaling=yarn,factor=4,original=64"}
MEANT |= {"T5": "t5", "ALiBi:causal=true": "alibi:causal=true"}


@pytest.mark.parametrize(("typed", "meant"), MEANT.items())
def test_common_names_are_aliases(typed, meant):
    assert source_of(typed) == "name"
    assert load(typed, 9, 8).spec == load(typed, 9, 8).label == meant
    assert_array_equal(load(typed, 9, 8).table(), load(meant, 9, 8).table())
    assert Options(encoding=(typed,)).encoding == (meant,)


@pytest.mark.parametrize("name", ["LSTM", "cnn", "path", "selective-rope", "drope", "hope", "TAPE"])
def test_a_name_without_vectors_is_refused_by_each_door(name):
    for ask in (load, build):
        with refusal("^(?!.*Did you mean)"):
            ask(name)


NEAR = {"sincos2d": "axial", "2-D sin-cos": "axial", "ViT": "axial", "2D-RoPE": "axial-rope"}


@pytest.mark.parametrize(("name", "meant"), NEAR.items())
def test_names_of_other_libraries_lead_to_an_encoding(name, meant, run):
    for command in ("spectrum", "list"):
        done = run(command, name)
        assert re.search(rf"\b{meant}\b", done.err or done.out)


def test_a_file_is_not_a_name_in_capitals(folder):
    (folder / "DFT").write_text("1,2")
    with refusal("has no suffix"):
        load("DFT")


@pytest.mark.parametrize("odd", ["sine", "d+1", "zero"])
def test_an_odd_d_is_filled_as_reported(odd):
    """An odd d ends in a sine alone, in a sine of d + 1 columns, or in a column of zeros."""
    table, s = load(f"sinusoidal:odd={odd}", 9, 5).table(), np.arange(9)
    over = {"sine": 5, "d+1": 6, "zero": 4}[odd]
    phases = [s * 10000.0 ** (-2 * i / over) for i in range(3)]
    last = 0 * s if odd == "zero" else np.sin(phases[2])
    waves = [wave(phase) for phase in phases[:2] for wave in (np.sin, np.cos)]
    assert_allclose(table, np.transpose([*waves, last]), atol=1e-14)
    fairseq = load("sinusoidal:divisor=d/2-1", 9, 6).measure.frequencies
    assert_allclose(fairseq, 1e4 ** -np.linspace(0, 1, 3), rtol=1e-14)


def test_an_encoding_of_another_module_is_listed_last(monkeypatch):
    own = replace(BUILDERS["none"], name="my-own", family="elsewhere")
    monkeypatch.setitem(BUILDERS, "my-own", own)
    names = [*BUILDERS]
    assert (names[-1], len(names)) == ("my-own", len(BUILDERS))


YARN = "rope:scaling=yarn,factor=2"
LONG = "rope:scaling=longrope,factor=2,original=9,short_factor=1;1"
REFUSED = [  # SPEC, part of the error
    ("rope:factor=2", "scaling=none does not use factor=2.0"),
    ("rope:scaling=linear,factor=2,original=64", "original=64"),
    (YARN, "needs original"),
    ("rope:scaling=linear", "needs factor"),
    ("rope:scaling=linear,factor=0", "factor must be a finite number above 0"),
    (f"{YARN},original=9,beta_slow=-1", "beta_slow"),
    (f"{YARN},original=9,rho=1", "rho must be a finite number above 1"),
    ("rope:rho=1e-300", "frequency of"),
    (f"{LONG},long_factor=1;2;3,d=4", "long_factor needs 2 numbers"),
    ("rope:scaling=longrope,factor=2,original=1,short_factor=1,long_factor=1,d=2", "from 2"),
    ("rope:scaling=ntk,factor=2,d=2", "at least 4 rotated dimensions"),
    ("rope:d=7", "d=7"),
    ("rope:partial=1.5", "partial"),
    ("rope:partial=0.2,d=8", "partial=0.2 of d=8"),
    ("axial:grid=3x4,d=18", "d=16 or d=20"),
    ("axial-rope:convention=flux,grid=3x4,d=100", "d=96 or d=128"),
    ("axial:order=tx,grid=3x4,d=8", "order=yx"),
    ("axial:share=1;2;3,grid=3x4,d=8", "share needs one number for each of the axes y, x"),
    ("axial:convention=flux,grid=3x4,d=8", "axial-rope:convention=flux"),
    ("axial-rope:convention=ltx,grid=3x4,d=24", "axis t of order=tyx"),
    ("axial:arrange=alternate,grid=3x4,d=8", "arrange=alternate"),
    ("axial-rope:stretch=2;2,stretch_by=yarn,grid=3x4,d=8", "trained"),
    ("axial:divisor=n-1,grid=3x4,d=4", "divisor=n-1"),
    ("axial:stretch=2;2,grid=3x4,d=4", "stretch needs at least two pairs"),
    ("axial:rows=blocks,grid=3x4,d=8", "such as 4x4"),
    ("mixed-rope:grid=3x4,d=17", "d=18"),
    ("mixed-rope:grid=2x3x4,d=16", "two axes"),
    ("fourier-features:mapping=nerf,scale=3,grid=3x5,d=20", "mapping=nerf has no scale"),
    *((f"{name}:d=7", "d=8") for name in ("learnable-sinusoidal", "tape", "mtan-fixed")),
    ("sinusoidal:odd=zero,d=1", "d of at least 2"),
    ("sinusoidal:divisor=d/2-1,d=2", "d of at least 4"),
    ("sinusoidal:offset=-1", "offset"),
    ("sinusoidal:rho=500,rho=3", "rho twice"),
    ("ramp:normalise=maybe", "true or false"),
    ("sinusoidal:layuot=halves", "'layout'"),
    ("mtan:times=3.npy", "'3.npy'"),
    ("t5:max_distance=8", "max_distance must be above 8; got 32 and 8"),
    ("sandwich:head=1e9", "head / 2"),  # had run for minutes
    ("tree:parents=-1;0;0;0", "node 0 has more than 2 children"),
    ("tree:parents=0;0", "parents must start with -1"),
    ("tree:width=4,p=0.5;0.6,d=6", "d must be at least 8"),
    ("tree:p=1", "p must be"),
    ("swin2:pretrained=8,grid=3x4,d=2", "one side for each of 2 axes"),
    *((f"{name}:length=13,grid=3x4", "13 rows do not fit") for name in ("swin", "swin2", "beit")),
    ("dft:length=134217728", "length"),
    ("dft:d=4194304", "d must be"),
    ("learned:length=1048576,d=1024", "the limit is"),
    ("sinusoidal:length=0", "length"),
    *(
        (f"{name}:{settings}", words)
        for name in ("rope", "none")
        for settings, words in (
            ("temperature_scale=0.2", "needs a temperature"),
            ("temperature=log-n,temperature_floor=1", "from 2 on"),
            ("temperature=llama4,temperature_floor=-1", "temperature_floor"),
            ("temperature=llama4,temperature_scale=-1", "temperature_scale"),
        )
    ),
    ("xl:d=7", "even d"),
    ("xl:divisor=d/2-1,d=2", "at least 4"),
    ("deberta:buckets=1", "max_distance above 1; got 1 and 512"),
    ("deberta:buckets=256,max=129", "max_distance above 129; got 256 and 129"),
    ("deberta:buckets=4000000000", "numbers"),
    ("fope:d=7", "even d"),
    ("fope:original=0", "original"),
    ("fope:gain=1e308,original=99", "fope"),
    ("fope:layout=halves", "layout"),
    ("fope:d=65536", "the limit is"),
]


@pytest.mark.parametrize(("spec", "named"), REFUSED)
def test_what_cannot_be_built_is_refused(spec, named):
    with refusal(part=named):
        load(spec).table()


CALLS = {
    "side of a grid": lambda: lattice((0, 3)),
    "encodes a lag": lambda: load("alibi", grid=(3, 4)),
    "points of a grid": lambda: lattice((2**20, 2**20)),
    "1, are not in order": lambda: load("mtan", times=[0.0, 2.0, 1.0]),
    "times must be finite": lambda: load("mtan", times=[0.0, np.nan]),
    "times must be one column": lambda: load("mtan", times=[[0.0, 1.0], [2.0, 3.0]]),
    "8193 times are too many": lambda: load("mtan", times=np.append(np.arange(8192), 9e3)),
    "point 12 is outside": lambda: build("axial", d=8, grid=(3, 4)).vectors(np.array([12])),
    "position 3 is outside": lambda: from_table(np.eye(3)).vectors(np.array([0, 3])),
    "float16 overflows": lambda: from_table(np.array([[1.0, np.inf]], dtype=np.float16)),
    "two axes": lambda: from_table(np.zeros((14, 14, 192))),
    "scale the vectors": lambda: from_table(np.full((2, 2), 1e200)),
    "has a grid of 3x4": lambda: on_grid(build("axial", d=8, grid=(3, 4)), (4, 3), 0),
    "prefix 1 would fit": lambda: on_grid(from_table(np.eye(197)), (14, 15), 0),
    "must be less than 3 rows; got 3": lambda: on_grid(from_table(np.eye(3)), (), 3),
}


@pytest.mark.parametrize("named", CALLS)
def test_invalid_python_arguments_are_refused(named):
    with refusal(part=named):
        CALLS[named]()


@pytest.mark.parametrize("key", sorted({*ABOVE_ZERO, *LEAST}))
def test_numbers_out_of_range_are_refused_by_name(key):
    takers = [name for name, builder in BUILDERS.items() if key in builder.parameters]
    assert takers
    for name in takers:
        with refusal(key):
            build(name, length=9, d=8, **{key: LEAST.get(key, 1) - 1})

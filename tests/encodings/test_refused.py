"""Invalid parameters of encodings are refused in one line that names them."""

import numpy as np
import pytest

from pefourier.encodings import build, load
from pefourier.encodings.encoding import from_table, lattice
from pefourier.encodings.grids import on_grid
from pefourier.errors import PefourierError

YARN = "rope:scaling=yarn,factor=2"
LONG = "rope:scaling=longrope,factor=2,original=9,short_factor=1;1"
REFUSED = [  # spec, length, d, grid, part of the error
    ("rope:factor=2", 9, 8, (), "scaling=none does not use factor=2.0"),
    ("rope:scaling=linear,factor=2,original=64", 9, 8, (), "original=64"),
    (YARN, 9, 8, (), "needs original"),
    ("rope:scaling=linear", 9, 8, (), "needs factor"),
    ("rope:scaling=linear,factor=0", 9, 8, (), "factor must be a finite number above 0"),
    (f"{YARN},original=9,beta_slow=-1", 9, 8, (), "beta_slow"),
    (f"{YARN},original=9,rho=1", 9, 8, (), "rho must be a finite number above 1"),
    (f"{YARN},original=9,attention_factor=-1", 9, 8, (), "attention_factor"),
    ("rope:rho=-3", 9, 8, (), "rho"),
    ("rope:rho=1e-300", 9, 8, (), "frequency of"),
    ("rope:scaling=linear,factor=1e-320", 9, 4, (), "frequency of inf"),
    ("rope:scaling=yarm", 9, 8, (), "'yarn'"),
    (f"{LONG},long_factor=1;2;3", 9, 4, (), "long_factor needs 2 numbers"),
    (f"{LONG},long_factor=1;0", 9, 4, (), "long_factor"),
    ("rope:scaling=longrope,factor=2,original=1,short_factor=1,long_factor=1", 9, 2, (), "from 2"),
    ("rope:scaling=ntk,factor=2", 9, 2, (), "at least 4 rotated dimensions"),
    ("rope", 9, 7, (), "d=7"),
    ("xpos", 9, 7, (), "d=7"),
    ("xpos:span=0", 9, 8, (), "span"),
    ("rope:partial=1.5", 9, 8, (), "partial"),
    ("rope:partial=0.2", 9, 8, (), "partial=0.2 of d=8"),
    ("axial", None, 18, (3, 4), "d=16 or d=20"),
    ("axial-rope:convention=flux", None, 100, (3, 4), "d=96 or d=128"),
    ("axial-rope", None, 128, (2, 3, 4), "d=126 or d=132"),
    ("axial-rope:convention=wan", None, 25, (2, 3, 4), "d=24 or d=26"),
    ("axial:order=tx", None, 8, (3, 4), "order=yx"),
    ("axial:share=1;2;3", None, 8, (3, 4), "share needs one number for each of the axes y, x"),
    ("axial:share=1;0", None, 8, (3, 4), "share"),
    ("axial:convention=flux", None, 8, (3, 4), "axial-rope:convention=flux"),
    ("axial-rope:convention=wann", None, 8, (3, 4), "'wan'"),
    ("axial-rope:convention=ltx", None, 24, (3, 4), "axis t of order=tyx"),
    ("axial:arrange=alternate", None, 8, (3, 4), "arrange=alternate"),
    ("axial-rope:stretch=2;2,stretch_by=yarn", None, 8, (3, 4), "trained"),
    ("axial:divisor=n-1", None, 4, (3, 4), "divisor=n-1"),
    ("axial:stretch=2;2", None, 4, (3, 4), "stretch needs at least two pairs"),
    ("axial:scale=0", None, 8, (3, 4), "scale"),
    ("axial:rows=blocks", None, 8, (3, 4), "such as 4x4"),
    ("mixed-rope", None, 17, (3, 4), "d=18"),
    ("mixed-rope", None, 16, (2, 3, 4), "two axes"),
    ("fourier-features:mapping=nerf,scale=3", None, 20, (3, 5), "mapping=nerf has no scale"),
    ("fourier-features:mapping=perceiver", None, 18, (3, 5), "d=16 or d=20"),
    ("fourier-features:mapping=sirn", None, 20, (3, 5), "'sirn'"),
    *((name, 9, 7, (), "d=8") for name in ("learnable-sinusoidal", "tape", "mtan-fixed")),
    *((f"{name}:scale=0", 9, 8, (), "scale") for name in ("t5", "erpe", "tupe", "learned")),
    ("sinusoidal:odd=zero", 9, 1, (), "d of at least 2"),
    ("sinusoidal:divisor=d/2-1", 9, 2, (), "d of at least 4"),
    ("sinusoidal:offset=-1", 9, 8, (), "offset"),
    ("sinusoidal:rho=500,rho=3", 9, 8, (), "rho twice"),
    ("sinusoidal:rho", 9, 8, (), "key=value"),
    ("sinusoidal:rho=nan", 9, 8, (), "finite number"),
    ("learned:seed=-1", 9, 8, (), "seed"),
    ("ramp:normalise=maybe", 9, 8, (), "true or false"),
    ("sinusoidal:layuot=halves", 9, 8, (), "'layout'"),
    ("sinusoidl", 9, 8, (), "'sinusoidal'"),
    ("mtan:times=3.npy", 9, 8, (), "'3.npy'"),
    ("t5:buckets=7", 9, 8, (), "buckets"),
    ("tupe:buckets=2", 9, 8, (), "buckets"),
    ("t5:max_distance=8", 9, 8, (), "max_distance must be above 8; got 32 and 8"),
    ("tupe:heads=3", 9, 8, (), "heads=3"),
    ("shaw:clip=-1", 9, 8, (), "clip"),
    ("sandwich:head=5", 9, 8, (), "head / 2"),
    ("sandwich:head=1e9", 9, 8, (), "head / 2"),  # had run for minutes
    ("pseudo-gaussian:power=3", 9, 8, (), "power"),
    ("dpb:depth=0", 9, 8, (), "depth"),
    ("fire:c=-1", 9, 8, (), "c must be"),
    ("fire:threshold=0", 9, 8, (), "threshold"),
    ("tree:parents=-1;0;0;0", 9, 8, (), "node 0 has more than 2 children"),
    ("tree:parents=0;0", 9, 8, (), "parents must start with -1"),
    ("tree:width=4,p=0.5;0.6", 9, 6, (), "d must be at least 8"),
    ("tree:p=1", 9, 8, (), "p must be"),
    ("tree:width=0", 9, 8, (), "width"),
    ("swin2:pretrained=8", None, 2, (3, 4), "one side for each of 2 axes"),
    *((name, 13, 2, (3, 4), "13 rows do not fit") for name in ("swin", "swin2", "beit")),
    ("dft", 13, 8, (3, 4), "13 rows do not fit"),
    ("dft", 2**27, 8, (), "length"),
    ("dft", 9, 2**22, (), "d must be"),
    ("learned", 2**20, 2**10, (), "the limit is"),
    ("alibi", None, 2, (3, 4), "lag"),
    ("sinusoidal", 0, 8, (), "length"),
    *(
        (name, 9, 8, (), "depends on the tokens")
        for name in ("rnn", "path", "CABLE", "CoPE", "dape", "wav2vec2")
    ),
    ("hope", 9, 8, (), "name of several encodings"),
    ("drope", 9, 8, (), "no vectors of its own"),
]


@pytest.mark.parametrize(("spec", "length", "d", "grid", "named"), REFUSED, ids=str)
def test_what_cannot_be_built_is_refused(spec, length, d, grid, named):
    with pytest.raises(PefourierError) as caught:
        load(spec, length, d, **({"grid": grid} if grid else {})).table()
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


CALLS = {
    "side of a grid": lambda: lattice((0, 3)),
    "prefix": lambda: lattice((3, 3), -1),
    "points of a grid": lambda: lattice((2**20, 2**20)),
    "1, are not in order": lambda: load("mtan", times=[0.0, 2.0, 1.0]),
    "2, are equal": lambda: load("mtan", times=[0.0, 2.0, 2.0]),
    "times must be finite": lambda: load("mtan", times=[0.0, np.nan]),
    "times must be one column": lambda: load("mtan", times=[[0.0, 1.0], [2.0, 3.0]]),
    "8193 times are too many": lambda: load("mtan", times=np.append(np.arange(8192), 9e3)),
    "point 12 is outside": lambda: build("axial", d=8, grid=(3, 4)).vectors(np.array([12])),
    "point -1 is outside": lambda: build("swin", d=2, grid=(3, 4)).vectors(np.array([-1])),
    "position 3 is outside": lambda: from_table(np.eye(3)).vectors(np.array([0, 3])),
    "float16 overflows": lambda: from_table(np.array([[1.0, np.inf]], dtype=np.float16)),
    "holds nan": lambda: from_table(np.array([[1.0, np.nan]])),
    "two axes": lambda: from_table(np.zeros((14, 14, 192))),
    "scale the vectors": lambda: from_table(np.full((2, 2), 1e200)),
    "has a grid of 3x4": lambda: on_grid(build("axial", d=8, grid=(3, 4)), (4, 3), 0),
    "prefix 1 would fit": lambda: on_grid(from_table(np.eye(197)), (14, 15), 0),
    "must be less than 3 rows; got 3": lambda: on_grid(from_table(np.eye(3)), (), 3),
}


@pytest.mark.parametrize("named", CALLS)
def test_invalid_python_arguments_are_refused(named):
    with pytest.raises(PefourierError) as caught:
        CALLS[named]()
    assert named in str(caught.value)

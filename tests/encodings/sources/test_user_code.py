"""Vectors and rotations from user functions: common bugs are findings, the rest is refused."""

import json
import math
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from refusals import refusal

import pefourier
from pefourier.construction.operators import operator_at
from pefourier.encodings import load
from pefourier.encodings.sources import user_code
from pefourier.errors import PefourierError
from pefourier.nn import rotate_pairs

PACKAGE = str(Path(__file__).parents[3])
LENGTH, D = 100, 64
CODE = '''
import numpy as np
import torch

print("imported")

def table(length, d, offset=0):
    phase = np.outer(np.arange(length) + offset, 10000.0 ** (-np.arange(0, d, 2) / d))
    return torch.tensor(np.stack([np.sin(phase), np.cos(phase)], 2).reshape(length, d)).float()

def by_name(d_model, max_len=10):
    return table(max_len, d_model)[None]

def of_positions(dim, pos):
    return table(int(pos.max()) + 1, dim)

def from_five(dim, length, pos=5):
    return table(length, dim, pos - 5)

def made():
    return Right(64)

class Right(torch.nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=5000):
        super().__init__()
        self.dropout, self.d = torch.nn.Dropout(dropout), d_model
        self.register_buffer("pe", table(max_len, d_model)[None])
    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])

class CodesOnly(Right):
    def forward(self, x):
        return self.pe[:, : x.size(1)]

class FixedLength(Right):
    def __init__(self, d, length):
        super().__init__(d, max_len=length)
    def forward(self, x):
        return x + self.pe

class ByIds(Right):
    def forward(self, x, position_ids):
        return self.pe[0][position_ids]

class First(Right):
    def forward(self, x):
        return x + self.pe[0][: x.size(0), None]

class FirstSaid(First):
    def forward(self, x):
        # x: Tensor, shape [seq_len, batch_size, embedding_dim], as PyTorch's tutorial has it
        return super().forward(x)

class FirstByTable(First):
    def __init__(self, d_model):
        super().__init__(d_model)
        self.pe = self.pe.transpose(0, 1)  # (length, 1, d)
    def forward(self, x):
        return x + self.pe[: x.size(0)]

class SecondSaid(Right):
    """forward takes (length, batch, features), as nn.TransformerEncoder does by default."""

class Differ(Right):
    def forward(self, x):
        return x + self.pe[:, : x.size(1)] * (1 + torch.arange(len(x)))[:, None, None]

class DropoutOn(Right):
    def forward(self, x):
        return torch.nn.functional.dropout(x + self.pe[:, : x.size(1)], 0.5)

class Drawn(Right):
    def __init__(self, d, length):
        super().__init__(d)
        self.pe = torch.nn.Parameter(torch.randn(1, length, d))

instance, D = Right(64), 64
embedding = torch.nn.Embedding(512, 64)

# what fits no convention
class WrongAxes(torch.nn.Module):
    """x is (batch, length, heads, head)."""

    def forward(self, x):
        speed = 10000.0 ** (-torch.arange(0, 64, 2) / 64)
        angle = torch.outer(torch.arange(x.shape[1]).float(), speed)[None, :, None]
        a, b = x.chunk(2, -1)
        c, s = angle.cos(), angle.sin()
        return torch.cat([a * c - b * s, b * c + a * s], -1)


def twice(length, d):
    return table(2 * length - 1, d)

class Lies:
    @property
    def __array__(self):
        raise RuntimeError

def lies(length, d):
    return Lies()

def too_wide(length, d):
    return np.broadcast_to(np.zeros(1), (length, 2**40))

def transposed(length, d):
    return table(length, d).T

def fails(length, d):
    return 1 / 0

def by_base(length, d, base):
    return table(length, d)

class Tokens(Right):
    def forward(self, input_ids):
        return self.pe[0][torch.cumsum((input_ids != 1).long(), 1) - 1]

class WholeDropped(Right):
    def forward(self, x):
        return self.dropout(x + self.pe)


class Config(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
'''


@pytest.fixture(autouse=True)
def user(tmp_path, monkeypatch):
    module = f"user_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    return module


RIGHT = "by_name from_five made table Right CodesOnly FixedLength instance"


@pytest.mark.parametrize("name", RIGHT.split())
def test_what_fits_a_convention_has_the_sinusoidal_table(user, name):
    enc = load(f"py:{user}:{name}", LENGTH, D)
    assert_allclose(enc.table(), load("sinusoidal", LENGTH, D).table(), atol=2e-5)
    assert (enc.findings, enc.params["length"], enc.params["d"]) == ((), LENGTH, D)


FINDINGS = [  # name, findings, whether the vectors are sinusoidal
    ("First", [("batch-axis", "error")], True),
    ("FirstSaid", [("sequence-first", "note")], True),
    ("FirstByTable", [("sequence-first", "note")], True),
    ("SecondSaid", [("batch-axis", "error")], True),
    ("Differ", [("batch-axis", "error")], True),
    ("DropoutOn", [("changes-between-calls", "error")], False),
    ("Drawn", [("untrained", "note")], False),
]


@pytest.mark.parametrize("length", [2, 3, LENGTH])
@pytest.mark.parametrize(("name", "findings", "right"), FINDINGS)
def test_a_module_is_called_with_two_shapes(user, name, findings, right, length):
    enc = load(f"py:{user}:{name}", length, D)
    assert [(f.code, f.severity) for f in enc.findings] == findings
    known = load("sinusoidal", length, D).table()
    assert np.allclose(enc.table(), known, atol=2e-5) == right


WRAPPED = "transposed Tokens WholeDropped of_positions ByIds WrongAxes by_base Config twice"
REFUSED = [(name, True) for name in WRAPPED.split()]
REFUSED += [(name, False) for name in "fails missing table(1,2) D lies too_wide".split()]


@pytest.mark.parametrize(("name", "wrapped"), REFUSED)
def test_other_signatures_are_refused_with_a_wrapper(run, user, name, wrapped):
    done = run("check-faithful", f"py:{user}:{name}", "--d", D, "-S", LENGTH)
    assert (done.status, done.out) == (2, "")
    lines = [line for line in done.err.splitlines() if line != "imported"]
    assert lines[0].startswith("pefourier: ")
    assert bool(lines[1:]) == wrapped


@pytest.mark.parametrize(
    ("name", "values"),
    [("of_positions", ["d", "np.arange(length)"]), ("by_base", ["length", "d", 1])],
)
def test_a_printed_wrapper_runs_when_it_is_completed(user, tmp_path, name, values):
    with pytest.raises(PefourierError) as error:
        load(f"py:{user}:{name}", LENGTH, D)
    (wrapper,) = error.value.__notes__
    for value in values:
        wrapper = wrapper.replace("...", str(value), 1)
    (tmp_path / f"wrapped_{user}.py").write_text(f"import numpy as np\n{wrapper}")
    enc = load(f"py:wrapped_{user}:codes", LENGTH, D)
    assert_allclose(enc.table(), load("sinusoidal", LENGTH, D).table(), atol=3e-5)


def test_a_module_stays_as_it_was_and_random_numbers_go_on(user):
    load(f"py:{user}:table", 2, 4)
    module = torch.nn.Sequential(sys.modules[user].Right(24), torch.nn.Dropout(0.5))
    module[0].eval()
    state = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    assert load(module).table().shape == (80, 24)
    assert (module.training, module[0].training, module[1].training) == (True, False, True)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert random.getstate() == state[1]
    assert np.array_equal(np.random.get_state()[1], state[2])  # noqa: NPY002


def test_code_that_draws_is_the_same_for_a_seed():
    def draw(length, d):
        numbers = [random.random(), np.random.rand(), torch.rand(()).item()]  # noqa: NPY002
        return np.add.outer(numbers[:length], np.zeros(d))

    tables = [load(draw, 3, 2, seed=seed).table() for seed in (3, 3, 4, 0, None)]
    same = [np.array_equal(one, other) for one, other in pairwise(tables)]
    assert same == [True, False, False, True]
    assert not pefourier.check(lambda length, d: np.ones((length, d))).faithful


HOSTILE = """
import os, sys
import numpy as np

def sines(n, d):
    return np.sin(np.outer(np.arange(n), 2.0 ** -np.arange(d)))

def leaves(n, d):
    sys.exit(0)

def ends_late(n, d):
    import atexit
    atexit.register(lambda: os._exit(0))
    return np.zeros((n, d))

def forks(n, d):
    child = os.fork() or os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    return sines(n, d)

def raises(n, d):
    raise BaseException("no")

def writes(n, d):
    os.write(1, b"not JSON")
    return sines(n, d)

def closes(n, d):
    os.close(1)
    return sines(n, d)

def moves(n, d):
    os.chdir("elsewhere")
    return sines(n, d)

"""


def ask_of_hostile(folder, names, *more):
    """Run the command on functions of the hostile module."""
    (folder / "hostile.py").write_text(HOSTILE)
    (folder / "elsewhere").mkdir()
    specs = [f"py:hostile:{name}" for name in names]
    command = [sys.executable, "-m", "pefourier", "check-faithful", *specs, "-S", "9", "--d", "4"]
    own = {"cwd": folder, "env": os.environ | {"PYTHONPATH": PACKAGE}, "timeout": 60}
    return subprocess.run([*command, *more], capture_output=True, text=True, check=False, **own)


def test_hostile_code_ends_in_one_line(folder):
    names = ["leaves", "raises"]
    done = ask_of_hostile(folder, names)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert all(f"py:hostile:{name}" in line for name, line in zip(names, lines, strict=True))


def test_hostile_code_leaves_the_answer_alone(folder):
    names = ["writes", "closes", "moves", "forks"]
    done = ask_of_hostile(folder, names, "--json", "--plot", "t.png")
    assert done.returncode == 0
    assert [one["verdict"] for one in json.loads(done.stdout)["results"]] == ["injective"] * 4
    assert done.stderr == 2 * "not JSON"  # a function is called twice
    assert (folder / "t.png").stat().st_size > 9


def test_a_handler_of_the_end_does_not_choose_the_status(folder):
    done = ask_of_hostile(folder, ["ends_late"], "--strict", "--require", "injective")
    assert done.returncode == 1
    assert "COLLIDES" in done.stdout


# Functions that rotate queries and keys: their table, their operators, and their mistakes

AT = np.array([0, 3, 99])


def angles(n, d, base=1e4, start=0):
    return torch.outer(torch.arange(start, n + start), base ** (-torch.arange(0, d, 2) / d))


def halves(x, angle, sign=-1.0):
    a, b = x.chunk(2, -1)
    cos, sin = (torch.cat([w, w], -1) for w in (angle.cos(), angle.sin()))
    return x * cos + torch.cat([sign * b, a], -1) * sin


def neighbours(x, angle):
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def of(x, **given):
    return angles(*x.shape[-2:], **given)


def rotate_x(x):
    return halves(x, of(x))


def rotate_both(q, k):
    return halves(q, of(q)), halves(k, of(k))


def heads_last(q, k):
    return tuple(rotate_x(x.transpose(1, 2)).transpose(1, 2) for x in (q, k))


def at_places(x, positions):
    return halves(x, angles(int(positions.max()) + 1, x.shape[-1])[positions])


class OfX(torch.nn.Module):
    def forward(self, x):
        return rotate_x(x)


class OfPlaces(torch.nn.Module):
    def forward(self, x, position_ids):
        return at_places(x, position_ids)


PLAIN = ["turns-its-input"]


@pytest.mark.parametrize("code", [rotate_both, at_places, OfX, OfX(), OfPlaces()])
def test_a_rotation_is_called_by_its_parameter_names(code):
    enc, rope = load(code, LENGTH, D), load("rope:layout=halves", LENGTH, D)
    assert [f.code for f in enc.findings] == PLAIN
    assert np.allclose(enc.operator(AT), operator_at(rope, AT), atol=2e-5)
    assert pefourier.compare(enc, rope).operator.relation == "same"
    assert_allclose(enc.table(), rope.table(), atol=2e-5)


def lost_minus(q, k):
    return tuple(halves(x, of(x), sign=1.0) for x in (q, k))


def lost_minus_in_keys(q, k):
    return rotate_both(q, k)[0], lost_minus(q, k)[1]


def keys_apart(name):
    def rotate(q, k):
        keys = {
            "not turned": k,
            "by neighbours": neighbours(k, of(k)),
            "backward": halves(k, -of(k)),
            "by another base": halves(k, of(k, base=5e5)),
            "half of them": torch.cat([rotate_x(k[..., : D // 2]), k[..., D // 2 :]], -1),
            "shifted": halves(k, of(k, start=1)),
        }
        return halves(q, of(q)), keys[name]

    return rotate


def rounded(inside, after):
    def rotate(q, k):
        return tuple(rotate_x(x.to(inside)).to(after) for x in (q, k))

    return rotate


def of_arrays(x, positions):
    angle = np.tile(np.outer(positions, 1e4 ** (-np.arange(0, D, 2) / D)), 2)
    a, b = np.split(x, 2, -1)
    return x * np.cos(angle) + np.concatenate([-b, a], -1) * np.sin(angle)


def of_two_arrays(q, k):
    return tuple(of_arrays(x, np.arange(x.shape[-2])) for x in (q, k))


TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
TYPED = [rounded(inside, after) for inside in TYPES for after in TYPES]
TYPED += [of_arrays, of_two_arrays]


@pytest.mark.parametrize("code", TYPED)
def test_a_rotation_is_that_of_its_name_in_any_type_of_numbers(code):
    assert pefourier.compare("rope", code, length=LENGTH, d=D).verdict == "the same"


def unrotated(q, k):
    return q, k


@pytest.mark.parametrize("code", [unrotated, lambda x: x.flip(-1), lambda q, k: (2 * q, q + k)])
def test_code_that_rotates_nothing_is_different(code):
    assert pefourier.compare("rope", code, length=LENGTH, d=D).verdict == "different"
    assert pefourier.check(code, length=LENGTH, d=D).distinct == 1


def mixed_layouts(q, k):
    def rotated(x):
        angle = of(x).repeat_interleave(2, -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    return rotated(q), rotated(k)


KEYS = ("not turned", "by neighbours", "backward", "by another base", "half of them")
DIFFER = ["turns-its-input", "queries-keys-differ"]
WRONG = [(keys_apart(name), DIFFER, "error") for name in KEYS]
WRONG += [(keys_apart("shifted"), DIFFER, "warning")]
WRONG += [(lost_minus, [*PLAIN, "lost-minus"], "error")]
WRONG += [(lost_minus_in_keys, [*PLAIN, "lost-minus", DIFFER[1]], "error")]
WRONG += [(mixed_layouts, [*PLAIN, "not-a-rotation"], "error")]


@pytest.mark.parametrize(("code", "findings", "severity"), WRONG)
def test_queries_and_keys_rotated_differently_have_findings(code, findings, severity):
    """Queries and keys that are rotated differently have a finding."""
    enc = load(code, LENGTH, D)
    assert [f.code for f in enc.findings] == findings
    assert {f.severity for f in enc.findings[1:]} == {severity}


def growing(x):
    return rotate_x(x) * (1 + torch.arange(x.shape[-2]) / 10)[:, None]


def squared(q, k):
    return rotate_x(q) + 1e-3 * q**2, rotate_x(k)


def mixing(q, k):
    return rotate_x(q) + 1e-3 * q.mean(0), rotate_x(k)


def dropping(q, k):
    return torch.nn.functional.dropout(rotate_x(q), 0.1), rotate_x(k)


NO_ROTATIONS = [growing, squared, mixing, dropping, heads_last]


@pytest.mark.parametrize("code", NO_ROTATIONS)
def test_what_is_no_rotation_is_refused(code):
    with refusal():
        load(code, LENGTH, D)


class Attention(torch.nn.Module):
    """Attention with random weights, whose output for constant input is constant."""

    def __init__(self, *, with_positions):
        super().__init__()
        torch.manual_seed(0)
        self.attend = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        torch.nn.init.normal_(self.attend.in_proj_bias)
        self.register_buffer(
            "factors", torch.randn(40, 16) if with_positions else torch.ones(40, 16)
        )

    def forward(self, x):
        x = x * self.factors[: x.shape[1]]
        return self.attend(x, x, x)[0]


def test_modules_of_one_output_for_zeros_are_tried_with_random_input():
    assert pefourier.check(Attention(with_positions=False), length=12, d=16).distinct == 1
    with refusal("one vector for all positions of a constant input"):
        pefourier.check(Attention(with_positions=True), length=12, d=16)


def square_rotation(q, k):
    """Rotate the points of a square image that has as many points as tokens."""
    side = math.isqrt(q.shape[2])
    assert side**2 == q.shape[2], f"{q.shape[2]} tokens are no square"
    axial = load("axial-rope", d=8, grid=(side, side), layout="interleaved")
    cos, sin = (torch.tensor(axial.table()[:, i::2], dtype=q.dtype) for i in (0, 1))
    return tuple(rotate_pairs(x, cos, sin, "interleaved") for x in (q, k))


@pytest.mark.parametrize("spread", [2**23, 2**6])
@pytest.mark.parametrize("largest", [2**26, 2**12])
def test_a_rotation_on_a_grid_is_given_all_of_its_tokens(monkeypatch, spread, largest):
    """A rotation on a grid is called with all tokens of the grid."""
    monkeypatch.setattr(user_code, "SPREAD", spread)
    monkeypatch.setattr(user_code, "LARGEST", largest)
    enc = load(square_rotation, d=8, grid=(11, 11))
    assert enc.domain.grid == (11, 11)
    expected = load("axial-rope", d=8, grid=(11, 11), layout="interleaved").table()
    assert_allclose(enc.table(), expected, atol=1e-6)


class Sines:
    """Plain Python: built for a dimension, called for a length."""

    def __init__(self, d):
        self.dim = d

    def __call__(self, n):
        phases = np.outer(np.arange(n), 1e4 ** (-np.arange(0, self.dim, 2) / self.dim))
        return np.stack([np.sin(phases), np.cos(phases)], axis=-1).reshape(n, -1)


class Noise(Sines):
    def __call__(self, n):
        return self.table[:n]

    def __init__(self, d):
        self.table = np.random.normal(size=(90, d))  # noqa: NPY002


def test_objects_of_a_class_are_called(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(Sines=Sines, sines=Sines(6)))
    expected = load("sinusoidal", 9, 6).table()
    for source, d in ((Sines, 6), (Sines(6), None), ("py:mine:Sines", 6), ("py:mine:sines", None)):
        enc = load(source, 9, d)
        assert_allclose(enc.table(), expected, atol=1e-12)
        assert enc.params["d"] == 6
        assert not enc.findings
    assert [f.code for f in load(Noise, 9, 8).findings] == ["changes-between-calls"]
    assert load(Noise, 9, 8, seed=1).findings == ()


def test_a_failure_of_every_d_is_that_of_the_code():
    with refusal("ZeroDivisionError"):
        load(lambda length, d: np.zeros((length, d)) / (0 // 0), 9, 7)
    shapes = "of size 3 must match the existing size 4 at dimension 1. Target sizes: [9, 3]. "

    def cosines(length, d):  # noqa: ARG001
        raise RuntimeError(f"The expanded size {shapes}Tensor sizes: [9, 4]")

    with refusal(part=shapes):
        load(cosines, 9, 7)


LONG, WIDE = 60, 32
FAIRSEQ = "sinusoidal:layout=halves,divisor=d/2-1"
BEHIND = """import torch
from transformers.models.fsmt.modeling_fsmt import SinusoidalPositionalEmbedding
def codes(length, d):
    return SinusoidalPositionalEmbedding(length, d, 1)(torch.full((1, length), 2))
"""
KNOWN = [  # module, its wrapper if it needs one, the SPEC of its vectors
    ("transformers.models.whisper.modeling_whisper:sinusoids", None, FAIRSEQ),
    ("diffusers.models.embeddings:SinusoidalPositionalEmbedding", None, "sinusoidal"),
    ("positional_encodings.torch_encodings:PositionalEncoding1D", None, "sinusoidal"),
    ("esm.rotary_embedding:RotaryEmbedding", None, "rope:layout=halves"),
    # positions begin after the padding index, 1
    (
        "transformers.models.fsmt.modeling_fsmt:SinusoidalPositionalEmbedding",
        BEHIND,
        FAIRSEQ + ",offset=2",
    ),
]


def wrapped(folder, module, wrapper):
    """Return the SPEC of the completed wrapper of a module, which is refused without it."""
    with refusal():
        load(f"py:{module}", LONG, WIDE)
    (folder / f"wrapper_{folder.name}.py").write_text(wrapper)
    return f"py:wrapper_{folder.name}:codes"


@pytest.mark.parametrize(("module", "wrapper", "known"), KNOWN, ids=[row[0] for row in KNOWN])
def test_a_module_is_what_its_package_says(run, folder, module, wrapper, known):
    pytest.importorskip(module.partition(".")[0], reason="comes with pip install '.[dev]'")
    spec = f"py:{module}" if wrapper is None else wrapped(folder, module, wrapper)
    (result,) = run("check-faithful", spec, "-S", LONG, "--d", WIDE, "--json").results
    assert {f["severity"] for f in result["findings"]} <= {"note"}
    assert result["identified"]["encoding"] == known.partition(":")[0]
    assert_allclose(load(spec, LONG, WIDE).table(), load(known, LONG, WIDE).table(), atol=2e-5)

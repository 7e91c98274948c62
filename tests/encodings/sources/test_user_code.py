"""User code: one convention for each kind, the commonest bugs are errors, all else is refused."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import pefourier
from pefourier.encodings import load
from pefourier.errors import PefourierError

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
def transposed(length, d):
    return table(length, d).T

def fails(length, d):
    return 1 / 0

def by_base(length, d, base):
    return table(length, d)

class Tokens(Right):
    def forward(self, input_ids):
        return self.pe[0][torch.cumsum((input_ids != 1).long(), 1) - 1]

class Whole(Right):
    def forward(self):
        return self.pe

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
    np.testing.assert_allclose(enc.table(), load("sinusoidal", LENGTH, D).table(), atol=2e-5)
    assert (enc.findings, enc.params["length"], enc.params["d"]) == ((), LENGTH, D)


FINDINGS = [  # name, findings, whether codes are the sinusoidal ones
    ("First", [("batch-axis", "error")], True),
    ("FirstSaid", [("sequence-first", "note")], True),
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


WRAPPED = "transposed by_base Tokens Whole Config of_positions ByIds"
REFUSED = [(name, True) for name in WRAPPED.split()]
REFUSED += [(name, False) for name in "fails missing table(1,2) D".split()]


@pytest.mark.parametrize(("name", "wrapped"), REFUSED)
def test_what_fits_none_is_refused_in_a_line_and_a_wrapper_is_printed(run, user, name, wrapped):
    done = run("check-faithful", f"py:{user}:{name}", "--d", D, "-S", LENGTH)
    assert (done.status, done.out) == (2, "")
    lines = [line for line in done.err.splitlines() if line != "imported"]
    assert lines[0].startswith("pefourier: ")
    assert len(lines) == (4 if wrapped else 1)
    compile("\n".join(lines[1:]), "wrapper", "exec")


@pytest.mark.parametrize("name", ["of_positions", "ByIds", "Whole"])
def test_the_wrapper_of_what_asks_for_positions_runs(user, tmp_path, name):
    with pytest.raises(PefourierError) as error:
        load(f"py:{user}:{name}", LENGTH, D)
    (wrapper,) = error.value.__notes__
    wrapper = wrapper.replace("Whole(d_model=d)", "Whole(d_model=d, max_len=length)")
    (tmp_path / f"wrapped_{user}.py").write_text(wrapper)
    table = load(f"py:wrapped_{user}:codes", LENGTH, D).table()
    np.testing.assert_allclose(table, load("sinusoidal", LENGTH, D).table(), atol=2e-5)


SIZES = [(lambda m: m.instance, (80, 64)), (lambda m: m.embedding, (512, 64))]
SIZES += [(lambda m: m.Right, (80, 256)), (lambda m: m.Right(12, max_len=50), (50, 12))]
SIZES += [(lambda m: m.table, (80, 256)), (lambda m: torch.nn.Embedding(30, 8), (30, 8))]


@pytest.mark.parametrize(("pick", "shape"), SIZES)
def test_an_object_at_hand_has_its_own_sizes(user, pick, shape):
    load(f"py:{user}:table", 2, 4)
    enc = load(pick(sys.modules[user]))
    assert enc.table().shape == shape
    assert load(pick(sys.modules[user]), length=7).table().shape == (7, shape[1])
    assert load(f"py:{user}:embedding").table().shape == (512, 64)


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
        return np.add.outer(numbers, np.zeros(d))

    first, again, other, zero, default = (load(draw, 3, 2, seed=s) for s in (3, 3, 4, 0, None))
    assert np.array_equal(first.table(), again.table())
    assert (first.table() != other.table()).all()
    assert np.array_equal(zero.table(), default.table())
    assert [enc.params.get("seed") for enc in (first, default)] == [3, None]
    assert not pefourier.check(lambda length, d: np.ones((length, d))).faithful


HOSTILE = """
import os, sys
import numpy as np

def sines(n, d):
    return np.sin(np.outer(np.arange(n), 2.0 ** -np.arange(d)))

def leaves(n, d):
    sys.exit(0)

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
    """The command, run about the functions of those names."""
    (folder / "hostile.py").write_text(HOSTILE)
    (folder / "elsewhere").mkdir()
    specs = [f"py:hostile:{name}" for name in names]
    command = [sys.executable, "-m", "pefourier", "check-faithful", *specs, "-S", "9", "--d", "4"]
    own = {"cwd": folder, "env": os.environ | {"PYTHONPATH": PACKAGE}, "timeout": 60}
    return subprocess.run([*command, *more], capture_output=True, text=True, **own)


def test_hostile_code_ends_in_one_line(folder):
    names = ["leaves", "raises"]
    done = ask_of_hostile(folder, names)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert all(f"py:hostile:{name}" in line for name, line in zip(names, lines, strict=True))


def test_hostile_code_leaves_the_answer_alone(folder):
    done = ask_of_hostile(folder, ["writes", "closes", "moves"], "--json", "--plot", "t.png")
    assert done.returncode == 0
    assert [one["verdict"] for one in json.loads(done.stdout)["results"]] == ["injective"] * 3
    assert done.stderr == "not JSON"
    assert (folder / "t.png").stat().st_size > 9

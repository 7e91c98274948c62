"""Users' functions and modules: what is right passes, the commonest bugs are named."""

import json
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from pefourier.analysis.compare import compare
from pefourier.encodings import load
from pefourier.errors import PefourierError

PACKAGE = str(Path(__file__).parents[3])
CODE = """
import math
import numpy as np
import torch

print("imported")


def right(length, d):
    phase = np.outer(np.arange(length), 10000.0 ** (-np.arange(0, d, 2) / d))
    return np.stack([np.sin(phase), np.cos(phase)], axis=2).reshape(length, d)


def by_name(d_model, max_len=10):
    return torch.tensor(right(max_len, d_model))[None]


def transposed(length, d):
    return right(length, d).T


def fails(length, d):
    return 1 / 0


def words(length, d):
    return [["a"] * d] * length


class Right(torch.nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=5000):
        super().__init__()
        self.dropout = torch.nn.Dropout(dropout)
        self.register_buffer("pe", torch.tensor(right(max_len, d_model)).float()[None])

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class BatchAxis(Right):
    def __init__(self, d, length):
        super().__init__(d, max_len=length)
        self.pe = self.pe.transpose(0, 1)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class BatchAxisSaid(BatchAxis):
    def forward(self, x):
        # x: Tensor, shape [seq_len, batch_size, embedding_dim], as PyTorch's tutorial has it
        return x + self.pe[: x.size(0)]


class BatchAxisSwitch(BatchAxis):
    batch_first = False


class FirstAndWrong(BatchAxis):
    def __init__(self, d, length):
        super().__init__(d, length)
        phase = np.outer(np.arange(length), 10000.0 ** (-np.arange(d) / d))
        codes = np.where(np.arange(d) % 2 == 0, np.sin(phase), np.cos(phase))
        self.pe = torch.tensor(codes).float()[:, None]


class BatchAxisFlat(Right):
    def __init__(self, d, length):
        super().__init__(d, max_len=length)
        self.pe = self.pe[0]

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class DropoutOn(Right):
    def forward(self, x):
        return torch.nn.functional.dropout(x + self.pe[:, : x.size(1)], 0.5)


class ByPositions(Right):
    def forward(self, position_ids):
        return self.pe[0][position_ids]


class NoSizes(Right):
    def __init__(self):
        super().__init__(64)


class OneRow(Right):
    def __init__(self, d_model):
        super().__init__(d_model)

    def forward(self, x):
        return x + self.pe[:, x.size(1)]


class Rescaled(Right):
    def forward(self, x):
        self.pe *= 0.5
        return x + self.pe[:, : x.size(1)]


class CodesOnly(Right):
    def forward(self, x):
        return self.pe[:, : x.size(1)]


table = torch.nn.Embedding(512, 64)
instance = Right(64)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    module = f"user_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    return module


def check(run, module, name, *options):
    done = run("check-faithful", f"py:{module}:{name}", "--d", 64, "-S", 100, "--json", *options)
    assert done.status == 0, done.err
    return done.results[0]


@pytest.mark.parametrize(
    "name", ["right", "by_name", "Right", "CodesOnly", "instance", "NoSizes", "ByPositions"]
)
def test_right_code_has_no_finding_and_the_sinusoidal_distance(run, folder, name):
    result = check(run, folder, name)
    assert [f for f in result["findings"] if f["severity"] != "note"] == []
    assert result["min_distance"] == pytest.approx(1.471848, abs=1e-6)
    assert result["params"] == {"length": 100, "d": 64, "object": f"{folder}:{name}"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("BatchAxisFlat", "batch-axis"),
        ("OneRow", "constant-codes"),
        ("Rescaled", "changes-between-calls"),
    ],
)
def test_bugs_are_named(run, folder, name, code):
    result = check(run, folder, name)
    assert code in [f["code"] for f in result["findings"] if f["severity"] == "error"]


def test_a_sequence_first_module_is_run_both_ways(run, folder):
    """PyTorch's tutorial: pe (n, 1, d), x + pe[:x.size(0)], for input (length, batch, d)."""
    result = check(run, folder, "BatchAxis")
    (finding,) = result["findings"]
    assert (finding["code"], finding["severity"]) == ("sequence-first", "warning")
    assert finding["message"].startswith(
        "sequence-first: it gives codes to axis 0, for input (length, batch, d), and nothing in it "
        "says so; fed with (batch, length, d) it would give one code to all positions of a member"
    )
    assert " Feed it (length, batch, d): codes lie along axis 0" in result["conclusion"]
    assert run("check-faithful", f"py:{folder}:BatchAxis", "--d", 64, "--strict").status == 1
    for name in ("BatchAxisSaid", "BatchAxisSwitch"):  # once a note wherever it was
        (finding,) = check(run, folder, name)["findings"]
        assert (finding["code"], finding["severity"]) == ("sequence-first", "note")
    assert result["min_distance"] == pytest.approx(1.471848, abs=1e-6)
    assert result["identified"]["params"]["rho"] == 1e4


def test_a_mistake_behind_sequence_first_is_found(run, folder):
    codes = [f["code"] for f in check(run, folder, "FirstAndWrong")["findings"]]
    assert codes == ["mismatched-pairs", "sequence-first"]


WAYS = """
import numpy as np
import torch

def table(length, d, offset=0):
    phase = np.outer(np.arange(length) + offset, 10000.0 ** (-np.arange(0, d, 2) / d))
    return torch.tensor(np.stack([np.sin(phase), np.cos(phase)], axis=2).reshape(length, d)).float()

class Base(torch.nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.d, self.max_len = d_model, max_len
        self.pe = table(max_len, d_model)

class XAndCodes(Base):
    def forward(self, x):
        return x, self.pe[None, : x.size(1)].expand_as(x)

class SumAndCodes(Base):
    def forward(self, x):
        pe = self.pe[None, : x.size(1)].expand_as(x)
        return x + pe, pe

class ByIds(Base):
    def forward(self, x, position_ids):
        return self.pe[position_ids]

class ByLength(Base):
    def forward(self, seq_len, device=None):
        return self.pe[:seq_len]

class ByTime(Base):
    def forward(self, t):
        assert t.ndim == 1
        phase = t[:, None].float() * 10000.0 ** (-torch.arange(0, self.d, 2) / self.d)
        return torch.stack([phase.sin(), phase.cos()], -1).flatten(-2)

class ByTimesteps(ByTime):
    def forward(self, timesteps):
        return super().forward(timesteps)

class ByCoordinates(Base):
    def forward(self, coordinates):
        assert coordinates.shape[-1] == 1
        phase = coordinates * 10000.0 ** (-torch.arange(0, self.d, 2) / self.d)
        return torch.stack([phase.sin(), phase.cos()], -1).flatten(-2)

class ByLongest(Base):
    def forward(self, x):
        return x + self.pe[: x.size(1)] * (self.max_len / 5000)

class ByTokens(Base):
    def forward(self, input_ids):
        places = torch.cumsum((input_ids != 1).long(), 1) - 1
        return self.pe[places]

def of_positions(dim, pos):
    return table(int(pos.max()) + 1, dim)

def from_five(dim, length, pos=5):
    return table(length, dim, pos - 5)

class Nothing(Base):
    def forward(self):
        return self.pe

class Rotary(torch.nn.Module):
    def __init__(self, dim, max_position_embeddings=2048):
        super().__init__()
        self.inv_freq = 10000.0 ** (-torch.arange(0, dim, 2) / dim)

    def forward(self, x, position_ids):
        phase = position_ids[..., None].float() * self.inv_freq
        phase = torch.cat([phase, phase], -1)
        return phase.cos(), phase.sin()

def precompute_freqs_cis(dim, end):
    phase = torch.outer(torch.arange(end), 10000.0 ** (-torch.arange(0, dim, 2)[: dim // 2] / dim))
    return torch.polar(torch.ones_like(phase), phase)

def cosines_and_sines(length, d):
    found = table(length, d)
    return found[:, 1::2].numpy(), found[:, 0::2].numpy()

def rows(length, d):
    return table(length, d).tolist()
"""


@pytest.fixture
def ways(tmp_path, monkeypatch):
    module = f"ways_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(WAYS)
    monkeypatch.chdir(tmp_path)
    return module


@pytest.mark.parametrize(
    "name",
    [
        *("XAndCodes", "SumAndCodes", "ByIds", "ByLength", "ByTime", "ByTimesteps"),
        *("ByCoordinates", "ByLongest", "rows", "ByTokens", "of_positions", "from_five"),
    ],
)
def test_modules_are_run_as_their_forward_asks(ways, name):
    """ByLongest is right only with its own default of max_len, 5000, from_five with that of pos."""
    enc = load(f"py:{ways}:{name}", 100, 64)
    known = load("sinusoidal", 100, 64).table()
    np.testing.assert_allclose(enc.table(), known, atol=2e-5)
    assert enc.findings == ()


@pytest.mark.parametrize(
    ("name", "width"), [("Rotary", 128), ("precompute_freqs_cis", 64), ("cosines_and_sines", 64)]
)
def test_cosines_and_sines_given_apart_are_one_table(ways, name, width):
    enc = load(f"py:{ways}:{name}", 100, 64)
    assert enc.dim == width
    found = compare(load("rope", 100, 64), enc)
    assert found.verdict in ("equal", "equivalent")


def test_a_default_length_that_is_too_short_is_given(ways):
    assert len(load(f"py:{ways}:Rotary", 3000, 64)) == 3000
    assert len(load(f"py:{ways}:XAndCodes", 6000, 64)) == 6000


def test_a_forward_without_input_must_have_the_length(ways):
    with pytest.raises(PefourierError, match="expected"):
        load(f"py:{ways}:Nothing", 100, 64)
    assert len(load(f"py:{ways}:Nothing", 5000, 64)) == 5000


def test_code_that_begins_at_random_is_the_same_for_a_seed(folder, tmp_path, monkeypatch):
    (tmp_path / "drawn.py").write_text(
        "import random, numpy as np, torch\n"
        "def late(length, d):\n"
        "    return random.random() + np.random.rand() + words\n"
        "def table(length, d):\n"
        "    one = [[random.random() for _ in range(d)] for _ in range(length)]\n"
        "    return np.array(one) + np.random.rand(length, d) + torch.rand(length, d).numpy()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    drawn = [load("py:drawn:table", 6, 4, seed=seed) for seed in (3, 3, 4, 0, None)]
    first, again, other, zero, default = (enc.table() for enc in drawn)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(zero, default)
    assert (first != other).all()
    assert [enc.params.get("seed") for enc in drawn] == [3, 3, 4, 0, None]
    load("py:drawn:table", 6, 4, seed=2**40)
    with pytest.raises(PefourierError):
        load("py:drawn:late", 6, 4)
    assert random.getstate() == states[0]
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])


def test_an_embedding_is_its_weights(run, folder):
    assert check(run, folder, "table")["length"] == 100


def test_what_their_code_prints_is_no_answer(run, folder):
    done = run("check-faithful", f"py:{folder}:right")
    assert "imported" not in done.out
    assert done.err == "imported\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "raised ZeroDivisionError: 'division by zero' when called for length 80, d 256;"),
        ("transposed", "gave an array of shape (256, 80) for length 80 and d 256; expected (80, "),
        ("words", "expected an array of numbers (length, d); got list of '<U1'"),
        ("missing", "has no 'missing'; it has: math, np, torch, right, by_name,"),
    ],
)
def test_code_that_does_not_work_is_one_line(run, folder, name, message):
    done = run("check-faithful", f"py:{folder}:{name}")
    assert (done.status, done.out) == (2, "")
    assert message in done.err.splitlines()[-1]


def test_a_spec_without_an_object(run):
    done = run("spectrum", "py:numpy")
    assert done.err == (
        "pefourier: 'py:numpy' does not name an object; "
        "write py:module:function or py:module:Class\n"
    )


def test_float32_codes_have_a_coarser_rank_tolerance(run, folder):
    fine, coarse = check(run, folder, "right"), check(run, folder, "Right")
    assert coarse["rank_tolerance"] > 1e5 * fine["rank_tolerance"]
    assert coarse["rank"] < fine["rank"]
    assert np.isclose(coarse["stable_rank"], fine["stable_rank"])


def test_dropout_left_on_is_no_batch_axis(run, folder):
    findings = check(run, folder, "DropoutOn")["findings"]
    codes = [f["code"] for f in findings]
    assert "changes-between-calls" in codes
    assert "batch-axis" not in codes


HOSTILE = """
import ctypes, os, sys, warnings
import numpy as np

class Silent(Exception):
    def __str__(self):
        raise ValueError

def sines(n, d):
    return np.sin(np.outer(np.arange(n), 2.0 ** -np.arange(d)))

def exits(n, d):
    os._exit(0)

def raises(n, d):
    raise BaseException("no")

def silent(n, d):
    raise Silent

def loops(n, d):
    while True:
        try:
            while True:
                pass
        except Exception:
            return 3

def abrupt(n, d):
    raise GeneratorExit

def writes(n, d):
    os.write(1, b"not JSON")
    return sines(n, d)

def closes(n, d):
    os.close(1)
    return sines(n, d)

def shuts(n, d):
    sys.__stdout__.close()
    return sines(n, d)

def moves(n, d):
    os.chdir("elsewhere")
    return sines(n, d)

def forks(n, d):
    os.fork()
    return sines(n, d)

def warns(n, d):
    warnings.warn("an old way")
    return sines(n, d)
"""


@pytest.fixture
def hostile(tmp_path):
    """ask(names, *more) -> the command, run about the functions of those names."""
    (tmp_path / "hostile.py").write_text(HOSTILE)
    (tmp_path / "elsewhere").mkdir()

    def ask(names, *more):
        specs = [f"py:hostile:{name}" for name in names]
        return subprocess.run(
            [sys.executable, "-m", "pefourier", "check-faithful", *specs, *more],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": PACKAGE, "PEFOURIER_CODE_SECONDS": "0.5"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return ask


def test_hostile_code_ends_in_one_line(hostile):
    said = {
        "exits": "ends the process by os._exit(0)",
        "raises": "raised BaseException: 'no'",
        "silent": "raised Silent: that cannot be shown",
        "loops": "ran for more than 0.5 s, the limit of PEFOURIER_CODE_SECONDS",
        "abrupt": "raised GeneratorExit: ''",
    }
    done = hostile(said, "-S", "9", "--d", "4")
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert [words in line for words, line in zip(said.values(), lines, strict=True)] == [True] * 5


def test_hostile_code_leaves_the_answer_alone(hostile, tmp_path):
    names = ["writes", "closes", "shuts", "moves", "forks"]
    done = hostile(names, "-S", "9", "--d", "4", "--json", "--plot", "t.png")
    assert done.returncode == 0
    assert [one["verdict"] for one in json.loads(done.stdout)["results"]] == ["injective"] * 5
    assert done.stderr == "not JSON"
    assert (tmp_path / "t.png").stat().st_size > 9


def test_warnings_of_code_are_findings(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warning_code.py").write_text(HOSTILE)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = run("check-faithful", "py:warning_code:warns", "-S", 9, "--d", 4, "--json")
    found = {one["code"]: one["message"] for one in done.results[0]["findings"]}
    assert found["code-warns"] == "the code warns: UserWarning: 'an old way'"
    assert done.err == ""

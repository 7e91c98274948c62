"""Users' functions and modules: what is right passes, the commonest bugs are named."""

import random

import numpy as np
import pytest
import torch

from pefourier.encodings import load
from pefourier.errors import PefourierError

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
        ("BatchAxis", "batch-axis"),
        ("BatchAxisFlat", "batch-axis"),
        ("OneRow", "constant-codes"),
        ("Rescaled", "changes-between-calls"),
    ],
)
def test_bugs_are_named(run, folder, name, code):
    result = check(run, folder, name)
    assert code in [f["code"] for f in result["findings"] if f["severity"] == "error"]


def test_the_message_of_a_batch_axis_bug_says_what_to_do(run, folder):
    (finding,) = [
        f for f in check(run, folder, "BatchAxis")["findings"] if f["code"] == "batch-axis"
    ]
    assert finding["message"] == (
        "the codes differ between the members of a batch and are the same at every position: the "
        "module reads axis 0 as the sequence; give it (length, batch, d), or index its table as "
        "pe[:, :x.size(1)] for input (batch, length, d)"
    )


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

"""Modules that take neither (batch, length, d) nor positions by a known name; those that turn."""

import sys

import numpy as np
import pytest
import torch

from pefourier import compare
from pefourier.analysis.operators import operator_at
from pefourier.encodings import load
from pefourier.encodings.sources.rotations import find_pairs
from pefourier.encodings.sources.user_modules import check_swelling
from pefourier.errors import PefourierError

CODE = """
import torch

def table(length, d, offset=0):
    phase = torch.outer(torch.arange(length) + offset, 10000.0 ** (-torch.arange(0, d, 2) / d))
    return torch.stack([phase.sin(), phase.cos()], -1).flatten(-2)

def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

class Turning(torch.nn.Module):
    order = "bsd"
    def __init__(self, dim, share=1):
        super().__init__()
        self.width = int(dim * share)
    def forward(self, x):
        where = self.order.index("s")
        phase = torch.outer(torch.arange(x.shape[where]),
                            10000.0 ** (-torch.arange(0, self.width, 2) / self.width))
        shape = [1] * len(self.order)
        shape[where], shape[-1] = phase.shape
        cos, sin = phase.cos().view(shape), phase.sin().view(shape)
        turned = rotate(x[..., : self.width], cos, sin)
        return torch.cat([turned, x[..., self.width :]], -1)

class Heads(Turning):
    order = "bshd"
    def forward(self, x):
        assert x.ndim == 4
        return super().forward(x)

class HeadsFirst(Heads):
    order = "bhsd"

class SequenceHeads(Heads):
    order = "sbhd"

class QueriesAndKeys(Turning):
    def forward(self, q, k):
        return super().forward(q), super().forward(k)

class Factors(torch.nn.Module):
    def __init__(self, d, length):
        super().__init__()
        self.pe = table(length, d)
    def forward(self, x):
        return x * self.pe[: x.shape[1]]

class Zeros(torch.nn.Module):
    def __init__(self, d, length):
        super().__init__()
        self.pe = torch.nn.Parameter(torch.zeros(length, d))
    def forward(self, x):
        return 8 * x + self.pe[: x.shape[1]]

class ChannelsFirst(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.channels = channels
    def forward(self, x):
        return table(x.shape[2], self.channels).T[None, : x.shape[1]].expand_as(x)

class NumbersAlone(torch.nn.Module):
    def __init__(self, out_channels):
        super().__init__()
        self.d = out_channels
    def forward(self, x):
        phase = x.reshape(-1, 1) * 10000.0 ** (-torch.arange(0, self.d, 2) / self.d)
        return torch.stack([phase.sin(), phase.cos()], -1).flatten(-2)

class Masked(torch.nn.Embedding):
    def __init__(self, num_embeddings, embedding_dim):
        super().__init__(num_embeddings + 2, embedding_dim)
        self.weight.data = table(num_embeddings + 2, embedding_dim)
    def forward(self, attention_mask):
        return super().forward(torch.cumsum(attention_mask, 1).long() * attention_mask + 1)

class Drawn(torch.nn.Module):
    def __init__(self, d, length):
        super().__init__()
        self.pe = torch.nn.Parameter(torch.randn(length, d))
    def forward(self, x):
        return x + self.pe[: x.shape[1]]

class Padded(torch.nn.Module):
    def __init__(self, embed_dim, padding_idx):
        super().__init__()
        self.d, self.first = embed_dim, padding_idx + 1
    def forward(self, x):
        return x + table(x.shape[1], self.d, self.first)

class Base(torch.nn.Module):
    def __init__(self, dim, max_freq):
        super().__init__()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    module = f"own_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    return module


@pytest.mark.parametrize(
    "name", ["Turning", "Heads", "HeadsFirst", "SequenceHeads", "QueriesAndKeys"]
)
def test_what_turns_its_input_is_a_rotation(folder, name):
    """A table of zeros, said to be no encoding, before."""
    enc = load(f"py:{folder}:{name}", 100, 64)
    (finding,) = enc.findings
    assert (finding.code, finding.severity) == ("turns-its-input", "note")
    known = load("rope:layout=halves", 100, 64).table()
    np.testing.assert_allclose(enc.table(), known, atol=2e-5)


def test_half_of_a_head_is_turned(folder):
    enc = load(f"py:{folder}:Turning(share=.5)", 100, 64)
    np.testing.assert_allclose(enc.table()[:, :32], load("rope", 100, 32).table(), atol=2e-5)
    assert not enc.table()[:, 32:].any()


def test_what_multiplies_is_refused_and_an_empty_table_is_not(folder):
    with pytest.raises(PefourierError, match="gives zeros for zeros: it multiplies"):
        load(f"py:{folder}:Factors", 20, 8)
    assert not load(f"py:{folder}:Zeros", 20, 8).table().any()


@pytest.mark.parametrize(("length", "d"), [(100, 64), (64, 64), (50, 64), (7, 8)])
def test_channels_first_is_found_at_any_length(folder, length, d):
    """The table of 50 channels at 64 positions was shown for one of 50 positions."""
    enc = load(f"py:{folder}:ChannelsFirst", length, d)
    known = load("sinusoidal", length, d).table()
    np.testing.assert_allclose(enc.table(), known, atol=2e-5)


@pytest.mark.parametrize(("name", "offset"), [("NumbersAlone", 0), ("Masked", 2)])
def test_numbers_and_masks_are_given_as_such(folder, name, offset):
    enc = load(f"py:{folder}:{name}", 60, 32)
    known = load(f"sinusoidal:offset={offset}", 60, 32).table()
    np.testing.assert_allclose(enc.table(), known, atol=2e-5)


def test_codes_that_are_drawn_are_those_before_training(folder):
    enc = load(f"py:{folder}:Drawn", 20, 8)
    assert enc.untrained
    assert [f.code for f in enc.findings] == ["untrained"]


def test_a_padding_index_that_was_taken_is_said(folder):
    enc = load(f"py:{folder}:Padded", 20, 8)
    assert [f.code for f in enc.findings] == ["padding-assumed"]
    given = load(f"py:{folder}:Padded(padding_idx=4)", 20, 8)
    assert given.findings == ()
    np.testing.assert_allclose(enc.table()[3:], given.table()[:-3], atol=1e-6)


def test_no_size_is_given_for_what_is_none(folder):
    with pytest.raises(PefourierError, match=r"Base takes max_freq: .* 'py:module:Base\(max_freq"):
        load(f"py:{folder}:Base", 20, 8)


def test_only_rotations_have_pairs_that_turn():
    angle = np.arange(4)[:, None] * [1.0, 0.1]
    turned = np.zeros((4, 4, 4))
    turned[:, [0, 1], [0, 1]] = turned[:, [2, 3], [2, 3]] = np.cos(angle)
    turned[:, [0, 1], [2, 3]], turned[:, [2, 3], [0, 1]] = np.sin(angle), -np.sin(angle)
    assert find_pairs(turned).tolist() == [0, 1]
    assert find_pairs(1.1 * turned).tolist() == [0, 1]  # as with YaRN's factor
    assert find_pairs(turned * (1 + np.arange(4) / 10)[:, None, None]) is None
    assert find_pairs(np.broadcast_to(np.eye(4), (3, 4, 4))) is None


def test_a_module_of_positions_by_another_name_is_not_given_a_batch_of_rows(tmp_path, monkeypatch):
    """Each number of it would be taken for a position: gigabytes at usual lengths, before."""
    code = """
import torch

SEEN = []


class Turns(torch.nn.Module):
    def __init__(self, d):
        super().__init__()
        self.inv = 1e4 ** (-torch.arange(0, d, 2).double() / d)

    def forward(self, p):
        SEEN.append(p.numel())
        angle = p.double()[..., None] * self.inv
        return angle.cos(), -angle.sin()
"""
    name = f"swelling_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(code)
    enc = load(f"py:{name}:Turns", length=2048, d=32)
    rope = load("rope:layout=halves", length=2048, d=32).table()
    np.testing.assert_allclose(np.abs(enc.table()), np.abs(rope), atol=1e-9)
    assert max(sys.modules[name].SEEN) <= 2**14


def test_a_module_whose_answer_does_not_grow_with_the_rows_is_given_all():
    """It has positions beside them, or returns its whole table: no number of rows is too many."""

    class Beside(torch.nn.Module):
        def forward(self, x, position_ids):
            return torch.ones(len(position_ids), x.shape[-1])

    class Each(torch.nn.Module):
        def forward(self, x):
            return x[..., None] * torch.ones(x.shape[-1])

    x, ids = torch.zeros(2, 2048, 64), torch.arange(2048)
    check_swelling(torch, Beside(), {"x": x, "position_ids": ids})
    with pytest.raises(ValueError, match="of 2048 numbers given it makes 131072"):
        check_swelling(torch, Each(), {"x": x})


AS_MODELS_HAVE_IT = """
import torch

INV = 1e4 ** (-torch.arange(0, 64, 2).float() / 64)

def waves(places):
    phase = places[..., None].float() * INV
    return torch.cat([phase, phase], -1)

def apply(x, cos, sin, axis=1):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return x * cos.unsqueeze(axis) + torch.cat([-b, a], -1) * sin.unsqueeze(axis)

def turn(x):
    phase = waves(torch.arange(x.shape[-2]))
    return apply(x, phase.cos(), phase.sin(), 0)

def rows(x):
    phase = waves(torch.arange(x.shape[0]))
    return apply(x, phase.cos()[:, : x.shape[-1]], phase.sin()[:, : x.shape[-1]], 0)

def made():
    return Heads()

class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", INV.bfloat16())
    def forward(self, x, position_ids):
        phase = position_ids[..., None].float() * self.inv_freq.float()
        return phase.cos().to(x.dtype), phase.sin().to(x.dtype)

class Heads(torch.nn.Module):
    def forward(self, q, k):
        phase = waves(torch.arange(q.shape[-2])[None])
        return apply(q, phase.cos(), phase.sin()), apply(k, phase.cos(), phase.sin())

class Cosines(torch.nn.Module):
    def forward(self, x, seq_len=None):
        phase = waves(torch.arange(seq_len or 2048))
        return phase.cos().to(x.dtype), phase.sin().to(x.dtype)

class Called(torch.nn.Module):
    def forward(self, t):
        phase = waves(torch.arange(t.shape[-2]))
        return apply(t, phase.cos(), phase.sin(), 0)

class Stacked(torch.nn.Module):
    def forward(self, x):
        phase = waves(torch.arange(x.shape[1]))
        return torch.stack([phase.cos(), phase.sin()])

class OfHeads(torch.nn.Module):
    def forward(self, x):
        phase = waves(torch.arange(x.shape[2]))
        return phase.cos().to(x.dtype), phase.sin().to(x.dtype)
"""


@pytest.fixture
def known(tmp_path, monkeypatch):
    """given(name) -> the encoding of that name, of 100 positions of 64 dimensions."""
    module = f"models_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(AS_MODELS_HAVE_IT)
    return lambda name: load(f"py:{module}:{name}", 100, 64)


def test_half_precision_is_given_what_its_names_say(known):
    """It was given positions for x, to whose type it cast its cosines: 6 of 300 differed."""
    inv = (1e4 ** (-torch.arange(0, 64, 2).float() / 64)).bfloat16().float()
    phase = torch.outer(torch.arange(100.0), inv)
    wanted = torch.cat([phase.cos(), phase.sin()], -1).bfloat16().float().numpy()
    np.testing.assert_array_equal(known("Half").table(), wanted)


@pytest.mark.parametrize("name", ["Heads", "made", "turn", "Called"])
def test_queries_are_never_positions(known, name):
    """A column of positions was turned, and the answer taken for a table: compare saw 423."""
    enc = known(name)
    assert [f.code for f in enc.findings] == ["turns-its-input"]
    np.testing.assert_allclose(enc.table(), load("rope", 100, 64).table(), atol=2e-5)
    query, key = enc.operator(np.array([3, 99]))
    np.testing.assert_allclose(
        query, operator_at(load("rope", 100, 64), np.array([3, 99]))[0], atol=2e-5
    )
    np.testing.assert_array_equal(query, key)


@pytest.mark.parametrize("name", ["Cosines", "OfHeads", "Stacked"])
def test_cosines_are_not_cast_to_the_type_of_tokens(known, name):
    """Nor are 2048 rows given for 100 where forward may be told; nor are two waves a batch."""
    enc = known(name)
    said = [f.message for f in enc.findings if f.code == "called-with"]
    assert [
        one.startswith("it was called with x of zeros (2, 3, 100, 64), float32") for one in said
    ] == [True] * (name == "OfHeads")
    phase = np.outer(np.arange(100.0), 1e4 ** (-np.arange(0, 64, 2) / 64))
    wanted = np.cos(np.hstack([phase, phase])), np.sin(np.hstack([phase, phase]))
    np.testing.assert_allclose(enc.table(), np.hstack(wanted), atol=2e-5)


def test_what_fits_no_call_is_said_in_a_line(known):
    with pytest.raises(PefourierError, match=r"takes x: .* and of vectors") as error:
        known("rows")
    assert "\n" not in str(error.value)


def test_code_that_takes_cosines_is_said_to_have_no_base_of_its_own(tmp_path, monkeypatch):
    """Once the base of the cosines that it was given was told as its own."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "takes_waves.py").write_text(
        "import torch\ndef turn(q, cos, sin):\n    a, b = q.chunk(2, -1)\n"
        "    return q * cos + torch.cat([-b, a], -1) * sin"
    )
    found = compare("py:takes_waves:turn", "rope:rho=5e5,layout=halves", d=16)
    assert "was given those of base 10000: base and scaling are not its own" in found.conclusion

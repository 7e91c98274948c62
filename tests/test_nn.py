"""The drop-in module: adds the codes as they are, at any type, and round-trips its state."""

import re

import numpy as np
import pytest
import torch

from pefourier.encodings import build, load
from pefourier.encodings.registry import BUILDERS
from pefourier.errors import PefourierError
from pefourier.nn import PositionalEncoding

ADDITIVE = [n for n in sorted(BUILDERS) if build(n, length=12, d=8).act == "add"]


@pytest.mark.parametrize("name", [n for n in ADDITIVE if build(n, length=12, d=8).dim == 8])
def test_output_minus_input_is_the_table(name):
    module = PositionalEncoding(name, 8, 12, dtype=torch.float64)
    x = torch.randn(3, 10, 8, dtype=torch.float64)
    codes = build(name, length=12, d=8).table()[:10]
    np.testing.assert_allclose((module(x) - x)[1].detach().numpy(), codes, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_output_has_the_type_of_the_input(dtype):
    module = PositionalEncoding("dft", 8, 12)
    out = module(torch.zeros(2, 5, 8, dtype=dtype))
    assert out.dtype == dtype
    exact = torch.tensor(build("dft", length=5, d=8).table())
    assert torch.equal(out[0], exact.float().to(dtype))


def test_forward_leaves_the_buffer_alone():
    module = PositionalEncoding("dft", 8, 12)
    first = module(torch.zeros(2, 12, 8))
    for _ in range(3):
        module(torch.ones(2, 12, 8))
    assert torch.equal(module(torch.zeros(2, 12, 8)), first)
    assert list(module.parameters()) == []


def test_state_dict_round_trip():
    module = PositionalEncoding("learned", 8, 12, learn=True, seed=3)
    other = PositionalEncoding("learned", 8, 12, learn=True, seed=4)
    assert not torch.equal(module.codes, other.codes)
    other.load_state_dict(module.state_dict())
    assert torch.equal(module.codes, other.codes)


def test_learned_codes_get_gradients():
    module = PositionalEncoding("sinusoidal:layout=halves", 8, 12, learn=True)
    module(torch.zeros(2, 5, 8)).sum().backward()
    assert module.codes.grad[:5].eq(2).all()
    assert module.codes.grad[5:].eq(0).all()


def test_params_and_files_are_understood(tmp_path):
    module = PositionalEncoding("sinusoidal", 8, 12, rho=50.0)
    table = load("sinusoidal", 12, 8, rho=50.0).table()
    np.testing.assert_allclose(module.codes.numpy(), table, atol=1e-7)
    np.save(tmp_path / "t.npy", table)
    same = PositionalEncoding(str(tmp_path / "t.npy"), 8, 12)
    assert torch.equal(same.codes, module.codes)
    assert repr(module) == "PositionalEncoding(sinusoidal, d=8, max_length=12, fixed)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rope", 8, 12), "rope is not an additive encoding: attention takes it as 'rotate'"),
        (("sinusoid", 8, 12), "unknown encoding 'sinusoid'. Did you mean 'sinusoidal'?"),
        (("dft:rho=3", 8, 12), "unknown parameter of dft 'rho'. Known: d, length."),
    ],
)
def test_what_is_not_additive_is_refused(arguments, message):
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}"):
        PositionalEncoding(*arguments)


def test_a_sequence_that_is_too_long_is_refused():
    message = "a sequence of 13 is longer than max_length=12 of this module"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        PositionalEncoding("dft", 8, 12)(torch.zeros(1, 13, 8))


@pytest.mark.parametrize(
    ("x", "got"),
    [
        (torch.zeros(2, 5, 1), "float32 of shape (2, 5, 1)"),
        (torch.zeros(2, 5, 8, dtype=torch.int64), "int64 of shape (2, 5, 8)"),
        (torch.zeros(8), "float32 of shape (8,)"),
    ],
)
def test_input_that_does_not_fit_is_refused(x, got):
    message = f"expected floating-point input (…, length, 8); got {got}"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        PositionalEncoding("dft", 8, 12)(x)


def test_learned_codes_are_trained_unless_told_otherwise():
    assert isinstance(PositionalEncoding("learned", 8, 12).codes, torch.nn.Parameter)
    assert list(PositionalEncoding("learned", 8, 12, learn=False).parameters()) == []
    assert list(PositionalEncoding("dft", 8, 12).parameters()) == []

"""Modules and functions at hand: their sizes are found, and they are left as they were."""

import re

import numpy as np
import pytest
import torch

import pefourier
from pefourier.encodings.sources.objects import tabulate_object
from pefourier.encodings.sources.user_modules import inputs_of
from pefourier.errors import PefourierError


class Stored(torch.nn.Module):
    """A table of its own, batch first or with an axis between."""

    def __init__(self, shape=(1, 50, 24)):
        super().__init__()
        codes = torch.randn(shape, generator=torch.manual_seed(0))
        self.register_buffer("pe", codes)
        self.unused = torch.nn.Linear(3, 100)

    def forward(self, x):
        return x + self.pe.reshape(-1, self.pe.shape[-1])[: x.shape[1]]


class Computed(torch.nn.Module):
    """Codes are computed, for a size that an attribute keeps or for any."""

    def __init__(self, d_model=None):
        super().__init__()
        if d_model is not None:
            self.d_model = d_model

    def forward(self, x):
        own = getattr(self, "d_model", x.shape[-1])
        angle = torch.arange(x.shape[1])[:, None] / torch.arange(1, own + 1)
        return x + torch.sin(angle)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (Stored(), (50, 24)),
        (Stored((50, 24)), (50, 24)),
        (Stored((50, 1, 24)), (50, 24)),
        (Stored((1, 500, 24)), (80, 24)),
        (Computed(12), (80, 12)),
        (Computed(), (80, 256)),
        (Computed, (80, 256)),
        (torch.nn.Embedding(30, 8), (30, 8)),
        (torch.nn.Embedding(300, 8), (300, 8)),
    ],
)
def test_sizes_are_those_of_the_module(module, shape):
    enc = tabulate_object(module)
    assert (len(enc), enc.dim) == shape


def test_other_sizes_can_be_asked_for():
    assert tabulate_object(Stored(), length=7).table().shape == (7, 24)
    assert tabulate_object(Computed(), length=7, d=6).params == {
        "length": 7,
        "d": 6,
        "object": "Computed",
    }


def test_a_size_that_a_module_does_not_take_is_refused():
    with pytest.raises(
        PefourierError, match=r"^Stored raised RuntimeError: .* give length= and d="
    ):
        tabulate_object(Stored(), d=25)
    message = "; d of 24, 3, 256 were tried: give d="
    broken = Stored()
    broken.forward = lambda x: 1 / 0
    with pytest.raises(PefourierError, match=f"{re.escape(message)}$"):
        tabulate_object(broken)


def test_a_module_stays_in_training_and_random_numbers_go_on_as_before():
    module = torch.nn.Sequential(Stored(), torch.nn.Dropout(0.5))
    module[0].eval()
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    assert tabulate_object(module).table().shape == (50, 24)
    assert (module.training, module[0].training, module[1].training) == (True, False, True)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_module_runs_on_input_of_its_own_type(dtype):
    module = Stored().to(dtype)
    enc = tabulate_object(module)
    assert np.array_equal(enc.table(), module.pe[0].double().numpy())
    assert enc.eps == torch.finfo(dtype).eps


def test_the_one_liner_of_a_test_suite():
    assert pefourier.check(Stored()).faithful
    assert not pefourier.check(lambda length, d: np.ones((length, d))).faithful


def test_a_function_that_draws_is_seeded():
    def draw(length, d):
        return np.random.normal(size=(length, d))  # noqa: NPY002

    one, two, three = (tabulate_object(draw, 4, 3, seed).table() for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_input_has_the_type_and_the_place_of_a_modules_numbers(dtype):
    module = Stored().to("meta").to(dtype)
    for way in inputs_of(torch, module, (2, 5, 24)):
        assert {(x.device.type, x.dtype) for x in way.values()} == {("meta", dtype)}

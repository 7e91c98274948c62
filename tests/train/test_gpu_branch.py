"""The GPU's training step on the device `meta`, whose tensors have no numbers to read.

A CUDA graph replays captured operations. A step cannot be replayed if it reads a number on the
host, uses a tensor of the host, or has shapes that depend on data.
"""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from refusals import refusal
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from training import SIZES, epochs, injection

from pefourier.train import program
from pefourier.train import program as fit
from pefourier.train.data.load import load_task
from pefourier.train.model import OrderFree, load_injection
from pefourier.train.program import Resident

META = torch.device("meta")
ORDER = "order:count=40,length=8"
MIXED = ("dft", "learned", "sinusoidal", "rope", "xpos", "t5", "alibi", "shaw:values=true")


def data_on(device):
    return Resident(load_task(ORDER), torch.device(device))


class OnDevice(TorchDispatchMode):
    """Count operations and refuse tensors of the host."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        found = operation(*args, **(kwargs or {}))
        for one in tree_leaves((args, kwargs, found)):
            if isinstance(one, torch.Tensor) and one.device != META:
                raise RuntimeError(f"{operation} has a tensor of the host")
        self.seen.append(str(operation))
        return found


@contextmanager
def nothing_of_the_host(monkeypatch):
    """Refuse operations on tensors of the host and calls that make tensors from host numbers."""

    def refuse(*_, **__):
        raise RuntimeError("a tensor is made of numbers of the host")

    with monkeypatch.context() as patched, OnDevice() as mode:
        for name in ("tensor", "as_tensor", "from_numpy"):
            patched.setattr(torch, name, refuse)
        yield mode


@pytest.fixture
def stack(monkeypatch):
    """Return a function that builds a stack of all injections on the device.

    The members learn, drop out and have different rates.
    """

    def step_precision(_, model):
        return None if isinstance(model, OrderFree) else torch.bfloat16

    monkeypatch.setattr(program, "step_precision", step_precision)
    of = import_module("torch.optim.adam")  # torch.optim has no attribute of this name
    supported = "_get_fused_kernels_supported_devices"
    monkeypatch.setattr(of, supported, lambda: ["meta"], raising=False)

    def build(sizes=SIZES, names=MIXED, *, padded=False, times=None):
        task = load_task(ORDER)
        if padded:
            task = replace(task, lengths=torch.arange(len(task.starts)).numpy() % 8 + 1)
        held, of = Resident(task, META), SIZES if isinstance(sizes, OrderFree) else sizes
        shape, members = (of.tokens, of.d, of.heads), []
        for i, name in enumerate(names):
            one = load_injection(name, *shape, 0, times=times)
            one = replace(one, learn=one.learn or (bool(i % 2) and times is None))
            members.append(fit.Replica(name, one, 0, 0))
        return fit.Program(held, sizes, members, epochs(5, dropout=0.1))

    return build


@pytest.mark.parametrize(
    "kind",
    [
        *({}, {"names": ("learned",)}, {"padded": True}),
        {"sizes": replace(SIZES, layers=2)},
        {"names": ("none",), "sizes": OrderFree(8, 2, 2, 4)},
        {"names": ("sinusoidal", "rope", "alibi"), "times": np.arange(320.0).reshape(40, 8) ** 0.9},
    ],
)
def test_a_step_stays_on_the_device(stack, monkeypatch, kind):
    running = stack(**kind)
    with nothing_of_the_host(monkeypatch) as mode:
        running.step()
    assert any("fused_adam" in one for one in mode.seen)
    assert any("native_dropout" in one for one in mode.seen)
    assert len(mode.seen) > 100 * min(len(running.injected), 1)
    assert {p.grad.device for p in running.parameters.values()} == {META}
    with nothing_of_the_host(monkeypatch) as mode:
        running.look()
    assert not any("backward" in one or "dropout" in one for one in mode.seen)


def test_capture_leaves_no_trace_of_the_steps_that_warm_up(monkeypatch):
    """The captured step is the next step of an untouched program; only CUDA calls are replaced."""
    held = data_on("cpu")
    members = [
        fit.Replica(name, injection(name, 0, learn=True), 0, 0) for name in ("dft", "t5", "rope")
    ]
    running, fresh = (fit.Program(held, SIZES, members, epochs(1)) for _ in range(2))
    running.done = fresh.done = 5
    captured = []

    @contextmanager
    def graph(_, **__):
        captured.append({k: p.detach().clone() for k, p in running.parameters.items()})
        states = [v for s in running.optimizer.state.values() for v in s]
        assert not any(value.any() for value in states)
        assert not running.total.any()
        yield

    stream = SimpleNamespace(wait_stream=lambda _: None)
    fakes = {"Stream": lambda: stream, "current_stream": lambda: stream, "graph": graph}
    fakes |= {"stream": lambda _: nullcontext(), "CUDAGraph": lambda: SimpleNamespace(replay=7)}
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    running.capture()
    assert (running.replay_look, running.replay) == (7, 7)
    running.replay = running.replay_look = None
    for key, p in fresh.parameters.items():
        assert all(torch.equal(p, parameters[key]) for parameters in captured)
    expected, running.replay_look = running.evaluate("test"), running.look
    for one, other in zip(running.evaluate("test"), expected, strict=True):
        assert_allclose(one, other, atol=1e-6)


def test_memory_that_ends_is_one_line(monkeypatch):
    held = data_on("cpu")
    texts = "DefaultCPUAllocator: can't allocate", "CUBLAS_STATUS_ALLOC_FAILED when calling"
    for error in (torch.OutOfMemoryError("CUDA"), *map(RuntimeError, texts)):
        monkeypatch.setattr(fit.Training, "run", Mock(side_effect=error))
        with refusal("--batch-size"):
            fit.fit(held, SIZES, [fit.Replica("dft", injection("dft"), 0, 0)], epochs(1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", ["dft", "learned", "rope", "alibi", "t5", "shaw:values=true"])
def test_a_gpu_trains_as_a_cpu_does(name):
    members = [fit.Replica(name, injection(name, seed), seed, 0) for seed in (0, 1)]
    expected, got = (
        fit.Program(data_on(device), SIZES, members, epochs(1)) for device in ("cpu", "cuda")
    )
    for _ in range(3):
        losses = expected.train(6), got.train(6).cpu()
        torch.testing.assert_close(*losses, rtol=0.02, atol=0.02)
    for exact, other in zip(expected.evaluate("test"), got.evaluate("test"), strict=True):
        assert_allclose(other, exact, atol=0.2)

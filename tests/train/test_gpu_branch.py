"""The step as a GPU runs it, on device `meta`: tensors without numbers, so that none can be read.

A CUDA graph holds what was captured: a step that reads a number on the host, takes a tensor from
there, or has shapes that depend on data, can't be replayed.
"""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from training import SIZES, injection

from pefourier.train import fit
from pefourier.train.data.load import load_task
from pefourier.train.model import OrderFree
from pefourier.train.request import Tuning
from pefourier.train.resident import put_on_device

META = torch.device("meta")
MIXED = ("dft", "learned", "sinusoidal", "rope", "xpos", "t5", "alibi", "shaw")


class OnDevice(TorchDispatchMode):
    """Counts operations and refuses tensors of the host."""

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
    """No operation has, and no call makes, a tensor of numbers that the host has."""

    def refuse(*args, **kwargs):
        raise RuntimeError("a tensor is made of numbers of the host")

    with monkeypatch.context() as patched, OnDevice() as mode:
        for name in ("tensor", "as_tensor", "from_numpy"):
            patched.setattr(torch, name, refuse)
        yield mode


@pytest.fixture
def stack(monkeypatch):
    """A stack of all acts that learn, drop and go at different rates, on the device."""
    monkeypatch.setattr(fit, "capture_cuda_graph", lambda program: program.eager_step)
    monkeypatch.setattr(fit.torch, "autocast", lambda *args, **kwargs: nullcontext())
    for module in ("adam", "optimizer"):
        monkeypatch.setattr(
            import_module(f"torch.optim.{module}"),
            "_get_fused_kernels_supported_devices",
            lambda: ["meta"],
            raising=False,
        )

    def build(task=None, sizes=SIZES, names=MIXED, padded=False):
        task = task or load_task("order:count=40,length=8")
        if padded:
            task = replace(task, lengths=torch.arange(len(task.starts)).numpy() % 8 + 1)
        held, of = put_on_device(task, META), SIZES if isinstance(sizes, OrderFree) else sizes
        members = [
            fit.Member(name, injection(name, 0, learn, of), 0, 0, Tuning(rate, drop, decay))
            for name, learn, rate, drop, decay in zip(
                names, [False, True] * 4, [1e-3, 3e-3] * 4, [0.1, 0.2] * 4, [0.0, 0.1] * 4,
                strict=False,
            )
        ]  # fmt: skip
        return fit.Program(held, sizes, members, fit.Schedule(25, 4, 1e-3, warmup=50))

    return build


KINDS = {
    "mixed": {},
    "one": {"names": ("learned",)},
    "padded": {"padded": True},
    "pooled": {"sizes": replace(SIZES, pool="mean+max", layers=2)},
    "side by side": {"sizes": replace(SIZES, inject="concat")},
    "order-free": {"names": ("none",), "sizes": OrderFree(8, 2, 2, 4)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_stays_on_the_device(stack, monkeypatch, kind):
    running = stack(**KINDS[kind])
    with nothing_of_the_host(monkeypatch) as mode:
        running.step()
    assert any("fused_adam" in one for one in mode.seen)
    assert len(mode.seen) > 100 * min(len(running.injected), 1)
    assert {p.grad.device for p in running.parameters.values()} == {META}


FAULTS = {
    "a number is read": lambda loss, running: loss * loss.detach().mean().item(),
    "a branch reads one": lambda loss, running: loss * 2 if (loss > 0).any() else loss,
    "a tensor of the host": lambda loss, running: loss * torch.ones(loss.shape, device="cpu"),
    "a shape depends on data": lambda loss, running: loss[:, (loss > 0)[0]],
    "a list becomes a tensor": lambda loss, running: loss * torch.tensor([2.0], device=loss.device),
    "a copy goes to the host": lambda loss, running: loss + loss.detach().cpu().to(loss.device),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_graph_cannot_hold_is_caught(stack, monkeypatch, fault):
    running, whole = stack(names=("dft", "rope")), fit.Program.loss
    monkeypatch.setattr(
        fit.Program, "loss", lambda self, index: FAULTS[fault](whole(self, index), self)
    )
    with pytest.raises((RuntimeError, NotImplementedError)), nothing_of_the_host(monkeypatch):
        running.step()


@pytest.mark.parametrize("kind", KINDS)
def test_logits_of_evaluation_stay_on_the_device(stack, monkeypatch, kind):
    running = stack(**KINDS[kind])
    with nothing_of_the_host(monkeypatch), torch.no_grad():
        assert running.logits(running.index).device == META

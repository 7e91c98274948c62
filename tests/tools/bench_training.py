"""How fast is the fused program? Against the loop a user writes today, in one run.

The loop: one ``torch.nn.TransformerEncoder`` after another over a ``DataLoader``, eager float32,
and on a GPU also compiled with bfloat16. Same windows, sizes, batch, number of steps and optimiser;
steps before the first measured one do not count. The fused program is measured twice: on members
that all add codes, as the loop does, and on members of all acts, in the stacks that training makes
of them. It prints examples a second, summed over members.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from pefourier.train import fit
from pefourier.train.data.load import load_task
from pefourier.train.data.split import Task
from pefourier.train.device_data import put_on_device
from pefourier.train.ensembles import COSTS
from pefourier.train.injection import load_injection
from pefourier.train.model import Transformer

MIXED = ("dft", "rope", "t5", "shaw")  # one of each act


@dataclass(frozen=True)
class Setting:
    """What both programs train."""

    task: Task
    sizes: Transformer
    members: int
    batch: int
    steps: int
    device: torch.device


class Classifier(torch.nn.Module):
    """The same classifier from torch's own modules."""

    def __init__(self, sizes: Transformer, codes: np.ndarray) -> None:
        super().__init__()
        self.project = torch.nn.Linear(sizes.channels, sizes.d)
        self.register_buffer("codes", torch.tensor(codes, dtype=torch.float32))
        layer = torch.nn.TransformerEncoderLayer(
            sizes.d, sizes.heads, 2 * sizes.d, dropout=0.0, batch_first=True
        )
        self.encoder = torch.nn.TransformerEncoder(layer, sizes.layers)
        self.head = torch.nn.Linear(sizes.d, sizes.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.project(x) + self.codes).mean(dim=1))


def codes_of(s: Setting) -> np.ndarray:
    """The table that every member adds."""
    return load_injection("dft", s.sizes.tokens, s.sizes.d, s.sizes.heads, 0).table()


def user_loop(s: Setting, *, compiled: bool = False) -> float:
    """Seconds for all members, one after another; windows are copied out, in batches."""
    fold = s.task.folds[0]
    at = s.task.starts[fold.train][:, None] + np.arange(s.task.length)
    x = torch.tensor((s.task.rows[at] - fold.mean) / fold.scale)
    windows = TensorDataset(x, torch.tensor(s.task.labels[fold.train]))
    batches = DataLoader(windows, s.batch, shuffle=True, drop_last=True)
    return sum(seconds_of_member(s, batches, compiled=compiled) for _ in range(s.members))


def seconds_of_member(s: Setting, batches: DataLoader, *, compiled: bool) -> float:
    """Seconds of one classifier, after three steps that do not count."""
    model = Classifier(s.sizes, codes_of(s)).to(s.device)
    step = torch.compile(model, mode="reduce-overhead") if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(steps: int) -> None:
        epochs = chain.from_iterable(repeat(batches))
        for x, y in islice(epochs, steps):
            optimizer.zero_grad()
            with torch.autocast(s.device.type, torch.bfloat16, enabled=compiled):
                loss = torch.nn.functional.cross_entropy(step(x.to(s.device)), y.to(s.device))
            loss.backward()
            optimizer.step()

    train(3)
    return seconds_of(s, lambda: train(s.steps))


def program_loop(s: Setting, specs: Sequence[str]) -> float:
    """Seconds of the fused program for all members, as many of each encoding, stacked by cost."""
    sizes = s.sizes.tokens, s.sizes.d, s.sizes.heads
    codes = {spec: load_injection(spec, *sizes, 0) for spec in specs}
    ensembles: dict[str, list[fit.Replica]] = {}
    for seed in range(s.members):
        spec = specs[seed * len(specs) // s.members]
        kind = COSTS.get(codes[spec].act, "codes")
        ensembles.setdefault(kind, []).append(fit.Replica(spec, codes[spec], seed, 0))
    return sum(seconds_of_stack(s, members) for members in ensembles.values())


def seconds_of_stack(s: Setting, members: Sequence[fit.Replica]) -> float:
    """Seconds of members that are trained together, after three steps that do not count."""
    schedule = fit.Schedule(steps=s.steps, batch_size=s.batch, rate=1e-3)
    program = fit.Program(put_on_device(s.task, s.device), s.sizes, members, schedule)
    program.train(3)
    return seconds_of(s, lambda: program.train(s.steps))


def seconds_of(s: Setting, work: Callable[[], object]) -> float:
    """Seconds that some work takes, the device's own included."""
    if s.device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if s.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def report(s: Setting) -> str:
    """One line for each program: examples a second, and how many times the user's loop."""
    seconds = {"user's loop, eager float32": user_loop(s)}
    if s.device.type == "cuda":
        seconds["user's loop, compiled bfloat16"] = user_loop(s, compiled=True)
    seconds["fused program"] = program_loop(s, ["dft"])
    seconds["fused program, all acts"] = program_loop(s, MIXED)
    examples, base = s.members * s.batch * s.steps, next(iter(seconds.values()))
    lines = [
        f"{name:32} {examples / took:12,.0f} examples/s  {base / took:6.2f} ×"
        for name, took in seconds.items()
    ]
    sizes = f"{s.members} members, batch {s.batch}, {s.steps} steps, {s.sizes.tokens} tokens"
    return "\n".join([f"{sizes}, d {s.sizes.d}, {s.device}, torch {torch.__version__}", *lines])


def measure_here() -> None:
    """Measure on the device there is."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    usual = {"members": 16, "steps": 36, "batch-size": 32, "length": 16, "d": 32}
    usual |= {"members": 32, "steps": 360} if device.type == "cuda" else {}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, number in usual.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    asked = parser.parse_args()
    task = load_task(f"order:length={asked.length}")
    sizes = Transformer(task.length, channels=2, classes=2, d=asked.d)
    print(report(Setting(task, sizes, asked.members, asked.batch_size, asked.steps, device)))


if __name__ == "__main__":
    measure_here()

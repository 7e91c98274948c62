"""How fast is the fused program? Against the loop a user writes today, in one run.

The loop: one ``torch.nn.TransformerEncoder`` after another over a ``DataLoader``, eager float32,
and on a GPU also compiled with bfloat16. Same windows, sizes, batch, number of steps and optimiser;
steps before the first measured one do not count. The fused program is measured twice: on members
that all add codes, as the loop does, and on a stack of all acts. It prints examples a second,
summed over members.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from pefourier.train import fit
from pefourier.train.data.load import load_task
from pefourier.train.data.split import Task
from pefourier.train.injection import load_injection
from pefourier.train.model import Transformer
from pefourier.train.resident import put_on_device

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


def loader(s: Setting) -> DataLoader:
    """Training windows as a user keeps them: copied out, in batches."""
    fold = s.task.folds[0]
    at = s.task.starts[fold.train][:, None] + np.arange(s.task.length)
    x = (s.task.rows[at] - fold.mean) / fold.scale
    windows = TensorDataset(torch.tensor(x), torch.tensor(s.task.labels[fold.train]))
    return DataLoader(windows, s.batch, shuffle=True, drop_last=True)


def user_loop(s: Setting, compiled: bool = False) -> float:
    """Seconds for all members, one after another."""
    batches = loader(s)
    total = 0.0
    for _ in range(s.members):
        model = Classifier(s.sizes, codes_of(s)).to(s.device)
        step = torch.compile(model, mode="reduce-overhead") if compiled else model
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def one(x: torch.Tensor, y: torch.Tensor, step=step, optimizer=optimizer) -> None:
            optimizer.zero_grad()
            with torch.autocast(s.device.type, torch.bfloat16, enabled=compiled):
                loss = torch.nn.functional.cross_entropy(step(x), y)
            loss.backward()
            optimizer.step()

        take_steps(s, batches, one, 3)
        total += seconds_of(s, lambda one=one: take_steps(s, batches, one, s.steps))
    return total


def take_steps(s: Setting, batches: DataLoader, one: Callable[..., None], steps: int) -> None:
    """Take some steps over the loader, epoch after epoch."""
    done = 0
    while done < steps:
        for x, y in batches:
            one(x.to(s.device), y.to(s.device))
            done += 1
            if done == steps:
                return


def program_loop(s: Setting, specs: Sequence[str]) -> float:
    """Seconds of the fused program for all members, as many of each encoding."""
    sizes = s.sizes.tokens, s.sizes.d, s.sizes.heads
    codes = {spec: load_injection(spec, *sizes, 0) for spec in specs}
    chosen = [specs[i * len(specs) // s.members] for i in range(s.members)]
    members = [fit.Member(spec, codes[spec], seed, 0) for seed, spec in enumerate(chosen)]
    held = put_on_device(s.task, s.device)
    program = fit.Program(held, s.sizes, members, fit.Schedule(s.steps, s.batch, 1e-3))
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
    examples = s.members * s.batch * s.steps
    seconds = {"user's loop, eager float32": user_loop(s)}
    if s.device.type == "cuda":
        seconds["user's loop, compiled bfloat16"] = user_loop(s, compiled=True)
    seconds["fused program"] = program_loop(s, ["dft"])
    seconds["fused program, mixed stack"] = program_loop(s, MIXED)
    base = next(iter(seconds.values()))
    lines = [
        f"{s.members} members, batch {s.batch}, {s.steps} steps, {s.sizes.tokens} tokens, "
        f"d {s.sizes.d}, {s.device}, torch {torch.__version__}"
    ]
    lines += [
        f"{name:32} {examples / took:12,.0f} examples/s  {base / took:6.2f} ×"
        for name, took in seconds.items()
    ]
    return "\n".join(lines)


def measure_here() -> None:
    """Measure on the device there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, help="default 16, on a GPU 32")
    parser.add_argument("--steps", type=int, help="default 36, on a GPU 360")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--d", type=int, default=32)
    chosen = parser.parse_args()
    task = load_task(f"order:length={chosen.length}")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    members, steps = (32, 360) if device.type == "cuda" else (16, 36)
    members, steps = chosen.members or members, chosen.steps or steps
    sizes = Transformer(task.length, channels=2, classes=2, d=chosen.d)
    print(report(Setting(task, sizes, members, chosen.batch_size, steps, device)))


if __name__ == "__main__":
    measure_here()

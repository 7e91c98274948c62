"""Time of the fused training program compared with usual ways to train many classifiers.

All programs train on the same windows, stored on the device, with the same sizes, batches and
optimizer. The peers are a loop over members of torch's modules (eager in float32 and, on a GPU,
compiled in bfloat16 and captured as a CUDA graph) and `torch.func.vmap` over stacked modules (eager
and compiled). For a loop, one member is timed after its warm-up and multiplied by the number of
members, because compiling each member would be unfair to the peer. The fused program trains members
that all add vectors, as the peers do, and members with all injections, in the stacks that training
makes.

python tests/tools/bench_training.py --tokens 100 --d 64 --layers 2 --batch-size 64 --keep

It prints milliseconds for a step of all members; --keep writes them to figures/bench.json.
"""

import argparse
import json
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path

import torch
import torch.nn.functional as F

from pefourier.train.data.load import load_task
from pefourier.train.data.split import Task
from pefourier.train.ensembles import COSTS
from pefourier.train.model import Transformer, load_injection
from pefourier.train.program import Compiler, Program, Replica, Resident
from pefourier.train.request import Schedule

KEPT = Path(__file__).parents[2] / "figures" / "bench.json"
MIXED = ("dft", "rope", "t5", "shaw")  # one encoding of each injection
SETTING = ("device", "tokens", "d", "layers", "batch", "members")
WARM_UP = 5  # steps that are not timed
HALF = torch.bfloat16


@dataclass(frozen=True)
class Setting:
    """Task and sizes that all programs train."""

    task: Task
    sizes: Transformer
    members: int
    batch: int
    steps: int
    device: torch.device

    def windows(self):
        """Return scaled windows (n, T, C) and their classes, on the device."""
        fold = self.task.folds[0]
        x = (self.task.windows_at(fold.train) - fold.mean) / fold.scale
        y = torch.as_tensor(self.task.labels[fold.train])
        return torch.as_tensor(x, dtype=torch.float32).to(self.device), y.to(self.device)

    def vectors(self):
        """Return the table that every member adds."""
        table = load_injection("dft", self.sizes.tokens, self.sizes.d, self.sizes.heads, 0).table()
        return torch.tensor(table, dtype=torch.float32, device=self.device)

    @property
    def operations(self):
        """Return the floating-point operations of the matrix products of a step of all members."""
        s = self.sizes
        layer = 2 * s.d * (4 * s.d + 2 * s.wide) + 4 * s.tokens * s.d
        token = 2 * s.channels * s.patch * s.d + s.layers * layer
        return 3.0 * self.members * self.batch * s.tokens * token


class Layer(torch.nn.Module):
    """A layer of ``torch.nn.TransformerEncoder``, with attention that `vmap` supports."""

    def __init__(self, sizes):
        super().__init__()
        self.heads = sizes.heads
        self.qkv = torch.nn.Linear(sizes.d, 3 * sizes.d, bias=False)
        self.out = torch.nn.Linear(sizes.d, sizes.d)
        self.wide = torch.nn.Linear(sizes.d, sizes.wide)
        self.narrow = torch.nn.Linear(sizes.wide, sizes.d)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(sizes.d) for _ in range(2))

    def forward(self, h):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
            for part in self.qkv(h).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2)
        h = self.norms[0](h + self.out(mixed))
        return self.norms[1](h + self.narrow(self.wide(h).relu()))


class Classifier(torch.nn.Module):
    """The same classifier as a module."""

    def __init__(self, sizes, vectors):
        super().__init__()
        self.project = torch.nn.Linear(sizes.channels, sizes.d)
        self.register_buffer("vectors", vectors)
        self.layers = torch.nn.Sequential(*(Layer(sizes) for _ in range(sizes.layers)))
        self.head = torch.nn.Linear(sizes.d, sizes.classes)

    def forward(self, x):
        return self.head(self.layers(self.project(x) + self.vectors).mean(dim=-2))


def rounding(s, *, half):
    """Compute matrix products in bfloat16 or float32."""
    return torch.autocast(s.device.type, HALF, enabled=half, cache_enabled=False)


def loop(s, *, half=False, compiled=False, graph=False):
    """Return the milliseconds of a loop over members."""
    x, y = s.windows()
    model = Classifier(s.sizes, s.vectors()).to(s.device)
    run = torch.compile(model, mode="reduce-overhead") if compiled else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=graph)
    index = torch.zeros(s.batch, dtype=torch.long, device=s.device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with rounding(s, half=half):
            loss = F.cross_entropy(run(x[index]).float(), y[index])
        loss.backward()
        optimizer.step()

    replay = captured(step) if graph else step

    def draw_and_step():
        index.copy_(torch.randint(len(x), (s.batch,), device=s.device))
        replay()

    return s.members * milliseconds(s, draw_and_step)


def captured(step):
    """Capture a step as a CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def mapped(s, *, compiled=False):
    """Return the milliseconds of all members by `torch.func.vmap`; bfloat16 on a GPU."""
    x, y = s.windows()
    models = [Classifier(s.sizes, s.vectors()).to(s.device) for _ in range(s.members)]
    parameters, buffers = torch.func.stack_module_state(models)
    base = models[0]
    half = s.device.type == "cuda"

    def loss_of(p, b, windows, classes):
        with rounding(s, half=half):
            logits = torch.func.functional_call(base, (p, b), (windows,))
        return F.cross_entropy(logits.float(), classes)

    gradients = torch.func.vmap(torch.func.grad_and_value(loss_of))
    if compiled:
        gradients = torch.compile(gradients, dynamic=False)
    optimizer = torch.optim.Adam(parameters.values(), lr=1e-3, fused=True)

    def step():
        index = torch.randint(len(x), (s.members, s.batch), device=s.device)
        found, _ = gradients(parameters, buffers, x[index], y[index])
        for name, p in parameters.items():
            p.grad = found[name]
        optimizer.step()

    return milliseconds(s, step)


def fused(s, specs, *, compiled=False):
    """Return the milliseconds of the fused program, with equal shares of encodings.

    Members are stacked by cost.
    """
    sizes = s.sizes.tokens, s.sizes.d, s.sizes.heads
    injections = {spec: load_injection(spec, *sizes, 0) for spec in specs}
    stacks = {}
    for seed in range(s.members):
        spec = specs[seed * len(specs) // s.members]
        kind = COSTS.get(injections[spec].act, "codes")
        stacks.setdefault(kind, []).append(Replica(spec, injections[spec], seed, 0))
    return sum(fused_stack(s, members, compiled=compiled) for members in stacks.values())


def fused_stack(s, members, *, compiled):
    """Return the milliseconds of members that are trained together."""
    compiler = Compiler(lambda _: None, works=compiled)
    schedule = Schedule(steps=s.steps, batch_size=s.batch, rate=1e-3)
    data = Resident(s.task, s.device)
    program = Program(data, s.sizes, members, schedule, compiler)
    program.train(WARM_UP)
    return seconds_of(s, lambda: program.train(s.steps)) / s.steps * 1e3


def milliseconds(s, step):
    """Return the milliseconds of a step, after a warm-up."""
    for _ in range(WARM_UP):
        step()
    return seconds_of(s, lambda: [step() for _ in range(s.steps)]) / s.steps * 1e3


def seconds_of(s, work):
    """Return the seconds of some work, including those of the device."""
    synchronize = torch.cuda.synchronize if s.device.type == "cuda" else nullcontext
    synchronize()
    began = time.perf_counter()
    work()
    synchronize()
    return time.perf_counter() - began


def programs(s):
    """Return the measured programs by name."""
    found = {
        "loop, eager float32": partial(loop, s),
        "vmap, eager": partial(mapped, s),
        "fused": partial(fused, s, ["dft"]),
        "fused, all acts": partial(fused, s, MIXED),
    }
    if s.device.type == "cuda":
        found |= {
            "loop, compiled bfloat16": partial(loop, s, half=True, compiled=True),
            "loop, CUDA graph bfloat16": partial(loop, s, half=True, graph=True),
            "vmap, compiled": partial(mapped, s, compiled=True),
            "fused, compiled": partial(fused, s, ["dft"], compiled=True),
            "fused, all acts, compiled": partial(fused, s, MIXED, compiled=True),
        }
    return found


def measure(s):
    """Return a row for each program: its time for a step of all members, and the setting."""
    took = {}
    for name, program in programs(s).items():
        try:
            took[name] = program()
        except Exception as error:  # a peer may not run on every device and version
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    setting = {name: getattr(s.sizes, name) for name in ("tokens", "d", "layers")}
    setting |= {"batch": s.batch, "members": s.members}
    setting["device"] = torch.cuda.get_device_name() if s.device.type == "cuda" else "CPU"
    return [
        {
            "program": name,
            "milliseconds": round(ms, 4),
            "teraflops": round(s.operations / ms / 1e9, 3),  # of matrix products, per second
            "times_fused": round(ms / took["fused"], 3),
            **setting,
            "torch": torch.__version__,
        }
        for name, ms in took.items()
    ]


def keep(rows):
    """Replace the stored rows that have the same sizes and device."""
    stored, same = json.loads(KEPT.read_text()), itemgetter(*SETTING)
    keys = {*map(same, rows)}
    stored["training"] = [r for r in stored.get("training", []) if same(r) not in keys] + rows
    KEPT.write_text(json.dumps(stored, indent=1) + "\n")


def measure_here():
    """Measure on the available device."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    usual = {"members": 16, "steps": 36, "batch-size": 32, "tokens": 16, "d": 32, "layers": 1}
    usual |= {"members": 32, "steps": 100} if device.type == "cuda" else {}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, number in usual.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--keep", action="store_true", help="write rows to figures/bench.json")
    requested = parser.parse_args()
    task = load_task(f"order:length={requested.tokens}")
    sizes = Transformer(task.length, channels=2, classes=2, d=requested.d, layers=requested.layers)
    rows = measure(
        Setting(task, sizes, requested.members, requested.batch_size, requested.steps, device)
    )
    for row in rows:
        print(
            f"{row['program']:28} {row['milliseconds']:10.3f} ms {row['teraflops']:8.2f} TFLOP/s "
            f"{row['times_fused']:8.2f} x fused"
        )
    if requested.keep:
        keep(rows)


if __name__ == "__main__":
    measure_here()

"""State of a stack in training: windows on the device, parameters, steps, logits.

Precision
---------
A CPU uses float32. On a GPU with bfloat16, each step first copies the weights of a Transformer to
bfloat16 in one kernel, and activations have that type. Statistics of norms, vectors, the map to
classes, the loss, Adam and the logits of scored windows stay in float32. The step is captured as a
CUDA graph, after compilation with torch where that saves more time than it takes. This decision
depends on a count of bytes and not on a measured time: equal requests are compiled in the same way
and give equal numbers in every run. Torch caches compiled steps on disk.

Training
--------
`fit` trains a stack from one validation look to the next (`Training`); between two looks, all
members (encoding × seed × fold) take a number of steps (`Program`). A member's initial weights,
batches and dropout depend only on its seed and fold. Encodings are therefore compared in pairs, and
a member trains in a stack as it does alone, up to rounding: a library may sum in another order for
another number of matrices. Members may differ in rate and dropout. Data stay on the device, windows
are gathered there by index, and nothing is read back between two looks.

Every `schedule.every` steps, weights are scored on the validation windows and the best are kept.
Ties in the score go to the lower loss: where a score reaches 1 early, the first such weights belong
to an unfinished model. Only a decrease by more than 0.01 nats counts, because the loss of a model
without mistakes falls throughout training. The score matches the test: average precision for two
classes, whose threshold is chosen afterwards, and macro F1 for more classes, where the largest
logit decides. The loss alone would end training too early: weighted by class, it grows as soon as
some windows are confidently wrong, long before their ranking is best. A member without better
weights for `schedule.patience` steps is done and leaves the stack.

A GPU receives the steps of the next look before the last look is scored. It therefore trains
finished members for one look more than a CPU, which does not change the kept weights. On a GPU,
members leave only if that saves more time than capturing graphs of fewer members. The estimate
counts bytes: with measured times, equal requests would differ in rounding.
"""

import io
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.adam import adam

from pefourier.errors import PefourierError
from pefourier.train.data.split import Fold, Task, machine_memory
from pefourier.train.model import (
    NOTHING,
    Classifier,
    Dropout,
    Injection,
    OrderFree,
    Parameters,
    as_tensor,
    draw_parameters,
    stack_vectors,
)
from pefourier.train.request import FASTER, Schedule
from pefourier.train.run_artifacts import (
    ORDER_OF_ROWS,
    best_threshold,
    class_probabilities,
    cross_entropy,
    evidence,
    validation_score,
)
from pefourier.train.store import KEY, Key
from pefourier.types import Array, Fields, Ints, frozen_arrays

AT_ONCE = 64  # windows per member in evaluation
WARM_UP = 3  # steps before a CUDA graph is captured
BFLOAT16 = (8, 0)  # minimum compute capability of a GPU for bfloat16
# cuDNN is excluded: its backward pass gave nan at lengths not divisible by 128, its graphs failed
# (pytorch issues 196678 and 169849), and it builds a plan for every shape
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
COMPILING = 15.0  # seconds for one kind of stack, on 16 cores
CAPTURING = 0.5  # seconds to capture the graphs of a stack
TIMES = 3  # training must last this many times as long as compilation
STARTING = 5e-4  # seconds in which a GPU launches the kernels of a step
RATE = 6e11  # bytes of activations per second, as counted by `bytes_between_layers`
KINDS = 256  # compiled kinds of stacks that torch caches
T = TypeVar("T")
Indices = tuple[Tensor | slice, ...]


# Windows on the device


@dataclass(eq=False)
class Resident:
    """Rows, starts and labels of a task, stored on the device once."""

    task: Task
    device: torch.device
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        of, device = self.task, self.device
        self.rows = torch.as_tensor(of.rows, dtype=self.dtype).to(device)  # (N, C)
        self.starts = torch.as_tensor(of.starts, device=device)  # (W,)
        self.labels = torch.as_tensor(of.labels, device=device)  # (W,)
        self.within = torch.arange(of.length, device=device)  # (L,)
        self.lengths = of.lengths if of.lengths is None else torch.as_tensor(of.lengths).to(device)

    def windows(self, index: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        """Windows (M, n, L, C) of indices (M, n), scaled by the fold of each member."""
        rows = self.starts[index][:, :, None] + self.within  # (M, n, L)
        flat = self.rows.index_select(0, rows.flatten()).view(*rows.shape, -1)
        scaled = flat.sub_(mean).div_(scale)
        if self.lengths is None:
            return scaled
        padding = self.within >= self.lengths[index][:, :, None]  # (M, n, L)
        return scaled.masked_fill_(padding[..., None], 0.0)


def batch_and_steps(task: Task, batch_size: int) -> tuple[int, int]:
    """Windows per step and steps per epoch, equal for all folds of a task and for all stacks."""
    smallest = min(len(fold.train) for fold in task.folds)
    batch = min(batch_size, smallest)
    return batch, smallest // batch


def draw_batches(
    task: Task, seed: int, number: int, first: int, count: int, batch_size: int
) -> Array:
    """Window indices (count, batch) of a seed and fold for `count` steps from `first` on."""
    fold = task.folds[number]
    batch, steps = batch_and_steps(task, batch_size)
    epochs = range(first // steps, (first + count - 1) // steps + 1)
    rngs = (np.random.default_rng([seed, number, epoch]) for epoch in epochs)
    shuffled = [rng.permutation(fold.train)[: steps * batch].reshape(steps, batch) for rng in rngs]
    return np.asarray(np.concatenate(shuffled)[first % steps :][:count])


def class_weights(task: Task, fold: Fold) -> Array:
    """Weights n / (K n_k), which give every class the same total weight in training."""
    counts = np.bincount(task.labels[fold.train], minlength=len(task.classes))
    return np.asarray(len(fold.train) / (len(counts) * counts))


def device_memory(device: torch.device) -> int:
    """Bytes of memory of a device."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return machine_memory()


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to the device without waiting for the device's current work."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def fetch(tensors: Sequence[Tensor]) -> tuple[list[Tensor], Callable[[], None]]:
    """Copy tensors to the host; also return a function to call before reading their numbers."""
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    if tensors[0].device.type != "cuda":
        return copies, lambda: None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return copies, event.synchronize


# Compilation


def seconds_of_step(model: Classifier, batch: int, members: int) -> float:
    """Estimate the seconds of an uncompiled step on a GPU from the bytes that it moves."""
    if isinstance(model, OrderFree):
        return STARTING
    return STARTING + members * model.bytes_between_layers(batch) / RATE


def pays_to_compile(device: torch.device, seconds: float) -> bool:
    """Whether to compile the step of stacks that train for this many seconds together."""
    return device.type == "cuda" and seconds >= TIMES * COMPILING


@cache
def compile_function(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a function for each set of shapes that it receives."""
    from torch._dynamo import config

    config.cache_size_limit = KINDS
    return torch.compile(function, dynamic=False, fullgraph=True)


@dataclass(eq=False)
class Compiler:
    """Compiler of training steps; after one failure, stacks train without compilation."""

    say: Callable[[str], object]
    works: bool = True

    def run(self, work: Callable[[Callable[..., T]], Any], function: Callable[..., T]) -> Any:
        """Run work with a compiled function, or with the original if torch cannot compile it."""
        if not self.works:
            return work(function)
        from torch._dynamo.exc import TorchDynamoException

        try:
            with warnings.catch_warnings(action="ignore"):  # from imports of the compiler
                return work(compile_function(function))
        except TorchDynamoException as error:
            cause = " ".join(str(error).split())[:200]
        self.works = False
        self.say(f"training continues without compilation: {cause}")
        return work(function)


EAGER = Compiler(print, works=False)

# Steps


@frozen_arrays
class Replica:
    """A single training: an encoding's injection, a seed, a fold."""

    encoding: str
    injection: Injection
    seed: int
    fold: int

    @property
    def key(self) -> int:
        """Seed of its weights and dropout, from its seed and fold alone."""
        return 1_000_003 * self.fold + self.seed


@frozen_arrays
class TrainedRun:
    """Result of one member: logits of validation and test windows with the kept weights."""

    member: Replica
    valid: Array  # (n, K)
    test: Array
    step: int  # 0 if training diverged at once: the initial weights
    seconds: float  # of its stack, divided by its members
    injection: Injection = NOTHING  # with trained vectors of all places, and trained frequencies
    parameters: dict[str, Array] = field(default_factory=dict)  # all but trained vectors
    curve: Array = field(default_factory=lambda: np.zeros((0, 3)))  # loss; validation score, loss

    def key_in(self, task: Task) -> Key:
        """Key of the run of a task."""
        return task.name, self.member.encoding, self.member.seed, self.member.fold

    @property
    def finite(self) -> bool:
        """Whether its logits are finite; even initial weights may give non-finite logits."""
        return bool(np.isfinite(self.valid).all() and np.isfinite(self.test).all())


def trace_of(task: Task, outcome: TrainedRun) -> bytes:
    """Return the trace of a run as the bytes of a file."""
    fold = task.folds[outcome.member.fold]
    threshold = threshold_of(task, outcome)
    probabilities = class_probabilities(outcome.test, threshold)
    arrays: Fields = {
        "valid": outcome.valid.astype(np.float32),
        "valid_labels": task.labels[fold.valid],
        "test": outcome.test.astype(np.float32),
        "test_labels": task.labels[fold.test],
        "valid_rows": task.starts[fold.valid],
        "test_rows": task.starts[fold.test],
        "rows": np.array(ORDER_OF_ROWS),
        "threshold": np.array(np.nan if threshold is None else threshold),
        "test_probabilities": probabilities.astype(np.float32),
        "classes": np.array(task.classes, dtype=str),
        "curve": np.asarray(outcome.curve, np.float32),
        **{name: np.array(value) for name, value in zip(KEY, outcome.key_in(task), strict=True)},
    }
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def threshold_of(task: Task, outcome: TrainedRun) -> float | None:
    """Return the least difference of two logits that predicts the positive class, if any."""
    if task.positive is None:
        return None
    labels = task.labels[task.folds[outcome.member.fold].valid]
    return best_threshold(evidence(outcome.valid, 1), labels == 1)


def is_vector(name: str) -> bool:
    """Whether a parameter is a table of vectors or frequencies."""
    return name.startswith("codes.")


def step_precision(device: torch.device, model: Classifier) -> torch.dtype | None:
    """Type to which a step copies weights and activations, or None."""
    if device.type != "cuda" or isinstance(model, OrderFree):
        return None
    return torch.bfloat16 if torch.cuda.get_device_capability(device) >= BFLOAT16 else None


class Adam:
    """Adam (Kingma and Ba, 2015) with torch's fused kernel.

    `groups` are parameters with their learning rate. `state` has means of gradients and of their
    squares, and steps. The class in ``torch.optim`` would import torch's compiler, which takes a
    second.
    """

    def __init__(self, groups: Iterable[tuple[list[Tensor], float]]) -> None:
        self.groups = list(groups)
        self.state = {
            p: (torch.zeros_like(p), torch.zeros_like(p), torch.zeros((), device=p.device))
            for parameters, _ in self.groups
            for p in parameters
        }

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient."""
        for parameters, rate in self.groups:
            used = [(p, p.grad, *self.state[p]) for p in parameters if p.grad is not None]
            values, gradients, means, squares, steps = map(list, zip(*used, strict=True))
            adam(
                *(values, gradients, means, squares, [], steps),
                fused=True,
                lr=rate,
                beta1=0.9,
                beta2=0.999,
                eps=1e-8,
                weight_decay=0.0,
                amsgrad=False,
                maximize=False,
            )


@dataclass(eq=False)
class Program:
    """The state of a stack in training."""

    data: Resident
    model: Classifier
    members: Sequence[Replica]
    schedule: Schedule
    compiler: Compiler = EAGER  # of the loss of a step
    eager: bool = False  # no graph capture on a GPU
    done: int = field(init=False, default=0)  # steps
    replay: Callable[[], None] | None = field(init=False, default=None)  # of a step, on a GPU
    replay_look: Callable[[], None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        task, device, dtype = self.data.task, self.data.device, self.data.rows.dtype
        injections = [m.injection for m in self.members]
        blind = isinstance(self.model, OrderFree)  # has no injection
        self.injected = {} if blind else stack_vectors(injections, device, dtype)
        self.parameters = self.draw_parameters()
        self.rounded = self.round_parameters()
        folds = [task.folds[m.fold] for m in self.members]
        shape = (len(folds), 1, 1, -1)
        self.mean = as_tensor([f.mean for f in folds], device, dtype).view(shape)
        self.scale = as_tensor([f.scale for f in folds], device, dtype).view(shape)
        self.weights = as_tensor([class_weights(task, f) for f in folds], device, dtype)  # (M, K)
        size = (len(folds), batch_and_steps(task, self.schedule.batch_size)[0])
        self.index = torch.zeros(size, dtype=torch.long, device=device)
        self.total = torch.zeros(len(folds), device=device)
        self.seen = torch.zeros((len(folds), AT_ONCE), dtype=torch.long, device=device)
        self.answers = self.mean.new_zeros(*self.seen.shape, len(task.classes))
        self.parts = {
            part: as_tensor([getattr(f, part) for f in folds], device, torch.long)
            for part in ("valid", "test")
        }
        share, rate = self.schedule.dropout, self.schedule.rate
        self.drop = Dropout(share, [m.key for m in self.members], device) if share else None
        self.optimizer = Adam(
            (group, FASTER * rate if vectors else rate)
            for vectors in (False, True)
            if (group := [p for name, p in self.parameters.items() if is_vector(name) == vectors])
        )
        if self.compiler.works:
            self.compiler.say(f"compiling the step of {len(folds)} members")
        if device.type == "cuda" and not self.eager:
            self.capture()

    def draw_parameters(self) -> Parameters:
        """Draw the initial parameters of members, equal for all encodings of a seed and fold."""
        shapes, kind = self.model.shapes(), self.data.rows
        of_members = [draw_parameters(shapes, m.key) for m in self.members]
        begun = {name: torch.stack([weights[name] for weights in of_members]) for name in shapes}
        begun |= {f"codes.{act}": c.start for act, c in self.injected.items() if c.trained}
        return {name: p.to(kind).clone().requires_grad_() for name, p in begun.items()}

    def round_parameters(self) -> Parameters:
        """Copy weights in the type of a step, except vectors and the map to classes."""
        dtype = step_precision(self.data.device, self.model)
        if dtype is None:
            return {}
        return {
            name: p.detach().to(dtype).requires_grad_()
            for name, p in self.parameters.items()
            if not is_vector(name) and not name.startswith("head.")
        }

    def loss(self, index: Tensor, drop: Dropout | None = None) -> Tensor:
        """Class-weighted cross entropy (M, n) of each member's windows (M, n), in training."""
        logits = self.logits(index, {**self.parameters, **self.rounded}, drop)
        y = self.data.labels[index]
        entropy = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none").view_as(y)
        return entropy * self.weights.gather(1, y)

    def logits(
        self, index: Tensor, parameters: Parameters | None = None, drop: Dropout | None = None
    ) -> Tensor:
        """Logits (M, n, K) of each member's windows (M, n); pass `drop` in training."""
        p = self.parameters if parameters is None else parameters
        x = self.data.windows(index, self.mean, self.scale).to(p["project.w"].dtype)
        lengths = None if self.data.lengths is None else self.data.lengths[index]
        logits = self.model.logits(p, self.injected, x, drop, lengths, index)
        return logits.to(self.weights.dtype)

    def step(self) -> None:
        """Take one step of Adam for every member on the windows in `index`."""
        loss = self.compiler.run(self.differentiate, Program.loss)
        self.optimizer.step()
        self.total += loss

    def differentiate(self, loss_of: Callable[..., Tensor]) -> Tensor:
        """Compute the mean loss (M,) of the windows in `index` and the gradients."""
        copies, masters = list(self.rounded.values()), [self.parameters[n] for n in self.rounded]
        self.forget_gradients()
        if copies:
            with torch.no_grad():
                torch._foreach_copy_(copies, masters)
        is_cpu = self.data.device.type == "cpu"
        with nullcontext() if is_cpu else sdpa_kernel(KERNELS):
            drop = self.drop and self.drop.begin(self.done)
            loss = loss_of(self, self.index, drop).mean(dim=1)
            # members share no parameter, so each gets its separate gradient
            torch.autograd.backward(loss.sum())
        pairs = zip(copies, masters, strict=True)
        used = [(c.grad, p) for c, p in pairs if c.grad is not None]
        if used:
            gradients = [torch.empty_like(p) for _, p in used]
            torch._foreach_copy_(gradients, [gradient for gradient, _ in used])
            for gradient, (_, p) in zip(gradients, used, strict=True):
                p.grad = gradient
        return loss.detach()

    def forget_gradients(self) -> None:
        """Remove the gradients of parameters and their copies."""
        for p in (*self.parameters.values(), *self.rounded.values()):
            p.grad = None

    def train(self, steps: int) -> Tensor:
        """Train for some steps; return the mean training loss of each member."""
        span = self.done, steps, self.schedule.batch_size
        keys = [(m.seed, m.fold) for m in self.members]
        batches = {key: draw_batches(self.data.task, *key, *span) for key in dict.fromkeys(keys)}
        order = torch.as_tensor(np.stack([batches[key] for key in keys], axis=1))  # (steps, M, B)
        self.total.zero_()
        for index in send(order, self.data.device):
            self.index.copy_(index)
            (self.replay or self.step)()
            self.done += 1
        return self.total / steps

    @torch.no_grad()
    def look(self) -> None:
        """Write the logits of the windows in `seen` into `answers`."""
        self.answers.copy_(self.logits(self.seen))

    def evaluated(self, index: Tensor) -> Tensor:
        """Logits (M, n, K) of at most AT_ONCE windows (M, n); a graph always has that many."""
        if self.replay_look is None:
            return self.logits(index)
        count = index.shape[1]
        self.seen[:, :count] = index
        self.replay_look()
        return self.answers[:, :count].clone()

    @torch.no_grad()
    def logits_of(self, part: str) -> Tensor:
        """Logits (M, n, K) of each member's windows of a part, padded if some have fewer."""
        indices = torch.split(self.parts[part], AT_ONCE, dim=1)
        return torch.cat([self.evaluated(index) for index in indices], dim=1)

    def cut(self, logits: Tensor, part: str) -> list[Array]:
        """Remove padding from `logits_of`: logits (n, K) of each member's windows of a part."""
        counts = [len(getattr(self.data.task.folds[m.fold], part)) for m in self.members]
        padded = logits.double().numpy()
        return [rows[:count] for rows, count in zip(padded, counts, strict=True)]

    def evaluate(self, part: str) -> list[Array]:
        """Logits (n, K) of each member's windows of a part."""
        return self.cut(self.logits_of(part).cpu(), part)

    @torch.no_grad()
    def with_members(self, chosen: Ints) -> "Program":
        """Return a program of some of the members at the same point of training."""
        fewer = replace(self, members=[self.members[i] for i in chosen])
        fewer.done = self.done
        index = torch.as_tensor(chosen, device=self.data.device)
        for name, p in fewer.parameters.items():
            own: Indices = index, *map(slice, p.shape[1:])  # may be padded for more members
            whole = self.parameters[name]
            p.copy_(whole[own])
            pairs = zip(fewer.optimizer.state[p], self.optimizer.state[whole], strict=True)
            for mean, of_all in pairs:  # copied, since a graph refers to `mean`
                mean.copy_(of_all[own] if of_all.dim() else of_all)
        return fewer

    def capture(self) -> None:
        """Capture a look and a step as CUDA graphs; warm-up steps leave no trace."""
        before = {name: p.detach().clone() for name, p in self.parameters.items()}
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        # of eager steps and compilation
        with torch.cuda.stream(side), warnings.catch_warnings(action="ignore"):
            for _ in range(WARM_UP):
                self.step()
                self.look()
        torch.cuda.current_stream().wait_stream(side)
        with torch.no_grad():
            for name, p in self.parameters.items():
                p.copy_(before[name])
                for state in self.optimizer.state[p]:
                    state.zero_()
        self.total.zero_()
        self.forget_gradients()
        replays = []
        for work in (self.look, self.step):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):  # which has its workspaces already
                work()
            replays.append(graph.replay)
        self.replay_look, self.replay = replays


LEAST_GAIN = 0.01  # decrease of the loss, in nats, that counts as better at an equal score
AHEAD = {"cpu": 0, "cuda": 1}  # looks that a device receives before the last is scored
MEMORY_ENDS = (
    *("out of memory", "DefaultCPUAllocator", "_STATUS_ALLOC_FAILED"),
    "CUBLAS_STATUS_NOT_INITIALIZED",  # no memory for its workspace
)


def score_members(program: Program, logits: Sequence[Array]) -> Array:
    """Score and loss (M, 2) of validation windows by logits (n, K); nan after divergence."""
    task, found = program.data.task, np.full((len(logits), 2), np.nan)
    for i, (member, rows) in enumerate(zip(program.members, logits, strict=True)):
        fold = task.folds[member.fold]
        labels = task.labels[fold.valid]
        if np.isfinite(rows).all():
            loss = cross_entropy(rows, labels, class_weights(task, fold))
            found[i] = validation_score(rows, labels, macro=task.positive is None), loss
    return found


Progress = Callable[[int, int, float], None]  # steps taken, members, mean loss


def fit(
    data: Resident,
    model: Classifier,
    members: Sequence[Replica],
    schedule: Schedule,
    progress: Progress = lambda *_: None,
    compiler: Compiler = EAGER,
) -> list[TrainedRun]:
    """Train members together."""
    try:
        return Training(Program(data, model, members, schedule, compiler)).run(progress)
    except RuntimeError as error:
        memory = isinstance(error, torch.OutOfMemoryError)
        if not memory and not any(text in str(error) for text in MEMORY_ENDS):
            raise
        raise PefourierError(
            "the runs of a stack do not fit into memory; choose a smaller --batch-size or --d"
        ) from error


class Training:
    """Training of a stack: its members and the best weights of each so far."""

    def __init__(self, program: Program) -> None:
        self.running, self.members = program, program.members
        self.schedule, self.device = program.schedule, program.data.device
        self.best = {name: p.detach().clone() for name, p in program.parameters.items()}
        count = len(self.members)
        self.highest: Array = np.tile([-1.0, np.inf], (count, 1))  # score and loss
        self.best_step: Array = np.zeros(count, dtype=np.int64)  # steps; 0: untrained
        self.curve: list[Array] = []  # (members, 3) of each look; nan for finished members
        self.active: Array = np.arange(count)  # members in `running`

    def run(self, progress: Progress) -> list[TrainedRun]:
        """Train to the end."""
        looks, began = deque[Callable[[], tuple[int, int, float]]](), time.perf_counter()
        ahead, steps = AHEAD[self.device.type], self.schedule.steps
        while len(self.active) and (looks or self.running.done < steps):
            if self.running.done < steps:
                looks.append(self.begin_look())
            if len(looks) > ahead or self.running.done == steps:
                done, members, loss = looks.popleft()()
                progress(done, members, loss)
                self.leave(done)
        return self.collect_outcomes(time.perf_counter() - began)

    def begin_look(self) -> Callable[[], tuple[int, int, float]]:
        """Start training to the next look; return a function that waits for its results.

        The function keeps better weights, and returns steps, members, and mean training loss.
        """
        program, active, begun = self.running, self.active, self.running.done
        steps = min(self.schedule.every, self.schedule.steps - begun)
        results, wait = fetch([program.train(steps), program.logits_of("valid")])
        parameters, done = program.parameters, program.done
        if AHEAD[self.device.type]:  # training changes them meanwhile
            parameters = {name: p.detach().clone() for name, p in parameters.items()}

        def judge() -> tuple[int, int, float]:
            wait()
            patient = self.is_patient(active, begun)
            loss = results[0].double().numpy()
            scores = score_members(program, program.cut(results[1], "valid"))
            point = np.full((len(self.members), 3), np.nan)
            point[active[patient]] = np.column_stack([loss, scores])[patient]
            self.curve.append(point)
            better = np.flatnonzero(is_better(scores, self.highest[active]) & patient)
            members = active[better]
            self.highest[members], self.best_step[members] = scores[better], done
            rows, of_all = (send(torch.as_tensor(x), self.device) for x in (better, members))
            for name, p in parameters.items():
                places: Indices = of_all, *map(slice, p.shape[1:])
                self.best[name][places] = p.detach()[rows]
            return done, len(active), float(loss.mean())

        return judge

    def is_patient(self, members: Array, done: int) -> Array:
        """Whether members have patience left after this many steps."""
        waited = done - self.best_step[members]
        return np.asarray(waited < (self.schedule.patience or np.inf))

    def leave(self, done: int) -> None:
        """Remove members without patience after this many steps."""
        patient = self.is_patient(self.active, done)
        if not patient.any():
            self.active = self.active[:0]
        elif not patient.all():
            stay = np.flatnonzero(patient)
            if self.device.type == "cpu" or self.pays_to_leave(len(stay)):
                self.running = self.running.with_members(stay.tolist())
                self.active = self.active[stay]

    def pays_to_leave(self, stay: int) -> bool:
        """Whether so few members save more time on a GPU than their capture takes."""
        of, batch = self.running, self.running.index.shape[1]
        now, then = (seconds_of_step(of.model, batch, n) for n in (len(self.active), stay))
        last = int(self.best_step[self.active].max()) + self.schedule.patience
        steps = min(last, self.schedule.steps) - of.done  # at least
        return steps * (now - then) >= CAPTURING + COMPILING * of.compiler.works

    def collect_outcomes(self, seconds: float) -> list[TrainedRun]:
        """Return the outcome of each member with its best weights."""
        program, curve = self.running, np.stack(self.curve)
        if len(program.members) < len(self.members):
            program = replace(program, members=self.members, compiler=EAGER, eager=True)
        with torch.no_grad():
            for name, p in program.parameters.items():
                p.copy_(self.best[name])
        injections = trained_injections(program, self.best)
        parameters = {name: p.cpu().numpy() for name, p in self.best.items() if not is_vector(name)}
        valid, test = program.evaluate("valid"), program.evaluate("test")
        return [
            TrainedRun(
                member=member,
                valid=valid[i],
                test=test[i],
                step=int(self.best_step[i]),
                seconds=seconds / len(self.members),
                injection=injections[i],
                parameters={name: p[i] for name, p in parameters.items()},
                curve=curve[~np.isnan(curve[:, i, 0]), i],
            )
            for i, member in enumerate(program.members)
        ]


def is_better(scores: Array, before: Array) -> Array:
    """Whether scores with losses (M, 2) are higher, or equal with clearly less loss, than before.

    >>> is_better(np.array([[0.9, 3.0], [0.8, 1.0], [np.nan, 0.0]]), np.array([[0.8, 2.0]] * 3))
    array([ True,  True, False])
    """
    (score, loss), (highest, lowest) = scores.T, before.T
    return np.asarray((score > highest) | ((score == highest) & (loss < lowest - LEAST_GAIN)))


@torch.no_grad()
def trained_injections(program: Program, p: Parameters) -> list[Injection]:
    """Return each member's injection with trained vectors of all places, and its frequencies."""
    found, stacks = [], program.injected.items()
    tables = {a: c.table(p.get(f"codes.{a}")).cpu() for a, c in stacks if c.index.dim() == 2}
    for i, own in enumerate(m.injection for m in program.members):
        vectors, rates = own.table(), own.frequencies
        if own.act in tables:
            vectors = tables[own.act][i, :, : vectors.shape[1]].double().numpy()
        if own.learn and rates.size:
            moved = p[f"codes.{own.act}"][i, : len(rates)].cpu().double().numpy()
            rates = np.where(rates != 0, moved, rates)
        found.append(Injection(own.act, vectors, np.arange(len(vectors)), frequencies=rates))
    return found

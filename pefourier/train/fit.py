"""Trains a stack of members, encoding × seed × fold, as one program; read it from top to bottom.

Conventions
-----------
A member's initial weights, batches and what it drops depend on its seed and fold alone, so that
encodings are compared in pairs and a member in a stack is the member alone, up to rounding: a
library may add in another order where it multiplies other numbers of matrices at once. Members may
differ in rate, dropout and decay of weights. Data stay on the device, windows are gathered there by
index, and nothing is read back between two looks. float32 on a CPU; on a GPU matrix products in
bfloat16 where it has them, and the whole step one CUDA graph.

Every `schedule.every` steps weights are looked at on validation windows, and the best are kept, of
equal ones those with the least loss: where a score reaches 1 early, the first weights that do are
of a model that is not ready. Less by a hundredth of a nat does not count: the loss of a model that
is right about everything falls for as long as it is trained. The score is what the test asks for:
average precision of two classes, whose threshold is chosen afterwards, and the macro F1 of more,
where the largest logit decides. The loss alone would end training too soon: weighted by class, it
grows as soon as some windows are surely wrong, long before their ranking is best. A member that has
not become better for `schedule.patience` steps is done and leaves the stack.

One Adam steps all members at the largest of their rates; then each is taken back to its share of
the way, which is what Adam would have done at its rate: the step of Adam is proportional to it.
Codes under training have a rate of their own: tables start small. Decay is decoupled (Loshchilov
and Hutter, 2019), of weights alone, not of biases, gains or codes. While it warms up, a rate rises
linearly from step to step.

A checkpoint has all that training goes on from: parameters now and at their best, Adam's means,
who is done, and the step. Everything else is drawn from seed, fold and step.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from pefourier.errors import PefourierError
from pefourier.train import metrics
from pefourier.train.attention import StackCodes, as_tensor, stack_codes
from pefourier.train.checkpoint import Checkpoint
from pefourier.train.data.split import Fold, Task
from pefourier.train.injection import Injection
from pefourier.train.model import OrderFree, Parameters, Transformer, draw_parameters
from pefourier.train.request import Schedule, Tuning

AT_ONCE = 64  # windows a member in evaluation
LEAST_GAIN = 0.01  # of the loss, in nats, to be better at an equal score
HALVED = ("cuda",)  # devices where half of the members are tried when memory ends
PROBED, ROOM = 2, 0.8  # members of a trial step; share of free memory that a stack may take
WARM_UP = 3  # steps before a CUDA graph is captured
BFLOAT16 = (8, 0)  # compute capability from which on products are made in it
MEMORY_ENDS = ("out of memory", "DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED")
# Not cuDNN's: at lengths that 128 does not divide its backward pass gave nan, its graphs broke
# (pytorch issues 196678 and 169849), and it builds a plan for every shape
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True, eq=False)
class Member:
    """One training: an encoding's codes, a seed, a fold."""

    encoding: str
    injection: Injection
    seed: int
    fold: int
    tuning: Tuning | None = None  # that of the schedule
    number: int = 0  # of the run that it is a candidate of

    @property
    def key(self) -> int:
        """What its weights and what it drops are drawn from: its seed and fold alone."""
        return 1_000_003 * self.fold + self.seed


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one member came to: logits of validation and test windows with the weights kept."""

    member: Member
    valid: np.ndarray  # (n, K)
    test: np.ndarray
    step: int  # 0 where training diverged at once: the weights it began with
    seconds: float  # of its stack, over its members
    step_seconds: float | None = None  # of a step of its stack, over the members in it
    codes: np.ndarray | None = None  # trained codes of all places
    frequencies: np.ndarray | None = None  # (axes, pairs) of a rotation, where they are known
    parameters: dict[str, np.ndarray] = field(default_factory=dict)  # all but codes
    curve: np.ndarray | None = None  # (looks, 3): training loss, score and loss on validation

    @property
    def finite(self) -> bool:
        """Whether its logits are finite; even the weights a member began with may give others."""
        return bool(np.isfinite(self.valid).all() and np.isfinite(self.test).all())


@dataclass(frozen=True, eq=False)
class Resident:
    """A task's rows, starts and labels on the device, once."""

    task: Task
    rows: Tensor  # (N, C)
    starts: Tensor  # (W,)
    labels: Tensor  # (W,)
    within: Tensor  # (L,)
    lengths: Tensor | None = None  # (W,) rows of each window, the rest is padding

    @property
    def device(self) -> torch.device:
        return self.rows.device

    def windows(self, index: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        """Windows (M, n, L, C) of indices (M, n), scaled by each member's fold."""
        rows = self.starts[index][:, :, None] + self.within  # (M, n, L)
        flat = self.rows.index_select(0, rows.flatten()).view(*rows.shape, -1)
        scaled = flat.sub_(mean).div_(scale)
        if self.lengths is None:
            return scaled
        padding = self.within >= self.lengths[index][:, :, None]  # (M, n, L)
        return scaled.masked_fill_(padding[..., None], 0.0)


def put_on_device(task: Task, device: torch.device, dtype: torch.dtype = torch.float32) -> Resident:
    """Copy a task to the device."""
    return Resident(
        task,
        torch.as_tensor(task.rows, dtype=dtype).to(device),
        torch.as_tensor(task.starts, device=device),
        torch.as_tensor(task.labels, device=device),
        torch.arange(task.length, device=device),
        None if task.lengths is None else torch.as_tensor(task.lengths, device=device),
    )


def batch_and_steps(task: Task, batch_size: int) -> tuple[int, int]:
    """Windows a step and steps an epoch that every fold has: facts of the task, not of a stack."""
    smallest = min(len(fold.train) for fold in task.folds)
    batch = min(batch_size, smallest)
    return batch, smallest // batch


def draw_batches(task: Task, member: Member, first: int, count: int, batch_size: int) -> np.ndarray:
    """Indices of windows (count, batch) of the steps from the first on."""
    fold = task.folds[member.fold]
    batch, steps = batch_and_steps(task, batch_size)
    epochs = range(first // steps, (first + count - 1) // steps + 1)
    rngs = (np.random.default_rng([member.seed, member.fold, epoch]) for epoch in epochs)
    shuffled = [rng.permutation(fold.train)[: steps * batch].reshape(steps, batch) for rng in rngs]
    begin = first - epochs[0] * steps
    return np.concatenate(shuffled)[begin : begin + count]


class Dropout:
    """Drops from (M, …) in training, for each member its own share; the rest is scaled up.

    On a processor what drops is drawn for each member from its key, the step and the layer of
    dropout, so that it does not depend on who stands beside it; elsewhere by torch's generator.
    """

    def __init__(self, shares: Sequence[float], keys: Sequence[int], device: torch.device) -> None:
        self.share = torch.tensor(shares, dtype=torch.float32, device=device)
        self.keys, self.step, self.site = keys, 0, 0
        self.generator = torch.Generator()

    def begin(self, step: int) -> "Dropout":
        """Begin the forward pass of a step."""
        self.step, self.site = step, 0
        return self

    def __call__(self, x: Tensor) -> Tensor:
        """Drop from x (M, …)."""
        self.site += 1
        share = self.share.view(-1, *(1,) * (x.dim() - 1))
        if x.device.type == "cpu":
            uniform = torch.empty(x.shape)
            for member, key in zip(uniform, self.keys, strict=True):
                seed = (key * 1_000_003 + self.step) * 64 + self.site
                member.uniform_(generator=self.generator.manual_seed(seed % 2**63))
        else:
            uniform = torch.rand(x.shape, device=x.device)
        return x * ((uniform >= share) / (1 - share)).to(x.dtype)


def is_code(name: str) -> bool:
    """Whether a parameter is one of codes."""
    return name.startswith("codes.")


class Pace:
    """Shortens the steps of an optimizer that goes at the largest rate."""

    def __init__(self, tunings: Sequence[Tuning], warm_up: int, count: Tensor) -> None:
        device = count.device
        self.share = {}
        for codes in (False, True):
            rates = torch.tensor([tuning.rate_of(codes) for tuning in tunings], dtype=torch.float64)
            self.share[codes] = (rates / rates.max()).to(device)
        decays = [tuning.rate * tuning.weight_decay for tuning in tunings]
        self.decay = torch.tensor(decays, dtype=torch.float64, device=device)
        self.warm_up, self.count = warm_up, count  # in steps; steps taken

    @staticmethod
    def is_needed(tunings: Sequence[Tuning], warm_up: int) -> bool:
        """Whether members go otherwise than Adam at one rate."""
        one_rate = len({(tuning.rate, tuning.rate_of(True)) for tuning in tunings}) == 1
        return bool(warm_up) or not one_rate or any(tuning.weight_decay for tuning in tunings)

    @torch.no_grad()
    def shorten(self, step: Callable[[], object], parameters: Mapping[str, Tensor]) -> None:
        """Take a step of the optimizer, and back."""
        before = {name: p.detach().clone() for name, p in parameters.items()}
        with torch.enable_grad():
            step()
        warm = ((self.count + 1) / max(self.warm_up, 1)).clamp(max=1.0)
        decay = self.decay * warm
        for name, p in parameters.items():
            shape = (-1,) + (1,) * (p.dim() - 1)
            share = self.share[is_code(name)] * warm
            p.copy_(torch.lerp(before[name], p, share.view(shape).to(p.dtype)))
            if name.endswith(".w"):
                p.sub_(before[name] * decay.view(shape).to(p.dtype))


@dataclass(eq=False)
class Program:
    """The state of a stack in training."""

    data: Resident
    model: Transformer | OrderFree
    members: Sequence[Member]
    schedule: Schedule
    done: int = 0  # steps
    eager: bool = False  # on a GPU: no graph is captured
    parameters: Parameters = field(init=False)
    injected: dict[str, StackCodes] = field(init=False)
    replay: Callable[[], None] | None = field(init=False, default=None)  # of a step, on a GPU
    drop: Dropout | None = field(init=False)  # where some member drops
    pace: Pace | None = field(init=False)  # where members do not all go as Adam does

    def __post_init__(self) -> None:
        task, device, dtype = self.data.task, self.data.device, self.data.rows.dtype
        folds = [task.folds[m.fold] for m in self.members]
        # the order-free baseline takes no codes
        injections = [m.injection for m in self.members]
        blind = isinstance(self.model, OrderFree)
        self.injected = {} if blind else stack_codes(injections, device, dtype)
        self.parameters = initial_parameters(self.model, self.members, self.injected, device, dtype)
        shape = (len(self.members), 1, 1, -1)
        self.mean = as_tensor([f.mean for f in folds], device, dtype).view(shape)
        self.scale = as_tensor([f.scale for f in folds], device, dtype).view(shape)
        self.weights = as_tensor([class_weights(task, f) for f in folds], device, dtype)  # (M, K)
        batch, _ = batch_and_steps(task, self.schedule.batch_size)
        size = (len(self.members), batch)
        self.index = torch.zeros(size, dtype=torch.long, device=device)
        self.total = torch.zeros(len(self.members), device=device)
        self.set_pace()
        self.make_optimizer()
        if device.type == "cuda" and not self.eager:
            self.replay = capture_cuda_graph(self)

    def set_pace(self) -> None:
        """Prepare what members drop, and how far they go."""
        device = self.data.device
        tunings = [m.tuning or self.schedule.tuning for m in self.members]
        self.count = torch.full((), self.done, dtype=torch.int32, device=device)
        self.fastest = {c: max(tuning.rate_of(c) for tuning in tunings) for c in (False, True)}
        shares, keys = [tuning.dropout for tuning in tunings], [m.key for m in self.members]
        self.drop = Dropout(shares, keys, device) if any(shares) else None
        is_paced = Pace.is_needed(tunings, self.schedule.warmup)
        self.pace = Pace(tunings, self.schedule.warmup, self.count) if is_paced else None

    def make_optimizer(self) -> None:
        """Adam, with codes in a group of their own."""
        groups = [
            {"params": group, "lr": self.fastest[codes]}
            for codes in (False, True)
            if (group := [p for name, p in self.parameters.items() if is_code(name) == codes])
        ]
        on_gpu = self.data.device.type != "cpu"
        self.optimizer = torch.optim.Adam(groups, fused=True, capturable=on_gpu)

    @contextmanager
    def precision(self) -> Iterator[None]:
        """bfloat16 matrix products on a GPU that has them, in training alone."""
        if self.data.device.type == "cpu":
            yield
            return
        able = self.data.device.type != "cuda" or torch.cuda.get_device_capability() >= BFLOAT16
        cast = torch.autocast("cuda", dtype=torch.bfloat16, enabled=able, cache_enabled=False)
        with cast, sdpa_kernel(KERNELS):
            yield

    def loss(self, index: Tensor) -> Tensor:
        """Class-weighted cross entropy of each member's windows (M, n), shape (M, n)."""
        with self.precision():
            drop = self.drop and self.drop.begin(self.done)
            logits, y = self.logits(index, drop), self.data.labels[index]
        entropy = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none").view_as(y)
        return entropy * self.weights.gather(1, y)

    def logits(self, index: Tensor, drop: Dropout | None = None) -> Tensor:
        """Logits (M, n, K) of each member's windows (M, n); `drop` is given in training."""
        x = self.data.windows(index, self.mean, self.scale)
        lengths = None if self.data.lengths is None else self.data.lengths[index]
        logits = self.model.logits(self.parameters, self.injected, x, drop, lengths)
        return logits.to(self.weights.dtype)

    def step(self) -> None:
        """One step, on a GPU that which was captured."""
        if self.replay is None:
            self.eager_step()
        else:
            self.replay()
        self.done += 1

    def eager_step(self) -> None:
        """One step of Adam for every member on the windows in `index`."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.index).mean(dim=1)  # (M,)
        loss.sum().backward()  # members share no parameter: each gets its own gradient
        if self.pace is None:
            self.optimizer.step()
        else:
            self.pace.shorten(self.optimizer.step, self.parameters)
        self.count += 1
        self.total += loss.detach()

    def train(self, steps: int) -> Tensor:
        """Train for some steps; mean training loss of each member."""
        size = self.schedule.batch_size
        batches = [draw_batches(self.data.task, m, self.done, steps, size) for m in self.members]
        order = torch.as_tensor(np.stack(batches, axis=1)).to(self.data.device)  # (steps, M, B)
        self.total.zero_()
        for index in order:
            self.index.copy_(index)
            self.step()
        return self.total / steps

    @torch.no_grad()
    def evaluate(self, part: str) -> list[np.ndarray]:
        """Logits (n, K) of each member's windows of a part."""
        indices = [getattr(self.data.task.folds[m.fold], part) for m in self.members]
        index = padded_indices(indices).to(self.data.device)
        logits = torch.cat([self.logits(chunk) for chunk in index.split(AT_ONCE, dim=1)], dim=1)
        padded = logits.cpu().double().numpy()
        return [rows[: len(windows)] for rows, windows in zip(padded, indices, strict=True)]

    def validate(self) -> np.ndarray:
        """Score and loss of each member on its validation windows (M, 2); nan where diverged."""
        pairs = zip(self.members, self.evaluate("valid"), strict=True)
        return np.array([score_and_loss(self.data.task, m.fold, logits) for m, logits in pairs])

    def state(self) -> dict[str, Tensor]:
        """Parameters and Adam's means, all with the member first, by name."""
        tensors = {}
        for name, p in self.parameters.items():
            tensors[f"now.{name}"] = p.detach()
            for key, value in self.optimizer.state[p].items():
                if value.dim():
                    tensors[f"{key}.{name}"] = value
        return tensors

    @torch.no_grad()
    def set_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from parameters and means; codes may have been padded for more members."""
        for name, p in self.parameters.items():
            p.copy_(like(p, tensors[f"now.{name}"]))
            state = self.optimizer.state[p]
            state["step"] = torch.tensor(float(self.done), device=p.device)
            for key in ("exp_avg", "exp_avg_sq"):
                value = like(p, tensors[f"{key}.{name}"]).clone()
                state[key] = state[key].copy_(value) if key in state else value

    def with_members(self, chosen: Sequence[int]) -> "Program":
        """A program of some of the members, at the same point of their training."""
        members = [self.members[i] for i in chosen]
        fewer = Program(self.data, self.model, members, self.schedule, self.done)
        index = torch.as_tensor(chosen, device=self.data.device)
        fewer.set_state({name: value[index] for name, value in self.state().items()})
        return fewer


def score_and_loss(task: Task, number: int, logits: np.ndarray) -> tuple[float, float]:
    """Score and loss of the logits (n, K) of a fold's validation windows; nan where it diverged."""
    fold = task.folds[number]
    labels = task.labels[fold.valid]
    if not np.isfinite(logits).all():
        return np.nan, np.nan
    loss = metrics.cross_entropy(logits, labels, class_weights(task, fold))
    return metrics.validation_score(logits, labels, task.positive is None), loss


def like(p: Tensor, value: Tensor) -> Tensor:
    """A value (m, …) cut to the codes that p has: fewer members may need less padding."""
    return value[:, : p.shape[1]]


def padded_indices(indices: Sequence[np.ndarray]) -> Tensor:
    """Indices of all members (M, n), filled up with their first."""
    longest = max(map(len, indices))
    rows = [np.concatenate([i, np.full(longest - len(i), i[0])]) for i in indices]
    return torch.as_tensor(np.stack(rows))


def class_weights(task: Task, fold: Fold) -> np.ndarray:
    """Weights n / (K n_k), under which every class counts the same in training."""
    counts = np.bincount(task.labels[fold.train], minlength=len(task.classes))
    return len(fold.train) / (len(counts) * counts)


def initial_parameters(
    model: Transformer | OrderFree,
    members: Sequence[Member],
    injected: Mapping[str, StackCodes],
    device: torch.device,
    dtype: torch.dtype,
) -> Parameters:
    """Every member's first parameters, the same for all encodings of a seed and fold."""
    shapes = model.shapes()
    of_members = [draw_parameters(shapes, m.key) for m in members]
    begun = {name: torch.stack([weights[name] for weights in of_members]) for name in shapes}
    begun |= {f"codes.{act}": codes.start for act, codes in injected.items() if codes.trained}
    return {
        name: value.to(device=device, dtype=dtype).clone().requires_grad_()
        for name, value in begun.items()
    }


def capture_cuda_graph(program: Program) -> Callable[[], None]:
    """Capture the whole step as one CUDA graph; the steps that warm it up leave no trace."""
    before = {name: p.detach().clone() for name, p in program.parameters.items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*capturable=True")  # these steps are not captured
        for _ in range(WARM_UP):
            program.eager_step()
    torch.cuda.current_stream().wait_stream(side)
    with torch.no_grad():
        for name, p in program.parameters.items():
            p.copy_(before[name])
            for state in program.optimizer.state[p].values():
                state.zero_()
    program.count.fill_(program.done)
    program.total.zero_()
    program.optimizer.zero_grad(set_to_none=True)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, stream=side):  # whose workspaces are there already
            program.eager_step()
    except RuntimeError as error:
        # ending a capture that has failed fails too, hides why, and stays on its stream
        torch.cuda.set_stream(stream)
        if isinstance(error.__context__, torch.OutOfMemoryError):
            raise error.__context__ from None
        raise
    return graph.replay


Progress = Callable[[int, int, float], None]  # steps taken, members, mean loss


def fit(
    data: Resident,
    model: Transformer | OrderFree,
    members: Sequence[Member],
    schedule: Schedule,
    progress: Progress = lambda steps, members, loss: None,
    checkpoint: Checkpoint | None = None,
) -> list[Outcome]:
    """Train members together; half of them at a time where memory does not hold all."""
    checkpoint = checkpoint or Checkpoint(None)
    try:
        check_room(data, model, members, schedule)
        return Training(data, model, members, schedule, checkpoint).run(progress)
    except RuntimeError as error:
        memory = isinstance(error, torch.OutOfMemoryError)
        if not memory and not any(text in str(error) for text in MEMORY_ENDS):
            raise
        if len(members) == 1 or data.device.type not in HALVED:
            raise PefourierError(
                "memory does not hold the runs trained together; choose a smaller --batch-size or "
                "--d"
            ) from error
    if data.device.type == "cuda":
        torch.cuda.empty_cache()
    half = len(members) // 2
    parts = (members[:half], checkpoint.part(0)), (members[half:], checkpoint.part(1))
    return [o for subset, part in parts for o in fit(data, model, subset, schedule, progress, part)]


def check_room(
    data: Resident,
    model: Transformer | OrderFree,
    members: Sequence[Member],
    schedule: Schedule,
) -> None:
    """Raise that memory ends where a GPU's would, by an eager step of few members.

    A failed capture cannot be recovered from, so that none is tried that would fail.
    """
    if data.device.type != "cuda" or len(members) <= PROBED:
        return
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    Program(data, model, members[:PROBED], schedule, eager=True).eager_step()
    step = torch.cuda.max_memory_allocated() - before
    torch.cuda.empty_cache()
    if step * len(members) / PROBED > ROOM * torch.cuda.mem_get_info()[0]:
        raise torch.OutOfMemoryError("these members would run out of memory")


@dataclass(eq=False)
class Training:
    """Members trained together, with the best weights of each so far."""

    data: Resident
    model: Transformer | OrderFree
    members: Sequence[Member]
    schedule: Schedule
    checkpoint: Checkpoint

    def __post_init__(self) -> None:
        self.program = self.running = Program(self.data, self.model, self.members, self.schedule)
        self.best = {name: p.detach().clone() for name, p in self.program.parameters.items()}
        count = len(self.members)
        self.highest = np.tile([-1.0, np.inf], (count, 1))  # score and loss
        self.best_step = np.zeros(count, dtype=np.int64)  # steps; 0: untrained
        self.curve: list[np.ndarray] = []  # (M, 3) a look
        self.active = np.arange(count)  # members in `running`
        self.seconds, self.stepping, self.member_steps = 0.0, 0.0, 0

    def run(self, progress: Progress) -> list[Outcome]:
        """Train to the end, from a checkpoint if there is one."""
        self.restore()
        while self.running.done < self.schedule.steps and len(self.active):
            began = time.perf_counter()
            loss = self.look()
            progress(self.running.done, len(self.active), loss)
            self.leave()
            self.seconds += time.perf_counter() - began
            self.checkpoint.save_at_times(self.state)
        began = time.perf_counter()
        with torch.no_grad():
            for name, p in self.program.parameters.items():
                p.copy_(self.best[name])
        curves = np.stack(self.curve, axis=1)
        outcomes = collect_outcomes(self.program, self.best_step.tolist(), curves)
        seconds = (self.seconds + time.perf_counter() - began) / len(self.members)
        step = self.stepping / max(self.member_steps, 1) or None
        return [replace(outcome, seconds=seconds, step_seconds=step) for outcome in outcomes]

    def look(self) -> float:
        """Train to the next look, and keep what has become better; the mean training loss."""
        steps = min(self.schedule.every, self.schedule.steps - self.running.done)
        began = time.perf_counter()
        loss = self.running.train(steps).double().cpu().numpy()
        self.stepping += time.perf_counter() - began
        self.member_steps += steps * len(self.active)
        scores = self.running.validate()
        point = np.full((len(self.members), 3), np.nan)  # nan of those who are done
        point[self.active] = np.column_stack([loss, scores])
        self.curve.append(point)
        better = np.flatnonzero(is_better(scores, self.highest[self.active]))
        better = np.array([i for i in better if self.is_going(self.active[i])], dtype=int)
        self.highest[self.active[better]] = scores[better]
        self.keep_better(better)
        self.best_step[self.active[better]] = self.running.done
        return float(loss.mean())

    def is_going(self, member: int) -> bool:
        """Whether a member had patience left when this look began."""
        before = self.running.done - self.schedule.every
        patience = self.schedule.patience
        return patience == 0 or before - self.best_step[member] < patience

    def keep_better(self, better: np.ndarray) -> None:
        """Copy the parameters of members of `running` that have become better."""
        device = self.data.device
        rows, of_all = (torch.as_tensor(x, device=device) for x in (better, self.active[better]))
        for name, p in self.running.parameters.items():
            self.best[name][of_all, : p.shape[1]] = p.detach()[rows]

    def leave(self) -> None:
        """Let those leave whose patience has ended; on a GPU only all together."""
        patience = self.schedule.patience
        waited = self.running.done - self.best_step[self.active]
        staying = np.flatnonzero(waited < patience) if patience else np.arange(len(self.active))
        if len(staying) in (0, len(self.active)) or self.data.device.type == "cpu":
            if 0 < len(staying) < len(self.active):
                self.running = self.running.with_members(staying.tolist())
            self.active = self.active[staying]

    def state(self) -> dict[str, np.ndarray]:
        """All that training goes on from."""
        tensors = self.running.state() | {f"best.{name}": p for name, p in self.best.items()}
        arrays = {name: value.cpu().numpy() for name, value in tensors.items()}
        numbers = [self.running.done, self.seconds, self.stepping, self.member_steps]
        return arrays | {
            "highest": self.highest,
            "kept": self.best_step,
            "curve": np.stack(self.curve),
            "there": self.active.astype(np.int64),
            "numbers": np.array(numbers, dtype=np.float64),
        }

    def restore(self) -> None:
        """Go on from a checkpoint of these members, if there is one."""
        arrays = self.checkpoint.load()
        if arrays is None:
            return
        step, self.seconds, self.stepping, steps = arrays["numbers"].tolist()
        self.member_steps, self.active = int(steps), arrays["there"]
        self.highest, self.best_step, self.curve = (
            arrays["highest"],
            arrays["kept"],
            [*arrays["curve"]],
        )
        device = self.data.device
        tensors = {name: torch.as_tensor(value).to(device) for name, value in arrays.items()}
        self.best = {name: tensors[f"best.{name}"] for name in self.best}
        members = [self.members[i] for i in self.active]
        self.running = Program(self.data, self.model, members, self.schedule, int(step))
        if members:
            self.running.set_state(tensors)


def is_better(scores: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Whether scores with their losses (M, 2) are above others, or as high with clearly less loss.

    >>> is_better(np.array([[0.9, 3.0], [0.8, 1.0], [np.nan, 0.0]]), np.array([[0.8, 2.0]] * 3))
    array([ True,  True, False])
    """
    (score, loss), (highest, lowest) = scores.T, before.T
    return (score > highest) | ((score == highest) & (loss < lowest - LEAST_GAIN))


def collect_outcomes(program: Program, steps: Sequence[int], curves: np.ndarray) -> list[Outcome]:
    """What each member came to, with its curve (looks, 3)."""
    codes, waves = trained_codes(program)
    shared = {k: p for k, p in program.parameters.items() if not is_code(k)}
    parameters = {name: p.detach().cpu().numpy().copy() for name, p in shared.items()}
    valid, test = program.evaluate("valid"), program.evaluate("test")
    return [
        Outcome(
            member=member,
            valid=valid[i],
            test=test[i],
            step=steps[i],
            seconds=0.0,
            codes=codes[i],
            frequencies=waves[i],
            parameters={name: p[i] for name, p in parameters.items()},
            curve=curves[i][~np.isnan(curves[i][:, 0])],
        )
        for i, member in enumerate(program.members)
    ]


@torch.no_grad()
def trained_codes(
    program: Program,
) -> tuple[list[np.ndarray | None], list[np.ndarray | None]]:
    """The codes of all places of each member, and the frequencies of its rotation."""
    members = [m.injection for m in program.members]
    waves = [injection.frequencies for injection in members]
    if isinstance(program.model, OrderFree):
        return [None] * len(members), waves
    codes: list[np.ndarray | None] = [injection.table() for injection in members]
    for act, stacked in program.injected.items():
        trained = program.parameters.get(f"codes.{act}")
        table = stacked.table(trained).cpu().double().numpy()
        for i, member in enumerate(members):
            if member.act != act:
                continue
            codes[i] = table[i]
            if stacked.places is not None and trained is not None and waves[i] is not None:
                moved = torch.where(stacked.learn, trained, stacked.start)[i].cpu().double().numpy()
                waves[i] = moved[: len(waves[i])]
    return codes, waves

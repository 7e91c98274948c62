"""One fused program trains a stack of members: encoding × seed × fold.

Conventions
-----------
A member's initial weights and batches depend on its seed and fold alone, so that encodings are
compared in pairs and a member in a stack is the member alone, up to rounding: a library may add in
another order where it multiplies other numbers of matrices at once. Members may differ in rate,
dropout and decay of weights. Data stay on the device,
windows are gathered there by index, and nothing is read back within an epoch. float32 on a CPU; on
a GPU matrix products in bfloat16, the whole step one CUDA graph.

The epoch with the best score on validation is kept, of equal ones that with the least loss: where
a score reaches 1 early, the first epoch that does is of a model that is not ready. Less by a
hundredth of a nat does not count: the loss of a model that is right about everything falls for as
long as it is trained. The score is
what the test asks for: average precision of two classes, whose threshold is chosen afterwards, and
the macro F1 of more, where the largest logit decides; average precision looks at each class alone
and is 1 for logits that never compare well. The loss alone would end training too soon: weighted by
class, it grows as soon as some windows are surely wrong, long before their ranking is best. A
member that has not become better for `patience` epochs is done and leaves the stack.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from pefourier.errors import PefourierError
from pefourier.train import metrics
from pefourier.train.asked import Schedule, Tuning
from pefourier.train.attention import MemberCodes, as_tensor, codes_by_act
from pefourier.train.data.split import Fold, Task
from pefourier.train.dropout import Dropout
from pefourier.train.injection import ACTS, Injection
from pefourier.train.model import OrderFree, Parameters, Transformer, draw_parameters
from pefourier.train.pace import Pace, is_code

AT_ONCE = 64  # windows a member in evaluation
# Members are dropped where so few are left of 1: a CUDA graph is captured anew, which takes time
STAY = {"cpu": 1 - 1e-9, "cuda": 0.5}
LEAST_GAIN = 0.01  # of the loss, in nats, to be better at an equal score
WARM_UP = 3  # steps before a CUDA graph is captured
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
    epochs: int | None = None  # the one that is kept; None: that which validation likes best

    @property
    def key(self) -> int:
        """What its weights and what it drops are drawn from: its seed and fold alone."""
        return 1_000_003 * self.fold + self.seed


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one member came to: logits of validation and test windows at the epoch kept."""

    member: Member
    valid: np.ndarray  # (n, K)
    test: np.ndarray
    epoch: int  # 0 where training diverged at once: the weights it began with
    seconds: float  # of its stack, over its members
    step: float | None = None  # seconds of a step of its stack, over the members in it
    codes: np.ndarray | None = None  # trained codes of all places
    frequencies: np.ndarray | None = None  # (axes, pairs) of a rotation, where they are known
    parameters: dict[str, np.ndarray] = field(default_factory=dict)  # all but codes
    curve: np.ndarray | None = None  # (epochs, 3): training loss, score and loss on validation

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
        at = self.starts[index][:, :, None] + self.within  # (M, n, L)
        flat = self.rows.index_select(0, at.flatten()).view(*at.shape, -1)
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


def batch_and_steps(task: Task, asked: int) -> tuple[int, int]:
    """Windows a step and steps an epoch that every fold has: facts of the task, not of a stack."""
    least = min(len(fold.train) for fold in task.folds)
    batch = min(asked, least)
    return batch, least // batch


def draw_batches(
    fold: Fold, seed: int, number: int, epoch: int, steps: int, batch: int
) -> np.ndarray:
    """Draw indices of windows (steps, batch) for one member's epoch: a shuffle, without its end."""
    rng = np.random.default_rng([seed, number, epoch])
    return rng.permutation(fold.train)[: steps * batch].reshape(steps, batch)


@dataclass(eq=False)
class Program:
    """The state of a stack in training."""

    data: Resident
    model: Transformer | OrderFree
    members: Sequence[Member]
    schedule: Schedule
    parameters: Parameters = field(init=False)
    injected: dict[str, MemberCodes] = field(init=False)
    replay: Callable[[], None] | None = field(init=False, default=None)  # of a step, on a GPU
    drop: Dropout | None = field(init=False)  # where some member drops
    pace: Pace | None = field(init=False)  # where members do not all go as Adam does

    def __post_init__(self) -> None:
        task, device, dtype = self.data.task, self.data.device, self.data.rows.dtype
        folds = [task.folds[m.fold] for m in self.members]
        # the order-free baseline takes no codes
        injections = [m.injection for m in self.members]
        self.injected = (
            {} if isinstance(self.model, OrderFree) else codes_by_act(injections, device, dtype)
        )
        self.parameters = initial_parameters(self.model, self.members, self.injected, device, dtype)
        shape = (len(self.members), 1, 1, -1)
        self.mean = as_tensor([f.mean for f in folds], device, dtype).view(shape)
        self.scale = as_tensor([f.scale for f in folds], device, dtype).view(shape)
        self.weights = as_tensor([class_weights(task, f) for f in folds], device, dtype)  # (M, K)
        batch, steps = batch_and_steps(task, self.schedule.batch_size)
        size = (len(self.members), batch)
        self.index = torch.zeros(size, dtype=torch.long, device=device)
        self.total = torch.zeros(len(self.members), device=device)
        on_gpu = device.type != "cpu"
        self.tune(self.schedule.warmup * steps)
        groups = [
            {"params": own, "lr": self.fastest[codes]}
            for codes in (False, True)
            if (own := [p for name, p in self.parameters.items() if is_code(name) == codes])
        ]
        self.optimizer = torch.optim.Adam(groups, fused=True, capturable=on_gpu)
        if on_gpu:
            self.replay = capture_cuda_graph(self)

    def tune(self, warm_up: int) -> None:
        """Prepare what members drop, and how far they go; `warm_up` is in steps."""
        tunings = [m.tuning or self.schedule.tuning for m in self.members]
        self.count = torch.zeros((), dtype=torch.int32, device=self.data.device)  # of steps
        self.fastest = {c: max(one.rate_of(c) for one in tunings) for c in (False, True)}
        shares, keys = [one.dropout for one in tunings], [m.key for m in self.members]
        self.drop = Dropout(shares, keys, self.count) if any(shares) else None
        needed = Pace.needed(tunings, warm_up)
        self.pace = Pace(tunings, warm_up, self.count) if needed else None

    def members_of(self, name: str) -> slice:
        """The members that a parameter is of: codes are of those of their act alone."""
        act = name.removeprefix("codes.")
        return slice(None) if act == name else self.injected[act].members

    @contextmanager
    def precision(self) -> Iterator[None]:
        """bfloat16 matrix products on a GPU, in training alone."""
        if self.data.device.type == "cpu":
            yield
            return
        cast = torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False)
        with cast, sdpa_kernel(KERNELS):
            yield

    def loss(self, index: Tensor) -> Tensor:
        """Class-weighted cross entropy of each member's windows (M, n), shape (M, n)."""
        with self.precision():
            drop = self.drop and self.drop.begin()
            logits, y = self.logits(index, drop), self.data.labels[index]
        kept = {"ignore_index": metrics.UNASKED, "reduction": "none"}
        each = F.cross_entropy(logits.flatten(0, -2), y.flatten(), **kept).view_as(y)
        if y.dim() == 3:  # (M, n, T): of the tokens that are asked for
            return each.sum(dim=2) / (y != metrics.UNASKED).sum(dim=2)
        return each * self.weights.gather(1, y)

    def logits(self, index: Tensor, drop: Dropout | None = None) -> Tensor:
        """Logits (M, n, K) of each member's windows (M, n); `drop` is given in training."""
        x = self.data.windows(index, self.mean, self.scale)
        there = None if self.data.lengths is None else self.data.lengths[index]
        found = self.model.logits(self.parameters, self.injected, x, drop, there)
        return found.to(self.weights.dtype)

    def step(self) -> None:
        """One step, on a GPU that which was captured."""
        if self.replay is None:
            self.eager_step()
        else:
            self.replay()

    def eager_step(self) -> None:
        """One step of Adam for every member on the windows in `index`."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.index).mean(dim=1)  # (M,)
        loss.sum().backward()  # members share no parameter: each gets its own gradient
        if self.pace is None:
            self.optimizer.step()
        else:
            self.pace.shorten(self.optimizer.step, self.parameters, self.members_of)
        if self.drop is not None or self.pace is not None:
            self.count += 1
        self.total += loss.detach()

    def train_epoch(self, number: int) -> Tensor:
        """Train for an epoch; mean training loss of each member."""
        task = self.data.task
        batch, steps = batch_and_steps(task, self.schedule.batch_size)
        drawn = [
            draw_batches(task.folds[m.fold], m.seed, m.fold, number, steps, batch)
            for m in self.members
        ]
        order = torch.as_tensor(np.stack(drawn, axis=1)).to(self.data.device)  # (steps, M, B)
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
        every = logits.cpu().double().numpy()
        return [one[: len(own)] for one, own in zip(every, indices, strict=True)]

    def validate(self) -> np.ndarray:
        """Score and loss of each member on its validation windows (M, 2); nan where diverged."""
        every = zip(self.members, self.evaluate("valid"), strict=True)
        return np.array([score_and_loss(self.data.task, m.fold, logits) for m, logits in every])

    def with_members(self, own: Sequence[int]) -> "Program":
        """A program of some of the members, at the same point of their training."""
        self.replay = None  # a GPU's memory has room for one graph
        fewer = Program(self.data, self.model, [self.members[i] for i in own], self.schedule)
        fewer.count.copy_(self.count)
        at = torch.as_tensor(own, device=self.data.device)
        for name, p in fewer.parameters.items():
            before = self.parameters[name]
            chosen = self.places(name, at)
            with torch.no_grad():
                p.copy_(like(p, before[chosen]))
            state = fewer.optimizer.state[p]
            for key, value in self.optimizer.state[before].items():
                own_value = like(p, value[chosen]) if value.dim() else value
                state[key] = state[key].copy_(own_value) if key in state else own_value.clone()
        return fewer

    def places(self, name: str, members: Tensor) -> Tensor:
        """Where a parameter has these members: codes are of the members of their act alone."""
        own = self.members_of(name)
        if own == slice(None):
            return members
        return members[(members >= own.start) & (members < own.stop)] - own.start


def score_and_loss(task: Task, number: int, logits: np.ndarray) -> tuple[float, float]:
    """Score and loss of the logits (n, K) of a fold's validation windows; nan where it diverged."""
    fold = task.folds[number]
    labels = task.labels[fold.valid]
    if not np.isfinite(logits).all():
        return np.nan, np.nan
    if labels.ndim == 2:
        return metrics.share_exact(logits, labels), metrics.token_entropy(logits, labels)
    loss = metrics.cross_entropy(logits, labels, class_weights(task, fold))
    return metrics.validation_score(logits, labels, task.positive is None), loss


def like(p: Tensor, value: Tensor) -> Tensor:
    """A value (m, …) cut to the codes that p has: fewer members may need less padding."""
    return value[:, : p.shape[1]]


def padded_indices(indices: Sequence[np.ndarray]) -> Tensor:
    """Indices of all members (M, n), filled up with their first."""
    most = max(map(len, indices))
    rows = [np.concatenate([i, np.full(most - len(i), i[0])]) for i in indices]
    return torch.as_tensor(np.stack(rows))


def class_weights(task: Task, fold: Fold) -> np.ndarray:
    """Weights n / (K n_k), under which every class counts the same in training."""
    if task.labels.ndim == 2:  # of tokens
        return np.ones(len(task.classes))
    counts = np.bincount(task.labels[fold.train], minlength=len(task.classes))
    return len(fold.train) / (len(counts) * counts)


def initial_parameters(
    model: Transformer | OrderFree,
    members: Sequence[Member],
    injected: dict[str, MemberCodes],
    device: torch.device,
    dtype: torch.dtype,
) -> Parameters:
    """Every member's first parameters, the same for all encodings of a seed and fold."""
    shapes = model.shapes()
    alone = [draw_parameters(shapes, m.key) for m in members]
    begun = {name: torch.stack([one[name] for one in alone]) for name in shapes}
    begun |= {f"codes.{act}": one.start for act, one in injected.items() if one.trained}
    return {
        name: value.to(device=device, dtype=dtype).clone().requires_grad_()
        for name, value in begun.items()
    }


def capture_cuda_graph(program: Program) -> Callable[[], None]:
    """Capture the whole step as one CUDA graph; the steps that warm it up leave no trace."""
    kept = {name: p.detach().clone() for name, p in program.parameters.items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*capturable=True")  # these steps are not captured
        for _ in range(WARM_UP):
            program.eager_step()
    torch.cuda.current_stream().wait_stream(side)
    with torch.no_grad():
        for name, p in program.parameters.items():
            p.copy_(kept[name])
            for state in program.optimizer.state[p].values():
                state.zero_()
    program.count.zero_()
    program.optimizer.zero_grad(set_to_none=True)
    graph, own = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, stream=side):  # whose workspaces are there already
            program.eager_step()
    except RuntimeError as error:
        # ending a capture that has failed fails too, hides why, and stays on its stream
        torch.cuda.set_stream(own)
        if isinstance(error.__context__, torch.OutOfMemoryError):
            raise error.__context__ from None
        raise
    return graph.replay


Progress = Callable[[int, int, float], None]  # epoch, members, mean loss


def fit(
    data: Resident,
    model: Transformer | OrderFree,
    members: Sequence[Member],
    schedule: Schedule,
    progress: Progress = lambda epoch, members, loss: None,
) -> list[Outcome]:
    """Train members together; half of them at a time where a GPU's memory does not hold all."""
    ordered = sorted(members, key=lambda m: ACTS.index(m.injection.act))
    try:
        return train_together(data, model, ordered, schedule, progress)
    except torch.OutOfMemoryError as error:
        if len(ordered) == 1:
            raise PefourierError(
                "the GPU's memory does not hold one member; choose a smaller --batch-size or --d"
            ) from error
    except RuntimeError as error:
        if "DefaultCPUAllocator" not in str(error):
            raise
        raise PefourierError(
            "memory does not hold the runs trained together; choose a smaller --batch-size or --d"
        ) from error
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    half = len(ordered) // 2
    parts = ordered[:half], ordered[half:]
    return [o for part in parts for o in fit(data, model, part, schedule, progress)]


def train_together(
    data: Resident,
    model: Transformer | OrderFree,
    members: Sequence[Member],
    schedule: Schedule,
    progress: Progress,
) -> list[Outcome]:
    """Train members, given in the order of their acts, and keep each one's best epoch."""
    began = time.perf_counter()
    whole = running = Program(data, model, members, schedule)
    best = {name: p.detach().clone() for name, p in whole.parameters.items()}
    highest = np.tile([-1.0, np.inf], (len(members), 1))  # score and loss
    kept = np.zeros(len(members), dtype=int)  # 0: untrained
    curve: list[np.ndarray] = []  # (M, 3) an epoch
    given, there = np.array([m.epochs or 0 for m in members]), np.arange(len(members))
    going = np.ones(len(members), dtype=bool)  # not done
    stepped, stepping = 0, 0.0  # members' steps, and the seconds of them
    for epoch in range(schedule.epochs):
        epoch_began = time.perf_counter()
        loss = running.train_epoch(epoch).double().cpu()
        stepping += time.perf_counter() - epoch_began
        stepped += len(there) * batch_and_steps(data.task, schedule.batch_size)[1]
        found = running.validate()
        point = np.full((len(members), 3), np.nan)  # nan of those who are done
        point[there] = np.column_stack([loss.numpy(), found])
        curve.append(point)
        likes = is_better(found, highest[there])
        better = going[there] & np.where(given[there] > 0, given[there] == epoch + 1, likes)
        highest[there[better]], kept[there[better]] = found[better], epoch + 1
        keep_better(best, whole, running, there, np.flatnonzero(better))
        progress(epoch + 1, len(there), float(loss.mean()))
        going &= not_done(epoch + 1, given, kept, schedule.patience)
        left = np.flatnonzero(going[there])
        if len(left) == 0:
            break
        if len(left) <= len(there) * STAY[data.device.type]:
            running, there = running.with_members(left), there[left]
    put_back(whole, best)
    seconds = (time.perf_counter() - began) / len(members)
    curves = np.stack(curve, axis=1)
    return collect_outcomes(whole, kept.tolist(), curves, seconds, stepping / stepped)


def not_done(done: int, given: np.ndarray, kept: np.ndarray, patience: int) -> np.ndarray:
    """Which members train on after `done` epochs: those given a number, or while patience lasts.

    >>> not_done(5, np.array([0, 0, 9]), np.array([4, 1, 0]), 3).tolist()
    [True, False, True]
    """
    return np.where(given > 0, done < given, (patience == 0) | (done - kept < patience))


def put_back(program: Program, best: Mapping[str, Tensor]) -> None:
    """Let parameters be those of the best epoch."""
    with torch.no_grad():
        for name, p in program.parameters.items():
            p.copy_(best[name])


def still_falls(curve: np.ndarray, kept: int, epochs: int) -> bool:
    """Whether patience ended a run (epochs, 3) though its losses still fell on both parts.

    Of the epochs after the one that was kept the second half is compared with the first.

    >>> falls = np.column_stack([np.linspace(1, 0, 10), np.zeros(10), np.linspace(1, 0.5, 10)])
    >>> still_falls(falls, 2, 20), still_falls(falls, 2, 10), still_falls(falls[::-1], 2, 20)
    (True, False, False)
    """
    waited = curve[kept:, [0, 2]]
    half = len(waited) // 2
    if half == 0 or len(curve) >= epochs:
        return False
    gained = waited[:half].mean(axis=0) - waited[-half:].mean(axis=0)
    return bool((gained > LEAST_GAIN).all())


def is_better(found: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Whether scores with their losses (M, 2) are above others, or as high with clearly less loss.

    >>> is_better(np.array([[0.9, 3.0], [0.8, 1.0], [np.nan, 0.0]]), np.array([[0.8, 2.0]] * 3))
    array([ True,  True, False])
    """
    (score, loss), (highest, least) = found.T, before.T
    return (score > highest) | ((score == highest) & (loss < least - LEAST_GAIN))


def keep_better(
    best: Parameters, whole: Program, running: Program, there: np.ndarray, better: np.ndarray
) -> None:
    """Copy the parameters of the members that have become better, of those in training."""
    device = whole.data.device
    own, all_own = (torch.as_tensor(x, device=device) for x in (better, there[better]))
    for name, p in running.parameters.items():
        value = p.detach()[running.places(name, own)]
        best[name][whole.places(name, all_own), : p.shape[1]] = value


def collect_outcomes(
    program: Program, kept: Sequence[int], curves: np.ndarray, seconds: float, step: float
) -> list[Outcome]:
    """What each member came to, with its curve (epochs, 3)."""
    codes: list[np.ndarray | None] = [None] * len(program.members)
    waves: list[np.ndarray | None] = [m.injection.frequencies for m in program.members]
    with torch.no_grad():
        for act, one in program.injected.items():
            trained = program.parameters.get(f"codes.{act}")
            codes[one.members] = list(one.table(trained).cpu().double().numpy())
            if one.places is not None and trained is not None:
                moved = torch.where(one.learn, trained, one.start).cpu().double().numpy()
                cut = zip(waves[one.members], moved, strict=True)
                waves[one.members] = [w if w is None else m[: len(w)] for w, m in cut]
    shared = {k: p for k, p in program.parameters.items() if not is_code(k)}
    every = {name: p.detach().cpu().numpy().copy() for name, p in shared.items()}
    valid, test = program.evaluate("valid"), program.evaluate("test")
    return [
        Outcome(
            member=member,
            valid=valid[i],
            test=test[i],
            epoch=kept[i],
            seconds=seconds,
            step=step,
            codes=codes[i],
            frequencies=waves[i],
            parameters={name: p[i] for name, p in every.items()},
            curve=curves[i][~np.isnan(curves[i][:, 0])],
        )
        for i, member in enumerate(program.members)
    ]

"""Trains a stack of members, encoding × seed × fold, as one program; read it from top to bottom.

Conventions
-----------
`fit` trains a stack from one look at validation to the next (`Training`), each a number of steps
of all members (`Program`). A member's initial weights, batches and what it drops depend on its seed
and fold alone, so that encodings are compared in pairs and a member in a stack is the member alone,
up to rounding: a library may add in another order where it multiplies other numbers of matrices at
once. Members may differ in rate and dropout. Data stay on the device, windows are
gathered there by index, and nothing is read back between two looks. float32 on a CPU; on a GPU
matrix products in bfloat16 where it has them, and the whole step one CUDA graph.

Every `schedule.every` steps weights are looked at on validation windows, and the best are kept, of
equal ones those with the least loss: where a score reaches 1 early, the first weights that do are
of a model that is not ready. Less by a hundredth of a nat does not count: the loss of a model that
is right about everything falls for as long as it is trained. The score is what the test asks for:
average precision of two classes, whose threshold is chosen afterwards, and the macro F1 of more,
where the largest logit decides. The loss alone would end training too soon: weighted by class, it
grows as soon as some windows are surely wrong, long before their ranking is best. A member that has
not become better for `schedule.patience` steps is done and leaves the stack.

A checkpoint has all that training goes on from: parameters now and at their best, Adam's means,
who is done, and the step. Everything else is drawn from seed, fold and step.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pefourier.errors import PefourierError
from pefourier.train import device_data, metrics
from pefourier.train.data.split import Task
from pefourier.train.device_data import Resident, class_weights
from pefourier.train.injection import Injection
from pefourier.train.model import (
    Classifier,
    Dropout,
    OrderFree,
    Parameters,
    as_tensor,
    draw_parameters,
    stack_codes,
)
from pefourier.train.request import FASTER, Schedule, Tuning
from pefourier.train.store import Checkpoint

AT_ONCE = 64  # windows a member in evaluation
LEAST_GAIN = 0.01  # of the loss, in nats, to be better at an equal score
MEMORY_ENDS = (
    *("out of memory", "DefaultCPUAllocator", "_STATUS_ALLOC_FAILED"),
    "CUBLAS_STATUS_NOT_INITIALIZED",  # there is no room for its workspace
)


@dataclass(frozen=True, eq=False)
class Replica:
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


def no_rows() -> np.ndarray:
    """What there is of codes that a model does not take, and of looks at one fitted at once."""
    return np.zeros((0, 3))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one member came to: logits of validation and test windows with the weights kept."""

    member: Replica
    valid: np.ndarray  # (n, K)
    test: np.ndarray
    step: int  # 0 where training diverged at once: the weights it began with
    seconds: float  # of its stack, over its members
    codes: np.ndarray = field(default_factory=no_rows)  # trained ones of all places
    frequencies: np.ndarray | None = None  # (axes, pairs) of a rotation, where they are known
    parameters: dict[str, np.ndarray] = field(default_factory=dict)  # all but codes
    curve: np.ndarray = field(default_factory=no_rows)  # (looks, 3): loss; score, loss validated

    @property
    def finite(self) -> bool:
        """Whether its logits are finite; even the weights a member began with may give others."""
        return bool(np.isfinite(self.valid).all() and np.isfinite(self.test).all())


@dataclass(eq=False)
class Program:
    """The state of a stack in training."""

    data: Resident
    model: Classifier
    members: Sequence[Replica]
    schedule: Schedule
    eager: bool = False  # on a GPU: no graphs are captured
    done: int = field(init=False, default=0)  # steps
    replay: Callable[[], None] | None = field(init=False, default=None)  # of a step, on a GPU
    replay_look: Callable[[], None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        task, device, dtype = self.data.task, self.data.device, self.data.rows.dtype
        injections = [m.injection for m in self.members]
        blind = isinstance(self.model, OrderFree)  # it takes no codes
        self.injected = {} if blind else stack_codes(injections, device, dtype)
        self.parameters = self.draw_parameters()
        folds = [task.folds[m.fold] for m in self.members]
        shape = (len(folds), 1, 1, -1)
        self.mean = as_tensor([f.mean for f in folds], device, dtype).view(shape)
        self.scale = as_tensor([f.scale for f in folds], device, dtype).view(shape)
        self.weights = as_tensor([class_weights(task, f) for f in folds], device, dtype)  # (M, K)
        size = (len(folds), device_data.batch_and_steps(task, self.schedule.batch_size)[0])
        self.index = torch.zeros(size, dtype=torch.long, device=device)
        self.total = torch.zeros(len(folds), device=device)
        self.seen = torch.zeros((len(folds), AT_ONCE), dtype=torch.long, device=device)
        self.answers = self.mean.new_zeros(*self.seen.shape, len(task.classes))
        self.set_pace()
        if device.type == "cuda" and not self.eager:
            self.replay_look, self.replay = device_data.capture_cuda_graphs(self)

    def draw_parameters(self) -> Parameters:
        """Every member's first parameters, the same for all encodings of a seed and fold."""
        shapes, kind = self.model.shapes(), self.data.rows
        of_members = [draw_parameters(shapes, m.key) for m in self.members]
        begun = {name: torch.stack([weights[name] for weights in of_members]) for name in shapes}
        begun |= {f"codes.{act}": c.start for act, c in self.injected.items() if c.trained}
        return {name: p.to(kind).clone().requires_grad_() for name, p in begun.items()}

    def set_pace(self) -> None:
        """Prepare what members drop, and how far they go: Adam at the rate of the fastest."""
        device = self.data.device
        tunings = [m.tuning or self.schedule for m in self.members]
        self.count = torch.full((), self.done, dtype=torch.int32, device=device)
        shares, keys = [tuning.dropout for tuning in tunings], [m.key for m in self.members]
        self.drop = Dropout(shares, keys, device) if any(shares) else None
        rates = torch.tensor([tuning.rate for tuning in tunings], dtype=torch.float64)
        fastest = float(rates.max())
        is_uniform = not self.schedule.warmup and bool((rates == fastest).all())
        self.pace = None if is_uniform else (rates / fastest).to(device)  # (M,) shares of a step
        groups = [
            {"params": group, "lr": FASTER * fastest if codes else fastest}
            for codes in (False, True)
            if (group := [p for name, p in self.parameters.items() if is_code(name) == codes])
        ]
        self.optimizer = torch.optim.Adam(groups, fused=True, capturable=device.type != "cpu")

    def loss(self, index: Tensor) -> Tensor:
        """Class-weighted cross entropy of each member's windows (M, n), shape (M, n)."""
        with device_data.training_precision(self.data.device):
            drop = self.drop and self.drop.begin(self.done)
            logits, y = self.logits(index, drop), self.data.labels[index]
        entropy = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none").view_as(y)
        return entropy * self.weights.gather(1, y)

    def logits(self, index: Tensor, drop: Dropout | None = None) -> Tensor:
        """Logits (M, n, K) of each member's windows (M, n); `drop` is given in training."""
        x = self.data.windows(index, self.mean, self.scale)
        lengths = None if self.data.lengths is None else self.data.lengths[index]
        logits = self.model.logits(self.parameters, self.injected, x, drop, lengths, index)
        return logits.to(self.weights.dtype)

    def step(self) -> None:
        """One step of Adam for every member on the windows in `index`."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.index).mean(dim=1)  # (M,)
        # members share no parameter: each gets its own gradient
        torch.autograd.backward(loss.sum())
        if self.pace is None:
            self.optimizer.step()
        else:
            before = [p.detach().clone() for p in self.parameters.values()]
            self.optimizer.step()
            self.shorten_step(self.pace, before)
        self.count += 1
        self.total += loss.detach()

    @torch.no_grad()
    def shorten_step(self, pace: Tensor, before: Sequence[Tensor]) -> None:
        """Go back part of the way to the parameters before a step, each member its own."""
        share = pace * ((self.count + 1) / max(self.schedule.warmup, 1)).clamp(max=1.0)
        for start, p in zip(before, self.parameters.values(), strict=True):
            p.copy_(torch.lerp(start, p, share.view(-1, *(1,) * (p.dim() - 1)).to(p.dtype)))

    def train(self, steps: int) -> Tensor:
        """Train for some steps; mean training loss of each member."""
        span = self.done, steps, self.schedule.batch_size
        keys = [(m.seed, m.fold) for m in self.members]
        batches = {
            key: device_data.draw_batches(self.data.task, *key, *span)
            for key in dict.fromkeys(keys)
        }
        order = torch.as_tensor(np.stack([batches[key] for key in keys], axis=1))  # (steps, M, B)
        self.total.zero_()
        for index in order.to(self.data.device):
            self.index.copy_(index)
            (self.replay or self.step)()
            self.done += 1
        return self.total / steps

    @torch.no_grad()
    def look(self) -> None:
        """Write the logits of the windows in `seen` into `answers`."""
        self.answers.copy_(self.logits(self.seen))

    def evaluated(self, index: Tensor) -> Tensor:
        """Logits (M, n, K) of at most AT_ONCE windows (M, n); a graph looks at as many always."""
        if self.replay_look is None:
            return self.logits(index)
        count = index.shape[1]
        self.seen[:, :count] = index
        self.replay_look()
        return self.answers[:, :count].clone()

    @torch.no_grad()
    def evaluate(self, part: str) -> list[np.ndarray]:
        """Logits (n, K) of each member's windows of a part."""
        indices = [getattr(self.data.task.folds[m.fold], part) for m in self.members]
        index = device_data.padded_indices(indices).to(self.data.device)
        logits = torch.cat([self.evaluated(i) for i in torch.split(index, AT_ONCE, dim=1)], dim=1)
        padded = logits.cpu().double().numpy()
        return [rows[: len(windows)] for rows, windows in zip(padded, indices, strict=True)]

    def validate(self) -> np.ndarray:
        """Score and loss of each member on its validation windows (M, 2); nan where diverged."""
        pairs = zip(self.members, self.evaluate("valid"), strict=True)
        return np.array([score_and_loss(self.data.task, m.fold, logits) for m, logits in pairs])

    def state(self) -> dict[str, Tensor]:
        """Parameters and Adam's means, all with the member first, by name."""
        tensors: dict[str, Tensor] = {}
        for name, p in self.parameters.items():
            now = {"now": p.detach(), **self.optimizer.state[p]}
            tensors |= {f"{key}.{name}": value for key, value in now.items() if key != "step"}
        return tensors

    @torch.no_grad()
    def set_state(self, tensors: Mapping[str, Tensor], done: int) -> None:
        """Go on from parameters and means; codes may have been padded for more members."""
        self.done = done
        self.count.fill_(done)
        for name, p in self.parameters.items():
            shape = tuple(map(slice, p.shape))
            p.copy_(tensors[f"now.{name}"][shape])
            state = self.optimizer.state[p]
            values = {key: tensors[f"{key}.{name}"][shape] for key in ("exp_avg", "exp_avg_sq")}
            values["step"] = torch.tensor(float(done), device=p.device)
            for key, value in values.items():  # a graph has the tensors that there are
                state[key] = state[key].copy_(value) if key in state else value.clone()

    def with_members(self, chosen: Sequence[int]) -> "Program":
        """A program of some of the members, at the same point of their training."""
        members = [self.members[i] for i in chosen]
        fewer = Program(self.data, self.model, members, self.schedule)
        index = torch.as_tensor(chosen, device=self.data.device)
        fewer.set_state({k: value[index] for k, value in self.state().items()}, self.done)
        return fewer


def score_and_loss(task: Task, number: int, logits: np.ndarray) -> tuple[float, float]:
    """Score and loss of the logits (n, K) of a fold's validation windows; nan where it diverged."""
    fold = task.folds[number]
    labels = task.labels[fold.valid]
    if not np.isfinite(logits).all():
        return np.nan, np.nan
    loss = metrics.cross_entropy(logits, labels, class_weights(task, fold))
    return metrics.validation_score(logits, labels, macro=task.positive is None), loss


def is_code(name: str) -> bool:
    """Whether a parameter is one of codes."""
    return name.startswith("codes.")


Progress = Callable[[int, int, float], None]  # steps taken, members, mean loss


def fit(
    data: Resident,
    model: Classifier,
    members: Sequence[Replica],
    schedule: Schedule,
    progress: Progress = lambda *_: None,
    checkpoint: Checkpoint | None = None,
) -> list[Outcome]:
    """Train members together, or as many at a time as memory holds."""
    outcomes, checkpoint = list[Outcome](), checkpoint or Checkpoint(None)
    try:
        size = device_data.count_fitting(
            data.device,
            len(members),
            lambda count: Program(data, model, members[:count], schedule, eager=True).step(),
        )
        for first in range(0, len(members), size):
            part = members[first : first + size]
            file = checkpoint if len(part) == len(members) else checkpoint.part(first, len(part))
            outcomes += Training(data, model, part, schedule, file).run(progress)
    except RuntimeError as error:
        memory = isinstance(error, torch.OutOfMemoryError)
        if not memory and not any(text in str(error) for text in MEMORY_ENDS):
            raise
        raise PefourierError(
            "memory does not hold the runs trained together; choose a smaller --batch-size or --d"
        ) from error
    return outcomes


@dataclass(eq=False)
class Training:
    """Members trained together, with the best weights of each so far."""

    data: Resident
    model: Classifier
    members: Sequence[Replica]
    schedule: Schedule
    checkpoint: Checkpoint

    def __post_init__(self) -> None:
        self.running = Program(self.data, self.model, self.members, self.schedule)
        self.best = {name: p.detach().clone() for name, p in self.running.parameters.items()}
        count = len(self.members)
        self.highest: np.ndarray = np.tile([-1.0, np.inf], (count, 1))  # score and loss
        self.best_step: np.ndarray = np.zeros(count, dtype=np.int64)  # steps; 0: untrained
        self.curve: np.ndarray = np.zeros((0, count, 3))  # of each look; nan of those who are done
        self.active: np.ndarray = np.arange(count)  # members in `running`
        self.seconds = 0.0

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
        return self.collect_outcomes()

    def look(self) -> float:
        """Train to the next look, and keep what has become better; the mean training loss."""
        steps = min(self.schedule.every, self.schedule.steps - self.running.done)
        patient = self.is_patient()
        loss = self.running.train(steps).double().cpu().numpy()
        scores = self.running.validate()
        point = np.full((1, len(self.members), 3), np.nan)
        point[0, self.active] = np.column_stack([loss, scores])
        self.curve = np.concatenate([self.curve, point])
        better = np.flatnonzero(is_better(scores, self.highest[self.active]) & patient)
        members = self.active[better]
        self.highest[members], self.best_step[members] = scores[better], self.running.done
        rows, of_all = (torch.as_tensor(x, device=self.data.device) for x in (better, members))
        for name, p in self.running.parameters.items():
            places: tuple[Tensor | slice, ...] = (of_all, *map(slice, p.shape[1:]))
            self.best[name][places] = p.detach()[rows]
        return float(loss.mean())

    def is_patient(self) -> np.ndarray:
        """Which members of `running` have steps left without better weights."""
        waited = self.running.done - self.best_step[self.active]
        return np.asarray(waited < (self.schedule.patience or np.inf))

    def leave(self) -> None:
        """Let those leave whose patience has ended; on a GPU only all together."""
        patient = self.is_patient()
        if not patient.any():
            self.active = self.active[:0]
        elif not patient.all() and self.data.device.type == "cpu":
            self.running = self.running.with_members(np.flatnonzero(patient).tolist())
            self.active = self.active[patient]

    def state(self) -> dict[str, np.ndarray]:
        """All that training goes on from."""
        tensors = self.running.state() | {f"best.{name}": p for name, p in self.best.items()}
        return {name: value.cpu().numpy() for name, value in tensors.items()} | {
            "highest": self.highest,
            "kept": self.best_step,
            "curve": self.curve,
            "there": self.active,
            "numbers": np.array([self.running.done, self.seconds]),
        }

    def restore(self) -> None:
        """Go on from a checkpoint of these members, if there is one."""
        arrays = self.checkpoint.load()
        if arrays is None:
            return
        names = ("highest", "kept", "curve", "there")
        self.highest, self.best_step, self.curve, self.active = (arrays[name] for name in names)
        done, self.seconds = map(float, arrays["numbers"])
        device = self.data.device
        tensors = {name: torch.as_tensor(value).to(device) for name, value in arrays.items()}
        self.best = {name: tensors[f"best.{name}"] for name in self.best}
        members = [self.members[i] for i in self.active.tolist()]
        if 0 < len(members) < len(self.members):
            self.running = Program(self.data, self.model, members, self.schedule)
        if members:
            self.running.set_state(tensors, int(done))

    def collect_outcomes(self) -> list[Outcome]:
        """What each member came to, with its best weights."""
        program = self.running
        if len(program.members) < len(self.members):
            program = Program(self.data, self.model, self.members, self.schedule)
        with torch.no_grad():
            for name, p in program.parameters.items():
                p.copy_(self.best[name])
        codes = trained_codes(program)
        parameters = {
            name: p.detach().cpu().numpy().copy()
            for name, p in program.parameters.items()
            if not is_code(name)
        }
        valid, test = program.evaluate("valid"), program.evaluate("test")
        return [
            Outcome(
                member=member,
                valid=valid[i],
                test=test[i],
                step=int(self.best_step[i]),
                seconds=self.seconds / len(self.members),
                codes=codes[i][0],
                frequencies=codes[i][1],
                parameters={name: p[i] for name, p in parameters.items()},
                curve=self.curve[~np.isnan(self.curve[:, i, 0]), i],
            )
            for i, member in enumerate(program.members)
        ]


def is_better(scores: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Whether scores with their losses (M, 2) are above others, or as high with clearly less loss.

    >>> is_better(np.array([[0.9, 3.0], [0.8, 1.0], [np.nan, 0.0]]), np.array([[0.8, 2.0]] * 3))
    array([ True,  True, False])
    """
    (score, loss), (highest, lowest) = scores.T, before.T
    return np.asarray((score > highest) | ((score == highest) & (loss < lowest - LEAST_GAIN)))


@torch.no_grad()
def trained_codes(program: Program) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """The codes of all places of each member, and the frequencies of its rotation."""
    injections = [m.injection for m in program.members]
    if isinstance(program.model, OrderFree):
        return [(no_rows(), injection.frequencies) for injection in injections]
    p = program.parameters
    fixed = {act: c for act, c in program.injected.items() if c.index.dim() == 2}
    tables = {act: c.table(p.get(f"codes.{act}")).cpu() for act, c in fixed.items()}
    pairs = []
    for i, injection in enumerate(injections):
        codes, waves = injection.table(), injection.frequencies
        if injection.act in tables:
            codes = tables[injection.act][i, :, : codes.shape[1]].double().numpy()
        if injection.learn and waves is not None:
            moved = p["codes.rotate"].detach()[i, : len(waves)].cpu().double().numpy()
            waves = np.where(waves != 0, moved, waves)
        pairs.append((codes, waves))
    return pairs

"""Training of a stack of members (encoding × seed × fold) as one program, from top to bottom.

Conventions
-----------
`fit` trains a stack from one validation look to the next (`Training`); between two looks, all
members take a number of steps (`program.Program`). A member's initial weights, batches and dropout
depend only on its seed and fold. Encodings are therefore compared in pairs, and a member trains in
a stack as it does alone, up to rounding: a library may sum in another order for another number of
matrices. Members may differ in rate and dropout. Data stay on the device, windows are gathered
there by index, and nothing is read back between two looks.

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

A checkpoint holds all that training needs to continue: current and best parameters, Adam's means,
the members still in training, and the step. Everything else follows from seed, fold and step.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pefourier.errors import PefourierError
from pefourier.train.data.split import Task
from pefourier.train.model import Classifier, OrderFree, Parameters
from pefourier.train.program import (
    CAPTURING,
    COMPILING,
    Compiler,
    Outcome,
    Program,
    Replica,
    Resident,
    class_weights,
    fetch,
    is_vector,
    no_rows,
    seconds_of_step,
    send,
)
from pefourier.train.request import Schedule
from pefourier.train.run_artifacts import cross_entropy, validation_score
from pefourier.train.store import Checkpoint
from pefourier.types import Array

LEAST_GAIN = 0.01  # decrease of the loss, in nats, that counts as better at an equal score
AHEAD = {"cpu": 0, "cuda": 1}  # looks that a device receives before the last is scored
SIZES = sorted({1, *(2**i for i in range(1, 21)), *(3 * 2**i for i in range(20))})  # of stacks
MEMORY_ENDS = (
    *("out of memory", "DefaultCPUAllocator", "_STATUS_ALLOC_FAILED"),
    "CUBLAS_STATUS_NOT_INITIALIZED",  # no memory for its workspace
)


def score_members(program: Program, logits: Sequence[Array]) -> Array:
    """Score and loss (M, 2) of each member's validation windows, from their logits (n, K)."""
    pairs = zip(program.members, logits, strict=True)
    return np.array([score_and_loss(program.data.task, m.fold, rows) for m, rows in pairs])


def score_and_loss(task: Task, number: int, logits: Array) -> tuple[float, float]:
    """Score and loss of a fold's validation windows by logits (n, K); nan after divergence."""
    fold = task.folds[number]
    labels = task.labels[fold.valid]
    if not np.isfinite(logits).all():
        return np.nan, np.nan
    loss = cross_entropy(logits, labels, class_weights(task, fold))
    return validation_score(logits, labels, macro=task.positive is None), loss


Progress = Callable[[int, int, float], None]  # steps taken, members, mean loss


def fit(
    data: Resident,
    model: Classifier,
    members: Sequence[Replica],
    schedule: Schedule,
    progress: Progress = lambda *_: None,
    checkpoint: Checkpoint | None = None,
    compiler: Compiler | None = None,
) -> list[Outcome]:
    """Train members together."""
    file = checkpoint or Checkpoint(None)
    try:
        return Training(data, model, members, schedule, file, compiler).run(progress)
    except RuntimeError as error:
        memory = isinstance(error, torch.OutOfMemoryError)
        if not memory and not any(text in str(error) for text in MEMORY_ENDS):
            raise
        raise PefourierError(
            "the runs of a stack do not fit into memory; choose a smaller --batch-size or --d"
        ) from error


@dataclass(frozen=True, eq=False)
class Look:
    """Results of a program at a validation look, readable once `wait` returns."""

    program: Program
    active: Array  # its members
    begun: int  # steps before the look
    done: int  # steps after the look
    results: Sequence[Tensor]  # mean training loss (M,) and logits of validation windows
    wait: Callable[[], None]
    parameters: Parameters


@dataclass(eq=False)
class Training:
    """Training of a stack: its members and the best weights of each so far."""

    data: Resident
    model: Classifier
    members: Sequence[Replica]
    schedule: Schedule
    checkpoint: Checkpoint
    compiler: Compiler | None = None

    def __post_init__(self) -> None:
        self.running = self.program_of(self.members)
        self.best = {name: p.detach().clone() for name, p in self.running.parameters.items()}
        count = len(self.members)
        self.highest: Array = np.tile([-1.0, np.inf], (count, 1))  # score and loss
        self.best_step: Array = np.zeros(count, dtype=np.int64)  # steps; 0: untrained
        self.curve: Array = np.zeros((0, count, 3))  # by look; nan for finished members
        self.active: Array = np.arange(count)  # members in `running`
        self.seconds = 0.0

    def program_of(self, members: Sequence[Replica], *, eager: bool = False) -> Program:
        """Return a program of some of the members in their initial state."""
        return Program(self.data, self.model, members, self.schedule, self.compiler, eager)

    def run(self, progress: Progress) -> list[Outcome]:
        """Train to the end, from a checkpoint if one exists."""
        self.restore()
        looks = deque[Look]()
        ahead = AHEAD[self.data.device.type]
        while len(self.active) and (looks or self.running.done < self.schedule.steps):
            began = time.perf_counter()
            has_steps = self.running.done < self.schedule.steps
            if has_steps and not (looks and self.checkpoint.is_due):
                looks.append(self.begin_look())
                has_steps = self.running.done < self.schedule.steps
            if len(looks) > ahead or self.checkpoint.is_due or not has_steps:
                look = looks.popleft()
                progress(look.done, len(look.active), self.judge(look))
                self.leave(look.done)
            self.seconds += time.perf_counter() - began
            if not looks:
                self.checkpoint.save_at_times(self.state)
        return self.collect_outcomes()

    def begin_look(self) -> Look:
        """Start training to the next look, without waiting for its results."""
        program, begun = self.running, self.running.done
        steps = min(self.schedule.every, self.schedule.steps - begun)
        results, wait = fetch([program.train(steps), program.logits_of("valid")])
        parameters = program.parameters
        if AHEAD[self.data.device.type]:  # training changes them meanwhile
            parameters = {name: p.detach().clone() for name, p in parameters.items()}
        return Look(program, self.active, begun, program.done, results, wait, parameters)

    def judge(self, look: Look) -> float:
        """Keep better weights of a look; return the mean training loss."""
        look.wait()
        patient = self.is_patient(look.active, look.begun)
        loss = look.results[0].double().numpy()
        scores = score_members(look.program, look.program.cut(look.results[1], "valid"))
        point = np.full((1, len(self.members), 3), np.nan)
        point[0, look.active[patient]] = np.column_stack([loss, scores])[patient]
        self.curve = np.concatenate([self.curve, point])
        better = np.flatnonzero(is_better(scores, self.highest[look.active]) & patient)
        members = look.active[better]
        self.highest[members], self.best_step[members] = scores[better], look.done
        device = self.data.device
        rows, of_all = (send(torch.as_tensor(x), device) for x in (better, members))
        for name, p in look.parameters.items():
            places: tuple[Tensor | slice, ...] = (of_all, *map(slice, p.shape[1:]))
            self.best[name][places] = p.detach()[rows]
        return float(loss.mean())

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
            if self.data.device.type != "cpu":
                stay = self.choose_smaller(patient)
            if len(stay) < len(patient):
                self.running = self.running.with_members(stay.tolist())
                self.active = self.active[stay]

    def choose_smaller(self, patient: Array) -> Array:
        """Return members that stay on a GPU: all, unless fewer save more than a capture costs."""
        size = next(size for size in SIZES if size >= patient.sum())
        batch = self.running.index.shape[1]
        now, then = (seconds_of_step(self.model, batch, n) for n in (len(patient), size))
        last = int(self.best_step[self.active].max()) + (self.schedule.patience or 0)
        steps = min(last, self.schedule.steps) - self.running.done  # at least
        cost = CAPTURING + (COMPILING if self.compiler else 0)
        if 3 * size > 2 * len(patient) or steps * (now - then) < cost:
            return np.arange(len(patient))
        filled = np.flatnonzero(~patient)[: size - patient.sum()]
        return np.sort(np.concatenate([np.flatnonzero(patient), filled]))

    def state(self) -> dict[str, Array]:
        """Return everything needed to continue training."""
        tensors = self.running.state() | {f"best.{name}": p for name, p in self.best.items()}
        return {name: value.cpu().numpy() for name, value in tensors.items()} | {
            "highest": self.highest,
            "kept": self.best_step,
            "curve": self.curve,
            "there": self.active,
            "numbers": np.array([self.running.done, self.seconds]),
        }

    def restore(self) -> None:
        """Resume from a checkpoint of these members, if one exists."""
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
            self.running = self.program_of(members)
        if members:
            self.running.set_state(tensors, int(done))

    def collect_outcomes(self) -> list[Outcome]:
        """Return the outcome of each member with its best weights."""
        program = self.running
        if len(program.members) < len(self.members):
            program = self.program_of(self.members, eager=True)
        with torch.no_grad():
            for name, p in program.parameters.items():
                p.copy_(self.best[name])
        vectors = trained_vectors(program)
        parameters = {
            name: p.detach().cpu().numpy().copy()
            for name, p in program.parameters.items()
            if not is_vector(name)
        }
        valid, test = program.evaluate("valid"), program.evaluate("test")
        return [
            Outcome(
                member=member,
                valid=valid[i],
                test=test[i],
                step=int(self.best_step[i]),
                seconds=self.seconds / len(self.members),
                vectors=vectors[i][0],
                frequencies=vectors[i][1],
                parameters={name: p[i] for name, p in parameters.items()},
                curve=self.curve[~np.isnan(self.curve[:, i, 0]), i],
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
def trained_vectors(program: Program) -> list[tuple[Array, Array]]:
    """Return the vectors of all places of each member, and its frequencies or lines."""
    injections = [m.injection for m in program.members]
    if isinstance(program.model, OrderFree):
        return [(no_rows(), injection.frequencies) for injection in injections]
    p = program.parameters
    fixed = {act: c for act, c in program.injected.items() if c.index.dim() == 2}
    tables = {act: c.table(p.get(f"codes.{act}")).cpu() for act, c in fixed.items()}
    pairs = []
    for i, injection in enumerate(injections):
        vectors, rates = injection.table(), injection.frequencies
        if injection.act in tables:
            vectors = tables[injection.act][i, :, : vectors.shape[1]].double().numpy()
        if injection.learn and rates.size:
            moved = p[f"codes.{injection.act}"].detach()[i, : len(rates)].cpu().double().numpy()
            rates = np.where(rates != 0, moved, rates)
        pairs.append((vectors, rates))
    return pairs

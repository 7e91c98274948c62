"""How long will training take? Told before it starts, from a few steps of each dataset.

A probe trains the first stack of a dataset for some steps and throws it away; what follows is in
proportion to members, windows and epochs: patience may end runs sooner, and whatever else the
machine does makes them last longer. On a GPU nothing is told before the first epoch: a probe would
capture a graph of its own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pefourier.train import grid, loop, search
from pefourier.train.asked import Choice, Schedule
from pefourier.train.beside import OtherMethod
from pefourier.train.grid import Stack
from pefourier.train.loop import Member, Program, Resident
from pefourier.train.model import OrderFree, Transformer
from pefourier.train.options import Options
from pefourier.train.progress import duration
from pefourier.writing.text import agreeing, join

AT_RISK = """; an interruption may lose {} of it, what runs trained together take (less with fewer \
--seeds first, then more by --resume)"""
PROBED = 3  # steps, after one that is not timed


def seconds_of_epoch(
    held: Resident, model: Transformer | OrderFree, members: Sequence[Member], schedule: Schedule
) -> float:
    """Seconds of an epoch of a stack, from a few of its steps and one look at some windows."""
    ordered = sorted(members, key=lambda m: loop.ACTS.index(m.injection.act))
    program = Program(held, model, ordered, schedule)
    batch, steps = loop.batch_and_steps(held.task, schedule.batch_size)
    folds = [held.task.folds[m.fold] for m in ordered]
    program.index.copy_(torch.as_tensor(np.stack([fold.train[:batch] for fold in folds])))
    step = least_seconds(program.step)
    looked = min(loop.AT_ONCE, *(len(fold.valid) for fold in folds))
    few = torch.as_tensor(np.stack([fold.valid[:looked] for fold in folds]))
    with torch.no_grad():
        look = least_seconds(lambda: program.logits(few))
    return step * steps + look * max(len(fold.valid) for fold in folds) / few.shape[1]


def least_seconds(act: Callable[[], object]) -> float:
    """The least time of several tries: what else the machine does is not counted."""
    act()
    found = []
    for _ in range(PROBED):
        began = time.perf_counter()
        act()
        found.append(time.perf_counter() - began)
    return min(found)


@dataclass(frozen=True)
class Forecast:
    """How long the runs of a dataset take."""

    dataset: str
    runs: int
    candidates: int
    epochs: int
    seconds: float | None  # of these runs; None: not known before training
    beside: tuple[str, ...] = ()  # other methods, whose time is not foretold: a name for each run
    at_risk: float = 0.0  # seconds of the longest stack, whose runs are kept when all are done

    @property
    def line(self) -> str:
        """What is said of it.

        >>> Forecast("smd", 40, 4, 20, 1234.5).line
        'smd: 40 runs of 4 candidates of at most 20 epochs take about 21 min if no run stops early'
        >>> Forecast("smd", 40, 1, 20, 1234.5, (), 600.0).line.partition(" early")[2][:39]
        '; an interruption may lose 10 min of it'
        >>> Forecast("smd", 0, 1, 20, None, ("trees", "trees")).line
        'smd: 2 runs of trees take a time that is not foretold'
        """
        parts = [self.trained] if self.runs else []
        if self.beside:
            runs = f"{len(self.beside)} {agreeing(len(self.beside), 'run', 'runs')}"
            takes = agreeing(len(self.beside), "takes", "take")
            named = join([*dict.fromkeys(self.beside)])
            parts.append(f"{runs} of {named} {takes} a time that is not foretold")
        return f"{self.dataset}: {'; '.join(parts)}"

    @property
    def trained(self) -> str:
        """What is said of the runs of encodings."""
        tried = f" of {self.candidates} candidates" if self.candidates > 1 else ""
        length = f"at most {self.epochs} {agreeing(self.epochs, 'epoch', 'epochs')}"
        runs = f"{self.runs} {agreeing(self.runs, 'run', 'runs')}{tried} of {length}"
        if self.seconds is None:
            return f"{runs}; how long they take is not known before the first epoch"
        takes = agreeing(self.runs, "takes", "take")
        lost = AT_RISK.format(duration(self.at_risk)) if self.at_risk >= 60 else ""
        return f"{runs} {takes} about {duration(self.seconds)} if no run stops early{lost}"


def foretell_time(
    stacks: Sequence[Stack], candidates: Sequence[Choice], options: Options, ranks: int
) -> list[Forecast]:
    """How long the stacks of each dataset take so many ranks."""
    found = []
    for task in dict.fromkeys(stack.task for stack in stacks):
        own = [stack for stack in stacks if stack.task is task]
        held, seconds = loop.put_on_device(task, torch.device("cpu")), 0.0
        at_risk = 0.0
        schedule = own[0].resolved.schedule
        for kind in (OrderFree, Transformer):
            some = [stack for stack in own if isinstance(stack.model, kind)]
            if not some:
                continue
            of_stack = 0.0
            injections = grid.stack_injections(some[0], options.learn, {})
            for model, tried in search.list_shapes(some[0].model, candidates):
                injected = search.injections_for(model, some[0], injections, options.learn)
                members = [
                    search.member_of(r, injected, c.tuning, 0) for r in some[0].runs for c in tried
                ]
                of_stack += seconds_of_epoch(held, model, members, schedule) * schedule.epochs
            of_stack *= 1 + options.refit / len(candidates)
            seconds += of_stack * sum(len(one.runs) for one in some) / len(some[0].runs) / ranks
            at_risk = max(at_risk, of_stack)
        runs, beside = runs_to_train(own)
        known = seconds if runs else None
        told = (task.name, runs, len(candidates), schedule.epochs, known, beside, at_risk)
        found.append(Forecast(*told))
    return found


def runs_to_train(stacks: Sequence[Stack]) -> tuple[int, tuple[str, ...]]:
    """Runs of encodings, and the method of each other run."""
    other = [one for one in stacks if isinstance(one.model, OtherMethod)]
    names = tuple(one.model.name for one in other for _ in one.runs)
    return sum(len(one.runs) for one in stacks) - len(names), names

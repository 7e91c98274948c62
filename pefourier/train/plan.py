"""Plan of a training: what would be trained, without training it.

A plan checks its options like a training, rejects the same options, and writes nothing. The time
is extrapolated from a few steps, whose weights are discarded. The detectable difference assumes
that folds differ as much as in the results of this project.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pefourier.train import device_data, ensembles
from pefourier.train.chance import chance_of
from pefourier.train.data.split import Dropped, Task
from pefourier.train.ensembles import Experiment, ResolvedTask
from pefourier.train.injection import NOTHING
from pefourier.train.options import Options
from pefourier.train.program import Program, Replica
from pefourier.train.progress import Note
from pefourier.train.ranks import read_rank
from pefourier.train.report import tables_in_words, words
from pefourier.train.request import without_new_folders
from pefourier.train.run import settle_options
from pefourier.train.statistics import units_needed
from pefourier.train.store import Key, key_of
from pefourier.types import Counts, Texts
from pefourier.writing.page import Page, flattened, plain
from pefourier.writing.text import agreeing, paragraph, printable

PARTS = ("train", "valid", "test")
SPREAD = 0.06  # deviation of a difference in F1 between folds: median of ten datasets of figures/
TIMED = 3  # steps
RIGHT = 0.85  # share of windows of each class that a planned classifier gets right
GRID = [i / 100 for i in range(1, 101)]  # differences in F1


@dataclass(frozen=True)
class PlannedFold:
    """Counts of training, validation and test windows of each class in a fold."""

    fold: int
    train: Counts
    valid: Counts
    test: Counts


@dataclass(frozen=True)
class DatasetPlan:
    """Plan of the training on a dataset."""

    dataset: str
    encodings: Texts
    seeds: int
    folds: tuple[PlannedFold, ...]
    classes: Texts  # in the order of window counts
    positive: str | None  # class that scores describe; None: scores are means over classes
    split: str
    leaky: bool
    length: int  # rows of a window
    d: int  # dimension of the model
    runs: int  # not yet trained
    finished: int  # stored already
    candidates: int  # of --search
    budget: Mapping[str, int]
    dropped: tuple[Dropped, ...]
    seconds: float  # estimated limit of training time, without other methods
    detectable: float | None  # smallest difference in F1 that these folds or runs detect
    conclusion: str


def plan_training(options: Options, note: Note | None = None) -> tuple[DatasetPlan, ...]:
    """Plan the training on each dataset, without training or writing anything."""
    with without_new_folders(options.out, options.save_models):
        options = settle_options(options)
        rank, ranks = read_rank()
        if rank:
            return ()
        experiment = ensembles.resolve(options, rank, ranks)
        ensembles.count_processes(experiment, ranks)
        with experiment.store.lock():
            finished = {key_of(row) for row in experiment.store.rows()}
    if note is not None:
        for line in experiment.remarks:
            note(line)
    return tuple(plan_of(resolved, experiment, finished) for resolved in experiment.resolved)


def plan_of(resolved: ResolvedTask, experiment: Experiment, finished: set[Key]) -> DatasetPlan:
    """Plan the training on a dataset, in numbers and in words."""
    task = resolved.task
    keys = {run.key for run in resolved.runs}
    unfinished, steps = len(keys - finished), resolved.schedule.steps
    dropped = "".join(f" {words('remarks', d.reason, count=d.count)}." for d in task.dropped)
    seconds = estimate_seconds(resolved, experiment) * unfinished / len(keys)
    found, units = find_difference(task, experiment.options.seeds)
    runs = f"{unfinished} {agreeing(unfinished, 'run', 'runs')}"
    time_and_runs = {"runs": runs, "steps": steps, "minutes": max(1, round(seconds / 60))}
    least = "no difference" if found is None else f"differences of {found} or more"
    power = {"units": units, "found": least, "sd": str(SPREAD)}
    return DatasetPlan(
        dataset=task.name,
        encodings=tuple(arm.name for arm in resolved.arms),
        seeds=experiment.options.seeds,
        folds=tuple(map(partial(count_windows, task), range(len(task.folds)))),
        classes=task.classes,
        positive=task.positive,
        split=task.split,
        leaky=task.leaky,
        length=task.length,
        d=resolved.model.d,
        runs=unfinished,
        finished=len(keys & finished),
        candidates=len(experiment.candidates),
        budget=resolved.schedule.budget,
        dropped=task.dropped,
        seconds=round(seconds, 1),
        detectable=found,
        conclusion=f"{task.name}: {words('plan', 'conclusion', **time_and_runs, **power)}{dropped}",
    )


def estimate_seconds(resolved: ResolvedTask, experiment: Experiment) -> float:
    """Estimate the seconds of all runs, if none ends early, from a few steps of the first stack."""
    size, injections = experiment.description["stack"], resolved.injections
    runs = next(stack.runs for stack in ensembles.plan_ensembles(resolved, size))
    members = [Replica(r.arm.name, injections.get(r.arm.spec, NOTHING), 0, r.fold) for r in runs]
    data = device_data.put_on_device(resolved.task, experiment.device)
    program = Program(data, resolved.model, members, resolved.schedule, eager=True)
    program.train(1).cpu()  # waits for a GPU
    began = time.perf_counter()
    program.train(TIMED).cpu()
    step = (time.perf_counter() - began) / TIMED / len(members)
    count = len(resolved.runs) * len(experiment.candidates) / experiment.ranks
    return step * resolved.schedule.steps * count


def find_difference(task: Task, seeds: int) -> tuple[float | None, str]:
    """Find the smallest detectable difference in F1, and name its units: folds, or runs of one."""
    numbers = range(len(task.folds))
    facts = [ensembles.facts_of_fold(task, number) | {"fold": number} for number in numbers]
    several = len(facts) > 1
    units = len(facts) if several else seeds
    tested = np.concatenate([task.labels[fold.test] for fold in task.folds])
    counts = np.bincount(tested, minlength=len(task.classes))
    mistakes = (1 - RIGHT) * counts / max(len(counts) - 1, 1)  # spread over the other classes
    table = np.diag(RIGHT * counts - mistakes) + mistakes[:, None]
    chance = chance_of(facts, {"planned": table}, np.arange(units) * several)
    pair = ("planned", "planned")
    found = (f for f in GRID if (units_needed(SPREAD, f, chance, pair) or np.inf) <= units)
    one, more = ("fold", "folds") if several else ("run", "runs")
    return next(found, None), f"{units} {agreeing(units, one, more)}"


def count_windows(task: Task, number: int) -> PlannedFold:
    """Count the windows of each class in each part of a fold."""
    labels = (task.labels[getattr(task.folds[number], part)] for part in PARTS)
    counts = (np.bincount(y, minlength=len(task.classes)) for y in labels)
    return PlannedFold(number, *(tuple(count.tolist()) for count in counts))


def plan_page(plans: Sequence[DatasetPlan]) -> Page:
    """Page of `pefourier train --plan`."""
    runs = sum(plan.runs for plan in plans)
    first = f"NOTHING TRAINED. Runs that would be trained: {runs}."
    lines = [first, *(plan.conclusion for plan in plans)]
    return Page(
        "plan",
        words=lambda: tables_in_words(map(windows_table, plans)),
        records=lambda: plans,
        rows=lambda: flattened(plain(plans)),
        conclusion=lambda: "\n".join(paragraph(printable(line)) for line in lines),
        together=lambda: first,
    )


def windows_table(plan: DatasetPlan) -> tuple[str, list[list[str]]]:
    """Title and table of the windows of each class in each part of each fold."""
    body = []
    for fold in plan.folds:
        parts = (getattr(fold, part) for part in PARTS)
        cells = [f"{sum(counts)} ({' / '.join(map(str, counts))})" for counts in parts]
        body.append([str(fold.fold), *cells])
    split = f"{plan.split}{', leaky' * plan.leaky}"
    title = f"{plan.dataset}: windows, split {split}, of classes {' / '.join(plan.classes)}"
    return title, [["fold", *PARTS], *body]

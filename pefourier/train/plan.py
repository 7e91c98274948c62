"""What would be trained? Told without training.

The same steps as before a training check what is asked, so that what it refuses is refused here,
and nothing is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pefourier.train.data.split import Dropped, Task
from pefourier.train.ensembles import Experiment, ResolvedTask, count_processes, resolve
from pefourier.train.options import Options
from pefourier.train.progress import Note
from pefourier.train.ranks import read_rank
from pefourier.train.report import tables_in_words, words
from pefourier.train.request import without_new_folders
from pefourier.train.run import settle_options
from pefourier.train.store import Key, key_of
from pefourier.writing.page import Page, flattened, plain
from pefourier.writing.text import paragraph, printable

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class PlannedFold:
    """How many windows of each class train, validate and test in a fold."""

    fold: int
    train: tuple[int, ...]
    valid: tuple[int, ...]
    test: tuple[int, ...]


@dataclass(frozen=True)
class DatasetPlan:
    """What would be trained on a dataset."""

    dataset: str
    encodings: tuple[str, ...]
    seeds: int
    folds: tuple[PlannedFold, ...]
    classes: tuple[str, ...]  # of which windows are counted
    positive: str | None  # class whose scores are told; without one they are means over classes
    split: str
    leaky: bool
    length: int  # rows of a window
    runs: int  # that would be trained
    finished: int  # that are there before
    candidates: int  # of --search
    budget: Mapping[str, int]
    dropped: tuple[Dropped, ...]
    conclusion: str


def plan_training(options: Options, note: Note | None = None) -> tuple[DatasetPlan, ...]:
    """What would be trained on each dataset; nothing is, and nothing is written."""
    with without_new_folders(options.out, options.save_models):
        options = settle_options(options)
        rank, ranks = read_rank()
        if rank:
            return ()
        experiment = resolve(options, rank, ranks)
        count_processes(experiment, ranks)
        with experiment.store.lock():
            finished = {key_of(row) for row in experiment.store.rows()}
    if note is not None:
        for line in experiment.remarks:
            note(line)
    return tuple(plan_of(resolved, experiment, finished) for resolved in experiment.resolved)


def plan_of(resolved: ResolvedTask, experiment: Experiment, finished: set[Key]) -> DatasetPlan:
    """What would be trained on a dataset, in numbers and in words."""
    task = resolved.task
    keys = {run.key for run in resolved.runs}
    unfinished, steps = len(keys - finished), resolved.schedule.steps
    dropped = "".join(f" {words('remarks', d.reason, count=d.count)}." for d in task.dropped)
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
        runs=unfinished,
        finished=len(keys & finished),
        candidates=len(experiment.candidates),
        budget=resolved.schedule.budget,
        dropped=task.dropped,
        conclusion=f"{task.name}: {unfinished} runs of at most {steps} steps.{dropped}",
    )


def count_windows(task: Task, number: int) -> PlannedFold:
    """Windows of each class in each part of a fold."""
    labels = (task.labels[getattr(task.folds[number], part)] for part in PARTS)
    counts = (np.bincount(y, minlength=len(task.classes)) for y in labels)
    return PlannedFold(number, *(tuple(count.tolist()) for count in counts))


def plan_page(plans: Sequence[DatasetPlan]) -> Page:
    """The answer of `pefourier train --plan`."""
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
    """A title and a table: how many windows of each class each part of each fold has."""
    body = []
    for fold in plan.folds:
        parts = (getattr(fold, part) for part in PARTS)
        cells = [f"{sum(counts)} ({' / '.join(map(str, counts))})" for counts in parts]
        body.append([str(fold.fold), *cells])
    split = f"{plan.split}{', leaky' * plan.leaky}"
    title = f"{plan.dataset}: windows, split {split}, of classes {' / '.join(plan.classes)}"
    return title, [["fold", *PARTS], *body]

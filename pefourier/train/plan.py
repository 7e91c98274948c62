"""What would be trained, in how long, and what could it show? Told without training.

The same steps as before a training check what is asked, so that what it refuses is refused here;
only time is tried, by a few steps. Folders that those steps make are taken away again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pefourier.answers.telling import Said, meaning_of, sentence
from pefourier.train import causal, foresight, grid, loop, power, processes, run
from pefourier.train.asked import Schedule, check_options, list_candidates, without_new_folders
from pefourier.train.conclusion import count_words
from pefourier.train.data.split import Task
from pefourier.train.foresight import Forecast
from pefourier.train.grid import ResolvedTask, Stack
from pefourier.train.options import BESIDE, LEVEL, STEPS, Options, fewest_runs
from pefourier.train.progress import Note, duration
from pefourier.train.ranks import meets_in_group
from pefourier.train.report import tables_in_words
from pefourier.train.store import Key, key_of
from pefourier.writing.escapes import printable
from pefourier.writing.page import Page, flattened, plain
from pefourier.writing.text import agreeing, join, paragraph

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
    classes: tuple[str, ...]  # of which windows are counted; "" where each token has one
    split: str
    leaky: bool
    length: int  # rows of a window
    runs: int  # that would be trained
    finished: int  # that are there before
    candidates: int  # of --search
    budget: Mapping[str, int]
    seconds: float | None  # of encodings' runs; None: not known before the first epoch
    conclusion: str
    detectable: float | None = None  # in F1, by --spread
    claimed: float | None = None  # difference to find
    claimed_runs: int | None = None  # that it takes


def plan_training(options: Options, note: Note | None = None) -> tuple[DatasetPlan, ...]:
    """What would be trained on each dataset; nothing is, and nothing is written."""
    with without_new_folders(options.out, options.save_tables, options.save_models):
        return (plan_causal if options.causal else plan_comparison)(options, note)


def plan_comparison(options: Options, note: Note | None) -> tuple[DatasetPlan, ...]:
    """What a comparison would train; only rank 0 says it."""
    check_options(options)
    options = replace(options, encoding=(*options.encoding, *options.beside), beside=())
    rank, ranks = run.read_rank()
    together = meets_in_group(ranks)
    if rank:
        return ()
    asked = run.resolve(options, run.Place(0, 1 if together else ranks))
    with asked.store.lock():
        count = processes.count_processes(options, asked.resolved, asked.device, ranks)
        stacks = asked.stacks(run.plan_stages(asked, max(ranks, count)))
        done = {*map(key_of, asked.store.rows())}
    for line in dict.fromkeys(run.list_remarks(asked) if note is not None else ()):
        note(line)
    left = run.stacks_to_train(stacks if together else stacks[::ranks], done)
    times = foretell_times(left, options, asked.device, ranks if together else count, count)
    return tuple(plan_of(one, options, stacks, done, times) for one in asked.resolved)


def foretell_times(
    stacks: Sequence[Stack], options: Options, device: torch.device, sharers: int, processes: int
) -> dict[str, Forecast]:
    """How long the stacks of each dataset take, where that can be told before the first epoch."""
    if device.type != "cpu":
        return {}
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, before // processes))
    try:
        found = foresight.foretell_time(stacks, list_candidates(options), options, sharers)
    finally:
        torch.set_num_threads(before)
    return {one.dataset: one for one in found}


def plan_of(
    resolved: ResolvedTask,
    options: Options,
    stacks: Sequence[Stack],
    done: set[Key],
    times: Mapping[str, Forecast],
) -> DatasetPlan:
    """What would be trained on a dataset, in numbers and in words."""
    task, schedule = resolved.task, resolved.schedule
    own = [stack for stack in stacks if stack.task is task]
    runs, beside = foresight.runs_to_train(run.stacks_to_train(own, done))
    candidates, find = len(list_candidates(options)), power.claim_for(task.name, options.find)
    unknown = Forecast(task.name, runs, candidates, schedule.epochs, None)
    forecast = replace(times.get(task.name, unknown), runs=runs, beside=beside)
    every, fewest = options.seeds * len(task.folds), fewest_runs(run.count_differences(options))
    found = power.detectable_difference(options.spread, every)
    finished = len({key for one in own for key in one.keys} & done)
    more = run.foretell_power(options, task).removeprefix(f"{task.name}:")
    asked = (task, schedule, options, forecast, finished, f"{more}.")
    return planned(
        *asked,
        encodings=tuple(arm.name for arm in resolved.arms),
        length=task.length,
        detectable=found if every >= fewest else None,
        claimed=find,
        claimed_runs=(enough := power.enough_runs(options.spread, find)) and max(enough, fewest),
    )


def planned(
    task: Task,
    schedule: Schedule,
    options: Options,
    forecast: Forecast,
    finished: int,
    more: str,
    **told: Any,
) -> DatasetPlan:
    """How many runs there would be and how long they would take; `more` is said after that."""
    runs, has = forecast.runs + len(forecast.beside), agreeing(finished, "is", "are")
    there = f" {count_words(finished)} {has} there before." if finished else ""
    said = forecast.line if runs else f"{task.name}: nothing is left to train"
    classes = task.classes if task.labels.ndim == 1 else ("",)
    budget = grid.budget_of(task, schedule)
    if (most := budget["epochs"] * budget["steps"]) < STEPS and forecast.runs:
        more += f" {sentence('train', 'few steps', most=most, least=STEPS)}"
    return DatasetPlan(
        dataset=task.name,
        seeds=options.seeds,
        folds=folds_of(task, len(classes)),
        classes=classes,
        split=task.split,
        leaky=task.leaky,
        runs=runs,
        finished=finished,
        candidates=forecast.candidates,
        budget=budget,
        seconds=forecast.seconds if runs else 0.0,
        conclusion=f"{said}.{there}{more}",
        **told,
    )


def folds_of(task: Task, classes: int) -> tuple[PlannedFold, ...]:
    """Windows of each class in each part; all together where there is one class."""
    labels = task.labels if classes > 1 else np.zeros(len(task.starts), int)
    found = []
    for number, fold in enumerate(task.folds):
        parts = [np.bincount(labels[getattr(fold, p)], minlength=classes).tolist() for p in PARTS]
        found.append(PlannedFold(number, *map(tuple, parts)))
    return tuple(found)


def plan_causal(options: Options, note: Note | None) -> tuple[DatasetPlan, ...]:
    """What a causal comparison would train."""
    options = causal.settle_causal(options)
    out = Path(options.out) if options.out is not None else None
    before, device = causal.rows_before(out, options), run.choose_device(options.device)
    found = []
    for name in options.dataset:
        work = causal.plan_work(name, options, before)
        task, schedule, wanted = work.task, work.schedule, work.runs
        seconds, members = None, next(filter(None, work.members.values()), [])
        if device.type == "cpu" and members:
            held = loop.put_on_device(task, device)
            epoch = foresight.seconds_of_epoch(held, work.model, members, schedule)
            seconds = epoch * schedule.epochs * wanted / len(members)
        forecast = Forecast(task.name, wanted, 1, schedule.epochs, seconds)
        finished = len(options.encoding) * options.seeds - wanted
        asked = (task, schedule, options, forecast, finished, f" {reach_of_seeds(work, options)}")
        own = {"encodings": tuple(options.encoding), "length": work.lengths[0]}
        found.append(planned(*asked, **own))
    return tuple(found)


def reach_of_seeds(work: causal.CausalWork, options: Options) -> str:
    """What a causal comparison tests, and whether its seeds could show anything."""
    trained, *_ = work.lengths
    tested = ", ".join(map(str, work.lengths))
    few = 2.0 ** (1 - options.seeds) * (len(options.encoding) - 1) > LEVEL
    return (
        f"Trained on problems of up to {trained}, tested on {tested}."
        f"{' With so few seeds p cannot fall below .05.' * few}"
    )


def plan_page(found: Sequence[DatasetPlan]) -> Page:
    """The answer of `pefourier train --plan`."""
    return Page(
        "plan",
        words=lambda: tables_in_words(map(windows_table, found)),
        records=lambda: found,
        rows=lambda: flattened(plain(found)),
        conclusion=lambda: "\n".join(paragraph(printable(line)) for line in conclude_plan(found)),
        together=lambda: conclude_plan(found)[0],
    )


def conclude_plan(found: Sequence[DatasetPlan]) -> list[str]:
    """What all of it comes to, then each dataset."""
    runs, times = sum(one.runs for one in found), [one.seconds for one in found]
    long = "" if None in times else f", about {duration(sum(times))} in all if no run stops early"
    beside = [name for name in BESIDE if any(name in one.encodings for one in found)]
    long += f", without {join(beside)}, whose time is not foretold" if long and beside else ""
    first = Said(*meaning_of("plan", "NOTHING TRAINED", runs=count_words(runs), long=long))
    return [first.text, *(one.conclusion for one in found)]


def windows_table(one: DatasetPlan) -> tuple[str, list[list[str]]]:
    """A title and a table: how many windows of each class each part of each fold has."""
    each = f", of classes {' / '.join(one.classes)}" if len(one.classes) > 1 else ""
    leaky = ", leaky" if one.leaky else ""
    body = []
    for fold in one.folds:
        counts = [getattr(fold, part) for part in PARTS]
        split = [f" ({' / '.join(map(str, own))})" if each else "" for own in counts]
        cells = [f"{sum(own)}{told}" for own, told in zip(counts, split, strict=True)]
        body.append([str(fold.fold), *cells])
    title = f"{one.dataset}: windows of each part, split {one.split}{leaky}{each}"
    return title, [["fold", *PARTS], *body]

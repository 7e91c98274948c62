"""Plan of a training: what would be trained, without training it.

A plan checks its options like a training, rejects the same options, and writes nothing. The time
is extrapolated from a few steps, whose weights are discarded. The detectable difference assumes
that folds differ as much as in the results of this project.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pefourier.errors import PefourierError
from pefourier.train import ensembles
from pefourier.train.data.split import Dropped, Task
from pefourier.train.decision import REMARKS
from pefourier.train.ensembles import (
    SPREAD,
    Experiment,
    ResolvedTask,
    find_difference,
    shortage,
)
from pefourier.train.injection import NOTHING
from pefourier.train.options import EPOCHS, LOOK, STEPS, Options
from pefourier.train.program import Program, Replica, batch_and_steps, put_on_device
from pefourier.train.report import tables_in_words
from pefourier.train.request import schedule_of, settle_options, without_new_folders
from pefourier.train.statistics import LEAST_UNITS
from pefourier.train.store import Key, key_of, read_rank
from pefourier.train.work import Note
from pefourier.types import Array, Texts, Values
from pefourier.writing.page import Page, flattened, plain
from pefourier.writing.text import agreeing, fill, paragraph, printable

PARTS = ("train", "valid", "test")
TIMED = 10  # steps
SAFE = 0.9  # share of --minutes for training; the rest is for loading and the answer
MOST_RUNS, LONGER = 64, 4  # largest number of runs per fold, and multiple of the usual steps


@dataclass(frozen=True)
class DatasetPlan:
    """Plan of the training on a dataset."""

    dataset: str
    encodings: Texts
    seeds: int
    folds: tuple[Values, ...]  # number, and windows of each class in each part
    classes: Texts  # in the order of window counts
    positive: str | None  # class that scores describe; None: scores are means over classes
    split: str
    leaky: bool
    length: int  # rows of a window
    channels: int
    d: int  # dimension of the model
    runs: int  # not yet trained
    finished: int  # stored already
    budget: Mapping[str, int]
    dropped: tuple[Dropped, ...]
    seconds: float  # estimated limit of training time, without other methods
    detectable: float | None  # smallest difference in F1 that these folds or runs detect
    conclusion: str


def plan_training(options: Options, note: Note | None = None) -> tuple[DatasetPlan, ...]:
    """Plan the training on each dataset, without training or writing anything."""
    began = time.monotonic()
    with without_new_folders(options.out, options.save_models):
        options = settle_options(options)
        rank, ranks = read_rank()
        if rank:
            return ()
        experiment = ensembles.resolve(options, rank, ranks)
        if options.minutes is not None:
            experiment = fit_into_minutes(experiment, began, note)
        with experiment.store.lock():
            finished = {key_of(row) for row in experiment.store.rows()}
    if note is not None:
        for line in experiment.remarks:
            note(line)
    return tuple(plan_of(e, experiment, finished) for e in experiment.resolved)


def plan_of(resolved: ResolvedTask, experiment: Experiment, finished: set[Key]) -> DatasetPlan:
    """Plan the training on a dataset, in numbers and in words."""
    task, options = resolved.task, experiment.options
    keys = {run.key for run in resolved.runs}
    unfinished, steps = len(keys - finished), resolved.schedule.steps
    dropped = "".join(f" {fill(REMARKS[d.reason], count=d.count)}." for d in task.dropped)
    seconds = seconds_of_steps(resolved, experiment) * steps * unfinished / len(keys)
    found, units = find_difference(task, options.seeds)
    runs = f"{unfinished} {agreeing(unfinished, 'run', 'runs')}"
    least = "no difference" if found is None else f"differences of {found} or more"
    conclusion = (
        f"{task.name}: {runs} of at most {steps} steps, at most about "
        f"{max(1, round(seconds / 60))} min. With {units}, {least} in F1 would be detected with "
        f"80% power if the standard deviation of a difference is {SPREAD}.{dropped}"
    )
    if few := shortage(task, options):
        conclusion += f" {few.removeprefix(f'{task.name}: ')}."
    return DatasetPlan(
        dataset=task.name,
        encodings=tuple(arm.name for arm in resolved.arms),
        seeds=options.seeds,
        folds=tuple(
            {"fold": i} | {part: count_windows(task, getattr(fold, part)) for part in PARTS}
            for i, fold in enumerate(task.folds)
        ),
        classes=task.classes,
        positive=task.positive,
        split=task.split,
        leaky=task.leaky,
        length=task.length,
        channels=task.rows.shape[1],
        d=resolved.model.d,
        runs=unfinished,
        finished=len(keys & finished),
        budget=resolved.schedule.budget,
        dropped=task.dropped,
        seconds=round(seconds, 1),
        detectable=found,
        conclusion=conclusion,
    )


def seconds_of_steps(resolved: ResolvedTask, experiment: Experiment) -> float:
    """Estimate the seconds of one step of all runs, with its share of looks, from a few steps.

    One stack of each kind is timed.
    """
    planned = ensembles.plan_ensembles(resolved, experiment.description["stack"])
    data = put_on_device(resolved.task, experiment.device)
    seconds, timed = 0.0, dict[frozenset[str], float]()
    for stack in planned:
        if stack.model is None:  # another method
            continue
        kind = frozenset((type(stack.model).__name__, *stack.acts - {"add", "rotate"}))
        if kind not in timed:
            injections = [resolved.injections.get(r.arm.spec, NOTHING) for r in stack.runs]
            pairs = zip(stack.runs, injections, strict=True)
            members = [Replica(run.arm.name, own, 0, run.fold) for run, own in pairs]
            program = Program(data, stack.model, members, resolved.schedule, eager=True)
            program.train(1).cpu()  # waits for a GPU
            began = time.perf_counter()
            program.train(TIMED).cpu()
            then = time.perf_counter()
            program.logits_of("valid").cpu()
            look = (time.perf_counter() - then) / resolved.schedule.every
            timed[kind] = ((then - began) / TIMED + look) / len(members)
        seconds += timed[kind] * len(stack.runs)
    return seconds / experiment.ranks


def divide_time(seconds: float, of_step: float, experiment: Experiment) -> tuple[int, int]:
    """Choose runs per fold and steps for a time, from the seconds of a step of one seed.

    Runs get the usual number of steps if there is time, but there is a run of each fold, or
    `LEAST_UNITS` runs of a single fold.
    """
    tasks = [entry.task for entry in experiment.resolved]
    epochs = [batch_and_steps(task, experiment.options.batch_size)[1] for task in tasks]
    usual = max(STEPS, EPOCHS * max(epochs))
    least = LEAST_UNITS if any(len(task.folds) == 1 for task in tasks) else 1
    available = SAFE * seconds / of_step  # steps of one seed
    seeds = min(max(int(available / usual), least), MOST_RUNS)
    return seeds, min(int(available / seeds), LONGER * usual)


def fit_into_minutes(experiment: Experiment, began: float, note: Note | None) -> Experiment:
    """Choose runs and steps for --minutes since `began`, and report them; without patience."""
    options, minutes = experiment.options, experiment.options.minutes or 0
    if experiment.ranks > 1:
        raise PefourierError("--minutes excludes ranks; use --plan, then --seeds and --steps")

    def of_steps(chosen: Experiment) -> float:
        return sum(seconds_of_steps(e, chosen) for e in chosen.resolved)

    each = of_steps(experiment) / options.seeds
    for _ in range(2):  # the second time with stacks of as many runs
        seeds, steps = divide_time(60 * minutes - time.monotonic() + began, each, experiment)
        if steps < LOOK:
            least = np.ceil(each * seeds * LOOK / SAFE / 6) / 10
            raise PefourierError(
                f"--minutes {minutes:g} is too short: {seeds} runs of each fold and encoding take "
                f"{max(steps, 0)} steps; allow {least:g} minutes or more, or "
                "use fewer encodings, --folds or --tokens"
            )
        experiment = with_budget(experiment, seeds, steps)
        each = of_steps(experiment) / seeds
    if note is not None:
        note(
            f"{seeds} runs of each fold and encoding, {steps} steps each, about "
            f"{each * seeds * steps / 60:.1f} min; --seeds {seeds} --steps {steps} "
            "--patience-steps 0 repeats them"
        )
    return experiment


def with_budget(experiment: Experiment, seeds: int, steps: int) -> Experiment:
    """Change the runs and steps of an experiment; runs have no patience."""
    given = replace(experiment.options, minutes=None, seeds=seeds, steps=steps)
    options = replace(given, patience=None, patience_steps=0)
    resolved = [
        replace(
            entry,
            schedule=schedule_of(options, batch_and_steps(entry.task, options.batch_size)[1]),
            runs=ensembles.plan_runs(entry.task, entry.arms, seeds),
        )
        for entry in experiment.resolved
    ]
    return replace(experiment, options=options, resolved=resolved)


def count_windows(task: Task, part: Array) -> list[int]:
    """Count the windows of each class in a part."""
    return list(np.bincount(task.labels[part], minlength=len(task.classes)).tolist())


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
    body = [
        [f"{fold['fold']}", *(f"{sum(fold[p])} ({' / '.join(map(str, fold[p]))})" for p in PARTS)]
        for fold in plan.folds
    ]
    split = f"{plan.split}{', leaky' * plan.leaky}"
    sizes = f"windows of {plan.length} rows and {plan.channels} channels"
    title = f"{plan.dataset}: {sizes}, split {split}, of classes {' / '.join(plan.classes)}"
    return title, [["fold", *PARTS], *body]

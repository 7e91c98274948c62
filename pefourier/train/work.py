"""Work of a rank: stacks are claimed, trained from checkpoints, scored, stored and sent.

After a crash, a stack with missing runs is trained again, from its checkpoint if there is one and
with the same members in the stack: resumed numbers equal those of an undisturbed run, bit for bit
on a CPU.

Plan
----
A plan checks its options like a training, rejects the same options, and writes nothing. The time
is extrapolated from a few steps, whose weights are discarded. The detectable difference assumes
that folds differ as much as in the results of this project.
"""

import json
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.errors import PefourierError
from pefourier.train import ensembles, request, run_artifacts
from pefourier.train.data.split import Dropped
from pefourier.train.ensembles import (
    SPREAD,
    Ensemble,
    Experiment,
    ResolvedTask,
    Run,
    find_difference,
    shortage,
)
from pefourier.train.model import NOTHING, Injection, Transformer, scale_to_rms
from pefourier.train.options import EPOCHS, LOOK, STEPS, Options
from pefourier.train.program import (
    Compiler,
    Outcome,
    Program,
    Replica,
    Resident,
    batch_and_steps,
    fit,
    seconds_of_step,
    threshold_of,
    trace_of,
)
from pefourier.train.report import tables_in_words
from pefourier.train.request import schedule_of, settle_options
from pefourier.train.run_artifacts import count_confusions, decide, score
from pefourier.train.statistics import LEAST_UNITS, REMARKS, Summary, summarize_runs
from pefourier.train.store import (
    FOLDER,
    Checkpoint,
    Group,
    Key,
    check_same,
    join_group,
    key_of,
    read_rank,
)
from pefourier.types import Fields, Texts, Values, frozen
from pefourier.writing.page import Page, flattened, plain
from pefourier.writing.text import agreeing, fill, paragraph, printable

Rows = list[dict[str, Any]]  # of results.jsonl
LINE_EVERY = 10.0  # seconds between notes
Note = Callable[[str], None]  # shows a line to the user during training


@dataclass(eq=False)
class Reporter:
    """Reports the progress of the stacks of a comparison."""

    ensembles: int  # unfinished stacks of all processes that share them
    note: Note | None = None

    def __post_init__(self) -> None:
        self.after_look: Callable[[], None] = lambda: None  # called after each look
        self.finished = self.steps = 0  # finished stacks, and the step limit of the current stack
        self.began = self.shown = time.perf_counter()

    def count_steps(self, steps: int, members: int, loss: float) -> None:
        """Report the step that a stack, or a part of it, has reached."""
        self.after_look()
        moment = time.perf_counter()
        if self.note is not None and moment - self.shown >= LINE_EVERY:
            share = min(1.0, (self.finished + steps / self.steps) / max(self.ensembles, 1))
            minutes, seconds = divmod(round((moment - self.began) * (1 / share - 1)), 60)
            self.shown = moment
            self.note(
                f"{100 * share:.0f}% · {members} members · step {steps}/{self.steps} · loss "
                f"{loss:.3f} · {minutes}:{seconds:02d} left"
            )


def train_rank(experiment: Experiment, note: Note | None) -> Summary | None:
    """Train the missing runs as one rank; rank 0 summarizes the results."""
    say: Note = note or (lambda _: None)
    several = experiment.ranks > 1
    meeting = join_group(experiment.rank, experiment.ranks) if several else nullcontext()
    with meeting as group:
        done, planned, missing = agree_on_work(experiment, group)
        for line in experiment.remarks:
            say(line)
        share = missing[experiment.rank :: experiment.ranks]
        reporter = Reporter(len(share), note)
        work = Work(experiment, group, planned, done, reporter, {*missing} - {*share})
        work.train_share(share)
        rows = {key_of(row): row for row in (*work.rows, *experiment.store.rows())}
        if experiment.rank:
            return None
        params = {r.task.name: ensembles.parameters(r) for r in experiment.resolved}
        return summarize_runs(
            [rows[key] for key in experiment.keys], params, ensembles.settings_in_common(experiment)
        )


def agree_on_work(
    experiment: Experiment, group: Group | None
) -> tuple[set[Key], list[Ensemble], list[int]]:
    """Return the runs that were finished before, all stacks, and the numbers of unfinished ones.

    A stack is unfinished if a run has no row, or no model in the folder of --save-models.
    """
    if group is not None and experiment.rank:
        plan = json.loads(group.store.get("plan"))  # waits for rank 0
        check_same(Path(f"rank {experiment.rank}"), plan["config"], experiment.description)
        size, done, missing = plan["config"]["stack"], plan["done"], plan["missing"]
        return set(map(tuple, done)), plan_stacks(experiment, size), missing
    config = experiment.store.settle(experiment.description, resume=experiment.options.resume)
    rows = experiment.store.rows()
    ensembles.check_runs(rows, experiment.resolved)
    done, folder = [key_of(row) for row in rows], experiment.options.save_models
    planned, missing = plan_stacks(experiment, config["stack"]), []
    for number, stack in enumerate(planned):
        lacking = set(stack.keys) - set(done)
        if folder is not None and stack.model is not None:
            lacking |= {
                k for k in stack.keys if not run_artifacts.file_of_model(folder, k).is_file()
            }
        missing += [number] * bool(lacking)
    if group is not None:
        settled = {"config": config, "done": done, "missing": missing}
        group.store.set("plan", json.dumps(settled))
    return set(done), planned, missing


def plan_stacks(experiment: Experiment, size: int) -> list[Ensemble]:
    """All stacks of a comparison, of at most `size` runs."""
    return [e for r in experiment.resolved for e in ensembles.plan_ensembles(r, size)]


@dataclass(eq=False)
class Work:
    """The stacks of a comparison, and the results of this rank's share."""

    experiment: Experiment
    group: Group | None
    ensembles: Sequence[Ensemble]
    done: set[Key]  # runs that were finished before
    reporter: Reporter
    awaited: set[int]  # stacks of other ranks that have not arrived on rank 0

    def __post_init__(self) -> None:
        self.options, self.store = self.experiment.options, self.experiment.store
        self.rows: Rows = []
        self.resident: Resident | None = None
        self.compiler = Compiler(self.options.compile, self.reporter.note or (lambda _: None))
        self.load = cache(partial(ensembles.load_for, learn=self.options.learn))
        lengths = request.parse_lengths(self.options.test_length)
        draw = partial(request.draw_longer, lengths=lengths, positions=self.options.positions)
        self.longer = {name: draw(name) for name in self.options.dataset}

    def train_share(self, share: Iterable[int]) -> None:
        """Train this rank's stacks in sequence, and collect those of other ranks on rank 0."""
        group = self.group
        if group is not None:
            at_work = partial(group.store.add, "looks", 1)  # seen by rank 0
            self.reporter.after_look = at_work if group.rank else self.take_over
        for number in share:
            rows, traces = self.train(number)
            if group is not None and group.rank:
                group.send(number, rows, traces)
        if group is not None and group.rank == 0:
            group.wait_for(self.awaited, self.take_over)

    def take_over(self) -> None:
        """Store results that have arrived from other ranks, on rank 0."""
        for number in sorted(self.awaited):
            sent = self.group and self.group.receive(number)
            if sent:
                self.awaited.remove(number)
                self.put_away(*sent)

    def put_away(self, rows: Rows, traces: Sequence[bytes]) -> None:
        """Store rows and traces run by run: those that fit on the disk are kept."""
        if self.store.path is not None:
            for row, trace in zip(rows, traces, strict=True):
                run_artifacts.write_trace(self.store.path, key_of(row), trace)
                self.store.append([row] if key_of(row) not in self.done else [])
        self.rows += rows

    def train(self, number: int) -> tuple[Rows, list[bytes]]:
        """Train a stack, and store its results."""
        stack, folder = self.ensembles[number], self.store.path
        name = f"{zlib.crc32(repr(stack.keys).encode()):08x}.safetensors"
        checkpoint = Checkpoint(folder and folder / FOLDER / name)
        outcomes = self.fit_runs(stack, checkpoint)
        rows, traces = self.keep(stack, [outcome for outcome in outcomes if outcome.finite])
        checkpoint.drop()
        self.reporter.finished += 1
        lost = [outcome.member for outcome in outcomes if not outcome.finite]
        if lost:  # other runs of the stack are stored already
            raise PefourierError(
                f"{lost[0].encoding}, seed {lost[0].seed}, fold {lost[0].fold}: non-finite "
                "logits; its vectors may be too large: use SPEC@rms=SIZE to scale them"
            )
        return rows, traces

    def fit_runs(self, stack: Ensemble, checkpoint: Checkpoint) -> list[Outcome]:
        """Train the runs of a stack."""
        members = [
            Replica(run.arm.name, self.injection_of(stack.resolved, run), run.seed, run.fold)
            for run in stack.runs
        ]
        if stack.model is None:
            from pefourier.train import baselines

            method = stack.runs[0].arm.spec
            return [Outcome(m, *baselines.fit_method(method, stack.task, m.fold)) for m in members]
        if self.resident is None or self.resident.task is not stack.task:
            self.resident = Resident(stack.task, self.experiment.device)
        schedule, self.reporter.steps = stack.resolved.schedule, stack.resolved.schedule.steps
        progress = self.reporter.count_steps
        compiler = self.compiler if self.is_compiled(stack) else None
        resident = self.resident
        return fit(resident, stack.model, members, schedule, progress, checkpoint, compiler)

    def is_compiled(self, stack: Ensemble) -> bool:
        """Whether compiling the step of a stack, and of all equal stacks, is worthwhile."""
        if not isinstance(stack.model, Transformer):
            return False
        equal = [e for e in self.ensembles if e.model is stack.model and e.kind == stack.kind]
        batch, _ = batch_and_steps(stack.task, self.options.batch_size)
        runs = sum(len(one.runs) for one in equal)
        seconds = seconds_of_step(stack.model, batch, runs // len(equal)) * len(equal)
        seconds *= stack.resolved.schedule.steps / self.experiment.ranks
        return self.compiler.pays(self.experiment.device, seconds)

    def injection_of(self, resolved: ResolvedTask, run: Run) -> Injection:
        """Return the injection of a run; the order-free baseline and other methods have none."""
        injection = resolved.injections.get(run.arm.spec, NOTHING)
        if run.seed and "seed" in injection.params:  # other seeds may have other vectors
            injection = self.load(resolved.model, run.arm.spec, run.seed, resolved.task)
        return injection if run.arm.rms is None else scale_to_rms(injection, run.arm.rms)

    def keep(self, stack: Ensemble, outcomes: Sequence[Outcome]) -> tuple[Rows, list[bytes]]:
        """Score and store the results of a stack, and save requested models."""
        task, folder, traces = stack.task, self.options.save_models, list[bytes]()
        rows = [row_of(stack, outcome, self.experiment) for outcome in outcomes]
        if longer := self.longer.get(task.name):
            from pefourier.train.saved_models import score_lengths

            for row, outcome in zip(rows, outcomes, strict=True):
                row["tested"] = score_lengths(stack, outcome, longer, self.load)
        if self.store.path is not None or self.group is not None:
            traces = [trace_of(task, outcome) for outcome in outcomes]
        self.put_away(rows, traces)  # before models, for which the disk may be too small
        if folder is not None and stack.model is not None:
            from pefourier.train import saved_models

            for outcome in outcomes:
                saved_models.save_model(folder, task, outcome, stack.model)
        return rows, traces


def row_of(stack: Ensemble, outcome: Outcome, experiment: Experiment) -> Fields:
    """Return a line of results.jsonl."""
    member, task = outcome.member, stack.task
    labels = task.labels[task.folds[member.fold].test]
    predicted = decide(outcome.test, threshold_of(task, outcome))
    confusion = count_confusions(predicted, labels, len(task.classes))
    return {
        "dataset": task.name,
        "encoding": member.encoding,
        "seed": member.seed,
        "fold": member.fold,
        **score(predicted, outcome.test, labels, macro=task.positive is None),
        "step": outcome.step,
        "seconds": round(outcome.seconds, 3),
        **ensembles.facts_of_fold(task, member.fold),
        "confusion": confusion.tolist(),
        "shortest": task.shortest,
        "uneven": task.uneven,
        "budget": stack.resolved.schedule.budget,
        "device": str(experiment.device),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "tested": [],
    }


PARTS = ("train", "valid", "test")
TIMES = (2, 5, 10, 20, 40, 80)  # minutes
TIMED = 10  # steps
SAFE = 0.9  # share of --minutes for training; the rest is for loading and the answer
MOST_RUNS, LONGER = 64, 4  # largest number of runs per fold, and multiple of the usual steps


@frozen
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
    minutes: tuple[Values, ...]  # seeds and steps that --minutes would choose, and detectable
    conclusion: str


def plan_training(options: Options, note: Note | None = None) -> tuple[DatasetPlan, ...]:
    """Plan the training on each dataset, without training or writing anything."""
    began = time.monotonic()
    options = settle_options(options)
    if read_rank()[0]:
        return ()
    experiment = ensembles.resolve(options)
    if options.minutes is not None:
        experiment = fit_into_minutes(experiment, began, note)
    finished = {key_of(row) for row in experiment.store.rows()}
    if note is not None:
        for line in experiment.remarks:
            note(line)
    return tuple(plan_of(e, experiment, finished) for e in experiment.resolved)


def plan_of(resolved: ResolvedTask, experiment: Experiment, finished: set[Key]) -> DatasetPlan:
    """Plan the training on a dataset, in numbers and in words."""
    task, options = resolved.task, experiment.options
    counts = partial(np.bincount, minlength=len(task.classes))
    keys = {run.key for run in resolved.runs}
    unfinished, steps = len(keys - finished), resolved.schedule.steps
    dropped = "".join(f" {fill(REMARKS[d.reason], count=d.count)}." for d in task.dropped)
    of_step = seconds_of_steps(resolved, experiment)
    seconds = of_step * steps * unfinished / len(keys)
    found, units = find_difference(task, options.seeds)
    runs = f"{unfinished} {agreeing(unfinished, 'run', 'runs')}"
    least = "no difference" if found is None else f"differences of {found} or more"
    conclusion = (
        f"{task.name}: {runs} of at most {steps} steps, at most about "
        f"{max(1, round(seconds / 60))} min. With {units}, {least} in F1 would be detected with "
        f"80% power if the standard deviation of a difference is {SPREAD}.{dropped}"
    )
    if few := shortage(task, options):
        conclusion += f" {few}."
    choices = [
        {"minutes": minutes, "seeds": seeds, "steps": number, "detectable": detected}
        for minutes in TIMES
        for seeds, number in [divide_time(60 * minutes, of_step / options.seeds, experiment)]
        if number >= LOOK
        for detected, _ in [find_difference(task, seeds)]
    ]
    return DatasetPlan(
        dataset=task.name,
        encodings=tuple(arm.name for arm in resolved.arms),
        seeds=options.seeds,
        folds=tuple(
            {"fold": i}
            | {part: counts(task.labels[getattr(fold, part)]).tolist() for part in PARTS}
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
        minutes=tuple(choices),
        conclusion=conclusion,
    )


def seconds_of_steps(resolved: ResolvedTask, experiment: Experiment) -> float:
    """Estimate the seconds of one step of all runs, with its share of looks, from a few steps.

    One stack of each kind is timed.
    """
    planned = ensembles.plan_ensembles(resolved, experiment.description["stack"])
    data = Resident(resolved.task, experiment.device)
    seconds, timed = 0.0, dict[str, float]()
    for stack in planned:
        if stack.model is None:  # another method
            continue
        if stack.kind not in timed:
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
            timed[stack.kind] = ((then - began) / TIMED + look) / len(members)
        seconds += timed[stack.kind] * len(stack.runs)
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


def plan_page(plans: Sequence[DatasetPlan]) -> Page:
    """Page of `pefourier train --plan`."""
    runs = sum(plan.runs for plan in plans)
    first = f"NOTHING TRAINED. Runs that would be trained: {runs}."
    lines = [first, *(plan.conclusion for plan in plans)]
    return Page(
        "plan",
        words=lambda: tables_in_words(t for p in plans for t in (windows_table(p), times_table(p))),
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


def times_table(plan: DatasetPlan) -> tuple[str, list[list[str]]]:
    """Title and table of what --minutes would choose and could detect."""
    title = f"{plan.dataset}: runs of each fold and encoding in a time, and what they detect"
    body = [[str(value or "none") for value in choice.values()] for choice in plan.minutes]
    return title, [["--minutes", "runs", "steps", "difference in F1"], *body]

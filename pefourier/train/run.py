"""The comparison from options to answer: datasets × encodings × seeds × folds, in stacks.

Stacks are known before anything is trained, and ranks share them. A stack that lacks a run after a
crash is trained again, from its checkpoint where there is one, with the same members beside one
another: so resumed numbers are those of an undisturbed run, bit for bit on a CPU.
"""

import json
import os
import re
import shlex
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pefourier.encodings.sources.tables import write_table
from pefourier.errors import PefourierError, shown
from pefourier.files import write_whole
from pefourier.train import fit, lengths, search, stacks, summary
from pefourier.train.beside import OtherMethod
from pefourier.train.checkpoint import FOLDER, Checkpoint
from pefourier.train.configuration import describe_comparison, settings_in_common
from pefourier.train.data.load import load_task, name_positives, reads_data_folder
from pefourier.train.data.split import Task
from pefourier.train.fit import Outcome, Resident
from pefourier.train.injection import Injection
from pefourier.train.metrics import count_confusions, decide, score
from pefourier.train.model import Transformer
from pefourier.train.options import BESIDE, WITHOUT_CODES, Options, flag_of
from pefourier.train.progress import Note, Reporter, report_progress
from pefourier.train.ranks import (
    Group,
    has_meeting_point,
    join_group,
    launch,
    read_rank,
    was_restarted,
)
from pefourier.train.report import as_markdown
from pefourier.train.request import check_options, list_candidates, name_once
from pefourier.train.saved_models import save_model
from pefourier.train.score_terms import score_terms
from pefourier.train.stacks import ResolvedTask, Stack
from pefourier.train.store import (
    NOT_NUMBERS,
    Key,
    Store,
    check_handed_over,
    check_same,
    key_of,
    read_configuration,
    stored_options,
    write_json,
)
from pefourier.train.summary import Summary
from pefourier.train.traces import START, name_of_table, read_curves, trace_of, write_trace
from pefourier.writing.text import agreeing, first_few

LONGEST_NAME = 255  # bytes
MOST_PROCESSES = 8  # started without being asked: each holds the data
WORTH = 4 * 10**6  # tokens of training windows: less is trained sooner than processes start


def run_comparison(
    options: Options,
    deliver: Callable[[Summary], None] = lambda result: None,
    note: Note | None = None,
) -> Summary | None:
    """Train, score and compare; results go to `out` as they come. Only one rank has the answer.

    `deliver` has it before the files that sum it up are written, which a full disk may prevent.
    `note` is given what to know meanwhile, a line at a time; without it nothing is shown.
    """
    options = settle_options(options)
    rank, ranks = read_rank()
    experiment = resolve(options, rank, ranks)
    count = count_processes(experiment, ranks)
    if count > 1:
        result = launch(count, train_as_rank, replace(options, processes=None), note is not None)
    else:
        result = train_as(experiment, note)
    if result is not None:
        with note_on_interrupt(experiment.store, note):
            deliver(result)
            write_summary(experiment.store, result)
            draw_comparison(options.plot, result)
    return result


def draw_comparison(path: str | None, result: Summary) -> None:
    """Draw the picture of the comparison into a file, if one is named."""
    if path is not None:
        from pefourier.report import plot, training_figures

        plot.save(path, training_figures.comparison, result)


def settle_options(options: Options) -> Options:
    """What is asked, with --resume as config.json says; what differs from it is refused by name."""
    check_options(options)
    options, out = name_once(options), options.out
    file = Path(out) / "config.json" if out is not None else None
    if not options.resume or file is None or not file.is_file():
        return options
    old = stored_options(read_configuration(file))
    default = name_once(Options())
    for name in (field.name for field in fields(Options)):
        value, was = getattr(options, name), getattr(old, name)
        if name not in {*NOT_NUMBERS, "device"} and value not in (getattr(default, name), was):
            raise PefourierError(
                f"--resume: {file} has {name} {shown(was)}; leave {flag_of(name)} out, or choose "
                f"another --out for {shown(value)}"
            )
    here = {name: getattr(options, name) for name in (*NOT_NUMBERS, "device")}
    return replace(old, **here)


@dataclass(frozen=True, eq=False)
class Experiment:
    """What is to be compared, on which data and device, by which rank, and where results go."""

    options: Options
    rank: int
    ranks: int
    device: torch.device
    store: Store
    resolved: Sequence[ResolvedTask]

    @property
    def keys(self) -> list[Key]:
        """All runs that are asked for."""
        seeds = self.options.seeds
        return [r.key(task.task) for task in self.resolved for r in stacks.plan_runs(task, seeds)]

    @property
    def description(self) -> dict[str, Any]:
        """All that the numbers depend on, and how many runs are trained together at most."""
        result = describe_comparison(self.options, self.resolved, self.device)
        size = min(stack_size(task, self.options, self.device) for task in self.resolved)
        return {**result, "stack": max(1, min(size, -(-len(self.keys) // self.ranks)))}

    def stacks(self, config: Mapping[str, Any]) -> list[Stack]:
        """The runs in stacks of the size that a configuration says."""
        return stacks.plan_stacks(self.resolved, self.options.seeds, config["stack"])


def resolve(options: Options, rank: int = 0, ranks: int = 1) -> Experiment:
    """The data, with what can be trained on them."""
    device = choose_device(options.device)
    meets = has_meeting_point(ranks)
    if ranks > 1 and options.out is None and not meets:
        raise PefourierError(
            f"several ranks meet in a folder; give --out DIR, or unset RANK={rank} and "
            f"WORLD_SIZE={ranks} to train alone"
        )
    path = None if options.out is None or (meets and rank) else Path(options.out)
    loaded = [load_task(name, options) for name in options.dataset]
    tasks = name_positives(loaded, options.positive)
    resolved = [stacks.resolve_task(task, options, device) for task in tasks]
    store = Store(path, 0 if meets else rank)
    return Experiment(options, rank, ranks, device, store, resolved)


def count_processes(experiment: Experiment, ranks: int) -> int:
    """How many processes share the work on this machine, where it is not one of many ranks."""
    cores, count = torch.get_num_threads(), experiment.options.processes
    if count is not None and not 1 <= count <= cores:
        raise PefourierError(
            f"--processes must be from 1 to {cores}, the cores that torch uses here; got {count}"
        )
    if ranks > 1 or experiment.device.type != "cpu":
        if count is not None:
            raise PefourierError(
                "--processes is for one CPU; ranks of torchrun, and GPUs, share the work without it"
            )
        return 1
    if count is not None:
        return count
    tokens = sum(tokens_seen(task, experiment.options) for task in experiment.resolved)
    return min(cores, MOST_PROCESSES) if tokens >= WORTH else 1


def tokens_seen(resolved: ResolvedTask, options: Options) -> int:
    """Tokens of training windows in all steps of all runs and candidates of a task."""
    runs = len(stacks.plan_runs(resolved, options.seeds)) * len(list_candidates(options))
    batch, _ = fit.batch_and_steps(resolved.task, options.batch_size)
    return runs * resolved.schedule.steps * batch * resolved.model.tokens


def train_as_rank(options: Options, is_noted: bool) -> Summary | None:
    """Train as one of the ranks that this machine has started."""
    rank, ranks = read_rank()
    note = (lambda line: print(f"pefourier: {line}", file=sys.stderr)) if is_noted else None
    return train_as(resolve(options, rank, ranks), note)


def train_as(experiment: Experiment, note: Note | None) -> Summary | None:
    """Train, score and compare as one rank."""
    note = None if experiment.rank else note
    with experiment.store.lock(), note_on_interrupt(experiment.store, note):
        if not has_meeting_point(experiment.ranks):
            return train_and_compare(experiment, None, note)
        with join_group(
            experiment.rank, experiment.ranks, experiment.options.rank_timeout
        ) as group:
            if was_restarted() and experiment.options.out is not None:
                experiment = replace(experiment, options=replace(experiment.options, resume=True))
            return train_and_compare(experiment, group, note)


def train_and_compare(
    experiment: Experiment, group: Group | None, note: Note | None
) -> Summary | None:
    """Train what the folder lacks, and compare."""
    config, done = begin(experiment, group)
    for line in dict.fromkeys(list_remarks(experiment)) if note is not None else ():
        note(line)
    work = Work(experiment, group, experiment.stacks(config), done)
    train_stacks(work, note)
    if group is not None and experiment.rank:
        return None
    rows = {key_of(row): row for row in (*experiment.store.rows(), *work.rows)}
    missing = set(experiment.keys) - rows.keys()
    if missing:  # of other ranks of a job array, which are at work
        if note is not None:
            note(f"rank {experiment.rank} is done; the last of {experiment.ranks} ranks sums up")
        return None
    params = {r.task.name: stacks.parameters(r) for r in experiment.resolved}
    classes = {r.task.name: r.task.classes for r in experiment.resolved}
    training = settings_in_common(experiment.options)
    return summary.summarize_runs([rows[key] for key in experiment.keys], params, training, classes)


def begin(experiment: Experiment, group: Group | None) -> tuple[dict[str, Any], set[Key]]:
    """The configuration that holds for all ranks, and the runs that are finished before."""
    if group is not None and experiment.rank:
        plan = group.plan()
        check_same(Path(f"rank {experiment.rank}"), plan["config"], experiment.description)
        return plan["config"], set(map(tuple, plan["done"]))
    for option in ("save_tables", "save_models"):
        if getattr(experiment.options, option) is not None:
            check_names(f"--{option.replace('_', '-')}", experiment.keys)
    config = experiment.store.begin(experiment.description, experiment.options.resume)
    rows = experiment.store.rows()
    stacks.check_runs(rows, experiment.resolved)
    done = [key_of(row) for row in rows]
    if group is not None:
        group.publish({"config": json.loads(json.dumps(config)), "done": done})
    return config, set(done)


def stack_size(resolved: ResolvedTask, options: Options, device: torch.device) -> int:
    """How many runs of a task, each with all of its candidates, can be trained together."""
    batch, _ = fit.batch_and_steps(resolved.task, options.batch_size)
    stacks.check_memory(resolved.model, batch, device)
    members = stacks.most_members(resolved.model, batch, device)
    return max(1, members // len(list_candidates(options)))


def list_remarks(experiment: Experiment) -> list[str]:
    """What to know before training."""
    options, resolved = experiment.options, experiment.resolved
    result = [line for r in resolved for line in stacks.remarks_on_task(r.task)]
    result += [line for r in resolved for line in stacks.remarks_on_codes(r, options.learn)]
    if options.data is not None and not any(map(reads_data_folder, options.dataset)):
        result.append(f"--data {options.data} has no effect on {', '.join(options.dataset)}")
    return result


def choose_device(device: str) -> torch.device:
    """The device to work on; auto is the GPU of this process where there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        local = int(os.environ.get("LOCAL_RANK", 0)) % max(1, torch.cuda.device_count())
        device = f"cuda:{local}"
    if not re.fullmatch("cpu(:0)?|cuda:[0-9]{1,9}", device):
        raise PefourierError(f"--device must be auto, cpu, cuda or cuda:0; got {shown(device)}")
    kind, _, number = device.partition(":")
    if kind == "cuda":
        count = torch.cuda.device_count()
        if int(number) >= count:
            raise PefourierError(
                f"--device {device}: this machine has {count} CUDA devices; use --device cpu"
            )
        torch.cuda.set_device(device)
    return torch.device(device)


@dataclass(eq=False)
class Work:
    """Stacks and what has come of them."""

    experiment: Experiment
    group: Group | None
    stacks: Sequence[Stack]
    done: set[Key]  # runs that were finished before

    def __post_init__(self) -> None:
        self.options, self.store = self.experiment.options, self.experiment.store
        self.candidates = list_candidates(self.options)
        self.longer = lengths.draw_longer_tasks(self.options)
        self.rows: list[dict[str, Any]] = []
        self.resident: Resident | None = None
        self.injections: dict[tuple[str, int], Injection] = {}
        self.trained_table: tuple[Path, Path] | None = None  # where one began, and what it became

    def member_steps(self, stack: Stack) -> int:
        """Steps of a stack's runs, with all of their candidates."""
        return len(stack.runs) * len(self.candidates) * stack.resolved.schedule.steps

    def share(self) -> Sequence[int]:
        """The numbers of the stacks that are this rank's, as far as that is known."""
        in_group = self.group is not None
        first, ranks = (0, 1) if in_group else (self.experiment.rank, self.experiment.ranks)
        return range(first, len(self.stacks), ranks)

    def turns(self, reporter: Reporter) -> Iterator[int]:
        """The numbers of this rank's stacks, one after another."""
        if self.group is None:
            yield from self.share()
            return
        reporter.after_look = partial(self.take_over, reporter)
        yield from self.group.claims(len(self.stacks))
        if self.group.rank == 0:
            self.group.wait_for_all(len(self.stacks), partial(self.take_over, reporter))

    def take_over(self, reporter: Reporter) -> None:
        """Store what other ranks have handed over, on rank 0."""
        for number, rows, traces in (
            self.group.arrived(len(self.stacks)) if self.group.rank == 0 else ()
        ):
            check_handed_over(rows, self.stacks[number].keys)
            reporter.skip(self.member_steps(self.stacks[number]))
            self.put_away(rows, traces)
            self.rows += rows

    def put_away(self, rows: Sequence[Mapping[str, Any]], traces: Sequence[bytes]) -> None:
        """Store rows, and what their runs left behind."""
        if self.store.path is not None:
            for row, trace in zip(rows, traces, strict=True):
                write_trace(self.store.path, key_of(row), trace)
        self.store.append(row for row in rows if key_of(row) not in self.done)

    def train(self, number: int, reporter: Reporter) -> None:
        """Train a stack unless it is finished, and keep what comes of it."""
        stack = self.stacks[number]
        rows: list[dict[str, Any]] = []
        traces: list[bytes] = []
        if not self.done.issuperset(stack.keys):
            checkpoint = self.checkpoint_of(stack)
            chosen = self.outcomes_of(stack, reporter, checkpoint)
            rows, traces = self.keep(stack, chosen)
            self.rows += rows
            checkpoint.drop()
            refuse_non_finite([outcome for outcome, _ in chosen])
        if self.group is not None:
            self.group.finish(number, rows, traces)

    def checkpoint_of(self, stack: Stack) -> Checkpoint:
        """Where a stack goes on after an interruption."""
        if self.store.path is None or isinstance(stack.model, OtherMethod):
            return Checkpoint(None)
        name = f"{zlib.crc32(repr(stack.keys).encode()):08x}.safetensors"
        return Checkpoint(self.store.path / FOLDER / name)

    def outcomes_of(
        self, stack: Stack, reporter: Reporter, checkpoint: Checkpoint
    ) -> list[search.Chosen]:
        """What training made of the runs of a stack."""
        if isinstance(stack.model, OtherMethod):
            return search.fit_beside(stack)
        if self.resident is None or self.resident.task is not stack.task:
            self.resident, self.injections = (
                fit.put_on_device(stack.task, self.experiment.device),
                {},
            )
        self.injections = stacks.stack_injections(stack, self.options.learn, self.injections)
        reporter.begin(stack.resolved.schedule.steps)
        arguments = self.candidates, self.injections, reporter.count_steps, checkpoint
        return search.train_candidates(self.resident, stack, *arguments)

    def keep(
        self, stack: Stack, chosen: Sequence[search.Chosen]
    ) -> tuple[list[dict[str, Any]], list[bytes]]:
        """Score and store what a stack came to, and save what is asked of it."""
        finite = [pair for pair in chosen if pair[0].finite]
        rows = [row_of(stack.resolved, *pair, self.experiment.device) for pair in finite]
        for row, (outcome, _) in zip(rows, finite, strict=True):
            row["terms"] = terms_of(stack, outcome)
        longer, options = self.longer.get(stack.task.name), self.options
        for row, (outcome, _) in zip(rows, finite, strict=True) if longer else ():
            row["tested"] = longer.test(stack, outcome, stack.model)
        pairs = zip(rows, finite, strict=True)
        traces = [trace_of(stack.task, outcome, key_of(row)) for row, (outcome, _) in pairs]
        self.put_away(rows, traces)
        if options.save_tables is not None:
            pair = save_codes(options.save_tables, stack.task, [outcome for outcome, _ in chosen])
            self.trained_table = pair or self.trained_table
        saves = options.save_models is not None and not isinstance(stack.model, OtherMethod)
        for outcome, _ in finite if saves else ():
            save_model(options.save_models, stack.task, outcome, stack.model)
        return rows, traces


def train_stacks(work: Work, note: Note | None) -> None:
    """Train this rank's stacks, except those that are finished."""
    share = [work.stacks[number] for number in work.share()]
    batches = [fit.batch_and_steps(s.task, work.options.batch_size)[0] for s in share] or [0]
    ranks = work.group.ranks if work.group is not None else 1
    total = sum(map(work.member_steps, share))
    with report_progress(total, max(batches), ranks, note) as reporter:
        for number in work.turns(reporter):
            steps, before = work.member_steps(work.stacks[number]), reporter.trained
            work.train(number, reporter)
            reporter.skip(steps - (reporter.trained - before))
    had = {key for stack in share for key in stack.keys}.difference(map(key_of, work.rows))
    if note is None:
        return
    if work.trained_table is not None:
        ask = shlex.join(["pefourier", "compare", *map(str, work.trained_table)])
        note(f"what training made of a table: {ask}")
    for line in tell_files_of(had, work.options):
        note(line)


def tell_files_of(had: set[Key], options: Options) -> Iterator[str]:
    """Of runs that were finished before, which files a folder that was named lacks."""
    kinds = {"save_tables": (".npy", WITHOUT_CODES), "save_models": (".safetensors", BESIDE)}
    for option, (suffix, without) in kinds.items():
        folder = getattr(options, option)
        names = [name_of_table(*key, suffix) for key in sorted(had) if key[1] not in without]
        if folder is None or not names:
            continue
        lacked = [name for name in names if not (Path(folder) / name).is_file()]
        contents, count = option.partition("_")[2], len(lacked or names)
        runs = f"{count} {agreeing(count, 'run that was', 'runs that were')} finished before"
        complete = f"{folder} keeps the {contents} of {runs}"
        yield f"{folder} lacks {contents} of {runs}: {first_few(lacked)}" if lacked else complete


def refuse_non_finite(outcomes: Sequence[Outcome]) -> None:
    """Name the first member with non-finite logits; those beside it are stored by now."""
    for outcome in outcomes:
        if not outcome.finite:
            m = outcome.member
            raise PefourierError(
                f"{m.encoding}, seed {m.seed}, fold {m.fold}: non-finite logits; its codes may be "
                "too large: SPEC@rms=SIZE scales them"
            )


@contextmanager
def note_on_interrupt(store: Store, note: Note | None) -> Iterator[None]:
    """Say what Ctrl-C leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        if note is not None and store.path is None:
            note("nothing is kept: --out DIR keeps what is finished, and --resume goes on")
        elif note is not None:
            count = len(store.rows())
            are = agreeing(count, "finished run is", "finished runs are")
            note(f"{count} {are} in {store.path}; --resume goes on")
        raise


def row_of(
    resolved: ResolvedTask, outcome: Outcome, settings: Mapping[str, Any], device: torch.device
) -> dict[str, Any]:
    """A line of results.jsonl; `settings` are those that were chosen on validation."""
    member, task, schedule = outcome.member, resolved.task, resolved.schedule
    fold = task.folds[member.fold]
    labels, macro = task.labels[fold.test], task.positive is None
    parts = outcome.valid, task.labels[fold.valid], outcome.test
    confusion = count_confusions(decide(*parts, macro), labels, len(task.classes))
    return {
        "dataset": task.name,
        "encoding": member.encoding,
        "seed": member.seed,
        "fold": member.fold,
        **asdict(score(*parts, labels, macro)),
        "step": outcome.step,
        "seconds": round(outcome.seconds, 3),
        "split": task.split,
        "leaky": task.leaky,
        "length": task.length,
        "windows": len(fold.test),
        "trained": len(fold.train),
        "confusion": confusion.tolist(),
        "positive": task.positive,
        "shortest": task.shortest,
        "uneven": task.uneven,
        "budget": schedule.budget,
        "device": str(device),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "step_seconds": outcome.step_seconds and round(outcome.step_seconds, 7),
        "tested": [],
        "chosen": dict(settings),
        "terms": [],
    }


def terms_of(stack: Stack, outcome: Outcome) -> list[list[float]]:
    """Shares of the four terms of scores of some test windows; [] unless codes are added."""
    task, injection = stack.task, outcome.member.injection
    added = injection.act == "add" and injection.has_codes and task.lengths is None
    if not isinstance(stack.model, Transformer) or not added:
        return []
    fold = task.folds[outcome.member.fold]
    starts = task.starts[fold.test[: fit.AT_ONCE]]
    windows = (task.rows[starts[:, None] + np.arange(task.length)] - fold.mean) / fold.scale
    return score_terms(stack.model, outcome.parameters, outcome.codes, windows)


def save_codes(folder: str, task: Task, outcomes: Sequence[Outcome]) -> tuple[Path, Path] | None:
    """Write trained codes as tables that the other commands read, and where training began.

    A start is that of a seed or of all. The last pair of both is returned.
    """
    pair = None
    for outcome in outcomes:
        member, injection = outcome.member, outcome.member.injection
        if outcome.codes is None or member.encoding in WITHOUT_CODES:
            continue
        name_of = partial(name_of_table, task.name, member.encoding)
        path = Path(folder) / name_of(member.seed, member.fold)
        write_table(str(path), injection.as_rows(outcome.codes), "<f4")  # as they were trained
        if injection.learn:
            start = Path(folder) / name_of(member.seed if injection.seeded else None, None, START)
            write_table(str(start), injection.as_rows(injection.table()), "<f4")
            pair = start, path
    return pair


def check_names(option: str, order: Sequence[Key]) -> None:
    """Refuse files whose names a folder cannot hold, or that would replace one another."""
    names: dict[str, Key] = {}
    for key in order:
        name = name_of_table(*key, START if option == "--save-tables" else ".safetensors")
        if len(name.encode()) > LONGEST_NAME:
            raise PefourierError(
                f"{option}: {shown(name)} is longer than {LONGEST_NAME} bytes; shorten the path"
            )
        if names.setdefault(name, key) != key:
            pair = " and ".join(shown(twin[1]) for twin in (names[name], key))
            raise PefourierError(
                f"{option}: {pair} would be written to one file, {name}; rename one of them"
            )


def write_summary(store: Store, result: Summary) -> None:
    """Write summary.json, summary.md and the figures."""
    if store.path is None:
        return
    from pefourier.report import plot, training_figures
    from pefourier.writing.page import plain

    content = plain({k: v for k, v in asdict(result).items() if k != "runs"})
    write_json(store.path / "summary.json", content)
    text = as_markdown(result).encode()
    write_whole(str(store.path / "summary.md"), lambda stream: stream.write(text))
    for name in ("critical-difference", "lengths", "curves"):  # maybe of what was asked before
        (store.path / f"{name}.png").unlink(missing_ok=True)
    curves = read_curves(store.path, result.runs)
    for name, (draw, answers, _) in training_figures.pictures(result, curves).items():
        plot.save(str(store.path / f"{name}.png"), draw, answers)

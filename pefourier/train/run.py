"""The comparison from options to answer: datasets × encodings × seeds × folds, in stacks.

Stacks are known before anything is trained, and ranks (RANK, WORLD_SIZE of torchrun) take every
so many-th of them; what --resume asks beyond them has stacks of its own. A stack that lacks a run
after a crash is trained again as a whole: so where the same is asked, resumed numbers are those of
an undisturbed run, bit for bit on a CPU.
"""

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pefourier.encodings.sources.tables import write_table
from pefourier.errors import PefourierError, shown
from pefourier.files import write_whole
from pefourier.train import extrapolation, foresight, grid, loop, power, processes, search, summary
from pefourier.train.asked import check_options, list_arms, list_candidates, parse_lengths
from pefourier.train.beside import OtherMethod
from pefourier.train.configuration import describe_comparison, settings_in_common
from pefourier.train.data.load import load_task, name_positives, reads_data_folder
from pefourier.train.data.split import Task
from pefourier.train.grid import ResolvedTask, Stack
from pefourier.train.injection import Injection
from pefourier.train.loop import Outcome, Resident
from pefourier.train.metrics import count_confusions, decide, score
from pefourier.train.options import BESIDE, WITHOUT_CODES, Options
from pefourier.train.progress import Note, Reporter, report_progress
from pefourier.train.ranks import Group, join_group, meets_in_group, was_restarted
from pefourier.train.report import as_markdown
from pefourier.train.saved_models import save_model
from pefourier.train.schema import Row
from pefourier.train.store import (
    ASKED,
    ELSEWHERE,
    KNOWN,
    Key,
    Store,
    check_handed_over,
    find_change,
    key_of,
    write_json,
)
from pefourier.train.summary import Summary
from pefourier.train.traces import START, name_of_table, read_curves, trace_of, write_trace
from pefourier.writing.escapes import printable
from pefourier.writing.text import agreeing, first_few

LONGEST_NAME = 255  # bytes
LOOK_EVERY = 1.0  # seconds between looks for finished stacks of others while one trains
POLL = 0.2  # seconds between looks for what other ranks have finished
GRACE = 60.0  # seconds that the first rank, when it is done, gives others to begin


def run_comparison(
    options: Options,
    deliver: Callable[[Summary], None] = lambda found: None,
    note: Note | None = None,
) -> Summary | None:
    """Train, score and compare; results go to `out` as they come. Only rank 0 has the answer.

    `deliver` has it before the files that sum it up are written, which a full disk may prevent.
    `note` is given what to know meanwhile, a line at a time; without it nothing is shown.
    """
    check_options(options)
    options = replace(options, encoding=(*options.encoding, *options.beside), beside=())
    rank, ranks = read_rank()
    if not meets_in_group(ranks):
        return compare_as(options, Place(rank, ranks), deliver, note)
    with join_group(rank, ranks, options.rank_timeout) as group:
        if was_restarted() and options.out is not None and rank == 0:
            options = replace(options, resume=True)
        return compare_as(options, Place(rank, ranks, group), deliver, note)


@dataclass(frozen=True)
class Place:
    """Which rank of how many, and the group in which they meet, if it is not a folder."""

    rank: int
    ranks: int
    group: Group | None = None

    def store(self, out: str | None) -> Store:
        """Where this rank writes; in a group rank 0 alone does."""
        path = Path(out) if out is not None else None
        if self.group is not None:
            return Store(path if self.rank == 0 else None)
        if self.ranks > 1 and path is None:
            raise PefourierError(
                f"several ranks meet in a folder; give --out DIR, or unset RANK={self.rank} and "
                f"WORLD_SIZE={self.ranks} to train alone"
            )
        return Store(path, self.rank, self.ranks)


def compare_as(
    options: Options,
    place: Place,
    deliver: Callable[[Summary], None] = lambda found: None,
    note: Note | None = None,
) -> Summary | None:
    """Train, score and compare at a place among ranks."""
    note = None if place.rank else note
    asked = resolve(options, place)
    with asked.store.lock(), note_on_interrupt(asked.store, note):
        with shared_with_processes(asked, note) as place:
            found = train_and_compare(replace(asked, place=place), note)
        if found is not None:
            deliver(found)
            write_summary(asked.store, found)
        return found


@dataclass(frozen=True, eq=False)
class AskedComparison:
    """What is to be compared, on which data and device, and where results go."""

    options: Options
    place: Place
    device: torch.device
    store: Store
    resolved: Sequence[ResolvedTask]

    @property
    def keys(self) -> list[Key]:
        """All runs that are asked for."""
        every = [(one.task, grid.plan_runs(one, self.options.seeds)) for one in self.resolved]
        return [run.key(task) for task, runs in every for run in runs]

    @property
    def description(self) -> dict[str, Any]:
        """All that the numbers depend on, except stacks."""
        return describe_comparison(self.options, self.resolved, self.device)

    def stacks(self, config: Mapping[str, Any]) -> list[Stack]:
        """The runs in stacks, by the stages of a configuration."""
        counted = self.options.seeds, self.options.resamples is not None
        return grid.plan_stacks(self.resolved, *counted, config["stages"])


def resolve(options: Options, place: Place) -> AskedComparison:
    """The data, with what can be trained on them."""
    device, store = choose_device(options.device), place.store(options.out)
    how = (options.data, options.window, options.stride, options.split)
    parts = (options.folds, options.resamples)
    parts += (options.positive, options.columns, options.missing)
    loaded = [load_task(name, *how, *parts) for name in options.dataset]
    tasks = name_positives(loaded, options.positive)
    resolved = [grid.resolve_task(task, options, device) for task in tasks]
    return AskedComparison(options, place, device, store, resolved)


def take_part() -> None:
    """Work for the process that has started this one."""
    with processes.join_from_input() as (options, group):
        compare_as(options, Place(group.rank, group.ranks, group))


@contextmanager
def shared_with_processes(asked: AskedComparison, note: Note | None) -> Iterator[Place]:
    """The place of this process, among others that it starts where these are worth it."""
    options, place = asked.options, asked.place
    count = processes.count_processes(options, asked.resolved, asked.device, place.ranks)
    if count == 1:
        yield place
        return
    with processes.start_processes(options, count, note) as group:
        yield place if group is None else Place(0, count, group)


def train_and_compare(asked: AskedComparison, note: Note | None) -> Summary | None:
    """Train what the folder lacks, and compare."""
    options, place, store = asked.options, asked.place, asked.store
    if place.group is not None and place.rank:
        config = follow_plan(place.group, asked.description)
    else:
        config = plan_stages(asked, place.ranks)
        store.write_configuration(config, options.resume)
        store.drop_torn_line()
        if place.group is not None:
            place.group.publish({"config": config, "done": [key_of(row) for row in store.rows()]})
    if note is not None:
        told = [foretell_power(options, one.task) for one in asked.resolved]
        for line in dict.fromkeys([*list_remarks(asked), *told]):
            note(line)
    done = {*map(tuple, config.get("done", ())), *map(key_of, store.rows())}
    rows = train_stacks(asked, asked.stacks(config), done, note)
    if place.rank:
        return None
    every = collect_rows(store, asked.keys, rows)
    params = {one.task.name: grid.parameters(one) for one in asked.resolved}
    classes = {one.task.name: one.task.classes for one in asked.resolved}
    return summary.summarize_runs(every, params, settings_in_common(options), classes)


def plan_stages(asked: AskedComparison, ranks: int) -> dict[str, Any]:
    """The configuration with a stage for what was not asked of the folder before."""
    options, store = asked.options, asked.store
    for option in ("save_tables", "save_models"):
        if getattr(options, option) is not None:
            check_names(f"--{option.replace('_', '-')}", asked.keys)
    config = store.settle_configuration(asked.description, options.resume)
    new = set(asked.keys).difference(*(stack.keys for stack in asked.stacks(config)))
    if new:
        most = min(stack_size(one, options, asked.device) for one in asked.resolved)
        stage = {key: config[key] for key in ASKED}
        config["stages"].append({**stage, "stack": min(most, -(-len(new) // ranks))})
    lengths = parse_lengths(options.test_length)
    grid.check_runs(store.rows(), asked.resolved, config["stages"], lengths)
    return config


def follow_plan(group: Group, own: Mapping[str, Any]) -> dict[str, Any]:
    """What rank 0 has planned, if this rank was asked the same; `done` is what is finished."""
    plan = group.plan()
    config, asked = plan["config"], json.loads(json.dumps(own))
    for key in sorted(asked.keys() - {*ELSEWHERE, *KNOWN}):
        if config.get(key) != asked[key]:
            raise PefourierError(
                f"rank {group.rank} was asked {key} {shown(asked[key])}, rank 0 "
                f"{shown(config.get(key))}; ask all ranks the same"
            )
    if changed := find_change(config, asked):
        raise PefourierError(f"rank {group.rank} has other data than rank 0: {changed}")
    return {**config, "done": plan["done"]}


def stack_size(resolved: ResolvedTask, options: Options, device: torch.device) -> int:
    """How many runs of a task, each with all of its candidates, can be trained together."""
    batch, _ = loop.batch_and_steps(resolved.task, options.batch_size)
    shapes = search.list_shapes(resolved.model, list_candidates(options))
    for model, _ in shapes:
        grid.check_memory(model, batch, device)
    return min(max(1, grid.most_members(m, batch, device) // len(own)) for m, own in shapes)


def list_remarks(asked: AskedComparison) -> list[str]:
    """What to know before training."""
    options, resolved = asked.options, asked.resolved
    found = [line for one in resolved for line in grid.remarks_on_examples(one.task)]
    found += [line for one in resolved for line in grid.remarks_on_codes(one, options.learn)]
    if options.data is not None and not any(map(reads_data_folder, options.dataset)):
        found.append(f"--data {options.data} has no effect on {', '.join(options.dataset)}")
    longer = extrapolation.draw_longer_tasks(options)
    for one in resolved if longer else ():
        tasks = longer[one.task.name].tasks
        found += extrapolation.remarks_on_fixed_codes(one, tasks, options.learn)
    return found


def foretell_power(options: Options, task: Task) -> str:
    """Which differences the runs on a task will be able to show."""
    folds = len(task.folds)
    asked = {"find": options.find, "differences": count_differences(options)}
    return power.foretell(task.name, options.seeds, folds, options.spread, **asked)


def count_differences(options: Options) -> int:
    """How many differences p is adjusted for: all encodings but the one they are compared with."""
    return max(1, len(list_arms(options.encoding, options.match_rms)) - 1)


def read_rank() -> tuple[int, int]:
    """This process's rank and the number of ranks, from the environment."""
    given = [os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")]
    rank, ranks = (int(n) if re.fullmatch("[0-9]{1,9}", n) else -1 for n in given)
    if not 0 <= rank < ranks:
        raise PefourierError(
            f"RANK={printable(given[0])} must be a whole number from 0 to below "
            f"WORLD_SIZE={printable(given[1])}; unset both, or let torchrun set them"
        )
    return rank, ranks


def choose_device(device: str) -> torch.device:
    """The device to work on; auto is the GPU of this process where there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
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


def train_stacks(
    asked: AskedComparison, stacks: Sequence[Stack], done: set[Key], note: Note | None
) -> list[Row]:
    """Train this rank's stacks, except those that are finished; the rows that were trained."""
    work, options, place = Work(asked, stacks, done), asked.options, asked.place
    share = work.share()
    ranks = place.ranks if place.group is not None else 1  # at the stacks of this share
    windows = max((len(s.task.folds[0].train) for s in stacks), default=0)
    if note is not None and asked.device.type == "cpu":
        left = stacks_to_train(share, done)
        for one in foresight.foretell_time(left, work.candidates, options, ranks):
            note(one.line)
    member_epochs = sum(map(work.member_epochs, share))
    with report_progress(member_epochs, windows, ranks, note) as reporter:
        for number in work.turns(reporter):
            own, before = work.member_epochs(stacks[number]), reporter.trained
            work.train(number, reporter)
            reporter.skip(own - (reporter.trained - before))
    had = {key for stack in share for key in stack.keys}.difference(map(key_of, work.rows))
    if work.trained_table is not None and note is not None:
        ask = shlex.join(["pefourier", "compare", *map(str, work.trained_table)])
        note(f"what training made of a table: {ask}")
    for line in tell_files_of(had, options) if note is not None else ():
        note(line)
    return work.rows


def stacks_to_train(stacks: Sequence[Stack], done: set[Key]) -> list[Stack]:
    """Stacks whose time is foretold: those that are to be trained."""
    return [stack for stack in stacks if not done.issuperset(stack.keys)]


@dataclass(eq=False)
class Work:
    """Stacks and what has come of them."""

    asked: AskedComparison
    stacks: Sequence[Stack]
    done: set[Key]  # runs that were finished before

    def __post_init__(self) -> None:
        self.options, self.place = self.asked.options, self.asked.place
        self.store = self.asked.store
        self.candidates = list_candidates(self.options)
        self.longer = extrapolation.draw_longer_tasks(self.options)
        self.rows: list[Row] = []
        self.looked = time.monotonic()  # when others' finished stacks were last asked for
        self.held: Resident | None = None
        self.injections: dict[tuple[str, int], Injection] = {}
        self.trained_table: tuple[Path, Path] | None = None  # where one began, and what it became

    def member_epochs(self, stack: Stack) -> int:
        """Epochs of a stack's runs, with all of their candidates."""
        times = len(self.candidates) + self.options.refit
        return len(stack.runs) * times * stack.resolved.schedule.epochs

    def share(self) -> Sequence[Stack]:
        """The stacks that are this rank's, as far as that is known."""
        if self.place.group is not None:
            return self.stacks
        return self.stacks[self.place.rank :: self.place.ranks]

    def turns(self, reporter: Reporter) -> Iterator[int]:
        """The numbers of this rank's stacks."""
        group, total = self.place.group, len(self.stacks)
        if group is None:
            yield from range(self.place.rank, total, self.place.ranks)
            return
        reporter.after_epoch = partial(self.take_over_at_times, group, reporter)
        for number in group.claims(total):
            yield number
            self.take_over(group, reporter)
        self.take_over(group, reporter)

    def take_over_at_times(self, group: Group, reporter: Reporter) -> None:
        """The same while this rank trains, or what others have finished would be lost with it."""
        if time.monotonic() - self.looked > LOOK_EVERY:
            self.looked = time.monotonic()
            self.take_over(group, reporter)

    def take_over(self, group: Group, reporter: Reporter) -> None:
        """Store what other ranks have handed over, on rank 0."""
        for number, rows, traces in group.arrived(len(self.stacks)) if group.rank == 0 else ():
            check_handed_over(rows, self.stacks[number].keys)
            reporter.skip(self.member_epochs(self.stacks[number]))
            self.put_away(rows, traces)
            self.rows += rows

    def put_away(self, rows: Sequence[Row], traces: Sequence[bytes]) -> None:
        """Store rows, and what their runs left behind."""
        if self.store.path is not None:
            for row, trace in zip(rows, traces, strict=True):
                write_trace(self.store.path, key_of(row), trace)
        self.store.append(row for row in rows if key_of(row) not in self.done)

    def train(self, number: int, reporter: Reporter) -> None:
        """Train a stack unless it is finished, and keep what comes of it."""
        stack, group = self.stacks[number], self.place.group
        rows: list[Row] = []
        traces: list[bytes] = []
        if not self.done.issuperset(stack.keys):
            if self.held is None or self.held.task is not stack.task:
                self.held, self.injections = loop.put_on_device(stack.task, self.asked.device), {}
            self.injections = grid.stack_injections(stack, self.options.learn, self.injections)
            schedule = stack.resolved.schedule
            reporter.epochs = schedule.epochs
            if isinstance(stack.model, OtherMethod):
                chosen = search.fit_beside(stack, self.options.refit)
            else:
                chosen = search.train_candidates(
                    self.held, stack, self.candidates, self.injections, self.options, reporter
                )
            rows, traces = self.keep(stack, chosen)
            self.rows += rows
            refuse_non_finite([outcome for outcome, _ in chosen])
        if group is not None:
            group.finish(number, rows, traces)

    def keep(
        self, stack: Stack, chosen: Sequence[tuple[Outcome, Mapping[str, Any]]]
    ) -> tuple[list[Row], list[bytes]]:
        """Score and store what a stack came to, and save what is asked of it."""
        finite = [one for one in chosen if one[0].finite]
        rows = [row_of(stack.resolved, *one, self.held) for one in finite]
        longer, options = self.longer.get(stack.task.name), self.options
        for row, (outcome, settings) in zip(rows, finite, strict=True) if longer else ():
            model = search.shape_for(stack.model, settings)
            row["tested"] = longer.test(stack, outcome, model)
        kept = zip(rows, finite, strict=True)
        traces = [trace_of(stack.task, outcome, key_of(row)) for row, (outcome, _) in kept]
        self.put_away(rows, traces)
        if options.save_tables is not None:
            outcomes = [outcome for outcome, _ in chosen]
            pair = save_codes(options.save_tables, stack.task, outcomes, bool(options.search))
            self.trained_table = pair or self.trained_table
        saves = options.save_models is not None and not isinstance(stack.model, OtherMethod)
        for outcome, settings in finite if saves else ():
            model = search.shape_for(stack.model, settings)
            save_model(options.save_models, stack.task, outcome, model)
        return rows, traces


def tell_files_of(had: set[Key], options: Options) -> Iterator[str]:
    """Of runs that were finished before, which files a folder that was named lacks."""
    wanted = {"save_tables": (".npy", WITHOUT_CODES), "save_models": (".safetensors", BESIDE)}
    for option, (suffix, without) in wanted.items():
        folder = getattr(options, option)
        own = [name_of_table(*key, suffix) for key in sorted(had) if key[1] not in without]
        if folder is None or not own:
            continue
        lacked = [name for name in own if not (Path(folder) / name).is_file()]
        what, count = option.partition("_")[2], len(lacked or own)
        runs = f"{count} {agreeing(count, 'run that was', 'runs that were')} finished before"
        kept = f"{folder} keeps the {what} of {runs}"
        yield f"{folder} lacks {what} of {runs}: {first_few(lacked)}" if lacked else kept


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
            kept = len(store.rows())
            are = agreeing(kept, "finished run is", "finished runs are")
            some = f"{kept} {are} in {store.path}; --resume goes on"
            none = "no run was finished: seeds train together; take fewer first, --resume adds more"
            note(some if kept else none)
        raise


def row_of(
    resolved: ResolvedTask, outcome: Outcome, settings: Mapping[str, Any], held: Resident
) -> Row:
    """A line of results.jsonl; `settings` are those that were chosen on validation."""
    member, task, schedule = outcome.member, resolved.task, resolved.schedule
    fold = task.folds[member.fold]
    labels = task.labels[fold.test]
    parts = outcome.valid, task.labels[fold.valid], outcome.test
    macro = task.positive is None
    found = score(*parts, labels, macro)
    confusion = count_confusions(decide(*parts, macro), labels, len(task.classes))
    return {
        "dataset": task.name,
        "encoding": member.encoding,
        "seed": member.seed,
        "fold": member.fold,
        **asdict(found),
        "epoch": outcome.epoch,
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
        "budget": grid.budget_of(task, schedule),
        "falling": loop.still_falls(outcome.curve, outcome.epoch, schedule.epochs),
        "device": str(held.device),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **({} if outcome.step is None else {"step_seconds": round(outcome.step, 7)}),
        **({"chosen": dict(settings)} if settings else {}),
    }


def save_codes(
    folder: str, task: Task, outcomes: Sequence[Outcome], shaped: bool
) -> tuple[Path, Path] | None:
    """Write trained codes as tables that the other commands read, and where training began.

    A start is that of a seed or of all, unless each run may have chosen a shape of its own. The
    last pair of both is returned.
    """
    pair = None
    for outcome in outcomes:
        member, one = outcome.member, outcome.member.injection
        if outcome.codes is None or member.encoding in WITHOUT_CODES:
            continue
        named = partial(name_of_table, task.name, member.encoding)
        path = Path(folder) / named(member.seed, member.fold)
        write_table(str(path), one.as_rows(outcome.codes), "<f4")  # as they were trained
        if one.learn:
            seed = member.seed if shaped or one.seeded else None
            start = Path(folder) / named(seed, member.fold if shaped else None, START)
            write_table(str(start), one.as_rows(one.table()), "<f4")
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
            both = " and ".join(shown(one[1]) for one in (names[name], key))
            raise PefourierError(
                f"{option}: {both} would be written to one file, {name}; rename one of them"
            )


def collect_rows(store: Store, order: Sequence[Key], rows: Sequence[Row]) -> list[Row]:
    """All runs of all ranks, in the order of the grid; rank 0 waits for the others."""
    if store.path is None:
        by = {key_of(row): row for row in rows}
        return [by[key] for key in order]
    if store.ranks > 1:
        wait_for_ranks(store, set(order))
    return store.merge(order)


def wait_for_ranks(store: Store, wanted: set[Key]) -> None:
    """Wait until other ranks have finished, or for some time until one of them begins."""
    began = time.monotonic()
    while True:
        alone = not store.others_at_work()  # asked first: one may finish in between
        missing = wanted - {key_of(row) for row in store.rows()}
        if not missing:
            return
        if alone and time.monotonic() - began > GRACE:
            raise PefourierError(
                f"no other of the WORLD_SIZE={store.ranks} ranks is at work in {store.path}, and "
                f"{len(missing)} of {len(wanted)} runs are missing; start every rank (torchrun "
                "does), or unset RANK and WORLD_SIZE and go on with --resume"
            )
        time.sleep(POLL)


def write_summary(store: Store, found: Summary) -> None:
    """Write summary.json, summary.md and the figures."""
    if store.path is None:
        return
    from pefourier.answers import plot
    from pefourier.answers import training_figures as figures
    from pefourier.writing.page import plain

    content = plain({k: v for k, v in asdict(found).items() if k != "runs"})
    write_json(store.path / "summary.json", content)
    text = as_markdown(found).encode()
    write_whole(str(store.path / "summary.md"), lambda stream: stream.write(text))
    drawn = {
        "comparison": (figures.comparison, found),
        "critical-difference": (figures.critical_difference, found if found.ranked else None),
        "lengths": (figures.score_by_length, found if found.lengthened else None),
        "curves": (figures.learning_curves, read_curves(store.path, found.runs)),
    }
    for name, (draw, what) in drawn.items():
        path = store.path / f"{name}.png"
        path.unlink(missing_ok=True)  # it may be of what was asked before
        if what:
            plot.save(str(path), draw, what)

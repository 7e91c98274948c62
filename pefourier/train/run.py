"""The comparison from options to answer: datasets × encodings × seeds × folds, in stacks.

Stacks are known before anything is trained, and ranks (RANK, WORLD_SIZE of torchrun) take every
so many-th of them; what --resume asks beyond them has stacks of its own. A stack that lacks a run
after a crash is trained again as a whole: so where the same is asked, resumed numbers are those of
an undisturbed run, bit for bit on a CPU.
"""

import os
import platform
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch

from pefourier import __version__
from pefourier.encodings.sources.tables import write_table
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, printable, shown
from pefourier.files import reason, write_whole
from pefourier.train import extrapolation, grid, loop, power, search, summary
from pefourier.train.data.load import load_task, reads_data_folder
from pefourier.train.data.split import Task
from pefourier.train.extrapolation import Longer
from pefourier.train.grid import ResolvedTask, Run, Stack
from pefourier.train.injection import ACTS, Injection, scaled_to_rms
from pefourier.train.loop import Member, Outcome, Resident, Schedule
from pefourier.train.metrics import score
from pefourier.train.options import MOST_SEEDS, ORDER_FREE, Options
from pefourier.train.pace import Tuning
from pefourier.train.progress import Note, Reporter, report_progress
from pefourier.train.schema import NOT_NUMBERS, Row
from pefourier.train.search import Choice
from pefourier.train.store import ASKED, Key, Store, key_of, write_json
from pefourier.train.summary import Summary

LONGEST_NAME = 255  # bytes
RULES = {  # that numbers depend on, where an earlier version had others
    "choice": "highest score on validation (average precision; of more than two classes macro F1), "
    "then least loss",
    "size": "@rms: of codes less their mean over positions",
}
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
    rank, ranks = read_rank()
    device = choose_device(options.device)
    store = Store(Path(options.out) if options.out else None, rank, ranks)
    if ranks > 1 and store.path is None:
        raise PefourierError(
            f"several ranks meet in a folder; give --out DIR, or unset RANK={rank} and "
            f"WORLD_SIZE={ranks} to train alone"
        )
    how = (options.data, options.window, options.stride, options.split)
    parts = (options.folds, options.resamples)
    tasks = [load_task(name, *how, *parts) for name in options.dataset]
    resolved = [grid.resolve_task(task, options, device) for task in tasks]
    with store.lock():
        found = train_and_compare(options, resolved, store, device, None if rank else note)
        if found is not None:
            deliver(found)
            write_summary(store, found)
        return found


def train_and_compare(
    options: Options,
    resolved: Sequence[ResolvedTask],
    store: Store,
    device: torch.device,
    note: Note | None,
) -> Summary | None:
    """Train what the folder lacks, and compare."""
    config = store.settle_configuration(configuration(options, resolved, device), options.resume)
    runs = {one.task.name: grid.plan_runs(one, options.seeds) for one in resolved}
    order = [run.key(one.task) for one in resolved for run in runs[one.task.name]]
    if options.save_tables is not None:
        check_names_of_tables(order)
    stacks = grid.plan_stacks(resolved, runs, config["stages"])
    new = set(order).difference(*(stack.keys for stack in stacks))
    if new:
        most = min(most_stacked(one, options, device) for one in resolved)
        asked = {key: config[key] for key in ASKED}
        config["stages"].append({**asked, "stack": min(most, -(-len(new) // store.ranks))})
        stacks = grid.plan_stacks(resolved, runs, config["stages"])
    params = {one.task.name: grid.parameters(one) for one in resolved}
    grid.check_runs(store.rows(), resolved, config["stages"], options.epochs)
    store.write_configuration(config)
    store.drop_torn_line()
    if note is not None:
        for line in list_remarks(options, resolved):
            note(line)
    with note_if_interrupted(store, note):
        rows = train_stacks(stacks[store.rank :: store.ranks], options, store, device, note)
        if store.rank:
            return None
        every = collect_rows(store, order, rows)
        return summary.summarize_runs(every, params, shared_settings(options))


def most_stacked(resolved: ResolvedTask, options: Options, device: torch.device) -> int:
    """How many runs of a task, each with all of its candidates, can be trained together."""
    batch, _ = loop.batch_and_steps(resolved.task, options.batch_size)
    shapes = search.shapes_tried(resolved.model, search.list_candidates(options))
    return min(max(1, grid.most_members(m, batch, device) // len(own)) for m, own in shapes)


def shared_settings(options: Options) -> dict[str, Any]:
    """What all models of a comparison have in common."""
    names = ("epochs", "patience", "batch_size", "rate", "warmup", "weight_decay", "dropout")
    names += (
        "search",
        "d",
        "heads",
        "layers",
        "ffn",
        "pool",
        "patch",
        "patch_stride",
        "tokens",
        "learn",
    )
    names += ("spread", "test_length")
    return {name: getattr(options, name) for name in names} | RULES


def list_remarks(options: Options, resolved: Sequence[ResolvedTask]) -> list[str]:
    """What to know before training, each remark once."""
    found = [line for one in resolved for line in grid.remarks_on_examples(one.task)]
    found += [line for one in resolved for line in grid.remarks_on_codes(one, options.learn)]
    if options.data is not None and not any(map(reads_data_folder, options.dataset)):
        found.append(f"--data {options.data} has no effect on {', '.join(options.dataset)}")
    longer = draw_longer_tasks(options)
    for one in resolved if longer else ():
        tasks = longer[one.task.name].tasks
        found += extrapolation.remarks_on_fixed_codes(one, tasks, options.learn)
    for task in (one.task for one in resolved):
        found.append(power.foretell(task.name, options.seeds * len(task.folds), options.spread))
    return list(dict.fromkeys(found))


def check_options(options: Options) -> None:
    """Refuse numbers that no run could have, and what is named twice."""
    schedule_of(options)
    search.list_candidates(options)
    for name in options.dataset if options.test_length is not None else ():
        extrapolation.draw_longer(name, extrapolation.parse_lengths(options.test_length))
    if not 1 <= options.seeds <= MOST_SEEDS:
        raise PefourierError(f"--seeds must be from 1 to {MOST_SEEDS}; got {options.seeds}")
    given = {
        "dataset": [str(Path(name)) for name in options.dataset],
        "encoding": [grid.parse_arm(spec).name for spec in options.encoding],
        "match-rms": [f"{rms:g}" for rms in options.match_rms],
    }
    for key, names in given.items():
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise PefourierError(f"--{key} {shown(twice)} is given twice; name it once")
    if "-" in options.encoding:
        raise PefourierError(
            "-e -: standard input can be read once, and training may read it again; name a file"
        )
    if not (np.isfinite(options.spread) and options.spread > 0):
        raise PefourierError(f"--spread must be above 0; got {options.spread}")
    if any(not (np.isfinite(rms) and rms > 0) for rms in options.match_rms):
        raise PefourierError(f"--match-rms must be above 0; got {min(options.match_rms)}")
    if options.save_tables is not None:
        check_folder_of_tables(options.save_tables)


def check_folder_of_tables(folder: str) -> None:
    """Make a folder and see that files can be written there, before hours of training."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as trial:
            trial.write(b"codes")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise PefourierError(
            f"--save-tables {shown(folder)}: {reason(error)}; name another folder"
        ) from error


def schedule_of(options: Options) -> Schedule:
    """How long and how fast to train."""
    names = ("epochs", "batch_size", "rate", "patience", "dropout", "weight_decay", "warmup")
    return Schedule(**{name: getattr(options, name) for name in names})


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
    if kind == "cuda" and int(number) >= torch.cuda.device_count():
        raise PefourierError(
            f"--device {device}: this machine has {torch.cuda.device_count()} CUDA devices; "
            "use --device cpu"
        )
    if kind == "cuda":
        torch.cuda.set_device(device)
    return torch.device(device)


def configuration(
    options: Options, resolved: Sequence[ResolvedTask], device: torch.device
) -> dict[str, Any]:
    """Everything that the numbers depend on, except stacks."""
    tasks = [one.task for one in resolved]
    kept = {k: v for k, v in asdict(options).items() if k not in NOT_NUMBERS}
    kept["dataset"] = [task.name for task in tasks]
    kept["encoding"] = [grid.parse_arm(spec).name for spec in options.encoding]
    versions = {"pefourier": __version__, "torch": torch.__version__, "numpy": np.__version__}
    versions["python"] = platform.python_version()
    known = {
        "windows": {task.name: np.bincount(task.labels).tolist() for task in tasks},  # of a class
        "splits": {task.name: checksum(task.labels, *list_parts(task)) for task in tasks},
        "data": {task.name: fingerprint(task.rows) for task in tasks},
        "tables": fingerprint_tables(resolved),
    }
    return {**kept, **known, **RULES, "device": str(device), "versions": versions}


def list_parts(task: Task) -> list[np.ndarray]:
    """Who trains, validates and tests in each fold."""
    return [part for fold in task.folds for part in (fold.train, fold.valid, fold.test)]


def checksum(*arrays: np.ndarray) -> str:
    """CRC-32 of whole numbers and of how many there are in each array."""
    every = np.concatenate([np.array([len(one) for one in arrays]), *arrays])
    return f"{zlib.crc32(every.astype('<i8').tobytes()):08x}"


def fingerprint(array: np.ndarray) -> list[float]:
    """Two numbers that a change of (n, k) values, or of their order, moves, and rounding does not.

    >>> table = np.arange(6.0).reshape(3, 2)
    >>> fingerprint(table), fingerprint(table[::-1]), fingerprint(2 * table)
    ([1.10779, -0.0393903], [1.10779, 1.13711], [1.80093, -0.0393903])
    """
    size = float(np.sqrt(np.einsum("ij,ij->", array, array, dtype=float) / array.size)) or 1.0
    down, across = (np.cos(np.arange(n)) for n in array.shape)
    along = np.einsum("i,ij,j->", down, array, across, dtype=float) / size / array.size**0.5
    return [float(f"{number:.6g}") for number in (np.log(size), along)]


def fingerprint_tables(resolved: Sequence[ResolvedTask]) -> dict[str, list[float]]:
    """Fingerprints of the codes that files and own code give, which their names do not tell."""
    found = {
        f"{spec} on {one.task.name}": fingerprint(injection.table())
        for one in resolved
        for spec, injection in one.injections.items()
        if source_of(spec) != "name"
    }
    return dict(sorted(found.items()))


def train_stacks(
    stacks: Sequence[Stack],
    options: Options,
    store: Store,
    device: torch.device,
    note: Note | None,
) -> list[Row]:
    """Train this rank's stacks, except those that are finished; the rows that were trained."""
    candidates = search.list_candidates(options)
    longer = draw_longer_tasks(options)
    members = sum(len(stack.runs) for stack in stacks) * len(candidates)
    windows = max((len(s.task.folds[0].train) for s in stacks), default=0)
    done = {key_of(row) for row in store.rows()}
    rows: list[Row] = []
    held: Resident | None = None
    injections: dict[tuple[str, int], Injection] = {}
    with report_progress(members, options.epochs, windows, note) as reporter:
        for stack in stacks:
            if done.issuperset(stack.keys):
                reporter.skip(len(stack.runs) * len(candidates) * options.epochs)
                continue
            if held is None or held.task is not stack.task:
                held, injections = loop.put_on_device(stack.task, device), {}
            injections = grid.stack_injections(stack, options.learn, injections)
            begun = reporter.done
            chosen = train_candidates(held, stack, candidates, injections, options, reporter)
            trained = len(stack.runs) * len(candidates) * options.epochs
            reporter.skip(begun + trained - reporter.done)
            outcomes = [outcome for outcome, _ in chosen]
            found = [row_of(stack.task, *one, held) for one in chosen if one[0].finite]
            add_lengths(found, stack, chosen, longer.get(stack.task.name))
            store.append(row for row in found if key_of(row) not in done)
            rows += found
            if options.save_tables is not None:
                save_codes(options.save_tables, stack.task, outcomes)
            refuse_non_finite(outcomes)
    missed = sum(len(stack.runs) for stack in stacks) - len(rows)
    if options.save_tables is not None and missed and note is not None:
        note(f"--save-tables: {missed} runs were finished before; their tables are not written")
    return rows


def draw_longer_tasks(options: Options) -> dict[str, Longer]:
    """Each task at the lengths that it is tested at, too."""
    lengths = extrapolation.parse_lengths(options.test_length)
    if not lengths:
        return {}
    names = options.dataset
    return {n: Longer(extrapolation.draw_longer(n, lengths), options.learn) for n in names}


def add_lengths(
    rows: Sequence[Row],
    stack: Stack,
    chosen: Sequence[tuple[Outcome, Mapping[str, Any]]],
    longer: Longer | None,
) -> None:
    """Test finite outcomes at other lengths, too."""
    if longer is None:
        return
    finite = [(number, *one) for number, one in enumerate(chosen) if one[0].finite]
    for row, (number, outcome, settings) in zip(rows, finite, strict=True):
        model = search.shape_for(stack.model, settings)
        row["tested"] = longer.test(stack, stack.runs[number], outcome, model)


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
def note_if_interrupted(store: Store, note: Note | None) -> Iterator[None]:
    """Say what Ctrl-C leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        if store.path is not None and note is not None:
            kept = len(store.rows()) or "no"
            note(f"{kept} finished runs are in {store.path}; --resume goes on")
        raise


def train_candidates(
    held: Resident,
    stack: Stack,
    candidates: Sequence[Choice],
    injections: Mapping[tuple[str, int], Injection],
    options: Options,
    reporter: Reporter,
) -> list[tuple[Outcome, Mapping[str, Any]]]:
    """What each run of a stack came to, with the settings that its validation windows chose."""
    schedule = schedule_of(options)
    tried: list[list[tuple[Outcome, Mapping[str, Any]]]] = [[] for _ in stack.runs]
    for model, own in search.shapes_tried(stack.model, candidates):
        members = [
            member_of(run, injections, one.tuning, number)
            for number, run in enumerate(stack.runs)
            for one in own
        ]
        values = {id(m): one.values for m, one in zip(members, own * len(stack.runs), strict=True)}
        for outcome in loop.fit(held, model, members, schedule, reporter.count_epoch):
            tried[outcome.member.number].append((outcome, values[id(outcome.member)]))
    best = []
    for every in tried:
        own_task = [outcome for outcome, _ in every]
        best.append(every[search.best_on_validation(stack.task, own_task)])
    return best


def member_of(
    run: Run, injections: Mapping[tuple[str, int], Injection], tuning: Tuning, number: int
) -> Member:
    """The member that a run trains; the order-free baseline has no codes."""
    nothing = Injection(ACTS[0], np.zeros((1, 1)), np.zeros(1, dtype=int), learn=False)
    one = injections.get((run.arm.spec, run.seed), nothing)
    one = one if run.arm.rms is None else scaled_to_rms(one, run.arm.rms)
    return Member(run.arm.name, one, run.seed, run.fold, tuning, number)


def row_of(task: Task, outcome: Outcome, settings: Mapping[str, Any], held: Resident) -> Row:
    """A line of results.jsonl; `settings` are those that were chosen on validation."""
    member = outcome.member
    fold = task.folds[member.fold]
    found = score(outcome.valid, task.labels[fold.valid], outcome.test, task.labels[fold.test])
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
        "device": str(held.device),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **({"chosen": dict(settings)} if settings else {}),
    }


def save_codes(folder: str, task: Task, outcomes: Sequence[Outcome]) -> None:
    """Write trained codes as tables that the other commands read."""
    for outcome in outcomes:
        member = outcome.member
        if outcome.codes is None or member.encoding == ORDER_FREE:
            continue
        table = member.injection.as_rows(outcome.codes)
        path = Path(folder) / name_of_table(task.name, member.encoding, member.seed, member.fold)
        write_table(str(path), table, "<f4")  # as they were trained


def name_of_table(task: str, encoding: str, seed: int, fold: int) -> str:
    """The file that --save-tables writes for a run.

    >>> name_of_table("order:length=4", "../my codes.npy", 0, 3)
    'order_length=4-.._my_codes.npy-seed0-fold3.npy'
    """
    parts = (task, encoding, f"seed{seed}", f"fold{fold}")
    plain = ("".join(c if c.isalnum() or c in "._@=" else "_" for c in part) for part in parts)
    return f"{'-'.join(plain)}.npy"


def check_names_of_tables(order: Sequence[Key]) -> None:
    """Refuse tables whose file names a folder cannot hold, or that would replace one another."""
    names: dict[str, Key] = {}
    for key in order:
        name = name_of_table(*key)
        if len(name.encode()) > LONGEST_NAME:
            raise PefourierError(
                f"--save-tables: the name {shown(name)} is longer than the {LONGEST_NAME} bytes "
                "that a folder holds; give the file a shorter path"
            )
        if names.setdefault(name, key) != key:
            both = " and ".join(shown(one[1]) for one in (names[name], key))
            raise PefourierError(
                f"--save-tables: {both} would be written to one file, {name}; rename one of them"
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
    from pefourier.answers.page import plain
    from pefourier.train import figures

    content = plain({k: v for k, v in asdict(found).items() if k != "runs"})
    write_json(store.path / "summary.json", content)
    text = summary.as_markdown(found).encode()
    write_whole(str(store.path / "summary.md"), lambda stream: stream.write(text))
    plot.save(str(store.path / "comparison.png"), plot.comparison, found)
    ranks = store.path / "critical-difference.png"
    ranks.unlink(missing_ok=True)  # it may be of what was asked before
    if found.ranked:
        plot.save(str(ranks), plot.critical_difference, found)
    lengths = store.path / "lengths.png"
    lengths.unlink(missing_ok=True)
    if any(one.lengths for one in found.datasets):
        plot.save(str(lengths), figures.score_by_length, found)

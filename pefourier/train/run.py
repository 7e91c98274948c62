"""The comparison from options to answer: datasets × encodings × seeds × folds, in stacks.

Stacks are known before anything is trained, and ranks (RANK, WORLD_SIZE of torchrun) take them by
turns; what --resume asks beyond them has stacks of its own. A stack that lacks a run after a crash
is trained again as a whole: so where the same is asked, resumed numbers are those of an undisturbed
run, bit for bit on a CPU.
"""

import os
import platform
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pefourier import __version__
from pefourier.encodings.sources.tables import write_table
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError, shown
from pefourier.files import write_whole
from pefourier.train import grid, loop, summary
from pefourier.train.data import load
from pefourier.train.data.split import Task
from pefourier.train.grid import Arm, Stack
from pefourier.train.injection import ACTS, Injection, injection, matched
from pefourier.train.loop import Member, Outcome, Resident, Schedule
from pefourier.train.metrics import score
from pefourier.train.model import OrderFree, Transformer
from pefourier.train.options import ORDER_FREE, Options
from pefourier.train.progress import Reporter, noted, reporting
from pefourier.train.store import ASKED, Key, Row, Store, key_of, write_json
from pefourier.train.summary import Summary

# Options that numbers do not depend on; a folder of data may have moved, its windows are known
NOT_NUMBERS = frozenset({"data", "out", "resume", "save_tables", "as_json", "quiet"})
MOST_SEEDS = 10_000
POLL = 0.2  # seconds between looks for what other ranks have finished


def run(options: Options, tell: Callable[[Summary], None] = lambda found: None) -> Summary | None:
    """Train, score and compare; results go to `out` as they come. Only rank 0 has the answer.

    `tell` has it before the files that sum it up are written, which a full disk may prevent.
    """
    check(options)
    rank, ranks, device = placed(options.device)
    store = Store(Path(options.out) if options.out else None, rank, ranks)
    if ranks > 1 and store.path is None:
        raise PefourierError("several ranks meet in a folder; give --out DIR")
    tasks = [
        load.load(n, options.data, options.window, options.stride, options.split, options.folds)
        for n in options.dataset
    ]
    notes = [line for task in tasks for line in grid.remarks(task, options)]
    if options.data is not None and not any(map(load.looks_into, options.dataset)):
        notes.append(f"--data {options.data} has no effect on {', '.join(options.dataset)}")
    if rank:
        options = replace(options, quiet=True)
    with store.alone():
        found = compared(options, tasks, notes, store, device)
        if found is not None:
            tell(found)
            write(store, found)
        return found


def compared(
    options: Options,
    tasks: Sequence[Task],
    notes: Sequence[str],
    store: Store,
    device: torch.device,
) -> Summary | None:
    """Train what the folder lacks, and compare."""
    rank, ranks = store.rank, store.ranks
    config = store.begin(configuration(options, tasks, device), options.resume)
    runs = {task.name: grid.wanted(task, options) for task in tasks}
    order = [run.key(task) for task in tasks for run in runs[task.name]]
    stacks = grid.parted(tasks, runs, options, config["stages"])
    new = set(order).difference(*(stack.keys for stack in stacks))
    if new:
        most = min(
            grid.room(grid.transformer(task, options), batch, device)
            for task in tasks
            for batch, _ in [loop.batch_and_steps(task, options.batch_size)]
        )
        asked = {key: config[key] for key in ASKED}
        config["stages"].append({**asked, "stack": min(most, -(-len(new) // ranks))})
        stacks = grid.parted(tasks, runs, options, config["stages"])
    params = {task.name: grid.parameters(task, options) for task in tasks}  # files may go later
    store.claim(config)
    store.mend()
    noted([] if options.quiet else list(dict.fromkeys(notes)))
    with told_if_interrupted(store, options.quiet):
        rows = train(stacks[rank::ranks], options, store, device)
        if rank:
            return None
        return summary.summarize(gathered(store, order, rows), params, settings(options))


def settings(options: Options) -> dict[str, Any]:
    """What all models of a comparison have in common."""
    names = ("epochs", "batch_size", "rate", "d", "heads", "layers", "patch", "learn")
    return {name: getattr(options, name) for name in names}


def check(options: Options) -> None:
    """Refuse counts that no run could have, and encodings named twice."""
    for key in ("seeds", "epochs", "batch_size"):
        if getattr(options, key) < 1:
            name = key.replace("_", "-")
            raise PefourierError(f"--{name} must be 1 or more; got {getattr(options, key)}")
    sizes = [f"{rms:g}" for rms in options.match_rms]
    names = [grid.arm(spec).name for spec in options.encoding]
    for key, given in (
        ("dataset", [str(Path(name)) for name in options.dataset]),
        *(("encoding", names), ("match-rms", sizes)),
    ):
        twice = next((one for one in given if given.count(one) > 1), None)
        if twice is not None:
            raise PefourierError(f"--{key} {shown(twice)} is given twice; name it once")
    if options.seeds > MOST_SEEDS:
        raise PefourierError(f"--seeds must be at most {MOST_SEEDS}; got {options.seeds}")
    if "-" in options.encoding:
        raise PefourierError("-e -: standard input is read once, training reads again; name a file")
    if not (np.isfinite(options.rate) and options.rate > 0):
        raise PefourierError(f"--rate must be above 0; got {options.rate}")
    if any(not (np.isfinite(rms) and rms > 0) for rms in options.match_rms):
        raise PefourierError(f"--match-rms must be above 0; got {min(options.match_rms)}")
    if options.save_tables is not None:
        Path(options.save_tables).mkdir(parents=True, exist_ok=True)


def placed(device: str) -> tuple[int, int, torch.device]:
    """This process's rank, the number of ranks, and the device it works on."""
    given = [os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")]
    rank, ranks = (int(number) if number.isdigit() else -1 for number in given)
    if not 0 <= rank < ranks:
        raise PefourierError(
            f"RANK={given[0]} of WORLD_SIZE={given[1]} is none of several ranks; unset both, or "
            "let torchrun set them"
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise PefourierError(f"--device is auto, cpu, cuda or cuda:0; got {shown(device)}")
    if kind == "cuda" and int(number) >= torch.cuda.device_count():
        raise PefourierError(
            f"--device {device}: this machine has {torch.cuda.device_count()} CUDA devices; "
            "use --device cpu"
        )
    if kind == "cuda":
        torch.cuda.set_device(device)
    return rank, ranks, torch.device(device)


def configuration(options: Options, tasks: Sequence[Task], device: torch.device) -> dict[str, Any]:
    """Everything that the numbers depend on, but for stacks."""
    kept = {k: v for k, v in asdict(options).items() if k not in NOT_NUMBERS}
    kept["dataset"] = [task.name for task in tasks]
    kept["encoding"] = [grid.arm(spec).name for spec in options.encoding]
    versions = {"pefourier": __version__, "torch": torch.__version__, "numpy": np.__version__}
    versions["python"] = platform.python_version()
    known = {
        "windows": {task.name: np.bincount(task.labels).tolist() for task in tasks},  # of a class
        "splits": {task.name: checksum(task.labels, *parts(task)) for task in tasks},
        "data": {task.name: fingerprint(task.rows) for task in tasks},
        "tables": tables(tasks, options),
    }
    return {**kept, **known, "device": str(device), "versions": versions}


def parts(task: Task) -> list[np.ndarray]:
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


def tables(tasks: Sequence[Task], options: Options) -> dict[str, list[float]]:
    """Fingerprints of the codes that files and own code give, which their names don't tell."""
    found = {}
    for task in tasks:
        model = grid.transformer(task, options)
        for spec in {one.spec for one in grid.arms(options)}:
            if spec != ORDER_FREE and source_of(spec) != "name":
                table = injection(spec, model.tokens, model.d, model.heads, 0).table()
                found[f"{spec} on {task.name}"] = fingerprint(table)
    return dict(sorted(found.items()))


def train(
    stacks: Sequence[Stack], options: Options, store: Store, device: torch.device
) -> list[Row]:
    """Train this rank's stacks, those that are finished aside; the rows that were trained."""
    schedule = Schedule(options.epochs, options.batch_size, options.rate)
    members = sum(len(stack.runs) for stack in stacks)
    windows = max((len(s.task.folds[0].train) for s in stacks), default=0)
    done = {key_of(row) for row in store.rows()}
    rows: list[Row] = []
    held: Resident | None = None
    with reporting(members, options.epochs, windows, options.quiet) as reporter:
        for stack in stacks:
            if done.issuperset(stack.keys):
                reporter.skip(len(stack.runs) * options.epochs)
                continue
            if held is None or held.task is not stack.task:
                held = loop.resident(stack.task, device)
            outcomes = trained(stack, options, schedule, held, reporter)
            found = [row_of(stack.task, outcome, held) for outcome in outcomes if outcome.finite]
            store.append(row for row in found if key_of(row) not in done)
            rows += found
            if options.save_tables is not None:
                save(options.save_tables, stack.task, outcomes)
            refuse_lost(outcomes)
    if options.save_tables is not None and len(rows) < members and not options.quiet:
        noted([f"--save-tables: {members - len(rows)} runs were finished before; none of theirs"])
    return rows


def refuse_lost(outcomes: Sequence[Outcome]) -> None:
    """Name the first member without finite logits; those beside it are kept by now."""
    for m in (outcome.member for outcome in outcomes if not outcome.finite):
        raise PefourierError(
            f"{m.encoding}, seed {m.seed}, fold {m.fold}: its logits are no finite numbers; are "
            "its codes too large? SPEC@rms=SIZE scales them"
        )


@contextmanager
def told_if_interrupted(store: Store, quiet: bool) -> Iterator[None]:
    """Say what Ctrl-C leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        if store.path is not None and not quiet:
            kept = len(store.rows()) or "no"
            noted([f"{kept} finished runs are in {store.path}; --resume goes on"])
        raise


def trained(
    stack: Stack, options: Options, schedule: Schedule, held: Resident, reporter: Reporter
) -> list[Outcome]:
    """Train one stack."""
    cache: dict[tuple[Arm, int], Injection] = {}
    members = []
    for run in stack.runs:
        key = run.arm, run.seed
        if key not in cache:
            cache[key] = injected(*key, stack.model, options)
        members.append(Member(run.arm.name, cache[key], run.seed, run.fold))
    return loop.fit(held, stack.model, members, schedule, reporter.epoch)


def injected(arm: Arm, seed: int, model: Transformer | OrderFree, options: Options) -> Injection:
    """The codes of an arm for one seed; none for the order-free baseline."""
    if isinstance(model, OrderFree):
        return Injection(ACTS[0], np.zeros((1, 1)), np.zeros(1, dtype=int), learn=False)
    sizes = (model.tokens, model.d, model.heads)
    one = injection(arm.spec, *sizes, seed, options.learn)
    return one if arm.rms is None else matched(one, arm.rms)


def row_of(task: Task, outcome: Outcome, held: Resident) -> Row:
    """A line of results.jsonl."""
    member = outcome.member
    fold = task.folds[member.fold]
    found = score(outcome.valid, task.labels[fold.valid], outcome.test, task.labels[fold.test])
    return {
        **{"dataset": task.name, "encoding": member.encoding},
        **{"seed": member.seed, "fold": member.fold},
        **asdict(found),
        **{"epoch": outcome.epoch, "seconds": round(outcome.seconds, 3)},
        **{"split": task.split, "leaky": task.leaky, "length": task.length},
        **{"windows": len(fold.test), "device": str(held.device)},
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def save(folder: str, task: Task, outcomes: Sequence[Outcome]) -> None:
    """Write trained codes as tables that the other commands read."""
    for outcome in outcomes:
        member = outcome.member
        if outcome.codes is None or member.encoding == ORDER_FREE:
            continue
        parts = (task.name, member.encoding, f"seed{member.seed}", f"fold{member.fold}")
        name = "-".join("".join(c if c.isalnum() or c in "._@=" else "_" for c in p) for p in parts)
        table = member.injection.as_rows(outcome.codes)
        write_table(str(Path(folder) / f"{name}.npy"), table, "<f4")  # as they were trained


def gathered(store: Store, order: Sequence[Key], rows: Sequence[Row]) -> list[Row]:
    """All runs of all ranks, in the order of the grid; rank 0 waits for the others."""
    if store.path is None:
        by = {key_of(row): row for row in rows}
        return [by[key] for key in order]
    wanted = set(order)
    while store.ranks > 1 and wanted - {key_of(row) for row in store.rows()}:
        time.sleep(POLL)
    return store.merge(order)


def write(store: Store, found: Summary) -> None:
    """summary.json, summary.md and the figures."""
    if store.path is None:
        return
    from pefourier.answers import plot
    from pefourier.answers.report import plain

    content = plain({k: v for k, v in asdict(found).items() if k != "runs"})
    write_json(store.path / "summary.json", content)
    text = summary.as_markdown(found).encode()
    write_whole(str(store.path / "summary.md"), lambda stream: stream.write(text))
    plot.save(str(store.path / "comparison.png"), plot.comparison, found)
    ranks = store.path / "critical-difference.png"
    ranks.unlink(missing_ok=True)  # it may be of what was asked before
    if found.ranked:
        plot.save(str(ranks), plot.critical_difference, found)

"""The comparison from options to answer: datasets × encodings × seeds × folds, in stacks.

Stacks are known before anything is trained, and ranks share them.
"""

import json
import os
import platform
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pefourier.encodings.loader import source_of
from pefourier.errors import PefourierError, shown
from pefourier.train import ensembles, summary
from pefourier.train.baselines import OtherMethod
from pefourier.train.data.load import load_task, name_positives
from pefourier.train.data.split import Task
from pefourier.train.device_data import batch_and_steps
from pefourier.train.ensembles import ResolvedTask, list_remarks
from pefourier.train.options import Options, flag_of
from pefourier.train.progress import Note, report_progress
from pefourier.train.ranks import (
    Group,
    has_meeting_point,
    join_group,
    launch,
    read_rank,
)
from pefourier.train.report import as_markdown
from pefourier.train.request import (
    check_options,
    list_candidates,
    name_once,
    without_new_folders,
)
from pefourier.train.run_artifacts import read_curves
from pefourier.train.saved_models import file_of_model
from pefourier.train.store import (
    NOT_NUMBERS,
    Key,
    Store,
    check_same,
    key_of,
    read_configuration,
    stored_options,
    write_json,
)
from pefourier.train.summary import Summary
from pefourier.train.work import Work
from pefourier.version import __version__
from pefourier.writing.files import remove_old_drafts, write_whole

MOST_PROCESSES = 8  # started without being asked: each holds the data
WORTH = 4 * 10**6  # tokens of training windows: less is trained sooner than processes start
RULES = {  # that numbers depend on, where an earlier version had others
    "choice": "highest score on validation (average precision; of more than two classes macro F1), "
    "then least loss",
    "size": "@rms: of codes less their mean over positions",
}
# what a comparison is of, and what its numbers don't depend on
APART = {"dataset", "encoding", "seeds", "folds", "split", "positive", "window", "stride"}
APART |= {"device", "columns", "missing", *NOT_NUMBERS}


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
    store = store_of(options, rank, ranks)
    note = None if rank else note
    with without_new_folders(options.out), store.lock(), note_on_interrupt(store, note):
        experiment = resolve(options, rank, ranks)
        count = count_processes(experiment, ranks)
        if count > 1:
            single = replace(options, processes=None)
            result = launch(count, train_as_rank, single, note is not None)
        else:
            result = train_as(experiment, note)
        if result is not None:
            deliver(result)
            write_summary(store, result, options.plot)
    return result


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
    resumed = replace(old, **here)
    check_options(resumed)
    return resumed


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
        return [
            r.key(task.task) for task in self.resolved for r in ensembles.plan_runs(task, seeds)
        ]

    @property
    def description(self) -> dict[str, Any]:
        """All that the numbers depend on, and how many runs are trained together at most."""
        sizes = [-(-len(self.keys) // self.ranks)]
        for entry in self.resolved:
            batch, _ = batch_and_steps(entry.task, self.options.batch_size)
            members = ensembles.most_members(entry.model, batch, self.device)
            sizes.append(members // len(list_candidates(self.options)))
        settings = {k: v for k, v in asdict(self.options).items() if k not in NOT_NUMBERS}
        versions = {"pefourier": __version__, "torch": torch.__version__, "numpy": np.__version__}
        versions["python"] = platform.python_version()
        facts = {"device": str(self.device), "versions": versions, "stack": max(1, min(sizes))}
        return {
            **settings,
            **describe_data(self.resolved, self.options.resamples),
            **RULES,
            **facts,
        }


def store_of(options: Options, rank: int, ranks: int) -> Store:
    """Where a rank writes: of ranks that meet the first alone, else each a file of its own."""
    meets = has_meeting_point(ranks)
    if ranks > 1 and options.out is None and not meets:
        raise PefourierError(
            f"several ranks meet in a folder; give --out DIR, or unset RANK={rank} and "
            f"WORLD_SIZE={ranks} to train alone"
        )
    path = None if options.out is None or (meets and rank) else Path(options.out)
    return Store(path, 0 if meets else rank)


def resolve(options: Options, rank: int = 0, ranks: int = 1) -> Experiment:
    """The data, with what can be trained on them."""
    device = choose_device(options.device)
    loaded = [load_task(name, options) for name in options.dataset]
    tasks = name_positives(loaded, options.positive)
    resolved = [ensembles.resolve_task(task, options, device) for task in tasks]
    return Experiment(options, rank, ranks, device, store_of(options, rank, ranks), resolved)


def count_processes(experiment: Experiment, ranks: int) -> int:
    """How many processes share the work on this machine, where it is not one of many ranks."""
    cores, count = torch.get_num_threads(), experiment.options.processes
    shared = ranks > 1 or experiment.device.type != "cpu"
    if count is not None and (shared or not 1 <= count <= cores):
        raise PefourierError(
            f"--processes must be from 1 to {cores}, the cores that torch uses here; ranks of "
            f"torchrun, and GPUs, share the work without it; got {count}"
        )
    if count is not None or shared:
        return count or 1
    tokens = 0  # of training windows in all steps of all runs and candidates
    for resolved in experiment.resolved:
        runs = ensembles.plan_runs(resolved, experiment.options.seeds)
        batch, _ = batch_and_steps(resolved.task, experiment.options.batch_size)
        tokens += len(runs) * resolved.schedule.steps * batch * resolved.model.tokens
    tokens *= len(list_candidates(experiment.options))
    return min(cores, MOST_PROCESSES) if tokens >= WORTH else 1


def train_as_rank(options: Options, is_noted: bool) -> Summary | None:
    """Train as one of the ranks that this machine has started."""
    rank, ranks = read_rank()
    note = (lambda line: print(f"pefourier: {line}", file=sys.stderr)) if is_noted else None
    return train_as(resolve(options, rank, ranks), None if rank else note)


def train_as(experiment: Experiment, note: Note | None) -> Summary | None:
    """Train, score and compare as one rank."""
    if not has_meeting_point(experiment.ranks):
        return train_and_compare(experiment, None, note)
    with join_group(experiment.rank, experiment.ranks) as group:
        return train_and_compare(experiment, group, note)


def train_and_compare(
    experiment: Experiment, group: Group | None, note: Note | None
) -> Summary | None:
    """Train what the folder lacks, and compare."""
    begun = time.time()
    config, done = begin(experiment, group)
    note_remarks(experiment, note)
    rows = {key_of(row): row for row in train_share(experiment, group, config, done, note)}
    if experiment.options.resume and experiment.store.path is not None:
        folders = [experiment.store.path, *experiment.store.path.glob("*/")]
        remove_old_drafts([*folders, *filter(None, [experiment.options.save_models])], begun)
    rows |= {key_of(row): row for row in experiment.store.rows()}
    if group is not None and experiment.rank:
        return None
    if set(experiment.keys) - rows.keys():  # of other ranks of a job array, which are at work
        if note is not None:
            note(f"rank {experiment.rank} is done; the last of {experiment.ranks} ranks sums up")
        return None
    params = {r.task.name: ensembles.parameters(r) for r in experiment.resolved}
    training = settings_in_common(experiment.options)
    return summary.summarize_runs([rows[key] for key in experiment.keys], params, training)


def train_share(
    experiment: Experiment,
    group: Group | None,
    config: Mapping[str, Any],
    done: set[Key],
    note: Note | None,
) -> list[dict[str, Any]]:
    """Train this rank's stacks, except those that are finished; the rows that came of them."""
    options = experiment.options
    plans = [
        ensembles.plan_ensembles(r, options.seeds, config["stack"]) for r in experiment.resolved
    ]
    planned = [stack for plan in plans for stack in plan]
    first, step = (0, 1) if group is not None else (experiment.rank, experiment.ranks)
    share = range(first, len(planned), step)
    work = Work(options, experiment.device, experiment.store, group, planned, share, done)
    unfinished = sum(not done.issuperset(planned[number].keys) for number in share)
    with report_progress(unfinished, note) as reporter:
        work.train_share(reporter)
    models = options.save_models
    keys = {key for s in planned if not isinstance(s.model, OtherMethod) for key in s.keys}
    missing = [key for key in keys & done if models and not file_of_model(models, key).is_file()]
    if note is not None and missing:
        note(f"no model in {shown(models)} for {len(missing)} of the runs that finished before")
    return work.rows


def begin(experiment: Experiment, group: Group | None) -> tuple[dict[str, Any], set[Key]]:
    """The configuration that holds for all ranks, and the runs that are finished before."""
    if group is not None and experiment.rank:
        plan = group.plan()
        check_same(Path(f"rank {experiment.rank}"), plan["config"], experiment.description)
        return plan["config"], set(map(tuple, plan["done"]))
    config = experiment.store.begin(experiment.description, experiment.options.resume)
    rows = experiment.store.rows()
    ensembles.check_runs(rows, experiment.resolved)
    done = [key_of(row) for row in rows]
    if group is not None:
        group.publish({"config": json.loads(json.dumps(config)), "done": done})
    return config, set(done)


def note_remarks(experiment: Experiment, note: Note | None) -> None:
    """Say what to know before training, each remark once."""
    if note is not None:
        lines = [line for resolved in experiment.resolved for line in list_remarks(resolved)]
        for line in dict.fromkeys(lines):
            note(line)


def choose_device(device: str) -> torch.device:
    """The device to work on; auto is the GPU of this process where there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        local = int(os.environ.get("LOCAL_RANK", 0)) % max(1, torch.cuda.device_count())
        device = f"cuda:{local}"
    if device not in ("cpu", "cpu:0", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))):
        raise PefourierError(
            f"--device must be auto, cpu, cuda or cuda:0, below {torch.cuda.device_count()} CUDA "
            f"devices of this machine; got {shown(device)}"
        )
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    return torch.device(device)


@contextmanager
def note_on_interrupt(store: Store, note: Note | None) -> Iterator[None]:
    """Say what Ctrl-C leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        if note is not None and store.path is None:
            note("nothing is kept: --out DIR keeps what is finished, and --resume goes on")
        elif note is not None:
            note(f"finished runs in {store.path}: {len(store.rows())}; --resume goes on")
        raise


def write_summary(store: Store, result: Summary, picture: str | None = None) -> None:
    """Write summary.json, summary.md and the figures, and the picture that is named."""
    from pefourier.report import plot, training_figures
    from pefourier.writing.page import plain

    if picture is not None:
        plot.save(picture, training_figures.comparison, result)
    if store.path is None:
        return
    content = plain({k: v for k, v in asdict(result).items() if k != "runs"})
    write_json(store.path / "summary.json", content)
    text = as_markdown(result).encode()
    write_whole(str(store.path / "summary.md"), lambda stream: stream.write(text))
    for name in ("critical-difference", "lengths", "curves"):  # maybe of what was asked before
        (store.path / f"{name}.png").unlink(missing_ok=True)
    curves = read_curves(store.path, result.runs)
    for name, (draw, answers, _) in training_figures.pictures(result, curves).items():
        plot.save(str(store.path / f"{name}.png"), draw, answers)


def describe_data(resolved: Sequence[ResolvedTask], resamples: int | None) -> dict[str, Any]:
    """What the numbers depend on of data, of their splits, and of codes that no name tells."""
    tasks = [entry.task for entry in resolved]
    return {
        "windows": {task.name: np.bincount(task.labels).tolist() for task in tasks},  # of a class
        "splits": dict(split for task in tasks for split in splits_of(task, resamples)),
        "data": {task.name: fingerprint(task.rows) for task in tasks},
        "tables": {
            f"{spec} on {entry.task.name}": fingerprint(injection.table())
            for entry in resolved
            for spec, injection in entry.injections.items()
            if source_of(spec) != "name"
        },
        "dropped": {task.name: [asdict(drop) for drop in task.dropped] for task in tasks},
    }


def splits_of(task: Task, resamples: int | None) -> list[tuple[str, str]]:
    """A checksum of all parts; of resamples one of each, as more may be asked for later."""
    cuts = {task.name: task.folds}
    if resamples is not None:
        cuts = {f"{task.name}, resample {i}": (fold,) for i, fold in enumerate(task.folds)}
    lengths = [] if task.lengths is None else [task.lengths]
    return [
        (name, checksum(task.labels, *parts, *lengths))
        for name, folds in cuts.items()
        for parts in [[part for f in folds for part in (f.train, f.valid, f.test)]]
    ]


def checksum(*arrays: np.ndarray) -> str:
    """CRC-32 of whole numbers and of how many there are in each array."""
    numbers = np.concatenate([np.array([len(array) for array in arrays]), *arrays])
    return f"{zlib.crc32(numbers.astype('<i8').tobytes()):08x}"


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


def settings_in_common(options: Options) -> dict[str, Any]:
    """What all models of a comparison have in common."""
    return {k: v for k, v in asdict(options).items() if k not in APART} | RULES

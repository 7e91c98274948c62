"""What a comparison trains, on which data and device, and what its numbers depend on."""

import os
import platform
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pefourier.encodings.loader import source_of
from pefourier.errors import PefourierError, shown
from pefourier.train import ensembles
from pefourier.train.data.load import load_task, name_positives
from pefourier.train.data.split import Task
from pefourier.train.device_data import batch_and_steps
from pefourier.train.ensembles import Ensemble, ResolvedTask
from pefourier.train.options import Options
from pefourier.train.ranks import has_meeting_point
from pefourier.train.request import list_candidates
from pefourier.train.store import NOT_NUMBERS, Key, Store
from pefourier.version import __version__

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
        runs = ((entry, ensembles.plan_runs(entry, self.options.seeds)) for entry in self.resolved)
        return [run.key(entry.task) for entry, of_task in runs for run in of_task]

    @property
    def remarks(self) -> list[str]:
        """What to know before training, each remark once."""
        lines = [line for entry in self.resolved for line in ensembles.list_remarks(entry)]
        return list(dict.fromkeys(lines))

    @property
    def description(self) -> dict[str, Any]:
        """All that the numbers depend on, and how many runs are trained together at most."""
        candidates = len(list_candidates(self.options))
        sizes = [-(-len(self.keys) // self.ranks)]
        for entry in self.resolved:
            batch, _ = batch_and_steps(entry.task, self.options.batch_size)
            sizes.append(ensembles.most_members(entry.model, batch, self.device) // candidates)
        versions = {"pefourier": __version__, "torch": torch.__version__, "numpy": np.__version__}
        versions["python"] = platform.python_version()
        return {
            **{k: v for k, v in asdict(self.options).items() if k not in NOT_NUMBERS},
            **describe_data(self.resolved, self.options.resamples),
            **RULES,
            **{"device": str(self.device), "versions": versions, "stack": max(1, min(sizes))},
        }

    def plan_ensembles(self, size: int) -> list[Ensemble]:
        """All runs, in stacks of at most `size`."""
        plans = (ensembles.plan_ensembles(e, self.options.seeds, size) for e in self.resolved)
        return [stack for plan in plans for stack in plan]


def resolve(options: Options, rank: int = 0, ranks: int = 1) -> Experiment:
    """The data, with what can be trained on them."""
    device = choose_device(options.device)
    loaded = [load_task(name, options) for name in options.dataset]
    tasks = name_positives(loaded, options.positive)
    resolved = [ensembles.resolve_task(task, options, device) for task in tasks]
    return Experiment(options, rank, ranks, device, store_of(options, rank, ranks), resolved)


def choose_device(device: str) -> torch.device:
    """The device to work on; auto is the GPU of this process where there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        local = int(os.environ.get("LOCAL_RANK", "0")) % max(1, torch.cuda.device_count())
        device = f"cuda:{local}"
    if device not in ("cpu", "cpu:0", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))):
        raise PefourierError(
            f"--device must be auto, cpu, cuda or cuda:0, below {torch.cuda.device_count()} CUDA "
            f"devices of this machine; got {shown(device)}"
        )
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    return torch.device(device)


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

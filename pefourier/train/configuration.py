"""What do the numbers of a comparison depend on? Its options, rules, data, splits and versions.

A folder of results keeps it as config.json, and --resume goes on only where it is the same.
"""

import platform
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from pefourier.encodings.specs import source_of
from pefourier.train.data.split import Task
from pefourier.train.options import Options
from pefourier.train.stacks import ResolvedTask
from pefourier.train.store import NOT_NUMBERS
from pefourier.version import __version__

RULES = {  # that numbers depend on, where an earlier version had others
    "choice": "highest score on validation (average precision; of more than two classes macro F1), "
    "then least loss",
    "size": "@rms: of codes less their mean over positions",
}
# what a comparison is of, and what its numbers don't depend on
APART = {"dataset", "encoding", "seeds", "folds", "split", "positive", "window", "stride"}
APART |= {"device", "columns", "missing", *NOT_NUMBERS}


def describe_comparison(
    options: Options, resolved: Sequence[ResolvedTask], device: torch.device
) -> dict[str, Any]:
    """Everything that the numbers depend on, except the size of stacks."""
    tasks = [entry.task for entry in resolved]
    settings = {k: v for k, v in asdict(options).items() if k not in NOT_NUMBERS}
    versions = {"pefourier": __version__, "torch": torch.__version__, "numpy": np.__version__}
    versions["python"] = platform.python_version()
    facts = {
        "windows": {task.name: np.bincount(task.labels).tolist() for task in tasks},  # of a class
        "splits": dict(split for task in tasks for split in splits_of(task, options.resamples)),
        "data": {task.name: fingerprint(task.rows) for task in tasks},
        "tables": fingerprint_tables(resolved),
        "dropped": {task.name: [asdict(drop) for drop in task.dropped] for task in tasks},
    }
    return {**settings, **facts, **RULES, "device": str(device), "versions": versions}


def list_parts(task: Task) -> list[np.ndarray]:
    """Who trains, validates and tests in each fold, and how long padded windows are."""
    lengths = [] if task.lengths is None else [task.lengths]
    return [part for fold in task.folds for part in (fold.train, fold.valid, fold.test)] + lengths


def splits_of(task: Task, resamples: int | None) -> list[tuple[str, str]]:
    """A checksum of all parts; of resamples one of each, as more may be asked for later."""
    if resamples is None:
        return [(task.name, checksum(task.labels, *list_parts(task)))]
    resampled = (replace(task, folds=(fold,)) for fold in task.folds)
    checksums = (checksum(task.labels, *list_parts(resample)) for resample in resampled)
    return [(f"{task.name}, resample {i}", digest) for i, digest in enumerate(checksums)]


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


def fingerprint_tables(resolved: Sequence[ResolvedTask]) -> dict[str, list[float]]:
    """Fingerprints of the codes that files and own code give, which their names do not tell."""
    fingerprints = {
        f"{spec} on {entry.task.name}": fingerprint(injection.table())
        for entry in resolved
        for spec, injection in entry.injections.items()
        if source_of(spec) != "name"
    }
    return dict(sorted(fingerprints.items()))


def settings_in_common(options: Options) -> dict[str, Any]:
    """What all models of a comparison have in common."""
    return {k: v for k, v in asdict(options).items() if k not in APART} | RULES

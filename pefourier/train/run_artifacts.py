"""Artifacts of each run: logits of validation and test windows, and learning curves.

DIR/scores has an .npz per run, written before its line of results.jsonl: `valid` and `test`, logits
(n, K) of float32; `valid_labels` and `test_labels` (n,), classes from 0; `valid_rows` and
`test_rows` (n,), the first row of each window in the data; `threshold`, the smallest difference of
two logits that predicts the second class, nan if the largest logit decides; `classes`, their names;
`curve` (looks, 3), mean training loss, score and loss on validation; and `dataset`, `encoding`,
`seed`, `fold`. Other programs can compute further metrics from these files.
"""

import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.encodings.sources.tables import open_arrays
from pefourier.train.data.split import Task
from pefourier.train.metrics import best_threshold
from pefourier.train.store import KEY, Key, key_of
from pefourier.writing.files import write_whole

if TYPE_CHECKING:  # curves are read without torch
    from pefourier.train.fit import Outcome

FOLDER = "scores"
LONGEST_PART = 60  # characters of a name


def plain_name(text: str) -> str:
    """Replace unsafe characters in a part of a file name.

    >>> plain_name("../my codes.npy@rms=0.5")
    '.._my_codes.npy@rms=0.5'
    """
    return "".join(c if c.isalnum() or c in "._@=" else "_" for c in text)


def name_of_run(key: Key) -> str:
    """Return a run's name for files; a checksum distinguishes runs with truncated names."""
    dataset, encoding, seed, fold = key
    name = "-".join(plain_name(part)[-LONGEST_PART:] for part in (dataset, encoding))
    name = name.encode("ascii", "replace").decode().replace("?", "_")
    return f"{name}-seed{seed}-fold{fold}-{zlib.crc32(repr(key).encode()):08x}"


def file_of_run(folder: Path, key: Key) -> Path:
    """Return the path of a run's trace."""
    return folder / FOLDER / f"{name_of_run(key)}.npz"


def trace_of(task: Task, outcome: "Outcome") -> bytes:
    """Return the trace of a run as the bytes of a file."""
    member, fold = outcome.member, task.folds[outcome.member.fold]
    key = task.name, member.encoding, member.seed, member.fold
    arrays = {
        "valid": outcome.valid.astype(np.float32),
        "valid_labels": task.labels[fold.valid],
        "test": outcome.test.astype(np.float32),
        "test_labels": task.labels[fold.test],
        "valid_rows": task.starts[fold.valid],
        "test_rows": task.starts[fold.test],
        "threshold": np.array(threshold_of(task, outcome)),
        "classes": np.array(task.classes, dtype=str),
        "curve": np.asarray(outcome.curve, np.float32),
        **{name: np.array(value) for name, value in zip(KEY, key, strict=True)},
    }
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def threshold_of(task: Task, outcome: "Outcome") -> float:
    """Smallest difference of logits that predicts the positive class; nan without such a class."""
    if task.positive is None:
        return float("nan")
    labels = task.labels[task.folds[outcome.member.fold].valid]
    return best_threshold(outcome.valid[:, 1] - outcome.valid[:, 0], labels == 1)


def write_trace(folder: Path, key: Key, trace: bytes) -> None:
    """Write the trace of a run, complete or not at all."""
    path = file_of_run(folder, key)
    path.parent.mkdir(exist_ok=True)
    write_whole(str(path), lambda out: out.write(trace))


def read_curves(
    folder: Path, rows: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], np.ndarray]]:
    """Read the learning curves (looks, 3) of runs that have one."""
    curves = []
    for row in rows:
        path = file_of_run(folder, key_of(row))
        if not path.is_file():
            continue
        with open_arrays(str(path), ".npz", advice="delete it") as file:
            curve = file.load("curve") if "curve" in file.arrays else np.zeros(0)
        if curve.ndim == 2 and curve.shape[1] == 3 and len(curve):
            curves.append((row, curve))
    return curves

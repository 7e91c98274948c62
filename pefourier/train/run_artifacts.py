"""What each run left behind: logits of validation and test windows, and how it learned.

DIR/scores has an .npz a run, written before its line of results.jsonl: `valid` and `test`, logits
(n, K) of float32; `valid_labels` and `test_labels` (n,), classes from 0; `valid_rows` and
`test_rows` (n,), the first row of each window in the data; `threshold`, the difference of two
logits from which on the second class is said, nan where the largest logit decides; `classes`, their
names; `curve` (looks, 3), mean training loss, score and loss on validation; and `dataset`,
`encoding`, `seed`, `fold`. Others can compute their own metrics of them.
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
    """A part of a file's name.

    >>> plain_name("../my codes.npy@rms=0.5")
    '.._my_codes.npy@rms=0.5'
    """
    return "".join(c if c.isalnum() or c in "._@=" else "_" for c in text)


def name_of_run(key: Key) -> str:
    """A run's name as a file's; a checksum tells apart runs whose names are cut."""
    dataset, encoding, seed, fold = key
    name = "-".join(plain_name(part)[-LONGEST_PART:] for part in (dataset, encoding))
    name = name.encode("ascii", "replace").decode().replace("?", "_")
    return f"{name}-seed{seed}-fold{fold}-{zlib.crc32(repr(key).encode()):08x}"


def file_of_run(folder: Path, key: Key) -> Path:
    """Where a run's trace lies."""
    return folder / FOLDER / f"{name_of_run(key)}.npz"


def trace_of(task: Task, outcome: "Outcome") -> bytes:
    """What a run left behind, as a file."""
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
    """The difference of logits from which on the positive class is said; nan without one."""
    if task.positive is None:
        return float("nan")
    labels = task.labels[task.folds[outcome.member.fold].valid]
    return best_threshold(outcome.valid[:, 1] - outcome.valid[:, 0], labels == 1)


def write_trace(folder: Path, key: Key, trace: bytes) -> None:
    """Write what a run left behind, as a whole."""
    path = file_of_run(folder, key)
    path.parent.mkdir(exist_ok=True)
    write_whole(str(path), lambda out: out.write(trace))


def read_curves(
    folder: Path, rows: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], np.ndarray]]:
    """How runs learned (looks, 3), of those of which that is stored."""
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

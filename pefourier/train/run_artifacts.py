"""Artifacts of each run: logits and probabilities of windows, mistakes, and learning curves.

DIR/scores has an .npz per run, written before its line of results.jsonl: `valid` and `test`, logits
(n, K) of float32; `valid_labels` and `test_labels` (n,), classes from 0; `valid_rows` and
`test_rows` (n,), the first row of each window in the data; `threshold`, the smallest difference of
two logits that predicts the second class, nan if the largest logit decides; `classes`, their names;
`test_probabilities` (n, K), the softmax of logits, in which that threshold has the probability 0.5;
`mistakes` (m, 4), the most confident ones by first row, class, predicted class and probability, and
their windows `mistaken` (m, length, channels), nan in padding; `curve` (looks, 3), mean training
loss, score and loss on validation; and `dataset`, `encoding`, `seed`, `fold`. Other programs can
compute further metrics from these files.
"""

import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from pefourier.encodings.sources.tables import open_arrays
from pefourier.train.data.split import Task
from pefourier.train.metrics import choose_threshold
from pefourier.train.store import KEY, Key, key_of
from pefourier.types import Array, Fields, Values
from pefourier.writing.files import write_whole

if TYPE_CHECKING:  # curves are read without torch
    from pefourier.train.fit import Outcome

FOLDER = "scores"
LONGEST_PART = 60  # characters of a name
DRAWN = {"curve": 2, "mistakes": 2, "mistaken": 3, "classes": 1}  # arrays and their dimensions
MOST_MISTAKES = 3  # of a run, with their windows
Trace = tuple[Mapping[str, Any], dict[str, np.ndarray]]  # a row of results, and its arrays


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


def file_of_model(folder: str, key: Key) -> Path:
    """Return the path of the classifier of a run."""
    return Path(folder, f"{name_of_run(key)}.safetensors")


def trace_of(task: Task, outcome: "Outcome") -> bytes:
    """Return the trace of a run as the bytes of a file."""
    member, fold = outcome.member, task.folds[outcome.member.fold]
    key = task.name, member.encoding, member.seed, member.fold
    threshold, labels = threshold_of(task, outcome), task.labels[fold.test]
    probabilities = class_probabilities(outcome.test, threshold)
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    wrong = np.flatnonzero(predicted != labels)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")][:MOST_MISTAKES]
    facts = task.starts[fold.test], labels, predicted, confidence
    arrays: Fields = {
        "valid": outcome.valid.astype(np.float32),
        "valid_labels": task.labels[fold.valid],
        "test": outcome.test.astype(np.float32),
        "test_labels": labels,
        "valid_rows": task.starts[fold.valid],
        "test_rows": task.starts[fold.test],
        "threshold": np.array(np.nan if threshold is None else threshold),
        "test_probabilities": probabilities.astype(np.float32),
        "mistakes": np.column_stack([fact[worst] for fact in facts]),
        "mistaken": task.windows_at(fold.test[worst]),
        "classes": np.array(task.classes, dtype=str),
        "curve": np.asarray(outcome.curve, np.float32),
        **{name: np.array(value) for name, value in zip(KEY, key, strict=True)},
    }
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def threshold_of(task: Task, outcome: "Outcome") -> float | None:
    """Return the threshold of a run; None without a positive class."""
    labels = task.labels[task.folds[outcome.member.fold].valid]
    return choose_threshold(outcome.valid, labels, macro=task.positive is None)


def class_probabilities(logits: Array, threshold: float | None) -> Array:
    """Probabilities (n, K) by softmax; a difference of two logits at the threshold has 0.5.

    >>> class_probabilities(np.array([[0.0, 3.0], [0.0, 2.0]]), 2.0).round(3).tolist()
    [[0.269, 0.731], [0.5, 0.5]]
    """
    shifted = logits.astype(float)
    shifted[:, 1] -= threshold or 0.0
    return np.asarray(softmax(shifted, axis=1))


def write_trace(folder: Path, key: Key, trace: bytes) -> None:
    """Write the trace of a run, complete or not at all."""
    path = file_of_run(folder, key)
    path.parent.mkdir(exist_ok=True)
    write_whole(str(path), lambda out: out.write(trace))


def read_traces(folder: Path, rows: Sequence[Values]) -> list[Trace]:
    """Read the learning curves and mistakes of runs; files of earlier versions may lack them."""
    traces = []
    for row in rows:
        path = file_of_run(folder, key_of(row))
        if path.is_file():
            with open_arrays(str(path), ".npz", advice="delete it") as file:
                names = [name for name in DRAWN if name in file.arrays]
                arrays = {name: file.load(name, text=name == "classes") for name in names}
            traces.append((row, {k: v for k, v in arrays.items() if v.ndim == DRAWN[k] and v.size}))
    return traces

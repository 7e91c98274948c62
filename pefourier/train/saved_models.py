"""Trained classifiers in files, and back: one .safetensors a run.

>>> from pefourier.train.saved_models import load_classifier            # doctest: +SKIP
>>> load_classifier("models/smd-dft-seed0-fold0.safetensors").predict(x)   # doctest: +SKIP

A file has the numbers of the classifier by their names, `codes` of what it injects, of rotations
their frequencies, `mean` and `scale` of the channels, and `settings`, bytes of JSON: sizes,
classes, threshold. Other commands take it as a SPEC and say what its codes became.
"""

import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pefourier.encodings.sources.tables import open_arrays
from pefourier.encodings.sources.writers import write_tensors
from pefourier.errors import PefourierError, shown
from pefourier.files import label, write_whole
from pefourier.train.attention import stack_codes
from pefourier.train.data.examples import check_lengths
from pefourier.train.data.split import Task
from pefourier.train.fit import Outcome
from pefourier.train.injection import ACTS, Injection, count_places
from pefourier.train.metrics import best_threshold
from pefourier.train.model import OrderFree, Transformer
from pefourier.train.store import KEY, Key, key_of, parse_json

if TYPE_CHECKING:
    from pefourier.train.fit import Outcome


FOLDER = "scores"
START = "-start.npy"  # of names of tables that training began with
LONGEST_PART = 60  # characters of a name


def plain_name(text: str) -> str:
    """A part of a file's name.

    >>> plain_name("../my codes.npy@rms=0.5")
    '.._my_codes.npy@rms=0.5'
    """
    return "".join(c if c.isalnum() or c in "._@=" else "_" for c in text)


def name_of_table(
    task: str, encoding: str, seed: int | None, fold: int | None, suffix: str = ".npy"
) -> str:
    """The file that --save-tables writes for a run, or with another suffix --save-models.

    Without a fold, or a seed, it is one file for all of them.

    >>> name_of_table("order:length=4", "../my codes.npy", 0, 3)
    'order_length=4-.._my_codes.npy-seed0-fold3.npy'
    >>> name_of_table("order", "dft", None, None, START)
    'order-dft-start.npy'
    """
    numbers = {"seed": seed, "fold": fold}
    parts = (task, encoding, *(f"{key}{n}" for key, n in numbers.items() if n is not None))
    return f"{'-'.join(map(plain_name, parts))}{suffix}"


def file_of_run(folder: Path, key: Key) -> Path:
    """Where a run's trace lies; a checksum tells apart runs whose names are cut."""
    dataset, encoding, seed, fold = key
    name = "-".join(plain_name(part)[-LONGEST_PART:] for part in (dataset, encoding))
    name = name.encode("ascii", "replace").decode().replace("?", "_")
    check = zlib.crc32(repr(key).encode())
    return folder / FOLDER / f"{name}-seed{seed}-fold{fold}-{check:08x}.npz"


def trace_of(task: Task, outcome: "Outcome", key: Key) -> bytes:
    """What a run left behind, as a file."""
    fold = task.folds[outcome.member.fold]
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


KINDS = {"transformer": Transformer, "order-free": OrderFree}
AGAIN = "save it again"
AT_A_TIME = 64  # windows
CPU = torch.device("cpu")


@torch.no_grad()
def apply_classifier(
    model: Transformer | OrderFree,
    parameters: Mapping[str, np.ndarray],
    injection: Injection | None,
    x: np.ndarray,
    lengths: np.ndarray | None = None,
) -> np.ndarray:
    """Logits (n, K) of windows x (n, length, channels) that are scaled already; float32.

    Rows from `lengths` (n,) on are padding, whatever they hold.
    """
    p = {name: torch.as_tensor(w, dtype=torch.float32)[None] for name, w in parameters.items()}
    injected = {} if injection is None else stack_codes([injection], CPU, torch.float32)
    x = np.asarray(x, np.float32)
    if lengths is not None:
        x = np.where((np.arange(x.shape[1]) < lengths[:, None])[..., None], x, 0)
    logits = []
    for start in range(0, len(x), AT_A_TIME):
        chunk = slice(start, start + AT_A_TIME)
        rows = None if lengths is None else torch.as_tensor(lengths[None, chunk])
        logits.append(model.logits(p, injected, torch.as_tensor(x[None, chunk]), None, rows)[0])
    return torch.cat(logits).double().numpy()


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """A trained classifier of windows (length, channels)."""

    encoding: str
    model: Transformer | OrderFree
    parameters: Mapping[str, np.ndarray]
    injection: Injection | None
    mean: np.ndarray  # (channels,)
    scale: np.ndarray
    classes: tuple[str, ...]
    threshold: float | None  # of two classes: the difference of logits from which on it says yes

    def logits(self, x: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
        """Logits (n, K) of windows x (n, length, channels), as they were before scaling.

        Shorter ones are padded, and have `lengths` (n,) rows.
        """
        x = np.asarray(x, dtype=float)
        shape = (self.model.length, self.model.channels)
        if x.ndim != 3 or x.shape[1:] != shape:
            raise PefourierError(
                f"expected windows of shape (n, {shape[0]}, {shape[1]}); got {x.shape}"
            )
        scaled = (x - self.mean) / self.scale
        if lengths is not None:
            lengths = check_lengths("x", np.asarray(lengths), *x.shape[:2])
        return apply_classifier(self.model, self.parameters, self.injection, scaled, lengths)

    def predict(self, x: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
        """The class of each window, as an index into `classes`."""
        logits = self.logits(x, lengths)
        if self.threshold is None:
            return logits.argmax(axis=1)
        return (logits[:, 1] - logits[:, 0] >= self.threshold).astype(int)


def classifier_of(
    task: Task, outcome: Outcome, model: Transformer | OrderFree
) -> TrainedClassifier:
    """The classifier that a run came to."""
    member, fold = outcome.member, task.folds[outcome.member.fold]
    injection = None
    if isinstance(model, Transformer):
        places = np.arange(len(outcome.codes))
        act, waves = member.injection.act, outcome.frequencies
        injection = Injection(act, outcome.codes, places, False, frequencies=waves)
    threshold = None if task.positive is None else threshold_of(task, outcome)
    numbers = outcome.parameters, injection, fold.mean, fold.scale
    return TrainedClassifier(member.encoding, model, *numbers, task.classes, threshold)


def save_model(folder: str, task: Task, outcome: Outcome, model: Transformer | OrderFree) -> None:
    """Write the classifier that a run came to into a folder."""
    m = outcome.member
    name = name_of_table(task.name, m.encoding, m.seed, m.fold, ".safetensors")
    save_classifier(str(Path(folder) / name), classifier_of(task, outcome, model))


def save_classifier(path: str, classifier: TrainedClassifier) -> None:
    """Write a classifier, whole or not at all."""
    settings = {
        "kind": next(name for name, kind in KINDS.items() if type(classifier.model) is kind),
        "sizes": asdict(classifier.model),
        "encoding": classifier.encoding,
        "act": classifier.injection.act if classifier.injection else None,
        "classes": list(classifier.classes),
        "threshold": classifier.threshold,
    }
    tensors = {f"model.{name}": value for name, value in classifier.parameters.items()}
    if classifier.injection is not None:
        tensors["codes"] = classifier.injection.table().astype(np.float32)
        if classifier.injection.frequencies is not None:
            tensors["frequencies"] = classifier.injection.frequencies[::-1].astype(np.float32)
    tensors |= {"mean": classifier.mean, "scale": classifier.scale}
    tensors["settings"] = np.frombuffer(json.dumps(settings).encode(), np.uint8)
    write_whole(path, lambda stream: write_tensors(stream, tensors))


def load_classifier(path: str | Path) -> TrainedClassifier:
    """Read a classifier that `--save-models` wrote; nothing in the file is executed."""
    with open_arrays(str(path), ".safetensors", advice=AGAIN) as file:
        arrays = {name: file.load(name) for name in file.arrays}
    try:
        return from_arrays(arrays)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PefourierError(
            f"{label(str(path))} is not a classifier of pefourier train: {shown(str(error))}"
        ) from error


def from_arrays(arrays: Mapping[str, np.ndarray]) -> TrainedClassifier:
    """A classifier from the tensors of its file; an error says where they are none."""
    settings = parse_json(arrays["settings"].astype(np.uint8).tobytes())
    model = KINDS[settings["kind"]](**settings["sizes"])
    names = {name.removeprefix("model."): name for name in arrays if name.startswith("model.")}
    parameters = {key: arrays[name].astype(np.float32) for key, name in names.items()}
    shapes = {name: value.shape for name, value in parameters.items()}
    if shapes != {name: tuple(shape) for name, shape in model.shapes().items()}:
        raise ValueError("its tensors have other shapes than its sizes say")
    mean, scale, limit = arrays["mean"], arrays["scale"], settings["threshold"]
    if {mean.shape, scale.shape} != {(model.channels,)}:
        raise ValueError("mean and scale are not those of its channels")
    injection = None
    if isinstance(model, Transformer):
        act, codes = settings["act"], arrays["codes"].astype(float)
        if act not in ACTS or codes.ndim != 2 or len(codes) != count_places(act, model.tokens):
            raise ValueError("its codes are not those of its tokens")
        injection = Injection(act, codes, np.arange(len(codes)), learn=False)
    numbers = model, parameters, injection, mean, scale, tuple(settings["classes"])
    return TrainedClassifier(settings["encoding"], *numbers, limit and float(limit))

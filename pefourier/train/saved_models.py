"""Trained classifiers in files: one .safetensors per run, written and read back.

>>> from pefourier.train.saved_models import load_classifier            # doctest: +SKIP
>>> load_classifier("models/smd-dft-seed0-fold0-c0ffee12.safetensors").predict(x)   # doctest: +SKIP

A file has the parameters of the classifier by name, `codes` (the vectors of its encoding),
`frequencies` of rotations, `mean` and `scale` of the channels, and `settings`, bytes of JSON with
sizes, classes and threshold. Other commands read it as a SPEC and describe the trained vectors.

A classifier trained with --positions time has a `rate`, in tokens per unit of time, and needs the
times of the windows that it classifies. Its `codes` are the vectors of even times. If slopes and
shifts were trained, they are `lines`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from pefourier.encodings.sources.formats import write_tensors
from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.train.data.examples import check_lengths, check_times
from pefourier.train.data.split import Task
from pefourier.train.ensembles import token_rate
from pefourier.train.fit import Outcome
from pefourier.train.injection import ACTS, WITH_TIMES, Injection, count_places, load_injection
from pefourier.train.metrics import decide
from pefourier.train.model import Classifier, OrderFree, Transformer, stack_vectors
from pefourier.train.run_artifacts import name_of_run, threshold_of
from pefourier.train.store import Key, parse_json
from pefourier.types import Array, Texts
from pefourier.writing.files import label, write_whole

KINDS = {"transformer": Transformer, "order-free": OrderFree}
AGAIN = "save it again"
AT_A_TIME = 64  # windows
CPU = torch.device("cpu")


@torch.no_grad()
def apply_classifier(
    model: Classifier,
    parameters: Mapping[str, Array],
    injection: Injection | None,
    x: Array,
    lengths: Array | None = None,
) -> Array:
    """Logits (n, K) of scaled windows x (n, length, channels), in float32.

    Rows from `lengths` (n,) on are padding; their values are ignored. An injection of times has the
    times of these windows.
    """
    p = {name: torch.as_tensor(w, dtype=torch.float32)[None] for name, w in parameters.items()}
    injected = {} if injection is None else stack_vectors([injection], CPU, torch.float32)
    x = np.asarray(x, np.float32)
    if lengths is not None:
        x = np.where((np.arange(x.shape[1]) < lengths[:, None])[..., None], x, 0)
    logits = []
    for start in range(0, len(x), AT_A_TIME):
        chunk = slice(start, start + AT_A_TIME)
        rows = None if lengths is None else torch.as_tensor(lengths[None, chunk])
        windows, part = torch.arange(len(x))[None, chunk], torch.as_tensor(x[None, chunk])
        logits.append(model.logits(p, injected, part, None, rows, windows)[0])
    return torch.cat(logits).double().numpy()


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """A trained classifier of windows (length, channels)."""

    encoding: str
    model: Classifier
    parameters: Mapping[str, Array]
    injection: Injection | None
    mean: Array  # (channels,)
    scale: Array
    classes: Texts
    threshold: float | None  # of two classes: smallest difference of logits for the second class
    rate: float | None = None  # tokens per unit of time; None: encodes token numbers
    seed: int = 0  # of random vectors

    def logits(self, x: Array, lengths: Array | None = None, times: Array | None = None) -> Array:
        """Logits (n, K) of unscaled windows x (n, length, channels).

        Shorter windows are padded and have `lengths` (n,) rows. A classifier that encodes times
        needs the `times` (n, length) of all rows.
        """
        x = np.asarray(x, dtype=float)
        shape = (self.model.length, self.model.channels)
        if x.ndim != 3 or x.shape[1:] != shape:
            raise PefourierError(f"expected windows (n, {shape[0]}, {shape[1]}), got {x.shape}")
        scaled = (x - self.mean) / self.scale
        if lengths is not None:
            lengths = check_lengths("x", np.asarray(lengths), *x.shape[:2])
        if self.injection is not None and (times is None) != (self.rate is None):
            way_out = "row numbers; omit times" if times is not None else "times; pass times"
            raise PefourierError(f"this classifier encodes {way_out} of shape {x.shape[:2]}")
        if times is None or self.rate is None or not isinstance(self.model, Transformer):
            return apply_classifier(self.model, self.parameters, self.injection, scaled, lengths)
        tokens = check_times("x", times, x.shape[:2], lengths)[:, :: self.model.step]
        tokens = (tokens[:, : self.model.tokens] - tokens[:, :1]) * self.rate
        lines = None if self.injection is None else self.injection.frequencies
        logits = []
        for start in range(0, len(x), AT_A_TIME):
            part = slice(start, start + AT_A_TIME)
            rest = scaled[part], None if lengths is None else lengths[part]
            injection = inject_at(self.encoding, self.model, self.seed, lines, tokens[part])
            logits.append(apply_classifier(self.model, self.parameters, injection, *rest))
        return np.concatenate(logits)

    def predict(self, x: Array, lengths: Array | None = None, times: Array | None = None) -> Array:
        """The class of each window, as an index into `classes`."""
        return decide(self.logits(x, lengths, times), self.threshold)


def inject_at(
    spec: str, model: Transformer, seed: int, lines: Array | None, times: Array
) -> Injection:
    """Return the injection of a SPEC at times (n, tokens), with slopes and shifts as trained."""
    injection = load_injection(spec, model.tokens, model.d, model.heads, seed, times=times)
    if lines is None or injection.frequencies is None:
        return injection
    return injection.rotated(lines - injection.frequencies)


def save_model(folder: str, task: Task, outcome: Outcome, model: Classifier) -> None:
    """Write the trained classifier of a run into a folder."""
    m, fold, injection, rate = outcome.member, task.folds[outcome.member.fold], None, None
    if isinstance(model, Transformer):
        vectors, rates = outcome.vectors, outcome.frequencies
        if task.times is not None:
            rate, even = token_rate(model, task), np.arange(model.tokens)[None]
            at_even = inject_at(m.encoding, model, m.seed, rates, even)
            vectors = at_even.vectors[at_even.index[0]]
        places = np.arange(len(vectors))
        injection = Injection(m.injection.act, vectors, places, learn=False, frequencies=rates)
    numbers = outcome.parameters, injection, fold.mean, fold.scale
    settings = task.classes, threshold_of(task, outcome), rate, m.seed
    classifier = TrainedClassifier(m.encoding, model, *numbers, *settings)
    path = file_of_model(folder, (task.name, m.encoding, m.seed, m.fold))
    save_classifier(str(path), classifier)


def file_of_model(folder: str, key: Key) -> Path:
    """Return the path of the classifier of a run."""
    return Path(folder, f"{name_of_run(key)}.safetensors")


def save_classifier(path: str, classifier: TrainedClassifier) -> None:
    """Write a classifier, complete or not at all."""
    settings = {
        "kind": next(name for name, kind in KINDS.items() if type(classifier.model) is kind),
        "sizes": asdict(classifier.model),
        "encoding": classifier.encoding,
        "act": classifier.injection.act if classifier.injection else None,
        "classes": list(classifier.classes),
        "threshold": classifier.threshold,
        "rate": classifier.rate,
        "seed": classifier.seed,
    }
    tensors = {f"model.{name}": value for name, value in classifier.parameters.items()}
    if classifier.injection is not None:
        tensors["codes"] = classifier.injection.table().astype(np.float32)
        if classifier.injection.frequencies is not None:
            rates = classifier.injection.frequencies.astype(np.float32)
            tensors |= {"frequencies": rates[::-1]} if classifier.rate is None else {"lines": rates}
    tensors |= {"mean": classifier.mean, "scale": classifier.scale}
    tensors["settings"] = np.frombuffer(json.dumps(settings).encode(), np.uint8)
    write_whole(path, lambda stream: write_tensors(stream, tensors))


def load_classifier(path: str | Path) -> TrainedClassifier:
    """Read a classifier written by `--save-models`; nothing in the file is executed."""
    with open_arrays(str(path), ".safetensors", advice=AGAIN) as file:
        arrays = {name: file.load(name) for name in file.arrays}
    try:
        return from_arrays(arrays)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PefourierError(
            f"{label(str(path))} is not a classifier of pefourier train: {shown(str(error))}"
        ) from error


def from_arrays(arrays: Mapping[str, Array]) -> TrainedClassifier:
    """Make a classifier from the tensors of its file; raise an error for invalid tensors."""
    settings = parse_json(arrays["settings"].astype(np.uint8).tobytes())
    model = KINDS[settings["kind"]](**settings["sizes"])
    names = {name.removeprefix("model."): name for name in arrays if name.startswith("model.")}
    parameters = {key: arrays[name].astype(np.float32) for key, name in names.items()}
    shapes = {name: value.shape for name, value in parameters.items()}
    if shapes != {name: tuple(shape) for name, shape in model.shapes().items()}:
        raise ValueError("shapes of its tensors do not match its sizes")
    mean, scale, limit = arrays["mean"], arrays["scale"], settings["threshold"]
    if {mean.shape, scale.shape} != {(model.channels,)}:
        raise ValueError("mean and scale do not match its channels")
    injection = None
    if isinstance(model, Transformer):
        act, vectors = settings["act"], arrays["codes"].astype(float)
        if act not in ACTS or vectors.ndim != 2 or len(vectors) != count_places(act, model.tokens):
            raise ValueError("its vectors do not match its tokens")
        injection = Injection(act, vectors, np.arange(len(vectors)), learn=False)
        injection = replace(injection, frequencies=arrays.get("lines"))
    rate, seed = settings.get("rate"), settings.get("seed", 0)
    if rate is not None and settings["encoding"].partition(":")[0] not in WITH_TIMES.split():
        raise ValueError("its encoding has no times")
    numbers = model, parameters, injection, mean, scale, tuple(settings["classes"])
    limits = limit and float(limit), rate and float(rate), int(seed)
    return TrainedClassifier(settings["encoding"], *numbers, *limits)

"""Trained classifiers in files: one .safetensors per run, written and read back.

>>> from pefourier.train.saved_models import load_classifier            # doctest: +SKIP
>>> load_classifier("models/smd-dft-seed0-fold0-c0ffee12.safetensors").predict(x)   # doctest: +SKIP

A file has the parameters of the classifier by name, `codes` (the vectors of its encoding),
`frequencies` of rotations, `mean` and `scale` of the channels, and `settings`, bytes of JSON with
sizes, classes and threshold. Other commands read it as a SPEC and describe the trained vectors.

A classifier trained with --positions time has a `rate`, in tokens per unit of time, and needs the
times of the windows that it classifies. Its `codes` are the vectors of even times. If slopes and
shifts were trained, they are `lines`.

Other lengths
-------------
A built-in task is drawn again at each length. Inputs are scaled and the threshold is chosen as at
the training length, without further training; times are in the same unit. If an encoding cannot
supply vectors for longer windows, the result states why: trained vectors must all have been
trained, and added vectors must distinguish positions. If fixed vectors of the first positions
depend on the length, they may change.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pefourier.encodings.sources.formats import write_tensors
from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.train.data.examples import check_lengths, check_times
from pefourier.train.data.split import Task
from pefourier.train.ensembles import Ensemble, token_rate
from pefourier.train.fit import Outcome
from pefourier.train.injection import (
    ACTS,
    WITH_TIMES,
    Injection,
    count_places,
    load_injection,
    scale_to_rms,
)
from pefourier.train.metrics import decide, score
from pefourier.train.model import Classifier, OrderFree, Transformer, stack_vectors
from pefourier.train.run_artifacts import file_of_model, threshold_of
from pefourier.train.store import MEASURES, parse_json
from pefourier.writing.files import label, write_whole
from pefourier.writing.text import agreeing

KINDS = {"transformer": Transformer, "order-free": OrderFree}
AGAIN = "save it again"
AT_A_TIME = 64  # windows
CPU = torch.device("cpu")


@torch.no_grad()
def apply_classifier(
    model: Classifier,
    parameters: Mapping[str, np.ndarray],
    injection: Injection | None,
    x: np.ndarray,
    lengths: np.ndarray | None = None,
) -> np.ndarray:
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
    parameters: Mapping[str, np.ndarray]
    injection: Injection | None
    mean: np.ndarray  # (channels,)
    scale: np.ndarray
    classes: tuple[str, ...]
    threshold: float | None  # of two classes: smallest difference of logits for the second class
    rate: float | None = None  # tokens per unit of time; None: encodes token numbers
    seed: int = 0  # of random vectors
    channels: tuple[str, ...] = ()  # their names, if known
    is_cut: bool = True  # trained on windows of recordings, not on whole series

    def logits(
        self, x: np.ndarray, lengths: np.ndarray | None = None, times: np.ndarray | None = None
    ) -> np.ndarray:
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

    def predict(
        self, x: np.ndarray, lengths: np.ndarray | None = None, times: np.ndarray | None = None
    ) -> np.ndarray:
        """The class of each window, as an index into `classes`."""
        return decide(self.logits(x, lengths, times), self.threshold)


def inject_at(
    spec: str, model: Transformer, seed: int, lines: np.ndarray | None, times: np.ndarray
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
    channels, is_cut = tuple(task.remarks.get("channels", ())), not task.own_names
    settings = task.classes, threshold_of(task, outcome), rate, m.seed
    classifier = TrainedClassifier(m.encoding, model, *numbers, *settings, channels, is_cut)
    path = file_of_model(folder, (task.name, m.encoding, m.seed, m.fold))
    save_classifier(str(path), classifier)


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
        "channels": list(classifier.channels),
        "is_cut": classifier.is_cut,
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


def from_arrays(arrays: Mapping[str, np.ndarray]) -> TrainedClassifier:
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
    channels = tuple(map(str, settings.get("channels", ())))
    is_cut = bool(settings.get("is_cut", True))
    return TrainedClassifier(settings["encoding"], *numbers, *limits, channels, is_cut)


# Other lengths


def score_lengths(
    stack: Ensemble, outcome: Outcome, tasks: Sequence[Task], load: Callable[..., Injection]
) -> list[dict[str, Any]]:
    """Score a trained run at the lengths of tasks, or state why it has no scores.

    `load` returns the injection for a classifier, SPEC, seed and task.
    """
    fold, rows = stack.task.folds[outcome.member.fold], []
    for task in tasks:
        scores: Mapping[str, Any] = dict.fromkeys(MEASURES)
        try:
            if stack.model is None:
                raise PefourierError("it needs windows of the length used in training")
            longer, reason = replace(stack.model, length=task.length), ""
            injection = injection_at(stack, outcome, longer, task, load)
        except PefourierError as error:
            reason = str(error)
        else:
            x = (task.windows_at(np.arange(len(task.starts))) - fold.mean) / fold.scale
            logits = apply_classifier(longer, outcome.parameters, injection, x)
            predicted = decide(logits, threshold_of(stack.task, outcome))
            scores = score(predicted, logits, task.labels, macro=stack.task.positive is None)
        rows.append({"length": task.length, **scores, "reason": reason})
    return rows


def injection_at(
    stack: Ensemble,
    outcome: Outcome,
    model: Classifier,
    task: Task,
    load: Callable[..., Injection],
) -> Injection | None:
    """Return the injection of a run for a task of another length; reject a run that has none."""
    if isinstance(model, OrderFree):
        return None
    run, trained = stack.runs[outcome.member.number], replace(model, length=stack.task.length)
    rate = None if task.times is None else token_rate(trained, stack.task)
    longer = load(model, run.arm.spec, run.seed, task, rate)
    if run.arm.rms is not None:
        unscaled = load(trained, run.arm.spec, run.seed, stack.task)
        longer = scale_to_rms(longer, run.arm.rms, reference=unscaled)
    return lengthen(outcome, longer, model.tokens)


def lengthen(outcome: Outcome, longer: Injection, tokens: int) -> Injection:
    """Return the injection of a longer window, with trained vectors as trained."""
    injection = outcome.member.injection
    if longer.act == "add" and 1 < len(longer.vectors) < tokens:
        raise PefourierError(
            f"it has {len(longer.vectors)} distinct vectors for {tokens} tokens, so some share one"
        )
    if not injection.learn:
        return longer
    if injection.frequencies is not None and outcome.frequencies is not None:
        begun = injection if injection.act == "rotate" else longer
        return longer.rotated(outcome.frequencies - begun.frequencies)
    place = dict(zip(injection.index.tolist(), range(len(injection.index)), strict=True))
    trained = {injection.vectors[u].tobytes(): outcome.vectors[row] for u, row in place.items()}
    lacking = sum(vector.tobytes() not in trained for vector in longer.vectors)
    if lacking:
        raise PefourierError(
            f"{lacking} of its {len(longer.vectors)} vectors for {tokens} tokens "
            f"{agreeing(lacking, 'was', 'were')} never trained"
        )
    return replace(
        longer, vectors=np.stack([trained[vector.tobytes()] for vector in longer.vectors])
    )

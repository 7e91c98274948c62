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

Classes of new data, predicted by saved models.

The models of an encoding, one for each seed and fold, predict together: a window has the mean of
their probabilities, and the class with the highest mean. Recordings are cut into windows of the
trained length from the first row of each series on; rows after the last whole window are left out.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import torch

from pefourier.encodings.sources.tables import open_arrays, write_tensors
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data.load import load_task
from pefourier.train.data.split import Task, check_lengths, check_times
from pefourier.train.model import (
    ACTS,
    NOTHING,
    Classifier,
    Injection,
    OrderFree,
    Transformer,
    count_places,
    load_injection,
    no_waves,
    scale_to_rms,
    stack_vectors,
    token_rate,
    with_frequencies,
)
from pefourier.train.options import USUAL, Options
from pefourier.train.program import TrainedRun, threshold_of
from pefourier.train.report import answer_page
from pefourier.train.request import parse_arm
from pefourier.train.run_artifacts import (
    class_probabilities,
    decide,
    file_of_model,
    score,
)
from pefourier.train.store import MEASURES, check_type, parse_json
from pefourier.types import Array, Fields, Strings, Texts, frozen_arrays
from pefourier.writing.files import check_suffix, label, write_text, write_whole
from pefourier.writing.page import Page
from pefourier.writing.text import agreeing, first_few, join

KINDS = {"transformer": Transformer, "order-free": OrderFree}
SETTINGS = ("encoding", "classes", "threshold", "rate", "seed", "channels", "is_cut")
AT_A_TIME = 64  # windows
CPU = torch.device("cpu")


@frozen_arrays
class TrainedClassifier:
    """A trained classifier of windows (length, channels)."""

    encoding: str
    model: Classifier
    parameters: Mapping[str, Array]
    injection: Injection
    mean: Array  # (channels,)
    scale: Array
    classes: Texts
    threshold: float | None  # of two classes: smallest difference of logits for the second class
    rate: float | None = None  # tokens per unit of time; None: encodes token numbers
    seed: int = 0  # of random vectors
    channels: Texts = ()  # their names, if known
    is_cut: bool = True  # trained on windows of recordings, not on whole series

    @torch.no_grad()
    def logits(self, x: Array, lengths: Array | None = None, times: Array | None = None) -> Array:
        """Logits (n, K) of unscaled windows x (n, length, channels).

        Shorter windows are padded and have `lengths` (n,) rows. A classifier that encodes times
        needs the `times` (n, length) of all rows.
        """
        x, model, tokens = np.asarray(x, dtype=float), self.model, None
        shape = model.length, model.channels
        if x.ndim != 3 or x.shape[1:] != shape:
            raise PefourierError(f"expected windows (n, {shape[0]}, {shape[1]}), got {x.shape}")
        scaled = (x - self.mean) / self.scale
        if lengths is not None:
            lengths = check_lengths("x", np.asarray(lengths), *x.shape[:2])
        if lengths is not None:
            scaled[np.arange(shape[0]) >= lengths[:, None]] = 0.0
        if isinstance(model, Transformer) and (times is None) != (self.rate is None):
            way_out = "row numbers; omit times" if times is not None else "times; pass times"
            raise PefourierError(f"this classifier encodes {way_out} of shape {x.shape[:2]}")
        if isinstance(model, Transformer) and times is not None:
            tokens = check_times("x", times, x.shape[:2], lengths)[:, :: model.step]
            tokens = (tokens[:, : model.tokens] - tokens[:, :1]) * self.rate
        p = {name: torch.as_tensor(w)[None].float() for name, w in self.parameters.items()}
        logits = []
        for start in range(0, len(x), AT_A_TIME):
            part = slice(start, start + AT_A_TIME)
            rows = None if lengths is None else torch.as_tensor(lengths[None, part])
            windows, injection = torch.as_tensor(scaled[None, part]).float(), self.injection
            if isinstance(model, Transformer) and tokens is not None:
                injection = inject_at(self.encoding, model, self.seed, injection, tokens[part])
            index = torch.arange(windows.shape[1])[None]
            injected = stack_vectors([injection], CPU, torch.float32)
            logits.append(model.logits(p, injected, windows, None, rows, index)[0])
        return torch.cat(logits).double().numpy()

    def logits_at(self, task: Task, at: Array, lengths: Array | None = None) -> Array:
        """Logits (n, K) of windows of a task by their rows (n, length)."""
        return self.logits(task.rows[at], lengths, None if task.times is None else task.times[at])

    def predict(self, x: Array, lengths: Array | None = None, times: Array | None = None) -> Array:
        """The class of each window, as an index into `classes`."""
        return decide(self.logits(x, lengths, times), self.threshold)


def inject_at(
    spec: str, model: Transformer, seed: int, trained: Injection, times: Array
) -> Injection:
    """Return the injection of a SPEC at times (n, tokens), with slopes and shifts as trained."""
    injection = load_injection(spec, model.tokens, model.d, model.heads, seed, times=times)
    if not trained.frequencies.size:
        return injection
    return with_frequencies(injection, trained.frequencies)


def classifier_of(
    task: Task, outcome: TrainedRun, model: Classifier, injection: Injection
) -> TrainedClassifier:
    """Return the classifier of a run on a task, with an injection for the model's length."""
    m, fold, rate = outcome.member, task.folds[outcome.member.fold], None
    if isinstance(model, Transformer) and task.times is not None:
        rate = token_rate(replace(model, length=task.length), task)
    return TrainedClassifier(
        *(m.encoding, model, outcome.parameters, injection, fold.mean, fold.scale),
        *(task.classes, threshold_of(task, outcome), rate, m.seed),
        channels=tuple(task.remarks.get("channels", ())),
        is_cut=not task.own_names,
    )


def save_model(folder: str, task: Task, outcome: TrainedRun, model: Classifier) -> None:
    """Write the trained classifier of a run into a folder, complete or not at all."""
    m, injection = outcome.member, outcome.injection
    if isinstance(model, Transformer) and task.times is not None:
        even = np.arange(model.tokens)[None]
        at_even = inject_at(m.encoding, model, m.seed, injection, even)
        injection = replace(at_even, index=at_even.index[0])
    classifier = classifier_of(task, outcome, model, injection)
    settings = {name: getattr(classifier, name) for name in SETTINGS} | {
        "kind": "transformer" if isinstance(model, Transformer) else "order-free",
        "sizes": asdict(model),
        "act": injection.act,
    }
    tensors = {f"model.{name}": value for name, value in outcome.parameters.items()}
    if isinstance(model, Transformer):
        tensors["codes"] = injection.table().astype(np.float32)
        if injection.frequencies.size:
            rates = injection.frequencies.astype(np.float32)
            tensors |= {"frequencies": rates[::-1]} if classifier.rate is None else {"lines": rates}
    tensors |= {"mean": classifier.mean, "scale": classifier.scale}
    tensors["settings"] = np.frombuffer(json.dumps(settings).encode(), np.uint8)
    path = file_of_model(folder, outcome.key_in(task))
    write_whole(str(path), lambda stream: write_tensors(stream, tensors))


def load_classifier(path: str | Path) -> TrainedClassifier:
    """Read a classifier written by `--save-models`; nothing in the file is executed."""
    with open_arrays(str(path), ".safetensors", advice="save it again") as file:
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
    sizes = settings["sizes"]
    if sizes.pop("inject", "add") != "add":  # of earlier versions
        raise ValueError("its vectors are not added to the input")
    model = KINDS[settings["kind"]](**sizes)
    shapes = {f"model.{name}": shape for name, shape in model.shapes().items()}
    shapes |= dict.fromkeys(("mean", "scale"), (model.channels,))
    if any(arrays[name].shape != shape for name, shape in shapes.items()):
        raise ValueError("shapes of its tensors do not match its sizes")
    parameters = {name: arrays[f"model.{name}"].astype(np.float32) for name in model.shapes()}
    injection = NOTHING
    if isinstance(model, Transformer):
        act, vectors = settings["act"], arrays["codes"].astype(float)
        if act not in ACTS or vectors.ndim != 2 or len(vectors) != count_places(act, model.tokens):
            raise ValueError("its vectors do not match its tokens")
        lines, index = arrays.get("lines", no_waves()), np.arange(len(vectors))
        injection = Injection(act, vectors, index, frequencies=lines)
    own: Fields = {name: settings[name] for name in SETTINGS if name in settings}
    for name, value in own.items():  # earlier versions had fewer
        check_type(name, value, get_type_hints(TrainedClassifier)[name])
    own |= {name: tuple(value) for name, value in own.items() if isinstance(value, list)}
    own |= {"model": model, "parameters": parameters, "injection": injection}
    return TrainedClassifier(mean=arrays["mean"], scale=arrays["scale"], **own)


# Other lengths


def score_lengths(
    own: Task,
    model: Classifier | None,
    outcome: TrainedRun,
    tasks: Sequence[Task],
    load: Callable[..., Injection],
) -> list[Fields]:
    """Score a trained run at the lengths of tasks, or state why it has no scores.

    `load` returns the injection for a classifier, SPEC, seed and task.
    """
    rows = []
    for task in tasks:
        row: Fields = {"length": task.length, **dict.fromkeys(MEASURES), "reason": ""}
        try:
            if model is None:
                raise PefourierError("it needs windows of the length used in training")
            longer = replace(model, length=task.length)
            injection = injection_at(own, outcome, longer, task, load)
            classifier = classifier_of(own, outcome, longer, injection)
            logits = classifier.logits_at(task, task.starts[:, None] + np.arange(task.length))
            if not np.isfinite(logits).all():
                raise PefourierError("its logits are not finite")
            predicted = decide(logits, classifier.threshold)
            row |= score(predicted, logits, task.labels, macro=own.positive is None)
        except PefourierError as error:
            row["reason"] = str(error)
        rows.append(row)
    return rows


def injection_at(
    trained: Task,
    outcome: TrainedRun,
    model: Classifier,
    task: Task,
    load: Callable[..., Injection],
) -> Injection:
    """Return the injection of a run for a task of another length; reject a run that has none."""
    if isinstance(model, OrderFree) or task.times is not None:  # found when times are known
        return outcome.injection
    arm, seed = parse_arm(outcome.member.encoding), outcome.member.seed
    longer = load(model, arm.spec, seed, task)
    if arm.rms is not None:
        unscaled = load(replace(model, length=trained.length), arm.spec, seed, trained)
        longer = scale_to_rms(longer, arm.rms, reference=unscaled)
    return lengthen(outcome, longer, model.tokens)


def lengthen(outcome: TrainedRun, longer: Injection, tokens: int) -> Injection:
    """Return the injection of a longer window, with trained vectors as trained."""
    injection, after = outcome.member.injection, outcome.injection.vectors
    if longer.act == "add" and 1 < len(longer.vectors) < tokens:
        raise PefourierError(
            f"it has {len(longer.vectors)} distinct vectors for {tokens} tokens, so some share one"
        )
    if not injection.learn:
        return longer
    if injection.frequencies.size:
        change = outcome.injection.frequencies - injection.frequencies
        return with_frequencies(longer, longer.frequencies + change)
    trained = {one.tobytes(): own for one, own in zip(injection.table(), after, strict=True)}
    keys = [vector.tobytes() for vector in longer.vectors]
    vectors = [trained[key] for key in keys if key in trained]
    if lacking := len(keys) - len(vectors):
        raise PefourierError(
            f"{lacking} of its {len(longer.vectors)} vectors for {tokens} tokens "
            f"{agreeing(lacking, 'was', 'were')} never trained"
        )
    return replace(longer, vectors=np.stack(vectors))


FORMAT = "{:.6g}"  # of probabilities


def load_models(place: str, encodings: Strings) -> list[TrainedClassifier]:
    """Load the models of one encoding from a folder of --save-models, or one file."""
    files = sorted(Path(place).glob("*.safetensors")) if Path(place).is_dir() else [Path(place)]
    if not files:
        raise PefourierError(f"--predict {shown(place)} holds no models; name a --save-models DIR")
    models = [load_classifier(file) for file in files]
    found = list(dict.fromkeys(model.encoding for model in models))
    chosen = found if encodings == USUAL else list(encodings)
    for name in chosen:
        if name not in found:
            raise unknown(f"encoding of the models in {place}", name, found)
    if len(chosen) > 1:
        raise PefourierError(f"{shown(place)} holds models of {join(found)}; choose one with -e")
    models = [model for model in models if model.encoding == chosen[0]]
    kinds = [(model.classes, model.channels, model.model) for model in models]
    if any(kind != kinds[0] for kind in kinds):
        raise PefourierError(
            f"{shown(place)} holds models of several datasets or sizes; name one file"
        )
    return models


def cut_series(task: Task, model: TrainedClassifier) -> tuple[Array, Array, Array]:
    """Return the series (n,), the first row and the number of rows of each window."""
    length, name = model.model.length, task.name
    rows = np.full(len(task.starts), task.length) if task.lengths is None else task.lengths
    names, count = tuple(task.remarks.get("channels", ())), task.rows.shape[1]
    others = names and model.channels and names != model.channels
    if count != model.model.channels or others:
        raise PefourierError(
            f"{name} has {f'{count} channels {first_few(names)}'.rstrip()}, the models "
            f"{first_few(model.channels) or model.model.channels}; use --channels "
            f"{','.join(model.channels) or 'A,B'}"
        )
    if not model.is_cut and rows.max() > length:
        raise PefourierError(
            f"{name} has series of {rows.max()} rows, the models were trained on series of "
            f"{length} rows or fewer; shorten the series, or name a column of labels by --columns"
        )
    if not model.is_cut:
        return np.arange(len(rows)), np.zeros(len(rows), int), rows
    counts = rows // length
    if not counts.any():
        raise PefourierError(f"{name}: its longest series has {rows.max()} of {length} rows")
    series = np.repeat(np.arange(len(rows)), counts)
    first = np.concatenate([np.arange(count) * length for count in counts])
    return series, first, np.full(len(series), length)


def predict_windows(task: Task, models: Sequence[TrainedClassifier]) -> tuple[Array, Array, Array]:
    """Return the series, the first row, and the probabilities (n, K) of each window."""
    series, first, rows = cut_series(task, models[0])
    length = models[0].model.length
    within = np.minimum(np.arange(length), rows[:, None] - 1)  # padding is masked
    at = task.starts[series, None] + first[:, None] + within
    lengths = rows if (rows < length).any() else None
    p = [class_probabilities(m.logits_at(task, at, lengths), m.threshold) for m in models]
    return series, first, np.mean(p, axis=0)


def predict_classes(options: Options, note: Callable[[str], object] = str) -> Page:
    """Predict the classes of new data, write them to --out, and return the answer."""
    if options.out is None or options.predict is None or len(options.dataset) != 1:
        raise PefourierError("--predict needs new data and --out FILE.csv")
    check_suffix(options.out, (".csv",))
    models = load_models(options.predict, options.encoding)
    task = load_task(options.dataset[0], options)
    series, first, p = predict_windows(task, models)
    note(f"{task.name}: read as {task.remarks['read'][0]}")
    labels = [models[0].classes[k] for k in p.argmax(axis=1)]
    names = task.names or [str(i) for i in range(len(task.starts))]
    chances = map(FORMAT.format, p.max(axis=1))
    rows = zip([names[i] for i in series], first, labels, chances, strict=True)
    stream, head = io.StringIO(), ("series", "window", "label", "probability")
    csv.writer(stream, lineterminator="\n").writerows([head, *rows])
    write_text(options.out, stream.getvalue())
    out, counts = options.out, Counter(labels)
    found = [
        {
            "encoding": models[0].encoding.partition(":")[0],
            "spec": models[0].encoding,
            "label": c,
            "windows": counts[c],
            "out": out,
            "conclusion": f"windows: {counts[c]}",
        }
        for c in models[0].classes
    ]
    runs = f"{len(models)} {agreeing(len(models), 'model', 'models')} of {models[0].encoding}"
    shares = ", ".join(f"{record['label']} {record['windows']}" for record in found)
    text = f"PREDICTED. Windows: {len(labels)}, by {runs}: {shares}. Written to {out}."
    return answer_page("predict", lambda: text, lambda: found)

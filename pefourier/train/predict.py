"""Classes of new data, predicted by saved models.

The models of an encoding, one for each seed and fold, predict together: a window has the mean of
their probabilities, and the class with the highest mean. Recordings are cut into windows of the
trained length from the first row of each series on; rows after the last whole window are left out.
"""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data.load import load_task
from pefourier.train.data.split import Task
from pefourier.train.options import USUAL, Options
from pefourier.train.run_artifacts import class_probabilities
from pefourier.train.saved_models import TrainedClassifier, load_classifier
from pefourier.train.work import Note
from pefourier.writing.files import check_suffix, write_whole
from pefourier.writing.page import Page, flattened
from pefourier.writing.text import agreeing, join, paragraph, printable

FORMAT = "{:.6g}"  # of probabilities


def load_models(place: str, encodings: Sequence[str]) -> list[TrainedClassifier]:
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
    first = models[0]
    for model in models:
        same = model.classes == first.classes and model.channels == first.channels
        if not same or model.model != first.model:
            raise PefourierError(
                f"{shown(place)} holds models of several datasets or sizes; name one file"
            )
    return models


def cut_series(task: Task, model: TrainedClassifier) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the series (n,), the first row and the number of rows of each window."""
    length, name = model.model.length, task.name
    rows = np.full(len(task.starts), task.length) if task.lengths is None else task.lengths
    if task.rows.shape[1] != model.model.channels:
        raise PefourierError(
            f"{name} has {task.rows.shape[1]} channels, the models {model.model.channels}; use "
            f"--channels {','.join(model.channels) or 'A,B'}"
        )
    names = tuple(task.remarks.get("channels", ()))
    if names and model.channels and names != model.channels:
        raise PefourierError(
            f"{name} has the channels {join(names)}, the models {join(model.channels)}; use "
            f"--channels {','.join(model.channels)}"
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


def predict_windows(
    task: Task, models: Sequence[TrainedClassifier]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the series, the first row, and the probabilities (n, K) of each window."""
    series, first, rows = cut_series(task, models[0])
    length = models[0].model.length
    within = np.minimum(np.arange(length), rows[:, None] - 1)  # padding is masked
    at = task.starts[series, None] + first[:, None] + within
    lengths = rows if (rows < length).any() else None
    times = None if task.times is None else task.times[at]
    logits = [(m, m.logits(task.rows[at], lengths, times)) for m in models]
    return series, first, np.mean([class_probabilities(x, m.threshold) for m, x in logits], axis=0)


def predict_classes(options: Options, note: Note | None = None) -> Page:
    """Predict the classes of new data, write them to --out, and return the answer."""
    if options.out is None or options.predict is None or len(options.dataset) != 1:
        raise PefourierError("--predict needs new data and --out FILE.csv")
    check_suffix(options.out, (".csv",))
    models = load_models(options.predict, options.encoding)
    task = load_task(options.dataset[0], options)
    series, first, p = predict_windows(task, models)
    if note is not None:
        note(f"{task.name}: read as {task.remarks['read'][0]}")
    labels = [models[0].classes[k] for k in p.argmax(axis=1)]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["series", "window", "label", "probability"])
    names = task.names or [str(i) for i in range(len(task.starts))]
    for number, row, label, of in zip(series, first, labels, p.max(axis=1), strict=True):
        writer.writerow([names[number], row, label, FORMAT.format(of)])
    out, content = options.out, stream.getvalue().encode()
    write_whole(out, lambda file: file.write(content))
    counts = Counter(labels)
    named = {"encoding": models[0].encoding.partition(":")[0], "spec": models[0].encoding}
    found = [named | {"label": c, "windows": counts[c], "out": out} for c in models[0].classes]
    found = [record | {"conclusion": f"{record['windows']} windows"} for record in found]
    runs = f"{len(models)} {agreeing(len(models), 'model', 'models')} of {models[0].encoding}"
    shares = ", ".join(f"{record['label']} {record['windows']}" for record in found)
    text = f"PREDICTED. {len(labels)} windows by {runs}: {shares}. Written to {out}."
    return Page(
        "predict",
        words=str,
        records=lambda: found,
        rows=lambda: flattened(found),
        conclusion=lambda: paragraph(printable(text)),
        together=lambda: text,
    )

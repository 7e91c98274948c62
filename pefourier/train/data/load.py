"""The data that a name or a path stands for, as a `Task`.

The names of files in synthetic/ (drawn) and published/ (read under --data), ``uea:NAME`` (UCR and
UEA sets through the package aeon), a folder or file of .ts, and .npz: X (n, length, channels)
with y (n,) and maybe `groups` and `lengths` (n,), the same in parts X_train, y_train, X_test and
y_test, or a labelled series: `rows` (n, channels) with `label` (n,) and maybe `train`; and .csv in
long form.
"""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np

from pefourier.encodings.checks import check_count
from pefourier.encodings.sources.tables import ArrayFile, names_and_shapes, open_arrays
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data import PUBLISHED, SYNTHETIC, digits, recordings, split
from pefourier.train.data.examples import check_examples, from_examples, from_ts
from pefourier.train.data.recordings import Source
from pefourier.train.data.split import USER_BLOCKS, Split, Task
from pefourier.train.data.synthetic import draw_examples, sides_of_task
from pefourier.train.options import Missing

MOST_RESAMPLES = 1000
BALANCED = 0.4  # share of the rarer of two classes from which on neither is the positive one
SIDES = ("train", "test")
PARTS = tuple(f"{name}_{side}" for name in "Xy" for side in SIDES)
EXAMPLES, RECORDING = ("X", "y", "groups", "lengths"), ("rows", "test", "label", "train")


def load_task(
    name: str,
    data: str | None = None,
    window: int | None = None,
    stride: int | None = None,
    split_by: Split = "blocks",
    folds: int | None = None,
    resamples: int | None = None,
    positive: Sequence[str] = (),
    columns: str | None = None,
    missing: Missing | None = None,
) -> Task:
    """The task that a name or path stands for, the first `folds` of its folds.

    `window` (default 100 rows) and `stride` cut series; examples come as long as they are. Of a set
    with a test part `resamples` splits are made, the first its publisher's. Of recordings whose
    rows are labelled by names a `positive` one marks the anomalies. `columns` and `missing` are as
    --columns and --missing say.
    """
    if columns is not None and Path(name).suffix.lower() != ".csv":
        raise PefourierError(f"--columns is for .csv files; {shown(name)} is none")
    if resamples is None:
        task = find_task(name, data, window, stride, split_by, positive, columns, missing)
    else:
        check_examples(name, window, stride)
        task = find_resamples(name, data, split_by, resamples, missing)
    if folds is not None and not 1 <= folds <= len(task.folds):
        raise PefourierError(f"--folds must be from 1 to {len(task.folds)} for {name}; got {folds}")
    return replace(task, folds=task.folds[:folds])


def name_positives(tasks: Sequence[Task], names: Sequence[str]) -> list[Task]:
    """Tasks of two classes whose second is the positive one: a named one, or the rarer."""
    ordered = [name_positive(task, names) for task in tasks]
    two = {label for task in tasks if len(task.classes) == 2 for label in task.classes}
    if names and not two:
        raise PefourierError(
            f"--positive {shown(names[0])} needs a dataset of two classes, and {tasks[0].name} has "
            f"{len(tasks[0].classes)}, whose scores are means over all; leave it out"
        )
    for name in names:
        if name not in two:
            raise unknown("class of --positive", name, sorted(two))
    return ordered


def name_positive(task: Task, names: Sequence[str]) -> Task:
    """A task whose second class is the positive one; more classes, or two balanced, have none."""
    if len(task.classes) != 2:
        return task
    chosen = [name for name in task.classes if name in names]
    if len(chosen) > 1:
        pair = " and ".join(map(shown, chosen))
        raise PefourierError(f"{task.name}: --positive names both classes, {pair}; name one")
    counts = np.bincount(task.labels, minlength=2)
    balanced = not chosen and task.own_names and counts.min() >= BALANCED * counts.sum()
    flip = chosen == [task.classes[0]] if chosen else task.own_names and counts[0] < counts[1]
    if flip and not balanced:
        task = replace(task, classes=task.classes[::-1], labels=1 - task.labels)
    return replace(task, balanced=balanced)


def reads_data_folder(name: str) -> bool:
    """Whether a dataset is read from --data DIR."""
    return name in PUBLISHED or name.startswith("uea:")


def source_of_dataset(name: str) -> Source:
    """The published dataset that a file in published/ describes."""
    return import_module(f"pefourier.train.data.published.{name}").SOURCE


def find_task(
    name: str,
    data: str | None,
    window: int | None,
    stride: int | None,
    split_by: Split,
    positive: Sequence[str] = (),
    columns: str | None = None,
    missing: Missing | None = None,
) -> Task:
    """The task with all of its folds."""
    check_dataset(name)
    kind = name.partition(":")[0]
    suffix = Path(name).suffix.lower()
    if name in PUBLISHED:
        source = source_of_dataset(name)
        series = recordings.read_recordings(source, data)
        return split.split_series(name, series, window, stride, split_by, source.blocks)
    if suffix == ".npz":
        return from_archive(Path(name), window, stride, split_by, missing=missing)
    if suffix == ".csv":
        from pefourier.train.data.tables import from_csv

        return from_csv(Path(name), window, stride, split_by, positive, columns, missing)
    check_examples(name, window, stride)
    if kind in SYNTHETIC:
        # fresh draws are as good as folds
        task = from_examples(name, *draw_examples(name), split_by, most_folds=1)
        return replace(task, grid=sides_of_data(name))
    if name == "digits":
        task = from_examples(name, *digits.read_digits(), split_by)
        return replace(task, grid=sides_of_data(name))
    return from_ts(name, data, split_by, missing=missing)


def check_dataset(name: str) -> None:
    """Refuse a name that neither a dataset nor a file of examples can have."""
    if name in (*PUBLISHED, "digits") or name.partition(":")[0] in (*SYNTHETIC, "uea"):
        return
    if Path(name).suffix.lower() in (".npz", ".csv", ".ts") or (name and Path(name).is_dir()):
        return
    datasets = [*SYNTHETIC, *PUBLISHED, "digits", "uea:NAME"]
    files = "a .npz or .csv file, a .ts folder"
    raise unknown("dataset", name, datasets, f"Known: {', '.join(datasets)}, {files}.")


def sides_of_data(name: str) -> tuple[int, ...]:
    """Sides of the grid that the tokens of a dataset are points of; () where they follow in time.

    >>> sides_of_data("digits"), sides_of_data("smd")
    ((8, 8), ())
    """
    if name == "digits":
        return digits.SIDES
    return sides_of_task(name) if name.partition(":")[0] in SYNTHETIC else ()


def find_resamples(
    name: str, data: str | None, split_by: Split, resamples: int, missing: Missing | None = None
) -> Task:
    """A set with its publisher's test part, and with others drawn at random."""
    check_count("--resamples", resamples, 1, MOST_RESAMPLES)
    if split_by == "blocks" and Path(name).suffix.lower() == ".npz" and has_parts(Path(name)):
        return from_archive(Path(name), None, None, split_by, resamples, missing)
    if split_by != "blocks" or not (name.startswith("uea:") or Path(name).is_dir()):
        raise PefourierError(
            f"--resamples needs a published test part, which {shown(name)}, split {split_by}, has "
            "not got: name uea:NAME, a .ts folder or a .npz of X_train, y_train, X_test and y_test"
        )
    return from_ts(name, data, split_by, resamples, missing)


def has_parts(path: Path) -> bool:
    """Whether a user's .npz holds examples to train on and others to test on."""
    with open_arrays(str(path), ".npz", regular=True) as file:
        return set(PARTS) <= file.arrays.keys()


def from_archive(
    path: Path,
    window: int | None,
    stride: int | None,
    split_by: Split,
    resamples: int = 1,
    missing: Missing | None = None,
) -> Task:
    """Examples X, y or a labelled series from a user's .npz."""
    with open_arrays(str(path), ".npz", regular=True) as file:
        names = file.arrays.keys()
        if set(PARTS) <= names:
            check_examples(str(path), window, stride)
            return without_rest(own_parts(path, file, split_by, resamples, missing), file, PARTS)
        if {"X", "y"} <= names:
            check_examples(str(path), window, stride)
            task = own_examples(path, file, split_by, missing)
            task = replace(task, grouped_by="an array called groups")
            return without_rest(task, file, EXAMPLES)
        if "label" not in names or not {"rows", "test"} & names:
            raise PefourierError(
                f"{path} holds {names_and_shapes(file.arrays)}; expected X and y, or rows and "
                "label (and train, for the scale), or X_train, y_train, X_test and y_test"
            )
        if "groups" in names:
            raise PefourierError(f"{path} holds groups beside rows; groups go with examples X, y")
        series, filled, gone = own_series(str(path), file, missing)
        facts = {"own_scale": "train" not in names, "units": (str(path),)}
        task = split.split_series(
            str(path), [series], window, stride, split_by, USER_BLOCKS, **facts
        )
        task = split.count_missing(task, filled, gone)
        return without_rest(task, file, RECORDING)


def without_rest(task: Task, file: ArrayFile, used: Sequence[str]) -> Task:
    """A task that says which other arrays there are in its file."""
    unused = [stored.label(name) for name, stored in file.arrays.items() if name not in used]
    return replace(task, unused=tuple(unused))


def own_examples(path: Path, file: ArrayFile, split_by: Split, missing: Missing | None) -> Task:
    """A user's examples X (n, length, channels) with classes y and maybe groups."""
    names = file.arrays.keys()
    similar = get_close_matches("groups", [n for n in islice(names, 1000) if len(n) < 20], 1, 0.7)
    if "groups" not in names and similar:
        raise PefourierError(f"{path} holds {similar[0]!r}; name it groups, or leave it out")
    x, y = recordings.load_part(file, "X"), recordings.load_part(file, "y", text=True)
    groups = recordings.load_part(file, "groups", text=True) if "groups" in names else None
    lengths = recordings.load_part(file, "lengths") if "lengths" in names else None
    facts = {"groups": groups, "lengths": lengths, "missing": missing}
    return from_examples(str(path), x, y, (), split_by, **facts)


def own_parts(
    path: Path, file: ArrayFile, split_by: Split, resamples: int, missing: Missing | None
) -> Task:
    """A user's X_train, y_train, X_test and y_test: tested on that part."""
    x, y = (
        [recordings.load_part(file, f"{n}_{part}", text=n == "y") for part in SIDES] for n in "Xy"
    )
    for data, labels, side in zip(x, y, SIDES, strict=True):
        if data.ndim != 3 or data.shape[1:] != x[0].shape[1:] or labels.shape != data.shape[:1]:
            raise PefourierError(
                f"{path}: expected X_{side} of shape (n, length, channels), as in X_train, and "
                f"y_{side} of shape (n,); got {data.shape} and {labels.shape}"
            )
    if y[0].dtype.kind != y[1].dtype.kind and "U" in (y[0].dtype.kind, y[1].dtype.kind):
        raise PefourierError(f"{path}: y_train and y_test must both hold numbers, or both names")
    tested = len(y[1]) if split_by == "blocks" else None
    most_folds = max(split.FOLDS, resamples)
    return from_examples(
        str(path),
        np.concatenate(x),
        np.concatenate(y),
        (),
        split_by,
        tested,
        most_folds=most_folds,
        resamples=resamples,
        missing=missing,
    )


def own_series(
    name: str, file: ArrayFile, missing: Missing | None
) -> tuple[split.Series, int, int]:
    """A user's recording with a label for each row, scaled by its part `train` where it has one.

    With it come how many missing numbers were filled, and how many rows dropped.
    """
    names, short = file.arrays.keys(), Path(name).stem
    rows = recordings.load_part(file, "rows" if "rows" in names else "test")
    label = recordings.load_part(file, "label", text=True)
    label = recordings.truth_values(short, rows, label)
    rows, complete, filled = recordings.fill_missing(
        rows, missing, lambda row, column: f"{name}: row {row}, channel {column}"
    )
    label, gone = label[complete], int((~complete).sum())
    if "train" in names:
        recording = recordings.load_part(file, "train"), rows, label
        series = recordings.scale_recording(short, recording, 1e-6, short, short)
    else:
        recordings.check_rows(short, rows)
        series = split.Series(short, rows.astype(np.float32), label, short, short)
    return series, filled, gone

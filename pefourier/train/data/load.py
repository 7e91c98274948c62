"""Load the data of a name or a path as a `Task`.

Names are built-in tasks, published datasets under --data, and ``uea:NAME`` (UCR and UEA sets
through the package aeon). Paths are a folder or file of .ts; .csv or .tsv in long form; or .npz:
X (n, length, channels) with y (n,) and optional `groups`, `lengths` (n,) and `times` (n, length),
X_train, y_train, X_test and y_test, or a labelled series of `rows` (n, channels) with `label` (n,)
and optional `train` and `times` (n,).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote

import numpy as np

from pefourier.encodings.checks import check_count
from pefourier.encodings.sources.tables import names_and_shapes, open_arrays
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data import recordings, split
from pefourier.train.data.examples import (
    DEFAULTS,
    check_times,
    fill_missing,
    from_examples,
    from_ts,
    with_times,
)
from pefourier.train.data.split import Task
from pefourier.train.data.synthetic import draw_examples, sides_of_task
from pefourier.train.data.tables import from_csv
from pefourier.train.options import PUBLISHED, SYNTHETIC, Options
from pefourier.types import Array, Strings

MOST_RESAMPLES = 1000
SIDES = ("train", "test")
PARTS = tuple(f"{name}_{side}" for name in "Xy" for side in SIDES)
TEXTS = ("y", "groups", "y_train", "y_test", "label")  # may hold names
BALANCED = 0.4  # share of the rarer of two classes from which on neither is positive


def load_task(name: str, options: Options = DEFAULTS) -> Task:
    """Load the task of a name or path, cut and split by the options."""
    if options.columns is not None and READERS.get(Path(name).suffix.lower()) is not from_csv:
        raise PefourierError(f"--columns is for .csv and .tsv files, got {shown(name)}")
    if options.resamples is not None:
        check_count("--resamples", options.resamples, 1, MOST_RESAMPLES)
    task, folds = find_task(name, options), options.folds
    if options.resamples is not None and not task.has_test_part:
        raise PefourierError(
            f"--resamples needs a published test part and --split blocks; {shown(name)} lacks "
            "them: use uea:NAME, a .ts folder or a .npz of X_train, y_train, X_test and y_test"
        )
    if folds is not None and not 1 <= folds <= len(task.folds):
        raise PefourierError(f"--folds must be from 1 to {len(task.folds)} for {name}, got {folds}")
    if options.positions == "time" and task.times is None:
        raise PefourierError(
            f"--positions time: {shown(name)} has no times; .csv, .npz with times and irregular do"
        )
    times = task.times if options.positions == "time" else None
    return replace(task, folds=task.folds[:folds], times=times)


def name_positives(tasks: Sequence[Task], names: Strings) -> list[Task]:
    """Make the positive class of two-class tasks the second: a named class, or the rarer one."""
    classes = {label for task in tasks if len(task.classes) == 2 for label in task.classes}
    if names and not classes:
        raise PefourierError(
            f"--positive {shown(names[0])} needs a dataset of two classes; {tasks[0].name} has "
            f"{len(tasks[0].classes)} and its scores are means over all classes; omit it"
        )
    for name in names:
        if name not in classes:
            raise unknown("class of --positive", name, classes)
    return [name_positive(task, names) for task in tasks]


def name_positive(task: Task, names: Strings) -> Task:
    """Make the positive class the second; other class counts and balanced classes have none."""
    if len(task.classes) != 2:
        return task
    chosen = [name for name in task.classes if name in names]
    if len(chosen) > 1:
        raise PefourierError(f"{task.name}: --positive names both of its classes; name only one")
    counts = np.bincount(task.labels, minlength=2)
    balanced = not chosen and task.own_names and counts.min() >= BALANCED * counts.sum()
    flip = chosen == [task.classes[0]] if chosen else task.own_names and counts[0] < counts[1]
    if flip and not balanced:
        task = replace(task, classes=task.classes[::-1], labels=1 - task.labels)
    return replace(task, balanced=balanced)


def find_task(name: str, options: Options) -> Task:
    """Find a task with all of its folds."""
    check_dataset(name)
    suffix = Path(name).suffix.lower()
    if name in PUBLISHED:
        series = recordings.read_recordings(name, options.data)
        blocks = split.Dealing(recordings.SOURCES[name].blocks)
        return split.split_series(name, series, *options.cut, blocks)
    if suffix in READERS:
        return READERS[suffix](Path(name), options)
    if name.partition(":")[0] in SYNTHETIC:
        x, y, classes, *times = draw_examples(name)
        task = from_examples(name, x, y, options, classes=classes)
        if times:
            task = with_times(task, times[0], np.diff(times[0]))
        # fresh draws replace further folds
        return replace(task, folds=task.folds[:1], grid=sides_of_task(name))
    return from_ts(name, options)


def check_dataset(name: str) -> None:
    """Reject a name that is neither a dataset nor a file of examples."""
    is_file = Path(name).suffix.lower() in (*READERS, ".ts") or (name and Path(name).is_dir())
    if name.partition(":")[0] in (*SYNTHETIC, "uea") or name in PUBLISHED or is_file:
        return
    if kind := FOREIGN.get(Path(name).suffix.lower()):
        script = f"import pandas; pandas.read_{kind}({name!r}).to_csv('data.csv', index=False)"
        raise PefourierError(f"cannot read {shown(name)}; convert it: python -c {quote(script)}")
    datasets = [*SYNTHETIC, *PUBLISHED, "uea:NAME"]
    files = f"a {' or '.join(READERS)} file, a .ts folder"
    raise unknown("dataset", name, datasets, f"Known: {', '.join(datasets)}, {files}.")


def from_archive(path: Path, options: Options) -> Task:
    """Read examples X, y or a labelled series from a user's .npz."""
    with open_arrays(str(path), ".npz", regular=True) as file:
        stored = file.arrays
        kinds = [kind for kind in KINDS if set(kind[1]) <= stored.keys()]
        if not kinds:
            raise PefourierError(
                f"{path} holds {names_and_shapes(stored)}; expected X and y, or rows and label "
                "(and train, for the scale), or X_train, y_train, X_test and y_test"
            )
        make, required, optional = kinds[0]
        used = [name for name in stored if name in (*required, *optional)]
        arrays = {name: recordings.load_part(file, name, text=name in TEXTS) for name in used}
    unused = tuple(stored[name].label(name) for name in stored if name not in used)
    return replace(make(path, arrays, options), remarks={"unused": unused})


def own_examples(path: Path, arrays: dict[str, Array], options: Options) -> Task:
    """Read a user's examples X (n, length, channels), y, and optional groups and lengths."""
    groups, lengths = arrays.get("groups"), arrays.get("lengths")
    x, y = arrays["X"], arrays["y"]
    task = from_examples(str(path), x, y, options, groups=groups, lengths=lengths)
    if "times" in arrays:
        if options.missing == "drop":
            raise PefourierError(f"{path}: --missing drop excludes times; use previous or mean")
        times = check_times(str(path), arrays["times"], x.shape[:2], lengths)
        task = with_times(task, times, np.diff(times))
    return replace(task, grouped_by="an array called groups")


def own_parts(path: Path, arrays: dict[str, Array], options: Options) -> Task:
    """Read a user's X_train, y_train, X_test and y_test; the latter two are the test part."""
    x, y = ([arrays[f"{name}_{side}"] for side in SIDES] for name in "Xy")
    sizes = [labels.shape == data.shape[:1] for data, labels in zip(x, y, strict=True)]
    if not all(sizes) or x[0].shape[1:] != x[1].shape[1:]:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise PefourierError(
            f"{path}: expected X_train and X_test of shape (n, length, channels), equal except for "
            f"n, and y_train and y_test (n,), got {shapes}"
        )
    tested = len(y[1]) if options.split == "blocks" else None
    return from_examples(str(path), np.concatenate(x), np.concatenate(y), options, tested=tested)


def own_series(path: Path, arrays: dict[str, Array], options: Options) -> Task:
    """Read a user's recording with a label per row, scaled by its part `train` if it has one."""
    if "groups" in arrays:
        raise PefourierError(f"{path} holds groups with rows; use groups with examples X and y")
    name, rows = path.stem, arrays["rows" if "rows" in arrays else "test"]
    label = recordings.truth_values(name, rows, arrays["label"])
    place = partial("{}: row {}, channel {}".format, path)
    rows, complete, filled = fill_missing(rows, options.missing, place)
    if "train" in arrays:
        recording = arrays["train"], rows, label[complete]
        series = recordings.scale_recording(name, recording, 1e-6, name, name)
    else:
        series = recordings.unscaled_series(name, rows, label[complete])
    dealing, own_scale = split.Dealing(units=(str(path),)), "train" not in arrays
    cut = *options.cut, dealing
    task = split.split_series(str(path), [series], *cut, own_scale=own_scale)
    if "times" in arrays:
        times = check_times(str(path), arrays["times"][None], (1, len(complete)))[0, complete]
        task = with_times(task, times, np.diff(times))
    return split.count_missing(task, filled, int((~complete).sum()))


KINDS = (  # of archives: reader, required arrays, optional arrays
    (own_parts, PARTS, ()),
    (own_examples, ("X", "y"), ("groups", "lengths", "times")),
    (own_series, ("rows", "label"), ("train", "groups", "times")),
    (own_series, ("test", "label"), ("train", "groups", "times")),
)
READERS: dict[str, Callable[[Path, Options], Task]] = {  # of a user's files, by suffix
    ".npz": from_archive,
    ".csv": from_csv,
    ".tsv": from_csv,
}
FOREIGN = {".parquet": "parquet", ".xlsx": "excel", ".xls": "excel"}  # as pandas calls them

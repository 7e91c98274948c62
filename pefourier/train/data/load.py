"""Load the data of a name or a path as a `Task`.

Names are built-in tasks, published datasets under --data, and ``uea:NAME`` (UCR and UEA sets
through the package aeon). Paths are a folder or file of .ts, files of columns (see `tables`) or a
folder of them, or arrays in .npz, or .npy beside each other or in a folder: X (n, length, channels)
with y (n,) and optional `groups`, `lengths` (n,) and `times` (n, length), X_train, y_train, X_test
and y_test, or a labelled series of `rows` (n, channels) with `label` (n,) and optional `train` and
`times` (n,). The channels of X may be before the rows, or lack an axis if there is one.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pefourier.encodings.loader import not_here
from pefourier.encodings.sources.tables import names_and_shapes, open_arrays
from pefourier.errors import PefourierError, check_count, command_line, shown, unknown
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
from pefourier.train.data.tables import SUFFIXES, from_tables
from pefourier.train.options import PUBLISHED, SYNTHETIC, Options, flag_of
from pefourier.types import Array, Strings
from pefourier.writing.files import missing
from pefourier.writing.text import join

MOST_RESAMPLES = 1000
SIDES = ("train", "test")
PARTS = tuple(f"{name}_{side}" for name in "Xy" for side in SIDES)
TEXTS = ("y", "groups", "y_train", "y_test", "label")  # may hold names
BALANCED = 0.4  # share of the rarer of two classes from which on neither is positive


def load_task(name: str, options: Options = DEFAULTS) -> Task:
    """Load the task of a name or path, cut and split by the options."""
    for flag, readers in FLAGS_OF_READERS.items():
        if getattr(options, flag) is not None and reader_of(name) not in readers:
            kinds = [kind for kind, reader in READERS.items() if reader in readers]
            raise PefourierError(f"{flag_of(flag)} is for {join(kinds)} files, got {shown(name)}")
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
    if name in PUBLISHED:
        series = recordings.read_recordings(name, options.data)
        blocks = split.Dealing(recordings.SOURCES[name].blocks)
        return split.split_series(name, series, *options.cut, blocks)
    if name.partition(":")[0] in SYNTHETIC:
        x, y, classes, *times = draw_examples(name)
        task = from_examples(name, x, y, options, classes=classes)
        if times:
            task = with_times(task, times[0], np.diff(times[0]))
        # fresh draws replace further folds
        return replace(task, folds=task.folds[:1], grid=sides_of_task(name))
    reader = reader_of(name)
    task = from_ts(name, options) if reader is None else reader(Path(name), options)
    how = task.remarks.get("read", ["one array or line per series"])[0]
    sizes = f"{len(task.starts)} windows of {task.length} rows and {task.rows.shape[1]} channels"
    read = {"read": [f"{how}; {sizes}, {len(task.classes)} classes"]}
    if task.own_names:  # examples
        copies = len(task.starts) - len({x.tobytes() for x in np.split(task.rows, task.starts[1:])})
        read["copies"] = [str(copies)] * bool(copies)
    return replace(task, remarks=read | {**task.remarks} | read)


def reader_of(name: str) -> Callable[[Path, Options], Task] | None:
    """Return the reader of a user's file or folder; None for datasets by name and .ts."""
    path = Path(name)
    if path.suffix.lower() in READERS or not path.is_dir():
        return READERS.get(path.suffix.lower())
    if any(path.glob("*.ts")):
        return None
    return from_arrays if any(path.glob("[Xx]*.npy")) else from_tables


def check_dataset(name: str) -> None:
    """Reject a name that is neither a dataset nor a file of examples."""
    path, suffix = Path(name), Path(name).suffix.lower()
    if "://" in name:
        raise not_here(name)
    is_file = suffix in (*READERS, ".ts") or (name and path.is_dir())
    if name.partition(":")[0] in (*SYNTHETIC, "uea") or name in PUBLISHED or is_file:
        return
    if kind := FOREIGN.get(suffix):
        script = f"import pandas; pandas.read_{kind}({name!r}).to_csv('data.csv', index=False)"
        convert = command_line("python", "-c", script)
        raise PefourierError(f"cannot read {shown(name)}; convert it: `{convert}`")
    if (suffix[1:].isalnum() or "/" in name) and not path.exists():
        raise missing(name)
    datasets = [*SYNTHETIC, *PUBLISHED, "uea:NAME"]
    files = f"a {' or '.join(READERS)} file, or a folder of them"
    raise unknown("dataset", name, datasets, f"Known: {', '.join(datasets)}, {files}.")


def usual_name(name: str) -> str:
    """Return the usual name of an array.

    >>> usual_name("x_train"), usual_name("Labels")
    ('X_train', 'y')
    """
    lower = name.lower()
    return SYNONYMS.get(lower, f"X{lower[1:]}" if lower.startswith("x") else lower)


def from_arrays(path: Path, options: Options) -> Task:
    """Read examples X, y or a labelled series from a user's .npz, or from .npy files."""
    with ExitStack() as stack:
        files = [path]
        if path.suffix.lower() != ".npz":
            files = sorted((path if path.is_dir() else path.parent).glob("*.npy"))
            files += [] if options.labels is None else [Path(options.labels)]
        places = {}
        for place in files:
            file = stack.enter_context(open_arrays(str(place), regular=True))
            for key in file.arrays:
                name = key or ("y" if str(place) == options.labels else place.stem)
                is_x = place == path and not key and usual_name(name) not in ("X", "X_train")
                places["X" if is_x else name] = file, key
        named = [
            {rename(name): own for name, own in places.items()} for rename in (str, usual_name)
        ]
        kinds = KINDS if options.predict is None else FOR_PREDICTION
        found = [(kind, own) for own in named for kind in kinds if {*kind[1]} <= own.keys()]
        if not found:
            stored = {name: file.arrays[key] for name, (file, key) in places.items()}
            raise PefourierError(
                f"{path} holds {names_and_shapes(stored)}; expected X and y (or --labels y.npy), "
                "rows and label (and train, for the scale), or X_train, y_train, X_test and y_test"
            )
        (make, required, optional), own = found[0]
        used = {name: own[name] for name in own if name in (*required, *optional)}
        arrays = {name: recordings.load_part(*at, text=name in TEXTS) for name, at in used.items()}
        unused = [
            file.arrays[key].label(name) for name, (file, key) in own.items() if name not in used
        ]
    task = make(path, arrays, options)
    return replace(task, remarks={**task.remarks, "unused": unused})


def with_rows_first(
    arrays: dict[str, Array], names: Strings, options: Options
) -> tuple[list[Array], dict[str, list[str]]]:
    """Return arrays X as (n, rows, channels), and a remark if their axes are guessed.

    The rows are the longer axis, unless --channels-first, or times of the rows, decide.
    """
    x = [arrays[name] for name in names]
    x = [own[..., None] if own.ndim == 2 else own for own in x]
    if not all(own.ndim == 3 for own in x):
        return x, {}
    _, rows, channels = x[0].shape
    first, guessed = options.channels_first, False
    if first is None:
        known = arrays["times"].shape[-1:] if "times" in arrays else ()
        first = guessed = rows < channels and known != (rows,)
    if not first:
        return x, {}
    doubt = (
        f"X {x[0].shape} is read as X.transpose(0, 2, 1), {channels} rows of {rows} channels, "
        "because it would have fewer rows than channels; use --no-channels-first if it has"
    )
    return [own.swapaxes(1, 2) for own in x], {"doubts": [doubt] * guessed}


def own_examples(path: Path, arrays: dict[str, Array], options: Options) -> Task:
    """Read a user's examples X, y, and optional groups, lengths and times; or parts of them.

    Of X_train, y_train, X_test and y_test the latter two are the test part.
    """
    ends = ("",) if "X" in arrays else ("_train", "_test")
    x, remarks = with_rows_first(arrays, [f"X{end}" for end in ends], options)
    y, groups, lengths = (
        [
            arrays.get(f"y{end}", np.zeros(arrays[f"X{end}"].shape[:1])) for end in ends
        ],  # for --predict
        *map(arrays.get, ("groups", "lengths")),
    )
    sizes = [labels.shape == data.shape[:1] for data, labels in zip(x, y, strict=True)]
    if len(x) > 1 and (not all(sizes) or x[0].shape[1:] != x[1].shape[1:]):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise PefourierError(
            f"{path}: expected X_train and X_test of shape (n, length, channels), equal except for "
            f"n, and y_train and y_test (n,), got {shapes}"
        )
    data, labels = (x[0], y[0]) if len(x) == 1 else (np.concatenate(x), np.concatenate(y))
    tested = len(y[1]) if len(y) > 1 and options.split == "blocks" else None
    parts = partial(from_examples, tested=tested, groups=groups, lengths=lengths)
    task = parts(str(path), data, labels, options)
    if "times" in arrays:
        if options.missing == "drop":
            raise PefourierError(f"{path}: --missing drop excludes times; use previous or mean")
        times = check_times(str(path), arrays["times"], data.shape[:2], lengths)
        task = with_times(task, times, np.diff(times))
    return replace(task, grouped_by="an array called groups" * (len(x) == 1), remarks=remarks)


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
    (own_examples, PARTS, ()),
    (own_examples, ("X", "y"), ("groups", "lengths", "times")),
    (own_series, ("rows", "label"), ("train", "groups", "times")),
    (own_series, ("test", "label"), ("train", "groups", "times")),
)
FOR_PREDICTION = ((own_examples, ("X",), ("y", "groups", "lengths", "times")),)
READERS: dict[str, Callable[[Path, Options], Task]] = {  # of a user's files, by suffix
    ".npz": from_arrays,
    ".npy": from_arrays,
    **dict.fromkeys(SUFFIXES, from_tables),
}
FLAGS_OF_READERS = {  # options that only some readers use
    "columns": (from_tables,),
    "channels": (from_tables,),
    "labels": (from_tables, from_arrays),
    "channels_first": (from_arrays,),
}
SYNONYMS = {"data": "X", **dict.fromkeys(("label", "labels", "target", "targets"), "y")}
FOREIGN = {".xlsx": "excel", ".xls": "excel"}  # as pandas calls them

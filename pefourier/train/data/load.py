"""Load the data of a name or a path as a `Task`.

Names are built-in tasks, published datasets under --data, and ``uea:NAME`` (UCR and UEA sets
through the package aeon). Paths are a folder or file of .ts, files of columns (see `tables`) or a
folder of them, or arrays in .npz, or .npy beside each other or in a folder: X (n, length, channels)
with y (n,) and optional `groups`, `lengths` (n,) and `times` (n, length), or X_train, y_train,
X_test and y_test. The channels of X may be before the rows, or lack an axis if there is one.

Recordings
----------
The unlabelled part `train` gives the mean and standard deviation of each channel; the standard
deviation has a lower bound. Windows are cut from the labelled part, scaled and clipped at ±20.
SMD is the Server Machine Dataset (Su et al., 2019); MSL is the dataset of the Mars Science
Laboratory (Hundman et al., 2018). Both have two layouts: archives NAME.npz with `train`, `test`
and `label`, or the publisher's files: train/, test/ and test_label/ of text, or train/ and test/
of .npy with labeled_anomalies.csv. An array may use an eighth of the machine's memory.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pefourier.encodings.loader import not_here
from pefourier.encodings.sources.tables import (
    ArrayFile,
    check_regular,
    names_and_shapes,
    open_arrays,
    parse_or_refuse,
)
from pefourier.errors import PefourierError, check_count, command_line, shown, unknown
from pefourier.train.data import split
from pefourier.train.data.split import (
    DEFAULTS,
    Series,
    Task,
    check_rows,
    from_examples,
    machine_memory,
)
from pefourier.train.data.synthetic import draw_examples, sides_of_task
from pefourier.train.data.tables import NAMES, SUFFIXES, from_tables, kind_of, read_columns
from pefourier.train.options import PUBLISHED, SYNTHETIC, Options, flag_of
from pefourier.types import Array, Fields, Strings, Texts, frozen
from pefourier.writing.files import label as name_of_file
from pefourier.writing.files import missing
from pefourier.writing.text import join

MOST_RESAMPLES = 1000
PARTS = ("X_train", "X_test", "y_train", "y_test")
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
    first, second = (name in names for name in task.classes)
    if first and second:
        raise PefourierError(f"{task.name}: --positive names both of its classes; name only one")
    counts, free = np.bincount(task.labels, minlength=2), task.own_names and not (first or second)
    balanced = free and counts.min() >= BALANCED * counts.sum()
    if first or (free and not balanced and counts[0] < counts[1]):
        task = replace(task, classes=task.classes[::-1], labels=1 - task.labels)
    return replace(task, balanced=balanced)


def find_task(name: str, options: Options) -> Task:
    """Find a task with all of its folds."""
    check_dataset(name)
    if name in PUBLISHED:
        series = read_recordings(name, options.data)
        return split.split_series(name, series, *options.cut, blocks=SOURCES[name].blocks)
    reader = reader_of(name)
    if reader is None:
        x, y, classes, *times = draw_examples(name)
        facts: Fields = {"times": times[0] if times else None, "grid": sides_of_task(name)}
        task = from_examples(name, x, y, options, classes=classes, **facts)
        return replace(task, folds=task.folds[:1])  # fresh draws replace further folds
    task = reader(Path(name), options)
    how = task.remarks.get("read", ["one array or line per series"])[0]
    sizes = f"{len(task.starts)} windows of {task.length} rows and {task.rows.shape[1]} channels"
    read = {"read": [f"{how}; {sizes}, {len(task.classes)} classes"]}
    if task.own_names:  # examples
        copies = len(task.starts) - len({x.tobytes() for x in np.split(task.rows, task.starts[1:])})
        if copies:
            read["copies"] = [str(copies)]
    return replace(task, remarks=read | {**task.remarks} | read)


def reader_of(name: str) -> Callable[[Path, Options], Task] | None:
    """Return the reader of a user's file or folder, or of aeon's sets; None for built-in tasks."""
    path = Path(name)
    if name.startswith("uea:") or (path.is_dir() and any(path.glob("*.ts"))):
        return from_ts
    if kind_of(path) in READERS or not path.is_dir():
        return READERS.get(kind_of(path))
    return from_arrays if any(path.glob("[Xx]*.npy")) else from_tables


def check_dataset(name: str) -> None:
    """Reject a name that is neither a dataset nor a file of examples."""
    path, suffix = Path(name), kind_of(Path(name))
    if "://" in name:
        raise not_here(name)
    is_file = suffix in READERS or (name and path.is_dir())
    if name.partition(":")[0] in (*SYNTHETIC, "uea") or name in PUBLISHED or is_file:
        return
    if suffix in (".xls", ".xlsx"):
        script = f"import pandas; pandas.read_excel({name!r}).to_csv('data.csv', index=False)"
        convert = command_line("python", "-c", script)
        raise PefourierError(f"cannot read {shown(name)}; convert it: `{convert}`")
    if (suffix[1:].isalnum() or "/" in name) and not path.exists():
        raise missing(name)
    datasets = [*SYNTHETIC, *PUBLISHED, "uea:NAME"]
    files = f"a {' or '.join(READERS)} file, or a folder of them"
    raise unknown("dataset", name, datasets, f"Known: {', '.join(datasets)}, {files}.")


# Sets of aeon


def from_ts(path: Path, options: Options) -> Task:
    """Read a UCR or UEA set by name, a folder with NAME_TRAIN.ts and NAME_TEST.ts, or one file."""
    name = str(path)
    parts = read_ts(path, options.data)
    series = [example.T for x, _ in parts for example in x]
    channels = sorted({example.shape[1] for example in series})
    if len(channels) != 1 or not all(len(x) and x[0].size for x, _ in parts):
        raise PefourierError(
            f"{name} holds no values in one of its files, or series of {channels} channels; "
            "download it again"
        )
    x, lengths = split.padded_series(series)
    y = np.concatenate([y for _, y in parts])
    tested = len(parts[1][1]) if len(parts) == 2 else None
    return from_examples(name, x, y, options, tested=tested, lengths=lengths)


def read_ts(path: Path, data: str | None) -> list[tuple[Array, Array]]:
    """Read training and test series (n, channels, length) with their classes, through aeon."""
    name, sides, files = str(path), ("TRAIN", "TEST"), [path]
    if path.is_dir():
        files = [file for side in sides for file in sorted(path.glob(f"*_{side}.ts"))]
        if [file.stem.rpartition("_")[2] for file in files] != [*sides]:
            names = ", ".join(file.name for file in files) or "neither"
            raise PefourierError(
                f"{shown(name)} must hold one *_TRAIN.ts and one *_TEST.ts, or be a .ts file; "
                f"found {names}"
            )
    set_name = name.removeprefix("uea:")
    for file in files if set_name == name else ():
        check_regular(str(file))
    try:
        from aeon.datasets import load_classification, load_from_ts_file

        if set_name == name:
            return [load_from_ts_file(str(file))[:2] for file in files]
        how = {"extract_path": data, "load_equal_length": False}  # not truncated
        return [load_classification(set_name, split=side.lower(), **how)[:2] for side in sides]
    except ModuleNotFoundError as error:
        way_out = "install it with pip install 'pefourier[data]'"
        raise PefourierError(f"{shown(name)} needs the package aeon; {way_out}") from error
    except (OSError, ValueError, KeyError, IndexError) as error:
        text = " ".join(str(error).split())
        raise PefourierError(f"aeon cannot read {shown(name)}: {shown(text)}") from error


# Arrays


def usual_name(name: str) -> str:
    """Return the usual name of an array.

    >>> usual_name("x_train"), usual_name("Labels")
    ('X_train', 'y')
    """
    lower = name.lower()
    usual: str = NAMES["arrays"].get(lower, f"X{lower[1:]}" if lower[:1] == "x" else lower)
    return usual


def from_arrays(path: Path, options: Options) -> Task:
    """Read a user's examples from .npz, or from .npy files.

    These are X, y, and optional groups, lengths and times; or X_train, y_train, X_test and y_test,
    of which the latter two are the test part. --predict needs X alone.
    """
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
        own = {usual_name(name): at for name, at in places.items()} | places
        is_split = options.predict is None and own.keys() >= {*PARTS}
        names = PARTS if is_split else ("X", "y", "groups", "lengths", "times")
        stored = {name: file.arrays[key] for name, (file, key) in places.items()}
        if not own.keys() >= ({"X", "y"} if options.predict is None else {"X"}) and not is_split:
            raise PefourierError(
                f"{path} holds {names_and_shapes(stored)}; expected X and y (or --labels y.npy), "
                "or X_train, y_train, X_test and y_test; write a labelled recording as .csv"
            )
        used = {name: own[name] for name in names if name in own}
        arrays = {name: load_part(*at, text=name[0] in "yg") for name, at in used.items()}
        rest = [name for name, at in places.items() if at not in used.values()]
        unused = [stored[name].label(name) for name in rest]
    facts: Fields = {key: arrays.get(key) for key in names[2:]}
    if is_split:
        x, y = ([arrays[f"{key}{end}"] for end in ("_train", "_test")] for key in "Xy")
        fits = [own.shape == data.shape[:1] for data, own in zip(x, y, strict=True)]
        if not all(fits) or x[0].shape[1:] != x[1].shape[1:]:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise PefourierError(
                f"{path}: expected X_train and X_test of shape (n, length, channels), equal except "
                f"for n, and y_train and y_test (n,), got {shapes}"
            )
        facts = {"tested": y[1].size}
        arrays = {"X": np.concatenate(x), "y": np.concatenate(y)}
    data, remarks = with_rows_first(arrays["X"], arrays.get("times"), options)
    remarks["unused"] = unused
    facts |= {"remarks": remarks, "grouped_by": "" if is_split else "an array called groups"}
    labels = np.zeros(data.shape[:1]) if options.predict is not None else arrays["y"]
    return from_examples(str(path), data, labels, options, **facts)


def with_rows_first(
    x: Array, times: Array | None, options: Options
) -> tuple[Array, dict[str, list[str]]]:
    """Return X as (n, rows, channels), and a remark if its axes are guessed.

    The rows are the longer axis, unless --channels-first, or times of the rows, decide.
    """
    x = x[..., None] if x.ndim == 2 else x
    if x.ndim != 3:
        return x, {}
    _, rows, channels = x.shape
    first, guessed = options.channels_first, False
    if first is None:
        first = guessed = rows < channels and (times is None or times.shape[-1:] != (rows,))
    doubt = (
        f"X {x.shape} is read as X.transpose(0, 2, 1), {channels} rows of {rows} channels, "
        "because it would have fewer rows than channels; use --no-channels-first if it has"
    )
    return x.swapaxes(1, 2) if first else x, {"doubts": [doubt] if guessed else []}


READERS: dict[str, Callable[[Path, Options], Task]] = {  # of a user's files, by suffix
    ".npz": from_arrays,
    ".npy": from_arrays,
    **dict.fromkeys(SUFFIXES, from_tables),
    ".ts": from_ts,
}
FLAGS_OF_READERS = {  # options that only some readers use
    "columns": (from_tables,),
    "channels": (from_tables,),
    "labels": (from_tables, from_arrays),
    "channels_first": (from_arrays,),
}


LIMIT = 20.0  # scaled values are clipped here
AGAIN = "download it again"
open_part = partial(open_arrays, regular=True, advice=AGAIN)  # of a published dataset
PublishedRows = tuple[np.ndarray, np.ndarray, np.ndarray]  # train rows, test rows, label
# Recorded over the same period with the same command columns. P-10 repeats the rows of P-14.
GROUPS = (("T-4", "T-5"), ("T-12", "T-13"), ("M-1", "M-2"), ("M-3", "M-4", "M-5"), ("F-4", "F-5"))
ARCHIVED = ("train", "test", "label")  # of an archive
LIST, COLUMNS = "labeled_anomalies.csv", ("chan_id", "spacecraft", "anomaly_sequences")


def load_part(
    file: ArrayFile, name: str = "", dtype: str | None = None, *, text: bool = False
) -> Array:
    """Load an array of a data file into memory; labels and groups may be text.

    The limit is that of float32, the type in which rows are trained on, or of a larger type.
    """
    stored = file.arrays[name]
    if stored.kind == "object":
        raise PefourierError(
            f"{file.label} holds Python objects; save numbers or np.array(names, dtype=str)"
        )
    arrays = {name: replace(stored, width=max(stored.width, 4))}
    return replace(file, arrays=arrays).load(name, dtype, text=text, limit=machine_memory() // 8)


def scale_recording(
    name: str, recording: PublishedRows, floor: float, recorded_with: str, dealt_with: str
) -> Series:
    """Scale a recording by its unlabelled part; its labels are 0 and 1, one for each row."""
    train, test, label = recording
    check_rows(f"{name}, test", test)
    check_rows(f"{name}, train", train)
    if label.shape != test.shape[:1] or train.shape[1] != test.shape[1]:
        raise PefourierError(
            f"{name}: expected train and test rows of equal channels and a label for each test "
            f"row, got {train.shape}, {test.shape} and {label.shape}"
        )
    if len(wrong := label[~np.isin(label, (0, 1))]):
        raise PefourierError(f"{name}: row labels must be 0 or 1, got {shown(wrong[0].item())}")
    scale = np.maximum(train.std(axis=0, dtype=float), floor)
    mean = train.mean(axis=0, dtype=float)
    scaled = np.clip((test - mean) / scale, -LIMIT, LIMIT).astype(np.float32)
    return Series(name, scaled, label.astype(bool), recorded_with, dealt_with)


@frozen
class PublishedSet:
    """A published dataset: its folders, its blocks, and recordings that must stay together."""

    floor: float  # lower bound of a channel's standard deviation
    blocks: int
    folders: Texts  # of --data DIR that may hold it
    names: str  # of its recordings, a regular expression
    read_published: Callable[[Path], Iterator[tuple[str, PublishedRows]]]
    together: Callable[[str], tuple[str, str]]  # recorded_with, dealt_with


def read_recordings(name: str, data: str | None) -> list[Series]:
    """Read all recordings of a published dataset under a folder."""
    if data is None:
        raise PefourierError(f"{name} is read from a folder; give --data DIR that holds {name}/")
    source = SOURCES[name]
    folder, archives = locate(name, Path(data))
    series = [
        scale_recording(title, recording, source.floor, *source.together(title))
        for title, recording in (
            read_archives(archives) if archives else source.read_published(folder)
        )
    ]
    if not series:
        raise PefourierError(f"{folder} holds no recording of {name}; {AGAIN}")
    widths = {s.rows.shape[1] for s in series}
    if len(widths) > 1:
        raise PefourierError(f"{folder}: recordings have different columns: {sorted(widths)}")
    return series


def locate(name: str, data: Path) -> tuple[Path, list[Path]]:
    """Find the folder of a dataset, and its archives if it has that layout."""
    source = SOURCES[name]
    for folder in (data / subfolder for subfolder in (*source.folders, ".")):
        found = [*sorted(folder.glob("*.npz")), *(folder / "test").glob("*")]
        if named := [path for path in found if re.fullmatch(source.names, path.stem)]:
            return folder, [path for path in named if path.parent == folder]
    folders = " or ".join(f"{subfolder}/" for subfolder in source.folders)
    raise PefourierError(
        f"{shown(str(data))} holds no {name}: expected {folders} with .npz archives of its "
        "recordings, or the publisher's train/ and test/"
    )


def read_archives(paths: Sequence[Path]) -> Iterator[tuple[str, PublishedRows]]:
    """Read recordings from archives."""
    for path in paths:
        with open_part(str(path), ".npz") as file:
            if not set(ARCHIVED) <= file.arrays.keys():
                raise PefourierError(
                    f"{file.label} holds {names_and_shapes(file.arrays)}; expected train, test "
                    f"and label; {AGAIN}"
                )
            train, test, label = (load_part(file, p, text=p == "label") for p in ARCHIVED)
            yield path.stem, (train, test, label)


def read_part(path: Path, suffix: str, dtype: str | None = None) -> Array:
    """Read the rows (n, columns) of a part of a recording."""
    with open_part(str(path), suffix) as file:
        rows = load_part(file, dtype=dtype)
    check_rows(f"{path.parent.name}/{path.name}", rows)
    return rows


def read_machines(folder: Path) -> Iterator[tuple[str, PublishedRows]]:
    """Read machines of SMD from text with one row per line and commas between values."""
    folders = [folder / part for part in ("train", "test", "test_label")]
    for name in sorted({path.name for subfolder in folders for path in subfolder.glob("*.txt")}):
        train, test, label = (read_part(part / name, ".csv", "float32") for part in folders)
        yield Path(name).stem, (train, test, label[:, 0])


def read_channels(folder: Path) -> Iterator[tuple[str, PublishedRows]]:
    """Read the MSL channels in the list of anomalies, beside train/ and test/ or above them."""
    path = folder / LIST if (folder / LIST).is_file() else folder.parent / LIST
    parse = partial(parse_or_refuse, file=name_of_file(str(path)), suffix=".csv", advice=AGAIN)
    found = read_columns(path)
    for name in {*COLUMNS} - {*found.names}:
        raise PefourierError(f"{path} has no column {name} in its first line; {AGAIN}")
    listed = zip(*(found.cells[found.names.index(name)] for name in COLUMNS), strict=True)
    events = {name: text for name, craft, text in listed if craft == "MSL" and name != "P-10"}
    for name in sorted(events):
        if not re.fullmatch(SOURCES["msl"].names, name):
            raise PefourierError(f"MSL has no channel {shown(name)}; {AGAIN}")
        train, test = (read_part(folder / p / f"{name}.npy", ".npy") for p in ("train", "test"))
        yield name, (train, test, parse(partial(label_events, name, events[name], len(test))))


def label_events(name: str, text: str, n: int) -> Array:
    """Labels of n rows from events [first, last] in JSON, both inclusive.

    >>> label_events("C-1", "[[0, 1], [3, 3]]", 4)
    array([1, 1, 0, 1], dtype=uint8)
    """
    marked = np.zeros(n, dtype=np.uint8)
    for event in json.loads(text):
        if len(event) != 2 or not 0 <= event[0] <= event[1] < n:
            raise ValueError(
                f"events of {name} are not first and last of its {n} rows: {shown(text)}"
            )
        marked[event[0] : event[1] + 1] = 1
    return marked


def period_of(name: str) -> tuple[str, str]:
    """Return the group of a channel: all channels recorded over the same period."""
    group = next((" ".join(group) for group in GROUPS if name in group), name)
    return group, group


SOURCES = {
    "msl": PublishedSet(
        floor=0.05,
        blocks=4,
        folders=("msl", "data"),
        names=r"(?!P-10$)[A-Z]-\d+",
        read_published=read_channels,
        together=period_of,
    ),
    # incidents coincide across machines, so blocks with the same number share a fold
    "smd": PublishedSet(
        floor=0.02,
        blocks=10,
        folders=("smd", "ServerMachineDataset"),
        names=r"machine-\d+-\d+",
        read_published=read_machines,
        together=lambda name: (name, "smd"),
    ),
}

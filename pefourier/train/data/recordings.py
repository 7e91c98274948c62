"""Labelled recordings: a user's rows, and published datasets in their layouts.

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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pefourier.encodings.encoding import BLOCK, row_blocks
from pefourier.encodings.sources.tables import (
    ArrayFile,
    names_and_shapes,
    open_arrays,
    parse_or_refuse,
)
from pefourier.errors import PefourierError, shown
from pefourier.train.data.split import Series, check_rows, machine_memory
from pefourier.train.data.tables import read_columns
from pefourier.types import Array, Texts
from pefourier.writing.files import label as name_of_file

LIMIT = 20.0  # scaled values are clipped here
AGAIN = "download it again"
open_part = partial(open_arrays, regular=True, advice=AGAIN)  # of a published dataset
Recording = tuple[np.ndarray | None, np.ndarray, np.ndarray]  # train rows, test rows, label
# Recorded over the same period with the same command columns. P-10 repeats the rows of P-14.
GROUPS = (("T-4", "T-5"), ("T-12", "T-13"), ("M-1", "M-2"), ("M-3", "M-4", "M-5"), ("F-4", "F-5"))
PARTS = ("train", "test", "label")  # of an archive
LIST, COLUMNS = "labeled_anomalies.csv", ("chan_id", "spacecraft", "anomaly_sequences")


def memory_limit() -> int:
    """Limit of bytes per array of data: an eighth of the machine's memory."""
    return machine_memory() // 8


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
    return replace(file, arrays=arrays).load(name, dtype, text=text, limit=memory_limit())


def scale_recording(
    name: str, recording: Recording, floor: float, recorded_with: str, dealt_with: str
) -> Series:
    """Scale a recording by its unlabelled part; without one, it is scaled later by its windows."""
    train, test, label = recording
    label = truth_values(name, test, label)
    check_rows(f"{name}, test", test)
    if train is None:
        return Series(name, test.astype(np.float32), label, recorded_with, dealt_with)
    check_rows(f"{name}, train", train)
    if train.shape[1] != test.shape[1]:
        raise PefourierError(f"{name}: train has {train.shape[1]} columns and test {test.shape[1]}")
    scale = np.maximum(train.std(axis=0, dtype=float), floor)
    mean, scaled = train.mean(axis=0, dtype=float), np.empty(test.shape, np.float32)
    for block in row_blocks(len(test), BLOCK, test.shape[1]):
        scaled[block] = np.clip((test[block] - mean) / scale, -LIMIT, LIMIT)
    return Series(name, scaled, label, recorded_with, dealt_with)


def truth_values(name: str, rows: Array, label: Array) -> Array:
    """Return labels as booleans, one for each row."""
    if label.ndim != 1 or rows.ndim != 2 or len(label) != len(rows):
        raise PefourierError(
            f"{name}: expected rows (n, channels), labels (n,), got {rows.shape} and {label.shape}"
        )
    wrong = label[~np.isin(label, (0, 1))]
    if len(wrong):
        raise PefourierError(f"{name}: row labels must be 0 or 1, got {shown(wrong[0].item())}")
    return label.astype(bool)


@dataclass(frozen=True)
class Source:
    """A published dataset: its folders, its blocks, and recordings that must stay together."""

    floor: float  # lower bound of a channel's standard deviation
    blocks: int
    folders: Texts  # of --data DIR that may hold it
    names: str  # of its recordings, a regular expression
    suffix: str  # of its publisher's files
    read_published: Callable[[Path], Iterator[tuple[str, Recording]]]
    together: Callable[[str], tuple[str, str]]  # recorded_with, dealt_with
    dropped: str = ""  # a recording


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
        if title != source.dropped
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
        files = sorted(folder.glob("*.npz"))
        archives = [file for file in files if re.fullmatch(source.names, file.stem)]
        if archives or any((folder / "test").glob(f"*{source.suffix}")):
            return folder, archives
    folders = " or ".join(f"{subfolder}/" for subfolder in source.folders)
    raise PefourierError(
        f"{shown(str(data))} holds no {name}: expected {folders} with .npz archives of its "
        f"recordings, or the publisher's train/ and test/ of {source.suffix} files"
    )


def read_archives(paths: Sequence[Path]) -> Iterator[tuple[str, Recording]]:
    """Read recordings from archives."""
    for path in paths:
        with open_part(str(path), ".npz") as file:
            if not set(PARTS) <= file.arrays.keys():
                raise PefourierError(
                    f"{file.label} holds {names_and_shapes(file.arrays)}; expected train, test "
                    f"and label; {AGAIN}"
                )
            train, test, label = (load_part(file, p, text=p == "label") for p in PARTS)
            yield path.stem, (train, test, label)


def read_machines(folder: Path) -> Iterator[tuple[str, Recording]]:
    """Read machines of SMD from text with one row per line and commas between values."""
    folders = [folder / part for part in ("train", "test", "test_label")]
    for name in sorted({path.name for subfolder in folders for path in subfolder.glob("*.txt")}):
        parts = []
        for file in (subfolder / name for subfolder in folders):
            with open_part(str(file), ".csv") as text:
                parts.append(load_part(text, dtype="float32"))
        yield Path(name).stem, (parts[0], parts[1], parts[2][:, 0])


def read_channels(folder: Path) -> Iterator[tuple[str, Recording]]:
    """Read the MSL channels in the list of anomalies."""
    path = next((p / LIST for p in (folder, folder.parent) if (p / LIST).is_file()), folder / LIST)
    if not path.is_file():
        raise PefourierError(f"{path} is missing; {AGAIN}")
    parse = partial(parse_or_refuse, file=name_of_file(str(path)), suffix=".csv", advice=AGAIN)
    found = read_columns(path)
    for name in set(COLUMNS) - set(found.names):
        raise PefourierError(f"{path} has no column {name} in its first line; {AGAIN}")
    columns = dict(zip(found.names, found.cells, strict=True))
    listed = zip(*map(columns.get, COLUMNS), strict=True)
    events = {channel: text for channel, spacecraft, text in listed if spacecraft == "MSL"}
    for name in sorted(events):
        train, test = (read_channel(folder / part, name) for part in ("train", "test"))
        label = parse(partial(label_events, name, events[name], len(test)))
        yield name, (train, test, label)


def read_channel(folder: Path, name: str) -> Array:
    """Read the rows (n, columns) of a channel in train/ or test/."""
    if not re.fullmatch(SOURCES["msl"].names, name):
        raise PefourierError(f"MSL has no channel {shown(name)}; {AGAIN}")
    with open_part(str(folder / f"{name}.npy"), ".npy") as file:
        rows = load_part(file)
    check_rows(f"{name}, {folder.name}", rows)
    return rows


def label_events(name: str, text: str, n: int) -> Array:
    """Labels of n rows from events [first, last] in JSON, both inclusive.

    >>> label_events("C-1", "[[0, 1], [3, 3]]", 4)
    array([1, 1, 0, 1], dtype=uint8)
    """
    events = json.loads(text)
    bounds = np.array(events) if events != [] else np.zeros((0, 2), int)
    pairs = bounds.dtype.kind == "i" and bounds.ndim == 2 and bounds.shape[1] == 2
    if not pairs or not (np.diff(bounds, prepend=0, append=n - 1) >= 0).all():
        raise ValueError(f"events of {name} are not first and last of its {n} rows: {shown(text)}")
    marked = np.zeros(n, dtype=np.uint8)
    for first, last in bounds:
        marked[first : last + 1] = 1
    return marked


def period_of(name: str) -> tuple[str, str]:
    """Return the group of a channel: all channels recorded over the same period."""
    group = next((" ".join(group) for group in GROUPS if name in group), name)
    return group, group


SOURCES = {
    "msl": Source(
        floor=0.05,
        blocks=4,
        folders=("msl", "data"),
        names=r"[A-Z]-\d+",
        suffix=".npy",
        read_published=read_channels,
        together=period_of,
        dropped="P-10",
    ),
    # incidents coincide across machines, so blocks with the same number share a fold
    "smd": Source(
        floor=0.02,
        blocks=10,
        folders=("smd", "ServerMachineDataset"),
        names=r"machine-\d+-\d+",
        suffix=".txt",
        read_published=read_machines,
        together=lambda name: (name, "smd"),
    ),
}

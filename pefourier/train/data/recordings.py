"""Labelled recordings: published datasets, and a user's own series.

Conventions
-----------
The part called train is unlabelled and gives mean and standard deviation of each channel, the
latter at least a floor; the labelled part, so scaled and cut at ±20, is what windows come from.
A published dataset has two layouts: archives NAME.npz with `train`, `test` and `label`, or that of
its publisher, which its file in published/ reads. An array may take an eighth of the machine's
memory, and so may all recordings of a dataset.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pefourier.encodings.encoding import BLOCK, row_blocks
from pefourier.encodings.sources import tables
from pefourier.encodings.sources.formats import MEMORY
from pefourier.errors import PefourierError, shown
from pefourier.files import status_of
from pefourier.train.data.split import Series
from pefourier.train.options import Missing

LIMIT = 20.0  # scaled values are cut here
LARGEST = 1e30  # of values read: float32 ends at 3e38
AGAIN = "download it again"
Recording = tuple[np.ndarray, np.ndarray, np.ndarray]  # train rows, test rows, label


@dataclass(frozen=True)
class Source:
    """A published dataset: where it lies, how it is cut, and who must stay together."""

    name: str
    floor: float  # least standard deviation of a channel
    blocks: int
    folders: tuple[str, ...]  # of --data DIR that may hold it
    names: str  # of its recordings, a regular expression
    suffix: str  # of its publisher's files
    read_published: Callable[[Path], Iterator[tuple[str, Recording]]]
    together: Callable[[str], tuple[str, str]]  # recorded_with, dealt_with
    dropped: frozenset[str] = frozenset()


def read_recordings(source: Source, data: str | None) -> list[Series]:
    """Read all recordings of a published dataset under a folder."""
    if data is None:
        raise PefourierError(
            f"{source.name} is read from a folder; give --data DIR that holds {source.name}/"
        )
    folder, archives = locate(source, Path(data))
    recordings = read_archives(archives) if archives else source.read_published(folder)
    series, size = [], 0
    for name, recording in recordings:
        if name not in source.dropped:
            series.append(scale_recording(name, recording, source.floor, *source.together(name)))
            size += series[-1].rows.nbytes
        if size > memory_limit():
            raise PefourierError(
                f"the recordings in {folder} take more than {memory_limit()} bytes, an eighth of "
                "this machine's memory"
            )
    if not series:
        raise PefourierError(f"{folder} holds no recording of {source.name}; download it again")
    widths = {s.rows.shape[1] for s in series}
    if len(widths) > 1:
        raise PefourierError(f"{folder}: recordings have different columns: {sorted(widths)}")
    return series


def locate(source: Source, data: Path) -> tuple[Path, list[Path]]:
    """Find the folder of a dataset, and its archives where it has that layout."""
    for folder in (data / name for name in (*source.folders, ".")):
        files = sorted(folder.glob("*.npz"))
        archives = [file for file in files if re.fullmatch(source.names, file.stem)]
        if archives or any((folder / "test").glob(f"*{source.suffix}")):
            return folder, archives
    names = " or ".join(f"{name}/" for name in source.folders)
    raise PefourierError(
        f"{shown(str(data))} holds no {source.name}: expected {names} with .npz archives of its "
        f"recordings, or the publisher's train/ and test/ of {source.suffix} files"
    )


def machine_memory() -> int:
    """Bytes of memory that the machine has, as far as the system says it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows
        return 8 * MEMORY


def memory_limit() -> int:
    """Bytes that an array of data may take: an eighth of the machine's memory."""
    return machine_memory() // 8


def open_part(path: Path, suffix: str) -> AbstractContextManager[tables.ArrayFile]:
    """The arrays in a file of a published dataset."""
    if status_of(str(path)) is None:
        raise PefourierError(f"{path} is missing; {AGAIN}")
    return tables.open_arrays(str(path), suffix, regular=True, advice=AGAIN)


def load_part(
    file: tables.ArrayFile, name: str = "", dtype: str | None = None, *, text: bool = False
) -> np.ndarray:
    """An array of a file of data, in memory; of labels and groups text is taken, too."""
    if file.arrays[name].kind == "object":
        raise PefourierError(
            f"{file.label} holds Python objects; save numbers, or names as "
            "np.array(names, dtype=str)"
        )
    return file.load(name, dtype, text=text, limit=memory_limit())


def read_archives(paths: Sequence[Path]) -> Iterator[tuple[str, Recording]]:
    """Read recordings from archives."""
    for path in paths:
        with open_part(path, ".npz") as file:
            if not {"train", "test", "label"} <= file.arrays.keys():
                raise PefourierError(
                    f"{file.label} holds {tables.names_and_shapes(file.arrays)}; expected train, "
                    f"test and label; {AGAIN}"
                )
            label = load_part(file, "label", text=True)
            recording = load_part(file, "train"), load_part(file, "test"), label
        yield path.stem, recording


def scale_recording(
    name: str, recording: Recording, floor: float, recorded_with: str, dealt_with: str
) -> Series:
    """Scale a recording by its unlabelled part."""
    train, test, label = recording
    label = truth_values(name, test, label)
    for part, rows in (("train", train), ("test", test)):
        check_rows(f"{name}, {part}", rows)
    if train.shape[1] != test.shape[1]:
        raise PefourierError(f"{name}: train has {train.shape[1]} columns and test {test.shape[1]}")
    scale = np.maximum(train.std(axis=0, dtype=float), floor)
    mean, scaled = train.mean(axis=0, dtype=float), np.empty(test.shape, np.float32)
    for rows in row_blocks(len(test), BLOCK, test.shape[1]):
        scaled[rows] = np.clip((test[rows] - mean) / scale, -LIMIT, LIMIT)
    return Series(name, scaled, label, recorded_with, dealt_with)


def truth_values(name: str, rows: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Labels as truth values, one for each row."""
    if label.ndim != 1 or rows.ndim != 2 or len(label) != len(rows):
        raise PefourierError(
            f"{name}: expected rows (n, channels), labels (n,); got {rows.shape} and {label.shape}"
        )
    wrong = label[~np.isin(label, (0, 1))]
    if len(wrong):
        raise PefourierError(
            f"{name}: the label of a row must be 0 or 1; got {shown(wrong[0].item())}"
        )
    return label.astype(bool)


def fill_missing(
    rows: np.ndarray, missing: Missing | None, place: Callable[[int, int], str]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows (n, C) of a series without missing numbers (nan), which are kept, how many were filled.

    A number that nothing precedes is the next one of its channel. `place` says of a row and a
    column where they are.

    >>> rows = np.array([[np.nan, 1.0], [2.0, np.nan]])
    >>> fill_missing(rows, "previous", lambda row, column: "")[0].tolist()
    [[2.0, 1.0], [2.0, 1.0]]
    """
    absent = np.isnan(rows) if rows.dtype.kind == "f" else np.zeros(rows.shape, bool)
    complete = np.ones(len(rows), bool)
    if not absent.any():
        return rows, complete, 0
    drops = missing == "drop"
    if missing is None or (absent.any(axis=1).all() if drops else absent.all(axis=0).any()):
        where = place(*np.argwhere(absent)[0].tolist())
        raise PefourierError(
            f"{where} is missing; fill it, or give --missing previous, mean or drop where that "
            "leaves numbers"
        )
    if drops:
        complete = ~absent.any(axis=1)
        return rows[complete], complete, 0
    if missing == "mean":
        return np.where(absent, np.nanmean(rows, axis=0), rows), complete, int(absent.sum())
    last = np.maximum.accumulate(np.where(absent, -1, np.arange(len(rows))[:, None]), axis=0)
    last = np.where(last < 0, (~absent).argmax(axis=0), last)
    return np.take_along_axis(rows, last, axis=0), complete, int(absent.sum())


def check_rows(name: str, rows: np.ndarray) -> None:
    """Refuse rows that are not numbers (n, channels), or not finite."""
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "fiub":
        raise PefourierError(
            f"{name}: expected numbers of shape (n, channels); got {rows.dtype} {rows.shape}"
        )
    wide = rows.astype(np.float32) if rows.dtype.name == "float16" else rows
    bad = np.argwhere(~(np.abs(wide) <= LARGEST))
    if len(bad):
        value = rows[tuple(bad[0])]
        way_out = "scale such values" if np.isfinite(value) else "fill missing values"
        raise PefourierError(
            f"{name}: row {bad[0, 0]}, column {bad[0, 1]} is {value}; {way_out} before training"
        )

"""Rows of recordings: how they are loaded, scaled, labelled and filled, and what is refused.

The part called train is unlabelled and gives mean and standard deviation of each channel, the
latter at least a floor; the labelled part, so scaled and cut at ±20, is what windows come from.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from pefourier.encodings.encoding import BLOCK, row_blocks
from pefourier.encodings.sources import tables
from pefourier.encodings.sources.arrays import MEMORY
from pefourier.errors import PefourierError, shown
from pefourier.files import status_of
from pefourier.train.data.split import Series
from pefourier.train.options import Missing

LIMIT = 20.0  # scaled values are cut here
LARGEST = 1e30  # of values read: float32 ends at 3e38
AGAIN = "download it again"
Recording = tuple[np.ndarray, np.ndarray, np.ndarray]  # train rows, test rows, label


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


def unscaled_series(name: str, rows: np.ndarray, label: np.ndarray) -> Series:
    """A recording that is scaled later, by its training windows."""
    check_rows(name, rows)
    return Series(name, rows.astype(np.float32), label, name, name)


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

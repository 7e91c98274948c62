"""Series in long form: a .csv with a line for each time of each series.

Conventions
-----------
The first line names the columns: `id` of a series, `time` (or `t`), `label`, maybe `group`; all
others are channels. Lines may stand in any order; times of a series must differ, and only their
order counts. Where a label is the same in all lines of every series, series are examples of that
class, shorter ones filled up with the mean of all lines; where it changes within one, they are
recordings, and labels must be 0 or 1.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pefourier.encodings.sources.tables import check_regular, told
from pefourier.errors import PefourierError, shown
from pefourier.files import label as name_of_file
from pefourier.train.data import recordings, split
from pefourier.train.data.examples import from_examples, padded_series
from pefourier.train.data.split import Split, Task

LARGEST = 2**30  # bytes
ROLES = ("id", "time", "label", "group")
SAME_AS = {"t": "time", "timestamp": "time", "series": "id", "class": "label", "y": "label"}
Columns = dict[str, np.ndarray]


def read_long(path: Path) -> tuple[Columns, np.ndarray, list[str]]:
    """The columns that have a role, channels (n, C) and their names."""
    check_regular(str(path))

    def parse() -> tuple[list[str], list[list[str]]]:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"text of up to {LARGEST} bytes is read")
        with path.open(encoding="utf-8-sig", newline="") as stream:
            try:
                head, *rows = list(cells_of_lines(csv.reader(stream)))
            except csv.Error as error:
                raise ValueError(str(error)) from error
        return [cell.strip() for cell in head], rows

    head, rows = told(parse, name_of_file(str(path)), ".csv", "write it again")
    roles = [SAME_AS.get(name.lower(), name.lower()) for name in head]
    known = {role: roles.index(role) for role in ROLES if role in roles}
    channels = [i for i, role in enumerate(roles) if role not in ROLES]
    lacking = [role for role in ROLES[:3] if role not in known]
    if lacking or not channels:
        what = f"a column {lacking[0]}" if lacking else "columns of channels"
        raise PefourierError(
            f"{shown(str(path))} lacks {what}: its first line names {shown(', '.join(head))}; "
            "expected id, time, label and channels"
        )
    twice = next((role for role in ROLES if roles.count(role) > 1), None)
    if twice:
        raise PefourierError(f"{shown(str(path))} has two columns that are its {twice}")
    found = {role: np.array([row[at] for row in rows], dtype=str) for role, at in known.items()}
    values = [[row[at] for at in channels] for row in rows]
    return found, numbers_of(path, values, "a channel"), [head[at] for at in channels]


def cells_of_lines(lines: Iterator[list[str]]) -> Iterator[list[str]]:
    """Lines that are not empty, all of one width."""
    width = None
    for number, row in enumerate(lines, start=1):
        if not row:
            continue
        width = width or len(row)
        if len(row) != width:
            raise ValueError(f"line {number} has {len(row)} cells, the first has {width}")
        yield row
    if width is None:
        raise ValueError("it has no line")


def numbers_of(path: Path, cells: list[list[str]], what: str) -> np.ndarray:
    """Cells as numbers, of which none is missing."""
    try:
        found = np.array(cells, dtype=str).astype(float)
    except ValueError as error:
        text = str(error).partition(": ")[2] or str(error)
        raise PefourierError(
            f"{shown(str(path))}: {what} must be numbers; got {text[:60]}; fill missing values"
        ) from error
    if not np.isfinite(found).all():
        raise PefourierError(f"{shown(str(path))}: {what} must be finite; fill missing values")
    return found


def from_csv(path: Path, window: int | None, stride: int | None, split_by: Split) -> Task:
    """Examples or recordings of a .csv in long form."""
    columns, channels, _ = read_long(path)
    times = numbers_of(path, [[one] for one in columns["time"]], "time")[:, 0]
    names, series = np.unique(columns["id"], return_inverse=True)
    order = np.lexsort((times, series))
    same = (np.diff(series[order]) == 0) & (np.diff(times[order]) == 0)
    if same.any():
        at = order[:-1][same][0]
        name = shown(str(columns["id"][at]))
        raise PefourierError(f"{shown(str(path))}: series {name} has time {times[at]:g} twice")
    ends = np.cumsum(np.bincount(series))[:-1]
    parts = np.split(order, ends)
    if all(len(set(columns["label"][part])) == 1 for part in parts):
        return examples_of(path, columns, channels, parts, window, stride, split_by)
    if "group" in columns:
        raise PefourierError(
            f"{shown(str(path))}: labels change within a series, so that these are recordings; "
            "group goes with examples of one label each"
        )
    found = []
    for name, part in zip(names, parts, strict=True):
        labels = numbers_of(path, [[one] for one in columns["label"][part]], "label")[:, 0]
        truth = recordings.truth_values(str(name), channels[part], labels)
        rows = channels[part].astype(np.float32)
        recordings.check_rows(str(name), rows)
        found.append(split.Series(str(name), rows, truth, str(name), str(name)))
    cut = split.WINDOW if window is None else window
    blocks = split.USER_BLOCKS
    return split.split_series(str(path), found, cut, stride, split_by, blocks, own_scale=True)


def examples_of(
    path: Path,
    columns: Columns,
    channels: np.ndarray,
    parts: list[np.ndarray],
    window: int | None,
    stride: int | None,
    split_by: Split,
) -> Task:
    """A series an example, of the label that all its lines have."""
    if window is not None or stride is not None:
        raise PefourierError(
            f"--window and --stride are for recordings; {shown(str(path))} holds examples"
        )
    labels = np.array([columns["label"][part[0]] for part in parts])
    groups = None
    if "group" in columns:
        groups = np.array([columns["group"][part[0]] for part in parts])
        for part in parts:
            if len(set(columns["group"][part])) > 1:
                name = shown(str(columns["id"][part[0]]))
                raise PefourierError(f"{shown(str(path))}: series {name} is of two groups")
    every = [channels[part].T for part in parts]
    x = padded_series(every, channels.mean(axis=0)).transpose(0, 2, 1)
    return from_examples(str(path), x, labels, (), split_by, groups=groups)

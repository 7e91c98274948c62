"""Series in long form: a .csv with a line for each time of each series.

Conventions
-----------
The first line names the columns: `id` of a series, `time` (or `t`), `label`, maybe `group`; all
others are channels. Lines may stand in any order; times of a series must differ, and only their
order counts. Where a label is the same in all lines of every series, series are examples of that
class, shorter ones padded; where it changes within one, they are recordings, and labels are 0 and
1, or names of which the rarer marks anomalies. Times are numbers or dates as ISO 8601 has them.
Cells are parted by commas, semicolons (then numbers may have decimal commas) or tabs.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.answers.telling import sentence
from pefourier.encodings.domain import EVEN
from pefourier.encodings.sources.formats import reads_as_number
from pefourier.encodings.sources.tables import check_regular, told
from pefourier.errors import PefourierError, shown
from pefourier.files import label as name_of_file
from pefourier.train.data import recordings, split
from pefourier.train.data.examples import check_examples, from_examples, padded_series
from pefourier.train.data.split import Split, Task
from pefourier.writing.text import join

LARGEST = 2**30  # bytes
DELIMITERS = ",;\t"
ROLES = ("id", "time", "label", "group")
SAME_AS = {
    "t": "time",
    "timestamp": "time",
    "date": "time",
    "datetime": "time",
    "series": "id",
    "class": "label",
    "y": "label",
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class Long:
    """A file in long form."""

    path: Path
    columns: dict[str, np.ndarray]  # of each role, as text
    channels: np.ndarray  # (n, C)
    lines: np.ndarray  # (n,) number in the file
    names: tuple[str, ...]  # of channels


def refusal(path: Path, what: str, line: int, cell: str) -> PefourierError:
    """The error for a cell of a line."""
    return PefourierError(f"{shown(str(path))}, line {line}: {what}; got {shown(str(cell))}")


def read_long(path: Path) -> Long:
    """Read the columns that have a role, and channels."""
    check_regular(str(path))

    def parse() -> tuple[list[str], list[list[str]], np.ndarray, bool]:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"text of up to {LARGEST} bytes is read")
        with path.open(encoding="utf-8-sig", newline="") as stream:
            first = stream.readline()
            parted = max(DELIMITERS, key=first.count)
            stream.seek(0)
            try:
                (_, head), *rows = list(cells_of_lines(csv.reader(stream, delimiter=parted)))
            except csv.Error as error:
                raise ValueError(str(error)) from error
        if not rows:
            raise ValueError("it has names of columns and no line below them")
        lines = np.array([line for line, _ in rows])
        return [cell.strip() for cell in head], [row for _, row in rows], lines, parted == ";"

    head, rows, lines, decimal_commas = told(
        parse, name_of_file(str(path)), ".csv", "write it again"
    )
    known, channels = roles_of_columns(path, head)
    found = {role: np.array([row[at] for row in rows], dtype=str) for role, at in known.items()}
    values = np.empty((len(rows), len(channels)))
    for column, at in zip(values.T, channels, strict=True):
        cells = [row[at].replace(",", "." if decimal_commas else ",") for row in rows]
        read = partial(finite_number, what=sentence("train", "not a channel", name=head[at]))
        column[:] = read_cells(path, cells, lines, read)
    return Long(path, found, values, lines, tuple(head[at] for at in channels))


def roles_of_columns(path: Path, head: Sequence[str]) -> tuple[dict[str, int], list[int]]:
    """The column of each role, and those of channels."""
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
        named = join(shown(n) for n, role in zip(head, roles, strict=True) if role == twice)
        raise PefourierError(
            f"{shown(str(path))}: {named} can each be its {twice}; rename those that are not"
        )
    return known, channels


def cells_of_lines(lines: Any) -> Iterator[tuple[int, list[str]]]:
    """Lines of a reader that are not empty, all of one width, with their numbers."""
    width = None
    for row in lines:
        number = lines.line_num
        if not row:
            continue
        width = width or len(row)
        if len(row) != width:
            raise ValueError(f"line {number} has {len(row)} cells, the first has {width}")
        yield number, row
    if width is None:
        raise ValueError("it has no line")


def read_cells(
    path: Path, cells: Sequence[str], lines: np.ndarray, read: Callable[[str], float]
) -> np.ndarray:
    """Cells as numbers; the first that is none is named with its line."""
    found = np.empty(len(cells))
    for at, cell in enumerate(cells):
        try:
            found[at] = read(cell)
        except ValueError as error:
            raise refusal(path, str(error), int(lines[at]), cell) from error
    return found


def finite_number(cell: str, what: str) -> float:
    """A cell as a finite number; else a `ValueError` says what it must be.

    >>> finite_number(" 1e3", "")
    1000.0
    """
    try:
        found = float(cell)
    except ValueError:
        found = float("nan")
    if not abs(found) < float("inf"):
        raise ValueError(what)
    return found


def seconds_of_date(cell: str) -> float:
    """A date of ISO 8601 in seconds; those that name no zone are taken as of one.

    >>> seconds_of_date("1970-01-02 00:00:01.5"), seconds_of_date("1970-01-01T01:00:00+01:00")
    (86401.5, 0.0)
    """
    try:
        found = datetime.fromisoformat(cell.strip())
    except ValueError:
        raise ValueError(
            "time must be a number, or a date such as 2024-05-31T12:00:00, as all of the file"
        ) from None
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (zoned - EPOCH).total_seconds()


def times_of(one: Long) -> np.ndarray:
    """Times (n,): numbers, or dates where the first is one."""
    cells = one.columns["time"]
    try:
        float(cells[0])
    except ValueError:
        return read_cells(one.path, cells, one.lines, seconds_of_date)
    read = partial(finite_number, what="time must be a finite number")
    return read_cells(one.path, cells, one.lines, read)


def from_csv(
    path: Path,
    window: int | None,
    stride: int | None,
    split_by: Split,
    positive: Sequence[str] = (),
) -> Task:
    """Examples or recordings of a .csv in long form."""
    one = read_long(path)
    columns, times = one.columns, times_of(one)
    names, series = np.unique(columns["id"], return_inverse=True)
    order = np.lexsort((times, series))
    same = (np.diff(series[order]) == 0) & (np.diff(times[order]) == 0)
    if same.any():
        at = order[1:][same][0]
        name = shown(str(columns["id"][at]))
        said = f"series {name} has a time twice"
        raise refusal(path, said, int(one.lines[at]), columns["time"][at])
    ends = np.cumsum(np.bincount(series))[:-1]
    parts = np.split(order, ends)
    steps = np.concatenate([np.diff(times[part]) for part in parts])
    uneven = len(steps) > 0 and bool(np.ptp(steps) > EVEN * steps.mean())
    if all(len(set(columns["label"][part])) == 1 for part in parts):
        task = examples_of(one, parts, window, stride, split_by)
        return replace(task, uneven=uneven, channels=one.names, grouped_by="a column called group")
    if "group" in columns:
        raise PefourierError(
            f"{shown(str(path))}: group goes with series of one label each; leave it out"
        )
    anomalous, classes = read_anomalies(one, positive)
    found = []
    for name, part in zip(names, parts, strict=True):
        rows = one.channels[part].astype(np.float32)
        recordings.check_rows(str(name), rows)
        found.append(split.Series(str(name), rows, anomalous[part], str(name), str(name)))
    facts = {"own_scale": True, "classes": classes}
    task = split.split_series(
        str(path), found, window, stride, split_by, split.USER_BLOCKS, **facts
    )
    return replace(task, uneven=uneven, channels=one.names)


def read_anomalies(one: Long, positive: Sequence[str]) -> tuple[np.ndarray, tuple[str, str]]:
    """Which rows of recordings are anomalous, and the classes: by 0 and 1, or by names."""
    labels, path = one.columns["label"], shown(str(one.path))
    counted = Counter(labels.tolist())
    chosen = [name for name in counted if name in positive]
    if not chosen and all(reads_as_number(name) for name in counted):
        read = partial(truth_value, what="the label of a row must be 0 or 1, or --positive NAME")
        return read_cells(one.path, labels, one.lines, read) == 1, ("normal", "anomaly")
    (rarest, least), (_, most), *more = sorted(counted.items(), key=lambda item: item[1])
    if not chosen and (more or least == most):
        raise PefourierError(
            f"{path}: rows have {len(counted)} labels, {shown(', '.join(sorted(counted)))}"
            f"{'' if more else f', {least} each'}; name the one that marks anomalies: "
            f"--positive {shown(rarest)}"
        )
    if len(chosen) > 1:
        raise PefourierError(f"{path}: one label can mark anomalies; got --positive for {chosen}")
    own = chosen[0] if chosen else rarest
    rest = (set(counted) - {own}).pop() if not more else f"not {own}"
    return labels == own, (rest, own)


def truth_value(cell: str, what: str) -> float:
    """0 or 1 of a cell."""
    found = finite_number(cell, what)
    if found not in (0, 1):
        raise ValueError(what)
    return found


def examples_of(
    one: Long, parts: list[np.ndarray], window: int | None, stride: int | None, split_by: Split
) -> Task:
    """A series an example, of the label that all its lines have."""
    columns, path = one.columns, shown(str(one.path))
    check_examples(str(one.path), window, stride)
    labels = np.array([columns["label"][part[0]] for part in parts])
    groups = None
    if "group" in columns:
        groups = np.array([columns["group"][part[0]] for part in parts])
        for part in parts:
            if len(set(columns["group"][part])) > 1:
                name = shown(str(columns["id"][part[0]]))
                raise PefourierError(f"{path}: series {name} is of two groups")
    x, lengths = padded_series([one.channels[part] for part in parts])
    facts = {"groups": groups, "lengths": lengths}
    return from_examples(str(one.path), x, labels, (), split_by, **facts)

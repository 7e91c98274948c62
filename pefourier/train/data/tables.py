"""Series in long form: a .csv with a line for each time of each series.

Conventions
-----------
The first line names the columns: `id` of a series, `time` (or `t`), `label`, maybe `group`, or what
--columns calls them; all others are channels. Lines may stand in any order; times are numbers, of a
series they must differ, and only their order counts. Where a label is the same in all lines of
every series, series are examples of that class, shorter ones padded; where it changes within some,
they are recordings, and labels are 0 and 1, or names of which the rarer marks anomalies. Cells are
parted by commas, semicolons or tabs.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.domain import EVEN
from pefourier.encodings.sources.formats import reads_as_number
from pefourier.encodings.sources.tables import check_regular, parse_or_refuse
from pefourier.errors import PefourierError, shown, unknown
from pefourier.files import label as name_of_file
from pefourier.train.data import recordings, split
from pefourier.train.data.examples import check_examples, from_examples, padded_series
from pefourier.train.data.split import Split, Task
from pefourier.train.options import Missing
from pefourier.writing.text import join

LARGEST = 2**30  # bytes
DELIMITERS = ",;\t"
ROLES = ("id", "time", "label", "group")
SAME_AS = {"t": "time", "timestamp": "time", "series": "id", "class": "label", "y": "label"}
ABSENT = ("", "na", "nan", "n/a", "null", "none")  # cells of missing numbers
TYPO = 0.5  # share of series with several labels below which they are taken for mistakes


@dataclass(frozen=True, eq=False)
class LongTable:
    """A file in long form."""

    path: Path
    columns: dict[str, np.ndarray]  # of each role, as text
    times: np.ndarray  # (n,)
    channels: np.ndarray  # (n, C), nan where a number is missing
    lines: np.ndarray  # (n,) number in the file
    names: tuple[str, ...]  # of channels

    def place(self, row: int, column: str = "") -> str:
        """Where a cell is: the file, the series, the line and maybe the column."""
        where = f"{shown(str(self.path))}, line {self.lines[row]}: series "
        where += shown(str(self.columns["id"][row]))
        return f"{where}, column {column}" if column else where


def parse_columns(text: str | None) -> dict[str, str]:
    """The role of each column that --columns names.

    >>> parse_columns("time=hour,series=unit")
    {'hour': 'time', 'unit': 'id'}
    """
    roles: dict[str, str] = {}
    for item in text.split(",") if text is not None else ():
        key, equals, name = (part.strip() for part in item.partition("="))
        role = SAME_AS.get(key, key)
        if role not in ROLES:
            raise unknown("role of --columns", key, ("time", "series", "label", "group"))
        if not equals or not name:
            raise PefourierError(f"--columns {shown(item)} lacks a column; give {key}=NAME")
        if role in roles.values() or name in roles:
            raise PefourierError(f"--columns names {shown(item)} twice; name each role once")
        roles[name] = role
    return roles


def read_long(path: Path, columns: str | None = None) -> LongTable:
    """Read the columns that have a role, and channels."""
    roles = parse_columns(columns)
    check_regular(str(path))
    label = name_of_file(str(path))
    head, rows, lines = parse_or_refuse(lambda: parse_lines(path), label, ".csv", "write it again")
    indices, channels = roles_of_columns(path, head, roles)
    cells = {role: np.array([row[i].strip() for row in rows]) for role, i in indices.items()}
    empty = LongTable(path, cells, np.zeros(0), np.zeros(0), lines, ())
    for role, column in cells.items():
        lacking = np.flatnonzero(column == "")
        if len(lacking):
            first = int(lacking[0])
            raise PefourierError(f"{empty.place(first, head[indices[role]])}: it has no {role}")
    if all(reads_as_number(label) for label in np.unique(cells["label"]).tolist()):
        cells["label"] = np.array([f"{float(label):g}" for label in cells["label"].tolist()])
    times = read_cells(empty, [row[indices["time"]] for row in rows], head[indices["time"]], True)
    values = [read_cells(empty, [row[i] for row in rows], head[i]) for i in channels]
    names = tuple(head[i] for i in channels)
    return replace(empty, times=times, channels=np.column_stack(values), names=names)


def parse_lines(path: Path) -> tuple[list[str], list[list[str]], np.ndarray]:
    """The names of columns, the cells of all other lines, and the numbers of these."""
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
    return [cell.strip() for cell in head], [row for _, row in rows], lines


def roles_of_columns(
    path: Path, head: Sequence[str], roles_by_name: dict[str, str]
) -> tuple[dict[str, int], list[int]]:
    """The column of each role, and those of channels; roles that are given stand alone."""
    lacking = next((name for name in roles_by_name if name not in head), None)
    if lacking is not None:
        raise PefourierError(
            f"--columns: {shown(str(path))} has no column {shown(lacking)}; its first line names "
            f"{shown(', '.join(head))}"
        )
    roles = [roles_by_name.get(name) or SAME_AS.get(name.lower(), name.lower()) for name in head]
    roles = [
        "" if role in roles_by_name.values() and roles_by_name.get(name) != role else role
        for name, role in zip(head, roles, strict=True)
    ]
    columns = {role: roles.index(role) for role in ROLES if role in roles}
    channels = [i for i, role in enumerate(roles) if role not in ROLES]
    lacks = [role for role in ROLES[:3] if role not in columns]
    if lacks or not channels:
        lack = f"a column {lacks[0]}" if lacks else "columns of channels"
        raise PefourierError(
            f"{shown(str(path))} lacks {lack}: its first line names {shown(', '.join(head))}; "
            "expected id, time, label and channels, or --columns time=…,series=…,label=…"
        )
    twice = next((role for role in ROLES if roles.count(role) > 1), None)
    if twice:
        twins = join(shown(n) for n, role in zip(head, roles, strict=True) if role == twice)
        raise PefourierError(
            f"{shown(str(path))}: {twins} can each be its {twice}; say which by --columns "
            f"{twice}=NAME"
        )
    return columns, channels


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
    table: LongTable, cells: Sequence[str], name: str, is_time: bool = False
) -> np.ndarray:
    """Cells of a column as numbers, nan where one is missing; a time must be there."""
    numbers = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            numbers[row] = np.nan if cell.strip().lower() in ABSENT else float(cell)
        except ValueError:
            numbers[row] = np.inf
        if np.isinf(numbers[row]) or (is_time and np.isnan(numbers[row])):
            time_rule = "a time must be a finite number, such as seconds"
            channel = (
                "a channel must be a finite number; --columns label=NAME or group=NAME says "
                "what else a column is"
            )
            raise PefourierError(
                f"{table.place(row, name)}: {time_rule if is_time else channel}; got {shown(cell)}"
            )
    return numbers


def from_csv(
    path: Path,
    window: int | None,
    stride: int | None,
    split_by: Split,
    positive: Sequence[str] = (),
    columns: str | None = None,
    missing: Missing | None = None,
) -> Task:
    """Examples or recordings of a .csv in long form."""
    table, parts, filled, gone = fill_series(read_long(path, columns), missing)
    steps = np.concatenate([np.diff(table.times[part]) for part in parts])
    uneven = len(steps) > 0 and bool(np.ptp(steps) > EVEN * steps.mean())
    if are_examples(table, parts, window, stride):
        task = examples_of(table, parts, window, stride, split_by)
        task = replace(task, grouped_by="a column called group")
    else:
        task = recordings_of(table, parts, window, stride, split_by, positive)
    task = split.count_missing(task, filled, gone)
    return replace(task, uneven=uneven, channels=table.names)


def fill_series(
    table: LongTable, missing: Missing | None
) -> tuple[LongTable, list[np.ndarray], int, int]:
    """A table without missing numbers, the rows of each series in the order of time.

    With it come how many numbers were filled, and how many rows dropped.
    """
    channels, parts, filled, gone = table.channels.copy(), [], 0, 0
    for part in rows_of_series(table):
        rows, complete, count = recordings.fill_missing(
            table.channels[part],
            missing,
            lambda row, column, part=part: table.place(part[row], table.names[column]),
        )
        parts.append(part[complete])
        channels[parts[-1]] = rows
        filled, gone = filled + count, gone + int((~complete).sum())
    return replace(table, channels=channels), parts, filled, gone


def rows_of_series(table: LongTable) -> list[np.ndarray]:
    """The rows of each series in the order of time, series by name."""
    _, series = np.unique(table.columns["id"], return_inverse=True)
    order = np.lexsort((table.times, series))
    repeated = (np.diff(series[order]) == 0) & (np.diff(table.times[order]) == 0)
    if repeated.any():
        row = int(order[1:][repeated][0])
        raise PefourierError(f"{table.place(row)} has a time twice: {table.columns['time'][row]}")
    return np.split(order, np.cumsum(np.bincount(series))[:-1])


def are_examples(
    table: LongTable, parts: Sequence[np.ndarray], window: int | None, stride: int | None
) -> bool:
    """Whether each series is an example of one class; else series are recordings.

    Where most series have one label, and not all the same, a series with two is a mistake, unless a
    window says that all are to be cut.
    """
    labels = table.columns["label"]
    spelled = Counter(name.lower() for name in np.unique(labels).tolist())
    for row in np.flatnonzero([spelled[name.lower()] > 1 for name in labels.tolist()])[:1]:
        name = str(labels[row])
        rare = min(
            (n for n in np.unique(labels).tolist() if n.lower() == name.lower()),
            key=lambda n: (labels == n).sum(),
        )
        row = int(np.flatnonzero(labels == rare)[0])
        other_labels = labels[(table.columns["id"] == table.columns["id"][row]) & (labels != rare)]
        two = f" has two labels, {rare} and {other_labels[0]}:" if len(other_labels) else ":"
        raise PefourierError(
            f"{table.place(row)}{two} labels differ in capitals alone; spell {shown(rare)} as "
            "the others are"
        )
    mixed = [part for part in parts if len(np.unique(labels[part])) > 1]
    uniform = {str(labels[part[0]]) for part in parts if len(np.unique(labels[part])) == 1}
    cut = window is not None or stride is not None
    if mixed and len(uniform) > 1 and not cut and len(mixed) < TYPO * len(parts):
        counts = Counter(labels[mixed[0]].tolist()).most_common()
        row = next(int(i) for i in mixed[0] if labels[i] == counts[-1][0])
        names = join(shown(name) for name, _ in counts)
        tail = f", as have {len(mixed) - 1} more" if len(mixed) > 1 else ""
        raise PefourierError(
            f"{table.place(row)} has {len(counts)} labels, {names}{tail}; give each series one, or "
            "--window ROWS if these are recordings to be cut"
        )
    return not mixed


def recordings_of(
    table: LongTable,
    parts: Sequence[np.ndarray],
    window: int | None,
    stride: int | None,
    split_by: Split,
    positive: Sequence[str],
) -> Task:
    """Windows of series whose rows are labelled, of one group on one side."""
    anomalous, classes = read_anomalies(table, positive)
    groups = groups_of(table, parts)
    series = []
    for part in parts:
        name = str(table.columns["id"][part[0]])
        rows = table.channels[part].astype(np.float32)
        recordings.check_rows(name, rows)
        series.append(split.Series(name, rows, anomalous[part], name, name))
    grouped = groups is not None and len(set(groups)) > 1 and split_by != "random"
    if grouped and split_by == "chronological":
        raise PefourierError(
            f"{shown(str(table.path))}: a column group and --split chronological exclude each "
            "other; use --split blocks"
        )
    facts = {"own_scale": True, "classes": classes, "grouped": grouped}
    facts["units"] = groups if grouped else [recording.name for recording in series]
    name = str(table.path)
    return split.split_series(name, series, window, stride, split_by, split.USER_BLOCKS, **facts)


def groups_of(table: LongTable, parts: Sequence[np.ndarray]) -> list[str] | None:
    """The group of each series; None where there is no such column."""
    if "group" not in table.columns:
        return None
    column = table.columns["group"]
    for part in parts:
        names = np.unique(column[part])
        if len(names) > 1:
            row = int(part[np.flatnonzero(column[part] != column[part[0]])[0]])
            raise PefourierError(
                f"{table.place(row)} is of two groups, {shown(str(names[0]))} and "
                f"{shown(str(names[1]))}; give each series one"
            )
    return [str(column[part[0]]) for part in parts]


def read_anomalies(table: LongTable, positive: Sequence[str]) -> tuple[np.ndarray, tuple[str, str]]:
    """Which rows of recordings are anomalous, and the classes: by 0 and 1, or by names."""
    labels, path = table.columns["label"], shown(str(table.path))
    counted = Counter(labels.tolist())
    chosen = [name for name in counted if name in positive]
    if not chosen and all(reads_as_number(name) for name in counted):
        return np.array([truth_value(table, row) for row in range(len(labels))]), (
            "normal",
            "anomaly",
        )
    (rarest, fewest), (_, next_count), *further = sorted(counted.items(), key=lambda item: item[1])
    if not chosen and (further or fewest == next_count):
        raise PefourierError(
            f"{path}: rows have {len(counted)} labels, {shown(', '.join(sorted(counted)))}"
            f"{'' if further else f', {fewest} each'}; name the one that marks anomalies: "
            f"--positive {shown(rarest)}"
        )
    if len(chosen) > 1:
        raise PefourierError(f"{path}: one label can mark anomalies; got --positive for {chosen}")
    anomaly = chosen[0] if chosen else rarest
    normal = (set(counted) - {anomaly}).pop() if not further else f"not {anomaly}"
    return labels == anomaly, (normal, anomaly)


def truth_value(table: LongTable, row: int) -> bool:
    """Whether a row is labelled 1; else it must be 0."""
    label = str(table.columns["label"][row])
    if float(label) not in (0, 1):
        raise PefourierError(
            f"{table.place(row)}: the label of a row must be 0 or 1, or --positive NAME; got "
            f"{shown(label)}"
        )
    return float(label) == 1


def examples_of(
    table: LongTable,
    parts: Sequence[np.ndarray],
    window: int | None,
    stride: int | None,
    split_by: Split,
) -> Task:
    """A series an example, of the label that all its lines have."""
    check_examples(str(table.path), window, stride)
    labels = np.array([table.columns["label"][part[0]] for part in parts])
    groups = groups_of(table, parts)
    x, lengths = padded_series([table.channels[part] for part in parts])
    facts = {"groups": None if groups is None else np.array(groups), "lengths": lengths}
    return from_examples(str(table.path), x, labels, (), split_by, **facts)

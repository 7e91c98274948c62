"""Series in long form: a .csv with a line for each time of each series.

Conventions
-----------
The first line names the columns. Those of `USUAL` names, or those that --columns names, are the
times, the series, the labels and maybe groups; all others are channels, except columns that hold
no numbers and those without a name (the row numbers that pandas writes). Without a column of series
the file is one series. Lines may stand in any order. Times are numbers, or ISO 8601 with or without
a zone, and differ within a series. Where a label is the same in all lines of every series, series
are examples of that class, shorter ones padded; where it changes within some, they are recordings,
and labels are 0 and 1, or names of which the rarer marks anomalies. Cells are parted by commas,
semicolons or tabs; beside the latter two numbers may have decimal commas.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pefourier.encodings.domain import EVEN
from pefourier.encodings.sources.formats import reads_as_number
from pefourier.encodings.sources.tables import check_regular, parse_or_refuse
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data import recordings, split
from pefourier.train.data.examples import fill_missing, from_examples, padded_series
from pefourier.train.data.split import Task
from pefourier.train.options import Options
from pefourier.writing.files import label as name_of_file
from pefourier.writing.text import join

LARGEST = 2**30  # bytes
DELIMITERS = ",;\t"
USUAL = {  # names of the columns of each role, in small letters; "_id" may follow
    "time": ("time", "timestamp", "datetime", "date", "t"),
    "series": ("series", "id", "unit", "machine", "patient", "subject"),
    "label": ("label", "class", "state", "target", "y"),
    "group": ("group",),
}
WEAK = ("date", "t", "y")  # names of channels, too: beside another usual name they are that
DATE = re.compile(  # ISO 8601, with its zone
    r"\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d){0,2}([.,]\d+)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?)?"
)
POINT = str.maketrans(",", ".")  # for the commas of numbers
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
    remarks: dict[str, list[str]]  # what to know of its columns, by a code of words.toml

    def place(self, row: int, column: str = "") -> str:
        """Where a cell is: the file, the series, the line and maybe the column."""
        where = f"{shown(str(self.path))}, line {self.lines[row]}: series "
        where += shown(str(self.columns["series"][row]))
        return f"{where}, column {column}" if column else where

    def place_of(self, part: np.ndarray, row: int, channel: int) -> str:
        """Where a number of a part of the rows is."""
        return self.place(part[row], self.names[channel])

    def labels_of(self, part: np.ndarray, role: str) -> list[str]:
        """The labels, or groups, of some rows, the commonest first."""
        return [name for name, _ in Counter(self.columns[role][part].tolist()).most_common()]


def parse_columns(text: str | None) -> dict[str, str]:
    """The role of each column that --columns names.

    >>> parse_columns("time=hour,series=unit")
    {'hour': 'time', 'unit': 'series'}
    """
    roles: dict[str, str] = {}
    for item in text.split(",") if text is not None else ():
        key, _, name = (part.strip() for part in item.partition("="))
        role = "series" if key == "id" else key
        if role not in USUAL:
            raise unknown("role of --columns", key, tuple(USUAL))
        if not name or role in roles.values() or name in roles:
            raise PefourierError(
                f"--columns {shown(item)} names no column, or a role or column again; give each "
                f"role once: {key}=NAME"
            )
        roles[name] = role
    return roles


def read_long(path: Path, columns: str | None = None) -> LongTable:
    """Read the columns that have a role, and channels."""
    chosen = parse_columns(columns)
    check_regular(str(path))
    file = name_of_file(str(path))
    parse = partial(parse_lines, path)
    head, text, lines, delimiter = parse_or_refuse(parse, file, ".csv", "save it as UTF-8 again")
    roles = roles_of_columns(path, head, chosen)
    where = {role: roles.index(role) for role in USUAL if role in roles}
    cells = {role: np.array(text[i]) for role, i in where.items()}
    cells.setdefault("series", np.full(len(lines), path.stem))
    others = [i for i, role in enumerate(roles) if not role]
    channels = [i for i in others if head[i] and any(map(is_number, text[i]))]
    commas, points = ([head[i] for i in channels if mark in "".join(text[i])] for mark in ",.")
    remarks = {
        "columns": [f"{head[i]} as {role}" for role, i in where.items()]
        + ["the whole file as one series"] * ("series" not in where),
        "left out": [head[i] or f"number {i + 1}" for i in others if i not in channels],
        "commas": commas,
    }
    names = tuple(head[i] for i in channels)
    table = LongTable(path, cells, np.zeros(0), np.zeros(0), lines, names, remarks)
    for role, column in cells.items():
        for row in np.flatnonzero(column == "")[:1]:
            raise PefourierError(f"{table.place(row, head[where[role]])}: it has no {role}")
    if not channels or (commas and (points or delimiter == ",")):
        problem = f"numbers of {commas[0]} have commas" if commas else "no other column has numbers"
        way_out = "write channels with decimal points and no marks of thousands"
        raise PefourierError(f"{shown(str(path))}: {problem}; {way_out}")
    if all(map(reads_as_number, np.unique(cells["label"]).tolist())):
        cells["label"] = np.array([f"{float(label):g}" for label in cells["label"].tolist()])
    numbers = [read_cells(table, text[i], head[i]) for i in channels]
    times = read_times(table, head[where["time"]])
    return replace(table, times=times, channels=np.column_stack(numbers))


def parse_lines(path: Path) -> tuple[list[str], list[list[str]], np.ndarray, str]:
    """The names of columns, the cells of each below, the numbers of lines, and what parts cells."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"text of up to {LARGEST} bytes is read")
    with path.open(encoding="utf-8-sig", newline="") as stream:
        delimiter = max(DELIMITERS, key=stream.readline().count)
        stream.seek(0)
        reader = csv.reader(stream, delimiter=delimiter)
        try:
            lines = [(reader.line_num, row) for row in reader if row]
        except csv.Error as error:
            raise ValueError(str(error)) from error
    if len(lines) < 2:
        raise ValueError("it has no line below the names of columns")
    (_, head), *lines = lines
    for number, row in lines:
        if len(row) != len(head):
            raise ValueError(f"line {number} has {len(row)} cells, the first has {len(head)}")
    names = ["" if cell.startswith("Unnamed: ") else cell.strip() for cell in head]
    columns = [list(map(str.strip, column)) for column in zip(*(r for _, r in lines), strict=True)]
    return names, columns, np.array([number for number, _ in lines]), delimiter


def roles_of_columns(path: Path, head: Sequence[str], chosen: dict[str, str]) -> list[str]:
    """The role of each column, "" of others; a role that is chosen has no other column."""
    plain = [name.lower().removesuffix("_id") for name in head]
    roles = [chosen.get(name, "") for name in head]
    problems = [f"has no column {shown(name)}" for name in chosen if name not in head]
    for role, usual in USUAL.items():
        names, there = (roles, (role,)) if role in roles else (plain, usual)
        places = [i for i, name in enumerate(names) if name in there and roles[i] in ("", role)]
        places = [i for i in places if plain[i] not in WEAK] or places
        if len(places) > 1:
            problems.append(f"has several columns {role}, {', '.join(head[i] for i in places)}")
        elif places:
            roles[places[0]] = role
        elif role in ("time", "label"):
            problems.append(f"lacks a column {role} ({', '.join(usual)})")
    if problems:
        raise PefourierError(
            f"{shown(str(path))} {problems[0]}: its first line names {shown(', '.join(head))}; "
            "a line is a time of a series; --columns time=NAME,series=NAME,label=NAME names others"
        )
    return roles


def is_number(cell: str) -> bool:
    """Whether a cell has a number, maybe with a decimal comma."""
    return cell.lower() not in ABSENT and reads_as_number(cell.translate(POINT))


def read_cells(
    table: LongTable, cells: Sequence[str], name: str, absent: Sequence[str] = ABSENT
) -> np.ndarray:
    """Cells of a column as numbers, nan where one is missing."""
    numbers = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            numbers[row] = float(cell.translate(POINT))
        except ValueError:
            numbers[row] = np.nan
        if not math.isfinite(numbers[row]) and cell.lower() not in absent:
            raise PefourierError(
                f"{table.place(row, name)}: expected a finite number; got {shown(cell)}; --columns "
                "time=NAME, label=NAME or group=NAME says what else a column is"
            )
    return numbers


def read_times(table: LongTable, name: str) -> np.ndarray:
    """Times as numbers: those of dates in seconds, in UTC where they have a zone."""
    cells = table.columns["time"].tolist()
    if reads_as_number(cells[0].translate(POINT)):
        return read_cells(table, cells, name, absent=())
    zones = [match and bool(match["zone"]) for match in map(DATE.fullmatch, cells)]
    if odd := [row for row, zone in enumerate(zones) if zone is None or zone != zones[0]]:
        raise PefourierError(
            f"{table.place(odd[0], name)}: expected numbers or ISO 8601, all with a zone or all "
            f"without; got {shown(cells[odd[0]])}; pandas.to_datetime reads other forms"
        )
    texts, file = [cell.translate(POINT) for cell in cells], name_of_file(str(table.path))
    parse = partial(np.array, texts, "datetime64[us]")  # of zones it makes UTC, with a warning
    stamps = parse_or_refuse(parse, file, ".csv", f"write ISO 8601 in column {name}")
    return np.asarray((stamps - stamps.min()) / np.timedelta64(1, "s"))


def from_csv(path: Path, options: Options) -> Task:
    """Examples or recordings of a .csv in long form."""
    table, filled, lost = read_long(path, options.columns), 0, 0
    parts = rows_of_series(table)
    for i, part in enumerate(parts):
        place = partial(table.place_of, part)
        rows, complete, count = fill_missing(table.channels[part], options.missing, place)
        parts[i] = part[complete]
        table.channels[parts[i]] = rows
        filled, lost = filled + count, lost + int((~complete).sum())
    since = [table.times[part] - table.times[part[0]] for part in parts]
    steps = np.concatenate([np.diff(times) for times in since])
    uneven = len(steps) > 0 and bool(np.ptp(steps) > EVEN * steps.mean())
    make, times = recordings_of, np.concatenate(since)
    if are_examples(table, parts, options):
        make, (padded, _) = examples_of, padded_series([t[:, None] for t in since])
        times = np.maximum.accumulate(padded, axis=1).ravel()  # of padding that of the last row
    task = split.count_missing(make(table, parts, options), filled, lost)
    spans = np.nanmax(table.channels, axis=0) - np.nanmin(table.channels, axis=0)
    constant = np.array(table.names)[spans == 0].tolist()
    remarks = table.remarks | {"channels": [*table.names], "constant": constant}
    return replace(task, times=times, uneven=uneven, remarks=remarks)


def rows_of_series(table: LongTable) -> list[np.ndarray]:
    """The rows of each series in the order of time, series by name."""
    _, series = np.unique(table.columns["series"], return_inverse=True)
    order = np.lexsort((table.times, series))
    repeated = (np.diff(series[order]) == 0) & (np.diff(table.times[order]) == 0)
    for row in order[1:][repeated][:1]:
        raise PefourierError(
            f"{table.place(row)} has a time twice: {table.columns['time'][row]}; "
            "--columns series=NAME names the column that tells series apart"
        )
    return np.split(order, np.cumsum(np.bincount(series))[:-1])


def are_examples(table: LongTable, parts: Sequence[np.ndarray], options: Options) -> bool:
    """Whether each series is an example of one class; else series are recordings.

    Where most series have one label, and not all the same, a series with two is a mistake, unless a
    window says that all are to be cut.
    """
    labels = [table.labels_of(part, "label") for part in parts]
    mixed = [i for i, names in enumerate(labels) if len(names) > 1]
    uniform = {names[0] for names in labels if len(names) == 1}
    is_cut = options.window is not None or options.stride is not None
    if mixed and len(uniform) > 1 and not is_cut and len(mixed) < TYPO * len(parts):
        refuse_several(table, parts[mixed[0]], "label", ", or --window ROWS to cut recordings")
    return not mixed


def refuse_several(table: LongTable, part: np.ndarray, role: str, way_out: str = "") -> None:
    """Refuse a series with several labels, or groups, at the row of the rarest."""
    names = table.labels_of(part, role)
    row = next(i for i in part.tolist() if table.columns[role][i] == names[-1])
    raise PefourierError(
        f"{table.place(row)} has {len(names)} {role}s, {join(map(shown, names))}; give each series "
        f"one{way_out}"
    )


def groups_of(table: LongTable, parts: Sequence[np.ndarray]) -> list[str] | None:
    """The group of each series; None where there is no such column."""
    if "group" not in table.columns:
        return None
    for part in parts:
        if len(table.labels_of(part, "group")) > 1:
            refuse_several(table, part, "group")
    return [str(table.columns["group"][part[0]]) for part in parts]


def recordings_of(table: LongTable, parts: Sequence[np.ndarray], options: Options) -> Task:
    """Windows of series whose rows are labelled, of one group on one side."""
    anomalous, classes = read_anomalies(table, options.positive)
    groups = groups_of(table, parts)
    names = [str(table.columns["series"][part[0]]) for part in parts]
    series = [
        recordings.unscaled_series(name, table.channels[part], anomalous[part])
        for name, part in zip(names, parts, strict=True)
    ]
    grouped = groups is not None and len(set(groups)) > 1 and options.split != "random"
    dealing = split.Dealing(units=groups if grouped and groups else names, grouped=grouped)
    cut = *options.cut, dealing
    return split.split_series(str(table.path), series, *cut, own_scale=True, classes=classes)


def read_anomalies(table: LongTable, positive: Sequence[str]) -> tuple[np.ndarray, tuple[str, str]]:
    """Which rows of recordings are anomalous, and the classes: by 0 and 1, or by names."""
    labels = table.columns["label"]
    (*_, (_, next_count), (rarest, fewest)) = counted = Counter(labels.tolist()).most_common()
    names = [name for name, _ in counted]
    chosen = [name for name in names if name in positive]
    if not chosen and all(map(reads_as_number, names)):
        numbers = labels.astype(float)
        path = shown(str(table.path))
        return recordings.truth_values(path, numbers[:, None], numbers), ("normal", "anomaly")
    if twin := next((n for n in names[:-1] if n.lower() == rarest.lower()), None):
        raise PefourierError(
            f"{table.place(int(np.flatnonzero(labels == rarest)[0]))} has label {shown(rarest)}, "
            f"others have {shown(twin)}; spell them alike"
        )
    if len(chosen) > 1 or (not chosen and (len(names) > 2 or fewest == next_count)):
        raise PefourierError(
            f"{shown(str(table.path))}: rows have {len(names)} labels, "
            f"{shown(', '.join(sorted(names)))}; name the one that marks anomalies: "
            f"--positive {shown(rarest)}"
        )
    anomaly = chosen[0] if chosen else rarest
    normal = f"not {anomaly}" if len(names) > 2 else next(n for n in names if n != anomaly)
    return labels == anomaly, (normal, anomaly)


def examples_of(table: LongTable, parts: Sequence[np.ndarray], options: Options) -> Task:
    """A series an example, of the label that all its lines have."""
    labels = np.array([table.columns["label"][part[0]] for part in parts])
    groups = groups_of(table, parts)
    x, lengths = padded_series([table.channels[part] for part in parts])
    own = None if groups is None else np.array(groups)
    task = from_examples(str(table.path), x, labels, options, groups=own, lengths=lengths)
    return replace(task, grouped_by="a column called group")

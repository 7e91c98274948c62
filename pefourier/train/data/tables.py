"""Series in long form: a .csv with a line for each time of each series.

Conventions
-----------
The first line names the columns. Columns with `USUAL` names, or named by --columns, are the times,
series, labels and optional groups; all others are channels, except columns without numbers and
columns without a name (such as row numbers from pandas). Without a series column, the file is one
series. Lines may have any order. Times are numbers, or ISO 8601 with or without a time zone, and
differ within a series. If each series has a single label, series are examples of that class, and
shorter ones are padded; if labels change within series, series are recordings, and labels are 0
and 1, or names, the rarest of which marks anomalies. Cells are separated by commas, semicolons or
tabs; with semicolons or tabs, numbers may have decimal commas.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pefourier.encodings.sources.formats import reads_as_number
from pefourier.encodings.sources.tables import check_regular, parse_or_refuse
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data import recordings, split
from pefourier.train.data.examples import (
    fill_missing,
    from_examples,
    padded_series,
    with_times,
)
from pefourier.train.data.split import Task
from pefourier.train.options import Options
from pefourier.types import Array, Strings, Texts
from pefourier.writing.files import label as name_of_file
from pefourier.writing.text import join

USUAL = {  # lowercase column names of each role; "_id" may follow
    "time": ("time", "timestamp", "datetime", "date", "t"),
    "series": ("series", "id", "unit", "machine", "patient", "subject"),
    "label": ("label", "class", "state", "target", "y"),
    "group": ("group",),
}
WEAK = ("date", "t", "y")  # also names of channels: channels if another usual name is present
DATE = re.compile(  # ISO 8601 with its time zone
    r"\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d){0,2}([.,]\d+)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?)?"
)
POINT = str.maketrans(",", ".")  # for decimal commas
ABSENT = ("", "na", "nan", "n/a", "null", "none")  # cells of missing numbers
TYPO = 0.5  # share of series with several labels below which such labels count as mistakes


@dataclass(frozen=True, eq=False)
class LongTable:
    """A file in long form."""

    path: Path
    columns: dict[str, Array]  # text of each role
    times: Array  # (n,)
    channels: Array  # (n, C), nan for missing numbers
    lines: Array  # (n,) line numbers in the file
    names: Texts  # of channels
    remarks: dict[str, list[str]]  # about its columns, by a code of words.toml

    def place(self, row: int, column: str = "") -> str:
        """Describe a cell's place: file, line, series and optional column."""
        where = f"{shown(str(self.path))}, line {self.lines[row]}: series "
        where += shown(str(self.columns["series"][row]))
        return f"{where}, column {column}" if column else where

    def place_of(self, part: Array, row: int, channel: int) -> str:
        """Describe the place of a number in a part of the rows."""
        return self.place(part[row], self.names[channel])

    def labels_of(self, part: Array, role: str) -> list[str]:
        """Labels, or groups, of some rows, the most common first."""
        return [name for name, _ in Counter(self.columns[role][part].tolist()).most_common()]


def parse_columns(text: str | None) -> dict[str, str]:
    """Return the role of each column in --columns.

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
                f"--columns {shown(item)} lacks a column, or repeats a role or column; give each "
                f"role once: {key}=NAME"
            )
        roles[name] = role
    return roles


def read_long(path: Path, columns: str | None = None) -> LongTable:
    """Read the columns with a role, and the channels."""
    chosen = parse_columns(columns)
    check_regular(str(path))
    file = name_of_file(str(path))
    parse = partial(recordings.parse_lines, path)
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
            raise PefourierError(f"{table.place(row, head[where[role]])}: {role} is missing")
    if not channels or (commas and (points or delimiter == ",")):
        problem = f"numbers of {commas[0]} have commas" if commas else "no other column has numbers"
        way_out = "write channels with decimal points and without thousands separators"
        raise PefourierError(f"{shown(str(path))}: {problem}; {way_out}")
    if all(map(reads_as_number, np.unique(cells["label"]).tolist())):
        cells["label"] = np.array([f"{float(label):g}" for label in cells["label"].tolist()])
    numbers = [read_cells(table, text[i], head[i]) for i in channels]
    times = read_times(table, head[where["time"]])
    return replace(table, times=times, channels=np.column_stack(numbers))


def roles_of_columns(path: Path, head: Strings, chosen: dict[str, str]) -> list[str]:
    """Find the role of each column, "" for others; a role from --columns has no other column."""
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
            "each line is a time of a series; use --columns time=NAME,series=NAME,label=NAME"
        )
    return roles


def is_number(cell: str) -> bool:
    """Whether a cell is a number, possibly with a decimal comma."""
    return cell.lower() not in ABSENT and reads_as_number(cell.translate(POINT))


def read_cells(table: LongTable, cells: Strings, name: str, absent: Strings = ABSENT) -> Array:
    """Parse the cells of a column as numbers, nan if missing."""
    numbers = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            numbers[row] = float(cell.translate(POINT))
        except ValueError:
            numbers[row] = np.nan
        if not math.isfinite(numbers[row]) and cell.lower() not in absent:
            raise PefourierError(
                f"{table.place(row, name)}: expected a finite number, got {shown(cell)}; use "
                "--columns time=NAME, label=NAME or group=NAME if the column has another role"
            )
    return numbers


def read_times(table: LongTable, name: str) -> Array:
    """Parse times as numbers; dates become seconds, in UTC if they have a time zone."""
    cells = table.columns["time"].tolist()
    if reads_as_number(cells[0].translate(POINT)):
        return read_cells(table, cells, name, absent=())
    zones = [match and bool(match["zone"]) for match in map(DATE.fullmatch, cells)]
    if odd := [row for row, zone in enumerate(zones) if zone is None or zone != zones[0]]:
        raise PefourierError(
            f"{table.place(odd[0], name)}: expected numbers or ISO 8601, all with a zone or all "
            f"without, got {shown(cells[odd[0]])}; pandas.to_datetime reads other formats"
        )
    texts, file = [cell.translate(POINT) for cell in cells], name_of_file(str(table.path))
    parse = partial(np.array, texts, "datetime64[us]")  # converts zones to UTC, with a warning
    stamps = parse_or_refuse(parse, file, ".csv", f"write ISO 8601 in column {name}")
    return np.asarray((stamps - stamps.min()) / np.timedelta64(1, "s"))


def from_csv(path: Path, options: Options) -> Task:
    """Read examples or recordings from a .csv in long form."""
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
    make, times = recordings_of, np.concatenate(since)
    if are_examples(table, parts, options):
        make, (padded, _) = examples_of, padded_series([t[:, None] for t in since])
        times = np.maximum.accumulate(padded, axis=1).ravel()  # padding repeats the last time
    task = split.count_missing(make(table, parts, options), filled, lost)
    spans = np.nanmax(table.channels, axis=0) - np.nanmin(table.channels, axis=0)
    constant = np.array(table.names)[spans == 0].tolist()
    remarks = table.remarks | {"channels": [*table.names], "constant": constant}
    return with_times(replace(task, remarks=remarks), times, steps)


def rows_of_series(table: LongTable) -> list[Array]:
    """Return the rows of each series in time order, series sorted by name."""
    _, series = np.unique(table.columns["series"], return_inverse=True)
    order = np.lexsort((table.times, series))
    repeated = (np.diff(series[order]) == 0) & (np.diff(table.times[order]) == 0)
    for row in order[1:][repeated][:1]:
        raise PefourierError(
            f"{table.place(row)} has a time twice: {table.columns['time'][row]}; "
            "use --columns series=NAME to name the column that distinguishes series"
        )
    return np.split(order, np.cumsum(np.bincount(series))[:-1])


def are_examples(table: LongTable, parts: Sequence[Array], options: Options) -> bool:
    """Whether each series is an example of one class; otherwise series are recordings.

    If most series have one label, with different labels among series, a series with two labels is
    an error, unless --window or --stride requests cutting.
    """
    labels = [table.labels_of(part, "label") for part in parts]
    mixed = [i for i, names in enumerate(labels) if len(names) > 1]
    uniform = {names[0] for names in labels if len(names) == 1}
    is_cut = options.window is not None or options.stride is not None
    if mixed and len(uniform) > 1 and not is_cut and len(mixed) < TYPO * len(parts):
        refuse_several(table, parts[mixed[0]], "label", ", or --window ROWS to cut recordings")
    return not mixed


def refuse_several(table: LongTable, part: Array, role: str, way_out: str = "") -> None:
    """Reject a series with several labels, or groups, at the row of the rarest."""
    names = table.labels_of(part, role)
    row = next(i for i in part.tolist() if table.columns[role][i] == names[-1])
    raise PefourierError(
        f"{table.place(row)} has {len(names)} {role}s, {join(map(shown, names))}; give each series "
        f"one{way_out}"
    )


def groups_of(table: LongTable, parts: Sequence[Array]) -> list[str] | None:
    """Return the group of each series; None without a group column."""
    if "group" not in table.columns:
        return None
    for part in parts:
        if len(table.labels_of(part, "group")) > 1:
            refuse_several(table, part, "group")
    return [str(table.columns["group"][part[0]]) for part in parts]


def recordings_of(table: LongTable, parts: Sequence[Array], options: Options) -> Task:
    """Make a task of series with labelled rows; a group stays on one side."""
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


def read_anomalies(table: LongTable, positive: Strings) -> tuple[Array, tuple[str, str]]:
    """Find the anomalous rows and the two classes: from 0 and 1, or from names."""
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
            f"others have {shown(twin)}; use one spelling"
        )
    if len(chosen) > 1 or (not chosen and (len(names) > 2 or fewest == next_count)):
        raise PefourierError(
            f"{shown(str(table.path))}: rows have {len(names)} labels, "
            f"{shown(', '.join(sorted(names)))}; use --positive to name the label of anomalies: "
            f"--positive {shown(rarest)}"
        )
    anomaly = chosen[0] if chosen else rarest
    normal = f"not {anomaly}" if len(names) > 2 else next(n for n in names if n != anomaly)
    return labels == anomaly, (normal, anomaly)


def examples_of(table: LongTable, parts: Sequence[Array], options: Options) -> Task:
    """Make each series an example, with the label of all its lines."""
    labels = np.array([table.columns["label"][part[0]] for part in parts])
    groups = groups_of(table, parts)
    x, lengths = padded_series([table.channels[part] for part in parts])
    own = None if groups is None else np.array(groups)
    task = from_examples(str(table.path), x, labels, options, groups=own, lengths=lengths)
    return replace(task, grouped_by="a column called group")

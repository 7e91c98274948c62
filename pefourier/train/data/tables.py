"""Series in files of columns: .csv, .tsv, .txt or .parquet, or a folder of them.

Conventions
-----------
Columns with `USUAL` names, or named by --columns, are the times, series, labels and optional
groups; all others are channels, except columns without numbers and columns without a name (such as
row numbers from pandas). Units and endings of names do not matter: time_s, Timestamp [ms] and
is_faulty have the roles of time, timestamp and faulty. Of two possible times or labels, the usual
one is used and the other left out; several columns of series name a series together.

- *Long*: a line for each time of each series, in any order. Without a column of times, lines are in
  order; without a column of series, a file is one series. Times are numbers, or ISO 8601 with or
  without a time zone, and differ within a series.
- *Wide*: a line for each series, whose values are in columns with numbers, such as t0, t1, … or
  x_0, y_0, x_1, y_1, … for two channels. Missing numbers at the end shorten a series.
- *Folder*: a file for each series, with a column of labels, a file of labels, or a folder for each
  class.

If each series has a single label, series are examples of that class, and shorter ones are padded.
If labels change within series, series are recordings. If two labels are 0 and 1, or names of which
one is rarer, or if --positive names a label, a window with any row of that label is positive.
Otherwise labels are activities, and a window has the label of all of its rows. Numbers may have
decimal commas if commas do not separate cells.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from pefourier.encodings.sources.formats import reads_as_number
from pefourier.encodings.sources.tables import parse_or_refuse
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data import split
from pefourier.train.data.columns import POINT, Columns, coded, numbers_in, read_columns
from pefourier.train.data.examples import (
    check_labels,
    check_rows,
    fill_missing,
    from_examples,
    padded_series,
    with_times,
)
from pefourier.train.data.split import Task
from pefourier.train.options import Options
from pefourier.types import Array, Ints, Strings, Texts
from pefourier.writing.files import label as name_of_file
from pefourier.writing.text import join

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
WHO = ("unit", "machine", "patient", "subject", "person", "participant", "user", "device")
USUAL = {  # names of each role without case, units and endings, the most usual first
    "time": ("time", "timestamp", "datetime", "date", "elapsed", "t", "cycle", "step", "frame"),
    "series": ("series", "id", *WHO, "trial", "run", "recording", "session", "cycleid", "cycle"),
    "label": (
        *("label", "class", "target", "activity", "anomaly", "fault", "faulty", "failure"),
        *("condition", "outcome", "state", "y", "rul"),
    ),
    "group": ("group",),
}
FOLDERS = "names of folders"
NONE, UNUSED = "none", "unused"  # a column of --columns that is not there; a role
CHOOSE = "use --columns time=NAME,series=NAME,label=NAME"
TEXTS = ("series", "label", "group")  # roles whose cells are texts
WEAK = ("date", "t", "y", "cycle", "step", "frame")  # also channels: only if no other name fits
ENDINGS = re.compile(r"(_(id|no|nr|num|number|name|index|utc|sec|seconds?|min|hours?|[mun]?s|h))+$")
SENSORS = ("s", "ch", "channel", "sensor", "imu")
DATE = re.compile(  # ISO 8601 with its time zone
    r"\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d){0,2}([.,]\d+)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?)?"
)
TYPO = 0.5  # share of series with several labels below which such labels count as mistakes
FEWEST = 4  # values of a series in wide form
GAP = 2.5  # usual steps between two rows of a recording, above which no window spans them
EVEN = 0.9  # least share of steps that differ from the usual step by less than half
LISTS = (
    "labels",
    "label",
    "classes",
    "metadata",
    "annotations",
    "reference",
)  # files of labels in a folder


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a file, or of all files of a folder."""

    path: Path
    columns: Columns  # of the first file
    cells: list[Array]  # of all columns
    roles: list[str]  # of all columns, "" of channels
    lines: Array  # (n,) in the file
    files: Sequence[Path]
    file: Array  # (n,) number of the file
    texts: dict[str, tuple[Array, list[str]]]  # codes (n,) and names of a role
    remarks: dict[str, list[str]]  # by a code of `REMARKS`

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return self.columns.names

    def place(self, row: int, column: int | None = None) -> str:
        """Describe a cell's place: file, line, series and optional column."""
        where = f"{shown(str(self.files[self.file[row]]))}, line {self.lines[row]}: series "
        where += shown(self.common("series", [row])[0])
        return where if column is None else f"{where}, column {self.names[column]}"

    def common(self, role: str, rows: Ints | Array) -> list[str]:
        """Texts of a role in some rows, the most common first."""
        codes, names = self.texts[role]
        return [names[code] for code, _ in Counter(codes[rows].tolist()).most_common()]

    def numbers(self, column: int, *, missing: bool = True) -> Array:
        """Numbers of a column, nan if missing."""
        found = numbers_in(self.cells[column])
        for row in np.flatnonzero(np.isinf(found) if missing else ~np.isfinite(found))[:1]:
            raise PefourierError(
                f"{self.place(row, column)}: expected a finite number, got "
                f"{shown(self.cells[column][row])}; choose columns with --channels A,B, or use "
                "--columns time=NAME, label=NAME or group=NAME if the column has another role"
            )
        return found

    def lacks(self, problem: str, way_out: str = CHOOSE) -> PefourierError:
        """Return the error for a table with other columns than expected."""
        names = shown(", ".join(self.names))
        return PefourierError(
            f"{shown(str(self.path))} {problem}: its columns are {names}; {way_out}"
        )


def parse_roles(text: str | None) -> dict[str, str]:
    """Return the role of each column in --columns.

    >>> parse_roles("time=hour,series=unit,group=none")
    {'hour': 'time', 'unit': 'series', 'none': 'group'}
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


def plain_name(name: str) -> str:
    """Return a name of a column without case, units and endings.

    >>> [plain_name(n) for n in ("Time [s]", "timestamp_ms", "is_faulty", "activityID", "cycle_id")]
    ['time', 'timestamp', 'faulty', 'activity', 'cycleid']
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", "_", name).lower().strip("_").removeprefix("is_")
    whole = words.replace("_", "")
    is_usual = any(whole in usual for usual in USUAL.values())
    return whole if is_usual else ENDINGS.sub("", words).replace("_", "")


def find_roles(names: Strings, chosen: dict[str, str]) -> tuple[list[str], list[str]]:
    """Find the role of each column, "" for others; a chosen role has no other column.

    Further columns that fit a role have the role `UNUSED`. Also returns remarks about them.
    """
    roles, doubts = [chosen.get(name, "") for name in names], []
    plain = list(map(plain_name, names))
    for role, usual in USUAL.items():
        fits = sorted((usual.index(p), i) for i, p in enumerate(plain) if p in usual)
        free = [i for _, i in fits if not roles[i] and role not in chosen.values()]
        at = [i for i in free if plain[i] not in WEAK] or free[:1]
        for i in at:
            roles[i] = role if role == "series" or i == at[0] else UNUSED
        if len(at) > 1:
            fitting = join(names[i] for i in at)
            used = f"{fitting} together are" if role == "series" else f"{names[at[0]]} is"
            doubts.append(f"{fitting} fit {role}, {used} used (--columns {role}=NAME)")
    return roles, doubts


def read_table(path: Path, options: Options) -> Table:
    """Read the columns of a file, or of all files of a folder."""
    files = files_of_folder(path, options.labels) if path.is_dir() else [path]
    chosen = parse_roles(options.columns)

    def as_texts(names: Strings) -> list[int]:
        return [i for i, role in enumerate(find_roles(names, chosen)[0]) if role in TEXTS]

    parts = [read_columns(file, as_texts) for file in files]
    names, file = parts[0].names, np.repeat(np.arange(len(files)), [len(p.lines) for p in parts])
    roles, doubts = find_roles(names, chosen)
    cells = [np.concatenate(own) for own in zip(*(part.cells for part in parts), strict=False)]
    lines = np.concatenate([part.lines for part in parts])
    at = {role: [i for i, own in enumerate(roles) if own == role] for role in USUAL}
    remarks = {"columns": [f"{names[i]} as {role}" for role in USUAL for i in at[role]]}
    table = Table(path, parts[0], cells, roles, lines, files, file, {}, remarks)
    for part, other in zip(parts, files, strict=True):
        if part.names != names:
            unlike = f"has other columns than {shown(str(files[0]))}"
            raise replace(table, path=other, columns=part).lacks(unlike, "write the same columns")
    for name in chosen.keys() - {NONE, *names}:
        raise table.lacks(f"has no column {shown(name)}")
    used = [name for name, role in zip(names, roles, strict=True) if role]
    if len({*used}) < len(used):
        raise table.lacks(f"has several columns {Counter(used).most_common(1)[0][0]}")
    stems = [str(f.relative_to(path).with_suffix("")) if f != path else f.stem for f in files]
    naming = [cells[i] for i in at["series"]]
    if len(files) > 1 or not naming:
        naming = [np.array(stems, object)[file], *naming]
    texts = table.texts
    texts["series"] = coded(["/".join(map(str, own)) for own in zip(*naming, strict=True)])
    texts |= {role: coded(cells[i]) for role in ("label", "group") for i in at[role]}
    who = [i for i in at["series"] if plain_name(names[i]) in WHO]
    if who and len(at["series"]) > 1 and "group" not in (*texts, *chosen.values()):
        texts["group"] = coded(cells[who[0]])
        remarks["columns"].append(f"{names[who[0]]} as group")
    for role, (codes, found) in texts.items():
        for row in np.flatnonzero(codes == 0)[:1] if found[0] == "" else ():
            raise PefourierError(f"{table.place(row, at[role][0])}: {role} is missing")
    keys, which = (stems, file) if path.is_dir() else texts["series"][::-1]
    if own := labels_of_keys(path, keys, options.labels):
        role = "group" if own[1] == FOLDERS and at["label"] else "label"
        codes, found = coded(own[0])
        texts[role] = codes[which], found
        remarks["columns"].append(f"{own[1]} as {role}")
    if "label" in texts:
        codes, found = texts["label"]
        again, found = plain_labels(found)
        texts["label"] = again[codes], found
    return replace(table, remarks=remarks | {"doubts": doubts})


def files_of_folder(path: Path, labels: str | None) -> list[Path]:
    """Find the files of series in a folder, or in its folders: all of one suffix."""
    for pattern, suffix in product(("*", "*/*"), SUFFIXES):
        files = [f for f in sorted(path.glob(pattern)) if f.suffix.lower() == suffix]
        files = [f for f in files if not re.match(r"\.|readme", f.name, re.IGNORECASE)]
        files = [f for f in files if f.stem.lower() not in LISTS and str(f) != labels]
        sides = [f for side in ("_TRAIN", "_TEST") for f in files if f.stem.endswith(side)]
        if files:
            return sides if len(sides) == 2 else files
    raise PefourierError(
        f"{shown(str(path))} holds no NAME_TRAIN.ts and NAME_TEST.ts, no X.npy and no series in "
        f"{', '.join(SUFFIXES)}, with --labels FILE or in a folder for each class"
    )


def labels_of_keys(path: Path, keys: Strings, labels: str | None) -> tuple[list[str], str] | None:
    """Return the labels of series or files, and where they are from: a file, or names of folders.

    The file is that of --labels, or has a name of `LISTS` in the folder. Its first column names
    the series or files.
    """
    lists = [Path(labels)] if labels else [f for f in path.glob("*.*") if f.stem.lower() in LISTS]
    if not lists:
        folders = [key.rpartition("/")[0] for key in keys] if path.is_dir() else [""]
        return (folders, FOLDERS) if any(folders) else None
    found = read_columns(lists[0])
    columns = [[name, *cells] for name, cells in zip(found.names, found.cells, strict=True)]
    roles, _ = find_roles(found.names, {})
    at = roles.index("label") if "label" in roles else len(columns) - 1
    names = [re.sub(r"\.(csv|tsv|txt|parquet)$", "", name) for name in columns[0 if at else -1]]
    label = dict(zip(names, columns[at], strict=True))
    if lacking := [key for key in keys if key not in label]:
        raise PefourierError(
            f"{shown(str(lists[0]))} has no label of {shown(lacking[0])} ({len(lacking)} of "
            f"{len(keys)} lack one); write a line for each: name,label"
        )
    return [label[key] for key in keys], lists[0].name


def read_times(table: Table) -> Array | None:
    """Parse times as numbers; dates become seconds, in UTC if they have a time zone."""
    if "time" not in table.roles:
        return None
    column = table.roles.index("time")
    cells = table.cells[column]
    if cells.dtype == float or reads_as_number(cells[0].translate(POINT)):
        return table.numbers(column, missing=False)
    codes, stamps = coded(cells)
    zones = [match and bool(match["zone"]) for match in map(DATE.fullmatch, stamps)]
    odd = np.array([zone is None or zone != zones[codes[0]] for zone in zones])[codes]
    for row in np.flatnonzero(odd)[:1]:
        raise PefourierError(
            f"{table.place(row, column)}: expected numbers or ISO 8601, all with a zone or all "
            f"without, got {shown(cells[row])}; pandas.to_datetime reads other formats"
        )
    texts = [stamp.translate(POINT) for stamp in stamps]
    parse = partial(np.array, texts, "datetime64[us]")  # converts zones to UTC, with a warning
    file, advice = name_of_file(str(table.path)), f"write ISO 8601 in {table.names[column]}"
    found = parse_or_refuse(parse, file, table.path.suffix, advice)
    return np.asarray(((found - found.min()) / np.timedelta64(1, "s"))[codes])


def from_tables(path: Path, options: Options) -> Task:
    """Read examples or recordings from a file of columns, or from a folder of such files."""
    table = read_table(path, options)
    if options.predict is not None:  # without labels, or regardless of them
        unknown_labels = np.zeros(len(table.lines), int), ["?"]
        table = replace(table, texts=table.texts | {"label": unknown_labels})
    is_file_series = path.is_dir() and "label" in table.texts and "label" not in table.roles
    if "time" not in table.roles and not is_file_series:
        table = with_label_at_an_end(table)
        values = value_columns(table.names, table.roles)
        is_line = "series" not in table.roles or len(table.texts["series"][1]) == len(table.lines)
        if values and is_line and "label" in table.texts:
            return from_wide(table, values, options)
    return from_long(table, options)


def value_columns(names: Strings, roles: Strings) -> dict[str, list[int]]:
    """Columns of the values of each channel of a table in wide form, in order; {} in long form.

    >>> value_columns(["label", "x_0", "y_0", "x_1", "y_1", "x_2", "y_2", "x3", "y3"], [""] * 9)
    {'x': [1, 3, 5, 7], 'y': [2, 4, 6, 8]}
    """
    found: dict[str, list[tuple[int, int]]] = {}
    is_unnamed = 2 * names.count("") > len(names)
    for i, name in enumerate(names):
        text = f"{i}" if is_unnamed and not name else name
        match = re.fullmatch(r"(.*?)[\W_]*([0-9]{1,9})", text)
        if match and not roles[i] and match[1].lower() not in SENSORS:
            found.setdefault(match[1], []).append((int(match[2]), i))
    values = {name: sorted(own) for name, own in found.items() if len(own) >= FEWEST}
    is_wide = len({tuple(number for number, _ in own) for own in values.values()}) == 1
    return {name: [i for _, i in own] for name, own in values.items()} if is_wide else {}


def with_label_at_an_end(table: Table) -> Table:
    """Use the first or the last column as label in a wide table without a column of labels."""
    values = {i for own in value_columns(table.names, table.roles).values() for i in own}
    values = values if table.columns.is_named or not values else {-1}
    ends = [i for i in (0, len(table.names) - 1) if not table.roles[i] and i not in values]
    found = [i for i in ends if may_be_labels(table.cells[i])]
    if "label" in table.texts or not values or not found:
        return table
    names = [table.names[i] for i in found]
    roles = ["label" if i == found[0] else role for i, role in enumerate(table.roles)]
    doubt = [f"{join(names)} fit label, {names[0]} is used (--columns label=NAME)"]
    remarks = {"columns": [*table.remarks["columns"], f"{names[0]} as label"]}
    remarks["doubts"] = table.remarks["doubts"] + doubt * (len(found) > 1)
    texts = table.texts | {"label": plain_labels(table.cells[found[0]])}
    return replace(table, roles=roles, texts=texts, remarks=remarks)


def may_be_labels(cells: Array) -> bool:
    """Whether cells are names or whole numbers, of which most occur again."""
    numbers = numbers_in(cells)
    whole = np.isinf(numbers).all() or not (numbers % 1).any()
    return bool(whole and 1 < len({*cells}) <= len(cells) // 2)


def plain_labels(cells: Strings | Array) -> tuple[Array, list[str]]:
    """Return codes and names of labels; 1 and 1.0 are a class."""
    texts = [str(cell) for cell in cells]
    are_numbers = all(map(reads_as_number, {*texts}))
    return coded([f"{float(text):g}" for text in texts] if are_numbers else texts)


def from_wide(table: Table, values: dict[str, list[int]], options: Options) -> Task:
    """Make each line an example; missing numbers at its end shorten it."""
    every = [table.numbers(i) for own in values.values() for i in own]
    x = np.stack(every, axis=1).reshape(len(table.lines), len(values), -1).swapaxes(1, 2)
    known = ~np.isnan(x).all(axis=2)
    lengths = np.where(known.any(axis=1), x.shape[1] - known[:, ::-1].argmax(axis=1), x.shape[1])
    tested = int((table.file == 1).sum()) if len(table.files) == 2 else None
    remarks = {"read": [f"a series in each line, {x.shape[1]} values"]}
    remarks |= {"channels": list(values) * (len(values) > 1), **table.remarks}
    return examples_of(table, x, lengths, np.arange(len(x)), options, remarks, tested)


def examples_of(
    table: Table,
    x: Array,
    lengths: Array,
    rows: Array,
    options: Options,
    remarks: dict[str, list[str]],
    tested: int | None = None,
) -> Task:
    """Make a task of examples x, whose label and group are in `rows` of the table."""
    own = {role: np.array(names)[codes[rows]] for role, (codes, names) in table.texts.items()}
    task = from_examples(
        str(table.path),
        x,
        own["label"],
        options,
        tested=tested if options.split == "blocks" else None,
        groups=own.get("group"),
        lengths=lengths,
    )
    names = own["series"].tolist() if len({*own["series"].tolist()}) == len(x) else []
    return replace(task, remarks=remarks, grouped_by="a column called group", names=names)


def from_long(table: Table, options: Options) -> Task:
    """Read examples or recordings from a line for each time of each series."""
    if "label" not in table.texts:
        way_out = f"{CHOOSE}, or --labels FILE with a label for each series"
        raise table.lacks(f"lacks a column label ({', '.join(USUAL['label'])})", way_out)
    found, remarks = channel_columns(table, options.channels)
    values, times = np.column_stack([table.numbers(i) for i in found]), read_times(table)
    clock = np.arange(len(values)) if times is None else times
    parts = rows_of_series(table, clock)
    rising = [
        i
        for i, x in zip(found, values.T, strict=True)
        if all((np.diff(x[p]) > 0).all() for p in parts)
    ]
    if times is None and (rising or not is_in_order(table)):
        hint = f"; {table.names[rising[0]]} increases in each series" if rising else ""
        raise table.lacks(f"lacks a column time ({', '.join(USUAL['time'])}){hint}")
    piece = pieces_of(clock, parts) if options.positions == "index" else np.zeros(len(values), int)
    names = [table.names[i] for i in found]
    if options.missing is None:
        fill_missing(values, None, lambda row, i: table.place(row, found[i]), names)
    filled, lost = 0, len(values)
    for i, part in enumerate(parts):
        place = partial(lambda part, row, i: table.place(part[row], found[i]), part)
        rows, complete, count = fill_missing(values[part], options.missing, place, names)
        parts[i] = part[complete]
        values[parts[i]] = rows
        filled, lost = filled + count, lost - len(rows)
    spans = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
    remarks["constant"] = np.array(names)[spans == 0].tolist()
    since = [clock[part] - clock[part[0]] for part in parts]
    if options.predict is not None or are_examples(table, parts, options):
        x, lengths = padded_series([values[part] for part in parts])
        remarks["read"] = ["a line for each time of a series"]
        first = np.array([part[0] for part in parts])
        refuse_mixed(table, parts, "group")
        task = examples_of(table, x, lengths, first, options, remarks)
        padded, _ = padded_series([own[:, None] for own in since])
        every = np.maximum.accumulate(padded, axis=1).ravel()  # padding repeats the last time
    else:
        remarks["read"] = [f"labels in the lines of {len(parts)} recordings"]
        task = replace(recordings_of(table, values, parts, piece, options), remarks=remarks)
        every = np.concatenate(since)
    task = split.count_missing(task, filled, lost)
    steps = np.concatenate([*map(np.diff, since)])
    return task if times is None else with_times(task, every, steps)


def is_in_order(table: Table) -> bool:
    """Whether lines without times are in order: series and labels stay for several lines."""
    runs = sum(np.diff(codes) != 0 for codes, _ in table.texts.values())
    return bool(FEWEST * (1 + np.count_nonzero(runs)) <= len(table.lines))


def channel_columns(table: Table, wanted: str | None) -> tuple[list[int], dict[str, list[str]]]:
    """Find the columns of channels, by --channels or all with numbers; also return remarks."""
    names, cells = table.names, table.cells
    free = [i for i, role in enumerate(table.roles) if role in ("", UNUSED)]
    asked = [name.strip() for name in wanted.split(",")] if wanted is not None else []
    for name in {*asked} - {*names}:
        raise unknown(f"column of --channels in {table.path}", name, [names[i] for i in free])
    found = [names.index(name) for name in dict.fromkeys(asked)] or [
        i
        for i in free
        if names[i] and not table.roles[i] and np.isfinite(numbers_in(cells[i])).any()
    ]
    texts = {names[i]: "".join(map(str, cells[i])) for i in found if cells[i].dtype == object}
    commas, points = ([name for name, text in texts.items() if mark in text] for mark in ",.")
    if not found or (commas and (points or table.columns.delimiter == ",")):
        problem = f"numbers of {commas[0]} have commas" if commas else "no other column has numbers"
        way_out = "write channels with decimal points and without thousands separators"
        raise PefourierError(f"{shown(str(table.path))}: {problem}; {way_out}")
    left = [names[i] or f"number {i + 1}" for i in free if i not in found]
    remarks = {"channels": [names[i] for i in found], "left out": left, "commas": commas}
    if table.path.is_file() and "series" not in table.roles:
        table.remarks["columns"].append("the whole file as one series")
    return found, table.remarks | remarks


def rows_of_series(table: Table, times: Array) -> list[Array]:
    """Return the rows of each series in time order, series sorted by name."""
    series, _ = table.texts["series"]
    order = np.lexsort((times, series))
    repeated = (np.diff(series[order]) == 0) & (np.diff(times[order]) == 0)
    for row in order[1:][repeated][:1]:
        time = table.cells[table.roles.index("time")][row]
        raise PefourierError(
            f"{table.place(row)} has a time twice: {time}; use --columns series=NAME to name the "
            "column that distinguishes series"
        )
    return np.split(order, np.cumsum(np.bincount(series))[:-1])


def pieces_of(times: Array, parts: Sequence[Array]) -> Array:
    """Number the pieces between gaps in each series (n,), if most times are in equal steps."""
    piece, steps = np.zeros(len(times), int), [np.diff(times[part]) for part in parts]
    every = np.concatenate(steps)
    usual = np.median(every) if len(every) else 0
    if np.count_nonzero(np.abs(every - usual) < usual / 2) >= EVEN * len(every):
        for part, own in zip(parts, steps, strict=True):
            piece[part[1:]] = np.cumsum(own > GAP * usual)
    return piece


def are_examples(table: Table, parts: Sequence[Array], options: Options) -> bool:
    """Whether each series is an example of one class; otherwise series are recordings.

    If most series have one label, with different labels among series, a series with two labels is
    an error, unless --window or --stride requests cutting.
    """
    labels = [table.common("label", part) for part in parts]
    mixed = sum(len(names) > 1 for names in labels)
    uniform = {names[0] for names in labels if len(names) == 1}
    is_cut = options.window is not None or options.stride is not None
    if mixed and len(uniform) > 1 and not is_cut and mixed < TYPO * len(parts):
        refuse_mixed(table, parts, "label", ", or --window ROWS to cut recordings")
    return not mixed


def refuse_mixed(table: Table, parts: Sequence[Array], role: str, way_out: str = "") -> None:
    """Reject a series with several labels, or groups, at the row of the rarest."""
    for part in parts if role in table.texts else ():
        names = table.common(role, part)
        if len(names) > 1:
            row = next(i for i in part.tolist() if table.common(role, [i]) == names[-1:])
            several = f"{len(names)} {role}s, {join(map(shown, names))}"
            raise PefourierError(f"{table.place(row)} has {several}; give each series one{way_out}")


def recordings_of(
    table: Table,
    values: Array,
    parts: Sequence[Array],
    piece: Array,
    options: Options,
) -> Task:
    """Make a task of series with labelled rows; a group stays on one side."""
    label, classes = classes_of_rows(table, options.positive)
    refuse_mixed(table, parts, "group")
    check_rows(str(table.path), values)
    units = {
        role: [table.common(role, part)[0] for part in parts]
        for role in ("series", "group")
        if role in table.texts
    }
    changes = label if label.dtype != bool else np.zeros(len(label), int)
    series = [
        split.Series(
            name,
            values[part].astype(np.float32),
            label[part],
            name,
            name,
            gaps=(np.flatnonzero(np.diff(piece[part])) + 1).tolist(),
            changes=(np.flatnonzero(np.diff(changes[part])) + 1).tolist(),
        )
        for name, part in zip(units["series"], parts, strict=True)
    ]
    grouped = len({*units.get("group", ())}) > 1 and options.split != "random"
    dealing = split.Dealing(units=units["group" if grouped else "series"], grouped=grouped)
    cut = *options.cut, dealing
    return split.split_series(str(table.path), series, *cut, own_scale=True, classes=classes)


def classes_of_rows(table: Table, positive: Strings) -> tuple[Array, Texts]:
    """Return the class of each row and the classes: bool for anomalies, numbers for activities."""
    codes, names = table.texts["label"]
    check_labels(str(table.path), names, len(codes))
    counts = np.bincount(codes)
    order = [names[i] for i in np.argsort(-counts, kind="stable")]
    lower = [name.lower() for name in order]
    for twin, name in ((lower.index(name.lower()), name) for name in order):
        if order[twin] != name:
            row = int(np.flatnonzero(codes == names.index(name))[0])
            problem = f"has label {shown(name)}, others have {shown(order[twin])}"
            raise PefourierError(f"{table.place(row)} {problem}; use one spelling")
    chosen = [name for name in names if name in positive]
    if len(chosen) > 1:
        raise PefourierError(
            f"{table.path}: --positive names {join(chosen)}; name one label of a row"
        )
    if not chosen and {*names} <= {"0", "1"}:
        return codes.astype(bool), ("normal", "anomaly")
    column = table.names[table.roles.index("label")] if "label" in table.roles else ""
    rare = len(names) == 2 and counts[0] != counts[1] and plain_name(column) != "activity"
    if not chosen and (not rare or all(map(reads_as_number, names))):
        return codes, tuple(names)
    anomaly = chosen[0] if chosen else order[-1]
    normal = f"not {anomaly}" if len(names) > 2 else order[order[0] == anomaly]
    return codes == names.index(anomaly), (normal, anomaly)

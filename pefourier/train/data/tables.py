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
from pefourier.train.data.columns import (
    POINT,
    Cells,
    Head,
    coded,
    is_number,
    numbers_in,
    read_columns,
    read_head,
)
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
NONE, UNUSED = "none", "unused"  # a column of --columns that is not there; a role
CHOOSE = "use --columns time=NAME,series=NAME,label=NAME"
WEAK = ("date", "t", "y", "cycle", "step", "frame")  # also channels: only if no other name fits
ENDINGS = re.compile(r"(_(id|no|nr|num|number|name|index|utc|sec|seconds?|min|hours?|[mun]?s|h))+$")
ACTIVITY, SENSORS = "activity", ("s", "ch", "channel", "sensor", "imu")
DATE = re.compile(  # ISO 8601 with its time zone
    r"\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d){0,2}([.,]\d+)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?)?"
)
TYPO = 0.5  # share of series with several labels below which such labels count as mistakes
FEWEST = 4  # values of a series in wide form
GAP = 2.5  # usual steps between two rows of a recording, above which no window spans them
EVEN = 0.9  # least share of steps that differ from the usual step by less than half
LABELS = ("labels", "label", "classes", "metadata", "annotations", "reference")  # files of labels


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a file, or of all files of a folder."""

    path: Path
    head: Head  # of the first file
    names: list[str]  # of all columns
    cells: list[Cells]
    roles: list[str]  # of all columns, "" of channels
    lines: np.ndarray  # (n,) in the file
    files: Sequence[Path]
    file: np.ndarray  # (n,) number of the file
    texts: dict[str, tuple[np.ndarray, list[str]]]  # codes (n,) and names of a role
    remarks: dict[str, list[str]]  # by a code of `split.REMARKS`

    def place(self, row: int, column: str = "") -> str:
        """Describe a cell's place: file, line, series and optional column."""
        where = f"{shown(str(self.files[self.file[row]]))}, line {self.lines[row]}"
        where += f": series {shown(self.text('series', row))}"
        return f"{where}, column {column}" if column else where

    def text(self, role: str, row: int) -> str:
        """Text of a role in a row."""
        codes, names = self.texts[role]
        return str(names[codes[row]])

    def common(self, role: str, part: np.ndarray) -> list[str]:
        """Texts of a role in some rows, the most common first."""
        codes, names = self.texts[role]
        return [names[code] for code, _ in Counter(codes[part].tolist()).most_common()]

    def numbers(self, column: int, *, missing: bool = True) -> np.ndarray:
        """Numbers of a column, nan if missing."""
        found = numbers_in(self.cells[column])
        for row in np.flatnonzero(np.isinf(found) if missing else ~np.isfinite(found))[:1]:
            raise PefourierError(
                f"{self.place(row, self.names[column])}: expected a finite number, got "
                f"{shown(self.cells[column][row])}; choose columns with --channels A,B, or use "
                "--columns time=NAME, label=NAME or group=NAME if the column has another role"
            )
        return found


def parse_columns(text: str | None) -> dict[str, str]:
    """Return the column of each role in --columns.

    >>> parse_columns("time=hour,series=unit,group=none")
    {'time': 'hour', 'series': 'unit', 'group': 'none'}
    """
    columns: dict[str, str] = {}
    for item in text.split(",") if text is not None else ():
        key, _, name = (part.strip() for part in item.partition("="))
        role = "series" if key == "id" else key
        if role not in USUAL:
            raise unknown("role of --columns", key, tuple(USUAL))
        if not name or role in columns or (name != NONE and name in columns.values()):
            raise PefourierError(
                f"--columns {shown(item)} lacks a column, or repeats a role or column; give each "
                f"role once: {key}=NAME"
            )
        columns[role] = name
    return columns


def plain_name(name: str) -> str:
    """Return a name of a column without case, units and endings.

    >>> [plain_name(n) for n in ("Time [s]", "timestamp_ms", "is_faulty", "activityID", "cycle_id")]
    ['time', 'timestamp', 'faulty', 'activity', 'cycleid']
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", "_", name).lower().strip("_")
    words = words.removeprefix("is_")
    whole = words.replace("_", "")
    is_usual = any(whole in usual for usual in USUAL.values())
    return whole if is_usual else ENDINGS.sub("", words).replace("_", "")


def find_roles(
    path: Path, names: Sequence[str], columns: dict[str, str]
) -> tuple[list[str], list[str]]:
    """Find the role of each column, "" for others; a role from --columns has no other column.

    Further columns that fit a role have the role `UNUSED`. Also returns remarks about them.
    """
    for name in {*columns.values()} - {NONE, *names}:
        raise PefourierError(
            f"{shown(str(path))} has no column {shown(name)}: {first_line(names)}; {CHOOSE}"
        )
    chosen = {name: role for role, name in columns.items()}
    roles, doubts = [chosen.get(name, "") for name in names], []
    plain = list(map(plain_name, names))
    for role, usual in USUAL.items():
        at = [i for i, own in enumerate(roles) if own == role]
        if role not in columns:
            fits = sorted((usual.index(p), i) for i, p in enumerate(plain) if p in usual)
            free = [i for _, i in fits if not roles[i]]
            at = [i for i in free if plain[i] not in WEAK] or free[:1]
        fitting = [names[i] for i in at]
        if len(set(fitting)) < len(at):
            raise PefourierError(
                f"{shown(str(path))} has several columns {fitting[0]}: {first_line(names)}"
            )
        if len(at) > 1:
            used = f"{join(fitting)} together are" if role == "series" else f"{fitting[0]} is"
            doubts.append(f"{join(fitting)} fit {role}, {used} used (--columns {role}=NAME)")
        for i in at:
            roles[i] = role if role == "series" or i == at[0] else UNUSED
    return roles, doubts


def first_line(names: Sequence[str]) -> str:
    """Quote the names of the columns."""
    return f"its first line names {shown(', '.join(names))}"


def read_table(path: Path, options: Options) -> Table:
    """Read the columns of a file, or of all files of a folder."""
    files = files_of_folder(path, options.labels) if path.is_dir() else [path]
    columns, heads = parse_columns(options.columns), list(map(read_head, files))
    names, parts = heads[0].names, []
    roles, doubts = find_roles(files[0], names, columns)
    at = {role: [i for i, own in enumerate(roles) if own == role] for role in USUAL}
    for head in heads:
        if head.names != names:
            raise PefourierError(
                f"{shown(str(head.path))}: {first_line(head.names)}, that of "
                f"{shown(str(files[0]))} {shown(', '.join(names))}; write the same columns"
            )
        parts.append(read_columns(head, at["series"] + at["label"] + at["group"]))
    cells = [join_cells([own[i] for own, _ in parts]) for i in range(len(names))]
    lines = np.concatenate([numbers for _, numbers in parts])
    file = np.repeat(np.arange(len(files)), [len(numbers) for _, numbers in parts])
    texts = {role: coded(cells[at[role][0]]) for role in ("label", "group") if at[role]}
    stems = [str(f.relative_to(path).with_suffix("")) if f != path else f.stem for f in files]
    naming = [cells[i] for i in at["series"]]
    if len(files) > 1 or not naming:
        naming = [[stems[i] for i in file.tolist()], *naming]
    texts["series"] = coded([*map("/".join, zip(*naming, strict=True))])
    who = [i for i in at["series"] if plain_name(names[i]) in WHO]
    if who and len(at["series"]) > 1 and not {"group"} & {*texts, *columns}:
        texts["group"] = coded(cells[who[0]])
        at["group"] = who[:1]
    keys, which = (stems, file) if path.is_dir() else texts["series"][::-1]
    if labels := labels_of_keys(path, keys, options.labels):
        codes, found = coded(labels)
        texts["label"] = codes[which], found
    elif path.is_dir() and files[0].parent != path:
        role = "group" if at["label"] else "label"
        codes, found = coded([f.parent.name for f in files])
        texts[role] = codes[file], found
    taken = [f"{names[i]} as {role}" for role in USUAL for i in at[role]]
    if "label" in texts and not at["label"]:
        taken.append("labels of a file as label" if labels else "names of folders as label")
    remarks = {"columns": taken, "doubts": doubts}
    if all(map(reads_as_number, texts["label"][1]) if "label" in texts else [False]):  # 1.0 is 1
        codes, found = texts["label"]
        again, found = coded([f"{float(name):g}" for name in found])
        texts["label"] = again[codes], found
    table = Table(path, heads[0], names, cells, roles, lines, files, file, texts, remarks)
    for role, (codes, found) in texts.items():
        for row in np.flatnonzero(codes == 0)[:1] if found[0] == "" else ():
            raise PefourierError(f"{table.place(row, names[at[role][0]])}: {role} is missing")
    return table


def join_cells(parts: Sequence[Cells]) -> Cells:
    """Join the cells of a column of several files."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    texts = [part if isinstance(part, Sequence) else map(repr, part.tolist()) for part in parts]
    return [cell for part in texts for cell in part]


def files_of_folder(path: Path, labels: str | None) -> list[Path]:
    """Find the files of series in a folder, or in its folders: all of one suffix."""
    for pattern, suffix in product(("*", "*/*"), SUFFIXES):
        files = [f for f in sorted(path.glob(pattern)) if f.suffix.lower() == suffix]
        files = [f for f in files if not re.match(r"\.|readme", f.name, re.IGNORECASE)]
        files = [f for f in files if f.stem.lower() not in LABELS and str(f) != labels]
        sides = [[f for f in files if f.stem.endswith(side)] for side in ("_TRAIN", "_TEST")]
        if [*map(len, sides)] == [1, 1]:
            return sides[0] + sides[1]
        if files:
            return files
    raise PefourierError(
        f"{shown(str(path))} holds no NAME_TRAIN.ts and NAME_TEST.ts, no X.npy and no series in "
        f"{', '.join(SUFFIXES)}, with --labels FILE or in a folder for each class"
    )


def labels_of_keys(path: Path, keys: Sequence[str], labels: str | None) -> list[str]:
    """Return the labels of series or files from --labels, or from a file of labels in a folder.

    The file has a column with the names of the series or files, and a column of labels.
    """
    beside = [f for f in sorted(path.glob("*")) if f.stem.lower() in LABELS and f.is_file()]
    if labels is None and not beside:
        return []
    file = beside[0] if labels is None else Path(labels)
    head = read_head(file)
    cells, _ = read_columns(head, range(len(head.names)))
    columns = [[name, *own] for name, own in zip(head.names, cells, strict=True)]
    stems = [[re.sub(r"\.(csv|tsv|txt|parquet)$", "", cell) for cell in own] for own in columns]
    naming = max(range(len(stems)), key=lambda i: len({*stems[i]} & {*keys}))
    others = [i for i in range(len(stems)) if i != naming]
    roles = find_roles(file, head.names, {})[0]
    others = [i for i in others if roles[i] == "label"] or others
    label = dict(zip(stems[naming], columns[others[0]], strict=True)) if len(others) == 1 else {}
    if lacking := [key for key in keys if key not in label]:
        raise PefourierError(
            f"{shown(str(file))} has no label of {shown(lacking[0])} ({len(lacking)} of "
            f"{len(keys)} lack one); write a line for each: name,label"
        )
    return [label[key] for key in keys]


def read_times(table: Table) -> np.ndarray | None:
    """Parse times as numbers; dates become seconds, in UTC if they have a time zone."""
    if "time" not in table.roles:
        return None
    column = table.roles.index("time")
    cells = table.cells[column]
    if isinstance(cells, np.ndarray) or reads_as_number(cells[0].translate(POINT)):
        return table.numbers(column, missing=False)
    codes, stamps = coded(cells)
    zones = [match and bool(match["zone"]) for match in map(DATE.fullmatch, stamps)]
    odd = np.array([zone is None or zone != zones[codes[0]] for zone in zones])[codes]
    for row in np.flatnonzero(odd)[:1]:
        raise PefourierError(
            f"{table.place(row, table.names[column])}: expected numbers or ISO 8601, all with a "
            f"zone or all without, got {shown(cells[row])}; pandas.to_datetime reads other formats"
        )
    texts = [stamp.translate(POINT) for stamp in stamps]
    parse = partial(np.array, texts, "datetime64[us]")  # converts zones to UTC, with a warning
    file, advice = name_of_file(str(table.path)), f"write ISO 8601 in {table.names[column]}"
    found = parse_or_refuse(parse, file, table.path.suffix, advice)
    return np.asarray(((found - found.min()) / np.timedelta64(1, "s"))[codes])


def from_tables(path: Path, options: Options) -> Task:
    """Read examples or recordings from a file of columns, or from a folder of such files."""
    table = read_table(path, options)
    labelled = path.is_dir() and "label" in table.texts and "label" not in table.roles
    if "time" in table.roles or labelled:
        return from_long(table, options)
    table = with_label_at_an_end(table)
    values = value_columns(table.names, table.roles)
    is_named = "series" in table.roles
    if (
        values
        and "label" in table.texts
        and (not is_named or len(table.texts["series"][1]) == len(table.lines))
    ):
        return from_wide(table, values, options)
    return from_long(table, options)


def value_columns(names: Sequence[str], roles: Sequence[str]) -> dict[str, list[int]]:
    """Columns of the values of each channel of a table in wide form, in order; {} in long form.

    >>> value_columns(["label", "x_0", "y_0", "x_1", "y_1", "x_2", "y_2", "x3", "y3"], [""] * 9)
    {'x': [1, 3, 5, 7], 'y': [2, 4, 6, 8]}
    """
    found: dict[str, list[tuple[int, int]]] = {}
    is_unnamed = 2 * names.count("") > len(names)
    for i, name in enumerate(names):
        text = f"{i}" if is_unnamed and not name else name
        match = re.fullmatch(r"(.*?)[\W_]*([0-9]{1,9})", text)
        if match and not roles[i]:
            found.setdefault(match[1], []).append((int(match[2]), i))
    values = {
        name: sorted(own)
        for name, own in found.items()
        if len(own) >= FEWEST and name.lower() not in SENSORS
    }
    is_wide = len({tuple(number for number, _ in own) for own in values.values()}) == 1
    return {name: [i for _, i in own] for name, own in values.items()} if is_wide else {}


def with_label_at_an_end(table: Table) -> Table:
    """Use the first or the last column as label in a wide table without a column of labels."""
    values = {i for own in value_columns(table.names, table.roles).values() for i in own}
    at = [i for i in (0, len(table.names) - 1) if not table.roles[i]]
    if table.head.is_named:
        at = [i for i in at if i not in values]
    found = [i for i in at if may_be_labels(table.cells[i])]
    if "label" in table.texts or not values or not found:
        return table
    roles, names = list(table.roles), [table.names[i] for i in found]
    roles[found[0]] = "label"
    doubt = [f"{join(names)} fit label, {names[0]} is used (--columns label=NAME)"]
    remarks = {
        "columns": [*table.remarks["columns"], f"{names[0]} as label"],
        "doubts": table.remarks["doubts"] + doubt * (len(found) > 1),
    }
    texts = table.texts | {"label": coded(table.cells[found[0]])}
    return replace(table, roles=roles, texts=texts, remarks=remarks)


def may_be_labels(cells: Cells) -> bool:
    """Whether cells are names or whole numbers, of which most occur again."""
    numbers = numbers_in(cells)
    whole = np.isinf(numbers).all() or not (numbers % 1).any()
    return bool(whole) and 1 < len(set(cells)) <= len(cells) // 2


def from_wide(table: Table, values: dict[str, list[int]], options: Options) -> Task:
    """Make each line an example; missing numbers at its end shorten it."""
    every = [table.numbers(i) for own in values.values() for i in own]
    x = np.stack(every, axis=1).reshape(len(table.lines), len(values), -1).swapaxes(1, 2)
    known = ~np.isnan(x).all(axis=2)
    lengths = np.where(known.any(axis=1), x.shape[1] - known[:, ::-1].argmax(axis=1), x.shape[1])
    labels, names = table.texts["label"]
    group = table.texts.get("group")
    tested = int((table.file == 1).sum()) if len(table.files) == 2 else None
    task = from_examples(
        str(table.path),
        x,
        np.array(names)[labels],
        options,
        tested=tested if options.split == "blocks" else None,
        groups=None if group is None else np.array(group[1])[group[0]],
        lengths=lengths,
    )
    how = f"one line per series, {x.shape[1]} values"
    remarks = {**table.remarks, "read": [how], "channels": list(values) * (len(values) > 1)}
    return replace(task, remarks=remarks, grouped_by="a column called group")


def from_long(table: Table, options: Options) -> Task:
    """Read examples or recordings from a line for each time of each series."""
    lacking = ["label"] * ("label" not in table.texts)
    lacking += ["time"] * ("time" not in table.roles and not is_in_order(table))
    for role in lacking:
        raise PefourierError(
            f"{shown(str(table.path))} lacks a column {role} ({', '.join(USUAL[role])}): "
            f"{first_line(table.names)}; {CHOOSE}, or --labels FILE with a label for each series"
        )
    channels, remarks = channel_columns(table, options.channels)
    names = [table.names[i] for i in channels]
    values = np.column_stack([table.numbers(i) for i in channels])
    times = read_times(table)
    clock = np.arange(len(values)) if times is None else times
    parts = rows_of_series(table, clock)
    for i in channels if times is None else ():
        if all((np.diff(table.numbers(i)[part]) > 0).all() for part in parts):
            raise PefourierError(
                f"{shown(str(table.path))} lacks a column time, and {table.names[i]} increases in "
                f"each series; use --columns time={table.names[i]}, or --channels without it"
            )
    piece = pieces_of(clock, parts) if options.positions == "index" else np.zeros(len(values), int)
    if options.missing is None:
        fill_missing(values, None, lambda row, i: table.place(row, names[i]), names)
    filled, lost = 0, len(values)
    for i, part in enumerate(parts):
        place = partial(lambda part, row, i: table.place(part[row], names[i]), part)
        rows, complete, count = fill_missing(values[part], options.missing, place, names)
        parts[i] = part[complete]
        values[parts[i]] = rows
        filled, lost = filled + count, lost - len(rows)
    since = [clock[part] - clock[part[0]] for part in parts]
    if are_examples(table, parts, options):
        how, task = "one line per time of a series", examples_of(table, values, parts, options)
        padded, _ = padded_series([own[:, None] for own in since])
        every = np.maximum.accumulate(padded, axis=1).ravel()  # padding repeats the last time
    else:
        how = f"labels in the lines of {len(parts)} recordings"
        task, every = recordings_of(table, values, parts, piece, options), np.concatenate(since)
    spans = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
    remarks |= {"constant": np.array(names)[spans == 0].tolist(), "read": [how]}
    if table.path.is_file() and "series" not in table.roles:
        remarks["columns"] = [*remarks["columns"], "the whole file as one series"]
    task = split.count_missing(replace(task, remarks=remarks), filled, lost)
    steps = np.concatenate([*map(np.diff, since)])
    return task if times is None else with_times(task, every, steps)


def is_in_order(table: Table) -> bool:
    """Whether lines without times are in order: series and labels stay for several lines."""
    runs = sum(np.diff(codes) != 0 for codes, _ in table.texts.values())
    return bool(FEWEST * (1 + np.count_nonzero(runs)) <= len(table.lines))


def channel_columns(table: Table, wanted: str | None) -> tuple[list[int], dict[str, list[str]]]:
    """Find the columns of channels, by --channels or all with numbers; also return remarks."""
    names, cells, path = table.names, table.cells, shown(str(table.path))
    free = [i for i, role in enumerate(table.roles) if role in ("", UNUSED)]
    if wanted is None:
        found = [i for i in free if not table.roles[i] and names[i]]
        found = [
            i for i in found if isinstance(cells[i], np.ndarray) or any(map(is_number, cells[i]))
        ]
    else:
        asked = [name.strip() for name in wanted.split(",")]
        for name in asked:
            if name not in names:
                raise unknown(f"column of --channels in {path}", name, [names[i] for i in free])
        found = [names.index(name) for name in dict.fromkeys(asked)]
    texts = {names[i]: "".join(cells[i]) for i in found if not isinstance(cells[i], np.ndarray)}
    commas, points = ([name for name, text in texts.items() if mark in text] for mark in ",.")
    if not found or (commas and (points or table.head.delimiter == ",")):
        problem = f"numbers of {commas[0]} have commas" if commas else "no other column has numbers"
        way_out = "write channels with decimal points and without thousands separators"
        raise PefourierError(f"{path}: {problem}; {way_out}")
    left = [names[i] or f"number {i + 1}" for i in free if i not in found]
    channels = [names[i] for i in found]
    return found, table.remarks | {"channels": channels, "left out": left, "commas": commas}


def rows_of_series(table: Table, times: np.ndarray) -> list[np.ndarray]:
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


def pieces_of(times: np.ndarray, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Number the pieces between gaps in each series (n,), if most times are in equal steps."""
    piece, steps = np.zeros(len(times), int), [np.diff(times[part]) for part in parts]
    every = np.concatenate(steps)
    usual = np.median(every) if len(every) else 0
    if (np.abs(every - usual) < usual / 2).mean() >= EVEN if len(every) else False:
        for part, own in zip(parts, steps, strict=True):
            piece[part[1:]] = np.cumsum(own > GAP * usual)
    return piece


def are_examples(table: Table, parts: Sequence[np.ndarray], options: Options) -> bool:
    """Whether each series is an example of one class; otherwise series are recordings.

    If most series have one label, with different labels among series, a series with two labels is
    an error, unless --window or --stride requests cutting.
    """
    labels = [table.common("label", part) for part in parts]
    mixed = [i for i, names in enumerate(labels) if len(names) > 1]
    uniform = {names[0] for names in labels if len(names) == 1}
    is_cut = options.window is not None or options.stride is not None
    if mixed and len(uniform) > 1 and not is_cut and len(mixed) < TYPO * len(parts):
        refuse_several(table, parts[mixed[0]], "label", ", or --window ROWS to cut recordings")
    return not mixed


def refuse_several(table: Table, part: np.ndarray, role: str, way_out: str = "") -> None:
    """Reject a series with several labels, or groups, at the row of the rarest."""
    names = table.common(role, part)
    row = next(i for i in part.tolist() if table.text(role, i) == names[-1])
    raise PefourierError(
        f"{table.place(row)} has {len(names)} {role}s, {join(map(shown, names))}; give each series "
        f"one{way_out}"
    )


def groups_of(table: Table, parts: Sequence[np.ndarray]) -> list[str] | None:
    """Return the group of each series; None without a group column."""
    if "group" not in table.texts:
        return None
    for part in parts:
        if len(table.common("group", part)) > 1:
            refuse_several(table, part, "group")
    return [table.text("group", part[0]) for part in parts]


def examples_of(
    table: Table, values: np.ndarray, parts: Sequence[np.ndarray], options: Options
) -> Task:
    """Make each series an example, with the label of all its lines."""
    labels = np.array([table.text("label", part[0]) for part in parts])
    groups = groups_of(table, parts)
    x, lengths = padded_series([values[part] for part in parts])
    own = None if groups is None else np.array(groups)
    task = from_examples(str(table.path), x, labels, options, groups=own, lengths=lengths)
    return replace(task, grouped_by="a column called group")


def recordings_of(
    table: Table,
    values: np.ndarray,
    parts: Sequence[np.ndarray],
    piece: np.ndarray,
    options: Options,
) -> Task:
    """Make a task of series with labelled rows; a group stays on one side."""
    label, classes, are_activities = classes_of_rows(table, options.positive)
    groups = groups_of(table, parts)
    names = [table.text("series", part[0]) for part in parts]
    check_rows(str(table.path), values)
    series = [
        split.Series(
            name,
            values[part].astype(np.float32),
            label[part],
            name,
            name,
            gaps=(np.flatnonzero(np.diff(piece[part])) + 1).tolist(),
            changes=(np.flatnonzero(np.diff(label[part]) * are_activities) + 1).tolist(),
        )
        for name, part in zip(names, parts, strict=True)
    ]
    grouped = groups is not None and len(set(groups)) > 1 and options.split != "random"
    dealing = split.Dealing(units=groups if grouped and groups else names, grouped=grouped)
    cut = *options.cut, dealing
    return split.split_series(str(table.path), series, *cut, own_scale=True, classes=classes)


def classes_of_rows(
    table: Table, positive: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...], bool]:
    """Return the class of each row, the classes, and whether they are activities.

    Otherwise they are the normal class and the anomaly.
    """
    codes, names = table.texts["label"]
    path, counts = shown(str(table.path)), np.bincount(codes)
    check_labels(str(table.path), names, len(codes))
    by_count = [names[i] for i in np.argsort(-counts, kind="stable")]
    for i, name in enumerate(by_count):
        twins = [other for other in by_count[:i] if other.lower() == name.lower()]
        if twins:
            row = int(np.flatnonzero(codes == names.index(name))[0])
            raise PefourierError(
                f"{table.place(row)} has label {shown(name)}, others have {shown(twins[0])}; use "
                "one spelling"
            )
    chosen = [name for name in names if name in positive]
    if len(chosen) > 1:
        raise PefourierError(f"{path}: --positive names {join(chosen)}; name one label of a row")
    if not chosen and {*names} <= {"0", "1"}:
        return codes.astype(bool), ("normal", "anomaly"), False
    is_activity = "label" in table.roles and (
        plain_name(table.names[table.roles.index("label")]) == ACTIVITY
    )
    rare = len(names) == 2 and counts[0] != counts[1] and not all(map(reads_as_number, names))
    if not chosen and (is_activity or not rare):
        return codes, tuple(names), True
    anomaly = chosen[0] if chosen else by_count[-1]
    normal = f"not {anomaly}" if len(names) > 2 else by_count[by_count[0] == anomaly]
    return codes == names.index(anomaly), (normal, anomaly), False

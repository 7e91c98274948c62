"""Series in files of columns: .csv, .tsv, .txt, also with .gz, or .parquet, or a folder of them.

Conventions
-----------
Cells are separated by commas, semicolons, tabs or blanks, whichever the first line has most. The
first line names the columns, unless more than half of its cells are numbers that do not count in
equal steps; the columns of such files are named c1, c2, …

Columns with a usual name (names.toml), or named by --columns, are the times, series, labels and
optional groups; all others are channels, except columns without numbers and columns without a name
(such as row numbers from pandas). Units and endings of names do not matter: time_s, Timestamp [ms]
and is_faulty have the roles of time, timestamp and faulty. Of two possible times or labels, the
usual one is used and the other left out; several columns of series name a series together.

- *Long*: a line for each time of each series, in any order. Without a column of times, lines are in
  order; without a column of series, a file is one series. Times are numbers, or ISO 8601 with or
  without a time zone, and differ within a series.
- *Wide*: a line for each series, whose values are in columns with numbers, such as t0, t1, … or
  x_0, y_0, x_1, y_1, … for two channels, or in columns of any names beside a column of series.
  Missing numbers at the end shorten a series.
- *Folder*: a file for each series, with a column of labels, a file of labels, or a folder for each
  class.

If each series has a single label, series are examples of that class, and shorter ones are padded.
If labels change within series, series are recordings. If two labels are 0 and 1, or names of which
one is rarer, or if --positive names a label, a window with any row of that label is positive.
Otherwise labels are activities, and a window has the label of all of its rows. Numbers may have
decimal commas if commas do not separate cells.
"""

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.sources.tables import check_regular, parse_or_refuse, reads_as_number
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data import split
from pefourier.train.data.split import Task
from pefourier.train.options import Options
from pefourier.types import Array, Strings, Texts, frozen_arrays
from pefourier.writing.files import label as name_of_file
from pefourier.writing.files import read_toml, suffix_of
from pefourier.writing.text import join

LARGEST = 2**30  # characters of a file
DELIMITERS = ",;\t"
POINT = str.maketrans(",", ".")  # for decimal commas
COMMA = re.compile(r"(?<=\d),(?=\d)")  # which may be decimal
ABSENT = ("", "na", "nan", "n/a", "null", "none")  # cells of missing numbers
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".csv.gz")
NAMES = read_toml(Path(__file__).with_name("names.toml"))
USUAL, WORDS = NAMES["roles"], NAMES["words"]
FOLDERS = "names of folders"
NONE, UNUSED = "none", "unused"  # a column of --columns that is not there; a role
IN_LINES, IN_A_LINE = "a line for each time of a series", "a series in each line"
LACKING = {role: f"lacks a column {role} ({', '.join(USUAL[role])})" for role in USUAL}
CHOOSE = "use --columns time=NAME,series=NAME,label=NAME"
ENDINGS = re.compile(r"(_(id|no|nr|num|number|name|index|utc|sec|seconds?|min|hours?|[mun]?s|h))+$")
TYPO = 0.5  # share of series with several labels below which such labels count as mistakes
FEWEST = 4  # values of a series in wide form
GAP = 2.5  # usual steps between two rows of a recording, above which no window spans them
EVEN = 0.9  # least share of steps that differ from the usual step by less than half


# Columns


@frozen_arrays
class FileColumns:
    """The columns of a file, or of several files with the same columns."""

    names: list[str]
    cells: list[Array]  # of each column (n,), texts
    file: Array  # (n,) number of the file
    lines: Array  # (n,) line numbers
    delimiter: str  # "": blanks
    is_named: bool  # the first line names the columns


def without_suffix(name: str) -> str:
    """Return the name of a file without its suffix.

    >>> without_suffix("a/b.csv.gz"), without_suffix("c")
    ('a/b', 'c')
    """
    return re.sub(r"\.(csv|tsv|txt|parquet)(\.gz)?$", "", name, flags=re.IGNORECASE)


def kind_of(path: Path) -> str:
    """Return the suffix of a file in lower case, without .gz."""
    return suffix_of(str(path).lower().removesuffix(".gz"))


def read_columns(*files: Path) -> FileColumns:
    """Read files together."""
    for file in files:
        check_regular(str(file))
    parse, name = partial(parse_columns, files), name_of_file(str(files[0]))
    try:
        return parse_or_refuse(parse, name, kind_of(files[0]), "write it again, texts as UTF-8")
    except PefourierError:
        for file in files if len(files) > 1 else ():  # a damaged one is named
            read_columns(file)
        raise


def parse_columns(files: Sequence[Path]) -> FileColumns:
    """Read files; damaged files raise ValueError."""
    from pandas import read_csv

    texts = [*map(read_text, files)]
    first = texts[0].partition("\n")[0]
    delimiter = ""
    if set(first) & set(DELIMITERS):
        delimiter = max(DELIMITERS, key=COMMA.sub("", first).count)
    cells = next(csv.reader([first], delimiter=delimiter or " ", skipinitialspace=True))
    names, is_named = names_in([*map(str.strip, cells)])
    numbers = list[list[int]]()
    for i, text in enumerate(texts):
        if is_named:
            line, _, texts[i] = text.partition("\n")
            if line != first:
                other = f"has other columns than {shown(str(files[0]))}"
                raise lacks(files[i], [line], other, "write the same columns")
        own = list[int]()
        for number, line in enumerate(re.sub('"[^"]*"', "", texts[i]).split("\n"), 1 + is_named):
            if line.strip(" "):
                if (count := len(line.split(delimiter or None))) != len(names):
                    raise ValueError(f"line {number} has {count} cells, the first has {len(names)}")
                own.append(number)
        if not own:
            raise ValueError("there is no line below the column names")
        numbers.append(own)
    frame = read_csv(
        io.StringIO("\n".join(texts)),
        sep=delimiter or r"\s+",
        header=None,
        dtype=str,
        na_filter=False,
        skipinitialspace=True,
    )
    lines = np.concatenate(numbers)
    if len(frame) != len(lines):
        raise ValueError("a quotation mark is not closed")
    file = np.repeat(np.arange(len(files)), [*map(len, numbers)])
    return FileColumns(names, [*frame.to_numpy().T], file, lines, delimiter, is_named)


def read_text(path: Path) -> str:
    """Read a text, which may be compressed, or a parquet file as text."""
    if path.suffix.lower() == ".parquet":
        from pandas import read_parquet

        try:
            return str(read_parquet(path).to_csv(index=False))
        except ImportError as error:
            way_out = "install it with pip install 'pefourier[data]'"
            raise PefourierError(f"{shown(str(path))} needs pyarrow; {way_out}") from error
    act: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with act(path, "rt", encoding="utf-8-sig") as stream:
        text: str = stream.read(LARGEST + 1)
    if len(text) > LARGEST or "\0" in text:
        raise ValueError(f"the file has zero bytes, or more than {LARGEST} characters")
    return text


def names_in(first: list[str]) -> tuple[list[str], bool]:
    """Return the names of columns, and whether the first line has them.

    >>> names_in(["label", "0", "1"]), names_in(["0.5", "0.25", "ok"])
    ((['label', '0', '1'], True), (['c1', 'c2', 'c3'], False))
    """
    numbers = [float(cell) for cell in first if reads_as_number(cell)]
    steps = set(np.diff(numbers))
    if 2 * len(numbers) <= len(first) or (len(steps) == 1 and float(*steps).is_integer()):
        return ["" if cell.startswith("Unnamed: ") else cell for cell in first], True
    return [f"c{i + 1}" for i in range(len(first))], False


def numbers_in(cells: Array, delimiter: str = "") -> Array:
    """Parse cells as numbers: nan for a missing number, inf for what is no finite number.

    Commas are decimal points if they do not separate cells.

    >>> numbers_in(np.array(["1,5", "NA", "x"], object))
    array([1.5, nan, inf])
    """
    try:
        return cells.astype(float)
    except ValueError:
        return np.array([number_in(cell, delimiter) for cell in cells])


def number_in(cell: str, delimiter: str) -> float:
    """Parse a cell as a number."""
    try:
        return float(cell if delimiter == "," else cell.translate(POINT))
    except ValueError:
        return np.nan if cell.strip().lower() in ABSENT else np.inf


def stripped(cells: Sequence[Any] | Array, *, labels: bool = False) -> Array:
    """Return cells of text without blanks around them; the `labels` 1 and 1.0 are one."""
    from pandas import Series

    texts = Series(cells).str.strip()
    if labels and all(map(reads_as_number, texts.unique())):
        texts = texts.map(lambda text: f"{float(text):g}")
    return np.asarray(texts, object)


# Roles


def parse_roles(text: str | None) -> dict[str, str]:
    """Return the column of each role in --columns.

    >>> parse_roles("time=hour,id=unit,group=unit,label=none")
    {'time': 'hour', 'series': 'unit', 'group': 'unit', 'label': 'none'}
    """
    columns: dict[str, str] = {}
    for item in text.split(",") if text is not None else ():
        key, _, name = (part.strip() for part in item.partition("="))
        role = "series" if key == "id" else key
        if role not in USUAL:
            raise unknown("role of --columns", key, tuple(USUAL))
        sharing = {role} | {other for other, own in columns.items() if own == name != NONE}
        if not name or role in columns or sharing not in ({role}, {"series", "group"}):
            raise PefourierError(
                f"--columns {shown(item)} lacks a column, or repeats a role or column; give each "
                f"role once: {key}=NAME (one column may be series and group)"
            )
        columns[role] = name
    return columns


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
    own = {name: role for role, name in sorted(chosen.items())}  # series rather than group
    roles, doubts = [own.get(name, "") for name in names], []
    plain = list(map(plain_name, names))
    for role, usual in USUAL.items():
        fits = sorted((usual.index(p), i) for i, p in enumerate(plain) if p in usual)
        free = [i for _, i in fits if not roles[i] and role not in chosen]
        at = [i for i in free if plain[i] not in WORDS["weak"]] or free[:1]
        for i in at:
            roles[i] = role if role == "series" or i == at[0] else UNUSED
        if len(at) > 1:
            fitting = join(names[i] for i in at)
            used = f"{fitting} together are" if role == "series" else f"{names[at[0]]} is"
            doubts.append(f"{fitting} fit {role}, {used} used (--columns {role}=NAME)")
    return roles, doubts


# Tables


@frozen_arrays
class Table(FileColumns):
    """The rows of a file, or of all files of a folder."""

    path: Path
    files: Sequence[Path]
    roles: list[str]  # of all columns, "" of channels
    texts: dict[str, Array]  # of a role (n,)
    remarks: dict[str, list[str]]  # by code

    def place(self, row: int, column: int | None = None) -> str:
        """Describe a cell's place: file, line, series and optional column."""
        where = f"{shown(str(self.files[self.file[row]]))}, line {self.lines[row]}: series "
        where += shown(self.texts["series"][row])
        return where if column is None else f"{where}, column {self.names[column]}"

    def common(self, role: str, rows: Array | slice) -> list[str]:
        """Texts of a role in some rows, the most common first."""
        return [text for text, _ in Counter(self.texts[role][rows]).most_common()]

    def use(self, column: int, role: str) -> None:
        """Give a column a role."""
        self.roles[column] = role
        self.texts[role] = stripped(self.cells[column], labels=role == "label")
        self.remarks["columns"].append(f"{self.names[column]} as {role}")

    def texts_of(self, rows: Array) -> dict[str, Array]:
        """Texts of all roles in some rows."""
        return {role: own[rows] for role, own in self.texts.items()}

    def numbers(self, column: int, *, missing: bool = True) -> Array:
        """Numbers of a column, nan if missing."""
        found = numbers_in(self.cells[column], self.delimiter)
        wrong = np.isinf(found) if missing else ~np.isfinite(found)
        if wrong.any():
            row = int(wrong.argmax())
            raise PefourierError(
                f"{self.place(row, column)}: expected a finite number without thousands "
                f"separators, got {shown(self.cells[column][row])}; choose columns with "
                "--channels A,B, or use --columns time=NAME, label=NAME or group=NAME for another "
                "role"
            )
        return found


def lacks(path: Path, names: Strings, problem: str, way_out: str = CHOOSE) -> PefourierError:
    """Return the error for a file with other columns than expected."""
    its = f"its columns are {shown(', '.join(names))}"
    return PefourierError(f"{shown(str(path))} {problem}: {its}; {way_out}")


def read_table(path: Path, options: Options) -> Table:
    """Read the columns of a file, or of all files of a folder."""
    files = files_of_folder(path, options.labels) if path.is_dir() else [path]
    chosen, found = parse_roles(options.columns), read_columns(*files)
    names = found.names
    roles, doubts = find_roles(names, chosen)
    at = {
        role: [i for i, own in enumerate(roles) if role == own or chosen.get(role) == names[i]]
        for role in USUAL
    }
    columns = [f"{names[i]} as {role}" for role in USUAL for i in at[role]]
    remarks, texts = {"columns": columns, "doubts": doubts}, dict[str, Array]()
    table = Table(**vars(found), path=path, files=files, roles=roles, texts=texts, remarks=remarks)
    for name in {*chosen.values()} - {NONE, *names}:
        raise lacks(path, names, f"has no column {shown(name)}")
    used = [name for name, role in zip(names, roles, strict=True) if role]
    for name in used:
        if used.count(name) > 1:
            raise lacks(path, names, f"has several columns {name}")
    naming = [table.cells[i] for i in at["series"]]
    if len(files) > 1 or not naming:
        naming.insert(0, stems(table))
    texts["series"] = stripped(["/".join(own) for own in zip(*naming, strict=True)])
    for role in ("label", "group"):
        for i in at[role]:
            texts[role] = stripped(table.cells[i], labels=role == "label")
    who = [i for i in at["series"] if plain_name(names[i]) in WORDS["who"]]
    if who and len(at["series"]) > 1 and "group" not in (*texts, *chosen):
        texts["group"] = stripped(table.cells[who[0]])
        columns.append(f"{names[who[0]]} as group")
    for role, of_rows in texts.items():
        if (is_missing := of_rows == "").any():
            place = table.place(int(is_missing.argmax()), at[role][0])
            raise PefourierError(f"{place}: {role} is missing")
    add_labels(table, options.labels)
    return table


def stems(table: Table) -> Array:
    """Name of the file of each row within its folder, without suffix."""
    folder = table.path if table.path.is_dir() else table.path.parent
    names = [without_suffix(file.relative_to(folder).as_posix()) for file in table.files]
    return np.array(names, object)[table.file]


def files_of_folder(path: Path, labels: str | None) -> list[Path]:
    """Find the files of series in a folder, or in its folders: all of one suffix."""
    for pattern, suffix in product(("*", "*/*"), SUFFIXES):
        files = [
            file
            for file in sorted(path.glob(pattern))
            if kind_of(file) == suffix
            and not re.match(r"\.|readme", file.name, re.IGNORECASE)
            and without_suffix(file.name).lower() not in WORDS["lists"]
            and str(file) != labels
        ]
        sides = [f for f in files if without_suffix(f.name).endswith(("_TRAIN", "_TEST"))]
        if files:
            return sides[::-1] if len(sides) == 2 else files
    raise PefourierError(
        f"{shown(str(path))} holds no NAME_TRAIN.ts and NAME_TEST.ts, no X.npy and no series in "
        f"{', '.join(SUFFIXES)}, with --labels FILE or in a folder for each class"
    )


def add_labels(table: Table, labels: str | None) -> None:
    """Add labels of series or files to a table: of a file of labels, or names of folders.

    The file is that of --labels, or has a name of `lists` in the folder. Its first column names
    the series or files.
    """
    is_folder = table.path.is_dir()
    keys = stems(table) if is_folder else table.texts["series"]
    lists = [f for f in table.path.glob("*.*") if without_suffix(f.name).lower() in WORDS["lists"]]
    if labels or lists:
        found = read_columns(file := Path(labels or lists[0]))
        roles, _ = find_roles(found.names, {})
        at = roles.index("label") if "label" in roles else len(roles) - 1
        rows = [found.names, *zip(*found.cells, strict=True)]
        label = {without_suffix(row[0 if at else -1]): row[at] for row in rows}
        if lacking := sorted({*keys} - {*label}):
            raise PefourierError(
                f"{shown(str(file))} has no label of {shown(lacking[0])} ({len(lacking)} of "
                f"{len({*keys})} lack one); write a line for each: name,label"
            )
        own, role, source = [label[key] for key in keys], "label", file.name
    else:
        own, source = [key.rpartition("/")[0] for key in keys], FOLDERS
        role = "group" if "label" in table.texts else "label"
        if not is_folder or not any(own):
            return
    table.texts[role] = stripped(own, labels=True)
    table.remarks["columns"].append(f"{source} as {role}")


def read_times(table: Table) -> Array | None:
    """Parse times as numbers; dates become seconds, in UTC if they have a time zone."""
    if "time" not in table.roles:
        return None
    column = table.roles.index("time")
    cells = table.cells[column]
    if reads_as_number(cells[0].translate(POINT)):
        return table.numbers(column, missing=False)
    from pandas import Series, to_datetime

    texts = Series(cells).str.strip().str.replace(",", ".")
    dates = to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    zoned = texts.str[10:].str.contains("[Zz+-]")
    odd = dates.isna() | (zoned != zoned[0]) | texts.str.match("[A-Za-z]")  # such as today
    if odd.any():
        row = int(odd.idxmax())
        raise PefourierError(
            f"{table.place(row, column)}: expected numbers or ISO 8601, all with a zone or all "
            f"without, got {shown(cells[row])}; pandas.to_datetime reads other formats"
        )
    return np.asarray((dates - dates.min()).dt.total_seconds())


# Tasks


def from_tables(path: Path, options: Options) -> Task:
    """Read examples or recordings from a file of columns, or from a folder of such files."""
    table = read_table(path, options)
    if options.predict is not None:  # without labels, or regardless of them
        table.texts["label"] = np.full(len(table.lines), "?", object)
    is_file_series = path.is_dir() and "label" in table.texts and "label" not in table.roles
    keyed = {"time", "series"} & {*table.roles}
    if not (table.is_named or keyed):
        series_at_start(table)
    is_line = "series" in table.roles and len({*table.texts["series"]}) == len(table.lines)
    values: dict[str, list[int]] = {}
    if not is_file_series and (is_line or not keyed):
        sensors = is_line or ("label" in table.texts and not is_in_order(table))
        values = value_columns(table.names, table.roles, sensors=sensors)
        if is_line and not values and len(others := channels_left(table)) >= FEWEST:
            values = {"": others}
            doubt = f"columns from {table.names[others[0]]} on are values of a series in each line"
            table.remarks["doubts"].append(doubt)
        if values and "label" not in table.texts:
            label_at_an_end(table, values)
    shape = IN_A_LINE if values else IN_LINES
    if "label" not in table.texts:
        way_out = f"{CHOOSE}, or --labels FILE with a label for each series"
        raise lacks(path, table.names, f"is read as {shape}, and {LACKING['label']}", way_out)
    if values:
        return from_wide(table, values, options)
    return from_long(table, options)


def series_at_start(table: Table) -> None:
    """Use a first column of distinct names, or of line numbers, as series of an unnamed table."""
    cells, numbers = table.cells[0], numbers_in(table.cells[0], table.delimiter)
    is_name = np.isinf(numbers).all() or (np.diff(numbers) == 1).all()
    if is_name and len(table.names) > 1 + FEWEST and len({*cells}) == len(cells):
        table.use(0, "series")


def value_columns(names: Strings, roles: Strings, *, sensors: bool = False) -> dict[str, list[int]]:
    """Columns of the values of each channel of a table in wide form, in order; {} in long form.

    Names of `sensors` with numbers may be values.

    >>> value_columns(["label", "x_0", "y_0", "x_1", "y_1", "x_2", "y_2", "x3", "y3"], [""] * 9)
    {'x': [1, 3, 5, 7], 'y': [2, 4, 6, 8]}
    """
    found: dict[str, list[tuple[int, int]]] = {}
    is_unnamed = 2 * names.count("") > len(names)
    for i, name in enumerate(names):
        match = re.fullmatch(r"(.*?)[\W_]*([0-9]{1,9})", f"{i}" if is_unnamed else name)
        if match and not roles[i] and (sensors or match[1].lower() not in WORDS["sensors"]):
            found.setdefault(match[1], []).append((int(match[2]), i))
    values = {name: sorted(own) for name, own in found.items() if len(own) >= FEWEST}
    is_wide = len({tuple(number for number, _ in own) for own in values.values()}) == 1
    return {name: [i for _, i in own] for name, own in values.items()} if is_wide else {}


def label_at_an_end(table: Table, values: dict[str, list[int]]) -> None:
    """Use the first or the last column as label in a wide table without a column of labels."""
    taken = {i for own in values.values() for i in own if table.is_named}
    free = [i for i, role in enumerate(table.roles) if not role]
    found = [i for i in (free[0], free[-1]) if i not in taken and may_be_labels(table.cells[i])]
    if found:
        names = [table.names[i] for i in found]
        table.use(found[0], "label")
        if names[1:]:
            doubt = f"{join(names)} fit label, {names[0]} is used (--columns label=NAME)"
            table.remarks["doubts"].append(doubt)


def may_be_labels(cells: Array) -> bool:
    """Whether cells are names or whole numbers, of which most occur again."""
    numbers = numbers_in(cells)
    whole = np.isinf(numbers).all() or not (numbers % 1).any()
    return bool(whole and 1 < len({*cells}) <= len(cells) // 2)


def from_wide(table: Table, values: dict[str, list[int]], options: Options) -> Task:
    """Make each line an example; missing numbers at its end shorten it."""
    channels = [[i for i in own if not table.roles[i]] for own in values.values()]
    x = np.array([[table.numbers(i) for i in own] for own in channels]).T
    known = ~np.isnan(x).all(axis=2)
    lengths = np.where(known.any(axis=1), x.shape[1] - known[:, ::-1].argmax(axis=1), x.shape[1])
    tested = int((table.file == 1).sum()) if len(table.files) == 2 else None
    table.remarks["read"] = [f"{IN_A_LINE}, {x.shape[1]} values"]
    if len(values) > 1:
        table.remarks["channels"] = [*values]
    return examples_of(table, x, lengths, np.arange(len(x)), options, tested=tested)


def examples_of(
    table: Table, x: Array, lengths: Array, rows: Array, options: Options, **facts: Any
) -> Task:
    """Make a task of examples x, whose label and group are in `rows` of the table."""
    own = table.texts_of(rows)
    names = own["series"].tolist()
    return split.from_examples(
        str(table.path),
        x,
        own["label"],
        options,
        groups=own.get("group"),
        lengths=lengths,
        remarks=table.remarks,
        grouped_by="a column called group",
        names=names if len({*names}) == len(x) else [],
        **facts,
    )


def from_long(table: Table, options: Options) -> Task:
    """Read examples or recordings from a line for each time of each series."""
    found = channel_columns(table, options.channels)
    names = [table.names[i] for i in found]
    values, times = np.column_stack([table.numbers(i) for i in found]), read_times(table)
    clock = np.arange(len(values)) if times is None else times
    every = rows_of_series(table, clock)
    if any((np.diff(rows) < 0).any() for rows in every):
        table.remarks["doubts"].append("lines are not in order of time, and are sorted")
    if times is None:
        rising = [
            name
            for name, x in zip(names, values.T, strict=True)
            if all(len(rows) > 1 and (np.diff(x[rows]) > 0).all() for rows in every)
        ]
        if rising or not is_in_order(table):
            problem = f"is read as {IN_LINES}, and {LACKING['time']}"
            if rising:
                problem += f"; {rising[0]} increases in each series"
            raise lacks(table.path, table.names, problem)

    def place(number: int, row: int, column: int) -> str:
        return table.place(every[number][row], found[column])

    series = [values[rows] for rows in every]
    series, complete, filled = split.fill_series(series, options.missing, place, names)
    parts = [rows[kept] for rows, kept in zip(every, complete, strict=True)]
    since = [clock[part] - clock[part[0]] for part in parts]
    refuse_mixed(table, parts, "group")
    if options.predict is not None or are_examples(table, parts, options):
        table.remarks["read"] = [IN_LINES]
        x, lengths = split.padded_series(series)
        first = np.array([part[0] for part in parts])
        at = None if times is None else split.padded_series(since)[0]
        task = examples_of(table, x, lengths, first, options, times=at)
    else:
        table.remarks["read"] = [f"labels in the lines of {len(parts)} recordings"]
        piece = np.zeros(len(values), int)
        if options.positions == "index":
            piece = pieces_of(clock, every)
        task = recordings_of(table, series, parts, piece, options)
        task = split.with_times(task, None if times is None else np.concatenate(since))
    lost = split.drops({"missing": len(values) - sum(map(len, parts))})
    return replace(task, filled=filled, dropped=(*task.dropped, *lost))


def is_in_order(table: Table) -> bool:
    """Whether lines without times are in order: series and labels stay for several lines."""
    runs = sum(own[1:] != own[:-1] for own in table.texts.values())
    return bool(FEWEST * (1 + np.count_nonzero(runs)) <= len(table.lines))


def channel_columns(table: Table, wanted: str | None) -> list[int]:
    """Find the columns of channels, by --channels or all with numbers, and remark on the others."""
    names = table.names
    free = [i for i, role in enumerate(table.roles) if role in ("", UNUSED)]
    asked = [name.strip() for name in wanted.split(",")] if wanted is not None else []
    for name in {*asked} - {*names}:
        raise unknown(f"column of --channels in {table.path}", name, [names[i] for i in free])
    found = [names.index(name) for name in dict.fromkeys(asked)] or channels_left(table)
    if not found:
        way_out = "write channels with decimal points and without thousands separators"
        raise PefourierError(f"{shown(str(table.path))}: no other column has numbers; {way_out}")
    table.remarks["channels"] = [names[i] for i in found]
    table.remarks["left out"] = [names[i] or f"number {i + 1}" for i in free if i not in found]
    if table.path.is_file() and "series" not in table.roles:
        table.remarks["columns"].append("the whole file as one series")
    return found


def channels_left(table: Table) -> list[int]:
    """Columns that have a name, no role, and numbers."""
    return [
        i
        for i, name in enumerate(table.names)
        if name and not table.roles[i]
        if any(np.isfinite(number_in(cell, table.delimiter)) for cell in table.cells[i])
    ]


def rows_of_series(table: Table, times: Array) -> list[Array]:
    """Return the rows of each series in time order, series sorted by name."""
    from pandas import DataFrame

    rows = DataFrame({"series": table.texts["series"], "time": times})
    rows = rows.sort_values(["series", "time"])
    if (again := rows.duplicated()).any():
        row = int(again.idxmax())
        time = table.cells[table.roles.index("time")][row]
        raise PefourierError(
            f"{table.place(row)} has a time twice: {time}; use --columns series=NAME to name the "
            "column that distinguishes series"
        )
    return [own.to_numpy() for own in rows.groupby("series").groups.values()]


def pieces_of(times: Array, parts: Sequence[Array]) -> Array:
    """Number the pieces between gaps in each series (n,), if most times are in equal steps."""
    piece, steps = np.zeros(len(times), int), [np.diff(times[part]) for part in parts]
    every = np.concatenate(steps)
    usual = np.median(every) if len(every) else 0
    if np.count_nonzero(abs(every - usual) < usual / 2) >= EVEN * len(every):
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
            row = part[(table.texts[role][part] == names[-1]).argmax()]
            several = f"{len(names)} {role}s, {join(map(shown, names))}"
            raise PefourierError(f"{table.place(row)} has {several}; give each series one{way_out}")


def recordings_of(
    table: Table, rows: Sequence[Array], parts: Sequence[Array], piece: Array, options: Options
) -> Task:
    """Make a task of series with labelled rows; a group stays on one side."""
    label, classes = classes_of_rows(table, options.positive)
    split.check_rows(str(table.path), np.concatenate(rows))
    activity = np.zeros_like(label) if label.dtype == bool else label
    own = table.texts_of(np.array([part[0] for part in parts]))
    units = own.get("group", own["series"])
    grouped = "group" in own and len({*units}) > 1 and options.split != "random"
    if not grouped:
        units = own["series"]
    series = list[split.Series]()
    for name, unit, values, part in zip(own["series"], units, rows, parts, strict=True):
        gaps, changes = (
            (np.flatnonzero(np.diff(of[part])) + 1).tolist() for of in (piece, activity)
        )
        whole = values.astype(np.float32), label[part]
        series.append(split.Series(name, *whole, name, name, unit, gaps, changes))
    return split.split_series(
        str(table.path),
        series,
        *options.cut,
        grouped=grouped,
        own_scale=True,
        classes=classes,
        remarks=table.remarks,
    )


def classes_of_rows(table: Table, positive: Strings) -> tuple[Array, Texts]:
    """Return the class of each row and the classes: bool for anomalies, numbers for activities."""
    from pandas import factorize

    labels = table.texts["label"]
    codes, found = factorize(labels, sort=True)
    names = found.tolist()
    split.check_labels(str(table.path), names, len(codes))
    chosen = [name for name in names if name in positive]
    if len(chosen) > 1:
        raise PefourierError(
            f"{table.path}: --positive names {join(chosen)}; name one label of a row"
        )
    if not chosen and {*names} <= {"0", "1"}:
        return codes.astype(bool), ("normal", "anomaly")
    column = table.names[table.roles.index("label")] if "label" in table.roles else ""
    rare = len(names) == 2 and np.ptp(np.bincount(codes)) and plain_name(column) != "activity"
    if not chosen and (not rare or all(map(reads_as_number, names))):
        return codes, tuple(names)
    anomaly = chosen[0] if chosen else table.common("label", slice(None))[1]
    others = [name for name in names if name != anomaly]
    normal = others[0] if len(others) == 1 else f"not {anomaly}"
    return labels == anomaly, (normal, anomaly)

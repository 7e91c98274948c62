"""Series in files of columns: .csv, .tsv, .txt, .parquet, also .gz, or a folder of them.

Conventions
-----------
Pandas reads the files. Cells are separated by commas, semicolons, tabs or blanks, whichever the
first line has most. The first line names the columns, unless more than half of its cells are
numbers that do not count in equal steps; the columns of such files are named c1, c2, …

Columns with a usual name (names.toml), or named by --columns, are the times, series, labels and
optional groups; all others are channels, except columns without numbers and columns without a name
(such as row numbers from pandas). Units and endings of names do not matter: time_s, Timestamp [ms]
and is_faulty have the roles of time, timestamp and faulty. Of two possible times or labels, the
usual one is used and the other left out; several columns of series name a series together. Without
a usual name of a time, the first column of dates is the time.

- *Long*: a line for each time of each series, in any order. Without a column of times, lines are in
  order; without a column of series, a file is one series. Times are numbers or dates in one format,
  with or without a time zone, and differ within a series.
- *Wide*: a line for each series, whose values are in columns with numbers, such as t0, t1, … or
  x_0, y_0, x_1, y_1, … for two channels. Other names are values if each series has one line, and
  names of sensors (s1, sensor_1) also if the labels of the lines are not in order. Missing numbers
  at the end shorten a series.
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
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast
from warnings import catch_warnings, simplefilter

import numpy as np

from pefourier.encodings.sources.tables import check_regular, parse_or_refuse, reads_as_number
from pefourier.errors import PefourierError, shorten, shown, unknown
from pefourier.train.data import split
from pefourier.train.data.split import Task
from pefourier.train.options import Options
from pefourier.types import Array, Ints, Strings, Texts, frozen_arrays
from pefourier.writing.files import label as name_of_file
from pefourier.writing.files import read_toml
from pefourier.writing.text import agreeing, first_few, join

if TYPE_CHECKING:
    from pandas import DataFrame, Series  # whose import takes half a second

LARGEST = 2**30  # bytes of a file as text, or of the numbers of a parquet file
HEAD = 2**20  # characters that give the delimiter, the names and the decimal sign
DELIMITERS = ",;\t"
COMMA = re.compile(r"(?<=\d),(?=\d)")  # decimal
ZONE = r":\d\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$"  # of a date
ABSENT = ["", *"na NA n/a N/A nan NaN NAN -nan null Null NULL none None".split()]  # missing numbers
TEXTS = (".csv", ".tsv", ".txt")
SUFFIXES = (*TEXTS, ".parquet", *(f"{suffix}.gz" for suffix in TEXTS))
NAMES = read_toml(Path(__file__).with_name("names.toml"))
USUAL, WORDS = NAMES["roles"], NAMES["words"]
FOLDERS = "names of folders"
AGAIN = "write it again, as UTF-8 if it is text"
NONE = "none"  # a column of --columns that is not there
EMPTY = "there is no line below the column names"
TRIED = "is read with a line for each time, and lacks a column"
CHOOSE = "use --columns time=NAME,series=NAME,label=NAME"
ENDINGS = re.compile(r"(_(id|no|nr|num|number|name|index|utc|sec|seconds?|min|hours?|[mun]?s|h))+$")
TYPO = 0.5  # share of series with several labels below which such labels count as mistakes
FEWEST = 4  # values of a series in wide form
GAP = 2.5  # usual steps between two rows of a recording, above which no window spans them
EVEN = 0.9  # least share of steps that differ from the usual step by less than half
LISTED, LONGEST_NAME = 12, 40  # names of columns in a message, and their characters


# Columns


@frozen_arrays
class Columns:
    """The columns of a file by number, as numbers or texts; the index has the line numbers."""

    names: list[str]
    frame: "DataFrame"
    is_named: bool = True  # the first line names the columns
    decimal: str = "."  # ",": cells that are no numbers otherwise may have decimal commas


def without_suffix(name: str) -> str:
    """Return the name of a file without its suffix.

    >>> without_suffix("a/b.csv.gz"), without_suffix("c")
    ('a/b', 'c')
    """
    fits = [suffix for suffix in SUFFIXES if name.lower().endswith(suffix)]
    return name[: -len(fits[0])] if fits else name


def all_of(names: Strings) -> Ints:
    """Return the numbers of all columns."""
    return range(len(names))


def read_columns(path: Path, texts: Callable[[Strings], Ints] = all_of) -> Columns:
    """Read a file; `texts` chooses the columns that are texts whatever their cells."""
    check_regular(str(path))
    file, suffix = name_of_file(str(path)), path.name[len(without_suffix(path.name)) :].lower()
    parse = read_parquet if suffix == ".parquet" else read_text
    return parse_or_refuse(partial(parse, path, texts), file, suffix, AGAIN)


def open_text(path: Path) -> TextIO:
    """Open a file of text, which is compressed if its name ends in .gz."""
    act: Any = gzip.open if path.suffix.lower() == ".gz" else open
    return cast(TextIO, act(path, "rt", encoding="utf-8-sig"))


def read_text(path: Path, texts: Callable[[Strings], Ints]) -> Columns:
    """Read a text; damaged files raise ValueError."""
    from pandas import read_csv

    with open_text(path) as stream:
        head = part = stream.read(HEAD)
        size = 0
        while part:
            size += len(part)
            if size > LARGEST:
                raise ValueError(f"the file has more than {LARGEST} bytes")
            if "\0" in part:
                raise ValueError("the file has zero bytes")
            part = stream.read(HEAD)
    text = head.lstrip("\n")
    line, _, rest = text.partition("\n")
    delimiter = max(DELIMITERS, key=COMMA.sub("", line).count)
    if delimiter not in line:
        delimiter = ""
    names, is_named = names_in(rows_of_text([line], delimiter)[0] if line else [])
    if is_named and not rest.strip():
        raise ValueError(EMPTY)
    skipped, chosen = len(head) - len(text) + is_named, [*texts(names)]
    if not is_named:
        chosen += [0, len(names) - 1]  # perhaps names or labels
    decimal = "," if delimiter != "," and COMMA.search(text) else "."
    frame = read_csv(
        path,
        sep=delimiter or r"\s+",
        decimal=decimal,
        header=None,
        skiprows=skipped,
        skip_blank_lines=False,
        skipinitialspace=True,
        dtype=dict.fromkeys(chosen, str),
        keep_default_na=False,
        na_values=dict.fromkeys({*range(len(names))} - {*chosen}, ABSENT),
        encoding="utf-8-sig",
        low_memory=False,
    )
    last = frame[frame.shape[1] - 1]
    if frame.shape[1] != len(names) or last.isna().any() or "" in last.values:
        with open_text(path) as stream:
            rows = rows_of_text(stream, delimiter)[skipped:]
        for i, row in enumerate(rows):
            if any(row) and len(row) != len(names):
                has = f"line {i + skipped + 1} has {len(row)} cells"
                raise ValueError(f"{has}, the first has {len(names)}")
        frame = frame.drop(index=[i for i, row in enumerate(rows) if not any(row)])
    frame.index += skipped + 1
    return Columns(names, frame, is_named, "." if delimiter == "," else ",")


def rows_of_text(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    """Return the cells of lines, separated by a delimiter or by blanks."""
    if not delimiter:
        return [*map(str.split, lines)]
    try:
        return [*csv.reader(lines, delimiter=delimiter, skipinitialspace=True)]
    except csv.Error as error:
        raise ValueError(str(error)) from error


def read_parquet(path: Path, texts: Callable[[Strings], Ints]) -> Columns:
    """Read a parquet file."""
    import pandas

    try:
        from pyarrow.parquet import read_metadata
    except ImportError as error:
        way_out = "install it with pip install 'pefourier[data]'"
        raise PefourierError(f"{shown(str(path))} needs the package pyarrow; {way_out}") from error
    facts = read_metadata(path)
    if not facts.num_rows:
        raise ValueError(EMPTY)
    if 8 * facts.num_rows * facts.num_columns > LARGEST:
        raise ValueError(f"its numbers take more than {LARGEST} bytes")
    frame = pandas.read_parquet(path, engine="pyarrow").reset_index(drop=True)
    names = [*map(str, frame.columns)]
    frame = frame.set_axis(range(len(names)), axis=1)
    for i in texts(names):
        frame[i] = frame[i].astype(str).where(frame[i].notna(), "")
    return Columns(names, frame.set_axis(frame.index + 1))


def names_in(first: list[str]) -> tuple[list[str], bool]:
    """Return the names of columns, and whether the first line has them.

    >>> names_in(["label", "0", "1"]), names_in(["0.5", "0.25", "ok"])
    ((['label', '0', '1'], True), (['c1', 'c2', 'c3'], False))
    """
    numbers = [float(cell) for cell in first if reads_as_number(cell)]
    steps = set(np.diff(numbers))
    counts = len(steps) == 1 and any(steps) and float(*steps).is_integer()
    if 2 * len(numbers) <= len(first) or counts:
        return [cell.strip() for cell in first], True
    return [f"c{i + 1}" for i in range(len(first))], False


def numbers_in(cells: "Series", decimal: str = ".") -> Array:
    """Parse cells as numbers: nan for a missing number, inf for what is no finite number.

    >>> from pandas import Series
    >>> numbers_in(Series(["1,5", "NA", "x", "2"]), ",")
    array([1.5, nan, inf, 2. ])
    """
    from pandas import to_numeric

    if cells.dtype.kind in "iuf":
        return np.asarray(cells.to_numpy(float, na_value=np.nan))
    codes, texts = distinct(cells)
    if decimal == ",":
        texts = texts.str.replace(",", ".")
    found = to_numeric(texts, errors="coerce").to_numpy(float)
    return np.asarray(np.where(np.isnan(found) & ~texts.isin(ABSENT), np.inf, found)[codes])


def distinct(cells: "Series") -> "tuple[Array, Series]":
    """Return the code of each cell, and their texts without blanks at the ends, "" if missing."""
    from pandas import Series, factorize

    codes, found = factorize(cells, use_na_sentinel=False)
    return codes, Series(found).astype(str).fillna("").str.strip()


def texts_in(cells: "Series", *, labels: bool = False) -> Array:
    """Return cells as texts (n,); the labels 1 and 1.0 are one."""
    codes, texts = distinct(cells)
    if labels and all(map(reads_as_number, texts)):
        texts = texts.map(lambda text: f"{float(text):g}")
    return np.asarray(texts, object)[codes]


def parse_dates(dates: "Series") -> Array:
    """Return the seconds of dates in one format since the first, nan for what is no such date.

    Dates of which both the day and the month may come first raise ValueError.

    >>> from pandas import Series
    >>> parse_dates(Series(["13.5.2024 1:00", "13.5.2024 2:30", "x"]))
    array([   0., 5400.,   nan])
    """
    from pandas import to_datetime

    dates = dates.str.replace(COMMA, ".", regex=True)
    ways = [*date_formats(dates[0]), "ISO8601"]
    found = [to_datetime(dates, format=way, utc=True, errors="coerce") for way in ways]
    counts = [times.count() for times in found]
    if min(counts[:2]) == len(dates) and (found[0] != found[1]).any():
        raise ValueError(f"{dates[0]} may begin with its day or its month")
    zoned = dates.str.contains(ZONE)
    own = found[np.argmax(counts)].where(zoned == zoned[0])
    return np.asarray((own - own.min()).dt.total_seconds())


def date_formats(text: str) -> list[str]:
    """Return the formats that a date may have: two if the day or the month may come first.

    >>> [date_formats(text) for text in ("3/4/2024", "3.4.2024", "2024-03-04", "0.5", "a")]
    [['%d/%m/%Y', '%m/%d/%Y'], ['%d.%m.%Y'], ['%Y-%m-%d'], [], []]
    """
    from pandas.tseries.api import guess_datetime_format

    if reads_as_number(text):
        return []
    start = re.match(r"\d{4}|\d+\.", text)
    orders = [start[0].endswith(".")] if start else [True, False]
    with catch_warnings():
        simplefilter("ignore")  # of an order that does not fit
        found = [guess_datetime_format(text, dayfirst=order) for order in orders]
    return [*filter(None, dict.fromkeys(found))]


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
        sharing = {role} | {other for other, column in columns.items() if column == name != NONE}
        if not name or role in columns or sharing not in ({role}, {"series", "group"}):
            raise PefourierError(
                f"--columns {shown(item)} lacks a column, or repeats a role or column; give each "
                f"role once: {key}=NAME (series and group may be one column)"
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


Roles = dict[str, list[int]]  # columns of each role


def find_roles(names: Strings, chosen: dict[str, str]) -> tuple[Roles, list[int], list[str]]:
    """Find the columns of each role; a chosen role has the chosen column.

    Also returns the columns with or without a role that are no channels, and remarks about them.
    """
    plain, doubts = [*map(plain_name, names)], list[str]()
    roles = {role: [i for i, own in enumerate(names) if own == chosen.get(role)] for role in USUAL}
    taken = [i for own in roles.values() for i in own]
    for role, usual in USUAL.items():
        fits = sorted((usual.index(p), i) for i, p in enumerate(plain) if p in usual)
        free = [i for _, i in fits if i not in taken and role not in chosen]
        at = [i for i in free if plain[i] not in WORDS["weak"]] or free[:1]
        taken += at
        if role == "series":
            roles[role] += at
        else:
            roles[role] += at[:1]
        if len(at) > 1:
            fitting = join(names[i] for i in at)
            used = f"{fitting} together are" if role == "series" else f"{names[at[0]]} is"
            doubts.append(f"{fitting} fit {role}, {used} used (--columns {role}=NAME)")
    return roles, taken, doubts


# Tables


@frozen_arrays
class SeriesTable(Columns):
    """The rows of a file, or of all files of a folder."""

    _: KW_ONLY
    path: Path
    files: Sequence[Path]
    lines: Array  # (n,) numbers in their files
    file: Array  # (n,) number of the file
    roles: Roles
    taken: list[int]  # columns with a role, or that are no channels
    remarks: dict[str, list[str]]  # by code
    texts: dict[str, Array] = field(default_factory=dict)  # (n,) of roles other than times

    def place(self, row: int, column: int | None = None) -> str:
        """Describe a cell's place: file, line, series and optional column."""
        where = f"{shown(str(self.files[self.file[row]]))}, line {self.lines[row]}: series "
        where += shown(self.texts["series"][row])
        return where if column is None else f"{where}, column {self.names[column]}"

    def free(self) -> list[int]:
        """Columns without a role."""
        return [i for i in range(len(self.names)) if i not in self.taken]

    def give(self, role: str, column: int) -> None:
        """Give a column a role."""
        self.roles[role].append(column)
        self.taken.append(column)
        self.remarks["columns"].append(f"{self.names[column]} as {role}")
        if role != "time":
            self.texts[role] = texts_in(self.frame[column], labels=role == "label")

    def title(self, column: int) -> str:
        """Return the name of a column, or its number if it has none."""
        return self.names[column] or f"number {column + 1}"

    def parsed(self, column: int) -> Array:
        """Numbers of a column (n,): nan if missing, inf for what is no finite number."""
        return numbers_in(self.frame[column], self.decimal)

    def has_numbers(self, column: int) -> bool:
        """Whether some cells of a column are numbers."""
        return bool(np.isfinite(self.parsed(column)).any())

    def numbers(self, column: int, *, missing: bool = True) -> Array:
        """Finite numbers of a column (n,), nan if missing."""
        found = self.parsed(column)
        wrong = np.flatnonzero(np.isinf(found) if missing else ~np.isfinite(found))
        if len(wrong):
            raise PefourierError(
                f"{self.place(wrong[0], column)}: expected a finite number without thousands "
                f"separators, got {shown(str(self.frame[column][wrong[0]]))}; choose columns "
                "with --channels A,B, or use --columns time=NAME, label=NAME or group=NAME for "
                "another role"
            )
        return found

    def common(self, role: str, rows: Ints | Array | slice) -> list[str]:
        """Texts of a role in some rows, the most common first."""
        return [text for text, _ in Counter(self.texts[role][rows].tolist()).most_common()]

    def lacks(self, problem: str, way_out: str = CHOOSE) -> PefourierError:
        """Return the error for a table with other columns than expected."""
        names = first_few([shorten(name, LONGEST_NAME) for name in self.names], LISTED)
        return PefourierError(
            f"{shown(str(self.path))} {problem}: its columns are {shown(names, len(names) + 2)}; "
            f"{way_out}"
        )


def read_table(path: Path, options: Options) -> SeriesTable:
    """Read the columns of a file, or of all files of a folder."""
    from pandas import concat

    files = files_of_folder(path, options.labels) if path.is_dir() else [path]
    chosen = parse_roles(options.columns)
    parts = [read_columns(file, lambda names: find_roles(names, chosen)[1]) for file in files]
    names = parts[0].names
    roles, taken, doubts = find_roles(names, chosen)
    table = SeriesTable(
        names,
        concat([part.frame for part in parts], ignore_index=True),
        parts[0].is_named,
        parts[0].decimal,
        path=path,
        files=files,
        lines=np.concatenate([part.frame.index for part in parts]),
        file=np.repeat(np.arange(len(files)), [len(part.frame) for part in parts]),
        roles=roles,
        taken=taken,
        remarks={"doubts": doubts},
    )
    for part, other in zip(parts, files, strict=True):
        if part.names != names:
            unlike = f"has other columns than {shown(str(files[0]))}", "write the same columns"
            raise replace(table, path=other, names=part.names).lacks(*unlike)
    for name in {*chosen.values()} - {NONE, *names}:
        raise table.lacks(f"has no column {shown(name)}")
    at = [(role, i) for role in USUAL for i in roles[role]]
    for _, i in at:
        if names.count(names[i]) > 1:
            raise table.lacks(f"has several columns {names[i]}")
    table.remarks["columns"] = [f"{names[i]} as {role}" for role, i in at]
    name_series(table, chosen)
    for role, texts in table.texts.items():
        if (texts == "").any():
            place = table.place(int(np.argmax(texts == "")), roles[role][0])
            raise PefourierError(f"{place}: {role} is missing")
    if "time" not in chosen:
        find_dates(table)
    add_labels(table, options.labels)
    return table


def find_dates(table: SeriesTable) -> None:
    """Use the first column of dates that change within series as times of a table without times."""
    for i in table.free():
        if not table.roles["time"] and date_formats(str(table.frame[i][0])):
            pairs = table.frame[[i]].assign(series=table.texts["series"])
            if len(pairs.drop_duplicates()) > pairs["series"].nunique():
                table.give("time", i)


def name_series(table: SeriesTable, chosen: dict[str, str]) -> None:
    """Add the texts of series, labels and groups to a table."""
    own = table.roles["series"]
    naming = [texts_in(table.frame[i]) for i in own]
    if len(table.files) > 1 or not naming:
        naming.insert(0, np.array(stems(table), object)[table.file])
    table.texts["series"] = naming[0]
    for other in naming[1:]:
        table.texts["series"] = table.texts["series"] + "/" + other
    for role in ("label", "group"):
        for i in table.roles[role]:
            table.texts[role] = texts_in(table.frame[i], labels=role == "label")
    who = [i for i in own if plain_name(table.names[i]) in WORDS["who"]]
    if who and len(own) > 1 and "group" not in (*table.texts, *chosen):
        table.give("group", who[0])


def stems(table: SeriesTable) -> list[str]:
    """Names of the files of a table within its folder, without suffix."""
    folder = table.path if table.path.is_dir() else table.path.parent
    return [without_suffix(file.relative_to(folder).as_posix()) for file in table.files]


def files_of_folder(path: Path, labels: str | None) -> list[Path]:
    """Find the files of series in a folder, or in its folders: all of one suffix."""
    for pattern, suffix in product(("*", "*/*"), SUFFIXES):
        files = [
            file
            for file in sorted(path.glob(pattern))
            if file.name.lower().endswith(suffix)
            and not re.match(r"\.|readme", file.name, re.IGNORECASE)
            and not is_list(file)
            and str(file) != labels
        ]
        sides = [
            file
            for side in ("_TRAIN", "_TEST")
            for file in files
            if without_suffix(file.name).endswith(side)
        ]
        if files:
            return sides if len(sides) == 2 else files
    raise PefourierError(
        f"{shown(str(path))} holds no NAME_TRAIN.ts and NAME_TEST.ts, no X.npy and no series in "
        f"{', '.join(SUFFIXES)}, with --labels FILE or in a folder for each class"
    )


def is_list(file: Path) -> bool:
    """Whether a file has the name of a list of labels."""
    return without_suffix(file.name).lower() in WORDS["lists"]


def add_labels(table: SeriesTable, labels: str | None) -> None:
    """Add labels of series or files to a table: of a file of labels, or names of folders.

    The file is that of --labels, or has a name of `lists` in the folder. Its first column names
    the series or files.
    """
    from pandas import Series, factorize

    is_folder, role = table.path.is_dir(), "label"
    which, keys = factorize(table.texts["series"])
    if is_folder:
        which, keys = table.file, stems(table)
    lists = [*map(Path, [labels] if labels else filter(is_list, table.path.glob("*.*")))]
    if lists:
        found, source = read_columns(lists[0]), lists[0].name
        columns = [[name, *found.frame[i]] for i, name in enumerate(found.names)]
        at = [*find_roles(found.names, {})[0]["label"], len(columns) - 1][0]
        names = map(without_suffix, columns[0 if at else -1])
        label = dict(zip(names, columns[at], strict=True))
        if lacking := [key for key in keys if key not in label]:
            raise PefourierError(
                f"{shown(str(lists[0]))} has no label of {shown(lacking[0])} ({len(lacking)} of "
                f"{len(keys)} lack one); write a line for each: name,label"
            )
        own = [label[key] for key in keys]
    else:
        own, source = [key.rpartition("/")[0] for key in keys], FOLDERS
        if not is_folder or not any(own):
            return
        if "label" in table.texts:
            role = "group"
    table.texts[role] = texts_in(Series(own), labels=True)[which]
    table.remarks["columns"].append(f"{source} as {role}")


def read_times(table: SeriesTable) -> Array | None:
    """Return times as numbers; dates become seconds, in UTC if they have a time zone."""
    for column in table.roles["time"]:
        if table.has_numbers(column):
            return table.numbers(column, missing=False)
        codes, dates = distinct(table.frame[column])
        advice = f"write {table.names[column]} as numbers or as 2024-05-31 12:00:00"
        act, file = partial(parse_dates, dates), name_of_file(str(table.path))
        times = parse_or_refuse(act, file, table.path.suffix, advice)[codes]
        if np.isnan(times).any():
            row = int(np.argmax(np.isnan(times)))
            raise PefourierError(
                f"{table.place(row, column)}: expected dates in one format, all with a time zone "
                f"or all without, got {shown(dates[codes[row]])}; {advice}"
            )
        return times
    return None


# Tasks


def from_tables(path: Path, options: Options) -> Task:
    """Read examples or recordings from a file of columns, or from a folder of such files."""
    table = read_table(path, options)
    if options.predict is not None:  # without labels, or regardless of them
        table.texts["label"] = np.full(len(table.file), "?", object)
    is_file_series = path.is_dir() and "label" in table.texts and not table.roles["label"]
    values = {} if is_file_series else value_columns(table)
    if values and "label" in table.texts:
        return from_wide(table, values, options)
    return from_long(table, options)


def value_columns(table: SeriesTable) -> dict[str, list[int]]:
    """Columns of the values of each channel in wide form, in order; {} in long form.

    Values have names with numbers, the same in each channel. Names of sensors with numbers are
    values if each series has one line, or if the lines are in no order; if each series has one
    line, other names are values of one channel.
    """
    free, names, is_named = table.free(), table.names, table.is_named
    if not (is_named or table.roles["series"]) and free[0] == 0 and len(free) > 1 + FEWEST:
        name_first_series(table)
        free = table.free()
    is_line = len({*table.texts["series"]}) == len(table.file) > 1
    if (table.roles["time"] or table.roles["series"]) and not is_line:
        return {}
    numbered = numbered_columns(names, free)
    plain = {name: own for name, own in numbered.items() if name.lower() not in WORDS["sensors"]}
    if not is_line and (plain or "label" not in table.texts or is_in_order(table)):
        numbered = plain
    values = {name: [*own.values()] for name, own in numbered.items()}
    others = [i for i in free if names[i] and table.has_numbers(i)] if is_line else []
    if not numbered and len(others) >= FEWEST:
        values = {"": others}
        doubt = f"{names[others[0]]}, …, {names[others[-1]]} are read as values of a series"
        table.remarks["doubts"].append(doubt)
    if len({tuple(own) for own in numbered.values()}) > 1:
        return {}
    if values and "label" not in table.texts:
        label_at_an_end(table, [i for own in values.values() for i in own] if is_named else [])
    return {name: [i for i in own if i not in table.taken] for name, own in values.items()}


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {agreeing(count, noun, f'{noun}s')}"


def numbered_columns(names: Strings, free: Ints) -> dict[str, dict[int, int]]:
    """Columns by number of each name that has several numbers, in order.

    >>> numbered_columns(["x_0", "x_2", "x3", "x_1", "y1"], range(5))
    {'x': {0: 0, 1: 3, 2: 1, 3: 2}}
    """
    found: dict[str, dict[int, int]] = {}
    is_blank = 2 * names.count("") > len(names)
    for i in free:
        name = names[i]
        if is_blank and not name:
            name = f"{i}"
        if match := re.fullmatch(r"(.*?)[\W_]*([0-9]{1,9})", name):
            found.setdefault(match[1], {})[int(match[2])] = i
    return {name: dict(sorted(own.items())) for name, own in found.items() if len(own) >= FEWEST}


def name_first_series(table: SeriesTable) -> None:
    """Use a first column of distinct names, or of line numbers, as series of an unnamed table."""
    numbers, cells = table.parsed(0), texts_in(table.frame[0])
    is_name = np.isinf(numbers).all() or (np.diff(numbers) == 1).all()
    if is_name and len({*cells}) == len(cells) > 1:
        table.give("series", 0)


def label_at_an_end(table: SeriesTable, used: Ints) -> None:
    """Use a column of texts, the first or the last column as label of a wide table without one."""
    first, *between, last = table.free()
    free = [first, last, *(i for i in between if not table.has_numbers(i))]
    found = [i for i in free if i not in used and may_be_labels(table, i)]
    if found:
        table.give("label", found[0])
    if len(found) > 1:
        names = [table.names[i] for i in found]
        table.remarks["doubts"].append(
            f"{join(names)} fit label, {names[0]} is used (--columns label=NAME)"
        )


def may_be_labels(table: SeriesTable, column: int) -> bool:
    """Whether cells are names or whole numbers, of which most occur again."""
    numbers, count = table.parsed(column), table.frame[column].nunique()
    return bool((numbers == np.floor(numbers)).all() and 1 < count <= len(numbers) // 2)


def from_wide(table: SeriesTable, values: dict[str, list[int]], options: Options) -> Task:
    """Make each line an example; missing numbers at its end shorten it."""
    x = np.array([[table.numbers(i) for i in own] for own in values.values()]).T
    known = ~np.isnan(x).all(axis=2)
    lengths = x.shape[1] - known[:, ::-1].argmax(axis=1)  # all if none is known
    tested = int((table.file == 1).sum()) if len(table.files) == 2 else None
    used = {i for own in values.values() for i in own}
    table.remarks["read"] = [f"a series in each line, {x.shape[1]} values"]
    table.remarks["left out"] = [table.title(i) for i in table.free() if i not in used]
    if len(values) > 1:
        table.remarks["channels"] = [*values]
    return examples_of(table, x, lengths, np.arange(len(x)), options, tested=tested)


def examples_of(
    table: SeriesTable, x: Array, lengths: Array, rows: Array, options: Options, **facts: Any
) -> Task:
    """Make a task of examples x, whose label and group are in `rows` of the table."""
    own = {role: texts[rows].astype(str) for role, texts in table.texts.items()}
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


def from_long(table: SeriesTable, options: Options) -> Task:
    """Read examples or recordings from a line for each time of each series."""
    if "label" not in table.texts:
        way_out = f"{CHOOSE}, or --labels FILE with a label for each series"
        raise table.lacks(f"{TRIED} label ({', '.join(USUAL['label'])})", way_out)
    found = channel_columns(table, options.channels)
    names = [table.names[i] for i in found]
    values, times = np.column_stack([table.numbers(i) for i in found]), read_times(table)
    clock = np.arange(len(values)) if times is None else times
    every = rows_of_series(table, clock)
    refuse_unordered(table, values, every, names)

    def place(number: int, row: int, column: int) -> str:
        return table.place(every[number][row], found[column])

    series = [values[rows] for rows in every]
    series, complete, filled = split.fill_series(series, options.missing, place, names)
    parts = [rows[kept] for rows, kept in zip(every, complete, strict=True)]
    since = [clock[part] - clock[part[0]] for part in parts]
    refuse_mixed(table, parts, "group")
    if options.predict is not None or are_examples(table, parts, options):
        table.remarks["read"] = ["a line for each time of a series"]
        x, lengths = split.padded_series(series)
        first = np.array([part[0] for part in parts])
        at = None if times is None else split.padded_series(since)[0]
        task = examples_of(table, x, lengths, first, options, times=at)
    else:
        table.remarks["read"] = [f"labels in the lines of {counted(len(parts), 'recording')}"]
        piece = np.zeros(len(values), int)
        if options.positions == "index":
            piece = pieces_of(clock, every)
        task = recordings_of(table, series, parts, piece, options)
        task = split.with_times(task, None if times is None else np.concatenate(since))
    lost = split.drops({"missing": len(values) - sum(map(len, parts))})
    return replace(task, filled=filled, dropped=(*task.dropped, *lost))


def refuse_unordered(
    table: SeriesTable, values: Array, every: Sequence[Array], names: Strings
) -> None:
    """Reject a table in long form without times, unless its lines are in order."""
    steps = [np.diff(values[rows], axis=0) > 0 for rows in every if len(rows) > 1]
    rising: Ints = []
    if steps:
        rising = np.flatnonzero(np.concatenate(steps).all(axis=0))[:1].tolist()
    hint, way_out = "", f"{CHOOSE}; if each line is a series, name its values x0, x1, …"
    for i in rising:
        hint, way_out = f"; {names[i]} increases in each series", f"use --columns time={names[i]}"
    if not table.roles["time"] and (hint or not is_in_order(table)):
        raise table.lacks(f"{TRIED} time ({', '.join(USUAL['time'])}){hint}", way_out)


def is_in_order(table: SeriesTable) -> bool:
    """Whether lines without times are in order: series and labels stay for several lines."""
    runs = sum(texts[1:] != texts[:-1] for texts in table.texts.values())
    return bool(FEWEST * (1 + np.count_nonzero(runs)) <= len(table.file))


def channel_columns(table: SeriesTable, wanted: str | None) -> list[int]:
    """Find the columns of channels, by --channels or all with numbers, and remark on the others."""
    names, known = table.names, {i for own in table.roles.values() for i in own}
    free = [i for i in range(len(names)) if i not in known]
    asked = [name.strip() for name in wanted.split(",")] if wanted is not None else []
    for name in {*asked} - {*names}:
        raise unknown(f"column of --channels in {table.path}", name, [names[i] for i in free])
    found = [names.index(name) for name in dict.fromkeys(asked)] or [
        i for i in table.free() if names[i] and table.has_numbers(i)
    ]
    if not found:
        way_out = "write channels with decimal points and without thousands separators"
        raise PefourierError(f"{shown(str(table.path))}: no other column has numbers; {way_out}")
    table.remarks["channels"] = [names[i] for i in found]
    table.remarks["left out"] = [table.title(i) for i in free if i not in found]
    if table.path.is_file() and not table.roles["series"]:
        table.remarks["columns"].append("the whole file as one series")
    return found


def rows_of_series(table: SeriesTable, times: Array) -> list[Array]:
    """Return the rows of each series in time order, series sorted by name."""
    from pandas import factorize

    series, _ = factorize(table.texts["series"], sort=True)
    order = np.lexsort((times, series))
    repeated = (np.diff(series[order]) == 0) & (np.diff(times[order]) == 0)
    if repeated.any():
        row = order[1:][np.argmax(repeated)]
        time = table.frame[table.roles["time"][0]][row]
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


def are_examples(table: SeriesTable, parts: Sequence[Array], options: Options) -> bool:
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


def refuse_mixed(table: SeriesTable, parts: Sequence[Array], role: str, way_out: str = "") -> None:
    """Reject a series with several labels, or groups, at the row of the rarest."""
    if role not in table.texts:
        return
    for part in parts:
        names = table.common(role, part)
        if len(names) > 1:
            row = next(i for i in part.tolist() if table.texts[role][i] == names[-1])
            several = f"{len(names)} {role}s, {join(map(shown, names))}"
            raise PefourierError(f"{table.place(row)} has {several}; give each series one{way_out}")


def recordings_of(
    table: SeriesTable,
    rows: Sequence[Array],
    parts: Sequence[Array],
    piece: Array,
    options: Options,
) -> Task:
    """Make a task of series with labelled rows; a group stays on one side."""
    label, classes = classes_of_rows(table, options.positive)
    split.check_rows(str(table.path), np.concatenate(rows))
    first, activity = [part[0] for part in parts], label * (label.dtype != bool)
    names, units = (
        [table.texts[role][row] for row in first] if role in table.texts else []
        for role in ("series", "group")
    )
    grouped = len({*units}) > 1 and options.split != "random"
    series = [
        split.Series(
            name,
            own.astype(np.float32),
            label[part],
            name,
            name,
            unit,
            *((np.flatnonzero(np.diff(of[part])) + 1).tolist() for of in (piece, activity)),
        )
        for name, unit, own, part in zip(
            names, units if grouped else names, rows, parts, strict=True
        )
    ]
    return split.split_series(
        str(table.path),
        series,
        *options.cut,
        grouped=grouped,
        own_scale=True,
        classes=classes,
        remarks=table.remarks,
    )


def classes_of_rows(table: SeriesTable, positive: Strings) -> tuple[Array, Texts]:
    """Return the class of each row and the classes: bool for anomalies, numbers for activities."""
    from pandas import factorize

    codes, found = factorize(table.texts["label"], sort=True)
    names = found.tolist()
    split.check_labels(str(table.path), names, len(codes))
    chosen = [name for name in names if name in positive]
    if len(chosen) > 1:
        raise PefourierError(
            f"{table.path}: --positive names {join(chosen)}; name one label of a row"
        )
    if not chosen and {*names} <= {"0", "1"}:
        return codes.astype(bool), ("normal", "anomaly")
    columns = [plain_name(table.names[i]) for i in table.roles["label"]]
    rare = len(names) == 2 and np.ptp(np.bincount(codes)) and columns != ["activity"]
    if not chosen and (not rare or all(map(reads_as_number, names))):
        return codes, tuple(names)
    anomaly = chosen[0] if chosen else table.common("label", slice(None))[1]
    others = [name for name in names if name != anomaly]
    normal = others[0] if len(others) == 1 else f"not {anomaly}"
    return codes == names.index(anomaly), (normal, anomaly)

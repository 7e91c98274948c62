"""Columns of text files and of parquet files.

Conventions
-----------
Cells are separated by commas, semicolons, tabs or blanks, whichever the first line has most. The
first line names the columns, unless more than half of its cells are numbers that do not count in
equal steps; the columns of such files are named c1, c2, …  pandas reads large files if it is
installed and if it reads the same as the reader of this module, which names bad lines.
"""

import csv
import io
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pefourier.encodings.sources.formats import reads_as_number
from pefourier.encodings.sources.tables import check_regular, parse_or_refuse
from pefourier.errors import PefourierError, shown
from pefourier.writing.files import label as name_of_file

Cells = np.ndarray | Sequence[str]  # of a column: numbers, or texts
T = TypeVar("T")
LARGEST = 2**30  # bytes of a file, and of the numbers in a parquet file
LARGE = 2**20  # bytes from which on pandas, whose import takes half a second, reads a file
DELIMITERS = ",;\t"
POINT = str.maketrans(",", ".")  # for decimal commas
ABSENT = ("", "na", "nan", "n/a", "null", "none")  # cells of missing numbers
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Head:
    """The columns of a file."""

    path: Path
    names: list[str]
    delimiter: str = ""  # "": blanks
    is_named: bool = True  # the first line names the columns


def read_or_refuse(path: Path, parse: Callable[[], T]) -> T:
    """Run a parser, and report a damaged file in one line."""
    file, suffix = name_of_file(str(path)), path.suffix.lower()
    return parse_or_refuse(parse, file, suffix, "save it as UTF-8 again")


def read_head(path: Path, largest: int = LARGEST) -> Head:
    """Read the names of the columns of a file."""
    check_regular(str(path))
    parse = parse_schema if path.suffix.lower() == ".parquet" else parse_head
    return read_or_refuse(path, partial(parse, path, largest))


def read_columns(head: Head, texts: Collection[int] = ()) -> tuple[list[Cells], np.ndarray]:
    """Read the columns of a file, those of `texts` as text, and the line number of each row."""
    if head.path.suffix.lower() == ".parquet":
        import pandas

        frame = read_or_refuse(head.path, partial(pandas.read_parquet, head.path))
        return cells_of_frame(frame.reset_index(drop=True), texts), np.arange(len(frame)) + 1
    large = head.path.stat().st_size >= LARGE and head.delimiter != ""
    found = parse_by_pandas(head, texts) if large else None
    return found or read_or_refuse(head.path, partial(parse_lines, head))


def parse_schema(path: Path, largest: int) -> Head:
    """Read the names and the size of a parquet file."""
    try:
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        install = "pip install 'pefourier[data]' pyarrow"
        raise PefourierError(f"{shown(str(path))} needs pandas and pyarrow: {install}") from error
    about = parquet.read_metadata(path)
    if 8 * about.num_rows * about.num_columns > largest:
        raise ValueError(f"its {about.num_rows} rows have more than {largest} bytes")
    return Head(path, [str(name) for name in about.schema.to_arrow_schema().names])


def cells_of_frame(frame: Any, texts: Collection[int]) -> list[Cells]:
    """Convert the columns of a frame of pandas."""
    columns = [frame.iloc[:, i] for i in range(frame.shape[1])]
    return [
        c.to_numpy(float)
        if c.dtype.kind in "iuf" and i not in texts
        else [str(cell).strip() for cell in c.tolist()]
        for i, c in enumerate(columns)
    ]


def parse_by_pandas(head: Head, texts: Collection[int]) -> tuple[list[Cells], np.ndarray] | None:
    """Read a file by pandas; None if it is not installed, or might read something else."""
    try:
        import pandas
    except ModuleNotFoundError:
        return None
    data, width = head.path.read_bytes().removeprefix(BOM), len(head.names)
    how: dict[str, Any] = {"sep": head.delimiter, "header": None, "names": range(width)}
    how |= {"skiprows": int(head.is_named), "dtype": dict.fromkeys(texts, str)}
    how |= {"na_filter": False, "float_precision": "round_trip", "low_memory": False}
    try:
        frame = pandas.read_csv(io.BytesIO(data), index_col=False, **how)
    except (ValueError, OverflowError):
        return None
    lines = len(frame) + head.is_named
    cells = data.count(head.delimiter.encode()) == lines * (width - 1)
    if not cells or b'"' in data or lines - data.removesuffix(b"\n").count(b"\n") != 1:
        return None  # quotes, blank lines, or lines of unequal length
    return cells_of_frame(frame, texts), np.arange(len(frame)) + 1 + head.is_named


def parse_head(path: Path, largest: int) -> Head:
    """Read the names of the columns from the first line of a text."""
    if path.stat().st_size > largest:
        raise ValueError(f"the file has more than {largest} bytes")
    with path.open(encoding="utf-8-sig", newline="") as stream:
        line = stream.readline()
    delimiter = max(DELIMITERS, key=line.count) if set(line) & set(DELIMITERS) else ""
    _, first = next(rows_of_text(path, delimiter), (0, [""]))
    numbers = [float(cell) for cell in first if reads_as_number(cell)]
    steps = set(np.diff(numbers))
    is_named = 2 * len(numbers) <= len(first) or (len(steps) == 1 and float(*steps).is_integer())
    names = ["" if cell.startswith("Unnamed: ") else cell for cell in first]
    names = names if is_named else [f"c{i + 1}" for i in range(len(first))]
    return Head(path, names, delimiter, is_named)


def rows_of_text(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line that is not empty."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        split_line = (
            partial(csv.reader, delimiter=delimiter) if delimiter else partial(map, str.split)
        )
        reader: Any = split_line(stream)
        try:
            for number, row in enumerate(reader, 1):
                if row:
                    yield getattr(reader, "line_num", number), [cell.strip() for cell in row]
        except csv.Error as error:
            raise ValueError(str(error)) from error


def parse_lines(head: Head) -> tuple[list[Cells], np.ndarray]:
    """Read the columns of a text, and the line number of each row."""
    numbered = list(rows_of_text(head.path, head.delimiter))
    first, rows = len(head.names), numbered[head.is_named :]
    if not rows:
        raise ValueError("there is no line below the column names")
    for number, row in rows:
        if len(row) != first:
            raise ValueError(f"line {number} has {len(row)} cells, the first has {first}")
    return [*zip(*(row for _, row in rows), strict=True)], np.array([n for n, _ in rows])


def numbers_in(cells: Cells) -> np.ndarray:
    """Parse cells as numbers: nan for a missing number, inf for what is no finite number.

    >>> numbers_in(["1,5", "NA", "x"])
    array([1.5, nan, inf])
    """
    return cells if isinstance(cells, np.ndarray) else np.array([*map(number_in, cells)])


def number_in(cell: str) -> float:
    """Parse a cell, possibly with a decimal comma."""
    try:
        return float(cell.translate(POINT))
    except ValueError:
        return np.nan if cell.lower() in ABSENT else np.inf


def is_number(cell: str) -> bool:
    """Whether a cell is a number, possibly with a decimal comma."""
    return cell.lower() not in ABSENT and reads_as_number(cell.translate(POINT))


def coded(cells: Cells) -> tuple[np.ndarray, list[str]]:
    """Return the code of each cell of text, and the distinct texts in alphabetical order."""
    texts = [f"{x:g}" for x in cells] if isinstance(cells, np.ndarray) else cells
    names = sorted(set(texts))
    code = {name: i for i, name in enumerate(names)}
    return np.array([code[text] for text in texts]), names

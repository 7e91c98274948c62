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
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.sources.formats import reads_as_number
from pefourier.encodings.sources.tables import check_regular, parse_or_refuse
from pefourier.types import Array, Fields, Strings
from pefourier.writing.files import label as name_of_file

LARGEST = 2**30  # bytes of a file, and of the numbers in a parquet file
LARGE = 2**20  # characters from which on pandas, whose import takes half a second, reads a text
DELIMITERS = ",;\t"
POINT = str.maketrans(",", ".")  # for decimal commas
ABSENT = ("", "na", "nan", "n/a", "null", "none")  # cells of missing numbers


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a file: numbers, or texts as objects."""

    names: list[str]
    cells: list[Array]  # of each column (n,)
    lines: Array  # (n,) line numbers
    delimiter: str  # "": blanks
    is_named: bool  # the first line names the columns


def read_columns(
    path: Path,
    as_texts: Callable[[Strings], Collection[int]] = lambda names: range(len(names)),
    largest: int = LARGEST,
) -> Columns:
    """Read a file; `as_texts` chooses columns of text by the names of all columns."""
    check_regular(str(path))
    parse = partial(parse_columns, path, as_texts, largest)
    file, suffix = name_of_file(str(path)), path.suffix.lower()
    return parse_or_refuse(parse, file, suffix, "save it as UTF-8 again")


def parse_columns(
    path: Path, as_texts: Callable[[Strings], Collection[int]], largest: int
) -> Columns:
    """Read a file; damaged files raise ValueError."""
    text = read_text(path, largest)
    line = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=line.count) if set(line) & set(DELIMITERS) else ""
    stream = io.StringIO(text, newline="")
    reader: Any = csv.reader(stream, delimiter=delimiter) if delimiter else map(str.split, stream)
    numbered = ((getattr(reader, "line_num", i), row) for i, row in enumerate(reader, 1) if row)
    try:
        number, first = next(numbered, (0, [""]))
        names, is_named = names_in([cell.strip() for cell in first])
        fast = len(text) >= LARGE and delimiter != "" and '"' not in text
        cells = parse_by_pandas(text, names, delimiter, is_named, as_texts) if fast else None
        if cells is not None:
            lines = np.arange(len(cells[0])) + 1 + is_named
            return Columns(names, cells, lines, delimiter, is_named)
        rows = [*([] if is_named else [(number, first)]), *numbered]
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if not rows:
        raise ValueError("there is no line below the column names")
    for number, row in rows:
        if len(row) != len(names):
            raise ValueError(f"line {number} has {len(row)} cells, the first has {len(names)}")
    texts = zip(*(row for _, row in rows), strict=True)
    cells = [np.array([*map(str.strip, column)], object) for column in texts]
    return Columns(names, cells, np.array([n for n, _ in rows]), delimiter, is_named)


def read_text(path: Path, largest: int) -> str:
    """Read a text, or a parquet file as text."""
    if path.suffix.lower() != ".parquet":
        if path.stat().st_size > largest:
            raise ValueError(f"the file has more than {largest} bytes")
        return path.read_bytes().decode("utf-8-sig")
    try:
        from pandas import read_parquet
        from pyarrow.parquet import read_metadata
    except ModuleNotFoundError as error:
        raise ValueError("pip install pandas pyarrow, which read it") from error
    about = read_metadata(path)
    if 8 * about.num_rows * about.num_columns > largest:
        raise ValueError(f"its {about.num_rows} rows have more than {largest} bytes")
    return str(read_parquet(path).to_csv(index=False))


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


def parse_by_pandas(
    text: str,
    names: Strings,
    delimiter: str,
    is_named: bool,  # noqa: FBT001
    as_texts: Callable[[Strings], Collection[int]],
) -> list[Array] | None:
    """Parse a text without quotes by pandas; None without pandas, or if lines are irregular."""
    try:
        import pandas
    except ModuleNotFoundError:
        return None
    how: Fields = {"header": None, "names": range(len(names)), "skiprows": int(is_named)}
    how |= {"dtype": dict.fromkeys(as_texts(names), str), "na_filter": False, "index_col": False}
    how |= {"float_precision": "round_trip", "low_memory": False}
    try:
        frame = pandas.read_csv(io.StringIO(text), sep=delimiter, **how)
    except (ValueError, OverflowError):
        return None
    lines = len(frame) + is_named
    cells = text.count(delimiter) == lines * (len(names) - 1)
    if not cells or lines != 1 + text.removesuffix("\n").count("\n"):
        return None
    columns = [frame.iloc[:, i] for i in range(len(names))]
    return [
        column.to_numpy(float)
        if column.dtype.kind in "iuf"
        else np.array([str(cell).strip() for cell in column.tolist()], object)
        for column in columns
    ]


def numbers_in(cells: Array) -> Array:
    """Parse cells as numbers: nan for a missing number, inf for what is no finite number.

    >>> numbers_in(np.array(["1,5", "NA", "x"], object))
    array([1.5, nan, inf])
    """
    return cells if cells.dtype == float else np.array([number_in(str(cell)) for cell in cells])


def number_in(cell: str) -> float:
    """Parse a cell, possibly with a decimal comma."""
    try:
        return float(cell.translate(POINT))
    except ValueError:
        return np.nan if cell.lower() in ABSENT else np.inf


def coded(cells: Sequence[Any] | Array) -> tuple[Array, list[str]]:
    """Return the code of each cell of text, and the distinct texts in alphabetical order."""
    texts = [str(cell) for cell in cells]
    names = sorted({*texts})
    code = {name: i for i, name in enumerate(names)}
    return np.array([code[text] for text in texts]), names

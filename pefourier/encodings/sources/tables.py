"""Read and write embedding tables in files; files are data and are never executed.

Conventions
-----------
A table is an array (n, d) of real numbers. Axes of length 1 before the last axis are dropped. The
axes of an image's rows and columns, (1, rows, columns, d) or (1, d, rows, columns), become its
grid. Floats keep their stored type, since the resolution of the vectors is a finding. Types that
numpy lacks become float32, integers float64. Large .npy and .safetensors files are mapped.
Files are written whole or not at all. `pefourier.encodings.sources.formats` defines the formats and
the limits of loading.
"""

import io
import math
import re
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from pefourier.encodings.encoding import Encoding, in_rows, is_bias, row_blocks
from pefourier.encodings.sources.formats import (
    DAMAGED,
    EPS,
    MEMORY,
    NPY_MAGIC,
    READERS,
    WHOLE,
    WRITERS,
    RowBlocks,
    Stored,
)
from pefourier.errors import (
    NUMBERS,
    PefourierError,
    channel_sides,
    check_size,
    image_sides,
    reshaping,
    shown,
    unknown,
)
from pefourier.types import Array, Counts, Ints
from pefourier.writing.files import (
    check_suffix,
    in_place,
    label,
    missing,
    os_errors,
    reason,
    split_spec,
    status_of,
    suffix_among,
    suffix_of,
    write_whole,
)

AT_ONCE = 2**18  # numbers in a block; larger blocks are slow because of page faults
MOST_IDS = 2**22  # size of an array up to which it is tested for position ids
MOSTLY, FEWEST_TOKENS = 0.5, 4  # least share of steps by 1 between ids; least tokens in a row
STREAMED = ("", ".npy", ".csv", ".txt")  # suffixes that may be a pipe


def check_regular(path: str) -> None:
    """Refuse a folder, a pipe and a device."""
    status = status_of(path)
    if status is None:
        raise missing(path)
    if not stat.S_ISREG(status.st_mode):
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "pipe or a device"
        raise PefourierError(f"{shown(path)} must be a file, to be read twice; it is a {kind}")


def open_table(path: str, suffix: str | None = None) -> tuple[BinaryIO, str]:
    """Return a seekable stream of the file's bytes, and the suffix of its reader."""
    if path == "-":
        if sys.stdin is None:
            raise PefourierError("standard input is closed; pipe a table into it or name a file")
        return read_pipe(sys.stdin.buffer, path)
    status = status_of(path)
    if status is None:
        raise missing(path)
    if not in_place(path, status):
        suffix = suffix or suffix_among(path, READERS)
        if suffix == ".csv" and status.st_size > MEMORY // 8:
            raise too_large(path, MEMORY // 8)
        with os_errors("read", path):
            return Path(path).open("rb"), suffix
    is_stream = stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
    if not is_stream or suffix_of(path) not in STREAMED:
        raise PefourierError(f"{shown(path)} must be a table file with suffix {', '.join(READERS)}")
    with os_errors("read", path), Path(path).open("rb") as pipe:
        return read_pipe(pipe, path)


def read_pipe(pipe: BinaryIO, path: str) -> tuple[io.BytesIO, str]:
    """Read a pipe, and return its bytes and the suffix that its first bytes suggest."""
    with os_errors("read", path):
        chunk = pipe.read(2**14)
        suffix = ".npy" if chunk.startswith(NPY_MAGIC) else ".csv"
        if suffix == ".csv" and b"\0" in chunk:
            raise PefourierError(f"{label(path)} is neither a .npy nor a .csv table; name a file")
        limit = MEMORY if suffix == ".npy" else MEMORY // 8
        stream = io.BytesIO()
        while chunk:
            stream.write(chunk)
            if stream.tell() > limit:
                raise too_large(path, limit)
            chunk = pipe.read(2**20)
        stream.seek(0)
        return stream, suffix


def too_large(path: str, limit: int) -> PefourierError:
    """Return the error for input that is too large to be read as a whole."""
    return PefourierError(f"{label(path)} has more than {limit} bytes; write them to a .npy file")


POSITIONS = re.compile(  # common names of position arrays in models
    r"(^|\.)(wpe|embed_positions|pos(itions?|itional)?_(embed(ding)?s?|encodings?))(\.(weight|pe))?$"
)
CODES = "codes"  # default name of a table
CSV_ADVICE = "write one row of numbers per line, separated by commas"
LIST = 2**29  # largest list of numbers in bytes: 2^26 positions
T = TypeVar("T")


@dataclass(frozen=True)
class ArrayFile:
    """The arrays in an open file by name, and the words of errors about it."""

    label: str
    suffix: str  # of its format
    advice: str  # what to do if the file is damaged
    arrays: Mapping[str, Stored]

    def load(self, name: str, dtype: str | None = None, **how: Any) -> Array:
        """Check and load an array: see `Stored.load`."""
        act = partial(self.arrays[name].load, self.label, name, dtype, **how)
        return parse_or_refuse(act, self.label, self.suffix, self.advice)


def parse_or_refuse(act: Callable[[], T], file: str, suffix: str, advice: str) -> T:
    """Run a parser without warnings, and report a damaged file in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file is either refused or valid
        try:
            return act()
        except PefourierError:
            raise
        except DAMAGED as error:
            raise PefourierError(
                f"{file} is not a readable {suffix} file: {reason(error)}; {advice}"
            ) from error


def read_table(path: str, key: str | None = None) -> tuple[Array, float]:
    """Return the table (n, d) in a file and the resolution of its stored type.

    The suffix selects the format: .npy, .npz, .csv, .pt, .pth or .safetensors. The first bytes
    decide whether ``-`` or a pipe is .npy or .csv. `key` names one of several arrays; a file with
    one table needs no key. float64, float32 and float16 are kept, bfloat16 and float8 become
    float32, integers float64. The resolution is the distance from 1 to the next stored number.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/codes.csv"
    >>> write_table(path, np.eye(2))
    >>> read_table(path)
    (array([[1., 0.],
           [0., 1.]]), 2.220446049250313e-16)
    """
    named_table = read_named_table(path, key)
    return named_table.vectors, named_table.eps


class NamedTable(NamedTuple):
    """A table of a file."""

    name: str  # empty if the array has no name
    vectors: Array
    eps: float
    paired: bool  # stored as complex numbers, an axis of 2, or arrays of cosines and of sines
    chosen: bool  # chosen among several arrays by its name
    sides: Counts  # rows and columns of an image, if they are axes of the array
    beside: Counts  # shape of the array if it has single axes other than the batch axis


def read_named_table(path: str, key: str | None = None) -> NamedTable:
    """Read a table like `read_table`, with facts about its array."""
    with open_arrays(path) as file:
        names = [] if key else waves_by_part(file.arrays)
        names = names or [choose_array(file.arrays, key, file.label)]
        stored = file.arrays[names[0]]
        kind, axes = float_type(stored.kind), stored.axes
        parts = [file.load(name, kind, mapping=True).reshape(axes) for name in names]
        table, paired = in_rows(parts[0] if len(parts) == 1 else np.stack(parts, axis=-1))
        if table.ndim != 2 and not is_bias(table.shape):
            raise no_table(stored, names[0], file.label)
        chosen = not key and len(names) == 1 < sum(entry.is_table for entry in file.arrays.values())
        eps = EPS.get(stored.kind, EPS["float64"])
        beside = stored.shape if table.ndim == 2 and 1 in stored.shape[1:-1] else ()
        sides = image_sides(stored.shape) or (channel_sides(stored.shape) * (table.ndim == 2))
        return NamedTable(names[0], table, eps, paired, chosen, sides, beside)


def waves_by_part(arrays: Mapping[str, Stored]) -> list[str]:
    """Return the names of two arrays such as cos and sin, if the file has no other tables."""
    names = sorted(name for name, stored in arrays.items() if stored.is_table)
    is_pair = len(names) == 2 and names[0].replace("cos", "sin") == names[1]
    return names if is_pair and arrays[names[0]].shape == arrays[names[1]].shape else []


def read_numbers(spec: str) -> Array:
    """Return numbers in FILE[#ARRAY]: (n,) for one axis, column or row, otherwise (n, columns)."""
    path, key = split_spec(spec)
    with open_arrays(path) as file:
        names = list(file.arrays) if not key else [find_array(file.arrays, key, file.label)]
        shape = file.arrays[names[0]].shape if len(names) == 1 else ()
        table = len(shape) == 2 and min(shape) > 1
        if not table and not 0 < math.prod(shape) == max(shape, default=0):
            contents = names_and_shapes({name: file.arrays[name] for name in names})
            way_out = "; name one as PATH#NAME" if len(names) > 1 else ""
            rule = "must hold one array of numbers in rows and columns"
            raise PefourierError(f"{file.label} {rule}; it has {contents}{way_out}")
        numbers = file.load(names[0], "float64", limit=LIST)
        return numbers.reshape(shape if table else -1)


@contextmanager
def open_arrays(
    path: str, suffix: str | None = None, *, regular: bool = False, advice: str = ""
) -> Iterator[ArrayFile]:
    """Open the arrays of a file, in the format of its suffix or of the given suffix.

    `regular` refuses pipes, for files that are read more than once.
    """
    if regular:
        check_regular(path)
    stream, suffix = open_table(path, suffix)
    advice = advice or (CSV_ADVICE if suffix == ".csv" else "write it again")
    with stream:
        arrays = parse_or_refuse(partial(READERS[suffix], stream), label(path), suffix, advice)
        yield ArrayFile(label(path), suffix, advice, arrays)


def choose_array(arrays: Mapping[str, Stored], key: str | None, file: str) -> str:
    """Return the array to read: `key`, the only table, or the table with a name of positions."""
    refuse_ids(arrays, key, file)
    if key is None:
        tables = [name for name, stored in arrays.items() if stored.is_table]
        tables = tables or [name for name, stored in arrays.items() if stored.may_be_pairs]
        wider = [name for name, s in arrays.items() if is_bias(s.shape) or channel_sides(s.shape)]
        by_name = [name for name in (*tables, *wider) if POSITIONS.search(name)]
        tables = by_name if len(by_name) == 1 else tables or wider
        if len(tables) > 1:
            listing = names_and_shapes({name: arrays[name] for name in tables})
            raise PefourierError(f"{file} holds several tables, {listing}; name one as PATH#NAME")
        key = tables[0] if tables else next(iter(arrays)) if len(arrays) == 1 else None
        if key is None:
            raise PefourierError(f"{file} must hold a table (n, d); got {names_and_shapes(arrays)}")
    stored = arrays[find_array(arrays, key, file)]
    is_wider = is_bias(stored.shape) or channel_sides(stored.shape)
    if not (stored.is_table or stored.may_be_pairs or is_wider):
        raise no_table(stored, key, file)
    return key


def counts_tokens(array: Array) -> bool:
    """Return whether integers are position ids: one row, or rows that mostly step by 1.

    >>> counts_tokens(np.arange(8)), counts_tokens(np.eye(8, dtype=int))
    (True, False)
    >>> counts_tokens(np.arange(12).reshape(3, 4))  # a single run over all rows is a table
    False
    """
    if array.shape[-1] < FEWEST_TOKENS or array.ndim == 1:
        return array.ndim == 1
    steps, whole = (np.diff(x.astype(np.int64)) == 1 for x in (array, array.ravel()))
    is_one_run = array.size > array.shape[-1] and bool(whole.all())
    return bool(steps.mean() >= MOSTLY) and not is_one_run


def refuse_ids(arrays: Mapping[str, Stored], key: str | None, file: str) -> None:
    """Refuse position ids, which are not vectors, by their name or as the only array."""
    names = [name for name in arrays if name.rpartition(".")[2] == "position_ids"]
    names = names or (list(arrays) if len(arrays) == 1 else [])
    if key is not None:
        names = [key] if key in arrays else []
    for name in names:
        stored = arrays[name]
        is_small = stored.kind in WHOLE - {"bool"} and 0 < math.prod(stored.shape) <= MOST_IDS
        if is_small and counts_tokens(np.atleast_1d(stored.load(file, name))):
            raise PefourierError(
                f"{file} holds position ids of shape {stored.shape}, not vectors; check them with "
                "pefourier positions"
            )


def no_table(stored: Stored, name: str, file: str) -> PefourierError:
    """Return the error for an array that is not a table."""
    contents = f"{file} holds {stored.label(name)} of {shown(stored.kind)[1:-1]}"
    rule = "a table must have two axes, (positions, dimensions), not empty, of real numbers"
    return PefourierError(f"{contents}; {rule}{reshaping(stored.shape)}")


def find_array(arrays: Mapping[str, Stored], key: str, file: str) -> str:
    """Return the name of an array if the file has it."""
    if key in arrays:
        return key
    if list(arrays) == [""]:
        raise PefourierError(f"{file} holds one unnamed array; leave out #{shown(key)}")
    names = [name for name in islice(arrays, 10_000) if len(name) < 200]
    raise unknown(f"array of {file}", key, names, f"It holds {names_and_shapes(arrays)}.")


def names_and_shapes(arrays: Mapping[str, Stored]) -> str:
    """Return the first names with their shapes."""
    listing = [stored.label(name) for name, stored in islice(arrays.items(), 10)]
    return ", ".join(listing + ["…"] * (len(arrays) > 10)) or "no array"


def in_form_of(
    path: str, key: str | None, table: Array, out: str, sides: Ints = ()
) -> tuple[Array, str, str]:
    """Return a table in the form of an array in a file: its shape, its type and its name.

    Single axes of the array are restored. If the array has axes for the rows and columns of an
    image, the table gets axes of the given sides. Types that numpy lacks, such as bfloat16, become
    float32. A .csv file has no third axis.
    """
    with open_arrays(path, regular=True) as file:
        name = choose_array(file.arrays, key, file.label)
        stored = file.arrays[name]
    shape = () if suffix_of(out) == ".csv" else stored.shape
    if image_sides(shape):
        table = table.reshape(1, *sides, -1)
    elif channel_sides(shape) and len(sides) == 2:
        table = table.T.reshape(1, -1, *sides)
    elif stored.is_table and shape:
        *before, _ = shape
        last = max(axis for axis, side in enumerate(before) if side == max(before))
        table = np.expand_dims(table, [axis for axis in range(len(before)) if axis != last])
    return table, np.dtype(float_type(stored.kind)).newbyteorder("<").str, name or CODES


def float_type(kind: str) -> str:
    """Return numpy's type for floats of a stored type; integers become float64."""
    wide = "float32" if kind in EPS else "float64"
    return kind if kind in ("float64", "float32", "float16") else wide


def array_names(path: str) -> list[str]:
    """Return the names of the arrays in a file."""
    with open_arrays(path, regular=True) as file:
        return list(file.arrays)


def rows_of_vectors(enc: Encoding, x: Array) -> RowBlocks:
    """Compute the vectors of points x in float64 in blocks, for files larger than memory."""
    check_size(f"a table of {shown(enc.spec)}", len(x), enc.dim, limit=NUMBERS)
    blocks = row_blocks(len(x), AT_ONCE, enc.dim)
    vectors = (np.ascontiguousarray(enc.table(x[part]), "<f8") for part in blocks)
    return RowBlocks((len(x), enc.dim), np.dtype("<f8"), vectors)


def write_table(path: str, table: Array | RowBlocks, dtype: str = "<f8", name: str = CODES) -> None:
    """Write a table (n, d) in the format of the suffix: see `WRITERS`.

    Arrays in .npz and .safetensors have a name. A .csv file has 17 significant digits, which read
    back exactly, and no header.
    """
    write = WRITERS[check_suffix(path, WRITERS)]
    rows = table if isinstance(table, RowBlocks) else np.ascontiguousarray(table, dtype)
    write_whole(path, lambda stream: write(stream, rows, name))

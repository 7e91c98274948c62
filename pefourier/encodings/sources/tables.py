"""A table of codes in a file, read and written; files are data, never code.

Conventions
-----------
A table is an array (n, d) of real numbers; axes of length one around it are dropped. Floats keep
their stored type, since the resolution of the codes is a finding; what numpy has no type for
becomes float32, integers float64. Large .npy, .safetensors and .pt files are mapped, not read.
Files are written whole or not at all. `pefourier.encodings.sources.formats` knows the formats.
"""

import io
import math
import stat
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import BinaryIO

import numpy as np

from pefourier.encodings.sources.formats import (
    EPS,
    HEAD,
    KINDS,
    NPY_MAGIC,
    READERS,
    WRITERS,
    Stored,
)
from pefourier.errors import PefourierError, shown, unknown
from pefourier.files import (
    check_suffix,
    in_place,
    label,
    missing,
    os_errors,
    reason,
    status_of,
    suffix_among,
    suffix_of,
    write_whole,
)

MEMORY = 2**33  # bytes that a table may take when it is not mapped
SUSPECT = 2**28  # bytes above which a table may take RATIO times its bytes in the file
RATIO = 100
FAULTS = (
    ValueError,
    MemoryError,
    OSError,
    EOFError,
    RuntimeError,  # an encrypted .npz
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
)


def read_table(path: str, key: str | None = None) -> tuple[np.ndarray, float]:
    """The table (n, d) in a file and the resolution of its stored type.

    The suffix says the format: .npy, .npz, .csv, .pt, .pth or .safetensors; ``-`` and pipes are
    .npy or .csv by their first bytes. `key` names one of several arrays; a file with one table
    needs none. float64, float32 and float16 are kept, bfloat16 and float8 become float32,
    integers float64; the resolution is the distance from one to the next stored number.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/codes.csv"
    >>> write_table(path, np.eye(2))
    >>> read_table(path)
    (array([[1., 0.],
           [0., 1.]]), 2.220446049250313e-16)
    """
    with open_arrays(path) as arrays:
        return load_floats(arrays[choose_array(arrays, key, label(path))], label(path))


def read_numbers(path: str) -> np.ndarray:
    """A row of numbers (n,): a one-dimensional array, or a table with a single column or row."""
    with open_arrays(path) as arrays:
        (stored,) = arrays.values() if len(arrays) == 1 else [None]
        if stored is None or math.prod(stored.shape) != max(stored.shape, default=0):
            raise PefourierError(
                f"{label(path)} holds {names_and_shapes(arrays)}; a list of numbers has one column"
            )
        if stored.kind not in KINDS:
            raise PefourierError(
                f"{label(path)} holds {names_and_shapes(arrays)} of {shown(stored.kind)[1:-1]}; "
                "expected real numbers"
            )
        return stored.load().reshape(-1).astype(float)


@contextmanager
def open_arrays(path: str) -> Iterator[dict[str, Stored]]:
    """The arrays of a file by name; what is wrong with the file is one line."""
    stream, suffix = open_table(path)
    with stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parsers, about files that are refused or fine
        try:
            yield READERS[suffix](stream)
        except PefourierError:
            raise
        except FAULTS as error:
            raise PefourierError(
                f"{label(path)} is not a readable {suffix} file: {reason(error)}; write it again"
            ) from error


def open_table(path: str) -> tuple[BinaryIO, str]:
    """A seekable stream of the file's bytes, and the suffix of the reader to give it to."""
    if path == "-":
        if sys.stdin is None:
            raise PefourierError("standard input is closed; pipe a table into it or name a file")
        return read_pipe(sys.stdin.buffer, path)
    status = status_of(path)
    if status is None:
        raise missing(path)
    suffix = suffix_of(path)
    with os_errors("read", path):
        if not in_place(path, status):
            suffix = suffix_among(path, READERS)
            return open(path, "rb"), suffix
        if stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK):
            with open(path, "rb") as pipe:
                stream, sniffed = read_pipe(pipe, path)
            return stream, suffix if suffix in READERS else sniffed
    what = "folder" if stat.S_ISDIR(status.st_mode) else "device"
    raise PefourierError(f"{shown(path)} is a {what}; name a file: {', '.join(READERS)}")


def read_pipe(pipe: BinaryIO, path: str) -> tuple[io.BytesIO, str]:
    """What a pipe holds, and the suffix that its first bytes point to."""
    with os_errors("read", path):
        chunk = pipe.read(HEAD)
        suffix = ".npy" if chunk.startswith(NPY_MAGIC) else ".csv"
        if suffix == ".csv" and b"\0" in chunk and suffix_of(path) not in READERS:
            raise PefourierError(f"{label(path)} is neither a .npy nor a .csv table; name a file")
        limit = MEMORY if suffix == ".npy" else MEMORY // 8
        stream = io.BytesIO()
        while chunk:
            stream.write(chunk)
            if stream.tell() > limit:
                raise PefourierError(
                    f"{label(path)} gives more than {limit} bytes; write them to a .npy file"
                )
            chunk = pipe.read(2**20)
        stream.seek(0)
        return stream, suffix


def choose_array(arrays: dict[str, Stored], key: str | None, file: str) -> str:
    """The name of the array that is meant: the one named by `key`, or the only table."""
    if key is None:
        tables = [name for name, stored in arrays.items() if stored.is_table]
        if len(tables) > 1:
            named = names_and_shapes({name: arrays[name] for name in tables})
            raise PefourierError(f"{file} holds several tables, {named}; name one as PATH#NAME")
        key = tables[0] if tables else next(iter(arrays)) if len(arrays) == 1 else None
        if key is None:
            raise PefourierError(
                f"{file} holds no table (n, d) of numbers; it holds {names_and_shapes(arrays)}"
            )
    elif list(arrays) == [""]:
        raise PefourierError(f"{file} holds one array without a name; leave out #{shown(key)}")
    elif key not in arrays:
        names = [name for name in islice(arrays, 10_000) if len(name) < 200]
        raise unknown(f"array of {file}", key, names, f"It holds {names_and_shapes(arrays)}.")
    if not arrays[key].is_table:
        raise PefourierError(
            f"{file} holds {names_and_shapes({key: arrays[key]})} of "
            f"{shown(arrays[key].kind)[1:-1]}; "
            "a table has two axes, (positions, dimensions), neither empty, of real numbers"
        )
    return key


def names_and_shapes(arrays: dict[str, Stored], limit: int = 10) -> str:
    """Names with shapes, the first few."""
    some = [
        f"{shown(name) if name else 'an array'} {stored.shape}"
        for name, stored in islice(arrays.items(), limit)
    ]
    if len(arrays) > limit:
        some.append("…")
    return ", ".join(some) or "no array"


def load_floats(stored: Stored, file: str) -> tuple[np.ndarray, float]:
    """The table in a float type of numpy, and the resolution of its stored type."""
    wide = "float32" if stored.kind in EPS else "float64"
    kind = stored.kind if stored.kind in ("float64", "float32", "float16") else wide
    need = math.prod(stored.shape) * np.dtype(kind).itemsize
    free = stored.mapped and kind == stored.kind
    if not free and (need > MEMORY or need > max(SUSPECT, RATIO * stored.held)):
        raise PefourierError(
            f"{file} has {stored.held} bytes for a table that takes {need}; the limits are "
            f"{MEMORY} and, above {SUSPECT}, {RATIO} times the bytes in the file; "
            "a .npy file of float32 is mapped and has no limit"
        )
    with np.errstate(all="ignore"):  # a long double beyond float64 is infinite, and refused later
        table = stored.load().reshape(stored.axes).astype(kind, copy=False)
    return table, EPS.get(stored.kind, EPS["float64"])


def array_names(path: str) -> list[str]:
    """Names of the arrays in a file."""
    with open_arrays(path) as arrays:
        return list(arrays)


def write_table(path: str, table: np.ndarray, dtype: str = "<f8") -> None:
    """Write a table (n, d) in the format of the suffix: see `WRITERS`.

    In .npz and .safetensors the array is called ``codes``; .csv has 17 significant digits and no
    header, and reads back exactly.
    """
    write = WRITERS[check_suffix(path, WRITERS)]
    write_whole(path, lambda stream: write(stream, np.ascontiguousarray(table, dtype)))

"""Read and write embedding tables in files; files are data and are never executed.

Conventions
-----------
A table is an array (n, d) of real numbers. Axes of length 1 before the last axis are dropped. The
axes of an image's rows and columns, (1, rows, columns, d) or (1, d, rows, columns), become its
grid. Floats keep their stored type, since the resolution of the vectors is a finding. Types that
numpy lacks become float32, integers float64. Large .npy and .safetensors files are mapped.
Files are written whole or not at all.

A reader of a format maps a seekable stream to `Stored` arrays by name. A `Stored` has the
properties that the file declares, checked against the size of the file, and loads the array on
demand. Headers are not trusted for allocations, and only tensors are unpickled. Damaged files raise
ValueError.
"""

import csv
import io
import json
import math
import os
import pickle
import re
import stat
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tokenize import TokenError
from types import SimpleNamespace
from typing import IO, Any, BinaryIO, TypeVar, cast

import numpy as np

from pefourier.encodings.encoding import Encoding, in_rows, is_bias, row_blocks
from pefourier.encodings.sources.json_object import single_pairs
from pefourier.errors import (
    NUMBERS,
    PefourierError,
    channel_sides,
    check_size,
    image_sides,
    reshaping,
    shown,
    table_axes,
    unknown,
)
from pefourier.types import Array, Counts, Ints, frozen
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

MEMORY = 2**33  # largest array in memory that is not mapped, in bytes
SUSPECT = 2**28  # arrays above this size, in bytes, may take RATIO times their bytes in the file
RATIO = 100
MOST_AXES = 32
EPS = {  # distance from 1 to the next number of a stored type; other types become float64
    "float64": 2**-52,
    "float32": 2**-23,
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float8_e4m3fn": 2**-3,
    "float8_e5m2": 2**-2,
}
WHOLE = {"bool"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
KINDS = {*EPS, *WHOLE}
TEXT = re.compile(r"(str|bytes)[1-9][0-9]*")  # fixed-width text


@frozen
class Stored:
    """An array as a file declares it; `load` reads the data."""

    shape: Counts
    kind: str  # name of the type of its numbers
    width: int  # bytes of a number in memory
    file_bytes: int  # bytes of the array in the file
    copied: Callable[[], Array]  # reads the array; called by `load` after its checks
    mapped: Callable[[], Array] | None = None  # maps the array if numpy has its layout

    @property
    def axes(self) -> Counts:
        """Return the shape without single axes before or between positions and dimensions."""
        return table_axes(self.shape)

    @property
    def is_table(self) -> bool:
        """Return whether the array has two axes, neither empty, of real numbers."""
        return self.kind in KINDS and len(self.axes) == 2 and 0 not in self.axes

    @property
    def is_wider(self) -> bool:
        """Return whether the array may be a bias, or has axes for rows and columns of an image."""
        return is_bias(self.shape) or bool(channel_sides(self.shape))

    @property
    def may_be_pairs(self) -> bool:
        """Return whether the last axis has size 2 and may hold cosines and sines."""
        return self.kind in KINDS and len(self.axes) == 3 and self.axes[2] == 2 and all(self.axes)

    def load(
        self,
        file: str,
        name: str,
        dtype: str | None = None,
        *,
        text: bool = False,
        mapping: bool = False,
        limit: int = MEMORY,
    ) -> Array:
        """Check and load the array, converted to `dtype` if given.

        Errors name the array by `file` and `name`. `text` also allows fixed-width text. `mapping`
        maps a large array that needs no conversion. `limit` is the largest size in memory, in
        bytes. An archive of a few kB may declare gigabytes, so arrays above 256 MiB may take at
        most 100 times their bytes in the file.
        """
        if self.kind not in KINDS and not (text and TEXT.fullmatch(self.kind)):
            expected = "numbers or fixed-width text" if text else "real numbers"
            raise PefourierError(
                f"{file} holds {self.label(name)} of {shown(self.kind)[1:-1]}; expected {expected}"
            )
        if mapping and self.mapped and dtype in (None, self.kind) and self.need() > SUSPECT:
            return self.mapped()
        way_out = "; use a .npy file of float32, which has no limit" if mapping else ""
        need = self.need(dtype)
        if need > limit or need > max(SUSPECT, RATIO * self.file_bytes):
            raise PefourierError(
                f"{file} has {self.file_bytes} bytes for an array that takes {need}; the limits "
                f"are {limit} and, above {SUSPECT}, {RATIO} times the bytes in the file{way_out}"
            )
        with np.errstate(all="ignore"):  # numbers may overflow, and are refused later
            array = self.copied()
            if array.dtype.kind == "U":  # other numbers than characters fail in Python later
                array.astype(array.dtype.newbyteorder("<")).tobytes().decode("utf-32-le")
            return array.astype(dtype, copy=False) if dtype else array

    def need(self, dtype: str | None = None) -> int:
        """Return the bytes of the array in memory, in its own type or as `dtype`."""
        return math.prod(self.shape) * (np.dtype(dtype).itemsize if dtype else self.width)

    def label(self, name: str) -> str:
        """Return a name and the shape."""
        return f"{shown(name) if name else 'an array'} {self.shape}"


Arrays = Mapping[str, Stored]  # by name


@frozen
class RawArray(Stored):
    """An array that a file stores in raster order."""

    start: int = field(kw_only=True)  # offset of the data in the file, in bytes
    bits: np.dtype[Any] = field(kw_only=True)  # type of the stored bits


def check_shape(shape: Sequence[object], width: int, room: float) -> None:
    """Refuse an invalid shape, and a shape that needs more than `room` bytes."""
    sizes = [axis for axis in shape if type(axis) is int and 0 <= axis < 2**63]
    if len(sizes) != len(shape) or len(sizes) > MOST_AXES:
        raise ValueError("its shape is not a valid array shape")
    need = math.prod(sizes) * width
    if need > room:
        raise ValueError(f"its shape {tuple(sizes)} needs {need} bytes; it has {max(0, room)}")


def bfloat16(bits: Array) -> Array:
    """Convert bfloat16 bits, the upper halves of float32, to float32.

    >>> bfloat16(np.array([0x3F80, 0xC040], dtype=np.uint16))
    array([ 1., -3.], dtype=float32)
    """
    wide = bits.astype(np.uint32)
    wide <<= 16  # in place, which is faster than a shift with a cast
    return wide.view(np.float32)


def float8(kind: str, bits: Array) -> Array:
    """Convert bits of a type of torch to float32.

    >>> float8("float8_e4m3fn", np.array([0x40, 0xFF], dtype=np.uint8))
    array([ 2., nan], dtype=float32)
    """
    import torch

    return torch.tensor(bits).view(getattr(torch, kind)).float().numpy()


DECODERS: dict[str, Callable[[Array], Array]] = {
    "bfloat16": bfloat16,
    **{kind: partial(float8, kind) for kind in ("float8_e5m2", "float8_e4m3fn")},
}


LONGEST_NPY = 1000  # characters of a .npy header: numpy takes seconds for long ones of Python 2
OF_POSITIONS = {"pos", "position", "positions", "index"}  # names of a first column
LONGEST_LINE = 2**26  # characters of a line in a .csv file, enough for MOST_COLUMNS
MOST_COLUMNS = 2**21
LONGEST_HEADER = 100_000_000  # bytes of a .safetensors file, as in the library
NPY: Any = np.lib.format  # has no type annotations
read_npy_array: Callable[[Any], Array] = partial(
    NPY.read_array, allow_pickle=False, max_header_size=LONGEST_NPY
)
NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK\x03\x04"
DAMAGED = (  # exceptions of parsers on damaged files, found by fuzzing; readers raise ValueError
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError),
    *(OSError, RuntimeError, SyntaxError, TypeError, ValueError, TokenError),
    *(zipfile.BadZipFile, zlib.error, struct.error, pickle.UnpicklingError, csv.Error),
)
SAFETENSORS = {  # name in the file: type of the numbers, type of the bytes
    **{
        f"{kind[0].upper()}{8 * size}": (f"{kind}{8 * size}", f"<{kind[0]}{size}")
        for kind in ("float", "int", "uint")
        for size in (1, 2, 4, 8)
    },
    "BF16": ("bfloat16", "<u2"),
    "F8_E4M3": ("float8_e4m3fn", "u1"),
    "F8_E5M2": ("float8_e5m2", "u1"),
    "BOOL": ("bool", "u1"),
}


def read_npy(stream: BinaryIO) -> Arrays:
    """Return the array of a .npy file."""
    size = stream.seek(0, os.SEEK_END)

    def copied() -> Array:
        stream.seek(0)
        return read_npy_array(stream)

    stream.seek(0)
    return {"": npy_array(stream, size, size, copied, stream)}


def npy_array(
    head: IO[bytes],
    size: int,
    file_bytes: int,
    copied: Callable[[], Array],
    stream: IO[bytes] | None = None,
) -> Stored:
    """Describe the .npy array that starts with `head` and has `size` bytes with its header."""
    head = io.BytesIO(head.read(2 * LONGEST_NPY))
    try:
        major, minor = NPY.read_magic(head)
        read_header = getattr(NPY, f"read_array_header_{major}_{minor}")
        shape, fortran, dtype = read_header(head, max_header_size=LONGEST_NPY)
    except DAMAGED as error:
        raise ValueError("its header does not describe an array") from error
    axes = table_axes(shape)
    is_complex = dtype.kind == "c" and len(axes) == 2 and not fortran
    if is_complex:  # each number is a pair of floats
        shape, dtype = (*axes, 2), np.dtype(f"{dtype.byteorder}f{dtype.itemsize // 2}")
    is_plain = dtype.name in KINDS or TEXT.fullmatch(dtype.name)
    room = size - head.tell() if is_plain else math.inf  # other types are pickled
    check_shape(shape, dtype.itemsize, room)
    mapped = map_of(stream, dtype, head.tell(), shape, "F" if fortran else "C")
    pairs = (lambda: copied().view(dtype).reshape(shape)) if is_complex else copied
    return Stored(shape, dtype.name, dtype.itemsize, file_bytes, pairs, mapped)


def map_of(
    stream: IO[bytes] | None, dtype: np.dtype[Any], *place: Any
) -> Callable[[], Array] | None:
    """Return a function that maps an array of a file; None if numpy cannot map it."""
    is_file = stream is not None and not isinstance(stream, io.BytesIO)
    return partial(np.memmap, stream, dtype, "r", *place) if is_file and dtype.isnative else None


def read_npz(stream: BinaryIO) -> Arrays:
    """Return the arrays of a .npz file by name."""
    if stream.read(2) != ZIP_MAGIC[:2]:
        raise ValueError("it is not an archive of arrays as numpy.savez writes it")
    size = stream.seek(0, os.SEEK_END)
    archive, members = zipfile.ZipFile(stream), {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"it holds two arrays with the name {shown(name)}")
        if name != info.filename:
            members[name] = npz_member(archive, info, size)
    return members


PACKED = 2**12  # bytes of LZMA input per read; 1 kB may expand to 7 MB


def npz_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, size: int) -> Stored:
    """Return one .npy file within a .npz file of `size` bytes."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        raise ValueError("its compression is not supported; expected deflate or LZMA")

    def copied() -> Array:
        with archive.open(info) as member:
            part = SimpleNamespace(read=lambda count: member.read(min(count, PACKED)))
            return read_npy_array(part if info.compress_type == zipfile.ZIP_LZMA else member)

    with archive.open(info) as member:  # an archive may declare more bytes than it has
        return npy_array(member, info.file_size, min(info.compress_size, size), copied)


def read_csv(stream: BinaryIO) -> Arrays:
    """Read numbers separated by commas; # starts a comment, the first line may be a header."""
    text = io.TextIOWrapper(stream, "utf-8-sig")
    try:
        rows = csv_rows(text)
        first = list(islice(rows, 2))
        header = csv_header([[cell.strip() for cell in row.split(",")] for row in first])
        lines = chain(first[bool(header) :], rows)
        table = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2)
    finally:
        text.detach()
    if not table.size:
        raise ValueError("it has no line of numbers separated by commas")
    if header and header[0].lower() in OF_POSITIONS and table.shape[1] > 1:
        raise ValueError(f"its column {shown(header[0])} holds positions; leave it out")
    return {"": Stored(table.shape, "float64", 8, table.nbytes, lambda: table)}


def csv_rows(text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines with content besides comments; refuse lines that are too long."""
    for line, content in enumerate(iter(partial(text.readline, LONGEST_LINE + 1), ""), 1):
        if len(content) > LONGEST_LINE or content.count(",") >= MOST_COLUMNS:
            raise ValueError(
                f"line {line} has more than {LONGEST_LINE} characters or {MOST_COLUMNS} columns"
            )
        if row := content.partition("#")[0].strip():
            yield row


def csv_header(rows: list[list[str]]) -> list[str]:
    """Return the first of two rows if it is a header: names, or column indices over fractions."""
    first, second = (*rows, [], [])[:2]
    counted = len(first) > 1 and first == [str(column) for column in range(len(first))]
    above_fractions = counted and any("." in cell for cell in second)
    is_named = any(first) and not any(reads_as_number(cell) for cell in first)
    return first if above_fractions or is_named else []


def reads_as_number(cell: str) -> bool:
    """Return whether numpy reads a cell of a .csv file as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def read_torch(stream: BinaryIO) -> Arrays:
    """Return the tensors of a torch.save file by dotted names; refuse other Python objects."""
    if stream.read(4) != ZIP_MAGIC:
        raise ValueError("it is not an archive as torch.save writes it since version 1.6")
    import torch

    if any(info.compress_type for info in zipfile.ZipFile(stream).infolist()):
        raise ValueError("it holds compressed parts, which torch.save never writes")
    size = stream.seek(0, os.SEEK_END)
    mapped = size > SUSPECT
    stream.seek(0)
    try:
        source = stream.name if mapped else stream
        tree = torch.load(source, "cpu", weights_only=True, mmap=mapped)
    except DAMAGED as error:
        raise ValueError("it is damaged, or holds objects other than tensors") from error
    return {
        name: torch_array(tensor, size) for name, tensor in tensors(tree, torch.Tensor, "", set())
    }


def tensors(tree: Any, kind: type, name: str, visited: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors in nested mappings, each mapping once: pickles may contain cycles."""
    if isinstance(tree, kind):
        yield name, tree
    elif isinstance(tree, Mapping) and id(tree) not in visited and len(name) < 1000:
        visited.add(id(tree))
        for key, item in tree.items():
            if isinstance(key, str | int):
                yield from tensors(item, kind, f"{name}.{key}" if name else str(key), visited)


def torch_array(tensor: Any, size: int) -> Stored:
    """Describe a tensor of a file of `size` bytes, which torch may have mapped."""
    import torch

    if tensor.is_complex() and len(axes := table_axes(tensor.shape)) == 2:
        tensor = torch.view_as_real(tensor.resolve_conj().reshape(axes))
    kind = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested or str(tensor.layout) != "torch.strided" or tensor.device.type != "cpu":
        return Stored((), "a tensor without plain numbers", 0, 0, tensor.numpy)

    def copied() -> Array:
        return np.array((tensor.float() if kind in DECODERS else tensor).numpy(force=True))

    width = 4 if kind in DECODERS else tensor.element_size()
    file_bytes = min(size, tensor.untyped_storage().nbytes())
    return Stored(tuple(tensor.shape), kind, width, file_bytes, copied)


def read_safetensors(stream: BinaryIO) -> Arrays:
    """Return the tensors of a .safetensors file: length of the header, JSON header, data.

    Tensors of unsupported types are refused when they are loaded.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    start = 8 + length
    if size < start:
        raise ValueError(f"it declares a header of {length} bytes but has {max(0, size - 8)}")
    if length > LONGEST_HEADER:
        raise ValueError(f"it has a header of {length} bytes; the limit is {LONGEST_HEADER}")
    try:
        first = stream.read(1)  # a sparse file declares a long header of zeros
        text = (first + stream.read(length - 1 if first == b"{" else 0)).decode()
        header = json.loads(text, object_pairs_hook=single_pairs)
        header.pop("__metadata__", None)
        "".join(header).encode()  # refuses halves of surrogate pairs
        return {name: safetensor(stream, entry, start, size) for name, entry in header.items()}
    except (TypeError, LookupError, AttributeError, RecursionError, json.JSONDecodeError) as error:
        raise ValueError("its header does not describe arrays") from error


def safetensor(stream: BinaryIO, entry: Any, start: int, size: int) -> Stored:
    """Describe a tensor from its header entry; the data of the file start at byte `start`."""
    shape, type_name, offsets = entry["shape"], entry["dtype"], entry["data_offsets"]
    begin, end = offsets
    kind, raw = SAFETENSORS.get(type_name, (f"type {type_name}", "u1"))
    is_known, dtype, decode = type_name in SAFETENSORS, np.dtype(raw), DECODERS.get(kind)
    check_shape([begin, end], 0, 0)
    check_shape(shape, dtype.itemsize, end - begin if is_known else math.inf)
    need = math.prod(shape) * dtype.itemsize
    if start + end > size or begin > end or (is_known and need != end - begin):
        raise ValueError(f"its offsets {begin} to {end} do not fit the shape {tuple(shape)}")
    first = start + begin

    def copied() -> Array:
        stream.seek(first)
        data = np.empty(need, np.uint8)
        if cast("io.BufferedIOBase", stream).readinto(data.data) < need:
            raise ValueError("it is cut off within an array")
        bits = data.view(dtype).reshape(shape)
        return decode(bits) if decode else bits

    mapped = None if decode else map_of(stream, dtype, first, tuple(shape))
    sizes = 4 if decode else dtype.itemsize, end - begin
    return RawArray(tuple(shape), kind, *sizes, copied, mapped, start=first, bits=dtype)


READERS: dict[str, Callable[[BinaryIO], Arrays]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    **dict.fromkeys((".csv", ".txt"), read_csv),
    **dict.fromkeys((".bin", ".ckpt", ".pt", ".pth"), read_torch),
    ".safetensors": read_safetensors,
}


@frozen
class RowBlocks:
    """An array that is computed in blocks of rows while it is written."""

    shape: Counts
    dtype: np.dtype[Any]
    blocks: Iterator[Array]
    kind: str = ""  # name in .safetensors, for types that numpy lacks


TableRows = Array | RowBlocks


def write_npy(stream: IO[bytes], table: TableRows, _name: str = "") -> None:
    """Write a .npy file, unlike numpy.save also to a pipe; a full disk raises a clear error."""
    header = {"descr": table.dtype.str, "fortran_order": False, "shape": table.shape}
    NPY.write_array_header_1_0(stream, header)
    for block in getattr(table, "blocks", [table]):
        stream.write(block.data)


def write_csv(stream: BinaryIO, table: TableRows, _name: str = "") -> None:
    """Write numbers with 17 digits, which read back exactly."""
    for block in getattr(table, "blocks", [table]):
        np.savetxt(stream, block.reshape(len(block), -1), fmt="%.17g", delimiter=",")


def write_npz(stream: BinaryIO, table: TableRows, name: str) -> None:
    """Write a .npz file; unlike numpy.savez also with the array name "file"."""
    with zipfile.ZipFile(stream, "w") as archive:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            write_npy(member, table)


def write_tensors(stream: BinaryIO, tensors: Mapping[str, TableRows]) -> None:
    """Write tensors by name as .safetensors: length of the header, JSON header, data."""
    entries, end = {}, 0
    for name, value in tensors.items():
        span = [end, end + math.prod(value.shape) * value.dtype.itemsize]
        kind = getattr(value, "kind", "") or WRITTEN[value.dtype.name]
        entries[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": span}
        end = span[1]
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)  # align the data
    stream.write(len(header).to_bytes(8, "little") + header)
    for value in tensors.values():
        for block in getattr(value, "blocks", [value]):
            stream.write(np.ascontiguousarray(block).data)


WRITTEN = {kind: name for name, (kind, _) in SAFETENSORS.items()}
Writer = Callable[[BinaryIO, TableRows, str], None]  # with a table's name
WRITERS: dict[str, Writer] = {
    ".npy": write_npy,
    ".npz": write_npz,
    ".csv": write_csv,
    ".safetensors": lambda stream, table, name: write_tensors(stream, {name: table}),
}


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


@frozen
class ArrayFile:
    """The arrays in an open file by name, and the words of errors about it."""

    label: str
    suffix: str  # of its format
    advice: str  # what to do if the file is damaged
    arrays: Arrays

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


@frozen
class NamedTable:
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
            choose_array(file.arrays, key, file.label)  # of several tables, one must be named
            raise no_table(stored, names[0], file.label)
        chosen = not key and len(names) == 1 < sum(entry.is_table for entry in file.arrays.values())
        eps = EPS.get(stored.kind, EPS["float64"])
        beside = stored.shape if table.ndim == 2 and 1 in stored.shape[1:-1] else ()
        sides = image_sides(stored.shape)
        if table.ndim == 2:
            sides = sides or channel_sides(stored.shape)
        return NamedTable(names[0], table, eps, paired, chosen, sides, beside)


def waves_by_part(arrays: Arrays) -> list[str]:
    """Return the names of two arrays such as cos and sin, beside whole numbers such as ids."""
    names = sorted(
        n for n, stored in arrays.items() if stored.is_table and stored.kind not in WHOLE
    )
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


def choose_array(arrays: Arrays, key: str | None, file: str) -> str:
    """Return the array to read: `key`, the only table, or the table with a name of positions."""
    refuse_ids(arrays, key, file)
    if key is None:
        tables = [name for name, stored in arrays.items() if stored.is_table]
        tables = tables or [name for name, stored in arrays.items() if stored.may_be_pairs]
        wider = [name for name, stored in arrays.items() if stored.is_wider]
        by_name = [name for name in (*tables, *wider) if POSITIONS.search(name)]
        tables = by_name if len(by_name) == 1 else tables or wider
        if len(tables) > 1:
            listing = names_and_shapes({name: arrays[name] for name in tables})
            raise PefourierError(f"{file} holds several tables, {listing}; name one as PATH#NAME")
        key = tables[0] if tables else next(iter(arrays)) if len(arrays) == 1 else None
        if key is None:
            raise PefourierError(f"{file} must hold a table (n, d); got {names_and_shapes(arrays)}")
    stored = arrays[find_array(arrays, key, file)]
    if not (stored.is_table or stored.may_be_pairs or stored.is_wider):
        raise no_table(stored, key, file)
    return key


def refuse_ids(arrays: Arrays, key: str | None, file: str) -> None:
    """Refuse position ids, which are not vectors, by their name or as the only array.

    Position ids are integers in one row, or in rows that mostly step by 1. A single run over all
    rows is a table.
    """
    names = [name for name in arrays if name.rpartition(".")[2] == "position_ids"]
    if not names and len(arrays) == 1:
        names = [*arrays]
    for name in names if key is None else {key} & arrays.keys():
        stored = arrays[name]
        if stored.kind in WHOLE - {"bool"} and 0 < math.prod(stored.shape) <= MOST_IDS:
            ids = np.atleast_1d(stored.load(file, name)).astype(np.int64)
            steps, n = np.diff(ids) == 1, ids.shape[-1]
            is_run = ids.size > n and (np.diff(ids.ravel()) == 1).all()
            if ids.ndim == 1 or (n >= FEWEST_TOKENS and steps.mean() >= MOSTLY and not is_run):
                raise PefourierError(
                    f"{file} holds position ids of shape {stored.shape}, not vectors; check them "
                    "with pefourier positions"
                )


def no_table(stored: Stored, name: str, file: str) -> PefourierError:
    """Return the error for an array that is not a table."""
    contents = f"{file} holds {stored.label(name)} of {shown(stored.kind)[1:-1]}"
    rule = "a table must have two axes, (positions, dimensions), not empty, of real numbers"
    return PefourierError(f"{contents}; {rule}{reshaping(stored.shape)}")


def find_array(arrays: Arrays, key: str, file: str) -> str:
    """Return the name of an array if the file has it."""
    if key in arrays:
        return key
    if list(arrays) == [""]:
        raise PefourierError(f"{file} holds one unnamed array; leave out #{shown(key)}")
    names = [name for name in islice(arrays, 10_000) if len(name) < 200]
    raise unknown(f"array of {file}", key, names, f"It holds {names_and_shapes(arrays)}.")


def names_and_shapes(arrays: Arrays) -> str:
    """Return the first names with their shapes."""
    listing = [stored.label(name) for name, stored in islice(arrays.items(), 10)]
    if len(arrays) > 10:
        listing.append("…")
    return ", ".join(listing) or "no array"


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

"""Which bytes are a table of codes? Reading and writing tables; files are data, never code.

Conventions
-----------
A table is an array (n, d) of real numbers; axes of length one around it are dropped. What a file
declares is checked against the bytes that are there before memory is taken: nothing is allocated
on the word of a header, nothing is unpickled but tensors. Floats keep their stored type, since the
resolution of the codes is a finding; what numpy has no type for becomes float32, integers float64.
Large .npy, .safetensors and .pt files are mapped, not read.
"""

import io
import json
import math
import os
import pickle
import secrets
import shutil
import stat
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np

from pefourier.errors import PefourierError, shown, unknown

MEMORY = 2**33  # bytes that a table may take when it is not mapped
SUSPECT = 2**28  # bytes above which a table may take RATIO times its bytes in the file
RATIO = 100
HEAD = 2**14  # bytes that hold any .npy header numpy accepts (10,000 characters)
NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK\x03\x04"
# What parsers raise on damaged files, found by fuzzing; the readers tell it as ValueError
NPY_FAULTS = (
    *(ValueError, TypeError, AttributeError, KeyError, SyntaxError, TokenError),
    *(RecursionError, MemoryError),
)
TORCH_FAULTS = (
    *(ValueError, TypeError, LookupError, AttributeError, AssertionError, ArithmeticError),
    *(RuntimeError, MemoryError, EOFError, OSError, struct.error, pickle.UnpicklingError),
)
FAULTS = (
    *(ValueError, MemoryError, OSError, EOFError, RuntimeError),  # RuntimeError: encrypted .npz
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
EPS = {  # distance from one to the next number of a stored type; every other type becomes float64
    "float64": 2**-52,
    "float32": 2**-23,
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float8_e4m3fn": 2**-3,
    "float8_e5m2": 2**-2,
}
WHOLE = {"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
KINDS = {*EPS, *WHOLE, np.dtype(np.longdouble).name}
SAFETENSORS = {  # name in the file: type of the numbers, type of the bytes
    **{f"F{8 * size}": (f"float{8 * size}", f"<f{size}") for size in (2, 4, 8)},
    "BF16": ("bfloat16", "<u2"),
    "F8_E4M3": ("float8_e4m3fn", "u1"),
    "F8_E5M2": ("float8_e5m2", "u1"),
    "BOOL": ("bool", "u1"),
    **{f"I{8 * size}": (f"int{8 * size}", f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": (f"uint{8 * size}", f"<u{size}") for size in (1, 2, 4, 8)},
}


@dataclass(frozen=True)
class Stored:
    """An array as a file declares it; nothing of it is read before `load` is called."""

    shape: tuple[int, ...]
    kind: str  # name of the type of its numbers
    held: int  # bytes it takes in the file
    mapped: bool  # as it is stored it costs no memory
    load: Callable[[], np.ndarray]

    @property
    def axes(self) -> tuple[int, ...]:
        """The shape without a single axis before or between positions and dimensions."""
        batch = len(self.shape) == 3 and 1 in self.shape[:2]
        return (self.shape[0] * self.shape[1], self.shape[2]) if batch else self.shape

    @property
    def is_table(self) -> bool:
        """Whether it has two axes, neither empty, of real numbers."""
        return len(self.axes) == 2 and 0 not in self.axes and self.kind in KINDS


@dataclass(frozen=True)
class Layout:
    """Where an array lies in a run of bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int
    order: str = "C"

    @property
    def nbytes(self) -> int:
        """Bytes that the numbers take."""
        return math.prod(self.shape) * self.dtype.itemsize

    def within(self, size: int) -> "Layout":
        """The layout itself, where a run of `size` bytes has room for it."""
        if len(self.shape) > 32 or not all(0 <= axis < 2**63 for axis in self.shape):
            raise ValueError("its shape is not that of an array")
        if self.nbytes > size - self.offset:
            raise ValueError(
                f"its shape {self.shape} of {self.dtype.name} needs {self.nbytes} bytes, "
                f"{max(0, size - self.offset)} are there"
            )
        return self

    def of(self, data: bytes) -> np.ndarray:
        """The array in bytes held in memory."""
        flat = np.frombuffer(data, self.dtype, math.prod(self.shape), self.offset)
        return flat.reshape(self.shape, order=self.order)

    def at(self, stream: BinaryIO) -> np.ndarray:
        """The array in a stream; a file's is mapped."""
        if isinstance(stream, io.BytesIO):
            return self.of(stream.getvalue())
        return np.memmap(stream, self.dtype, "r", self.offset, self.shape, self.order)


def read_table(path: str, key: str | None = None) -> tuple[np.ndarray, float]:
    """The table (n, d) in a file and the resolution of its stored type.

    The suffix tells the format: .npy, .npz, .csv, .pt, .pth or .safetensors; ``-`` and pipes are
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
    stream, suffix = opened(path)
    with stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parsers, about files that are refused or fine
        try:
            arrays = READERS[suffix](stream)
            name = chosen(arrays, key, label(path))
            return as_floats(arrays[name], label(path))
        except PefourierError:
            raise
        except FAULTS as error:
            raise PefourierError(
                f"{label(path)} is no readable {suffix} file: {reason(error)}; write it again"
            ) from error


def label(path: str) -> str:
    """How a path is called in a message."""
    return "standard input" if path == "-" else shown(path)


def opened(path: str) -> tuple[BinaryIO, str]:
    """A seekable stream of the file's bytes, and the suffix of the reader to give it to."""
    if path == "-":
        if sys.stdin is None:
            raise PefourierError("standard input is closed; pipe a table into it or name a file")
        return in_memory(sys.stdin.buffer, path)
    status = status_of(path)
    if status is None:
        raise missing(path)
    suffix = suffix_of(path)
    with os_errors("read", path):
        if not in_place(path, status):
            suffix = known_suffix(path, READERS)
            return open(path, "rb"), suffix
        if stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK):
            with open(path, "rb") as pipe:
                stream, sniffed = in_memory(pipe, path)
            return stream, suffix if suffix in READERS else sniffed
    what = "folder" if stat.S_ISDIR(status.st_mode) else "device"
    raise PefourierError(f"{shown(path)} is a {what}; name a file: {', '.join(READERS)}")


def in_memory(pipe: BinaryIO, path: str) -> tuple[io.BytesIO, str]:
    """What a pipe holds and the suffix its first bytes tell."""
    with os_errors("read", path):
        chunk = pipe.read(HEAD)
        suffix = ".npy" if chunk.startswith(NPY_MAGIC) else ".csv"
        if suffix == ".csv" and b"\0" in chunk and suffix_of(path) not in READERS:
            raise PefourierError(f"{label(path)} is no .npy and no .csv table; name a file")
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


def status_of(path: str) -> os.stat_result | None:
    """What the system knows of a path, links followed; None where nothing is there."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in the path
        raise PefourierError(f"cannot reach {shown(path)}: {reason(error)}") from error


@contextmanager
def os_errors(action: str, path: str) -> Iterator[None]:
    """Failures of the operating system told in one line."""
    try:
        yield
    except OSError as error:
        raise PefourierError(f"cannot {action} {label(path)}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """The system's word for a failure, or the first line of a library's."""
    told = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return told[:300] or type(error).__name__


def missing(path: str) -> PefourierError:
    """The error for a file that is not there, with the nearest name in its folder."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder or "."):
        return PefourierError(f"no file {shown(path)}: there is no folder {shown(folder)}")
    with os_errors("look into", folder or "."), os.scandir(folder or ".") as entries:
        names = [entry.name for entry in islice(entries, 10_000) if entry.name != name]
    return unknown("file", name, names, f"There is no such file in {shown(folder or '.')}.")


def suffix_of(path: str) -> str:
    """The suffix in lower case, with its dot; empty where there is none."""
    return os.path.splitext(path)[1].lower()


def known_suffix(path: str, allowed: Collection[str]) -> str:
    """The suffix of a path in lower case, where it is an allowed one."""
    suffix = suffix_of(path)
    if suffix not in allowed:
        raise unknown("suffix", suffix, allowed, f"{shown(path)} may end in {', '.join(allowed)}.")
    return suffix


def chosen(arrays: dict[str, Stored], key: str | None, file: str) -> str:
    """The name of the array that is meant: the one asked for, or the only table."""
    if key is None:
        tables = [name for name, stored in arrays.items() if stored.is_table]
        if len(tables) > 1:
            named = listed({name: arrays[name] for name in tables})
            raise PefourierError(f"{file} holds several tables, {named}; name one as PATH#NAME")
        key = tables[0] if tables else next(iter(arrays)) if len(arrays) == 1 else None
        if key is None:
            raise PefourierError(
                f"{file} holds no table (n, d) of numbers; it holds {listed(arrays)}"
            )
    elif list(arrays) == [""]:
        raise PefourierError(f"{file} holds one array without a name; leave out #{shown(key)}")
    elif key not in arrays:
        names = [name for name in islice(arrays, 10_000) if len(name) < 200]
        raise unknown(f"array of {file}", key, names, f"It holds {listed(arrays)}.")
    if not arrays[key].is_table:
        raise PefourierError(
            f"{file} holds {listed({key: arrays[key]})} of {shown(arrays[key].kind)[1:-1]}; "
            "a table has two axes, (positions, dimensions), neither empty, of real numbers"
        )
    return key


def listed(arrays: dict[str, Stored], limit: int = 10) -> str:
    """Names with shapes, the first few."""
    some = [
        f"{shown(name) if name else 'an array'} {stored.shape}"
        for name, stored in islice(arrays.items(), limit)
    ]
    return ", ".join(some + ["…"] * (len(arrays) > limit)) or "no array"


def as_floats(stored: Stored, file: str) -> tuple[np.ndarray, float]:
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
    with np.errstate(all="ignore"):  # a long double beyond float64 is infinite, as told later
        table = stored.load().reshape(stored.axes).astype(kind, copy=False)
    return table, EPS.get(stored.kind, EPS["float64"])


def read_npy(stream: BinaryIO) -> dict[str, Stored]:
    """The one array of a .npy file."""
    layout = npy_layout(stream.read(HEAD), stream.seek(0, os.SEEK_END))
    load = partial(layout.at, stream)
    return {
        "": Stored(layout.shape, layout.dtype.name, layout.nbytes, layout.dtype.isnative, load)
    }


def npy_layout(head: bytes, size: int) -> Layout:
    """Shape and type from the first bytes of a .npy file of `size` bytes."""
    stream = io.BytesIO(head)
    try:
        major, minor = np.lib.format.read_magic(stream)  # 1.0 or 2.0; 3.0 is for field names
        read = getattr(np.lib.format, f"read_array_header_{major}_{minor}")
        shape, fortran, dtype = read(stream)
    except NPY_FAULTS as error:
        raise ValueError("its header does not describe an array") from error
    layout = Layout(shape, dtype, stream.tell(), "F" if fortran else "C")
    return layout.within(size) if dtype.name in KINDS else layout  # others lie there pickled


def read_npz(stream: BinaryIO) -> dict[str, Stored]:
    """The arrays of a .npz file by their names."""
    archive = zipfile.ZipFile(stream)
    members = {info.filename: info for info in archive.infolist()}
    return {
        name.removesuffix(".npy"): npz_member(archive, info)
        for name, info in members.items()
        if name.endswith(".npy")
    }


def npz_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Stored:
    """One .npy file within a .npz file."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("numpy.savez stores or deflates, it uses another compression")
    with archive.open(info) as member:
        layout = npy_layout(member.read(HEAD), info.file_size)

    def load() -> np.ndarray:
        with archive.open(info) as member:
            return layout.of(member.read(layout.offset + layout.nbytes))

    return Stored(layout.shape, layout.dtype.name, info.compress_size, False, load)


def read_csv(stream: BinaryIO) -> dict[str, Stored]:
    """Rows of numbers between commas; # starts a comment, one line of names may come first."""
    text = io.TextIOWrapper(stream, "utf-8-sig")
    try:
        header = csv_header(text)
        rows = (row for line, row in csv_rows(text) if line > header)
        table = np.loadtxt(rows, delimiter=",", comments=None, ndmin=2)
        if not table.size:
            raise ValueError("it has no line of numbers separated by commas")
    except UnicodeDecodeError as error:
        raise ValueError("it is no UTF-8 text") from error
    except ValueError as error:
        raise ValueError(csv_fault(text, header) or str(error)) from error
    finally:
        text.detach()
    return {"": Stored(table.shape, "float64", table.nbytes, True, lambda: table)}


def csv_rows(text: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
    """The lines with something besides a comment, and their numbers from 1 on."""
    text.seek(0)
    for line, content in enumerate(text, 1):
        row = content.partition("#")[0].strip()
        if row:
            yield line, row


def cells_of(row: str) -> list[str]:
    """What stands between the commas."""
    return [cell.strip() for cell in row.split(",")]


def csv_header(text: io.TextIOWrapper) -> int:
    """The line of the header, 0 for none: names, or the columns' indices above fractions."""
    rows = [(line, cells_of(row)) for line, row in islice(csv_rows(text), 2)]
    if not rows:
        return 0
    line, first = rows[0]
    counted = len(first) > 1 and first == [str(column) for column in range(len(first))]
    above_fractions = counted and any("." in cell for cell in rows[-1][1])
    named = any(first) and not any(is_number(cell) for cell in first)
    return line if above_fractions or named else 0


def csv_fault(text: io.TextIOWrapper, header: int) -> str | None:
    """The first cell that is no number, or row that is shorter or longer than the first."""
    width = 0
    for line, row in csv_rows(text):
        if line <= header:
            continue
        cells = cells_of(row)
        width = width or len(cells)
        for column, cell in enumerate(cells, 1):
            if not is_number(cell):
                return f"line {line}, column {column} is {shown(cell)}, not a number"
        if len(cells) != width:
            return f"line {line} has {len(cells)} columns, the lines above it {width}"
    return None


def is_number(cell: str) -> bool:
    """Whether numpy reads a cell of a .csv file as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def read_torch(stream: BinaryIO) -> dict[str, Stored]:
    """Tensors of a torch.save file by their dotted names; other Python objects are refused."""
    import torch

    zipped = stream.read(4) == ZIP_MAGIC
    if zipped and any(info.compress_type for info in zipfile.ZipFile(stream).infolist()):
        raise ValueError("torch.save compresses nothing, it holds compressed parts")
    mapped = zipped and not isinstance(stream, io.BytesIO)
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    try:
        tree = torch.load(stream.name if mapped else stream, "cpu", weights_only=True, mmap=mapped)
    except TORCH_FAULTS as error:
        raise ValueError(
            "it is damaged, or holds Python objects that could run code; only weights are read, "
            "as torch.save(table, PATH) writes them"
        ) from error
    return {name: torch_stored(tensor, size) for name, tensor in tensors(tree, torch.Tensor)}


def tensors(tree: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """The tensors in nested mappings; each mapping once, since a pickle may refer in circles."""
    stack, seen = [("", tree)], set()
    while stack:
        name, value = stack.pop()
        if isinstance(value, kind):
            yield name, value
        elif isinstance(value, Mapping) and id(value) not in seen and len(name) < 1000:
            seen.add(id(value))
            named = [(k, item) for k, item in value.items() if isinstance(k, str | int)]
            stack += [(f"{name}.{k}" if name else str(k), item) for k, item in reversed(named)]


def torch_stored(tensor: Any, size: int) -> Stored:
    """A tensor of a file of `size` bytes."""
    kind = str(tensor.dtype).removeprefix("torch.")
    if str(tensor.layout) != "torch.strided" or tensor.device.type != "cpu":
        kind = f"{tensor.device.type} {tensor.layout}"
        return Stored(tuple(tensor.shape), kind, 0, False, tensor.numpy)
    held = min(size, tensor.untyped_storage().nbytes())
    mapped = tensor.numel() * tensor.element_size() <= held  # not so for expanded tensors

    def load() -> np.ndarray:
        return (tensor.float() if kind in DECODERS else tensor).numpy(force=True)

    return Stored(tuple(tensor.shape), kind, held, mapped, load)


def read_safetensors(stream: BinaryIO) -> dict[str, Stored]:
    """Tensors of a .safetensors file: length of the header, header in JSON, bytes."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    start = 8 + length
    if size < start:
        raise ValueError(f"it claims a header of {length} bytes, {max(0, size - 8)} are there")
    try:
        header = dict(json.loads(stream.read(length)))
        header.pop("__metadata__", None)
        return {name: safetensor(stream, entry, start, size) for name, entry in header.items()}
    except (json.JSONDecodeError, UnicodeError, RecursionError, LookupError, TypeError) as error:
        raise ValueError("its header does not describe arrays") from error


def safetensor(stream: BinaryIO, entry: Any, start: int, size: int) -> Stored:
    """A tensor as its entry in the header tells; the numbers begin at byte `start` of `size`."""
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    kind, raw = SAFETENSORS.get(entry["dtype"], (f"type {entry['dtype']}", "u1"))
    if not all(type(number) is int for number in (*shape, begin, end)):
        raise ValueError("its header has a shape or an offset that is no whole number")
    layout = Layout(tuple(shape), np.dtype(raw), start + begin)
    known = entry["dtype"] in SAFETENSORS
    if begin < 0 or (known and layout.within(size).nbytes != end - begin):
        raise ValueError(f"its offsets {begin} to {end} do not fit the shape {layout.shape}")

    def load() -> np.ndarray:
        return DECODERS.get(kind, np.asanyarray)(layout.at(stream))

    return Stored(layout.shape, kind, end - begin, True, load)


def bfloat16(bits: np.ndarray) -> np.ndarray:
    """float32 from the upper halves of their bits.

    >>> bfloat16(np.array([0x3F80, 0xC040], dtype=np.uint16))
    array([ 1., -3.], dtype=float32)
    """
    return np.left_shift(bits, 16, dtype=np.uint32).view(np.float32)


def float8_e5m2(bits: np.ndarray) -> np.ndarray:
    """float32 from the upper halves of the bits of float16."""
    return np.left_shift(bits, 8, dtype=np.uint16).view(np.float16).astype(np.float32)


def float8_e4m3fn(bits: np.ndarray) -> np.ndarray:
    """float32 from sign, four bits of exponent (bias 7), three of fraction; all ones is NaN."""
    sign, rest = np.left_shift(bits & 0x80, 8, dtype=np.uint16), bits & 0x7F
    half = (sign | np.left_shift(rest, 7, dtype=np.uint16)).view(np.float16)  # bias 15
    return np.where(rest == 0x7F, np.float32(np.nan), half.astype(np.float32) * np.float32(2**8))


DECODERS = {"bfloat16": bfloat16, "float8_e5m2": float8_e5m2, "float8_e4m3fn": float8_e4m3fn}

READERS: dict[str, Callable[[BinaryIO], dict[str, Stored]]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": read_csv,
    ".pt": read_torch,
    ".pth": read_torch,
    ".safetensors": read_safetensors,
}


def write_table(path: str, table: np.ndarray) -> None:
    """Write a table (n, d) as float64 in the format of the suffix: see `WRITERS`.

    In .npz and .safetensors the array is called ``codes``; .csv has 17 significant digits and no
    header, and reads back exactly.
    """
    write = WRITERS[check_suffix(path, WRITERS)]
    write_whole(path, lambda stream: write(stream, np.ascontiguousarray(table, dtype="<f8")))


def check_suffix(path: str, allowed: Collection[str]) -> str:
    """The suffix of a file to be written; refuses what could not be written, before it is made."""
    suffix = known_suffix(path, allowed)
    check_place(path)
    return suffix


def check_place(path: str) -> None:
    """Refuse a folder, a path in no folder, and what may not be written."""
    status = status_of(path)
    folder = os.path.dirname(os.path.realpath(path))
    if status and stat.S_ISDIR(status.st_mode):
        raise PefourierError(f"cannot write {shown(path)}: it is a folder; name a file in it")
    if not os.path.isdir(folder):
        raise PefourierError(
            f"cannot write {shown(path)}: there is no folder {shown(folder)}; make it first"
        )
    places = [path] if status else []
    if not (status and in_place(path, status)):
        places.append(folder)
    for place in places:
        if not os.access(place, os.W_OK):
            raise PefourierError(
                f"cannot write {shown(path)}: {shown(place)} is write-protected; name another"
            )


def in_place(path: str, status: os.stat_result) -> bool:
    """Whether a path is no plain file: a pipe, a device, an open stream; written, not replaced."""
    streams = ("/dev", "/dev/fd", "/proc/self/fd")
    return not stat.S_ISREG(status.st_mode) or os.path.dirname(os.path.abspath(path)) in streams


def write_whole(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Write a file so that it is there as a whole or, after any failure, as it was before."""
    check_place(path)
    status = status_of(path)
    target = os.path.realpath(path)  # a link keeps naming the file it named
    draft = os.path.join(os.path.dirname(target), f".pefourier-{secrets.token_hex(8)}")
    with os_errors("write", path):
        if status and in_place(path, status):
            with open(path, "wb") as stream:
                return write(stream)
        try:
            with open(draft, "xb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            if status:
                shutil.copymode(target, draft)
            os.replace(draft, target)
        finally:
            with suppress(OSError):
                os.unlink(draft)


def write_npy(stream: BinaryIO, table: np.ndarray) -> None:
    """Unlike numpy.save, also to a pipe, and with the reason when the disk is full."""
    header = np.lib.format.header_data_from_array_1_0(table)
    np.lib.format.write_array_header_1_0(stream, header)
    stream.write(table.data)


def write_csv(stream: BinaryIO, table: np.ndarray) -> None:
    """A line a position, 17 significant digits."""
    np.savetxt(stream, table, fmt="%.17g", delimiter=",")


def write_npz(stream: BinaryIO, table: np.ndarray) -> None:
    """The array ``codes``, uncompressed."""
    np.savez(stream, codes=table)


def write_safetensors(stream: BinaryIO, table: np.ndarray) -> None:
    """The tensor ``codes``."""
    entry = {"dtype": "F64", "shape": table.shape, "data_offsets": [0, table.nbytes]}
    header = json.dumps({"codes": entry}).encode()
    header += b" " * (-len(header) % 8)  # so that the numbers are aligned
    stream.write(len(header).to_bytes(8, "little") + header)
    stream.write(table.data)


WRITERS = {
    ".npy": write_npy,
    ".npz": write_npz,
    ".csv": write_csv,
    ".safetensors": write_safetensors,
}

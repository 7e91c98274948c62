"""Which bytes are an array, in each format? Readers and writers of single formats.

Conventions
-----------
A reader takes a seekable stream and gives the arrays in it by name as `Stored`: what the file
declares, checked against the bytes that are there, and a way to load it. Nothing is allocated on
the word of a header, nothing is unpickled but tensors. What a parser raises on a damaged file
becomes a ValueError. A writer takes a stream and a C-ordered float64 table.
"""

import io
import json
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np

from pefourier.errors import shown

HEAD = 2**14  # bytes that hold any .npy header numpy accepts (10,000 characters)
NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK\x03\x04"
# What parsers raise on damaged files, found by fuzzing; the readers raise ValueError
NPY_FAULTS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    SyntaxError,
    TokenError,
    RecursionError,
    MemoryError,
)
TORCH_FAULTS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    EOFError,
    OSError,
    struct.error,
    pickle.UnpicklingError,
)
JSON_FAULTS = (
    json.JSONDecodeError,
    UnicodeError,
    RecursionError,
    LookupError,
    TypeError,
    AttributeError,
)
EPS = {  # distance from one to the next number of a stored type; every other type becomes float64
    "float64": 2**-52,
    "float32": 2**-23,
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float8_e4m3fn": 2**-3,
    "float8_e5m2": 2**-2,
}
WHOLE = {"bool"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
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
class Extent:
    """Where an array lies in a run of bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int
    order: str = "C"

    @property
    def nbytes(self) -> int:
        """Bytes that the numbers take."""
        return math.prod(self.shape) * self.dtype.itemsize

    def within(self, size: int) -> "Extent":
        """The extent itself, where a run of `size` bytes has room for it."""
        sizes = [axis for axis in self.shape if type(axis) is int and 0 <= axis < 2**63]
        if len(sizes) != len(self.shape) or len(sizes) > 32:
            raise ValueError("its shape is not that of an array")
        if self.nbytes > size - self.offset:
            raise ValueError(
                f"its shape {self.shape} of {self.dtype.name} needs {self.nbytes} bytes, "
                f"{max(0, size - self.offset)} are there"
            )
        return self

    def check_plain(self) -> None:
        """Refuse bytes that are not plain numbers: objects would be pointers."""
        if self.dtype.name not in KINDS:
            raise ValueError(f"it holds {self.dtype}, and only plain numbers are read")

    def of(self, data: bytes) -> np.ndarray:
        """The array in bytes held in memory."""
        self.check_plain()
        flat = np.frombuffer(data, self.dtype, math.prod(self.shape), self.offset)
        return flat.reshape(self.shape, order=self.order)

    def at(self, stream: BinaryIO) -> np.ndarray:
        """The array in a stream; a file's is mapped."""
        self.check_plain()
        if isinstance(stream, io.BytesIO):
            return self.of(stream.getvalue())
        return np.memmap(stream, self.dtype, "r", self.offset, self.shape, self.order)


def read_npy(stream: BinaryIO) -> dict[str, Stored]:
    """The one array of a .npy file."""
    extent = npy_extent(stream.read(HEAD), stream.seek(0, os.SEEK_END))
    load = partial(extent.at, stream)
    return {"": Stored(extent.shape, extent.dtype.name, extent.nbytes, extent.dtype.isnative, load)}


def npy_extent(head: bytes, size: int) -> Extent:
    """Shape and type from the first bytes of a .npy file of `size` bytes."""
    stream = io.BytesIO(head)
    try:
        major, minor = np.lib.format.read_magic(stream)  # 1.0 or 2.0; 3.0 is for field names
        read = getattr(np.lib.format, f"read_array_header_{major}_{minor}")
        shape, fortran, dtype = read(stream)
    except NPY_FAULTS as error:
        raise ValueError("its header does not describe an array") from error
    extent = Extent(shape, dtype, stream.tell(), "F" if fortran else "C")
    return extent.within(size) if dtype.name in KINDS else extent  # others lie there pickled


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
        extent = npy_extent(member.read(HEAD), info.file_size)

    def load() -> np.ndarray:
        with archive.open(info) as member:
            return extent.of(member.read(extent.offset + extent.nbytes))

    return Stored(extent.shape, extent.dtype.name, info.compress_size, False, load)


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
        raise ValueError("it is not UTF-8 text") from error
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
    """The first cell that is not a number, or row that is shorter or longer than the first."""
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
        header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        return {name: safetensor(stream, entry, start, size) for name, entry in header.items()}
    except JSON_FAULTS as error:
        raise ValueError("its header does not describe arrays") from error


def safetensor(stream: BinaryIO, entry: Any, start: int, size: int) -> Stored:
    """A tensor as the header describes it; the numbers begin at byte `start` of `size`."""
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    kind, raw = SAFETENSORS.get(entry["dtype"], (f"type {entry['dtype']}", "u1"))
    if not all(type(number) is int for number in (*shape, begin, end)):
        raise ValueError("its header has a shape or an offset that is not a whole number")
    extent = Extent(tuple(shape), np.dtype(raw), start + begin)
    known = entry["dtype"] in SAFETENSORS
    if begin < 0 or (known and extent.within(size).nbytes != end - begin):
        raise ValueError(f"its offsets {begin} to {end} do not fit the shape {extent.shape}")

    def load() -> np.ndarray:
        return DECODERS.get(kind, np.asanyarray)(extent.at(stream))

    return Stored(extent.shape, kind, end - begin, True, load)


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


def write_npy(stream: BinaryIO, table: np.ndarray) -> None:
    """Unlike numpy.save, also to a pipe, and with the reason when the disk is full."""
    header = np.lib.format.header_data_from_array_1_0(table)
    np.lib.format.write_array_header_1_0(stream, header)
    stream.write(table.data)


def write_csv(stream: BinaryIO, table: np.ndarray) -> None:
    """One line per position, 17 significant digits."""
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

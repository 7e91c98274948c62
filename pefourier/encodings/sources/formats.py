"""Which bytes are an array, in each format? Readers and writers of single formats.

Conventions
-----------
A reader takes a seekable stream and gives the arrays in it by name as `Stored`: what the file
declares, checked against the bytes that are there, and a way to load it. Nothing is allocated on
the word of a header, nothing is unpickled but tensors. What a parser raises on a damaged file
becomes a ValueError. A writer takes a stream and a C-ordered float64 table.
"""

import ast
import io
import json
import math
import os
import pickle
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

import numpy as np

from pefourier.encodings.sources import arrays
from pefourier.errors import shown

PACKED = 2**12  # bytes unpacked at a time: of LZMA, a kB of which may be as many as 7 MB
LONGEST_NPY = 10_000  # characters of a .npy header, as in numpy
HEAD = 2**14  # bytes that hold any such header
BEHIND = "behind "  # name of codes beside a column of positions
OF_POSITIONS = {"pos", "position", "positions", "index"}  # names of a first column
LONGEST_LINE = 2**26  # characters in a .csv file: room for the most columns
MOST_LINES, MOST_COLUMNS = 2**26, 2**21
LONGEST_HEADER = 100_000_000  # bytes of a .safetensors file, as in the library
LARGEST_LEGACY = 2**31  # bytes of a .pt file without parts, which is read as a whole
NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK\x03\x04"
# What parsers raise on damaged files, found by fuzzing; the readers raise ValueError
DAMAGED = (TypeError, LookupError, AttributeError, RecursionError)
NPY_FAULTS = (*DAMAGED, ValueError, SyntaxError, MemoryError)
TORCH_FAULTS = (
    *(TypeError, LookupError, AttributeError, AssertionError, ArithmeticError, RuntimeError),
    *(ValueError, MemoryError, EOFError, OSError, struct.error, pickle.UnpicklingError),
)
JSON_FAULTS = (*DAMAGED, json.JSONDecodeError, UnicodeError)
SAFETENSORS = {  # name in the file: type of the numbers, type of the bytes
    **{f"F{8 * size}": (f"float{8 * size}", f"<f{size}") for size in (2, 4, 8)},
    "BF16": ("bfloat16", "<u2"),
    "F8_E4M3": ("float8_e4m3fn", "u1"),
    "F8_E5M2": ("float8_e5m2", "u1"),
    "BOOL": ("bool", "u1"),
    **{f"I{8 * size}": (f"int{8 * size}", f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": (f"uint{8 * size}", f"<u{size}") for size in (1, 2, 4, 8)},
}
BITS = {  # of a number, for all types that the library safetensors knows
    **{name: 8 * np.dtype(raw).itemsize for name, (_, raw) in SAFETENSORS.items()},
    **dict.fromkeys(("F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **{"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64},
}


def read_npy(stream: BinaryIO) -> dict[str, arrays.Stored]:
    """The one array of a .npy file."""
    extent = npy_extent(stream.read(HEAD), stream.seek(0, os.SEEK_END))
    return {"": array_at(stream, extent, extent.dtype.name)}


def npy_extent(head: bytes, size: int) -> arrays.Extent:
    """Shape and type from the first bytes of a .npy file of `size` bytes."""
    stream = io.BytesIO(head)
    try:
        shape, fortran, dtype = npy_header(stream)
    except NPY_FAULTS as error:
        raise ValueError("its header does not describe an array") from error
    if dtype.kind == "c" and len(shape) == 2 and not fortran:  # a pair of floats each
        shape, dtype = (*shape, 2), np.dtype(f"{dtype.byteorder}f{dtype.itemsize // 2}")
    extent = arrays.Extent(shape, dtype, stream.tell(), "F" if fortran else "C")
    arrays.check_axes(shape)
    plain = dtype.name in arrays.KINDS or arrays.TEXT.fullmatch(dtype.name)
    return extent.within(size) if plain else extent  # others lie there pickled


def npy_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type in the header of a .npy file, version 1.0 or 2.0; 3.0 names fields.

    numpy's own reader takes headers of Python 2, with whole numbers such as 3L, apart by a
    tokenizer whose time grows with the square of the blanks: here such an L is taken off.

    >>> head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3L, 4), }"
    >>> npy_header(io.BytesIO(NPY_MAGIC + bytes([1, 0, len(head), 0]) + head))
    ((3, 4), False, dtype('float64'))
    """
    version = np.lib.format.read_magic(stream)
    width = {(1, 0): 2, (2, 0): 4}[version]
    size = int.from_bytes(stream.read(width), "little")
    text = stream.read(size) if size <= LONGEST_NPY else b""
    if len(text) < size or not size:
        raise ValueError("its header is cut, or too long")
    entries = ast.literal_eval(re.sub(r"(?<=\d)L(?=\s*[,)])", "", text.decode("latin-1")).strip())
    shape, fortran = entries["shape"], entries["fortran_order"]
    whole = isinstance(shape, tuple) and all(isinstance(axis, int) for axis in shape)
    if len(entries) != 3 or not whole or not isinstance(fortran, bool):
        raise ValueError("its header has other entries")
    return shape, fortran, np.lib.format.descr_to_dtype(entries["descr"])


def array_at(
    stream: BinaryIO, extent: arrays.Extent, kind: str, decode: Callable | None = None
) -> arrays.Stored:
    """An array that lies in a stream as numpy holds it, or as bits that make numbers when decoded.

    In a file it can be mapped, unless its numbers have to be turned round or decoded.
    """
    shape, nbytes, copied, mapped = (
        extent.shape,
        extent.nbytes,
        partial(extent.copied, stream),
        None,
    )
    if decode:  # to float32
        return arrays.Stored(shape, kind, 4, nbytes, lambda: decode(copied()), None, extent)
    if extent.dtype.isnative and not isinstance(stream, io.BytesIO):
        mapped = partial(extent.mapped, stream)
    return arrays.Stored(shape, kind, extent.dtype.itemsize, nbytes, copied, mapped, extent)


def read_npz(stream: BinaryIO) -> dict[str, arrays.Stored]:
    """The arrays of a .npz file by their names."""
    if stream.read(2) != ZIP_MAGIC[:2]:
        raise ValueError("it is no archive of arrays, as numpy.savez writes")
    size = stream.seek(0, os.SEEK_END)
    archive, members = zipfile.ZipFile(stream), {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"it holds two arrays called {shown(name)}")
        if name != info.filename:
            members[name] = npz_member(archive, info, size)
    return members


def npz_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, size: int) -> arrays.Stored:
    """One .npy file within a .npz file of `size` bytes."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        raise ValueError("it is compressed in another way than by deflate or LZMA")
    with archive.open(info) as member:
        head = b"".join(member.read(PACKED) for _ in range(HEAD // PACKED))
        extent = npy_extent(head, info.file_size)

    def copied() -> np.ndarray:
        with archive.open(info) as member:
            member.read(extent.offset)
            return extent.filled(partial(arrays.fill_from_stream, member, step=PACKED))

    nbytes = min(info.compress_size, size)  # an archive may claim more than there is
    return arrays.Stored(extent.shape, extent.dtype.name, extent.dtype.itemsize, nbytes, copied)


def read_csv(stream: BinaryIO) -> dict[str, arrays.Stored]:
    """Rows of numbers between commas; # starts a comment, one line of names may come first."""
    text = io.TextIOWrapper(stream, "utf-8-sig")
    try:
        name, table = parse_csv(text)
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text") from error
    finally:
        text.detach()
    if not table.size:
        raise ValueError("it has no line of numbers separated by commas")
    return {name: arrays.Stored(table.shape, "float64", 8, table.nbytes, lambda: table)}


def parse_csv(text: io.TextIOWrapper) -> tuple[str, np.ndarray]:
    """The numbers in a .csv file (n, d), and their name: "" but of codes beside positions."""
    header = csv_header(text)
    try:
        rows = (row for line, row in csv_rows(text) if line > header)
        table = np.loadtxt(rows, delimiter=",", comments=None, ndmin=2)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        raise ValueError(csv_fault(text, header) or str(error)) from error
    name = cells_of(next(csv_rows(text))[1])[0] if header else ""
    if name.lower() not in OF_POSITIONS or table.shape[1] < 2:
        return "", table
    if (table[:, 0] != np.arange(len(table))).any():
        raise ValueError(f"its column {shown(name)} has others than positions 0, 1, …: cut it")
    return f"{BEHIND}{name}", table[:, 1:]


def csv_rows(text: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
    """The lines with something besides a comment, and their numbers from 1 on.

    Lines without end are refused, and more of them or of their columns than any table has.
    """
    text.seek(0)
    for line, content in enumerate(iter(partial(text.readline, LONGEST_LINE + 1), ""), 1):
        wide = len(content) > MOST_COLUMNS and content.count(",") >= MOST_COLUMNS
        if wide or len(content) > LONGEST_LINE or line > MOST_LINES:
            raise ValueError(
                f"line {line} goes beyond the limits, which are {MOST_LINES} lines of "
                f"{LONGEST_LINE} characters and {MOST_COLUMNS} columns"
            )
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
    is_named = any(first) and not any(reads_as_number(cell) for cell in first)
    return line if above_fractions or is_named else 0


def csv_fault(text: io.TextIOWrapper, header: int) -> str | None:
    """The first cell that is not a number, or row that is shorter or longer than the first."""
    width = 0
    for line, row in csv_rows(text):
        cells = cells_of(row)
        if line <= header:
            continue
        for column, cell in enumerate(cells, 1):
            if not reads_as_number(cell):
                return f"line {line}, column {column} is {shown(cell)}, not a number"
        width = width or len(cells)
        if len(cells) != width:
            return f"line {line} has {len(cells)} columns, the lines above it {width}"
    return None


def reads_as_number(cell: str) -> bool:
    """Whether numpy reads a cell of a .csv file as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def read_torch(stream: BinaryIO) -> dict[str, arrays.Stored]:
    """Tensors of a torch.save file by their dotted names; other Python objects are refused."""
    import torch

    zipped = stream.read(4) == ZIP_MAGIC
    if zipped and any(info.compress_type for info in zipfile.ZipFile(stream).infolist()):
        raise ValueError("torch.save compresses nothing, it holds compressed parts")
    size = stream.seek(0, os.SEEK_END)
    mapped = zipped and size > arrays.SUSPECT and not isinstance(stream, io.BytesIO)
    if not zipped and size > LARGEST_LEGACY:
        raise ValueError(f"it has {size} bytes and no parts, as torch.save wrote before 1.6")
    stream.seek(0)
    # an old form is read from memory: from a file torch would look for archives in it, too
    source = stream.name if mapped else stream if zipped else io.BytesIO(stream.read())
    try:
        tree = torch.load(source, "cpu", weights_only=True, mmap=mapped)
    except TORCH_FAULTS as error:
        raise ValueError(
            "it is damaged, or holds Python objects that could run code; only weights are read, "
            "as torch.save(table, PATH) writes them"
        ) from error
    return {name: torch_array(tensor, size) for name, tensor in tensors(tree, torch.Tensor)}


def tensors(tree: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """The tensors in nested mappings; each mapping once, since a pickle may refer in circles."""
    stack, visited = [("", tree)], set()
    while stack:
        name, value = stack.pop()
        if isinstance(value, kind):
            yield name, value
        elif isinstance(value, Mapping) and id(value) not in visited and len(name) < 1000:
            visited.add(id(value))
            children = [(k, item) for k, item in value.items() if isinstance(k, str | int)]
            stack += [(f"{name}.{k}" if name else str(k), item) for k, item in reversed(children)]


def torch_array(tensor: Any, size: int) -> arrays.Stored:
    """A tensor from `size` bytes, copied out of a file that torch has mapped."""
    import torch

    if tensor.is_complex() and tensor.ndim == 2:
        tensor = torch.view_as_real(tensor.resolve_conj())
    kind = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested:  # it has no shape
        return arrays.Stored((), "a nested tensor", 0, 0, tensor.numpy)
    if str(tensor.layout) != "torch.strided" or tensor.device.type != "cpu":
        kind = f"{tensor.device.type} {tensor.layout}"
        return arrays.Stored(tuple(tensor.shape), kind, 0, 0, tensor.numpy)
    nbytes = min(size, tensor.untyped_storage().nbytes())

    def copied() -> np.ndarray:
        return np.array((tensor.float() if kind in DECODERS else tensor).numpy(force=True))

    width = 4 if kind in DECODERS else tensor.element_size()
    return arrays.Stored(tuple(tensor.shape), kind, width, nbytes, copied)


def read_safetensors(stream: BinaryIO) -> dict[str, arrays.Stored]:
    """Tensors of a .safetensors file: length of the header, header in JSON, bytes.

    As strict as the library safetensors about what lies where, and a name stands there once;
    tensors of types that are unknown here, or there, are refused by their names.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    start = 8 + length
    if size < start:
        raise ValueError(f"it claims a header of {length} bytes, {max(0, size - 8)} are there")
    if length > LONGEST_HEADER:
        raise ValueError(f"it has a header of {length} bytes, the limit is {LONGEST_HEADER}")
    try:
        header = parse_header(stream.read(length))
        arrays_in = {name: safetensor(stream, entry, start, size) for name, entry in header.items()}
        spans = sorted((*entry["data_offsets"], name) for name, entry in header.items())
    except JSON_FAULTS as error:
        raise ValueError("its header does not describe arrays") from error
    end = 0
    for first, last, name in spans:
        if first != end:
            place = f"begins at byte {first}, what is before it ends at {end}"
            raise ValueError(f"{shown(name)} {place}")
        end = last
    if start + end != size:
        raise ValueError(f"its tensors take {end} bytes, {size - start} are there")
    return arrays_in


def parse_header(text: bytes) -> dict[str, Any]:
    """The tensors of a header in JSON, as strictly as the library safetensors takes it."""

    def number(digits: str) -> int | float:
        is_integer = digits != "-0" and digits.lstrip("-").isdigit() and len(digits) <= 19
        value = int(digits) if is_integer else float(digits)
        return value if math.isfinite(value) else refused(digits)

    def refused(text: str) -> None:
        raise TypeError(f"{text} is no number of JSON, or too large")

    def pairs(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(entries)) < len(entries):
            raise ValueError("a name stands twice in its header")
        return dict(entries)

    hooks = {"parse_int": number, "parse_float": number, "parse_constant": refused}
    header = json.loads(text.decode(), **hooks, object_pairs_hook=pairs)
    notes = header.pop("__metadata__", None)
    if notes is not None and not all(isinstance(value, str) for value in notes.values()):
        raise TypeError("notes are text")
    for name in header:
        name.encode()  # refuses halves of surrogate pairs
    return header


def safetensor(stream: BinaryIO, entry: Any, start: int, size: int) -> arrays.Stored:
    """A tensor as the header describes it; the numbers begin at byte `start` of `size`."""
    shape, offsets, type_name = entry["shape"], entry["data_offsets"], entry["dtype"]
    if not (isinstance(shape, list) and isinstance(offsets, list) and isinstance(type_name, str)):
        raise TypeError("an entry of another form")
    if len(offsets) != 2 or not all(type(number) is int for number in (*shape, *offsets)):
        raise ValueError("its header has a shape or an offset that is not a whole number")
    arrays.check_axes(shape)
    if any(math.prod(shape[:axis]) >= 2**64 for axis in range(len(shape))):
        raise ValueError(f"its shape {tuple(shape)} is that of more numbers than can be counted")
    begin, end = offsets
    kind, raw = SAFETENSORS.get(type_name, (f"type {type_name}", "u1"))
    extent = arrays.Extent(tuple(shape), np.dtype(raw), start + begin)
    bits = BITS.get(type_name)
    if type_name in SAFETENSORS:
        extent.within(size)
    if not 0 <= begin <= end or (bits and math.prod(shape) * bits != 8 * (end - begin)):
        raise ValueError(f"its offsets {begin} to {end} do not fit the shape {extent.shape}")
    return array_at(stream, extent, kind, DECODERS.get(kind))


def bfloat16(bits: np.ndarray) -> np.ndarray:
    """float32 from the upper halves of their bits.

    >>> bfloat16(np.array([0x3F80, 0xC040], dtype=np.uint16))
    array([ 1., -3.], dtype=float32)
    """
    wide = bits.astype(np.uint32)
    wide <<= 16  # in place: with a cast it takes longer
    return wide.view(np.float32)


def float8_e5m2(bits: np.ndarray) -> np.ndarray:
    """float32 from the upper halves of the bits of float16."""
    return np.left_shift(bits, 8, dtype=np.uint16).view(np.float16).astype(np.float32)


def float8_e4m3fn(bits: np.ndarray) -> np.ndarray:
    """float32 from sign, four bits of exponent (bias 7), three of fraction; all ones is NaN."""
    sign, magnitude = np.left_shift(bits & 0x80, 8, dtype=np.uint16), bits & 0x7F
    half = (sign | np.left_shift(magnitude, 7, dtype=np.uint16)).view(np.float16)  # bias 15
    return np.where(
        magnitude == 0x7F, np.float32(np.nan), half.astype(np.float32) * np.float32(2**8)
    )


DECODERS = {"bfloat16": bfloat16, "float8_e5m2": float8_e5m2, "float8_e4m3fn": float8_e4m3fn}

READERS: dict[str, Callable[[BinaryIO], dict[str, arrays.Stored]]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    **dict.fromkeys((".csv", ".txt"), read_csv),
    **dict.fromkeys((".bin", ".ckpt", ".pt", ".pth"), read_torch),
    ".safetensors": read_safetensors,
}


def write_npy(stream: BinaryIO, table: np.ndarray) -> None:
    """Unlike numpy.save, also to a pipe, and with the reason when the disk is full."""
    header = np.lib.format.header_data_from_array_1_0(table)
    np.lib.format.write_array_header_1_0(stream, header)
    stream.write(table.data)


def write_npz(stream: BinaryIO, table: np.ndarray, name: str) -> None:
    """Unlike numpy.savez, also by the name "file"."""
    with zipfile.ZipFile(stream, "w") as archive:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            write_npy(member, table)


def write_tensors(stream: BinaryIO, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors by name as .safetensors: length of the header, header in JSON, bytes."""
    entries, end = {}, 0
    for name, value in tensors.items():
        span = [end, end + value.nbytes]
        kind = WRITTEN[value.dtype.name]
        entries[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": span}
        end += value.nbytes
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)  # so that the numbers are aligned
    stream.write(len(header).to_bytes(8, "little") + header)
    for value in tensors.values():
        stream.write(np.ascontiguousarray(value).data)


WRITTEN = {"float16": "F16", "float32": "F32", "float64": "F64", "int64": "I64", "uint8": "U8"}
WRITERS: dict[str, Callable[[BinaryIO, np.ndarray, str], None]] = {  # with the name of a table
    ".npy": lambda stream, table, _: write_npy(stream, table),
    ".npz": write_npz,
    ".csv": lambda stream, table, _: np.savetxt(stream, table, fmt="%.17g", delimiter=","),
    ".safetensors": lambda stream, table, name: write_tensors(stream, {name: table}),
}

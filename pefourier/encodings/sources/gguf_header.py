"""What does the header of a GGUF file say? Its keys, and where each tensor lies; no tensor is read.

The layout is that of ``docs/gguf.md`` of ggml, versions 2 and 3, low bytes first. Every length is
checked against the file before anything of that length is read, and long lists, as vocabularies
are, are stepped over.
"""

import mmap
from dataclasses import dataclass
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any

from pefourier.errors import PefourierError, shown
from pefourier.files import missing, os_errors, read_toml, status_of

SCALARS = {  # by the number of a type
    **{number: Struct(f"<{code}") for number, code in enumerate("BbHhIif?")},
    **{number: Struct(f"<{code}") for number, code in enumerate("Qqd", 10)},
}
U32, U64 = SCALARS[4], SCALARS[10]
STRING, ARRAY = 8, 9
LEAST = {STRING: 8, ARRAY: 12}  # bytes of a value whose length stands before it
LONGEST_LIST = 2**14  # items of a list that is returned: one for each layer
MOST_ITEMS = 2**24  # strings and lists of lists, which are walked one by one
DEEPEST = 4  # lists in lists; llama.cpp reads none
MOST_AXES = 8
ALIGNMENT = 32  # bytes, where the file sets none
NUMPY = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}  # types that it has, too
KNOWN = read_toml(Path(__file__).with_name("gguf_types.toml"))
BLOCKS = {name: (count, size) for name, (_, count, size) in KNOWN.items()}  # numbers, and bytes
TYPES = {number: name for name, (number, _, _) in KNOWN.items()}


@dataclass(frozen=True)
class LongList:
    """A list in the header that was stepped over."""

    count: int


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor of a GGUF file lies."""

    shape: tuple[int, ...]  # rows first, as numpy has it; the file writes the fastest axis first
    type: str  # F32, F16, Q4_K, …, or its number where that is not known
    start: int  # byte of the file
    bytes: int | None  # None for a type that is not known


class Unreadable(Exception):
    """Why a file is no GGUF file."""


def read_header(path: str) -> tuple[dict[str, Any], dict[str, TensorPlace]]:
    """The keys of a GGUF file with their values, and its tensors by name.

    Lists of more than 2^14 items, as vocabularies are, are given as a `LongList`. A tensor of known
    type lies within the file.

    Raises
    ------
    PefourierError
        For a file that is missing, cut off or no GGUF file, or that asks for more than it holds.
    """
    status = status_of(path)
    if status is None:
        raise missing(path)
    try:
        with os_errors("read", path), open(path, "rb") as stream:
            if status.st_size < 24:
                raise Unreadable(f"it has {status.st_size} bytes")
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return walk_header(data)
    except Unreadable as error:
        raise PefourierError(
            f"{shown(path)} is not a readable .gguf file: {error}; fetch it again"
        ) from error


def walk_header(data: mmap.mmap) -> tuple[dict[str, Any], dict[str, TensorPlace]]:
    """What `read_header` says, of the bytes of a file."""
    if data[:4] != b"GGUF":
        raise Unreadable("it does not begin with GGUF")
    walk = Walk(data)
    version = walk.number(U32)
    if version not in (2, 3):
        high = ", high bytes first" if version >> 24 in (2, 3) else ""
        raise Unreadable(f"its version is {version}{high}; 2 and 3 are read, low bytes first")
    tensors, keys = walk.count(24), walk.count(13)
    values: dict[str, Any] = {}
    for _ in range(keys):
        key = walk.text()
        if key in values:
            raise Unreadable(f"key {shown(key)} stands twice")
        values[key] = walk.value(walk.number(U32))
    infos = [walk.tensor() for _ in range(tensors)]
    step = values.get("general.alignment", ALIGNMENT)
    if type(step) is not int or not 0 < step <= 2**20:
        raise Unreadable(f"general.alignment is {shown(step)}")
    first = -(-walk.at // step) * step
    places = {name: tensor_place(info, first, len(data), name) for name, *info in infos}
    if len(places) < tensors:
        raise Unreadable("two tensors have one name")
    return values, places


class Walk:
    """A place in the bytes of a file, which moves on with all that is read."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at, self.walked = 4, 0

    def step(self, size: int) -> int:
        """The place now; the next is `size` bytes on."""
        here = self.at
        if size > len(self.data) - here:
            raise Unreadable(f"it ends before {size} bytes that it announces at byte {here}")
        self.at += size
        return here

    def number(self, reader: Struct) -> Any:
        """A number."""
        return reader.unpack_from(self.data, self.step(reader.size))[0]

    def count(self, item_size: int) -> int:
        """How many things follow, of at least so many bytes each."""
        here, count = self.at, self.number(U64)
        if count * item_size > len(self.data) - self.at:
            raise Unreadable(f"at byte {here} it announces {count} of what it has no room for")
        return count

    def text(self) -> str:
        """A string."""
        size = self.count(1)
        here = self.step(size)
        return self.data[here : here + size].decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        """A value of a type, by the type's number."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            raise Unreadable(f"type {kind} before byte {self.at} is none of a value's")
        if depth == DEEPEST:
            raise Unreadable(f"lists lie {DEEPEST + 1} deep in one another at byte {self.at}")
        inner = self.number(U32)
        size = SCALARS[inner].size if inner in SCALARS else LEAST.get(inner, 1)
        count = self.count(size)
        if inner in SCALARS and count > LONGEST_LIST:
            self.step(count * size)
            return LongList(count)
        self.walked += count
        if self.walked > MOST_ITEMS:
            raise Unreadable(f"its lists have over {MOST_ITEMS} items")
        if inner == STRING and count > LONGEST_LIST:
            self.skip_texts(count)
            return LongList(count)
        items = [self.value(inner, depth + 1) for _ in range(count)]
        return items if count <= LONGEST_LIST else LongList(count)

    def skip_texts(self, count: int) -> None:
        """Step over strings, none of which is read."""
        data, offset, size = self.data, self.at, len(self.data)
        length_at = U64.unpack_from
        for _ in range(count):
            if offset + 8 > size:
                break
            offset += 8 + length_at(data, offset)[0]
        self.step(min(offset, size + 1) - self.at)

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Name, shape, number of the type and start of a tensor."""
        name, axes = self.text(), self.number(U32)
        if axes > MOST_AXES:
            raise Unreadable(f"tensor {shown(name)} has {axes} axes")
        shape = tuple(self.number(U64) for _ in range(axes))[::-1]
        return name, shape, self.number(U32), self.number(U64)


def tensor_place(info: list[Any], first: int, size: int, name: str) -> TensorPlace:
    """Where a tensor lies, in a file of `size` bytes whose tensors begin at byte `first`."""
    shape, number, offset = info
    kind = TYPES.get(number)
    if kind is None:
        return TensorPlace(shape, str(number), first + offset, None)
    block, width = BLOCKS[kind]
    if shape and shape[-1] % block:
        raise Unreadable(f"rows of tensor {shown(name)} are no whole blocks of {kind}")
    n_bytes = prod(shape) // block * width
    if first + offset + n_bytes > size:
        raise Unreadable(f"tensor {shown(name)} goes on behind its end")
    return TensorPlace(shape, kind, first + offset, n_bytes)

"""The bytes of a GGUF file: its keys with their values, and where its tensors lie.

The layout is that of ``docs/gguf.md`` of ggml, versions 2 and 3, low bytes first, read without the
package gguf. Every length is checked against the file before anything of that length is read, and
long lists, as vocabularies are, are stepped over.
"""

import mmap
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from struct import Struct
from struct import error as CutOff
from typing import Any

from pefourier.errors import PefourierError, shown
from pefourier.writing.files import missing, os_errors, read_toml, status_of

SCALARS = {  # by the number of a type
    **{number: Struct(f"<{code}") for number, code in enumerate("BbHhIif?")},
    **{number: Struct(f"<{code}") for number, code in enumerate("Qqd", 10)},
}
U32, U64 = SCALARS[4], SCALARS[10]
STRING, ARRAY = 8, 9
LONGEST_LIST = 2**14  # items of a list that is returned: one for each layer
MOST_TEXTS = 2**24  # which are stepped over one by one
MOST_AXES = 8
ALIGNMENT = 32  # bytes, where the file sets none
NUMPY = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}  # types that it has, too
KNOWN = read_toml(Path(__file__).with_name("gguf_types.toml"))
BLOCKS = {name: (count, size) for name, (_, count, size) in KNOWN.items()}  # numbers, and bytes
TYPES = {number: name for name, (number, _, _) in KNOWN.items()}


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor of a GGUF file lies."""

    shape: tuple[int, ...]  # rows first, as numpy has it; the file writes the fastest axis first
    type: str  # F32, F16, Q4_K, …, or its number where that is not known
    start: int  # byte of the file


def read_header(path: str) -> tuple[dict[str, Any], dict[str, TensorPlace]]:
    """The keys of a GGUF file with their values, and its tensors by name.

    Lists of more than 2^14 items, as vocabularies are, are None. A tensor of known type lies within
    the file.

    Raises
    ------
    PefourierError
        For a file that is missing, cut off or no GGUF file, or that asks for more than it holds.
    """
    if status_of(path) is None:
        raise missing(path)
    with os_errors("read", path), Path(path).open("rb") as stream:
        try:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return walk_header(data)
        except (ValueError, OverflowError, CutOff) as error:
            raise PefourierError(
                f"{shown(path)} is not a readable .gguf file: {error}; fetch it again"
            ) from error


def walk_header(data: mmap.mmap) -> tuple[dict[str, Any], dict[str, TensorPlace]]:
    """What `read_header` says, of the bytes of a file; damage is a ValueError or `CutOff`."""
    walk = Walk(data)
    version = walk.number(U32)
    if data[:4] != b"GGUF" or version not in (2, 3):
        raise ValueError("it must begin with GGUF and version 2 or 3, low bytes first")
    tensors, keys = walk.count(24), walk.count(13)
    values = {walk.text(): walk.value(walk.number(U32)) for _ in range(keys)}
    infos = {walk.text(): walk.tensor() for _ in range(tensors)}
    step = values.get("general.alignment", ALIGNMENT)
    if type(step) is not int or not 0 < step <= 2**20:
        raise ValueError(f"general.alignment is {shown(step)}")
    if len(values) < keys or len(infos) < tensors:
        raise ValueError("two of its keys, or of its tensors, have one name")
    first = -(-walk.at // step) * step
    places = {n: replace(place, start=first + place.start) for n, place in infos.items()}
    for name, place in places.items():
        block, width = BLOCKS.get(place.type, (1, 0))
        if place.shape and place.shape[-1] % block:
            raise ValueError(f"rows of tensor {shown(name)} are no whole blocks of {place.type}")
        if width and place.start + prod(place.shape) // block * width > len(data):
            raise ValueError(f"tensor {shown(name)} goes on behind its end")
    return values, places


class Walk:
    """A place in the bytes of a file, which moves on with all that is read."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 4

    def number(self, reader: Struct) -> Any:
        """A number."""
        self.at += reader.size
        return reader.unpack_from(self.data, self.at - reader.size)[0]

    def count(self, item_size: int) -> int:
        """How many things follow, of at least so many bytes each."""
        count = int(self.number(U64))
        if count * item_size > len(self.data) - self.at:
            raise ValueError(f"before byte {self.at} it announces {count} without room for them")
        return count

    def text(self) -> str:
        """A string."""
        size = self.count(1)
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A value of a type, by the type's number."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.text()
        inner = self.number(U32) if kind == ARRAY else None
        if inner != STRING and inner not in SCALARS:
            raise ValueError(f"before byte {self.at} is no type of a value, or a list of lists")
        size = 8 if inner == STRING else SCALARS[inner].size
        count = self.count(size)
        if count <= LONGEST_LIST:
            return [self.value(inner) for _ in range(count)]
        if inner == STRING:
            self.skip_texts(count)
        else:
            self.at += count * size
        return None

    def skip_texts(self, count: int) -> None:
        """Step over strings, none of which is read."""
        if count > MOST_TEXTS:
            raise ValueError(f"it has a list of over {MOST_TEXTS} strings")
        data, offset, length_at = self.data, self.at, U64.unpack_from
        for _ in range(count):
            offset += 8 + length_at(data, offset)[0]
        self.at = offset

    def tensor(self) -> TensorPlace:
        """A tensor, whose start is counted from that of all."""
        axes = self.number(U32)
        if axes > MOST_AXES:
            raise ValueError(f"a tensor has {axes} axes before byte {self.at}")
        shape = tuple(self.number(U64) for _ in range(axes))[::-1]
        kind = self.number(U32)
        return TensorPlace(shape, TYPES.get(kind, str(kind)), self.number(U64))

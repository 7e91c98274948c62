"""Read the keys of a GGUF file, and the places of its tensors.

The layout is specified in ``docs/gguf.md`` of ggml, versions 2 and 3, little-endian. The package
gguf is not needed. Every length is checked against the size of the file before use. Long lists,
such as vocabularies, are skipped.
"""

import mmap
from dataclasses import replace
from math import prod
from pathlib import Path
from struct import Struct
from struct import error as CutOff
from typing import Any

from pefourier.errors import PefourierError, shown
from pefourier.types import Counts, Fields, frozen
from pefourier.writing.files import missing, os_errors, read_toml, status_of

STRING, ARRAY = 8, 9
TYPE_CODES = dict(zip((*range(STRING), 10, 11, 12), "BbHhIif?Qqd", strict=True))
SCALARS = {number: Struct(f"<{code}") for number, code in TYPE_CODES.items()}
U32, U64 = SCALARS[4], SCALARS[10]
LONGEST_LIST = 2**14  # largest list that is returned, such as one item per layer
MOST_TEXTS = 2**22  # strings of a list that are skipped one by one
MOST_AXES = 8
ALIGNMENT = 32  # default, in bytes
NUMPY = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}  # types that numpy has
KNOWN = read_toml(Path(__file__).with_name("gguf_types.toml"))
BLOCKS = {name: (count, size) for name, (_, count, size) in KNOWN.items()}  # numbers, and bytes
TYPES = {number: name for name, (number, _, _) in KNOWN.items()}


@frozen
class TensorPlace:
    """Shape, type and place of a tensor in a GGUF file."""

    shape: Counts  # rows first, as in numpy; the file stores the fastest axis first
    type: str  # F32, F16, Q4_K, …, or the number of an unknown type
    start: int  # offset in the file, in bytes


def read_header(path: str) -> tuple[Fields, dict[str, TensorPlace]]:
    """Return the keys of a GGUF file with their values, and its tensors by name.

    Lists of more than 2^14 items, such as vocabularies, are None. Tensors of known types are within
    the file.

    Raises
    ------
    PefourierError
        If the file is missing, truncated, not a GGUF file, or smaller than its header declares.
    """
    if status_of(path) is None:
        raise missing(path)
    with os_errors("read", path), Path(path).open("rb") as stream:
        try:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return walk_header(data)
        except (ValueError, OverflowError, CutOff) as error:
            raise PefourierError(
                f"{shown(path)} is not a readable .gguf file: {error}; download it again"
            ) from error


def walk_header(data: mmap.mmap) -> tuple[Fields, dict[str, TensorPlace]]:
    """Parse the header for `read_header`; damaged files raise ValueError or `CutOff`."""
    walk = Walk(data)
    version = walk.number(U32)
    if data[:4] != b"GGUF" or version not in (2, 3):
        raise ValueError("it must begin with GGUF and version 2 or 3, little-endian")
    tensors, keys = walk.count(24), walk.count(13)
    values = {walk.text(): walk.value(walk.number(U32)) for _ in range(keys)}
    infos = {walk.text(): walk.tensor() for _ in range(tensors)}
    step = values.get("general.alignment", ALIGNMENT)
    if type(step) is not int or not 0 < step <= 2**20:
        raise ValueError(f"general.alignment is {shown(step)}")
    if len(values) < keys or len(infos) < tensors:
        raise ValueError("it repeats the name of a key or of a tensor")
    first = -(-walk.at // step) * step
    places = {n: replace(place, start=first + place.start) for n, place in infos.items()}
    for name, place in places.items():
        block, width = BLOCKS.get(place.type, (1, 0))
        if place.shape and place.shape[-1] % block:
            raise ValueError(f"rows of tensor {shown(name)} do not fill blocks of {place.type}")
        if width and place.start + prod(place.shape) // block * width > len(data):
            raise ValueError(f"tensor {shown(name)} extends beyond the end of the file")
    return values, places


class Walk:
    """A reader of a file's bytes that advances with every read."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 4

    def number(self, reader: Struct) -> Any:
        """Read a number."""
        self.at += reader.size
        return reader.unpack_from(self.data, self.at - reader.size)[0]

    def count(self, item_size: int) -> int:
        """Read the number of items that follow, and check that they fit into the file."""
        count = int(self.number(U64))
        if count * item_size > len(self.data) - self.at:
            raise ValueError(f"at byte {self.at} it declares {count} items, which do not fit")
        return count

    def text(self) -> str:
        """Read a string."""
        size = self.count(1)
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """Read a value, given the number of its type."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.text()
        inner: int = self.number(U32) if kind == ARRAY else ARRAY
        if inner != STRING and inner not in SCALARS:
            raise ValueError(f"at byte {self.at} it has an unknown type, or a list of lists")
        size = 8 if inner == STRING else SCALARS[inner].size
        count = self.count(size)
        if count <= LONGEST_LIST:
            return [self.value(inner) for _ in range(count)]
        if inner != STRING:
            self.at += count * size
            return None
        if count > MOST_TEXTS:
            raise ValueError(f"it has a list of more than {MOST_TEXTS} strings")
        for _ in range(count):  # without reading them
            self.at += 8 + U64.unpack_from(self.data, self.at)[0]
        return None

    def tensor(self) -> TensorPlace:
        """Read a tensor's entry; its start is relative to the start of the tensor data."""
        axes = self.number(U32)
        if axes > MOST_AXES:
            raise ValueError(f"before byte {self.at} a tensor has {axes} axes (limit {MOST_AXES})")
        shape = tuple(self.number(U64) for _ in range(axes))[::-1]
        kind = self.number(U32)
        return TensorPlace(shape, TYPES.get(kind, str(kind)), self.number(U64))

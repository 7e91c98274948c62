"""List the tensors of a model's weights from headers, and read their rows on demand.

Weights are a folder of .safetensors files, a single .safetensors file, or a .gguf file. The package
gguf decodes its quantised types. A tensor is never in memory as a whole: `Tensor.rows` reads a
range of rows.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings.sources.formats import DECODERS, KINDS, RawArray, bfloat16
from pefourier.encodings.sources.gguf_file import BLOCKS, NUMPY, read_header
from pefourier.encodings.sources.huggingface import all_tensors
from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.writing.files import is_folder, missing, os_errors, status_of, suffix_among

Decoder = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Tensor:
    """The place of a tensor's rows in a file, and the decoder of their bytes."""

    path: str
    name: str
    shape: tuple[int, ...]
    kind: str  # of the stored numbers
    start: int  # offset in the file, in bytes
    row_bytes: int
    decode: Decoder | None  # of bytes (rows, row_bytes); None: unknown

    def rows(self, first: int, last: int) -> NDArray[Any]:
        """Return the rows from first to last (last - first, columns)."""
        if self.decode is None:
            raise PefourierError(
                f"{self.name} of {shown(self.path)} has type {self.kind}, which is not supported; "
                "use the model in bfloat16, float16, float32 or float8"
            )
        count, offset = (last - first) * self.row_bytes, self.start + first * self.row_bytes
        with os_errors("read", self.path):
            stored = np.fromfile(self.path, np.uint8, count, offset=offset)
        if len(stored) < count:
            raise PefourierError(
                f"{shown(self.path)} became shorter while it was read; write it again"
            )
        return self.decode(stored.reshape(last - first, self.row_bytes))

    def vector(self) -> NDArray[Any]:
        """Return all numbers as float64 (n,), for the gains of a norm or for scales."""
        return self.rows(0, row_count(self.shape)).astype(float).reshape(-1)


def row_count(shape: tuple[int, ...]) -> int:
    """Return the number of rows of a tensor; a vector is one row."""
    return shape[0] if len(shape) > 1 else 1


def list_tensors(path: str) -> dict[str, Tensor]:
    """Return the tensors of a model's folder, a .safetensors file or a .gguf file, by name.

    Raises
    ------
    PefourierError
        If a file or a shard is missing or damaged, or the folder has no weights.
    """
    if status_of(path) is None:
        raise missing(path)
    if not is_folder(path):
        is_gguf = suffix_among(path, (".safetensors", ".gguf")) == ".gguf"
        return dict(gguf_tensors(path) if is_gguf else safetensors_of(path))
    file_of = dict(all_tensors(path))
    if not file_of:
        raise PefourierError(
            f"{shown(path)} must hold model.safetensors, or model.safetensors.index.json with the "
            "files that it lists; to read a .gguf file, give its path"
        )
    tensors: dict[str, Tensor] = {}
    for file in dict.fromkeys(file_of.values()):
        tensors |= {n: tensor for n, tensor in safetensors_of(file) if file_of.get(n) == file}
    if absent := file_of.keys() - tensors.keys():
        raise PefourierError(
            f"{shown(path)} has no {shown(min(absent))}, which its index lists; download it again"
        )
    return tensors


def safetensors_of(path: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a .safetensors file."""
    with open_arrays(path, regular=True) as file:
        arrays = file.arrays
    for name, stored in arrays.items():
        if isinstance(stored, RawArray):  # true for every array of a .safetensors file
            width = stored.file_bytes // max(row_count(stored.shape), 1)
            decode = DECODERS.get(stored.kind)
            reader = partial(as_numbers, stored.bits, decode) if stored.kind in KINDS else None
            yield name, Tensor(path, name, stored.shape, stored.kind, stored.start, width, reader)


def gguf_tensors(path: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a .gguf file."""
    for name, place in read_header(path)[1].items():
        block, size = BLOCKS.get(place.type, (1, 0))
        width = prod(place.shape) // max(row_count(place.shape), 1) // block * size
        decode: Decoder | None = partial(dequantised, place.type) if place.type in BLOCKS else None
        if place.type in NUMPY:
            decode = partial(as_numbers, np.dtype(NUMPY[place.type]), None)
        elif place.type == "BF16":
            decode = partial(as_numbers, np.dtype("<u2"), bfloat16)
        yield name, Tensor(path, name, place.shape, place.type, place.start, width, decode)


def as_numbers(dtype: np.dtype[Any], decode: Decoder | None, stored: NDArray[Any]) -> NDArray[Any]:
    """Convert rows of bytes to numbers."""
    bits = stored.view(dtype)
    return decode(bits) if decode else bits


def dequantised(kind: str, stored: NDArray[Any]) -> NDArray[Any]:
    """Decode rows of quantised blocks with the package gguf."""
    try:
        from gguf import GGMLQuantizationType, quants
    except ImportError as error:
        raise PefourierError(
            f"tensors of type {kind} need the package gguf; run pip install gguf"
        ) from error
    with suppress(NotImplementedError, AttributeError):
        return np.asarray(quants.dequantize(stored, getattr(GGMLQuantizationType, kind)))
    raise PefourierError(f"tensors of type {kind} are not decoded by this version of gguf")

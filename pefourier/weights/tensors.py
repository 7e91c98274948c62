"""Which tensors do a model's weights hold? Headers are read; rows of a tensor when they are asked.

Weights are a folder of .safetensors files, one such file, or a .gguf file, whose quantised types
the package gguf decodes. A tensor is never in memory as a whole: `Tensor.rows` reads some rows.
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
from pefourier.encodings.sources.gguf_header import BLOCKS, NUMPY, read_header
from pefourier.encodings.sources.huggingface import all_tensors
from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.writing.files import is_folder, missing, os_errors, status_of, suffix_among

Decoder = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Tensor:
    """Where the rows of a tensor lie in a file, and how their bytes become numbers."""

    path: str
    name: str
    shape: tuple[int, ...]
    kind: str  # of the stored numbers
    start: int  # byte of the file
    row_bytes: int
    decode: Decoder | None  # of bytes (rows, row_bytes); None: unknown

    def rows(self, first: int, last: int) -> NDArray[Any]:
        """Some rows (last - first, columns)."""
        if self.decode is None:
            raise PefourierError(
                f"{self.name} of {shown(self.path)} is of type {self.kind}, whose numbers are not "
                "read here; give the model in bfloat16, float16, float32 or float8"
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
        """All numbers in a row, float64 (n,): of the gains of a norm, of scales."""
        return self.rows(0, row_count(self.shape)).astype(float).reshape(-1)


def row_count(shape: tuple[int, ...]) -> int:
    """Rows of a tensor; a vector is one row."""
    return shape[0] if len(shape) > 1 else 1


def list_tensors(path: str) -> dict[str, Tensor]:
    """The tensors of a model's folder, of a .safetensors file or of a .gguf file, by name.

    Raises
    ------
    PefourierError
        For a file that is missing or damaged, a shard that is not there, a folder without weights.
    """
    if status_of(path) is None:
        raise missing(path)
    if not is_folder(path):
        is_gguf = suffix_among(path, (".safetensors", ".gguf")) == ".gguf"
        return dict(gguf_tensors(path) if is_gguf else safetensors_of(path))
    file_of = dict(all_tensors(path))
    if not file_of:
        raise PefourierError(
            f"{shown(path)} holds no weights that are read here: model.safetensors, or files that "
            "model.safetensors.index.json names; name a .gguf file itself"
        )
    tensors: dict[str, Tensor] = {}
    for file in dict.fromkeys(file_of.values()):
        tensors |= {n: tensor for n, tensor in safetensors_of(file) if file_of.get(n) == file}
    if absent := file_of.keys() - tensors.keys():
        raise PefourierError(
            f"{shown(path)} has no {shown(min(absent))}, which its index names; fetch it again"
        )
    return tensors


def safetensors_of(path: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a .safetensors file."""
    with open_arrays(path, regular=True) as file:
        arrays = file.arrays
    for name, stored in arrays.items():
        if isinstance(stored, RawArray):  # as all of such a file are
            width = stored.file_bytes // max(row_count(stored.shape), 1)
            decode = DECODERS.get(stored.kind)
            reader = partial(as_numbers, stored.bits, decode) if stored.kind in KINDS else None
            yield name, Tensor(path, name, stored.shape, stored.kind, stored.start, width, reader)


def gguf_tensors(path: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a .gguf file."""
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
    """The numbers of rows of bytes."""
    bits = stored.view(dtype)
    return decode(bits) if decode else bits


def dequantised(kind: str, stored: NDArray[Any]) -> NDArray[Any]:
    """The numbers of rows of quantised blocks, by the package gguf."""
    try:
        from gguf import GGMLQuantizationType, quants
    except ImportError as error:
        raise PefourierError(
            f"tensors of type {kind} need gguf, which is not installed; pip install gguf"
        ) from error
    with suppress(NotImplementedError, AttributeError):
        return np.asarray(quants.dequantize(stored, getattr(GGMLQuantizationType, kind)))
    raise PefourierError(f"tensors of type {kind} are not decoded by this version of gguf")

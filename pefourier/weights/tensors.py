"""Which tensors do a model's weights hold? Headers are read; rows of a tensor when they are asked.

Weights are a folder of .safetensors files, one such file, or a .gguf file, whose quantised types
the package gguf decodes. A tensor is never in memory as a whole: `Tensor.rows` reads some rows.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from pefourier.encodings.sources.arrays import DECODERS, bfloat16
from pefourier.encodings.sources.formats import SAFETENSORS
from pefourier.encodings.sources.gguf_header import BLOCKS, NUMPY, read_header
from pefourier.encodings.sources.tables import open_arrays
from pefourier.encodings.sources.weights import all_tensors
from pefourier.errors import PefourierError, shown
from pefourier.files import missing, os_errors, status_of, suffix_among

SUFFIXES = (".safetensors", ".gguf")
PLAIN = {kind: raw for kind, raw in SAFETENSORS.values() if kind not in DECODERS}
SMALL = {  # bytes of a number, bits of its fraction, bias of its exponent, first bits of no number
    "bfloat16": (2, 7, 127, 0x7F80),
    "float16": (2, 10, 15, 0x7C00),
    "float8_e4m3fn": (1, 3, 7, 0x7F),
    "float8_e5m2": (1, 2, 15, 0x7C),
}
SMALL |= {"BF16": SMALL["bfloat16"], "F16": SMALL["float16"]}


@dataclass(frozen=True)
class Tensor:
    """Where the rows of a tensor lie in a file, and how their bytes become numbers."""

    path: str
    name: str
    shape: tuple[int, ...]
    kind: str  # of the stored numbers
    start: int  # byte of the file
    row_bytes: int
    decode: Callable[[np.ndarray], np.ndarray] | None  # of bytes (rows, row_bytes); None: unknown

    def bytes(self, first: int, last: int) -> np.ndarray:
        """The bytes of some rows (last - first, row_bytes)."""
        count = (last - first) * self.row_bytes
        with os_errors("read", self.path):
            stored = np.fromfile(
                self.path, np.uint8, count, offset=self.start + first * self.row_bytes
            )
        if len(stored) < count:
            raise self.too_short()
        return stored.reshape(last - first, self.row_bytes)

    def numbers(self, stored: np.ndarray) -> np.ndarray:
        """The numbers of the bytes of some rows (rows, columns)."""
        if self.decode is None:
            raise PefourierError(
                f"{self.name} of {shown(self.path)} is of type {self.kind}, whose numbers are not "
                "read here; give the model in bfloat16, float16, float32 or float8"
            )
        return self.decode(stored)

    def rows(self, first: int, last: int) -> np.ndarray:
        """Some rows (last - first, columns)."""
        return self.numbers(self.bytes(first, last))

    def sizes(self, first: int, last: int, step: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Which rows, and their numbers but for signs, float32, in memory that is used again.

        Numbers of 8 or 16 bits become float32 by their bits; infinities of theirs become NaN.
        """
        raw = np.empty((step, self.row_bytes), np.uint8)
        room = np.empty((step, self.shape[-1]), "<u4")
        with os_errors("read", self.path), open(self.path, "rb", buffering=0) as file:
            file.seek(self.start + first * self.row_bytes)
            for start in range(first, last, step):
                rows = slice(start, min(start + step, last))
                stored = raw[: rows.stop - start]
                if file.readinto(stored) < stored.nbytes:
                    raise self.too_short()
                words = room[: len(stored)]
                if self.kind in SMALL:
                    widen(stored, self.kind, words)
                else:
                    np.abs(self.numbers(stored), out=words.view("<f4"))
                yield rows, words.view("<f4")

    def too_short(self) -> PefourierError:
        """The error for a file from which somebody took bytes meanwhile."""
        return PefourierError(
            f"{shown(self.path)} became shorter while it was read; write it again"
        )

    def vector(self) -> np.ndarray:
        """All numbers in a row, float64 (n,): of a bias, of the gains of a norm."""
        return self.rows(0, row_count(self.shape)).astype(float).reshape(-1)


def widen(stored: np.ndarray, kind: str, words: np.ndarray) -> None:
    """The bits of small numbers as those of float32 without their signs."""
    size, fraction, bias, strange = SMALL[kind]
    np.copyto(words, stored.view(f"<u{size}"))
    words &= (1 << (8 * size - 1)) - 1
    is_strange = bias != 127 and words.max(initial=0) >= strange
    words <<= 23 - fraction
    if bias != 127:
        numbers = words.view("<f4")
        numbers *= np.nan if is_strange else 2.0 ** (127 - bias)


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
    status = status_of(path)
    if status is None:
        raise missing(path)
    if not os.path.isdir(path):
        gguf = suffix_among(path, SUFFIXES) == ".gguf"
        return dict(gguf_tensors(path) if gguf else safetensors_of(path))
    placed: dict[str, list[str]] = {}
    for name, file in all_tensors(path):
        placed.setdefault(file, []).append(name)
    if not placed:
        raise PefourierError(
            f"{shown(path)} holds no weights that are read here: model.safetensors, or files that "
            "model.safetensors.index.json names; name a .gguf file itself"
        )
    tensors = {}
    for file, names in placed.items():
        in_file = dict(safetensors_of(file))
        for name in names:
            if name not in in_file:
                raise PefourierError(
                    f"{shown(file)} has no {shown(name)}, as its index says; fetch it again"
                )
        tensors |= {name: in_file[name] for name in names}
    return tensors


def safetensors_of(path: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a .safetensors file."""
    with open_arrays(path, regular=True) as file:
        arrays = file.arrays
    for name, stored in arrays.items():
        rows = row_count(stored.shape)
        width = stored.file_bytes // rows if rows else 0
        decode = DECODERS.get(stored.kind)
        is_readable = decode or stored.kind in PLAIN
        reader = partial(as_numbers, stored.bits, decode) if is_readable else None
        yield name, Tensor(path, name, stored.shape, stored.kind, stored.start, width, reader)


def as_numbers(
    dtype: np.dtype, decode: Callable[[np.ndarray], np.ndarray] | None, stored: np.ndarray
) -> np.ndarray:
    """The numbers of rows of bytes."""
    bits = stored.view(dtype)
    return decode(bits) if decode else bits


def gguf_tensors(path: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a .gguf file."""
    for name, place in read_header(path)[1].items():
        rows = row_count(place.shape)
        block, size = BLOCKS.get(place.type, (1, 0))
        width = prod(place.shape) // max(rows, 1) // block * size
        decode = gguf_decoder(place.type)
        yield name, Tensor(path, name, place.shape, place.type, place.start, width, decode)


def gguf_decoder(kind: str) -> Callable[[np.ndarray], np.ndarray] | None:
    """What makes numbers of the bytes of rows of a type; None for an unknown one."""
    if kind in NUMPY:
        return partial(as_numbers, np.dtype(NUMPY[kind]), None)
    if kind == "BF16":
        return partial(as_numbers, np.dtype("<u2"), bfloat16)
    return partial(dequantised, kind) if kind in BLOCKS else None


def dequantised(kind: str, stored: np.ndarray) -> np.ndarray:
    """The numbers of rows of quantised blocks, by the package gguf."""
    try:
        from gguf import GGMLQuantizationType, quants
    except ImportError as error:
        raise PefourierError(
            f"tensors of type {kind} need gguf, which is not installed; pip install gguf"
        ) from error
    with suppress(NotImplementedError, AttributeError):
        return quants.dequantize(stored, getattr(GGMLQuantizationType, kind))
    raise PefourierError(f"tensors of type {kind} are not decoded by this version of gguf")

"""What does a file declare an array to be, and may it be loaded? The gate of every array read.

Conventions
-----------
Readers of formats give arrays as `Stored`: type, shape and place as the file declares them, held
against the bytes that are there. `Stored.load` is the only way to the numbers. It refuses, before
anything is mapped, read or allocated, what is not plain numbers of known width (objects would be
pointers) and what takes more memory than its bytes in the file can stand for. Arrays are copied
out of a file; only large tables are mapped.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np

from pefourier.encodings.checks import image_sides, table_axes
from pefourier.errors import PefourierError, shown

MEMORY = 2**33  # bytes that an array may take when it is not mapped
SUSPECT = 2**28  # bytes above which an array may take RATIO times its bytes in the file
RATIO = 100
AT_ONCE = 2**20  # bytes of a stream that are read at a time
MOST_AXES = 32
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
TEXT = re.compile(r"(str|bytes)[1-9][0-9]*")  # of a fixed width


@dataclass(frozen=True)
class Stored:
    """An array as a file declares it; nothing of it is read before `load` is called."""

    shape: tuple[int, ...]
    kind: str  # name of the type of its numbers
    width: int  # bytes that one of them takes in memory
    held: int  # bytes it takes in the file
    copied: Callable[[], np.ndarray]  # in memory; called by `load`, which looks first
    mapped: Callable[[], np.ndarray] | None = None  # where it lies as numpy would have it
    extent: "Extent | None" = None  # where its bits lie, where that is one run of the file

    @property
    def axes(self) -> tuple[int, ...]:
        """The shape without a single axis before or between positions and dimensions."""
        return table_axes(self.shape)

    @property
    def sides(self) -> tuple[int, ...]:
        """Rows and columns of an image's points, where it has these axes; else none."""
        return image_sides(self.shape)

    @property
    def is_table(self) -> bool:
        """Whether it has two axes, neither empty, of real numbers."""
        return self.kind in KINDS and len(self.axes) == 2 and 0 not in self.axes

    @property
    def may_be_pairs(self) -> bool:
        """Whether a last axis of 2 may hold cosines and sines, as of complex numbers."""
        return self.kind in KINDS and len(self.axes) == 3 and self.axes[2] == 2

    def load(
        self,
        file: str,
        name: str,
        dtype: str | None = None,
        *,
        text: bool = False,
        mapping: bool = False,
        most: int = MEMORY,
    ) -> np.ndarray:
        """The array, as `dtype` where one is given: through the gate.

        `file` and `name` are what errors call it. `text` lets text of a fixed width pass too,
        `mapping` maps what is large and needs no other type, `most` is the number of bytes that
        the array may take in memory.
        """
        if self.kind not in KINDS and not (text and TEXT.fullmatch(self.kind)):
            expected = "numbers or text of a fixed width" if text else "real numbers"
            raise PefourierError(
                f"{file} holds {self.named(name)} of {shown(self.kind)[1:-1]}; expected {expected}"
            )
        need = math.prod(self.shape) * (np.dtype(dtype).itemsize if dtype else self.width)
        if mapping and self.mapped is not None and dtype in (None, self.kind) and need > SUSPECT:
            return self.mapped()
        if need > most or need > max(SUSPECT, RATIO * self.held):
            way_out = "; a .npy file of float32 is mapped and has no limit" if mapping else ""
            raise PefourierError(
                f"{file} has {self.held} bytes for {'a table' if self.is_table else 'an array'} "
                f"that takes {need}; the limits are {most} and, above {SUSPECT}, {RATIO} times "
                f"the bytes in the file{way_out}"
            )
        with np.errstate(all="ignore"):  # a long double beyond float64 is infinite, refused later
            array = self.copied()
            if array.dtype.kind == "U":
                check_text(array)
            return array.astype(dtype, copy=False) if dtype else array

    def named(self, name: str) -> str:
        """A name and the shape."""
        return f"{shown(name) if name else 'an array'} {self.shape}"


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
        check_axes(self.shape)
        if self.nbytes > size - self.offset:
            raise ValueError(
                f"its shape {self.shape} of {self.dtype.name} needs {self.nbytes} bytes, "
                f"{max(0, size - self.offset)} are there"
            )
        return self

    def check_plain(self) -> None:
        """Refuse bytes that are neither numbers nor text: objects would be pointers."""
        if self.dtype.name not in KINDS and not TEXT.fullmatch(self.dtype.name):
            raise ValueError(f"it holds {self.dtype}, and only plain numbers are read")

    def filled(self, fill: Callable[[memoryview], None]) -> np.ndarray:
        """The array in memory of its own, of bytes that `fill` puts there."""
        self.check_plain()
        data = np.empty(self.nbytes, np.uint8)
        fill(memoryview(data))
        return data.view(self.dtype).reshape(self.shape, order=self.order)

    def copied(self, stream: BinaryIO) -> np.ndarray:
        """The array in a stream, in memory of its own."""
        stream.seek(self.offset)
        return self.filled(partial(fill_from_stream, stream))

    def mapped(self, stream: BinaryIO) -> np.ndarray:
        """The array where it lies in a file."""
        self.check_plain()
        return np.memmap(stream, self.dtype, "r", self.offset, self.shape, self.order)


def check_axes(shape: Sequence[object]) -> None:
    """Refuse what is not the shape of an array."""
    sizes = [axis for axis in shape if type(axis) is int and 0 <= axis < 2**63]
    if len(sizes) != len(shape) or len(sizes) > MOST_AXES:
        raise ValueError("its shape is not that of an array")


def check_text(array: np.ndarray) -> None:
    """Refuse numbers that are no characters, which Python would stumble over later."""
    codes = np.ascontiguousarray(array).reshape(-1).view(array.dtype.byteorder + "u4")
    if (codes > 0x10FFFF).any() or ((codes >= 0xD800) & (codes < 0xE000)).any():
        raise ValueError("it holds text that is not Unicode")


def fill_from_stream(stream: BinaryIO, room: memoryview, step: int = AT_ONCE) -> None:
    """Fill a room with the next bytes of a stream, so many at a time."""
    done = 0
    while done < len(room):
        count = stream.readinto(room[done : done + step])
        if not count:
            raise ValueError("it ends before its numbers do")
        done += count

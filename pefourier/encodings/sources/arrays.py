"""What does a file declare an array to be, and may it be loaded? The gate of every array read.

Conventions
-----------
Readers of formats give arrays as `Stored`: type, shape and size as the file declares them.
`Stored.load` is the only way to the numbers. It refuses, before anything is mapped, read or
allocated, what is not plain numbers of known width (objects would be pointers) and what takes more
memory than its bytes in the file can stand for. Only large tables are mapped.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pefourier.encodings.checks import image_sides, table_axes
from pefourier.errors import PefourierError, shown

MEMORY = 2**33  # bytes that an array may take when it is not mapped
SUSPECT = 2**28  # bytes above which an array may take RATIO times its bytes in the file
RATIO = 100
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
    file_bytes: int  # that it takes in the file
    copied: Callable[[], np.ndarray]  # in memory; called by `load`, which looks first
    mapped: Callable[[], np.ndarray] | None = None  # where it lies as numpy would have it
    start: int | None = None  # byte of the file where its bits begin, in raster order
    bits: np.dtype | None = None  # as which they lie there

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
        return (
            self.kind in KINDS and len(self.axes) == 3 and self.axes[2] == 2 and 0 not in self.axes
        )

    def load(
        self,
        file: str,
        name: str,
        dtype: str | None = None,
        *,
        text: bool = False,
        mapping: bool = False,
        limit: int = MEMORY,
    ) -> np.ndarray:
        """The array, as `dtype` where one is given: through the gate.

        `file` and `name` are what errors call it. `text` lets text of a fixed width pass too,
        `mapping` maps what is large and needs no other type, `limit` is the number of bytes that
        the array may take in memory.
        """
        if self.kind not in KINDS and not (text and TEXT.fullmatch(self.kind)):
            expected = "numbers or text of a fixed width" if text else "real numbers"
            raise PefourierError(
                f"{file} holds {self.label(name)} of {shown(self.kind)[1:-1]}; expected {expected}"
            )
        need = math.prod(self.shape) * (np.dtype(dtype).itemsize if dtype else self.width)
        if mapping and self.mapped is not None and dtype in (None, self.kind) and need > SUSPECT:
            return self.mapped()
        if need > limit or need > max(SUSPECT, RATIO * self.file_bytes):
            way_out = "; a .npy file of float32 is mapped and has no limit" if mapping else ""
            raise PefourierError(
                f"{file} has {self.file_bytes} bytes for an array that takes {need}; the limits "
                f"are {limit} and, above {SUSPECT}, {RATIO} times the bytes in the file{way_out}"
            )
        with np.errstate(all="ignore"):  # a long double beyond float64 is infinite, refused later
            array = self.copied()
            if array.dtype.kind == "U":
                check_text(array)
            return array.astype(dtype, copy=False) if dtype else array

    def label(self, name: str) -> str:
        """A name and the shape."""
        return f"{shown(name) if name else 'an array'} {self.shape}"


def check_shape(shape: Sequence[object], width: int, room: int) -> None:
    """Refuse what is not the shape of an array, and one of more bytes than there is room for."""
    sizes = [axis for axis in shape if type(axis) is int and 0 <= axis < 2**63]
    if len(sizes) != len(shape) or len(sizes) > MOST_AXES:
        raise ValueError("its shape is not that of an array")
    need = math.prod(sizes) * width
    if need > room:
        raise ValueError(f"its shape {tuple(sizes)} needs {need} bytes, {max(0, room)} are there")


def check_text(array: np.ndarray) -> None:
    """Refuse numbers that are no characters, which Python would stumble over later."""
    codes = np.ascontiguousarray(array).reshape(-1).view(array.dtype.byteorder + "u4")
    if (codes > 0x10FFFF).any() or ((codes >= 0xD800) & (codes < 0xE000)).any():
        raise ValueError("it holds text that is not Unicode")


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

"""How is a table in a large file looked at without being read, while others write to the file?

A page that a file no longer has, because somebody made it shorter, kills the process that looks at
it. Blocks of rows of a `MappedTable` are therefore copied from the file, which ends in an error
there; for the rest the length of the file is looked at before the page is.
"""

import os
from typing import Any, BinaryIO

import numpy as np

from pefourier.errors import PefourierError, shown

COPIED = 2**26  # bytes of rows that are copied at a time


class MappedFile:
    """A file that stays open as long as an array is mapped from it."""

    def __init__(self, stream: BinaryIO, end: int) -> None:
        self.descriptor = os.dup(stream.fileno())
        self.name, self.end = stream.name, end  # bytes that it must have

    def __del__(self) -> None:
        os.close(self.descriptor)

    def check_length(self) -> None:
        """Refuse a file that has become shorter than when it was mapped."""
        if os.fstat(self.descriptor).st_size < self.end:
            raise self.too_short()

    def fill(self, room: memoryview, offset: int) -> None:
        """Fill a room with the bytes from an offset on."""
        done = 0
        while done < len(room):
            part = os.pread(self.descriptor, len(room) - done, offset + done)
            if not part:
                raise self.too_short()
            room[done : done + len(part)] = part
            done += len(part)

    def too_short(self) -> PefourierError:
        """The error for a file from which somebody took bytes meanwhile."""
        return PefourierError(
            f"{shown(self.name)} became shorter while it was read; write it again"
        )


class MappedTable(np.ndarray):
    """An array in a mapped file; rows that are taken by a slice or a list are read from the file.

    Whatever else is taken is a view, given while the file is as long as when it was mapped.
    """

    source: MappedFile | None = None  # of a view; a copy is an array like any other
    place: tuple[int, int] | None = None  # address of the whole array and its offset in the file

    def __array_finalize__(self, parent: Any) -> None:
        if isinstance(parent, MappedTable) and np.may_share_memory(self, parent):
            self.source, self.place = parent.source, parent.place

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else np.asarray(array)

    def __repr__(self) -> str:  # of which a debugger may think when the file is gone
        return f"<{self.dtype} {self.shape}, mapped>"

    def __getitem__(self, index: Any) -> Any:
        if self.source is None:
            return super().__getitem__(index)
        self.source.check_length()
        runs = self.runs_of(index) if self.place else None
        return super().__getitem__(index) if runs is None else self.read_runs(runs)

    def runs_of(self, index: Any) -> list[range] | None:
        """The rows that an index takes, in runs; None where they cannot be read one by one."""
        if not self.flags.c_contiguous or not len(self):
            return None
        if isinstance(index, slice):
            runs = [range(len(self))[index]]
            plain = runs[0].step == 1
        else:
            rows = index if isinstance(index, np.ndarray) else np.empty(0)
            plain = rows.ndim == 1 and rows.dtype.kind in "iu" and len(rows) > 0
            plain = plain and 0 <= rows.min() and rows.max() < len(self)
            runs = [range(row, row + 1) for row in rows.tolist()] if plain else []
        return runs if plain and sum(map(len, runs)) * self.row_bytes <= COPIED else None

    @property
    def row_bytes(self) -> int:
        """Bytes from one row to the next."""
        return self.nbytes // len(self)

    def read_runs(self, runs: list[range]) -> np.ndarray:
        """Some rows, copied from the file."""
        address, offset = self.place
        start = offset + self.__array_interface__["data"][0] - address
        taken = np.empty((sum(map(len, runs)), *self.shape[1:]), self.dtype)
        room, done, width = memoryview(taken.reshape(-1).view(np.uint8)), 0, self.row_bytes
        for run in runs:
            part = room[done : done + len(run) * width]
            self.source.fill(part, start + run.start * width)
            done += len(part)
        return taken


def watch(array: np.ndarray, stream: BinaryIO, end: int, offset: int | None) -> MappedTable:
    """A mapped array of a file of at least `end` bytes, at an offset where that is known."""
    table = array.view(MappedTable)
    table.source = MappedFile(stream, end)
    table.place = None if offset is None else (table.__array_interface__["data"][0], offset)
    return table

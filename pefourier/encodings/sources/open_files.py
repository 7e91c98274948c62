"""A seekable stream of a file's bytes, of a pipe's or of standard input's."""

import io
import stat
import sys
from typing import BinaryIO

from pefourier.encodings.sources.arrays import MEMORY
from pefourier.encodings.sources.formats import NPY_MAGIC, READERS
from pefourier.errors import PefourierError, shown
from pefourier.files import in_place, label, missing, os_errors, status_of, suffix_among, suffix_of

STREAMED = ("", ".npy", ".csv", ".txt")  # suffixes of what is read from a pipe


def check_regular(path: str) -> None:
    """Refuse a folder, a pipe and a device."""
    status = status_of(path)
    if status is None:
        raise missing(path)
    if not stat.S_ISREG(status.st_mode):
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "pipe or a device"
        raise PefourierError(f"{shown(path)} is a {kind}; put a file there, to be read twice")


def open_table(path: str, suffix: str | None = None) -> tuple[BinaryIO, str]:
    """A seekable stream of the file's bytes, and the suffix of the reader to give it to."""
    if path == "-":
        if sys.stdin is None:
            raise PefourierError("standard input is closed; pipe a table into it or name a file")
        return read_pipe(sys.stdin.buffer, path)
    status = status_of(path)
    if status is None:
        raise missing(path)
    if not in_place(path, status):
        suffix = suffix or suffix_among(path, READERS)
        if suffix == ".csv" and status.st_size > MEMORY // 8:
            raise too_large(path, MEMORY // 8)
        with os_errors("read", path):
            return open(path, "rb"), suffix
    is_stream = stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
    if not is_stream or suffix_of(path) not in STREAMED:
        raise PefourierError(
            f"{shown(path)} is a folder, a device or a pipe of weights; name a file: "
            f"{', '.join(READERS)}"
        )
    with os_errors("read", path), open(path, "rb") as pipe:
        return read_pipe(pipe, path)


def read_pipe(pipe: BinaryIO, path: str) -> tuple[io.BytesIO, str]:
    """What a pipe holds, and the suffix that its first bytes point to."""
    with os_errors("read", path):
        chunk = pipe.read(2**14)
        suffix = ".npy" if chunk.startswith(NPY_MAGIC) else ".csv"
        if suffix == ".csv" and b"\0" in chunk:
            raise PefourierError(f"{label(path)} is neither a .npy nor a .csv table; name a file")
        limit = MEMORY if suffix == ".npy" else MEMORY // 8
        stream = io.BytesIO()
        while chunk:
            stream.write(chunk)
            if stream.tell() > limit:
                raise too_large(path, limit)
            chunk = pipe.read(2**20)
        stream.seek(0)
        return stream, suffix


def too_large(path: str, limit: int) -> PefourierError:
    """The error for more bytes than can be read as a whole."""
    return PefourierError(f"{label(path)} gives more than {limit} bytes; write them to a .npy file")

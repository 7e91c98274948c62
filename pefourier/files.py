"""Paths, failures of the system in one line, and files written whole or not at all."""

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pefourier.errors import PefourierError, shown, unknown

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

DRAFT_NAME = re.compile(r"\.pefourier-[0-9a-f]{16}")
DRAFTS: set[str] = set()  # paths of those that this process is writing
TRIES = 100  # drafts that other processes may take for stale
DAY = 86_400  # seconds
O_BINARY = getattr(os, "O_BINARY", 0)  # Windows


@cache  # files of the package, which do not change while they are used
def read_toml(path: Path) -> dict[str, Any]:
    """A table of the package that is data."""
    import tomllib  # commands that need none start without it

    return tomllib.loads(path.read_text(encoding="utf-8"))


def label(path: str) -> str:
    """How a path is called in a message."""
    return "standard input" if path == "-" else shown(path)


def status_of(path: str) -> os.stat_result | None:
    """What the system knows of a path, links followed; None where nothing is there."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in the path
        raise PefourierError(f"cannot reach {shown(path)}: {reason(error)}") from error


@contextmanager
def os_errors(action: str, path: str) -> Iterator[None]:
    """Report failures of the operating system in one line."""
    try:
        yield
    except OSError as error:
        raise PefourierError(f"cannot {action} {label(path)}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """The system's description of a failure, or the first line of a library's."""
    text = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return text[:300] or type(error).__name__


UNREAD = {".png", ".pdf", ".svg", ".jpg", ".jpeg", ".gif", ".html", ".py", ".md"}  # no data


def missing(path: str) -> PefourierError:
    """The error for a file that is not there, with the nearest name in its folder."""
    folder, name = os.path.split(path)
    if not os.path.isdir(folder or "."):
        return PefourierError(f"no file {shown(path)}: there is no folder {shown(folder)}")
    hint = f"There is no such file in {shown(folder or '.')}."
    return unknown("file", name, data_names(folder, name), hint)


def data_names(folder: str, name: str) -> list[str]:
    """The names in a folder that may be of data, but one."""
    with os_errors("look into", folder or "."), os.scandir(folder or ".") as entries:
        names = [entry.name for entry in islice(entries, 10_000) if entry.name != name]
    return [path for path in names if os.path.splitext(path)[1].lower() not in UNREAD]


def suffix_of(path: str) -> str:
    """The suffix in lower case, with its dot; empty where there is none."""
    return os.path.splitext(path)[1].lower()


def suffix_among(path: str, allowed: Collection[str]) -> str:
    """The suffix of a path in lower case, where it is an allowed one."""
    suffix = suffix_of(path)
    if suffix not in allowed:
        raise unknown("suffix", suffix, allowed, f"{shown(path)} may end in {', '.join(allowed)}.")
    return suffix


def check_suffix(path: str, allowed: Collection[str]) -> str:
    """The suffix of a file to be written; refuses what could not be written, before it is made."""
    suffix = suffix_among(path, allowed)
    check_place(path)
    return suffix


def check_place(path: str) -> None:
    """Refuse a folder, a path in no folder, and what may not be written."""
    status = status_of(path)
    folder = os.path.dirname(os.path.realpath(path))
    if status and stat.S_ISDIR(status.st_mode):
        raise PefourierError(f"cannot write {shown(path)}: it is a folder; name a file in it")
    if not os.path.isdir(folder):
        raise PefourierError(f"cannot write {shown(path)}: make the folder {shown(folder)} first")
    places = [path] if status else []
    if not (status and in_place(path, status)):
        places.append(folder)
    for place in places:
        if not os.access(place, os.W_OK):
            raise PefourierError(
                f"cannot write {shown(path)}: {shown(place)} is write-protected; name another"
            )


def in_place(path: str, status: os.stat_result) -> bool:
    """Whether a path is a pipe, a device or an open stream: written in place, never replaced."""
    streams = ("/dev", "/dev/fd", "/proc/self/fd")
    return not stat.S_ISREG(status.st_mode) or os.path.dirname(os.path.abspath(path)) in streams


def write_whole(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Write a file so that it is there as a whole or, after any failure, as it was before."""
    check_place(path)
    status = status_of(path)
    with os_errors("write", path):
        if status and in_place(path, status):
            with open(path, "wb") as stream:
                write(stream)
            return
        target = os.path.realpath(path)  # a link keeps naming the file it named
        remove_stale_drafts(os.path.dirname(target))
        if not any(move_draft(target, write, status is not None) for _ in range(TRIES)):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def move_draft(target: str, write: Callable[[BinaryIO], None], keep_mode: bool) -> bool:
    """Write a draft, locked until it is in the target's place; False where it could not be locked.

    Then another process has taken it for stale, since it was not locked when it was made.
    """
    from secrets import token_hex
    from shutil import copymode

    draft = os.path.join(os.path.dirname(target), f".pefourier-{token_hex(8)}")
    DRAFTS.add(draft)
    lock = -1
    try:
        lock = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, 0o666)
        if can_lock(lock) is False or os.fstat(lock).st_nlink == 0:
            return False
        with open(os.dup(lock), "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        if fcntl is None:  # Windows moves no open file
            os.close(lock)
        if keep_mode:
            copymode(target, draft)
        os.replace(draft, target)
        return True
    finally:
        with suppress(OSError):
            os.unlink(draft)
        with suppress(OSError):
            os.close(lock)
        DRAFTS.discard(draft)


def can_lock(handle: int) -> bool | None:
    """Lock a file unless somebody else has; None where the file system knows no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def remove_stale_drafts(folder: str) -> None:
    """Remove what commands that were killed have left in a folder: drafts that nobody locks."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if DRAFT_NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                remove_if_stale(entry.path)


def remove_if_stale(draft: str) -> None:
    """Remove a draft whose lock can be had; without locks, one of yesterday."""
    with suppress(OSError):  # it may be gone by now, or another person's
        handle = os.open(draft, os.O_RDWR)
        try:
            free = can_lock(handle)
            if free is None:
                free = time.time() - os.fstat(handle).st_mtime > DAY
            if free:
                os.unlink(draft)
        finally:
            os.close(handle)


def remove_drafts() -> None:
    """Remove what this process has not finished writing, before it ends."""
    for draft in list(DRAFTS):
        with suppress(OSError):
            os.unlink(draft)

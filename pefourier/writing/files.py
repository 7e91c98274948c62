"""Paths, one-line messages for system errors, and atomic writing of files."""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from pefourier.errors import PefourierError, shown, unknown
from pefourier.types import Fields

DRAFT = ".pefourier-"  # prefix of a file name while the file is written
DRAFTS: set[Path] = set()  # drafts that this process is writing


@cache  # files of the package do not change while it runs
def read_toml(path: Path) -> Fields:
    """Read a data file of the package."""
    import tomllib  # imported only by commands that need it

    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def read_section(path: Path, name: str) -> Fields:
    """Read the tables ``[name]`` and ``[name.…]`` of a data file; a whole file can take 10 ms."""
    import tomllib

    tables = path.read_text(encoding="utf-8").split("\n[")
    text = "\n[".join(["", *(table for table in tables if re.match(rf"{name}[].]", table))])
    section: Fields = tomllib.loads(text)[name]
    return section


def label(path: str) -> str:
    """Return the name of a path for messages."""
    return "standard input" if path == "-" else shown(path)


def status_of(path: str) -> os.stat_result | None:
    """Return the status of a path, following links; None if it does not exist."""
    try:
        return Path(path).stat() if path else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in the path
        raise PefourierError(f"cannot reach {shown(path)}: {reason(error)}") from error


def is_folder(path: str) -> bool:
    """Whether a path is a folder; raise if it cannot be reached."""
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


@contextmanager
def os_errors(action: str, path: str) -> Iterator[None]:
    """Report failures of the operating system in one line."""
    try:
        yield
    except OSError as error:
        raise PefourierError(f"cannot {action} {label(path)}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return the system's description of a failure, or the first line of a library's message."""
    text = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return text[:300].rstrip(".") or type(error).__name__


UNREAD = {".png", ".pdf", ".svg", ".jpg", ".jpeg", ".gif", ".html", ".py", ".md"}  # no data


def missing(path: str) -> PefourierError:
    """Return the error for a missing file, with the closest name in its folder."""
    folder, name = os.path.split(path)
    if not is_folder(folder or "."):
        return PefourierError(f"no file {shown(path)}: there is no folder {shown(folder)}")
    hint = f"There is no such file in {shown(folder or '.')}."
    return unknown("file", name, data_names(folder, name), hint)


def data_names(folder: str, name: str) -> list[str]:
    """Return the names in a folder that may be data, except one."""
    with os_errors("look into", folder or "."), os.scandir(folder or ".") as entries:
        names = [entry.name for entry in islice(entries, 10_000) if entry.name != name]
    return [name for name in names if suffix_of(name) not in UNREAD]


def inside(folder: str, name: str) -> str:
    """Return the path of a file in a folder, without normalizing the folder.

    >>> inside("./model", "config.json"), inside("", "a.npy")
    ('./model/config.json', 'a.npy')
    """
    return f"{folder}{'/' if folder and not folder.endswith('/') else ''}{name}"


def split_spec(spec: str) -> tuple[str, str]:
    """Split PATH[#PART]; if there are several ways, the longest existing path is used.

    >>> split_spec("model.safetensors#wpe.weight"), split_spec("wpe.npy")
    (('model.safetensors', 'wpe.weight'), ('wpe.npy', ''))
    """
    pieces = spec.split("#")
    for count in range(len(pieces), 1, -1):
        path = "#".join(pieces[:count])
        if path and os.path.lexists(path):
            return path, "#".join(pieces[count:])
    return pieces[0], "#".join(pieces[1:])


def suffix_of(path: str) -> str:
    """Return the suffix in lower case, with its dot; empty without a suffix."""
    name = os.path.split(path)[1].lstrip(".")
    return f".{name.rpartition('.')[2].lower()}" if "." in name else ""


def suffix_among(path: str, allowed: Collection[str]) -> str:
    """Return the suffix of a path in lower case; raise if it is not allowed."""
    suffix = suffix_of(path)
    if suffix not in allowed:
        raise unknown("suffix", suffix, allowed, f"{shown(path)} may end in {', '.join(allowed)}.")
    return suffix


def check_suffix(path: str, allowed: Collection[str]) -> str:
    """Return the suffix of an output file; raise early if the file cannot be written."""
    suffix = suffix_among(path, allowed)
    check_place(path)
    return suffix


def check_place(path: str) -> None:
    """Raise for a folder, a path in a missing folder, and a write-protected place."""
    status = status_of(path)
    folder = str(Path(os.path.realpath(path)).parent)
    if status and stat.S_ISDIR(status.st_mode):
        raise PefourierError(f"cannot write {shown(path)}: it is a folder; name a file in it")
    if not is_folder(folder):
        raise PefourierError(f"cannot write {shown(path)}: make the folder {shown(folder)} first")
    places = [path] if status else []
    if not (status and in_place(path, status)):
        places.append(folder)
    for place in places:
        if not os.access(place, os.W_OK):
            raise PefourierError(
                f"cannot write {shown(path)}: {shown(place)} is write-protected; choose another"
            )


def in_place(path: str, status: os.stat_result) -> bool:
    """Whether a path is a pipe, a device or an open stream, which is written in place."""
    folder = os.path.split(os.path.normpath(Path(path).absolute()))[0]  # without following links
    return not stat.S_ISREG(status.st_mode) or folder in ("/dev", "/dev/fd", "/proc/self/fd")


def write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically: after a failure, an existing file is unchanged."""
    from secrets import token_hex
    from shutil import copymode

    check_place(path)
    status = status_of(path)
    with os_errors("write", path):
        if status and in_place(path, status):
            with Path(path).open("wb") as stream:
                write(stream)
            return
        target = Path(os.path.realpath(path))  # a link still refers to the same file
        draft = target.with_name(f"{DRAFT}{token_hex(8)}")
        DRAFTS.add(draft)
        try:
            with draft.open("xb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            if status is not None:
                copymode(target, draft)
            draft.replace(target)
        finally:
            with suppress(OSError):
                draft.unlink()
            DRAFTS.discard(draft)


def write_text(path: str, text: str) -> None:
    """Write a text atomically."""
    write_whole(path, lambda stream: stream.write(text.encode()))


def remove_old_drafts(folders: Iterable[str | Path], moment: float) -> None:
    """Remove drafts of killed processes: files that were not written to recently."""
    for folder in folders:
        for draft in Path(folder).glob(f"{DRAFT}*"):
            with suppress(OSError):
                if draft.stat().st_mtime < moment:
                    draft.unlink()


def remove_drafts() -> None:
    """Remove the unfinished drafts of this process before it ends."""
    for draft in list(DRAFTS):
        with suppress(OSError):
            draft.unlink()

"""Paths, failures of the system in one line, and files written whole or not at all."""

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pefourier.errors import PefourierError, shown, unknown

DRAFT = ".pefourier-"  # what the name of a file begins with while it is written
DRAFTS: set[Path] = set()  # paths of those that this process is writing


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
        return Path(path).stat() if path else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in the path
        raise PefourierError(f"cannot reach {shown(path)}: {reason(error)}") from error


def is_folder(path: str) -> bool:
    """Whether a path is a folder; refuses one that cannot be reached."""
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
    """The system's description of a failure, or the first line of a library's."""
    text = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return text[:300] or type(error).__name__


UNREAD = {".png", ".pdf", ".svg", ".jpg", ".jpeg", ".gif", ".html", ".py", ".md"}  # no data


def missing(path: str) -> PefourierError:
    """The error for a file that is not there, with the nearest name in its folder."""
    folder, name = os.path.split(path)
    if not is_folder(folder or "."):
        return PefourierError(f"no file {shown(path)}: there is no folder {shown(folder)}")
    hint = f"There is no such file in {shown(folder or '.')}."
    return unknown("file", name, data_names(folder, name), hint)


def data_names(folder: str, name: str) -> list[str]:
    """The names in a folder that may be of data, but one."""
    with os_errors("look into", folder or "."), os.scandir(folder or ".") as entries:
        names = [entry.name for entry in islice(entries, 10_000) if entry.name != name]
    return [name for name in names if suffix_of(name) not in UNREAD]


def inside(folder: str, name: str) -> str:
    """The path of a file in a folder, written as the folder is, not made plain.

    >>> inside("./model", "config.json"), inside("", "a.npy")
    ('./model/config.json', 'a.npy')
    """
    return f"{folder}{'/' if folder and not folder.endswith('/') else ''}{name}"


def split_spec(spec: str) -> tuple[str, str]:
    """Path and what follows # in PATH[#PART]; of several readings the longest path that exists.

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
    """The suffix in lower case, with its dot; empty where there is none."""
    name = os.path.split(path)[1].lstrip(".")
    return f".{name.rpartition('.')[2].lower()}" if "." in name else ""


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
                f"cannot write {shown(path)}: {shown(place)} is write-protected; name another"
            )


def in_place(path: str, status: os.stat_result) -> bool:
    """Whether a path is a pipe, a device or an open stream: written in place, never replaced."""
    folder = os.path.split(os.path.normpath(Path(path).absolute()))[0]  # links not followed
    return not stat.S_ISREG(status.st_mode) or folder in ("/dev", "/dev/fd", "/proc/self/fd")


def write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that it is there as a whole or, after any failure, as it was before."""
    from secrets import token_hex
    from shutil import copymode

    check_place(path)
    status = status_of(path)
    with os_errors("write", path):
        if status and in_place(path, status):
            with Path(path).open("wb") as stream:
                write(stream)
            return
        target = Path(os.path.realpath(path))  # a link keeps naming the file it named
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


def remove_old_drafts(folders: Iterable[str | Path], moment: float) -> None:
    """Remove what a killed process had not finished: nobody has written to it since a moment."""
    for folder in folders:
        for draft in Path(folder).glob(f"{DRAFT}*"):
            with suppress(OSError):
                if draft.stat().st_mtime < moment:
                    draft.unlink()


def remove_drafts() -> None:
    """Remove what this process has not finished writing, before it ends."""
    for draft in list(DRAFTS):
        with suppress(OSError):
            draft.unlink()

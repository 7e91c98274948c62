"""Streams, signals and exit of the process.

Answers go to stdout, everything else to stderr. The first signal ends a command cleanly, the next
signal ends it immediately; both take effect when a library returns to Python.
"""

import atexit
import errno
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from os import _exit  # os._exit is blocked while user code runs, and at the end
from pathlib import Path
from types import FrameType
from typing import NoReturn

import typer

from pefourier.errors import LONGEST, PefourierError, shorten, shown
from pefourier.geometry import Progress, is_cramped
from pefourier.types import Values
from pefourier.writing.files import label, reason, remove_drafts
from pefourier.writing.text import printable

UNWRITABLE = {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT}
VERDICT = re.compile(r"^(\S.*?: |)([A-Z]+[A-Z, ]+)\.", re.MULTILINE)  # after a label, if any
LONG_WORD = re.compile(rf"\S{{{LONGEST + 1},}}")
# Variables that libraries read when they are loaded, with the number of threads.
POOLS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def say(text: str) -> None:
    """Write an answer; if the reader closes the pipe (`| head`), the command ends silently."""
    encoding = sys.stdout.encoding or "utf-8"  # other characters are escaped
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
        raise typer.Exit(0) from None


def give_up_stdout() -> None:
    """Discard the rest of the buffer, which would otherwise be written again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def is_of_stdout(error: BaseException) -> bool:
    """Whether an error came from writing to stdout; errors of files have a file name."""
    return isinstance(error, OSError) and error.filename is None and error.errno in UNWRITABLE


def note(text: str, *, quiet: bool = False, prefix: str = "pefourier: ") -> None:
    """Write a line to stderr, unless `quiet` or stderr is closed."""
    if not quiet and sys.stderr is not None:
        with suppress(OSError):
            line = LONG_WORD.sub(lambda word: shorten(word[0]), printable(text))
            print(f"{prefix}{line}", file=sys.stderr, flush=True)


def coloured(conclusion: str) -> str:
    r"""Make the verdicts of a conclusion bold, which are the first words after a label.

    >>> coloured("dft: COLLIDES. Only 64 of 80.")
    'dft: \x1b[1mCOLLIDES\x1b[0m. Only 64 of 80.'
    """
    return VERDICT.sub("\\1\x1b[1m\\2\x1b[0m.", conclusion)


def percentages(label: str, *, quiet: bool) -> Callable[[str], Progress] | None:
    """Return a function that shows progress on stderr; None if stderr is not a terminal."""
    if quiet or sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None
    return lambda phase: partial(show_share, f"{label}: {phase}")


def show_share(label: str, done: int, total: int) -> None:
    """Show the share of finished parts in a line of its own, which is removed at the end."""
    text = f"{label}, {100 * done // max(total, 1)}%" if done < total else ""
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


class Listener:
    """State of signal handling: the received signal, and whether the command has ended."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.leaving = False

    def start(self) -> None:
        """Start handling signals, except ignored ones (as under nohup)."""
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self.handle)
        if is_cramped():
            os.environ.update(dict.fromkeys(POOLS, "1"))

    def handle(self, number: int, _: FrameType | None) -> None:
        """Interrupt the command at the first signal; end the process at the next."""
        if self.came or self.leaving:
            remove_drafts()
            _exit(128 + number)
        self.came.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)


LISTENER = Listener()


def report_interrupt(number: int) -> int:
    """Report an interrupt and return the exit status."""
    if number == signal.SIGINT:
        note("interrupted")
    return 128 + number


def leave(status: int) -> NoReturn:
    """End the process with this status, without the teardown of libraries, which can hang."""
    vars(os)["_exit"] = lambda _: _exit(status)  # exit handlers cannot change it
    # exit handlers of libraries and user code
    atexit._run_exitfuncs()  # noqa: SLF001
    remove_drafts()
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe
        pass
    except OSError as error:
        note(f"cannot write standard output: {reason(error)}")
        status = status or 2
    _exit(status)


WRITTEN = ("out", "golden", "plot", "permutation", "save_models")
OF_DATA = ("dataset", "data")  # never a model
OF_FOLDERS = re.compile(r".*\.(safetensors|jsonl?|md|png|npy)")  # files written to a folder
OF_MODELS = re.compile(r"config\.json|.*\.safetensors(\.index\.json)?")  # files read from it


def refuse_overwriting(values: Values) -> None:
    """Raise if an option would replace a file that the same command reads, by any name."""
    written = {key: values[key] for key in WRITTEN if values.get(key)}
    replaced = {
        identity: key
        for key, out in written.items()
        for target in files_in(out, OF_FOLDERS) or [out]
        for identity in identities(target)
    }
    for path in files_read(values) if replaced else ():
        for key in (replaced[i] for i in identities(path) if i in replaced):
            option = f"--{key.replace('_', '-')} {shown(written[key])}"
            raise PefourierError(
                f"{option} would replace {label(path)}, which is read; choose another name"
            )


def files_read(values: Values) -> Iterator[str]:
    """Yield the files that a command may read: texts that may be paths, and files of models."""
    for key, value in values.items():
        texts = value if isinstance(value, list) else [value]
        for text in (x for x in texts if isinstance(x, str) and key not in (*WRITTEN, "title")):
            for path in (text, *(text[: mark.start()] for mark in re.finditer("[#@]", text))):
                yield path
                folder = str(Path(path).parent) if path.endswith(".json") else path
                if key not in OF_DATA:
                    yield from files_in(folder, OF_MODELS)


def files_in(folder: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the paths in a folder whose names match a pattern."""
    with suppress(OSError, ValueError), os.scandir(folder) as entries:  # ValueError: a NUL
        return [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    return []


def identities(path: str) -> Iterator[tuple[int, int]]:
    """Return identifiers of a regular file that do not depend on its name; empty for others."""
    with suppress(OSError, ValueError):  # ValueError: a closed stream
        status = os.fstat(sys.stdin.fileno()) if path == "-" else Path(path).stat()
        if stat.S_ISREG(status.st_mode):
            yield status.st_dev, status.st_ino

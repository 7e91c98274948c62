"""The process: its streams, the signals that end it, and how it ends.

Answers go to stdout, everything else to stderr. The first signal ends a command tidily, the next
one at once. Python runs a handler between two steps of its own, never while a library computes, so
the system also writes each signal into a pipe, which a thread reads (`signal.set_wakeup_fd`).
"""

import atexit
import errno
import os
import re
import signal
import sys
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from os import _exit  # `os._exit` is refused while a user's code runs
from time import monotonic
from types import FrameType
from typing import Any, NoReturn

import typer

from pefourier.errors import LONGEST, shorten
from pefourier.files import DRAFTS, reason, remove_drafts
from pefourier.geometry.threads import is_cramped
from pefourier.writing.escapes import printable

UNWRITABLE = {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT}
VERDICT = re.compile(r"^(\S.*?: |)([A-Z]+[A-Z, ]+)\.", re.MULTILINE)  # behind a label, if any
BAD = "COLLIDES|DIFFERENT|PROBABLY A MISTAKE|TOO FEW ROWS"
GOOD = "INVERTIBLE|ISOMETRIC|THE SAME|NO NEW ANGLES|SHARP|EXACT|NO SCALING NEEDED|STILL DISTINCT"
COLOURS = dict.fromkeys(BAD.split("|"), "1;31") | dict.fromkeys(GOOD.split("|"), "1;32")
LONG = 5  # seconds of a phase, from which on the rest is foretold
LONG_WORD = re.compile(rf"\S{{{LONGEST + 1},}}")
ENDING = (signal.SIGINT, signal.SIGTERM)
# What libraries read, when they are loaded, to know how many threads to start.
POOLS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
LIBRARIES = 3  # numpy, scipy and torch start a thread for each core
MOST_THREADS = 64  # that numpy starts


def say(text: str) -> None:
    """Write an answer; a reader who has had enough (`| head`) ends the command quietly."""
    encoding = sys.stdout.encoding or "utf-8"  # what it cannot write is escaped
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
        raise typer.Exit(0) from None


def give_up_stdout() -> None:
    """Send what is left in the buffer nowhere; it would be written at the end again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def is_of_stdout(error: BaseException) -> bool:
    """Whether an error is that nothing can be written to stdout; errors of files name them."""
    unnamed = isinstance(error, OSError) and error.filename is None
    return unnamed and error.errno in UNWRITABLE


def note(text: str, quiet: bool = False) -> None:
    """Write a line on stderr for the person at the terminal, if anybody reads it."""
    if not quiet and sys.stderr is not None:
        with suppress(OSError):
            line = LONG_WORD.sub(lambda word: shorten(word[0]), printable(text))
            print(f"pefourier: {line}", file=sys.stderr, flush=True)


def paste(code: str) -> None:
    """Write lines of Python on stderr, to be pasted."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(*map(printable, code.splitlines()), sep="\n", file=sys.stderr, flush=True)


def takes_colours(stream: Any) -> bool:
    """Whether a stream is a terminal on which colours are welcome."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(conclusion: str) -> str:
    r"""A conclusion whose verdicts, the first words behind a label, stand out on a terminal.

    >>> coloured("dft: COLLIDES. Only 64 of 80.")
    'dft: \x1b[1;31mCOLLIDES\x1b[0m. Only 64 of 80.'
    """
    return VERDICT.sub(lambda m: f"{m[1]}\x1b[{COLOURS.get(m[2], '1')}m{m[2]}\x1b[0m.", conclusion)


def draws_dots(stream: Any) -> bool:
    """Whether a stream is a terminal whose letters include the dots of a chart."""
    return stream.isatty() and "utf" in (stream.encoding or "utf-8").lower()


def percentages(label: str, quiet: bool) -> Callable[[str], Callable[[int, int], None]] | None:
    """What shows on stderr how much of a phase of the work is done; None where nobody looks."""
    if quiet or sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None

    def begin(phase: str) -> Callable[[int, int], None]:
        passes, last, begun = 1, 0, monotonic()

        def show(done: int, total: int) -> None:
            nonlocal passes, last, begun
            if done <= last:  # the codes are walked through again
                passes, begun = passes + 1, monotonic()
            last, spent = done, monotonic() - begun
            again = f", pass {passes}" if passes > 1 else ""
            text = f"{label}: {phase}{again}, {100 * done // max(total, 1)} %"
            if spent > LONG:
                text += f", about {spent * (total - done) / done:.0f} s left"
            print(f"\r\x1b[K{text if done < total else ''}", end="", file=sys.stderr, flush=True)

        return show

    return begin


class Listener:
    """Which signals have come, and whether the command is over, so that the next ends all."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.leaving = False
        self.masks: dict[int, set[int]] = {}  # of each thread that forks

    def start(self) -> None:
        """Handle signals from here on, those that are ignored (as under nohup) excepted."""
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self.handle)
        sys.unraisablehook = self.end_where_lost
        if os.name == "posix":
            os.register_at_fork(
                before=self.hold, after_in_parent=self.let_go, after_in_child=self.stop
            )
            if is_cramped() or not self.start_watching() or not can_start_threads(most_threads()):
                os.environ.update(dict.fromkeys(POOLS, "1"))

    def start_watching(self) -> bool:
        """Start the thread that ends the process at the second signal; False where none starts."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            start_new_thread(self.watch, (reader,))
        except RuntimeError:
            return False
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        return True

    def hold(self) -> None:
        """Let signals wait: one that comes to a new process is not for this one's handlers."""
        self.masks[get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    def let_go(self) -> None:
        """Take signals again as before the fork, with those that wait."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.masks.pop(get_ident()))

    def stop(self) -> None:
        """Leave signals to Python, in a process that a user's code forks: it has no drafts."""
        signal.set_wakeup_fd(-1)
        DRAFTS.clear()
        for number in ENDING:
            if signal.getsignal(number) == self.handle:
                ends = number == signal.SIGTERM
                signal.signal(number, signal.SIG_DFL if ends else signal.default_int_handler)
        self.let_go()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the command at the first signal; end the process at any other."""
        if self.came or self.leaving:
            end_at_once(number)
        self.came.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def watch(self, reader: int) -> None:
        """End the process at the second signal, whatever the main thread is busy with."""
        came = 0
        while True:
            number = os.read(reader, 1)[0]
            came += number in ENDING
            if number in ENDING and (came > 1 or self.leaving):
                end_at_once(number)

    def end_where_lost(self, lost: Any) -> None:
        """End the process where Python could not let the first signal interrupt the command."""
        if not self.came or not isinstance(lost.exc_value, KeyboardInterrupt | SystemExit):
            return sys.__unraisablehook__(lost)
        end_at_once(self.came[0])


LISTENER = Listener()


def most_threads() -> int:
    """How many threads the libraries start on this machine, as far as it is worth a try."""
    return min(LIBRARIES * (os.cpu_count() or 1), MOST_THREADS)


def can_start_threads(count: int) -> bool:
    """Whether the system lets this process have so many more threads at once."""
    gate = allocate_lock()
    with gate:
        try:
            for _ in range(count):
                start_new_thread(wait_for, (gate,))
        except RuntimeError:
            return False
    return True


def wait_for(gate: Any) -> None:
    """Wait until a lock has been free."""
    with gate:
        pass


def end_at_once(number: int) -> NoReturn:
    """End the process by a signal, with nothing left of what it was writing."""
    remove_drafts()
    _exit(128 + number)


def tell_of_interrupt(number: int) -> int:
    """Tell the person at the terminal of an interrupt; the exit status."""
    if number == signal.SIGINT:
        note("interrupted")
    return 128 + number


def leave(status: int) -> NoReturn:
    """End the process with this status, without the teardown in which libraries can hang."""
    atexit._run_exitfuncs()  # what libraries and a user's code want done at the end
    remove_drafts()
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:  # a reader who has had enough
        pass
    except OSError as error:
        note(f"cannot write standard output: {reason(error)}")
        status = status or 2
    _exit(status)

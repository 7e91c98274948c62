"""Signals: the first ends a command tidily, the next one at once; and how the process ends.

Python runs a handler between two steps of its own, never while a library computes. So that the
second signal ends the process then too, the system writes each one into a pipe, which a thread
reads (`signal.set_wakeup_fd`).
"""

import atexit
import os
import signal
import sys
from _thread import allocate_lock, get_ident, start_new_thread
from os import _exit  # `os._exit` is refused while a user's code runs
from types import FrameType
from typing import Any, NoReturn

from pefourier.cli.streams import note
from pefourier.files import DRAFTS, reason, remove_drafts
from pefourier.geometry.threads import is_cramped

ENDING = (signal.SIGINT, signal.SIGTERM)
# What libraries read, when they are loaded, to know how many threads to start.
POOLS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
LIBRARIES = 3  # numpy, scipy and torch start a thread for each core
MOST_THREADS = 64  # that numpy starts


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

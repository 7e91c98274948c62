"""What is going on: a bar on a terminal, notes elsewhere, nothing where nobody takes notes."""

import sys
import time
from collections.abc import Callable
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

LINE_EVERY = 10.0  # seconds between notes
Note = Callable[[str], None]  # shows a person a line while training goes on


class Reporter:
    """Counts member-epochs of a grid and says how far it is."""

    def __init__(self, total: int, windows: int, ranks: int, show) -> None:
        self.total, self.windows, self.show = total, windows, show
        self.epochs = 0  # at most, of the stack in training
        self.ranks = ranks  # at work, all of them as fast as this one
        self.after_epoch: Callable[[], None] = lambda: None  # what else an epoch is an occasion for
        self.done, self.began, self.trained = 0, time.perf_counter(), 0
        self.shown = 0.0  # share that was last shown

    def skip(self, member_epochs: int) -> None:
        """Count what an earlier run or another rank has finished, or what patience spares."""
        self.done += member_epochs

    def count_epoch(self, number: int, members: int, loss: float) -> None:
        """An epoch of a stack is over."""
        self.done += members
        self.trained += members
        self.after_epoch()
        seconds = time.perf_counter() - self.began
        rate = self.ranks * self.trained / seconds
        left = (self.total - self.done) / rate
        now = f"{members} members · epoch {number}/{self.epochs} · loss {loss:.3f}"
        self.show(self, f"{now} · {rate * self.windows:,.0f} examples/s", left)
        self.shown = self.share

    def finish(self) -> None:
        """All is done, though runs may have ended before their last epoch."""
        if self.trained and self.shown < 1:
            self.done = self.total
            self.show(self, f"took {clock(time.perf_counter() - self.began)}", 0.0)

    @property
    def share(self) -> float:
        """How much of the grid is done."""
        return self.done / max(self.total, 1)


def clock(seconds: float) -> str:
    """Minutes and seconds.

    >>> clock(75.2)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def duration(seconds: float) -> str:
    """A time that is foretold, in the unit that suits it.

    >>> duration(75.2), duration(1234.5), duration(20000)
    ('75 s', '21 min', '5.6 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@contextmanager
def report_progress(member_epochs: int, windows: int, ranks: int, note: Note | None):
    """A `Reporter` for members that see `windows` training windows in each of their epochs."""
    sizes = member_epochs, windows, ranks
    if note is None:
        yield Reporter(*sizes, lambda *_: None)
    elif sys.stderr is not None and sys.stderr.isatty():
        with bar() as (progress, task):

            def show(reporter, now, left) -> None:
                progress.update(task, completed=100 * reporter.share, now=now)

            reporter = Reporter(*sizes, show)
            yield reporter
            reporter.finish()
    else:
        reporter = Reporter(*sizes, notes_of_progress(note))
        yield reporter
        reporter.finish()


@contextmanager
def bar():
    """A bar with what is going on and the time left."""
    whole = Column(no_wrap=True, min_width=5)
    columns = (
        BarColumn(10),
        TextColumn("{task.percentage:>3.0f} %", table_column=whole),
        TimeRemainingColumn(compact=True, table_column=whole),
        TextColumn("left"),
        TextColumn("· {task.fields[now]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield progress, progress.add_task("training", total=100, now="")


def notes_of_progress(note: Note):
    """A note every ten seconds, and of the end where there was one before."""
    last, noted = time.perf_counter(), False

    def show(reporter, now, left) -> None:
        nonlocal last, noted
        if time.perf_counter() - last >= LINE_EVERY or (noted and reporter.share >= 1):
            last, noted = time.perf_counter(), True
            note(f"{100 * reporter.share:.0f} % · {now} · {clock(left)} left")

    return show

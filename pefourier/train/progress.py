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
    """Counts steps of members and says how far all of them are."""

    def __init__(self, total: int, windows: int, ranks: int, show) -> None:
        self.total, self.windows, self.show = total, windows, show
        self.steps = 0  # at most, of the stack in training
        self.ranks = ranks  # at work, all of them as fast as this one
        self.after_look: Callable[[], None] = lambda: None  # what else a look is an occasion for
        self.done, self.began, self.trained = 0, time.perf_counter(), 0
        self.counted = 0  # steps of the stack in training
        self.shown = 0.0  # share that was last shown

    def begin(self, steps: int) -> None:
        """A stack of so many steps at most begins."""
        self.steps, self.counted = steps, 0

    def skip(self, member_steps: int) -> None:
        """Count what an earlier run or another rank has finished, or what patience spares."""
        self.done += member_steps

    def count_steps(self, steps: int, members: int, loss: float) -> None:
        """A stack has taken so many steps."""
        new, self.counted = steps - self.counted, steps
        self.done += members * new
        self.trained += members * new
        self.after_look()
        seconds = time.perf_counter() - self.began
        rate = self.ranks * self.trained / seconds
        seconds_left = (self.total - self.done) / rate
        now = f"{members} members · step {steps}/{self.steps} · loss {loss:.3f}"
        self.show(self, f"{now} · {rate * self.windows:,.0f} examples/s", seconds_left)
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


@contextmanager
def report_progress(member_steps: int, windows: int, ranks: int, note: Note | None):
    """A `Reporter` for members that see `windows` training windows in each of their steps."""
    sizes = member_steps, windows, ranks
    if note is None:
        yield Reporter(*sizes, lambda *_: None)
    elif sys.stderr is not None and sys.stderr.isatty():
        with bar() as (progress, task):

            def show(reporter, now, seconds) -> None:
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
    unwrapped = Column(no_wrap=True, min_width=5)
    columns = (
        BarColumn(10),
        TextColumn("{task.percentage:>3.0f} %", table_column=unwrapped),
        TimeRemainingColumn(compact=True, table_column=unwrapped),
        TextColumn("left"),
        TextColumn("· {task.fields[now]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield progress, progress.add_task("training", total=100, now="")


def notes_of_progress(note: Note):
    """A note every ten seconds, and of the end where there was one before."""
    last, noted = time.perf_counter(), False

    def show(reporter, now, seconds) -> None:
        nonlocal last, noted
        if time.perf_counter() - last >= LINE_EVERY or (noted and reporter.share >= 1):
            last, noted = time.perf_counter(), True
            note(f"{100 * reporter.share:.0f} % · {now} · {clock(seconds)} left")

    return show

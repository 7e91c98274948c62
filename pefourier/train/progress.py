"""What is going on: a bar on a terminal, notes elsewhere, nothing where nobody takes notes."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

LINE_EVERY = 10.0  # seconds between notes
Note = Callable[[str], None]  # shows a person a line while training goes on


@dataclass(eq=False)
class Reporter:
    """Counts steps of members and says how far all of them are."""

    total: int  # steps of all members
    windows: int  # that a member sees in a step
    ranks: int  # at work, all of them as fast as this one
    show: Callable[[float, str, float], None] | None = None  # share done, now, seconds left
    interval: float = 0.0  # seconds between two of these

    def __post_init__(self) -> None:
        self.after_look: Callable[[], None] = lambda: None  # what else a look is an occasion for
        self.done = self.trained = self.steps = self.counted = 0
        self.began = self.shown = time.perf_counter()

    def begin(self, steps: int) -> None:
        """A stack of so many steps at most begins."""
        self.steps, self.counted = steps, 0

    def skip(self, member_steps: int) -> None:
        """Count what an earlier run or another rank has finished, or what patience spares."""
        self.done += member_steps

    def count_steps(self, steps: int, members: int, loss: float) -> None:
        """A stack, or a part of it, has taken so many steps."""
        new = members * (steps - (self.counted if steps > self.counted else 0))
        self.counted, self.done, self.trained = steps, self.done + new, self.trained + new
        self.after_look()
        moment = time.perf_counter()
        if self.show is not None and moment - self.shown >= self.interval:
            self.shown, rate = moment, self.ranks * self.trained / (moment - self.began)
            now = f"{members} members · step {steps}/{self.steps} · loss {loss:.3f}"
            now = f"{now} · {rate * self.windows:,.0f} examples/s"
            self.show(self.done / max(self.total, 1), now, (self.total - self.done) / rate)


@contextmanager
def report_progress(total: int, windows: int, ranks: int, note: Note | None) -> Iterator[Reporter]:
    """A `Reporter` of so many steps of members that see `windows` windows in each of them."""
    if note is not None and sys.stderr is not None and sys.stderr.isatty():
        columns = (
            BarColumn(10),
            TextColumn("{task.percentage:>3.0f} %", table_column=Column(no_wrap=True, min_width=5)),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
            TextColumn("left · {task.fields[now]}", table_column=Column(no_wrap=True)),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("training", total=1.0, now="")
            update = progress.update
            yield Reporter(
                total, windows, ranks, lambda s, now, _: update(task, completed=s, now=now)
            )
        return

    def show(share: float, now: str, seconds: float) -> None:
        clock = f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
        note(f"{100 * share:.0f} % · {now} · {clock} left")

    yield Reporter(total, windows, ranks, show if note is not None else None, LINE_EVERY)

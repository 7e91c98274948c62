"""What is going on: one line on a terminal, notes elsewhere, nothing where nobody takes notes."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

LINE_EVERY = 10.0  # seconds between notes
Note = Callable[[str], None]  # shows a person a line while training goes on


@dataclass(eq=False)
class Reporter:
    """Counts steps of members and says how far all of them are."""

    total: int  # steps of all members
    windows: int  # that a member sees in a step
    ranks: int  # at work, all of them as fast as this one
    note: Note | None = None
    interval: float = 0.0  # seconds between two notes

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
        if self.note is not None and moment - self.shown >= self.interval:
            self.shown, rate = moment, self.ranks * self.trained / (moment - self.began)
            minutes, seconds = divmod(int((self.total - self.done) / rate), 60)
            self.note(
                f"{100 * self.done / max(self.total, 1):.0f} % · {members} members · step {steps}/"
                f"{self.steps} · loss {loss:.3f} · {rate * self.windows:,.0f} examples/s · "
                f"{minutes}:{seconds:02d} left"
            )


@contextmanager
def report_progress(total: int, windows: int, ranks: int, note: Note | None) -> Iterator[Reporter]:
    """A `Reporter` of so many steps of members that see `windows` windows in each of them."""
    if note is None or sys.stderr is None or not sys.stderr.isatty():
        yield Reporter(total, windows, ranks, note, LINE_EVERY)
        return
    with Console(stderr=True).status("training") as status:
        yield Reporter(total, windows, ranks, lambda line: status.update(escape(line)))

"""Progress reports: one line on a terminal, notes elsewhere, nothing without a recipient."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

LINE_EVERY = 10.0  # seconds between notes
Note = Callable[[str], None]  # shows a line to the user during training


@dataclass(eq=False)
class Reporter:
    """Reports the progress of the stacks of a comparison."""

    ensembles: int  # unfinished stacks of all processes that share them
    note: Note | None = None
    interval: float = 0.0  # seconds between two notes

    def __post_init__(self) -> None:
        self.after_look: Callable[[], None] = lambda: None  # called after each look
        self.finished = self.steps = 0  # finished stacks, and the step limit of the current stack
        self.began = self.shown = time.perf_counter()

    def count_steps(self, steps: int, members: int, loss: float) -> None:
        """Report the step that a stack, or a part of it, has reached."""
        self.after_look()
        moment = time.perf_counter()
        if self.note is not None and moment - self.shown >= self.interval:
            share = min(1.0, (self.finished + steps / self.steps) / max(self.ensembles, 1))
            minutes, seconds = divmod(round((moment - self.began) * (1 / share - 1)), 60)
            self.shown = moment
            self.note(
                f"{100 * share:.0f}% · {members} members · step {steps}/{self.steps} · loss "
                f"{loss:.3f} · {minutes}:{seconds:02d} left"
            )


@contextmanager
def report_progress(ensembles: int, note: Note | None) -> Iterator[Reporter]:
    """Yield a `Reporter` for a number of stacks: one line on a terminal, notes elsewhere."""
    if note is None or sys.stderr is None or not sys.stderr.isatty():
        yield Reporter(ensembles, note, LINE_EVERY)
        return
    with Console(stderr=True).status("training") as status:
        yield Reporter(ensembles, lambda line: status.update(escape(line)))

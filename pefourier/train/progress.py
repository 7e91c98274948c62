"""What is going on: a bar on a terminal, notes elsewhere, nothing where nobody takes notes."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from torch import Tensor

from pefourier.train.request import Tuning

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


def is_code(name: str) -> bool:
    """Whether a parameter is one of codes."""
    return name.startswith("codes.")


class Dropout:
    """Drops from (M, …) in training, for each member its own share; the rest is scaled up.

    On a processor what drops is drawn for each member from its key, the step and the layer of
    dropout, so that it does not depend on who stands beside it; elsewhere by torch's generator.
    """

    def __init__(self, shares: Sequence[float], keys: Sequence[int], device: torch.device) -> None:
        self.share = torch.tensor(shares, dtype=torch.float32, device=device)
        self.keys, self.step, self.site = keys, 0, 0
        self.common_share = shares[0] if len({*shares}) == 1 else None
        self.generator = torch.Generator()

    def begin(self, step: int) -> "Dropout":
        """Begin the forward pass of a step."""
        self.step, self.site = step, 0
        return self

    def __call__(self, x: Tensor) -> Tensor:
        """Drop from x (M, …)."""
        self.site += 1
        share = self.share.view(-1, *(1,) * (x.dim() - 1))
        if x.device.type == "cpu":
            uniform = torch.empty(x.shape)
            for member, key in zip(uniform, self.keys, strict=True):
                seed = (key * 1_000_003 + self.step) * 64 + self.site
                member.uniform_(generator=self.generator.manual_seed(seed % 2**63))
        elif self.common_share is not None:
            return torch.native_dropout(x, self.common_share, train=True)[0]  # one kernel
        else:
            uniform = torch.rand(x.shape, device=x.device)
        return x * ((uniform >= share) / (1 - share)).to(x.dtype)


class Pace:
    """Shortens the steps of an optimizer that goes at the largest rate."""

    def __init__(self, tunings: Sequence[Tuning], warm_up: int, count: Tensor) -> None:
        self.share = {}
        for codes in (False, True):
            rates = torch.tensor([tuning.rate_of(codes) for tuning in tunings], dtype=torch.float64)
            self.share[codes] = (rates / rates.max()).to(count.device)
        decays = [tuning.rate * tuning.weight_decay for tuning in tunings]
        self.decay = torch.tensor(decays, dtype=torch.float64, device=count.device)
        self.warm_up, self.count = warm_up, count  # in steps; steps taken

    @staticmethod
    def is_needed(tunings: Sequence[Tuning], warm_up: int) -> bool:
        """Whether members go otherwise than Adam at one rate."""
        one_rate = len({(tuning.rate, tuning.rate_of(True)) for tuning in tunings}) == 1
        return bool(warm_up) or not one_rate or any(tuning.weight_decay for tuning in tunings)

    @torch.no_grad()
    def shorten(self, step: Callable[[], object], parameters: Mapping[str, Tensor]) -> None:
        """Take a step of the optimizer, and back."""
        before = {name: p.detach().clone() for name, p in parameters.items()}
        with torch.enable_grad():
            step()
        warm = ((self.count + 1) / max(self.warm_up, 1)).clamp(max=1.0)
        decay = self.decay * warm
        for name, p in parameters.items():
            shape = (-1,) + (1,) * (p.dim() - 1)
            share = self.share[is_code(name)] * warm
            p.copy_(torch.lerp(before[name], p, share.view(shape).to(p.dtype)))
            if name.endswith(".w"):
                p.sub_(before[name] * decay.view(shape).to(p.dtype))

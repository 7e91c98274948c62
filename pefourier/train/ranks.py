"""Several processes at one grid, on one machine or many: who takes what, and who has what.

Where torchrun, or MASTER_ADDR and MASTER_PORT, say where to meet, ranks form a process group of
torch.distributed (gloo) and share nothing but its store; `train.processes` starts its own. Rank 0
plans; every rank takes the next stack from a counter, and hands finished rows and traces to rank 0,
which alone writes the folder: no common file system is needed. A rank whose heart has not beaten
for `--rank-timeout` seconds is gone: what it took and did not finish is taken by the others.

Ranks that are told RANK and WORLD_SIZE alone, such as jobs of an array that start when there is
room, share a folder: each has a fixed share of the stacks, and its own file of results and lock
(`train.store`). A group is no way for them, which would have to start together and to know an
address; nor is a folder the way of machines that share none. So there are these two.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from pefourier.errors import PefourierError
from pefourier.train.schema import Row

LOOK = 0.1  # seconds between looks at what others have done
BEATS = 5  # of a heart, within the time after which it counts as gone
FAREWELL = 10.0  # seconds that rank 0, when all is done, gives others to read it
RESTARTS = "TORCHELASTIC_RESTART_COUNT"


def meets_in_group(ranks: int) -> bool:
    """Whether ranks are told where to meet; without that they meet in a folder."""
    return ranks > 1 and {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def was_restarted() -> bool:
    """Whether torchrun has begun this group anew after a failure."""
    return os.environ.get(RESTARTS, "0") not in ("", "0")


@dataclass(eq=False)
class Group:
    """The ranks at work, seen from one of them."""

    rank: int
    ranks: int
    timeout: float  # seconds
    store: Any  # torch.distributed.Store
    has_ended: Callable[[int], bool] = lambda rank: False  # a rank that this one can see

    def __post_init__(self) -> None:
        self.beats: dict[int, tuple[str, float]] = {}  # last one seen of each rank, and when
        self.taken: set[int] = set()  # finished stacks whose rows rank 0 has

    def publish(self, plan: Mapping[str, Any]) -> None:
        """Tell the others what there is to do."""
        self.store.set("plan", json.dumps(plan))

    def plan(self) -> dict[str, Any]:
        """What rank 0 has planned."""
        try:
            self.store.wait(["plan"], timedelta(seconds=self.timeout))
        except RuntimeError as error:  # DistError is one, and that of a store in a file
            raise PefourierError(
                f"rank {self.rank}: rank 0 has planned nothing within {self.timeout:g} s; see what "
                "it says, or give a longer --rank-timeout"
            ) from error
        return json.loads(self.store.get("plan"))

    def claims(self, total: int) -> Iterator[int]:
        """Numbers of stacks to be trained by this rank, until all are finished."""
        while (number := self.store.add("next", 1) - 1) < total:
            self.store.set(f"claim/{number}", str(self.rank))
            yield number
        waiting: dict[int, float] = {}
        while missing := [n for n in range(total) if not self.store.check([f"finished/{n}"])]:
            for number in missing:
                owner = self.owner(number, waiting)
                if owner is None:
                    continue
                own = str(self.rank)
                if self.store.compare_set(f"claim/{number}", owner, own).decode() == own:
                    yield number
            time.sleep(LOOK)

    def owner(self, number: int, waiting: dict[int, float]) -> str | None:
        """Who took a stack and is gone; "" where nobody did in time, None where it is at work."""
        if self.store.check([f"claim/{number}"]):
            owner = self.store.get(f"claim/{number}").decode()
            return owner if int(owner) != self.rank and self.is_gone(int(owner)) else None
        since = waiting.setdefault(number, time.monotonic())
        return "" if time.monotonic() - since > self.timeout else None

    def is_gone(self, rank: int) -> bool:
        """Whether a rank has ended, or its heart has not beaten for as long as it may."""
        if self.has_ended(rank):
            return True
        beat = self.store.get(f"beat/{rank}").decode() if self.store.check([f"beat/{rank}"]) else ""
        seen, since = self.beats.setdefault(rank, (beat, time.monotonic()))
        if seen != beat:
            self.beats[rank] = beat, time.monotonic()
            return False
        return time.monotonic() - since > self.timeout

    def finish(self, number: int, rows: Sequence[Row], traces: Sequence[bytes]) -> None:
        """Say that a stack is finished, and hand its rows and traces to rank 0."""
        if self.rank:
            for place, trace in enumerate(traces):
                self.store.set(f"trace/{number}/{place}", trace)
            self.store.set(f"rows/{number}", json.dumps(list(rows)))
        else:
            self.taken.add(number)
        self.store.set(f"finished/{number}", "")

    def arrived(self, total: int) -> Iterator[tuple[int, list[Row], list[bytes]]]:
        """Stacks, with rows and traces, that others have handed over since the last look."""
        for number in sorted(set(range(total)) - self.taken):
            if not self.store.check([f"finished/{number}"]):
                continue
            self.taken.add(number)
            rows = json.loads(self.store.get(f"rows/{number}"))
            names = [f"trace/{number}/{place}" for place in range(len(rows))]
            traces = [self.store.get(name) for name in names if self.store.check([name])]
            for name in (f"rows/{number}", *names):
                self.store.delete_key(name)
            yield number, rows, traces


@contextmanager
def join_group(rank: int, ranks: int, timeout: float) -> Iterator[Group]:
    """Meet the other ranks; leave when this one is done."""
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    except (dist.DistError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise PefourierError(
            f"rank {rank} of {ranks} has not met the others at {where} within {timeout:g} s; start "
            "every rank (torchrun does), see that they reach it, or give a longer --rank-timeout"
        ) from error
    try:
        with at_work(
            Group(rank, ranks, timeout, dist.distributed_c10d._get_default_store())
        ) as own:
            yield own
            part(own)
    finally:
        dist.destroy_process_group()


@contextmanager
def at_work(group: Group) -> Iterator[Group]:
    """Let the heart of this rank beat while it works."""
    ended = threading.Event()
    heart = threading.Thread(target=beat, args=(group, ended), daemon=True)
    heart.start()
    try:
        yield group
    except dist.DistError as error:
        raise PefourierError(
            f"rank {group.rank}: the other ranks are gone ({' '.join(str(error).split())[:100]}); "
            "what rank 0 has written is kept, --resume goes on"
        ) from error
    finally:
        ended.set()
        heart.join()


def beat(group: Group, ended: threading.Event) -> None:
    """Beat until the work is done, or nobody is there to hear it."""
    count = 0
    while not ended.is_set():
        try:
            group.store.set(f"beat/{group.rank}", str(count))
        except RuntimeError:  # DistError is one
            return
        count += 1
        ended.wait(group.timeout / BEATS)


def part(group: Group) -> None:
    """Say goodbye; rank 0, who may keep the store, waits for the others for a while."""
    group.store.set(f"left/{group.rank}", "")
    until = time.monotonic() + (FAREWELL if group.rank == 0 else 0)
    others = [f"left/{rank}" for rank in range(1, group.ranks)]
    while time.monotonic() < until and not group.store.check(others):
        time.sleep(LOOK)

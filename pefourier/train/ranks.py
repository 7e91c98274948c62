"""Parallel processes of one comparison: distribution of stacks and collection of results.

Ranks started by torchrun, or with MASTER_ADDR and MASTER_PORT set, meet in the store of
torch.distributed's rendezvous, without a process group. Rank 0 plans; every rank takes the next
stack from a counter and sends finished rows and traces to rank 0, the only rank that writes the
folder, so no shared file system is needed. --processes starts such ranks on this machine with
torch.distributed's launcher.

Ranks with only RANK and WORLD_SIZE set, such as jobs of an array, share a folder: rank i trains the
stacks whose number is i modulo the number of ranks. Each rank writes a separate file of results,
and the last to finish writes the summary.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from os import _exit  # `os._exit` is forbidden while user code runs
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from pefourier.errors import PefourierError
from pefourier.types import Fields, Values
from pefourier.writing.text import printable

Result = TypeVar("Result")
LOOK = 0.1  # seconds between checks of the other ranks
TIMEOUT = 300.0  # seconds that ranks wait for one another


def read_rank() -> tuple[int, int]:
    """Read this process's rank and the number of ranks from the environment."""
    numbers = [os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")]
    rank, ranks = (int(n) if re.fullmatch("[0-9]{1,9}", n) else -1 for n in numbers)
    if not 0 <= rank < ranks:
        raise PefourierError(
            f"RANK={printable(numbers[0])} must be a whole number from 0 to below "
            f"WORLD_SIZE={printable(numbers[1])}; unset both, or let torchrun set them"
        )
    return rank, ranks


def has_meeting_point(ranks: int) -> bool:
    """Whether ranks have an address to meet at; otherwise they share a folder."""
    return ranks > 1 and {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


@dataclass(eq=False)
class Group:
    """The group of all ranks, as seen from one rank."""

    rank: int
    ranks: int
    store: Any  # torch.distributed.Store
    finished: set[int] = field(default_factory=set)  # finished stacks whose rows rank 0 has

    def publish(self, plan: Values) -> None:
        """Publish the plan to other ranks."""
        self.store.set("plan", json.dumps(plan))

    def plan(self) -> Fields:
        """Return the plan of rank 0."""
        try:
            self.store.wait(["plan"], timedelta(seconds=TIMEOUT))
        except RuntimeError as error:  # includes DistError
            raise PefourierError(
                f"rank {self.rank}: no plan from rank 0 in {TIMEOUT:g} s; check its messages"
            ) from error
        plan: Fields = json.loads(self.store.get("plan"))
        return plan

    def claims(self, total: int) -> Iterator[int]:
        """Claim stacks for this rank; yield their numbers."""
        while (number := self.store.add("next", 1) - 1) < total:
            yield number

    def finish(self, number: int, rows: Sequence[Values], traces: Sequence[bytes]) -> None:
        """Mark a stack as finished, and send its rows and traces to rank 0."""
        if self.rank == 0:
            self.finished.add(number)
        else:
            texts = [b64encode(trace).decode() for trace in traces]
            self.store.set(f"finished/{number}", json.dumps([list(rows), texts]))

    def fail(self, message: str) -> None:
        """Report that this rank ends before its work is done."""
        self.store.set("failed", message)

    def arrived(self, total: int) -> Iterator[tuple[int, list[Fields], list[bytes]]]:
        """Yield stacks, with rows and traces, received from other ranks since the last call."""
        for number in sorted(set(range(total)) - self.finished):
            if not self.store.check([f"finished/{number}"]):
                continue
            self.finished.add(number)
            rows, texts = json.loads(self.store.get(f"finished/{number}"))
            self.store.delete_key(f"finished/{number}")
            yield number, rows, [b64decode(text) for text in texts]

    def wait_for_all(self, total: int, take: Callable[[], None]) -> None:
        """Collect results of other ranks on rank 0 until all stacks are finished."""
        since, count = time.monotonic(), -1
        while len(self.finished) < total:
            take()
            if len(self.finished) > count:
                since, count = time.monotonic(), len(self.finished)
            if self.store.check(["failed"]):
                raise PefourierError(self.store.get("failed").decode())
            if time.monotonic() - since > TIMEOUT:
                raise PefourierError(
                    f"{total - count} of {total} stacks are unfinished, and no rank has finished a "
                    f"stack for {TIMEOUT:g} s; finished runs are kept, continue with --resume"
                )
            time.sleep(LOOK)

    def leave(self) -> None:
        """Leave the group; rank 0, which may hold the store, waits for other ranks for a while."""
        self.store.set(f"left/{self.rank}", "")
        until = time.monotonic() + (TIMEOUT if self.rank == 0 else 0)
        goodbyes = [f"left/{rank}" for rank in range(1, self.ranks)]
        while time.monotonic() < until and not self.store.check(goodbyes):
            time.sleep(LOOK)


@contextmanager
def join_group(rank: int, ranks: int) -> Iterator[Group]:
    """Join the other ranks, and leave at the end of the context."""
    from torch.distributed.rendezvous import rendezvous

    try:
        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=TIMEOUT)))
    except (dist.DistError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise PefourierError(
            f"rank {rank} of {ranks} has not reached the others at {where} within {TIMEOUT:g} s; "
            "start every rank (torchrun does), and check the network"
        ) from error
    group = Group(rank, ranks, store)
    try:
        yield group
        group.leave()
    except PefourierError as error:
        group.fail(str(error))
        raise
    except dist.DistError as error:
        raise PefourierError(
            f"rank {rank}: the other ranks are gone ({' '.join(str(error).split())[:100]}); "
            "results written by rank 0 are kept, continue with --resume"
        ) from error


def launch(count: int, work: Callable[[], Result]) -> Result:
    """Run `work` on several ranks on this machine; return its result on rank 0, or its error."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id="pefourier",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=LOOK,
        start_method="spawn",
    )
    threads = max(1, torch.get_num_threads() // count)
    handlers = {code: signal.getsignal(code) for code in (signal.SIGINT, signal.SIGTERM)}
    try:
        answers = elastic_launch(config, take_part)(os.getpid(), threads, work)
    except ChildFailedError as error:
        raise PefourierError(
            f"a worker process ended early ({len(error.failures)} of {count}); finished runs are "
            "kept, continue with --resume; --processes 1 starts no workers"
        ) from error
    except SignalException as error:
        raise KeyboardInterrupt from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    result: Result | PefourierError = answers[0]
    if isinstance(result, PefourierError):
        raise result
    return result


def take_part(parent: int, threads: int, work: Callable[[], Result]) -> Result | PefourierError:
    """Run `work` as a rank started by `launch`; the rank ends with its parent."""
    threading.Thread(target=leave_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(threads)
    try:
        return work()
    except PefourierError as error:
        return error
    except KeyboardInterrupt:
        _exit(130)


def leave_with(parent: int) -> None:
    """End this process when its parent ends."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    sys.stderr.flush()
    _exit(1)

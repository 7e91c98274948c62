"""Several processes at one comparison: who takes what, and who has what.

Ranks that torchrun starts, or that are told MASTER_ADDR and MASTER_PORT, meet in the store of
torch.distributed's rendezvous; no process group is formed. Rank 0 plans; every rank takes the next
stack from a counter, and hands finished rows and traces to rank 0, which alone writes the folder:
no common file system is needed. --processes has torch.distributed's launcher start such ranks here.

Ranks that are told RANK and WORLD_SIZE alone, such as jobs of an array, share a folder: stack
number i is that of rank i modulo their number, each writes a file of results of its own, and the
last to finish sums up.
"""

import json
import os
import re
import signal
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from os import _exit  # `os._exit` is refused while a user's code runs
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from pefourier.errors import PefourierError
from pefourier.writing.text import printable

Result = TypeVar("Result")
LOOK = 0.1  # seconds between looks at what others have done
TIMEOUT = 300.0  # seconds that ranks wait for one another


def read_rank() -> tuple[int, int]:
    """This process's rank and the number of ranks, from the environment."""
    numbers = [os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")]
    rank, ranks = (int(n) if re.fullmatch("[0-9]{1,9}", n) else -1 for n in numbers)
    if not 0 <= rank < ranks:
        raise PefourierError(
            f"RANK={printable(numbers[0])} must be a whole number from 0 to below "
            f"WORLD_SIZE={printable(numbers[1])}; unset both, or let torchrun set them"
        )
    return rank, ranks


def has_meeting_point(ranks: int) -> bool:
    """Whether ranks are told where to meet; without that they meet in a folder."""
    return ranks > 1 and {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


@dataclass(eq=False)
class Group:
    """The ranks at work, seen from one of them."""

    rank: int
    ranks: int
    store: Any  # torch.distributed.Store
    finished: set[int] = field(default_factory=set)  # finished stacks whose rows rank 0 has

    def publish(self, plan: Mapping[str, Any]) -> None:
        """Tell the others what there is to do."""
        self.store.set("plan", json.dumps(plan))

    def plan(self) -> dict[str, Any]:
        """What rank 0 has planned."""
        try:
            self.store.wait(["plan"], timedelta(seconds=TIMEOUT))
        except RuntimeError as error:  # DistError is one
            raise PefourierError(
                f"rank {self.rank}: rank 0 has planned nothing in {TIMEOUT:g} s; see what it says"
            ) from error
        plan: dict[str, Any] = json.loads(self.store.get("plan"))
        return plan

    def claims(self, total: int) -> Iterator[int]:
        """Numbers of stacks to be trained by this rank."""
        while (number := self.store.add("next", 1) - 1) < total:
            yield number

    def finish(
        self, number: int, rows: Sequence[Mapping[str, Any]], traces: Sequence[bytes]
    ) -> None:
        """Say that a stack is finished, and hand its rows and traces to rank 0."""
        if self.rank == 0:
            self.finished.add(number)
        else:
            texts = [b64encode(trace).decode() for trace in traces]
            self.store.set(f"finished/{number}", json.dumps([list(rows), texts]))

    def fail(self, message: str) -> None:
        """Say that this rank ends before its work is done."""
        self.store.set("failed", message)

    def arrived(self, total: int) -> Iterator[tuple[int, list[dict[str, Any]], list[bytes]]]:
        """Stacks, with rows and traces, that others have handed over since the last look."""
        for number in sorted(set(range(total)) - self.finished):
            if not self.store.check([f"finished/{number}"]):
                continue
            self.finished.add(number)
            rows, texts = json.loads(self.store.get(f"finished/{number}"))
            self.store.delete_key(f"finished/{number}")
            yield number, rows, [b64decode(text) for text in texts]

    def wait_for_all(self, total: int, take: Callable[[], None]) -> None:
        """Take what others hand over until all stacks are finished, on rank 0."""
        since, count = time.monotonic(), -1
        while len(self.finished) < total:
            take()
            if len(self.finished) > count:
                since, count = time.monotonic(), len(self.finished)
            if self.store.check(["failed"]):
                raise PefourierError(self.store.get("failed").decode())
            if time.monotonic() - since > TIMEOUT:
                raise PefourierError(
                    f"{total - count} of {total} stacks are unfinished, and no rank has finished "
                    f"one for {TIMEOUT:g} s; what is finished is kept, --resume goes on"
                )
            time.sleep(LOOK)

    def leave(self) -> None:
        """Say goodbye; rank 0, who may keep the store, waits for the others for a while."""
        self.store.set(f"left/{self.rank}", "")
        until = time.monotonic() + (TIMEOUT if self.rank == 0 else 0)
        goodbyes = [f"left/{rank}" for rank in range(1, self.ranks)]
        while time.monotonic() < until and not self.store.check(goodbyes):
            time.sleep(LOOK)


@contextmanager
def join_group(rank: int, ranks: int) -> Iterator[Group]:
    """Meet the other ranks; leave when this one is done."""
    from torch.distributed.rendezvous import rendezvous

    try:
        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=TIMEOUT)))
    except (dist.DistError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise PefourierError(
            f"rank {rank} of {ranks} has not met the others at {where} within {TIMEOUT:g} s; start "
            "every rank (torchrun does), and see that they reach it"
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
            "what rank 0 has written is kept, --resume goes on"
        ) from error


def launch(count: int, work: Callable[[], Result]) -> Result:
    """What `work` returns on rank 0 of so many ranks on this machine, or the error that it met."""
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
            f"a process that shared the work ended early ({len(error.failures)} of {count}); what "
            "is finished is kept, --resume goes on, --processes 1 has one"
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
    """Work as one of the ranks that `launch` starts; this one ends with its parent."""
    threading.Thread(target=leave_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(threads)
    try:
        return work()
    except PefourierError as error:
        return error
    except KeyboardInterrupt:
        _exit(130)


def leave_with(parent: int) -> None:
    """End this process when its parent has gone."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    sys.stderr.flush()
    _exit(1)

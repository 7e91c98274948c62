"""Processes of one machine at one grid: on a CPU one a core trains more than as many threads.

Steps of small models are short, and threads wait for one another at each of their products. Other
processes, started here, therefore take stacks from the same counter as ranks of torchrun do. They
read what was asked from standard input, and leave when it ends: when this process is done, or dead.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from os import _exit  # `os._exit` is refused while a user's code runs
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist

from pefourier.errors import PefourierError, shown
from pefourier.files import reason
from pefourier.train import grid
from pefourier.train.asked import list_candidates
from pefourier.train.grid import ResolvedTask
from pefourier.train.options import Options
from pefourier.train.progress import Note
from pefourier.train.ranks import Group, at_work
from pefourier.writing.text import agreeing

MOST = 8  # started without being asked: each holds the data
WORTH = 2 * 10**6  # tokens of training windows: less is trained sooner than another process starts
CODE = "from pefourier.train.run import take_part; take_part()"


def count_processes(
    options: Options, resolved: Sequence[ResolvedTask], device: torch.device, ranks: int
) -> int:
    """How many processes train together, this one included, where it is not one of many ranks."""
    cores, asked = torch.get_num_threads(), options.processes
    if asked is not None and not 1 <= asked <= cores:
        raise PefourierError(
            f"--processes must be from 1 to {cores}, the cores that torch uses here; got {asked}"
        )
    if ranks > 1 or device.type != "cpu":
        if asked is not None:
            raise PefourierError(
                "--processes is for one CPU; ranks of torchrun, and GPUs, share the work without it"
            )
        return 1
    if asked is not None:
        return asked
    tokens = sum(tokens_seen(one, options) for one in resolved)
    return min(cores, MOST) if tokens >= WORTH else 1


def tokens_seen(resolved: ResolvedTask, options: Options) -> int:
    """Tokens of training windows in all epochs of all runs and candidates of a task."""
    runs = grid.plan_runs(resolved, options.seeds)
    windows = sum(len(resolved.task.folds[run.fold].train) for run in runs)
    passes = resolved.schedule.epochs * len(list_candidates(options))
    return windows * passes * resolved.model.tokens


@contextmanager
def start_processes(options: Options, count: int, note: Note | None) -> Iterator[Group | None]:
    """This process as rank 0 of `count`; the others end with it. None: they can't meet here."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(TemporaryDirectory(prefix="pefourier-"))
            store = open_store(folder, count, options.rank_timeout)
        except (RuntimeError, OSError) as error:
            if note is not None:
                note(f"processes can't meet in a folder ({shown(str(error))}): one trains alone")
            yield None
            return
        with share_work(options, count, folder, store, note) as group:
            yield group


@contextmanager
def share_work(
    options: Options, count: int, folder: str, store: dist.Store, note: Note | None
) -> Iterator[Group]:
    """This process as rank 0 of those that meet in a folder; the others end with it."""
    before = torch.get_num_threads()
    threads = before // count
    given = asdict(replace(options, processes=None))
    asked = {"folder": folder, "ranks": count, "threads": threads, "options": given}
    started: list[subprocess.Popen] = []

    def has_ended(rank: int) -> bool:
        return started[rank - 1].poll() is not None

    group = Group(0, count, options.rank_timeout, store, has_ended)
    torch.set_num_threads(threads)
    if note is not None:
        note(f"{count} processes share the work, --processes 1 has one")
    try:
        for rank in range(1, count):
            try:
                started.append(start_process({**asked, "rank": rank}, threads))
            except OSError as error:
                if note is not None:
                    note(f"{rank} of {count} processes are all that start here: {reason(error)}")
                break
        with at_work(group):
            yield group
            note_failures(started, note)
    finally:
        torch.set_num_threads(before)
        for process in started:
            process.kill()
            process.communicate()


def open_store(folder: str, ranks: int, wait: float) -> dist.Store:
    """The store of all in a folder that this user alone can enter: a port is open to all users."""
    store = dist.FileStore(os.path.join(folder, "store"), ranks)
    store.set_timeout(timedelta(seconds=wait))
    return store


def start_process(asked: dict, threads: int) -> subprocess.Popen:
    """Start a process that is told on standard input what to do."""
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # what it can't do, this process meets as well, and says
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)},
        start_new_session=True,  # Ctrl-C is for this process, which ends the others
        text=True,
    )
    process.stdin.write(json.dumps(asked) + "\n")
    process.stdin.flush()
    return process


def note_failures(started: Sequence[subprocess.Popen], note: Note | None) -> None:
    """Say which processes ended before the work was done."""
    failed = [process.returncode for process in started if process.poll()]
    if failed and note is not None:
        were = agreeing(len(failed), "process", "processes")
        early = f"{len(failed)} {were} of {1 + len(started)} ended early, with status "
        note(f"{early}{', '.join(map(str, failed))}; what was begun there was trained here")


@contextmanager
def join_from_input() -> Iterator[tuple[Options, Group]]:
    """What the process that has started this one asks, and the group; this one ends with it."""
    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=leave_with, args=(sys.stdin.read,), daemon=True).start()
    torch.set_num_threads(asked["threads"])
    options = read_options(asked["options"])
    store = open_store(asked["folder"], asked["ranks"], options.rank_timeout)
    try:
        with at_work(Group(asked["rank"], asked["ranks"], options.rank_timeout, store)) as group:
            yield options, group
    except PefourierError:
        _exit(2)


def leave_with(read: Callable[[], str]) -> None:
    """End this process when nothing more can be read."""
    read()
    _exit(0)


def read_options(given: dict) -> Options:
    """Options as they were before JSON made lists of them.

    >>> read_options(json.loads(json.dumps(asdict(Options(seeds=3))))) == Options(seeds=3)
    True
    """
    return Options(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})

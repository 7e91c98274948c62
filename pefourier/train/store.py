"""Results on disk: each run is complete or absent, even if the process is killed.

A folder holds config.json with the options and all that numbers depend on, and results.jsonl with a
line per run. A last line cut by a crash is dropped when
results are read, and lines that are not a `Row` are rejected.

Ranks divide the stacks of a comparison: rank i trains those whose number is i modulo the number of
ranks. Ranks, which torchrun starts, meet in the store of torch.distributed's rendezvous, without a
process group. Rank 0 plans, and receives finished rows and traces as JSON. It alone writes the
folder, so no shared file system is needed.
"""

import json
import os
import re
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from pefourier.errors import PefourierError, is_number, shown
from pefourier.train.options import MOST_SEEDS, Options
from pefourier.types import Fields, Values, frozen
from pefourier.writing.files import reason, write_text
from pefourier.writing.text import printable

if sys.platform != "win32":
    import fcntl

KEY = ("dataset", "encoding", "seed", "fold")
Key = tuple[str, str, int, int]
MEASURES = ("precision", "recall", "f1", "auprc", "accuracy")
RESULTS = "results.jsonl"
LARGEST = 2**53  # of numbers
LONGEST = 2**24  # characters of a configuration, or of a line of results
# Options that do not change numbers; the folder of data may move, its windows are checked
NOT_NUMBERS = frozenset(("data", "out", "plot", "resume", "save_models", "predict"))
NOT_NUMBERS |= {"beside"}  # methods are listed with the encodings
NOT_COMPARED = ("device", "versions", "stack", "codes", "dropped")  # of a configuration
GONE = {
    "pool": "mean",
    "compile": "auto",
    "inject": "add",
}  # options of earlier versions, now fixed
KNOWN = ("windows", "splits", "data", "tables")  # of each dataset and table
RULES = {  # that the numbers depend on and that differed in an earlier version
    "choice": "highest score on validation (average precision; of more than two classes macro F1), "
    "then least loss",
    "size": "@rms: of codes less their mean over positions",
}
FACTS: Fields = dict.fromkeys(KNOWN, dict[str, list[float]])  # of a configuration
FACTS |= {"splits": dict[str, str], "versions": dict[str, Any], "stack": int}
RETIRED = ("step_seconds", "terms", "chosen")  # of earlier versions, in lines of results
CHECK = 0.1  # seconds between checks of the other ranks
TIMEOUT = 300.0  # seconds that ranks wait for one another
CLOSE = 1e-4  # larger than rounding of logarithms and shares on other machines


@frozen
class Row:
    """A run as a line of results.jsonl; invalid values raise a `ValueError`."""

    dataset: str
    encoding: str
    seed: int
    fold: int
    precision: float
    recall: float
    f1: float
    auprc: float
    accuracy: float
    step: int  # of the kept weights; 0: initial weights
    seconds: float
    split: str
    leaky: bool
    length: int
    windows: int  # test windows
    trained: int  # training windows
    confusion: list[list[int]]  # test windows by true class (rows) and predicted class
    device: str
    time: str
    budget: dict[str, int] | None  # steps, patience, and steps between two looks
    positive: str | None  # class; None: scores are means over classes
    shortest: int | None  # rows of the shortest window; full windows have `length`
    uneven: bool  # rows have uneven times
    tested: list[Fields]  # measures at other lengths, or the reason why they are missing

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(Row).items():
            check_type(name, getattr(self, name), kind)
        for scores in (vars(self), *self.tested):
            for name in MEASURES if not scores.get("reason") else ():
                check_type(name, scores[name], float)
                if not 0 <= scores[name] <= 1:
                    raise ValueError(f"{name} must be from 0 to 1, got {shown(scores[name])}")
        counts = self.seed, self.fold, self.step, self.seconds, *(self.budget or {}).values()
        lengths = self.length, self.shortest or 1, *(scores["length"] for scores in self.tested)
        sizes = *(n + 1 for n in counts), *lengths, self.windows, self.trained
        if not all(1 <= n < LARGEST for n in sizes) or self.seed >= MOST_SEEDS:
            raise ValueError(
                "seed, fold, step, seconds and budget must be 0 or more, and length, windows and "
                "trained 1 or more"
            )
        cells = [count for counts in self.confusion for count in counts]
        square = {len(counts) for counts in self.confusion} == {len(self.confusion)}
        if not square or min(cells) < 0 or sum(cells) != self.windows:
            raise ValueError(f"confusion must be a square table of {self.windows} windows")


def check_type(name: str, value: Any, kind: Any) -> None:
    """Reject a JSON value of a wrong type."""
    if not fits(value, kind):
        raise ValueError(f"{name} must be {getattr(kind, '__name__', kind)}, got {shown(value)}")


def fits(value: Any, kind: Any) -> bool:
    """Whether a JSON value fits a type, at every depth; a list fits a tuple.

    >>> fits(["dft"], tuple[str, ...]), fits("8", int), fits(None, int | None)
    (True, False, True)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in inner
    if origin in (tuple, list, dict):
        values = value.values() if isinstance(value, dict) else value
        same = isinstance(value, dict if origin is dict else list)
        return same and all(fits(item, inner[origin is dict]) for item in values)
    if inner:  # a union
        return any(fits(value, one) for one in inner)
    return kind is Any or type(value) in ((int, float) if kind is float else (kind,))


def key_of(row: Values) -> Key:
    """Return the key of a run."""
    return tuple(row[name] for name in KEY)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON of bounded length and depth."""
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_row(line: str | bytes) -> Fields:
    """Parse a line of results.jsonl; a `ValueError` describes a mistake in it."""
    row = parse_json(line)
    if not isinstance(row, dict):
        raise ValueError(f"a line must be an object, got {shown(row)}")
    try:
        return asdict(Row(**{key: row[key] for key in row if key not in RETIRED}))
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(str(error).removeprefix("Row.__init__() ")) from error


@frozen
class Store:
    """A folder of results; without a path, nothing is stored."""

    path: Path | None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Create the folder, and lock it against other runs until this run ends."""
        if self.path is not None:
            make_folder("--out", str(self.path))
        if self.path is None or sys.platform == "win32":
            yield
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise PefourierError(
                    f"another run writes to {self.path}; wait for it or choose another --out"
                ) from error
            except OSError:  # a file system without locks
                pass
            yield
        finally:
            os.close(handle)

    def settle(self, config: Values, *, resume: bool) -> Fields:
        """Write the configuration, or check it against the file; return the valid configuration."""
        if self.path is None:
            if resume:
                raise PefourierError("--resume needs --out DIR, the folder to continue in")
            return dict(config)
        file, results = self.path / "config.json", self.path / RESULTS
        if file.is_file() and resume:
            old = read_configuration(file)
            check_same(file, old, config)
            config = {**config, "stack": old.get("stack", config["stack"])}
        elif file.exists() or (results.is_file() and results.stat().st_size):
            raise PefourierError(
                f"{self.path} holds results already; use --resume if config.json matches these "
                "options, or choose another --out"
            )
        else:
            write_json(file, config)
        if results.is_file():  # drop an incomplete last line after a crash
            os.truncate(results, results.read_bytes().rfind(b"\n") + 1)
        return dict(config)

    def rows(self) -> list[Fields]:
        """Return all complete runs, without duplicates."""
        if self.path is None or not (file := self.path / RESULTS).exists():
            return []
        runs: dict[Key, Fields] = {}
        for row in read_rows(file):
            first = runs.setdefault(key_of(row), row)
            if any(first[name] != row[name] for name in MEASURES):
                raise PefourierError(
                    f"{file} has a run twice, with different scores: {shown(key_of(row))}; "
                    "delete the wrong line, or choose another --out"
                )
        return list(runs.values())

    def append(self, rows: Iterable[Values]) -> None:
        """Append runs, each as one line."""
        if self.path is None:
            return
        file = self.path / RESULTS
        try:
            with file.open("ab") as stream:
                stream.writelines((json.dumps(row) + "\n").encode() for row in rows)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise PefourierError(
                f"{file}: {reason(error)}; finished runs are kept, continue with --resume"
            ) from error


def make_folder(flag: str, folder: str) -> None:
    """Make a folder and check that files can be written there, before hours of training."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as trial:
            trial.write(b"codes")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise PefourierError(f"{flag} {shown(folder)}: {reason(error)}; choose another") from error


def read_configuration(file: Path) -> Fields:
    """Read the configuration in a folder; missing options had their defaults."""
    try:
        config: Fields = parse_json(file.read_bytes())
        for name, kind in (get_type_hints(Options) | FACTS).items():
            if name in config:
                check_type(name, config[name], kind)
        if not config.get("dataset") or not config.get("encoding"):
            raise ValueError("it names no dataset or no encoding")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise PefourierError(
            f"{file} was not written by pefourier train: {error}; choose another --out"
        ) from error
    return config


def stored_options(config: Values) -> Options:
    """Return the options of a configuration."""
    names = {field.name for field in fields(Options)} - NOT_NUMBERS
    return Options(**{name: config[name] for name in names & config.keys()})


def earlier_options(config: Values) -> Fields:
    """Options of an earlier version in a configuration that changed its numbers.

    >>> earlier_options({"seeds": 2, "pool": "mean", "search": ["rate=3e-3,1e-2"]})
    {'search': ['rate=3e-3,1e-2']}
    """
    known = {field.name for field in fields(Options)} | {*RULES, *FACTS, *NOT_COMPARED}
    return {k: v for k, v in config.items() if k not in known and v and v != GONE.get(k)}


def check_same(file: Path, old: Values, config: Values) -> None:
    """Reject resuming if anything that numbers depend on has changed, by its name."""
    now, was = json.loads(json.dumps((config, {**asdict(Options()), **old})))
    for key, value in earlier_options(old).items():
        raise PefourierError(
            f"--resume: {file} has {key} {shown(value)}, of another version; choose another --out"
        )
    for key in sorted({*now} - {*KNOWN, *NOT_COMPARED}):
        if (before := was.get(key)) != now[key]:
            raise PefourierError(
                f"--resume: {file} has {key} {shown(before)}, now it is {shown(now[key])}; use the "
                "same value or choose another --out"
            )
    for key in KNOWN:
        facts, have = old.get(key) or {}, now[key]
        for name in sorted(facts.keys() | have.keys()):
            if not equal_up_to_rounding(facts.get(name), have.get(name)):
                raise PefourierError(
                    f"--resume: {shown(name)} ({key}) has changed since {file} was written; "
                    "choose another --out"
                )


def equal_up_to_rounding(was: Any, now: Any) -> bool:
    """Whether two facts about data are equal up to rounding."""
    if not (isinstance(now, list) and isinstance(was, list) and len(was) == len(now)):
        return bool(was == now)
    return all(map(is_number, was)) and bool(np.allclose(was, now, rtol=0, atol=CLOSE))


def read_rows(file: Path) -> list[Fields]:
    """Read the runs of one file; an incomplete last line is from a crash and dropped."""
    try:
        *complete, _ = file.read_bytes().split(b"\n")
    except OSError as error:
        raise PefourierError(f"{file}: {reason(error)}; choose another --out") from error
    rows = []
    for number, line in enumerate(complete, start=1):
        try:
            rows.append(parse_row(line))
        except ValueError as error:
            raise PefourierError(
                f"{file}, line {number}, was not written by pefourier train: {error}; delete the "
                "line to train its run again, or choose another --out"
            ) from error
    return rows


def write_json(file: Path, value: Any) -> None:
    """Write JSON to a file, complete or not at all."""
    write_text(str(file), json.dumps(value, indent=2, allow_nan=False) + "\n")


# Ranks


def read_rank() -> tuple[int, int]:
    """Read this process's rank and the number of ranks from the environment."""
    numbers = [os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")]
    rank, ranks = (int(n) if re.fullmatch("[0-9]{1,9}", n) else -1 for n in numbers)
    if not 0 <= rank < ranks:
        raise PefourierError(
            f"RANK={printable(numbers[0])} must be a whole number from 0 to below "
            f"WORLD_SIZE={printable(numbers[1])}; unset both, or let torchrun set them"
        )
    if ranks > 1 and not {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        raise PefourierError(
            f"several ranks must meet; start them by torchrun, or unset RANK={rank} and "
            f"WORLD_SIZE={ranks} to train alone"
        )
    return rank, ranks


@dataclass(eq=False)
class Group:
    """The group of all ranks, as seen from one rank."""

    rank: int
    ranks: int
    store: Any  # torch.distributed.Store

    def send(self, number: int, results: Iterable[tuple[Fields, bytes]]) -> None:
        """Send the rows and traces of a finished stack to rank 0."""
        sent = [(row, b64encode(trace).decode()) for row, trace in results]
        self.store.set(f"finished/{number}", json.dumps(sent))

    def receive(self, number: int) -> list[tuple[Fields, bytes]] | None:
        """Return the rows and traces of a stack of another rank; None before it is finished."""
        if not self.store.check([f"finished/{number}"]):
            return None
        sent = json.loads(self.store.get(f"finished/{number}"))
        self.store.delete_key(f"finished/{number}")
        return [(row, b64decode(text)) for row, text in sent]

    def wait_for(self, missing: Collection[int], take_over: Callable[[], object]) -> None:
        """Take over results until no stack is missing, while some rank is at work."""
        since, looks = time.monotonic(), -1
        while take_over() or missing:
            if self.store.check(["failed"]):
                raise PefourierError(self.store.get("failed").decode())
            if (now := self.store.add("looks", 0)) > looks:
                since, looks = time.monotonic(), now
            if time.monotonic() - since > TIMEOUT:
                raise PefourierError(
                    f"unfinished stacks: {len(missing)}; no rank was at work for "
                    f"{TIMEOUT:g} s; finished runs are kept, continue with --resume"
                )
            time.sleep(CHECK)

    def leave(self) -> None:
        """Leave the group; rank 0, which may hold the store, waits for other ranks for a while."""
        self.store.set(f"left/{self.rank}", "")
        until = time.monotonic() + (TIMEOUT if self.rank == 0 else 0)
        goodbyes = [f"left/{rank}" for rank in range(1, self.ranks)]
        while time.monotonic() < until and not self.store.check(goodbyes):
            time.sleep(CHECK)


@contextmanager
def join_group(rank: int, ranks: int) -> Iterator[Group]:
    """Join the other ranks, and leave at the end of the context."""
    from torch.distributed import DistError
    from torch.distributed.rendezvous import rendezvous

    try:
        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=TIMEOUT)))
    except (DistError, ValueError) as error:
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
        store.set("failed", str(error))
        raise
    except DistError as error:
        raise PefourierError(
            f"rank {rank}: the other ranks are gone ({' '.join(str(error).split())[:100]}); "
            "results written by rank 0 are kept, continue with --resume"
        ) from error

"""Results on disk: each run is complete or absent, even if the process is killed.

A folder holds config.json with the options and all that numbers depend on, results.jsonl with a
line per run (a job array adds results.rank1.jsonl, …), and checkpoints of stacks in training. A
line is written by one call in append mode. A last line cut by a crash is dropped when results are
read, and lines that are not a `Row` are rejected.
"""

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.train.options import MOST_SEEDS, Options
from pefourier.types import Array, Fields, Values
from pefourier.writing.files import reason, write_whole

if sys.platform != "win32":
    import fcntl

KEY = ("dataset", "encoding", "seed", "fold")
Key = tuple[str, str, int, int]
MEASURES = ("precision", "recall", "f1", "auprc", "accuracy")
LARGEST = 2**53  # of numbers
LONGEST = 2**24  # characters of a configuration, or of a line of results
# Options that do not change numbers; the folder of data may move, its windows are checked
NOT_NUMBERS = frozenset(("data", "out", "plot", "resume", "processes", "save_models"))
NOT_NUMBERS |= {"beside"}  # methods are listed with the encodings
NOT_COMPARED = ("device", "versions", "stack", "codes")  # of a configuration
GONE = {"weight_decay": 0.0, "pool": "mean"}  # options of earlier versions, now fixed
KNOWN = ("windows", "splits", "data", "tables")  # of each dataset and table
FACTS: Fields = dict.fromkeys(("data", "tables"), dict[str, list[float]])
FACTS |= {"windows": dict[str, list[int]], "splits": dict[str, str], "stack": int}
FACTS |= {"versions": dict[str, Any]}
CLOSE = 1e-4  # larger than rounding of logarithms and shares on other machines


class ScoresAtLength(TypedDict):
    """Scores at another length, or the reason why they are missing."""

    length: int
    precision: float | None
    recall: float | None
    f1: float | None
    auprc: float | None
    accuracy: float | None
    reason: str


@dataclass(frozen=True)
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
    tested: list[ScoresAtLength]  # at other lengths
    chosen: dict[str, float | str]  # settings selected on validation
    terms: list[list[float]]  # shares of the four score terms, by head; for added vectors

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(Row).items():
            check_type(name, getattr(self, name), kind)
        for scores in (vars(self), *self.tested):
            for name in MEASURES if not scores.get("reason") else ():
                if not 0 <= (-1 if scores[name] is None else scores[name]) <= 1:
                    raise ValueError(f"{name} must be from 0 to 1, got {scores[name]}")
        if not 0 <= self.seed < MOST_SEEDS or min(self.fold, self.step, self.seconds) < 0:
            raise ValueError("seed, fold, step and seconds must be 0 or more")
        if min(self.length, self.windows, self.trained) < 1:
            raise ValueError("length, windows and trained must be 1 or more")
        cells = [count for counts in self.confusion for count in counts]
        square = {len(counts) for counts in self.confusion} == {len(self.confusion)}
        if not square or min(cells) < 0 or sum(cells) != self.windows:
            raise ValueError(f"confusion must be a square table of {self.windows} windows")
        if any(len(head) != 4 for head in self.terms):
            raise ValueError("terms must have four shares per head")


def check_type(name: str, value: Any, kind: Any) -> None:
    """Reject a JSON value of a wrong type.

    >>> check_type("seed", True, int)
    Traceback (most recent call last):
    ValueError: seed must be int; got True
    """
    if not is_of_type(value, kind):
        raise ValueError(f"{name} must be {getattr(kind, '__name__', kind)}; got {shown(value)}")


def is_of_type(value: Any, kind: Any) -> bool:
    """Whether a JSON value has a type: numbers in range, lists and objects at every depth."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is float or kind is int:  # booleans are neither
        return type(value) in (int, kind) and abs(value) < LARGEST
    if is_typeddict(kind):
        hints = get_type_hints(kind)
        fits = isinstance(value, dict) and value.keys() == hints.keys()
        return fits and all(is_of_type(value[key], hint) for key, hint in hints.items())
    if origin in (list, tuple):
        return isinstance(value, list) and all(is_of_type(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(is_of_type(v, inner[1]) for v in value.values())
    if inner:  # a literal or a union
        return value in inner if origin is Literal else any(is_of_type(value, k) for k in inner)
    return kind is Any or isinstance(value, kind)


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
    row.pop("step_seconds", None)  # of an earlier version
    if odd := sorted(row.keys() ^ {field.name for field in fields(Row)}):
        raise ValueError(f"a line lacks {shown(odd[0])}, or must not have it")
    return asdict(Row(**row))


@dataclass(frozen=True)
class Store:
    """A folder of results; without a path, nothing is stored."""

    path: Path | None
    rank: int = 0

    def results_file(self, folder: Path) -> Path:
        """Return the path of the file to which this rank appends."""
        return folder / (f"results.rank{self.rank}.jsonl" if self.rank else "results.jsonl")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Create the folder, and lock it against other runs of this rank until this run ends."""
        if self.path is None:
            yield
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            name = self.results_file(self.path) if self.rank else self.path
            handle = os.open(name, os.O_RDWR | os.O_CREAT if self.rank else os.O_RDONLY, 0o644)
        except OSError as error:
            raise PefourierError(f"{self.path}: {reason(error)}; choose another --out") from error
        try:
            take_lock(handle, self.path)
            yield
        finally:
            os.close(handle)

    def settle(self, config: Values, *, resume: bool) -> Fields:
        """Write the configuration, or check it against the file; return the valid configuration.

        Ranks of a job array start in any order: with --resume, the first rank writes the file.
        """
        if self.path is None:
            if resume:
                raise PefourierError("--resume needs --out DIR, the folder to continue in")
            return dict(config)
        file = self.path / "config.json"
        if file.is_file() and (resume or self.rank):
            old = read_configuration(file)
            check_same(file, old, config)
            config = {**config, "stack": old.get("stack", config["stack"])}
        elif file.exists() or any(f.stat().st_size for f in self.path.glob("results*.jsonl")):
            if self.rank == 0:
                raise PefourierError(
                    f"{self.path} holds results already; use --resume if config.json matches these "
                    "options, or choose another --out"
                )
        elif self.rank == 0 or resume:
            write_json(file, config)
        drop_torn_line(self.results_file(self.path))
        return dict(config)

    def rows(self) -> list[Fields]:
        """Return all complete runs of all ranks, without duplicates."""
        if self.path is None:
            return []
        runs: dict[Key, Fields] = {}
        for file in sorted(self.path.glob("results*.jsonl")):
            for row in read_rows(file):
                first = runs.setdefault(key_of(row), row)
                if any(first[name] != row[name] for name in MEASURES):
                    raise PefourierError(
                        f"{file} has a run twice, with different scores: {shown(key_of(row))}; "
                        "delete the wrong line, or choose another --out"
                    )
        return list(runs.values())

    def append(self, rows: Iterable[Values]) -> None:
        """Append runs, each as one line in one write."""
        if self.path is None:
            return
        file = self.results_file(self.path)
        try:
            handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            with os.fdopen(handle, "ab", buffering=0):
                for row in rows:
                    line = (json.dumps(row) + "\n").encode()
                    if os.write(handle, line) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(handle)
        except OSError as error:
            raise PefourierError(
                f"{file}: {reason(error)}; finished runs are kept, continue with --resume"
            ) from error


def drop_torn_line(file: Path) -> None:
    """Drop an incomplete last line after a crash, before further lines are appended."""
    if file.is_file():
        os.truncate(file, file.read_bytes().rfind(b"\n") + 1)


def take_lock(handle: int, path: Path) -> None:
    """Lock an open file or folder, unless its file system has no locks."""
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PefourierError(
            f"another run writes to {path}; wait for it or choose another --out"
        ) from error
    except OSError:
        pass


def read_configuration(file: Path) -> Fields:
    """Read the configuration in a folder; missing options had their defaults."""
    try:
        config: Fields = parse_json(file.read_bytes())
        check_type("it", config, dict[str, Any])
        for name, kind in (get_type_hints(Options) | FACTS).items():
            if name in config:
                check_type(name, config[name], kind)
        if not config.get("dataset") or not config.get("encoding"):
            raise ValueError("it names no dataset or no encoding")
    except (OSError, ValueError) as error:
        raise PefourierError(
            f"{file} was not written by pefourier train: {error}; choose another --out"
        ) from error
    return config


def stored_options(config: Values) -> Options:
    """Return the options of a configuration."""
    names = {field.name for field in fields(Options)} - NOT_NUMBERS
    given: Fields = {name: config[name] for name in names & config.keys()}
    given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return Options(**given)


def option_of(config: Values, name: str) -> Any:
    """Return an option of a folder as JSON; options missing in earlier versions had the default.

    >>> option_of({"seeds": 2}, "seeds"), option_of({}, "search")
    (2, [])
    """
    value = config.get(name, getattr(Options, name, None))
    return list(value) if isinstance(value, tuple) else value


def check_same(file: Path, old: Values, config: Values) -> None:
    """Reject resuming if anything that numbers depend on has changed, by its name."""
    now = json.loads(json.dumps(config))
    gone = {k for k, v in old.items() if k not in now and v in (None, [], GONE.get(k))}
    for key in sorted((old.keys() | now.keys()) - gone - {*KNOWN, *NOT_COMPARED}):
        if (was := option_of(old, key)) != (have := now.get(key)):
            raise PefourierError(
                f"--resume: {file} has {key} {shown(was)}, now it is {shown(have)}; use the same "
                "value or choose another --out"
            )
    for key in KNOWN:
        was, have = old.get(key) or {}, now[key]
        for name in sorted(was.keys() | have.keys()):
            if not equal_up_to_rounding(was.get(name), have.get(name)):
                raise PefourierError(
                    f"--resume: {shown(name)} ({key}) has changed since {file} was written; "
                    "choose another --out"
                )


def equal_up_to_rounding(was: Any, now: Any) -> bool:
    """Whether two facts about data are equal up to rounding."""
    lists = isinstance(now, list) and isinstance(was, list) and len(was) == len(now)
    return bool(np.allclose(was, now, rtol=0, atol=CLOSE)) if lists else was == now


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
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_whole(str(file), lambda stream: stream.write(text.encode()))


def check_handed_over(rows: Sequence[Any], keys: Iterable[Key]) -> None:
    """Reject rows from another process unless they are runs of the stack, each once."""
    try:
        handed = [key_of(parse_row(json.dumps(row))) for row in rows]
    except ValueError as error:
        raise PefourierError(f"another process sent an invalid run: {error}") from error
    if len({*handed}) < len(handed) or not {*handed} <= {*keys}:
        raise PefourierError(f"another process sent {shown(handed)}, which are not its runs")


EVERY = 60.0  # minimum of seconds between two checkpoints
FOLDER = "checkpoints"


@dataclass(eq=False)
class Checkpoint:
    """Checkpoint file of a stack; without a path, nothing is stored."""

    path: Path | None

    def __post_init__(self) -> None:
        self.saved = time.monotonic()

    def part(self, first: int, count: int) -> "Checkpoint":
        """Return the checkpoint of `count` members of the stack, starting at `first`."""
        return Checkpoint(self.path and self.path.with_suffix(f".{first}-{count}.safetensors"))

    def load(self) -> dict[str, Array] | None:
        """Load the last saved state, or None."""
        if self.path is None or not self.path.is_file():
            return None
        from pefourier.encodings.sources.tables import open_arrays

        with open_arrays(str(self.path), advice="delete it") as file:
            return {name: np.array(file.load(name)) for name in file.arrays}

    @property
    def is_due(self) -> bool:
        """Whether the last save is long enough ago."""
        return self.path is not None and time.monotonic() - self.saved >= EVERY

    def save_at_times(self, state: Callable[[], Mapping[str, Array]]) -> None:
        """Save the state of training, if the last save is long enough ago."""
        if self.path is not None and self.is_due:
            from pefourier.encodings.sources.formats import write_tensors

            tensors = {name: np.ascontiguousarray(value) for name, value in state().items()}
            self.path.parent.mkdir(exist_ok=True)
            write_whole(str(self.path), lambda stream: write_tensors(stream, tensors))
            self.saved = time.monotonic()

    def drop(self) -> None:
        """Delete the checkpoint of a finished stack."""
        if self.path is not None:
            for path in (self.path, *self.path.parent.glob(f"{self.path.stem}.*")):
                path.unlink(missing_ok=True)
            with suppress(OSError):  # other checkpoints remain
                self.path.parent.rmdir()

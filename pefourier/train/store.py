"""Results on disk: complete or absent for each run, never torn, whatever is killed when.

A folder holds config.json, which says what was asked and what numbers depend on, results.jsonl, a
line a run (in a job array results.rank1.jsonl, … beside it), and while stacks are in training their
checkpoints. A line is written by one call in append mode; a last line that a crash cut is dropped
when results are read, and what is no `Row` is refused.
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from pefourier.errors import PefourierError, shown
from pefourier.files import write_whole
from pefourier.train.options import MOST_SEEDS, Options

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

KEY = ("dataset", "encoding", "seed", "fold")
Key = tuple[str, str, int, int]
MEASURES = ("precision", "recall", "f1", "auprc", "accuracy")
LARGEST = 2**53  # of numbers
LONGEST = 2**24  # characters of a configuration, or of a line of results
# Options that numbers do not depend on; a folder of data may have moved, its windows are known
NOT_NUMBERS = frozenset(
    {
        *("data", "out", "plot", "resume", "processes", "rank_timeout", "save_tables"),
        *("save_models", "beside"),  # methods stand among encodings
    }
)
KNOWN = ("windows", "splits", "data", "tables")  # of each dataset and table
CLOSE = 1e-4  # rounding on other machines moves logarithms and shares less


@dataclass(frozen=True)
class Row:
    """A line of results.jsonl: one run. A `ValueError` says what is wrong with it."""

    dataset: str
    encoding: str
    seed: int
    fold: int
    precision: float
    recall: float
    f1: float
    auprc: float
    accuracy: float
    step: int  # whose weights were kept; 0: those it began with
    seconds: float
    split: str
    leaky: bool
    length: int
    windows: int  # that were tested
    trained: int  # windows
    confusion: list[list[int]]  # windows of each class, said to be of each
    device: str
    time: str
    budget: dict[str, int] | None  # steps, patience, and steps between two looks
    step_seconds: float | None  # that a step takes among the runs trained with it
    positive: str | None  # class; without one scores are means over classes
    shortest: int | None  # rows of the shortest window, the others' being `length`
    uneven: bool  # rows are at uneven times
    tested: list[dict[str, Any]]  # at other lengths
    chosen: dict[str, float | str]  # settings, on validation
    terms: list[list[float]]  # shares of the four terms of scores, by head; codes that are added

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(Row).items():
            check_type(name, getattr(self, name), kind)
        for name in MEASURES:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1; got {getattr(self, name)}")
        if not 0 <= self.seed < MOST_SEEDS or min(self.fold, self.step) < 0:
            raise ValueError("seed, fold and step must be 0 or more")
        if min(self.length, self.windows, self.trained) < 1 or not self.seconds >= 0:
            raise ValueError("length, windows and trained must be 1 or more")
        check_confusion(self.confusion, self.windows)
        check_tested(self.tested)
        for head in self.terms:
            if not isinstance(head, list) or len(head) != 4:
                raise ValueError(f"terms must have four shares a head; got {shown(head)}")
            for share in head:
                check_type("terms", share, float)

    @property
    def key(self) -> Key:
        """What tells one run from another."""
        return self.dataset, self.encoding, self.seed, self.fold


PLAIN = {str: "text", bool: "true or false", int: "a whole number", float: "a finite number"}


def check_type(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not of a type of `Row`, or too large.

    >>> check_type("seed", True, int)
    Traceback (most recent call last):
    ValueError: seed must be a whole number; got True
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        types = (int, float) if kind is float else kind
        good = isinstance(value, types) and isinstance(value, bool) == (kind is bool)
        if not good or (kind in (int, float) and not abs(value) < LARGEST):
            raise ValueError(f"{name} must be {PLAIN[kind]}; got {shown(value)}")
    elif origin in (list, dict):
        if not isinstance(value, origin):
            raise ValueError(f"{name} must be a {origin.__name__}; got {shown(value)}")
        for item in value.values() if inner == (str, int) else ():
            check_type(name, item, int)
    elif value is not None:  # a type, or nothing
        check_type(name, value, inner[0])


def check_confusion(table: Sequence[Any], windows: int) -> None:
    """Refuse what is no square table of whole numbers, or of other windows."""
    cells = [cell for row in table if isinstance(row, list) for cell in row]
    square = all(isinstance(row, list) and len(row) == len(table) for row in table)
    if not square or any(type(cell) is not int or cell < 0 for cell in cells):
        raise ValueError("confusion must be a square table of whole numbers")
    if sum(cells) != windows:
        raise ValueError(f"confusion must be a square table of {windows} windows")


def check_tested(tested: Sequence[Any]) -> None:
    """Refuse scores at other lengths that are none and have no reason."""
    for scores in tested:
        if not isinstance(scores, dict) or scores.keys() != {"length", *MEASURES, "reason"}:
            raise ValueError("tested must have a length, five measures and a reason")
        check_type("length", scores["length"], int)
        check_type("reason", scores["reason"], str)
        for name in MEASURES if not scores["reason"] else ():
            check_type(name, scores[name], float)
            if not 0 <= scores[name] <= 1:
                raise ValueError(f"{name} must be from 0 to 1; got {scores[name]}")


def key_of(row: Mapping[str, Any]) -> Key:
    """What tells one run from another."""
    return tuple(row[name] for name in KEY)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON of bounded length and depth in which no key stands twice."""
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    try:
        return json.loads(text, object_pairs_hook=without_twins)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, unless a key stands twice."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("it has a key twice")
    return entries


def parse_row(line: str | bytes) -> dict[str, Any]:
    """A line of results.jsonl; a `ValueError` says what is wrong with it."""
    row = parse_json(line)
    if not isinstance(row, dict):
        raise ValueError(f"a line must be an object; got {shown(row)}")
    names = {field.name for field in fields(Row)}
    if unknown := sorted(row.keys() - names):
        raise ValueError(f"a line has an unknown key {shown(unknown[0])}")
    if lacking := [field.name for field in fields(Row) if field.name not in row]:
        raise ValueError(f"a line lacks {shown(lacking[0])}")
    return asdict(Row(**row))


@dataclass(frozen=True)
class Store:
    """A folder of results; without a path they are kept nowhere."""

    path: Path | None
    rank: int = 0

    @property
    def results_file(self) -> Path:
        """The file that this rank appends to."""
        return self.path / (f"results.rank{self.rank}.jsonl" if self.rank else "results.jsonl")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder, and keep other runs of this rank out of it until this one ends."""
        if self.path is None:
            yield
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PefourierError(
                f"{self.path}: {error.strerror or error}; choose another --out"
            ) from error
        if fcntl is None:
            yield
            return
        name = self.path / f".rank{self.rank}.lock" if self.rank else self.path
        handle = os.open(name, os.O_RDWR | os.O_CREAT if self.rank else os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise PefourierError(
                f"another run writes to {self.path}; wait for it or choose another --out"
            ) from error
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            if self.rank:
                name.unlink(missing_ok=True)
            os.close(handle)

    def begin(self, config: Mapping[str, Any], resume: bool) -> dict[str, Any]:
        """Write the configuration, or see that it is the one that there is; the one that holds.

        Ranks of a job array begin in any order: where they resume, the first to come writes it.
        """
        if self.path is None:
            if resume:
                raise PefourierError("--resume needs --out DIR, the folder to go on in")
            return dict(config)
        file = self.path / "config.json"
        if file.is_file() and (resume or self.rank):
            old = read_configuration(file)
            check_same(file, old, config)
            config = {**config, "stack": old.get("stack", config["stack"])}
        elif self.rank == 0 and any(self.path.glob("results*.jsonl")):
            contents = "results, but no config.json that says of what; choose another --out"
            if not resume:
                contents = "results already; go on with --resume or choose another --out"
            raise PefourierError(f"{self.path} holds {contents}")
        elif self.rank == 0 and file.exists():
            raise PefourierError(f"{file} exists already; give --resume or choose another --out")
        elif self.rank == 0 or resume:
            write_json(file, config)
        self.drop_torn_line()
        return dict(config)

    def rows(self) -> list[dict[str, Any]]:
        """All complete runs, of every rank, each once."""
        if self.path is None:
            return []
        runs: dict[Key, dict[str, Any]] = {}
        for file in sorted(self.path.glob("results*.jsonl")):
            for row in read_rows(file):
                first = runs.setdefault(key_of(row), row)
                if any(first[name] != row[name] for name in MEASURES):
                    raise PefourierError(
                        f"{file} has a run twice, with different scores: {shown(key_of(row))}; "
                        "delete the line that is wrong, or choose another --out"
                    )
        return list(runs.values())

    def drop_torn_line(self) -> None:
        """Drop this rank's torn line, so that the next one begins on a line of its own."""
        file = self.results_file
        if file.is_file() and file.read_bytes()[-1:] not in (b"", b"\n"):
            *lines, _ = file.read_bytes().split(b"\n")
            write_whole(str(file), lambda out: out.write(b"".join(line + b"\n" for line in lines)))

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add runs, each as one line in one write."""
        if self.path is None:
            return
        file = self.results_file
        with results_errors(file):
            handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                for row in rows:
                    line = (json.dumps(row) + "\n").encode()
                    if os.write(handle, line) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(handle)
            finally:
                os.close(handle)


@contextmanager
def results_errors(file: Path) -> Iterator[None]:
    """Name the file in an error of the file system, and say that results are kept."""
    try:
        yield
    except OSError as error:
        raise PefourierError(
            f"{file}: {error.strerror or error}; nothing finished is lost, --resume goes on"
        ) from error


def read_configuration(file: Path) -> dict[str, Any]:
    """Read the configuration in a folder; options that it lacks had their defaults."""
    try:
        config = parse_json(file.read_bytes())
        names = ("dataset", "encoding")
        if not isinstance(config, dict) or not all(is_texts(config.get(name)) for name in names):
            raise ValueError("it must be an object with lists of texts as dataset and encoding")
        windows, versions = (config.get(name, {}) for name in ("windows", "versions"))
        if not all(isinstance(entries, dict) for entries in (windows, versions)):
            raise ValueError("its windows and versions must be objects")
        if not all(isinstance(counts, list) for counts in windows.values()):
            raise ValueError("its windows must be lists of counts, by dataset")
        stored_options(config)
    except (OSError, ValueError, TypeError) as error:
        raise PefourierError(
            f"{file} was not written by pefourier train: {error}; choose another --out"
        ) from error
    return config


def is_texts(value: Any) -> bool:
    """Whether a value of JSON is a list of text that holds something."""
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) for v in value)


def stored_options(config: Mapping[str, Any]) -> Options:
    """The options that a configuration was made of."""
    options = {}
    for name, kind in get_type_hints(Options).items():
        value = config.get(name)
        if name in config and kind == tuple[str, ...]:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ValueError(f"{name} must be a list of texts; got {shown(value)}")
        if name in config and name not in NOT_NUMBERS:
            options[name] = tuple(value) if isinstance(value, list) else value
            if get_origin(kind) is tuple and not isinstance(value, list):
                raise ValueError(f"{name} must be a list; got {shown(value)}")
            if kind in (int, float, bool):
                check_type(name, value, kind)
    return Options(**options)


def option_of(config: Mapping[str, Any], name: str) -> Any:
    """An option of a folder, as JSON has it; an earlier version that lacked it had the default.

    >>> option_of({"seeds": 2}, "seeds"), option_of({}, "search")
    (2, [])
    """
    default = next((field.default for field in fields(Options) if field.name == name), None)
    value = config.get(name, default)
    return list(value) if isinstance(value, tuple) else value


def check_same(file: Path, old: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Refuse to go on where something that numbers depend on is another, by its name."""
    now = json.loads(json.dumps(config))
    for key in sorted((old.keys() | now.keys()) - {*KNOWN, "device", "versions", "stack"}):
        if (was := option_of(old, key)) != now.get(key):
            raise PefourierError(
                f"--resume: {file} has {key} {shown(was)}, now it is {shown(now.get(key))}; "
                "give the same or choose another --out"
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
    """Whether two things known of data are the same up to rounding."""
    if isinstance(now, list) and isinstance(was, list) and len(was) == len(now):
        return all(abs(a - b) <= CLOSE for a, b in zip(was, now, strict=True))
    return was == now


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Read the runs of one file; a last line without its end was cut by a crash and is dropped."""
    if not file.is_file():
        raise PefourierError(f"{file} is not a file; choose another --out")
    with results_errors(file):
        *complete, _ = file.read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(complete, start=1):
        try:
            rows.append(parse_row(line))
        except ValueError as error:
            raise PefourierError(
                f"{file}, line {number}, was not written by pefourier train: {error}; delete the "
                "line to have its run trained again, or choose another --out"
            ) from error
    return rows


def write_json(file: Path, value: Any) -> None:
    """Write JSON as a whole."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_whole(str(file), lambda stream: stream.write(text.encode()))


def check_handed_over(rows: Sequence[Any], keys: Iterable[Key]) -> None:
    """Refuse what another process hands over for a stack but runs of it, each once.

    >>> check_handed_over([{"f1": 2}], [])
    Traceback (most recent call last):
    pefourier.errors.PefourierError: another process handed over no run that it was given: a line \
lacks 'dataset'; nothing of it is kept, --resume goes on
    """
    try:
        handed = [key_of(parse_row(json.dumps(row))) for row in rows]
        if len({*handed}) < len(handed) or not {*handed} <= {*keys}:
            raise ValueError(f"it was not asked for {shown(handed)}")
    except ValueError as error:
        raise PefourierError(
            f"another process handed over no run that it was given: {error}; nothing of it is "
            "kept, --resume goes on"
        ) from error

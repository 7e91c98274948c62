"""Results on disk: complete or absent for each run, never torn, whatever is killed when.

A folder holds config.json, results.jsonl (a line a run), and while several ranks are at work
results.rank1.jsonl, …, which rank 0 merges. A line is written by one call in append mode; a last
line that a crash cut is dropped when results are read, and anything else that `schema` does not
know is refused. config.json says what was asked last, all that
the numbers depend on, and in `stages` what was asked before, since that decided the stacks.
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pefourier.errors import PefourierError, shown
from pefourier.files import write_whole
from pefourier.train.options import Options
from pefourier.train.schema import Row, check_configuration, parse_json, parse_row

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

KEY = ("dataset", "encoding", "seed", "fold")
Key = tuple[str, str, int, int]
ASKED = ("dataset", "encoding", "match_rms", "seeds", "resamples")  # may be asked anew of a folder
KNOWN = ("windows", "splits", "data", "tables")  # of each dataset and table; must not change
ELSEWHERE = ("device", "versions")  # may differ where a run goes on
CLOSE = 1e-4  # rounding on other machines moves logarithms and shares less


def key_of(row: Mapping[str, Any]) -> Key:
    """What tells one run from another."""
    return tuple(row[name] for name in KEY)


@dataclass(frozen=True)
class Store:
    """A folder of results; without a path they are kept nowhere."""

    path: Path | None
    rank: int = 0
    ranks: int = 1

    def results_file(self, rank: int) -> Path:
        """The file that a rank appends to."""
        return self.path / (f"results.rank{rank}.jsonl" if rank else "results.jsonl")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder and keep other runs out of it until this one ends, however it ends."""
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
        own = self.rank_file(self.rank)
        handle = os.open(own, os.O_RDWR | os.O_CREAT) if self.rank else os.open(own, os.O_RDONLY)
        try:
            # Ranks beside the first share theirs, and wait for its look whether they are at work
            fcntl.flock(handle, fcntl.LOCK_SH if self.rank else fcntl.LOCK_EX | fcntl.LOCK_NB)
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
                own.unlink(missing_ok=True)
            os.close(handle)

    def rank_file(self, rank: int) -> Path:
        """What a rank locks while it is at work: the folder, or beside the first a file in it."""
        return self.path / f".rank{rank}.lock" if rank else self.path

    def others_at_work(self) -> bool:
        """Whether another rank is at work, as far as can be told: nobody holds its lock."""
        return fcntl is None or any(map(self.is_at_work, range(1, self.ranks)))

    def is_at_work(self, rank: int) -> bool:
        """Whether a rank holds its lock; True where the file system knows no locks."""
        try:
            handle = os.open(self.rank_file(rank), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False

    def settle_configuration(self, config: Mapping[str, Any], resume: bool) -> dict[str, Any]:
        """The configuration that holds: a new one, or the old one with what is asked now."""
        config = {**json.loads(json.dumps(config)), "stages": []}
        if self.path is None:
            if resume:
                raise PefourierError("--resume needs --out DIR, the folder to go on in")
            return config
        file = self.path / "config.json"
        if file.is_file() and resume:
            old = read_configuration(file)
            return continue_configuration(file, old, config) if self.rows() else config
        if self.rank == 0 and any(self.path.glob("results*.jsonl")):
            what = "results, but no config.json that says of what; choose another --out"
            if not resume:
                what = "results already; go on with --resume or choose another --out"
            raise PefourierError(f"{self.path} holds {what}")
        if self.rank == 0 and file.exists():
            raise PefourierError(f"{file} exists already; give --resume or choose another --out")
        return config

    def write_configuration(self, config: Mapping[str, Any], resume: bool) -> None:
        """Write the configuration, before anything is trained under it.

        Ranks of a job array begin in any order: where they resume, the first one to come writes it.
        """
        if self.path is None:
            return
        file = self.path / "config.json"
        if self.rank == 0 or (resume and not file.exists()):
            write_json(file, config)

    def rows(self) -> list[Row]:
        """All complete runs, of every rank, each once."""
        if self.path is None:
            return []
        found = {}
        for file in sorted(self.path.glob("results*.jsonl")):
            for row in read_rows(file):
                if scores_of(found.setdefault(key_of(row), row)) != scores_of(row):
                    raise PefourierError(
                        f"{file} has a run twice, with different scores: {shown(key_of(row))}; "
                        "delete the line that is wrong, or choose another --out"
                    )
        return list(found.values())

    def drop_torn_line(self) -> None:
        """Drop this rank's torn line, so that the next one begins on a line of its own."""
        if self.path is None:
            return
        file = self.results_file(self.rank)
        if file.is_file() and file.read_bytes()[-1:] not in (b"", b"\n"):
            write_lines(file, read_rows(file))

    def append(self, rows: Iterable[Row]) -> None:
        """Add runs, each as one line in one write."""
        if self.path is None:
            return
        file = self.results_file(self.rank)
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

    def merge(self, order: Sequence[Key]) -> list[Row]:
        """The runs in the order given, from one file that has all; files of single ranks go."""
        rows = {key_of(row): row for row in self.rows()}
        merged = [rows.pop(key) for key in order if key in rows]
        if self.path is not None:
            write_lines(self.results_file(0), [*merged, *rows.values()])
            for file in self.path.glob("results.rank*.jsonl"):
                file.unlink()
        return merged


def check_handed_over(rows: Sequence[Any], keys: Iterable[Key]) -> None:
    """Refuse what another process hands over for a stack but runs of it, each once.

    >>> check_handed_over([{"f1": 2}], [])
    Traceback (most recent call last):
    pefourier.errors.PefourierError: another process handed over no run that it was given: a line \
lacks 'accuracy'; nothing of it is kept, --resume goes on
    """
    try:
        found = [key_of(parse_row(json.dumps(row).encode())) for row in rows]
        if len({*found}) < len(found) or not {*found} <= {*keys}:
            raise ValueError(f"it was not asked for {shown(found)}")
    except ValueError as error:
        raise PefourierError(
            f"another process handed over no run that it was given: {error}; nothing of it is "
            "kept, --resume goes on"
        ) from error


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
    """Read the configuration in a folder."""
    try:
        old = parse_json(file.read_bytes())
        check_configuration(old)
    except ValueError as error:
        raise PefourierError(
            f"{file} was not written by pefourier train: {error}; choose another --out"
        ) from error
    return old


def continue_configuration(
    file: Path, old: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Add what is asked now to a folder's configuration; refused where numbers would differ."""
    keys = (old.keys() | config.keys()) - {*ASKED, *KNOWN, *ELSEWHERE, "stages"}
    check_same(file, old, config, keys)
    if changed := find_change(old, config):
        raise PefourierError(
            f"--resume: {changed} has changed since {file} was written; choose another --out"
        )
    known = {key: {**old[key], **config[key]} for key in KNOWN}
    return {**config, **old, **{key: config[key] for key in ASKED}, **known}


def check_same(file: Path, old: Mapping[str, Any], now: Mapping[str, Any], keys: Iterable) -> None:
    """Refuse to go on in a folder with another value of one of these keys."""
    for key in sorted(keys):
        if (was := option_of(old, key)) != now.get(key):
            raise PefourierError(
                f"--resume: {file} has {key} {shown(was)}, now it is {shown(now.get(key))}; "
                "give the same or choose another --out"
            )


def option_of(config: Mapping[str, Any], name: str) -> Any:
    """An option of a folder, as JSON has it; an earlier version that lacked it had the default.

    >>> option_of({"seeds": 2}, "seeds"), option_of({}, "search")
    (2, [])
    """
    default = next((one.default for one in fields(Options) if one.name == name), None)
    value = config.get(name, default)
    return list(value) if isinstance(value, tuple) else value


def find_change(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """A dataset or a table of which two configurations know different things; empty without."""
    for key in KNOWN:
        for name in sorted(was[key].keys() & now[key].keys()):
            if not equal_up_to_rounding(was[key][name], now[key][name]):
                return f"{shown(name)} ({key})"
    return ""


def equal_up_to_rounding(was: Any, now: Any) -> bool:
    """Whether two things known of data are the same up to rounding."""
    if isinstance(now, list) and isinstance(was, list) and len(was) == len(now):
        return all(abs(a - b) <= CLOSE for a, b in zip(was, now, strict=True))
    return was == now


def scores_of(row: Row) -> tuple[float, ...]:
    """What a run came to."""
    return row["precision"], row["recall"], row["f1"], row["auprc"]


def read_rows(file: Path) -> list[Row]:
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


def write_lines(file: Path, rows: Iterable[Row]) -> None:
    """Replace a file by these runs, as a whole."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    write_whole(str(file), lambda stream: stream.write(text.encode()))


def write_json(file: Path, value: Any) -> None:
    """Write JSON as a whole."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_whole(str(file), lambda stream: stream.write(text.encode()))

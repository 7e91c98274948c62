"""Disks that fail: at every write of every output nothing is left half written.

`Disk` stands between the program and the system and counts what the system is asked for while
files are written: the n-th call fails, for all n, alone (a fault that passes) or with all after it
(a disk that is full).
"""

import builtins
import errno
import io
import json
import os
import resource
import subprocess
import sys
import tracemalloc
from itertools import count
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from training import lines

from pefourier import files, reproduce
from pefourier.cli.main import main
from pefourier.encodings.checks import COSTS
from pefourier.report import plot
from pefourier.train import report, store, summary

FULL = os.strerror(errno.ENOSPC)
CALLS = ("open", "write", "fsync", "replace", "dup")
OLD = b"what was there before\n"


class Disk:
    """The functions of `os`, of which the n-th call that writes fails."""

    def __init__(self, n, lasting):
        self.n, self.lasting, self.calls = n, lasting, 0

    def __getattr__(self, name):
        function = getattr(os, name)
        if name not in CALLS:
            return function
        return lambda *given, **named: self.ask(function, *given, **named)

    def ask(self, function, *given, **named):
        self.calls += 1
        if self.calls == self.n or (self.lasting and self.calls > self.n):
            raise OSError(errno.ENOSPC, FULL)
        return function(*given, **named)

    def open_file(self, file, mode="r", **named):
        """The built-in function: what is written goes to the disk in pieces."""
        if not {"w", "x"} & set(mode):
            return builtins.open(file, mode, **named)
        return io.BufferedWriter(Raw(self, file, mode), 2**12)

    @property
    def has_failed(self):
        return self.calls >= self.n


class Raw(io.FileIO):
    """A file whose writes, and whose end, may fail."""

    def __init__(self, disk, file, mode):
        super().__init__(file, mode)
        self.disk = disk

    def write(self, data):
        return self.disk.ask(super().write, data)

    def close(self):
        if not self.closed:
            super().close()
            self.disk.ask(lambda: None)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


DRAWN = {}


@pytest.fixture(autouse=True)
def figures_drawn_once(monkeypatch):
    """What is on a figure does not depend on the disk, and drawing takes most of the time."""
    render = plot.render

    def render_once(kind, draw, answers, look=None):
        key = (kind, draw, look)
        if key not in DRAWN:
            DRAWN[key] = render(kind, draw, answers, look)
        return DRAWN[key]

    monkeypatch.setattr(plot, "render", render_once)


def failing(monkeypatch, lasting):
    """Disks that fail at the first, second, … call, until one of them has not.

    Where it is not said whether for good, every other one does.
    """
    for n in count(1):
        disk = Disk(n, n % 2 == 0 if lasting is None else lasting)
        monkeypatch.setattr(files, "os", disk)
        monkeypatch.setattr(store, "os", disk)
        monkeypatch.setattr(files, "open", disk.open_file, raising=False)
        yield disk
        if not disk.has_failed:
            assert n > 4
            return


def one_line(err):
    return err.startswith("pefourier: ") and err.endswith("\n") and err.count("\n") == 1


OUTPUTS = [
    *(f"encode dft --d 8 -S 6 --out x.{suffix}" for suffix in ("npy", "npz", "csv", "safetensors")),
    *(f"spectrum dft --d 8 --plot x.{suffix}" for suffix in ("png", "pdf", "svg")),
    "encode learned --d 64 -S 400 --out x.npz",
    "encode learned --d 64 -S 60 --out x.csv",
]


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "full"])
@pytest.mark.parametrize("before", [None, OLD], ids=["new", "old"])
@pytest.mark.parametrize("command", OUTPUTS)
def test_every_output_is_whole_or_as_it_was(run, monkeypatch, command, before, lasting):
    *_, name = command.split()
    for disk in failing(monkeypatch, lasting):
        if before is not None:
            with open(name, "wb") as stream:
                stream.write(before)
        done = run(*command.split())
        if disk.has_failed:
            assert (done.status, done.out) == (2, "")
            assert done.err == f"pefourier: cannot write '{name}': {FULL}\n"
            assert os.listdir() == ([] if before is None else [name])
        else:
            assert (done.status, done.err) == (0, "")
            assert os.listdir() == [name]
        if before is not None and disk.has_failed:
            with open(name, "rb") as stream:
                assert stream.read() == before
        for left in os.listdir():
            os.unlink(left)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "full"])
def test_the_recomputed_paper_is_whole_or_not_there(run, monkeypatch, lasting):
    claims = reproduce.all_claims()
    monkeypatch.setattr(reproduce, "all_claims", lambda *_: claims)
    assert run("reproduce", "--out", "whole", "--quiet").status == 0
    whole = contents("whole")
    assert len(whole) == 6
    for disk in failing(monkeypatch, lasting):
        done = run("reproduce", "--out", "some", "--quiet")
        some = contents("some")
        assert some.items() <= whole.items()
        if disk.has_failed:
            assert (done.status, done.out) == (2, "")
            assert one_line(done.err)
            assert f"{FULL}\n" in done.err
        else:
            assert (done.status, some) == (0, whole)
        for name in some:
            os.unlink(f"some/{name}")


def contents(folder):
    """The files of a folder and of those in it, hidden ones too."""
    root = Path(folder)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


TRAIN = (
    "train --dataset order:count=30,length=4 --epochs 1 --seeds 1 -e dft -e none --d 8 --heads 2"
)
TRAIN += " --batch-size 8 --quiet --json --save-tables tables --learn"
EITHER = [None, pytest.param(False, marks=pytest.mark.long)]
EITHER += [pytest.param(True, marks=pytest.mark.long)]


def without_times(folder):
    names = ("seconds", "step_seconds", "time")
    return [{k: v for k, v in row.items() if k not in names} for row in lines(folder)]


@pytest.mark.parametrize("lasting", EITHER, ids=["by turns", "once", "full"])
def test_a_training_goes_on_after_any_fault(run, monkeypatch, folder, lasting):
    """Files are whole, complete runs are kept, and what is resumed is what would have been."""
    monkeypatch.setattr(summary, "step_costs", lambda rows: {})  # times differ between runs
    words = report.words
    monkeypatch.setattr(
        report,
        "words",
        lambda room, code, **slots: "" if code == "time" else words(room, code, **slots),
    )
    assert run(*TRAIN.split(), "--out", "whole").status == 0
    whole = contents("whole")
    for disk in failing(monkeypatch, lasting):
        out = f"some{disk.n}"
        done = run(*TRAIN.split(), "--out", out)
        failed = disk.has_failed
        if failed:
            assert done.status == 2
            assert one_line(done.err)
            assert FULL in done.err
            disk.n, disk.lasting = sys.maxsize, False  # there is room again
            os.makedirs(out, exist_ok=True)  # an empty one is taken away
            for name in {"config.json", "summary.json"} & set(os.listdir(out)):
                with open(f"{out}/{name}") as stream:
                    json.load(stream)
            done = run(*TRAIN.split(), "--out", out, "--resume")
        assert (done.status, done.err) == (0, "")
        assert contents(out).keys() == whole.keys()
        assert without_times(folder / out) == without_times(folder / "whole")
        for name in ("summary.json", "summary.md", "comparison.png"):
            assert contents(out)[name] == whole[name]
        assert not any(name.startswith(".") for name in os.listdir(out))
        if not failed:
            return
        disk.n = 0  # for `failing`: it has failed


class Screen(io.StringIO):
    """A standard output whose n-th write or flush fails."""

    def __init__(self, disk):
        super().__init__()
        self.disk = disk

    def write(self, text):
        return self.disk.ask(super().write, text)

    def flush(self):
        return self.disk.ask(super().flush)


@pytest.mark.parametrize("command", ["spectrum", "list --json", "--help", "spectrum --help"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EPIPE, errno.EIO])
def test_an_answer_that_cannot_be_written_is_one_line(monkeypatch, capsys, command, error):
    monkeypatch.setattr("pefourier.cli.process.give_up_stdout", lambda: None)
    monkeypatch.setattr("pefourier.cli.main.give_up_stdout", lambda: None)
    monkeypatch.setattr(sys.modules[__name__].errno, "ENOSPC", error)
    for n in (1, 2):
        monkeypatch.setattr(sys, "stdout", Screen(Disk(n, lasting=True)))
        status = main(command.split())
        err = capsys.readouterr().err
        if error == errno.EPIPE:
            assert (status, err) == (0, "")
        else:
            assert (status, err) == (2, f"pefourier: cannot write standard output: {FULL}\n")


def test_a_table_is_not_half_written_by_a_short_write(run, monkeypatch):
    """Where the disk takes a part of what it is given, the rest is given again."""

    class Short(Raw):
        def write(self, data):
            return super().write(bytes(data)[: max(1, len(data) // 3)])

    disk = Disk(sys.maxsize, lasting=False)
    opened = lambda file, mode: io.BufferedWriter(Short(disk, file, mode))  # noqa: E731
    monkeypatch.setattr(files, "open", opened, raising=False)
    assert run("encode", "learned", "--d", 8, "--out", "x.npy").status == 0
    assert np.load("x.npy").shape == (80, 8)


def in_a_process(*arguments, before=None, **environment):
    """A command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pefourier", *arguments],
        env=os.environ | environment,
        preexec_fn=before,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("megabytes", [200, 600])
def test_a_small_address_space_is_enough_or_named(megabytes):
    """Once a trial of six threads took what the libraries then lacked."""
    most = megabytes * 2**20

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    done = in_a_process("check-faithful", "rope", "-S", "9", before=limit)
    assert done.returncode in (0, 2), done.stderr
    assert done.returncode == 0 or "not enough" in done.stderr


def test_without_docstrings_answers_are_the_same():
    done = in_a_process("encode", "axial:grid=3x3", "--d", "8", "--out", "/dev/null", "-q")
    bare = ("encode", "axial:grid=3x3", "--d", "8", "--out", "/dev/null", "-q")
    assert in_a_process(*bare, PYTHONOPTIMIZE="2").stdout == done.stdout


@pytest.mark.parametrize("alibi", ["x", 1, []])
def test_a_switch_is_true_or_false(alibi, tmp_path, run):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bloom", "alibi": alibi}))
    done = run("check-faithful", tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "must be true or false; got" in done.err


def test_a_deleted_working_directory_is_named(tmp_path, monkeypatch, run):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    done = run("encode", "dft", "--out", "x.npy")
    assert (done.status, done.out) == (2, "")
    assert done.err == "pefourier: the working directory was deleted; change to another\n"
    monkeypatch.chdir(tmp_path)


def test_a_home_that_is_not_writable_is_no_news():
    bare = ("spectrum", "dft", "--d", "8", "--plot", "x.svg", "-q")
    done = in_a_process(*bare, HOME="/proc/none", XDG_CACHE_HOME="", XDG_CONFIG_HOME="")
    assert (done.returncode, done.stderr) == (0, "")


def test_lines_about_nested_configs_are_short(tmp_path, run):
    """Once a part 300 configs inside was called by 6,000 characters."""
    given = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    for _ in range(300):
        given = {"text_config": given}
    (tmp_path / "config.json").write_text(json.dumps(given))
    done = run("check-faithful", tmp_path / "config.json", "-S", 9)
    assert done.status == 0
    assert "text_config of text_config" in done.out
    assert max(map(len, done.out.splitlines())) < 500


@pytest.mark.parametrize(
    "command",
    [
        "design --length 300 --d 1M",
        "design --length 64M --d 128 --for distance",
        "context rope --length 20k --against base=1e6",
        "check-faithful rope --length 20k",
        "check-faithful tupe:length=10000",
    ],
)
def test_minutes_of_work_are_refused_before_they_begin(run, monkeypatch, command):
    """Positions are fewer here: 64M of them take a second to number."""
    monkeypatch.setitem(COSTS, "positions in narrow formats", (1e-6, 1e4))
    begun = process_time()
    done = run(*command.split())
    assert (done.status, done.out) == (2, "")
    assert "the limit is" in done.err
    assert process_time() - begun < 2


def test_positions_are_counted_before_they_are_numbered(run):
    """Once 64M of them were numbered six times, 1.6 GB, and then refused."""
    tracemalloc.start()
    try:
        assert "the limit is" in run(*"context rope --length 64M".split()).err
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()

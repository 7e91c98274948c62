"""Faults that once ended in a traceback, a hang or half a file now end in one error line.

`Disk` replaces the functions of `os` and counts the system calls that write files. The n-th call
fails, for each n, either alone (a passing fault) or with all later calls (a full disk). `FAULTS`
lists damaged and odd inputs, one row for each kind.
"""

import errno
import io
import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from published_configs import SMALL_LLAMA
from stored import HEADER, npy_bytes, npy_file, npz_file, put, safetensors_bytes
from training import lines

from pefourier import reproduce
from pefourier.report import plot
from pefourier.train import store
from pefourier.writing import files

FULL = os.strerror(errno.ENOSPC)
OPEN = open  # the built-in function, before a test replaces it
CALLS = ("open", "write", "fsync", "replace", "dup")
OLD = b"what was there before\n"


class Disk:
    """The functions of `os`, of which the n-th call that writes fails."""

    def __init__(self, n, lasting, code=errno.ENOSPC):
        self.n, self.lasting, self.code, self.calls = n, lasting, code, 0

    def __getattr__(self, name):
        function = getattr(os, name)
        if name not in CALLS:
            return function
        return lambda *given, **named: self.ask(function, *given, **named)

    def ask(self, function, *given, **named):
        self.calls += 1
        if self.calls == self.n or (self.lasting and self.calls > self.n):
            raise OSError(self.code, FULL)
        return function(*given, **named)

    def open_file(self, file, mode="r", **named):
        """Open a file whose writes go to the disk in pieces."""
        if not {"w", "x"} & set(mode):
            return OPEN(file, mode, **named)
        return io.BufferedWriter(Raw(self, file, mode), 2**12)

    @property
    def class_of_paths(self):
        """Return a class of paths whose files are on this disk."""
        disk = self

        class PathOnDisk(type(Path())):
            def open(self, mode="r", **named):
                return disk.open_file(self, mode, **named)

            def replace(self, target):
                return disk.ask(super().replace, target)

        return PathOnDisk

    @property
    def has_failed(self):
        return self.calls >= self.n


class Raw(io.FileIO):
    """A file whose writes and whose closing may fail."""

    def __init__(self, disk, file, mode):
        super().__init__(file, mode)
        self.disk = disk

    def write(self, data):
        return self.disk.ask(super().write, data)

    def close(self):
        if not self.closed:
            super().close()
            self.disk.ask(lambda: None)


pytestmark = pytest.mark.usefixtures("folder")
DRAWN = {}


@pytest.fixture(autouse=True)
def figures_drawn_once(monkeypatch):
    """Render each figure once, because drawing takes most of the time."""
    render = plot.render

    def render_once(kind, draw, answers, look=None):
        key = (kind, draw, look)
        if key not in DRAWN:
            DRAWN[key] = render(kind, draw, answers, look)
        return DRAWN[key]

    monkeypatch.setattr(plot, "render", render_once)


def failing(monkeypatch, lasting):
    """Yield disks that fail at the first, second, … call, until one of the disks does not fail.

    Where `lasting` is None, every second disk fails for good.
    """
    for n in count(1):
        disk = Disk(n, n % 2 == 0 if lasting is None else lasting)
        monkeypatch.setattr(files, "os", disk)
        monkeypatch.setattr(store, "os", disk)
        monkeypatch.setattr(files, "Path", disk.class_of_paths)
        yield disk
        if not disk.has_failed:
            assert n > 4
            return


def contents(folder):
    """Return the contents of all files below a folder, hidden files too."""
    root = Path(folder)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


OUTPUTS = [
    *(f"encode dft --d 8 -S 6 --out x.{suffix}" for suffix in ("npz", "safetensors")),
    "spectrum dft --d 8 --plot x.svg",
    "encode learned --d 64 -S 400 --out x.npy",
    "encode learned --d 64 -S 60 --out x.csv",
]


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("before", [None, OLD])
@pytest.mark.parametrize("command", OUTPUTS)
def test_every_output_is_whole_or_as_it_was(run, monkeypatch, command, before, lasting):
    *_, name = command.split()
    earlier = {} if before is None else {name: before}
    for disk in failing(monkeypatch, lasting):
        if before is not None:
            put(name, before)
        done = run(command)
        if disk.has_failed:
            assert (done.status, done.out, contents(".")) == (2, "", earlier)
            assert done.err == f"pefourier: cannot write '{name}': {FULL}\n"
        else:
            assert (done.status, done.err, [*Path().iterdir()]) == (0, "", [Path(name)])
        for path in Path().iterdir():
            path.unlink()


def test_the_recomputed_paper_is_whole_or_not_there(run, monkeypatch):
    claims = reproduce.all_claims()
    monkeypatch.setattr(reproduce, "all_claims", lambda *_: claims)
    assert run("reproduce --out whole --quiet").status == 0
    whole = contents("whole")
    for disk in failing(monkeypatch, None):
        done = run("reproduce --out some --quiet")
        some = contents("some")
        assert some.items() <= whole.items()
        if disk.has_failed:
            assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        else:
            assert (done.status, some) == (0, whole)
        for name in some:
            Path("some", name).unlink()


TRAIN = (
    "train --dataset order:count=30,length=4 --steps 2 --seeds 1 -e dft -e none --d 8 --heads 2"
    " --batch-size 8 --quiet --json --save-models models"
)


def without_times(folder):
    times = dict.fromkeys(("seconds", "time"))
    return [row | times for row in lines(folder)]


@pytest.mark.parametrize("lasting", [None, pytest.param(True, marks=pytest.mark.long)])
def test_a_training_goes_on_after_any_fault(run, monkeypatch, folder, lasting):
    """Files are whole, complete runs are kept, and a resumed training equals an unbroken one."""
    assert run(TRAIN, "--out", "whole").status == 0
    whole = contents("whole")
    for disk in failing(monkeypatch, lasting):
        out = f"some{disk.n}"
        done = run(TRAIN, "--out", out)
        failed = disk.has_failed
        if failed:
            assert (done.status, done.err.count("\n"), FULL in done.err) == (2, 1, True)
            disk.n, disk.lasting = sys.maxsize, False  # the disk has room again
            Path(out).mkdir(parents=True, exist_ok=True)  # an interrupted run removes a new folder
            for path in filter(Path.exists, (Path(out, "config.json"), Path(out, "summary.json"))):
                json.loads(path.read_text())
            done = run(TRAIN, "--out", out, "--resume")
        assert (done.status, done.err) == (0, "")
        assert contents(out).keys() == whole.keys()
        assert without_times(folder / out) == without_times(folder / "whole")
        for name in ("summary.json", "summary.md", "comparison.png"):
            assert contents(out)[name] == whole[name]
        if not failed:
            return
        disk.n = 0  # marks the disk as failed, so `failing` goes on


def test_a_table_is_not_half_written_by_a_short_write(run, monkeypatch):
    """A write that the disk accepts only in part is continued with the rest."""

    class Short(Raw):
        def write(self, data):
            return super().write(bytes(data)[: max(1, len(data) // 3)])

    disk = Disk(sys.maxsize, lasting=False)
    monkeypatch.setattr(disk, "open_file", lambda *how: io.BufferedWriter(Short(disk, *how)))
    monkeypatch.setattr(files, "Path", disk.class_of_paths)
    assert run("encode learned --d 8 --out x.npy").status == 0
    assert np.load("x.npy").shape == (80, 8)


ROWS = np.sin(np.arange(2400.0)).reshape(1200, 2)
POINTERS = HEADER.replace(b"'<f8'", b"'|O'")
THREE, FORTY = (POINTERS.replace(b"5, 3", axes) for axes in (b"3,", b"40, 1, 1"))
LETTERS = HEADER.replace(b"<f8", b"<U1").replace(b"5, 3", b"1200,")
F4 = {"a": {"dtype": "F4", "shape": [8, 1], "data_offsets": [0, 4]}}
NESTED = SMALL_LLAMA
for _ in range(300):
    NESTED = {"text_config": NESTED}


def smd(**members):
    """Write a recording of SMD with some members replaced."""
    label = np.arange(1200) % 120 < 10
    Path("smd").mkdir()
    members = {"train": ROWS, "test": ROWS, "label": label} | members
    put("smd/machine-1-1.npz", npz_file(members))


def msl(events="[[1, 2]]", channel="A-1", **members):
    """Write a channel of MSL with some members replaced."""
    for part in ("train", "test"):
        Path("msl", part).mkdir(parents=True)
        content = members.get(part, ROWS)
        put(f"msl/{part}/A-1.npy", content if isinstance(content, bytes) else npy_file(content))
    text = f'chan_id,spacecraft,anomaly_sequences\n{channel},MSL,"{events}"\nA-1,SMAP,[]\n'
    put("msl/labeled_anomalies.csv", text.encode())


def own(**members):
    put("x.npz", npz_file({"X": np.ones((40, 1, 1)), "y": np.arange(40) % 2} | members))


def ragged():
    torch.save({"t": torch.nested.nested_tensor([torch.ones(2, 3)])}, "x.pt")


def code(text):
    return lambda: Path("user.py").write_text(text)


def table(content):
    return lambda: np.save("x.npy", content)


def config(**values):
    return lambda: Path("config.json").write_text(json.dumps(values))


def loop():
    Path("x.npy").symlink_to("y.npy")
    Path("y.npy").symlink_to("x.npy")


SMD = "train --dataset smd --data . --window 16"
MSL = "train --dataset msl --data . --window 16"
BAD = b"{'descr': '<f8', 'shape': (1"
PAIRS = np.zeros(1200, "f4,i4")
CONFIG, TRAIN_OWN, TIMES = "check-faithful config.json", "train --dataset x.npz", "--times x.npy"
FAULTS = [  # files, command, and what its error line names, if it fails
    (lambda: put("x.npy", npy_bytes(POINTERS, b"A" * 24)), "spectrum x.npy", "object"),
    (lambda: put("x.npy", npy_bytes(THREE, b"A" * 24)), f"spectrum mtan {TIMES}", "object"),
    (table(np.full((3, 3), 1e308) * [[1], [-1], [0.5]]), "spectrum x.npy", "1e+308"),
    (table(np.full((3, 3), 5e-324) * [[1], [2], [0]]), "compare x.npy dft", "9.88e-324"),
    (table(np.arange(100_000.0) ** 1.1), f"spectrum mtan {TIMES}", "too many"),
    (loop, "check-faithful x.npy", "symbolic links"),
    (loop, "encode dft --out x.npy", "symbolic links"),
    (lambda: os.mkfifo("x.npz"), TRAIN_OWN, "pipe"),
    (lambda: put("x.safetensors", safetensors_bytes(F4, bytes(4))), "spectrum x.safetensors", "F4"),
    (ragged, "spectrum x.pt", "plain numbers"),
    (lambda: own(X=npy_bytes(FORTY)), TRAIN_OWN, "Python objects"),
    (lambda: own(X=npy_bytes(BAD)), TRAIN_OWN, "header"),
    (lambda: smd(train=np.array(1.5)), SMD, "float64 ()"),
    (lambda: smd(test=np.zeros((1200, 2), "f4,i4")), SMD, "void64"),
    (lambda: smd(label=PAIRS), SMD, "void64"),
    (lambda: smd(label=npy_bytes(LETTERS, b"\xff" * 4800)), SMD, "utf-32"),
    (lambda: msl(test=np.array(1.5)), MSL, "float64 ()"),
    (lambda: msl(train=npy_bytes(BAD)), MSL, "header"),
    (lambda: msl("[" * 5000 + "]" * 5000), MSL, "labeled_anomalies.csv"),
    (lambda: msl("x" * 200_000), MSL, "labeled_anomalies.csv"),
    (lambda: msl(channel="../../x"), MSL, "'../../x'"),
    (code("import sys\nsys.exit(0)\n"), "spectrum py:user:f", "SystemExit"),
    (code("def f(n, d): raise SystemExit(0)\n"), "spectrum py:user:f", "SystemExit"),
    (config(model_type="bloom", alibi="x"), CONFIG, "true or false"),
    (config(model_type="bloom", alibi=[]), CONFIG, "true or false"),
    (config(**NESTED), f"{CONFIG} -S 9", ""),
    (Path, "encode swin2:length=17,scale=16 --out b.npy", ""),
]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("make", "command", "part"),
    FAULTS,
    ids=lambda x: "make" if callable(x) else str(x)[:40],
)
def test_a_fault_of_each_kind_is_one_line(run, monkeypatch, make, command, part):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # the limit of a fresh interpreter
    make()
    done = run(*command.split(" "))
    sys.setrecursionlimit(limit)
    assert (done.status, done.err.count("\n")) == ((2, 1) if part else (0, 0)), done.err
    assert part in done.err
    assert max(map(len, (done.out + done.err).splitlines())) < 600


def test_an_environment_changes_no_answer(run):
    """The answer needs no docstrings (PYTHONOPTIMIZE=2) and no home directory."""
    words = ["spectrum", "dft", "--d", "8", "--plot", "x.svg", "-q"]
    lacking = {"PYTHONOPTIMIZE": "2", "HOME": "/proc/none", "XDG_CACHE_HOME": ""}
    env = os.environ | lacking | {"XDG_CONFIG_HOME": ""}
    command = [sys.executable, "-m", "pefourier", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, run(*words).out, "")


def test_a_deleted_working_directory_is_one_line(monkeypatch, refused, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    refused("encode dft --out x.npy")
    monkeypatch.chdir(tmp_path)

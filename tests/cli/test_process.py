"""The process as a shell sees it: pipes, full disks, signals, races and memory."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from published_configs import sized
from stored import HEADER, npy_bytes

from pefourier.cli.main import main

pytestmark = pytest.mark.usefixtures("folder")
PROGRAM = [sys.executable, "-m", "pefourier"]
GIB, MIB = 2**30, 2**20
# Processes are forked from a parent that has imported the program. The peak comes from the memory
# map of each child, because ru_maxrss would count the parent's peak at the fork.
MEASURE = """
import json, os, sys
import numpy
from pefourier.cli.main import main

for line in sys.stdin:
    folder, out, err, arguments = json.loads(line)
    if not os.fork():
        os.chdir(folder)
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY), number)
        status = main(arguments)
        with open("/proc/self/status") as lines:
            (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM")]
        print(1024 * int(peak), sum(os.times()[:2]), file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def shell(command):
    command = command.replace("pefourier", " ".join(PROGRAM), 1)
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


def start(*arguments):
    words = [*PROGRAM, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def parent():
    command, pipe = [sys.executable, "-c", MEASURE], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def measured(parent, tmp_path_factory):
    """Return a function that runs a command and measures its process.

    The function returns the exit status, standard output, the lines of standard error, the peak
    memory in bytes and the CPU seconds.
    """

    def command(*arguments):
        paths = [tmp_path_factory.mktemp("streams") / name for name in ("out", "err")]
        for path in paths:
            path.touch()
        words = [str(Path.cwd()), *map(str, paths), list(map(str, arguments))]
        print(json.dumps(words), file=parent.stdin, flush=True)
        status = int(parent.stdout.readline())
        out, err = (path.read_text() for path in paths)
        *lines, used = err.splitlines()
        peak, seconds = used.split()
        return status, out, lines, int(peak), float(seconds)

    return command


@pytest.mark.parametrize("command", ["--help", "list", "check-faithful --csv", "reproduce --json"])
def test_a_pipe_that_closes_early_is_no_error(command):
    done = shell(f"set -o pipefail; pefourier {command} 2>err | true")
    lines = Path("err").read_text().splitlines()
    notes = [line for line in lines if not line.startswith("pefourier: wrote ")]
    assert (done.returncode, done.stderr, notes) == (0, "", [])


@pytest.mark.parametrize("command", ["spectrum", "list --json", "explain --schema", "--help"])
@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_an_answer_or_an_error_that_cannot_be_written(command, redirection):
    done = shell(f"pefourier {command} {redirection}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = shell(f"pefourier spectrum nothing 2{redirection}")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(("status", "left"), [(0, 2), (1, 1)])
def test_a_failed_last_write_keeps_the_earlier_status(status, left):
    code = f"from pefourier.cli.process import leave; print('x'); leave({status})"
    command, error = [sys.executable, "-c", code], {"stderr": subprocess.PIPE, "text": True}
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, env=buffered, check=False, **error)
    stated = "pefourier: cannot write standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (left, stated)


def test_two_commands_that_write_one_file_leave_one_whole_file():
    """Every reader sees the whole table of one of two commands that write the same file."""
    tables = {}
    for d in (64, 32):
        assert shell(f"pefourier encode dft --d {d} --out one.npy").returncode == 0
        tables[d] = np.load("one.npy")
    pair = [start("encode", "dft", "--d", d, "--out", "one.npy") for d in tables]
    while any(process.poll() is None for process in pair):
        seen = np.load("one.npy")
        np.testing.assert_array_equal(seen, tables[seen.shape[1]])
    assert [process.communicate()[1] for process in pair] == ["", ""]
    assert [process.returncode for process in pair] == [0, 0]
    assert [*Path().iterdir()] == [Path("one.npy")]


def draft():
    """Wait for a partly written draft of a file and return its name."""
    for _ in range(3000):
        drafts = [*Path().glob(".pefourier-*")]
        if drafts and drafts[0].stat().st_size > 2**16:
            return drafts[0].name
        time.sleep(0.01)
    raise AssertionError([*Path().iterdir()])


@pytest.mark.parametrize(
    ("numbers", "status", "message", "drafts"),
    [
        ([signal.SIGINT], 130, "pefourier: interrupted\n", 0),
        ([signal.SIGTERM, signal.SIGTERM], 143, "", 0),
        ([signal.SIGKILL], -signal.SIGKILL, "", 1),
    ],
)
def test_a_signal_while_a_file_is_written_leaves_the_old_one(numbers, status, message, drafts):
    Path("x.csv").write_text("1,2\n")
    process = start(*"encode learned --length 40k --out x.csv".split())  # takes seconds to write
    name = draft()
    for number in numbers:
        process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (status, "", message)
    assert sorted(path.name for path in Path().iterdir()) == [name, "x.csv"][1 - drafts :]
    assert Path("x.csv").read_text() == "1,2\n"


TABLE = """
import atexit, os, signal
import numpy as np


def table(length, d):
    return np.eye(length, d)
"""
KILL = "os.kill(os.getpid(), signal.{})"
AT_EXIT = "\natexit.register(os.kill, os.getpid(), signal.{})\n"
TO_ERROR = "\ntry:\n    {}\nexcept BaseException:\n    raise ImportError('core') from None\n"
ENDINGS = {  # Python source of a user's encoding, exit status, message
    TABLE: (0, ""),
    TABLE + KILL.format("SIGINT"): (130, "pefourier: interrupted\n"),
    TABLE + KILL.format("SIGTERM"): (143, ""),
    TABLE + AT_EXIT.format("SIGINT"): (130, ""),
    TABLE + AT_EXIT.format("SIGTERM"): (143, ""),
    TABLE + TO_ERROR.format(KILL.format("SIGINT")): (130, "pefourier: interrupted\n"),
    TABLE + TO_ERROR.format(KILL.format("SIGTERM")): (143, ""),
}


@pytest.mark.parametrize("code", ENDINGS)
def test_a_signal_at_any_time_ends_the_command_with_its_status(code):
    Path("user.py").write_text(code + "\natexit.register(open, 'done', 'w')\n")
    process = start("spectrum", "py:user:table")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == ENDINGS[code]
    assert Path("done").exists() == (process.returncode == 0 or "register(os.kill" in code)


def test_an_interrupt_during_imports_leaves_no_traceback_and_is_ignored_under_nohup(tmp_path):
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nos._exit(7)\n"
    )
    command = [*PROGRAM, "--version"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
    ignored = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    assert subprocess.run(command, env=env, check=False, **ignored).returncode == 7


def small_bad_files():
    """Write files of at most 1 MiB that declare or nest more data than they hold."""
    tensor = {"dtype": "F64", "shape": [10**12, 384], "data_offsets": [0, 8 * 384 * 10**12]}
    header = json.dumps({"pe": tensor}).encode()
    nan = np.array([[0x7FF8000000000001, 0x7FF0000000000001], [0, 1]], np.uint64)
    llama = {"model_type": "llama", "head_dim": 128, "max_position_embeddings": 2**53 - 1}
    t5 = {"model_type": "t5", "num_heads": 8, "relative_attention_num_buckets": 10**12}
    texts = {
        "deep.json": '{"text_config":' * 50_000 + "{}" + "}" * 50_000,
        "nested.json": '{"text_config":' * 900 + "{}" + "}" * 900,
        "brackets.json": "[" * 1_000_000,
        "digits.json": '{"head_dim": ' + "9" * 100_000 + "}",
        "long.json": json.dumps(llama),
        "wide.json": json.dumps({**llama, "head_dim": 2**40}),
        "alibi.json": json.dumps({"model_type": "bloom", "n_head": 2**53 - 1}),
        "buckets.json": json.dumps(t5),
        "columns.csv": "1," * 500_000 + "x",
        "lines.csv": "1\n" * 300_000 + "x",
        "endless.csv": "9" * 1_000_000,
    }
    return {
        "rows.npy": npy_bytes(HEADER.replace(b"5, 3", b"1000000000000, 384")),
        "rows.safetensors": len(header).to_bytes(8, "little") + header,
        "nan.npy": npy_bytes(HEADER.replace(b"5, 3", b"2, 2"), nan.tobytes()),
    } | {name: text.encode() for name, text in texts.items()}


BAD_FILES = small_bad_files()
LIMITS = ("limit", "up to", "too many")
HUGE = [
    "spectrum sinusoidal:length=1000000000000000",
    "spectrum dft:d=1000000000000",
    "spectrum --lattice 1000000000000",
    "design --length 64M --d 128 --for rank",
    "check-faithful rope --length 60M",
    "context rope --length 60M --against base=1e6",
    "check-faithful tupe:length=10000",
    "spectrum --sigma 1e308 --d 16 --lattice 100000000",
    "check-faithful learned --length 10000000 --d 4096",
    "check-faithful tree --length 100000",
    "check-faithful recurrent --d 100000",
    "check-faithful shaw:clip=1000000000000",
    "check-faithful t5:buckets=1000000000000,max_distance=10000000000000",
    "check-faithful tupe --length 40000",
    "check-faithful erpe --length 60000000",
    "check-faithful alibi --length 1000000",
    "relations alibi --length 1000000",
    "compare alibi kerple --length 1000000",
    "check-faithful learned --length 1000000 --d 64",
    "encode rope --length 60000000 --out x.npy",
    "context rope --length 64M",
    "design --length 300 --d 1M",
    "reconstruct --lattice 60000000 --pos " + " ".join(map(str, range(20))),
]


@pytest.mark.parametrize("command", [*(f"check-faithful {name}" for name in BAD_FILES), *HUGE])
def test_impossible_sizes_are_refused_cheaply(measured, command):
    name = command.split()[1]
    if name in BAD_FILES:
        Path(name).write_bytes(BAD_FILES[name])
    status, out, err, peak, seconds = measured(*command.split())
    assert (status, out, len(err)) == (2, "", 1), (err, seconds, peak)
    assert any(part in err[0] for part in ([name] if name in BAD_FILES else LIMITS)), err
    assert peak < GIB
    assert seconds < 5


@pytest.mark.parametrize("spec", ["codes.npy", "sinusoidal:length=131072,d=256"])
def test_a_large_table_is_answered_within_its_size(measured, spec, rng):
    """Memory stays near the size of the table for a mapped file and for a formula."""
    np.save("codes.npy", rng.standard_normal((12_000, 200)))
    status, out, _, peak, _ = measured("check-faithful", spec, "--json", "-q")
    (answer,) = json.loads(out)["results"]
    rows, d = (12_000, 200) if spec == "codes.npy" else (131072, 256)
    assert (status, answer["distinct"], answer["verdict"]) == (0, rows, "injective")
    assert peak < rows * d * 8 + 512 * MIB


STREAMS = ["x.npy", "x.safetensors", "x.npy --what cos", "x.safetensors --dtype bfloat16"]


@pytest.mark.long
@pytest.mark.parametrize("out", STREAMS)
def test_a_gibibyte_is_written_in_little_memory(measured, out):
    name = out.split()[0]
    status, _, err, peak, seconds = measured(
        *f"encode rope --length 1M --d 128 --out {out}".split()
    )
    numbers = 2**27 * (2 if "bfloat16" in out else 8)
    assert (status, err, Path(name).stat().st_size // numbers) == (0, [], 1)
    assert peak < 200 * MIB
    assert seconds < 20
    Path(name).unlink()


def test_a_head_of_a_million_dimensions_is_answered(measured, written):
    path = written(sized("llama", 2**20, 1, 2**26))
    status, _, err, peak, _ = measured("context", path, "--json", "--length", 8192)
    assert (status, err, peak < 2 * GIB) == (0, [], True)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_names_are_shown_escaped_on_any_terminal(encoding):
    names = ["a\nb\x1b[31m\u202e.npy", os.fsdecode(b"\xff.npy")]
    for name in names:
        np.save(name, np.eye(3))
    words, env = [*PROGRAM, "spectrum", "dft", *names, "--full"], {"PYTHONIOENCODING": encoding}
    done = subprocess.run(words, capture_output=True, env=os.environ | env, check=True)
    text = done.stdout.decode(encoding)
    shown = ("a\\nb\\x1b[31m\\u202e.npy: ", "\\udcff.npy: ")
    assert [part for part in shown if part not in text] == []
    assert ("2π/N" if encoding == "utf-8" else "2\\u03c0/N") in text
    assert "\x1b" not in text


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def on_screen(monkeypatch, words):
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    assert main(words.split()) == 0
    return screen.getvalue()


def test_a_terminal_gets_curves_and_colours(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1m" in on_screen(monkeypatch, "spectrum")
    for plain in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patched:
            patched.setenv(*plain)
            assert "\x1b" not in on_screen(patched, "spectrum")
    monkeypatch.setenv("NO_COLOR", "1")
    rebuilt = on_screen(monkeypatch, "reconstruct rope dft none --d 64 --pos 5")
    assert "█ is 0.996" in rebuilt
    monkeypatch.setattr(Terminal, "encoding", "iso-8859-15")
    assert "█" not in on_screen(monkeypatch, "spectrum dft")

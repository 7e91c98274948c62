"""The process as a whole: pipes, full disks, signals, races and memory, as a shell sees them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

PROGRAM = [sys.executable, "-m", "pefourier"]
GIB, MIB = 2**30, 2**20
# Processes are forked from one that has imported the program; the peak is that of each one's own
# memory map: ru_maxrss would count the parent's at the fork.
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
LONG = ("encode", "learned", "--length", 40_000, "--out", "x.csv")  # seconds of writing lines
needs_rules = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
    """Exit status, standard output, lines of standard error, peak bytes and CPU seconds."""

    def command(*arguments):
        paths = [tmp_path_factory.mktemp("said") / name for name in ("out", "err")]
        for path in paths:
            path.touch()
        asked = [os.getcwd(), *map(str, paths), list(map(str, arguments))]
        print(json.dumps(asked), file=parent.stdin, flush=True)
        status = int(parent.stdout.readline())
        out, err = (path.read_text() for path in paths)
        *lines, used = err.splitlines()
        peak, seconds = used.split()
        return status, out, lines, int(peak), float(seconds)

    return command


def put(path, content):
    with open(path, "wb") as stream:
        stream.write(content if isinstance(content, bytes) else content.encode())


def test_a_pipe_that_closes_early_is_no_error():
    done = shell("set -o pipefail; pefourier check-faithful --csv | true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "--version",
        "spectrum --help",
        "list",
        "--show-completion bash",
        "reproduce --json",
    ],
)
def test_any_answer_may_find_its_pipe_closed(command):
    done = shell(f"set -o pipefail; pefourier {command} 2>err | true")
    with open("err") as stream:
        said = [line for line in stream if not line.startswith("pefourier: wrote ")]
    assert (done.returncode, done.stderr, said) == (0, "", [])


@pytest.mark.long
def test_files_of_a_training_are_written_though_nobody_reads_its_answer():
    task = "--dataset order:count=30,length=4 --epochs 1 --seeds 1 -e dft -e none"
    done = shell(f"set -o pipefail; pefourier train {task} --quiet --out runs | true")
    assert (done.returncode, done.stderr) == (0, "")
    assert {"summary.json", "summary.md", "comparison.png"} <= set(os.listdir("runs"))


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2> >(true)"])
def test_nobody_reads_the_error(redirection):
    done = shell(f"pefourier spectrum nothing {redirection}")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("command", ["encode dft --out full.csv", "spectrum --plot full.svg"])
def test_a_full_disk(command):
    """A real one; `test_faults` has every format."""
    *_, name = command.split()
    os.symlink("/dev/full", name)
    done = shell(f"pefourier {command}")
    message = f"pefourier: cannot write '{name}': No space left on device\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    assert os.listdir() == [name]


def test_a_file_in_the_place_of_a_folder(folder):
    put("file", "")
    for option in ("encode dft --out file/x.npy", "spectrum --plot file/x.png"):
        done = shell(f"pefourier {option}")
        path = option.split()[-1]
        message = f"cannot write '{path}': make the folder '{folder}/file' first"
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"pefourier: {message}\n"


@needs_rules
def test_a_read_only_folder(folder):
    os.mkdir("closed", 0o555)
    done = shell("pefourier encode dft --out closed/x.npy")
    message = f"cannot write 'closed/x.npy': '{folder}/closed' is write-protected; name another"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"pefourier: {message}\n")


def test_two_commands_that_write_one_file_leave_one_whole_file():
    """Pairs at once: every reader, at any time, sees the codes of one of the two."""
    tables = {}
    for d in (64, 32):
        assert shell(f"pefourier encode dft --d {d} --out one.npy").returncode == 0
        tables[d] = np.load("one.npy")
    for _ in range(2):
        pair = [start("encode", "dft", "--d", d, "--out", "one.npy") for d in tables]
        while any(process.poll() is None for process in pair):
            seen = np.load("one.npy")
            np.testing.assert_array_equal(seen, tables[seen.shape[1]])
        assert [process.communicate()[1] for process in pair] == ["", ""]
        assert [process.returncode for process in pair] == [0, 0]
    assert os.listdir() == ["one.npy"]


def draft():
    """The name of the draft of a file, once some of it is written."""
    for _ in range(3000):
        names = [name for name in os.listdir() if name.startswith(".pefourier-")]
        if names and os.path.getsize(names[0]) > 2**16:
            return names[0]
        time.sleep(0.01)
    raise AssertionError(os.listdir())


@pytest.mark.parametrize(
    ("number", "status", "message", "left"),
    [
        (signal.SIGINT, 130, "pefourier: interrupted\n", 0),
        (signal.SIGTERM, 128 + signal.SIGTERM, "", 0),
        (signal.SIGKILL, -signal.SIGKILL, "", 1),
    ],
    ids=["interrupted", "terminated", "killed"],
)
def test_a_signal_while_a_file_is_written_leaves_the_old_one(number, status, message, left):
    put("x.csv", "1,2\n")
    process = start(*LONG)
    name = draft()
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (status, "", message)
    assert sorted(os.listdir()) == [name, "x.csv"][1 - left :]
    with open("x.csv") as stream:
        assert stream.read() == "1,2\n"


def test_an_interrupt_while_it_computes():
    process = start("check-faithful", "learned", "--length", 65_536)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "pefourier: interrupted\n")


def test_names_are_shown_escaped():
    name = "a\nb\x1b[31m\u202e.npy"
    np.save(name, np.eye(3))
    done = subprocess.run([*PROGRAM, "check-faithful", name], capture_output=True, text=True)
    assert done.stdout.startswith("a\\nb\\x1b[31m\\u202e.npy: ")
    done = subprocess.run(
        [*PROGRAM, "encode", "dft", "--out", name], capture_output=True, text=True
    )
    assert "a\\nb\\x1b[31m\\u202e.npy: float64" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(("encoding", "head"), [("ascii", "2\\u03c0/N  1"), ("utf-8", "2π/N  1")])
def test_a_terminal_that_knows_no_greek(encoding, head):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    words = [*PROGRAM, "spectrum", "dft", "--d", "8"]
    done = subprocess.run(words, capture_output=True, env=environment, check=True)
    assert head in done.stdout.decode(encoding)


def test_a_file_name_that_is_no_unicode():
    name = os.fsdecode(b"\xff.npy")
    np.save(name, np.eye(3))
    for form, shown in ((), "\\udcff.npy"), (("--csv",), "\\udcff.npy"), (("--json",), name):
        done = subprocess.run([*PROGRAM, "spectrum", name, *form], capture_output=True, check=True)
        out = done.stdout.decode()
        assert shown in (json.loads(out)["results"][0]["spec"] if form == ("--json",) else out)


def npy(header, data=b""):
    text = header.encode()
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + data


def small_bad_files():
    """Files of at most 1 MiB that promise, nest or hide more than they hold."""
    rows = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 384), }\n"
    tensor = {"dtype": "F64", "shape": [10**12, 384], "data_offsets": [0, 8 * 384 * 10**12]}
    header = json.dumps({"pe": tensor}).encode()
    nan = np.array([[0x7FF8000000000001, 0x7FF0000000000001], [0, 1]], np.uint64)
    llama = {"model_type": "llama", "head_dim": 128, "max_position_embeddings": 2**53 - 1}
    return {
        "rows.npy": npy(rows),
        "rows.safetensors": len(header).to_bytes(8, "little") + header,
        "nan.npy": npy(rows.replace("1000000000000, 384", "2, 2"), nan.tobytes()),
        "deep.json": '{"text_config":' * 50_000 + "{}" + "}" * 50_000,
        "nested.json": '{"text_config":' * 900 + "{}" + "}" * 900,
        "brackets.json": "[" * 1_000_000,
        "digits.json": '{"head_dim": ' + "9" * 100_000 + "}",
        "long.json": json.dumps(llama),
        "wide.json": json.dumps({**llama, "head_dim": 2**40}),
        "alibi.json": json.dumps({"model_type": "bloom", "n_head": 2**53 - 1}),
        "buckets.json": json.dumps(
            {"model_type": "t5", "num_heads": 8, "relative_attention_num_buckets": 10**12}
        ),
        "columns.csv": "1," * 500_000 + "x",
        "lines.csv": "1\n" * 300_000 + "x",
        "endless.csv": "9" * 1_000_000,
    }


@pytest.mark.parametrize("name", sorted(small_bad_files()))
def test_a_small_bad_file_costs_little(measured, name):
    put(name, small_bad_files()[name])
    status, out, err, peak, seconds = measured("check-faithful", name)
    assert (status, out, len(err)) == (2, "", 1), err
    assert name in err[0]
    assert peak < GIB
    assert seconds < 5


def test_links_in_a_loop(measured):
    os.symlink("b.npy", "a.npy")
    os.symlink("a.npy", "b.npy")
    for command in ("check-faithful a.npy", "encode dft --out a.npy", "spectrum a.npy/config.json"):
        status, out, err, _, _ = measured(*command.split())
        assert (status, out, len(err)) == (2, "", 1)
        assert "'a.npy" in err[0]
        assert "Too many levels of symbolic links" in err[0]


HUGE = [
    "spectrum sinusoidal:length=1000000000000000",
    "spectrum dft:d=1000000000000",
    "spectrum --lattice 1000000000000",
    "spectrum --sigma 1e308 --d 16 --lattice 100000000",
    "check-faithful learned --length 10000000 --d 4096",
    "check-faithful tree --length 100000",
    "check-faithful recurrent --d 100000",
    "check-faithful shaw:clip=1000000000000",
    "check-faithful t5:buckets=1000000000000,max_distance=10000000000000",
    "check-faithful tupe --length 40000",
    "check-faithful erpe --length 60000000",
    "check-faithful alibi --length 1000000",
    "spectrum alibi --length 1000000",
    "relations alibi --length 1000000",
    "compare alibi kerple --length 1000000",
    "check-faithful learned --length 1000000 --d 64",
    "encode rope --length 60000000 --out x.npy",
    "reconstruct --lattice 60000000 --pos " + " ".join(map(str, range(20))),
]


@pytest.mark.parametrize("command", HUGE)
def test_what_no_machine_holds_is_refused(measured, command):
    status, out, err, peak, seconds = measured(*command.split())
    assert (status, out, len(err)) == (2, "", 1), (err, seconds, peak)
    assert "limit" in err[0] or "up to" in err[0] or "too many" in err[0], err
    assert peak < GIB
    assert seconds < 5


def test_a_head_of_a_million_dimensions_is_answered(measured):
    """Sums over pairs are taken in parts: once 3.4 GiB."""
    config = {"model_type": "llama", "hidden_size": 2**20, "num_attention_heads": 1}
    Path("wide.json").write_text(json.dumps({**config, "max_position_embeddings": 2**26}))
    status, out, err, peak, _ = measured("context", "wide.json", "--length", "8k", "--json")
    assert (status, err) == (0, [])
    assert json.loads(out)["results"][0]["rotations"][0]["pairs"] == 2**19
    assert peak < GIB


def test_rotations_over_131072_positions_are_compared_within_two_gib(measured):
    status, _, err, peak, _ = measured(*"compare rope:rho=5e5 rope -S 131072 --d 128".split())
    assert (status, err) == (1, [])
    assert peak < 2 * GIB


def test_times_beyond_a_basis_are_refused(measured):
    np.save("times.npy", np.arange(100_000.0) ** 1.1)
    status, out, err, peak, _ = measured("spectrum", "mtan", "--times", "times.npy")
    assert (status, out) == (2, "")
    assert err == ["pefourier: 100000 times are too many for an (n, n) basis, up to 8192"]
    assert peak < GIB


def test_a_mapped_table_is_not_held_twice(measured):
    """A learned-like table: some structure, float32, whose products are 1.1 GiB."""
    rng = np.random.default_rng(0)
    table = np.lib.format.open_memmap("wpe.npy", "w+", np.float32, (12_000, 200))
    table[:] = rng.normal(size=(12_000, 200)) * 0.98 ** np.arange(200)
    table.flush()
    status, out, err, peak, _ = measured("check-faithful", "wpe.npy", "--json")
    assert (status, err) == (0, [])
    (answer,) = json.loads(out)["results"]
    assert (answer["distinct"], answer["rank"], answer["verdict"]) == (12_000, 200, "injective")
    assert peak < table.nbytes + 512 * MIB


def test_declared_codes_are_not_held(measured):
    status, out, err, peak, _ = measured(
        *"check-faithful sinusoidal --length 131072 --d 256 --json".split()
    )
    assert (status, err) == (0, [])
    (answer,) = json.loads(out)["results"]
    assert (answer["distinct"], answer["verdict"]) == (131072, "injective")
    assert peak < 131072 * 256 * 8 + 512 * MIB


def test_an_interrupt_during_imports_leaves_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "pefourier", "--version"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_interrupt_that_is_ignored_stays_so(tmp_path):
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nos._exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pefourier", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # as nohup does
    )
    assert done.returncode == 7

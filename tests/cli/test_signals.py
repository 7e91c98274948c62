"""Signals: the first ends a command tidily, the next one at once, and the end prints nothing."""

import os
import signal
import subprocess
import sys
import time

import pytest

from pefourier.cli import process

PROGRAM = [sys.executable, "-m", "pefourier"]
BUSY = """
import numpy as np


def table(length, d):
    open("begun", "w").close()
    return np.linalg.eig(np.random.default_rng(0).normal(size=(2500, 2500)))[0].real[:, None]
"""
NUMBERS = {"int": signal.SIGINT, "term": signal.SIGTERM}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*arguments, **environment):
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def ended(code, *others, **environment):
    """Status and standard error of a command on a user's code that is given here."""
    with open("user.py", "w") as stream:
        stream.write(code)
    process = start("spectrum", "py:user:table", *others, **environment)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def wait_for(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(os.listdir())


@pytest.mark.parametrize("second", NUMBERS)
@pytest.mark.parametrize("first", NUMBERS)
def test_the_second_signal_ends_a_command_that_is_busy_in_a_library(first, second):
    """Python itself would handle both only when the eigenvalues are there, many seconds later."""
    with open("user.py", "w") as stream:
        stream.write(BUSY)
    process = start("spectrum", "py:user:table")
    wait_for(lambda: os.path.exists("begun"))
    time.sleep(0.3)
    process.send_signal(NUMBERS[first])
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < 8:
        time.sleep(0.005)  # two that are equal may arrive as one where the machine is busy
        process.send_signal(NUMBERS[second])
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert time.monotonic() - began < 8  # alone, the eigenvalues take some 20 s
    # of two that come at once a loaded machine may hand the second to another thread first
    assert process.returncode in {128 + NUMBERS[second], 128 + NUMBERS[first]}
    assert (out, err.removeprefix("pefourier: interrupted\n")) == ("", "")


def test_two_signals_while_a_file_is_written_leave_no_draft():
    process = start("encode", "learned", "--length", "40000", "--out", "x.csv")
    wait_for(lambda: any(os.path.getsize(name) > 2**16 for name in os.listdir()))
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert (err, os.listdir()) == ("", [])


TABLE = """
import atexit, os, signal, sys
import numpy as np


def kill(number):
    os.kill(os.getpid(), number)


def table(length, d):
    return np.eye(length, d)
"""


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_at_the_end_prints_nothing(number):
    code = TABLE + f"\natexit.register(kill, {int(NUMBERS[number])})\n"
    assert ended(code) == (128 + NUMBERS[number], "")


def test_a_signal_that_a_destructor_swallows_ends_the_command():
    code = TABLE + "\nclass Swallows:\n    def __del__(self):\n        kill(signal.SIGINT)\n"
    code += "\nSwallows()\nimport time\ntime.sleep(50)\n"
    assert ended(code) == (130, "")


@pytest.mark.parametrize(("number", "said"), [("int", "pefourier: interrupted\n"), ("term", "")])
def test_a_signal_that_a_library_takes_for_an_error_ends_the_command(number, said):
    """As extension modules do, whose import fails with ImportError whatever went wrong."""
    code = f"""
try:
    import os; os.kill(os.getpid(), {int(NUMBERS[number])})
except BaseException:
    raise ImportError("core failed to import") from None
"""
    assert ended(code) == (128 + NUMBERS[number], said)
    status, err = ended(code, "dft")
    assert status == 128 + NUMBERS[number]
    assert err.endswith(said)


def test_processes_that_a_users_code_ends_do_not_end_the_command():
    code = """
import multiprocessing, time
import numpy as np


def table(length, d):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=time.sleep, args=(50,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.terminate()
        worker.join()
    assert [worker.exitcode for worker in workers] == [-15] * 3
    return np.eye(length, d)
"""
    assert ended(code, PYTHONWARNINGS="ignore") == (0, "")


AT_ONCE = """
import os, signal

os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
from pefourier.__main__ import run_command
run_command()
"""


def test_a_process_may_be_ended_before_it_has_begun():
    """Its own end, not that of the command, whose handlers it is born with."""
    with open("user.py", "w") as stream:
        stream.write(
            "import os, time\nimport numpy as np\n\n\ndef table(length, d):\n"
            "    child = os.fork()\n    if not child:\n        time.sleep(50)\n"
            "    assert os.waitpid(child, 0)[1] == 15\n    return np.eye(length, d)\n"
        )
    command = [sys.executable, "-c", AT_ONCE, "spectrum", "py:user:table"]
    env = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_registered_for_the_end_is_done():
    assert ended(TABLE + "\natexit.register(open, 'done', 'w')\n") == (0, "")
    assert "done" in os.listdir()


@pytest.mark.parametrize(
    ("target", "status", "said"),
    [
        (
            "os.open('/dev/full', os.O_WRONLY)",
            2,
            "cannot write standard output: No space left on device",
        ),
        ("closed_pipe()", 0, ""),
    ],
)
def test_what_is_printed_at_the_end_may_not_be_writable(target, status, said):
    code = f"""
def closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def print_late():
    os.dup2({target}, 1)
    print("late")


atexit.register(print_late)
"""
    assert ended(TABLE + code, PYTHONUNBUFFERED="") == (status, said and f"pefourier: {said}\n")


def refuse(*_):
    raise RuntimeError("can't start new thread")


def test_where_no_thread_is_to_be_had(monkeypatch):
    assert process.can_start_threads(3)
    monkeypatch.setattr(process, "start_new_thread", refuse)
    assert not process.can_start_threads(1)
    assert not process.Listener().start_watching()


WITHOUT_THREADS = """
import _thread, sys


def refuse(*_, **__):
    raise RuntimeError("can't start new thread")


_thread.start_new_thread = _thread.start_joinable_thread = refuse
from pefourier.__main__ import run_command
run_command()
"""


def test_the_same_answer_without_threads():
    """Of libraries too: OpenBLAS would end the process by a SIGINT of its own."""
    arguments = ["check-faithful", "py:user:table", "rope", "-S", "20000", "--d", "128", "--json"]
    with open("user.py", "w") as stream:
        stream.write(
            "import os\nimport numpy as np\n\n\ndef table(n, d):\n"
            "    assert os.environ['OPENBLAS_NUM_THREADS'] == '1'\n    return np.eye(n, d)\n"
        )
    command = [sys.executable, "-c", WITHOUT_THREADS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    usual = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, env=env)
    assert done.stdout == usual.stdout


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may start any number"
)
@pytest.mark.parametrize("command", ["spectrum", "check-faithful rope -S 20000 --d 64"])
def test_the_system_refuses_threads(command):
    import resource

    done = subprocess.run(
        [*PROGRAM, *command.split()],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)),
    )
    assert (done.returncode, done.stderr) == (0, "")

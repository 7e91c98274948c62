"""Processes that share a CPU: one answer however many, and none that outlives its work."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from training import SMALL, lines, numbers

from pefourier.errors import PefourierError
from pefourier.train import processes, run
from pefourier.train.options import Options
from pefourier.train.progress import Reporter
from pefourier.train.run import run_comparison

LONG = {**SMALL, "epochs": 20, "seeds": 4, "patience": 0}
two_cores = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """For torch to share out, here and in commands, also where each worker of pytest has one."""
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def children(pid):
    """The processes that a process has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


def wait_until(holds, seconds=60):
    stop = time.monotonic() + seconds
    while not holds() and time.monotonic() < stop:
        time.sleep(0.05)
    assert holds()


def training(folder):
    """A command that trains in two processes, once the second is there."""
    arms = [text for name in SMALL["encoding"] for text in ("-e", name)]
    command = [*"train --dataset order:count=60,length=6 --seeds 40 --epochs 2000".split(), *arms]
    process = subprocess.Popen(
        [sys.executable, "-m", "pefourier", *command, "--processes", "2", "--out", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: children(process.pid))
    return process


@two_cores
def test_two_processes_give_the_answer_of_one(tmp_path):
    alone = run_comparison(Options(**LONG, processes=1))
    said = []
    both = run_comparison(Options(**LONG, processes=2, out=str(tmp_path)), note=said.append)
    assert [n[:4] for n in numbers(both.runs)] == [n[:4] for n in numbers(alone.runs)]
    np.testing.assert_allclose(
        [r["auprc"] for r in both.runs], [r["auprc"] for r in alone.runs], atol=0.05
    )
    assert len(lines(tmp_path)) == len(list((tmp_path / "scores").iterdir())) == 16
    assert not [line for line in said if "ended early" in line]
    assert any(line.startswith("2 processes share the work") for line in said)
    assert torch.get_num_threads() > 1  # as before


@two_cores
def test_the_other_process_trains_a_part(tmp_path, monkeypatch):
    """Nothing is left to this process once it has claimed its first stack."""
    claims, own, shares = processes.Group.claims, [], []

    def waiting(group, total):
        for number in claims(group, total):
            own.append(number)
            yield number
            wait_until(lambda: group.store.check(["finished/1"]))

    monkeypatch.setattr(processes.Group, "claims", waiting)
    monkeypatch.setattr(Reporter, "finish", lambda reporter: shares.append(reporter.share))
    asked = Options(**{**SMALL, "seeds": 8}, processes=2, out=str(tmp_path))
    found = run_comparison(asked, note=[].append)
    assert len(found.runs) == 32
    assert own[0] == 0
    assert 1 not in own
    assert shares == [1.0]  # each epoch is counted once, whoever trained it


@two_cores
def test_what_another_has_finished_is_written_while_this_one_trains(tmp_path, monkeypatch):
    """Killed in its first stack, this process leaves the runs of the other behind."""
    monkeypatch.setattr(run, "LOOK_EVERY", 0.0)
    count, results = Reporter.count_epoch, tmp_path / "results.jsonl"

    def killed(reporter, *epoch):
        def arrived():
            count(reporter, *epoch)
            return results.exists() and results.stat().st_size > 0

        wait_until(arrived)
        raise KeyboardInterrupt

    monkeypatch.setattr(Reporter, "count_epoch", killed)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(Options(**SMALL, processes=2, out=str(tmp_path)))
    assert 0 < len(lines(tmp_path)) < 8


@two_cores
def test_what_a_process_that_ends_had_begun_is_trained_here(tmp_path, monkeypatch):
    stop = "import os; from pefourier.train import search; search.train_candidates = "
    monkeypatch.setattr(processes, "CODE", f"{stop}lambda *a: os._exit(7); {processes.CODE}")
    claims, own = processes.Group.claims, []

    def waiting(group, total):
        for number in claims(group, total):
            own.append(number)
            yield number
            wait_until(lambda: group.has_ended(1))

    monkeypatch.setattr(processes.Group, "claims", waiting)
    said = []
    options = Options(**{**SMALL, "seeds": 8}, processes=2, out=str(tmp_path))
    assert len(run_comparison(options, note=said.append).runs) == 32
    assert own[-1] == 1  # the last, as it waited for the other at first
    assert said[-1] == (
        "1 process of 2 ended early, with status 7; what was begun there was trained here"
    )


@two_cores
@proc
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(n, marks=pytest.mark.long) for n in (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_no_process_outlives_the_one_that_started_it(number, tmp_path):
    process = training(tmp_path)
    others = children(process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in others))
    assert "Traceback" not in said


@two_cores
def test_processes_that_cannot_meet_leave_the_work_to_one(monkeypatch):
    def full(prefix):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(processes, "TemporaryDirectory", full)
    said = []
    found = run_comparison(Options(**SMALL, processes=2, rank_timeout=1), note=said.append)
    assert len(found.runs) == 8
    assert any("one trains alone" in line for line in said)


@two_cores
def test_where_no_process_starts_one_does_the_work(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    said = []
    assert len(run_comparison(Options(**SMALL, processes=2), note=said.append).runs) == 8
    assert any(line.startswith("1 of 2 processes are all that start here: ") for line in said)


@proc
@two_cores
def test_other_users_cannot_reach_what_processes_tell_each_other(monkeypatch):
    """Once any of them could write rows through a port."""

    def listening():
        lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
        return {line.split()[1] for line in lines if line.split()[3] == "0A"}

    opened, open_store = [], processes.open_store

    def noted(folder, *rest):
        opened.append((folder, os.stat(folder).st_mode & 0o777))
        return open_store(folder, *rest)

    monkeypatch.setattr(processes, "open_store", noted)
    before = listening()
    with processes.start_processes(Options(**SMALL), 2, None) as group:
        group.publish({})
        assert listening() <= before
    ((folder, mode),) = opened
    assert mode == 0o700
    assert not os.path.exists(folder)


def test_short_work_is_done_by_one(monkeypatch):
    def start(*_):
        raise AssertionError("a process was started")

    monkeypatch.setattr(processes, "start_process", start)
    assert len(run_comparison(Options(**SMALL)).runs) == 8


@pytest.mark.parametrize("count", [0, -1, 10**6])
def test_numbers_of_processes_that_cannot_be_are_refused(count):
    with pytest.raises(PefourierError, match=f"--processes must be from 1 to .*; got {count}"):
        run_comparison(Options(**SMALL, processes=count))


def test_ranks_of_torchrun_start_no_processes(tmp_path, monkeypatch):
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2")):
        monkeypatch.setitem(os.environ, name, value)
    with pytest.raises(PefourierError, match="ranks of torchrun, and GPUs, share the work without"):
        run_comparison(Options(**SMALL, processes=1, out=str(tmp_path)))


def test_a_resumed_training_of_two_processes_has_the_same_numbers(tmp_path):
    options = Options(**LONG, processes=2, out=str(tmp_path / "a"))
    run_comparison(options)
    whole = (tmp_path / "a" / "results.jsonl").read_text().splitlines()
    run_comparison(replace(options, out=str(tmp_path / "b")))
    rest = tmp_path / "b" / "results.jsonl"
    rest.write_text("".join(f"{line}\n" for line in rest.read_text().splitlines()[:5]))
    run_comparison(replace(options, out=str(tmp_path / "b"), resume=True))
    assert numbers(lines(tmp_path / "b")) == numbers(lines(tmp_path / "a"))
    assert len(whole) == 16

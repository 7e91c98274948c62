"""Processes that share a comparison through torch's store, and killed processes."""

import os
import re
import socket
import subprocess
import sys
from functools import partial

import pytest
import torch.distributed as dist
from forked import Forked
from numpy.testing import assert_allclose
from refusals import refusal
from training import lines, numbers, small, train_aside

from pefourier.train import store
from pefourier.train.run import run_comparison


@pytest.fixture(scope="module")
def alone():
    """Return the answer of one process, run by run."""
    return sorted(numbers(run_comparison(small()).runs))


def assert_close(found, whole):
    """Assert equal runs whose scores differ at most by rounding in other stacks."""
    found = sorted(numbers(found))
    assert [n[:4] for n in found] == [n[:4] for n in whole]
    assert_allclose([n[7] for n in found], [n[7] for n in whole], atol=0.05)


def started(folder, rank=None, port=None, **own):
    environment = {} if rank is None else {"RANK": str(rank), "WORLD_SIZE": "2"}
    if port is not None:
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return Forked(partial(train_aside, folder, **own), **environment)


@pytest.fixture
def port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_of_two_processes_at_one_folder_the_second_is_refused_at_once(tmp_path, alone):
    """A killed first process leaves a folder that resumes to the uninterrupted scores."""
    first = started(tmp_path / "out", stop=True)
    assert first.wait_for("begun")
    for resume in (False, True):
        second = started(tmp_path / "out", resume=resume)
        assert re.fullmatch("another run writes to .*out; .*", second.finished(2))
    first.kill()
    assert started(tmp_path / "out", resume=True).finished() == "8"
    assert sorted(numbers(lines(tmp_path / "out"))) == alone


def test_ranks_share_the_grid(tmp_path, port, alone):
    """Two ranks are two nodes with separate folders; the first summarizes."""
    nodes = [started(tmp_path / str(rank), rank, port) for rank in (0, 1)]
    assert [one.finished() for one in nodes] == ["8", "None"]
    assert (tmp_path / "0" / "summary.json").is_file()
    assert not (tmp_path / "1").exists()
    assert_close(lines(tmp_path / "0"), alone)
    assert len(list((tmp_path / "0" / "scores").iterdir())) == 8


@pytest.mark.long
def test_what_a_killed_rank_had_taken_is_missed_and_trained_on_resume(tmp_path, port):
    first = started(tmp_path / "0", 0, port, timeout=3)
    second = started(tmp_path / "1", 1, port, timeout=3, stop=True)
    second.wait_for("begun")  # or the first process was faster with all of it
    second.kill()
    assert "unfinished stacks: " in first.finished(2)
    assert 0 < len(lines(tmp_path / "0")) < 8
    found = run_comparison(small(out=str(tmp_path / "0"), resume=True))
    assert len(found.runs) == 8


@pytest.mark.long
def test_a_rank_that_was_requested_otherwise_or_meets_nobody_says_so(tmp_path, port):
    lone = started(tmp_path, 1, port, timeout=2).finished(2).splitlines()[-1]  # after torch's
    assert lone.startswith(f"rank 1 of 2 has not reached the others at 127.0.0.1:{port} within 2 s")
    first = started(tmp_path / "0", 0, port, timeout=3)
    second = started(tmp_path / "1", 1, port, timeout=3, steps=9)
    assert "rank 1 has steps 8, now it is 9" in second.finished(2)
    first.process.join(120)
    assert "steps" in first.stated or first.process.exitcode == 0  # it may have finished alone


@pytest.mark.long
def test_torchrun_answers_once(tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    task = ["--dataset", "order:count=40,length=4", "--steps", "2", "--seeds", "2", "-e", "dft"]
    command = [*launcher, "-m", "pefourier", "train", *task, "-e", "none", "--out", tmp_path]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--quiet"], check=False, capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("P / R / F1") == 1
    assert len(lines(tmp_path)) == 4


def test_stacks_are_handed_over_once_and_none_is_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(store, "TIMEOUT", 0.2)
    shared, missing, seen = dist.HashStore(), {0, 2}, []
    first, second = (store.Group(rank, 2, shared) for rank in (0, 1))
    second.send(0, [({"seed": 3}, b"\x00trace")])
    second.send(2, [])

    def take_over():
        for number in sorted(missing):
            seen.append((number, first.receive(number)))
            missing.remove(number)

    first.wait_for(missing, take_over)
    assert seen == [(0, [({"seed": 3}, b"\x00trace")]), (2, [])]
    assert first.receive(0) is None
    with refusal("unfinished stacks: 1"):
        first.wait_for({1}, lambda: None)
    shared.set("failed", "no memory")
    with refusal(r"^no memory$"):
        first.wait_for({1}, lambda: None)


@pytest.mark.parametrize(
    ("rank", "ranks", "named"),
    [
        *(
            (rank, ranks, f"^RANK={rank} must be .* WORLD_SIZE={ranks}; unset")
            for rank, ranks in ("x2", "11", "22", ("0", "-1"), "²2", "0٣")
        ),
        ("0", "2", "torchrun, or unset RANK=0 and WORLD_SIZE=2"),
    ],
)
def test_ranks_that_cannot_be_are_refused(monkeypatch, rank, ranks, named):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", ranks)
    with refusal(named):
        run_comparison(small())

"""Processes that share a comparison through torch's store or a folder, and killed processes."""

import os
import re
import socket
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
import torch.distributed as dist
from forked import Forked
from training import SMALL, lines, numbers, train_aside

from pefourier.errors import PefourierError
from pefourier.train import ranks, work
from pefourier.train.ensembles import count_processes, resolve
from pefourier.train.options import Options
from pefourier.train.run import run_comparison
from pefourier.train.store import Store


@pytest.fixture(scope="module")
def alone():
    """Return the answer of one process, run by run."""
    return sorted(numbers(run_comparison(Options(**SMALL)).runs))


def assert_close(found, whole):
    """Assert equal runs whose scores differ at most by rounding in other stacks."""
    found = sorted(numbers(found))
    assert [n[:4] for n in found] == [n[:4] for n in whole]
    np.testing.assert_allclose([n[7] for n in found], [n[7] for n in whole], atol=0.05)


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
    """Two ranks share one folder, or are two nodes with separate folders; the last summarizes."""
    both = [started(tmp_path, rank) for rank in (0, 1)]
    nodes = [started(tmp_path / str(rank), rank, port) for rank in (0, 1)]
    assert "8" in [process.finished() for process in both]
    assert 0 < len(lines(tmp_path)) < 8
    assert_close(Store(tmp_path).rows(), alone)
    assert (tmp_path / "summary.json").is_file()
    assert [one.finished() for one in nodes] == ["8", "None"]
    assert not (tmp_path / "1").exists()
    assert_close(lines(tmp_path / "0"), alone)
    assert len(list((tmp_path / "0" / "scores").iterdir())) == 8


def test_ranks_of_a_job_array_come_in_any_order_or_not_at_all(tmp_path, monkeypatch):
    """The last rank summarizes, as does a run without ranks."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    for order, count in (("10", 8), ("0", 4)):
        requested = Options(**SMALL, out=str(tmp_path / order), resume=True)
        for rank in order:
            monkeypatch.setenv("RANK", rank)
            found = run_comparison(requested)
        assert (found is None) == (count == 4)
        assert len(kept := numbers(Store(tmp_path / order).rows())) == count
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name)
    assert set(kept) <= set(numbers(run_comparison(requested).runs))


@pytest.mark.long
def test_what_a_killed_rank_had_taken_is_missed_and_trained_on_resume(tmp_path, port):
    first = started(tmp_path / "0", 0, port, timeout=3)
    second = started(tmp_path / "1", 1, port, timeout=3, stop=True)
    second.wait_for("begun")  # or the first process was faster with all of it
    second.kill()
    assert "stacks are unfinished" in first.finished(2)
    assert 0 < len(lines(tmp_path / "0")) < 8
    found = run_comparison(Options(**SMALL, out=str(tmp_path / "0"), resume=True))
    assert len(found.runs) == 8


@pytest.mark.long
def test_a_rank_that_was_requested_otherwise_or_meets_nobody_says_so(tmp_path, port):
    lone = started(tmp_path, 1, port, timeout=2).finished(2).splitlines()[-1]  # after torch's
    assert lone.startswith(f"rank 1 of 2 has not reached the others at 127.0.0.1:{port} within 2 s")
    first = started(tmp_path / "0", 0, port, timeout=3)
    second = started(tmp_path / "1", 1, port, timeout=3, epochs=3)
    assert "rank 1 has epochs 2, now it is 3" in second.finished(2)
    first.process.join(120)
    assert "epochs" in first.stated or first.process.exitcode == 0  # it may have finished alone


def test_a_rank_answers_with_a_result_or_an_error(monkeypatch):
    def refuse():
        raise PefourierError("no")

    monkeypatch.setattr(ranks, "leave_with", lambda _: None)
    threads = torch.get_num_threads()
    assert ranks.take_part(0, threads, partial(divmod, 7, 2)) == (3, 1)
    assert str(ranks.take_part(0, threads, refuse)) == "no"


@pytest.mark.long
def test_torchrun_answers_once(tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    task = ["--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "2", "-e", "dft"]
    command = [*launcher, "-m", "pefourier", "train", *task, "-e", "none", "--out", tmp_path]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--quiet"], check=False, capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("P / R / F1") == 1
    assert len(lines(tmp_path)) == 4


def test_stacks_are_claimed_once_and_handed_over_and_none_is_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(ranks, "TIMEOUT", 0.2)
    store = dist.HashStore()
    first, second = (ranks.Group(rank, 2, store) for rank in (0, 1))
    theirs, mine, seen = second.claims(3), first.claims(3), []
    assert [next(theirs), next(mine), next(theirs)] == [0, 1, 2]
    assert [*mine, *theirs] == []
    second.finish(0, [{"seed": 3}], [b"\x00trace"])
    first.finish(1, [{"seed": 4}], [b"own"])
    first.wait_for_all(2, lambda: seen.extend(first.arrived(3)))
    assert seen == [(0, [{"seed": 3}], [b"\x00trace"])]
    assert list(first.arrived(3)) == []
    with pytest.raises(PefourierError, match="1 of 3 stacks are unfinished"):
        first.wait_for_all(3, lambda: None)
    second.fail("no memory")
    with pytest.raises(PefourierError, match=r"^no memory$"):
        first.wait_for_all(3, lambda: None)


@pytest.mark.parametrize(
    ("rank", "ranks", "named"),
    [
        *(
            (rank, ranks, f"^RANK={rank} must be .* WORLD_SIZE={ranks}; unset")
            for rank, ranks in ("x2", "11", "22", ("0", "-1"), "²2", "0٣")
        ),
        ("0", "2", "--out DIR, or unset RANK=0 and WORLD_SIZE=2"),
    ],
)
def test_ranks_that_cannot_be_are_refused(monkeypatch, rank, ranks, named):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", ranks)
    with pytest.raises(PefourierError, match=named):
        run_comparison(Options(**SMALL))


def test_processes_are_started_where_it_is_worth_it(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for own, number, expected in (
        *(
            ({}, 1, 1),
            ({"epochs": 10**5}, 1, 2),
            ({"epochs": 10**5}, 4, 1),
            ({"processes": 2}, 1, 2),
        ),
        *(({"processes": 3}, 1, None), ({"processes": 0}, 1, None), ({"processes": 2}, 4, None)),
    ):
        requested = resolve(Options(**{**SMALL, **own})), number
        if expected is not None:
            assert count_processes(*requested) == expected
            continue
        with pytest.raises(PefourierError, match=r"^--processes"):
            count_processes(*requested)


@pytest.mark.long
def test_two_processes_give_the_answer_of_one_or_its_error(tmp_path, rng, alone, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    out, path = tmp_path / "out", str(tmp_path / "own.npy")
    shared = run_comparison(Options(**SMALL, processes=2, out=str(out)))
    assert_close(shared.runs, alone)
    assert sorted(numbers(lines(out))) == sorted(numbers(shared.runs))
    assert (out / "summary.json").is_file()
    np.save(path, 1e30 * rng.normal(size=(6, 8)))
    with pytest.raises(PefourierError, match=r"own.npy, seed \d, fold 0: non-finite logits"):
        run_comparison(Options(**{**SMALL, "encoding": (path, "none")}, processes=2))


def test_a_rank_notes_on_stderr_and_leaves_stdout_to_the_answer(capsys, monkeypatch):
    monkeypatch.setattr(work, "train_rank", lambda _, note: note("begun"))
    work.start_rank(Options(**SMALL), is_noted=True)
    out, err = capsys.readouterr()
    assert (out, "begun" in err) == ("", True)

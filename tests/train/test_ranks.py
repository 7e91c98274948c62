"""Ranks that meet in a process group: two folders, a rank that is killed, one that never comes."""

import re
import socket
import time
from functools import partial

import numpy as np
import pytest
import torch.distributed as dist
from forked import Forked
from training import SMALL, lines, numbers, train_aside

from pefourier.errors import PefourierError
from pefourier.train import ranks
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def started(port, rank, folder, timeout=60, **own):
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    settings = meeting | {"RANK": str(rank), "WORLD_SIZE": "2"}
    return Forked(partial(train_aside, folder, timeout=timeout, **own), **settings)


def test_two_nodes_with_folders_of_their_own_give_one_answer(tmp_path):
    alone = run_comparison(Options(**SMALL))
    port = free_port()
    both = [started(port, rank, tmp_path / str(rank)) for rank in (0, 1)]
    assert [one.finished() for one in both] == ["8", "None"]
    assert not (tmp_path / "1").exists()
    found = lines(tmp_path / "0")
    found, whole = sorted(numbers(found)), sorted(numbers(alone.runs))
    assert [n[:4] for n in found] == [n[:4] for n in whole]
    np.testing.assert_allclose([n[7] for n in found], [n[7] for n in whole], atol=0.05)
    assert len(list((tmp_path / "0" / "scores").iterdir())) == 8


@pytest.mark.long
def test_what_a_killed_rank_had_taken_is_missed_and_trained_on_resume(tmp_path):
    port = free_port()
    first = started(port, 0, tmp_path / "0", 3)
    second = started(port, 1, tmp_path / "1", 3, stop=True)
    second.wait_for("begun")  # or the first was quicker with all of it
    second.kill()
    assert "stacks are unfinished" in first.finished(2)
    kept = len(lines(tmp_path / "0"))
    assert 0 < kept < 8
    found = run_comparison(Options(**SMALL, out=str(tmp_path / "0"), resume=True))
    assert len(found.runs) == 8


@pytest.mark.long
def test_a_rank_that_was_asked_otherwise_says_so(tmp_path):
    port = free_port()
    first = started(port, 0, tmp_path / "0", 3)
    second = started(port, 1, tmp_path / "1", 3, epochs=3)
    assert "rank 1 has epochs 2, now it is 3" in second.finished(2)
    first.process.join(120)
    assert "epochs" in first.said or first.process.exitcode == 0  # it may have done all alone


@pytest.mark.long
def test_a_rank_that_meets_nobody_gives_up_in_a_line(tmp_path):
    port = free_port()
    began = time.monotonic()
    said = started(port, 1, tmp_path, 2).finished(2).splitlines()[-1]  # torch has a line, too
    assert re.fullmatch(
        rf"rank 1 of 2 has not met the others at 127\.0\.0\.1:{port} within 2 s; start every rank "
        r"\(torchrun does\), .* or give a longer --rank-timeout",
        said,
    )
    assert time.monotonic() - began < 60


@pytest.fixture
def group():
    """Two ranks that share a store in this process."""
    store = dist.HashStore()
    return [ranks.Group(rank, 2, 0.2, store) for rank in (0, 1)]


def test_stacks_are_claimed_once(group):
    first, second = group
    theirs, mine = second.claims(3), first.claims(3)
    assert [next(theirs), next(mine), next(theirs)] == [0, 1, 2]
    assert [*mine, *theirs] == []


def test_rank_0_waits_for_what_others_have_taken_and_not_for_ever(group):
    first, second = group
    second.finish(0, [], [])
    seen = []
    first.wait_for_all(1, lambda: seen.extend(first.arrived(1)))
    assert seen == [(0, [], [])]
    with pytest.raises(PefourierError, match="1 of 2 stacks are unfinished"):
        first.wait_for_all(2, lambda: None)
    second.fail("no memory")
    with pytest.raises(PefourierError, match=r"^no memory$"):
        first.wait_for_all(2, lambda: None)


def test_rows_are_handed_over_with_their_traces(group):
    first, second = group
    second.finish(1, [{"seed": 3}], [b"\x00trace"])
    first.finish(0, [{"seed": 4}], [b"own"])
    assert list(first.arrived(3)) == [(1, [{"seed": 3}], [b"\x00trace"])]
    assert list(first.arrived(3)) == []


def test_times_that_cannot_be_are_refused():
    for value in (0.0, float("nan"), 1e9):
        with pytest.raises(PefourierError, match="--rank-timeout must be from 1 to 1000000 secon"):
            run_comparison(Options(**SMALL, rank_timeout=value))

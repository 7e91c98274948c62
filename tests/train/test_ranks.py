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
    assert [n[:4] for n in numbers(found)] == [n[:4] for n in numbers(alone.runs)]
    np.testing.assert_allclose(
        [r["auprc"] for r in found], [r["auprc"] for r in alone.runs], atol=0.05
    )
    assert len(list((tmp_path / "0" / "scores").iterdir())) == 8


@pytest.mark.long
def test_what_a_killed_rank_had_taken_is_taken_by_the_other(tmp_path):
    port = free_port()
    first = started(port, 0, tmp_path / "0", 3)
    second = started(port, 1, tmp_path / "1", 3, stop=True)
    second.wait_for("begun")  # or the first was quicker with all of it
    second.kill()
    assert first.finished() == "8"
    assert len(lines(tmp_path / "0")) == 8


@pytest.mark.long
def test_a_rank_that_was_asked_otherwise_says_so_and_the_other_goes_on(tmp_path):
    port = free_port()
    first = started(port, 0, tmp_path / "0", 3)
    second = started(port, 1, tmp_path / "1", 3, epochs=3)
    assert second.finished(2) == "rank 1 was asked epochs 3, rank 0 2; ask all ranks the same"
    assert first.finished() == "8"


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


def test_stacks_are_claimed_once_and_abandoned_ones_again(group):
    first, second = group
    theirs = second.claims(3)
    assert next(theirs) == 0
    mine = first.claims(3)
    assert next(mine) == 1
    first.finish(1, [], [])
    assert next(mine) == 2
    first.finish(2, [], [])
    assert next(mine) == 0  # the second's heart has not beaten since
    first.finish(0, [], [])
    assert list(mine) == []


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


def test_a_heart_that_beats_is_not_gone_however_long_it_is_watched():
    store = dist.HashStore()
    first = ranks.Group(0, 2, 0.2, store)
    for count in range(8):
        store.set("beat/1", str(count))
        assert not first.is_gone(1)
        time.sleep(0.05)
    assert not first.is_gone(1)
    time.sleep(0.3)
    assert first.is_gone(1)


def test_what_another_has_taken_meanwhile_is_not_taken(monkeypatch):
    store = dist.HashStore()
    first = ranks.Group(0, 3, 0.2, store)
    store.set("next", "0")
    store.add("next", 1)
    store.set("claim/0", "1")

    def gone(number, waiting):
        store.set("claim/0", "2")  # takes it between the look and the claim
        store.set("finished/0", "")
        return "1"

    monkeypatch.setattr(first, "owner", gone)
    assert list(first.claims(1)) == []


def test_a_heart_beats_several_times_before_it_counts_as_gone():
    store = dist.HashStore()
    first, second = (ranks.Group(rank, 2, 1.0, store) for rank in (0, 1))
    with ranks.at_work(second):
        stop = time.monotonic() + 1.5
        while time.monotonic() < stop:
            assert not first.is_gone(1)
            time.sleep(0.1)


def test_a_stack_that_nobody_claims_in_time_is_taken():
    store = dist.HashStore()
    first = ranks.Group(0, 2, 0.2, store)
    store.add("next", 1)  # by another, who died before it said so
    began = time.monotonic()
    mine = first.claims(1)
    assert next(mine) == 0
    assert 0.2 <= time.monotonic() - began < 5

"""Processes that this machine starts share the work, and what one of them meets is said."""

import numpy as np
import pytest
import torch
from training import SMALL, lines, numbers

from pefourier.errors import PefourierError
from pefourier.train.options import Options
from pefourier.train.run import count_processes, resolve, run_comparison


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


@pytest.mark.long
def test_two_processes_give_the_answer_of_one(tmp_path):
    alone = run_comparison(Options(**SMALL, processes=1))
    out = tmp_path / "out"
    shared = run_comparison(Options(**SMALL, processes=2, out=str(out)))
    one, two = sorted(numbers(alone.runs)), sorted(numbers(shared.runs))
    assert [row[:4] for row in two] == [row[:4] for row in one]
    np.testing.assert_allclose([row[7] for row in two], [row[7] for row in one], atol=0.05)
    assert sorted(numbers(lines(out))) == two
    assert (out / "summary.json").is_file()


@pytest.mark.long
def test_an_error_of_another_process_is_one_line(tmp_path, rng):
    path = str(tmp_path / "own.npy")
    np.save(path, 1e30 * rng.normal(size=(6, 8)))
    asked = Options(**{**SMALL, "encoding": (path, "none")}, processes=2)
    with pytest.raises(PefourierError, match=r"own.npy, seed \d, fold 0: non-finite logits"):
        run_comparison(asked)


def test_processes_are_started_where_it_is_worth_it():
    small = resolve(Options(**SMALL))
    assert count_processes(small, 1) == 1
    large = resolve(Options(**{**SMALL, "epochs": 10**5}))
    assert (count_processes(large, 1), count_processes(large, 4)) == (2, 1)
    for wanted, ranks, message in ((3, 1, "from 1 to 2"), (2, 4, "is for one CPU")):
        with pytest.raises(PefourierError, match=message):
            count_processes(resolve(Options(**SMALL, processes=wanted)), ranks)

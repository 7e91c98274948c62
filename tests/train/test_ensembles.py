"""Arms, runs and stacks."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from training import SMALL

from pefourier.errors import PefourierError
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def test_vectors_that_do_not_vary_have_no_size_to_match(tmp_path):
    own = str(tmp_path / "own.npy")
    np.save(own, np.full((6, 8), 0.3) + np.arange(8))

    for spec in (f"{own}@rms=0.5", "rope@rms=1"):
        with pytest.raises(PefourierError, match="@rms cannot scale"):
            run_comparison(Options(**{**SMALL, "encoding": (spec,)}))


@pytest.mark.parametrize("folds", [None, 1])
def test_an_arm_is_resolved_once_for_each_task_and_seed(tmp_path, rng, monkeypatch, folds):
    """Five folds of two seeds need several stacks of at most 16 members, but one resolution."""
    calls = []

    def table(length, d):
        calls.append((length, d))
        return rng.normal(size=(length, d))

    monkeypatch.setitem(sys.modules, "counting", SimpleNamespace(table=table))
    np.savez(tmp_path / "own.npz", X=rng.normal(size=(40, 4, 2)), y=np.arange(40) % 2)
    given = {**SMALL, "dataset": ("order:count=40,length=6", str(tmp_path / "own.npz"))}
    given |= {
        "encoding": ("py:counting:table", "py:counting:table@rms=0.5", "none", "dft@rms=0.25")
    }
    run_comparison(Options(**given, folds=folds, out=str(tmp_path / "o")))
    # seed 0 of each task, then seed 1; each source is called twice, to see whether it varies
    assert calls[::2] == calls[1::2] == [(6, 8), (4, 8), (6, 8), (4, 8)]

"""Arms, runs and stacks."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from training import SMALL

from pefourier.errors import PefourierError
from pefourier.train.ensembles import list_remarks, plan_ensembles, resolve, sizes_of_tokens
from pefourier.train.model import Transformer
from pefourier.train.options import Options
from pefourier.train.run import run_comparison


def test_vectors_that_do_not_vary_have_no_size_to_match(tmp_path):
    own = str(tmp_path / "own.npy")
    np.save(own, np.full((6, 8), 0.3) + np.arange(8))

    for spec in (f"{own}@rms=0.5", "rope@rms=1"):
        with pytest.raises(PefourierError, match="@rms cannot scale"):
            run_comparison(Options(**{**SMALL, "encoding": (spec,)}))


def test_what_to_know_of_data_and_vectors_is_stated(tmp_path, rng):
    own, y = str(tmp_path / "own.npz"), np.array(["many"] * 30 + ["few"] * 9)
    np.savez(own, X=rng.normal(size=(39, 10, 2)), y=y, lengths=rng.integers(4, 11, 39))
    given = {**SMALL, "encoding": ("none", "sinusoidal", "dft", "rope", "order-free")}
    first, second = resolve(Options(**{**given, "dataset": (own, "order:length=10")})).resolved
    for reported, words in (
        (list_remarks(first), ("groups", "4 to 10", "few has only 9", "dft has 8 distinct")),
        (list_remarks(second), ("dft has 8 distinct vectors for 10",)),
    ):
        assert all(any(word in text for text in reported) for word in words)


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


def test_tokens_are_as_many_as_fit_and_cover_the_rows():
    for length in (*range(2, 70), 97, 251, 1460):
        for most in range(2, 12):
            patch, stride = sizes_of_tokens(length, Options(tokens=most))
            steps, rest = divmod(length - patch, stride)
            assert (rest, steps < most) == (0, True)
            assert stride <= patch
            assert (
                Transformer(length, 1, 2, d=8, heads=2, patch=patch, stride=stride).tokens
                == steps + 1
            )


def test_runs_of_equal_cost_are_trained_together():
    """Runs with biases or keys of lags have separate stacks, because whole stacks pay for them."""
    arms = ("none", "t5", "dft", "shaw", "rope", "alibi", "order-free", "trees")
    options = Options(**{**SMALL, "encoding": arms, "seeds": 7})
    (task,) = resolve(options).resolved
    found = plan_ensembles(task, 16)
    kinds = [{run.arm.spec for run in stack.runs} for stack in found]
    vectors, biases = {"none", "dft", "rope"}, {"t5", "alibi"}
    assert kinds == [biases, vectors, vectors, {"shaw"}, {"order-free"}, {"trees"}]
    assert [len(stack.runs) for stack in found] == [14, 11, 10, 7, 7, 1]
    keys = [key for stack in found for key in stack.keys]
    assert len(keys) == len(set(keys)) == 7 * 7 + 1

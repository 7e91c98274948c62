"""Arms, runs and stacks."""

import sys

import numpy as np
import pytest
from training import SMALL, result

from pefourier.errors import PefourierError
from pefourier.train.model import Transformer
from pefourier.train.options import Options
from pefourier.train.request import list_arms
from pefourier.train.run import resolve, run_comparison
from pefourier.train.summary import summarize_runs


def test_sizes_have_one_name_and_are_scaled_once():
    given = ("none", "dft", "dft@rms=.50", "order-free")
    found = list_arms(given, (0.5, 0.1234567))
    assert [(one.name, one.is_named) for one in found] == [
        ("none", True),
        ("dft", True),
        ("dft@rms=0.5", True),
        ("order-free", True),
        ("dft@rms=0.1234567", False),
    ]


def test_an_arm_may_be_named_with_its_size():
    found = run_comparison(Options(**{**SMALL, "encoding": ("sinusoidal", "dft@rms=0.25")}))
    assert list(found.datasets[0].scores) == ["sinusoidal", "dft@rms=0.25"]


def test_too_few_codes_are_noted():
    said, given = [], {**SMALL, "dataset": ("order:count=40,length=10",), "d": 8, "heads": 2}
    options = Options(**{**given, "encoding": ("none", "sinusoidal", "dft", "rope")})
    run_comparison(options, note=said.append)
    assert [line for line in said if "codes" in line] == [
        "order:count=40,length=10: dft has 8 codes for 10 tokens, so that some share one"
    ]


def test_codes_that_do_not_vary_have_no_size_to_match(tmp_path):
    own = str(tmp_path / "own.npy")
    np.save(own, np.full((6, 8), 0.3) + np.arange(8))
    found = run_comparison(Options(**{**SMALL, "encoding": ("dft", own)}, match_rms=(0.5,)))
    assert list(found.datasets[0].scores) == ["dft", own, "dft@rms=0.5"]
    with pytest.raises(PefourierError, match="is the same at every position, so that it has no s"):
        run_comparison(Options(**{**SMALL, "encoding": ("dft", f"{own}@rms=0.5")}))


def test_examples_that_may_lie_on_their_side_are_asked_about(tmp_path, rng):
    own = str(tmp_path / "own.npz")
    given = {**SMALL, "dataset": (own,), "encoding": ("none",), "seeds": 1, "epochs": 1}
    asked = (
        f"{own}: X has 3 rows of 20 channels; it is read as (n, length, channels): is it (n, "
        "channels, length)? Then swap its last two axes"
    )
    for shape, expected in (((40, 3, 20), [asked]), ((40, 20, 3), []), ((40, 3, 3), [])):
        np.savez(own, X=rng.normal(size=shape), y=np.arange(40) % 2)
        said = []
        run_comparison(Options(**given, positive=("1",)), note=said.append)
        assert [line for line in said if "Then swap" in line] == expected
    label = np.arange(2000) % 100 >= 90
    np.savez(own, rows=rng.normal(size=(2000, 20)), label=label)
    said = []
    run_comparison(Options(**given, window=4), note=said.append)
    assert [line for line in said if "Then swap" in line] == []


def test_classes_of_few_examples_are_said(tmp_path, rng):
    own, said = str(tmp_path / "own.npz"), []
    y = np.array(["many"] * 30 + ["few"] * 9)
    np.savez(own, X=rng.normal(size=(39, 4, 2)), y=y)
    options = Options(**{**SMALL, "dataset": (own,), "encoding": ("none",), "seeds": 1})
    run_comparison(options, note=said.append)
    words = f"{own}: class few has 9 examples, so that its scores say little"
    assert [line for line in said if "say little" in line] == [words]


COUNTING = """
import numpy as np

calls = []


def table(length, d):
    calls.append((length, d))
    return np.random.normal(size=(length, d))
"""


@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize("folds", [None, 1])
def test_an_arm_is_resolved_once_for_each_task_and_seed(tmp_path, rng, folds):
    """A stack has at most 16 members on a CPU: five folds of two seeds take several."""
    np.savez(tmp_path / "own.npz", X=rng.normal(size=(40, 4, 2)), y=np.arange(40) % 2)
    given = {**SMALL, "dataset": ("order:count=40,length=6", str(tmp_path / "own.npz"))}
    given |= {"encoding": ("py:counting:table", "py:counting:table@rms=0.5", "none", "dft")}
    found = run_comparison(
        Options(**given, folds=folds, match_rms=(0.25,), out=str(tmp_path / "o"), positive=("1",))
    )
    from counting import calls

    assert len(found.datasets) == 2
    assert calls == [(6, 8), (4, 8), (6, 8), (4, 8)]  # seed 0 of each task, then seed 1


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """A module `counting` of a user."""
    (tmp_path / "counting.py").write_text(COUNTING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("counting", None)


def test_each_dataset_has_few_enough_tokens():
    datasets = ("order:count=40,length=11", "order:count=40,length=60", "order:count=40,length=4")
    for length in (11, 60, 4, 97, 251, 1460):
        sizes = sizes_of_tokens(length, Options(tokens=8))
        model = Transformer(length, 1, 2, d=8, heads=2, **sizes)
        assert 4 <= model.tokens <= 8
    found = run_comparison(Options(**{**SMALL, "dataset": datasets, "epochs": 1}, tokens=8))
    assert len(found.datasets) == 3
    with pytest.raises(PefourierError, match="--tokens must be 2 or more and stands in place of"):
        run_comparison(Options(**SMALL, tokens=8, patch=2))


def test_tokens_are_as_many_as_fit_and_cover_the_rows():
    for length in range(2, 70):
        for most in range(2, 12):
            steps, rest = divmod(length - own["patch"], own["stride"])
            assert (rest, steps < most) == (0, True)
            assert own["stride"] <= own["patch"]


def test_resamples_are_corrected_for_their_sizes(rng):
    """A test part fifteen times the training part leaves much to chance."""
    rows = [
        result(e, one, seed=0, fold=fold, windows=1029, trained=53)
        for e, scores in (("sinusoidal", rng.random(8) / 20), ("dft", rng.random(8) / 20))
        for fold, one in enumerate(scores)
    ]
    (found,) = summarize_runs(rows).datasets
    five = summarize_runs([{**row, "trained": 3087} for row in rows]).datasets[0]
    wide, narrow = (
        one.differences["dft"].high - one.differences["dft"].mean for one in (found, five)
    )
    assert wide / narrow == pytest.approx(((1 / 8 + 1029 / 53) / (1 / 8 + 1 / 3)) ** 0.5)


def test_runs_that_cost_alike_are_trained_together():
    """Biases and keys of lags are paid for by all of a stack."""
    arms = ("none", "t5", "dft", "shaw", "rope", "alibi", "order-free", "trees")
    options = Options(**{**SMALL, "encoding": arms, "seeds": 7})
    (task,) = resolve(options).resolved
    found = plan_stacks([task], 7, 16)
    kinds = [{run.arm.spec for run in stack.runs} for stack in found]
    codes, biases = {"none", "dft", "rope"}, {"t5", "alibi"}
    assert kinds == [biases, codes, codes, {"shaw"}, {"order-free"}, {"trees"}]
    assert [len(stack.runs) for stack in found] == [14, 11, 10, 7, 7, 1]
    keys = [key for stack in found for key in stack.keys]
    assert len(keys) == len(set(keys)) == 7 * 7 + 1

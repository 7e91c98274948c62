"""The divisor of FIRE's distances is read from two biases of pairs and explains differences."""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.families.biases import linear_layers, network, relu
from pefourier.questions.compare import compare
from pefourier.questions.query_divisors import divisor_of

N = 40


def fire(which, threshold, *, seed=0, c=0.1, heads=3):
    """Return FIRE's biases (heads, N, N), with max(i, L) or, as in a public copy, min(i, L)."""
    rng = np.random.default_rng(seed)
    inner, shifts, outer = rng.normal(size=16), rng.normal(size=16), rng.normal(size=(16, heads))
    i = np.arange(N, dtype=float)
    distance = np.maximum(i[:, None] - i, 0)
    divisor = {"max": np.maximum, "min": np.minimum}[which](i, threshold)[:, None]
    share = np.log(1 + c * distance) / (np.log(1 + c * divisor) + 1e-6)
    return np.moveaxis(np.maximum(share[..., None] * inner + shifts, 0) @ outer, -1, 0)


@pytest.mark.parametrize("which", ["max", "min"])
@pytest.mark.parametrize("threshold", [2, 13, 37])
def test_the_divisor_is_read_from_the_numbers(which, threshold):
    assert divisor_of(fire(which, threshold)) == (which, threshold)
    assert divisor_of(fire(which, threshold).astype(np.float32)) == (which, threshold)


def test_no_divisor_is_read_from_other_biases():
    lag = -np.abs(np.arange(N) - np.arange(N)[:, None])[None] * np.ones((3, 1, 1))
    noise = np.random.default_rng(0).normal(size=(3, N, N))
    mixed = np.concatenate([lag[:, :20], noise[:, 20:]], axis=1)
    for bias in (lag, noise, mixed, load("fox", gates=np.linspace(0.3, 0.9, N)).bias):
        assert divisor_of(np.where(np.tri(N, dtype=bool), bias, 0.0)) is None


EXPLAINED = [
    (("max", 13), ("min", 13)),
    (("min", 25), ("max", 25)),
    (("max", 2), ("min", 2)),
]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("pair", EXPLAINED)
def test_a_divisor_that_explains_the_difference_is_named(pair, kind):
    found = compare(*(fire(*divisor).astype(kind) for divisor in pair))
    words = tuple(f"{which}(i, {threshold})" for which, threshold in pair)
    assert (found.verdict, found.cause.misreadings) == ("different", ("divisor",))
    assert found.cause.changes == {"divisor": words}
    assert "misread" in [note.code for note in found.findings]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (fire("max", 13), fire("min", 13, seed=1)),
        (fire("max", 13), fire("min", 13, c=0.2)),
        (fire("max", 13), fire("min", 20)),
        (fire("max", 13), fire("max", 20)),
        (fire("max", 13), fire("max", 13, seed=1)),
        (fire("max", 13) + np.triu(np.ones((N, N)), 2), fire("min", 13)),
    ],
)
def test_where_more_differs_no_divisor_is_named(first, second):
    found = compare(first, second)
    assert (found.verdict, found.cause) == ("different", None)


def test_a_copy_of_the_named_fire_is_the_same_and_its_misreading_is_named(tmp_path, run):
    right = load("fire:threshold=13", N, 3)
    assert compare(right, right.bias).same
    query = np.arange(N, dtype=float)[:, None]
    share = np.log1p(0.1 * np.abs(query - query.T))
    share /= np.log1p(0.1 * np.minimum(query, 13)) + 1e-6
    wrong = network(share[..., None], linear_layers(0, (1, 32, 3)), relu)
    np.save(tmp_path / "wrong.npy", np.moveaxis(wrong, -1, 0))
    done = run("compare", "fire:threshold=13", tmp_path / "wrong.npy", "--json")
    (record,) = done.results
    assert (done.status, record["same"], len(record["heads"])) == (1, False, 3)
    assert record["cause"]["changes"]["divisor"] == ["max(i, 13)", "min(i, 13)"]

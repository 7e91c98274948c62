"""Laws of the causes of biases: each is named with its parameters, and only what reproduces is."""

from itertools import permutations, product

import numpy as np
import pytest

from pefourier.construction.biases import FARTHEST, read_bias, slope_rules
from pefourier.encodings import load
from pefourier.encodings.encoding import as_encoding
from pefourier.encodings.families.relative import alibi_slopes, t5_buckets
from pefourier.encodings.registry import BUILDERS
from pefourier.questions.compare import compare

SEED = int(np.random.SeedSequence().entropy % 2**32)  # other faults in each run
KINDS = (np.float64, np.float32, np.float16)


def is_line_of_biases(name):
    enc = load(name, 9, 4) if BUILDERS[name].domain == "lag" else None
    return enc is not None and enc.injection == "bias"


def lags(n):
    return np.arange(n) - np.arange(n)[:, None]


def by_lag(table):
    """Biases (heads, n, n) of numbers (heads, 2n - 1) of lags."""
    n = (table.shape[1] + 1) // 2
    return table[:, lags(n) + n - 1]


def drawn(rng, spec=None):
    """Two-sided biases of at least three heads: random numbers by lag, or a registered encoding."""
    n, heads = int(rng.integers(8, 40)), int(rng.integers(3, 9))
    if spec:
        return by_lag(load(spec, n, heads).table().T)
    return by_lag(rng.normal(size=(heads, 2 * n - 1)))


def transposed(_, bias):
    return np.swapaxes(bias, 1, 2), {}


def scaled(rng, bias):
    heads = np.sort(rng.choice(len(bias), rng.integers(1, len(bias)), replace=False))
    by = float(rng.choice([-1.0, 0.0, 2.0, 0.125, 1.5]))
    factors = np.where(np.isin(np.arange(len(bias)), heads), by, 1.0)
    return bias * factors[:, None, None], {"by": by, "heads": tuple(heads.tolist())}


def reordered(rng, bias):
    order = np.roll(np.arange(len(bias)), rng.integers(1, len(bias)))
    return bias[order], {"order": tuple(order.tolist())}


def later(rng, bias):
    kind, lag = str(rng.choice(["mirrored", "continued", "zero"])), lags(bias.shape[1])
    last = bias[:, -1]  # lags 1 - n … 0
    line = last[:, [-1]] + np.arange(len(lag)) * (last[:, [-1]] - last[:, [-2]])
    after = {"mirrored": last[:, ::-1], "continued": line, "zero": 0 * last}[kind]
    return np.where(lag > 0, after[:, np.abs(lag)], bias), {"kind": kind}


def entry(rng, bias):
    head, key = int(rng.integers(len(bias))), int(rng.integers(2))
    query = int(rng.integers(2, bias.shape[1] - 1))
    other = bias.copy()
    other[head, query, key] = 6.5
    return other, {"head": head, "query": query, "key": key, "value": 6.5}


def clipped(rng, bias):
    at = float(np.quantile(bias, rng.uniform(0.1, 0.5)))
    return np.maximum(bias, at), {"at": at}


def within(rng, bias):
    """Zeros, or another factor, in a block of queries of a head, or of all heads, or in one key."""
    n, other = bias.shape[1], bias.copy()
    head = int(rng.integers(len(bias)))
    place = [np.s_[:, n // 2 :], np.s_[:, :, 0], np.s_[head, n // 2 :]][rng.integers(3)]
    other[place] *= rng.choice([0, 3.0])
    return other, {}


def two_heads(rng, bias):
    a, b = rng.choice(len(bias), 2, replace=False)
    other = bias.copy()
    other[a], other[b] = 2 * bias[a], np.maximum(bias[b], np.quantile(bias[b], 0.3))
    return other, {}


def keys_added(rng, bias):
    return bias + rng.normal(size=bias.shape[1]), {}


NAMES = [name for name in BUILDERS if is_line_of_biases(name)]
CHANGES = {
    "clipped": clipped,
    "entry": entry,
    "keys-added": keys_added,
    "transposed": transposed,
    "scaled": scaled,
    "heads-reordered": reordered,
    "later-keys": later,
}


def replayed(causes, bias):
    """Apply causes to biases; return what differs up to a constant of each query."""
    biases = read_bias(as_encoding(bias))
    for cause in causes:
        biases = cause.apply(biases)
    return biases.numbers


def assert_reproduced(found, bias, other, case):
    """Both biases differ by a constant for each query, after the causes."""
    apart = replayed(found.causes, bias) - other
    largest = np.abs(apart - np.median(apart, axis=2, keepdims=True)).max()
    assert largest < 1e-4 * np.abs(other).max(), case


@pytest.mark.parametrize("code", CHANGES)
def test_each_cause_alone_is_named_with_its_parameters(code):
    for seed in range(20):
        rng = np.random.default_rng([SEED, seed])
        bias = drawn(rng)
        other, parameters = CHANGES[code](rng, bias)
        other = other.astype(KINDS[seed % 2 if code != "clipped" else 0])
        found = compare(as_encoding(bias), as_encoding(other))
        (cause,) = found.causes
        assert (cause.code, found.explained, found.verdict) == (code, 1.0, "different"), SEED
        named = {name: getattr(cause, name) for name in parameters}
        assert named == parameters
        assert found.first is None


@pytest.mark.parametrize("spec", [None, *NAMES])
def test_faults_of_registered_biases_are_named_alone_and_in_pairs(spec):
    faults = *CHANGES.values(), within, two_heads
    order = np.random.default_rng(SEED).permutation(list(permutations(faults, 2)))[:6]
    for nth, steps in enumerate([*product(faults), *order]):
        rng = np.random.default_rng([SEED, nth])
        bias = drawn(rng, spec)
        other = bias
        for step in steps:
            other, _ = step(rng, other)
        found = compare(as_encoding(bias), as_encoding(other))
        case = SEED, spec, nth, [step.__name__ for step in steps], found.causes
        assert found.same or found.causes or len(steps) == 2, case
        if found.same or found.causes:
            assert_reproduced(found, bias, other, case)
        assert (found.first is None) == (found.same or bool(found.causes)), case


def test_random_damage_has_no_cause():
    for seed in range(6):
        rng = np.random.default_rng([SEED, seed])
        bias = drawn(rng)
        head, n = rng.integers(len(bias)), bias.shape[1]
        noise, rows = bias + rng.normal(0, 0.01, bias.shape), bias.copy()
        rows[head] = rows[head][rng.permutation(n)]
        for other in (noise, rows, by_lag(rng.normal(size=(len(bias), 2 * n - 1)))):
            found = compare(as_encoding(bias), as_encoding(other))
            assert (found.verdict, found.causes) == ("different", ())
            place = found.first.at
            assert (found.first.expected, found.first.observed) == (bias[place], other[place])


@pytest.mark.parametrize("kind", KINDS)
def test_right_biases_are_the_same_in_every_type(kind):
    for seed in range(20):
        rng = np.random.default_rng([SEED, seed])
        bias = drawn(rng) * 10.0 ** rng.integers(-3, 3, (1, 1, 1))
        bias = bias * 2.0 ** -np.arange(len(bias))[:, None, None]  # as slopes fall
        constants = rng.normal(size=(len(bias), bias.shape[1], 1))
        assert compare(as_encoding(bias), as_encoding(bias.astype(kind))).same
        assert compare(as_encoding(bias), as_encoding(bias + constants)).same


@pytest.mark.parametrize("kind", KINDS)
def test_no_head_of_zeros_hides_behind_larger_heads(kind):
    bias = -(4.0 ** -np.arange(8))[:, None, None] * np.abs(lags(24))
    for head in range(8):
        other = bias.astype(kind)
        other[head] = 0
        found = compare(as_encoding(bias), as_encoding(other))
        assert [difference.index for difference in found.heads] == [head]
        assert (found.causes[0].by, found.causes[0].heads) == (0.0, (head,))


@pytest.mark.parametrize("heads", [3, 6, 8, 12])
def test_slopes_of_every_rule_are_named(heads):
    right, lag = alibi_slopes(heads), np.abs(lags(30))
    for rule, slopes in slope_rules(heads).items():
        other = as_encoding(-slopes[:, None, None] * lag)
        found = compare(as_encoding(-right[:, None, None] * lag), other)
        assert found.same or found.causes[0].code in ("slopes", "scaled"), rule
        if not found.same and found.causes[0].code == "slopes":
            named = slope_rules(heads)[found.causes[0].rule]
            np.testing.assert_allclose(named, slopes, rtol=1e-6)


@pytest.mark.parametrize("farthest", [x for x in FARTHEST if x > 16])
@pytest.mark.parametrize("causal", [False, True])
def test_buckets_of_t5_with_other_settings_are_named(farthest, causal):
    values, lag = np.random.default_rng(0).normal(size=(32, 5)), lags(200)
    other = t5_buckets(lag, 32, farthest, causal=causal)
    first, second = (np.moveaxis(values[b], -1, 0) for b in (t5_buckets(lag), other))
    found = compare(as_encoding(first), as_encoding(second))
    if not found.same:
        (cause,) = found.causes
        assert (cause.rule.groups(lag) == other).all()

"""Bounds, bands and misreadings of rotations equal published values and slow references."""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.encodings.attention_decay import PAIRS, lag_sums
from pefourier.questions.context import describe_context
from pefourier.questions.rotations import (
    base_bound,
    count_unseen,
    critical_dimension,
    describe_rotation,
    longest_familiar,
    read_against,
)


def frequencies(spec, length=8192, d=128):
    return load(spec, length, d).measure.frequencies


LLAMA3 = "rope:rho=5e5,scaling=llama3,factor=8,original=8192"
GPT_OSS = "rope:rho=150000,scaling=yarn,factor=32,original=4096,truncate={}"
QWEN = "rope:rho=1e6,scaling=yarn,factor=4,original={}"


BOUNDS = [  # first m with B(m) < 0: the bound of arXiv 2405.14591 at published bases and heads
    ("rope:rho=1e4", 128, 1707),
    ("rope:rho=1.2e4", 128, 1554),  # not monotone in the base
    ("rope:rho=1e7", 128, 144660),
    ("rope:scaling=ntk,factor=16", 128, 7920),
    ("rope:scaling=yarn,factor=4,original=4096", 128, 4328),
    (LLAMA3, 128, 85133),
    (GPT_OSS.format("false"), 64, 64255),
]


@pytest.mark.parametrize(("spec", "d", "bound"), BOUNDS)
def test_base_bound_is_the_published_one(spec, d, bound):
    assert base_bound(frequencies(spec, d=d)) == bound


@pytest.mark.parametrize("rotating", [0.25, 0.5, 0.75, 0.9375, 1.0])
def test_unrotated_pairs_are_part_of_the_bound(rotating):
    """The bound equals a sum over all pairs, including those of frequency 0, lag by lag."""
    r = describe_rotation(load(f"rope:partial={rotating}", 4096, 64))
    every = np.append(r.frequencies, np.zeros(r.pairs - r.rotated))
    sums = np.cos(np.outer(np.arange(4096), every)).sum(axis=1)
    negative = np.flatnonzero(sums < 0)
    bound = r.bound if r.bound is None or r.bound < 4096 else None
    assert bound == (negative[0] if len(negative) else None)


@pytest.mark.parametrize(("count", "length"), [(7, 70_000), (PAIRS + 1, 2000)])
def test_lag_sums_are_those_of_the_formula(count, length, rng):
    w = rng.uniform(0, np.pi, count)
    sums = np.concatenate([block for _, block in lag_sums(w, length)])[:length]
    direct = sum(np.cos(np.arange(length) * omega) for omega in w)
    np.testing.assert_allclose(sums, direct, atol=2e-11 * length)


@pytest.mark.parametrize(
    ("d", "base", "length", "critical"),
    [(128, 1e4, n, c) for n, c in zip([512, 2048, 4096, 32768], [62, 82, 92, 120], strict=True)]
    + [(64, 1e4, 4096, 46), (128, 5e5, 8192, 70), (256, 1e4, 8192, 200), (128, 1e6, 32768, 80)]
    + [(128, 1e4, 10**9, 128), (128, 1e4, 6, 0), (128, 1.0, 100, 128)],
)
def test_critical_dimension_is_the_published_one(d, base, length, critical):
    assert critical_dimension(d, base, length) == critical


YARN = "rope:scaling=yarn,factor=4,original=4096"
BANDS = [(YARN, 128, (21, 25, 18)), (QWEN.format(32768), 128, (24, 16, 24))]
BANDS += [(GPT_OSS.format("false"), 64, (9, 9, 14)), (LLAMA3, 128, (29, 6, 29))]


@pytest.mark.parametrize(("spec", "d", "sizes"), BANDS)
def test_bands_of_a_scaling_are_the_published_ones(spec, d, sizes):
    own = load(spec, 131072, d)
    r = describe_rotation(own, own.params["original"])
    ends, factor = np.cumsum(sizes), own.params["factor"]
    reported = [(b.treatment, b.pairs, b.first_pair, b.last_pair + 1) for b in r.bands]
    names = ["kept", "blended", "stretched"]
    assert reported == list(zip(names, sizes, [0, *ends[:2]], ends, strict=True))
    divisors = np.split(r.trained_frequencies / r.frequencies, ends[:-1])
    waves = np.split(2 * np.pi / r.frequencies, ends[:-1])
    for b, by, wave in zip(r.bands, divisors, waves, strict=True):
        assert (b.least_divisor, b.largest_divisor) == pytest.approx((by.min(), by.max()))
        assert (b.shortest_wavelength, b.longest_wavelength) == pytest.approx((wave[0], wave[-1]))
        trained = own.params["original"] * by[-1] / wave[-1]
        assert (b.turns, b.turns_trained) == pytest.approx((131072 / wave[-1], trained))
    ends = [r.bands[i].least_divisor for i in (0, 2)] + [r.bands[i].largest_divisor for i in (0, 2)]
    assert ends == pytest.approx([1, factor, 1, factor])


WALKED = [(LLAMA3, "rope:rho=5e5"), ("rope", "rope")]
WALKED += [("rope:scaling=linear,factor=4,partial=.5", "rope:partial=.5")]


@pytest.mark.parametrize(("spec", "plain"), WALKED)
def test_unseen_and_idle_pairs_are_those_of_a_walk(spec, plain):
    """Counts of pairs equal a comparison of their phases with those of training."""
    own, v = load(spec, 2000, 32), load(plain, 2000, 32).measure.frequencies
    w, turn = own.measure.frequencies, 2 * np.pi
    r = describe_rotation(own, trained=500)
    assert r.unseen == ((w * 2000 > v * 500 * (1 + 1e-9)) & (v * 500 < turn)).sum()
    assert r.idle == (w * 2000 < turn).sum()


FACTORS = ["linear,factor=4", "ntk,factor=4", "yarn,factor=4,original=512", "none"]


@pytest.mark.parametrize("scaling", [*FACTORS, "llama3,factor=4,original=512"])
def test_longest_familiar_length_is_the_last_with_no_pair_in_new_phases(scaling):
    own = frequencies(f"rope:rho=1e4,scaling={scaling}", 512, 64)
    plain = frequencies("rope:rho=1e4", 512, 64)
    counts = [count_unseen(own, 512 * plain, length) for length in range(1, 4 * 512 + 8)]
    assert longest_familiar(own, 512 * plain) == counts.index(next(filter(None, counts)))


LN4 = 0.1 * np.log(4) + 1  # YaRN's attention factor


@pytest.mark.parametrize(
    ("spec", "other", "logits"),
    [  # the square of the ratio of attention factors
        (QWEN.format(32768), "scaling-ignored", LN4**-2),
        (QWEN.format(32768), "attention_factor=1", LN4**-2),
        (QWEN.format(32768), "factor=16", ((0.1 * np.log(16) + 1) / LN4) ** 2),
        (QWEN.format(32768) + ",attention_factor=1.5", "original=40960", 1.0),
        (QWEN.format(32768) + ",attention_factor=1.5", "scaling-ignored", 1.5**-2),
        (QWEN.format(32768), "layout", 1.0),
        ("rope:rho=1e6", QWEN.format(32768), LN4**2),
    ],
)
def test_a_reading_reports_how_large_its_logits_are(spec, other, logits):
    """A lost attention factor is reported as a factor of the logits."""
    assert read_against([load(spec, 8192, 128)], other, 8192).logits == pytest.approx(logits)


@pytest.mark.parametrize(
    ("mistakes", "halves"),
    [("scaling-ignored,layout", True), ("base=1e4,layout", True), ("base=1e4", False)],
)
def test_several_misreadings_come_together(mistakes, halves):
    """The cosine of several misreadings is that of all columns, with the wrong pairing too."""
    scaling = ",scaling=llama3,factor=8,original=8192"
    own = frequencies(f"rope:rho=5e5{scaling}", 64, 16)
    other = frequencies(f"rope:rho=1e4{scaling}" if "base" in mistakes else "rope:rho=5e5", 64, 16)
    pairs = np.arange(16)
    apart = own[pairs % 8] - other[pairs // 2] if halves else own - other
    found = read_against([load(f"rope:rho=5e5{scaling}", 64, 16)], mistakes, 64)
    for position, cosine in found.cosine:
        assert cosine == pytest.approx(np.cos(position * apart).mean(), abs=1e-9)


@pytest.mark.parametrize("spec", ["alibi", "t5", "rope"])
def test_a_context_of_lags_has_the_positions_between_them(spec):
    """The context of 80 positions of ALiBi is 80, not its 159 lags."""
    assert describe_context(spec)[1].length == 80

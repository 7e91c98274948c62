"""Answers do not depend on the unit in which codes are written.

Codes times a power of two give the same answers to the bit, codes times any other number the same
within rounding; distances, and what else is measured in the unit of the codes, are multiplied.
"""

from dataclasses import fields, replace

import numpy as np
import pytest
from sinusoids import GRID, NORMAL, S, waves

from pefourier.encodings.encoding import FLOAT64_EPS, from_table
from pefourier.encodings.registry import BUILDERS, build
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.singular_values import decompose
from pefourier.questions.compare import compare
from pefourier.questions.faithful import assess
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import relate
from pefourier.questions.spectrum import density

POWERS = [2.0**-332, 2.0**-329, 2.0**-100, 2.0**100, 2.0**330, 2.0**332]
OTHERS = [1e-99, 1e-30, 1e30, 1e99]
SHAPE = (40, 16)


def padded(table, row=0):
    table = np.array(table)
    table[row] = 0.0
    return table


def log_uniform():
    random = np.random.default_rng(8)
    rows = random.standard_normal((60, 8))
    return (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) * 10.0 ** random.uniform(-30, 0, (60, 1))
    )


TABLES = {
    "normal": NORMAL[:40, :16],
    "waves": waves(GRID),
    "rotary": np.hstack([np.cos(S * GRID), np.sin(S * GRID)]),
    "padded": padded(waves(GRID)),
    "a row of zeros": padded(waves(GRID), 64),
    "one frequency": waves(np.ones(32)),
    "dead pairs": waves(np.exp(-2.0 * np.arange(32))),
    "rows alternate": np.where(S % 2, np.cos(S * GRID), np.sin(S * GRID)),
    "periodic": np.tile(NORMAL[:32], (4, 1)),
    "long first row": np.vstack([9 * NORMAL[:1], NORMAL[1:]]),
    "rank 3": NORMAL[:, :3] @ NORMAL[:3],
    "constant": np.ones((9, 4)),
    "zeros": np.zeros((9, 4)),
    "one position": NORMAL[:1],
    "one column": NORMAL[:, :1],
    "log-uniform": log_uniform(),
}


def scaled(enc, factor):
    """The encoding whose codes are those of another times a number."""
    measure = enc.measure
    if enc.stationary:
        measure = replace(measure, squared_length=measure.squared_length * factor**2)
    return replace(enc, codes=lambda x: factor * enc.codes(x), measure=measure)


EVERY = [*sorted(BUILDERS), *TABLES]


@pytest.fixture(params=enumerate(EVERY), ids=lambda row: row[1])
def case(request):
    """An encoding and the factors that its codes are multiplied by, a power of 2 and another."""
    place, name = request.param
    factors = [POWERS[place % len(POWERS)], OTHERS[place % len(OTHERS)]]
    return named(name), factors[:: -1 if place % 2 else 1]


def named(name):
    if name in BUILDERS:
        return build(name, length=SHAPE[0], d=SHAPE[1])
    return from_table(TABLES[name])


def conditions(enc):
    """By how much rounding of the codes is amplified in each answer, where it is not about one.

    What rests on directions of the codes feels rounding as the shortest of those that count does,
    and a distance as the codes themselves are rounded.
    """
    factors, rms = decompose(enc), float(np.sqrt((enc.table() ** 2).sum() / len(enc)))
    distance = closest_pair(enc).distance
    kept = factors.sigma[max(factors.rank - 1, 0)] or 1.0
    spread, share = factors.sigma[0] / kept, rms / (distance or 1.0)
    directions = dict.fromkeys(["condition_number", "inverse_error"], spread)
    directions |= {"shift_residual": fitted_spread(enc)}
    # distances of equal rows, from products, are zero to half of the digits
    directions |= {"distance_preservation": 1 / (64 * FLOAT64_EPS**0.5)}
    return directions | dict.fromkeys(["min_distance", "gap"], share)


def fitted_spread(enc):
    """Largest over smallest singular value of the codes that the fit of a shift takes as not zero.

    numpy.linalg.lstsq leaves out those up to eps times the larger size, fewer than the rank does.
    """
    rows = enc.table()[:-1]
    if not rows.size:
        return 1.0
    sigma = np.linalg.svd(rows, compute_uv=False)
    counted = sigma[sigma > FLOAT64_EPS * max(rows.shape) * sigma[0]]
    return counted[0] / counted[-1] if len(counted) else 1.0


def same(found, expected, factor, condition=1.0):
    """Equal to the bit for a power of two, else within rounding; None and NaN equal themselves."""
    if factor in POWERS or expected is None or isinstance(expected, str):
        np.testing.assert_equal(found, expected)
    elif isinstance(expected, dict):
        for key in found.keys() | expected.keys():
            same(found[key], expected[key], factor, condition)
    else:
        within = max(1e-9, 64 * FLOAT64_EPS * condition)
        np.testing.assert_allclose(found, expected, rtol=within, atol=within)


def unit_free(identified):
    """What was identified without the scale and the difference, which are in the unit of codes."""
    if identified is None:
        return None
    params = {key: value for key, value in identified["params"].items() if key != "scale"}
    return identified["encoding"], params


IN_UNITS = ("min_distance", "rank_tolerance")
OF_UNITS = ("precision", "identified", "findings")
IN_FORMATS = ("scale", "near-duplicates")  # the latter is of rows that bfloat16 makes equal
BIASES = ("kernel", "first_rise", "first_rising_lag")  # logits: the unit is that of the softmax


@pytest.mark.parametrize("question", [assess, relate])
def test_faithfulness_and_relations_do_not_depend_on_the_unit(case, question):
    enc, factors = case
    one, condition = question(enc), conditions(enc)
    for factor in factors:
        other = question(scaled(enc, factor))
        for name in (f.name for f in fields(one) if f.compare):  # not what it is about
            value, found = getattr(one, name), getattr(other, name)
            if name in IN_UNITS and value is not None:
                found = found / factor
            if name not in OF_UNITS and not (name in BIASES and enc.act == "bias"):
                same(found, value, factor, condition.get(name, 1.0))
        if question == relate:
            continue
        assert unit_free(other.identified) == unit_free(one.identified)
        codes = [
            [(f.code, f.severity) for f in r.findings if f.code not in IN_FORMATS]
            for r in (one, other)
        ]
        assert codes[0] == codes[1]


def test_spectrum_and_reconstruction_do_not_depend_on_the_unit(case):
    enc, factors = case
    if enc.dim < 2:
        return
    condition = conditions(enc)
    for factor in factors:
        other = scaled(enc, factor)
        for method in ["periodogram"] + ["declared"] * (enc.measure is not None):
            one, two = (density(e, sigma=0.0, method=method) for e in (enc, other))
            same(two.density, one.density, factor)
            for name in (f.name for f in fields(one.summary)):
                same(getattr(two.summary, name), getattr(one.summary, name), factor)
        one, two = (position_functions(e, [0], method="auto") for e in (enc, other))
        same(two.inverse_error, one.inverse_error, factor, condition["inverse_error"])
        for name in (f.name for f in fields(one.reconstructions[0])):
            found, value = (getattr(r.reconstructions[0], name) for r in (two, one))
            same(found, value, factor, condition.get(name, 1.0))


def test_comparison_does_not_depend_on_the_unit(case):
    """By turns with a power of two or another factor, where there are two."""
    enc, factors = case
    factors = factors[:1] if len(factors) == 2 else factors
    changed = from_table(enc.table()[::-1] + 1e-3 * enc.table().max() * np.eye(len(enc), enc.dim))
    one = compare(enc, changed)
    for factor in factors:
        other = scaled(enc, factor)
        found = compare(enc, other)
        usual = "different" if enc.act in ("rotate", "bias") else "equivalent"
        assert found.verdict == (usual if enc.table().any() else "the same")
        if found.transform:
            assert found.transform.keys() == {"scale"}
            assert found.transform["scale"] == pytest.approx(factor, rel=1e-5, abs=0)
        two = compare(other, scaled(changed, factor))
        facts = [(c.verdict, c.bitwise, c.transform) for c in (one, two)]
        assert facts[0] == facts[1]
        for name in ("first_difference", "largest_difference"):
            assert getattr(two, name) == getattr(one, name)
        np.testing.assert_allclose(two.tolerance, factor * one.tolerance, rtol=1e-12)
        unit = 1.0 if one.verdict == "same geometry" else factor
        difference = two.max_difference / unit
        np.testing.assert_allclose(difference, one.max_difference, rtol=1e-9, atol=1e-15)

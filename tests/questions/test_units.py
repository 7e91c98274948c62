"""Answers do not depend on the unit of vectors.

Vectors times a power of two give identical answers to the bit. Distances, and other numbers in the
unit of the vectors, are multiplied.
"""

from dataclasses import asdict, fields, replace

import numpy as np
import pytest
from findings import codes
from numpy.testing import assert_allclose, assert_equal
from sinusoids import GRID, NORMAL, S, waves

from pefourier.encodings.encoding import from_table
from pefourier.encodings.registry import BUILDERS, build
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.compare import compare
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import relate
from pefourier.questions.spectrum import spectrum

POWERS = [2.0**-332, 2.0**-100, 2.0**100, 2.0**332]


def padded(table, row=0):
    table = np.array(table)
    table[row] = 0.0
    return table


TABLES = {
    "normal": NORMAL[:40, :16],
    "waves": waves(GRID),
    "rotary": np.hstack([np.cos(S * GRID), np.sin(S * GRID)]),
    "a row of zeros": padded(waves(GRID), 64),
    "one frequency": waves(np.ones(32)),
    "rows alternate": np.where(S % 2, np.cos(S * GRID), np.sin(S * GRID)),
    "periodic": np.tile(NORMAL[:32], (4, 1)),
    "constant": np.ones((9, 4)),
    "zeros": np.zeros((9, 4)),
    "one column": NORMAL[:, :1],
}


def scaled(enc, factor):
    """Return an encoding whose vectors are multiplied by a number."""
    measure = enc.measure
    if enc.is_stationary:
        measure = replace(measure, squared_length=measure.squared_length * factor**2)
    return replace(enc, vectors=lambda x: factor * enc.vectors(x), measure=measure)


@pytest.fixture(params=enumerate([*sorted(BUILDERS), *TABLES]), ids=lambda row: row[1])
def case(request):
    """An encoding and the power of 2 by which its vectors are multiplied."""
    place, name = request.param
    enc = build(name, length=40, d=16) if name in BUILDERS else from_table(TABLES[name])
    return enc, POWERS[place % len(POWERS)]


same = assert_equal  # equal to the bit; None and NaN equal themselves


def unit_free(identified):
    """Return the identified formula without scale and difference, which are in that unit."""
    if identified is None:
        return None
    params = {key: value for key, value in identified["params"].items() if key != "scale"}
    return identified["encoding"], params


IN_UNITS = ("min_distance", "rank_tolerance")
OF_UNITS = ("precision", "identified", "findings")
IN_FORMATS = ("scale", "near-duplicates")  # the latter depends on rows that bfloat16 makes equal
BIASES = ("by_lag", "half", "tenth")  # logits have the unit of the softmax


@pytest.mark.parametrize("question", [check_faithful, relate])
def test_faithfulness_and_relations_do_not_depend_on_the_unit(case, question):
    enc, factor = case
    one, other = question(enc), question(scaled(enc, factor))
    for name in (f.name for f in fields(one) if f.compare):  # without the fields about its source
        value, found = getattr(one, name), getattr(other, name)
        if name in IN_UNITS and value is not None:
            found = found / factor
        if name not in OF_UNITS and not (name in BIASES and enc.injection == "bias"):
            same(found, value)
    if question == check_faithful:
        assert unit_free(other.identified) == unit_free(one.identified)
        vectors = [{*codes(r)} - {*IN_FORMATS} for r in (one, other)]
        assert vectors[0] == vectors[1]


def test_spectrum_and_reconstruction_do_not_depend_on_the_unit(case):
    enc, factor = case
    if enc.dim < 2 or enc.domain.kind == "graph":
        return
    other = scaled(enc, factor)
    for method in ["periodogram"] + ["declared"] * bool(enc.measure):
        one, two = (spectrum(e, sigma=0.0, method=method) for e in (enc, other))
        same(two.density, one.density)
        same(asdict(two.summary), asdict(one.summary))
    one, two = (position_functions(e, [0], method="auto") for e in (enc, other))
    same(two.inverse_error, one.inverse_error)
    same(asdict(two.reconstructions[0]), asdict(one.reconstructions[0]))


def test_comparison_does_not_depend_on_the_unit(case):
    enc, factor = case
    changed = from_table(enc.table()[::-1] + 1e-3 * enc.table().max() * np.eye(len(enc), enc.dim))
    other = scaled(enc, factor)
    found = compare(enc, other)
    usual = "different" if enc.injection in ("rotate", "bias") else "equivalent"
    assert found.verdict == (usual if enc.table().any() else "the same")
    if found.transform:
        assert found.transform == {"scale": pytest.approx(factor, rel=1e-5, abs=0)}
    one, two = compare(enc, changed), compare(other, scaled(changed, factor))
    for name in ("verdict", "bitwise", "transform", "first_difference", "largest_difference"):
        assert getattr(two, name) == getattr(one, name)
    difference = two.max_difference / factor
    assert_allclose(two.tolerance, factor * one.tolerance, rtol=1e-12)
    assert_allclose(difference, one.max_difference, rtol=1e-9, atol=1e-15)

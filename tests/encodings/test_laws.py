"""Laws that hold for every registered encoding, at even, odd and prime lengths and dimensions."""

import json

import numpy as np
import pytest
from double_loop import by_definition
from numpy.testing import assert_allclose, assert_array_equal
from reference import DIM, LENGTH, ROWS
from refusals import refusal

from pefourier.encodings import build, load
from pefourier.encodings.encoding import as_encoding, from_table
from pefourier.encodings.loader import records
from pefourier.encodings.registry import BUILDERS
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.precision import precision
from pefourier.geometry.singular_values import decompose
from pefourier.questions.check_faithful import check_faithful
from pefourier.questions.reconstruct import position_functions
from pefourier.questions.relations import toeplitz_residual
from pefourier.report import catalogue

SIZES = [(1, 2), (12, 32), (16, 16), (17, 8), (31, 6)]
NAMES = sorted(BUILDERS)
DECLARED = {
    *"axial axial-rope dft fope fourier-features learnable-sinusoidal".split(),
    *"mixed-rope mtan-fixed rope rope++ sinusoidal tape xl xpos".split(),
}


@pytest.mark.parametrize(
    "row", catalogue.rows(catalogue.read_catalogue())[1:], ids=lambda row: row[0]
)
def test_defaults_are_listed_as_they_are_typed(row):
    own = ",".join(item for item in row[-1].split(",") if "=" in item)
    typed, plain = load(f"{row[0]}:{own}" if own else row[0], 8, 4), load(row[0], 8, 4)
    assert_array_equal(typed.table(), plain.table())


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_table_is_finite_float64_of_the_size_reported_and_repeats(name, size):
    enc = build(name, length=size[0], d=size[1])
    table = enc.table()
    assert (enc.params["length"], enc.params["d"]) == (size[0], enc.dim)
    assert (enc.origin, enc.untrained) == ("formula", BUILDERS[name].untrained)
    assert (table.shape, table.dtype) == ((len(enc), enc.dim), np.float64)
    assert np.isfinite(table).all()
    assert_array_equal(table, build(name, length=size[0], d=size[1]).table())
    blocks = dict(enc.blocks(5))
    assert list(blocks) == list(range(0, len(enc), 5))
    assert_allclose(np.vstack(list(blocks.values())), table, rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_declared_measure_is_that_of_the_vectors(name):
    """The declared frequencies are those of the table: their sinusoids span its columns."""
    enc = build(name, length=40, d=8)
    assert bool(enc.measure) == (name in DECLARED)
    if not enc.measure:
        return
    assert enc.measure.weights.sum() == pytest.approx(1)
    phases = enc.measure.phases(enc.domain.x)
    waves = np.hstack([np.cos(phases), np.sin(phases)])
    rest = enc.table() - waves @ np.linalg.lstsq(waves, enc.table(), rcond=None)[0]
    assert (np.abs(rest).max() < 1e-8) is not ROWS[name].damped
    if enc.is_stationary:
        assert enc.domain.kind in ("position", "lag")
        lag = np.subtract.outer(enc.domain.x, enc.domain.x)
        inner = enc.measure.squared_length * enc.measure.kernel(lag.ravel()).reshape(lag.shape)
        assert_allclose(enc.table() @ enc.table().T, inner, atol=1e-11)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_those_of_the_table_by_their_definitions(name, size):
    """Singular values, closest pair, distinct rows and precision equal their definitions."""
    enc = build(name, length=size[0], d=size[1])
    table = enc.table()
    direct = np.linalg.svd(table, compute_uv=False)
    assert_allclose(decompose(enc).sigma, direct, atol=1e-12 * (1 + direct[0]))
    found = closest_pair(enc)
    if len(table) > 1:
        distance, pair, distinct = by_definition(np.round(table, 12))
        assert (found.pair, found.distinct) == (pair, distinct)
        assert found.distance == pytest.approx(distance, abs=1e-11)
    if enc.measure:
        whole = from_table(table)
        for form, loss in precision(enc, found.distinct).items():
            assert loss.distinct_cast == precision(whole, found.distinct)[form].distinct_cast


@pytest.mark.parametrize("name", NAMES)
def test_reconstruction_is_a_unit_vector_with_its_peak_in_place(name):
    if BUILDERS[name].domain == "graph":
        with refusal("even steps"):
            position_functions(build(name, length=17, d=8), [0])
        return
    result = position_functions(build(name, length=17, d=8), [0, 3, 7])
    for r in result.reconstructions:
        if name == "none":
            assert np.isnan(r.values).all()
            continue
        assert np.linalg.norm(r.values) == pytest.approx(1)
        assert r.values[r.position] == pytest.approx(r.values.max())
        away = r.values - np.eye(result.lattice)[r.position]
        assert r.error == pytest.approx(np.linalg.norm(away))


def test_every_encoding_has_a_reference_row_and_the_catalogue_is_the_registry():
    assert BUILDERS.keys() ^ ROWS.keys() == set()
    assert catalogue.read_catalogue() == json.loads(json.dumps(records())), "run make catalogue"


@pytest.mark.parametrize("name", NAMES)
def test_vector_of_position_3_and_the_verdict_are_those_of_the_reference(name):
    row, enc = ROWS[name], build(name, length=8, d=4)
    code = enc.vectors(enc.domain.x[3:4])[0]
    assert_allclose(code[: len(row.vector)], row.vector, atol=1e-14)
    assert check_faithful(build(name, length=LENGTH, d=DIM)).verdict == row.verdict
    measured = toeplitz_residual(as_encoding(build(name, length=12, d=32).table()))
    assert (measured < 1e-9) == row.stationary

"""Rounding equals torch's formats; distinct vectors equal walks and published counts."""

import numpy as np
import pytest
import torch

from pefourier.encodings import build
from pefourier.encodings.encoding import from_table
from pefourier.encodings.grids import on_grid
from pefourier.geometry.precision import (
    FORMATS,
    precision,
    rounded,
    stored_resolution,
)

TORCH = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3": torch.float8_e4m3fn,
}


@pytest.mark.parametrize("name", FORMATS)
def test_rounding_is_that_of_torch(name, rng):
    x = np.concatenate([rng.normal(size=2000) * 2.0 ** rng.integers(-30, 30, 2000), [0.0, -0.0]])
    x = np.concatenate([x, np.arange(-600.0, 600.0, 0.5)])
    x = x[np.abs(x) <= 464] if name == "float8_e4m3" else x  # beyond, torch 2.6 gives NaN
    wide = torch.tensor(x).to(torch.float32)  # torch would go through float32
    expected = wide.to(TORCH[name]).double().numpy()
    np.testing.assert_array_equal(rounded(wide.double().numpy(), FORMATS[name]), expected)


def walk(rows):
    """Return the number of different rows, and of the first rows without a repeat."""
    rows = [tuple("nan" if np.isnan(v) else v for v in row) for row in (rows + 0.0).tolist()]
    again = [i for i, row in enumerate(rows) if row in set(rows[:i])]
    return len(set(rows)), min([*again, len(rows)])


WALKED = {
    "rope": build("rope", length=700, d=8, rho=100.0),
    "sinusoidal, moved": build("sinusoidal", length=300, d=8, offset=256),
    "sinusoidal, odd d": build("sinusoidal", length=300, d=7),
    "axial": build("axial", grid=(3, 90), d=8),
    "mixed": build("mixed-rope", grid=(13, 21), d=8),
    "nerf": build("fourier-features", length=33, d=12, mapping="nerf", coordinates="centred"),
}


@pytest.mark.parametrize("whole", [2**18, 0])
@pytest.mark.parametrize("name", WALKED)
def test_losses_are_those_of_a_walk(name, whole, monkeypatch):
    """Losses equal those of a walk over positions.

    The walk rounds products and their sums, then cosines and sines.
    """
    monkeypatch.setattr("pefourier.geometry.precision.WHOLE", whole)
    enc = WALKED[name]
    x = np.reshape(enc.domain.places(enc.domain.x) + enc.measure.offset, (len(enc), -1))
    omega = enc.measure.frequencies.reshape(len(enc.measure), -1)
    for key, loss in precision(enc).items():
        form, phases = FORMATS[key], 0.0
        for along, w in zip(x.T, omega.T, strict=True):
            part = rounded(np.outer(rounded(along, form), rounded(w, form)), form)
            phases = rounded(phases + part, form)
        waves = rounded(np.hstack([np.cos(phases), np.sin(phases)]), form)
        assert (loss.distinct_phase, loss.safe_phase) == walk(waves)
        if whole:
            assert (loss.distinct_cast, loss.safe_cast) == walk(rounded(enc.table(), form))
        expected = np.abs(phases - x @ omega.T).max()
        np.testing.assert_allclose(loss.max_phase_error, expected)


def test_a_line_on_a_grid_loses_what_the_line_loses():
    line = build("sinusoidal", length=300, d=64)
    assert precision(on_grid(line, (3, 10, 10), 0)) == precision(line)


def test_casting_merges_near_vectors_and_loses_those_that_overflow():
    table = np.array([[1.0, 0.0], [1.0 + 2.0**-9, 0.0], [1.0 + 2.0**-12, 0.0], [-0.0, 1.0]])
    left = precision(from_table(table))
    assert [left[name].distinct_cast for name in FORMATS] == [4, 3, 2, 2]
    assert (left["float16"].distinct_phase, left["float16"].max_phase_error) == (None, None)
    left = precision(from_table(np.array([[1.0, 0.0], [2.0, -7e4], [3.0, 7e4], [4.0, 0.0]])))
    assert [left[name].distinct_cast for name in FORMATS] == [4, 2, 4, 4]
    assert (left["float16"].safe_cast, left["float32"].safe_cast) == (1, 4)
    lag = precision(build("alibi", length=20, d=4))["bfloat16"]
    assert (lag.safe_cast, lag.safe_phase) == (None, None)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("factor", [1.0, 2.0**-100, 2.0**100])
def test_the_format_of_numbers_does_not_depend_on_their_unit(name, factor, rng):
    stored = rounded(rng.normal(size=(40, 16)), FORMATS[name])
    eps = 2.0 ** (1 - FORMATS[name].digits)
    assert stored_resolution(factor * stored, 2.0**-52) == (eps, 0.0)
    lags = -0.25 * np.abs(np.subtract.outer(np.arange(250.0), np.arange(24.0)))
    for counted in (np.eye(40), np.arange(300.0), np.arange(-128.0, 128.0), lags):
        assert stored_resolution(factor * counted, 2.0**-52)[0] == 2.0**-52
    assert stored_resolution(np.round(stored[:, 0].astype(float), 2), 2.0**-52)[1] == 0.01

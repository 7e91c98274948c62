"""What encodings of grids inject: the codes of points, and biases of displacements."""

import numpy as np
import pytest

from pefourier.encodings import build
from pefourier.errors import PefourierError
from pefourier.train.injection import load_injection

GRID, N = (3, 4), 12
PLACES = np.indices(GRID).reshape(2, -1).T


def inject(spec, d=16, heads=2, grid=GRID, length=N):
    return load_injection(spec, length, d, heads, seed=0, grid=grid)


def test_codes_added_are_those_of_the_grid():
    own = build("axial", d=16, grid=GRID).table()
    np.testing.assert_array_equal(inject("axial").table(), own)
    np.testing.assert_array_equal(
        inject("axial", grid=()).table(), build("axial", d=16, length=N).table()
    )


def test_what_knows_no_grid_is_on_one_axis():
    flat = build("sinusoidal", d=16, length=N).table()
    np.testing.assert_array_equal(inject("sinusoidal").table(), flat)
    np.testing.assert_array_equal(inject("alibi").table(), inject("alibi", grid=()).table())


@pytest.mark.parametrize("spec", ["axial-rope", "axial-rope:layout=interleaved", "mixed-rope"])
def test_rotations_depend_on_the_displacement_alone(spec):
    table = inject(spec).table()
    assert table.shape == (N, 8)
    cos, sin = np.split(table, 2, axis=1)
    inner = cos @ cos.T + sin @ sin.T
    kernel = build(spec.partition(":")[0], d=8, grid=GRID).measure.kernel
    np.testing.assert_allclose(inner, 4 * kernel(PLACES - PLACES[:, None]), atol=1e-12)
    np.testing.assert_allclose(cos**2 + sin**2, 1)


@pytest.mark.parametrize("spec", ["swin", "swin2", "beit"])
def test_biases_are_those_of_displacements(spec):
    one, enc = inject(spec), build(spec, d=2, grid=GRID)
    codes = enc.table()[enc.domain.prefix :].reshape(5, 7, 2)
    lag = PLACES - PLACES[:, None] + [2, 3]
    np.testing.assert_array_equal(one.table().reshape(N, N, 2), codes[lag[..., 0], lag[..., 1]])
    np.testing.assert_array_equal(one.as_rows(one.table()), codes.reshape(35, 2))
    assert one.learn


def test_patches_of_a_grid_are_refused():
    with pytest.raises(PefourierError, match="leave out --patch and --tokens"):
        inject("axial", length=6)


def test_a_layout_of_each_axis_is_refused():
    with pytest.raises(PefourierError, match="train with layout=halves"):
        inject("axial-rope:layout=axis-halves")

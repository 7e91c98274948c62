"""--grid and --prefix assign rows to grid points; sizes that do not fit are refused."""

import numpy as np
import pytest


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("extra", [[], ["--prefix", "2"]], ids=str)
def test_a_comma_pair_on_a_grid_is_a_point_of_it(run, ask, extra):
    words = ["encode", "axial", "--grid", "5x7", "--d", 8, *extra, "--out", "codes.npy"]
    run(*words)
    whole = np.load("codes.npy")
    prefix = len(whole) - 35
    record = ask(*words, "--pos", "3,4", "1,6", 0)
    rows = [prefix + 25, prefix + 13, 0]
    assert record["positions"] == rows
    np.testing.assert_array_equal(np.load("codes.npy"), whole[rows])

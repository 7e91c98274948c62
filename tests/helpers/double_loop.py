"""The closest pair and the distinct rows of a table, computed by their definition."""

import numpy as np
import pytest


def by_definition(table):
    """Return distance, pair and number of distinct rows by a loop over all pairs in order."""
    table = np.asarray(table, dtype=float)
    n = len(table)
    scale = np.ptp(table) or 1.0
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    distances = [scale * np.linalg.norm((table[i] - table[j]) / scale) for i, j in pairs]
    least = min(distances)
    nearest = next(k for k, distance in enumerate(distances) if distance <= least * (1 + 1e-9))
    return least, pairs[nearest], len({tuple(row) for row in table.tolist()})


def assert_agree(found, expected):
    distance, pair, distinct = expected
    assert found.distance == pytest.approx(distance, rel=1e-9, abs=0)
    assert (found.pair, found.distinct) == (pair, distinct)

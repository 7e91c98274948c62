"""Whose table is this? Conventions of published models that give just these codes on its grid."""

from collections.abc import Iterator

import numpy as np

from pefourier.encodings.conventions import read_conventions
from pefourier.encodings.registry import build
from pefourier.errors import PefourierError

LOOKED_AT = 128  # points of a table, spread over the grid
FLOAT32 = 2.0**-23


def matching_conventions(
    table: np.ndarray, sides: tuple[int, ...], eps: float
) -> Iterator[tuple[str, str, float]]:
    """Encoding, convention and largest difference of those that a table follows to rounding.

    Several may: they differ on other grids, or in nothing that a table shows.

    >>> dit = build("axial", d=16, grid=(3, 4), convention="dit").table()
    >>> [name for _, name, _ in matching_conventions(dit, (3, 4), 1e-15)]
    ['mae', 'dit']
    """
    rows = np.unique(np.linspace(0, len(table) - 1, LOOKED_AT).astype(int))
    seen = np.asarray(table[rows], dtype=float)
    bound = 8 * max(eps, FLOAT32) * np.abs(seen).max()
    for encoding, conventions in read_conventions().items():
        for name in conventions:
            try:
                enc = build(encoding, d=table.shape[1], grid=sides, convention=name)
            except PefourierError:
                continue  # not of this many axes or dimensions
            codes = np.asarray(enc.codes(enc.domain.x[rows]), dtype=float)
            difference = float(np.abs(codes - seen).max())
            if codes.any() and difference <= bound:
                yield encoding, name, difference

"""Whose table is this? Conventions of published models that give just these codes on its grid."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pefourier.encodings.conventions import read_conventions
from pefourier.encodings.registry import BUILDERS, build
from pefourier.errors import PefourierError
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.writing.text import number

LOOKED_AT = 128  # points of a table, spread over the grid


def matching_conventions(
    table: np.ndarray, sides: tuple[int, ...], eps: float
) -> Iterator[tuple[str, str, float]]:
    """Encoding, convention and largest difference of those that a table follows to rounding.

    Several may: they differ on other grids, or in nothing that a table shows.

    >>> dit = build("axial", d=16, grid=(3, 4), convention="dit").table()
    >>> [name for _, name, _ in matching_conventions(dit, (3, 4), 1e-15)]
    ['mae', 'dit']
    """
    for encoding, conventions in read_conventions().items():
        for name in conventions:
            difference = difference_from(table, sides, eps, encoding, {"convention": name})
            if difference is not None:
                yield encoding, name, difference


def difference_from(
    table: np.ndarray, sides: tuple[int, ...], eps: float, encoding: str, params: dict[str, Any]
) -> float | None:
    """The largest difference of a table from an encoding, where rounding explains it."""
    rows = np.unique(np.linspace(0, len(table) - 1, LOOKED_AT).astype(int))
    sampled = np.asarray(table[rows], dtype=float)
    try:
        enc = build(encoding, d=table.shape[1], grid=sides, **params)
    except PefourierError:
        return None  # not of this many axes or dimensions
    codes = np.asarray(enc.codes(enc.domain.x[rows]), dtype=float)
    difference = float(np.abs(codes - sampled).max())
    is_explained = codes.any() and difference <= 8 * max(eps, FLOAT32_EPS) * np.abs(sampled).max()
    return difference if is_explained else None


LAYOUTS = {  # of one axis' columns: what those of all may have
    "halves": ("halves", "axis-halves"),
    "interleaved": ("interleaved",),
}
DIVISORS = {"d": "n", "d/2-1": "n-1"}  # of one axis' dimensions, as typed


def spec_of_axes(
    table: np.ndarray, sides: tuple[int, ...], eps: float, identified: Mapping[str, Any]
) -> str | None:
    """The SPEC that gives a table whose axes are identified; None where none does.

    >>> table = build("axial", d=16, grid=(3, 4), rho=500.0).table()
    >>> params = {"order": "yx", "rho": 500.0, "layout": "halves", "divisor": "d", "first": "sin"}
    >>> spec_of_axes(table, (3, 4), 1e-15, {"encoding": "axial", "params": params})
    'axial:order=yx,rho=500'
    """
    encoding, params = identified["encoding"], identified["params"]
    if any(isinstance(value, list) for value in params.values()):
        return None  # an axis of its own for each
    parameters = BUILDERS[encoding].parameters
    plain = {key: value for key, value in params.items() if key in parameters}
    plain["divisor"] = DIVISORS.get(params.get("divisor", "d"))
    for layout in LAYOUTS.get(params.get("layout", ""), ()) if plain["divisor"] else ():
        settings = {
            k: v for k, v in (plain | {"layout": layout}).items() if v != parameters[k].default
        }
        if difference_from(table, sides, eps, encoding, settings) is not None:
            typed = (f"{k}={number(v, 15)}" for k, v in settings.items())
            return f"{encoding}:{','.join(typed)}" if settings else encoding
    return None

"""Which points are asked for, and how are two encodings loaded that are compared?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pefourier.encodings.checks import check_whole
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.loader import SpecWithDefaults, load, source_of, specs_of_rotations
from pefourier.errors import PefourierError

if TYPE_CHECKING:
    import torch

    from pefourier.encodings.domain import Domain

Source: TypeAlias = (
    "str | os.PathLike[str] | Encoding | np.ndarray[Any, Any] | Sequence[Sequence[float]] "
    "| torch.Tensor | torch.nn.Module | Callable[..., Any]"
)
Count: TypeAlias = int | str  # texts as the shell takes them: "128k", "3e5"

LARGEST_CODE = 2**25  # numbers that code is asked for where nobody said how many
PLACES = {"grid", "prefix"}  # keywords of all encodings: where their rows stand


def as_points(positions: Sequence[int] | Sequence[Sequence[int]] | None) -> list[tuple[int, ...]]:
    """Points of one number or several; a position is a point of one.

    >>> as_points([(3, 4), 5])
    [(3, 4), (5,)]
    """
    points = np.atleast_1d(positions) if np.isscalar(positions) else positions or ()
    points = [np.atleast_1d(point).tolist() for point in points]
    for x in (x for point in points for x in point):
        check_whole("a position", x)
    return [tuple(map(int, point)) for point in points]


def rows_of_points(domain: Domain, points: Sequence[tuple[int, ...]]) -> list[int]:
    """Rows of the table that are meant: on a grid 3,4 is a point, else each number is a position.

    A number alone is a row, on a grid, too: those before it have no place.

    >>> from pefourier.encodings.domain import lattice, positions
    >>> rows_of_points(lattice((14, 14), prefix=1), [(3, 4), (0,)])
    [47, 0]
    >>> rows_of_points(positions(9), [(3, 4), (0,)])
    [3, 4, 0]
    """
    if len(domain.sides) == 1 or domain.kind != "position":
        return [row for point in points for row in point]
    from pefourier.questions.reconstruct import check_point

    def row_of(point: tuple[int, ...]) -> int:
        return domain.prefix + int(
            np.ravel_multi_index(check_point(point, domain.sides), domain.sides)
        )

    return [row_of(point) if len(point) > 1 else point[0] for point in points]


def load_matching_pair(
    a: Source | SpecWithDefaults,
    b: Source | SpecWithDefaults,
    length: Count | None = None,
    d: Count | None = None,
    params: Mapping[str, Any] | None = None,
) -> tuple[Encoding, Encoding]:
    """Two encodings; a named one has the size of a file, config or user's code, and its grid.

    User's code has the dimension of a file or config, and its length where it gives so many.
    Parameters are those of a named one where there is one.
    """
    from pefourier.diagnosis.settings import BY_LENGTH
    from pefourier.encodings.grids import on_common_grid
    from pefourier.questions.operators import head_size

    kinds, params = [source_of(x) for x in (a, b)], dict(params or {})
    placing = {key: value for key, value in params.items() if key in PLACES}
    loaders: list[Callable[..., Encoding]] = []
    for x, kind in zip((a, b), kinds, strict=True):
        own_params = params if kind == "name" or "name" not in kinds else placing
        loader = load_first if {*kinds} <= {"config", "gguf"} else load
        loaders.append(partial(loader, x, **{"length": length, "d": d, **own_params}))
    pair: dict[int, Encoding] = {}
    for k in sorted((0, 1), key=lambda k: kinds[k] == "code"):
        try:
            pair[k] = loaders[k]()
        except PefourierError:  # code of another size only
            if kinds[k] != "code" or d or not pair:
                raise
            pair[k] = loaders[k](d=head_size(pair[1 - k]))
    by_length = any(enc.params.get("scaling") in BY_LENGTH for enc in pair.values())
    if {*kinds} <= {"config", "gguf"} and by_length:  # frequencies of one length for both
        shortest = min(map(len, pair.values()))
        pair = {k: loaders[k](length=shortest) for k in (0, 1)}
    for k in (0, 1):
        if kinds[k] == "name" != kinds[1 - k]:
            size = {key: value for key, value in {"length": length, "d": d}.items() if value}
            pair[k] = loaders[k](**{**size_and_place(pair[1 - k], pair[k].domain), **size})
    for k in (0, 1):
        if kinds[k] == "code" != kinds[1 - k]:
            is_fixed = "name" in kinds or length is not None or bool(placing)
            pair[k] = code_beside(pair[1 - k], pair[k], loaders[k], d, is_fixed)
    return on_common_grid(pair[0], pair[1])


def load_first(source: Any, **size: Any) -> Encoding:
    """The first rotation of a model, in the name of all."""
    spec = os.fspath(getattr(source, "spec", source))
    first = specs_of_rotations(spec)[0]
    return load(source, **size) if first == spec else replace(load(first, **size), spec=spec)


def code_beside(
    reference: Encoding,
    code: Encoding,
    load_code: Callable[..., Encoding],
    d: Count | None,
    is_fixed: bool,
) -> Encoding:
    """User's code in the size of what it is compared with, where it gives that and may."""
    from pefourier.questions.operators import head_size

    width = head_size if code.operator is not None else (lambda enc: enc.dim)
    if d is None and width(code) != width(reference):
        with suppress(PefourierError):  # code of one size only, which is compared as it is
            code = load_code(d=width(reference), **({"length": len(reference)} if is_fixed else {}))
    length = min(len(reference), max(LARGEST_CODE // code.dim, len(code)))
    dimension = d or code.params.get("d", code.dim)
    while not is_fixed and len(reference.domain.sides) == 1 and len(code) < length:
        try:
            code = load_code(length=length, d=dimension)
        except PefourierError:  # code of fewer rows, which is compared as far
            length //= 2
    return code


def size_of_lags(reference: Encoding) -> dict[str, Any]:
    """Positions and heads of biases that a table may hold: (heads, n, n), (n, n) or a row a lag."""
    if reference.bias is not None:
        return {"length": reference.bias.shape[1], "d": reference.bias.shape[0]}
    rows, columns = len(reference), reference.dim
    if reference.domain.kind == "lag" or rows > columns:
        return {"length": (rows + 1) // 2 if rows % 2 else rows, "d": columns}
    return {"length": columns, "d": 1 if rows == columns else rows}


def size_and_place(reference: Encoding, domain: Domain) -> dict[str, Any]:
    """The length and dimension of an encoding, and its grid for what has none of its own."""
    from pefourier.questions.operators import head_size

    if domain.kind == "lag":
        return size_of_lags(reference)
    d = reference.dim if reference.operator is None else head_size(reference)
    size: dict[str, Any] = {"length": len(reference), "d": d}
    if domain.grid and domain.grid == reference.domain.grid:
        return size | {"prefix": reference.domain.prefix}
    if domain.kind != "position" or domain.grid:
        return size
    return size | {"grid": reference.domain.grid, "prefix": reference.domain.prefix}

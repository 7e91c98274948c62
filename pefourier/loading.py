"""Which points are asked for, and how are two encodings loaded that are compared?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pefourier.encodings.checks import check_whole
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.specs import SpecWithDefaults, load, source_of, specs_of_rotations
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


def pair_of(
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
    from pefourier.encodings.grids import on_common_grid

    kinds, params = [source_of(x) for x in (a, b)], dict(params or {})
    placing = {key: value for key, value in params.items() if key in PLACES}
    sides = [
        Side(x, kind, length, d, params if kind == "name" or "name" not in kinds else placing)
        for x, kind in zip((a, b), kinds, strict=True)
    ]
    if {*kinds} <= {"config", "gguf"}:  # of several rotations one stands for all
        return sides[0].load_first(), sides[1].load_first()
    pair = [sides[0].load_beside(sides[1]), sides[1].load_beside(sides[0])]
    for k in (0, 1):
        if kinds[k] == "name" != kinds[1 - k]:
            size = {key: value for key, value in {"length": length, "d": d}.items() if value}
            pair[k] = sides[k].load(**{**size_and_place(pair[1 - k], pair[k].domain), **size})
    for k in (0, 1):
        if kinds[k] == "code" != kinds[1 - k]:
            is_fixed = "name" in kinds or length is not None or bool(placing)
            pair[k] = code_beside(pair[1 - k], pair[k], sides[k], is_fixed)
    return on_common_grid(*pair)


@dataclass(frozen=True)
class Side:
    """One of two that are compared, and what was given of its size and parameters."""

    source: Any
    kind: str  # as `source_of` says
    length: Count | None
    d: Count | None
    params: Mapping[str, Any]

    def load(self, **size: Any) -> Encoding:
        """The encoding, at another size than was given."""
        return load(self.source, **{"length": self.length, "d": self.d, **self.params, **size})

    def load_first(self) -> Encoding:
        """The first rotation of a model, in the name of all."""
        spec = os.fspath(getattr(self.source, "spec", self.source))
        rotations = specs_of_rotations(spec)
        if len(rotations) == 1:
            return self.load()
        return replace(replace(self, source=rotations[0]).load(), spec=spec)

    def load_beside(self, other: Side) -> Encoding:
        """The encoding; code that takes no other dimension at that of the other."""
        from pefourier.questions.operators import head_size

        try:
            return self.load()
        except PefourierError:
            if self.kind != "code" or other.kind == "code" or self.d:
                raise
            return self.load(d=head_size(other.load()))


def code_beside(other: Encoding, code: Encoding, side: Side, is_fixed: bool) -> Encoding:
    """User's code in the size of what it is compared with, where it gives that and may."""
    from pefourier.questions.operators import head_size

    width = head_size if code.operator is not None else (lambda enc: enc.dim)
    if side.d is None and width(code) != width(other):
        with suppress(PefourierError):  # code of one size only, which is compared as it is
            code = side.load(d=width(other), **({"length": len(other)} if is_fixed else {}))
    length = min(len(other), max(LARGEST_CODE // code.dim, len(code)))
    dimension = side.d or code.params.get("d", code.dim)
    while not is_fixed and len(other.domain.sides) == 1 and len(code) < length:
        try:
            code = side.load(length=length, d=dimension)
        except PefourierError:  # code of fewer rows, which is compared as far
            length //= 2
    return code


def size_of_lags(other: Encoding) -> dict[str, Any]:
    """Positions and heads of biases that a table may hold: (heads, n, n), (n, n) or a row a lag."""
    if other.bias is not None:
        return {"length": other.bias.shape[1], "d": other.bias.shape[0]}
    rows, columns = len(other), other.dim
    if other.domain.kind == "lag" or rows > columns:
        return {"length": (rows + 1) // 2 if rows % 2 else rows, "d": columns}
    return {"length": columns, "d": 1 if rows == columns else rows}


def size_and_place(other: Encoding, domain: Domain) -> dict[str, Any]:
    """The length and dimension of an encoding, and its grid for what has none of its own."""
    from pefourier.questions.operators import head_size

    if domain.kind == "lag":
        return size_of_lags(other)
    d = other.dim if other.operator is None else head_size(other)
    size: dict[str, Any] = {"length": len(other), "d": d}
    if domain.grid and domain.grid == other.domain.grid:
        return size | {"prefix": other.domain.prefix}
    if domain.kind != "position" or domain.grid:
        return size
    return size | {"grid": other.domain.grid, "prefix": other.domain.prefix}

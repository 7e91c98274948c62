"""How is what a question is asked about loaded? SPECs and objects, alone, and two in one size.

`encodings.load` takes defaults, which encodings without such a parameter pass over; here a keyword
that would have no effect is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pefourier.encodings.checks import check_count, check_whole
from pefourier.encodings.encoding import Encoding, without_mean
from pefourier.encodings.registry import BUILDERS, canonical_spec, unknown_parameter
from pefourier.encodings.specs import load, refuse_times, source_of, specs_of_rotations
from pefourier.errors import PefourierError, shown
from pefourier.writing.text import read_sides, whole_number

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


@dataclass(frozen=True)
class SpecWithDefaults:
    """A SPEC, with parameters for it if it has them: the options of a command with several."""

    spec: str
    params: Mapping[str, Any]


def encoding_of(
    source: Source | SpecWithDefaults,
    length: Count | None = None,
    d: Count | None = None,
    params: Mapping[str, Any] | None = None,
    least: int = 1,
    *,
    demean: bool = False,
) -> Encoding:
    """The encoding that a SPEC names, or that an array, a module or a function gives.

    `demean` takes the mean of a table away.

    Raises
    ------
    PefourierError
        For what cannot be read, and for a keyword that would have no effect.
    """
    given = dict(params or {})
    length, d = whole_numbers(length=length, d=d)
    if isinstance(given.get("grid"), str):
        given["grid"] = read_sides(given["grid"])
    if isinstance(given.get("times"), str | os.PathLike):
        from pefourier.encodings.sources.tables import read_numbers

        given["times"] = read_numbers(os.fspath(given["times"]))
    if isinstance(source, SpecWithDefaults):
        enc = load(source.spec, length, d, min_length=least, **{**source.params, **given})
    elif isinstance(source, str | os.PathLike):
        if "times" in given:
            refuse_times([os.fspath(source)])
        enc = load_spec(os.fspath(source), length, d, given, least)
    else:
        enc = load(source, length, d, **given)
    return without_mean(enc) if demean else enc


def load_spec(
    spec: str, length: int | None, d: int | None, params: dict[str, Any], least: int
) -> Encoding:
    """The encoding of a SPEC; parameters are those of a named one, and given once."""
    spec = canonical_spec(spec)
    name, _, text = spec.partition(":")
    if source_of(spec) == "name":
        own = BUILDERS[name].parameters
        written = {item.partition("=")[0] for item in text.split(",")}
        for key in params.keys() - PLACES:
            if key not in own:
                raise unknown_parameter(name, key)
            if key in written:
                raise PefourierError(f"{shown(spec)} is given {key} twice; keep one")
    elif idle := params.keys() - PLACES - ({"seed"} if source_of(spec) == "code" else set()):
        raise PefourierError(f"{', '.join(idle)} has no effect on {shown(spec)}; leave it out")
    return load(spec, length, d, min_length=least, **params)


def as_points(positions: Sequence[int] | Sequence[Sequence[int]] | None) -> list[tuple[int, ...]]:
    """Points of one number or several; a position is a point of one.

    >>> as_points([(3, 4), 5])
    [(3, 4), (5,)]
    """
    given = () if positions is None else positions
    points = [np.atleast_1d(one).tolist() for one in (given if np.iterable(given) else [given])]
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


def whole_numbers(**given: Count | None) -> Iterator[int | None]:
    """Each number, of texts too as the shell takes them; refuses what is none.

    >>> list(whole_numbers(length="128k", d=None))
    [131072, None]
    """
    for key, value in given.items():
        number = whole_number(value) if isinstance(value, str) else value
        if value is not None:
            check_count(key, value if number is None else number)
        yield number


def pair_of(
    a: Source | SpecWithDefaults,
    b: Source | SpecWithDefaults,
    length: Count | None = None,
    d: Count | None = None,
    params: Mapping[str, Any] | None = None,
) -> tuple[Encoding, Encoding]:
    """Two encodings; a named one has the size of a file, config or user's code, and its grid.

    User's code has the dimension of a file or config, and its length as far as it gives so many.
    Parameters are those of a named one where there is one.
    """
    from pefourier.encodings.grids import on_common_grid

    kinds = [source_of(x.spec if isinstance(x, SpecWithDefaults) else x) for x in (a, b)]
    params = dict(params or {})
    placing = {key: value for key, value in params.items() if key in PLACES}
    sides = [
        Side(x, kind, length, d, params if kind == "name" or "name" not in kinds else placing)
        for x, kind in zip((a, b), kinds, strict=True)
    ]
    pair = [sides[0].load_beside(sides[1]), sides[1].load_beside(sides[0])]
    if kinds == ["name", "name"]:
        return pair[0], pair[1]
    if "name" in kinds:
        k = kinds.index("name")
        size = {key: value for key, value in {"length": length, "d": d}.items() if value}
        pair[k] = sides[k].load(**{**size_and_place(pair[1 - k], pair[k].domain), **size})
        if kinds[1 - k] == "code":  # which takes a dimension that the SPEC of the other states
            at_length = partial(sides[1 - k].load, length=len(pair[k]))
            pair[1 - k] = code_beside(pair[k], pair[1 - k], at_length, d, fixed=True)
    elif kinds.count("code") == 1:
        k = kinds.index("code")
        fixed = length is not None or bool(placing)
        pair[k] = code_beside(pair[1 - k], pair[k], sides[k].load, d, fixed)
    return on_common_grid(*pair)


@dataclass(frozen=True)
class Side:
    """One of two that are compared, and what was given of its size and parameters."""

    source: Any
    kind: str  # as `source_of` says
    length: Count | None
    d: Count | None
    params: Mapping[str, Any]

    @property
    def spec(self) -> str:
        """The SPEC as typed, of an encoding that has one."""
        return os.fspath(getattr(self.source, "spec", self.source))

    def load(self, **size: Any) -> Encoding:
        """The encoding, at another size than was given."""
        options = {"length": self.length, "d": self.d, **self.params, **size}
        return encoding_of(self.source, options.pop("length"), options.pop("d"), options)

    def load_beside(self, other: Side) -> Encoding:
        """The encoding; code that takes no other dimension at that of the other."""
        from pefourier.questions.operators import head_size

        models = {self.kind, other.kind} <= {"config", "gguf"}
        rotations = specs_of_rotations(self.spec) if models else []
        try:
            if len(rotations) > 1:  # of which one stands for all: layers are compared beside it
                return replace(replace(self, source=rotations[0]).load(), spec=self.spec)
            return self.load()
        except PefourierError:
            placed = self.on_grid_alone() if self.kind == "table" else None
            if placed is None and (self.kind != "code" or other.kind == "code" or self.d):
                raise
            return placed or self.load(d=head_size(other.load()))

    def on_grid_alone(self) -> Encoding | None:
        """A table on the grid that was given, behind another prefix than was; None: none fits."""
        from pefourier.encodings.grids import IMAGE_PREFIXES, count_points, on_grid

        grid = self.params.get("grid") or getattr(self.source, "params", {}).get("grid") or ()
        grid = read_sides(grid) if isinstance(grid, str) else tuple(grid)
        rows = self.load(grid=(), prefix=0)
        prefix = len(rows) - count_points(grid)
        return on_grid(rows, grid, prefix) if grid and prefix in IMAGE_PREFIXES else None


def code_beside(
    other: Encoding,
    code: Encoding,
    load_code: Callable[..., Encoding],
    d: Count | None,
    fixed: bool,
) -> Encoding:
    """User's code in the size of what it is compared with, as far as it gives that and may."""
    from pefourier.questions.operators import head_size

    size = (lambda enc: enc.dim) if code.operator is None else head_size
    if d is None and size(code) != size(other):
        with suppress(PefourierError):  # code of one size only, which is compared as it is
            code = load_code(d=size(other))
    dimension = {} if d else {"d": code.params.get("d", code.dim)}
    return code if fixed else as_long_as(other, code, partial(load_code, **dimension))


def as_long_as(other: Encoding, code: Encoding, load_code: Callable[..., Encoding]) -> Encoding:
    """User's code at the length of what it is compared with, or at the most that it gives.

    Code may be wrong, or a buffer end, beyond the first positions.
    """
    length = min(len(other), max(LARGEST_CODE // code.dim, len(code)))
    too_long = length + 1
    while len(other.domain.sides) == 1 and too_long - len(code) > 1:
        try:
            code = load_code(length=length)
        except PefourierError:
            too_long = length
        length = (len(code) + too_long) // 2
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

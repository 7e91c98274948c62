"""Loading of two encodings for comparison, with matching sizes and grids.

A named encoding gets the size and grid of the file, config or user's source code. User's source
code gets the dimension of the file or config, and its length if it can return as many rows. If
there is a named encoding, parameters apply to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pefourier.construction.operators import head_size
from pefourier.construction.rope import BY_LENGTH
from pefourier.construction.waves import LAYOUTS, copies_of
from pefourier.encodings.encoding import (
    Domain,
    Encoding,
    split_pairs,
)
from pefourier.encodings.grids import on_common_grid, rows_before
from pefourier.encodings.loader import (
    Count,
    Source,
    SpecWithDefaults,
    load,
    source_of,
    specs_of_rotations,
)
from pefourier.errors import OtherGrid, PefourierError
from pefourier.geometry.interpolation import recovered_sides
from pefourier.types import Fields, Values

LARGEST_SOURCE = 2**25  # most numbers requested from source code if no size was given


PLACES = {"grid", "prefix"}  # parameters of all encodings that place their rows


MODELS = {"config", "gguf"}


def load_matching_pair(
    a: Source | SpecWithDefaults,
    b: Source | SpecWithDefaults,
    length: Count | None = None,
    d: Count | None = None,
    params: Values | None = None,
) -> tuple[Encoding, Encoding]:
    """Load two encodings for comparison; the sides of a second grid are recovered."""
    kinds, params = (source_of(a), source_of(b)), params or {}
    if kinds[0] == "code" and kinds[1] != "code":  # it gets the size of the other
        second, first = load_matching_pair(b, a, length, d, params)
        return first, second
    are_models, placing = MODELS.issuperset(kinds), {k: params[k] for k in PLACES & params.keys()}
    size = {key: value for key, value in {"length": length, "d": d}.items() if value}
    load_as = partial(load_first if are_models else load, length=length, d=d)
    load_a, load_b = (
        partial(load_as, source, **(params if kind == "name" or "name" not in kinds else placing))
        for source, kind in zip((a, b), kinds, strict=True)
    )
    first = load_a()
    try:
        second = load_b()
    except PefourierError as error:  # source code of another size, or a table of another grid
        if kinds[1] == "code" and not d:
            second = load_b(d=head_size(first))
        elif isinstance(error, OtherGrid) and len(first.domain.sides) == 2:
            plain, sides = getattr(b, "spec", b), first.domain.sides
            rows, grid = (np.asarray(e.table(), float) for e in (load(plain), first))
            if (before := rows_before(len(rows), first.domain)) is None:
                before = first.domain.prefix
                sides = recovered_sides(rows[before:], (grid[before:], sides))
            if min(sides) < 2:
                raise
            second = load(plain, grid=sides, prefix=before)
        else:
            raise
    by_length = any(enc.params.get("scaling") in BY_LENGTH for enc in (first, second))
    if are_models and by_length:  # both use the frequencies of one length
        shortest = min(len(first), len(second))
        first, second = load_a(length=shortest), load_b(length=shortest)
    if kinds[0] == "name" and kinds[1] != "name":
        first = load_a(**size_and_place(second, first.domain) | size)
    if kinds[1] == "name" and kinds[0] != "name":
        second = load_b(**size_and_place(first, second.domain) | size)
    if kinds[1] == "code" and kinds[0] != "code":
        is_fixed = kinds[0] == "name" or length is not None or bool(placing)
        second = resized_to_partner(first, second, load_b, d, is_fixed=is_fixed)
    return on_common_grid(first, second)


def load_first(source: Any, **size: Any) -> Encoding:
    """Load the first rotation of a model under the SPEC of the whole model."""
    spec = os.fspath(getattr(source, "spec", source))
    first = specs_of_rotations(spec)[0]
    return load(source, **size) if first == spec else replace(load(first, **size), spec=spec)


def resized_to_partner(
    reference: Encoding,
    code: Encoding,
    load_source: Callable[..., Encoding],
    d: Count | None,
    *,
    is_fixed: bool,
) -> Encoding:
    """Reload user's source code in the size of its counterpart, if allowed and possible."""
    is_operator = code.operator
    width, own = (head_size(x) if is_operator else x.dim for x in (reference, code))
    if d is None and own != width:
        with suppress(PefourierError):  # source code of one size only is compared as is
            code = load_source(d=width, **({"length": len(reference)} if is_fixed else {}))
    length = min(len(reference), max(LARGEST_SOURCE // code.dim, len(code)))
    dimension = d or code.params.get("d", code.dim)
    while not is_fixed and reference.domain.is_line and len(code) < length:
        try:
            code = load_source(length=length, d=dimension)
        except PefourierError:  # source code with fewer rows: try half
            length //= 2
    return code


def size_and_place(reference: Encoding, domain: Domain) -> Fields:
    """Length and dimension of an encoding, and its grid if the other has none."""
    if domain.kind == "lag":
        return size_of_lags(reference)
    is_operator = reference.operator
    d = head_size(reference) if is_operator else reference.dim
    if reference.domain.grid and not is_operator:
        d = width_of_waves(reference)
        if domain.grid and domain.grid != reference.domain.grid:
            return {"d": d}
    size: Fields = {"length": len(reference), "d": d}
    if domain.grid and domain.grid == reference.domain.grid:
        return size | {"prefix": reference.domain.prefix}
    if domain.grid and rows_before(len(reference), domain) is not None:
        return {"d": d}
    if domain.kind != "position" or domain.grid:
        return size
    return size | {"grid": reference.domain.grid, "prefix": reference.domain.prefix}


def width_of_waves(enc: Encoding) -> int:
    """Number of columns of a table, halved if its cosines and sines are repeated."""
    table = enc.table()
    pairs = [split_pairs(table, layout) for layout in LAYOUTS] if enc.dim % 4 == 0 else []
    return enc.dim // (2 if any(copies_of(a) and copies_of(b) for a, b in pairs) else 1)


def size_of_lags(reference: Encoding) -> Fields:
    """Positions and heads of a table of biases: (heads, n, n), (n, n) or one row per lag."""
    if reference.between:
        return {"length": reference.tokens, "d": reference.dim}
    rows, columns = len(reference), reference.dim
    if reference.domain.kind == "lag" or rows > columns:
        return {"length": (rows + 1) // 2 if rows % 2 else rows, "d": columns}
    return {"length": columns, "d": 1 if rows == columns else rows}

"""Codes from a module or a function that is at hand in Python, where nothing says its sizes.

A module knows them: its own attribute, or the last axis of its tables. What knows none, because it
computes its codes, is asked for 256.
"""

from dataclasses import replace
from typing import Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.sources import user_code
from pefourier.encodings.sources.signatures import DIM_NAMES, TableAsked
from pefourier.errors import PefourierError

LENGTH, DIM = 80, 256  # where nothing says another


def tabulate_object(
    found: Any, length: int | None = None, d: int | None = None, seed: int | None = None
) -> Encoding:
    """The table that a module, its class, or a function of (length, d) gives."""
    name = getattr(found, "__qualname__", type(found).__qualname__)
    widths = [d] if d else likely_dimensions(found)
    refused: list[PefourierError] = []
    for width in widths:
        try:
            return tabulate_at(name, found, length or likely_length(found, width), width, seed)
        except PefourierError as error:
            refused.append(error)
    if len(widths) > 1:
        tried = ", ".join(map(str, widths))
        raise PefourierError(f"{refused[0]}; d of {tried} were tried: give d=") from refused[0]
    raise refused[0]


def tabulate_at(name: str, found: Any, length: int, d: int, seed: int | None) -> Encoding:
    """The table for `length` positions of `d` dimensions; the object is left as it was."""
    asked = TableAsked(name, length, d, seed=seed)
    when, way_out = f"called for length {length}, d {d}", "give length= and d= that it takes"
    with (
        user_code.faults_told(name, when, way_out),
        user_code.seeding(seed),
        user_code.in_its_own_mode(found),
    ):
        answer, findings = user_code.obtain_table(asked, found)
    asked = replace(asked, d=answer[0].shape[1])
    return user_code.encoding_of_code(asked, found, answer, findings)


def table_shapes(found: Any) -> list[tuple[int, ...]]:
    """Shapes of a module's tables, parameters and buffers of two axes or more, largest first."""
    if isinstance(found, type) or not hasattr(found, "named_buffers"):
        return []
    tensors = [*found.parameters(), *found.buffers()]
    return [tuple(t.shape) for t in sorted(tensors, key=lambda t: -t.numel()) if len(t.shape) > 1]


def likely_dimensions(found: Any) -> list[int]:
    """Dimensions that an object may take, the likeliest first."""
    own = {} if isinstance(found, type) else getattr(found, "__dict__", {})
    named = [x for key, x in own.items() if key in DIM_NAMES and type(x) is int and x > 0]
    return list(dict.fromkeys([*named, *(shape[-1] for shape in table_shapes(found)), DIM]))


def likely_length(found: Any, d: int) -> int:
    """80 positions, or as many as a module's table has if they are fewer; all rows of a table."""
    if hasattr(found, "num_embeddings"):
        return int(found.num_embeddings)
    rows = [s[0] if s[-2] == 1 else s[-2] for s in table_shapes(found) if s[-1] == d]
    return min(LENGTH, max(rows, default=LENGTH))

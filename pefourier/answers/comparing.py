"""What does it mean for a model that one table of a grid follows from another? Rules in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pefourier.answers.grid_words import WORDS, size_of
from pefourier.encodings.conventions import conventions_of_papers
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.registry import BUILDERS

if TYPE_CHECKING:  # one question starts without the rooms of the others
    from pefourier.compare import Comparison


def exchanged_axes(r: Comparison) -> str:
    """What axes in other columns mean for weights, and how they come back."""
    if "order" not in r.by:
        return ""
    one, other = r.by["order"].split(" to ")
    moved = sorted(a for a, b in zip(one, other, strict=True) if a != b)
    halves = r.by.get("layout") == "halves exchanged"
    way = "swap the halves of the columns" if halves else "put the columns into the other's order"
    return read_exchanged(moved, way)


def exchanged_points(r: Comparison) -> str:
    """What rows of a table in another order mean."""
    if "rows" not in r.by:
        return ""
    if r.by["rows"] != "transposed":
        return (
            "Codes must stand in the order of the tokens: models that merge patches take blocks, "
            "others rows."
        )
    height, width = r.about[0].domain.sides[-2:]
    if height == width:
        return read_exchanged(["x", "y"], "transpose the grid of one table")
    grid = size_of(r.about[0].domain.sides)
    way = f"; check-faithful --grid {grid} says in which" if has_table(r) else ""
    return (
        f"On a grid of {grid}, which is no square, codes then stand at other points: surely a bug "
        f"in one of the two{way}."
    )


def has_table(r: Comparison) -> bool:
    """Whether numbers are compared that nobody says the formula of."""
    return any(enc.name not in BUILDERS for enc in r.about)


def read_exchanged(axes: Sequence[str], way: str) -> str:
    """What exchanged axes do to weights.

    >>> read_exchanged(["t", "x", "y"], "reorder").partition(":")[0]
    't, x and y change places'
    """
    if len(axes) == 2:
        what, read = "are exchanged", f"{WORDS.get(axes[1])} as {WORDS.get(axes[0])}"
    else:
        what, read = "change places", "axes as others"
    return (
        f"{', '.join(axes[:-1])} and {axes[-1]} {what}: weights trained with one read the other's "
        f"{read}. For trained weights {way}; where training starts anew, it makes no difference."
    )


def conventions_apart(r: Comparison) -> str:
    """The conventions of an encoding's papers, where a table is compared with its name alone."""
    if not has_table(r):
        return ""
    told = {enc.name: own for enc in r.about if (own := other_conventions(enc))}
    return " ".join(
        f"{name} by itself has another convention than {' and '.join(own)}: write "
        f"{' or '.join(f'{name}:convention={one}' for one in own.values())} for theirs."
        for name, own in told.items()
    )


def other_conventions(enc: Encoding) -> dict[str, str]:
    """Conventions of an encoding's papers that set what it has not, by the papers' own names."""
    if enc.spec != enc.name or enc.name not in BUILDERS:
        return {}
    known = conventions_of_papers(enc.name, BUILDERS[enc.name].paper)
    return {
        title: convention["convention"]
        for title, convention in known.items()
        if any(enc.params[key] != value for key, value in convention["params"].items())
    }

"""Places and axes as answers name them: points, sides, displacements, numbers by axis."""

from collections.abc import Iterable, Sequence
from typing import Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.axes import axis_letters
from pefourier.writing.text import number

SAME = 1e-9  # relative, within which two numbers are one
POINTS = {"position": "positions", "lag": "lags", "time": "times", "tree": "nodes"}
STEPS = {"position": "positions", "lag": "lags", "time": "time steps", "tree": "edges"}
WORDS = {"t": "frames", "y": "rows", "x": "columns"}


def axis_names(count: int) -> list[str]:
    """Names of axes, the slowest first.

    >>> axis_names(2), axis_names(4)
    (['y', 'x'], ['a', 'b', 'c', 'd'])
    """
    return list(axis_letters(count))


def point_of(place: Iterable[int]) -> str:
    """A point as it is typed after --pos, in brackets.

    >>> point_of((3, 4))
    '(3,4)'
    """
    return f"({','.join(str(int(x)) for x in place)})"


def by_axis(values: Sequence[Any] | None, digits: int = 3) -> str | None:
    """A number for each axis, by name where there are several.

    >>> by_axis([0.911, None]), by_axis([0.25])
    ('y 0.911, x –', '0.25')
    """
    if values is None or len(values) == 1:
        return values and number(values[0], digits)
    return by_name(axis_names(len(values)), values, digits)


def by_name(names: Sequence[str], values: Sequence[Any], digits: int = 3) -> str:
    """A number for each of some axes.

    >>> by_name("yx", [0.911, 0.25])
    'y 0.911, x 0.25'
    """
    return ", ".join(f"{k} {number(v, digits)}" for k, v in zip(names, values, strict=True))


def unit_of_waves(enc: Encoding) -> tuple[float, str]:
    """What lengths of waves are told in: how long a step of points is in it, and its name."""
    if enc.domain.irregular:
        return enc.domain.spacing, "units of time"
    step = number(enc.domain.spacing, 4)
    return 1.0, STEPS[enc.domain.kind] + ("" if step == "1" else f" of {step}")


def points_in_words(enc: Encoding) -> str:
    """What rows of codes stand for."""
    if not enc.domain.grid:
        return POINTS[enc.domain.kind]
    return "displacements" if enc.domain.kind == "lag" else "points"

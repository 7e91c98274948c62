"""Search for the cause of a difference: only what reproduces the observed numbers is a cause.

A cause is a frozen dataclass, as a rule a `Named` one: its code, which JSON prints before its
fields, and its words. Its class method `propose` reads parameters from few numbers, and `apply`
returns what would be observed if that had been done to the expected numbers; it gets the numbers
for which the cause was proposed. A proposal may be wrong: `explain` applies it and compares every
number.

A fault may be confined to a part of the data: rows a to b, an axis, some heads. `Within` applies a
cause to such a part alone. `explain` finds it for any data if it gets a function `parts`, which
says where the numbers that differ are. A part is a frozen dataclass of few lines (`Part`):

* of a table (n, d): `Block("rows", first, last)` selects these rows; columns likewise;
* of ids (axes, n): `rows.Piece` selects tokens, an axis, or both;
* of biases (heads, queries, keys): heads or queries; `of` returns biases with these alone;
* of the points of a grid: the numbers of one axis, a block of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pefourier.types import Bools, Counts, Fields, frozen, frozen_arrays
from pefourier.writing.page import fields_of

Data = TypeVar("Data")


class Cause(Protocol[Data]):
    """What was done to expected data."""

    @property
    def code(self) -> str:
        """Name of the kind of cause."""

    @property
    def words(self) -> str:
        """What was done, as the end of the sentence "the second equals the first with ..."."""

    def apply(self, expected: Data, /) -> Data:
        """Return what would be observed, in another shape where the cause changes the shape."""


class Kind(Protocol[Data]):
    """A kind of cause: a class of causes, or a function that yields causes of several classes."""

    def propose(self, expected: Data, observed: Data, /) -> Iterable[Cause[Data]]:
        """Yield causes that could explain the observed data, the likeliest first."""


@frozen
class Named:
    """Base class of causes with a name, and words filled in from the fields."""

    code: str = field(init=False)
    step: str = field(init=False)
    name: ClassVar[str]
    changed: ClassVar[str] = "positions"  # step of a construction
    says: ClassVar[str]

    def __post_init__(self) -> None:
        """Make the name and the step fields, which JSON prints."""
        object.__setattr__(self, "code", self.name)
        object.__setattr__(self, "step", self.changed)

    @property
    def words(self) -> str:
        """What was done."""
        return self.says.format(c=self)


class Part(Protocol[Data]):
    """A part of data to which a cause may be confined."""

    @property
    def within(self) -> Fields:
        """Indices of the part for JSON: {"rows": (3, 9)}, first and last, or {"axis": 1}."""

    @property
    def words(self) -> str:
        """Where the part is, as the end of a sentence: "on axis 1"."""

    def of(self, data: Data, /) -> Data:
        """Select the part."""

    def put(self, data: Data, part: Data, /) -> Data:
        """Return the data with another part in place of its own."""


@frozen
class Within(Generic[Data]):
    """A cause that acts on a part alone; its indices count from the beginning of the part."""

    part: Part[Data]
    cause: Cause[Data]

    @property
    def code(self) -> str:
        """Name of the kind of cause."""
        return self.cause.code

    @property
    def words(self) -> str:
        """What was done, and where."""
        return f"{self.cause.words} {self.part.words}"

    @property
    def reported(self) -> Fields:
        """Fields for JSON: those of the cause, and the part."""
        return {**fields_of(self.cause), "within": self.part.within}

    def __getattr__(self, name: str) -> Any:
        """Return a property of the cause."""
        return getattr(self.cause, name)

    def apply(self, expected: Data) -> Data:
        """Apply the cause to the part."""
        return self.part.put(expected, self.cause.apply(self.part.of(expected)))


@frozen
class Difference:
    """The first number that is not as expected."""

    at: int | Counts  # index in the observed data
    expected: float
    observed: float


@frozen_arrays
class Explanation(Generic[Data]):
    """Causes in the order in which they are applied, and the numbers that they reproduce."""

    causes: tuple[Cause[Data], ...]  # empty: nothing differs, or nothing that was tried explains it
    reproduced: Bools  # of the observed numbers, by the causes

    @property
    def share(self) -> float:
        """Share of the observed numbers that are reproduced."""
        return float(self.reproduced.mean()) if self.reproduced.size else 1.0

    @property
    def first(self) -> Counts | None:
        """Index of the first number that is not reproduced; None if all are."""
        if self.reproduced.all():
            return None
        index = np.unravel_index(int(self.reproduced.argmin()), self.reproduced.shape)
        return tuple(map(int, index))


Agree = Callable[[Data, Data], NDArray[np.bool_]]  # which observed numbers equal expected ones
Near = Callable[[Data, Data], bool]  # whether one cause could explain what remains
# parts that do not overlap and hold all numbers that differ, each with the kinds tried there
Cover = Sequence[tuple[Part[Data], Sequence[Kind[Data]]]]
Parts = Callable[[Data, Data, Bools], Iterable[Cover[Data]]]  # of a mask of what differs


def explain(
    expected: Data,
    observed: Data,
    kinds: Sequence[Kind[Data]],
    agree: Agree[Data],
    near: Near[Data] = lambda *_: True,
    parts: Parts[Data] = lambda *_: (),
) -> Explanation[Data]:
    """Return the simplest causes that reproduce all numbers.

    These are one cause, one within a part, an ordered pair, or two causes in two parts; the first
    that is found is returned. Kinds are tried in their order, cheapest first. `agree` returns a
    mask with the shape of the observed data, all False where the shapes differ. Each number has its
    own tolerance there. Both causes of a pair are proposed on what remains: the second on the
    result of the first, if it is `near` the observed data. `parts` yields covers.

    >>> @frozen
    ... class Scaled(Named):
    ...     by: float
    ...     name = "scaled"
    ...     says = "all numbers multiplied by {c.by:g}"
    ...     @classmethod
    ...     def propose(cls, expected, observed):
    ...         yield cls(float(observed[-1] / expected[-1]))
    ...     def apply(self, expected):
    ...         return self.by * expected
    >>> numbers = np.arange(5.0)
    >>> [cause.words for cause in explain(numbers, 3 * numbers, [Scaled], np.isclose).causes]
    ['all numbers multiplied by 3']
    >>> explain(numbers, numbers**2, [Scaled], np.isclose).first
    (2,)
    """
    plain = agree(expected, observed)
    if plain.all():
        return Explanation((), plain)
    tried = []  # without their results, which may be large
    for cause, applied in proposals(expected, observed, kinds):
        if (reproduced := agree(applied, observed)).all():
            return Explanation((cause,), reproduced)
        tried.append(cause)
    covers = list(parts(expected, observed, ~plain))
    found = first_cover(expected, observed, [c for c in covers if len(c) == 1], agree)
    if found:
        return found
    for first in tried:
        remaining = first.apply(expected)
        if not near(remaining, observed):
            continue
        for second, applied in proposals(remaining, observed, kinds):
            if (reproduced := agree(applied, observed)).all():
                return Explanation((first, second), reproduced)
    found = first_cover(expected, observed, [c for c in covers if len(c) > 1], agree)
    return found or Explanation((), plain)


def first_cover(
    expected: Data, observed: Data, covers: Iterable[Cover[Data]], agree: Agree[Data]
) -> Explanation[Data] | None:
    """Return one cause for each part of the first cover in which all parts have a cause."""
    for cover in covers:
        remaining, causes = expected, []
        for part, kinds in cover:
            own = part.of(observed)
            most = agree(part.put(remaining, own), observed).sum()
            for cause, piece in proposals(part.of(remaining), own, kinds):
                applied = part.put(remaining, piece)
                if agree(applied, observed).sum() == most:
                    remaining = applied
                    causes.append(Within(part, cause))
                    break
            else:
                break
        if (reproduced := agree(remaining, observed)).all():
            return Explanation(tuple(causes), reproduced)
    return None


def proposals(
    expected: Data, observed: Data, kinds: Sequence[Kind[Data]]
) -> Iterator[tuple[Cause[Data], Data]]:
    """Yield each proposed cause with its result."""
    for kind in kinds:
        for cause in kind.propose(expected, observed):
            yield cause, cause.apply(expected)

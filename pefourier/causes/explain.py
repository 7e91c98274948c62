"""Search for the cause of a difference: only what reproduces the observed numbers is a cause.

A cause is a frozen dataclass, as a rule a `Named` one: its code, which JSON prints before its
fields, and its words. Its class method `propose` reads parameters from few numbers, and `apply`
returns what would be observed if that had been done to the expected numbers; it gets the numbers
for which the cause was proposed. A proposal may be wrong: `explain` applies it and compares every
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pefourier.types import Bools, Counts, frozen, frozen_arrays

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
    name: ClassVar[str]
    says: ClassVar[str]

    def __post_init__(self) -> None:
        """Make the name a field, which JSON prints."""
        object.__setattr__(self, "code", self.name)

    @property
    def words(self) -> str:
        """What was done."""
        return self.says.format(c=self)


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


def explain(
    expected: Data,
    observed: Data,
    kinds: Sequence[Kind[Data]],
    agree: Agree[Data],
    near: Near[Data] = lambda *_: True,
) -> Explanation[Data]:
    """Return the first cause, else the first ordered pair of causes, that reproduces all numbers.

    Kinds are tried in their order, cheapest first. `agree` returns a mask with the shape of the
    observed data, all False where the shapes differ. Each number has its own tolerance there.
    Both causes of a pair are proposed on what remains: the second on the result of the first, if
    it is `near` the observed data.

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
    >>> explain(numbers, 3 * numbers, [Scaled], np.isclose).causes
    (Scaled(code='scaled', by=3.0),)
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
    for first in tried:
        remaining = first.apply(expected)
        if not near(remaining, observed):
            continue
        for second, applied in proposals(remaining, observed, kinds):
            if (reproduced := agree(applied, observed)).all():
                return Explanation((first, second), reproduced)
    return Explanation((), plain)


def proposals(
    expected: Data, observed: Data, kinds: Sequence[Kind[Data]]
) -> Iterator[tuple[Cause[Data], Data]]:
    """Yield each proposed cause with its result."""
    for kind in kinds:
        for cause in kind.propose(expected, observed):
            yield cause, cause.apply(expected)

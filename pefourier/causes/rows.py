"""Causes that act on whole numbers by row: ids of tokens, or positions of the rows of a table.

Conventions
-----------
Numbers are (n,), or (axes, n) for ids on several axes. `at`, `first` and `second` are indices from
0. Fewer numbers may be observed than are expected; only those that are observed are compared.
`finding` is the code that reports a cause, `says` what was done, `undo` what takes it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pefourier.causes.explain import Explanation, Kind, Named, explain
from pefourier.types import Bools, frozen, frozen_arrays

Numbers = NDArray[np.int64]
HIDDEN = {"told": False}
PLACES = 4  # changes from either end at which causes are proposed
CORNERS = 8  # changes of the step that one cause makes, at most


def agree(expected: Numbers, observed: Numbers) -> Bools:
    """Return which observed numbers are expected, row by row; none if too few are expected.

    >>> agree(np.arange(4), np.array([0, 1, 5])), agree(np.arange(2), np.arange(3))
    (array([ True,  True, False]), array([False, False, False]))
    """
    if expected.shape[:-1] != observed.shape[:-1] or expected.shape[-1] < observed.shape[-1]:
        return np.zeros(observed.shape, dtype=bool)
    return np.asarray(expected[..., : observed.shape[-1]] == observed)


def explain_rows(
    expected: Numbers, observed: Numbers, known: Sequence[Kind[Numbers]] = ()
) -> Explanation[Numbers]:
    """Return the causes of observed numbers (n,); `known` are kinds that are tried first.

    >>> [cause.words for cause in explain_rows(np.arange(6), np.array([3, 4, 5, 7, 8, 9])).causes]
    ['positions shifted by +3', 'positions shifted by +1 from index 3 on']
    """
    bends = corners(expected)
    if corners(observed) > 4 * bends + 2 * CORNERS:
        return Explanation((), agree(expected, observed))

    def near(remaining: Numbers, observed: Numbers) -> bool:
        return bends > 0 or corners(shift_of(remaining, observed)) <= CORNERS

    return explain(expected, observed, (*known, *KINDS), agree, near)


def corners(numbers: Numbers) -> int:
    """Count the changes of the step from number to number; a cause adds few.

    >>> corners(np.arange(5)), corners(np.array([0, 1, 2, 5, 6])), corners(np.array([0, 1, 3, 6]))
    (0, 2, 2)
    """
    return int((np.diff(numbers, n=2) != 0).sum())


def shift_of(expected: Numbers, observed: Numbers) -> Numbers:
    """Return how much larger the observed numbers are."""
    return observed - expected[..., : observed.shape[-1]]


def changes(shift: Numbers) -> list[int]:
    """Return the first and last indices at which a shift changes on any axis.

    >>> changes(np.array([0, 0, 3, 3, 1])), changes(np.arange(12) ** 2)
    ([2, 4], [1, 2, 3, 4, 8, 9, 10, 11])
    """
    steps = np.diff(np.atleast_2d(shift), axis=1) != 0
    at: list[int] = (np.flatnonzero(steps.any(axis=0)) + 1).tolist()
    return list(dict.fromkeys(at[:PLACES] + at[-PLACES:]))


Changes = Iterator["Change"]


@frozen
class Change(Named):
    """Base class of causes of rows: the finding that reports it, and what takes it back."""

    finding: ClassVar[str]
    undo: ClassVar[str]

    def apply(self, expected: Numbers) -> Numbers:
        """Return what would be observed: by default the same."""
        return expected


@frozen
class Reversed(Change):
    """The numbers stand in the opposite order.

    >>> [cause.code for cause in explain_rows(np.arange(9), np.arange(9)[::-1][:4]).causes]
    ['reversed']
    """

    name = "reversed"
    finding = "ids-backwards"
    says = "positions in reverse order"
    undo = "reverse them"

    @classmethod
    def propose(cls, _: Numbers, __: Numbers) -> Changes:
        yield cls()

    def apply(self, expected: Numbers) -> Numbers:
        return expected[..., ::-1]


@frozen
class Step(Change):
    """Numbers advance by a constant from the first one.

    >>> [cause.by for cause in Step.propose(np.arange(3), np.array([0, 1, 3]))]
    [-1, -2, 2]
    >>> [cause.words for cause in explain_rows(np.arange(2), np.array([0, 5])).causes]  # no step
    ['positions shifted by +4 from index 1 on']
    >>> tuple(c.words for c in explain_rows(np.arange(9), np.array([0, 3, 6, 5])).causes)
    ('positions that advance by 3', 'positions shifted by -4 from index 3 on')
    """

    by: int
    name = "step"
    finding = "ids-gap"
    says = "positions that advance by {c.by}"
    undo = "advance by 1"

    @classmethod
    def propose(cls, _: Numbers, observed: Numbers) -> Changes:
        steps = np.diff(observed)
        if len(steps) > 1:
            some = steps[[0, -1]]
            both = [*(-some).tolist(), *some.tolist()]  # before a reversal, or alone
            yield from (cls(by) for by in dict.fromkeys(both) if by not in (0, 1))

    def apply(self, expected: Numbers) -> Numbers:
        return np.full_like(expected, expected[0]) + self.by * np.arange(len(expected))


@frozen
class Shifted(Change):
    """All numbers are larger by a constant.

    >>> [cause.by for cause in Shifted.propose(np.arange(4), np.array([5, 6, 9, 12]))]
    [5, 9]
    >>> [cause.by for cause in Shifted.propose(np.arange(2, 6), np.array([6, 5, 4, 3]))]
    [1, 4, -2]
    """

    by: int
    name = "shifted"
    finding = "ids-offset"
    says = "positions shifted by {c.by:+}"
    undo = "shift them back"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Changes:
        shift = shift_of(expected, observed).ravel()
        lowest = int(observed.min() - expected.min())
        some = [lowest, *shift[[0, -1]].tolist()]
        yield from (cls(by) for by in dict.fromkeys(some) if by)

    def apply(self, expected: Numbers) -> Numbers:
        return expected + self.by


@frozen
class Restarted(Change):
    """From an index on the numbers begin again.

    >>> [c.at for c in Restarted.propose(np.arange(2, 7), np.array([2, 3, 4, 0, 1]))]
    [3]
    >>> [c.at for c in Restarted.propose(np.arange(5), np.array([0, 0, 1, 1, 3]))]  # repeated
    []
    >>> Restarted(3, 0).apply(np.arange(5))
    array([0, 1, 2, 0, 1])
    """

    at: int
    start: int = field(metadata=HIDDEN)
    name = "restarted"
    finding = "ids-restarted"
    says = "positions that begin again at {c.start} from index {c.at} on"
    undo = "count on"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Changes:
        shift, first = shift_of(expected, observed), int(expected[0])
        for at in changes(shift):
            is_fall = shift[at] - shift[at - 1] == first - expected[at]
            start = first if is_fall else int(observed[at])
            if start in (0, first) and observed[at] != observed[at - 1]:
                for place in {at, max(1, at + int(shift[at - 1]))}:  # also before another cause
                    yield cls(place, start)

    def apply(self, expected: Numbers) -> Numbers:
        again = expected[: len(expected) - self.at] - expected[0] + self.start
        return np.concatenate([expected[: self.at], again])


@frozen
class Clamped(Change):
    """Numbers above a largest one are replaced by it; there are at least two.

    >>> [cause.to for cause in Clamped.propose(np.arange(6), np.array([0, 1, 2, 5, 5, 5]))]
    [3]
    >>> [cause.to for cause in Clamped.propose(np.arange(6), np.array([0, 1, 9, 3, 4, 4]))]
    []
    >>> [cause.to for cause in Clamped.propose(np.arange(6), np.array([0, 1, 9, 3, 3, 3]))]
    [3]
    """

    to: int
    name = "clamped"
    finding = "ids-repeated"
    says = "positions clamped to {c.to}"
    undo = "count on"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Changes:
        n = len(observed)
        equal = max(1, int((observed != observed[-1])[::-1].argmax()))  # at the end
        for to in dict.fromkeys((int(observed.max()), int(observed[-1]), int(expected[n - equal]))):
            if (expected[:n] > to).sum() > 1:
                yield cls(to)

    def apply(self, expected: Numbers) -> Numbers:
        return np.asarray(np.minimum(expected, self.to))


@frozen
class Repeated(Change):
    """Some numbers equal the one before them, and the others follow on."""

    at: int
    count: int
    name = "repeated"
    finding = "ids-repeated"
    says = "a position repeated from index {c.at} on (tokens: {c.count})"
    undo = "count every token"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Changes:
        for at in changes(shift_of(expected, observed)):
            if observed[at] == observed[at - 1]:
                yield cls(at, int(np.append(observed[at:] != observed[at], True).argmax()))

    def apply(self, expected: Numbers) -> Numbers:
        index = np.arange(len(expected))
        return np.asarray(expected[index - np.clip(index - self.at + 1, 0, self.count)])


@frozen
class Gap(Change):
    """From an index on numbers are larger by a constant, on all axes."""

    at: int
    by: int
    name = "gap"
    finding = "ids-gap"
    says = "positions shifted by +{c.by} from index {c.at} on"
    undo = "count on there"
    sign = 1

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Changes:
        shift = cls.sign * np.atleast_2d(shift_of(expected, observed))[0]
        for at in changes(shift):
            if shift[at] > shift[at - 1]:
                yield cls(at, int(shift[at] - shift[at - 1]))

    def apply(self, expected: Numbers) -> Numbers:
        return expected + self.sign * self.by * (np.arange(expected.shape[-1]) >= self.at)


@frozen
class Backwards(Gap):
    """From an index on numbers are smaller by a constant."""

    name = "backwards"
    finding = "ids-backwards"
    says = "positions shifted by -{c.by} from index {c.at} on"
    sign = -1


@frozen
class Wrong(Change):
    """A single number is another, larger one."""

    at: int
    value: int
    due: int = field(metadata=HIDDEN)
    name = "wrong"
    finding = "ids-gap"
    says = "position {c.value} in place of {c.due} at index {c.at}"
    undo = "correct this one"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Changes:
        shift = shift_of(expected, observed)
        for at in (0, *changes(shift)):
            if shift[at]:
                kind = cls if shift[at] > 0 else WrongBackwards
                yield kind(at, int(observed[at]), int(expected[at]))

    def apply(self, expected: Numbers) -> Numbers:
        return np.where(np.arange(len(expected)) == self.at, self.value, expected)


class WrongBackwards(Wrong):
    """A single number is another, smaller one."""

    finding = "ids-backwards"


@frozen
class Exchanged(Change):
    """Two blocks of equal length are exchanged.

    >>> observed = np.array([0, 4, 5, 3, 1, 2, 6, 9])
    >>> [cause.code for cause in explain_rows(np.arange(8), observed).causes]
    ['gap', 'exchanged']
    >>> list(Exchanged.propose(np.arange(9), np.array([2, 3, 4, 5, 6, 5, 6, 7, 8])))  # overlap
    []
    """

    first: int
    second: int
    count: int
    name = "exchanged"
    finding = "ids-backwards"
    says = "positions from index {c.first} exchanged with those from {c.second} (tokens: {c.count})"
    undo = "exchange them back"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Changes:
        shift = shift_of(expected, observed)
        wrong, cuts = np.flatnonzero(shift).tolist(), changes(shift)
        for first in wrong[:1]:
            counts = [cut - first for cut in cuts if cut > first][:1]
            for second in np.flatnonzero(expected[: len(observed)] == observed[first])[:1].tolist():
                for count in counts:
                    if count <= second - first and second + count <= len(expected):
                        yield cls(first, second, count)

    def apply(self, expected: Numbers) -> Numbers:
        numbers = expected.copy()
        a, b = (slice(i, i + self.count) for i in (self.first, self.second))
        numbers[a], numbers[b] = expected[b], expected[a]
        return numbers


@frozen
class Beyond(Change):
    """Numbers reach a limit; this changes none of them."""

    at: int
    limit: int
    name = "beyond"
    finding = "ids-beyond"
    says = "positions not below the limit {c.limit} from index {c.at} on"
    undo = "use shorter sequences or a scaling"


@frozen
class PaddingCounted(Shifted):
    """Padding before or within a document is counted."""

    counts: Numbers = field(metadata=HIDDEN, compare=False)  # padding before each token
    name = "padding-counted"
    finding = "ids-padding-counted"
    says = "padding counted (tokens: {c.by})"
    undo = "count real tokens only"

    def apply(self, expected: Numbers) -> Numbers:
        return expected + self.counts


class NotRestarted(Shifted):
    """A document continues the numbers of the one before it."""

    name = "not-restarted"
    finding = "ids-not-restarted"
    says = "positions that continue from the document before, shifted by {c.by:+}"
    undo = "begin again with each document"


class TableOffset(Shifted):
    """The offset of a model's table is missing, or is added twice."""

    name = "table-offset"
    finding = "ids-table-offset"
    says = "positions shifted by {c.by:+}, the offset of the model's table"


@frozen
class Recounted:
    """Numbers that the input gives if it is read in another way."""

    code: str
    finding: str = field(metadata=HIDDEN)
    words: str = field(metadata=HIDDEN)
    undo: str = field(metadata=HIDDEN)
    numbers: Numbers = field(metadata=HIDDEN, compare=False)

    def apply(self, _: Numbers) -> Numbers:
        return self.numbers


@frozen_arrays
class Given:
    """Causes that facts beside the numbers suggest, as a kind."""

    causes: Sequence[Any]

    def propose(self, _: Numbers, __: Numbers) -> Iterable[Any]:
        """Yield the causes."""
        return self.causes


KINDS = (  # of two that give the same numbers, the earlier is reported
    *(Reversed, Step, Shifted, Restarted, Clamped, Repeated),
    *(Gap, Backwards, Wrong, Exchanged),
)

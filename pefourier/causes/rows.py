"""Causes that act on whole numbers by row: ids of tokens, or positions of the rows of a table.

Conventions
-----------
Numbers are (n,), or (axes, n) for ids on several axes. `at`, `first` and `second` are indices from
0. Fewer numbers may be observed than are expected; only those that are observed are compared.
`finding` is the code that reports a cause, `words` says what was done, `undo` what takes it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pefourier.causes.explain import Explanation, Kind, explain

Numbers = NDArray[np.int64]
HIDDEN = {"told": False}
PLACES = 4  # changes from either end at which causes are proposed
CORNERS = 16  # changes of the step that two causes make, at most


class CauseOfRows(Protocol):
    """A cause with its words."""

    @property
    def code(self) -> str:
        """Name of the kind of cause."""

    @property
    def finding(self) -> str:
        """Code of the finding that reports it."""

    @property
    def words(self) -> str:
        """What was done."""

    @property
    def undo(self) -> str:
        """What takes it back."""

    def apply(self, expected: Numbers, /) -> Numbers:
        """Return what would be observed."""


def agree(expected: Numbers, observed: Numbers) -> NDArray[np.bool_]:
    """Return which observed numbers are expected, row by row."""
    if expected.shape[:-1] != observed.shape[:-1] or expected.shape[-1] < observed.shape[-1]:
        return np.zeros(observed.shape, dtype=bool)
    return np.asarray(expected[..., : observed.shape[-1]] == observed)


def explain_rows(
    expected: Numbers, observed: Numbers, known: Sequence[Kind[Numbers]] = ()
) -> Explanation[Numbers]:
    """Return the causes of observed numbers (n,); `known` are kinds that are tried first.

    >>> [cause.words for cause in explain_rows(np.arange(6), np.array([3, 4, 5, 7, 8, 9])).causes]
    ['positions larger by 3', 'positions larger by 1 from index 3 on']
    """
    if corners(observed) > 4 * corners(expected) + CORNERS:
        return Explanation((), agree(expected, observed))
    return explain(expected, observed, (*known, *KINDS), agree)


def corners(numbers: Numbers) -> int:
    """Count the changes of the step from number to number; two causes add few."""
    return int((np.diff(numbers, n=2) != 0).sum())


def shift_of(expected: Numbers, observed: Numbers) -> Numbers:
    """Return how much larger the observed numbers are."""
    return observed - expected[..., : observed.shape[-1]]


def changes(shift: Numbers) -> list[int]:
    """Return the first and last indices at which a shift changes on any axis."""
    steps = np.diff(shift, axis=-1) != 0
    at: list[int] = (np.flatnonzero(steps.reshape(-1, steps.shape[-1]).any(axis=0)) + 1).tolist()
    return at if len(at) <= 2 * PLACES else at[:PLACES] + at[-PLACES:]


def larger_by(by: int) -> str:
    """Describe a shift.

    >>> larger_by(-3)
    'smaller by 3'
    """
    return f"{'larger' if by > 0 else 'smaller'} by {abs(by)}"


@dataclass(frozen=True)
class Shifted:
    """All numbers are larger by a constant."""

    code: str = field(default="shifted", init=False)
    by: int
    finding: ClassVar[str] = "ids-offset"

    @property
    def words(self) -> str:
        return f"positions {larger_by(self.by)}"

    @property
    def undo(self) -> str:
        return f"add {-self.by}" if self.by < 0 else f"subtract {self.by}"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Iterator[Any]:
        shift = shift_of(expected, observed).ravel()
        lowest = int(observed.min() - expected.min())
        candidates = [lowest, *shift[[0, len(shift) // 2, -1]].tolist()]
        yield from (cls(by) for by in dict.fromkeys(candidates) if by)

    def apply(self, expected: Numbers) -> Numbers:
        return expected + self.by


@dataclass(frozen=True)
class Reversed:
    """The numbers stand in the opposite order."""

    code: str = field(default="reversed", init=False)
    finding: ClassVar[str] = "ids-backwards"
    words: ClassVar[str] = "positions in reverse order"
    undo: ClassVar[str] = "reverse them"

    @classmethod
    def propose(cls, expected: Numbers, _: Numbers) -> Iterator[Any]:
        if expected.shape[-1] > 1:
            yield cls()

    def apply(self, expected: Numbers) -> Numbers:
        return expected[..., ::-1]


@dataclass(frozen=True)
class Step:
    """Numbers advance by a constant from the first one."""

    code: str = field(default="step", init=False)
    by: int

    @property
    def finding(self) -> str:
        return "ids-gap" if self.by > 0 else "ids-backwards"

    @property
    def words(self) -> str:
        return f"positions that advance by {self.by}"

    undo: ClassVar[str] = "advance by 1"

    @classmethod
    def propose(cls, _: Numbers, observed: Numbers) -> Iterator[Any]:
        steps = np.diff(observed)
        if len(steps) > 1:
            candidates = steps[[0, len(steps) // 2, -1]]
            both = [*(-candidates).tolist(), *candidates.tolist()]  # before a reversal, or alone
            yield from (cls(by) for by in dict.fromkeys(both) if by not in (0, 1))

    def apply(self, expected: Numbers) -> Numbers:
        return np.full_like(expected, expected[0]) + self.by * np.arange(len(expected))


@dataclass(frozen=True)
class Clamped:
    """Numbers above a largest one are replaced by it."""

    code: str = field(default="clamped", init=False)
    to: int
    finding: ClassVar[str] = "ids-repeated"
    undo: ClassVar[str] = "count on"

    @property
    def words(self) -> str:
        return f"positions clamped to {self.to}"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Iterator[Any]:
        last = int((observed != observed[-1])[::-1].argmax())  # numbers equal to the last one
        candidates = (
            int(observed.max()),
            int(observed[-1]),
            int(expected[len(observed) - max(last, 1)]),
        )
        for to in dict.fromkeys(candidates):
            if (expected[: len(observed)] > to).sum() > 1:
                yield cls(to)

    def apply(self, expected: Numbers) -> Numbers:
        return np.asarray(np.minimum(expected, self.to))


@dataclass(frozen=True)
class Repeated:
    """Some numbers equal the one before them, and the others follow on."""

    code: str = field(default="repeated", init=False)
    at: int
    count: int
    finding: ClassVar[str] = "ids-repeated"
    undo: ClassVar[str] = "count every token"

    @property
    def words(self) -> str:
        return f"a position repeated {self.count} more time(s) from index {self.at} on"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Iterator[Any]:
        for at in changes(shift_of(expected, observed)):
            if observed[at] == observed[at - 1]:
                others = observed[at:] != observed[at]
                yield cls(at, int(others.argmax()) if others.any() else len(others))

    def apply(self, expected: Numbers) -> Numbers:
        index = np.arange(len(expected))
        return np.asarray(expected[index - np.clip(index - self.at + 1, 0, self.count)])


@dataclass(frozen=True)
class Restarted:
    """From an index on the numbers begin again."""

    code: str = field(default="restarted", init=False)
    at: int
    start: int = field(metadata=HIDDEN)
    finding: ClassVar[str] = "ids-restarted"

    @property
    def words(self) -> str:
        return f"positions that begin again at {self.start} from index {self.at} on"

    undo: ClassVar[str] = "count on"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Iterator[Any]:
        shift, first = shift_of(expected, observed), int(expected[0])
        for at in changes(shift):
            start = int(observed[at])
            if shift[at] - shift[at - 1] == first - expected[at]:
                start = first
            if start in (0, first) and observed[at] != observed[at - 1]:
                yield cls(at, start)

    def apply(self, expected: Numbers) -> Numbers:
        again = expected[: len(expected) - self.at] - expected[0] + self.start
        return np.concatenate([expected[: self.at], again])


@dataclass(frozen=True)
class Gap:
    """From an index on numbers are larger by a constant."""

    code: str = field(default="gap", init=False)
    at: int
    by: int
    finding: ClassVar[str] = "ids-gap"
    sign: ClassVar[int] = 1

    @property
    def words(self) -> str:
        return f"positions {larger_by(self.sign * self.by)} from index {self.at} on"

    @property
    def undo(self) -> str:
        return f"{'subtract' if self.sign > 0 else 'add'} {self.by} there"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Iterator[Any]:
        shift = cls.sign * shift_of(expected, observed)
        row = shift.reshape(-1, shift.shape[-1])[0]
        for at in changes(shift):
            if row[at] > row[at - 1]:
                yield cls(at, int(row[at] - row[at - 1]))

    def apply(self, expected: Numbers) -> Numbers:
        return expected + self.sign * self.by * (np.arange(expected.shape[-1]) >= self.at)


@dataclass(frozen=True)
class Backwards(Gap):
    """From an index on numbers are smaller by a constant."""

    code: str = field(default="backwards", init=False)
    finding: ClassVar[str] = "ids-backwards"
    sign: ClassVar[int] = -1


@dataclass(frozen=True)
class Wrong:
    """A single number is another one."""

    code: str = field(default="wrong", init=False)
    at: int
    value: int
    expected: int = field(metadata=HIDDEN)
    undo: ClassVar[str] = "correct this one"

    @property
    def finding(self) -> str:
        return "ids-gap" if self.value > self.expected else "ids-backwards"

    @property
    def words(self) -> str:
        return f"position {self.value} in place of {self.expected} at index {self.at}"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Iterator[Any]:
        shift = shift_of(expected, observed)
        for at in (0, *changes(shift)):
            if shift[at]:
                yield cls(at, int(observed[at]), int(expected[at]))

    def apply(self, expected: Numbers) -> Numbers:
        return np.where(np.arange(len(expected)) == self.at, self.value, expected)


@dataclass(frozen=True)
class Exchanged:
    """Two blocks of equal length are exchanged."""

    code: str = field(default="exchanged", init=False)
    first: int
    second: int
    count: int
    finding: ClassVar[str] = "ids-backwards"
    undo: ClassVar[str] = "exchange them back"

    @property
    def words(self) -> str:
        ends = (f"{i} to {i + self.count - 1}" for i in (self.first, self.second))
        blocks = ends if self.count > 1 else map(str, (self.first, self.second))
        return f"positions exchanged at indices {' and '.join(blocks)}"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Iterator[Any]:
        shift = shift_of(expected, observed)
        wrong, cuts = np.flatnonzero(shift), changes(shift)
        if not len(wrong):
            return
        first, last = int(wrong[0]), int(wrong[-1])
        for second in np.flatnonzero(expected[: len(observed)] == observed[first])[:1].tolist():
            runs = [cut - first for cut in cuts if cut > first][:1]
            for count in dict.fromkeys([last - second + 1, *runs]):
                if 0 < count <= second - first and second + count <= len(expected):
                    yield cls(first, second, count)

    def apply(self, expected: Numbers) -> Numbers:
        numbers = expected.copy()
        a, b = (slice(i, i + self.count) for i in (self.first, self.second))
        numbers[a], numbers[b] = expected[b], expected[a]
        return numbers


@dataclass(frozen=True)
class Beyond:
    """Numbers reach a limit; this changes none of them."""

    code: str = field(default="beyond", init=False)
    at: int
    limit: int
    finding: ClassVar[str] = "ids-beyond"
    undo: ClassVar[str] = "use shorter sequences or a scaling"

    @property
    def words(self) -> str:
        return f"positions beyond {self.limit - 1} from index {self.at} on"

    def apply(self, expected: Numbers) -> Numbers:
        return expected


@dataclass(frozen=True)
class PaddingCounted(Shifted):
    """Padding before or within a document is counted."""

    code: str = field(default="padding-counted", init=False)
    counts: Numbers = field(metadata=HIDDEN, compare=False)  # padding before each token
    finding: ClassVar[str] = "ids-padding-counted"
    undo: ClassVar[str] = "count real tokens only"

    @property
    def words(self) -> str:
        return f"padding counted, {self.by} token(s)"

    def apply(self, expected: Numbers) -> Numbers:
        return expected + self.counts


@dataclass(frozen=True)
class NotRestarted(Shifted):
    """A document continues the numbers of the one before it."""

    code: str = field(default="not-restarted", init=False)
    finding: ClassVar[str] = "ids-not-restarted"
    undo: ClassVar[str] = "begin again with each document"

    @property
    def words(self) -> str:
        return f"positions that continue from the document before, {self.by} too large"


@dataclass(frozen=True)
class TableOffset(Shifted):
    """The offset of a model's table is missing, or is added twice."""

    code: str = field(default="table-offset", init=False)
    finding: ClassVar[str] = "ids-table-offset"

    @property
    def words(self) -> str:
        fault = "missing" if self.by < 0 else "added twice"
        return f"the offset {abs(self.by)} of the model's table {fault}"


@dataclass(frozen=True)
class Recounted:
    """Numbers that the input gives if it is read in another way."""

    code: str
    finding: str = field(metadata=HIDDEN)
    words: str = field(metadata=HIDDEN)
    undo: str = field(metadata=HIDDEN)
    numbers: Numbers = field(metadata=HIDDEN, compare=False)

    def apply(self, _: Numbers) -> Numbers:
        return self.numbers


@dataclass(frozen=True)
class OtherShard(Recounted):
    """The numbers of another rank, or of another way to share tokens."""

    rank: int
    shard: str


@dataclass(frozen=True, eq=False)
class Given:
    """Causes that facts beside the numbers suggest, as a kind."""

    causes: Sequence[CauseOfRows]

    def propose(self, _: Numbers, __: Numbers) -> Iterable[Any]:
        """Yield the causes."""
        return self.causes


KINDS = (  # the likeliest first; of two that give the same numbers, the earlier is reported
    *(Reversed, Step, Shifted, Restarted, Clamped, Repeated),
    *(Gap, Backwards, Wrong, Exchanged),
)

"""Causes that act on whole numbers by row: ids of tokens, or positions of the rows of a table.

Conventions
-----------
Numbers are (n,), or (axes, n) for ids on several axes. `at`, `first` and `second` are indices from
0. Fewer numbers may be observed than are expected; only those that are observed are compared.
`finding` is the code that reports a cause, `says` what was done, `undo` what takes it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pefourier.construction.explain import Cover, Explanation, Kind, Named, explain
from pefourier.geometry.precision import FORMATS, rounded
from pefourier.types import Bools, Counts, Fields, frozen, frozen_arrays, hidden

Numbers = NDArray[np.int64]
PLACES = 4  # changes from either end at which causes are proposed
LEAST = 3  # length of each of two parts; fewer are explained too easily
CORNERS = 8  # changes of the step that one cause makes, at most


def agree(expected: Numbers, observed: Numbers) -> Bools:
    """Return which observed numbers are expected, row by row; none if too few are expected.

    >>> agree(np.arange(4), np.array([0, 1, 5])), agree(np.arange(2), np.arange(3))
    (array([ True,  True, False]), array([False, False, False]))
    """
    due = expected[..., : observed.shape[-1]]
    return np.asarray(due == observed if due.shape == observed.shape else observed != observed)


def explain_rows(
    expected: Numbers,
    observed: Numbers,
    known: Sequence[Kind[Numbers]] = (),
    *,
    in_parts: bool = False,
) -> Explanation[Numbers]:
    """Return the causes of observed numbers (n,); `known` are kinds that are tried first.

    >>> [cause.words for cause in explain_rows(np.arange(6), np.array([3, 4, 5, 7, 8, 9])).causes]
    ['positions shifted by +3', 'positions shifted by +1 from index 3 on']
    >>> observed = np.array([0, 1, 7, 8, 9, 5, 6])
    >>> [cause.words for cause in explain_rows(np.arange(7), observed, in_parts=True).causes]
    ['positions shifted by +5 in tokens 2 to 4']
    """
    bends = corners(expected)
    if corners(observed) > 4 * bends + 2 * CORNERS:
        return explain(expected, observed, (*known, *UNEVEN), agree, lambda *_: False)

    def near(remaining: Numbers, observed: Numbers) -> bool:
        return bends > 0 or corners(shift_of(remaining, observed)) <= CORNERS

    parts = {"parts": parts_of} if in_parts else {}
    return explain(expected, observed, (*known, *KINDS), agree, near, **parts)


@frozen
class Piece:
    """Some tokens of numbers (n,) or (axes, n), or some on one axis, or on neighbouring ones."""

    tokens: Counts | None = None  # first and last
    axis: int | Counts | None = None  # one axis, or the first and last

    @property
    def within(self) -> Fields:
        """Indices for JSON."""
        found = {"axis": self.axis, "rows": self.tokens}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def words(self) -> str:
        """The axis and the tokens."""
        texts = [] if self.axis is None else [f"on axis {self.axis}"]
        if isinstance(self.axis, tuple):
            texts = ["on axes {} to {}".format(*self.axis)]
        if self.tokens:
            texts.append("in tokens {} to {}".format(*self.tokens))
        return " ".join(texts)

    @property
    def index(self) -> Any:
        """Index of the part in an array."""
        first, last = self.tokens or (0, -1)
        axis: Any = ... if self.axis is None else self.axis
        if isinstance(axis, tuple):
            axis = slice(axis[0], axis[1] + 1)
        return axis, slice(first, last + 1 or None)

    def of(self, numbers: Numbers) -> Numbers:
        """Select the part."""
        return np.asarray(numbers[self.index])

    def put(self, numbers: Numbers, part: Numbers) -> Numbers:
        """Replace the part."""
        whole = numbers.copy()
        held = whole[self.index]
        held[...] = part[..., : held.shape[-1]]
        return whole


def parts_of(expected: Numbers, observed: Numbers, differs: Bools) -> Iterator[Cover[Numbers]]:
    """Yield the axes and tokens to which differences are confined: one part, or two."""
    shift, flat = shift_of(expected, observed), np.atleast_2d(differs)
    axes: list[Any] = np.flatnonzero(flat.any(axis=1)).tolist() if differs.ndim > 1 else [None]
    if axes != [None] and len(axes) < 3:
        yield [(Piece(axis=axis), KINDS) for axis in axes]
    if len(axes) == 2:
        ends = [tuple(np.flatnonzero(differs[axis])[[0, -1]].tolist()) for axis in axes]
        if ends[0] == ends[1] and axes[1] == axes[0] + 1:
            yield [(Piece(ends[0], tuple(axes)), (Shifted,))]
        yield [(Piece(end, axis), KINDS) for end, axis in zip(ends, axes, strict=True)]
    kinds: Sequence[Any] = KINDS if len(axes) == 1 else (Shifted, AxesExchanged)
    for runs in stretches(np.asarray(flat.any(axis=0)), changes(shift)):
        yield [(Piece(run, axes[0] if len(axes) == 1 else None), kinds) for run in runs]


def stretches(differs: Bools, cuts: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield the first and last index of the numbers that differ, in one stretch or in two.

    >>> list(stretches(np.array([0, 0, 1, 1, 0, 1, 1, 1, 1]) > 0, [2, 5]))
    [[(2, 8)], [(1, 8)]]
    """
    at = np.flatnonzero(differs)
    widest = at[1:][np.diff(at).argmax()] if len(at) > 1 else 0  # behind most that agree
    halves = [(at[at < cut], at[at >= cut]) for cut in (widest, *cuts)]
    for parts in ((at,), *(pair for pair in halves if min(map(len, pair)) > 1)):
        # some causes keep the first number of a part
        for kept in product((0, 1), repeat=len(parts)):
            runs = [(int(x[0]) - k, int(x[-1])) for x, k in zip(parts, kept, strict=True)]
            is_apart = runs[0][0] >= 0 and (len(runs) == 1 or runs[1][0] > runs[0][1])
            if is_apart and (len(runs) == 1 or min(b - a for a, b in runs) > LEAST):
                yield runs


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


RowChanges = Iterator["Change"]


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

    >>> [cause.code for cause in explain_rows(np.arange(2), np.array([1, 0])).causes]
    ['reversed']
    >>> observed = np.arange(9)[::-1][:4]  # of more rows
    >>> [cause.code for cause in explain_rows(np.arange(9), observed).causes]
    ['reversed']
    """

    name = "reversed"
    finding = "ids-backwards"
    says = "positions in reverse order"
    undo = "reverse them"

    @classmethod
    def propose(cls, _: Numbers, __: Numbers) -> RowChanges:
        yield cls()

    def apply(self, expected: Numbers) -> Numbers:
        return expected[..., ::-1]


@frozen
class Step(Change):
    """Numbers advance by a constant from the first one.

    >>> [cause.by for cause in Step.propose(np.arange(3), np.array([0, 1, 3]))]
    [-1, -2, 2]
    >>> [cause.code for cause in explain_rows(np.arange(2), np.array([0, 5])).causes]  # no step
    ['gap']
    >>> tuple(c.words for c in explain_rows(np.arange(9), np.array([0, 3, 6, 5])).causes)
    ('positions that advance by 3', 'positions shifted by -4 from index 3 on')
    """

    by: int
    name = "step"
    finding = "ids-gap"
    says = "positions that advance by {c.by}"
    undo = "advance by 1"

    @classmethod
    def propose(cls, _: Numbers, observed: Numbers) -> RowChanges:
        steps = np.diff(observed)
        if len(steps) > 1:
            both = np.outer([-1, 1], steps[[0, -1]]).ravel().tolist()  # before a reversal, or alone
            yield from (cls(by) for by in dict.fromkeys(both) if by not in (0, 1))

    def apply(self, expected: Numbers) -> Numbers:
        return np.full_like(expected, expected[0]) + self.by * np.arange(len(expected))


@frozen
class Rounded(Change):
    """Numbers are rounded to a floating-point format.

    >>> Rounded("bfloat16").apply(np.array([255, 257, 259]))
    array([255, 256, 260])
    """

    form: str
    name = "rounded"
    finding = "ids-stored"
    says = "positions rounded to {c.form}"
    undo = "keep them as integers"

    @classmethod
    def propose(cls, expected: Numbers, _: Numbers) -> RowChanges:
        for name in ("bfloat16", "float16"):
            if np.abs(expected).max() > 2 ** FORMATS[name].digits:
                yield cls(name)

    def apply(self, expected: Numbers) -> Numbers:
        form = FORMATS[self.form]
        most = int(form.largest)  # beyond, they are infinite
        return rounded(np.clip(expected, -most, most), form).astype(np.int64)


@frozen
class Wrapped(Change):
    """Numbers overflow an integer type.

    >>> observed = np.array([126, 127, -128, -127])
    >>> [cause.words for cause in explain_rows(np.arange(126, 130), observed).causes]
    ['positions stored as int8, which overflows']
    """

    type: str
    name = "wrapped"
    finding = "ids-stored"
    says = "positions stored as {c.type}, which overflows"
    undo = "use 64 bits"

    @classmethod
    def propose(cls, _: Numbers, observed: Numbers) -> RowChanges:
        for bits in (32, 16, 8):
            for name in (f"int{bits}", f"uint{bits}"):
                if np.array_equal(observed, observed.astype(name)):
                    yield cls(name)

    def apply(self, expected: Numbers) -> Numbers:
        return expected.astype(self.type).astype(np.int64)


@frozen
class Divided(Change):
    """Numbers are divided by a constant and rounded down.

    >>> [cause.words for cause in explain_rows(np.arange(8), np.arange(8) // 2).causes]
    ['positions divided by 2 and rounded down']
    """

    by: int
    name = "divided"
    finding = "ids-repeated"
    says = "positions divided by {c.by} and rounded down"
    undo = "count every token"

    @classmethod
    def propose(cls, _: Numbers, observed: Numbers) -> RowChanges:
        rises = np.flatnonzero(np.diff(observed)).tolist()
        if rises and (by := (rises[1] - rises[0]) if len(rises) > 1 else rises[0] + 1) > 1:
            yield cls(by)

    def apply(self, expected: Numbers) -> Numbers:
        return expected // self.by


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
    def propose(cls, expected: Numbers, observed: Numbers) -> RowChanges:
        shift = shift_of(expected, observed).ravel()
        lowest = int(observed.min() - expected.min())
        some = [lowest, *shift[[0, -1]].tolist()]
        yield from (cls(by) for by in dict.fromkeys(some) if by)

    def apply(self, expected: Numbers) -> Numbers:
        return expected + self.by


@frozen
class Restarted(Change):
    """From an index on the numbers begin again.

    >>> [c.words for c in Restarted.propose(np.arange(2, 7), np.array([2, 3, 4, 0, 1]))]
    ['positions that begin again at 0 from index 3 on']
    >>> [c.at for c in Restarted.propose(np.arange(5), np.array([0, 0, 1, 1, 3]))]  # repeated
    []
    >>> Restarted(3, 0).apply(np.arange(5))
    array([0, 1, 2, 0, 1])
    """

    at: int
    start: int = hidden()
    name = "restarted"
    finding = "ids-restarted"
    says = "positions that begin again at {c.start} from index {c.at} on"
    undo = "count on"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> RowChanges:
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
    def propose(cls, expected: Numbers, observed: Numbers) -> RowChanges:
        n = len(observed)
        equal = max(1, int((observed != observed[-1])[::-1].argmax()))  # at the end
        for to in dict.fromkeys((int(observed.max()), int(observed[-1]), int(expected[n - equal]))):
            if expected[0] <= to and (expected[:n] > to).sum() > 1:
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
    def propose(cls, expected: Numbers, observed: Numbers) -> RowChanges:
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
    def propose(cls, expected: Numbers, observed: Numbers) -> RowChanges:
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
    due: int = hidden()
    name = "wrong"
    finding = "ids-gap"
    says = "position {c.value} in place of {c.due} at index {c.at}"
    undo = "correct this one"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> RowChanges:
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
    def propose(cls, expected: Numbers, observed: Numbers) -> RowChanges:
        shift = shift_of(expected, observed)
        wrong, cuts = np.flatnonzero(shift).tolist(), changes(shift)
        if not wrong:
            return
        first = wrong[0]
        second = int((expected[: len(observed)] == observed[first]).argmax())
        count = next((cut - first for cut in cuts if cut > first), 0)
        if 0 < count <= second - first and second + count <= len(expected):
            yield cls(first, second, count)

    def apply(self, expected: Numbers) -> Numbers:
        numbers = expected.copy()
        a, b = (slice(i, i + self.count) for i in (self.first, self.second))
        numbers[a], numbers[b] = expected[b], expected[a]
        return numbers


@frozen
class AxesExchanged(Change):
    """Two axes are exchanged."""

    axes: tuple[int, int]
    name = "axes-exchanged"
    finding = "ids-backwards"
    says = "axes {c.axes[0]} and {c.axes[1]} exchanged (0: time, 1: row, 2: column)"
    undo = "exchange them back"

    @classmethod
    def propose(cls, _: Numbers, __: Numbers) -> RowChanges:
        yield from map(cls, ((1, 2), (0, 1), (0, 2)))

    def apply(self, expected: Numbers) -> Numbers:
        ids = expected.copy()
        ids[list(self.axes)] = expected[list(self.axes[::-1])]
        return ids


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

    counts: Numbers = hidden(compare=False)  # padding before each token
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
    finding: str = hidden()
    words: str = hidden()
    undo: str = hidden()
    numbers: Numbers = hidden(compare=False)
    within: Fields | None = None  # the part that was read so, for JSON

    def apply(self, _: Numbers) -> Numbers:
        return self.numbers


@frozen_arrays
class Given:
    """Causes that facts beside the numbers suggest, as a kind."""

    causes: Sequence[Any]

    def propose(self, _: Numbers, __: Numbers) -> Iterable[Any]:
        """Yield the causes."""
        return self.causes


UNEVEN = (Rounded, Wrapped, Divided)  # their numbers advance in many different steps
KINDS = (  # of two that give the same numbers, the earlier is reported
    *(Rounded, Wrapped, Reversed, Step, Shifted, Restarted, Clamped, Repeated),
    *(Gap, Backwards, Wrong, Exchanged, Divided),
)

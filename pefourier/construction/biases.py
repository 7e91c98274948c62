r"""Comparison of two attention biases, head by head: matrices, lags, slopes and buckets.

Conventions
-----------
A bias is an array (heads, queries, n), with one key per column, or one number for each lag
(key - query) and head. The softmax removes any constant from the row of a query, so a constant for
each query is not a difference; signs, scales and the order of heads are differences. For causal
biases, only keys up to the query are compared.

A cause acts on the biases of the expected side. Where values of the expected side cannot show what
another rule gives (a bucket that no lag reached), they are read from the observed side, as
parameters of the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any, Literal

import numpy as np

from pefourier.construction.explain import Cover, Difference, Named, explain
from pefourier.construction.outcome import HeadDifference, Outcome, uncompared
from pefourier.construction.tables import IndexRange, shortest
from pefourier.encodings.encoding import Encoding, finding
from pefourier.encodings.families.relative import alibi_slopes, t5_buckets
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.geometry.tolerance import half_of_least
from pefourier.types import (
    Array,
    Bools,
    Counts,
    Fields,
    Floats,
    Ints,
    Places,
    frozen,
    frozen_arrays,
    hidden,
)
from pefourier.writing.text import first_few, joined_runs, number

STRAIGHT = 1e-5  # share of the largest bias of a head, up to which its biases are linear
BUCKETS = (32, 64, 16, 128, 8)
FARTHEST = (128, 64, 256, 512, 1024, 2048, 32, 100, 127, 20, 10_000)  # distances of T5's buckets
LagSides = Literal["causal", "both sides"]
SIDES: tuple[LagSides, ...] = ("both sides", "causal")
MASKED = -1e4  # biases below it hide a key
MASK_LEVELS = 3  # sums of two masks have three
FEWEST = 3  # groups of lags that both must show
IN_WORDS = {
    "mirrored": "keys after the query as biased as keys before it",
    "continued": "the line of each head's biases continued to keys after the query",
    "zero": "no bias of keys after the query",
}


@frozen_arrays
class Biases:
    """Biases between some queries and n keys."""

    queries: Places  # positions (q,)
    numbers: Floats  # (heads, q, n)
    eps: float
    causal: bool = field(kw_only=True)  # whether keys after the query are hidden
    rule: BucketRule | None = None  # of T5's buckets, if a formula declares them

    @property
    def lags(self) -> Places:
        """Key minus query, (q, n)."""
        lags: Places = np.arange(self.numbers.shape[2]) - self.queries[:, None]
        return lags

    @property
    def visible(self) -> Bools:
        """Which numbers (heads, q, n) are of keys that no mask hides."""
        return np.asarray(np.isfinite(self.numbers) & ((not self.causal) | (self.lags <= 0)))

    @cached_property
    def by_lag(self) -> Floats:
        """Biases (heads, 2n - 1) of lags 1 - n … n - 1; NaN where hidden or not set by the lag."""
        n, heads = self.numbers.shape[2], len(self.numbers)
        table, lags = np.full((heads, 2 * n - 1), np.nan), self.lags + n - 1
        visible = self.visible
        for i in range(len(self.queries)):
            seen = visible[:, i].all(axis=0)
            table[:, lags[i, seen]] = self.numbers[:, i, seen]
        apart = np.abs(np.where(visible, self.numbers - table[:, lags], 0.0))
        top = np.nanmax(np.abs(table), axis=1, initial=0.0)[:, None, None]
        if (apart > 16 * max(self.eps, FLOAT32_EPS) * top).any():
            table[:] = np.nan
        return table

    @property
    def slopes(self) -> Floats:
        """Slopes per position (heads,) towards the query; NaN if earlier keys are not on a line."""
        n = self.numbers.shape[2]
        return np.array([slope_of(head[:n]) for head in self.by_lag], dtype=float)

    def at(self, queries: Places) -> Biases:
        """Return the biases of other queries, by their lags; 0 at lags that are not known."""
        rows = replace(self, queries=queries)
        return replace(rows.with_lags(np.nan_to_num(self.by_lag)), rule=self.rule)

    def with_lags(self, table: Floats) -> Biases:
        """Return biases with the numbers (heads, 2n - 1) of each lag."""
        return self.with_numbers(table[:, self.lags + self.numbers.shape[2] - 1])

    def with_numbers(self, numbers: Floats) -> Biases:
        """Return biases with other numbers, which follow no declared rule."""
        return replace(self, numbers=numbers, rule=None)

    def times(self, factor: Any) -> Biases:
        """Return biases times a factor, or one for each head; a mask hides the same keys."""
        shown = np.isfinite(self.numbers)
        return self.with_numbers(self.numbers * np.where(shown, factor, 1.0))


@frozen
class BucketRule:
    """Groups of lags that share a bias: T5's buckets, or lags clipped to two limits."""

    buckets: int | None = None
    max_distance: int | None = None
    sides: LagSides = "both sides"
    clip: tuple[int, int] | None = None  # lags below -clip[0] and above clip[1] share a bias

    def groups(self, lags: Places) -> Places:
        """Return the number of the group of each lag."""
        if self.clip:
            return np.asarray(np.clip(lags, -self.clip[0], self.clip[1]) - lags.min())
        causal = self.sides == "causal"
        return t5_buckets(lags, self.buckets or 0, self.max_distance or 0, causal=causal)

    @property
    def words(self) -> str:
        """The rule in words."""
        if self.clip:
            before, after = self.clip
            return f"lags clipped to -{before} … {after}"
        return f"{self.buckets} buckets (up to {self.max_distance}, {self.sides})"


def slope_of(profile: Floats) -> float | None:
    """Slope of linear biases over lags 1 - n … 0; None if they are not linear.

    >>> slope_of(np.array([-1.0, -0.5, 0.0])), slope_of(np.array([-4.0, -1.0, 0.0]))
    (0.5, None)
    """
    n = len(profile)
    if n < 2 or not np.isfinite(profile).all():
        return None
    line = np.linspace(profile[0], profile[-1], n)
    is_straight = np.abs(profile - line).max() <= STRAIGHT * np.abs(profile).max()
    return float((profile[-1] - profile[0]) / (n - 1)) if is_straight else None


@frozen
class QueriesExchanged(Named):
    """Queries and keys are exchanged: the direction of the lag is reversed."""

    name = "transposed"
    says = "queries and keys exchanged, which reverses the direction of the lag"

    @classmethod
    def propose(cls, expected: Biases, _: Biases) -> Iterator[QueriesExchanged]:
        """Propose it for two-sided biases."""
        if not expected.causal:
            yield cls()

    def apply(self, expected: Biases) -> Biases:
        """Exchange queries and keys."""
        if len(expected.queries) == expected.numbers.shape[2]:
            return expected.with_numbers(np.swapaxes(expected.numbers, 1, 2))
        return expected.with_lags(expected.by_lag[:, ::-1])


@frozen
class LaterKeys(Named):
    """Keys after the query have other biases, which follow from those of earlier keys."""

    kind: str
    name = "later-keys"
    changed = "numbers"

    @property
    def words(self) -> str:
        """The biases of keys after the query."""
        return IN_WORDS[self.kind]

    @classmethod
    def propose(cls, expected: Biases, _: Biases) -> Iterator[LaterKeys]:
        """Propose each kind."""
        if not expected.causal:
            yield from map(cls, IN_WORDS)

    def apply(self, expected: Biases) -> Biases:
        """Give keys after the query the biases of this kind."""
        before = expected.by_lag[:, : expected.numbers.shape[2]]
        after = 0.0 * before
        if self.kind == "mirrored":
            after = before[:, ::-1]
        elif self.kind == "continued":
            after = before[:, -1:] + np.arange(len(before.T)) * np.diff(before[:, -2:])
        return expected.with_lags(np.hstack([before, after[:, 1:]]))


@frozen
class Window(Named):
    """A mask hides other keys: all but `before` keys before and `after` keys after the query."""

    before: int
    after: int
    name = "window"
    changed = "numbers"
    says = "a mask that shows {c.before} keys before and {c.after} after the query"

    @classmethod
    def propose(cls, expected: Biases, observed: Biases) -> Iterator[Window]:
        """Read the window of the observed mask."""
        shown, lags = ~np.isneginf(observed.numbers[0]), observed.lags
        seen = lags[shown]
        is_other = (shown == np.isneginf(expected.numbers[0])).any()
        if is_other and seen.size and seen.min() <= 0 <= seen.max():
            if (shown == ((lags >= seen.min()) & (lags <= seen.max()))).all():
                yield cls(-int(seen.min()), int(seen.max()))

    def apply(self, expected: Biases) -> Biases:
        """Hide keys outside the window, and show those inside with the bias of their lag."""
        visible = (expected.lags >= -self.before) & (expected.lags <= self.after)
        of_lags = expected.with_lags(np.nan_to_num(expected.by_lag)).numbers
        numbers = np.where(np.isneginf(expected.numbers), of_lags, expected.numbers)
        return replace(expected, numbers=np.where(visible, numbers, -np.inf))


@frozen
class HeadsReordered(Named):
    """Head h is head order[h] of the expected biases: heads in another order, or some repeated."""

    order: Counts
    name = "heads-reordered"

    @property
    def words(self) -> str:
        """The order of heads."""
        if self.order == tuple(range(len(self.order)))[::-1]:
            return "heads in reverse order"
        is_order = len({*self.order}) == len(self.order)
        what = "in another order" if is_order else "repeated"
        return f"heads {what}: {', '.join(map(str, self.order))} of the expected ones"

    @classmethod
    def propose(cls, expected: Biases, observed: Biases) -> Iterator[HeadsReordered]:
        """Match heads by their distance at the last query, before and after one factor."""
        a, b = (relative_to_query(x)[:, -1] for x in (expected, observed))
        size = np.abs(b).max() / (np.abs(a).max() or 1.0)
        orders = []
        for factor in (1.0, -1.0, size, -size):
            distance = np.abs(factor * a - b[:, None]).max(axis=2)
            is_own = distance.diagonal() <= distance.min(axis=1)  # of equal heads, its own
            orders.append(np.where(is_own, np.arange(len(a)), distance.argmin(axis=1)))
        for order in dict.fromkeys(tuple(order.tolist()) for order in orders):
            if order != tuple(range(len(a))):
                yield cls(order)

    def apply(self, expected: Biases) -> Biases:
        """Reorder the heads."""
        return replace(expected, numbers=expected.numbers[list(self.order)])


@frozen
class Multiplied(Named):
    """All biases of a part are multiplied by one factor."""

    by: float
    name = "scaled"
    changed = "numbers"

    @property
    def words(self) -> str:
        """The factor."""
        if self.by == -1:
            return "the other sign of biases"
        return "zeros" if self.by == 0 else f"biases multiplied by {number(self.by, 7)}"

    @classmethod
    def propose(cls, expected: Biases, observed: Biases) -> Iterator[Multiplied]:
        """Read the factor of all biases."""
        a, b = (np.where(np.isfinite(x.numbers), x.numbers, 0.0) for x in (expected, observed))
        if (by := factor_of(a, b, observed.eps)) != 1:
            yield cls(by)

    def apply(self, expected: Biases) -> Biases:
        """Multiply all biases that no mask hides."""
        return expected.times(self.by)


def factor_of(a: Floats, b: Floats, eps: float) -> float:
    """Return the factor with the fewest digits from the largest number of a to that of b.

    >>> factor_of(np.array([0.0, 2.0]), np.array([0.0, -0.5]), 1e-7)
    -0.25
    """
    top = np.abs(a).argmax()
    ratio = float(b.flat[top] / a.flat[top]) if a.any() else 1.0
    return shortest(ratio, 4 * max(eps, FLOAT32_EPS)) + 0.0


@frozen
class HeadsScaled(Multiplied):
    """The biases of some heads are multiplied by one factor."""

    heads: Counts

    @property
    def words(self) -> str:
        """The factor and the heads."""
        heads = f"the biases of {in_words(self.heads)}"
        if self.by == -1:
            return f"{heads} given the other sign"
        return f"{heads} multiplied by {number(self.by, 7)}"

    @classmethod
    def propose(cls, expected: Biases, observed: Biases) -> Iterator[HeadsScaled]:
        """Read the factor of each head; those of heads that differ must be equal."""
        sides, eps = (expected, observed), max(expected.eps, observed.eps)
        heads = zip(*map(relative_to_query, sides), strict=True)
        factors = np.array([factor_of(a, b, eps) for a, b in heads])
        changed = np.flatnonzero(factors != 1)
        slack = 8 * max(eps, FLOAT32_EPS) * np.abs(factors).max()
        if len(changed) and np.ptp(factors[changed]) <= slack:
            yield cls(float(factors[changed[0]]), tuple(changed.tolist()))

    def apply(self, expected: Biases) -> Biases:
        """Multiply the biases of the heads."""
        factors = np.ones((len(expected.numbers), 1, 1))
        factors[list(self.heads)] = self.by
        return expected.times(factors)


@frozen
class Clipped(Named):
    """Biases below a limit have its value."""

    at: float
    name = "clipped"
    changed = "numbers"
    says = "biases clipped at {c.at:g}"

    @classmethod
    def propose(cls, expected: Biases, observed: Biases) -> Iterator[Clipped]:
        """Yield the lowest bias, if several have it and the expected ones are lower."""
        a, b = (x.numbers[np.isfinite(x.numbers)] for x in (expected, observed))
        floor = b.min(initial=np.inf)
        if a.size and a.min() < floor and (b == floor).sum() > 1:
            yield cls(float(floor))

    def apply(self, expected: Biases) -> Biases:
        """Clip biases that no mask hides."""
        a = expected.numbers
        return expected.with_numbers(np.where(np.isfinite(a), np.maximum(a, self.at), a))


@frozen
class Entry(Named):
    """A single bias has another value."""

    head: int
    query: int
    key: int
    value: float
    name = "entry"
    changed = "numbers"
    says = "a bias of {c.value:g} in head {c.head}, query {c.query}, key {c.key}"

    @classmethod
    def propose(cls, expected: Biases, observed: Biases) -> Iterator[Entry]:
        """Read the bias that differs most."""
        a, b = (np.where(expected.visible, x.numbers, 0.0) for x in (expected, observed))
        head, row, key = map(int, np.unravel_index(np.abs(b - a).argmax(), a.shape))
        value = float(observed.numbers[head, row, key])
        yield cls(head, int(expected.queries[row]), key, value)

    def apply(self, expected: Biases) -> Biases:
        """Replace the bias."""
        numbers = expected.numbers.copy()
        numbers[self.head, expected.queries == self.query, self.key] = self.value
        return expected.with_numbers(numbers)


@frozen_arrays
class KeysAdded(Named):
    """Each key has a constant, which is added to its biases of all queries and heads."""

    by: Floats  # (n,)
    name = "keys-added"
    changed = "numbers"
    says = "a constant for each key added to its biases"

    @classmethod
    def propose(cls, expected: Biases, observed: Biases) -> Iterator[KeysAdded]:
        """Read the constants at the first head, if all queries are there."""
        shown = (expected.visible & observed.visible)[0]
        a, b = (np.where(shown, x.numbers[0], np.nan) for x in (expected, observed))
        if len(shown) == len(shown.T) > 2 and shown.any(axis=0).all():
            yield cls(by=np.nanmedian(b - a, axis=0))

    def apply(self, expected: Biases) -> Biases:
        """Add the constants."""
        return expected.with_numbers(expected.numbers + self.by)


@frozen_arrays
class LagMoved(Named):
    """Each lag has the bias of the lag before or after it; the last lag has its observed bias."""

    by: int
    last: Floats = hidden()  # (heads,)
    name = "lag-moved"

    @property
    def words(self) -> str:
        """The lags."""
        return f"the bias of lag l {self.by:+d} at each lag l but the last"

    @classmethod
    def propose(cls, _: Biases, observed: Biases) -> Iterator[LagMoved]:
        """Yield one position in both directions."""
        table = np.nan_to_num(observed.by_lag)
        yield from (cls(by=1, last=table[:, -1]), cls(by=-1, last=table[:, 0]))

    def apply(self, expected: Biases) -> Biases:
        """Move the biases of lags; lags that are not known have those of the opposite sign."""
        table = expected.by_lag
        table = np.where(np.isnan(table), table[:, ::-1], table)
        moved = np.roll(table, -self.by, axis=1)
        moved[:, -1 if self.by > 0 else 0] = self.last
        return expected.with_lags(moved)


@frozen
class PartOfBiases:
    """Some heads, queries and keys: the first and the last on each axis that is confined."""

    ranges: tuple[IndexRange, ...]

    @property
    def within(self) -> Fields:
        """Indices for JSON."""
        return {key: limits for one in self.ranges for key, limits in one.within.items()}

    @property
    def words(self) -> str:
        """Where the biases are, as the end of a sentence."""
        return "in " + ", ".join(one.words.removeprefix("in ") for one in self.ranges)

    def place_in(self, biases: Biases) -> Any:
        """Index of the numbers of the part."""
        limits = [
            (own, *self.within.get(axis, (0, np.inf))) for axis, own in labels_of(biases).items()
        ]
        return np.ix_(*((first <= own) & (own <= last) for own, first, last in limits))

    def of(self, biases: Biases) -> Biases:
        """Select the part; of keys, only the numbers."""
        place = self.place_in(biases)
        return replace(
            biases, numbers=biases.numbers[place], queries=biases.queries[place[1][0, :, 0]]
        )

    def put(self, biases: Biases, part: Biases) -> Biases:
        """Replace the part."""
        numbers = biases.numbers.copy()
        numbers[self.place_in(biases)] = part.numbers
        return biases.with_numbers(numbers)


def labels_of(biases: Biases) -> dict[str, Places]:
    """Return the indices of heads, queries and keys."""
    heads, _, keys = map(np.arange, biases.numbers.shape)
    return {"heads": heads, "queries": biases.queries, "keys": keys}


def parts_of(expected: Biases, _: Biases, differs: Bools) -> Iterator[Cover[Biases]]:
    """Yield the heads, queries and keys to which differences are confined, or two single heads."""
    ranges = list[IndexRange]()
    for k, (axis, labels) in enumerate(labels_of(expected).items()):
        own = labels[np.moveaxis(differs, k, 0).any(axis=(1, 2))]
        if len(own) and len(own) == np.ptp(own) + 1 < len(labels):
            ranges.append(IndexRange(axis, int(own[0]), int(own[-1])))
    for count in range(1, 4):
        for some in combinations(ranges, count):
            kinds = NUMBERS if some[-1].axis == "keys" else PARTIAL
            yield [(PartOfBiases(some), kinds)]
    heads = np.flatnonzero(differs.any(axis=(1, 2))).tolist()
    if len(heads) == 2 < len(differs):
        yield [(PartOfBiases((IndexRange("heads", head, head),)), PARTIAL) for head in heads]


def in_words(heads: Ints) -> str:
    """Name heads by their indices.

    >>> in_words([7]), in_words([0, 2, 3])
    ('head 7', 'heads 0, 2 to 3')
    """
    return f"head{'s' if len(heads) > 1 else ''} {first_few(joined_runs(heads, ' to '))}"


@frozen
class SlopesChanged(Named):
    """The slopes of heads follow another rule."""

    rule: str
    instead_of: str | None  # the rule of the expected slopes, if it has a name
    name = "slopes"
    changed = "numbers"

    @property
    def words(self) -> str:
        """The rule of the slopes."""
        if not self.instead_of:
            return f"slopes {self.rule}"
        those = "those " if self.instead_of.startswith("of ") else ""
        return f"slopes {self.rule} instead of {those}{self.instead_of}"

    @classmethod
    def propose(cls, expected: Biases, observed: Biases) -> Iterator[SlopesChanged]:
        """Find the rule of the observed slopes."""
        own, other = (name_of_slopes(x.slopes) for x in (expected, observed))
        if other and own != other:
            yield cls(other, own)

    def apply(self, expected: Biases) -> Biases:
        """Give the biases the slopes of the rule."""
        with np.errstate(all="ignore"):  # no number results without a slope, or for a hidden key
            ratios = slope_rules(len(expected.numbers))[self.rule] / expected.slopes
            return expected.times(ratios[:, None, None])


def slope_rules(heads: int) -> dict[str, Floats]:
    """Return known rules of slopes (heads,) by name: ALiBi's and its variants.

    >>> slope_rules(6)["2^(-8 (h + 1) / 6)"].round(3)
    array([0.397, 0.157, 0.062, 0.025, 0.01 , 0.004])
    """
    h, right = np.arange(heads), alibi_slopes(heads)
    larger = 2 ** (heads - 1).bit_length()
    larger *= 1 + (larger == heads)
    rules = {"of ALiBi": right}
    for largest in (8, 16, 4, 2, 1):
        rules[f"2^(-{largest} (h + 1) / {heads})"] = 2.0 ** (-largest * (h + 1) / heads)
        rules[f"2^(-{largest} h / {heads})"] = 2.0 ** (-largest * h / heads)
        rules[f"of ALiBi with bias_max {largest}"] = right ** (largest / 8)
    rules[f"of the first {heads} of ALiBi's {larger} heads"] = alibi_slopes(larger)[:heads]
    for k in (k for k in range(2, heads) if heads % k == 0):
        rules[f"of ALiBi with {k} heads, repeated"] = np.tile(alibi_slopes(k), heads // k)
    rules["equal to the first head's in all heads"] = np.full(heads, right[0])
    return rules


def name_of_slopes(slopes: Floats) -> str | None:
    """Return the name of the rule of slopes; None if no known rule gives them.

    >>> name_of_slopes(alibi_slopes(6)), name_of_slopes(2.0 ** (-8 * np.arange(1, 7) / 6))
    ('of ALiBi', '2^(-8 (h + 1) / 6)')
    """
    rules = slope_rules(len(slopes)).items()
    fits = (name for name, rule in rules if np.allclose(slopes, rule, rtol=STRAIGHT, atol=0))
    return next(fits, None)


@frozen
class Grouped(Named):
    """Lags share biases in other groups: T5's buckets of other settings, or a clip of lags."""

    rule: BucketRule
    instead_of: BucketRule
    values: Floats = hidden(repr=False, compare=False)  # (heads, groups)
    name = "buckets"
    says = "{c.rule.words}, instead of {c.instead_of.words}"

    @classmethod
    def propose(cls, expected: Biases, observed: Biases) -> Iterator[Grouped]:
        """Find the rule of both; groups that the expected side lacks are read from the observed."""
        fits = ([x.rule] if x.rule else [*bucket_rules(x)] for x in (expected, observed))
        for first, second in product(*fits):
            count = int(second.groups(observed.lags).max()) + 1
            values, known = group_values(expected, first, count)
            others, seen = group_values(observed, second, count)
            if first != second and (known & seen).sum() >= FEWEST:
                yield cls(second, first, np.where(known, values, others))

    def apply(self, expected: Biases) -> Biases:
        """Return the biases of the other groups."""
        numbers = self.values[:, self.rule.groups(expected.lags)]
        return replace(expected, numbers=numbers, rule=self.rule)


def group_values(biases: Biases, rule: BucketRule, count: int) -> tuple[Floats, Bools]:
    """Return the bias (heads, count) of each group, and which groups some visible lag has."""
    groups = rule.groups(biases.lags)
    visible = biases.visible.all(axis=0) & (groups < count)
    values, known = np.zeros((len(biases.numbers), count)), np.zeros(count, bool)
    values[:, groups[visible]] = biases.numbers[:, visible]
    known[groups[visible]] = True
    return values, known


def bucket_rules(biases: Biases) -> Iterator[BucketRule]:
    """Yield the clip of lags, and T5's buckets, that explain which lags share a bias."""
    n, known = biases.numbers.shape[2], np.isfinite(biases.by_lag).all(axis=0)
    lags = np.arange(1 - n, n)[known]
    groups = np.unique(biases.by_lag[:, known], axis=1, return_inverse=True)[1].ravel()
    if len(np.unique(groups)) == len(lags):
        return  # no two lags share a bias
    changes = np.flatnonzero(np.diff(groups))  # biases are constant beyond the last change
    limits = int(-lags[changes].min(initial=0)), int(lags[changes + 1].max(initial=0))
    rules = [BucketRule(clip=limits)] if min(limits) >= 0 < sum(limits) else []
    sides = SIDES[:: -1 if lags.max() <= 0 else 1]
    rules += [
        BucketRule(*settings)
        for settings in product(BUCKETS, FARTHEST, sides)
        if settings[1] > settings[0] // (2 if settings[2] == "causal" else 4)
    ]
    yield from (rule for rule in rules if same_groups(rule.groups(lags), groups))


def same_groups(first: Array, second: Array) -> bool:
    """Whether two labellings induce the same partition.

    >>> same_groups(np.array([0, 0, 1]), np.array([5, 5, 2]))
    True
    """
    pairs = int(np.unique(np.stack([first, second]), axis=1).shape[1])
    return len(np.unique(first)) == len(np.unique(second)) == pairs


def relative_to_query(biases: Biases) -> Floats:
    """Return biases minus the bias of each query to itself, 0 where a key is hidden."""
    own = biases.numbers[:, np.arange(len(biases.queries)), biases.queries]
    numbers = biases.numbers - np.where(np.isfinite(own), own, 0.0)[..., None]
    return np.where(biases.visible, numbers, 0.0)


def agree_with(counted: Bools, tolerance: Floats) -> Callable[[Biases, Biases], Bools]:
    """Return the comparison of biases up to a constant for each query.

    Both must hide the same of the `counted` keys; the biases of keys that both show must agree.
    """

    def agree(applied: Biases, observed: Biases) -> Bools:
        a, b = applied.numbers, observed.numbers
        hidden = np.isneginf(a), np.isneginf(b)
        with np.errstate(invalid="ignore"):
            plain = (np.abs(a - b) <= tolerance) | hidden[0] | hidden[1] | ~counted
            moved = np.abs(relative_to_query(applied) - relative_to_query(observed))
        moved_agree = (moved <= 2 * tolerance) | hidden[0] | hidden[1] | ~counted
        is_plain = plain.sum(axis=2, keepdims=True) >= moved_agree.sum(axis=2, keepdims=True)
        reproduced = np.where(is_plain, plain, moved_agree)
        return np.asarray(reproduced & ((hidden[0] == hidden[1]) | ~counted))

    return agree


NUMBERS = (Multiplied, Clipped)
PARTIAL = (*NUMBERS, LagMoved, QueriesExchanged)
KINDS = (
    *(Window, QueriesExchanged, LaterKeys, SlopesChanged, HeadsScaled, HeadsReordered, Grouped),
    *(Clipped, LagMoved, Entry, KeysAdded),
)


def rows_of_lags(profile: Floats, eps: float, *, causal: bool) -> Biases:
    """Build biases from a profile of lags 1 - n … n - 1 (heads, 2n - 1), or up to 0 (heads, n)."""
    causal |= profile.shape[1] % 2 == 0
    n = profile.shape[1] if causal else (profile.shape[1] + 1) // 2
    queries = np.array([n - 1] if causal else [0, n - 1])
    numbers = profile[:, np.arange(n) - queries[:, None] + n - 1]
    return Biases(queries, numbers, eps, causal=causal)


def first_keys(biases: Biases, n: int) -> Biases:
    """Restrict biases to the first n positions."""
    keys, queries = biases.numbers.shape[2], biases.queries
    if len(queries) == keys:
        return replace(biases, queries=queries[:n], numbers=biases.numbers[:, :n, :n])
    queries = np.minimum(queries, n - 1)
    numbers = biases.by_lag[:, np.arange(n) - queries[:, None] + keys - 1]
    return replace(biases, queries=queries, numbers=numbers)


def read_bias(enc: Encoding, counterpart: Biases | None = None) -> Biases | None:
    """Read the biases of an encoding, or of a table shaped like its counterpart; None if none."""
    if enc.between:
        queries = np.arange(enc.tokens)
        return Biases(queries, enc.bias, enc.eps, causal=is_hidden(enc.bias))
    if enc.operator or enc.domain.grid or not enc.domain.is_line:
        return None
    if enc.injection == "bias" and enc.domain.kind == "lag":
        table = enc.float_table()
        rule = None
        if enc.name == "t5":
            settings = enc.params["buckets"], enc.params["max_distance"]
            rule = BucketRule(*settings, "causal" if enc.params["causal"] else "both sides")
        rows = rows_of_lags(table.T, enc.eps, causal=bool(enc.domain.x[-1] <= 0))
        return replace(rows, rule=rule)
    if enc.origin == "formula" or enc.domain.kind != "position":
        return None
    if len(enc) == enc.dim:
        table = mask_as_bias(enc.float_table())
        hidden = is_hidden(table[None])
        rows = Biases(np.arange(len(table)), table[None], enc.eps, causal=hidden)
        is_bias = is_toeplitz(rows) or (counterpart and len(counterpart.numbers) == 1)
        return rows if is_bias else None
    if not counterpart or len(counterpart.numbers) not in (len(enc), enc.dim):
        return None
    table = enc.float_table()  # columns or rows are lags
    profile = table.T if enc.dim == len(counterpart.numbers) else table
    profile, causal = in_order_of_lags(profile, two_sided=not counterpart.causal)
    return rows_of_lags(profile, enc.eps, causal=causal)


def mask_as_bias(table: Array) -> Floats:
    """Convert a mask of zeros and ones to a bias: the value on the diagonal means visible.

    >>> mask_as_bias(np.tri(4))[0]
    array([  0., -inf, -inf, -inf])
    """
    shown = table == table[0, 0]
    is_mask = ((table == 0) | (table == 1)).all() and shown.diagonal().all()
    is_mask &= shown.sum() not in (len(table), table.size)
    return np.where(shown, 0.0, -np.inf) if is_mask else table


def is_hidden(bias: Floats) -> bool:
    """Whether keys after the query are masked with very large negative numbers."""
    return bool((bias[:, ~np.tri(bias.shape[1], dtype=bool)] <= MASKED).all())


def in_order_of_lags(profile: Floats, *, two_sided: bool) -> tuple[Floats, bool]:
    """Return biases by ascending lag, and whether lags end at 0; an odd count may cover both sides.

    If the smallest absolute value comes first, the profile is ordered by distance from 0.

    >>> in_order_of_lags(-np.arange(4.0)[None], two_sided=False)
    (array([[-3., -2., -1., -0.]]), True)
    """
    count, sizes = profile.shape[1], np.abs(profile)
    at_ends = (sizes == sizes.min(axis=1)[:, None]).all(axis=0)
    first, middle, last = (bool(at_ends[k]) for k in (0, count // 2, -1))
    if first != last:
        return (profile[:, ::-1] if first else profile), True
    return profile, not (count % 2 and (two_sided or middle))


def is_toeplitz(rows: Biases) -> bool:
    """Whether a square table is a bias: one number per lag, up to a constant per query.

    >>> lags = np.subtract.outer(np.arange(5), np.arange(5))[None]
    >>> is_toeplitz(Biases(np.arange(5), -(lags**2.0), 1e-9, causal=False))
    True
    >>> is_toeplitz(Biases(np.arange(5), np.eye(5)[None], 1e-9, causal=False))
    False
    """
    causal = replace(rows, causal=True)
    n, matrix = len(rows.queries), rows.numbers[0]
    if np.isinf(matrix).any():
        return n > 3 and bool((matrix[1:, 1:] == matrix[:-1, :-1]).all())
    relative = replace(causal, numbers=relative_to_query(causal))
    is_diagonal = np.array_equal(matrix, np.diag(matrix.diagonal()))
    return n > 3 and not is_diagonal and not np.isnan(relative.by_lag).all()


def compare_biases(first: Encoding, second: Encoding, given: float | None = None) -> Outcome | None:
    """Compare two biases head by head over their common positions; None if neither is one.

    A `given` tolerance replaces the differences that rounding explains.
    """
    bias_a, bias_b = read_bias(first), read_bias(second)
    if not bias_a and not bias_b:
        return None
    bias_a, bias_b = bias_a or read_bias(first, bias_b), bias_b or read_bias(second, bias_a)
    (heads_a, length_a), (heads_b, length_b) = (
        (len(rows.numbers), rows.numbers.shape[2]) if rows else (enc.dim, len(enc))
        for enc, rows in ((first, bias_a), (second, bias_b))
    )
    outcome = uncompared("heads", (length_a, length_b), (heads_a, heads_b))
    if not bias_a or not bias_b:
        return replace(outcome, unit=f"{'first' if bias_a else 'second'} is a bias")
    if outcome.differing:
        return replace(outcome, differing=outcome.counted)
    both = [first_keys(rows, outcome.length) for rows in (bias_a, bias_b)]
    for k, enc in enumerate((first, second)):
        if enc.domain.kind == "lag" and not enc.between and len(both[1 - k].queries) > 2:
            both[k] = both[k].at(both[1 - k].queries)
    return compare_heads(outcome, both[0], both[1], given)


def compare_heads(
    outcome: Outcome, first: Biases, second: Biases, given: float | None = None
) -> Outcome:
    """Compare two biases with equal numbers of heads and keys.

    Each number has its own tolerance: half a unit of each side's format, and the error of a
    computation in float32 at the largest bias of its head.
    """
    queries = np.intersect1d(first.queries, second.queries)
    sides = [with_hidden_keys(x, queries) for x in (first, second)]
    a, b = (side.numbers for side in sides)
    are_masks = all(np.isneginf(x).any() for x in (a, b))
    counted = np.ones(a.shape, bool)
    if (first.causal or second.causal) and not are_masks:
        counted &= sides[0].lags <= 0
    visible = counted & np.isfinite(a) & np.isfinite(b)
    one, two = (np.where(visible, x, 0.0) for x in (a, b))
    tops = np.maximum(np.abs(one), np.abs(two)).max(axis=(1, 2), keepdims=True)
    units = first.eps * np.abs(one) + second.eps * np.abs(two)
    units += half_of_least(first.eps) + half_of_least(second.eps)
    tolerance = units + 8 * FLOAT32_EPS * tops if given is None else np.array(given)
    agree = agree_with(counted, tolerance)
    explanation = explain(sides[0], sides[1], KINDS, agree, parts=parts_of)
    differs, place = ~agree(sides[0], sides[1]), explanation.first
    residual = np.abs(one - two)
    has_constants = bool((residual > tolerance).any())
    if has_constants:  # a constant per query, which the softmax removes
        one, two = (np.where(visible, relative_to_query(side), 0.0) for side in sides)
        residual = np.abs(one - two)
        has_constants = bool((residual <= 2 * tolerance).all())
    heads = differing_heads(sides, differs, residual)
    notes = [finding("constant-for-each-query")] if has_constants else []
    if first.causal != second.causal and not are_masks:
        notes.append(finding("keys-behind"))
    return replace(
        outcome,
        verdict="different" if heads else "the same",
        differing=len(heads),
        bitwise=np.array_equal(first.numbers, second.numbers),
        tolerance=float(tolerance.max()),
        max_difference=float(residual.max()),
        first_difference=nearest_difference(differs, queries),
        heads=heads,
        causes=explanation.causes,
        explained=explanation.share,
        first=Difference(place, float(a[place]), float(b[place])) if place else None,
        findings=tuple(notes),
    )


def with_hidden_keys(biases: Biases, queries: Places) -> Biases:
    """Return the biases of some queries, -inf where a mask hides a key."""
    numbers = biases.numbers[:, np.isin(biases.queries, queries)].astype(float)
    numbers[hidden_keys(numbers)] = -np.inf
    return replace(biases, queries=queries, numbers=numbers)


def differing_heads(
    sides: Sequence[Biases], differs: Bools, residual: Floats
) -> tuple[HeadDifference, ...]:
    """List the heads that differ, with both slopes if these differ."""
    heads, last = [], [relative_to_query(side)[:, -1] for side in sides]
    for i in np.flatnonzero(differs.any(axis=(1, 2))).tolist():
        first, second = (slope_of(rows[i]) for rows in last)
        ratio = second / first if first and second is not None else None
        if ratio is not None and abs(ratio - 1) <= STRAIGHT:  # other keys differ
            first = second = ratio = None
        heads.append(HeadDifference(i, first, second, ratio, float(residual[i].max())))
    return tuple(heads)


def hidden_keys(bias: Floats) -> Bools:
    """Whether a mask hides each key: -inf, or one of few numbers far below all others.

    >>> hidden_keys(np.array([-1e9, -3.0, 0.0])), hidden_keys(np.array([-1e9, 1e9]))
    (array([ True, False, False]), array([False, False]))
    """
    low = bias <= MASKED
    visible = np.abs(bias[~low])
    levels = np.unique(np.rint(bias[low] / MASKED))  # biases of steep slopes have many
    is_mask = visible.size and visible.max() <= -MASKED and len(levels) <= MASK_LEVELS
    return low if is_mask else np.isneginf(bias)


def nearest_difference(differs: Bools, queries: Places) -> tuple[int, int] | None:
    """Lag nearest to 0 at which biases (heads, queries, keys) differ, and a head, or None.

    >>> nearest_difference(np.array([[[False, False, True]]]), np.array([1]))
    (1, 0)
    """
    heads, rows, keys = np.nonzero(differs)
    lags = keys - queries[rows]
    k = np.abs(lags).argmin() if lags.size else None
    return None if k is None else (int(lags[k]), int(heads[k]))

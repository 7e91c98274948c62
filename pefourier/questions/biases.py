r"""Comparison of two attention biases, head by head: matrices, lags, slopes and buckets.

Conventions
-----------
A bias is an array (heads, n, n) with queries as rows and keys as columns, or one number for each
lag (key - query) and head. The softmax removes any constant from the row of a query, so a constant
for each query is not a difference; signs, scales and the order of heads are differences. For causal
biases, only keys up to the query are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.diagnosis.config_errors import Cause
from pefourier.diagnosis.pairs import Bools, Places
from pefourier.encodings.encoding import BiasEncoding, Encoding, Floats
from pefourier.encodings.families.relative import alibi_slopes, t5_buckets
from pefourier.encodings.findings import finding
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.questions.outcome import HeadDifference, Outcome, uncompared
from pefourier.questions.query_divisors import divisors_that_explain

STRAIGHT = 1e-5  # share of the largest bias within which the biases of a head are linear
SLOPE = 1e-5  # relative tolerance when slopes are matched to a rule
MASKED = -1e4  # biases below it hide a key
MASK_LEVELS = 3  # sums of two masks have three
BUCKETS = (32, 64, 16, 128, 8)
FARTHEST = (128, 64, 256, 512, 1024, 2048, 32, 100, 127, 20, 10_000)  # distances of T5's buckets


@dataclass(frozen=True, eq=False)
class BiasRows:
    """Biases (heads, queries, n) between some queries and n keys."""

    queries: Places  # positions (q,)
    numbers: Floats
    eps: float
    causal: bool = field(kw_only=True)
    rule: dict[str, Any] | None = None  # parameters of T5's buckets, if a formula declares them

    @property
    def profile(self) -> Floats:
        """Biases (heads, lags) of the last query, then of the first query to later keys."""
        last = self.numbers[:, -1]
        return last if self.causal else np.concatenate([last, self.numbers[:, 0, 1:]], axis=1)

    @property
    def has_lags(self) -> bool:
        """Whether biases depend only on the lag, judged by two adjacent queries."""
        k = len(self.queries) // 2
        q, x = int(self.queries[k]), self.numbers
        return len(self.queries) < 4 or np.allclose(x[:, k, 1 : q + 1], x[:, k - 1, :q], atol=1e-5)

    def first_keys(self, n: int) -> BiasRows:
        """Restrict the biases to the first n positions."""
        if n == self.numbers.shape[2]:
            return self
        if len(self.queries) > 2 or self.numbers.shape[2] == len(self.queries):
            return replace(self, queries=self.queries[:n], numbers=self.numbers[:, :n, :n])
        middle = self.numbers.shape[2] - 1
        profile = self.profile[:, middle - n + 1 : middle + n]
        return replace(rows_of_lags(profile, self.eps, causal=self.causal), rule=self.rule)


def rows_of_lags(profile: Floats, eps: float, *, causal: bool) -> BiasRows:
    """Build biases from a profile of lags 1 - n … n - 1 (heads, 2n - 1), or up to 0 (heads, n)."""
    n = profile.shape[1] if profile.shape[1] % 2 == 0 or causal else (profile.shape[1] + 1) // 2
    last, first = profile[:, :n], profile[:, n - 1 :]
    if first.shape[1] < n:
        return BiasRows(np.array([n - 1]), last[:, None], eps, causal=True)
    rows = np.stack([first[:, :n], last], axis=1)
    return BiasRows(np.array([0, n - 1]), rows, eps, causal=causal)


def read_bias(enc: Encoding, counterpart: BiasRows | None = None) -> BiasRows | None:
    """Read the biases of an encoding, or of a table shaped like its counterpart; None if none."""
    if isinstance(enc, BiasEncoding):
        queries = np.arange(enc.positions)
        return BiasRows(queries, enc.bias, enc.eps, causal=is_hidden(enc.bias))
    if enc.domain.grid or len(enc.domain.sides) > 1:
        return None
    if enc.injection == "bias" and enc.domain.kind == "lag":
        table = np.asarray(enc.table(), dtype=float)
        rule = None
        if enc.name == "t5":
            rule = {key: enc.params[key] for key in ("buckets", "max_distance")}
            rule["sides"] = "causal" if enc.params["causal"] else "both sides"
        rows = rows_of_lags(table.T, enc.eps, causal=bool(enc.domain.x[-1] <= 0))
        return replace(rows, rule=rule)
    if enc.origin == "formula" or enc.domain.kind != "position":
        return None
    if len(enc) == enc.dim:
        table = mask_as_bias(np.asarray(enc.table(), dtype=float))
        is_bias = is_toeplitz(table) or (counterpart and len(counterpart.numbers) == 1)
        hidden = is_hidden(table[None])
        rows = BiasRows(np.arange(len(table)), table[None], enc.eps, causal=hidden)
        return rows if is_bias else None
    if counterpart is None or len(counterpart.numbers) not in (len(enc), enc.dim):
        return None
    table = np.asarray(enc.table(), dtype=float)  # columns or rows are lags
    profile = table.T if enc.dim == len(counterpart.numbers) else table
    profile, causal = in_order_of_lags(profile, two_sided=not counterpart.causal)
    return rows_of_lags(profile, enc.eps, causal=causal)


def mask_as_bias(table: NDArray[Any]) -> Floats:
    """Convert a mask of zeros and ones to a bias: the value on the diagonal means visible.

    >>> mask_as_bias(np.tri(4))[0]
    array([  0., -inf, -inf, -inf])
    """
    diagonal, is_mask = table.diagonal(), ((table == 0) | (table == 1)).all()
    if (
        not is_mask
        or np.ptp(diagonal)
        or np.count_nonzero(table == diagonal[0]) in (len(table), table.size)
    ):
        return table
    return np.where(table == diagonal[0], 0.0, -np.inf)


def is_hidden(bias: Floats) -> bool:
    """Whether keys after the query are masked with very large negative numbers."""
    n = bias.shape[1]
    above = bias[:, ~np.tri(n, dtype=bool)]
    return bool(above.size) and bool((above <= MASKED).all())


def in_order_of_lags(profile: Floats, *, two_sided: bool) -> tuple[Floats, bool]:
    """Return biases by ascending lag, and whether lags end at 0; an odd count may cover both sides.

    If the smallest absolute value comes first, the profile is ordered by distance from 0.

    >>> in_order_of_lags(-np.arange(4.0)[None], two_sided=False)
    (array([[-3., -2., -1., -0.]]), True)
    """
    count, sizes = profile.shape[1], np.abs(profile)
    low = sizes.min(axis=1)
    first, middle, last = (bool((sizes[:, k] == low).all()) for k in (0, count // 2, count - 1))
    if first != last:
        return (profile[:, ::-1] if first else profile), True
    return profile, not (count % 2 and (two_sided or middle))


def is_toeplitz(matrix: Floats) -> bool:
    """Whether a square table is a bias: one number per lag, up to a constant per query.

    >>> is_toeplitz(np.subtract.outer(np.arange(5), np.arange(5)) ** 2), is_toeplitz(np.eye(5))
    (True, False)
    """
    n = len(matrix)
    if np.isinf(matrix).any():
        return n > 3 and bool((matrix[1:, 1:] == matrix[:-1, :-1]).all())
    lower = np.tri(n - 1, dtype=bool)
    bare = matrix - matrix.diagonal()[:, None]
    slack = 16 * FLOAT32_EPS * np.abs(matrix[np.tri(n, dtype=bool)]).max()
    residual = np.abs(bare[1:, 1:] - bare[:-1, :-1])[lower]
    diagonal = np.array_equal(matrix, np.diag(matrix.diagonal()))
    return n > 3 and not diagonal and bool((residual <= slack).all())


def compare_biases(first: Encoding, second: Encoding) -> Outcome | None:
    """Compare two biases head by head over their common positions; None if neither is one."""
    bias_a, bias_b = read_bias(first), read_bias(second)
    if bias_a is None and bias_b is None:
        return None
    bias_a, bias_b = bias_a or read_bias(first, bias_b), bias_b or read_bias(second, bias_a)
    (heads_a, length_a), (heads_b, length_b) = (
        (len(rows.numbers), rows.numbers.shape[2]) if rows else (enc.dim, len(enc))
        for enc, rows in ((first, bias_a), (second, bias_b))
    )
    outcome = uncompared("heads", (length_a, length_b), (heads_a, heads_b))
    if bias_a is None or bias_b is None or heads_a != heads_b:
        return replace(outcome, differing=outcome.counted)
    return compare_heads(outcome, *(rows.first_keys(outcome.length) for rows in (bias_a, bias_b)))


def compare_heads(outcome: Outcome, first: BiasRows, second: BiasRows) -> Outcome:
    """Compare two biases with equal numbers of heads and keys."""
    queries = np.intersect1d(first.queries, second.queries)
    a, b = (
        rows.numbers[:, np.isin(rows.queries, queries)].astype(float) for rows in (first, second)
    )
    hidden = hidden_keys(a), hidden_keys(b)
    are_masks = all(mask.any() for mask in hidden)
    visible, behind = ~(hidden[0] | hidden[1]), np.arange(a.shape[2]) <= queries[:, None]
    if (first.causal or second.causal) and not are_masks:
        visible &= behind
    a, b = np.where(visible, a, 0.0), np.where(visible, b, 0.0)
    largest = max(np.abs(a).max(), np.abs(b).max())
    tolerance = 8 * max(first.eps, second.eps, FLOAT32_EPS) * largest
    has_constants = bool((np.abs(a - b) > tolerance).any())
    if has_constants:  # a constant per query, which the softmax removes
        a, b = (np.where(visible, without_constants(x, queries), 0.0) for x in (a, b))
        has_constants = bool((np.abs(a - b) <= 2 * tolerance).all())
    residual = np.abs(a - b)
    masks_differ = (hidden[0] != hidden[1]) & (are_masks | behind)
    differs = (residual > 2 * tolerance) | masks_differ
    rows = [BiasRows(queries, x, 0.0, causal=not visible.all()) for x in (a, b)]
    heads = differing_heads(rows, differs, residual)
    notes = (finding("constant-for-each-query"),) * has_constants
    notes += (finding("keys-behind"),) * (first.causal != second.causal and not are_masks)
    cause = cause_of_biases(rows, [first, second]) if heads else None
    return replace(
        outcome,
        verdict="different" if heads else "the same",
        differing=len(heads),
        bitwise=not residual.any() and not has_constants,
        tolerance=tolerance,
        max_difference=float(residual.max()),
        first_difference=nearest_difference(differs, queries),
        heads=heads,
        cause=cause_of_masks(hidden, masks_differ) or cause,
        findings=notes,
    )


def without_constants(bias: Floats, queries: Places) -> Floats:
    """Biases (heads, queries, n) minus the bias of each query to itself.

    >>> without_constants(np.array([[[1.0, 2.0], [5.0, 7.0]]]), np.arange(2))
    array([[[ 0.,  1.], [-2.,  0.]]])
    """
    return bias - bias[:, np.arange(len(queries)), queries][..., None]


def differing_heads(
    rows: Sequence[BiasRows], differs: Bools, residual: Floats
) -> tuple[HeadDifference, ...]:
    """List the heads that differ, with both slopes if their biases are linear."""
    heads, n = [], residual.shape[2]
    for i in np.flatnonzero(differs.any(axis=(1, 2))).tolist():
        first, second = (slope_of(x.profile[i, :n]) for x in rows)
        ratio = second / first if first and second is not None else None
        heads.append(HeadDifference(i, first, second, ratio, float(residual[i].max())))
    return tuple(heads)


def cause_of_masks(hidden: Sequence[Bools], differs: Bools) -> Cause | None:
    """Windows of two masks (heads, queries, n) that differ; None if none differ."""
    if not differs.any():
        return None
    index = int(differs.any(axis=(1, 2)).argmax())
    first, second = (window_in_words(~mask[index]) for mask in hidden)
    changes = {"window": (first, second)} if first and second else {}
    return Cause("both", ("masks",), changes, {})


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


def mask_window(visible: Bools) -> tuple[int, int] | None:
    """Number of keys that a query sees before and after itself; None if there is no window.

    >>> mask_window(np.tri(5, k=1, dtype=bool)), mask_window(np.eye(3) < 1)
    ((4, 1), None)
    """
    n = len(visible)
    lag = np.arange(n) - np.arange(n)[:, None]
    if visible.shape != lag.shape or not visible.any():
        return None
    first, last = int(lag[visible].min()), int(lag[visible].max())
    is_band = np.array_equal(visible, (lag >= first) & (lag <= last)) and first <= 0 <= last
    return (-first, last) if is_band else None


def window_in_words(visible: Bools) -> str | None:
    """Describe the window of keys that a query sees; None if there is no window."""
    window = mask_window(visible)
    if window is None:
        return None
    before, after = ("all" if count == len(visible) - 1 else count for count in window)
    return f"{before} before and {after} after the query"


def nearest_difference(differs: Bools, queries: Places) -> tuple[int, int] | None:
    """Lag nearest to 0 at which biases (heads, queries, keys) differ, and a head, or None.

    >>> nearest_difference(np.array([[[False, False, True]]]), np.array([1]))
    (1, 0)
    """
    place = np.argwhere(differs)
    if not len(place):
        return None
    lags = place[:, 2] - queries[place[:, 1]]
    nearest = int(np.abs(lags).argmin())
    return int(lags[nearest]), int(place[nearest, 0])


def slope_of(profile: Floats) -> float | None:
    """Slope of linear biases over lags 1 - n … 0; None if they are not linear.

    >>> slope_of(np.array([-1.0, -0.5, 0.0])), slope_of(np.array([-4.0, -1.0, 0.0]))
    (0.5, None)
    """
    n = len(profile)
    if n < 2:
        return None
    slope = float((profile[-1] - profile[0]) / (n - 1))
    line = profile[-1] + slope * np.arange(1 - n, 1)
    top = np.abs(profile).max()
    return slope if np.abs(profile - line).max() <= STRAIGHT * max(top, 1e-300) else None


def cause_of_biases(bare: list[BiasRows], full: list[BiasRows]) -> Cause | None:
    """Rules that made the divisors, slopes or buckets of two biases, if both follow a rule.

    `bare` biases have no constants. Buckets are read from `full` biases, including later keys.
    """
    n = bare[0].numbers.shape[2]
    if len(bare[0].queries) == n > 3:
        divisors = divisors_that_explain(*(rows.numbers for rows in bare))
        if divisors is not None:
            return Cause("both", ("divisor",), {"query_divisor": divisors}, {})
    slopes = [[slope_of(head[:n]) for head in rows.profile] for rows in bare]
    changes: dict[str, tuple[Any, Any]] = {}
    if not any(None in by_head for by_head in slopes):
        rules = [slope_rule(np.array(by_head)) for by_head in slopes]
        if all(rules) and rules[0] != rules[1]:
            changes = {"rule": (rules[0], rules[1])}
        return Cause("both", ("slopes",), changes, {}) if changes else None
    buckets = [rows.rule or bucket_rule(rows.profile[0], n) for rows in full if rows.has_lags]
    if len(buckets) == 2 and buckets[0] and buckets[1]:
        rule_b = buckets[1]
        pairs = {key: (value, rule_b.get(key)) for key, value in buckets[0].items()}
        changes = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    return Cause("both", ("buckets",), changes, {}) if changes else None


def slope_rule(slopes: Floats) -> str | None:
    """Rule of the slopes of heads, ALiBi's or a variant; None if no known rule fits.

    >>> slope_rule(alibi_slopes(6)), slope_rule(2.0 ** (-8 * np.arange(1, 7) / 6))
    ('alibi', '2^(-8 (h + 1) / 6), as of a power of 2')
    """
    h = len(slopes)
    index, right = np.arange(h), alibi_slopes(h)
    larger = 2 ** (h - 1).bit_length()
    larger *= 1 + (larger == h)
    rules = {"alibi": right}
    for largest in (8, 16, 4, 2, 1):
        words = "as of a power of 2" if largest == 8 else f"bias_max {largest}"
        rules |= {
            f"2^(-{largest} (h + 1) / {h}), {words}": 2.0 ** (-largest * (index + 1) / h),
            f"2^(-{largest} h / {h}), from h = 0": 2.0 ** (-largest * index / h),
            f"alibi with bias_max {largest}": right ** (largest / 8),
        }
    rules[f"alibi's of {larger} heads, the first {h}"] = alibi_slopes(larger)[:h]
    rules |= {
        f"alibi's of {k} heads, repeated {h // k} times": np.tile(alibi_slopes(k), h // k)
        for k in range(2, h)
        if h % k == 0
    }
    rules["one slope for all heads"] = np.full(h, slopes[0])
    for name, by_rule in rules.items():
        for sign, words in ((1, ""), (-1, ", with the other sign")):
            if np.allclose(sign * slopes, by_rule, rtol=SLOPE, atol=0):
                return name + words
    if np.allclose(np.sort(slopes), np.sort(right), rtol=SLOPE, atol=0):
        return "alibi in another order of heads"
    ratio = slopes / right
    is_scaled = np.allclose(ratio, ratio[0], rtol=SLOPE, atol=0)
    return f"alibi times {ratio[0]:.6g}" if is_scaled else None


def bucket_rule(profile: Floats, n: int) -> dict[str, Any] | None:
    """T5's buckets, or Shaw's clipping, that explain which lags from 1 - n on share a bias."""
    lags = np.arange(len(profile)) - (n - 1)
    groups = np.unique(profile, return_inverse=True)[1]
    if len(np.unique(groups)) == len(profile):
        return None  # no two distances share a bias
    changes = np.flatnonzero(np.diff(groups))  # biases are constant beyond the last change
    clip = int(np.abs(lags[changes + (lags[changes] >= 0)]).max(initial=0))
    if 0 < clip < n - 1 and same_groups(np.clip(lags, -clip, clip), groups):
        return {"clip": clip}
    one_sided = len(profile) == n
    for causal, buckets, farthest in product((one_sided, not one_sided), BUCKETS, FARTHEST):
        visible = lags <= (0 if causal else n)
        if farthest > buckets // (2 if causal else 4):
            by_rule = t5_buckets(lags, buckets, farthest, causal=causal)
            if same_groups(by_rule[visible], groups[visible]):
                sides = "causal" if causal else "both sides"
                return {"buckets": buckets, "max_distance": farthest, "sides": sides}
    return None


def same_groups(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether two labellings induce the same partition.

    >>> same_groups(np.array([0, 0, 1]), np.array([5, 5, 2]))
    True
    """
    pairs = int(np.unique(np.stack([first, second]), axis=1).shape[1])
    return len(np.unique(first)) == len(np.unique(second)) == pairs

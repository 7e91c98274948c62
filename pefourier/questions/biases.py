r"""Do two attention biases agree, head by head? Matrices, lags, slopes and buckets.

Conventions
-----------
A bias is an array (heads, n, n), queries down, keys across, or one number a lag, key - query, and
head. The softmax of a query removes any constant from its row, so that a constant for each query is
no difference; signs, scales and another order of heads are. Of causal biases only keys up to the
query are compared.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from pefourier.diagnosis.config_errors import Cause
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.relative import alibi_slopes, t5_buckets
from pefourier.encodings.findings import finding
from pefourier.geometry.precision import FLOAT32_EPS

STRAIGHT = 1e-5  # of the largest bias, to which biases of a head are one line
SLOPE = 1e-5  # relative, to which slopes are those of a rule
MASKED = -1e4  # biases below it hide a key
BUCKETS = (32, 64, 16, 128, 8)
FARTHEST = (128, 64, 256, 512, 1024, 2048, 32, 100, 127, 20, 10_000)  # distances of T5's buckets


@dataclass(frozen=True)
class HeadDifference:
    """A head whose biases differ."""

    index: int
    first: float | None  # slope for each step of distance, where the biases are a line
    second: float | None
    ratio: float | None
    max_difference: float


@dataclass(frozen=True, eq=False)
class BiasRows:
    """Biases (heads, queries, n) of some queries to n keys."""

    queries: np.ndarray  # positions (q,)
    numbers: np.ndarray
    causal: bool
    eps: float
    rule: dict[str, Any] | None = None  # of T5's buckets, where a formula has them

    @property
    def profile(self) -> np.ndarray:
        """Biases (heads, lags) of the last query, and behind them of the first but for its own."""
        last = self.numbers[:, -1]
        return last if self.causal else np.concatenate([last, self.numbers[:, 0, 1:]], axis=1)

    @property
    def has_lags(self) -> bool:
        """Whether each bias depends on the lag, as far as two queries in a row tell."""
        k = len(self.queries) // 2
        q, x = int(self.queries[k]), self.numbers
        return len(self.queries) < 4 or np.allclose(x[:, k, 1 : q + 1], x[:, k - 1, :q], atol=1e-5)

    def first_keys(self, n: int) -> "BiasRows":
        """The same of the first n positions alone, whose queries are the first and the last."""
        if n == self.numbers.shape[2]:
            return self
        if len(self.queries) > 2 or self.numbers.shape[2] == len(self.queries):
            return replace(self, queries=self.queries[:n], numbers=self.numbers[:, :n, :n])
        middle = self.numbers.shape[2] - 1
        profile = self.profile[:, middle - n + 1 : middle + n]
        return replace(rows_of_lags(profile, self.causal, self.eps), rule=self.rule)


def rows_of_lags(profile: np.ndarray, causal: bool, eps: float) -> BiasRows:
    """Biases of lags 1 - n … n - 1 (heads, 2n - 1), or up to 0, by the first and last query."""
    n = profile.shape[1] if profile.shape[1] % 2 == 0 or causal else (profile.shape[1] + 1) // 2
    last, first = profile[:, :n], profile[:, n - 1 :]
    if first.shape[1] < n:
        return BiasRows(np.array([n - 1]), last[:, None], True, eps)
    return BiasRows(np.array([0, n - 1]), np.stack([first[:, :n], last], axis=1), causal, eps)


def read_bias(enc: Encoding, counterpart: BiasRows | None = None) -> BiasRows | None:
    """The biases of an encoding, or of a table that may hold such as another has; None: none."""
    if enc.bias is not None:
        n = enc.bias.shape[1]
        return BiasRows(np.arange(n), enc.bias, is_hidden(enc.bias), enc.eps)
    if enc.domain.grid or len(enc.domain.sides) > 1:
        return None
    if enc.injection == "bias" and enc.domain.kind == "lag":
        table = np.asarray(enc.table(), dtype=float)
        rule = None
        if enc.name == "t5":
            rule = {key: enc.params[key] for key in ("buckets", "max_distance")}
            rule["sides"] = "causal" if enc.params["causal"] else "both sides"
        return replace(rows_of_lags(table.T, bool(enc.domain.x[-1] <= 0), enc.eps), rule=rule)
    if enc.origin == "formula" or enc.domain.kind != "position":
        return None
    if len(enc) == enc.dim:
        table = mask_as_bias(np.asarray(enc.table(), dtype=float))
        is_bias = is_toeplitz(table) or (counterpart and len(counterpart.numbers) == 1)
        rows = BiasRows(np.arange(len(table)), table[None], is_hidden(table[None]), enc.eps)
        return rows if is_bias else None
    if counterpart is None or len(counterpart.numbers) not in (len(enc), enc.dim):
        return None
    table = np.asarray(enc.table(), dtype=float)  # as it stands, or with a row for each lag
    profile = table.T if enc.dim == len(counterpart.numbers) else table
    return rows_of_lags(*in_order_of_lags(profile, not counterpart.causal), enc.eps)


def mask_as_bias(table: np.ndarray) -> np.ndarray:
    """A mask of two numbers, 0 and 1, as a bias: what a query has for itself is seen.

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


def is_hidden(bias: np.ndarray) -> bool:
    """Whether keys behind the query are masked with very large negative numbers."""
    n = bias.shape[1]
    above = bias[:, ~np.tri(n, dtype=bool)]
    return bool(above.size) and bool((above <= MASKED).all())


def in_order_of_lags(profile: np.ndarray, two_sided: bool) -> tuple[np.ndarray, bool]:
    """Biases by rising lag, and whether lags end at 0: an odd number may run to both sides.

    Those whose low number is the first are by distance, 0 first.

    >>> in_order_of_lags(-np.arange(4.0)[None], False)
    (array([[-3., -2., -1., -0.]]), True)
    """
    count, sizes = profile.shape[1], np.abs(profile)
    low = sizes.min(axis=1)
    first, middle, last = (bool((sizes[:, k] == low).all()) for k in (0, count // 2, count - 1))
    if first != last:
        return (profile[:, ::-1] if first else profile), True
    return profile, not (count % 2 and (two_sided or middle))


def is_toeplitz(matrix: np.ndarray) -> bool:
    """Whether a square table is a bias: a number a lag, but for a constant for each query.

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


def compare_as_biases(result: Any) -> Any | None:
    """Two biases, head by head, over the positions that both have; None where neither is one.

    `result` is a comparison of which only sizes are known; it comes back with what is found.
    """
    first, second = result.encodings
    bias_a, bias_b = read_bias(first), read_bias(second)
    if bias_a is None and bias_b is None:
        return None
    biases = bias_a or read_bias(first, bias_b), bias_b or read_bias(second, bias_a)
    pair = list(zip(result.encodings, biases, strict=True))
    sizes = tuple(len(rows.numbers) if rows else enc.dim for enc, rows in pair)
    lengths = tuple(rows.numbers.shape[2] if rows else len(enc) for enc, rows in pair)
    facts = {"lengths": lengths, "length": min(lengths), "dimensions": sizes}
    result = result.with_differences("heads", max(sizes), max(sizes), **facts)
    if None in biases or sizes[0] != sizes[1]:
        return result
    return replace(result, **compare_heads(*(rows.first_keys(min(lengths)) for rows in biases)))


def compare_heads(first: BiasRows, second: BiasRows) -> dict[str, Any]:
    """Facts of a comparison of two biases of as many heads and keys.

    >>> lag = np.arange(5) - np.arange(5)[:, None]
    >>> a = -0.5 * np.abs(lag)[None]
    >>> b = a + np.arange(5)[:, None]
    >>> facts = compare_heads(*(BiasRows(np.arange(5), x, False, 1e-16) for x in (a, b)))
    >>> facts["heads"], [f.code for f in facts["findings"]]
    ((), ['constant-for-each-query'])
    """
    queries, n = np.intersect1d(first.queries, second.queries), first.numbers.shape[2]
    a, b = (
        rows.numbers[:, np.isin(rows.queries, queries)].astype(float) for rows in (first, second)
    )
    hidden, visible = (hidden_keys(a), hidden_keys(b)), np.ones((len(queries), n), bool)
    are_masks = all(mask.any() for mask in hidden)
    if (first.causal or second.causal) and not are_masks:
        visible = np.arange(n) <= queries[:, None]
    visible = visible & ~(hidden[0] | hidden[1])
    a, b = (np.where(visible, x, 0.0) for x in (a, b))
    largest = max(np.abs(a).max(), np.abs(b).max())
    tolerance = 8 * max(first.eps, second.eps, FLOAT32_EPS) * largest
    has_constants = bool((np.abs(a - b) > tolerance).any())
    if has_constants:  # of each query, which the softmax removes
        index = np.arange(len(queries))
        a, b = (np.where(visible, x - x[:, index, queries][..., None], 0.0) for x in (a, b))
        has_constants = bool((np.abs(a - b) <= 2 * tolerance).all())
    residual = np.abs(a - b)
    masks_differ = (hidden[0] != hidden[1]) & are_masks
    differs = (residual > 2 * tolerance) | masks_differ
    rows = [BiasRows(queries, x, not visible.all(), 0.0) for x in (a, b)]
    heads = tuple(
        head_difference(i, *(x.profile[i, :n] for x in rows), float(residual[i].max()))
        for i in np.flatnonzero(differs.any(axis=(1, 2))).tolist()
    )
    notes = (finding("constant-for-each-query"),) * has_constants
    notes += (finding("keys-behind"),) * (first.causal != second.causal and not are_masks)
    cause = cause_of_biases(rows, [first, second]) if heads else None
    if masks_differ.any():
        index = int(masks_differ.any(axis=(1, 2)).argmax())
        windows = tuple(window_in_words(~mask[index]) for mask in hidden)
        changes = {"window": windows} if None not in windows else {}
        cause = Cause("both", ("masks",), changes, {})
    return {
        "verdict": "different" if heads else "the same",
        "differing": len(heads),
        "bitwise": not residual.any() and not has_constants,
        "tolerance": tolerance,
        "max_difference": float(residual.max()),
        "first_difference": nearest_difference(differs, queries),
        "heads": heads,
        "cause": cause,
        "findings": notes,
    }


def hidden_keys(bias: np.ndarray) -> np.ndarray:
    """Where a mask hides keys: -inf, or numbers far below all others.

    >>> hidden_keys(np.array([-1e9, -3.0, 0.0])), hidden_keys(np.array([-1e9, 1e9]))
    (array([ True, False, False]), array([False, False]))
    """
    low = bias <= MASKED
    visible = np.abs(bias[~low])
    is_mask = visible.size and visible.max() <= -MASKED
    return low if is_mask else np.isneginf(bias)


def mask_window(visible: np.ndarray) -> tuple[int, int] | None:
    """How many keys before and after itself a query sees, of a mask (n, n); None: no window.

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


def window_in_words(visible: np.ndarray) -> str | None:
    """Which keys a query sees, where that is a window."""
    window = mask_window(visible)
    if window is None:
        return None
    before, after = ("all" if count == len(visible) - 1 else count for count in window)
    return f"{before} before and {after} after the query"


def nearest_difference(differs: np.ndarray, queries: np.ndarray) -> tuple[int, int] | None:
    """The lag nearest to 0 at which biases (heads, queries, keys) differ, and a head; None: none.

    >>> nearest_difference(np.array([[[False, False, True]]]), np.array([1]))
    (1, 0)
    """
    place = np.argwhere(differs)
    if not len(place):
        return None
    lags = place[:, 2] - queries[place[:, 1]]
    nearest = int(np.abs(lags).argmin())
    return int(lags[nearest]), int(place[nearest, 0])


def head_difference(
    index: int, first: np.ndarray, second: np.ndarray, largest: float
) -> HeadDifference:
    """What differs in one head, with the slopes of both where they are lines."""
    slopes = slope_of(first), slope_of(second)
    ratio = slopes[1] / slopes[0] if slopes[0] and slopes[1] is not None else None
    return HeadDifference(index, *slopes, ratio, largest)


def slope_of(profile: np.ndarray) -> float | None:
    """The slope of biases of lags 1 - n … 0 that rise by it with each lag; None: no line.

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
    """By which rules slopes or buckets of two biases of lags were made, where they follow one.

    `bare` biases have no constants; buckets are read from `full` ones, keys behind the query too.
    """
    n = bare[0].numbers.shape[2]
    slopes = [[slope_of(head[:n]) for head in rows.profile] for rows in bare]
    changes: dict[str, tuple[Any, Any]] = {}
    if not any(None in by_head for by_head in slopes):
        rules = [slope_rule(np.array(by_head)) for by_head in slopes]
        if all(rules) and rules[0] != rules[1]:
            changes = {"rule": (rules[0], rules[1])}
        return Cause("both", ("slopes",), changes, {}) if changes else None
    buckets = [rows.rule or bucket_rule(rows.profile[0], n) for rows in full if rows.has_lags]
    if len(buckets) == 2 and all(buckets):
        pairs = {key: (value, buckets[1].get(key)) for key, value in buckets[0].items()}
        changes = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    return Cause("both", ("buckets",), changes, {}) if changes else None


def slope_rule(slopes: np.ndarray) -> str | None:
    """The rule that the slopes of heads follow, ALiBi's or near it; None: none that is known.

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


def bucket_rule(profile: np.ndarray, n: int) -> dict[str, Any] | None:
    """T5's buckets, or the clip of Shaw, by which lags from 1 - n on share a number."""
    lags = np.arange(len(profile)) - (n - 1)
    groups = np.unique(profile, return_inverse=True)[1]
    if len(np.unique(groups)) == len(profile):
        return None  # no two distances share a number
    changes = np.flatnonzero(np.diff(groups))  # beyond the farthest no number changes
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


def same_groups(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two labellings tell the same members apart.

    >>> same_groups(np.array([0, 0, 1]), np.array([5, 5, 2]))
    True
    """
    pairs = np.unique(np.stack([first, second]), axis=1).shape[1]
    return pairs == len(np.unique(first)) == len(np.unique(second))

r"""Do two attention biases agree, head by head? Matrices, lags, slopes and buckets.

Conventions
-----------
A bias is an array (heads, n, n), queries down, keys across, or one number a lag, key - query, and
head. The softmax of a query removes any constant from its row, so that a constant for each query is
no difference; signs, scales and another order of heads are. Of causal biases only keys up to the
query are compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.families.relative import alibi_slopes, t5_buckets
from pefourier.geometry.precision import FLOAT32_EPS

STRAIGHT = 1e-5  # of the largest bias, to which biases of a head are one line
SLOPE = 1e-5  # relative, to which slopes are those of a rule
MASKED = -1e4  # biases below it hide a key


@dataclass(frozen=True)
class HeadDifference:
    """A head whose biases differ."""

    index: int
    first: float | None  # slope for each step of distance, where the biases are a line
    second: float | None
    ratio: float | None
    max_difference: float


@dataclass(frozen=True)
class BiasComparison:
    """Two biases, head by head."""

    heads: tuple[HeadDifference, ...]  # that differ
    max_difference: float
    tolerance: float
    first_difference: tuple[int, int] | None  # lag or key, and head
    constant: bool  # whether a constant for each query was taken away
    one_sided: bool  # whether one alone has biases of keys behind the query
    causes: tuple[tuple[str, Mapping[str, tuple[Any, Any]]], ...]  # codes and values


@dataclass(frozen=True, eq=False)
class BiasRows:
    """Biases (heads, queries, n) of some queries to n keys."""

    queries: np.ndarray  # positions (q,)
    numbers: np.ndarray
    causal: bool
    eps: float

    def first_keys(self, n: int) -> "BiasRows":
        """The same of the first n positions alone, whose queries are the first and the last."""
        if n == self.numbers.shape[2]:
            return self
        if len(self.queries) > 2 or self.numbers.shape[2] == len(self.queries):
            return BiasRows(self.queries[:n], self.numbers[:, :n, :n], self.causal, self.eps)
        lags = profile_of(self)
        middle = self.numbers.shape[2] - 1
        return rows_of_lags(lags[:, middle - n + 1 : middle + n], self.causal, self.eps)


def rows_of_lags(profile: np.ndarray, causal: bool, eps: float) -> BiasRows:
    """Biases of lags 1 - n … n - 1 (heads, 2n - 1), or up to 0, by the first and last query."""
    n = profile.shape[1] if profile.shape[1] % 2 == 0 or causal else (profile.shape[1] + 1) // 2
    last, first = profile[:, :n], profile[:, n - 1 :]
    if first.shape[1] < n:
        return BiasRows(np.array([n - 1]), last[:, None], True, eps)
    return BiasRows(np.array([0, n - 1]), np.stack([first[:, :n], last], axis=1), causal, eps)


def read_bias(enc: Encoding, other: BiasRows | None = None) -> BiasRows | None:
    """The biases of an encoding, or of a table that may hold such as another has; None: none."""
    if enc.bias is not None:
        n = enc.bias.shape[1]
        return BiasRows(np.arange(n), enc.bias, is_hidden(enc.bias), enc.eps)
    if enc.domain.grid or len(enc.domain.sides) > 1:
        return None
    if enc.act == "bias" and enc.domain.kind == "lag":
        table = np.asarray(enc.table(), dtype=float)
        return rows_of_lags(table.T, bool(enc.domain.x[-1] <= 0), enc.eps)
    if enc.origin == "formula" or enc.domain.kind != "position":
        return None
    if len(enc) == enc.dim:
        table = np.asarray(enc.table(), dtype=float)
        found = is_toeplitz(table) or (other is not None and len(other.numbers) == 1)
        rows = BiasRows(np.arange(len(table)), table[None], is_hidden(table[None]), enc.eps)
        return rows if found else None
    profile = other and line_of_lags(np.asarray(enc.table(), dtype=float), len(other.numbers))
    if profile is None:
        return None
    return rows_of_lags(*in_order_of_lags(profile, not other.causal), enc.eps)


def is_hidden(bias: np.ndarray) -> bool:
    """Whether keys behind the query are masked with very large negative numbers."""
    n = bias.shape[1]
    above = bias[:, ~np.tri(n, dtype=bool)]
    return bool(above.size) and bool((above <= MASKED).all())


def line_of_lags(array: np.ndarray, heads: int) -> np.ndarray | None:
    """A table as biases (heads, lags): as it stands, or with a row for each lag; None: neither.

    >>> line_of_lags(np.ones((64, 6)), 6).shape, line_of_lags(np.ones((6, 64)), 6).shape
    ((6, 64), (6, 64))
    """
    if array.shape[1] == heads:
        return array.T
    return array if array.shape[0] == heads else None


def in_order_of_lags(profile: np.ndarray, two_sided: bool) -> tuple[np.ndarray, bool]:
    """Biases by rising lag, and whether lags end at 0: an odd number may run to both sides.

    Those whose smallest number is the first are by distance, 0 first.

    >>> in_order_of_lags(-np.arange(4.0)[None], False)
    (array([[-3., -2., -1., -0.]]), True)
    """
    count, sizes = profile.shape[1], np.abs(profile)
    least = sizes.min(axis=1)
    first, middle, last = (bool((sizes[:, k] == least).all()) for k in (0, count // 2, count - 1))
    if first != last:
        return (profile[:, ::-1] if first else profile), True
    return profile, not (count % 2 and (two_sided or middle))


def is_toeplitz(matrix: np.ndarray) -> bool:
    """Whether a square table is a bias: a number a lag, but for a constant for each query.

    >>> is_toeplitz(np.subtract.outer(np.arange(5), np.arange(5)) ** 2), is_toeplitz(np.eye(5))
    (True, False)
    """
    n = len(matrix)
    lower = np.tri(n - 1, dtype=bool)
    bare = matrix - matrix.diagonal()[:, None]
    slack = 16 * FLOAT32_EPS * np.abs(matrix[np.tri(n, dtype=bool)]).max()
    residual = np.abs(bare[1:, 1:] - bare[:-1, :-1])[lower]
    diagonal = np.array_equal(matrix, np.diag(matrix.diagonal()))
    return n > 3 and not diagonal and bool((residual <= slack).all())


def compare_biases(first: BiasRows, second: BiasRows) -> BiasComparison:
    """Two biases of as many heads, over the positions that both have.

    >>> lag = np.arange(5) - np.arange(5)[:, None]
    >>> one = -0.5 * np.abs(lag)[None]
    >>> two = one + np.arange(5)[:, None]
    >>> found = compare_biases(*(BiasRows(np.arange(5), x, False, 1e-16) for x in (one, two)))
    >>> len(found.heads), found.constant
    (0, True)
    """
    n = min(rows.numbers.shape[2] for rows in (first, second))
    first, second = first.first_keys(n), second.first_keys(n)
    queries = np.intersect1d(first.queries, second.queries)
    a, b = (
        rows.numbers[:, np.isin(rows.queries, queries)].astype(float) for rows in (first, second)
    )
    visible = np.ones((len(queries), n), bool)
    if first.causal or second.causal:
        visible = np.arange(n) <= queries[:, None]
    a, b = (np.where(visible, x, 0.0) for x in (a, b))
    tops = [np.abs(x).max() for x in (a, b)]
    tolerance = 8 * max(first.eps, second.eps, FLOAT32_EPS) * max(*tops, 1e-300)
    residual = np.abs(a - b)
    constant = bool((residual > tolerance).any())
    if constant:  # of each query, which the softmax removes
        each = np.arange(len(queries))
        bare = [np.where(visible, x - x[:, each, queries][..., None], 0.0) for x in (a, b)]
        constant = bool((np.abs(bare[0] - bare[1]) <= 2 * tolerance).all())
        a, b = bare
        residual = np.abs(a - b)
    differs = residual > 2 * tolerance
    profiles = [profile_of(BiasRows(queries, x, not visible.all(), 0.0)) for x in (a, b)]
    whole_profiles = [profile_of(rows) for rows in (first, second)]
    heads = tuple(
        head_difference(i, profiles[0][i], profiles[1][i], n, float(residual[i].max()))
        for i in np.flatnonzero(differs.any(axis=(1, 2))).tolist()
    )
    by_lag = lags_alone(a, b, queries)
    causes = tuple(bias_causes(profiles, whole_profiles, n, by_lag)) if heads else ()
    place = nearest_difference(differs, queries)
    one_sided = first.causal != second.causal
    largest = float(residual.max())
    return BiasComparison(heads, largest, tolerance, place, constant, one_sided, causes)


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


def profile_of(rows: BiasRows) -> np.ndarray:
    """Biases (heads, lags) of the last query, and behind them of the first one but for its own."""
    last = rows.numbers[:, -1]
    return last if rows.causal else np.concatenate([last, rows.numbers[:, 0, 1:]], axis=1)


def lags_alone(a: np.ndarray, b: np.ndarray, queries: np.ndarray) -> bool:
    """Whether each bias depends on the lag alone, as far as two queries in a row tell."""
    if len(queries) < 4:
        return True
    k = len(queries) // 2
    q = int(queries[k])
    return all(np.allclose(x[:, k, 1 : q + 1], x[:, k - 1, :q], atol=1e-5) for x in (a, b))


def head_difference(
    index: int, first: np.ndarray, second: np.ndarray, n: int, largest: float
) -> HeadDifference:
    """What differs in one head, with the slopes of both where they are lines."""
    slopes = slope_of(first[:n]), slope_of(second[:n])
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


def bias_causes(
    profiles: list[np.ndarray], whole: list[np.ndarray], n: int, by_lag: bool
) -> Iterator[tuple[str, dict[str, tuple[Any, Any]]]]:
    """By which rules slopes or buckets of two biases of lags were made, where they follow one.

    Buckets are read from the `whole` profiles, keys behind the query too.
    """
    slopes = [[slope_of(head[:n]) for head in profile] for profile in profiles]
    if all(None not in rule_slopes for rule_slopes in slopes):
        rules = [slope_rule(np.array(rule_slopes, float)) for rule_slopes in slopes]
        if rules[0] != rules[1] and all(rules):
            yield "slopes", {"rule": (rules[0], rules[1])}
        return
    buckets = [bucket_rule(profile[0], n) for profile in whole] if by_lag else [None]
    if all(buckets):
        keys = [key for key in buckets[0] if buckets[0][key] != buckets[1].get(key)]
        if keys:
            yield "buckets", {key: (buckets[0][key], buckets[1].get(key)) for key in keys}


def slope_rule(slopes: np.ndarray) -> str | None:
    """The rule that the slopes of heads follow, ALiBi's or near it; None: none that is known.

    >>> slope_rule(alibi_slopes(6)), slope_rule(2.0 ** (-8 * np.arange(1, 7) / 6))
    ('alibi', '2^(-8 (h + 1) / 6), as of a power of 2')
    """
    h = len(slopes)
    index = np.arange(h)
    whole = 2 ** (h.bit_length() - 1)
    if h > whole:
        whole *= 2
    rules = {"alibi": alibi_slopes(h)}
    for most in (8, 16, 4, 2, 1):
        words = "as of a power of 2" if most == 8 else f"bias_max {most}"
        rules |= {
            f"2^(-{most} (h + 1) / {h}), {words}": 2.0 ** (-most * (index + 1) / h),
            f"2^(-{most} h / {h}), from h = 0": 2.0 ** (-most * index / h),
            f"alibi with bias_max {most}": alibi_slopes(h) ** (most / 8),
            f"alibi's of {whole} heads, the first {h}": alibi_slopes(whole)[:h],
        }
    rules["alibi's in ascending order of slopes"] = np.sort(alibi_slopes(h))
    rules["alibi's in descending order of slopes"] = np.sort(alibi_slopes(h))[::-1]
    rules["alibi's in reverse order of heads"] = alibi_slopes(h)[::-1]
    rules["one slope for all heads"] = np.full(h, slopes[0])
    for name, rule_slopes in rules.items():
        for sign, words in ((1, ""), (-1, ", with the other sign")):
            if np.allclose(sign * slopes, rule_slopes, rtol=SLOPE, atol=0):
                return name + words
    ratio = slopes / alibi_slopes(h)
    if np.allclose(ratio, ratio[0], rtol=SLOPE, atol=0):
        return f"alibi times {ratio[0]:.6g}"
    return None


def bucket_rule(profile: np.ndarray, n: int) -> dict[str, Any] | None:
    """T5's buckets, or the clip of Shaw, by which lags from 1 - n on share a number."""
    lags = np.arange(len(profile)) - (n - 1)
    groups = np.unique(profile, return_inverse=True)[1]
    if len(np.unique(groups)) == len(profile):
        return None  # no two distances share a number
    changes = np.flatnonzero(np.diff(groups))  # beyond the farthest one number stands
    clip = int(np.abs(lags[changes + (lags[changes] >= 0)]).max(initial=0))
    if 0 < clip < n - 1 and same_groups(np.clip(lags, -clip, clip), groups):
        return {"clip": clip}
    one_sided = len(profile) == n
    for causal in (one_sided, not one_sided):
        for buckets in (32, 64, 16, 128, 8):
            for farthest in (128, 64, 256, 512, 1024, 2048, 32, 100, 127, 20, 10_000):
                if farthest <= buckets // (2 if causal else 4):
                    continue
                rule_slopes = t5_buckets(lags, buckets, farthest, causal)
                visible = lags <= 0 if causal else np.full(len(lags), True)
                if same_groups(rule_slopes[visible], groups[visible]):
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

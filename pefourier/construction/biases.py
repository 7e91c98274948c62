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
from dataclasses import replace

import numpy as np

from pefourier.construction.bias_causes import (
    KINDS,
    STRAIGHT,
    Biases,
    BucketRule,
    agree_with,
    parts_of,
    relative_to_query,
    slope_of,
)
from pefourier.construction.explain import Difference, explain
from pefourier.construction.outcome import HeadDifference, Outcome, uncompared
from pefourier.encodings.encoding import Encoding, finding
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.geometry.tolerance import half_of_least
from pefourier.types import Array, Bools, Floats, Places

MASKED = -1e4  # biases below it hide a key
MASK_LEVELS = 3  # sums of two masks have three


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

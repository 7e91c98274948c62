"""Divisor of the distances of a query, as in FIRE: max(i, L), or min(i, L) by mistake.

Conventions
-----------
FIRE's bias is f(ψ(i − j) / ψ(D)) with the divisor D = max(i, L) of query i. For queries with a
constant divisor, the bias depends on the lag alone; where D = i, the first key has the same bias
f(1) for all queries. Neither f nor ψ needs to be known. Keys up to the query show the divisor.
"""

from typing import Literal

import numpy as np

from pefourier.encodings.encoding import Floats
from pefourier.geometry.precision import FLOAT32_EPS

ROUNDED = 16 * FLOAT32_EPS  # of the largest bias
SHARED = 1e-5  # the same, for the bias of the first key: the divisor has a small number added
Divisor = tuple[Literal["max", "min"], int]


def divisor_of(bias: Floats) -> Divisor | None:
    """Return the kind and threshold L of the divisor of biases (heads, n, n); None if neither.

    >>> lag = np.arange(9)[:, None] - np.arange(9)
    >>> divisor_of((lag / np.maximum(np.arange(9), 5)[:, None])[None])
    ('max', 5)
    """
    bias = np.tril(bias)
    n, top = bias.shape[1], float(np.abs(bias).max())
    by_lag = [np.abs(bias[:, i, 1 : i + 1] - bias[:, i - 1, :i]).max() for i in range(2, n)]
    is_lag = np.array(by_lag) <= ROUNDED * top
    is_share = np.abs(np.diff(bias[:, 1:, 0])).max(axis=0) <= SHARED * top
    changes = np.flatnonzero(np.diff(is_lag))
    if len(changes) != 1 or not (is_lag | is_share).all():
        return None
    return "max" if is_lag[0] else "min", int(changes[0]) + 2


def divisors_that_explain(first: Floats, second: Floats) -> tuple[str, str] | None:
    """Return the divisors of two biases in words, if nothing else differs; otherwise None.

    Biases with equal functions f and ψ agree where both divisors are equal: max(i, L) up to query L
    and min(i, L) beyond, or two of a kind beyond or up to both thresholds.
    """
    a, b = divisor_of(first), divisor_of(second)
    if a is None or b is None or a == b:
        return None
    (kind, low), (other_kind, high) = a, b
    if kind != other_kind:
        up, down = (first, second) if kind == "max" else (second, first)
        x, y = up[:, low, :-1], down[:, low + 1, 1:]  # equal lags
    else:
        shared = slice(max(low, high), None) if kind == "max" else slice(0, min(low, high) + 1)
        x, y = first[:, shared], second[:, shared]
    thresholds_differ = kind != other_kind and low != high
    if thresholds_differ or np.abs(x - y).max() > ROUNDED * np.abs(np.tril(first)).max():
        return None
    return f"{kind}(i, {low})", f"{other_kind}(i, {high})"

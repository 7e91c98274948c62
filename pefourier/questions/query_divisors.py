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

    With equal functions f and ψ, max(i, L) at query L is min(i, L) at the next query.
    """
    a, b = divisor_of(first), divisor_of(second)
    if a is None or b is None or a[0] == b[0] or a[1] != b[1]:
        return None
    up, down = (first, second) if a[0] == "max" else (second, first)
    residual = np.abs(up[:, a[1], :-1] - down[:, a[1] + 1, 1:]).max()  # of equal lags
    explains = residual <= ROUNDED * np.abs(np.tril(first)).max()
    return (f"{a[0]}(i, {a[1]})", f"{b[0]}(i, {b[1]})") if explains else None

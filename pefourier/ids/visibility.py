"""Describe a mask of queries and keys: causal, window, documents, padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pefourier.errors import PefourierError
from pefourier.types import Array, Counts


@dataclass(frozen=True)
class Visibility:
    """Common properties of all matrices of a mask; None: they differ or are unknown."""

    causal: bool  # no query sees a later key
    window: int | None  # number of nearest keys that a query sees, including itself
    reach: int  # 1 + the largest distance of a visible key within a document
    two_sided: bool  # whether the window includes later keys
    documents_seen: bool | None = None  # a query sees a key of another document
    pads_seen: bool | None = None  # a token sees padding


def describe_mask(visible: Array, segments: Array | None = None) -> Visibility:
    """Read a mask (matrices, n, n) of booleans.

    >>> lag = np.subtract.outer(np.arange(6), np.arange(6))
    >>> describe_mask(((lag >= 0) & (lag < 3))[None]).window
    3
    """
    n = visible.shape[-1]
    lag = np.subtract.outer(np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32))
    causal = not (visible & (lag < 0)).any()
    numbers = segments_by_matrix(segments, len(visible))
    documents = pads = None
    judged = np.ones_like(visible)
    if numbers is not None:
        tokens = numbers != 0
        one_document = numbers[:, :, None] == numbers[:, None, :]
        pairs = tokens[:, :, None] & tokens[:, None, :]
        documents = bool((visible & pairs & ~one_document).any()) if numbers.max() > 1 else None
        hidden = tokens[:, :, None] & ~tokens[:, None, :]
        pads = bool((visible & hidden).any()) if hidden.any() else None
        judged = pairs & one_document
    reach = int(np.abs(np.where(visible & judged, lag, 0)).max()) + 1
    inside = (np.abs(lag) < reach) & ((lag >= 0) | (not causal)) & judged
    is_window = reach < n and bool((visible & judged == inside).all())
    beyond = judged & (np.abs(lag) >= reach)
    window = reach if is_window and beyond.any() else None
    return Visibility(causal, window, reach, bool(window and not causal), documents, pads)


def segments_by_matrix(segments: Array | None, count: int) -> Array | None:
    """Return segment numbers (matrices, n) of a batch with one matrix per row or for all rows."""
    if segments is None:
        return None
    per_row = max(1, count // len(segments))
    return np.repeat(segments, per_row, axis=0)[:count] if count > 1 else segments[:1]


def documents_in(visible: Array, shape: Counts) -> tuple[Array | None, bool]:
    """Return segment numbers (rows, n) that masks show, or None, and whether they show documents.

    >>> documents_in(np.kron(np.eye(2), np.tri(2))[None] > 0, (1, 4))
    (array([[1, 1, 2, 2]]), True)
    """
    numbers = np.broadcast_to([segments_in(seen) for seen in visible], shape)
    is_plain = bool((numbers == 1).all())  # as without a mask
    return None if is_plain else numbers, bool(numbers.max() > 1)


def segments_in(seen: Array) -> Array:
    """Return the segment number of each token of a mask (n, n); 0: padding.

    A token sees itself, and another token or is seen by it. Documents are blocks of tokens of
    which none sees another block. A query of padding may see everything.
    """
    n = len(seen)
    unattended = seen.all(axis=1) & (np.arange(n) < n - 1) & (not seen.all())
    seen = seen & ~unattended[:, None]
    others = seen & ~np.eye(n, dtype=bool)
    at = np.flatnonzero(seen.diagonal() & (others.any(axis=0) | others.any(axis=1)))
    joined = seen[at[1:], at[:-1]] | seen[at[:-1], at[1:]]
    numbers = np.zeros(n, np.int64)
    numbers[at] = 1 + np.cumsum(np.r_[False, ~joined])[: len(at)]
    real = numbers > 0
    if (seen & np.not_equal.outer(numbers, numbers))[np.ix_(real, real)].any():
        raise PefourierError(
            "the mask is not of documents or one sequence; pass segments, or depths for a tree"
        )
    return numbers

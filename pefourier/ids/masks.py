"""Masks of queries and keys: what they are, and mistakes in them.

Conventions
-----------
A mask is (matrices, queries, keys) of booleans, whether a query sees a key, with one matrix for
each row, or for each row and head. Its kind is that of a rule which gives every cell of the queries
of real tokens: full, causal, window, prefix (the first tokens of a document see one another), or
documents. If none does, but one gives the mask transposed, inverted, or with the diagonal, the mask
has that fault. All other masks are of the kind "other", without a fault.
"""

from __future__ import annotations

import numpy as np

from pefourier.errors import PefourierError
from pefourier.types import Array, Bools, Counts, Texts, frozen, frozen_arrays

OTHER = "other"
HIDDEN = -1e4 + 1  # an additive mask hides keys below this; ALiBi biases stay above


@frozen
class Visibility:
    """Common properties of all matrices of a mask; None: they differ or are unknown."""

    causal: bool  # no query sees a later key
    window: int | None  # number of nearest keys that a query sees, including itself
    reach: int  # 1 + the largest distance of a visible key within a document
    two_sided: bool  # whether the window includes later keys
    documents_seen: bool | None  # a query sees a key of another document
    pads_seen: bool | None  # a token sees padding
    kind: str
    faults: Texts  # transposed, inverted, diagonal


@frozen_arrays
class Mask:
    """The matrices of a mask after its faults are mended."""

    visible: Bools
    kind: str
    faults: Texts


def read_mask(visible: Bools) -> Mask:
    """Find the kind of a mask (matrices, n, n), and mend its faults.

    >>> mask = read_mask(np.tri(4, dtype=bool).T[None])
    >>> mask.kind, mask.faults
    ('causal', ('transposed',))
    >>> read_mask(~np.tri(4, dtype=bool)[None]).faults
    ('inverted',)
    """
    n = visible.shape[-1]
    itself = np.eye(n, dtype=bool)
    is_seen = (visible & ~itself).any(axis=1)[:, None]
    flipped = visible.swapaxes(1, 2)
    for faults, mended in (
        ((), visible),
        (("transposed",), flipped),
        (("diagonal",), visible | (itself & is_seen)),
        (("inverted",), ~visible),
        (("transposed", "inverted"), ~flipped),
    ):
        kinds = {kind_of_mask(matrix) for matrix in mended}
        if OTHER not in kinds:
            return Mask(mended, kinds.pop() if len(kinds) == 1 else OTHER, faults)
    return Mask(visible, OTHER, ())


def kind_of_mask(seen: Bools) -> str:
    """Return the kind of rule that gives a mask (n, n).

    >>> segments = np.array([1, 1, 1, 2, 2])
    >>> blocks = np.tri(5, dtype=bool) & np.equal.outer(segments, segments)
    >>> kind_of_mask(blocks), kind_of_mask(np.ones((5, 5), dtype=bool))
    ('documents', 'full')
    """
    try:
        numbers = segments_in(seen)
    except PefourierError:
        return OTHER
    real = numbers > 0
    if not real.any():
        return OTHER
    index = np.arange(len(seen), dtype=np.int32)
    lag = np.subtract.outer(index, index)
    inside = np.equal.outer(numbers, numbers) & real
    is_causal = not seen[real][lag[real] < 0].any()
    near = np.abs(lag) <= np.abs(lag[seen & inside & real[:, None]]).max()
    first = np.array([np.flatnonzero(numbers == number)[0] for number in numbers])
    shared = (seen & inside).sum(axis=1)[first]  # keys that the first query sees
    past = inside & (lag >= 0)
    rules = {
        "causal": past,
        "full": inside,
        "window": (past if is_causal else inside) & near,
        "prefix": past | (inside & (index - first < shared)),
    }
    for kind, rule in rules.items():
        if (seen[real] == rule[real]).all():
            return "documents" if numbers.max() > 1 else kind
    return OTHER


def describe_mask(mask: Mask, segments: Array | None = None) -> Visibility:
    """Describe what a mask makes visible.

    >>> lag = np.subtract.outer(np.arange(6), np.arange(6))
    >>> describe_mask(read_mask(((lag >= 0) & (lag < 3))[None])).window
    3
    """
    visible = mask.visible
    n, count = visible.shape[-1], len(visible)
    lag = np.subtract.outer(np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32))
    causal = not (visible & (lag < 0)).any()
    numbers = np.ones((1, n), int) if segments is None else segments  # of each row
    numbers = np.repeat(numbers, max(1, count // len(numbers)), axis=0)[:count]
    query, key = numbers[:, :, None], numbers[:, None, :]
    judged, hidden = (query == key) & (query != 0), (query != 0) & (key == 0)
    others = (query != key) & (query != 0) & (key != 0)
    documents, pads = (
        bool((visible & cells).any()) if cells.any() else None for cells in (others, hidden)
    )
    seen, distance = visible & judged, np.abs(lag)
    reach = int((distance * seen).max()) + 1
    inside = (distance < reach) & ((lag >= 0) | (not causal)) & judged
    is_window = bool((seen == inside).all() and (judged & (distance >= reach)).any())
    window = reach if is_window else None
    two_sided = is_window and not causal
    return Visibility(causal, window, reach, two_sided, documents, pads, mask.kind, mask.faults)


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


def as_visible(mask: Array, shape: Counts | None = None) -> Array:
    """Convert a mask to booleans (matrices, queries, keys): whether a query sees a key.

    Masks have booleans, 0 and 1, or are additive: 0 for visible keys, -inf or a large negative
    number for hidden ones.
    """
    if shape is not None and mask.shape[-2] != shape[1]:
        raise PefourierError(f"a mask {mask.shape} does not fit position ids of shape {shape}")
    if mask.dtype.kind == "f" and np.isnan(mask).any():
        raise PefourierError("a mask must not hold NaN")
    is_additive = mask.dtype.kind == "f" and (mask.min() < 0 or not mask.any())
    visible = mask > HIDDEN if is_additive else mask != 0
    return visible.reshape(-1, *mask.shape[-2:])

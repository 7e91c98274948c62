"""What do the heads of all layers of a rotation have in common, and which of them stand out?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import pi

import numpy as np

from pefourier.context import frequencies_before_scaling, window_within
from pefourier.encodings.encoding import Encoding
from pefourier.errors import PefourierError
from pefourier.explained import Explained
from pefourier.weights.shares import LayerShares

OFTEN = 32  # turns within the length, from which on a pair counts as fast


OUTSTANDING = 5  # heads that are named


FAR = 4.0  # spreads above the median, from which on a head stands out


SIZEABLE = 0.25  # of a head's product, which it must have there


@dataclass(frozen=True)
class PairUse(Explained):
    """A pair of a rotation, and what the heads put into it on average."""

    index: int
    wavelength: float | None  # positions; None for a pair that does not turn
    turns: float  # within the length
    share_q: float
    share_k: float | None  # None where only queries were measured
    share: float | None  # of the product
    bias_q: float | None  # share of the energy of biases; None where there are none
    bias_k: float | None
    concentration_q: float | None  # of activations: length of the mean over mean of the length
    concentration_k: float | None


@dataclass(frozen=True)
class Portion(Explained):
    """What some of the pairs have."""

    pairs: int
    uniform: float  # their share of all pairs
    q: float  # mean share of the energy of queries
    k: float | None
    product: float | None


@dataclass(frozen=True)
class Standout(Explained):
    """A head that uses some pairs far more than most heads do."""

    layer: int
    head: int
    of: str  # never_turn or often
    share: float
    median: float  # over all heads


@dataclass(frozen=True)
class RotationUse(Explained):
    """What the heads of all layers of one rotation use."""

    name: str  # the type of layer, or empty
    pairs: tuple[PairUse, ...]
    never_turn: Portion
    often: Portion
    unseen: Portion | None  # pairs that meet angles at the length which training never met
    slowest_quarter: Portion  # what a cut of the slowest quarter takes away
    effective_pairs: float  # median over heads of exp(entropy of the shares)
    half: tuple[int, ...]  # the fewest pairs that hold half of the product
    still: Portion | None  # rows of a head that do not turn, in pairs of rows; None: there are none
    bias: tuple[float, float] | None  # share of biases in the energy of queries and of keys
    standouts: tuple[Standout, ...]


def summarise(
    enc: Encoding,
    name: str,
    length: int,
    trained: int,
    shares: Sequence[LayerShares],
    window: int | None = None,
) -> RotationUse:
    """What the heads of the layers of one rotation use."""
    turning = enc.measure.frequencies != 0
    own, before = enc.measure.frequencies[turning], frequencies_before_scaling(enc)[turning]
    means = [head_mean([getattr(one, part) for one in shares]) for part in ("q", "k", "product")]
    beside = ("bias_q", "bias_k", "concentration_q", "concentration_k")
    others = [head_mean([getattr(one, part) for one in shares]) for part in beside]
    used = np.concatenate([one.used for one in shares])
    used = used[~np.isnan(used).any(axis=1)]
    if not len(used):
        raise PefourierError("all queries, or all keys, are zero; there is nothing to share out")
    turns = own * length / (2 * pi)

    def portion(members: np.ndarray) -> Portion:
        count = int(members.sum())
        return Portion(
            count, count / len(own), *(m if m is None else float(m[members].sum()) for m in means)
        )

    classes = {"never_turn": turns < 1, "often": turns > OFTEN}
    slow = np.zeros(len(own), dtype=bool)
    slow[np.argsort(own, kind="stable")[: len(own) // 4]] = True
    far = window_within(window, length) or length
    beyond = own * far > before * trained * (1 + 1e-9)
    unseen = beyond & (before * trained < 2 * pi)
    entropy = -(used * np.log(np.where(used > 0, used, 1.0))).sum(axis=1)
    return RotationUse(
        name=name,
        pairs=tuple(
            PairUse(
                int(index),
                float(2 * pi / own[i]),
                float(turns[i]),
                *(None if m is None else float(m[i]) for m in (*means, *others)),
            )
            for i, index in enumerate(np.flatnonzero(turning))
        ),
        **{key: portion(members) for key, members in classes.items()},
        unseen=portion(unseen) if length > trained else None,
        slowest_quarter=portion(slow),
        effective_pairs=float(np.median(np.exp(entropy))),
        half=tuple(np.flatnonzero(turning)[fewest_holding(used.mean(axis=0), 0.5)].tolist()),
        still=still_part(enc, len(own), shares),
        bias=mean_constant(shares),
        standouts=tuple(
            one for key, members in classes.items() for one in find_standouts(key, members, shares)
        ),
    )


def used_part(one: Portion | PairUse) -> float:
    """The share of the product, or of queries where nothing is known of keys."""
    if isinstance(one, Portion):
        return one.q if one.product is None else one.product
    return one.share_q if one.share is None else one.share


def head_mean(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The mean over heads of what some layers have; None where none has it, or it is zero."""
    there = [part for part in parts if part is not None and not np.isnan(part).all()]
    return np.nanmean(np.concatenate(there), axis=0) if there else None


def mean_constant(shares: Sequence[LayerShares]) -> tuple[float, float] | None:
    """The mean share of biases in queries and keys over layers; None where there are none."""
    there = [one.bias or (0.0, 0.0) for one in shares]
    mean = np.mean(there, axis=0)
    return (float(mean[0]), float(mean[1])) if mean.any() else None


def still_part(enc: Encoding, pairs: int, shares: Sequence[LayerShares]) -> Portion | None:
    """What the rows of a head that do not turn have of its energy; None where all turn."""
    rows = int(enc.params["d"]) - 2 * pairs
    if not rows:
        return None
    told = [one.still for one in shares if one.still is not None]
    if not told:
        return None
    q, k = np.mean(told, axis=0)
    return Portion(rows // 2, rows / enc.params["d"], float(q), float(k), None)


def fewest_holding(shares: np.ndarray, part: float) -> np.ndarray:
    """The fewest of some shares whose sum is at least a part of all, in order.

    >>> fewest_holding(np.array([0.1, 0.4, 0.2, 0.3]), 0.5).tolist()
    [1, 3]
    """
    order = np.argsort(-shares, kind="stable")
    count = int(np.searchsorted(np.cumsum(shares[order]), part * shares.sum() * (1 - 1e-12))) + 1
    return np.sort(order[:count])


def find_standouts(
    key: str, members: np.ndarray, shares: Sequence[LayerShares]
) -> Iterator[Standout]:
    """Heads that have far more of their product in some pairs than heads usually have."""
    each = [
        (float(row[members].sum()), one.layer, head)
        for one in shares
        for head, row in enumerate(one.used)
        if not np.isnan(row).any()
    ]
    if len(each) < 3 or not members.any():
        return
    held = np.array([share for share, _, _ in each])
    median = float(np.median(held))
    spread = 1.4826 * float(np.median(np.abs(held - median)))
    far = median + FAR * max(spread, 1e-6)
    above = sorted(
        (one for one in each if one[0] > max(far, SIZEABLE)),
        key=lambda one: (-one[0], one[1:]),
    )
    for share, layer, head in above[:OUTSTANDING]:
        yield Standout(layer, head, key, share, median)

"""What do the heads of all layers of a rotation have in common, and which of them stand out?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import pi

import numpy as np

from pefourier.analysis.context import frequencies_before_scaling
from pefourier.encodings.model_positions import window_of_rotation
from pefourier.errors import PefourierError
from pefourier.weights.model import Rotations
from pefourier.weights.shares import LayerShares

OFTEN = 32  # turns within the length, from which on a pair counts as fast
OUTSTANDING = 5  # heads that are named
FAR = 4.0  # spreads above the median, from which on a head stands out
SIZEABLE = 0.25  # of a head's product, which it must have there


@dataclass(frozen=True)
class PairUse:
    """A pair of a rotation, and what the heads put into it on average."""

    index: int
    wavelength: float | None  # positions; None for a pair that does not turn
    turns: float  # within the length
    uniform: float  # what each pair would have were all used alike
    axis: str | None  # by whose positions it turns; None where there is one axis
    share_q: float
    share_k: float | None  # None where only queries were measured
    share: float | None  # of the product
    bias_q: float | None  # share of the energy of biases; None where there are none
    bias_k: float | None
    concentration_q: float | None  # of activations: length of the mean over mean of the length
    concentration_k: float | None


@dataclass(frozen=True)
class Portion:
    """What some of the pairs have."""

    pairs: int
    uniform: float  # their share of all pairs
    q: float  # mean share of the energy of queries
    k: float | None
    product: float | None
    spread: float | None = None  # of the share, were the pairs of each group of heads shuffled


@dataclass(frozen=True)
class AxisUse(Portion):
    """What the pairs have that one axis turns."""

    axis: str = ""


@dataclass(frozen=True)
class Standout:
    """A head, or a layer, that uses some pairs far more than most do."""

    layer: int
    head: int | None  # None: the mean of the layer's heads
    of: str  # never_turn or often
    share: float
    median: float  # over all heads, or all layers


@dataclass(frozen=True)
class TurningPairs:
    """The pairs of a head that turn, in its order."""

    index: np.ndarray  # numbers in the head
    frequencies: np.ndarray  # radians per position along the axis of each
    before: np.ndarray  # the same without a scaling
    reached: np.ndarray  # positions asked for along its axis
    met: np.ndarray  # those of training
    axis: tuple[str, ...]  # empty where there is one
    still: int  # rows of a head that do not turn
    longer: bool  # whether more was asked for than training met
    window: int | None  # positions that a query sees

    @property
    def unseen(self) -> np.ndarray:
        """Which of them meet angles that training never met."""
        far = self.reached if self.window is None else np.minimum(self.reached, self.window)
        beyond = self.frequencies * far > self.before * self.met * (1 + 1e-9)
        return beyond & (self.before * self.met < 2 * pi)


def pairs_that_turn(turned: Rotations, number: int, length: int | None) -> TurningPairs:
    """The pairs of one of a model's rotations, at a length or at that of training."""
    enc, axis, met = turned.own[number], turned.axes[number], turned.met[number]
    own = enc.measure.frequencies
    turning = own != 0
    before = frequencies_before_scaling(enc) if "scaling" in enc.params else own
    return TurningPairs(
        np.flatnonzero(turning),
        own[turning],
        before[turning],
        (met if length is None else np.full(len(met), length))[turning],
        met[turning],
        tuple(name for name, one in zip(axis, turning, strict=bool(axis)) if one),
        int(enc.params["d"]) - 2 * int(turning.sum()),
        (length or 0) > turned.trained,
        window_of_rotation(turned.runs, turned.parts[number]),
    )


@dataclass(frozen=True)
class RotationUse:
    """What the heads of all layers of one rotation use."""

    name: str  # the type of layer, or empty
    pairs: tuple[PairUse, ...]
    never_turn: Portion
    often: Portion
    unseen: Portion | None  # pairs that meet angles at the length which training never met
    slowest_quarter: Portion  # what a cut of the slowest quarter takes away
    axes: tuple[AxisUse, ...]  # empty where there is one
    effective_pairs: float  # median over heads of exp(entropy of the shares)
    half: tuple[int, ...]  # the fewest pairs that hold half of the product
    still: Portion | None  # rows of a head that do not turn, in pairs of rows; None: there are none
    bias: tuple[float, float] | None  # share of biases in the energy of queries and of keys
    standouts: tuple[Standout, ...]


def summarise(name: str, pairs: TurningPairs, shares: Sequence[LayerShares]) -> RotationUse:
    """What the heads of the layers of one rotation use."""
    used = np.concatenate([one.used for one in shares])
    used = used[~np.isnan(used).any(axis=1)]
    if not len(used):
        raise PefourierError("all queries, or all keys, are zero; there is nothing to share out")
    means = [head_mean([getattr(one, part) for one in shares]) for part in ("q", "k", "product")]
    count, turns = len(pairs.index), pairs.frequencies * pairs.reached / (2 * pi)

    def portion(members: np.ndarray, kind: type = Portion, **more: str) -> Portion:
        held = (m if m is None else float(m[members].sum()) for m in means)
        part = members.sum() / count
        return kind(int(members.sum()), part, *held, shuffled_spread(shares, part), **more)

    classes = {"never_turn": turns < 1, "often": turns > OFTEN}
    slow = np.zeros(count, dtype=bool)
    slow[np.argsort(pairs.frequencies, kind="stable")[: count // 4]] = True
    entropy = -(used * np.log(np.where(used > 0, used, 1.0))).sum(axis=1)
    return RotationUse(
        name=name,
        pairs=tuple(use_of_pairs(pairs, turns, means, shares)),
        **{key: portion(members) for key, members in classes.items()},
        unseen=portion(pairs.unseen) if pairs.longer else None,
        slowest_quarter=portion(slow),
        axes=tuple(
            portion(np.array(pairs.axis) == axis, AxisUse, axis=axis)
            for axis in dict.fromkeys(pairs.axis)
        ),
        effective_pairs=float(np.median(np.exp(entropy))),
        half=tuple(pairs.index[fewest_holding(used.mean(axis=0), 0.5)].tolist()),
        still=still_part(pairs, shares),
        bias=mean_constant(shares),
        standouts=tuple(
            one for key, members in classes.items() for one in find_standouts(key, members, shares)
        ),
    )


def use_of_pairs(
    pairs: TurningPairs,
    turns: np.ndarray,
    means: Sequence[np.ndarray | None],
    shares: Sequence[LayerShares],
) -> Iterator[PairUse]:
    """Each pair with the means of its shares, and of those of biases and activations."""
    beside = ("bias_q", "bias_k", "concentration_q", "concentration_k")
    means = [*means, *(head_mean([getattr(one, part) for one in shares]) for part in beside)]
    for i, index in enumerate(pairs.index):
        yield PairUse(
            int(index),
            float(2 * pi / pairs.frequencies[i]),
            float(turns[i]),
            1 / len(pairs.index),
            pairs.axis[i] if pairs.axis else None,
            *(None if m is None else float(m[i]) for m in means),
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
    """The mean share of biases in queries and keys over layers; None where there are none.

    >>> from types import SimpleNamespace as Layer
    >>> mean_constant([Layer(bias=(0.25, 0.5)), Layer(bias=None)])
    (0.125, 0.25)
    """
    there = [one.bias or (0.0, 0.0) for one in shares]
    mean = np.mean(there, axis=0)
    return (float(mean[0]), float(mean[1])) if mean.any() else None


def shuffled_spread(shares: Sequence[LayerShares], part: float) -> float:
    """How far the mean share of some pairs is from their number's, by chance alone.

    The standard deviation of a sum of draws without replacement, where the pairs of each group of
    heads, which have keys in common, are shuffled: weights drawn at random favour some pairs, too.
    """
    heads = sum(int((~np.isnan(one.used).any(axis=1)).sum()) for one in shares)
    squares = 0.0
    for one in shares:
        groups = np.nansum(one.used.reshape(one.kv_heads, -1, one.used.shape[1]), axis=1) / heads
        squares += float(groups.var(axis=1, ddof=1).sum()) if groups.shape[1] > 1 else 0.0
    return float(np.sqrt(squares * part * (1 - part) * shares[0].used.shape[1]))


def still_part(pairs: TurningPairs, shares: Sequence[LayerShares]) -> Portion | None:
    """What the rows of a head that do not turn have of its energy; None where all turn."""
    told = [one.still for one in shares if one.still is not None]
    if not pairs.still or not told:
        return None
    q, k = np.mean(told, axis=0)
    rows = pairs.still + 2 * len(pairs.index)
    return Portion(pairs.still // 2, pairs.still / rows, float(q), float(k), None)


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
    """Heads, and layers, that have far more of their product in some pairs than is usual.

    Sizeable shares many spreads above the median, largest first.
    """
    heads = [
        (float(row[members].sum()), one.layer, head)
        for one in shares
        for head, row in enumerate(one.used)
        if not np.isnan(row).any()
    ]
    layers: dict[int, list[float]] = {}
    for share, layer, _ in heads:
        layers.setdefault(layer, []).append(share)
    for each in (heads, [(float(np.mean(own)), i, None) for i, own in layers.items()]):
        held = np.array([share for share, _, _ in each])
        if len(held) < 3 or not held.any():
            continue
        median = float(np.median(held))
        spread = 1.4826 * float(np.median(np.abs(held - median)))
        least = max(median + FAR * max(spread, 1e-6), SIZEABLE)
        above = sorted((one for one in each if one[0] > least), key=lambda one: -one[0])
        for share, layer, head in above[:OUTSTANDING]:
            yield Standout(layer, head, key, share, median)

"""What do the heads of all layers of a rotation have in common?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import pi

import numpy as np

from pefourier.encodings.model_positions import window_of_rotation
from pefourier.errors import PefourierError
from pefourier.questions.rotations import frequencies_before_scaling
from pefourier.weights.model import Rotations
from pefourier.weights.shares import LayerShares
from pefourier.writing.text import number, ranges

OFTEN = 32  # turns within the length, from which on a pair counts as fast
BANDS = 8  # rows of the table of pairs
EVEN = 0.1  # of the even share: as near use is even
CHANCE = 3.0  # spreads of shuffled pairs: as near it may be chance


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

    @property
    def used(self) -> float:
        """The share of the product, or of queries where nothing is known of keys."""
        return self.share_q if self.share is None else self.share


@dataclass(frozen=True)
class Portion:
    """What some of the pairs have."""

    pairs: int
    uniform: float  # their share of all pairs
    q: float  # mean share of the energy of queries
    k: float | None
    product: float | None
    spread: float = field(default=0.0, metadata={"told": False})  # were pairs of groups shuffled

    @property
    def used(self) -> float:
        """The share of the product, or of queries where nothing is known of keys."""
        return self.q if self.product is None else self.product

    @property
    def used_percent(self) -> float:
        """The same as a part of a hundred."""
        return 100 * self.used

    @property
    def even_percent(self) -> float:
        """What they would have were all pairs used alike."""
        return 100 * self.uniform

    @property
    def preference(self) -> int:
        """1 where they are used more than evenly, -1 less, 0 where that is even or chance."""
        excess = self.used - self.uniform
        is_even = abs(excess) <= max(EVEN * self.uniform, CHANCE * self.spread)
        return 0 if is_even else 1 if excess > 0 else -1


@dataclass(frozen=True)
class AxisUse(Portion):
    """What the pairs have that one axis turns."""

    axis: str = ""


@dataclass(frozen=True)
class PairKind:
    """What pairs of a kind have, of one rotation."""

    rotation: str | None
    kind: str
    portion: Portion


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
        reached = self.reached if self.window is None else np.minimum(self.reached, self.window)
        beyond = self.frequencies * reached > self.before * self.met * (1 + 1e-9)
        return beyond & (self.before * self.met < 2 * pi)


def pairs_that_turn(turned: Rotations, number: int, length: int | None) -> TurningPairs:
    """The pairs of one of a model's rotations, at a length or at that of training."""
    enc, axis, met = turned.own[number], turned.axes[number], turned.met[number]
    frequencies = enc.measure.frequencies
    turning = frequencies != 0
    before = frequencies_before_scaling(enc) if "scaling" in enc.params else frequencies
    return TurningPairs(
        np.flatnonzero(turning),
        frequencies[turning],
        before[turning],
        (met if length is None else np.full(len(met), length))[turning],
        met[turning],
        tuple(name for name, turns in zip(axis, turning, strict=bool(axis)) if turns),
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
    half_rows: tuple[int, ...] = ()  # rows of a head that those pairs are

    @property
    def part(self) -> str | None:
        """The type of layer; None where there is one rotation."""
        return self.name or None

    @property
    def count(self) -> int:
        """How many pairs turn."""
        return len(self.pairs)

    @property
    def rows_to_spare(self) -> str:
        """The rows of a head that hold half of the product, as ranges."""
        return ranges(self.half_rows)

    @property
    def biases(self) -> str | None:
        """The share of biases in the energy of queries and keys."""
        return None if self.bias is None else " ".join(number(share, 3) for share in self.bias)

    @property
    def preference(self) -> str:
        """Which pairs are used more or less than evenly: that never turn, or else the fastest."""
        verdicts = {1: "favoured", -1: "neglected"}
        for name, portion in (("slow pairs", self.never_turn), ("fast pairs", self.often)):
            if portion.preference:
                return f"{name} {verdicts[portion.preference]}"
        return "no preference"

    @property
    def kinds(self) -> Iterator[PairKind]:
        """What pairs hold: in bands of equal size, fast ones first, then those of a kind."""
        order = sorted(self.pairs, key=lambda pair: pair.wavelength)
        size = -(-len(order) // min(BANDS, len(order)))
        for start in range(0, len(order), size):
            band = order[start : start + size]
            ends = (number(pair.wavelength, 3) for pair in (band[0], band[-1]))
            index = ranges(sorted(pair.index for pair in band))
            yield PairKind(self.part, f"{index} ({'…'.join(ends)})", portion_of(band))
        portions = {
            "never turn": self.never_turn,
            f"turn more than {OFTEN} times": self.often,
            "meet new angles": self.unseen,
            "slowest quarter": self.slowest_quarter,
            "rows that do not turn": self.still,
            **{f"axis {axis.axis}": axis for axis in self.axes},
        }
        for kind, portion in portions.items():
            if portion is not None:
                yield PairKind(self.part, kind, portion)


def portion_of(pairs: Sequence[PairUse]) -> Portion:
    """What some pairs hold together."""
    parts = ([getattr(pair, key) for pair in pairs] for key in ("share_q", "share_k", "share"))
    sums = (None if None in part else sum(part) for part in parts)
    return Portion(len(pairs), sum(pair.uniform for pair in pairs), *sums)


def summarise(name: str, pairs: TurningPairs, shares: Sequence[LayerShares]) -> RotationUse:
    """What the heads of the layers of one rotation use."""
    used = np.concatenate([layer.used for layer in shares])
    used = used[~np.isnan(used).any(axis=1)]
    if not len(used):
        raise PefourierError("all queries, or all keys, are zero; there is nothing to share out")
    means = [
        head_mean([getattr(layer, part) for layer in shares]) for part in ("q", "k", "product")
    ]
    count, turns = len(pairs.index), pairs.frequencies * pairs.reached / (2 * pi)

    def portion(members: np.ndarray, kind: type = Portion, **axis: str) -> Portion:
        sums = (m if m is None else float(m[members].sum()) for m in means)
        uniform = members.sum() / count
        spread = shuffled_spread(shares, uniform)
        return kind(int(members.sum()), uniform, *sums, spread, **axis)

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
    )


def use_of_pairs(
    pairs: TurningPairs,
    turns: np.ndarray,
    means: Sequence[np.ndarray | None],
    shares: Sequence[LayerShares],
) -> Iterator[PairUse]:
    """Each pair with the means of its shares, and of those of biases and activations."""
    other_parts = ("bias_q", "bias_k", "concentration_q", "concentration_k")
    means = [
        *means,
        *(head_mean([getattr(layer, part) for layer in shares]) for part in other_parts),
    ]
    for i, index in enumerate(pairs.index):
        yield PairUse(
            int(index),
            float(2 * pi / pairs.frequencies[i]),
            float(turns[i]),
            1 / len(pairs.index),
            pairs.axis[i] if pairs.axis else None,
            *(None if m is None else float(m[i]) for m in means),
        )


def head_mean(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The mean over heads of what some layers have; None where none has it, or it is zero."""
    measured = [part for part in parts if part is not None and not np.isnan(part).all()]
    return np.nanmean(np.concatenate(measured), axis=0) if measured else None


def mean_constant(shares: Sequence[LayerShares]) -> tuple[float, float] | None:
    """The mean share of biases in queries and keys over layers; None where there are none.

    >>> from types import SimpleNamespace as Layer
    >>> mean_constant([Layer(bias=(0.25, 0.5)), Layer(bias=None)])
    (0.125, 0.25)
    """
    mean = np.mean([layer.bias or (0.0, 0.0) for layer in shares], axis=0)
    return (float(mean[0]), float(mean[1])) if mean.any() else None


def shuffled_spread(shares: Sequence[LayerShares], part: float) -> float:
    """How far the mean share of some pairs is from their number's, by chance alone.

    The standard deviation of a sum of draws without replacement, where the pairs of each group of
    heads, which have keys in common, are shuffled: weights drawn at random favour some pairs, too.
    """
    heads = sum(int((~np.isnan(layer.used).any(axis=1)).sum()) for layer in shares)
    squares = 0.0
    for layer in shares:
        groups = (
            np.nansum(layer.used.reshape(layer.kv_heads, -1, layer.used.shape[1]), axis=1) / heads
        )
        squares += float(groups.var(axis=1, ddof=1).sum()) if groups.shape[1] > 1 else 0.0
    return float(np.sqrt(squares * part * (1 - part) * shares[0].used.shape[1]))


def still_part(pairs: TurningPairs, shares: Sequence[LayerShares]) -> Portion | None:
    """What the rows of a head that do not turn have of its energy; None where all turn."""
    measured = [layer.still for layer in shares if layer.still is not None]
    if not pairs.still or not measured:
        return None
    q, k = np.mean(measured, axis=0)
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

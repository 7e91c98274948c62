"""What do the heads of all layers of a rotation have in common?"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import pi

import numpy as np
from numpy.typing import NDArray

from pefourier.errors import PefourierError
from pefourier.weights.pair_energy import LayerShares
from pefourier.writing.text import number, ranges

OFTEN = 32  # turns within the length, from which on a pair counts as fast
BANDS = 8  # rows of the table of pairs
EVEN = 0.1  # of the even share: as near use is even
CHANCE = 3.0  # spreads of shuffled pairs: as near it may be chance
FEW = 0.5  # of the pairs: where as many, used evenly, would be spread as widely, few are used


@dataclass(frozen=True)
class PairUse:
    """A pair of a rotation, and what the heads put into it on average."""

    index: int
    wavelength: float  # positions
    turns: float  # within the length
    share_q: float
    share_k: float | None  # None where only queries were measured
    share: float | None  # of the product


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
    def preference(self) -> int:
        """1 where they are used more than evenly, -1 less, 0 where that is even or chance."""
        excess = self.used - self.uniform
        is_even = abs(excess) <= max(EVEN * self.uniform, CHANCE * self.spread)
        return 0 if is_even else 1 if excess > 0 else -1


@dataclass(frozen=True)
class PairKind:
    """What pairs of a kind have, of one rotation."""

    rotation: str | None
    kind: str
    portion: Portion


@dataclass(frozen=True)
class RotationUse:
    """What the heads of all layers of one rotation use."""

    name: str  # the type of layer, or empty
    pairs: tuple[PairUse, ...]
    never_turn: Portion
    often: Portion
    effective_pairs: float  # median over heads of exp(entropy of the shares)
    half: tuple[int, ...]  # the fewest pairs that hold half of the product
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
    def preference(self) -> str:
        """Which pairs are used more or less than evenly: that never turn, or else the fastest.

        Where neither are, few pairs may hold most of what a head has.
        """
        verdicts = {1: "favoured", -1: "neglected"}
        for name, portion in (("slow pairs", self.never_turn), ("fast pairs", self.often)):
            if portion.preference:
                return f"{name} {verdicts[portion.preference]}"
        return "few pairs used" if self.effective_pairs <= FEW * self.count else "no preference"

    @property
    def kinds(self) -> Iterator[PairKind]:
        """What pairs hold: in bands of equal size, fast ones first, then those of a kind."""
        order = sorted(self.pairs, key=lambda pair: pair.wavelength)
        size = -(-len(order) // min(BANDS, len(order)))
        for start in range(0, len(order), size):
            band = order[start : start + size]
            ends = "…".join(number(pair.wavelength, 3) for pair in (band[0], band[-1]))
            index = ranges(sorted(pair.index for pair in band))
            q = sum(pair.share_q for pair in band)
            k, product = total(pair.share_k for pair in band), total(pair.share for pair in band)
            portion = Portion(len(band), len(band) / len(order), q, k, product)
            yield PairKind(self.part, f"{index} ({ends})", portion)
        yield PairKind(self.part, "never turn", self.never_turn)
        yield PairKind(self.part, f"turn more than {OFTEN} times", self.often)


def summarise(
    name: str, frequencies: NDArray[np.float64], length: int, shares: Sequence[LayerShares]
) -> RotationUse:
    """What the heads of the layers of one rotation use, whose pairs have these frequencies."""
    used = np.concatenate([layer.used for layer in shares])
    used = used[~np.isnan(used).any(axis=1)]
    if not len(used):
        raise PefourierError("all queries, or all keys, are zero; there is nothing to share out")
    index = np.flatnonzero(frequencies)
    omega = frequencies[index]
    mean_q = np.nanmean(np.concatenate([layer.q for layer in shares]), axis=0)
    mean_k = head_mean([layer.k for layer in shares])
    mean_product = head_mean([layer.product for layer in shares])
    turns = omega * length / (2 * pi)
    entropy = -(used * np.log(np.where(used > 0, used, 1.0))).sum(axis=1)

    def portion(members: NDArray[np.bool_]) -> Portion:
        uniform = float(members.sum() / len(index))
        q, k = float(mean_q[members].sum()), share_of(mean_k, members)
        product, spread = share_of(mean_product, members), shuffled_spread(shares, uniform)
        return Portion(int(members.sum()), uniform, q, k, product, spread)

    return RotationUse(
        name=name,
        pairs=tuple(
            PairUse(
                int(number),
                float(2 * pi / omega[i]),
                float(turns[i]),
                float(mean_q[i]),
                share_of(mean_k, i),
                share_of(mean_product, i),
            )
            for i, number in enumerate(index)
        ),
        never_turn=portion(turns < 1),
        often=portion(turns > OFTEN),
        effective_pairs=float(np.median(np.exp(entropy))),
        half=tuple(index[fewest_holding(used.mean(axis=0), 0.5)].tolist()),
    )


def total(shares: Iterable[float | None]) -> float | None:
    """The sum of shares, which all or none of the pairs have."""
    known = [share for share in shares if share is not None]
    return sum(known) if known else None


def share_of(means: NDArray[np.float64] | None, pairs: int | NDArray[np.bool_]) -> float | None:
    """The mean share of one pair, or of several; None where no head has shares."""
    return None if means is None else float(means[pairs].sum())


def head_mean(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64] | None:
    """The mean over heads of shares in some layers; None where none has them."""
    heads = np.concatenate(parts)
    return None if np.isnan(heads).all() else np.nanmean(heads, axis=0)


def shuffled_spread(shares: Sequence[LayerShares], part: float) -> float:
    """How far the mean share of some pairs is from their number's, by chance alone.

    The standard deviation of a sum of draws without replacement, where the pairs of each group of
    heads, which have keys in common, are shuffled: weights drawn at random favour some pairs, too.
    """
    heads = sum(int((~np.isnan(layer.used).any(axis=1)).sum()) for layer in shares)
    pairs, squares = shares[0].used.shape[1], 0.0
    for layer in shares:
        groups = np.nansum(layer.used.reshape(layer.kv_heads, -1, pairs), axis=1) / heads
        squares += float(groups.var(axis=1, ddof=1).sum()) if pairs > 1 else 0.0
    return float(np.sqrt(squares * part * (1 - part) * pairs))


def fewest_holding(shares: NDArray[np.float64], part: float) -> NDArray[np.int64]:
    """The fewest of some shares whose sum is at least a part of all, in order.

    >>> fewest_holding(np.array([0.1, 0.4, 0.2, 0.3]), 0.5).tolist()
    [1, 3]
    """
    order = np.argsort(-shares, kind="stable")
    count = int(np.searchsorted(np.cumsum(shares[order]), part * shares.sum() * (1 - 1e-12))) + 1
    return np.sort(order[:count])

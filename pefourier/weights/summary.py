"""Summarise the shares of rotary pairs over the heads of all layers of a rotation."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import pi

import numpy as np

from pefourier.errors import PefourierError
from pefourier.types import Bools, Counts, Floats, Places
from pefourier.weights.pair_energy import LayerShares
from pefourier.writing.text import agreeing, number, percent, ranges

OFTEN = 32  # a pair with more full rotations than this within the length counts as fast
STRONGEST = 3  # pairs in the short answer
BANDS = 8  # rows of the table of pairs
EVEN = 0.1  # relative difference from the even share up to which use counts as even
CHANCE = 3.0  # difference, in spreads of shuffled pairs, up to which it may be chance
ALIKE = 0.9  # of the excess of the preferred pairs, from which other pairs are used as much
FEW = 0.5  # share of effective pairs up to which few pairs are used


@dataclass(frozen=True)
class PairUse:
    """A pair of a rotation, and its mean share over heads."""

    index: int
    wavelength: float  # positions
    turns: float  # full rotations within the length
    share_q: float
    share_k: float | None  # None if only queries were measured
    share: float | None  # of the product

    @property
    def used(self) -> float:
        """Return the share of the product, or of the queries if keys are unknown."""
        return self.share_q if self.share is None else self.share


@dataclass(frozen=True)
class Portion:
    """Shares of a group of pairs."""

    pairs: int
    uniform: float  # share of the number of pairs
    q: float  # mean share of the energy of queries
    k: float | None
    product: float | None
    spread: float = field(default=0.0, metadata={"told": False})  # by chance: `shuffled_spread`

    @property
    def used(self) -> float:
        """Return the share of the product, or of the queries if keys are unknown."""
        return self.q if self.product is None else self.product

    @property
    def preference(self) -> int:
        """Return 1 for more than even use, -1 for less, 0 if use is even or may be chance."""
        excess = self.used - self.uniform
        is_even = abs(excess) <= max(EVEN * self.uniform, CHANCE * self.spread)
        return 0 if is_even else 1 if excess > 0 else -1


@dataclass(frozen=True)
class PairKind:
    """Shares of one kind of pairs of a rotation."""

    rotation: str | None
    kind: str
    portion: Portion


@dataclass(frozen=True)
class StrongPair:
    """A pair with one of the largest shares of its rotation."""

    rotation: str | None
    pair: PairUse


@dataclass(frozen=True)
class RotationUse:
    """Use of rotary pairs by the heads of all layers of one rotation."""

    name: str  # the type of layer, or empty
    pairs: tuple[PairUse, ...]
    never_turn: Portion
    often: Portion
    effective_pairs: float  # median over heads of exp(entropy of the shares)
    half: Counts  # the fewest pairs that hold half of the product
    half_rows: Counts = ()  # the rows of a head that hold these pairs
    pair_spread: float = field(default=0.0, metadata={"told": False})  # of one pair, by chance

    @property
    def part(self) -> str | None:
        """Return the type of layer; None if the model has one rotation."""
        return self.name or None

    @property
    def count(self) -> int:
        """Return the number of rotary pairs."""
        return len(self.pairs)

    @property
    def preference(self) -> str:
        """Return which pairs are used more or less than evenly, slow pairs before fast pairs.

        If both are used evenly, report whether few pairs hold most of a head's energy.
        """
        verdicts = {1: "favoured", -1: "neglected"}
        for name, portion in (("slow pairs", self.never_turn), ("fast pairs", self.often)):
            if portion.preference:
                return f"{name} {verdicts[portion.preference]}"
        return "few pairs used" if self.effective_pairs <= FEW * self.count else "no preference"

    @property
    def others(self) -> str:
        """A sentence on the other pairs that are used, or neglected, as much as the preferred."""
        is_slow = self.never_turn.preference != 0
        lead = self.never_turn if is_slow else self.often
        excess = (lead.used / lead.uniform - 1) * ALIKE if lead.uniform else 0.0
        even = 1 / self.count
        index = [
            pair.index
            for pair in self.pairs
            if (pair.turns >= 1 if is_slow else pair.turns <= OFTEN)
            and abs(pair.used - even) > CHANCE * self.pair_spread
            and (pair.used / even - 1) / excess >= 1
        ]
        if not index:
            return ""
        share = sum(pair.used for pair in self.pairs if pair.index in index)
        verb = "preferred" if excess > 0 else "neglected"
        subject = agreeing(len(index), f"Pair {index[0]} is", f"Pairs {ranges(index)} are")
        uniform = percent(len(index) * even, 2)
        return f" {subject} {verb} as much, with {percent(share, 2)} ({uniform} if even)."

    @property
    def strongest(self) -> list[StrongPair]:
        """Return the pairs with the largest shares, of queries if keys are unknown."""
        order = sorted(self.pairs, key=lambda pair: -pair.used)
        return [StrongPair(self.part, pair) for pair in order[:STRONGEST]]

    @property
    def kinds(self) -> Iterator[PairKind]:
        """Yield the shares of bands of equal size, high frequencies first, then of each kind."""
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
        yield PairKind(self.part, "without a full rotation", self.never_turn)
        yield PairKind(self.part, f"more than {OFTEN} rotations", self.often)


def summarise(
    name: str, frequencies: Floats, length: int, shares: Sequence[LayerShares]
) -> RotationUse:
    """Summarise the use of pairs with these frequencies over the heads of a rotation's layers."""
    used = np.concatenate([layer.used for layer in shares])
    used = used[~np.isnan(used).any(axis=1)]
    if not len(used):
        raise PefourierError("all queries or all keys are zero; no pair has a share")
    index = np.flatnonzero(frequencies)
    omega = frequencies[index]
    mean_q = np.nanmean(np.concatenate([layer.q for layer in shares]), axis=0)
    mean_k = head_mean([layer.k for layer in shares])
    mean_product = head_mean([layer.product for layer in shares])
    turns = omega * length / (2 * pi)
    entropy = -(used * np.log(np.where(used > 0, used, 1.0))).sum(axis=1)

    def portion(members: Bools) -> Portion:
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
        pair_spread=shuffled_spread(shares, 1 / len(index)),
        half=tuple(index[fewest_holding(used.mean(axis=0), 0.5)].tolist()),
    )


def total(shares: Iterable[float | None]) -> float | None:
    """Return the sum of shares; None if the pairs have no shares."""
    known = [share for share in shares if share is not None]
    return sum(known) if known else None


def share_of(means: Floats | None, pairs: int | Bools) -> float | None:
    """Return the mean share of one or several pairs; None if no head has shares."""
    return None if means is None else float(means[pairs].sum())


def head_mean(parts: Sequence[Floats]) -> Floats | None:
    """Return the mean of shares over the heads of some layers; None if no head has shares."""
    heads = np.concatenate(parts)
    return None if np.isnan(heads).all() else np.nanmean(heads, axis=0)


def shuffled_spread(shares: Sequence[LayerShares], part: float) -> float:
    """Return the standard deviation of the mean share of some pairs that chance alone causes.

    Random weights favour some pairs too. The estimate shuffles the pairs of each group of heads
    that share keys: the deviation is that of a sum of draws without replacement.
    """
    heads = sum(int((~np.isnan(layer.used).any(axis=1)).sum()) for layer in shares)
    pairs, squares = shares[0].used.shape[1], 0.0
    for layer in shares:
        groups = np.nansum(layer.used.reshape(layer.kv_heads, -1, pairs), axis=1) / heads
        squares += float(groups.var(axis=1, ddof=1).sum()) if pairs > 1 else 0.0
    return float(np.sqrt(squares * part * (1 - part) * pairs))


def fewest_holding(shares: Floats, part: float) -> Places:
    """Return the indices of the fewest shares that sum to at least a part of the total, sorted.

    >>> fewest_holding(np.array([0.1, 0.4, 0.2, 0.3]), 0.5).tolist()
    [1, 3]
    """
    order = np.argsort(-shares, kind="stable")
    count = int(np.searchsorted(np.cumsum(shares[order]), part * shares.sum() * (1 - 1e-12))) + 1
    return np.sort(order[:count])

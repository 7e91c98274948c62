"""Summarise the shares of rotary pairs over the heads of all layers of a rotation."""

from collections.abc import Sequence
from dataclasses import field
from math import pi

import numpy as np

from pefourier.errors import PefourierError
from pefourier.types import Bools, Counts, Floats, frozen
from pefourier.weights.pair_energy import LayerShares

OFTEN = 32  # a pair with more full rotations than this within the length counts as fast
EVEN = 0.1  # relative difference from the even share up to which use counts as even
CHANCE = 3.0  # difference, in spreads of shuffled pairs, up to which it may be chance
FEW = 0.5  # share of effective pairs up to which few pairs are used


@frozen
class PairUse:
    """A pair of a rotation, and its mean share over heads."""

    index: int
    wavelength: float  # positions
    turns: float  # full rotations within the length
    share_q: float
    share_k: float  # NaN if only queries were measured
    share: float  # of the product
    used: float = field(metadata={"told": False})  # `share`, or `share_q` if keys are unknown


@frozen
class Portion:
    """Shares of a group of pairs."""

    pairs: int
    uniform: float  # share of the number of pairs
    q: float  # mean share of the energy of queries
    k: float  # NaN if keys are unknown
    product: float
    used: float = field(metadata={"told": False})  # `product`, or `q` if keys are unknown
    spread: float = field(default=0.0, metadata={"told": False})  # by chance: `shuffled_spread`

    @property
    def preference(self) -> int:
        """Return 1 for more than even use, -1 for less, 0 if use is even or may be chance."""
        excess = self.used - self.uniform
        is_even = abs(excess) <= max(EVEN * self.uniform, CHANCE * self.spread)
        return 0 if is_even else 1 if excess > 0 else -1


@frozen
class RotationUse:
    """Use of rotary pairs by the heads of all layers of one rotation."""

    name: str  # the type of layer, or empty
    pairs: tuple[PairUse, ...]
    never_turn: Portion
    often: Portion
    effective_pairs: float  # median over heads of exp(entropy of the shares)
    half: Counts  # the fewest pairs that hold half of the product
    half_rows: Counts = ()  # the rows of a head that hold these pairs

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


def summarise(
    name: str, frequencies: Floats, length: int, shares: Sequence[LayerShares]
) -> RotationUse:
    """Summarise the use of pairs with these frequencies over the heads of a rotation's layers."""
    used = known_heads([layer.used for layer in shares])
    if not len(used):
        raise PefourierError("all queries or all keys are zero; no pair has a share")
    index = np.flatnonzero(frequencies)
    omega = frequencies[index]
    parts = ([getattr(layer, part) for layer in shares] for part in ("q", "k", "product"))
    with np.errstate(invalid="ignore"):  # of no head
        means = np.array([(h := known_heads(part)).sum(axis=0) / len(h) for part in parts])
    means = np.vstack([means, used.mean(axis=0)])
    turns, waves = omega * length / (2 * pi), 2 * pi / omega
    entropy = -(used * np.log(np.where(used > 0, used, 1.0))).sum(axis=1)

    def portion(members: Bools) -> Portion:
        uniform = float(members.mean())
        spread = shuffled_spread(shares, uniform)
        q, k, product, used = (means @ members).tolist()
        return Portion(int(members.sum()), uniform, q, k, product, used, spread)

    mean = used.mean(axis=0)
    strongest = np.argsort(-mean, kind="stable")
    held = np.cumsum(mean[strongest])
    count = int(np.searchsorted(held, 0.5 * held[-1] * (1 - 1e-12))) + 1
    return RotationUse(
        name=name,
        pairs=tuple(map(PairUse, index.tolist(), *np.vstack([waves, turns, means]).tolist())),
        never_turn=portion(turns < 1),
        often=portion(turns > OFTEN),
        effective_pairs=float(np.median(np.exp(entropy))),
        half=tuple(np.sort(index[strongest[:count]]).tolist()),
    )


def known_heads(parts: Sequence[Floats]) -> Floats:
    """Return the shares of all heads of some layers that have shares."""
    heads = np.concatenate(parts)
    return np.asarray(heads[~np.isnan(heads).any(axis=1)])


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

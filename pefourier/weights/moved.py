"""What of the use of pairs differs between two checkpoints of one model?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.weights.summary import OUTSTANDING, used_part

if TYPE_CHECKING:
    from pefourier.weights.usage import Usage


@dataclass(frozen=True)
class MovedHead:
    """A head whose shares differ between two checkpoints."""

    layer: int
    head: int
    moved: float  # half the sum of differences, 0 … 1


@dataclass(frozen=True)
class MovedRotation:
    """How much more is used than in the other checkpoint."""

    name: str
    never_turn: float
    often: float
    pairs: tuple[float, ...]


@dataclass(frozen=True)
class Moved:
    """What of the use of pairs differs between two checkpoints."""

    other: str
    moved: float  # mean over heads
    heads: tuple[MovedHead, ...]  # that differ most
    rotations: tuple[MovedRotation, ...]


def moved_since(found: "Usage", other: "Usage") -> Moved:
    """What of the use of pairs differs between two checkpoints of one model.

    Raises
    ------
    PefourierError
        For models whose layers, heads or pairs differ.
    """
    two = {(one.layer, one.rotation, one.used.shape): one.used for one in other.shares}
    apart = []
    for one in found.shares:
        own = two.get((one.layer, one.rotation, one.used.shape))
        if own is None:
            heads, pairs = one.used.shape
            raise PefourierError(
                f"{shown(other.model)} has no {heads} heads of {pairs} pairs in layer {one.layer}, "
                f"as {shown(found.model)} has; --against compares checkpoints of one model"
            )
        apart += [
            (float(share), one.layer, head)
            for head, share in enumerate(np.abs(one.used - own).sum(axis=1) / 2)
            if np.isfinite(share)
        ]
    if not apart:
        raise PefourierError("no head of both has a share that is not zero")
    far = sorted(apart, key=lambda one: (-one[0], one[1:]))[:OUTSTANDING]
    return Moved(
        other.model,
        float(np.mean([share for share, _, _ in apart])),
        tuple(MovedHead(layer, head, share) for share, layer, head in far),
        tuple(
            MovedRotation(
                a.name,
                used_part(a.never_turn) - used_part(b.never_turn),
                used_part(a.often) - used_part(b.often),
                tuple(used_part(p) - used_part(q) for p, q in zip(a.pairs, b.pairs, strict=True)),
            )
            for a, b in zip(found.rotations, other.rotations, strict=True)
        ),
    )

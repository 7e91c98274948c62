"""Dropout in a stack: each member drops its own share, the same whoever stands beside it.

Conventions
-----------
Whether a number stays is a hash of its member's seed and fold, of the step, of how many layers of
dropout it has passed and of its place: so a member in a stack is the member alone, encodings of one
seed and fold drop alike, and a CUDA graph drops anew in each replay, since the step is counted on
the device. The hash mixes 32 bits by two multiplications (Wellons, 2018, “lowbias32”): some ten
passes over memory, on a GPU compiled into one kernel where there is Triton, which makes the same of
whole numbers.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

FIRST, SECOND = 0x7FEB352D, 0x846CA68B - 2**32  # as signed numbers of 32 bits
SITE, STEP = 0x9E3779B9 - 2**32, 0x85EBCA6B - 2**32


def mix(x: Tensor) -> Tensor:
    """Mix numbers of 32 bits, so that neighbours have nothing in common; x is overwritten.

    >>> mix(torch.tensor([1, 2], dtype=torch.int32)).tolist()
    [1753845952, -787275391]
    """
    x ^= (x >> 16) & 0xFFFF  # a shift of signed numbers brings in the sign
    x *= FIRST
    x ^= (x >> 15) & 0x1FFFF
    x *= SECOND
    x ^= (x >> 16) & 0xFFFF
    return x


def drop_by_hash(x: Tensor, start: Tensor, least: Tensor, scale: Tensor) -> Tensor:
    """x (M, n) times its member's scale where the hash of a place, begun at `start`, is enough."""
    place = torch.arange(x.shape[1], dtype=torch.int32, device=x.device)
    stays = mix(place ^ start) >= least
    return x * (stays * scale.to(x.dtype))


@cache
def kernel_for(device: str) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """`drop_by_hash` as a device runs it."""
    if device != "cuda" or find_spec("triton") is None:
        return drop_by_hash
    return torch.compile(drop_by_hash, dynamic=True)


class Dropout:
    """Drops from (M, …) in training, for each member its own share; the rest is scaled up."""

    def __init__(self, shares: Sequence[float], keys: Sequence[int], count: Tensor) -> None:
        device = count.device
        least = [round(share * 2**32) - 2**31 for share in shares]
        self.least = torch.tensor(least, dtype=torch.int32, device=device)[:, None]
        scale = [1 / (1 - share) for share in shares]
        self.scale = torch.tensor(scale, dtype=torch.float64, device=device)[:, None]
        keys = torch.tensor([key % 2**31 for key in keys], dtype=torch.int32, device=device)
        self.keys = mix(keys)[:, None]
        self.count = count  # of steps, int32 on the device
        self.site = 0

    def begin(self) -> "Dropout":
        """Begin a forward pass."""
        self.site = 0
        return self

    def __call__(self, x: Tensor) -> Tensor:
        """Drop from x (M, …)."""
        self.site += 1
        start = mix(self.keys ^ (self.count * STEP + self.site * SITE % 2**31))  # (M, 1)
        kernel = kernel_for(x.device.type)
        return kernel(x.flatten(1), start, self.least, self.scale).view_as(x)

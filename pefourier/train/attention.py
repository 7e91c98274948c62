"""How attention receives codes: added to its input, turning, as a bias, or as vectors of keys.

In a stack, members stand in the order of `ACTS`, each act is one slice of the members, and only
that slice pays for it. Keys that are `hidden`, a mask that broadcasts to (m, B, H, T, T), get no
attention: those of padding, and later ones where a model is causal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pefourier.nn import turn
from pefourier.train.injection import ACTS, Injection

FEW_TOKENS = 32  # up to which attention is written out on a processor


@dataclass(frozen=True, eq=False)
class MemberCodes:
    """Codes of a stack's members of one act, padded to the largest number of distinct codes."""

    members: slice  # of those of the stack
    codes: Tensor  # (m, U, k)
    index: Tensor  # (m, places)
    trained: bool  # some of them
    learn: Tensor  # which are, to be broadcast to `start`, bool
    start: Tensor  # of training: the codes, or (m, axes, k / 2) frequencies of rotations
    places: Tensor | None = None  # (m, U, axes) of rotations

    def table(self, trained: Tensor | None) -> Tensor:
        """Codes of all places, those under training from `trained`, which began as `start`."""
        codes = self.codes
        if trained is not None and self.places is not None:
            change = torch.where(self.learn, trained - self.start, 0.0)
            # no matrix product: on a GPU its angles would be of bfloat16
            angle = (self.places[..., None] * change[:, None]).sum(dim=2)  # (m, U, k / 2)
            codes = turn(codes, angle.cos(), angle.sin())
        elif trained is not None:
            codes = torch.where(self.learn, trained, codes)
        at = self.index[:, :, None].expand(-1, -1, codes.shape[2])
        return codes.gather(1, at)  # (m, places, k)


def codes_by_act(
    injections: Sequence[Injection], device: torch.device, dtype: torch.dtype
) -> dict[str, MemberCodes]:
    """The codes of each act; members must stand in the order of `ACTS`."""
    acts = [one.act for one in injections]
    assert acts == sorted(acts, key=ACTS.index), "members stand in the order of ACTS"
    found = {}
    for act in dict.fromkeys(acts):
        own = [one for one in injections if one.act == act]
        codes = start = as_tensor([one.codes for one in own], device, dtype)
        learn, places = [np.full((1, 1), one.learn) for one in own], None
        if any(one.places is not None for one in own):
            none = np.zeros((0, 0))  # of a rotation that says no frequencies
            waves = [none if one.frequencies is None else one.frequencies for one in own]
            learn = [one.learn & (wave != 0) for one, wave in zip(own, waves, strict=True)]
            start = as_tensor(waves, device, dtype)
            places = as_tensor(
                [none if one.places is None else one.places for one in own], device, dtype
            )
        found[act] = MemberCodes(
            members=slice(acts.index(act), acts.index(act) + len(own)),
            codes=codes,
            index=torch.as_tensor(np.stack([one.index for one in own])).to(device),
            trained=any(one.learn for one in own),
            learn=as_tensor(learn, device, torch.bool),
            start=start,
            places=places,
        )
    return found


def padded(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of several sizes as one, filled up with zeros at their ends."""
    most = np.max([one.shape for one in arrays], axis=0)
    return np.stack([np.pad(one, [(0, n) for n in most - one.shape]) for one in arrays])


def as_tensor(arrays: Sequence[np.ndarray], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Arrays of all members as one tensor, filled up with zeros."""
    return torch.as_tensor(padded(arrays)).to(device=device, dtype=dtype)


def most_windows(heads: int, tokens: int, size: int) -> int:
    """How many windows of all members CUDA's attention can index at once.

    A grid has 2^16 - 1 rows, and flash attention's backward pass counts elements, tokens padded to
    multiples of 128 and a head of `size` to one of 32, in 31 bits (pytorch issues 142228 and
    146704, TabPFN 1184).

    >>> most_windows(4, 25, 8), most_windows(16, 1024, 64), most_windows(16, 1024, 40)
    (65535, 2048, 2048)
    """
    padded = heads * 128 * -(-tokens // 128) * 32 * -(-size // 32)
    return max(1, min(2**16 - 1, 2**31 // padded))


def heads_first(x: Tensor) -> Tensor:
    """(m, B, T, H, c) as (m B, H, T, c), what scaled_dot_product_attention takes."""
    return x.flatten(0, 1).transpose(1, 2)


def heads_last(x: Tensor, m: int) -> Tensor:
    """(m B, H, T, c) as (m, B, T, H c), what the rest of the classifier takes."""
    return x.transpose(1, 2).flatten(2).unflatten(0, (m, -1))


class WrittenAttention(torch.autograd.Function):
    """Attention written out on a processor, of (N, T, c) each; a bias (n, T, T) is of every n-th.

    The fused kernel is made for long rows; of 25 tokens a training step of 16 members takes 1.2
    times as long with it, which has no gradient for biases either. Weights are kept for the way
    back, which few tokens have few of.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, hidden: Tensor | None
    ) -> Tensor:
        scores = torch.bmm(q, k.transpose(1, 2)).mul_(q.shape[2] ** -0.5)
        if bias is not None:
            scores.view(-1, *bias.shape).add_(bias)
        if hidden is not None:
            scores.view(hidden.shape).masked_fill_(hidden, -torch.inf)
        weights = torch.softmax(scores, dim=2)
        ctx.save_for_backward(q, k, v, weights)
        ctx.biases = 0 if bias is None else len(bias)
        return torch.bmm(weights, v)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights = ctx.saved_tensors
        to_weights = torch.bmm(g, v.transpose(1, 2))
        to_scores = torch.ops.aten._softmax_backward_data(to_weights, weights, 2, q.dtype)
        to_bias = (
            to_scores.unflatten(0, (-1, ctx.biases)).sum(0) if ctx.needs_input_grad[3] else None
        )
        to_scores.mul_(q.shape[2] ** -0.5)
        rows = torch.bmm(to_scores, k), torch.bmm(to_scores.transpose(1, 2), q)
        return *rows, torch.bmm(weights.transpose(1, 2), g), to_bias, None


def attend_few(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
    """Attention of few tokens (m, B, T, H, c) on a processor."""
    m, batch, length, heads, _ = q.shape
    if hidden is not None:
        hidden = hidden.expand(m, batch, heads, length, length)
    parts = (x.transpose(2, 3).flatten(0, 2) for x in (q, k, v))  # (m B H, T, c)
    mixed = WrittenAttention.apply(*parts, None, hidden)
    return mixed.unflatten(0, (m, batch, heads)).transpose(2, 3).flatten(3)


def attend(q: Tensor, k: Tensor, v: Tensor, table: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Attention that knows of position only what its input (m, B, T, H, c) holds."""
    if q.device.type == "cpu" and q.shape[2] <= FEW_TOKENS:
        return attend_few(q, k, v, hidden)
    seen = None if hidden is None else ~hidden.flatten(0, 1)
    mixed = F.scaled_dot_product_attention(*map(heads_first, (q, k, v)), attn_mask=seen)
    return heads_last(mixed, len(q))


def attend_by_rotation(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, hidden: Tensor | None = None
) -> Tensor:
    """Attention with queries and keys turned by their position (Su et al., 2021).

    A code's length relative to that of position 0 decays in xpos; keys have its inverse.
    """
    cosine, sine = table.chunk(2, dim=2)  # (m, T, pairs)
    square = cosine**2 + sine**2
    inverse = square[:, :1] / square
    cosine, sine, inverse = (x[:, None, :, None] for x in (cosine, sine, inverse))
    q, k = turn(q, cosine, sine), turn(k, cosine * inverse, sine * inverse)
    return attend(q, k, v, table, hidden)


def attend_with_bias(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, hidden: Tensor | None = None
) -> Tensor:
    """Attention with a number for each pair of positions and head added to the logits."""
    m, length, heads = len(q), q.shape[2], q.shape[3]
    bias = table.unflatten(1, (length, length)).permute(0, 3, 1, 2).flatten(0, 1)  # (m H, T, T)
    q, k, v = (x.permute(1, 0, 3, 2, 4).flatten(1, 2) for x in (q, k, v))  # (B, m H, T, c)
    bias = bias.to(q.dtype)
    if q.device.type == "cpu" and length <= FEW_TOKENS:
        if hidden is not None:
            hidden = hidden.transpose(0, 1).expand(len(q), m, heads, length, length)
        rows = WrittenAttention.apply(*(x.flatten(0, 1) for x in (q, k, v)), bias, hidden)
        out = rows.unflatten(0, q.shape[:2])
    else:
        bias = bias[None]
        if hidden is not None:
            of_members = bias.unflatten(1, (m, heads))  # (1, m, H, T, T)
            bias = of_members.masked_fill(hidden.transpose(0, 1), -torch.inf).flatten(1, 2)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return out.unflatten(1, (m, heads)).permute(1, 0, 3, 2, 4).flatten(3)


def attend_with_lag_keys(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, hidden: Tensor | None = None
) -> Tensor:
    """Attention with a vector of the lag added to each key (Shaw et al., 2018, Eq. 3)."""
    m, batch, length, heads, size = q.shape
    by_lag = torch.einsum("mbthc,mlc->mbhtl", q, table.to(q.dtype))  # l: lag + T - 1
    at = torch.arange(length, device=q.device)
    lag = (at - at[:, None] + length - 1).expand(m, batch, heads, length, length)
    bias = by_lag.gather(4, lag) * size**-0.5
    if hidden is not None:
        bias = bias.masked_fill(hidden, -torch.inf)
    bias = bias.flatten(0, 1)  # (m B, H, T, T)
    q, k, v = map(heads_first, (q, k, v))
    return heads_last(F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype)), m)


ATTEND = {
    "add": attend,
    "rotate": attend_by_rotation,
    "bias": attend_with_bias,
    "key": attend_with_lag_keys,
}

"""One path through attention: scores = q·k / √c + bias, with q and k turned, and codes added.

Every member of a stack takes it, whatever it injects: codes that are not its own add nothing, turn
by nothing and bias nothing. What no member has is left out. Codes of lags are added to keys, and
where they are twice as long as a key their second half to values. Keys that are `hidden`, those of
padding, get no attention.

Shapes: M members, B windows, T tokens, H heads of c dimensions; a bias is (M, 1 or B, H, T, T).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pefourier.train.injection import ACTS, Injection

FEW_TOKENS = 64  # up to which attention is written out on a processor


@dataclass(frozen=True, eq=False)
class StackCodes:
    """Codes of one act for all members of a stack, padded to the largest number of them."""

    codes: Tensor  # (M, U, k)
    index: Tensor  # (M, places)
    trained: bool  # some of them
    learn: Tensor  # which are, to be broadcast to `start`, bool
    start: Tensor  # of training: the codes, or (M, axes, k / 2) frequencies of rotations
    places: Tensor | None = None  # (M, U, axes) of rotations

    def table(self, trained: Tensor | None) -> Tensor:
        """Codes of all places, those under training from `trained`, which began as `start`."""
        codes = self.codes
        if trained is not None and self.places is not None:
            from pefourier.nn import turn  # with all that it imports, for rotations alone

            change = torch.where(self.learn, trained - self.start, 0.0)
            # no matrix product: on a GPU its angles would be of bfloat16
            angle = (self.places[..., None] * change[:, None]).sum(dim=2)  # (M, U, k / 2)
            codes = turn(codes, angle.cos(), angle.sin())
        elif trained is not None:
            codes = torch.where(self.learn, trained, codes)
        index = self.index[:, :, None].expand(-1, -1, codes.shape[2])
        return codes.gather(1, index)  # (M, places, k)


def stack_codes(
    injections: Sequence[Injection], device: torch.device, dtype: torch.dtype
) -> dict[str, StackCodes]:
    """The codes of each act that some member has; the others' do nothing."""
    acts = [act for act in ACTS if any(m.act == act and m.has_codes for m in injections)]
    return {act: codes_of_act(act, injections, device, dtype) for act in acts}


def codes_of_act(
    act: str, injections: Sequence[Injection], device: torch.device, dtype: torch.dtype
) -> StackCodes:
    """The codes of an act for all members."""
    first = next(m for m in injections if m.act == act)
    nothing = first.without_effect()
    members = [m if m.act == act else nothing for m in injections]
    codes = start = as_tensor([m.codes for m in members], device, dtype)
    learn, places = [np.full((1, m.codes.shape[1]), m.learn) for m in members], None
    if any(m.places is not None for m in members):
        none = np.zeros((0, 0))  # of a rotation that says no frequencies
        waves = [none if m.frequencies is None else m.frequencies for m in members]
        learn = [m.learn & (wave != 0) for m, wave in zip(members, waves, strict=True)]
        start = as_tensor(waves, device, dtype)
        of_members = [none if m.places is None else m.places for m in members]
        places = as_tensor(of_members, device, dtype)
    return StackCodes(
        codes=codes,
        index=torch.as_tensor(np.stack([m.index for m in members])).to(device),
        trained=any(m.learn for m in members),
        learn=as_tensor(learn, device, torch.bool),
        start=start,
        places=places,
    )


def pad_to_one_shape(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of several sizes as one, filled up with zeros at their ends."""
    largest = np.max([array.shape for array in arrays], axis=0)
    return np.stack([np.pad(array, [(0, n) for n in largest - array.shape]) for array in arrays])


def as_tensor(arrays: Sequence[np.ndarray], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Arrays of all members as one tensor, filled up with zeros."""
    return torch.as_tensor(pad_to_one_shape(arrays)).to(device=device, dtype=dtype)


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


def turn_by_positions(q: Tensor, k: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys (M, B, T, H, c) turned by their position (Su et al., 2021).

    A code's length relative to that of position 0 decays in xpos; keys have its inverse.
    """
    from pefourier.nn import turn

    cosine, sine = table.chunk(2, dim=2)  # (M, T, pairs)
    square = cosine**2 + sine**2
    inverse = square[:, :1] / square
    cosine, sine, inverse = (x[:, None, :, None] for x in (cosine, sine, inverse))
    return turn(q, cosine, sine), turn(k, cosine * inverse, sine * inverse)


def bias_of_pairs(table: Tensor, length: int) -> Tensor:
    """A number for each pair of positions and head, (M, 1, H, T, T), from codes (M, T T, H)."""
    return torch.unflatten(table, 1, (length, length)).permute(0, 3, 1, 2)[:, None]


def lags_of_pairs(shape: Sequence[int], device: torch.device) -> Tensor:
    """The lag key - query + T - 1 of each pair of positions, (…, T, T)."""
    positions = torch.arange(shape[-1], device=device)
    return (positions - positions[:, None] + shape[-1] - 1).expand(shape)


def bias_of_lag_keys(q: Tensor, table: Tensor) -> Tensor:
    """Scores (M, B, H, T, T) of a vector of the lag added to each key (Shaw et al., 2018)."""
    by_lag = torch.einsum("mbthc,mlc->mbhtl", q, table.to(q.dtype))  # l: lag + T - 1
    lags = lags_of_pairs((*by_lag.shape[:4], q.shape[2]), q.device)
    return torch.mul(by_lag.gather(4, lags), q.shape[4] ** -0.5)


def sum_lag_values(weights: Tensor, table: Tensor) -> Tensor:
    """Rows (M, B, H, T, c) of a vector of the lag added to each value (Shaw et al., 2018)."""
    by_lag = weights.new_zeros(*weights.shape[:4], table.shape[1])
    by_lag = by_lag.scatter(4, lags_of_pairs(weights.shape, weights.device), weights)
    return torch.einsum("mbhtl,mlc->mbhtc", by_lag, table.to(weights.dtype))


def attend_in_full(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    hidden: Tensor | None,
    values: Tensor | None,
) -> Tensor:
    """Attention (M, B, H, T, c) of rows (M, B, H, T, c), written out."""
    rows = [x.flatten(0, 2) for x in (q, k, v)]  # (M B H, T, c)
    scores = torch.bmm(rows[0], rows[1].transpose(1, 2)).view(*q.shape[:4], q.shape[3])
    scores = scores * q.shape[4] ** -0.5
    if bias is not None:
        scores = scores.add_(bias)
    if hidden is not None:
        scores = scores.masked_fill_(hidden, -torch.inf)
    weights = scores.softmax(4)
    mixed = torch.bmm(weights.flatten(0, 2), rows[2]).view(v.shape)
    return mixed if values is None else mixed + sum_lag_values(weights, values)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    hidden: Tensor | None,
    values: Tensor | None = None,
) -> Tensor:
    """Attention (M, B, T, H c) of queries, keys and values (M, B, T, H, c).

    Few tokens on a processor, and `values` of lags, have it written out: the fused kernel is made
    for long rows, and gives no weights.
    """
    m, batch, length, heads, _ = q.shape
    q, k, v = (x.transpose(2, 3) for x in (q, k, v))  # (M, B, H, T, c)
    if values is not None or (q.device.type == "cpu" and length <= FEW_TOKENS):
        return attend_in_full(q, k, v, bias, hidden, values).transpose(2, 3).flatten(3)
    if bias is not None and hidden is not None:
        bias = bias.masked_fill(hidden, -torch.inf)
    if bias is not None and bias.shape[1] == 1:  # once for all windows: heads of all members
        q, k, v = (x.transpose(0, 1).flatten(1, 2) for x in (q, k, v))  # (B, M H, T, c)
        mask = bias.transpose(0, 1).flatten(1, 2).to(q.dtype)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return torch.unflatten(mixed, 1, (m, heads)).permute(1, 0, 3, 2, 4).flatten(3)
    attended = None if hidden is None else ~hidden.flatten(0, 1)
    if bias is not None:
        attended = bias.flatten(0, 1).to(q.dtype)
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))  # (M B, H, T, c)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=attended)
    return torch.unflatten(mixed, 0, (m, batch)).transpose(2, 3).flatten(3)

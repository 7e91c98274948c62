"""How attention receives codes: added to the input, turning, as a bias, or as vectors of keys.

Conventions
-----------
An `Injection` holds an encoding's distinct codes (U, k) and which of them each place has: places
are positions (add, rotate), pairs query · key (bias), or lags (key). Training moves the codes, so
that places that share one go on sharing it. In a stack, members stand in the order of `ACTS`, each
act is one slice of the members, and only that slice pays for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pefourier.encodings import load
from pefourier.encodings.columns import split_pairs
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.registry import BUILDERS
from pefourier.encodings.specs import source_of
from pefourier.errors import PefourierError

ACTS = ("add", "rotate", "bias", "key")


@dataclass(frozen=True, eq=False)
class Injection:
    """What one member injects: distinct codes and the code of each place."""

    act: str
    codes: np.ndarray  # (U, k) float64
    index: np.ndarray  # (places,) row of codes
    learn: bool
    domain: str = "position"
    params: Mapping[str, Any] = field(default_factory=dict)  # of the encoding, defaults too

    def as_rows(self, table: np.ndarray) -> np.ndarray:
        """Codes of all places as the encoding's own table: a row a position, or a lag."""
        if self.act != "bias":
            return table
        n = int(len(table) ** 0.5)
        if self.domain == "lag":  # the last query sees lags 1 - n … 0, the first 0 … n - 1
            return np.concatenate([table[-n:], table[1:n]])
        return table.reshape(n, n, -1).transpose(0, 2, 1).reshape(n, -1)

    def table(self) -> np.ndarray:
        """The code of every place, shape (places, k)."""
        return self.codes[self.index]


def injection(
    spec: str, length: int, d: int, heads: int, seed: int, learn: bool = False
) -> Injection:
    """The codes of a SPEC for `length` tokens of dimension d and `heads` heads.

    With `learn`, and always where codes are but the start of training, they are
    trained; rotations keep their angles.
    """
    given = source_of(spec) in ("name", "code")  # files have the d they have
    enc = load(spec, length, d if given else None, seed=seed)
    k = {"add": d, "rotate": d // heads, "key": d // heads, "bias": heads}[enc.act]
    enc = resized(spec, enc, length, d, heads, seed)
    table = of_places(enc, length, heads, k)
    if table.shape[1] != k or len(table) != places(enc.act, length):
        raise PefourierError(
            f"{spec} has codes of {table.shape[1]} dimensions for {len(enc)} points; act "
            f"{enc.act!r} with d={d} and {heads} heads needs {k} dimensions for {length} tokens"
        )
    codes, index = np.unique(table, axis=0, return_inverse=True)
    trained = (learn or enc.untrained) and enc.act != "rotate" and enc.name != "none"
    return Injection(enc.act, codes, index.reshape(-1), trained, enc.domain.kind, enc.params)


def resized(spec: str, enc: Encoding, length: int, d: int, heads: int, seed: int) -> Encoding:
    """The encoding for one head, where d of a code is a head's size or their number."""
    if enc.act == "add" or enc.origin != "formula":
        return enc
    if "heads" in BUILDERS[enc.name].parameters:
        joined = "," if ":" in spec else ":"
        return load(f"{spec}{joined}heads={heads}", length, d, seed=seed)
    own = heads if enc.act == "bias" else d // heads
    return load(spec, length, own, seed=seed)


def places(act: str, length: int) -> int:
    """How many places have a code."""
    return {"add": length, "rotate": length, "bias": length**2, "key": 2 * length - 1}[act]


def of_places(enc: Encoding, length: int, heads: int, k: int) -> np.ndarray:
    """The code of each place, shape (places, k)."""
    table = np.asarray(enc.table(), dtype=float)
    if enc.domain.kind == "lag":
        if len(table) != 2 * length - 1:
            raise PefourierError(
                f"{enc.spec} has no codes of later keys, which this classifier attends to"
                + "; leave out causal=true" * (source_of(enc.spec) == "name")
            )
        at = np.arange(length)
        lag = (at - at[:, None] + length - 1).ravel()  # key - query
        return table[lag] if enc.act == "bias" else table
    if enc.act == "bias":  # a query's biases to all keys, heads side by side
        return table.reshape(length, heads, length).transpose(0, 2, 1).reshape(-1, heads)
    if enc.act == "rotate":
        return in_halves(enc, table, k)
    return table


def in_halves(enc: Encoding, table: np.ndarray, k: int) -> np.ndarray:
    """Cosines and then sines of k / 2 pairs; those that the encoding does not turn have angle 0.

    Which dimensions make a pair is no matter to a model whose weights are drawn at random.
    """
    parts = split_pairs(table, enc.params.get("layout", "halves"))
    still = max(k // 2 - parts[0].shape[1], 0)
    return np.hstack(
        [np.pad(part, ((0, 0), (0, still)), constant_values=1 - i) for i, part in enumerate(parts)]
    )


def matched(one: Injection, rms: float) -> Injection:
    """The same codes scaled so that their root mean square over all positions is `rms`."""
    own = float(np.sqrt((one.table() ** 2).mean()))
    return replace(one, codes=one.codes * (rms / own if own else 1.0))


@dataclass(frozen=True, eq=False)
class Stacked:
    """Codes of the members of one act, padded to the largest number of distinct codes."""

    members: slice  # of the stack
    codes: Tensor  # (m, U, k)
    index: Tensor  # (m, places)
    learn: Tensor  # (m, 1, 1) bool

    def table(self, trained: Tensor | None) -> Tensor:
        """Codes of all places, those under training from `trained` (m, U, k)."""
        codes = self.codes if trained is None else torch.where(self.learn, trained, self.codes)
        at = self.index[:, :, None].expand(-1, -1, codes.shape[2])
        return codes.gather(1, at)  # (m, places, k)


def stack(
    injections: Sequence[Injection], device: torch.device, dtype: torch.dtype
) -> dict[str, Stacked]:
    """Each act's codes; members must stand in the order of `ACTS`."""
    acts = [one.act for one in injections]
    assert acts == sorted(acts, key=ACTS.index), "members stand in the order of ACTS"
    stacked = {}
    for act in dict.fromkeys(acts):
        own = [one for one in injections if one.act == act]
        most = max(len(one.codes) for one in own)
        codes = np.stack([np.pad(one.codes, ((0, most - len(one.codes)), (0, 0))) for one in own])
        stacked[act] = Stacked(
            slice(acts.index(act), acts.index(act) + len(own)),
            torch.tensor(codes, dtype=dtype, device=device),
            torch.tensor(np.stack([one.index for one in own]), device=device),
            torch.tensor([one.learn for one in own], device=device)[:, None, None],
        )
    return stacked


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


def back(x: Tensor, m: int) -> Tensor:
    """(m B, H, T, c) as (m, B, T, H c)."""
    return x.transpose(1, 2).flatten(2).unflatten(0, (m, -1))


def plain(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """Attention that knows nothing of position beyond its input (m, B, T, H, c)."""
    return back(F.scaled_dot_product_attention(*map(heads_first, (q, k, v))), len(q))


def rotated(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """Queries and keys turned by their position (Su et al., 2021).

    A code's length relative to that of position 0 decays in xpos; keys have its inverse.
    """
    cosine, sine = table.chunk(2, dim=2)  # (m, T, pairs)
    square = cosine**2 + sine**2
    inverse = square[:, :1] / square
    turned = turn(q, cosine, sine), turn(k, cosine * inverse, sine * inverse)
    return plain(*turned, v, table)


def turn(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Pairs (i, i + c / 2) of the dimensions of a head turned."""
    a, b = x.chunk(2, dim=-1)  # (m, B, T, H, c / 2)
    cosine, sine = cosine[:, None, :, None], sine[:, None, :, None]
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1).to(x.dtype)


def biased(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """A number for each pair of positions and head added to the logits."""
    m, length, heads = len(q), q.shape[2], q.shape[3]
    bias = table.unflatten(1, (length, length)).permute(0, 3, 1, 2).flatten(0, 1)  # (m H, T, T)
    q, k, v = (x.permute(1, 0, 3, 2, 4).flatten(1, 2) for x in (q, k, v))  # (B, m H, T, c)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype)[None])
    return out.unflatten(1, (m, heads)).permute(1, 0, 3, 2, 4).flatten(3)


def keyed(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """A vector of the lag added to each key (Shaw et al., 2018, Eq. 3)."""
    m, batch, length, heads, size = q.shape
    by_lag = torch.einsum("mbthc,mlc->mbhtl", q, table.to(q.dtype))  # l: lag + T - 1
    at = torch.arange(length, device=q.device)
    lag = (at - at[:, None] + length - 1).expand(m, batch, heads, length, length)
    bias = by_lag.gather(4, lag).flatten(0, 1) * size**-0.5  # (m B, H, T, T)
    q, k, v = map(heads_first, (q, k, v))
    return back(F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype)), m)


ATTEND = {"add": plain, "rotate": rotated, "bias": biased, "key": keyed}

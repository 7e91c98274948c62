"""The classifier of the paper's section 2.2, for many members at once.

Conventions
-----------
M members, B windows a batch, L rows and C channels a window, T tokens of `patch` rows, d
dimensions, H heads of c = d / H, K classes. Every parameter has the member first: (M, …). Layers
are those of ``torch.nn.TransformerEncoderLayer`` (norm after each sum, ReLU) without biases on
queries, keys and values; logits are read from a pool of the tokens. Dropout stands where torch has
it, but for the weights of attention, which its fused kernels drop for all members alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from pefourier.encodings.checks import WIDEST, check_count
from pefourier.errors import PefourierError
from pefourier.train.attention import ATTEND, MemberCodes
from pefourier.train.dropout import Dropout
from pefourier.train.options import Options, Pool

Parameters = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]  # without the member


@dataclass(frozen=True)
class Transformer:
    """Sizes of the classifier."""

    length: int  # rows of a window
    channels: int
    classes: int
    d: int = Options.d
    heads: int = Options.heads
    layers: int = Options.layers
    patch: int = Options.patch  # rows a token
    stride: int | None = None  # rows from a token to the next; those of a token
    ffn: int | None = None  # twice d
    pool: Pool = Options.pool
    grid: tuple[int, ...] = ()  # sides, where rows are points in raster order
    causal: bool = False  # tokens see those before them, and each has logits

    def __post_init__(self) -> None:
        for key in ("d", "heads", "layers", "patch", "stride", "ffn"):
            if getattr(self, key) is not None:
                check_count(f"--{OPTION_OF.get(key, key)}", getattr(self, key), 1, WIDEST)
        if self.d % self.heads or self.d // self.heads % 2:
            raise PefourierError(
                f"--d must be an even multiple of --heads {self.heads}; got {self.d}"
            )
        self.check_tokens()

    def check_tokens(self) -> None:
        """Refuse tokens that do not cover the rows of a window."""
        if self.step == self.patch and self.length % self.patch:
            raise PefourierError(
                f"--patch must divide the {self.length} rows of a window; got {self.patch}"
            )
        if self.patch > self.length or (self.length - self.patch) % self.step:
            raise PefourierError(
                f"tokens of --patch {self.patch} rows must end with the {self.length} rows of a "
                f"window: --patch-stride must divide {self.length - self.patch}; got {self.step}"
            )
        if self.step > self.patch:
            raise PefourierError(f"--patch-stride must be at most {self.patch}; got {self.step}")

    @property
    def step(self) -> int:
        """Rows from one token to the next."""
        return self.patch if self.stride is None else self.stride

    @property
    def tokens(self) -> int:
        return (self.length - self.patch) // self.step + 1

    @property
    def wide(self) -> int:
        """Width within the feed-forward layer."""
        return 2 * self.d if self.ffn is None else self.ffn

    @property
    def pooled(self) -> int:
        """How many numbers the class is read from."""
        return self.d * (1 + self.pool.count("+"))

    @property
    def size(self) -> int:
        """How many numbers the parameters of one member are."""
        return sum(map(prod, self.shapes().values()))

    def shapes(self) -> Shapes:
        """Parameters of one member; weights are (inputs, outputs)."""
        d, wide = self.d, self.wide
        shapes = {"project.w": (self.patch * self.channels, d), "project.b": (1, d)}
        for i in range(self.layers):
            shapes |= {
                f"{i}.qkv.w": (d, 3 * d),
                f"{i}.out.w": (d, d),
                f"{i}.out.b": (1, d),
                f"{i}.wide.w": (d, wide),
                f"{i}.wide.b": (1, wide),
                f"{i}.narrow.w": (wide, d),
                f"{i}.narrow.b": (1, d),
            } | {f"{i}.norm{n}.{p}": (1, 1, d) for n in (1, 2) for p in ("gain", "shift")}
        return shapes | {"head.w": (self.pooled, self.classes), "head.b": (1, self.classes)}

    def logits(
        self,
        p: Parameters,
        injected: Mapping[str, MemberCodes],
        x: Tensor,
        drop: Dropout | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Logits (M, B, K) of windows (M, B, L, C); `drop` is given in training.

        Of `lengths` (M, B) rows are there, and what follows is padding, which must be finite.
        """
        m, batch = x.shape[:2]
        drop = drop or kept
        # of one type whoever stands beside: added codes would make all of a stack float32
        h = affine(p, "project", self.cut(x).flatten(1, 2)).to(x.dtype)
        h = h.unflatten(1, (batch, self.tokens))  # (M, B, T, d)
        tables = {act: one.table(p.get(f"codes.{act}")) for act, one in injected.items()}
        if "add" in tables:
            rest = m - len(tables["add"])  # members of other acts, which stand behind
            h = h + F.pad(tables["add"], (0, 0, 0, 0, 0, rest))[:, None]
        h = drop(h)
        padding = None if lengths is None else self.find_padding(lengths)  # (M, B, T)
        hidden = None if padding is None else padding[:, :, None, None]  # (M, B, H, T, T)
        if self.causal:
            every = torch.ones(self.tokens, self.tokens, dtype=torch.bool, device=x.device)
            hidden = every.triu(1)[None, None, None]
        for i in range(self.layers):
            h = layer_norm(p, f"{i}.norm1", h + drop(self.attention(p, i, h, tables, hidden)))
            wide = drop(affine(p, f"{i}.wide", h.flatten(1, 2)).relu())
            narrow = drop(affine(p, f"{i}.narrow", wide))
            h = layer_norm(p, f"{i}.norm2", h + narrow.view_as(h))
        if self.causal:
            return affine(p, "head", h.flatten(1, 2)).unflatten(1, (batch, self.tokens))
        return affine(p, "head", POOLS[self.pool](h, padding))

    def find_padding(self, lengths: Tensor) -> Tensor:
        """Which tokens (M, B, T) begin behind those that cover so many rows (M, B)."""
        tokens = 1 + ((lengths - self.patch).clamp(min=0) + self.step - 1) // self.step
        return torch.arange(self.tokens, device=lengths.device) >= tokens[:, :, None]

    def cut(self, x: Tensor) -> Tensor:
        """Tokens (M, B, T, patch C) of windows (M, B, L, C)."""
        if self.step == self.patch:
            return x.reshape(*x.shape[:2], self.tokens, self.patch * self.channels)
        return x.unfold(2, self.patch, self.step).transpose(3, 4).flatten(3)

    def attention(
        self, p: Parameters, i: int, h: Tensor, tables: Mapping[str, Tensor], hidden: Tensor | None
    ) -> Tensor:
        """H-head self-attention, each act's members in their own way; `hidden` keys get none."""
        size = (*h.shape[1:3], self.heads, self.d // self.heads)
        members = [len(table) for table in tables.values()]
        weights = p[f"{i}.qkv.w"].split(members)
        whole = hidden is None or self.causal  # the same for all members
        unseen = [hidden] * len(members) if whole else hidden.split(members)
        parts = []
        for act, own, w, out in zip(tables, h.split(members), weights, unseen, strict=True):
            # one product each: the gradient of one that is cut in three is put together by a copy
            qkv = (
                torch.bmm(own.flatten(1, 2), one).unflatten(1, size[:2])
                for one in w.chunk(3, dim=2)
            )
            parts.append(ATTEND[act](*(x.unflatten(3, size[2:]) for x in qkv), tables[act], out))
        mixed = torch.cat(parts)
        return affine(p, f"{i}.out", mixed.flatten(1, 2)).view_as(h)


def kept(x: Tensor) -> Tensor:
    """What is dropped where nothing is."""
    return x


OPTION_OF = {"stride": "patch-stride"}


def mean_of(x: Tensor, padding: Tensor | None) -> Tensor:
    """Mean (M, B, C) over what is no padding (M, B, T) of x (M, B, T, C)."""
    if padding is None:
        return x.mean(dim=2)
    there = ~padding[..., None]
    return (x * there).sum(dim=2) / there.sum(dim=2)


def greatest_of(x: Tensor, padding: Tensor | None) -> Tensor:
    """The greatest (M, B, C) of what is no padding (M, B, T) of x (M, B, T, C)."""
    if padding is None:
        return x.amax(dim=2)
    return x.masked_fill(padding[..., None], -torch.inf).amax(dim=2)


POOLS = {
    "mean": mean_of,
    "max": greatest_of,
    "mean+max": lambda h, padding: torch.cat([mean_of(h, padding), greatest_of(h, padding)], dim=2),
    "first": lambda h, padding: h[:, :, 0],
}


@dataclass(frozen=True)
class OrderFree:
    """A baseline blind to order: two layers on mean, deviation, least and greatest of channels."""

    length: int
    channels: int
    classes: int
    d: int = Options.d

    def shapes(self) -> Shapes:
        """Parameters of one member."""
        return {
            "project.w": (4 * self.channels, self.d),
            "project.b": (1, self.d),
            "head.w": (self.d, self.classes),
            "head.b": (1, self.classes),
        }

    def logits(
        self,
        p: Parameters,
        injected: Mapping[str, MemberCodes],
        x: Tensor,
        drop: Dropout | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Logits (M, B, K) of windows (M, B, L, C); `drop` is given in training.

        Of `lengths` (M, B) rows are there, and what follows is padding, which must be finite.
        """
        padding = None
        if lengths is not None:
            padding = torch.arange(self.length, device=x.device) >= lengths[:, :, None]
        mean = mean_of(x, padding)
        deviation = mean_of((x - mean[:, :, None]) ** 2, padding).sqrt()
        statistics = [mean, deviation, -greatest_of(-x, padding), greatest_of(x, padding)]
        h = affine(p, "project", torch.cat(statistics, dim=2)).relu()
        return affine(p, "head", (drop or kept)(h))


def affine(p: Parameters, name: str, x: Tensor) -> Tensor:
    """x (M, n, inputs) times each member's weights, plus its biases."""
    return torch.baddbmm(p[f"{name}.b"], x, p[f"{name}.w"])


def layer_norm(p: Parameters, name: str, x: Tensor) -> Tensor:
    """Layer normalisation with each member's gain and shift."""
    return torch.addcmul(p[f"{name}.shift"], F.layer_norm(x, x.shape[-1:]), p[f"{name}.gain"])


def draw_parameters(shapes: Shapes, seed: int) -> Parameters:
    """Draw one member's parameters: Glorot-uniform weights, zero biases and shifts, gains of one.

    They are drawn in float64 in the order of the names, so that they depend on the seed alone.
    """
    generator = torch.Generator().manual_seed(seed)
    begun = {}
    for name in sorted(shapes):
        shape = shapes[name]
        if name.endswith(".w"):
            bound = (6.0 / sum(shape)) ** 0.5
            drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
            begun[name] = (2 * drawn - 1) * bound
        else:
            begun[name] = torch.full(shape, float(name.endswith("gain")), dtype=torch.float64)
    return begun

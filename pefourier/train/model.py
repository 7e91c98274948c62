"""The classifier of the paper's section 2.2, for many members at once.

Conventions
-----------
M members, B windows a batch, L rows and C channels a window, T tokens of `patch` rows, d
dimensions, H heads of c = d / H, K classes. Every parameter has the member first: (M, …). Layers
are those of ``torch.nn.TransformerEncoderLayer`` (norm after each sum, ReLU) with neither dropout
nor biases on queries, keys and values; logits are read from the mean over tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pefourier.encodings.checks import WIDEST
from pefourier.errors import PefourierError, shown
from pefourier.train.attention import ATTEND, MemberCodes

Parameters = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]  # without the member


@dataclass(frozen=True)
class Transformer:
    """Sizes of the classifier."""

    length: int  # rows of a window
    channels: int
    classes: int
    d: int = 32
    heads: int = 4
    layers: int = 1
    patch: int = 1  # rows a token

    def __post_init__(self) -> None:
        for key in ("d", "heads", "layers", "patch"):
            if getattr(self, key) < 1:
                raise PefourierError(f"--{key} must be 1 or more; got {getattr(self, key)}")
            if getattr(self, key) > WIDEST:
                given = shown(getattr(self, key))
                raise PefourierError(f"--{key} must be at most {WIDEST}; got {given}")
        if self.d % self.heads or self.d // self.heads % 2:
            raise PefourierError(
                f"--d must be an even multiple of --heads {self.heads}, since rotary encodings "
                f"turn pairs; got {self.d}"
            )
        if self.length % self.patch:
            raise PefourierError(
                f"--patch must divide the {self.length} rows of a window; got {self.patch}"
            )

    @property
    def tokens(self) -> int:
        return self.length // self.patch

    @property
    def size(self) -> int:
        """How many numbers the parameters of one member are."""
        project, head = self.patch * self.channels + 1, self.d + 1
        layer = 8 * self.d * (self.d + 1)
        return project * self.d + self.layers * layer + head * self.classes

    def shapes(self) -> Shapes:
        """Parameters of one member; weights are (inputs, outputs)."""
        d, wide = self.d, 2 * self.d
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
        return shapes | {"head.w": (d, self.classes), "head.b": (1, self.classes)}

    def logits(self, p: Parameters, injected: Mapping[str, MemberCodes], x: Tensor) -> Tensor:
        """Logits (M, B, K) of windows (M, B, L, C)."""
        m, batch = x.shape[:2]
        tokens = x.reshape(m, batch * self.tokens, self.patch * self.channels)
        h = affine(p, "project", tokens).unflatten(1, (batch, self.tokens))  # (M, B, T, d)
        tables = {act: one.table(p.get(f"codes.{act}")) for act, one in injected.items()}
        if "add" in tables:
            rest = m - len(tables["add"])  # members of other acts, which stand behind
            h = h + F.pad(tables["add"], (0, 0, 0, 0, 0, rest))[:, None]
        for i in range(self.layers):
            h = layer_norm(p, f"{i}.norm1", h + self.attention(p, i, h, tables))
            wide = affine(p, f"{i}.wide", h.flatten(1, 2)).relu()
            h = layer_norm(p, f"{i}.norm2", h + affine(p, f"{i}.narrow", wide).view_as(h))
        return affine(p, "head", h.mean(dim=2))

    def attention(self, p: Parameters, i: int, h: Tensor, tables: Mapping[str, Tensor]) -> Tensor:
        """H-head self-attention, each act's members in their own way."""
        qkv = torch.bmm(h.flatten(1, 2), p[f"{i}.qkv.w"])
        qkv = qkv.view(*h.shape[:3], 3, self.heads, self.d // self.heads)  # (M, B, T, 3, H, c)
        own = qkv.split([len(table) for table in tables.values()])
        parts = [
            ATTEND[act](*each.unbind(3), tables[act]) for act, each in zip(tables, own, strict=True)
        ]
        mixed = parts[0] if len(parts) == 1 else torch.cat(parts)
        return affine(p, f"{i}.out", mixed.flatten(1, 2)).view_as(h)


@dataclass(frozen=True)
class OrderFree:
    """A baseline blind to order: two layers on mean, deviation, least and greatest of channels."""

    length: int
    channels: int
    classes: int
    d: int = 32

    def shapes(self) -> Shapes:
        """Parameters of one member."""
        return {
            "project.w": (4 * self.channels, self.d),
            "project.b": (1, self.d),
            "head.w": (self.d, self.classes),
            "head.b": (1, self.classes),
        }

    def logits(self, p: Parameters, injected: Mapping[str, MemberCodes], x: Tensor) -> Tensor:
        """Logits (M, B, K) of windows (M, B, L, C)."""
        statistics = [x.mean(2), x.std(2, correction=0), x.amin(2), x.amax(2)]
        return affine(p, "head", affine(p, "project", torch.cat(statistics, dim=2)).relu())


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

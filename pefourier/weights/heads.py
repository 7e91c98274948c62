"""Locate the rows of a model's tensors that hold queries and keys.

The names per architecture are data, in heads.toml. A head is a run of rows of a projection. One
tensor may hold the queries, keys and values of all heads, consecutively or by groups of heads. For
MLA only the rotated rows are listed: the last rows of each query head, and one key for all heads.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.types import Array, Fields, Texts, frozen
from pefourier.weights.tensors import Tensor
from pefourier.writing.files import read_toml

LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")
Tensors = Mapping[str, Tensor]


def known_names() -> Fields:
    """Return the names in heads.toml."""
    return read_toml(Path(__file__).with_suffix(".toml"))


@frozen
class HeadSizes:
    """Sizes of a model's heads, from its config or GGUF file."""

    kind: str  # model_type, or the architecture of a GGUF file
    d: int  # rows of a head that are used, including all rotated rows
    unrotated: int = 0  # rows of a query head before the d rows, for MLA
    heads: int | None = None  # None: derived from the number of rows
    kv_heads: int | None = None
    grouped: bool = False  # a tensor with queries and keys stores them by groups of heads


@frozen
class Projection:
    """The rows of one tensor that hold queries, or keys."""

    tensor: str
    index: Array  # (heads, d): row numbers in the tensor
    norm: str | None  # the norm before the projection
    gains: Texts  # gains of the query or key norm: one tensor, or one per head


@frozen
class Attention:
    """Queries and keys of one layer, or of one module in it."""

    layer: int
    rotation: int  # index among the rotations of the model
    q: Projection
    k: Projection


def find_heads(
    tensors: Tensors,
    rotation_of: Callable[[int], int | None],
    sizes: Sequence[HeadSizes],
    label: str,
) -> list[Attention]:
    """Return the queries and keys of the text model's rotated layers, in order.

    `rotation_of` maps a layer to the index of its rotation, which indexes `sizes`.

    Raises
    ------
    PefourierError
        If no name is known, the file holds several towers, or shapes do not fit the sizes.
    """
    modules = sorted(modules_of(tensors))
    towers = {LAYER.sub(".*.", module, count=1).partition("*")[0] for _, module, _ in modules}
    if len(towers) != 1:
        stems = towers or {LAYER.sub(".*.", name, count=1) for name in tensors}
        listing = ", ".join(shown(stem)[1:-1] for stem in sorted(stems)[:6])
        raise PefourierError(
            f"{label} must hold the queries and keys of one text model under known names, "
            f"quantised only in .gguf files; it has {listing}"
        )
    return [
        Attention(layer, rotation, *projections(tensors, sizes[rotation], module, leaves, label))
        for layer, module, leaves in modules
        if (rotation := rotation_of(layer)) is not None
    ]


def modules_of(tensors: Tensors) -> Iterator[tuple[int, str, list[str]]]:
    """Yield the layer, the name and the projections of each module, by the first known names."""
    names = known_names()
    modules = set()
    for leaves in names["projections"]:
        end = f"{leaves[0]}.weight"
        for name in tensors:
            module = name.removesuffix(end).removesuffix(".")
            layer = LAYER.search(module)
            fits = name.endswith(end) and name[: -len(end)][-1:] in ("", ".")
            if (
                not layer
                or not fits
                or module in modules
                or any(w in module for w in names["apart"])
            ):
                continue
            if all(dotted(module, leaf, "weight") in tensors for leaf in leaves):
                modules.add(module)
                yield int(layer[1]), module, leaves


def dotted(*words: str) -> str:
    """Join the parts of a name by dots, without empty parts."""
    return ".".join(filter(None, words))


def projections(
    tensors: Tensors, sizes: HeadSizes, module: str, leaves: list[str], label: str
) -> Iterator[Projection]:
    """Return the query and the key projection of a module."""
    names = known_names()
    weights = [dotted(module, leaf, "weight") for leaf in leaves]
    for name in weights:
        check_numbers(tensors, name, label)
    index = rows_of_heads(tensors, sizes, leaves, weights, label)
    before = first_of(tensors, module, names["before"])
    is_latent = leaves[0] in ("q_b_proj", "attn_q_b")
    norms = first_of(tensors, module, names["between"]) if is_latent else before, before
    gains = (gains_of(tensors, module, names[part]) for part in ("q_norms", "k_norms"))
    return map(Projection, (weights[0], weights[-1]), index, norms, gains)


def check_numbers(tensors: Tensors, name: str, label: str) -> None:
    """Refuse tensors that are not matrices, integers without a scale, and a bias of wrong size."""
    tensor, stem = tensors[name], name.removesuffix("weight")
    bias = tensors.get(f"{stem}bias")
    if len(tensor.shape) != 2 or (bias and bias.shape != tensor.shape[:1]):
        raise PefourierError(
            f"{shown(name)} of {label} has shape {tensor.shape}, its bias "
            f"{bias.shape if bias else 'none'}; expected a matrix, and one bias number per row"
        )
    scaled = any(stem + end in tensors for end in known_names()["scales"])
    moved = f"{name}_zero_point" in tensors
    if tensor.kind.startswith(("int", "uint", "bool")) and (moved or not scaled):
        raise PefourierError(
            f"{shown(name)} of {label} has type {tensor.kind}, which cannot be read without a "
            "scale in a supported format; give the unquantised weights"
        )


def rows_of_heads(
    tensors: Tensors, sizes: HeadSizes, leaves: list[str], weights: list[str], label: str
) -> tuple[Array, Array]:
    """Return the row numbers of the queries (heads, d) and of the keys (kv_heads, d)."""
    rows, d = [tensors[name].shape[0] for name in weights], sizes.d
    q = k = np.empty((0, d), int)
    if len(weights) == 1:
        q, k = fused_rows(rows[0], sizes)
    elif leaves[1].startswith(("kv_a", "attn_kv_a")):  # MLA: the last rows of each projection
        q = head_rows(rows[0], sizes.unrotated + d, sizes.unrotated, d, sizes.heads)
        k = np.arange(rows[1] - d, rows[1])[None] if rows[1] >= d else k
    else:
        is_gated = sizes.kind in known_names()["gated"]
        q = head_rows(rows[0], d + d * is_gated, 0, d, sizes.heads)
        k = head_rows(rows[1], d, 0, d, sizes.kv_heads)
    if not len(q) or not len(k) or len(q) % len(k):
        raise PefourierError(
            f"{' and '.join(map(shown, weights))} of {label} have {' and '.join(map(str, rows))} "
            f"rows, which are not {sizes.heads or 'some'} heads of {sizes.unrotated + d} with keys "
            f"of {sizes.kv_heads or 'equal groups'}; use the config.json of the same model"
        )
    return q, k


def head_rows(rows: int, step: int, first: int, d: int, heads: int | None) -> Array:
    """Return rows (heads, d) if a head starts every `step` rows; empty if sizes do not fit."""
    count = 0 if rows % step or heads not in (None, rows // step) else rows // step
    return step * np.arange(count)[:, None] + first + np.arange(d)


def fused_rows(rows: int, sizes: HeadSizes) -> tuple[Array, Array]:
    """Return the rows of queries and keys in a tensor with values; empty if sizes do not fit."""
    d, heads = sizes.d, sizes.heads or 0
    kv = sizes.kv_heads or (rows // d - heads) // 2
    if not heads or kv < 1 or rows != (heads + 2 * kv) * d or heads % kv:
        heads = kv = 0
    number = np.arange(heads), np.arange(kv) + heads
    if sizes.grouped and heads:
        share = heads // kv
        first = number[0] // share * (share + 2) + number[0] % share
        number = first, np.arange(kv) * (share + 2) + share
    q, k = (d * heads_of_kind[:, None] + np.arange(d) for heads_of_kind in number)
    return q, k


def first_of(tensors: Tensors, module: str, names: list[str]) -> str | None:
    """Return the gains tensor of the first listed norm in a module or in its parent."""
    parent = module.rpartition(".")[0]
    places = [dotted(place, name) for name in names for place in (parent, module)]
    ends = ("weight", "norm.weight")
    return next((n for place in places for end in ends if (n := f"{place}.{end}") in tensors), None)


def gains_of(tensors: Tensors, module: str, names: list[str]) -> Texts:
    """Return the gains of a query or key norm: one tensor, or one per head."""
    for name in names:
        if (tensor := dotted(module, name, "weight")) in tensors:
            return (tensor,)
        gains: list[str] = []
        while (tensor := dotted(module, name, "norms", str(len(gains)), "weight")) in tensors:
            gains.append(tensor)
        if gains:
            return tuple(gains)
    return ()

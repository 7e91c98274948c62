"""Which rows of which tensors are a model's queries and keys?

Names per architecture are data, in heads.toml. A head is a run of rows of a projection; one tensor
may hold queries, keys and values of all heads, one behind the other or by groups of heads. Of MLA
only the rows that are rotated are told: the last ones of each query head, and one key for all.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.errors import PefourierError, shown
from pefourier.weights.tensors import Tensor

LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")
Tensors = Mapping[str, Tensor]


@cache
def known_names() -> dict[str, Any]:
    """The names in heads.toml."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class HeadSizes:
    """What a config or GGUF file says of a model's heads."""

    kind: str  # model_type, or the architecture of a GGUF file
    d: int  # rows of a head that are told, all that turn among them
    still: int = 0  # rows of a query head before those, of MLA
    heads: int | None = None  # None: by the rows that are there
    kv_heads: int | None = None
    grouped: bool = False  # one tensor for both has them by groups of heads


@dataclass(frozen=True)
class Projection:
    """The rows of one tensor that are queries, or keys."""

    tensor: str
    index: np.ndarray  # (heads, d): which row is which
    bias: str | None
    norm: str | None  # whose output is projected
    gains: tuple[str, ...]  # of the norm of queries or keys: one tensor, or one a head


@dataclass(frozen=True)
class Attention:
    """The queries and keys of one layer, or of one module of it."""

    layer: int
    module: str
    q: Projection
    k: Projection


def find_heads(
    tensors: Tensors, sizes_of: Callable[[int], HeadSizes | None], label: str, part: str = ""
) -> list[Attention]:
    """The queries and keys of all layers that `sizes_of` gives sizes for, in their order.

    Of several towers the text model's are taken, or those whose names have `part` in them.

    Raises
    ------
    PefourierError
        Where no name is known, several towers are left, or shapes do not fit the sizes.
    """
    modules = list(modules_of(tensors))
    towers: dict[str, list[tuple[int, str, list[str]]]] = {}
    for layer, module, leaves in modules:
        towers.setdefault(LAYER.sub(".*.", module, count=1), []).append((layer, module, leaves))
    chosen = choose_tower(towers, part, label)
    if not chosen:
        raise PefourierError(
            f"{label} holds no queries and keys that are known: {what_is(tensors)}"
        )
    sized = [(sizes_of(entry[0]), entry) for entry in sorted(chosen)]
    return [attention_at(tensors, sizes, *entry, label) for sizes, entry in sized if sizes]


def modules_of(tensors: Tensors) -> Iterator[tuple[int, str, list[str]]]:
    """Layer, module and names of its projections, each module once, by the first known names."""
    names = known_names()
    modules = set()
    for leaves in names["projections"]:
        end = f"{leaves[0]}.weight"
        for name in tensors:
            module = name.removesuffix(end).removesuffix(".")
            numbers = LAYER.search(module)
            fits = name.endswith(end) and name[: -len(end)][-1:] in ("", ".") and numbers
            if not fits or module in modules or any(word in module for word in names["apart"]):
                continue
            if all(dotted(module, leaf, "weight") in tensors for leaf in leaves):
                modules.add(module)
                yield int(numbers[1]), module, leaves


def choose_tower(towers: Mapping[str, list], part: str, label: str) -> list:
    """The modules of the one tower that is meant."""
    other_towers = known_names()["towers"]
    if part:
        stem = part.removesuffix("_config").removesuffix("ion")  # vision: visual, too
        candidates = [t for t in towers if any(word.startswith(stem) for word in t.split("."))]
    else:
        candidates = [t for t in towers if not any(word in t for word in other_towers)]
    roots = {t.partition("*")[0] for t in candidates}  # a layer may have several modules
    if len(roots) > 1:
        listing = ", ".join(shown(root.rstrip("."))[1:-1] for root in sorted(roots))
        raise PefourierError(
            f"{label} holds queries and keys of several towers, {listing}; name one behind #"
        )
    return [entry for t in candidates for entry in towers[t]]


def what_is(tensors: Tensors) -> str:
    """The reason that nothing was found, by the names that are there."""
    for end in known_names()["packed"]:
        name = next((name for name in tensors if name.endswith(end)), None)
        if name is not None:
            return f"{shown(name)} is quantised in a way that is not read; give the plain weights"
    names = sorted({LAYER.sub(".*.", n, count=1) for n in tensors if LAYER.search(n)})
    listing = ", ".join(shown(name)[1:-1] for name in names[:6])
    return f"its layers have {listing or 'no numbers'}{', …' if len(names) > 6 else ''}"


def dotted(*words: str) -> str:
    """A name of its parts."""
    return ".".join(filter(None, words))


def attention_at(
    tensors: Tensors, sizes: HeadSizes, layer: int, module: str, leaves: list[str], label: str
) -> Attention:
    """The queries and keys of a module."""
    names = known_names()
    weights = [dotted(module, leaf, "weight") for leaf in leaves]
    for name in weights:
        check_numbers(tensors, name, label)
    index = rows_of_heads(tensors, sizes, leaves, weights, label)
    before = first_of(tensors, module, names["before"])
    inner = leaves[0] in ("q_b_proj", "attn_q_b")
    first = first_of(tensors, module, names["between"]) if inner else before
    gains = (gains_of(tensors, module, names[norms]) for norms in ("q_norms", "k_norms"))
    q, k = (
        Projection(name, rows, bias_of(tensors, name, label), norm, head_gains)
        for name, rows, norm, head_gains in zip(
            (weights[0], weights[-1]), index, (first, before), gains, strict=True
        )
    )
    return Attention(layer, module, q, k)


def rows_of_heads(
    tensors: Tensors, sizes: HeadSizes, leaves: list[str], weights: list[str], label: str
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are the queries and the keys of each head: (heads, d) and (kv_heads, d)."""
    rows = [tensors[name].shape[0] for name in weights]
    if len(weights) == 1:
        q, k = fused_rows(rows[0], sizes, weights[0], label)
    elif leaves[1].startswith(("kv_a", "attn_kv_a")):
        q, k = latent_rows(*rows, sizes, weights, label)
    else:
        step = 2 * sizes.d if sizes.kind in known_names()["gated"] else sizes.d
        q = head_rows(rows[0], step, 0, sizes.d, sizes.heads, weights[0], label)
        k = head_rows(rows[1], sizes.d, 0, sizes.d, sizes.kv_heads, weights[1], label)
    if len(q) % len(k):
        raise PefourierError(
            f"{shown(weights[0])} of {label} has {len(q)} heads of {sizes.d}, {len(k)} of keys; "
            "query heads share keys in equal groups"
        )
    return q, k


def bias_of(tensors: Tensors, name: str, label: str) -> str | None:
    """The name of a projection's bias, which has a number for each row; None without it."""
    bias, rows = name.removesuffix("weight") + "bias", tensors[name].shape[0]
    if bias not in tensors:
        return None
    if tensors[bias].shape != (rows,):
        raise PefourierError(
            f"{shown(bias)} of {label} has shape {tensors[bias].shape}, {shown(name)} {rows} rows; "
            "a bias has a number for each row"
        )
    return bias


def check_numbers(tensors: Tensors, name: str, label: str) -> None:
    """Refuse what is no matrix, and whole numbers that stand for others in an unknown way."""
    if len(tensors[name].shape) != 2:
        raise PefourierError(
            f"{shown(name)} of {label} has shape {tensors[name].shape}, no rows and columns"
        )
    stem, kind = name.removesuffix("weight"), tensors[name].kind
    scaled = any(stem + end in tensors for end in known_names()["scales"])
    moved = f"{name}_zero_point" in tensors
    if kind.startswith(("int", "uint", "bool")) and (moved or not scaled):
        raise PefourierError(
            f"{shown(name)} of {label} is of type {kind}, whose numbers mean nothing without a "
            "scale that is read here; give the plain weights"
        )


def head_rows(
    rows: int, step: int, first: int, d: int, heads: int | None, name: str, label: str
) -> np.ndarray:
    """Rows (heads, d) where a head begins every `step` rows and its own lie from `first` on."""
    count = rows // step
    if not count or rows % step or heads not in (None, count):
        expected = f"{heads} heads" if heads else "heads"
        raise PefourierError(
            f"{shown(name)} of {label} has {rows} rows, which are not {expected} of {step}; its "
            "config is another model's"
        )
    return step * np.arange(count)[:, None] + first + np.arange(d)


def latent_rows(
    q_rows: int, k_rows: int, sizes: HeadSizes, names: list[str], label: str
) -> tuple[np.ndarray, np.ndarray]:
    """The rotated rows of MLA: the last of each query head, and the last of what makes keys."""
    step = sizes.still + sizes.d
    q = head_rows(q_rows, step, sizes.still, sizes.d, sizes.heads, names[0], label)
    if k_rows < sizes.d:
        raise PefourierError(
            f"{shown(names[1])} of {label} has {k_rows} rows, fewer than {sizes.d}"
        )
    return q, np.arange(k_rows - sizes.d, k_rows)[None]


def fused_rows(rows: int, sizes: HeadSizes, name: str, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of queries and keys in one tensor with the values."""
    d, heads, kv = sizes.d, sizes.heads, sizes.kv_heads
    if heads is None:
        raise PefourierError(
            f"{shown(name)} of {label} holds queries, keys and values; how many heads are queries "
            "is not known without a config beside it"
        )
    kv = kv or (rows // d - heads) // 2
    if kv < 1 or rows != (heads + 2 * kv) * d or heads % kv:
        raise PefourierError(
            f"{shown(name)} of {label} has {rows} rows, which are not {heads} + 2 × {kv} heads of "
            f"{d}; its config is another model's"
        )
    number = np.arange(heads), np.arange(kv)
    if sizes.grouped:
        share = heads // kv
        first = number[0] // share * (share + 2) + number[0] % share
        number = first, number[1] * (share + 2) + share
    else:
        number = number[0], number[1] + heads
    q, k = (d * heads_of_kind[:, None] + np.arange(d) for heads_of_kind in number)
    return q, k


def first_of(tensors: Tensors, module: str, names: list[str]) -> str | None:
    """The first of some norms that is in a module or beside it, its tensor of gains."""
    parent = module.rpartition(".")[0]
    places = [dotted(*filter(None, (place, name))) for name in names for place in (parent, module)]
    ends = ("weight", "norm.weight")
    return next((n for place in places for end in ends if (n := f"{place}.{end}") in tensors), None)


def gains_of(tensors: Tensors, module: str, names: list[str]) -> tuple[str, ...]:
    """The gains of a norm of queries or of keys: one tensor, or one for each head."""
    for name in names:
        tensor = dotted(module, name, "weight")
        if tensor in tensors:
            return (tensor,)
        gains = []
        while (tensor := dotted(module, name, "norms", str(len(gains)), "weight")) in tensors:
            gains.append(tensor)
        if gains:
            return tuple(gains)
    return ()

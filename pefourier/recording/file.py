"""The arrays of a recording, and the .npz file that holds them.

Conventions
-----------
`LayerArrays` are those of one layer and `Sequence` those of all layers over the calls of one
sequence. A file holds the first sequence: ``layer{i}.q_before`` and so on, and ``about``, a JSON
text with the model's config, the tokens of each call, and the names of layers.
"""

from __future__ import annotations

import json
import re
from typing import Any
from zipfile import BadZipFile

import numpy as np

from pefourier.types import Array, Arrays, Fields

KEPT = ("q_before", "k_before", "q_after", "k_after", "cos", "sin", "mask", "bias")
LAYER = re.compile(r"layer\d+\.")
CLOSE = 1e-3  # of norms, within rounding of bfloat16 in a sum of squares


class LayerArrays:
    """What one layer was given; None: not seen."""

    q_before: Array | None = None
    k_before: Array | None = None
    q_after: Array | None = None
    k_after: Array | None = None
    cos: Array | None = None
    sin: Array | None = None
    mask: Array | None = None
    bias: Array | None = None
    causal: bool | None = None  # whether the module is causal
    is_causal: bool = False  # whether attention masks later keys itself
    q_queries: int = 0  # of the first call
    is_attended: bool = False
    keys: Array | None = None  # all keys that attention gets in the last call
    queries: Array | None = None

    def rotated(self, is_key: bool, before: Array, after: Array) -> None:  # noqa: FBT001
        """Keep a rotation: the first of queries or keys, or a further one of either."""
        order = ("k", "q") if is_key else ("q", "k")
        known = [name for name in order if getattr(self, f"{name}_after") is not None]
        for name in known:  # rotated again
            if np.array_equal(getattr(self, f"{name}_after"), before):
                setattr(self, f"{name}_after", after)
                return
        for name in order:
            if name not in known:
                setattr(self, f"{name}_before", before)
                setattr(self, f"{name}_after", after)
                return

    def attended(self, q: Array, k: Array) -> None:
        """Keep the queries and keys that attention gets."""
        self.is_attended, self.queries, self.keys = True, q, k
        self.q_queries = q.shape[2]

    def close(self, past: int) -> None:
        """Replace what functions returned by what attention got, if it is a rotation of it."""
        for name, got in (("q", self.queries), ("k", self.keys)):
            after = getattr(self, f"{name}_after")
            if got is None or after is None or (name == "q" and got.shape[2] != after.shape[2]):
                continue
            end = past + after.shape[2]
            is_static = name == "k" and got.shape[2] > end  # a cache with free places
            newest = got[:, :, past:end] if is_static else got[:, :, -after.shape[2] :]
            setattr(self, f"{name}_after", rotated_again(after, newest))
        self.queries = None

    def join(self, other: LayerArrays) -> None:
        """Append the next call."""
        for name in KEPT:
            a, b = getattr(self, name), getattr(other, name)
            if a is not None and b is not None and a.ndim == b.ndim:
                setattr(self, name, stacked(a, b))
        self.is_attended = self.is_attended or other.is_attended


def stacked(a: Array, b: Array) -> Array:
    """Join arrays along tokens; keys of a mask that the earlier queries did not have are hidden."""
    width = max(a.shape[-1], b.shape[-1])
    hidden: Any = False if a.dtype == bool else np.finfo(np.float32).min
    parts = [
        np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, width - x.shape[-1])], constant_values=hidden)
        for x in (a, b)
    ]
    return np.concatenate(parts, axis=-2)


def rotated_again(after: Array, got: Array) -> Array:
    """Return the columns that attention got, if they have the lengths of the rotated columns.

    Attention may get more columns, before or after those that are rotated, and may get them scaled
    or normed, which is not a rotation.
    """
    d, wide = after.shape[-1], got.shape[-1]
    if wide < d or got.shape[0] != after.shape[0] or got.shape[2] != after.shape[2]:
        return after
    a = after[:, :1]  # keys may be repeated for groups of queries
    columns = [got[:, :1, :, :d], got[:, :1, :, wide - d :]]
    if any(np.array_equal(part, a) for part in columns):
        return after
    for part in columns:
        lengths, norms = np.linalg.norm(part, axis=-1), np.linalg.norm(a, axis=-1)
        product = np.abs((part * a).sum(axis=-1))
        is_parallel = np.allclose(product, lengths * norms, rtol=1e-5)
        if not is_parallel and np.allclose(lengths, norms, rtol=CLOSE):
            return part
    return after


class Sequence:
    """The layers over the calls of one sequence."""

    ids: Array | None = None  # (rows, tokens), as passed
    attention_mask: Array | None = None  # (rows, cached and new tokens)
    past = 0  # cached tokens before the first call

    def __init__(self) -> None:
        self.layers = dict[int, LayerArrays]()
        self.names = dict[int, str]()
        self.added = dict[str, Array]()  # vectors of positions, by module
        self.steps = list[int]()  # tokens of each call

    def layer(self, stack: str, number: int) -> LayerArrays:
        """Return the arrays of a layer; those of a second list of modules have later numbers."""
        name = f"{stack}.{number}".lstrip(".")
        for known, own in self.names.items():
            if own == name:
                return self.layers[known]
        stacks = dict.fromkeys(own.rpartition(".")[0] for own in self.names.values())
        if stacks and stack != next(iter(stacks)):
            number = 1 + max(self.names)
        self.names[number] = name
        return self.layers.setdefault(number, LayerArrays())

    @property
    def rows(self) -> int:
        """Number of rows."""
        seen = [len(x.q_after) for x in self.layers.values() if x.q_after is not None]
        return max(seen, default=1)

    @property
    def width(self) -> int:
        """Tokens of a row, cached ones included."""
        return self.past + sum(self.steps)

    def close(self) -> None:
        """Finish a call."""
        sizes = [x.q_after.shape[2] for x in self.layers.values() if x.q_after is not None]
        sizes += [x.shape[1] for x in self.added.values()]
        sizes += [x.bias.shape[2] for x in self.layers.values() if x.bias is not None]
        # last, because transformers may pad a single query
        sizes += [x.queries.shape[2] for x in self.layers.values() if x.queries is not None]
        self.steps = sizes[:1]
        for layer in self.layers.values():
            layer.close(self.past)

    def join(self, call: Sequence) -> None:
        """Append the next call."""
        for number, layer in call.layers.items():
            if number in self.layers:
                self.layers[number].join(layer)
        for name, rows in call.added.items():
            if name in self.added and len(self.added[name]) == len(rows):
                self.added[name] = np.concatenate([self.added[name], rows], axis=1)
        both = self.ids is not None and call.ids is not None and len(self.ids) == len(call.ids)
        self.ids = np.concatenate([self.ids, call.ids], axis=-1) if both else None
        self.attention_mask = (
            call.attention_mask if call.attention_mask is not None else self.attention_mask
        )
        self.steps += call.steps


def config_of(config: Any) -> Fields | None:
    """Return the values of a model's config; None if it has none."""
    if config is None or not hasattr(config, "to_json_string"):
        return None
    return dict(json.loads(config.to_json_string(use_diff=False)))


def read_recording(path: str) -> Arrays:
    """Return the arrays of a recording by name; none if the file is something else.

    Numbers alone are read, never pickled objects.
    """
    if not path.endswith(".npz"):
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            if "about" not in file.files or not any(map(LAYER.match, file.files)):
                return {}
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, BadZipFile):  # the usual reader reports it
        return {}


def batch_of_recording(path: str) -> Arrays:
    """Return the ids and the mask of a recording, or cosines and sines without ids."""
    arrays = read_recording(path)
    found = {
        name.rpartition(".")[2]: x for name, x in reversed(arrays.items()) if "after" not in name
    }
    chosen = ("position_ids",) if "position_ids" in found else ("cos", "sin")
    return {name: found[name] for name in (*chosen, "attention_mask") if name in found}


def waves_of_recording(path: str) -> Array | None:
    """Return the cosines and sines (tokens, d) of the first layer and last row; None without."""
    arrays = read_recording(path)
    layers = [name.removesuffix(".cos") for name in arrays if name.endswith(".cos")]
    if not layers:
        return None
    both = [np.squeeze(arrays[f"{layers[0]}.{name}"]) for name in ("cos", "sin")]
    rows = [x.reshape(-1, *x.shape[-2:])[-1] for x in both]
    waves: Array = np.concatenate(rows, axis=-1)
    return waves


def means_of_recording(path: str, pairs: Array) -> Arrays:
    """Return the mean length of each pair, named by layer and head as in files of means.

    `pairs` (2, pairs) holds the columns of each pair. Keys are those of the recorded queries, which
    share a key in groups if the config says so.
    """
    arrays, means = read_recording(path), dict[str, Array]()
    config = json.loads(str(arrays.get("about", "{}"))).get("config") or {}
    config = config.get("text_config") or config
    heads = config.get("num_attention_heads") or 1
    group = heads // (config.get("num_key_value_heads") or heads)
    for name, x in arrays.items():
        layer, part = name.removesuffix("_before").split(".") if "_before" in name else ("", "")
        if part:
            queries = arrays[f"{layer}.q_before"].shape[1]
            shared = -(-queries // group) if part == "k" else queries // group * group or queries
            lengths = np.hypot(*(x[:, :shared, :, i] for i in pairs)).mean(axis=(0, 2))
            means |= {f"{layer}_head{i}.{part}_abs_mean": y for i, y in enumerate(lengths)}
    return means

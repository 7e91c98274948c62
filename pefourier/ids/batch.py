"""Position ids and the arrays dumped with them: masks, segments, grids of images.

Conventions
-----------
Ids are (axes, rows, tokens) integers; text has one axis, M-RoPE three (time, row, column) or four
(text, time, row, column). Segments are (rows, tokens): 0 is padding, 1, 2, … number the documents
of a row. Names of arrays follow Transformers, FlashAttention or Mamba (`NAMES`).

Describe a mask of queries and keys: causal, window, documents, padding.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.sources.json_object import parse_digits
from pefourier.encodings.sources.tables import ArrayFile, open_arrays
from pefourier.errors import PefourierError, shown
from pefourier.types import Array, Counts, Texts, Values
from pefourier.writing.files import label, os_errors, suffix_of

NAMES = {  # an array, and the names under which it is dumped
    "position_ids": ("position_ids", "positions", "pos_ids", "input_pos", "ids"),
    "attention_mask": ("attention_mask", "padding_mask", "attn_mask", "mask"),
    "cu_seqlens": ("cu_seqlens", "cu_seq_lens_q", "cu_seqlens_q", "cu_seq_lens", "query_start_loc"),
    "seq_idx": ("seq_idx",),
    "segment_ids": ("segment_ids", "document_ids"),
    "input_ids": ("input_ids", "tokens"),
    "mm_token_type_ids": ("mm_token_type_ids",),
    "token_type_ids": ("token_type_ids",),
    "image_grid_thw": ("image_grid_thw",),
    "video_grid_thw": ("video_grid_thw",),
    "second_per_grid_ts": ("second_per_grid_ts",),
    "depth": ("depth", "depths"),
    "parents": ("parents", "parent"),
}
COSINES, SINES = ("cos", "cosines"), ("sin", "sines")
LARGEST = 2**53  # largest id; above it, floats skip integers
LONGEST_JSON = 2**28  # bytes


@dataclass(frozen=True, eq=False)
class Batch:
    """Ids and their accompanying arrays; None: not given."""

    ids: Array  # (axes, rows, tokens)
    segments: Array | None = None  # (rows, tokens): 0 padding, 1, 2, … documents
    visible: Array | None = None  # (…, queries, keys): whether a query sees a key
    depth: Array | None = None  # (rows, tokens), for nodes of a tree
    kinds: Array | None = None  # (rows, tokens): 0 text, 1 image, 2 video
    images: Array | None = None  # (images, 3): frames, rows, columns of patches
    videos: Array | None = None
    seconds: Array | None = None  # (videos,), between two frames of a grid
    ignored: Texts = ()  # names of arrays that were not used

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return int(self.ids.shape[1])

    @property
    def tokens(self) -> int:
        """Tokens per row."""
        return int(self.ids.shape[2])


def read_arrays(path: str) -> dict[str, Array]:
    """Read the arrays of a file by name; "" is the name of a single unnamed array."""
    if suffix_of(path) == ".json":
        return read_json_lists(path)
    with open_arrays(path) as file:
        return dict(numeric_arrays(file))


def numeric_arrays(file: ArrayFile) -> Iterator[tuple[str, Array]]:
    """Yield the numeric arrays of a file."""
    for name, stored in file.arrays.items():
        if stored.kind == "bool" or "int" in stored.kind or "float" in stored.kind:
            yield name, file.load(name)


def read_json_lists(path: str) -> dict[str, Array]:
    """Read a list of numbers, nested by rows and axes, or an object of such lists."""
    import json

    with os_errors("read", path), Path(path).open("rb") as stream:
        text = stream.read(LONGEST_JSON + 1)
    if len(text) > LONGEST_JSON:
        raise PefourierError(f"{label(path)} is longer than {LONGEST_JSON} bytes; use .npy")
    try:
        content = json.loads(text, parse_int=parse_digits)
    except (ValueError, RecursionError) as error:
        raise PefourierError(f"{label(path)} is not readable JSON; write it again") from error
    lists = content if isinstance(content, dict) else {"": content}
    if "model_type" in lists:
        raise PefourierError(
            f"{label(path)} is a model's config; pass the ids first, then the config"
        )
    arrays = {name: as_array(value) for name, value in lists.items()}
    return {name: array for name, array in arrays.items() if array is not None}


def as_array(value: Any) -> Array | None:
    """Convert nested lists to an array; None if they are not numeric or not rectangular."""
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" and array.ndim else None


def arrays_by_role(arrays: Values, source: str) -> tuple[dict[str, Array], Texts]:
    """Return arrays by role (`NAMES`), and the names of unused arrays."""
    roles, used = {}, set()
    for role, spellings in NAMES.items():
        present = [name for name in arrays if name.rpartition(".")[2] in spellings]
        if len(present) > 1:
            present = [name for name in present if name.rpartition(".")[2] == role] or present
        if present:
            roles[role] = np.asarray(arrays[present[0]])
            used.add(present[0])
    if "position_ids" not in roles and len(arrays) == 1:
        roles = {"position_ids": np.asarray(*arrays.values())}
        used = set(arrays)
    if not ({"position_ids", "attention_mask"} & roles.keys()):
        looked_for = ", ".join(NAMES["position_ids"])
        names = ", ".join(map(shown, sorted(arrays)[:8])) or "no array"
        raise PefourierError(
            f"{source} has no position ids: looked for {looked_for}; it has {names}"
        )
    return roles, tuple(name for name in arrays if name not in used)


def as_ids(array: Array, subject: str) -> Array:
    """Convert an array to integers; floats must be whole."""
    if array.dtype.kind == "f":
        fractions = array[~np.isfinite(array) | (np.rint(array) != array)]
        if fractions.size:
            raise PefourierError(f"{subject} must hold integers; got {fractions[0]:g}")
    if array.dtype.kind not in "biuf" or array.size == 0:
        raise PefourierError(
            f"{subject} must hold integers; got an array {array.shape} of {array.dtype}"
        )
    if np.abs(array.astype(float)).max() > LARGEST:
        raise PefourierError(f"{subject} must be below 2^53; got {int(array.max())}")
    return array.astype(np.int64)


def ids_by_axis(array: Array, subject: str) -> Array:
    """Reshape ids (n,), (rows, n) or (axes, rows, n) to (axes, rows, n)."""
    ids = as_ids(array, subject)
    if ids.ndim == 3 and ids.shape[0] not in (1, 3, 4) and 1 in ids.shape[1:]:
        ids = ids.reshape(1, ids.shape[0], -1)
    if ids.ndim not in (1, 2, 3) or (ids.ndim == 3 and ids.shape[0] not in (1, 3, 4)):
        raise PefourierError(
            f"{subject} must have the shape (n,), (rows, n), or (axes, rows, n) with 3 or 4 axes; "
            f"got {ids.shape}"
        )
    return ids.reshape((1,) * (3 - ids.ndim) + ids.shape)


def batch_of(
    arrays: Values,
    source: str = "the batch",
    *,
    has_axes: bool = False,
    vision_tokens: tuple[int | None, int | None] = (None, None),
) -> Batch:
    """Build a batch from named arrays (see `NAMES`).

    With `has_axes`, ids (3, n) are three axes of one row, as for M-RoPE. `vision_tokens` are the
    token ids of images and videos in `input_ids`.
    """
    roles, ignored = arrays_by_role(arrays, source)
    if "position_ids" not in roles:
        raise PefourierError(
            f"{source} has no position ids: looked for {', '.join(NAMES['position_ids'])}"
        )
    stored = roles["position_ids"]
    if has_axes and stored.ndim == 2 and stored.shape[0] in (3, 4):
        stored = stored[:, None]
    ids = ids_by_axis(stored, "position_ids")
    shape = ids.shape[1:]
    mask = roles.get("attention_mask")
    visible = as_visible(mask, shape) if mask is not None and is_matrix(mask, shape) else None
    kinds = roles.get("mm_token_type_ids")
    if kinds is None and "input_ids" in roles and any(token is not None for token in vision_tokens):
        kinds = sum(
            (roles["input_ids"] == t) * (i + 1)
            for i, t in enumerate(vision_tokens)
            if t is not None
        )
    seconds = roles.get("second_per_grid_ts")
    return Batch(
        ids=ids,
        segments=segments_of(roles, None if visible is not None else mask, shape),
        visible=visible,
        depth=depth_of(roles, shape),
        kinds=None
        if kinds is None
        else fitted(as_ids(np.asarray(kinds), "token types"), shape, "token types"),
        images=grids_of(roles, "image_grid_thw"),
        videos=grids_of(roles, "video_grid_thw"),
        seconds=None if seconds is None else np.asarray(seconds, dtype=float).ravel(),
        ignored=ignored,
    )


def fitted(array: Array, shape: Counts, subject: str) -> Array:
    """Broadcast an array (n,) or (rows, n) to the shape of the ids."""
    if array.size != shape[0] * shape[1] or array.shape[-1] != shape[1]:
        raise PefourierError(f"{subject} {array.shape} do not fit position ids of shape {shape}")
    return array.reshape(shape)


def is_matrix(mask: Array, shape: Counts) -> bool:
    """Whether a mask has one number for each query and key."""
    return (mask.ndim >= 2 and mask.shape[-1] == mask.shape[-2] and mask.ndim != 2) or (
        mask.ndim == 2 and mask.shape[0] == mask.shape[1] and mask.shape != shape
    )


def as_visible(mask: Array, shape: Counts | None = None) -> Array:
    """Convert a mask to booleans (matrices, queries, keys): whether a query sees a key.

    Masks have booleans, 0 and 1, or are additive: 0 for visible keys, -inf or a large negative
    number for hidden ones.
    """
    mask = np.asarray(mask)
    if mask.ndim < 2 or mask.shape[-1] != mask.shape[-2]:
        raise PefourierError(f"a mask of queries and keys must be square; got {mask.shape}")
    if shape is not None and mask.shape[-1] != shape[1]:
        raise PefourierError(f"a mask {mask.shape} does not fit position ids of shape {shape}")
    if np.isnan(mask.astype(float)).any():
        raise PefourierError("a mask must not hold NaN")
    is_additive = mask.dtype.kind == "f" and mask.min() < 0
    visible = mask > HIDDEN if is_additive else mask != 0
    return visible.reshape(-1, *mask.shape[-2:])


HIDDEN = -1e4 + 1  # an additive mask hides keys below this; ALiBi biases stay above


def segments_of(roles: Mapping[str, Array], mask: Array | None, shape: Counts) -> Array | None:
    """Return segment numbers, from cu_seqlens, seq_idx, segment numbers, or a mask of 0 and 1."""
    segments = None
    if "cu_seqlens" in roles:
        segments = segments_between(as_ids(roles["cu_seqlens"], "cu_seqlens").ravel(), shape)
    elif "seq_idx" in roles:
        segments = fitted(as_ids(roles["seq_idx"], "seq_idx"), shape, "seq_idx") + 1
    elif "segment_ids" in roles:
        segments = fitted(as_ids(roles["segment_ids"], "segment ids"), shape, "segment ids")
    if mask is not None:
        tokens = fitted(as_ids(mask, "the mask"), shape, "the mask")
        segments = tokens if segments is None else np.where(tokens == 0, 0, segments)
    if segments is not None and segments.min() < 0:
        raise PefourierError(f"segment numbers must be at least 0; got {int(segments.min())}")
    return segments


def segments_between(bounds: Array, shape: Counts) -> Array:
    """Return segment numbers from cumulative lengths 0, …, total over the concatenated rows.

    >>> segments_between(np.array([0, 2, 5]), (1, 6))
    array([[1, 1, 2, 2, 2, 0]])
    """
    count = shape[0] * shape[1]
    if bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] > count:
        raise PefourierError(
            f"cu_seqlens must increase from 0 to at most {count} tokens; "
            f"got {bounds[:4].tolist()} … {int(bounds[-1])}"
        )
    numbers = np.zeros(count, np.int64)
    numbers[: bounds[-1]] = np.repeat(np.arange(1, len(bounds)), np.diff(bounds))
    return numbers.reshape(shape)


def depth_of(roles: Mapping[str, Array], shape: Counts) -> Array | None:
    """Return the depth of each node of a tree, as given or from its parents (-1: a root)."""
    if "depth" in roles:
        return fitted(as_ids(roles["depth"], "depth"), shape, "depth")
    if "parents" not in roles:
        return None
    parents = fitted(as_ids(roles["parents"], "parents"), shape, "parents")
    if (parents >= np.arange(shape[1])).any():
        raise PefourierError("parents must come before their nodes; a root has the parent -1")
    depth = np.zeros(shape, np.int64)
    for node in range(shape[1]):
        parent = parents[:, node]
        above = np.take_along_axis(depth, np.maximum(parent, 0)[:, None], 1)[:, 0]
        depth[:, node] = np.where(parent < 0, 0, above + 1)
    return depth


def grids_of(roles: Mapping[str, Array], role: str) -> Array | None:
    """Return frames, rows and columns (k, 3) of images or videos."""
    if role not in roles:
        return None
    grids = as_ids(roles[role], role)
    if grids.shape[-1:] != (3,) or grids.min() < 1:
        raise PefourierError(
            f"{role} must have three sides of at least 1 per image; got {grids.shape}"
        )
    return grids.reshape(-1, 3)


def read_role(path: str, role: str, shape_of_ids: Counts | None = None) -> dict[str, Array]:
    """Read an array of an additional file by role: a mask, segments, or depths.

    A row of segments that increases from 0 and differs in size from the ids is cu_seqlens.
    """
    arrays = read_arrays(path)
    if len(arrays) > 1:
        arrays = {name: a for name, a in arrays.items() if name.rpartition(".")[2] in NAMES[role]}
    if len(arrays) != 1:
        raise PefourierError(f"{label(path)} must hold one array for {role}, or one with that name")
    (array,) = arrays.values()
    if role == "segment_ids" and array.ndim == 1 and shape_of_ids is not None:
        is_bounds = array.size != shape_of_ids[-1] and array.size and array[0] == 0
        role = "cu_seqlens" if is_bounds else role
    return {role: array}


def path_of(source: Any) -> str | None:
    """Return the path of an input that is a file."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


@dataclass(frozen=True)
class Visibility:
    """Common properties of all matrices of a mask; None: they differ or are unknown."""

    causal: bool  # no query sees a later key
    window: int | None  # number of nearest keys that a query sees, including itself
    reach: int  # 1 + the largest distance of a visible key within a document
    two_sided: bool  # whether the window includes later keys
    documents_seen: bool | None = None  # a query sees a key of another document
    pads_seen: bool | None = None  # a token sees padding


def describe_mask(visible: Array, segments: Array | None = None) -> Visibility:
    """Read a mask (matrices, n, n) of booleans.

    >>> lag = np.subtract.outer(np.arange(6), np.arange(6))
    >>> describe_mask(((lag >= 0) & (lag < 3))[None]).window
    3
    """
    n = visible.shape[-1]
    query, key = np.indices((n, n))
    lag = query - key
    causal = not (visible & (lag < 0)).any()
    numbers = segments_by_matrix(segments, len(visible))
    documents = pads = None
    judged = np.ones_like(visible)
    if numbers is not None:
        tokens = numbers != 0
        one_document = numbers[:, :, None] == numbers[:, None, :]
        pairs = tokens[:, :, None] & tokens[:, None, :]
        documents = bool((visible & pairs & ~one_document).any()) if numbers.max() > 1 else None
        hidden = tokens[:, :, None] & ~tokens[:, None, :]
        pads = bool((visible & hidden).any()) if hidden.any() else None
        judged = pairs & one_document
    reach = int(np.abs(np.where(visible & judged, lag, 0)).max()) + 1
    inside = (np.abs(lag) < reach) & ((lag >= 0) | (not causal)) & judged
    is_window = reach < n and bool((visible & judged == inside).all())
    beyond = judged & (np.abs(lag) >= reach)
    window = reach if is_window and beyond.any() else None
    return Visibility(causal, window, reach, bool(window and not causal), documents, pads)


def segments_by_matrix(segments: Array | None, count: int) -> Array | None:
    """Return segment numbers (matrices, n) of a batch with one matrix per row or for all rows."""
    if segments is None:
        return None
    per_row = max(1, count // len(segments))
    return np.repeat(segments, per_row, axis=0)[:count] if count > 1 else segments[:1]

"""Position ids and the arrays dumped with them: masks, segments, grids of images.

Conventions
-----------
Ids are (axes, rows, tokens) integers; text has one axis, M-RoPE three (time, row, column) or four
(text, time, row, column). Segments are (rows, tokens): 0 is padding, 1, 2, … number the documents
of a row. Names of arrays follow Transformers, FlashAttention or Mamba (`NAMES`). A mask of queries
and keys can be causal, have a window, and show documents and padding.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.encodings.sources.tables import open_arrays
from pefourier.errors import PefourierError, check_size, shown
from pefourier.ids.masks import OTHER, Mask, as_visible, read_mask, segments_in
from pefourier.types import Array, Arrays, Counts, Texts, Values, frozen, frozen_arrays
from pefourier.writing.files import label, os_errors, read_toml, suffix_of


@frozen
class Vision:
    """Settings of a config for image and video blocks."""

    image: int | None = None  # id of the token of an image's patches
    video: int | None = None
    merge: int = 2  # patches per token, along rows and columns
    frames_merged: int = 1  # of videos
    tokens_per_second: float | None = None  # None: frames are one apart
    by_frame: bool = False  # whether each frame is a separate block


@frozen
class Rules:
    """Rules for ids from a config or options."""

    start: int = 0  # id of a document's first token
    added: int = 0  # added to ids by the model before it reads its table
    limit: int | None = None  # ids must be below it
    rank: int | None = None
    ranks: int = 1
    shard: str | None = None  # every, block, zigzag; None: any
    has_axes: bool = False  # whether the rotation has three axes of ids
    vision: Vision = Vision()


NAMES = read_toml(Path(__file__).with_name("names.toml"))  # an array, and how it is called
USED = {name for names in NAMES.values() for name in names}
TOKENWISE = {"seq_idx", "segment_ids", "depth", "parents", "mm_token_type_ids"}
Roles = Mapping[str, Array]  # arrays by role
LARGEST = 2**53  # largest id; above it, floats skip integers
LONGEST_JSON = 2**26  # bytes
MOST_IDS, MOST = 2**24, 2**26  # numbers in ids, and in masks


@frozen_arrays
class Batch:
    """Ids and their accompanying arrays; None: not given."""

    ids: Array  # (axes, rows, tokens)
    segments: Array | None = None  # (rows, tokens): 0 padding, 1, 2, … documents
    knows_documents: bool = False  # whether the input shows where documents begin
    past: Array | None = None  # (rows,) tokens in the cache, without padding
    hidden: Array | None = None  # (rows,) padding in the cache
    stated: Array | None = None  # (rows, tokens): ids that a dump should follow
    mask: Mask | None = None  # of queries and keys
    depth: Array | None = None  # (rows, tokens), for nodes of a tree
    kinds: Array | None = None  # (rows, tokens): 0 text, 1 image, 2 video
    images: Array | None = None  # (images, 3): frames, rows, columns of patches
    videos: Array | None = None
    seconds: Array | None = None  # (videos,), between two frames of a grid
    ignored: Texts = ()  # names of arrays that were not used


def read_arrays(path: str) -> Arrays:
    """Read the arrays of a file by name; "" is the name of a single unnamed array.

    Arrays with other names than those of a batch are left empty. Sizes are checked first.
    """
    if suffix_of(path) == ".json":
        return read_json_lists(path)
    with open_arrays(path) as file:
        arrays = {}
        for name, stored in file.arrays.items():
            if stored.kind == "bool" or "int" in stored.kind or "float" in stored.kind:
                is_used = len(file.arrays) == 1 or last_part(name) in USED
                check_size(file.label, *(stored.shape if is_used else ()), limit=MOST)
                arrays[name] = file.load(name) if is_used else np.zeros(0)
    return arrays


def last_part(name: str) -> str:
    """Return the name of an array without the modules that hold it."""
    return name.rpartition(".")[2].lower()


def read_json_lists(path: str) -> Arrays:
    """Read a list of numbers, nested by rows and axes, or an object of such lists."""
    import json

    with os_errors("read", path), Path(path).open("rb") as stream:
        text = stream.read(LONGEST_JSON + 1)
    if len(text) > LONGEST_JSON:
        raise PefourierError(f"{label(path)} is longer than {LONGEST_JSON} bytes; use .npy")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PefourierError(f"{label(path)} is not readable JSON; write it again") from error
    lists = content if isinstance(content, dict) else {"": content}
    arrays = {}
    for name, value in lists.items():
        with suppress(ValueError):  # not rectangular
            arrays[name] = np.asarray(value)
    return {name: x for name, x in arrays.items() if x.dtype.kind in "biuf" and x.ndim}


def arrays_by_role(arrays: Values, source: str) -> tuple[Arrays, Texts]:
    """Return arrays by role (`NAMES`), and the names of unused arrays."""
    roles, used = {}, set()
    for role, spellings in NAMES.items():
        present = [name for name in arrays if last_part(name) in spellings]
        if present:
            name = min(present, key=lambda name: last_part(name) != role)
            roles[role] = np.atleast_1d(arrays[name])
            used.add(name)
    if "position_ids" not in roles and len(arrays) == 1:
        roles = {"position_ids": np.atleast_1d(next(iter(arrays.values())))}
        used = set(arrays)
    if "position_ids" not in roles and not roles.keys() >= {"cos", "sin"}:
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
    if array.size == 0:
        raise PefourierError(f"{subject} must hold integers; got an array {array.shape}")
    if max(int(array.max()), -int(array.min())) > LARGEST:
        raise PefourierError(f"{subject} must be below 2^53; got {int(array.max())}")
    return array.astype(np.int64)


def ids_by_axis(array: Array, subject: str) -> Array:
    """Reshape ids (n,), (rows, n) or (axes, rows, n) to (axes, rows, n)."""
    ids = as_ids(array, subject)
    if ids.ndim not in (1, 2, 3) or (ids.ndim == 3 and ids.shape[0] not in (1, 3, 4)):
        raise PefourierError(
            f"{subject} must have the shape (n,), (rows, n), or (axes, rows, n) with 3 or 4 axes; "
            f"got {ids.shape}"
        )
    return ids.reshape((1,) * (3 - ids.ndim) + ids.shape)


def batch_of(
    roles: Roles,
    source: str,
    rules: Rules,
    cached: int | None,
    stated: Array | None,
    ignored: Texts,
) -> Batch:
    """Build a batch from arrays by role (see `NAMES`); the others are `ignored`.

    `cached` tokens are in the cache. Ids recovered from a dump should equal those that are
    `stated`.
    """
    vision = rules.vision
    stored = roles["position_ids"]
    check_size(source, *stored.shape, limit=MOST_IDS)
    if rules.has_axes and stored.ndim == 2 and stored.shape[0] in (3, 4):
        stored = stored[:, None]
    ids = ids_by_axis(stored, "position_ids")
    shape = ids.shape[1:]
    given = {role: fitted(roles[role], shape, role) for role in TOKENWISE & {*roles}}
    depth = depth_of(given)
    mask, square = roles.get("attention_mask"), None
    is_square = mask is not None and mask.ndim > 1 and mask.shape[-1] == mask.shape[-2]
    if mask is not None and is_square and mask.shape != shape:
        visible, mask = as_visible(mask, shape), None
        square = read_mask(visible) if depth is None else Mask(visible, OTHER, ())
    past, hidden, mask = cached_tokens(roles, mask, shape, cached)
    segments = given["seq_idx"] + 1 if "seq_idx" in given else given.get("segment_ids")
    if "cu_seqlens" in roles:
        bounds, count = as_ids(roles["cu_seqlens"], "cu_seqlens").ravel(), ids[0].size
        if bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] > count:
            raise PefourierError(
                f"cu_seqlens must increase from 0 to at most {count} tokens; "
                f"got {bounds[:4].tolist()} … {int(bounds[-1])}"
            )
        numbers = np.searchsorted(bounds, np.arange(count), "right") % len(bounds)
        segments = numbers.reshape(shape)  # 0 behind the last bound
    knows_documents = segments is not None
    if mask is not None:  # one of 0 and 1 shows padding alone
        tokens = fitted(mask, shape, "the mask")
        knows_documents = knows_documents or int(tokens.max()) > 1
        segments = tokens if segments is None else np.where(tokens == 0, 0, segments)
    if segments is not None and segments.min() < 0:
        raise PefourierError(f"segment numbers must be at least 0; got {int(segments.min())}")
    if square is not None and segments is None and depth is None:
        visible, heads = square.visible, max(1, len(square.visible) // shape[0])
        by_row = visible.reshape(-1, heads, *visible.shape[1:])  # what any head of a row sees
        shown_by = np.broadcast_to([segments_in(seen.any(axis=0)) for seen in by_row], shape)
        segments = None if (shown_by == 1).all() else shown_by  # as without a mask
        knows_documents = square.kind != OTHER or bool(shown_by.max() > 1)
    if segments is not None and not segments.any():
        raise PefourierError("all tokens are padding; check the mask")
    if stated is not None:
        stated, knows_documents = ids_by_axis(stated, "position_ids")[0], True
        falls = np.diff(stated, axis=1, prepend=stated[:, :1]) < 0
        segments = 1 + np.cumsum(falls, axis=1) if segments is None else segments
    kinds = given.get("mm_token_type_ids")
    if kinds is None and "input_ids" in roles and (vision.image or vision.video):
        tokens = fitted(roles["input_ids"], shape, "input_ids")
        kinds = np.select([tokens == vision.image, tokens == vision.video], [1, 2])
    if rules.has_axes and len(ids) == 1 and kinds is not None and kinds.any():
        ids = np.repeat(ids, 3, axis=0)  # as the model reads them
    if past is not None and past.any() and (ids != ids[0]).any():
        raise PefourierError(
            "ids on several axes after a cache depend on its images; pass the whole sequence"
        )
    seconds = roles.get("second_per_grid_ts")
    return Batch(
        ids=ids,
        segments=segments,
        knows_documents=knows_documents,
        past=past,
        hidden=hidden,
        stated=stated,
        mask=square,
        depth=depth,
        kinds=kinds,
        images=grids_of(roles, "image_grid_thw"),
        videos=grids_of(roles, "video_grid_thw"),
        seconds=None if seconds is None else np.asarray(seconds, dtype=float).ravel(),
        ignored=ignored,
    )


def cached_tokens(
    roles: Roles,
    mask: Array | None,
    shape: Counts,
    past: int | None,
) -> tuple[Array | None, Array | None, Array | None]:
    """Return tokens and padding in the cache of each row, and the mask of the other tokens."""
    rows, tokens = shape
    width = 0 if mask is None or mask.size != rows * mask.shape[-1] else mask.shape[-1]
    if "cache_position" in roles:
        places = as_ids(roles["cache_position"], "cache_position").ravel()
        past = int(places[0]) if past is None else past
        if not np.array_equal(places, past + np.arange(tokens)):
            raise PefourierError(
                f"cache_position must count {tokens} tokens from {past} on; "
                f"got {places[:4].tolist()}"
            )
    elif past is None and width > tokens:
        past = width - tokens
    if past is None:
        return None, None, mask
    known = np.full(rows, past)
    if mask is None or width in (0, tokens):
        return known, np.zeros_like(known), mask
    if width < past + tokens or (width > past + tokens and "cache_position" not in roles):
        raise PefourierError(
            f"the mask {mask.shape} does not fit {past} tokens in the cache and {tokens} more"
        )
    seen = as_ids(mask, "the mask").reshape(rows, width)
    known = np.count_nonzero(seen[:, :past], axis=1)
    return known, past - known, seen[:, past : past + tokens]


def fitted(array: Array, shape: Counts, subject: str) -> Array:
    """Return integers of an array (n,) or (rows, n), in the shape of the ids."""
    array = as_ids(array, subject)
    if array.size != shape[0] * shape[1] or array.shape[-1] != shape[1]:
        raise PefourierError(f"{subject} of shape {array.shape} must have that of the ids, {shape}")
    return array.reshape(shape)


def depth_of(given: Roles) -> Array | None:
    """Return the depth of each node of a tree, as given or from its parents (-1: a root)."""
    if "depth" in given or "parents" not in given:
        return given.get("depth")
    parents = given["parents"]
    if (parents >= np.arange(parents.shape[1])).any():
        raise PefourierError("parents must come before their nodes; a root has the parent -1")
    depth = np.zeros(parents.shape, np.int64)
    for node, parent in enumerate(parents.T):
        depth[:, node] = np.where(parent < 0, 0, depth[np.arange(len(depth)), parent] + 1)
    return depth


def grids_of(roles: Roles, role: str) -> Array | None:
    """Return frames, rows and columns (k, 3) of images or videos."""
    if role not in roles:
        return None
    grids = as_ids(roles[role], role)
    if grids.shape[-1:] != (3,) or grids.min() < 1:
        raise PefourierError(
            f"{role} must have three sides of at least 1 per image; got {grids.shape}"
        )
    return grids.reshape(-1, 3)


def read_role(path: str, role: str, shape_of_ids: Counts) -> Arrays:
    """Read an array of an additional file by role: a mask, segments, or depths.

    A row of segments that increases from 0 and differs in size from the ids is cu_seqlens.
    """
    arrays = read_arrays(path)
    if len(arrays) > 1:
        arrays = {name: a for name, a in arrays.items() if last_part(name) in NAMES[role]}
    if len(arrays) != 1:
        raise PefourierError(f"{label(path)} must hold one array for {role}, or one with that name")
    (array,) = arrays.values()
    if role == "segment_ids" and array.ndim == 1:
        is_bounds = array.size != shape_of_ids[-1] and array.size and array[0] == 0
        role = "cu_seqlens" if is_bounds else role
    return {role: array}


def path_of(source: Any) -> str | None:
    """Return the path of an input that is a file."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None

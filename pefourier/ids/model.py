"""Position ids of a model's config: first id, limit, axes, and the effect of wrong ids.

Ids of M-RoPE: time, row and column of each token of an image or video.

Text has the same id on all three axes. A block of patches (frames, rows, columns) begins at the
largest previous id + 1 and counts each axis from there. Text after a block continues at the largest
id + 1 (the rule of the authors), or at start + max(rows, columns), as in transformers 5; the two
rules differ only for videos. In Qwen2.5-VL consecutive frames are tokens_per_second * seconds
apart; Qwen3-VL and GLM-4V give each frame a separate block, and Ernie 4.5 merges frames.
Sources: transformers 5.23, `get_rope_index` of qwen2_vl, qwen2_5_vl, qwen3_vl, glm4v and
ernie4_5_vl_moe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.model_positions import ModelPositions, axis_in, describe_positions
from pefourier.encodings.sources.huggingface import first_row
from pefourier.encodings.sources.json_object import read_object
from pefourier.errors import PefourierError, shown
from pefourier.ids.spans import EXPECTED, Facts, Rules, Span, displaced
from pefourier.types import Array, Fields, Places

BY_FRAME = ("qwen3_vl", "qwen3_5", "glm4v", "glm46v", "glm_ocr")  # types that split videos by frame
AUTHORS, LIBRARY = "largest id + 1", "start + max(rows, columns)"


@dataclass(frozen=True)
class Vision:
    """Settings of a config for image and video blocks."""

    merge: int = 2  # patches per token, along rows and columns
    frames_merged: int = 1  # of videos
    tokens_per_second: float | None = None  # None: frames are one apart
    by_frame: bool = False  # whether each frame is a separate block


@dataclass(frozen=True)
class Block:
    """Tokens of one image, video or frame."""

    frames: int
    rows: int
    columns: int
    interval: float = 1.0  # time from frame to frame

    @property
    def tokens(self) -> int:
        """Tokens of the block."""
        return self.frames * self.rows * self.columns

    def ids(self) -> Array:
        """Time, row and column (3, tokens), from 0."""
        times = np.floor(np.arange(self.frames) * self.interval).astype(np.int64)
        axes = np.meshgrid(times, np.arange(self.rows), np.arange(self.columns), indexing="ij")
        return np.stack(axes).reshape(3, -1)


def blocks_of(
    grids: Array | None, vision: Vision, seconds: Array | None = None, *, video: bool
) -> Iterator[Block]:
    """Yield the blocks of images or videos, in the order of their tokens."""
    for i, (frames, rows, columns) in enumerate([] if grids is None else grids.tolist()):
        sides = rows // vision.merge, columns // vision.merge
        if video and vision.by_frame:
            yield from [Block(1, *sides)] * frames
        elif video:
            second = 1.0 if seconds is None else float(seconds[i])
            interval = (
                1.0 if vision.tokens_per_second is None else vision.tokens_per_second * second
            )
            yield Block(frames // vision.frames_merged, *sides, interval)
        else:
            yield Block(frames, *sides)


def expected_axes(kinds: Array, blocks: dict[int, Iterator[Block]], rule: str = AUTHORS) -> Array:
    """Return the ids (3, n) of the tokens of one document (0: text, 1: image, 2: video).

    >>> expected_axes(np.array([0, 1, 1, 0]), {1: iter([Block(1, 1, 2)])}).tolist()
    [[0, 1, 1, 3], [0, 1, 1, 3], [0, 1, 2, 3]]
    """
    parts: list[Places] = []
    token = start = 0
    for kind, group in groupby(kinds.tolist()):
        count = len(list(group))
        if kind == 0:
            parts.append(np.tile(start + np.arange(count), (3, 1)))
            start += count
        end = token + count
        while kind and token < end:
            block = next(blocks[kind], None) if kind in blocks else None
            if block is None or block.tokens > end - token:
                raise PefourierError(
                    f"{count} {KINDS.get(kind, 'unknown')} tokens at token {token} do not fit a "
                    f"grid of {block.tokens if block else 'no'} tokens; check grids and token types"
                )
            ids = start + block.ids()
            parts.append(ids)
            taller = start + max(block.rows, block.columns)
            start = int(ids.max()) + 1 if rule == AUTHORS else taller
            token += block.tokens
        token = end
    return np.concatenate(parts, axis=1)


KINDS = {1: "image", 2: "video"}


def judge_axes(facts: Facts, axes: Array, due: Sequence[Array]) -> Span:
    """Judge a document on three axes (3, n) against the expected ids of each rule.

    `facts` describe the time axis and locate tokens; without `due`, only consistency is checked.
    """
    if not due:
        return replace(judge_structure(facts, axes), due=None)
    nearest = min(due, key=lambda ids: tokens_apart(axes - ids))
    return replace(judge_against(facts, axes, nearest), due=nearest)


def tokens_apart(shift: Array) -> int:
    """Count the tokens that differ from the expected ids, or are not shifted like the first."""
    moved = (shift != shift[:, :1]).any(axis=0).sum() + 1
    return int(min(shift.any(axis=0).sum(), moved))


def judge_against(facts: Facts, axes: Array, ids: Array) -> Span:
    """Judge a document on three axes against the expected ids (3, n)."""
    wrong = (axes != ids).any(axis=0)
    if not wrong.any():
        return facts.span(EXPECTED)
    token = int(wrong.argmax())
    shift = axes - ids
    expected = int(ids[(axes != ids)[:, token].argmax(), token])
    if (shift == shift[0, 0]).all():
        return facts.span(displaced(facts), 0, expected)
    if (axes == axes[0]).all():
        return facts.span("text only", token, expected)
    is_time_alone = (axes[1:] == ids[1:]).all(axis=0)[wrong].all()
    if is_time_alone and len(np.unique(axes[0])) < len(np.unique(ids[0])):
        return facts.span("times shared", token, expected)
    if (shift[:, token] == shift[0, token]).all():
        return facts.span("block start", token, expected)
    return facts.span("backwards" if axes[:, token].max() < expected else "gap", token, expected)


def judge_structure(facts: Facts, axes: Array) -> Span:
    """Judge ids alone: text increases by one, and blocks are grids that begin at the next id."""
    if (axes == axes[0]).all():
        return facts.span("text only", 0)
    allowed, token = {0}, 0
    while token < axes.shape[1]:
        first, block = axes[:, token], block_at(axes, token)
        start = int(first[0])
        if (first != start).any() or start not in allowed:
            due = min(allowed, key=lambda value: abs(value - start))
            if token == 0 and (first == start).all():
                return facts.span("offset", 0, 0)
            return facts.span("block start", token, due)
        if block is None:
            allowed, token = {start + 1}, token + 1
            continue
        ids = axes[:, token : token + block.tokens]
        if len(np.unique(ids[0])) < block.frames:
            second = token + block.rows * block.columns
            return facts.span("times shared", second, start + 1)
        allowed = {int(ids.max()) + 1, start + max(block.rows, block.columns)}
        token += block.tokens
    return facts.span(EXPECTED)


def block_at(axes: Places, token: int) -> Block | None:
    """Return the grid of patches that begins at a token; None for text.

    >>> block_at(np.array([[4, 4, 4, 4, 6], [4, 4, 5, 5, 6], [4, 5, 4, 5, 6]]), 0)
    Block(frames=1, rows=2, columns=2, interval=1.0)
    """
    time, row, column = axes[:, token:]
    columns = run_length((column[0], row[0], time[0]), column, row, time)
    rows = 1
    while matches(axes, token, rows * columns, columns, (0, rows)):
        rows += 1
    frames = 1
    while matches(axes, token, frames * rows * columns, rows * columns, None):
        frames += 1
    is_text = frames * rows * columns == 1
    return None if is_text else Block(frames, rows, columns)


def run_length(start: tuple[int, int, int], *axes: Array) -> int:
    """Count the tokens of one row of patches: columns increase by one, row and time stay."""
    column, row, time = axes
    steps = np.arange(len(column))
    goes_on = (column == start[0] + steps) & (row == start[1]) & (time == start[2])
    return int(goes_on.argmin()) if not goes_on.all() else len(column)


def matches(axes: Places, token: int, skip: int, count: int, shift: tuple[int, int] | None) -> bool:
    """Whether the patches of a block repeat `skip` tokens later, shifted in (time, row).

    Without a shift, rows and columns must repeat, at the same time or a later one.
    """
    ids, again = axes[:, token : token + count], axes[:, token + skip :][:, :count]
    if again.shape[1] < count or (again[2] != ids[2]).any() or count == axes.shape[1]:
        return False
    if shift is None:
        is_frame = (again[1] == ids[1]).all() and (again[0] == again[0, 0]).all()
        return bool(is_frame and again[0, 0] >= ids[0, 0] and count > 1)
    return bool((again[0] == ids[0]).all() and (again[1] == ids[1] + shift[1]).all())


LAGS = 4096  # lags per pair of runs at which changes of scores are computed
PAIRS_OF_RUNS = 64


@dataclass(frozen=True)
class Consequence:
    """Effect of unexpected ids on attention."""

    scores_change: bool | None  # None: no config was given
    largest_change: float | None  # in the kernel, a bias, or a vector relative to its norm


NOT_KNOWN = Consequence(None, None)


@dataclass(frozen=True, eq=False)
class Model:
    """Positions of a model, and the config keys that determine its ids."""

    spec: str
    positions: ModelPositions
    values: Fields  # the whole config

    @property
    def encoding(self) -> Encoding:
        """The first rotation of the model, or its table or bias."""
        return self.positions.encoding

    @cached_property
    def has_axes(self) -> bool:
        """Whether the rotation has three axes of ids."""
        return self.encoding.injection == "rotate" and axis_in(self.encoding) is not None

    @property
    def vision_tokens(self) -> tuple[int | None, int | None]:
        """Token ids of the patches of images and videos."""
        image = self.values.get("image_token_id", self.values.get("image_token_index"))
        video = self.values.get("video_token_id", self.values.get("video_token_index"))
        image, video = (token if isinstance(token, int) else None for token in (image, video))
        return image, video

    @property
    def vision(self) -> Vision:
        """Conversion of the patches of images and videos to tokens."""
        section = self.values.get("vision_config")
        section = section if isinstance(section, dict) else {}
        kind = str(self.values.get("model_type", ""))
        merges = [section.get(f"{name}_merge_size") for name in ("spatial", "temporal")]
        spatial, temporal = (m if isinstance(m, int) and m > 0 else None for m in merges)
        rate = section.get("tokens_per_second")
        is_timed = kind.startswith("qwen2_5")
        return Vision(
            merge=spatial or 2,
            frames_merged=(temporal or 1) if kind.startswith("ernie") else 1,
            tokens_per_second=float(rate) if is_timed and isinstance(rate, int | float) else None,
            by_frame=kind.startswith(BY_FRAME),
        )

    def rules(self, length: int | None) -> Rules:
        """First id, limit, and the number that the model adds to ids."""
        config = self.encoding.file and self.encoding.file.model
        row = config.row if config else {}
        is_table = self.encoding.injection == "add" and self.encoding.name in (
            "learned",
            "sinusoidal",
            "file",
        )
        first = first_row(config) if config and is_table else 0
        among = row.get("first") == "padding"
        limit = self.positions.allowed
        if is_table and limit is not None:
            limit = len(self.encoding) + (first if among else 0)
        if self.encoding.injection in ("bias", "key", "key-query"):
            limit = None  # distances have a bias or vector at any length
        return Rules(
            start=first if among else 0, added=0 if among else first, limit=length or limit
        )

    def consequence(self, pairs: list[tuple[Array, Array]]) -> Consequence:
        """Compute the effect of ids (…, n) that replace the expected ones, by document."""
        if self.encoding.injection == "add":
            return self.change_of_vectors(pairs)
        changes = [c for ids, due in pairs for c in self.changes_of_scores(ids, due)]
        return Consequence(bool(changes), max(changes, default=0.0))

    def change_of_vectors(self, pairs: list[tuple[Array, Array]]) -> Consequence:
        """Return the largest distance between added vectors, relative to the RMS norm."""
        ids, due = (np.concatenate([np.zeros(0, int), *(p[i][0] for p in pairs)]) for i in (0, 1))
        ids, due = ids[ids != due], due[ids != due]
        if not len(ids):
            return Consequence(scores_change=False, largest_change=0.0)
        rows = len(self.encoding)
        inside = (ids >= 0) & (ids < rows) & (due >= 0) & (due < rows)
        if not inside.any() or (
            self.encoding.name == "learned" and self.encoding.origin == "formula"
        ):
            return Consequence(scores_change=True, largest_change=None)
        a, b = (self.encoding.table(x[inside][:LAGS]) for x in (ids, due))
        norm = float(np.sqrt((np.asarray(b, float) ** 2).sum(axis=1).mean()))
        largest = float(np.linalg.norm(a - b, axis=1).max())
        return Consequence(scores_change=True, largest_change=largest / norm if norm else None)

    def changes_of_scores(self, ids: Array, due: Array) -> list[float]:
        """Return changes for rotations and biases, between runs with different shifts."""
        moves, inverse = np.unique(ids - due, axis=1, return_inverse=True)
        if moves.shape[1] < 2:
            return []
        changes = []
        for a in range(min(moves.shape[1], PAIRS_OF_RUNS)):
            for b in range(a):
                queries, keys = (np.flatnonzero(inverse.ravel() == group) for group in (a, b))
                step = max(1, len(keys) // LAGS)
                lag = due[:, queries[:1]] - due[:, keys[::step]]
                changes.append(self.change_at(lag, moves[:, a] - moves[:, b]))
        return changes

    def change_at(self, lags: Array, move: Array) -> float:
        """Return the largest change of the kernel, or of a bias, at shifted lags (axes, n)."""
        enc = self.encoding
        if enc.injection == "bias":
            old, new = (
                np.asarray(enc.vectors(-np.abs(x)[0]), float) for x in (lags, lags + move[:, None])
            )
            return float(np.abs(new - old).max())
        if enc.measure is None or enc.injection != "rotate":
            raise PefourierError(f"{shown(enc.label)} has no frequencies that give scores by lag")
        omega, axis = enc.measure.frequencies, axis_in(enc) if len(lags) > 1 else None
        place = np.zeros(len(omega), int) if axis is None else np.minimum(axis, len(lags) - 1)
        weights = np.full(len(omega), 1 / len(omega))
        old, new = (np.cos(x[place].T * omega) @ weights for x in (lags, lags + move[:, None]))
        return float(np.abs(new - old).max())


def read_model(spec: str) -> Model:
    """Read the rules for ids from a config or a named encoding."""
    positions = describe_positions(spec)
    config = positions.encoding.file and positions.encoding.file.model
    return Model(spec, positions, read_object(config.file) if config else {})

"""Ids of M-RoPE: time, row and column of each token of an image or video.

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
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pefourier.errors import PefourierError
from pefourier.ids.spans import EXPECTED, Facts, Span, displaced

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

    def ids(self) -> np.ndarray:
        """Time, row and column (3, tokens), from 0."""
        times = np.floor(np.arange(self.frames) * self.interval).astype(np.int64)
        axes = np.meshgrid(times, np.arange(self.rows), np.arange(self.columns), indexing="ij")
        return np.stack(axes).reshape(3, -1)


def blocks_of(
    grids: np.ndarray | None, vision: Vision, seconds: np.ndarray | None = None, *, video: bool
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


def expected_axes(
    kinds: np.ndarray, blocks: dict[int, Iterator[Block]], rule: str = AUTHORS
) -> np.ndarray:
    """Return the ids (3, n) of the tokens of one document (0: text, 1: image, 2: video).

    >>> expected_axes(np.array([0, 1, 1, 0]), {1: iter([Block(1, 1, 2)])}).tolist()
    [[0, 1, 1, 3], [0, 1, 1, 3], [0, 1, 2, 3]]
    """
    parts: list[NDArray[np.int64]] = []
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


def judge_axes(facts: Facts, axes: np.ndarray, due: Sequence[np.ndarray]) -> Span:
    """Judge a document on three axes (3, n) against the expected ids of each rule.

    `facts` describe the time axis and locate tokens; without `due`, only consistency is checked.
    """
    if not due:
        return replace(judge_structure(facts, axes), due=None)
    nearest = min(due, key=lambda ids: tokens_apart(axes - ids))
    return replace(judge_against(facts, axes, nearest), due=nearest)


def tokens_apart(shift: np.ndarray) -> int:
    """Count the tokens that differ from the expected ids, or are not shifted like the first."""
    moved = (shift != shift[:, :1]).any(axis=0).sum() + 1
    return int(min(shift.any(axis=0).sum(), moved))


def judge_against(facts: Facts, axes: np.ndarray, ids: np.ndarray) -> Span:
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


def judge_structure(facts: Facts, axes: np.ndarray) -> Span:
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


def block_at(axes: NDArray[np.int64], token: int) -> Block | None:
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


def run_length(start: tuple[int, int, int], *axes: np.ndarray) -> int:
    """Count the tokens of one row of patches: columns increase by one, row and time stay."""
    column, row, time = axes
    steps = np.arange(len(column))
    goes_on = (column == start[0] + steps) & (row == start[1]) & (time == start[2])
    return int(goes_on.argmin()) if not goes_on.all() else len(column)


def matches(
    axes: NDArray[np.int64], token: int, skip: int, count: int, shift: tuple[int, int] | None
) -> bool:
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

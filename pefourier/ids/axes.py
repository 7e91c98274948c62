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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from pefourier.causes.explain import Explanation, explain
from pefourier.causes.rows import (
    CORNERS,
    HIDDEN,
    KINDS,
    Change,
    Gap,
    Given,
    Numbers,
    Recounted,
    Shifted,
    agree,
    changes,
    corners,
    shift_of,
)
from pefourier.errors import PefourierError
from pefourier.ids.spans import Document, Fault, Span, describe, rank_of
from pefourier.types import Array, Bools, Counts

BY_FRAME = ("qwen3_vl", "qwen3_5", "glm4v", "glm46v", "glm_ocr")  # types that split videos by frame
AUTHORS, LIBRARY = "largest id + 1", "start + max(rows, columns)"
KINDS_OF_TOKENS = {1: "image", 2: "video"}


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

    times: Counts  # of its frames, from 0
    rows: int
    columns: int
    by_columns: bool = False  # whether the tokens of a frame go down its columns

    @property
    def tokens(self) -> int:
        """Tokens of the block."""
        return len(self.times) * self.rows * self.columns

    def ids(self) -> Numbers:
        """Time, row and column (3, tokens), from 0."""
        axes = np.array(
            np.meshgrid(self.times, np.arange(self.rows), np.arange(self.columns), indexing="ij")
        )
        return (axes.swapaxes(2, 3) if self.by_columns else axes).reshape(3, -1)


Layout = Sequence[int | Block]  # of a document: numbers of text tokens, and blocks


def times_of(frames: int, interval: float) -> Counts:
    """Return the times of frames that are `interval` apart, rounded down."""
    return tuple(np.floor(np.arange(frames) * interval).astype(int).tolist())


def blocks_of(
    grids: Array | None, vision: Vision, seconds: Array | None = None, *, video: bool
) -> Iterator[Block]:
    """Yield the blocks of images or videos, in the order of their tokens."""
    for i, (frames, rows, columns) in enumerate([] if grids is None else grids.tolist()):
        sides = rows // vision.merge, columns // vision.merge
        if video and vision.by_frame:
            yield from [Block((0,), *sides)] * frames
            continue
        rate = vision.tokens_per_second if video else None
        second = 1.0 if seconds is None or not video else float(seconds[i])
        count = frames // vision.frames_merged if video else frames
        yield Block(times_of(count, 1.0 if rate is None else rate * second), *sides)


def layout_of(kinds: Any, blocks: dict[int, Iterator[Block]]) -> Layout:
    """Return the layout of the tokens of one document (0: text, 1: image, 2: video)."""
    parts: list[int | Block] = []
    token = 0
    for kind, group in groupby(kinds.tolist()):
        count = len(list(group))
        parts += [count] if kind == 0 else []
        end = token + count
        while kind and token < end:
            block = next(blocks[kind], None) if kind in blocks else None
            if block is None or block.tokens > end - token:
                raise PefourierError(
                    f"{count} {KINDS_OF_TOKENS.get(kind, 'unknown')} tokens at token {token} do "
                    f"not fit a grid of {block.tokens if block else 'no'} tokens; check grids and "
                    "token types"
                )
            parts.append(block)
            token += block.tokens
        token = end
    return parts


def ids_of(layout: Layout, rule: str = AUTHORS) -> Numbers:
    """Return the ids (3, n) of a document.

    >>> ids_of([1, Block((0,), 1, 2), 1]).tolist()
    [[0, 1, 1, 3], [0, 1, 1, 3], [0, 1, 2, 3]]
    """
    parts, start = [np.zeros((3, 0), np.int64)], 0
    for part in layout:
        if isinstance(part, int):
            ids = start + np.tile(np.arange(part), (3, 1))
            start += part
        else:
            ids, taller = start + part.ids(), start + max(part.rows, part.columns)
            start = taller if rule == LIBRARY else int(ids.max()) + 1
        parts.append(ids)
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class OnAxis:
    """A cause on one of several axes."""

    inner: Change = field(metadata=HIDDEN)
    axis: int

    def __getattr__(self, name: str) -> Any:
        """Return the finding and the advice of the cause."""
        return getattr(self.inner, name)

    @property
    def words(self) -> str:
        return f"on axis {self.axis}, {self.inner.words}"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Iterator[Any]:
        for axis in np.flatnonzero((expected != observed).any(axis=1)).tolist():
            for kind in KINDS:
                for cause in kind.propose(expected[axis], observed[axis]):
                    yield cls(cause, axis)

    def apply(self, expected: Numbers) -> Numbers:
        ids = expected.copy()
        ids[self.axis] = self.inner.apply(expected[self.axis])
        return ids


@dataclass(frozen=True)
class AxesExchanged(Change):
    """Two axes are exchanged."""

    axes: tuple[int, int]
    name = "axes-exchanged"
    finding = "ids-backwards"
    says = "axes {c.axes[0]} and {c.axes[1]} exchanged (0: time, 1: row, 2: column)"
    undo = "exchange them back"

    @classmethod
    def propose(cls, _: Numbers, __: Numbers) -> Iterator[Change]:
        yield from map(cls, ((1, 2), (0, 1), (0, 2)))

    def apply(self, expected: Numbers) -> Numbers:
        ids = expected.copy()
        ids[list(self.axes)] = expected[list(self.axes[::-1])]
        return ids


@dataclass(frozen=True)
class BlockStart(Gap):
    """From a token on, ids on all axes are larger, or smaller."""

    name = "block-start"
    finding = "ids-block-start"
    says = "positions shifted by {c.by:+} on all axes from index {c.at} on"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> Iterator[Change]:
        shift = shift_of(expected, observed)
        steps = np.diff(shift[0], prepend=shift[0, 0])
        yield from (cls(at, int(steps[at])) for at in changes(shift) if steps[at])


def other_layouts(layout: Layout, rule: str, axes: Numbers) -> Iterator[Recounted]:
    """Yield what the ids are if blocks are read in another way."""
    blocks = [part for part in layout if isinstance(part, Block)]
    if not blocks:
        return
    text = np.tile(np.arange(axes.shape[1]), (3, 1))
    words, undo = "the same positions on all axes, as for text", "use the model's get_rope_index"
    yield Recounted("text-only", "ids-text-only", words, undo, text)
    turned = [replace(p, by_columns=True) if isinstance(p, Block) else p for p in layout]
    words = "the tokens of an image in the order of its columns"
    yield Recounted("column-major", "ids-backwards", words, undo, ids_of(turned, rule))
    for interval in intervals(layout, axes):
        timed = [
            replace(p, times=times_of(len(p.times), interval)) if isinstance(p, Block) else p
            for p in layout
        ]
        words = f"frames of a video {interval:.3g} apart, so that some share a time"
        undo = "check second_per_grid_ts, tokens_per_second, and the rounding of their product"
        yield Recounted("times-shared", "ids-times-shared", words, undo, ids_of(timed, rule))


def intervals(layout: Layout, axes: Numbers) -> Iterable[float]:
    """Return the intervals from frame to frame that the first times of videos suggest."""
    token, found = 0, []
    for part in layout:
        if isinstance(part, Block) and len(part.times) > 1:
            frames = axes[0, token : token + part.tokens : part.rows * part.columns]
            steps = np.arange(1, len(frames))
            found.append(float(((frames[1:] - frames[0]) / steps).max()))
        token += part if isinstance(part, int) else part.tokens
    return dict.fromkeys(interval for interval in found if 0 <= interval < 1)


def judge_axes(document: Document, layout: Layout | None) -> tuple[Span, list[str]]:
    """Judge a document on three axes (3, n); return also the rules that its ids follow.

    Without a layout, that of the ids is read from them: then they follow one, or break it.
    """
    axes, is_flat = document.ids, bool((document.ids == document.ids[0]).all())
    parts = read_layout(axes) if layout is None else layout
    due = {rule: ids_of(parts, rule) for rule in (AUTHORS, LIBRARY)}
    tries = []
    for rule, ids in due.items():
        known = Given([*other_layouts(parts, rule, axes), *document.shifts()])
        kinds = (Shifted, known, AxesExchanged, BlockStart)
        found = explain(ids, axes, kinds, agree)
        if not found.causes:
            found = explain(ids, axes, (*kinds, OnAxis), agree, is_smooth)
        tries.append((found, ids))
    found, expected = min(tries, key=rank_of)
    followed = [rule for rule, ids in due.items() if (ids == axes).all()]
    span = describe(document, expected, found)
    if layout is None and is_flat:
        words = "the same positions on all axes, as for text; use the model's get_rope_index"
        fault = Fault("ids-text-only", words, span.start, span.first_id, span.first_id)
        found = Explanation((), np.zeros(axes.shape, dtype=bool))
        span = describe(document, expected, found, "ids-text-only")
        span = replace(span, explained=None, expected_first=None, due=None, faults=(fault,))
    return span, followed if (due[AUTHORS] != due[LIBRARY]).any() else []


def is_smooth(expected: Numbers, observed: Numbers) -> bool:
    """Whether few places separate ids from those expected, as one cause on an axis makes."""
    return corners(shift_of(expected, observed)) <= CORNERS


def read_layout(axes: Numbers) -> Layout:
    """Read text and blocks from ids (3, n): text is equal on all axes, and blocks are grids."""
    parts: list[int | Block] = []
    token = 0
    while token < axes.shape[1]:
        block = block_at(axes[:, token:] - axes[:, [token]])
        parts.append(block or 1)
        token += block.tokens if block else 1
    return parts


def block_at(axes: Numbers) -> Block | None:
    """Return the grid of patches that begins at the first token, which has the ids 0; else None.

    >>> block_at(np.array([[0, 0, 0, 0, 2], [0, 0, 1, 1, 2], [0, 1, 0, 1, 2]]))
    Block(times=(0,), rows=2, columns=2, by_columns=False)
    """
    time, row, column = axes
    index = np.arange(len(time))

    def tokens(is_held: Bools) -> int:
        return int(np.append(is_held, False).argmin())

    is_first = time == 0
    columns = tokens(is_first & (row == 0) & (column == index))
    in_columns = column == index % columns
    rows = tokens(is_first & in_columns & (row == index // columns)) // columns
    size = rows * columns
    starts = time[index // size * size]
    is_later = (time == starts) & (starts >= np.maximum.accumulate(starts))
    frames = tokens(is_later & in_columns & (row == index // columns % rows)) // size
    if size == 1:
        return None
    times = starts[: frames * size : size].tolist()
    is_shared = len({*times}) < frames
    return Block(tuple(range(frames) if is_shared else times), rows, columns)

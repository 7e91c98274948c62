"""Check the ids of a batch, document by document, against the expected ids.

A span is the tokens of one document in one row. Token i of a span is expected at start + i, where
start is 0 or the config's first position, after what a cache holds; a node of a tree is expected
at start + its depth. If the ids differ, causes are searched that give all of them.

M-RoPE has three ids for each token of an image or video: time, row and column. Text has the same id
on all three axes. A block of patches (frames, rows, columns) begins at the
largest previous id + 1 and counts each axis from there. Text after a block continues at the largest
id + 1 (the rule of the authors), or at start + max(rows, columns), as in transformers 5; the two
rules differ only for videos. In Qwen2.5-VL consecutive frames are tokens_per_second * seconds
apart; Qwen3-VL and GLM-4V give each frame a separate block, and Ernie 4.5 merges frames.
Sources: transformers 5.23, `get_rope_index` of qwen2_vl, qwen2_5_vl, qwen3_vl, glm4v and
ernie4_5_vl_moe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from pefourier.construction.explain import Cover, Difference, Explanation, explain
from pefourier.construction.rows import (
    CORNERS,
    AxesExchanged,
    Beyond,
    Gap,
    Given,
    NotRestarted,
    Numbers,
    PaddingCounted,
    Piece,
    Recounted,
    RowChanges,
    Shifted,
    TableOffset,
    agree,
    changes,
    corners,
    explain_rows,
    parts_of,
    shift_of,
)
from pefourier.encodings.encoding import Finding, finding
from pefourier.errors import PefourierError
from pefourier.ids.batch import Batch, Rules, Vision
from pefourier.types import Array, Bools, Counts, Fields, frozen, frozen_arrays, hidden
from pefourier.writing.page import fields_of
from pefourier.writing.text import ranges

EXPECTED, UNDECIDED, UNEXPLAINED = "as expected", "undecided", "unexplained"
OF_PAIRS = {  # verdicts of two kinds of causes that are one; of all others: several
    frozenset({"restarted", "repeated"}): "repeated",
    frozenset({"times shared", "block start"}): "block start",
}


@frozen
class TokenFinding(Finding):
    """A finding about one token of a row; fields are None if it concerns the whole batch."""

    row: int | None = None
    token: int | None = None  # in the row
    value: int | None = None
    expected: int | None = None


@frozen
class Span:
    """One document of one row: its ids, and the causes that give them."""

    row: int
    segment: int
    tokens: int
    first: int | Difference  # id of the first token; the first difference if nothing explains it
    last: int
    expected_first: int | None  # None: unknown
    verdict: str
    runs: str  # stretches that increase by one
    causes: tuple[Fields, ...] = ()  # applied to the expected ids, they give the ids
    explained: float | None = None  # share of the ids that the causes, or none, reproduce
    first_id: int = hidden(default=0)
    index: Numbers = hidden(repr=False, compare=False, kw_only=True)  # in the row
    faults: tuple[TokenFinding, ...] = hidden(default=())
    doubt: str = hidden(default="")  # what the input leaves open, if undecided
    due: Numbers | None = hidden(default=None, repr=False, compare=False)


@frozen_arrays
class Document:
    """The ids of a document, and the facts by which they are judged."""

    ids: Numbers  # (n,), or (axes, n)
    tokens: Numbers  # indices in the row
    row: int
    place: int  # index among the documents of the row
    previous: int  # largest last id of the previous document; 0 before the first
    rules: Rules
    batch: Batch

    @property
    def start(self) -> int:
        """Id expected first: the cache comes before the first document."""
        cached = self.batch.past
        return self.rules.start + (
            int(cached[self.row]) if cached is not None and not self.place else 0
        )

    def shifts(self) -> list[Any]:
        """Return the shifts that the input suggests, by name."""
        rules, hidden = self.rules, self.batch.hidden
        known: list[Any] = []
        pads = self.tokens - np.arange(len(self.tokens))  # padding before each token
        pads += 0 if hidden is None else hidden[self.row]
        if self.place:
            shifts = self.previous + 1 - self.start, int(self.tokens[0])
            known += [NotRestarted(by) for by in dict.fromkeys(shifts) if by]
        elif self.batch.segments is not None and pads.any():
            known.append(PaddingCounted(int(pads.max()), pads))
        return known + [TableOffset(by) for by in (-rules.start, rules.added) if by]


def documents_of(batch: Batch, row: int) -> list[Numbers]:
    """Return the tokens of each document in a row, without padding (also inside a document)."""
    if batch.segments is None:
        return [np.arange(batch.ids.shape[2])]
    tokens = np.flatnonzero(batch.segments[row])
    cuts = np.flatnonzero(np.diff(batch.segments[row, tokens])) + 1
    return [part for part in np.split(tokens, cuts) if len(part)]


def judge_line(document: Document) -> Span:
    """Judge the ids of a document on one axis."""
    batch, rules, ids, start = document.batch, document.rules, document.ids, document.start
    index = start + np.arange(len(ids))
    known = document.shifts()
    if rules.rank is not None:
        return judge_shard(document, index)
    expected = index
    if batch.stated is not None:
        expected = batch.stated[document.row, document.tokens]
    elif batch.depth is not None:
        expected = start + batch.depth[document.row, document.tokens]
        words = "positions of the list of tokens, not of the tree"
        known.append(
            Recounted("index-for-depth", "ids-index-for-depth", words, "use depths", index)
        )
    is_open = not batch.knows_documents and batch.depth is None
    found = explain_rows(expected, ids, [Given(known)], in_parts=True)
    is_shift = found.reproduced.all() and all(isinstance(c, Shifted) for c in found.causes)
    doubt = ""
    if batch.past is None and ids.shape == batch.ids.shape[2:] == (1,) and ids[0] > start:
        doubt = "step"
    elif is_open and not is_shift and is_undecided(document):
        doubt = "open" if batch.segments is None else "documents"
    return describe(document, expected, found, doubt=doubt)


def describe(
    document: Document,
    expected: Numbers,
    found: Explanation[Numbers],
    given: str | None = None,
    hint: str = "",
    doubt: str = "",
) -> Span:
    """Return the span of a document with what was found.

    `given` is the code of its finding, if it is known; `hint` adds what else may be expected, and
    `doubt` is what the input leaves open.
    """
    ids, tokens, limit = document.ids, document.tokens, document.rules.limit
    rows, due = np.atleast_2d(ids), np.atleast_2d(expected)
    is_decided = not (doubt or given)
    given = "ids-undecided" if doubt else given
    causes: list[Any] = [] if doubt else list(found.causes)
    code, words = "ids-unexplained", "no cause that was tried gives these ids"
    apart = np.flatnonzero((rows != due).any(axis=1)).tolist()
    if 0 < len(apart) < len(rows):
        words += f" (axes that differ: {ranges(apart)})"
    if causes:
        undo = "" if len(causes) > 1 else f"; {causes[0].undo}"
        code, words = causes[0].finding, ", then ".join(cause.words for cause in causes) + undo
    code = given or code
    verdict = kind_of(code)
    kinds = frozenset(kind_of(cause.finding) for cause in causes)
    if not given and (rows == due).all():
        verdict = EXPECTED
    elif not given and len(kinds) > 1:
        verdict = OF_PAIRS.get(kinds, "several")
        code = next((c.finding for c in causes if kind_of(c.finding) == verdict), code)
    places = [(rows != due, due, code, words + hint)]
    if (rows < 0).any():
        places = [] if causes else places
        places += [(rows < 0, due, "ids-negative", words if causes else "negative ids")]
        verdict = "negative" if causes else verdict
    if limit is not None and (rows >= limit).any():
        beyond = Beyond(int((rows >= limit).any(axis=0).argmax()), limit)
        largest = np.full_like(due, limit - 1)
        places += [(rows >= limit, largest, beyond.finding, f"{beyond.words}; {beyond.undo}")]
        if verdict != UNEXPLAINED:
            causes, verdict = [*causes, beyond], "beyond"
    faults, first, runs = [], None, runs_in_words(rows[0])
    for wrong, right, code, words in places:
        if not wrong.any():
            continue
        token, axis = np.argwhere(wrong.T)[0].tolist()
        value, at = int(rows[axis, token]), int(tokens[token])
        known = None if given == "ids-text-only" else int(right[axis, token])
        where = f"row {document.row}, document {document.place}: {words}"
        if known is not None:
            first = first or Difference(token if ids.ndim == 1 else (axis, token), known, value)
            where += f"; token {at} has id {value}, expected {known}"
        place: Fields = {"row": document.row, "token": at, "value": value, "expected": known}
        facts = finding(
            code,
            doubt if code == given else "",
            where=where,
            words=words,
            runs=runs,
            segment=document.place,
            **place,
        )
        faults.append(TokenFinding(**vars(facts), **place))
    return Span(
        row=document.row,
        segment=document.place,
        tokens=len(tokens),
        first=first if verdict == UNEXPLAINED and first else int(rows[0, 0]),
        last=int(rows[0, -1]),
        expected_first=int(due[0, 0]) if is_decided else None,
        verdict=verdict,
        runs=runs,
        causes=tuple(map(record, causes)) if is_decided else (),
        explained=found.share if is_decided else None,
        first_id=int(rows[0, 0]),
        index=tokens,
        faults=tuple(faults),
        doubt=doubt,
        due=due if is_decided else None,
    )


def kind_of(code: str) -> str:
    """Return the kind of mistake that a finding reports, a verdict.

    >>> kind_of("ids-not-restarted")
    'not restarted'
    """
    return code.partition("-")[2].replace("-", " ")


def record(cause: Any) -> Fields:
    """Return the code of a cause and what is needed to apply it, with its step and its axis."""
    found = {**fields_of(cause), "step": "rows"}
    axis = (found.get("within") or {}).get("axis")
    found["axis"] = axis if isinstance(axis, int) else None
    return {name: value for name, value in found.items() if value is not None}


def is_undecided(document: Document) -> bool:
    """Whether ids may be correct if documents or shards begin at unknown tokens.

    These are runs that each restart; if no mask shows padding, also one run after equal ids of
    padding, and every k-th id or two blocks, as on one of several ranks.
    """
    ids, start = document.ids, document.start
    steps = np.diff(ids)
    cuts = np.flatnonzero(steps != 1) + 1
    if (ids[cuts] == start).all() and ids[0] == start:
        return bool((np.diff(np.r_[cuts, len(ids)]) > 1).any())
    if document.batch.segments is not None:
        return False
    if len(ids) > 2 and (steps == steps[0]).all() and steps[0] > 1:
        return True
    lead = int((ids != ids[0]).argmax())
    behind = ids[lead:] if lead > 1 else ids[:0]
    is_padded = (behind == start + np.arange(len(behind)) + (ids[0] == start)).all()
    if len(behind) and is_padded:
        return True
    half = max(1, len(ids) // 2)  # tokens of each of two blocks
    block, mirror = ids[::half][:2] if len(ids) == 2 * half else (0, 0)
    is_in_blocks = cuts.tolist() == [half] and not block % half and not mirror % half
    return bool(is_in_blocks and mirror > block and (block + mirror) // half % 2)


def shards(rules: Rules, count: int, rank: int) -> dict[str, Numbers]:
    """Return the ids of each kind of shard on a rank that holds `count` tokens.

    >>> shards(Rules(rank=1, ranks=2), 4, 1)["zigzag"].tolist()
    [2, 3, 4, 5]
    """
    token, half, ranks = np.arange(count), count // 2, rules.ranks
    kinds = {"every": rank + ranks * token, "block": rank * count + token}
    if 2 * half == count:
        mirror = 2 * ranks - 1 - rank
        kinds["zigzag"] = np.r_[rank * half + token[:half], mirror * half + token[:half]]
    return {kind: rules.start + ids for kind, ids in kinds.items()}


def judge_shard(document: Document, index: Numbers) -> Span:
    """Judge the ids on one of several ranks that share a document."""
    ids, rules = document.ids, document.rules
    due = shards(rules, len(ids), rules.rank or 0)
    chosen = {rules.shard: due[rules.shard]} if rules.shard in due else due
    words = "positions counted on this rank alone"
    known: list[Any] = [
        Recounted("local-ids", "ids-local-ids", words, "use ids of the whole sequence", index)
    ]
    first, half = int(ids[0]) - rules.start, max(1, len(ids) // 2)
    for rank in {first, first // len(ids), first // half} & {*range(rules.ranks)}:
        for shard, numbers in shards(rules, len(ids), rank).items():
            words = f"positions of rank {rank} of {rules.ranks} (--shard {shard})"
            facts = ("wrong-shard", "ids-wrong-shard", words, "check how tokens are shared")
            if (ids == numbers).all():
                known.append(Recounted(*facts, numbers))
    tries = [(explain_rows(part, ids, [Given(known)]), part) for part in chosen.values()]
    found, expected = min(tries, key=lambda tried: (*rank_of(tried), np.abs(tried[1] - ids).sum()))
    hint = "; expected first: " + ", ".join(f"{kind} {int(x[0])}" for kind, x in chosen.items())
    return describe(document, expected, found, hint=hint if len(chosen) > 1 else "")


def rank_of(found: tuple[Explanation[Numbers], Numbers]) -> tuple[bool, int, float]:
    """Sort explanations: those of all ids first, then those with fewer causes."""
    return not found[0].reproduced.all(), len(found[0].causes), -found[0].share


def runs_in_words(ids: Numbers) -> str:
    """List the first runs of ids.

    >>> runs_in_words(np.array([0, 1, 2, 0, 1, 7]))
    '0-2, 0-1, 7'
    """
    cuts = np.flatnonzero(np.diff(ids) != 1) + 1
    texts = [
        f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}"
        for run in np.split(ids, cuts[:4])[:4]
    ]
    left_out = len(cuts) + 1 - len(texts)
    return ", ".join(texts) + (f", … ({left_out} more)" if left_out > 0 else "")


BY_FRAME = ("qwen3_vl", "qwen3_5", "glm4v", "glm46v", "glm_ocr")  # types that split videos by frame
AUTHORS, LIBRARY = "largest id + 1", "start + max(rows, columns)"
KINDS_OF_TOKENS = {1: "image", 2: "video"}


@frozen
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


DocumentLayout = Sequence[int | Block]  # of a document: numbers of text tokens, and blocks


def times_of(frames: int, interval: float) -> Counts:
    """Return the times of frames that are `interval` apart, rounded down."""
    return tuple(np.floor(np.arange(frames) * interval).astype(int).tolist())


def blocks_of(grids: Array | None, vision: Vision, seconds: Array | None = None) -> Iterator[Block]:
    """Yield the blocks of images or videos, in the order of their tokens."""
    for i, (frames, rows, columns) in enumerate([] if grids is None else grids.tolist()):
        sides = rows // vision.merge, columns // vision.merge
        if vision.by_frame:
            yield from [Block((0,), *sides)] * frames
            continue
        rate, second = vision.tokens_per_second, 1.0 if seconds is None else float(seconds[i])
        interval = 1.0 if rate is None else rate * second
        yield Block(times_of(frames // vision.frames_merged, interval), *sides)


def layout_of(kinds: Any, blocks: dict[int, Iterator[Block]]) -> DocumentLayout:
    """Return the layout of the tokens of one document (0: text, 1: image, 2: video)."""
    parts: list[int | Block] = []
    token = 0
    for kind, group in groupby(kinds.tolist()):
        count = len(list(group))
        own: list[Block] = []
        while kind and sum(block.tokens for block in own) < count:
            block = next(blocks.get(kind, iter(())), None)
            own += [block] if block else []
            if not block or sum(block.tokens for block in own) > count:
                sizes = " and ".join(str(block.tokens) for block in own) or "no"
                raise PefourierError(
                    f"{count} {KINDS_OF_TOKENS.get(kind, 'unknown')} tokens from token {token} on "
                    f"do not fit the next grids ({sizes} tokens); check token types, grids, and "
                    "the order of grids"
                )
        parts += own or [count]
        token += count
    return parts


def ids_of(layout: DocumentLayout, rule: str) -> Numbers:
    """Return the ids (3, n) of a document.

    >>> ids_of([1, Block((0,), 1, 2), 1], AUTHORS).tolist()
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


@frozen
class BlockStart(Gap):
    """From a token on, ids on all axes are larger, or smaller."""

    name = "block-start"
    finding = "ids-block-start"
    says = "positions shifted by {c.by:+} on all axes from index {c.at} on"

    @classmethod
    def propose(cls, expected: Numbers, observed: Numbers) -> RowChanges:
        shift = shift_of(expected, observed)
        steps = np.diff(shift[0], prepend=shift[0, 0])
        yield from (cls(at, int(steps[at])) for at in changes(shift) if steps[at])


@frozen
class Image(Piece):
    """The tokens of one image, video or frame of a document."""

    number: int = 0
    count: int = 1

    @property
    def within(self) -> Fields:
        """Index of the image for JSON."""
        return {"image": self.number}

    @property
    def words(self) -> str:
        """Number of the image, from 1."""
        return f"in image {self.number + 1} of {self.count}"


def blocks_in(layout: DocumentLayout) -> list[tuple[int, Block, Image]]:
    """Return the index of each block among the parts of a document, and its tokens."""
    sizes = [part if isinstance(part, int) else part.tokens for part in layout]
    starts = np.cumsum([0, *sizes]).tolist()
    blocks = [(i, part) for i, part in enumerate(layout) if isinstance(part, Block)]
    return [
        (i, block, Image((starts[i], starts[i + 1] - 1), None, number, len(blocks)))
        for number, (i, block) in enumerate(blocks)
    ]


def other_layouts(layout: DocumentLayout, rule: str, axes: Numbers) -> Iterator[Recounted]:
    """Yield what the ids are if all blocks, or one of several, are read in another way."""
    blocks, readings, intervals = blocks_in(layout), list(READINGS), []
    for _, block, tokens in blocks:
        if len(block.times) > 1:  # the interval that the times suggest
            frames = tokens.of(axes)[0, :: block.rows * block.columns]
            intervals.append(((frames[1:] - frames[0]) / np.arange(1, len(frames))).max())
    for interval in dict.fromkeys(x for x in intervals if x >= 0):
        names, words = (
            ("frame-interval", "ids-block-start"),
            f"frames of a video {interval:.3g} apart",
        )
        if interval < 1:
            names = "times-shared", "ids-times-shared"
            words += ", so that some share a time"

        def timed(block: Block, interval: float = interval) -> Block:
            return replace(block, times=times_of(len(block.times), interval))

        readings.append((*names, words, CHECK_TIMES, timed))
    one_by_one = blocks[:MOST_BLOCKS] if len(blocks) > 1 else []
    chosen = [(None, {i for i, *_ in blocks}), *((image, {i}) for i, _, image in one_by_one)]
    for image, several in chosen:
        for code, found, words, undo, read in readings:
            parts = [
                read(part) if i in several and isinstance(part, Block) else part
                for i, part in enumerate(layout)
            ]
            where, within = (f"{image.words}, ", image.within) if image else ("", None)
            yield Recounted(code, found, where + words, undo, ids_of(parts, rule), within)


MOST_BLOCKS = 16  # blocks that are read in another way one by one
CHECK_TIMES = "check second_per_grid_ts, tokens_per_second, and the rounding of their product"
Changed = tuple[str, str, str, str, Callable[[Block], int | Block]]
READINGS: tuple[Changed, ...] = (
    (
        "text-only",
        "ids-text-only",
        "the same positions on all axes, as for text",
        "use the model's get_rope_index",
        lambda block: block.tokens,
    ),
    (
        "column-major",
        "ids-backwards",
        "the tokens of an image in the order of its columns, or rows and columns exchanged",
        "use the model's get_rope_index",
        lambda block: replace(block, by_columns=True),
    ),
    (
        "sides-exchanged",
        "ids-backwards",
        "the numbers of rows and columns exchanged",
        "check the order of image_grid_thw",
        lambda block: replace(block, rows=block.columns, columns=block.rows),
    ),
)


def judge_flat(document: Document, *, is_text: bool = False) -> Span:
    """Judge a document with equal ids on all axes; tokens may be of images unless it `is_text`.

    The cache may hold images in any case; then ids are smaller than its number of tokens.
    """
    batch, axes = document.batch, document.ids
    wrong: Explanation[Numbers] = Explanation((), np.zeros(axes.shape, dtype=bool))
    is_cached = batch.past is not None and bool(batch.past.any())
    is_known = is_text or is_cached
    if not is_known and (batch.images is not None or batch.videos is not None):
        return describe(document, axes - 1, wrong, "ids-text-only")
    line = judge_line(replace(document, ids=axes[0]))
    if is_known if line.verdict == EXPECTED else not is_cached:
        return line
    return describe(document, axes - 1, wrong, doubt="text")


def judge_axes(document: Document, layout: DocumentLayout | None) -> Span:
    """Judge a document on three axes (3, n).

    Without a layout, that of the ids is read from them: then they follow one, or break it.
    """
    axes = document.ids
    parts = layout or read_layout(axes)
    images = [image for *_, image in blocks_in(parts)]

    def covers(expected: Numbers, observed: Numbers, differs: Bools) -> Iterator[Cover[Numbers]]:
        counts = [int(differs[image.index].sum()) for image in images]
        held = [image for image, count in zip(images, counts, strict=True) if count]
        if 0 < len(held) < 3 and sum(counts) == differs.sum():
            yield [(image, (Shifted, AxesExchanged)) for image in held]
        yield from parts_of(expected, observed, differs)

    tries = []
    for rule in (AUTHORS, LIBRARY):
        ids = ids_of(parts, rule)
        known = Given([*other_layouts(parts, rule, axes), *document.shifts()])
        kinds = (Shifted, known, AxesExchanged, BlockStart)
        # few places separate ids from those expected, as one cause makes
        found = explain(
            *(ids, axes, kinds, agree),
            lambda due, seen: corners(shift_of(due, seen)) <= CORNERS,
            covers,
        )
        tries.append((found, ids))
    found, expected = min(tries, key=rank_of)
    return describe(document, expected, found)


def read_layout(axes: Numbers) -> DocumentLayout:
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

"""Check the ids of text, document by document, against the expected ids.

A span is the tokens of one document in one row. Token i of a span is expected at start + i, where
start is 0 or the config's first position; a node of a tree is expected at start + its depth.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pefourier.ids.batch import Batch
from pefourier.types import Array

EXPECTED = "as expected"


@dataclass(frozen=True)
class Span:
    """One document of one row: its ids, and the first unexpected id."""

    row: int
    segment: int
    tokens: int
    first: int
    last: int
    expected_first: int | None  # None: unknown
    verdict: str
    runs: str = ""  # stretches that increase by one
    start: int = field(default=0, metadata={"told": False})  # first token in the row
    token: int | None = field(default=None, metadata={"told": False})  # in the row
    value: int | None = field(default=None, metadata={"told": False})
    expected: int | None = field(default=None, metadata={"told": False})
    due: Array | None = field(default=None, repr=False, compare=False, metadata={"told": False})


@dataclass(frozen=True)
class Rules:
    """Rules for ids from a config or options."""

    start: int = 0  # id of a document's first token
    added: int = 0  # added to ids by the model before it reads its table
    limit: int | None = None  # ids must be below it
    rank: int | None = None
    ranks: int = 1
    shard: str | None = None  # every, block, zigzag; None: any


def spans_of(batch: Batch, rules: Rules) -> list[Span]:
    """Judge each document of each row."""
    ids = batch.ids[0]
    spans = []
    for row in range(batch.rows):
        previous = None
        for place, tokens in enumerate(documents_of(batch, row)):
            part = ids[row, tokens]
            expected = rules.start + np.arange(len(tokens))
            if batch.depth is not None:
                expected = rules.start + batch.depth[row, tokens]
            spans.append(judge(Facts(part, expected, tokens, place, previous, rules, batch, row)))
            previous = int(part[-1])
    return spans


def documents_of(batch: Batch, row: int) -> list[Array]:
    """Yield the tokens of each document in a row, without padding (also inside a document)."""
    if batch.segments is None:
        return [np.arange(batch.tokens)]
    tokens = np.flatnonzero(batch.segments[row])
    cuts = np.flatnonzero(np.diff(batch.segments[row, tokens])) + 1
    return [part for part in np.split(tokens, cuts) if len(part)]


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts by which a span is judged."""

    ids: Array
    expected: Array
    tokens: Array  # indices in the row
    place: int  # index among the documents of the row
    previous: int | None  # last id of the previous document
    rules: Rules
    batch: Batch
    row: int

    @property
    def knows_documents(self) -> bool:
        """Whether it is known where documents begin."""
        return self.batch.segments is not None

    def span(self, verdict: str, token: int | None = None, expected: int | None = None) -> Span:
        """Return the span with a verdict and the first unexpected token."""
        first = int(self.expected[0])
        if token is not None and expected is None:
            expected = int(self.expected[token])
        return Span(
            row=self.row,
            segment=self.place,
            tokens=len(self.ids),
            first=int(self.ids[0]),
            last=int(self.ids[-1]),
            expected_first=first if verdict != "undecided" else None,
            verdict=verdict,
            runs=runs_in_words(self.ids),
            start=int(self.tokens[0]),
            token=None if token is None else int(self.tokens[token]),
            value=None if token is None else int(self.ids[token]),
            expected=expected,
            due=None if verdict == "undecided" else self.expected[None],
        )


def judge(facts: Facts) -> Span:
    """Judge one span."""
    ids, rules = facts.ids, facts.rules
    if ids.min() < 0 and not (rules.rank is not None and (np.diff(ids) > 0).all() and ids[0] >= 0):
        return facts.span("negative", int((ids < 0).argmax()))
    span = judge_shard(facts) if rules.rank is not None else judge_order(facts)
    if span.verdict == EXPECTED and rules.limit is not None and ids.max() >= rules.limit:
        return facts.span("beyond", int((ids >= rules.limit).argmax()), rules.limit - 1)
    return span


def judge_order(facts: Facts) -> Span:
    """Judge the ids of a whole document: expected, all shifted, or wrong from some token on."""
    ids = facts.ids
    shift = ids - facts.expected
    if not shift.any():
        return facts.span(EXPECTED)
    if facts.batch.depth is not None:
        token = int((shift != shift[0]).argmax())  # 0 if all have the same shift
        if token and (np.diff(ids) != 1).any():
            return facts.span("gap" if shift[token] > 0 else "backwards", token)
        return facts.span("index for depth" if token else displaced(facts), token)
    if (shift == shift[0]).all():
        return facts.span(displaced(facts), 0)
    if not facts.knows_documents and (guess := undecided(facts)) is not None:
        return guess
    if facts.knows_documents and (ids == facts.rules.start + facts.tokens).all():
        kind = "not restarted" if facts.place else "padding counted"
        return facts.span(kind, int((shift != 0).argmax()))
    broken = int((np.diff(ids) != 1).argmax()) + 1
    if shift[0]:
        return facts.span(displaced(facts), 0)
    return facts.span(kind_of_break(facts, broken), broken, int(ids[broken - 1]) + 1)


def displaced(facts: Facts) -> str:
    """Explain why a document begins at an unexpected id."""
    first, rules = int(facts.ids[0]), facts.rules
    shift = first - int(facts.expected[0])
    if facts.place and facts.previous is not None and first == facts.previous + 1:
        return "not restarted"
    if rules.start and shift == -rules.start:
        return "table offset"
    if rules.added and shift == rules.added:
        return "table offset"
    if facts.knows_documents and facts.tokens[0] and shift == facts.tokens[0]:
        return "not restarted" if facts.place else "padding counted"
    return "offset"


def kind_of_break(facts: Facts, token: int) -> str:
    """Classify the first token whose id does not follow the previous id."""
    ids = facts.ids
    step, end = int(ids[token] - ids[token - 1]), len(ids) - 1
    stays = token == end or ids[token + 1] == ids[token]
    if step == 0 or (step < 0 and stays and int(ids[token]) >= int(ids[0])):
        return "repeated"
    if step > 0:
        return "gap"
    return "restarted" if ids[token] == facts.rules.start else "backwards"


def undecided(facts: Facts) -> Span | None:
    """Recognize ids that may be correct if documents or shards begin at unknown tokens.

    These are runs that each restart, one run after equal ids of padding, or every k-th id; None
    for other ids.
    """
    ids, start = facts.ids, facts.rules.start
    steps = np.diff(ids)
    cuts = np.flatnonzero(steps != 1) + 1
    if (ids[cuts] == start).all() and ids[0] == start:
        last_alone = len(cuts) == 1 and cuts[0] == len(ids) - 1
        lengths = np.diff(np.r_[0, cuts, len(ids)])
        return (
            None
            if last_alone or (lengths[1:] == 1).all()
            else facts.span("undecided", int(cuts[0]))
        )
    if len(ids) > 2 and (steps == steps[0]).all() and steps[0] > 1:
        return facts.span("undecided", 1)
    lead = int((ids != ids[0]).argmax())
    behind = ids[lead:] if lead > 1 else ids[:0]
    if len(behind) and (behind == start + np.arange(len(behind)) + (ids[0] == start)).all():
        return facts.span("undecided", 0)
    if is_zigzag(ids):
        return facts.span("undecided", len(ids) // 2)
    return None


def is_zigzag(ids: Array) -> bool:
    """Whether ids are two blocks of the same size: one from the start, one mirrored at the end.

    >>> is_zigzag(np.r_[2:4, 4:6]), is_zigzag(np.r_[0:2, 6:8])
    (False, True)
    """
    half = len(ids) // 2
    if 2 * half != len(ids) or not half or (np.diff(ids[:half]) != 1).any():
        return False
    first, second = int(ids[0]), int(ids[half])
    blocks = (first + second) // half + 1
    is_whole = first % half == 0 and second % half == 0 and blocks % 2 == 0 and blocks > 2
    return is_whole and bool((np.diff(ids[half:]) == 1).all()) and second > first + half


def shards(rules: Rules, count: int) -> dict[str, Array]:
    """Return the ids of each kind of shard on a rank that holds `count` tokens.

    >>> shards(Rules(rank=1, ranks=2), 4)["zigzag"].tolist()
    [2, 3, 4, 5]
    """
    token, half = np.arange(count), count // 2
    ranks, rank = rules.ranks, rules.rank or 0
    kinds = {"every": rank + ranks * token, "block": rank * count + token}
    if 2 * half == count:
        mirror = 2 * ranks - 1 - rank
        kinds["zigzag"] = np.r_[rank * half + token[:half], mirror * half + token[:half]]
    return {kind: rules.start + ids for kind, ids in kinds.items()}


def judge_shard(facts: Facts) -> Span:
    """Judge the ids on one of several ranks that share a document."""
    ids, rules = facts.ids, facts.rules
    due = shards(rules, len(ids))
    kinds = [rules.shard] if rules.shard in due else due
    part = min((due[kind] for kind in kinds), key=lambda part: int((ids != part).sum()))
    facts = replace(facts, expected=part)
    if (ids == part).all():
        return facts.span(EXPECTED)
    token = int((ids != part).argmax())
    is_local = (ids == rules.start + np.arange(len(ids))).all()
    return facts.span("local ids" if is_local else "wrong shard", token)


def runs_of(ids: Array) -> list[tuple[int, int]]:
    """Return the first and last id of each stretch that increases by one.

    >>> runs_of(np.array([0, 1, 2, 0, 1, 7]))
    [(0, 2), (0, 1), (7, 7)]
    """
    cuts = np.flatnonzero(np.diff(ids) != 1) + 1
    starts, ends = np.r_[0, cuts], np.r_[cuts, len(ids)] - 1
    return list(zip(ids[starts].tolist(), ids[ends].tolist(), strict=True))


RUNS = 4  # maximum number in a cell


def runs_in_words(ids: Array) -> str:
    """List the first runs of ids."""
    cuts = np.flatnonzero(np.diff(ids) != 1) + 1
    texts = []
    for first, last in runs_of(ids[: cuts[RUNS] if len(cuts) > RUNS else len(ids)])[:RUNS]:
        texts.append(f"{first}" if first == last else f"{first}-{last}")
    left_out = len(cuts) + 1 - len(texts)
    return ", ".join(texts) + (f", … ({left_out} more)" if left_out > 0 else "")

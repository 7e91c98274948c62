"""Check the ids of a batch, document by document, against the expected ids.

A span is the tokens of one document in one row. Token i of a span is expected at start + i, where
start is 0 or the config's first position, after what a cache holds; a node of a tree is expected
at start + its depth. If the ids differ, causes are searched that give all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pefourier.causes.explain import Difference, Explanation
from pefourier.causes.rows import (
    HIDDEN,
    Beyond,
    Given,
    NotRestarted,
    Numbers,
    PaddingCounted,
    Recounted,
    Shifted,
    TableOffset,
    explain_rows,
)
from pefourier.ids.batch import Batch
from pefourier.types import Fields
from pefourier.writing.page import fields_of

EXPECTED, UNDECIDED, UNEXPLAINED = "as expected", "undecided", "unexplained"
OF_PAIRS = {  # verdicts of two kinds of causes that are one; of all others: several
    frozenset({"restarted", "repeated"}): "repeated",
    frozenset({"times shared", "block start"}): "block start",
}


@dataclass(frozen=True)
class Fault:
    """An unexpected id, and the words for what is wrong with it."""

    code: str  # of its finding
    words: str
    token: int  # in the row
    value: int
    expected: int


@dataclass(frozen=True)
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
    first_id: int = field(default=0, metadata=HIDDEN)
    index: Numbers = field(repr=False, compare=False, kw_only=True, metadata=HIDDEN)  # in the row
    faults: tuple[Fault, ...] = field(default=(), metadata=HIDDEN)
    due: Numbers | None = field(default=None, repr=False, compare=False, metadata=HIDDEN)

    @property
    def start(self) -> int:
        """First token in the row."""
        return int(self.index[0])


@dataclass(frozen=True)
class Rules:
    """Rules for ids from a config or options."""

    start: int = 0  # id of a document's first token
    added: int = 0  # added to ids by the model before it reads its table
    limit: int | None = None  # ids must be below it
    rank: int | None = None
    ranks: int = 1
    shard: str | None = None  # every, block, zigzag; None: any
    past: int | None = None  # tokens in the cache


@dataclass(frozen=True, eq=False)
class Document:
    """The ids of a document, and the facts by which they are judged."""

    ids: Numbers  # (n,), or (axes, n)
    tokens: Numbers  # indices in the row
    row: int
    place: int  # index among the documents of the row
    previous: int | None  # last id of the previous document
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
            continued = [] if self.previous is None else [self.previous + 1 - self.start]
            shifts = dict.fromkeys([*continued, int(self.tokens[0])])
            known += [NotRestarted(by) for by in shifts if by]
        elif self.batch.segments is not None and pads.any():
            known.append(PaddingCounted(int(pads.max()), pads))
        offsets = (-rules.start, rules.added)
        return known + [TableOffset(by) for by in offsets if by]


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
    found = explain_rows(expected, ids, [Given(known)])
    is_shift = found.reproduced.all() and all(isinstance(c, Shifted) for c in found.causes)
    is_open = not batch.knows_documents and batch.depth is None
    if is_open and not is_shift and is_undecided(document):
        return describe(document, expected, found, "ids-undecided")
    return describe(document, expected, found)


def describe(
    document: Document,
    expected: Numbers,
    found: Explanation[Numbers],
    given: str | None = None,
    hint: str = "",
) -> Span:
    """Return the span of a document with what was found.

    `given` is the code of its finding, if it is known; `hint` adds what else may be expected.
    """
    ids, tokens, limit = document.ids, document.tokens, document.rules.limit
    rows, due = np.atleast_2d(ids), np.atleast_2d(expected)
    causes: list[Any] = [] if given == "ids-undecided" else list(found.causes)
    kinds = list(dict.fromkeys(kind_of(cause.finding) for cause in causes))
    code, words = "ids-unexplained", "no cause that was tried gives these ids"
    if causes:
        undo = "" if len(causes) > 1 else f"; {causes[0].undo}"
        code, words = causes[0].finding, ", then ".join(cause.words for cause in causes) + undo
    code, verdict = given or code, (kinds or [UNEXPLAINED])[0]
    if given or (rows == due).all():
        verdict = kind_of(given) if given else EXPECTED
    elif len(kinds) > 1:
        verdict = OF_PAIRS.get(frozenset(kinds), "several")
        code = next((c.finding for c in causes if kind_of(c.finding) == verdict), code)
    places = [(rows != due, code, words + hint)]
    if (rows < 0).any():
        places = [] if causes else places
        places.append((rows < 0, "ids-negative", words if causes else "negative ids"))
        verdict = "negative" if causes else verdict
    if limit is not None and (rows >= limit).any():
        beyond = Beyond(int((rows >= limit).any(axis=0).argmax()), limit)
        places.append((rows >= limit, beyond.finding, f"{beyond.words}; {beyond.undo}"))
        if verdict != UNEXPLAINED:
            causes, verdict = [*causes, beyond], "beyond"
    faults, first = [], None
    for where, code, words in places:
        if where.any():
            token = int(where.any(axis=0).argmax())
            axis = int(where[:, token].argmax())
            value, right = int(rows[axis, token]), int(due[axis, token])
            first = first or Difference(token if ids.ndim == 1 else (axis, token), right, value)
            right = limit - 1 if limit and code == "ids-beyond" else right
            faults.append(Fault(code, words, int(tokens[token]), value, right))
    is_decided = verdict != UNDECIDED
    return Span(
        row=document.row,
        segment=document.place,
        tokens=len(tokens),
        first=first if verdict == UNEXPLAINED and first else int(rows[0, 0]),
        last=int(rows[0, -1]),
        expected_first=int(due[0, 0]) if is_decided else None,
        verdict=verdict,
        runs=runs_in_words(rows[0]),
        causes=tuple(map(record, causes)) if is_decided else (),
        explained=found.share if is_decided else None,
        first_id=int(rows[0, 0]),
        index=tokens,
        faults=tuple(faults),
        due=due if is_decided else None,
    )


def kind_of(finding: str) -> str:
    """Return the kind of mistake that a finding reports, a verdict.

    >>> kind_of("ids-not-restarted")
    'not restarted'
    """
    return finding.partition("-")[2].replace("-", " ")


def record(cause: Any) -> Fields:
    """Return the code of a cause and what is needed to apply it, with the axis if it has one."""
    fields = fields_of(cause)
    return fields if "axis" not in fields else {**record(cause.inner), **fields}


def is_undecided(document: Document) -> bool:
    """Whether ids may be correct if documents or shards begin at unknown tokens.

    These are runs that each restart; if no mask shows padding, also one run after equal ids of
    padding, and every k-th id or two blocks, as on one of several ranks.
    """
    ids, start = document.ids, document.start
    steps = np.diff(ids)
    cuts = np.flatnonzero(steps != 1) + 1
    if (ids[cuts] == start).all() and ids[0] == start:
        last_alone = len(cuts) == 1 and cuts[0] == len(ids) - 1
        lengths = np.diff(np.r_[0, cuts, len(ids)])
        return not (last_alone or (lengths[1:] == 1).all())
    if document.batch.segments is not None:
        return False
    if len(ids) > 2 and (steps == steps[0]).all() and steps[0] > 1:
        return True
    lead = int((ids != ids[0]).argmax())
    behind = ids[lead:] if lead > 1 else ids[:0]
    is_padded = (behind == start + np.arange(len(behind)) + (ids[0] == start)).all()
    return bool(len(behind) and is_padded) or is_zigzag(ids)


def is_zigzag(ids: Numbers) -> bool:
    """Whether ids are two blocks of the same size: one from the start, one mirrored at the end.

    >>> is_zigzag(np.r_[2:4, 4:6]), is_zigzag(np.r_[0:2, 6:8])
    (False, True)
    """
    half = len(ids) // 2
    if len(ids) % 2 or not half:
        return False
    rank, mirror = (int(ids[i]) // half for i in (0, half))
    due = shards(Rules(ranks=(rank + mirror + 1) // 2), 2 * half, rank)["zigzag"]
    return mirror > rank + 1 and bool((ids == due).all())


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
    for rank in dict.fromkeys((first, first // len(ids), first // half)):
        for shard, numbers in shards(rules, len(ids), rank).items():
            words = f"positions of rank {rank} of {rules.ranks} (--shard {shard})"
            facts = ("wrong-shard", "ids-wrong-shard", words, "check how tokens are shared")
            if 0 <= rank < rules.ranks and (ids == numbers).all():
                known.append(Recounted(*facts, numbers))
    tries = [(explain_rows(part, ids, [Given(known)]), part) for part in chosen.values()]
    found, expected = min(tries, key=rank_of)
    is_local = any(cause.code == "local-ids" for cause in found.causes)
    code = "ids-wrong-shard" if found.causes and not is_local else None
    hint = "; expected first: " + ", ".join(f"{kind} {int(x[0])}" for kind, x in chosen.items())
    return describe(document, expected, found, code, hint if len(chosen) > 1 else "")


def rank_of(found: tuple[Explanation[Numbers], Numbers]) -> tuple[bool, int, float]:
    """Sort explanations: those of all ids first, then those with fewer causes."""
    return not found[0].reproduced.all(), len(found[0].causes), -found[0].share


def runs_in_words(ids: Numbers, most: int = 4) -> str:
    """List the first runs of ids.

    >>> runs_in_words(np.array([0, 1, 2, 0, 1, 7]))
    '0-2, 0-1, 7'
    """
    cuts = np.flatnonzero(np.diff(ids) != 1) + 1
    runs = np.split(ids, cuts[:most])[:most]
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    left_out = len(cuts) + 1 - len(texts)
    return ", ".join(texts) + (f", … ({left_out} more)" if left_out > 0 else "")

"""Check of position ids against those that the model should receive.

Ids are compared document by document with the expected ids: the index within the document, the
depth of a node, the shard of a rank, or rows and columns of an image. A mask, cu_seqlens, segment
numbers or a config determine what is expected, because they show documents and padding. If only
ids are given, one run from 0 is expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.encodings.domain import positions as line_of_positions
from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.findings import finding
from pefourier.errors import PefourierError
from pefourier.ids.batch import Batch, Visibility, describe_mask
from pefourier.ids.model import (
    AUTHORS,
    LIBRARY,
    NOT_KNOWN,
    Consequence,
    Model,
    Vision,
    blocks_of,
    expected_axes,
    judge_axes,
)
from pefourier.ids.spans import EXPECTED, Facts, Rules, Span, documents_of, judge, spans_of
from pefourier.questions.result import Result, csv_table
from pefourier.types import Array, Counts, Fields, Ints, Values
from pefourier.writing.text import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pefourier.report.plot import Look
    from pefourier.report.render import Answer

SLOTS = ("row", "segment", "token", "value", "expected", "first", "start", "tokens", "runs")
SHOWN = 15  # rows and findings about single tokens that text lists
WRONG_MASK = "wrong mask"
CODES = {  # codes of findings, by the verdict of a document
    "padding counted": "ids-padding-counted",
    "not restarted": "ids-not-restarted",
    "restarted": "ids-restarted",
    "repeated": "ids-repeated",
    "gap": "ids-gap",
    "backwards": "ids-backwards",
    "negative": "ids-negative",
    "offset": "ids-offset",
    "beyond": "ids-beyond",
    "table offset": "ids-table-offset",
    "local ids": "ids-local-ids",
    "wrong shard": "ids-wrong-shard",
    "text only": "ids-text-only",
    "block start": "ids-block-start",
    "times shared": "ids-times-shared",
    "index for depth": "ids-index-for-depth",
    "undecided": "ids-undecided",
}


@dataclass(frozen=True)
class TokenFinding(Finding):
    """A finding about one token of a row; fields are None if it concerns the whole batch."""

    row: int | None = None
    token: int | None = None
    value: int | None = None
    expected: int | None = None


@dataclass(frozen=True, repr=False, kw_only=True)
class Positions(Result):
    """Result of checking the position ids of a batch."""

    command = "positions"
    verdicts = {
        "as expected": Verdict(
            "Every document has the expected ids; in the first document they go from "
            "{r.worst.first} to {r.worst.last}.",
        ),
        "undecided": Verdict(
            "The ids may be correct, but the input does not show where documents begin, where "
            "padding is, or which tokens this rank holds.",
            "Pass --mask, --segments or --rank R/N.",
        ),
        "padding counted": Verdict(
            "In {r.bad_count} of {r.documents} documents the ids count padding tokens.",
            "Count real tokens only; each document then begins at id {r.worst.expected_first}.",
        ),
        "not restarted": Verdict(
            "In {r.bad_count} of {r.documents} documents the ids continue from the previous "
            "document.",
            "Restart ids at the beginning of each document.",
        ),
        "restarted": Verdict(
            "In {r.bad_count} of {r.documents} documents the ids restart before the end.",
        ),
        "repeated": Verdict(
            "In {r.bad_count} of {r.documents} documents a token has the id of an earlier token.",
            "Continue at the number of tokens seen so far.",
        ),
        "gap": Verdict("In {r.bad_count} of {r.documents} documents the ids skip positions."),
        "backwards": Verdict("In {r.bad_count} of {r.documents} documents the ids decrease."),
        "negative": Verdict("In {r.bad_count} of {r.documents} documents ids are negative."),
        "offset": Verdict(
            "In {r.bad_count} of {r.documents} documents all ids are shifted by a constant.",
        ),
        "beyond": Verdict(
            "In {r.bad_count} of {r.documents} documents ids exceed the largest allowed id, "
            "{r.worst.expected}.",
        ),
        "table offset": Verdict(
            "In {r.bad_count} of {r.documents} documents the offset of the model's table is "
            "missing or counted twice.",
        ),
        "local ids": Verdict(
            "The ids count the tokens of this rank, not those of the whole sequence.",
        ),
        "wrong shard": Verdict("The ids do not belong to the tokens that this rank holds."),
        "text only": Verdict(
            "All axes have the same ids, as for text alone; an image or a video needs rows and "
            "columns.",
            "Compute ids with the model's get_rope_index.",
        ),
        "block start": Verdict(
            "In {r.bad_count} of {r.documents} documents an image, a video, or the text after it "
            "begins at the wrong id.",
            "Compute ids with the model's get_rope_index, and continue at their maximum + 1.",
        ),
        "times shared": Verdict(
            "In {r.bad_count} of {r.documents} documents frames of a video share one time.",
        ),
        "index for depth": Verdict(
            "The ids are the index in the list of draft tokens, not the depth in the tree.",
        ),
        "wrong mask": Verdict("The mask is not as expected ({r.mask_in_words})."),
        "mask read": Verdict("The mask is {r.mask_in_words}."),
        "several": Verdict(
            "{r.bad_count} of {r.documents} documents have unexpected ids, of several kinds: "
            "{r.kinds}.",
        ),
    }
    shown = {
        "rows": "row_count",
        "tokens per row": "tokens",
        "axes": "axes",
        "documents": "documents",
        "documents not as expected": "bad_count",
        "attention scores change": "change_in_words",
        "largest change": "consequence.largest_change",
        "mask": "mask_in_words",
    }
    listed = {
        "first_rows": {
            "row": "row",
            "document": "segment",
            "tokens": "tokens",
            "first": "first",
            "last": "last",
            "expected first": "expected_first",
            "runs": "runs",
            "verdict": "verdict",
        }
    }

    shape: Counts
    rows: tuple[Span, ...]
    positions: Array | None = None  # recovered from a dump of cosines and sines
    uncertainty: Counts | None = None  # for each axis, in positions
    consequence: Consequence = NOT_KNOWN
    mask: Visibility | None = None
    findings: tuple[TokenFinding, ...] = ()
    ids: Array = field(compare=False, metadata={"told": False})  # (axes, rows, tokens)

    @property
    def verdict(self) -> str:
        """The kind of fault, "several", or the expected verdict."""
        kinds = {span.verdict for span in self.rows} - {EXPECTED}
        if not self.rows:
            kinds.add("mask read")
        if any(f.code.startswith("ids-mask") and f.severity != "note" for f in self.findings):
            kinds.add(WRONG_MASK)
        if len(kinds) > 1:
            kinds -= {"undecided", "mask read"}
        return EXPECTED if not kinds else kinds.pop() if len(kinds) == 1 else "several"

    @property
    def bad(self) -> list[Span]:
        """Documents that are not as expected."""
        return [span for span in self.rows if span.verdict != EXPECTED]

    @property
    def worst(self) -> Span | None:
        """The first document with a fault, else the first document; None for a mask alone."""
        return next(iter(self.bad or self.rows), None)

    @property
    def first_rows(self) -> list[Span]:
        """The rows listed in text, with faults first."""
        return sorted(self.rows, key=lambda span: span.verdict == EXPECTED)[:SHOWN]

    @property
    def row_count(self) -> int | None:
        """Number of rows of the batch; None for a mask alone."""
        return int(self.ids.shape[1]) or None

    @property
    def tokens(self) -> int:
        """Number of tokens per row."""
        return int(self.ids.shape[2])

    @property
    def axes(self) -> int | None:
        """Number of axes of the ids, if there are several."""
        return int(self.ids.shape[0]) if len(self.ids) > 1 else None

    @property
    def documents(self) -> int | None:
        """Number of documents in all rows."""
        return len(self.rows) or None

    @property
    def bad_count(self) -> int | None:
        """Documents that are not as expected."""
        return len(self.bad) if self.rows else None

    @property
    def kinds(self) -> str:
        """The verdicts of documents with faults."""
        return ", ".join(dict.fromkeys(span.verdict for span in self.bad))

    @property
    def change_in_words(self) -> str | None:
        """Whether attention scores change."""
        changes = self.consequence.scores_change
        return None if changes is None else "yes" if changes else "no"

    @property
    def mask_in_words(self) -> str | None:
        """What a mask of queries and keys makes visible."""
        if self.mask is None:
            return None
        sides = "both sides" if self.mask.two_sided else "past"
        window = f", window {self.mask.window} ({sides})" if self.mask.window else ""
        return f"{'causal' if self.mask.causal else 'not causal'}{window}"

    def series(self) -> tuple[list[str], list[list[Any]]]:
        """Column names for CSV, and one row for each document."""
        names = ["row", "segment", "tokens", "first", "last", "expected_first", "runs", "verdict"]
        return csv_table(self.rows, names)

    @classmethod
    def draw(cls, answers: Sequence[Answer], look: Look) -> Figure:
        """Draw the ids of some rows."""
        from pefourier.report.code_figures import draw_positions

        return draw_positions(answers, look)


def judge_positions(
    batch: Batch,
    model: Model | None = None,
    rules: Rules | None = None,
    *,
    spec: str = "ids",
    params: Values | None = None,
    uncertainty: Ints | None = None,
) -> Positions:
    """Check the ids of a batch; pass `uncertainty` if they were recovered from a dump.

    >>> from pefourier.ids.batch import batch_of
    >>> ids, mask = [[0, 1, 2, 3]], [[0, 1, 1, 1]]
    >>> judge_positions(batch_of({"position_ids": ids, "attention_mask": mask})).verdict
    'padding counted'
    """
    rules = rules or (model.rules(None) if model else Rules())
    if batch.ids.shape[0] > 1:
        spans, rule = spans_of_axes(batch, model, rules)
    else:
        spans, rule = spans_of(batch, rules), None
    mask = None if batch.visible is None else describe_mask(batch.visible, batch.segments)
    findings = [note for span in spans for note in findings_of(span)][:SHOWN]
    hidden = sum(span.verdict != EXPECTED for span in spans) - len(findings)
    if hidden > 0:
        findings.append(finding("ids-more", count=hidden))
    if rule is not None:
        findings.append(finding("ids-vision-rule", rule=rule))
    if batch.ignored:
        findings.append(finding("ids-ignored", names=", ".join(batch.ignored)))
    findings += mask_findings(mask, model)
    return Positions(
        shape=tuple(batch.ids.shape if batch.ids.shape[0] > 1 else batch.ids.shape[1:]),
        rows=tuple(spans),
        positions=batch.ids if uncertainty is not None else None,
        uncertainty=None if uncertainty is None else tuple(uncertainty),
        consequence=consequence_of(batch, model, spans, rules),
        mask=mask,
        findings=tuple(map(with_place, findings)),
        ids=batch.ids,
        encodings=(label_of(batch, spec, params or {}),),
    )


def consequence_of(
    batch: Batch, model: Model | None, spans: Sequence[Span], rules: Rules
) -> Consequence:
    """Change of attention; unknown if the expected ids are unknown."""
    bad = [span for span in spans if span.verdict != EXPECTED]
    ids = batch.ids[-3:] if batch.ids.shape[0] > 1 else batch.ids
    tokens = {row: documents_of(batch, row) for row in {span.row for span in bad}}
    pairs = [(ids[:, s.row, tokens[s.row][s.segment]], s.due) for s in bad if s.due is not None]
    if model is None or len(pairs) < len(bad):
        return NOT_KNOWN
    if rules.rank is not None:  # a token of another rank as the origin of lags
        first = np.full((len(ids), 1), rules.start)
        pairs = [(np.hstack([first, ids]), np.hstack([first, due])) for ids, due in pairs]
    return model.consequence(pairs)


def label_of(batch: Batch, spec: str, params: Values) -> Encoding:
    """Wrap ids as the encoding that a result describes."""
    ids = batch.ids.reshape(batch.ids.shape[0] * batch.rows, -1)
    domain = line_of_positions(batch.tokens)
    return Encoding(
        "position ids", domain, len(ids), lambda x: ids.T[x].astype(float), params=params, spec=spec
    )


def spans_of_axes(batch: Batch, model: Model | None, rules: Rules) -> tuple[list[Span], str | None]:
    """Check documents of ids on several axes; return also the rule they follow, if rules differ."""
    axes, text = batch.ids[-3:], batch.ids[0] if len(batch.ids) == 4 else None
    images, videos = grids_by_rule(batch, model)
    spans, followed = [], set()
    for row in range(batch.rows):
        previous = None
        for place, tokens in enumerate(documents_of(batch, row)):
            due, ids = due_axes(batch, row, tokens, images, videos), axes[:, row, tokens]
            expected = np.arange(len(tokens))
            facts = Facts(ids[0], expected, tokens, place, previous, rules, batch, row)
            span = judge_axes(facts, ids, list(due.values()))
            is_text = batch.kinds is not None and not batch.kinds[row, tokens].any()
            if is_text and span.verdict == "text only":
                span = judge(facts)
            if text is not None and span.verdict == EXPECTED:
                span = judge(replace(facts, ids=text[row, tokens]))
            spans.append(span)
            previous = int(ids.max())
            right = [rule for rule, expected in due.items() if (expected == ids).all()]
            followed |= set(right) if len(right) == 1 and len(due) > 1 else set()
    return spans, followed.pop() if len(followed) == 1 else None


def grids_by_rule(batch: Batch, model: Model | None) -> tuple[Fields, Fields]:
    """Iterators over the blocks of images and of videos, for each rule."""
    vision, rules = model.vision if model else Vision(), (AUTHORS, LIBRARY)
    images = {rule: blocks_of(batch.images, vision, video=False) for rule in rules}
    seconds = batch.seconds
    videos = {rule: blocks_of(batch.videos, vision, seconds, video=True) for rule in rules}
    return images, videos


def due_axes(
    batch: Batch, row: int, tokens: Array, images: Fields, videos: Fields
) -> dict[str, Array]:
    """Expected ids of a document by each rule; empty if image grids are unknown."""
    if batch.kinds is None or (batch.images is None and batch.videos is None and batch.kinds.any()):
        return {}
    kinds = batch.kinds[row, tokens]
    due = {
        rule: expected_axes(kinds, {1: images[rule], 2: videos[rule]}, rule)
        for rule in (AUTHORS, LIBRARY)
    }
    return due if (due[AUTHORS] != due[LIBRARY]).any() else {AUTHORS: due[AUTHORS]}


def with_place(note: Finding) -> TokenFinding:
    """Convert a finding to one with a token, or about the whole batch."""
    return note if isinstance(note, TokenFinding) else TokenFinding(**vars(note))


def findings_of(span: Span) -> list[Finding]:
    """Findings about a document with a fault."""
    if span.verdict == EXPECTED:
        return []
    facts = {name: getattr(span, name) for name in SLOTS}
    place = {name: facts[name] for name in ("row", "token", "value", "expected")}
    return [TokenFinding(**vars(finding(CODES[span.verdict], **facts)), **place)]


def judge_mask(visible: Array, model: Model | None, *, spec: str, params: Values) -> Positions:
    """Describe what a mask (matrices, n, n) without ids makes visible."""
    mask, n = describe_mask(visible), visible.shape[-1]
    ids = np.zeros((1, 0, n), np.int64)
    domain = line_of_positions(n)
    return Positions(
        shape=visible.shape,
        rows=(),
        mask=mask,
        findings=tuple(map(with_place, mask_findings(mask, model))),
        ids=ids,
        encodings=(
            Encoding(
                "mask", domain, n, lambda x: visible[0][x].astype(float), params=params, spec=spec
            ),
        ),
    )


def mask_findings(mask: Visibility | None, model: Model | None) -> list[Finding]:
    """Findings about a mask that shows too much, or whose window differs from the model's."""
    if mask is None:
        return []
    notes = []
    if mask.documents_seen:
        notes.append(finding("ids-mask-documents"))
    if mask.pads_seen:
        notes.append(finding("ids-mask-pads"))
    windows = {run.window for run in model.positions.layers} if model else set()
    widest = max(filter(None, windows), default=0)
    is_within = mask.window is None and None not in windows and mask.reach <= widest
    if windows and mask.window not in windows and not is_within:
        window = mask.window or "none"
        due = ", ".join(sorted(str(w or "none") for w in windows))
        notes.append(finding("ids-mask-window", window=window, due=due))
    if mask.two_sided:
        notes.append(finding("ids-mask-two-sided", window=mask.window))
    return notes


def parse_rank(text: str | None, shard: str | None, rules: Rules) -> Rules:
    """Add a rank given as R/N to the rules.

    >>> parse_rank("1/4", None, Rules()).ranks
    4
    """
    if text is None:
        if shard is not None:
            raise PefourierError("--shard needs --rank R/N")
        return rules
    rank, slash, ranks = text.partition("/")
    if not (slash and rank.isdigit() and ranks.isdigit() and int(rank) < int(ranks)):
        raise PefourierError(f"--rank must be R/N with R from 0 to N - 1, such as 1/4; got {text}")
    return replace(rules, rank=int(rank), ranks=int(ranks), shard=shard)

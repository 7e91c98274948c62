"""Check of position ids against those that the model should receive.

Ids are compared document by document with the expected ids: the index within the document, the
depth of a node, the shard of a rank, or rows and columns of an image. A mask, cu_seqlens, segment
numbers or a config determine what is expected, because they show documents and padding. If only
ids are given, one run from 0 is expected. The input is a file, a batch of named arrays, an array, a
dump or a mask. A config sets the first id, the limit, the axes, and the effect of wrong ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, replace
from pathlib import Path
from typing import Any

import numpy as np

from pefourier.construction.pairs import exchanged_waves, recover_positions
from pefourier.construction.rotation_pairs import FARTHEST, positions_in
from pefourier.construction.waves import declared, fit
from pefourier.encodings import load
from pefourier.encodings.encoding import Encoding, Finding, finding, from_table
from pefourier.encodings.model_positions import (
    ModelPositions,
    at_rows_of,
    axis_in,
    describe_positions,
)
from pefourier.encodings.sources.huggingface import first_row
from pefourier.encodings.sources.json_object import read_object
from pefourier.errors import PefourierError, shown
from pefourier.geometry.precision import FLOAT32_EPS
from pefourier.ids.batch import (
    NAMES,
    TOKENWISE,
    Batch,
    Roles,
    Rules,
    Vision,
    arrays_by_role,
    batch_of,
    ids_by_axis,
    path_of,
    read_arrays,
    read_role,
)
from pefourier.ids.masks import OTHER, Visibility, as_visible, describe_mask, read_mask
from pefourier.ids.spans import (
    BY_FRAME,
    EXPECTED,
    UNDECIDED,
    Document,
    Span,
    TokenFinding,
    blocks_of,
    documents_of,
    judge_axes,
    judge_flat,
    judge_line,
    layout_of,
)
from pefourier.questions.result import Result, csv_table
from pefourier.recording.file import batch_of_recording
from pefourier.types import (
    Array,
    Arrays,
    Counts,
    CsvTable,
    Fields,
    Values,
    frozen,
    frozen_arrays,
    hidden,
)
from pefourier.writing.files import read_toml
from pefourier.writing.text import Verdict, ranges

# parts of the names of model types whose tokens may see later ones: encoders, prefixes, diffusion
TWO_SIDED = "bert esm roformer t5 vit clip siglip dino encoder dream llada".split()
LAGS = 4096  # vectors, or lags in a block
MOST_LAGS = 2**20  # at which changes of scores are computed
LEAST = 1e-12  # change of a mean cosine that is no rounding


@frozen
class Consequence:
    """Effect of unexpected ids on attention."""

    scores_change: bool | None  # None: no config was given
    largest_change: float | None  # in the kernel, a bias, or a vector relative to its norm


NOT_KNOWN, UNCHANGED = Consequence(None, None), Consequence(False, 0.0)  # noqa: FBT003


@frozen_arrays
class Model:
    """Positions of a model, and the config keys that determine its ids."""

    spec: str
    positions: ModelPositions
    values: Fields  # the whole config

    @property
    def encoding(self) -> Encoding:
        """The first rotation of the model, or its table or bias."""
        return self.positions.encoding

    @property
    def axis(self) -> Array | None:
        """The axis of ids of each rotary pair; None: ids have one axis."""
        return axis_in(self.encoding) if self.encoding.injection == "rotate" else None

    @property
    def is_causal(self) -> bool:
        """Whether the model's tokens see no later ones, as far as its type shows."""
        kind = str(self.values.get("model_type", ""))
        if classes := self.values.get("architectures"):
            return "CausalLM" in str(classes) or "LMHead" in str(classes)
        is_two_sided = "vision_config" in self.values or any(part in kind for part in TWO_SIDED)
        return bool(kind) and self.encoding.injection != "add" and not is_two_sided

    def vision(self) -> Vision:
        """Token ids of images and videos, and the conversion of their patches to tokens."""

        def whole(values: Values, *names: str) -> int | None:
            found = map(values.get, names)
            return next((n for n in found if isinstance(n, int) and n > 0), None)

        section = self.values.get("vision_config")
        section = section if isinstance(section, dict) else {}
        kind, rate = str(self.values.get("model_type", "")), section.get("tokens_per_second")
        merged = whole(section, "temporal_merge_size") if kind.startswith("ernie") else None
        return Vision(
            whole(self.values, "image_token_id", "image_token_index"),
            whole(self.values, "video_token_id", "video_token_index"),
            merge=whole(section, "spatial_merge_size") or 2,
            frames_merged=merged or 1,
            tokens_per_second=float(rate)
            if kind.startswith("qwen2_5") and isinstance(rate, int | float)
            else None,
            by_frame=kind.startswith(BY_FRAME),
        )

    def rules(self, length: int | None) -> Rules:
        """First id, limit, number that the model adds to ids, axes and images."""
        config, limit = self.encoding.file and self.encoding.file.model, self.positions.allowed
        start = added = 0
        if self.encoding.injection == "add":
            first = first_row(config) if config else 0
            is_padded = config is not None and config.row.get("first") == "padding"
            start, added = (first, 0) if is_padded else (0, first)
            limit = limit and len(self.encoding) + start
        if self.encoding.injection in ("bias", "key", "key-query"):
            limit = None  # distances have a bias or vector at any length
        has_axes, vision = self.axis is not None, self.vision()
        return Rules(start, added, length or limit, has_axes=has_axes, vision=vision)

    def consequence(self, ids: Array, due: Array) -> Consequence:
        """Compute the effect of the ids (axes, n) of a document that replace the expected ones."""
        if self.encoding.injection == "add":
            return self.change_of_vectors(ids[0], due[0])
        old, new = changed_lags(ids, due)
        if not old.shape[1]:
            return UNCHANGED
        for wave in (np.cos, np.sin):  # reversed ids change no cosine
            change = np.abs(self.kernel(new, wave) - self.kernel(old, wave)).max()
            if change > LEAST:
                return Consequence(scores_change=True, largest_change=float(change))
        return UNCHANGED

    def change_of_vectors(self, ids: Array, due: Array) -> Consequence:
        """Return the largest distance between added vectors, relative to the RMS norm."""
        enc, moved = self.encoding, ids != due
        places = np.stack([ids, due]) - self.rules(None).start
        is_inside = ((places >= 0) & (places < len(enc))).all()  # else the table lacks a row
        if is_inside and not moved.any():
            return UNCHANGED
        if not is_inside or enc.untrained:
            return Consequence(scores_change=True, largest_change=None)
        a, b = (enc.float_table(x[moved][:LAGS]) for x in places)
        norm = float(np.sqrt((b**2).sum(axis=1).mean()))
        largest = float(np.linalg.norm(a - b, axis=1).max())
        return Consequence(scores_change=True, largest_change=largest / norm if norm else None)

    def kernel(self, lags: Array, wave: Any = np.cos) -> Array:
        """Return the mean cosine over pairs, or the bias of each head, at lags (axes, n)."""
        enc = self.encoding
        if enc.injection == "bias":
            distances, inverse = np.unique(np.abs(lags[0]), return_inverse=True)
            return np.asarray(enc.vectors(-distances), float)[inverse]
        if not enc.measure or enc.injection != "rotate":
            raise PefourierError(f"{shown(enc.label)} has no frequencies that give scores by lag")
        omega, axis = enc.measure.frequencies, axis_in(enc) if len(lags) > 1 else None
        place = np.zeros(len(omega), int) if axis is None else np.minimum(axis, len(lags) - 1)
        total = np.zeros(lags.shape[1])
        for i, lag in enumerate(lags):
            values, inverse = np.unique(lag, return_inverse=True)
            parts = np.array_split(values, len(values) // LAGS + 1)
            waves = [wave(np.multiply.outer(x, omega[place == i])).sum(axis=1) for x in parts]
            total += np.concatenate(waves)[inverse]
        return total / len(omega)


def changed_lags(ids: Array, due: Array) -> tuple[Array, Array]:
    """Return the expected lags (axes, k) that change, and those in their place.

    Runs of ids that are shifted alike keep their lags. All pairs of a query and an earlier key
    have a lag that the first token of a run has with some token. Beyond `MOST_LAGS` some runs are
    left out.
    """
    n, shift = ids.shape[1], np.diff(ids - due, axis=1)
    if not shift.any():
        return due[:, :0], ids[:, :0]
    cuts = np.flatnonzero(((shift != 0) | (np.diff(due, axis=1) != 1)).any(axis=0)) + 1
    first = np.r_[0, cuts]
    first = first[:: len(first) * n // MOST_LAGS + 1]
    query, key = (f(first[:, None], np.arange(n)).ravel() for f in (np.maximum, np.minimum))
    old, new = (x[:, query] - x[:, key] for x in (due, ids))
    moved = (old != new).any(axis=0)
    return old[:, moved], new[:, moved]


SHOWN = 15  # rows and findings about single tokens that text lists
WORDS = read_toml(Path(__file__).with_suffix(".toml"))  # of the answer
WRONG_MASK = "wrong mask"


@frozen
class Positions(Result):
    """Result of checking the position ids of a batch."""

    command = "positions"
    figure = "positions"
    verdicts = {code: Verdict(*words) for code, words in WORDS["verdicts"].items()}
    shown = WORDS["shown"]
    listed = WORDS["listed"]

    _: KW_ONLY
    shape: Counts
    rows: tuple[Span, ...]
    positions: Array | None = None  # recovered from a dump of cosines and sines
    uncertainty: Counts | None = None  # for each axis, in positions
    consequence: Consequence = NOT_KNOWN
    mask: Visibility | None = None
    findings: tuple[TokenFinding, ...] = ()
    harmless: str = hidden(default="")  # why no attention score changes
    ids: Array = hidden(compare=False)  # (axes, rows, tokens)

    @property
    def verdict(self) -> str:
        """The kind of fault, "several", or the expected verdict."""
        kinds = {span.verdict for span in self.rows} - {EXPECTED}
        if not self.rows:
            kinds.add("mask read")
        if is_mask_wrong(self.findings):
            kinds.add(WRONG_MASK)
        if any(f.code == "ids-lengths" for f in self.findings):
            return "lengths differ"
        if len(kinds) > 1:
            kinds -= {"undecided", "mask read"}
        return EXPECTED if not kinds else kinds.pop() if len(kinds) == 1 else "several"

    @property
    def bad(self) -> list[Span]:
        """Documents that are not as expected."""
        return [span for span in self.rows if span.verdict not in (EXPECTED, UNDECIDED)]

    def is_fine(self, *, strict: bool = False) -> bool:
        """Whether the ids are as expected or, unless `strict`, change no attention score."""
        if strict and any(f.severity != "note" for f in self.findings):
            return False
        return self.verdict == EXPECTED or bool(self.harmless and not strict)

    @property
    def first_rows(self) -> list[Span]:
        """The rows listed in text, with faults first."""
        return sorted(self.rows, key=lambda span: span.verdict == EXPECTED)[:SHOWN]

    @property
    def counts(self) -> dict[str, int | None]:
        """Sizes of the batch, and documents that are not as expected; None: of a mask alone."""
        axes, rows, tokens = self.ids.shape
        return {
            "rows": rows or None,
            "tokens": tokens,
            "axes": axes if axes > 1 else None,
            "documents": len(self.rows) or None,
            "bad": len(self.bad) if self.rows else None,
        }

    @property
    def where(self) -> str:
        """How many documents are not as expected."""
        return f"In {len(self.bad)} of {len(self.rows)} documents"

    @property
    def kinds(self) -> str:
        """The codes of causes, and verdicts without a cause."""
        codes = ([c["code"] for c in span.causes] or [span.verdict] for span in self.bad)
        return ", ".join(dict.fromkeys(code for several in codes for code in several))

    @property
    def mask_in_words(self) -> str | None:
        """What a mask of queries and keys makes visible."""
        if self.mask is None:
            return None
        sides = "both sides" if self.mask.two_sided else "past"
        window = f", window {self.mask.window} ({sides})" if self.mask.window else ""
        kind = f", {self.mask.kind}" if self.mask.kind in ("documents", "prefix") else ""
        faults = "".join(f", {fault}" for fault in self.mask.faults)
        faults = faults.replace("diagonal", "diagonal hidden")
        return f"{'causal' if self.mask.causal else 'not causal'}{window}{kind}{faults}"

    @property
    def doubt(self) -> str:
        """What the input leaves open, and what to pass."""
        return next((WORDS["doubts"][span.doubt] for span in self.rows if span.doubt), "")

    @property
    def starts(self) -> str:
        """The ids at which documents begin."""
        first = [str(span.expected_first) for span in self.rows]
        if len({*first}) == 1:
            return f"each document then begins at id {first[0]}"
        more = ", …" if len(first) > SHOWN else ""
        return f"the documents then begin at the ids {', '.join(first[:SHOWN])}{more}"

    def series(self) -> CsvTable:
        """Column names for CSV, and one row for each document."""
        head, rows = csv_table(self.rows, list(self.listed["first_rows"].values()))
        return [name.replace("first_id", "first") for name in head], rows


def judge_positions(
    batch: Batch,
    model: Model | None,
    rules: Rules,
    spec: str,
    params: Values,
    recovered: Recovered | None,
    words: str = "",
) -> Positions:
    """Check the ids of a batch, which may be `recovered` from a dump.

    `words` say that there are fewer or more ids than tokens.
    """
    spans = spans_of(batch, rules)
    mask = describe_mask(batch.mask, batch.segments) if batch.mask else None
    changes = [consequence_of(batch, model, span, rules) for span in spans]
    known, sizes = [c.scores_change for c in changes], [c.largest_change or 0.0 for c in changes]
    united = Consequence(any(known), max(sizes, default=0.0) or (None if any(known) else 0.0))
    findings: list[Finding] = [finding("ids-lengths", words=words)] if words else []
    are_harmless = []  # documents that are not as expected
    for span, change in zip(spans, changes, strict=True):
        is_harmless = change.scores_change is False and span.verdict != "beyond"
        if span.doubt == "step":
            is_harmless = model is not None and model.encoding.injection != "add"
        are_harmless += [is_harmless] if span.verdict != EXPECTED else []
        findings += (
            replace(f, severity="note") if is_harmless and f.severity == "error" else f
            for f in span.faults
        )
    if (hidden := len(findings) - SHOWN) > 0:
        findings[SHOWN:] = [finding("ids-more", count=hidden)]
    findings += lone_documents(batch, rules) if spans else ()
    if batch.ignored:
        findings.append(finding("ids-ignored", names=", ".join(batch.ignored)))
    findings += mask_findings(mask, model) if mask else ()
    findings += recovered.findings if recovered else ()
    harmless = ""
    if model and are_harmless and all(are_harmless) and not is_mask_wrong(findings):
        what = "rotary scores" if model.encoding.injection == "rotate" else "biases"
        harmless = f" This is harmless for this model: {what} depend on lags alone."
        if batch.segments is None and batch.past is None and not batch.mask:
            harmless += " Pass --past N if keys are cached."
    shape = batch.ids.shape if len(batch.ids) > 1 else batch.ids.shape[1:]
    table, name = np.concatenate(batch.ids).T, "position ids"
    if batch.mask and not spans:  # a mask alone
        shape, table, name = batch.mask.visible.shape, batch.mask.visible[0], "mask"
    return Positions(
        shape=shape,
        rows=tuple(spans),
        positions=batch.ids if recovered else None,
        uncertainty=recovered.uncertainty if recovered else None,
        consequence=NOT_KNOWN if None in known or not model or not spans else united,
        mask=mask,
        findings=tuple(
            f if isinstance(f, TokenFinding) else TokenFinding(**vars(f)) for f in findings
        ),
        harmless=harmless,
        ids=batch.ids,
        encodings=(from_table(table, name, spec=spec, params=params),),
    )


def is_mask_wrong(findings: Iterable[Finding]) -> bool:
    """Whether a finding reports a mistake in a mask."""
    return any(f.code.startswith("ids-mask") and f.severity != "note" for f in findings)


def consequence_of(batch: Batch, model: Model | None, span: Span, rules: Rules) -> Consequence:
    """Change of attention in a document; unknown if the expected ids are unknown."""
    if span.verdict == EXPECTED:
        return UNCHANGED
    if model is None or span.due is None:
        return NOT_KNOWN
    cached = 0 if batch.past is None or span.segment else int(batch.past[span.row])
    # a token of another rank is the origin of lags
    before = rules.start + np.arange(cached if rules.rank is None else 1)
    ids = batch.ids[-3:, span.row, span.index]
    rows = np.tile(before, (len(ids), 1))
    pair = (np.hstack([rows, np.broadcast_to(x, ids.shape)]) for x in (ids, span.due))
    return model.consequence(*pair)


def lone_documents(batch: Batch, rules: Rules) -> Iterator[Finding]:
    """Report padding behind packed documents with ids that look like documents of one token."""
    if len(batch.ids) > 1 or batch.past is not None or rules.rank is not None:
        return
    for row, ids in enumerate(batch.ids[0]):
        end = int(np.flatnonzero(np.append(True, ids != rules.start))[-1])
        if batch.segments is not None and batch.segments[row, end:].any():
            continue
        if len(ids) - end > 1 and (ids[:end] == rules.start).sum() > 1:
            known = "known" if batch.knows_documents else "unknown"
            yield finding("ids-lone-documents", known, row=row, token=end, count=len(ids) - end)
            return


def spans_of(batch: Batch, rules: Rules) -> list[Span]:
    """Check each document."""
    axes = batch.ids[-3:]
    blocks = {
        1: blocks_of(batch.images, Vision(merge=rules.vision.merge)),
        2: blocks_of(batch.videos, rules.vision, batch.seconds),
    }
    has_grids = batch.images is not None or batch.videos is not None
    spans: list[Span] = []
    for row in range(batch.ids.shape[1]):
        previous = 0
        for place, tokens in enumerate(documents_of(batch, row)):
            ids = axes[:, row, tokens]
            kinds = None if batch.kinds is None else batch.kinds[row, tokens]
            document = Document(ids, tokens, row, place, previous, rules, batch)
            is_known = kinds is not None and (has_grids or not kinds.any())
            if len(axes) == 1:
                span = judge_line(replace(document, ids=ids[0]))
            elif (ids == ids[0]).all() and (kinds is None or not (has_grids and kinds.any())):
                span = judge_flat(document, is_text=is_known)
            else:
                span = judge_axes(document, layout_of(kinds, blocks) if is_known else None)
            if len(batch.ids) == 4 and span.verdict == EXPECTED:
                span = judge_line(replace(document, ids=batch.ids[0, row, tokens]))
            spans.append(span)
            previous = int(ids[:, -1].max())
    return spans


def mask_findings(mask: Visibility, model: Model | None) -> Iterator[Finding]:
    """Findings about a mask that shows too much, or whose window differs from the model's."""
    if mask.documents_seen:
        yield finding("ids-mask-documents")
    if mask.pads_seen:
        yield finding("ids-mask-pads")
    windows = {run.window for run in model.positions.layers} if model else set()
    widest = 0 if None in windows else max(filter(None, windows), default=0)
    if windows and mask.window not in windows and (mask.window or mask.reach > widest):
        due = ", ".join(sorted(str(w or "none") for w in windows))
        yield finding("ids-mask-window", window=mask.window or "none", due=due)
    for fault in mask.faults:
        yield finding(f"ids-mask-{fault}")
    if mask.kind != OTHER and not mask.causal and model and model.is_causal:
        yield finding("ids-mask-later", kind=mask.kind)


def judge_input(
    source: Any,
    arrays: Values,
    files: Values,
    config: Any,
    rank: str | tuple[int, int] | None,
    shard: str | None,
    length: int | None,
    past: int | None,
) -> Positions:
    """Check the ids of an input, with `arrays` by name and `files` by content."""
    spec = path_of(config)
    model = None
    if spec is not None:
        described = describe_positions(spec)
        own = described.encoding.file and described.encoding.file.model
        model = Model(spec, described, read_object(own.file) if own else {})
    rank = "/".join(map(str, rank)) if isinstance(rank, tuple) else rank
    rules = model.rules(length) if model else Rules(limit=length)
    if rank is not None:
        at, _, ranks = rank.partition("/")
        if not (at.isdigit() and ranks.isdigit() and int(at) < int(ranks)):
            rule = "--rank must be R/N with R from 0 to N - 1, such as 1/4"
            raise PefourierError(f"{rule}; got {rank}")
        rules = replace(rules, rank=int(at), ranks=int(ranks), shard=shard)
    elif shard is not None:
        raise PefourierError("--shard needs --rank R/N")
    name = path_of(source) or "ids"
    params = {"config": spec, "rank": rank, "shard": shard, "length": rules.limit, "past": past}
    params = {key: value for key, value in params.items() if value is not None}
    content = arrays_of(source) | {k: numbers(v) for k, v in arrays.items() if v is not None}
    label = "the batch" if name == "ids" else shown(Path(name).name)
    named = {name or "position_ids": array for name, array in content.items()}
    roles, ignored = arrays_by_role(named, label)
    lone = next(iter(roles.values())) if len(content) == 1 else np.zeros(0)
    if is_mask(lone) and not content.keys() & {*NAMES["position_ids"]}:
        visible = as_visible(lone)
        batch = Batch(np.zeros((1, 0, visible.shape[-1]), np.int64), mask=read_mask(visible))
        return judge_positions(batch, model, rules, name, params, None)
    parts = ["cos", "sin"] if {"cos", "sin"} <= roles.keys() else ["position_ids"]
    waves = [roles.pop(role) for role in parts] if is_wave(lone) or len(parts) > 1 else []
    stated = recovered = None
    if waves:
        subject = f"{' and '.join(parts)} of {label}" if len(content) > 1 else label
        is_table = len(content) == len(waves) and name != "ids"
        recovered = recover(waves, model, name, subject, is_table=is_table)
        stated = roles.pop("position_ids", None)
        roles["position_ids"] = recovered.ids
    for role, value in files.items():
        if (path := path_of(value)) is not None:
            roles |= read_role(path, role, roles["position_ids"].shape)
        elif value is not None:
            roles[role] = numbers(value)

    def judge(roles: Roles, past: int | None, words: str = "") -> Positions:
        batch = batch_of(roles, label, rules, past, stated, ignored)
        return judge_positions(batch, model, rules, name, params, recovered, words)

    ids, tokens = roles["position_ids"], roles.get("input_ids", np.zeros(0))
    n, width, mask = ids.shape[-1], tokens.shape[-1], roles.get("attention_mask", tokens)
    is_open = past is None and "cache_position" not in roles and mask.shape[-1] == width
    if n == 1 or width in (0, n, ids.size) or not is_open:
        return judge(roles, past)
    others = " and ".join(role for role in ("input_ids", "attention_mask") if role in roles)
    words = f"position_ids have {n} tokens, {others} {width}: {width - n} ids are missing"
    if width < n:
        words = f"position_ids have {n} tokens, {others} {width}: {n - width} ids have no token"
    elif (found := judge(cut_to(slice(-n, None), roles, width), width - n)).verdict == EXPECTED:
        return found  # all tokens, beside the ids of the last ones
    elif not (found := judge(cut_to(slice(n), roles, width), None, f"{words} at the end")).bad:
        return found
    ids = ids_by_axis(ids, "position_ids")
    batch = Batch(ids, segments=np.zeros(ids.shape[1:], int), ignored=ignored)
    return judge_positions(batch, model, rules, name, params, recovered, words)


def cut_to(part: slice, roles: Roles, width: int) -> Arrays:
    """Cut arrays of `width` tokens; the mask of a cache keeps its width."""
    names = TOKENWISE | {"input_ids"}
    if part.start is None:
        names |= {"attention_mask"}
    return {
        role: array[..., part] if role in names and array.shape[-1] == width else array
        for role, array in roles.items()
    }


def arrays_of(source: Any) -> Arrays:
    """Read the arrays of a file or a mapping; "" names an array without a name."""
    if (path := path_of(source)) is not None:
        return batch_of_recording(path) or read_arrays(path)
    if isinstance(source, Mapping):
        return {str(name): numbers(value) for name, value in source.items() if value is not None}
    return {"": numbers(source)}


def numbers(value: Any) -> Array:
    """Convert an array, a tensor or nested lists to a numeric array."""
    if callable(getattr(value, "numpy", None)):
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy(force=True)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise PefourierError("ids must be an array, or nested lists of equal length") from error
    if array.dtype.kind not in "biuf":
        raise PefourierError(f"ids must be integers; got {shown(type(value).__name__)}")
    return array


def is_mask(array: Array) -> bool:
    """Whether an array alone is a mask of queries and keys."""
    is_square = array.ndim >= 2 and array.shape[-1] == array.shape[-2] > 1 and array.size > 0
    is_additive = array.dtype.kind == "f" and is_square and array.min() < -1e4
    return is_square and (is_additive or bool(np.isin(array, (0, 1)).all()))


def is_wave(array: Array) -> bool:
    """Whether an array alone holds cosines and sines."""
    is_finite = array.dtype.kind == "f" and array.ndim >= 2 and bool(np.isfinite(array).all())
    return is_finite and bool((np.rint(array) != array).any())


def recover(
    waves: list[Array], model: Model | None, name: str, subject: str, *, is_table: bool
) -> Recovered:
    """Recover the positions (axes, rows, n) of the rows of a dump of cosines and sines.

    A file that holds the dump alone is read as a table; messages call it `subject`. Raise an error
    if no position explains all pairs of a row within rounding.
    """
    if model is None:
        raise PefourierError(f"{shown(name)} holds cosines and sines; also pass the model's config")
    shapes = {wave.shape for wave in waves}
    sides = [side for side in waves[0].shape[:-1] if side > 1]
    if len(shapes) > 1 or len(sides) > 2 or not waves[0].size:
        found = " and ".join(map(str, sorted(shapes)))
        raise PefourierError(f"cosines and sines must be (n, d) or (rows, n, d); got {found}")
    rows, dump = sides[0] if len(sides) > 1 else 1, np.concatenate(waves, axis=-1)
    dump = dump.reshape(-1, dump.shape[-1])
    facts: Fields = {"spec": subject, "eps": float(np.finfo(dump.dtype).eps)}
    table = load(name) if rows == 1 and is_table else from_table(dump, name, **facts)
    enc, axis = at_rows_of(model.encoding, table), model.axis
    reference, measured = declared(enc), fit(table.table(), table.eps)
    if reference is None:
        raise PefourierError(f"{shown(model.spec)} declares no frequencies to recover positions")
    is_whole = measured and measured.form and measured.form.part == "both"
    if not measured or not is_whole or len(measured) != len(reference):
        count = len(measured) if measured else "no"
        raise PefourierError(
            f"{shown(table.label)} must hold cosines and sines of {len(reference)} pairs, as "
            f"{shown(model.spec)} does; it has {count} pairs and "
            f"numbers up to {np.abs(table.table()).max():.4g}"
        )
    bad = []  # first row that is not explained, for each order of cosines and sines
    for own in (measured, exchanged_waves(measured)):
        lists = np.array([])  # of longrope factors, for each row
        if axis is not None:
            numbers = own.numbers(np.arange(own.length)) / own.factor
            limits = max(FLOAT32_EPS, own.eps), -own.length, max(8 * own.length, FARTHEST)
            lines = [
                recover_positions(reference.frequency[axis == i], numbers[:, axis == i], *limits)
                for i in range(3)
            ]
        elif by_row := positions_in(enc, reference, own):
            lines, lists = [by_row[0]], by_row[1]
        else:
            continue
        explained = np.all([line.explained for line in lines], axis=0)
        if explained.all():
            uncertainty = tuple(int(line.uncertainty.max()) for line in lines)
            ids = np.array([line.positions for line in lines]).reshape(len(lines), rows, -1)
            words = [
                f"rows {ranges(np.flatnonzero(lists == name).tolist())} the {name} factors"
                for name in dict.fromkeys(lists.tolist())
            ]
            notes = [finding("ids-two-lists", words=", ".join(words))] if len(words) > 1 else []
            return Recovered(ids, uncertainty, notes)
        bad.append(int(explained.argmin()))
    raise PefourierError(
        f"no position of {shown(model.spec)} explains row {max(bad, default=0)} of "
        f"{table.label}; use pefourier compare to see how the frequencies differ"
    )


@frozen_arrays
class Recovered:
    """Ids recovered from a dump, and the uncertainty of each axis in positions."""

    ids: Array  # (axes, rows, n)
    uncertainty: Counts
    findings: list[Finding]  # which rows use which list of longrope factors, if both are used

"""Reach of a model's positions, and the cost of reading its rotation differently."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, Finding, Findings, finding
from pefourier.encodings.families.absolute import Temperature
from pefourier.encodings.loader import load, source_of
from pefourier.encodings.model_positions import (
    StatedLength,
    TrainedLength,
    describe_positions,
    positions_of,
)
from pefourier.encodings.sources.huggingface import INDEXER, trained_as_stated
from pefourier.errors import PefourierError, command_line, shown
from pefourier.questions.result import Result
from pefourier.questions.rotations import (
    Band,
    FrequencyReading,
    ModelRotation,
    Pair,
    count_unseen,
    describe_rotation,
    read_against,
    window_within,
)
from pefourier.types import Counts, CsvTable, Texts, Values, frozen, hidden
from pefourier.writing.page import labelled_fields
from pefourier.writing.text import Verdict, number, ranges


@frozen
class Layers:
    """Layers of a model with equal settings."""

    index: Counts  # empty if numbers are unknown, or there is no model
    kind: str  # rotary, none, learned, sinusoidal, alibi, t5, …
    rotation: int | None  # index into the rotations of the context
    window: int | None  # positions that a query sees; None for all
    name: str = hidden(default="")  # of the rotation

    @property
    def numbers(self) -> str:
        """The layer numbers as ranges, or all."""
        return ranges(self.index) or "all"


@frozen
class Reach:
    """Distance that a token sees if every layer has a window, in positions."""

    direct: int  # through the widest window
    stacked: int  # through the windows of all layers


ROTATION_FACTS = {  # labels of rows, and fields of a rotation
    "pairs per head": "pairs",
    "rotated pairs": "rotated",
    "layout": "pairing",
    "image axis of pairs": "axes",
    "base": "base",
    "scaling": "scaling",
    "attention factor (multiplies cos and sin)": "attention_factor",
    "softmax scale": "softmax_factor",
    "first negative lag (sum of cosines)": "bound",
    "P(nearer key scores higher)": "nearer_higher",
    "pairs without a full rotation": "idle",
    "pairs at unseen angles": "unseen",
    "no unseen angles up to": "familiar_length",
}
LAYOUTS = {"halves": "half (rotate_half)", "neighbours": "interleaved"}  # as engines name them
UNCHANGED = {"scaling": "none", "attention_factor": 1, "softmax_factor": 1}  # rows left out
NAMES = {  # of encodings without rotation, in a sentence
    "alibi": "ALiBi biases",
    "kerple": "KERPLE biases",
    "sandwich": "Sandwich biases",
    "fire": "FIRE biases",
    "t5": "T5 biases",
    "deberta": "DeBERTa's vectors of distances",
    "xl": "Transformer-XL's vectors of distances",
}
SOURCES = {  # of the trained length, in a sentence
    "stated": "as the config states",
    "assumed": "assumed: before scaling",
    "given": "given",
}
IN_A_LINE = 8
DIGITS = 6


class Facts(UserDict[str, Any]):
    """Values that are computed when they are read."""

    def __getitem__(self, name: str) -> Any:
        return self.data[name]()


@frozen
class Context(Result):
    """Positions of a model, or of one encoding."""

    command = "context"
    figure = "wavelengths"
    verdicts = {
        "unseen angles": Verdict(
            "At {r.length:,} positions, {r.new_in_words} reach angles never seen in training, "
            "which used {r.trained.length:,} positions ({r.trained_source}).",
            "{r.way_out}",
        ),
        "within the stated length": Verdict(
            "The config states {r.stated.length:,} positions with its scaling ({r.stated.key}). "
            "There, {r.new_in_words} reach angles beyond those of the original "
            "{r.trained.length:,} positions, so the model needs training with the scaling.",
        ),
        "no new angles": Verdict(
            "At {r.length:,} positions, every rotary pair stays within the angles seen in training "
            "({r.trained.length:,} positions, {r.trained_source}). A full rotation is longer than "
            "the length for {r.idle_in_words}.{r.windows_in_words}",
            "{r.is_only_stated:?If the length in the config was raised after training, pass "
            "--trained N, or compare with the original by --baseline FILE.}",
        ),
        "beyond every window": Verdict(
            "Every layer has a sliding window of at most {r.widest_window:,} positions, so at "
            "{r.length:,} positions no layer lets the last token attend to the "
            "first.{r.reach_in_words} No pair reaches an angle never seen in training.",
        ),
        "training length unknown": Verdict(
            "Without the trained length, it is unknown which angles are new at {r.length:,} "
            "positions.",
            "Pass it as --trained N.",
        ),
        "read differently": Verdict(
            "If the config is read as {r.against.other}, the rotation changes: the cosine between "
            "both first falls below 0.99 at position "
            "{r.against.below[.99]:,}.{r.against.is_scaled:? Logits are multiplied by "
            "{r.against.logits:4}.}",
        ),
        "logits scaled": Verdict(
            "If the config is read as {r.against.other}, the cosine between both rotations stays "
            "above 0.99 up to 1,048,576 positions, but logits are multiplied by "
            "{r.against.logits:4} at every position.",
        ),
        "read alike": Verdict(
            "If the config is read as {r.against.other}, the cosine between both rotations stays "
            "above 0.99 up to 1,048,576 positions; {r.against.differing} frequencies differ.",
            title="nearly the same rotation",
        ),
        "no positions": Verdict(
            "No layer uses a positional encoding at any length. The causal mask still orders the "
            "tokens.",
        ),
        "any length": Verdict(
            "{r.name_in_words} come from a formula defined at any length. Whether the model works "
            "beyond its trained length is a separate question.",
        ),
        "limited distance": Verdict(
            "{r.name_in_words} are equal at all distances from {r.far:,} on; shorter distances are "
            "distinguished up to their buckets.",
        ),
        "fixed length": Verdict("The {r.table_name} has {r.rows_in_words}."),
        "too few rows": Verdict(
            "The {r.table_name} has {r.rows_in_words}; {r.lost:,} of the {r.length:,} requested "
            "positions have no row.",
            "If `pefourier check-faithful` names a formula for the table, compute more rows. "
            "Otherwise lengthen it with `pefourier resize`, then fine-tune the model.",
        ),
        "a grid": Verdict(
            "Positions are points of a grid; their vectors come from one formula of the "
            "coordinates at every size{r.table_beside}.",
            "Use `pefourier resize` to compare sizes.",
        ),
        "codes repeat": Verdict(
            "Vectors repeat within this length, so positions share a vector.",
            "Fix the problems listed below.",
            title="vectors repeat",
        ),
        "no rotation": Verdict(
            "Queries and keys are not rotated, so the length has no effect on rotations.",
            "Use `pefourier check-faithful` to see which positions can be distinguished.",
        ),
    }
    shown = {
        "positions": "length",
        "trained length": "trained_text",
        "stated length": "stated",
        "window": "window_text",
        "direct reach (widest window)": "reach.direct",
        "reach through all windows": "reach.stacked",
        "rows of the table": "held_text",
        "identical from distance": "far",
        **{label: f"facts.{name}" for label, name in ROTATION_FACTS.items()},
        "largest query scale": "temperature.largest",
    }
    listed = {
        "layers": {"layers": "numbers", "kind": "kind", "rotation": "name", "window": "window"},
        "all_bands": {
            "rotation": "rotation",
            "band": "treatment",
            "pairs": "pairs",
            "pair indices": "numbers",
            "divided by": "divided_by",
            "wavelengths": "wavelengths",
            "turns_trained": "turns_trained",
            "turns": "turns",
        },
        "frequency_lines": {
            "rotation": "name",
            "pairs": "numbers",
            "inv_freq (radians per position)": "values",
        },
        "slope_lines": {"heads": "numbers", "slopes": "values"},
        "readings": {"cosine falls below": "level", "from position": "position"},
    }
    short = {
        "shown": (
            "positions",
            "trained length",
            "stated length",
            "window",
            "direct reach (widest window)",
            "rows of the table",
            "identical from distance",
            "base",
            "scaling",
            "pairs at unseen angles",
        ),
        "all_bands": (
            "rotation",
            "band",
            "pairs",
            "wavelengths",
            "divided by",
        ),
        "readings": (
            "cosine falls below",
            "from position",
        ),
    }

    layers: tuple[Layers, ...]
    rotations: tuple[ModelRotation, ...]
    trained: TrainedLength
    stated: StatedLength | None  # with the scaling, longer than before it
    length: int
    allowed: int | None  # positions that the config allows, with its scaling; None if no config
    temperature: Temperature | None  # scaling of queries with position, if any
    unread: Texts  # keys about positions that the config sets and the reader ignores
    findings: Findings
    against: FrequencyReading | None = None  # the reading given by --against
    slopes: tuple[float, ...] | None = None  # of ALiBi, per head: decrease of a logit per position
    reach: Reach | None = None  # None if a layer sees all or layer numbers are unknown
    stands_for: int | None = hidden(default=None)  # `ModelPositions`
    tables: dict[str, int | None] = hidden(  # tables with a fixed number of rows, by side
        default_factory=dict
    )

    @property
    def verdict(self) -> str:
        """The reach of positions, or the cost of another reading."""
        if not self.rotations:
            return self.table_verdict
        if self.against is not None:
            return self.against.verdict
        if self.trained.length is None:
            return "training length unknown"
        if self.new_pairs:
            return "within the stated length" if self.is_within else "unseen angles"
        windows = [window_within(run.window, self.length) for run in self.layers]
        return "no new angles" if None in windows else "beyond every window"

    @property
    def table_verdict(self) -> str:
        """Verdict for positions without rotation: tables, biases, added sinusoids."""
        enc = self.encoding
        if {layer.kind for layer in self.layers} == {"none"}:
            return "no positions"
        if self.far is not None:
            return "limited distance"
        if self.held is not None:
            return "too few rows" if self.lost > 0 else "fixed length"
        if enc.measure and not enc.domain.is_line:
            return "a grid"
        if any(f.code == "repeating-codes" for f in enc.findings):
            return "codes repeat"
        return "any length" if enc.measure or enc.name in NAMES else "no rotation"

    @property
    def is_within(self) -> bool:
        """Whether the config states the length and the trained length is assumed."""
        if self.stated is None or self.trained.source != "assumed":
            return False
        return self.length <= self.stated.length

    @property
    def misfit(self) -> str | None:
        """Why the length exceeds what the model was made for; None if it fits or is unknown."""
        if self.lost > 0:
            return f"{self.lost:,} of {self.length:,} positions have no row in the table"
        if self.new_pairs and not self.is_within:
            beyond = f", beyond the stated {self.stated.length:,}" if self.stated else ""
            return f"{self.new_in_words} reach unseen angles at {self.length:,} positions{beyond}"
        return next((f.message for f in self.findings if f.code == "unseen-phases"), None)

    @property
    def new_in_words(self) -> str:
        """The pairs that reach angles never seen in training, by type of layer."""
        return pairs_in_words([(r, r.unseen) for r in self.rotating if r.unseen])

    @property
    def idle_in_words(self) -> str:
        """The pairs that never complete a full rotation, by type of layer."""
        return pairs_in_words([(r, r.idle) for r in self.rotating])

    @property
    def reach_in_words(self) -> str:
        """A sentence on how far information travels through layers with windows."""
        words = " Through all layers together, a token depends on at most {:,} positions."
        return words.format(self.reach.stacked) if self.reach else ""

    @property
    def rotating(self) -> tuple[ModelRotation, ...]:
        """The rotations of layers, without that of an indexer."""
        return tuple(r for r in self.rotations if r.name != INDEXER)

    @property
    def new_pairs(self) -> int:
        """Number of pairs in all rotations that reach angles never seen in training."""
        return sum(r.unseen or 0 for r in self.rotating)

    @property
    def widest_window(self) -> int | None:
        """The most positions that any layer sees; None for all."""
        windows = [run.window for run in self.layers if run.window is not None]
        return max(windows, default=None) if len(windows) == len(self.layers) else None

    @property
    def way_out(self) -> str:
        """Commands and options that help at unseen angles for this input."""
        ways = [f"Compare scalings with `{command}`."] if (command := self.extension) else []
        if self.trained.source != "given":
            ways.append(f"Pass --trained {self.length} if the model was trained at that length.")
        return " ".join(ways)

    @property
    def extension(self) -> str | None:
        """Command that compares scalings; None if `design` does not accept the rotation."""
        bases = [r.base for r in self.rotating if r.base and r.base > 1 and r.rotated >= 2]
        is_given = self.trained.source == "given"
        stands_for = self.trained.length if is_given else self.stands_for
        if len(self.rotating) != 1 or not bases or self.length <= (stands_for or self.length):
            return None
        words: list[object] = ["pefourier", "design", "--extend-from", self.encoding.spec]
        words += ["--length", stands_for] if is_given else []
        is_named = source_of(self.encoding.spec) == "name"
        words += ["--d", self.encoding.params["d"]] if is_named else []
        return command_line(*words, "--to", self.length)

    @property
    def trained_text(self) -> str | None:
        """The trained length and its source; None if nothing rotates."""
        length = self.trained.length
        stated = "unknown" if length is None else f"{length} ({self.trained_source})"
        return stated if self.rotations else None

    @property
    def trained_source(self) -> str:
        """The source of the trained length, for use in a sentence."""
        return SOURCES.get(self.trained.source, self.trained.source)

    @property
    def is_only_stated(self) -> bool:
        """Whether only the length in the config, without scaling, says how long training was."""
        is_config = source_of(self.encoding.spec) in ("config", "gguf")
        return is_config and self.trained.source == "stated"

    @property
    def name_in_words(self) -> str:
        """The encoding, which does not rotate, as the subject of a sentence."""
        name = self.encoding.name
        return NAMES.get(name, f"Vectors of {name}")

    @property
    def table_name(self) -> str:
        """The table of vectors, by what it is."""
        return f"{'learned ' if self.encoding.name == 'learned' else ''}embedding table"

    @property
    def limited(self) -> tuple[int, int] | None:
        """Layers with a window below the length, if others see all positions, and the widest."""
        runs = [run for run in self.layers if window_within(run.window, self.length)]
        if not 0 < len(runs) < len(self.layers) or not all(run.index for run in runs):
            return None
        return sum(len(run.index) for run in runs), max(run.window or 0 for run in runs)

    @property
    def window_text(self) -> str | None:
        """The widest window of some layers, and their number."""
        if self.limited is None:
            return None
        layers, widest = self.limited
        total = sum(len(run.index) for run in self.layers)
        kind = " in chunks" if is_chunked(self.encoding) else ""
        return f"{widest} positions{kind} ({layers} of {total} layers)"

    @property
    def windows_in_words(self) -> str:
        """A sentence on the layers with a window."""
        kind = "chunks" if is_chunked(self.encoding) else "windows"
        words = " {} layers attend within {} of {:,} positions."
        return words.format(self.limited[0], kind, self.limited[1]) if self.limited else ""

    @property
    def facts(self) -> Values:
        """Facts about the rotation; if there are several, by the name of their layers.

        Facts that depend on the model type are marked as assumed if that type is unknown.
        """
        how = " (assumed)" if any(f.code == "model-type-unknown" for f in self.findings) else ""
        in_words: dict[str, Callable[[ModelRotation], Any]] = {
            "pairing": lambda r: r.pairing and f"{LAYOUTS[r.pairing]}{how}",
            "axes": lambda r: {a: ranges(pairs) for a, pairs in (r.axes or {}).items()} or None,
            "base": lambda r: (
                f"{r.effective_base:.7g} ({number(r.base)} before scaling)"
                if r.effective_base
                else r.base
            ),
            "bound": lambda r: r.bound or "none below 2^20",
            "softmax_factor": lambda r: f"{number(r.softmax_factor)}{how}",
        }

        names = [r.name.removesuffix("_attention") or "all" for r in self.rotations]

        def value(name: str) -> Any:
            words = [in_words.get(name, attrgetter(name))(r) for r in self.rotations]
            if len(words) == 1:
                return words[0]
            return {n: v for n, v in zip(names, words, strict=True) if v is not None} or None

        return Facts(
            (name, partial(value, name))
            for name in ROTATION_FACTS.values()
            if name not in UNCHANGED
            or any(getattr(r, name) != UNCHANGED[name] for r in self.rotations)
        )

    @property
    def held_text(self) -> Any:
        """Rows of the only table, or of the table of each side."""
        if self.held is None or len(self.tables) < 2:
            return self.encoding.params.get("rows", self.held)
        return self.tables

    @property
    def rows_in_words(self) -> str:
        """Rows of the table, and the first id if the rows before it belong to no position."""
        params, held = self.encoding.params, self.held or 0
        first, rows = params.get("offset"), params.get("rows", held)
        if not first or rows == held:
            return f"{rows:,} rows"
        return f"{rows:,} rows, and ids begin at {first}, so {held:,} positions have a row"

    @property
    def table_beside(self) -> str:
        """Words on a learned table that the model adds beside a rotation on a grid."""
        sides = self.encoding.params.get("table_beside", ())
        words = f", and a learned table of {'x'.join(map(str, sides))} points is resized to them"
        return words if sides else ""

    @property
    def all_bands(self) -> list[Band]:
        """The bands of all rotations."""
        return [band for r in self.rotations for band in r.bands]

    @property
    def readings(self) -> list[Any]:
        """Position from which the cosine to another reading is below each level."""
        below = self.against.below if self.against else {}
        return [{"level": level, "position": position} for level, position in below.items()]

    @property
    def held(self) -> int | None:
        """Number of positions with a row in the largest table; None if there is no table."""
        enc = self.encoding
        if self.rotations or self.far is not None or self.slopes:
            return None
        if self.tables and not (enc.name == "learned" and len(self.tables) == 1):
            return max(rows or self.length for rows in self.tables.values())
        if enc.origin == "file" and enc.injection == "add" and self.length > len(enc):
            return len(enc)
        if enc.origin == "weights" or enc.name == "learned":
            is_given = self.trained.source == "given" and "path" not in enc.params
            return self.trained.length if is_given else len(enc)
        return None

    @property
    def lost(self) -> int:
        """Number of requested positions without a row."""
        return self.length - (self.held or self.length)

    @property
    def far(self) -> int | None:
        """The distance beyond which all vectors are equal; None if there is no such distance."""
        return None if self.rotations else last_bucket(self.encoding)

    @property
    def frequency_lines(self) -> list[dict[str, str]]:
        """The frequencies of all rotations, in lines of text."""
        lines = (
            in_lines(r.name, [(p.pair, p.frequency) for p in r.by_pair]) for r in self.rotations
        )
        return [line for some in lines for line in some]

    @property
    def slope_lines(self) -> list[dict[str, str]]:
        """The slopes of ALiBi, in lines of text."""
        return in_lines("", list(enumerate(self.slopes or ())))

    def series(self) -> CsvTable:
        """Column names for CSV, and one row for each pair of each rotation, or each head."""
        if self.slopes:
            return ["head", "slope"], [[*row] for row in enumerate(self.slopes)]
        columns = {"rotation": "rotation", **labelled_fields(Pair)}
        pairs = (pair for r in self.rotations for pair in r.by_pair)
        return list(columns.values()), [[getattr(p, name) for name in columns] for p in pairs]


def in_lines(name: str, numbers: Sequence[tuple[int, float]]) -> list[dict[str, str]]:
    """Split indexed numbers into lines of text.

    >>> in_lines("", [(i, 2.0**-i) for i in range(9)])[1]
    {'name': 'all layers', 'numbers': '8', 'values': '0.00390625'}
    """
    parts = [numbers[start : start + IN_A_LINE] for start in range(0, len(numbers), IN_A_LINE)]
    return [
        {
            "name": name or "all layers",
            "numbers": ranges([i for i, _ in part]),
            "values": "  ".join(number(x, DIGITS) for _, x in part),
        }
        for part in parts
    ]


def reach_of(layers: Sequence[Layers]) -> Reach | None:
    """Reach of the widest window and of all layers; each layer adds its window minus 1."""
    if not layers or not all(run.index and run.window for run in layers):
        return None
    steps = [(run.window - 1, len(run.index)) for run in layers if run.window]
    return Reach(1 + max(step for step, _ in steps), 1 + sum(s * n for s, n in steps))


def pairs_in_words(counts: Sequence[tuple[ModelRotation, int]]) -> str:
    """Describe a number of pairs of each rotation, with the type of its layers if named.

    >>> from pefourier.encodings import load
    >>> pairs_in_words([(describe_rotation(load("rope", 80, 8)), 3)])
    '3 of 4 rotary pairs'
    """
    parts = [
        f"{count or 'none'} of {r.rotated} rotary pairs{f' of {r.name} layers' if r.name else ''}"
        for r, count in counts
    ]
    return " and ".join(parts)


def describe_context(
    spec: str,
    length: int | None = None,
    trained: int | None = None,
    d: int | None = None,
    against: str | None = None,
) -> tuple[list[Encoding], Context]:
    """Describe the layers and rotations of a config or encoding over `length` positions.

    Also return the encoding of each rotation, with a SPEC that names its type of layer, or the only
    encoding. The model was trained at length `trained` with the present rotation; by default, the
    length before scaling is assumed (`encodings.model_positions`).

    >>> _, found = describe_context("rope:rho=5e5", 131072, trained=8192, d=128)
    >>> found.rotations[0].unseen
    29
    """
    model = describe_positions(spec, length, trained, d)
    met = model.trained.length
    rotations = [
        describe_rotation(
            enc,
            met,
            model.length,
            name=part,
            window=model.widest_window(part),
            before_scaling=model.trained.source == "assumed"
            and trained_as_stated(enc.params) is not None,
            unrotated=model.unrotated,
        )
        for part, enc in zip(model.parts, model.rotations, strict=True)
    ]
    if model.indexer is not None:
        rotations.append(describe_rotation(model.indexer, met, model.length, name=INDEXER))
    is_used = rotations or not trained
    beyond = [] if is_used else beyond_training(model.encoding, load(spec, trained, d))
    layers = []
    for run in model.layers:
        place = model.parts.index(run.part) if run.kind == "rotary" else None
        name = "" if place is None else rotations[place].name or "all layers"
        layers.append(Layers(run.index, run.kind, place, run.window, name))
    model_rotations = list(model.rotations) or [model.encoding]
    is_alibi = (first := model_rotations[0]).name == "alibi"
    return model_rotations, Context(
        layers=tuple(layers),
        rotations=tuple(rotations),
        trained=model.trained,
        stated=model.stated,
        length=model.length,
        allowed=model.allowed,
        temperature=model.temperature,
        unread=model.unread,
        findings=(*model.findings, *beyond),
        encodings=(model.encoding,),
        against=read_against(model_rotations, against, model.length, d) if against else None,
        slopes=tuple((-first.vectors(np.array([-1]))[0]).tolist()) if is_alibi else None,
        reach=reach_of(layers),
        stands_for=model.stands_for,
        tables=model.tables,
    )


def beyond_training(enc: Encoding, trained: Encoding) -> list[Finding]:
    """Report sinusoids that reach angles never seen in training; refuse a length without a use.

    >>> sizes = [load("sinusoidal", length, 64) for length in (336, 96)]
    >>> beyond_training(*sizes)[0].message[:14]
    '22 of 32 pairs'
    """
    lengths = {"length": positions_of(enc), "trained": positions_of(trained)}
    if enc.measure and trained.measure and enc.domain.is_line:
        omega, met = (np.abs(e.measure.frequencies) for e in (enc, trained) if e.measure)
        count = count_unseen(omega, met * lengths["trained"], lengths["length"])
        slots = {"count": count, "total": len(omega)} | lengths
        return [finding("unseen-phases", "positions", **slots)] if count else []
    if enc.name == "learned" or source_of(enc.spec) != "name":
        return []
    raise PefourierError(
        f"{shown(enc.spec)} has neither angles nor rows that depend on training; leave out "
        f"--trained {lengths['trained']}"
    )


def is_chunked(enc: Encoding) -> bool:
    """Whether layers with a window see the chunk of a query, as in Llama 4."""
    model = enc.file and enc.file.model
    return bool(model and model.get("attention_chunk_size"))


def last_bucket(enc: Encoding) -> int | None:
    """Distance from which clamped lags, or T5's or DeBERTa's buckets, share one vector, or None."""
    if enc.name == "xl":
        return int(enc.params["clamp"]) or None
    if enc.name not in ("t5", "deberta"):
        return None
    distances = np.arange(enc.params["max_distance"] + 2)
    vectors = np.hstack([enc.vectors(side * distances) for side in (1, -1)])
    return int(np.flatnonzero(np.diff(vectors, axis=0).any(axis=1))[-1]) + 1

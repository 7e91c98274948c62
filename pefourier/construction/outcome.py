"""What one strategy of `compare` finds: numbers, heads and pairs that differ, and layers of models.

Conventions
-----------
Tables are compared number by number. Layers are counted from 0. Models are configs or .gguf files,
each with one description. Facts that only one model states are not compared: for example, a .gguf
file may state no window. Pairs rotate by the frame, row or column (t, y, x) of the token of an
image (`sections`); for text the three are equal. A table of tokens shows the integer position by
which each pair rotates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np

from pefourier.construction import explain
from pefourier.construction.mistakes import LikelyMistake, settings_cause
from pefourier.construction.operators import OperatorComparison
from pefourier.construction.pairs import PairDifference, PositionRun
from pefourier.construction.steps import describe_changes, describe_sides
from pefourier.construction.waves import Waves, apart, wave_tolerance
from pefourier.encodings.encoding import Encoding, Finding, Findings, distinct, largest_number
from pefourier.encodings.loader import source_of
from pefourier.encodings.model_positions import ModelPositions, describe_positions
from pefourier.geometry.precision import FLOAT32_EPS, float_blocks
from pefourier.geometry.tolerance import stored_tolerance
from pefourier.types import Counts, Fields, Texts, frozen, hidden
from pefourier.writing.text import ranges

Field = Literal["layers", "rotations", "windows", "factors"]
Side = Literal["first", "second"]
Two = tuple[Encoding, Encoding]
SIDES: tuple[Side, Side] = ("first", "second")
MOST = 12  # most layers listed by number
MOST_ROWS = 4096  # most rows of long sinusoidal tables compared number by number
SIMILAR = 2**12  # rows of which a similarity is computed


@frozen
class HeadDifference:
    """A head whose biases differ."""

    index: int
    first: float | None  # slope per position, if the biases are linear
    second: float | None
    ratio: float | None
    max_difference: float


@frozen
class LayerDifference:
    """Layers of two models that differ in one way."""

    index: Counts  # empty where layers are not numbered
    what: Field
    first: str  # as each has it
    second: str
    words: str = hidden(default="")  # how rotations differ
    count: int = hidden(default=0)  # layers that both models have

    @property
    def places(self) -> str:
        """The first few layer numbers, or all layers; the models if layers are not numbered.

        >>> LayerDifference((3, 7), "layers", "rotary", "none").places
        'layers 3, 7'
        """
        if len(self.index) == self.count > 1:
            return "both layers" if self.count == 2 else f"all {self.count} layers"
        return f"layers {ranges(self.index, MOST)}" if self.index else "models"


@frozen
class Similarity:
    """How similar two tables of equal length are, over at most `SIMILAR` rows, evenly spaced."""

    mean_cosine: float | None  # of rows that are not 0; None for other widths
    cka: float | None  # linear: 1 if inner products of centred rows agree up to a factor
    sampled: int | None = None  # number of rows, if they are not all


def similarity_of(first: Encoding, second: Encoding) -> Similarity:
    r"""Compare rows by their cosines, and inner products by linear CKA.

    With centred columns, :math:`\|A^T B\|^2 / (\|A^T A\| \|B^T B\|)` by Frobenius norms (Kornblith
    et al., 2019, arXiv 1905.00414).

    >>> from pefourier.encodings import load
    >>> found = similarity_of(load("sinusoidal", 9, 4), load("sinusoidal:layout=halves", 9, 4))
    >>> round(found.cka, 12), found.mean_cosine < 1
    (1.0, True)
    """
    rows, mean = distinct(np.linspace(0, len(first) - 1, SIMILAR).astype(int)), None
    x, y = (enc.float_table(enc.domain.x[rows]) for enc in (first, second))
    size = max(map(largest_number, (x, y))) or 1.0
    x, y = x / size, y / size
    if x.shape == y.shape:
        norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
        cosines = (x * y).sum(axis=1)[norms > 0] / norms[norms > 0]
        mean = float(cosines.mean()) if len(cosines) else None
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = float(np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))
    cka = float(np.linalg.norm(x.T @ y) ** 2 / size) if size else None
    return Similarity(mean, cka, len(rows) if len(rows) < len(first) else None)


@frozen
class Outcome:
    """Outcome of one strategy: a verdict, the number of differing units, and evidence."""

    _: KW_ONLY
    verdict: str = "different"
    compared: Texts = ("codes",)  # outputs, rotations, layers, windows, factors
    differing: int  # how many of `counted` units differ, such as pairs
    counted: int
    unit: str
    bitwise: bool = False
    transform: Fields = field(default_factory=dict)  # columns, layout, signs, scale, part …
    length: int  # positions compared
    lengths: tuple[int, int]
    dimensions: tuple[int, int]
    tolerance: float | None = None  # largest difference that rounding explains
    first_tolerance: float | None = hidden(default=None)  # of the first
    max_difference: float | None = None
    first_difference: tuple[int, int] | None = None  # position and column; lag and head for biases
    largest_difference: tuple[int, int] | None = None
    pair_counts: tuple[int, int] | None = None  # of each encoding, if both have pairs
    pairs: tuple[PairDifference, ...] = ()  # that differ
    positions: tuple[PositionRun, ...] = ()  # of rows of a table, if row s is not position s
    heads: tuple[HeadDifference, ...] = ()  # that differ
    cause: LikelyMistake | None = None
    expected: Side = "first"  # the side to which causes are applied
    causes: tuple[explain.Cause[Any], ...] = ()  # done to the expected side, they give the other
    steps: Texts = field(default=(), metadata={"told": "differences"})  # that differ, unexplained
    explained: float | None = None  # share of the compared numbers that the causes reproduce
    first: explain.Difference | None = None  # without a cause
    tried: dict[str, int] | None = None  # what was tried to explain a difference
    operator: OperatorComparison | None = None  # of two rotations
    layers: tuple[LayerDifference, ...] = ()  # that differ
    unread: Texts = ()  # keys about positions that a config sets and the reader ignores
    similarity: Similarity | None = None  # of tables of equal length
    findings: Findings = ()

    def with_differences(self, unit: str, differing: int, counted: int, **facts: Any) -> Outcome:
        """Return a copy with a number of differing units."""
        facts |= {"unit": unit, "differing": differing, "counted": counted}
        return replace(self, verdict="different", **facts)

    def comparing(self, *names: str) -> Outcome:
        """Return a copy that compared more."""
        return replace(self, compared=tuple(dict.fromkeys((*self.compared, *names))))

    def without_numbers(self) -> Outcome:
        """Return a copy without the largest and the first difference of numbers."""
        return replace(self, max_difference=None, first_difference=None, largest_difference=None)

    def with_findings(self, *findings: Finding, **facts: Any) -> Outcome:
        """Return a copy with more findings."""
        return replace(self, findings=(*self.findings, *findings), **facts)


def uncompared(unit: str, lengths: tuple[int, int], dimensions: tuple[int, int]) -> Outcome:
    """Initial outcome, when only the sizes of two encodings are known."""
    return Outcome(
        unit=unit,
        differing=abs(dimensions[0] - dimensions[1]),
        counted=max(dimensions),
        length=min(lengths),
        lengths=lengths,
        dimensions=dimensions,
    )


def compare_numbers(
    first: Encoding, second: Encoding, limit: int | None = None, tolerance: float | None = None
) -> Outcome:
    """Compare two tables number by number over their common rows, at most `limit` rows.

    A `tolerance` replaces the differences that rounding explains.
    """
    outcome = uncompared("columns", (len(first), len(second)), (first.dim, second.dim))
    if outcome.differing:
        return outcome
    x = slice(limit if limit and limit < outcome.length else outcome.length)
    a, b = (enc.table(enc.domain.x[x]) for enc in (first, second))
    allowed, _ = stored_tolerance(a, b, first, second)
    differs, largest, worst = np.zeros(a.shape[1], bool), 0.0, -1.0
    facts: Fields = {}
    for rows, numbers in float_blocks(a):
        residual = np.abs(numbers - b[rows])
        given = allowed(np.arange(rows.start, rows.stop)) if tolerance is None else tolerance
        limits = np.broadcast_to(given, residual.shape)
        beyond, largest = residual > limits, max(largest, float(limits.max()))
        if beyond.any() and not differs.any():
            place = np.unravel_index(beyond.argmax(), beyond.shape)
            facts["first_difference"] = at_rows(place, rows)
            facts["first_tolerance"] = float(limits[place])
        if residual.max() > worst:
            worst = float(residual.max())
            place = np.unravel_index(residual.argmax(), residual.shape)
            facts["largest_difference"] = at_rows(place, rows) if worst else None
        differs |= beyond.any(axis=0)
    return replace(
        outcome,
        verdict="different" if differs.any() else "the same",
        differing=int(differs.sum()),
        bitwise=not worst,
        tolerance=largest,
        max_difference=worst,
        **facts,
    )


def at_rows(place: Sequence[Any], rows: slice) -> tuple[int, int]:
    """Return the row and column of a place in a block of rows.

    >>> at_rows((1, 4), slice(20, 30))
    (21, 4)
    """
    return rows.start + int(place[0]), int(place[1])


def compare_waves(numbers: Outcome, a: Waves, b: Waves) -> Outcome:
    """Compare cosines and sines if columns are not comparable one by one."""
    kinds = [(x.form.part, x.form.copies) if x.form else ("both", None) for x in (a, b)]
    is_compared = kinds[0] == kinds[1] and numbers.max_difference is not None
    is_other = any(x.has_angles or x.rows is not None for x in (a, b))
    if is_compared or is_other or len(a) != len(b):
        return numbers
    rows = np.arange(min(numbers.length, MOST_ROWS))
    limit = wave_tolerance(rows, a.frequency, a.factor, max(FLOAT32_EPS, a.eps, b.eps))
    worst = float(apart(a.numbers(rows), b.numbers(rows)).max())
    return replace(numbers.without_numbers(), max_difference=worst, tolerance=float(limit.max()))


def compare_layers(first: Encoding, second: Encoding) -> list[LayerDifference]:
    """List the differences between two models, layer by layer."""
    models = [describe_positions(enc.spec, len(enc)) for enc in (first, second)]
    is_numbered = all(run.index for model in models for run in model.layers)
    a, b = (facts_of_layers(model, is_numbered=is_numbered) for model in models)
    differences: dict[tuple[Field, str, str, str], list[int]] = {}
    in_words = cache(rotations_in_words)
    counts = [len(facts) for facts in (a, b)]
    if counts[0] != counts[1] and is_numbered:
        beyond = range(min(counts), max(counts))
        differences["layers", f"{counts[0]} layers", f"{counts[1]} layers", ""] = [*beyond]
    for i in sorted(a.keys() & b.keys()):
        for what, one in a[i].items():
            two = b[i].get(what, one)
            words = in_words(one, two) if what == "rotations" else (one, two, "")
            if words and one != two:
                differences.setdefault((what, *words), []).append(i)
    factors = [float(enc.params.get("softmax_factor", 1.0)) for enc in (first, second)]
    is_stated = "gguf" not in [source_of(model.spec) for model in models]
    if is_stated and abs(factors[0] - factors[1]) > 1e-6 * max(factors):
        one, two = (f"logits times {factor:.6g}" for factor in factors)
        differences["factors", one, two, ""] = []
    total = counts[0] if counts[0] == counts[1] else 0
    rows = [(tuple(i for i in index if i >= 0), key) for key, index in differences.items()]
    return [LayerDifference(index, *key, total) for index, key in rows]


def facts_of_layers(model: ModelPositions, *, is_numbered: bool) -> dict[int, dict[Field, Any]]:
    """Return the facts that a model states about each layer, or about each run (below 0)."""
    parts, t = dict(zip(model.parts, model.rotations, strict=True)), model.temperature
    is_gguf = source_of(model.spec) == "gguf"
    laid: dict[int, dict[Field, Any]] = {}
    for k, run in enumerate(model.layers):
        facts: dict[Field, Any] = {"layers": run.kind}
        if run.kind == "rotary":
            facts["rotations"] = parts[run.part]
        if not is_gguf:
            is_scaled = t and (t.layers == "all" or run.kind == "none")
            facts["factors"] = f"queries times {t if is_scaled else 1}"
        if not is_gguf or run.window:
            facts["windows"] = str(run.window or "all positions")
        laid |= dict.fromkeys(run.index if is_numbered else (-1 - k,), facts)
    return laid


def rotations_in_words(first: Encoding, second: Encoding) -> tuple[str, str, str] | None:
    """Describe both rotations and their difference, by settings or by frequencies, or None.

    Rotations are the same if their frequencies and factors are, within float32 rounding.
    """
    a, b = (
        np.append(enc.measure.frequencies, enc.params.get("attention_factor", 1.0))
        for enc in (first, second)
    )
    if len(a) == len(b) and np.allclose(a, b, rtol=1e-6, atol=0):
        return None
    cause = settings_cause(first, second)
    if not cause:
        return "", "", "other frequencies or another factor"
    return *describe_sides(cause.changes), describe_changes(cause.changes)

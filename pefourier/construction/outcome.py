"""Outcome of one strategy of `compare`, and the comparison of tables number by number."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, Literal

import numpy as np

from pefourier.construction import explain
from pefourier.construction.layers import LayerDifference
from pefourier.construction.mistakes import LikelyMistake
from pefourier.construction.operators import OperatorComparison
from pefourier.construction.pairs import PairDifference
from pefourier.construction.row_positions import PositionRun
from pefourier.construction.waves import Waves, apart, wave_tolerance
from pefourier.encodings.encoding import Encoding, Finding, Findings, largest_number, row_blocks
from pefourier.geometry.precision import FLOAT32_EPS, NUMBERS_AT_ONCE
from pefourier.geometry.tolerance import stored_tolerance
from pefourier.types import Bools, Counts, Fields, Texts, frozen, frozen_by_name, hidden

Side = Literal["first", "second"]
Two = tuple[Encoding, Encoding]
SIDES: tuple[Side, Side] = ("first", "second")
INTERPOLATED = 20 * FLOAT32_EPS  # of the largest number: difference of two float32 resizes
MOST_ROWS = 4096  # most rows of long sinusoidal tables compared number by number
SIMILAR = 2**12  # rows of which a similarity is computed
MOVED = 3  # rows and wavelengths that are named
ALIKE = 1e-9  # share that rounding explains


@frozen
class HeadDifference:
    """A head whose biases differ."""

    index: int
    first: float | None  # slope per position, if the biases are linear
    second: float | None
    ratio: float | None
    max_difference: float


@frozen
class Similarity:
    """How similar two tables of equal length are, over at most `SIMILAR` rows, evenly spaced."""

    mean_cosine: float | None  # of rows that are not 0; None for other widths
    cka: float | None  # linear: 1 if inner products of centred rows agree up to a factor
    rows: Counts = ()  # with the smallest cosines
    wavelengths: tuple[float, ...] = ()  # strongest in the difference, in positions
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
    rows = np.unique(np.linspace(0, len(first) - 1, min(len(first), SIMILAR)).astype(int))
    x, y = (e.float_table(e.domain.x[rows]) for e in (first, second))
    size = max(np.abs(x).max(initial=0.0), np.abs(y).max(initial=0.0)) or 1.0
    x, y = x / size, y / size
    mean, moved, waves = None, (), ()
    if x.shape == y.shape:
        norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
        cosines = (x * y).sum(axis=1) / np.where(norms > 0, norms, np.nan)
        mean = None if np.isnan(cosines).all() else float(np.nanmean(cosines))
        worst = np.argsort(cosines)[:MOVED]
        moved = tuple(rows[worst[cosines[worst] < 1 - ALIKE]].tolist())
        if len(rows) == len(first):
            energy = (np.abs(np.fft.rfft(y - x, axis=0)) ** 2).sum(axis=1)[1:]
            strongest = np.argsort(-energy)[:MOVED]
            if energy[strongest].sum() <= energy.sum() / 2:  # flat: no wavelength stands out
                strongest = strongest[:0]
            strongest = strongest[energy[strongest] > ALIKE * (y**2).sum() * len(y)]
            waves = tuple((len(first) / (strongest + 1)).tolist())
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    cka = float(np.linalg.norm(x.T @ y) ** 2 / size) if size else None
    sampled = len(rows) if len(rows) < len(first) else None
    return Similarity(mean, cka, moved, waves, sampled)


@frozen_by_name
class Outcome:
    """Outcome of one strategy: a verdict, the number of differing units, and evidence."""

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

    @property
    def first_place(self) -> str | None:
        """Position and column of the first difference."""
        if not self.first_difference or self.heads:
            return None
        return "position {}, column {}".format(*self.first_difference)

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
    n = min(outcome.length, limit or outcome.length)
    a, b = (enc.table(enc.domain.x[:n]) for enc in (first, second))
    allowed, _ = stored_tolerance(a, b, first, second)
    differs, largest, worst = np.zeros(a.shape[1], bool), 0.0, 0.0
    places: list[tuple[int, int] | None] = [None, None]  # of the first and the largest difference
    first_tolerance = None
    for part in row_blocks(n, NUMBERS_AT_ONCE, a.shape[1]):
        residual = np.abs(np.asarray(a[part], dtype=float) - b[part])
        rows = np.arange(part.start, part.stop)
        limits = allowed(rows) if tolerance is None else np.array(tolerance)
        beyond, largest = residual > limits, max(largest, float(limits.max()))
        differs |= beyond.any(axis=0)
        if places[0] is None and (place := first_place(beyond, part.start)):
            places[0] = place
            first_tolerance = float(
                np.broadcast_to(limits, beyond.shape)[place[0] - part.start, place[1]]
            )
        if residual.max() > worst:
            worst = float(residual.max())
            places[1] = first_place(residual == worst, part.start)
    return replace(
        outcome,
        verdict="different" if differs.any() else "the same",
        differing=int(differs.sum()),
        bitwise=not worst,
        tolerance=largest,
        first_tolerance=first_tolerance,
        max_difference=worst,
        first_difference=places[0],
        largest_difference=places[1],
    )


def are_one_resize(outcome: Outcome, encodings: Two) -> bool:
    """Whether two learned float32 tables differ no more than two interpolations of one table.

    A difference that a scale explains to within one unit of the largest number counts as a scale.
    """
    worst = outcome.max_difference
    are_stored = all(enc.origin != "formula" for enc in encodings)
    is_apart = outcome.verdict in ("different", "equivalent")
    if worst is None or not (
        is_apart and are_stored and outcome.transform.keys() <= {"rows", "scale"}
    ):
        return False
    size = largest_number(encodings[0].float_table())
    change = size * abs(outcome.transform.get("scale", 1.0) - 1)
    is_learned = outcome.tolerance == size * 4 * FLOAT32_EPS  # of tables without sinusoids
    is_scaled = bool(change) and worst <= size * FLOAT32_EPS
    return is_learned and not is_scaled and worst + change <= size * INTERPOLATED


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


def first_place(beyond: Bools, start: int = 0) -> tuple[int, int] | None:
    """Row (counted from the start of a block) and column of the first difference.

    >>> first_place(np.array([[False, False], [False, True]]))
    (1, 1)
    """
    row, column = np.unravel_index(beyond.argmax(), beyond.shape)
    return (start + int(row), int(column)) if beyond[row, column] else None

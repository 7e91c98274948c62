"""Faithfulness: whether vectors distinguish positions and can be read back (Definition 1).

The ladder: ``collides`` (two positions share a vector) < ``injective`` < ``invertible`` (a linear
map recovers every function of position: rank = length) < ``isometric`` (invertible with condition
number 1). The paper defines faithful as injective. Its intent, "if there exists an inverse
mapping", is the third rung. Both are reported.

Grids have a further rung, ``separable``, between injective and invertible: a linear map recovers
sums of one function per axis, a(y) + b(x). If each column depends on one axis, the rank is at most
H + W - 1 and this is the highest possible rung. Rows before the grid have no place and are
excluded.

For lags, two verdicts are not rungs: ``symmetric in the lag`` (opposite lags share a vector, as
ALiBi intends; its rung is collides) and, for biases, ``distinct lags`` (injective, or invertible by
its rank), because no linear layer reads a bias. For a bias that depends on the query, the vectors
are those of the keys of one query, the query with the most keys that share a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.encodings.encoding import (
    Encoding,
    Finding,
    finding,
    point_of,
    points_in_words,
    without_prefix,
)
from pefourier.encodings.loader import Source, load
from pefourier.questions.result import Result
from pefourier.types import Counts, Fields, Values, frozen, later
from pefourier.writing.text import Verdict, agreeing, join, number

if TYPE_CHECKING:  # imported for types only: keeps other commands fast to start
    from pefourier.geometry import Progress
    from pefourier.geometry.closest import ClosestPair
    from pefourier.geometry.precision import FormatLoss
    from pefourier.geometry.singular_values import Factors

LADDER = ("collides", "constant", "injective", "separable", "invertible", "isometric")
SYMMETRIC, DISTINCT_LAGS = "symmetric in the lag", "distinct lags"
ELSEWISE = ("rows-of-lags", "duplicate-rows", "bias-of-pairs")  # fewer positions may not help
NOTES = {"cos": "cosines alone", "sin": "sines alone", 2: "each column twice"}
RECOVERED = 1e-6  # sine of the largest angle that counts as rounding


@frozen
class Faithfulness(Result):
    """Faithfulness of an encoding; distances are l2, tolerances absolute."""

    command = "check-faithful"
    figure = "faithful"
    verdicts = {
        "collides": Verdict(
            "Not all {r.length:,} {r.points} have distinct vectors (distinct: {r.distinct:,}): "
            "{r.closest_ends} share a vector.",
            "{r.advice}",
        ),
        "symmetric in the lag": Verdict(
            "Opposite {r.points} share a vector ({r.length:,} {r.points}, {r.distinct} distinct "
            "vectors), so without a causal mask attention cannot tell before from after.",
        ),
        "distinct lags": Verdict("{r.all_distinct}, so attention can tell one lag from another."),
        "injective": Verdict(
            "{r.all_distinct}, but {r.span}, so a linear layer cannot read all {r.points} back.",
        ),
        "separable": Verdict(
            "{r.all_distinct}. A linear layer can read back each coordinate, but not every point.",
        ),
        "invertible": Verdict(
            "{r.all_distinct}, and a linear layer can read all {r.points} back; the layer "
            "amplifies noise by up to {r.condition_number:3} (the condition number).",
        ),
        "isometric": Verdict(
            "{r.all_distinct}, and a linear layer can read all {r.points} back without amplifying "
            "noise.",
        ),
        "constant": Verdict(
            "The vectors do not depend on position: all {r.length:,} are the same up to rounding.",
            "Check which axis indexes the rows; it may be the batch.",
        ),
    }
    shown = {
        "grid": "grid",
        "rows before the grid": "prefix",
        "query": "query",
        "positions": "length",
        "dimensions": "dimension",
        "distinct vectors": "distinct",
        "distinct up to (positions)": "distinct_up_to",
        "period of the vectors": "period",
        "smallest distance": "min_distance",
        "closest pair": "closest_ends",
        "gap (relative to RMS norm)": "gap",
        "rank": "rank",
        "condition number": "condition_number",
        "linear inverse error": "inverse_error",
        "error of reading rows and columns": "separable_error",
        "Toeplitz residual (0 = lag alone)": "toeplitz_residual",
        "A4 (1 = aligned with two axes)": "isotropy.A4",
        "share without a full rotation": "idle",
        "aliased share": "aliased",
        "identified as": "identified_as",
    }
    listed = {
        "formats": {
            "format": "name",
            "distinct when rounded": "distinct_cast",
            "distinct when computed in it": "distinct_phase",
            "phase error (rad)": "max_phase_error",
        }
    }
    short = {
        "shown": (
            "identified as",
            "grid",
            "positions",
            "dimensions",
            "distinct vectors",
            "distinct up to (positions)",
            "period of the vectors",
            "smallest distance",
            "closest pair",
            "rank",
            "condition number",
            "error of reading rows and columns",
        ),
    }

    length: int
    dimension: int
    verdict: str  # highest rung of LADDER; for lags also SYMMETRIC or DISTINCT_LAGS
    faithful: bool  # Definition 1: no two positions share a vector
    min_distance: float | None  # None for a single position
    closest_pair: tuple[float, float] | None  # their coordinates: positions, lags, times or nodes
    gap: float | None  # min_distance over the RMS norm of the vectors
    distinct: int
    rank: int
    rank_tolerance: float  # singular values at or below count as zero
    condition_number: float | None  # None if the rank is deficient
    inverse_error: float  # largest |E E+ - I|
    stable_rank: float
    toeplitz_residual: float | None  # 0: inner products depend only on the lag
    identified: Fields | None
    precision: dict[str, FormatLoss]
    findings: list[Finding]

    @property
    def points(self) -> str:
        """What the rows represent: positions, lags, times or nodes."""
        return points_in_words(self.encoding)

    @property
    def all_distinct(self) -> str:
        """The start of a sentence about distinct vectors."""
        if self.length == 1:
            return f"There is a single {self.points.removesuffix('s')}"
        return f"All {self.length:,} {self.points} have distinct vectors"

    @property
    def span(self) -> str:
        """How many dimensions the vectors span, fewer than there are rows."""
        if self.rank < self.dimension:
            return f"the vectors span only {self.rank} of {self.dimension} dimensions"
        few = agreeing(self.dimension, "dimension is", "dimensions are")
        return f"{self.dimension} {few} fewer than {self.length:,} {self.points}"

    @property
    def period(self) -> int | None:
        """Number of positions after which vectors repeat; None if the formula has no period."""
        period = self.encoding.measure.period
        return period if period is not None and period < self.length else None

    @property
    def closest_ends(self) -> str | None:
        """The two points with the closest vectors."""
        return join(map(str, self.closest_pair)) if self.closest_pair else None

    @property
    def identified_as(self) -> str | None:
        """The formula that the table was identified as, in words."""
        return formula_in_words(self.identified) if self.identified else None

    @property
    def formats(self) -> list[Fields]:
        """Number of distinct vectors in each format."""
        return [{"name": name, **vars(loss)} for name, loss in self.precision.items()]

    @property
    def kernel_lines(self) -> Any:
        """Inner products by lag, for the figure."""
        from pefourier.questions.relations import kernel, kernel_curves

        enc = without_prefix(self.encoding)
        return kernel_curves(enc, kernel(enc))

    def extra_fields(self) -> Fields:
        """Return further facts of a model's config: layers, and factors of logits."""
        enc = self.encoding
        if enc.file is None or enc.file.model is None:
            return {}
        usual = enc.file.model.row.get("kind", "learned").split()[0]
        layers = [
            {
                "index": run.index,
                "kind": run.kind or usual,
                "rotation": run.part or None,
                "window": run.window,
            }
            for run in enc.file.layers
        ]
        return {"layers": layers, "softmax_factor": enc.params.get("softmax_factor", 1.0)}


@frozen
class LineFaithfulness(Faithfulness):
    """Faithfulness of an encoding of one axis."""

    distinct_up_to: int | None  # the most positions with distinct vectors
    query: int | None = None  # whose keys have these biases; None unless the query matters

    @property
    def advice(self) -> str:
        """Advice to use fewer positions, if these keep every distinct vector."""
        count, lags = self.distinct_up_to or 1, self.encoding.domain.kind == "lag"
        used = 2 * count - 1 if lags and self.encoding.domain.x[-1] > 0 else count
        if count == 1 or used != self.distinct or any(f.code in ELSEWISE for f in self.findings):
            return ""
        points = "all lags between them" if lags else f"the first {count:,}"
        return f"Use at most {count:,} positions: {points} have distinct vectors."


@frozen
class GridFaithfulness(Faithfulness):
    """Faithfulness of an encoding of a grid; `length` counts points, pairs hold row numbers."""

    on_grid = True
    advice = ""

    grid: Counts  # points along each axis, in row-major order
    prefix: int  # rows before the grid that have no place
    prefix_zeros: int  # how many such rows are zero
    displacement: Counts | None  # of the closest pair, in points
    axial: bool  # every column depends on one axis
    separable_error: float  # of the worst a(y) + b(x); 0: recovered exactly
    isotropy: dict[str, float]  # A2, A4
    idle: list[float] | None  # for each axis, the share without a full rotation
    aliased: list[float] | None  # and the share beyond pi; None if unknown

    @property
    def closest_ends(self) -> str | None:
        """The two points with the closest vectors."""
        if self.closest_pair is None or self.displacement is None:
            return None
        rows = np.array(self.closest_pair[:1], dtype=int)
        start = self.encoding.domain.coordinates(rows)[0]
        return join((point_of(start), point_of(start + self.displacement)))


def check_faithful(
    encoding: Source, progress: Callable[[str], Progress] | None = None, **params: Any
) -> LineFaithfulness | GridFaithfulness:
    """Measure how well an encoding distinguishes positions, as `pefourier check-faithful` does.

    Parameters
    ----------
    encoding, **params
        As in `pefourier.spectrum`.
    progress : callable, optional
        Maps the name of a phase to a callback ``(done, total)`` that reports progress. A phase that
        passes over the vectors again restarts at 1.

    Examples
    --------
    >>> check_faithful("dft", length=80, d=256).verdict
    'isometric'
    >>> check_faithful("dft", length=80, d=64).closest_pair
    (0, 64)
    """
    from pefourier.construction.table_rules import diagnose
    from pefourier.construction.wave_rules import without_rounding
    from pefourier.geometry.closest import closest_pair
    from pefourier.geometry.precision import check_formats, precision
    from pefourier.geometry.products import by_inner_products, toeplitz_residual
    from pefourier.geometry.singular_values import check_products, decompose

    with_prefix, query = load(encoding, **params), None
    if with_prefix.injection == "rotate" and "path" in with_prefix.params:
        from pefourier.questions.usage import with_pairing

        with_prefix = with_pairing(with_prefix)
    if not with_prefix.by_lag:
        with_prefix, query = with_prefix.hardest_query()
    enc = without_prefix(with_prefix)
    inner = by_inner_products(enc)
    check_products(inner)
    check_formats(inner)
    closest = closest_pair(inner, progress and progress("closest pair"))
    factors = decompose(inner, progress and progress("singular values"))
    identified, findings = diagnose(with_prefix, closest, factors.rank)
    factors, noted = without_rounding(factors, identified, enc.eps)
    sides = enc.domain.sides if with_prefix.domain.grid else ()
    separable_error = factors.separable_error(sides) if sides else 1.0
    rung = verdict_of_lags(enc, closest, verdict(closest, factors, separable_error))
    if any(f.code == "constant-codes" for f in findings) and (enc.table() != enc.table()[0]).any():
        rung = "constant"  # rows differ only by rounding
    kind, own = of_line_or_grid(with_prefix, closest)
    measured = inner, closest.distinct, closest.first, closest.distance
    losses = cache(partial(precision, *measured))
    if query is not None:
        own["query"] = query
        noted.append(finding("bias-of-pairs", query=query))
    if sides:
        own["separable_error"] = separable_error
    if sides and 0 < (computed := losses()["bfloat16"].distinct_phase or 0) < closest.distinct:
        noted.append(finding("bfloat16-positions", distinct=computed, points=prod(sides)))
    distance = closest.distance if closest.pair else None
    rms = float(np.sqrt((factors.sigma**2).sum() / factors.n))
    ends = with_prefix.domain.x[[with_prefix.domain.prefix + i for i in closest.pair or ()]]
    found: LineFaithfulness | GridFaithfulness = kind(
        **own,
        length=factors.n,
        dimension=factors.d,
        verdict=rung,
        faithful=closest.distinct == factors.n,
        min_distance=distance,
        closest_pair=tuple(ends.tolist()) or None,
        gap=distance and distance / rms,
        distinct=closest.distinct,
        rank=factors.rank,
        rank_tolerance=factors.tolerance,
        condition_number=factors.condition_number,
        inverse_error=later(factors.inverse_error),
        stable_rank=factors.stable_rank,
        toeplitz_residual=later(toeplitz_residual, inner),
        identified=identified,
        precision=later(losses),
        findings=findings + noted,
        encodings=(with_prefix,),
    )
    return found


def of_line_or_grid(enc: Encoding, closest: ClosestPair) -> tuple[Any, Fields]:
    """Return the type of the result, and the fields specific to one axis or a grid."""
    if not enc.domain.grid:
        return LineFaithfulness, {"distinct_up_to": distinct_up_to(enc, closest)}
    from pefourier.encodings.encoding import is_separable
    from pefourier.questions.spectral_density import axis_shares, weighted_frequencies

    domain, inner = enc.domain, without_prefix(enc)
    ends = domain.coordinates(np.array(closest.pair or (), dtype=int) + domain.prefix)
    shares = cache(lambda: axis_shares(inner, weighted_frequencies(inner)))
    front = enc.vectors(domain.x[: domain.prefix]) if domain.prefix else np.zeros((0, 1))
    return GridFaithfulness, {
        "grid": domain.sides,
        "prefix": domain.prefix,
        "prefix_zeros": int((~front.any(axis=1)).sum()),
        "displacement": tuple((ends[1] - ends[0]).tolist()) if closest.pair else None,
        "axial": is_separable(enc),
        **{key: later(lambda key=key: shares()[key]) for key in ("isotropy", "idle", "aliased")},
    }


def verdict(closest: ClosestPair, factors: Factors, separable_error: float = 1.0) -> str:
    """Return the highest rung; singular values within twice the tolerance count as equal."""
    if closest.distinct < factors.n:
        return "collides"
    if factors.rank < factors.n:
        return "separable" if separable_error <= RECOVERED else "injective"
    spread = factors.sigma[0] - factors.sigma[-1]
    return "isometric" if spread <= 2 * factors.tolerance else "invertible"


def verdict_of_lags(enc: Encoding, closest: ClosestPair, rung: str) -> str:
    """Return the verdict specific to lags if one applies, otherwise the rung."""
    if enc.domain.kind != "lag":
        return rung
    if rung != "collides":
        return DISTINCT_LAGS if enc.injection == "bias" else rung
    first, x = closest.first, enc.domain.x
    if first is None or closest.distinct == 1:
        return rung
    if not enc.domain.grid:  # a query in the middle has lags without their opposites
        first = first[np.abs(x) <= min(-x[0], x[-1])]
    return SYMMETRIC if len(first) > 1 and np.array_equal(first, first[::-1]) else rung


def rung_of(verdict: str, rank: int, length: int) -> str:
    """Return the rung of a verdict.

    >>> rung_of("distinct lags", 1, 9), rung_of("separable", 4, 9)
    ('injective', 'separable')
    """
    of_lags = {SYMMETRIC: "collides", DISTINCT_LAGS: "injective" if rank < length else "invertible"}
    return of_lags.get(verdict, verdict)


def distinct_up_to(enc: Encoding, closest: ClosestPair) -> int | None:
    """The most positions with distinct vectors, or whose lags have distinct vectors.

    Lags of k positions reach k - 1. None if all are distinct, or if points have no order.
    """
    n, x = len(enc), np.abs(enc.domain.x)
    if closest.distinct == n or enc.domain.kind not in ("position", "lag") or enc.domain.grid:
        return None
    if closest.first is None:  # a measure: the first lag with the same vector
        return closest.distinct
    order = np.lexsort((x, closest.first))
    group, x = closest.first[order], x[order] - x.min()
    starts = np.diff(group, prepend=-1) > 0
    seconds = np.flatnonzero(~starts & np.append(True, starts[:-1]))
    return int(x[seconds].min())


def formula_in_words(identified: Values) -> str:
    """Describe the formula that a table was identified as."""
    params = ", ".join(f"{k}={number(v, 7)}" for k, v in identified["params"].items())
    names = [*identified.get("conventions", ())]
    names += [f"but for {key}" for key in identified.get("changes", ())]
    names += [NOTES[k] for k in map(identified["params"].get, ("part", "times")) if k in NOTES]
    convention = f" (the convention of {', '.join(names)})" if "conventions" in identified else ""
    formula = identified.get("spec") or f"{identified['encoding']} with {params or 'no parameters'}"
    difference = number(identified["max_difference"], 2)
    return f"{formula}{convention}; largest difference {difference}"


def lost_vectors(precision: Mapping[str, FormatLoss], length: int, option: str) -> list[str]:
    """Describe the vectors lost in a format and the safe length; empty if all stay distinct.

    Vectors are computed in float64 and rounded to the format. With ``format:computed`` they are
    also computed in the format throughout, which needs declared frequencies.
    """
    dtype, _, computed = option.partition(":")
    loss = precision[dtype]
    counts, safe = [loss.distinct_cast], [loss.safe_cast]
    if computed:
        if loss.distinct_phase is None:
            return [
                f"declares no frequencies and cannot be computed in {dtype}; pass the rotation or "
                f"the config instead, or use {dtype} without :computed to round the stored "
                "vectors"
            ]
        counts, safe = [*counts, loss.distinct_phase], [*safe, loss.safe_phase]
    if min(counts) >= length:
        return []
    up_to = min((count for count in safe if count is not None), default=None)
    tail = "" if up_to is None else f"; {up_to} position{'s are' if up_to > 1 else ' is'} safe"
    how = "computed in" if computed else "rounded to"
    return [f"has {min(counts)} of {length} vectors distinct {how} {dtype}{tail}"]


def shortfalls(
    result: Faithfulness, rung: str | None = None, dtype: str | None = None, *, strict: bool = False
) -> list[str]:
    """List unmet requirements: a rung, distinct vectors in a format, or no findings above a note.

    >>> shortfalls(check_faithful("sinusoidal"), "invertible")
    ['is injective; invertible is required']
    """
    lacking = []
    reached = rung and rung_of(result.verdict, result.rank, result.length)
    if rung and LADDER.index(reached) < LADDER.index(rung):
        verb = {LADDER[0]: "", DISTINCT_LAGS: "has "}.get(result.verdict, "is ")
        lacking.append(f"{verb}{result.verdict}; {rung} is required")
    if dtype:
        lacking += lost_vectors(result.precision, result.length, dtype)
    if strict:
        lacking += [f"has {f.code}" for f in result.findings if f.severity != "note"]
    return lacking

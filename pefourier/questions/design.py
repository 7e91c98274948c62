r"""Choice of a base for a length: several criteria, often contradictory, each with its best base.

Conventions
-----------
Frequencies are :math:`\rho^{-2i/d}`, i = 0 … d/2 - 1, radians per position; a design is for
`length` positions and `d` dimensions (of a head, for rotary positions). ``sinusoidal`` and ``rope``
with the same base have equal distances, rank and kernel. One table therefore describes both.

``turns``: every pair completes a full rotation. ``wavelength``: the lowest frequency needs k
lengths for a full rotation. ``phase``: its cosine stays above a limit over the length. ``bound``:
B(m) >= 0 at every lag below the length, for this base and all tried up to ten times it
(`pefourier.questions.design`). ``distance``: the largest minimum distance between two
vectors. ``rank``, ``stable_rank``, ``condition``: of the table of vectors. The last four choose
the best candidate; an untried base may be better. If a length is too long for tables, only the
criteria with a formula are available.

Bases from a formula or a search have the fewest digits that still satisfy the criterion, and all
digits are printed.

Bases whose sum of cosines is never negative below a length.

Conventions
-----------
A base :math:`\rho` passes for `d` dimensions and a length if :math:`B(m) = \sum_i \cos m
\rho^{-2i/d} \ge 0` at every lag m below the length (Men et al., 2024). The bases that pass do not
form an interval: larger bases may fail again.

The smallest passing base with seven digits is found by steps. Above a base that fails at lag m,
B(m) stays negative up to the root of :math:`B + B' h + M h^2 / 2`. Here h is the distance and M a
bound on the second derivative, both in log base; all bases of a step are excluded. Lags are
searched in blocks. The sum over pairs that hardly rotate within a block is nearly constant there.
If that sum exceeds the number of the other pairs, no lag of the block fails. A large base passes at
any length: only its first pairs rotate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cache
from math import acos, ceil, exp, floor, inf, log, log10, pi
from operator import ge, le
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pefourier.encodings import build
from pefourier.encodings.attention_decay import FARTHEST, lag_sums, powers_of_waves
from pefourier.encodings.encoding import AXES, Encoding, Finding, finding, row_blocks
from pefourier.errors import COSTS, LARGEST, PefourierError, check_cost, check_count, shown
from pefourier.geometry import map_ahead
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.precision import FORMATS, Format, rounded
from pefourier.geometry.singular_values import decompose
from pefourier.questions.result import Result, csv_table
from pefourier.questions.rotations import base_bound, count_idle
from pefourier.types import Floats, Ints, Strings, Texts, frozen, frozen_by_name
from pefourier.writing.page import labelled_fields
from pefourier.writing.text import Verdict, agreeing, number, shortest

PER_DECADE, GRID_DIGITS = 400, 4  # grid of the bases tried above the smallest
FEWEST_DIGITS = 7  # digits of a printed base, at least
MARGIN = 10  # all bases tried up to this multiple must pass
BLOCK, BLOCKS_IN_ROW = 2**5, 2**7  # lags of a block
FIRST_BLOCKS, BLOCKS_AT_ONCE = 2**6, 2**12  # searched first, and at a time
LIKELY_DIP = 3  # standard deviations of the sum over fast pairs, used to rank blocks
LAGS_KEPT = 8  # failing lags kept to exclude larger bases


@frozen
class BoundedBases:
    """Bases that pass for a length."""

    smallest: float  # with seven digits
    steady: float  # smallest base from which all tried up to ten times it pass
    tried: int  # number of bases tried in that decade
    failing: float | None  # smallest base tried between the two that fails


@cache
def bounded_bases(d: int, length: int) -> BoundedBases:
    """Find the smallest base that passes, and the smallest from which a whole decade passes.

    >>> bounded_bases(128, 1024).steady
    6026.0
    """
    smallest = base = smallest_bounded_base(d, length)
    passing: list[float] = []
    failing: float | None = None
    while not passing or passing[-1] < MARGIN * passing[0]:
        if len(negative_lags(base ** exponents_of(d), length)):
            passing, failing = [], failing or base
        else:
            passing.append(base)
        base = next_base(base)
    return BoundedBases(smallest, passing[0], len(passing), failing)


def next_base(base: float) -> float:
    """Return the next larger base of the geometric grid.

    >>> next_base(1000.0), next_base(1006.0)
    (1006.0, 1012.0)
    """
    index = int(np.log10(base) * PER_DECADE)
    grid = (float(f"{10 ** ((index + i) / PER_DECADE):.{GRID_DIGITS}g}") for i in range(4))
    return next(point for point in grid if point > base)


def smallest_bounded_base(d: int, length: int) -> float:
    """Smallest base with seven digits that passes.

    >>> smallest_bounded_base(128, 1024), smallest_bounded_base(6, 80)
    (4293.438, 105031.3)
    """
    base, lags, exponents = 1.0, np.empty(0), -exponents_of(d)
    while True:
        digit = 10.0 ** (floor(log10(base)) - FEWEST_DIGITS + 1)
        base = float(f"{(floor(base / digit) + 1) * digit:.{FEWEST_DIGITS}g}")
        frequencies = base**-exponents
        lags = lags[np.cos(np.multiply.outer(lags, frequencies)).sum(axis=1) < 0]
        if not len(lags):
            lags = negative_lags(frequencies, length)
        if not len(lags):
            return base
        angles = np.multiply.outer(lags, frequencies)
        sums, slopes = np.cos(angles).sum(axis=1), (np.sin(angles) * angles) @ exponents
        bends = (angles + angles**2) @ exponents**2  # they fall as the base grows
        steps = (np.sqrt(slopes**2 - 2 * bends * sums) - slopes) / bends
        base *= exp(steps.max())


def exponents_of(d: int) -> Floats:
    """Exponents of the base in its frequencies."""
    return -2.0 * np.arange(d // 2) / d


def negative_lags(frequencies: Floats, length: int) -> Floats:
    """Some lags below a length with a negative sum of cosines; empty if no lag has one.

    The frequencies descend. The search covers blocks of lags in which the sum may be negative.
    Blocks where it is probably negative over a wide range of bases come first.
    """
    pairs, count = len(frequencies), -(-length // BLOCK)
    rows = -(-count // BLOCKS_IN_ROW)
    steps = np.multiply.outer([1, BLOCK, BLOCK * BLOCKS_IN_ROW], frequencies)
    waves = powers_of_waves(max(BLOCKS_IN_ROW, rows), steps.ravel()).reshape(-1, 3, pairs)
    within, between_blocks, row_starts = waves[:BLOCK, 0], waves[:BLOCKS_IN_ROW, 1], waves[:rows, 2]
    fast = int((frequencies * BLOCK > 1).sum())
    middles = columns_of((row_starts * within[BLOCK // 2])[:, fast:].conj())
    slow_sums = (middles @ columns_of(between_blocks[:, fast:]).T).ravel()[:count]
    slack = pairs * (pairs + 8) * 2.0**-22  # exceeds the sum of all rounding errors in float32
    most = fast + BLOCK / 2 * frequencies[fast:].sum() + 2 * slack
    blocks = np.flatnonzero(slow_sums < most)
    score = (slow_sums[blocks] - LIKELY_DIP * np.sqrt(fast)) / (blocks + 1)
    if len(blocks) > FIRST_BLOCKS:
        blocks = blocks[np.argpartition(score, FIRST_BLOCKS)]
    inner = columns_of(within).T
    for part in (slice(FIRST_BLOCKS), *row_blocks(len(blocks), BLOCKS_AT_ONCE)):
        row, column = np.divmod(blocks[part], BLOCKS_IN_ROW)
        sums = columns_of((row_starts[row] * between_blocks[column]).conj()) @ inner
        block, step = np.nonzero(sums < slack)
        lags = blocks[part][block] * BLOCK + step
        sums, lags = sums[block, step][lags < length], lags[lags < length]
        certain = sums < -slack
        if certain.sum() > LAGS_KEPT:
            widest = np.argpartition((sums / (lags + 1))[certain], LAGS_KEPT)[:LAGS_KEPT]
            lags = lags[certain][widest]
        exact = np.cos(np.multiply.outer(lags.astype(float), frequencies)).sum(axis=1)
        if exact.min(initial=0.0) < 0:
            return np.asarray(lags[exact < 0], dtype=float)
    return np.empty(0)


def columns_of(waves: NDArray[np.complex128]) -> NDArray[np.float32]:
    """Real and imaginary parts of complex exponentials in adjacent blocks, in float32."""
    return np.concatenate([waves.real, waves.imag], axis=1).astype(np.float32)


BASES = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 5e5, 1e6, 1e8)
CRITERIA = ("turns", "distance", "rank", "stable_rank", "condition", "bound")
BY_FORMULA = ("turns", "wavelength", "phase")  # criteria that need no table and no search
BY_TABLE: dict[
    str, Callable[[Candidate], tuple[Any, ...]]
] = {  # value that the best base maximizes; later numbers break ties
    "distance": lambda c: (c.min_distance,),
    "rank": lambda c: (c.rank, c.stable_rank),
    "stable_rank": lambda c: (c.stable_rank,),
    "condition": lambda c: (-(c.condition_number or np.inf),),
}
MOST_NEIGHBOURS = 3  # of the best candidates, in the short answer
PUBLISHED_D = 128  # dimensions of the published minima for the bound, arXiv 2405.14591, Table 2
PUBLISHED = dict(
    zip(
        (1024 * 2**n for n in range(11)),
        "4.3e3 1.6e4 2.7e4 8.4e4 3.1e5 6.4e5 2.1e6 7.8e6 3.6e7 6.4e7 5.1e8".split(),
        strict=True,
    )
)
SECONDS = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
SECONDS |= {"d": 86400.0, "w": 7 * 86400.0, "y": 365.25 * 86400.0}
DURATION = re.compile(rf"(\d*\.?\d+(?:e[+-]?\d+)?)\s*({'|'.join(SECONDS)})")
MOST_DIGITS = 17  # of any float64 number


@frozen_by_name
class Candidate:
    """A base and its properties; distances are l2 between vectors of unit cosines and sines.

    Properties that need the table of vectors are None if that takes too long.
    """

    rho: float
    spec: str
    min_distance: float | None = None
    min_distance_cast: float | None = None  # after rounding the vectors to --dtype
    rank: int | None = None
    stable_rank: float | None = None
    condition_number: float | None = None  # also None if the rank is deficient
    idle: int  # pairs that never complete a full rotation within the length
    bound: int | None  # first lag m with B(m) < 0
    best_by: str = field(default="", metadata={"told": False})  # criteria for which it is best

    @property
    def base(self) -> str:
        """The base with enough digits to reproduce it exactly."""
        return base_text(self.rho)


@frozen
class Design(Result):
    """Candidate bases, and the best base for each criterion."""

    command = "design"
    figure = "criteria"
    verdicts = {
        "no base needed": Verdict(
            "The dft encoding keeps {r.length:,} positions at equal distances; no base above 1 "
            "achieves this.",
            "Use dft. If you need a base: {r.bases_in_words}.",
        ),
        "criteria disagree": Verdict(
            "For {r.length:,} positions and d = {r.d}, the criteria need different bases. "
            "{r.bases_in_words}.",
            "Choose one: --for bound suits long text, --for turns suits series and images.",
        ),
        "base found": Verdict(
            "Best base for {r.length:,} positions and d = {r.d}, by criterion: {r.bases_in_words}.",
        ),
        "no base serves": Verdict(
            "For {r.length:,} positions and d = {r.d}, no base was found. {r.bases_in_words}.",
            title="no base works",
        ),
    }
    shown = {
        "axis": "axis",
        "positions": "length",
        "dimensions": "d",
    }
    listed = {
        "candidates": {
            "base": "base",
            "smallest distance": "min_distance",
            "smallest distance, rounded": "min_distance_cast",
            "rank": "rank",
            "stable rank": "stable_rank",
            "condition number": "condition_number",
            "pairs without a full rotation": "idle",
            "first negative lag": "bound",
            "best by": "best_by",
        }
    }
    short = {
        "nearest_rows": {
            "base": "base",
            "best by": "best_by",
            "smallest distance": "min_distance",
            "rank": "rank",
            "condition number": "condition_number",
            "first negative lag": "bound",
        }
    }

    length: int
    d: int
    criteria: Texts
    candidates: tuple[Candidate, ...]  # by ascending base
    best: dict[str, float | None]  # None if no base is suitable
    dft_serves: bool  # 2 < length <= d, no grid: the DFT lattice is better than any base
    dtype: str | None = None  # the format to which vectors were rounded
    axis: str = ""  # of a grid: t, y or x; otherwise empty

    @property
    def verdict(self) -> str:
        """Whether a base is needed, and whether the criteria agree."""
        if self.dft_serves:
            return "no base needed"
        bases = set(self.best.values())
        if bases <= {None}:
            return "no base serves"
        return "criteria disagree" if len(bases) > 1 else "base found"

    @property
    def bases_in_words(self) -> str:
        """Each criterion with its base, and the number of bases tried where relevant."""
        return "; ".join(f"{name}: {self.base_in_words(name)}" for name in self.criteria)

    def base_in_words(self, criterion: str) -> str:
        """Describe the base of a criterion, or why there is no base."""
        rho, tried = self.best[criterion], len(self.candidates)
        if criterion == "bound" and rho:
            published = PUBLISHED.get(self.length) if self.d == PUBLISHED_D else None
            stated = f"; published minimum: {published} (Men et al., 2024)" if published else ""
            smallest = base_text(bounded_bases(self.d, self.length).smallest)
            return f"{base_text(rho)} (smallest that passes: {smallest}{stated})"
        if criterion not in BY_TABLE:
            return "none above 1" if rho is None else base_text(rho)
        if rho is None:
            return f"none of the {tried} tried has full rank"
        values = [BY_TABLE[criterion](c)[0] for c in self.candidates]
        ties = values.count(max(values)) - 1
        tied = f"; {ties} {agreeing(ties, 'other ties', 'others tie')}" if ties else ""
        return f"{base_text(rho)} (best of {tried} tried{tied})"

    @property
    def nearest_rows(self) -> list[Candidate]:
        """The best candidates, and at most three others with the nearest bases."""
        best = [c for c in self.candidates if c.best_by]
        others = [c for c in self.candidates if not c.best_by]
        near = sorted(others, key=lambda c: min((abs(log(c.rho / b.rho)) for b in best), default=0))
        return sorted([*best, *near[:MOST_NEIGHBOURS]], key=lambda c: c.rho)

    def series(self) -> tuple[list[str], list[list[Any]]]:
        """Column names for CSV, and one row for each candidate."""
        names = [*labelled_fields(Candidate), "best_by"]
        return csv_table(self.candidates, names)

    @property
    def findings(self) -> list[Finding]:
        """Report the bases tried for `bound`, and whether one above the smallest fails."""
        if "bound" not in self.best:
            return []
        bases = bounded_bases(self.d, self.length)
        names = ("steady", "smallest", "failing")
        slots = {name: base_text(rho) for name in names if (rho := getattr(bases, name))}
        variant = "some" if bases.failing else "all"
        return [finding("larger-bases", variant, count=bases.tried, **slots)]


def base_text(rho: float) -> str:
    """Format a base with enough digits to reproduce it exactly.

    >>> base_text(5e5), base_text(18.312785), base_text(23662441.946677245)
    ('5e+05', '18.312785', '23662441.946677245')
    """
    texts = (number(float(rho), digits) for digits in range(4, MOST_DIGITS))
    return next((text for text in texts if float(text) == rho), repr(float(rho)))


def count_steps(span: str, resolution: str) -> int:
    """Number of steps of a resolution in a span, both with a unit or both without.

    >>> count_steps("1h", "250ms"), count_steps("100", "0.5")
    (14400, 200)
    """
    parts = [DURATION.fullmatch(text) for text in (span, resolution)]
    sizes = [float(part[1]) * SECONDS[part[2]] for part in parts if part]
    is_uniform = len({bool(part[2]) for part in parts if part}) == 1
    count = sizes[0] / sizes[1] if len(sizes) == 2 and is_uniform and sizes[1] else 0.0
    if not 2 <= count <= LARGEST:
        raise PefourierError(
            f"span and resolution must be positive numbers such as 1h and 250ms, both with a unit "
            f"({', '.join(filter(None, SECONDS))}) or both without, and give 2 to {LARGEST} steps; "
            f"got {shown(span)} and {shown(resolution)}"
        )
    return ceil(count * (1 - 1e-12))


def base_of_angle(d: int, length: int, angle: float) -> float:
    r"""Base whose lowest frequency covers an angle over a length: :math:`(L/\alpha)^{d/(d-2)}`.

    With a full rotation, it is the largest base with which every pair completes a rotation in the
    length. With :math:`\arccos e^{1/N}`, it is the smallest base with which the cosine of the
    lowest frequency stays at least e over the length, even after N layers that multiply it (arXiv
    2602.10959, where the lowest frequency is 1/base).

    >>> round(base_of_angle(256, 80, 2 * pi), 3), round(base_of_angle(16, 131072, acos(0.9)))
    (12.99, 1752993)
    """
    return float((length / angle) ** (d / (d - 2)))


def design_base(
    length: int,
    d: int,
    bases: Sequence[float] = BASES,
    criteria: Strings | None = None,
    dtype: str | None = None,
    axis: str = "",
) -> Design:
    """Compare candidate bases for a length and a dimension, and choose one for each criterion.

    Parameters
    ----------
    length, d : int
        Number of positions, and dimension of a vector (of a head).
    bases : sequence of float
        Bases to try in addition to those that the criteria give.
    criteria : sequence of str
        Names from `CRITERIA`; ``wavelength=K``: the lowest frequency needs K lengths for a full
        rotation; ``phase=E`` or ``phase=E:N``, see `base_of_angle`. The default is `CRITERIA`, or
        ``turns`` if the length is too long for tables.
    dtype : str, optional
        A format of `pefourier.geometry.precision.FORMATS` to which vectors are rounded.
    axis : str, optional
        The axis of a grid (t, y or x) if the length is one of its sides.

    Examples
    --------
    >>> best = design_base(80, 256).best
    >>> round(best["turns"], 2), best["stable_rank"]
    (12.99, 3.0)
    """
    check_count("length", length, minimum=2)
    if d % 2:
        raise PefourierError(f"d must be even, because a base needs pairs of dimensions; got d={d}")
    is_long = is_too_long(length, d, bases, criteria or (), dtype)
    if criteria is None:
        criteria = BY_FORMULA[:1] if is_long else CRITERIA
    exact = {name: exact_base(name, length, d) for name in criteria if name not in BY_TABLE}
    tried = sorted({*bases, *filter(None, exact.values())})
    form, rows = FORMATS[dtype] if dtype else None, 2 if is_long else length
    ropes = (
        replace(build("rope", length=rows, d=d, rho=rho), spec=f"rope:rho={base_text(rho)},d={d}")
        for rho in tried
    )
    candidates = list(map_ahead(lambda enc: candidate(enc, length, form), ropes))
    best = {name: exact[name] if name in exact else best_of(name, candidates) for name in criteria}
    params = {"length": length, "d": d, "for": tuple(criteria), "bases": tuple(bases)}
    params |= {"dtype": dtype, **({"axis": axis} if axis else {})}
    spec = f"rope on axis {axis}" if axis else "rope"
    return Design(
        length=length,
        d=d,
        criteria=tuple(criteria),
        candidates=tuple(
            replace(c, best_by=" ".join(name for name, rho in best.items() if rho == c.rho))
            for c in candidates
        ),
        best=best,
        dft_serves=2 < length <= d and not axis,
        dtype=dtype,
        axis=axis,
        encodings=(replace(build("rope", length=2, d=d), spec=spec, params=params),),
    )


def is_too_long(
    length: int, d: int, bases: Sequence[float], criteria: Strings, dtype: str | None
) -> bool:
    """Whether a length is too long for tables; raise an error if a criterion needs them."""
    cosines, largest = (len(bases) + len(CRITERIA)) * d // 2, COSTS["cosines of candidates"][1]
    description = f"a design for length {length}, d {d}"
    check_cost(description, "cosines of candidates", cosines * min(length, FARTHEST))
    if cosines * length <= largest:
        return False
    tabular = [f"--for {name}" for name in criteria if name.partition("=")[0] not in BY_FORMULA]
    if dtype or tabular:
        raise PefourierError(
            f"{[*tabular, f'--dtype {dtype}'][0]} needs {length} vectors of {d} numbers for each "
            f"base, and the limit is {largest:.2g} cosines in total; at this length use turns, "
            "wavelength=K or phase=E, which have formulas"
        )
    return True


def best_of(criterion: str, candidates: Sequence[Candidate]) -> float | None:
    """Base of the best candidate for a criterion on the table; None if no base is suitable."""
    best = max(candidates, key=BY_TABLE[criterion])
    lacking = criterion == "condition" and best.condition_number is None
    return None if lacking else best.rho


def design_grid(sides: Ints, d: int, **options: Any) -> tuple[Design, ...]:
    """Design a base for each axis of a grid in row-major order, with options of `design_base`.

    Every axis gets an equal share of the pairs, and the first axis also the remainder, as in Wan.
    Separate columns encode each axis, so each axis has a separate base. The DFT lattice is not an
    option here: concatenated over axes, its vectors are no longer equally far apart.

    >>> [(axis.axis, axis.length, axis.d) for axis in design_grid((8, 30, 52), 128)]
    [('t', 8, 44), ('y', 30, 42), ('x', 52, 42)]
    """
    if not 2 <= len(sides) <= len(AXES):
        raise PefourierError(f"a grid has two or three sides; got {len(sides)}")
    width = d // (2 * len(sides)) * 2
    widths = [d - width * (len(sides) - 1), *[width] * (len(sides) - 1)]
    return tuple(
        design_base(side, wide, axis=axis, **options)
        for side, wide, axis in zip(sides, widths, AXES[-len(sides) :], strict=True)
    )


def exact_base(criterion: str, length: int, d: int) -> float | None:
    """Return the base of a criterion that has a formula or a search."""
    if d < 4:
        raise PefourierError(f"d must be at least 4 (two pairs); got d={d}")
    name, _, value = {"turns": "wavelength=1"}.get(criterion, criterion).partition("=")
    cosine, _, layers = value.partition(":")
    try:
        if criterion == "bound":
            return bounded_bases(d, length).steady
        if name == "wavelength" and 0 < float(value) < inf:
            return typed_above_1(base_of_angle(d, length, 2 * pi / float(value)), le)
        if name == "phase" and 0 <= float(cosine) < 1 and int(layers or 1) > 0:
            angle = acos(float(cosine) ** (1 / int(layers or 1)))
            return typed_above_1(base_of_angle(d, length, angle), ge)
    except ValueError:
        pass
    raise PefourierError(
        f"unknown criterion {shown(criterion)}: use {', '.join(CRITERIA)}, wavelength=K with K > 0 "
        "lengths, or phase=E:N with a cosine E from 0 to below 1 and N layers; for an extension "
        "use turns, bound, wavelength=K or phase=E"
    )


def typed_above_1(base: float, side: Callable[[float, float], bool]) -> float | None:
    """Round a base to few digits on one side; None if the result is not above 1."""
    rounded = shortest(lambda typed: side(typed, base), base, FEWEST_DIGITS)
    return rounded if rounded > 1 else None


def candidate(enc: Encoding, length: int, form: Format | None) -> Candidate:
    """Measure one rotation within a length, by its table if it has that many rows."""
    frequencies = enc.measure.frequencies
    by_formula = Candidate(
        rho=enc.params["rho"],
        spec=enc.spec,
        idle=count_idle(frequencies[frequencies != 0], length),
        bound=base_bound(frequencies, unrotated=enc.params["d"] // 2 - len(frequencies)),
    )
    if len(enc) != length:
        return by_formula
    nearest, factors = closest_pair(enc), decompose(enc)
    return replace(
        by_formula,
        min_distance=nearest.distance,
        min_distance_cast=cast_distance(enc, nearest.distance, form) if form else None,
        rank=factors.rank,
        stable_rank=factors.stable_rank,
        condition_number=factors.condition_number,
    )


def cast_distance(enc: Encoding, distance: float, form: Format) -> float:
    """Smallest distance between two vectors after rounding to a format.

    Rounding changes a number by at most a fraction 2^-digits, so a vector of length c moves by at
    most r = 2^-digits c. Only lags whose distance is below the smallest plus 4 r can contain the
    nearest pair. All pairs of positions at these lags are compared.
    """
    measure, pairs = enc.measure, len(enc.measure)
    length = np.sqrt(measure.squared_length)
    rounding = length * 2.0**-form.digits + np.sqrt(enc.dim) * 2.0 ** (form.lowest - form.digits)
    least_sum = pairs * (1 - ((distance + 4 * rounding) / length) ** 2 / 2)
    lags = np.concatenate(
        [
            first + np.flatnonzero(sums >= least_sum)
            for first, sums in lag_sums(measure.frequencies, len(enc))
        ]
    )
    vectors = rounded(enc.table(), form)
    differences = (vectors[lag:] - vectors[: len(vectors) - lag] for lag in lags[lags > 0])
    return float(np.sqrt(min(np.einsum("ij,ij->i", d, d).min() for d in differences)))

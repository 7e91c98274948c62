r"""Which base for this length? Criteria that contradict one another, each with its best base.

Conventions
-----------
Frequencies are :math:`\rho^{-2i/d}`, i = 0 … d/2 - 1, radians per position; a design is for
`length` positions and `d` dimensions (of a head, for rotary positions). ``sinusoidal`` and ``rope``
of one base have the same distances, rank and kernel, so that one table serves both.

turns: every pair completes a turn. wavelength: the slowest needs k lengths for one. phase: the
slowest keeps a cosine over the length. bound: the smallest base with B(m) >= 0 at every lag below
the length (`pefourier.questions.context.base_bound`). distance: the smallest between two codes is
largest. rank, stable_rank, condition: of the table of codes; by these four a base is the best of
the candidates, and one between them may be better. Of lengths for which tables take too long the
criteria with a formula are answered alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, isfinite, pi
from typing import Any, ClassVar

import numpy as np

from pefourier.encodings import build
from pefourier.encodings.checks import COSTS, LARGEST, check_cost, check_count
from pefourier.encodings.encoding import Encoding, Finding, row_blocks
from pefourier.encodings.findings import finding
from pefourier.encodings.readings import FARTHEST, lag_sums
from pefourier.errors import PefourierError, shown
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.precision import FORMATS, Format, rounded
from pefourier.geometry.singular_values import decompose
from pefourier.geometry.threads import map_ahead
from pefourier.questions.rotations import base_bound, count_idle
from pefourier.result import Result
from pefourier.writing.page import fields_told
from pefourier.writing.text import join, number

BASES = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 5e5, 1e6, 1e8)
CRITERIA = ("turns", "distance", "rank", "stable_rank", "condition", "bound")
BY_FORMULA = ("turns", "wavelength", "phase")  # criteria that need no table of codes and no search
ROWS = 15  # candidates of the table on the screen; of an axis of a grid a third
FIRST_BASE = 1000  # lengths: where the search for the smallest base with a bound begins
DIGITS = 5  # of that base
BASES_AT_ONCE = 2**9
LATEST, BESIDE = 8, 2**-13  # bases that failed last; lags beside theirs, as a share of the length
SERVING, LARGER = 11, 1.005  # bases in a row that serve, and the ratio of two of them
AXES = "tyx"  # frames, rows, columns
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
SECONDS |= {"w": 7 * 86400.0, "y": 365.25 * 86400.0}
ROUNDING = 1e-12  # by which a base is smaller than that of a whole turn


@dataclass(frozen=True)
class Candidate:
    """A base and what it does; distances are l2 between codes with cosines and sines of size 1.

    What needs the table of codes is None where that takes too long.
    """

    rho: float
    spec: str
    min_distance: float | None
    min_distance_cast: float | None  # after rounding the codes to the format asked for
    rank: int | None
    stable_rank: float | None
    condition_number: float | None  # None where the rank is deficient, too
    idle: int  # pairs that never complete a turn within the length
    bound: int | None  # first lag m with B(m) < 0


@dataclass(frozen=True)
class CandidateRow:
    """A candidate in the table, with the criteria by which it is the best."""

    candidate: Candidate
    best_by: str

    @property
    def base(self) -> str:
        """Its base in as many digits as it takes to type it back."""
        return number(self.candidate.rho, 7)


@dataclass(frozen=True)
class GridSpec:
    """The rotation of a whole grid by one criterion, or one way of extending it."""

    by: str
    spec: str


@dataclass(frozen=True, repr=False)
class Design(Result):
    """Candidates, and the best base by each criterion."""

    shown: ClassVar[dict[str, str]] = {
        "axis": "axis_shown",
        "positions": "length",
        "dimensions": "d",
    }

    length: int
    d: int
    criteria: tuple[str, ...]
    candidates: tuple[Candidate, ...]  # by ascending base
    best: dict[str, float | None]  # None where no base serves
    serving: tuple[float, float] | None  # from the base of bound on: all tried between them serve
    dft_serves: bool  # length <= d, no grid: the lattice of the DFT is better than any base
    dtype: str | None = None  # the format to which codes were rounded
    axis: str = ""  # of a grid: t, y or x
    whole_grid: tuple[GridSpec, ...] = ()  # on the first axis of a grid

    @property
    def verdict(self) -> str:
        """Whether a base is needed, and whether criteria ask for the same."""
        if self.dft_serves:
            return "no base needed"
        bases = set(self.best.values())
        if bases <= {None}:
            return "no base serves"
        return "criteria disagree" if len(bases) > 1 else "base found"

    @property
    def axis_shown(self) -> str | None:
        """The axis of a grid; None without one."""
        return self.axis or None

    @property
    def criteria_in_words(self) -> str:
        """The criteria that were asked for."""
        return join([name.replace("_", " ") for name in self.best])

    @property
    def bases_in_words(self) -> str:
        """Each criterion with its base, in as many digits as it takes to type it back."""
        return join(
            [
                f"{name.replace('_', ' ')} {number(rho, 7, missing='none')}"
                for name, rho in self.best.items()
            ]
        )

    @property
    def rows(self) -> list[CandidateRow]:
        """Candidates of the table: those that are best by a criterion, and then others."""
        best = set(self.best.values())
        chosen = sorted(self.candidates, key=lambda c: c.rho not in best)[
            : ROWS // 3 if self.axis else ROWS
        ]
        return [
            CandidateRow(c, ", ".join(self.criteria_of(c)))
            for c in sorted(chosen, key=lambda c: c.rho)
        ]

    def criteria_of(self, candidate: Candidate) -> list[str]:
        """The criteria by which a candidate is the best."""
        return [name for name, rho in self.best.items() if rho == candidate.rho]

    @property
    def listed(self) -> dict[str, dict[str, str]]:
        """The columns of its tables; those of a format where one was asked for."""
        rounding = {"after rounding": "candidate.min_distance_cast"} if self.dtype else {}
        return {
            "rows": {
                "base": "base",
                "smallest distance": "candidate.min_distance",
                **rounding,
                "rank": "candidate.rank",
                "stable rank": "candidate.stable_rank",
                "condition number": "candidate.condition_number",
                "never turn": "candidate.idle",
                "sum < 0 from lag": "candidate.bound",
                "best by": "best_by",
            },
            "whole_grid": {"by": "by", "whole grid": "spec"},
        }

    def series(self) -> tuple[list[str], list[list[Any]]]:
        """Names of the columns of CSV, and a row for each candidate."""
        names = list(fields_told(Candidate))
        rows = [
            [*(getattr(c, n) for n in names), " ".join(self.criteria_of(c))]
            for c in self.candidates
        ]
        columns = ["candidate" if name == "spec" else name for name in names]
        return [*columns, "best_by"], rows

    @property
    def findings(self) -> list[Finding]:
        """Which larger bases serve as well, of those that were tried."""
        smallest = self.best.get("bound")
        if smallest is None:
            return []
        if self.serving is None:
            return [finding("larger-bases", "fail", base=number(smallest, 7))]
        first, last = (number(rho, 7) for rho in self.serving)
        return [finding("larger-bases", "serve", count=SERVING, first=first, last=last)]


def count_steps(span: str, resolution: str) -> int:
    """How many steps of a resolution cover a span, both with a unit or both without.

    >>> count_steps("1h", "250ms"), count_steps("100", "0.5")
    (14400, 200)
    """
    (length, unit), (step, step_unit) = measured("span", span), measured("resolution", resolution)
    if bool(unit) != bool(step_unit):
        raise PefourierError(
            f"a span and a resolution both have a unit or neither; got span {span} and "
            f"resolution {resolution}"
        )
    count = length * SECONDS.get(unit, 1.0) / (step * SECONDS.get(step_unit, 1.0))
    if not 2 <= count <= LARGEST:
        raise PefourierError(
            f"a span has from 2 to {LARGEST} steps of its resolution; {span} has {count:.4g} of "
            f"{resolution}"
        )
    return ceil(count * (1 - 1e-12))


def measured(name: str, text: str) -> tuple[float, str]:
    """The number and the unit of a text such as 1h or 0.5.

    >>> measured("span", "90min")
    (90.0, 'min')
    """
    match = re.fullmatch(rf"\s*([0-9.eE+-]+?)\s*({'|'.join(SECONDS)}|)\s*", text)
    try:
        value = float(match[1]) if match else 0.0
    except ValueError:
        value = 0.0
    if not (isfinite(value) and value > 0):
        raise PefourierError(
            f"{name} must be a number above 0, alone or with one of {', '.join(SECONDS)}, such as "
            f"1h; got {shown(text)}"
        )
    return value, match[2]


def base_of_turns(d: int, length: int, lengths: float = 1.0) -> float:
    r"""The base whose slowest pair needs so many lengths for a turn: :math:`(kL/2\pi)^{d/(d-2)}`.

    With k = 1 it is the largest base with which every pair completes a turn within the length.

    >>> round(base_of_turns(256, 80), 3), round(base_of_turns(128, 4096), 2)
    (12.99, 722.52)
    """
    return base_of_slowest(d, lengths * length / (2 * pi)) * (1 - ROUNDING)


def base_of_slowest(d: int, steps: float) -> float:
    """The base whose slowest pair takes so many positions for a radian."""
    if d < 4:
        raise PefourierError(f"a base is chosen for d of at least 4, two pairs; got d={d}")
    return float(steps ** (d / (d - 2)))


def base_of_phase(d: int, length: int, similarity: float, layers: int = 1) -> float:
    r"""The least base by the bound on phases: :math:`(L / \arccos e^{1/N})^{d/(d-2)}`.

    With it the cosine of the slowest pair stays at least e over the length, after N layers, which
    multiply it, as well (arXiv 2602.10959, whose slowest wave is 1/base). e = 0 asks that it never
    turns negative.

    >>> round(base_of_phase(16, 131072, 0.9))
    1752993
    """
    if not (0 <= similarity < 1 and layers >= 1):
        raise PefourierError(
            "phase=E or phase=E:N takes a cosine E from 0 to below 1 and N layers, 1 or more; got "
            f"{similarity:g} and {layers}"
        )
    return base_of_slowest(d, length / float(np.arccos(similarity ** (1 / layers))))


def smallest_bounded_base(d: int, length: int, digits: int = DIGITS) -> float | None:
    r"""The smallest base with :math:`B(m) \ge 0` for all lags m below a length, to some digits.

    Su's search: of [0, 1000 L] cut into 10^k points, k = 1 … digits, the smallest that serves is
    the end of the next interval. The first negative lag is no monotone function of the base: larger
    bases may fail again. None where none of 10^4 points serves.

    >>> round(smallest_bounded_base(128, 1024))
    4293
    """
    end, smallest = float(FIRST_BASE * length), None
    failed: list[tuple[float, int]] = []
    for step in range(1, digits + 1):
        if step == DIGITS and smallest is None:
            break
        points = end * np.arange(1, 10**step + 1) / 10**step
        smallest = find_first_base(points[points > 1], d, length, failed)
        end = smallest or end
    return smallest


@cache
def serving_bases(base: float, d: int, length: int) -> tuple[float, float] | None:
    """Ends of the first run of bases that all serve, from one on: 5 % in steps of 0.5 %.

    Looked for up to some four times the base; None where there is no such run.

    >>> [f"{rho:.4g}" for rho in serving_bases(26952.57, 128, 4096)]
    ['4.712e+04', '4.953e+04']
    """
    failed: list[tuple[float, int]] = []
    run: list[float] = []
    for rho in base * LARGER ** np.arange(280):
        serves = find_first_base(np.array([rho]), d, length, failed) is not None
        run = [*run, float(rho)] if serves else []
        if len(run) == SERVING:
            return run[0], run[-1]
    return None


def find_first_base(
    bases: np.ndarray, d: int, length: int, failed: list[tuple[float, int]]
) -> float | None:
    """The first of ascending bases that serves.

    `failed` holds bases that were seen to fail, each with a lag where its sum is negative, and
    grows. Neighbours fail at the same lags, so that most bases are rejected by looking at one or
    two of them; all lags are looked at only where none of these rejects a base, some hundred times.
    """
    exponents = -2.0 * np.arange(d // 2) / d
    for part in row_blocks(len(bases), BASES_AT_ONCE):
        remaining = bases[part]
        for neighbour in (-1, 0, -2, 1):
            if len(failed) and len(remaining):
                pairs = np.array(sorted(failed))
                index = np.searchsorted(pairs[:, 0], remaining) + neighbour
                lags = pairs[np.clip(index, 0, len(pairs) - 1), 1]
                remaining = remaining[cosine_sums_at(lags, remaining, exponents) >= 0]
        while len(remaining):
            lag = lag_of_failure(remaining[0] ** exponents, failed, length)
            lag = lag or worst_lag(remaining[0] ** exponents, length)
            if lag is None:
                return float(remaining[0])
            failed.append((float(remaining[0]), lag))
            serves = cosine_sums_at(np.full(len(remaining), lag), remaining, exponents) >= 0
            serves[0] = False  # whatever rounding says: it was seen to fail
            remaining = remaining[serves]
    return None


def cosine_sums_at(lags: np.ndarray, bases: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """The sum of cosines of each base at a lag of its own."""
    return np.cos(lags[:, None] * bases[:, None] ** exponents).sum(axis=-1)


def lag_of_failure(
    frequencies: np.ndarray, failed: list[tuple[float, int]], length: int
) -> int | None:
    """A lag below a length at which other bases fail, or one beside the last, with a negative sum.

    Of either kind the one of the least sum of cosines.
    """
    lags_before = np.array([lag for _, lag in failed], dtype=int)
    reach = int(BESIDE * length)
    neighbours = np.add.outer(lags_before[-LATEST:], np.arange(-reach, reach + 1)).ravel()
    for lags in map(np.unique, (lags_before, neighbours[(neighbours > 0) & (neighbours < length)])):
        sums = np.cos(np.multiply.outer(lags.astype(float), frequencies)).sum(axis=1)
        if sums.min(initial=0.0) < 0:
            return int(lags[sums.argmin()])
    return None


def worst_lag(frequencies: np.ndarray, length: int) -> int | None:
    """The lag of the least sum of cosines below a length, where that is negative."""
    smallest, worst = 0.0, None
    for first, sums in lag_sums(frequencies, length):
        lowest = int(sums.argmin())
        if sums[lowest] < smallest:
            smallest, worst = sums[lowest], first + lowest
    return worst


def design_base(
    length: int,
    d: int,
    bases: Sequence[float] = BASES,
    criteria: Sequence[str] | None = None,
    dtype: str | None = None,
) -> Design:
    """Candidates for a length and a dimension, and the best base by each criterion.

    Parameters
    ----------
    length, d : int
        Positions, and dimensions of a code (of a head).
    bases : sequence of float
        Tried beside those that the criteria themselves give.
    criteria : sequence of str
        Of `CRITERIA`, or ``wavelength=K``: the slowest pair needs K lengths for a turn; or
        ``phase=E`` and ``phase=E:N``, see `base_of_phase`. By default all of `CRITERIA`, or of a
        length too long for tables ``turns``.
    dtype : str, optional
        A format of `pefourier.geometry.precision.FORMATS` to which codes are rounded.

    Examples
    --------
    >>> best = design_base(80, 256).best
    >>> round(best["turns"], 2), best["stable_rank"]
    (12.99, 3.0)
    """
    check_count("length", length, minimum=2)
    if d % 2:
        raise PefourierError(f"a base is chosen for pairs of dimensions: an even d; got d={d}")
    cosines = (len(bases) + len(CRITERIA)) * d // 2
    description = f"a design for length {length}, d {d}"
    check_cost(description, "cosines of candidates", cosines * min(length, FARTHEST))
    is_long = cosines * length > COSTS["cosines of candidates"][1]
    if is_long:
        check_formulas(length, d, criteria or (), dtype)
    if criteria is None:
        criteria = BY_FORMULA[:1] if is_long else CRITERIA
    exact = {name: exact_base(name, length, d) for name in criteria if name not in TABLE_CRITERIA}
    tried = sorted({*bases, *(rho for rho in exact.values() if rho is not None and rho > 1)})
    if is_long:
        candidates = tuple(formula_candidate(rho, length, d) for rho in tried)
    else:
        candidates = table_candidates(tried, length, d, FORMATS[dtype] if dtype else None)
    best = {name: exact[name] if name in exact else best_of(name, candidates) for name in criteria}
    smallest = best.get("bound")
    params = {"length": length, "d": d, "for": tuple(criteria), "bases": tuple(bases)}
    params["dtype"] = dtype
    about = replace(build("rope", length=2, d=d), spec="rope", params=params)
    return Design(
        length=length,
        d=d,
        criteria=tuple(criteria),
        candidates=candidates,
        best=best,
        serving=serving_bases(smallest, d, length) if smallest else None,
        dft_serves=length <= d,
        dtype=dtype,
        about=(about,),
    )


def check_formulas(length: int, d: int, criteria: Sequence[str], dtype: str | None) -> None:
    """Refuse, of a length too long for tables of codes, what only such a table answers."""
    tabular = [name for name in criteria if name.partition("=")[0] not in BY_FORMULA]
    if tabular or dtype:
        option = f"--for {tabular[0]}" if tabular else f"--dtype {dtype}"
        raise PefourierError(
            f"{option} takes {length} codes of {d} numbers for each base: the limit is "
            f"{COSTS['cosines of candidates'][1]:.2g} cosines of all; so long, turns, wavelength=K "
            "and phase=E are answered by their formulas"
        )


def best_of(criterion: str, candidates: Sequence[Candidate]) -> float | None:
    """The base of the best candidate by a criterion of the table of codes; None: none serves."""
    best = max(candidates, key=TABLE_CRITERIA[criterion])
    lacking = criterion == "condition" and best.condition_number is None
    return None if lacking else best.rho


def design_grid(sides: Sequence[int], d: int, **options: Any) -> tuple[Design, ...]:
    """A design for each axis of a grid, the slowest axis first; `options` are as of `design_base`.

    An axis has an equal part of the pairs, the first one what is left over, as in Wan. Axes are
    told apart by their own columns alone, so that each has a base of its own. The DFT's lattice
    serves none: side by side, such codes are not all the same distance apart.

    >>> [(axis.axis, axis.length, axis.d) for axis in design_grid((8, 30, 52), 128)]
    [('t', 8, 44), ('y', 30, 42), ('x', 52, 42)]
    """
    if not 2 <= len(sides) <= len(AXES):
        raise PefourierError(f"a grid has two or three sides; got {len(sides)}")
    width = d // (2 * len(sides)) * 2
    widths = [d - width * (len(sides) - 1), *[width] * (len(sides) - 1)]
    first, *further = (
        of_axis(design_base(side, wide, **options), axis)
        for side, wide, axis in zip(sides, widths, AXES[-len(sides) :], strict=True)
    )
    specs = {name: grid_spec((first, *further), name) for name in first.best}
    grid_specs = tuple(GridSpec(name, spec) for name, spec in specs.items() if spec)
    return replace(first, whole_grid=grid_specs), *further


def of_axis(design: Design, axis: str) -> Design:
    """A design as that of an axis of a grid."""
    (enc,) = design.about
    about = replace(enc, spec=f"rope on axis {axis}", params=enc.params | {"axis": axis})
    return replace(design, axis=axis, dft_serves=False, about=(about,))


def grid_spec(designs: Sequence[Design], criterion: str) -> str | None:
    """The rotation of a grid that has each axis's best base; None where an axis has none.

    ``axial-rope`` has one base, of the first axis, and a stretch s for each that makes it
    :math:`\\rho s^{r/(r-2)}`, r the dimensions of the axis.
    """
    bases = [design.best[criterion] for design in designs]
    if None in bases:
        return None
    stretch = [
        (rho / bases[0]) ** ((axis.d - 2) / axis.d)
        for rho, axis in zip(bases, designs, strict=True)
    ]
    sides = "x".join(str(axis.length) for axis in designs)
    spec = f"axial-rope:grid={sides},rho={bases[0]:.7g},d={sum(axis.d for axis in designs)}"
    if len({axis.d for axis in designs}) > 1:
        spec += ",rest=slowest"
    if len(set(bases)) > 1:
        spec += f",stretch={';'.join(f'{s:.7g}' for s in stretch)}"
    return spec


TABLE_CRITERIA = {
    "distance": lambda c: c.min_distance,
    "rank": lambda c: (c.rank, c.stable_rank),
    "stable_rank": lambda c: c.stable_rank,
    "condition": lambda c: (c.rank, -(c.condition_number or np.inf)),
}


def exact_base(criterion: str, length: int, d: int) -> float | None:
    """The base of a criterion that has a formula or a search of its own."""
    name, _, value = criterion.partition("=")
    if criterion == "bound":
        return smallest_bounded_base(d, length)
    if criterion == "turns":
        return base_of_turns(d, length)
    try:
        if name == "phase":
            similarity, _, layers = value.partition(":")
            return base_of_phase(d, length, float(similarity), int(layers or 1))
        if name == "wavelength":
            return base_of_turns(d, length, check_wavelength(float(value)))
    except ValueError:
        pass
    raise PefourierError(
        f"unknown criterion {shown(criterion)}: {', '.join(CRITERIA)}, wavelength=K with K lengths "
        "above 0, or phase=E:N with a cosine E and N layers"
    )


def check_wavelength(lengths: float) -> float:
    """How many lengths a wave lasts: a finite number above 0."""
    if not (isfinite(lengths) and lengths > 0):
        raise ValueError(lengths)
    return lengths


def formula_candidate(rho: float, length: int, d: int) -> Candidate:
    """What a base does, as far as its frequencies say."""
    frequencies = rho ** (-2 * np.arange(d // 2) / d)
    idle, bound = count_idle(frequencies, length), base_bound(frequencies)
    spec = f"rope:rho={rho:.7g},d={d}"
    return Candidate(rho, spec, None, None, None, None, None, idle, bound)


def table_candidates(
    bases: Sequence[float], length: int, d: int, form: Format | None
) -> tuple[Candidate, ...]:
    """What bases do, by their tables of codes."""
    ropes = (
        replace(build("rope", length=length, d=d, rho=rho), spec=f"rope:rho={rho:.7g},d={d}")
        for rho in bases
    )
    return tuple(map_ahead(lambda enc: candidate(enc, form), ropes))


def candidate(enc: Encoding, form: Format | None) -> Candidate:
    """What one rotation does."""
    nearest, factors = closest_pair(enc), decompose(enc)
    frequencies, params = enc.measure.frequencies, enc.params
    return Candidate(
        rho=params["rho"],
        spec=enc.spec,
        min_distance=nearest.distance,
        min_distance_cast=None if form is None else cast_distance(enc, nearest.distance, form),
        rank=factors.rank,
        stable_rank=factors.stable_rank,
        condition_number=factors.condition_number,
        idle=count_idle(frequencies[frequencies != 0], len(enc)),
        bound=base_bound(frequencies),
    )


def cast_distance(enc: Encoding, distance: float, form: Format) -> float:
    """The smallest distance of two codes after rounding them to a format.

    A number is rounded by at most 2^-digits of it, so that a code of length c moves by no more
    than r = 2^-digits c; only lags whose distance is below the smallest plus 4 r can hold the
    nearest pair. All pairs of positions at those are seen.
    """
    measure, pairs = enc.measure, len(enc.measure.frequencies)
    length = np.sqrt(measure.squared_length)
    rounding = length * 2.0**-form.digits + np.sqrt(enc.dim) * 2.0 ** (form.lowest - form.digits)
    least_sum = pairs * (1 - ((distance + 4 * rounding) / length) ** 2 / 2)
    lags = np.concatenate(
        [
            first + np.flatnonzero(sums >= least_sum)
            for first, sums in lag_sums(measure.frequencies, len(enc))
        ]
    )
    codes = rounded(enc.table(), form)
    differences = (codes[lag:] - codes[: len(codes) - lag] for lag in lags[lags > 0])
    return float(np.sqrt(min(np.einsum("ij,ij->i", d, d).min() for d in differences)))

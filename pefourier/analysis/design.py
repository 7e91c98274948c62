r"""Which base for this length? Criteria that contradict one another, each with its best base.

Conventions
-----------
Frequencies are :math:`\rho^{-2i/d}`, i = 0 … d/2 - 1, radians per position; a design is for
`length` positions and `d` dimensions (of a head, for rotary positions). ``sinusoidal`` and ``rope``
of one base have the same distances, rank and kernel, so that one table serves both.

turns: every pair completes a turn. wavelength: the slowest needs k lengths for one. distance: the
smallest between two codes is largest. rank, stable_rank, condition: of the table of codes; by these
four a base is the best of the candidates, and one between them may be better. bound: the smallest
base with B(m) >= 0 at every lag below the length (`pefourier.analysis.context.base_bound`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil, isfinite, pi
from typing import Any, ClassVar

import numpy as np

from pefourier.analysis.context import base_bound
from pefourier.encodings import build
from pefourier.encodings.checks import LARGEST, check_cost, check_count
from pefourier.encodings.encoding import BLOCK, Encoding, Measure, row_blocks
from pefourier.encodings.readings import STEP, lag_sums
from pefourier.errors import PefourierError, shown
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.precision import FORMATS, Format, rounded
from pefourier.geometry.singular_values import decompose
from pefourier.geometry.threads import map_ahead
from pefourier.result import Result

BASES = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 5e5, 1e6, 1e7, 1e8)
CRITERIA = ("turns", "distance", "rank", "stable_rank", "condition", "bound")
FIRST_BASE = 1000  # lengths: where the search for the smallest base with a bound begins
DIGITS = 5  # of that base
BASES_AT_ONCE = 2**9
LATEST, BESIDE = 8, 2**-13  # bases that failed last; lags beside theirs, as a share of the length
AXES = "tyx"  # frames, rows, columns
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
SECONDS |= {"w": 7 * 86400.0, "y": 365.25 * 86400.0}
TURN = 2 * pi * (1 - 1e-12)  # of which a wave that lasts the length is not short by rounding
NEARBY = 2**12  # lags that are looked at in one pass over the codes


@dataclass(frozen=True)
class Candidate:
    """A base and what it does; distances are l2 between codes with cosines and sines of size 1."""

    rho: float
    spec: str
    min_distance: float
    min_distance_cast: float | None  # after rounding the codes to the format asked for
    rank: int
    stable_rank: float
    condition_number: float | None  # None where the rank is deficient
    idle: int  # pairs that never complete a turn within the length
    bound: int | None  # first lag m with B(m) < 0


@dataclass(frozen=True, repr=False)
class Design(Result):
    """Candidates, and the best base by each criterion."""

    of_none: ClassVar[bool] = True
    length: int
    d: int
    criteria: tuple[str, ...]
    candidates: tuple[Candidate, ...]  # by ascending base
    best: dict[str, float | None]  # None where no base serves: see `dft_serves`, or beyond reach
    tied: dict[str, tuple[float, ...]]  # candidates that are as good by a criterion, where several
    dft_serves: bool  # length <= d, no grid: the lattice of the DFT is better than any base
    dtype: str | None = None  # the format to which codes were rounded
    axis: str = ""  # of a grid: t, y or x
    steps: "Steps | None" = field(default=None, metadata={"told": False})


@dataclass(frozen=True)
class Steps:
    """A span and the resolution that divides it into positions, both in a unit or both without.

    >>> Steps("1h", "250ms").length, Steps("100", "0.5").length
    (14400, 200)
    """

    span: str
    resolution: str

    @property
    def length(self) -> int:
        """How many steps of the resolution cover the span."""
        span, unit = measured("span", self.span)
        step, other = measured("resolution", self.resolution)
        if bool(unit) != bool(other):
            raise PefourierError(
                f"a span and a resolution both have a unit or neither; got span {self.span} and "
                f"resolution {self.resolution}"
            )
        count = span * SECONDS.get(unit, 1.0) / (step * SECONDS.get(other, 1.0))
        if not 2 <= count <= LARGEST:
            raise PefourierError(
                f"a span has from 2 to {LARGEST} steps of its resolution; {self.span} has "
                f"{count:.4g} of {self.resolution}"
            )
        return ceil(count * (1 - 1e-12))

    def lasting(self, positions: float, text: str) -> tuple[float, str]:
        """How long so many positions last in the unit of a text, and that unit.

        >>> steps = Steps("1h", "500ms")
        >>> steps.lasting(14400, steps.span), steps.lasting(3.0, steps.resolution)
        ((2.0, 'h'), (1500.0, 'ms'))
        """
        (step, own), (_, unit) = measured("resolution", self.resolution), measured("span", text)
        return positions * step * SECONDS.get(own, 1.0) / SECONDS.get(unit, 1.0), unit


def measured(name: str, text: str) -> tuple[float, str]:
    """The number and the unit of a text such as 1h or 0.5.

    >>> measured("span", "90min")
    (90.0, 'min')
    """
    found = re.fullmatch(rf"\s*([0-9.eE+-]+?)\s*({'|'.join(SECONDS)}|)\s*", text)
    try:
        value = float(found[1]) if found else 0.0
    except ValueError:
        value = 0.0
    if not (isfinite(value) and value > 0):
        raise PefourierError(
            f"{name} must be a number above 0, alone or with one of {', '.join(SECONDS)}, such as "
            f"1h; got {shown(text)}"
        )
    return value, found[2]


def base_of_turns(d: int, length: int, lengths: float = 1.0) -> float:
    r"""The base whose slowest pair needs so many lengths for a turn: :math:`(kL/2\pi)^{d/(d-2)}`.

    With k = 1 it is the largest base with which every pair completes a turn within the length.

    >>> round(base_of_turns(256, 80), 3), round(base_of_turns(128, 4096), 2)
    (12.99, 722.52)
    """
    if d < 4:
        raise PefourierError(f"a base is chosen for d of at least 4, two pairs; got d={d}")
    return float((lengths * length / (2 * pi)) ** (d / (d - 2)))


def base_of_phase(length: int, similarity: float, layers: int = 1) -> float:
    r"""The least base by the bound on phases: :math:`L / \arccos e^{1/N}` (arXiv 2602.10959).

    With it the cosine of a wave of frequency 1/base stays at least e over the length, after N
    layers, which multiply it, as well. e = 0 asks that it never turns negative.

    >>> [round(base_of_phase(131072, e, n)) for e, n in ((0.0, 1), (0.9, 1), (0.9, 32))]
    [83443, 290608, 1616104]
    """
    if not (0 <= similarity < 1 and layers >= 1):
        raise PefourierError(
            "phase=E or phase=E:N takes a cosine E from 0 to below 1 and N layers, 1 or more; got "
            f"{similarity:g} and {layers}"
        )
    return float(length / np.arccos(similarity ** (1 / layers)))


def smallest_bounded_base(d: int, length: int, digits: int = DIGITS) -> float | None:
    r"""The smallest base with :math:`B(m) \ge 0` for all lags m below a length, to some digits.

    Su's search: of [0, 1000 L] cut into 10^k points, k = 1 … digits, the smallest that serves is
    the end of the next interval. The first negative lag is no monotone function of the base: larger
    bases may fail again. None where none of 10^4 points serves.

    >>> round(smallest_bounded_base(128, 1024))
    4293
    """
    end, found = float(FIRST_BASE * length), None
    failed: list[tuple[float, int]] = []
    for step in range(1, digits + 1):
        if step == DIGITS and found is None:
            break
        points = end * np.arange(1, 10**step + 1) / 10**step
        found = find_first_base(points[points > 1], d, length, failed)
        end = found or end
    return found


@cache
def steady_base(base: float, d: int, length: int) -> float:
    """The least base from one that serves on with which all up to 5 % larger serve, too.

    Tried in steps of 0.5 % up to some four times the base; the base itself where none is.

    >>> [f"{steady_base(b, 128, n):.4g}" for b, n in ((26952.57, 4096), (1e5, 4096))]
    ['4.712e+04', '1e+05']
    """
    failed: list[tuple[float, int]] = []
    run: list[float] = []
    for rho in base * 1.005 ** np.arange(280):
        serves = find_first_base(np.array([rho]), d, length, failed) is not None
        run = [*run, float(rho)] if serves else []
        if len(run) > 10:
            return run[0]
    return base


def find_first_base(
    bases: np.ndarray, d: int, length: int, failed: list[tuple[float, int]]
) -> float | None:
    """The first of ascending bases that serves.

    `failed` holds bases that were seen to fail, each with a lag where its sum is negative, and
    grows. Neighbours fail at the same lags, so that most bases are rejected by looking at one or
    two of them; all lags are looked at only where no known one rejects a base, some hundred times.
    """
    exponents = -2.0 * np.arange(d // 2) / d
    for part in row_blocks(len(bases), BASES_AT_ONCE):
        left = bases[part]
        for neighbour in (-1, 0, -2, 1):
            if len(failed) and len(left):
                known = np.array(sorted(failed))
                at = np.searchsorted(known[:, 0], left) + neighbour
                lags = known[np.clip(at, 0, len(known) - 1), 1]
                left = left[cosine_sums_at(lags, left, exponents) >= 0]
        while len(left):
            lag = known_lag(left[0] ** exponents, failed, length)
            lag = lag or worst_lag(left[0] ** exponents, length)
            if lag is None:
                return float(left[0])
            failed.append((float(left[0]), lag))
            serves = cosine_sums_at(np.full(len(left), lag), left, exponents) >= 0
            serves[0] = False  # whatever rounding says: it was seen to fail
            left = left[serves]
    return None


def cosine_sums_at(lags: np.ndarray, bases: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """The sum of cosines of each base at a lag of its own."""
    return np.cos(lags[:, None] * bases[:, None] ** exponents).sum(axis=-1)


def known_lag(frequencies: np.ndarray, failed: list[tuple[float, int]], length: int) -> int | None:
    """A lag below a length at which other bases fail, or one beside the last, with a negative sum.

    Of either kind the one of the least sum of cosines.
    """
    known = np.array([lag for _, lag in failed], dtype=int)
    reach = int(BESIDE * length)
    beside = np.add.outer(known[-LATEST:], np.arange(-reach, reach + 1)).ravel()
    for lags in map(np.unique, (known, beside[(beside > 0) & (beside < length)])):
        sums = np.cos(np.multiply.outer(lags.astype(float), frequencies)).sum(axis=1)
        if sums.min(initial=0.0) < 0:
            return int(lags[sums.argmin()])
    return None


def worst_lag(frequencies: np.ndarray, length: int) -> int | None:
    """The lag of the least sum of cosines below a length, where that is negative."""
    least, at = 0.0, None
    for first, sums in lag_sums(frequencies, length):
        lowest = int(sums.argmin())
        if sums[lowest] < least:
            least, at = sums[lowest], first + lowest
    return at


def design_base(
    length: int,
    d: int,
    bases: Sequence[float] = BASES,
    criteria: Sequence[str] = CRITERIA,
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
        ``phase=E`` and ``phase=E:N``, see `base_of_phase`.
    dtype : str, optional
        A format of `pefourier.geometry.precision.FORMATS` to which codes are rounded.

    Examples
    --------
    >>> found = design_base(80, 256)
    >>> round(found.best["turns"], 2), found.best["stable_rank"]
    (12.99, 3.0)
    """
    check_count("length", length, least=2)
    if d % 2:
        raise PefourierError(f"a base is chosen for pairs of dimensions: an even d; got d={d}")
    form = FORMATS[dtype] if dtype else None
    cosines = (len(bases) + len(criteria)) * length * d // 2
    check_cost(f"a design for length {length}, d {d}", "cosines of candidates", cosines)
    exact = {name: exact_base(name, length, d) for name in criteria if name not in TABLE_CRITERIA}
    every = {*bases, *(rho for rho in exact.values() if rho is not None and rho > 1)}
    own = (
        replace(build("rope", length=length, d=d, rho=rho), spec=f"rope:rho={rho:.7g},d={d}")
        for rho in sorted(every)
    )
    candidates = tuple(map_ahead(lambda enc: candidate(enc, form), own))
    best = {
        name: exact[name] if name in exact else max(candidates, key=TABLE_CRITERIA[name]).rho
        for name in criteria
    }
    tied = {name: ties(name, candidates) for name in criteria if name in TABLE_CRITERIA}
    tied = {name: rhos for name, rhos in tied.items() if len(rhos) > 1}
    return Design(length, d, tuple(criteria), candidates, best, tied, length <= d, dtype)


def ties(criterion: str, candidates: Sequence[Candidate]) -> tuple[float, ...]:
    """The bases of the candidates that are best by a criterion, to rounding; of ranks by rank.

    >>> ties("rank", design_base(100, 32, (3.0, 5.0, 1e4), ()).candidates)
    (3.0, 5.0)
    """
    numbers = {c.rho: TABLE_CRITERIA[criterion](c) for c in candidates}
    values = {rho: value[0] if criterion == "rank" else value for rho, value in numbers.items()}
    top = max(values.values())
    return tuple(rho for rho, value in values.items() if np.allclose(value, top, rtol=1e-9, atol=0))


def design_grid(sides: Sequence[int], d: int, **asked: Any) -> tuple[Design, ...]:
    """A design for each axis of a grid, the slowest axis first; `asked` is as of `design_base`.

    An axis has an equal part of the pairs, the first one what is left over, as in Wan. Axes are
    told apart by their own columns alone, so that each has a base of its own. The DFT's lattice
    serves none: side by side, such codes are not all the same distance apart.

    >>> found = design_grid((8, 30, 52), 128, criteria=("turns",))
    >>> [(one.axis, one.length, one.d) for one in found]
    [('t', 8, 44), ('y', 30, 42), ('x', 52, 42)]
    """
    if not 2 <= len(sides) <= len(AXES):
        raise PefourierError(f"a grid has two or three sides; got {len(sides)}")
    width = d // (2 * len(sides)) * 2
    widths = [d - width * (len(sides) - 1), *[width] * (len(sides) - 1)]
    return tuple(
        replace(design_base(side, own, **asked), axis=axis, dft_serves=False)
        for side, own, axis in zip(sides, widths, AXES[-len(sides) :], strict=True)
    )


def grid_spec(designs: Sequence[Design], criterion: str) -> str | None:
    """The rotation of a grid that has each axis's best base; None where an axis has none.

    ``axial-rope`` has one base, of the first axis, and a stretch s for each that makes it
    :math:`\\rho s^{r/(r-2)}`, r the dimensions of the axis.
    """
    bases = [design.best[criterion] for design in designs]
    if None in bases:
        return None
    stretch = [
        (rho / bases[0]) ** ((one.d - 2) / one.d) for rho, one in zip(bases, designs, strict=True)
    ]
    sides = "x".join(str(one.length) for one in designs)
    told = f"axial-rope:grid={sides},rho={bases[0]:.7g},d={sum(one.d for one in designs)}"
    if len({one.d for one in designs}) > 1:
        told += ",rest=slowest"
    if len(set(bases)) > 1:
        told += f",stretch={';'.join(f'{s:.7g}' for s in stretch)}"
    return told


TABLE_CRITERIA = {
    "distance": lambda c: c.min_distance,
    "rank": lambda c: (c.rank, c.stable_rank),
    "stable_rank": lambda c: c.stable_rank,
    "condition": lambda c: (c.rank, -(c.condition_number or np.inf)),
}


def exact_base(criterion: str, length: int, d: int) -> float | None:
    """The base of a criterion that has a formula or a search of its own."""
    name, _, lengths = criterion.partition("=")
    if name == "bound":
        return smallest_bounded_base(d, length)
    if name == "turns":
        return base_of_turns(d, length)
    try:
        if name == "phase":
            similarity, _, layers = lengths.partition(":")
            return base_of_phase(length, float(similarity), int(layers or 1))
        return base_of_turns(d, length, float(lengths))
    except ValueError as error:
        known = ", ".join(CRITERIA)
        raise PefourierError(
            f"unknown criterion {shown(criterion)}: {known}, wavelength=K with K a number, or "
            "phase=E:N with a cosine E and N layers"
        ) from error


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
        idle=int(((frequencies != 0) & (frequencies * len(enc) < TURN)).sum()),
        bound=base_bound(frequencies),
    )


def cast_distance(enc: Encoding, distance: float, form: Format) -> float:
    """The smallest distance of two codes after rounding them to a format.

    A number is rounded by at most 2^-digits of it, so that a code of length c moves by no more
    than r = 2^-digits c; only lags whose distance is below the smallest plus 4 r can hold the
    nearest pair. All pairs of positions at those are seen.
    """
    measure, n = enc.measure, len(enc)
    length, pairs = np.sqrt(measure.squared_length), len(measure.frequencies)
    worst = length * 2.0**-form.digits + np.sqrt(enc.dim) * 2.0 ** (form.lowest - form.digits)
    most = pairs * (1 - ((distance + 4 * worst) / length) ** 2 / 2)  # of cosines' sum at such lags
    lags = np.concatenate(
        [first + np.flatnonzero(sums >= most) for first, sums in lag_sums(measure.frequencies, n)]
    )
    nearby = [
        (start, lags[(lags > start) & (lags <= start + NEARBY)]) for start in range(0, n, NEARBY)
    ]
    return min(smallest_at(some - start, start, enc, form) for start, some in nearby if len(some))


def smallest_at(lags: np.ndarray, start: int, enc: Encoding, form: Format) -> float:
    """The smallest distance of two rounded codes, one of them `start` + one of the lags behind."""
    smallest = np.inf
    for rows in row_blocks(len(enc) - start - int(lags.min()), BLOCK, enc.dim):
        last = min(rows.stop + start + int(lags.max()), len(enc))
        codes = rounded(codes_between(enc.measure, rows.start + start, last), form)
        own = rounded(codes_between(enc.measure, rows.start, rows.stop), form) if start else codes
        for lag in lags:
            later = codes[lag : lag + rows.stop - rows.start]
            apart = own[: len(later)] - later
            smallest = min(smallest, float(np.einsum("ij,ij->i", apart, apart).min(initial=np.inf)))
    return float(np.sqrt(smallest))


def codes_between(measure: Measure, first: int, last: int) -> np.ndarray:
    """Codes of the positions from one up to another, pairs side by side.

    By the addition theorem, with the error of a phase in float64: some times as fast as cosines.

    >>> from pefourier.encodings import build
    >>> codes_between(build("rope", d=4).measure, 1, 3).round(3)
    array([[ 0.54 ,  0.841,  1.   ,  0.01 ],
           [-0.416,  0.909,  1.   ,  0.02 ]])
    """
    size = np.sqrt(measure.squared_length / len(measure.frequencies))
    starts = np.arange(first, last, STEP)
    outer, inner = (
        np.exp(1j * np.multiply.outer(x, measure.frequencies)) for x in (starts, np.arange(STEP))
    )
    waves = (size * outer)[:, None] * inner
    return waves.reshape(-1, outer.shape[1])[: last - first].view(float)

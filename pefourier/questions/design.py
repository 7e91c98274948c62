r"""Choice of a base for a length: a criterion, and the best base by it.

Conventions
-----------
Frequencies are :math:`\rho^{-2i/d}`, i = 0 … d/2 - 1, radians per position; a design is for
`length` positions and `d` dimensions (of a head, for rotary positions). ``sinusoidal`` and ``rope``
with the same base have equal distances, rank and kernel. One table therefore describes both.

``turns``: every pair completes a full rotation. ``wavelength``: the lowest frequency needs k
lengths for a full rotation. ``bound``: B(m) = sum of cos m w >= 0 at every lag m below the length
(Men et al., 2024), for this base and all tried up to ten times it: larger bases may fail again.
``rank``: of the table of vectors; it chooses the best candidate, and an untried base may be better.

Bases from a formula have the fewest digits that still satisfy the criterion, and all digits are
printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from functools import cache
from math import ceil, inf, pi
from typing import Any

import numpy as np

from pefourier.encodings import build
from pefourier.encodings.attention_decay import FARTHEST, firsts_below, lag_sums
from pefourier.encodings.encoding import AXES, Encoding
from pefourier.errors import COSTS, LARGEST, PefourierError, check_cost, check_count, shown
from pefourier.geometry import map_ahead
from pefourier.geometry.closest import closest_pair
from pefourier.geometry.precision import FORMATS, Format, rounded, rounding_distance
from pefourier.geometry.singular_values import decompose
from pefourier.questions.result import Result, csv_table
from pefourier.questions.rotations import base_bound, count_idle
from pefourier.types import CsvTable, Fields, Ints, Strings, Texts, frozen, hidden, later
from pefourier.writing.page import labelled_fields
from pefourier.writing.text import Verdict, agreeing, number, shortest

PER_DECADE, GRID_DIGITS = 100, 4  # grid of the bases tried for the bound
DIGITS = 7  # of a base from a formula, at least
BASES = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 5e5, 1e6, 1e8)
CRITERIA = ("turns", "rank", "bound")
SUITS = {"turns": "series and images", "bound": "long text"}
LONG = 2048  # positions from which the default criterion is the bound
MORE = 6  # tables in an estimate of the time, besides those of the bases
SECONDS = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
SECONDS |= {"d": 86400.0, "w": 7 * 86400.0, "y": 365.25 * 86400.0}
DURATION = re.compile(rf"(\d*\.?\d+(?:e[+-]?\d+)?)\s*({'|'.join(SECONDS)})")
MOST_DIGITS = 17  # of any float64 number


@cache
def bases_with_bound(d: int, length: int) -> tuple[float, ...]:
    """Return the bases of the first whole decade that passes, of a geometric grid above 1.

    A decade is searched from its end: it cannot begin at or below a base that fails.

    >>> bases_with_bound(128, 1024)[0]
    6026.0
    """
    exponents = -2.0 * np.arange(d // 2) / d
    passing: dict[int, float] = {}
    first = step = 0
    while len(passing) <= PER_DECADE:
        step = max(k for k in range(first, first + PER_DECADE + 1) if k not in passing)
        base = float(f"{10 ** ((step + 1) / PER_DECADE):.{GRID_DIGITS}g}")
        if firsts_below(base**exponents, [0.0], length)[0] is None:
            passing[step] = base
        else:
            first = step + 1
            passing = {k: base for k, base in passing.items() if k >= first}
    return tuple(passing[k] for k in sorted(passing))


@frozen
class Candidate:
    """A base and its properties; distances are l2 between vectors of unit cosines and sines.

    Properties that need the table of vectors are None if that takes too long.
    """

    _: KW_ONLY
    rho: float
    spec: str
    min_distance: float | None = None
    min_distance_cast: float | None = None  # after rounding the vectors to --dtype
    rank: int | None = None
    stable_rank: float | None = None
    condition_number: float | None = None  # also None if the rank is deficient
    idle: int  # pairs that never complete a full rotation within the length
    bound: int | None = None  # first lag m with B(m) < 0
    best_by: str = hidden(default="")  # criteria for which it is best

    @property
    def base(self) -> str:
        """The base with enough digits to reproduce it exactly."""
        return base_text(self.rho)


@frozen
class Design(Result):
    """Candidate bases, and the best base for each criterion."""

    command = "design"
    findings = ()
    verdicts = {
        "no base needed": Verdict(
            "The dft encoding keeps {r.length:,} positions at equal distances; no base above 1 "
            "achieves this.",
            "Use dft. If you need a base: {r.bases_in_words}.{r.other:? {r.other_in_words}}",
        ),
        "base found": Verdict(
            "Best base for {r.length:,} positions and d = {r.d}: {r.bases_in_words}.",
            "{r.other_in_words}",
        ),
        "no base serves": Verdict(
            "For {r.length:,} positions and d = {r.d}, no base was found. {r.bases_in_words}.",
            "{r.other_in_words}",
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
            "smallest distance, rounded": "min_distance_cast",
            "rank": "rank",
            "pairs without a full rotation": "idle",
            "first negative lag": "bound",
        }
    }

    length: int
    d: int
    criteria: Texts
    best: dict[str, float | None]  # None if no base is suitable
    other: dict[str, float | None]  # the criterion not chosen by default; empty with --for
    tried: tuple[Candidate, ...] = hidden()  # as far as the criteria need them
    dft_serves: bool  # 2 < length <= d, no grid: the DFT lattice is better than any base
    dtype: str | None = None  # the format to which vectors were rounded
    axis: str = ""  # of a grid: t, y or x; otherwise empty
    _: KW_ONLY
    candidates: tuple[Candidate, ...]  # by ascending base, with the properties of their tables

    @property
    def verdict(self) -> str:
        """Whether a base is needed and found."""
        if self.dft_serves:
            return "no base needed"
        return "base found" if any(self.best.values()) else "no base serves"

    @property
    def bases_in_words(self) -> str:
        """Each criterion with its base, and the number of bases tried where relevant."""
        return "; ".join(self.base_in_words(name, rho) for name, rho in self.best.items())

    @property
    def other_in_words(self) -> str:
        """A sentence on the criterion that is not chosen by default, with its base."""
        bases = self.other.items()
        return "".join(f"For {SUITS[c]}, use {self.base_in_words(c, rho)}." for c, rho in bases)

    def base_in_words(self, criterion: str, rho: float | None) -> str:
        """Describe the base of a criterion, or why there is no base."""
        if rho is None:
            return f"{criterion}: none above 1"
        about = ""
        if criterion == "rank":
            ranks = [c.rank or 0 for c in self.tried]
            ties = ranks.count(max(ranks)) - 1
            tied = f"; {ties} {agreeing(ties, 'other ties', 'others tie')}" if ties else ""
            about = f" (best of {len(ranks)} tried{tied})"
        if criterion == "bound":
            tried = len(bases_with_bound(self.d, self.length))
            about = f" (all {tried} bases tried up to ten times that base pass)"
        return f"{criterion}: {base_text(rho)}{about}"

    @property
    def nearest_rows(self) -> list[Candidate]:
        """The best candidates, and those with the next smaller and larger bases."""
        best = [i for i, c in enumerate(self.tried) if c.best_by] or [0]
        return [c for i, c in enumerate(self.tried) if min(abs(i - at) for at in best) < 2]

    def series(self) -> CsvTable:
        """Column names for CSV, and one row for each candidate."""
        names = [*labelled_fields(Candidate), "best_by"]
        return csv_table(self.candidates, names)


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


def design_base(
    length: int,
    d: int,
    bases: Sequence[float] = BASES,
    criteria: Strings | None = None,
    dtype: str | None = None,
    axis: str = "",
) -> Design:
    """Choose a base for a length and a dimension by each criterion, and compare it with others.

    Parameters
    ----------
    length, d : int
        Number of positions, and dimension of a vector (of a head).
    bases : sequence of float
        Bases to try in addition to those that the criteria give.
    criteria : sequence of str
        Names from `CRITERIA`, or ``wavelength=K``: the lowest frequency needs K lengths for a full
        rotation. The default is ``bound`` from 2,048 positions on, otherwise ``turns``; if the
        length is too long for a search, ``turns``.
    dtype : str, optional
        A format of `pefourier.geometry.precision.FORMATS` to which vectors are rounded.
    axis : str, optional
        The axis of a grid (t, y or x) if the length is one of its sides.

    Examples
    --------
    >>> found = design_base(80, 256)
    >>> round(found.best["turns"], 2), found.other
    (12.99, {'bound': 134.9})
    """
    check_count("length", length, minimum=2)
    if d % 2:
        raise PefourierError(f"d must be even, because a base needs pairs of dimensions; got d={d}")
    cosines, (_, most) = (len(bases) + MORE) * d // 2, COSTS["cosines of candidates"]
    subject = f"a design for length {length}, d {d}"
    check_cost(subject, "cosines of candidates", cosines * min(length, FARTHEST))
    is_long = cosines * length > most
    others = [] if is_long or criteria is not None else ["bound", "turns"]
    if criteria is None:
        criteria = ["turns" if is_long or length < LONG else "bound"]
    tabular = [f"--for {name}" for name in criteria if name in ("rank", "bound")]
    tabular += [f"--dtype {dtype}"] if dtype else []
    if is_long and tabular:
        raise PefourierError(
            f"{tabular[0]} needs {length} vectors of {d} numbers for each base, and the limit is "
            f"{most:.2g} cosines in total; at this length use turns or wavelength=K, which have "
            "formulas"
        )
    exact = {c: exact_base(c, length, d) for c in (*criteria, *others) if c != "rank"}
    tried = sorted({*bases, *filter(None, exact.values())})
    bands = [(rho, build("rope", length=2, d=d, rho=rho).measure.frequencies) for rho in tried]
    found = tuple(
        Candidate(
            rho=rho,
            spec=f"rope:rho={base_text(rho)},d={d}",
            idle=count_idle(omega, length),
            bound=base_bound(omega),
        )
        for rho, omega in bands
    )
    if dtype or "rank" in criteria:
        found = candidates_of(found, length, d, dtype)
    best = exact | {"rank": max(found, key=lambda c: (c.rank or 0, c.stable_rank or 0.0)).rho}
    best_by = {rho: " ".join(c for c in criteria if best[c] == rho) for rho in tried}
    params = {"length": length, "d": d, "for": tuple(criteria), "bases": tuple(bases)}
    params |= {"dtype": dtype, **({"axis": axis} if axis else {})}
    spec = f"rope on axis {axis}" if axis else "rope"
    bases_tried = tuple(replace(c, best_by=best_by[c.rho]) for c in found)
    is_done = is_long or found[0].rank is not None
    return Design(
        length=length,
        d=d,
        criteria=tuple(criteria),
        best={name: best[name] for name in criteria},
        other={name: best[name] for name in others if name not in criteria},
        tried=bases_tried,
        dft_serves=2 < length <= d and not axis,
        dtype=dtype,
        axis=axis,
        candidates=bases_tried if is_done else later(candidates_of, bases_tried, length, d, dtype),
        encodings=(replace(build("rope", length=2, d=d), spec=spec, params=params),),
    )


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
    """Return the base of a criterion that has a formula or a search; None if none is above 1.

    The formula is :math:`(K L / 2\\pi)^{d/(d-2)}` for ``wavelength=K``. With K = 1, ``turns``, it
    is the largest base with which every pair completes a rotation in the length.

    >>> exact_base("turns", 80, 256)
    12.99003
    """
    if d < 4:
        raise PefourierError(f"d must be at least 4 (two pairs); got d={d}")
    if criterion == "bound":
        return bases_with_bound(d, length)[0]
    name, _, value = {"turns": "wavelength=1"}.get(criterion, criterion).partition("=")
    try:
        if name == "wavelength" and 0 < float(value) < inf:
            base = float((length / (2 * pi / float(value))) ** (d / (d - 2)))
            typed = shortest(lambda typed: typed <= base, base, DIGITS)
            return typed if typed > 1 else None
    except ValueError:
        pass
    raise PefourierError(
        f"unknown criterion {shown(criterion)}: use {', '.join(CRITERIA)}, or wavelength=K with "
        "K > 0 lengths; for an extension use turns, bound or wavelength=K"
    )


def candidates_of(
    candidates: Sequence[Candidate], length: int, d: int, dtype: str | None
) -> tuple[Candidate, ...]:
    """Add to bases the properties of their tables."""
    encodings = (build("rope", length=length, d=d, rho=c.rho) for c in candidates)
    tables = map_ahead(lambda enc: properties_of_table(enc, dtype), encodings)
    return tuple(replace(c, **table) for c, table in zip(candidates, tables, strict=True))


def properties_of_table(enc: Encoding, dtype: str | None) -> Fields:
    """Return the fields of a `Candidate` that need the table of vectors."""
    distance, factors = closest_pair(enc).distance, decompose(enc)
    return {
        "min_distance": distance,
        "min_distance_cast": cast_distance(enc, distance, FORMATS[dtype]) if dtype else None,
        "rank": factors.rank,
        "stable_rank": factors.stable_rank,
        "condition_number": factors.condition_number,
    }


def cast_distance(enc: Encoding, distance: float, form: Format) -> float:
    """Smallest distance between two vectors after rounding to a format.

    Rounding changes a number by at most a fraction 2^-digits, so a vector of length c moves by at
    most r = 2^-digits c. Only lags whose distance is below the smallest plus 4 r can contain the
    nearest pair. All pairs of positions at these lags are compared.
    """
    measure, pairs = enc.measure, len(enc.measure)
    length, rounding = np.sqrt(measure.squared_length), rounding_distance(enc, form)
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

"""What do the numbers mean? One to three plain sentences for each answer, made by rules.

A rule looks at an encoding and its result, a frozen dataclass, and gives a sentence with the number
that bears it, or nothing where its situation is not there. `CONCLUSIONS` has the rules of each kind
of result in order of weight; the first three that speak are the conclusion. No rule says more than
the numbers of its result do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from math import isnan, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers.grid_words import (
    aliasing_on_grid,
    from_its_frequencies,
    idle_on_grid,
    inversion_on_grid,
    not_a_rotation,
    point_from_codes,
    point_from_frequencies,
    points_without_code,
    products_on_grid,
    shape_on_grid,
    steps_along_axes,
    told_apart_on_grid,
    why_wide,
)
from pefourier.answers.text import agreeing, number
from pefourier.encodings.encoding import Encoding

if TYPE_CHECKING:  # one question starts without the rooms of the others
    from pefourier.faithful import Faithfulness
    from pefourier.reconstruct import Reconstructions
    from pefourier.relations import Relations
    from pefourier.spectrum import Spectrum

MOST = 3  # sentences of a conclusion
USUAL = ("float32", "float16", "bfloat16")  # formats that a conclusion speaks of
MERGED = 1e-6  # of a code's length: closer codes are as good as one in float32
FLOAT32_LIMIT = 2**20  # condition number from which rounding in float32 can hide a position
FLAT, SLOW, FAST = 0.9, pi / 2, 0.75  # flatness; where 95 % lie below; share above pi / 2
LONG = 4  # numbers of a list that are told one by one
SHARED = 0.05  # of a table's energy: what is the same in all rows is worth a sentence from here on
SHARP = 1.5  # positions: a rebuilt peak of this width is one sample
WIDE = 4.0  # positions: the width of a peak from which on its reason is told
EXACT = 1e-6  # error of a linear inverse that is rounding

POINTS = {"position": "positions", "lag": "lags", "time": "times", "tree": "nodes"} | {
    "point": "points"
}
STEPS = {"position": "positions", "lag": "lags", "time": "mean time steps", "tree": "edges"}


def conclude(enc: Encoding, result: Any) -> str:
    """The conclusion of a result about one encoding.

    >>> from pefourier.encodings import load
    >>> from pefourier.faithful import assess
    >>> dft = load("dft", length=8, d=4)
    >>> print(conclude(dft, assess(dft)))
    Only 4 of 8 positions have different codes: they repeat every 4, so 0 and 4 share one; take at
    most 4 positions, or --d 8 or more. In float32, float16 and bfloat16 the different codes stay
    different, rounded to the format or computed in it.
    """
    return first_sentences(rule(enc, result) for rule in CONCLUSIONS[type(result).__name__])


def first_sentences(found: Iterable[str]) -> str:
    """The first sentences of some that are not empty."""
    return " ".join(islice(filter(None, found), MOST))


def join(items: Iterable[str], word: str = "and") -> str:
    """Items as a sentence has them.

    >>> join(["float32", "float16", "bfloat16"])
    'float32, float16 and bfloat16'
    """
    *head, last = items
    return f"{', '.join(head)} {word} {last}" if head else last


def place(x: float) -> str:
    """The coordinate of a point: positions, lags and nodes are whole, times need not be."""
    return f"{x:g}" if isinstance(x, float) else str(x)


def two_places(a: float, b: float) -> tuple[str, str]:
    """Two points in as many digits as it takes to tell them apart.

    >>> two_places(71056.71, 71056.74), two_places(3, 4)
    (('71056.71', '71056.74'), ('3', '4'))
    """
    if place(a) != place(b) or a == b:
        return place(a), place(b)
    digits = next(n for n in range(7, 18) if f"{a:.{n}g}" != f"{b:.{n}g}")
    return f"{a:.{digits}g}", f"{b:.{digits}g}"


def two_ends(enc: Encoding, r: Faithfulness) -> tuple[str, ...]:
    """The closest two: scattered points by row and coordinates, others by their one.

    >>> from pefourier.encodings import load
    >>> from pefourier.faithful import assess
    >>> enc = load("fourier-features", d=4, times=[[48.1, 11.6], [52.5, 13.4]])
    >>> two_ends(enc, assess(enc))
    ('row 0 (48.1, 11.6)', 'row 1 (52.5, 13.4)')
    """
    if enc.domain.at is None:
        return two_places(*r.closest_pair)
    return tuple(
        f"row {row} ({', '.join(f'{v:.7g}' for v in enc.domain.at[row])})" for row in r.closest_pair
    )


# Can codes be told apart and inverted?


def surely_wrong(enc: Encoding, r: Faithfulness) -> str:
    """Findings that are surely a bug."""
    errors = [finding.message for finding in r.findings if finding.severity == "error"]
    if not errors:
        return ""
    more = f" ({len(errors) - 1} more below)" if len(errors) > 1 else ""
    return f"Surely a bug: {errors[0]}{more}."


def known_formula(enc: Encoding, r: Faithfulness) -> str:
    """What a table turned out to be."""
    if not r.identified:
        return ""
    difference = r.identified["max_difference"]
    how = f"to within {number(difference, 2)}" if difference else "exactly"
    parts = [f"{k}={in_brief(v)}" for k, v in r.identified["params"].items()]
    given = f" with {', '.join(parts)}" if parts else ""
    names = r.identified.get("conventions")
    whose = f": the convention of {join(names, 'or')}" if names else ""
    what = r.identified.get("spec") or f"{r.identified['encoding']}{given}"
    return f"The table is {what}, {how}{whose}."


def in_brief(value: Any) -> str:
    """A parameter of a formula; a long list by its length.

    >>> in_brief(1e4), in_brief([0, 2, 1, 3, 4])
    ('10000', '(5 numbers)')
    """
    long = isinstance(value, list) and len(value) > LONG
    return f"({len(value)} numbers)" if long else number(value, 7)


def told_apart(enc: Encoding, r: Faithfulness) -> str:
    """Whether points have codes of their own, and which two are closest."""
    points = POINTS[enc.domain.kind]
    if r.length == 1:
        return f"With one of the {points} there is nothing to tell apart; ask for more."
    if isnan(r.stable_rank):
        return f"All {r.length} codes are zero: they say nothing about {points}."
    if r.distinct == 1:
        return f"All {r.length} {points} share one code: none can be told from another."
    if r.distinct < r.length:
        return (
            f"Only {r.distinct} of {r.length} {points} have different codes: {collision(enc, r)}."
        )
    a, b = two_ends(enc, r)
    merged = ", so close that rounding may make them one" if r.gap <= MERGED else ""
    return (
        f"All {r.length} {points} have different codes; the closest two, {a} and {b}, are "
        f"{number(r.gap, 3)} of a code's length apart{merged}."
    )


def collision(enc: Encoding, r: Faithfulness) -> str:
    """Which points share a code, why where that is known, and what to do."""
    a, b = r.closest_pair
    codes = {finding.code for finding in r.findings}
    period = enc.measure.period if enc.measure is not None else None
    if period is not None and period < r.length:
        wider = f", or --d {r.length} or more" if enc.name == "dft" else ""
        repeat = f"they repeat every {period}, so {a} and {b} share one"
        return f"{repeat}; take at most {period} positions{wider}"
    if "repeating-codes" in codes and r.distinct == b - a:
        return f"they repeat every {b - a}, so {a} and {b} share one"
    if "clipped-index" in codes:
        return f"all from {a} on share one"
    if enc.domain.kind == "lag":
        return collision_of_lags(enc, r)
    first = f"{join(two_ends(enc, r))} are the first two that share one"
    return f"{first}; take at most {r.distinct} positions" if enc.stationary else first


def collision_of_lags(enc: Encoding, r: Faithfulness) -> str:
    """Which lags share a code, most often on purpose."""
    a, b = r.closest_pair
    if a == -b and r.distinct == r.length // 2 + 1:
        return (
            f"a lag and its opposite, such as {a} and {b}, share one, which tells the distance and "
            "not the direction; a decoder sees one direction, as causal=true has it"
        )
    sizes = ", ".join(f"{k}={enc.params[k]}" for k in SHARED_BY if k in enc.params)
    if sizes:
        return f"far lags share one by design ({sizes}), {a} and {b} first"
    return f"{a} and {b} are the first two that share one"


SHARED_BY = ("clip", "buckets", "max_distance")  # parameters by which far lags share a code


def inversion(enc: Encoding, r: Faithfulness) -> str:
    """Whether a linear map recovers position functions, and at what price."""
    point = POINTS[enc.domain.kind].removesuffix("s")
    if r.length == 1 or r.verdict == "collides":
        return ""
    if r.verdict == "isometric":
        return (
            f"A linear map recovers every {point} and amplifies no noise: codes are equally long "
            "and at right angles (condition number 1)."
        )
    if r.verdict == "invertible":
        amplified = f"up to {number(r.condition_number, 3)} times (the condition number)"
        limit = ", so that rounding in float32 can hide one"
        tail = limit if r.condition_number >= FLOAT32_LIMIT else ""
        return f"A linear map recovers every {point}, amplifying noise {amplified}{tail}."
    if enc.domain.kind == "lag":
        return ""  # a bias is used as it is: nothing has to be recovered from it
    most = "no more" if r.rank == r.dimension else f"at most {r.dimension}"
    why = f"; {r.dimension} dimensions allow {most}" if r.length > r.dimension else ""
    if not why and enc.domain.kind == "position" and enc.act == "add":
        why = "; the dft encoding of this size spans all"
    return (
        f"Linear maps of the codes can't pick out every {point} (1 there, 0 at others): they span "
        f"{r.rank} of {r.length} directions{why}."
    )


def in_low_precision(enc: Encoding, r: Faithfulness) -> str:
    """What float32, float16 and bfloat16 leave of the different codes."""
    if r.distinct == 1:
        return ""
    losses = {form: r.precision[form] for form in USUAL}
    cast = {f: x.distinct_cast for f, x in losses.items() if x.distinct_cast < r.distinct}
    phase = {
        f: x.distinct_phase
        for f, x in losses.items()
        if x.distinct_phase is not None and x.distinct_phase < r.distinct
    }
    if not cast and phase:
        return only_computed_wider(r, phase)
    codes = "the different codes" if r.distinct < r.length else "codes"
    both = all(x.distinct_phase is not None for x in losses.values())
    if not cast:
        ways = ", rounded to the format or computed in it" if both else ""
        return f"In {join(USUAL)} {codes} stay different{ways}{times_held(enc)}."
    kept = [form for form in USUAL if form not in cast]
    fine = f"; {join(kept)} keep{'s' if len(kept) == 1 else ''} all" if kept else ""
    worse = f"; computed in the format, {left(phase, r.distinct)}" if phase else ""
    return f"Rounded to the format, {left(cast, r.distinct)}{fine}{worse}{times_held(enc)}."


def times_held(enc: Encoding) -> str:
    """How many irregular times a format tells apart before any code is made of them.

    >>> from pefourier.encodings import load
    >>> times_held(load("mtan-fixed", d=4, times=[0.0, 1.0, 500.0, 500.5]))
    '; times held in the format are only 3 (bfloat16) of 4'
    """
    if enc.domain.kind != "time" or "times" not in enc.params:
        return ""
    from pefourier.geometry.precision import FORMATS, rounded

    x = enc.domain.x
    held = {form: len(np.unique(rounded(x, FORMATS[form]))) for form in USUAL}
    fewer = {form: count for form, count in held.items() if count < len(x)}
    if not fewer:
        return ""
    told = join(f"{count} ({form})" for form, count in fewer.items())
    return f"; times held in the format are only {told} of {len(x)}"


def only_computed_wider(r: Faithfulness, phase: Mapping[str, int]) -> str:
    """Codes that stay different where only the finished numbers are rounded."""
    from pefourier.geometry.precision import FORMATS

    rounds = [f"{2 ** FORMATS[f].digits}" for f in phase if r.length > 2 ** FORMATS[f].digits]
    why = f" (whole numbers above {join(rounds)} are rounded there)" if rounds else ""
    return (
        f"In {join(phase)} codes stay different if they are computed in a wider format and then "
        f"rounded, as transformers does; computed there throughout, "
        f"{left(phase, r.distinct)}{why}."
    )


def left(counts: Mapping[str, int], total: int) -> str:
    """How many codes are left in each format.

    >>> left({"float16": 700, "bfloat16": 385}, 1024)
    'only 700 (float16) and 385 (bfloat16) of 1024 codes differ'
    """
    return f"only {join(f'{n} ({form})' for form, n in counts.items())} of {total} codes differ"


# Which frequencies are there?


def same_everywhere(enc: Encoding, r: Spectrum) -> str:
    """How much of a table is no news of a position."""
    if r.summary.mean_share is None or r.summary.mean_share < SHARED:
        return ""
    share = f"{100 * r.summary.mean_share:.3g} %"
    return (
        f"{share} of the table's energy is the same in all rows, which attention can absorb; "
        "--demean leaves it out."
    )


def shape(enc: Encoding, r: Spectrum) -> str:
    """Where the energy lies: nowhere, at zero, evenly, in slow waves, in fast ones."""
    s, unit = r.summary, STEPS[enc.domain.kind]
    if isnan(s.lowest_bin_share):
        return "All codes are zero, so there is no spectrum."
    if is_blurred(r):
        return (
            f"The bandwidth of {number(r.sigma)} steps blurs most of a lattice of "
            f"{len(r.omega)} frequencies; take --sigma 0 or a longer --lattice to tell them apart."
        )
    if s.cutoff95 == 0:
        share = f"{100 * s.lowest_bin_share:.0f} %"
        return f"{share} of the energy is at frequency 0: nearly the same at all {unit}."
    if s.flatness >= FLAT:
        return (
            f"Energy is spread evenly: all frequencies have about the same share (flatness "
            f"{number(s.flatness, 3)} of 1)."
        )
    if s.cutoff95 <= SLOW:
        return (
            f"Slow waves dominate: 95 % of the energy is in waves of {wave(s.cutoff95)} {unit} or "
            f"longer (flatness {number(s.flatness, 2)}, where 1 is even)."
        )
    fast = float(r.density[r.omega > pi / 2].sum())
    if fast >= FAST:
        return f"Fast waves dominate: {100 * fast:.0f} % of the energy is in waves below 4 {unit}."
    middle = r.omega[np.searchsorted(np.cumsum(r.density), 0.5 - 1e-12)]
    return (
        f"Half of the energy is in waves of {wave(middle)} {unit} or longer, 95 % in waves of "
        f"{wave(s.cutoff95)} or longer (flatness {number(s.flatness, 2)}, where 1 is even)."
    )


def is_blurred(r: Spectrum) -> bool:
    """Whether a smoothed lattice is so short that everything looks flat."""
    return 8 * r.sigma > len(r.omega)


def wave(omega: float) -> str:
    """The length of a wave of an angular frequency.

    >>> wave(pi / 2), wave(0.0)
    ('4', 'infinitely many')
    >>> wave(1e-4)
    '62800'
    """
    if not omega:
        return "infinitely many"
    short = number(float(2 * pi / omega), 3)
    return f"{float(short):.0f}" if 1e3 < 2 * pi / omega < 1e15 else short


def below_first_step(enc: Encoding, r: Spectrum) -> str:
    """Frequencies that a lattice cannot tell from zero: waves longer than it."""
    if r.frequencies is None:
        return ""
    which = np.flatnonzero((r.frequencies > 0) & (r.frequencies < 2 * pi / r.lattice))
    slow = r.frequencies[which]
    if len(slow) == 0:
        return ""
    run = which[-1] - which[0] == len(which) - 1 > 0
    named = ""
    if run:
        columns = columns_of_waves(enc, which)
        named = f", numbers {which[0]} to {which[-1]} counted from 0{columns},"
    many = 2 * len(slow) >= len(r.frequencies)
    advice = "; a --lattice as long as your context, with --sigma 0, shows more" if many else ""
    finish = agreeing(len(slow), "finishes", "finish")
    return (
        f"{len(slow)} of {len(r.frequencies)} frequencies{named} never {finish} a turn within the "
        f"{r.lattice} points of the lattice: waves of up to {wave(slow.min())}{advice}."
    )


def columns_of_waves(enc: Encoding, which: np.ndarray) -> str:
    """The columns of a run of waves, of two each: the end of their numbers; empty if not known.

    >>> from pefourier.encodings import load
    >>> for layout in ("halves", "interleaved"):
    ...     print(columns_of_waves(load(f"rope:layout={layout}", 8, 16), np.array([6, 7])))
     (columns 6 to 7 and 14 to 15)
     (columns 12 to 15)
    """
    half, first, last = enc.dim // 2, which[0], which[-1]
    if enc.measure is None or len(enc.measure.frequencies) * 2 != enc.dim:
        return ""
    layout = enc.params.get("layout")
    if layout == "halves":
        return f" (columns {first} to {last} and {half + first} to {half + last})"
    return f" (columns {2 * first} to {2 * last + 1})" if layout == "interleaved" else ""


def aliasing(enc: Encoding, r: Spectrum) -> str:
    """Frequencies that whole positions cannot tell from slower ones."""
    above = 0 if r.frequencies is None else int((r.frequencies > pi).sum())
    if not above:
        return ""
    they = "is above π and looks like a slower one" if above == 1 else "are above π and look slower"
    return f"{above} of {len(r.frequencies)} frequencies {they} at whole positions (aliasing)."


def before_training(enc: Encoding, r: Spectrum) -> str:
    """Tables that training will change."""
    if not enc.untrained:
        return ""
    return "This is the encoding before training; for a trained one give the file of its table."


# What is left of a position?


def from_frequencies(enc: Encoding, r: Reconstructions) -> str:
    """How sharp a position comes back from the frequencies alone."""
    one = r.reconstructions[0]
    if isnan(one.peak):
        return "All codes are zero, so there is nothing to rebuild a position from."
    peak, error = number(one.peak, 3), number(one.error, 3)
    if one.width >= r.lattice:
        return (
            f"{from_its_frequencies(r)} nothing of a position is left: the rebuilt curve nowhere "
            f"falls to half of its peak of {peak}."
        )
    width = f"{number(one.width, 3)} position{'' if one.width == 1 else 's'}"
    how = f"{width} wide and {peak} of 1 high (error {error}; 0 is exact)"
    if one.width <= SHARP:
        return f"{from_its_frequencies(r)} a position comes back as a sharp peak, {how}."
    how += why_wide(enc, r) if one.width >= WIDE else ""
    return f"{from_its_frequencies(r)} a position comes back blurred, as a peak {how}."


def from_codes(enc: Encoding, r: Reconstructions) -> str:
    """Whether a linear map recovers positions from the codes."""
    error, positions = number(r.inverse_error, 2), f"{len(enc)} {POINTS[enc.domain.kind]}"
    if r.inverse_error <= EXACT:
        return f"A linear map on the codes recovers all {positions} (largest error {error})."
    return (
        f"A linear map on the codes does not recover all {positions}: the worst comes back wrong "
        f"by {error}, where a position is 1 high; check-faithful says why."
    )


def without_code(enc: Encoding, r: Reconstructions) -> str:
    """Positions beyond the encoding's length."""
    beyond = [one.position for one in r.reconstructions if one.inverse_error is None]
    if not beyond:
        return ""
    which = f"Position{'s' if len(beyond) > 1 else ''} {join(map(str, beyond))}"
    return f"{which} {'have' if len(beyond) > 1 else 'has'} no code at a length of {len(enc)}."


# How does the code of one position relate to that of another?


def products_by_lag(enc: Encoding, r: Relations) -> str:
    """Whether inner products depend on the lag alone."""
    if enc.domain.kind == "lag":
        return opposite_lags(enc, r)
    if r.kernel is None:
        return ""
    points = POINTS[enc.domain.kind]
    if r.toeplitz_residual > EXACT:
        return (
            f"Inner products of codes depend on the {points} and not on their lag alone (Toeplitz "
            f"residual {number(r.toeplitz_residual, 2)}; 0 is the lag alone)."
        )
    how = "never rise" if r.first_rise is None else f"rise first at lag {r.first_rise}"
    return f"Inner products of codes depend on the lag alone; with it they {how}."


def opposite_lags(enc: Encoding, r: Relations) -> str:
    """Whether before and after can be told apart."""
    if r.asymmetry is None:
        return "Only keys up to the query have a code: there are no opposite lags."
    if r.asymmetry <= EXACT:
        return "A lag and its opposite have the same code: distance is told and direction is not."
    return (
        f"A lag and its opposite have different codes (asymmetry {number(r.asymmetry, 2)}): "
        "direction is told."
    )


def steps_by_matrix(enc: Encoding, r: Relations) -> str:
    """Whether one linear map leads from every code to the next."""
    if r.shift_residual is None or r.kernel is None:
        return ""
    if r.shift_residual <= EXACT:
        return "One matrix leads from every code to the next: a fixed lag is a linear map."
    return (
        f"No matrix leads from every code to the next: the best is off by "
        f"{number(100 * r.shift_residual, 2)} % of the codes' size."
    )


def near_is_near(enc: Encoding, r: Relations) -> str:
    """Whether codes of near positions are near."""
    if r.distance_preservation is None:
        return ""
    return (
        f"Distances of codes and of {POINTS[enc.domain.kind]} correlate by "
        f"{number(r.distance_preservation, 2)} (1: near codes are near {POINTS[enc.domain.kind]})."
    )


def without_products(enc: Encoding, r: Relations) -> str:
    """Codes of zeros, and points that have no lags."""
    if not enc.domain.has_lags:
        what = "Nodes of a tree" if enc.domain.kind == "tree" else "Scattered points"
        return f"{what} have no lags; 'pefourier check-faithful' says what their codes do."
    zero = enc.domain.kind != "lag" and r.kernel is None
    return "All codes are zero: they say nothing about positions." if zero else ""


CONCLUSIONS: dict[str, tuple[Callable[[Encoding, Any], str], ...]] = {
    "Faithfulness": (surely_wrong, known_formula, told_apart, inversion, in_low_precision),
    "Spectrum": (shape, same_everywhere, below_first_step, aliasing, before_training),
    "Reconstructions": (from_frequencies, from_codes, without_code),
    "GridFaithfulness": (
        surely_wrong,
        known_formula,
        told_apart_on_grid,
        inversion_on_grid,
        in_low_precision,
    ),
    "GridSpectrum": (shape_on_grid, idle_on_grid, aliasing_on_grid, before_training),
    "GridReconstructions": (point_from_frequencies, point_from_codes, points_without_code),
    "GridRelations": (not_a_rotation, products_on_grid, steps_along_axes, near_is_near),
    "Relations": (products_by_lag, steps_by_matrix, near_is_near, without_products),
}

"""How is it told whether codes are distinct and can be inverted? `pefourier check-faithful`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers import places, telling
from pefourier.answers.faithful_figures import faithful
from pefourier.answers.telling import Fact
from pefourier.encodings.encoding import Encoding, largest_number
from pefourier.encodings.grids import size_of
from pefourier.encodings.specs import source_of
from pefourier.geometry.grown_grids import frequencies_on_axes
from pefourier.geometry.randomness import BEYOND
from pefourier.geometry.singular_values import decompose
from pefourier.writing.page import Page, fields_of
from pefourier.writing.text import aligned, first_few, join, number, paragraph

if TYPE_CHECKING:
    from pefourier.analysis.faithful import Faithfulness

TOLD_FORMATS = ("float32", "float16", "bfloat16")  # formats that a conclusion speaks of
MERGED = 1e-6  # of a code's length: closer codes are as good as one in float32
FLOAT32_LIMIT = 2**20  # condition number from which rounding in float32 can hide a position

phrase = partial(telling.sentence, "faithful")
FEWEST_ALIKE = 16  # points of which it is said whether neighbours are alike
ALIKE, HARDLY = 0.5, 0.2  # correlations of their codes from which on they are, or a little
SHARED_BY = ("clip", "buckets", "max_distance")  # parameters by which far lags share a code
NEAREST = 2**12  # lags among which those that share a code are looked for
RUNS = 16  # of such lags, that are told


def faithful_page(asked: Sequence[telling.Answer | telling.Refusal]) -> Page:
    """The answer of `pefourier check-faithful`; of several SPECs also what speaks for which."""
    page = TOLD.page(asked)
    answers = [one for one in asked if isinstance(one, telling.Answer)]
    if len(answers) < 2:  # the room of choices stays closed
        return page
    from pefourier.answers.choice import choose, with_command

    def conclude_all() -> str:
        chosen = choose(answers)
        return page.conclusion() + (with_command(chosen, "  ") if chosen else "")

    return replace(page, conclusion=conclude_all, together=partial(choose, answers))


def why_singular(answer: telling.Answer) -> str:
    """Why the condition number is infinite."""
    r = answer.result
    return f"infinite: rank {r.rank} of {min(r.length, r.dimension)}"


def why_no_shift(answer: telling.Answer) -> str:
    """Why no matrix that moves codes by a position was looked for, or any would do."""
    if answer.encoding.domain.kind not in ("position", "time"):
        return f"not for {answer.encoding.domain.kind}s"
    if answer.encoding.domain.irregular:
        return "steps are uneven"
    if answer.result.length == 1:
        return "only one position"
    from pefourier.analysis.relations import LARGEST_SHIFT

    if answer.result.dimension > LARGEST_SHIFT:
        return f"not fitted for d over {LARGEST_SHIFT}"
    return "any T fits: codes are independent"


def why_no_lags(answer: telling.Answer) -> str:
    """Why codes are not compared by lag."""
    return "steps are uneven" if answer.encoding.domain.irregular else "no lags"


def why_no_rise(answer: telling.Answer) -> str:
    """Why there is no lag from which inner products rise."""
    enc = answer.encoding
    if not (enc.domain.has_lags or enc.lag_alone) or enc.act == "key":
        return "no inner products by lag"
    zero = isnan(answer.result.stable_rank)
    return "none: codes are zero" if zero else "they never rise"


FAITHFUL_FACTS = [
    Fact("verdict", lambda r: r.verdict),
    Fact("faithful (no two share a code)", lambda r: "yes" if r.faithful else "no"),
    Fact("positions", lambda r: r.length),
    Fact("dimensions", lambda r: r.dimension),
    Fact("distinct codes", lambda r: r.distinct),
    Fact("smallest distance", lambda r: r.min_distance, "only one position"),
    Fact(
        "  between positions",
        lambda r: r.closest_pair and "{} and {}".format(*r.closest_pair),
        "only one position",
    ),
    Fact("  over rms code length (gap)", lambda r: r.gap, "only one position"),
    Fact("rank", lambda r: r.rank),
    Fact("  singular values above", lambda r: r.rank_tolerance),
    Fact("condition number", lambda r: r.condition_number, why_singular),
    Fact("error of the linear inverse", lambda r: r.inverse_error),
    Fact("stable rank", lambda r: r.stable_rank, "none: codes are zero"),
    Fact("Toeplitz residual", lambda r: r.toeplitz_residual, why_no_lags),
    Fact("residual of T(1) (Denk)", lambda r: r.shift_residual, why_no_shift),
    Fact("inner products rise first at lag", lambda r: r.first_rising_lag, why_no_rise),
]


def displacement_in_words(r: Faithfulness) -> str | None:
    """The closest points of a grid, and how far they are apart."""
    if r.displacement is None:
        return None
    return f"{' to '.join(two_ends(r.about[0], r))}, {places.point_of(r.displacement)}"


def split_in_words(r: Faithfulness) -> str | None:
    """How many dimensions of a code each axis turns, where each pair has one.

    >>> from pefourier.analysis.faithful import assess
    >>> from pefourier.encodings import load
    >>> split_in_words(assess(load("axial-rope:convention=wan,grid=2x3x4", d=128)))
    't 44, y 42, x 42'
    """
    enc = r.about[0]
    if r.grid is None or enc.measure is None:
        return None
    turned = frequencies_on_axes(enc.measure) != 0
    shared = 2 * len(turned) != enc.dim or turned.sum(axis=1).max() > 1
    return "shared by axes" if shared else places.by_axis(2 * turned.sum(axis=0))


GRID_FAITHFUL_FACTS = [
    Fact("grid", lambda r: r.grid if r.grid is None else size_of(r.grid), telling.why_no_axes),
    Fact("dimensions of each axis", split_in_words, telling.why_no_axes),
    Fact("rows before the grid", lambda r: r.prefix, telling.why_no_axes),
    Fact("closest points, displacement", lambda r: displacement_in_words(r), telling.why_no_axes),
    Fact("error of a(y) + b(x)", lambda r: r.separable_error, telling.why_no_axes),
    *telling.AXIS_FACTS,
]


def why_no_phases(answer: telling.Answer) -> str:
    """Why no phases were rounded."""
    if answer.encoding.measure is not None and answer.encoding.domain.kind == "time":
        return "irregular times"
    return "no frequencies declared"


def why_no_phase_error(answer: telling.Answer) -> str:
    """Why there is no largest error of a phase."""
    computed = answer.result.distinct_phase is not None
    return "beyond its range" if computed else why_no_phases(answer)


PRECISION_FACTS = [
    Fact("different when rounded to it", lambda r: r.distinct_cast),
    Fact("when computed in it", lambda r: r.distinct_phase, why_no_phases),
    Fact("phase error there, rad", lambda r: r.max_phase_error, why_no_phase_error),
]


def faithful_text(answers: Sequence[telling.Answer]) -> str:
    """The facts of each encoding, what low precision costs it, and the findings in full."""
    text = telling.side_by_side(FAITHFUL_FACTS, answers)
    if telling.any_grid(answers):
        text += "\n" + telling.side_by_side(GRID_FAITHFUL_FACTS, answers)
    text += precision_text(answers)
    for a in answers:
        if a.result.identified:
            text += f"\n{a.encoding.label} is {formula_in_words(a.result.identified)}\n"
        for finding in a.result.findings:
            message = f"{a.encoding.label}: {finding.message} [{finding.code}]"
            text += f"\n{finding.severity}: {message}\n"
    return text


def precision_text(answers: Sequence[telling.Answer]) -> str:
    """What formats leave of the encodings that lose codes in one that is spoken of."""
    parts = []
    for a in answers:
        if any(lost_in_formats(a.result)):
            rows = [[a.encoding.label, *a.result.precision]]
            for fact in PRECISION_FACTS:
                cells = (
                    fact.cell(telling.Answer(a.encoding, x)) for x in a.result.precision.values()
                )
                rows.append([fact.label, *cells])
            parts.append(aligned(rows))
    told = "rounded to it: computed in float64, then rounded; computed in it: every step is rounded"
    return "".join(f"\n{part}" for part in parts) + (paragraph(told) if parts else "")


def lost_in_formats(r: Faithfulness) -> tuple[dict[str, int], dict[str, int]]:
    """How many codes the formats that lose some keep, rounded to them and computed in them."""
    cast = {form: r.precision[form].distinct_cast for form in TOLD_FORMATS}
    phase = {form: r.precision[form].distinct_phase for form in TOLD_FORMATS}
    fewer = (
        {form: n for form, n in one.items() if n is not None and n < r.distinct}
        for one in (cast, phase)
    )
    return tuple(fewer)


def formula_in_words(identified: Mapping[str, Any]) -> str:
    """What a table turned out to be, in words."""
    params = ", ".join(f"{k}={number(v, 7)}" for k, v in identified["params"].items())
    names = identified.get("conventions", ())
    whose = f" (the convention of {', '.join(names)})" if names else ""
    what = identified.get("spec") or f"{identified['encoding']} with {params or 'no parameters'}"
    return f"{what}{whose}; largest difference {number(identified['max_difference'], 2)}"


def faithful_rows(answers: Sequence[telling.Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding: the single numbers, then distinct codes in each format."""
    several = ("identified", "precision", "findings", "closest_pair")
    names = dict.fromkeys(name for a in answers for name in fields_of(a.result))
    single = [name for name in names if name not in several]
    kinds = ("distinct_cast", "distinct_phase")
    each = [(form, kind) for form in answers[0].result.precision for kind in kinds]
    heads = [f"{kind}_{form}" for form, kind in each]
    yield ["encoding", "spec", *single, "closest_a", "closest_b", *heads, "findings"]
    for a in answers:
        r = a.result
        counts = [getattr(r.precision[form], kind) for form, kind in each]
        values = [telling.in_one_cell(getattr(r, name, None)) for name in single]
        found = " ".join(finding.code for finding in r.findings)
        pair = r.closest_pair or (None, None)
        yield [a.encoding.name, a.encoding.spec, *values, *pair, *counts, found]


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
    """The closest two: on a grid points, scattered ones by row and coordinates, else positions.

    >>> from pefourier.encodings import load
    >>> from pefourier.analysis.faithful import assess
    >>> enc = load("fourier-features", d=4, times=[[48.1, 11.6], [52.5, 13.4]])
    >>> two_ends(enc, assess(enc))
    ('row 0 (48.1, 11.6)', 'row 1 (52.5, 13.4)')
    """
    if r.on_grid:
        start = [int(x) for x in enc.domain.coordinates([r.closest_pair[0]])[0]]
        moved = [x + step for x, step in zip(start, r.displacement, strict=True)]
        return places.point_of(start), places.point_of(moved)
    if ids := enc.params.get("position_ids"):  # of t, y and x, where spans were given
        return tuple(f"token {x} at {places.point_of(of[x] for of in ids)}" for x in r.closest_pair)
    if enc.domain.at is None:
        return two_places(*r.closest_pair)
    return tuple(
        f"row {row} ({', '.join(f'{v:.7g}' for v in enc.domain.at[row])})" for row in r.closest_pair
    )


def surely_wrong(enc: Encoding, r: Faithfulness) -> str:
    """Findings that are surely a bug."""
    errors = [finding.message for finding in r.findings if finding.severity == "error"]
    if not errors:
        return ""
    more = f" ({len(errors) - 1} more below)" if len(errors) > 1 else ""
    return f"This is surely a bug: {errors[0]}{more}."


def known_formula(enc: Encoding, r: Faithfulness) -> str:
    """What a table turned out to be."""
    if not r.identified:
        random = any(finding.code == "random-codes" for finding in r.findings)
        return telling.sentence("telling", "random") if random else neighbours_alike(enc)
    difference = r.identified["max_difference"]
    how = f"to within {number(difference, 2)}" if difference else "exactly"
    parts = [f"{k}={in_brief(v)}" for k, v in r.identified["params"].items()]
    given = f" with {', '.join(parts)}" if parts else ""
    names = r.identified.get("conventions")
    whose = f": the convention of {join(names, 'or')}" if names else ""
    what = r.identified.get("spec") or f"{r.identified['encoding']}{given}"
    return f"The table is {what}, {how}{whose}."


def neighbours_alike(enc: Encoding) -> str:
    """How much the codes of a table of no known formula follow the order of its points."""
    from pefourier.analysis.relations import neighbour_likeness, neighbours_beyond_chance

    table = enc.measure is None and enc.act == "add" and enc.domain.kind == "position"
    enough = len(enc) - enc.domain.prefix >= FEWEST_ALIKE
    alike = neighbour_likeness(enc) if table and enough else None
    if alike is None:
        return ""
    sides = enc.domain.sides
    points = f"the {size_of(sides)} grid" if len(sides) > 1 else "the order of positions"
    told = {"alike": alike, "points": points}
    if alike >= HARDLY:
        return phrase("alike", few="" if alike >= ALIKE else "a little ", **told)
    beyond = neighbours_beyond_chance(enc)
    return phrase("weak", beyond=beyond, **told) if beyond > BEYOND else ""


def in_brief(value: Any) -> str:
    """A parameter of a formula; a long list by its length.

    >>> in_brief(1e4), in_brief([0, 2, 1, 3, 4])
    ('10000', '(5 numbers)')
    """
    long = isinstance(value, list) and len(value) > telling.LONG
    return f"({len(value)} numbers)" if long else number(value, 7)


def told_apart(enc: Encoding, r: Faithfulness) -> str:
    """Whether points have codes of their own, which two are closest, and what has no place."""
    points = places.points_in_words(enc)
    told = {"r": r, "points": f"{points} of the {size_of(r.grid)} grid" if r.on_grid else points}
    told["rest"] = f". {in_front(r.prefix, r.prefix_zeros).capitalize()}" if r.prefix else ""
    if r.length == 1:
        return phrase("one", **told)
    if isnan(r.stable_rank):
        return phrase("zero", **told)
    if r.distinct == 1:
        return phrase("share", **told)
    ends = join(two_ends(enc, r)) + step_between(r)
    if r.distinct < r.length:
        return phrase("fewer", why=f"{ends} share one" if r.on_grid else collision(enc, r), **told)
    close = r.gap <= MERGED and "float32" in lost_in_formats(r)[0]
    merged = ", so close that rounding may make them one" if close else ""
    return phrase("differ", kept=kept_in_formats(r), ends=ends, merged=merged, **told)


def step_between(r: Faithfulness) -> str:
    """How far the closest two points of a grid are apart, as a sentence goes on."""
    return f", {places.step_in_words(r.displacement)}," if r.on_grid else ","


def kept_in_formats(r: Faithfulness) -> str:
    """That all codes stay different in low precision, where they do; not of grids."""
    cast, phase = lost_in_formats(r)
    if r.on_grid or cast:
        return ""
    if phase:
        return f", also cast to {join(TOLD_FORMATS, 'or')}, but not computed in {join(phase, 'or')}"
    if any(r.precision[form].distinct_phase is None for form in TOLD_FORMATS):
        return f", also rounded to {join(TOLD_FORMATS, 'or')}"
    return f", also in {join(TOLD_FORMATS)}"


def collision(enc: Encoding, r: Faithfulness) -> str:
    """Which points share a code, and why where that is known."""
    a, b = r.closest_pair
    codes = {finding.code for finding in r.findings}
    period = enc.measure.period if enc.measure is not None else None
    if period is not None and period < r.length:
        return f"they repeat every {period}, so {a} and {b} share one"
    if "repeating-codes" in codes and r.distinct == b - a:
        return f"they repeat every {b - a}, so {a} and {b} share one"
    if "clipped-index" in codes:
        return f"all from {a} on share one"
    if enc.domain.kind == "lag" and (why := collision_of_lags(enc, r)):
        return why
    return f"{join(two_ends(enc, r))} are the first two that share one"


def what_to_take(enc: Encoding, r: Faithfulness) -> str:
    """Which input, or how many positions have codes of their own, where that is a formula's."""
    if r.on_grid or not 1 < r.distinct < r.length or not r.stable_rank > 0:
        return ""
    period = enc.measure.period if enc.measure is not None else None
    if period is not None and period < r.length:
        wider = f", or --d {r.length} or more" if enc.name == "dft" else ""
        return f"Take at most {period} positions{wider}."
    if enc.domain.kind == "lag" and r.closest_pair[0] == -r.closest_pair[1]:
        return "A decoder sees one direction: causal=true." if "causal" in enc.params else ""
    known = {finding.code for finding in r.findings} & {"repeating-codes", "clipped-index"}
    if "repeating-codes" in known and r.distinct == r.closest_pair[1] - r.closest_pair[0]:
        return phrase("cycle", r=r)
    if known or enc.domain.kind == "lag" or not enc.stationary:
        return ""
    return f"Take at most {r.distinct} positions."


def collision_of_lags(enc: Encoding, r: Faithfulness) -> str:
    """Which lags share a code on purpose."""
    a, b = r.closest_pair
    if a == -b and r.distinct == r.length // 2 + 1:
        return phrase("opposite lags", a=a, b=b)
    sizes = ", ".join(f"{k}={enc.params[k]}" for k in SHARED_BY if k in enc.params)
    if sizes:
        near = enc.table(-np.arange(min(-int(enc.domain.x[0]), NEAREST) + 1))
        alike = np.flatnonzero((near[1:] == near[:-1]).all(axis=1))
        parts = np.split(alike, np.flatnonzero(np.diff(alike) > 1) + 1) if len(alike) else []
        runs = first_few([f"{one[0]}-{one[-1] + 1}" for one in parts], RUNS)
        return f"far lags share one by design ({sizes}){runs and f': distances {runs}'}"
    return ""


def inversion(enc: Encoding, r: Faithfulness) -> str:
    """Whether a linear map recovers position functions, and at what price."""
    if r.length == 1 or r.verdict == "collides" or enc.domain.kind == "lag":
        return ""  # a bias is used as it is: nothing has to be recovered from it
    point = places.points_in_words(enc).removesuffix("s")
    if r.verdict in ("isometric", "invertible"):
        limit = "; rounding in float32 can hide one"
        tail = limit if r.condition_number >= FLOAT32_LIMIT else ""
        return phrase(r.verdict, point=point, r=r, tail=tail)
    why = allowed_by_dimensions(r)
    if r.on_grid:
        return directions_on_grid(r, why)
    if why and enc.act == "rotate":
        return ""  # more positions than dimensions, and no layer reads a rotation's codes
    if not why and enc.domain.kind == "position" and enc.act == "add":
        why = " (dft spans all)"
    return phrase("few directions", point=point, r=r, why=why)


def allowed_by_dimensions(r: Faithfulness) -> str:
    """That more points than dimensions leave no other choice, where it is so."""
    if r.length <= r.dimension:
        return ""
    most = "no more" if r.rank == r.dimension else f"at most {r.dimension}"
    return f"; {r.dimension} dimensions allow {most}"


def in_low_precision(enc: Encoding, r: Faithfulness) -> str:
    """What float32, float16 and bfloat16 leave of the different codes, where they lose some."""
    if r.distinct == 1:
        return ""
    cast, phase = lost_in_formats(r)
    if not cast and phase:
        return only_computed_wider(enc, r, phase)
    if not cast:
        return times_held(enc)
    kept = [form for form in TOLD_FORMATS if form not in cast]
    fine = f"; {join(kept)} keep{'s' if len(kept) == 1 else ''} all" if kept else ""
    worse = f"; computed in the format, {left(phase, r.distinct)}" if phase else ""
    told = f"Rounded to the format, {left(cast, r.distinct)}{fine}{overflow(enc, cast)}{worse}."
    return f"{told} {times_held(enc)}".rstrip()


def overflow(enc: Encoding, cast: Iterable[str]) -> str:
    """In which formats numbers of a table become infinite, as a sentence goes on.

    >>> from pefourier.encodings.encoding import from_table
    >>> overflow(from_table(np.array([[1.0], [7e4]])), ["float16"])
    '; numbers beyond 65504 overflow in float16'
    """
    from pefourier.geometry.precision import FORMATS

    top = largest_number(enc.table()) if enc.measure is None and enc.fits else 0.0
    beyond = {form: FORMATS[form].largest for form in cast if top > FORMATS[form].largest}
    return "".join(f"; numbers beyond {x:.6g} overflow in {form}" for form, x in beyond.items())


def times_held(enc: Encoding) -> str:
    """How many irregular times a format tells apart before any code is made of them.

    >>> from pefourier.encodings import load
    >>> times_held(load("mtan-fixed", d=4, times=[0.0, 1.0, 500.0, 500.5]))
    'If the times themselves are rounded, only 3 (bfloat16) of 4 stay different.'
    """
    if enc.domain.kind != "time" or "times" not in enc.params:
        return ""
    from pefourier.geometry.precision import FORMATS, rounded

    x = enc.domain.x
    held = {form: len(np.unique(rounded(x, FORMATS[form]))) for form in TOLD_FORMATS}
    fewer = {form: count for form, count in held.items() if count < len(x)}
    if not fewer:
        return ""
    told = join(f"{count} ({form})" for form, count in fewer.items())
    return f"If the times themselves are rounded, only {told} of {len(x)} stay different."


def only_computed_wider(enc: Encoding, r: Faithfulness, phase: Mapping[str, int]) -> str:
    """Codes that stay different where only the finished numbers are rounded."""
    from pefourier.geometry.precision import FORMATS

    far = r.length - 1 if enc.walk is None else enc.walk[1].max()
    rounds = [f"{2 ** FORMATS[f].digits}" for f in phase if far >= 2 ** FORMATS[f].digits]
    why = f" (whole numbers above {join(rounds)} are rounded)" if rounds else ""
    largest = FORMATS["float16"].largest
    if "float16" in phase and far > largest:
        why = f"{why[:-1]}, and positions beyond {largest:.0f} overflow in float16)"
    wider = "float32" if "float32" not in phase else "float64"
    if len(phase) > 1:
        lost = f"computed in the format, {left(phase, r.distinct)}"
    else:
        ((form, count),) = phase.items()
        lost = f"computed in {form}, only {count} of {r.distinct} differ"
    return f"Compute codes in {wider} and then round them: {lost}{why}."


def left(counts: Mapping[str, int], total: int) -> str:
    """How many codes are left in each format.

    >>> left({"float16": 700, "bfloat16": 385}, 1024)
    'only 700 (float16) and 385 (bfloat16) of 1024 codes differ'
    """
    return f"only {join(f'{n} ({form})' for form, n in counts.items())} of {total} codes differ"


def in_front(prefix: int, zeros: int = 0) -> str:
    """What is said of rows without a place, some of which are zeros.

    >>> in_front(1)
    'row 0, before the grid, has no place and is left out'
    >>> in_front(5, 1).rpartition(": ")[2]
    '1 of them is all zeros, as class tokens of sine tables are'
    """
    one = prefix == 1
    which = "it" if one else "they" if zeros == prefix else f"{zeros} of them"
    told = phrase("front zeros", which=which, zeros=zeros) if zeros else ""
    return phrase("row in front" if one else "rows in front", last=prefix - 1, told=told)


def directions_on_grid(r: Faithfulness, why: str) -> str:
    """Whether linear maps recover sums of one function an axis, or not even those."""
    from pefourier.geometry.on_axes import separable_rank

    names = places.axis_names(len(r.grid))
    sums = " + ".join(f"{letter}({name})" for letter, name in zip("abcdefgh", names, strict=False))
    most = f"{separable_rank(r.grid)} of {r.length}"
    only = "every column depends on one axis, which allows no more"
    if r.verdict == "separable":
        return phrase("sums", sums=sums, r=r, why=f" ({only})" if r.axial else "")
    why = f"; {only} than {most}, the functions {sums}" if r.axial else why
    return phrase("few directions", point="point", r=r, why=lost_to_rounding(r) + why)


def lost_to_rounding(r: Faithfulness) -> str:
    """How many directions a stored table lacks that the formula which it holds has.

    >>> from pefourier.encodings import build
    >>> from pefourier.encodings.encoding import from_table
    >>> from pefourier.encodings.grids import on_grid
    >>> from pefourier.analysis.faithful import assess
    >>> table = build("axial", d=768, grid=(14, 14), convention="mae").table()
    >>> stored = from_table(table.astype("float32"), eps=2**-23)
    >>> lost_to_rounding(assess(on_grid(stored, (14, 14), 0)))
    ' (in float64 its formula spans 27 and is separable)'
    """
    spec = (r.identified or {}).get("spec")
    if not spec:
        return ""
    from pefourier.encodings.specs import load
    from pefourier.geometry.on_axes import separable_rank

    sides = "x".join(map(str, r.grid))
    own = load(f"{spec}{',' if ':' in spec else ':'}grid={sides}", d=r.dimension)
    rank = decompose(own).rank
    better = rank >= separable_rank(r.grid)
    and_is = " and is separable" if better else ""
    return f" (in float64 its formula spans {rank}{and_is})" if rank > r.rank else ""


FAITHFUL = {
    "length": lambda r: r.length,
    "verdict": lambda r: r.verdict,
    "smallest distance": lambda r: r.min_distance,
    "rank": lambda r: r.rank,
    "condition number": lambda r: r.condition_number,
    "different in bfloat16": lambda r: r.precision["bfloat16"].distinct_cast,
    "computed in it": lambda r: r.precision["bfloat16"].distinct_phase,
}


def faithful_over_lengths(page: Page, answers: Sequence[telling.Answer]) -> Page:
    """The page of `pefourier check-faithful` for several lengths: a table in place of pages."""

    def row(a: telling.Answer) -> Iterable[Sequence[Any]]:
        yield [tell(a.result) for tell in FAITHFUL.values()]

    return telling.over_lengths(page, answers, FAITHFUL, row, conclude_faithful)


def conclude_faithful(name: str, answers: Sequence[telling.Answer]) -> str:
    """From which length on a verdict changes, and up to which length formats are safe."""
    results = [a.result for a in answers]
    first = f"{name}: {results[0].verdict} at {results[0].length} positions"
    later = [
        f"{r.verdict} from {r.length} on"
        for before, r in pairwise(results)
        if r.verdict != before.verdict
    ]
    rest = later or [f"and at all up to {results[-1].length}"]
    whole = f"{first}{',' if later else ''} {', '.join(rest)}."
    return f"{whole} {safe_words(results[-1])}".rstrip()


def safe_words(result: Any) -> str:
    """Up to which length codes that are computed in 16 bits stay different."""
    lost = {
        form: result.precision[form].safe_phase
        for form in ("bfloat16", "float16")
        if (result.precision[form].safe_phase or result.length) < result.length
    }
    if not lost:
        return ""
    named = " and ".join(f"{form} to {length}" for form, length in lost.items())
    return f"Computed throughout in {named} positions, codes stay different; beyond, some are lost."


def model_of(enc: Encoding) -> dict[str, Any]:
    """What of a model's config acts beside the codes: its layers, what multiplies logits."""
    if "model_type" not in enc.params or source_of(enc.spec) != "config":
        return {}
    from pefourier.encodings.sources.layers import tell_layers

    factor = enc.params.get("softmax_factor", 1.0)
    return {"layers": tell_layers(enc.spec), "softmax_factor": factor}


def conclude_faithfulness(enc: Encoding, r: Faithfulness) -> telling.Said:
    """The verdict, which codes differ, what to change, and what linear maps recover."""
    found = surely_wrong(enc, r), known_formula(enc, r), in_low_precision(enc, r)
    automatic = r.length > r.dimension or r.on_grid
    more = (*found, inversion(enc, r)) if automatic else (inversion(enc, r), *found)
    return telling.Said(r.verdict.upper(), told_apart(enc, r), what_to_take(enc, r), more)


TOLD = telling.Telling(
    "check-faithful",
    conclude=conclude_faithfulness,
    words=faithful_text,
    rows=faithful_rows,
    record=lambda a: telling.record_of_fields(a) | model_of(a.encoding),
    figure=faithful,
)

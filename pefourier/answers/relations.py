"""How is it told how codes relate to one another? The answer of `pefourier relations`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.analysis.context import slopes_of
from pefourier.analysis.relations import lag_axis, neighbour_likeness
from pefourier.answers import telling
from pefourier.answers.faithful import neighbours_alike, why_no_lags, why_no_shift
from pefourier.answers.kernel import draw_kernels
from pefourier.answers.places import POINTS, axis_names, by_axis, by_name, point_of
from pefourier.answers.plot import USUAL, WIDTH, Look, add_legend, make_panels, room_for_names
from pefourier.answers.table_reach import slopes_in_words, slopes_text
from pefourier.answers.telling import Fact
from pefourier.encodings.encoding import Encoding
from pefourier.geometry.randomness import numbers_look_random
from pefourier.writing.text import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pefourier.analysis.relations import Relations

NEAR = 0.5  # correlation of distances from which on near points are said to have near codes
MEANS = partial(telling.meaning_of, "relations")
phrase = partial(telling.sentence, "relations")
LEFT = 0.05  # of the inner product at lag 0, below which nothing is said of directions


def relations_text(answers: Sequence[telling.Answer]) -> str:
    """The facts of each encoding; of grids diagonals, too, and whether heads are rotated."""
    facts = [*RELATIONS_FACTS, *(GRID_FACTS if telling.any_grid(answers) else ())]
    text = telling.side_by_side(facts, answers)
    heads = [(s, max(a.encoding.domain.x)) for a in answers if (s := slopes_of(a.encoding))]
    return text + "".join(f"\n{slopes_text(slopes, int(last))}" for slopes, last in heads)


def why_no_lag(answer: telling.Answer) -> str:
    """Why there is no lag from which inner products rise."""
    return "no inner products by lag" if answer.result.kernel is None else "they never rise"


def why_no_correlation(answer: telling.Answer) -> str:
    """Why distances were not correlated."""
    sequence = answer.encoding.domain.kind in ("position", "time")
    return "distances are equal" if sequence else f"not for {answer.encoding.domain.kind}s"


def straight_of(r: Any) -> str | None:
    """Inner products some points along the last two axes."""
    found = r.diagonals
    if found is None:
        return None
    return f"{by_name(axis_names(len(r.grid))[-2:], found.on_axes)} after {found.straight} points"


def diagonal_of(r: Any) -> str | None:
    """The inner product as far on the diagonals."""
    found = r.diagonals
    if found is None:
        return None
    return f"{number(found.on_diagonals, 3)} after ({found.diagonal},{found.diagonal})"


def why_no_diagonal(answer: telling.Answer) -> str:
    """Why diagonals were not compared with rows and columns."""
    return "no inner products by lag" if answer.result.kernel is None else "sides are too short"


RELATIONS_FACTS = [
    Fact("positions", lambda r: r.length),
    Fact("dimensions", lambda r: r.dimension),
    Fact("Toeplitz residual", lambda r: r.toeplitz_residual, why_no_lags),
    Fact("inner products rise first at lag", lambda r: r.first_rise, why_no_lag),
    Fact("residual of T(1) (Denk)", lambda r: r.shift_residual, why_no_shift),
    Fact("asymmetry of lags", lambda r: r.asymmetry, "no opposite lags"),
    Fact(
        "correlation of distances",
        lambda r: r.distance_preservation,
        why_no_correlation,
    ),
]


GRID_FACTS = [
    Fact("as far along the axes", straight_of, why_no_diagonal),
    Fact("as far on the diagonals", diagonal_of, why_no_diagonal),
    Fact("away from a rotation", lambda r: r.rotation_residual, "nothing is turned"),
]


def relations_rows(answers: Sequence[telling.Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding and lag; on a grid for each displacement, its lags with × between."""
    yield "encoding", "spec", "lag", "inner_product"
    for a in answers:
        kernel = a.result.kernel
        if kernel is None:
            continue
        middle = [n // 2 if kernel.ndim > 1 else 0 for n in kernel.shape]
        for index in np.ndindex(kernel.shape):
            lag = "×".join(str(i - m) for i, m in zip(index, middle, strict=True))
            own = lag if a.result.lags is None else a.result.lags[index]
            yield a.encoding.name, a.encoding.spec, own, kernel[index]


def products_by_lag(enc: Encoding, r: Relations) -> tuple[str, str]:
    """Whether inner products depend on the lag alone, and how they fall with it."""
    if not (enc.domain.has_lags or enc.lag_alone):
        return MEANS("NO LAGS", what=phrase(f"lags of {enc.domain.kind}"))
    if enc.domain.kind == "lag":
        return opposite_lags(r)
    if r.kernel is None:
        return MEANS("ALL ZERO", points=POINTS[enc.domain.kind])
    if r.toeplitz_residual > telling.EXACT:
        return MEANS("DEPENDS ON POSITION", residual=number(r.toeplitz_residual, 2))
    step = "" if lag_axis(enc)[1] == 1 else f", looked at every {number(r.lags[1], 2)}"
    unit = "" if r.lags is None else f" (lags in the unit of the times{step})"
    return MEANS("DEPENDS ON LAG ALONE", fall=fall(r) + unit)


def fall(r: Relations) -> str:
    """At which lags inner products are first below half and last above, and how long they fall.

    >>> from pefourier.analysis.relations import relate
    >>> from pefourier.encodings import load
    >>> fall(relate(load("rope", 512, 64)))
    'first drop below half at lag 28, stand above it last at 177, and fall steadily up to lag 5'
    """
    low, high = np.flatnonzero(r.kernel < 0.5), np.flatnonzero(r.kernel >= 0.5)
    at = np.arange(len(r.kernel)) if r.lags is None else r.lags
    risen = len(at) if r.first_rise is None else np.searchsorted(at, r.first_rise)
    last = number(at[risen - 1].item(), 3)
    whole = r.first_rise is None and r.lags is None
    only = "never rise" if whole else f"fall steadily up to lag {last}"
    if not len(low):
        return f"never drop below half, and {only}"
    again = f", stand above it last at {number(at[high[-1]].item(), 3)}," * int(high[-1] > low[0])
    return f"first drop below half at lag {number(at[low[0]].item(), 3)}{again} and {only}"


def opposite_lags(r: Relations) -> tuple[str, str]:
    """Whether before and after can be told apart."""
    if r.asymmetry is None:
        falls = r.kernel is not None and r.first_rise is None
        weight = f" Weights by them alone, averaged over heads, {fall(r)}." if falls else ""
        return MEANS("ONE DIRECTION", weight=weight)
    which = "DISTANCE ONLY" if r.asymmetry <= telling.EXACT else "DIRECTION TOLD"
    return MEANS(which, asymmetry=number(r.asymmetry, 2))


def steps_by_matrix(enc: Encoding, r: Relations) -> str:
    """Whether one linear map leads from every code to the next."""
    if r.shift_residual is None or r.kernel is None:
        return ""
    if r.shift_residual <= telling.EXACT:
        one = "For each lag one matrix takes every code that far"
        what = one if enc.domain.irregular else "One matrix takes every code to the next"
        return f"{what}, so attention can learn offsets."
    return phrase("no matrix", percent=100 * r.shift_residual)


def near_is_near(enc: Encoding, r: Relations) -> str:
    """Whether codes of near positions are near."""
    if r.distance_preservation is None:
        return ""
    told = {"points": POINTS[enc.domain.kind], "r": r, "alike": neighbour_likeness(enc)}
    if r.distance_preservation >= NEAR:
        return phrase("near", **told)
    if told["alike"] >= NEAR:
        return phrase("neighbours only", **told)
    return neighbours_alike(enc) or phrase("not near", **told)


def no_order(enc: Encoding, r: Relations) -> str:
    """What explains that nothing depends on the lag, as check-faithful says it."""
    if enc.measure is not None or enc.domain.kind != "position" or not r.toeplitz_residual:
        return ""
    return telling.sentence("telling", "random") if numbers_look_random(enc.table()) else ""


def not_a_rotation(enc: Encoding, r: Relations) -> str:
    """What turns the numbers of a head and changes their lengths."""
    if r.rotation_residual is None or r.rotation_residual <= telling.EXACT:
        return ""
    return phrase("no rotation", percent=100 * r.rotation_residual)


def products_by_displacement(enc: Encoding, r: Relations) -> tuple[str, str]:
    """Whether inner products depend on the displacement alone."""
    if r.kernel is None:
        return MEANS("BIASES" if enc.domain.kind == "lag" else "ALL ZERO", points="points")
    if r.toeplitz_residual > telling.EXACT:
        return MEANS("DEPENDS ON PLACE", residual=number(r.toeplitz_residual, 2))
    falls = by_axis([None if k is None else str(k - 1) for k in r.first_rise])
    only = f"fall steadily up to lag {falls.replace('–', 'at its end')}"
    rise = "never rise" if all(k is None for k in r.first_rise) else only
    return MEANS("DEPENDS ON DISPLACEMENT ALONE", rise=rise)


def products_on_diagonals(r: Relations) -> str:
    """Whether inner products fall along diagonals as along rows and columns."""
    found = r.diagonals
    if found is None or max(*found.on_axes, found.on_diagonals) < LEFT:
        return ""  # nothing is left along any
    one, other = axis_names(len(r.grid))[-2:]
    along = by_name([one, other], found.on_axes)
    at = point_of([0] * (len(r.grid) - 2) + [found.diagonal] * 2)
    alike = "treated" if found.alike else "not treated"
    return phrase("diagonals", alike=alike, found=found, along=along, at=at)


def steps_along_axes(enc: Encoding, r: Relations) -> str:
    """Whether one linear map leads from every code to the next along an axis."""
    known = [x for x in r.shift_residual or () if x is not None]
    if not known or r.kernel is None:
        return ""
    if max(known) <= telling.EXACT:
        return "One matrix an axis takes every code to the next along it."
    return phrase("no matrix", percent=100 * max(known))


def relations(answers: Sequence[telling.Answer], look: Look = USUAL) -> Figure:
    """Inner products by lag, or that there are none."""
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.4), look)
    kernels = [a.result.kernel for a in answers]
    draw_kernels(axes, answers, kernels, room_for_names(figure))
    add_legend(figure, axes, look)
    return figure


def conclude_relations(enc: Encoding, r: Relations) -> telling.Said:
    """What inner products depend on, and whether steps are linear and near points alike."""
    if r.on_grid:
        beside = not_a_rotation(enc, r), products_on_diagonals(r), steps_along_axes(enc, r)
        near = no_order(enc, r) or near_is_near(enc, r)
        return telling.Said(*products_by_displacement(enc, r), "", (*beside, near))
    heads = slopes_in_words(enc, slopes) if (slopes := slopes_of(enc)) else ""
    if random := no_order(enc, r):
        return telling.Said(*products_by_lag(enc, r), random)
    steps = steps_by_matrix(enc, r)
    return telling.Said(*products_by_lag(enc, r), steps, (near_is_near(enc, r), heads))


TOLD = telling.Telling(
    "relations",
    conclude=conclude_relations,
    words=relations_text,
    rows=relations_rows,
    figure=relations,
)

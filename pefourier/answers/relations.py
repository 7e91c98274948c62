"""How is it told how codes relate to one another? The answer of `pefourier relations`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers.faithful import why_no_shift
from pefourier.answers.places import POINTS, axis_names, by_axis, by_name, kernel_lines, point_of
from pefourier.answers.plot import USUAL, WIDTH, Look, add_legend, caption, make_panels
from pefourier.answers.telling import (
    EXACT,
    Answer,
    Fact,
    Telling,
    any_grid,
    by_rules,
    of_axes,
    side_by_side,
)
from pefourier.answers.text import number
from pefourier.encodings.encoding import Encoding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pefourier.analysis.relations import Relations

LEFT = 0.05  # of the inner product at lag 0, below which nothing is said of directions


def relations_text(answers: Sequence[Answer]) -> str:
    """The facts of each encoding."""
    return side_by_side(relations_facts(answers), answers)


def relations_facts(answers: Sequence[Answer]) -> list[Fact]:
    """What is told; of grids diagonals, too, and what turns a head is held to a rotation."""
    return [*RELATIONS_FACTS, *(GRID_FACTS if any_grid(answers) else ())]


def why_no_lag(answer: Answer) -> str:
    """Why there is no lag from which inner products rise."""
    return "no inner products by lag" if answer.result.kernel is None else "they never rise"


def why_no_correlation(answer: Answer) -> str:
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


def why_no_diagonal(answer: Answer) -> str:
    """Why diagonals were not compared with rows and columns."""
    return "no inner products by lag" if answer.result.kernel is None else "sides are too short"


RELATIONS_FACTS = [
    Fact("positions", lambda r: r.length),
    Fact("dimensions", lambda r: r.dimension),
    Fact("Toeplitz residual", lambda r: r.toeplitz_residual, "no lags"),
    Fact("inner products rise first at lag", lambda r: of_axes(r.first_rise), why_no_lag),
    Fact("residual of T(1) (Denk)", lambda r: of_axes(r.shift_residual), why_no_shift),
    Fact("asymmetry of lags", lambda r: r.asymmetry, "no opposite lags"),
    Fact("distances correlate by", lambda r: r.distance_preservation, why_no_correlation),
]


GRID_FACTS = [
    Fact("as far along the axes", straight_of, why_no_diagonal),
    Fact("as far on the diagonals", diagonal_of, why_no_diagonal),
    Fact("away from a rotation", lambda r: r.rotation_residual, "nothing is turned"),
]


def relations_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding and lag; on a grid for each displacement, its lags with × between."""
    yield "encoding", "spec", "lag", "inner_product"
    for a in answers:
        kernel = a.result.kernel
        if kernel is None:
            continue
        middle = [n // 2 if kernel.ndim > 1 else 0 for n in kernel.shape]
        for index in np.ndindex(kernel.shape):
            lag = "×".join(str(i - m) for i, m in zip(index, middle, strict=True))
            yield a.encoding.name, a.encoding.spec, lag, kernel[index]


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


def not_a_rotation(enc: Encoding, r: Relations) -> str:
    """What turns the numbers of a head and changes their lengths."""
    if r.rotation_residual is None or r.rotation_residual <= EXACT:
        return ""
    return (
        "What turns a head is not a rotation: squared lengths change by up to "
        f"{number(100 * r.rotation_residual, 3)} %."
    )


def products_by_displacement(enc: Encoding, r: Relations) -> str:
    """Whether inner products depend on the displacement alone."""
    if r.kernel is None:
        if enc.domain.kind == "lag":
            return "These are biases of displacements: there are no inner products of codes by lag."
        return "All codes are zero: they say nothing about points."
    if r.toeplitz_residual > EXACT:
        return (
            "Inner products of codes depend on the points and not on their displacement alone "
            f"(Toeplitz residual {number(r.toeplitz_residual, 2)}; 0 is the displacement alone)."
        )
    rises = by_axis([None if k is None else str(k) for k in r.first_rise])
    if all(k is None for k in r.first_rise):
        return "Inner products of codes depend on the displacement alone; along axes they fall."
    return (
        "Inner products of codes depend on the displacement alone; they rise first at the lag: "
        f"{rises.replace('–', 'never')}."
    )


def products_on_grid(enc: Encoding, r: Relations) -> str:
    """What inner products depend on, and whether diagonals are treated like rows and columns."""
    return " ".join(filter(None, [products_by_displacement(enc, r), products_on_diagonals(r)]))


def products_on_diagonals(r: Relations) -> str:
    """Whether inner products fall along diagonals as along rows and columns."""
    found = r.diagonals
    if found is None or max(*found.on_axes, found.on_diagonals) < LEFT:
        return ""  # nothing is left along any
    one, other = axis_names(len(r.grid))[-2:]
    along = by_name([one, other], found.on_axes)
    at = point_of([0] * (len(r.grid) - 2) + [found.diagonal] * 2)
    return (
        f"Diagonals are {'' if found.alike else 'not '}treated like rows and columns: of the inner "
        f"product at lag 0 are left {along} after {found.straight} points, and "
        f"{number(found.on_diagonals, 3)} as far on the diagonal, at {at}."
    )


def steps_along_axes(enc: Encoding, r: Relations) -> str:
    """Whether one linear map leads from every code to the next along an axis."""
    known = [x for x in r.shift_residual or () if x is not None]
    if not known or r.kernel is None:
        return ""
    if max(known) <= EXACT:
        return "One matrix an axis leads from every code to the next along it."
    return (
        "No matrix leads from every code to the next: the best is off by "
        f"{number(100 * max(known), 2)} % of the codes' size."
    )


def relations(answers: Sequence[Answer], look: Look = USUAL) -> Figure:
    """Inner products by lag, or that there are none."""
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.0), look)
    for a in answers:
        curve = a.result.kernel
        if curve is None:
            axes.text(0.5, 0.5, "no inner products by lag", ha="center", transform=axes.transAxes)
            continue
        lines = kernel_lines(curve) if curve.ndim > 1 else [("", curve)]
        for name, line in lines:
            axes.plot(np.arange(len(line)), line, label=f"{caption(a)} {name}".rstrip())
    axes.set(xlabel="lag (positions)", ylabel="inner product (1 at lag 0)")
    add_legend(figure, axes, look)
    return figure


LINE = by_rules(products_by_lag, steps_by_matrix, near_is_near, without_products)
GRID = by_rules(not_a_rotation, products_on_grid, steps_along_axes, near_is_near)
TOLD = Telling(
    "relations",
    conclude=lambda enc, r: (GRID if r.on_grid else LINE)(enc, r),
    words=relations_text,
    rows=relations_rows,
    figure=relations,
)

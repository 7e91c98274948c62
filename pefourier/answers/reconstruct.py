"""How is it told what is left of a position? The answer of `pefourier reconstruct`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import isnan, pi, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers import plot, telling
from pefourier.answers.places import axis_names, point_of, points_in_words
from pefourier.answers.spectrum import MOST_WAVES
from pefourier.answers.telling import Fact
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.writing.terminal_chart import chart, limits_of, shades
from pefourier.writing.text import aligned, join, number

if TYPE_CHECKING:
    from pefourier.analysis.reconstruct import Reconstructions

SHARP = 1.5  # positions: a rebuilt peak of this width is one sample
WIDE = 4.0  # positions: the width of a peak from which on its reason is told
PLATEAU = 0.5  # of all points at or above half the peak
CROSS = 0.1  # share of a picture's energy that may be left of a sum of one function an axis
FROM = "Rebuilt from its frequencies alone"
MEANS = partial(telling.meaning_of, "reconstruct")
TITLE = {"fontsize": 8, "loc": "left"}


def reconstruct_chart(answers: Sequence[telling.Answer], colour: bool) -> str:
    """The curves of Fig. 2, one chart per encoding, all with one vertical axis."""
    flat = [r.values for a in answers for r in a.result.reconstructions if r.values.ndim == 1]
    limits = limits_of(np.concatenate([*flat, [0.0]]))
    parts = []
    for a in answers:
        if a.result.on_grid:
            parts += map(partial(picture_of, a.encoding), a.result.reconstructions)
            continue
        curves = [
            (f"{a.encoding.label}, s = {r.position}", np.arange(a.result.lattice), r.values)
            for r in a.result.reconstructions
        ]
        label = f"position function rebuilt from {a.encoding.label}"
        drawn = chart(curves, around(a.result), label, height=8, colour=colour, ylimits=limits)
        parts.append(drawn + "\n")
    return "".join(parts)


def around(r: Reconstructions) -> str:
    """The name of an axis of positions: what leaves it at one end comes back at the other."""
    return f"position (a circle: {r.lattice} is 0 again)"


def picture_of(enc: Encoding, r: Any) -> str:
    """A rebuilt point as a picture; of several frames the one that it lies in."""
    values = r.values[r.position[:-2]]
    label = f"{enc.label}: {point_of(r.position)} rebuilt, rows down, columns across"
    return shades(values, label) + "\n"


ZERO, NO_CODE = "none: codes are zero", lambda answer: f"no code: length {len(answer.encoding)}"
PEAK = Fact("peak", lambda r: r.peak, ZERO)
ERRORS = (
    Fact("error", lambda r: r.error, ZERO),
    Fact("error of linear inverse", lambda r: r.inverse_error, NO_CODE),
)
RECONSTRUCT_FACTS = [
    Fact("position", lambda r: r.position),
    PEAK,
    Fact("width", lambda r: r.width, ZERO),
    Fact("side lobe", lambda r: r.side_lobe, ZERO),
    *ERRORS,
]
GRID_RECONSTRUCT_FACTS = [
    Fact("position", lambda r: point_of(r.position)),
    PEAK,
    Fact("points ≥ half", lambda r: r.half_max_area),
    Fact("cross", lambda r: r.cross, ZERO),
    Fact("outside 3×3", lambda r: r.side_lobe, ZERO),
    *ERRORS,
]


def reconstruct_text(answers: Sequence[telling.Answer]) -> str:
    """A line for each encoding and rebuilt position; grids have a table of their own."""
    flat = [a for a in answers if not a.result.on_grid]
    grids = [a for a in answers if a.result.on_grid]
    parts = [(RECONSTRUCT_FACTS, flat), (GRID_RECONSTRUCT_FACTS, grids)]
    return "\n".join(lines_of(facts, some) for facts, some in parts if some)


def lines_of(facts: Sequence[Fact], answers: Sequence[telling.Answer]) -> str:
    """A line for each encoding and rebuilt position."""
    rows = [["encoding", *(fact.label for fact in facts)]]
    for a in answers:
        for r in a.result.reconstructions:
            one = telling.Answer(a.encoding, r)
            rows.append([a.encoding.label, *(fact.cell(one) for fact in facts)])
    return aligned(rows, keys=2)


def reconstruct_rows(answers: Sequence[telling.Answer]) -> Iterable[Sequence[Any]]:
    """A row for each encoding, rebuilt position and lattice point; of several axes, of each axis.

    What has one axis stands along the last then.
    """
    rebuilt = [(a.encoding, r) for a in answers for r in a.result.reconstructions]
    axes = max((r.values.ndim for _, r in rebuilt), default=1)
    names = axis_names(axes) if axes > 1 else ["t"]
    heads = [f"position_{n}" for n in names] if axes > 1 else ["position"]
    yield "encoding", "spec", *heads, *names, "value"
    for enc, r in rebuilt:
        none = [None] * (axes - r.values.ndim)
        centre = np.atleast_1d(r.position).tolist()
        for place, value in np.ndenumerate(r.values):
            yield enc.name, enc.spec, *none, *centre, *none, *place, value


def from_frequencies(enc: Encoding, r: Reconstructions) -> tuple[str, str]:
    """How sharp a position comes back from the frequencies alone."""
    one = r.reconstructions[0]
    if isnan(one.peak):
        return MEANS("ALL ZERO", point="position")
    if one.width >= r.lattice:
        return MEANS("LOST", peak=number(one.peak, 2))
    near, width = int(one.width / 2), number(one.width, 2)
    alike = f": positions up to {near} apart look alike" if near else ""
    size = f"{width} wide and {number(one.peak, 3)} high"
    how = f"{peak_begins(r, 'position')} {size} (1 is exact){alike}"
    others, far = other_peaks(np.roll(one.values, -one.position))
    if others:
        peaks = "Another peak reaches" if others == 1 else f"{others} other peaks reach"
        return MEANS("REPEATED", how=how, peaks=peaks, far=far)
    if one.width <= SHARP:
        return MEANS("SHARP", how=how)
    return MEANS("BLURRED", how=how, why=why_wide(enc, r) if one.width >= WIDE else "")


def peak_begins(r: Reconstructions, point: str) -> str:
    """How a sentence about a rebuilt point begins."""
    smoothed = f" (smoothed, sigma {number(r.sigma)})" if r.sigma else ""
    return f"{FROM}{smoothed}, a {point} is a peak"


def other_peaks(values: np.ndarray) -> tuple[int, int]:
    """How many runs of half of the first value or more there are besides its own, in a circle.

    And how far from it the farthest of them ends.

    >>> other_peaks(np.array([9.0, 5.0, 0.0, 6.0, 1.0, 8.0]))
    (1, 3)
    """
    high = values >= values[0] / 2
    at = np.flatnonzero(high)
    far = np.minimum(at, len(values) - at).max(initial=0)
    return max(0, int((high & ~np.roll(high, 1)).sum()) - 1), int(far)


def from_codes(enc: Encoding, r: Reconstructions) -> str:
    """Whether a linear map recovers positions, or points, from the codes."""
    one = "A" if r.inverse_error <= telling.EXACT else "No"
    why = f": they outnumber its {enc.dim} dimensions" if len(enc) > enc.dim else ""
    return f"{one} linear map of the codes recovers all {len(enc)} {points_in_words(enc)}{why}."


def without_smoothing(enc: Encoding, r: Reconstructions) -> str:
    """What leaves out smoothing that narrowed a peak or blurred it."""
    if not r.on_grid or not r.sigma or isnan(r.reconstructions[0].peak):
        return ""  # on a line the sentence says so
    return "--sigma 0 leaves out the smoothing."


def without_code(enc: Encoding, r: Reconstructions) -> str:
    """Positions beyond the encoding's length, or points beyond its grid."""
    beyond = [one.position for one in r.reconstructions if one.inverse_error is None]
    if not beyond:
        return ""
    told = {"what": "Position", "where": f"at a length of {len(enc)}"}
    if r.on_grid:
        told = {"what": "Point", "where": f"on the {size_of(enc.domain.sides)} grid"}
    named = join(map(point_of if r.on_grid else str, beyond))
    return telling.sentence("reconstruct", "beyond", n=len(beyond), named=named, **told)


def why_wide(enc: Encoding, r: Reconstructions) -> str:
    """What makes a rebuilt peak wide, where waves are declared: the end of a sentence.

    Waves longer than the lattice, or than all positions where these are fewer, are nearly the same
    at neighbours, whatever their number.
    """
    slow, span = r.below_first_bin, "the lattice"
    if slow is not None and enc.measure is not None and isinstance(r.lattice, int):
        length = min(r.lattice, len(enc))
        slow = int((np.abs(enc.measure.frequencies) < 2 * pi / length).sum())
        span = f"{length} positions"
    if not slow or slow < MOST_WAVES * r.frequencies_total:
        return ""
    how = ", as" if r.on_grid else ". That is usual:"
    fewer = "; a smaller base has fewer" if "rho" in enc.params else ""
    return f"{how} {slow} of its {r.frequencies_total} waves are longer than {span}{fewer}"


def point_from_frequencies(enc: Encoding, r: Reconstructions) -> tuple[str, str]:
    """How sharp a point comes back from the frequencies alone, and in which shape."""
    one = r.reconstructions[0]
    if isnan(one.peak):
        return MEANS("ALL ZERO", point="point")
    if one.error <= telling.EXACT:
        return MEANS("EXACT", how=f"{FROM}, a point comes back")
    how = f"{peak_begins(r, 'point')} {number(one.peak, 3)} high (1 is exact)"
    area = f"{one.half_max_area} of {prod(r.lattice)} points reach half of that"
    told = {"how": how, "area": area, "why": why_wide(enc, r)}
    if one.half_max_area > PLATEAU * prod(r.lattice):
        return MEANS("A PLATEAU", least=number(float(one.values.min()) / one.peak, 2), **told)
    if is_cross(one.values) and one.half_max_area > 1:
        several = len(r.lattice) > 2
        where = "that share a coordinate" if several else "of its own row or column"
        return MEANS("A CROSS", share=100 * one.cross, where=where, **told)
    if one.half_max_area == 1:
        return MEANS("SHARP", how=f"{how}, and no other point reaches half of that")
    return MEANS("BLURRED", how=f"{how}; {area}", why=told["why"])


def is_cross(values: np.ndarray) -> bool:
    """Whether a picture is nearly a sum of one function an axis, as ridges that cross are.

    >>> is_cross(np.array([[3, 1, 1], [2, 0, 0]])), is_cross(np.eye(3))
    (True, False)
    """
    mean, axes = values.mean(), range(values.ndim)
    others = [tuple(b for b in axes if b != a) for a in axes]
    sums = sum(values.mean(axis=other, keepdims=True) - mean for other in others) + mean
    return bool(((values - sums) ** 2).sum() <= CROSS * ((values - mean) ** 2).sum())


def reconstruct(answers: Sequence[telling.Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """Rebuilt position functions, one panel per encoding, as Fig. 2 of the paper."""
    if telling.any_grid(answers):
        most = max(len(a.result.reconstructions) for a in answers)
        across, down = (len(answers), 1) if most == 1 else (most, len(answers))
        wide = look.width or max(3.0, 2.1 * across)
        figure = plot.make_figure((wide, (wide / across + 0.85) * down), look)
        room = wide / across - 0.1
        points_on_grids(figure, answers, [plot.caption(a.encoding, room) for a in answers])
        return figure
    size = (plot.WIDTH, 1.0 + 1.6 * len(answers))
    same = len({a.result.lattice for a in answers}) == 1
    figure, panels = plot.make_panels(len(answers), 1, size, look, sharex=same, sharey=True)
    for axes, a in zip(panels[:, 0], answers, strict=True):
        for r in a.result.reconstructions:
            axes.plot(r.values, label=f"s = {r.position}", linewidth=1.2)
        axes.set_title(
            plot.caption(a.encoding, plot.room_for_names(figure)), loc="left", fontsize=9
        )
        axes.set_ylabel("rebuilt value")
        axes.set_xlabel(around(a.result) if axes is panels[-1, 0] or not same else "")
    plot.add_legend(figure, panels[0, 0], look)
    return figure


def points_on_grids(
    figure: plot.Figure, answers: Sequence[telling.Answer], titles: Sequence[str]
) -> None:
    """A row for each encoding: its rebuilt points as pictures, of several frames the peak's.

    Where each has one point they stand side by side.
    """
    most = max(len(a.result.reconstructions) for a in answers)
    if most == 1:
        rows = figure.subplots(1, len(answers), squeeze=False).T
    else:
        rows = figure.subplots(len(answers), most, squeeze=False)
    for panels, a, title in zip(rows, answers, titles, strict=True):
        for axes in panels[len(a.result.reconstructions) :]:
            axes.set_axis_off()
        for axes, r in zip(panels, a.result.reconstructions, strict=False):
            if r.values.ndim == 1:
                axes.plot(r.values)
                axes.set(xlabel="position", ylabel="rebuilt value")
                axes.set_title(title, **TITLE)
                continue
            values = r.values[r.position[:-2]]
            image = axes.imshow(values, cmap="cividis", interpolation="nearest")
            axes.set(xlabel="column", ylabel="row" if axes is panels[0] else "")
            axes.locator_params(nbins=5, integer=True)
            axes.set_title(f"{title}\n{point_of(r.position)}, peak {r.peak:.3f}", **TITLE)
            bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.9, aspect=12)
            ends = np.array([values.min(), values.max()])
            told = (ends[1] or 1) * np.round(ends / (ends[1] or 1), 3) + 0.0  # .00004 of .27 is 0
            bar.set_ticks(ends, labels=[f"{end:.2g}" for end in told])


def conclude_reconstruction(enc: Encoding, r: Reconstructions) -> telling.Said:
    """How sharp a point comes back, how to see it unsmoothed, and what codes give beside."""
    shape = (point_from_frequencies if r.on_grid else from_frequencies)(enc, r)
    more = from_codes(enc, r), without_code(enc, r)
    return telling.Said(*shape, without_smoothing(enc, r), more)


TOLD = telling.Telling(
    "reconstruct",
    conclude=conclude_reconstruction,
    words=reconstruct_text,
    rows=reconstruct_rows,
    chart=reconstruct_chart,
    figure=reconstruct,
)

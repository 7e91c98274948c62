"""How is it told what becomes of a table on another grid? The answer of `pefourier resize`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.analysis.resize import ANEW, Picture, Resizing, by_cycles, is_computed
from pefourier.answers import plot
from pefourier.answers.spectrum import whole_plane
from pefourier.answers.telling import (
    LONG,
    Answer,
    Said,
    Telling,
    meaning_of,
    record_of_fields,
    sentence,
)
from pefourier.encodings.conventions import fact_of_convention
from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.encodings.places import axis_names, by_axis, further_in_words, point_of
from pefourier.encodings.sources.models import type_row
from pefourier.writing.escapes import printable
from pefourier.writing.text import aligned, joined_runs, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTTED = 60  # points of a curve up to which each has a mark
FAINT = 1e-6  # share of energy below which nothing is drawn
phrase = partial(sentence, "resize")


def resize_record(answer: Answer, out: str | None = None) -> dict[str, Any]:
    """The JSON object: all but the table itself, which --out writes."""
    return record_of_fields(answer) | {"out": out}


def conclude_resizing(enc: Encoding, r: Resizing) -> Said:
    """How far methods differ, what happens to codes, and which pairs meet unseen phases.

    What models compute at every size is told first, where it is so.
    """
    if not r.before.norm:
        return Said(*meaning_of("resize", "ALL ZERO"))
    new = r.after
    apart = new.nearest is None or new.distinct == math.prod(new.grid)
    verdict = "STILL DISTINCT" if apart else "NO LONGER DISTINCT"
    if new.nearest is None or r.before.nearest is None:
        verdict = "RESIZED"
    elif r.before.distinct < math.prod(r.before.grid) and not apart:
        verdict = "NOT DISTINCT"
    if r.logits and r.method != ANEW:
        return Said("RESIZED", *biases_in_words(r))
    anew = anew_in_words(r), unseen_in_words(r)
    if r.method == ANEW:
        return Said(verdict, anew[0], "", (anew[1], instead_in_words(enc, r)))
    way = instead_in_words(enc, r) if is_computed(enc, r.anew) else methods_in_words(enc, r)
    return Said(verdict, codes_in_words(r), way, anew)


def biases_in_words(r: Resizing) -> tuple[str, str]:
    """How far biases of a window are stretched, and by how much they change in each head."""
    times = [new / old for new, old in zip(r.after.grid, r.before.grid, strict=True)]
    most = int(np.argmax(r.logits))
    by_head = ", ".join(number(one, 3) for one in r.logits)
    heads = f"by head {by_head}" if len(r.logits) <= LONG else f"most in head {most}"
    told = {"old": size_of(r.old), "new": size_of(r.new), "r": r, "heads": heads}
    stretched = number(times[0], 3) if len(set(times)) == 1 else by_axis(times)
    meaning = phrase("biases", times=stretched, most=max(r.logits), **told)
    return meaning, phrase("ways of biases", **told)


def methods_in_words(enc: Encoding, r: Resizing) -> str:
    """How far the methods of interpolation differ."""
    if r.largest_difference <= 1e-12 * r.before.norm:
        return f"From {size_of(r.old)} to {size_of(r.new)} the methods agree."
    share = r.largest_difference / (r.before.norm / enc.dim**0.5)
    percent = number(100 * share, 2 if share < 0.1 else 3)
    told = {"old": size_of(r.old), "new": size_of(r.new), "percent": percent, "r": r}
    told["kind"] = printable(enc.params.get("model_type") or "")
    ways = [" by --method ".join(way) for way in (type_row(told["kind"]) or {}).get("resized", ())]
    if any(one.code == "lags-as-codes" for one in enc.findings):
        return phrase("lags", times=r.new[0] / r.old[0], side=(r.new[0] + 1) // 2, **told)
    if len(r.old) == 1:
        return phrase("line", times=r.new[0] / r.old[0], **told)
    return phrase("own" if ways else "methods", ways=" and ".join(ways), **told)


def codes_in_words(r: Resizing) -> str:
    """Whether codes can still be told apart, and how much of their spectrum stays."""
    if r.after.nearest is None or r.before.nearest is None:
        return f"By {r.method} {moved_in_words(r)} of the energy moves to other frequencies."
    return f"By {r.method} {apart_in_words(r.after, r.before)}."


def moved_in_words(r: Resizing) -> str:
    """The share of energy at other frequencies than before, in cycles from end to end."""
    return f"{number(100 * r.moved, 2)} %"


def apart_in_words(new: Picture, old: Picture) -> str:
    """How many codes of a new grid differ, and how close two of them are."""
    points = math.prod(new.grid)
    if new.distinct < points:
        return f"only {new.distinct} of {points} codes differ"
    one, two = (point_of(place) if len(place) > 1 else place[0] for place in new.closest)
    edge = "" if new.inside is None else phrase("edge", new=new)
    return phrase("apart", points=points, new=new, old=old, one=one, two=two, edge=edge)


def anew_in_words(r: Resizing) -> str:
    """Whether codes that the formula itself gives on the new grid can be told apart."""
    if r.anew is None or r.anew.nearest is None or r.before.nearest is None:
        return ""
    return f"Computed anew on {size_of(r.new)}, {apart_in_words(r.anew, r.before)}."


def instead_in_words(enc: Encoding, r: Resizing) -> str:
    """Why codes that a formula gives at every size are not interpolated."""
    sides = enc.params.get("pretrained") or r.old
    return phrase("recomputed" if enc.anew is None else "network", sides=size_of(sides))


def unseen_in_words(r: Resizing) -> str:
    """Which pairs of the formula go beyond phases of training on the new grid, and how far."""
    if r.unseen is None:
        return ""
    if any(one.unseen for one in r.unseen):
        along = len(r.old) > 1
        counts = [f"{u.unseen} of {u.pairs}{f' along {u.axis}' * along}" for u in r.unseen]
        return (
            f"Pairs of the formula meet phases never seen: {', '.join(counts)}{unless_rescaled(r)}."
        )
    steps = f"steps are {by_axis([one.step_ratio for one in r.unseen])} of the original ones"
    further = further_in_words([one.reach_ratio for one in r.unseen])
    if not further:
        return f"No pair turns further than on {size_of(r.old)}; {steps}."
    limits = [np.nan if one.reach_limit is None else one.reach_limit for one in r.unseen]
    most = further_in_words(limits)
    ending = f", and by at most {most} however large the image" if most else ""
    return phrase("further", old=size_of(r.old), further=further, ending=ending, steps=steps)


def unless_rescaled(r: Resizing) -> str:
    """How the code of a convention keeps phases of larger grids, where it does."""
    (enc,) = r.about
    kept = fact_of_convention(enc.name, enc.params.get("convention", ""), "kept")
    if not kept or enc.params.get(kept):
        return ""
    asked = f"{enc.label},{kept}={';'.join(map(str, r.old))}"
    return phrase("kept", asked=asked, sides=size_of(r.old), enc=enc)


def resize_text(answers: Sequence[Answer], out: str | None = None) -> str:
    """A line a method, then the table before and after."""
    r: Resizing = answers[0].result
    apart = f"largest difference from {r.method}"
    rows = [["interpolated by", "length of codes, new / old", "cosine of neighbours", apart]]
    for one in r.methods:
        apart = number(one.largest_difference, 3)
        linear = " (linear)" * (len(r.old) == 1 and one.method == "bilinear")
        rows.append(
            [one.method + linear, number(one.norm_ratio), by_axis(one.neighbours, 4), apart]
        )
    pictures = {f"by {r.method}": r.after} if r.methods else {}
    pictures = {"before": r.before, "computed anew": r.anew, **pictures}
    known = {name: one for name, one in pictures.items() if one is not None}
    rows_of_pictures = [["", *known]]
    for label, value in PICTURE_FACTS[: None if len(r.old) > 1 else -2]:  # no axes to tell apart
        rows_of_pictures.append([label, *map(value, known.values())])
    tables = [aligned(rows)] if r.methods else []
    text = "\n".join([*tables, aligned(rows_of_pictures)])
    text += f"energy at other frequencies, by cycles from end to end: {moved_in_words(r)}\n"
    never = [one for one in r.unseen or () if one.which]
    letters = len(r.old) > 1  # by which axes are told apart
    pairs = (f"{one.axis} " * letters + ", ".join(joined_runs(one.which, " to ")) for one in never)
    text += f"pairs in phases never seen, counted from 0: {'; '.join(pairs)}\n" if never else ""
    own_order = r.about[0].domain.kind == "lag"
    place = "for class tokens, in the order of the tensor" if own_order else "before the grid"
    return text + (phrase("written", out=printable(out), r=r, place=place) if out else "")


PICTURE_FACTS = [
    ("grid", lambda p: size_of(p.grid)),
    ("rms length of a code", lambda p: number(p.norm)),
    ("different codes", lambda p: number(p.distinct)),
    ("smallest distance over it", lambda p: number(p.nearest)),
    ("cosine of neighbours", lambda p: by_axis(p.neighbours, 4)),
    ("mean frequency, cycles end to end", lambda p: number(p.cycles)),
    ("share at frequency 0", lambda p: number(p.constant)),
    ("A2 (1 = bound to one axis)", lambda p: number(p.isotropy["A2"])),
    ("A4 (1 = bound to two axes)", lambda p: number(p.isotropy["A4"])),
]


def resize_rows(answers: Sequence[Answer]) -> Iterable[Sequence[Any]]:
    """A row a method."""
    r: Resizing = answers[0].result
    yield "method", "norm_ratio", *(f"neighbours_{k}" for k in range(len(r.old))), "difference"
    for one in r.methods:
        yield one.method, one.norm_ratio, *one.neighbours, one.largest_difference


def resizing(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Densities before and after, over the plane of rows and columns and along each axis."""
    (a,) = answers
    r: Resizing = a.result
    pictures = (r.before, r.after)
    names = [f"{size_of(r.old)} before", f"{size_of(r.new)} after"]
    names_of_axes = axis_names(len(r.old))
    each = [[share_along(one, axis) for one in pictures] for axis in range(len(r.old))]
    square = len(r.old) == 2 and len(set(r.old)) == len(set(r.new)) == 1
    if square and all(map(np.allclose, *each)):  # what both show is shown once
        each, names_of_axes = each[:1], ["either axis"]  # as wide as both
    planes = 2 if len(r.old) > 1 else 0
    rows = (planes + len(each) + 1) // 2
    figure, grid = plot.make_panels(rows, 2, (plot.WIDTH, 0.5 + 2.4 * rows), look)
    panels = list(grid.flat)
    if planes:
        draw_planes(figure, panels[:2], pictures, names)
    for panel, letter, shares in zip(panels[planes:], names_of_axes, each, strict=False):
        for share, name, style in zip(shares, names, ("o-", "x--"), strict=True):
            dots = style if len(share) <= DOTTED else style[1:]
            panel.semilogy(share, dots, markersize=3, linewidth=1, label=name)
        told = f"cycles along {letter}" if planes else "cycles from end to end"
        panel.set(xlabel=told, ylim=(FAINT, None))
        panel.set_ylabel("share of energy")
    for panel in panels[planes + len(each) :]:
        panel.set_axis_off()
    if len(each) == 1:
        panels[planes].set_subplotspec(panels[planes].get_gridspec()[rows - 1, :])
    plot.add_legend_below(figure, panels[planes])
    if not look.title:
        way = "computed anew" if r.method == ANEW else r.method
        figure.suptitle(f"{plot.caption(a.encoding)}, {way}", fontsize=9)
    return figure


def share_along(picture: Picture, axis: int) -> np.ndarray:
    """The share of energy over cycles from end to end of one axis."""
    others = tuple(b for b in range(len(picture.grid)) if b != axis)
    return by_cycles(picture).sum(axis=others)


def draw_planes(
    figure: Figure, panels: Sequence[Axes], pictures: Sequence[Picture], names: Sequence[str]
) -> None:
    """Densities over the last two axes, in cycles from end to end and in shades of one scale."""
    shades = {"cmap": "cividis", "interpolation": "nearest", "norm": "log"}
    limits = {"vmin": FAINT, "vmax": 1.0}
    for panel, picture, name in zip(panels, pictures, names, strict=True):
        (left, right), (low, high) = (
            (-(n // 2) - 0.5, (n - 1) // 2 + 0.5) for n in reversed(picture.grid[-2:])
        )
        plane = np.maximum(whole_plane(picture.density, picture.grid), FAINT)
        image = panel.imshow(plane, extent=(left, right, high, low), **shades, **limits)
        panel.set(xlabel="cycles along x", ylabel="cycles along y" if panel is panels[0] else "")
        panel.set_title(name, fontsize=9, loc="left")
    ends = [panel.get_xlim() + panel.get_ylim() for panel in panels]
    most = max(ends, key=lambda four: four[1] - four[0])
    for panel in panels:  # both as far as the larger: what the smaller lacks is seen
        panel.set(xlim=most[:2], ylim=most[2:])
    where = "top" if figure.get_figwidth() < plot.NARROW else "right"
    figure.colorbar(image, ax=panels, label="share of energy", shrink=0.8, location=where)


TOLD = Telling(
    "resize",
    conclude=conclude_resizing,
    words=resize_text,
    rows=resize_rows,
    record=resize_record,
    figure=resizing,
    lead=None,
)

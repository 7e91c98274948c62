"""How is it drawn how far a model's positions reach? Pairs over their wavelength, and readings."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import TYPE_CHECKING

import numpy as np

from pefourier.analysis.context import Reading, Rotation, treatments
from pefourier.answers import plot, telling
from pefourier.encodings.readings import LEVELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"same": "#0072B2", "kept": "#0072B2", "blended": "#E69F00", "stretched": "#D55E00"}
GREY = "0.6"


def wavelengths(answers: Sequence[telling.Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Each pair at its wavelength, as trained and as scaled; cosines to another reading below."""
    rows = [(a, rotation) for a in answers for rotation in a.result.rotations if rotation.rotated]
    readings = [a for a in answers if a.result.against is not None]
    heights = [0.55 + 0.42 * len(strips(r)) for _, r in rows] + [2.4] * bool(readings)
    if not rows:
        return empty_figure("nothing here turns queries and keys", look)
    figure, panels = plot.make_panels(len(heights), 1, (plot.WIDTH, 0.5 + sum(heights)), look)
    if len(heights) > 1:
        panels[0, 0].get_gridspec().set_height_ratios(heights)
    for axes, (a, rotation) in zip(panels[:, 0], rows, strict=False):
        draw_strips(axes, a, rotation)
    panels[len(rows) - 1, 0].set_xlabel("wavelength (positions)")
    narrow = look.axes is None and figure.get_figwidth() < plot.NARROW
    if narrow and any(len(strips(r)) > 1 for _, r in rows):
        drawn = panels[: len(rows), 0]
        figure.set_figheight(figure.get_figheight() + 4 * plot.LINE)
        plot.add_legend_below(figure, max(drawn, key=lambda one: len(one.collections)))
    if readings:
        draw_readings(panels[-1, 0], [(file_name(a), a.result.against) for a in readings])
    return figure


def empty_figure(words: str, look: plot.Look) -> Figure:
    """A figure that says why there is nothing to see."""
    figure, ((axes,),) = plot.make_panels(1, 1, (plot.WIDTH, 1.0), look)
    axes.text(0.5, 0.5, words, ha="center", va="center")
    axes.set_axis_off()
    return figure


def strips(r: Rotation) -> dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Rows of ticks: frequencies with the pairs of each treatment; scaled ones below trained."""
    told = treatments(r.frequencies, r.trained_frequencies)
    if "same" in told:
        return {"": (r.frequencies, told)}
    plain = {"same": np.ones(len(r.frequencies), dtype=bool)}
    return {"unscaled": (r.trained_frequencies, plain), r.scaling: (r.frequencies, told)}


def draw_strips(axes: Axes, answer: telling.Answer, r: Rotation) -> None:
    """A tick for each pair, and the trained and the asked length as lines."""
    found = answer.result
    rows = strips(r)
    narrow = axes.figure.get_figwidth() < plot.NARROW
    for level, (own, members) in enumerate(rows.values()):
        for treatment, those in members.items():
            if not those.any():
                continue
            waves = 2 * pi / own[those]
            colour = GREY if level == 0 and len(rows) > 1 else COLOURS[treatment]
            label = None if treatment == "same" else f"{treatment}: {those.sum()} pairs"
            label = treatment if label and narrow else label
            axes.vlines(waves, -level - 0.4, -level + 0.4, color=colour, label=label, linewidth=1)
    mark_lengths(axes, found.trained, found.length)
    axes.set(xscale="log", ylim=(-len(rows) + 0.4, 0.9))
    named = {-level: plot.literal(name) for level, name in enumerate(rows) if name}
    axes.set_yticks(list(named), list(named.values()))
    name = ", ".join(filter(None, (file_name(answer), plot.literal(r.name))))
    base = "" if r.base is None else f", base {r.base:g}"
    told = [f"{those.sum()} {one}" for one, those in members.items() if those.any()]
    told = f" ({', '.join(told)})" if narrow and len(rows) > 1 else ""
    title = plot.lines_within(f"{name}: {r.rotated} pairs{told}{base}", axes.figure)
    axes.set_title(title, loc="left", fontsize=9)
    if len(rows) > 1 and not narrow:
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def file_name(answer: telling.Answer) -> str:
    """The SPEC, as a title shows it."""
    return plot.brief(answer.encoding.spec, 40)


def mark_lengths(axes: Axes, trained: int, length: int) -> None:
    """Lines at the trained length and at the one asked for, named at their upper ends."""
    marks = {trained: "trained"} | {length: "asked" if length != trained else "trained, asked"}
    ink, place = axes.xaxis.label.get_color(), {"xycoords": ("data", "axes fraction"), "va": "top"}
    for at, name in marks.items():
        axes.axvline(at, color=ink, linestyle="-" if name == "asked" else "--", linewidth=0.9)
        side = "right" if name == "trained" and length > trained else "left"
        axes.annotate(f" {name} {at} ", (at, 1.0), ha=side, fontsize=7, **place)


def draw_readings(axes: Axes, readings: Sequence[tuple[str, Reading]]) -> None:
    """Cosines to other readings over the position, and where they first fall below each level."""
    for name, reading in readings:
        words = (name, reading.rotation, f"read as {plot.literal(reading.other)}")
        label = plot.lines_within(", ".join(filter(None, words)), axes.figure)
        (line,) = axes.plot(reading.positions, reading.cosine, label=label)
        for at in reading.below.values():
            shown = np.flatnonzero(reading.positions == at)
            if len(shown):
                spot = (at, reading.cosine[shown[0]])
                axes.plot(*spot, "o", color=line.get_color(), markersize=4, linestyle="none")
                if len(readings) == 1:
                    late = at > reading.positions[-1] ** 0.85  # near the right edge
                    place = ((-5, -3), "right") if late else ((4, 2), "left")
                    told = dict(zip(("xytext", "ha"), place, strict=True))
                    axes.annotate(f"{at}", spot, textcoords="offset points", **told)
    for level in LEVELS:
        axes.axhline(level, color=GREY, linewidth=0.6, linestyle=":")
    axes.set(xscale="log", xlabel="position", ylabel="cosine between the codes", ylim=(None, 1.08))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=8)

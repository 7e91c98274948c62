"""How is it drawn how far a model's positions reach? Pairs over their wavelength."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

import numpy as np

from pefourier.errors import PefourierError, shorten
from pefourier.questions.rotations import Rotation, treatments
from pefourier.report import plot
from pefourier.report.frame import Answer
from pefourier.writing.text import printable

COLOURS = {"same": "C0", "kept": "C0", "blended": "C5", "stretched": "C1"}
GREY = "0.6"
ABOVE = 14  # points from axes to their title, over the names of lengths


def wavelengths(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """Each pair at its wavelength, as trained and as scaled."""
    rows = [(a, rotation) for a in answers for rotation in a.result.rotations if rotation.rotated]
    heights = [0.65 + 0.36 * len(strips(r)) for _, r in rows]
    if not rows:
        names = " and ".join(shorten(printable(a.encoding.spec)) for a in answers)
        raise PefourierError(f"--plot draws frequencies of rotations; there are none in {names}")
    figure, panels = plot.make_panels(len(heights), 1, (plot.WIDTH, 0.5 + sum(heights)), look)
    if len(heights) > 1:
        panels[0, 0].get_gridspec().set_height_ratios(heights)
    for axes, (a, rotation) in zip(panels[:, 0], rows, strict=True):
        if axes is not panels[0, 0]:
            axes.sharex(panels[0, 0])
        draw_strips(axes, a, rotation, with_name=not look.title or len(answers) > 1)
    panels[-1, 0].set_xlabel("wavelength (positions)")
    plot.add_legend(figure, *panels[:, 0])
    return figure


def strips(r: Rotation) -> dict[str, tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Rows of ticks: frequencies with the pairs of each treatment; scaled ones below trained."""
    members = treatments(r.frequencies, r.trained_frequencies)
    if "same" in members:
        return {"": (r.frequencies, members)}
    plain = {"same": np.ones(len(r.frequencies), dtype=bool)}
    return {"unscaled": (r.trained_frequencies, plain), r.scaling: (r.frequencies, members)}


def draw_strips(axes: plot.Axes, answer: Answer, r: Rotation, with_name: bool) -> None:
    """A tick for each pair, and the trained and the asked length as lines.

    One encoding below a title of the user's own is not named again.
    """
    result = answer.result
    rows = strips(r)
    for level, (omega, members) in enumerate(rows.values()):
        for treatment, those in members.items():
            if not those.any():
                continue
            waves = 2 * pi / omega[those]
            colour = GREY if level == 0 and len(rows) > 1 else COLOURS[treatment]
            label = None if treatment == "same" else treatment
            axes.vlines(waves, -level - 0.4, -level + 0.4, color=colour, label=label, linewidth=1)
    mark_lengths(axes, result.trained.length or 0, result.length)
    axes.set(xscale="log", ylim=(-len(rows) + 0.4, 0.6))
    ticks = {-level: plot.literal(name) for level, name in enumerate(rows) if name}
    axes.set_yticks(list(ticks), list(ticks.values()))
    name = plot.caption(answer.encoding, 0.7 * axes.figure.get_figwidth()) if with_name else ""
    name = ", ".join(filter(None, (name, plot.literal(r.name))))
    counts = [
        f"{those.sum()} {state}" for state, those in members.items() if 0 < those.sum() < r.rotated
    ]
    listing = f" ({', '.join(counts)})" if counts else ""
    base = "" if r.base is None else f", base {r.base:.10g}"
    pairs = ": ".join(filter(None, (name, f"{r.rotated} pairs{listing}{base}")))
    axes.set_title(pairs, loc="left", fontsize=9, pad=ABOVE)


def mark_lengths(axes: plot.Axes, trained: int, length: int) -> None:
    """Lines at the trained length, 0 where unknown, and at the one asked for, named above."""
    marks = {trained: "trained"} if trained else {}
    marks |= {length: "asked" if length != trained else "trained, asked"}
    ink = axes.xaxis.label.get_color()
    place = {"xycoords": ("data", "axes fraction"), "va": "bottom"}
    for position, name in marks.items():
        axes.axvline(position, color=ink, linestyle="-" if name == "asked" else "--", linewidth=0.9)
        side = "right" if name == "trained" and length > trained else "left"
        axes.annotate(f" {name} {position} ", (position, 1.0), ha=side, fontsize=7, **place)

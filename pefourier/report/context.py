"""How is it told how far a model's positions reach? The pictures of `pefourier context`."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi
from shutil import get_terminal_size

import numpy as np

from pefourier.errors import PefourierError, shorten
from pefourier.questions.context import Context
from pefourier.questions.rotations import Rotation, treatments
from pefourier.report import plot
from pefourier.report.frame import Answer, framed
from pefourier.writing.escapes import printable

MARKS = {"same": ("█", "34"), "kept": ("█", "34"), "blended": ("▒", "33"), "stretched": ("░", "31")}
ACROSS = 64  # letters of the picture where nobody looks at a terminal


def bands_charts(answers: Sequence[Answer], colour: bool) -> str:
    """The bands of each answer's rotations."""
    return "".join(bands_chart(a.result, colour) for a in answers)


def bands_chart(result: Context, colour: bool = False) -> str:
    """The bands of each rotation over the logarithm of the wavelength, with lengths as lines.

    A letter stands for the wavelengths of at least one pair; │ for the trained length and ║ for the
    one asked for hide those beneath.

    >>> from pefourier.questions.context import describe_context
    >>> scaled = "rope:rho=5e5,scaling=llama3,factor=8,original=8192"
    >>> print(bands_chart(describe_context(scaled, 131072, d=64)[1]).splitlines()[0].rstrip())
    kept      ██ █ ██ █ █ ██ █ █ ██ █ █     │           ║
    """
    across = max(get_terminal_size((ACROSS + 10, 24)).columns - 10, 24)
    turning = [r for r in result.rotations if r.rotated]
    if not turning:
        return ""
    slowest = max(2 * pi / r.frequencies.min() for r in turning)
    ends = log(2 * pi), log(max(slowest, result.length, 2 * pi) * 1.01)

    def column(wavelength: float) -> int:
        share = (log(wavelength) - ends[0]) / (ends[1] - ends[0])
        return int(min(max(share, 0.0), 1.0) * (across - 1))

    lines = []
    for r in turning:
        lines += [r.name] if r.name else []
        for treatment, members in treatments(r.frequencies, r.trained_frequencies).items():
            mark, paint = MARKS[treatment]
            cells = {column(2 * pi / w): mark for w in r.frequencies[members]}
            cells |= {
                column(result.trained.length or result.length): "│",
                column(result.length): "║",
            }
            row = "".join(cells.get(i, " ") for i in range(across))
            row = row.replace(mark, f"\x1b[{paint}m{mark}\x1b[0m") if colour else row
            lines += [f"{treatment:<9} {row}"] if members.any() else []
    last = f"{max(slowest, result.length):.3g} positions"
    scale = f"{'':9} {2 * pi:.3g}{last:>{across - 4}}"
    length = result.trained.length
    trained = f"│ trained {length}  " if length else ""
    return "\n".join([*lines, scale, f"{'':10}{trained}║ asked {result.length}", "", ""])


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


TOLD = framed("context", chart=bands_charts, figure=wavelengths)

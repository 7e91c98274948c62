"""Figures of how far a rotation reaches and of bases by each criterion, in the style of `plot`."""

from collections.abc import Sequence
from math import pi
from typing import TYPE_CHECKING

import numpy as np

from pefourier.answers.plot import USUAL, WIDTH, Look, brief, lines_within, literal, make_panels
from pefourier.answers.report import Answer
from pefourier.context import Reading, Rotation, treatments
from pefourier.design import AXES, Design
from pefourier.encodings.readings import LEVELS, reading_cosine
from pefourier.extend import Extensions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"same": "#0072B2", "kept": "#0072B2", "blended": "#E69F00", "stretched": "#D55E00"}
GREY = "0.6"
NARROW = 4.5  # inches
CURVES = {  # of a design: field of a candidate, the axis, its scale, the criteria it answers
    "min_distance": ("smallest distance", "linear", ("distance",)),
    "rank": ("rank", "linear", ("rank",)),
    "stable_rank": ("stable rank", "linear", ("stable_rank",)),
    "condition_number": ("condition number", "log", ("condition",)),
    "idle": ("pairs never turning", "linear", ("turns", "wavelength")),
    "bound": ("first lag with B < 0", "log", ("bound",)),
}


def wavelengths(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Each pair at its wavelength, as trained and as scaled; cosines to another reading below."""
    rows = [(a, rotation) for a in answers for rotation in a.result.rotations if rotation.rotated]
    readings = [a for a in answers if a.result.against is not None]
    heights = [0.55 + 0.42 * len(strips(r)) for _, r in rows] + [2.4] * bool(readings)
    if not rows:
        return empty_figure("nothing here turns queries and keys", look)
    figure, panels = make_panels(len(heights), 1, (WIDTH, 0.5 + sum(heights)), look)
    panels[0, 0].get_gridspec().set_height_ratios(heights)
    for axes, (a, rotation) in zip(panels[:, 0], rows, strict=False):
        draw_strips(axes, a, rotation)
    panels[len(rows) - 1, 0].set_xlabel("wavelength (positions)")
    if readings:
        draw_readings(panels[-1, 0], [(file_name(a), a.result.against) for a in readings])
    return figure


def empty_figure(words: str, look: Look) -> "Figure":
    """A figure that says why there is nothing to see."""
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 1.0), look)
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


def draw_strips(axes: "Axes", answer: Answer, r: Rotation) -> None:
    """A tick for each pair, and the trained and the asked length as lines."""
    found = answer.result
    rows = strips(r)
    for level, (own, members) in enumerate(rows.values()):
        for treatment, those in members.items():
            if not those.any():
                continue
            waves = 2 * pi / own[those]
            colour = GREY if level == 0 and len(rows) > 1 else COLOURS[treatment]
            label = None if treatment == "same" else f"{treatment}: {those.sum()} pairs"
            axes.vlines(waves, -level - 0.4, -level + 0.4, color=colour, label=label, linewidth=1)
    mark_lengths(axes, found.trained, found.length)
    axes.set(xscale="log", ylim=(-len(rows) + 0.4, 0.9))
    named = {-level: literal(name) for level, name in enumerate(rows) if name}
    axes.set_yticks(list(named), list(named.values()))
    name = ", ".join(filter(None, (file_name(answer), literal(r.name))))
    base = "" if r.base is None else f", base {r.base:g}"
    title = lines_within(f"{name}: {r.rotated} pairs{base}", axes.figure)
    axes.set_title(title, loc="left", fontsize=9)
    if len(rows) > 1:
        narrow = axes.figure.get_figwidth() < NARROW
        across = {"loc": "upper left", "bbox_to_anchor": (-0.1, -0.85), "ncols": 2}
        beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
        axes.legend(fontsize=8, **(across if narrow else beside))


def file_name(answer: Answer) -> str:
    """The SPEC, as a title shows it."""
    return brief(answer.encoding.spec, 40)


def mark_lengths(axes: "Axes", trained: int, length: int) -> None:
    """Lines at the trained length and at the one asked for, named at their upper ends."""
    marks = {trained: "trained"} | {length: "asked" if length != trained else "trained, asked"}
    for at, name in marks.items():
        axes.axvline(
            at,
            color=axes.xaxis.label.get_color(),
            linestyle="-" if name == "asked" else "--",
            linewidth=0.9,
        )
        side = "right" if name == "trained" and length > trained else "left"
        axes.annotate(
            f" {name} {at} ",
            (at, 1.0),
            xycoords=("data", "axes fraction"),
            ha=side,
            va="top",
            fontsize=7,
        )


def draw_readings(axes: "Axes", readings: Sequence[tuple[str, Reading]]) -> None:
    """Cosines to other readings over the position, and where they first fall below each level."""
    for name, reading in readings:
        words = (name, reading.rotation, f"read as {literal(reading.other)}")
        label = lines_within(", ".join(filter(None, words)), axes.figure)
        (line,) = axes.plot(reading.positions, reading.cosine, label=label)
        for at in reading.below.values():
            shown = np.flatnonzero(reading.positions == at)
            if len(shown):
                spot = (at, reading.cosine[shown[0]])
                axes.plot(*spot, "o", color=line.get_color(), markersize=4, linestyle="none")
                if len(readings) == 1:
                    axes.annotate(f"{at}", spot, xytext=(4, 2), textcoords="offset points")
    for level in LEVELS:
        axes.axhline(level, color=GREY, linewidth=0.6, linestyle=":")
    axes.set(xscale="log", xlabel="position", ylabel="cosine between the codes", ylim=(None, 1.08))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=8)


def criteria(designs: Sequence[Design], look: Look = USUAL) -> "Figure":
    """Each criterion over the base, with its best base marked; one column for each axis."""
    figure, panels = make_panels(
        len(CURVES), len(designs), (WIDTH * max(1.0, 0.55 * len(designs)), 8.4), look, sharex="col"
    )
    for column, design in zip(panels.T, designs, strict=True):
        for axes, (field, (label, scale, names)) in zip(column, CURVES.items(), strict=True):
            draw_criterion(axes, design, field, names)
            axes.set(xscale="log", yscale=scale)
            axes.set_ylabel(label, fontsize=8)
        axis = f"axis {design.axis}: " if design.axis else ""
        title = f"{axis}{design.length} positions, d {design.d}"
        column[0].set_title(title, loc="left", fontsize=9)
        column[-1].set_xlabel("base ρ")
    return figure


def draw_criterion(axes: "Axes", design: Design, field: str, names: Sequence[str]) -> None:
    """A number of all candidates over their bases, the best by its criteria marked."""
    shown = [(c.rho, getattr(c, field)) for c in design.candidates]
    known = np.array([(rho, value) for rho, value in shown if value is not None], dtype=float)
    axes.grid(axis="x", color="0.9", linewidth=0.6)
    if not len(known):
        return
    axes.plot(*known.T, color="#0072B2", marker="o", markersize=2.5, linewidth=1.2)
    told = []
    for name, rho in design.best.items():
        values = known[known[:, 0] == rho, 1]
        if name.partition("=")[0] not in names or not len(values):
            continue
        axes.axvline(rho, color="#D55E00", linestyle="--", linewidth=0.9)
        axes.plot(rho, values[0], "D", color="#D55E00", markersize=5, linestyle="none")
        told.append(f"{literal(name)}: {rho:.4g}")
    axes.set_title(", ".join(told), loc="right", fontsize=8, color="#D55E00", pad=2)


def extension(founds: Sequence[Extensions], look: Look = USUAL) -> "Figure":
    """Wavelengths of each way's pairs, and cosines to the trained rotation; a column an axis."""
    heights = [0.7 + 0.3 * max(len(found.candidates) for found in founds), 2.8]
    wide = WIDTH * max(1.0, 0.7 * len(founds))
    figure, panels = make_panels(2, len(founds), (wide, 0.4 + sum(heights)), look)
    panels[0, 0].get_gridspec().set_height_ratios(heights)
    for column, found in zip(panels.T, founds, strict=True):
        draw_ways(*column, found)
    return figure


def draw_ways(top: "Axes", low: "Axes", found: Extensions) -> None:
    """Ticks at the wavelengths of each way, and below its cosines over the position."""
    ways = found.candidates
    for level, way in enumerate(ways):
        waves = 2 * pi / way.frequencies[way.frequencies != 0]
        colour = GREY if way.way == "unchanged" else "#0072B2"
        top.vlines(waves, -level - 0.35, -level + 0.35, color=colour, linewidth=1)
    mark_lengths(top, found.trained, found.length)
    names = [f"base {way.rho:.4g}" if way.way == "base" else way.way for way in ways]
    top.set_yticks([-level for level in range(len(ways))], names)
    top.set(xscale="log", xlabel="wavelength (positions)", ylim=(0.4 - len(ways), 1.1))
    name = f"axis {found.name}: " if found.name in AXES and found.name else ""
    top.set_title(f"{name}{brief(found.spec, 60)}, d {found.d}", loc="left", fontsize=9)
    points = np.unique(np.geomspace(1, found.trained, 200).astype(np.int64))
    for name, way in zip(names[1:], ways[1:], strict=True):
        cosines = reading_cosine(found.trained_frequencies, way.frequencies, points)
        low.plot(points, cosines, label=name, linewidth=1.2)
    for level in LEVELS:
        low.axhline(level, color=GREY, linewidth=0.6, linestyle=":")
    low.set(
        xscale="log", xlabel="position", ylabel="cosine to the trained codes", ylim=(None, 1.05)
    )
    low.legend(loc="lower left", ncols=2, fontsize=8)

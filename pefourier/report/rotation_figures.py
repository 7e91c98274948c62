"""Figures of rotations: wavelengths of pairs, scalings, bases, and use by weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.encodings.attention_decay import LEVELS, reading_cosine
from pefourier.errors import PefourierError, shorten
from pefourier.report import plot
from pefourier.report.render import Answer
from pefourier.types import Array, Bools, Fields, Floats
from pefourier.writing.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = {"same": ("█", "34"), "kept": ("█", "34"), "blended": ("▒", "33"), "stretched": ("░", "31")}
ACROSS = 64  # characters of a chart if the output is not a terminal


def bands_charts(answers: Sequence[Answer], *, colour: bool) -> str:
    """Draw the bands of each answer's rotations in text."""
    return "".join(bands_chart(a.result, colour=colour) for a in answers)


def bands_chart(result: Any, *, colour: bool = False) -> str:
    """Draw the bands of each rotation over the logarithm of the wavelength, in text.

    A letter marks wavelengths of at least one pair. │ marks the trained length and ║ the requested
    length; both cover letters.

    >>> from pefourier.questions.context import describe_context
    >>> scaled = "rope:rho=5e5,scaling=llama3,factor=8,original=8192"
    >>> print(bands_chart(describe_context(scaled, 131072, d=64)[1]).splitlines()[0].rstrip())
    kept      ██ █ ██ █ █ ██ █ █ ██ █ █     │           ║
    """
    across = max(get_terminal_size((ACROSS + 10, 24)).columns - 10, 24)
    rotating = [r for r in result.rotations if r.rotated]
    if not rotating:
        return ""
    slowest = max(2 * pi / r.frequencies.min() for r in rotating)
    ends = log(2 * pi), log(max(slowest, result.length, 2 * pi) * 1.01)

    def column(wavelength: float) -> int:
        share = (log(wavelength) - ends[0]) / (ends[1] - ends[0])
        return int(min(max(share, 0.0), 1.0) * (across - 1))

    lines = []
    for r in rotating:
        lines += [r.name] if r.name else []
        for treatment, members in r.treatments.items():
            mark, paint = MARKS[treatment]
            cells = {column(2 * pi / w): mark for w in r.frequencies[members]}
            cells[column(result.trained.length or result.length)] = "│"
            cells[column(result.length)] = "║"
            row = "".join(cells.get(i, " ") for i in range(across))
            row = row.replace(mark, f"\x1b[{paint}m{mark}\x1b[0m") if colour else row
            lines += [f"{treatment:<9} {row}"] if members.any() else []
    last = f"{max(slowest, result.length):.3g} positions"
    scale = f"{'':9} {2 * pi:.3g}{last:>{across - 4}}"
    length = result.trained.length
    trained = f"│ trained {length}  " if length else ""
    return "\n".join([*lines, scale, f"{'':10}{trained}║ requested {result.length}", "", ""])


COLOURS = {"same": "C0", "kept": "C0", "blended": "C5", "stretched": "C1"}
GREY = "0.6"
ABOVE = 14  # points between axes and title, for the names of lengths


def wavelengths(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Draw each pair at its wavelength, as trained and as scaled."""
    rows = [(a, rotation) for a in answers for rotation in a.result.rotations if rotation.rotated]
    heights = [0.65 + 0.36 * len(strips(r)) for _, r in rows]
    if not rows:
        names = " and ".join(shorten(printable(a.encoding.spec)) for a in answers)
        raise PefourierError(f"--plot needs frequencies of rotations; {names} has none")
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


def strips(
    r: Any,
) -> dict[str, tuple[Floats, dict[str, Bools]]]:
    """Return rows of ticks: frequencies with the pairs of each treatment, trained before scaled."""
    members = r.treatments
    if "same" in members:
        return {"": (r.frequencies, members)}
    plain = {"same": np.ones(len(r.frequencies), dtype=bool)}
    return {"unscaled": (r.trained_frequencies, plain), r.scaling: (r.frequencies, members)}


def draw_strips(axes: Axes, answer: Answer, r: Any, *, with_name: bool) -> None:
    """Draw a tick for each pair, and lines at the trained and the requested length.

    A single encoding is not named again below a title from the user.
    """
    result = answer.result
    rows = strips(r)
    for level, (omega, members) in enumerate(rows.values()):
        for treatment, those in members.items():
            if not those.any():
                continue
            waves = 2 * pi / omega[those]
            colour = GREY if level == 0 and len(rows) > 1 else COLOURS[treatment]
            label = "_nolegend_" if treatment == "same" else treatment
            axes.vlines(waves, -level - 0.4, -level + 0.4, color=colour, label=label, linewidth=1)
    mark_lengths(axes, result.trained.length or 0, result.length)
    axes.set(xscale="log", ylim=(-len(rows) + 0.4, 0.6))
    ticks = {-level: plot.literal(name) for level, name in enumerate(rows) if name}
    axes.set_yticks(list(ticks), list(ticks.values()))
    name = plot.caption(answer.encoding, 0.7 * plot.width_of(axes)) if with_name else ""
    name = ", ".join(filter(None, (name, plot.literal(r.name))))
    totals = {state: those.sum() for state, those in members.items()}
    counts = [f"{n} {state}" for state, n in totals.items() if 0 < n < r.rotated]
    listing = f" ({', '.join(counts)})" if counts else ""
    base = "" if r.base is None else f", base {r.base:.10g}"
    pairs = ": ".join(filter(None, (name, f"{r.rotated} pairs{listing}{base}")))
    axes.set_title(pairs, loc="left", fontsize=9, pad=ABOVE)


def mark_lengths(axes: Axes, trained: int, length: int) -> None:
    """Draw named lines at the trained length (0: unknown) and at the requested length."""
    marks = {trained: "trained"} if trained else {}
    marks |= {length: "requested" if length != trained else "trained, requested"}
    place: Fields = {"xycoords": ("data", "axes fraction"), "va": "bottom"}
    for position, name in marks.items():
        dashes = "-" if name == "requested" else "--"
        axes.axvline(position, color="black", linestyle=dashes, linewidth=0.9)
        side = "right" if name == "trained" and length > trained else "left"
        axes.annotate(f" {name} {position} ", (position, 1.0), ha=side, fontsize=7, **place)


def extension(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Draw the wavelengths of pairs for each scaling, and cosines to the trained rotation."""
    heights = [0.7 + 0.3 * len(answers[0].result.candidates), 2.8]
    figure, ((top,), (low,)) = plot.make_panels(2, 1, (plot.WIDTH, 0.4 + sum(heights)), look)
    top.get_gridspec().set_height_ratios(heights)
    result = answers[0].result
    ways = result.candidates
    for row, extension in enumerate(ways):
        waves = 2 * pi / extension.frequencies[extension.frequencies != 0]
        colour = GREY if extension.way == "unchanged" else "C0"
        top.vlines(waves, -row - 0.35, -row + 0.35, color=colour, linewidth=1)
    mark_lengths(top, result.trained, result.length)
    top.set_yticks([-row for row in range(len(ways))], [extension.name for extension in ways])
    top.set(xscale="log", xlabel="wavelength (positions)", ylim=(0.4 - len(ways), 0.6))
    title = f"{plot.brief(answers[0].encoding.spec, 60)}, d {result.d}"
    top.set_title(title, loc="left", fontsize=9, pad=ABOVE)
    points = np.unique(np.geomspace(1, result.trained, 200).astype(np.int64))
    for extension in ways[1:]:
        cosines = reading_cosine(result.trained_frequencies, extension.frequencies, points)
        low.plot(points, cosines, label=extension.name, linewidth=1.2)
    for level in LEVELS:
        low.axhline(level, color=GREY, linewidth=0.6, linestyle=":")
    low.set(xscale="log", xlabel="position", ylabel="cosine to the trained rotation")
    low.set_ylim(None, 1.05)
    plot.add_legend(figure, low)
    return figure


CURVES = {  # field of a candidate: axis label, scale, criteria that use it
    "min_distance": ("smallest distance", "linear", {"distance"}),
    "rank": ("rank", "linear", {"rank"}),
    "stable_rank": ("stable rank", "linear", {"stable_rank"}),
    "condition_number": ("condition number", "log", {"condition"}),
    "idle": ("pairs without a full rotation", "linear", {"turns", "wavelength"}),
    "bound": ("first lag with Σ\u00a0cos\u00a0<\u00a00", "log", {"bound"}),
}


def criteria(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Draw each criterion over the base and mark the best base; grids have a curve per axis."""
    figure, panels = plot.make_panels(len(CURVES), 1, (plot.WIDTH, 8.4), look, share="x")
    for axes, (field, (label, scale, names)) in zip(panels[:, 0], CURVES.items(), strict=True):
        for i, design in enumerate(answer.result for answer in answers):
            curve = [c for c in design.candidates if getattr(c, field) is not None]
            best = [c for c in curve if names & {n.partition("=")[0] for n in c.best_by.split()}]
            axis = f"axis {design.axis}: " if design.axis else ""
            label_of = f"{axis}{design.length} positions, d {design.d}"
            values = [getattr(c, field) for c in curve]
            axes.plot([c.rho for c in curve], values, f"C{i}.-", label=label_of, linewidth=1.2)
            bests = [getattr(c, field) for c in best]
            axes.plot([c.rho for c in best], bests, "C6D", markersize=5)
        axes.set(xscale="log", yscale=scale)
        axes.set_ylabel(label, fontsize=8)
    panels[-1, 0].set_xlabel("base ρ")
    figure.align_ylabels(panels)
    plot.add_legend(figure, panels[0, 0])
    return figure


MOST_TIMES = 4.0  # multiple of even use at the end of the colour scale


def usage(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Draw shares of the product over wavelength, relative to even use; a column per rotation."""
    result = answers[0].result
    count = len(result.rotations)
    by_rotation = [[s for s in result.shares if s.rotation == i] for i in range(count)]
    height = 1.9 + 0.09 * min(max(map(len, by_rotation)), 40)
    lower = bool(result.quantisation)
    size = plot.WIDTH * max(1.0, 0.7 * count), height + 1.6 * lower
    figure, panels = plot.make_panels(1 + lower, count, size, look)
    for axes, rotation, layers in zip(panels[0], result.rotations, by_rotation, strict=True):
        draw_layers(axes, result, rotation, layers)
    for above, axes, rotation in zip(panels[0], panels[-1], result.rotations, strict=True):
        if lower:
            draw_rounding(axes, result, rotation)
            axes.set(xscale="log", xlim=above.get_xlim())
    figure.supxlabel("wavelength (positions)", fontsize=7)
    return figure


def edges_of(waves: Array) -> Array:
    """Return the edges of cells of pairs, half-way on a logarithmic axis."""
    logs = np.log(waves)
    if len(logs) == 1:
        return np.exp([logs[0] - 0.5, logs[0] + 0.5])
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp([2 * logs[0] - middle[0], *middle, 2 * logs[-1] - middle[-1]])


def draw_layers(axes: Axes, result: Any, rotation: Any, layers: Sequence[Any]) -> None:
    """Draw the mean over heads, with a row per layer."""
    order = np.argsort([pair.wavelength for pair in rotation.pairs])
    waves = np.array([pair.wavelength for pair in rotation.pairs])[order]
    means = np.array([np.nanmean(layer.used, axis=0) for layer in layers])
    times = means[:, order] * len(waves)
    rows = np.arange(len(layers) + 1) - 0.5
    shades: Fields = {"cmap": "cividis", "vmax": MOST_TIMES, "rasterized": True}
    image = axes.pcolormesh(edges_of(waves), rows, times, vmin=0.0, **shades)
    mark_lengths(axes, result.trained, result.length)
    shown = [n for n in (result.trained, result.length) if waves[0] / 2 < n < waves[-1] * 2]
    ends = edges_of(waves)[[0, -1]]
    axes.set(xscale="log", xlim=(min(ends[0], *shown, ends[0]), max(ends[1], *shown, ends[1])))
    ticks = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 7)).astype(int))
    axes.set_yticks(ticks, [str(layers[i].layer) for i in ticks])
    axes.set(ylabel="layer")
    axes.invert_yaxis()
    bar = axes.figure.colorbar(image, ax=axes, location="bottom", aspect=40, extend="max")
    bar.set_label("share of the product, relative to even use", fontsize=7)
    names = plot.brief(result.encodings[0].spec, 60), plot.literal(rotation.name)
    name = ", ".join(filter(None, names))
    axes.set_title(f"{name}: {len(rotation.pairs)} pairs", loc="left", fontsize=9, pad=ABOVE)


STEPS = ("token", "channel", "group of 32")


def draw_rounding(axes: Axes, result: Any, rotation: Any) -> None:
    """Draw the error of scores per pair for keys that are cached in int4 after rotation."""
    waves = [pair.wavelength for pair in rotation.pairs]
    for error in result.quantisation:
        is_own = error.rotation == rotation.part and error.bits == 4 and not error.zero_point
        if is_own and error.granularity in STEPS:
            label = f"int4, one step per {error.granularity}: {error.after:.2g}"
            axes.plot(waves, error.by_pair, ".-", markersize=3, linewidth=0.8, label=label)
    axes.set_ylabel("error of scores", fontsize=8)
    axes.set_ylim(0, 1.6 * axes.get_ylim()[1])  # room for the legend
    axes.legend(fontsize=6, loc="upper left", frameon=False)

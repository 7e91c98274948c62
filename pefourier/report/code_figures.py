"""How are tables of codes drawn? One, two beside each other, one before and after resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.encodings.grids import size_of
from pefourier.encodings.places import axis_names
from pefourier.report import plot
from pefourier.report.frame import Answer, framed

if TYPE_CHECKING:
    from pefourier.questions.resize import Resizing

MOST_ROWS = 400  # of a picture


def heatmap(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """The table itself: positions down, dimensions across."""
    figure, panels = plot.make_panels(len(answers), 1, (plot.WIDTH, 1.2 + 2.2 * len(answers)), look)
    for axes, a in zip(panels[:, 0], answers, strict=True):
        draw_table(axes, a, a.result)
    return figure


def encode(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """The codes that were written."""
    tables = [Answer(a.encoding, a.encoding.table(a.result.positions)) for a in answers]
    return heatmap(tables, look)


def draw_table(
    axes: plot.Axes, a: Answer, table: np.ndarray, of: np.ufunc = np.add, title: str = ""
) -> None:
    """Numbers of codes in colours; of more rows than a picture has, the means of some together.

    Single rows of those that are picked out show patterns that are in no code. With `of` the
    largest is shown in place of the mean, of differences, which would cancel.
    """
    starts = np.unique(np.linspace(0, len(table), min(MOST_ROWS, len(table)), False).astype(int))
    counts = np.diff([*starts, len(table)])[:, None]
    means = of.reduceat(table, starts) / (counts if of is np.add else 1)
    limit = float(np.abs(table).max()) or 1.0
    sizes = of is np.maximum and (table >= 0).all()
    shades = {"cmap": "Reds", "vmin": 0.0} if sizes else {"cmap": "RdBu_r", "vmin": -limit}
    shades |= {"vmax": limit, "interpolation": "nearest", "aspect": "auto"}
    shades["extent"] = (-0.5, table.shape[1] - 0.5, len(table) - 0.5, -0.5)
    image = axes.imshow(means, **shades)
    rows = "row" if a.encoding.domain.kind == "time" else "position"
    axes.set(xlabel="dimension", ylabel=rows)
    axes.set_title(title or plot.entry(axes, a.encoding), loc="left", fontsize=9)
    together = f" ({'means' if of is np.add else 'largest'} of some rows)"
    label = f"{'difference' if title else 'value of the code'}{together * (len(table) > MOST_ROWS)}"
    axes.figure.colorbar(image, ax=axes, label=label)


def compare(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """Both tables and, where they have as many columns, their difference, as far as both go."""
    encoded = [Answer(enc, enc.table()) for enc in answers[0].result.about]
    common = min(len(a.result) for a in encoded)
    first, second = (a.result[:common] for a in encoded)
    has_difference = first.shape == second.shape
    count = 2 + has_difference
    figure, panels = plot.make_panels(count, 1, (plot.WIDTH, 1.2 + 2.2 * count), look)
    for axes, a in zip(panels[:, 0], encoded, strict=False):
        draw_table(axes, a, a.result[:common])
    if has_difference:
        difference, is_large = second - first, common > MOST_ROWS
        title = "|second − first|" if is_large else "second − first (red: larger in the second)"
        shown = np.abs(difference) if is_large else difference
        draw_table(panels[2, 0], encoded[0], shown, np.maximum, title)
    return figure


FAINT = 1e-6  # share of energy below which nothing is drawn


def resizing(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """The share of energy over cycles from end to end of each axis, before and after."""
    from pefourier.questions.resize import by_cycles

    result: Resizing = answers[0].result
    letters = axis_names(len(result.old))
    size = (plot.WIDTH, 0.5 + 2.4 * len(letters))
    figure, panels = plot.make_panels(len(letters), 1, size, look)
    for axis, letter in enumerate(letters):
        panel = panels[axis, 0]
        for state, style in zip(result.states, (".-", "x--"), strict=True):
            omitted = tuple(a for a in range(len(letters)) if a != axis)
            name = f"{size_of(state.grid)} {state.name}"
            panel.semilogy(by_cycles(state).sum(axis=omitted), style, linewidth=1, label=name)
        panel.set(xlabel=f"cycles along {letter}", ylabel="share of energy", ylim=(FAINT, None))
    plot.add_legend(figure, panels[0, 0])
    if not look.title:
        figure.suptitle(f"{plot.caption(answers[0].encoding)}, {result.method}", fontsize=9)
    return figure


framed("encode", figure=encode)
framed("compare", figure=compare)
framed("resize", figure=resizing)

"""How is it told where codes were written? The answer of `pefourier encode`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.questions.encode import Written
from pefourier.report import plot
from pefourier.report.frame import Answer, answer_of, framed
from pefourier.writing.page import Page

MOST_ROWS = 400  # of a picture


def encode_page(enc: Encoding, table: np.ndarray, positions: np.ndarray, out: str) -> Page:
    """The answer of `pefourier encode`."""
    rows, dimensions = table.shape
    written = Written(out, (rows, dimensions), positions, about=(enc,))
    return TOLD.page([answer_of(written)])


def heatmap(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """The table itself: positions down, dimensions across."""
    figure, panels = plot.make_panels(len(answers), 1, (plot.WIDTH, 1.2 + 2.2 * len(answers)), look)
    for axes, a in zip(panels[:, 0], answers, strict=True):
        draw_table(axes, a, a.result)
    return figure


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
    extent = (-0.5, table.shape[1] - 0.5, len(table) - 0.5, -0.5)
    sizes = of is np.maximum and (table >= 0).all()
    shades = {"cmap": "Reds", "vmin": 0.0} if sizes else {"cmap": "RdBu_r", "vmin": -limit}
    shades |= {"vmax": limit, "interpolation": "nearest"}
    image = axes.imshow(means, aspect="auto", extent=extent, **shades)
    rows = "row" if a.encoding.domain.kind == "time" else "position"
    together = f" ({'means' if of is np.add else 'largest'} of some rows)"
    shown = "difference" if title else "value of the code"
    figure = axes.get_figure()
    axes.set(xlabel="dimension", ylabel=rows)
    axes.set_title(
        title or plot.caption(a.encoding, plot.room_for_names(figure)), loc="left", fontsize=9
    )
    label = f"{shown}{together if len(table) > MOST_ROWS else ''}"
    figure.colorbar(image, ax=axes, label=label)


def draw_written(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """The codes that were written."""
    tables = [Answer(a.encoding, a.encoding.table(a.result.positions)) for a in answers]
    return heatmap(tables, look)


TOLD = framed("encode", figure=draw_written)

"""Figures of relations and of resized tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.answers.grid_plot import kernel_lines
from pefourier.answers.grid_words import size_of
from pefourier.answers.plot import USUAL, WIDTH, Look, caption, make_panels
from pefourier.answers.report import Answer
from pefourier.resize import Resizing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def relations(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
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
    axes.set(xlabel="lag (positions)", ylabel="inner product / its value at lag 0")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    return figure


def resizing(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Lengths of codes over rows and columns, before and after; of frames the first."""
    (a,) = answers
    r: Resizing = a.result
    whole = np.asarray(a.encoding.table(), dtype=float)
    figure, (panels,) = make_panels(1, 2, (WIDTH, 2.8), look)
    for axes, table, sides in ((panels[0], whole, r.old), (panels[1], r.table, r.new)):
        lengths = np.linalg.norm(table[r.prefix :], axis=1).reshape(-1, *([1, *sides][-2:]))[0]
        image = axes.imshow(lengths, cmap="cividis", interpolation="nearest")
        axes.set(xlabel="column", ylabel="row", title=f"{size_of(sides)}: length of codes")
        figure.colorbar(image, ax=axes, shrink=0.8)
    if not look.title:
        figure.suptitle(f"{caption(a)}, {r.method}", fontsize=9)
    return figure

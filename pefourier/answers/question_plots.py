"""Figures of the question that has no command: relations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.answers.grid_plot import kernel_lines
from pefourier.answers.plot import WIDTH, caption, make_panels
from pefourier.answers.report import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def relations(answers: Sequence[Answer]) -> "Figure":
    """Inner products by lag, on a grid along each axis, or that there are none."""
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.0))
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

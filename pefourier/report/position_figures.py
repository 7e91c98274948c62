"""Figures of position ids over tokens: one line per document, unexpected ids in colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.ids.spans import EXPECTED
from pefourier.report import plot
from pefourier.report.render import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = 4  # number of drawn rows of a batch; rows with mistakes come first


def draw_positions(answers: Sequence[Answer], look: plot.Look) -> Figure:
    """Draw the ids of some rows; grey: as expected, dotted: expected ids."""
    result = answers[0].result
    numbers = list(dict.fromkeys([s.row for s in result.bad] + [s.row for s in result.rows]))
    numbers = numbers[:PANELS]
    figure, panels = plot.make_panels(len(numbers) or 1, 1, (plot.WIDTH, 2.2), look)
    for number, (axes,) in zip(numbers, panels, strict=False):
        for span in (span for span in result.rows if span.row == number):
            x = np.arange(span.start, min(span.start + span.tokens, result.ids.shape[2]))
            is_right = span.verdict == EXPECTED
            for axis in result.ids[-3:] if len(result.ids) > 1 else result.ids:
                colour = "0.6" if is_right else plot.COLOURS[1]
                axes.plot(x, axis[number, x], ".-", color=colour, markersize=2)
            if not is_right and span.due is not None:
                axes.plot(x, span.due[0][: len(x)], ":", color="0.3")
        kinds = dict.fromkeys(s.verdict for s in result.rows if s.row == number)
        axes.set_title(f"row {number}: {', '.join(kinds)}")
        axes.set_ylabel("id")
    panels[-1][0].set_xlabel("token")
    return figure

"""How are inner products by lag drawn? The picture of `pefourier relations`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pefourier.report import frame
from pefourier.report.frame import framed
from pefourier.report.kernel import draw_kernels
from pefourier.report.plot import USUAL, WIDTH, Look, add_legend, make_panels, room_for_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def relations(answers: Sequence[frame.Answer], look: Look = USUAL) -> Figure:
    """Inner products by lag, or that there are none."""
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.4), look)
    kernels = [a.result.kernel for a in answers]
    draw_kernels(axes, answers, kernels, room_for_names(figure))
    add_legend(figure, axes)
    return figure


TOLD = framed("relations", figure=relations)

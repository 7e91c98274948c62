"""How is what is left of a position drawn? The pictures of `pefourier reconstruct`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.report import frame, plot
from pefourier.report.frame import framed
from pefourier.writing.terminal_chart import chart, limits_of, shades

if TYPE_CHECKING:
    from pefourier.questions.reconstruct import Reconstructions


def reconstruct_chart(answers: Sequence[frame.Answer], colour: bool) -> str:
    """The curves of Fig. 2, one chart per encoding, all with one vertical axis."""
    flat = [r.values for a in answers for r in a.result.reconstructions if r.values.ndim == 1]
    limits = limits_of(np.concatenate([*flat, [0.0]]))
    parts = []
    for a in answers:
        if a.result.on_grid:
            parts += map(partial(picture_of, a.encoding), a.result.reconstructions)
            continue
        curves = [
            (f"{a.encoding.label}, s = {r.position}", np.arange(a.result.lattice), r.values)
            for r in a.result.reconstructions
        ]
        label = f"position function rebuilt from {a.encoding.label}"
        text = chart(curves, around(a.result), label, height=8, colour=colour, ylimits=limits)
        parts.append(text + "\n")
    return "".join(parts)


def around(r: Reconstructions) -> str:
    """The name of an axis of positions: what leaves it at one end comes back at the other."""
    return f"position (a circle: {r.lattice} is 0 again)"


def picture_of(enc: Encoding, r: Any) -> str:
    """A rebuilt point as a picture; of several frames the one that it lies in."""
    values = r.values[r.position[:-2]]
    label = f"{enc.label}: ({r.point}) rebuilt, rows down, columns across"
    return shades(values, label) + "\n"


def reconstruct(answers: Sequence[frame.Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """Rebuilt position functions, one panel per encoding, as Fig. 2 of the paper."""
    if frame.any_grid(answers):
        return reconstruct_on_grids(answers, look)
    size = (plot.WIDTH, 1.0 + 1.6 * len(answers))
    is_shared = len({a.result.lattice for a in answers}) == 1
    figure, panels = plot.make_panels(len(answers), 1, size, look, sharex=is_shared, sharey=True)
    for axes, a in zip(panels[:, 0], answers, strict=True):
        for r in a.result.reconstructions:
            axes.plot(r.values, label=f"s = {r.position}", linewidth=1.2)
        axes.set_title(
            plot.caption(a.encoding, plot.room_for_names(figure)), loc="left", fontsize=9
        )
        axes.set_ylabel("rebuilt value")
        axes.set_xlabel(around(a.result) if axes is panels[-1, 0] or not is_shared else "")
    plot.add_legend(figure, panels[0, 0])
    return figure


def reconstruct_on_grids(answers: Sequence[frame.Answer], look: plot.Look) -> plot.Figure:
    """A row for each encoding: its rebuilt points as pictures, of several frames the peak's."""
    count = max(len(a.result.reconstructions) for a in answers)
    width = look.width or max(3.0, 2.1 * count)
    size = (width, (width / count + 0.85) * len(answers))
    figure, panels = plot.make_panels(len(answers), count, size, look)
    for row, a in zip(panels, answers, strict=True):
        for axes, r in zip(row, a.result.reconstructions, strict=False):
            title = f"{plot.caption(a.encoding, width / count)}\n({r.point}), peak {r.peak:.3f}"
            axes.set_title(title, fontsize=8, loc="left")
            if r.values.ndim == 1:
                axes.plot(r.values)
                axes.set(xlabel="position", ylabel="rebuilt value")
                continue
            values = r.values[r.position[:-2]]
            image = axes.imshow(values, cmap="cividis", interpolation="nearest")
            axes.set(xlabel="column", ylabel="row" if axes is row[0] else "")
            axes.locator_params(nbins=5, integer=True)
            figure.colorbar(image, ax=axes, location="bottom", shrink=0.9, aspect=12)
        for axes in row[len(a.result.reconstructions) :]:
            axes.set_axis_off()
    return figure


TOLD = framed("reconstruct", chart=reconstruct_chart, figure=reconstruct)

"""How is a table drawn before and after it was resized? The picture of `pefourier resize`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.encodings.grids import size_of
from pefourier.encodings.places import axis_names
from pefourier.questions.resize import Picture, Resizing, by_cycles
from pefourier.report import plot
from pefourier.report.frame import Answer, framed
from pefourier.report.spectrum import whole_plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOTTED = 60  # points of a curve up to which each has a mark
FAINT = 1e-6  # share of energy below which nothing is drawn


def resizing(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Densities before and after, over the plane of rows and columns and along each axis."""
    result: Resizing = answers[0].result
    names = [f"{size_of(state.grid)} {state.name}" for state in result.states]
    planes = 2 if len(result.old) > 1 else 0
    rows = (planes + len(result.old) + 1) // 2
    figure, grid = plot.make_panels(rows, 2, (plot.WIDTH, 0.5 + 2.4 * rows), look)
    panels = list(grid.flat)
    if planes:
        draw_planes(figure, panels[:2], result.states, names)
    for axis, letter in enumerate(axis_names(len(result.old))):
        panel = panels[planes + axis]
        for state, name, style in zip(result.states, names, ("o-", "x--"), strict=True):
            share = share_along(state, axis)
            dots = style if len(share) <= DOTTED else style[1:]
            panel.semilogy(share, dots, markersize=3, linewidth=1, label=name)
        label = f"cycles along {letter}" if planes else "cycles from end to end"
        panel.set(xlabel=label, ylabel="share of energy", ylim=(FAINT, None))
    for panel in panels[planes + len(result.old) :]:
        panel.set_axis_off()
    if not planes:
        panels[0].set_subplotspec(panels[0].get_gridspec()[0, :])
    plot.add_legend(figure, panels[planes])
    if not look.title:
        figure.suptitle(f"{plot.caption(answers[0].encoding)}, {result.method}", fontsize=9)
    return figure


def share_along(picture: Picture, axis: int) -> np.ndarray:
    """The share of energy over cycles from end to end of one axis."""
    summed = tuple(b for b in range(len(picture.grid)) if b != axis)
    return by_cycles(picture).sum(axis=summed)


def draw_planes(
    figure: Figure, panels: Sequence[Axes], pictures: Sequence[Picture], names: Sequence[str]
) -> None:
    """Densities over the last two axes, in cycles from end to end and in shades of one scale."""
    shades = {"cmap": "cividis", "interpolation": "nearest", "norm": "log"}
    limits = {"vmin": FAINT, "vmax": 1.0}
    for panel, picture, name in zip(panels, pictures, names, strict=True):
        (x_min, x_max), (low, high) = (
            (-(n // 2) - 0.5, (n - 1) // 2 + 0.5) for n in reversed(picture.grid[-2:])
        )
        plane = np.maximum(whole_plane(picture.density, picture.grid), FAINT)
        image = panel.imshow(plane, extent=(x_min, x_max, high, low), **shades, **limits)
        panel.set(xlabel="cycles along x", ylabel="cycles along y" if panel is panels[0] else "")
        panel.set_title(name, fontsize=9, loc="left")
    ends = [panel.get_xlim() + panel.get_ylim() for panel in panels]
    largest = max(ends, key=lambda four: four[1] - four[0])
    for panel in panels:  # both as far as the larger: what the smaller lacks is seen
        panel.set(xlim=largest[:2], ylim=largest[2:])
    where = "top" if figure.get_figwidth() < plot.NARROW else "right"
    figure.colorbar(image, ax=panels, label="share of energy", shrink=0.8, location=where)


TOLD = framed("resize", figure=resizing)

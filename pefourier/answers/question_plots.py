"""Figures of relations and of resized tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.answers.grid_plot import kernel_lines, whole_plane
from pefourier.answers.grid_words import axis_names, size_of
from pefourier.answers.plot import USUAL, WIDTH, Look, caption, make_panels
from pefourier.answers.report import Answer
from pefourier.resize import Picture, Resizing, by_cycles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAINT = 1e-6  # share of energy below which nothing is drawn


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
    """Densities before and after, over the plane of rows and columns and along each axis."""
    (a,) = answers
    r: Resizing = a.result
    pictures, names = (r.before, r.after), [f"{size_of(r.old)} before", f"{size_of(r.new)} after"]
    axes = len(r.old)
    planes = 2 if axes > 1 else 0
    rows = (planes + axes + 1) // 2
    figure, grid = make_panels(rows, 2, (WIDTH, 0.5 + 2.4 * rows), look)
    panels = list(grid.flat)
    if planes:
        draw_planes(figure, panels[:2], pictures, names)
    for axis, (panel, letter) in enumerate(zip(panels[planes:], axis_names(axes), strict=False)):
        others = tuple(b for b in range(axes) if b != axis)
        for one, name, style in zip(pictures, names, ("o-", "x--"), strict=True):
            share = by_cycles(one).sum(axis=others)
            panel.semilogy(share, style, markersize=3, linewidth=1, label=name)
        panel.set(xlabel=f"cycles an image along {letter}", ylabel="share of energy")
        panel.set_ylim(bottom=FAINT)
    for panel in panels[planes + axes :]:
        panel.set_axis_off()
    panels[planes].legend(fontsize=7)
    if not look.title:
        figure.suptitle(f"{caption(a)}, {r.method}", fontsize=9)
    return figure


def draw_planes(
    figure: "Figure", panels: Sequence["Axes"], pictures: Sequence[Picture], names: Sequence[str]
) -> None:
    """Densities over the last two axes, in cycles an image and in shades of one scale."""
    planes = [np.log10(np.maximum(whole_plane(p.density, p.grid), FAINT)) for p in pictures]
    widest = [max(p.grid[axis] for p in pictures) / 2 + 0.5 for axis in (-2, -1)]
    for panel, picture, plane, name in zip(panels, pictures, planes, names, strict=True):
        (left, right), (low, high) = (
            (-(n // 2) - 0.5, (n - 1) // 2 + 0.5) for n in reversed(picture.grid[-2:])
        )
        extent = (left, right, high, low)
        limits = {"vmin": np.log10(FAINT), "vmax": 0.0}
        image = panel.imshow(
            plane, cmap="cividis", extent=extent, interpolation="nearest", **limits
        )
        panel.set(xlabel="cycles along x", ylabel="cycles along y")
        panel.set(xlim=(-widest[1], widest[1]), ylim=(widest[0], -widest[0]))
        panel.set_title(name, fontsize=9, loc="left")
    figure.colorbar(image, ax=panels, label="log10 of the share of energy", shrink=0.8)

"""Figures of answers about grids: densities with their marginals, rebuilt points, kernels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers.grid_words import axis_names, point_of
from pefourier.answers.report import Answer
from pefourier.geometry.torus import multiplicity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE = "#0072B2"
TITLE = {"fontsize": 8, "loc": "left"}
TICKS = ([-np.pi, 0, np.pi], ["-π", "0", "π"])


def whole_plane(density: np.ndarray, sides: Sequence[int]) -> np.ndarray:
    """The density over rows and columns of the whole torus, the constant in the middle.

    Further axes are summed over.

    >>> whole_plane(np.array([[0.5, 0.5]]), (1, 3)).tolist()
    [[0.25, 0.5, 0.25]]
    """
    each = (density / multiplicity(sides)).reshape(-1, *density.shape[-2:])
    last = sides[-1]
    mirrored = each[:, (-np.arange(sides[-2])) % sides[-2], :][..., (last - 1) // 2 : 0 : -1]
    return np.fft.fftshift(np.concatenate([each, mirrored], axis=-1).sum(axis=0))


def plane_edges(side: int) -> tuple[float, float]:
    """Where the outermost frequencies of an axis end, radians per point."""
    step = 2 * np.pi / side
    return (-(side // 2) - 0.5) * step, ((side - 1) // 2 + 0.5) * step


def spectrum_on_grids(figure: "Figure", answers: Sequence[Answer], titles: Sequence[str]) -> None:
    """A row for each encoding: the density over both frequencies, and along each of them."""
    ratios = {"width_ratios": [3, 2, 2]}
    rows = figure.subplots(len(answers), 3, squeeze=False, gridspec_kw=ratios)
    for panels, a, title in zip(rows, answers, titles, strict=True):
        if np.ndim(a.result.density) == 1:
            panels[0].plot(a.result.omega, a.result.density)
            panels[0].set(xlabel="ω (radians per position)", ylabel="share of energy")
            panels[1].set_axis_off()
            panels[2].set_axis_off()
        else:
            draw_density(figure, panels, a.result)
        panels[0].set_title(title, loc="left", fontsize=9)


def draw_density(figure: "Figure", panels: Sequence["Axes"], result: Any) -> None:
    """A density over the plane of rows and columns, and its two marginals."""
    picture, down, along = panels
    sides = result.lattice[-2:]
    plane = whole_plane(result.density, result.lattice)
    extent = (*plane_edges(sides[1]), *plane_edges(sides[0])[::-1])
    image = picture.imshow(
        plane, cmap="cividis", extent=extent, vmin=0, aspect="auto", interpolation="nearest"
    )
    picture.set(xlabel="ω along columns, x", ylabel="ω along rows, y")
    for set_ticks in (picture.set_xticks, picture.set_yticks):
        set_ticks(*TICKS)
    picture.set(xlim=extent[:2], ylim=extent[2:])
    figure.colorbar(image, ax=picture, label="share of energy", shrink=0.8)
    for axes, name, axis in ((down, "y", 0), (along, "x", 1)):
        marginal = plane.sum(axis=1 - axis)
        omega = 2 * np.pi * (np.arange(sides[axis]) - sides[axis] // 2) / sides[axis]
        axes.plot(omega, marginal, color=BLUE, marker=".", markersize=3)
        axes.set(xlabel=f"ω along {name} (radians per point)", ylim=(0, None))
        axes.set_xticks(*TICKS)
    down.set_ylabel("share of energy")


def points_on_grids(figure: "Figure", answers: Sequence[Answer], titles: Sequence[str]) -> None:
    """A row for each encoding: its rebuilt points as pictures, of several frames the peak's.

    Where each has one point they stand side by side.
    """
    most = max(len(a.result.reconstructions) for a in answers)
    if most == 1:
        rows = figure.subplots(1, len(answers), squeeze=False).T
    else:
        rows = figure.subplots(len(answers), most, squeeze=False)
    for panels, a, title in zip(rows, answers, titles, strict=True):
        for axes in panels[len(a.result.reconstructions) :]:
            axes.set_axis_off()
        for axes, r in zip(panels, a.result.reconstructions, strict=False):
            if r.values.ndim == 1:
                axes.plot(r.values)
                axes.set(xlabel="position", ylabel="rebuilt value")
                axes.set_title(title, **TITLE)
                continue
            values = r.values[r.position[:-2]]
            image = axes.imshow(values, cmap="cividis", interpolation="nearest")
            axes.set(xlabel="column", ylabel="row" if axes is panels[0] else "")
            axes.locator_params(nbins=5, integer=True)
            axes.set_title(f"{title}\n{point_of(r.position)}, peak {r.peak:.3f}", **TITLE)
            bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.9, aspect=12)
            ends = [values.min(), values.max()]
            bar.set_ticks(ends, labels=[f"{round(end, 9) + 0.0:.2g}" for end in ends])


def kernel_lines(kernel: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The kernel of a grid along each of its axes, by name.

    >>> [line.tolist() for _, line in kernel_lines(np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]]))]
    [[4, 7], [4, 5]]
    """
    middle = [n // 2 for n in kernel.shape]
    names = axis_names(kernel.ndim)
    return [
        (name, kernel[tuple(slice(m, None) if a == b else m for b, m in enumerate(middle))])
        for a, name in enumerate(names)
    ]

"""Figure of which frequencies weights use: layers by pairs, and heads of some layers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.answers.plot import USUAL, WIDTH, Look, brief, literal, make_panels
from pefourier.answers.reach_plot import mark_lengths
from pefourier.answers.report import Answer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pefourier.weights.shares import LayerShares
    from pefourier.weights.summary import RotationUse
    from pefourier.weights.usage import Usage

ACROSS = 4  # small panels side by side
SMALL = 8  # layers whose heads are drawn
MOST_TIMES = 4.0  # even use: the end of the scale of colours


def usage(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Shares of the product over wavelength, as times even use; a column for each rotation."""
    ((found,),) = ([answer.result for answer in answers],)
    count = len(found.rotations)
    own = [[one for one in found.shares if one.rotation == i] for i in range(count)]
    drawn = [spread_layers(layers) for layers in own]
    small = max(-(-len(layers) // ACROSS) for layers in drawn)
    heights = [0.8 + 0.09 * min(max(map(len, own)), 40)] + [1.3] * small
    figure, panels = make_panels(
        1 + small, ACROSS * count, (WIDTH * max(1.0, 0.7 * count), sum(heights) + 0.6), look
    )
    grid = panels[0, 0].get_gridspec()
    grid.set_height_ratios(heights)
    for number, (rotation, layers) in enumerate(zip(found.rotations, own, strict=True)):
        columns = slice(ACROSS * number, ACROSS * (number + 1))
        for axes in panels[0, columns]:
            axes.remove()
        top = figure.add_subplot(grid[0, columns])
        draw_layers(top, found, rotation, layers)
        places = list(panels[1:, columns].flat)
        for axes, layer in zip(places, drawn[number], strict=False):
            draw_heads(axes, rotation, layer, found.length)
        for axes in places[len(drawn[number]) :]:
            axes.set_axis_off()
        for axes in panels[-1, columns]:
            axes.set_xlabel("wavelength", fontsize=7)
    return figure


def spread_layers(layers: Sequence["LayerShares"]) -> list["LayerShares"]:
    """Some layers, evenly spread from the first to the last."""
    picked = np.unique(np.linspace(0, len(layers) - 1, min(SMALL, len(layers))).astype(int))
    return [layers[i] for i in picked]


def over_waves(rotation: "RotationUse", shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wavelengths, and shares (n, pairs) as times even use; the mean of pairs of one wavelength."""
    waves, place = np.unique(
        np.float32([p.wavelength for p in rotation.pairs]), return_inverse=True
    )
    alike = place == np.arange(len(waves))[:, None]
    return waves.astype(float), shares @ alike.T / alike.sum(axis=1) * len(place)


def edges_of(waves: np.ndarray) -> np.ndarray:
    """Where a pair's cell ends and the next begins, half-way on a logarithmic axis."""
    logs = np.log(waves)
    if len(logs) == 1:
        return np.exp([logs[0] - 0.5, logs[0] + 0.5])
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp([2 * logs[0] - middle[0], *middle, 2 * logs[-1] - middle[-1]])


def draw_layers(
    axes: "Axes", found: "Usage", rotation: "RotationUse", layers: Sequence["LayerShares"]
) -> None:
    """The mean over heads of each layer, a row a layer."""
    means = np.array([np.nanmean(one.used, axis=0) for one in layers])
    waves, times = over_waves(rotation, means)
    rows = np.arange(len(layers) + 1) - 0.5
    image = axes.pcolormesh(
        edges_of(waves), rows, times, cmap="cividis", vmin=0.0, vmax=MOST_TIMES, rasterized=True
    )
    marks = {found.trained: "trained"} | {found.length: "asked"}
    mark_lengths(axes, found.trained, found.length)
    shown = [at for at in marks if waves[0] / 2 < at < waves[-1] * 2]
    ends = edges_of(waves)[[0, -1]]
    axes.set(xscale="log", xlim=(min(ends[0], *shown, ends[0]), max(ends[1], *shown, ends[1])))
    ticks = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 7)).astype(int))
    axes.set_yticks(ticks, [str(layers[i].layer) for i in ticks])
    axes.set(ylabel="layer", xlabel="wavelength (positions)")
    axes.set_ylim(len(layers) - 0.5, -0.5 - 0.05 * len(layers))  # room for a name above
    bar = axes.figure.colorbar(image, ax=axes, pad=0.01, extend="max")
    bar.set_label("share of the product,\ntimes even use", fontsize=7)
    name = ", ".join(filter(None, (brief(found.about[0].spec, 50), literal(rotation.name))))
    axes.set_title(f"{name}: {len(rotation.pairs)} pairs", loc="left", fontsize=9)


def draw_heads(axes: "Axes", rotation: "RotationUse", layer: "LayerShares", length: int) -> None:
    """A line for each head of a layer."""
    waves, times = over_waves(rotation, layer.used)
    axes.plot(waves, times.T, linewidth=0.7, alpha=0.8)
    axes.axvline(length, color="0.6", linewidth=0.7, linestyle="--")
    axes.set(xscale="log", ylim=(0.0, None))
    axes.tick_params(labelsize=6)
    axes.set_title(f"layer {layer.layer}", loc="left", fontsize=7)

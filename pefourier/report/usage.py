"""How is the use of pairs drawn? The picture of `pefourier usage`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pefourier.report import plot
from pefourier.report.context import ABOVE, mark_lengths
from pefourier.report.frame import Answer, framed
from pefourier.weights.shares import LayerShares
from pefourier.weights.summary import RotationUse
from pefourier.weights.usage import Usage

MOST_TIMES = 4.0  # even use: the end of the scale of colours


def usage(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """Shares of the product over wavelength, as times even use; a column for each rotation."""
    result: Usage = answers[0].result
    count = len(result.rotations)
    by_rotation = [[s for s in result.shares if s.rotation == i] for i in range(count)]
    height = 1.9 + 0.09 * min(max(map(len, by_rotation)), 40)
    size = plot.WIDTH * max(1.0, 0.7 * count), height
    figure, panels = plot.make_panels(1, count, size, look)
    for axes, rotation, layers in zip(panels[0], result.rotations, by_rotation, strict=True):
        draw_layers(axes, result, rotation, layers)
    figure.supxlabel("wavelength (positions)", fontsize=7)
    return figure


def edges_of(waves: np.ndarray) -> np.ndarray:
    """Where a pair's cell ends and the next begins, half-way on a logarithmic axis."""
    logs = np.log(waves)
    if len(logs) == 1:
        return np.exp([logs[0] - 0.5, logs[0] + 0.5])
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp([2 * logs[0] - middle[0], *middle, 2 * logs[-1] - middle[-1]])


def draw_layers(
    axes: plot.Axes, result: Usage, rotation: RotationUse, layers: Sequence[LayerShares]
) -> None:
    """The mean over heads of each layer, a row a layer."""
    order = np.argsort([pair.wavelength for pair in rotation.pairs])
    waves = np.array([pair.wavelength for pair in rotation.pairs])[order]
    means = np.array([np.nanmean(layer.used, axis=0) for layer in layers])
    times = means[:, order] * len(waves)
    rows = np.arange(len(layers) + 1) - 0.5
    image = axes.pcolormesh(
        edges_of(waves), rows, times, cmap="cividis", vmin=0.0, vmax=MOST_TIMES, rasterized=True
    )
    mark_lengths(axes, result.trained, result.length)
    shown = [n for n in (result.trained, result.length) if waves[0] / 2 < n < waves[-1] * 2]
    ends = edges_of(waves)[[0, -1]]
    axes.set(xscale="log", xlim=(min(ends[0], *shown, ends[0]), max(ends[1], *shown, ends[1])))
    ticks = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 7)).astype(int))
    axes.set_yticks(ticks, [str(layers[i].layer) for i in ticks])
    axes.set(ylabel="layer")
    axes.invert_yaxis()
    bar = axes.figure.colorbar(image, ax=axes, location="bottom", aspect=40, extend="max")
    bar.set_label("share of the product, times even use", fontsize=7)
    name = ", ".join(
        filter(None, (plot.brief(result.about[0].spec, 60), plot.literal(rotation.name)))
    )
    axes.set_title(f"{name}: {len(rotation.pairs)} pairs", loc="left", fontsize=9, pad=ABOVE)


TOLD = framed("usage", figure=usage)

"""How is it told and drawn whether codes are distinct and can be inverted? `check-faithful`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding, without_prefix
from pefourier.encodings.specs import open_model, source_of
from pefourier.geometry.singular_values import decompose
from pefourier.questions.relations import kernel
from pefourier.report import frame, plot
from pefourier.report.kernel import draw_kernels

STRETCHES = 500  # of a long curve


def envelope(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """A curve of few points that looks the same: the least and the largest of each stretch.

    >>> x, y = envelope(np.arange(1e5), np.sin(np.arange(1e5)))
    >>> len(x) <= 2 * STRETCHES + 2, bool(y.max() > 0.99999)
    (True, True)
    """
    if len(x) <= 2 * STRETCHES:
        return x, y
    edges = np.linspace(0, len(x), STRETCHES + 1).astype(int)
    extremes = [
        start + np.unique([np.argmin(part), np.argmax(part)])
        for start, part in ((a, y[a:b]) for a, b in pairwise(edges))
    ]
    chosen = np.unique(np.concatenate([*extremes, [0, len(x) - 1]]))
    return x[chosen], y[chosen]


def faithful(answers: Sequence[frame.Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """Singular values, for rank and conditioning, and inner products by lag."""
    figure, ((values_axes, kernel_axes),) = plot.make_panels(1, 2, (plot.WIDTH, 3.0), look)
    draw_singular_values(values_axes, answers, plot.room_for_names(figure))
    kernels = [kernel(without_prefix(a.encoding)) for a in answers]
    draw_kernels(kernel_axes, answers, kernels, plot.room_for_names(figure))
    grids = any(k is not None and k.ndim > 1 for k in kernels)
    plot.add_legend(figure, values_axes, *([kernel_axes] if grids else []))
    return figure


def draw_singular_values(axes: plot.Axes, answers: Sequence[frame.Answer], room: float) -> None:
    """Singular values over the largest; those at or below its dotted line count as zero."""
    lowest = 1.0
    for a in answers:
        sigma = decompose(without_prefix(a.encoding)).sigma
        rank = f" (rank {a.result.rank})"
        label = plot.caption(a.encoding, room - plot.LETTER * len(rank)) + rank
        shown = [], []  # of codes that are all 0
        if sigma[0] > 0:
            shares = np.maximum(sigma / sigma[0], np.finfo(float).tiny)
            shown = envelope(np.arange(1, len(sigma) + 1), shares)
        (line,) = axes.plot(*shown, label=label)
        if sigma[0] > 0:
            zero = a.result.rank_tolerance / sigma[0]
            axes.axhline(zero, color=line.get_color(), linewidth=0.8, linestyle=":")
            lowest = min(lowest, zero)
    axes.plot([], [], color=axes.xaxis.label.get_color(), linestyle=":", label="taken as zero")
    axes.set(xlabel="index", ylabel="singular value / largest", yscale="log")
    axes.set_ylim(lowest / 1e3, 3)


def model_of(enc: Encoding) -> dict[str, Any]:
    """What of a model's config acts beside the codes: its layers, what multiplies logits."""
    if "model_type" not in enc.params or source_of(enc.spec) != "config":
        return {}
    file = open_model(enc.spec)
    usual = file.model.row.get("kind", "learned").split()[0]
    runs = [replace(run, kind=run.kind or usual) for run in file.layers]
    layers = [
        {"index": run.index, "kind": run.kind, "rotation": run.part or None, "window": run.window}
        for run in runs
    ]
    return {"layers": layers, "softmax_factor": enc.params.get("softmax_factor", 1.0)}


TOLD = replace(
    frame.framed("check-faithful", figure=faithful),
    record=lambda a: frame.record_of_fields(a) | model_of(a.encoding),
)

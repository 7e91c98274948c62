"""How are inner products by lag drawn? What `check-faithful`, `relations` and pages share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pefourier.encodings.places import axis_names
from pefourier.questions.relations import in_units, kernel_lines
from pefourier.report import plot
from pefourier.report.frame import Answer


def draw_kernels(
    axes: plot.Axes, answers: Sequence[Answer], kernels: Sequence[np.ndarray | None], room: float
) -> None:
    """Inner products by lag, of grids along each axis; many lags by their logarithm, in bands."""
    steps = [1.0]
    for i, (a, kernel) in enumerate(zip(answers, kernels, strict=True)):
        if kernel is None:
            name = plot.caption(a.encoding, room - 28 * plot.LETTER)
            axes.plot([], [], label=f"{name}: no inner products by lag")
            continue
        several = kernel.ndim > 1
        names = axis_names(kernel.ndim) if several else [""]
        for name, line, dashes in zip(names, kernel_lines(kernel), plot.LINES, strict=False):
            style = {"color": f"C{i}", "linestyle": dashes} if several else {}
            label = plot.caption(a.encoding, room - plot.LETTER * (len(name) + 7))
            lags = in_units(a.encoding, np.arange(len(line)))
            text = f"{label} along {name}" if several else label
            plot.draw_dense(axes, lags, line, label=text, linewidth=1.2, **style)
            steps += [lags[1]] if len(line) > plot.DENSE else []
    if len(steps) > 1:
        axes.set_xscale("symlog", linthresh=min(steps))
        shade = {"color": "0.75", "linestyle": "-", "linewidth": 6}
        axes.plot([], [], label="shaded: least to largest nearby", **shade)
    timed = (a.encoding.domain.kind == "time" for a in answers)
    units = dict.fromkeys("unit of the times" if is_time else "positions" for is_time in timed)
    biases = (a.encoding.act == "bias" and a.encoding.domain.kind == "lag" for a in answers)
    kinds = dict.fromkeys("mean of exp(bias)" if is_bias else "inner product" for is_bias in biases)
    ylabel = f"{' or '.join(kinds)} (1 at lag 0)"
    axes.set(xlabel=f"lag ({' or '.join(units)})", ylabel=ylabel)

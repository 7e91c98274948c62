"""How are criteria of a base drawn? The picture of `pefourier design`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.report.frame import Answer, framed
from pefourier.report.plot import USUAL, WIDTH, Look, add_legend, literal, make_panels
from pefourier.writing.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pefourier.questions.design import Design

CURVES = {  # field of a candidate: the axis, its scale, the criteria it answers
    "min_distance": ("smallest distance", "linear", ("distance",)),
    "rank": ("rank", "linear", ("rank",)),
    "stable_rank": ("stable rank", "linear", ("stable_rank",)),
    "condition_number": ("condition number", "log", ("condition",)),
    "idle": ("pairs never turning", "linear", ("turns", "wavelength")),
    "bound": ("first lag with Σ\u00a0cos\u00a0<\u00a00", "log", ("bound",)),
}
MARKED = "C6"  # the best, of whatever curve


def criteria(answers: Sequence[Answer], look: Look = USUAL) -> Figure:
    """Each criterion over the base with its best base marked, a curve for each axis of a grid."""
    figure, panels = make_panels(len(CURVES), 1, (WIDTH, 8.4), look, sharex=True)
    for axes, (field, (label, scale, names)) in zip(panels[:, 0], CURVES.items(), strict=True):
        axes.grid(axis="x", color="0.5", alpha=0.25, linewidth=0.6)
        marks: dict[str, list[str]] = {}
        for i, answer in enumerate(answers):
            for name, base in draw_curve(axes, answer.result, field, names, f"C{i}"):
                marks.setdefault(name, []).append(base)
        axes.set(xscale="log", yscale=scale)
        axes.set_ylabel(label, fontsize=8)
        title = ", ".join(f"{name}: {', '.join(bases)}" for name, bases in marks.items())
        axes.set_title(literal(title), loc="right", fontsize=8, color=MARKED, pad=2)
    panels[-1, 0].set_xlabel("base ρ")
    figure.align_ylabels(panels)
    add_legend(figure, panels[0, 0])
    return figure


def draw_curve(
    axes: Axes, design: Design, field: str, names: Sequence[str], colour: str
) -> list[tuple[str, str]]:
    """One criterion of one design, with the best base marked; its name and that base."""
    pairs = [(c.rho, value) for c in design.candidates if (value := getattr(c, field)) is not None]
    points = np.array(pairs).reshape(-1, 2)
    axis = f"axis {design.axis}: " if design.axis else ""
    label = f"{axis}{design.length} positions, d {design.d}"
    axes.plot(*points.T, color=colour, marker="o", markersize=2.5, linewidth=1.2, label=label)
    marks = []
    for name, rho in design.best.items():
        best = points[points[:, 0] == rho]
        if name.partition("=")[0] in names and len(best):
            axes.axvline(rho, color=MARKED, linestyle="--", linewidth=0.9)
            axes.plot(*best.T, "D", color=MARKED, markersize=5, linestyle="none")
            marks.append((name.replace("_", " "), number(rho)))
    return marks


TOLD = framed("design", figure=criteria)

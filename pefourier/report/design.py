"""How are criteria of a base drawn? The picture of `pefourier design`."""

from __future__ import annotations

from collections.abc import Sequence

from pefourier.questions.design import Candidate
from pefourier.report.frame import Answer, framed
from pefourier.report.plot import USUAL, WIDTH, Figure, Look, add_legend, make_panels

CURVES = {  # field of a candidate: the axis, its scale, the criteria it answers
    "min_distance": ("smallest distance", "linear", {"distance"}),
    "rank": ("rank", "linear", {"rank"}),
    "stable_rank": ("stable rank", "linear", {"stable_rank"}),
    "condition_number": ("condition number", "log", {"condition"}),
    "idle": ("pairs never turning", "linear", {"turns", "wavelength"}),
    "bound": ("first lag with Σ\u00a0cos\u00a0<\u00a00", "log", {"bound"}),
}
MARKED = "C6"  # the best, of whatever curve


def criteria(answers: Sequence[Answer], look: Look = USUAL) -> Figure:
    """Each criterion over the base with its best base marked, a curve for each axis of a grid."""
    figure, panels = make_panels(len(CURVES), 1, (WIDTH, 8.4), look, sharex=True)
    for axes, (field, (label, scale, names)) in zip(panels[:, 0], CURVES.items(), strict=True):
        for i, design in enumerate(answer.result for answer in answers):
            curve = [c for c in design.candidates if getattr(c, field) is not None]
            best = [c for c in curve if names & {n.partition("=")[0] for n in c.best_by.split()}]
            axis = f"axis {design.axis}: " if design.axis else ""
            label_of = f"{axis}{design.length} positions, d {design.d}"
            axes.plot(*points(curve, field), f"C{i}.-", label=label_of, linewidth=1.2)
            axes.plot(*points(best, field), f"{MARKED}D", markersize=5)
        axes.set(xscale="log", yscale=scale)
        axes.set_ylabel(label, fontsize=8)
    panels[-1, 0].set_xlabel("base ρ")
    figure.align_ylabels(panels)
    add_legend(figure, panels[0, 0])
    return figure


def points(candidates: Sequence[Candidate], field: str) -> tuple[list[float], list[float]]:
    """Bases, and what each does by one criterion."""
    return [c.rho for c in candidates], [getattr(c, field) for c in candidates]


TOLD = framed("design", figure=criteria)

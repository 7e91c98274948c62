"""Figures of the questions whose command draws none: relations, context, design."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers.grid_plot import kernel_lines
from pefourier.answers.plot import USUAL, WIDTH, Look, caption, literal, make_panels
from pefourier.answers.report import Answer
from pefourier.design import Design

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def context(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Turns of the slowest pair of each band, in training and in the length asked for."""
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.0), look)
    (found,) = (a.result for a in answers)
    bands = [(r.name, band) for r in found.rotations for band in r.bands]
    names = [literal(f"{name} {band.treatment}".strip()) for name, band in bands]
    for shift, label, turns in (
        (-0.2, f"{found.trained} trained", [band.turns_trained for _, band in bands]),
        (0.2, f"{found.length} asked for", [band.turns for _, band in bands]),
    ):
        axes.barh(np.arange(len(bands)) + shift, turns, 0.38, label=label)
    if not bands:
        axes.text(0.5, 0.5, "nothing turns", ha="center", transform=axes.transAxes)
        return figure
    axes.axvline(1, color="0.6", linewidth=0.8)
    axes.set(xlabel="turns of the band's slowest pair", xscale="log", title=caption(answers[0]))
    axes.set_yticks(range(len(bands)), names)
    axes.invert_yaxis()
    axes.legend()
    return figure


def design(answers: Sequence[Any], look: Look = USUAL) -> "Figure":
    """Smallest distance and stable rank of the candidates over their base."""
    found: Design = answers[0]
    figure, panels = make_panels(2, 1, (WIDTH, 4.2), look, sharex=True)
    rho = [c.rho for c in found.candidates]
    for axes, key, label in (
        (panels[0, 0], "min_distance", "smallest distance"),
        (panels[1, 0], "stable_rank", "stable rank"),
    ):
        axes.plot(rho, [getattr(c, key) for c in found.candidates], marker="o", markersize=3)
        axes.set(ylabel=label, xscale="log")
    best = {rho for rho in found.best.values() if rho is not None}
    for axes in panels[:, 0]:
        for base in best:
            axes.axvline(base, color="0.7", linewidth=0.8, linestyle=":")
    panels[0, 0].set_title(f"{found.length} positions, d = {found.d}", loc="left", fontsize=9)
    panels[1, 0].set_xlabel("base ρ (dotted: best by a criterion)")
    return figure

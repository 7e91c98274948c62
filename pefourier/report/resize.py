"""How is a table drawn before and after it was resized? The picture of `pefourier resize`."""

from __future__ import annotations

from collections.abc import Sequence

from pefourier.encodings.grids import size_of
from pefourier.encodings.places import axis_names
from pefourier.questions.resize import Resizing, by_cycles
from pefourier.report import plot
from pefourier.report.frame import Answer, framed

FAINT = 1e-6  # share of energy below which nothing is drawn


def resizing(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> plot.Figure:
    """The share of energy over cycles from end to end of each axis, before and after."""
    result: Resizing = answers[0].result
    letters = axis_names(len(result.old))
    size = (plot.WIDTH, 0.5 + 2.4 * len(letters))
    figure, panels = plot.make_panels(len(letters), 1, size, look)
    for axis, letter in enumerate(letters):
        panel = panels[axis, 0]
        for state, style in zip(result.states, (".-", "x--"), strict=True):
            omitted = tuple(other for other in range(len(letters)) if other != axis)
            name = f"{size_of(state.grid)} {state.name}"
            panel.semilogy(by_cycles(state).sum(axis=omitted), style, linewidth=1, label=name)
        panel.set(xlabel=f"cycles along {letter}", ylabel="share of energy", ylim=(FAINT, None))
    plot.add_legend(figure, panels[0, 0])
    if not look.title:
        figure.suptitle(f"{plot.caption(answers[0].encoding)}, {result.method}", fontsize=9)
    return figure


TOLD = framed("resize", figure=resizing)

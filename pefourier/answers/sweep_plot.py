"""Figures of what changes with the length, in the style of `plot`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.answers.plot import USUAL, WIDTH, Look, brief, literal, make_panels
from pefourier.answers.report import Answer
from pefourier.answers.sweep import by_spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def faithful_sweep(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Smallest distance, and the share of codes that differ in bfloat16, over the length."""
    figure, panels = make_panels(2, 1, (WIDTH, 4.6), look, sharex=True)
    top, low = panels[:, 0]
    for name, some in by_spec(answers):
        lengths = [a.result.length for a in some]
        top.plot(lengths, [a.result.min_distance for a in some], marker="o", label=brief(name, 40))
        losses = [a.result.precision["bfloat16"] for a in some]
        shares = [
            np.nan if loss.distinct_phase is None else loss.distinct_phase / length
            for loss, length in zip(losses, lengths, strict=True)
        ]
        low.plot(lengths, shares, marker="o")
    top.set(xscale="log", ylabel="smallest distance", ylim=(0, None))
    low.set(
        xlabel="length (positions)", ylabel="share different,\ncomputed in bfloat16", yscale="log"
    )
    top.legend(loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def context_sweep(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Pairs in phases that training never met, and pairs that never turn, over the length."""
    figure, panels = make_panels(2, 1, (WIDTH, 4.6), look, sharex=True)
    for axes, field, label in zip(
        panels[:, 0],
        ("unseen", "idle"),
        ("pairs in phases\nnot trained", "pairs that\nnever turn"),
        strict=True,
    ):
        for name, some in by_spec(answers):
            lengths = [a.result.length for a in some]
            for i, rotation in enumerate(some[0].result.rotations):
                counts = [getattr(a.result.rotations[i], field) for a in some]
                words = ", ".join(filter(None, (brief(name, 40), literal(rotation.name))))
                axes.plot(lengths, counts, marker="o", label=words)
        axes.set(xscale="log", ylabel=label, ylim=(-0.5, None))
    if panels[0, 0].lines:
        panels[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 1))
    panels[1, 0].set_xlabel("length (positions)")
    return figure

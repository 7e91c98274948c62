"""How are ways to a longer context drawn? The picture of `pefourier design --extend-from`."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

import numpy as np

from pefourier.encodings.readings import LEVELS, reading_cosine
from pefourier.questions.extend import Extensions
from pefourier.report.context import ABOVE, GREY, mark_lengths
from pefourier.report.frame import Answer, framed
from pefourier.report.plot import USUAL, WIDTH, Axes, Figure, Look, add_legend, brief, make_panels


def extension(answers: Sequence[Answer], look: Look = USUAL) -> Figure:
    """Wavelengths of each way's pairs, and cosines to the trained rotation."""
    heights = [0.7 + 0.3 * len(answers[0].result.candidates), 2.8]
    figure, ((top,), (low,)) = make_panels(2, 1, (WIDTH, 0.4 + sum(heights)), look)
    top.get_gridspec().set_height_ratios(heights)
    draw_ways(top, low, answers[0])
    add_legend(figure, low)
    return figure


def draw_ways(top: Axes, low: Axes, answer: Answer) -> None:
    """Ticks at the wavelengths of each way, and below its cosines over the position."""
    result: Extensions = answer.result
    ways = result.candidates
    for level, extension in enumerate(ways):
        waves = 2 * pi / extension.frequencies[extension.frequencies != 0]
        colour = GREY if extension.way == "unchanged" else "C0"
        top.vlines(waves, -level - 0.35, -level + 0.35, color=colour, linewidth=1)
    mark_lengths(top, result.trained, result.length)
    top.set_yticks([-level for level in range(len(ways))], [extension.name for extension in ways])
    top.set(xscale="log", xlabel="wavelength (positions)", ylim=(0.4 - len(ways), 0.6))
    title = f"{brief(answer.encoding.spec, 60)}, d {result.d}"
    top.set_title(title, loc="left", fontsize=9, pad=ABOVE)
    points = np.unique(np.geomspace(1, result.trained, 200).astype(np.int64))
    for extension in ways[1:]:
        cosines = reading_cosine(result.trained_frequencies, extension.frequencies, points)
        low.plot(points, cosines, label=extension.name, linewidth=1.2)
    for level in LEVELS:
        low.axhline(level, color=GREY, linewidth=0.6, linestyle=":")
    low.set(xscale="log", xlabel="position", ylabel="cosine to the trained codes")
    low.set_ylim(None, 1.05)


TOLD = framed("design", figure=extension)

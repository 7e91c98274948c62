"""Figures of embedding tables and their inner products.

Figures of position ids over tokens: one line per document, unexpected ids in colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pefourier.encodings.encoding import without_prefix
from pefourier.encodings.families.location import PlaceDomain
from pefourier.encodings.grids import size_of
from pefourier.encodings.places import axis_names
from pefourier.report import plot
from pefourier.report.render import Answer
from pefourier.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


from typing import TYPE_CHECKING

from pefourier.ids.spans import EXPECTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Curves = dict[str, tuple[np.ndarray, np.ndarray]]  # lags and inner products, by axis
MOST_ROWS = 400  # in a picture
UNITS = {"time": "unit of the times", "place": "km; on a plane, unit of x and y"}  # of lags


def heatmap(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Draw the table: positions down, dimensions across."""
    figure, panels = plot.make_panels(len(answers), 1, (plot.WIDTH, 1.2 + 2.2 * len(answers)), look)
    for axes, a in zip(panels[:, 0], answers, strict=True):
        draw_table(axes, a, a.result)
    return figure


def encode(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Draw the written vectors."""
    tables = [Answer(a.encoding, a.encoding.table(a.result.positions)) for a in answers]
    return heatmap(tables, look)


def draw_table(axes: Axes, a: Answer, table: Array, of: np.ufunc = np.add, title: str = "") -> None:
    """Draw a table in colours; if there are too many rows, draw means of neighbouring rows.

    Means are used because a selection of rows shows patterns that are not in the table. `of` can
    select the maximum instead, for differences, which would cancel in a mean.
    """
    starts = np.unique(
        np.linspace(0, len(table), min(MOST_ROWS, len(table)), endpoint=False).astype(int)
    )
    counts = np.diff([*starts, len(table)])[:, None]
    means = of.reduceat(table, starts) / (counts if of is np.add else 1)
    limit = float(np.abs(table).max()) or 1.0
    sizes = of is np.maximum and (table >= 0).all()
    image = axes.imshow(
        means,
        "Reds" if sizes else "RdBu_r",
        vmin=0.0 if sizes else -limit,
        vmax=limit,
        interpolation="nearest",
        aspect="auto",
        extent=(-0.5, table.shape[1] - 0.5, len(table) - 0.5, -0.5),
    )
    rows = "row" if a.encoding.domain.kind == "time" else "position"
    axes.set(xlabel="dimension", ylabel=rows)
    axes.set_title(title or plot.entry(axes, a.encoding), loc="left", fontsize=9)
    together = f" ({'means' if of is np.add else 'largest'} of some rows)"
    label = f"{'difference' if title else 'value'}{together * (len(table) > MOST_ROWS)}"
    axes.figure.colorbar(image, ax=axes, label=label)


def compare(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Draw both tables over their common rows and, for equal widths, their difference."""
    encoded = [Answer(enc, enc.table()) for enc in answers[0].result.encodings]
    common = min(len(a.result) for a in encoded)
    first, second = (a.result[:common] for a in encoded)
    has_difference = first.shape == second.shape
    count = 2 + has_difference
    figure, panels = plot.make_panels(count, 1, (plot.WIDTH, 1.2 + 2.2 * count), look)
    for axes, a in zip(panels[:, 0], encoded, strict=False):
        draw_table(axes, a, a.result[:common])
    if has_difference:
        difference, is_large = second - first, common > MOST_ROWS
        title = "|second − first|" if is_large else "second − first (red: larger in the second)"
        shown = np.abs(difference) if is_large else difference
        draw_table(panels[2, 0], encoded[0], shown, np.maximum, title)
    return figure


FAINT = 1e-6  # share of energy below which nothing is drawn


def resizing(answer: Answer, shares: Sequence[Array], look: plot.Look = plot.USUAL) -> Figure:
    """Draw the share of energy over cycles along each axis, before and after resizing."""
    result = answer.result
    letters = axis_names(len(result.old))
    size = (plot.WIDTH, 0.5 + 2.4 * len(letters))
    figure, panels = plot.make_panels(len(letters), 1, size, look)
    for axis, letter in enumerate(letters):
        panel = panels[axis, 0]
        for state, share, style in zip(result.states, shares, (".-", "x--"), strict=True):
            omitted = tuple(a for a in range(len(letters)) if a != axis)
            name = f"{size_of(state.grid)} {state.name}"
            panel.semilogy(share.sum(axis=omitted), style, linewidth=1, label=name)
        panel.set(xlabel=f"cycles along {letter}", ylabel="share of energy", ylim=(FAINT, None))
    plot.add_legend(figure, panels[0, 0])
    if not look.title:
        figure.suptitle(f"{plot.caption(answer.encoding)}, {result.method}", fontsize=9)
    return figure


MOST_POINTS = 1000  # of a decreasing curve


def faithful(
    answers: Sequence[Answer], kernels: Sequence[Curves | None], look: plot.Look = plot.USUAL
) -> Figure:
    """Draw singular values (for rank and conditioning), and inner products by lag or a map."""
    figure, ((values_axes, kernel_axes),) = plot.make_panels(1, 2, (plot.WIDTH, 3.0), look)
    draw_singular_values(values_axes, answers)
    if isinstance(answers[0].encoding.domain, PlaceDomain):
        draw_map(kernel_axes, answers[0], answers[0].encoding.domain)
    else:
        draw_kernels(kernel_axes, answers, kernels)
    grids = any(curves is not None and len(curves) > 1 for curves in kernels)
    plot.add_legend(figure, values_axes, *([kernel_axes] if grids else []))
    return figure


def draw_map(axes: Axes, a: Answer, domain: PlaceDomain) -> None:
    """Draw places in colours of the distance of their vectors to the first of the closest pair."""
    pair, table = list(a.result.closest_pair or [0]), a.encoding.table()
    x, y = domain.at.T
    image = axes.scatter(x, y, c=np.linalg.norm(table - table[pair[0]], axis=1), s=9)
    axes.plot(x[pair], y[pair], "r+", markersize=12)
    axes.set(xlabel="longitude" if domain.unit else "x", ylabel="latitude" if domain.unit else "y")
    if domain.unit:
        west = -180 if x.min() < 0 else 0
        axes.set(xlim=(west, west + 360), xticks=range(west, west + 361, 90))
    axes.set_title(f"{a.encoding.label}: + closest pair", loc="left", fontsize=9)
    axes.figure.colorbar(image, ax=axes, label=f"distance to vector {pair[0]}")


def draw_singular_values(axes: Axes, answers: Sequence[Answer]) -> None:
    """Draw singular values over the largest; values at or below a dotted line count as zero."""
    from pefourier.geometry.singular_values import decompose

    lowest = 1.0
    for a in answers:
        sigma = decompose(without_prefix(a.encoding)).sigma
        label = plot.entry(axes, a.encoding, f" (rank {a.result.rank})")
        index = np.unique(np.linspace(0, len(sigma) - 1, MOST_POINTS).astype(int))
        index = index[: len(index) * bool(sigma[0] > 0)]  # none if all vectors are zero
        ratios = np.maximum(sigma[index] / sigma[0], np.finfo(float).tiny)
        (line,) = axes.plot(index + 1, ratios, label=label)
        if len(index):
            zero = a.result.rank_tolerance / sigma[0]
            axes.axhline(zero, color=line.get_color(), linewidth=0.8, linestyle=":")
            lowest = min(lowest, zero)
    axes.plot([], [], color="black", linestyle=":", label="counted as zero")
    axes.set(xlabel="index", ylabel="singular value / largest", yscale="log")
    axes.set_ylim(lowest / 1e3, 3)


def relations(
    answers: Sequence[Answer], kernels: Sequence[Curves | None], look: plot.Look = plot.USUAL
) -> Figure:
    """Draw inner products by lag, or note that there are none."""
    figure, ((axes,),) = plot.make_panels(1, 1, (plot.WIDTH, 3.4), look)
    draw_kernels(axes, answers, kernels)
    plot.add_legend(figure, axes)
    return figure


def draw_kernels(axes: Axes, answers: Sequence[Answer], kernels: Sequence[Curves | None]) -> None:
    """Draw inner products by lag (on grids, along each axis); many lags on a logarithmic axis."""
    steps = [1.0]
    for i, (a, curves) in enumerate(zip(answers, kernels, strict=True)):
        if curves is None:
            axes.plot([], [], label=plot.entry(axes, a.encoding, ": no inner products by lag"))
            continue
        for (name, (lags, line)), dashes in zip(curves.items(), plot.LINES, strict=False):
            style = {"color": f"C{i}", "linestyle": dashes} if name else {}
            label = plot.entry(axes, a.encoding, f" along {name}" if name else "")
            plot.draw_dense(axes, lags, line, label=label, linewidth=1.2, **style)
            steps += [lags[1]] if len(line) > plot.DENSE else []
    if len(steps) > 1:
        axes.set_xscale("symlog", linthresh=min(steps))
        name = "shaded: least to largest nearby"
        axes.plot([], [], label=name, color="0.75", linestyle="-", linewidth=6)
    units = dict.fromkeys(UNITS.get(a.encoding.domain.kind, "positions") for a in answers)
    biases = (a.encoding.injection == "bias" and a.encoding.domain.kind == "lag" for a in answers)
    kinds = dict.fromkeys("mean of exp(bias)" if is_bias else "inner product" for is_bias in biases)
    ylabel = f"{' or '.join(kinds)} (1 at lag 0)"
    axes.set(xlabel=f"lag ({' or '.join(units)})", ylabel=ylabel)


PANELS = 4  # number of drawn rows of a batch; rows with mistakes come first


def draw_positions(answers: Sequence[Answer], look: plot.Look) -> Figure:
    """Draw the ids of some rows; grey: as expected, dotted: expected ids."""
    result = answers[0].result
    numbers = list(dict.fromkeys([s.row for s in result.bad] + [s.row for s in result.rows]))
    numbers = numbers[:PANELS]
    figure, panels = plot.make_panels(len(numbers) or 1, 1, (plot.WIDTH, 2.2), look)
    for number, (axes,) in zip(numbers, panels, strict=False):
        for span in (span for span in result.rows if span.row == number):
            x = np.arange(span.start, min(span.start + span.tokens, result.tokens))
            is_right = span.verdict == EXPECTED
            for axis in result.ids[-3:] if len(result.ids) > 1 else result.ids:
                colour = "0.6" if is_right else plot.COLOURS[1]
                axes.plot(x, axis[number, x], ".-", color=colour, markersize=2)
            if not is_right and span.due is not None:
                axes.plot(x, span.due[0][: len(x)], ":", color="0.3")
        kinds = dict.fromkeys(s.verdict for s in result.rows if s.row == number)
        axes.set_title(f"row {number}: {', '.join(kinds)}")
        axes.set_ylabel("id")
    panels[-1][0].set_xlabel("token")
    return figure

"""Figures of answers: tables, inner products, position ids, rotations, spectra, reconstructions.

Spectra and reconstructed positions are Figures 1 and 2 of the paper, and have charts for a
terminal.
"""

from __future__ import annotations

import re
from math import pi
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.encodings.attention_decay import LEVELS, reading_cosine
from pefourier.encodings.encoding import axis_letters, unit_of_waves, without_prefix
from pefourier.encodings.grids import size_of
from pefourier.errors import PefourierError, shorten
from pefourier.geometry.torus import multiplicity
from pefourier.ids.spans import EXPECTED
from pefourier.report import plot
from pefourier.report.plot import Look, brief, caption, entry, literal, make_panels
from pefourier.report.render import Answer, Answers, any_grid
from pefourier.report.terminal import chart
from pefourier.types import Array, Fields, Floats, Ints, Values
from pefourier.writing.text import percent, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 400  # in a picture


def heat(axes: Axes, values: Array, label: str, *, place: str = "right", **style: Any) -> None:
    """Draw numbers (rows, columns) in colours, with a scale."""
    image = axes.imshow(values, **style)
    axes.figure.colorbar(image, ax=axes, label=label, location=place, aspect=15)


def encode(answers: Answers, look: Look) -> Figure:
    """Draw the written vectors."""
    tables = [Answer(a.encoding, a.encoding.table(a.result.positions)) for a in answers]
    return heatmap(tables, look)


def compare(answers: Answers, look: Look) -> Figure:
    """Draw both tables over their common rows and, for equal widths, their difference."""
    encodings = answers[0].result.encodings
    tables = [enc.table()[: min(map(len, encodings))] for enc in encodings]
    encoded = [Answer(*pair) for pair in zip(encodings, tables, strict=True)]
    return heatmap(encoded, look, has_difference=tables[0].shape == tables[1].shape)


def heatmap(answers: Answers, look: Look, *, has_difference: bool = False) -> Figure:
    """Draw tables: rows down, dimensions across; and a difference of two below them."""
    count = len(answers) + has_difference
    figure, panels = make_panels(look, 1.2 + 2.2 * count, count)
    for axes, a in zip(panels, answers, strict=False):
        draw_table(axes, a.result, entry(axes, a.encoding))
    if has_difference:
        size = np.abs(answers[1].result - answers[0].result)
        draw_table(panels[-1], size, "|second − first|", np.maximum)
    return figure


def draw_table(axes: Axes, table: Array, title: str, of: np.ufunc = np.add) -> None:
    """Draw a table in colours; if there are too many rows, draw means of neighbouring rows.

    Means are used because a selection of rows shows patterns that are not in the table. The sizes
    of a difference would cancel in a mean, so `of` selects their maximum.
    """
    count, is_size = min(MOST_ROWS, len(table)), of is np.maximum
    starts = np.arange(count) * len(table) // count
    counts = 1 if is_size else np.diff([*starts, len(table)])[:, None]
    limit = float(np.abs(table).max()) or 1.0
    heat(
        axes,
        of.reduceat(table, starts) / counts,
        "difference" if is_size else "value",
        cmap="Reds" if is_size else "RdBu_r",
        vmin=0.0 if is_size else -limit,
        vmax=limit,
        aspect="auto",
        extent=(-0.5, table.shape[1] - 0.5, len(table) - 0.5, -0.5),
    )
    axes.set(xlabel="dimension", ylabel="row", title=title)


FAINT = 1e-6  # share of energy below which nothing is drawn


def resizing(answers: Answers, look: Look) -> Figure:
    """Draw the share of energy over cycles along each axis, before and after resizing."""
    result = answers[0].result
    letters = axis_letters(len(result.old))
    figure, panels = make_panels(look, 0.5 + 2.4 * len(letters), len(letters))
    figure.suptitle(f"{caption(answers[0].encoding)}, {result.method}", fontsize=9)
    for axis, (panel, letter) in enumerate(zip(panels, letters, strict=True)):
        for state, style in zip(result.states, (".-", "x--"), strict=True):
            name = f"{size_of(state.grid)} {state.name}"
            panel.semilogy(state.along(axis), style, label=name)
        panel.set(xlabel=f"cycles along {letter}", ylabel="share of energy", ylim=(FAINT, None))
    return figure


MOST_POINTS = 1000  # of a decreasing curve


def faithful(answers: Answers, look: Look) -> Figure:
    """Draw singular values over the largest, and inner products by lag.

    Singular values at or below a dotted line count as zero.
    """
    from pefourier.geometry.singular_values import decompose

    figure, ((axes, kernel_axes),) = make_panels(look, 3.0, columns=2)
    lowest = 1.0
    for a in answers:
        sigma = decompose(without_prefix(a.encoding)).sigma
        index = np.unique(np.linspace(0, len(sigma) - 1, MOST_POINTS).astype(int))
        if sigma[0] == 0:  # all vectors are zero
            index = index[:0]
        ratios = np.maximum(sigma[index] / sigma[0], np.finfo(float).tiny)
        axes.plot(index + 1, ratios, label=entry(axes, a.encoding))
        if len(index):
            zero = a.result.rank_tolerance / sigma[0]
            axes.axhline(zero, color="0.4", linestyle=":", label="counted as zero")
            lowest = min(lowest, zero)
    axes.set(xlabel="index", ylabel="singular value / largest", yscale="log")
    axes.set_ylim(lowest / 1e3, 3)  # after the scale
    draw_kernels(kernel_axes, answers)
    return figure


def relations(answers: Answers, look: Look) -> Figure:
    """Draw inner products by lag, or note that there are none."""
    figure, (axes,) = make_panels(look, 3.4)
    draw_kernels(axes, answers)
    axes.set_ylabel(" or ".join(dict.fromkeys(a.result.quantity for a in answers)))
    return figure


def draw_kernels(axes: Axes, answers: Answers) -> None:
    """Draw inner products by lag (on grids, along each axis); many lags on a logarithmic axis."""
    steps = [1.0]
    for i, a in enumerate(answers):
        curves = a.result.kernel_lines or {"": ([], [])}  # lags and inner products, by axis
        for (name, (lags, line)), dashes in zip(curves.items(), plot.LINES, strict=False):
            style: Fields = {"color": f"C{i}"} | ({"linestyle": dashes} if name else {})
            label = entry(axes, a.encoding, f" along {name}" if name else "")
            axes.plot(lags, line, label=label, **style)
            steps += [lags[1]] if len(line) > plot.DENSE else []
    if len(steps) > 1:
        axes.set_xscale("symlog", linthresh=min(steps))
    units = dict.fromkeys(UNITS.get(a.encoding.domain.kind, "positions") for a in answers)
    axes.set(xlabel=f"lag ({' or '.join(units)})", ylabel="kernel (1 at lag 0)")


GREY = "0.6"
PANELS = 4  # number of drawn rows of a batch; rows with mistakes come first


def positions(answers: Answers, look: Look) -> Figure:
    """Draw the ids of some rows; grey: as expected, dotted: expected ids."""
    result = answers[0].result
    numbers = list(dict.fromkeys(span.row for span in (*result.bad, *result.rows)))[:PANELS]
    figure, panels = make_panels(look, 2.2, len(numbers) or 1)
    for number, axes in zip(numbers, panels, strict=False):
        spans = [span for span in result.rows if span.row == number]
        for span in spans:
            colour = GREY if span.verdict == EXPECTED else plot.COLOURS[1]
            axes.plot(span.index, result.ids[-3:, number][:, span.index].T, ".-", color=colour)
            if colour != GREY and span.due is not None:
                axes.plot(span.index, span.due[0], ":", color="0.3")
        verdicts = ", ".join(dict.fromkeys(span.verdict for span in spans))
        axes.set(title=f"row {number}: {verdicts}", ylabel="id")
    panels[-1].set_xlabel("token")
    return figure


COLOURS = {"same": "C0", "kept": "C0", "blended": "C5", "stretched": "C1"}
ABOVE = 14  # points between axes and title, for the names of lengths


def wavelengths(answers: Answers, look: Look) -> Figure:
    """Draw each pair at its wavelength, as trained and as scaled."""
    rotations = [(a, r) for a in answers for r in a.result.rotations if r.rotated]
    if not rotations:
        specs = " and ".join(shorten(printable(a.encoding.spec)) for a in answers)
        raise PefourierError(f"--plot needs frequencies of rotations; {specs} has none")
    heights = [1.01 + 0.36 * ("same" not in r.treatments) for _, r in rotations]
    figure, panels = make_panels(look, 0.5 + sum(heights), len(heights), share="x")
    panels[0].get_gridspec().set_height_ratios(heights)
    for axes, (a, r) in zip(panels, rotations, strict=True):
        marks = [(r.frequencies[of], COLOURS[t], t) for t, of in r.treatments.items()]
        rows = {} if "same" in r.treatments else {"unscaled": [(r.trained_frequencies, GREY, "")]}
        names = caption(a.encoding, 0.7 * plot.width_of(axes)), literal(r.name)
        counts = {state: of.sum() for state, of in r.treatments.items()}
        listed = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        axes.set_title(f"{', '.join(filter(None, names))}: pairs {listed}", pad=ABOVE)
        rows |= {r.scaling if rows else "": marks}
        draw_strips(axes, rows, a.result.trained.length or 0, a.result.length)
    panels[-1].set_xlabel("wavelength (positions)")
    return figure


def draw_strips(axes: Axes, rows: Values, trained: int, length: int) -> None:
    """Draw rows of ticks at wavelengths, by frequencies, colour and label; and both lengths."""
    for level, marks in enumerate(rows.values()):
        for omega, colour, name in marks:
            ends = -level - 0.4, -level + 0.4
            label = "" if name == "same" else name
            if len(omega):
                axes.vlines(2 * pi / omega, *ends, color=colour, label=label, linewidth=1)
    mark_lengths(axes, trained, length)
    axes.set(xscale="log", ylim=(0.4 - len(rows), 0.6))
    ticks = {-level: literal(name) for level, name in enumerate(rows) if name}
    axes.set_yticks(list(ticks), list(ticks.values()))


def mark_lengths(axes: Axes, trained: int, length: int) -> None:
    """Draw named lines at the trained length (0: unknown) and at the requested length."""
    marks = {trained: "trained"} if trained else {}
    marks |= {length: "requested" if length != trained else "trained, requested"}
    place: Fields = {"xycoords": ("data", "axes fraction"), "va": "bottom"}
    for position, name in marks.items():
        axes.axvline(position, color="black", linestyle="--", linewidth=0.9)
        side = "right" if name == "trained" and length > trained else "left"
        axes.annotate(f" {name} {position} ", (position, 1.0), ha=side, fontsize=7, **place)


def extension(answers: Answers, look: Look) -> Figure:
    """Draw the wavelengths of pairs for each scaling, and cosines to the trained rotation."""
    result = answers[0].result
    ways = result.candidates
    heights = [0.7 + 0.3 * len(ways), 2.8]
    figure, (top, low) = make_panels(look, 0.4 + sum(heights), 2)
    top.get_gridspec().set_height_ratios(heights)
    points = np.unique(np.geomspace(1, result.trained, 200).astype(np.int64))
    rows = {way.name: [(way.frequencies[way.frequencies != 0], "C0", "")] for way in ways}
    draw_strips(top, rows, result.trained, result.length)
    top.set_title(f"{brief(answers[0].encoding.spec, 60)}, d {result.d}", pad=ABOVE)
    top.set_xlabel("wavelength (positions)")
    for way in ways[1:]:
        cosines = reading_cosine(result.trained_frequencies, way.frequencies, points)
        low.plot(points, cosines, label=way.name)
    for level in LEVELS:
        low.axhline(level, color=GREY, linewidth=0.6, linestyle=":")
    low.set(xscale="log", xlabel="position", ylabel="cosine to the trained rotation")
    low.set_ylim(None, 1.05)
    return figure


MOST_TIMES = 4.0  # multiple of even use at the end of the colour scale


def usage(answers: Answers, look: Look) -> Figure:
    """Draw shares of the product over wavelength, relative to even use.

    Rotations are in columns, layers in rows, with the mean over heads.
    """
    result = answers[0].result
    count = len(result.rotations)
    by_rotation = [[s for s in result.shares if s.rotation == i] for i in range(count)]
    height = 1.9 + 0.09 * min(max(map(len, by_rotation)), 40)
    wide = plot.WIDTH * max(1.0, 0.7 * count)
    figure, panels = make_panels(look, height, 1, count, width=wide)
    style: Fields = {"vmin": 0.0, "vmax": MOST_TIMES, "rasterized": True, "shading": "nearest"}
    for axes, rotation, layers in zip(panels[0], result.rotations, by_rotation, strict=True):
        waves = np.array([pair.wavelength for pair in rotation.pairs])
        order, used = np.argsort(waves), [np.nanmean(layer.used, axis=0) for layer in layers]
        times = np.array(used)[:, order] * len(waves)
        image = axes.pcolormesh(waves[order], np.arange(len(layers)), times, **style)
        axes.set(xscale="log", ylabel="layer")
        mark_lengths(axes, result.trained, result.length)
        ticks = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 7)).astype(int))
        axes.set_yticks(ticks, [str(layers[i].layer) for i in ticks])
        axes.invert_yaxis()
        bar = figure.colorbar(image, ax=axes, location="bottom", aspect=40, extend="max")
        bar.set_label("share of the product, relative to even use", fontsize=7)
        names = brief(result.encoding.spec, 60), literal(rotation.name)
        axes.set_title(", ".join(filter(None, names)), pad=ABOVE)
    figure.supxlabel("wavelength (positions)")
    return figure


UNITS = {"time": "unit of the times"}  # of lags
LITTLE = 0.0005  # negligible share of the energy
SPARSE = 0.5  # share of lattice points with energy below which they are drawn as lines


def by_decade(answers: Answers, axis: str) -> bool:
    """Whether to draw spectra over the logarithm of frequency, which grids do not support."""
    if axis == "log" and any_grid(answers):
        raise PefourierError("--axis log draws frequencies of one axis, not of grids; leave it out")
    is_slow = not any_grid(answers) and bool(answers[0].result.measure.is_slow)
    return axis == "log" or (axis == "auto" and is_slow)  # of the first: others can be added


def spectrum_chart(answers: Answers, axis: str = "auto") -> str:
    """Draw the curves of Fig. 1, or densities by decade; grids have none."""
    decades = by_decade(answers, axis)
    if any_grid(answers):
        return ""
    of = "per factor ten of frequency (log)" if decades else "at each lattice frequency"
    title = f"share of energy {of}, ω in {per_unit(answers)}"
    densities = [(a, a.result.measure.by_decade if decades else a.result) for a in answers]
    curves = [(a.encoding.label, *curve_of(a, density)) for a, density in densities]
    return chart(title, curves, logarithmic=decades)


def units_of(answers: Answers) -> str:
    """Return the units of wavelengths, in the plural."""
    return " or ".join(dict.fromkeys(unit_of_waves(a.encoding)[1] for a in answers))


def per_unit(answers: Answers) -> str:
    """Return the unit of frequencies."""
    return "radians per " + re.sub("s(?= o[fr] |$)", "", units_of(answers))


def curve_of(answer: Answer, density: Any) -> tuple[Floats, Floats]:
    """Return frequencies, in radians per position or per unit of times, and the density."""
    return density.omega / unit_of_waves(answer.encoding)[0], density.density


def spectrum(answers: Answers, look: Look, axis: str = "auto") -> Figure:
    """Draw densities over angular frequency (Fig. 1 of the paper).

    The axis is logarithmic if energy is at low frequencies. On grids, draw pictures and the sums
    along each axis.
    """
    decades = by_decade(answers, axis)
    if any_grid(answers):
        return spectrum_on_grids(answers, look)
    figure, (axes,) = make_panels(look, 3.4)
    (draw_decades if decades else draw_densities)(axes, answers)
    axes.set(xlabel=f"angular frequency ω ({per_unit(answers)})", ylim=(0, None))
    return figure


def draw_densities(axes: Axes, answers: Answers) -> None:
    """Draw densities over the frequencies of the lattice."""
    for a in answers:
        x, y = curve_of(a, a.result)
        is_sparse = a.result.sigma == 0 and (y > 0).mean() < SPARSE  # single frequencies
        style: Fields = {"marker": "o", "linestyle": "", "markevery": y > 0} if is_sparse else {}
        axes.plot(x, y, label=entry(axes, a.encoding), **style)
    axes.set(ylabel="share of energy $g_k$", xlim=(0, None))
    if not any(a.encoding.domain.irregular for a in answers):
        axes.set_xlim(0, np.pi)
        axes.set_xticks(np.pi * np.arange(5) / 4, ["0", "π/4", "π/2", "3π/4", "π"])


def draw_decades(axes: Axes, answers: Answers) -> None:
    """Draw densities over the logarithm of frequency, with wavelengths above."""
    separate = all((a.result.sigma, a.result.method) == (0, "declared") for a in answers)
    for a in answers:
        density = a.result.measure.waves if separate else a.result.measure.by_decade
        zero = f" ({percent(density.at_zero)} at 0)" if density.at_zero >= LITTLE else ""
        x, y = curve_of(a, density)
        marks = ["o"] if separate else []  # a line has the style of its turn
        axes.plot(x, y, *marks, label=entry(axes, a.encoding, zero))
    length = len(answers[0].encoding) * unit_of_waves(answers[0].encoding)[0]
    label = f"1 rotation in {length:.6g}"
    axes.axvline(2 * np.pi / length, color=GREY, linestyle=":", label=label)
    share = "share of energy of each frequency" if separate else "share of energy per decade"
    axes.set(xscale="log", ylabel=share)
    axes.set_xlim(axes.get_xlim())
    above = axes.twiny()
    above.set(xscale="log", xlabel=f"wavelength ({units_of(answers)})")
    above.set_xlim(*(2 * np.pi / omega for omega in axes.get_xlim()))


def whole_plane(density: Array, sides: Ints) -> Array:
    """Return the density over all frequencies of rows and columns, with 0 in the middle.

    Other axes are summed.

    >>> whole_plane(np.array([[0.5, 0.5]]), (1, 3)).tolist()
    [[0.25, 0.5, 0.25]]
    """
    energies = (density / multiplicity(sides)).reshape(-1, *density.shape[-2:])
    last = sides[-1]
    mirrored = energies[:, (-np.arange(sides[-2])) % sides[-2], :][..., (last - 1) // 2 : 0 : -1]
    return np.fft.fftshift(np.concatenate([energies, mirrored], axis=-1).sum(axis=0))


def spectrum_on_grids(answers: Answers, look: Look) -> Figure:
    """Draw a row per encoding: the density over both frequencies, and its sums along each."""
    rows = len(answers)
    figure, panels = make_panels(look, 0.4 + 3.2 * rows, rows, 2)
    for (plane_axes, sums), a in zip(panels, answers, strict=True):
        plane_axes.set_title(caption(a.encoding, plot.width_of(plane_axes) / 2 - 0.2))
        sums.set(xlabel="ω (radians per point)", ylabel="share of energy")
        if not a.result.on_grid:
            sums.plot(a.result.omega, a.result.density, label="of a sequence")
            plane_axes.set_axis_off()
            continue
        plane = whole_plane(a.result.density, a.result.lattice)
        omega = [2 * np.pi * np.fft.fftshift(np.fft.fftfreq(n)) for n in plane.shape]
        for axis, (name, style) in enumerate((("rows, y", "o-"), ("columns, x", "x--"))):
            sums.plot(omega[axis], plane.sum(axis=1 - axis), style, label=f"along {name}")
        (top, bottom), (start, end) = (
            (line[0] - np.pi / len(line), line[-1] + np.pi / len(line)) for line in omega
        )
        extent = start, end, bottom, top
        heat(plane_axes, plane, "share of energy", place="bottom", vmin=0, extent=extent)
        plane_axes.set(xlabel="ω along columns, x", ylabel="ω along rows, y")
        sums.set_ylim(bottom=0)
    return figure


def reconstruct_chart(answers: Answers) -> str:
    """Draw the curves of Fig. 2 with common axes; grids have none."""
    if any_grid(answers):
        return ""
    curves = [
        (f"{a.encoding.label}, s = {r.point}", np.arange(len(r.values)), r.values)
        for a in answers
        for r in a.result.reconstructions
    ]
    return chart("reconstructed value over a periodic position", curves)


def reconstruct(answers: Answers, look: Look) -> Figure:
    """Draw reconstructed position functions, one panel per encoding (Fig. 2 of the paper)."""
    if any_grid(answers):
        return reconstruct_on_grids(answers, look)
    height = 1.0 + 1.6 * len(answers)
    figure, panels = make_panels(look, height, len(answers), share="y")
    for axes, a in zip(panels, answers, strict=True):
        draw_functions(axes, a, entry(axes, a.encoding))
    return figure


def draw_functions(axes: Axes, answer: Answer, title: str) -> None:
    """Draw the reconstructed functions of a sequence, with marks at repeated positions."""
    result = answer.result
    for r in result.reconstructions:
        axes.plot(r.values, label=f"s = {r.position}")
    tops = np.array([top for peaks in result.repeats for top, _ in peaks], dtype=int)
    for r in result.reconstructions if len(tops) else ():
        places = np.append(r.position + tops, r.position - tops) % result.lattice
        axes.plot(places, r.values[places], "v", color="0.3", label="repeated position")
    label = f"position (a circle: {result.lattice} is 0 again)"
    axes.set(title=title, xlabel=label, ylabel="reconstructed value")


def reconstruct_on_grids(answers: Answers, look: Look) -> Figure:
    """Draw reconstructed points as pictures, one row per encoding; of frames, that of the peak."""
    points = [a.result.reconstructions if a.result.on_grid else ["all"] for a in answers]
    count = max(map(len, points))
    width = look.width or max(3.0, 2.1 * count)
    height = (width / count + 0.85) * len(answers)
    figure, panels = make_panels(look, height, len(answers), count, width=width)
    for row, a, of_row in zip(panels, answers, points, strict=True):
        title = caption(a.encoding, width / count)
        for axes in row[len(of_row) :]:
            axes.set_axis_off()
        for axes, r in zip(row, of_row, strict=False):
            if not a.result.on_grid:
                draw_functions(axes, a, title)
                continue
            heat(axes, r.values[r.position[:-2]], "", place="bottom")
            named = f"{title}\n({r.point}), peak {r.peak:.3f}"
            axes.set(title=named, xlabel="column", ylabel="row")
    return figure

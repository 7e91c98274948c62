"""Figures 1 and 2 of the paper and their charts: spectra and reconstructed positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.encodings.places import unit_of_waves
from pefourier.errors import PefourierError
from pefourier.geometry.torus import multiplicity
from pefourier.report import plot
from pefourier.report.render import Answer, any_grid
from pefourier.types import Array, Floats, Ints
from pefourier.writing.terminal_chart import chart, limits_of, shades
from pefourier.writing.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LITTLE = 0.0005  # negligible share of the energy
SPARSE = 0.5  # share of lattice points with energy below which they are drawn as lines
TICKS = ([-np.pi, 0, np.pi], ["−π", "0", "π"])


def by_decade(answers: Sequence[Answer], axis: str) -> bool:
    """Whether to draw spectra over the logarithm of frequency, which grids do not support."""
    if axis == "auto":
        return not any_grid(answers) and all(a.result.is_slow for a in answers)
    if axis == "log" and any_grid(answers):
        names = ", ".join(a.encoding.label for a in answers if a.result.on_grid)
        raise PefourierError(
            f"--axis log draws frequencies of one axis; {names} has several, leave it out or the "
            "option"
        )
    return axis == "log"


def spectrum_chart(answers: Sequence[Answer], *, colour: bool, axis: str = "auto") -> str:
    """Draw the curves of Fig. 1 or densities by decade, and a picture of each density on a grid."""
    flat = [a for a in answers if not a.result.on_grid]
    text = lines_chart(flat, colour=colour, axis=axis) + "\n" if flat else ""
    for a in answers:
        if a.result.on_grid:
            density = a.result.density.sum(axis=tuple(range(a.result.density.ndim - 2)))
            shifted = np.fft.fftshift(density, axes=0)
            label = f"{a.encoding.label}: share of energy; ω_y from -π at the top, ω_x from 0"
            text += shades(shifted, label) + "\n"
    return text


def lines_chart(answers: Sequence[Answer], *, colour: bool, axis: str) -> str:
    """Draw densities by decade, or over the lattice (logarithmic if one has low frequencies)."""
    decades = by_decade(answers, axis)
    some_slow = axis == "auto" and any(a.result.is_slow for a in answers)
    first = int(some_slow and not decades)  # frequency 0 has no logarithm
    curves = []
    for a in answers:
        density = a.result.by_decade if decades else a.result
        zero = share_at_zero(density.at_zero if decades else density.density[0] * first)
        points = per_unit(a, density)[first:], density.density[first:]
        curves.append((f"{a.encoding.label}{zero}", *points))
    slow = decades or some_slow
    xlabel = f"ω, radians per {unit(answers)}{' (log)' if slow else ''}"
    of = "per factor ten of frequency" if decades else "at each lattice frequency"
    return chart(curves, xlabel, f"share of energy {of}", colour=colour, logarithmic=slow)


def per_unit(answer: Answer, density: Any) -> Floats:
    """Return the frequencies of a density, in radians per position or per unit of times."""
    omega: Floats = density.omega
    return omega / unit_of_waves(answer.encoding)[0]


def units(answers: Sequence[Answer]) -> str:
    """Return the units of wavelengths."""
    timed = [a.encoding for a in answers if a.encoding.domain.kind == "time"]
    names = [] if len(timed) == len(answers) else ["positions"]
    return " or ".join(dict.fromkeys([*names, *(unit_of_waves(enc)[1] for enc in timed)]))


def unit(answers: Sequence[Answer]) -> str:
    """Return the unit of a wavelength in the singular."""
    return re.sub(r"\b(position|step|unit)s\b", r"\1", units(answers))


def frequency_label(answers: Sequence[Answer]) -> str:
    """Return the label of a frequency axis."""
    return f"angular frequency ω (radians per {unit(answers)})"


def share_at_zero(share: float) -> str:
    """Return the share at frequency 0, which a logarithmic axis leaves out, for a legend.

    >>> share_at_zero(0.25), share_at_zero(0.0)
    (' (25% at 0)', '')
    """
    return f" ({percent(share)} at 0)" if share >= LITTLE else ""


def spectrum(answers: Sequence[Answer], look: plot.Look = plot.USUAL, axis: str = "auto") -> Figure:
    """Draw densities over angular frequency (Fig. 1 of the paper).

    The axis is logarithmic if energy is at low frequencies. On grids, draw pictures and the sums
    along each axis.
    """
    if by_decade(answers, axis):
        return spectrum_by_decade(answers, look)
    if any_grid(answers):
        return spectrum_on_grids(answers, look)
    figure, ((axes,),) = plot.make_panels(1, 1, (plot.WIDTH, 3.2), look)
    for a in answers:
        x, y = per_unit(a, a.result), a.result.density
        (line,) = axes.plot(x, y, label=plot.entry(axes, a.encoding), linewidth=1.4)
        if a.result.sigma == 0 and (y > 0).mean() < SPARSE:  # single lines behind the curves
            line.set(data=([], []), linestyle="-", linewidth=0.7)
            axes.vlines(x[y > 0], 0, y[y > 0], color=line.get_color(), linewidth=0.7, zorder=1)
    axes.set(xlabel=frequency_label(answers), ylabel="share of energy $g_k$")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    if not any(a.encoding.domain.irregular for a in answers):
        axes.set_xlim(0, np.pi)
        axes.set_xticks(np.pi * np.arange(5) / 4, ["0", "π/4", "π/2", "3π/4", "π"])
    plot.add_legend(figure, axes)
    return figure


def spectrum_by_decade(answers: Sequence[Answer], look: plot.Look) -> Figure:
    """Draw densities over the logarithm of frequency, with wavelengths above."""
    figure, ((axes,),) = plot.make_panels(1, 1, (plot.WIDTH, 3.4), look)
    axes.set_xscale("log")
    separate = all((a.result.sigma, a.result.method) == (0, "declared") for a in answers)
    for a in answers:
        density = a.result.waves if separate else a.result.by_decade
        label = plot.entry(axes, a.encoding, share_at_zero(density.at_zero))
        style = "o" if separate else "-"
        axes.plot(per_unit(a, density), density.density, style, label=label, markersize=3)
    lengths = {len(a.encoding) * unit_of_waves(a.encoding)[0] for a in answers}
    if len(lengths) == 1:
        (length,) = lengths
        line_style = {"color": "0.6", "linewidth": 0.8, "linestyle": ":"}
        axes.axvline(
            2 * np.pi / length, label=f"1 rotation in {length:.6g} {units(answers)}", **line_style
        )
    share = "share of energy of each frequency" if separate else "share of energy per decade"
    axes.set(xlabel=frequency_label(answers), ylabel=share)
    axes.set_ylim(bottom=0)
    limits = axes.get_xlim()
    axes.set_xlim(limits)
    if figure.get_figwidth() < plot.NARROW:  # labels between powers of ten would overlap
        axes.xaxis.set_minor_formatter("")
    plot.add_legend(figure, axes)
    above = axes.twiny()
    above.set(xscale="log", xlabel=f"wavelength ({units(answers)})")
    above.set_xlim([2 * np.pi / omega for omega in limits])
    return figure


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


def spectrum_on_grids(answers: Sequence[Answer], look: plot.Look) -> Figure:
    """Draw a row per encoding: the density over both frequencies, and its sums along each."""
    rows = len(answers)
    figure, panels = plot.make_panels(rows, 2, (plot.WIDTH, 0.4 + 3.2 * rows), look)
    for (picture, sums), a in zip(panels, answers, strict=True):
        picture.set_title(plot.caption(a.encoding, 2.8), loc="left", fontsize=9)
        sums.set(xlabel="ω (radians per point)", ylabel="share of energy")
        if np.ndim(a.result.density) == 1:
            sums.plot(a.result.omega, a.result.density, label="of a sequence")
            picture.set_axis_off()
        else:
            draw_density(figure, picture, sums, a.result)
    plot.add_legend(figure, *panels[:, 1])
    return figure


def draw_density(figure: Figure, picture: Axes, sums: Axes, result: Any) -> None:
    """Draw a density over the frequencies of rows and columns, and its two marginals."""
    plane = whole_plane(result.density, result.lattice)
    omega = [2 * np.pi * np.fft.fftshift(np.fft.fftfreq(n)) for n in plane.shape]
    for axis, (name, style) in enumerate((("rows, y", "o-"), ("columns, x", "x--"))):
        share = plane.sum(axis=1 - axis)
        sums.plot(omega[axis], share, style, label=f"along {name}", linewidth=1, markersize=3)
    (top, bottom), (start, end) = (
        (line[0] - np.pi / len(line), line[-1] + np.pi / len(line)) for line in omega
    )
    edges = (start, end, bottom, top)
    image = picture.imshow(plane, "cividis", vmin=0, interpolation="nearest", extent=edges)
    picture.set(xlabel="ω along columns, x", ylabel="ω along rows, y")
    sums.set_ylim(bottom=0)
    for set_ticks in (picture.set_xticks, picture.set_yticks, sums.set_xticks):
        set_ticks(*TICKS)
    picture.set(xlim=(start, end), ylim=(bottom, top))  # a tick at π would widen an even side
    figure.colorbar(image, ax=picture, label="share of energy", location="bottom", aspect=12)


def reconstruct_chart(answers: Sequence[Answer], *, colour: bool) -> str:
    """Draw the curves of Fig. 2: one chart per encoding, with a common vertical axis."""
    flat = [r.values for a in answers for r in a.result.reconstructions if r.values.ndim == 1]
    limits = limits_of(np.concatenate([*flat, [0.0]]))
    parts = []
    for a in answers:
        rebuilt = a.result.reconstructions
        if a.result.on_grid:  # with several frames, that of the point
            for r in rebuilt:
                title = f"{a.encoding.label}: ({r.point}) reconstructed; rows down, columns across"
                parts.append(shades(r.values[r.position[:-2]], title))
            continue
        x = np.arange(a.result.lattice)
        curves = [(f"{a.encoding.label}, s = {r.position}", x, r.values) for r in rebuilt]
        label = f"position reconstructed from {a.encoding.label}"
        xlabel = around(a.result)
        parts.append(chart(curves, xlabel, label, height=8, colour=colour, ylimits=limits))
    return "".join(f"{part}\n" for part in parts)


def around(r: Any) -> str:
    """Return the label of a position axis, which is periodic."""
    return f"position (a circle: {r.lattice} is 0 again)"


def reconstruct(answers: Sequence[Answer], look: plot.Look = plot.USUAL) -> Figure:
    """Draw reconstructed position functions, one panel per encoding (Fig. 2 of the paper)."""
    if any_grid(answers):
        return reconstruct_on_grids(answers, look)
    size = (plot.WIDTH, 1.0 + 1.6 * len(answers))
    is_shared = len({a.result.lattice for a in answers}) == 1
    share = "xy" if is_shared else "y"
    figure, panels = plot.make_panels(len(answers), 1, size, look, share=share)
    for axes, a in zip(panels[:, 0], answers, strict=True):
        for r in a.result.reconstructions:
            axes.plot(r.values, label=f"s = {r.position}", linewidth=1.2)
        tops = np.array([top for peaks in a.result.repeats for top, _ in peaks], dtype=int)
        for r in a.result.reconstructions if len(tops) else ():
            places = np.append(r.position + tops, r.position - tops) % a.result.lattice
            axes.plot(places, r.values[places], "v", color="0.3", label="repeated position")
        axes.set_title(plot.entry(axes, a.encoding), loc="left", fontsize=9)
        axes.set_ylabel("reconstructed value")
        axes.set_xlabel(around(a.result) if axes is panels[-1, 0] or not is_shared else "")
    plot.add_legend(figure, panels[0, 0])
    return figure


def reconstruct_on_grids(answers: Sequence[Answer], look: plot.Look) -> Figure:
    """Draw reconstructed points as pictures, one row per encoding; of frames, that of the peak."""
    count = max(len(a.result.reconstructions) for a in answers)
    width = look.width or max(3.0, 2.1 * count)
    size = (width, (width / count + 0.85) * len(answers))
    figure, panels = plot.make_panels(len(answers), count, size, look)
    for row, a in zip(panels, answers, strict=True):
        for axes, r in zip(row, a.result.reconstructions, strict=False):
            title = f"{plot.caption(a.encoding, width / count)}\n({r.point}), peak {r.peak:.3f}"
            axes.set_title(title, fontsize=8, loc="left")
            if r.values.ndim == 1:
                axes.plot(r.values)
                axes.set(xlabel="position", ylabel="reconstructed value")
                continue
            values = r.values[r.position[:-2]]
            image = axes.imshow(values, cmap="cividis", interpolation="nearest")
            axes.set(xlabel="column", ylabel="row" if axes is row[0] else "")
            axes.locator_params(nbins=5, integer=True)
            figure.colorbar(image, ax=axes, location="bottom", shrink=0.9, aspect=12)
        for axes in row[len(a.result.reconstructions) :]:
            axes.set_axis_off()
    return figure

"""Figures of answers, fit for a paper: the only room that imports matplotlib.

Text stays text in PDF and SVG, colours are told apart by the colour-blind (Okabe and Ito) and by
line style, axes carry units, and the same answer gives the same bytes on every run: of a user's
own settings only the file that MATPLOTLIBRC names counts. Backends of the screen are left alone.
"""

import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers.document import Markup
from pefourier.answers.grid_plot import kernel_lines, points_on_grids, spectrum_on_grids
from pefourier.answers.inline_svg import CURVES, INK, inline_svg
from pefourier.answers.report import Answer, any_grid, share_at_zero
from pefourier.bands import density_by_decade
from pefourier.encodings.encoding import without_prefix
from pefourier.errors import PefourierError, printable, shown
from pefourier.files import reason, write_whole
from pefourier.geometry.singular_values import decompose
from pefourier.relations import kernel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = {
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "pefourier",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": (
        "cycler(color=['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#56B4E9', '#E69F00', "
        "'#000000']) + cycler(linestyle=['-', '--', '-.', ':', '-', '--', '-.'])"
    ),
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
WIDTH = 6.0  # inches: the text width of most papers
MOST_PIXELS = 2e8  # of a PNG
LIGHT_ON_DARK = ("#56B4E9", "#FF8C42", "#2ECC9A", "#E3A1CB", "#9AD1F5", "#F2B632", "#F2F2F2")
LINES = ("-", "--", "-.", ":", "-", "--", "-.")
MANY = 7  # curves that can be told apart on common axes
ACROSS = 4  # panels in a row
FREQUENCY = "angular frequency ω (radians per position)"
LETTER = 0.075  # inches, of a line of text
LOWEST = 2.6  # inches of a narrow figure
LINE = 0.17  # inches, from one line of text to the next
LEGEND_SHARE = 0.45  # of a figure's width that names may cover
STRETCHES = 500  # of a long curve
SHORT = 50  # lags that need no logarithm
SETTINGS = "MATPLOTLIBRC"  # names a file of settings, or a folder that has a matplotlibrc


@dataclass(frozen=True)
class Look:
    """How a figure is to look."""

    width: float | None = None  # inches; None: what suits the figure
    dpi: int = 200  # of a PNG
    title: str = ""
    ink: str | None = None  # colour of text and axes; None: matplotlib's, on white
    paper: str = "none"
    curves: Sequence[str] = ()

    def settings(self) -> dict[str, Any]:
        """Colours as matplotlib takes them."""
        if self.ink is None:
            return {}
        inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
        cycle = f"cycler(color={list(self.curves)}) + cycler(linestyle={list(LINES)})"
        papers = {"figure.facecolor": self.paper, "axes.facecolor": self.paper}
        return {**dict.fromkeys(inked, self.ink), **papers, "axes.prop_cycle": cycle}


USUAL = Look()
DARK = Look(ink="#E6E6E6", paper="#16191D", curves=LIGHT_ON_DARK)
INLINE = Look(width=3.8, ink=INK, curves=CURVES)  # of a page, which has the colours
INLINE_WIDE = replace(INLINE, width=8.0)


def import_matplotlib() -> Any:
    """The library; a matplotlibrc that lies about and MPLBACKEND do not keep it from loading."""
    if "matplotlib" not in sys.modules:
        import logging

        logging.getLogger("matplotlib").setLevel(logging.ERROR)  # of a home that is not writable
        given = {name: os.environ.pop(name, None) for name in (SETTINGS, "MPLBACKEND")}
        os.environ[SETTINGS] = os.devnull
        try:
            with out_of_reach("matplotlibrc"):
                import matplotlib  # noqa: F401
        finally:
            del os.environ[SETTINGS]
            os.environ.update({name: value for name, value in given.items() if value is not None})
    return sys.modules["matplotlib"]


@contextmanager
def out_of_reach(name: str) -> Iterator[None]:
    """Work in another folder where the working directory has a file of this name."""
    if not os.path.exists(name):
        yield
        return
    here = os.getcwd()
    os.chdir(os.path.dirname(__file__))
    try:
        yield
    finally:
        os.chdir(here)


@contextmanager
def figure_style(look: Look = USUAL) -> Iterator[None]:
    """Figures made here have matplotlib's defaults, what MATPLOTLIBRC asks for, and `STYLE`."""
    matplotlib = import_matplotlib()
    own = {key: matplotlib.rcParamsDefault[key] for key in matplotlib.rcParamsDefault}
    settings = own | user_settings() | STYLE | look.settings()
    del settings["backend"]  # the context would not restore it
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in letters without a font
        with matplotlib.rc_context(settings):
            yield


def user_settings() -> dict[str, Any]:
    """What the file that MATPLOTLIBRC names asks for; nothing where it names none."""
    given = os.environ.get(SETTINGS, "")
    for path in (given, os.path.join(given, "matplotlibrc")):
        if given and os.path.isfile(path):
            read = import_matplotlib().rc_params_from_file
            try:
                return dict(read(path, use_default_template=False))
            except (OSError, UnicodeDecodeError) as error:
                what = f"{SETTINGS}={shown(given)}"
                raise PefourierError(f"cannot read {what}: {reason(error)}; unset it") from error
    return {}


def make_panels(
    rows: int, columns: int, size: tuple[float, float], look: Look = USUAL, **shared: bool
) -> Any:
    """A figure of so many inches, or as wide as it is to look, and its axes (rows, columns)."""
    figure = make_figure(size, look)
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def make_figure(size: tuple[float, float], look: Look = USUAL) -> "Figure":
    """An empty figure of so many inches, or as wide as it is to look."""
    from matplotlib.figure import Figure

    wide, high = size
    width = look.width or wide
    figure = Figure(figsize=(width, max(high * (width / wide) ** 0.5, min(high, LOWEST))))
    if look.title:
        figure.suptitle(literal(printable(look.title)))
    return figure


def literal(text: str) -> str:
    """A text that matplotlib shows as it is, not as a formula between $."""
    return text.replace("$", r"\$")


def caption(answer: Answer, room: float = WIDTH) -> str:
    """The SPEC as a legend shows it as it is, no entry hidden by _; cut to so many inches."""
    text = brief(answer.encoding.spec, int(room / LETTER))
    return " " + text if text.startswith("_") else text


def room_for_names(figure: "Figure") -> float:
    """Inches that the name of a curve may take below the axes, beside its line."""
    return figure.get_figwidth() - 0.8


def add_legend(figure: "Figure", axes: "Axes", look: Look) -> None:
    """Name the curves on the axes, or below them where names are long or a page has room."""
    _, labels = axes.get_legend_handles_labels()
    longest = max(map(len, labels), default=0) * LETTER
    if look not in (INLINE, INLINE_WIDE) and 0 < longest < LEGEND_SHARE * figure.get_figwidth():
        axes.legend()
    else:
        add_legend_below(figure, axes)


def add_legend_below(figure: "Figure", axes: "Axes") -> None:
    """Name the curves of some axes below them, in as many columns as there is room for."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        longest = LETTER * max(map(len, labels)) + 0.6
        columns = max(1, int(figure.get_figwidth() / longest))
        rows = -(-len(labels) // columns)
        figure.set_figheight(figure.get_figheight() + LINE * rows)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def spectrum(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Densities over angular frequency, as Fig. 1 of the paper; in panels where there are many.

    On grids they are pictures, with what they sum to along each axis.
    """
    if any_grid(answers):
        figure = make_figure((1.5 * WIDTH, 0.4 + 2.3 * len(answers)), look)
        spectrum_on_grids(figure, answers, list(map(caption, answers)))
        return figure
    if len(answers) > MANY:
        return spectrum_panels(answers, look)
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.2), look)
    for a in answers:
        label = caption(a, room_for_names(figure))
        axes.plot(a.result.omega, a.result.density, label=label, linewidth=1.4)
    axes.set(xlabel=lines_within(FREQUENCY, figure), ylabel="share of energy $g_k$")
    axes.set_ylim(bottom=0)
    set_frequency_axis(axes)
    add_legend(figure, axes, look)
    return figure


def spectrum_by_decade(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Densities over the logarithm of frequency, with the lengths of the waves above."""
    if len(answers) > MANY:
        return spectrum_panels(answers, look, logarithmic=True)
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.4), look)
    axes.set_xscale("log")
    for a in answers:
        found = density_by_decade(a.encoding, a.result.method)
        zero = share_at_zero(found.at_zero)
        label = caption(a, room_for_names(figure) - LETTER * len(zero)) + zero
        axes.plot(found.omega, found.density, label=label, linewidth=1.4)
    lengths = {len(a.encoding) for a in answers}
    if len(lengths) == 1:
        mark_one_turn(axes, lengths.pop())
    axes.set(xlabel=lines_within(FREQUENCY, figure), ylabel="share of energy per decade")
    axes.set_ylim(bottom=0)
    limits = axes.get_xlim()
    axes.set_xlim(limits)
    add_legend(figure, axes, look)
    above = axes.twiny()
    above.set(xscale="log", xlabel="length of the wave (positions)")
    above.set_xlim([2 * np.pi / omega for omega in limits])
    return figure


def mark_one_turn(axes: "Axes", length: int) -> None:
    """A labelled line at the wave that finishes one turn within so many positions."""
    turn = 2 * np.pi / length
    axes.axvline(turn, color="0.6", linewidth=0.8, linestyle=":")
    place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "bottom"}
    text = f"one turn in {length}"
    axes.annotate(text, (turn, 0.02), (3, 0), rotation=90, fontsize=7, **place)


def envelope(x: np.ndarray, y: np.ndarray, logarithmic: bool = False) -> tuple[np.ndarray, ...]:
    """A curve of few points that looks the same: the least and the largest of each stretch.

    >>> x, y = envelope(np.arange(1e5), np.sin(np.arange(1e5)))
    >>> len(x) <= 2 * STRETCHES + 2, bool(y.max() > 0.99999)
    (True, True)
    """
    if len(x) <= 2 * STRETCHES:
        return x, y
    spaced = np.geomspace if logarithmic else np.linspace
    edges = np.unique(spaced(1, len(x) + 1, STRETCHES + 1).astype(int) - 1)
    kept = [
        start + np.unique([np.argmin(part), np.argmax(part)])
        for start, part in ((a, y[a:b]) for a, b in pairwise(edges))
    ]
    chosen = np.unique(np.concatenate([*kept, [0, len(x) - 1]]))
    return x[chosen], y[chosen]


def spectrum_panels(
    answers: Sequence[Answer], look: Look = USUAL, logarithmic: bool = False
) -> "Figure":
    """Densities side by side, each on its own scale: what differs is where the energy lies."""
    rows = -(-len(answers) // ACROSS)
    size = (WIDTH * 1.3, 0.5 + 1.05 * rows)
    figure, panels = make_panels(rows, ACROSS, size, look, sharex=True)
    for axes in panels.flat[len(answers) :]:
        axes.set_axis_off()
    for axes, a in zip(panels.flat, answers, strict=False):
        found = density_by_decade(a.encoding, a.result.method) if logarithmic else a.result
        peak = np.nanmax(found.density, initial=0) or 1.0
        if np.isnan(found.density).any():
            place = {"ha": "center", "va": "center", "transform": axes.transAxes}
            axes.text(0.5, 0.5 / 1.05, "no spectrum", fontsize=8, **place)
        axes.fill_between(found.omega, found.density / peak, color="C0", linewidth=0)
        axes.set_title(caption(a), fontsize=8, loc="left", pad=2)
        axes.set_ylim(0, 1.05)
        axes.set_yticks([])
        axes.tick_params(labelbottom=True, labelsize=7)
        if logarithmic:
            axes.set_xscale("log")
        else:
            set_frequency_axis(axes, 2)
    figure.supxlabel(lines_within(FREQUENCY, figure), fontsize=9)
    share = "per decade" if logarithmic else "$g_k$"
    figure.supylabel(f"share of energy {share} / its largest", fontsize=9)
    return figure


def set_frequency_axis(axes: "Axes", steps: int = 4) -> None:
    """Let the axis go from 0 to pi with ticks in parts of pi."""
    names = {0: "0", 1: "π/4", 2: "π/2", 3: "3π/4", 4: "π"}
    axes.set_xlim(0, np.pi)
    ticks = range(0, 5, 4 // steps)
    axes.set_xticks([np.pi * k / 4 for k in ticks], [names[k] for k in ticks])


def reconstruct(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Rebuilt position functions, one panel per encoding, as Fig. 2 of the paper."""
    if any_grid(answers):
        most = max(len(a.result.reconstructions) for a in answers)
        across, down = (len(answers), 1) if most == 1 else (most, len(answers))
        figure = make_figure((max(3.0, 2.1 * across), 0.2 + 2.4 * down), look)
        room = figure.get_figwidth() / across - 0.1
        points_on_grids(figure, answers, [caption(a, room) for a in answers])
        return figure
    size = (WIDTH, 1.0 + 1.6 * len(answers))
    same = len({a.result.lattice for a in answers}) == 1
    figure, panels = make_panels(len(answers), 1, size, look, sharex=same, sharey=True)
    for axes, a in zip(panels[:, 0], answers, strict=True):
        for r in a.result.reconstructions:
            axes.plot(r.values, label=f"s = {r.position}", linewidth=1.2)
        axes.set_title(caption(a, room_for_names(figure)), loc="left", fontsize=9)
        axes.set_ylabel("rebuilt value")
    panels[-1, 0].set_xlabel("position")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=6)
    return figure


def faithful(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Singular values, for rank and conditioning, and inner products by lag."""
    figure, ((left, right),) = make_panels(1, 2, (WIDTH, 3.0), look)
    draw_singular_values(left, answers, room_for_names(figure))
    add_legend_below(figure, left)
    label = "lag (positions)"
    for i, a in enumerate(answers):
        curve = kernel(without_prefix(a.encoding))
        if curve is not None and curve.ndim > 1:
            lines = kernel_lines(curve)
            for (_, line), style in zip(lines, LINES, strict=False):
                right.plot(np.arange(len(line)), line, color=f"C{i}", linestyle=style)
            label = f"lag (points along {', '.join(name for name, _ in lines)}: — – – ·)"
        elif curve is not None:
            right.plot(np.arange(len(curve)), curve)
    right.set(xlabel=label, ylabel="inner product (1 at lag 0)")
    return figure


def singular_values(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Singular values alone."""
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.4), look)
    draw_singular_values(axes, answers, room_for_names(figure))
    add_legend(figure, axes, look)
    return figure


def draw_singular_values(axes: "Axes", answers: Sequence[Answer], room: float) -> None:
    """Singular values over the largest, and what is no more than rounding."""
    for a in answers:
        sigma = decompose(without_prefix(a.encoding)).sigma
        if sigma[0] > 0:
            shares = np.maximum(sigma / sigma[0], np.finfo(float).tiny)
            index, shares = envelope(np.arange(1, len(sigma) + 1), shares)
            axes.plot(index, shares, label=caption(a, room))
    eps = np.finfo(float).eps
    axes.axhline(eps, color="0.6", linewidth=0.8, linestyle=":")
    axes.annotate("rounding", (1, eps), (0, 2), textcoords="offset points", fontsize=7)
    axes.set(xlabel="index", ylabel="singular value / largest", yscale="log", ylim=(1e-18, 3))


def kernel_by_lag(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Inner products of codes by lag, from lag 1 on; on grids along each axis."""
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.4), look)
    if max(map(len, (a.encoding for a in answers))) > SHORT:
        axes.set_xscale("log")
    axes.axhline(0, color="0.6", linewidth=0.8, linestyle=":")
    for i, a in enumerate(answers):
        label = caption(a, room_for_names(figure) - LETTER * len(" along z"))
        for (name, curve), style in zip(lines_of_kernel(a), LINES, strict=False):
            lags, products = envelope(np.arange(1, len(curve)), curve[1:], logarithmic=True)
            own = {"color": f"C{i}", "linestyle": style} if name else {}
            axes.plot(lags, products, label=label + name, linewidth=1.2, **own)
    axes.set(xlabel="lag (positions)", ylabel="inner product (1 at lag 0)")
    add_legend(figure, axes, look)
    return figure


def lines_of_kernel(answer: Answer) -> list[tuple[str, np.ndarray]]:
    """The kernel with what it is along: nothing for one axis, none where there is no lag."""
    found = kernel(without_prefix(answer.encoding))
    if found is None or found.size < 2:
        return []
    if found.ndim == 1:
        return [("", found)]
    return [(f" along {name}", line) for name, line in kernel_lines(found) if len(line) > 1]


def heatmap(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """The table itself: positions down, dimensions across."""
    figure, panels = make_panels(len(answers), 1, (WIDTH, 1.2 + 2.2 * len(answers)), look)
    for axes, a in zip(panels[:, 0], answers, strict=True):
        limit = float(np.abs(a.result).max()) or 1.0
        image = axes.imshow(
            a.result, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest"
        )
        axes.set(xlabel="dimension", ylabel="position", title=caption(a, room_for_names(figure)))
        figure.colorbar(image, ax=axes, label="value of the code")
    return figure


def compare(answers: Sequence[Answer], look: Look = USUAL) -> "Figure":
    """Both tables and, where they have one shape, their difference."""
    panels = [Answer(a.encoding, a.encoding.table()) for a in answers]
    first, second = panels
    if first.result.shape == second.result.shape:
        spec = f"{first.encoding.spec} − {second.encoding.spec}"
        difference = first.result - second.result
        panels.append(Answer(replace(first.encoding, spec=spec), difference))
    return heatmap(panels, look)


def save(path: str, draw: Callable[..., "Figure"], answers: Any, look: Look | None = None) -> None:
    """Draw answers and write the figure whole, in the format that the suffix of the path names."""
    kind = path.rpartition(".")[2].lower()
    drawn = render(kind, draw, answers, look)
    write_whole(path, lambda stream: stream.write(drawn))


def draw_inline(
    name: str, told: str, draw: Callable[..., "Figure"], answers: Any, look: Look = INLINE
) -> Markup:
    """A figure of answers as a part of a page; `name` is of this figure alone."""
    return inline_svg(render("svg", draw, answers, look), name, told)


def render(
    kind: str, draw: Callable[..., "Figure"], answers: Any, look: Look | None = None
) -> bytes:
    """A figure of answers as a file of a format; in memory, where no disk fails half-way."""
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[kind]
    stream = io.BytesIO()
    with figure_style(look or USUAL):
        try:
            figure = draw(answers, look) if look else draw(answers)
            dpi = (look or USUAL).dpi
            check_pixels(kind, figure, dpi)
            figure.savefig(stream, format=kind, metadata=undated, dpi=dpi)
        except (RuntimeError, ValueError) as error:
            if not user_settings():
                raise
            what = f"{SETTINGS}={shown(os.environ[SETTINGS])}"
            raise PefourierError(f"cannot draw as {what} asks: {reason(error)}") from error
    return stream.getvalue()


def check_pixels(kind: str, figure: "Figure", dpi: int) -> None:
    """Refuse a PNG that no screen shows and no memory holds."""
    wide, high = figure.get_size_inches() * dpi
    if kind == "png" and (wide * high > MOST_PIXELS or max(wide, high) >= 2**16):
        raise PefourierError(
            f"a PNG of {wide:.0f} by {high:.0f} pixels is larger than a figure needs; give a "
            "smaller --dpi or --width, or name a .pdf or .svg"
        )


def lines_within(text: str, figure: "Figure") -> str:
    """A text in as many lines as a figure's width asks for."""
    return fill(text, int(0.72 * figure.get_figwidth() / LETTER))


def brief(name: str, most: int) -> str:
    """A name safe for matplotlib, cut where it is longer than `most`: a path at its beginning.

    >>> brief("rope:scaling=yarn,factor=4,original=4096", 20)
    'rope:scaling=ya…4096'
    >>> brief("/home/me/tables/codes.npy", 20)
    '…me/tables/codes.npy'
    """
    head = 0 if "/" in name else 3 * most // 4
    name = printable(name)
    return literal(name if len(name) <= most else f"{name[:head]}…{name[head + 1 - most :]}")


def comparison(summary, look: Look = USUAL) -> "Figure":
    """Every run's F1 as a point, means with their 95 % intervals, one panel per dataset."""
    panels = len(summary.datasets)
    most = max(len(one.scores) for one in summary.datasets)
    size = (WIDTH, 0.8 + panels * (0.5 + 0.28 * most))
    figure, axes = make_panels(panels, 1, size, look)
    for panel, one in zip(axes[:, 0], summary.datasets, strict=True):
        for row, (encoding, scores) in enumerate(one.scores.items()):
            f1 = [
                run["f1"]
                for run in summary.runs
                if (run["dataset"], run["encoding"]) == (one.dataset, encoding)
            ]
            spread = np.linspace(-0.1, 0.35, len(f1)) if len(f1) > 1 else np.zeros(1)
            panel.plot(f1, row + spread, "o", color="0.6", markersize=2.5, linestyle="none")
            mean, above = scores["f1"], row - 0.3  # where it hides no point
            panel.plot([mean.low, mean.high], [above, above], color="C0", linestyle="-")
            panel.plot(mean.mean, above, "D", color="C0", markersize=4)
        panel.set_yticks(range(len(one.scores)), [brief(name, 28) for name in one.scores])
        panel.set_ylim(len(one.scores) - 0.4, -0.6)
        leaky = ", leaky split" if one.leaky else ""
        title = f"{brief(one.dataset, 40)}, {one.inputs}{leaky}"
        panel.set_title(title, loc="right", fontsize=9)  # a long one has room at its left
        panel.set_xlabel(
            lines_within("F1 of each (seed, fold); diamond: mean with 95 % interval", figure)
        )
    return figure


def critical_difference(summary, look: Look = USUAL) -> "Figure":
    """Average ranks over datasets, the best at the left; bars join those not told apart."""
    names = sorted(summary.ranks, key=lambda name: summary.ranks[name])
    at = [summary.ranks[name] for name in names]
    half, bars = (len(names) + 1) // 2, len(summary.cliques)
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 0.7 + 0.12 * bars + 0.22 * half), look)
    span = max(len(names) - 1, 1)
    axes.set(xlim=(1 - 0.45 * span, len(names) + 0.45 * span), ylim=(-0.5 * bars - half - 0.5, 0))
    for i, name in enumerate(names):
        left = i < half
        level = -0.5 * bars - 1 - (i if left else len(names) - 1 - i)
        edge = 1 - 0.05 * span if left else len(names) + 0.05 * span
        axes.plot(
            [at[i], at[i], edge], [0, level, level], color="0.4", linewidth=0.8, linestyle="-"
        )
        short = brief(name, 20)
        label = f"{short}  {at[i]:.2f}" if left else f"{at[i]:.2f}  {short}"
        axes.text(edge, level, f" {label} ", ha="right" if left else "left", va="center")
    for i, group in enumerate(summary.cliques):
        ends = [summary.ranks[group[0]] - 0.02 * span, summary.ranks[group[-1]] + 0.02 * span]
        axes.plot(ends, [-0.4 - 0.5 * i] * 2, "-", color="C0", linewidth=3)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set(visible=True, bounds=(1, len(names)))
    axes.xaxis.tick_top()
    crowd = int(len(names) * WIDTH / figure.get_figwidth())
    axes.set_xticks(range(1, len(names) + 1, 1 + crowd // 12))
    axes.set_yticks([])
    reach = f"\n{lines_within(summary.out_of_reach, figure)}" if summary.out_of_reach else ""
    axes.set_title(f"average rank by F1 {summary.over}{reach}", fontsize=9)
    return figure

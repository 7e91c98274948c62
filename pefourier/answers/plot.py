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
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.answers.grid_plot import kernel_lines, points_on_grids, spectrum_on_grids
from pefourier.answers.report import Answer, any_grid
from pefourier.encodings.encoding import placed
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
MANY = 7  # curves that can be told apart on common axes
ACROSS = 4  # panels in a row
LINES = ("-", "--", ":", "-.")  # of lags along each axis of a grid
SETTINGS = "MATPLOTLIBRC"  # names a file of settings, or a folder that has a matplotlibrc


def import_matplotlib() -> Any:
    """The library; a matplotlibrc that lies about and MPLBACKEND do not keep it from loading."""
    if "matplotlib" not in sys.modules:
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
def styled() -> Iterator[None]:
    """Figures made here have matplotlib's defaults, what MATPLOTLIBRC asks for, and `STYLE`."""
    matplotlib = import_matplotlib()
    own = {key: matplotlib.rcParamsDefault[key] for key in matplotlib.rcParamsDefault}
    settings = own | asked_settings() | STYLE
    del settings["backend"]  # the context would not restore it
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in letters without a font
        with matplotlib.rc_context(settings):
            yield


def asked_settings() -> dict[str, Any]:
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


def make_panels(rows: int, columns: int, size: tuple[float, float], share: bool = False) -> Any:
    """A figure of so many inches, and its axes (rows, columns)."""
    figure = make_figure(size)
    return figure, figure.subplots(rows, columns, sharex=share, squeeze=False)


def make_figure(size: tuple[float, float]) -> "Figure":
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=size)


def literal(text: str) -> str:
    """A text that matplotlib shows as it is, not as a formula between $."""
    return text.replace("$", r"\$")


def caption(answer: Answer) -> str:
    """The SPEC as a legend shows it as it is: no entry hidden by _."""
    text = literal(answer.encoding.label)
    return " " + text if text.startswith("_") else text


def spectrum(answers: Sequence[Answer]) -> "Figure":
    """Densities over angular frequency, as Fig. 1 of the paper; in panels where there are many.

    On grids they are pictures, with what they sum to along each axis.
    """
    if any_grid(answers):
        figure = make_figure((1.5 * WIDTH, 0.4 + 2.3 * len(answers)))
        spectrum_on_grids(figure, answers, list(map(caption, answers)))
        return figure
    if len(answers) > MANY:
        return spectrum_panels(answers)
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 3.2))
    for a in answers:
        axes.plot(a.result.omega, a.result.density, label=caption(a), linewidth=1.4)
    axes.set(xlabel="angular frequency ω (radians per position)", ylabel="share of energy $g_k$")
    axes.set_ylim(bottom=0)
    set_frequency_axis(axes)
    axes.legend()
    return figure


def spectrum_panels(answers: Sequence[Answer]) -> "Figure":
    """Densities side by side, each on its own scale: what differs is where the energy lies."""
    rows = -(-len(answers) // ACROSS)
    size = (WIDTH * 1.3, 0.5 + 1.05 * rows)
    figure, panels = make_panels(rows, ACROSS, size, share=True)
    for axes in panels.flat[len(answers) :]:
        axes.set_axis_off()
    for axes, a in zip(panels.flat, answers, strict=False):
        peak = np.nanmax(a.result.density, initial=0) or 1.0
        if np.isnan(a.result.density).any():
            axes.text(np.pi / 2, 0.5, "no spectrum", ha="center", va="center", fontsize=8)
        axes.fill_between(a.result.omega, a.result.density / peak, color="#0072B2", linewidth=0)
        axes.set_title(caption(a), fontsize=8, loc="left", pad=2)
        axes.set_ylim(0, 1.05)
        axes.set_yticks([])
        axes.tick_params(labelbottom=True, labelsize=7)
        set_frequency_axis(axes, 2)
    figure.supxlabel("angular frequency ω (radians per position)", fontsize=9)
    figure.supylabel("share of energy $g_k$ / its largest", fontsize=9)
    return figure


def set_frequency_axis(axes: "Axes", steps: int = 4) -> None:
    """Let the axis go from 0 to pi with ticks in parts of pi."""
    names = {0: "0", 1: "π/4", 2: "π/2", 3: "3π/4", 4: "π"}
    axes.set_xlim(0, np.pi)
    ticks = range(0, 5, 4 // steps)
    axes.set_xticks([np.pi * k / 4 for k in ticks], [names[k] for k in ticks])


def reconstruct(answers: Sequence[Answer]) -> "Figure":
    """Rebuilt position functions, one panel per encoding, as Fig. 2 of the paper."""
    if any_grid(answers):
        most = max(len(a.result.reconstructions) for a in answers)
        figure = make_figure((max(WIDTH, 2.6 * most), 0.4 + 2.2 * len(answers)))
        points_on_grids(figure, answers, list(map(caption, answers)))
        return figure
    figure, panels = make_panels(len(answers), 1, (WIDTH, 1.0 + 1.6 * len(answers)), share=True)
    for axes, a in zip(panels[:, 0], answers, strict=True):
        for r in a.result.reconstructions:
            axes.plot(r.values, label=f"s = {r.position}", linewidth=1.2)
        axes.set_title(caption(a), loc="left", fontsize=9)
        axes.set_ylabel("rebuilt value")
    panels[-1, 0].set_xlabel("position")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=6)
    return figure


def faithful(answers: Sequence[Answer]) -> "Figure":
    """Singular values, for rank and conditioning, and inner products by lag."""
    figure, ((left, right),) = make_panels(1, 2, (WIDTH, 3.0))
    for a in answers:
        sigma = decompose(placed(a.encoding)).sigma
        if sigma[0] > 0:
            shares = np.maximum(sigma / sigma[0], np.finfo(float).tiny)
            left.plot(np.arange(1, len(sigma) + 1), shares, label=caption(a))
    left.axhline(np.finfo(float).eps, color="0.6", linewidth=0.8, linestyle=":")
    left.set(xlabel="index", ylabel="singular value / largest", yscale="log", ylim=(1e-18, 3))
    handles, labels = left.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    label = "lag (positions)"
    for i, a in enumerate(answers):
        curve = kernel(placed(a.encoding))
        if curve is not None and curve.ndim > 1:
            lines = kernel_lines(curve)
            for (_, line), style in zip(lines, LINES, strict=False):
                right.plot(np.arange(len(line)), line, color=f"C{i}", linestyle=style)
            label = f"lag (points along {', '.join(name for name, _ in lines)}: — – – ·)"
        elif curve is not None:
            right.plot(np.arange(len(curve)), curve, label=caption(a))
    right.set(xlabel=label, ylabel="inner product / its value at lag 0")
    return figure


def heatmap(answers: Sequence[Answer]) -> "Figure":
    """The table itself: positions down, dimensions across."""
    figure, panels = make_panels(len(answers), 1, (WIDTH, 1.2 + 2.2 * len(answers)))
    for axes, a in zip(panels[:, 0], answers, strict=True):
        limit = float(np.abs(a.result).max()) or 1.0
        image = axes.imshow(
            a.result, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest"
        )
        axes.set(xlabel="dimension", ylabel="position", title=caption(a))
        figure.colorbar(image, ax=axes, label="value of the code")
    return figure


def compare(answers: Sequence[Answer]) -> "Figure":
    """Both tables and, where they have one shape, their difference."""
    panels = [Answer(a.encoding, a.encoding.table()) for a in answers]
    first, second = panels
    if first.result.shape == second.result.shape:
        spec = f"{first.encoding.spec} − {second.encoding.spec}"
        difference = first.result - second.result
        panels.append(Answer(replace(first.encoding, spec=spec), difference))
    return heatmap(panels)


def save(
    path: str, draw: Callable[[Sequence[Answer]], "Figure"], answers: Sequence[Answer]
) -> None:
    """Draw answers and write the figure whole, in the format that the suffix of the path names."""
    kind = path.rpartition(".")[2].lower()
    drawn = render(kind, draw, answers)
    write_whole(path, lambda stream: stream.write(drawn))


def render(kind: str, draw: Callable[[Any], "Figure"], answers: Any) -> bytes:
    """A figure of answers as a file of a format; in memory, where no disk fails half-way."""
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[kind]
    stream = io.BytesIO()
    with styled():
        try:
            draw(answers).savefig(stream, format=kind, metadata=undated, dpi=200)
        except (RuntimeError, ValueError) as error:
            if not asked_settings():
                raise
            what = f"{SETTINGS}={shown(os.environ[SETTINGS])}"
            raise PefourierError(f"cannot draw as {what} asks: {reason(error)}") from error
    return stream.getvalue()


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


def comparison(summary) -> "Figure":
    """Every run's F1 as a point, means with their 95 % intervals, one panel per dataset."""
    panels = len(summary.datasets)
    most = max(len(one.scores) for one in summary.datasets)
    size = (WIDTH, 0.8 + panels * (0.5 + 0.28 * most))
    figure, axes = make_panels(panels, 1, size)
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
            panel.plot([mean.low, mean.high], [above, above], color="#0072B2", linestyle="-")
            panel.plot(mean.mean, above, "D", color="#0072B2", markersize=4)
        panel.set_yticks(range(len(one.scores)), [brief(name, 28) for name in one.scores])
        panel.set_ylim(len(one.scores) - 0.4, -0.6)
        leaky = ", leaky split" if one.leaky else ""
        title = f"{brief(one.dataset, 40)}, windows of {one.length} rows{leaky}"
        panel.set_title(title, loc="right", fontsize=9)  # a long one has room at its left
        panel.set_xlabel("F1 of each (seed, fold); diamond: mean with 95 % interval")
    return figure


def critical_difference(summary) -> "Figure":
    """Average ranks over datasets, the best at the left; bars join those not told apart."""
    names = sorted(summary.ranks, key=lambda name: summary.ranks[name])
    at = [summary.ranks[name] for name in names]
    half, bars = (len(names) + 1) // 2, len(summary.cliques)
    figure, ((axes,),) = make_panels(1, 1, (WIDTH, 0.7 + 0.12 * bars + 0.22 * half))
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
        axes.plot(ends, [-0.4 - 0.5 * i] * 2, "-", color="#0072B2", linewidth=3)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set(visible=True, bounds=(1, len(names)))
    axes.xaxis.tick_top()
    axes.set_xticks(range(1, len(names) + 1, 1 + len(names) // 12))
    axes.set_yticks([])
    reach = f"\n{summary.out_of_reach}" if summary.out_of_reach else ""
    axes.set_title(f"average rank by F1 {summary.over}{reach}", fontsize=9)
    return figure

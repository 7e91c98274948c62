"""Figures of answers, fit for a paper: the only room that imports matplotlib.

Text stays text in PDF and SVG, colours are told apart by the colour-blind (Okabe and Ito) and by
line style, axes carry units, and the same answer gives the same bytes on every run, whatever a
user's own settings are.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.errors import PefourierError, shorten
from pefourier.writing.files import write_whole
from pefourier.writing.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from pefourier.encodings.encoding import Encoding
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
LINES = ("-", "--", "-.", ":", "-", "--", "-.", "--", "-.", ":", "-", "-.", ":", "--")  # fourteen
STYLE: dict[str, Any] = {
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "pefourier",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": f"cycler(color={2 * list(COLOURS)}) + cycler(linestyle={list(LINES)})",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
WIDTH = 6.0  # inches: the text width of most papers
MOST_PIXELS = 2e8  # of a PNG
MANY = 7  # curves that can be told apart on common axes
LETTER = 0.075  # inches, of a line of text
LOWEST = 2.6  # inches of a row of panels in a narrow figure
NARROW = 4.5  # inches of one
SHORTEST = 8  # letters of a line
SLACK = 0.95  # of an axis that its name may be as long as
DENSE = 1000  # points of a curve, from which on single waves of it are no longer told apart
LINE = 0.17  # inches, from one line of text to the next


@dataclass(frozen=True)
class Look:
    """How a figure is to look."""

    width: float | None = None  # inches; None: what suits the figure
    dpi: int = 200  # of a PNG
    title: str = ""


USUAL = Look()


@contextmanager
def figure_style() -> Iterator[None]:
    """Figures made here have matplotlib's defaults and `STYLE`, whatever a user's settings are."""
    import logging

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # of a home that is not writable
    import matplotlib

    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **STYLE}
    del settings["backend"]  # the context would not restore it
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in letters without a font
        with matplotlib.rc_context(settings):
            yield


def make_panels(
    rows: int, columns: int, size: tuple[float, float], look: Look = USUAL, *, share: str = ""
) -> tuple[Figure, Any]:
    """A figure of so many inches, or as wide as it is to look, and its axes (rows, columns)."""
    from matplotlib.figure import Figure

    wide, high = size
    width, lowest = look.width or wide, min(high, LOWEST * rows)
    figure = Figure(figsize=(width, max(high * (width / wide) ** 0.5, lowest)))
    if look.title:
        figure.suptitle(literal(printable(look.title)))
    return figure, figure.subplots(
        rows, columns, squeeze=False, sharex="x" in share, sharey="y" in share
    )


def literal(text: str) -> str:
    """A text that matplotlib shows as it is, not as a formula between $."""
    return text.replace("$", r"\$")


def caption(enc: Encoding, room: float = WIDTH) -> str:
    """The SPEC as a legend shows it as it is, no entry hidden by _; cut to so many inches."""
    text = brief(enc.spec, int(room / LETTER))
    return " " + text if text.startswith("_") else text


def entry(axes: Axes, enc: Encoding, end: str = "") -> str:
    """The SPEC as a legend below some axes shows it, with what it ends with, cut to fit there."""
    room = width_of(axes) - 0.8  # beside the line of a curve
    return caption(enc, room - LETTER * len(end)) + end


def width_of(axes: Axes) -> float:
    """Inches from left to right of the figure that some axes stand in."""
    return float(axes.figure.bbox.width / axes.figure.dpi)


def draw_dense(axes: Axes, x: np.ndarray, y: np.ndarray, **style: Any) -> None:
    """A curve; of very many points its mean on a logarithmic axis, in a band of all its values."""
    if len(x) <= DENSE:
        axes.plot(x, y, **style)
        return
    starts = np.unique(np.geomspace(1, len(x), DENSE // 4).astype(int) - 1)
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    counts = np.diff([*starts, len(y)])
    means = [np.add.reduceat(part, starts) / counts for part in (x, y)]
    (line,) = axes.plot(means[0], means[1], **style)
    axes.fill_between(means[0], low, high, color=line.get_color(), alpha=0.25, linewidth=0)


def add_legend(figure: Figure, *panels: Axes) -> None:
    """Name the curves of some axes below them, each once, in columns that there is room for."""
    handle_of: dict[tuple[str, str], Any] = {}
    for axes in panels:
        curves: Any = axes.get_legend_handles_labels()
        handle_of |= {
            (name, str(curve.get_color())): curve for curve, name in zip(*curves, strict=True)
        }
    if handle_of:
        rooms = [LETTER * len(name) + 0.6 for name, _ in handle_of]
        wide = figure.get_figwidth()
        columns = len(handle_of) if sum(rooms) < wide else max(1, int(wide / max(rooms)))
        rows = -(-len(handle_of) // columns)
        figure.set_figheight(figure.get_figheight() + LINE * rows)
        names = [name for name, _ in handle_of]
        figure.legend(handle_of.values(), names, loc="outside lower center", ncols=columns)


def save(path: str, draw: Callable[..., Figure], answers: Any, look: Look = USUAL) -> None:
    """Draw answers and write the figure whole, in the format that the suffix of the path names."""
    kind = path.rpartition(".")[2].lower()
    data = render(kind, draw, answers, look)
    write_whole(path, lambda stream: stream.write(data))


def render(kind: str, draw: Callable[..., Figure], answers: Any, look: Look = USUAL) -> bytes:
    """A figure of answers as a file of a format; in memory, where no disk fails half-way."""
    dates: dict[str, dict[str, str | None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    metadata = {"Title": printable(look.title) or title_of(draw, answers), **dates.get(kind, {})}
    stream = io.BytesIO()
    figure = draw_styled(draw, answers, look)
    check_pixels(kind, figure, look.dpi)
    with figure_style():
        figure.savefig(stream, format=kind, metadata=metadata, dpi=look.dpi)
    return stream.getvalue()


def draw_styled(draw: Callable[..., Figure], answers: Any, look: Look) -> Figure:
    """A figure of answers in the style of all, its words in lines that fit."""
    with figure_style():
        figure = draw(answers, look)
        fit_words(figure)
    return figure


def fit_words(figure: Figure) -> None:
    """Names of axes and titles in lines that fit, and numbers that stand apart."""
    from matplotlib.text import Text

    arrange(figure)  # so that sizes are known
    for axes in figure.axes:
        box = axes.get_window_extent()
        right = figure.bbox.x1 - box.x0
        fit_lines(axes.xaxis.label, SLACK * box.width)
        fit_lines(axes.yaxis.label, SLACK * box.height)
        titles = (x for x in axes.get_children() if isinstance(x, Text) and x not in axes.texts)
        for title, room in zip(titles, (min(box.x1, right), right, box.x1), strict=True):
            fit_lines(title, room)
        space_ticks(axes, box.width / figure.dpi)
    if any(axes.images for axes in figure.axes):  # whose sides keep their ratio: it settles now
        arrange(figure)


def arrange(figure: Figure) -> None:
    """Give the panels their places."""
    if layout := figure.get_layout_engine():
        layout.execute(figure)


def fit_lines(text: Text, room: float) -> None:
    """Break a text that is longer than so many pixels into lines."""
    lines = text.get_text().split("\n")
    letters = max(map(len, lines))
    while letters > SHORTEST and max(text.get_window_extent().size) > room:
        letters -= 1
        text.set_text("\n".join(fill(line, letters) for line in lines))


def space_ticks(axes: Axes, wide: float) -> None:
    """Whole numbers along axes of whole things, and across no more than so many inches hold."""
    from matplotlib.ticker import AutoLocator, MaxNLocator, SymmetricalLogLocator

    ends = [form(end) for end in axes.get_xlim() for form in ("{:.0f}".format, "{:.2g}".format)]
    letters = max(map(len, ends))
    tick_count = max(2 + (letters < 5), min(int(wide / LETTER / (letters + 2)), 9))
    counts: tuple[Any, ...] = (tick_count, "auto")
    for axis, direction, count in zip((axes.xaxis, axes.yaxis), "xy", counts, strict=True):
        if isinstance(locator := axis.get_major_locator(), AutoLocator):
            ticks: Any = {"integer": counts_whole(axes, direction), "steps": [1, 2, 2.5, 5, 10]}
            axis.set_major_locator(MaxNLocator(count, min_n_ticks=1, **ticks))
        elif isinstance(locator, SymmetricalLogLocator):
            locator.set_params(numticks=max(3, int(wide / LETTER / 5)))


def counts_whole(axes: Axes, direction: str) -> bool:
    """Whether all that is drawn stands at whole numbers of an axis, as positions and ranks do."""
    coordinates = [np.ravel(getattr(line, f"get_{direction}data")()) for line in axes.get_lines()]
    values = np.concatenate([*coordinates, []]).astype(float)
    shares = direction == "y" and np.abs(values).max(initial=0) <= 1  # may be 0 and 1 by chance
    return bool(axes.images) or (
        len(values) > 0 and not shares and bool((values == np.round(values)).all())
    )


def title_of(draw: Callable[..., Figure], answers: Any) -> str:
    """What a file says that it shows, as `spectrum: sinusoidal, dft`."""
    listed = answers if isinstance(answers, Sequence) else ()  # of training it is one summary
    encodings = (getattr(answer, "encoding", None) for answer in listed)
    names = ", ".join(shorten(printable(enc.label)) for enc in encodings if enc is not None)
    draw = getattr(draw, "func", draw)  # of one with some settings
    question = getattr(draw, "__name__", "").replace("_", " ") or "figure"
    return f"{question}: {names}" if names else question


def check_pixels(kind: str, figure: Figure, dpi: int) -> None:
    """Refuse a PNG that no screen shows and no memory holds."""
    wide, high = figure.get_size_inches() * dpi
    if kind == "png" and (wide * high > MOST_PIXELS or max(wide, high) >= 2**16):
        raise PefourierError(
            f"a PNG of {wide:.0f} by {high:.0f} pixels is larger than a figure needs; give a "
            "smaller --dpi or --width, or name a .pdf or .svg"
        )


def brief(name: str, width: int) -> str:
    """A name safe for matplotlib, cut where it is longer than `most`: a path at its beginning.

    >>> brief("rope:scaling=yarn,factor=4,original=4096", 20)
    'rope:scaling=ya…4096'
    >>> brief("/home/me/tables/codes.npy", 20)
    '…me/tables/codes.npy'
    """
    head = 0 if "/" in name else 3 * width // 4
    name = printable(name)
    return literal(name if len(name) <= width else f"{name[:head]}…{name[head + 1 - width :]}")

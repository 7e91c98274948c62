"""Figures of answers for papers; the only part of the package that imports matplotlib.

Text stays text in PDF and SVG. Colours suit colour-blind readers (Okabe and Ito), and line styles
differ as well. Axes have units. The same answer gives the same bytes on every run, independent of
the user's settings.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from pefourier.errors import PefourierError, shorten
from pefourier.types import Fields, frozen
from pefourier.writing.files import write_whole
from pefourier.writing.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from pefourier.encodings.encoding import Encoding
COLOURS = "#0072B2 #D55E00 #009E73 #CC79A7 #56B4E9 #E69F00 #000000".split()
LINES = "- -- -. : - -- -. -- -. : - -. : --".split()  # fourteen
STYLE: Fields = {
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "pefourier",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "figure.labelsize": 9,
    "image.cmap": "cividis",
    "image.interpolation": "nearest",
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "axes.prop_cycle": f"cycler(color={2 * list(COLOURS)}) + cycler(linestyle={list(LINES)})",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
WIDTH = 6.0  # inches: the text width of most papers
MOST_PIXELS = 2e8  # of a PNG
LETTER = 0.075  # inches per character
LOWEST = 2.6  # inches: smallest height of a row of panels
SHORTEST = 8  # characters of a line
SLACK = 0.95  # largest length of a label relative to its axis
DENSE = 1000  # points of a curve that need a logarithmic axis
EQUAL = "equal"  # word of a legend
CLOSE = 1e-3  # relative difference of equal curves
LEAST_POINTS = 3  # of a curve; shorter ones are marks
THICKER = 2.4  # points that the first of equal curves is wider, for each of the others
PALE = 0.5  # its opacity
LINE = 0.17  # inches between lines of text
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@frozen
class Look:
    """Style of a figure."""

    width: float | None = None  # inches; None: default of the figure
    dpi: int = 200  # of a PNG
    title: str = ""
    keywords: str = ""  # in the metadata of the file


USUAL = Look()


@contextmanager
def figure_style() -> Iterator[None]:
    """Use matplotlib's defaults and `STYLE`, independent of the user's settings."""
    import logging

    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # warns if the home is not writable
    import matplotlib

    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **STYLE}
    del settings["backend"]  # the context would not restore it
    own = {key: value for key, value in settings.items() if matplotlib.rcParams[key] != value}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # characters without a font
        with matplotlib.rc_context(own):  # which takes long to check all
            yield


def make_panels(
    look: Look,
    height: float,
    rows: int = 1,
    columns: int = 0,
    *,
    width: float = WIDTH,
    share: str = "",
) -> tuple[Figure, Any]:
    """Create a figure of a size in inches, or of the requested width, and its axes.

    The axes are an array (rows,), or (rows, columns) if there are columns.
    """
    from matplotlib.figure import Figure

    wide, lowest = look.width or width, min(height, LOWEST * rows)
    figure = Figure(figsize=(wide, max(height * (wide / width) ** 0.5, lowest)))
    panels = figure.subplots(
        rows, columns or 1, squeeze=False, sharex="x" in share, sharey="y" in share
    )
    return figure, panels if columns else panels[:, 0]


def literal(text: str) -> str:
    """Escape a text for matplotlib, which reads text between $ as a formula."""
    return text.replace("$", r"\$")


def caption(enc: Encoding, room: float = WIDTH) -> str:
    """Return the SPEC for a legend, cut to a width in inches; a leading _ would hide it."""
    text = brief(enc.spec, int(room / LETTER))
    return " " + text if text.startswith("_") else text


def entry(axes: Axes, enc: Encoding, end: str = "") -> str:
    """Return the SPEC with an ending for a legend below axes, cut to fit."""
    room = width_of(axes) - 0.8  # next to the line of a curve
    return caption(enc, room - LETTER * len(end)) + end


def width_of(axes: Axes) -> float:
    """Return the width in inches of the figure that contains the axes."""
    return float(axes.figure.bbox.width / axes.figure.dpi)


def show_equal_curves(figure: Figure) -> None:
    """Draw the first of equal curves wider, so that each is visible, and name it in the legend."""
    for axes in figure.axes:
        firsts: dict[str, Any] = {}
        room = int((width_of(axes) - 0.8) / LETTER)
        for line in (line for line in axes.lines if not str(line.get_label()).startswith("_")):
            name = str(line.get_label())
            equal = (label for label, first in firsts.items() if is_equal_curve(first, line))
            if name in firsts or (label := next(equal, None)) is None:
                firsts.setdefault(name, line)
            elif EQUAL not in name:
                first = firsts[label]
                first.set(linewidth=first.get_linewidth() + THICKER, alpha=PALE)
                end = f" ({EQUAL} to {label.strip()})"
                end = end if len(name + end) <= room else f" ({EQUAL})"
                line.set_label(shorten(name, room - len(end) - 1) + end)


def is_equal_curve(first: Any, second: Any) -> bool:
    """Whether two curves have the same points, to less than a picture shows."""
    a, b = (curve.get_xydata() for curve in (first, second))
    if a.shape != b.shape or len(a) < LEAST_POINTS:
        return False
    size = np.abs(a) if first.axes.get_yscale() == "log" else np.abs(a).max(axis=0)
    return bool((np.abs(a - b) <= CLOSE * size).all())


def add_legend(figure: Figure) -> None:
    """Add a legend below axes that lists each curve once, in as many columns as fit."""
    handle_of: dict[tuple[str, str], Any] = {}
    for axes in (axes for axes in figure.axes if axes.get_legend() is None):
        curves: Any = axes.get_legend_handles_labels()
        for curve, name in zip(*curves, strict=True):
            handle_of.setdefault((name, str(curve.get_color())), curve)
    if handle_of:
        names = [name for name, _ in handle_of]
        rooms = [LETTER * len(name) + 0.6 for name in names]
        wide = figure.get_figwidth()
        columns = max(1, min(len(names), int(wide / max(rooms))))
        figure.set_figheight(figure.get_figheight() + LINE * -(-len(names) // columns))
        figure.legend(handle_of.values(), names, loc="outside lower center", ncols=columns)


def save(path: str, draw: Callable[..., Figure], answers: Any, look: Look = USUAL) -> None:
    """Draw answers and write the figure atomically, in the format of the path's suffix."""
    kind = path.rpartition(".")[2].lower()
    data = render(kind, draw, answers, look)
    write_whole(path, lambda stream: stream.write(data))


def render(kind: str, draw: Callable[..., Figure], answers: Any, look: Look = USUAL) -> bytes:
    """Render a figure of answers to a file format in memory, which avoids partial files."""
    words = {"Title": printable(look.title), "Keywords": look.keywords}
    metadata: Fields = {key: text for key, text in words.items() if text}
    metadata |= {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
    stream = io.BytesIO()
    figure = draw_styled(draw, answers, look)
    wide, high = figure.get_size_inches() * look.dpi
    if kind == "png" and (wide * high > MOST_PIXELS or max(wide, high) >= 2**16):
        raise PefourierError(
            f"a PNG of {wide:.0f} by {high:.0f} pixels is too large; use a smaller --dpi or "
            "--width, or write a .pdf or .svg"
        )
    figure.set_layout_engine(None)  # otherwise everything is drawn twice
    with figure_style():
        figure.savefig(stream, format=kind, metadata=metadata, dpi=look.dpi)
    return stream.getvalue()


def draw_styled(draw: Callable[..., Figure], answers: Any, look: Look) -> Figure:
    """Draw answers in the common style, with text broken into lines that fit."""
    with figure_style():
        figure = draw(answers, look)
        if look.title:
            figure.suptitle(literal(printable(look.title)))
        fit_words(figure)
    return figure


def fit_words(figure: Figure) -> None:
    """Add a legend, break axis labels and titles into lines that fit."""
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    show_equal_curves(figure)
    add_legend(figure)
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        if isinstance(form := axis.get_major_formatter(), LogFormatter):
            axis.set_major_formatter(partial(plain_power, form))
            axis.set_minor_formatter("")  # labels between powers of ten can overlap
    arrange(figure)  # computes sizes
    words = [text.get_text() for text in figure.findobj(Text)]
    for axes in figure.axes:
        box = axes.get_window_extent()
        right = figure.bbox.x1 - box.x0
        fit_lines(axes.xaxis.label, SLACK * box.width)
        fit_lines(axes.yaxis.label, SLACK * box.height)
        titles = (x for x in axes.get_children() if isinstance(x, Text) and x not in axes.texts)
        for title in titles:
            fit_lines(title, right)
    has_images = any(axes.images for axes in figure.axes)  # their fixed aspect changes sizes
    if has_images or words != [text.get_text() for text in figure.findobj(Text)]:
        for _ in range(1 + has_images):
            arrange(figure)


def arrange(figure: Figure) -> None:
    """Lay out the panels."""
    if layout := figure.get_layout_engine():
        layout.execute(figure)


def fit_lines(text: Text, room: float) -> None:
    """Break a text that is longer than a number of pixels into lines."""
    lines = text.get_text().split("\n")
    letters = max(map(len, lines))
    while letters > SHORTEST and max(text.get_window_extent().size) > room:
        letters -= 1
        text.set_text("\n".join(fill(line, letters) for line in lines))


def plain_power(form: Callable[[float], str], value: float, _: int) -> str:
    r"""Format a number with raised digits, since matplotlib takes long to typeset formulas.

    >>> plain_power(lambda _: r"$\mathdefault{2\times10^{-3}}$", 0.002, 0)
    '2×10⁻³'
    """
    text = form(value).removeprefix(r"$\mathdefault{").removesuffix("}$").replace(r"\times", "×")
    return re.sub(r"\^\{(.*?)\}", lambda power: power[1].translate(RAISED), text)


def brief(name: str, width: int) -> str:
    """Return a name that is safe for matplotlib, cut to `width` characters; paths lose their start.

    >>> brief("rope:scaling=yarn,factor=4,original=4096", 20)
    'rope:scaling=ya…4096'
    >>> brief("/home/me/tables/codes.npy", 20)
    '…me/tables/codes.npy'
    """
    head = 0 if "/" in name else 3 * width // 4
    name = printable(name)
    return literal(name if len(name) <= width else f"{name[:head]}…{name[head + 1 - width :]}")

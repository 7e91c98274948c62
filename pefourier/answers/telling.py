"""How is a result told in Python? As the record of its JSON, in a line, as HTML, as a figure.

One row of `WAYS` a kind of result says which function makes its record and which its figure; all
else follows from the record.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from pefourier.answers.comparing import compare_record
from pefourier.answers.designing import design_record
from pefourier.answers.page import plain, single_values
from pefourier.answers.reach import context_record
from pefourier.answers.report import Answer, answer_of, record_of
from pefourier.answers.resizing import resize_record
from pefourier.answers.text import number
from pefourier.answers.usage_page import usage_record
from pefourier.compare import Comparison
from pefourier.context import Context
from pefourier.design import Design
from pefourier.errors import PefourierError, printable, shorten
from pefourier.faithful import Faithfulness, GridFaithfulness
from pefourier.reconstruct import GridReconstructions, Reconstructions
from pefourier.relations import GridRelations, Relations
from pefourier.resize import Resizing
from pefourier.result import Result
from pefourier.spectrum import GridSpectrum, Spectrum
from pefourier.weights.usage import Usage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SENTENCE = 160  # characters of a conclusion that a line shows
IDENTITY = ("encoding", "spec", "params", "conclusion")


@dataclass(frozen=True)
class Way:
    """How one kind of result is told."""

    record: Callable[[Any], dict[str, Any]]
    figure: str  # the function of `pefourier.answers.plot` or `question_plots` that draws it


def record_of_one(result: Result) -> dict[str, Any]:
    """The record of a result about one encoding."""
    return record_of(answer_of(result))


WAYS: dict[type, Way] = {
    Spectrum: Way(record_of_one, "plot.spectrum"),
    Reconstructions: Way(record_of_one, "plot.reconstruct"),
    Faithfulness: Way(record_of_one, "plot.faithful"),
    GridSpectrum: Way(record_of_one, "plot.spectrum"),
    GridReconstructions: Way(record_of_one, "plot.reconstruct"),
    GridFaithfulness: Way(record_of_one, "plot.faithful"),
    Relations: Way(record_of_one, "question_plots.relations"),
    GridRelations: Way(record_of_one, "question_plots.relations"),
    Comparison: Way(lambda r: compare_record(*r.about, r), "plot.compare"),
    Context: Way(lambda r: context_record(r.about[0], r), "reach_plot.wavelengths"),
    Usage: Way(usage_record, "usage_plot.usage"),
    Design: Way(design_record, "reach_plot.criteria"),
    Resizing: Way(lambda r: resize_record(r.about[0], r), "question_plots.resizing"),
}


def record_of_result(result: Result) -> dict[str, Any]:
    """The JSON object of a result."""
    if not result.about and type(result) is not Design:  # which is about bases, not encodings
        raise PefourierError(
            f"this {type(result).__name__} was put together by hand: it is about no encoding; "
            "give about=(encoding,)"
        )
    return WAYS[type(result)].record(result)


def figure_of(result: Result, width: float | None, title: str, dark: bool) -> "Figure":
    """The figure of a result, in the style of the command's."""
    from importlib import import_module

    from pefourier.answers.plot import DARK, USUAL, figure_style

    look = replace(DARK if dark else USUAL, width=width, title=title)

    room, _, name = WAYS[type(result)].figure.partition(".")
    draw = getattr(import_module(f"pefourier.answers.{room}"), name)
    with figure_style(look):
        figure: Figure = draw([Answer(enc, result) for enc in result.about] or [result], look)
    return figure


def in_a_line(result: Result) -> str:
    """The kind of result, its SPECs and the first sentence of the conclusion.

    >>> import pefourier
    >>> pefourier.check("dft", length=4, d=4)
    <Faithfulness of dft: All 4 positions have different codes; the closest two, 0 and 1, are 1.41 \
of a code's length apart.>
    """
    name = type(result).__name__
    if not result.about and type(result) is not Design:
        return f"<{name} about no encoding>"
    of = " and ".join(shorten(printable(enc.label), SENTENCE // 2) for enc in result.about)
    sentence = result.conclusion.partition(". ")[0].removesuffix(".") + "."
    return f"<{name}{f' of {of}' if of else ''}: {shorten(sentence, SENTENCE)}>"


def as_html(result: Result) -> str:
    """The conclusion and the single values, with the meaning of each as its tooltip."""
    from pefourier.answers.terms import read_terms

    record = plain(record_of_result(result))
    meanings = {term.term: term.meaning for term in read_terms()}
    spec = escape(printable(str(record["spec"])))
    told = {key: value for key, value in record.items() if key not in IDENTITY}
    parts = [f"<p><b>{spec}</b>: {escape(record['conclusion'])}</p>"]
    parts.append(html_table(["", ""], single_values(told), meanings))
    for key, value in told.items():
        if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            rows = [dict(single_values(one)) for one in value]
            names = list(dict.fromkeys(name for row in rows for name in row))
            cells = ([row.get(name) for name in names] for row in rows)
            parts.append(f"<p>{escape(key)}</p>{html_table(names, cells, meanings)}")
    return f"<div>{''.join(parts)}</div>"


def html_table(
    head: Iterable[str], rows: Iterable[Iterable[Any]], meanings: Mapping[str, str]
) -> str:
    """A table; names of the registry of terms carry their meaning as a title."""

    def cell(value: Any, tag: str) -> str:
        text = printable(str(value)) if isinstance(value, str) else number(value)
        meaning = meanings.get(text.rpartition(".")[2], "")
        title = f' title="{escape(meaning)}"' if meaning else ""
        return f"<{tag}{title}>{escape(text)}</{tag}>"

    lines = ["".join(cell(name, "th") for name in head)] if any(head) else []
    lines += ["".join(cell(value, "td") for value in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"

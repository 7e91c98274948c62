"""Base class of results: a frozen dataclass that renders as text, JSON or a figure.

Results hold numbers and arrays; `report.render` makes text and records from any result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Any, ClassVar

from pefourier.encodings.encoding import Encoding
from pefourier.errors import PefourierError, shorten
from pefourier.report import render
from pefourier.types import Array, CsvTable, Fields, Floats, frozen, hidden
from pefourier.writing.escapes import in_html
from pefourier.writing.page import plain
from pefourier.writing.text import Verdict, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SENTENCE = 180  # characters of a conclusion in one line


@frozen
class Result:
    """A result and the encodings that it describes; `pefourier explain FIELD` explains a field."""

    command: ClassVar[str]
    verdicts: ClassVar[Mapping[str, Verdict]]  # sentences of each verdict
    listed: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # tables: field, labels, fields
    # without --full: labels of rows ("shown"), labels or columns of tables; all if it is empty
    short: ClassVar[Mapping[str, Iterable[str] | Mapping[str, str]]] = {}
    figure: ClassVar[str] = ""  # function of `report.figures` that draws answers
    curves: ClassVar[str] = ""  # function of `report.figures` for the chart of a terminal
    on_grid = False  # whether points have several axes
    _: KW_ONLY
    encodings: tuple[Encoding, ...] = hidden(default=(), compare=False)

    @classmethod
    def draw(cls, *drawn: Any, **options: Any) -> Figure:
        """Return the figure of answers to one question in a look."""
        from pefourier.report import figures

        if not cls.figure:
            raise PefourierError(f"{cls.command} has no figure; leave --plot out")
        figure: Figure = getattr(figures, cls.figure)(*drawn, **options)
        return figure

    @classmethod
    def chart(cls, answers: render.Answers, **options: Any) -> str:
        """Return curves for a terminal."""
        from pefourier.report import figures

        return str(getattr(figures, cls.curves)(answers, **options)) if cls.curves else ""

    def extra_fields(self) -> Fields:
        """Return additional fields of JSON."""
        return {}

    @property
    def encoding(self) -> Encoding:
        """The encoding, or the first of two."""
        return self.encodings[0]

    @property
    def conclusion(self) -> str:
        """One to three sentences made by fixed rules; the command prints them first."""
        return str(self.record()["conclusion"])

    def record(self) -> Fields:
        """Return the fields of `to_dict` without converting arrays."""
        return render.record_of(render.answer_of(self))

    def to_dict(self) -> Fields:
        """Return the object that ``--json`` prints: lists, numbers, None for infinity."""
        return dict(plain(self.record()))

    def plot(self, *, width: float | None = None, title: str = "") -> Figure:
        """Return a matplotlib figure without a window, to show or save.

        `width` is in inches; the default depends on the figure.
        """
        from pefourier.report.plot import Look, draw_styled

        return draw_styled(self.draw, [render.answer_of(self)], Look(width, title=title))

    def __repr__(self) -> str:
        """Return the kind of result, the SPECs, the verdict and its meaning.

        >>> import pefourier
        >>> pefourier.check("dft", length=4, d=4)  # doctest: +ELLIPSIS
        <LineFaithfulness of dft: ISOMETRIC. All 4 positions have distinct vectors, and ... noise.>
        """
        labels = [printable(enc.label) or "table" for enc in self.encodings]
        of = " and ".join(shorten(label, SENTENCE // 2) for label in labels)
        sentence = ". ".join(self.conclusion.split(". ")[:2]).removesuffix(".") + "."
        return f"<{type(self).__name__} of {of}: {shorten(sentence, SENTENCE)}>"

    def _repr_html_(self) -> str:
        """Return the output of the command as HTML for notebooks."""
        answer = render.answer_of(self)
        words = f"{render.conclusion_of(answer)}\n{render.short_text_of([answer])}"
        return "<pre>{}</pre>".format("\n".join(map(in_html, words.split("\n"))))

    def __getstate__(self) -> Fields:
        """Return the state to pickle, without the rules of encodings, which are closures."""
        encodings = tuple(replace(enc, vectors=vectors_gone) for enc in self.encodings)
        return {**vars(self), "encodings": encodings}


def csv_table(items: Iterable[Any], fields: Iterable[str]) -> CsvTable:
    """Return column names and one row per item for CSV; column `spec` becomes `candidate`."""
    fields = list(fields)
    names = ["candidate" if name == "spec" else name for name in fields]
    return names, [[getattr(item, name) for name in fields] for item in items]


def vectors_gone(_: Array) -> Floats:
    """Raise an error in place of vectors, which are not pickled."""
    raise PefourierError("a pickled or copied result has no vectors; compute it again")

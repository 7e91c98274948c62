"""Base class of results: a frozen dataclass that renders as text, JSON or a figure.

Results hold numbers and arrays; `report.render` makes text and records from any result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import size_of
from pefourier.encodings.loader import source_of
from pefourier.encodings.registry import ALIASES, BUILDERS
from pefourier.errors import PefourierError, command_line, shorten
from pefourier.report import render
from pefourier.types import Array, CsvTable, Fields, Floats, frozen_by_name, hidden
from pefourier.writing.escapes import in_html
from pefourier.writing.files import read_toml
from pefourier.writing.page import plain
from pefourier.writing.text import Verdict, number, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


STEPS = Path(__file__).with_name("next_steps.toml")
SIZES = ("grid", "prefix", "length", "d", "rho", "seed")  # keywords of `load` that are options
USUAL = {"length": 80, "d": 256}  # of a named encoding without options
OF_FILES = {"code": ("grid", "prefix", "length", "d"), "table": ("grid", "prefix", "length")}
OF_NODES = ("tree", "graph")  # domains without lags
SENTENCE = 180  # characters of a conclusion in one line


@frozen_by_name
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
    def next_step(self) -> str:
        """What to run next at this verdict; empty if the verdict has its own advice."""
        steps = read_toml(STEPS).get(self.command, {})
        key = "nodes" if self.encoding.domain.kind in OF_NODES else self.verdict
        command, aim = steps.get(key) or steps.get("otherwise") or ("", "")
        typed = typed_specs(self.encodings) if command else []
        words = command_line("pefourier", command, *typed)
        named = f"`{words}`" if typed else f"{command} on the same input"
        return f"Run {named} to {aim}." if command else ""

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


def typed_specs(encodings: Iterable[Encoding]) -> list[str]:
    """Return SPECs with the sizes of encodings, then options; empty if one cannot be typed.

    >>> from pefourier.encodings.loader import load
    >>> typed_specs([load("rope:base=5", length=9, d=4)])
    ['rope:base=5,length=9,d=4']
    """
    specs: list[str] = []
    options: dict[str, str] = {}
    for enc in encodings:
        in_memory = enc.origin == "code" and not enc.spec.startswith("py:")
        if enc.domain.kind in (*OF_NODES, "time") or in_memory or enc.spec == "-":
            return []
        try:
            source = source_of(enc.spec)
        except PefourierError:  # an array
            return []
        sizes = {key: enc.params.get(key) for key in SIZES}
        if sizes["grid"]:
            sizes |= {"grid": size_of(sizes["grid"]), "length": None}
        if source == "name":
            given = {ALIASES.get(key, key) for key in re.findall(r"[:,](\w+)=", enc.spec)}
            parameters = BUILDERS[enc.spec.partition(":")[0]].parameters.items()
            usual = {**USUAL, **{key: parameter.default for key, parameter in parameters}}
            left = {
                k: x for k, x in sizes.items() if x not in (None, usual.get(k)) and k not in given
            }
            text = ",".join(f"{key}={number(value, 17)}" for key, value in left.items())
            specs.append(f"{enc.spec}{',' if ':' in enc.spec else ':'}{text}".rstrip(":,"))
            continue
        specs.append(enc.spec)
        for key in OF_FILES.get(source, ("length",)):
            text = number(sizes[key], 17) if sizes[key] else ""
            if options.setdefault(key, text) != text:  # sizes of two files
                return []
    words = ((f"--{key}", text) for key, text in options.items() if text)
    return [*specs, *chain(*words)]


def csv_table(items: Iterable[Any], fields: Iterable[str]) -> CsvTable:
    """Return column names and one row per item for CSV; column `spec` becomes `candidate`."""
    fields = list(fields)
    names = ["candidate" if name == "spec" else name for name in fields]
    return names, [[getattr(item, name) for name in fields] for item in items]


def vectors_gone(_: Array) -> Floats:
    """Raise an error in place of vectors, which are not pickled."""
    raise PefourierError("a pickled or copied result has no vectors; compute it again")

"""HTML pages: one file per page, without scripts and without requests to other servers.

All content passes through `element`, which escapes everything except `Markup`: names of files,
arrays and encodings can only be text. Figures are embedded as matplotlib SVG images, which cannot
affect the page; its style adapts their colours to dark mode.
"""

import platform
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

from pefourier.report.plot import USUAL, Look, render
from pefourier.report.terms import Term, read_terms, spelling
from pefourier.types import Strings
from pefourier.version import __version__
from pefourier.writing.text import in_html, parts_of_words

TEMPLATE = Path(__file__).with_suffix(".html")
NUMBER = re.compile(r"[-−]?\d+(\.\d+)?(e[+-]?\d+)?")
FACTS = ("formula", "unit", "range", "good", "source")  # of a term, besides its meaning
SEVERITIES = ("error", "warning")  # first words of remarks
LIBRARIES = ("numpy", "scipy", "matplotlib")


class Markup(str):
    """HTML text with special characters that are not escaped."""

    __slots__ = ()


def element(name: str, *inside: Any, **attributes: Any) -> Markup:
    """Make an element; content and attributes are escaped unless they are `Markup`.

    A final underscore in an attribute's name is removed, others become hyphens.

    >>> element("p", "a < b", element("b", "c"), class_="x")
    '<p class="x">a &lt; b<b>c</b></p>'
    """
    pairs = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items() if v is not None}
    text = "".join(f' {key}="{in_html(str(value))}"' for key, value in pairs.items())
    return Markup(f"<{name}{text}>{''.join(map(markup, flat(inside)))}</{name}>")


def markup(value: Any) -> str:
    r"""Return a value as HTML text.

    >>> markup("<a\n>")
    '&lt;a\\n&gt;'
    """
    return value if isinstance(value, Markup) else in_html(str(value))


def flat(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items of nested lists, without None and empty strings."""
    for item in items:
        if isinstance(item, str | int | float):
            if item != "":
                yield item
        elif item is not None:
            yield from flat(item)


def sentence_of(label: str, text: str) -> Markup:
    """Make a paragraph with a bold label."""
    return element("p", element("strong", label), f" {text}")


def remark(text: str) -> Markup:
    """Make a paragraph; the severity of a finding is coloured."""
    severity, _, message = text.partition(":")
    if severity not in SEVERITIES:
        return element("p", text)
    return element("p", element("strong", severity), f":{message}", class_=severity)


def table(rows: Sequence[Sequence[Any]], caption: str = "") -> Markup:
    """Make a table that scrolls if it is wide; the first row and column are headers."""
    head, *body = ([str(cell).strip() for cell in row] for row in rows)
    lines = [
        element("tr", element("th", first, scope="row"), map(table_cell, cells))
        for first, *cells in body
    ]
    inside = [
        element("caption", caption) if caption else None,
        element("thead", element("tr", (element("th", cell, scope="col") for cell in head))),
        element("tbody", lines),
    ]
    return element("div", element("table", inside), class_="scroll", tabindex="0")


def table_cell(text: str) -> Markup:
    """Make a table cell; numbers are right-aligned."""
    return element("td", text, class_="number" if NUMBER.fullmatch(text) else None)


def markup_of_words(words: Callable[[], str]) -> list[Markup]:
    """Return the words of an answer and its tables as elements."""
    return [remark(p) if isinstance(p, str) else table(p) for p in parts_of_words(words)]


def figure(draw: Callable[..., Any], answers: Any, caption: str, look: Look = USUAL) -> Markup:
    """Draw answers as a figure with a caption."""
    picture = b64encode(render("svg", draw, answers, look)).decode()
    picture = Markup(f'<img src="data:image/svg+xml;base64,{picture}" alt="{in_html(caption)}">')
    return element("figure", picture, element("figcaption", caption))


def details(summary: str, *inside: Any) -> Markup | None:
    """Make a folded element for long content; None without content."""
    shown = list(flat(inside))
    return element("details", element("summary", summary), shown) if shown else None


def command(line: str) -> Markup:
    """Show a command line that reproduces numbers."""
    return element("pre", element("code", line))


@cache  # the registry does not change while the program runs
def terms_by_name() -> Mapping[str, list[Term]]:
    """Group terms by spelling."""
    terms: dict[str, list[Term]] = {}
    for term in read_terms():
        for name in term.names:
            terms.setdefault(spelling(name), []).append(term)
    return terms


def explanations(names: Iterable[str], groups: Strings) -> Markup | None:
    """Explain names of rows, columns, verdicts and findings, by the first group that has them."""
    listed = []
    for name in dict.fromkeys(map(str.strip, names)):
        terms = terms_by_name().get(spelling(name), [])
        terms = [term for group in groups for term in terms if term.group == group] or terms
        for term in terms[:1]:
            facts = [f"{fact}: {getattr(term, fact)}" for fact in FACTS if getattr(term, fact)]
            lines = filter(None, (term.meaning, "; ".join(facts)))
            listed += [element("dt", name), *(element("dd", line) for line in lines)]
    return details("Glossary", element("dl", listed) if listed else None)


def versions_table() -> Markup:
    """Table of the program versions that computed the numbers."""
    programs = {"pefourier": __version__, "Python": platform.python_version()}
    programs |= {name: version(name) for name in LIBRARIES}
    return table([("program", "version"), *programs.items()], "Versions")


@dataclass(frozen=True)
class Chapter:
    """A section of a page."""

    heading: str
    inside: Sequence[Any]


def document(title: str, lead: Any, sections: Sequence[Chapter]) -> str:
    """Make the complete page; equal sections give equal text."""
    numbered = [(f"part-{i}", section) for i, section in enumerate(sections, 1)]
    links = [element("li", element("a", s.heading, href=f"#{anchor}")) for anchor, s in numbered]
    parts = [
        element("section", element("h2", s.heading, id=anchor), s.inside) for anchor, s in numbered
    ]
    slots = {"title": markup(title), "lead": markup(lead or ""), "version": __version__}
    slots |= {"links": "".join(links), "main": "\n".join(parts)}
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(slots)

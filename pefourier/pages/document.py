"""A document for a browser: one file of HTML from which no request leaves and that runs nothing.

Everything goes through `element`, which escapes what is not `Markup`, so that no name of a file, an
array or an encoding can be more than text. Words of the registry are buttons that open their
explanation (the browser's own popovers: no script); on paper the explanations follow at the end.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from pefourier.answers.terms import Term, spelling
from pefourier.version import __version__
from pefourier.writing.escapes import in_html
from pefourier.writing.text import number, tables_in

STYLE_SHEET = Path(__file__).with_suffix(".css")
NO_REQUESTS = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"
ONE_LINE = 26  # letters of a cell that are not broken
VOID = {"meta", "br", "wbr"}  # elements that hold nothing
PLAIN = {"title"}  # elements that hold no other elements
WHOLE = re.compile(r"((?<![\w-])--?[A-Za-z][\w-]*|\d+(?:\.\d+)? %)")  # options and percentages
LONG_WORD = re.compile(rf"(\S{{{ONE_LINE + 1},}})")
JOINT = re.compile(r"(?<=[,/#])(?=[^\s,/#])")  # where a SPEC or a path may go on in a new line
TAG = re.compile("<[^>]*>")
AS_TYPED = re.compile(r"('[^']*'|--[a-z][\w-]* \S+|pefourier .*)")  # commands, options
LARGE = re.compile(r"(?<![\w=:,./#-])(?<!al\., )\d{4,}(?![\w./]*[=:#])")
TOLD_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]\d+)?")
FACTS = ("formula", "unit", "range", "good", "source")  # of a term, beside its meaning


class Markup(str):
    """Text of HTML, whose special characters are meant as they stand."""

    __slots__ = ()


def element(name: str, *inside: Any, **attributes: Any) -> Markup:
    """An element; what is inside is running_text, in attributes safe_text, unless it is `Markup`.

    An underscore at the end of an attribute's name goes, others become hyphens.

    >>> element("p", "a < b", element("br"), class_="x")
    '<p class="x">a &lt; b<br></p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{safe_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{given}>")
    written = safe_text if name in PLAIN else running_text
    return Markup(f"<{name}{given}>{''.join(map(written, flat(inside)))}</{name}>")


def safe_text(value: Any) -> str:
    r"""A value as text of HTML.

    >>> safe_text("<a\n>")
    '&lt;a\\n&gt;'
    """
    return value if isinstance(value, Markup) else in_html(str(value))


def running_text(value: Any) -> str:
    """A value as text of HTML that breaks where people would: no option behind a hyphen.

    >>> running_text("as --json; rope:rho=5e5,scaling=linear,factor=4")
    'as <span class="whole">--json</span>; rope:rho=5e5,<wbr>scaling=linear,<wbr>factor=4'
    """
    if isinstance(value, Markup):
        return value
    parts = WHOLE.split(str(value))
    parts[1::2] = map(whole, parts[1::2])
    parts[::2] = map(joined, parts[::2])
    return "".join(parts)


def whole(word: str) -> Markup:
    """A word that stays on one line."""
    return Markup(f'<span class="whole">{safe_text(word)}</span>')


def joined(text: str) -> str:
    """A text as text of HTML whose long words break behind a comma or a slash first."""
    parts = LONG_WORD.split(text)
    parts[::2] = map(safe_text, parts[::2])
    parts[1::2] = ("<wbr>".join(map(safe_text, JOINT.split(word))) for word in parts[1::2])
    return "".join(parts)


def flat(items: Iterable[Any]) -> Iterator[Any]:
    """Items of lists of any depth, without what is None or empty."""
    for item in items:
        if isinstance(item, str | int | float):
            if item != "":
                yield item
        elif item is not None:
            yield from flat(item)


def value_cell(value: Any, missing: str = "–") -> Any:
    """A number in few digits that knows all of them; any other value as a person reads it.

    >>> value_cell(0.123456789), value_cell(None, "only one position")
    ('<data value="0.123456789">0.1235</data>', 'only one position')
    """
    exact = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if not exact:
        return number(value, missing=missing)
    return element("data", for_people(value), value=repr(value))


def for_people(value: float) -> str:
    """A number as it is printed for people: thousands apart, powers of ten short.

    >>> for_people(131072), for_people(2e7), for_people(1.25e-9), for_people(26952.56)
    ('131,072', '2.0e7', '1.25e-9', '26,950')
    """
    text = number(value)
    if isinstance(value, int) or 1e3 <= abs(value) < 1e6:
        return f"{float(text):,.0f}" if isinstance(value, float) else f"{value:,}"
    digits, e, power = text.partition("e")
    return f"{digits if '.' in digits else digits + '.0'}e{int(power)}" if e else text


def grouped(text: str) -> str:
    """A sentence with its large numbers as people write them, but in commands and options.

    >>> grouped("All 131072 positions; --length 131072, rho=500000 or 'design --to 131072'")
    "All 131,072 positions; --length 131072, rho=500000 or 'design --to 131072'"
    """
    parts = AS_TYPED.split(text)
    parts[::2] = (LARGE.sub(lambda found: f"{int(found[0]):,}", part) for part in parts[::2])
    return "".join(parts)


def details(summary: str, *inside: Any, **given: Any) -> Markup | None:
    """What is long, shown when it is asked for (`printed`: on paper, too); nothing of nothing."""
    held = list(flat(inside))
    return element("details", element("summary", summary), held, **given) if held else None


def about(label: str, text: str, class_: str | None = None) -> Markup:
    """A paragraph that begins with what it is about."""
    return element("p", element("strong", label), " ", text, class_=class_)


@dataclass
class Words:
    """The terms that a document may explain, and those that it has used, in order."""

    terms: Sequence[Term]
    used: dict[str, Term] = field(default_factory=dict)  # by the id of the explanation

    def term(self, name: str, groups: Sequence[str] = ()) -> Any:
        """A name as a button that opens its explanation; as it is where nothing is known of it."""
        found = self.find(name, groups)
        if found is None:
            return name.strip()
        here = f"term-{self.terms.index(found)}"
        self.used[here] = found
        attributes = {"type": "button", "class": "term", "popovertarget": here}
        return element("button", name.strip(), title=found.meaning, **attributes)

    def find(self, name: str, groups: Sequence[str]) -> Term | None:
        """The term of a name in the first of the groups that has one; no group: in any."""
        named = [t for t in self.terms if spelling(name) in map(spelling, (t.term, *t.also))]
        ordered = [t for group in groups for t in named if t.group == group]
        return next(iter(ordered if groups else named), None)

    def explanations(self) -> Markup:
        """What was used, in full: hidden on a screen until asked for, printed at the end."""
        found = [explanation_box(here, term) for here, term in self.used.items()]
        heading = element("h2", "What the words mean", id="words")
        return element("section", heading, found, class_="words") if found else Markup("")


def explanation_box(here: str, term: Term) -> Markup:
    """The explanation of a term."""
    facts = [(name, getattr(term, name)) for name in FACTS if getattr(term, name)]
    listed = [[element("dt", name), element("dd", fact)] for name, fact in facts]
    return element(
        "div",
        element("p", element("strong", term.term), f" ({term.group}): {term.meaning}"),
        element("dl", listed) if listed else None,
        id=here,
        popover="auto",
        role="dialog",
        aria_label=f"What {term.term} means",
    )


def table(caption: str, head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table in a box of its own, in which a wide one scrolls; the first cell heads its row."""
    cells = [list(row) for row in rows]
    columns = zip(*cells, strict=True) if cells else [()] * len(head)
    right = [sum(map(set_right, column)) > len(cells) / 2 for column in columns]
    heads = [head_cell(cell, "col", end) for cell, end in zip(head, right, strict=False)]
    names = [Markup(TAG.sub("", running_text(cell))) for cell in head[1:]]  # where rows are stacked
    body = [
        element("tr", head_cell(first, "row"), map(table_cell, rest, names, right[1:]))
        for first, *rest in cells
    ]
    inside = [
        element("caption", element("span", caption)),
        element("thead", element("tr", heads)),
        element("tbody", body),
    ]
    return scroll_box(element("table", inside), caption)


def scroll_box(inside: Markup, told: str, kind: str = "") -> Markup:
    """A box in which what is wide scrolls."""
    attributes = {"class": f"scroll{kind}", "role": "region", "tabindex": "0", "aria-label": told}
    return element("div", inside, **attributes)


def answer_tables(
    caption: str, tell: Callable[[], str], words: Words, groups: Sequence[str]
) -> list[Markup]:
    """The tables that an answer in words has, their names explained and numbers for people."""
    _, found = tables_in(tell)
    return [
        table(
            f"{caption} ({i} of {len(found)})" if len(found) > 1 else caption,
            [words.term(name, groups) for name in head],
            [[words.term(name, groups), *map(told_cell, told)] for name, *told in rows],
        )
        for i, (head, *rows) in enumerate(found, 1)
    ]


def told_cell(text: str) -> Any:
    """A cell of an answer in words, a number as `value_cell` has it."""
    if not TOLD_NUMBER.fullmatch(text):
        return text
    return value_cell(float(text) if set(text) & set(".e") else int(text))


def set_right(value: Any) -> bool:
    """Whether a cell is set to the right."""
    if isinstance(value, int):
        return not isinstance(value, bool)
    return str(value).startswith("<data ")


def classes(**given: Any) -> str | None:
    """The names that hold, as an attribute has them."""
    return " ".join(name for name, holds in given.items() if holds) or None


def head_cell(value: Any, scope: str, right: bool = False) -> Markup:
    """The head of a column or row, whose words are broken only where they are long."""
    words = () if isinstance(value, Markup) else str(value).split()
    long = any(len(piece) > ONE_LINE for word in words for piece in JOINT.split(word))
    return element("th", value, scope=scope, class_=classes(long=long, number=right))


def table_cell(value: Any, head: str, right: bool) -> Markup:
    """A cell; what is short stays on one line, a number, or what is among numbers, at its end."""
    short = isinstance(value, Markup) or len(str(value)) <= ONE_LINE
    shown = for_people(value) if type(value) is int else value
    named = classes(short=short, number=right or set_right(value))
    return element("td", shown, data_head=head, class_=named)


def figure(picture: Markup, caption: str, wide: bool = False) -> Markup:
    """A picture with what is to be seen on it; a wide one scrolls in a box of its own."""
    picture = scroll_box(picture, caption, " wide") if wide else picture
    return element("figure", picture, element("figcaption", caption))


def command(line: str, said: str = "These numbers come from") -> Markup:
    """A command that gives the numbers beside it."""
    code = element("code", [whole(w) if is_name(w) else w for w in re.split("( )", line)])
    return element("div", element("p", said), element("pre", code), class_="command")


def is_name(word: str) -> bool:
    """Whether a word of a command would break behind its hyphen, and need not."""
    return "-" in word and len(word) <= ONE_LINE


@dataclass(frozen=True)
class Chapter:
    """A part of a document, with a heading that links lead to."""

    name: str  # of the link
    heading: str
    inside: Sequence[Any]

    def markup(self) -> Markup:
        """The chapter as an element."""
        heading = element("h2", self.heading, id=self.name)
        return element("section", heading, self.inside, aria_labelledby=self.name)


def document(title: str, lead: Any, parts: Sequence[Chapter], words: Words) -> str:
    """The whole file; the same parts give the same text."""
    links = [element("li", element("a", p.heading, href=f"#{p.name}")) for p in parts]
    made = f"Made by pefourier {__version__}; the same input gives the same page."
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=NO_REQUESTS),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("meta", name_="generator", content=f"pefourier {__version__}"),
        element("title", title),
        element("style", Markup(STYLE_SHEET.read_text(encoding="utf-8"))),
    )
    body = element(
        "body",
        element("a", "Skip to the conclusions", href=f"#{parts[0].name}", class_="skip"),
        element("header", element("h1", title), lead),
        element("nav", element("ul", links), aria_label="Parts of this page"),
        element("main", [p.markup() for p in parts], words.explanations()),
        element("footer", element("p", made)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"

"""Columns and paragraphs of text, and numbers in few digits.

Tables do not use rich, which only draws the progress of training. rich 15 would add 41 ms to the
291 ms of `check-faithful sinusoidal dft` (processor time, medians of 17 alternating pairs). On a
narrow terminal it cuts words, while this module continues in a second table.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import cache
from itertools import groupby, zip_longest
from math import floor, isfinite, log10
from shutil import get_terminal_size
from string import Formatter
from textwrap import wrap
from typing import Any

from pefourier.errors import PefourierError, shown
from pefourier.types import Counts, Ints, Strings, frozen

RUNNER = re.compile(r"(?<!\S)::|##(?=\[)")  # may be read as a command by workflow runners


def visible(text: str) -> str:
    r"""Escape control characters, changes of text direction and broken Unicode.

    >>> print(visible("a\nb\u202e"))
    a\nb\u202e
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable(text: str) -> str:
    r"""Escape a text for a terminal or a log, including commands of workflow runners.

    >>> print(printable("::error::\x1b[31m"), printable("a::b"))
    \x3a:error::\x1b[31m a::b
    """
    return RUNNER.sub(lambda match: rf"\x{ord(match[0][0]):x}{match[0][1:]}", visible(text))


NOUNS = (
    "positions dimensions pairs runs rows columns vectors channels classes recordings frequencies "
    "layers heads documents tokens windows points lags groups folds seeds keys wavelengths values "
    "encodings tables files bases claims nodes distances numbers members queries rotations models "
    "displacements arrays configs radians"
).split()
NOUN = f"(?P<noun>{'|'.join(NOUNS)})"
VERBS = {"are": "is", "have": "has", "were": "was", "do": "does", "reach": "reaches"}
VERB = f"(?P<verb>{'|'.join(VERBS)}|differ|share|agree|hold|repeat)"
MAYBE_ONE = re.compile(r"\b1 [a-z]|s \d")  # of what `agree` may change
WIDEST = 96  # characters of an easily readable line
EXACT = 1e-12  # rounding of a share
PLAIN = 1e5  # smaller numbers are written without a power of ten
ANY_WIDTH = 10**6  # characters per line if the output is not a terminal
GAP = 2  # spaces between columns
WHOLE: Any = {"break_on_hyphens": False, "break_long_words": False}  # words in lines
UNITS = {"k": 2**10, "M": 2**20}  # as in context lengths: 128k is 131072

TABLE = "\x1d"  # placeholder of a table that is kept in SET_ASIDE
SET_ASIDE: ContextVar[list[Sequence[Strings]] | None] = ContextVar("tables", default=None)


def aligned(rows: Sequence[Strings]) -> str:
    """Align rows of cells in columns, two spaces apart, within the width of a terminal.

    Cells that do not fit are broken between words, never inside a word. The last column has the
    rest of the width. If that is not enough, the remaining columns follow in further tables, each
    with the first column.
    """
    if (tables := SET_ASIDE.get()) is not None:
        tables.append(rows)
        return f"{TABLE}\n"
    width, columns = get_terminal_size((ANY_WIDTH, 24)).columns, list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if sum(widths) + GAP * (len(widths) - 1) > width:
        words = [max(map(len, " ".join(column).split()), default=0) for column in columns]
        room = width // 2 - GAP
        widths = [max(min(wide, room), word) for wide, word in zip(widths, words, strict=True)]
        widths[-1] += max(width - sum(widths) - GAP * (len(widths) - 1), 0)
    parts = [[0]]
    for k, wide in enumerate(widths[1:], 1):
        taken = sum(widths[i] + GAP for i in parts[-1])
        if taken + wide > width and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(k)
    return "\n".join(
        in_columns([[row[k] for k in part] for row in rows], [widths[k] for k in part])
        for part in parts
    )


def in_columns(rows: Sequence[Strings], widths: Ints) -> str:
    """Write rows in columns of these widths; wider cells are broken between words.

    >>> print(in_columns([["95 % lie at or below", "1"]], [9, 1]), end="")
    95 % lie   1
    at or
    below
    """
    lines = []
    for row in rows:
        cells = []
        for cell, width in zip(row, widths, strict=True):
            indent = " " * (len(cell) - len(cell.lstrip()))
            cells.append(
                [cell]
                if len(cell) <= width
                else wrap(cell, width, subsequent_indent=indent, **WHOLE)
            )
        for line in zip_longest(*cells, fillvalue=""):
            lines.append((" " * GAP).join(map(str.ljust, line, widths)).rstrip() + "\n")
    return "".join(lines)


def is_for_document() -> bool:
    """Whether the text becomes a document, which keeps all columns of its tables."""
    return SET_ASIDE.get() is not None


def parts_of_words(*texts: Callable[[], str]) -> list[str | Sequence[Strings]]:
    """Return the paragraphs and tables (rows of cells) of a text in order, for documents."""
    tables: list[Sequence[Strings]] = []
    before = SET_ASIDE.set(tables)
    try:
        lines = [line.strip(" ") for words in texts for line in words().split("\n")]
    finally:
        SET_ASIDE.reset(before)
    parts = iter(tables)
    return [next(parts) if line == TABLE else line for line in lines if line]


def paragraph(text: str, indent: str = "") -> str:
    r"""Wrap a text to the terminal's width, at most `WIDEST`; indent all lines but the first.

    >>> paragraph("codes " * 20, "    ").splitlines()[1]
    '    codes codes codes codes'
    """
    if SET_ASIDE.get() is not None:  # a document wraps its own lines
        return f"{text}\n"
    width = max(min(WIDEST, get_terminal_size((WIDEST, 24)).columns), 24)
    lines = wrap(text, width, subsequent_indent=indent, **WHOLE)
    return "\n".join(lines) + "\n"


def number(value: float | str | None, digits: int = 4, missing: str = "–") -> str:
    """Format a value for a person: few digits for a float, `missing` for None.

    >>> number(0.1069871), number(5.2e-107), number(None), number(True), number(131.07, 2)
    ('0.107', '5.2e-107', '–', 'yes', '130')
    """
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return missing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return printable(str(value))
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+0" in text and abs(value) < PLAIN else text


def shortest(fits: Callable[[float], object], value: float, digits: int = 1) -> float:
    """Return the number with the fewest digits, at least `digits`, that fits; else the value.

    >>> shortest(lambda x: abs(x - 2.5000000001) < 1e-9, 2.5000000001), shortest(bool, 18.7, 2)
    (2.5, 19.0)
    """
    rounded = (float(f"{value:.{k}g}") for k in range(digits, 18))
    return next((x for x in rounded if fits(x)), value)


def percent(share: float, digits: int = 3) -> str:
    """Format a share in percent; 100% and 0% are only written for exactly all and nothing.

    >>> percent(0.25), percent(0.99996), percent(1 - 1e-16), percent(0.996, 2), percent(-1e-18)
    ('25%', 'more than 99.9%', '100%', 'more than 99%', '0%')
    """
    if abs(share) <= EXACT or abs(1 - share) <= EXACT:
        return f"{round(share):.0%}"
    text = number(100 * share, digits)
    below = f"{100 - 10.0 ** (2 - digits):.{digits}g}"
    return f"more than {below}%" if text == "100" and share < 1 else f"{text}%"


@frozen
class Verdict:
    """The sentences of a verdict, with slots such as {r.gap:3} for fields of its result."""

    meaning: str
    action: str = ""
    title: str = ""  # printed in place of the code

    def name(self, code: str) -> str:
        """Return the verdict as it is printed."""
        return (self.title or code).upper()


class Template(Formatter):
    """Text with numbers rounded {x:3}, rounded down {x:3-} or in percent {x:3%}.

    {x:?…} inserts text if x is true.

    >>> words = "{z:?no }waves of {x:2} (at least {x:2-}), {y:2%}"
    >>> fill(words, x=6.2832, y=0.25, z=False), fill("{x:3-}", x=9.67), fill("{x:3}", x=0.99982)
    ('waves of 6.3 (at least 6.2), 25%', '9.67', '0.9998')
    """

    def format_field(self, value: Any, spec: str) -> str:
        """Format the value of a slot."""
        if spec.startswith("?"):
            return spec[1:] if value else ""
        if spec.endswith("%"):
            return percent(value, int(spec[:-1]))
        if spec.endswith("-"):
            if isfinite(value):
                unit = 10.0 ** (int(spec[:-1]) - 1 - floor(log10(value)))
                value = floor(value * unit * (1 + EXACT)) / unit
            return number(value)
        if not spec.isdigit():
            return str(super().format_field(value, spec))
        digits = int(spec)
        while number(value, digits) == "1" and abs(value - 1) > EXACT:
            digits += 1  # near 1 but not 1
        return number(value, digits)


def fill(text: str, **slots: Any) -> str:
    """Fill the slots of a text; see `Template`. Nouns agree with a count of 1: see `agree`."""
    return agree(Template().format(text, **slots))


def singular_noun(noun: str) -> str:
    """Return the singular of a noun of `NOUNS`.

    >>> [singular_noun(noun) for noun in ("frequencies", "classes", "bases", "rows")]
    ['frequency', 'class', 'base', 'row']
    """
    if noun.endswith("ies"):
        return noun.removesuffix("ies") + "y"
    return noun.removesuffix("es") if noun.endswith("sses") else noun.removesuffix("s")


@cache  # compiled for the first message
def patterns_of_number() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of a count of 1 with its noun, and of a single number after a plural."""
    counted = (  # not "row 1 pairs", where 1 is no count
        rf"(?<![\w.,×^/–=-])(?<!row )(?<!layer )(?<!head )(?<!column )(?<!token )(?<!position )"
        rf"(?<!document )1 (?:of [\d,]+ )?"
        rf"(?:[a-z-]*[a-z](?<!of)(?<!to) )?{NOUN}\b(?: {VERB}\b)?"
    )
    numbered = rf"\b(?<!of ){NOUN} \d+(?:(?=[:;]| in\b)| {VERB}\b)"
    return re.compile(counted), re.compile(numbered, re.IGNORECASE)


def agree(text: str) -> str:
    """Write nouns and verbs in the singular after a count of 1, or before a single number.

    >>> agree("1 distinct vectors are shared; layers 2 differ, 1 of 3 pairs reach it")
    '1 distinct vector is shared; layer 2 differs, 1 of 3 pairs reaches it'
    >>> agree("row 1 pairs differ, 11 pairs differ, pairs 1 to 2 differ")
    'row 1 pairs differ, 11 pairs differ, pairs 1 to 2 differ'
    """

    def in_singular(found: re.Match[str]) -> str:
        words, noun, verb = found[0], found["noun"], found["verb"]
        if verb:
            words = words.removesuffix(verb) + VERBS.get(verb, f"{verb}s")
        return words if " of " in words else words.replace(noun, singular_noun(noun), 1)

    for pattern in patterns_of_number() if MAYBE_ONE.search(text) else ():
        text = pattern.sub(in_singular, text)
    return text


def agreeing(count: int, singular: str, plural: str) -> str:
    """Return the singular or plural form for a number.

    >>> agreeing(1, "claim fails", "claims fail"), agreeing(0, "is", "are")
    ('claim fails', 'are')
    """
    return singular if count == 1 else plural


def joined_runs(numbers: Iterable[int], joint: str) -> list[str]:
    """Join runs of consecutive integers by their first and last number.

    >>> joined_runs([0, 3, 4, 5], " to ")
    ['0', '3 to 5']
    """
    parts = ([n for _, n in run] for _, run in groupby(enumerate(numbers), lambda x: x[1] - x[0]))
    return [joint.join(map(str, dict.fromkeys((part[0], part[-1])))) for part in parts]


def first_few(items: Strings, limit: int = 4) -> str:
    """List the first items, with … if there are more.

    >>> first_few("abcde"), first_few("ab")
    ('a, b, c, d, …', 'a, b')
    """
    return ", ".join([*items[:limit], "…"] if len(items) > limit else items)


def ranges(index: Iterable[int], limit: int = 6) -> str:
    """List ascending integers with runs joined, the first few.

    >>> ranges([0, 1, 2, 4, 5, 6, 9])
    '0-2, 4-6, 9'
    """
    return first_few(joined_runs(index, "-"), limit)


def whole_number(text: str) -> int | None:
    """Read a whole number: digits, 3e5, 128k or 1M; None for any other text.

    >>> whole_number("128k"), whole_number("3e5"), whole_number("1.5")
    (131072, 300000, None)
    """
    unit = UNITS.get(text[-1:].replace("K", "k").replace("m", "M"), 1)
    digits = text[:-1] if unit > 1 else text
    try:
        value = int(digits) if digits.lstrip("+-").isdecimal() else float(digits)
    except ValueError:
        return None
    exact = isinstance(value, int) or (isfinite(value) and abs(value) <= 2**53)
    return int(value * unit) if exact and value * unit % 1 == 0 else None


def read_sides(text: str) -> Counts:
    """Read the sides of a grid.

    >>> read_sides("14x14")
    (14, 14)
    """
    sides = tuple(whole_number(part) or 0 for part in text.replace("×", "x").split("x"))
    if min(sides) < 1:
        raise PefourierError(
            f"{shown(text)} is not a grid; write sides of at least 1, such as 14x14 (rows x "
            "columns) or 8x30x52 (frames x rows x columns)"
        )
    return sides


def capital(text: str) -> str:
    """Capitalize the beginning of a sentence, except keys and names.

    >>> capital("pairs differ"), capital("rope_scaling of a config"), capital("factor=4 is ignored")
    ('Pairs differ', 'rope_scaling of a config', 'factor=4 is ignored')
    """
    is_word = text.partition(" ")[0].strip(",:'").replace("-", "").isalpha()
    return text[:1].upper() + text[1:] if is_word else text


def join(items: Iterable[str], word: str = "and") -> str:
    """Join items as in a sentence.

    >>> join(["float32", "float16", "bfloat16"])
    'float32, float16 and bfloat16'
    """
    *head, last = items
    return f"{', '.join(head)} {word} {last}" if head else last

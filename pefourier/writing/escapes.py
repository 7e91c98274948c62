"""Text in Markdown, LaTeX, CSV, HTML and workflow commands, where names of files are only text."""

import re
from collections.abc import Sequence

from pefourier.types import Strings
from pefourier.writing.text import printable, visible

MARKUP = re.compile(  # of Markdown; not a_b, an interval [0.1, 0.2] or 1 < 2
    r"[\\`*|~$]|(?<![^\W_])_|_(?![^\W_])|\[(?![-+−.\d])|\](?=[(\[:])|<(?=[a-zA-Z/!?])"
    r"|&(?=#?\w+;)|:(?=//)|(?<=www)\."
)
BLOCK = re.compile(r"(?=[#=>]|[-+](?:[\s+-]|$))|\d+(?=[.)](?:\s|$))")  # at the start of a line
FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")  # computed by spreadsheets
TEX = {char: f"\\{char}" for char in "&%$#_{}"}
TEX_NAMES = r"""\textbackslash{} \textasciitilde{} \textasciicircum{} \textless{} \textgreater{}
\textbar{} -- $\geq$ $\pi$ $\times$ \ldots{} $\omega$ $\rho$ $\sigma$ $-$ $^2$"""
TEX |= zip("\\~^<>|–≥π×…ωρσ−²", TEX_NAMES.split(), strict=True)


def in_workflow_command(text: str) -> str:
    r"""Escape a text as the message of a workflow command of GitHub Actions.

    >>> in_workflow_command("50 %\n")
    '50 %25%0A'
    """
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" else visible(c) for c in text)


def in_workflow_property(text: str) -> str:
    """Escape a text as the value of a property of a workflow command.

    >>> in_workflow_property("py:a,b")
    'py%3Aa%2Cb'
    """
    return in_workflow_command(text).replace(":", "%3A").replace(",", "%2C")


def in_markdown(text: str) -> str:
    r"""Escape a text for Markdown: no emphasis, link, element, formula, list or cell.

    >>> print(in_markdown("# a|b <i> _c_ rope_scaling"))
    \# a\|b \<i> \_c\_ rope_scaling
    """
    escaped = MARKUP.sub(r"\\\g<0>", printable(text).strip())
    block = BLOCK.match(escaped)
    return f"{block[0]}\\{escaped[block.end() :]}" if block else escaped


def in_latex(text: str) -> str:
    r"""Escape a text for LaTeX; "[" or "*" after a row would begin an option.

    >>> print(in_latex("5 % of rank_tolerance"))
    5 \% of rank\_tolerance
    """
    escaped = "".join(TEX.get(c, c) for c in printable(text))
    return f"{{}}{escaped}" if escaped.lstrip().startswith(("[", "*")) else escaped


def in_csv(text: str) -> str:
    r"""Escape a text for a cell of CSV, against formulas of spreadsheets; numbers are unchanged.

    >>> print(in_csv("=1+1"), in_csv("-0.5"), in_csv("-"))
    '=1+1 -0.5 -
    """
    escaped = printable(text)
    return f"'{escaped}" if FORMULA.match(text) and not is_plain(escaped.strip()) else escaped


def is_plain(text: str) -> bool:
    """Whether a text is a single sign, a number, or a displacement such as -1×-2."""
    try:
        return len(text) == 1 or len([*map(float, text.split("×"))]) > 0
    except ValueError:
        return False


def in_html(text: str) -> str:
    r"""Escape a text for HTML, also inside the quotes of an attribute.

    >>> print(in_html("<a\n>"))
    &lt;a\n&gt;
    """
    from html import escape  # imported only for notebooks

    return escape(visible(text))


def markdown_table(rows: Sequence[Strings]) -> str:
    r"""Return a Markdown table; the first row is the header.

    >>> print(markdown_table([["p", "|p|"], ["a", "1"]]))
    | p | \|p\| |
    |---|---|
    | a | 1 |
    """
    head, *body = (f"| {' | '.join(map(in_markdown, row))} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])

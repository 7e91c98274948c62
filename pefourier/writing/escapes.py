r"""Names of files, arrays and encodings as text of each form, so that none is more than text.

A name may hold line breaks, controls of terminals, marks that turn the direction of writing, markup
and formulas. Each function takes a text and gives it for its form, in one line; `ESCAPES` has them
by form. An escaped character is shown as Python writes it: ``\n``, ``\x1b``, ``\u202e``.
"""

import re
from collections.abc import Callable

RUNNER = re.compile(r"(?<!\S)::|##(?=\[)")  # what a runner of workflows may take for a command
MARKUP = re.compile(  # of Markdown; neither a_b nor an interval [0.1, 0.2] nor 1 < 2 is any
    r"[\\`*|~$]|(?<![^\W_])_|_(?![^\W_])|\[(?![-+−.\d])|\](?=[(\[:])|<(?=[a-zA-Z/!?])"
    r"|&(?=#?\w+;)|:(?=//)|(?<=www)\."
)
BLOCK = re.compile(r"(?=[#=>]|[-+](?:[\s+-]|$))|\d+(?=[.)](?:\s|$))")  # at the start of a line
FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")  # what a spreadsheet computes
HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
TEX = {char: f"\\{char}" for char in "&%$#_{}"}
TEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
TEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
TEX |= {"–": "--", "≥": r"$\geq$", "π": r"$\pi$", "×": r"$\times$", "…": r"\ldots{}"}
TEX |= {"ω": r"$\omega$", "ρ": r"$\rho$", "σ": r"$\sigma$", "−": "$-$", "²": "$^2$"}


def visible(text: str) -> str:
    r"""A text with control characters, turns of direction and broken Unicode escaped.

    >>> print(visible("a\nb\u202e"))
    a\nb\u202e
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable(text: str) -> str:
    r"""A text for a terminal or a log, in which runners of workflows find no command of theirs.

    >>> print(printable("::error::\x1b[31m"), printable("a::b"))
    \x3a:error::\x1b[31m a::b
    """
    return RUNNER.sub(lambda match: rf"\x{ord(match[0][0]):x}{match[0][1:]}", visible(text))


def in_workflow_command(text: str) -> str:
    r"""A text as the message of a workflow command of GitHub Actions.

    >>> in_workflow_command("50 %\n")
    '50 %25%0A'
    """
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" else visible(c) for c in text)


def in_workflow_property(text: str) -> str:
    """A text as the value of a property of a workflow command.

    >>> in_workflow_property("py:a,b")
    'py%3Aa%2Cb'
    """
    return in_workflow_command(text).replace(":", "%3A").replace(",", "%2C")


def in_markdown(text: str) -> str:
    r"""A text as Markdown that shows it: no emphasis, link, element, formula, list or cell.

    >>> print(in_markdown("# a|b <i> _c_ rope_scaling"))
    \# a\|b \<i> \_c\_ rope_scaling
    """
    escaped = MARKUP.sub(r"\\\g<0>", printable(text).strip())
    block = BLOCK.match(escaped)
    return f"{block[0]}\\{escaped[block.end() :]}" if block else escaped


def in_latex(text: str) -> str:
    r"""A text as LaTeX; behind the end of a row it would else begin an option.

    >>> print(in_latex("5 % of rank_tolerance"))
    5 \% of rank\_tolerance
    """
    escaped = "".join(TEX.get(c, c) for c in printable(text))
    return f"{{}}{escaped}" if escaped.lstrip().startswith(("[", "*")) else escaped


def in_csv(text: str) -> str:
    r"""A text as the value of a cell, which no spreadsheet computes; numbers stay as they are.

    >>> print(in_csv("=1+1"), in_csv("-0.5"), in_csv("-"))
    '=1+1 -0.5 -
    """
    escaped = printable(text)
    return f"'{escaped}" if FORMULA.match(text) and not is_plain(escaped.strip()) else escaped


def is_plain(text: str) -> bool:
    """Whether a text is a sign alone, a number, or a displacement such as -1×-2."""
    try:
        return len(text) == 1 or len([*map(float, text.split("×"))]) > 0
    except ValueError:
        return False


def in_html(text: str) -> str:
    r"""A text as HTML, also within the quotes of an attribute.

    >>> print(in_html("<a\n>"))
    &lt;a\n&gt;
    """
    return visible(text).translate(HTML)


ESCAPES: dict[str, Callable[[str], str]] = {
    "text": printable,
    "lint": printable,
    "github": in_workflow_command,
    "md": in_markdown,
    "latex": in_latex,
    "csv": in_csv,
    "html": in_html,
}

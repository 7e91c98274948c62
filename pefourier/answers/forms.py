"""The forms of an answer: words, data, documents, and what other programs show of it.

A new form is a function of a page, entered in `FORMS`.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from pefourier.answers.terms import Term, read_terms
from pefourier.version import __version__
from pefourier.writing.escapes import in_latex, in_markdown, printable
from pefourier.writing.page import Page, as_csv, as_github, as_json, as_words, told_of
from pefourier.writing.text import markdown_table, tables_in

PAPER = "https://arxiv.org/abs/2405.09061"
SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
NUMBER = re.compile(r"[-−+]?[0-9.]")  # what a cell of numbers begins with


def page_as_markdown(page: Page) -> str:
    """The conclusion and the tables in Markdown, as pull requests and notebooks show it."""
    said, _ = tables_in(page.conclusion)
    words, tables = tables_in(page.words)
    told = map(markdown_table, tables) if tables else map(in_markdown, words.splitlines())
    parts = [*map(in_markdown, said.splitlines()), *told]
    return "\n\n".join(filter(None, parts)) + "\n"


def as_latex(page: Page) -> str:
    """The tables for a paper, set with booktabs; the conclusion stands above as comments."""
    _, tables = tables_in(page.words)
    said = [f"% {printable(line)}" for line in page.conclusion().splitlines()]
    return "\n".join([*said, "\n\n".join(map(latex_table, tables)), ""])


def latex_table(rows: Sequence[Sequence[str]]) -> str:
    r"""A table of LaTeX; its first row is the header.

    >>> print(latex_table([["", "dft"], ["rank_tolerance", "5 %"]]))
    \begin{tabular}{lr}
    \toprule
     & dft \\
    \midrule
    rank\_tolerance & 5 \% \\
    \bottomrule
    \end{tabular}
    """
    head, *body = (
        " & ".join(r"\quad " * cell.startswith(" ") + in_latex(cell.strip()) for cell in row)
        + r" \\"
        for row in rows
    )
    numbers = ([NUMBER.match(row[k].strip()) for row in rows[1:]] for k in range(1, len(rows[0])))
    columns = "l" + "".join("r" if 2 * len([*filter(None, n)]) > len(n) else "l" for n in numbers)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def in_lines(page: Page) -> str:
    """Errors, warnings and reasons to fail, a line each as linters print them; else nothing."""
    told = [one for one in told_of(page) if one[1] != "refused" and one[2] != "note"]
    lines = [f"{spec or page.command}: {how}: {text} [{code}]" for spec, code, how, text in told]
    known = {f"has {code}" for _, code, *_ in told}
    lines += [f"{one.spec}: error: {one.words}" for one in page.reasons if one.words not in known]
    return "".join(f"{printable(line)}\n" for line in lines)


def in_sarif(page: Page) -> str:
    """Findings, refusals and reasons to fail as SARIF 2.1.0, which code scanning reads.

    A rule is a finding's code with its meaning and way out, which stand in the file itself; its
    address is that of a public case of the finding, or else of the paper.
    """
    results = [sarif_result(*one) for one in told_of(page)]
    more = [("error", one) for one in page.reasons] + [("warning", one) for one in page.remarks]
    results += [sarif_result(one.spec, one.kind, level, one.text) for level, one in more]
    used = {one["ruleId"] for one in results}
    rules = [rule_of(t) for t in read_terms() if t.term in used and t.group == "findings"]
    driver = {"name": "pefourier", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def rule_of(term: Term) -> dict[str, Any]:
    """A rule of SARIF, with what code scanning shows beside a finding."""
    text = " ".join(filter(None, [term.meaning, term.good, term.source]))
    told = {"text": text, "markdown": f"{text}\n\n`pefourier explain {term.term}`"}
    first = {"id": term.term, "shortDescription": {"text": term.meaning}}
    return first | {"help": told, "helpUri": address(term.source)}


def address(source: str) -> str:
    """Where the thread of a source is read, or the paper.

    >>> address("RT-DETR, huggingface/transformers#41380"), address("")
    ('https://github.com/huggingface/transformers/issues/41380', 'https://arxiv.org/abs/2405.09061')
    """
    thread = re.search(r"([\w.-]+/[\w.-]+)#(\d+)", source)
    return "https://github.com/{}/issues/{}".format(*thread.groups()) if thread else PAPER


def sarif_result(spec: str, code: str, severity: str, message: str) -> dict[str, Any]:
    """One result of SARIF; a SPEC that is a file is its place.

    >>> sarif_result("dft", "none", "note", "All is well.")
    {'ruleId': 'none', 'level': 'note', 'message': {'text': 'dft: All is well.'}}
    """
    path = spec.partition("#")[0]
    about = f"{spec}: " if spec and spec not in message else ""
    told = {"ruleId": code, "level": severity, "message": {"text": printable(about + message)}}
    if not os.path.isfile(path):
        return told
    place = {"artifactLocation": {"uri": quote(os.path.normpath(path))}, "region": {"startLine": 1}}
    return told | {"locations": [{"physicalLocation": place}]}


FORMS: dict[str, Callable[[Page], str]] = {
    "text": as_words,
    "json": as_json,
    "csv": as_csv,
    "github": as_github,
    "sarif": in_sarif,
    "lint": in_lines,
    "md": page_as_markdown,
    "latex": as_latex,
}

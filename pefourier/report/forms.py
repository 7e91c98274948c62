"""Output formats of an answer: text, data, documents, and annotations for other programs.

A new format is a function of a page that is added to `FORMS`.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pefourier.types import Fields, frozen
from pefourier.version import __version__
from pefourier.writing.escapes import (
    in_csv,
    in_latex,
    in_markdown,
    in_workflow_command,
    in_workflow_property,
    markdown_table,
)
from pefourier.writing.files import split_spec
from pefourier.writing.page import SCHEMA, Page, plain
from pefourier.writing.text import parts_of_words, printable

SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_SIZES = 3  # rows of a table that only has sizes, with its header


def as_json(page: Page) -> str:
    """Return the answer as a JSON object: command, version, schema and the list of results."""
    records = list(page.records())
    refusals = [
        {"spec": record["spec"], "kind": "refused", "message": record["error"]}
        for record in records
        if isinstance(record, Mapping) and {"spec", "error"} <= record.keys()
    ]
    optional = {
        "reasons": [*refusals, *(reason.record() for reason in page.reasons)],
        "remarks": [remark.record() for remark in page.remarks],
        "together": page.together(),
    }
    answer = {"command": page.command, "version": __version__, "schema": SCHEMA}
    answer |= {"results": records} | {key: value for key, value in optional.items() if value}
    import json

    return json.dumps(plain(answer), allow_nan=False) + "\n"


def as_csv(page: Page) -> str:
    r"""Return the answer as comma-separated text in full precision; missing values are empty.

    >>> as_csv(Page("list", str, list, rows=lambda: [["n", "share"], [3, 0.1], [4, None]]))
    'n,share\n3,0.1\n4,\n'
    """
    import csv
    import io

    text = io.StringIO()
    rows = (
        [in_csv(cell) if isinstance(cell, str) else cell for cell in plain(list(row))]
        for row in page.rows()
    )
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def markdown_of(page: Page) -> str:
    """Return conclusion, tables and findings in Markdown, for pull requests and notebooks."""
    parts = parts_of_words(page.conclusion, page.words)
    shown = (in_markdown(p) if isinstance(p, str) else markdown_table(p) for p in parts)
    return "\n\n".join(shown) + "\n"


def as_latex(page: Page) -> str:
    """Return one table for a paper, with booktabs; conclusions and findings are comments.

    It is the first that has more rows than sizes, such as positions and dimensions.
    """
    parts = parts_of_words(page.conclusion, page.words)
    lines = [f"% {printable(part)}" for part in parts if isinstance(part, str)]
    tables = [part for part in parts if not isinstance(part, str)]
    if tables:
        rows = next((table for table in tables if len(table) > MOST_SIZES), tables[0])
        head, *body = (" & ".join(map(latex_cell, row)) + r" \\" for row in rows)
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}", r"\toprule", head]
        lines += [r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def latex_cell(cell: str) -> str:
    """Return a cell of a LaTeX table; a row inside a group is indented."""
    text = in_latex(cell.strip())
    return rf"\quad {text}" if cell.startswith(" ") else text


@frozen
class Annotation:
    """An annotation of a file: a finding, a refusal, or a reason to fail."""

    spec: str
    code: str  # of the finding, or the kind of reason
    severity: str  # error, warning or note
    message: str


def annotations_of(page: Page) -> list[Annotation]:
    """Return findings and refusals of all SPECs, remarks, and other reasons."""
    listed = []
    for record in plain(list(page.records())):
        spec = str(record.get("spec") or "")
        for f in record.get("findings", ()):
            listed.append(Annotation(spec, f["code"], f["severity"], f["message"]))
        if "error" in record:
            listed.append(Annotation(spec, "refused", "error", record["error"]))
    by_findings = {f"has {annotation.code}" for annotation in listed}
    levels = [(r, "warning") for r in page.remarks]
    levels += [(r, "error") for r in page.reasons if r.words not in by_findings]
    return listed + [Annotation(r.spec, r.kind, level, r.text) for r, level in levels]


def as_github(page: Page) -> str:
    r"""Return annotations for GitHub Actions: conclusions, findings and reasons.

    An annotation has the file of its SPEC, if the SPEC is one.

    >>> record = {"spec": "dft", "conclusion": "All differ: 100 %.", "findings": []}
    >>> print(as_github(Page("check-faithful", str, lambda: [record])), end="")
    ::notice title=pefourier check-faithful dft::All differ: 100 %25.
    """
    records = plain(list(page.records()))
    notices = [
        ("notice", str(record.get("spec") or ""), record["conclusion"])
        for record in records
        if record.get("conclusion")
    ]
    notices += [
        (a.severity.replace("note", "notice"), a.spec, f"{a.message} [{a.code}]")
        for a in annotations_of(page)
    ]
    commands = ""
    for level, spec, text in notices:
        properties = {"file": file} if (file := file_of(spec)) else {}
        properties["title"] = f"pefourier {page.command} {spec}".rstrip()
        listed = ",".join(f"{key}={in_workflow_property(x)}" for key, x in properties.items())
        commands += f"::{level} {listed}::{in_workflow_command(text)}\n"
    return commands


def file_of(spec: str) -> str:
    """Return the path of a SPEC if it is a file, else an empty string."""
    path, _ = split_spec(spec)
    return os.path.normpath(path) if Path(path).is_file() else ""


def as_lint(page: Page) -> str:
    """Return errors, warnings and reasons to fail, one per line, as linters do."""
    silent = {remark.text for remark in page.remarks}
    lines = [
        f"{a.spec or page.command}: {a.severity}: {a.message.removeprefix(f'{a.spec} ')} [{a.code}]"
        for a in annotations_of(page)
        if a.code != "refused" and a.severity != "note" and a.message not in silent
    ]
    return "".join(f"{printable(line)}\n" for line in lines)


def as_sarif(page: Page) -> str:
    """Return findings, refusals and reasons to fail as SARIF 2.1.0, for code scanning.

    A rule is a finding's code with its meaning and remedy, which are included in the file.
    """
    import json

    from pefourier.report.terms import read_terms

    annotations = annotations_of(page)
    codes = {annotation.code for annotation in annotations}
    rules = [
        {
            "id": term.term,
            "shortDescription": {"text": term.meaning},
            "help": {"text": " ".join(filter(None, [term.meaning, term.good, term.source]))},
        }
        for term in read_terms()
        if term.term in codes and term.group == "findings"
    ]
    driver = {"name": "pefourier", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": list(map(sarif_result, annotations))}
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def sarif_result(annotation: Annotation) -> Fields:
    """Return a SARIF result; its location is the SPEC if that is a file.

    >>> sarif_result(Annotation("dft", "none", "note", "All is well."))
    {'ruleId': 'none', 'level': 'note', 'message': {'text': 'dft: All is well.'}}
    """
    spec, message = annotation.spec, annotation.message
    text = f"{spec}: {message}" if spec and spec not in message else message
    result: Fields = {"ruleId": annotation.code, "level": annotation.severity}
    result["message"] = {"text": printable(text)}
    if file := file_of(spec):
        from urllib.parse import quote

        uri = {"uri": quote(file)}
        place = {"artifactLocation": uri, "region": {"startLine": 1}}
        result["locations"] = [{"physicalLocation": place}]
    return result


FORMS: dict[str, Callable[[Page], str]] = {
    "json": as_json,
    "csv": as_csv,
    "github": as_github,
    "sarif": as_sarif,
    "lint": as_lint,
    "md": markdown_of,
    "latex": as_latex,
}

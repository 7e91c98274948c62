"""An answer in each form that can be asked for: words, JSON, CSV, annotations of a change.

A `Page` holds functions instead of texts, so that only the form asked for is made. `answers.forms`
names them all.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from pefourier.version import __version__
from pefourier.writing.escapes import in_csv, in_workflow_command, in_workflow_property

SCHEMA = 3  # of JSON; grows when a field changes its meaning or goes, not when one is added


@dataclass(frozen=True)
class Reason:
    """Why an answer is "no", or what is worth a warning beside it."""

    spec: str  # the SPEC it is about as shown to a person, "" where it is about none
    kind: Literal["refused", "unmet", "worse", "changed", "unknown", "left"]
    words: str  # which follow the SPEC

    @property
    def text(self) -> str:
        """The whole sentence."""
        return f"{self.spec} {self.words}".lstrip()

    def record(self) -> dict[str, str]:
        """The object of JSON."""
        return {"spec": self.spec, "kind": self.kind, "message": self.text}


@dataclass(frozen=True)
class Page:
    """The answer of a command."""

    command: str
    words: Callable[[], str]
    records: Callable[[], Iterable[Any]]  # mappings or dataclasses: the objects of JSON
    rows: Callable[[], Iterable[Sequence[Any]]] = tuple  # of CSV, the header first
    chart: Callable[[bool], str] | None = None  # drawn between both on a terminal, in colour?
    conclusion: Callable[[], str] = str  # what the words begin with, in whole lines
    reasons: Sequence[Reason] = ()  # why the answer is "no" to what was asked
    remarks: Sequence[Reason] = ()  # what is no reason, and worth a warning
    together: Callable[[], str] = str  # of the conclusion, what compares all SPECs


def as_words(page: Page) -> str:
    """The answer in words: the conclusion, then the numbers."""
    return beginning(page) + page.words()


def beginning(page: Page) -> str:
    """The conclusion, where there is one, and the empty line that ends it."""
    text = page.conclusion()
    return f"{text}\n" if text else ""


def as_json(page: Page) -> str:
    """The answer as one JSON object: the command, the version, the schema, the list of results."""
    records = list(page.records())
    refused = [
        {"spec": one["spec"], "kind": "refused", "message": one["error"]}
        for one in records
        if isinstance(one, Mapping) and {"spec", "error"} <= one.keys()
    ]
    told = {
        "reasons": [*refused, *(one.record() for one in page.reasons)],
        "remarks": [one.record() for one in page.remarks],
    }
    answer = {
        "command": page.command,
        "version": __version__,
        "schema": SCHEMA,
        "results": records,
        **{key: found for key, found in told.items() if found},
        **({"together": told} if (told := page.together()) else {}),
    }
    import json

    return json.dumps(plain(answer), allow_nan=False) + "\n"


def as_csv(page: Page) -> str:
    r"""The answer as comma-separated text with full precision; nothing for what has no value.

    >>> as_csv(Page("list", str, list, lambda: [["n", "share"], [3, 0.1], [4, None]]))
    'n,share\n3,0.1\n4,\n'
    """
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        map(csv_cell, plain(list(row))) for row in page.rows()
    )
    return text.getvalue()


def csv_cell(value: Any) -> Any:
    """A value as it stands in CSV: numbers in full, text that nothing computes."""
    if isinstance(value, str):
        return in_csv(value)
    return "" if value is None else value


def as_github(page: Page) -> str:
    r"""Annotations as GitHub Actions shows them beside a change: conclusions, findings, reasons.

    >>> record = {"spec": "dft", "conclusion": "All differ: 100 %.", "findings": []}
    >>> print(as_github(Page("check-faithful", str, lambda: [record])), end="")
    ::notice title=pefourier check-faithful dft::All differ: 100 %25.
    """
    lines = []
    records = plain(list(page.records()))
    if len(records) > 1:  # GitHub shows ten of a kind: what sums up comes first
        lines.append(workflow_command("notice", page.command, "", count_answers(page, records)))
    for record in records:
        spec = str(record.get("spec") or "")
        said = [("notice", record["conclusion"])] if record.get("conclusion") else []
        said += [("error", record["error"])] if "error" in record else []
        for finding in findings_of(record):
            level = finding["severity"].replace("note", "notice")
            said.append((level, f"{finding['message']} [{finding['code']}]"))
        lines += [workflow_command(level, page.command, spec, text) for level, text in said]
    known = {f"has {one['code']}" for record in records for one in findings_of(record)}
    reasons = [("error", one) for one in page.reasons if one.words not in known]
    more = [("warning", one) for one in page.remarks] + reasons
    lines += [workflow_command(level, page.command, one.spec, one.text) for level, one in more]
    return "".join(lines)


def told_of(page: Page) -> Iterable[tuple[str, str, str, str]]:
    """Findings and refusals with their SPEC: its name, a code, the severity and the message."""
    for record in plain(list(page.records())):
        spec = str(record.get("spec") or "")
        for found in findings_of(record):
            yield spec, found["code"], found["severity"], found["message"]
        if "error" in record:
            yield spec, "refused", "error", record["error"]


def findings_of(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """The findings of a JSON object; of two encodings those of both.

    >>> findings_of({"findings": {"a": [], "b": [{"code": "dead-pairs"}]}})
    [{'code': 'dead-pairs'}]
    """
    found = record.get("findings", ())
    return [one for part in found.values() for one in part] if hasattr(found, "values") else found


def count_answers(page: Page, records: Sequence[Mapping[str, Any]]) -> str:
    """How many were answered, and how many reasons there are to fail.

    >>> page = Page("check-faithful", str, list, reasons=[Reason("dft", "worse", "is worse")])
    >>> count_answers(page, [{"spec": "dft"}, {"spec": "a.npy", "error": "no such file"}])
    '1 of 2 answered, 1 refused; 1 reason to fail'
    """
    refused, count = sum("error" in record for record in records), len(page.reasons)
    none = "no other reason" if refused else "no reason"
    reasons = f"{count} {'reason' if count == 1 else 'reasons'}" if count else none
    left = f", {refused} refused" if refused else ""
    return f"{len(records) - refused} of {len(records)} answered{left}; {reasons} to fail"


def workflow_command(level: str, command: str, spec: str, text: str) -> str:
    """A workflow command of GitHub Actions; a SPEC that is a file names it."""
    path = spec.partition("#")[0]
    properties = {"file": os.path.normpath(path)} if os.path.isfile(path) else {}
    properties["title"] = f"pefourier {command} {spec}".rstrip()
    given = ",".join(f"{key}={in_workflow_property(one)}" for key, one in properties.items())
    return f"::{level} {given}::{in_workflow_command(text)}\n"


def plain(value: Any) -> Any:
    """A value as JSON has it: arrays as lists, numbers that are not finite as null.

    >>> plain({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        return plain(fields_of(value))
    numbers = value.tolist()  # of an array, or a number of numpy
    if value.dtype.kind == "f" and isfinite(value.sum()):  # no number has to be looked at
        return numbers
    return plain(numbers)


def fields_of(result: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, in their order, but for those that are not told."""
    kind = "grid" if getattr(result, "on_grid", False) else "line"
    return {told: getattr(result, name) for name, told in fields_told(type(result), kind).items()}


def fields_told(kind: type, of: str = "line") -> dict[str, str]:
    """Fields of a dataclass, of a line or a grid, with the names that they are told by."""
    told = {
        field.name: field.metadata.get("told", field.name)
        for field in dataclasses.fields(kind)
        if field.metadata.get("of", of) == of
    }
    return {name: other for name, other in told.items() if other}


def flattened(records: Iterable[Mapping[str, Any]]) -> Iterable[list[Any]]:
    """Rows of the single values of records, a nested one under ``outer.inner``; the header first.

    Sentences of a conclusion are left out.

    >>> list(flattened([{"spec": "dft", "f1": {"mean": 0.5, "low": 0.4}, "params": {}}]))
    [['spec', 'f1.mean', 'f1.low'], ['dft', 0.5, 0.4]]
    """
    rows = [dict(single_values(plain(record))) for record in records]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    outer = {key.rpartition(".")[0] for key in keys} | {"conclusion"}  # some records have none
    header = [key for key in keys if key not in outer]
    return [header, *([row.get(key) for key in header] for row in rows)]


def single_values(record: Mapping[str, Any], within: str = "") -> Iterable[tuple[str, Any]]:
    """Names and values that are neither lists nor mappings, at any depth."""
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from single_values(value, f"{within}{key}.")
        elif not isinstance(value, list):
            yield f"{within}{key}", value

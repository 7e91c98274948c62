"""Common source of all forms of an answer: a `Page` of functions, and records for JSON.

A page holds functions instead of texts; `report.forms` calls only those of the requested form.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import isfinite
from typing import Any, Literal

from pefourier.types import Fields, Values, frozen

SCHEMA = 5  # of JSON; increases when a field changes its meaning or is removed, not when added


@frozen
class Reason:
    """A reason for a negative answer, or a warning."""

    spec: str  # SPEC as shown to a person, "" if it concerns no SPEC
    kind: Literal["refused", "unmet", "worse", "changed", "unknown", "left"]
    words: str  # sentence after the SPEC

    @property
    def text(self) -> str:
        """The complete sentence."""
        return f"{self.spec} {self.words}".lstrip()

    def record(self) -> dict[str, str]:
        """The JSON object."""
        return {"spec": self.spec, "kind": self.kind, "message": self.text}


@frozen
class Page:
    """The answer of a command."""

    command: str
    words: Callable[[], str]  # of documents, and of text with --full
    records: Callable[[], Iterable[Any]]  # JSON objects: mappings or dataclasses
    short: Callable[[], str] | None = None  # of text without --full, if it differs
    rows: Callable[[], Iterable[Sequence[Any]]] = tuple  # of CSV, the header first
    chart: Callable[[], str] = str  # drawn between them on a terminal
    conclusion: Callable[[], str] = str  # first lines of the text
    reasons: Sequence[Reason] = ()  # for a negative answer
    remarks: Sequence[Reason] = ()  # warnings that are not reasons
    together: Callable[[], str] = str  # part of the conclusion that compares all SPECs


def plain(value: Any) -> Any:
    """Convert a value for JSON: arrays to lists, numbers that are not finite to null.

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
    numbers = value.tolist()  # an array or a numpy scalar
    if value.dtype.kind == "f" and isfinite(value.sum()):  # no need to check each number
        return numbers
    return plain(numbers)


def fields_of(result: Any) -> Fields:
    """Return the reported fields of a dataclass by name, in order."""
    kind: Any = type(result)
    if hasattr(kind, "reported"):
        return dict(result.reported)
    return {label: getattr(result, name) for name, label in labelled_fields(kind).items()}


@cache
def labelled_fields(kind: Any) -> dict[str, str]:
    """Return the reported fields of a dataclass with their output names."""
    labels = {f.name: f.metadata.get("told", f.name) for f in dataclasses.fields(kind)}
    return {name: label for name, label in labels.items() if label}


def flattened(records: Iterable[Values]) -> Iterable[list[Any]]:
    """Return a header and rows of the single values of records; nested names are ``outer.inner``.

    Sentences of a conclusion are left out.

    >>> list(flattened([{"spec": "dft", "f1": {"mean": 0.5, "low": 0.4}, "params": {}}]))
    [['spec', 'f1.mean', 'f1.low'], ['dft', 0.5, 0.4]]
    """
    rows = [dict(single_values(plain(record))) for record in records]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    outer = {key.rpartition(".")[0] for key in keys} | {"conclusion"}  # missing in some records
    header = [key for key in keys if key not in outer]
    return [header, *([row.get(key) for key in header] for row in rows)]


def single_values(record: Values, within: str = "") -> Iterable[tuple[str, Any]]:
    """Yield names and values that are neither lists nor mappings, at any depth."""
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from single_values(value, f"{within}{key}.")
        elif not isinstance(value, list):
            yield f"{within}{key}", value

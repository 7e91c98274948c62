"""What every form of an answer is made from: a `Page` of functions, and records as JSON has them.

Functions instead of texts, so that only the form asked for is made, by `report.forms`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any, Literal

SCHEMA = 5  # of JSON; grows when a field changes its meaning or goes, not when one is added


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
    chart: Callable[..., str] | None = None  # drawn between both on a terminal, in colour?
    conclusion: Callable[[], str] = str  # what the words begin with, in whole lines
    reasons: Sequence[Reason] = ()  # why the answer is "no" to what was asked
    remarks: Sequence[Reason] = ()  # what is no reason, and worth a warning
    together: Callable[[], str] = str  # of the conclusion, what compares all SPECs


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
    kind: Any = type(result)
    return {label: getattr(result, name) for name, label in fields_told(kind).items()}


@cache
def fields_told(kind: Any) -> dict[str, str]:
    """Fields of a dataclass with the names that they are told by."""
    labels = {f.name: f.metadata.get("told", f.name) for f in dataclasses.fields(kind)}
    return {name: label for name, label in labels.items() if label}


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

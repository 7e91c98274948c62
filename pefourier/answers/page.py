"""An answer in each form that can be asked for: words, JSON, CSV.

A `Page` holds functions instead of texts, so that only the form asked for is made. A new form is
one function of a page, entered in `FORMS`, and one option in cli/request.py.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from pefourier import __version__


@dataclass(frozen=True)
class Page:
    """The answer of a command."""

    command: str
    words: Callable[[], str]
    records: Callable[[], Iterable[Any]]  # mappings or dataclasses: the objects of JSON
    rows: Callable[[], Iterable[Sequence[Any]]] = tuple  # of CSV, the header first
    chart: Callable[[bool], str] | None = None  # drawn above the words on a terminal, in colour?


def as_words(page: Page) -> str:
    """The answer in words."""
    return page.words()


def as_json(page: Page) -> str:
    """The answer as one JSON object: the command, the version and the list of results."""
    results = list(page.records())
    answer = {"command": page.command, "version": __version__, "results": results}
    return "".join([*json_pieces(answer, {}), "\n"])


def as_csv(page: Page) -> str:
    r"""The answer as comma-separated text with full precision; nothing for what has no value.

    >>> as_csv(Page("list", str, list, lambda: [["n", "share"], [3, 0.1], [4, None]]))
    'n,share\n3,0.1\n4,\n'
    """
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        ["" if cell is None else cell for cell in plain(list(row))] for row in page.rows()
    )
    return text.getvalue()


FORMS: dict[str, Callable[[Page], str]] = {"text": as_words, "json": as_json, "csv": as_csv}


def json_pieces(value: Any, told: dict[tuple[str, bytes], str]) -> Iterator[str]:
    """A value as JSON, in pieces; the text of an array is kept in `told` for one that equals it.

    >>> "".join(json_pieces({"a": [1.0, float("nan")]}, {}))
    '{"a": [1.0, null]}'
    """
    if has_fields(value):
        fields = value if isinstance(value, Mapping) else fields_of(value)
        for number, (key, item) in enumerate(fields.items()):
            yield f"{', ' if number else '{'}{json_of(str(key))}: "
            yield from json_pieces(item, told)
        yield "}" if fields else "{}"
    elif isinstance(value, list | tuple) and any(map(has_fields, value)):
        for number, item in enumerate(value):
            yield ", " if number else "["
            yield from json_pieces(item, told)
        yield "]"
    elif getattr(value, "ndim", 0):
        key = f"{value.dtype.str} {value.shape}", value.tobytes()
        if key not in told:
            told[key] = json_of(value)
        yield told[key]
    else:
        yield json_of(value)


def json_of(value: Any) -> str:
    """A value as JSON at once."""
    import json

    values = value.tolist() if getattr(value, "ndim", 0) == 1 else value
    floats = isinstance(values, list) and set(map(type, values)) == {float}
    if floats and all(map(isfinite, values)):
        return str(values)  # the same text, sooner
    return json.dumps(plain(value), allow_nan=False)


def has_fields(value: Any) -> bool:
    """Whether a value is an object of JSON: a mapping or a dataclass."""
    return isinstance(value, Mapping) or dataclasses.is_dataclass(value)


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
    return plain(value.tolist())  # an array, or a number of numpy


def fields_of(result: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, in their order."""
    return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}

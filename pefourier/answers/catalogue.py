"""What `pefourier list` says of the registered encodings, read without importing their builders.

An encoding's meaning, formula, example and the meanings of its parameters are its docstring's.
catalogue.json holds `encodings.specs.records()`, which needs numpy and all builders: .24 s
where the file takes .05. A test fails when the two differ, and ``make catalogue`` writes it again.
"""

import json
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from textwrap import indent
from typing import Any

from pefourier.writing.page import Page
from pefourier.writing.text import (
    breadth,
    fitting_widths,
    in_columns,
    least_widths,
    paragraph,
    terminal_width,
)

FILE = Path(__file__).with_suffix(".json")
POINTS = {"position": "positions", "lag": "lags", "time": "times", "tree": "nodes of a tree"}
USED_BY = {  # model types of transformers, some of those whose configs are read as each
    "rope": ("llama", "mistral", "qwen3", "gemma3_text", "gpt_neox"),
    "learned": ("bert", "gpt2", "vit", "whisper"),
    "sinusoidal": ("whisper", "marian"),
    "axial": ("vit_mae",),
    "axial-rope": ("dinov3_vit", "llama4_vision_model"),
    "alibi": ("bloom", "mpt"),
    "t5": ("t5", "switch_transformers"),
    "swin": ("swin",),
    "swin2": ("swinv2",),
}
MANY = 8  # parameters, from which on a line says what one means
SIZES = ("length", "d")  # parameters that every encoding has


def read_catalogue() -> list[dict[str, Any]]:
    """A JSON object for each registered encoding."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def catalogue_page(names: Sequence[str] = ()) -> Page:
    """The answer of `pefourier list`: all encodings in brief, or some in full."""
    found = [record for name in names for record in find_records(name)] or read_catalogue()
    return Page(
        "list",
        words=partial(descriptions, found) if names else text,
        records=lambda: [with_conclusion(record) for record in found],
        rows=partial(rows, found),
        conclusion=str if names else how_many,
    )


def find_records(name: str) -> list[dict[str, Any]]:
    """The record of one encoding, or those that have a convention of that name, with it alone.

    >>> [(one["encoding"], len(one["conventions"])) for one in find_records("dinov3")]
    [('axial-rope', 1)]
    """
    known = {record["encoding"]: record for record in read_catalogue()}
    if name not in known:
        found = [
            record | {"conventions": [one]}
            for record in known.values()
            for one in record.get("conventions", ())
            if one["convention"] == name
        ]
        if found:
            return found
        return [known[meant_encoding(name)]]
    return [known[name]]


def meant_encoding(name: str) -> str:
    """The encoding that a synonym stands for.

    >>> meant_encoding("yarn")
    'rope'
    """
    import pefourier.encodings  # noqa: F401 (which fills the registry)
    from pefourier.encodings.refused import refuse_known
    from pefourier.encodings.registry import canonical_spec, unknown_encoding

    meant = canonical_spec(name)
    if meant == name:
        refuse_known(name)
        raise unknown_encoding(name, "'pefourier list' shows all, 'explain' other words.")
    return meant.partition(":")[0]


def with_conclusion(record: dict[str, Any]) -> dict[str, Any]:
    """A record with its conclusion after what every answer begins with."""
    first = {key: record[key] for key in ("encoding", "spec", "params")}
    untrained = " Its table is only where training starts." if record["untrained"] else ""
    used = {"used_by": list(USED_BY.get(record["encoding"], ()))}
    return first | {"conclusion": record["meaning"] + untrained} | record | used


def how_many() -> str:
    """The conclusion of the whole list."""
    return paragraph(
        f"{len(read_catalogue())} encodings have a name; type NAME or NAME:key=value,… where a "
        "SPEC is asked for. 'pefourier list NAME' says what the parameters of one mean. Domain: "
        "what its rows stand for. Measure: its frequencies are declared by a formula, or estimated "
        "from its table. Used by: model types of transformers."
    )


def descriptions(records: Sequence[dict[str, Any]]) -> str:
    """Encodings in full."""
    return "\n".join(map(description, records))


def description(record: dict[str, Any]) -> str:
    """An encoding: what it is, its formula, its parameters with their meaning, an example."""
    lines = [paragraph(f"{record['encoding']}: {with_conclusion(record)['conclusion']}", "  ")]
    facts = {
        "formula": record["formula"],
        "source": record["paper"],
        "used by": ", ".join(USED_BY.get(record["encoding"], ())),
        "codes of": f"{POINTS[record['domain']]}; frequencies are {record['measure']}",
    }
    lines += [paragraph(f"  {key:<10} {fact}", " " * 13) for key, fact in facts.items() if fact]
    own = {key: value for key, value in record["params"].items() if key not in SIZES}
    lines += ["  parameters\n"] if own else []
    for meaning, alike in groupby(own, key=record["meanings"].get):
        names = ", ".join(assignment(key, own[key]) for key in alike)
        line = f"    {names}: {meaning}"
        lines.append(in_one_line(line) if len(own) > MANY else paragraph(line, " " * 6))
    lines += ["    'pefourier explain PARAMETER' has each in full\n"] if len(own) > MANY else []
    lines += conventions_in_words(record.get("conventions", []))
    typed = [assignment(key, value) for key, value in own.items() if spec_text(value)]
    spec = ":".join([record["encoding"], *typed[:1]])
    lines.append(f"  example    pefourier check-faithful {spec} --d 64\n")
    if record["example"]:
        example = indent(record["example"], " " * 13).strip()
        lines.append(f"  in Python  {example}\n")
    return "".join(lines)


def in_one_line(text: str) -> str:
    """A text as far as it goes in a line of the terminal."""
    width = terminal_width()
    return f"{text if len(text) <= width else text[: width - 2].rsplit(' ', 1)[0] + ' …'}\n"


def conventions_in_words(conventions: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each published convention: what it sets, and whose it is."""
    lines = ["  conventions: what convention=NAME sets\n"] if conventions else []
    for one in conventions:
        own = ", ".join(assignment(*item) for item in one["params"].items())
        lines.append(paragraph(f"    {one['convention']:<20} {own}", " " * 25))
        facts = [one[key] for key in ("source", "note") if key in one]
        lines += [paragraph(f"{'':25}{fact}.", " " * 25) for fact in facts]
    return lines


def rows(records: Sequence[dict[str, Any]] | None = None) -> list[list[str]]:
    """A row of words for each encoding, of all that have a name by default; the header first."""
    table = [["encoding", "family", "domain", "measure", "used by", "source", "parameters"]]
    for record in read_catalogue() if records is None else records:
        words = [record[key] for key in ("encoding", "family", "domain", "measure")]
        words += [", ".join(USED_BY.get(record["encoding"], ())), record["paper"]]
        own = {key: value for key, value in record["params"].items() if key not in SIZES}
        table.append([*words, ",".join(assignment(*item) for item in own.items())])
    return table


def assignment(key: str, value: Any) -> str:
    """A parameter with its default, or alone where it has none.

    >>> assignment("rho", 10000.0), assignment("times", None)
    ('rho=10000.0', 'times')
    """
    typed = spec_text(value)
    return f"{key}={typed}" if typed else key


def spec_text(value: Any) -> str:
    """A default as it would be typed in a SPEC; empty where there is none.

    >>> spec_text([0.7, 0.5]), spec_text(False), spec_text(None)
    ('0.7;0.5', 'false', '')
    """
    if isinstance(value, list):
        return ";".join(map(spec_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def text() -> str:
    """A line for each registered encoding, its parameters under it."""
    table = rows()
    columns = [row[:-1] for row in table]
    widths = fitting_widths(columns, least_widths(columns))
    top, *lines = [
        in_columns([row[:-1]], widths)
        if breadth(widths) <= terminal_width()
        else paragraph(", ".join(row[:-1]), "  ")
        for row in table
    ]
    indent = "    "
    parts = [top]
    for line, row in zip(lines, table[1:], strict=True):
        parts += [line, paragraph(indent + row[-1].replace(",", ", "), indent) if row[-1] else ""]
    return "".join(parts)

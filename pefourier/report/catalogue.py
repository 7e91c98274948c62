"""What `pefourier list` says of the registered encodings, read without importing their builders.

An encoding's meaning, formula, example and the meanings of its parameters are its docstring's.
catalogue.json holds `encodings.loader.records()`, which needs numpy and all builders: .24 s
where the file takes .05. The file also holds a checksum of the sources that it was made from. Where
they have changed, the registry is read in its place; ``make catalogue`` writes the file again.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from textwrap import indent
from typing import Any

from pefourier.errors import unknown
from pefourier.writing.page import Page
from pefourier.writing.text import aligned, paragraph

FILE = Path(__file__).with_suffix(".json")
ENCODINGS = Path(__file__).parents[1] / "encodings"
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
SIZES = ("length", "d")  # parameters that every encoding has
UNTRAINED = " Its table is only where training starts."


def read_catalogue() -> list[dict[str, Any]]:
    """A JSON object for each registered encoding."""
    catalogue = json.loads(FILE.read_text(encoding="utf-8"))
    if catalogue["sources"] != checksum_of_sources():
        catalogue = json.loads(catalogue_of_registry())
    records: list[dict[str, Any]] = catalogue["encodings"]
    return records


def catalogue_of_registry() -> str:
    """Return the text of catalogue.json for the encodings that are registered now."""
    from pefourier.encodings.loader import records

    catalogue = {"sources": checksum_of_sources(), "encodings": records()}
    return json.dumps(catalogue, indent=1, ensure_ascii=False)


def checksum_of_sources() -> int:
    """Return a checksum of the files that say which encodings there are."""
    checksum = 0
    for path in (*sorted(ENCODINGS.glob("families/*.py")), ENCODINGS / "conventions.toml"):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum


def catalogue_page(names: Sequence[str] = ()) -> Page:
    """The answer of `pefourier list`: all encodings in brief, or some in full."""
    records = [record for name in names for record in find_records(name)] or read_catalogue()
    count = (
        f"{len(records)} encodings have a name; type NAME or NAME:key=value,… where a SPEC is "
        "asked for. 'pefourier list NAME' says what the parameters of one mean."
    )
    return Page(
        "list",
        words=lambda: "\n".join(map(description, records)) if names else aligned(rows(records)),
        records=lambda: map(with_conclusion, records),
        rows=partial(rows, records),
        conclusion=str if names else partial(paragraph, count),
    )


def find_records(name: str) -> list[dict[str, Any]]:
    """The record of one encoding, or those that have a convention of that name, with it alone.

    >>> [(record["encoding"], len(record["conventions"])) for record in find_records("dinov3")]
    [('axial-rope', 1)]
    """
    records = read_catalogue()
    matches = [record for record in records if record["encoding"] == name] or [
        record | {"conventions": [convention]}
        for record in records
        for convention in record.get("conventions", ())
        if convention["convention"] == name
    ]
    if not matches:
        if (target := name_behind(name)) != name:
            return find_records(target)
        conventions = (c["convention"] for r in records for c in r.get("conventions", ()))
        names = {*conventions, *(record["encoding"] for record in records)}
        raise unknown("encoding", name, names, "'pefourier list' shows all.")
    return matches


def name_behind(synonym: str) -> str:
    """The encoding that a name stands for in a SPEC.

    >>> name_behind("nope"), name_behind("yarn"), name_behind("dft")
    ('none', 'rope', 'dft')
    """
    from pefourier.encodings.registry import canonical_spec, refuse_known  # which need numpy

    refuse_known(synonym)
    return canonical_spec(synonym).partition(":")[0]


def with_conclusion(record: dict[str, Any]) -> dict[str, Any]:
    """A record with its conclusion after what every answer begins with."""
    first = {key: record[key] for key in ("encoding", "spec", "params")}
    conclusion = record["meaning"] + UNTRAINED * record["untrained"]
    return first | {"conclusion": conclusion} | record | {"used_by": [*users_of(record)]}


def users_of(record: Mapping[str, Any]) -> Sequence[str]:
    """Model types whose configs are read as an encoding."""
    return USED_BY.get(record["encoding"], ())


def description(record: dict[str, Any]) -> str:
    """An encoding: what it is, its formula, its parameters with their meaning, an example."""
    parameters = {key: x for key, x in record["params"].items() if key not in SIZES}
    typed = [assignment(key, value) for key, value in parameters.items() if spec_text(value)]
    facts = {
        "formula": record["formula"],
        "source": record["paper"],
        "used by": ", ".join(users_of(record)),
        "codes of": f"{POINTS[record['domain']]}; frequencies are {record['measure']}",
        "example": f"pefourier check-faithful {':'.join([record['encoding'], *typed[:1]])} --d 64",
    }
    lines = [paragraph(f"{record['encoding']}: {with_conclusion(record)['conclusion']}", "  ")]
    lines += [paragraph(f"  {key:<10} {fact}", " " * 13) for key, fact in facts.items() if fact]
    if record["example"]:
        lines.append(f"  in Python  {indent(record['example'], ' ' * 13).strip()}\n")
    lines += ["  parameters\n"] if parameters else []
    for meaning, keys in groupby(parameters, key=record["meanings"].get):
        names = ", ".join(assignment(key, parameters[key]) for key in keys)
        lines.append(paragraph(f"    {names}: {meaning}", " " * 6))
    lines += map(convention_line, record.get("conventions", ()))
    return "".join(lines)


def convention_line(convention: Mapping[str, Any]) -> str:
    """A published convention: what it sets, and whose it is."""
    values = ", ".join(assignment(*item) for item in convention["params"].items())
    facts = [values, *(convention[key] for key in ("source", "note") if key in convention)]
    return paragraph(f"    convention={convention['convention']}: {'. '.join(facts)}.", " " * 6)


def rows(records: Sequence[dict[str, Any]] | None = None) -> list[list[str]]:
    """A row of words for each encoding, of all that have a name by default; the header first."""
    table = [["encoding", "family", "domain", "measure", "used by", "source", "parameters"]]
    for record in read_catalogue() if records is None else records:
        words = [record[key] for key in ("encoding", "family", "domain", "measure")]
        defaults = ((key, x) for key, x in record["params"].items() if key not in SIZES)
        parameters = ",".join(assignment(*default) for default in defaults)
        table.append([*words, ", ".join(users_of(record)), record["paper"], parameters])
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

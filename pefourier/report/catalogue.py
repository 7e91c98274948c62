"""Catalogue of the registered encodings for `pefourier list`, without importing their builders.

An encoding's meaning, formula, example and the meanings of its parameters come from its docstring.
catalogue.json stores `encodings.loader.records()`, which needs numpy and all builders and takes
0.24 s, while reading the file takes 0.05 s. ``make catalogue`` rewrites it; a test compares both.
"""

import json
import re
from collections.abc import Sequence
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from textwrap import indent
from typing import Any

from pefourier.errors import unknown
from pefourier.types import Fields, Strings, Values
from pefourier.writing.page import Page
from pefourier.writing.text import aligned, paragraph

FILE = Path(__file__).with_suffix(".json")
POINTS = {"position": "positions", "lag": "lags", "time": "times", "tree": "nodes of a tree"}
POINTS |= {"graph": "nodes of a graph", "pair": "pairs of positions"}
USED_BY = {  # some model types of transformers whose configs use an encoding
    "rope": "llama mistral qwen3 gemma3_text gpt_neox",
    "learned": "bert gpt2 vit whisper",
    "sinusoidal": "whisper marian",
    "axial": "vit_mae",
    "axial-rope": "dinov3_vit llama4_vision_model",
    "alibi": "bloom mpt",
    "xl": "xlnet parakeet_encoder",
    "deberta": "deberta-v2 sew-d",
    "t5": "t5 switch_transformers",
    "swin": "swin",
    "swin2": "swinv2",
}
EVERYDAY = {  # words that people type, and words of the catalogue
    **dict.fromkeys(
        "image images vision vit patch patches 2d 2-d picture video".split(), "grid|axes"
    ),
    **dict.fromkeys("sincos2d sincos-2d 2d-sincos sin-cos2d mae".split(), "grid|axes"),
    **dict.fromkeys("series timeseries time-series timestamps date sensor".split(), "time"),
    **dict.fromkeys("language llm llms text gpt chat".split(), "rotary|bloom|gpt2|t5|xlnet"),
    **dict.fromkeys("sincos sin-cos sine cosine".split(), "sines and cosines"),
    **dict.fromkeys("relative distance".split(), "lag"),
    **dict.fromkeys("trained trainable".split(), "learned"),
}
MOST_IN_FULL = 2  # encodings of a name that `list` describes one by one
SIZES = ("length", "d")  # parameters that every encoding has
UNTRAINED = " Its table has initial values, before training."


def read_catalogue() -> list[Fields]:
    """Return a JSON object for each registered encoding."""
    records: list[Fields] = json.loads(FILE.read_text(encoding="utf-8"))
    return records


def catalogue_page(names: Strings = ()) -> Page:
    """Build the answer of `pefourier list`: all encodings in brief, or some in full."""
    found = [find_records(name) for name in names]
    records = [*chain(*found)] or read_catalogue()
    is_full = 0 < max(map(len, found), default=0) <= MOST_IN_FULL
    count = (
        f"{len(records)} encodings have a name; type NAME or NAME:key=value,… as a SPEC. "
        "'pefourier list NAME' explains the parameters of an encoding."
    )
    return Page(
        "list",
        words=lambda: "\n".join(map(description, records)) if is_full else aligned(rows(records)),
        records=lambda: map(with_conclusion, records),
        rows=partial(rows, records),
        conclusion=str if is_full else partial(paragraph, count),
    )


def find_records(name: str) -> list[Fields]:
    """Find the record of an encoding, or the records with a convention or a word.

    >>> [(record["encoding"], len(record["conventions"])) for record in find_records("dinov3")]
    [('axial-rope', 1)]
    >>> [record["encoding"] for record in find_records("T5")]
    ['t5']
    """
    records, plain = read_catalogue(), name.lower().replace(" ", "-")
    matches = [record for record in records if record["encoding"] == plain] or [
        record | {"conventions": [convention]}
        for record in records
        for convention in record.get("conventions", ())
        if convention["convention"] == plain
    ]
    if not matches:
        if plain not in EVERYDAY and (target := name_behind(name)) != name:
            return find_records(target)
        forms = EVERYDAY.get(plain) or "|".join(map(re.escape, (plain, plain.removesuffix("s"))))
        word = re.compile(rf"\b({forms})\b", re.IGNORECASE)
        matches = [record for record in records if len(plain) > 1 and word.search(words_of(record))]
    if not matches:
        conventions = (c["convention"] for r in records for c in r.get("conventions", ()))
        names = {*conventions, *(record["encoding"] for record in records)}
        raise unknown("encoding", name, names, "'pefourier list' shows all.")
    return matches


def words_of(record: Values) -> str:
    """Return the words by which an encoding is found."""
    return " ".join([*(record[key] for key in ("meaning", "family", "domain")), *users_of(record)])


def name_behind(synonym: str) -> str:
    """Return the encoding that a name refers to in a SPEC.

    >>> name_behind("nope"), name_behind("yarn"), name_behind("dft")
    ('none', 'rope', 'dft')
    """
    from pefourier.encodings.registry import canonical_spec, refuse_known  # needs numpy

    refuse_known(synonym)
    return canonical_spec(synonym).partition(":")[0]


def with_conclusion(record: Fields) -> Fields:
    """Add the conclusion to a record, after the fields of every answer."""
    first = {key: record[key] for key in ("encoding", "spec", "params")}
    conclusion = record["meaning"]
    if record["untrained"]:
        conclusion += UNTRAINED
    return first | {"conclusion": conclusion} | record | {"used_by": [*users_of(record)]}


def users_of(record: Values) -> Strings:
    """Return model types whose configs use an encoding."""
    return USED_BY.get(record["encoding"], "").split()


def description(record: Fields) -> str:
    """Describe an encoding: meaning, formula, example, and its parameters with their meaning."""
    parameters = {key: x for key, x in record["params"].items() if key not in SIZES}
    typed = [assignment(key, value) for key, value in parameters.items() if spec_text(value)]
    facts = {
        "formula": record["formula"],
        "source": record["paper"],
        "used by": ", ".join(users_of(record)),
        "vectors of": f"{POINTS[record['domain']]}; frequencies are {record['measure']}",
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


def convention_line(convention: Values) -> str:
    """Describe a published convention: its settings and its source."""
    facts = [
        settings_of(convention),
        *(convention[key] for key in ("source", "note") if key in convention),
    ]
    return paragraph(f"    convention={convention['convention']}: {'. '.join(facts)}.", " " * 6)


def rows(records: Sequence[Fields]) -> list[list[str]]:
    """Return a header and a row for each encoding."""
    table = [["encoding", "family", "domain", "measure", "used by", "source", "parameters"]]
    for record in records:
        words = [record[key] for key in ("encoding", "family", "domain", "measure")]
        defaults = ((key, x) for key, x in record["params"].items() if key not in SIZES)
        parameters = ",".join(assignment(*default) for default in defaults)
        table.append([*words, ", ".join(users_of(record)), record["paper"], parameters])
    return table


def settings_of(convention: Values) -> str:
    """Return the parameters that a convention sets, as typed."""
    return ", ".join(assignment(*item) for item in convention["params"].items())


def assignment(key: str, value: Any) -> str:
    """Return a parameter with its default, if any.

    >>> assignment("rho", 10000.0), assignment("times", None)
    ('rho=10000.0', 'times')
    """
    typed = spec_text(value)
    return f"{key}={typed}" if typed else key


def spec_text(value: Any) -> str:
    """Return a default as typed in a SPEC; empty without a default.

    >>> spec_text([0.7, 0.5]), spec_text(False), spec_text(None)
    ('0.7;0.5', 'false', '')
    """
    if isinstance(value, list):
        return ";".join(map(spec_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)

"""Conventions of published models: what each sets of an encoding's parameters, by name.

They are data, in conventions.toml: one table a convention under its encoding, with the source.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pefourier.errors import unknown
from pefourier.files import read_toml

FILE = Path(__file__).with_suffix(".toml")
FACTS = ("source", "note", "text", "kept")  # keys that are not parameters


@cache  # the file does not change while it is used
def read_conventions() -> Mapping[str, dict[str, dict[str, Any]]]:
    """Conventions of each encoding that has some, lists as tuples.

    >>> read_conventions()["axial-rope"]["rope-vit"]["rho"]
    100.0
    """
    return {
        encoding: {name: {k: as_parameter(v) for k, v in row.items()} for name, row in rows.items()}
        for encoding, rows in read_toml(FILE).items()
    }


def list_conventions(encoding: str) -> list[dict[str, Any]]:
    """The conventions of an encoding for a catalogue: name, parameters set, source and note.

    >>> list_conventions("axial")[1]["params"]
    {'order': 'xy'}
    """
    return [
        {
            "convention": name,
            "params": {key: value for key, value in row.items() if key not in FACTS},
            **{key: row[key] for key in FACTS if key in row},
        }
        for name, row in read_conventions().get(encoding, {}).items()
    ]


def specs_of_convention(name: str) -> list[str]:
    """The SPECs of encodings that know a convention.

    >>> specs_of_convention("flux")
    ['axial-rope:convention=flux']
    """
    return [
        f"{encoding}:convention={name}"
        for encoding, rows in read_conventions().items()
        if name in rows
    ]


def fact_of_convention(encoding: str, name: str, fact: str) -> Any:
    """What is noted of a convention; None where there is nothing, or no convention of that name.

    >>> fact_of_convention("axial-rope", "flux", "text")
    'origin'
    """
    return read_conventions().get(encoding, {}).get(name, {}).get(fact) if name else None


def as_parameter(value: Any) -> Any:
    """A value of the file as a builder takes it."""
    return tuple(map(float, value)) if isinstance(value, list) else value


def with_convention(encoding: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as given, and those of the convention among them where they are not.

    >>> with_convention("axial-rope", {"convention": "rope-vit", "rho": 10.0})["rho"]
    10.0
    """
    name = parameters.get("convention")
    if not name:
        return dict(parameters)
    conventions = read_conventions().get(encoding, {})
    if name not in conventions:
        elsewhere = [owner for owner, rows in read_conventions().items() if name in rows]
        way_out = f"{elsewhere[0]}:convention={name} has it." if elsewhere else ""
        raise unknown(f"convention of {encoding}", name, conventions, way_out)
    row = {key: value for key, value in conventions[name].items() if key not in FACTS}
    return row | dict(parameters)

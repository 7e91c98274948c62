"""The registry of named encodings: registration, parameters and building.

A builder is a function ``(length, d, *, parameters) -> Encoding`` with the decorator ``@encoding``.
Parameters, types, defaults and allowed values are read from its signature.
"""

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.grids import check_sides, count_points
from pefourier.errors import (
    LARGEST,
    WIDEST,
    PefourierError,
    check_above,
    check_count,
    check_magnitude,
    nearest,
    shown,
    unknown,
)
from pefourier.types import Fields, Values, frozen
from pefourier.writing.files import read_toml
from pefourier.writing.text import whole_number

CONVENTIONS = Path(__file__).with_name("conventions.toml")
FACTS = {"source", "kept", "note", "text"}  # of a convention; its other keys are parameters


@cache  # the file does not change during a run
def read_conventions() -> Mapping[str, dict[str, Fields]]:
    """Read the conventions of all encodings, with lists as tuples.

    >>> read_conventions()["axial-rope"]["rope-vit"]["params"]["rho"]
    100.0
    """
    conventions = read_toml(CONVENTIONS)
    for rows in conventions.values():
        for name, row in rows.items():
            parameters = {
                key: tuple(map(float, value)) if isinstance(value, list) else value
                for key, value in row.items()
                if key not in FACTS
            }
            rows[name] = {key: row[key] for key in row if key in FACTS} | {"params": parameters}
    return conventions


def list_conventions(encoding: str) -> list[Fields]:
    """List the conventions of an encoding for a catalogue: name, parameters, source and note.

    >>> list_conventions("axial")[1]["params"]
    {'order': 'xy'}
    """
    return [
        {"convention": name, **row} for name, row in read_conventions().get(encoding, {}).items()
    ]


def specs_of_convention(name: str) -> list[str]:
    """Return the SPECs of encodings that have a convention.

    >>> specs_of_convention("flux")
    ['axial-rope:convention=flux']
    """
    return [
        f"{encoding}:convention={name}"
        for encoding, rows in read_conventions().items()
        if name in rows
    ]


def fact_of_convention(encoding: str, name: str, fact: str) -> Any:
    """Return a fact about a convention, or None if the fact or the convention does not exist.

    >>> fact_of_convention("axial-rope", "flux", "text")
    'origin'
    """
    return read_conventions().get(encoding, {}).get(name, {}).get(fact) if name else None


def with_convention(encoding: str, parameters: Values) -> Fields:
    """Complete parameters with those of their convention; given parameters take precedence.

    >>> with_convention("axial-rope", {"convention": "rope-vit", "rho": 10.0})["rho"]
    10.0
    """
    name = parameters.get("convention")
    if not name:
        return dict(parameters)
    conventions = read_conventions().get(encoding, {})
    if name not in conventions:
        specs = specs_of_convention(name)
        way_out = f"{specs[0]} has it." if specs else ""
        raise unknown(f"convention of {encoding}", name, conventions, way_out)
    return {**conventions[name]["params"], **parameters}


REASONS = Path(__file__).with_name("refused.toml")


def refuse_known(name: str) -> None:
    """Refuse a known but unsupported name, with the reason and an alternative.

    >>> refuse_known("DroPE")
    Traceback (most recent call last):
    ...
    pefourier.errors.PefourierError: 'DroPE' has no vectors of its own: DroPE removes the \
rotation of all layers after training; use 'none' for the result
    """
    plain = "".join(filter(str.isalnum, name.lower()))
    for table, sentence in REFUSALS.items():
        reasons = read_toml(REASONS)[table]
        if reason := reasons.get(plain) or reasons.get(name):
            raise PefourierError(f"{shown(name)} {sentence.format(reasons.get(reason, reason))}")


REFUSALS = {
    "tokens": "depends on the tokens and has no table: {}; pass py:module:function for one input",
    "shared": "is the name of several encodings: {}",
    "without": "has no vectors of its own: {}",
    "trained": "has no formula: {}; pass the folder of a model, or the file of its table",
    "meant": "is no encoding; did you mean {}? 'pefourier list' shows all",
}
SEVERAL = 8  # names that an error lists at most
SYNONYMS = {  # common names, and the encodings they mean
    **{"rotary": "rope", "nope": "none", "one-hot": "onehot", "transformer-xl": "xl"},
    **{name: f"rope:scaling={name}" for name in ("yarn", "ntk", "longrope", "dynamic")},
}
ALIASES = {"base": "rho", "theta": "rho", "dim": "d", "S": "length", "max": "max_distance"}


Build = Callable[..., Encoding]


@frozen
class Builder:
    """A registered encoding: its function and the facts that `pefourier list` shows."""

    name: str
    family: str
    paper: str
    domain: str
    untrained: bool  # whether the table has initial values, from before training
    function: Build

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Parameters other than length and d, in the order of the signature."""
        return {
            key: p
            for key, p in inspect.signature(self.function).parameters.items()
            if key not in ("length", "d")
        }


ABOVE_ZERO = {"scale", "rho", "c", "span"}  # parameters of any encoding
LEAST = {  # the least value of a parameter that is a whole number
    **dict.fromkeys(("seed", "clip", "clamp", "buckets"), 0),
    **dict.fromkeys(("heads", "max_distance", "width", "threshold"), 1),
}
BUILDERS: dict[str, Builder] = {}  # by name, in the order in which they are listed
F = TypeVar("F", bound=Build)


def encoding(
    name: str,
    paper: str,
    *,
    domain: str = "position",
    untrained: bool = False,
) -> Callable[[F], F]:
    """Register a builder under a name; its family is its module."""

    def register(function: F) -> F:
        family = function.__module__.rpartition(".")[2].replace("_", "-")
        BUILDERS[name] = Builder(name, family, paper, domain, untrained, function)
        return function

    return register


def with_parameters(function: Build, parameters: Iterable[inspect.Parameter]) -> None:
    """Replace ``**settings`` in the signature of a builder by parameters."""
    signature = inspect.signature(function)
    named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    function.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*named, *parameters]
    )


def build(
    name: str, *, length: int | None = None, d: int = 256, spec: str = "", **settings: Any
) -> Encoding:
    """Build a registered encoding; `params` of the result contains all values used.

    The default length is the number of points of the grid, or 80 without a grid.

    >>> build("sinusoidal", length=4, d=2).table().round(3)
    array([[ 0.   ,  1.   ],
           [ 0.841,  0.54 ],
           [ 0.909, -0.416],
           [ 0.141, -0.99 ]])
    """
    name, _, implied = canonical_spec(name).partition(":")
    if name not in BUILDERS:
        refuse_known(name)
        raise unknown_encoding(name, "'pefourier list' shows all.")
    settings = {**(parse_parameters(name, implied) if implied else {}), **settings}
    builder = BUILDERS[name]
    defaults = {key: parameter.default for key, parameter in builder.parameters.items()}
    for key in settings.keys() - defaults.keys():
        raise unknown_parameter(name, key)
    parameters = {**defaults, **with_convention(name, settings)}
    if length is None:
        sides, prefix = parameters.get("grid", ()), parameters.get("prefix", 0)
        check_sides(name, sides, prefix, None)
        length = count_points(sides, prefix) or 80
    check_count("length", length, maximum=LARGEST)
    check_count("d", d, maximum=WIDEST)
    for key, value in parameters.items():
        if key in ABOVE_ZERO:
            check_above(key, value)
        elif key in LEAST:
            check_count(key, value, LEAST[key], 2**32 - 1)
    with np.errstate(all="ignore"):  # overflow is refused in `check_codes`
        built = builder.function(length, d, **parameters)
        check_vectors(spec or name, built)
    params = {"length": length, "d": d, **parameters, **built.params}
    learned = built.origin == "weights"  # the parameters come from a file
    return replace(
        built,
        params=params,
        spec=spec or name,
        origin="weights" if learned else "formula",
        untrained=builder.untrained and not learned,
    )


def canonical_spec(spec: str) -> str:
    """Replace a synonym in a SPEC, or a name in capitals, by the encoding it means.

    >>> canonical_spec("YaRN:factor=4,original=64"), canonical_spec("nope"), canonical_spec("dft")
    ('rope:scaling=yarn,factor=4,original=64', 'none', 'dft')
    >>> canonical_spec("ALiBi:causal=true"), canonical_spec("TAPE")
    ('alibi:causal=true', 'TAPE')
    """
    name, colon, parameters = spec.partition(":")
    lower = name.lower()
    if name in BUILDERS or (lower not in SYNONYMS and not is_in_capitals(name)):
        return spec
    target = SYNONYMS.get(lower, lower)
    return f"{target}{',' if colon and ':' in target else colon}{parameters}"


def is_in_capitals(name: str) -> bool:
    """Return whether a name is that of an encoding but for capitals, and of no file and method."""
    lower = name.lower()
    is_free = name != lower and not os.path.lexists(name)
    return is_free and name not in read_toml(REASONS)["shared"] and lower in BUILDERS


def unknown_encoding(name: str, way_out: str, names: Iterable[str] = ()) -> PefourierError:
    """Return the error for an unknown name.

    >>> import pefourier.encodings
    >>> print(unknown_encoding("non", "'list' shows all."))
    unknown encoding 'non'. Did you mean 'none'? 'list' shows all.
    """
    return unknown("encoding", name, {*BUILDERS, *SYNONYMS, *names}, way_out)


def unknown_parameter(name: str, key: str) -> PefourierError:
    """Return the error for an unknown parameter, with the nearest name or all names.

    >>> import pefourier.encodings
    >>> print(unknown_parameter("rope", "lay"))
    unknown parameter of rope 'lay'. Did you mean 'layout'? 'pefourier list rope' shows all.
    """
    parameters = {"length", "d", *BUILDERS[name].parameters}
    shortened = len(parameters) > SEVERAL and nearest(key, parameters)
    way_out = f"'pefourier list {name}' shows all." if shortened else ""
    if key == "heads" and BUILDERS[name].domain == "lag":
        way_out = "Set d, which is the number of heads of a bias."
    return unknown(f"parameter of {name}", key, parameters, way_out)


def check_vectors(name: str, enc: Encoding) -> None:
    """Refuse parameters that overflow, by a test of the frequencies and the outermost points.

    Vectors that need a table are not tested if the table is too large.
    """
    ends, measure = enc.domain.x[[0, -1]], enc.measure
    if not measure.squared_length or measure.frequencies.ndim > 1:
        largest = float(np.abs(enc.vectors(ends)).max()) if enc.fits or measure else 1.0
    elif measure.period is None and not np.isfinite(measure.phases(ends)).all():
        largest = np.nan
    else:
        largest = float(measure.amplitudes.max())
    check_magnitude(name, largest)
    if not np.isfinite(measure.frequencies).all():
        raise PefourierError(f"{shown(name)} has an infinite frequency; use smaller numbers")


def parse_parameters(name: str, text: str) -> Fields:
    """Parse ``key=value,key=value`` into the types of the builder's signature.

    >>> import pefourier.encodings
    >>> parse_parameters("sinusoidal", "rho=500,layout=halves")
    {'rho': 500.0, 'layout': 'halves'}
    """
    parameters = BUILDERS[name].parameters
    kinds = {"length": int, "d": int} | {key: p.annotation for key, p in parameters.items()}
    values: Fields = {}
    for item in filter(None, text.split(",")):
        typed, equals, value = item.partition("=")
        key = typed if typed in kinds else ALIASES.get(typed, typed)
        if not equals:
            raise PefourierError(f"parameters of {name} must be key=value; got {shown(item)}")
        if key not in kinds:
            raise unknown_parameter(name, typed)
        if key in values:
            raise PefourierError(f"{name} has {key} twice; remove one")
        values[key] = convert(f"{name}:{key}", value, kinds[key])
    return values


def convert(key: str, text: str, kind: Any) -> Any:
    """Convert a parameter's text to its annotated type; Literal choices are checked."""
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise unknown(f"{key} value", text, get_args(kind))
        return text
    if get_origin(kind) is tuple:  # tuple[float, ...]: values between semicolons, or 14x14
        between = "[;x×]" if get_args(kind)[0] is int else ";"
        return tuple(
            convert(key, part, get_args(kind)[0]) for part in re.split(between, text) if part
        )
    if isinstance(kind, UnionType):  # np.ndarray | None: FILE[#ARRAY]
        from pefourier.encodings.sources.tables import read_numbers

        return read_numbers(text)
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise PefourierError(f"{key} must be true or false; got {shown(text)}")
        return text.lower() == "true"
    if kind is str:
        return text
    if kind is int:
        integer = whole_number(text)
        if integer is None or abs(integer) > 2**53:
            raise PefourierError(f"{key} must be a whole number up to 2^53; got {shown(text)}")
        return integer
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise PefourierError(f"{key} must be a finite number; got {shown(text)}")
    return number


SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
ENTRY = re.compile(r"^([\w, ]+) : [^\n]+\n((?: +[^\n]*\n?)+)", re.MULTILINE)  # of parameters


def describe(function: Callable[..., Any]) -> Fields:
    """Split a docstring into its parts, in plain text.

    >>> def wave(d, *, rho=10.0):
    ...     '''A wave.
    ...
    ...     sin(ρ^(−l) s).
    ...
    ...     Parameters
    ...     ----------
    ...     rho : float
    ...         Base.
    ...     '''
    >>> describe(wave)
    {'meaning': 'A wave.', 'formula': 'sin(ρ^(−l) s).', 'meanings': {'rho': 'Base.'}, 'example': ''}
    """
    prose, *sections = SECTION.split(inspect.getdoc(function) or "")
    parts = dict(zip(sections[::2], sections[1::2], strict=True))
    prose, arrow, doctest = prose.partition(">>>")
    meaning, _, formula = prose.strip().partition("\n\n")
    entries = ENTRY.findall(parts.get("Parameters", ""))
    return {
        "meaning": as_plain_text(meaning),
        "formula": as_plain_text(formula),
        "meanings": {
            name.strip(): as_plain_text(text)
            for names, text in entries
            for name in names.split(",")
        },
        "example": (arrow + doctest or parts.get("Examples", "")).strip(),
    }


def as_plain_text(text: str) -> str:
    """Return a text without markup, on one line.

    >>> as_plain_text("half ``d`` of √(2/d) cos ω_k s")
    'half d of √(2/d) cos ω_k s'
    """
    return " ".join(text.replace("`", "").split())

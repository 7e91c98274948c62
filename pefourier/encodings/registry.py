"""Encodings that have a name: how they are registered, called by their parameters, and built.

A builder is a function ``(length, d, *, own parameters) -> Encoding`` under ``@encoding``; its
signature is its documentation: parameters, types, defaults and allowed values are read from it.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

import numpy as np

from pefourier.encodings import checks
from pefourier.encodings.encoding import DeclaredEncoding, Encoding, ShiftInvariantEncoding
from pefourier.encodings.grids import check_sides, count_points
from pefourier.errors import PefourierError, nearest, shown, unknown
from pefourier.writing.files import read_toml
from pefourier.writing.text import whole_number

CONVENTIONS = Path(__file__).with_name("conventions.toml")
FACTS = ("source", "note", "text", "kept")  # keys that are not parameters


@cache  # the file does not change while it is used
def read_conventions() -> Mapping[str, dict[str, dict[str, Any]]]:
    """Conventions of each encoding that has some, lists as tuples.

    >>> read_conventions()["axial-rope"]["rope-vit"]["rho"]
    100.0
    """
    return {
        encoding: {
            name: {k: tuple(map(float, v)) if isinstance(v, list) else v for k, v in row.items()}
            for name, row in rows.items()
        }
        for encoding, rows in read_toml(CONVENTIONS).items()
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
        way_out = "".join(f"{spec} has it." for spec in specs_of_convention(name)[:1])
        raise unknown(f"convention of {encoding}", name, conventions, way_out)
    row = {key: value for key, value in conventions[name].items() if key not in FACTS}
    return row | dict(parameters)


REASONS = Path(__file__).with_name("refused.toml")


def refuse_known(name: str) -> None:
    """Refuse a name that is known and no encoding here, with the reason and what may be meant.

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
            raise PefourierError(f"{shown(name)} {sentence.format(reason)}")


REFUSALS = {
    "tokens": "depends on the tokens and has no table: {}; pass py:module:function for one input",
    "shared": "is the name of several encodings: {}",
    "without": "has no vectors of its own: {}",
    "trained": "has no formula: {}; pass the folder of a model, or the file of its table",
}
SEVERAL = 8  # names that an error may list beside the one that is meant
SYNONYMS = {  # names people type, and what they stand for
    **{"rotary": "rope", "nope": "none", "one-hot": "onehot"},
    **{name: f"rope:scaling={name}" for name in ("yarn", "ntk", "longrope", "dynamic")},
}
ALIASES = {"base": "rho", "theta": "rho", "dim": "d", "S": "length"}


@dataclass(frozen=True)
class Builder:
    """A registered encoding: its function and the facts that `pefourier list` shows."""

    name: str
    family: str
    paper: str
    domain: str
    declared: bool  # whether it declares its spectral measure
    untrained: bool  # whether its table is only where training starts
    function: Callable[..., Encoding]

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Own parameters beyond length and d, in the order of the signature."""
        arguments = inspect.signature(self.function).parameters
        return {key: p for key, p in arguments.items() if key not in ("length", "d")}


BUILDERS: dict[str, Builder] = {}
F = TypeVar("F", bound=Callable[..., Encoding])


def encoding(
    name: str,
    paper: str,
    *,
    domain: str = "position",
    declared: bool = False,
    untrained: bool = False,
) -> Callable[[F], F]:
    """Register a builder under a name; its family is the module it stands in."""

    def register(function: F) -> F:
        family = function.__module__.rpartition(".")[2].replace("_", "-")
        BUILDERS[name] = Builder(name, family, paper, domain, declared, untrained, function)
        return function

    return register


def build(
    name: str, *, length: int | None = None, d: int = 256, spec: str = "", **settings: Any
) -> Encoding:
    """Build a registered encoding; `params` of the result holds every value used.

    The length is by default that of the grid given, else 80.

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
    checks.check_count("length", length, maximum=checks.LARGEST)
    checks.check_count("d", d, maximum=checks.WIDEST)
    if "seed" in parameters:
        checks.check_count("seed", parameters["seed"], minimum=0, maximum=2**32 - 1)
    with np.errstate(all="ignore"):  # what overflows is refused by name
        built = builder.function(length, d, **parameters)
        check_codes(spec or name, built)
    params = {"length": length, "d": d, **parameters, **built.params}
    learned = built.origin == "weights"  # its parameters are in a file
    return replace(
        built,
        params=params,
        spec=spec or name,
        origin="weights" if learned else "formula",
        untrained=builder.untrained and not learned,
    )


def canonical_spec(spec: str) -> str:
    """The SPEC that a synonym stands for; of all else the SPEC itself.

    >>> canonical_spec("YaRN:factor=4,original=64"), canonical_spec("nope"), canonical_spec("dft")
    ('rope:scaling=yarn,factor=4,original=64', 'none', 'dft')
    """
    name, colon, parameters = spec.partition(":")
    target = SYNONYMS.get(name.lower())
    if target is None or name in BUILDERS:
        return spec
    return f"{target}{',' if colon and ':' in target else colon}{parameters}"


def unknown_encoding(name: str, way_out: str, names: Iterable[str] = ()) -> PefourierError:
    """The error for an unknown name.

    >>> import pefourier.encodings
    >>> print(unknown_encoding("non", "'list' shows all."))
    unknown encoding 'non'. Did you mean 'none'? 'list' shows all.
    """
    return unknown("encoding", name, {*BUILDERS, *SYNONYMS, *names}, way_out)


def unknown_parameter(name: str, key: str) -> PefourierError:
    """The error for a parameter that a builder lacks: the nearest, or else all of them.

    >>> import pefourier.encodings
    >>> print(unknown_parameter("rope", "lay"))
    unknown parameter of rope 'lay'. Did you mean 'layout'? 'pefourier list rope' shows all.
    """
    parameters = {"length", "d", *BUILDERS[name].parameters}
    shortened = len(parameters) > SEVERAL and nearest(key, parameters)
    way_out = f"'pefourier list {name}' shows all." if shortened else ""
    return unknown(f"parameter of {name}", key, parameters, way_out)


def check_codes(name: str, enc: Encoding) -> None:
    """Refuse parameters whose codes overflow: seen at the frequencies and the outermost points.

    Where codes must be tabulated and cannot be, they are not made to be looked at.
    """
    if enc.fits or isinstance(enc, DeclaredEncoding):
        checks.check_magnitude(name, largest_at_ends(enc))
    if isinstance(enc, DeclaredEncoding) and not np.isfinite(enc.measure.frequencies).all():
        raise PefourierError(f"{shown(name)} has an infinite frequency; choose milder numbers")


def largest_at_ends(enc: Encoding) -> float:
    """The size of the largest number in the codes of the outermost points.

    Where all is declared on one axis it is that of the widest wave, if phases there are finite.
    """
    ends = enc.domain.x[[0, -1]]
    if not isinstance(enc, ShiftInvariantEncoding) or enc.measure.frequencies.ndim > 1:
        return float(np.abs(enc.codes(ends)).max())
    if enc.measure.period is None and not np.isfinite(enc.measure.phases(ends)).all():
        return np.nan
    return float(enc.measure.amplitudes.max())


def parse_parameters(name: str, text: str) -> dict[str, Any]:
    """The parameters of ``key=value,key=value`` in the types that the builder's signature says.

    >>> import pefourier.encodings
    >>> parse_parameters("sinusoidal", "rho=500,layout=halves")
    {'rho': 500.0, 'layout': 'halves'}
    """
    parameters = BUILDERS[name].parameters
    kinds = {"length": int, "d": int} | {key: p.annotation for key, p in parameters.items()}
    values: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        typed, equals, value = item.partition("=")
        key = typed if typed in kinds else ALIASES.get(typed, typed)
        if not equals:
            raise PefourierError(f"{shown(item)} of {name} is not of the form key=value, as d=8")
        if key not in kinds:
            raise unknown_parameter(name, typed)
        if key in values:
            raise PefourierError(f"{name} is given {key} twice; keep one")
        values[key] = convert(f"{name}:{key}", value, kinds[key])
    return values


def convert(key: str, text: str, kind: Any) -> Any:
    """A parameter's text as the type its annotation names; Literal choices are checked."""
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise unknown(f"{key} value", text, get_args(kind))
        return text
    if get_origin(kind) is tuple:  # tuple[float, ...]: values between semicolons, or 14x14
        between = "[;x×]" if get_args(kind)[0] is int else ";"
        parts = re.split(between, text)
        return tuple(convert(key, part, get_args(kind)[0]) for part in parts if part)
    if isinstance(kind, UnionType):  # np.ndarray | None: FILE[#ARRAY]
        from pefourier.encodings.sources.tables import read_numbers

        return read_numbers(text)
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise PefourierError(f"{key} is true or false; got {shown(text)}")
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


def describe(function: Callable[..., Any]) -> dict[str, Any]:
    """The parts of a docstring, in plain text.

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
    return {
        "meaning": as_plain_text(meaning),
        "formula": as_plain_text(formula),
        "meanings": read_meanings(parts.get("Parameters", "")),
        "example": (arrow + doctest or parts.get("Examples", "")).strip(),
    }


def read_meanings(section: str) -> dict[str, str]:
    """Names and meanings of a section of parameters; names before one colon share a meaning."""
    entries = re.findall(r"^([\w, ]+) : [^\n]+\n((?: +[^\n]*\n?)+)", section, re.MULTILINE)
    return {
        name.strip(): as_plain_text(meaning)
        for names, meaning in entries
        for name in names.split(",")
    }


def as_plain_text(text: str) -> str:
    """A text without markup, in one line.

    >>> as_plain_text("half ``d`` of √(2/d) cos ω_k s")
    'half d of √(2/d) cos ω_k s'
    """
    return " ".join(text.replace("`", "").split())

"""What does a config.json say? Values are checked where they are read; a config is data.

Conventions
-----------
An error names the key, the file, the rule and the value. A key that is null counts as not set.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from pefourier.encodings.encoding import Encoding, Finding
from pefourier.encodings.registry import build
from pefourier.errors import PefourierError, shown
from pefourier.files import missing, os_errors, status_of

LARGEST_CONFIG = 2**26  # bytes
NESTED = ("thinker_config", "text_config", "llm_config", "language_config", "decoder")
WIDTH = ("d_model", "hidden_size", "n_embd", "emb_dim", "dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
LONGEST = (
    "max_position_embeddings",
    "n_positions",
    "max_source_positions",
    "max_target_positions",
    "max_seq_len",
    "seq_length",
    "context_length",
)


@dataclass(frozen=True)
class Section:
    """A JSON object of a config; its values are checked where they are read."""

    label: str  # what errors call it
    values: Mapping[str, Any]

    def first(self, *keys: str) -> tuple[str, Any]:
        """The first of some keys that is set, and its value; None where none is."""
        found = (key for key in keys if self.values.get(key) is not None)
        key = next(found, keys[0])
        return key, self.values.get(key)

    def number(self, *keys: str) -> float | None:
        """A finite number."""
        key, value = self.first(*keys)
        if value is None:
            return None
        if type(value) not in (int, float) or not abs(value) < 1e300:
            raise self.wrong(key, value, "a finite number")
        return float(value)

    def count(self, *keys: str, least: int = 1) -> int | None:
        """A whole number from `least` on."""
        key, value = self.first(*keys)
        if value is None:
            return None
        if type(value) not in (int, float) or not least <= value < 2**53 or value != int(value):
            raise self.wrong(key, value, f"a whole number from {least} on")
        return int(value)

    def parameter(self, key: str, kind: Any) -> Any:
        """A value of the kind that a parameter of `rope` is annotated with."""
        value = self.values.get(key)
        if value is None or kind is int:
            return self.count(key)
        if kind is bool:
            if type(value) is not bool:
                raise self.wrong(key, value, "true or false")
            return value
        if kind == tuple[float, ...]:
            if not isinstance(value, list):
                raise self.wrong(key, value, "a list of numbers")
            return tuple(Section(self.label, {key: item}).number(key) for item in value)
        return self.number(key)

    def section(self, key: str) -> "Section":
        """The object under a key; an empty one where there is none."""
        value = self.values.get(key)
        if not isinstance(value, dict | None):
            raise self.wrong(key, value, "an object {…}")
        return Section(f"{shown(key)[1:-1]} of {self.label}", value or {})

    def wrong(self, key: str, value: Any, rule: str) -> PefourierError:
        """The error for a value that breaks a rule."""
        return PefourierError(f"{key} of {self.label} must be {rule}; got {shown(value)}")


@dataclass(frozen=True)
class ModelConfig:
    """A model's config, the part of it that is meant, and the sizes that were given."""

    file: str
    part: str  # after the #
    config: Section
    kind: str  # model_type
    length: int | None
    d: int | None

    def dimension(self, value: int | None, keys: str) -> int:
        """The dimension a config sets, or the one given where it sets none."""
        if value is None and self.d is None:
            raise PefourierError(f"{shown(self.file)} sets no {keys}; give the dimension by --d")
        if self.d is not None and value not in (None, self.d):
            raise PefourierError(
                f"{shown(self.file)} sets a dimension of {value} ({keys}), --d {self.d} another; "
                "leave out --d"
            )
        return self.d if value is None else value

    def build(self, name: str, d: int, *found: Finding, **own: Any) -> Encoding:
        """A registered encoding, by default of as many positions as the config allows."""
        length = self.config.count(*LONGEST) or 80 if self.length is None else self.length
        try:
            enc = build(name, length=length, d=d, **own)
        except PefourierError as error:
            raise PefourierError(f"{shown(self.file)}: {error}") from error
        noted = {**enc.params, "path": self.file, "model_type": self.kind}
        return replace(enc, params=noted, findings=(*found, *enc.findings))


def read_object(file: str) -> dict[str, Any]:
    """The JSON object in a file."""
    status = status_of(file)
    if status is None:
        raise missing(file)
    if status.st_size > LARGEST_CONFIG:
        raise PefourierError(f"{shown(file)} has {status.st_size} bytes; a config has under 2^26")
    with os_errors("read", file), open(file, "rb") as stream:
        return parse_object(stream.read(LARGEST_CONFIG), shown(file))


def parse_object(data: bytes, label: str) -> dict[str, Any]:
    """A JSON object without the NaN and Infinity that Python's reader would let pass."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        value = json.loads(data, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, endless digits; too deep
        reason = shown(str(error).partition("\n")[0], limit=200)[1:-1]
        raise PefourierError(f"{label} is not readable JSON: {reason}; write it again") from error
    if not isinstance(value, dict):
        raise PefourierError(f"{label} is not a model config, which is a JSON object {{…}}")
    return value


def first_names(names: Iterable[str]) -> str:
    """The first of some names, safe on a terminal."""
    some = [shown(name)[1:-1] for name in islice(names, 9)]
    return ", ".join(some if len(some) < 9 else [*some[:8], "…"])


def text_model(config: Section) -> Section:
    """The config of the text model where the model has several."""
    while inner := [key for key in NESTED if isinstance(config.values.get(key), dict)]:
        config = config.section(inner[0])
    return config

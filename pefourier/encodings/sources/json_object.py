"""Read a JSON object from a file, such as a model's config, and check its values on access.

An error names the key, the file, the rule and the value. A key that is null counts as not set.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pefourier.errors import PefourierError, UnknownPositions, is_count, is_number, shorten, shown
from pefourier.types import Fields, Values, frozen
from pefourier.writing.files import missing, os_errors, status_of

LARGEST_CONFIG = 2**26  # bytes
MOST_LAYERS = 2**14
SINGLE = ("num_single_layers",)  # layers of a second kind after LAYERS (FLUX, HunyuanVideo)
LAYERS = tuple("num_hidden_layers n_layer n_layers num_layers encoder_layers depth".split())
HEADS = tuple("num_attention_heads n_head n_heads num_heads encoder_attention_heads".split())
LARGEST = dict.fromkeys((*LAYERS, *SINGLE, *HEADS), MOST_LAYERS)  # others: 2^53


class TrackedKeys(dict[str, Any]):
    """A JSON object that records which of its keys are read.

    >>> keys = TrackedKeys({"rope_theta": 1e4, "rope_interval": 4})
    >>> keys.get("rope_theta"), keys.unread
    (10000.0, {'rope_interval'})
    """

    def __init__(self, values: Values) -> None:
        super().__init__(values)
        self.unread = set(self)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, and record that it was read."""
        self.unread.discard(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.unread.discard(key)
        return super().__getitem__(key)


@frozen
class Section:
    """A JSON object of a config that checks values on access."""

    label: str  # name in errors
    values: Values
    key: str = ""  # key of this object in the object around it

    @property
    def untracked(self) -> Self:
        """Return a copy that does not record which keys are read."""
        return replace(self, values=dict(self.values))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key."""
        return self.values.get(key, default)

    def first(self, *keys: str) -> tuple[str, Any]:
        """Return the first of some keys that is set, and its value; None if no key is set."""
        key = next((key for key in keys if self.get(key) is not None), "".join(keys[:1]))
        return key, self.get(key)

    def number(self, *keys: str) -> float | None:
        """Return the finite number under the first key that is set."""
        key, value = self.first(*keys)
        if value is not None and not is_number(value):
            raise self.wrong(key, value, "a finite number")
        return value if value is None else float(value)

    def count(self, *keys: str, minimum: int = 1) -> int | None:
        """Return the whole number, at least `minimum`, under the first key that is set."""
        key, value = self.first(*keys)
        if value is None:
            return None
        maximum = LARGEST.get(key, 2**53 - 1)
        if not is_count(value, minimum, maximum):
            up = f"to {maximum}" if key in LARGEST else "on"
            raise self.wrong(key, value, f"a whole number from {minimum} {up}")
        return int(value)

    def parameter(self, key: str, kind: Any) -> Any:
        """Return a value, checked against the annotation of a parameter of `rope`."""
        value = self.get(key)
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
        """Return the object under a key; an empty object if the key is not set."""
        value = self.get(key)
        if not isinstance(value, dict | None):
            raise self.wrong(key, value, "an object {…}")
        return Section(shorten(f"{shown(key)[1:-1]} of {self.label}"), value or {}, key)

    def spelled(self, key: str) -> str:
        """Return the name of a key in the file."""
        return key

    def wrong(self, key: str, value: Any, rule: str) -> PefourierError:
        """Return the error for a value that breaks a rule."""
        where = f"{self.spelled(key)} of {self.label}"
        return PefourierError(f"{where} must be {rule}; got {shown(value)}")


def read_object(file: str) -> Fields:
    """Read the JSON object in a file; refuse repeated keys.

    NaN and Infinity, which transformers writes into some configs, are accepted here and refused
    when their key is read.
    """
    status = status_of(file)
    if status is None:
        raise missing(file)
    if status.st_size > LARGEST_CONFIG:
        raise PefourierError(f"{shown(file)} has {status.st_size} bytes; the limit is 2^26")
    with os_errors("read", file), Path(file).open("rb") as stream:
        data = stream.read(LARGEST_CONFIG)
    try:
        value = json.loads(data, object_pairs_hook=single_pairs)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8; too deep
        reason = shown(str(error).partition("\n")[0], limit=200)[1:-1]
        fault = f"{shown(file)} is not readable JSON"
        raise PefourierError(f"{fault}: {reason}; write it again") from error
    if not isinstance(value, dict):
        raise UnknownPositions(f"{shown(file)} is not a model config, which is a JSON object {{…}}")
    return value


def single_pairs(pairs: list[tuple[str, Any]]) -> Fields:
    """Return the object of some keys and values; refuse repeated keys."""
    counts = Counter(key for key, _ in pairs)
    if len(counts) < len(pairs):
        raise ValueError(f"key {shown(counts.most_common(1)[0][0])} is repeated")
    return dict(pairs)

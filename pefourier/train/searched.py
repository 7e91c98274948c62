"""What --search takes: settings and their values, read without torch."""

from collections.abc import Sequence
from typing import Any, get_args

from pefourier.encodings.registry import convert
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.options import Pool

KINDS = {"rate": float, "code_rate": float, "dropout": float, "weight_decay": float}
KINDS |= dict.fromkeys(("ffn", "layers", "d", "heads", "tokens"), int)
SEARCHED = (*KINDS, "pool")


def read_search(texts: Sequence[str]) -> dict[str, list[Any]]:
    """The values of each setting, in the order given.

    >>> read_search(["rate=3e-4,1e-3 dropout=0,.2", "pool=mean,mean+max"])["dropout"]
    [0.0, 0.2]
    """
    found: dict[str, list[Any]] = {}
    for item in (item for text in texts for item in text.split()):
        name, equals, text = item.partition("=")
        key = name.replace("-", "_")
        if key not in SEARCHED:
            known = [one.replace("_", "-") for one in SEARCHED]
            raise unknown("setting of --search", name, known)
        if not equals or not all(text.split(",")):
            raise PefourierError(f"--search {shown(item)} lacks a value; give {name}=A,B")
        if key in found:
            raise PefourierError(f"--search: {name} is given twice; name it once")
        found[key] = [read_value(key, one) for one in text.split(",")]
        if len(set(found[key])) < len(found[key]):
            raise PefourierError(f"--search {shown(item)} has a value twice; name it once")
    return found


def read_value(key: str, text: str) -> Any:
    """A value of a setting."""
    if key == "pool":
        if text not in get_args(Pool):
            allowed = ", ".join(get_args(Pool))
            raise PefourierError(f"--search: pool must be one of {allowed}; got {shown(text)}")
        return text
    if key == "tokens" and text.isdecimal() and int(text) < 2:
        raise PefourierError(f"--search: tokens must be 2 or more; got {text}")
    return convert(f"--search {key.replace('_', '-')}", text, KINDS[key])

"""Encodings that are known by name and have no table of codes, and names that papers share.

Reasons are data, in refused.toml, also those of model types whose configs are not answered.
"""

from pathlib import Path

from pefourier.errors import PefourierError, shown
from pefourier.files import read_toml

REASONS = Path(__file__).with_suffix(".toml")


def refuse_known(name: str) -> None:
    """Refuse a name that is known and no encoding here, with the reason and what may be meant.

    >>> refuse_known("DroPE")
    Traceback (most recent call last):
    ...
    pefourier.errors.PefourierError: 'DroPE' has no codes of its own: DroPE removes the rotation \
of all layers after training: name none for what is left
    """
    cases, plain = read_toml(REASONS), "".join(filter(str.isalnum, name.lower()))
    if plain in cases["tokens"]:
        raise PefourierError(
            f"{shown(name)} depends on tokens and has no table of codes: {cases['tokens'][plain]}; "
            "give code that makes it for one input, py:module:function"
        )
    if shared := cases["shared"].get(name) or cases["shared"].get(plain):
        raise PefourierError(f"{shown(name)} is the name of several encodings, which? {shared}")
    if plain in cases["without"]:
        raise PefourierError(f"{shown(name)} has no codes of its own: {cases['without'][plain]}")

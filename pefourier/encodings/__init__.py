"""Encodings: rules from points to codes on a domain, and where they come from.

`load` turns a SPEC into an `Encoding`, `build` a registered name.
"""

from pefourier.encodings.loader import load
from pefourier.encodings.registry import build

__all__ = ["build", "load"]

"""Positional encodings: functions from the points of a domain to vectors, and their sources.

`load` reads the encoding that a SPEC names; `build` builds a registered encoding.
"""

from importlib import import_module

from pefourier.encodings.loader import load
from pefourier.encodings.registry import build

__all__ = ["build", "load"]

for family in ("absolute", "axial", "fourier", "graph", "relative", "rotary"):  # as listed
    import_module(f"pefourier.encodings.families.{family}")

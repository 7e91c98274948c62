"""Fourier analysis of positional encodings.

Rooms are named after questions: `spectrum.density`, `reconstruct.position_functions`,
`faithful.assess` take an encoding (`encodings.load`) or an array (n, d); `nn.PositionalEncoding` is
a torch module. Rooms are imported when first used, so that ``import pefourier`` costs nothing.
"""

from importlib import import_module

__version__ = "0.1.0"
ROOMS = ("compare", "encodings", "faithful", "nn", "plot", "reconstruct", "relations", "spectrum")


def __getattr__(name: str):
    if name in ROOMS:
        return import_module(f"pefourier.{name}")
    raise AttributeError(f"module 'pefourier' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *ROOMS]

"""Fourier analysis of positional encodings.

Files are named after questions: `spectrum.density`, `reconstruct.position_functions`,
`faithful.assess`, `compare.compare` take an encoding (`encodings.load`) or an array (n, d);
`nn.PositionalEncoding` is a torch module. Folders hold how it is done. A room is imported when it
is first used, so that ``import pefourier`` costs nothing.

Glossary

encoding               a table of codes on a domain, and the rule that fills it where there is one
table, code            array (n, d); one of its rows, the vector that stands for one point
dimension              a column of the table; d is how many there are
position, domain       index 0 … n - 1; where points live: positions, lags, times, nodes of a tree
lag                    key minus query, a relative position
angular frequency      omega, radians per position, 0 … pi
base                   rho, 10 000: the ratio that spreads geometric frequencies
band                   one declared frequency, with the columns that have it
DC, Nyquist            the constant and the alternating component, one basis column each
energy, density        sum of squares; its share at each frequency of the lattice, summing to 1
spectral measure       frequencies with weights, declared by an encoding or estimated from its table
position function      1 at one position and 0 elsewhere: a delta
reconstruction, width  the delta rebuilt from a density; its full width at half height
kernel                 inner products of codes
stationary             the kernel depends on the lag alone
faithful               codes tell points apart (injective) and can be turned back (invertible)
gap                    smallest distance between two codes, over the rms length of a code
rank, condition        how many singular values count as not zero; the largest over the smallest
act                    how attention receives codes: add, rotate, bias, key
untrained              a table that is only where training starts
arm                    an encoding as it is compared in training, maybe scaled to an rms size
run, stack             one training of an arm, with a seed and a fold; runs trained at once
"""

from importlib import import_module

__version__ = "0.1.0"


def __getattr__(name: str):
    room = f"{__name__}.{name}"
    if not name.startswith("_"):
        try:
            return import_module(room)
        except ModuleNotFoundError as error:
            if error.name != room:
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The questions, which stand in files, and `encodings`; folders are how they are answered."""
    from pkgutil import iter_modules

    files = {room.name for room in iter_modules(__path__) if not room.ispkg}
    return sorted({"__version__", "encodings", *files} - {"__main__", "errors", "files"})

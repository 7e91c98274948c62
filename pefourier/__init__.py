"""Fourier analysis of positional encodings.

Questions are functions: ``pefourier.spectrum("rope:rho=5e5", d=128)`` takes a SPEC, an array
(n, d), a tensor, a torch module or a function, and gives a frozen dataclass with a `conclusion`,
`to_dict()` and `plot()`; so do `reconstruct`, `check`, `compare`, `relations`, `context`, `design`.
`encode` gives codes, `encodings.load` an encoding; `nn.PositionalEncoding`, `nn.Rotary` and
`nn.Bias` are torch modules.

A room is imported when it is first used, so that ``import pefourier`` costs nothing.

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

from pefourier.version import __version__ as __version__

TYPE_CHECKING = False  # which typing has, too, and takes time to import

if TYPE_CHECKING:
    from pefourier import encodings as encodings
    from pefourier import nn as nn
    from pefourier.api import check as check
    from pefourier.api import compare as compare
    from pefourier.api import context as context
    from pefourier.api import design as design
    from pefourier.api import encode as encode
    from pefourier.api import positions as positions
    from pefourier.api import reconstruct as reconstruct
    from pefourier.api import relations as relations
    from pefourier.api import resize as resize
    from pefourier.api import spectrum as spectrum
    from pefourier.api import usage as usage
    from pefourier.errors import PefourierError as PefourierError
    from pefourier.questions.extend import extend as extend

ROOMS = {"PefourierError": "errors", "extend": "questions.extend"}  # where a name is defined
ROOMS |= dict.fromkeys(("check", "compare", "context", "design", "encode", "positions"), "api")
ROOMS |= dict.fromkeys(("reconstruct", "relations", "resize", "spectrum", "usage"), "api")


def __dir__() -> list[str]:
    """The questions, what they are asked about, and the one error; rooms say how it is done."""
    return sorted({*ROOMS, "__version__", "encodings", "nn"})


if not TYPE_CHECKING:  # which would take every misspelt name for one that is there

    def __getattr__(name: str) -> object:
        if name in ROOMS:
            globals()[name] = getattr(import_module(f"{__name__}.{ROOMS[name]}"), name)
            return globals()[name]
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None

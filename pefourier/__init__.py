"""Fourier analysis of positional encodings.

Questions are functions: ``pefourier.spectrum("rope:rho=5e5", d=128)`` accepts a SPEC, an array
(n, d), a tensor, a torch module or a function, and returns a frozen dataclass with a `conclusion`,
`to_dict()` and `plot()`. `reconstruct`, `check`, `compare`, `relations`, `context` and `design`
work the same way. Questions about one encoding answer a list of them with a list. `encode`
returns vectors, `encodings.load` an encoding; `nn.PositionalEncoding`, `nn.Rotary` and `nn.Bias`
are torch modules.

Subpackages are imported on first use, which keeps ``import pefourier`` fast.

Glossary

encoding               a table of vectors on a domain, and the formula that fills it, if any
table, vector          array (n, d); one of its rows, which represents one point
dimension              a column of the table; d is the number of columns
position, domain       index 0 … n - 1; the set of points: positions, lags, times, nodes
lag                    key minus query, a relative position
angular frequency      omega, radians per position, 0 … pi
base                   rho (default 10,000) in the geometric frequencies rho^(-2i/d)
band                   one declared frequency and its columns
DC, Nyquist            the constant and the alternating component, one basis column each
energy, density        sum of squares; its share at each frequency of the lattice, summing to 1
spectral measure       frequencies with weights, declared by an encoding or estimated from its table
position function      1 at one position and 0 elsewhere: a delta
reconstruction, width  the delta rebuilt from a density; its full width at half height
kernel                 inner products of vectors
stationary             the kernel depends on the lag alone
faithful               vectors distinguish points (injective) and can be inverted (invertible)
gap                    smallest distance between two vectors, divided by the RMS norm
rank, condition        number of nonzero singular values; the largest divided by the smallest
act                    how attention uses the encoding: add, rotate, bias, key, key-query
untrained              a table with initial values, before training
arm                    an encoding in a training comparison, possibly scaled to an RMS size
run, stack             one training of an arm, with a seed and a fold; runs trained together
"""

from importlib import import_module

from pefourier.version import __version__ as __version__

TYPE_CHECKING = False  # also in typing, but importing typing takes time

if TYPE_CHECKING:
    from pefourier import encodings as encodings
    from pefourier import nn as nn
    from pefourier.api import compare, context, design, positions, relations, usage
    from pefourier.errors import PefourierError
    from pefourier.questions.check_faithful import check_faithful as check
    from pefourier.questions.encode import encode
    from pefourier.questions.extend import extend
    from pefourier.questions.reconstruct import position_functions as reconstruct
    from pefourier.questions.resize import resize
    from pefourier.questions.spectrum import spectrum
    from pefourier.recording.record import record

__all__ = ["PefourierError", "check", "compare", "context", "design", "encode", "extend"]
__all__ += ["positions", "reconstruct", "record", "relations", "resize", "spectrum", "usage"]
HOMES = {  # of names outside `api`
    "PefourierError": "errors.PefourierError",
    "check": "questions.check_faithful.check_faithful",
    "encode": "questions.encode.encode",
    "extend": "questions.extend.extend",
    "reconstruct": "questions.reconstruct.position_functions",
    "record": "recording.record.record",
    "resize": "questions.resize.resize",
    "spectrum": "questions.spectrum.spectrum",
}


OF_EACH = ("check", "encode", "reconstruct", "relations", "spectrum")  # also of a list


def __dir__() -> list[str]:
    """Return the public names: the questions, the encodings, the modules and the error."""
    return sorted([*__all__, "__version__", "encodings", "nn"])


if not TYPE_CHECKING:  # a type checker would accept every misspelt name

    def __getattr__(name: str) -> object:
        if name in __all__:
            room, _, own = HOMES.get(name, f"api.{name}").rpartition(".")
            function = getattr(import_module(f"{__name__}.{room}"), own)
            if name in OF_EACH:
                function = import_module(f"{__name__}.api").for_each(function)
            return globals().setdefault(name, function)
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None

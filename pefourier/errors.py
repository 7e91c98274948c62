"""The one error a person sees, and how names and values are shown in it.

An error says what is wrong, which value, what is allowed and what to do, in one line. The command
line prints it after ``pefourier: `` and exits with status 2; in Python it is a ``ValueError``, and
options that it names are keywords there.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, ClassVar

LONGEST = 200  # characters of an argument that a line repeats
SHORT = 120  # what is left of a longer one


PLACING = re.compile(r"--(grid|from|to|prefix|length)\b(?: ((?:\d+x)*\d+)\b( (?=--))?)?")


class PefourierError(ValueError):
    """A request that cannot be answered, said in one line; with what was refused, if several."""

    in_shell: ClassVar[bool] = False  # whether a command is running, whose options are named

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.in_shell else PLACING.sub(as_keyword, text)

    def __init__(self, message: str = "", refusals: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.refusals = refusals


@contextmanager
def naming_options() -> Iterator[None]:
    """Let errors name options of the command line."""
    before, PefourierError.in_shell = PefourierError.in_shell, True
    try:
        yield
    finally:
        PefourierError.in_shell = before


def as_keyword(option: re.Match[str]) -> str:
    """An option as it is given in Python.

    >>> PLACING.sub(as_keyword, "--from 14x14 --prefix 1 would fit; leave out --grid")
    'grid=(14, 14), prefix=1 would fit; leave out grid'
    """
    key = "grid" if option[1] == "from" else option[1]
    if option[2] is None:
        return key
    sides = tuple(map(int, option[2].split("x")))
    return f"{key}={sides if key in ('grid', 'to') else sides[0]}" + ", " * bool(option[3])


class UnknownPositions(PefourierError):
    """A config of no model, or of one whose positions are elsewhere or not known."""


def shown(value: object, limit: int = SHORT) -> str:
    r"""A value in quotes with control characters escaped and its middle cut, safe on a terminal.

    >>> print(shown("a\nb"))
    'a\nb'
    """
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return shorten(text, limit)


def shorten(text: str, limit: int = LONGEST) -> str:
    """A text with its middle cut out where it is longer than the limit.

    >>> shorten("abcd", 4), shorten("abcdefgh", 4)
    ('abcd', 'ab…gh')
    """
    half = min(limit, SHORT) // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def unknown(kind: str, name: str, allowed: Iterable[str], way_out: str = "") -> PefourierError:
    """The error for an unknown name, with the nearest of those that are allowed.

    >>> print(unknown("encoding", "sinusoid", ["dft", "sinusoidal"]))
    unknown encoding 'sinusoid'. Did you mean 'sinusoidal'? Known: dft, sinusoidal.
    """
    names = sorted(allowed)
    likely = nearest(name, names)
    hint = f" Did you mean {likely!r}?" if likely else ""
    advice = way_out or f"Known: {', '.join(names)}."
    return PefourierError(f"unknown {kind} {shown(name)}.{hint} {advice}")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that begins with a text, or else the most alike; None where none is near.

    >>> nearest("check", ["context", "check-faithful"]), nearest("rank", ["explain"])
    ('check-faithful', None)
    """
    lower = {candidate.lower(): candidate for candidate in names}
    longer = [candidate for candidate in lower if name and candidate.startswith(name.lower())]
    likely = longer or get_close_matches(name.lower(), lower, n=1, cutoff=0.55)
    return lower[likely[0]] if likely else None

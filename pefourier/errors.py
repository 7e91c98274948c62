"""The error class of the package, and the format of names and values in messages.

A message states in one line what is wrong, the value, what is allowed and what to do. The command
line prints it after ``pefourier: `` and exits with status 2. In Python it is a ``ValueError``, and
option names in the message become keywords.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

LONGEST = 200  # maximum number of characters of an argument in a message
SHORT = 120  # characters that remain of a longer argument


PLACING = re.compile(r"--(grid|from|to|prefix|length)\b(?: ((?:\d+x)*\d+)\b( (?=--))?)?")


class PefourierError(ValueError):
    """A request that cannot be answered, with the individual refusals if there are several."""

    in_shell = False  # whether messages name options of the command line

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.in_shell else PLACING.sub(as_keyword, text)

    def __init__(self, message: str = "", refusals: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.refusals = refusals


@contextmanager
def naming_options() -> Iterator[None]:
    """Make messages name options of the command line."""
    before, PefourierError.in_shell = PefourierError.in_shell, True
    try:
        yield
    finally:
        PefourierError.in_shell = before


def as_keyword(option: re.Match[str]) -> str:
    """Return an option as a Python keyword.

    >>> PLACING.sub(as_keyword, "--from 14x14 --prefix 1 would fit; leave out --grid")
    'grid=(14, 14), prefix=1 would fit; leave out grid'
    """
    key = "grid" if option[1] == "from" else option[1]
    if option[2] is None:
        return key
    sides = tuple(map(int, option[2].split("x")))
    return f"{key}={sides if key in ('grid', 'to') else sides[0]}" + ", " * bool(option[3])


class UnknownPositions(PefourierError):
    """A config that is not a model's, or whose positional encoding is unknown or elsewhere."""


def shown(value: object, limit: int = SHORT) -> str:
    r"""Quote a value, escape control characters and cut its middle, safe for a terminal.

    >>> print(shown("a\nb"))
    'a\nb'
    """
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return shorten(text, limit)


def command_line(*words: object) -> str:
    r"""Quote the words of a command for a shell; every command with a user's value is made here.

    >>> print(command_line("curl", "-LO", "https://a.b/$(c)"))
    curl -LO 'https://a.b/$(c)'
    """
    from shlex import join  # imported only for the few answers that suggest a command

    return join(map(str, words))


def shorten(text: str, limit: int = LONGEST) -> str:
    """Cut the middle out of a text that is longer than the limit.

    >>> shorten("abcd", 4), shorten("abcdefgh", 4)
    ('abcd', 'ab…gh')
    """
    half = min(limit, SHORT) // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def unknown(kind: str, name: str, allowed: Iterable[str], way_out: str = "") -> PefourierError:
    """Return the error for an unknown name, with the closest allowed name.

    >>> print(unknown("encoding", "sinusoid", ["dft", "sinusoidal"]))
    unknown encoding 'sinusoid'. Did you mean 'sinusoidal'? Known: dft, sinusoidal.
    """
    names = sorted(allowed)
    likely = nearest(name, names)
    hint = f" Did you mean {likely!r}?" if likely else ""
    advice = way_out or f"Known: {', '.join(names)}."
    return PefourierError(f"unknown {kind} {shown(name)}.{hint} {advice}")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that begins with a text, otherwise the closest; None if no name is close.

    >>> nearest("check", ["context", "check-faithful"]), nearest("rank", ["explain"])
    ('check-faithful', None)
    """
    lower = {candidate.lower(): candidate for candidate in names}
    longer = [candidate for candidate in lower if name and candidate.startswith(name.lower())]
    likely = longer or get_close_matches(name.lower(), lower, n=1, cutoff=0.55)
    return lower[likely[0]] if likely else None

"""The error class of the package, the checks that raise it, and the format of values in messages.

A message states in one line what is wrong, the value, what is allowed and what to do. The command
line prints it after ``pefourier: `` and exits with status 2. In Python it is a ``ValueError``, and
option names in the message become keywords.
"""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Real
from typing import Any, TypeGuard

from pefourier.types import Counts, Ints

LONGEST = 200  # maximum number of characters of an argument in a message
SHORT = 120  # characters that remain of a longer argument


PLACING = re.compile(r"--(?=(?:grid|to|prefix|length)\b)")


class PefourierError(ValueError):
    """A request that cannot be answered, with the individual refusals if there are several.

    >>> print(PefourierError("--from 14x14 would fit; leave out --grid"))
    grid 14x14 would fit; leave out grid
    """

    in_shell = False  # whether messages name options of the command line

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.in_shell else PLACING.sub("", text.replace("--from", "--grid"))

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


class OtherGrid(PefourierError):
    """Rows that do not fit a grid: the fact, and what would fit."""

    def __init__(self, fact: str, hint: str) -> None:
        super().__init__(f"{fact}; {hint}")
        self.fact = fact


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


LARGEST = 2**26  # positions or lattice points: half a GiB of numbers
WIDEST = 2**21  # dimensions of a vector: more would take minutes
NUMBERS = 2**30  # numbers of a table: 8 GiB
COMPUTED = 2**25  # numbers of a table computed by a formula: 256 MiB, and answers hold copies
LEAST_SIDE = 4  # smallest side of an array that may be an image
MAX_HEADS = 48  # heads of a window: wider tables hold vectors of positions
COSTS = {  # for each kind of long work: seconds of two cores per item, and the largest count
    "products of a decomposition": (7e-10, 2**39),
    "cosines of candidates": (8e-9, 2e9),
    "positions in narrow formats": (1e-6, 12e6),  # 180 bytes each
}
MAGNITUDES = (1e-100, 1e100)  # limits for the largest number of a table, which is squared
HUGE = 1e300  # largest number in a file: products of larger numbers overflow


def is_number(value: object, low: float = -HUGE, high: float = HUGE) -> TypeGuard[float]:
    """Return whether a value from a file is a finite number, not a bool, within a range.

    >>> is_number(0.5), is_number(True), is_number("1"), is_number(math.nan), is_number(10**400)
    (True, False, False, False, False)
    """
    return isinstance(value, int | float) and type(value) is not bool and low <= value <= high


def is_count(value: object, low: int = 1, high: int = 2**53 - 1) -> TypeGuard[float]:
    """Return whether a value from a file is a whole number within a range; 4096.0 is one.

    >>> is_count(4096.0), is_count(0), is_count(1.5)
    (True, False, False)
    """
    return is_number(value, low, high) and value % 1 == 0


def check_count(key: str, value: Any, minimum: int = 1, maximum: int = 2**53) -> None:
    """Refuse a value that is not a whole number from `minimum` to `maximum`."""
    check_whole(key, value)
    if not minimum <= value <= maximum:
        limits = f"from {minimum} on" if value < minimum else f"up to {maximum}"
        raise PefourierError(f"{key} must be a whole number {limits}; got {shown(int(value))}")


def check_whole(key: str, value: object) -> None:
    """Refuse a value that is not a whole number, such as a string.

    >>> check_whole("length", 131072.0)
    >>> check_whole("length", "128k")
    Traceback (most recent call last):
    pefourier.errors.PefourierError: length must be a whole number; got '128k'
    """
    if not isinstance(value, Real) or value % 1 != 0:
        raise PefourierError(f"{key} must be a whole number; got {shown(str(value))}")


def check_above(key: str, value: float, bound: float = 0.0) -> None:
    """Refuse a number that is not finite and above `bound`."""
    if not (isinstance(value, Real) and bound < value <= sys.float_info.max):
        raise PefourierError(f"{key} must be a finite number above {bound:g}; got {value}")


def check_tolerance(value: float) -> None:
    """Refuse a tolerance that is negative or not finite."""
    if not (isinstance(value, Real) and 0 <= value < math.inf):
        raise PefourierError(f"tolerance must be a finite number from 0 on; got {value}")


def table_axes(shape: Ints) -> Counts:
    """Return the shape of a table without axes of size 1 before or between its two axes.

    The points of an image become positions in raster order. A last axis of 2, which holds pairs, is
    kept. A square after two axes of size 1 may be a mask, and its shape is kept.

    >>> table_axes((1, 197, 768)), table_axes((1, 512, 1, 64)), table_axes((2, 3, 1))
    ((197, 768), (512, 64), (2, 3, 1))
    >>> table_axes((1, 16, 12, 32)), table_axes((512, 1, 32, 2)), table_axes((1, 1, 8, 8))
    ((192, 32), (512, 32, 2), (1, 1, 8, 8))
    """
    sides = image_sides(shape)
    longer = [side for side in shape[:-1] if side != 1]
    if len(shape) > 3 and len(longer) == 2 and shape[-1] == 2 and not sides:
        return (*longer, 2)
    is_mask = tuple(shape[:-2]) == (1, 1) and shape[-2] == shape[-1]
    is_alone = len(longer) == 1 < shape[-1] and not is_mask
    if sides or (len(shape) == 3 and len(longer) < 2) or (len(shape) > 3 and is_alone):
        return (math.prod(shape[:-1]), shape[-1])
    return tuple(shape)


def image_sides(shape: Ints) -> Counts:
    """Rows and columns of an image's array (1, rows, columns, dimensions); () for other arrays.

    The dimensions may come first if the last two axes are equal or the second axis is the longest;
    the result is then ().

    >>> image_sides((1, 16, 12, 32)), image_sides((1, 32, 16, 16)), image_sides((1, 197, 768))
    ((16, 12), (), ())
    """
    if len(shape) != 4 or shape[0] != 1 or min(shape) < 1 or 1 in shape[1:]:
        return ()
    _, rows, columns, d = shape
    dimensions_first = columns == d != rows or rows > max(columns, d)
    return () if dimensions_first else (rows, columns)


def channel_sides(shape: Ints) -> Counts:
    """Rows and columns of an array (1, dimensions, rows, columns), the order of convolutions.

    An array may hold biases if it has at most as many dimensions as attention has heads, or as a
    side has points; the result is then ().

    >>> channel_sides((1, 192, 37, 37)), channel_sides((1, 12, 37, 37)), channel_sides((1, 37, 37))
    ((37, 37), (), ())
    """
    _, d, rows, columns = shape if len(shape) == 4 and shape[0] == 1 else (1, 0, 0, 0)
    is_wide = d > max(MAX_HEADS, rows, columns) and min(rows, columns) >= LEAST_SIDE
    return (rows, columns) if is_wide and not image_sides(shape) else ()


def reshaping(shape: Ints) -> str:
    """Return a hint on how to make a table of an array, or an empty string.

    A vector may hold the inverse frequencies that models store.

    >>> reshaping((14, 14, 192)).count("--grid"), reshaping((2, 3, 4))
    (1, '')
    >>> "rope:inv_freq=FILE" in reshaping((64,))
    True
    """
    if len(shape) == 1 and shape[0] > 1:
        return "; pass inverse frequencies as rope:inv_freq=FILE or FILE#NAME, with --length"
    long = [side for side in shape if side > 1]
    is_image = len(long) == 3 and min(long) >= LEAST_SIDE
    return "; for an image, reshape it to (H W, d) and pass --grid HxW" if is_image else ""


def check_size(subject: str, *shape: int, limit: int = COMPUTED) -> None:
    """Refuse an array too large for most machines, before the process runs out of memory."""
    if math.prod(shape) > limit:
        sizes = " × ".join(map(str, shape))
        limits = f"the limit is {limit}; choose a smaller length or d, or fewer positions"
        raise PefourierError(f"{subject} would hold {sizes} numbers, {limits}")


def check_cost(subject: str, kind: str, count: float) -> None:
    """Refuse work that would take minutes or too much memory, before it starts.

    >>> check_cost("a design", "cosines of candidates", 1e9)
    >>> check_cost("it", "cosines of candidates", 1e12)
    Traceback (most recent call last):
    pefourier.errors.PefourierError: it takes 1e+12 cosines of candidates, some 8000 s; the limit \
is 2e+09: choose a smaller length or d
    """
    seconds, limit = COSTS[kind]
    if count > limit:
        limits = f"the limit is {limit:.2g}: choose a smaller length or d"
        takes = f"{count:.2g} {kind}, some {count * seconds:.0f} s"
        raise PefourierError(f"{subject} takes {takes}; {limits}")


def check_magnitude(name: str, top: float) -> None:
    """Refuse vectors whose largest number cannot be squared and summed safely."""
    smallest, largest = MAGNITUDES
    if top and not smallest <= top <= largest:
        limits = f"it must be between {smallest:g} and {largest:g}: scale the vectors"
        raise PefourierError(f"the largest number in {shown(name)} is {top:.3g}; {limits}")

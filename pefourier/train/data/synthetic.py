"""Two tasks that only position can solve: both classes hold the same rows, in another order.

``order``: an event A and an event B; was A first? ``lags``: two equal events; was the second a
short or a long lag after the first? Without an encoding a transformer that averages over positions
gives both classes the same answer, and stays at chance. `noise` is the deviation of what is added
to every value (events have height 1), `length` the number of rows, `count` the number of examples.
"""

import inspect
from collections.abc import Callable

import numpy as np

from pefourier.encodings.registry import convert
from pefourier.errors import PefourierError, shown, unknown

Examples = tuple[np.ndarray, np.ndarray, tuple[str, ...]]  # X (n, length, C), y (n,), classes


def order(*, count: int = 1000, length: int = 12, noise: float = 0.1, seed: int = 0) -> Examples:
    """Channel 0 has event A, channel 1 event B, at different rows drawn at random."""
    rng = np.random.default_rng(seed)
    places = np.sort(np.argsort(rng.random((count, length)), axis=1)[:, :2], axis=1)
    first = rng.permutation(np.arange(count) % 2)
    x = rng.normal(0.0, noise, (count, length, 2))
    x[np.arange(count), places[:, 0], first] += 1.0
    x[np.arange(count), places[:, 1], 1 - first] += 1.0
    return x, first, ("A first", "B first")


def lags(
    *,
    count: int = 1000,
    length: int = 8,
    short: int = 1,
    long: int = 4,
    noise: float = 0.1,
    seed: int = 0,
) -> Examples:
    """One channel, two equal events `short` or `long` rows apart, at a place drawn at random.

    Both classes draw the place of the first event alike, so that no position tells them apart.
    """
    if not 0 < short < long < length:
        raise PefourierError(
            f"lags needs 0 < short < long < length; got short={short}, long={long}, length={length}"
        )
    rng = np.random.default_rng(seed)
    far = rng.permutation(np.arange(count) % 2)
    first = rng.integers(0, length, count)
    second = (first + np.where(far, long, short)) % length  # a ring: every row is as likely
    x = rng.normal(0.0, noise, (count, length, 1))
    x[np.arange(count), first, 0] += 1.0
    x[np.arange(count), second, 0] += 1.0
    return x, far, ("short lag", "long lag")


TASKS: dict[str, Callable[..., Examples]] = {"order": order, "lags": lags}


def examples(name: str) -> Examples:
    """The examples that ``NAME`` or ``NAME:key=value,…`` asks for."""
    task, _, text = name.partition(":")
    own = inspect.signature(TASKS[task]).parameters
    given = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if key not in own:
            raise unknown(f"parameter of {task}", key, own)
        if not equals:
            raise PefourierError(f"{task}:{key} lacks its value; give {key}={own[key].default}")
        given[key] = convert(f"{task}:{key}", value, own[key].annotation)
    if given.get("noise", 0) < 0 or given.get("count", 20) < 20 or given.get("length", 4) < 4:
        raise PefourierError(
            f"{task} needs count of at least 20, length of at least 4 and no negative noise; "
            f"got {shown(text)}"
        )
    return TASKS[task](**given)

"""Synthetic tasks that only position can solve; each function in `TASKS` draws one.

Both classes hold the same rows in a different order. Without an encoding, a transformer that
averages over positions gives both the same logits and stays at chance. `noise` is the standard
deviation of the noise on every value (events have height 1), `length` the number of rows, and
`count` the number of examples.
"""

import inspect
from typing import Any

import numpy as np

from pefourier.encodings.registry import convert
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data.split import MOST_ROWS
from pefourier.types import Array, Counts, Fields

Examples = tuple[np.ndarray, np.ndarray, tuple[str, ...]]  # X (n, length, C), y (n,), classes


def order(*, count: int = 1000, length: int = 12, noise: float = 0.1, seed: int = 0) -> Examples:
    """Events A in channel 0 and B in channel 1, at different rows; class: whether A is first."""
    rng = np.random.default_rng(seed)
    places = np.sort(np.argsort(rng.random((count, length)), axis=1)[:, :2], axis=1)
    first = rng.permutation(np.arange(count) % 2)
    x = rng.normal(0.0, noise, (count, length, 2))
    mark(x, places, (first, 1 - first))
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
    """Two equal events in one channel; class: whether the lag between the events is short or long.

    The first event has the same distribution in both classes, which makes positions useless alone.
    """
    if not 0 < short < long < length:
        raise PefourierError(
            f"lags needs 0 < short < long < length; got short={short}, long={long}, length={length}"
        )
    rng = np.random.default_rng(seed)
    far = rng.permutation(np.arange(count) % 2)
    first = rng.integers(0, length, count)
    second = (first + np.where(far, long, short)) % length  # a ring: all rows are equally likely
    x = rng.normal(0.0, noise, (count, length, 1))
    mark(x, np.column_stack([first, second]), (0, 0))
    return x, far, ("short lag", "long lag")


def irregular(*, count: int = 1000, length: int = 12, noise: float = 0.1, seed: int = 0) -> Any:
    """Two equal events at uneven times, a sixth or a half of the window's time apart.

    Rows carry no information: the counts of rows before, between and after the events have the
    same distribution in both classes. Returns times (n, length), as shares of the window's time,
    after the class names.
    """
    rng = np.random.default_rng(seed)
    is_long = rng.permutation(np.arange(count) % 2)
    elapsed = np.where(is_long, 1 / 2, 1 / 6)[:, None]
    first = rng.random((count, 1)) * (1 - elapsed)
    share = rng.random((count, length))
    outside = share * (1 - elapsed)
    between = np.arange(length) - 2 < rng.integers(0, length - 1, (count, 1))
    times = first + share * elapsed
    times = np.where(between, times, outside + elapsed * (outside > first))
    times[:, :1], times[:, 1:2] = first, first + elapsed
    order = times.argsort(axis=1)
    x = rng.normal(0.0, noise, (count, length, 1))
    mark(x, order.argsort(axis=1)[:, :2], (0, 0))
    return x, is_long, ("short time", "long time"), np.take_along_axis(times, order, axis=1)


def grid(
    *,
    count: int = 1000,
    height: int = 5,
    width: int = 7,
    gap: int = 1,
    noise: float = 0.1,
    seed: int = 0,
) -> Examples:
    """Mark A in channel 0 and mark B in channel 1; class: whether A is left of B in any rows.

    The marks are at least `gap` columns apart. Rows of an example are points in raster order. The
    position of a point in the sequence gives its column only modulo the width: an encoding of one
    axis must learn it, an encoding of two axes contains it.
    """
    if height < 1 or not 0 < gap < width or count * height * width > MOST_ROWS:
        raise PefourierError(
            "grid needs height of at least 1, 0 < gap < width, and count times height times width "
            f"of at most {MOST_ROWS}; got height={height}, width={width}, gap={gap}, count={count}"
        )
    rng = np.random.default_rng(seed)
    right = rng.permutation(np.arange(count) % 2)
    pairs = np.argwhere(np.subtract.outer(np.arange(width), np.arange(width)) <= -gap)
    columns = np.sort(pairs[rng.integers(0, len(pairs), count)], axis=1)  # all equally likely
    rows = rng.integers(0, height, (count, 2))
    x = rng.normal(0.0, noise, (count, height * width, 2))
    mark(x, rows * width + columns, (right, 1 - right))
    return x, right, ("A left of B", "B left of A")


def mark(x: Array, places: Array, channels: tuple[Any, Any]) -> None:
    """Add two events of height 1 to each example (n, length, C), at its rows (n, 2)."""
    for place, channel in zip(places.T, channels, strict=True):
        x[np.arange(len(x)), place, channel] += 1.0


TASKS: Fields = {task.__name__: task for task in (grid, irregular, lags, order)}


def task_parameters(name: str) -> Fields:
    """All parameters of ``NAME`` or ``NAME:key=value,…``, in the types of its function."""
    task, _, text = name.partition(":")
    params = inspect.signature(TASKS[task]).parameters
    chosen = {key: parameter.default for key, parameter in params.items()}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if key not in params:
            raise unknown(f"parameter of {task}", key, params)
        if not equals:
            raise PefourierError(f"{task}:{key} needs a value, as in {key}={params[key].default}")
        chosen[key] = convert(f"{task}:{key}", value, params[key].annotation)
    return chosen


def draw_examples(name: str) -> Any:
    """Draw the examples of the task ``NAME`` or ``NAME:key=value,…``."""
    task, _, text = name.partition(":")
    params = task_parameters(name)
    count, length = params["count"], params.get("length", 4)
    if count < 20 or length < 4 or params["noise"] < 0 or params["seed"] < 0:
        raise PefourierError(
            f"{task} needs count of at least 20, length of at least 4, and nonnegative noise and "
            f"seed, got {shown(text)}"
        )
    if count * length > MOST_ROWS:
        raise PefourierError(f"{task} draws at most {MOST_ROWS} rows, got {shown(text)}")
    return TASKS[task](**params)


def sides_of_task(name: str) -> Counts:
    """Sides of the grid of a task's points; () if they lie on one axis.

    >>> sides_of_task("grid:width=9"), sides_of_task("order")
    ((5, 9), ())
    """
    params = task_parameters(name)
    return () if "length" in params else (params["height"], params["width"])


def with_length(name: str, length: int) -> str:
    """Name the same task at another length, with another seed.

    >>> with_length("order:noise=.2,seed=3", 48)
    'order:count=1000,length=48,noise=0.2,seed=4'
    """
    params = task_parameters(name)
    params |= {"length": length, "seed": params["seed"] + 1}
    return f"{name.partition(':')[0]}:" + ",".join(f"{key}={v}" for key, v in params.items())

"""Tasks that only position can solve, one a file: its function draws the examples of that name.

Both classes hold the same rows, in another order. Without an encoding a transformer that averages
over positions gives them the same answer, and stays at chance. `noise` is the deviation of what is
added to every value (events have height 1), `length` the number of rows, `count` the number of
examples.
"""

import inspect
from importlib import import_module
from typing import Any

import numpy as np

from pefourier.encodings.registry import convert
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data.split import MOST_ROWS

Examples = tuple[np.ndarray, np.ndarray, tuple[str, ...]]  # X (n, length, C), y (n,), classes


def draw_examples(name: str) -> Examples:
    """Draw the examples that ``NAME`` or ``NAME:key=value,…`` stands for."""
    task, _, text = name.partition(":")
    function = getattr(import_module(f"{__name__}.{task}"), task)
    chosen = parameters_given(name)
    params = inspect.signature(function).parameters
    used = {key: parameter.default for key, parameter in params.items()} | chosen
    count, length = used["count"], used.get("length", 4)
    if min(count / 20, length / 4) < 1 or used["noise"] < 0 or used["seed"] < 0:
        raise PefourierError(
            f"{task} needs count of at least 20, length of at least 4, and no negative noise or "
            f"seed; got {shown(text)}"
        )
    if count * length > MOST_ROWS:
        raise PefourierError(f"{task} draws at most {MOST_ROWS} rows; got {shown(text)}")
    return function(**chosen)


def parameters_given(name: str) -> dict[str, Any]:
    """The parameters of a task in the types that its function takes."""
    task, _, text = name.partition(":")
    params = inspect.signature(getattr(import_module(f"{__name__}.{task}"), task)).parameters
    chosen: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if key not in params:
            raise unknown(f"parameter of {task}", key, params)
        if not equals:
            raise PefourierError(f"{task}:{key} lacks its value; give {key}={params[key].default}")
        chosen[key] = convert(f"{task}:{key}", value, params[key].annotation)
    return chosen


def sides_of_task(name: str) -> tuple[int, ...]:
    """Sides of the grid that a task's points lie on; () where they are on one axis.

    >>> sides_of_task("grid:width=9"), sides_of_task("order")
    ((5, 9), ())
    """
    task = name.partition(":")[0]
    sides = getattr(import_module(f"{__name__}.{task}"), f"{task}_sides", None)
    return sides(**parameters_given(name)) if sides else ()


def has_length(name: str) -> bool:
    """Whether a task is drawn at a length that can be chosen.

    >>> has_length("order:noise=.2"), has_length("grid")
    (True, False)
    """
    task = name.partition(":")[0]
    function = getattr(import_module(f"{__name__}.{task}"), task)
    return "length" in inspect.signature(function).parameters


def with_length(name: str, length: int) -> str:
    """The name of the same task at another length, drawn anew.

    >>> with_length("order:noise=.2,seed=3", 48)
    'order:noise=.2,length=48,seed=4'
    """
    task, _, text = name.partition(":")
    settings = dict(item.partition("=")[::2] for item in filter(None, text.split(",")))
    seed = int(settings.pop("seed", "0")) + 1
    settings.pop("length", None)
    return f"{task}:" + ",".join(
        f"{key}={value}" for key, value in (settings | {"length": length, "seed": seed}).items()
    )

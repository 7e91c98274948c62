"""Tasks that only position can solve, one a file: its function draws the examples of that name.

Both classes hold the same rows, in another order. Without an encoding a transformer that averages
over positions gives them the same answer, and stays at chance. `noise` is the deviation of what is
added to every value (events have height 1), `length` the number of rows, `count` the number of
examples.
"""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from pefourier.encodings.registry import convert
from pefourier.errors import PefourierError, shown, unknown
from pefourier.train.data.split import MOST_ROWS

Examples = tuple[np.ndarray, np.ndarray, tuple[str, ...]]  # X (n, length, C), y (n,), classes


def function_of(name: str) -> Callable[..., Examples]:
    """The function that draws a task."""
    task = name.partition(":")[0]
    return getattr(import_module(f"{__name__}.{task}"), task)


def task_parameters(name: str) -> dict[str, Any]:
    """All parameters of ``NAME`` or ``NAME:key=value,…``, in the types that its function takes."""
    task, _, text = name.partition(":")
    params = inspect.signature(function_of(name)).parameters
    chosen = {key: parameter.default for key, parameter in params.items()}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if key not in params:
            raise unknown(f"parameter of {task}", key, params)
        if not equals:
            raise PefourierError(f"{task}:{key} lacks its value; give {key}={params[key].default}")
        chosen[key] = convert(f"{task}:{key}", value, params[key].annotation)
    return chosen


def draw_examples(name: str) -> Examples:
    """Draw the examples that ``NAME`` or ``NAME:key=value,…`` stands for."""
    task, _, text = name.partition(":")
    params = task_parameters(name)
    count, length = params["count"], params.get("length", 4)
    if count < 20 or length < 4 or params["noise"] < 0 or params["seed"] < 0:
        raise PefourierError(
            f"{task} needs count of at least 20, length of at least 4, and no negative noise or "
            f"seed; got {shown(text)}"
        )
    if count * length > MOST_ROWS:
        raise PefourierError(f"{task} draws at most {MOST_ROWS} rows; got {shown(text)}")
    return function_of(name)(**params)


def sides_of_task(name: str) -> tuple[int, ...]:
    """Sides of the grid that a task's points lie on; () where they are on one axis.

    >>> sides_of_task("grid:width=9"), sides_of_task("order")
    ((5, 9), ())
    """
    params = task_parameters(name)
    return () if "length" in params else (params["height"], params["width"])


def has_length(name: str) -> bool:
    """Whether a task is drawn at a length that can be chosen.

    >>> has_length("order:noise=.2"), has_length("grid")
    (True, False)
    """
    return "length" in inspect.signature(function_of(name)).parameters


def with_length(name: str, length: int) -> str:
    """The name of the same task at another length, drawn anew.

    >>> with_length("order:noise=.2,seed=3", 48)
    'order:noise=0.2,length=48,seed=4'
    """
    task, _, text = name.partition(":")
    typed = {item.partition("=")[0] for item in text.split(",")}
    params = task_parameters(name)
    settings = {key: params[key] for key in params if key in typed - {"length", "seed"}}
    settings |= {"length": length, "seed": params["seed"] + 1}
    return f"{task}:" + ",".join(f"{key}={value}" for key, value in settings.items())

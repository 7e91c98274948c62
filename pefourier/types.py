"""Types of arrays and of plain values that many modules name, and frozen dataclasses.

At run time a type of arrays is `numpy.ndarray`, and numpy is loaded when the first one is imported.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import FrozenInstanceError, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Arrays = dict[str, Array]
    Floats = NDArray[np.float64]
    Places = NDArray[np.int64]
    Bools = NDArray[np.bool_]
    Indices = NDArray[np.integer]
    Table = NDArray[np.floating]  # (n, d), of any floating-point type

Fields = dict[str, Any]
Values = Mapping[str, Any]
Counts = tuple[int, ...]
Texts = tuple[str, ...]
Reals = tuple[float, ...]
Ints = Sequence[int]
Strings = Sequence[str]
CsvTable = tuple[list[str], Iterable[list[Any]]]  # names of columns, and rows

T = TypeVar("T")


def hidden(**facts: Any) -> Any:
    """Return a field of a dataclass that no output shows."""
    return field(metadata={"told": False}, **facts)


class Later(partial[Any]):
    """A value of a field without default, computed when the field is first read.

    >>> @frozen
    ... class Square:
    ...     side: float
    ...     area: float
    >>> square = Square(3.0, later(pow, 3.0, 2))
    >>> "area" in vars(square), square.area, "area" in vars(square)
    (False, 9.0, True)
    >>> half = frozen(type("Half", (), {"__annotations__": {"x": float}, "x": 0.0}))
    >>> half(later(float))
    Traceback (most recent call last):
    ...
    TypeError: field 'x' has a default, so its value cannot be computed later
    """

    def __reduce__(self) -> Any:
        """Copy and pickle the value."""
        return Later, (copy, self())


later: Callable[..., Any] = Later  # a field of any type takes it


@dataclass_transform(frozen_default=True, field_specifiers=(field, hidden))
def frozen(kind: type[T]) -> type[T]:
    """Make a frozen dataclass that compares by its fields.

    `dataclass(frozen=True)` compiles six functions for each class, which took a sixth of the time
    of a comparison of two configs. Classes made here share all but `__init__`.

    >>> @frozen
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), hash(Point(1)) == hash((1, 0))
    (Point(x=1, y=0), True, True)
    >>> Point(1).x = 2
    Traceback (most recent call last):
    ...
    dataclasses.FrozenInstanceError: cannot assign to field 'x'
    """
    return with_shared(kind, __eq__=are_equal, __hash__=hash_of)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field, hidden))
def frozen_arrays(kind: type[T]) -> type[T]:
    """Make a frozen dataclass of arrays, which compares by identity."""
    return with_shared(kind)


def with_shared(kind: type[T], **methods: Any) -> type[T]:
    """Make a dataclass with shared methods, unless the class has its own."""
    methods |= {"__setattr__": assign_once, "__getattr__": computed}
    if kind.__repr__ is object.__repr__:
        methods["__repr__"] = in_full
    for name in methods.keys() - vars(kind).keys():
        setattr(kind, name, methods[name])
    return dataclass(eq=False, repr=False)(kind)


def assign_once(self: Any, name: str, value: object) -> None:
    """Set a field that has no value yet."""
    if name in vars(self) or name not in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    is_later = isinstance(value, Later)
    if is_later and hasattr(type(self), name):  # it would be read instead
        raise TypeError(f"field {name!r} has a default, so its value cannot be computed later")
    vars(self)[f"later {name}" if is_later else name] = value


def computed(self: Any, name: str) -> Any:
    """Compute the value of a field that is first read."""
    if (made := vars(self).get(f"later {name}")) is None:
        raise AttributeError(f"{type(self).__name__} has no {name}", name=name, obj=self)
    value = vars(self)[name] = made()
    del vars(self)[f"later {name}"]
    return value


def compared(self: Any) -> tuple[object, ...]:
    """Return the values that make two instances of a class equal."""
    return tuple(getattr(self, f.name) for f in fields(self) if f.compare)


def are_equal(self: Any, other: object) -> bool:
    """Return whether both have one class and equal values."""
    return type(other) is type(self) and compared(self) == compared(other)


def hash_of(self: Any) -> int:
    """Return a hash, equal for equal values."""
    return hash(compared(self))


def in_full(self: Any) -> str:
    """Return the class with the names and values of its fields."""
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def __getattr__(name: str) -> Any:
    """Return `numpy.ndarray` for a type of arrays."""
    if not name[0].isupper():
        raise AttributeError(name)
    from numpy import ndarray

    return ndarray

"""Types of arrays and of plain values that many modules name, and frozen dataclasses.

At run time a type of arrays is `numpy.ndarray`, and numpy is loaded when the first one is imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Floats = NDArray[np.float64]
    Places = NDArray[np.int64]
    Bools = NDArray[np.bool_]
    Indices = NDArray[np.integer]
    Table = NDArray[np.floating]  # (n, d), of any floating-point type

Fields = dict[str, Any]
Values = Mapping[str, Any]
Counts = tuple[int, ...]
Texts = tuple[str, ...]
Ints = Sequence[int]
Strings = Sequence[str]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: type[T]) -> type[T]:
    """Make a frozen dataclass that compares by its fields."""
    return dataclass(frozen=True)(kind)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def frozen_arrays(kind: type[T]) -> type[T]:
    """Make a frozen dataclass of arrays, which compares by identity."""
    return dataclass(frozen=True, eq=False)(kind)


def __getattr__(name: str) -> Any:
    """Return `numpy.ndarray` for a type of arrays."""
    if not name[0].isupper():
        raise AttributeError(name)
    from numpy import ndarray

    return ndarray

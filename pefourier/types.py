"""Types of arrays and of plain values that many modules name.

At run time a type of arrays is `numpy.ndarray`, and numpy is loaded when the first one is imported.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    """Return `numpy.ndarray` for a type of arrays."""
    if not name[0].isupper():
        raise AttributeError(name)
    from numpy import ndarray

    return ndarray

"""Libraries that resize the tables of a model, and their methods.

Model types list libraries under ``resized``, and under ``resized_lags`` for biases and vectors of
lags. Each library has a list of methods and uses the first that can make the new grid.
"""

from collections.abc import Sequence

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.sources.huggingface import type_row
from pefourier.geometry.interpolation import why_not


def ways_of(enc: Encoding) -> list[list[str]]:
    """Libraries that resize a table, each followed by its methods; empty if unknown."""
    by_lag = any(entry.code == "lags-as-codes" for entry in enc.findings)
    kind = "sam_vision_model" if by_lag else str(enc.params.get("model_type") or "")
    row = type_row(kind) or {}
    by_lag |= enc.domain.kind == "lag"
    return row.get("resized_lags", []) if by_lag else row.get("resized", [])


def methods_of(enc: Encoding, new: Sequence[int]) -> dict[str, str]:
    """Method of each library that can resize a table to a lattice of this size."""
    return {
        library: fitting[0]
        for library, *methods in ways_of(enc)
        if (fitting := [name for name in methods if not why_not(name, enc.domain.sides, new)])
    }

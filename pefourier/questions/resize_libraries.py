"""Which library resizes the tables of a model by which method?

Rows of model types name libraries under ``resized``, and under ``resized_lags`` for biases and
vectors of lags: each with its methods, of which it uses the first that can make the new grid.
"""

from collections.abc import Mapping, Sequence

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.sources.huggingface import type_row
from pefourier.geometry.interpolation import why_not
from pefourier.writing.text import join

USUAL = {  # by kind of domain, where the model is not known
    "position": " (timm: antialias; transformers: bicubic for most vision models)",
    "lag": " (timm: geometric; microsoft/Swin-Transformer: bicubic; transformers: bilinear for BEiT)",
}
NAMED_LAGS = "sam_vision_model"  # whose tables arrays named rel_pos_h are


def ways_of(enc: Encoding) -> list[list[str]]:
    """Libraries that resize a table, each before its methods; none where none is known."""
    by_lag = any(entry.code == "lags-as-codes" for entry in enc.findings)
    kind = NAMED_LAGS if by_lag else str(enc.params.get("model_type") or "")
    key = "resized_lags" if by_lag or enc.domain.kind == "lag" else "resized"
    ways: list[list[str]] = (type_row(kind) or {}).get(key, [])
    return ways


def methods_of(enc: Encoding, new: Sequence[int]) -> dict[str, str]:
    """The method of each library that can make a lattice of this size out of a table."""
    found = {
        library: [way for way in ways if not why_not(way, enc.domain.sides, new, ())]
        for library, *ways in ways_of(enc)
    }
    return {library: methods[0] for library, methods in found.items() if methods}


def advice(enc: Encoding, methods: Mapping[str, str], method: str) -> str:
    """Which method to use in place of one, and where."""
    if not methods:
        usual = USUAL.get(enc.domain.kind, "") if len(enc.domain.sides) > 1 else ""
        return f"Use the method of the library that runs the model{usual}; they are compared below."
    others = [f"{other} in {name}" for name, other in methods.items() if other != method]
    return f"If the model runs elsewhere, use --method {join(others, 'or')}." if others else ""

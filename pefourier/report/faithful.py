"""How is it told whether codes are distinct and can be inverted? `pefourier check-faithful`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.specs import source_of
from pefourier.report import frame
from pefourier.report.faithful_figures import faithful
from pefourier.report.frame import framed


def model_of(enc: Encoding) -> dict[str, Any]:
    """What of a model's config acts beside the codes: its layers, what multiplies logits."""
    if "model_type" not in enc.params or source_of(enc.spec) != "config":
        return {}
    from pefourier.encodings.sources.layers import tell_layers

    factor = enc.params.get("softmax_factor", 1.0)
    return {"layers": tell_layers(enc.spec), "softmax_factor": factor}


TOLD = replace(
    framed("check-faithful", figure=faithful),
    record=lambda a: frame.record_of_fields(a) | model_of(a.encoding),
)

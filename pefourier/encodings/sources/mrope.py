"""Which rotations turn their pairs by frames, rows and columns, and by which of them each pair?

Configs say it by ``mrope_section``; whether the axes take turns is the model type's (rows of
`pefourier.encodings.sources.models` with ``sections``) or ``mrope_interleaved``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pefourier.encodings.encoding import Encoding
from pefourier.encodings.findings import finding
from pefourier.encodings.registry import BUILDERS
from pefourier.encodings.sources.gguf_file import axis_of_pairs, open_gguf
from pefourier.encodings.sources.layers import open_model
from pefourier.encodings.sources.rope_config import MERGE, merge_of, sections_of
from pefourier.encodings.spans import AXES, along_spans, axes_of_sections, read_spans
from pefourier.errors import PefourierError, shown
from pefourier.files import suffix_of


def on_spans(spec: str, text: str, load: Callable[..., Encoding], **own: Any) -> Encoding:
    """The rotation that a SPEC names, along spans."""
    kept = {key: own.pop(key) for key in ("merge", "ids") if key in own}
    enc, axis, known = read_rotation_on_axes(spec, load, own)
    spans = read_spans(text, **{"merge": known.get("merge", MERGE), **kept})
    found = along_spans(enc, axis, spans, text)
    if "video" not in known or all(span.kind != "video" for span in spans):
        return found
    note = finding("position-ids-video", how=known["video"])
    return replace(found, findings=(*found.findings, note))


def read_rotation_on_axes(
    spec: str, load: Callable[..., Encoding], own: dict[str, Any]
) -> tuple[Encoding, np.ndarray, dict[str, Any]]:
    """A rotation as text has it, the axis of each of its pairs, and what is known of its ids."""
    if spec.partition(":")[0] in BUILDERS:
        return (*of_three_axes(spec, load, own), {})
    if not spec.partition("#")[0].endswith((".npy", ".csv", ".npz", ".pt", ".pth", ".safetensors")):
        enc = load(spec, **own)
        axis = axis_in(spec, enc) if enc.name == "rope" else None
        if axis is not None:
            model = open_model(spec)
            known = {key: model.row[key] for key in ("video",) if key in model.row}
            return enc, axis, {**known, "merge": merge_of(model)}
    raise unsuitable(spec)


def of_three_axes(
    spec: str, load: Callable[..., Encoding], own: dict[str, Any]
) -> tuple[Encoding, np.ndarray]:
    """A registered rotation whose order is that of frames, rows and columns."""
    if spec.partition(":")[0] != "axial-rope":
        raise unsuitable(spec)
    enc = load(spec, grid=(1, 1, 1), **own)
    plain = enc.params["coordinates"] == "index" and not enc.params["offset"]
    if len(enc.domain.sides) != 3 or not plain or enc.params["layout"] == "axis-halves":
        raise unsuitable(spec)
    vectors = enc.measure.frequencies
    measure = replace(enc.measure, frequencies=vectors.sum(axis=1), offset=0)
    return replace(enc, measure=measure), np.abs(vectors).argmax(axis=1)


def unsuitable(spec: str) -> PefourierError:
    """The error for what is not turned by three axes."""
    return PefourierError(
        f"{shown(spec)} does not turn pairs by ids of {', '.join(AXES)}; --spans suits configs "
        "with mrope_section and axial-rope:convention=qwen2-vl-text or qwen3-vl-text"
    )


def axis_in(spec: str, enc: Encoding) -> np.ndarray | None:
    """Which axis of `AXES` turns each pair of a rotation that a SPEC names; None: text alone.

    That a config tells, or its model type has; of a .gguf file 3 stands for none of them.
    """
    if suffix_of(spec.partition("#")[0]) == ".gguf":
        return axis_of_pairs(open_gguf(spec.partition("#")[0]), len(enc.measure.frequencies))
    if "model_type" not in enc.params:  # which configs tell
        return None
    found = sections_of(open_model(spec))
    return found and axes_of_sections(*found, len(enc.measure.frequencies))

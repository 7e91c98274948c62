"""By what do queries of a model grow with their position? From its config.

Factors are those of the code of transformers 5.23, beyond 1 / sqrt(head size).
"""

from dataclasses import dataclass
from math import floor, log1p
from typing import Any

from pefourier.encodings.sources.config import ModelConfig, Section

TUNED = {  # key of the scale of a temperature in the rope section, by model type
    "ministral3": "llama_4_scaling_beta",
    "mistral4": "llama_4_scaling_beta",
}
LLAMA4 = {"attn_temperature_tuning": True, "floor_scale": 8192, "attn_scale": 0.1}


@dataclass(frozen=True)
class Temperature:
    r"""Queries at p are multiplied with :math:`1 + a \ln(1 + \lfloor (p + o)/F \rfloor)`."""

    layers: str  # those without positions, or all
    scale: float  # a
    floor: int  # F, positions
    first: int  # o: what the first position counts as
    largest: float  # at the last position of the length

    @staticmethod
    def at(position: int, scale: float, floor_scale: int, first: int) -> float:
        """The factor at a position.

        >>> round(Temperature.at(131071, 0.1, 8192, 1), 4)
        1.2833
        """
        return 1 + scale * log1p(floor((position + first) / floor_scale))


def read_temperature(model: ModelConfig, length: int) -> Temperature | None:
    """How queries grow with their position; None where they do not."""
    told = known_temperature(model)
    if told is None:
        return None
    layers, scale, floor_scale, first = told
    largest = Temperature.at(length - 1, scale, floor_scale, first)
    return Temperature(layers, scale, floor_scale, first, largest)


def known_temperature(model: ModelConfig) -> tuple[str, float, int, int] | None:
    """Layers, scale, floor and count of the first position, by model type."""
    if model.kind == "llama4_text":
        told = {key: value for key, value in model.config.values.items() if value is not None}
        own: dict[str, Any] = {**LLAMA4, **told}
        if not own["attn_temperature_tuning"]:
            return None
        known = Section(model.config.label, own)
        return "without positions", known.number("attn_scale"), known.count("floor_scale"), 1
    if model.kind == "params.json":
        section, key = model.config.section("llama_4_scaling"), "beta"
        scale, before = section.number(key), section.count("original_max_position_embeddings")
        return ("all", scale, before, 0) if scale and before else None
    section = model.config.section(model.rope_key)
    if not section.values:
        section = Section(model.rope_key, model.row.get("rope", {}))
    scale = section.number(TUNED[model.kind]) if model.kind in TUNED else None
    before = section.count("original_max_position_embeddings")
    return ("all", scale, before, 0) if scale and before else None

"""Temperatures of queries against the code of transformers."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers.models

from pefourier.encodings.sources.config import ModelConfig, Section
from pefourier.encodings.sources.layers import (
    Temperature,
    read_temperature,
)
from pefourier.encodings.sources.models import type_row
from pefourier.encodings.sources.rope_config import TUNED


def model(kind, **values):
    return ModelConfig("f", "", Section("f", values), kind, None, None, type_row(kind) or {})


def test_model_types_are_those_whose_code_has_the_factor():
    files = Path(transformers.models.__path__[0]).glob("*/modeling_*.py")
    sources = {path.parent.name: path.read_text() for path in files}
    tuned = {name for name, code in sources.items() if re.search("llama_4_scaling_beta", code)}
    assert tuned == set(TUNED)
    tuning = {name for name, code in sources.items() if "attn_temperature_tuning" in code}
    assert tuning == {"llama4"}


def test_temperatures_are_those_of_the_code():
    code = importlib.import_module("transformers.models.ministral3.modeling_ministral3")
    positions = torch.tensor([[0, 16383, 16384, 200_000]])
    theirs = code.get_llama_4_attn_scale(positions, 0.1, 16384)[0, 0, :, 0].numpy()
    own = [Temperature.at(p, 0.1, 16384, 0) for p in positions[0].tolist()]
    np.testing.assert_allclose(own, theirs, rtol=1e-6)
    found = read_temperature(model("ministral3"), 262144)
    assert (found.layers, found.floor) == ("all", 16384)
    assert found.largest == pytest.approx(1 + 0.1 * np.log(16))


def test_llama_4_tunes_layers_without_positions():
    """maxtext 1611: 1 + a ln(floor((pos + 1) / F) + 1), a .1, F 8192."""
    found = read_temperature(model("llama4_text"), 10485760)
    assert found.largest == pytest.approx(0.1 * np.log(10485760 / 8192 + 1) + 1)
    assert found.layers == "without positions"
    assert read_temperature(model("llama4_text", attn_temperature_tuning=False), 100) is None
    assert read_temperature(model("llama4_text", attn_scale=None), 10485760) == found
    assert read_temperature(model("llama"), 100) is None

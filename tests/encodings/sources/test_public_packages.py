"""Positional modules of public packages through ``py:``, with the wrappers that some need.

A module whose vectors are those of a registered encoding must equal it to the resolution of
float32.
"""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.errors import PefourierError

LENGTH, D = 60, 32
HALVES = {"layout": "halves"}
FAIRSEQ = HALVES | {"divisor": "d/2-1"}
BEHIND = """import torch
from transformers.models.fsmt.modeling_fsmt import SinusoidalPositionalEmbedding
def codes(length, d):
    return SinusoidalPositionalEmbedding(length, d, 1)(torch.full((1, length), 2))
"""
COSINES = """import torch
from diffusers.models.embeddings import get_1d_rotary_pos_embed
def codes(length, d):
    return get_1d_rotary_pos_embed(dim=d, pos=torch.arange(length))
"""
ANGLES = """import torch
from timesformer_pytorch.rotary import RotaryEmbedding
def codes(length, d):
    return torch.cat(RotaryEmbedding(dim=d)(n=length, device=None), -1)
"""
LLAMA = """import torch
from transformers.models.llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
def codes(length, d):
    config = LlamaConfig(hidden_size=64, num_attention_heads=2, rope_parameters={
        "rope_type": "default", "rope_theta": 5e5})
    ids = torch.arange(length)[None]
    return torch.cat(LlamaRotaryEmbedding(config)(torch.zeros(1, length, d), ids), -1)
"""
KNOWN = [  # module, its wrapper if it needs one, the registered encoding of its vectors
    ("transformers.models.whisper.modeling_whisper:sinusoids", None, FAIRSEQ),
    ("diffusers.models.embeddings:SinusoidalPositionalEmbedding", None, {}),
    ("positional_encodings.torch_encodings:PositionalEncoding1D", None, {}),
    (
        "x_transformers.x_transformers:ScaledSinusoidalEmbedding",
        *(None, HALVES | {"scale": D**-0.5}),
    ),
    ("performer_pytorch.performer_pytorch:FixedPositionalEmbedding", None, HALVES),
    ("esm.rotary_embedding:RotaryEmbedding", None, {"rope": "halves"}),
    (
        "transformers.models.fsmt.modeling_fsmt:SinusoidalPositionalEmbedding",
        BEHIND,
        FAIRSEQ | {"offset": 2},  # positions begin after the padding index, 1
    ),
    ("diffusers.models.embeddings:get_1d_rotary_pos_embed", COSINES, {"rope": "interleaved"}),
    ("timesformer_pytorch.rotary:RotaryEmbedding", ANGLES, HALVES | {"times": 2}),
    (
        "transformers.models.llama.modeling_llama:LlamaRotaryEmbedding",
        *(LLAMA, {"rope": "halves", "rho": 5e5, "times": 2}),
    ),
]


def codes_of(known):
    """Return the table of the registered encoding that a row of `KNOWN` names."""
    own = dict(known)
    times, scale = own.pop("times", 1), own.pop("scale", 1.0)
    name = "rope" if "rope" in own else "sinusoidal"
    text = ",".join(f"{'layout' if k == 'rope' else k}={v}" for k, v in own.items())
    table = scale * load(f"{name}:{text}" if text else name, LENGTH, D).table()
    parts = np.split(table, 2, axis=1) if times > 1 else [table]
    return np.hstack([part for part in parts for _ in range(times)])


def wrapped(folder, module, wrapper):
    """Return the SPEC of the completed wrapper of a module, which is refused without it."""
    with pytest.raises(PefourierError):
        load(f"py:{module}", LENGTH, D)
    (folder / f"wrapper_{folder.name}.py").write_text(wrapper)
    return f"py:wrapper_{folder.name}:codes"


@pytest.mark.parametrize(("module", "wrapper", "known"), KNOWN, ids=[row[0] for row in KNOWN])
def test_a_module_is_what_its_package_says(run, folder, module, wrapper, known):
    pytest.importorskip(module.partition(".")[0], reason="comes with pip install '.[dev]'")
    spec = f"py:{module}" if wrapper is None else wrapped(folder, module, wrapper)
    (result,) = run("check-faithful", spec, "-S", LENGTH, "--d", D, "--json").results
    assert {f["severity"] for f in result["findings"]} <= {"note"}
    assert result["identified"]["encoding"] == ("rope" if "rope" in known else "sinusoidal")
    vectors = load(spec, LENGTH, D).table()
    np.testing.assert_allclose(vectors, codes_of(known), atol=2e-5 * max(1.0, abs(vectors).max()))

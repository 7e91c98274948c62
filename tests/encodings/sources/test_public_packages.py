"""Positional modules of public packages through ``py:``, and what each must be told to be.

A module whose codes are those of a registered encoding must equal it to the resolution of float32.
"""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.errors import PefourierError

LENGTH, D = 60, 32
HALVES = {"layout": "halves"}
FAIRSEQ = HALVES | {"divisor": "d/2-1"}
TOKENS = "torch.ones(1, length, dtype=torch.long)"
BEHIND = [("padding_idx=...", "padding_idx=1"), ("=" + TOKENS, "=2 * " + TOKENS)]
CAT = [("return ", "return torch.cat("), ("  #", ", -1)  #")]  # of two tensors
KNOWN = [  # module, what in its wrapper is written otherwise, what its codes are
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
        [*BEHIND, ("input=...", "2 * " + TOKENS)],
        FAIRSEQ | {"offset": 2},  # positions begin after the padding index, 1
    ),
    ("diffusers.models.embeddings:get_1d_rotary_pos_embed", [], {"rope": "interleaved"}),
    (
        "timesformer_pytorch.rotary:RotaryEmbedding",
        *([("device=...", "device=None"), *CAT], HALVES | {"times": 2}),
    ),
    ("instances:llama", CAT, {"rope": "halves", "rho": 5e5, "times": 2}),
]
INSTANCES = """
from transformers.models.llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

made = LlamaConfig(hidden_size=64, num_attention_heads=2, rope_parameters={
    "rope_type": "default", "rope_theta": 5e5})
llama = LlamaRotaryEmbedding(made)
"""


def codes_of(known):
    """The registered encoding that a row of `KNOWN` names, in the row's order and size."""
    own = dict(known)
    times, scale = own.pop("times", 1), own.pop("scale", 1.0)
    name = "rope" if "rope" in own else "sinusoidal"
    text = ",".join(f"{'layout' if k == 'rope' else k}={v}" for k, v in own.items())
    table = scale * load(f"{name}:{text}" if text else name, LENGTH, D).table()
    parts = np.split(table, 2, axis=1) if times > 1 else [table]
    return np.hstack([part for part in parts for _ in range(times)])


def wrapped(folder, module, written):
    """The SPEC of the wrapper that is printed for a module, with some words written otherwise."""
    with pytest.raises(PefourierError) as error:
        load(f"py:{module}", LENGTH, D)
    (wrapper,) = error.value.__notes__
    for old, new in written:
        wrapper = wrapper.replace(old, new)
    (folder / f"wrapper_{folder.name}.py").write_text(wrapper)
    return f"py:wrapper_{folder.name}:codes"


@pytest.mark.parametrize(("module", "written", "known"), KNOWN, ids=[row[0] for row in KNOWN])
def test_a_module_is_what_its_package_says(run, folder, module, written, known):
    (folder / "instances.py").write_text(INSTANCES)
    if not module.startswith("instances"):
        pytest.importorskip(module.partition(".")[0], reason="comes with pip install '.[dev]'")
    spec = f"py:{module}" if written is None else wrapped(folder, module, written)
    (result,) = run("check-faithful", spec, "-S", LENGTH, "--d", D, "--json").results
    assert {f["severity"] for f in result["findings"]} <= {"note"}
    assert result["identified"]["encoding"] == ("rope" if "rope" in known else "sinusoidal")
    codes = load(spec, LENGTH, D).table()
    np.testing.assert_allclose(codes, codes_of(known), atol=2e-5 * max(1.0, abs(codes).max()))

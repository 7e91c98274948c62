"""Positional modules of public packages through ``py:``, and what each must be told to be.

The packages are development dependencies, so that nothing is skipped. A module whose codes are
those of a registered encoding must equal it to the resolution of float32.
"""

import numpy as np
import pytest

from pefourier.encodings import load
from pefourier.errors import PefourierError

LENGTH, D = 60, 32
HALVES = {"layout": "halves"}
FAIRSEQ = HALVES | {"divisor": "d/2-1"}
SHIFTED = FAIRSEQ | {"offset": 2}  # positions begin after the padding index, 1
COSINES = {"first": "cos"}
DIVISOR, ROPE = ["divisor"], ["cosines-first"]

PACKAGES = {
    *("diffusers", "esm", "local_attention"),
    *("performer_pytorch", "positional_encodings", "rotary_embedding_torch"),
    *("timesformer_pytorch", "transformers", "x_transformers"),
}
KNOWN = [  # module, what its codes are, findings
    ("transformers.models.whisper.modeling_whisper:sinusoids", FAIRSEQ, DIVISOR),
    ("transformers.models.gptj.modeling_gptj:create_sinusoidal_positions", HALVES, []),
    ("diffusers.models.embeddings:SinusoidalPositionalEmbedding", {}, []),
    ("positional_encodings.torch_encodings:PositionalEncoding1D", {}, []),
    (
        "x_transformers.x_transformers:ScaledSinusoidalEmbedding",
        HALVES | {"scale": D**-0.5},
        ["scale"],
    ),
    ("performer_pytorch.performer_pytorch:FixedPositionalEmbedding", HALVES, []),
    ("esm.rotary_embedding:RotaryEmbedding", {"rope": "halves"}, ["turns-its-input", *ROPE]),
]
TOKENS = "torch.ones(1, length, dtype=torch.long)"
BEHIND = [("padding_idx=...", "padding_idx=1"), ("=" + TOKENS, "=2 * " + TOKENS)]
CAT = [("return ", "return torch.cat("), ("  #", ", -1)  #")]  # of two tensors
WRAPPED = [  # module, what in the wrapper is written otherwise, what its codes are, findings
    (
        "transformers.models.fsmt.modeling_fsmt:SinusoidalPositionalEmbedding",
        [*BEHIND, ("input=...", "2 * " + TOKENS)],
        SHIFTED,
        ["offset", "divisor"],
    ),
    (
        "transformers.models.musicgen.modeling_musicgen:MusicgenSinusoidalPositionalEmbedding",
        [(TOKENS, "torch.ones(1, 1, length)")],
        FAIRSEQ | COSINES,
        ["divisor"],
    ),
    ("diffusers.models.embeddings:get_1d_rotary_pos_embed", [], {"rope": "interleaved"}, ROPE),
    (
        "timesformer_pytorch.rotary:RotaryEmbedding",
        [("device=...", "device=None"), *CAT],
        HALVES | {"times": 2},
        [],
    ),
    ("instances:llama", CAT, {"rope": "halves", "rho": 5e5, "times": 2}, ROPE),
]
INSTANCES = """
from transformers.models.llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

made = LlamaConfig(hidden_size=64, num_attention_heads=2, rope_parameters={
    "rope_type": "default", "rope_theta": 5e5})
llama = LlamaRotaryEmbedding(made)
"""


@pytest.fixture(autouse=True)
def folder(request, tmp_path, monkeypatch):
    module = (
        request.node.callspec.params.get("module", "") if "callspec" in dir(request.node) else ""
    )
    package = module.partition(":")[0].partition(".")[0]
    if package in PACKAGES:
        pytest.importorskip(package, reason="comes with pip install '.[dev]'")
    (tmp_path / "instances.py").write_text(INSTANCES)
    monkeypatch.chdir(tmp_path)


def codes_of(known):
    """The registered encoding that a row of `KNOWN` names, in the row's order and size."""
    own = dict(known)
    times, scale, first = own.pop("times", 1), own.pop("scale", 1.0), own.pop("first", "sin")
    name = "rope" if "rope" in own else "sinusoidal"
    own = {"layout" if k == "rope" else k: v for k, v in own.items()}
    text = ",".join(f"{k}={v}" for k, v in own.items())
    table = scale * load(f"{name}:{text}" if text else name, LENGTH, D).table()
    if times == 1 and first == "sin":
        return table
    parts = np.split(table, 2, axis=1)[:: -1 if first == "cos" else 1]
    return np.hstack([part for part in parts for _ in range(times)])


def findings_of(result):
    """What is said of a module; that its rank is one of rounding is no news."""
    return [f["code"] for f in result["findings"] if f["code"] != "rank-of-rounding"]


def is_known(run, spec, known, findings):
    (result,) = run("check-faithful", spec, "-S", LENGTH, "--d", D, "--json").results
    assert findings_of(result) == findings
    assert {f["severity"] for f in result["findings"]} <= {"note"}
    found, wanted = result["identified"], {"rho": 1e4, "offset": 0, "scale": 1.0} | known
    assert found["encoding"] == ("rope" if "rope" in wanted else "sinusoidal")
    usual = {"offset": 0, "scale": 1.0, "divisor": "d", "first": "sin", "times": 1}
    wanted = {"layout": wanted.pop("rope", "interleaved")} | wanted
    for key, value in wanted.items():
        assert found["params"].get(key, usual.get(key)) == pytest.approx(value), key
    codes = load(spec, LENGTH, D).table()
    np.testing.assert_allclose(codes, codes_of(known), atol=2e-5 * max(1.0, abs(codes).max()))


@pytest.mark.parametrize(("module", "known", "findings"), KNOWN, ids=[row[0] for row in KNOWN])
def test_a_module_is_what_its_package_says(run, module, known, findings):
    is_known(run, f"py:{module}", known, findings)


@pytest.mark.parametrize(("module", "written", "known", "findings"), WRAPPED)
def test_what_fits_no_convention_does_in_its_wrapper(
    run, tmp_path, module, written, known, findings
):
    is_known(run, wrapped(tmp_path, module, written), known, findings)


def wrapped(folder, module, written):
    """The SPEC of the wrapper that is printed for a module, with some words written otherwise."""
    with pytest.raises(PefourierError) as error:
        load(f"py:{module}", LENGTH, D)
    (wrapper,) = error.value.__notes__
    for old, new in written:
        wrapper = wrapper.replace(old, new)
    (folder / f"wrapper_{folder.name}.py").write_text(wrapper)
    return f"py:wrapper_{folder.name}:codes"

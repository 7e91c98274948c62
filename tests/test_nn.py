"""Vectors, rotations and biases as torch modules equal transformers' code and slow formulas."""

import json
import sys
from importlib import import_module

import numpy as np
import pytest
import torch
from findings import codes
from numpy.testing import assert_allclose, assert_array_equal
from public_axes import qwen2_rotation
from published_configs import sized
from refusals import refusal
from rotary_modules import config_class, quiet, rotary_classes

from pefourier.encodings import build, load
from pefourier.encodings.registry import BUILDERS
from pefourier.nn import Bias, PositionalEncoding, Rotary
from pefourier.train.model import load_injection

torch.manual_seed(0)
ADDITIVE = [
    name
    for name, enc in ((name, build(name, length=12, d=8)) for name in sorted(BUILDERS))
    if enc.injection == "add" and enc.dim == 8
]
LLAMA = sized("llama", 64, 4, 32, rope_theta=5e5)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LONG = {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 32}
LONG |= {"short_factor": [1.0] * 8, "long_factor": [1.0 + i for i in range(8)]}
CONFIGS = {
    "dynamic": LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "yarn": LLAMA | {"rope_scaling": YARN},
    "longrope": LLAMA | {"model_type": "phi3", "rope_scaling": LONG, "pad_token_id": 0},
}


@pytest.mark.parametrize("name", ADDITIVE)
def test_output_minus_input_is_the_table(name):
    module = PositionalEncoding(name, 8, 12, dtype=torch.float64)
    x = torch.randn(3, 10, 8, dtype=torch.float64)
    vectors = build(name, length=12, d=8).table()[:10]
    assert_allclose((module(x) - x)[1].detach().numpy(), vectors, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_output_has_the_type_of_the_input_and_the_table_stays(dtype):
    exact = torch.tensor(build("dft", length=5, d=8).table())
    found = PositionalEncoding("dft", 8, 12)(torch.zeros(2, 5, 8, dtype=dtype))
    assert torch.equal(found[0], exact.float().to(dtype))
    assert found.dtype == dtype


def test_learned_vectors_are_trained_unless_reported_otherwise():
    module = PositionalEncoding("sinusoidal:layout=halves", 8, 12, learn=True)
    module(torch.zeros(2, 5, 8)).sum().backward()
    assert module.vectors.grad[:5].eq(2).all()
    assert module.vectors.grad[5:].eq(0).all()
    assert list(PositionalEncoding("learned", 8, 12, learn=False).parameters()) == []
    assert list(PositionalEncoding("dft", 8, 12).parameters()) == []


def test_params_files_and_positions_are_understood(tmp_path):
    module = PositionalEncoding("sinusoidal", 8, 12, rho=50.0)
    np.save(tmp_path / "t.npy", load("sinusoidal", 12, 8, rho=50.0).table())
    assert torch.equal(PositionalEncoding(str(tmp_path / "t.npy"), 8, 12).vectors, module.vectors)
    chosen, x = torch.tensor([[0, 1, 2, 0], [7, 6, 5, 4]]), torch.randn(2, 4, 8)
    torch.testing.assert_close(module(x, position_ids=chosen), x + module.vectors[chosen])


def heads(n, d=16, count=2, dtype=torch.float32):
    return torch.randn(3, count, n, d).to(dtype), torch.randn(3, 1, n, d).to(dtype)


def by_transformers(values, q, k, positions):
    """Rotate queries and keys with the transformers implementation of a config's model."""
    config = config_class(values["model_type"]).from_dict(json.loads(json.dumps(values)))
    (cls,) = rotary_classes(config)
    with quiet():
        rotate = sys.modules[cls.__module__].apply_rotary_pos_emb
        return rotate(q, k, *cls(config)(q, positions))


def assert_close(rotated, expected):
    for x, y in zip(rotated, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("n", [7, 80])
@pytest.mark.parametrize("name", CONFIGS)
def test_queries_and_keys_are_those_of_transformers(name, n, written):
    q, k = heads(n)
    positions = torch.arange(n).expand(3, n)
    expected = by_transformers(CONFIGS[name], q, k, positions)
    rotary = Rotary(written(CONFIGS[name]))
    assert_close(rotary.rotate(q, k), expected)
    assert_close(rotary.rotate(q, k, position_ids=positions), expected)


PLACES = [torch.arange(30, 35), torch.tensor([34, 30, 31, 30, 33])]
PLACES += [torch.tensor([[0, 0, 0, 1, 2]] * 3), torch.tensor([-2.0, 0.5, 7.25])]


@pytest.mark.parametrize("ids", PLACES)
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_pairs_turn_by_the_formula(layout, ids):
    """At any places: in another order, padded on the left, fractional and negative."""
    rotary, (q, k) = Rotary(f"rope:layout={layout},partial=0.5", 16), heads(ids.shape[-1])
    real = ids.is_floating_point()
    rotated, _ = rotary.rotate(q, k, ids, real_positions=real)
    pairs = [(2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + 4) for i in range(4)]
    expected = q.clone()
    for i, (a, b) in enumerate(pairs):
        z = torch.complex(q[..., a], q[..., b])
        z = z * torch.exp(1j * ids.unsqueeze(-2) * 1e4 ** (-2 * i / 8))
        expected[..., a], expected[..., b] = z.real, z.imag
    torch.testing.assert_close(rotated, expected, rtol=1e-5, atol=1e-5)
    if ids is PLACES[0]:
        assert torch.equal(rotary.rotate(q, k, offset=30)[0], rotated)
    if real:
        back, _ = rotary.rotate(rotated, k, -ids, real_positions=True)
        torch.testing.assert_close(back, q, rtol=1e-5, atol=1e-5)


def test_products_on_a_grid_are_those_of_the_vectors(tmp_path):
    """The product of rotated q and k is that of the angle between points, from SPEC or encoding."""
    enc = load("axial-rope", length=12, d=8, grid=(3, 4))
    table = enc.table()
    np.save(tmp_path / "t.npy", table)
    for rotary in (Rotary("axial-rope", 8, grid=(3, 4)), Rotary(enc)):
        for i in range(4):
            a, b = (i, i + 4) if rotary.layout == "halves" else (2 * i, 2 * i + 1)
            x = torch.zeros(1, 2, 12, 8)
            x[..., a] = 1.0
            q, k = rotary.rotate(x, x)
            z = table[:, a] + 1j * table[:, b]
            assert_allclose((q[0, 1] @ k[0, 1].T).numpy(), np.real(np.outer(z, 1 / z)), atol=1e-5)
        points = torch.tensor([[11, 0, 5]])
        some, _ = rotary.rotate(x[:, :, :3], x[:, :, :3], position_ids=points)
        assert torch.equal(some, q[:, :, [11, 0, 5]])


def test_phases_are_float32_in_half_precision():
    q, k = heads(4, dtype=torch.bfloat16)
    rotated, _ = Rotary("rope", 16).to(torch.bfloat16).rotate(q, k, offset=4900)
    exact, _ = Rotary("rope", 16).rotate(q.float(), k.float(), offset=4900)
    assert torch.equal(rotated, exact.bfloat16())


MODULES = {
    "rope": lambda: Rotary("rope", 16),
    "table": lambda: Rotary("axial-rope", 16, grid=(2, 3)),
    "dynamic": lambda: Rotary("rope:scaling=dynamic,factor=2,original=4", 16),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_meta_gets_its_tables_with_its_memory(name):
    def others():
        return PositionalEncoding("dft", 8, 8), Bias("swin", 2, grid=(2, 3), learn=False)

    with torch.device("meta"):
        module, made = MODULES[name](), others()
    q, k = heads(6)
    assert module.rotate(q.to("meta"), k.to("meta"))[0].is_meta
    pairs = [
        *zip(module.to_empty(device="cpu").rotate(q, k), MODULES[name]().rotate(q, k), strict=True)
    ]
    for one, other in zip(made, others(), strict=True):
        pairs += zip(one.to_empty(device="cpu").buffers(), other.buffers(), strict=True)
    assert all(torch.equal(x, y) and x.dtype == y.dtype for x, y in pairs)


def test_no_table_is_in_a_state_dict():
    modules = [make() for make in MODULES.values()]
    modules += [PositionalEncoding("dft", 8, 8), Bias("alibi", 2, 8), Bias("swin", 2, grid=(2, 3))]
    assert [list(module.state_dict()) for module in modules] == [[]] * 5 + [["vectors"]]
    assert list(PositionalEncoding("learned", 8, 8).state_dict()) == ["vectors"]


class Attention(torch.nn.Module):
    def __init__(self, rotary):
        super().__init__()
        self.rotary = rotary

    def forward(self, q, k):
        return self.rotary.rotate(q, k)


@pytest.mark.parametrize("name", MODULES)
def test_compiling_needs_one_graph(name):
    """torch.compile and torch.export accept each module without a graph break."""
    module, (q, k) = Attention(MODULES[name]()), heads(6)
    assert_close(torch.compile(module, fullgraph=True, backend="eager")(q, k), module(q, k))
    assert_close(torch.export.export(module, (q, k)).module()(q, k), module(q, k))
    ids = torch.tensor([5, 0, 1, 2, 3, 4])
    compiled = torch.compile(module.rotary.rotate, fullgraph=True, backend="eager")
    assert_close(compiled(q, k, position_ids=ids), module.rotary.rotate(q, k, position_ids=ids))


ADDED = ["alibi", "kerple", "t5", "swin", "sandwich", "fire"]


@pytest.mark.parametrize("spec", [*ADDED, "fire:threshold=3"])
def test_biases_are_those_that_training_adds(spec):
    grid = (2, 3) if spec == "swin" else ()
    bias = Bias(spec, 4, None if grid else 6, grid=grid, dtype=torch.float64)
    injected = load_injection(spec, 6, 16, 4, 0, grid=grid).table().reshape(6, 6, 4)
    assert_array_equal(bias(6).detach().permute(1, 2, 0).numpy(), injected)
    assert_array_equal(bias(2, 6).detach().permute(1, 2, 0).numpy(), injected[4:])
    q, k = torch.tensor(1), torch.tensor(4)
    score = bias.score_mod(torch.tensor(0.5), torch.tensor(0), torch.tensor(3), q, k)
    assert score.item() == injected[1, 4, 3] + 0.5


def dft(x, **options):
    return PositionalEncoding("dft", 8, 12)(x, **options)


def rope(*tensors, **options):
    return Rotary("rope", 16).rotate(*tensors, **options)


REFUSED = [
    lambda: PositionalEncoding("rope", 8, 12),
    lambda: dft(torch.zeros(1, 13, 8)),
    lambda: dft(torch.zeros(2, 5, 1)),
    lambda: dft(torch.zeros(2, 5, 8, dtype=torch.int64)),
    lambda: dft(torch.zeros(2, 3, 8), position_ids=torch.tensor([0, 1, 12])),
    lambda: Rotary("dft", 8),
    lambda: Rotary("xpos", 8),
    lambda: Rotary("mixed-rope:heads=3", 16, grid=(2, 2)),
    lambda: rope(heads(4)[0], heads(5)[0]),
    lambda: rope(*(x.transpose(1, 2) for x in heads(3))),
    lambda: dinov3(14).rotate(*heads(201)),
    lambda: dinov3(14, prefix=5).rotate(*heads(196)),
    lambda: Rotary("axial-rope", 16),
    lambda: Bias("rope", 8, 9),
    lambda: Bias("alibi:causal=true", 8, 9),
    lambda: Bias("alibi", 2),
    lambda: Bias("alibi", 2, 4)(5),
]


@pytest.mark.parametrize("act", REFUSED)
def test_sizes_that_do_not_fit_are_refused_in_one_line(act):
    with refusal():
        act()


PLACED = [
    ("rope", {"position_ids": torch.arange(4)}),
    ("rope", {"position_ids": torch.arange(3), "offset": 1}),
    ("rope", {"position_ids": torch.arange(3.0)}),
    ("rope", {"position_ids": torch.ones(3) > 0, "real_positions": True}),
    ("rope", {"position_ids": torch.arange(3) - 1}),
    ("rope", {"offset": -1}),
    ("table", {"position_ids": torch.arange(3.0), "real_positions": True}),
    ("table", {"offset": 4}),
    ("table", {}),
]


@pytest.mark.parametrize(("name", "place"), PLACED)
def test_places_that_do_not_fit_are_refused_in_one_line(name, place):
    with refusal():
        MODULES[name]().rotate(*heads(3), **place)


def dinov3(side, **own):
    return Rotary("axial-rope:convention=dinov3", 16, grid=(side, side), **own)


WIDTHS = {"qwen2_vl": {"embed_dim": 32}, "qwen3_vl": {"hidden_size": 32}}


@pytest.mark.parametrize(("kind", "side"), [("qwen2_vl", 2), ("qwen2_vl", 4), ("qwen3_vl", 2)])
def test_tokens_of_a_vision_tower_run_through_its_blocks(written, kind, side):
    """A vision tower's blocks of merged tokens get the rotation that transformers computes."""
    own = WIDTHS[kind] | {"num_heads": 2, "spatial_merge_size": side, "patch_size": 14}
    spec = written({"model_type": kind, "vision_config": own, "rope_theta": 1e6}) + "#vision_config"
    enc = load(spec, grid=(8, 12))
    assert "tokens-in-blocks" in codes(enc)
    ones = torch.tensor([1.0, 0.0]).repeat_interleave(8).expand(1, 1, 96, 16)
    waves = torch.cat(qwen2_rotation((8, 12), 16, side), 1)
    torch.testing.assert_close(Rotary(enc).rotate(ones, ones)[0][0, 0], waves, atol=1e-5, rtol=0)
    with refusal("such as"):
        Rotary(spec, grid=(8, 9))


AXES = [("qwen2_vl", [16, 24, 24]), ("qwen3_vl", [24, 20, 20])]
AXES += [("qwen3_vl", [11, 11, 10])]  # Qwen 4: most of its 128 pairs belong to time
AXES += [("ernie4_5_vl_moe", [22, 22, 20])]  # sections of rows, columns and frames, in this order


@pytest.mark.parametrize(("kind", "sections"), AXES)
def test_three_axes_turn_as_the_model_of_a_config_rotates_them(kind, sections, written):
    """Text has one id for all axes, and image patches have one id for each of three axes."""
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
    values = sized(f"{kind}_text", 512, 4, 64, head_dim=128, rope_parameters=rope)
    q, k = heads(7, d=128)
    positions = torch.randint(0, 40, (3, 3, 7))
    expected = by_transformers(values, q, k, positions)
    rotary = Rotary(written(values))
    assert_close(rotary.rotate(q, k, position_ids=positions), expected)
    text = torch.arange(7).expand(3, 3, 7)
    assert_close(rotary.rotate(q, k, position_ids=text), rotary.rotate(q, k))
    compiled = torch.compile(rotary.rotate, fullgraph=True, backend="eager")
    assert_close(compiled(q, k, positions), expected)


def test_without_torch_the_error_names_the_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "pefourier.nn")
    with pytest.raises(ModuleNotFoundError) as caught:
        import_module("pefourier.nn")
    assert caught.value.name == "torch"

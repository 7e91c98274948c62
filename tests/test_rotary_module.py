"""Rotations and biases as torch modules, beside the models' own code and the slow formula."""

import json
import shutil

import numpy as np
import pytest
import torch
from rotary_modules import config_class, modeling, quiet

from pefourier import compare
from pefourier.encodings import load
from pefourier.errors import PefourierError
from pefourier.nn import Bias, PositionalEncoding, Rotary, turn
from pefourier.train.injection import load_injection

torch.manual_seed(0)
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5e5}
LLAMA |= {"max_position_embeddings": 32, "head_dim": 16}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 16}
LONG = {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 32}
LONG |= {"short_factor": [1.0] * 8, "long_factor": [1.0 + i for i in range(8)]}
CONFIGS = {
    "llama": LLAMA,
    "linear": LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "dynamic": LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "yarn": LLAMA | {"rope_scaling": YARN},
    "llama3": LLAMA | {"rope_scaling": LLAMA3},
    "longrope": LLAMA | {"model_type": "phi3", "rope_scaling": LONG, "pad_token_id": 0},
    "qwen2": LLAMA | {"model_type": "qwen2", "rope_theta": 1e6},
    "gpt_neox": LLAMA | {"model_type": "gpt_neox", "rotary_pct": 0.25, "intermediate_size": 64},
    "glm": LLAMA | {"model_type": "glm", "partial_rotary_factor": 0.5},
    "nanochat": LLAMA | {"model_type": "nanochat"},  # turns the other way
    "cohere": LLAMA | {"model_type": "cohere"},
}


@pytest.fixture
def written(tmp_path):
    def write(values):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(values))
        return str(path)

    return write


def heads(n, d=16, count=2, dtype=torch.float32):
    return torch.randn(3, count, n, d).to(dtype), torch.randn(3, 1, n, d).to(dtype)


def by_transformers(values, q, k, positions):
    """Queries and keys as the model's own rotary module and function turn them."""
    with quiet():
        config = config_class(values["model_type"]).from_dict(json.loads(json.dumps(values)))
        module = modeling(type(config).__module__)
        (cls,) = (v for n, v in vars(module).items() if n.endswith("RotaryEmbedding"))
        cosine, sine = cls(config)(q, positions)
        return module.apply_rotary_pos_emb(q, k, cosine, sine)


@pytest.mark.parametrize("n", [7, 80])
@pytest.mark.parametrize("name", CONFIGS)
def test_queries_and_keys_are_those_of_transformers(name, n, written):
    values = CONFIGS[name]
    q, k = heads(n)
    positions = torch.arange(n).expand(3, n)
    expected = by_transformers(values, q, k, positions)
    rotary = Rotary(written(values))
    for found in (rotary.rotate(q, k), rotary.rotate(q, k, positions=positions)):
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["llama", "yarn", "qwen2", "glm"])
def test_the_cosines_and_sines_of_transformers_are_those_of_its_config(name, written):
    """They hold each wave twice, which was no reason to say that a model is not the same."""
    values = CONFIGS[name]
    with quiet():
        config = config_class(values["model_type"]).from_dict(json.loads(json.dumps(values)))
        module = modeling(type(config).__module__)
        (cls,) = (v for n, v in vars(module).items() if n.endswith("RotaryEmbedding"))
        waves = cls(config)(torch.zeros(1), torch.arange(30)[None])
    tables = [np.hstack([one[0].numpy() for one in order]) for order in (waves, waves[::-1])]
    found, turned_round = (compare(written(values), table) for table in tables)
    assert (found.same, found.conclusion[:10]) == (True, "THE SAME. ")
    assert not turned_round.same
    assert not compare(written(values | {"rope_theta": 4e5}), tables[0]).same


def test_one_rotation_of_several_is_named(written):
    types = {"sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}
    types["full_attention"] = {"rope_theta": 1e6, "rope_type": "default"}
    path = written({"model_type": "gemma3_text", "head_dim": 16, "rope_parameters": types})
    for layer, parameters in types.items():
        turned = Rotary(path, layer_type=layer).frequencies
        torch.testing.assert_close(turned, parameters["rope_theta"] ** (-torch.arange(8) / 8))
    with pytest.raises(PefourierError, match="full_attention"):
        Rotary(path)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize("max_length", [None, 40])
def test_pairs_turn_by_the_formula(layout, max_length):
    rotary = Rotary(f"rope:layout={layout},partial=0.5", 16, max_length=max_length)
    assert f"layout={layout}" in repr(rotary)
    q, k = heads(5)
    found, _ = rotary.rotate(q, k, offset=30)
    pairs = [(2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + 4) for i in range(4)]
    expected = q.clone()
    for i, (a, b) in enumerate(pairs):
        z = torch.complex(q[..., a], q[..., b])
        z = z * torch.exp(1j * torch.arange(30, 35) * 1e4 ** (-2 * i / 8))
        expected[..., a], expected[..., b] = z.real, z.imag
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    shuffled = torch.tensor([34, 30, 31, 30, 33])
    again, _ = rotary.rotate(q, k, positions=shuffled)
    torch.testing.assert_close(again[..., 1, :], rotary.rotate(q, k, offset=29)[0][..., 1, :])


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize("shape", [(2, 5, 3, 8), (2, 5, 3, 9), (2, 5, 3, 4)])
def test_what_is_fast_is_what_is_differentiated(layout, shape):
    """Heads not first in memory, dimensions left over, an odd head; and gradients turn back."""
    x = torch.randn(*shape).transpose(1, 2)
    cosine, sine = torch.randn(2, 5, 2)
    followed = x.clone().requires_grad_()
    slow = turn(followed, cosine, sine, layout)
    torch.testing.assert_close(turn(x, cosine, sine, layout), slow.detach())
    (slow * x).sum().backward()
    torch.testing.assert_close(followed.grad, turn(x, cosine, -sine, layout))


@pytest.mark.parametrize(
    ("spec", "own"),
    [("axial-rope", {"grid": (3, 4)}), ("mixed-rope:heads=2", {"grid": (3, 4)}), ("xpos", {})],
)
def test_products_are_those_of_the_codes(spec, own):
    """q and k of one pair each: their product is that of the angle between, and of the decay."""
    rotary = Rotary(spec, 8, max_length=None if own else 12, **own)
    enc = load(spec, length=12, d=8, **own)
    pairs = 4
    layout = rotary.layout
    table = enc.table().reshape(12, rotary.heads or 1, -1) if rotary.heads else enc.table()[:, None]
    for i in range(pairs):
        a, b = (i, i + pairs) if layout == "halves" else (2 * i, 2 * i + 1)
        x = torch.zeros(1, table.shape[1], 12, 8)
        x[..., a] = 1.0
        q, k = rotary.rotate(x, x)
        for h in range(table.shape[1]):
            z = table[:, h, a] + 1j * table[:, h, b]
            expected = np.real(np.outer(z, 1 / z))
            np.testing.assert_allclose((q[0, h] @ k[0, h].T).numpy(), expected, atol=1e-5)
    points = torch.tensor([[11, 0, 5]])
    some = rotary.rotate(x[:, :, [11, 0, 5]], x[:, :, [11, 0, 5]], positions=points)
    assert torch.equal(some[0], q[:, :, [11, 0, 5]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("max_length", [None, 5000])
def test_phases_are_float32_in_half_precision(dtype, max_length):
    rotary = Rotary("rope", 16, max_length=max_length).to(dtype)
    q, k = heads(4, dtype=dtype)
    found, _ = rotary.rotate(q, k, offset=4900)
    exact, _ = Rotary("rope", 16).rotate(q.float(), k.float(), offset=4900)
    assert found.dtype == dtype
    assert torch.equal(found, exact.to(dtype))


SPEC_OF = {
    "rope": lambda: Rotary("rope", 16),
    "table": lambda: Rotary("rope", 16, max_length=9),
    "dynamic": lambda: Rotary("rope:scaling=dynamic,factor=2,original=4", 16),
}


@pytest.mark.parametrize("name", SPEC_OF)
def test_a_module_of_meta_gets_its_tables_with_its_memory(name):
    with torch.device("meta"):
        module = SPEC_OF[name]()
    q, k = heads(6)
    with pytest.raises(PefourierError, match="meta"):
        module.rotate(q, k)
    assert module.rotate(q.to("meta"), k.to("meta"))[0].is_meta
    module = module.to_empty(device="cpu")
    for one, other in zip(module.rotate(q, k), SPEC_OF[name]().rotate(q, k), strict=True):
        assert torch.equal(one, other)
    with torch.device("meta"):
        added = PositionalEncoding("dft", 8, 8)
    added.to_empty(device="cpu")
    assert torch.equal(added.codes, PositionalEncoding("dft", 8, 8).codes)


def test_no_table_is_in_a_state_dict():
    modules = [one() for one in SPEC_OF.values()]
    modules += [PositionalEncoding("dft", 8, 8), Bias("alibi", 2, 8), Bias("swin", 2, grid=(2, 3))]
    assert [list(one.state_dict()) for one in modules] == [[]] * 5 + [["codes"]]
    trained = PositionalEncoding("learned", 8, 8)
    assert list(trained.state_dict()) == ["codes"]


class Attention(torch.nn.Module):
    def __init__(self, rotary):
        super().__init__()
        self.rotary = rotary

    def forward(self, q, k):
        return self.rotary.rotate(q, k)


@pytest.mark.parametrize("name", SPEC_OF)
def test_one_graph_holds_it(name):
    """torch.compile without a break, and torch.export."""
    module, (q, k) = Attention(SPEC_OF[name]()), heads(6)
    expected = module(q, k)
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    exported = torch.export.export(module, (q, k)).module()
    for one in (compiled, exported):
        for x, y in zip(one(q, k), expected, strict=True):
            torch.testing.assert_close(x, y)


COMPILED = {  # a call of a module, of what it is given
    **{
        f"Rotary {name}": lambda name=name: (Attention(SPEC_OF[name]()), heads(6))
        for name in SPEC_OF
    },
    "Rotary of neighbours in bfloat16": lambda: (
        Attention(Rotary("rope:layout=interleaved,partial=0.5", 16)),
        heads(6, dtype=torch.bfloat16),
    ),
    "Bias": lambda: (Bias("alibi", 2, 8), (6, 7)),
    "PositionalEncoding": lambda: (PositionalEncoding("dft", 8, 8), (torch.randn(2, 5, 8),)),
}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of torch about itself
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs g++, which is not here")
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_code_computes_the_same(name, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    module, given = COMPILED[name]()
    found = torch.compile(module, fullgraph=True, backend="inductor")(*given)
    torch.testing.assert_close(found, module(*given))


@pytest.mark.parametrize("spec", ["alibi", "kerple", "t5", "swin"])
def test_biases_are_those_that_training_adds(spec):
    grid = (2, 3) if spec == "swin" else ()
    bias = Bias(spec, 4, None if grid else 6, grid=grid, dtype=torch.float64)
    injected = load_injection(spec, 6, 16, 4, 0, grid=grid).table().reshape(6, 6, 4)
    np.testing.assert_array_equal(bias(6).detach().permute(1, 2, 0).numpy(), injected)
    np.testing.assert_array_equal(bias(2, 6).detach().permute(1, 2, 0).numpy(), injected[4:])
    q, k = torch.tensor(1), torch.tensor(4)
    one = bias.score_mod(torch.tensor(0.5), torch.tensor(0), torch.tensor(3), q, k)
    assert one.item() == injected[1, 4, 3] + 0.5


def test_positions_choose_codes():
    module = PositionalEncoding("dft", 8, 8)
    chosen = torch.tensor([[0, 1, 2, 0], [7, 6, 5, 4]])
    x = torch.randn(2, 4, 8)
    torch.testing.assert_close(module(x, positions=chosen), x + module.codes[chosen])
    with pytest.raises(PefourierError, match=r"^positions 0 … 8 are outside 0 … 7$"):
        module(x, positions=chosen.clone().fill_(8).index_fill_(0, torch.tensor(0), 0))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: Rotary("dft", 8), "dft is no rotation: attention takes it as 'add'"),
        (lambda: Rotary("rope", 8, rhoo=5.0), "rope has no parameter rhoo; 'pefourier list'"),
        (lambda: Bias("alibi", 2, 8, slope=1), "alibi has no parameter slope; 'pefourier list'"),
        (lambda: Rotary("xpos", 8), "xpos has a table of rotations; give max_length"),
        (lambda: Bias("rope", 8, 9), "rope is no bias of 8 heads by displacement"),
        (lambda: Bias("alibi:causal=true", 8, 9), "has no numbers for later keys; leave out"),
        (lambda: Bias("alibi", 2, 4)(5), "5 queries and 5 keys; at most 4 keys are known"),
        (lambda: Bias("alibi", 2), "a bias has a max_length, or a grid of points; give one"),
        (lambda: Rotary("rope", 8).rotate(*heads(4)), r"got float32 of shape \(3, 2, 4, 16\)"),
        (lambda: Rotary("rope", 16).rotate(heads(4)[0], heads(5)[0]), "4 queries and 5 keys"),
        (
            lambda: Rotary("rope", 16, max_length=4).rotate(*heads(3), offset=2),
            "positions 2 … 4 are outside 0 … 3",
        ),
        (
            lambda: Rotary("rope", 16).rotate(*heads(3), positions=torch.arange(4)),
            r"expected positions \(3,\) or \(3, 3\); got \(4,\)",
        ),
        (
            lambda: Rotary("rope", 16).rotate(*heads(3), positions=torch.arange(3), offset=1),
            "positions and offset exclude each other",
        ),
        (
            lambda: Rotary("mixed-rope:heads=3", 16, grid=(2, 2)).rotate(*heads(4)),
            "turns 3 heads; got 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(act, message):
    with pytest.raises(PefourierError, match=message) as error:
        act()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "sections"),
    [
        ("qwen2_vl", [16, 24, 24]),
        ("qwen3_vl", [24, 20, 20]),
        ("qwen3_vl", [11, 11, 10]),  # by which Qwen 4 turns 128 pairs, most of them by time
        ("qwen3_vl", [20, 22, 22]),
        ("ernie4_5_vl_moe", [22, 22, 20]),  # rows, columns and frames: rows first
    ],
)
def test_three_axes_turn_as_the_model_of_a_config_turns_them(kind, sections, written):
    """Text has one id for all axes; patches of an image have three."""
    sizes = {"hidden_size": 512, "num_attention_heads": 4, "head_dim": 128}
    values = {"model_type": f"{kind}_text", "max_position_embeddings": 64, **sizes}
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
    with quiet():
        config = config_class(f"{kind}_text").from_dict(values | {"rope_parameters": rope})
        module = modeling(type(config).__module__)
        names = ("TextRotaryEmbedding", "Qwen2VLRotaryEmbedding")
        (cls,) = (v for n, v in vars(module).items() if n.endswith(names))
        turns = cls(config)
    q, k = heads(7, d=128)
    positions = torch.randint(0, 40, (3, 3, 7))
    expected = module.apply_rotary_pos_emb(q, k, *turns(q, positions))
    rotary = Rotary(written(values | {"rope_parameters": rope}))
    for one, other in zip(rotary.rotate(q, k, positions=positions), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-5)
    text = torch.arange(7).expand(3, 3, 7)
    for one, other in zip(rotary.rotate(q, k, positions=text), rotary.rotate(q, k), strict=True):
        torch.testing.assert_close(one, other)
    found = torch.compile(rotary.rotate, fullgraph=True, backend="eager")(q, k, positions)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_narrow_types_are_turned_in_parts_as_whole(layout, monkeypatch):
    """By angles of all, and by those of each of a batch; heads not first in memory."""
    import pefourier.nn

    x = torch.randn(2, 9, 5, 20).transpose(1, 2).to(torch.bfloat16)
    for shape in ((9, 8), (2, 1, 9, 8)):
        cosine, sine = torch.randn(2, *shape)
        whole = turn(x.float(), cosine, sine, layout).to(torch.bfloat16)
        for block in (1, 100, 2**18):
            monkeypatch.setattr(pefourier.nn, "BLOCK", block)
            assert torch.equal(turn(x, cosine, sine, layout), whole)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(("spec", "grid"), [("alibi", ()), ("t5", ()), ("swin", (4, 4))])
def test_flex_attention_adds_a_bias(spec, grid):
    flex = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention
    bias = Bias(spec, 2, None if grid else 16, grid=grid, learn=False)
    q, k, v = torch.randn(3, 1, 2, 16, 16)
    weights = torch.softmax(q @ k.transpose(2, 3) / 4 + bias(16), -1)
    torch.testing.assert_close(flex(q, k, v, score_mod=bias.score_mod), weights @ v)

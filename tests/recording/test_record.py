"""Recordings of running models: what is recorded, what is checked, and what stays as it was."""

import contextlib
import sys
from unittest import mock

import numpy as np
import pytest
from refusals import refusal
from rotary_modules import TYPES
from sweep_models import EXCEPTIONS, TOKENS, batch, checks, checks_of_type, quiet, tiny, torch
from torch import nn
from torch.nn import functional
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import pefourier

FAST = ("llama", "gemma3_text", "gpt2", "smollm3")
FAULTY = (
    "llama qwen2 qwen3 mistral gemma gemma2 gemma3_text olmo olmo2 phi phi3 cohere starcoder2 "
    "granite stablelm gpt_neox mixtral smollm3 persimmon glm"
).split()


def run(model, **batch):
    with quiet(), torch.no_grad(), pefourier.record(model) as seen:
        model(**batch)
    return seen


def codes(seen, spec=None):
    """Return the codes of causes and the verdict."""
    check = seen.check(spec)
    return {cause["code"] for group in check.layers for cause in group.causes}, check.verdict


@pytest.fixture(scope="module")
def llama():
    return tiny("llama")


@pytest.fixture
def ids():
    return batch()[0][1:]


def test_outputs_and_functions_are_as_before(llama, ids):
    source = sys.modules[type(llama).__module__]
    kept = [source.apply_rotary_pos_emb, functional.scaled_dot_product_attention]
    functions = dict(ALL_ATTENTION_FUNCTIONS)
    with torch.no_grad():
        before = llama(ids).logits
        with pefourier.record(llama) as outer, pefourier.record(llama) as inner:
            assert torch.equal(llama(ids).logits, before)
            assert source.apply_rotary_pos_emb is not kept[0]
    with pytest.raises(TypeError), pefourier.record(llama):
        llama(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    assert kept == [source.apply_rotary_pos_emb, functional.scaled_dot_product_attention]
    assert functions == dict(ALL_ATTENTION_FUNCTIONS)
    hooks = (m._forward_hooks or m._forward_pre_hooks for m in llama.modules())
    assert not any(hooks)
    assert codes(outer) == codes(inner) == (set(), "as expected")


def test_few_heads_and_tokens_are_kept(llama, ids):
    with pefourier.record(llama, heads=1, tokens=TOKENS) as seen:
        llama(ids)
        llama(ids)
    layer = seen.sequences[0].layers[0]
    assert layer.q_before.shape == (1, 1, TOKENS, 16)
    assert isinstance(layer.q_before, np.ndarray)
    assert seen.left_out == 1


@pytest.mark.parametrize("kind", FAST)
def test_models_agree_with_their_config(kind):
    found = checks(tiny(kind))
    verdicts = [(name, check.verdict) for name, check in found.items()]
    assert verdicts == [("forward", "as expected"), ("generate", "as expected")]
    assert sorted({i for g in found["forward"].layers for i in g.layers}) == [0, 1]


@pytest.mark.long
def test_many_types_agree_with_their_config():
    found = {kind: checks_of_type(kind) for kind in TYPES}
    verdicts = {kind: {c.verdict for c in of.values()} for kind, of in found.items() if of}
    assert sum(of == {"as expected"} for of in verdicts.values()) >= 80
    different = {kind for kind, of in verdicts.items() if "different" in of}
    assert different <= EXCEPTIONS.keys()


@contextlib.contextmanager
def rotating(model, change):
    """Replace the function that rotates."""
    source = sys.modules[type(model).__module__]
    function = source.apply_rotary_pos_emb
    with mock.patch.object(source, "apply_rotary_pos_emb", change(function)):
        yield


@contextlib.contextmanager
def frequencies(model, change):
    """Change the inverse frequencies of all rotary modules."""
    own = [b for name, b in model.named_buffers() if name.endswith("inv_freq")]
    kept = [b.clone() for b in own]
    for buffer in own:
        buffer.copy_(change(buffer))
    yield
    for buffer, old in zip(own, kept, strict=True):
        buffer.copy_(old)


@contextlib.contextmanager
def masks(model, change):
    """Change the masks that layers get."""

    def enter(_, args, kwargs):
        return args, {**kwargs, "attention_mask": change(kwargs["attention_mask"])}

    layers = [m for name, m in model.named_modules() if name.endswith(("layers.0", "layers.1"))]
    handles = [m.register_forward_pre_hook(enter, with_kwargs=True) for m in layers]
    model.config._attn_implementation = "eager"
    yield
    model.config._attn_implementation = "sdpa"
    for handle in handles:
        handle.remove()


def twice(function):
    def rotate(q, k, *waves, **more):
        q, k = function(q, k, *waves, **more)
        return q, function(k, k, *waves, **more)[1]

    return rotate


def backwards(function):
    return lambda q, k, cos, sin, *rest, **more: function(q, k, cos, -sin, *rest, **more)


def neighbours(function):
    """Rotate neighbours in place of halves."""

    def rotate(q, k, cos, sin, *rest, **more):
        r = cos.shape[-1]
        order = torch.cat(
            [torch.arange(0, r, 2), torch.arange(1, r, 2), torch.arange(r, q.shape[-1])]
        )
        q, k = function(q[..., order], k[..., order], cos, sin, *rest, **more)
        return q[..., order.argsort()], k[..., order.argsort()]

    return rotate


def decoded(model, ids, place):
    """Record a prompt and three steps with a cache, at places of their own."""
    with quiet(), torch.no_grad(), pefourier.record(model) as seen:
        cache = model(input_ids=ids, use_cache=True).past_key_values
        for i in range(3):
            given = {"past_key_values": cache, "position_ids": torch.tensor([[place(i)]])}
            model(input_ids=ids[:, i : i + 1], use_cache=True, **given)
    return seen


def planted(model, ids):
    """Yield the name of each planted fault, the codes that name it, and its recording."""
    rows, mask = batch()
    due = (mask.cumsum(1) - 1).clamp(min=0)
    padded = {"input_ids": rows, "attention_mask": mask}
    line = torch.arange(TOKENS)[None]
    yield "right", set(), run(model, input_ids=ids)
    yield "right batch", set(), run(model, **padded, position_ids=due)
    yield "right steps", set(), decoded(model, ids, lambda i: TOKENS + i)
    yield "no offset", {"cache-offset"}, decoded(model, ids, lambda _: 0)
    yield "ids + 1", {"shifted"}, run(model, input_ids=ids, position_ids=line + 1)
    counted = run(model, **padded, position_ids=line.expand(2, -1))
    yield "padding counted", {"padding-counted"}, counted
    yield "other row", {"other-row"}, run(model, **padded, position_ids=due[[0, 0]])
    base = model.config.rope_parameters.get("rope_theta") or 1e4
    other = 7e5 if base == 5e5 else 5e5
    with frequencies(model, lambda b: b ** (np.log(other) / np.log(base))):
        yield "base", {"base"}, run(model, input_ids=ids)
    for name, code, change in (
        ("twice", "rotated-twice", twice),
        ("sign", "inverted", backwards),
        ("neighbours", "layout", neighbours),
    ):
        with rotating(model, change):
            yield name, {code}, run(model, input_ids=ids)
    with masks(model, lambda mask: mask.transpose(-1, -2)):
        yield "transposed", {"mask-transposed"}, run(model, input_ids=ids)
    if getattr(model.config, "sliding_window", None):
        hidden = torch.full((1, 1, TOKENS, TOKENS), torch.finfo(torch.float32).min).triu(1)
        with masks(model, lambda _: hidden):
            yield "window", {"window-ignored"}, run(model, input_ids=ids)


def keys_apart(function):
    """Return keys whose columns are in another order than those of queries."""

    def rotate(q, k, *waves, **more):
        q, k = function(q, k, *waves, **more)
        return q, torch.stack(k.chunk(2, -1), -1).flatten(-2)

    return rotate


def test_orders_of_columns_of_queries_and_keys_must_agree(llama, ids):
    with rotating(llama, keys_apart):
        assert codes(run(llama, input_ids=ids)) == ({"layout"}, "different")


def test_two_faults_are_told_together(llama, ids):
    after = torch.arange(TOKENS)[None] + 1
    with frequencies(llama, lambda b: b ** (np.log(5e5) / np.log(1e4))):
        assert codes(run(llama, input_ids=ids, position_ids=after))[0] == {"base", "shifted"}
        with rotating(llama, neighbours):
            assert codes(run(llama, input_ids=ids))[0] == {"base", "layout"}
    with rotating(llama, lambda function: backwards(neighbours(function))):
        assert codes(run(llama, input_ids=ids))[0] == {"inverted", "layout"}


@pytest.mark.parametrize(
    ("kinds", "share"),
    [(["llama", "mistral"], 0), pytest.param(FAULTY, 0.1, marks=pytest.mark.long)],
)
def test_planted_faults_are_named(ids, kinds, share):
    """Each planted fault is named, by default, and no right model is called wrong."""
    missed, count = [], 0
    for kind in kinds:
        for name, wanted, seen in planted(tiny(kind), ids):
            found, verdict = codes(seen)
            if not wanted:
                assert (found, verdict) == (set(), "as expected"), (kind, name)
                continue
            count += 1
            if not found & wanted:
                missed.append((kind, name, found))
    assert count >= 9 * len(kinds)
    assert len(missed) <= share * count, missed


@pytest.mark.parametrize(
    ("scaling", "change", "code"),
    [
        ({"rope_type": "linear", "factor": 4.0}, "frequencies", "scaling-ignored"),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
            "factor",
            "mscale",
        ),
    ],
)
def test_scaling_and_its_factor_are_named(scaling, change, code, ids):
    model = tiny("llama", rope_parameters={"rope_theta": 1e4, **scaling})
    assert codes(run(model, input_ids=ids)) == (set(), "as expected")
    rotary = model.model.rotary_emb
    faulty = (
        frequencies(model, lambda b: 4 * b)
        if change == "frequencies"
        else mock.patch.object(rotary, "attention_scaling", 1.0)
    )
    with faulty:
        assert codes(run(model, input_ids=ids)) == ({code}, "different")


@pytest.mark.parametrize(("rotates", "code"), [(0, "rotated"), (1, "unrotated")])
def test_a_layer_that_rotates_unlike_its_config_is_named(ids, rotates, code):
    model = tiny("smollm3", no_rope_layers=[1, rotates])
    assert codes(run(model, input_ids=ids)) == (set(), "as expected")
    model.model.layers[1].self_attn.use_rope = not rotates
    check = run(model, input_ids=ids).check()
    found = {group.layers: [c["code"] for c in group.causes] for group in check.layers}
    assert found == {(0,): [], (1,): [code]}


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        ("bloom", "_get_alibi_slopes", lambda slopes: 2 * slopes, "scaled"),
        ("bloom", "_get_alibi_slopes", lambda slopes: slopes[[1, 0, 2, 3]], "heads-reordered"),
        ("mpt", "build_mpt_alibi_tensor", lambda bias: bias / 2, "scaled"),
    ],
)
def test_biases_are_compared_head_by_head(kind, name, change, code):
    model = tiny(kind)
    ids, mask = batch()
    given = {"input_ids": ids, "attention_mask": mask}
    assert codes(run(model, **given)) == (set(), "as expected")
    source = sys.modules[type(model).__module__]
    function = getattr(source, name)
    with mock.patch.object(source, name, lambda *x, **y: change(function(*x, **y))):
        assert codes(run(model, **given)) == ({code}, "different")


def test_biases_of_buckets_are_those_of_the_weights(ids):
    model = tiny("t5")
    given = {"input_ids": ids, "decoder_input_ids": ids}
    assert codes(run(model, **given)) == (set(), "as expected")
    attention = type(model.encoder.block[0].layer[0].SelfAttention)
    own = attention._relative_position_bucket
    closer = staticmethod(lambda x, **more: own(x, **{**more, "max_distance": 10}))
    with mock.patch.object(attention, "_relative_position_bucket", closer):
        assert codes(run(model, **given))[1] == "different"


class Own(nn.Module):
    """Attention of a model of one's own, with a rotation from a package."""

    def __init__(self):
        from rotary_embedding_torch import RotaryEmbedding

        super().__init__()
        self.rotary, self.qkv = RotaryEmbedding(dim=16), nn.Linear(64, 192)

    def forward(self, x):
        rows, tokens, width = x.shape
        parts = self.qkv(x).split(width, 2)
        q, k, v = (y.view(rows, tokens, 4, -1).transpose(1, 2) for y in parts)
        q, k = map(self.rotary.rotate_queries_or_keys, (q, k))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).reshape(rows, tokens, width)


def test_own_model_is_checked_against_a_spec():
    with pefourier.record(nn.Sequential(Own(), Own())) as seen:
        seen.model(torch.randn(2, 9, 64))
    assert codes(seen, "rope") == (set(), "as expected")
    assert codes(seen, "rope:rho=5e5") == ({"base"}, "different")


def test_x_transformers_are_checked_against_a_spec():
    x = pytest.importorskip("x_transformers")
    layers = x.Decoder(dim=64, depth=2, heads=4, attn_dim_head=32, rotary_pos_emb=True)
    model = x.TransformerWrapper(num_tokens=99, max_seq_len=64, attn_layers=layers)
    seen = run(model, x=batch()[0])
    assert codes(seen, "rope:d=32,partial=0.5") == (set(), "as expected")
    assert codes(seen, "rope:d=32,partial=0.5,rho=5e5") == ({"base"}, "different")


def own_rotation(x):
    """Rotate by the position times one."""
    angle = torch.arange(x.shape[2])[:, None] * 1e4 ** (-torch.arange(8) / 8)
    a, b = x[..., :8], x[..., 8:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class Plain(nn.Module):
    """Attention that rotates by a function of another name."""

    def forward(self, x):
        q = k = x.view(*x.shape[:2], 4, 16).transpose(1, 2)
        return functional.scaled_dot_product_attention(own_rotation(q), own_rotation(k), q)


def test_functions_of_other_names_are_given():
    for rotate in (own_rotation, f"{__name__}:own_rotation"):
        with pefourier.record(nn.Sequential(Plain()), rotate=rotate) as seen:
            seen.model(torch.randn(1, 9, 64))
        assert codes(seen, "rope") == (set(), "as expected")
    with pefourier.record(nn.Sequential(Plain())) as seen:
        seen.model(torch.randn(1, 9, 64))
    assert codes(seen, "rope") == (set(), "partly seen")


def test_commands_read_the_file(llama, tmp_path):
    path, config = str(tmp_path / "seen.npz"), str(tmp_path)
    llama.config.save_pretrained(config)
    rows, mask = batch()
    with quiet(), pefourier.record(llama) as seen:
        llama.generate(input_ids=rows, attention_mask=mask, max_new_tokens=3, do_sample=False)
    seen.save(path)
    with np.load(path, allow_pickle=False) as file:
        assert file["layer1.k_after"].shape[:3] == (2, 2, TOKENS + 2)
        assert '"steps": [20, 1, 1]' in str(file["about"])
    assert pefourier.positions(path, config=config).verdict == "as expected"
    assert pefourier.compare(config + "/config.json", path).verdict == "the same"
    assert pefourier.compare("rope:rho=5e5,d=16", path).to_dict()["causes"][0]["code"] == "base"
    assert {use.layer for use in pefourier.usage(config, stats=path).heads} == {0, 1}


class Compiled(nn.Module):
    """A model as torch.compile keeps it, which takes seconds to import."""

    def __init__(self):
        super().__init__()
        self._orig_mod = nn.Linear(2, 2)


@pytest.mark.parametrize("model", [3, "llama", Compiled()])
def test_what_cannot_be_recorded_is_refused(model):
    with refusal():
        pefourier.record(model)


def test_recordings_without_attention_or_config_are_refused(tmp_path):
    with pefourier.record(nn.Linear(2, 2)) as seen:
        seen.model(torch.ones(1, 2))
    for ask in (seen.check, lambda: seen.save(str(tmp_path / "a.npz"))):
        with refusal():
            ask()
    with pefourier.record(nn.Sequential(Own())) as seen:
        seen.model(torch.randn(2, 9, 64))
    with refusal():
        seen.check()
    for rotate in ("nowhere:f", "math:nothing", "math"):
        with refusal(), pefourier.record(nn.Linear(2, 2), rotate=rotate):
            pass


def test_masks_that_no_rule_gives_are_partly_seen(llama, ids):
    with masks(llama, lambda mask: mask.roll(1, -1)):
        assert codes(run(llama, input_ids=ids)) == (set(), "partly seen")

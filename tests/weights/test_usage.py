"""The frequencies that weights use equal the definition, score tensors and transformers."""

import html
import json
import re
import shlex
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from findings import codes
from numpy.testing import assert_allclose
from refusals import refusal
from safetensors.numpy import save_file
from tiny_models import CONFIG, random_tensors, write_model

import pefourier
from pefourier.questions.usage import use_of_model
from pefourier.weights.model import (
    energies_at,
    find_attentions,
    list_tensors,
    open_model_weights,
    rotations_of_model,
)
from pefourier.writing.text import percent

pytestmark = pytest.mark.usefixtures("folder")
Q, K = (f"model.layers.0.self_attn.{name}_proj.weight" for name in "qk")
NORM = "model.layers.0.input_layernorm.weight"
HALVES, NEIGHBOURS = np.arange(8).reshape(2, 4).T, np.arange(8).reshape(4, 2)
PAIRS = {"halves": HALVES, "neighbours": NEIGHBOURS}


def by_definition(q, k, gain, pairs, heads=4, kv=2):
    """Return the shares of each head: energies of a pair's rows in queries times those in keys."""
    q, k = (
        ((rows * gain) ** 2).sum(axis=1).reshape(count, -1)[:, pairs].sum(axis=2)
        for rows, count in ((q, heads), (k, kv))
    )
    shares = q * k.repeat(heads // kv, axis=0)
    return shares / shares.sum(axis=1, keepdims=True)


FLOATS = "float32 bfloat16 float16 float64 float8_e4m3fn float8_e5m2"


@pytest.mark.parametrize(("kind", "pairs"), [("llama", HALVES), ("ernie4_5", NEIGHBOURS)])
@pytest.mark.parametrize("dtype", FLOATS.split())
def test_shares_are_those_of_the_definition(tmp_path, kind, pairs, dtype):
    path = write_model(tmp_path, model_type=kind, num_hidden_layers=2)
    stored = {n: torch.tensor(a).to(getattr(torch, dtype)) for n, a in random_tensors().items()}
    safetensors.torch.save_file(stored, tmp_path / "model.safetensors")
    usage = use_of_model(path)
    q, k, gain = (stored[name].double().numpy() for name in (Q, K, NORM))
    assert_allclose(usage.shares[0].product, by_definition(q, k, gain, pairs), rtol=2e-5)
    named = "halves" if kind == "llama" else "neighbours"
    assert (usage.pairing.name, usage.pairing.source) == (named, "config")
    means = np.mean([layer.product.mean(axis=0) for layer in usage.shares], axis=0)
    assert [pair.share for pair in usage.rotations[0].pairs] == pytest.approx(means)


def changed(tensors, change):
    """Return the tensors with queries and keys of layer 0 changed, both (heads, 8, columns)."""
    columns = tensors[Q].shape[1]
    heads = [tensors[name].astype(float).reshape(-1, 8, columns) for name in (Q, K)]
    own = [array.reshape(-1, columns).astype(np.float32) for array in change(*heads)]
    return tensors | dict(zip((Q, K), own, strict=True))


def test_planted_pairs_are_found_and_reported(tmp_path):
    """The shares of planted pairs are reported: the slowest in three heads, the fastest in one."""

    def plant(q, k):
        q, k = np.zeros_like(q), np.ones_like(k)
        q[:, [3, 7]], q[1] = 1.0, 0.0
        q[1, [0, 4]] = 1.0
        return q, k

    tensors = changed(random_tensors(), plant)
    path = write_model(tmp_path, tensors, rope_theta=1e6, max_position_embeddings=1024)
    usage = use_of_model(path, layers=range(1))
    (rotation,) = usage.rotations
    assert [pair.share for pair in rotation.pairs] == pytest.approx([0.25, 0, 0, 0.75])
    never, often = rotation.never_turn, rotation.often
    assert (never.product, often.product) == pytest.approx((0.75, 0.25))
    assert (never.pairs, never.uniform, often.pairs) == (2, 0.5, 1)
    fastest = 1024 / 2 / np.pi
    assert [p.turns for p in rotation.pairs][:2] == pytest.approx([fastest, fastest / 1e6**0.25])
    assert rotation.effective_pairs == pytest.approx(1.0)
    assert [kind["portion"].pairs for kind in usage.kinds] == [1, 1, 1, 1, 2, 1]


LONG = {**CONFIG, "head_dim": 64, "rope_theta": 1e4, "max_position_embeddings": 4096}
SLOW, EVEN = np.repeat([1.0, 3.0], 16), np.ones(32)  # factors of pairs
APART = [  # factors of queries and of keys, by layer; verdict; codes
    ([(EVEN, EVEN)] * 2, "no preference", set()),
    ([(SLOW[::-1], SLOW[::-1]), (SLOW, SLOW)], "by layer", {"usage-layers-differ"}),
    ([(EVEN, SLOW), (EVEN, SLOW[::-1])], "by layer", {"usage-layers-differ"}),
    ([(SLOW, SLOW[::-1])] * 2, "no preference", {"usage-queries-keys-differ"}),
    ([(SLOW, EVEN)] * 2, "slow pairs favoured", {"usage-queries-keys-differ"}),
    ([(SLOW, SLOW)] * 2, "slow pairs favoured", set()),
]


@pytest.mark.parametrize(("factors", "verdict", "codes"), APART)
def test_parts_that_use_other_frequencies_are_reported(tmp_path, run, factors, verdict, codes):
    tensors = random_tensors(LONG)
    for layer, of in enumerate(factors):
        for name, pairs in zip("qk", of, strict=True):
            key = f"model.layers.{layer}.self_attn.{name}_proj.weight"
            rows = np.tile(pairs, 2 * len(tensors[key]) // 64).astype("f4")
            tensors[key] = tensors[key] * rows[:, None]
    usage = use_of_model(write_model(tmp_path, tensors, **LONG))
    assert usage.verdict == verdict
    assert {f.code for f in usage.findings if f.code.endswith("differ")} == codes
    slow = [layer.used[:, 16:].sum(axis=1).mean() for layer in usage.shares]
    if "usage-layers-differ" in codes:
        assert percent(max(slow), 2) in usage.layers_in_words
        assert percent(min(slow), 2) in usage.layers_in_words
    if command := re.search("`pefourier (.+)`", usage.next_step):  # the advice is followed
        assert verdict == "slow pairs favoured"
        assert run(*shlex.split(command[1])).status == 0
    else:
        words = re.search("(--all --csv)", usage.next_step)[1].split()
        assert len(run("usage", tmp_path, *words).out.splitlines()) == 1 + 32 + 2 * 4 * 32


def test_random_layers_are_not_reported_as_different(tmp_path):
    config = {**LONG, "num_hidden_layers": 8}
    for seed in range(4):
        tensors, rng = random_tensors(config, seed), np.random.default_rng(seed)
        for name in (name for name in tensors if "_proj" in name):  # pairs of unequal size
            sizes = np.exp(rng.normal(0, 0.7, (len(tensors[name]), 1)))
            tensors[name] = (tensors[name] * sizes).astype("f4")
        path = write_model(tmp_path / str(seed), tensors, **config)
        assert not [f for f in use_of_model(path).findings if f.code.endswith("differ")]


CENTRED = [("cohere", False), ("starcoder2", True), ("llama", False), ("olmo", None)]


@pytest.mark.parametrize(("kind", "bias"), CENTRED)
def test_a_norm_that_takes_out_means_leaves_what_is_across_them(tmp_path, kind, bias):
    """LayerNorm removes means, so the energies are those of W diag(g) (1 - 11'/n)."""
    tensors = random_tensors(WIDE)
    tensors[Q] += 3 * np.arange(4).repeat(8)[:, None]
    gain = tensors[NORM] if bias is not None else np.ones(64)
    if bias:
        tensors[NORM.replace("weight", "bias")] = np.zeros(64, np.float32)
    elif bias is None:  # OLMo's norm has no parameters
        del tensors[NORM]
    path = write_model(tmp_path, tensors, **{**WIDE, "model_type": "llama"})
    model = open_model_weights(path)
    model = replace(model, file=replace(model.file, kind=kind))
    (attention,) = find_attentions(model, rotations_of_model(model.file.spec))
    across = np.eye(64) - (kind != "llama") / 64
    expected = ((tensors[Q].astype(float) * gain) @ across) ** 2
    energies = energies_at(model, attention)
    assert_allclose(energies.q.ravel(), expected.sum(axis=1), rtol=1e-5)
    assert energies.gains == (bias is not None)


@pytest.mark.parametrize("normed", ["q", "k", "qk"])
def test_a_second_norm_of_queries_or_of_keys_is_reported(tmp_path, normed):
    gains = {f"model.layers.0.self_attn.{part}_norm.weight": ones(8) for part in normed}
    usage = use_of_model(write_model(tmp_path, random_tensors() | gains))
    assert "usage-normed" in codes(usage)


def louder(tensors, rows):
    """Multiply the rows of each head in the queries and keys of layer 0."""
    return changed(tensors, lambda q, k: (q * rows[:, None], k * rows[:, None]))


ROWS = {"halves": np.tile(np.exp([0.0, 2, 1, 0]), 2)}
ROWS |= {"neighbours": np.exp([0.0, 2, 1, 0]).repeat(2)}
ROWS |= {"both": np.tile([1.0, 1, 9, 9], 2)}


@pytest.mark.parametrize(("kind", "reported"), [("llama", "halves"), ("cohere", "neighbours")])
@pytest.mark.parametrize("rows", ROWS)
def test_weights_in_another_order_than_the_config_reports_are_doubted(
    tmp_path, kind, reported, rows
):
    tensors = louder(random_tensors({**CONFIG, "num_hidden_layers": 1}), ROWS[rows])
    path = write_model(tmp_path, tensors, model_type=kind, num_hidden_layers=1)
    usage = use_of_model(path)
    is_doubted = rows not in (reported, "both")
    for answer in (usage, pefourier.check(path)):
        assert ("usage-pairing-doubt" in codes(answer)) == is_doubted
    assert (usage.verdict == "probably a mistake") == is_doubted
    assert (usage.pairing.name, usage.pairing.source) == (reported, "config")
    if rows == "both":
        path = write_model(tmp_path, tensors, model_type="nobody", num_hidden_layers=1)
        with refusal("and as much above the other"):
            use_of_model(path)


def test_a_file_that_becomes_shorter_is_named(tmp_path):
    path = Path(write_model(tmp_path, random_tensors()), "model.safetensors")
    tensor = max(list_tensors(str(path)).values(), key=lambda t: t.start)
    with Path(path).open("rb+") as stream:  # another process removes the last byte
        stream.truncate(path.stat().st_size - 1)
    with refusal(r"model.safetensors' became shorter"):
        tensor.rows(0, tensor.shape[0])


@pytest.mark.parametrize("shape", [(), (32,), (32, 1), (4, 3)])
def test_scales_of_stored_numbers_are_applied(tmp_path, shape, rng):
    tensors = random_tensors()
    scale = rng.uniform(0.1, 9.0, size=shape).astype(np.float32)
    tall = np.kron(scale, np.ones((8, 8))) if shape == (4, 3) else scale.reshape(*shape[:1], -1)
    stored = np.round(9 * tensors[Q]).astype(np.int8 if shape else np.float32)
    plain = {**tensors, Q: (stored * tall).astype(np.float32)}
    scaled = tensors | {Q: stored, Q + "_scale_inv": np.asarray(scale)}
    a, b = (use_of_model(write_model(tmp_path / str(i), t)) for i, t in enumerate((plain, scaled)))
    assert_allclose(b.shares[0].q, a.shares[0].q, rtol=1e-5)


WIDE = {**CONFIG, "hidden_size": 64, "num_hidden_layers": 1}  # whole blocks of quantised numbers


def write_gguf(path, arch, counts, tensors, kind="F32"):
    """Write a file of layer 0 with its matrices of a type, and return the stored numbers."""
    import gguf

    writer = gguf.GGUFWriter(path, arch)
    for key, value in counts.items():
        writer.add_uint32(f"{arch}.{key}", value)
    writer.add_float32(f"{arch}.rope.freq_base", 100.0)
    stored = []
    for name, array in tensors.items():
        type_of = gguf.GGMLQuantizationType[kind if array.ndim > 1 else "F32"]
        packed = gguf.quants.quantize(array, type_of)
        stored.append(gguf.quants.dequantize(packed, type_of).reshape(array.shape))
        writer.add_tensor(f"blk.0.{name}.weight", packed, raw_dtype=type_of)
    for step in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{step}_to_file")()
    writer.close()
    return stored


def test_the_rotated_rows_of_mla_are_the_last_ones(tmp_path, rng):
    """The rotated rows of MLA are the last of each query head and of the shared key."""
    q, k = (rng.normal(size=(rows, 32)).astype("f4") for rows in (4 * 12, 20))
    counts = {"context_length": 64, "attention.head_count": 4, "block_count": 1}
    counts |= {"attention.key_length_mla": 12, "rope.dimension_count": 8}
    tensors = {"attn_q_b": q, "attn_kv_a_mqa": k}
    write_gguf(path := str(tmp_path / "m.gguf"), "deepseek2", counts, tensors)
    (layer,) = use_of_model(path).shares
    rows = q.reshape(4, 12, 32)[:, 4:].reshape(32, 32)
    expected = by_definition(rows, k[-8:], np.ones(32), NEIGHBOURS, kv=1)
    assert_allclose(layer.product, expected, rtol=2e-5)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
@pytest.mark.parametrize("name", ["halves", "neighbours"])
def test_a_gguf_file_is_read_like_the_weights_it_was_made_from(tmp_path, kind, name, monkeypatch):
    tensors, path = louder(random_tensors(WIDE), ROWS[name]), str(tmp_path / "m.gguf")
    counts = {"context_length": 64, "embedding_length": 64, "attention.head_count": 4}
    counts |= {"attention.head_count_kv": 2, "attention.key_length": 8, "rope.dimension_count": 8}
    counts |= {"block_count": 1} if name == "halves" else {}  # optional key
    named = {"attn_norm": tensors[NORM], "attn_q": tensors[Q], "attn_k": tensors[K]}
    q, k = write_gguf(path, "nobody-knows", counts, named, kind)[1:]
    usage = use_of_model(path)
    assert (usage.pairing.name, usage.pairing.source) == (name, "weights")
    assert "usage-pairing-guessed" in codes(usage)
    expected = by_definition(q, k, tensors[NORM], PAIRS[name])
    assert_allclose(usage.shares[0].product, expected, rtol=2e-5)
    monkeypatch.setitem(sys.modules, "gguf", None)
    if kind.startswith("Q"):
        with refusal("pip install gguf"):
            use_of_model(path)


def test_shards_are_read_as_one_file(tmp_path):
    tensors, path, folder = random_tensors(), write_model(tmp_path / "a"), tmp_path / "b"
    Path(write_model(folder), "model.safetensors").unlink()
    names, index = sorted(tensors), {}
    files = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for file, part in zip(files, (names[:4], names[4:]), strict=True):
        save_file({name: tensors[name] for name in part}, folder / file)
        index |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    assert use_of_model(path).rotations[0].pairs == use_of_model(str(folder)).rotations[0].pairs
    save_file({names[0]: tensors[names[0]]}, folder / files[0])
    with refusal("which its index lists"):
        use_of_model(str(folder))


def ones(*shape):
    return np.ones(shape, np.float32)


PHI = {"model.layers.0.self_attn.qkv_proj.weight": ones(96, 24)}
LATENT = {"model.layers.0.self_attn.q_b_proj.weight": ones(32, 24)}
V4 = {"model_type": "deepseek_v4", "qk_rope_head_dim": 4}
PACKED = {"model.layers.0.self_attn.q_proj.qweight": np.zeros((2, 2), np.int32)}
INT8 = {Q: np.ones((32, 24), np.int8), Q + "_SCB": np.ones(32)}
DRAWN = random_tensors()
LAYER_0 = {k: v for k, v in DRAWN.items() if "layers.1" not in k}
VISION = {f"model.encoder.{k}": v for k, v in DRAWN.items()} | DRAWN
REFUSED = [  # tensors, keys of the config, part of the error
    (None, {"model_type": "nobody-knows"}, "which rows of a head are rotated"),
    (None, {"num_attention_heads": 3}, "not 3 heads of 8"),
    ({NORM: DRAWN[NORM]}, {}, r"model\.layers\.\*\.input_layernorm"),
    (PACKED, {}, "quantised only"),
    (VISION, {}, r"it has model\.encoder\.model\.layers"),
    (LAYER_0, {}, "no queries and keys of layers 1"),
    (DRAWN | {Q: np.full((32, 24), np.nan, np.float32)}, {}, "NaN"),
    (DRAWN | {NORM: np.full(24, 1e30, np.float32)}, {}, "infinities"),
    (None, {"model_type": "gpt2", "n_positions": 64}, "positions are learned"),
    (None, {"model_type": "mpt", "attn_config": {"alibi": True}}, "positions are alibi"),
    (None, {"model_type": "dinov3_vit", "image_size": 64, "patch_size": 16}, "one position each"),
    (DRAWN | INT8, {}, "type int8"),
    (PHI, {"model_type": "phi3", "num_attention_heads": 2, "head_dim": None}, "2 heads of 12"),
    (LATENT, V4, "rotates the last rows"),
    (DRAWN | {NORM: ones(5)}, {}, "got 5"),
    (DRAWN | {Q.replace("_proj", "_norm"): ones(5)}, {}, "got 5"),
    (DRAWN | {Q + "_scale": ones(5, 5)}, {}, r"\(5, 5\)"),
    (DRAWN | {Q: ones(32)}, {}, r"\(32,\)"),
    (DRAWN | {Q.replace("weight", "bias"): ones(7)}, {}, r"\(7,\)"),
    (DRAWN | {Q: 0 * ones(32, 24)}, {"num_hidden_layers": 1}, "are zero"),
]


@pytest.mark.parametrize(("tensors", "config", "words"), REFUSED)
def test_what_cannot_be_answered_is_refused_in_a_line(tmp_path, tensors, config, words):
    with refusal(words):
        use_of_model(write_model(tmp_path / "m", tensors, **config))


def test_layers_that_are_not_there_and_weights_without_a_config_are_refused(tmp_path):
    path = write_model(tmp_path / "m")
    for layers in (range(9, 10), range(0)):
        with refusal("in the selection"):
            use_of_model(path, layers=layers)
    Path(path, "config.json").unlink()
    with refusal(r"needs a config\.json"):
        use_of_model(path)


def test_two_checkpoints_are_distinguished_by_what_moved(run, ask):
    planted = np.ones((4, 8, 1))
    planted[2, [0, 1, 2, 4, 5, 6]] = 0
    plain = random_tensors() | {NORM: ones(24), Q: ones(32, 24), K: ones(16, 24)}
    write_model(Path("a"), changed(plain, lambda q, k: (planted * q, k)))
    write_model(Path("b"), plain)
    record = ask("usage a --against b")
    moved = record["against"]
    assert moved["heads"][0] == {"layer": 0, "head": 2, "moved": pytest.approx(0.75)}
    assert len(moved["heads"]) == 5  # of eight
    assert moved["moved"] == pytest.approx(0.75 / 8)  # one head of two layers
    assert "usage-moved" in {f["code"] for f in record["findings"]}
    assert run("usage a --against a --json").results[0]["against"]["moved"] == 0
    write_model(Path("c"), num_hidden_layers=1)
    assert run("usage a --against c").status == 2


@pytest.mark.parametrize("keys", [0, 1, 2])
def test_means_of_activations_are_reported_like_weights(run, ask, keys, rng):
    """Means are reported for two query heads without keys, with one key head, or with two."""
    path = write_model(Path("m"), num_attention_heads=2, num_key_value_heads=2)
    means = rng.uniform(1, 2, size=(2, 2, 4)) * [1.0, 2.0, 3.0, 9.0]  # (q or k, heads, pairs)
    heads = [("q", 0), ("q", 1), *(("k", head) for head in range(keys))]
    names = [f"stats.layer00_head0{head}.{part}_abs_mean" for part, head in heads]
    np.savez("means.npz", **dict(zip(names, means.reshape(4, 4), strict=False)), other=np.ones(3))
    record = ask("usage m/config.json --stats means.npz")
    shares = means**2 / (means**2).sum(axis=-1, keepdims=True)
    product = shares[0] * (shares[1, :keys] if keys else 1)
    product /= product.sum(axis=-1, keepdims=True)
    pairs = record["rotations"][0]["pairs"]
    assert [p["share_q"] for p in pairs] == pytest.approx(shares[0].mean(axis=0))
    expected = product.mean(axis=0) if keys else [None] * 4
    assert [p["share"] for p in pairs] == pytest.approx(expected)
    assert record["layers"][0]["index"] == [0, 1]
    assert record["layers"][0]["kv_heads"] == (keys or 2)
    assert run("usage", path, "--stats", "means.npz", "--against", "means.npz").status == 0
    wrong = {names[1]: means[0, 1]}, {"a": means}, {names[0]: np.ones(5)}
    for stored in (*wrong, {names[0]: np.full(4, np.nan)}):  # the first file lacks a head
        np.savez("means.npz", **stored)
        assert run("usage", path, "--stats", "means.npz").status == 2


TYPES = {"layer_types": ["sliding_attention", "full_attention"]}
MEANT = [("llama", "halves", 0), ("cohere", "neighbours", 0), ("gemma3_text", "2 rotations", 2)]


@pytest.mark.parametrize(("kind", "part", "status"), MEANT)
def test_means_are_of_the_pairs_of_the_one_rotation_of_a_config(run, kind, part, status):
    path = write_model(Path("m"), model_type=kind, **TYPES if status else {})
    np.savez("means.npz", **{"layer0_head0.q_abs_mean": np.arange(1.0, 5.0)})
    done = run("usage", path, "--stats", "means.npz", "--json")
    assert done.status == status
    assert part in (done.err if status else done.results[0]["pairing"]["name"])


PLAIN = "llama qwen2 qwen3 gemma phi cohere olmo olmo2 starcoder2 nemotron apertus"
FULL = {"layer_types": ["full_attention"] * 2}
HALF = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
MLA = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 4, "v_head_dim": 8, "kv_lora_rank": 12}
MLA |= {"q_lora_rank": 20, "num_key_value_heads": 4}
DENSE = {"first_k_dense_replace": 2}
FAMILIES = {name: {} for name in PLAIN.split()}  # tiny models and their changed sizes
FAMILIES |= {
    "gemma3_text": TYPES,
    "glm4": {"pad_token_id": 0},
    "phi3": {"pad_token_id": 0},
    "glm": {"partial_rotary_factor": 0.5, "attention_bias": True, "pad_token_id": 0},
    "gpt_neox": {"rope_parameters": HALF},
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon 7b": {"multi_query": True},
    "falcon rw": {"multi_query": False},
    "stablelm": {"use_qkv_bias": True},
    "persimmon": {"num_key_value_heads": None},
    "modernbert": {"num_key_value_heads": None, "pad_token_id": 0},
    "smollm3": {"pad_token_id": 0, "no_rope_layers": [1, 0]},
    "deepseek_v3": MLA | DENSE,
    "deepseek_v2": MLA | DENSE | {"q_lora_rank": None},
    "minicpm3": MLA,
    "lfm2": FULL,
    "qwen3_next": {"head_dim": 8, "mlp_only_layers": [0, 1]} | FULL,
}
BEFORE = ("input_layernorm", "ln_attn", "attn_norm", "attention_layernorm", "operator_norm")
SIZES = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
SIZES |= {"num_hidden_layers": 2, "intermediate_size": 16, "vocab_size": 200}
SIZES |= {"max_position_embeddings": 256}


def gain_of(norm, width):
    """Return the matrix by which a norm multiplies a vector with zero mean.

    The matrix is the norm's odd part over the size, without the directions that the norm removes.
    """
    x = torch.randn(width, dtype=torch.float64)
    x = x - x.mean()
    odd = (norm(x[None]) - norm(-x[None])) / 2
    gain = np.diag((odd[0] / (x / (x**2).mean().sqrt())).numpy())
    centred = torch.allclose(norm(x[None]), norm(x[None] + 3))
    return gain @ (np.eye(width) - centred / width)


def model_of_family(family):
    """Return a tiny model with reproducible random weights."""
    settings = {**SIZES, **FAMILIES[family]}
    if settings["num_key_value_heads"] is None:
        del settings["num_key_value_heads"]
    config = transformers.CONFIG_MAPPING[family.split()[0]](**settings)
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config, attn_implementation="eager").double()
    model.eval().requires_grad_(requires_grad=False)
    for parameter in model.parameters():
        parameter.copy_(0.3 * torch.randn(parameter.shape, dtype=torch.float64))
    return model


def turned_by(model, attentions, monkeypatch):
    """Return the inputs of each attention, and the queries and keys that it rotates."""
    room, rotated, inputs = import_module(type(model).__module__), [], []
    for name in [n for n in vars(room) if n.startswith("apply_rotary")]:
        plain = getattr(room, name)

        def recording(q, k, *rest, plain=plain, **more):
            rotated.append((q[0], k[0]))
            return plain(q, k, *rest, **more)

        monkeypatch.setattr(room, name, recording)

    def replace_input(_, args, kwargs):  # because norms remove directions
        x = torch.randn(1, 120, 32, dtype=torch.float64)
        inputs.append(x[0])
        if "hidden_states" in kwargs:
            return args, kwargs | {"hidden_states": x}
        return (x, *args[1:]), kwargs

    for attention in attentions.values():
        for part in ("q_norm", "k_norm", "q_layernorm", "k_layernorm"):
            norm = getattr(attention, part, None)
            if isinstance(norm, torch.nn.Module) and "deepseek" not in room.__name__:
                gain = torch.from_numpy(np.diag(gain_of(norm, norm.weight.shape[-1])).copy())
                monkeypatch.setattr(norm, "forward", lambda x, gain=gain: x * gain)
        attention.register_forward_pre_hook(replace_input, with_kwargs=True)
    model(torch.randint(3, 200, (1, 120)))
    return inputs, rotated


def regressed_shares(heads, inputs, gains, halves):
    """Return the shares of pairs in the rows that map inputs to the heads (heads, n, d)."""
    design = np.c_[inputs.numpy(), np.ones(len(inputs))]
    columns = heads.numpy().transpose(1, 0, 2).reshape(len(inputs), -1)
    weights = np.linalg.lstsq(design, columns)[0][:-1]
    energy = ((gains.T @ weights) ** 2).sum(axis=0)
    pairs = energy.reshape(len(heads), *((2, -1) if halves else (-1, 2)))
    pairs = pairs.sum(axis=1 if halves else 2)
    return pairs / pairs.sum(axis=1, keepdims=True)


SHORT = {"llama", "gpt_neox", "falcon", "gemma3_text", "deepseek_v3"}  # families in `make test`


@pytest.mark.parametrize(
    "family",
    [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in FAMILIES],
)
def test_rows_are_those_that_transformers_rotates(tmp_path, family, monkeypatch):
    """The rows equal a regression of the model's rotated queries and keys on attention inputs."""
    model = model_of_family(family)
    model.save_pretrained(tmp_path)
    place = re.compile(r"\.\d+\.(self_)?att(entio)?n$")
    attentions = {name: part for name, part in model.named_modules() if place.search(name)}
    inputs, rotated = turned_by(model, attentions, monkeypatch)
    usage = use_of_model(str(tmp_path))
    halves = usage.pairing.name == "halves"
    for layer, (q, k) in zip(usage.shares, rotated, strict=True):
        name, attention = [*attentions.items()][layer.layer]
        x_k = x_q = inputs[layer.layer]
        gain_k = gain_q = norm_before(model, name, 32)
        if getattr(attention, "q_a_proj", None) is not None:
            x_q = attention.q_a_layernorm(attention.q_a_proj(x_k))
            gain_q = gain_of(attention.q_a_layernorm, x_q.shape[1])
        width = 2 * layer.q.shape[1]  # some include unrotated rows
        shares_q = regressed_shares(q[..., :width], x_q, gain_q, halves)
        shares_k = regressed_shares(k[..., :width], x_k, gain_k, halves)
        assert_allclose(layer.q, shares_q, rtol=1e-4)
        shares_k = np.repeat(shares_k, len(shares_q) // len(shares_k), axis=0)
        assert_allclose(layer.k, shares_k, rtol=1e-4)


def norm_before(model, attention, width):
    """Return the gains of the norm that precedes an attention."""
    beside = model.get_submodule(attention.rpartition(".")[0])
    norm = next((norm for name in BEFORE if (norm := getattr(beside, name, None))), None)
    return np.eye(width) if norm is None else gain_of(norm, width)


def test_a_page_says_which_frequencies_the_weights_beside_a_config_use(run):
    path = write_model(Path("m"))
    assert run("report m/config.json --out page.html --json").status == 0
    conclusion = use_of_model(path).conclusion
    assert html.escape(conclusion.partition(". ")[0]) in Path("page.html").read_text()

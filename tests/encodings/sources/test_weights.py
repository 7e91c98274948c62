"""Tables, biases and lags in the weights next to a config, as the models use them."""

import json

import numpy as np
import pytest
import torch
import transformers
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusal
from rotary_modules import config_class, quiet
from stored import safetensors

import pefourier
from pefourier.encodings import load
from pefourier.encodings.encoding import displacement_of_each_pair

BERT = {"model_type": "bert", "max_position_embeddings": 12, "hidden_size": 8}
TABLE = "embeddings.position_embeddings.weight"
BIAS = "{}.block.{}.layer.0.SelfAttention.relative_attention_bias.weight"


def test_shards_are_found_by_their_index(config, folder, rng):
    vectors = rng.normal(size=(12, 8)).astype(np.float32)
    safetensors(folder / "part-a.safetensors", {"other": vectors})
    safetensors(folder / "part-b.safetensors", {TABLE: vectors})
    placed = {"other": "part-a.safetensors", TABLE: "part-b.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    config(BERT)
    assert_array_equal(load(str(folder)).table(), vectors)
    index.write_text(json.dumps({"weight_map": {TABLE: "../elsewhere.safetensors"}}))
    with refusal(r"a file in the same folder; got '\.\./"):
        load(str(folder))
    index.write_text(json.dumps({"weight_map": {TABLE: "gone.safetensors"}}))
    with refusal(r"unknown file 'gone\.safetensors'"):
        load(str(folder))


def test_random_biases_of_a_config_are_not_compared_with_trained_ones(config, folder, rng, run):
    path = config({"model_type": "t5", "num_heads": 3, "d_kv": 4, "d_model": 12})
    assert "untrained" in {f.code for f in load(path, 9).findings}
    np.save(folder / "biases.npy", rng.normal(size=(17, 3)))
    for pair in ([path, "biases.npy"], ["biases.npy", path]):
        done = run("compare", *pair)
        assert (done.status, done.err.count("\n"), "model.safetensors" in done.err) == (2, 1, True)
    assert run("compare", path, path).status == 0


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_t5s_trained_biases_are_looked_up_as_its_code_does(side, config, folder, rng):
    from transformers.models.t5.modeling_t5 import T5Attention

    bias = rng.normal(size=(32, 3)).astype(np.float32)
    name = BIAS.format("{}", 0)
    cross = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    tensors = {name.format("encoder"): bias, name.format("decoder"): -bias, cross: 7 * bias}
    safetensors(folder / "model.safetensors", tensors)
    config({"model_type": "t5", "num_heads": 3, "d_kv": 4, "d_model": 12})
    with quiet():
        own = config_class("t5")(num_heads=3, d_kv=4, d_model=12, is_decoder=side == "decoder")
        attention = T5Attention(own, has_relative_attention_bias=True, layer_idx=0)
    sign = 1 if side == "encoder" else -1
    attention.relative_attention_bias.weight.data = torch.tensor(sign * bias)
    wanted = attention.compute_bias(300, 300).detach().numpy()[0]
    enc = load(f"{folder}#{side}" if side == "decoder" else str(folder), length=300)
    assert (enc.origin, enc.injection, enc.findings) == ("weights", "bias", ())
    lags = np.arange(-299, 1)
    assert_array_equal(enc.vectors(lags), wanted[:, 299].T)
    if side == "encoder":
        assert_array_equal(enc.vectors(-lags[::-1]), wanted[:, 0].T)


def warned(found):
    """Return whether the findings say that a table differs from the model's source code."""
    return "weights-config" in {f.code for f in found.findings}


SHAPES = [  # config, tensor, its shape, the shape that the config sets
    (BERT, TABLE, (12, 8), None),
    ({**BERT, "max_position_embeddings": 24}, TABLE, (12, 8), "(24, 8)"),
    ({"model_type": "gpt2", "n_positions": 12, "n_embd": 8}, "wpe.weight", (8, 12), "(12, 8)"),
    ({**BERT, "model_type": "opt"}, "model.decoder.embed_positions.weight", (12, 8), "(14, 8)"),
    ({**BERT, "model_type": "mobilebert", "embedding_size": 4}, TABLE, (12, 8), None),
]


@pytest.mark.parametrize(("values", "tensor", "shape", "expected"), SHAPES, ids=str)
def test_a_tensor_of_another_shape_than_its_config_sets_fails_strict(
    values, tensor, shape, expected, config, folder, rng, run
):
    safetensors(folder / "model.safetensors", {tensor: rng.normal(size=shape)})
    config(values)
    messages = [f.message for f in load(str(folder)).findings if f.code == "weights-config"]
    assert [str(shape) in m and str(expected) in m for m in messages] == [True] * bool(expected)
    assert run("check-faithful", str(folder), "-S", "8", "--strict").status == bool(expected)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_each_layer_of_umt5_has_its_own_biases(side, config, folder, rng):
    biases = rng.normal(size=(12, 32, 3)).astype(np.float32)
    tensors = {
        BIAS.format(part, i): biases[i] for part in ("encoder", "decoder") for i in range(12)
    }
    safetensors(folder / "model.safetensors", tensors)
    config({"model_type": "umt5", "num_heads": 3, "num_layers": 12, "d_model": 12})
    spec = f"{folder}#{side}" if side == "decoder" else str(folder)
    other = BIAS.format(side, 11)
    for table, requested in ((biases[0], spec), (biases[11], f"{folder}#{other}")):
        safetensors(folder / "one.safetensors", {"table": table})
        enc = load(requested, length=5)
        assert_array_equal(enc.vectors(np.array([0]))[0], table[0])
    (note,) = [f.message for f in load(spec).findings if f.code == "biases-by-layer"]
    assert other in note


WHISPER = {"model_type": "whisper", "d_model": 8, "max_source_positions": 30}
DISTILBERT = {"model_type": "distilbert", "dim": 8, "max_position_embeddings": 30}
MARIAN = {"model_type": "marian", "d_model": 8, "max_position_embeddings": 30}
ENCODER = "model.encoder.embed_positions.weight"
STORED = {"distilbert": ({**DISTILBERT, "sinusoidal_pos_embds": True}, f"distilbert.{TABLE}")}
STORED |= {"whisper": (WHISPER, ENCODER), "marian": (MARIAN, ENCODER)}
STORED |= {"fsmt": ({"model_type": "fsmt", "d_model": 8, "pad_token_id": 1}, ENCODER)}


@pytest.mark.parametrize(("values", "tensor"), STORED.values(), ids=STORED)
def test_stored_sinusoids_are_compared_with_the_formula(values, tensor, config, folder):
    path = config(values)
    formula = load(path, length=30)
    first = formula.params["offset"]
    rows = load(path, length=30 + first).vectors(np.arange(-first, 30)).astype(np.float16)
    safetensors(folder / "model.safetensors", {tensor: rows.astype(np.float32)})
    own = load(path, length=30)
    assert_array_equal(rows[first:], own.table().astype(np.float16))
    other = rows[::-1].astype(np.float32)
    safetensors(folder / "model.safetensors", {tensor: other})
    found = load(path)
    assert_array_equal(found.table(), other[first:])
    assert warned(found)
    safetensors(folder / "model.safetensors", {tensor: formula.vectors(np.arange(-first, 30))})
    assert not warned(load(path, length=99))
    assert load(path, length=99).measure
    safetensors(folder / "model.safetensors", {tensor: np.ones((30 + first, 4), "float32")})
    assert warned(load(path))  # a tensor of another width


@pytest.fixture
def vectors(rng):
    return rng.normal(size=(10, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("values", "tensor", "offset"),
    [
        ({"model_type": "gpt2", "n_positions": 10}, "transformer.wpe.weight", 0),
        ({"model_type": "opt"}, "model.decoder.embed_positions.weight", 2),
        ({"model_type": "roberta"}, "roberta.embeddings.position_embeddings.weight", 2),
        ({"model_type": "roberta", "pad_token_id": 4}, TABLE, 5),
    ],
    ids=str,
)
def test_learned_positions_come_from_the_weights(values, tensor, offset, config, tmp_path, vectors):
    others = {"wte.weight": np.zeros((3, 4)), "token_type_embeddings.weight": np.zeros((2, 4))}
    safetensors(tmp_path / "model.safetensors", {**others, tensor: vectors})
    enc = load(config(values))
    assert_array_equal(enc.table(), vectors[offset:])
    assert (enc.eps, enc.params["array"], enc.params["offset"]) == (2**-23, tensor, offset)
    assert [f.code for f in enc.findings] == ["position-offset"] * bool(offset)
    assert len(load(config(values), length=3)) == 3
    with refusal(f"has {10 - offset} positions, fewer than length"):
        load(config(values), length=11)


def test_each_config_inside_another_has_its_own_table(config, tmp_path):
    """A CLIP config uses the table of its text model unless a part is named."""
    text, vision = (np.random.default_rng(n).normal(size=(n, n // 2)) for n in (12, 20))
    tables = {"text_model": text, "vision_model": vision}
    named = {f"{k}.embeddings.position_embedding.weight": v for k, v in tables.items()}
    safetensors(tmp_path / "model.safetensors", named)
    parts = {
        f"{part}_config": {"model_type": f"clip_{part}_model", "hidden_size": width}
        for part, width in (("text", 6), ("vision", 10))
    }
    path = config({"model_type": "clip", **parts})
    for part, expected in (("", text), ("#text_config", text), ("#vision_config", vision)):
        assert_allclose(load(f"{path}{part}").table(), expected, atol=1e-6)


def test_learned_positions_of_whispers_decoder_are_in_its_weights(config, tmp_path, vectors):
    tensor = "model.decoder.embed_positions.weight"
    safetensors(tmp_path / "model.safetensors", {tensor: vectors})
    path = config({"model_type": "whisper", "d_model": 4, "max_source_positions": 12})
    assert load(path).params["length"] == 12
    assert_array_equal(load(f"{path}#decoder").table(), vectors)


SMALL = {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 8}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4]}


def saved(folder, model, *names):
    """Save a model whose named tensors are ramps, each with another offset."""
    for i, (name, parameter) in enumerate(model.named_parameters()):
        if any(word in name for word in names):
            ramp = torch.linspace(-3, 3, parameter.numel()) + i
            parameter.data = 0.1 * ramp.reshape(parameter.shape).sin()
    model.eval().save_pretrained(folder)
    return str(folder)


def pairwise(enc, points):
    """Return biases of shape (heads, queries, keys)."""
    rows = displacement_of_each_pair(enc.domain, points, enc.spec)
    return enc.table()[rows].reshape(points, points, -1).transpose(2, 0, 1)


def codes_of(findings):
    return [note.code for note in findings]


@pytest.mark.parametrize("part", ["", "layers.0.blocks.1", "encoder.layers.1"])
def test_swin_has_the_biases_of_its_folder(tmp_path, part):
    """The biases come from the weights of the folder, for each part."""
    model = transformers.SwinModel(transformers.SwinConfig(**SWIN, window_size=3))
    path = saved(tmp_path, model, "relative_position")
    enc = load(f"{path}#{part}" if part else path)
    stage, block = (0, 0) if not part else (0, 1) if "blocks" in part else (1, 0)
    attention = model.encoder.layers[stage].blocks[block].attention
    made = attention.relative_position_bias()[0].detach().numpy()
    assert_array_equal(pairwise(enc, 9), made)
    assert (enc.origin, enc.untrained, enc.injection) == ("weights", False, "bias")
    assert codes_of(enc.findings) == (["biases-by-layer"] if not part else [])


@pytest.mark.parametrize("shared", [False, True])
def test_beit_has_the_biases_and_rows_of_the_class_token_of_its_folder(tmp_path, shared):
    own = {f"use_{'shared_' * shared}relative_position_bias": True, "image_size": [24, 32]}
    config = transformers.BeitConfig(
        patch_size=8, num_hidden_layers=2, vocab_size=9, **SMALL, **own
    )
    model = transformers.BeitModel(config)
    path = saved(tmp_path, model, "relative_position")
    enc = load(path)
    (module, *_) = (m for m in model.modules() if type(m).__name__ == "BeitRelativePositionBias")
    index = module.generate_relative_position_index((3, 4))  # forward exchanges unequal sides
    made = module.relative_position_bias_table.detach().numpy()[index].transpose(2, 0, 1)
    assert_array_equal(pairwise(enc, 12), made[:, 1:, 1:])
    assert_array_equal(enc.table()[:3], [made[:, 0, 1], made[:, 1, 0], made[:, 0, 0]])
    assert (enc.domain.grid, enc.domain.prefix) == ((5, 7), 3)
    assert codes_of(enc.findings) == ([] if shared else ["biases-by-layer"])


@pytest.fixture(scope="module")
def sam(tmp_path_factory):
    """Save a SAM with one window layer and one global layer; return it and its folder."""
    side = {"image_size": 32, "patch_size": 8}
    vision = {**side, "hidden_size": 16, "output_channels": 4, "num_hidden_layers": 2}
    vision |= {"num_attention_heads": 2, "window_size": 3, "global_attn_indexes": [1], "mlp_dim": 8}
    prompt = {"hidden_size": 8, "mask_input_channels": 4, **side}
    decoder = {"hidden_size": 8, "mlp_dim": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.SamConfig(
        vision_config=vision,
        prompt_encoder_config=prompt,
        mask_decoder_config=decoder | {"iou_head_hidden_dim": 8},
    )
    model = transformers.SamModel(config)
    return model, saved(tmp_path_factory.mktemp("sam"), model, "pos_embed", "rel_pos")


@pytest.mark.parametrize(("layer", "side"), [(0, 3), (1, 4)])
@pytest.mark.parametrize("axis", "hw")
def test_sam_has_the_lags_of_each_layer(sam, layer, side, axis):
    model, path = sam
    enc = load(f"{path}#vision_encoder.layers.{layer}.attn.rel_pos_{axis}")
    attention = model.vision_encoder.layers[layer].attn
    stored = getattr(attention, f"rel_pos_{axis}")
    made = attention.get_rel_pos(side, side, stored).detach().numpy()  # (queries, keys, d)
    lags = np.arange(side) - np.arange(side)[:, None]  # key - query
    assert_array_equal(enc.table()[lags + side - 1], made)
    assert (enc.domain.kind, enc.injection, len(enc)) == ("lag", "key", 2 * side - 1)
    resized = pefourier.resize(enc, (7,), method="bilinear")
    wider = attention.get_rel_pos(7, 7, stored).detach().numpy()
    assert_allclose(resized.table[6:], wider[:, 0], atol=1e-6)  # query 0 … 6, key 0


TIMM = [  # architecture, image, tensor, shape; grid, prefix
    ("vit_tiny_patch16_224", (224, 224), "pos_embed", (1, 197, 4), (14, 14), 1),
    ("vit_small_patch14_reg4_dinov2", (56, 84), "pos_embed", (1, 24, 4), (4, 6), 0),
    ("samvit_base_patch16", (128, 128), "pos_embed", (1, 8, 8, 12), (8, 8), 0),
    (
        "swin_tiny_patch4_window7_224",
        (224, 224),
        "layers.0.blocks.0.attn.relative_position_bias_table",
        (169, 3),
        (13, 13),
        0,
    ),
    (
        "beit_base_patch16_224",
        (224, 224),
        "blocks.0.attn.relative_position_bias_table",
        (732, 4),
        (27, 27),
        3,
    ),
]


@pytest.mark.parametrize(("name", "image", "tensor", "shape", "grid", "prefix"), TIMM)
def test_a_folder_of_timm_is_read(tmp_path, rng, name, image, tensor, shape, grid, prefix):
    """Tables of timm are on their grids; shapes, names and configs are those of timm 1.0.31."""
    table = rng.normal(size=shape)
    config = {"architecture": name, "num_classes": 0, "pretrained_cfg": {"input_size": [3, *image]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    safetensors(tmp_path / "model.safetensors", {tensor: table})
    enc = load(str(tmp_path))
    assert (enc.domain.grid, enc.domain.prefix, enc.origin) == (grid, prefix, "weights")
    rows = table.reshape(-1, shape[-1]).astype("f4")
    stored = (
        enc.table()
        if enc.injection == "add"
        else np.r_[enc.table()[prefix:][::-1], enc.table()[:prefix]]
    )
    assert_array_equal(stored, rows)
    assert not enc.findings


LITTLE = {"hidden_size": 8, "num_attention_heads": 2}
CLASSES = {
    "wav2vec2-conformer": "Wav2Vec2ConformerRelPositionalEmbedding",
    "wav2vec2-bert": "Wav2Vec2BertRelPositionalEmbedding",
    "seamless_m4t": "SeamlessM4TConformerRelPositionalEmbedding",
    "parakeet_encoder": "ParakeetEncoderRelPositionalEncoding",
    "nemotron_asr_streaming_encoder": "NemotronAsrStreamingEncoderRelPositionalEncoding",
}
RELATIVE = {"relative_attention": True, "position_biased_input": False, "pos_att_type": "c2p|p2c"}


@pytest.mark.parametrize("kind", CLASSES)
def test_a_config_is_read_as_what_its_code_computes(kind, config):
    from importlib import import_module

    values = {"model_type": kind, **LITTLE, "position_embeddings_type": "relative"}
    with quiet():
        own = config_class(kind)(**LITTLE)
        name = kind.removesuffix("_encoder").replace("-", "_")
        module = import_module(f"transformers.models.{name}.modeling_{name}")
        rows = getattr(module, CLASSES[kind])(own)(torch.zeros(1, 13, 8))[0].numpy()
    part = "#speech_encoder" if kind == "seamless_m4t" else ""
    enc = load(config(values) + part, length=13)
    assert (enc.name, enc.injection, enc.origin) == ("xl", "key", "formula")
    assert_allclose(enc.table(), rows, atol=2e-6)


@pytest.mark.parametrize(
    ("kind", "buckets", "longest"),
    [("deberta-v2", 32, 64), ("deberta-v2", -1, 64), ("deberta", -1, 64), ("deberta-v2", 256, -1)],
)
def test_debertas_distances_end_as_its_code_ends_them(kind, buckets, longest, config, run):
    """The model has no absolute table, only relative vectors, here before training."""
    from transformers.models.deberta_v2 import modeling_deberta_v2 as v2

    own = {**RELATIVE, "hidden_size": 6, "num_hidden_layers": 2, "position_buckets": buckets}
    own["max_relative_positions"] = longest
    path = config({"model_type": kind, "max_position_embeddings": 512, **own})
    (answer,) = run("context", path, "--json").results
    assert (answer["verdict"], answer["rotations"]) == ("limited distance", [])
    enc = load(path)
    assert ([f.code for f in enc.findings], len(enc), enc.dim) == (["untrained"], 1023, 6)
    states = torch.zeros(1, 600, 6)
    longest = longest if longest > 0 else 512
    distance = v2.build_relative_position(states, states, buckets, longest if buckets > 0 else -1)
    rows = 2 * (buckets if buckets > 0 else longest)
    met = torch.clamp(distance[0] + rows // 2, 0, rows - 1).numpy()
    vectors = 0.02 * np.random.RandomState(0).normal(size=(rows, 6))
    expected = vectors[met[300, 201:400]]  # of keys 99 before to 99 after the query
    assert_array_equal(enc.vectors(np.arange(-99, 100)), expected)


@pytest.mark.parametrize("norm", ["layer_norm", "none"])
@pytest.mark.parametrize("kind", ["deberta-v2", "sew-d"])
def test_debertas_trained_vectors_are_looked_up_as_its_code_does(kind, norm, config, folder, rng):
    from transformers.models.deberta_v2 import modeling_deberta_v2 as v2

    sizes = {"hidden_size": 6, "num_attention_heads": 2, "max_position_embeddings": 40}
    own = {**RELATIVE, **sizes, "position_buckets": 8, "norm_rel_ebd": norm}
    with quiet():
        encoder = v2.DebertaV2Encoder(config_class("deberta-v2")(num_hidden_layers=0, **own))
    tensors = {
        name: torch.tensor(rng.normal(size=tensor.shape), dtype=torch.float32)
        for name, tensor in encoder.state_dict().items()
    }
    encoder.load_state_dict(tensors)
    stored = {f"deberta.encoder.{name}": tensor.numpy() for name, tensor in tensors.items()}
    safetensors(folder / "model.safetensors", stored)
    config({"model_type": kind, **own})
    states = torch.zeros(1, 30, 6)
    row = torch.clamp(encoder.get_rel_pos(states)[0, 15] + 8, 0, 15)
    vectors = encoder.get_rel_embedding()[row].detach().numpy()
    enc = load(str(folder), length=30)
    assert_allclose(enc.vectors(np.arange(-15, 15)), vectors, rtol=1e-5, atol=1e-6)
    assert (enc.origin, enc.injection, enc.untrained) == ("weights", "key-query", False)
    assert [f.code for f in enc.findings] == ["with-convolution"] * (kind == "sew-d")
    safetensors(folder / "model.safetensors", {"rel_embeddings.weight": np.ones((9, 6))})
    with refusal(r"must have shape \(16, 6\); got \(9, 6\)"):
        load(str(folder))

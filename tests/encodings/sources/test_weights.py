"""Tables in the weights next to a config: which tensors are found and how models use them."""

import json

import numpy as np
import pytest
import torch
from rotary_modules import config_class, quiet
from stored import safetensors

from pefourier.encodings import load
from pefourier.errors import PefourierError

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
    np.testing.assert_array_equal(load(str(folder)).table(), vectors)
    index.write_text(json.dumps({"weight_map": {TABLE: "../elsewhere.safetensors"}}))
    with pytest.raises(PefourierError, match=r"a file in the same folder; got '\.\./"):
        load(str(folder))
    index.write_text(json.dumps({"weight_map": {TABLE: "gone.safetensors"}}))
    with pytest.raises(PefourierError, match=r"unknown file 'gone\.safetensors'"):
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
    assert (enc.name, enc.origin, enc.injection) == ("t5", "weights", "bias")
    assert enc.findings == ()
    found = dict(zip(np.asarray(enc.domain.x).tolist(), enc.table(), strict=True))  # by lag
    for query in (0, 7, 299):
        for key in range(300):
            if key - query in found:
                np.testing.assert_array_equal(found[key - query], wanted[:, query, key])


def warned(found):
    """Return whether the findings say that a table differs from the model's source code."""
    return "weights-config" in {f.code for f in found.findings}


SHAPES = [  # config, tensor, its shape, the shape that the config sets
    (BERT, TABLE, (12, 8), None),
    ({**BERT, "max_position_embeddings": 24}, TABLE, (12, 8), "(24, 8)"),
    ({"model_type": "gpt2", "n_positions": 12, "n_embd": 8}, "wpe.weight", (8, 12), "(12, 8)"),
    ({**BERT, "model_type": "opt"}, "model.decoder.embed_positions.weight", (14, 8), None),
    ({**BERT, "model_type": "opt"}, "model.decoder.embed_positions.weight", (12, 8), "(14, 8)"),
    ({**BERT, "model_type": "roberta"}, f"roberta.{TABLE}", (12, 8), None),
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
def test_each_layer_of_umt5_has_its_own_biases(side, config, folder, rng, run):
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
        np.testing.assert_array_equal(enc.vectors(np.array([0]))[0], table[0])
    (answer,) = run("context", spec, "--json").results
    (note,) = [f["message"] for f in answer["findings"] if f["code"] == "biases-by-layer"]
    assert "12 layers" in note
    assert other in note
    assert [layer["kind"] for layer in answer["layers"]] == ["t5"]


WHISPER = {"model_type": "whisper", "d_model": 8, "max_source_positions": 30}
DISTILBERT = {"model_type": "distilbert", "dim": 8, "max_position_embeddings": 30}
MARIAN = {"model_type": "marian", "d_model": 8, "max_position_embeddings": 30}
ENCODER = "model.encoder.embed_positions.weight"
STORED = {"distilbert": ({**DISTILBERT, "sinusoidal_pos_embds": True}, f"distilbert.{TABLE}")}
STORED |= {"whisper": (WHISPER, ENCODER), "marian": (MARIAN, ENCODER)}
STORED |= {"fsmt": ({"model_type": "fsmt", "d_model": 8, "pad_token_id": 1}, ENCODER)}


@pytest.mark.parametrize(("values", "tensor"), STORED.values(), ids=STORED)
def test_stored_sinusoids_are_compared_with_the_formula(values, tensor, config, folder, rng):
    path = config(values)
    formula = load(path, length=30)
    first = formula.params["offset"]
    rows = load(path, length=30 + first).vectors(np.arange(-first, 30)).astype(np.float16)
    safetensors(folder / "model.safetensors", {tensor: rows.astype(np.float32)})
    own = load(path, length=30)
    np.testing.assert_array_equal(rows[first:], own.table().astype(np.float16))
    changes = {"reversed": rows[::-1], "noise": rng.normal(size=rows.shape)}
    for other in changes.values():
        safetensors(folder / "model.safetensors", {tensor: np.asarray(other, dtype=np.float32)})
        found = load(path)
        np.testing.assert_array_equal(found.table(), np.asarray(other, dtype=np.float32)[first:])
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
        ({"model_type": "gpt2", "n_positions": 10}, "wpe.weight", 0),
        ({"model_type": "gpt2", "n_positions": 10}, "transformer.wpe.weight", 0),
        ({"model_type": "bert"}, "bert.embeddings.position_embeddings.weight", 0),
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
    np.testing.assert_array_equal(enc.table(), vectors[offset:])
    assert enc.eps == 2**-23
    assert enc.params["array"] == tensor
    assert enc.params["offset"] == offset
    assert [f.code for f in enc.findings] == ["position-offset"] * bool(offset)
    assert len(load(config(values), length=3)) == 3
    with pytest.raises(PefourierError, match=f"has {10 - offset} positions, fewer than length"):
        load(config(values), length=11)
    with pytest.raises(PefourierError, match=r"of 4 \(tensor .*\), which contradicts --d 5"):
        load(config(values), d=5)


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
        np.testing.assert_allclose(load(f"{path}{part}").table(), expected, atol=1e-6)


def test_learned_positions_of_whispers_decoder_are_in_its_weights(config, tmp_path, vectors):
    tensor = "model.decoder.embed_positions.weight"
    safetensors(tmp_path / "model.safetensors", {tensor: vectors})
    path = config({"model_type": "whisper", "d_model": 4, "max_source_positions": 12})
    assert load(path).params["length"] == 12
    np.testing.assert_array_equal(load(f"{path}#decoder").table(), vectors)

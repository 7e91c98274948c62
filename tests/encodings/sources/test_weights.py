"""Trained positions in a model folder: what is found, how the models look it up, what is said."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from rotary_modules import config_class, quiet
from stored import safetensors

from pefourier.encodings import load
from pefourier.encodings.model_positions import table_of_config
from pefourier.encodings.sources.weights import is_formula
from pefourier.errors import PefourierError
from pefourier.questions import faithful
from pefourier.questions.context import last_bucket

BERT = {"model_type": "bert", "max_position_embeddings": 12, "hidden_size": 8}
TABLE = "embeddings.position_embeddings.weight"


def lags(enc):
    """Codes by lag -(n-1) … n-1, or to 0 where it is causal."""
    return dict(zip(np.asarray(enc.domain.x).tolist(), enc.table(), strict=True))


@pytest.mark.parametrize("broken", [False, True])
def test_a_folder_says_of_its_table_what_the_file_says(broken, config, folder, rng, run):
    """The doctor looks at what came from weights, however it was reached."""
    codes = rng.normal(size=(12, 8)).astype(np.float32)
    codes[5:] = codes[5] if broken else codes[5:]
    safetensors(folder / "model.safetensors", {TABLE: codes})
    config(BERT)
    (by_folder,) = run("check-faithful", str(folder), "--json").results
    (by_file,) = run("check-faithful", f"{folder}/model.safetensors#{TABLE}", "--json").results
    of_model = ("encoding", "spec", "params", "conclusion", "layers", "softmax_factor")
    rest = [{k: v for k, v in one.items() if k not in of_model} for one in (by_folder, by_file)]
    assert rest[0] == rest[1]
    assert ("clipped-index" in [f["code"] for f in rest[0]["findings"]]) is broken


def test_a_sinusoidal_table_in_weights_is_identified(config, folder):
    table = load("sinusoidal", length=12, d=8).table().astype(np.float32)
    safetensors(folder / "model.safetensors", {TABLE: table})
    config(BERT)
    assert faithful.assess(load(str(folder))).identified["encoding"] == "sinusoidal"


def test_shards_are_found_by_their_index(config, folder, rng):
    codes = rng.normal(size=(12, 8)).astype(np.float32)
    safetensors(folder / "part-a.safetensors", {"other": codes})
    safetensors(folder / "part-b.safetensors", {TABLE: codes})
    placed = {"other": "part-a.safetensors", TABLE: "part-b.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    config(BERT)
    np.testing.assert_array_equal(load(str(folder)).table(), codes)
    index.write_text(json.dumps({"weight_map": {TABLE: "../elsewhere.safetensors"}}))
    with pytest.raises(PefourierError, match=r"must be the name of a file beside it; got '\.\./"):
        load(str(folder))
    index.write_text(json.dumps({"weight_map": {TABLE: "gone.safetensors"}}))
    with pytest.raises(PefourierError, match=r"unknown file 'gone\.safetensors'"):
        load(str(folder))


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_t5s_trained_biases_are_looked_up_as_its_code_does(side, config, folder, rng):
    from transformers.models.t5.modeling_t5 import T5Attention

    bias = rng.normal(size=(32, 3)).astype(np.float32)
    name = "{}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
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
    assert (enc.name, enc.origin, enc.act) == ("t5", "weights", "bias")
    assert enc.findings == ()
    found = lags(enc)
    for query in (0, 7, 299):
        for key in range(300):
            if key - query in found:
                np.testing.assert_array_equal(found[key - query], wanted[:, query, key])


@pytest.mark.parametrize("norm", ["none", "layer_norm"])
@pytest.mark.parametrize("kind", ["deberta", "deberta-v2"])
def test_debertas_vectors_are_looked_up_as_its_code_does(kind, norm, config, folder, rng):
    from transformers.models.deberta_v2 import modeling_deberta_v2 as v2

    if kind == "deberta" and norm == "layer_norm":
        pytest.skip("only the second version normalises them")
    buckets, longest, d = (32, 64, 6) if kind == "deberta-v2" else (-1, 64, 6)
    rows = 2 * (buckets if buckets > 0 else longest)
    vectors, gain, shift = (rng.normal(size=s).astype(np.float32) for s in ((rows, d), d, d))
    side = {"encoder.LayerNorm.weight": gain, "encoder.LayerNorm.bias": shift}
    safetensors(folder / "model.safetensors", {"encoder.rel_embeddings.weight": vectors, **side})
    config(
        {
            **{"model_type": kind, "relative_attention": True, "position_buckets": buckets},
            **{"max_relative_positions": -1, "max_position_embeddings": longest},
            **{"norm_rel_ebd": norm, "hidden_size": d, "num_attention_heads": 2},
        }
    )
    enc = load(str(folder), length=60)
    assert (enc.name, enc.origin, enc.act) == ("deberta", "weights", "key")
    states = torch.zeros(1, 60, d)
    distance = v2.build_relative_position(states, states, buckets, longest if buckets > 0 else -1)
    own = torch.tensor(vectors)
    if norm == "layer_norm":
        own = torch.nn.functional.layer_norm(
            own, (d,), torch.tensor(gain), torch.tensor(shift), 1e-7
        )
    wanted = own[torch.clamp(distance[0] + rows // 2, 0, rows - 1)].numpy()
    found = lags(enc)
    for query in (0, 31, 59):
        for key in range(60):
            np.testing.assert_allclose(found[key - query], wanted[query, key], atol=2e-6)
    states = torch.zeros(1, 200, d)
    distance = v2.build_relative_position(states, states, buckets, longest if buckets > 0 else -1)
    rows_met = torch.clamp(distance[0] + rows // 2, 0, rows - 1).numpy()
    far = last_bucket(enc)
    for side in (rows_met[0], rows_met[:, 0]):
        assert len(set(side[far:])) == 1
    assert any(side[far - 1] != side[far] for side in (rows_met[0], rows_met[:, 0]))


def test_debertas_distances_are_no_table_of_512_positions(config, run):
    own = {"model_type": "deberta-v2", "relative_attention": True, "max_position_embeddings": 512}
    assert len(table_of_config(config(own))) == 512
    path = config({**own, "relative_attention": False, "position_biased_input": False})
    assert table_of_config(path) is None
    for command in ("context", "check-faithful"):
        assert run(command, path).status == 2


@pytest.mark.parametrize(
    ("kind", "buckets", "longest"),
    [("deberta-v2", 32, 64), ("deberta-v2", -1, 64), ("deberta", -1, 64), ("deberta-v2", 256, -1)],
)
def test_without_weights_debertas_distances_end_where_with_them(
    kind, buckets, longest, config, folder, rng, run
):
    own = {"relative_attention": True, "position_biased_input": False, "num_hidden_layers": 2}
    own |= {"position_buckets": buckets, "max_relative_positions": longest}
    path = config({"model_type": kind, "max_position_embeddings": 512, **own})
    (bare,) = run("context", path, "--json").results
    assert [one["kind"] for one in bare["layers"]] == ["deberta"]
    assert bare["rotations"] == []
    assert "their table is in" not in run("check-faithful", path).err
    rows = 2 * (buckets if buckets > 0 else longest)
    vectors = rng.normal(size=(rows, 6)).astype(np.float32)
    safetensors(folder / "model.safetensors", {"encoder.rel_embeddings.weight": vectors})
    (full,) = run("context", path, "--json").results
    assert bare["conclusion"] == full["conclusion"]


def test_debertas_second_version_without_its_norm_is_refused(config, folder, rng):
    safetensors(folder / "model.safetensors", {"encoder.rel_embeddings.weight": np.ones((64, 6))})
    own = {"relative_attention": True, "position_buckets": 32, "norm_rel_ebd": "layer_norm"}
    config({"model_type": "deberta-v2", **own})
    path = str(folder / "model.safetensors")
    message = f"{path!r} has no encoder.LayerNorm.weight, which the config asks for"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(str(folder), length=9)


def warned(found, code="weights-config"):
    """What is said of a table that is not its config's."""
    return [f.message for f in found.findings if f.code == code]


@pytest.mark.parametrize(
    ("values", "tensor", "shape", "said"),
    [
        (BERT, TABLE, (12, 8), None),
        (
            {**BERT, "max_position_embeddings": 24},
            *(TABLE, (12, 8), "has 12 rows where max_position_embeddings is 24"),
        ),
        ({**BERT, "hidden_size": 16}, TABLE, (12, 8), "has 8 columns where hidden_size is 16"),
        (
            {"model_type": "gpt2", "n_positions": 12, "n_embd": 8},
            *("wpe.weight", (8, 12), "lies transposed, 8 x 12: turn it round"),
        ),
        (
            {**BERT, "model_type": "opt"},
            *("model.decoder.embed_positions.weight", (14, 8), None),
        ),
        ({**BERT, "model_type": "roberta"}, f"roberta.{TABLE}", (12, 8), None),
        ({**BERT, "model_type": "nystromformer"}, TABLE, (14, 8), None),
        ({**BERT, "model_type": "electra", "embedding_size": 4}, TABLE, (12, 4), None),
        ({**BERT, "model_type": "mobilebert", "embedding_size": 4}, TABLE, (12, 8), None),
    ],
    ids=str,
)
def test_a_table_unlike_its_config_is_a_warning(
    values, tensor, shape, said, config, folder, rng, run
):
    """Over the default config of each learned type of transformers there is none (by hand)."""
    table = rng.normal(size=shape).astype(np.float32)
    safetensors(folder / "model.safetensors", {tensor: table})
    config(values)
    messages = warned(load(str(folder)))
    assert [said in one for one in messages] == [True] * bool(said), messages
    assert run("check-faithful", str(folder), "--strict", "-q").status == bool(said)


WHISPER = {"model_type": "whisper", "d_model": 8, "max_source_positions": 30}
DISTILBERT = {"model_type": "distilbert", "dim": 8, "max_position_embeddings": 30}


@pytest.mark.parametrize(
    ("values", "tensor"),
    [
        (WHISPER, "model.encoder.embed_positions.weight"),
        ({**DISTILBERT, "sinusoidal_pos_embds": True}, f"distilbert.{TABLE}"),
        (
            {"model_type": "marian", "d_model": 8, "max_position_embeddings": 30},
            "model.encoder.embed_positions.weight",
        ),
        (
            {"model_type": "fsmt", "d_model": 8, "pad_token_id": 1},
            "model.encoder.embed_positions.weight",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else one["model_type"],
)
def test_stored_sinusoids_are_looked_at_and_what_is_loaded_is_answered(
    values, tensor, config, folder, rng
):
    path = config(values)
    formula = load(path, length=30)
    first = formula.params["offset"]
    rows = load(path, length=30 + first).codes(np.arange(-first, 30)).astype(np.float16)
    safetensors(folder / "model.safetensors", {tensor: rows.astype(np.float32)})
    own = load(path, length=30)
    np.testing.assert_array_equal(rows[first:], own.table().astype(np.float16))
    changes = {"reversed": rows[::-1], "noise": rng.normal(size=rows.shape)}
    for other in changes.values():
        safetensors(folder / "model.safetensors", {tensor: np.asarray(other, dtype=np.float32)})
        found = load(path)
        np.testing.assert_array_equal(found.table(), np.asarray(other, dtype=np.float32)[first:])
        assert "is not the sinusoids that model_type" in warned(found)[0]
    safetensors(folder / "model.safetensors", {tensor: formula.codes(np.arange(-first, 30))})
    assert not warned(load(path, length=99))
    assert load(path, length=99).measure is not None


def test_a_table_of_another_width_is_not_that_of_a_formula():
    wide, narrow = (load("sinusoidal", 8, d) for d in (16, 8))
    assert not is_formula(wide, narrow)
    assert is_formula(wide, replace(wide, params=wide.params | {"offset": 0}))


@pytest.mark.parametrize(
    ("name", "biases"),
    [
        ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", True),
        ("layers.0.blocks.0.attn.relative_position_bias_table", True),
        ("rel_pos_bias.weight", True),
        (TABLE, False),
        ("position_bias_free", False),
        ("blocks.2.attn.rel_pos_h", None),
    ],
)
@pytest.mark.parametrize("question", ["check-faithful", "spectrum", "relations"])
def test_an_array_named_for_biases_is_said_to_hold_no_codes(
    name, biases, question, folder, rng, run
):
    safetensors(folder / "own.safetensors", {name: rng.normal(size=(25, 4)).astype(np.float32)})
    (found,) = run(question, f"{folder}/own.safetensors", "--json").results
    codes = [finding["code"] for finding in found["findings"]]
    assert ("biases-as-codes" in codes) is bool(biases)
    assert ("lags-as-codes" in codes) is (biases is None)

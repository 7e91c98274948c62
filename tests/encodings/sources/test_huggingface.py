"""Biases, sinusoids and learned tables of model configs, compared with transformers where it is."""

import re
import warnings

import numpy as np
import pytest
from stored import safetensors

from pefourier.encodings import load
from pefourier.encodings.sources.models import model_types
from pefourier.errors import PefourierError, shown


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ({"model_type": "bloom", "n_head": 12, "seq_length": 20}, "alibi:causal=true"),
        ({"model_type": "mpt", "n_heads": 12, "max_seq_len": 20, "attn_config": {}}, None),
        ({"model_type": "falcon", "num_attention_heads": 12, "alibi": True}, None),
    ],
    ids=str,
)
def test_alibi_has_a_column_a_head(values, spec, config):
    enc = load(config(values), length=20)
    same = load(spec or "alibi:causal=true", length=20, d=12)
    np.testing.assert_array_equal(enc.table(), same.table())
    assert enc.act == "bias"


def test_falcon_rotates_unless_it_has_alibi(config):
    falcon = {"model_type": "falcon", "hidden_size": 64, "num_attention_heads": 4, "alibi": False}
    assert load(config(falcon), length=4).name == "rope"


@pytest.mark.parametrize(("part", "causal"), [("", False), ("#encoder", False), ("#decoder", True)])
def test_t5_has_the_buckets_of_its_config(part, causal, config):
    values = {"model_type": "t5", "num_heads": 6, "relative_attention_num_buckets": 16}
    enc = load(config(values) + part, length=9)
    assert enc.params["buckets"] == 16
    assert enc.params["max_distance"] == 128
    assert enc.params["causal"] is causal
    assert enc.table().shape == (9 if causal else 17, 6)
    assert [f.code for f in enc.findings] == ["untrained"]


@pytest.fixture
def codes(rng):
    return rng.normal(size=(10, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("values", "tensor", "offset"),
    [
        ({"model_type": "gpt2", "n_positions": 10}, "wpe.weight", 0),
        ({"model_type": "gpt2", "n_positions": 10}, "transformer.wpe.weight", 0),
        ({"model_type": "bert"}, "bert.embeddings.position_embeddings.weight", 0),
        ({"model_type": "opt"}, "model.decoder.embed_positions.weight", 2),
        ({"model_type": "roberta"}, "roberta.embeddings.position_embeddings.weight", 2),
        (
            {"model_type": "roberta", "pad_token_id": 4},
            "embeddings.position_embeddings.weight",
            5,
        ),
    ],
    ids=str,
)
def test_learned_positions_come_from_the_weights(values, tensor, offset, config, tmp_path, codes):
    others = {"wte.weight": np.zeros((3, 4)), "token_type_embeddings.weight": np.zeros((2, 4))}
    safetensors(tmp_path / "model.safetensors", {**others, tensor: codes})
    enc = load(config(values))
    np.testing.assert_array_equal(enc.table(), codes[offset:])
    assert enc.eps == 2**-23
    assert enc.params["array"] == tensor
    assert enc.params["offset"] == offset
    assert [f.code for f in enc.findings] == ["position-offset"] * bool(offset)
    assert len(load(config(values), length=3)) == 3
    message = (
        f"{tensor} of {str(tmp_path / 'model.safetensors')!r} has {10 - offset} "
        "positions, fewer than --length 11"
    )
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(config(values), length=11)
    with pytest.raises(PefourierError, match=r"sets a dimension of 4 \(tensor .*\), --d 5 another"):
        load(config(values), d=5)


def test_each_config_inside_another_has_its_own_table(config, tmp_path):
    """As CLIP has: the text model's where none is named."""
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


def test_one_of_several_learned_tables_is_named(config, tmp_path, codes):
    names = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    safetensors(tmp_path / "model-1.safetensors", {names[0]: codes})
    safetensors(tmp_path / "model-2.safetensors", {names[1]: -codes})
    path = config({"model_type": "bart", "d_model": 4})
    message = (
        f"{shown(str(tmp_path))} holds several tables of positions, {names[0]}, {names[1]}; "
        f"name one, {shown(path + '#' + names[0])}"
    )
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(path)
    np.testing.assert_array_equal(load(f"{path}#decoder").table(), -codes[2:])
    np.testing.assert_array_equal(load(f"{tmp_path}#{names[0]}").table(), codes[2:])


def test_a_broken_header_of_weights_is_one_line(config, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\x05" + bytes(7) + b"[1,2]")
    message = (
        f"{str(tmp_path / 'model.safetensors')!r} is not a readable .safetensors file: "
        "its header does not describe arrays; write it again"
    )
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(config({"model_type": "gpt2", "n_positions": 10}))


def sinusoids_of(transformers, kind):
    """Rows for positions 0 … 29 of width 8 that a model's own class computes, as float32."""
    import importlib

    module = importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")
    torch, ids = transformers.torch, transformers.torch.arange(30)[None]
    tokens = torch.full((1, 30), 5)
    if kind in ("marian", "pegasus"):
        name = f"{kind.title()}SinusoidalPositionalEmbedding"
        return getattr(module, name)(30, 8).create_weight()
    if kind in ("informer", "autoformer", "time_series_transformer"):
        name = {"time_series_transformer": "TimeSeries"}.get(kind, kind.title())
        return getattr(module, f"{name}SinusoidalPositionalEmbedding")(30, 8).create_weight()
    if kind == "ctrl":
        return module.positional_encoding(30, 8, torch.float)
    if kind == "whisper":
        return module.sinusoids(30, 8)
    if kind == "videomae":
        return module.get_sinusoid_encoding_table(30, 8)[0]
    if kind == "pegasus_x":
        return module.PegasusXSinusoidalPositionalEmbedding(8)(torch.zeros(1, 30, 8))[0]
    if kind == "fsmt":
        return module.SinusoidalPositionalEmbedding.get_embedding(33, 8, 1)[2:32]
    if kind in ("musicgen", "musicgen_melody"):
        name = "".join(part.title() for part in kind.split("_"))
        return getattr(module, f"{name}SinusoidalPositionalEmbedding")(30, 8).weights
    name = {"m2m_100": "M2M100", "nllb_moe": "NllbMoe", "speech_to_text": "Speech2Text"}
    own = getattr(module, f"{name.get(kind, 'XGLM')}SinusoidalPositionalEmbedding")(30, 8, 1)
    return own(ids if kind == "xglm" else tokens)[0]


SINUSOIDAL = sorted(
    {
        kind.removesuffix("_decoder")
        for kind, row in model_types().items()
        if "table" in row and "when" not in row and kind != "nllb-moe"
    }
)


@pytest.mark.parametrize("kind", SINUSOIDAL)
def test_sinusoids_are_those_of_the_model_class(kind, config, transformers):
    values = {"model_type": kind, "d_model": 8, "pad_token_id": 1}
    if kind.startswith("musicgen"):
        values = {"model_type": kind, "decoder": {"model_type": f"{kind}_decoder", "d_model": 8}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = sinusoids_of(transformers, kind).numpy()
    enc = load(config(values), length=30)
    np.testing.assert_allclose(enc.table(), wanted, atol=3e-6)
    shifted = kind in ("fsmt", "m2m_100", "nllb_moe", "speech_to_text", "xglm")
    assert enc.params["offset"] == (2 if shifted else 0)
    assert [f.code for f in enc.findings] == ["position-offset"] * shifted


@pytest.mark.parametrize("d", [8, 9])
def test_musicgen_has_cosines_first_and_then_perhaps_a_column_of_zeros(d, config):
    table = load(config({"model_type": "musicgen_decoder", "d_model": d}), length=5).table()
    phases = np.outer(np.arange(5), 10000.0 ** (-np.arange(4) / 3))
    wanted = np.hstack([np.cos(phases), np.sin(phases), np.zeros((5, d - 8))])
    np.testing.assert_allclose(table, wanted, atol=1e-14)


@pytest.mark.parametrize(
    ("values", "layout"),
    [
        ({"model_type": "distilbert", "dim": 8, "sinusoidal_pos_embds": True}, "interleaved"),
        ({"model_type": "xlm", "emb_dim": 8, "sinusoidal_embeddings": True}, "interleaved"),
        ({"model_type": "flaubert", "emb_dim": 8, "sinusoidal_embeddings": True}, "interleaved"),
    ],
    ids=str,
)
def test_sinusoids_that_a_flag_asks_for(values, layout, config):
    enc = load(config(values), length=5)
    np.testing.assert_array_equal(
        enc.table(), load(f"sinusoidal:layout={layout}", length=5, d=8).table()
    )


def test_learned_positions_of_whispers_decoder_are_in_its_weights(config, tmp_path, codes):
    tensor = "model.decoder.embed_positions.weight"
    safetensors(tmp_path / "model.safetensors", {tensor: codes})
    path = config({"model_type": "whisper", "d_model": 4, "max_source_positions": 12})
    assert load(path).params["length"] == 12
    np.testing.assert_array_equal(load(f"{path}#decoder").table(), codes)


def test_weights_of_something_else_beside_the_config_are_not_read(config, tmp_path, codes):
    safetensors(tmp_path / "other.safetensors", {"wpe.weight": codes})
    path = config({"model_type": "gpt2", "n_embd": 4, "n_positions": 16})
    with pytest.raises(PefourierError, match=r"put model\.safetensors beside it"):
        load(path)

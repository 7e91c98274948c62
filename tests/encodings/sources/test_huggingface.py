"""Biases, sinusoids and learned tables of model configs, compared with transformers where it is."""

import numpy as np
import pytest
from stored import safetensors

from pefourier.encodings import load
from pefourier.errors import PefourierError


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
    with pytest.raises(PefourierError, match=f"has {10 - offset} positions, fewer than --length"):
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
    with pytest.raises(PefourierError, match=f"name one, .*#{names[0]}"):
        load(path)
    np.testing.assert_array_equal(load(f"{path}#decoder").table(), -codes[2:])
    np.testing.assert_array_equal(load(f"{tmp_path}#{names[0]}").table(), codes[2:])


@pytest.mark.parametrize("d", [8, 9])
def test_musicgen_has_cosines_first_and_then_perhaps_a_column_of_zeros(d, config):
    table = load(config({"model_type": "musicgen_decoder", "d_model": d}), length=5).table()
    phases = np.outer(np.arange(5), 10000.0 ** (-np.arange(4) / 3))
    wanted = np.hstack([np.cos(phases), np.sin(phases), np.zeros((5, d - 8))])
    np.testing.assert_allclose(table, wanted, atol=1e-14)


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

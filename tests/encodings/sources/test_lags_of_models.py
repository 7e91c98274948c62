"""Configs of models with relative sinusoids or DeBERTa's distances equal their source code."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rotary_modules import config_class, quiet
from stored import safetensors

from pefourier.encodings import load
from pefourier.encodings.sources.huggingface import open_config
from pefourier.errors import PefourierError
from pefourier.questions.context import last_bucket

SMALL = {"hidden_size": 8, "num_attention_heads": 2}
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

    values = {"model_type": kind, **SMALL, "position_embeddings_type": "relative"}
    with quiet():
        own = config_class(kind)(**SMALL)
        name = kind.removesuffix("_encoder").replace("-", "_")
        module = import_module(f"transformers.models.{name}.modeling_{name}")
        rows = getattr(module, CLASSES[kind])(own)(torch.zeros(1, 13, 8))[0].numpy()
    part = "#speech_encoder" if kind == "seamless_m4t" else ""
    enc = load(config(values) + part, length=13)
    assert (enc.name, enc.injection, enc.origin) == ("xl", "key", "formula")
    np.testing.assert_allclose(enc.table(), rows, atol=2e-6)


def test_fastspeechs_rows_are_those_of_its_config(config):
    from transformers.models.fastspeech2_conformer import modeling_fastspeech2_conformer as model

    encoding = model.FastSpeech2ConformerRelPositionalEncoding
    own = SimpleNamespace(hidden_size=8)
    rows = encoding(own, {"positional_dropout_rate": 0.0})(torch.zeros(1, 6, 8))[1][0]
    inner = {"model_type": "fastspeech2_conformer", "hidden_size": 8}
    outer = {"model_type": "fastspeech2_conformer_with_hifigan", "model_config": inner}
    for path in (config(inner), config(outer, "outer.json")):
        np.testing.assert_allclose(load(path, length=6).table(), rows, atol=1e-6)


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
    assert [layers["kind"] for layers in answer["layers"]] == ["deberta"]
    assert (answer["verdict"], answer["rotations"]) == ("limited distance", [])
    enc = load(path)
    assert ([f.code for f in enc.findings], len(enc), enc.dim) == (["untrained"], 1023, 6)
    states = torch.zeros(1, 600, 6)
    longest = longest if longest > 0 else 512
    distance = v2.build_relative_position(states, states, buckets, longest if buckets > 0 else -1)
    rows = 2 * (buckets if buckets > 0 else longest)
    met = torch.clamp(distance[0] + rows // 2, 0, rows - 1).numpy()
    far = last_bucket(enc)
    for side in (met[0], met[:, 0]):
        assert len(set(side[far:])) == 1
    assert any(side[far - 1] != side[far] for side in (met[0], met[:, 0]))
    vectors = 0.02 * np.random.RandomState(0).normal(size=(rows, 6))
    expected = vectors[met[300, 201:400]]  # of keys 99 before to 99 after the query
    np.testing.assert_array_equal(enc.vectors(np.arange(-99, 100)), expected)
    assert open_config(path).table_without_weights() is None
    assert run("check-faithful", path).status < 2


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
    np.testing.assert_allclose(enc.vectors(np.arange(-15, 15)), vectors, rtol=1e-5, atol=1e-6)
    assert (enc.origin, enc.injection, enc.untrained) == ("weights", "key-query", False)
    assert [f.code for f in enc.findings] == ["with-convolution"] * (kind == "sew-d")
    safetensors(folder / "model.safetensors", {"rel_embeddings.weight": np.ones((9, 6))})
    with pytest.raises(PefourierError, match=r"must have shape \(16, 6\); got \(9, 6\)"):
        load(str(folder), length=30)

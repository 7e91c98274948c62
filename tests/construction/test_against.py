"""Frequencies and cosines of named misreadings equal the published table in every row."""

import json

import numpy as np
import pytest

from pefourier.construction.rope import misread
from pefourier.encodings import load
from pefourier.encodings.attention_decay import reading_cosine
from pefourier.errors import PefourierError
from pefourier.questions.rotations import read_against

LLAMA31 = "rope:rho=5e5,scaling=llama3,factor=8,original=8192"
QWEN = "rope:rho=1e6,scaling=yarn,factor=4,original=32768"
OSS = "rope:rho=150000,d=64,scaling=yarn,factor=32,original=4096,truncate=false"
TABLE = [  # rotation, misreading, cosines at 128, 1024, 4096, 32768, first positions below a limit
    ("rope:rho=5e5", "base=1e4", (0.386, 0.250, 0.011, 0.075), (3, 9, 27)),
    ("rope:rho=1e6", "base=1e4", (0.475, 0.238, 0.126, -0.082), (3, 8, 25)),
    (LLAMA31, "scaling-ignored", (0.9994, 0.961, 0.708, 0.597), (512, 1724, 60725)),
    (LLAMA31, "base=1e4,scaling-ignored", (0.375, 0.249, 0.043, 0.100), (3, 9, 27)),
    (
        *("rope:rho=1e6,d=256,scaling=linear,factor=8", "scaling-ignored"),
        *((0.598, 0.455, 0.362, 0.211), (1, 3, 389)),
    ),
    (QWEN, "scaling-ignored", (0.9997, 0.981, 0.766, 0.569), (743, 2453, 67990)),
    (QWEN, "original=40960", (0.99998, 0.9986, 0.978, 0.804), (2733, 9948, None)),
    (OSS, "truncate=true", (0.99994, 0.996, 0.941, 0.730), (1655, 5439, None)),
    (OSS, "original=131072", (0.969, 0.582, 0.629, 0.535), (72, 237, 4444)),
    ("rope:rho=1e6,d=128", "d=160", (0.479, 0.361, 0.231, 0.050), (5, 15, 117)),
    ("rope:partial=.5,d=128", "partial-ignored", (-0.023, -0.005, -0.047, -0.105), (2, 4, 9)),
]


@pytest.mark.parametrize(("spec", "other", "cosines", "below"), TABLE)
def test_the_cost_of_a_misreading_is_the_published_one(spec, other, cosines, below):
    enc = load(spec, 8192, 128)
    read, _ = misread(enc, other, 8192, None)
    points = np.array([128, 1024, 4096, 32768])
    found = reading_cosine(enc.measure.frequencies, read, points)
    np.testing.assert_allclose(found, cosines, atol=6e-4)
    assert tuple(read_against([enc], other, 8192).below.values()) == below


def test_the_local_layers_of_gemma_given_the_global_base(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gemma3_text", "head_dim": 256}))
    enc = load(f"{path}#sliding_attention", 8192)
    found = read_against([enc], "local-for-global", 8192)
    assert tuple(found.below.values()) == (3, 8, 25)
    assert found.rotation == "sliding_attention"


def test_a_misreading_keeps_other_settings():
    """A misreading of the base keeps the scaling, and one of the scaling keeps the base."""
    read, _ = misread(load(LLAMA31, 8192, 128), "base=10000", 8192, None)
    same = load(LLAMA31.replace("5e5", "1e4"), 8192, 128).measure.frequencies
    np.testing.assert_array_equal(read, same)
    shared = load("rope:scaling=proportional,partial=.5,factor=4", 80, 16)
    read, _ = misread(shared, "scaling-ignored", 80, None)
    np.testing.assert_array_equal(read, 4 * shared.measure.frequencies)


NONE = {"scaling=linear": "factor", "original=8192": "original=8192", "local-for-global": "rope"}
NONE |= {"nonsense": "nonsense", "sinusoidal": "sinusoidal"}


@pytest.mark.parametrize(("other", "value"), NONE.items())
def test_impossible_misreadings_are_refused(other, value):
    with pytest.raises(PefourierError, match=value):
        misread(load("rope", 80, 16), other, 80, None)


def test_the_factor_of_the_softmax_follows_the_scaling(tmp_path):
    """DeepSeek scales logits by (0.1 mscale_all_dim ln factor + 1)^2, without attention factor."""
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    config = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "qk_nope_head_dim": 64}
    config["rope_scaling"] = scaling | {"mscale": 1.0, "mscale_all_dim": 1.0}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    right = (0.1 * np.log(4) + 1) ** 2
    for other, factor in (("factor=8", (0.1 * np.log(8) + 1) ** 2), ("scaling-ignored", 1.0)):
        logits = read_against([load(str(path), 80)], other, 80).logits
        assert logits == pytest.approx(factor / right, rel=1e-8)

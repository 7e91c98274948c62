"""What schedules of layers give away, and that published ones give away nothing."""

import json

import pytest
from published_configs import PUBLISHED

from pefourier.encodings.sources.layers import SCHEDULE_RULES as RULES
from pefourier.encodings.sources.layers import lint_layers, open_model, read_layers

FEW = [1, 1, 1, 0] * 9
LOCAL = ["sliding_attention"] * 6


def findings(tmp_path, trained=8192, **config):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return lint_layers(open_model(str(path)), read_layers(str(path), ""), trained)


CASES = [
    (
        "layers-inverted",
        {"model_type": "smollm3", "num_hidden_layers": 36, "no_rope_layers": [1 - i for i in FEW]},
        "27 of 36 layers without positions, where model_type 'smollm3' has 9",
    ),
    (None, {"model_type": "smollm3", "num_hidden_layers": 36, "no_rope_layers": FEW}, ""),
    (
        "layers-no-global",
        {"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 512}
        | {"layer_types": LOCAL},
        "tokens more than 3066 positions apart never meet, of 8192",
    ),
    (None, {"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 512}, ""),
    (None, {"model_type": "mistral", "num_hidden_layers": 6}, ""),
    (
        "window-above-trained",
        {"model_type": "mistral", "num_hidden_layers": 6, "sliding_window": 16384},
        "a window of 16384 is longer than the 8192 positions of training",
    ),
    (
        "window-below-one",
        {"model_type": "mistral", "num_hidden_layers": 6, "sliding_window": 0},
        "leaves a query no position to see",
    ),
    (None, {"model_type": "qwen2", "num_hidden_layers": 6, "sliding_window": 0}, ""),
    (
        "layers-needless",
        {"model_type": "nobody", "head_dim": 64, "num_hidden_layers": 2}
        | {"layer_types": ["linear_attention", "full_attention"]}
        | {
            "rope_parameters": {
                k: {"rope_theta": 1e4} for k in ("linear_attention", "full_attention")
            }
        },
        "linear_attention of rope_parameters of 'config.json' sets a rotation for layers that have",
    ),
    (
        "rope-indexer",
        {"model_type": "deepseek_v32", "num_hidden_layers": 2},
        "pairing halves, where attention pairs neighbours",
    ),
    (
        "rope-indexer",
        {"model_type": "glm_moe_dsa", "index_n_heads": 32, "index_head_dim": 128},
        "(32 heads of 128) has a second rotation: the same frequencies, pairing neighbours as in",
    ),
]


@pytest.mark.parametrize(("code", "config", "words"), CASES, ids=range(len(CASES)))
def test_a_schedule_is_judged(tmp_path, code, config, words):
    found = findings(tmp_path, **config)
    assert [f.code for f in found] == [code] * bool(code)
    assert all(
        words.replace("'config.json'", "")
        in f.message.replace(repr(str(tmp_path / "config.json")), "")
        for f in found
    )


def test_every_finding_has_a_case():
    assert len({code for code, *_ in CASES if code}) == len(RULES)


def test_published_schedules_have_no_warning(tmp_path):
    for name, config in PUBLISHED.items():
        found = findings(tmp_path, **config)
        assert [f for f in found if f.severity != "note"] == [], name

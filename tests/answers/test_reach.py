"""What `context` says of layers: within the windows that their queries see."""

import json

import numpy as np
import pytest
from published_configs import PUBLISHED

from pefourier.analysis.context import describe_context, window_within
from pefourier.answers.context import USUAL, conclude_context

PHI = "microsoft/Phi-3-mini-128k-instruct"
GEMMA2 = {
    **{"model_type": "gemma2", "head_dim": 256, "num_hidden_layers": 26, "rope_theta": 1e4},
    **{"max_position_embeddings": 8192, "sliding_window": 4096},
}
GEMMA3 = {
    **{"model_type": "gemma3_text", "head_dim": 256, "num_hidden_layers": 34, "rope_theta": 1e6},
    **{"max_position_embeddings": 131072, "sliding_window": 1024},
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
MISTRAL = {
    **{"model_type": "mistral", "head_dim": 128, "num_hidden_layers": 32, "rope_theta": 1e4},
    **{"max_position_embeddings": 32768, "sliding_window": 4096},
}
COMMAND = {
    **{"model_type": "cohere2", "head_dim": 128, "num_hidden_layers": 32, "rope_theta": 5e4},
    **{"max_position_embeddings": 8192, "sliding_window": 4096, "sliding_window_pattern": 4},
}
SMOLLM = {
    **{"model_type": "smollm3", "head_dim": 128, "num_hidden_layers": 36, "rope_theta": 5e6},
    **{"max_position_embeddings": 65536, "no_rope_layer_interval": 4},
}
QWEN2 = {
    **{"model_type": "qwen2", "head_dim": 128, "num_hidden_layers": 28, "rope_theta": 1e6},
    **{"max_position_embeddings": 32768, "use_sliding_window": True, "max_window_layers": 1},
}


def concluded(tmp_path, config, *asked):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    (enc, *_), found = describe_context(str(path), *asked)
    return conclude_context(enc, found).text


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (MISTRAL, "18 of 64 pairs never complete a turn within the window of 4096."),
        (
            GEMMA3,
            "57 of 128 pairs never complete a turn within the window of 1024 in sliding_attention "
            "layers and 55 of 128 pairs never complete a turn in full_attention layers.",
        ),
        (
            GEMMA3,
            "The sum of cosines stays positive within the window of 1024 (sliding_attention) and "
            "the length of 131072 (full_attention).",
        ),
        (COMMAND, "25 of 64 pairs never complete a turn within the window of 4096."),
        (COMMAND, "The sum of cosines stays positive within the window of 4096."),
        (
            {**MISTRAL, "sliding_window": None},
            "negative at lag 1707, 5.2 % of the length, earlier than in most published models; "
            "base 1015808 would keep it positive.",
        ),
        (QWEN2 | {"use_sliding_window": False}, "negative at lag 27115, 83 % of the length."),
        ({**MISTRAL, "sliding_window": 65536}, "4 of 64 pairs never complete a turn, so"),
    ],
)
def test_sentences_speak_of_what_a_query_sees(tmp_path, config, sentence):
    """Once of a lag of 2653 where a window has 1024."""
    assert sentence in concluded(tmp_path, config)


def test_a_sum_that_turns_negative_early_is_one_that_few_published_models_have(tmp_path):
    """Once 2 % of a length was called usual. A base that is told is one that serves."""
    shares = []
    for name in ("Llama-2-7b-hf", "Llama-3.1-8B", "Qwen2-7B", "Qwen3-8B", "phi-4", "gemma-7b"):
        (config,) = (own for full, own in PUBLISHED.items() if full.endswith(f"/{name}"))
        assert "earlier" not in concluded(tmp_path, config)
    for config in PUBLISHED.values():
        (tmp_path / "config.json").write_text(json.dumps(config))
        _, found = describe_context(str(tmp_path / "config.json"))
        seen = (window_within(r.window, found.length) or found.length for r in found.rotations)
        shares += [(r.bound or n) / n for r, n in zip(found.rotations, seen, strict=True)]
    assert np.mean(np.array(shares) > USUAL) > 0.7
    cosines = np.cos(np.outer(np.arange(32768), 1015808.0 ** (-np.arange(64) / 64)))
    assert cosines.sum(axis=1).min() >= 0


def test_what_published_models_do_is_said_first(tmp_path):
    """A length that Llama 3.1 was trained at was once only told by two conditions."""
    llama, phi = (PUBLISHED[name] for name in ("meta-llama/Llama-3.1-8B", PHI))
    other = {**llama, "rope_scaling": {**llama["rope_scaling"], "factor": 4.0}}
    trained = "Llama 3.1, whose training went on to 131072 positions with them"
    assert trained in concluded(tmp_path, llama)
    assert trained not in concluded(tmp_path, llama, 262144)
    assert trained not in concluded(tmp_path, other)
    assert ". Above 4096 positions long_factor is taken, else" in concluded(tmp_path, phi)


def test_a_window_is_named_only_where_it_is_shorter_than_the_length(tmp_path):
    wide = concluded(tmp_path, {**MISTRAL, "sliding_window": 262144}, 131072)
    assert "sees" not in wide
    assert "as a query sees 4096 positions" in concluded(tmp_path, MISTRAL, 131072)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            GEMMA2,
            "Even layers (13 of 26) see 4096 positions, the others all; both are rotated alike.",
        ),
        (
            GEMMA3,
            "Layers 5, 11, …, 29 (5 of 34) turn by base 1000000, scaling linear, and see all "
            "positions; the others turn by base 10000 and see 1024.",
        ),
        (
            COMMAND,
            "Layers 3, 7, …, 31 (8 of 32) are not rotated and see all positions; the others are "
            "rotated and see 4096.",
        ),
        (SMOLLM, "Layers 3, 7, …, 35 (9 of 36) are not rotated, the others are rotated."),
        (QWEN2, "Layer 0 (1 of 28) sees all positions, the others 4096; both are rotated alike."),
    ],
    ids=lambda one: one["model_type"] if isinstance(one, dict) else "",
)
def test_layers_that_differ_are_told_in_a_sentence(tmp_path, config, sentence):
    """Once the table alone showed which layers have a window."""
    told = concluded(tmp_path, config)
    assert sentence in told
    assert told.count(". ") < 5


def test_layers_that_see_all_of_a_length_are_alike(tmp_path):
    assert "layers" not in concluded(tmp_path, GEMMA2, 2048)
    assert "layers" not in concluded(tmp_path, MISTRAL)


VARIED = ("sliding_window", "attention_chunk_size", "no_rope_layer_interval")


@pytest.mark.parametrize(
    "name", [name for name, config in PUBLISHED.items() if any(map(config.get, VARIED))]
)
def test_a_conclusion_has_three_sentences_at_most(tmp_path, name):
    told = concluded(tmp_path, PUBLISHED[name])
    assert told.count(". ") < 5


def test_a_model_may_have_been_trained_further(tmp_path):
    """Once Llama 3.1 was said to meet new phases, and no more."""
    config, asked = PUBLISHED["meta-llama/Llama-3.1-8B"], (131072, 131072)
    further = "; if it went on at 131072 with the scaling (--trained 131072), no angle is new."
    other = {**config, "rope_scaling": {**config["rope_scaling"], "factor": 9.0}}
    assert further in concluded(tmp_path, other)
    known = concluded(tmp_path, config, 131072, 8192)  # of a user who knows when training ended
    assert known.startswith("UNSEEN ANGLES. Trained at 8192 positions without scaling llama3")
    told = concluded(tmp_path, config, *asked)
    assert "no angle is new" in told
    assert "If training" not in told
    assert "If training" not in concluded(tmp_path, config, 2**18)  # the config allows no more
    assert "If training" not in concluded(tmp_path, {**config, "rope_scaling": None}, 2**18)


def test_a_scaling_that_is_not_there_cannot_be_ignored(run, tmp_path):
    said = run("context", "rope:rho=5e5,d=128", "--length", "8k", "--against", "scaling-ignored")
    assert "There is no scaling to ignore." in " ".join(said.out.split())

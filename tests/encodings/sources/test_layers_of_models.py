"""Which layers of a config have which positions, in published shapes of models."""

import json

import pytest

from pefourier.encodings.sources.layers import LayerRun, read_layers

FOUR = tuple(range(3, 36, 4))


def runs(tmp_path, usual="learned", **config):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return read_layers(str(path), usual)


def test_layers_that_are_alike_are_one_run(tmp_path):
    assert runs(tmp_path, model_type="llama", num_hidden_layers=3) == [
        LayerRun((0, 1, 2), "rotary", "", None)
    ]


def test_gemma_rotates_by_type_of_layer(tmp_path):
    own = {"model_type": "gemma3_text", "num_hidden_layers": 8, "sliding_window": 1024}
    assert runs(tmp_path, **own) == [
        LayerRun((0, 1, 2, 3, 4, 6, 7), "rotary", "sliding_attention", 1024),
        LayerRun((5,), "rotary", "full_attention", None),
    ]
    local, whole = runs(tmp_path, **own, sliding_window_pattern=4)
    assert whole.index == (3, 7)
    told = ["full_attention", "sliding_attention"] * 2
    local, whole = runs(tmp_path, **{**own, "num_hidden_layers": 4}, layer_types=told)
    assert (local.index, whole.index) == ((0, 2), (1, 3))


def test_layers_without_positions(tmp_path):
    rotary, none = runs(tmp_path, model_type="smollm3", num_hidden_layers=36)
    assert (none.kind, none.index) == ("none", FOUR)
    assert len(rotary.index) == 27
    told = [1, 0, 1, 1]
    rotary, none = runs(tmp_path, model_type="smollm3", num_hidden_layers=4, no_rope_layers=told)
    assert (rotary.index, none.index) == ((0, 2, 3), (1,))
    _, none = runs(tmp_path, model_type="smollm3", num_hidden_layers=6, no_rope_layer_interval=2)
    assert none.index == (1, 3, 5)


def test_layers_that_recur_have_no_positions(tmp_path):
    none, rotary = runs(tmp_path, model_type="qwen3_next", num_hidden_layers=8)
    assert (none.kind, none.index) == ("none", (0, 1, 2, 4, 5, 6))
    assert (rotary.kind, rotary.index) == ("rotary", (3, 7))


def test_layers_of_one_type_alone_may_rotate(tmp_path):
    local, whole = runs(tmp_path, model_type="cohere2", num_hidden_layers=4, sliding_window=4096)
    assert (local.kind, local.index, local.window) == ("rotary", (0, 1, 2), 4096)
    assert (whole.kind, whole.index, whole.window) == ("none", (3,), None)


@pytest.mark.parametrize(
    ("own", "window"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, 4096),
        ({"model_type": "mistral", "sliding_window": None}, None),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, None),
    ],
)
def test_window_of_all_layers(tmp_path, own, window):
    (run,) = runs(tmp_path, num_hidden_layers=2, **own)
    assert run.window == window


def test_no_number_of_layers_is_no_index(tmp_path):
    (run,) = runs(tmp_path, model_type="llama")
    assert run.index == ()


def test_a_model_that_does_not_rotate_is_of_its_kind(tmp_path):
    (run,) = runs(tmp_path, usual="alibi", model_type="bloom", n_layer=2)
    assert run == LayerRun((0, 1), "alibi", "", None)

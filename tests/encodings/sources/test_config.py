"""A config is data: invalid JSON, too large a file or a missing file ends in one line."""

import time

import pytest

import pefourier
from pefourier.encodings import load
from pefourier.encodings.sources.huggingface import model_types
from pefourier.errors import PefourierError


def test_infinity_where_transformers_itself_writes_it_passes(config):
    enc = load(config('{"model_type": "bamba", "time_step_limit": [0.0, Infinity]}'), length=3)
    assert enc.name == "rope"


BAD = {
    "a hundred thousand misspelt keys": {f"rope_thet{i}": 1 for i in range(100_000)},
    "a hundred thousand keys of a scaling": {
        "rope_parameters": {"rope_theta": 1.0, **{f"facto{i}": i for i in range(100_000)}}
    },
    "a list of a hundred thousand layers": {"layer_types": ["full_attention"] * 100_000},
}


REFUSED = {
    b"{": "line 1 column 2",
    b'{"a": 1, "b": 2, "a": 3}': "key 'a' is repeated",
    b'{"a": {"b": 2, "b": 2}}': "key 'b' is repeated",
    b"\xff{}": "0xff",
    b"": "is not readable JSON",
    b"[" * 10**6: "is not readable JSON",
    b"[1, 2]": "is not a model config",
    bytes(2**26 + 1): "67108865 bytes",
    b'{"model_type": "llama", "rope_theta": NaN}': "got nan",
    b'{"model_type": "llama", "rope_theta": 1e999}': "got inf",
    b'{"model_type": "llama", "rope_theta": ' + b"9" * 5000 + b"}": "is not readable JSON",
}


@pytest.mark.parametrize(("content", "stated"), REFUSED.items(), ids=range(len(REFUSED)))
def test_invalid_configs_are_refused_in_one_line(content, stated, tmp_path):
    path = tmp_path / "config.json"
    for place in (path, tmp_path, tmp_path / "nowhere" / "config.json"):
        with pytest.raises(PefourierError, match=r"(no file|unknown file) '"):
            load(str(place))
    path.write_bytes(content)
    with pytest.raises(PefourierError) as caught:
        load(str(path))
    assert stated in str(caught.value)
    assert "\n" not in str(caught.value)


def is_answered(ask, path):
    try:
        return bool(ask(path))
    except PefourierError:
        return False


ROWS = {kind: row for kind, row in model_types().items() if "kind" in row}
KINDS = {row["kind"]: kind for kind, row in reversed(ROWS.items())}


@pytest.mark.parametrize(
    "kind", [*KINDS.values(), *(pytest.param(kind, marks=pytest.mark.long) for kind in ROWS)]
)
def test_each_kind_of_model_is_answered_or_refused_with_its_reason(kind, config):
    stem = kind.replace("_", "").replace("-", "")
    named = {"model_type": "unheard", "architectures": [f"{stem}ForConditionalGeneration"]}
    for values in ({"model_type": kind}, named, {**named, "position_embedding_type": "nope"}):
        path = config(values)
        assert {is_answered(ask, path) for ask in (load, pefourier.context)} <= {True, False}


@pytest.mark.parametrize("name", BAD)
def test_large_configs_take_seconds_and_not_minutes(name, config):
    path = config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1, **BAD[name]})
    begun = time.process_time()
    enc = load(path, length=9)
    assert time.process_time() - begun < 10  # a search for names near each key takes over 60
    assert len(enc.findings) < 12


@pytest.mark.parametrize("key", ["auto_map", "trust_remote_code"])
def test_source_code_named_by_a_config_is_not_run(key, config, folder):
    (folder / "modeling_mine.py").write_text("raise SystemExit('run')")
    path = config(
        {"model_type": "mine", "head_dim": 8, "rope_theta": 5.0, key: {"A": "modeling_mine.B"}}
    )
    enc = load(path, length=3)
    assert [f.code for f in enc.findings] == ["model-type-unknown", "remote-code"]


@pytest.mark.parametrize("inner", ["vision_config", "thinker_config.vision_config"])
def test_keys_around_a_tower_are_the_text_models(config, inner):
    """A key of the model around a vision tower is not reported as unread by the tower."""
    tower, whole = {"model_type": "qwen2_vl_vision", "rope_interval": 2}, {}
    around = {"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
    whole = {"model_type": "qwen2_vl", **around, "vision_config": tower}
    if inner.startswith("thinker"):
        whole = {
            "model_type": "qwen2_5_omni",
            "thinker_config": whole | {"model_type": "qwen2_5_omni_thinker"},
        }
    enc = load(f"{config(whole)}#{inner}", grid=(4, 4))
    assert enc.params["unread"] == ("rope_interval",)
    (note,) = [f.message for f in enc.findings if f.code == "unread-key"]
    assert "vision_config" in note

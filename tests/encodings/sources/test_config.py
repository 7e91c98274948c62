"""A config is data: what is no JSON, too large, or not there ends in one line."""

import re
import subprocess
import sys
import time

import pytest

from pefourier.encodings import load
from pefourier.errors import PefourierError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b'{"a": 1, "b": 2, "a": 3}', "key 'a' stands twice"),
        (b'{"a": {"b": 2, "b": 2}}', "key 'b' stands twice"),
        (b"\xff{}", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"", "Expecting value: line 1 column 1 (char 0)"),
    ],
    ids=str,
)
def test_what_is_no_json_is_refused(content, message, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    whole = f"{str(path)!r} is not readable JSON: {message}; write it again"
    with pytest.raises(PefourierError, match=f"^{re.escape(whole)}$"):
        load(str(path))


@pytest.mark.parametrize("content", ["[" * 10**6, '{"a":' * 10**6])
def test_json_that_is_too_deep_is_refused(content, config):
    path = config(content)
    with pytest.raises(
        PefourierError, match=f"^{re.escape(repr(path))} is not readable JSON: .+; "
    ):
        load(path)


def test_json_that_is_no_object_is_refused(config):
    path = config("[1, 2]")
    message = f"{path!r} is not a model config, which is a JSON object {{…}}"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(path)


def test_a_config_of_many_megabytes_is_not_read(tmp_path):
    path = tmp_path / "config.json"
    with open(path, "wb") as stream:
        stream.truncate(2**26 + 1)
    message = f"{str(path)!r} has 67108865 bytes; a config has under 2^26"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(str(path))


@pytest.mark.parametrize("name", ["config.json", "nowhere/config.json"])
def test_a_config_that_is_not_there_is_refused(name, tmp_path):
    with pytest.raises(PefourierError, match=r"(no file|unknown file) '.*config\.json"):
        load(str(tmp_path / name))


def test_a_folder_without_a_config_is_refused(tmp_path):
    with pytest.raises(PefourierError, match=r"^unknown file 'config\.json'"):
        load(str(tmp_path))


@pytest.mark.parametrize(
    ("value", "shown"),
    [("NaN", "nan"), ("-Infinity", "-inf"), ("1e999", "inf"), ("9" * 5000, "inf")],
)
def test_a_key_that_is_read_refuses_what_is_no_number(value, shown, config):
    path = config(f'{{"model_type": "llama", "rope_theta": {value}}}')
    message = f"rope_theta of {path!r} must be a finite number; got {shown}"
    with pytest.raises(PefourierError, match=f"^{re.escape(message)}$"):
        load(path)


def test_infinity_where_transformers_itself_writes_it_passes(config):
    enc = load(config('{"model_type": "bamba", "time_step_limit": [0.0, Infinity]}'), length=3)
    assert enc.name == "rope"


BAD = {
    "a hundred thousand misspelt keys": {f"rope_thet{i}": 1 for i in range(100_000)},
    "a hundred thousand strange keys": {f"key_of_mine_{i}": 1 for i in range(100_000)},
    "a hundred thousand keys of a scaling": {
        "rope_parameters": {"rope_theta": 1.0, **{f"facto{i}": i for i in range(100_000)}}
    },
    "a list of a hundred thousand layers": {"layer_types": ["full_attention"] * 100_000},
    "sections by the thousand": {"rope_parameters": {f"l{i}": {} for i in range(50_000)}},
}


@pytest.mark.parametrize("name", BAD)
def test_large_configs_take_seconds_and_not_minutes(name, config):
    path = config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1, **BAD[name]})
    begun = time.process_time()
    enc = load(path, length=9)
    assert time.process_time() - begun < 10  # looking for names near each key takes over 60
    assert len(enc.findings) < 12


@pytest.mark.parametrize("key", ["auto_map", "trust_remote_code"])
def test_code_that_a_config_names_is_not_run_and_that_is_said(key, config, folder):
    (folder / "modeling_mine.py").write_text("raise SystemExit('run')")
    path = config(
        {"model_type": "mine", "head_dim": 8, "rope_theta": 5.0, key: {"A": "modeling_mine.B"}}
    )
    enc = load(path, length=3)
    assert [f.code for f in enc.findings] == ["model-type-unknown", "remote-code"]


NESTED = {
    "model_type": "llava",
    "text_config": {"model_type": "mistral", "rope_theta": 1e6, "head_dim": 8},
    "vision_config": {"model_type": "pixtral", "head_dim": 64},
}


@pytest.mark.parametrize("part", ["", "#text_config"])
def test_the_text_models_config_is_the_one_that_is_meant(part, config):
    enc = load(config(NESTED) + part, length=3)
    assert (enc.params["rho"], enc.params["d"]) == (1e6, 8)


def test_a_vision_config_inside_is_the_one_that_is_named(config):
    enc = load(config(NESTED) + "#vision_config")
    assert (enc.params["convention"], enc.domain.grid) == ("pixtral", (64, 64))


def test_a_layer_of_an_inner_config_is_named_after_a_dot(config):
    path = config({"model_type": "gemma3"})
    assert load(f"{path}#text_config.full_attention", length=3).params["rho"] == 1e6
    assert load(f"{path}#sliding_attention", length=3).params["rho"] == 1e4


def test_a_config_is_read_without_the_readers_of_tables(tmp_path):
    """They are a tenth of the start of `spectrum config.json`."""
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2}')
    code = (
        "import sys; from pefourier.encodings import load; load(sys.argv[1], 80); "
        "print([name for name in sys.modules if name.endswith(('formats', 'zipfile'))])"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")

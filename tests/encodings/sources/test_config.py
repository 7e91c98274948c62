"""A config is data: what is no JSON, too large, or not there ends in one line."""

import re

import pytest

from pefourier.encodings import load
from pefourier.errors import PefourierError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
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


@pytest.mark.parametrize("content", ["[" * 10**6, '{"a":' * 10**6, '{"a": ' + "9" * 5000 + "}"])
def test_json_that_is_too_deep_or_has_endless_digits_is_refused(content, config):
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

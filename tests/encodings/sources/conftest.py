"""Tests of files run in a folder of their own."""

import json

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def config(tmp_path):
    """config({...}) -> path of a config.json with this in it."""

    def write(values):
        path = tmp_path / "config.json"
        path.write_text(values if isinstance(values, str) else json.dumps(values))
        return str(path)

    return write

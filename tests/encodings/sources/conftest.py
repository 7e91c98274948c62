"""Tests of files run in a folder of their own."""

import json
import warnings
from types import SimpleNamespace

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


@pytest.fixture(scope="module")
def transformers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        pytest.importorskip("transformers")
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
        from transformers.utils import logging

        logging.set_verbosity_error()
    return SimpleNamespace(torch=torch, configs=CONFIG_MAPPING, scalings=ROPE_INIT_FUNCTIONS)

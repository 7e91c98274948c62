"""Run the tests of files in an empty folder."""

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def config(written):
    return written

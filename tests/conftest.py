"""Fixtures of all tests: commands that run in this process, and files for them."""

import json
import os
import signal
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from json_schema import faults, published

import pefourier
from pefourier.cli.main import main
from pefourier.report import plot

for name in ("COLUMNS", "LINES"):  # readline sets these variables for processes that pytest starts
    os.environ.pop(name, None)


PACKAGE = Path(pefourier.__file__).parent


def pytest_collection(session):
    """Import modules with doctests as tests import them, even if they are named first."""
    for path in (Path(one.partition("::")[0]).resolve() for one in session.config.args):
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            if file.is_relative_to(PACKAGE) and file.stem not in ("__init__", "__main__"):
                import_module(".".join(file.with_suffix("").relative_to(PACKAGE.parent).parts))


@dataclass(frozen=True)
class Run:
    status: int
    out: str
    err: str

    @property
    def results(self):
        return json.loads(self.out)["results"]


@pytest.fixture
def run(capsys):
    """Return a function: run("spectrum dft --d", 8) -> Run(status, out, err).

    The first argument is split into words.
    """

    def command(*arguments):
        capsys.readouterr()
        words = [word for line in arguments[:1] for word in line.split()]
        status = main([*words, *map(str, arguments[1:])])
        done = Run(status, *capsys.readouterr())
        if "--json" in arguments and done.out:
            answer = json.loads(done.out)
            assert list(faults(answer, published(), published())) == []
        return done

    return command


@pytest.fixture
def ask(run):
    """Return a function that runs a command and returns the record of its only result."""

    def command(*arguments):
        (record,) = run(*arguments, "--json").results
        return record

    return command


@pytest.fixture
def refused(run):
    """Return a function that runs a command that must be refused, and returns the error line."""

    def command(*arguments):
        done = run(*arguments)
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        return done.err

    return command


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a dict or text to a config.json and returns its path."""

    def write(values, name="config.json"):
        (tmp_path / name).write_text(values if isinstance(values, str) else json.dumps(values))
        return str(tmp_path / name)

    return write


@pytest.fixture
def sketched(request, monkeypatch):
    """Write a word in place of a figure, except in tests marked `drawn`."""

    def sketch(path, *_):
        Path(path).write_text("figure")

    if "drawn" not in request.keywords:
        monkeypatch.setattr(plot, "save", sketch)


@pytest.fixture
def undrawn(monkeypatch):
    """Replace the pictures of pages by a single path, because drawing takes most of the time."""
    drawn = b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1 1'><path id='p'/></svg>"
    monkeypatch.setattr("pefourier.pages.document.render", lambda *_: drawn)


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """Restore SIGINT, which background processes of a shell inherit as ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def rng():
    return np.random.default_rng(7)

"""The command line of `pefourier train` is translated to `Options`, and notes go to stderr."""

import pytest

from pefourier.train.options import Options

TASK = ["train", "--dataset", "order:count=40,length=4", "--steps", "2", "--seeds", "1"]


@pytest.fixture
def chosen(run, monkeypatch):
    """Return a function that parses a command line and returns the `Options` of training."""
    seen = []
    path = "pefourier.train.run.run_comparison"
    monkeypatch.setattr(path, lambda options, *_: seen.append(options))

    def typed(*arguments):
        assert run("train", *arguments).status == 0
        return seen.pop()

    return typed


def test_options_are_parsed_into_their_fields(chosen):
    assert chosen() == Options()
    typed = "-e dft --encoding none --beside trees --batch-size 9 --d 8"
    typed += " --split random --channels-first"
    fields = {"encoding": ("dft", "none"), "beside": ("trees",), "batch_size": 9, "d": 8}
    assert chosen(*typed.split()) == Options(**fields, split="random", channels_first=True)


def test_notes_of_training_go_to_stderr_unless_quiet(run):
    small = ["-e", "dft", "--d", "2", "--heads", "1"]
    assert run(*TASK, *small).err.startswith("pefourier: order:count=40,length=4: dft has 2 ")
    assert run(*TASK, *small, "--quiet").err == ""

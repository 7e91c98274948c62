"""The options of `pefourier train`: made of plain fields, answered and noted by the shell."""

import re
import subprocess
import sys
from dataclasses import fields

import pytest

from pefourier.train.data import PUBLISHED, SYNTHETIC
from pefourier.train.options import GROUPS, SETTINGS, Options, help_of

TASK = ["train", "--dataset", "order:count=40,length=4", "--epochs", "1", "--seeds", "1"]


def test_the_help_has_every_option_with_its_help_and_default(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    said = " ".join(run("train", "--help").out.split())
    joined = said.replace("- ", "-")  # lines end at hyphens, too
    for field in fields(Options):
        assert f"--{field.name.replace('_', '-')} " in said
        assert help_of(field.name)["help"].replace("- ", "-") in joined
        if field.default not in (None, False, ()):
            several = isinstance(field.default, tuple)
            default = ", ".join(field.default) if several else field.default
            assert f"[default: {default}]" in joined
    assert "-e, --encoding SPEC" in said
    assert "--json Answer in JSON." in said
    assert "--quiet No progress" in said
    assert "--no-learn" not in said
    assert [name for name in (*PUBLISHED, *SYNTHETIC) if name not in said] == []


def test_the_help_has_each_option_under_the_heading_of_its_group(run):
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(f.name for f in fields(Options))
    said = run("train", "--help").out
    *_, training, _, running, others = re.split(r"\n\n(?=[A-Z][\w ]+:\n)", said)
    assert training.startswith("Training:\n")
    assert running.startswith("Running and files:\n")
    assert "--setting" in training
    assert "--resume" in running
    assert "--json" in others


@pytest.fixture
def chosen(run, monkeypatch):
    """chosen("--d", "8") -> the options that training would be asked."""
    seen = []
    path = "pefourier.train.run.run_comparison"
    monkeypatch.setattr(path, lambda options, *_: seen.append(options))

    def typed(*arguments):
        assert run("train", *arguments).status == 0
        return seen.pop()

    return typed


def test_options_are_given_as_their_fields_say(run, chosen):
    assert chosen() == Options()
    arguments = ["-e", "dft", "--encoding", "none", "--match-rms", "0.5", "--batch-size", "9"]
    flags = ["--learn", "--resume", "--d", "8", "--split", "random", "--out", "x"]
    sizes = {"match_rms": (0.5,), "batch_size": 9, "d": 8}
    plain = {"learn": True, "resume": True, "split": "random", "out": "x"}
    wanted = Options(encoding=("dft", "none"), **sizes, **plain)
    assert chosen(*arguments, *flags) == wanted
    searched = ("rate=3e-4,1e-3", "dropout=0,.2")  # they follow one another
    assert chosen("--search", *searched, "-e", "dft") == Options(search=searched, encoding=("dft",))
    assert run("train", "--split", "halves").status == 2


def test_a_published_setting_is_what_is_not_given(run, chosen):
    known = SETTINGS["ide2024"]
    assert chosen("--setting", "ide2024") == Options(**known)
    own = chosen(
        "--setting", "ide2024", "--d", "32", "--epochs", "3"
    )  # 32 is the default, but given
    assert own == Options(**{**known, "d": 32, "epochs": 3})
    steps = chosen("--setting", "ide2024", "--steps", "9")
    assert (steps.steps, steps.epochs, steps.patience) == (9, None, known["patience"])
    done = run("train", "--setting", "ide2023")
    assert (done.status, "Did you mean 'ide2024'" in done.err) == (2, True)


def test_options_load_neither_torch_nor_the_shell():
    code = (
        "import sys; import pefourier.train.options; "
        "print(sorted({'torch', 'numpy', 'typer', 'rich', 'pefourier.cli'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_notes_of_training_go_to_stderr_unless_quiet(run):
    small = ["-e", "dft", "--d", "2", "--heads", "1"]
    assert run(*TASK, *small).err.startswith("pefourier: order:count=40,length=4: dft has 2 codes")
    assert run(*TASK, *small, "--quiet").err == ""


@pytest.mark.usefixtures("capsys")
def test_notes_go_nowhere_when_stderr_is_closed(monkeypatch):
    from pefourier.cli.main import main

    monkeypatch.setattr(sys, "stderr", None)
    assert main([*TASK, "-e", "dft", "--d", "2", "--heads", "1"]) == 0

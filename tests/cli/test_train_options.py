"""The options of `pefourier train`: made of plain fields, answered and noted by the shell."""

import re
import subprocess
import sys
from dataclasses import fields

import pytest

from pefourier.train.data import PUBLISHED, SYNTHETIC
from pefourier.train.options import GROUPS, IDE_2024, Options, help_of

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


def test_the_help_has_every_dataset_that_has_a_name(run):
    said = run("train", "--help").out
    assert [name for name in (*PUBLISHED, *SYNTHETIC) if name not in said] == []


def test_options_are_given_as_their_fields_say(run, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "pefourier.train.run.run_comparison", lambda options, *_: seen.append(options)
    )
    assert run("train").status == 0
    arguments = ["-e", "dft", "--encoding", "none", "--match-rms", "0.5", "--batch-size", "9"]
    flags = ["--learn", "--resume", "--d", "8", "--split", "random", "--out", "x"]
    assert run("train", *arguments, *flags).status == 0
    plain, given = seen
    assert plain == Options()
    assert given == Options(
        encoding=("dft", "none"),
        match_rms=(0.5,),
        batch_size=9,
        learn=True,
        resume=True,
        d=8,
        split="random",
        out="x",
    )
    assert run("train", "--split", "halves").status == 2


def test_a_published_setting_is_what_is_not_given(run, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "pefourier.train.run.run_comparison", lambda options, *_: seen.append(options)
    )
    for name in ("idé2024", "ide\u03012024", "ide2024", "IDE2024"):
        assert run("train", "--setting", name).status == 0
    assert run("train", "--setting", "ide2024", "--d", "32", "--epochs", "3").status == 0
    *plain, own = seen
    assert plain == [Options(**IDE_2024)] * 4
    assert own == Options(**{**IDE_2024, "d": 32, "epochs": 3})  # 32 is the default, but given
    done = run("train", "--setting", "ide2023")
    assert (done.status, "Did you mean 'ide2024'" in done.err) == (2, True)


def test_settings_to_choose_among_follow_one_another(run, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "pefourier.train.run.run_comparison", lambda options, *_: seen.append(options)
    )
    assert run("train", "--search", "rate=3e-4,1e-3", "dropout=0,.2", "-e", "dft").status == 0
    assert seen[0].search == ("rate=3e-4,1e-3", "dropout=0,.2")
    assert seen[0].encoding == ("dft",)


def test_options_load_neither_torch_nor_the_shell():
    code = (
        "import sys; import pefourier.train.options; "
        "print(sorted({'torch', 'numpy', 'typer', 'rich', 'pefourier.cli'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_notes_of_training_go_to_stderr_unless_quiet(run):
    wanted = "pefourier: order:count=40,length=4: dft has 2 codes for 4 tokens, so that some "
    small = ["-e", "dft", "--d", "2", "--heads", "1"]
    assert run(*TASK, *small).err.startswith(wanted)
    assert run(*TASK, *small, "--quiet").err == ""


@pytest.mark.usefixtures("capsys")
def test_notes_go_nowhere_when_stderr_is_closed(monkeypatch):
    from pefourier.cli.main import main

    monkeypatch.setattr(sys, "stderr", None)
    assert main([*TASK, "-e", "dft", "--d", "2", "--heads", "1"]) == 0

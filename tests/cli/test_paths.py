"""Matched file names are data: none is imported, none is an option, none names an encoding."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ACTION = yaml.safe_load((ROOT / ".github/check/action.yml").read_text())
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 10}
LLAMA |= {"max_position_embeddings": 128, "num_hidden_layers": 2}
MARK = "from pathlib import Path\nPath('mark').write_text('ran')\ndef f(length, d):\n    return 0\n"
FOLDERS = ["py:evil:x", "py:evil:f", "dft", "rope:rho=7", "-d", "--strict", "two words", "*", "né"]
TABLES = ["py:evil:f.npy", "sinusoidal.npy", "--plot=x.npy", "-Sx.npy", "a b.npy"]
TABLES += ["$(touch mark).npy", "*.npy", "dft:layout=x.npy", "--.npy", "--debug.npy"]
WITH_COMMANDS = ("check-faithful", "spectrum", "reconstruct", "relations", "context")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A git repository with files of such names, beside code that leaves a mark when imported."""
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text(MARK)
    for name in FOLDERS:
        Path(name).mkdir()
        Path(name, "config.json").write_text(json.dumps(LLAMA))
    for name in TABLES:
        np.save(name, np.random.default_rng(0).normal(size=(8, 16)))
    git("init", "-q")
    git("add", "-A")
    return tmp_path


def git(*words):
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=True)
    return done.stdout


def tracked(pattern):
    names = git("ls-files", "-z").split("\0")
    return sorted(name for name in names if re.search(pattern, name))


def command(*words, **more):
    env = os.environ | {"PYTHONPATH": str(ROOT)} | more
    return subprocess.run(
        [sys.executable, "-m", "pefourier", *words], env=env, capture_output=True, text=True
    )


def bash(line, env):
    env = os.environ | env
    return subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True)


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_reads_every_matched_name_as_a_path_and_runs_none(repository, hook):
    names = tracked(hook["files"])
    assert len(names) >= len(FOLDERS)
    program, *words = shlex.split(hook["entry"])
    assert program == "pefourier"
    options = [word for word in words if word not in ("lint", "--format", "--quiet")]
    done = command(*options, "--json", *hook.get("args", []), *names)
    assert done.returncode in (0, 1), done.stderr
    told = json.loads(done.stdout)["results"]
    assert [os.path.normpath(one["spec"]) for one in told] == names
    assert not Path("mark").exists()
    done = command(*words, *hook.get("args", []), *names)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not Path("mark").exists()


def test_a_hook_without_its_dashes_is_refused_and_not_read_otherwise(repository):
    for hook in HOOKS:
        assert hook["args"][-1] == "--"
        words = shlex.split(hook["entry"])[1:]
        done = command(*words, "--length", "64", *tracked(hook["files"]))
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
        assert "--paths" in done.stderr


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_with_paths_a_folder_named_like_code_is_a_folder(repository, name):
    done = command(name, "--json", "--paths", "--", "py:evil:f", "dft", "rope:rho=7", "--strict")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["results"]
    assert [os.path.normpath(one["spec"]) for one in told] == [*FOLDERS[1:4], "--strict"]
    assert {one["params"].get("model_type", "llama") for one in told} == {"llama"}
    assert not Path("mark").exists()


@pytest.mark.parametrize("name", ["sinusoidal", "py:evil:none", "-", "rope:rho=5e5", "no.npy", ""])
def test_what_is_no_path_is_refused_among_others_that_are_answered(repository, name):
    done = command("check-faithful", "--json", "--paths", "--", name, "a b.npy")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    refused, answered = json.loads(done.stdout)["results"]
    assert (set(refused), answered["spec"]) == ({"spec", "error"}, "a b.npy")
    assert not Path("mark").exists()


def test_paths_that_are_none_do_not_stand_for_the_usual_encodings(repository):
    for words in (["--paths", "--"], ["--paths"]):
        done = command("check-faithful", *words)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


def test_a_folder_with_a_mark_in_its_name_is_not_read_as_part_of_another(repository):
    for name in ("dft#text", "dft#config.json"):
        Path(name).mkdir()
        Path(name, "config.json").write_text(json.dumps(LLAMA | {"rope_theta": 7.0}))
        for spec in (name, f"{name}/config.json"):
            for asked in ("check-faithful", "context"):
                done = command(asked, "--json", "--paths", "--", spec)
                assert (done.returncode, done.stdout) == (2, "")
                assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("*.npy", TABLES),
        ("*/config.json", sorted(f"{name}/config.json" for name in FOLDERS)),
        ("\n  a b.npy\n$(touch mark).npy  \n", ["a b.npy", "$(touch mark).npy"]),
        ("py:evil:f", ["py:evil:f"]),
        ("--strict", ["--strict"]),
    ],
)
def test_the_action_reads_lines_as_paths(repository, lines, found):
    program = repository / "bin" / "pefourier"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pefourier "$@"\n')
    program.chmod(0o755)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    env |= {"SPECS": lines, "OPTIONS": "--strict\n--length 8"}
    done = bash(ACTION["runs"]["steps"][-1]["run"], env)
    assert done.returncode == 0, done.stderr
    titles = re.findall("^::notice .*title=pefourier check-faithful (.*?)::", done.stdout, re.M)
    assert {*found} <= {unquote(title).removeprefix("./") for title in titles}
    assert not Path("mark").exists()
    env["SPECS"] = "no-such/*.npy"
    done = bash(ACTION["runs"]["steps"][-1]["run"], env)
    assert done.returncode == 2

"""With --paths, file names are data: they are never imported, parsed as options or as names."""

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
from published_configs import SMALL_LLAMA

ROOT = Path(__file__).parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ACTION = yaml.safe_load((ROOT / ".github/check/action.yml").read_text())
MARK = "from pathlib import Path\nPath('mark').write_text('ran')\ndef f(length, d):\n    return 0\n"
FOLDERS = ["py:evil:x", "py:evil:f", "dft", "rope:rho=7", "-d", "--strict", "two words", "*", "né"]
FOLDERS += ["a#b", "d/#part"]
TABLES = ["py:evil:f.npy", "sinusoidal.npy", "--plot=x.npy", "-Sx.npy", "a b.npy"]
TABLES += ["$(touch mark).npy", "*.npy", "dft:layout=x.npy", "--.npy", "--debug.npy"]
TABLES += ["c#d.npy", "#.npy"]


@pytest.fixture
def repository(folder, rng):
    """Make a git repository of odd file names, with a module that leaves a mark when imported."""
    Path("evil.py").write_text(MARK)
    for name in FOLDERS:
        Path(name).mkdir(parents=True)
        Path(name, "config.json").write_text(json.dumps(SMALL_LLAMA))
    for name in TABLES:
        np.save(name, rng.normal(size=(8, 16)))
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], check=True)
    yield folder
    assert not Path("mark").exists()


def matches(pattern):
    done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True)
    return sorted(name for name in done.stdout.split("\0") if re.search(pattern, name))


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
@pytest.mark.usefixtures("repository")
def test_a_hook_reads_every_matched_name_as_a_path_and_runs_none(hook, run):
    names = matches(hook["files"])
    assert len(names) >= len(FOLDERS)
    program, *words = shlex.split(hook["entry"])
    assert (program, hook["args"][-1]) == ("pefourier", "--")
    options = [word for word in words if word not in ("lint", "--format", "--quiet")]
    done = run(*options, "--json", *hook["args"], *names)
    assert done.status in (0, 1), done.err
    assert [os.path.normpath(record["spec"]) for record in done.results] == names
    done = run(*words, *hook["args"], *names)
    assert (done.status, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize("name", ["check-faithful", "spectrum", "context"])
@pytest.mark.usefixtures("repository")
def test_a_folder_named_like_a_spec_is_read_as_a_folder(name, run):
    done = run(name, "--json", "--paths", "--", "py:evil:f", "dft", "rope:rho=7", "--strict")
    assert done.status == 0, done.err
    records = done.results
    assert [os.path.normpath(record["spec"]) for record in records] == [*FOLDERS[1:4], "--strict"]
    assert {record["params"].get("model_type", "llama") for record in records} == {"llama"}


@pytest.mark.parametrize(
    "name", ["sinusoidal", "py:evil:none", "-", "rope:rho=5e5", "no.npy", "", "dft#text"]
)
@pytest.mark.usefixtures("repository")
def test_names_that_are_no_paths_are_refused(name, run):
    Path("dft#text").mkdir(exist_ok=True)
    done = run("check-faithful --json --paths --", name, "a b.npy")
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    refused, answered = done.results
    assert (set(refused), answered["spec"]) == ({"spec", "error"}, "a b.npy")


@pytest.mark.parametrize(
    ("lines", "specs"),
    [
        ("*.npy", TABLES),
        ("*/config.json", sorted(f"{name}/config.json" for name in FOLDERS if "/" not in name)),
        ("\n  a b.npy\n$(touch mark).npy  \n", ["a b.npy", "$(touch mark).npy"]),
        ("py:evil:f\n--strict", ["py:evil:f", "--strict"]),
        ("no-such/*.npy", None),
    ],
)
def test_the_action_reads_lines_as_paths(repository, lines, specs):
    program = repository / "bin" / "pefourier"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pefourier "$@"\n')
    program.chmod(0o755)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    env |= {"SPECS": lines, "OPTIONS": "--strict\n--length 8"}
    command = ["bash", "-c", ACTION["runs"]["steps"][-1]["run"]]
    env = os.environ | env
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if specs is None else 0), done.stderr
    titles = re.findall("^::notice .*title=pefourier check-faithful (.*?)::", done.stdout, re.M)
    assert {*(specs or ())} <= {unquote(title).removeprefix("./") for title in titles}

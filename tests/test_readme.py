"""Every command and every name in the README is real."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from pefourier.encodings import build

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
COMMANDS = sorted(set(re.findall(r"^    (pefourier .+)$", TEXT, re.MULTILINE)))
MODEL = """
import torch


class PositionalEncoding(torch.nn.Module):
    def __init__(self, d_model, max_len=100):
        super().__init__()
        self.register_buffer("pe", torch.randn(max_len, d_model, generator=torch.manual_seed(0)))

    def forward(self, x):
        return x + self.pe[: x.shape[1]]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the README speaks of."""
    np.save(tmp_path / "wpe.npy", build("learned", length=64, d=16).table())
    np.save(tmp_path / "dumped_table.npy", build("rope", length=64, d=16).table())
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_answer(run, command):
    if "train" in command:
        pytest.skip("training has tests of its own")
    arguments = shlex.split(command.partition("#")[0])[1:]
    done = run(*arguments)
    assert done.status in (0, 1), done.err
    assert done.out


def test_the_conclusion_shown_is_the_one_given(run):
    """A command, an empty line, and the first paragraph of its answer."""
    pattern = r"^    pefourier (.+)\n\n((?:    .*\n)+)"
    command, shown = re.findall(pattern, TEXT, re.MULTILINE)[0]
    answer = run(*shlex.split(command)).out
    assert (
        "".join(line[4:] for line in shown.splitlines(True)) == answer.partition("\n\n")[0] + "\n"
    )


def test_finding_codes_are_those_of_the_code():
    (part,) = re.findall(r"each with its own name:(.*?) and more", TEXT, re.DOTALL)
    sources = (ROOT / "pefourier").rglob("*.py")
    code = "".join(path.read_text() for path in sources)
    names = re.findall(r"`([a-z-]+)`", part)
    assert len(names) > 8
    assert [name for name in names if f'"{name}"' not in code] == []


def test_pictures_are_there():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", TEXT)
    assert pictures
    assert [p for p in pictures if not (ROOT / p).is_file()] == []


def test_python_of_the_readme_runs():
    (block,) = re.findall(r"^    import pefourier\n(?:    .*\n|\n)+", TEXT, re.MULTILINE)
    code = "\n".join(line[4:] for line in block.splitlines())
    names = {"my_table": np.eye(4)}
    exec(compile(code, "README.md", "exec"), names)
    assert names["layer"].codes.shape == (80, 256)

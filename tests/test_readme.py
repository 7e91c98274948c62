"""Check the commands, outputs and numbers of the README; ``make readme`` regenerates outputs.

A command is alone in its block, or an empty line and the first lines of its answer follow. At most
`SHOWN` lines of the conclusion are shown, for a terminal of `WIDTH` columns; `CUT` marks an answer
that continues.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from published_configs import PUBLISHED
from tiny_models import NO_SMOLLM2, SMOLLM2

import pefourier
from pefourier import errors
from pefourier.cli.main import program
from pefourier.encodings import load
from pefourier.questions.check_faithful import LADDER

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
SHOWN, WIDTH, CUT = 6, 76, " …"
ANSWERED = re.compile(r"^    pefourier (.+)\n\n((?:    .+\n)+)", re.MULTILINE)
COMMANDS = sorted(set(re.findall(r"^    pefourier (.+)$", TEXT, re.MULTILINE)))
LONG = ("train", "reproduce")  # other tests cover these; the second writes files
CONFIG = PUBLISHED["meta-llama/Meta-Llama-3-8B"] | {"num_hidden_layers": 32}
MODEL = """
import torch


class PositionalEncoding(torch.nn.Module):
    def __init__(self, d_model, max_len=100):
        super().__init__()
        self.register_buffer("pe", torch.randn(max_len, d_model, generator=torch.manual_seed(0)))

    def forward(self, x):
        return x + self.pe[: x.shape[1]]
"""


def make_files(folder, answer):
    """Write the files that the README mentions, running commands with `answer`."""
    tensor2tensor = load("sinusoidal:layout=halves,divisor=d/2-1", 512, 64)
    np.save(folder / "wpe.npy", tensor2tensor.table().astype(np.float32))
    np.save(folder / "dumped_table.npy", load("rope", 8192, 128).table().astype(np.float32))
    np.save(folder / "my_table.npy", np.eye(4))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.py").write_text(MODEL)
    mask = np.repeat([[0, 1], [1, 1]], (5, 7), axis=1)
    ids = np.tile(np.arange(12), (2, 1))
    np.savez(folder / "batch.npz", position_ids=ids, attention_mask=mask)
    (folder / "base.json").write_text(answer("check-faithful config.json --json"))


def beginning(answer):
    """Return the lines of an answer that the README shows."""
    lines = answer.split("\n\n")[0].splitlines()
    shown = lines[:SHOWN]
    if len(lines) > SHOWN:
        shown[-1] += CUT
    return "".join(f"    {line}\n" for line in shown)


@pytest.fixture
def answer(run, folder, monkeypatch):
    """Return a function that runs a command of the README in a folder with its files."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))

    def command(line):
        if SMOLLM2.name in line:
            if not SMOLLM2.exists():
                pytest.skip(NO_SMOLLM2)
            Path(SMOLLM2.name).symlink_to(SMOLLM2)
        done = run(*shlex.split(line.partition("#")[0]))
        assert done.status in (0, 1), done.err
        return done.out

    make_files(folder, command)
    return command


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("command", [c for c in COMMANDS if not c.startswith(LONG)])
def test_a_command_answers_as_shown(answer, command):
    out = answer(command)
    assert out
    shown = dict(ANSWERED.findall(TEXT)).get(command)
    assert shown in (None, beginning(out))


@pytest.mark.long
def test_what_a_training_says_is_shown():
    command = [sys.executable, "-m", "pefourier", "train", "--quiet"]
    environment = os.environ | {"COLUMNS": str(WIDTH)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    shown, answered = dict(ANSWERED.findall(TEXT))["train"], beginning(done.stdout)
    numbers = re.compile(r"-?\d*\.\d+")  # sums of floats depend on the number of threads
    assert numbers.sub("#", shown) == numbers.sub("#", answered)
    pairs = zip(numbers.findall(shown), numbers.findall(answered), strict=True)
    assert all(abs(float(a) - float(b)) < 0.03 for a, b in pairs)


def test_every_command_of_the_program_is_there():
    names = {command.split()[0] for command in COMMANDS}
    names |= set(re.findall(r"`pefourier ([a-z-]+)", TEXT))
    assert set(typer.main.get_command(program()).commands) <= names


def test_links_and_pictures_are_there():
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert len(links) > 5
    assert [one for one in links if not (ROOT / one).exists()] == []
    alternatives = re.findall(r"!\[(.*?)\]", TEXT)
    assert alternatives
    assert all(len(text) > 20 for text in alternatives)


def test_python_of_the_readme_runs():
    import torch

    (block,) = re.findall(r"^    import pefourier\n(?:    .*\n|\n)+", TEXT, re.MULTILINE)
    code = "\n".join(line[4:] for line in block.splitlines())
    names = {"my_table": np.eye(4), "logits": torch.zeros(8, 80, 80)}
    names |= {which: torch.ones(1, 2, 8, 128) for which in "qk"}
    exec(compile(code, "README.md", "exec"), names)
    assert names["layer"].vectors.shape == (80, 256)
    assert names["found"].verdict == "isometric"


def test_the_recording_of_the_readme_runs(folder, capsys):
    import torch

    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 8, "vocab_size": 50, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    (block,) = re.findall(r"^    with pefourier\.record.*\n(?:    .*\n)+", TEXT, re.MULTILINE)
    code = "\n".join(line[4:] for line in block.splitlines())
    batch = {"input_ids": torch.arange(7)[None]}
    exec(code, {"pefourier": pefourier, "model": model, "batch": batch})
    assert "AS EXPECTED" in capsys.readouterr().out
    config.save_pretrained(folder)
    assert len(pefourier.usage("config.json", stats="seen.npz").shares) == 2


def test_numbers_in_prose_are_those_of_the_program():
    llama = "rope:rho=5e5,scaling=llama3,factor=8,original=8192"
    bands = pefourier.context(llama, length=2**17, d=128).rotations[0].bands
    kept, blended, stretched = (band.pairs for band in bands)
    assert f"Llama 3.1 keeps {kept}, blends {blended}, stretches {stretched}]" in TEXT
    assert "2^26 positions, 2^21 dimensions, 2^30 numbers" in TEXT
    assert (errors.LARGEST, errors.WIDEST, errors.NUMBERS) == (2**26, 2**21, 2**30)
    assert ("(computed: 2^25)" in TEXT, errors.COMPUTED) == (True, 2**25)
    (rungs,) = re.findall(r"Verdicts are (.*?)\.", TEXT, re.DOTALL)
    assert re.findall(r"(?:^|<\s)`(\w+)`", rungs) == list(LADDER)


def rewrite():
    """Regenerate the outputs of the README."""
    import tempfile

    def command(line):
        program = [sys.executable, "-m", "pefourier", *shlex.split(line, comments=True)]
        done = subprocess.run(program, capture_output=True, text=True, cwd=folder, check=False)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"COLUMNS": str(WIDTH), "PYTHONPATH": str(ROOT)}
        make_files(Path(folder), command)

        def rebuild_at(block):
            if SMOLLM2.name in block[1]:
                if not SMOLLM2.exists():  # without the file, the shown answer is kept
                    return block[0]
                Path(folder, SMOLLM2.name).symlink_to(SMOLLM2)
            return f"    pefourier {block[1]}\n\n{beginning(command(block[1]))}"

        text = ANSWERED.sub(rebuild_at, TEXT)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    rewrite()

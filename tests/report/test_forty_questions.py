"""Forty questions of users are answered, in words, by commands that a reader of the help tries."""

import contextlib
import json
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

from pefourier.encodings import build, load

QUESTIONS = tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "rope_theta": 500000.0,
    "max_position_embeddings": 8192,
}
ROTARY = """
import torch


class Rotary(torch.nn.Module):
    def __init__(self, d, base=500000.0):
        super().__init__()
        self.inv_freq = base ** (-torch.arange(0, d, 2).double() / d)

    def forward(self, q, k, positions):
        angle = positions.double()[..., None] * self.inv_freq
        cos, sin = (wave(torch.cat([angle, angle], -1)).to(q) for wave in (torch.cos, torch.sin))
        halves = [x.chunk(2, -1) for x in (q, k)]
        aside = [torch.cat([-two, one], -1) for one, two in halves]
        return q * cos + aside[0] * sin, k * cos + aside[1] * sin
"""


def yarn(factor, length, original, base):
    """A config whose context YaRN has extended."""
    scaling = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    own = {"rope_theta": base, "max_position_embeddings": length, "rope_scaling": scaling}
    return LLAMA | own


CONFIGS = {
    "config": LLAMA,
    "changed": LLAMA | {"rope_theta": 5e7},
    "yarn": yarn(4.0, 16384, 4096, 1e4),
    "tuned": yarn(3.5, 131072, 8192, 5e5),
    "gemma": {
        "model_type": "gemma2",
        "hidden_size": 2304,
        "num_attention_heads": 8,
        "head_dim": 256,
        "num_hidden_layers": 26,
        "rope_theta": 10000.0,
        "max_position_embeddings": 8192,
        "sliding_window": 4096,
    },
    "dinov3": {
        "model_type": "dinov3_vit",
        "hidden_size": 768,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "patch_size": 16,
        "image_size": 224,
        "rope_theta": 100.0,
    },
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the files that the questions speak of."""
    folder = tmp_path_factory.mktemp("desk")
    with contextlib.chdir(folder):
        put_files()
    return folder


@pytest.fixture
def desk(files, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "200")


def put_files():
    for name, config in CONFIGS.items():
        Path(f"{name}.json").write_text(json.dumps(config))
    Path("rotary.py").write_text(ROTARY)
    rng = np.random.default_rng(0)
    mae = build("axial", d=768, grid=(14, 14), convention="mae", prefix=1).table()
    points = mae[1:].reshape(14, 14, 768).transpose(1, 0, 2).reshape(196, 768)
    learned = load("learned", 20, 32).table()
    x, y = rng.normal(size=(60, 20, 3)), rng.integers(0, 2, 60)
    x[np.arange(60), 5 + 8 * y, 0] += 4.0
    np.save("vit.npy", mae[None].astype(np.float32))
    np.save("port.npy", np.vstack([mae[:1], points]).astype(np.float32))
    np.save("before.npy", learned)
    np.save("after.npy", learned + 0.1 * learned.std() * rng.normal(size=learned.shape))
    np.save("dumped_table.npy", load("rope", 8192, 128).table().astype(np.float32))
    np.savez("patients.npz", X=x, y=y, groups=np.repeat(np.arange(12), 5))
    np.savetxt("times.csv", np.cumsum(rng.exponential(size=60)), fmt="%.3f")


def in_one_line(text):
    return " ".join(text.split())


def questions():
    """Those that take seconds, of training mostly, are of `make test-all`."""
    for one in QUESTIONS["question"]:
        marks = [pytest.mark.long] * one.get("long", False)
        yield pytest.param(one, id=one["asked"][:60], marks=marks)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("question", [*questions()])
def test_a_question_is_answered(run, desk, question):
    if "--baseline" in question["commands"][0]:  # last week's answer, to both
        stored = json.loads(run("check-faithful", "yarn.json", "config.json", "--json").out)
        stored["results"][1]["spec"] = "changed.json"
        Path("base.json").write_text(json.dumps(stored))
    said = ""
    for command in question["commands"]:
        done = run(*shlex.split(command))
        said += done.out + done.err
    assert done.status == question.get("status", 0), done.err
    for words in question["words"]:
        assert words in in_one_line(said)
    for name in question.get("files", ()):
        assert Path(name).stat().st_size > 100


def test_there_are_forty():
    asked = [one["asked"] for one in QUESTIONS["question"]]
    assert len(asked) == len(set(asked)) == 40
    assert all(one["commands"] and one["words"] for one in QUESTIONS["question"])

"""Targets of `fuzz`: command lines with files that they may name, folders of `train`."""

import io
import json
import random
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import numpy as np
import typer
from fuzz import LONGEST, ended, mutated, target
from fuzz_answers import LLAMA, entry, tampered
from stored import put
from test_rough import NUMBERS, PLAIN, TEXTS, WHOLE
from tiny_models import write_model

from pefourier.cli.main import main
from pefourier.cli.program import program
from pefourier.pages.training import read_train_folder, settings_part
from pefourier.train.report import sentences, tables

COMMANDS = ["context", "design", "relations", "resize", "usage", "compare", "report"]
FLAG, TEXT, NUMBER = "BoolParamType", "StringParamType", "FuncParamType"
OWN = {  # values beside numbers and texts that options know
    "--against": ["scaling-ignored", "base=1e6", "base=x", "partial-ignored", "local-for-global"],
    "--for": ["turns", "distance", "rank", "condition", "bound", "wavelength=2", "phase=0.5:2"],
    "--grid": ["4x4", "2x3x4", "1x16", "0x4", "4x"],
    "--layers": ["0-1", "1", "9", "1-0"],
    "--from": ["2x8", "4x4", "4x4", "16"],
    "--to": ["3x5", "6x6", "6x6", "16", "4096"],
    "--stats": ["stats.json"],
    "--extend-from": ["model", "config.json"],
    "--out": ["out.npy", "out.safetensors", "out.html", "out.csv"],
}
OWN["--against"] += ["layout", "model", "codes.npy"]
SPECS = ["codes.npy", "model", "model/model.safetensors", "model/config.json", "x.gguf", "cut.npy"]
SPECS += ["config.json", "rope:d=8", "sinusoidal:d=8", "alibi", "axial:grid=4x4,d=8"]
SPECS += ["rope:scaling=yarn,factor=4,original=16,d=8", "t5", "dft:d=6", "missing.npy"]
OF_WEIGHTS = ["model", "model", "model/model.safetensors", "x.gguf"]
LOOKS = {"--plot", "--width", "--dpi", "--title", "--dark"}  # of figures, which take long
WORK = {"--length", "-S", "--d", "--lattice", "--to"}  # between small and refused lies work


@cache
def options_of(command: str) -> list[tuple[str, str, list[str]]]:
    """Each option of a command with the kind of its value and what that may be."""
    every = typer.main.get_command(program()).commands[command].params
    return [
        (p.opts[0], type(p.type).__name__, list(getattr(p.type, "choices", ())))
        for p in every
        if p.opts[0][0] == "-" and p.opts[0] not in LOOKS
    ]


def furnish(rng: random.Random) -> None:
    """The files that `SPECS` and options name, one of them damaged."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    np.save("codes.npy", numbers.normal(size=(16, 8)))
    write_model(Path("model"))
    put("cut.npy", mutated(rng, Path("codes.npy").read_bytes()))
    keys = b"".join(entry(name, value) for name, value in LLAMA.items())
    head = [b"GGUF", (3).to_bytes(4, "little"), bytes(8), len(LLAMA).to_bytes(8, "little")]
    put("x.gguf", b"".join(head) + keys)
    stats = [{"layer": 0, "head": 0, "q_abs_mean": [1.0] * 4, "k_abs_mean": [1.0] * 4}]
    put("stats.json", tampered(rng, json.dumps(stats).encode()))
    config = Path("model/config.json").read_bytes()
    put("config.json", tampered(rng, config))
    if rng.random() < 0.3:
        put("model/config.json", tampered(rng, config))
    elif rng.random() < 0.2:
        put("model/model.safetensors", mutated(rng, Path("model/model.safetensors").read_bytes()))


def value_of(rng: random.Random, name: str, choices: list[str]) -> str:
    """A value that an option may take, or another."""
    known = choices or OWN.get(name, [])
    if known and rng.random() < 0.9:
        return rng.choice(known)
    if name in WORK and rng.random() < 0.9:
        return rng.choice(WHOLE)
    return rng.choice(rng.choice([PLAIN, PLAIN, NUMBERS, TEXTS, SPECS]))


def command_line(rng: random.Random) -> list[str]:
    """A command with SPECs and options."""
    command = rng.choice(COMMANDS)
    count = {"usage": 1, "resize": 1, "compare": 2, "design": 0}.get(command)
    named = OF_WEIGHTS if command == "usage" and rng.random() < 0.9 else SPECS
    words = rng.sample(named, rng.choice([1, 1, 2]) if count is None else count)
    known = options_of(command)
    always = {"resize": ["--from", "--to"]}.get(command, [])
    always += ["--length", "--d"] * (command == "design") + ["--out"] * (command == "report")
    drawn = rng.sample(known, rng.choice([0, 0, 1, 1, 2]))
    for name, kind, choices in drawn + [one for one in known if one[0] in always]:
        words += [name] if kind == FLAG else [name, value_of(rng, name, choices)]
    return [command, *words]


def typed(words: list[str]) -> object:
    """What is wrong with how a command line ends: its status, or what it writes on stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(words)
    lines = err.getvalue().splitlines()
    plain = all(line.startswith("pefourier: ") and len(line) < LONGEST for line in lines)
    if status in (0, 1, 2) and plain and (status != 2 or lines):
        return None
    return ("command", words, status, err.getvalue()[-300:])


@target
def command_lines(rng: random.Random) -> object:
    """Any command that analyses, with its own options, on files of which some are damaged."""
    furnish(rng)
    words = command_line(rng)
    if words[0] == "report" and rng.random() < 0.9:
        words[0] = "relations"  # a page of figures takes as long as twenty other answers
        words = words[: words.index("--out")]
    return typed(words)


@cache
def trained() -> dict[str, bytes]:
    """The files of a small folder of `train`, as they would have been written."""
    folder = Path(__file__).parents[1] / "figures" / "leaky-100"
    return {name: (folder / name).read_bytes() for name in ("config.json", "results.jsonl")}


@target
def report_folders(rng: random.Random) -> object:
    """A folder of training that somebody changed makes a page, or is refused."""
    files = dict(trained())
    if rng.random() < 0.5:
        files["config.json"] = tampered(rng, files["config.json"])
    else:
        lines = files["results.jsonl"].splitlines()
        for at in rng.sample(range(len(lines)), rng.choice([1, 1, 3])):
            lines[at] = tampered(rng, lines[at])
        files["results.jsonl"] = b"\n".join(lines) + b"\n"
    for name, content in files.items():
        put(name, content)

    def act() -> bool:
        found = read_train_folder(".")
        return all([settings_part(found), sentences(found.summary), tables(found.summary)])

    return ended(act)

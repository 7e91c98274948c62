"""Targets of `fuzz`: what the program wrote itself, headers of GGUF, one's own .csv."""

import copy
import json
import random
from functools import cache
from typing import Any

import numpy as np
from fuzz import ended, mutated, target
from stored import put

from pefourier.encodings import load
from pefourier.encodings.sources.gguf_file import read_gguf
from pefourier.questions.context import describe_context
from pefourier.questions.faithful import assess
from pefourier.report import context, faithful
from pefourier.report.baseline import judge, read_baseline
from pefourier.report.forms import as_json
from pefourier.report.frame import Answer
from pefourier.train.data.load import load_task
from pefourier.train.options import Options

ODD = [None, True, 0, -1, 2**63, 10**400, 0.5, 1e308, -1e308, float("nan"), float("inf"), "", "x"]
ODD += ["\0", "é" * 999, [], ["x"], [[]], [1, [2]], {}, {"x": 1}, {"": []}, [0] * 99, "1e999"]


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every object and list in a tree of JSON with each of its keys."""
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [(tree, key) for key in keys] + [p for key in keys for p in places(tree[key])]


def tampered(rng: random.Random, text: bytes) -> bytes:
    """JSON in which a value or two are others, or missing; sometimes other bytes."""
    if rng.random() < 0.15:
        return mutated(rng, text)
    tree = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        holder, key = rng.choice(places(tree) or [([0], 0)])
        if rng.random() < 0.15:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(rng.choice(ODD))
    return json.dumps(tree).encode()


@cache
def answered(command: str) -> tuple[Answer, bytes]:
    """An answer, and what the command writes for it."""
    if command == "context":
        own, found = describe_context("rope:scaling=yarn,factor=2,original=32", 64, None, 16)
        answer = Answer(own[0], found)
        return answer, as_json(context.TOLD.page([answer])).encode()
    enc = load("rope:d=8", 20)
    answer = Answer(enc, assess(enc))
    return answer, as_json(faithful.TOLD.page([answer])).encode()


@target
def baselines(rng: random.Random) -> object:
    """A stored answer that somebody changed is compared with, or refused."""
    command = rng.choice(["check-faithful", "context"])
    answer, text = answered(command)
    put("base.json", tampered(rng, text))

    def act() -> bool:
        found = judge(read_baseline("base.json", command), [answer])
        return all(one.text.isprintable() for group in found for one in group)

    return ended(act)


def string(text: str) -> bytes:
    """A string of GGUF."""
    return len(text.encode()).to_bytes(8, "little") + text.encode()


def gguf_value(rng: random.Random) -> bytes:
    """A type and a value of a GGUF header, mostly whole."""
    kind = rng.choice([4, 4, 6, 6, 7, 8, 8, 9, 9, 10, 12, rng.randrange(20)])
    if kind == 8:
        body = string(rng.choice(["llama", "yarn", "linear", "none", "x" * 300]))
    elif kind == 9:
        count = rng.choice([0, 1, 3, 3, 2**20, 2**60])
        inner = rng.choice([4, 6, 8, 9])
        body = inner.to_bytes(4, "little") + count.to_bytes(8, "little") + rng.randbytes(24)
    else:
        sizes = {0: 1, 1: 1, 2: 2, 3: 2, 7: 1, 10: 8, 11: 8, 12: 8}
        body = rng.choice([rng.randbytes(8), (64).to_bytes(8, "little")])[: sizes.get(kind, 4)]
    return kind.to_bytes(4, "little") + body


def entry(name: str, value: int | float | str) -> bytes:
    """A key of a GGUF header with a value of the usual type."""
    if isinstance(value, str):
        return string(name) + (8).to_bytes(4, "little") + string(value)
    kind, form = (6, "<f4") if isinstance(value, float) else (4, "<u4")
    return string(name) + kind.to_bytes(4, "little") + np.array(value, form).tobytes()


LLAMA = {"general.architecture": "llama", "llama.context_length": 64, "llama.block_count": 2}
LLAMA |= {"llama.embedding_length": 64, "llama.attention.head_count": 4}
LLAMA |= {"llama.rope.dimension_count": 16, "llama.rope.freq_base": 1e4}
SCALED = ["llama.rope.scaling.type", "llama.rope.scaling.factor", "tokenizer.ggml.tokens"]
SCALED += ["llama.rope.scaling.original_context_length", "llama.attention.sliding_window"]


@target
def gguf_headers(rng: random.Random) -> object:
    """The rotation of a GGUF file, or a line that names the file."""
    keys = [entry(name, value) for name, value in LLAMA.items()]
    for _ in range(rng.choice([0, 1, 2])):
        keys[rng.randrange(len(keys))] = string(rng.choice([*LLAMA, *SCALED])) + gguf_value(rng)
    tensor = string("rope_freqs.weight") + (1).to_bytes(4, "little") + (8).to_bytes(8, "little")
    tensor += rng.choice([0, 0, 1, 99]).to_bytes(4, "little") + bytes(8)
    counts = rng.choice([1, 1, 0, 2**62]), rng.choice([len(keys), len(keys), 2**40])
    head = b"GGUF" + (3).to_bytes(4, "little") + b"".join(n.to_bytes(8, "little") for n in counts)
    body = head + b"".join(keys) + tensor
    body += bytes(-len(body) % 32) + np.ones(8, "<f4").tobytes()
    put("x.gguf", mutated(rng, body) if rng.random() < 0.4 else body)
    return ended(lambda: len(read_gguf("x.gguf", rng.choice([None, 9]), None)), named="x.gguf")


@target
def training_csv(rng: random.Random) -> object:
    """Recordings and examples in a .csv of one's own, damaged."""
    rows = np.random.default_rng(rng.randrange(2**32)).normal(size=(60, 2)).round(3)
    names = rng.choice(["a,b,label", "time,b,label", "a,b,y", "x"])
    labels = rng.choice([["0", "1"], ["normal", "anomaly"], ["a", "b", "c"], ["0.0", "1.0"], [""]])
    times = rng.choice([str, lambda i: f"2024-01-{1 + i % 28:02d}T00:00", lambda i: ""])
    lines = [f"{times(i)},{b},{labels[i % len(labels)]}" for i, (_, b) in enumerate(rows)]
    separator = rng.choice([",", ",", ",", ";", "\t"])
    text = "\n".join([names, *lines][: rng.choice([1, 2, 61, 61, 61])]).replace(",", separator)
    put("x.csv", mutated(rng, text.encode()) if rng.random() < 0.6 else text.encode())
    return ended(lambda: bool(load_task("x.csv", Options(window=rng.choice([None, 8]))).folds))
